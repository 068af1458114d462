"""Other people's procedures for missing labels, on the linear protocol, beside our corrections.

What is a loss of one score stands in `losses.related_work` and runs in the training study. Here are
those that weigh pairs, need other knowledge, or go in rounds. Every method trains logistic
one-vs-all models (group lasso: a ranking loss) and returns scores of new rows:

- *class prior* (uPU): a case-control estimate, π E_P[ℓ₊ − ℓ₋] + E_U[ℓ₋], from known priors π;
- *corruption-corrected*: (y − ε)/(p − ε) in place of y, right for missing and spurious labels;
- *threshold after training*: vanilla, decided at (p + ε)/2; its ranking is by probability / p;
- *known mask*: only judged pairs count, true ones and false ones alike;
- *co-teaching*: two models, each drops for the other the unobserved pairs of largest loss;
- *curriculum*: unobserved pairs weigh 1 − loss/λ, so that hard ones come last or never;
- *relabelling*: unobserved pairs whose likelihood ratio passes a bound become labels, and earlier
  models are followed in part (the retroactive loss);
- *group lasso ranking*: Σ_i ‖errors of row i over its unobserved labels‖₂.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import expit

from unmask import linear, weights
from unmask._sparse import entry_rows
from unmask._typing import Floats, Ints
from unmask.predictions import TopK
from unmask.weights import Weights

ROUNDS = 3
KEPT = 0.03
"""Soft targets below this are left out."""


@dataclass(frozen=True, eq=False)
class TrainingData:
    """What a method may see: rows, propensities, and what single methods need beside them.

    Parameters
    ----------
    features : csr_array of shape (n, d)
    labels : csr_array of shape (n, L)
        Observed.
    p : (L,) floats
        Propensities.
    prior : (L,) floats
        Shares of rows that truly have each label.
    judged : csr_array of shape (n, L)
        1 for pairs that were judged: each true one that is observed, and as many of the others.
    seed : int
    """

    features: sp.csr_array
    labels: sp.csr_array
    p: Floats
    prior: Floats
    judged: sp.csr_array
    seed: int = 0


Scores = Callable[[sp.csr_array], Floats]
Method = Callable[[TrainingData, float], Scores]


def class_prior(labels: sp.csr_array, prior: Floats) -> Weights:
    """Case-control weights pos = cut = π_j n / n_j (du Plessis, Niu & Sugiyama 2014, 2015).

    With π_j = n_j / (n p_j) they are the unbiased ones.

    >>> class_prior(sp.csr_array([[1.0], [0.0], [0.0], [0.0]]), np.array([0.5])).pos.data
    array([2.])
    """
    n, counts = labels.shape[0], np.bincount(labels.indices, minlength=labels.shape[1])
    return weights.unbiased(labels, np.clip(counts / (n * prior), 1e-6, 1.0))


def corruption(labels: sp.csr_array, p: Floats, false: Floats) -> Weights:
    """Weights pos = cut = (y − ε)/(p − ε) of all pairs (van Rooyen & Williamson 2018).

    y is observed with p where it is true and with ε where it is not, so the mean of the weight is
    1 or 0, and any loss that is linear in the labels is unbiased.
    """
    dense = (labels.toarray() - false) / (p - false)
    pattern = sp.csr_array(np.ones_like(dense))
    pattern.data = dense.ravel()
    return Weights(pattern, pattern)


def corrected_precision(top: TopK, labels: sp.csr_array, p: Floats, false: Floats) -> float:
    """P@k by the same correction: the mean of (y − ε)/(p − ε) over predicted labels."""
    rows = np.arange(len(top.labels))[:, None]
    y = np.asarray(labels[np.broadcast_to(rows, top.labels.shape).ravel(), top.labels.ravel()])
    label = top.labels.ravel()
    return float(((y.ravel() - false[label]) / (p[label] - false[label])).mean())


def threshold(p: Floats, false: Floats | float = 0.0) -> Floats:
    """Where to cut P(observed | x) so as to predict what is truly more likely than not.

    P(observed) = (p − ε) η + ε exceeds (p + ε)/2 where η exceeds ½ (Menon et al. 2015).

    >>> threshold(np.array([0.5]), 0.1)
    array([0.3])
    """
    return np.asarray((p + false) / 2)


def _fit(
    training: TrainingData, label_weights: Weights, cost: float, rows: slice | Ints | None = None
) -> Scores:
    own = slice(None) if rows is None else rows
    recipe = linear.Recipe("logistic", correction=None, C=cost, tol=1e-2)
    model, _ = linear.train(
        training.features[own], training.labels[own], recipe, weights=label_weights[own]
    )
    return lambda x: linear.scores(model, x).astype(np.float64)


def _with_unobserved(labels: sp.csr_array, cut: Floats, pos: Floats | None = None) -> Weights:
    """Vanilla weights of observed labels; of the other pairs pos (default 0) and cut, if not 0."""
    observed = labels.toarray() > 0
    cuts = np.where(observed, 1.0, cut)
    positives = np.where(observed, 1.0, 0.0 if pos is None else pos)
    where = sp.csr_array(cuts != 0)
    rows = entry_rows(where)
    parts = (where.indices, where.indptr)
    return Weights(
        sp.csr_array((positives[rows, where.indices], *parts), shape=where.shape),
        sp.csr_array((cuts[rows, where.indices], *parts), shape=where.shape),
    )


def _missing(training: TrainingData) -> float:
    """The share of unobserved pairs that are labels, by the propensities."""
    counts = np.bincount(training.labels.indices, minlength=training.p.size)
    n, n_labels = training.labels.shape
    return float((counts * (1 / training.p - 1)).sum() / (n * n_labels - counts.sum()))


def hardest(scores: Floats, labels: sp.csr_array, share: float) -> Floats:
    """1 for the share of unobserved pairs that have the largest scores, so the largest loss."""
    free = np.where(labels.toarray() > 0, -np.inf, scores)
    dropped = round(share * float(np.isfinite(free).sum()))
    if not dropped:
        return np.zeros_like(free)
    bound = np.partition(free.ravel(), -dropped)[-dropped]
    return np.asarray(free >= bound, dtype=np.float64)


def co_teaching(training: TrainingData, cost: float) -> Scores:
    """Two models on halves of the rows; each drops the other's hardest pairs (Han et al. 2018)."""
    order = np.random.default_rng(training.seed).permutation(training.labels.shape[0])
    halves = np.array_split(order, 2)
    vanilla = weights.vanilla(training.labels)
    models = [_fit(training, vanilla, cost, half) for half in halves]
    for turn in range(1, ROUNDS + 1):
        share = _missing(training) * turn / ROUNDS
        dropped = [hardest(model(training.features), training.labels, share) for model in models]
        models = [
            _fit(training, _with_unobserved(training.labels, dropped[1 - i]), cost, half)
            for i, half in enumerate(halves)
        ]
    return lambda x: np.asarray((models[0](x) + models[1](x)) / 2)


