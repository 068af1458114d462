"""Values and names as text: one number format for all, and names that no terminal would act on.

`format_value` is the only number formatter of the package: tables, charts, alt texts and the
command line use it.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from html import escape
from numbers import Real

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


_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def printable(value: object) -> str:
    """Any value as text that XML and UTF-8 can hold.

    Parameters
    ----------
    value : object
        Written by `str`.

    Returns
    -------
    str
        With � for every character that they cannot hold.

    Examples
    --------
    >>> printable("a\\x00b")
    'a�b'
    """
    return _UNPRINTABLE.sub("\ufffd", str(value))


def format_value(value: object, spec: str = "") -> str:
    """A value as people write it.

    Parameters
    ----------
    value : object
        None or NaN (written –), a truth value (yes, no), a number, or anything else, which is
        written as `printable` text.
    spec : str, optional
        Format of a number, as in `format(value, spec)`. By default whole numbers have their
        thousands separated and others four significant digits. With "," all numbers have their
        thousands separated (12,346 instead of 1.235e+04). A number of more than nine digits, or
        of more than four before decimals, is written with an exponent, whatever `spec` says.

    Returns
    -------
    str
        The text; negative numbers have a true minus sign.

    Examples
    --------
    >>> format_value(-0.123456), format_value(12345), format_value(0.5, ".1%")
    ('−0.1235', '12,345', '50.0%')
    >>> format_value(12345.678), format_value(12345.678, ","), format_value(0.123456, ",")
    ('1.235e+04', '12,346', '0.1235')
    >>> format_value(float("nan")), format_value(True), format_value(-6.7e32, ".1f")
    ('–', 'yes', '−6.7e+32')
    """
    if value is None:
        return "–"
    if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):  # numpy's, too
        return "yes" if value else "no"
    if isinstance(value, Real):
        return _number(value, spec)
    return printable(value)


def _number(number: Real, spec: str) -> str:
    value = float(number)
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if spec in ("", ","):
        whole = value.is_integer() and abs(value) < 1e15
        separated = spec == "," and 999.95 <= abs(value) < 1e9
        text = format(value + 0.0, ",.0f" if whole or separated else ".4g")  # + 0.0: no "-0"
    else:
        most = 1e4 if re.fullmatch(r",?\.[1-9][0-9]*f", spec) else 1e9
        fits = abs(value) < most or spec[-1] not in "f%"
        text = format(number, spec if fits else ".2g")
    return text.replace("-", "−")
