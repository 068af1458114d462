"""Models of one label by a model's score and by the other observed labels of its row.

A pair is a row and the label whose model it belongs to; pairs stand label by label. The model of a
label has two stages, with P(observed) = p_i σ(z_i) in both:

    z_i = c · f_i,                     f = (score, 1, is there no other label?, ln(1 + Σ 1/p))
    z_i = offset_i + Σ_{k observed in row i, k ≠ label} g_k,        offset: the z of the first stage

Each minimises −Σ_i ln P(what was observed) plus a ridge: the first towards coefficients c₀ that all
labels share, the second ½ λ ‖g‖². Every pair is predicted by the model of the rows of the other
folds. Stages are numbered 0 (c₀ alone), 1 (own c) and 2, 3 … (penalties λ, which fall, each
solution being the start of the next). Steps are those of Fisher scoring, by conjugate gradients in
the second stage, halved until the objective falls.

The likelihood is not convex: where z is large everywhere, an unobserved label costs −ln(1 − p) and
hardly any slope leads away. What all labels share can put a frequent label there, so the search for
its own c starts at c₀ or at c₀ with the intercept moved by o, whichever is better, o the root of

    Σ_i p_i σ(c₀ · f_i + o) + κ o = number observed        (κ: the ridge of the intercept),

whose left side rises strictly: there is one root, and it expects as many observed labels as there
are, up to κ o. Every later step lowers the objective, so no label ends where all z are large unless
that is likelier than this.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from unmask._kernels.compiling import njit
from unmask._typing import Array, Bools, Floats, Indices, Ints, Singles

SHARED = 4
"""Coefficients of the first stage."""
STEPS, CONJUGATE = 15, 12
SHORTEST = 1e-3
ROOT_STEPS, ROOT_PRECISION = 100, 1e-9
HIGHEST = 35.0
"""Beyond, σ(z) is 1 and its logarithm 0 anyway."""


class Pairs(NamedTuple):
    """Pairs, label by label: where each label starts, and of every pair row, score, p and y."""

    start: Ints
    rows: Indices
    score: Singles
    propensity: Singles
    observed: Bools


class OtherLabels(NamedTuple):
    """Observed labels row by row, 1/p of each, its sum over a row, and the fold of every row."""

    indptr: Ints
    indices: Indices
    inverse: Floats
    total: Floats
    fold: Indices


class _Part(NamedTuple):
    """Pairs of one label: the first `fitted` decide, all are predicted."""

    fitted: int
    propensity: Floats
    observed: Bools
    starts: Ints
    features: Indices


@njit(cache=True, nogil=True)
def held_out(
    first: int, last: int, pairs: Pairs, others: OtherLabels, folds: int, common: Floats,
    ridge: Floats, penalties: Floats, precision: float, out: Array,
) -> None:  # fmt: skip
    """Write z of the pairs of labels first … last − 1, a row of `out` for every stage.

    A step that promises less than the share `precision` of the objective is the last.
    """
    n_labels = pairs.start.size - 1
    place = np.full(n_labels, -1, np.int32)
    touched = np.empty(n_labels, np.int32)
    for label in range(first, last):
        begin, end = pairs.start[label], pairs.start[label + 1]
        if begin == end:
            continue
        count = 0
        for pair in range(begin, end):
            row = pairs.rows[pair]
            for entry in range(others.indptr[row], others.indptr[row + 1]):
                other = others.indices[entry]
                if other != label and place[other] < 0:
                    place[other] = count
                    touched[count] = other
                    count += 1
        for fold in range(folds):
            _predict_fold(
                label, fold, pairs, others, place, count, common, ridge, penalties, precision, out
            )
        for position in range(count):
            place[touched[position]] = -1


@njit(cache=True, nogil=True)
def describe(pairs: Pairs, others: OtherLabels, pair: int, values: Floats) -> int:
    """Write f of a pair; how many other labels its row has."""
    row = pairs.rows[pair]
    count: int = others.indptr[row + 1] - others.indptr[row]
    total = others.total[row]
    if pairs.observed[pair]:
        count -= 1
        total -= 1.0 / pairs.propensity[pair]
    values[0] = pairs.score[pair]
    values[1] = 1.0
    values[2] = 1.0 if count == 0 else 0.0
    values[3] = np.log1p(max(total, 0.0))
    return count


@njit(cache=True, nogil=True)
def described(pairs: Pairs, others: OtherLabels, chosen: Ints) -> Floats:
    """f of some pairs, one row each."""
    values = np.empty((chosen.size, SHARED))
    for position in range(chosen.size):
        describe(pairs, others, chosen[position], values[position])
    return values


@njit(cache=True, nogil=True)
def _predict_fold(
    label: int, fold: int, pairs: Pairs, others: OtherLabels, place: Indices, count: int,
    common: Floats, ridge: Floats, penalties: Floats, precision: float, out: Array,
) -> None:  # fmt: skip
    """All stages of one label, fitted without the rows of a fold, which are predicted."""
    begin, end = pairs.start[label], pairs.start[label + 1]
    order, fitted = _fitted_first(begin, end, pairs, others, fold)
    values = np.empty((order.size, SHARED))
    accompanied = np.empty(order.size, np.bool_)
    for position in range(order.size):
        accompanied[position] = describe(pairs, others, order[position], values[position]) > 0
    p = pairs.propensity[order].astype(np.float64)
    observed = pairs.observed[order]
    z = values @ common
    _copy(out[0], z, order, fitted)
    own = common.copy()
    _balance(own, z, p, observed, fitted, ridge[1])
    _fit_own(own, z, values, p, observed, fitted, common, ridge, precision)
    _copy(out[1], z, order, fitted)
    if penalties.size == 0:
        return
    kept = np.flatnonzero(accompanied)
    inside = 0
    while inside < kept.size and kept[inside] < fitted:
        inside += 1
    starts, features = _features(label, order[kept], pairs, others, place)
    part = _Part(inside, p[kept], observed[kept], starts, features)
    w, reached = np.zeros(count), z[kept]
    for index in range(penalties.size):
        _fit_others(w, reached, part, penalties[index], precision)
        _copy(out[2 + index], z, order, fitted)
        _copy(out[2 + index], reached, order[kept], inside)


@njit(cache=True, nogil=True)
def _copy(out: Array, z: Floats, order: Ints, fitted: int) -> None:
    for position in range(fitted, order.size):
        out[order[position]] = z[position]


@njit(cache=True, nogil=True)
def _fitted_first(
    begin: int, end: int, pairs: Pairs, others: OtherLabels, fold: int
) -> tuple[Ints, int]:
    """The pairs of a label, those of other folds first, and how many these are."""
    order = np.empty(end - begin, np.int64)
    fitted, last = 0, end - begin
    for pair in range(begin, end):
        if others.fold[pairs.rows[pair]] != fold:
            order[fitted] = pair
            fitted += 1
        else:
            last -= 1
            order[last] = pair
    return order, fitted


@njit(cache=True, nogil=True)
def _features(
    label: int, chosen: Ints, pairs: Pairs, others: OtherLabels, place: Indices
) -> tuple[Ints, Indices]:
    """The other labels of every chosen pair, as a sparse matrix."""
    starts, entries = np.zeros(chosen.size + 1, np.int64), 0
    for position in range(chosen.size):
        row = pairs.rows[chosen[position]]
        entries += others.indptr[row + 1] - others.indptr[row]
    features = np.empty(entries, np.int32)
    for position in range(chosen.size):
        row, to = pairs.rows[chosen[position]], starts[position]
        for entry in range(others.indptr[row], others.indptr[row + 1]):
            if others.indices[entry] != label:
                features[to] = place[others.indices[entry]]
                to += 1
        starts[position + 1] = to
    return starts, features


@njit(cache=True, nogil=True)
def _slope_and_information(z: float, p: float, observed: bool) -> tuple[float, float]:
    """Derivatives of −ln P(what was observed): the first, and the expectation of the second."""
    chance = 1.0 / (1.0 + np.exp(-min(z, HIGHEST)))
    hidden = 1.0 - p * chance
    slope = chance - 1.0 if observed else p * chance * (1.0 - chance) / hidden
    return slope, p * chance * (1.0 - chance) ** 2 / hidden


@njit(cache=True, nogil=True)
def _surprise(z: Floats, p: Floats, observed: Bools, count: int) -> float:
    """−Σ ln P(what was observed), but for the constant ln p."""
    total = 0.0
    for i in range(count):
        bounded = min(z[i], HIGHEST)
        if observed[i]:
            total += max(-bounded, 0.0) + np.log1p(np.exp(-abs(bounded)))
        else:
            total -= np.log1p(-p[i] / (1.0 + np.exp(-bounded)))
    return total


@njit(cache=True, nogil=True)
def _balance(own: Floats, z: Floats, p: Floats, observed: Bools, fitted: int, pull: float) -> None:
    """Move the intercept to where as many labels are expected as were observed, if better."""
    o = balanced(z[:fitted], p[:fitted], np.sum(observed[:fitted]), pull)
    moved = _surprise(z + o, p, observed, fitted) + 0.5 * pull * o**2
    if moved < _surprise(z, p, observed, fitted):
        own[1] += o
        z += o


@njit(cache=True, nogil=True)
def balanced(z: Floats, p: Floats, observed: float, pull: float) -> float:
    """The root of Σ p σ(z + o) + pull · o = observed: Newton, kept within where it must lie."""
    low: float = (observed - p.sum()) / pull
    high: float = observed / pull
    o = min(max(0.0, low), high)
    for _ in range(ROOT_STEPS):
        excess, slope = pull * o - observed, pull
        for i in range(z.size):
            chance = 1.0 / (1.0 + np.exp(-(z[i] + o)))
            excess += p[i] * chance
            slope += p[i] * chance * (1.0 - chance)
        if excess > 0.0:
            high = o
        else:
            low = o
        step = excess / slope
        if abs(step) < ROOT_PRECISION:
            return o
        o = o - step if low < o - step < high else 0.5 * (low + high)
    return o


@njit(cache=True, nogil=True)
def _fit_own(
    own: Floats, z: Floats, values: Floats, p: Floats, observed: Bools, fitted: int,
    common: Floats, ridge: Floats, precision: float,
) -> None:  # fmt: skip
    """The first stage, in place."""
    value = _surprise(z, p, observed, fitted) + 0.5 * np.sum(ridge * (own - common) ** 2)
    for _ in range(STEPS):
        gradient, hessian = ridge * (own - common), np.diag(ridge)
        for i in range(fitted):
            slope, information = _slope_and_information(z[i], p[i], observed[i])
            for a in range(SHARED):
                gradient[a] += slope * values[i, a]
                for b in range(a + 1):
                    hessian[a, b] += information * values[i, a] * values[i, b]
        for a in range(SHARED):
            for b in range(a):
                hessian[b, a] = hessian[a, b]
        step = np.linalg.solve(hessian, -gradient)
        descent = np.dot(step, gradient)
        if -descent < precision * (1.0 + value):
            return
        change = values @ step
        length = 1.0
        while length > SHORTEST:
            tried = z + length * change
            reached = _surprise(tried, p, observed, fitted) + 0.5 * np.sum(
                ridge * (own + length * step - common) ** 2
            )
            if reached <= value + 1e-4 * length * descent:
                break
            length *= 0.5
        if length <= SHORTEST:
            return
        own += length * step
        z += length * change
        value = reached


@njit(cache=True, nogil=True)
def _fit_others(w: Floats, z: Floats, part: Any, penalty: float, precision: float) -> None:
    """The second stage from w, in place; z is kept up to date for all pairs."""
    fitted = part.fitted
    information, change, step = np.empty(fitted), np.empty(z.size), np.empty(w.size)
    value = _surprise(z, part.propensity, part.observed, fitted) + 0.5 * penalty * np.dot(w, w)
    for _ in range(STEPS):
        gradient, diagonal = penalty * w, np.full(w.size, penalty)
        for i in range(fitted):
            slope, information[i] = _slope_and_information(
                z[i], part.propensity[i], part.observed[i]
            )
            for entry in range(part.starts[i], part.starts[i + 1]):
                gradient[part.features[entry]] += slope
                diagonal[part.features[entry]] += information[i]
        _direction(step, gradient, diagonal, information, part, penalty)
        descent = np.dot(step, gradient)
        if -descent < precision * (1.0 + value):
            return
        _times(change, step, part, z.size)
        length = 1.0
        while length > SHORTEST:
            tried, moved = z + length * change, w + length * step
            reached = _surprise(tried, part.propensity, part.observed, fitted)
            reached += 0.5 * penalty * np.dot(moved, moved)
            if reached <= value + 1e-4 * length * descent:
                break
            length *= 0.5
        if length <= SHORTEST:
            return
        w += length * step
        z += length * change
        value = reached


@njit(cache=True, nogil=True)
def _direction(
    step: Floats, gradient: Floats, diagonal: Floats, information: Floats, part: Any, penalty: float
) -> None:
    """The step that the information asks for, by preconditioned conjugate gradients."""
    step[:] = 0.0
    residual = -gradient
    scaled = residual / diagonal
    way = scaled.copy()
    change = np.empty(part.fitted)
    power = np.dot(residual, scaled)
    goal = 1e-3 * power
    for _ in range(CONJUGATE):
        if power <= goal:
            return
        _times(change, way, part, part.fitted)
        product = penalty * way
        for i in range(part.fitted):
            bent = information[i] * change[i]
            for entry in range(part.starts[i], part.starts[i + 1]):
                product[part.features[entry]] += bent
        length = power / np.dot(way, product)
        step += length * way
        residual -= length * product
        scaled = residual / diagonal
        following = np.dot(residual, scaled)
        way = scaled + (following / power) * way
        power = following


@njit(cache=True, nogil=True)
def _times(out: Floats, w: Floats, part: Any, size: int) -> None:
    """The sum of w over the other labels of the first `size` pairs."""
    for i in range(size):
        total = 0.0
        for entry in range(part.starts[i], part.starts[i + 1]):
            total += w[part.features[entry]]
        out[i] = total
