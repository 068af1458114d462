"""Records survive kills and several writers, and equal records are packed into equal files."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from itertools import permutations
from pathlib import Path

import pytest
import zstandard

from unmask.files import append_record, fields, pack_records, read_records, remove_records

THREE = [{"key": {"unit": i}, "rows": [{"value": i / 3}]} for i in (2, 0, 1)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows" / "study-tiny.jsonl.zst"


def journal_of(path: Path) -> Path:
    return path.with_suffix("")


def units(path: Path) -> list[int]:
    return [record["key"]["unit"] for record in read_records(path)]


def test_nothing_is_kept_where_nothing_was_written(path: Path) -> None:
    assert read_records(path) == []
    pack_records(path)
    remove_records(path)
    assert not path.parent.exists()


def test_records_are_read_in_order_and_packed_by_key(path: Path) -> None:
    for record in THREE:
        append_record(path, record)
    assert read_records(path) == THREE
    assert not path.exists()
    pack_records(path)
    assert not journal_of(path).exists()
    assert read_records(path) == sorted(THREE, key=str)
    append_record(path, {"key": {"unit": -1}})
    assert units(path) == [0, 1, 2, -1]
    assert [file.name for file in path.parent.iterdir()].count(path.name) == 1


def test_equal_records_give_equal_files_in_any_order(tmp_path: Path) -> None:
    packed = set()
    for number, order in enumerate(permutations(THREE)):
        path = tmp_path / f"{number}.jsonl.zst"
        for step, record in enumerate(order):
            append_record(path, record)
            if step == number % 3:  # in one go, or packed in between
                pack_records(path)
        pack_records(path)
        packed.add(path.read_bytes())
    assert len(packed) == 1


def test_keys_do_not_depend_on_the_order_of_their_fields(path: Path) -> None:
    append_record(path, {"key": {"a": 1, "b": 2}, "rows": ["first"]})
    append_record(path, {"key": {"b": 2, "a": 1}, "rows": ["second"]})
    for _ in range(2):
        (record,) = read_records(path)
        assert record["rows"] == ["first"]
        pack_records(path)


def test_a_torn_last_line_is_ignored_and_cut_off(path: Path) -> None:
    for record in THREE:
        append_record(path, record)
    whole = journal_of(path).read_bytes()
    third = len(whole.splitlines(keepends=True)[-1])
    for lost in range(1, third + 1):
        journal_of(path).write_bytes(whole[: len(whole) - lost])
        assert units(path) == [2, 0]
        append_record(path, THREE[-1])
        assert journal_of(path).read_bytes() == whole
    journal_of(path).write_bytes(whole[:-1])
    pack_records(path)
    assert units(path) == [0, 2]


def test_a_journal_of_half_a_line_is_empty(path: Path) -> None:
    append_record(path, THREE[0])
    journal_of(path).write_bytes(b'{"key"')
    assert read_records(path) == []
    append_record(path, THREE[1])
    assert read_records(path) == [THREE[1]]


def test_packing_that_stops_before_the_journal_is_gone_loses_and_doubles_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for record in THREE:
        append_record(path, record)
    usual = Path.unlink

    def unlink(file: Path, missing_ok: bool = False) -> None:
        if file == journal_of(path):
            raise KeyboardInterrupt
        usual(file, missing_ok=missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", unlink)
        with pytest.raises(KeyboardInterrupt):
            pack_records(path)
    assert path.exists()
    assert journal_of(path).exists()
    assert units(path) == [0, 1, 2]
    packed = path.read_bytes()
    pack_records(path)
    assert path.read_bytes() == packed
    assert not journal_of(path).exists()


def test_packing_that_stops_before_its_file_is_there_leaves_the_journal(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append_record(path, THREE[0])
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", interrupt)
        with pytest.raises(KeyboardInterrupt):
            pack_records(path)
    assert not path.exists()
    assert units(path) == [2]


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_removed_records_are_gone_in_both_forms(path: Path) -> None:
    append_record(path, THREE[0])
    pack_records(path)
    append_record(path, THREE[1])
    remove_records(path)
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"key": 1', r"study-tiny\.jsonl, line 2 is not JSON"),
        (b'{"rows": []}', r"study-tiny\.jsonl, line 2 is not a record with a key"),
        (b"[1]", r"study-tiny\.jsonl, line 2 is not a record with a key"),
        (b"[" * 100_000, r"line 2 is not JSON of ours: it is nested too deep"),
    ],
)
def test_a_damaged_line_in_between_is_named(path: Path, line: bytes, message: str) -> None:
    append_record(path, THREE[0])
    first = journal_of(path).read_bytes()
    journal_of(path).write_bytes(first + line + b"\n" + first)
    with pytest.raises(ValueError, match=message):
        read_records(path)


def test_a_damaged_packed_file_is_named(path: Path) -> None:
    for record in THREE:
        append_record(path, record)
    pack_records(path)
    packed = path.read_bytes()
    path.write_bytes(packed[:-5])
    with pytest.raises(ValueError, match=r"study-tiny\.jsonl\.zst: .*truncated"):
        read_records(path)
    cut_off = b'{"key": 1}\n{"key": 2'
    path.write_bytes(zstandard.compress(cut_off))
    with pytest.raises(ValueError, match=r"study-tiny\.jsonl\.zst, line 2 is not JSON"):
        read_records(path)


def test_a_flipped_bit_never_changes_a_record(path: Path) -> None:
    for record in THREE:
        append_record(path, record)
    pack_records(path)
    packed, whole = path.read_bytes(), read_records(path)
    noticed = 0
    for position in range(8 * len(packed)):
        flipped = bytearray(packed)
        flipped[position // 8] ^= 1 << position % 8
        path.write_bytes(flipped)
        try:
            assert read_records(path) == whole
        except ValueError:
            noticed += 1
    assert noticed > 7 * len(packed)


# ---------------------------------------------------------------- several processes


def write_some(path: Path, writer: int, pack: bool) -> None:
    for number in range(25):
        long = "x" * 20_000  # more than one write of the operating system
        append_record(path, {"key": {"unit": 100 * writer + number}, "text": long})
        if pack and number % 5 == 0:
            pack_records(path)


def test_concurrent_writers_lose_nothing(path: Path) -> None:
    """Four add records, two of them pack as they go: every record is there, once."""
    fork = multiprocessing.get_context("fork")
    writers = [fork.Process(target=write_some, args=(path, w, w % 2 == 0)) for w in range(4)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert all(len(record["text"]) == 20_000 for record in read_records(path))
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    pack_records(path)
    expected = {100 * writer + number for writer in range(4) for number in range(25)}
    assert sorted(units(path)) == sorted(expected)


def write_until_killed(path: Path, writer: int) -> None:
    number = 0
    while True:
        append_record(path, {"key": {"unit": [writer, number]}, "text": "x" * 200_000})
        number += 1


def test_a_killed_writer_loses_at_most_its_last_record(path: Path) -> None:
    """And one that goes on beside it is not disturbed."""
    fork = multiprocessing.get_context("fork")
    for writer in range(6):
        victim = fork.Process(target=write_until_killed, args=(path, writer))
        victim.start()
        while not read_records(path):
            time.sleep(0.001)
        time.sleep(0.01 + 0.003 * writer)
        os.kill(victim.pid or 0, signal.SIGKILL)
        victim.join()
        append_record(path, {"key": {"unit": [writer, "after"]}, "text": ""})
        numbers = [n for w, n in (record["key"]["unit"] for record in read_records(path))
                   if w == writer and n != "after"]  # fmt: skip
        assert numbers == list(range(len(numbers)))
        assert units(path)[-1] == [writer, "after"]


def test_where_a_disk_knows_no_locks_none_is_taken(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no locks")

    monkeypatch.setattr(fields.fcntl, "flock", refuse)
    append_record(path, THREE[0])
    assert units(path) == [2]
