"""Are numbers believed that are wrong? A scorecard over twenty-two ways of losing labels.

The labels of real data sets are taken for the truth, and a linear model's top five for the system
that is evaluated. Rows are drawn from the test part at random (`populations`), labels go missing in
one of the ways of `mask_scenarios`, and the rows are evaluated with the propensities that somebody
would state.

Every cell (metric × estimator) has an error, a level, and an interval that holds the truth or does
not. On files without empty rows the truth is that of rows that keep a label. `complete labels`
evaluates the drawn rows with all their labels: such numbers are `measured`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from unmask import propensity, report
from unmask._typing import Floats, Ints
from unmask.metrics import Table, evaluate
from unmask.metrics.run import Standing
from unmask.metrics.verdict import Level
from unmask_studies.mask_scenarios import SCENARIOS, Setting, parents_of
from unmask_studies.populations import Population, population_of, rows_of
from unmask_studies.runs import STYLES, DataSets, Row, Study, Unit, group_rows, statement

FOLDERS = ("debtags-bookworm", "delicious")
METRICS = ("P@1", "P@5", "R@5", "nDCG@5", "macro-P@5", "macro-R@5", "macro-F1@5")
ESTIMATORS = ("vanilla", "unbiased", "deconvolved", "tempered")
CORRECTED = ("unbiased", "deconvolved")
"""Estimators that aim at the truth; vanilla and tempered are doubtful by design."""
CLAIMING = (Level.MEASURED.value, Level.CONDITIONAL.value, Level.WIDE.value)
"""Levels whose interval is claimed to hold the truth, if the assumptions hold."""
COMPLETE = "complete labels"
EVIDENT = ("p × 0.5 stated", "permuted", "labels compete in pairs", "at most 3 labels")
"""Scenarios that a run itself can recognise."""
SIZES = {"tiny": (1, (300,)), "small": (3, (1000,)), "paper": (12, (1000, 3000))}
"""Repetitions, and numbers of rows."""
MISSES, ALARMS = 0.08, 0.05


def units(size: str, seed: int, data: DataSets | None) -> list[Unit]:
    """One unit per data set, number of rows and repetition; all scenarios in each."""
    repetitions, sizes = SIZES[size]
    real = data if data and size != "tiny" else DataSets(None, frozenset())
    folders: list[Path | None] = [real.path(name) for name in FOLDERS if name in real.names]
    return [
        {"folder": folder, "n": n, "draw": seed + i}
        for folder in folders or [None]
        for n in sizes
        for i in range(repetitions)
    ]


def measure(folder: Path | None, n: int, draw: int) -> Iterable[Row]:
    """One row per scenario: what the run says, and all its cells."""
    population = population_of(folder)
    p = np.asarray(propensity.inverse_linear(population.train_labels, head=2, tail=8))
    parents = parents_of(population.train_labels)
    rng = np.random.default_rng(1000 * draw + n)
    drawn = rng.integers(population.labels.shape[0], size=n)
    top, labels = rows_of(population.top, drawn), sp.csr_array(population.labels[drawn])
    complete = evaluate(top, labels, metrics=METRICS)
    yield _row(COMPLETE, complete, population.truth(labels, top))
    setting = Setting(labels, p, _entry_values(population, drawn), parents, rng)
    for name, scenario in SCENARIOS.items():
        masked = scenario(setting)
        kept = rows_of(top, masked.rows)
        table = evaluate(
            kept, masked.observed, masked.stated, metrics=METRICS, estimators=ESTIMATORS
        )
        weights = _kept_share(population, p) if name == "non-empty rows only" else None
        yield _row(name, table, population.truth(masked.observed, kept, weights))


def _entry_values(population: Population, drawn: Ints) -> Floats:
    """The scores of the true labels of the drawn rows, in the order of their entries."""
    labels = population.labels
    scores = sp.csr_array((population.scores, labels.indices, labels.indptr), labels.shape)
    return np.asarray(scores[drawn].data)


def _kept_share(population: Population, p: Floats) -> Floats:
    """The chance of every row that it keeps a label."""
    lost = np.log1p(-p)[population.labels.indices]
    share: Floats = 1 - np.exp(np.add.reduceat(lost, population.labels.indptr[:-1]))
    return share


def _row(name: str, table: Table, true_values: dict[str, float]) -> Row:
    """What a run says: its cells, its headline and what it holds against its assumptions."""
    run = table.run
    if run is None:
        raise ValueError("internal error: an evaluation without its run.")
    return {
        "scenario": name,
        "standing": run.standing.value,
        "evidence": [each.kind.value for each in run.evidence],
        "headline": table.headline,
        "names_condition": run.source.sentence in table.headline,
        "cells": [
            [each.metric, each.estimator, each.verdict.level.value, each.verdict.reason.value,
             *(_short(x) for x in (each.value, *each.interval, true_values[each.metric]))]
            for each in table
        ],
    }  # fmt: skip


def _short(value: float) -> float | None:
    """Six digits; None if it is no number."""
    return float(f"{value:.6g}") if np.isfinite(value) else None


def draw(rows: list[Row]) -> list[report.Section]:
    """The scorecard, where the numbers go wrong, and what is claimed of them."""
    cells = [cell for row in rows for cell in _cells(row)]
    return [
        report.Section(
            "Scorecard",
            [
                report.Text(str(__doc__).partition("\n\n")[2]),
                _scorecard(rows, cells),
                report.Verdicts(_bars(rows, cells)),
            ],
        ),
        report.Section("Errors", [_figure(cells), _errors(cells)]),
        report.Section("Coverage where the assumptions hold", [_coverage(cells)]),
    ]


def _cells(row: Row) -> list[Row]:
    """The cells of a run, each with the run's scenario, data and size."""
    names = ("metric", "estimator", "level", "reason", "value", "low", "high", "truth")
    shared = {
        "data": row["folder"] or "planted", "n": row["n"], "draw": row["draw"],
        "scenario": row["scenario"],
    }  # fmt: skip
    cells = []
    for values in row["cells"]:
        cell = {**shared, **dict(zip(names, values, strict=True))}
        bounded = None not in (cell["value"], cell["low"], cell["high"])
        cell["holds"] = bounded and cell["low"] <= cell["truth"] <= cell["high"]
        cell["error"] = cell["value"] - cell["truth"] if cell["value"] is not None else None
        cells.append(cell)
    return cells


