"""Does a number without judgements hold the truth? Where assumptions hold, and where they do not.

Three studies on rows that are drawn from real data (`data.Population`): intervals where labels go
missing as stated; levels in twenty-two ways of losing labels; mask models from an audit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from unmask import audit as audits
from unmask import data as data_sets
from unmask import pages, propensity
from unmask._typing import Floats
from unmask.diagnosis.diagnose import holm
from unmask.diagnosis.evidence import agreement, dependence, recording
from unmask.metrics import Estimate, Table, evaluate
from unmask.metrics.claims import Level, Standing
from unmask.propensity import MaskModel
from unmask.propensity.audit import AuditOptions
from unmask_studies.data import (
    best,
    counts_of,
    population_of,
    rows_of,
    scores_at,
    split_of,
)
from unmask_studies.drawing import chart, mean, share, table
from unmask_studies.recall import JESTER, jester_masks
from unmask_studies.scenarios import SCENARIOS, Setting, by_score, effort, parents_of
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

COMPLETE = "complete labels"
ESTIMATORS = ("vanilla", "unbiased", "deconvolved", "tempered")

# Intervals where assumptions hold

FOLDERS = ("debtags-bookworm", "delicious", "cooking-stackexchange")
METRICS = ("P@1", "R@1", "P@5", "R@5", "nDCG@5", "macro-P@5", "macro-R@5", "macro-F1@5")
STATED: dict[str, Callable[[sp.csr_array], Floats]] = {
    COMPLETE: lambda labels: np.ones(labels.shape[1]),
    "p by Jain's formula": lambda labels: np.asarray(propensity.jain(labels)),
    "p = 1/2 … 1/20": lambda labels: np.asarray(propensity.inverse_linear(labels, head=2, tail=20)),
}
COVERED = {
    "tiny": (1, 4, (150,)), "small": (2, 25, (200, 1000)), "paper": (4, 50, (200, 1000, 5000)),
}  # fmt: skip
# Units per cell, repetitions in each, and numbers of rows.
SHORT = (
    ("debtags-bookworm", "p by Jain's formula", 200),
    ("delicious", "p = 1/2 … 1/20", 200),
    ("delicious", "p by Jain's formula", 200),
    ("debtags-bookworm", "p by Jain's formula", 5000),
)
# Data sets, masks and numbers of rows with a cell that was short in the first repetitions, and
# the first number and the number of the units that measure them again at the size paper.
FRESH, FRESH_PARTS = 1000, 20
LOW, HIGH, UNSOLVED = 0.92, 0.98, 0.88
HARD = (("cooking-stackexchange", "R@1"), ("cooking-stackexchange", "macro-P@5"))
# Cells for which the lower bar UNSOLVED was set from the start.
ALARMS = 0.05
ENOUGH = 100  # runs of a cell from which on its coverage says something
USED = 0.5  # a cell is judged if so many of its numbers may be used


def coverage_units(size: str, seed: int, data: DataSets | None) -> list[Unit]:
    """Return some repetitions of one data set, mask and number of rows per unit."""
    parts, repetitions, sizes = COVERED[size]
    present = folders(data, size, FOLDERS)
    planned = [
        (folder, mask, n, seed + part)
        for folder in present for mask in STATED for n in sizes for part in range(parts)
    ]  # fmt: skip
    by_name = {folder.name: folder for folder in present if folder}
    planned += [
        (by_name[name], mask, n, FRESH + seed + part)
        for name, mask, n in SHORT for part in range(FRESH_PARTS)
        if size == "paper" and name in by_name
    ]  # fmt: skip
    return [
        {"folder": folder, "mask": mask, "n": n, "part": part, "repetitions": repetitions}
        for folder, mask, n, part in planned
    ]


def measure_coverage(
    folder: Path | None, mask: str, n: int, part: int, repetitions: int
) -> Iterable[Row]:
    """Return how many intervals hold the truth and how wide they are, by metric and estimator.

    Rows are drawn with replacement from the test part of real data sets, and evaluated with all
    their labels, or after labels went missing independently, with the propensities by which they
    did. An interval is counted where its number may be used: estimates that the verdict calls
    unusable claim nothing. `tempered` (by a τ that it chooses itself) promises nothing. `vanilla`
    is counted where labels are complete, and for macro recall, in which propensities cancel.

    Two constants of deconvolved intervals (the margin for unequal propensities and its growth at
    small k) were chosen on other draws from these data sets, so that no data set is new to them.
    A cell of 200 runs is known to ± 3 points. Where one was short, its data set, mask and number of
    rows are measured again with many more draws of their own, and all cells there are judged by
    these alone: the first ones were picked for being low.

    Where many labels of a population occur once, their metric is 0 or 1 and does not vary from
    sample to sample; intervals, which cannot know that, are then too wide and hold the truth too
    often. Cells that are short: a few rare rows make up the variance of the row-by-row estimate
    (R@1 on delicious: kurtosis 240), and a sample without them has too narrow an interval.
    """
    population = population_of(folder)
    p = STATED[mask](population.train_labels)
    rng = np.random.default_rng([part, n, list(STATED).index(mask), 2026])
    cells: dict[tuple[str, str], list[tuple[Estimate, float]]] = {}
    doubted = 0
    for _ in range(repetitions):
        drawn = rng.integers(population.labels.shape[0], size=n)
        top, labels = rows_of(population.top, drawn), sp.csr_array(population.labels[drawn])
        if mask == COMPLETE:
            estimates = evaluate(top, labels, metrics=METRICS)
        else:
            labels = data_sets.hide(labels, p, seed=int(rng.integers(1 << 31)))
            estimates = evaluate(top, labels, p, metrics=METRICS, estimators=ESTIMATORS)
        truth = population.truth(labels, top)
        doubted += bool(estimates.run and estimates.run.evidence)
        for each in estimates:
            if each.estimator != "vanilla" or mask == COMPLETE or each.metric == "macro-R@5":
                key = each.metric, each.estimator
                cells.setdefault(key, []).append((each, truth[each.metric]))
    for (metric, estimator), pairs in cells.items():
        yield {"metric": metric, "estimator": estimator, "doubted": doubted, **counted(pairs)}


def counted(pairs: list[tuple[Estimate, float]]) -> Row:
    """Return sums over numbers that may be used: of what the interval holds, widths, errors."""
    used = [(each.value - truth, truth, *each.interval) for each, truth in pairs
            if each.verdict.usable]  # fmt: skip
    return {
        "runs": len(pairs),
        "used": len(used),
        "holds": sum(low <= truth <= high for _, truth, low, high in used),
        "widths": sum(high - low for _, _, low, high in used),
        "errors": sum(error for error, *_ in used),
        "squares": sum(error**2 for error, *_ in used),
        "outside": sum(low < 0 or high > 1 for _, _, low, high in used),
        "flat": sum(low == high for _, _, low, high in used),
    }


def coverage_cells(rows: list[Row]) -> list[Row]:
    """Return all cells: of fresh draws alone where they were measured again."""
    names = ("folder", "mask", "n", "metric", "estimator")
    again = group_rows([row for row in rows if row["part"] >= FRESH], *names)
    first = group_rows([row for row in rows if row["part"] < FRESH], *names)
    cells = []
    for key, part in first.items():
        total = {name: sum(row[name] for row in again.get(key, part))
                 for name in ("runs", "used", "holds", "widths", "errors", "outside", "flat",
                              "doubted")}  # fmt: skip
        used = max(total["used"], 1)
        cell: Row = {**part[0], **total, "data": part[0]["folder"] or "planted"}
        at_first = [sum(row[name] for row in part) for name in ("holds", "used")]
        cells.append(cell | {
            "coverage": total["holds"] / used, "width": total["widths"] / used,
            "bias": total["errors"] / used,
            "first": at_first[0] / max(at_first[1], 1) if key in again else None,
            "bar": UNSOLVED if (cell["data"], cell["metric"]) in HARD else LOW,
            "usable": total["used"] >= USED * total["runs"],
            "judged": cell["estimator"] != "tempered" and total["used"] >= USED * total["runs"],
        })  # fmt: skip
    return cells


def draw_coverage(rows: list[Row]) -> Drawn:
    """Return a picture of the coverage by metric and estimator, the bars, and what is outside."""
    cells = coverage_cells(rows)
    judged = [cell for cell in cells if cell["judged"]]
    short = [c for c in judged if c["coverage"] < c["bar"]]
    over = [c for c in judged if c["coverage"] > HIGH]
    again = [c for c in judged if c["first"] is not None]
    at_first = [c for c in again if c["first"] < c["bar"]]
    still = [c for c in at_first if c["coverage"] < c["bar"]]
    enough = min((c["runs"] for c in judged), default=0) >= ENOUGH
    runs = {(c["data"], c["mask"], c["n"]): (c["doubted"], c["runs"])
            for c in cells if c["mask"] != COMPLETE}  # fmt: skip
    alarms, all_runs = (sum(each[i] for each in runs.values()) for i in (0, 1))
    highest = max((d / n for d, n in runs.values()), default=0.0)
    flat = sum(c["flat"] + c["outside"] for c in cells)
    claims = [
        statement(
            f"Intervals hold the truth in at least {LOW:.0%} of the runs ({UNSOLVED:.0%} for R@1 "
            "and macro precision on cooking)", not short if enough else None,
            f"{len(judged) - len(short)} of {len(judged)} cells; of those below, "
            f"{_beyond_chance(short, LOW)}; {len(again)} cells measured again, {len(at_first)} "
            f"short at first, {len(still)} still",
        ),
        statement(
            f"and in at most {HIGH:.0%}", not over if enough else None,
            f"{len(judged) - len(over)} of {len(judged)} cells; of those above, "
            f"{_beyond_chance(over, HIGH)}",
        ),
        statement(
            "No interval leaves the range of its metric or has no width", not flat,
            f"{flat} of {sum(c['used'] for c in cells):,}",
        ),
        statement(
            f"At most {ALARMS:.0%} of the runs doubt the right propensities",
            alarms <= ALARMS * all_runs,
            f"{alarms} of {all_runs:,} runs; at most {highest:.1%} of those of a data set, mask "
            "and number of rows",
        ),
    ]  # fmt: skip
    by = group_rows([c for c in cells if c["usable"]], "estimator", "metric")
    shares = {key: [c["coverage"] for c in part] for key, part in by.items()}
    points: dict[str, dict[str, Any]] = {}
    for (estimator, metric), values in shares.items():
        if estimator != "tempered":
            three = float(np.mean(values)), min(values), max(values)
            points.setdefault(estimator, {})[metric] = three
    figure = chart(
        "dots", points, title="How often 95 % intervals hold the truth", rules={"95 %": 0.95},
        y=pages.Axis("coverage", low=0.85, high=1.0),
        caption="Means over data sets, masks and numbers of rows; lines from the lowest cell to "
        "the highest.",
    )  # fmt: skip
    overview = table(
        "Coverage over data sets, masks and numbers of rows",
        {"estimate": "", "cells": "", "lowest": ".1%", "mean": ".1%", "highest": ".1%"},
        [[f"{metric} {name}", len(v), min(v), float(np.mean(v)), max(v)]
         for (name, metric), v in shares.items()],
        "Of cells of which at least half of the numbers may be used.",
    )  # fmt: skip
    outside = [c for c in judged if not c["bar"] <= c["coverage"] <= HIGH or c in at_first]
    listed = table(
        "Cells outside the bars, or short at first",
        {"data and masks": "", "rows": "", "estimate": "", "usable": "", "coverage": ".1%",
         "at first": ".1%", "width": ".3f", "bias": ".3f"},
        [[f"{c['data']}, {c['mask']}", f"{c['n']:,}", f"{c['metric']} {c['estimator']}", c["used"],
          c["coverage"], c["first"], c["width"], c["bias"]]
         for c in sorted(outside, key=lambda c: float(c["coverage"]))],
    )  # fmt: skip
    return Drawn([figure], claims, [overview, listed])


def _beyond_chance(cells: list[Row], bar: float) -> str:
    """Say how many cells are outside by more than two standard errors of a share."""
    far = [c for c in cells
           if abs(c["coverage"] - bar) > 2 * np.sqrt(bar * (1 - bar) / c["used"])]  # fmt: skip
    return f"{len(far)} by more than chance explains"


def answer_coverage(rows: list[Row]) -> str:
    """Return in how many cells intervals hold the truth as often as promised."""
    cells = [cell for cell in coverage_cells(rows) if cell["judged"]]
    reached = sum(cell["coverage"] >= cell["bar"] for cell in cells)
    return (
        f"In {reached} of {len(cells)} cases 95 % intervals hold the truth in at least {LOW:.0%} "
        f"of the runs ({UNSOLVED:.0%} for R@1 and macro precision on cooking), if the propensities "
        "are right."
    )


COVERAGE = Study(
    "coverage", "Do intervals hold the truth?",
    "How often does a 95 % interval hold the truth when its assumptions do?",
    coverage_units, measure_coverage, draw_coverage, answer_coverage,
)  # fmt: skip

# Levels, in every way of losing labels

TRUSTED = ("P@1", "P@5", "R@5", "nDCG@5", "macro-P@5", "macro-R@5", "macro-F1@5")
CORRECTED = ("unbiased", "deconvolved")  # vanilla and tempered are doubtful by design
CLAIMING = (Level.MEASURED.value, Level.CONDITIONAL.value, Level.WIDE.value)
# Levels whose interval is claimed to hold the truth, if the assumptions hold.
EVIDENT = ("p × 0.5 stated", "permuted", "labels compete in pairs", "at most 3 labels")
# Scenarios that a run itself can recognise.
TRUST = {"tiny": (1, (300,)), "small": (3, (1000,)), "paper": (12, (1000, 3000))}
MISSES = 0.08


def trust_units(size: str, seed: int, data: DataSets | None) -> list[Unit]:
    """Return one unit per data set, number of rows and repetition; all scenarios in each."""
    repetitions, sizes = TRUST[size]
    return [
        {"folder": folder, "n": n, "draw": seed + i}
        for folder in folders(data, size, FOLDERS[:2])
        for n in sizes
        for i in range(repetitions)
    ]


def measure_trust(folder: Path | None, n: int, draw: int) -> Iterable[Row]:
    """Return a row per scenario: what the run says, and all its cells.

    The labels of real data sets are taken for the truth, and a linear model's top five for the
    system that is evaluated. Rows are drawn from the test part at random, labels go missing in one
    of twenty-two ways, and the rows are evaluated with the propensities that somebody would state.
    Every cell (metric × estimator) has an error, a level, and an interval that holds the truth or
    does not. On files without empty rows the truth is that of rows that keep a label. `complete
    labels` evaluates the drawn rows with all their labels: such numbers are `measured`.

    Propensities that are too high, masks that depend on scores, spurious labels and the like cannot
    be recognised from labels alone: such numbers are conditional, and an audit decides. Labels that
    compete make counts of rows more equal than independent losses can; where rows differ much in
    their number of labels (delicious), some distribution of true counts explains that too.
    """
    population = population_of(folder)
    p = np.asarray(propensity.inverse_linear(population.train_labels, head=2, tail=8))
    parents = parents_of(population.train_labels)
    rng = np.random.default_rng(1000 * draw + n)
    drawn = rng.integers(population.labels.shape[0], size=n)
    top, labels = rows_of(population.top, drawn), sp.csr_array(population.labels[drawn])
    complete = evaluate(top, labels, metrics=TRUSTED)
    yield _trust_row(COMPLETE, complete, population.truth(labels, top))
    indices, starts = population.labels.indices, population.labels.indptr
    scores = sp.csr_array((population.scores, indices, starts), population.labels.shape)
    setting = Setting(labels, p, np.asarray(scores[drawn].data), parents, rng)
    for name, scenario in SCENARIOS.items():
        masked = scenario(setting)
        kept = rows_of(top, masked.rows)
        estimates = evaluate(
            kept, masked.observed, masked.stated, metrics=TRUSTED, estimators=ESTIMATORS
        )
        weights = None
        if name == "non-empty rows only":  # the chance of every row that it keeps a label
            weights = 1 - np.exp(np.add.reduceat(np.log1p(-p)[indices], starts[:-1]))
        yield _trust_row(name, estimates, population.truth(masked.observed, kept, weights))


def _trust_row(name: str, estimates: Table, truths: dict[str, float]) -> Row:
    """Facts of a run: its cells, its headline and what it holds against its assumptions."""
    run = estimates.run
    if run is None:
        raise ValueError("internal error: an evaluation without its run.")
    return {
        "scenario": name, "standing": run.standing.value,
        "evidence": [each.kind.value for each in run.evidence],
        "headline": estimates.headline,
        "names_condition": run.source.sentence in estimates.headline,
        "cells": [
            [each.metric, each.estimator, each.verdict.level.value, each.verdict.reason.value,
             *(six_digits(x) for x in (each.value, *each.interval, truths[each.metric]))]
            for each in estimates
        ],
    }  # fmt: skip


def six_digits(value: float) -> float | None:
    """Return a number with six digits; None if it is no number."""
    return float(f"{value:.6g}") if np.isfinite(value) else None


def trust_cells(row: Row) -> list[Row]:
    """Return the cells of a run, each with the run's scenario, data and size."""
    names = ("metric", "estimator", "level", "reason", "value", "low", "high", "truth")
    cells = []
    for values in row["cells"]:
        cell: Row = dict(zip(names, values, strict=True))
        bounded = None not in (cell["value"], cell["low"], cell["high"])
        cells.append(cell | {
            **{name: row[name] for name in ("n", "draw", "scenario")},
            "data": row["folder"] or "planted",
            "holds": bounded and cell["low"] <= cell["truth"] <= cell["high"],
            "error": None if cell["value"] is None else cell["value"] - cell["truth"],
            "claims": cell["level"] in CLAIMING, "corrected": cell["estimator"] in CORRECTED,
        })  # fmt: skip
    return cells


