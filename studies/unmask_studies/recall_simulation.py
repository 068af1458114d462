"""Recall on simulated labels whose truth is known (the paper's figure of the simulation).

*Independent*: 100 labels, each true with probability 10 %, one true label predicted per row, every
label seen with the same propensity p. *Mixed* (ours): rows differ in how many labels they have, 1/p
runs over the labels from 2 to a largest value, and five labels are predicted, about half of them
right. Every repetition draws truth, predictions and masks anew; an estimate is compared with the
recall on the true labels of its own repetition.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import scipy.sparse as sp

from unmask import data, propensity, report
from unmask._typing import Floats
from unmask.metrics import evaluate
from unmask.predictions import TopK
from unmask_studies.runs import STYLES, Row, Study, Unit, group_rows, statement

ESTIMATORS = (
    "vanilla", "unbiased", "bound", "deconvolved", "tempered", "clipped", "self_normalized",
)  # fmt: skip
OF_THE_PAPER = ("vanilla", "unbiased", "bound")
SIZES = {"tiny": (400, 2, 3), "small": (10_000, 10, 10), "paper": (10_000, 100, 19)}
"""Rows, repetitions, and propensities between 0.1 and 1."""
CLIP = 4.0
"""The largest 1/p that the clipped estimate uses."""
LARGEST = (3.0, 5.0, 10.0, 20.0)
"""1/p of the rarest label, in the mixed scenario."""


def units(size: str, seed: int, data: object) -> list[Unit]:
    """One unit per scenario and severity."""
    n, repetitions, steps = SIZES[size]
    shared = {"n": n, "repetitions": repetitions, "first_seed": 1000 * seed}
    grid = np.linspace(0.1, 1, steps).round(4).tolist()
    return [{"scenario": "independent", "severity": p, **shared} for p in grid] + [
        {"scenario": "mixed", "severity": largest, **shared} for largest in LARGEST
    ]


def measure(
    scenario: str, severity: float, n: int, repetitions: int, first_seed: int
) -> Iterable[Row]:
    """Bias, spread and coverage of every estimator over the repetitions."""
    metrics = ["R@1"] if scenario == "independent" else ["R@1", "R@3", "R@5"]
    by_metric: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    for seed in range(first_seed, first_seed + repetitions):
        truth, top, p = SCENARIOS[scenario](n, severity, seed)
        true_values = evaluate(top, truth, metrics=metrics)
        observed = data.hide(truth, p, seed=seed)
        for e in evaluate(top, observed, p, metrics=metrics, estimators=ESTIMATORS, clip=CLIP):
            right = true_values[e.metric, "vanilla"].value
            by_metric.setdefault((e.metric, e.estimator), []).append((e.value, right, *e.interval))
    for (metric, estimator), repeated in by_metric.items():
        yield {"metric": metric, "estimator": estimator, **_summary(np.array(repeated))}


def _summary(repeated: Floats) -> Row:
    value, truth, low, high = repeated.T
    error = value - truth
    return {
        "truth": truth.mean(),
        "mean": value.mean(),
        "deviation": value.std(ddof=1),
        "bias": error.mean(),
        "rmse": float(np.sqrt((error**2).mean())),
        "coverage": float(((low <= truth) & (truth <= high)).mean()),
    }


def _independent(n: int, p: float, seed: int) -> tuple[sp.csr_array, TopK, Floats]:
    truth = data.synthetic.independent(n, seed=seed)
    top = _predict(truth, 1, odds=1e30, rng=np.random.default_rng([seed, 1]))
    return truth, top, propensity.constant(truth.shape[1], p)


def _mixed(n: int, largest: float, seed: int) -> tuple[sp.csr_array, TopK, Floats]:
    rng = np.random.default_rng([seed, 2])
    eagerness = rng.gamma(2.0, 0.05, size=(n, 1))  # 10 labels per row on average, unevenly
    truth = sp.csr_array((rng.random((n, 100)) < eagerness).astype(np.float32))
    top = _predict(truth, 5, odds=9.0, rng=np.random.default_rng([seed, 1]))
    return truth, top, 1 / np.linspace(2.0, largest, 100)


def _predict(truth: sp.csr_array, k: int, *, odds: float, rng: np.random.Generator) -> TopK:
    """k different labels per row, drawn one after the other; a true label counts `odds` times."""
    liking = rng.gumbel(size=truth.shape) + np.log(odds) * truth.toarray()
    return TopK.from_scores(liking, k)


SCENARIOS = {"independent": _independent, "mixed": _mixed}


def draw(rows: list[Row]) -> list[report.Section]:
    """Estimates with bands and their errors, and what the paper says of them."""
    simple = [row for row in rows if row["scenario"] == "independent"]
    mixed = [row for row in rows if row["scenario"] == "mixed"]
    return [
        report.Section(
            "Independent labels, one propensity",
            [
                report.Panels(
                    [
                        _values(simple, OF_THE_PAPER, "R@1: the paper's estimates"),
                        _values(simple, ESTIMATORS[3:], "R@1: further estimates"),
                        _errors(simple, "propensity"),
                    ],
                    columns=3,
                    caption="Left and middle: mean and one standard deviation.",
                ),
                _table(simple),
                report.Verdicts(_statements(simple)),
            ],
        ),
        report.Section(
            "Uneven rows, propensities from 1/2 down",
            [
                report.Panels(
                    [_errors(part, "1/p of the rarest label", f"{metric}: RMSE")
                     for (metric,), part in group_rows(mixed, "metric").items()],
                    columns=3,
                ),
                _table(mixed),
            ],
        ),
    ]  # fmt: skip


def _values(rows: list[Row], names: tuple[str, ...], title: str) -> report.Chart:
    series = [
        report.Series(
            name,
            [r["severity"] for r in part],
            [r["mean"] for r in part],
            [r["mean"] - r["deviation"] for r in part],
            [r["mean"] + r["deviation"] for r in part],
            style=STYLES.get(name),
        )
        for (name,), part in group_rows(rows, "estimator").items()
        if name in names
    ]
    truth = group_rows(rows, "estimator")[("vanilla",)]
    series.append(
        report.Series(
            "truth",
            [r["severity"] for r in truth],
            [r["truth"] for r in truth],
            style=STYLES["truth"],
        )
    )
    return report.Chart(
        "lines",
        series,
        title=title,
        x="propensity",
        y=report.Axis("R@1", low=0, high=0.5),
    )


def _errors(rows: list[Row], x: str, title: str = "R@1: root mean square error") -> report.Chart:
    series = [
        report.Series(
            name,
            [r["severity"] for r in part],
            [_visible(r["rmse"]) for r in part],
            style=STYLES.get(name),
        )
        for (name,), part in group_rows(rows, "estimator").items()
    ]
    return report.Chart("lines", series, title=title, x=x, y=report.Axis("RMSE", log=True))


def _visible(error: float) -> float | None:
    """The error, unless it is rounding: where nothing is missing every estimate is the truth."""
    return error if error > 1e-12 else None


def _table(rows: list[Row]) -> report.Table:
    estimators = [name for (name,) in group_rows(rows, "estimator")]
    return report.Table(
        ["metric and severity", *(report.Column(name, ".4f") for name in estimators)],
        [
            [f"{metric}, {severity:g}", *(row["rmse"] for row in part)]
            for (metric, severity), part in group_rows(rows, "metric", "severity").items()
        ],
        title="Root mean square error",
    )


def _statements(rows: list[Row]) -> list[report.Verdict]:
    by = {(row["estimator"], row["severity"]): row for row in rows}
    grid = sorted({row["severity"] for row in rows})
    low = [p for p in grid if p < 0.4]
    medium = [p for p in grid if 0.4 <= p < 0.9]

    def rmse(name: str, p: float) -> float:
        return float(by[name, p]["rmse"])

    ratios = [rmse("deconvolved", p) / min(rmse(e, p) for e in OF_THE_PAPER) for p in low]
    return [
        statement(
            "Below p = 0.4 the unbiased estimate varies more than it is worth",
            all(by["unbiased", p]["deviation"] > by["unbiased", p]["truth"] for p in low[:-1]),
            "; ".join(f"p = {p:g}: sd {by['unbiased', p]['deviation']:.3g}" for p in low),
        ),
        statement(
            "There the bound is unsuitable: it deviates from the truth more than vanilla does",
            all(abs(by["bound", p]["bias"]) > abs(by["vanilla", p]["bias"]) for p in low),
            "; ".join(
                f"p = {p:g}: {by['bound', p]['bias']:+.3f} against {by['vanilla', p]['bias']:+.3f}"
                for p in low
            ),
        ),
        statement(
            "There vanilla is the closest of the paper's three",
            all(rmse("vanilla", p) == min(rmse(e, p) for e in OF_THE_PAPER) for p in low),
            "; ".join(f"p = {p:g}: RMSE {rmse('vanilla', p):.4f}" for p in low),
        ),
        statement(
            "At medium propensity unbiased is better than vanilla",
            any(rmse("unbiased", p) < rmse("vanilla", p) for p in medium),
            "; ".join(
                f"p = {p:g}: {rmse('unbiased', p):.4f} against {rmse('vanilla', p):.4f}"
                for p in medium
            ),
        ),
        statement(
            "Ours: below p = 0.4 the deconvolved estimate has at most half the error of the best "
            "of those three",
            max(ratios) <= 0.5,
            "; ".join(f"p = {p:g}: ratio {r:.2f}" for p, r in zip(low, ratios, strict=True)),
        ),
    ]


STUDY = Study(
    "recall-simulation", "recall on simulated labels with known truth", units, measure, draw
)
