"""Values as words: how a number, a gap or a piece of text is written, everywhere the same."""

from __future__ import annotations

import math
import re
from numbers import Real
from typing import Any

_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def clean(given: Any) -> str:
    """`given` as text that XML and UTF-8 can hold; what they cannot becomes �.

    >>> clean("a\\x00b")
    'a�b'
    """
    return _UNPRINTABLE.sub("\ufffd", str(given))


def say(given: Any, spec: str = "") -> str:
    """A value for people: a true minus, grouped whole numbers, four digits unless told otherwise.

    `spec` is a format as in `format(given, spec)`, used for numbers only; a number of more than
    nine digits is not written out.

    >>> say(-0.123456), say(12345), say(0.5, ".1%"), say(float("nan")), say(True)
    ('−0.1235', '12,345', '50.0%', '–', 'yes')
    >>> say(-6.7e32, ".1f")
    '−6.7e+32'
    """
    if given is None:
        return "–"
    if isinstance(given, bool) or type(given).__name__ == "bool":  # numpy's bool is no `bool`
        return "yes" if given else "no"
    if isinstance(given, Real):
        return _number(given, spec)
    return clean(given)


def _number(given: Real, spec: str) -> str:
    value = float(given)
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if spec:
        fits = abs(value) < 1e9 or spec[-1] not in "f%"
        return format(given, spec if fits else ".2g").replace("-", "−")
    usual = ",.0f" if value.is_integer() and abs(value) < 1e15 else ".4g"
    return format(value + 0.0, usual).replace("-", "−")  # + 0.0: no minus before a zero
