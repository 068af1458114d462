"""The corrections of `unmask.weights` on tensors, for one batch, on the batch's own device.

Everything works on rectangles (n, m) of observed labels: `inverse` is 1/p, and 0 in places without
a label. The normalised unbiased weight

    T_i = (1/p_i) ∫₀¹ Π_{k≠i} (1 − u/p_k) du

is a polynomial integral, exact with ⌈m/2⌉ Gauss–Legendre nodes. Places without a label contribute
the factor 1, so the nodes for the longest row serve them all. The product over k ≠ i is the product
over all k divided by factor i; adding 1e-30 keeps a factor that is exactly zero (p at a node)
divisible and changes no other, because factors are multiples of 1e-17.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unmask._kernels.weights import gauss_legendre

Array = NDArray[np.float64]
Pair = tuple[Tensor, Tensor]
_TINY = 1e-30


def plain(correction: str, reduction: str, inverse: Tensor) -> Pair:
    """pos and cut of an unnormalised loss."""
    if correction == "vanilla":
        return _twice(present(inverse))
    if correction == "bound" and reduction == "ova":
        return 2 * inverse - present(inverse), present(inverse)
    if correction == "bound" and reduction == "pairwise":
        return inverse, present(inverse)
    return _twice(inverse)


def normalized(correction: str, inverse: Tensor, share: Tensor) -> Tensor:
    """pos = cut of a normalised loss; `share` is the table E[1/N* | m] of empirical Bayes."""
    if correction == "vanilla":
        seen = present(inverse)
        return seen / seen.sum(1, keepdim=True).clamp(min=1)
    if correction == "bound":
        return inverse / (1 + inverse.sum(1, keepdim=True) - inverse)
    if correction == "empirical_bayes":
        count = inverse.count_nonzero(1).clamp(max=len(share) - 1)
        return inverse * share[count][:, None]
    return unbiased(inverse)


def present(inverse: Tensor) -> Tensor:
    """1 where there is a label, 0 where there is none."""
    return inverse.sign()


def _twice(weight: Tensor) -> Pair:
    return weight, weight


def unbiased(inverse: Tensor) -> Tensor:
    """T of every observed label, for 1/p (n, m) with 0 in places without a label.

    >>> unbiased(torch.tensor([[3.0, 3.0]], dtype=torch.float64))
    tensor([[-1.5000, -1.5000]], dtype=torch.float64)
    """
    nodes, parts = (
        torch.as_tensor(values, dtype=inverse.dtype, device=inverse.device)
        for values in _rule(max(1, (inverse.shape[1] + 1) // 2))
    )
    # (m, nodes, n), rows innermost: everything below runs over long contiguous vectors
    factors = torch.addcmul(
        inverse.new_ones(()), inverse.t().contiguous()[:, None, :], nodes, value=-1
    ).add_(_TINY)
    others = (factors.prod(0) * parts) / factors
    return inverse * others.sum(1).t()


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _rule(count: int) -> tuple[Array, Array]:
    """Nodes and weights on [0, 1], as columns."""
    nodes, parts = gauss_legendre(count)
    return nodes[:, None], parts[:, None]