def draw_trust(rows: list[Row]) -> Drawn:
    """Return errors by scenario, the scorecard, and what is claimed of it."""
    cells = [cell for row in rows for cell in trust_cells(row)]
    heads = {"how labels go missing": "", "runs": "", "doubted": ".0%",
             **{level.value: ".0%" for level in Level},
             "coverage": ".0%", "claimed and wrong": ".0%"}  # fmt: skip
    lines = []
    for (name,), own in group_rows(rows, "scenario").items():
        judged = [
            c for c in cells if c["scenario"] == name and (c["corrected"] or name == COMPLETE)
        ]
        lines.append(
            [name, len(own), share(bool(row["evidence"]) for row in own),
             *(share(c["level"] == level.value for c in judged) for level in Level),
             share(c["holds"] for c in judged if c["claims"]),
             share(c["claims"] and not c["holds"] for c in judged)]
        )  # fmt: skip
    scorecard = table(
        "Levels and coverage of corrected numbers", heads, lines,
        "Of the cells by unbiased and deconvolved (complete labels: of all). Doubted: runs that "
        "hold evidence against their assumptions. Coverage: of the intervals of measured, "
        "conditional and wide numbers. Claimed and wrong: cells of these levels whose interval "
        "misses the truth, as a share of all cells.",
    )  # fmt: skip
    panels = [
        chart("dots", {
            f"{metric} {estimator}": {
                scenario: _middle_and_range([c["error"] for c in part])
                for (scenario,), part in group_rows(
                    [c for c in own if (c["metric"], c["estimator"]) == (metric, estimator)
                     and c["error"] is not None], "scenario").items()
            } for metric, estimator in (("P@5", "unbiased"), ("R@5", "deconvolved"))
        }, title=name, y=pages.Axis("error", low=-0.5, high=0.5), rules={"truth": 0.0})
        for (name,), own in group_rows(cells, "data").items()
    ]  # fmt: skip
    title = "Error by how labels go missing: mean, and 5 to 95 % of the runs"
    return Drawn(
        [pages.Panels(panels, columns=2, title=title)], trust_claims(rows, cells), [scorecard]
    )


