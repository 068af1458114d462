"""The mixture fitter: when it stops, and what its columns share."""

from __future__ import annotations

import numpy as np
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
