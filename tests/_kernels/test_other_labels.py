"""Models of one label by the other labels of its row: their parts, by definition and by hand.

That the whole finds an optimum is tested in `tests/missing`; a search does so with many a wrong
step, so that the steps are compared here.
"""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit

from unmask._kernels import other_labels as kernels

P = np.array([0.5, 0.25, 0.8, 0.4])
OBSERVED = np.array(
    [[1, 1, 0, 0], [0, 1, 1, 1], [0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [1, 1, 1, 0]]
)
FOLD = np.array([0, 1, 0, 2, 1, 2], np.int32)


def pairs_of(labels: list[int]) -> kernels.Pairs:
    """All rows with each of some labels; the last label has no pair."""
    rows = np.tile(np.arange(6, dtype=np.int32), len(labels))
    of = np.repeat(labels, 6)
    start = 6 * np.searchsorted(labels, np.arange(5))
    scores = np.linspace(-2, 1.5, rows.size).astype(np.float32)
    return kernels.Pairs(
        start.astype(np.int64), rows, scores, P[of].astype(np.float32), OBSERVED[rows, of] > 0
    )


def others_of() -> kernels.OtherLabels:
    matrix = sp.csr_array(OBSERVED)
    inverse = 1 / P[matrix.indices]
    return kernels.OtherLabels(
        matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), inverse,
        OBSERVED @ (1 / P), FOLD,
    )  # fmt: skip


def test_a_pair_is_described_by_its_score_and_the_other_labels() -> None:
    pairs, others = pairs_of([0, 1]), others_of()
    for pair in range(12):
        row, label = pair % 6, pair // 6
        rest = np.delete(OBSERVED[row], label)
        values = np.full(kernels.SHARED, 7.0)
        count = kernels.describe(pairs, others, pair, values)
        total = float(rest @ np.delete(1 / P, label))
        wanted = [pairs.score[pair], 1, rest.sum() == 0, math.log1p(total)]
        assert count == rest.sum()
        np.testing.assert_allclose(values, wanted, rtol=1e-6, atol=1e-6)
        chosen = np.array([pair])
        np.testing.assert_array_equal(kernels.described(pairs, others, chosen), [values])


def test_pairs_of_other_folds_come_first() -> None:
    pairs, others = pairs_of([0, 1]), others_of()
    order, fitted = kernels._fitted_first(6, 12, pairs, others, 1)
    assert (order[:fitted].tolist(), fitted) == ([6, 8, 9, 11], 4)
    assert sorted(order[fitted:].tolist()) == [7, 10]


def test_other_labels_are_a_sparse_matrix_and_are_added_up() -> None:
    pairs, others = pairs_of([0, 1]), others_of()
    place = np.array([2, -1, 0, 1], np.int32)  # of the labels that are not label 1
    chosen = np.array([7, 8, 11])
    starts, features = kernels._features(1, chosen, pairs, others, place)
    assert starts.tolist() == [0, 2, 2, 4]
    assert features[:4].tolist() == [0, 1, 2, 0]
    part = kernels._Part(2, np.ones(3), np.ones(3, bool), starts, features)
    out = np.full(4, 7.0)
    kernels._times(out, np.array([1.0, 10.0, 100.0]), part, 3)
    assert out.tolist() == [11, 0, 101, 7]


def test_only_the_last_pairs_are_copied() -> None:
    out = np.zeros(6, np.float32)
    kernels._copy(out, np.arange(4.0) + 1, np.array([5, 0, 3, 1]), 2)
    assert out.tolist() == [0, 4, 0, 3, 0, 0]


@pytest.mark.parametrize("p", [1e-4, 0.3, 0.95])
@pytest.mark.parametrize("z", [-6.0, -0.5, 0.0, 2.0, 8.0])
def test_slope_and_information(z: float, p: float) -> None:
    """The information is the mean square of the slope, whatever is observed."""
    with mpmath.workdps(40):
        sigma = 1 / (1 + mpmath.exp(-mpmath.mpf(z)))
        slopes = {True: sigma - 1, False: p * sigma * (1 - sigma) / (1 - p * sigma)}
        information = p * sigma * slopes[True] ** 2 + (1 - p * sigma) * slopes[False] ** 2
    for observed, slope in slopes.items():
        made = kernels._slope_and_information(z, p, observed)
        assert made == pytest.approx((float(slope), float(information)), rel=1e-10)


