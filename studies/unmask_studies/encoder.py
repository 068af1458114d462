"""An encoder on labels of which many were hidden: true metrics of corrections and shortlists."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from unmask import data, pages, propensity
from unmask._typing import Floats
from unmask.metrics import evaluate
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

FOLDER, MASKS = "debtags-bookworm", "inverse_linear:2,20"
COMPLETE, VANILLA, RATIO = "complete labels", "vanilla", "vanilla, P/p"
# One-vs-all logistic losses; empirical Bayes is of the normalised one, for recall.
CORRECTIONS = {
    "vanilla": VANILLA, "bound": "bound", "unbiased": "unbiased",
    "empirical_bayes": "empirical Bayes",
}  # fmt: skip
ALL, SHORTLIST = "all labels", "shortlist"
METHODS = (COMPLETE, VANILLA, RATIO, *list(CORRECTIONS.values())[1:])
METRICS = ("R@5", "PSP@5")
LOSS = 0.01  # what a shortlist may cost in R@5


class Task(NamedTuple):
    """Sizes of planted data, labels that a batch draws, what is tried, and how often.

    Of data that are read, so many training rows are drawn.
    """

    rows: int
    features: int
    labels: int
    draws: int
    rates: tuple[float, ...]
    epochs: int
    repetitions: int


# Of the planted rows a quarter is for the test.
PLANTED = {
    "tiny": Task(300, 100, 60, 20, (0.03,), 2, 1),
    "small": Task(2_000, 1_000, 2_000, 100, (0.01, 0.03), 6, 2),
    "paper": Task(1_500, 8_000, 100_000, 1_000, (0.02, 0.05), 4, 3),
}
READ = Task(8_000, 0, 0, 100, (0.01, 0.03), 4, 3)


def units(size: str, seed: int, data: DataSets | None) -> list[Unit]:
    """Return one unit per data set, repetition, training and way to score labels."""
    (folder,) = folders(data, size, [FOLDER])
    tasks = [(folder, READ)] if folder else []
    plans = [(kind, way) for kind in CORRECTIONS for way in (ALL, SHORTLIST)]
    return [
        {"folder": source, "planted": size, "training": training, "way": way, "draw": seed + draw}
        for draw in range(3) for source, task in [*tasks, (None, PLANTED[size])]
        if draw < task.repetitions for training, way in [(COMPLETE, ALL), *plans]
    ]  # fmt: skip


def measure(folder: Path | None, planted: str, training: str, way: str, draw: int) -> Iterable[Row]:
    """Return true metrics of the network that held-out rows choose; two rankings of a vanilla one.

    A bag of embeddings and an output layer, both with a random start, are trained on labels that
    were hidden with known propensities (1/p linear in the rank of a label, from 2 to 20). Learning
    rate and epoch are chosen for every method alike, vanilla included, by the deconvolved R@5 of
    the observed labels of held-out training rows; then the test rows are predicted, once. "Vanilla,
    P/p" is the vanilla training ranked by probability over propensity, which costs nothing.
    "Complete labels" is what the same search gives where nothing is hidden. "All labels" sees every
    label in every step, a "shortlist" those of the batch and some uniform draws, with their
    probabilities. PSP@5 weighs hits by 1/p and divides by the best possible; here both it and R@5
    are of true labels.
    """
    try:
        from unmask_studies import network
    except ModuleNotFoundError as error:
        raise ValueError(
            f"the encoder study needs PyTorch ({error}); install unmask[torch]."
        ) from error
    task = READ if folder else PLANTED[planted]
    rows = _rows(folder, task, 0 if folder else draw)
    p = np.asarray(propensity.from_spec(MASKS, rows.train_labels))
    observed = data.hide(rows.train_labels, p, seed=draw)
    stated = p
    if training == COMPLETE:
        observed, stated = rows.train_labels, np.ones_like(p)
    order = np.random.default_rng(draw).permutation(observed.shape[0])[: task.rows]
    held, kept = np.split(order, [len(order) // 5])
    x = rows.train_features
    parts = network.Parts(x[kept], observed[kept], x[held], observed[held], rows.test_features)
    correction = "vanilla" if training == COMPLETE else training
    draws = task.draws if way == SHORTLIST else 0
    plan = network.Plan(correction, draws, task.rates, task.epochs, draw)
    rankings: dict[str, Floats | None] = {CORRECTIONS.get(training, training): None}
    rankings |= {RATIO: p} if training == "vanilla" else {}
    for method, best in network.choose(parts, stated, plan, rankings).items():
        found = evaluate(best.top, rows.test_labels, p, metrics=METRICS,
                         estimators=["vanilla", "normalized"])  # fmt: skip
        yield {
            "data": folder.name if folder else "planted", "method": method,
            "labels": len(p), "observed": observed.nnz / rows.train_labels.nnz,
            "R@5": found["R@5", "vanilla"].value, "PSP@5": found["PSP@5", "normalized"].value,
            "estimate": best.estimate, "rate": best.rate, "epoch": best.epoch,
        }  # fmt: skip


@lru_cache(maxsize=2)
def _rows(folder: Path | None, task: Task, seed: int) -> Split:
    if folder is not None:
        return split_of(folder)
    rows = data.synthetic.planted(
        task.rows, n_features=task.features, n_labels=task.labels, skew=1.1, seed=seed
    )
    return cut_of(rows, task.rows - task.rows // 4)


class Cell(NamedTuple):
    """A number of every repetition."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Over repetitions."""
        return float(np.mean(self.values))

    @property
    def error(self) -> float | None:
        """The standard error of the mean; none of one repetition."""
        n = len(self.values)
        return float(np.std(self.values, ddof=1) / np.sqrt(n)) if n > 1 else None

    def less(self, other: Cell) -> Cell:
        """Return the differences, repetition by repetition."""
        return Cell(tuple(a - b for a, b in zip(self.values, other.values, strict=True)))

    def __str__(self) -> str:
        """Mean ± standard error."""
        doubt = "" if self.error is None else f" ± {self.error:.3f}"
        return f"{self.mean:.3f}{doubt}"


