"""Label trees with missing labels: what corrections do, and what the tree costs.

Labels are hidden with known propensities. Every method is trained on what is left, its C chosen on
held-out training rows by the deconvolved R@5 of what is observed there, and its predictions for
the test rows are scored on the hidden labels, as one could in life, and on the true ones. Of finna,
whose labels are as librarians left them, there is no truth: its propensities are those of Jain et
al., and estimates are all there is.

Every model is ranked by its score and by P/p. Beside the corrections that trees offer, the labels
of leaf nodes are trained as in one-vs-all, with the bound and with unbiased weights, on the rows
that reach the node.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from unmask import data, linear, propensity, report, tree
from unmask._typing import Floats, Indices
from unmask.linear import LinearModel
from unmask.metrics import evaluate
from unmask.predictions import TopK
from unmask.tree import TreeModel
from unmask_studies import models
from unmask_studies.runs import STYLES, DataSets, Row, Study, Unit, group_rows, statement

HIDDEN = ("debtags-bookworm", "delicious")
AS_IT_IS = "finna-yso-en"
SAMPLE = 6000  # rows of finna, and of planted data with many tags per row
MASKS = "inverse_linear:2,20"
COSTS = (0.3, 1.0, 3.0)
DRAWS = {"tiny": 1, "small": 1, "paper": 3}
RANKINGS = {"": "score", ", P/p": "probability/propensity"}
"""What is added to the name of a training, by ranking."""


class Training(NamedTuple):
    """How a model is trained; `leaves` is the correction of one-vs-all in the leaf nodes."""

    kind: str
    loss: str
    correction: str = "vanilla"
    leaves: str | None = None


TRAININGS = {
    "tree, vanilla": Training("tree", "squared_hinge"),
    "tree, counts": Training("tree", "squared_hinge", "counts"),
    "logistic tree, vanilla": Training("tree", "logistic"),
    "logistic tree, counts": Training("tree", "logistic", "counts"),
    "logistic tree, bound leaves": Training("tree", "logistic", leaves="bound"),
    "logistic tree, unbiased leaves": Training("tree", "logistic", leaves="unbiased"),
    "one-vs-all, vanilla": Training("linear", "logistic"),
    "one-vs-all, bound": Training("linear", "logistic", "bound"),
    "one-vs-all, unbiased": Training("linear", "logistic", "unbiased"),
}
ESTIMATES = {
    "PSP@1": "normalized", "PSP@5": "normalized", "P@1": "unbiased", "P@5": "unbiased",
    "R@5": "deconvolved",
}  # fmt: skip
"""What can be estimated without the truth, and by which estimator."""
TRUE = ("P@1", "P@5", "R@5")
VANILLA, RATIO, COUNTS, BEST = (
    "logistic tree, vanilla", "logistic tree, vanilla, P/p", "logistic tree, counts",
    "one-vs-all, unbiased",
)  # fmt: skip
SHOWN = {
    "ranked by P/p": (RATIO, STYLES["deconvolved"]),
    "trained with counts": (COUNTS, STYLES["unbiased"]),
    "leaf nodes unbiased": ("logistic tree, unbiased leaves", STYLES["tempered"]),
    "leaf nodes by the bound": ("logistic tree, bound leaves", STYLES["bound"]),
    "one-vs-all, unbiased": (BEST, STYLES["measured"]),
}
"""Methods of the picture, by the names that they have there."""
CLAIMS = (
    ("P/p at the leaves raises the R@5 of a logistic tree", RATIO, VANILLA),
    ("Counts raise the R@5 of a logistic tree", COUNTS, VANILLA),
    ("Unbiased leaves are no better than P/p", RATIO, "logistic tree, unbiased leaves"),
    ("Bound leaves are no better than P/p", RATIO, "logistic tree, bound leaves"),
    ("Counts are not to be divided by p again", COUNTS, "logistic tree, counts, P/p"),
    ("One-vs-all, corrected, is better than any tree", BEST, ""),
)
"""What is claimed: the better method and the worse one, where "" is the best of all trees."""


def units(size: str, seed: int, data: DataSets | None) -> list[Unit]:
    """One unit per data set, training and draw; finna is drawn once."""
    real = data if data and size != "tiny" else DataSets(None, frozenset())
    draws = range(seed, seed + DRAWS[size])
    sources: list[tuple[Path | None, int | None, range]] = [
        (real.path(name), None, draws) for name in HIDDEN if name in real.names
    ]
    if AS_IT_IS in real.names:
        sources.append((real.path(AS_IT_IS), SAMPLE, draws[:1]))
    sources.append((None, SAMPLE if sources else 600, draws))
    return [
        {"folder": folder, "rows": rows, "training": training, "draw": s}
        for folder, rows, own in sources
        for s in own
        for training in TRAININGS
    ]


def measure(folder: Path | None, rows: int | None, training: str, draw: int) -> Iterable[Row]:
    """Estimates of both rankings, and their true metrics where there is a truth."""
    case = _case(folder, rows, draw)
    by = TRAININGS[training]
    costs = _chosen(by, case)
    fits = {
        cost: _fit(by, case.x, case.observed, case.p, cost) for cost in sorted({*costs.values()})
    }
    for extra, rank_by in RANKINGS.items():
        cost = costs[rank_by]
        top = _top(fits[cost], case.test_x, rank_by, case.p)
        estimators = sorted({*ESTIMATES.values()})
        table = evaluate(top, case.tested, case.p, metrics=list(ESTIMATES), estimators=estimators)
        values = {f"{e} {m}": table[m, e].value for m, e in ESTIMATES.items()}
        if case.truth is not None:
            exact = evaluate(top, case.truth, metrics=list(TRUE))
            values |= {f"true {m}": exact[m, "vanilla"].value for m in TRUE}
        name = folder.name if folder else "planted"
        yield {"data": name, "method": training + extra, "C": cost, **values}


class Case(NamedTuple):
    """Training rows with observed labels, test rows with observed and true ones, propensities."""

    x: sp.csr_array
    observed: sp.csr_array
    test_x: sp.csr_array
    tested: sp.csr_array
    truth: sp.csr_array | None
    p: Floats
    draw: int


def _case(folder: Path | None, rows: int | None, draw: int) -> Case:
    if folder is not None and folder.name == AS_IT_IS:
        return _as_it_is(models.split_of(folder), rows or SAMPLE, draw)
    split = models.split_of(folder) if folder else _planted(rows or SAMPLE, draw)
    p = np.asarray(propensity.from_spec(MASKS, split.train_labels))
    observed = data.hide(split.train_labels, p, seed=2 * draw)
    tested = data.hide(split.test_labels, p, seed=2 * draw + 1)
    return Case(
        split.train_features, observed, split.test_features, tested, split.test_labels, p, draw
    )


def _as_it_is(split: models.Split, rows: int, draw: int) -> Case:
    """Some rows, the labels that three of the training rows have, and nothing hidden."""
    p = np.asarray(propensity.jain(split.train_labels))
    rng = np.random.default_rng(draw)
    train, test = (
        np.sort(rng.choice(labels.shape[0], rows, replace=False))
        for labels in (split.train_labels, split.test_labels)
    )
    kept = np.flatnonzero(split.train_labels[train].sum(axis=0) >= 3)
    observed, tested = (
        sp.csr_array(labels[own][:, kept])
        for labels, own in ((split.train_labels, train), (split.test_labels, test))
    )
    return Case(
        split.train_features[train], observed, split.test_features[test], tested, None, p[kept],
        draw,
    )  # fmt: skip


def _planted(rows: int, draw: int) -> models.Split:
    """Built-in data: small, or with as many tags per row as an article of CiteULike has."""
    if rows < SAMPLE:
        return models.planted(rows, draw)
    dataset = data.synthetic.planted(
        rows, n_features=4000, n_labels=1000, labels_per_row=11, noise_words=30, seed=draw
    )
    cut = rows - rows // 5
    return models.of_datasets(dataset.take(slice(0, cut)), dataset.take(slice(cut, rows)))


def _chosen(by: Training, case: Case) -> dict[str, float]:
    """For every ranking the cost whose deconvolved R@5 is best on a fifth of the training rows."""
    order = np.random.default_rng(case.draw).permutation(case.x.shape[0])
    held, kept = np.split(order, [case.x.shape[0] // 5])
    values: dict[str, list[float]] = {rank_by: [] for rank_by in RANKINGS.values()}
    for cost in COSTS:
        model = _fit(by, case.x[kept], case.observed[kept], case.p, cost)
        for rank_by, own in values.items():
            top = _top(model, case.x[held], rank_by, case.p)
            table = evaluate(
                top, case.observed[held], case.p, metrics=["R@5"], estimators=["deconvolved"]
            )
            own.append(table["R@5", "deconvolved"].value or 0.0)
    return {rank_by: COSTS[int(np.argmax(own))] for rank_by, own in values.items()}


def _fit(
    by: Training, x: sp.csr_array, y: sp.csr_array, p: Floats, cost: float
) -> LinearModel | TreeModel:
    if by.kind == "linear":
        return _one_vs_all(x, y, p, by.loss, by.correction, cost)
    recipe = tree.TreeRecipe(by.loss, correction=by.correction, n_trees=1, C=cost)
    model = tree.train(x, y, recipe, propensity=p)
    return model if by.leaves is None else _with_leaves(model, x, y, p, by.leaves, cost)


def _one_vs_all(
    x: sp.csr_array, y: sp.csr_array, p: Floats, loss: str, correction: str, cost: float
) -> LinearModel:
    recipe = linear.Recipe(loss, correction=correction, C=cost, tol=1e-3)
    model, _ = linear.train(x, y, recipe, propensity=p)
    return model


def _top(model: LinearModel | TreeModel, x: sp.csr_array, rank_by: str, p: Floats) -> TopK:
    if isinstance(model, TreeModel):
        return tree.predict_top(model, x, 5, rank_by=rank_by, propensity=p)
    return linear.predict_top(model, x, 5, rank_by=rank_by, propensity=p)


def _with_leaves(
    model: TreeModel, x: sp.csr_array, y: sp.csr_array, p: Floats, correction: str, cost: float
) -> TreeModel:
    """The tree with one-vs-all in its leaf nodes, on the rows that reach them."""
    (one,) = model.trees
    columns = sp.csc_array(y)

    def trained(own: Indices) -> LinearModel:
        labels = sp.csr_array(columns[:, own])
        rows = (
            np.flatnonzero(np.diff(labels.indptr))
            if one.shape.levels > 1
            else np.arange(x.shape[0])
        )
        rows = rows if rows.size else np.arange(1)
        return _one_vs_all(x[rows], labels[rows], p[own], model.loss, correction, cost)

    parts = []
    for number, part in enumerate(one.parts):
        levels = list(part)
        for place, span in enumerate(one.shape.part(number)):
            if span.level == one.shape.levels - 1:
                bounds = one.shape.bounds[span.start : span.stop + 1].tolist()
                pairs = itertools.pairwise(bounds)
                levels[place] = _packed([trained(one.shape.order[a:b]) for a, b in pairs])
        parts.append(tuple(levels))
    return replace(model, trees=(tree.Tree(one.shape, tuple(parts)),))


def _packed(nodes: list[LinearModel]) -> tree.Nodes:
    """Linear models as the nodes of a tree."""
    features, sizes, children, values, biases = [], [], [], [], []
    for node in nodes:
        weights = sp.vstack([sp.csr_array(shard.weights) for shard in node.shards])
        by_feature = sp.csr_array(weights.T)
        by_feature.eliminate_zeros()
        by_feature.sort_indices()
        lengths = np.diff(by_feature.indptr)
        features.append(np.flatnonzero(lengths).astype(np.int32))
        sizes.append(lengths[lengths > 0])
        children.append(by_feature.indices.astype(np.uint16))
        values.append(by_feature.data.astype(np.float32))
        biases.append(np.concatenate([shard.bias for shard in node.shards]))
    return tree.Nodes(
        np.cumsum([0, *map(len, features)]),
        np.concatenate(features),
        np.r_[0, np.cumsum(np.concatenate(sizes))],
        np.concatenate(children),
        np.concatenate(values),
        np.cumsum([0, *map(len, biases)]),
        np.concatenate(biases).astype(np.float32),
    )


def draw(rows: list[Row]) -> list[report.Section]:
    """What every correction adds to a tree, whether that is as it should be, and a table per data
    set.
    """
    by_data = group_rows(rows, "data")
    gains = {str(name): _gains(part) for (name,), part in by_data.items()}
    contents: list[report.Part] = [_chart(gains)]
    contents += [_table(str(name), part) for (name,), part in by_data.items()]
    return [
        report.Section("Corrections in label trees", [*contents, report.Verdicts(_claims(gains))])
    ]


def answer(rows: list[Row]) -> str:
    """What P/p and one-vs-all add to the true recall of a tree."""
    gains = [gain for (_,), part in group_rows(rows, "data").items()
             if (gain := _gains(part)).known]  # fmt: skip
    return (
        f"Ranking by P/p costs nothing and adds {_range(gains, RATIO)} of true R@5 to a logistic "
        f"tree; one-vs-all with unbiased weights adds {_range(gains, BEST)} and stays ahead."
    )


def _range(gains: list[Gains], method: str) -> str:
    """From the smallest to the largest gain, in points."""
    values = sorted({f"{100 * each.of[method].mean:.1f}" for each in gains}, key=float)
    return f"{' to '.join([values[0], values[-1]][: len(values)])} points"


class Gain(NamedTuple):
    """A difference of R@5, draw by draw."""

    draws: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Over draws."""
        return float(np.mean(self.draws))

    @property
    def error(self) -> float:
        """The standard error of the mean; 0 of one draw."""
        n = len(self.draws)
        return float(np.std(self.draws, ddof=1) / np.sqrt(n)) if n > 1 else 0.0

    def __str__(self) -> str:
        """In points, with the standard error if there is one."""
        doubt = f" ± {100 * self.error:.1f}" if len(self.draws) > 1 else ""
        return f"{100 * self.mean:+.1f}{doubt}"


