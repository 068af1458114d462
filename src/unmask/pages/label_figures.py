"""Labels on pages: how frequent they are, how likely they are seen, how many a row has.

`label_facts` reduces a label matrix and its propensities to a small plain record, which can be
stored and drawn later; `curves` and `counts` draw it.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from unmask import report
from unmask._typing import Record
from unmask.arrays import checks
from unmask.metrics.charts import STYLES
from unmask.weights import count_distribution

RANKS = 200
"""Points of a curve; more cannot be told apart."""


def label_facts(labels: ArrayLike | sp.sparray, propensity: ArrayLike) -> Record:
    """Observed labels in few numbers: plain lists, whose length does not depend on the data.

    Parameters
    ----------
    labels : array or sparse matrix, shape (n, L)
        Observed labels, 0 or 1.
    propensity : array, shape (L,)

    Returns
    -------
    Record
        A dict that JSON can store; `section` draws it.

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
    order = np.argsort(-count, kind="stable")
    ranks = np.unique(np.geomspace(1, n_labels, RANKS).astype(int))
    shown = order[ranks - 1]
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


def curves(rank: ArrayLike, count: ArrayLike, propensity: ArrayLike, *, of: str) -> report.Panels:
    """How frequent labels are and how likely a true one is seen, from frequent to rare.

    Parameters
    ----------
    rank, count, propensity : array, shape (m,)
        Some labels, most frequent first; one that never occurs leaves a gap on the log axis.
    of : str
        What was counted.

    Returns
    -------
    Panels
        Two charts over the rank.
    """
    ranks, x = np.asarray(rank).tolist(), report.Axis("rank of the label", log=True)
    frequency = report.Series(of, ranks, np.asarray(count).tolist())
    probability = report.Series("propensity", ranks, np.asarray(propensity).tolist())
    title = f"How often labels occur ({of})"
    return report.Panels(
        [
            report.Chart("lines", [frequency], title=title, x=x, y=report.Axis("rows", log=True)),
            report.Chart(
                "lines", [probability], title="How often a true label is seen", x=x,
                y=report.Axis("p", low=0, high=1),
            ),
        ]
    )  # fmt: skip


def counts(**shares: ArrayLike) -> report.Panels:
    """Shares of rows by number of labels, one histogram per name, and the same summed up.

    Parameters
    ----------
    **shares : array, shape (m,)
        Entry i is the share of rows with i labels; m may differ from name to name.

    Returns
    -------
    Panels
        Histograms, and their cumulative sums.
    """
    short = {name: _without_tail(np.asarray(values)) for name, values in shares.items()}
    longest = max(values.size for values in short.values())
    edges, numbers = (np.arange(longest + 1) - 0.5).tolist(), np.arange(longest).tolist()
    bars = {name: np.pad(values, (0, longest - values.size)) for name, values in short.items()}
    return report.Panels(
        [
            report.Chart(
                "steps",
                [report.Series(name, edges, values.tolist(), style=STYLES.get(name))
                 for name, values in bars.items()],
                title="Rows by number of labels", x="labels", y="share of rows",
            ),
            report.Chart(
                "lines",
                [report.Series(name, numbers, np.cumsum(values).tolist(), style=STYLES.get(name))
                 for name, values in bars.items()],
                title="Rows with at most so many", x="labels", y=report.Axis("share", low=0),
            ),
        ],
        caption="The deconvolved distribution is computed from the observed labels and their "
        "propensities alone. A maximum of likelihood gathers at few numbers: read the sums, not "
        "single bars.",
    )  # fmt: skip


def section(facts: Record) -> report.Section:
    """The section of a page that shows the labels of a record.

    Parameters
    ----------
    facts : Record
        As `label_facts` makes it.

    Returns
    -------
    Section
    """
    histogram = counts(observed=facts["observed"], deconvolved=facts["deconvolved"])
    ranks = curves(facts["rank"], facts["count"], facts["propensity"], of="as observed")
    return report.Section("The labels", [ranks, histogram])


def _without_tail(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Shares up to the number that all but one row in a thousand stay below."""
    return shares[: int(np.searchsorted(np.cumsum(shares), 0.999 * shares.sum())) + 1]
