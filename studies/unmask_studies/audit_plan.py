"""Is a planned audit better than a blind one of the same cost?

Labels of planted rows are hidden by propensities that scatter around a Jain curve. Starting from
the usual constants, `propensity.audit_plan` chooses rows to annotate by a model's predictions; as a
baseline, rows are drawn blindly until they cost as much. Both audits give propensities, and those a
metric. What counts is the part of the metric's standard error that is due to the propensities
(blind over planned: above 1 the plan wins), its error against complete labels, and whether the
interval holds the truth. A row costs the same whatever it holds, or grows with its labels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import scipy.sparse as sp

from unmask import data, propensity, report
from unmask._typing import Floats, Ints
from unmask.metrics import evaluate
from unmask.predictions import TopK
from unmask_studies.propensity_recovery import counts_of, on_curve, scattered
from unmask_studies.runs import Row, Study, Unit, group_rows, statement

TARGETS = {"P@5": ("precision", "unbiased"), "R@5": ("recall", "deconvolved")}
CASES: dict[str, tuple[str, float, float, float]] = {
    "P@5, 50 rows": ("P@5", 50, 0.0, 2.2),
    "P@5, 150 rows": ("P@5", 150, 0.0, 2.2),
    "P@5, 400 rows": ("P@5", 400, 0.0, 2.2),
    "R@5, 150 rows": ("R@5", 150, 0.0, 2.2),
    "P@5, 150 rows, weak model": ("P@5", 150, 0.0, 1.2),
    "P@5, a label costs as much as a row": ("P@5", 600, 1.0, 2.2),
    "P@5, labels cost, rows hardly": ("P@5", 5000, 10.0, 2.2),
}
"""Metric, budget, cost of a label when a row costs 1, strength of the model."""
SIZES = {"tiny": (1, 600, 50), "small": (4, 4000, 200), "paper": (6, 4000, 200)}
"""Repetitions, rows, labels."""
DRAWS = 30
WORTH_IT = 1.2


def units(size: str, seed: int, data: object) -> list[Unit]:
    """One unit per case."""
    repetitions, rows, labels = SIZES[size]
    shared = {"repetitions": repetitions, "n": rows, "n_labels": labels, "first_seed": 1000 * seed}
    return [{"case": case, **shared} for case in list(CASES)[: 1 if size == "tiny" else None]]


def measure(case: str, repetitions: int, n: int, n_labels: int, first_seed: int) -> Iterable[Row]:
    """One row per repetition and audit."""
    metric, budget, label_cost, strength = CASES[case]
    for seed in range(first_seed, first_seed + repetitions):
        true_labels: sp.csr_array = data.synthetic.planted(n, n_labels=n_labels, seed=seed).labels
        p = scattered(on_curve(counts_of(true_labels), n, 0.9, 6.0), 0.5, seed)
        observed = data.hide(true_labels, p, seed=seed)
        rng = np.random.default_rng(seed)
        scores = rng.standard_normal(true_labels.shape) + strength * true_labels.toarray()
        top = TopK.from_scores(scores.astype(np.float32), 20)
        counts = counts_of(observed)
        plan = propensity.audit_plan(
            top, observed, propensity.jain_curve(counts, n), k=5, metric=TARGETS[metric][0],
            budget=budget, label_cost=label_cost,
        )  # fmt: skip
        cost = 1 + label_cost * np.diff(true_labels.indptr)
        rows = {"planned": plan.rows, "blind": _equal_cost(cost, plan.rows, rng)}
        exact = evaluate(top, true_labels, metrics=[metric])[metric, "vanilla"].value
        for name, chosen in rows.items():
            yield {
                "repetition": seed,
                "audit": name,
                "rows_audited": len(chosen),
                "labels_audited": int(np.diff(true_labels.indptr)[chosen].sum()),
                "cost": float(cost[chosen].sum()),
                "promised": plan.uniform / plan.after,
                **_outcome(top, observed, true_labels, chosen, counts, metric, exact),
            }


def _equal_cost(cost: Floats, rows: Ints, rng: np.random.Generator) -> Ints:
    """Blind rows that together cost as much as the given ones (or a row less)."""
    order = rng.permutation(cost.size)
    return np.asarray(order[np.cumsum(cost[order]) <= cost[rows].sum()])


def _outcome(
    top: TopK,
    observed: sp.csr_array,
    true_labels: sp.csr_array,
    rows: Ints,
    counts: Ints,
    metric: str,
    exact: float,
) -> Row:
    n = observed.shape[0]
    estimate = propensity.audit(observed[rows], true_labels[rows], curve="free", counts=counts, n=n)
    cell = metric, TARGETS[metric][1]
    result = evaluate(
        top, observed, estimate, metrics=[metric], estimators=[cell[1]], draws=DRAWS
    )[cell]  # fmt: skip
    low, high = result.interval
    return {
        "error": result.value - exact,
        "doubt": result.standard_error * math.sqrt(result.details.get("propensity_share", 0.0)),
        "inside": low <= exact <= high,
    }


def draw(rows: list[Row]) -> list[report.Section]:
    """Gains by case, and the statement."""
    cases = {case: _gains(part) for (case,), part in group_rows(rows, "case").items()}
    chart = report.Chart(
        "dots",
        [
            report.Series(name, list(cases), [each[name] for each in cases.values()])
            for name in ("gain in standard error", "promised by the plan")
        ],
        title="Blind over planned, for the same cost",
        y=report.Axis("ratio", low=0),
        rules=[report.Rule("no gain", 1.0)],
    )
    names = list(next(iter(cases.values())))
    heads: list[report.Column | str] = ["case", *(report.Column(name, ".2f") for name in names)]
    body = [[case, *gains.values()] for case, gains in cases.items()]
    by_row = {case: each for case, each in cases.items() if CASES[case][2] == 0}
    claims = [
        statement(
            f"Where a row costs the same whatever it holds, the plan gains more than {WORTH_IT}",
            all(each["gain in standard error"] > WORTH_IT for each in by_row.values()),
            ", ".join(f"{c}: {e['gain in standard error']:.2f}" for c, e in by_row.items()),
        )
    ]
    return [
        report.Section(
            "A planned audit against a blind one",
            [
                report.Text(str(__doc__).partition("\n\n")[2]),
                chart,
                report.Table(heads, body, title="Means over repetitions"),
                report.Verdicts(claims),
            ],
        )
    ]


def _gains(rows: list[Row]) -> dict[str, float]:
    planned, blind = ([r for r in rows if r["audit"] == name] for name in ("planned", "blind"))

    def ratio(name: str) -> float:
        """Geometric mean, since single repetitions differ by factors."""
        pairs = zip(planned, blind, strict=True)
        return float(np.exp(np.mean([np.log(b[name] / max(a[name], 1e-12)) for a, b in pairs])))

    def rms(part: list[Row]) -> float:
        return float(np.sqrt(np.mean([r["error"] ** 2 for r in part])))

    return {
        "gain in standard error": ratio("doubt"),
        "promised by the plan": float(np.mean([r["promised"] for r in planned])),
        "gain in error": rms(blind) / max(rms(planned), 1e-12),
        "labels, planned over blind": 1 / ratio("labels_audited"),
        "rows, planned over blind": 1 / ratio("rows_audited"),
        "coverage, planned": float(np.mean([r["inside"] for r in planned])),
        "coverage, blind": float(np.mean([r["inside"] for r in blind])),
    }


STUDY = Study("audit-plan", "a planned audit against a blind one", units, measure, draw)
