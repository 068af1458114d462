"""Do audits cover near 0 and 1, where few judged pairs or rows all have the same answer?"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from unmask import audit, pages
from unmask._typing import Floats
from unmask.arrays import TopK
from unmask.metrics import contributions, evaluate
from unmask.metrics.claims import Level
from unmask_studies.drawing import chart, table
from unmask_studies.study import DataSets, Drawn, Row, Study, Unit, statement

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
    """Return a unit per metric, level, size and kind of strata; then one per audit of rows."""
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
    """Draw predictions, true labels and observed ones."""
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
    """Draw one prediction per row, and labels of which nearly a third is observed."""
    rng = np.random.default_rng(seed)
    top = TopK.sorted(np.zeros((N, 1), dtype=np.int64), rng.random((N, 1)))
    true = np.c_[rng.random(N) < mean, rng.random(N) < 0.5].astype(np.float64)
    return top, true, true * (rng.random(true.shape) < OBSERVED)


def measure_unit(
    metric: str, level: str, judged: int, strata: str, seed: int, audits: int
) -> Iterable[Row]:
    """Audit one cell many times: coverage, widths, and what is called measured.

    Rows have five predictions each. Of these a share is relevant that is near 0, one half or near
    1, and so is recall, by what is relevant outside the lists. Nothing is observed, so that
    predictions are one stratum, or nearly a third of the labels, with scores that say how likely
    they are: then there are many. Pairs are planned, drawn and judged by the public calls. `nDCG@5`
    is measured in two phases, as it is no sum over pairs; whole rows are audited beside.

    What counts: how often the 95 % interval holds the truth, intervals without width, and, where
    some of the audits of a cell are called measured and others are not, how often those that are
    miss the truth.
    """
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
    """Return the metric by the complete labels."""
    if metric == f"micro-R@{K}":
        hits = contributions(top, true, metrics=[f"P@{K}"])[f"P@{K}", "vanilla"]
        return float(K * hits.sum() / true.sum())
    return float(contributions(top, true, metrics=[metric])[metric, "vanilla"].mean())


def one_audit(
    top: TopK, labels: Floats, true: Floats, metric: str, judged: int, of_rows: bool, draw: int
) -> tuple[float, float, float, bool]:
    """Return value, ends, and whether it is called measured; 0 and 1 where there is no number."""
    if of_rows:
        plan = audit.plan(top, labels, budget=judged, metrics=[metric], seed=draw, expect=False)
        answers = audit.from_rows(plan, true[plan.rows])
    else:
        head = K if metric.startswith("nDCG") else None  # no sum over pairs: two phases
        plan = audit.plan(
            top, labels, budget=judged, unit="pairs", metrics=[metric], seed=draw, expect=False,
            head=head,
        )  # fmt: skip
        answers = audit.from_pairs(plan, true[plan.rows, plan.labels])
    each = evaluate(top, labels, metrics=[metric], audit=answers)[metric, "measured"]
    if each.verdict.level == Level.UNUSABLE:
        return 0.5, 0.0, 1.0, False
    return each.value, *each.interval, each.verdict.level == Level.MEASURED


def picture(rows: list[Row]) -> Drawn:
    """Draw coverage by how many were judged, and list all cells."""
    points: dict[str, dict[str, float]] = {}
    for row in rows:
        series = points.setdefault(f"{row['metric']}, {row['strata']}", {})
        series[f"{row['truth']:.2f}, {row['judged']}"] = row["coverage"]
    drawn = chart(
        "dots", points, title="Coverage by truth and number of judgements",
        y=pages.Axis("coverage of 95 % intervals"), rules={"nominal": 0.95, "bar": COVERAGE},
    )  # fmt: skip
    heads = {
        "metric, strata": "", "judged": "", "truth": ".3f", "mean": ".3f", "coverage": ".1%",
        "width": ".3f", "no width": "", "measured": ".0%", "of them miss": "",
    }  # fmt: skip
    cells = table(
        "Audits of pairs, of rows in two phases, and of whole rows",
        heads,
        (
            [f"{row['metric']}, {row['strata']}", row["judged"], row["truth"], row["mean"],
             row["coverage"], row["width"], row["no_width"], row["measured"], row["missed"]]
            for row in rows
        ),
    )  # fmt: skip
    return Drawn([drawn], claims(rows), [cells])


def answer(rows: list[Row]) -> str:
    """Return the least coverage of all cells."""
    least, judged = min(row["coverage"] for row in rows), [row["judged"] for row in rows]
    return (
        f"Intervals of {min(judged)} to {max(judged)} judgements hold the truth in at least "
        f"{least:.0%} of the audits in each of {len(rows)} cells, near 0 and 1 as well."
    )


def claims(rows: list[Row]) -> list[pages.Verdict]:
    """Judge coverage in every cell, and those that are called measured where only some are."""
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
    "pair-coverage",
    "Audits near 0 and 1",
    "Do audits of few pairs or rows cover where nearly all answers are alike?",
    units,
    measure_unit,
    picture,
    answer,
)
