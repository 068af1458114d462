"""What pages show of systems compared: differences, and whether their order survives."""

from __future__ import annotations

from collections.abc import Sequence

from unmask import report
from unmask._typing import Record
from unmask.metrics import Level, Ranking, charts
from unmask.pages.verdicts import LEVELS, verdict_cell, verdict_level, verdict_list


def differences_section(
    rows: list[Record], moves: Sequence[Record] = (), *, first: str = "the first system"
) -> report.Section:
    """Every system against the first, with intervals, p-values, levels, and when winners change.

    Parameters
    ----------
    rows : list of Record
    moves : sequence of Record, default ()
        How far conditional differences move.
    first : str, default "the first system"
        The name of the system that the others are compared with.

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
    text = report.Text(f"Paired over rows; above 0 the named system is better than {first}.")
    table = report.Table(columns, body, title="All differences")
    parts: list[report.Part] = [*_difference_charts(rows, first), text, table]
    for system in dict.fromkeys(row["system"] for row in rows):
        parts.append(verdict_list(row for row in rows if row["system"] == system))
    if moves:
        named = [f"{row['system']}, {row['metric']} {row['estimator']}" for row in moves]
        words = [[name, row["text"]] for name, row in zip(named, moves, strict=True)]
        title = "How far each difference moves"
        parts.append(report.Table(["difference", "how far it moves"], words, title=title))
    return report.Section(f"Compared with {first}", parts)


def _difference_charts(rows: list[Record], first: str) -> list[report.Chart]:
    """One chart per system: the differences of every metric by estimator, beside no difference."""
    drawn = []
    for system in dict.fromkeys(row["system"] for row in rows):
        by_estimator: dict[str, dict[str, report.Estimate]] = {}
        for row in rows:
            usable = verdict_level(row["verdict"]) < Level.UNUSABLE
            cell = estimate_cell(row)
            if row["system"] == system and usable and cell.low is not None:
                by_estimator.setdefault(row["estimator"], {})[row["metric"]] = cell
        series = [
            report.Series(
                estimator, list(cells), *([getattr(cell, name) for cell in cells.values()]
                                          for name in ("value", "low", "high")),
                style=charts.STYLES.get(estimator),
            )
            for estimator, cells in by_estimator.items()
        ]  # fmt: skip
        if series:
            drawn.append(
                report.Chart(
                    "dots", series, title=f"{system} − {first}: above 0 {system} is better",
                    y="difference", rules=[report.Rule("no difference", 0.0)],
                )
            )  # fmt: skip
    return drawn


def ranking_section(ranking: Ranking) -> report.Section:
    """The statement, a chart of the differences and a table of all numbers.

    Parameters
    ----------
    ranking : Ranking

    Returns
    -------
    Section
    """
    drawn = [
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
        [report.Verdicts(verdicts), *drawn, report.Table(columns, body)],
    )


def estimate_cell(row: Record) -> report.Estimate:
    """A stored estimate as a cell; empty where the data refused it.

    A value that is further from its interval, which stays within the range of the metric, than that
    is wide stands alone.
    """
    value, low, high = row["value"], row["low"], row["high"]
    if value is None or value != value:
        return report.Estimate(None)
    if low is not None and high is not None and not 2 * low - high <= value <= 2 * high - low:
        return report.Estimate(value)
    return report.Estimate(row["value"], row["low"], row["high"])
