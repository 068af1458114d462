"""The loss module: observed labels → weights → value and gradient, two passes over the logits."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from unmask import _validation, losses
from unmask._kernels.weights import gauss_legendre
from unmask._typing import Floats, LabelsLike, PropensityLike
from unmask.losses import Loss, Observed, _loss
from unmask.propensity.mask_model import refuse_for_weights
from unmask.propensity.models import reciprocal
from unmask.torch.targets import invalid_rows, label_index
from unmask.weights import CORRECTIONS, Weights, count_distribution, formulas
from unmask.weights.formulas import Rectangle

_USUAL = {"ova": "logistic", "pal": "softmax", "pairwise": "pairwise_logistic"}
_OVER_BATCH = ("mean", "sum", "none")


class MissingLabelLoss(nn.Module):
    """A multilabel loss on logits, corrected for labels that go missing.

    The value of a row is Σ over its labels (or pairs) of the loss, weighted as in `unmask.weights`.

    Targets are dense 0/1, a sparse COO or CSR tensor, or label numbers (n, m) filled up with −1. A
    label that a row names twice, or that does not exist, is refused; inside a compiled graph, which
    cannot stop, it makes the loss of its row NaN.

    Logits of half precision are computed in float32. A logit of −inf ("never predict this") adds
    the limit of the loss, which is 0 for unobserved labels and all losses but the squared error;
    NaN makes the loss of its row NaN, and other infinite logits make it infinite or NaN. No rows at
    all have the loss 0 and no gradient. Weights beyond the range of float32 (many labels of low
    propensity, normalised and unbiased) make the loss infinite: use "bound".

    Parameters
    ----------
    propensity : (L,) numbers in (0, 1]
        P(observed | relevant), one per label; saved in the `state_dict`.
    loss : Loss or str, optional
        A loss, or its name in `losses.LOSSES`; it brings its reduction along. By default the usual
        one of the reduction: logistic, softmax or pairwise_logistic.
    reduction : {"ova", "pal", "pairwise"}, optional
        Instead of naming a loss; "ova" by default.
    normalized : bool, default False
        Whether a row's loss is divided among its labels (for recall).
    correction : str, default "unbiased"
        A name in `weights.CORRECTIONS`.
    tau : float in [0, 1], default 0.5
        How much to correct, for "tempered".
    labels : (n, L) matrix of 0 and 1, optional
        The training labels, for "empirical_bayes", which learns the distribution of label counts
        from them once.
    reduction_over_batch : {"mean", "sum", "none"}, default "mean"
        The mean over rows, their sum, or the (n,) values.

    Raises
    ------
    ValueError
        If propensities are out of range, a name is unknown, or the combination does not exist.

    Warns
    -----
    UnboundedLossWarning
        Once, where the combination is unbounded below (see `Loss.describe`).

    References
    ----------
    Schultheis & Babbar, *Unbiased loss functions for multilabel classification with missing labels*
    (2021).

    Examples
    --------
    >>> loss = MissingLabelLoss([0.5, 0.8, 0.9], loss="softmax")
    >>> logits = torch.zeros(2, 3, requires_grad=True)
    >>> loss(logits, torch.tensor([[0, 2], [1, -1]]))  # rows with labels {0, 2} and {1}
    tensor(2.3956, grad_fn=<_BatchLossBackward>)
    """

    inverse_propensity: Tensor
    share: Tensor

    def __init__(
        self,
        propensity: PropensityLike,
        *,
        loss: Loss | str | None = None,
        reduction: str | None = None,
        normalized: bool = False,
        correction: str = "unbiased",
        tau: float = 0.5,
        labels: LabelsLike | None = None,
        reduction_over_batch: str = "mean",
    ) -> None:
        """See the class."""
        super().__init__()
        self.loss = _choose(loss, reduction)
        self.correction = _validation.one_of(correction, CORRECTIONS, "correction")
        self.normalized = normalized
        self.over_batch = _validation.one_of(
            reduction_over_batch, _OVER_BATCH, "reduction_over_batch"
        )
        self.tau = _validation.in_range(tau, "tau", 0, 1)
        _refuse(self.loss, correction, normalized, labels)
        refuse_for_weights(propensity, normalized=normalized)
        values = _validation.propensity(propensity)
        inverse = np.append(reciprocal(values), 0)
        self.register_buffer("inverse_propensity", torch.as_tensor(inverse))
        self.register_buffer("share", _share(correction, labels, values))
        if (values < 1).any():
            losses.warn_if_unbounded(self.loss, correction, normalized=normalized)

    def forward(
        self, logits: Tensor, targets: Tensor | None = None, *, weights: Weights | None = None
    ) -> Tensor:
        """The loss of a batch.

        Parameters
        ----------
        logits : (n, L) tensor
        targets : tensor, optional
            Observed labels; see the class.
        weights : Weights, optional
            Precomputed label weights of the batch's rows, instead of targets.

        Returns
        -------
        tensor
            One number, or (n,) for `reduction_over_batch="none"`.

        Raises
        ------
        ValueError
            If shapes do not fit, or targets are not 0/1 or no label numbers.
        """
        _refuse_logits(logits)
        observed = self._observe(logits, targets, weights)
        dtype = torch.promote_types(logits.dtype, torch.float32)
        pos = observed.pos.to(dtype)
        cut = None if observed.cut is observed.pos else observed.cut.to(dtype)
        value: Tensor = _BatchLoss.apply(  # type: ignore[no-untyped-call]
            logits.to(dtype), observed.index, pos, cut, self.loss, self.over_batch
        )
        return value

    def extra_repr(self) -> str:
        """What `print(module)` shows."""
        kind = "normalised" if self.normalized else "plain"
        return f"{self.loss.name}, {self.loss.reduction}, {kind}, {self.correction}"

    def _observe(self, logits: Tensor, targets: Tensor | None, weights: Weights | None) -> Observed:
        if (targets is None) == (weights is None):
            raise ValueError("give either targets or weights; got both or neither.")
        if weights is not None:
            return _precomputed(weights, logits)
        assert targets is not None  # noqa: S101 - checked above
        n_labels = len(self.inverse_propensity) - 1
        if logits.shape[1:] != (n_labels,):
            raise ValueError(
                f"logits of shape {tuple(logits.shape)} for {n_labels} propensities; "
                "give logits of rows × labels and one propensity per label."
            )
        index = label_index(targets, logits.shape)
        invalid = None
        if torch.compiler.is_compiling():
            invalid = invalid_rows(index, n_labels)[:, None]
            index = index.clamp(max=n_labels - 1)
        inverse = self.inverse_propensity.take(index)  # −1 is the last entry, 0
        pos, cut = self._weigh(inverse)
        if invalid is not None:
            marked = pos.masked_fill(invalid, torch.nan)
            pos, cut = marked, marked if cut is pos else cut
        return Observed(index.clamp(min=0), pos, cut)

    def _weigh(self, inverse: Tensor) -> tuple[Tensor, Tensor]:
        entries = Rectangle(inverse, _rule)
        if self.correction == "tempered":
            tempered = formulas.tempered_inverse(inverse, entries.ones(), self.tau)
            entries = Rectangle(tempered, _rule)
        weights: tuple[Tensor, Tensor] = formulas.weigh(
            self.correction,
            entries,
            normalized=self.normalized,
            reduction=self.loss.reduction,
            share=self.share,
        )
        return weights


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _rule(count: int) -> tuple[Floats, Floats]:
    """Gauss–Legendre nodes and weights on [0, 1], which a compiled graph takes as constants."""
    return gauss_legendre(count)


class Context(Protocol):
    """What forward leaves for backward."""

    loss: Loss
    over_batch: str
    saved_tensors: tuple[Tensor, Tensor, Tensor, Tensor | None]

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors."""
        ...


