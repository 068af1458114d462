"""What all tasks need, once per worker: held in memory, or mapped from a file that all see."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any
from uuid import uuid4

import numpy as np

from unmask import _files

_HELD: dict[str, Any] = {}
_HOLDING = RLock()


@dataclass(frozen=True)
class Box:
    """Keeps Dask from looking into a value that is to arrive as it is."""

    value: Any


@dataclass(frozen=True)
class Held:
    """A value that this process holds, or else fetches from another worker and then holds.

    Tasks do not depend on it in the eyes of the scheduler, which would otherwise drop a worker's
    copy whenever few tasks wait for it, and send it again for the next one.
    """

    key: str

    @property
    def value(self) -> Any:
        """The value; the threads of a worker wait for one fetch."""
        with _HOLDING:
            if self.key not in _HELD:
                _hold(self.key, _fetched(self.key).value)
            return _HELD[self.key]


def _fetched(key: str) -> Any:
    from distributed import Future, get_client

    return Future(key, get_client()).result()


def _hold(key: str, value: Any) -> None:
    """Keep a value, and of those before it only the last: their client may have died."""
    with _HOLDING:
        for old in list(_HELD)[:-1]:
            del _HELD[old]
        _HELD[key] = value


def keep_arrived(key: str, dask_worker: Any) -> None:
    """On a worker: hold what the scheduler has just placed there."""
    if key in dask_worker.data:
        _hold(key, dask_worker.data[key].value)


def forget(key: str) -> None:
    """On a worker: hold it no longer."""
    with _HOLDING:
        _HELD.pop(key, None)


@dataclass(frozen=True)
class Mapped:
    """A pickle whose arrays stand in a file, at `spans`."""

    head: bytes
    path: str
    spans: tuple[tuple[int, int], ...]

    @property
    def value(self) -> Any:
        """The value, its arrays mapped."""
        if not self.spans:
            return pickle.loads(self.head)  # noqa: S301 (made by `mapped`)
        whole = np.memmap(self.path, dtype=np.uint8, mode="c")
        return pickle.loads(  # noqa: S301
            self.head, buffers=[whole[start:stop] for start, stop in self.spans]
        )


@contextmanager
def mapped(value: Any, folder: Path) -> Iterator[Mapped]:
    """`value` with its arrays in a file in `folder`, which goes when the block ends."""
    arrays: list[pickle.PickleBuffer] = []
    head = pickle.dumps(value, protocol=5, buffer_callback=arrays.append)
    path, spans, at = folder.resolve() / f".placed-{uuid4().hex}", [], 0
    try:
        with _files.writing(path) as file:
            for array in arrays:
                raw = array.raw()
                file.write(raw)
                file.write(bytes(-raw.nbytes % 64))
                spans.append((at, at + raw.nbytes))
                at += raw.nbytes + -raw.nbytes % 64
        yield Mapped(head, str(path), tuple(spans))
    finally:
        path.unlink(missing_ok=True)