def _middle_and_range(values: list[float]) -> tuple[float, float, float]:
    low, high = np.quantile(values, [0.05, 0.95])
    return float(np.mean(values)), float(low), float(high)


def trust_claims(rows: list[Row], cells: list[Row]) -> list[pages.Verdict]:
    """Return what is promised of runs and of all their cells, and whether it is kept."""
    measured = [c for c in cells if c["level"] == Level.MEASURED.value]
    missed = [c for c in measured if not c["holds"]]
    conditional = [row for row in rows if row["standing"] == Standing.NOT_REFUTED.value]
    named = [row for row in conditional if row["names_condition"]]
    truly = [row for row in rows if row["scenario"] == "right"]
    alarms = [row for row in truly if row["evidence"]]
    place = ("data", "n", "draw", "scenario", "metric")
    unbiased = {tuple(c[name] for name in place): c for c in cells if c["estimator"] == "unbiased"}
    chosen = [c for c in cells if c["estimator"] == "tempered" and c["value"] is not None]
    outside = [c for c in chosen if not 0 <= c["low"] <= c["value"] <= c["high"] <= 1]
    claiming = [c for c in chosen if c["claims"]]
    beside = [unbiased.get(tuple(c[name] for name in place), {}) for c in claiming]
    own = [c for c, other in zip(claiming, beside, strict=True)
           if any(c[name] != other.get(name) for name in ("value", "level"))]  # fmt: skip
    claims = [
        statement(
            f"A measured number misses the truth in at most {MISSES:.0%} of the cells",
            len(missed) <= MISSES * len(measured), f"{len(missed)} of {len(measured)}",
        ),
        statement(
            "Every conditional headline names its condition", len(named) == len(conditional),
            f"{len(named)} of {len(conditional)}",
        ),
    ]  # fmt: skip
    for name in EVIDENT:
        part = [c for c in cells if c["scenario"] == name and c["corrected"]]
        claimed = [c for c in part if c["claims"]]
        wrong = [c for c in claimed if not c["holds"]]
        doubted = [
            f"{folder or 'planted'} {sum(bool(row['evidence']) for row in of_data)} of "
            f"{len(of_data)}"
            for (folder,), of_data in group_rows(
                [row for row in rows if row["scenario"] == name], "folder").items()
        ]  # fmt: skip
        rest = f"; of {len(claimed)} that claim it" if claimed else ""
        claims.append(statement(
            f"{name}: at most {MISSES:.0%} of the corrected numbers are wrong and neither doubtful "
            "nor unusable", len(wrong) <= MISSES * len(part),
            f"{len(wrong)} of {len(part)}{rest}; runs doubted: {', '.join(doubted)}",
        ))  # fmt: skip
    return [
        *claims,
        statement(
            "Numbers by a τ chosen from the data, and their intervals, stay within their range",
            not outside, f"{len(outside)} of {len(chosen)} do not",
        ),
        statement(
            "They claim nothing of their own: only where τ = 1 was chosen, and then what the "
            "unbiased number claims", not own,
            f"{len(claiming)} of {len(chosen)} claim something, {len(own)} of them something else "
            "than the unbiased number",
        ),
        statement(
            f"With the right propensities at most {ALARMS:.0%} of the runs are doubted",
            len(alarms) <= ALARMS * len(truly), f"{len(alarms)} of {len(truly)}",
        ),
    ]  # fmt: skip