class Gains(NamedTuple):
    """R@5 of all methods less that of the logistic tree without correction.

    `known` says whether it is the true R@5, or that which was estimated.
    """

    of: dict[str, Gain]
    known: bool

    def between(self, one: str, other: str) -> Gain:
        """By how much one method is above another."""
        pairs = zip(self.of[one].draws, self.of[other].draws, strict=True)
        return Gain(tuple(a - b for a, b in pairs))


def _gains(part: list[Row]) -> Gains:
    name = "true R@5" if (has_truth := "true R@5" in part[0]) else "deconvolved R@5"
    recall = {
        str(method): {row["draw"]: row[name] for row in own}
        for (method,), own in group_rows(part, "method").items()
    }
    return Gains(
        {
            method: Gain(tuple(value - recall[VANILLA][d] for d, value in sorted(own.items())))
            for method, own in recall.items()
        },
        has_truth,
    )


def _chart(gains: dict[str, Gains]) -> report.Chart:
    places = [name if own.known else f"{name} (estimated)" for name, own in gains.items()]
    series = []
    for name, (method, style) in SHOWN.items():
        own = [each.of[method] for each in gains.values()]
        series.append(
            report.Series(
                name, places, [100 * gain.mean for gain in own],
                [100 * (gain.mean - 2 * gain.error) for gain in own],
                [100 * (gain.mean + 2 * gain.error) for gain in own], style=style,
            )
        )  # fmt: skip
    return report.Chart(
        "dots", series, title="What corrections add to a label tree", y="points of R@5",
        rules=[report.Rule("logistic tree, no correction", 0.0, style=STYLES["truth"])],
        caption="R@5 less that of a logistic tree without correction, which is trained on the same "
        "labels; means over masks with two standard errors to either side. The truth is "
        "known where labels were hidden on purpose. Of finna there is no truth: its R@5 is "
        "deconvolved with propensities by Jain's formula, one draw.",
    )  # fmt: skip


