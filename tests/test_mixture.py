"""The mixture fits: when they stop, what columns share, and that they agree on the maximum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from threadpoolctl import threadpool_info, threadpool_limits

from unmask import _mixture


def test_em_stops_at_its_tolerance_or_after_its_steps() -> None:
    kernel, share = np.array([[0.5, 0.9], [0.5, 0.1]]), np.array([[0.7], [0.3]])
    start = np.array([0.01, 0.99])
    assert _mixture.maximize(kernel, share, start, 1e6, steps=3).steps == 3
    done = _mixture.maximize(kernel, share, start, 1e6)
    assert 3 < done.steps < 300
    assert 0 <= done.gap[0] <= 5
    assert _mixture.maximize(kernel, share, done.weights[:, 0], 1e6).steps == 1
    nothing = _mixture.maximize(kernel, share[:, :0], start, 1e6)
    assert (nothing.weights.shape, nothing.gap.size, nothing.steps) == ((2, 0), 0, 0)


def test_every_mixture_has_its_own_number_of_rows() -> None:
    kernel, share = np.array([[0.5, 0.9], [0.5, 0.1]]), np.array([[0.7, 0.7], [0.3, 0.3]])
    start = np.array([0.3, 0.7])
    few, many = _mixture.maximize(kernel, share, start, np.array([1.0, 1e9])).weights[0]
    assert abs(many - 0.5) < 1e-3 < abs(few - 0.5)


def test_linear_algebra_of_fits_takes_one_thread() -> None:
    def threads() -> set[int]:
        every = threadpool_info()
        return {each["num_threads"] for each in every if each["user_api"] == "blas"}

    with threadpool_limits(2, user_api="blas"):
        before = threads()
        assert _mixture.one_blas_thread(threads)() == {1}
        assert threads() == before


def thinned(p: float, atoms: int) -> np.ndarray:
    """Bin(m; N, p) for m and N = 0 … atoms − 1."""
    return binom.pmf(np.arange(atoms)[:, None], np.arange(atoms)[None, :], p)


def log_likelihood(kernel: np.ndarray, shares: np.ndarray, weights: np.ndarray) -> float:
    occupied = shares > 0
    return float(shares[occupied] @ np.log((kernel @ weights)[occupied]))


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(st.integers(0, 50), min_size=2, max_size=8).filter(any),
    p=st.sampled_from([0.2, 0.5, 0.9]),
)
def test_both_fits_reach_the_same_likelihood(rows, p):
    shares = np.array(rows) / sum(rows)
    kernel = thinned(p, len(rows))
    occupied = shares > 0
    newton = _mixture.maximum(kernel[occupied], shares[occupied], 1e-9)
    start = np.full(len(rows), 1 / len(rows))
    em = _mixture.maximize(kernel, shares[:, None], start, 1.0, tolerance=1e-6, steps=100_000)
    assert newton.weights.sum() == pytest.approx(1, abs=1e-12)
    assert (newton.weights >= 0).all()
    best = log_likelihood(kernel, shares, newton.weights)
    assert best >= log_likelihood(kernel, shares, em.weights[:, 0]) - 2e-9
    assert best <= log_likelihood(kernel, shares, em.weights[:, 0]) + em.gap[0] + 1e-12
    assert newton.log_likelihood == sorted(newton.log_likelihood)


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(st.integers(0, 50), min_size=2, max_size=8).filter(any),
    p=st.sampled_from([0.2, 0.5, 0.9]),
)
def test_the_gap_bounds_the_missing_likelihood(rows, p):
    """By concavity, for any mixture: here the one at which a coarse tolerance stops."""
    kernel, shares = thinned(p, len(rows)), np.array(rows) / sum(rows)
    kernel, shares = kernel[shares > 0], shares[shares > 0]
    coarse = _mixture.maximum(kernel, shares, 0.05)
    fine = _mixture.maximum(kernel, shares, 1e-10)
    assert fine.log_likelihood[-1] - coarse.log_likelihood[-1] <= coarse.gap + 1e-12
