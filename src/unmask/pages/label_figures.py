"""What pages share: pictures of labels, and verdicts with their level.

`label_facts` reduces a label matrix and its propensities to a small plain record, which can be
stored and drawn later; `curves` and `counts` draw it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmask import _validation, report
from unmask.weights import count_distribution

RANKS = 200
"""Points of a curve; more cannot be told apart."""


def label_facts(labels: Any, propensity: Any) -> dict[str, Any]:
    """Observed labels in few numbers: plain lists, whose length does not depend on the data.

    >>> facts = label_facts([[1, 1], [1, 0], [0, 0], [1, 0]], [0.5, 0.5])
    >>> facts["count"], facts["observed"], facts["seen"]
    ([3.0, 1.0], [0.25, 0.5, 0.25], 0.5)
    """
    matrix = _validation.labels(labels)
    n, n_labels = matrix.shape
    p = _validation.propensity(propensity, n_labels)
    count = np.bincount(matrix.indices, minlength=n_labels)
    order = np.argsort(-count, kind="stable")
    at = np.unique(np.geomspace(1, n_labels, RANKS).astype(int)) - 1
    fit = count_distribution(matrix, p)
    return {
        "rows": n,
        "labels": n_labels,
        "entries": matrix.nnz,
        "seen": fit.propensity,
        "rank": (at + 1).tolist(),
        "count": count[order][at].astype(float).tolist(),
        "propensity": p[order][at].tolist(),
        "observed": _without_tail(fit.rows / max(n, 1)).tolist(),
        "deconvolved": _without_tail(fit.probability).tolist(),
    }


def curves(rank: ArrayLike, count: ArrayLike, propensity: ArrayLike, *, of: str) -> report.Panels:
    """How frequent labels are and how likely a true one is seen, from frequent to rare.

    `of` says what was counted. A label that never occurs leaves a gap on the logarithmic axis.
    """
    places, x = np.asarray(rank).tolist(), report.Axis("rank of the label", log=True)
    frequency = report.Series(of, places, np.asarray(count).tolist())
    seen = report.Series("propensity", places, np.asarray(propensity).tolist())
    title = f"How often labels occur ({of})"
    return report.Panels(
        [
            report.Chart("lines", [frequency], title=title, x=x, y=report.Axis("rows", log=True)),
            report.Chart(
                "lines", [seen], title="How often a true label is seen", x=x,
                y=report.Axis("p", low=0, high=1),
            ),
        ]
    )  # fmt: skip


def counts(**shares: ArrayLike) -> report.Panels:
    """Shares of rows by number of labels, one histogram per name, and the same summed up."""
    short = {name: _without_tail(np.asarray(each)) for name, each in shares.items()}
    longest = max(each.size for each in short.values())
    edges, places = (np.arange(longest + 1) - 0.5).tolist(), np.arange(longest).tolist()
    bars = {name: np.pad(each, (0, longest - each.size)) for name, each in short.items()}
    return report.Panels(
        [
            report.Chart(
                "steps",
                [report.Series(name, edges, each.tolist()) for name, each in bars.items()],
                title="Rows by number of labels", x="labels", y="share of rows",
            ),
            report.Chart(
                "lines",
                [report.Series(name, places, np.cumsum(each).tolist())
                 for name, each in bars.items()],
                title="Rows with at most so many", x="labels", y=report.Axis("share", low=0),
            ),
        ],
        caption="The deconvolved distribution is computed from the observed labels and their "
        "propensities alone. A maximum of likelihood gathers at few numbers: read the sums, not "
        "single bars.",
    )  # fmt: skip


def section(facts: dict[str, Any]) -> report.Section:
    """The section of a page that shows the labels of a record."""
    histogram = counts(observed=facts["observed"], deconvolved=facts["deconvolved"])
    ranks = curves(facts["rank"], facts["count"], facts["propensity"], of="as observed")
    return report.Section("The labels", [ranks, histogram])


def _without_tail(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Shares up to the number that all but one row in a thousand stay below."""
    return shares[: int(np.searchsorted(np.cumsum(shares), 0.999 * shares.sum())) + 1]


def judged(verdict: str) -> report.Verdict:
    """An estimate's verdict with the level that its first word stands for.

    >>> judged("unusable: …").level, judged("precise, but an upper bound").level
    ('error', 'info')
    """
    level = next((LEVELS[word] for word in LEVELS if verdict.startswith(word)), "info")
    return report.Verdict(level, verdict)


LEVELS = {"trust": "good", "wide": "warning", "doubtful": "warning", "unusable": "error"}
