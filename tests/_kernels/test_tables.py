"""Bytes of tables: fields, cells, pieces, names, sorted rows and numbers, each by hand."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from unmask._kernels import tables as kernels

QUOTE, COMMA = ord('"'), ord(",")


def bytes_of(raw: bytes) -> np.ndarray:
    return np.frombuffer(raw, np.uint8)


def fields(
    raw: bytes, n_fields: int, *, start: int = 0, quote: int = QUOTE, strict: bool = True
) -> tuple[tuple[int, int, int, int, int], list[list[str]]]:
    """What `split` returns, and the cells of the records."""
    text = bytes_of(raw)
    spans, kinds = np.full((30, n_fields, 2), -9, np.int64), np.full((30, n_fields), 9, np.uint8)
    wanted = np.arange(n_fields)[::-1].copy()  # places are others than fields
    made = kernels.split(text, start, len(raw), COMMA, quote, strict, wanted, spans, kinds)
    rows = made[2]
    assert (spans[rows + 1 :] == -9).all()
    columns = []
    for place in wanted:
        own, kind = spans[:rows, place].copy(), kinds[:rows, place].copy()
        lengths = np.zeros(rows, np.int64)
        kernels.cell_lengths(text, own, kind, quote, lengths)
        out = np.empty(int(lengths.sum()), np.uint8)
        kernels.copy_cells(text, own, kind, quote, out)
        ends = np.cumsum(lengths)
        columns.append(
            [out[e - n : e].tobytes().decode() for e, n in zip(ends, lengths, strict=True)]
        )
    return tuple(map(int, made)), [list(row) for row in zip(*columns, strict=True)]  # type: ignore[return-value]


@pytest.mark.parametrize(
    "raw",
    [
        b"a,b\nc,d\n", b"a,\n,d\n,\n", b'"a","b"\n"c,c","d\nd"\n', b'"a""b",c\n"""","x"""\n',
        b"a,b\r\nc,d\r\n", b'"a","b"\r\n"","d"\r\n', b"a\rb,c\n", b"long field,another one\n",
    ],
)  # fmt: skip
def test_fields_are_those_of_the_csv_module(raw: bytes) -> None:
    wanted = list(csv.reader(io.StringIO(raw.decode(), newline=""), strict=True))
    if b"a\rb" in raw:
        wanted = [["a\rb", "c"]]  # a return inside a line is a character
    made, cells = fields(raw, 2)
    assert cells == wanted
    assert made == (kernels.FINE, len(raw), len(wanted), len(raw), 0)


@pytest.mark.parametrize(
    ("raw", "position", "stop", "ends"),
    [
        (b"a\n", 1, 2, True), (b"a\r\n", 1, 3, True), (b"a\rb", 1, 3, False),
        (b"a\r", 1, 2, False), (b"a\r\n", 1, 2, False), (b"ab\n", 1, 3, False),
    ],
)  # fmt: skip
def test_a_line_ends_within_what_was_read(raw: bytes, position: int, stop: int, ends: bool) -> None:
    assert kernels._ends_line(bytes_of(raw), position, stop) == ends


def test_empty_lines_are_no_records_unless_there_is_one_field() -> None:
    made, cells = fields(b"\na,b\n\r\n\nc,d\n", 2)
    assert (made[0], made[2], cells) == (kernels.FINE, 2, [["a", "b"], ["c", "d"]])
    made, cells = fields(b"a\n\n\r\nb\n", 1)
    assert (made[0], made[2], cells) == (kernels.FINE, 4, [["a"], [""], [""], ["b"]])


@pytest.mark.parametrize(
    ("raw", "code", "where", "rows", "following", "field"),
    [
        (b"a,b\nc\n", kernels.FIELDS, 4, 1, 4, 1),
        (b"a,b\nc,d,e\n", kernels.FIELDS, 4, 1, 4, 3),
        (b'a,b\n"c"d,e\n', kernels.AFTER_QUOTE, 7, 1, 4, 0),
        (b'a,b\nc,d"e\n', kernels.STRAY_QUOTE, 7, 1, 4, 1),
        (b'a,b\n"c,d\n', kernels.FINE, 4, 1, 4, 0),  # more is to come
        (b'a,b\n"c""\n', kernels.FINE, 4, 1, 4, 0),
    ],
)
def test_what_is_no_record_is_named(
    raw: bytes, code: int, where: int, rows: int, following: int, field: int
) -> None:
    assert fields(raw, 2)[0] == (code, where, rows, following, field)


def test_quotes_inside_fields_and_no_quotes_at_all() -> None:
    assert fields(b'a"b,c\n', 2, strict=False)[1] == [['a"b', "c"]]
    assert fields(b'"a,b"\n', 2, quote=kernels.NO_QUOTE)[1] == [['"a', 'b"']]
    assert fields(b"a,b\nc,d\n", 2, start=4)[1] == [["c", "d"]]


def cut(cells: list[bytes], delimiter: int, first: int = 0) -> tuple[int, int, list[list[bytes]]]:
    """The code, the cell, and the pieces of the cells before it."""
    data, offsets = bytes_of(b"".join(cells)), np.cumsum([0, *map(len, cells)])
    spans, counts = np.full((40, 2), -9, np.int64), np.full(len(cells), -9, np.int64)
    code, cell, total = kernels.pieces(data, offsets, first, len(cells), delimiter, spans, counts)
    names = [data[low:high].tobytes() for low, high in spans[:total]]
    made, at = [], 0
    for count in counts[: cell - first]:
        made.append(names[at : at + count])
        at += count
    return code, cell, made


def test_cells_are_cut_into_pieces() -> None:
    """Blanks around a piece are not its own; one delimiter may stand at the end."""
    cells = [b"a;b", b"", b" one two ;b\t", b"c;", b"  ", b"d"]
    wanted = [[b"a", b"b"], [], [b"one two", b"b"], [b"c"], [], [b"d"]]
    assert cut(cells, ord(";")) == (kernels.FINE, 6, wanted)
    assert cut(cells, ord(";"), 2) == (kernels.FINE, 6, wanted[2:])
    assert cut([b" a  b ", b"c"], ord(" ")) == (kernels.FINE, 2, [[b"a", b"b"], [b"c"]])
    assert cut([b"a;b", b" c "], kernels.NO_DELIMITER)[2] == [[b"a;b"], [b"c"]]


@pytest.mark.parametrize("wrong", [b";", b";a", b"a;;b", b"a; ;b", b"a;;", b" ; "])
def test_an_empty_piece_is_an_error(wrong: bytes) -> None:
    assert cut([b"a;b", wrong, b"c"], ord(";"))[:2] == (kernels.EMPTY_NAME, 1)


def test_names_are_numbered_in_order_of_appearance() -> None:
    """Also where they collide, are long, or begin alike; without room it says where it stopped."""
    words = [b"a", b"b", b"a", b"", b"a longer name", b"a longer nam", b"b", b"a longer name", b""]
    data, ends = bytes_of(b"".join(words)), np.cumsum([0, *map(len, words)])
    spans = np.column_stack([ends[:-1], ends[1:]])
    distinct = list(dict.fromkeys(words))
    for slots in (16, 64):
        table, names = np.zeros(slots, np.int32), np.zeros(60, np.uint8)
        offsets, codes = np.zeros(30, np.int64), np.full(len(words), -9, np.int32)
        seed = np.uint64(7)
        with np.errstate(over="ignore"):
            done, count = kernels.intern(
                data, spans, 0, seed, True, table, names, offsets, 0, codes
            )
        assert (done, count) == (len(words), 5)
        assert codes.tolist() == [distinct.index(word) for word in words]
        stored = [names[offsets[i] : offsets[i + 1]].tobytes() for i in range(count)]
        assert stored == distinct
        other = np.zeros(slots, np.int32)
        with np.errstate(over="ignore"):
            kernels.fill_slots(names, offsets, count, seed, other)
        assert sorted(other.tolist()) == sorted(table.tolist())
        asked, numbers = bytes_of(b"bzz"), np.full(2, -9, np.int32)
        where = np.array([[0, 1], [1, 3]])
        with np.errstate(over="ignore"):
            kernels.intern(asked, where, 0, seed, False, other, names, offsets, count, numbers)
        assert numbers.tolist() == [1, -1]


@pytest.mark.parametrize(("slots", "room", "stopped"), [(8, 60, 8), (4, 60, 3), (64, 3, 3)])
def test_numbering_stops_without_room(slots: int, room: int, stopped: int) -> None:
    """At most half of the slots are taken, and names stay within their array."""
    words = [b"a", b"b", b"a", b"cc", b"dd", b"a", b"b", b"a"]
    data, ends = bytes_of(b"".join(words)), np.cumsum([0, *map(len, words)])
    spans = np.column_stack([ends[:-1], ends[1:]])
    table, names = np.zeros(slots, np.int32), np.zeros(room, np.uint8)
    offsets, codes = np.zeros(30, np.int64), np.full(8, -9, np.int32)
    with np.errstate(over="ignore"):
        done, count = kernels.intern(
            data, spans, 0, np.uint64(7), True, table, names, offsets, 0, codes
        )
    assert done == stopped
    assert count == len(set(words[:stopped]))


@pytest.mark.parametrize("length", [2, 5, 32, 33, 50])
def test_rows_are_sorted_and_repetitions_named(length: int) -> None:
    rng = np.random.default_rng(length)
    rows = [rng.permutation(100)[:size] for size in (3, length, 0, 1, length)]
    rows.append(np.r_[rows[1], rows[1][:1]])  # one of them twice
    rows.append(np.array([4, 4]))
    indptr = np.cumsum([0, *map(len, rows)])
    indices = np.concatenate(rows).astype(np.int32)
    given = indices.copy()
    assert kernels.arrange(indices, indptr, 1, 5) == -1
    for i, row in enumerate(rows):
        own = indices[indptr[i] : indptr[i + 1]].tolist()
        assert own == (sorted(row) if 1 <= i < 5 else row.tolist())
    assert kernels.arrange(given, indptr, 0, 7) == 5
    assert given[indptr[5] : indptr[6]].tolist() == sorted(rows[5])


def read(cells: list[bytes]) -> tuple[int, int, list[int], np.ndarray]:
    data = bytes_of(b"".join(cell + b"\n" for cell in cells)).copy()
    ends = np.cumsum([len(cell) + 1 for cell in cells])
    spans = np.column_stack([ends - [len(cell) + 1 for cell in cells], ends - 1])
    values, slow = np.full(len(cells), 99.0, np.float32), np.full(len(cells), -9, np.int64)
    code, cell, n_slow = kernels.decimals(data, spans, values, slow)
    return code, cell, slow[:n_slow].tolist(), values


def test_numbers_in_cells() -> None:
    code, cell, slow, values = read([b"1", b" 2.5 ", b"-3e2", b"0.1"])
    assert (code, cell, slow) == (kernels.FINE, 4, [])
    assert values.tolist() == np.float32([1, 2.5, -300, 0.1]).tolist()
    hard = b"1.00000005960464477539062500000001"  # more digits than float64 has
    assert read([b"1", hard, b"2", hard])[2] == [1, 3]
    for wrong in (b"", b"x", b"1x", b"1 2", b"."):
        assert read([b"1", wrong])[:2] == (kernels.BAD_NUMBER, 1)
