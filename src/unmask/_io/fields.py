"""Fields of stored JSON records, checked: a field that is missing, of another type or out of range
raises a ValueError that names it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")
Fields = Mapping[str, Any]
LARGEST = 2**63 - 1


def whole(stored: Fields, name: str, *, low: int = 0, high: int = LARGEST) -> int:
    """A whole number from `low` to `high`.

    >>> whole({"n": 3}, "n"), whole({"n": 3}, "n", high=3)
    (3, 3)
    >>> whole({"n": 3.0}, "n")
    Traceback (most recent call last):
    ValueError: 'n' must be a whole number; got 3.0.
    """
    value = _field(stored, name, int, "a whole number")
    _refuse_outside(value, name, low, high)
    return int(value)


def number(
    stored: Fields, name: str, *, low: float = 0.0, high: float = 1e300, missing: bool = False
) -> float:
    """A finite number from `low` to `high`; nan for null where it may be `missing`.

    >>> number({"x": 2}, "x"), number({"x": None}, "x", missing=True)
    (2.0, nan)
    """
    if missing and name in stored and stored[name] is None:
        return math.nan
    value = _field(stored, name, (int, float), "a number")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{name!r} must be a finite number; got {value}.")
    _refuse_outside(value, name, low, high)
    return float(value)


def text(stored: Fields, name: str) -> str:
    """A text.

    >>> text({"a": "b"}, "a")
    'b'
    """
    return str(_field(stored, name, str, "a text"))


def truth(stored: Fields, name: str) -> bool:
    """True or false.

    >>> truth({"a": False}, "a")
    False
    """
    return bool(_field(stored, name, bool, "true or false"))


def record(stored: Fields, name: str) -> Fields:
    """A record within a record.

    >>> record({"a": {"b": 1}}, "a")
    {'b': 1}
    """
    fields: Fields = _field(stored, name, dict, "an object")
    return fields


def records(stored: Fields, name: str) -> list[Fields]:
    """A list of records.

    >>> records({"a": [{"b": 1}]}, "a")
    [{'b': 1}]
    """
    return list_of(stored, name, record)


def list_of(
    stored: Fields, name: str, of: Callable[..., T], *, length: int | None = None, **limits: Any
) -> list[T]:
    """A list whose entries are all read by one of these functions.

    >>> list_of({"a": [1, 2]}, "a", whole, high=2)
    [1, 2]
    >>> list_of({"a": [1, -2]}, "a", whole)
    Traceback (most recent call last):
    ValueError: 'a[1]' must be at least 0; got -2.
    """
    values = _field(stored, name, list, "a list")
    if length is not None and len(values) != length:
        raise ValueError(f"{name!r} must have {length} entries; got {len(values)}.")
    made = []
    for position, value in enumerate(values):
        place = f"{name}[{position}]"
        made.append(of({place: value}, place, **limits))
    return made


def _field(stored: object, name: str, kinds: type | tuple[type, ...], noun: str) -> Any:
    if not isinstance(stored, Mapping):
        raise ValueError(f"expected an object with a field {name!r}.")
    if name not in stored:
        raise ValueError(f"there is no field {name!r}.")
    value = stored[name]
    if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
        raise ValueError(f"{name!r} must be {noun}; got {_shown(value)}.")
    return value


def _refuse_outside(value: float, name: str, low: float, high: float) -> None:
    if value < low:
        raise ValueError(f"{name!r} must be at least {low}; got {_shown(value)}.")
    if value > high:
        raise ValueError(f"{name!r} must be at most {high}; got {_shown(value)}.")


def _shown(value: object) -> str:
    words = repr(value)
    return words if len(words) <= 40 else words[:40] + "…"
