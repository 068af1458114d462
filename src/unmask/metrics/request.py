"""`Request`: everything that an evaluation can be asked, checked once and passed on.

Every door (`evaluate`, `Evaluator`, `compare`, the scorer, metrics of training loops …) names its
options in full, makes a request of them, and hands that to whoever computes. `checked` then refuses
options that would have no effect: `NEEDS` says what each of them needs. Below it, what is
evaluated: rankings, sets and scores, and which metrics fit them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from unmask._messages import setting
from unmask._typing import Floats, PropensityLike, ScoresLike
from unmask.arrays import checks
from unmask.metrics.intervals import INTERVALS
from unmask.metrics.registry import ESTIMATORS, METRICS, split
from unmask.predictions import LabelSets, TopK
from unmask.propensity.estimate import PropensityEstimate
from unmask.propensity.mask_model import MaskModel

if TYPE_CHECKING:
    from unmask.data import Dataset, Hierarchy
    from unmask.data.judgements import Judgements
    from unmask.metrics.measured.context import CovariatesLike

Predictions: TypeAlias = "TopK | LabelSets | ScoresLike"
"""The best labels of every row, a set of them, or scores of all."""

MEASURED = "measured"
DRAWS = 100
"""Vectors drawn from an estimate: enough to know a standard error to 7 %."""
OF_SETS = ("sample-P", "sample-R", "sample-F1", "micro-P", "micro-R", "micro-F1", "macro-F1")
"""Metrics that are estimated of sets if nothing is said."""


@dataclass(frozen=True)
class Request:
    """Everything that is asked about some rows, whatever rows those are.

    Parameters
    ----------
    metrics, estimators : sequence of str
    confidence, interval, replicates, seed, tau, clip, fraction, information, complete
        As in `Evaluator`.
    draws, audit, covariates, hierarchy, groups, label_groups, by
        As in `evaluate`.

    Raises
    ------
    ValueError
        If a name is unknown, a number outside its range, or two options exclude each other.

    Examples
    --------
    >>> Request(["R@5"], confidence=0.9).interval
    'normal'
    >>> Request(["R@5"], clip=0.5)
    Traceback (most recent call last):
    ValueError: clip must lie in [1, inf]; got 0.5.
    >>> Request(["R@5"], clip=5).checked(None)
    Traceback (most recent call last):
    ValueError: clip has no effect without the estimator `clipped`; leave it out, or add that.
    """

    metrics: Sequence[str]
    estimators: Sequence[str] = ("vanilla",)
    confidence: float = field(default=0.95, metadata={"help": "Confidence of the intervals."})
    interval: str = field(default="normal", metadata={"help": "normal, percentile or bca."})
    replicates: int = 1000
    seed: int = 0
    tau: float | str = "auto"
    clip: float = 10.0
    fraction: float = 0.01
    information: ArrayLike | None = field(default=None, compare=False)
    complete: bool = False
    draws: int = DRAWS
    audit: Judgements | None = field(default=None, compare=False)
    covariates: CovariatesLike | None = field(default=None, compare=False)
    hierarchy: Hierarchy | None = field(default=None, compare=False)
    groups: Sequence[object] | None = field(default=None, compare=False)
    label_groups: Sequence[object] | None = field(default=None, compare=False)
    by: str | None = None

    def __post_init__(self) -> None:
        """Check every choice by itself, and what excludes what."""
        for names, kind in ((self.metrics, "metrics"), (self.estimators, "estimators")):
            if isinstance(names, str) or not names:
                raise ValueError(f"{kind} must be a list of names, like ['R@5']; got {names!r}.")
            object.__setattr__(self, kind, tuple(names))
        for name in self.metrics:
            split(name)
        for name in self.estimators:
            if name != MEASURED or self.audit is None:
                checks.one_of(name, ESTIMATORS, "estimator")
        checks.one_of(self.interval, INTERVALS, "interval")
        checks.confidence(self.confidence)
        object.__setattr__(self, "clip", float(checks.in_range(self.clip, "clip", 1, np.inf)))
        checks.in_range(self.fraction, "fraction", 0, 0.99)
        checks.in_range(checks.positive_int(self.replicates, "replicates"), "replicates", 2, np.inf)
        checks.positive_int(self.draws, "draws")
        if isinstance(self.tau, str):
            checks.one_of(self.tau, ["auto"], "tau")
        else:
            checks.in_range(self.tau, "tau", 0, 1)
        if self.information is not None:
            object.__setattr__(self, "information", _information(self.information))
        if self.by is not None:
            checks.one_of(self.by, ["label"], "by")
        self._refuse_exclusive()

    def _refuse_exclusive(self) -> None:
        """Raise where options exclude each other."""
        named = [each for each in (self.groups, self.label_groups, self.by) if each is not None]
        if len(named) > 1 or (named and self.audit is not None):
            raise ValueError(
                "give groups of rows or of labels, and no audit: an audit is planned for all rows."
            )
        if self.audit is None:
            return
        from unmask.data.judgements import Judgements

        if not isinstance(self.audit, Judgements):
            raise ValueError(
                "an audit is judgements of a random sample (`audit.from_rows`, "
                f"`audit.from_pairs`); got {type(self.audit).__name__}. Answers about pairs that "
                "were chosen by score repair the data (`missing.complete`), but pairs that were "
                "never asked about would be left out of every metric."
            )
        if self.hierarchy is not None:
            raise ValueError("an audit judges labels as they are; leave out the hierarchy.")
        if self.complete:
            complete = setting("complete", True, of="evaluate")
            raise ValueError(
                "an audit measures what the recorded labels lack, and labels that are declared "
                f"complete lack nothing; leave out the audit, or {complete}."
            )

    @property
    def grouped(self) -> bool:
        """True if a table is asked for every group, of rows or of labels."""
        return any(each is not None for each in (self.groups, self.label_groups, self.by))

    def _given(self, name: str) -> bool:
        """True if an option differs from its default."""
        value, default = getattr(self, name), DEFAULTS[name]
        return value is not default if default is None else value != default

    def checked(self, propensity: PropensityLike | None) -> Request:
        """The request, none of whose options is without effect under such propensities.

        Parameters
        ----------
        propensity : as in `evaluate`

        Returns
        -------
        Request
            Itself.

        Raises
        ------
        ValueError
            If an option has no effect, or labels are declared complete beside propensities that
            say otherwise.
        """
        for name, (needed, is_there) in NEEDS.items():
            if self._given(name) and not is_there(self, propensity):
                raise ValueError(
                    f"{name} has no effect without {needed}; leave it out, or add that."
                )
        self.refuse_loss(propensity)
        return self

    def refuse_loss(self, propensity: PropensityLike | None) -> None:
        """Raise if labels are declared complete, and the propensities say that some are missing.

        Parameters
        ----------
        propensity : as in `evaluate`

        Raises
        ------
        ValueError
        """
        if self.complete and propensity is not None and not _all_one(propensity):
            raise ValueError(
                f"{setting('complete', True, of='evaluate')} says that no label is missing, the "
                "propensities say that some are; leave out one of them."
            )


DEFAULTS = {each.name: each.default for each in fields(Request)}
Needed = Callable[[Request, "PropensityLike | None"], bool]


def _estimator(name: str) -> tuple[str, Needed]:
    return f"the estimator `{name}`", lambda request, _: name in request.estimators


NEEDS: dict[str, tuple[str, Needed]] = {
    "tau": _estimator("tempered"),
    "clip": _estimator("clipped"),
    "fraction": _estimator("filtered"),
    "information": ("the metric Smin", lambda request, _: "Smin" in request.metrics),
    "interval": (
        "an estimator beside `measured`",
        lambda request, _: set(request.estimators) != {MEASURED},
    ),
    "replicates": (
        "interval='percentile' or 'bca'", lambda request, _: request.interval != "normal"
    ),
    "draws": ("an estimate of propensities", lambda _, propensity: uncertain(propensity)),
    "covariates": ("an audit", lambda request, _: request.audit is not None),
}  # fmt: skip
"""Need of each option, in words, and whether that is there."""


def default_metrics(top: Predictions) -> list[str]:
    """Return what is estimated by default: P, R and nDCG of rankings, F1 and its like of sets."""
    if isinstance(top, LabelSets):
        return list(OF_SETS)
    width = top.k if isinstance(top, TopK) else checks.width(top, "scores")
    if width < 1:
        raise ValueError("there are no predictions to evaluate; give at least one per row.")
    return [f"{name}@{k}" for k in (1, 3, 5) if k <= width for name in ("P", "R", "nDCG")]


def default_estimators(propensity: object) -> list[str]:
    """Return the default estimators: vanilla and, with propensities, unbiased."""
    return ["vanilla"] if propensity is None else ["vanilla", "unbiased"]


def is_dataset(labels: object) -> TypeGuard[Dataset]:
    """Return whether labels are those of a data set; its room is not imported to tell."""
    return hasattr(labels, "label_names") and hasattr(labels, "judgements")


def uncertain(propensity: object) -> TypeGuard[PropensityEstimate | MaskModel]:
    """Return whether propensities are an estimate, of which vectors can be drawn."""
    if isinstance(propensity, MaskModel):
        return not propensity.certain
    return isinstance(propensity, PropensityEstimate)


def _information(information: ArrayLike) -> Floats:
    values = np.asarray(checks.numbers(information, "information"), dtype=np.float64)
    if values.ndim != 1 or not (np.isfinite(values).all() and (values >= 0).all()):
        raise ValueError("information must hold a number of at least 0 for each label.")
    return values


def _all_one(propensity: PropensityLike) -> bool:
    """True if propensities of any form say that no label is missing."""
    if checks.is_sparse(propensity):
        return bool((propensity.tocsr().data == 1).all())
    return bool((checks.propensity(getattr(propensity, "value", propensity)) == 1).all())


def of_scores(metrics: Sequence[str]) -> list[str]:
    """Return those of the metrics that read the scores of every label."""
    return [name for name in metrics if METRICS[split(name)[0]].reads != "list"]


def refuse_ignored(metrics: Sequence[str], ignored: int) -> None:
    """Raise where pairs are to be ignored and a metric counts every pair."""
    counting = of_scores([name for name in metrics if name.partition("@")[0] in METRICS])
    if ignored and counting:
        raise ValueError(
            f"{', '.join(counting)} count every pair of a row and a label, but {ignored:,} pairs "
            "are to be ignored; leave out these metrics, or the judgements."
        )


def as_top(top: Predictions, metrics: Sequence[str]) -> TopK:
    """Return a ranking: the best scores that metrics look at, or sets as lists without order."""
    if isinstance(top, TopK):
        return top
    names = [(name, *split(name)) for name in metrics]
    if isinstance(top, LabelSets):
        for name, metric, k in names:
            if k is not None or not METRICS[metric].of_sets:
                raise ValueError(
                    f"{name} needs an order, and sets have none; give scores or a TopK, or ask "
                    f"for metrics of sets, such as {', '.join(OF_SETS)}."
                )
        return top.as_top()
    n_labels = checks.width(top, "scores")
    for name, metric, k in names:
        if k is None and METRICS[metric].of_sets and not sp.issparse(top):
            raise ValueError(
                f"{name} needs to know which labels are predicted; give "
                f"`LabelSets.from_scores(scores, threshold)`, or cut the ranking, like {name}@5."
            )
    longest = max(k or n_labels for _, _, k in names)
    return TopK.from_scores(top, min(longest, n_labels))