def answer_trust(rows: list[Row]) -> str:
    """Return how many measured numbers miss the truth."""
    held = [cell["holds"] for row in rows if row["scenario"] == COMPLETE
            for cell in trust_cells(row)]  # fmt: skip
    missed = 1 - float(np.mean(held))
    return f"Of numbers that were measured, {missed:.1%} miss the truth; 5 % are allowed to."


FALSE_TRUST = Study(
    "false-trust", "Are wrong numbers believed?",
    "In twenty-two ways of losing labels: which numbers are claimed though they are wrong?",
    trust_units, measure_trust, draw_trust, answer_trust,
)  # fmt: skip

# Mask models from an audit

AUDITED = (100, 300)
MASKED = {"tiny": 1, "small": 3, "paper": 8}
FURTHER = {"tiny": 0, "small": 0, "paper": 24}
# More repetitions of row effort and 300 audited rows alone, on the first data set: its rows have
# few labels, so that one audit says something else of row effort than the next.
CELLS = (("P@5", "unbiased"), ("nDCG@5", "deconvolved"), ("R@5", "deconvolved"))
OF_EFFORT = {"row effort 0.5": effort(0.5), "row effort 0.8": effort(0.8)}
MASKS = {
    "independent": SCENARIOS["right"],
    **OF_EFFORT,
    "20 % unannotated": SCENARIOS["20 % of rows never annotated"],
    "score slope 1": by_score(1.0),
    "10 % spurious": SCENARIOS["10 % spurious"],
}
FEW = ("score slope 1", "10 % spurious")  # at the size tiny
AS_IF = 0.75  # the row effort that audits of jester5k find, nearly
NATURAL, DRAWN = "natural", (f"natural rates, row effort {AS_IF}", "natural rates, independent")
MEANT = {
    "row effort 0.5": "row", "row effort 0.8": "row", "20 % unannotated": "unannotated",
    "score slope 1": "score", "10 % spurious": "spurious",
}  # fmt: skip
# The test that is made for each.
WAYS = ("stated", "audited", "modelled", "measured")
BARS = (("row effort 0.5", "R@5", 0.015), ("row effort 0.8", "R@5", 0.015),
        ("20 % unannotated", "R@5", 0.015), ("score slope 1", "P@5", 0.02),
        ("score slope 1", "nDCG@5", 0.02))  # fmt: skip
