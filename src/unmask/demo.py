"""The demo: data whose truth is known, labels hidden on purpose, what is lost, what comes back.

Rows are planted, labels hidden with 1/p from 2 (frequent) to 20 (rare), and four linear models
trained: on complete labels, on observed labels as if they were complete, the same with the
regularisation that suits it best, and on observed labels with unbiased weights. All are scored on
the true labels of fresh rows; then the scores are estimated from hidden labels, as one has to in
life. Part of what a correction gains can be had by regularisation, so the third model has its C
chosen on the true labels of the test rows: more than anybody could do, and in its favour.

At last the labels of a row are kept or lost together, as under people of different effort: there
estimates from propensities fail, and 150 rows judged at random measure the scores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtr, ndtri

from unmask import audit, data, linear, propensity
from unmask._typing import Floats
from unmask.arrays import TopK
from unmask.metrics import Table, evaluate, powers, sensitivity
from unmask.pages.demo import METRICS, Band, Demo
from unmask.weights import count_distribution

BANDS = {"frequent tenth": (0.0, 0.1), "middle": (0.1, 0.5), "rare half": (0.5, 1.0)}
"""Labels by frequency rank, as shares of all labels."""
GAMMAS = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25)
"""Powers to which propensities are raised: 0 says that nothing is missing, 1 is the truth."""
TUNED = (3.0, 10.0, 30.0)
"""The C among which the tuned model has its best; all other models have C = 1."""
ESTIMATORS = ("vanilla", "unbiased", "bound", "deconvolved", "tempered")
EFFORT = 0.8
"""Correlation of the masks of one row where rows differ in effort; 1 keeps or loses all labels."""
JUDGED = 150
"""Rows that are judged."""


def run(
    *, n: int = 15_000, seed: int = 0, progress: Callable[[int, int], None] | None = None
) -> Demo:
    """Make rows, hide labels, train four models, evaluate them with and without the truth.

    Parameters
    ----------
    n : int, default 15000
        Rows; a fifth of them are for the test.
    seed : int, default 0
    progress : function of (done, total), optional
        Called after every step.

    Returns
    -------
    Demo

    Examples
    --------
    >>> run(n=600).total.lost > 0.5
    True
    """
    steps = iter(range(1, 8))

    def step() -> None:
        if progress is not None:
            progress(next(steps), 7)

    rows = _rows(n, seed)
    p = propensity.inverse_linear(rows.train_labels)
    observed = data.hide(rows.train_labels, p, seed=seed + 1)
    step()
    tops = {}
    for name, train_labels, correction in (
        ("complete", rows.train_labels, "vanilla"),
        ("vanilla", observed, "vanilla"),
        ("unbiased", observed, "unbiased"),
    ):
        tops[name] = _predictions(rows, train_labels, correction, p)
        step()
    scores = {
        name: evaluate(top, rows.test_labels, metrics=METRICS, complete=True)
        for name, top in tops.items()
    }
    tuned_C, tuned = _tuned(rows, observed, p)
    step()
    hidden = data.hide(rows.test_labels, p, seed=seed + 2)
    audited = _audited(tops["unbiased"], rows.test_labels, p, seed + 3)
    step()
    demo = Demo(
        n=n,
        seed=seed,
        bands=tuple(_band(name, rows.train_labels, observed, p) for name in BANDS),
        empty_rows=int((np.diff(observed.indptr) == 0).sum()),
        scores={
            "complete": scores["complete"],
            "vanilla": scores["vanilla"],
            "vanilla, tuned": tuned,
            "unbiased": scores["unbiased"],
        },
        tuned_C=tuned_C,
        estimates=evaluate(tops["unbiased"], hidden, p, metrics=METRICS, estimators=ESTIMATORS),
        sensitivity=sensitivity(
            tops["unbiased"],
            hidden,
            powers(p, GAMMAS),
            metrics=["P@1", "R@5"],
            estimators=["vanilla", "unbiased", "deconvolved"],
        ),
        audited=audited,
        judged=min(JUDGED, rows.test_labels.shape[0]),
        histogram=np.bincount(np.diff(observed.indptr)),
        fitted=count_distribution(observed, p).probability,
        true_histogram=np.bincount(np.diff(rows.train_labels.indptr)),
        curve=_curve(rows.train_labels, p),
    )
    step()
    return demo


class _Rows(NamedTuple):
    """Training and test rows, features as tf-idf."""

    train_features: sp.csr_array
    train_labels: sp.csr_array
    test_features: sp.csr_array
    test_labels: sp.csr_array


def _rows(n: int, seed: int) -> _Rows:
    """Planted rows, of which the last fifth is for the test."""
    planted = data.synthetic.planted(n, n_labels=100, seed=seed)
    words: sp.csr_array = planted.features
    cut = n - n // 5
    idf = data.idf(words[:cut])
    labels: sp.csr_array = planted.labels
    return _Rows(data.tfidf(words[:cut], idf), labels[:cut], data.tfidf(words[cut:], idf),
                 labels[cut:])  # fmt: skip


def _audited(top: TopK, true_labels: sp.csr_array, p: Floats, seed: int) -> Table:
    """Estimates where rows differ in effort, beside what judged rows measure."""
    observed = _hide_by_effort(true_labels, p, seed)
    plan = audit.plan(top, observed, budget=JUDGED, metrics=METRICS, seed=seed)
    judged = audit.from_rows(plan, true_labels[plan.rows])  # a judge who knows the truth
    return evaluate(
        top, observed, p, metrics=METRICS, estimators=["vanilla", "unbiased", "deconvolved"],
        audit=judged,
    )  # fmt: skip


def _hide_by_effort(true_labels: sp.csr_array, p: Floats, seed: int) -> sp.csr_array:
    """Labels kept with probability p each, but the labels of a row together (Gaussian copula)."""
    rng = np.random.default_rng(seed)
    effort = np.repeat(rng.standard_normal(true_labels.shape[0]), np.diff(true_labels.indptr))
    own = rng.standard_normal(true_labels.nnz)
    kept = true_labels.copy()
    chance = ndtr((ndtri(p[kept.indices]) - np.sqrt(EFFORT) * effort) / np.sqrt(1 - EFFORT))
    kept.data = (ndtr(own) < chance).astype(kept.dtype)
    kept.eliminate_zeros()
    return kept


def _tuned(rows: _Rows, observed: sp.csr_array, p: Floats) -> tuple[float, Table]:
    """The C and the true scores of the vanilla model that has the best true R@5."""
    tables = [
        evaluate(
            _predictions(rows, observed, "vanilla", p, C),
            rows.test_labels,
            metrics=METRICS,
            complete=True,
        )
        for C in TUNED
    ]
    best = int(np.argmax([table["R@5", "vanilla"].value for table in tables]))
    return TUNED[best], tables[best]


def _predictions(
    rows: _Rows, train_labels: sp.csr_array, correction: str, p: Floats, C: float = 1.0
) -> TopK:
    recipe = linear.Recipe(loss="logistic", correction=correction, C=C)
    model, _ = linear.train(rows.train_features, train_labels, recipe, propensity=p)
    return linear.predict_top(model, rows.test_features, 5)


def _curve(labels: sp.csr_array, p: Floats) -> Floats:
    counts = np.bincount(labels.indices, minlength=len(p))
    order = np.argsort(-counts, kind="stable")
    return np.asarray(np.c_[counts[order], p[order]], dtype=np.float64)


def _band(name: str, true_labels: sp.csr_array, observed: sp.csr_array, p: Floats) -> Band:
    counts = np.bincount(true_labels.indices, minlength=len(p))
    low, high = (round(share * len(p)) for share in BANDS[name])
    chosen = np.argsort(-counts, kind="stable")[low:high]
    kept = np.bincount(observed.indices, minlength=len(p))
    return Band(
        name, len(chosen), p[chosen].mean(), int(counts[chosen].sum()), int(kept[chosen].sum())
    )
