"""How good findings are: tried on labels that are hidden on top, or measured with an audit.

`rehearse` hides a share h of the observed labels, lets the caller make probabilities anew from what
is left, and looks which hidden labels come back. Propensities of the rest are p' = (1 − h) p. A
missing label is one of those just hidden with chance b = h p / (1 − p'), so that

    Σ_findings [came back] / b

estimates how many findings are right, without any truth: unbiased if labels go missing as stated.

`measure` needs no such assumption: among judged rows or pairs of an audit it counts which findings
are right, and which missing labels are among the findings, weighted by inclusion probabilities.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp

from unmask._messages import named_options
from unmask._text import html_table
from unmask._typing import Floats, Ints, LabelsLike, PropensityLike, ScoresLike
from unmask.arrays import TopK, checks, pair_keys
from unmask.data.judgements import Judgements
from unmask.data.synthetic import hide
from unmask.metrics.intervals import wilson, z_quantile
from unmask.missing.findings import Findings, find

SHARE = 0.1
BINS, FEWEST = 10, 10
Share = tuple[float, tuple[float, float]]
"""A share and its interval."""
Fit: TypeAlias = "Callable[[sp.csr_array, Floats], TopK | ScoresLike]"
"""Probabilities of true labels from observed labels and their propensities, out of fold."""


@dataclass(frozen=True)
class Bin:
    """Findings of similar probability.

    Parameters
    ----------
    size : int
    stated : float
        The mean of their probabilities.
    right : float
        The estimated share that is truly missing.
    interval : pair of floats
        Of that share, 95 %.

    Examples
    --------
    >>> Bin(100, 0.9, 0.87, (0.7, 0.95)).size
    100
    """

    size: int
    stated: float
    right: float
    interval: tuple[float, float]


@dataclass(frozen=True, eq=False)
class Quality:
    """How good findings are.

    Parameters
    ----------
    way : {"rehearsed", "measured"}
        By labels hidden on top, which takes propensities to be right; or with an audit.
    precision : float
        The share of the listed findings that are truly missing; rehearsed, an unbiased estimate
        that chance can lift above 1.
    precision_interval : pair of floats
    recall : float
        The share of the missing labels (hidden on top, or judged) that are listed.
    recall_interval : pair of floats
    bins : tuple of Bin
        By probability, likeliest first.
    tried : int
        How many labels were hidden on top, or how many findings were judged.

    Examples
    --------
    >>> Quality("rehearsed", 0.9, (0.8, 0.95), 0.5, (0.4, 0.6), (), 100).calibration_error
    nan
    """

    way: str
    precision: float
    precision_interval: tuple[float, float]
    recall: float
    recall_interval: tuple[float, float]
    bins: tuple[Bin, ...]
    tried: int

    @property
    def calibration_error(self) -> float:
        """The mean of |stated − right| over the findings, bin by bin."""
        total = sum(each.size for each in self.bins)
        off = sum(each.size * abs(each.stated - each.right) for each in self.bins)
        return off / total if total else float("nan")

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        own = {name: getattr(self, name) for name in ("way", "precision", "recall", "tried")}
        return {
            **own,
            "precision_interval": list(self.precision_interval),
            "recall_interval": list(self.recall_interval),
            "calibration_error": self.calibration_error,
            "bins": [vars(each) | {"interval": list(each.interval)} for each in self.bins],
        }

    def _repr_html_(self) -> str:
        """What a notebook shows: precision, recall, and stated against estimated shares."""
        low, high = self.precision_interval
        caption = f"{self.precision:.0%} of the findings are right ({low:.0%} to {high:.0%}), "
        caption += f"{self.recall:.0%} of the missing labels are among them ({self.way})"
        rows = [[e.size, f"{e.stated:.3f}", f"{e.right:.3f}"] for e in self.bins]
        return html_table(caption, ["findings", "stated", "right"], rows)


@named_options
def rehearse(
    fit: Fit,
    labels: LabelsLike,
    propensity: PropensityLike,
    *,
    top: int = 1000,
    share: float = SHARE,
    seed: int = 0,
) -> Quality:
    """Hide some observed labels, find missing ones anew, and see what comes back.

    Parameters
    ----------
    fit : function (labels, propensity) → probabilities
        Trains on labels (n, L) of which more are hidden than of `labels`, with the propensities
        that they have, and returns probabilities of true labels, out of fold.
    labels : (n, L) matrix of 0 and 1
        Observed labels.
    propensity : (L,) floats in (0, 1]
        How likely a true label is observed.
    top : int, default 1000
        How many findings are looked at.
    share : float in (0, 0.5], default 0.1
        Of the observed labels, to be hidden on top.
    seed : int, default 0
        Decides which.

    Returns
    -------
    Quality
        Of findings on a little fewer labels than there are: slightly pessimistic.

    Raises
    ------
    ValueError
        If shapes do not fit, a number is out of range, or nothing was hidden.

    Examples
    --------
    >>> from unmask import data
    >>> true = data.synthetic.planted(500, n_labels=6, seed=0).labels
    >>> observed = data.hide(true, [0.5] * 6, seed=1)
    >>> quality = rehearse(lambda labels, p: 0.1 + 0.8 * true.toarray(), observed, [0.5] * 6)
    >>> quality.recall
    1.0
    """
    observed = checks.labels(labels)
    p = checks.propensity(propensity, observed.shape[1])
    checks.in_range(share, "share", np.finfo(float).tiny, 0.5)
    kept = hide(observed, np.full(p.size, 1.0 - share), seed=seed)
    rest = (1.0 - share) * p
    held = np.setdiff1d(pair_keys(observed), pair_keys(kept))
    if not held.size:
        raise ValueError("no label was hidden on top; there are too few, or the share is small.")
    findings = find(fit(kept, rest), kept, rest, top=top)
    back = share * p / (1.0 - rest)
    keys = findings.rows * p.size + findings.labels
    returned, chance = np.isin(keys, held).astype(np.float64), back[findings.labels]
    bins = tuple(
        Bin(
            part.stop - part.start,
            float(findings.probability[part].mean()),
            *_returned_share(returned[part], chance[part]),
        )
        for part in _bins(len(findings), float(chance.sum()))
    )
    recall = float(returned.sum()) / held.size
    return Quality(
        "rehearsed",
        *_returned_share(returned, chance),
        recall,
        _wilson(recall, held.size),
        bins,
        int(held.size),
    )


def measure(findings: Findings, judgements: Judgements, labels: LabelsLike) -> Quality:
    """How good findings are, by an audit of the same rows.

    Parameters
    ----------
    findings : Findings
        Of missing labels.
    judgements : Judgements
        Of an audit of rows or pairs (`unmask.audit`), planned without looking at the findings.
    labels : (n, L) matrix of 0 and 1
        The observed labels.

    Returns
    -------
    Quality
        Assuming nothing of what hid the labels.

    Raises
    ------
    ValueError
        If the audit is of other data, or none of the findings was judged.

    Examples
    --------
    >>> from unmask import TopK, audit, missing
    >>> labels, truth = [[1, 0]] * 8, np.array([[1, 1]] * 8)
    >>> plan = audit.plan(TopK([[0]] * 8, [[1.0]] * 8), labels, budget=4)
    >>> judged = audit.from_rows(plan, truth[plan.rows])
    >>> measure(missing.find([[0.9, 0.8]] * 8, labels, [0.5, 0.5]), judged, labels).precision
    1.0
    """
    observed = checks.labels(labels)
    sample, width = judgements.sample, observed.shape[1]
    if not sample.shape == observed.shape == findings.shape:
        raise ValueError(
            f"the audit is of {sample.shape} rows and labels, the labels of {observed.shape}, the "
            f"findings of {findings.shape}; give those of the same data."
        )
    asked, true, chance = _answers(judgements, width)
    hidden = ~np.isin(asked, pair_keys(observed))
    asked, true, chance = asked[hidden], true[hidden], chance[hidden]
    keys = findings.rows * width + findings.labels
    order = np.argsort(keys)
    place = np.minimum(np.searchsorted(keys[order], asked), max(keys.size - 1, 0))
    listed = keys[order][place] == asked if keys.size else np.zeros(asked.size, bool)
    if not listed.any():
        raise ValueError("none of the findings was judged; list more findings, or audit more rows.")
    weight = 1.0 / chance
    stated = findings.probability[order][place[listed]]
    falling = np.argsort(-stated, kind="stable")
    right, own = true[listed][falling], weight[listed][falling]
    stated = stated[falling]
    bins = tuple(
        Bin(
            part.stop - part.start,
            float(stated[part].mean()),
            *_weighted_share(right[part], own[part]),
        )
        for part in _bins(right.size, right.size)
    )
    positive = true > 0
    return Quality(
        "measured",
        *_weighted_share(right, own),
        *_weighted_share(listed[positive].astype(np.float64), weight[positive]),
        bins,
        right.size,
    )


def _answers(judgements: Judgements, width: int) -> tuple[Ints, Floats, Floats]:
    """Judged pairs, 1 where true, and their inclusion probabilities."""
    sample = judgements.sample
    if sample.unit == "pairs":
        return sample.rows * width + sample.pair_labels, judgements.answers, sample.probability
    rows = np.repeat(sample.rows, width)
    labels = np.tile(np.arange(width), sample.rows.size)
    true = judgements.true_labels.toarray().ravel().astype(np.float64)
    return rows * width + labels, true, np.repeat(sample.probability, width)


def _bins(count: int, trials: float) -> list[slice]:
    """Equal parts, of at least `FEWEST` labels that could come back each."""
    parts = max(1, min(BINS, int(trials / FEWEST)))
    ends = np.linspace(0, count, parts + 1).astype(int)
    return [slice(a, b) for a, b in pairwise(ends.tolist()) if b > a]


def _returned_share(returned: Floats, back: Floats) -> Share:
    """The share that is right, of findings that come back with chance `back` if they are."""
    share = float((returned / back).mean()) if back.size else float("nan")
    return share, _wilson(share, float(back.sum()))


def _weighted_share(right: Floats, weight: Floats) -> Share:
    """The share that is right, of judged pairs that stand for so many each."""
    share = float((right * weight).sum() / weight.sum()) if weight.size else float("nan")
    return share, _wilson(share, float(weight.sum() ** 2 / max((weight**2).sum(), 1e-300)))


def _wilson(share: float, trials: float) -> tuple[float, float]:
    if not trials > 0:
        return 0.0, 1.0
    low, high = wilson(min(share, 1.0), trials, z_quantile(0.95))
    return float(low), float(high)
