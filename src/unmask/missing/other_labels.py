"""P(true | features, the other observed labels of the row), from scores of any model.

A model's score of a label knows the features alone; a row that shows `python` is likelier to lack
`programming`. Here a small model per label joins both (`_kernels.other_labels` has the formulas):
first the score, calibrated for the label and shifted by how many other labels the row shows, then a
ridge on which ones. All of it maximises the likelihood of the observed labels, P(Y = 1) = p σ(z),
with p per pair, so it needs no truth; and it is cross-fitted, so that no pair is predicted by
itself.

How much of it the data support is decided by the held-out likelihood, over a path of stages: the
score alone, calibrated for all labels together; calibrated label by label; and the other labels
with falling penalties. On small data that ends at the score alone.

That likelihood is bounded where a label is certain in every row, and flat there: a fit that comes
near stays, says that all unobserved pairs of the label are missing, and a second round learns it.
`_kernels.other_labels` says how every label's own calibration keeps out of it.

Models of few observed labels are too sure where they are sure. The held-out z of all pairs is
therefore calibrated once more, by the same likelihood: a + b z + c max(z, 0).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.special import expit

from unmask._kernels import in_chunks, row_bounds
from unmask._kernels import other_labels as kernels
from unmask._messages import named_options
from unmask._typing import (
    Array,
    Bools,
    Floats,
    Indices,
    Ints,
    LabelsLike,
    PropensityLike,
    ScoresLike,
    Singles,
)
from unmask.arrays import checks
from unmask.arrays.checks import entry_rows
from unmask.predictions import TopK

PENALTIES = (30.0, 10.0, 3.0, 1.0, 0.3)
"""λ of the ridge on other labels, falling."""
RIDGE = (10.0, 1.0, 1.0, 1.0)
"""Ridge of a label's own calibration: slope, intercept, no other label, how many."""
FOLDS = 3
FLOOR = 0.01
"""Pairs whose score is less likely than this keep the calibration that all labels share."""
SAMPLE = 200_000
"""Pairs that decide what all labels share, and which stage is best."""
ITERATIONS = 50
PRECISION = 1e-4
"""Precision of the objective of a label's model."""


@dataclass(frozen=True, eq=False)
class JoinedProbabilities:
    """Probabilities of true labels given features and other labels, and how they were made.

    Parameters
    ----------
    probabilities : csr_array of shape (n, L)
        Of the pairs that were considered.
    stage : str
        "score", "calibrated", or "other labels": what the held-out likelihood chose.
    penalty : float
        λ of the ridge on other labels; inf where they are not used.
    surprise : mapping of str to float
        −ln likelihood per 1,000 held-out pairs of every stage that was tried, less that of the
        score alone.

    Examples
    --------
    >>> made = join(np.zeros((30, 2)), np.eye(2)[np.arange(30) % 2], [0.9, 0.9])
    >>> made.probabilities.shape, made.surprise["score"]
    ((30, 2), 0.0)
    """

    probabilities: sp.csr_array
    stage: str
    penalty: float
    surprise: dict[str, float]


@named_options
def join(
    scores: TopK | ScoresLike,
    labels: LabelsLike,
    propensity: PropensityLike,
    *,
    groups: ArrayLike | None = None,
    seed: int = 0,
) -> JoinedProbabilities:
    """Join a model's scores and the other observed labels into probabilities of true labels.

    Parameters
    ----------
    scores : TopK, or (n, L) dense or sparse floats
        Log-odds of any model that has not seen the row (cross-fitted). Pairs that are not stored
        are taken as impossible.
    labels : (n, L) matrix of 0 and 1
        Observed labels.
    propensity : (L,) floats in (0, 1]
        How likely a true label is observed.
    groups : (n,) integers from 0, optional
        Rows of one group, such as copies of one row, do not predict each other.
    seed : int, default 0
        Of the folds.

    Returns
    -------
    JoinedProbabilities

    Raises
    ------
    ValueError
        If shapes do not fit, or no label is observed among the pairs.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> topic = rng.random((3000, 1)) < 0.3
    >>> true = rng.random((3000, 2)) < np.where(topic, 0.9, 0.1)
    >>> observed = true & (rng.random((3000, 2)) < 0.5)
    >>> joined = join(np.full((3000, 2), -0.7), observed, [0.5, 0.5])
    >>> q = joined.probabilities.toarray()
    >>> bool(q[observed[:, 1], 0].mean() > 2 * q[~observed[:, 1], 0].mean())
    True
    """
    observed = checks.labels(labels)
    p = checks.propensity(propensity, observed.shape[1])
    pairs = _by_label(scores, observed, p)
    if not pairs.observed.any():
        raise ValueError("none of the scored labels is observed; give scores of more labels.")
    others = _others(observed, p, seed, groups)
    rng = np.random.default_rng([seed, 1])
    sample = np.sort(rng.permutation(pairs.rows.size)[:SAMPLE])
    common = _common(pairs, others, sample)
    likely, rest = _likely(pairs, others, common)
    everything, pairs = pairs, _part(pairs, np.searchsorted(likely, pairs.start), likely)
    stage, surprise = _chosen_stage(pairs, others, common, rng)
    penalties = np.array([] if stage < 2 else [PENALTIES[stage - 2]])
    z = _held_out(pairs, others, common, penalties)[min(stage, 2)]
    names = ("score", "calibrated", "other labels")
    penalty = PENALTIES[stage - 2] if stage >= 2 else np.inf
    of_all = np.empty(everything.rows.size)
    of_all[likely] = z
    of_all[rest] = kernels.described(everything, others, rest) @ common
    chance = expit(_less_sure(of_all, everything, sample))
    stored = (chance, everything.rows, everything.start)
    made = sp.csc_array(stored, shape=observed.shape)
    return JoinedProbabilities(sp.csr_array(made), names[min(stage, 2)], penalty, surprise)


