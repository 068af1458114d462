"""The options that evaluations share, typed once.

Functions that pass options on take `**options: Unpack[…]` of these; defaults are those of
`Evaluator` (and of `compare`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypedDict

from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from unmask.data import Hierarchy
    from unmask.data.judgements import Judgements
    from unmask.metrics.measured.covariates import CovariatesLike


class SharedOptions(TypedDict, total=False):
    """What evaluations and comparisons have in common."""

    confidence: float
    """Of intervals, in [0.5, 1); 0.95 by default."""
    replicates: int
    """Bootstrap replicates."""
    seed: int
    """Of the bootstrap, of drawn propensities and of `subsampled`; 0 by default."""
    tau: float | str
    """For `tempered`: a number in [0, 1], or "auto" (default) to let the data choose."""
    clip: float
    """For `clipped`: the largest 1/p used; 10 by default."""
    information: ArrayLike
    """For `Smin`: the information content of each of L labels; 1 by default."""


class EvaluatorOptions(SharedOptions, total=False):
    """The choices of an `Evaluator` beside metrics and estimators."""

    interval: str
    """"normal" (default), "percentile" or "bca"."""
    fraction: float
    """For `filtered`: the share of rows left out, half at either end; 0.01 by default."""


class GroupedOptions(EvaluatorOptions, total=False):
    """The options of an evaluation by group; one of them is given."""

    groups: Sequence[object]
    """The group of each of n rows."""
    label_groups: Sequence[object]
    """The group of each of L labels."""
    by: Literal["label"]
    """A table for every label."""


class EvaluateOptions(EvaluatorOptions, total=False):
    """The options of `evaluate`."""

    metrics: Sequence[str] | None
    """Such as "R@5"; by default P, R and nDCG at 1, 3 and 5."""
    estimators: Sequence[str] | None
    """By default vanilla and, with propensities, unbiased."""
    draws: int
    """How many propensity vectors are drawn from an estimate; 100 by default."""


class AuditedOptions(EvaluateOptions, total=False):
    """The options of `evaluate`, with what is known beside the labels."""

    audit: Judgements | None
    """Of a plan of `unmask.audit`, by which metrics are measured."""
    covariates: CovariatesLike | None
    """With an audit: what else is known of all rows or pairs."""
    hierarchy: Hierarchy | None
    """By which labels and predictions get their ancestors."""


class GroupedAuditedOptions(AuditedOptions, GroupedOptions, total=False):
    """The same, by group."""


class CompareOptions(SharedOptions, total=False):
    """The options of `compare` beside metrics and estimators."""

    draws: int
    """How many propensity vectors are drawn from an estimate; 100 by default."""