Cells = dict[tuple[str, str], Cell]  # by method and way


def _ordered(rows: list[Row]) -> list[Row]:
    """By data set, method, way and repetition, however they were stored."""

    def place(row: Row) -> tuple[object, ...]:
        return row["data"], METHODS.index(row["method"]), row["way"], row["draw"]

    return sorted(rows, key=place)


def cells(rows: list[Row], metric: str) -> dict[str, Cells]:
    """Return the numbers of a metric, by data set, method and way, repetition by repetition."""
    by: dict[str, Cells] = {}
    for (name, method, way), own in group_rows(_ordered(rows), "data", "method", "way").items():
        by.setdefault(name, {})[method, way] = Cell(tuple(row[metric] for row in own))
    return by


def draw(rows: list[Row]) -> Drawn:
    """Return true R@5 of every method, whether corrections and shortlists keep their promise."""
    recall, psp = (cells(rows, metric) for metric in METRICS)
    charts, claims, tables = [], [], []
    for name, own in recall.items():
        points: dict[str, dict[str, object]] = {}
        for (method, way), cell in own.items():
            far = 2 * (cell.error or 0.0)
            points.setdefault(way, {})[method] = (cell.mean, cell.mean - far, cell.mean + far)
        styles = {ALL: "unbiased", SHORTLIST: "tempered"}
        charts.append(chart("dots", points, title=name, y="R@5 of true labels", styles=styles))
        claims += _claims(name, own)
        part = [row for row in _ordered(rows) if row["data"] == name]
        lines = [
            [f"{method}, {way}", str(own[method, way]), str(psp[name][method, way]),
             mean(of, "estimate"), ", ".join(f"{row['rate']:g} / {row['epoch']}" for row in of)]
            for (method, way), of in group_rows(part, "method", "way").items()
        ]  # fmt: skip
        tables.append(table(
            f"{name}: {part[0]['labels']:,} labels",
            {"method": "", "true R@5": "", "true PSP@5": "", "R@5 as estimated": ".3f",
             "rate / epoch": ""}, lines,
            "Means ± standard errors over repetitions (masks, starts, held-out rows, planted "
            "data). The estimate is what held-out rows said when they chose rate and epoch; where "
            "they chose the last epoch, more might be better.",
        ))  # fmt: skip
    caption = "Means over repetitions, with two standard errors to either side."
    return Drawn([pages.Panels(charts, title="True recall", caption=caption)], claims, tables)


def _claims(name: str, own: Cells) -> list[pages.Verdict]:
    claims, vanilla = [], own[VANILLA, ALL]
    for method in METHODS[2:]:
        gain = own[method, ALL].less(vanilla)
        sure = None
        if gain.error is not None and abs(gain.mean) > 2 * gain.error:
            sure = gain.mean > 0
        claim = f"{name}: {method} raises the true R@5 of vanilla, tuned"
        claims.append(statement(claim, sure, f"by {gain}, from {vanilla}"))
    lost = {
        method: cell.less(own[method, SHORTLIST])
        for (method, way), cell in own.items()
        if way == ALL and (method, SHORTLIST) in own
    }
    worst = max(lost, key=lambda method: lost[method].mean)
    claim = f"{name}: a shortlist costs at most {LOSS} of R@5"
    said = f"at most {lost[worst]} ({worst})"
    return [*claims, statement(claim, lost[worst].mean <= LOSS, said)]


def answer(rows: list[Row]) -> str:
    """Return how far corrections move the true R@5 of vanilla training on all labels."""
    parts = []
    for name, own in cells(rows, "R@5").items():
        recall = {method: cell.mean for (method, way), cell in own.items() if way == ALL}
        moved = [100 * (recall[each] - recall[VANILLA]) for each in METHODS[3:]]
        parts.append(
            f"by {min(moved):+.1f} to {max(moved):+.1f} points on {name} ({recall[VANILLA]:.1%} "
            f"without them, {recall[COMPLETE]:.1%} where nothing is hidden)"
        )
    return f"Corrections change the true R@5 of an encoder {' and '.join(parts)}."


ENCODER = Study(
    "encoder", "An encoder when most labels are missing",
    "What do corrections give to an encoder, and what does a shortlist of labels cost?",
    units, measure, draw, answer,
)  # fmt: skip
STUDIES = (ENCODER,)
