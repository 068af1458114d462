"""Labels by name on a page: the most frequent ones, and those that are found least often."""

from __future__ import annotations

from unmask import report
from unmask._text import visible
from unmask.pages.stored import LabelRow

SHOWN = 20
"""Lines of each table; all labels are in the stored record."""
FEW = 5
"""A label with fewer rows says too little about its recall to be listed for it."""
_LONGEST = 60


def section(rows: list[LabelRow], places: int) -> report.Section:
    """Two tables of labels by name.

    Parameters
    ----------
    rows : list of LabelRow
        One per label.
    places : int
        The k of recall and precision.

    Returns
    -------
    Section
    """
    frequent = sorted(rows, key=lambda row: -row["rows"])[:SHOWN]
    countable = [row for row in rows if row["rows"] >= FEW and row["recall"] is not None]
    missed = sorted(countable, key=lambda row: (row["recall"] or 0.0, -row["rows"]))[:SHOWN]
    text = (
        f"{len(rows):,} labels, judged by the first {places} predictions of every row. Recall is "
        "the share of recorded labels that are predicted. Precision divides hits by the "
        "propensity, so it holds as far as the corrected estimates above do; where it is above 1 "
        "beyond chance, the propensity of the label is too low. "
        f"`unmask evaluate --per-label labels.csv` writes all {len(rows):,}."
    )
    parts: list[report.Part] = [report.Text(text), _table("The most frequent labels", frequent)]
    if missed:
        parts.append(_table(f"Found least often, of labels with {FEW} rows or more", missed))
    return report.Section("Labels by name", parts)


def _table(title: str, rows: list[LabelRow]) -> report.Table:
    columns: list[report.Column | str] = [
        "label", report.Column("rows", ",.0f"), report.Column("propensity", ".2f"),
        report.Column("predicted", ",.0f"), report.Column("hits", ",.0f"),
        report.Column("recall", ".2f"), report.Column("precision", ".2f"),
    ]  # fmt: skip
    body: list[list[report.Cell]] = [
        [_short(row["label"]), row["rows"], row["propensity"], row["predicted"], row["hits"],
         _estimate(row["recall"], row["recall_low"], row["recall_high"]),
         _precision(row)]
        for row in rows
    ]  # fmt: skip
    return report.Table(columns, body, title=title)


def _short(name: str) -> str:
    """The name; of a long one both ends, since names of one kind often begin alike."""
    shown = visible(name)
    half = _LONGEST // 2
    return (
        shown if len(shown) <= _LONGEST else f"{shown[:half].rstrip()} … {shown[-half:].lstrip()}"
    )


def _precision(row: LabelRow) -> report.Cell:
    """The precision; where even its lower end is above 1, the propensity cannot be right."""
    low = row["precision_low"]
    if low is not None and low > 1:
        return "refuted: above 1"
    return _estimate(row["precision"], low, row["precision_high"])


def _estimate(value: float | None, low: float | None, high: float | None) -> report.Cell:
    if value is None or low is None or high is None:
        return None
    return report.Estimate(value, low=low, high=high)
