"""Limits on what an untrusted file may take: they stop decompression bombs, and can be raised.

Text compresses to a tenth, at best to a fiftieth; a file that grows more than `expansion` times
was made to fill memories. A data set costs at least a few numbers per column, so that one line
with a huge index, or a huge header, costs gigabytes; `columns` bounds that. JSON takes up to
thirty times its size in memory, so that `json` bounds its bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from unmask._messages import setting

FREE = 64 << 20
"""Bytes that any file may grow to."""


@dataclass(frozen=True)
class Limits:
    """The largest growth in decompression, number of features or labels, and bytes of JSON."""

    expansion: float = 200
    columns: int = 100_000_000
    json: int = 200_000_000


_current: ContextVar[Limits] = ContextVar("limits", default=Limits())  # noqa: B039 (frozen)


def current_limits() -> Limits:
    """The limits that hold here."""
    return _current.get()


@contextmanager
def limits(
    *, expansion: float | None = None, columns: int | None = None, json: int | None = None
) -> Iterator[Limits]:
    """Other limits for files that are read inside the block.

    Parameters
    ----------
    expansion : float, optional
        How many times larger a file may become when it is decompressed; at first 200.
    columns : int, optional
        How many features or labels it may have; at first 100 million.
    json : int, optional
        How many bytes of JSON are read; at first 200 million.

    Yields
    ------
    Limits
        All limits that hold inside the block; what is None stays as it was.

    Examples
    --------
    >>> with limits(columns=2**40) as raised:
    ...     raised.columns, raised.expansion
    (1099511627776, 200)
    """
    before = current_limits()
    chosen = Limits(
        expansion=before.expansion if expansion is None else expansion,
        columns=before.columns if columns is None else columns,
        json=before.json if json is None else json,
    )
    token = _current.set(chosen)
    try:
        yield chosen
    finally:
        _current.reset(token)


def _raised(name: str) -> str:
    """How to raise a limit."""
    return setting(name, of="data.limits")


def refuse_expansion(path: object, packed: int, unpacked: int, allowed: Limits) -> None:
    """Raise if `packed` bytes of a file became more than they may."""
    if unpacked > max(FREE, allowed.expansion * packed):
        raise ValueError(
            f"{path}: {packed:,} bytes unpack to more than {unpacked:,}, over "
            f"{allowed.expansion:g} times as many; if you trust the file, allow it with "
            f"{_raised('expansion')}."
        )


class Unpacked:
    """What a file has unpacked to so far; ValueError as soon as it is more than it may be."""

    def __init__(self, path: object, packed: int) -> None:
        """Of `packed` bytes, by the limits that hold now."""
        self.path, self.packed, self.allowed, self.total = path, packed, current_limits(), 0

    def add(self, size: int) -> None:
        """Count more bytes."""
        self.total += size
        refuse_expansion(self.path, self.packed, self.total, self.allowed)


def refuse_columns(path: object, columns: int, noun: str) -> None:
    """Raise if a file has more columns than it may."""
    if columns > current_limits().columns:
        raise ValueError(
            f"{path} has {columns:,} {noun}, more than {current_limits().columns:,}; if that is "
            f"right, allow it with {_raised('columns')}."
        )


def refuse_json(path: object, size: int) -> None:
    """Raise if a file has more bytes of JSON than it may."""
    if size > current_limits().json:
        raise ValueError(
            f"{path} has {size:,} bytes of JSON, more than {current_limits().json:,}; if you trust "
            f"the file, allow it with {_raised('json')}."
        )
