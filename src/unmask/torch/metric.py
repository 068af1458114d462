"""Ranking metrics in a torch loop: update with batches, compute over all of them and all ranks.

The interface of a torchmetrics metric (`update`, `compute`, `reset`, and a call that updates and
returns the value of the batch), without depending on that package. The state is an
`unmask.Evaluator`, whose sums are exact: what several ranks add up to is what one would compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, distributed, nn

from unmask._typing import PropensityLike
from unmask.metrics import Evaluator, Table
from unmask.metrics.options import EvaluatorOptions
from unmask.metrics.registry import split
from unmask.predictions import TopK
from unmask.torch.targets import label_index


class RankingMetrics(nn.Module):
    """P@k, R@k, nDCG@k … of logits, estimated from incomplete targets.

    Targets are as in `MissingLabelLoss`. The top `k` logits are found on their own device, equal
    ones by smaller label; −inf is never predicted, NaN and +inf are refused. `compute` gathers over
    the process group where there is one, and returns the table of estimates; `values` the same as
    a flat dict of numbers for a logger.

    Parameters
    ----------
    propensity : (L,) floats in (0, 1], optional
        Needed by all estimators but vanilla.
    metrics : sequence of str
        Such as "R@5".
    estimators : sequence of str, default ("vanilla",)
    **options : EvaluatorOptions
        As in `unmask.Evaluator`.

    Examples
    --------
    >>> import torch
    >>> metric = RankingMetrics([0.5, 0.5], metrics=["P@1"], estimators=["vanilla", "unbiased"])
    >>> metric.update(torch.tensor([[2.0, 1.0]]), torch.tensor([[1.0, 0.0]]))
    >>> metric.values()
    {'P@1/vanilla': 1.0, 'P@1/unbiased': 2.0}
    """

    def __init__(
        self,
        propensity: PropensityLike | None = None,
        *,
        metrics: Sequence[str],
        estimators: Sequence[str] = ("vanilla",),
        **options: Unpack[EvaluatorOptions],
    ) -> None:
        """See the class."""
        super().__init__()
        self._metrics, self._estimators = list(metrics), list(estimators)
        self._options = options
        self._propensity = propensity
        self.reset()
        cut_offs = [split(name)[1] for name in metrics]
        numbers = [cut_off for cut_off in cut_offs if cut_off is not None]
        self._longest = max(numbers) if len(numbers) == len(cut_offs) else None

    def reset(self) -> None:
        """Forget all rows."""
        self._state = self._empty()

    def _empty(self) -> Evaluator:
        return Evaluator(
            self._propensity,
            metrics=self._metrics,
            estimators=self._estimators,
            **self._options,
        )

    def update(self, logits: Tensor, targets: Tensor) -> None:
        """Take in the rows of a batch: logits (n, L), and targets as in `MissingLabelLoss`."""
        self._state.update(self._top(logits), _labels(targets, logits.shape))

    def forward(self, logits: Tensor, targets: Tensor) -> Table:
        """Take in a batch and return the estimates of that batch alone."""
        top, labels = self._top(logits), _labels(targets, logits.shape)
        self._state.update(top, labels)
        return self._empty().update(top, labels).compute()

    def compute(self) -> Table:
        """The estimates over all rows of all ranks."""
        if not (distributed.is_available() and distributed.is_initialized()):
            return self._state.compute()
        states: list[Evaluator] = [self._state] * distributed.get_world_size()
        distributed.all_gather_object(states, self._state)  # every rank's state takes its place
        merged = self._empty()
        for state in states:
            merged.merge(state)
        return merged.compute()

    def values(self) -> dict[str, float]:
        """`compute` as `metric/estimator` → value."""
        return {f"{each.metric}/{each.estimator}": each.value for each in self.compute()}

    def _top(self, logits: Tensor) -> TopK:
        if not isinstance(logits, Tensor) or logits.ndim != 2 or logits.is_complex():
            raise ValueError("logits must be a tensor of real numbers, rows × labels.")
        n_labels = logits.shape[1]
        k = n_labels if self._longest is None else min(self._longest, n_labels)
        scores, labels = _best(logits.detach().float(), k)
        labels = labels.where(scores != -torch.inf, -1)
        return TopK.sorted(labels.cpu().numpy(), scores.cpu().numpy())


def _best(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest of every row; where more are equal to the last of them, the smaller labels."""
    best, labels = scores.topk(k, dim=1)
    tied = ((scores >= best[:, -1:]).sum(1) > k).nonzero()[:, 0] if k else ()
    if len(tied):
        ordered = scores[tied].sort(dim=1, descending=True, stable=True)
        best[tied], labels[tied] = ordered.values[:, :k], ordered.indices[:, :k]
    return best, labels


def _labels(targets: Tensor, shape: tuple[int, ...]) -> sp.csr_array:
    index = label_index(targets, shape).cpu().numpy()
    kept = index >= 0
    indptr = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    return sp.csr_array((np.ones(indptr[-1]), index[kept], indptr), shape=tuple(shape))
