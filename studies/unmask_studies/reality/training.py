"""What corrections, tuning and the search for missing labels are worth on labels really left out.

Models are trained on the observed labels of the training rows and judged by the true labels of the
test rows. Findings are pairs of the training rows that nobody recorded; the truth says which of
them are missing. Propensities are the true rates, Jain's, or those of 200 judged training rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import scipy.sparse as sp

from unmask import linear, missing, propensity
from unmask._sparse import values_at
from unmask._typing import Floats, Ints
from unmask.linear.completed import completion
from unmask.metrics import evaluate
from unmask.predictions import TopK
from unmask.tuning import tune
from unmask_studies.reality.pairs import Pair
from unmask_studies.runs import Row

METRICS = ("P@3", "R@1", "R@3", "R@5")
JUDGED = 200
"""Training rows that an audit judges."""
LISTED = 1000
CONSIDERED = 20
"""Labels of a row that a ranking by plain scores considers."""
FOLDS = 3


def trainings(pair: Pair, seed: int, quick: bool) -> Iterator[Row]:
    """True metrics of every way to train; `quick`: of two of them."""
    x, y = pair.split.train_features, pair.split.train_labels
    audited = _audited(pair, seed)
    jain = np.asarray(propensity.jain(y))

    def plain(correction: str, p: Floats | None = None) -> TopK:
        recipe = linear.Recipe("logistic", correction=correction, C=10.0, max_iter=200, tol=1e-3)
        model, _ = linear.train(x, y, recipe, propensity=p)
        return linear.predict_top(model, pair.split.test_features, 5)

    def tuned(labels: sp.csr_array, p: Floats | None = None) -> TopK:
        return tune(x, labels, p, "R@5", seed=seed).predict_top(pair.split.test_features, 5)

    ways: dict[str, Callable[[], TopK]] = {
        "vanilla": lambda: plain("vanilla"),
        "unbiased, true rates": lambda: plain("unbiased", pair.p),
        "completed, true rates": lambda: plain("completed", pair.p),
        "vanilla, tuned": lambda: tuned(y),
        "tuned, Jain": lambda: tuned(y, jain),
        "tuned, audit": lambda: tuned(y, audited),
        "tuned, true rates": lambda: tuned(y, pair.p),
        "complete labels, tuned": lambda: tuned(pair.true_train),
    }
    for name in list(ways)[: 2 if quick else None]:
        table = evaluate(ways[name](), pair.true_test, metrics=METRICS)
        values = {metric: table[metric, "vanilla"].value for metric in METRICS}
        yield {"kind": "training", "way": name, "values": values}


def _audited(pair: Pair, seed: int) -> Floats:
    """Propensities from some judged training rows."""
    n = pair.split.train_labels.shape[0]
    rows = np.random.default_rng([seed, 7]).choice(n, min(JUDGED, n // 2), replace=False)
    estimate = propensity.audit(pair.split.train_labels[rows], pair.true_train[rows], curve="free")
    return np.asarray(estimate.value)


def findings(pair: Pair, seed: int, quick: bool) -> Iterator[Row]:
    """How many of the likeliest missing labels are missing, beside a ranking by plain scores."""
    x, y = pair.split.train_features, pair.split.train_labels
    hidden = pair.true_train.nnz - y.multiply(pair.true_train).nnz
    models = {"true rates": pair.p} if quick else {
        "true rates": pair.p, "audit": _audited(pair, seed),
    }  # fmt: skip
    for mask, p in models.items():
        completed = completion(x, y, p, rounds=1 if quick else 2, seed=seed)
        listed = missing.find(completed.probabilities, y, p, top=LISTED)
        yield {"kind": "finding", "way": f"posterior, {mask}", "expected": listed.expected,
               "hidden": hidden, **_precision(pair, listed.rows, listed.labels)}  # fmt: skip
    rows, labels = _by_score(x, y, seed)
    yield {"kind": "finding", "way": "plain score", "expected": None, "hidden": hidden,
           **_precision(pair, rows, labels)}  # fmt: skip


def _precision(pair: Pair, rows: Ints, labels: Ints) -> dict[str, float]:
    """The share of the first 100 and of the first 1,000 pairs that are true."""
    true = values_at(pair.true_train, rows, labels)
    return {f"precision_{m}": float(true[:m].mean()) for m in (100, LISTED)}


def _by_score(x: sp.csr_array, y: sp.csr_array, seed: int) -> tuple[Ints, Ints]:
    """Pairs that are not observed, by the scores of vanilla models that never saw the row."""
    fold = np.random.default_rng([seed, 2]).integers(FOLDS, size=x.shape[0])
    k = min(CONSIDERED, y.shape[1])
    labels, scores = (np.zeros((x.shape[0], k), dtype=kind) for kind in (np.int64, np.float64))
    for each in range(FOLDS):
        model, _ = linear.train(x[fold != each], y[fold != each], linear.Recipe("squared_hinge"))
        top = linear.predict_top(model, x[fold == each], k)
        labels[fold == each], scores[fold == each] = top.labels, top.scores
    rows = np.repeat(np.arange(x.shape[0]), k)
    recorded = values_at(y, rows, labels.ravel()) > 0
    order = np.argsort(-np.where(recorded, -np.inf, scores.ravel()), kind="stable")[:LISTED]
    return rows[order], labels.ravel()[order]
