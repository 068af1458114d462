"""Estimates against the truth on real data: hide known labels, estimate, compare.

A model is trained on hidden labels; its top five on the test rows are scored on hidden test labels
by every estimator, and on the labels as published. Jester has natural gaps: the pattern of which
jokes a user rated is taken from one user and laid over the complete ratings of another, so that
masks within a row depend on each other as they do in life. The same rates with masks drawn
independently (`rates`) tell what that dependence costs.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from unmask import data, propensity, report
from unmask._typing import Floats
from unmask.metrics import evaluate
from unmask_studies import models
from unmask_studies.runs import STYLES, DataSets, Row, Study, Unit, group_rows, statement

METRICS = ("R@1", "R@3", "R@5", "nDCG@5", "F1@5")
ESTIMATORS = ("vanilla", "unbiased", "bound", "deconvolved", "tempered")
SEVERITIES = ("jain", "constant:0.3", "inverse_linear:2,20")
FOLDERS = ("debtags-bookworm", "delicious", "cooking-stackexchange")
JESTER = "jester5k"
SEEDS = {"tiny": 1, "small": 2, "paper": 5}
USABLE = 0.1
"""An estimate is of use if its typical error is at most this share of the value."""


def units(size: str, seed: int, data: DataSets | None) -> list[Unit]:
    """One unit per data set, severity and seed."""
    seeds = range(seed, seed + SEEDS[size])
    real = data if data and size != "tiny" else DataSets(None, frozenset())
    present: list[Path | None] = [real.path(name) for name in FOLDERS if name in real.names]
    plans = [(folder, masks) for folder in present or [None] for masks in SEVERITIES]
    if JESTER in real.names:
        plans += [(real.path(JESTER), "natural"), (real.path(JESTER), "rates")]
    return [{"folder": folder, "masks": masks, "draw": s} for folder, masks in plans for s in seeds]


def measure(folder: Path | None, masks: str, draw: int) -> Iterable[Row]:
    """Value, interval and truth of every metric and estimator."""
    rows = models.split_of(folder) if folder else models.planted(2000, draw)
    if folder is not None and folder.name == JESTER:
        p, seen_train, seen_test = _jester(folder, rows, masks, draw)
    else:
        p = np.asarray(propensity.from_spec(masks, rows.train_labels))
        seen_train = data.hide(rows.train_labels, p, seed=2 * draw)
        seen_test = data.hide(rows.test_labels, p, seed=2 * draw + 1)
    top = models.best(rows, seen_train, 5)
    true_values = evaluate(top, rows.test_labels, metrics=METRICS)
    dispersion = _dispersion(rows.test_labels, seen_test, p)
    for e in evaluate(top, seen_test, p, metrics=METRICS, estimators=ESTIMATORS):
        yield {
            "data": folder.name if folder else "planted",
            "kept": seen_test.nnz / rows.test_labels.nnz,
            "dispersion": dispersion,
            "metric": e.metric,
            "estimator": e.estimator,
            "value": e.value,
            "low": e.interval[0],
            "high": e.interval[1],
            "truth": true_values[e.metric, "vanilla"].value,
            "level": e.verdict.level.value,
            "verdict": e.verdict.sentence,
        }


def _dispersion(true_labels: sp.csr_array, observed: sp.csr_array, p: Floats) -> float:
    """How much more the seen labels of a row vary than under independent masks, where it is 1."""
    expected, variance = true_labels @ p, true_labels @ (p * (1 - p))
    surprise = (observed.sum(axis=1) - expected) ** 2
    return float(surprise.sum() / variance.sum())


def _jester(
    folder: Path, rows: models.Split, masks: str, seed: int
) -> tuple[Floats, sp.csr_array, sp.csr_array]:
    """Observation rates, and the labels of train (as they are) and test (hidden)."""
    rated: sp.csr_array = data.read(folder / "train_rated.txt.gz", names=False).labels
    rates = np.maximum(np.asarray(rated.sum(axis=0) / rated.shape[0], dtype=np.float64), 1e-3)
    if masks == "rates":
        return rates, rows.train_labels, data.hide(rows.test_labels, rates, seed=seed)
    users = np.random.default_rng(seed).integers(rated.shape[0], size=rows.test_labels.shape[0])
    return rates, rows.train_labels, sp.csr_array(rows.test_labels.multiply(rated[users]))


def draw(rows: list[Row]) -> list[report.Section]:
    """Errors as dots, what can be used where, the errors of all metrics, what jester teaches."""
    groups = group_rows(rows, "data", "masks", "metric", "estimator")
    summary = [_summary(part) for part in groups.values()]
    panels = [
        _dots(f"{name.split('-')[0]}, {masks}", part)
        for (name, masks), part in group_rows(_of_metric(summary, "R@5"), "data", "masks").items()
    ]
    return [
        report.Section(
            "Estimates against the truth",
            [
                report.Panels(
                    panels,
                    columns=3,
                    title="Error of R@5 relative to its value: mean and range over masks",
                    caption="Arrows: beyond the axis.",
                ),
                _use(_of_metric(summary, "R@5")),
                _errors(summary, "rmse", ".3f", "Root mean square error"),
                _errors(summary, "coverage", ".0%", "How often the 95 % interval covers the truth"),
                report.Verdicts([*_closest(summary), *_dependence(summary)]),
            ],
        )
    ]


def _of_metric(summary: list[Row], metric: str) -> list[Row]:
    return [row for row in summary if row["metric"] == metric]


def _summary(part: list[Row]) -> Row:
    error = np.array([np.nan if r["value"] is None else r["value"] - r["truth"] for r in part])
    inside = [r["low"] is not None and r["low"] <= r["truth"] <= r["high"] for r in part]
    return {name: part[0][name] for name in ("data", "masks", "metric", "estimator")} | {
        "kept": float(np.mean([r["kept"] for r in part])),
        "dispersion": float(np.mean([r["dispersion"] for r in part])),
        "truth": float(np.mean([r["truth"] for r in part])),
        "bias": float(error.mean()),
        "low": float(error.min()),
        "high": float(error.max()),
        "rmse": float(np.sqrt((error**2).mean())),
        "coverage": float(np.mean(inside)),
    }


def _dots(title: str, rows: list[Row]) -> report.Chart:
    return report.Chart(
        "dots",
        [
            report.Series(
                r["estimator"],
                [r["estimator"]],
                *([r[name] / r["truth"]] for name in ("bias", "low", "high")),
                style=STYLES.get(r["estimator"]),
            )
            for r in rows
        ],
        title=title,
        y=report.Axis("relative error", low=-0.6, high=0.6),
        rules=[report.Rule("truth", 0.0, style=STYLES["truth"])],
    )


def _use(recall: list[Row]) -> report.Table:
    """Which estimates of R@5 are of use, before (the paper's unbiased one) and now."""
    body: list[list[report.Cell]] = []
    for (name, masks), part in group_rows(recall, "data", "masks").items():
        by = {row["estimator"]: row for row in part}
        share = {e: row["rmse"] / row["truth"] for e, row in by.items()}
        body.append(
            [f"{name}, {masks}", *(by["vanilla"][key] for key in ("kept", "dispersion", "truth")),
             *(share[e] for e in ESTIMATORS), _judged(share)]
        )  # fmt: skip
    shares = (report.Column(e, ".1%") for e in ESTIMATORS)
    return report.Table(
        ["data, masks", report.Column("kept", ".0%"), report.Column("dispersion", ".1f"),
         report.Column("R@5", ".3f"), *shares, "of use"],
        body,
        title="Error of R@5 relative to its value",
        caption="Kept: share of the labels that is seen. Dispersion: variance of the seen labels "
        "per row, relative to independent masks (1 if masks are independent, more if a row is seen "
        f"rather as a whole). Of use: an error of at most {USABLE:.0%}.",
    )  # fmt: skip


def _judged(share: dict[str, float]) -> report.Verdict:
    usable = [name for name, error in share.items() if error <= USABLE]
    if "unbiased" in usable:
        return report.Verdict("info", "already with the unbiased estimate")
    if "deconvolved" in usable:
        return report.Verdict("good", "now: deconvolved")
    return report.Verdict("warning", f"only {', '.join(usable)}" if usable else "still none")


def _errors(summary: list[Row], column: str, format: str, title: str) -> report.Table:
    return report.Table(
        ["data, masks, metric", *(report.Column(name, format) for name in ESTIMATORS)],
        [
            [", ".join(key), *(row[column] for row in part)]
            for key, part in group_rows(summary, "data", "masks", "metric").items()
        ],
        title=title,
    )


def _closest(summary: list[Row]) -> list[report.Verdict]:
    """For which data and masks the deconvolved recall is the best of all."""
    claims = []
    for (name, masks), part in group_rows(_of_metric(summary, "R@5"), "data", "masks").items():
        rmse = {row["estimator"]: row["rmse"] for row in part}
        best = min(rmse, key=lambda e: rmse[e])
        values_text = ", ".join(f"{e} {value:.3g}" for e, value in rmse.items())
        claims.append(
            statement(
                f"{name}, {masks}: deconvolved R@5 is closest to the truth", best == "deconvolved",
                f"RMSE: {values_text}",
            )
        )  # fmt: skip
    return claims


def _dependence(summary: list[Row]) -> list[report.Verdict]:
    """What natural masks cost beyond their rates: only where a data set was run with both."""
    by = {
        (row["masks"], row["estimator"], row["metric"]): row
        for row in summary
        if row["masks"] in ("natural", "rates")
    }
    return [
        _biased_by_dependence(
            metric, estimator, by["natural", estimator, metric], by["rates", estimator, metric]
        )
        for metric in ("R@5", "nDCG@5")
        for estimator in ("unbiased", "deconvolved")
        if ("natural", estimator, metric) in by
    ]


def _biased_by_dependence(
    metric: str, estimator: str, natural: Row, independent: Row
) -> report.Verdict:
    return statement(
        f"Where independence fails: natural masks spoil {metric} ({estimator}), at the same rates, "
        "to more than twice the error",
        natural["rmse"] > 2 * independent["rmse"],
        f"RMSE {natural['rmse']:.3g} against {independent['rmse']:.3g}; dispersion "
        f"{natural['dispersion']:.1f} against {independent['dispersion']:.1f}",
    )


STUDY = Study("recall-truth", "estimates against known truth on real data", units, measure, draw)
