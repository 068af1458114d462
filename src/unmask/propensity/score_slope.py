"""Masks that depend on the model's score: obvious labels are recorded more often.

    p_ij = expit(a_j + β x_ij),    a_j = logit p_j + δ + u_j,    u_j ~ N(0, SPREAD²)

with x_ij the score of label j in row i, centred and scaled to variance 1 over the audited true
labels, and p_j the propensities of the same audit. β, δ and u are fitted by penalised maximum
likelihood to what was kept of the audited true labels (Newton; the Hessian is an arrow, solved
label by label). Labels without audited entries have u_j = 0. The doubt about β and δ is that of the
normal distribution with the inverse of the penalised information.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, logit

from unmask import _validation
from unmask._sparse import entry_rows
from unmask._typing import Floats, Ints, ScoresLike
from unmask.predictions import TopK

SPREAD = 0.7
"""Standard deviation of a label's own intercept."""
ITERATIONS = 50
FLOOR = 0.01
"""The smallest propensity of an entry."""


@dataclass(frozen=True, eq=False)
class ScoreSlope:
    """How the propensity of an entry depends on its score.

    Parameters
    ----------
    slope : float
        β, the change of the logit per standard deviation of the scores.
    shift : float
        δ, of all logits.
    own : (L,) floats
        u_j.
    centre, scale : float
        Of the scores.
    covariance : (2, 2) floats
        Of (β, δ).
    """

    slope: float
    shift: float
    own: Floats
    centre: float = 0.0
    scale: float = 1.0
    covariance: Floats | None = None

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of β."""
        error = 0.0 if self.covariance is None else float(np.sqrt(self.covariance[0, 0]))
        return self.slope - 1.96 * error, self.slope + 1.96 * error

    def at(self, propensity: Floats, labels: Ints, scores: Floats) -> Floats:
        """p_ij of entries: their label's p_j, their labels, their scores; all (e,) or p (L,)."""
        standard = (scores - self.centre) / self.scale
        bounded = np.clip(propensity, 1e-6, 1 - 1e-6)
        logits = logit(bounded)[labels] + self.shift + self.own[labels] + self.slope * standard
        return np.asarray(np.clip(expit(logits), FLOOR, 1.0))

    def drawn(self, rng: np.random.Generator, size: int) -> list[ScoreSlope]:
        """Slopes that the audit allows, each certain."""
        middle = np.array([self.slope, self.shift])
        covariance = np.zeros((2, 2)) if self.covariance is None else self.covariance
        pairs = rng.multivariate_normal(middle, covariance, size=size, method="eigh")
        return [
            ScoreSlope(float(slope), float(shift), self.own, self.centre, self.scale)
            for slope, shift in pairs
        ]


def fit_slope(
    kept: Floats, true_labels: sp.csr_array, scores: Floats, propensity: Floats
) -> ScoreSlope:
    """The slope that makes what was kept of the audited true labels likeliest.

    Parameters
    ----------
    kept : (nnz,) floats
        1 for every true label that was kept, else 0, in the order of `true_labels.indices`.
    true_labels : csr_array of shape (m, L)
    scores : (nnz,) floats
        In the same order.
    propensity : (L,) floats in (0, 1]

    Returns
    -------
    ScoreSlope

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> true = sp.csr_array(np.ones((400, 5)))
    >>> score = rng.standard_normal(2000)
    >>> kept = (rng.random(2000) < expit(-1 + 1.5 * score)).astype(float)
    >>> fitted = fit_slope(kept, true, score, np.full(5, 0.33))
    >>> fitted.interval[0] < 1.5 < fitted.interval[1]
    True
    """
    labels, n_labels = true_labels.indices, true_labels.shape[1]
    centre, scale = float(scores.mean()), float(scores.std()) or 1.0
    x = np.column_stack([(scores - centre) / scale, np.ones(scores.size)])
    base = logit(np.clip(propensity, 1e-6, 1 - 1e-6))[labels]
    common, own = np.zeros(2), np.zeros(n_labels)
    inverse = np.eye(2)
    for _ in range(ITERATIONS):
        chance = expit(base + x @ common + own[labels])
        residual, weight = kept - chance, chance * (1 - chance)
        slopes = x.T @ residual
        own_slopes = np.bincount(labels, residual, n_labels) - own / SPREAD**2
        own_weight = np.bincount(labels, weight, n_labels) + 1 / SPREAD**2
        cross = np.column_stack([np.bincount(labels, weight * v, n_labels) for v in x.T])
        schur = (x * weight[:, None]).T @ x - cross.T @ (cross / own_weight[:, None])
        inverse = np.linalg.pinv(schur, hermitian=True)
        step = inverse @ (slopes - cross.T @ (own_slopes / own_weight))
        own_step = (own_slopes - cross @ step) / own_weight
        size = min(1.0, 2.0 / max(np.abs(step).max(), np.abs(own_step).max(), 1e-12))
        common, own = common + size * step, own + size * own_step
        if np.abs(step).max() < 1e-10:
            break
    return ScoreSlope(float(common[0]), float(common[1]), own, centre, scale, inverse)


def scores_of(
    scores: TopK | ScoresLike, labels: sp.csr_array, *, name: str = "audited labels"
) -> Floats:
    """The score of every label entry; entries without one stand below all others of the row list.

    Parameters
    ----------
    scores : TopK, or dense or sparse scores of shape (m, L)
        Of the same rows. An entry that is not listed gets what is 1 below the smallest score.
    labels : csr_array of shape (m, L)
    name : str, default "audited labels"
        In messages.

    Returns
    -------
    floats of shape (nnz,)
        In the order of `labels.indices`.

    Raises
    ------
    ValueError
        If the scores are of other rows or labels, or not finite.

    Examples
    --------
    >>> scores_of(TopK([[1], [0]], [[0.75], [0.5]]), sp.csr_array([[1, 1], [1, 0]]))
    array([-0.5 ,  0.75,  0.5 ])
    """
    rows = entry_rows(labels)
    if not isinstance(scores, TopK) and not _validation.is_sparse(scores):
        table = _validation.finite(_validation.dense(scores, "scores", "label"), "scores")
        _validation.same_shape(table, labels, "scores", name)
        return np.asarray(table[rows, labels.indices], dtype=np.float64)
    if not isinstance(scores, TopK):
        scores = _validation.matrix(scores, name="scores", column="label")
        _validation.same_shape(scores, labels, "scores", name)
    elif scores.labels.shape[0] != labels.shape[0]:
        raise ValueError(
            f"scores of {scores.labels.shape[0]} rows for {labels.shape[0]} rows of {name}; give "
            "those of the same rows, in their order."
        )
    row, label, value = _listed(scores)
    width = labels.shape[1]
    keys, wanted = row * width + label, rows * width + labels.indices
    order = np.argsort(keys)
    place = np.minimum(np.searchsorted(keys[order], wanted), max(keys.size - 1, 0))
    listed = keys[order][place] == wanted if keys.size else np.zeros(wanted.size, bool)
    scored = np.full(wanted.size, value.min() - 1.0 if value.size else 0.0)
    scored[listed] = value[order][place[listed]]
    return scored


def _listed(scores: TopK | sp.csr_array) -> tuple[Ints, Ints, Floats]:
    """Rows, labels and values of scores that are not given for every pair."""
    if isinstance(scores, TopK):
        row, place = np.nonzero(scores.labels >= 0)
        label, value = scores.labels[row, place], scores.scores[row, place]
    else:
        entries = scores.tocoo()
        row, label, value = entries.row, entries.col, entries.data
    return row.astype(np.int64), label.astype(np.int64), value.astype(np.float64)
