"""The loss module: observed labels → weights → value and gradient, two passes over the logits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from unmask import losses
from unmask._kernels import batches, even_bounds, in_chunks, using_threads
from unmask._kernels.weights import gauss_legendre
from unmask._messages import named_options, warn
from unmask._typing import Floats, Ints, LabelsLike, PropensityLike
from unmask.arrays import checks
from unmask.arrays.checks import is_tensor
from unmask.losses import Loss, Observed, _loss
from unmask.propensity.mask_model import refuse_for_weights
from unmask.propensity.models import reciprocal
from unmask.torch.targets import (
    Targets,
    as_tensor,
    candidate_numbers,
    candidate_weights,
    cannot_stop,
    entry_propensity,
    expected_counts,
    invalid_rows,
    is_transformed,
    label_index,
    place,
    refuse_missing,
)
from unmask.weights import CORRECTIONS, Weights, count_distribution, formulas
from unmask.weights.formulas import Array, Rectangle

_USUAL = {"ova": "logistic", "pal": "softmax", "pairwise": "pairwise_logistic"}
_OVER_BATCH = ("mean", "sum", "none")
_CHUNK = 1 << 20  # logits that one thread takes at a time
_FEW_LABELS = 256  # up to which a compiled graph may spend O(L²) on the exact normalised weights


class MissingLabelLoss(nn.Module):
    """A multilabel loss on logits, corrected for labels that go missing.

    The value of a row is Σ over its labels (or pairs) of the loss, weighted as in `unmask.weights`.

    Targets are dense 0/1 (a tensor or an array), a sparse COO or CSR tensor, a scipy matrix, label
    numbers (n, m) filled up with −1, or a list of lists of label numbers. A label that a row names
    twice, or that does not exist, is refused; inside a compiled graph and under `torch.func`, which
    cannot stop, it makes the loss of its row NaN. One compiled graph (`fullgraph=True`) takes label
    numbers, and dense targets except for normalised unbiased and tempered losses of more than 256
    labels; other targets make a break in it.

    With `candidates` the logits are those of a shortlist, and no tensor has rows × L entries. See
    `forward`.

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
    (2021). Sampled softmax: Bengio & Senécal, *Adaptive importance sampling to accelerate training
    of a neural probabilistic language model* (2008).

    Examples
    --------
    >>> loss = MissingLabelLoss([0.5, 0.8, 0.9], loss="softmax")
    >>> logits = torch.zeros(2, 3, requires_grad=True)
    >>> loss(logits, torch.tensor([[0, 2], [1, -1]]))  # rows with labels {0, 2} and {1}
    tensor(2.3956, grad_fn=<_BatchLossBackward>)
    >>> loss(logits[:, :2], [[0], [1]], candidates=torch.tensor([0, 1]))  # of two labels alone
    tensor(1.1264, grad_fn=<_BatchLossBackward>)
    """

    inverse_propensity: Tensor
    share: Tensor

    @named_options
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
        self.correction = checks.one_of(correction, CORRECTIONS, "correction")
        self.normalized = normalized
        self.over_batch = checks.one_of(reduction_over_batch, _OVER_BATCH, "reduction_over_batch")
        self.tau = checks.in_range(tau, "tau", 0, 1)
        if tau != 0.5 and correction != "tempered":
            raise ValueError(f"tau has no effect on {correction}; leave it out, or say 'tempered'.")
        _refuse(self.loss, correction, normalized, labels)
        refuse_for_weights(propensity, normalized=normalized)
        values = checks.propensity(propensity)
        checks.singles_propensity(values, "MissingLabelLoss")
        inverse = np.append(reciprocal(values), 0)
        if correction == "tempered":  # once for all, label by label
            inverse = formulas.tempered_inverse(inverse, np.sign(inverse), self.tau)
        self.register_buffer("inverse_propensity", torch.as_tensor(inverse))
        self.register_buffer("share", _share(correction, labels, values))
        self._exact = {name: buffer.detach() for name, buffer in self.named_buffers()}
        if (values < 1).any():
            description = losses.describe(self.loss, correction, normalized=normalized)
            if not description.bounded_below:
                warn(str(description), losses.UnboundedLossWarning)

    def forward(
        self,
        logits: Tensor,
        targets: Targets | None = None,
        *,
        weights: Weights | None = None,
        propensity: Targets | None = None,
        candidates: Tensor | Ints | None = None,
        sampling: PropensityLike | Tensor | None = None,
    ) -> Tensor:
        """Return the loss of a batch.

        With `candidates` and no `sampling` it is the loss of the labels listed; observed labels
        that are not in the list take no part. With `sampling` it is an estimate of the loss over
        all L labels, for which the observed labels of a row must be among its candidates:

        - one-vs-all and pairwise losses: value and gradient are unbiased, with any correction,
          plain or normalised. Their variance grows with 1/q.
        - softmax: Σ_j eˢʲ is estimated without bias (the log-q correction); its logarithm, hence
          the loss, is too low on average, by about Var / 2 of Σ̂/Σ, and right in the limit of many
          candidates. The gradient is right in that limit, too, and not unbiased.

        Parameters
        ----------
        logits : (n, L) tensor, or (n, c) with candidates
        targets : tensor, scipy matrix or lists, optional
            Observed labels, numbered from 0 to L − 1 also with candidates; see the class.
        weights : Weights, optional
            Precomputed label weights of the batch's rows, instead of targets.
        propensity : (n, L) tensor or matrix of numbers in (0, 1], dense or sparse, optional
            P(observed | relevant) of this batch's rows and labels, in place of one per label. Only
            those of observed labels are read; sparse, it stores these alone. With
            "empirical_bayes" the distribution of label counts stays that of all rows.
        candidates : (c,) or (n, c) integers, tensor or array, optional
            The labels that the columns of the logits stand for, for all rows or row by row; −1 for
            none. A label that is listed twice counts twice, unless it is observed.
        sampling : numbers in the shape of candidates, or (L,) by label, or one number, optional
            The probability that a label is among the candidates; where it can be drawn more than
            once, how often it is expected there. `samplers` returns it. No effect on observed
            labels.

        Returns
        -------
        tensor
            One number, or (n,) for `reduction_over_batch="none"`.

        Raises
        ------
        ValueError
            If shapes do not fit, targets are not 0/1 or no label numbers, `sampling` is not above
            0, or an observed label is not among sampled candidates.

        Examples
        --------
        >>> loss = MissingLabelLoss([0.5, 0.8, 0.9, 0.9], correction="bound")
        >>> logits = torch.zeros(1, 2)
        >>> loss(logits, [[0]], candidates=torch.tensor([0, 3]), sampling=1 / 3)
        tensor(4.1589)
        >>> loss(torch.zeros(1, 4), [[0]])
        tensor(4.1589)
        """
        _refuse_logits(logits)
        dtype = torch.promote_types(logits.dtype, torch.float32)
        short = candidates is not None
        observed = self._observe(logits, targets, weights, propensity, short=short)
        ids, q = None, None
        if candidates is not None:
            ids, q = self._candidates(candidates, sampling, logits.shape)
        elif sampling is not None:
            raise ValueError("sampling is about candidates: pass candidates= with it.")
        if is_compiled(self.loss, logits):
            compiled: Tensor = _CompiledLogistic.apply(  # type: ignore[no-untyped-call]
                logits, ids, q, observed.index, observed.pos, observed.cut, self.over_batch
            )
            return compiled
        if ids is not None:
            observed = place(observed, ids, tuple(logits.shape), q, dtype)
        pos = observed.pos.to(dtype)
        cut = None if observed.cut is observed.pos else observed.cut.to(dtype)
        value: Tensor = _BatchLoss.apply(  # type: ignore[no-untyped-call]
            logits.to(dtype), observed.index.clamp(min=0), pos, cut, observed.background, self.loss,
            self.over_batch,
        )  # fmt: skip
        return value

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> MissingLabelLoss:
        """Move to a device; the precision of propensities stays, whatever that of the model."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._restore()
        self._exact = {name: buffer.detach() for name, buffer in self.named_buffers()}
        return self

    def _restore(self) -> None:
        """Give buffers that were cast their precision back: by `half`, or by FSDP's buffer_dtype.

        Whoever casts puts another storage into a buffer; `_exact` has kept the first one, without a
        copy. FSDP casts once, before the first batch.
        """
        for name, exact in self._exact.items():
            buffer = self.get_buffer(name)
            if buffer.dtype is not exact.dtype:
                buffer.data = exact.to(buffer.device)

    def extra_repr(self) -> str:
        """Return what `print(module)` shows."""
        kind = "normalised" if self.normalized else "plain"
        return f"{self.loss.name}, {self.loss.reduction}, {kind}, {self.correction}"

    @property
    def n_labels(self) -> int:
        """L."""
        return len(self.inverse_propensity) - 1

    def _observe(
        self,
        logits: Tensor,
        targets: Targets | None,
        weights: Weights | None,
        propensity: Targets | None,
        *,
        short: bool,
    ) -> Observed:
        """Return label numbers, −1 where there is none, and their weights."""
        if weights is not None and propensity is not None:
            raise ValueError("weights are corrected already; leave out the propensities.")
        if (targets is None) == (weights is None):
            raise ValueError("give either targets or weights; got both or neither.")
        if weights is not None:
            shape = (logits.shape[0], self.n_labels if short else logits.shape[1])
            return _precomputed(weights, shape, logits.device)
        assert targets is not None  # noqa: S101 - checked above
        if not short and logits.shape[1] != self.n_labels:
            raise ValueError(
                f"logits of shape {tuple(logits.shape)} for {self.n_labels} propensities; give "
                "logits of rows × labels and one propensity per label, or say which labels the "
                "columns are: candidates=."
            )
        return self.observe(targets, logits.shape[0], logits.device, propensity)

    def observe(
        self,
        targets: Targets,
        n_rows: int,
        device: torch.device,
        propensity: Targets | None = None,
    ) -> Observed:
        """Return the observed labels of a batch and their weights.

        Parameters
        ----------
        targets : as in `forward`
        n_rows : int
            The rows of the batch.
        device : torch.device
            Where the logits are.
        propensity : as in `forward`

        Returns
        -------
        Observed
            Label numbers (n, m), −1 where there is none, and float64 weights.

        Raises
        ------
        ValueError
            If targets are none.

        Examples
        --------
        >>> loss = MissingLabelLoss([0.5, 0.25], correction="bound")
        >>> loss.observe([[1], []], 2, torch.device("cpu")).pos
        tensor([[7.],
                [0.]], dtype=torch.float64)
        """
        if self.inverse_propensity.dtype is not torch.float64:
            self._restore()
        quadratic = self.normalized and self.correction in ("unbiased", "tempered")
        by_column = not quadratic or self.n_labels <= _FEW_LABELS
        index = label_index(targets, (n_rows, self.n_labels), by_column=by_column).to(device)
        invalid = None
        if cannot_stop():
            invalid = invalid_rows(index, self.n_labels)[:, None]
            index = index.clamp(max=self.n_labels - 1)
        own = None if propensity is None else self._own_inverse(propensity, index)
        if invalid is None and index.device.type == "cpu":
            # numpy computes the same formulas, and its calls cost less than those of torch
            inverse = self.inverse_propensity.numpy()[index.numpy()] if own is None else own.numpy()
            pair = self._weigh(inverse)
            pos, cut = (torch.from_numpy(np.ascontiguousarray(each)) for each in pair)
            return Observed(index, pos, pos if pair[0] is pair[1] else cut)
        # −1 is the last entry, 0
        pos, cut = self._weigh(self.inverse_propensity[index] if own is None else own)
        if invalid is not None:
            marked = pos.masked_fill(invalid, torch.nan)
            pos, cut = marked, marked if cut is pos else cut
        return Observed(index, pos, cut)

    def _candidates(
        self, candidates: Tensor | Ints, sampling: PropensityLike | Tensor | None, shape: torch.Size
    ) -> tuple[Tensor, Tensor | None]:
        """Return label numbers of the columns and their expected counts."""
        if self.loss.keep is not None or self.loss.per_label:
            raise ValueError(f"{self.loss.name} must see all labels; leave out candidates.")
        ids = candidate_numbers(as_tensor(candidates), tuple(shape), self.n_labels)
        q = None if sampling is None else expected_counts(sampling, ids, self.n_labels)
        return ids, q

    def _own_inverse(self, propensity: Targets, index: Tensor) -> Tensor:
        """Return 1/p of label numbers, by row and label, and 0 where there is no label."""
        inverse = entry_propensity(propensity, index, (len(index), self.n_labels)).reciprocal()
        if self.correction == "tempered":
            inverse = formulas.tempered_inverse(inverse, torch.ones_like(inverse), self.tau)
        return inverse.where(index >= 0, 0)

    def _weigh(self, inverse: Array) -> tuple[Array, Array]:
        layout = Rectangle if is_tensor(inverse) else _CompiledRectangle
        entries = layout(inverse, _rule)
        return formulas.weigh(
            self.correction,
            entries,
            normalized=self.normalized,
            reduction=self.loss.reduction,
            share=self.share if is_tensor(inverse) else self.share.numpy(),
        )


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _rule(count: int) -> tuple[Floats, Floats]:
    """Return Gauss–Legendre nodes and weights, which a compiled graph takes as constants."""
    return gauss_legendre(count)