class _BatchLoss(torch.autograd.Function):
    """`losses` with its own gradient as backward: no intermediate of the logits' size is kept."""

    @staticmethod
    def forward(
        ctx: Context,
        scores: Tensor,
        index: Tensor,
        pos: Tensor,
        cut: Tensor | None,
        loss: Loss,
        over_batch: str,
    ) -> Tensor:
        """`cut` is None where it equals `pos`."""
        ctx.save_for_backward(scores, index, pos, cut)
        ctx.loss, ctx.over_batch = loss, over_batch
        rows: Tensor = _loss.rows(loss, scores, Observed(index, pos, pos if cut is None else cut))
        if over_batch == "none":
            return rows
        return rows.sum() / _divisor(over_batch, scores)

    @staticmethod
    def backward(ctx: Context, grad: Tensor) -> tuple[Tensor | None, ...]:
        scores, index, pos, cut = ctx.saved_tensors
        observed = Observed(index, pos, pos if cut is None else cut)
        slope: Tensor = _loss.gradient(ctx.loss, scores, observed)
        by_row = (
            grad[:, None] if ctx.over_batch == "none" else grad / _divisor(ctx.over_batch, scores)
        )
        return slope.mul_(by_row), None, None, None, None, None


def _refuse_logits(logits: Tensor) -> None:
    plain = isinstance(logits, Tensor) and logits.layout is torch.strided
    if not plain or logits.ndim != 2 or logits.is_complex():
        kind = f"{logits.dtype} in shape {tuple(logits.shape)}" if plain else "something else"
        raise ValueError(f"logits must be a dense tensor of real numbers, n × L; got {kind}.")