# Masks, metric, and the largest mean error with 300 audited rows.


def mask_units(size: str, seed: int, data: DataSets | None) -> list[Unit]:
    """Return one unit per data set and repetition, all masks in each; then row effort alone."""
    present = folders(data, size, (*FOLDERS[:2], JESTER))
    every: list[Unit] = [
        {"folder": folder, "draw": seed + i, "few": size == "tiny"}
        for folder in present for i in range(MASKED[size])
    ]  # fmt: skip
    return every + [
        {"folder": folder, "draw": seed + 1000 + i, "few": False, "only": "row effort"}
        for folder in present if folder is not None and folder.name == FOLDERS[0]
        for i in range(FURTHER[size])
    ]  # fmt: skip


def measure_masks(
    folder: Path | None, draw: int, few: bool, only: str | None = None
) -> Iterable[Row]:
    """Return a row per mask, size of the audit, metric and kind of number.

    Labels of real test rows are taken for the truth and hidden; marginal propensities are right.
    Then 100 or 300 rows are audited. `stated` numbers use the propensities themselves, `audited`
    those of the audit with independent masks, `modelled` the mask model of the audit: effort and
    unannotated rows, or a slope on the score where the diagnosis finds one. Audits also know the
    observed labels of all rows and the label counts of training. `measured` stands beside them. On
    jester5k masks are natural: which jokes users rated.

    Why jester5k stays off: 20 jokes are rated by nearly all users and 30 by every fourth, mostly by
    the same users. The error is that of the deconvolution, not of the audit: it is as large with
    masks drawn from the very model (the same rates, row effort 0.75), and small with masks that are
    drawn independently. A likely reason, not tested: a mask model has one propensity for the hits
    of a row and one for its misses, and lets effort act on these means, while effort that decides
    about the 30 leaves the 20 as they are. `measured` needs no model and is what to use there.
    """
    if folder is not None and folder.name == JESTER:
        yield from _jester(folder, draw)
        return
    population = population_of(folder)
    p = np.asarray(propensity.inverse_linear(population.train_labels, head=2, tail=8))
    parents = parents_of(population.train_labels)
    scores = scores_at(population.labels, population.top, population.scores)
    truths = {name: float(np.mean(values)) for name, values in population.by_row.items()}
    for name in FEW if few else OF_EFFORT if only else MASKS:
        rng = np.random.default_rng([draw, len(name)])
        setting = Setting(population.labels, p, population.scores, parents, rng)
        everything = MASKS[name](setting).observed
        for audited in AUDITED[:1] if few else AUDITED[-1:] if only else AUDITED:
            chosen = rng.choice(population.labels.shape[0], audited, replace=False)
            observed = sp.csr_array(everything[chosen])
            complete = sp.csr_array(population.labels[chosen])
            tests = holm(
                [
                    *agreement(observed, complete, p),
                    *dependence(observed, complete, rng, scores=scores[chosen]),
                    *recording(observed, complete),
                ]
            )
            kinds = {test.kind.value for test in tests if test.adjusted <= 0.05}
            options = _at_hand(everything, population.train_labels)
            if "score" in kinds:
                model = propensity.audit(
                    observed, complete, mask="score", scores=scores[chosen], **options
                )
            else:
                model = propensity.audit(observed, complete, mask="effort", **options)
            for way, stated in _ways(p, model).items():
                estimates = evaluate(
                    scores if way == "modelled" else population.top, everything, stated,
                    metrics=[name for name, _ in CELLS], estimators=CORRECTED,
                )  # fmt: skip
                for cell in CELLS:
                    each = estimates[cell]
                    yield {
                        "masks": name, "audited": audited, "metric": each.metric, "way": way,
                        "value": each.value, "truth": truths[each.metric],
                        "level": each.verdict.level.value, "found": sorted(kinds),
                        "model": _parts(model),
                    }  # fmt: skip


