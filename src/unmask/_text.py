"""Names from outside as text that may be shown: one line, and nothing a terminal would obey."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from html import escape

_KEPT = "\u200c\u200d"  # joiners, which scripts and emoji need


def visible(text: str) -> str:
    r"""`text` with escapes in place of line ends, control characters and what reorders text.

    Bytes of a file name that are not UTF-8 (surrogates in Python) are shown as bytes.

    >>> print(visible("a\x1b[31mb\nc \u202e \udcff"))
    a\x1b[31mb\nc \u202e \xff
    """
    if text.isprintable():  # which excludes all that follows
        return text
    return "".join(map(_shown, text))


def _shown(character: str) -> str:
    if character == " " or character in _KEPT:
        return character
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
        return character.encode("unicode_escape").decode()
    return character


def html_table(
    caption: str,
    header: Sequence[object],
    rows: Iterable[Sequence[object]],
    notes: Iterable[str] = (),
) -> str:
    """A small table for notebooks; everything in it is escaped.

    >>> html_table("a < b", ["x"], [[1]])
    '<table><caption>a &lt; b</caption><tr><th>x</th></tr><tr><td>1</td></tr></table>'
    """
    lines = [
        f"<tr>{''.join(f'<th>{_escaped(cell)}</th>' for cell in header)}</tr>" if header else "",
        *(f"<tr>{''.join(f'<td>{_escaped(cell)}</td>' for cell in row)}</tr>" for row in rows),
    ]
    below = "".join(f"<p>{_escaped(note)}</p>" for note in notes)
    return f"<table><caption>{_escaped(caption)}</caption>{''.join(lines)}</table>{below}"


def _escaped(value: object) -> str:
    return escape(visible(str(value)))