class _CompiledRectangle(Rectangle):
    """A rectangle of numpy numbers whose sums are compiled loops, for the sake of small batches."""

    def counts(self) -> Array:
        return batches.row_counts(self.inverse)

    def one_plus_others(self) -> Array:
        return batches.one_plus_others(self.inverse)

    def shares(self) -> Array:
        return batches.shares(self.inverse, *self.rule(max(1, (self.inverse.shape[1] + 1) // 2)))


class Context(Protocol):
    """The record that forward leaves for backward."""

    loss: Loss
    over_batch: str
    saved_tensors: tuple[Any, ...]

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors."""
        ...


class _BatchLoss(torch.autograd.Function):
    """`losses` with its own gradient as backward: no intermediate of the logits' size is kept."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        scores: Tensor,
        index: Tensor,
        pos: Tensor,
        cut: Tensor | None,
        background: Tensor | None,
        loss: Loss,
        over_batch: str,
    ) -> Tensor:
        """Compute the loss; `cut` is None where it equals `pos`."""
        observed = Observed(index, pos, pos if cut is None else cut, background)
        rows: Tensor = _loss.rows(loss, scores, observed)
        if over_batch == "none":
            return rows
        return rows.sum() / divisor(over_batch, scores)

    @staticmethod
    def setup_context(ctx: Context, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:5])
        ctx.loss, ctx.over_batch = inputs[5:]

    @staticmethod
    def backward(ctx: Context, grad: Tensor) -> tuple[Tensor | None, ...]:
        scores, index, pos, cut, background = ctx.saved_tensors
        observed = Observed(index, pos, pos if cut is None else cut, background)
        slope: Tensor = _loss.gradient(ctx.loss, scores, observed)
        by_row = (
            grad[:, None] if ctx.over_batch == "none" else grad / divisor(ctx.over_batch, scores)
        )
        in_graph = is_transformed() or torch.is_grad_enabled()
        scaled = slope * by_row if in_graph else slope.mul_(by_row)
        return scaled, None, None, None, None, None, None


def is_compiled(loss: Loss, logits: Tensor) -> bool:
    """Tell if compiled loops serve: for the logistic loss of float32 on the processor."""
    return (
        loss is losses.logistic
        and logits.dtype is not torch.float64
        and logits.device.type == "cpu"
        and not cannot_stop()
    )


def logistic(scores: Tensor, index: Tensor, pos: Tensor, cut: Tensor) -> tuple[Floats, Tensor]:
    """Return the one-vs-all logistic loss of every row, (n,), and its slope, (n, L).

    `index` is −1 where there is no label; weights are float64.
    """
    slope, rows = _room(scores)
    logits = scores.detach().contiguous()
    arrays = [each.numpy() for each in (logits, index, pos, cut)]
    arrays += [rows, slope.numpy()]
    _by_rows(scores, lambda part: batches.logistic(*(each[part] for each in arrays)))
    return rows, slope


class _CompiledLogistic(torch.autograd.Function):
    """The one-vs-all logistic loss of all labels or of candidates, in one pass, forwards.

    A graph of gradients computes the slope once more, by operations that can be differentiated.
    """

    @staticmethod
    def forward(
        ctx: Context,
        logits: Tensor,
        ids: Tensor | None,
        q: Tensor | None,
        index: Tensor,
        pos: Tensor,
        cut: Tensor,
        over_batch: str,
    ) -> Tensor:
        if ids is None:
            rows, slope = logistic(logits.float(), index, pos, cut)
        else:
            rows, slope = _logistic_of_candidates(logits, ids, q, index, pos, cut)
        ctx.over_batch = over_batch
        ctx.save_for_backward(slope, logits, ids, q, index, pos, cut)
        if over_batch == "none":
            return torch.from_numpy(rows.astype(np.float32))
        return torch.tensor(rows.sum() / divisor(over_batch, slope), dtype=torch.float32)

    @staticmethod
    def backward(ctx: Context, grad: Tensor) -> tuple[Tensor | None, ...]:
        slope, logits, ids, q, index, pos, cut = ctx.saved_tensors
        if torch.is_grad_enabled():
            observed = Observed(index, pos, cut)
            if ids is not None:
                observed = place(observed, ids, tuple(logits.shape), q, torch.float32)
            observed = Observed(
                observed.index.clamp(min=0), observed.pos.float(), observed.cut.float(),
                observed.background,
            )  # fmt: skip
            slope = _loss.gradient(losses.logistic, logits.float(), observed)
        over_batch = ctx.over_batch
        by_row = grad[:, None] if over_batch == "none" else grad / divisor(over_batch, slope)
        return (slope * by_row).to(logits.dtype), None, None, None, None, None, None


def _logistic_of_candidates(
    logits: Tensor, ids: Tensor, q: Tensor | None, index: Tensor, pos: Tensor, cut: Tensor
) -> tuple[Floats, Tensor]:
    """Return the loss of every row and its slope, as `logistic`, for the logits of candidates."""
    scores = logits.detach().float().contiguous()
    slope, rows = _room(scores)
    column = torch.empty_like(index)
    weights = candidate_weights(ids, q, scores.dtype)
    lists, counts = (
        each.reshape(-1, ids.shape[-1]).contiguous().numpy() for each in (ids, weights)
    )
    arrays = [each.numpy() for each in (index, pos, cut, column)]
    arrays += [rows, slope.numpy()]

    def work(part: slice) -> None:
        own = slice(None) if len(lists) == 1 else part
        labels = (each[part] for each in arrays)
        batches.shortlist(scores.numpy()[part], lists[own], counts[own], *labels)

    _by_rows(scores, work)
    if q is not None:
        refuse_missing(index, column >= 0)
    return rows, slope


def _by_rows(scores: Tensor, work: Callable[[slice], None]) -> None:
    """Do `work` on all rows, some at a time where they are many, on as many threads as torch."""
    n, width = scores.shape
    if scores.numel() <= _CHUNK:
        work(slice(0, n))
        return
    with using_threads(torch.get_num_threads()):
        in_chunks(even_bounds(n, width, _CHUNK), lambda start, stop: work(slice(start, stop)))


def _room(scores: Tensor) -> tuple[Tensor, Floats]:
    """Make room for the slope of every logit and the loss of every row."""
    return torch.empty_like(scores, memory_format=torch.contiguous_format), np.empty(len(scores))


def _refuse_logits(logits: Tensor) -> None:
    plain = isinstance(logits, Tensor) and logits.layout is torch.strided
    if not plain or logits.ndim != 2 or logits.is_complex():
        kind = f"{logits.dtype} in shape {tuple(logits.shape)}" if plain else "something else"
        raise ValueError(f"logits must be a dense tensor of real numbers, n × L; got {kind}.")


def divisor(over_batch: str, scores: Tensor) -> int:
    """Return what the sum over rows is divided by."""
    return max(1, scores.shape[0]) if over_batch == "mean" else 1


def _choose(loss: Loss | str | None, reduction: str | None) -> Loss:
    if loss is None:
        return losses.get(_USUAL[checks.one_of(reduction or "ova", _USUAL, "reduction")])
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
    formulas.refuse_combination(correction, normalized, loss.reduction, of="MissingLabelLoss")
    if (correction == "empirical_bayes") != (labels is not None):
        raise ValueError(
            "empirical_bayes learns the distribution of label counts from the training labels: "
            "pass labels= with it, and with no other correction."
        )


def _share(correction: str, labels: LabelsLike | None, propensity: Floats) -> Tensor:
    """Return E[1/N* | m] for m = 0, 1, …; empty for corrections that do not need it."""
    if correction != "empirical_bayes" or labels is None:
        return torch.empty(0, dtype=torch.float64)
    fit = count_distribution(labels, propensity)
    occurring = np.flatnonzero(fit.rows)
    # a count that training rows do not show takes the value of its neighbours
    counts = np.arange(len(fit.rows))
    return torch.as_tensor(np.interp(counts, occurring, fit.share[occurring]))


def _precomputed(weights: Weights, shape: tuple[int, int], device: torch.device) -> Observed:
    if weights.pos.shape != shape:
        raise ValueError(
            f"weights of shape {weights.pos.shape} for {shape[0]} rows and {shape[1]} labels; "
            "take the rows of the batch, weights[rows]."
        )
    dense = losses.observed(weights)
    index, pos, cut = (
        torch.as_tensor(array, device=device) for array in (dense.index, dense.pos, dense.cut)
    )
    return Observed(
        index.where((pos != 0) | (cut != 0), -1), pos, pos if dense.cut is dense.pos else cut
    )