def _ways(p: Floats, model: MaskModel) -> dict[str, Any]:
    return {"stated": p, "audited": np.asarray(model.propensity), "modelled": model.centre}


def _at_hand(observed: sp.csr_array | None, train: sp.csr_array) -> AuditOptions:
    """Data at hand beside an audit: the labels of all rows, and those of training."""
    options: AuditOptions = {"counts": counts_of(train), "n": train.shape[0], "curve": "free"}
    return options if observed is None else {**options, "all_rows": observed}


def _parts(model: MaskModel) -> dict[str, float]:
    slope = 0.0 if model.score_slope is None else model.score_slope.slope
    return {"row_effort": model.row_effort, "unannotated": model.unannotated, "slope": slope}


def _jester(folder: Path, draw: int) -> Iterable[Row]:
    """R@5 from 200 audited users, the labels hidden as users left jokes unrated."""
    split = split_of(folder)
    rates, natural = jester_masks(folder, split, draw)
    rates = np.minimum(rates, 1.0)
    hidden = {NATURAL: natural}
    if draw % 2 == 0:
        alike = MaskModel(rates, row_effort=AS_IF)
        for name, mask in zip(DRAWN, (alike, rates), strict=True):
            hidden[name] = data_sets.hide(split.test_labels, mask, seed=draw)
    top = best(split, split.train_labels, 5)
    truth = evaluate(top, split.test_labels, metrics=["R@5"])["R@5", "vanilla"].value
    for masks, observed in hidden.items():
        plan = audits.plan(top, observed, budget=200, seed=draw)
        judged = audits.from_rows(plan, split.test_labels[plan.rows])
        options = _at_hand(None, split.train_labels)
        model = propensity.audit(observed, judged, mask="effort", **options)
        values = {
            way: evaluate(top, observed, p, metrics=["R@5"], estimators=["deconvolved"])
            for way, p in _ways(rates, model).items()
        } | {"measured": evaluate(top, observed, metrics=["R@5"], audit=judged)}  # fmt: skip
        for way, estimates in values.items():
            name = "measured" if way == "measured" else "deconvolved"
            yield {
                "masks": masks, "audited": 200, "metric": "R@5", "way": way,
                "value": estimates["R@5", name].value, "truth": truth, "level": "", "found": [],
                "model": _parts(model),
            }  # fmt: skip