def test_what_is_certain_has_no_slope() -> None:
    for z in (kernels.HIGHEST, kernels.HIGHEST + 5, 1e4):
        slope, information = kernels._slope_and_information(z, 0.5, False)
        assert 0 <= slope < 1e-14
        assert 0 <= information < 1e-14


def test_surprise_adds_up_over_the_first_pairs() -> None:
    z = np.array([-700.0, -2.0, 0.0, 0.5, 3.0, 34.0, 50.0, 0.25])
    p = np.array([0.5, 0.2, 0.9, 0.3, 0.6, 0.7, 0.4, 0.5])
    for observed in (np.zeros(8, bool), np.ones(8, bool), np.arange(8) % 2 == 0):
        chance = expit(np.minimum(z, kernels.HIGHEST))
        terms = np.where(observed, np.logaddexp(0, -z), -np.log1p(-p * chance))
        made = kernels._surprise(z, p, observed, 7)
        assert made == pytest.approx(terms[:7].sum(), rel=1e-12)


def test_an_intercept_is_moved_only_where_that_is_likelier() -> None:
    """One pull: to where as many are expected as observed, at the price of half its square."""
    p, observed = np.full(5, 0.8), np.array([True, True, False, True, True])
    z = np.array([-3.0, -2.0, -2.5, -1.0, 4.0])
    o = kernels.balanced(z[:4], p[:4], 3, 0.5)
    assert (p[:4] * expit(z[:4] + o)).sum() + 0.5 * o == pytest.approx(3, rel=1e-8)
    own, moved = np.array([1.0, 2.0, 3.0, 4.0]), z.copy()
    kernels._balance(own, moved, p, observed, 4, 0.5)
    np.testing.assert_allclose(own, [1, 2 + o, 3, 4])
    np.testing.assert_allclose(moved, z + o)
    # a hidden label that is all but certain to be relevant: −ln(1 − p) with hardly any slope
    rare, none = np.full(3, 1e-3), np.zeros(3, bool)
    start, own = np.full(3, 20.0), np.zeros(4)
    high = start.copy()
    kernels._balance(own, high, rare, none, 3, 1.0)
    gained = kernels._surprise(start, rare, none, 3)
    o = kernels.balanced(start, rare, 0, 1.0)
    price = kernels._surprise(start + o, rare, none, 3) + o**2 / 2
    assert (own[1] == o) == (price < gained)
    np.testing.assert_array_equal(high, start + own[1])


def first_stage(n: int) -> dict[str, Any]:
    rng = np.random.default_rng(n)
    values = np.c_[rng.normal(size=n), np.ones(n), rng.random((n, 2))]
    common = np.array([0.4, -0.3, 0.2, 0.1])
    p = rng.uniform(0.4, 0.9, n)
    observed = rng.random(n) < p * expit(values @ common)
    return {"values": values, "common": common, "p": p, "observed": observed}


def newton(values, p, observed, z, ridge, away):  # type: ignore[no-untyped-def]
    """The step of Fisher scoring, from dense matrices."""
    sigma = expit(z)
    slope = np.where(observed, sigma - 1, p * sigma * (1 - sigma) / (1 - p * sigma))
    information = p * sigma * (1 - sigma) ** 2 / (1 - p * sigma)
    hessian = np.diag(ridge) + values.T @ (information[:, None] * values)
    gradient = ridge * away + values.T @ slope
    return -np.linalg.solve(hessian, gradient), gradient


def test_one_step_of_the_first_stage() -> None:
    """A precision between the promise of the first step and that of the second leaves one."""
    about = first_stage(20)
    values, common, p, observed = (about[key] for key in ("values", "common", "p", "observed"))
    ridge, fitted = np.array([0.5, 1.0, 2.0, 0.3]), 16
    own = common + np.array([0.3, -0.2, 0.1, 0.2])
    z = values @ own
    args = values[:fitted], p[:fitted], observed[:fitted]
    step, gradient = newton(*args, z[:fitted], ridge, own - common)
    later = z + values @ step
    second, then = newton(*args, later[:fitted], ridge, own + step - common)
    value = kernels._surprise(z, p, observed, fitted) + 0.5 * ridge @ (own - common) ** 2
    promises = -step @ gradient / (1 + value), -second @ then / (1 + value)
    assert promises[1] < promises[0] / 4
    made, reached = own.copy(), z.copy()
    rest = (values, p, observed, fitted, common, ridge)
    kernels._fit_own(made, reached, *rest, promises[0] * 0.999)
    np.testing.assert_allclose(made, own + step, rtol=1e-9)
    np.testing.assert_allclose(reached, later, rtol=1e-9)
    made, reached = own.copy(), z.copy()
    kernels._fit_own(made, reached, *rest, promises[0] * 1.001)
    np.testing.assert_array_equal(made, own)
    np.testing.assert_array_equal(reached, z)


