"""Frames: strata by hand, allocations by their rule, draws of exactly what is asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from unmask.arrays import pair_keys
from unmask.audit import designs
from unmask.data.judgements import StratumKind
from unmask.predictions import TopK

TOP, LISTED, FAR = StratumKind.TOP, StratumKind.LISTED, StratumKind.FAR


@pytest.mark.parametrize(
    ("sizes", "importance", "budget", "least", "counts"),
    [
        ([10, 20, 30], [1, 1, 1], 60, 2, [10, 20, 30]),
        ([10, 20, 30], [1, 1, 1], 99, 2, [10, 20, 30]),
        ([10, 20, 30], [1, 1, 1], 12, 1, [2, 4, 6]),
        ([10, 20, 30], [3, 0, 1], 12, 1, [6, 0, 6]),
        ([4, 100], [10, 1], 50, 1, [4, 46]),  # a full stratum leaves the rest to the others
        ([10, 20, 30], [1, 1, 1], 4, 2, [1, 1, 2]),  # below the least: turns
        ([10, 20, 30], [1, 1, 1], 6, 2, [2, 2, 2]),
        ([1, 20, 30], [1, 1, 1], 5, 2, [1, 2, 2]),
        ([100, 100], [1, 1000], 20, 5, [5, 15]),
        ([10, 10], [0, 0], 5, 1, [0, 0]),
        ([3, 3], [1, 1], 5, 1, [3, 2]),
    ],
)
def test_allocations(
    sizes: Any, importance: Any, budget: int, least: int, counts: list[int]
) -> None:
    made = designs.allocate(np.array(sizes), np.array(importance, float), budget, least)
    assert made.tolist() == counts


def test_chances_of_pairs_that_were_not_observed() -> None:
    """r (1 − p)/(1 − p r), between a thousandth and what a chance of almost 1 leaves."""
    chance = sp.csr_array(np.array([[0.5, 0.2, 0], [1.0, 0, 0.001]]))
    made = designs._missing(chance, np.array([0.5, 0.75, 0.9]))
    near = (1 - 1e-9) * 0.5 / (1 - 0.5 * (1 - 1e-9))
    expected = [0.25 / 0.75, 0.2 * 0.25 / 0.85, near, 1e-3]
    np.testing.assert_allclose(made, expected, rtol=1e-12)
    counts = designs._far_counts(np.array([1, 4, 7, 5]), np.array([0.5, 0.25, 1.0]), 3)
    np.testing.assert_allclose(counts, [0.5 * 1, 3.5 * 3, 1.5 * 1e-3], rtol=1e-12)


def test_bins_of_equal_size_keep_equal_rates_together() -> None:
    assert designs._bins(np.arange(12) / 12).tolist() == [i // 2 for i in range(12)]
    assert designs._bins(np.array([0.5, 0.1, 0.5, 0.5])).tolist() == [1, 0, 1, 1]
    assert designs._bins(np.full(5, 0.3)).tolist() == [0] * 5


def test_far_labels_are_cut_where_roots_of_counts_add_up_alike() -> None:
    counts = np.array([0, 9, 4, 1, 0, 25])
    labels = sp.csr_array((np.arange(25)[:, None] < counts).astype(float))
    order = [5, 1, 2, 3, 0, 4]
    total = np.cumsum([np.sqrt(counts[j] + 0.5) for j in order])
    groups: dict[int, list[int]] = {}
    for label, sum_ in zip(order, total, strict=True):
        groups.setdefault(min(int(10 * sum_ / total[-1]), 9), []).append(label)
    assert [each.tolist() for each in designs._far_groups(labels)] == [
        sorted(groups[key]) for key in sorted(groups)
    ]
    alike = designs._far_groups(sp.csr_array((3, 20)))
    assert sorted(int(label) for each in alike for label in each) == list(range(20))


FRAME = designs.PairFrame(
    (4, 3),
    np.array([0, 4, 5, 9]),
    np.array([0, 1, 0, 1]),
    (TOP, LISTED, FAR, FAR),
    np.array([2, 2, 3, 2]),
    np.array([0.5, 0.2, 0.1, 0.1]),
    (np.array([0, 1]), np.array([2])),
    np.array([0, 3, 4, 5, 7, 9, 11]),
)
"""Rows 0 to 3 of three labels: pairs 3, 7 and 11 are observed, four are listed."""


def test_every_pair_has_its_stratum_or_needs_none() -> None:
    strata = FRAME.stratum_of(np.arange(12)).tolist()
    assert strata == [0, 2, 3, -1, 1, 0, 2, -1, 3, 1, 2, -1]
    nothing = designs.PairFrame(
        (2, 2), *(np.zeros(0, np.int64),) * 2, (FAR,), np.array([3]), np.array([0.1]),
        (np.array([0, 1]),), np.array([2]),
    )  # fmt: skip
    assert nothing.stratum_of(np.arange(4)).tolist() == [0, 0, -1, 0]


@pytest.mark.parametrize("few", [0, 1 << 14])
@pytest.mark.parametrize("without", [[], [1, 9]])
def test_draws_are_new_pairs_of_their_strata(
    monkeypatch: pytest.MonkeyPatch, few: int, without: list[int]
) -> None:
    """As many as asked for, each once; over seeds every pair that is left comes up."""
    monkeypatch.setattr(designs, "FEW", few)
    counts = np.array([1, 1, 1, 2 if not without else 1])
    seen: set[int] = set()
    for seed in range(60):
        keys, strata = FRAME.draw(counts, np.array(without, int), np.random.default_rng(seed))
        assert len(set(keys.tolist())) == counts.sum()
        assert FRAME.stratum_of(keys).tolist() == strata.tolist()
        assert np.bincount(strata, minlength=4).tolist() == counts.tolist()
        seen |= set(keys.tolist())
    assert seen == {0, 5, 4, 9, 1, 6, 10, 2, 8} - set(without)


def test_pairs_that_are_drawn_until_enough_are_new_are_as_likely(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(designs, "FEW", 0)
    labels, taken = np.array([0, 2]), np.array([0, 3, 5])
    times = np.zeros(60)
    for seed in range(600):
        wide = designs.PairFrame((20, 3), taken, taken, (FAR,), taken, taken, (labels,), taken)
        drawn = wide._draw_far(labels, 3, taken, np.random.default_rng(seed))
        assert drawn.size == 3
        times[drawn] += 1
    left = [
        row * 3 + label for row in range(20) for label in (0, 2) if row * 3 + label not in taken
    ]
    assert np.flatnonzero(times).tolist() == left
    assert abs(times[left] - 3 * 600 / 37).max() < 5 * np.sqrt(3 * 600 / 37)


def test_rows_are_cut_by_their_predicted_size() -> None:
    """Parts of equal size, the smallest first; equal ones in the order of rows."""
    rng = np.random.default_rng(0)
    labels = sp.csr_array((rng.random((7, 5)) < 0.4).astype(float))
    top = TopK.from_scores(rng.random((7, 5)), 3)
    size = np.asarray(designs.listed_chances([top], labels, None).sum(axis=1)).ravel()
    stratum = designs.row_strata([top], labels, 3)
    order = np.argsort(size, kind="stable")
    assert stratum[order].tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert pair_keys(sp.csr_array(np.array([[0, 1, 0], [1, 0, 1.0]]))).tolist() == [1, 3, 5]
    assert not designs.contains(np.zeros(0, int), np.arange(3)).any()


def test_strata_of_pairs_add_up_to_all_pairs() -> None:
    """By enumeration: the first k of either system, listed, observed or not, and all others."""
    rng = np.random.default_rng(1)
    labels = sp.csr_array((rng.random((12, 6)) < 0.3).astype(np.float32))
    tops = [TopK.from_scores(rng.random((12, 6)), 3) for _ in range(2)]
    for free in (True, False):
        frame = designs.pair_frame(tops, labels, np.full(6, 0.5), k=1, observed_free=free)
        strata = frame.stratum_of(np.arange(72)).reshape(12, 6)
        sizes = np.zeros(len(frame.kinds), int)
        for row in range(12):
            for label in range(6):
                seen = labels[row, label] > 0
                first = any(top.labels[row, 0] == label for top in tops)
                listed = any(label in top.labels[row] for top in tops)
                kind = "top" if first else "listed" if listed else "far"
                if seen:
                    kind = "observed-top" if first else "observed"
                if seen and free:
                    assert strata[row, label] == -1
                else:
                    assert frame.kinds[strata[row, label]] == kind
                    sizes[strata[row, label]] += 1
        assert frame.sizes.tolist() == sizes.tolist()
        shown = [kind.startswith("observed") for kind in frame.kinds]
        assert sum(shown) == (0 if free else 2)
        np.testing.assert_allclose(frame.rates[shown], 0.95)
