"""Labels that rank rows, and sums over thresholds, by loops over rows, pairs and labels."""

from __future__ import annotations

import math

import numpy as np
import pytest

from unmask._kernels import columns


def average_precision(v: np.ndarray, scores: np.ndarray) -> float:
    """Over pairs of rows, as the module defines it."""
    observed, total = int((v > 0).sum()), v.sum()
    if not total:
        return math.nan
    factor = (observed - observed / total) / (observed - 1) if observed > 1 else 1.0
    value = 0.0
    for i, score in enumerate(scores):
        others = [k for k in range(v.size) if k != i and scores[k] >= score]
        value += v[i] * (1 + factor * v[others].sum()) / (scores >= score).sum()
    return float(value / total)


def beaten(scores: np.ndarray, i: int, k: int) -> float:
    return float(scores[i] > scores[k]) + 0.5 * float(scores[i] == scores[k])


def area(v: np.ndarray, scores: np.ndarray) -> tuple[float, np.ndarray]:
    """AUC and the derivative of it by the weight of every row."""
    n = v.size
    pairs = [(i, k) for i in range(n) for k in range(n) if i != k]
    below = sum(v[i] * (1 - v[k]) for i, k in pairs)
    value = sum(v[i] * (1 - v[k]) * beaten(scores, i, k) for i, k in pairs) / below
    own = np.zeros(n)
    for i, k in pairs:
        worth = v[i] * (1 - v[k]) * (beaten(scores, i, k) - value) / below
        own[[i, k]] += worth
    return value, own


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("forms", [(True, True), (True, False), (False, True)])
def test_ranked_rows_by_pairs(seed: int, forms: tuple[bool, bool]) -> None:
    """Scores have ties; the third label was never observed, and the last one once."""
    rng, n, n_labels = np.random.default_rng(seed), 9, 4
    scores = rng.integers(0, 5, (n_labels, n)).astype(np.float64)
    observed = rng.random((n_labels, n)) < 0.4
    observed[:2, :2], observed[2:] = True, False
    observed[3, 4] = True
    rows = np.nonzero(observed)[1]
    indptr = np.r_[0, np.cumsum(observed.sum(axis=1))]
    weights = 1 / rng.uniform(0.5, 1, (2, rows.size))
    order = np.argsort(-scores, axis=1)
    values, squares = np.full((2, 2, n_labels), -7.0), np.full((2, 2, n_labels), -7.0)
    influence = np.ones((2, 2, n))
    columns.rank_rows(
        order, np.take_along_axis(scores, order, 1), indptr, rows, weights, np.array(forms),
        values, squares, influence,
    )  # fmt: skip
    wanted = np.ones((2, 2, n))
    for view in range(2):
        for b in range(n_labels):
            v = np.zeros(n)
            own_rows = slice(indptr[b], indptr[b + 1])
            v[rows[own_rows]] = weights[view, own_rows]
            without = [
                average_precision(np.delete(v, i), np.delete(scores[b], i)) for i in range(n)
            ]
            value = average_precision(v, scores[b])
            left_out = np.where(np.isnan(without), value, without)
            expected = [(value, (left_out.mean() - left_out) * (n - 1) / n)]
            expected.append(area(v, scores[b]) if v.any() else (math.nan, np.zeros(n)))
            for form, (number, own) in enumerate(expected):
                if not forms[form]:
                    assert values[view, form, b] == squares[view, form, b] == -7.0
                    continue
                assert values[view, form, b] == pytest.approx(number, rel=1e-12, nan_ok=True)
                own = np.zeros(n) if math.isnan(number) else own
                assert squares[view, form, b] == pytest.approx(own @ own, rel=1e-9, abs=1e-15)
                wanted[view, form] += own
    assert influence == pytest.approx(wanted, rel=1e-9, abs=1e-12)