def _corrected(cells: list[Row]) -> list[Row]:
    return [cell for cell in cells if cell["estimator"] in CORRECTED]


def _scorecard(rows: list[Row], cells: list[Row]) -> report.Table:
    """Per scenario: runs that are doubted, levels of corrected numbers, and which are wrong."""
    body: list[list[report.Cell]] = []
    for (name,), part in group_rows(rows, "scenario").items():
        own = [cell for cell in cells if cell["scenario"] == name]
        judged = own if name == COMPLETE else _corrected(own)
        claimed = [cell for cell in judged if cell["level"] in CLAIMING]
        body.append(
            [
                name,
                len(part),
                float(np.mean([bool(row["evidence"]) for row in part])),
                *(_share(cell["level"] == level.value for cell in judged) for level in Level),
                _share(cell["holds"] for cell in claimed),
                _share(cell["level"] in CLAIMING and not cell["holds"] for cell in judged),
            ]
        )  # fmt: skip
    shares = [report.Column(each.value, ".0%") for each in Level]
    return report.Table(
        ["how labels go missing", "runs", report.Column("doubted", ".0%"), *shares,
         report.Column("coverage", ".0%"), report.Column("claimed and wrong", ".0%")],
        body,
        title="Levels and coverage of corrected numbers",
        caption="Of the cells by unbiased and deconvolved (complete labels: of all). Doubted: runs "
        "that hold evidence against their assumptions. Coverage: of the intervals of measured, "
        "conditional and wide numbers. Claimed and wrong: cells of these levels whose interval "
        "misses the truth, as a share of all cells. Propensities that are too high, masks that "
        "depend on scores, spurious labels and the like cannot be recognised from labels alone: "
        "such numbers are conditional, and an audit decides. Labels that compete make counts of "
        "rows more equal than independent losses can; where rows differ much in their number of "
        "labels (delicious), some distribution of true counts explains that too, so that nothing "
        "speaks against it, and corrected numbers hold the truth as often as with the right "
        "propensities.",
    )  # fmt: skip


