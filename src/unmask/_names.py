"""Names and ids: many strings in one array, numbered by hashing, matched with others.

A `Strings` holds n texts as one UTF-8 buffer and n + 1 offsets; a text becomes a Python string when
it is asked for, so that a million ids cost their bytes and eight more each. An `Index` gives
every distinct string a number, in the order in which they come. `matched_rows` says
where the rows of one thing stand in another, and `ids_of_rows` refuses what only position joins.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmask._kernels import tables as kernels
from unmask._messages import setting
from unmask._text import visible
from unmask._typing import Indices, Ints

Bytes: TypeAlias = NDArray[np.uint8]

_DECODED = 1 << 16
_SHOWN = 3
_SEED = np.uint64(secrets.randbits(64))


class Strings(Sequence[str]):
    """n texts as one array of bytes; behaves as a tuple of `str`.

    Parameters
    ----------
    data : array of uint8
        The texts one after the other, as UTF-8.
    offsets : integers of shape (n + 1,)
        Where each begins; the last entry is where the last one ends.

    Examples
    --------
    >>> ids = Strings.of(["b", "a", "ü"])
    >>> ids[2], len(ids), ids.take([1, 0])
    ('ü', 3, Strings(['a', 'b']))
    """

    __slots__ = ("_repeated", "data", "offsets")

    def __init__(self, data: Bytes, offsets: Ints) -> None:
        """Trusts its arrays; see `of`."""
        self.data, self.offsets = data, offsets
        self._repeated: Ints | None = None

    @classmethod
    def of(cls, values: Iterable[str], name: str = "names") -> Strings:
        """Make them of strings; `name` is what they are called in messages."""
        if isinstance(values, Strings):
            return values
        listed = list(values)
        try:
            encoded = [text.encode() for text in listed]
        except (AttributeError, UnicodeEncodeError):
            wrong = next(v for v in listed if not isinstance(v, str) or not encodes(v))
            raise ValueError(f"{name} must be text; got {wrong!r:.80}.") from None
        offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
        np.cumsum([len(text) for text in encoded], out=offsets[1:])
        return cls(np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets)

    @classmethod
    def checked(cls, data: ArrayLike, offsets: ArrayLike, name: str) -> Strings:
        """Make them of arrays that nobody vouches for, such as those of a file."""
        buffer, starts = np.asarray(data), np.asarray(offsets)
        sound = buffer.dtype == np.uint8 and starts.dtype.kind in "iu"
        if not sound or buffer.ndim != 1 or starts.ndim != 1 or not len(starts):
            raise ValueError(
                f"{name} must be bytes and offsets; got {buffer.dtype}, {starts.dtype}."
            )
        starts = starts.astype(np.int64)
        if starts[0] != 0 or starts[-1] != len(buffer) or (np.diff(starts) < 0).any():
            raise ValueError(f"the offsets of {name} do not fit their {len(buffer)} bytes.")
        made = cls(np.ascontiguousarray(buffer), starts)
        try:
            for _ in made:
                pass
        except UnicodeDecodeError as error:
            raise ValueError(f"{name} are not UTF-8 text ({error}).") from None
        return made

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> Strings: ...

    def __getitem__(self, index: int | slice) -> str | Strings:
        """Return one text, or those of a slice."""
        if isinstance(index, slice):
            return self.take(np.arange(len(self))[index])
        number = range(len(self))[index]
        return self.data[self.offsets[number] : self.offsets[number + 1]].tobytes().decode()

    def __iter__(self) -> Iterator[str]:
        """Yield the texts, decoded some thousands at a time."""
        for start in range(0, len(self), _DECODED):
            bounds = self.offsets[start : start + _DECODED + 1].tolist()
            block = self.data[bounds[0] : bounds[-1]].tobytes()
            for begin, end in pairwise(bounds):
                yield block[begin - bounds[0] : end - bounds[0]].decode()

    def __eq__(self, other: object) -> bool:
        """Return whether another sequence has equal texts."""
        if isinstance(other, Strings):
            lengths = np.array_equal(np.diff(self.offsets), np.diff(other.offsets))
            return lengths and np.array_equal(self._bytes(), other._bytes())
        if isinstance(other, str) or not isinstance(other, Sequence):
            return NotImplemented
        return tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Show the first few."""
        texts = [repr(self[i]) for i in range(min(len(self), _SHOWN))]
        rest = [f"… {len(self):,} in all"] if len(self) > _SHOWN else []
        return f"Strings([{', '.join([*texts, *rest])}])"

    def __reduce__(self) -> tuple[type[Strings], tuple[Bytes, Ints]]:
        """Pickle the arrays."""
        return Strings, (self.data, self.offsets)

    def _bytes(self) -> Bytes:
        return self.data[self.offsets[0] : self.offsets[-1]]

    def take(self, rows: ArrayLike) -> Strings:
        """Return the texts with these numbers, in this order."""
        numbers = np.asarray(rows, dtype=np.int64)
        lengths = np.diff(self.offsets)[numbers]
        offsets = np.zeros(len(numbers) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        data = np.empty(int(offsets[-1]), dtype=np.uint8)
        kernels.take_strings(self.data, self.offsets, numbers, offsets[:-1], data)
        return Strings(data, offsets)

    def repeated(self) -> Ints:
        """Return the places of texts that stand further ahead already; computed once."""
        if self._repeated is None:
            hashes = np.empty(len(self), dtype=np.uint64)
            kernels.hashes(self.data, self.offsets, _SEED, hashes)
            hashes.sort()
            again = np.zeros(len(self), dtype=bool)
            if (hashes[1:] == hashes[:-1]).any():  # nearly always because strings are equal
                again[:] = True
                again[np.unique(Index(len(self)).add(self), return_index=True)[1]] = False
            self._repeated = np.flatnonzero(again)
        return self._repeated

    def spans(self) -> Ints:
        """Return the first byte of each text and the byte after its last, shape (n, 2)."""
        return np.stack([self.offsets[:-1], self.offsets[1:]], axis=1)


def encodes(text: str) -> bool:
    """Return whether a string can be written as UTF-8; half of a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def joined(parts: list[Strings]) -> Strings:
    """Join parts into one, after which `parts` is empty."""
    lengths = [np.diff(part.offsets) for part in parts]
    data = [part._bytes() for part in parts]
    parts.clear()
    counts = np.concatenate([np.empty(0, np.int64), *lengths])
    del lengths
    offsets = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=offsets[1:])
    del counts
    return Strings(np.concatenate([np.empty(0, np.uint8), *data]), offsets)


class Index:
    """Numbers for distinct strings, 0, 1, … in the order in which they come.

    Examples
    --------
    >>> index = Index()
    >>> index.add(Strings.of(["law", "art", "law"])), index.names()
    (array([0, 1, 0], dtype=int32), Strings(['law', 'art']))
    >>> index.find(Strings.of(["art", "tax"]))
    array([ 1, -1], dtype=int32)
    """

    def __init__(self, expected: int = 0) -> None:
        """Start empty, with room for `expected` strings."""
        self.count = 0
        size = 1 << max(10, (2 * expected).bit_length())
        self._slots = np.zeros(size, dtype=np.int32)
        self._data = np.zeros(8 * size, dtype=np.uint8)
        self._offsets = np.zeros(size, dtype=np.int64)

    def add(self, strings: Strings) -> Indices:
        """Return the number of each string; new ones get the next free number."""
        return self.add_spans(strings.data, strings.spans())

    def add_spans(self, data: Bytes, spans: Ints) -> Indices:
        """Return the number of each string; they stand anywhere in `data`."""
        codes = np.empty(len(spans), dtype=np.int32)
        first = 0
        while first < len(spans):
            first, self.count = kernels.intern(
                data, spans, first, _SEED, True,
                self._slots, self._data, self._offsets, self.count, codes,
            )  # fmt: skip
            if first < len(spans):
                self._grow(int(spans[first, 1] - spans[first, 0]))
        return codes

    def find(self, strings: Strings) -> Indices:
        """Return the number of each string, −1 for one that is not there."""
        codes = np.empty(len(strings), dtype=np.int32)
        kernels.intern(
            strings.data, strings.spans(), 0, _SEED, False,
            self._slots, self._data, self._offsets, self.count, codes,
        )  # fmt: skip
        return codes

    def names(self) -> Strings:
        """Return the distinct strings, by number."""
        offsets = self._offsets[: self.count + 1].copy()
        return Strings(self._data[: int(offsets[-1])].copy(), offsets)

    def _grow(self, needed: int) -> None:
        filled = int(self._offsets[self.count])
        room = max(2 * len(self._data), filled + needed)
        if filled + needed > len(self._data):
            self._data = np.concatenate([self._data[:filled], np.zeros(room - filled, np.uint8)])
        if 2 * (self.count + 1) > len(self._slots):
            size = 2 * len(self._slots)
            self._offsets = np.concatenate([self._offsets, np.zeros(size, np.int64)])[:size]
            self._slots = np.zeros(size, dtype=np.int32)
            kernels.fill_slots(self._data, self._offsets, self.count, _SEED, self._slots)


def sorted_names(index: Index) -> tuple[tuple[str, ...], Indices]:
    """Return the names of an index in order of characters, and the new number of each code."""
    names = tuple(index.names())
    order = sorted(range(len(names)), key=names.__getitem__)
    rank = np.empty(len(names), dtype=np.int32)
    rank[order] = np.arange(len(names), dtype=np.int32)
    return tuple(names[i] for i in order), rank


def some(names: Iterable[str], count: int) -> str:
    """Return the first few of `count` names, as messages list them."""
    shown = [repr(visible(name))[:60] for name, _ in zip(names, range(_SHOWN), strict=False)]
    more = f" and {count - len(shown):,} more" if count > len(shown) else ""
    return ", ".join(shown) + more


def unique_index(strings: Strings, what: str) -> Index:
    """Make an index in which each string has its place as number; refuse repeated strings."""
    refuse_repeated(strings, what)
    index = Index(len(strings))
    index.add(strings)
    return index


def refuse_repeated(strings: Strings, what: str) -> None:
    """Refuse strings that stand twice."""
    again = strings.repeated()
    if len(again):
        raise ValueError(
            f"{what} must be different; {len(again):,} stand a second time: "
            f"{some((strings[int(i)] for i in again[:_SHOWN]), len(again))}."
        )


def row_ids(ids: Sequence[str] | None, n: int, what: str) -> Strings | None:
    """Return the ids of n rows of `what`, if there are any: one per row, all different."""
    if ids is None:
        return None
    strings = Strings.of(ids, "ids")
    if len(strings) != n:
        raise ValueError(f"{len(strings)} ids for {n} rows of {what}; give one per row.")
    refuse_repeated(strings, "ids")
    return strings


def matched_rows(ids: Strings, others: Strings, what: str, other: str) -> Ints:
    """Return for each of `ids` its place in `others`; the two must name the same rows.

    >>> matched_rows(Strings.of(["a", "b"]), Strings.of(["b", "a"]), "labels", "predictions")
    array([1, 0])
    >>> matched_rows(Strings.of(["a", "b"]), Strings.of(["b", "c"]), "labels", "predictions")
    Traceback (most recent call last):
    ValueError: labels and predictions name different rows: 1 id of the labels has no predictions
    ('a'); 1 id of the predictions has no labels ('c').
    """
    refuse_repeated(ids, f"ids of the {what}")
    places = unique_index(others, f"ids of the {other}").find(ids)
    if len(ids) == len(others) and (len(ids) == 0 or places.min() >= 0):
        return places.astype(np.int64)
    is_matched = np.zeros(len(others), dtype=bool)
    is_matched[places[places >= 0]] = True
    faults = [
        _unmatched(strings, np.flatnonzero(lacking), owner, partner)
        for strings, lacking, owner, partner in (
            (ids, places < 0, what, other),
            (others, ~is_matched, other, what),
        )
        if lacking.any()
    ]
    raise ValueError(f"{what} and {other} name different rows: {'; '.join(faults)}.")


def ids_of_rows(ids: Sequence[str] | None, n: int, others: Strings | None) -> Sequence[str] | None:
    """Return ids of n labelled rows by which predictions can be matched; None is by position.

    Predictions without ids stand in the order of the labels. Where predictions alone have ids,
    these must be the numbers of the rows.

    >>> ids_of_rows(None, 2, Strings.of(["1", "0"]))
    Strings(['0', '1'])
    >>> ids_of_rows(None, 2, Strings.of(["d7", "d3"]))
    Traceback (most recent call last):
    ValueError: predictions have ids ('d7', 'd3') and labels have none, so that nothing tells \
which row is which; give the labels with ids (`id`), or predictions without, in the order of the \
labels.
    """
    if ids is not None or others is None:
        return ids
    numbers = Strings.of(map(str, range(n)))
    if len(others) == n and not len(others.repeated()) and set(others) == set(numbers):
        return numbers
    raise ValueError(
        f"predictions have ids ({some(others, len(others))}) and labels have none, so that nothing "
        f"tells which row is which; give the labels with ids ({setting('id')}), or predictions "
        "without, in the order of the labels."
    )


def _unmatched(strings: Strings, rows: Ints, owner: str, partner: str) -> str:
    noun = "id of the {} has" if len(rows) == 1 else "ids of the {} have"
    names = some((strings[int(row)] for row in rows[:_SHOWN]), len(rows))
    return f"{len(rows):,} {noun.format(owner)} no {partner} ({names})"