def _scored(scores: TopK | ScoresLike, shape: tuple[int, int]) -> tuple[Indices, Indices, Array]:
    """Return the pairs that have a score."""
    if isinstance(scores, TopK):
        if scores.labels.shape[0] != shape[0] or scores.labels.max(initial=-1) >= shape[1]:
            raise ValueError(
                f"scores of {scores.labels.shape[0]} rows and labels up to {scores.labels.max()} "
                f"for labels of shape {shape}."
            )
        row, place = np.nonzero(scores.labels >= 0)
        return row.astype(np.int32), scores.labels[row, place], scores.scores[row, place]
    if checks.is_sparse(scores):
        stored = checks.matrix(scores, name="scores", column="label")
        _refuse_shape(stored.shape, shape)
        rows = _rows(np.diff(stored.indptr))
        return rows, stored.indices, checks.finite(stored.data, "scores")
    table = checks.finite(checks.dense(scores, "scores", "label"), "scores")
    _refuse_shape(table.shape, shape)
    rows = _rows(np.full(shape[0], shape[1]))
    return rows, np.tile(np.arange(shape[1], dtype=np.int32), shape[0]), table.ravel()


def _rows(sizes: Ints) -> Indices:
    """Return the row of every entry, of rows with so many."""
    return np.repeat(np.arange(sizes.size), sizes).astype(np.int32)


def _refuse_shape(own: tuple[int, ...], shape: tuple[int, int]) -> None:
    if own != shape:
        raise ValueError(f"scores and labels must have the same shape; got {own} and {shape}.")


def _by_label(scores: TopK | ScoresLike, observed: sp.csr_array, p: Floats) -> kernels.Pairs:
    """Return the scored pairs, label by label, and within a label by row."""
    rows, labels, values = _scored(scores, observed.shape)
    order = np.lexsort((rows, labels))
    rows, labels, values = rows[order], labels[order], values[order].astype(np.float32)
    start = np.searchsorted(labels, np.arange(observed.shape[1] + 1)).astype(np.int64)
    width = observed.shape[1]
    own = (
        entry_rows(observed) * width + observed.indices
    )  # rises: rows in order, labels sorted within
    keys = rows.astype(np.int64) * width + labels
    place = np.minimum(np.searchsorted(own, keys), max(own.size - 1, 0))
    is_observed = own[place] == keys if own.size else np.zeros(keys.size, dtype=bool)
    return kernels.Pairs(start, rows, values, p[labels].astype(np.float32), is_observed)


def _others(
    observed: sp.csr_array, p: Floats, seed: int, groups: ArrayLike | None = None
) -> kernels.OtherLabels:
    inverse = 1.0 / p[observed.indices]
    total = np.add.reduceat(np.r_[inverse, 0.0], observed.indptr[:-1]) if observed.shape[0] else 0
    total = np.where(np.diff(observed.indptr) > 0, total, 0.0)
    group = np.arange(observed.shape[0]) if groups is None else np.asarray(groups)
    if group.shape != observed.shape[:1] or group.dtype.kind not in "iu" or (group < 0).any():
        raise ValueError(f"groups must be {observed.shape[0]} whole numbers from 0, one per row.")
    fold = np.random.default_rng([seed, 0]).integers(FOLDS, size=group.max(initial=-1) + 1)[group]
    return kernels.OtherLabels(
        observed.indptr.astype(np.int64), observed.indices.astype(np.int32), inverse, total,
        fold.astype(np.int32),
    )  # fmt: skip


