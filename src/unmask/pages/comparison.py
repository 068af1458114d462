"""What pages show of systems compared: differences, and whether their order survives."""

from __future__ import annotations

from unmask import report
from unmask.metrics import Ranking
from unmask.pages.stored import DifferenceRow, EstimateRow


def differences_section(rows: list[DifferenceRow]) -> report.Section:
    """Every system against the first, with intervals and p-values.

    Parameters
    ----------
    rows : list of DifferenceRow

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
            row["details"]["p_value"],
        ]
        for row in rows
    ]
    columns: list[report.Column | str] = [
        "system", "metric", "estimator", report.Column("difference", ".4f"),
        report.Column("p", ".2g"),
    ]  # fmt: skip
    text = report.Text("Differences to the first system, paired over rows; positive is better.")
    return report.Section("Compared with the first system", [text, report.Table(columns, body)])


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
    level = "good" if ranking.holds else "warning"
    verdicts = [report.Verdict(level, line) for line in ranking.statement.splitlines()]
    return report.Section(
        f"Does the order in {ranking.metric} survive other propensities?",
        [report.Verdicts(verdicts), *charts, report.Table(columns, body)],
    )


def estimate_cell(row: EstimateRow) -> report.Estimate:
    """A stored estimate as a cell; empty where the data refused it."""
    if row["value"] is None or row["value"] != row["value"]:
        return report.Estimate(None)
    return report.Estimate(row["value"], row["low"], row["high"])