def _matching(rows: list[Row], **fields: object) -> list[Row]:
    return [row for row in rows if all(row[name] == value for name, value in fields.items())]


def _errors(rows: list[Row]) -> Floats:
    """Return the errors of the numbers that were not refused."""
    errors = np.array([r["value"] - r["truth"] for r in rows if r["value"] is not None], float)
    return np.asarray(errors[np.isfinite(errors)])


def draw_masks(rows: list[Row]) -> Drawn:
    """Return the typical error of R@5 under every mask, all mean errors, and the bars."""
    recall = [row for row in _matching(rows, metric="R@5") if row["audited"] >= 200]
    points = {
        way: {name: float(np.abs(errors).mean())
              for (name,), part in group_rows(recall, "masks").items()
              if (errors := _errors(_matching(part, way=way))).size}
        for way in WAYS
    }  # fmt: skip
    figures = [chart("dots", points, title="Mean |error| of R@5 with a large audit",
                     y=pages.Axis("|error|", low=0.0))] if recall else []  # fmt: skip
    lines = []
    for key, part in group_rows(rows, "folder", "masks", "audited", "metric").items():
        folder, masks, audited, metric = key
        by_way = [_errors(_matching(part, way=way)) for way in WAYS]
        raised = share(MEANT[masks] in row["found"] for row in part) if masks in MEANT else None
        lines.append([f"{folder or 'planted'}, {masks}, {audited} rows, {metric}",
                      part[0]["truth"], *(float(e.mean()) if e.size else None for e in by_way),
                      raised])  # fmt: skip
    heads = {"data, masks, audit, metric": "", "truth": ".3f",
             **{f"error, {way}": ".3f" for way in WAYS}, "finding raised": ".0%"}  # fmt: skip
    title = "Mean error of P@5 (unbiased), nDCG@5 and R@5 (deconvolved)"
    return Drawn(figures, _mask_claims(rows), [table(title, heads, lines)])


