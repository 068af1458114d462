"""Estimates against the truth on real data: hide known labels, estimate, compare.

A model is trained on hidden labels; its top five on the test rows are scored on hidden test labels
by every estimator, and on the labels as published. Jester has natural gaps: the pattern of which
jokes a user rated is taken from one user and laid over the complete ratings of another, so that
masks within a row depend on each other as they do in life.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from unmask import data, propensity, report
from unmask.experiments import models
from unmask.experiments.runs import Row, Study, Unit, statement, tidy
from unmask.metrics import evaluate

METRICS = ("R@1", "R@3", "R@5", "nDCG@5", "F1@5")
ESTIMATORS = ("vanilla", "unbiased", "bound", "deconvolved", "tempered")
SEVERITIES = ("jain", "constant:0.3", "inverse_linear:2,20")
FOLDERS = ("debtags-bookworm", "delicious", "cooking-stackexchange")
SEEDS = {"tiny": 1, "small": 2, "paper": 5}


def units(size: str, seed: int, data: Path | None) -> list[Unit]:
    """One unit per data set, severity and seed."""
    seeds = range(seed, seed + SEEDS[size])
    present = [] if data is None or size == "tiny" else [data / name for name in FOLDERS]
    folders = [str(folder) for folder in present if folder.is_dir()] or [""]
    hidden = [
        {"folder": folder, "masks": severity, "draw": s}
        for folder in folders
        for severity in SEVERITIES
        for s in seeds
    ]
    jester = data / "jester5k" if data is not None and size != "tiny" else None
    if jester is None or not jester.is_dir():
        return hidden
    return hidden + [{"folder": str(jester), "masks": "natural", "draw": s} for s in seeds]


def measure(folder: str, masks: str, draw: int) -> Iterable[Row]:
    """Value, interval and truth of every metric and estimator."""
    rows = models.planted(2000, draw) if not folder else models.split_of(Path(folder))
    if masks == "natural":
        p, seen_train, seen_test = _natural(Path(folder), rows, draw)
    else:
        p = propensity.named(masks, rows.train_labels)
        seen_train = data.hide(rows.train_labels, p, seed=2 * draw)
        seen_test = data.hide(rows.test_labels, p, seed=2 * draw + 1)
    top = models.best(rows, seen_train, 5)
    true = evaluate(top, rows.test_labels, metrics=METRICS)
    for e in evaluate(top, seen_test, p, metrics=METRICS, estimators=ESTIMATORS):
        yield {
            "data": Path(folder).name or "planted",
            "metric": e.metric,
            "estimator": e.estimator,
            "value": e.value,
            "low": e.interval[0],
            "high": e.interval[1],
            "truth": true[e.metric, "vanilla"].value,
            "verdict": e.verdict,
        }


def _natural(folder: Path, rows: models.Split, seed: int) -> tuple[Any, Any, Any]:
    """Observation rates, and the labels of train (as they are) and test (under others' gaps)."""
    rated: Any = data.read(folder / "train_rated.txt.gz", names=False).labels
    rates = np.maximum(rated.sum(axis=0) / rated.shape[0], 1e-3)
    patterns = np.random.default_rng(seed).integers(rated.shape[0], size=rows.test_labels.shape[0])
    seen = sp.csr_array(rows.test_labels.multiply(rated[patterns]))
    return np.asarray(rates, dtype=np.float64), rows.train_labels, seen


def draw(rows: list[Row]) -> list[report.Section]:
    """Dots of the error per data set and masks, a table of bias, RMSE and coverage, statements."""
    summary = [_summary(key, part) for key, part in
               tidy(rows, "data", "masks", "metric", "estimator").items()]  # fmt: skip
    panels = [
        _dots(f"{name}, {masks}", part)
        for (name, masks), part in tidy(summary, "data", "masks").items()
    ]
    return [
        report.Section(
            "Estimates against the truth",
            [
                report.Panels(panels, columns=3, title="Error of R@5: mean and range over masks"),
                _table(summary),
                report.Verdicts(_statements(summary)),
            ],
        )
    ]


def _summary(key: tuple[Any, ...], part: list[Row]) -> Row:
    error = np.array([np.nan if r["value"] is None else r["value"] - r["truth"] for r in part])
    inside = [r["low"] is not None and r["low"] <= r["truth"] <= r["high"] for r in part]
    names = dict(zip(("data", "masks", "metric", "estimator"), key, strict=True))
    return names | {
        "truth": float(np.mean([r["truth"] for r in part])),
        "bias": float(error.mean()),
        "low": float(error.min()),
        "high": float(error.max()),
        "rmse": float(np.sqrt((error**2).mean())),
        "coverage": float(np.mean(inside)),
    }


def _dots(title: str, rows: list[Row]) -> report.Chart:
    at_five = [row for row in rows if row["metric"] == "R@5"]
    return report.Chart(
        "dots",
        [
            report.Series(
                r["estimator"],
                [r["estimator"]],
                [r["bias"] if abs(r["bias"]) < 1 else None],
                [r["low"] if abs(r["bias"]) < 1 else None],
                [r["high"] if abs(r["bias"]) < 1 else None],
            )
            for r in at_five
        ],
        title=title,
        y="error",
        rules=[report.Rule("truth", 0.0)],
    )


def _table(summary: list[Row]) -> report.Table:
    names, numbers = ("data", "masks", "metric", "estimator"), ("truth", "bias", "rmse", "coverage")
    return report.Table(
        [*names, *(report.Column(name, ".3f") for name in numbers)],
        [[row[key] for key in (*names, *numbers)] for row in summary],
        title="Bias, root mean square error, coverage of 95 % intervals",
    )


def _statements(summary: list[Row]) -> list[report.Verdict]:
    """For which data and masks the deconvolved recall is usable, and whether it is the best."""
    recall = [row for row in summary if row["metric"] == "R@5"]
    claims = []
    for (name, masks), part in tidy(recall, "data", "masks").items():
        rmse = {row["estimator"]: row["rmse"] for row in part}
        best = min(rmse, key=lambda e: rmse[e])
        shown = ", ".join(f"{e} {value:.3g}" for e, value in rmse.items())
        claims.append(
            statement(
                f"{name}, {masks}: deconvolved R@5 is closest to the truth", best == "deconvolved",
                f"RMSE: {shown}",
            )
        )  # fmt: skip
    return claims


STUDY = Study("recall-truth", "estimates against known truth on real data", units, measure, draw)
