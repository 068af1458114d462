"""Metrics of sets and scores, and thresholds, where labels are missing: how far off, how mended?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from unmask import data as data_sets
from unmask import linear, pages, propensity, thresholds
from unmask._typing import Array, Floats
from unmask.metrics import Estimate, evaluate
from unmask.metrics.scored import FORMS, AllRows, Scored
from unmask.predictions import LabelSets
from unmask_studies.data import TRAINING_ROWS, counts_of, split_of
from unmask_studies.drawing import chart, table
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

FOLDERS = ("debtags-bookworm", "bibtex-xc", "delicious")
OF_SETS, OF_ROWS, OF_SCORES = (
    ("micro-F1", "macro-F1"), ("sample-R", "sample-F1"), ("mAP", "macro-AUC"),
)  # fmt: skip
MASKS: dict[str, Callable[[sp.csr_array], Floats]] = {
    "p by Jain's formula": lambda labels: np.asarray(propensity.jain(labels)),
    "p = 1/2": lambda labels: np.full(labels.shape[1], 0.5),
    "p = 1/2 … 1/20": lambda labels: np.asarray(propensity.inverse_linear(labels, head=2, tail=20)),
}
SIZES = {"tiny": (1, 2, 150), "small": (1, 10, 1000), "paper": (5, 20, 2000)}
# Units per cell, repetitions in each, and rows.
LEAST = 20  # labels with fewer rows in the population are left out
EVERY = 4  # thresholds, which take longest, are chosen in every so many repetitions
CLOSE, LOW = 0.01, 0.92
ENOUGH = 100  # runs of a cell from which on its coverage says something
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
    """Return the test part of a data set, or of built-in data, with a model's probabilities."""
    split = split_of(folder, 1500)
    rows = slice(0, TRAINING_ROWS)
    recipe = linear.Recipe(loss="logistic", C=10.0 if folder else 1.0)
    model, _ = linear.train(split.train_features[rows], split.train_labels[rows], recipe)
    kept = np.flatnonzero(counts_of(split.test_labels) >= LEAST)
    used = np.flatnonzero(np.diff(split.test_labels.indptr))
    labels = sp.csr_array(split.test_labels[used][:, kept])
    chances = linear.probabilities(model, sp.csr_array(split.test_features[used]))
    scores = np.ascontiguousarray(chances[:, kept], dtype=np.float32)
    cut = float(thresholds.fit(scores, labels).values[0])
    return Population(labels, scores, sp.csr_array(split.train_labels[:, kept]), cut)


def units(size: str, seed: int, data: DataSets | None) -> list[Unit]:
    """Return some repetitions of one data set and mask per unit."""
    parts, repetitions, n = SIZES[size]
    return [
        {"folder": folder, "mask": mask, "n": n, "part": seed + part, "repetitions": repetitions}
        for folder in folders(data, size, FOLDERS) for mask in MASKS for part in range(parts)
    ]  # fmt: skip


