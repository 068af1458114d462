"""An output layer and its loss in one, for more labels than logits would fit into memory.

    loss = MissingLabelLoss(x Wᵀ + b, targets)

is computed over chunks of labels, forwards and once more backwards: no tensor is larger than rows ×
chunk, or than W itself. One-vs-all losses are sums over labels. The softmax needs A = log Σ_j eˢʲ
of all chunks first, which backwards makes the slope of any chunk e^{s − A}. Products are taken in
the precision of the layer (bfloat16 under autocast); losses, sums over chunks and the gradient of x
are float32 at least.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from unmask._messages import named_options
from unmask._typing import Ints, PropensityLike
from unmask.arrays import checks
from unmask.losses import Loss, Observed, _loss
from unmask.torch.module import MissingLabelLoss, divisor, is_compiled, logistic
from unmask.torch.targets import Targets, as_tensor, candidate_numbers
from unmask.weights.formulas import add_at, take, times


class CorrectedOutput(nn.Module):
    """Projection to all labels and a corrected loss, without logits of rows × labels.

    Called with hidden states and targets it returns the loss of `loss(logits, targets)`, to
    rounding, and so are its gradients. With `candidates` only those rows of the weight are touched;
    `sparse=True` then gives the weight sparse gradients, of the candidates alone, for optimisers
    that update row by row (`torch.optim.SparseAdam`, `Adagrad`, `SGD`).

    Parameters
    ----------
    in_features : int
        d, the width of the hidden states.
    loss : MissingLabelLoss
        The loss, one-vs-all or softmax; its propensities say how many labels there are.
    bias : bool, default True
        Whether labels have a bias, (L, 1), which starts at 0.
    chunk : int, default 8192
        How many labels are scored at a time.
    sparse : bool, default False
        Whether gradients with candidates are sparse.

    Raises
    ------
    ValueError
        If the loss is pairwise or must see whole rows, or a number is not positive.

    Examples
    --------
    >>> from unmask.torch import MissingLabelLoss
    >>> layer = CorrectedOutput(3, MissingLabelLoss([0.5] * 1000, loss="softmax"), chunk=100)
    >>> value = layer(torch.zeros(2, 3), [[7, 900], []])
    >>> value.item() - 2 * math.log(1000) < 1e-5  # (1/p + 1/p) log L, and nothing for the other row
    True
    """

    @named_options
    def __init__(
        self,
        in_features: int,
        loss: MissingLabelLoss,
        *,
        bias: bool = True,
        chunk: int = 8192,
        sparse: bool = False,
    ) -> None:
        """See the class."""
        super().__init__()
        rule = loss.loss
        if rule.reduction == "pairwise" or rule.keep is not None or rule.per_label:
            raise ValueError(
                f"{rule.name} must see all labels of a row at once; take a one-vs-all loss or "
                "softmax."
            )
        self.in_features = checks.positive_int(in_features, "in_features")
        self.chunk = checks.positive_int(chunk, "chunk")
        self.loss, self.sparse = loss, sparse
        self.weight = nn.Parameter(torch.empty(loss.n_labels, in_features))
        self.bias = nn.Parameter(torch.zeros(loss.n_labels, 1)) if bias else None
        nn.init.normal_(self.weight, std=1 / math.sqrt(in_features))

    def forward(
        self,
        hidden: Tensor,
        targets: Targets,
        *,
        propensity: Targets | None = None,
        candidates: Tensor | Ints | None = None,
        sampling: PropensityLike | Tensor | None = None,
    ) -> Tensor:
        """Return the loss of a batch; its gradient cannot be differentiated, that of `logits` can.

        Parameters
        ----------
        hidden : (n, d) tensor
        targets, propensity : as in `MissingLabelLoss`
        candidates, sampling : optional
            A shortlist; as in `MissingLabelLoss`.

        Returns
        -------
        tensor
            One number, or (n,) where the loss has `reduction_over_batch="none"`.

        Raises
        ------
        ValueError
            If shapes do not fit, or as `MissingLabelLoss`.
        """
        self._refuse_hidden(hidden)
        if candidates is not None:
            candidates = as_tensor(candidates)
            logits = self.logits(hidden, candidates)
            short: Tensor = self.loss(
                logits, targets, propensity=propensity, candidates=candidates, sampling=sampling
            )
            return short
        if sampling is not None:
            raise ValueError("sampling is about candidates: pass candidates= with it.")
        device = hidden.device.type
        product = torch.promote_types(hidden.dtype, self.weight.dtype)
        if torch.is_autocast_enabled(device):
            product = torch.get_autocast_dtype(device)
        exact = torch.promote_types(product, torch.float32)
        observed = self.loss.observe(targets, len(hidden), hidden.device, propensity)
        pos = observed.pos.to(exact)
        cut = None if observed.cut is observed.pos else observed.cut.to(exact)
        value: Tensor = _ChunkedLoss.apply(  # type: ignore[no-untyped-call]
            hidden, self.weight, self.bias, observed.index, pos, cut, self.loss.loss,
            self.loss.over_batch, self.chunk, product,
        )  # fmt: skip
        return value

    def logits(self, hidden: Tensor, candidates: Tensor | Ints | None = None) -> Tensor:
        """Return the logits of all labels, (n, L), or of candidates, (n, c).

        Parameters
        ----------
        hidden : (n, d) tensor
        candidates : (c,) or (n, c) integers, tensor or array, optional

        Returns
        -------
        tensor

        Raises
        ------
        ValueError
            If shapes do not fit, or a candidate is no label.
        """
        self._refuse_hidden(hidden)
        if candidates is None:
            logits = hidden @ self.weight.T
            return logits if self.bias is None else logits + self.bias[:, 0]
        numbers = as_tensor(candidates)
        width = numbers.shape[-1] if isinstance(numbers, Tensor) and numbers.ndim else 0
        ids = candidate_numbers(numbers, (len(hidden), width), self.loss.n_labels).clamp(min=0)
        rows = functional.embedding(ids, self.weight, sparse=self.sparse)
        logits = hidden @ rows.T if ids.ndim == 1 else (rows @ hidden[:, :, None])[:, :, 0]
        if self.bias is None:
            return logits
        biases = functional.embedding(ids, self.bias, sparse=self.sparse)
        return logits + biases[..., 0]

    @torch.no_grad()
    def top(self, hidden: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Return the best k labels of every row, chunk by chunk.

        Parameters
        ----------
        hidden : (n, d) tensor
        k : int

        Returns
        -------
        scores, labels : (n, k) tensors
            By falling score, of equal ones the smaller label first.

        Examples
        --------
        >>> layer = CorrectedOutput(1, MissingLabelLoss([1.0] * 5), bias=False, chunk=2)
        >>> layer.weight.data = torch.tensor([[1.0], [3.0], [0.0], [3.0], [2.0]])
        >>> layer.top(torch.ones(1, 1), 3)[1]
        tensor([[1, 3, 4]])
        """
        self._refuse_hidden(hidden)
        k = min(checks.positive_int(k, "k"), len(self.weight))
        best = hidden.new_empty(len(hidden), 0)
        labels = torch.empty(best.shape, dtype=torch.long, device=hidden.device)
        for start in range(0, len(self.weight), self.chunk):
            part = slice(start, start + self.chunk)
            scores = hidden @ self.weight[part].T
            if self.bias is not None:
                scores += self.bias[part, 0]
            numbers = torch.arange(start, start + scores.shape[1], device=hidden.device)
            best = torch.cat([best, scores], dim=1)
            labels = torch.cat([labels, numbers.expand(scores.shape)], dim=1)
            best, places = largest(best, min(k, best.shape[1]))
            labels = labels.gather(1, places)
        return best, labels

    def extra_repr(self) -> str:
        """Return what `print(module)` shows."""
        return f"{self.in_features} → {self.loss.n_labels} labels, {self.chunk} at a time"

    def _refuse_hidden(self, hidden: Tensor) -> None:
        fits = isinstance(hidden, Tensor) and hidden.ndim == 2 and hidden.is_floating_point()
        if not fits or hidden.shape[1] != self.in_features:
            shape = tuple(hidden.shape) if isinstance(hidden, Tensor) else type(hidden).__name__
            raise ValueError(
                f"hidden states must be floats of shape (n, {self.in_features}); got {shape}."
            )


