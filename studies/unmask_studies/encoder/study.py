"""An encoder on labels of which many were hidden: true metrics of corrections and shortlists.

A bag of embeddings and an output layer, both with a random start, are trained on labels that were
hidden with known propensities (1/p linear in the rank of a label, from 2 to 20). Learning rate and
epoch are chosen for every method alike, vanilla included, by the deconvolved R@5 of the observed
labels of held-out training rows; then the test rows are predicted, once. "Vanilla, P/p" is the
vanilla training ranked by probability over propensity, which costs nothing. "Complete labels" is
what the same search gives where nothing is hidden. "All labels" sees every label in every step, a
"shortlist" those of the batch and some uniform draws, with their probabilities.

PSP@5 weighs hits by 1/p and divides by the best possible; here both it and R@5 are of true labels.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from unmask import data, propensity, report
from unmask._typing import Floats
from unmask.metrics import evaluate
from unmask_studies import models
from unmask_studies.runs import STYLES, DataSets, Row, Study, Unit, group_rows, statement

FOLDER = "debtags-bookworm"
MASKS = "inverse_linear:2,20"
COMPLETE, VANILLA, RATIO = "complete labels", "vanilla", "vanilla, P/p"
CORRECTIONS = {
    "vanilla": VANILLA,
    "bound": "bound",
    "unbiased": "unbiased",
    "empirical_bayes": "empirical Bayes",
}
"""One-vs-all logistic losses; empirical Bayes is of the normalised one, for recall."""
ALL, SHORTLIST = "all labels", "shortlist"
METHODS = (COMPLETE, VANILLA, RATIO, *list(CORRECTIONS.values())[1:])
METRICS = ("R@5", "PSP@5")
LOSS = 0.01
"""What a shortlist may cost in R@5."""


class Task(NamedTuple):
    """How large planted data are, how many labels a batch draws, what is tried, and how often.

    Of data that are read, so many training rows are drawn.
    """

    rows: int
    features: int
    labels: int
    draws: int
    rates: tuple[float, ...]
    epochs: int
    repetitions: int


PLANTED = {
    "tiny": Task(300, 100, 60, 20, (0.03,), 2, 1),
    "small": Task(2_000, 1_000, 2_000, 100, (0.01, 0.03), 6, 2),
    "paper": Task(1_500, 8_000, 100_000, 1_000, (0.02, 0.05), 4, 3),
}
"""Of the planted rows a quarter is for the test."""
READ = Task(8_000, 0, 0, 100, (0.01, 0.03), 4, 3)


def units(size: str, seed: int, data: DataSets | None) -> list[Unit]:
    """One unit per data set, repetition, training and way to score labels."""
    here = data is not None and size != "tiny" and FOLDER in data.names
    tasks: list[tuple[Path | None, Task]] = [(None, PLANTED[size])]
    if data and here:
        tasks.insert(0, (data.path(FOLDER), READ))
    plans = [(kind, way) for kind in CORRECTIONS for way in (ALL, SHORTLIST)]
    return [
        {"folder": folder, "planted": size, "training": training, "way": way, "draw": seed + draw}
        for draw in range(max(task.repetitions for _, task in tasks))
        for folder, task in tasks
        if draw < task.repetitions
        for training, way in [(COMPLETE, ALL), *plans]
    ]


def measure(folder: Path | None, planted: str, training: str, way: str, draw: int) -> Iterable[Row]:
    """True metrics of the network that held-out rows choose; two rankings of a vanilla one."""
    try:
        from unmask_studies.encoder import network
    except ModuleNotFoundError as error:
        raise ValueError(
            f"the encoder study needs PyTorch ({error}); install unmask[torch]."
        ) from error
    task = READ if folder else PLANTED[planted]
    rows = _read(folder) if folder else _planted(task, draw)
    p = np.asarray(propensity.from_spec(MASKS, rows.train_labels))
    observed = data.hide(rows.train_labels, p, seed=draw)
    stated = p
    if training == COMPLETE:
        observed, stated = rows.train_labels, np.ones_like(p)
    order = np.random.default_rng(draw).permutation(observed.shape[0])[: task.rows]
    held, kept = np.split(order, [len(order) // 5])
    x = rows.train_features
    parts = network.Parts(x[kept], observed[kept], x[held], observed[held], rows.test_features)
    plan = network.Plan(
        "vanilla" if training == COMPLETE else training, task.draws if way == SHORTLIST else 0,
        task.rates, task.epochs, draw,
    )  # fmt: skip
    rankings: dict[str, Floats | None] = {CORRECTIONS.get(training, training): None}
    rankings |= {RATIO: p} if training == "vanilla" else {}
    for method, best in network.choose(parts, stated, plan, rankings).items():
        table = evaluate(best.top, rows.test_labels, p, metrics=METRICS,
                         estimators=["vanilla", "normalized"])  # fmt: skip
        yield {
            "data": folder.name if folder else "planted", "method": method,
            "labels": len(p), "observed": observed.nnz / rows.train_labels.nnz,
            "R@5": table["R@5", "vanilla"].value, "PSP@5": table["PSP@5", "normalized"].value,
            "estimate": best.estimate, "rate": best.rate, "epoch": best.epoch,
        }  # fmt: skip


@lru_cache(maxsize=1)
def _read(folder: Path) -> models.Split:
    return models.split_of(folder)


@lru_cache(maxsize=1)
def _planted(task: Task, seed: int) -> models.Split:
    rows = data.synthetic.planted(
        task.rows, n_features=task.features, n_labels=task.labels, skew=1.1, seed=seed
    )
    cut = task.rows - task.rows // 4
    return models.of_datasets(rows.take(slice(0, cut)), rows.take(slice(cut, task.rows)))


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
        """The differences, repetition by repetition."""
        return Cell(tuple(a - b for a, b in zip(self.values, other.values, strict=True)))

    def __str__(self) -> str:
        """Mean ± standard error."""
        doubt = "" if self.error is None else f" ± {self.error:.3f}"
        return f"{self.mean:.3f}{doubt}"


Cells = dict[tuple[str, str], Cell]
"""By method and way."""


def ordered(rows: list[Row]) -> list[Row]:
    """By data set, method, way and repetition, however they were stored."""
    return sorted(
        rows,
        key=lambda row: (row["data"], METHODS.index(row["method"]), row["way"], row["draw"]),
    )


def cells(rows: list[Row], metric: str) -> dict[str, Cells]:
    """The numbers of a metric, by data set, method and way, repetition by repetition."""
    return {
        name: {
            (str(method), str(way)): Cell(tuple(row[metric] for row in own))
            for (method, way), own in group_rows(part, "method", "way").items()
        }
        for (name,), part in group_rows(ordered(rows), "data").items()
    }


def draw(rows: list[Row]) -> list[report.Section]:
    """True R@5 of every method, whether corrections and shortlists keep their promise, details."""
    recall = cells(rows, "R@5")
    charts = [_chart(name, own) for name, own in recall.items()]
    claims = [each for name, own in recall.items() for each in _statements(name, own)]
    text = report.Text(str(__doc__).partition("\n\n")[2])
    tables = [_table(name, part) for (name,), part in group_rows(ordered(rows), "data").items()]
    return [
        report.Section("True recall", [text, report.Panels(charts), report.Verdicts(claims)]),
        report.Section("Every method", tables),
    ]


def _chart(name: str, own: Cells) -> report.Chart:
    series = []
    for way, style in ((ALL, STYLES["measured"]), (SHORTLIST, STYLES["tempered"])):
        part = {method: cell for (method, by), cell in own.items() if by == way}
        doubt = [2 * (cell.error or 0.0) for cell in part.values()]
        means = [cell.mean for cell in part.values()]
        series.append(
            report.Series(
                way, list(part), means, [m - d for m, d in zip(means, doubt, strict=True)],
                [m + d for m, d in zip(means, doubt, strict=True)], style=style,
            )
        )  # fmt: skip
    return report.Chart(
        "dots", series, title=name, y="R@5 of true labels",
        caption="Means over repetitions, with two standard errors to either side.",
    )  # fmt: skip


def _table(name: str, part: list[Row]) -> report.Table:
    by = {metric: cells(part, metric)[name] for metric in METRICS}
    body: list[list[report.Cell]] = []
    for (method, way), own in group_rows(part, "method", "way").items():
        tried = ", ".join(f"{row['rate']:g} / {row['epoch']}" for row in own)
        numbers = [str(by[metric][method, way]) for metric in METRICS]
        body.append([f"{method}, {way}", *numbers, float(np.mean([r["estimate"] for r in own])),
                     tried])  # fmt: skip
    first = part[0]
    return report.Table(
        ["method", *(f"true {metric}" for metric in METRICS),
         report.Column("R@5 as estimated", ".3f"), "rate / epoch"],
        body,
        title=f"{name}: {first['labels']:,} labels",
        caption="Means ± standard errors over repetitions (masks, starts, held-out rows, planted "
        "data). The estimate is what held-out rows said when they chose rate and epoch; where they "
        "chose the last epoch, more might be better.",
    )  # fmt: skip


def _statements(name: str, own: Cells) -> list[report.Verdict]:
    claims = []
    vanilla = own[VANILLA, ALL]
    for method in METHODS[2:]:
        gain = own[method, ALL].less(vanilla)
        sure = None if gain.error is None else gain.mean > 2 * gain.error
        claims.append(
            statement(f"{name}: {method} raises the true R@5 of vanilla, tuned", sure,
                      f"by {gain}, from {vanilla}")
        )  # fmt: skip
    lost = {
        method: cell.less(own[method, SHORTLIST])
        for (method, way), cell in own.items()
        if way == ALL and (method, SHORTLIST) in own
    }
    worst = max(lost, key=lambda method: lost[method].mean)
    claims.append(
        statement(f"{name}: a shortlist costs at most {LOSS} of R@5", lost[worst].mean <= LOSS,
                  f"at most {lost[worst]} ({worst})")
    )  # fmt: skip
    return claims


STUDY = Study("encoder", "an encoder on labels of which many were hidden", units, measure, draw)
