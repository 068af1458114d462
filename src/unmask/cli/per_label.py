"""Tables for people: of `evaluate --per-label`, a line per label, and of other commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from unmask.cli.inputs import EvaluatedRows

if TYPE_CHECKING:
    from unmask._typing import PropensityLike
    from unmask.cli.predicted import Predicted
    from unmask.files.tables import Cell
    from unmask.metrics.by_label import LabelCounts, LabelRankings
    from unmask.metrics.claims import Run


def counts_of(
    rows: EvaluatedRows,
    predicted: Predicted,
    propensity: PropensityLike,
    confidence: float,
    run: Run | None,
) -> LabelCounts | LabelRankings:
    """What one system does with every label; no precision where the run refutes propensities.

    Of scores, how every label ranks the rows.
    """
    import numpy as np

    from unmask.metrics import label_counts
    from unmask.metrics.by_label import label_rankings
    from unmask.metrics.claims import Standing

    if isinstance(predicted, np.ndarray):
        return label_rankings(
            predicted, rows.observed, propensity, names=rows.names, confidence=confidence
        )
    counts = label_counts(
        predicted, rows.observed, propensity, names=rows.names, train=rows.trained,
        confidence=confidence,
    )  # fmt: skip
    return replace(counts, refuted=run is not None and run.standing is Standing.REFUTED)


def write_label_counts(path: Path, counts: LabelCounts | LabelRankings) -> None:
    """The table, in the form that the ending of the file says."""
    write_for_people(path, counts.columns(), "--per-label")


def write_for_people(path: Path, columns: Mapping[str, Sequence[Cell]], option: str) -> None:
    """A table in the form that the ending of the file of an option says.

    In CSV and TSV, which people open, a name is neither a formula nor a command to a terminal.
    """
    from unmask._text import harmless, visible
    from unmask.files.tables import ending, write_columns

    form = ending(path)
    if form is None:
        raise ValueError(f"{option} writes .csv, .tsv, .jsonl or .parquet; got {path}.")
    if form in ("csv", "tsv"):
        columns = {
            name: [harmless(visible(cell)) if isinstance(cell, str) else cell for cell in cells]
            for name, cells in columns.items()
        }
    write_columns(path, form, columns)
