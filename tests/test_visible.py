"""Names from outside: which characters are shown as they are, and which as escapes."""

from __future__ import annotations

import pytest

from unmask._text import visible


@pytest.mark.parametrize(
    ("character", "shown"),
    [
        ("a", "a"), ("é", "é"), (" ", " "), ("\u200c", "\u200c"), ("\u200d", "\u200d"),
        ("\n", r"\n"), ("\x1b", r"\x1b"), ("\x85", r"\x85"), ("\u200b", r"\u200b"),
        ("\u2028", r"\u2028"), ("\u2029", r"\u2029"), ("\u202e", r"\u202e"),
        ("\udc7f", r"\udc7f"), ("\udc80", r"\x80"), ("\udcff", r"\xff"), ("\udd00", r"\udd00"),
        ("\ud800", r"\ud800"),
    ],
)  # fmt: skip
def test_what_a_terminal_would_obey_is_escaped(character: str, shown: str) -> None:
    """Bytes that are not UTF-8, which Python has as U+DC80 … U+DCFF, are shown as bytes."""
    assert visible(character) == shown
    assert visible(f"\n{character}.") == rf"\n{shown}."
