"""What all tasks need, once per worker: held in memory, or mapped from a file that all see."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

import numpy as np

from unmask import _io

if TYPE_CHECKING:
    from distributed import Worker

_HELD: dict[str, object] = {}


@dataclass(frozen=True)
class Box:
    """Keeps Dask from unpacking or rewriting a value."""

    value: Any


class NotHeldError(LookupError):
    """This process does not hold the shared value: it joined late, or dropped it."""


@dataclass(frozen=True)
class Held:
    """A value that every worker holds, under a token.

    Dask is asked to bring it (`adopt`), not to keep it: what tasks depend on in the eyes of the
    scheduler is dropped from workers whenever few tasks wait for it, and sent again for the next.
    """

    token: str

    @property
    def value(self) -> object:
        """The value, in a process that holds it."""
        try:
            return _HELD[self.token]
        except KeyError:
            raise NotHeldError(self.token) from None


def adopt(token: str, key: str, dask_worker: Worker) -> None:
    """On a worker: hold what Dask has brought; of others only the last, as clients may die."""
    for old in list(_HELD)[:-1]:
        _HELD.pop(old, None)
    _HELD[token] = cast(Box, dask_worker.data[key]).value


def holds(token: str) -> bool:
    """On a worker: whether it holds the value."""
    return token in _HELD


def forget(token: str) -> None:
    """On a worker: hold it no longer."""
    _HELD.pop(token, None)


@dataclass(frozen=True)
class Mapped:
    """A pickle whose arrays stand in a file, at `spans`."""

    head: bytes
    path: str
    spans: tuple[tuple[int, int], ...]

    @property
    def value(self) -> object:
        """The value, its arrays mapped."""
        if not self.spans:
            return pickle.loads(self.head)  # noqa: S301 (made by `mapped`)
        buffer = np.memmap(self.path, dtype=np.uint8, mode="c")
        return pickle.loads(  # noqa: S301
            self.head, buffers=[buffer[start:stop] for start, stop in self.spans]
        )


@contextmanager
def mapped(value: object, folder: Path) -> Iterator[Mapped]:
    """`value` with its arrays in a file in `folder`, which goes when the block ends."""
    arrays: list[pickle.PickleBuffer] = []
    head = pickle.dumps(value, protocol=5, buffer_callback=arrays.append)
    path, spans, offset = folder.resolve() / f".shared-{uuid4().hex}", [], 0
    try:
        with _io.atomic_write(path) as file:
            for array in arrays:
                raw = array.raw()
                file.write(raw)
                file.write(bytes(-raw.nbytes % 64))
                spans.append((offset, offset + raw.nbytes))
                offset += raw.nbytes + -raw.nbytes % 64
        yield Mapped(head, str(path), tuple(spans))
    finally:
        path.unlink(missing_ok=True)
