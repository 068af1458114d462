"""Labels on pages: how frequent they are, how likely they are recorded, and how each one is found.

`label_facts` reduces a label matrix and its propensities to a small plain record, which can be
stored and drawn later; `curves` and `counts` draw it. Labels by name are two tables: the most
frequent ones, and those that are found least often.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from unmask._text import visible
from unmask._typing import Record
from unmask.arrays import checks
from unmask.pages import parts
from unmask.pages.estimates import STYLES
from unmask.weights import count_distribution

Row = Mapping[str, Any]
RANKS = 200
"""Points of a curve; more cannot be told apart."""
SHOWN = 20
"""Lines of each table; all labels are in the stored record."""
FEW = 5
"""A label with fewer rows says too little about how it is found to be listed for it."""
_LONGEST = 60


def label_facts(labels: ArrayLike | sp.sparray, propensity: ArrayLike) -> Record:
    """Return recorded labels in few numbers: plain lists, whose length does not depend on the data.

    Parameters
    ----------
    labels : array or sparse matrix, shape (n, L)
        Observed labels, 0 or 1.
    propensity : array, shape (L,)

    Returns
    -------
    dict
        JSON can store it, and `section` draws it.

    Examples
    --------
    >>> facts = label_facts([[1, 1], [1, 0], [0, 0], [1, 0]], [0.5, 0.5])
    >>> facts["count"], facts["observed"], facts["seen"]
    ([3.0, 1.0], [0.25, 0.5, 0.25], 0.5)
    """
    matrix = checks.labels(labels)
    n, n_labels = matrix.shape
    p = checks.propensity(propensity, n_labels)
    count = np.bincount(matrix.indices, minlength=n_labels)
    ranks = np.unique(np.geomspace(1, n_labels, RANKS).astype(int))
    shown = np.argsort(-count, kind="stable")[ranks - 1]
    fit = count_distribution(matrix, p)
    return {
        "rows": n,
        "labels": n_labels,
        "entries": matrix.nnz,
        "seen": fit.propensity,
        "rank": ranks.tolist(),
        "count": count[shown].astype(float).tolist(),
        "propensity": p[shown].tolist(),
        "observed": _without_tail(fit.rows / max(n, 1)).tolist(),
        "deconvolved": _without_tail(fit.probability).tolist(),
    }


def section(facts: Record) -> parts.Section:
    """Return the section that shows the labels of a record, as `label_facts` makes it."""
    histogram = counts(observed=facts["observed"], deconvolved=facts["deconvolved"])
    ranks = curves(facts["rank"], facts["count"], facts["propensity"], of="as observed")
    return parts.Section("The labels", [ranks, histogram])


def curves(rank: ArrayLike, count: ArrayLike, propensity: ArrayLike, *, of: str) -> parts.Panels:
    """Draw how frequent labels are and how likely a true one is seen, from frequent to rare.

    Parameters
    ----------
    rank, count, propensity : array, shape (m,)
        Some labels, most frequent first; one that never occurs leaves a gap on the log axis.
    of : str
        What was counted.
    """
    ranks, x = np.asarray(rank).tolist(), parts.Axis("rank of the label", log=True)
    often = parts.Series(of, ranks, np.asarray(count).tolist())
    probability = parts.Series("propensity", ranks, np.asarray(propensity).tolist())
    title, p = f"How often labels occur ({of})", parts.Axis("p", low=0, high=1)
    return parts.Panels(
        [
            parts.Chart("lines", [often], title=title, x=x, y=parts.Axis("rows", log=True)),
            parts.Chart("lines", [probability], title="How often a true label is seen", x=x, y=p),
        ]
    )


def counts(**shares: ArrayLike) -> parts.Panels:
    """Draw shares of rows by number of labels, one histogram per name, and their sums.

    Parameters
    ----------
    **shares : array, shape (m,)
        Entry i is the share of rows with i labels; m may differ from name to name.
    """
    short = {name: _without_tail(np.asarray(values)) for name, values in shares.items()}
    longest = max(values.size for values in short.values())
    numbers, bars, sums = np.arange(longest + 1.0), [], []
    for name, values in short.items():
        heights = np.pad(values, (0, longest - values.size))
        style = STYLES.get(name)
        bars.append(parts.Series(name, (numbers - 0.5).tolist(), heights.tolist(), style=style))
        sums.append(
            parts.Series(name, numbers[:-1].tolist(), heights.cumsum().tolist(), style=style)
        )
    title, at_most = "Rows by number of labels", "Rows with at most so many"
    return parts.Panels(
        [
            parts.Chart("steps", bars, title=title, x="labels", y="share of rows"),
            parts.Chart("lines", sums, title=at_most, x="labels", y=parts.Axis("share", low=0)),
        ],
        caption="The deconvolved distribution is computed from the observed labels and their "
        "propensities alone. A maximum of likelihood gathers at few numbers: read the sums, not "
        "single bars.",
    )


def _without_tail(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return shares up to the number that all but one row in a thousand stay below."""
    return shares[: int(np.searchsorted(np.cumsum(shares), 0.999 * shares.sum())) + 1]


