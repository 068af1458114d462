"""Records that come in one by one: a journal of JSON lines, packed into one zstd file at the end.

A record is a dict of JSON values whose field `key` tells it from the others. `append_record` adds
one line to the journal `name.jsonl`, which is on the disk when the call returns; `pack_records`
moves all lines, sorted by key, into `name.jsonl.zst`, so that equal records give equal files.
A writer that is killed leaves at most one line without its end: readers ignore it and the next
writer cuts it off. Several processes may add to the same records: a lock on the folder lets one
at a time read or write, and of records with equal keys the first counts.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from unmask._io.json_files import read_json
from unmask._io.streams import atomic_write, contents
from unmask._typing import PathLike, Record

PACKED, JOURNAL = ".jsonl.zst", ".jsonl"
LEVEL = 19
"""Of zstd: results are packed once, and kept under version control."""


def key_text(key: object) -> str:
    """A key as text; equal keys have equal texts, whatever the order of their fields.

    >>> key_text({"seed": 0, "case": "a"})
    '{"case":"a","seed":0}'
    """
    return json.dumps(key, sort_keys=True, separators=(",", ":"))


def read_records(path: PathLike) -> list[Record]:
    """All records, packed or in the journal; none if there is no file of either kind.

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
        unnamed = packed.with_name(
            f".{packed.name}.packed"
        )  # a name that `atomic_write` leaves alone
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
    """The records of a file; in a journal, without a last line that is cut off."""
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