def largest(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k largest scores of every row and their columns, of equal ones the smaller first.

    `torch.topk` is ten times faster than sorting whole rows, and leaves open which of equal scores
    it takes and in which order. Rows where that matters are sorted.

    >>> import torch
    >>> largest(torch.tensor([[1.0, 3.0, 0.0, 3.0, 1.0]]), 3)[1]
    tensor([[1, 3, 0]])
    """
    best, columns = scores.topk(min(k + 1, scores.shape[1]), dim=1)
    if 0 < k < scores.shape[1]:
        tied = (best[:, k] == best[:, k - 1]).nonzero()[:, 0]
        if len(tied):
            ordered = scores[tied].sort(dim=1, descending=True, stable=True).indices
            columns[tied, :k] = ordered[:, :k]
    columns = columns[:, :k].sort(dim=1).values
    best, order = scores.gather(1, columns).sort(dim=1, descending=True, stable=True)
    return best, columns.gather(1, order)


class Context(Protocol):
    """The record that forward leaves for backward."""

    loss: Loss
    over_batch: str
    chunk: int
    product: torch.dtype
    compiled: bool
    saved_tensors: tuple[Any, ...]
    needs_input_grad: tuple[bool, ...]

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors."""
        ...


class _ChunkedLoss(torch.autograd.Function):
    """The loss of hidden states, one chunk of labels after another."""

    @staticmethod
    def forward(
        ctx: Context,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        index: Tensor,
        pos: Tensor,
        cut: Tensor | None,
        loss: Loss,
        over_batch: str,
        chunk: int,
        product: torch.dtype,
    ) -> Tensor:
        ctx.loss, ctx.over_batch, ctx.chunk, ctx.product = loss, over_batch, chunk, product
        ctx.compiled = is_compiled(loss, pos)
        observed = Observed(index, pos, pos if cut is None else cut)
        rows = pos.new_zeros(len(hidden))
        partition = pos.new_full((len(hidden),), -torch.inf)
        inputs = hidden.to(product)
        for start in range(0, len(weight), chunk):
            scores = _scores(inputs, weight, bias, start, chunk, pos.dtype)
            inside = _inside(observed, start, scores.shape[1])
            if ctx.compiled:
                values, _ = logistic(scores, inside.index, inside.pos.double(), inside.cut.double())
                rows += torch.from_numpy(values)
            elif loss.reduction == "ova":
                rows += _loss.rows(loss, scores, inside)
            else:
                partition = torch.logaddexp(partition, loss.value(scores))
                rows -= times(inside.pos, take(scores, inside.index)).sum(-1)
        if loss.reduction == "pal":
            rows += times(pos.sum(-1), partition)
        ctx.save_for_backward(hidden, weight, bias, index, pos, cut, partition)
        return rows if over_batch == "none" else rows.sum() / divisor(over_batch, hidden)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Context, grad: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, bias, index, pos, cut, partition = ctx.saved_tensors
        observed = Observed(index, pos, pos if cut is None else cut)
        by_row = (
            grad[:, None] if ctx.over_batch == "none" else grad / divisor(ctx.over_batch, hidden)
        )
        of_hidden = pos.new_zeros(hidden.shape) if ctx.needs_input_grad[0] else None
        of_weight = torch.empty_like(weight) if ctx.needs_input_grad[1] else None
        of_bias = torch.empty_like(bias) if ctx.needs_input_grad[2] else None
        inputs = hidden.to(ctx.product)
        for start in range(0, len(weight), ctx.chunk):
            part = slice(start, start + ctx.chunk)
            scores = _scores(inputs, weight, bias, start, ctx.chunk, pos.dtype)
            inside = _inside(observed, start, scores.shape[1])
            if ctx.compiled:
                _, slope = logistic(scores, inside.index, inside.pos.double(), inside.cut.double())
            else:
                slope = _slope(ctx.loss, scores, inside, partition, pos)
            slope = slope.mul_(by_row)
            if of_bias is not None:
                of_bias[part, 0] = slope.sum(0)
            slope = slope.to(ctx.product)
            if of_hidden is not None:
                of_hidden += slope @ weight[part].to(ctx.product)
            if of_weight is not None:
                of_weight[part] = slope.T @ inputs
        first = None if of_hidden is None else of_hidden.to(hidden.dtype)
        return first, of_weight, of_bias, None, None, None, None, None, None, None


def _scores(
    inputs: Tensor, weight: Tensor, bias: Tensor | None, start: int, chunk: int, exact: torch.dtype
) -> Tensor:
    """Score one chunk: a product in low precision, which adds up in float32, and the bias."""
    part = slice(start, start + chunk)
    scores = (inputs @ weight[part].to(inputs.dtype).T).to(exact)
    return scores if bias is None else scores.add_(bias[part, 0].to(exact))


def _inside(observed: Observed, start: int, size: int) -> Observed:
    """Return observed labels by their column of one chunk, at weight 0 where they are outside."""
    column = observed.index - start
    inside = (column >= 0) & (column < size)
    pos = observed.pos.where(inside, 0)
    cut = pos if observed.cut is observed.pos else observed.cut.where(inside, 0)
    return Observed(column.where(inside, 0), pos, cut)


def _slope(loss: Loss, scores: Tensor, inside: Observed, partition: Tensor, pos: Tensor) -> Tensor:
    if loss.reduction == "ova":
        slope: Tensor = _loss.gradient(loss, scores, inside)
        return slope
    shares = (scores - partition[:, None]).exp_()  # the softmax over all chunks
    whole: Tensor = add_at(times(pos.sum(-1)[:, None], shares), inside.index, -inside.pos)
    return whole
