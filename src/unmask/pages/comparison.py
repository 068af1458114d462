"""What pages show of systems compared: differences, and whether their order survives."""

from __future__ import annotations

from collections.abc import Sequence

from unmask import report
from unmask.metrics import Ranking
from unmask.pages.stored import DifferenceRow, EstimateRow, MoveRow
from unmask.pages.verdicts import LEVELS, verdict_cell, verdict_list


def differences_section(rows: list[DifferenceRow], moves: Sequence[MoveRow] = ()) -> report.Section:
    """Every system against the first, with intervals, p-values, levels, and when winners change.

    Parameters
    ----------
    rows : list of DifferenceRow
    moves : sequence of MoveRow, default ()
        How far conditional differences move.

    Returns
    -------
    Section
    """
    body: list[list[report.Cell]] = [
        [
            row["system"],
            row["metric"],
            row["estimator"],
            estimate_cell(row),
            verdict_cell(row["verdict"]),
            row["details"]["p_value"],
        ]
        for row in rows
    ]
    columns: list[report.Column | str] = [
        "system", "metric", "estimator", report.Column("difference", ".4f"), "level",
        report.Column("p", ".2g"),
    ]  # fmt: skip
    text = report.Text("Differences to the first system, paired over rows; positive is better.")
    parts: list[report.Part] = [text, report.Table(columns, body)]
    for system in dict.fromkeys(row["system"] for row in rows):
        parts.append(verdict_list(row for row in rows if row["system"] == system))
    for row in moves:
        name = f"{row['system']}, {row['metric']} {row['estimator']}"
        parts.append(report.Text(f"{name}: {row['text']}."))
    return report.Section("Compared with the first system", parts)


def ranking_section(ranking: Ranking) -> report.Section:
    """The statement, a chart of the differences and a table of all numbers.

    Parameters
    ----------
    ranking : Ranking

    Returns
    -------
    Section
    """
    charts = [
        report.Chart(
            "dots",
            [
                report.Series(
                    f"{system} − {ranking.first}",
                    *([row[key] for row in rows]
                      for key in ("model", "difference", "low", "high")),
                )
            ],
            title=f"{ranking.metric}, {ranking.estimator}: {system} against {ranking.first}",
            y="difference",
            rules=[report.Rule("no difference", 0.0)],
        )
        for system, rows in ranking.by_system()
    ]  # fmt: skip
    columns: list[report.Column | str] = [
        "propensities",
        "system",
        *(report.Column(name, ".4f") for name in ("its value", ranking.first, "difference")),
    ]
    body: list[list[report.Cell]] = [
        [row["model"], row["system"], row["value"], row["first"],
         report.Estimate(row["difference"], row["low"], row["high"])]
        for row in ranking.rows
    ]  # fmt: skip
    level = LEVELS[ranking.level]
    verdicts = [
        report.Verdict(level, line, badge=ranking.level.value)
        for line in ranking.statement.splitlines()
    ]
    return report.Section(
        f"Does the order in {ranking.metric} survive other propensities?",
        [report.Verdicts(verdicts), *charts, report.Table(columns, body)],
    )


def estimate_cell(row: EstimateRow) -> report.Estimate:
    """A stored estimate as a cell; empty where the data refused it."""
    if row["value"] is None or row["value"] != row["value"]:
        return report.Estimate(None)
    return report.Estimate(row["value"], row["low"], row["high"])
