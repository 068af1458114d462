"""Values as text: names that are shown, numbers as people write them, rows and grids as text.

Names from outside become one line in which a terminal acts on nothing (`visible`), a notebook
(`html_table`), an XML file (`printable`) or a spreadsheet (`harmless`). `format_value` is the only
number formatter of the package. Rows (dicts) become CSV and JSON, grids (a header and lines of
text) aligned text, Markdown and LaTeX.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from numbers import Real
from typing import TypeVar

T = TypeVar("T")

_KEPT = "\u200c\u200d"  # joiners, which scripts and emoji need
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
_FORMULA = ("=", "+", "-", "@", "\t", "\n", "＝", "＋", "－", "＠")


def visible(text: str) -> str:
    r"""Return `text` with escapes in place of line ends, control characters and what reorders text.

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
    """Return a small HTML table for notebooks; everything in it is escaped.

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


def printable(value: object) -> str:
    """Return any value as text that XML and UTF-8 can hold.

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
    """Return a value as people write it.

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


def harmless(value: T) -> T | str:
    """Return a cell of CSV that no spreadsheet takes for a formula.

    Parameters
    ----------
    value : object
        Only text is changed.

    Returns
    -------
    object
        The value; text that starts like a formula and is no number has a ' before it.

    Examples
    --------
    >>> harmless("=1+1"), harmless("-0.5"), harmless(-0.5)
    ("'=1+1", '-0.5', -0.5)
    """
    if not isinstance(value, str):
        return value
    text = value.replace("\r\n", "\n").replace("\r", "\n")  # a bare \r would end the row
    return f"'{text}" if text.startswith(_FORMULA) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        return text.strip() == text and math.isfinite(float(text))
    except ValueError:
        return False


def finite(value: object) -> object:
    """Return a value as JSON has it: lists for arrays, None for numbers that are not finite.

    >>> finite({"ends": (0.5, float("inf")), "counts": [1, 2]})
    {'ends': [0.5, None], 'counts': [1, 2]}
    """
    if hasattr(value, "tolist"):  # numpy's arrays and numbers
        return finite(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def csv_of(lines: Sequence[Mapping[str, object]], header: Iterable[str] = ()) -> str:
    """Return rows as CSV.

    Parameters
    ----------
    lines : sequence of mappings
        All with the same keys. A mapping or list in a cell is written as JSON, and text that a
        spreadsheet would run as a formula gets a ' before it.
    header : iterable of str, default ()
        The columns, if there are no rows.

    Returns
    -------
    str

    Examples
    --------
    >>> print(csv_of([{"name": "=1+1", "more": {"n": 2}}]), end="")
    name,more
    '=1+1,"{""n"": 2}"
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([harmless(name) for name in (lines[0] if lines else header)])
    writer.writerows([harmless(_flat(value)) for value in line.values()] for line in lines)
    return text.getvalue()


def _flat(value: object) -> object:
    return json.dumps(finite(value)) if isinstance(value, Mapping | list | tuple) else value


def json_of(lines: Sequence[Mapping[str, object]]) -> str:
    """Return rows as a JSON list of objects.

    Parameters
    ----------
    lines : sequence of mappings
        The rows.

    Returns
    -------
    str
        One object per line; numbers that are not finite are null.

    Examples
    --------
    >>> print(json_of([{"name": "a", "n": float("nan")}]), end="")
    [
    {"name": "a", "n": null}
    ]
    """
    objects = (json.dumps(finite(row), ensure_ascii=False, allow_nan=False) for row in lines)
    return "[\n" + ",\n".join(objects) + "\n]\n"


def text_of(grid: Sequence[Sequence[str]]) -> str:
    """Return a grid as text in columns.

    Parameters
    ----------
    grid : sequence of rows of text
        The header first; all rows have the same length.

    Returns
    -------
    str

    Examples
    --------
    >>> print(text_of([["metric", "value"], ["P@1", "0.5"]]))
    metric  value
    P@1     0.5
    """
    widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
    lines = [
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) for line in grid
    ]
    return "\n".join(line.rstrip() for line in lines)


def markdown_of(grid: Sequence[Sequence[str]]) -> str:
    """Return a grid as a Markdown table.

    Parameters
    ----------
    grid : sequence of rows of text
        The header first; its cells are Markdown already.

    Returns
    -------
    str

    Examples
    --------
    >>> print(markdown_of([["metric", "value"], ["P@1", "0.5"]]))
    | metric | value |
    |---|---|
    | P@1 | 0.5 |
    """
    lines = ["| " + " | ".join(line) + " |" for line in grid]
    return "\n".join([lines[0], "|" + "---|" * len(grid[0]), *lines[1:]])


def latex_of(grid: Sequence[Sequence[str]], numbers: int) -> str:
    """Return a grid as a LaTeX tabular; names in it cannot become markup.

    Parameters
    ----------
    grid : sequence of rows of text
        The header first.
    numbers : int
        How many columns, counted from the right, hold numbers; they are set as mathematics.

    Returns
    -------
    str

    Examples
    --------
    >>> print(latex_of([["metric", "at_most"], ["P@1", "0.5 ± 0.1"]], 1))
    \\begin{tabular}{lr}
    metric & at\\_most \\\\
    \\hline
    P@1 & $0.5 \\pm 0.1$ \\\\
    \\end{tabular}
    """
    names = len(grid[0]) - numbers
    body = [
        [*(cell.translate(_LATEX) for cell in line[:names]), *map(_formula, line[names:])]
        for line in grid[1:]
    ]
    cells = [[cell.translate(_LATEX) for cell in grid[0]], *body]
    head, *lines = [" & ".join(line) + r" \\" for line in cells]
    columns = "l" * names + "r" * numbers
    return "\n".join(
        [rf"\begin{{tabular}}{{{columns}}}", head, r"\hline", *lines, r"\end{tabular}"]
    )


def _formula(cell: str) -> str:
    text = cell.replace("±", r"\pm").replace("−", "-").replace("∞", r"\infty")
    return f"${text}$" if text else ""


_LATEX = str.maketrans(
    {character: "\\" + character for character in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
)
