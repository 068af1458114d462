"""More than two annotations, Chao's bound by hand, snapshots: what each may claim."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from unmask import data, propensity

TRUTH = data.synthetic.independent(3000, 6, seed=0)
RATES = (0.5, 0.3, 0.4)
LISTS = [data.hide(TRUTH, propensity.constant(6, p), seed=i) for i, p in enumerate(RATES)]


def test_more_lists_are_the_first_and_what_any_other_found() -> None:
    union = sp.csr_array(LISTS[1].maximum(LISTS[2]))
    three = propensity.recapture(*LISTS, seed=1)
    two = propensity.recapture(LISTS[0], union, seed=1)
    np.testing.assert_array_equal(three.value, two.value)
    assert three.value.mean() == pytest.approx(0.5, abs=0.03)
    either = propensity.recapture(*LISTS, of="either").value.mean()
    assert either == pytest.approx(1 - 0.5 * 0.7 * 0.6, abs=0.03)
    few = propensity.recapture(LISTS[0], LISTS[1], seed=1)
    assert (three.high - three.low).mean() < (few.high - few.low).mean()


def test_chao_stays_below_the_truth_where_annotators_miss_the_same() -> None:
    """Half of the labels are hard for all: the bound holds, Chapman's estimate is as low."""
    rng = np.random.default_rng(0)
    true = sp.csr_array(np.ones((4000, 1), np.float32))
    ease = np.where(np.arange(4000) % 2, 0.8, 0.2)
    lists = [sp.csr_array((rng.random(4000) < ease)[:, None] * 1.0) for _ in range(3)]
    size, variance = propensity.chao(*lists)
    found = sum(each.toarray() for each in lists).ravel() > 0
    assert found.sum() < size[0] < 4000
    assert np.sqrt(variance[0]) < 200
    assert true.nnz == 4000


def test_snapshots_bound_the_propensity_from_above() -> None:
    later = LISTS[0]
    earlier = data.hide(later, propensity.constant(6, 0.6), seed=7)
    bound = propensity.snapshots(earlier, later, curve="free")
    assert (bound.value > 0.3).all()  # 0.5 · 0.6, the propensity
    assert bound.value.mean() == pytest.approx(0.6, abs=0.03)
    assert "upper bounds from two snapshots" in bound.source.sentence
    assert bound.notes[0].startswith("an upper bound")