def measure(folder: Path | None, mask: str, n: int, part: int, repetitions: int) -> Iterable[Row]:
    """Return a row per metric and estimator, and per way to choose thresholds.

    A linear model's probabilities for the test part of real data sets are the system, their labels
    the truth; labels with fewer than 20 test rows are left out. In every run half of the test rows,
    2,000 at most, are drawn, and their labels go missing with known propensities. Sets are what
    reaches the threshold that is best for the test part. Recall and F1 of rows are corrected by
    deconvolution, all else by unbiased sums. The truth is the metric of the same rows with complete
    labels, over the labels that the estimate counts; intervals, which also allow for other rows,
    are counted for numbers that may be used. Thresholds: chosen on one half of the rows, by F1 as
    observed, by corrected F1, and by F1 of complete labels, in every fourth run; what they reach is
    the true F1 of the other half.
    """
    population = population_of(folder)
    p = MASKS[mask](population.train_labels)
    rng = np.random.default_rng([part, n, list(MASKS).index(mask), 22])
    numbers: dict[tuple[str, str], list[tuple[Estimate, float]]] = {}
    reached: dict[tuple[str, str], list[float]] = {}
    size = population.labels.shape[0]
    for number in range(repetitions):
        drawn = rng.permutation(size)[: min(n, size // 2)]
        true, scores = sp.csr_array(population.labels[drawn]), population.scores[drawn]
        observed = data_sets.hide(true, p, seed=int(rng.integers(1 << 31)))
        sets = LabelSets.from_scores(scores, population.threshold)
        complete = _by_label(sets, scores, true)
        estimators = ("vanilla", "unbiased", "deconvolved")
        for each in (
            *evaluate(sets, observed, p, metrics=[*OF_SETS, *OF_ROWS], estimators=estimators),
            *evaluate(scores, observed, p, metrics=OF_SCORES),
        ):
            truth = _truth(complete[each.metric], each.metric, observed, sets)
            numbers.setdefault((each.metric, each.estimator), []).append((each, truth))
        for metric in OF_SETS if number % EVERY == 0 else ():
            half = scores.shape[0] // 2
            for choice in CHOICES:
                labels = sp.csr_array((true if choice == "clean" else observed)[:half])
                stated = p if choice == "unbiased" else None
                cut = thresholds.fit(scores[:half], labels, stated, metric=metric)
                found = evaluate(cut.apply(scores[half:]), sp.csr_array(true[half:]),
                                 metrics=[metric])  # fmt: skip
                reached.setdefault((metric, choice), []).append(found[metric, "vanilla"].value)
    for (metric, estimator), pairs in numbers.items():
        errors = np.array([each.value - truth for each, truth in pairs])
        used = [(each.interval, truth) for each, truth in pairs if each.verdict.usable]
        yield {
            "kind": "metric", "metric": metric, "estimator": estimator, "runs": len(pairs),
            "used": len(used), "holds": sum(low <= truth <= high for (low, high), truth in used),
            "widths": float(sum(high - low for (low, high), _ in used)),
            "errors": float(errors.sum()), "squares": float((errors**2).sum()),
            "truths": float(sum(truth for _, truth in pairs)),
        }  # fmt: skip
    for (metric, choice), values in reached.items():
        lost = np.array(reached[metric, "clean"]) - values
        yield {
            "kind": "threshold", "metric": metric, "estimator": choice, "runs": len(values),
            "reached": float(np.sum(values)), "regret": float(lost.sum()),
            "worst": float(lost.max()),
        }  # fmt: skip


def _by_label(sets: LabelSets, scores: Array, true: sp.csr_array) -> dict[str, Floats]:
    """Metrics of every label, complete; NaN where there is none. Of micro-F1 one number."""
    hits = np.asarray(sets.indicator.multiply(true).sum(axis=0), dtype=np.float64).ravel()
    both = np.sum([np.asarray(m.sum(axis=0)) for m in (sets.indicator, true)], axis=0, dtype=float)
    rows = AllRows((Scored(scores, true, np.ones(true.nnz)),))
    ranked = [rows.linearized(form, corrected=False).by_label for form in FORMS]
    of_rows = evaluate(sets, true, metrics=OF_ROWS, estimators=["vanilla"])
    return {
        "micro-F1": np.array([2 * hits.sum() / both.sum()]),
        "macro-F1": 2 * hits / np.where(both > 0, both, np.nan),
        **{each.metric: np.array([each.value]) for each in of_rows},
        **{name: np.asarray(values) for name, values in zip(OF_SCORES, ranked, strict=True)},
    }


def _truth(values: Floats, metric: str, observed: sp.csr_array, sets: LabelSets) -> float:
    """The mean over the labels that the estimate counts."""
    if values.size == 1:
        return float(values[0])
    counted = counts_of(observed) > 0
    if metric == "macro-F1":
        counted |= counts_of(sets.indicator) > 0
    return float(np.nanmean(values[counted]))


def _cells(rows: list[Row], kind: str, *means: str) -> list[dict[str, Row]]:
    """The cells of a data set, mask and metric by estimator: sums over units, means over runs."""
    groups: dict[tuple[str, ...], dict[str, Row]] = {}
    own = [row for row in rows if row["kind"] == kind]
    for key, part in group_rows(own, "folder", "mask", "metric", "estimator").items():
        runs = sum(row["runs"] for row in part)
        cell: Row = {**part[0], "data": key[0] or "planted", "runs": runs}
        cell |= {name: sum(row[name] for row in part) / runs for name in means}
        if kind == "metric":
            used, holds, widths = (sum(row[n] for row in part) for n in ("used", "holds", "widths"))
            cell |= {"used": used, "rmse": cell["squares"] ** 0.5,
                     "coverage": holds / used if used else None,
                     "width": widths / used if used else None}  # fmt: skip
        else:
            cell["worst"] = max(row["worst"] for row in part)
        groups.setdefault(key[:3], {})[key[3]] = cell
    return list(groups.values())


def corrected_pairs(rows: list[Row]) -> list[tuple[Row, Row]]:
    """Return cells as observed and corrected: deconvolved where there is that, else unbiased."""
    return [
        (by["vanilla"], by.get("deconvolved", by["unbiased"]))
        for by in _cells(rows, "metric", "truths", "errors", "squares")
    ]


def draw(rows: list[Row]) -> Drawn:
    """Return errors of metrics, what is promised, and what thresholds lose."""
    pairs = corrected_pairs(rows)
    chosen = _cells(rows, "threshold", "reached", "regret")
    corrected = [cell for _, cell in pairs]
    judged = [cell for cell in corrected if cell["used"] >= cell["runs"] / 2]
    short = [cell for cell in judged if cell["coverage"] < LOW]
    enough = min((cell["runs"] for cell in judged), default=0) >= ENOUGH
    smaller = sum(after["rmse"] < before["rmse"] for before, after in pairs)
    typical = [float(np.mean([pair[i]["rmse"] for pair in pairs])) for i in (0, 1)]
    regrets = [by["unbiased"]["regret"] for by in chosen]
    gains = [by["vanilla"]["regret"] - by["unbiased"]["regret"] for by in chosen]
    claims = [
        statement(
            "Corrected numbers are closer to the truth than those of observed labels",
            smaller == len(pairs),
            f"{smaller} of {len(pairs)} cells; typical error {typical[0]:.3f} as observed, "
            f"{typical[1]:.3f} corrected",
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
            "and never worse than thresholds chosen by F1 as observed", min(gains) >= 0,
            f"from {min(gains):+.3f} to {max(gains):+.3f} of true F1, {np.mean(gains):+.3f} on "
            "average",
        ),
    ]  # fmt: skip
    metrics = table(
        "Errors of metrics, as observed and corrected",
        {"data and masks": "", "metric": "", "truth": ".3f", "observed: error": "+.3f",
         "corrected: error": "+.3f", "RMSE": ".3f", "coverage": ".0%", "width": ".3f",
         "usable": ""},
        [[f"{v['data']}, {v['mask']}", v["metric"], v["truths"], v["errors"], u["errors"],
          u["rmse"], u["coverage"], u["width"], f"{u['used']} of {u['runs']}"] for v, u in pairs],
        "Mean error of observed and corrected numbers; of corrected ones the root mean square "
        "error, how often 95 % intervals hold the truth, and how wide they are.",
    )  # fmt: skip
    cuts = table(
        "True F1 of thresholds that were chosen on other rows",
        {"data and masks": "", "F1": "", "complete labels": ".3f", "as observed": ".3f",
         "corrected": ".3f", "lost": "+.3f", "lost at worst": "+.3f"},
        [[f"{u['data']}, {u['mask']}", u["metric"], by["clean"]["reached"],
          by["vanilla"]["reached"], u["reached"], u["regret"], u["worst"]]
         for by in chosen for u in [by["unbiased"]]],
        "By F1 of complete labels, of observed ones, and corrected; the last columns are what "
        "corrected choices lose against complete labels, on average and in the worst run.",
    )  # fmt: skip
    return Drawn([_picture(pairs)], claims, [metrics, cuts])


def _picture(pairs: list[tuple[Row, Row]]) -> pages.Panels:
    """The error of every metric as observed and corrected, mean over data sets; a panel a mask."""
    largest = max(cell["rmse"] for pair in pairs for cell in pair)
    y = pages.Axis("typical error", low=0.0, high=float(np.ceil(20 * largest) / 20))
    panels = []
    for mask in dict.fromkeys(before["mask"] for before, _ in pairs):
        points = {
            name: {
                metric: float(np.mean([cell["rmse"] for cell in part]))
                for (metric,), part in group_rows(
                    [pair[i] for pair in pairs if pair[i]["mask"] == mask], "metric").items()
            }
            for i, name in enumerate(("as observed", "corrected"))
        }  # fmt: skip
        styles = {"as observed": "vanilla", "corrected": "deconvolved"}
        panels.append(chart("dots", points, title=str(mask), y=y, styles=styles))
    return pages.Panels(
        panels, columns=3, title="How far off metrics are, as observed and corrected",
        caption="Root mean square errors over runs, mean over data sets; 0 is right.",
    )  # fmt: skip


def answer(rows: list[Row]) -> str:
    """Return root mean square errors over all runs, as observed and corrected."""
    errors = []
    for cells in zip(*corrected_pairs(rows), strict=True):
        squares = sum(cell["squares"] * cell["runs"] for cell in cells)
        errors.append(float(np.sqrt(squares / sum(cell["runs"] for cell in cells))))
    return (
        f"F1, average precision and AUC are off by {errors[0]:.3f} on observed labels and by "
        f"{errors[1]:.3f} corrected."
    )


SETS = Study(
    "sets", "F1, average precision and thresholds",
    "How far off are the metrics of sets and scores, and does correcting them help?",
    units, measure, draw, answer,
)  # fmt: skip
STUDIES = (SETS,)
