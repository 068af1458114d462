"""The door: what it lets in is canonical, what it refuses is explained, and nothing is changed."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import strategies
from unmask import _kernels
from unmask.arrays import checks


def unsorted(matrix: sp.csr_array) -> sp.csr_array:
    """The same matrix with every row's entries stored backwards."""
    order = np.concatenate(
        [np.arange(e - 1, s - 1, -1) for s, e in pairwise(matrix.indptr)]
        or [np.empty(0, dtype=int)]
    ).astype(int)
    parts = matrix.data[order], matrix.indices[order], matrix.indptr.copy()
    return sp.csr_array(parts, shape=matrix.shape)


@given(
    strategies.label_matrices(),
    st.sampled_from(
        [sp.csr_array, sp.csr_matrix, sp.csc_array, sp.coo_matrix, sp.lil_array, sp.bsr_array,
         sp.dia_array, sp.dok_array, unsorted,
         lambda m: m.toarray(), lambda m: m.toarray().astype(bool), lambda m: m.toarray().tolist()]
    ),
)  # fmt: skip
def test_labels_of_every_kind_become_the_same_matrix(labels: sp.csr_array, kind) -> None:
    given_labels = kind(labels)
    if not sp.issparse(given_labels) and labels.shape[0] == 0:
        return  # a list of no rows does not know its width
    found = checks.labels(given_labels)
    np.testing.assert_array_equal(found.toarray(), labels.toarray())
    assert isinstance(found, sp.csr_array)
    assert found.has_canonical_format
    assert found.data.dtype == np.float32
    assert found.data.all()


