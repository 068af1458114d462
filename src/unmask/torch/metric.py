"""Metrics in a torch loop: update with batches, compute over all of them and all ranks.

The classes are metrics of torchmetrics where that package is installed, so that Lightning logs them
and a `MetricCollection` holds them; without it they have the same interface (`update`, `compute`,
`reset`, and a call that updates and returns the value of the batch). The state is an
`unmask.Evaluator`, whose sums are exact: what several ranks add up to is what one would compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import ArrayLike
from torch import Tensor, distributed, nn

from unmask._messages import named_options
from unmask._typing import PropensityLike
from unmask.metrics import Evaluator, Table
from unmask.metrics.registry import split
from unmask.metrics.request import Predictions, Request
from unmask.predictions import LabelSets, TopK
from unmask.torch.output import largest
from unmask.torch.targets import Targets, label_index

if TYPE_CHECKING:
    _Base = nn.Module
else:
    try:
        from torchmetrics import Metric as _Base
    except ImportError:
        _Base = nn.Module

Value: TypeAlias = "Tensor | dict[str, Tensor]"
"""One number where one metric by one estimator was asked for, else a dict of them by name."""


class _EvaluatorMetric(_Base):
    """An evaluator that is fed with batches of logits; subclasses say what is predicted."""

    is_differentiable = False
    higher_is_better = None
    full_state_update = False

    @named_options
    def __init__(
        self,
        propensity: PropensityLike | None = None,
        *,
        metrics: Sequence[str],
        estimators: Sequence[str] = ("vanilla",),
        confidence: float = 0.95,
        interval: str = "normal",
        replicates: int = 1000,
        seed: int = 0,
        tau: float | str = "auto",
        clip: float = 10.0,
        fraction: float = 0.01,
        information: ArrayLike | None = None,
        complete: bool = False,
    ) -> None:
        """See the class."""
        super().__init__()
        request = Request(
            metrics, estimators, confidence, interval, replicates, seed, tau, clip, fraction,
            information, complete,
        )  # fmt: skip
        self._request = request.checked(propensity)
        self._propensity = propensity
        self._evaluator = self._empty()

    def reset(self) -> None:
        """Forget all rows."""
        if _Base is not nn.Module:
            super().reset()  # type: ignore[misc]
        self._evaluator = self._empty()

    def update(self, logits: Tensor, targets: Targets) -> None:
        """Take in the rows of a batch: logits (n, L), and targets as in `MissingLabelLoss`."""
        self._evaluator.update(*self._rows(logits, targets))

    def forward(self, logits: Tensor, targets: Targets) -> Value:
        """Take in a batch and return the estimates of that batch alone."""
        rows = self._rows(logits, targets)
        self._evaluator.update(*rows)
        value = _as_value(self._empty().update(*rows).compute())
        # what torchmetrics keeps of a call
        self._update_count, self._computed = getattr(self, "_update_count", 0) + 1, None
        self._forward_cache = value
        return value

    def compute(self) -> Value:
        """Return the estimates over all rows of all ranks, as tensors."""
        return _as_value(self.table())

    def table(self) -> Table:
        """Return the estimates over all rows of all ranks, with intervals and verdicts."""
        if not (distributed.is_available() and distributed.is_initialized()):
            return self._evaluator.compute()
        states: list[Evaluator] = [self._evaluator] * distributed.get_world_size()
        distributed.all_gather_object(states, self._evaluator)  # each rank's takes its place
        merged = self._empty()
        for state in states:
            merged.merge(state)
        return merged.compute()

    def values(self) -> dict[str, float]:
        """Return the estimates over all rows of all ranks, as `metric/estimator` → value."""
        return _by_name(self.table())

    def _empty(self) -> Evaluator:
        return Evaluator.asked(self._request, self._propensity)

    def _rows(self, logits: Tensor, targets: Targets) -> tuple[Predictions, sp.csr_array]:
        if not isinstance(logits, Tensor) or logits.ndim != 2 or logits.is_complex():
            raise ValueError("logits must be a tensor of real numbers, rows × labels.")
        return self._predictions(logits.detach().float()), _labels(targets, logits.shape)

    def _predictions(self, logits: Tensor) -> Predictions:
        raise NotImplementedError


class RankingMetrics(_EvaluatorMetric):
    """P@k, R@k, nDCG@k … of logits, estimated from incomplete targets.

    Targets are as in `MissingLabelLoss`. The top `k` logits are found on their own device, equal
    ones by smaller label; −inf is never predicted, NaN and +inf are refused. `compute` gathers over
    the process group where there is one. It returns one number for one metric by one estimator,
    which Lightning's `self.log` takes, and else a dict of them; `table` returns the table of
    estimates with intervals and verdicts, `values` a dict of floats. A `torchmetrics.Metric` where
    torchmetrics is installed.

    Parameters
    ----------
    propensity : (L,) floats in (0, 1], optional
        Needed by all estimators but vanilla.
    metrics : sequence of str
        Such as "R@5".
    estimators : sequence of str, default ("vanilla",)
    confidence, interval, replicates, seed, tau, clip, fraction, information, complete
        As in `unmask.Evaluator`.

    Examples
    --------
    >>> import torch
    >>> metric = RankingMetrics([0.5, 0.5], metrics=["P@1"], estimators=["vanilla", "unbiased"])
    >>> metric.update(torch.tensor([[2.0, 1.0]]), torch.tensor([[1.0, 0.0]]))
    >>> metric.values()
    {'P@1/vanilla': 1.0, 'P@1/unbiased': 2.0}
    """

    def _predictions(self, logits: Tensor) -> TopK:
        cut_offs = [split(name)[1] for name in self._request.metrics]
        k = max(logits.shape[1] if each is None else each for each in cut_offs)
        scores, labels = largest(logits, min(k, logits.shape[1]))
        labels = labels.where(scores != -torch.inf, -1)
        return TopK.sorted(labels.cpu().numpy(), scores.cpu().numpy())


class SetMetrics(_EvaluatorMetric):
    """Sample, micro and macro F1 … of the labels above a threshold, from incomplete targets.

    Parameters
    ----------
    propensity : (L,) floats in (0, 1], optional
        Needed by all estimators but vanilla.
    metrics : sequence of str
        Such as "sample-F1" and "micro-R"; see the guide on sets.
    estimators : sequence of str, default ("vanilla",)
    threshold : float or (L,) floats, default 0.0
        The logits from which on a label is predicted; 0 is a probability of one half.
    confidence, interval, replicates, seed, tau, clip, fraction, information, complete
        As in `unmask.Evaluator`.

    Examples
    --------
    >>> metric = SetMetrics([0.5, 0.5], metrics=["micro-P"], estimators=["unbiased"])
    >>> metric(torch.tensor([[2.0, -1.0], [1.0, 3.0]]), [[0], []])
    tensor(0.6667, dtype=torch.float64)
    """

    @named_options
    def __init__(
        self,
        propensity: PropensityLike | None = None,
        *,
        metrics: Sequence[str],
        estimators: Sequence[str] = ("vanilla",),
        threshold: float | Sequence[float] | Tensor = 0.0,
        confidence: float = 0.95,
        interval: str = "normal",
        replicates: int = 1000,
        seed: int = 0,
        tau: float | str = "auto",
        clip: float = 10.0,
        fraction: float = 0.01,
        information: ArrayLike | None = None,
        complete: bool = False,
    ) -> None:
        """See the class."""
        super().__init__(
            propensity, metrics=metrics, estimators=estimators, confidence=confidence,
            interval=interval, replicates=replicates, seed=seed, tau=tau, clip=clip,
            fraction=fraction, information=information, complete=complete,
        )  # fmt: skip
        self._threshold = np.asarray(threshold, dtype=np.float64)

    def _predictions(self, logits: Tensor) -> LabelSets:
        return LabelSets.from_scores(logits.cpu().numpy(), self._threshold)


class ScoreMetrics(_EvaluatorMetric):
    """mAP, AUC, Brier, log-loss … of all scores, from incomplete targets.

    Parameters
    ----------
    propensity : (L,) floats in (0, 1], optional
        Needed by all estimators but vanilla.
    metrics : sequence of str
        Such as "mAP" and "Brier".
    estimators : sequence of str, default ("vanilla",)
    probabilities : bool, default True
        Whether the metrics read σ(logits); ranks are the same either way.
    confidence, interval, replicates, seed, tau, clip, fraction, information, complete
        As in `unmask.Evaluator`.

    Examples
    --------
    >>> metric = ScoreMetrics(metrics=["Brier"])
    >>> metric(torch.tensor([[0.0, 0.0], [0.0, 0.0]]), [[0], []])
    tensor(0.2500, dtype=torch.float64)
    """

    @named_options
    def __init__(
        self,
        propensity: PropensityLike | None = None,
        *,
        metrics: Sequence[str],
        estimators: Sequence[str] = ("vanilla",),
        probabilities: bool = True,
        confidence: float = 0.95,
        interval: str = "normal",
        replicates: int = 1000,
        seed: int = 0,
        tau: float | str = "auto",
        clip: float = 10.0,
        fraction: float = 0.01,
        information: ArrayLike | None = None,
        complete: bool = False,
    ) -> None:
        """See the class."""
        super().__init__(
            propensity, metrics=metrics, estimators=estimators, confidence=confidence,
            interval=interval, replicates=replicates, seed=seed, tau=tau, clip=clip,
            fraction=fraction, information=information, complete=complete,
        )  # fmt: skip
        self._probabilities = probabilities

    def _predictions(self, logits: Tensor) -> Any:
        return (logits.double().sigmoid() if self._probabilities else logits).cpu().numpy()


def _by_name(table: Table) -> dict[str, float]:
    return {f"{each.metric}/{each.estimator}": each.value for each in table}


def _as_value(table: Table) -> Value:
    values = {
        name: torch.tensor(value, dtype=torch.float64) for name, value in _by_name(table).items()
    }
    return next(iter(values.values())) if len(values) == 1 else values


def _labels(targets: Targets, shape: tuple[int, ...]) -> sp.csr_array:
    index = label_index(targets, shape).cpu().numpy()
    kept = index >= 0
    indptr = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    return sp.csr_array((np.ones(indptr[-1]), index[kept], indptr), shape=tuple(shape))
