"""Judged pairs: what they make of labels, by hand and by dense arithmetic, and their files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from unmask import data
from unmask.data import Dataset, Judgement, read_judgements

SHAPE = (4, 5)


@given(
    arrays(np.float32, SHAPE, elements=st.sampled_from([0.0, 1.0])),
    arrays(np.float32, SHAPE, elements=st.sampled_from([-1.0, 0.0, 1.0, 2.0])),
)
def test_judged_labels_are_those_of_dense_arithmetic(
    labels: np.ndarray, judged: np.ndarray
) -> None:
    after = Dataset(None, labels, judgements=judged).after_judgements
    expected = np.where(judged == 0, labels, judged == 1)
    np.testing.assert_array_equal(after.labels.toarray(), expected)
    np.testing.assert_array_equal(after.ignored.toarray(), judged == 2)
    np.testing.assert_array_equal(after.certain, judged[expected > 0] == 1)
    p = np.linspace(0.1, 0.5, SHAPE[1])
    made = after.propensity(p).toarray()
    np.testing.assert_array_equal(made, expected * np.where(judged == 1, 1.0, p))
    entries = np.linspace(0.2, 0.9, labels.size).reshape(SHAPE)
    made = after.propensity(sp.csr_array(entries)).toarray()
    np.testing.assert_array_equal(made, expected * np.where(judged == 1, 1.0, entries))
    with pytest.raises(ValueError, match="must have the same rows and labels"):
        after.propensity(sp.csr_array(np.c_[entries, entries]))


def test_without_judgements_labels_stay_as_they_are() -> None:
    after = Dataset(None, [[1, 0], [1, 1]]).after_judgements
    np.testing.assert_array_equal(after.labels.toarray(), [[1, 0], [1, 1]])
    assert not after.certain.any()
    assert not after.ignored.nnz


def test_judgements_go_with_their_rows_and_columns() -> None:
    rows = Dataset(None, [[1, 0], [0, 1]], label_names=("a", "b"), judgements=[[2, 0], [0, -1]])
    np.testing.assert_array_equal(rows.take([1]).judgements.toarray(), [[0, -1]])
    moved = rows.with_label_names(("b", "c", "a"))
    np.testing.assert_array_equal(moved.judgements.toarray(), [[0, 0, 2], [-1, 0, 0]])
    with pytest.raises(ValueError, match=r"must be 1 .positive., -1 .*; got 3"):
        Dataset(None, [[1, 0]], judgements=[[3, 0]])


@pytest.mark.parametrize("separator", [",", "\t"])
def test_a_table_of_judgements_is_read_by_id_and_name(tmp_path: Path, separator: str) -> None:
    lines = ["id,label,judgement", "x,law,positive", "y,art,0", "y,law,unsure", "x,law,1"]
    path = tmp_path / "judged.csv"
    path.write_text("\n".join(lines).replace(",", separator) + "\n")
    rows = Dataset(None, [[1, 0], [0, 1]], label_names=("art", "law"), ids=("x", "y"))
    judged = read_judgements(path, (2, 2), ids=rows.ids, label_names=rows.label_names)
    np.testing.assert_array_equal(judged.toarray(), [[0, 1], [-1, 2]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("row,label,judgement\n0,1,perhaps\n", "line 2: a judgement is positive, negative or"),
        ("row,label,judgement\n7,1,1\n", "line 2: '7' is not in the data set"),
        ("row,label,judgement\n0,1,1\n0,1,0\n", "row 0 and label 1 is judged in two ways"),
        ("row,label,answer\n0,1,1\n", "columns row or id, label and judgement"),
        ("0 9\n", "line 1: label must lie in 0 … 1, got 9"),
        ("0 1 2\n", "expected 'row label', got 3 numbers"),
    ],
)
def test_files_that_say_something_else_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "judged.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_judgements(path, (2, 2))


def test_a_filter_file_ignores_its_pairs_and_survives_writing(tmp_path: Path) -> None:
    (tmp_path / "tst_X_Y.txt").write_text("2 3\n0:1 2:1\n1:1\n")
    (tmp_path / "filter_labels_test.txt").write_text("0 2\n1 0\n")
    rows = data.read(tmp_path, part="test")
    expected = np.array([[0, 0, 2], [2, 0, 0]])
    np.testing.assert_array_equal(rows.judgements.toarray(), expected)
    assert rows.after_judgements.labels.nnz == 2
    data.write(tmp_path / "kept.npz", rows)
    again = data.read(tmp_path / "kept.npz").judgements
    np.testing.assert_array_equal(again.toarray(), expected)
    assert set(np.unique(again.data)) <= {float(each) for each in Judgement}
    assert isinstance(again, sp.csr_array)