def some_rows(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Scores, and labels as rows with 1/p; scores also lie at thresholds and beyond them."""
    rng, n, n_labels = np.random.default_rng(seed), 8, 6
    scores = rng.choice([-1.0, 0.0, 0.1, 0.2, 0.25, 0.5, 0.7, 2.0], (n, n_labels))
    observed = rng.random((n, n_labels)) < 0.4
    observed[0] = False
    labels = np.nonzero(observed)[1].astype(np.int32)
    return (
        scores,
        np.r_[0, np.cumsum(observed.sum(axis=1))],
        labels,
        1 / rng.uniform(0.3, 1, labels.size),
    )


@pytest.mark.parametrize("thresholds", [[0.2], [0.0, 0.2, 0.5, 0.7]])
@pytest.mark.parametrize("seed", range(3))
def test_sums_over_thresholds_by_loops(seed: int, thresholds: list[float]) -> None:
    scores, indptr, labels, inverse = some_rows(seed)
    n, steps, parts = scores.shape[0], len(thresholds), columns.COMPONENTS
    shares, present = np.random.default_rng(seed).random((2, labels.size + n))
    sums, products = np.zeros((steps, parts)), np.zeros((steps, parts, parts))
    per_row = np.full((n, parts), np.nan)
    columns.sweep(
        scores, indptr, labels, inverse, shares, present, np.array(thresholds), sums, products,
        per_row,
    )  # fmt: skip
    for step, threshold in enumerate(thresholds):
        x = np.zeros((n, parts))
        for row in range(n):
            own = range(indptr[row], indptr[row + 1])
            hit = [e for e in own if scores[row, labels[e]] >= threshold]
            size = int((scores[row] >= threshold).sum())
            right = inverse[hit].sum()
            x[row] = [
                right / size if size else 0.0, float(size > 0), shares[hit].sum(), present[row],
                right, size, inverse[list(own)].sum(),
            ]  # fmt: skip
        assert sums[step] == pytest.approx(x.sum(axis=0))
        assert products[step] == pytest.approx(x.T @ x)
        if step == 0:
            assert per_row == pytest.approx(x)


@pytest.mark.parametrize("thresholds", [[0.2], [0.0, 0.2, 0.5, 0.7]])
@pytest.mark.parametrize("seed", range(3))
def test_missed_and_wrong_information_by_loops(seed: int, thresholds: list[float]) -> None:
    scores, indptr, labels, inverse = some_rows(seed)
    n, steps = scores.shape[0], len(thresholds)
    information = np.random.default_rng(seed).random(scores.shape[1])
    sums, per_row = np.ones((steps, 2)), np.full((n, 2), np.nan)
    columns.weigh(scores, indptr, labels, inverse, information, np.array(thresholds), sums, per_row)
    for step, threshold in enumerate(thresholds):
        x = np.zeros((n, 2))
        for row in range(n):
            for e in range(indptr[row], indptr[row + 1]):
                worth = inverse[e] * information[labels[e]]
                x[row, 0] += worth * (scores[row, labels[e]] < threshold)
                x[row, 1] -= worth * (scores[row, labels[e]] >= threshold)
            x[row, 1] += information[scores[row] >= threshold].sum()
        assert sums[step] == pytest.approx(1 + x.sum(axis=0))
        if step == 0:
            assert per_row == pytest.approx(x)


@pytest.mark.parametrize("seed", range(3))
def test_bins_of_scores_by_loops(seed: int) -> None:
    scores, indptr, labels, inverse = some_rows(seed)
    inner = np.array([0.0, 0.2, 0.5])
    out, wanted = np.zeros((scores.shape[0], 4, 3)), np.zeros((scores.shape[0], 4, 3))
    columns.fill_bins(scores, indptr, labels, inverse, inner, out)
    for row in range(scores.shape[0]):
        for score in scores[row]:
            wanted[row, (inner <= score).sum(), :2] += 1.0, score
        for e in range(indptr[row], indptr[row + 1]):
            wanted[row, (inner <= scores[row, labels[e]]).sum(), 2] += inverse[e]
    assert out == pytest.approx(wanted)


def test_keys_of_rows_are_a_product_of_their_bits() -> None:
    scores, indptr, labels, inverse = some_rows(0)
    multiplier, whole = 0x9E3779B97F4A7C15, 2**64
    bits = [array.view(np.uint64) for array in (scores, inverse)]
    keys = np.zeros(scores.shape[0], np.uint64)
    columns.row_keys(bits[0], indptr, labels, bits[1], np.uint64(multiplier), keys)
    for row, key in enumerate(keys.tolist()):
        wanted = multiplier
        for part in bits[0][row].tolist():
            wanted = (wanted ^ part) * multiplier % whole
            wanted ^= wanted >> 29
        for e in range(indptr[row], indptr[row + 1]):
            wanted = (wanted ^ int(labels[e])) * multiplier % whole
            wanted = (wanted ^ int(bits[1][e])) * multiplier % whole
            wanted ^= wanted >> 29
        assert key == wanted
