"""Lines of whole numbers and of sparse rows: what is read, and where it stops."""

from __future__ import annotations

import numpy as np
import pytest

from unmask._kernels import text
from unmask.files.text import Fault, Rules, _parse_chunk


def read(raw: bytes, start: int = 0) -> tuple[int, int, list[int], list[int]]:
    """The code, where it stands, the numbers of all lines, and how many each line has."""
    numbers, counts = np.full(20, -9, np.int64), np.full(20, -9, np.int64)
    buffer = np.frombuffer(raw, np.uint8)
    code, where, lines, count = text.whole_numbers(buffer, start, len(raw), numbers, counts)
    assert (numbers[count:] == -9).all()
    return code, where, numbers[:count].tolist(), counts[:lines].tolist()


@pytest.mark.parametrize(
    ("raw", "numbers", "counts"),
    [
        (b"", [], []),
        (b"\n", [], [0]),
        (b"1 2\n30\n\n4 \n", [1, 2, 30, 4], [2, 1, 0, 1]),
        (b" 5\t6\r\n7\r\n", [5, 6, 7], [2, 1]),
    ],
)
def test_numbers_line_by_line(raw: bytes, numbers: list[int], counts: list[int]) -> None:
    assert read(raw) == (text.FINE, len(raw), numbers, counts)


def test_reading_begins_where_it_is_told() -> None:
    assert read(b"1 2\n3\n", 4) == (text.FINE, 6, [3], [1])
    assert read(b"1 2\n", 4) == (text.FINE, 4, [], [])


@pytest.mark.parametrize(
    ("raw", "code", "where", "numbers", "counts"),
    [
        (b"1 2\n3", text.NO_LINE_END, 5, [], []),
        (b"1 2\n3 x\n", text.BAD_INDEX, 6, [1, 2, 3], [2]),
        (b"1:2\n", text.BAD_INDEX, 0, [], []),
        (b"1\n-2\n", text.BAD_INDEX, 2, [1], [1]),
    ],
)
def test_what_is_no_number_is_named(
    raw: bytes, code: int, where: int, numbers: list[int], counts: list[int]
) -> None:
    assert read(raw) == (code, where, numbers, counts)


@pytest.mark.parametrize("layout", [text.XC, text.LIBSVM])
@pytest.mark.parametrize(("base", "label_base"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_numbers_count_from_their_base_up_to_the_last_one(
    layout: int, base: int, label_base: int
) -> None:
    """Three columns and two labels; below the base and beyond the last one is a fault."""
    rules = Rules(layout, base, 3, label_base, 2)
    first, last = label_base, label_base + 1
    raw = f"{last} {base}:1 {base + 2}:3\n{last},{first} {base + 1}:2\n".encode()
    rows, lines = _parse_chunk(raw, rules, 0, len(raw))
    assert not isinstance(rows, Fault)
    assert lines == 2
    assert [part.tolist() for part in rows] == [[1, 2], [1, 0, 1], [2, 1], [0, 2, 1], [1, 3, 2]]
    wrong = {f"{last + 1} {base}:1\n": (text.HIGH_LABEL, 0),
             f"{last} {base + 3}:1\n": (text.HIGH_INDEX, 2)}  # fmt: skip
    if label_base:
        wrong[f"0 {base}:1\n"] = (text.HIGH_LABEL, 0)
    if base:
        wrong[f"{last} 0:1\n"] = (text.HIGH_INDEX, 2)
    for line, fault in wrong.items():
        made, before = _parse_chunk(line.encode(), rules, 0, len(line))
        assert (made, before) == (fault, 0)