def test_the_callers_matrix_is_left_alone() -> None:
    labels = unsorted(sp.csr_array([[1.0, 1.0, 1.0], [0.0, 1.0, 1.0]]))
    labels.data[0] = 0  # a stored zero
    for array in (labels.data, labels.indices, labels.indptr):
        array.setflags(write=False)
    before = labels.indices.copy()
    found = checks.labels(labels)
    np.testing.assert_array_equal(labels.indices, before)
    np.testing.assert_array_equal(found.toarray(), [[1, 1, 0], [0, 1, 1]])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([[0, 2]], "labels must be 0 or 1; got 2 in row 0, label 1. Code a missing label as 0"),
        ([[0, 0], [-1, 1]], "got -1 in row 1, label 0"),
        ([[0.5]], "got 0.5"),
        ([[np.nan]], "got nan"),
        ([1, 0], r"must be a matrix of numbers, rows × columns; got int64 in shape \(2,\)"),
        ([["a"]], "labels must"),
        (sp.csr_array((np.ones(3), [1, 1, 0], [0, 0, 3]), shape=(2, 2)), "column 1 twice in row 1"),
    ],
)
def test_bad_labels_are_refused_in_words(labels, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        checks.labels(labels)


@pytest.mark.parametrize(
    ("propensity", "message"),
    [
        ([0.5, 0.0], r"propensities must lie in \(0, 1\]; got 0 at label 1"),
        ([1.7, 0.5], "got 1.7 at label 0"),
        ([np.nan, 0.5], "got nan at label 0"),
        ([np.inf, 0.5], "got inf at label 0"),
        ([0.5], "1 propensities for 2 labels"),
        ([[0.5, 0.5]], "one number per label"),
    ],
)
def test_bad_propensities_are_refused_in_words(propensity, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        checks.propensity(propensity, 2)


def test_propensities_are_a_copy() -> None:
    mine = np.array([0.5, 1.0])
    found = checks.propensity(mine)
    found[0] = 0.1
    assert mine[0] == 0.5


@given(strategies.label_matrices(), st.data())
def test_entry_propensities_follow_the_storage_order(labels: sp.csr_array, draw) -> None:
    p = draw.draw(strategies.propensity_vectors(labels.shape[1]))
    by_label = checks.entry_propensity(p, labels)
    as_matrix = sp.csr_array((p[labels.indices], labels.indices, labels.indptr), shape=labels.shape)
    np.testing.assert_array_equal(by_label, checks.entry_propensity(as_matrix, labels))
    rows = np.repeat(np.arange(labels.shape[0]), np.diff(labels.indptr))
    np.testing.assert_array_equal(by_label, (labels.toarray() * p)[rows, labels.indices])


def test_entry_propensities_of_another_pattern_are_refused() -> None:
    labels = checks.labels([[1, 0], [1, 1]])
    with pytest.raises(ValueError, match="exactly the entries that the labels store; got 1"):
        checks.entry_propensity(sp.csr_array([[0.5, 0], [0, 0]]), labels)
    with pytest.raises(ValueError, match=r"got 1\.5 in row 1, label 0"):
        checks.entry_propensity(sp.csr_array([[0.5, 0], [1.5, 0.5]]), labels)


def test_infinite_scores_are_located() -> None:
    with pytest.raises(ValueError, match=r"scores must be finite; got inf at position \(1, 0\)"):
        checks.finite(np.array([[0.0, 1.0], [np.inf, 0.0]]), "scores")


def test_rows_must_match() -> None:
    with pytest.raises(ValueError, match="top and labels must have the same rows; got 2 and 3"):
        checks.same_rows(np.ones((2, 1)), np.ones((3, 1)), "top", "labels")


@given(st.lists(st.integers(0, 9), max_size=40), st.integers(1, 12))
def test_chunks_cover_every_row_once_whatever_the_threads(counts: list[int], entries: int) -> None:
    indptr = np.r_[0, np.cumsum(counts)].astype(np.int64)
    bounds = _kernels.row_bounds(indptr, entries)
    seen = {}
    for threads in (1, 3):
        _kernels.set_threads(threads)
        seen[threads] = _kernels.in_chunks(bounds, lambda start, stop: list(range(start, stop)))
    _kernels.set_threads(None)
    assert seen[1] == seen[3]
    assert [row for chunk in seen[1] for row in chunk] == list(range(len(counts)))


@given(st.integers(0, 30), st.integers(0, 9), st.integers(1, 40))
def test_rows_of_equal_width_are_cut_as_late_as_they_can_be(n: int, width: int, most: int) -> None:
    bounds = _kernels.even_bounds(n, width, most)
    assert bounds.dtype == np.int64
    cut = [0]
    while cut[-1] < n:  # one row at least, then as many as fit; rows of no width weigh as one
        step = 1
        while (step + 1) * max(width, 1) <= most and cut[-1] + step < n:
            step += 1
        cut.append(cut[-1] + step)
    assert bounds.tolist() == cut


def test_threads_come_from_the_setting_then_the_environment(monkeypatch) -> None:
    monkeypatch.setenv("UNMASK_THREADS", "3")
    assert _kernels.threads() == 3
    _kernels.set_threads(2)
    assert _kernels.threads() == 2
    _kernels.set_threads(None)
    with pytest.raises(ValueError, match="at least 1; got 0"):
        _kernels.set_threads(0)


@pytest.mark.parametrize(
    ("rows", "columns", "words"),
    [
        ([0, 2, 1, 2], [1, 0, 1, 0], "column 0 twice in row 2"),
        ([1, 1, 0, 0, 1], [0, 2, 2, 1, 2], "column 2 twice in row 1"),
        ([0, 0], [1, 1], "column 1 twice in row 0"),
    ],
)
def test_an_entry_that_is_there_twice_is_named(
    rows: list[int], columns: list[int], words: str
) -> None:
    """Not its neighbours, which share its row or its column."""
    matrix = sp.coo_array((np.ones(len(rows)), (rows, columns)), shape=(3, 4))
    with pytest.raises(ValueError, match=words):
        checks.labels(matrix)
    once = sp.coo_array((np.ones(len(rows) - 1), (rows[:-1], columns[:-1])), shape=(3, 4))
    assert checks.labels(once).nnz == len(rows) - 1


def pair(both: int, outside: int, reverse: int) -> tuple[sp.csr_array, sp.csr_array]:
    """Labels in both, only observed, and only complete, of one row."""
    total = both + outside + reverse
    observed, complete = np.zeros((1, total)), np.zeros((1, total))
    observed[0, : both + outside] = 1
    complete[0, :both] = complete[0, both + outside :] = 1
    return sp.csr_array(observed), sp.csr_array(complete)


@pytest.mark.parametrize(
    ("both", "outside", "reverse"),
    [(10, 0, 90), (10, 10, 10), (10, 10, 90), (80, 20, 20), (95, 5, 0), (0, 0, 5), (0, 0, 0)],
)
def test_pairs_that_may_be(both: int, outside: int, reverse: int) -> None:
    checks.audited_pair(*pair(both, outside, reverse))


@pytest.mark.parametrize(
    ("both", "outside", "reverse", "message"),
    [
        (10, 90, 0, "are the two swapped"),
        (80, 20, 19, "20 of 100 observed .* 19 of 99 the other way round: are the two swapped"),
        (10, 11, 90, "11 of 21 observed .*; are these the same rows, in the same order"),
        (10, 11, 10, "10 of 20 the other way round: are the two swapped"),
        (0, 1, 0, "are the two swapped"),
        (0, 1, 1, "1 of 1 observed .*; are these the same rows, in the same order"),
        (0, 3, 1, "3 of 3 observed .*; are these the same rows, in the same order"),
    ],
)
def test_pairs_that_cannot_be(both: int, outside: int, reverse: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        checks.audited_pair(*pair(both, outside, reverse))


@pytest.mark.parametrize(
    ("axis", "wrong", "noun"),
    [("row", 9, "row"), ("row", 3, "row"), ("row", -1, "row"), ("col", 7, "label")],
)
def test_coordinates_beyond_the_shape_are_named(axis: str, wrong: int, noun: str) -> None:
    """Of a COO matrix whose coordinates were changed after scipy had looked at them."""
    said = str(wrong).replace("-", "−")
    matrix = sp.coo_array((np.ones(3), ([0, 1, 2], [0, 2, 1])), shape=(3, 4))
    for entry in range(3):
        damaged = matrix.copy()
        getattr(damaged, axis)[entry] = wrong
        with pytest.raises(ValueError, match=f"entry {entry} names {noun} {said}"):
            checks.labels(damaged)


@pytest.mark.parametrize("value", [0.49, 1.0, 1.5, 95, -0.9, np.nan, np.inf])
def test_a_confidence_is_a_share_that_leaves_some_doubt(value: float) -> None:
    with pytest.raises(ValueError, match=r"confidence must be at least 0\.5 and less than 1; got"):
        checks.confidence(value)
    assert [checks.confidence(x) for x in (0.5, 0.95, 0.999999)] == [0.5, 0.95, 0.999999]
