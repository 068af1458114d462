"""Do audits of pairs cover near 0 and 1, and are numbers called measured right as often as others?

Rows have five predictions each. Of these a share is relevant that is near 0, one half or near 1,
and so is recall, by what is relevant outside the lists. Nothing is observed, so that predictions
are one stratum, or nearly a third of the labels, with scores that say how likely they are: then
there are many. Pairs are planned, drawn and judged by the public calls. What counts: how often the
95 % interval holds the truth, intervals without width, and, where some of the audits of a cell are
called measured and others are not, how often those that are miss the truth. `nDCG@5` is measured
in two phases, as it is no sum over pairs; whole rows are audited beside.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from unmask import audit, evaluate, report
from unmask._typing import Floats
from unmask.metrics import contributions
from unmask.metrics.verdict import Level
from unmask.predictions import TopK
from unmask_studies.runs import DataSets, Row, Study, Unit, statement

METRICS = ("P@1", "P@5", "micro-R@5", "nDCG@5")
LEVELS = {"low": (0.02, 0.1), "middle": (0.5, 0.17), "high": (0.98, 0.003)}
"""Which shares of the pairs among the first five, and of the others, are relevant."""
PAIRS = (30, 60, 100, 300)
ROWS = (16, 30, 60, 150)
MEANS = (0.03, 0.08, 0.5, 0.97)
N, WIDTH, K = 1000, 20, 5
OBSERVED = 0.3
COVERAGE, MISSED = 0.92, 0.06
SELECTED = 0.03, 0.6
"""Cells of which such a share of the audits is called measured show what selection does."""
AUDITS = {"tiny": 4, "small": 40, "paper": 200}


def units(size: str, seed: int, _: DataSets | None) -> list[Unit]:
    """One unit per metric, level, size and kind of strata; then one per audit of rows."""
    tiny = size == "tiny"
    shared = {"seed": seed, "audits": AUDITS[size]}
    of_pairs: list[Unit] = [
        {"metric": metric, "level": level, "judged": pairs, "strata": strata, **shared}
        for metric in METRICS
        for level in LEVELS
        for pairs in (PAIRS[1:2] if tiny else PAIRS)
        for strata in ("one", "several")
    ]
    of_rows: list[Unit] = [
        {"metric": "P@1", "level": f"{mean:g}", "judged": rows, "strata": "rows", **shared}
        for mean in MEANS
        for rows in (ROWS[:1] if tiny else ROWS)
    ]
    return [*of_pairs, *of_rows]


def population(hit: float, miss: float, graded: bool, seed: int) -> tuple[TopK, Floats, Floats]:
    """Predictions, true labels and observed ones."""
    rng = np.random.default_rng(seed)
    order = np.argsort(rng.random((N, WIDTH)), axis=1)
    likely = np.full((N, WIDTH), miss)
    spread = rng.uniform(-1, 1, (N, K)) if graded else np.zeros((N, K))
    chance = hit + spread * 0.9 * min(hit, 1 - hit)
    np.put_along_axis(likely, order[:, :K], chance, axis=1)
    true = (rng.random((N, WIDTH)) < likely).astype(np.float64)
    top = TopK.sorted(order[:, :K], chance)
    kept = rng.random(true.shape) < OBSERVED if graded else np.zeros(true.shape)
    return top, true, np.asarray(true * kept, dtype=np.float64)


def rare_rows(mean: float, seed: int) -> tuple[TopK, Floats, Floats]:
    """One prediction per row, and labels of which nearly a third is observed."""
    rng = np.random.default_rng(seed)
    top = TopK.sorted(np.zeros((N, 1), dtype=np.int64), rng.random((N, 1)))
    true = np.c_[rng.random(N) < mean, rng.random(N) < 0.5].astype(np.float64)
    return top, true, true * (rng.random(true.shape) < OBSERVED)


def measure_unit(
    metric: str, level: str, judged: int, strata: str, seed: int, audits: int
) -> Iterable[Row]:
    """Audits of one cell: coverage, widths, and what is called measured."""
    of_rows = strata == "rows"
    if of_rows:
        top, true, observed = rare_rows(float(level), seed)
    else:
        top, true, observed = population(*LEVELS[level], strata == "several", seed)
    truth = exact(top, true, metric)
    found = np.array(
        [one_audit(top, observed, true, metric, judged, of_rows, draw) for draw in range(audits)]
    )
    value, low, high, measured = found.T
    held = (low <= truth) & (truth <= high)
    share = float(measured.mean())
    return [
        {
            "metric": metric, "level": level, "judged": judged, "strata": strata, "truth": truth,
            "audits": audits, "mean": float(value.mean()), "coverage": float(held.mean()),
            "width": float((high - low).mean()), "no_width": int((high <= low).sum()),
            "outside": int(((value < low) | (value > high) | (low < 0) | (high > 1)).sum()),
            "measured": share, "missed": int((~held & (measured > 0)).sum()),
        }
    ]  # fmt: skip


def exact(top: TopK, true: Floats, metric: str) -> float:
    """The metric by the complete labels."""
    if metric == f"micro-R@{K}":
        hits = contributions(top, true, metrics=[f"P@{K}"])[f"P@{K}", "vanilla"]
        return float(K * hits.sum() / true.sum())
    return float(contributions(top, true, metrics=[metric])[metric, "vanilla"].mean())


def one_audit(
    top: TopK, labels: Floats, true: Floats, metric: str, judged: int, of_rows: bool, draw: int
) -> tuple[float, float, float, bool]:
    """Value, ends and whether it is called measured; nan, 0 and 1 where there is no number."""
    if of_rows:
        plan = audit.plan(top, labels, budget=judged, metrics=[metric], seed=draw, expect=False)
        answers = audit.from_rows(plan, true[plan.rows])
    else:
        plan = audit.plan(
            top, labels, budget=judged, unit="pairs", metrics=[metric], seed=draw, expect=False,
            head=K,
        )  # fmt: skip
        answers = audit.from_pairs(plan, true[plan.rows, plan.labels])
    each = evaluate(top, labels, metrics=[metric], audit=answers)[metric, "measured"]
    if each.verdict.level == Level.UNUSABLE:
        return 0.5, 0.0, 1.0, False
    return each.value, *each.interval, each.verdict.level == Level.MEASURED


def draw(rows: list[Row]) -> list[report.Section]:
    """One table of all cells, and what must hold."""
    body: list[list[report.Cell]] = [
        [f"{row['metric']}, {row['strata']}", row["judged"], row["truth"], row["mean"],
         row["coverage"], row["width"], row["no_width"], row["measured"], row["missed"]]
        for row in rows
    ]  # fmt: skip
    table = report.Table(
        ["metric, strata", "judged", report.Column("truth", ".3f"), report.Column("mean", ".3f"),
         report.Column("coverage", ".1%"), report.Column("width", ".3f"), "no width",
         report.Column("measured", ".0%"), "of them miss"],
        body,
        title="Audits of pairs, of rows in two phases, and of whole rows",
    )  # fmt: skip
    return [report.Section("Audits near 0 and 1", [table, report.Verdicts(claims(rows))])]


def claims(rows: list[Row]) -> list[report.Verdict]:
    """Coverage in every cell, and of those that are called measured where only some are."""
    least = min(rows, key=lambda row: row["coverage"])
    low, high = SELECTED
    some = [row for row in rows if low <= row["measured"] <= high]
    called = sum(round(row["measured"] * row["audits"]) for row in some)
    missed = sum(row["missed"] for row in some)
    broken = sum(row["no_width"] + row["outside"] for row in rows)
    return [
        statement(
            f"Intervals hold the truth in at least {COVERAGE:.0%} of the audits of every cell",
            least["coverage"] >= COVERAGE,
            f"least {least['coverage']:.1%}: {least['metric']} of {least['truth']:.3f}, "
            f"{least['judged']} judged, {least['strata']}",
        ),
        statement(
            "No interval is without width, and no number lies outside its range",
            broken == 0,
            f"{broken} of {sum(row['audits'] for row in rows):,}",
        ),
        statement(
            f"Where {low:.0%} to {high:.0%} of the audits of a cell are called measured, at most "
            f"{MISSED:.0%} of those miss the truth",
            missed <= MISSED * called,
            f"{missed} of {called} in {len(some)} cells",
        ),
    ]


STUDY = Study(
    "pair-coverage", "audits of pairs and of few rows near 0 and 1", units, measure_unit, draw
)