def _common(pairs: kernels.Pairs, others: kernels.OtherLabels, sample: Ints) -> Floats:
    """Fit the calibration that all labels share, from "the score is right"."""
    values = kernels.described(pairs, others, sample)
    p, y = pairs.propensity[sample].astype(np.float64), pairs.observed[sample]
    return _most_likely(values, p, y, np.array([1.0, 0.0, 0.0, 0.0]))


def _less_sure(z: Floats, pairs: kernels.Pairs, sample: Ints) -> Floats:
    """Calibrate held-out z with a slope of its own above 0; leave it if that would not rise."""
    values = np.column_stack([np.ones(z.size), z, np.maximum(z, 0.0)])
    p, y = pairs.propensity[sample].astype(np.float64), pairs.observed[sample]
    own = _most_likely(values[sample], p, y, np.array([0.0, 1.0, 0.0]))
    return values @ own if own[1] > 0 and own[1] + own[2] > 0 else z


def _most_likely(values: Floats, p: Floats, y: Bools, own: Floats) -> Floats:
    """Return the coefficients under which the observed labels are likeliest (Fisher scoring)."""
    value = _surprise(values @ own, p, y).sum()
    for _ in range(ITERATIONS):
        chance = expit(values @ own)
        hidden = np.maximum(1.0 - p * chance, 1e-12)
        slope = np.where(y, chance - 1.0, p * chance * (1.0 - chance) / hidden)
        information = p * chance * (1.0 - chance) ** 2 / hidden
        hessian = (values * information[:, None]).T @ values + 1e-6 * np.eye(own.size)
        step = np.linalg.solve(hessian, -(values.T @ slope))
        length = 1.0
        while (reached := _surprise(values @ (own + length * step), p, y).sum()) > value:
            length *= 0.5
            if length < kernels.SHORTEST:
                return own
        own = own + length * step
        if value - reached < 1e-7 * value:
            return own
        value = reached
    return own


def _surprise(z: Floats, p: Floats, observed: Bools) -> Floats:
    """Return −ln P(what was observed), but for the constant ln p."""
    bounded = np.minimum(z, kernels.HIGHEST)
    return np.where(observed, np.logaddexp(0.0, -bounded), -np.log1p(-p * expit(bounded)))


def _likely(pairs: kernels.Pairs, others: kernels.OtherLabels, common: Floats) -> tuple[Ints, Ints]:
    """Split pairs into those that are possible by the score alone, and those that hardly are."""
    shared = others.total.mean() if others.total.size else 0.0
    chance = expit(common[0] * pairs.score + common[1] + common[3] * np.log1p(shared))
    likely = chance > FLOOR
    if not pairs.observed[likely].any():
        likely[:] = True
    return np.flatnonzero(likely), np.flatnonzero(~likely)


def _part(pairs: kernels.Pairs, start: Ints, kept: Ints) -> kernels.Pairs:
    """Return some of the pairs, with the starts of their labels."""
    return kernels.Pairs(
        start, pairs.rows[kept], pairs.score[kept], pairs.propensity[kept], pairs.observed[kept]
    )


def _chosen_stage(
    pairs: kernels.Pairs,
    others: kernels.OtherLabels,
    common: Floats,
    rng: np.random.Generator,
) -> tuple[int, dict[str, float]]:
    """Return the stage with the best held-out likelihood, over some labels, chosen at random."""
    sizes = np.diff(pairs.start)
    order = rng.permutation(sizes.size)
    enough = int(np.searchsorted(np.cumsum(sizes[order]), SAMPLE)) + 1
    labels = np.sort(order[:enough])
    chosen = np.concatenate([np.arange(*pairs.start[j : j + 2]) for j in labels])
    own = np.where(np.isin(np.arange(sizes.size), labels), sizes, 0)
    part = _part(pairs, np.r_[0, np.cumsum(own)], chosen)
    z = _held_out(part, others, common, np.array(PENALTIES))
    p = part.propensity.astype(np.float64)
    means = [1000 * _surprise(each.astype(np.float64), p, part.observed).mean() for each in z]
    names = ["score", "calibrated", *(f"other labels, λ = {penalty:g}" for penalty in PENALTIES)]
    best = int(np.argmin(means))
    return best, {name: float(mean - means[0]) for name, mean in zip(names, means, strict=True)}


def _held_out(
    pairs: kernels.Pairs, others: kernels.OtherLabels, common: Floats, penalties: Floats
) -> Singles:
    """Return z of every stage (rows) and pair, by models that have not seen the pair's row."""
    out = np.empty((2 + penalties.size, pairs.rows.size), dtype=np.float32)
    ridge = np.array(RIDGE)
    in_chunks(
        row_bounds(pairs.start, 1 << 16),
        lambda first, last: kernels.held_out(
            first, last, pairs, others, FOLDS, common, ridge, penalties, PRECISION, out
        ),
    )
    return out