def _share(answers: Iterable[bool]) -> float | None:
    """How many are true; None of none."""
    listed = list(answers)
    return float(np.mean(listed)) if listed else None


def _bars(rows: list[Row], cells: list[Row]) -> list[report.Verdict]:
    """What is promised, and whether the rows keep it."""
    measured = [cell for cell in cells if cell["level"] == Level.MEASURED.value]
    missed = [cell for cell in measured if not cell["holds"]]
    conditional = [row for row in rows if row["standing"] == Standing.NOT_REFUTED.value]
    nameless = [row for row in conditional if not row["names_condition"]]
    right = [row for row in rows if row["scenario"] == "right"]
    alarms = [row for row in right if row["evidence"]]
    return [
        statement(
            f"A measured number misses the truth in at most {MISSES:.0%} of the cells",
            len(missed) <= MISSES * len(measured),
            f"{len(missed)} of {len(measured)}",
        ),
        statement(
            "Every conditional headline names its condition",
            not nameless,
            f"{len(conditional) - len(nameless)} of {len(conditional)}",
        ),
        *(_recognised(name, rows, cells) for name in EVIDENT),
        *_chosen_tau(cells),
        statement(
            f"With the right propensities at most {ALARMS:.0%} of the runs are doubted",
            len(alarms) <= ALARMS * len(right),
            f"{len(alarms)} of {len(right)}",
        ),
    ]


def _chosen_tau(cells: list[Row]) -> Iterable[report.Verdict]:
    """A τ that is chosen from the data: never outside the range, never precise unless τ = 1."""
    chosen = [
        cell for cell in cells if cell["estimator"] == "tempered" and cell["value"] is not None
    ]
    outside = [
        cell for cell in chosen if not 0 <= cell["low"] <= cell["value"] <= cell["high"] <= 1
    ]
    yield statement(
        "Numbers by a τ chosen from the data, and their intervals, stay within their range",
        not outside,
        f"{len(outside)} of {len(chosen)} do not",
    )
    unbiased = {_place(cell): cell for cell in cells if cell["estimator"] == "unbiased"}
    claimed = [cell for cell in chosen if cell["level"] in CLAIMING]
    own = [cell for cell in claimed if not _same(cell, unbiased.get(_place(cell)))]
    yield statement(
        "They claim nothing of their own: only where τ = 1 was chosen, and then what the unbiased "
        "number claims",
        not own,
        f"{len(claimed)} of {len(chosen)} claim something, {len(own)} of them something else than "
        "the unbiased number",
    )


def _place(cell: Row) -> tuple[object, ...]:
    return tuple(cell[name] for name in ("data", "n", "draw", "scenario", "metric"))


def _same(cell: Row, other: Row | None) -> bool:
    """Whether two numbers and their levels are the same."""
    return other is not None and all(cell[name] == other[name] for name in ("value", "level"))