def second_stage(features: list[list[int]], fitted: int, seed: int) -> kernels._Part:
    rng = np.random.default_rng(seed)
    starts = np.r_[0, np.cumsum([len(each) for each in features])].astype(np.int64)
    n = len(features)
    return kernels._Part(
        fitted, rng.uniform(0.4, 0.9, n), rng.random(n) < 0.4, starts,
        np.array([f for each in features for f in each], np.int32),
    )  # fmt: skip


def dense(part: kernels._Part, width: int) -> np.ndarray:
    matrix = np.zeros((len(part.starts) - 1, width))
    for i in range(len(matrix)):
        matrix[i, part.features[part.starts[i] : part.starts[i + 1]]] = 1
    return matrix


def test_directions_solve_the_information() -> None:
    """Labels that never meet need one step of conjugate gradients, two that do need two."""
    for features in ([[0], [1], [0], [2], [1], [0]], [[0, 1], [0, 1], [0], [1], [0, 1], [0, 1]]):
        part = second_stage(features, 5, 1)
        width = 1 + max(max(each) for each in features)
        matrix = dense(part, width)[:5]
        information = np.array([0.5, 2.0, 1.0, 0.25, 3.0])
        gradient = np.array([1.0, -2.0, 0.5])[:width]
        hessian = 0.7 * np.eye(width) + matrix.T @ (information[:, None] * matrix)
        step = np.full(width, 7.0)
        kernels._direction(step, gradient, np.diag(hessian).copy(), information, part, 0.7)
        np.testing.assert_allclose(step, -np.linalg.solve(hessian, gradient), rtol=1e-9)


def test_directions_of_many_labels_are_nearly_exact() -> None:
    rng = np.random.default_rng(3)
    features = [np.flatnonzero(rng.random(6) < 0.5).tolist() for _ in range(30)]
    part = second_stage(features, 30, 2)
    matrix, information = dense(part, 6), rng.uniform(0.1, 2, 30)
    hessian = 0.5 * np.eye(6) + matrix.T @ (information[:, None] * matrix)
    gradient, step = rng.normal(size=6), np.empty(6)
    kernels._direction(step, gradient, np.diag(hessian).copy(), information, part, 0.5)
    left = hessian @ step + gradient
    assert left @ (left / np.diag(hessian)) <= 1e-3 * gradient @ (gradient / np.diag(hessian))


def test_one_step_of_the_second_stage() -> None:
    """Of pairs that decide and of one that is only predicted; w and z go together."""
    part = second_stage([[0, 1], [0], [1], [0, 1], [0], [0, 1]], 5, 4)
    matrix, z, w = dense(part, 2), np.linspace(-1, 1, 6), np.array([0.2, -0.1])
    penalty = np.full(2, 0.8)
    args = matrix[:5], part.propensity[:5], part.observed[:5]
    step, gradient = newton(*args, z[:5], penalty, w)
    value = kernels._surprise(z, part.propensity, part.observed, 5) + 0.4 * w @ w
    promised = -step @ gradient / (1 + value)
    made, reached = w.copy(), z.copy()
    kernels._fit_others(made, reached, part, 0.8, promised * 0.999)
    np.testing.assert_allclose(made, w + step, rtol=1e-7)
    np.testing.assert_allclose(reached, z + matrix @ step, rtol=1e-7)
    made, reached = w.copy(), z.copy()
    kernels._fit_others(made, reached, part, 0.8, promised * 1.001)
    np.testing.assert_array_equal(made, w)
    made, reached = w.copy(), z.copy()
    kernels._fit_others(made, reached, part, 0.8, 1e-14)
    _, gradient = newton(*args, reached[:5], penalty, made)
    assert np.abs(gradient).max() < 1e-5
    np.testing.assert_allclose(reached, z + matrix @ (made - w), rtol=1e-7)