def _mask_claims(rows: list[Row]) -> list[pages.Verdict]:
    claims = []
    for masks, metric, bar in BARS:
        own = _matching(rows, masks=masks, metric=metric, way="modelled", audited=300)
        errors = {
            folder or "planted": found for (folder,), part in group_rows(own, "folder").items()
            if (found := _errors(part)).size
        }  # fmt: skip
        said = ", ".join(
            f"{name} {e.mean():+.3f}"
            + (f" ± {e.std(ddof=1) / np.sqrt(e.size):.3f}" if e.size > 1 else "")
            for name, e in errors.items()
        )
        holds = max(abs(e.mean()) for e in errors.values()) <= bar if errors else None
        claims.append(statement(f"{masks}, {metric}: |error| ≤ {bar}", holds, said))
    slope = _matching(rows, masks="score slope 1", metric="P@5", way="stated", audited=100)
    power = share("score" in row["found"] for row in slope) or 0.0
    spurious = [row for row in _matching(rows, masks="10 % spurious", way="modelled")
                if row["level"] in CLAIMING[1:] and "spurious" not in row["found"]]  # fmt: skip
    own = _matching(rows, masks="independent", metric="R@5", audited=300)
    two = [float(np.sqrt(np.mean(_errors(_matching(own, way=way)) ** 2))) if own else 1.0
           for way in ("modelled", "audited")]  # fmt: skip
    claims += [
        statement("score slope 1 is found with 100 rows in ≥ 80 %", power >= 0.8, f"{power:.0%}"),
        statement(
            "10 % spurious: nothing conditional without the finding", not spurious,
            f"{len(spurious)}",
        ),
        statement(
            "independent masks: RMSE of R@5 at most 5 % larger than with independence assumed",
            two[0] / two[1] <= 1.05, f"{two[0] / two[1]:.2f} times",
        ),
    ]  # fmt: skip
    if natural := _matching(rows, masks=NATURAL):
        relative = _relative(natural)
        drawn = "".join(f"; {masks}: modelled {_relative(part)['modelled']:.1%}"
                        for masks in DRAWN if (part := _matching(rows, masks=masks)))  # fmt: skip
        said = ", ".join(f"{way} {value:.1%}" for way, value in relative.items())
        claims.append(statement("jester5k: relative error of R@5 ≤ 8 %",
                                relative["modelled"] <= 0.08, said + drawn))  # fmt: skip
    return claims


def _relative(rows: list[Row]) -> dict[str, float]:
    """The mean |error| of every way, relative to the truth."""
    errors = {way: _errors(_matching(rows, way=way)) for way in WAYS}
    return {way: float(np.abs(e).mean()) / rows[0]["truth"] for way, e in errors.items()}


def answer_masks(rows: list[Row]) -> str:
    """Return the error of R@5 under much row effort, with and without a mask model."""
    own = [{**row, "error": abs(row["value"] - row["truth"])}
           for row in _matching(rows, metric="R@5", masks="row effort 0.8", audited=300)
           if row["value"] is not None]  # fmt: skip
    errors = {
        way: share(mean(part, "error") or 0.0 for part in group_rows(of_way, "folder").values())
        for (way,), of_way in group_rows(own, "way").items()
    }  # of data sets alike, which have more or fewer repetitions
    if not {"stated", "modelled"} <= errors.keys():
        return ""
    return (
        "Where rows differ much in effort, R@5 is off by "
        f"{errors['stated']:.3f} with the right propensities alone, and by "
        f"{errors['modelled']:.3f} with a mask model from 300 judged rows."
    )


MASK_MODELS = Study(
    "masks", "Masks as they are",
    "What does an audit make of uneven effort, unannotated rows and wrong labels?",
    mask_units, measure_masks, draw_masks, answer_masks,
)  # fmt: skip
STUDIES = (COVERAGE, FALSE_TRUST, MASK_MODELS)