def _recognised(name: str, rows: list[Row], cells: list[Row]) -> report.Verdict:
    """Numbers that are wrong must not claim anything where the run holds the evidence."""
    own = _corrected([cell for cell in cells if cell["scenario"] == name])
    claimed = [cell for cell in own if cell["level"] in CLAIMING]
    wrong = [cell for cell in claimed if not cell["holds"]]
    by_data = group_rows([row for row in rows if row["scenario"] == name], "folder")
    doubted = [
        f"{folder or 'planted'} {sum(bool(row['evidence']) for row in part)} of {len(part)}"
        for (folder,), part in by_data.items()
    ]
    rest = f"; of {len(claimed)} that claim it" if claimed else ""
    return statement(
        f"{name}: at most {MISSES:.0%} of the corrected numbers are wrong and neither doubtful nor "
        "unusable",
        len(wrong) <= MISSES * len(own),
        f"{len(wrong)} of {len(own)}{rest}; runs doubted: {', '.join(doubted)}",
    )


def _figure(cells: list[Row]) -> report.Panels:
    """Mean error by scenario, with the middle nine tenths of the runs."""
    chosen = (("P@5", "unbiased"), ("R@5", "deconvolved"))
    panels = []
    for (name,), part in group_rows(cells, "data").items():
        series = []
        for metric, estimator in chosen:
            own = [
                cell for cell in part
                if (cell["metric"], cell["estimator"]) == (metric, estimator)
                and cell["error"] is not None
            ]  # fmt: skip
            by_scenario = group_rows(own, "scenario")
            errors = {key[0]: [cell["error"] for cell in each] for key, each in by_scenario.items()}
            series.append(
                report.Series(
                    f"{metric} {estimator}",
                    list(errors),
                    [float(np.mean(values)) for values in errors.values()],
                    [float(np.quantile(values, 0.05)) for values in errors.values()],
                    [float(np.quantile(values, 0.95)) for values in errors.values()],
                )
            )
        panels.append(
            report.Chart(
                "dots",
                series,
                title=name,
                y=report.Axis("error", low=-0.5, high=0.5),
                rules=[report.Rule("truth", 0.0, style=STYLES["truth"])],
            )
        )
    return report.Panels(
        panels, columns=2, title="Error by how labels go missing: mean, and 5 to 95 % of the runs"
    )


def _errors(cells: list[Row]) -> report.Table:
    """Mean errors of every corrected metric, by scenario and data; the worst conditional one."""
    corrected = [cell for cell in _corrected(cells) if cell["error"] is not None]
    names = sorted({(cell["metric"], cell["estimator"]) for cell in corrected})
    body: list[list[report.Cell]] = []
    for (name, scenario), part in group_rows(corrected, "data", "scenario").items():
        by_cell = group_rows(part, "metric", "estimator")
        medians = [
            float(np.median([cell["error"] for cell in by_cell[key]])) if key in by_cell else None
            for key in names
        ]
        body.append([f"{name}, {scenario}", *medians])
    heads = [report.Column(f"{metric} {estimator}", ".3f") for metric, estimator in names]
    return report.Table(
        ["data, how labels go missing", *heads], body, title="Median error of corrected numbers"
    )


def _coverage(cells: list[Row]) -> report.Table:
    """Share of intervals that hold the truth, for complete labels and for right propensities."""
    body: list[list[report.Cell]] = []
    for scenario in (COMPLETE, "right"):
        own = [cell for cell in cells if cell["scenario"] == scenario]
        own = own if scenario == COMPLETE else _corrected(own)
        for (name, n), part in group_rows(own, "data", "n").items():
            for (metric, estimator), group in group_rows(part, "metric", "estimator").items():
                claimed = [cell for cell in group if cell["level"] in CLAIMING]
                body.append(
                    [f"{scenario}: {name}, {n:,} rows, {metric} {estimator}", len(group),
                     len(claimed), _share(cell["holds"] for cell in claimed)]
                )  # fmt: skip
    return report.Table(
        ["cells", "runs", "of a level that claims it", report.Column("coverage", ".0%")],
        body,
        title="Coverage of 95 % intervals",
    )


STUDY = Study(
    "false-trust", "numbers that are believed though they are wrong", units, measure, draw
)