def curriculum(training: TrainingData, cost: float) -> Scores:
    """Unobserved pairs weigh max(0, 1 − ℓ₋/λ), λ a quantile of ℓ₋ (Jiang et al. 2018)."""
    model = _fit(training, weights.vanilla(training.labels), cost)
    for _ in range(ROUNDS):
        hard = np.logaddexp(0, model(training.features))
        limit = np.quantile(hard[training.labels.toarray() == 0], 1 - _missing(training))
        weight = np.clip(1 - hard / max(limit, 1e-12), 0, 1)
        model = _fit(training, _with_unobserved(training.labels, 1 - weight), cost)
    return model


def relabelled(
    training: TrainingData, cost: float, *, bound: float = 0.8, retro: float = 0.5
) -> Scores:
    """Likelihood-ratio relabelling with a retroactive loss (Zheng et al. 2020).

    An unobserved pair whose (1 − q)/q is below `bound` becomes a label; targets are then mixed with
    the mean of the predictions of the models before, at `retro` to one.
    """
    model = _fit(training, weights.vanilla(training.labels), cost)
    before = np.zeros(training.labels.shape)
    for turn in range(ROUNDS):
        q = expit(model(training.features))
        before += (q - before) / (turn + 1)
        target = ((1 - q < bound * q) + retro * before) / (1 + retro)
        target[target < KEPT] = 0.0
        model = _fit(training, _with_unobserved(training.labels, target, target), cost)
    return model


def known_mask(training: TrainingData, cost: float) -> Scores:
    """Only judged pairs count (as in LEML, Yu et al. 2014)."""
    return _fit(training, _with_unobserved(training.labels, 1.0 - training.judged.toarray()), cost)


def ranking_objective(
    scores: Floats, labels: sp.csr_array, *, smooth: float = 1e-9
) -> tuple[float, Floats]:
    """Σ_i ‖(Σ_{j observed} max(0, 1 − s_j + s_l)) over l not observed‖₂, and its slope."""
    row = entry_rows(labels)
    free = labels.toarray() == 0
    margin = (1 - scores[row, labels.indices])[:, None] + scores[row]
    active = (margin > 0) & free[row]
    gather = sp.csr_array((np.ones(row.size), (row, np.arange(row.size))),
                          shape=(labels.shape[0], row.size))  # fmt: skip
    errors = gather @ (margin * active)
    norms = np.sqrt((errors**2).sum(axis=1) + smooth**2)
    direction = errors / norms[:, None]
    slope = direction * (gather @ active.astype(np.float64))
    np.add.at(slope, (row, labels.indices), -(direction[row] * active).sum(axis=1))
    return float(norms.sum()), slope


def group_lasso(training: TrainingData, cost: float, *, iterations: int = 30) -> Scores:
    """½‖W‖² + C × `ranking_objective`, by L-BFGS (Bucak, Jin & Jain 2011)."""
    x, shape = training.features, (training.features.shape[1], training.labels.shape[1])

    def objective(flat: Floats) -> tuple[float, Floats]:
        w = flat.reshape(shape)
        value, slope = ranking_objective(x @ w, training.labels)
        return float(flat @ flat) / 2 + cost * value, flat + cost * np.asarray(x.T @ slope).ravel()

    start = np.zeros(shape[0] * shape[1])
    minimum = minimize(
        objective, start, jac=True, method="L-BFGS-B", options={"maxiter": iterations}
    )
    solution = minimum.x.reshape(shape)
    return lambda rows: np.asarray(rows @ solution)


def _vanilla(training: TrainingData, cost: float) -> Scores:
    return _fit(training, weights.vanilla(training.labels), cost)


def _after_training(training: TrainingData, cost: float) -> Scores:
    model = _vanilla(training, cost)
    return lambda x: np.asarray(expit(model(x)) / (2 * threshold(training.p)))


METHODS: dict[str, Method] = {
    "vanilla": _vanilla,
    "unbiased": lambda training, cost: _fit(
        training, weights.unbiased(training.labels, training.p), cost
    ),
    "class prior (uPU)": lambda training, cost: _fit(
        training, class_prior(training.labels, training.prior), cost
    ),
    "corruption-corrected": lambda training, cost: _fit(
        training, corruption(training.labels, training.p, np.zeros_like(training.p)), cost
    ),
    "threshold after training": _after_training,
    "known mask": known_mask,
    "co-teaching": co_teaching,
    "curriculum": curriculum,
    "relabelling": relabelled,
    "group lasso ranking": group_lasso,
}
"""By the name that tables give them; the first two are there to compare with."""
