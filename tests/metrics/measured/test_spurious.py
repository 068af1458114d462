"""The rate of wrong labels: weighted, with the ends of as many draws as rows are worth."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import norm

from unmask.data.judgements import Design, Judgements, Sample, Stratum
from unmask.metrics.intervals import wilson
from unmask.metrics.measured.labels import spurious

RNG = np.random.default_rng(2)
N, L, DRAWN = 500, 6, 250
OBSERVED = sp.csr_array((RNG.random((N, L)) < 0.4).astype(float))


def judged_rows(wrong: np.ndarray) -> Judgements:
    """A simple sample of every second row; `wrong` says which of their labels are."""
    rows = np.arange(0, N, 2)
    sample = Sample(
        Design.SIMPLE, (N, L), (Stratum("rows", N, DRAWN),), rows, None, np.zeros(DRAWN, int)
    )
    return Judgements(sample, sp.csr_array(OBSERVED[rows].toarray() * ~wrong))


@pytest.mark.parametrize("together", [False, True])
def test_labels_of_a_row_that_are_wrong_together_are_worth_fewer_draws(together: bool) -> None:
    shape = (DRAWN, 1) if together else (DRAWN, L)
    wrong = np.broadcast_to(RNG.random(shape) < 0.3, (DRAWN, L))
    rate = spurious(judged_rows(wrong), OBSERVED, confidence=0.9)
    mine = OBSERVED[::2].toarray() > 0
    count, bad = mine.sum(), (mine & wrong).sum()
    value = bad / count
    by_row = ((wrong - value) * mine).sum(axis=1)
    draws = value * (1 - value) * count**2 / (by_row**2).sum()
    assert (draws < 0.5 * count) == together
    draws = min(draws, count)
    assert draws > 120
    expected = wilson(value, draws, norm.ppf(0.95))
    assert (rate.value, rate.judged, rate.wrong) == (pytest.approx(value), count, bad)
    assert rate.interval == pytest.approx(expected, rel=1e-6)


def test_none_wrong_all_wrong_and_none_judged() -> None:
    none = spurious(judged_rows(np.zeros((DRAWN, L), bool)), OBSERVED)
    every = spurious(judged_rows(np.ones((DRAWN, L), bool)), OBSERVED)
    count = int(OBSERVED[::2].sum())
    assert (none.value, none.wrong, every.value, every.wrong) == (0, 0, 1, count)
    assert none.interval == pytest.approx(wilson(0.0, count, norm.ppf(0.975)))
    assert every.interval == pytest.approx(wilson(1.0, count, norm.ppf(0.975)))
    nothing = spurious(judged_rows(np.zeros((DRAWN, L), bool)), sp.csr_array((N, L)))
    assert math.isnan(nothing.value)
    assert (nothing.interval, nothing.judged, nothing.wrong) == ((0, 1), 0, 0)


@pytest.mark.parametrize("confidence", [0.4, 1.0, 95])
def test_a_rate_has_a_confidence(confidence: float) -> None:
    with pytest.raises(ValueError, match="confidence must be at least"):
        spurious(judged_rows(np.zeros((DRAWN, L), bool)), OBSERVED, confidence=confidence)
