"""Labels by name on a page: the most frequent ones, and those that are found least often."""

from __future__ import annotations

from unmask import report
from unmask._messages import visible
from unmask._typing import Record

SHOWN = 20
"""Lines of each table; all labels are in the stored record."""
FEW = 5
"""A label with fewer rows says too little about its recall to be listed for it."""
_LONGEST = 60


def section(rows: list[Record], places: int, *, refuted: bool = False) -> report.Section:
    """Two tables of labels by name.

    Parameters
    ----------
    rows : list of Record
        One per label.
    places : int
        The k of recall and precision; 0 for predicted sets.
    refuted : bool, default False
        Whether the run refutes its propensities: then no precision is shown.

    Returns
    -------
    Section
    """
    frequent = sorted(rows, key=lambda row: -row["rows"])[:SHOWN]
    countable = [row for row in rows if row["rows"] >= FEW and row["recall"] is not None]
    missed = sorted(countable, key=lambda row: (row["recall"] or 0.0, -row["rows"]))[:SHOWN]
    judged = f"the first {places} predictions" if places else "the predicted set"
    text = (
        f"{len(rows):,} labels, judged by {judged} of every row. Recall is "
        f"the share of recorded labels that are predicted. {_REFUTED if refuted else _PRECISION} "
        f"`unmask evaluate --per-label labels.csv` writes all {len(rows):,}."
    )
    parts: list[report.Part] = [
        report.Text(text), _table("The most frequent labels", frequent, refuted)
    ]  # fmt: skip
    if missed:
        parts.append(
            _table(f"Found least often, of labels with {FEW} rows or more", missed, refuted)
        )
    return report.Section("Labels by name", parts)


def ranking_section(rows: list[Record]) -> report.Section:
    """Two tables of labels by name, by how they rank the rows.

    Parameters
    ----------
    rows : list of Record
        One per label.

    Returns
    -------
    Section
    """
    frequent = sorted(rows, key=lambda row: -row["rows"])[:SHOWN]
    countable = [row for row in rows if row["rows"] >= FEW and row["average_precision"] is not None]
    worst = sorted(countable, key=lambda row: (row["average_precision"] or 0.0, -row["rows"]))
    text = (
        f"{len(rows):,} labels, each by how its scores rank the rows: average precision, and the "
        "chance that a row with the label stands above one without (AUC), corrected, each label "
        "with the propensity shown; where a number is above 1 beyond chance, that is too low. "
        f"`unmask evaluate --per-label labels.csv` writes all {len(rows):,}."
    )
    parts: list[report.Part] = [
        report.Text(text), _ranking_table("The most frequent labels", frequent)
    ]  # fmt: skip
    if worst:
        title = f"Ranked worst, of labels with {FEW} rows or more"
        parts.append(_ranking_table(title, worst[:SHOWN]))
    return report.Section("Labels by name", parts)


def _ranking_table(title: str, rows: list[Record]) -> report.Table:
    columns: list[report.Column | str] = [
        "label", report.Column("rows", ",.0f"), report.Column("propensity", ".2f"),
        report.Column("average precision", ".2f"), report.Column("AUC", ".2f"),
    ]  # fmt: skip
    body: list[list[report.Cell]] = [
        [_short(row["label"]), row["rows"], row["propensity"],
         _ranking(row["rows"], row["average_precision"], row["average_precision_low"],
                  row["average_precision_high"]),
         _ranking(row["rows"], row["AUC"], row["AUC_low"], row["AUC_high"])]
        for row in rows
    ]  # fmt: skip
    return report.Table(columns, body, title=title)


_PRECISION = (
    "Precision divides hits by the propensity, so it holds as far as the corrected estimates above "
    "do; where it is above 1 beyond chance, the propensity of the label is too low."
)
_REFUTED = (
    "Precision would divide hits by propensities that this evaluation refutes, so none is shown."
)


def _table(title: str, rows: list[Record], refuted: bool) -> report.Table:
    columns: list[report.Column | str] = [
        "label", report.Column("rows", ",.0f"), report.Column("propensity", ".2f"),
        report.Column("predicted", ",.0f"), report.Column("hits", ",.0f"),
        report.Column("recall", ".2f"),
        *([] if refuted else [report.Column("precision", ".2f")]),
    ]  # fmt: skip
    body: list[list[report.Cell]] = [
        [_short(row["label"]), row["rows"], row["propensity"], row["predicted"], row["hits"],
         _estimate(row["recall"], row["recall_low"], row["recall_high"]),
         *([] if refuted else [_precision(row)])]
        for row in rows
    ]  # fmt: skip
    return report.Table(columns, body, title=title)


def _ranking(rows: int, value: float | None, low: float | None, high: float | None) -> report.Cell:
    """The number; where a label is recorded and has none, the propensity cannot be right."""
    return "refuted: above 1" if rows and value is None else _estimate(value, low, high)


def _short(name: str) -> str:
    """The name; of a long one both ends, since names of one kind often begin alike."""
    shown = visible(name)
    half = _LONGEST // 2
    return (
        shown if len(shown) <= _LONGEST else f"{shown[:half].rstrip()} … {shown[-half:].lstrip()}"
    )


def _precision(row: Record) -> report.Cell:
    """The precision; where there are predictions and none, the propensity cannot be right."""
    if row["precision"] is None and row["predicted"]:
        return "refuted: above 1"
    return _estimate(row["precision"], row["precision_low"], row["precision_high"])


def _estimate(value: float | None, low: float | None, high: float | None) -> report.Cell:
    if value is None or low is None or high is None:
        return None
    return report.Estimate(value, low=low, high=high)