def _divisor(over_batch: str, scores: Tensor) -> int:
    return max(1, scores.shape[0]) if over_batch == "mean" else 1


def _choose(loss: Loss | str | None, reduction: str | None) -> Loss:
    if loss is None:
        return losses.get(_USUAL[_validation.one_of(reduction or "ova", _USUAL, "reduction")])
    chosen = losses.get(loss)
    if reduction not in (None, chosen.reduction):
        raise ValueError(
            f"{chosen.name} is a loss of the reduction {chosen.reduction!r}, not {reduction!r}; "
            "leave `reduction` out or choose another loss."
        )
    return chosen


def _refuse(loss: Loss, correction: str, normalized: bool, labels: LabelsLike | None) -> None:
    if loss.slope is None:
        raise ValueError(f"{loss.name} is for evaluation only; train with logistic or hinge.")
    formulas.refuse_combination(correction, normalized, loss.reduction)
    if (correction == "empirical_bayes") != (labels is not None):
        raise ValueError(
            "empirical_bayes learns the distribution of label counts from the training labels: "
            "pass labels= with it, and with no other correction."
        )


def _share(correction: str, labels: LabelsLike | None, propensity: Floats) -> Tensor:
    """E[1/N* | m] for m = 0, 1, …; empty for corrections that do not need it."""
    if correction != "empirical_bayes" or labels is None:
        return torch.empty(0, dtype=torch.float64)
    fit = count_distribution(labels, propensity)
    occurring = np.flatnonzero(fit.rows)
    # a count that training rows do not show takes the value of its neighbours
    counts = np.arange(len(fit.rows))
    return torch.as_tensor(np.interp(counts, occurring, fit.share[occurring]))


def _precomputed(weights: Weights, logits: Tensor) -> Observed:
    if weights.pos.shape != tuple(logits.shape):
        raise ValueError(
            f"weights of shape {weights.pos.shape} for logits of shape {tuple(logits.shape)}; "
            "take the rows of the batch, weights[rows]."
        )
    arrays = vars(losses.observed(weights)).values()
    return Observed(*(torch.as_tensor(array, device=logits.device) for array in arrays))