# -------------------------------------------------------------------------------- labels by name


def judged_section(rows: Sequence[Row], places: int, *, refuted: bool = False) -> parts.Section:
    """Return labels by name, with their recall and precision.

    Parameters
    ----------
    rows : sequence of mappings
        One per label.
    places : int
        The k of recall and precision; 0 for predicted sets.
    refuted : bool, default False
        Whether the run refutes its propensities: then no precision is shown.
    """
    judged = f"the first {places} predictions" if places else "the predicted set"
    precision = (
        "Precision divides hits by the propensity, so it holds as far as the corrected estimates "
        "above do; where it is above 1 beyond chance, the propensity of the label is too low."
    )
    if refuted:
        precision = (
            "Precision would divide hits by propensities that this evaluation refutes, so none is "
            "shown."
        )
    text = (
        f"{len(rows):,} labels, judged by {judged} of every row. Recall is the share of recorded "
        f"labels that are predicted. {precision}"
    )
    columns: parts.Columns = {
        parts.Column("predicted", ",.0f"): "predicted",
        parts.Column("hits", ",.0f"): "hits",
        parts.Column("recall", ".2f"): lambda row: _estimate(row, "recall"),
    }
    if not refuted:
        columns = {
            **columns,
            parts.Column("precision", ".2f"): lambda row: _estimate(
                row, "precision", row["predicted"]
            ),
        }
    worst = f"Found least often, of labels with {FEW} rows or more"
    return _by_name(rows, text, columns, "recall", worst)


def ranked_section(rows: Sequence[Row]) -> parts.Section:
    """Return labels by name, by how they rank the rows."""
    text = (
        f"{len(rows):,} labels, each by how its scores rank the rows: average precision, and the "
        "chance that a row with the label stands above one without (AUC), corrected, each label "
        "with the propensity shown; where a number is above 1 beyond chance, that is too low."
    )
    columns: parts.Columns = {
        parts.Column("average precision", ".2f"): (
            lambda row: _estimate(row, "average_precision", row["rows"])
        ),
        parts.Column("AUC", ".2f"): lambda row: _estimate(row, "AUC", row["rows"]),
    }
    worst = f"Ranked worst, of labels with {FEW} rows or more"
    return _by_name(rows, text, columns, "average_precision", worst)


def _by_name(
    rows: Sequence[Row], text: str, columns: parts.Columns, key: str, worst_title: str
) -> parts.Section:
    """Return the text and two tables: the most frequent labels, and those of the lowest `key`."""
    columns = {
        "label": lambda row: shortened(row["label"]),
        parts.Column("rows", ",.0f"): "rows",
        parts.Column("propensity", ".2f"): "propensity",
        **columns,
    }
    text += f" `unmask evaluate --per-label labels.csv` writes all {len(rows):,}."
    frequent = sorted(rows, key=lambda row: -row["rows"])
    countable = [row for row in rows if row["rows"] >= FEW and row[key] is not None]
    worst = sorted(countable, key=lambda row: (row[key], -row["rows"]))
    shown: list[parts.Part] = [
        parts.Text(text), parts.Table.of(frequent[:SHOWN], columns, "The most frequent labels")
    ]  # fmt: skip
    if worst:
        shown.append(parts.Table.of(worst[:SHOWN], columns, worst_title))
    return parts.Section("Labels by name", shown)


def _estimate(row: Row, key: str, count: float = 0) -> parts.Cell:
    """Return a number; where something is counted and there is none, p cannot be right."""
    value, low, high = row[key], row[f"{key}_low"], row[f"{key}_high"]
    if value is None and count:
        return "refuted: above 1"
    return (
        None if value is None or low is None or high is None else parts.Estimate(value, low, high)
    )


def shortened(name: str) -> str:
    """Return a name; of a long one both ends, since names of one kind often begin alike."""
    text, half = visible(name), _LONGEST // 2
    return text if len(text) <= _LONGEST else f"{text[:half].rstrip()} … {text[-half:].lstrip()}"
