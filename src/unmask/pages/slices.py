"""Parts of an evaluation on a page: groups of rows as small multiples, curves over thresholds."""

from __future__ import annotations

from collections.abc import Mapping

from unmask import report
from unmask._typing import Record
from unmask.metrics import charts
from unmask.pages.comparison import estimate_cell
from unmask.pages.verdicts import verdict_cell

SHOWN = 60
"""Groups that are drawn; all are in the table."""


def groups_section(rows: list[Record]) -> report.Section:
    """Every metric by group: a chart each, and a table with counts and marks.

    Parameters
    ----------
    rows : list of Record

    Returns
    -------
    Section
    """
    groups = list(dict.fromkeys(row["group"] for row in rows))
    small = list(dict.fromkeys(row["group"] for row in rows if row["details"]["small"]))
    differ = list(dict.fromkeys(row["group"] for row in rows if row["details"]["differs"]))
    text = f"{len(groups):,} groups of rows, each evaluated as if its rows were all there are. "
    text += (
        f"{len(differ):,} of them differ from all other rows in some number: {_some(differ)}."
        if differ
        else "None differs from all other rows beyond chance."
    )
    text += " Of such marks 5 % are false, on average, however many groups there are."
    if small:
        text += f" Too few rows to say much: {_some(small)}."
    body: list[list[report.Cell]] = [
        [row["group"], row["details"]["rows"], row["metric"], row["estimator"], estimate_cell(row),
         verdict_cell(row["verdict"]), _mark(row)]
        for row in rows
    ]  # fmt: skip
    columns: list[report.Column | str] = [
        "group", report.Column("rows", ",.0f"), "metric", "estimator",
        report.Column("value", ".4f"), "level", "from all others",
    ]  # fmt: skip
    drawn = [row for row in rows if row["group"] in set(groups[:SHOWN])]
    return report.Section(
        "By group", [report.Text(text), charts.along(drawn, "group"), report.Table(columns, body)]
    )


def _mark(row: Record) -> str:
    if row["details"]["small"]:
        return "too few to say"
    return "differs" if row["details"]["differs"] else ""


def curves_section(curves: Mapping[str, list[Record]]) -> report.Section:
    """Precision over recall, and F1 over thresholds, as observed and corrected.

    Parameters
    ----------
    curves : mapping of estimator to list of Record

    Returns
    -------
    Section
    """
    by_recall = [
        _series(name, sorted(rows, key=lambda row: row["recall"]), "recall", "precision")
        for name, rows in curves.items()
    ]
    by_threshold = [_series(name, rows, "threshold", "f1") for name, rows in curves.items()]
    best = [
        f"by the {name} estimate F1 is best at {top['threshold']:.3g}: {top['f1']:.3f}"
        for name, rows in curves.items()
        for top in [max(rows, key=lambda row: row["f1"])]
    ]
    share, f1 = (report.Axis(name, low=0.0, high=1.0) for name in ("precision", "F1"))
    charts_of_curves = [
        report.Chart(
            "lines", by_recall, title="precision over recall",
            x=report.Axis("recall", low=0.0, high=1.0), y=share,
        ),
        report.Chart(
            "lines", by_threshold, title="F1 over thresholds", x=report.Axis("threshold"), y=f1
        ),
    ]  # fmt: skip
    text = report.Text(
        "Sets of all labels whose score reaches a threshold, over all pairs of a row and a label; "
        + "; ".join(best)
        + ". The best of many is optimistic by chance: choose on other rows (`unmask threshold`)."
    )
    return report.Section("Over thresholds", [text, report.Panels(charts_of_curves, columns=2)])


def _series(name: str, rows: list[Record], x: str, y: str) -> report.Series:
    columns = [[float(row[key]) for row in rows]
               for key in (x, y, f"{y}_low", f"{y}_high")]  # fmt: skip
    return report.Series(name, *columns, style=charts.STYLES.get(name))


def _some(names: list[str], most: int = 5) -> str:
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most:,} more" if len(names) > most else shown
