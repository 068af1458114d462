"""Predictions in memory: sets in every form, and the pairs that lists and sets hold."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from unmask import LabelSets, TopK
from unmask.data import Dataset
from unmask.data.dataset import labels_of

ROWS = [[2, 0], [], [1]]
MATRIX = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0]])


def same(sets: LabelSets, matrix: np.ndarray) -> bool:
    return np.array_equal(sets.indicator.toarray(), matrix)


@pytest.mark.parametrize(
    "form", [ROWS, MATRIX, MATRIX.astype(bool), sp.csc_array(MATRIX), sp.coo_matrix(MATRIX)]
)
def test_every_form_of_sets_is_one_matrix(form: object) -> None:
    sets = LabelSets(form)
    assert same(sets, MATRIX)
    assert sets.sizes.tolist() == [2, 0, 1]
    assert len(sets) == 3
    assert sets.of_row(0) == ["0", "2"]
    assert same(sets[1:], MATRIX[1:])
    assert same(sets[np.array([True, False, True])], MATRIX[[0, 2]])


def test_names_number_the_labels() -> None:
    sets = LabelSets([["law", "art"], [], ["optics"]])
    assert sets.names == ("art", "law", "optics")
    assert sets.of_row(0) == ["art", "law"]
    wider = LabelSets([["law"]], names=["optics", "law", "art"])
    assert wider.indicator.toarray().tolist() == [[0, 1, 0]]
    moved = sets.aligned(names=["law", "optics", "art", "more"])
    assert moved.indicator.toarray().tolist() == [[1, 0, 1, 0], [0, 0, 0, 0], [0, 1, 0, 0]]
    assert [sorted(moved.of_row(i)) for i in range(3)] == [["art", "law"], [], ["optics"]]


def test_rows_are_matched_by_their_ids() -> None:
    sets = LabelSets(ROWS, ids=["a", "b", "c"])
    assert same(sets.aligned(ids=["c", "a", "b"]), MATRIX[[2, 0, 1]])
    assert "2 labels" not in sets._repr_html_()
    assert "<td>" in sets._repr_html_() or "<th" in sets._repr_html_()
    with pytest.raises(ValueError, match="predicted sets"):
        sets.aligned(ids=["c", "a", "x"])


def test_thresholds_are_reached_by_equal_scores() -> None:
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 5, (40, 6)) / 4
    cut = np.array([0.0, 0.25, 0.5, 0.75, 1.0, np.inf])
    assert same(LabelSets.from_scores(scores, 0.5), scores >= 0.5)
    assert same(LabelSets.from_scores(scores, cut), scores >= cut)
    sparse = sp.csr_array(scores)  # what is not stored is not predicted
    assert same(LabelSets.from_scores(sparse, cut), (scores >= cut) & (scores > 0))
    assert same(LabelSets.from_scores(scores.astype(np.float32), 0.5), scores >= 0.5)


def test_blocks_of_scores_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = np.random.default_rng(1).random((23, 4))
    monkeypatch.setattr("unmask.arrays.top.BLOCK", 20)
    assert same(LabelSets.from_scores(scores, 0.4), scores >= 0.4)
    assert len(LabelSets.from_scores(scores[:0], 0.4)) == 0


def test_a_set_is_a_list_with_equal_scores() -> None:
    top = LabelSets(ROWS, names=["x", "y", "z"], ids=["a", "b", "c"]).as_top()
    assert isinstance(top, TopK)
    assert top.labels.tolist() == [[0, 2], [-1, -1], [1, -1]]
    assert (top.ids, top.names) == (["a", "b", "c"], ("x", "y", "z"))
    assert LabelSets([[], []], n_labels=2).as_top().labels.tolist() == [[-1], [-1]]


@pytest.mark.parametrize(
    ("wrong", "options", "words"),
    [
        (np.array([[0, 2]]), {}, "must be 0 or 1; got 2"),
        ([[1, 1]], {}, "names label 1 twice in row 0; keep one .a matrix of 0 and 1"),
        ([[0, -1]], {}, "a name or a number from 0; got .*-1"),
        ([[0.5]], {}, "a name or a number from 0; got .0.5"),
        ([["a", 3]], {}, "predicted labels must be text; got 3|not supported"),
        ([["a"]], {"names": ["b"]}, "'a' is not among the 1 label names"),
        ([[4]], {"n_labels": 3}, "4"),
        (MATRIX, {"n_labels": 4}, "have 3 labels, not 4"),
        (MATRIX, {"names": ["a"]}, "1 names for 3 labels"),
        (MATRIX, {"ids": ["a"]}, "1 ids for 3 rows"),
        (MATRIX, {"ids": ["a", "b", "a"]}, "a"),
    ],
)
def test_what_is_no_set_is_refused(wrong: object, options: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        LabelSets(wrong, **options)


@pytest.mark.parametrize(
    ("scores", "threshold", "words"),
    [
        ([[np.nan, 1.0]], 0.5, "got NaN"),
        (sp.csr_array([[0.0, np.nan], [0.7, 0.0]]), 0.5, "scores must be numbers; got NaN"),
        ([[0.1, 1.0]], [0.5], "one for each of 2 labels"),
        ([[0.1, 1.0]], np.nan, "must be a number; got NaN"),
        ([0.1, 1.0], 0.5, "must be a matrix"),
    ],
)
def test_scores_and_thresholds_are_checked(scores: object, threshold: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        LabelSets.from_scores(scores, threshold)


def test_pairs_of_lists_are_those_of_loops() -> None:
    rng = np.random.default_rng(3)
    scores = np.where(rng.random((30, 7)) < 0.5, -np.inf, rng.random((30, 7)))
    top = TopK.from_scores(scores, 4).named(ids=[f"r{i}" for i in range(30)])
    for k in (None, 1, 3, 9):
        expected = [
            (row, label, place)
            for row in range(30)
            for place, label in enumerate(top.labels[row, :k].tolist())
            if label >= 0
        ]
        assert list(zip(*(each.tolist() for each in top.pairs(k)), strict=True)) == expected
        dense = np.zeros((30, 7))
        for row, label, _ in expected:
            dense[row, label] = 1
        np.testing.assert_array_equal(top.matrix(7, k).toarray(), dense)
    for rows in ([5, 0], np.arange(30) % 3 == 0, slice(2, 9, 3)):
        numbers, part = np.arange(30)[rows], top.take(rows)
        np.testing.assert_array_equal(part.labels, top.labels[numbers])
        assert list(part.ids or ()) == [f"r{i}" for i in numbers]
    with pytest.raises(ValueError, match="predictions name label 6, but the 3 labels are 0 … 2"):
        TopK([[6]], [[1.0]]).matrix(3)
    empty = TopK.from_scores(np.full((2, 3), -np.inf), 2)
    assert [each.size for each in empty.pairs()] == [0, 0, 0]
    assert empty.matrix(0).shape == (2, 0)
    with pytest.raises(ValueError, match="the data set has no labels"):
        labels_of(Dataset([[1.0]], None))
