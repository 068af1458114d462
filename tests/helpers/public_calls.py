"""A call of every public function that takes arrays, on small data."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unmask import (
    audit,
    data,
    diagnosis,
    linear,
    losses,
    metrics,
    missing,
    operator,
    propensity,
    tree,
    tuning,
    weights,
)
from unmask.models.completed import Completion
from unmask.predictions import TopK

METRICS = ["P@3", "R@3", "nDCG@3", "F1@3", "PSP@3"]


RECIPE = linear.Recipe(loss="logistic", correction="unbiased", C=0.01)


def small_data() -> dict[str, Any]:
    rows = data.synthetic.planted(80, n_features=40, n_labels=12, seed=3)
    labels = rows.labels
    p = np.array([1.0, 0.5, 0.25, 0.75] * 3)
    scores = np.random.default_rng(0).integers(-8, 8, size=labels.shape) / 8  # exact in float16
    return {"labels": labels, "p": p, "scores": scores, "features": rows.features}


GIVEN = small_data()


def _table(table: Any) -> Any:
    return [(e.metric, e.estimator, e.value, *e.interval) for e in table]


def _tables(tables: Any) -> Any:
    return [_table(tables[name]) for name in tables]


def _weights(made: weights.Weights) -> Any:
    return made.pos.toarray(), made.cut.toarray()


def _floats(values: Any) -> np.ndarray:
    if isinstance(values, torch.Tensor):
        values = values.detach().float()
    return np.asarray(values, dtype=float)


def _size(sets: np.ndarray, row: int) -> np.ndarray:
    return sets.sum(axis=1) ** 2 + row


MODEL = linear.train(GIVEN["features"], GIVEN["labels"], RECIPE, propensity=GIVEN["p"])[0]


TREE_RECIPE = tree.TreeRecipe(correction="counts", n_trees=1, arity=2, leaf=4)
TREE = tree.train(GIVEN["features"], GIVEN["labels"], TREE_RECIPE, propensity=GIVEN["p"])


PLAIN = weights.vanilla(GIVEN["labels"])


HALF = data.hide(GIVEN["labels"], GIVEN["p"], seed=1)


Inputs = dict[str, Any]


PLAN = audit.plan(TopK.from_scores(GIVEN["scores"], 3), GIVEN["labels"], budget=20)
JUDGED = audit.from_rows(PLAN, np.ones((20, 12)))


def _findings(made: missing.Findings) -> Any:
    return made.rows, made.labels, made.probability, made.by_row


def _completion(made: Completion) -> Any:
    return made.probabilities.toarray(), made.weights.pos.toarray()


CALLS: dict[str, Callable[[Inputs], Any]] = {
    "missing.find": lambda g: _findings(missing.find(abs(GIVEN["scores"]), g["labels"], g["p"])),
    "missing.join": lambda g: missing.join(
        g["scores"], g["labels"], g["p"]
    ).probabilities.toarray(),
    "missing.measure": lambda g: (
        missing.measure(
            missing.find(abs(GIVEN["scores"]), GIVEN["labels"], GIVEN["p"]), JUDGED, g["labels"]
        ).precision
    ),
    "missing.rehearse": lambda g: (
        missing.rehearse(lambda *_: abs(GIVEN["scores"]), g["labels"], g["p"], share=0.5).precision
    ),
    "missing.posterior": lambda g: missing.posterior(abs(GIVEN["scores"]), g["p"]),
    "missing.suspicious": lambda g: _findings(
        missing.suspicious(abs(GIVEN["scores"]), g["labels"], g["p"])
    ),
    "linear.completion": lambda g: _completion(
        linear.completion(g["features"], g["labels"], g["p"], linear.Recipe("logistic", C=0.1))
    ),
    "data.hide": lambda g: data.hide(g["labels"], g["p"], seed=0).toarray(),
    "data.idf": lambda g: data.idf(g["features"]),
    "data.tfidf": lambda g: data.tfidf(g["features"], np.ones(40)).toarray(),
    "propensity.audit": lambda g: propensity.audit(HALF, g["labels"]).value,
    "propensity.chao": lambda g: propensity.chao(HALF, g["labels"]),
    "propensity.clip": lambda g: propensity.clip(g["p"], 0.3),
    "propensity.from_counts": lambda g: (
        propensity.from_counts([3] * 12, [4] * 12, counts=np.arange(1, 13), n=80).value
    ),
    "propensity.from_marginals": lambda g: (
        propensity.from_marginals(g["labels"], np.full(12, 0.9)).value
    ),
    "propensity.from_model": lambda g: (
        propensity.from_model(1 / (1 + np.exp(-4 * _floats(g["scores"]))), g["labels"]).value
    ),
    "propensity.inverse_linear": lambda g: propensity.inverse_linear(g["labels"]),
    "propensity.jain": lambda g: propensity.jain(g["labels"]),
    "propensity.jain_curve": lambda g: propensity.jain_curve(np.arange(12), 80),
    "propensity.from_spec": lambda g: propensity.from_spec("jain", g["labels"]),
    "propensity.recapture": lambda g: propensity.recapture(HALF, g["labels"]).value,
    "propensity.snapshots": lambda g: propensity.snapshots(HALF, g["labels"]).value,
    "propensity.temper": lambda g: propensity.temper(g["p"], 0.5),
    "weights.bound": lambda g: _weights(weights.bound(g["labels"], g["p"], normalized=True)),
    "weights.count_distribution": lambda g: (
        weights.count_distribution(g["labels"], g["p"]).probability
    ),
    "weights.empirical_bayes": lambda g: _weights(weights.empirical_bayes(g["labels"], g["p"])),
    "weights.tempered": lambda g: _weights(weights.tempered(g["labels"], g["p"])),
    "weights.unbiased": lambda g: _weights(weights.unbiased(g["labels"], g["p"], normalized=True)),
    "weights.vanilla": lambda g: _weights(weights.vanilla(g["labels"], normalized=True)),
    "weights.normalized_weights": lambda g: weights.normalized_weights(
        np.array([0, 12]), 1 / _floats(g["p"])
    ),
    "operator.unbiased": lambda g: operator.unbiased(_size, g["labels"], g["p"]).value,
    "losses.total": lambda g: losses.total("logistic", g["scores"], PLAIN),
    "losses.gradient": lambda g: losses.gradient("logistic", g["scores"], PLAIN),
    "metrics.evaluate": lambda g: _table(
        metrics.evaluate(g["top"], g["labels"], g["p"], metrics=METRICS)
    ),
    "metrics.evaluate_shards": lambda g: _table(
        metrics.evaluate_shards([(g["top"], g["labels"])], g["p"], metrics=METRICS)
    ),
    "metrics.contributions": lambda g: metrics.contributions(
        g["top"], g["labels"], g["p"], metrics=["R@3"], estimators=["unbiased"]
    )["R@3", "unbiased"],
    "metrics.compare": lambda g: _tables(
        metrics.compare(
            {"a": g["top"], "b": TopK.from_scores(-GIVEN["scores"], 3)},
            g["labels"],
            g["p"],
            metrics=["R@3"],
            replicates=50,
        )
    ),
    "metrics.curve": lambda g: metrics.curve(g["scores"], g["labels"], g["p"]).f1,
    "metrics.reliability": lambda g: (
        metrics.reliability(_floats(g["scores"]) / 2 + 0.5, g["labels"], g["p"]).true
    ),
    "metrics.jain_around": lambda g: [m.values for m in metrics.jain_around(g["labels"]).values()],
    "metrics.jain_grid": lambda g: [m.values for m in metrics.jain_grid(g["labels"]).values()],
    "metrics.label_counts": lambda g: [
        counts
        for name, counts in metrics.label_counts(g["top"], g["labels"], g["p"]).columns().items()
        if name != "label"
    ],
    "metrics.powers": lambda g: [m.values for m in metrics.powers(g["p"]).values()],
    "metrics.ranking": lambda g: (
        metrics.ranking(
            {"a": g["top"], "b": TopK.from_scores(-GIVEN["scores"], 3)},
            g["labels"],
            metrics.powers(g["p"]),
            metric="R@3",
        ).statement
    ),
    "metrics.sensitivity": lambda g: _tables(
        metrics.sensitivity(g["top"], g["labels"], metrics.powers(g["p"]), metrics=["P@3"])
    ),
    "linear.plan": lambda g: (
        linear.plan(g["features"], g["labels"], RECIPE, propensity=g["p"]).tasks
    ),
    "linear.probabilities": lambda g: linear.probabilities(MODEL, g["features"]),
    "linear.scores": lambda g: linear.scores(MODEL, g["features"]),
    "linear.predict_top": lambda g: linear.predict_top(MODEL, g["features"], 3).labels,
    "tuning.tune": lambda g: [
        tried.judged.value
        for tried in tuning.tune(
            g["features"], g["labels"], g["p"], "P@2", losses=["logistic"], costs=[0.01], tau=[1.0]
        ).table
    ],
    "tuning.tune_tree": lambda g: [
        tried.judged.value
        for tried in tuning.tune_tree(
            g["features"], g["labels"], g["p"], "P@2", losses=["logistic"], costs=[0.1]
        ).table
    ],
    "linear.train": lambda g: (
        linear.train(g["features"], g["labels"], RECIPE, propensity=g["p"])[0].weights
    ),
    "tree.predict_top": lambda g: tree.predict_top(TREE, g["features"], 3).labels,
    "tree.predict_unseen": lambda g: (
        tree.predict_unseen(TREE, g["features"], g["labels"], 3, propensity=g["p"], seed=0).labels
    ),
    "tree.train": lambda g: (
        tree.train(g["features"], g["labels"], TREE_RECIPE, propensity=g["p"]).trees[0].parts[0][0]
    ),
    "diagnosis.diagnose": lambda g: [
        (f.severity, f.evidence) for f in diagnosis.diagnose(g["labels"], g["p"]).findings
    ],
}


Form = Callable[[Any, Path], Any]


def inputs_of(changed: str = "", form: Form | None = None, folder: Path = Path()) -> Inputs:
    inputs = dict(GIVEN)
    if form is not None:
        inputs[changed] = form(inputs[changed], folder)
    inputs["top"] = TopK.from_scores(inputs["scores"], 3)
    return inputs


def uses(call: Callable[[Inputs], Any], name: str) -> bool:
    source = inspect.getsource(call)
    return f'g["{name}"]' in source or (name == "scores" and 'g["top"]' in source)
