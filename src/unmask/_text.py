"""Names from outside as text that may be shown: one line, and nothing a terminal would obey."""

from __future__ import annotations

import unicodedata

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
