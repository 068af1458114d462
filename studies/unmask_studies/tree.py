"""Label trees with missing labels: what corrections do, and what the tree costs."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from unmask import data, linear, pages, propensity, tree
from unmask._typing import Floats, Indices
from unmask.linear import LinearModel
from unmask.metrics import evaluate
from unmask.models.tree_model import Nodes, Tree
from unmask.predictions import TopK
from unmask.tree import TreeModel
from unmask_studies.data import Split, cut_of, split_of
from unmask_studies.drawing import chart, mean, table
from unmask_studies.study import (
    DataSets,
    Drawn,
    Row,
    Study,
    Unit,
    folders,
    group_rows,
    statement,
)

HIDDEN, AS_IT_IS = ("debtags-bookworm", "delicious"), "finna-yso-en"
SAMPLE = 6000  # rows of finna, and of planted data with many tags per row
MASKS = "inverse_linear:2,20"
COSTS = (0.3, 1.0, 3.0)
DRAWS = {"tiny": 1, "small": 1, "paper": 3}
RANKINGS = {"": "score", ", P/p": "probability/propensity"}
# What is added to the name of a training, by ranking.


class Training(NamedTuple):
    """Settings of a training; `leaves` is the correction of one-vs-all in the leaf nodes."""

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
# What can be estimated without the truth, and by which estimator.
TRUE = ("P@1", "P@5", "R@5")
VANILLA, RATIO, COUNTS, BEST = (
    "logistic tree, vanilla", "logistic tree, vanilla, P/p", "logistic tree, counts",
    "one-vs-all, unbiased",
)  # fmt: skip
BOUND, UNBIASED = "logistic tree, bound leaves", "logistic tree, unbiased leaves"
# Methods of the picture, by the names that they have there, with a style.
SHOWN = {
    "ranked by P/p": (RATIO, "deconvolved"),
    "trained with counts": (COUNTS, "unbiased"),
    "leaf nodes unbiased": (UNBIASED, "tempered"),
    "leaf nodes by the bound": (BOUND, "bound"),
    "one-vs-all, unbiased": (BEST, "measured"),
}
# What is claimed: the better method and the worse one, where "" is the best of all trees.
CLAIMS = (
    ("P/p at the leaves raises the R@5 of a logistic tree", RATIO, VANILLA),
    ("Counts raise the R@5 of a logistic tree", COUNTS, VANILLA),
    ("Unbiased leaves are no better than P/p", RATIO, UNBIASED),
    ("Bound leaves are no better than P/p", RATIO, BOUND),
    ("Counts are not to be divided by p again", COUNTS, "logistic tree, counts, P/p"),
    ("One-vs-all, corrected, is better than any tree", BEST, ""),
)


def units(size: str, seed: int, data: DataSets | None) -> list[Unit]:
    """Return one unit per data set, training and draw; finna is drawn once."""
    draws = range(seed, seed + DRAWS[size])
    planned: list[tuple[Path | None, int | None, range]] = [
        (folder, None, draws) for folder in folders(data, size, HIDDEN) if folder
    ]
    planned += [(f, SAMPLE, draws[:1]) for f in folders(data, size, [AS_IT_IS]) if f]
    planned.append((None, SAMPLE if planned else 600, draws))
    return [
        {"folder": folder, "rows": rows, "training": training, "draw": s}
        for folder, rows, own in planned for s in own for training in TRAININGS
    ]  # fmt: skip


def measure(folder: Path | None, rows: int | None, training: str, draw: int) -> Iterable[Row]:
    """Return estimates of both rankings, and their true metrics where there is a truth.

    Labels are hidden with known propensities. Every method is trained on what is left, its C chosen
    on held-out training rows by the deconvolved R@5 of what is observed there, and its predictions
    for the test rows are scored on the hidden labels, as one could in life, and on the true ones.
    Of finna, whose labels are as librarians left them, there is no truth: its propensities are
    those of Jain et al., and estimates are all there is. Every model is ranked by its score and by
    P/p. Beside the corrections that trees offer, the labels of leaf nodes are trained as in
    one-vs-all, with the bound and with unbiased weights, on the rows that reach the node.
    """
    case, by = case_of(folder, rows, draw), TRAININGS[training]
    costs = _chosen(by, case)
    models = {
        cost: _fit(by, case.x, case.observed, case.p, cost) for cost in sorted({*costs.values()})
    }
    for extra, rank_by in RANKINGS.items():
        top = predicted(models[costs[rank_by]], case.test_x, rank_by, case.p)
        found = evaluate(
            top, case.tested, case.p, metrics=list(ESTIMATES),
            estimators=sorted({*ESTIMATES.values()}),
        )  # fmt: skip
        values = {f"{e} {m}": found[m, e].value for m, e in ESTIMATES.items()}
        if case.truth is not None:
            exact = evaluate(top, case.truth, metrics=list(TRUE))
            values |= {f"true {m}": exact[m, "vanilla"].value for m in TRUE}
        name = folder.name if folder else "planted"
        yield {"data": name, "method": training + extra, "C": costs[rank_by], **values}


class Case(NamedTuple):
    """Training rows with observed labels, test rows with observed and true ones, propensities."""

    x: sp.csr_array
    observed: sp.csr_array
    test_x: sp.csr_array
    tested: sp.csr_array
    truth: sp.csr_array | None
    p: Floats
    draw: int


def case_of(folder: Path | None, rows: int | None, draw: int) -> Case:
    """Return a data set with labels hidden; or finna, or planted rows (with many tags per row)."""
    n = rows or SAMPLE
    if folder is None and n >= SAMPLE:
        dataset = data.synthetic.planted(
            n, n_features=4000, n_labels=1000, labels_per_row=11, noise_words=30, seed=draw
        )
        split = cut_of(dataset, n - n // 5)
    else:
        split = split_of(folder, n, draw)
    if folder is not None and folder.name == AS_IT_IS:
        return _as_it_is(split, n, draw)
    p = np.asarray(propensity.from_spec(MASKS, split.train_labels))
    observed = data.hide(split.train_labels, p, seed=2 * draw)
    tested = data.hide(split.test_labels, p, seed=2 * draw + 1)
    x, z = split.train_features, split.test_features
    return Case(x, observed, z, tested, split.test_labels, p, draw)


def _as_it_is(split: Split, rows: int, draw: int) -> Case:
    """Some rows, the labels that three of the training rows have, and nothing hidden."""
    p, rng = np.asarray(propensity.jain(split.train_labels)), np.random.default_rng(draw)
    train, test = (
        np.sort(rng.choice(labels.shape[0], rows, replace=False))
        for labels in (split.train_labels, split.test_labels)
    )
    kept = np.flatnonzero(split.train_labels[train].sum(axis=0) >= 3)
    observed, tested = (
        sp.csr_array(labels[own][:, kept])
        for labels, own in ((split.train_labels, train), (split.test_labels, test))
    )
    x, z = split.train_features[train], split.test_features[test]
    return Case(x, observed, z, tested, None, p[kept], draw)


def _chosen(by: Training, case: Case) -> dict[str, float]:
    """For every ranking the cost whose deconvolved R@5 is best on a fifth of the training rows."""
    order = np.random.default_rng(case.draw).permutation(case.x.shape[0])
    held, kept = np.split(order, [case.x.shape[0] // 5])
    values: dict[str, list[float]] = {rank_by: [] for rank_by in RANKINGS.values()}
    for cost in COSTS:
        model = _fit(by, case.x[kept], case.observed[kept], case.p, cost)
        for rank_by, own in values.items():
            top = predicted(model, case.x[held], rank_by, case.p)
            found = evaluate(
                top, case.observed[held], case.p, metrics=["R@5"], estimators=["deconvolved"]
            )
            own.append(found["R@5", "deconvolved"].value or 0.0)
    return {rank_by: COSTS[int(np.argmax(own))] for rank_by, own in values.items()}


def _fit(
    by: Training, x: sp.csr_array, y: sp.csr_array, p: Floats, cost: float
) -> LinearModel | TreeModel:
    if by.kind == "linear":
        return one_vs_all(x, y, p, by.loss, by.correction, cost)
    recipe = tree.TreeRecipe(by.loss, correction=by.correction, n_trees=1, C=cost)
    model = tree.train(x, y, recipe, propensity=p)
    return model if by.leaves is None else with_leaves(model, x, y, p, by.leaves, cost)


def one_vs_all(
    x: sp.csr_array, y: sp.csr_array, p: Floats, loss: str, correction: str, cost: float
) -> LinearModel:
    """Return a linear model."""
    recipe = linear.Recipe(loss, correction=correction, C=cost, tol=1e-3)
    return linear.train(x, y, recipe, propensity=p)[0]


def predicted(model: LinearModel | TreeModel, x: sp.csr_array, rank_by: str, p: Floats) -> TopK:
    """Return the five best labels by either kind of model."""
    if isinstance(model, TreeModel):
        return tree.predict_top(model, x, 5, rank_by=rank_by, propensity=p)
    return linear.predict_top(model, x, 5, rank_by=rank_by, propensity=p)


def with_leaves(
    model: TreeModel, x: sp.csr_array, y: sp.csr_array, p: Floats, correction: str, cost: float
) -> TreeModel:
    """Return the tree with one-vs-all in its leaf nodes, on the rows that reach them."""
    (one,) = model.trees
    columns = sp.csc_array(y)

    def trained(own: Indices) -> LinearModel:
        labels = sp.csr_array(columns[:, own])
        reached = np.flatnonzero(np.diff(labels.indptr))
        rows = reached if one.shape.levels > 1 else np.arange(x.shape[0])
        rows = rows if rows.size else np.arange(1)
        return one_vs_all(x[rows], labels[rows], p[own], model.loss, correction, cost)

    parts = []
    for number, part in enumerate(one.parts):
        levels = list(part)
        for place, span in enumerate(one.shape.part(number)):
            if span.level == one.shape.levels - 1:
                bounds = one.shape.bounds[span.start : span.stop + 1].tolist()
                pairs = itertools.pairwise(bounds)
                levels[place] = _packed([trained(one.shape.order[a:b]) for a, b in pairs])
        parts.append(tuple(levels))
    return replace(model, trees=(Tree(one.shape, tuple(parts)),))


def _packed(nodes: list[LinearModel]) -> Nodes:
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
    starts, stops = (np.cumsum([0, *map(len, each)]) for each in (features, biases))
    return Nodes(
        starts, np.concatenate(features), np.r_[0, np.cumsum(np.concatenate(sizes))],
        np.concatenate(children), np.concatenate(values), stops,
        np.concatenate(biases).astype(np.float32),
    )  # fmt: skip


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

    def over(self, other: Gain) -> Gain:
        """Return by how much it is above another."""
        return Gain(tuple(a - b for a, b in zip(self.draws, other.draws, strict=True)))

    def __str__(self) -> str:
        """In points, with the standard error if there is one."""
        doubt = f" ± {100 * self.error:.1f}" if len(self.draws) > 1 else ""
        return f"{100 * self.mean:+.1f}{doubt}"


class Gains(NamedTuple):
    """R@5 of all methods less that of the logistic tree without correction; is it the true one?"""

    of: dict[str, Gain]
    known: bool

    def between(self, one: str, other: str) -> Gain:
        """Return by how much one method is above another; "" is the best of all trees."""
        trees = [method for method in self.of if "tree" in method]
        return self.of[one].over(self.of[other or max(trees, key=lambda m: self.of[m].mean)])


def gains_of(rows: list[Row]) -> dict[str, Gains]:
    """Return the gains of every data set."""
    gains = {}
    for (name,), part in group_rows(rows, "data").items():
        known = "true R@5" in part[0]
        by = group_rows(sorted(part, key=lambda row: int(row["draw"])), "method")
        recall = {
            method: Gain(tuple(r["true R@5" if known else "deconvolved R@5"] for r in own))
            for (method,), own in by.items()
        }
        own = {method: gain.over(recall[VANILLA]) for method, gain in recall.items()}
        gains[str(name)] = Gains(own, known)
    return gains


def draw(rows: list[Row]) -> Drawn:
    """Return what every correction adds to a tree, and whether that is as it should be."""
    gains = gains_of(rows)
    points = {
        shown: {
            name if own.known else f"{name} (estimated)": tuple(
                100 * (own.of[method].mean + far * own.of[method].error) for far in (0, -2, 2)
            )
            for name, own in gains.items()
        }
        for shown, (method, _) in SHOWN.items()
    }
    figure = chart(
        "dots", points, title="What corrections add to a label tree", y="points of R@5",
        rules={"truth": 0.0}, styles={shown: style for shown, (_, style) in SHOWN.items()},
        caption="R@5 less that of a logistic tree without correction, which is trained on the same "
        "labels (the line at 0); means over masks with two standard errors to either side. The "
        "truth is known where labels were hidden on purpose. Of finna there is no truth: its R@5 "
        "is deconvolved with propensities by Jain's formula, one draw.",
    )  # fmt: skip
    return Drawn([figure], _claims(gains), [
        _table(str(name), part) for (name,), part in group_rows(rows, "data").items()
    ])  # fmt: skip


def _table(name: str, part: list[Row]) -> pages.Table:
    measures = [m for m in part[0] if m.split(" ")[0] in (*ESTIMATES.values(), "true")]
    count = len({row["draw"] for row in part})
    return table(
        f"{name}: means over {count} masks" if count > 1 else name,
        {"method": "", "C": ".2g", **dict.fromkeys(measures, ".2%")},
        [[method, *(mean(own, each) for each in ("C", *measures))]
         for (method,), own in group_rows(part, "method").items()],
        "PSP is the ratio of the literature, P@k is unbiased, R@5 deconvolved, all from observed "
        "labels; true ones from the labels before they were hidden.",
    )  # fmt: skip


def _claims(gains: dict[str, Gains]) -> list[pages.Verdict]:
    """Sum up all data sets whose truth is known; say whether estimates say the same."""
    claims = []
    for claim, *pair in CLAIMS:
        found = {name: own.between(*pair) for name, own in gains.items() if own.known}
        claims.append(statement(
            f"{claim}, wherever the truth is known", all(each.mean > 0 for each in found.values()),
            "by " + ", ".join(f"{each} ({name})" for name, each in found.items()),
        ))  # fmt: skip
    for name, own in gains.items():
        if not own.known:
            each = {f"{one} over {other or 'the best tree'}".replace("logistic tree, ", ""):
                    own.between(one, other) for _, one, other in CLAIMS}  # fmt: skip
            claims.append(statement(
                f"{name}, no truth known: R@5, deconvolved with Jain's propensities, says the same "
                "of all of these", all(gain.mean > 0 for gain in each.values()),
                "; ".join(f"{words} {gain}" for words, gain in each.items()),
            ))  # fmt: skip
    return claims


def answer(rows: list[Row]) -> str:
    """Return what P/p and one-vs-all add to the true recall of a tree."""
    known = [own for own in gains_of(rows).values() if own.known]

    def reach(method: str) -> str:
        values = sorted({f"{100 * own.of[method].mean:.1f}" for own in known}, key=float)
        return " to ".join([values[0], values[-1]][: len(values)])

    return (
        f"Ranking by P/p costs nothing and adds {reach(RATIO)} points of true R@5 to a logistic "
        f"tree; one-vs-all with unbiased weights adds {reach(BEST)} points and stays ahead."
    )


TREE = Study(
    "tree", "Label trees when labels are missing",
    "What do corrections give to a tree of labels, and what does the tree cost in quality?",
    units, measure, draw, answer,
)  # fmt: skip
STUDIES = (TREE,)
