"""Rows as text: the same however they are cut, and every number reads back as it was."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from unmask import _kernels
from unmask.files import text

VALUES = np.array([1.5, -2.25, 1e-7, 3e9, 0.1, 7, 1e-5, 1e9, -1e-38, 0.0], dtype=np.float32)


def rows(count: int) -> tuple[sp.csr_array, sp.csr_array]:
    """Row i has i mod 3 entries and i mod 4 labels."""
    sizes, n_labels = np.arange(count) % 3, np.arange(count) % 4
    starts, label_starts = (np.r_[0, np.cumsum(each)] for each in (sizes, n_labels))
    data = np.resize(VALUES, starts[-1])
    indices = np.concatenate([np.arange(size) * 5 for size in sizes]).astype(np.int32)
    of_labels = np.concatenate([np.arange(size) + 2 for size in n_labels]).astype(np.int32)
    return (
        sp.csr_array((data, indices, starts), shape=(count, 11)),
        sp.csr_array((np.ones(of_labels.size), of_labels, label_starts), shape=(count, 6)),
    )


@pytest.mark.parametrize("held", [1, 2, 16])
@pytest.mark.parametrize("count", [0, 1, 4, 13])
@pytest.mark.parametrize("labelled", [True, False])
def test_rows_are_written_whole_in_chunks_of_any_size(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, held: int, count: int, labelled: bool
) -> None:
    monkeypatch.setattr(text, "_CHUNKS_HELD", held)
    monkeypatch.setattr(text, "row_bounds", lambda starts: _kernels.row_bounds(starts, 3))
    entries, labels = rows(count) if count else (sp.csr_array((0, 11)), sp.csr_array((0, 6)))
    header = (count, 11, 6) if labelled else ()
    path = tmp_path / "rows.txt"
    text.write_rows(path, header, entries, labels if labelled else None)
    written = path.read_text().splitlines()
    if labelled:
        assert written.pop(0) == f"{count} 11 6"
    assert len(written) == count
    for i, line in enumerate(written):
        before, _, rest = line.partition(" ") if labelled else ("", "", line)
        names = labels.indices[labels.indptr[i] : labels.indptr[i + 1]] if labelled else []
        assert before == ",".join(map(str, names))
        mine = slice(*entries.indptr[i : i + 2])
        pairs = [pair.split(":") for pair in rest.split()]
        assert [int(index) for index, _ in pairs] == entries.indices[mine].tolist()
        assert [np.float32(value) for _, value in pairs] == entries.data[mine].tolist()


def test_the_shortest_decimals_are_written(tmp_path: Path) -> None:
    path = tmp_path / "rows.txt"
    text.write_rows(path, (), sp.csr_array(np.array([[0.1, 2, -0.5, 1e-7]], np.float32)))
    assert path.read_text() == "0:0.1 1:2 2:-0.5 3:1e-07\n"


@pytest.mark.parametrize(
    ("value", "left"),
    [
        (0.0, False),
        (1.00001e-5, False),
        (1e-5, True),  # as a float32 a little less
        (1e9, True),
        (999999936.0, False),
        (-3e9, True),
    ],
)
def test_what_is_very_small_or_large_is_left_to_python(value: float, left: bool) -> None:
    made = text._by_python(np.array([value], np.float32))
    shown = bytes(made[0]).rstrip(b"\0").decode()
    assert shown == (str(np.float32(value)) if left else "")
    assert made.shape == (1, 24)