def _means(part: list[Row]) -> dict[str, dict[str, float]]:
    """Means over draws, by method and measure."""
    measures = [name for name in part[0] if name.split(" ")[0] in (*ESTIMATES.values(), "true")]
    return {
        method: {name: float(np.mean([row[name] for row in own])) for name in ["C", *measures]}
        for (method,), own in group_rows(part, "method").items()
    }


def _table(name: str, part: list[Row]) -> report.Table:
    means = _means(part)
    measures = list(next(iter(means.values())))
    count = len({row["draw"] for row in part})
    return report.Table(
        ["method", *(report.Column(each, ".2g" if each == "C" else ".2%") for each in measures)],
        [[method, *own.values()] for method, own in means.items()],
        title=f"{name}: means over {count} masks" if count > 1 else name,
        caption="PSP is the ratio of the literature, P@k is unbiased, R@5 deconvolved, all from "
        "observed labels; true ones from the labels before they were hidden.",
    )


def _claims(gains: dict[str, Gains]) -> list[report.Verdict]:
    """Of all data sets whose truth is known together; and whether estimates say the same."""
    with_truth = {name: own for name, own in gains.items() if own.known}
    claims = []
    for claim, one, other in CLAIMS:
        differences = {name: own.between(one, other or _best_tree(own))
                       for name, own in with_truth.items()}  # fmt: skip
        claims.append(
            statement(
                f"{claim}, wherever the truth is known",
                all(each.mean > 0 for each in differences.values()),
                "by " + ", ".join(f"{each} ({name})" for name, each in differences.items()),
            )
        )
    for name, own in gains.items():
        if not own.known:
            pairs = [(one, other or _best_tree(own)) for _, one, other in CLAIMS]
            said = [f"{_short(a)} over {_short(b)} {own.between(a, b)}" for a, b in pairs]
            claims.append(
                statement(
                    f"{name}, no truth known: R@5, deconvolved with Jain's propensities, says the "
                    "same of all of these",
                    all(own.between(*pair).mean > 0 for pair in pairs),
                    "; ".join(said),
                )
            )
    return claims


def _short(method: str) -> str:
    return method.removeprefix("logistic tree, ")


def _best_tree(own: Gains) -> str:
    trees = [method for method in own.of if "tree" in method]
    return max(trees, key=lambda method: own.of[method].mean)


STUDY = Study("tree", "label trees and their corrections", units, measure, draw)
