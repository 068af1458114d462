"""Stored JSON, none of it trusted: files, their fields, and records that come in one by one.

Whatever is wrong with a JSON file is a ValueError that names it. It is not read if it is longer
than `limits` permit. A field of an object that is missing, of another type or out of range raises a
ValueError that names it (`whole`, `number`, `text` …).

Records are dicts of JSON values whose field `key` tells one from the others. `append_record` adds
one line to the journal `name.jsonl`, which is on the disk when the call returns; `pack_records`
moves all lines, sorted by key, into `name.jsonl.zst`, so that equal records give equal files.
A writer that is killed leaves at most one line without its end: readers ignore it and the next
writer cuts it off. Several processes may add to the same records: a lock on the folder lets one
at a time read or write, and of records with equal keys the first counts.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeGuard, TypeVar

from unmask._typing import PathLike, Record
from unmask.files.streams import atomic_write, contents, open_readable, refuse_json


def read_json(path: PathLike, content: bytes | None = None, *, follow: bool = True) -> Any:
    """Read a JSON file; `content` is what the file holds, if that is known.

    >>> read_json("a.json", b'{"n": 1}')
    {'n': 1}
    """
    if content is None:
        with open_readable(path, follow=follow) as file:
            content = read_json_bytes(path, file, os.fstat(file.fileno()).st_size)
    refuse_json(path, len(content))
    try:
        return json.loads(content, object_pairs_hook=distinct)
    except RecursionError:
        raise ValueError(f"{os.fspath(path)} is not JSON of ours: it is nested too deep.") from None
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)} is not JSON ({error}).") from None


def read_json_bytes(path: PathLike, file: BinaryIO, size: int) -> bytes:
    """Read the next `size` bytes of a file, if they are not too many to be JSON."""
    refuse_json(path, size)
    return file.read(size)


def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of JSON; refuse a key that stands twice, which could mean two things."""
    made = dict(pairs)
    if len(made) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return made


def is_name(name: object) -> TypeGuard[str]:
    """Return whether a name in a manifest can be that of a file in the folder itself.

    >>> is_name("shard-1"), is_name("../shard-1"), is_name("/etc/a"), is_name(".."), is_name(None)
    (True, False, False, False, False)
    """
    if not isinstance(name, str) or name in ("", ".", "..") or set(name) & set("/\\:"):
        return False
    return name.isprintable()


def is_inside(folder: Path, name: object) -> bool:
    """Return whether a name in a manifest means a file in the folder itself, links followed.

    >>> is_inside(Path("."), "shard-1"), is_inside(Path("."), "../shard-1")
    (True, False)
    """
    return is_name(name) and bool((folder / name).resolve().parent == folder.resolve())


T = TypeVar("T")
Fields = Mapping[str, Any]
LARGEST = 2**63 - 1


def whole(stored: Fields, name: str, *, low: int = 0, high: int = LARGEST) -> int:
    """Return a whole number from `low` to `high`.

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
    """Return a finite number from `low` to `high`; nan for null where it may be `missing`.

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
    """Return a text.

    >>> text({"a": "b"}, "a")
    'b'
    """
    return str(_field(stored, name, str, "a text"))


def truth(stored: Fields, name: str) -> bool:
    """Return true or false.

    >>> truth({"a": False}, "a")
    False
    """
    return bool(_field(stored, name, bool, "true or false"))


def record(stored: Fields, name: str) -> Fields:
    """Return a record within a record.

    >>> record({"a": {"b": 1}}, "a")
    {'b': 1}
    """
    fields: Fields = _field(stored, name, dict, "an object")
    return fields


def records(stored: Fields, name: str) -> list[Fields]:
    """Return a list of records.

    >>> records({"a": [{"b": 1}]}, "a")
    [{'b': 1}]
    """
    return list_of(stored, name, record)


def list_of(
    stored: Fields, name: str, of: Callable[..., T], *, length: int | None = None, **limits: Any
) -> list[T]:
    """Return a list whose entries are all read by one of these functions.

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


PACKED, JOURNAL = ".jsonl.zst", ".jsonl"
LEVEL = 19
"""The level of zstd: results are packed once, and kept under version control."""


def key_text(key: object) -> str:
    """Return a key as text; equal keys have equal texts, whatever the order of their fields.

    >>> key_text({"seed": 0, "case": "a"})
    '{"case":"a","seed":0}'
    """
    return json.dumps(key, sort_keys=True, separators=(",", ":"))


def read_records(path: PathLike) -> list[Record]:
    """Read all records, packed or in the journal; none if there is no file of either kind.

    `path` is that of the packed file, `name.jsonl.zst`, whether it is there yet or not.
    """
    packed = Path(path)
    if not packed.parent.is_dir():
        return []
    with _locked(packed.parent):
        return _read(packed)


def append_record(path: PathLike, record: Record) -> None:
    """Add a record to the journal of the packed file `path`.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "study.jsonl.zst"
    >>> append_record(path, {"key": 2, "value": "b"})
    >>> append_record(path, {"key": 1, "value": "a"})
    >>> [record["value"] for record in read_records(path)]
    ['b', 'a']
    >>> pack_records(path)
    >>> contents(path)
    b'{"key":1,"value":"a"}\\n{"key":2,"value":"b"}\\n'
    """
    packed = Path(path)
    packed.parent.mkdir(parents=True, exist_ok=True)
    with _locked(packed.parent), open(_journal(packed), "a+b") as file:
        _cut_torn_line(file)
        file.write(_line(record))
        file.flush()
        os.fsync(file.fileno())


def pack_records(path: PathLike) -> None:
    """Move the records of the journal into the packed file; without a journal nothing changes."""
    packed = Path(path)
    journal = _journal(packed)
    if not journal.exists():
        return
    import zstandard

    compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
    with _locked(packed.parent):
        records = sorted(_read(packed), key=lambda record: key_text(record["key"]))
        unnamed = packed.with_name(f".{packed.name}.packed")  # which `atomic_write` leaves alone
        with atomic_write(unnamed) as file:
            file.write(compressor.compress(b"".join(map(_line, records))))
        os.replace(unnamed, packed)
        journal.unlink(missing_ok=True)


def remove_records(path: PathLike) -> None:
    """Remove the packed file and its journal, if they are there."""
    packed = Path(path)
    if packed.parent.is_dir():
        with _locked(packed.parent):
            packed.unlink(missing_ok=True)
            _journal(packed).unlink(missing_ok=True)


def _journal(packed: Path) -> Path:
    return packed.with_name(packed.name.removesuffix(PACKED) + JOURNAL)


def _line(record: Record) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def _read(packed: Path) -> list[Record]:
    records: dict[str, Record] = {}
    for file in (packed, _journal(packed)):
        if file.exists():
            for record in _records_in(file):
                records.setdefault(key_text(record["key"]), record)
    return list(records.values())


def _records_in(file: Path) -> Iterator[Record]:
    """Yield the records of a file; in a journal, without a last line that is cut off."""
    *lines, rest = contents(file).split(b"\n")
    if rest and file.name.endswith(PACKED):
        lines.append(rest)
    for number, line in enumerate(lines, start=1):
        place = f"{file}, line {number}"
        record = read_json(place, line)
        if not isinstance(record, dict) or "key" not in record:
            raise ValueError(f"{place} is not a record with a key.")
        yield record


def _cut_torn_line(file: BinaryIO) -> None:
    """Shorten the file to its last whole line."""
    size = file.seek(0, os.SEEK_END)
    if size == 0:
        return
    file.seek(size - 1)
    if file.read(1) != b"\n":
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Wait until no other process or thread holds the folder; without locks on this disk, go on."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
