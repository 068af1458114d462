"""Metrics of sets and scores, and thresholds, where labels are missing: how far off, how mended?

A linear model's probabilities for the test part of real data sets are the system, their labels the
truth; labels with fewer than 20 test rows are left out. In every run half of the test rows, 2,000
at most, are drawn, and their labels go missing with known propensities. Metrics: sets are what
reaches the threshold that is best for the test part. Recall and F1 of rows are corrected by
deconvolution, all else by unbiased sums. The truth is the metric of the same rows with complete
labels, over the labels that the estimate counts; intervals, which also allow for other rows, are
counted for numbers that may be used. Thresholds: chosen on one half of the rows, by F1 as observed,
by corrected F1, and by F1 of complete labels, in every fourth run; what they reach is the true F1
of the other half.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from unmask import data as data_sets
from unmask import linear, propensity, report, thresholds
from unmask._typing import Array, Floats
from unmask.metrics import Estimate, charts, evaluate
from unmask.metrics.scored import FORMS, AllRows, Scored
from unmask.predictions import LabelSets
from unmask_studies import models
from unmask_studies.runs import DataSets, Row, Study, Unit, group_rows, statement

FOLDERS = ("debtags-bookworm", "bibtex-xc", "delicious")
OF_SETS = ("micro-F1", "macro-F1")
OF_ROWS = ("sample-R", "sample-F1")
OF_SCORES = ("mAP", "macro-AUC")
MASKS: dict[str, Callable[[sp.csr_array], Floats]] = {
    "p by Jain's formula": lambda labels: np.asarray(propensity.jain(labels)),
    "p = 1/2": lambda labels: np.full(labels.shape[1], 0.5),
    "p = 1/2 … 1/20": lambda labels: np.asarray(propensity.inverse_linear(labels, head=2, tail=20)),
}
SIZES = {"tiny": (1, 2, 150), "small": (1, 10, 1000), "paper": (5, 20, 2000)}
"""Units per cell, repetitions in each, and rows."""
TRAINING_ROWS = 6000
LEAST = 20
"""Labels with fewer rows in the population are left out."""
EVERY = 4
"""Thresholds, which take longest, are chosen in every so many repetitions."""
CLOSE = 0.01
LOW = 0.92
ENOUGH = 100
"""Runs of a cell from which on its coverage says something."""
ESTIMATORS = ("vanilla", "unbiased", "deconvolved")
CHOICES = ("vanilla", "unbiased", "clean")


@dataclass(frozen=True)
class Population:
    """Rows that are drawn from: true labels, the system's probabilities, and what is true.

    Parameters
    ----------
    labels : csr_array of shape (N, L)
    scores : (N, L) floats
    train_labels : csr_array of shape (M, L)
    threshold : float
        Best for micro-F1.
    """

    labels: sp.csr_array
    scores: Array
    train_labels: sp.csr_array
    threshold: float


@lru_cache(maxsize=1)
def population_of(folder: Path | None) -> Population:
    """The test part of a data set, or of built-in data, with a model trained on the other part."""
    split = models.split_of(folder) if folder else models.planted(1500, 0)
    rows = slice(0, TRAINING_ROWS)
    recipe = linear.Recipe(loss="logistic", C=10.0 if folder else 1.0)
    model, _ = linear.train(split.train_features[rows], split.train_labels[rows], recipe)
    counts = np.bincount(split.test_labels.indices, minlength=split.test_labels.shape[1])
    kept = np.flatnonzero(counts >= LEAST)
    used = np.flatnonzero(np.diff(split.test_labels.indptr))
    labels = sp.csr_array(split.test_labels[used][:, kept])
    features = sp.csr_array(split.test_features[used])
    scores = np.ascontiguousarray(linear.probabilities(model, features)[:, kept], dtype=np.float32)
    cut = float(thresholds.fit(scores, labels).values[0])
    return Population(labels, scores, sp.csr_array(split.train_labels[:, kept]), cut)


def units(size: str, seed: int, data: DataSets | None) -> list[Unit]:
    """Some repetitions of one data set and mask."""
    parts, repetitions, n = SIZES[size]
    real = data if data and size != "tiny" else DataSets(None, frozenset())
    folders: list[Path | None] = [real.path(name) for name in FOLDERS if name in real.names]
    return [
        {"folder": folder, "mask": mask, "n": n, "part": seed + part, "repetitions": repetitions}
        for folder in folders or [None]
        for mask in MASKS
        for part in range(parts)
    ]


def measure(folder: Path | None, mask: str, n: int, part: int, repetitions: int) -> Iterable[Row]:
    """A row per metric and estimator, and per way to choose thresholds."""
    population = population_of(folder)
    p = MASKS[mask](population.train_labels)
    rng = np.random.default_rng([part, n, list(MASKS).index(mask), 22])
    numbers: dict[tuple[str, str], list[tuple[Estimate, float]]] = {}
    reached: dict[tuple[str, str], list[float]] = {}
    for number in range(repetitions):
        size = population.labels.shape[0]
        drawn = rng.permutation(size)[: min(n, size // 2)]
        true, scores = sp.csr_array(population.labels[drawn]), population.scores[drawn]
        observed = data_sets.hide(true, p, seed=int(rng.integers(1 << 31)))
        sets = LabelSets.from_scores(scores, population.threshold)
        complete = _by_label(sets, scores, true)
        for each in (
            *evaluate(sets, observed, p, metrics=[*OF_SETS, *OF_ROWS], estimators=ESTIMATORS),
            *evaluate(scores, observed, p, metrics=OF_SCORES),
        ):
            truth = _truth(complete, each.metric, observed, sets)
            numbers.setdefault((each.metric, each.estimator), []).append((each, truth))
        for metric in OF_SETS if number % EVERY == 0 else ():
            for choice, value in _chosen(metric, scores, observed, true, p).items():
                reached.setdefault((metric, choice), []).append(value)
    for (metric, estimator), pairs in numbers.items():
        yield {"kind": "metric", "metric": metric, "estimator": estimator, **_summed(pairs)}
    for (metric, choice), values in reached.items():
        clean = np.array(reached[metric, "clean"])
        yield {
            "kind": "threshold", "metric": metric, "estimator": choice, "runs": len(values),
            "reached": float(np.sum(values)), "regret": float(np.sum(clean - values)),
            "worst": float(np.max(clean - values)),
        }  # fmt: skip


def _by_label(sets: LabelSets, scores: Array, true: sp.csr_array) -> dict[str, Floats]:
    """Metrics of every label, complete; NaN where there is none. Of micro-F1 one number."""
    hits = np.asarray(sets.indicator.multiply(true).sum(axis=0), dtype=np.float64).ravel()
    sizes = [np.asarray(m.sum(axis=0), dtype=np.float64) for m in (sets.indicator, true)]
    both = sizes[0] + sizes[1]
    rows = AllRows((Scored(scores, true, np.ones(true.nnz)),))
    ranked = [rows.linearized(form, corrected=False).by_label for form in FORMS]
    return {
        "micro-F1": np.array([2 * hits.sum() / both.sum()]),
        "macro-F1": 2 * hits / np.where(both > 0, both, np.nan),
        **{
            each.metric: np.array([each.value])
            for each in evaluate(sets, true, metrics=OF_ROWS, estimators=["vanilla"])
        },
        **{name: np.asarray(values) for name, values in zip(OF_SCORES, ranked, strict=True)},
    }


def _truth(
    complete: dict[str, Floats], metric: str, observed: sp.csr_array, sets: LabelSets
) -> float:
    """The mean over the labels that the estimate counts."""
    values = complete[metric]
    if values.size == 1:
        return float(values[0])
    counted = np.bincount(observed.indices, minlength=values.size) > 0
    if metric == "macro-F1":
        counted |= np.bincount(sets.indicator.indices, minlength=values.size) > 0
    return float(np.nanmean(values[counted]))


def _chosen(
    metric: str, scores: Array, observed: sp.csr_array, true: sp.csr_array, p: Floats
) -> dict[str, float]:
    """The true F1 on the second half of rows of thresholds chosen on the first."""
    half = scores.shape[0] // 2
    reached = {}
    for choice in CHOICES:
        labels = true if choice == "clean" else observed
        cut = thresholds.fit(
            scores[:half], sp.csr_array(labels[:half]), p if choice == "unbiased" else None,
            metric=metric,
        )  # fmt: skip
        table = evaluate(cut.apply(scores[half:]), sp.csr_array(true[half:]), metrics=[metric])
        reached[choice] = table[metric, "vanilla"].value
    return reached


def _summed(pairs: list[tuple[Estimate, float]]) -> Row:
    used = [(each, truth) for each, truth in pairs if each.verdict.usable]
    return {
        "runs": len(pairs),
        "used": len(used),
        "holds": sum(each.interval[0] <= truth <= each.interval[1] for each, truth in used),
        "widths": float(sum(each.interval[1] - each.interval[0] for each, _ in used)),
        "errors": float(sum(each.value - truth for each, truth in pairs)),
        "squares": float(sum((each.value - truth) ** 2 for each, truth in pairs)),
        "truths": float(sum(truth for _, truth in pairs)),
    }


def draw(rows: list[Row]) -> list[report.Section]:
    """What is promised, errors and coverage, then thresholds."""
    metrics = [_cell(part) for part in _groups(rows, "metric").values()]
    chosen = [_choice(part) for part in _groups(rows, "threshold").values()]
    return [
        report.Section(
            "Metrics",
            [
                *_picture(metrics),
                report.Text(str(__doc__).partition("\n\n")[2]),
                report.Verdicts(_bars(metrics, chosen)),
                _metric_table(metrics),
                *_row_tables([cell for cell in metrics if cell["metric"] in OF_ROWS]),
            ],
        ),
        report.Section("Thresholds", [_threshold_table(chosen)]),
    ]


def _picture(cells: list[Row]) -> list[report.Panels]:
    """The error of every metric as observed and corrected, mean over data sets; a panel a mask."""
    panels = []
    largest = max((cell["rmse"] for pair in _corrected(cells) for cell in pair), default=0.0)
    axis = report.Axis("typical error", low=0.0, high=float(np.ceil(20 * largest) / 20))
    for (mask,), of_mask in group_rows(cells, "mask").items():
        errors: dict[str, dict[str, list[float]]] = {"vanilla": {}, "corrected": {}}
        for vanilla, corrected in _corrected(of_mask):
            for name, cell in (("vanilla", vanilla), ("corrected", corrected)):
                errors[name].setdefault(cell["metric"], []).append(cell["rmse"])
        series = [
            report.Series(
                shown, list(errors[name]), [float(np.mean(e)) for e in errors[name].values()],
                style=charts.STYLES[style],
            )
            for name, shown, style in (
                ("vanilla", "as observed", "vanilla"), ("corrected", "corrected", "deconvolved"),
            )
        ]  # fmt: skip
        panels.append(report.Chart("dots", series, title=str(mask), y=axis))
    title = "How far off metrics are, as observed and corrected"
    caption = "Root mean square errors over runs, mean over data sets; 0 is right."
    return [report.Panels(panels, columns=3, title=title, caption=caption)] if panels else []


def _groups(rows: list[Row], kind: str) -> dict[tuple[object, ...], list[Row]]:
    of_kind = [row for row in rows if row["kind"] == kind]
    return group_rows(of_kind, "folder", "mask", "metric", "estimator")


def _cell(part: list[Row]) -> Row:
    """The units of a cell together."""
    names = ("runs", "used", "holds", "widths", "errors", "squares", "truths")
    total = {name: sum(row[name] for row in part) for name in names}
    runs, used = total["runs"], total["used"]
    first = {name: part[0][name] for name in ("mask", "metric", "estimator")}
    return {
        "data": part[0]["folder"] or "planted",
        **first,
        "runs": runs,
        "used": used,
        "truth": total["truths"] / runs,
        "bias": total["errors"] / runs,
        "rmse": float(np.sqrt(total["squares"] / runs)),
        "coverage": total["holds"] / used if used else None,
        "width": total["widths"] / used if used else None,
    }


def _choice(part: list[Row]) -> Row:
    runs = sum(row["runs"] for row in part)
    first = {name: part[0][name] for name in ("mask", "metric", "estimator")}
    return {
        "data": part[0]["folder"] or "planted",
        **first,
        "reached": sum(row["reached"] for row in part) / runs,
        "regret": sum(row["regret"] for row in part) / runs,
        "worst": max(row["worst"] for row in part),
        "runs": runs,
    }


def _bars(metrics: list[Row], chosen: list[Row]) -> list[report.Verdict]:
    both = _corrected(metrics)
    pairs = [(vanilla["rmse"], corrected["rmse"]) for vanilla, corrected in both]
    smaller = sum(corrected < vanilla for vanilla, corrected in pairs)
    corrected = [cell for _, cell in both]
    judged = [cell for cell in corrected if cell["used"] >= cell["runs"] / 2]
    short = [cell for cell in judged if cell["coverage"] < LOW]
    enough = min((cell["runs"] for cell in judged), default=0) >= ENOUGH
    regrets = [cell["regret"] for cell in chosen if cell["estimator"] == "unbiased"]
    gains = [
        vanilla["regret"] - unbiased["regret"]
        for vanilla, unbiased in _beside(chosen, "vanilla", "unbiased")
    ]
    return [
        statement(
            "Corrected numbers are closer to the truth than those of observed labels",
            smaller == len(pairs),
            f"{smaller} of {len(pairs)} cells; typical error {_mean(pairs, 0):.3f} as observed, "
            f"{_mean(pairs, 1):.3f} corrected",
        ),
        statement(
            f"Their 95 % intervals hold the truth in at least {LOW:.0%} of the runs",
            not short if enough else None,
            f"{len(judged) - len(short)} of {len(judged)} cells",
        ),
        statement(
            "Thresholds chosen by corrected F1 are within a point of those of complete labels",
            max(regrets) <= CLOSE,
            f"at most {max(regrets):.3f} of true F1 is lost, {np.mean(regrets):.3f} on average",
        ),
        statement(
            "and never worse than thresholds chosen by F1 as observed",
            min(gains) >= 0,
            f"from {min(gains):+.3f} to {max(gains):+.3f} of true F1, {np.mean(gains):+.3f} on "
            "average",
        ),
    ]


def _corrected(cells: list[Row]) -> list[tuple[Row, Row]]:
    """Cells as observed and corrected: deconvolved where there is that, else unbiased."""
    pairs = []
    for group in group_rows(cells, "data", "mask", "metric").values():
        by_name = {cell["estimator"]: cell for cell in group}
        pairs.append((by_name["vanilla"], by_name.get("deconvolved", by_name["unbiased"])))
    return pairs


def _beside(cells: list[Row], *estimators: str) -> list[list[Row]]:
    """Cells of the same data, mask and metric, one for each estimator."""
    groups = group_rows(cells, "data", "mask", "metric").values()
    return [
        [next(cell for cell in group if cell["estimator"] == name) for name in estimators]
        for group in groups
    ]


def _mean(pairs: list[tuple[float, float]], position: int) -> float:
    return float(np.mean([pair[position] for pair in pairs]))


def _metric_table(cells: list[Row]) -> report.Table:
    body: list[list[report.Cell]] = [
        [f"{v['data']}, {v['mask']}", v["metric"], v["truth"], v["bias"], u["bias"], u["rmse"],
         u["coverage"], u["width"], f"{u['used']} of {u['runs']}"]
        for v, u in _corrected(cells)
    ]  # fmt: skip
    return report.Table(
        ["data and masks", "metric", report.Column("truth", ".3f"),
         report.Column("observed: error", "+.3f"), report.Column("corrected: error", "+.3f"),
         report.Column("RMSE", ".3f"), report.Column("coverage", ".0%"),
         report.Column("width", ".3f"), "usable"],
        body,
        title="Errors of metrics, as observed and corrected",
        caption="Mean error of observed and corrected numbers; of corrected ones the root mean "
        "square error, how often 95 % intervals hold the truth, and how wide they are.",
    )  # fmt: skip


def _row_tables(cells: list[Row]) -> list[report.Table]:
    body: list[list[report.Cell]] = [
        [f"{u['data']}, {u['mask']}", u["metric"], u["truth"], u["rmse"], u["coverage"],
         f"{u['used']} of {u['runs']}", d["rmse"], d["coverage"], f"{d['used']} of {d['runs']}"]
        for u, d in _beside(cells, "unbiased", "deconvolved")
    ]  # fmt: skip
    table = report.Table(
        ["data and masks", "metric", report.Column("truth", ".3f"),
         report.Column("unbiased: RMSE", ".3f"), report.Column("its coverage", ".0%"),
         "unbiased usable", report.Column("deconvolved: RMSE", ".3f"),
         report.Column("coverage", ".0%"), "usable"],
        body,
        title="Recall and F1 of rows, row by row and deconvolved",
        caption="Root mean square errors, how often 95 % intervals of usable numbers hold the "
        "truth, and how many are usable.",
    )  # fmt: skip
    return [table] if body else []


def _threshold_table(cells: list[Row]) -> report.Table:
    body: list[list[report.Cell]] = [
        [f"{v['data']}, {v['mask']}", v["metric"], c["reached"], v["reached"], u["reached"],
         u["regret"], u["worst"]]
        for v, u, c in _beside(cells, *CHOICES)
    ]  # fmt: skip
    return report.Table(
        ["data and masks", "F1", report.Column("complete labels", ".3f"),
         report.Column("as observed", ".3f"), report.Column("corrected", ".3f"),
         report.Column("lost", "+.3f"), report.Column("lost at worst", "+.3f")],
        body,
        title="True F1 of thresholds that were chosen on other rows",
        caption="By F1 of complete labels, of observed ones, and corrected; the last columns are "
        "what corrected choices lose against complete labels, on average and in the worst run.",
    )  # fmt: skip


STUDY = Study("sets", "metrics of sets and scores, and thresholds", units, measure, draw)
