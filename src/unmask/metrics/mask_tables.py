"""Estimates by a mask model that has more than row effort: a slope on the score, wrong labels.

*Slope.* Every observed label gets the propensity of its own score (`MaskModel.of_entries`).

*Wrong labels.* With ε = P(observed | not true), (y − ε)/(p − ε) is unbiased for the true label, so
that a metric that is linear in the labels, Σ_r d_r y_r over the places of a row, is estimated by

    Σ_hits d_r / (p − ε)  −  Σ_r d_r ε / (p − ε),

the same sum over hits with p − ε in place of p, less a number that depends on the predictions
alone. P@k and DCG@k by `unbiased` and `deconvolved` (whose number of hits is the unbiased one) are
corrected so; other estimates stay doubtful beyond 1 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from unmask._typing import Floats, LabelsLike
from unmask.arrays import TopK, checks
from unmask.metrics.registry import split
from unmask.metrics.table import Estimate, Table
from unmask.propensity import MaskModel

if TYPE_CHECKING:
    from collections.abc import Callable

    from unmask.metrics.inputs import Predictions

LINEAR = ("P", "DCG")
"""Metrics that are sums over hits."""


def needs_more(propensity: object) -> bool:
    """Whether these are a mask model with a slope or wrong labels.

    Parameters
    ----------
    propensity : anything

    Returns
    -------
    bool
    """
    if not isinstance(propensity, MaskModel):
        return False
    return propensity.score_slope is not None or propensity.spurious > 0


def table_by(
    mask: MaskModel,
    top: TopK,
    scores: Predictions,
    labels: LabelsLike,
    evaluated: Callable[[MaskModel | sp.csr_array], Table],
) -> Table:
    """The unjudged table of one certain mask model.

    Parameters
    ----------
    mask : MaskModel
    top : TopK
        What is evaluated.
    scores : TopK or scores
        Of the same rows, for the slope.
    labels : (n, L) matrix of 0 and 1
    evaluated : function
        From propensities to the unjudged table.

    Returns
    -------
    Table
    """
    observed = checks.labels(labels)
    checks.propensity(mask.value, observed.shape[1])
    wrong = mask.false_rate(observed)
    if mask.score_slope is None:
        lowered = MaskModel(mask.value - wrong, mask.row_effort, mask.unannotated)
        table = evaluated(lowered)
    else:
        entries = mask.of_entries(observed, scores)
        entries.data = np.maximum(entries.data - wrong[observed.indices], 1e-6)
        table = evaluated(entries)
    if table.run is not None:
        table = replace(table, run=replace(table.run, source=mask.source))
    if not mask.spurious:
        return table
    excess = wrong / (mask.value - wrong)
    return replace(table, estimates=[_carried(each, top, excess) for each in table])


def _carried(each: Estimate, top: TopK, excess: Floats) -> Estimate:
    """A linear estimate less what wrong labels add to it; any other as it is."""
    metric, k = split(each.metric)
    if each.estimator not in ("unbiased", "deconvolved") or metric not in LINEAR:
        return each
    places = top.labels[:, : k or top.k]
    expected = np.where(places < 0, 0.0, excess[places])
    discount = np.ones(places.shape[1]) / max(k or top.k, 1)
    if metric == "DCG":
        discount = 1 / np.log2(np.arange(2, places.shape[1] + 2))
    less = float((expected @ discount).mean())
    low, high = each.interval
    return replace(
        each, value=each.value - less, interval=(max(low - less, 0.0), high - less),
        details={**each.details, "wrong_labels": less},
    )  # fmt: skip


def refuse_slope(systems: Sequence[str], propensity: object) -> None:
    """Raise where several systems are to be evaluated by the scores of one of them.

    Parameters
    ----------
    systems : sequence of str
    propensity : anything

    Raises
    ------
    ValueError
        If the propensities depend on a score.
    """
    if isinstance(propensity, MaskModel) and propensity.score_slope is not None:
        raise ValueError(
            f"the mask depends on the scores of one model, and {len(systems)} are compared; give a "
            "propensity per entry (`mask.of_entries(labels, scores)`), or an audit."
        )
