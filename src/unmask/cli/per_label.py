"""`evaluate --per-label`: a table with a line per label, by name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from unmask.cli.inputs import EvaluatedRows

if TYPE_CHECKING:
    from unmask._typing import PropensityLike
    from unmask.metrics.by_label import LabelCounts
    from unmask.predictions import TopK


def counts_of(
    rows: EvaluatedRows, top: TopK, propensity: PropensityLike, confidence: float
) -> LabelCounts:
    """What one system does with every label."""
    from unmask.metrics import label_counts

    return label_counts(
        top, rows.observed, propensity, names=rows.names, train=rows.trained,
        confidence=confidence,
    )  # fmt: skip


def write_label_counts(path: Path, counts: LabelCounts) -> None:
    """The table, in the form that the ending of the file says."""
    from unmask._tables import ending
    from unmask._tables.writing import write_columns

    form = ending(path)
    if form is None:
        raise ValueError(f"--per-label writes .csv, .tsv, .jsonl or .parquet; got {path}.")
    write_columns(path, form, counts.columns())
