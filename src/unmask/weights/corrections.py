"""The corrections: labels and propensities in, `Weights` out; one function each, one signature.

`labels` is rows × labels, 0/1. `propensity` is one number per label, or a sparse matrix with the
pattern of the labels where it differs from row to row. `normalized` divides a row's loss among its
labels (the losses consistent for recall), `reduction` is "ova" (one-vs-all) or "pal"
(pick-all-labels; only `pos` counts there). Formulas: the table in `unmask.weights`. Corrections
2–4 are those of Schultheis & Babbar, *Unbiased loss functions for multilabel classification with
missing labels* (2021).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from unmask import _validation
from unmask._kernels import weights as kernels
from unmask.propensity import temper
from unmask.weights.counts import distribution_of
from unmask.weights.normalized import Inverse, by_chunks, exact, inverse_of
from unmask.weights.record import Weights, with_values

Floats = NDArray[np.float64]
REDUCTIONS = ("ova", "pal")


def vanilla(
    labels: Any, propensity: Any = None, *, normalized: bool = False, reduction: str = "ova"
) -> Weights:
    """Take observed labels for the truth: 1, or 1/m where normalised. Propensities are not used.

    >>> vanilla([[1, 1, 0], [0, 0, 1]], normalized=True).pos.toarray()
    array([[0.5, 0.5, 0. ],
           [0. , 0. , 1. ]])
    """
    _validation.one_of(reduction, REDUCTIONS, "reduction")
    matrix = _validation.labels(labels)
    if not normalized:
        return _both(matrix, np.ones(matrix.nnz))
    share = 1 / np.maximum(np.arange(np.diff(matrix.indptr).max(initial=0) + 1), 1)
    return _both(matrix, by_chunks(matrix.indptr, kernels.spread, share)[0])


def unbiased(
    labels: Any, propensity: Any, *, normalized: bool = False, reduction: str = "ova"
) -> Weights:
    """The only weights whose loss has, over all masks, the mean of the loss on true labels.

    Plain 1/p; normalised T_j, exact for any number of labels (`normalized_weights`). Large and of
    either sign where propensities are low: hinge losses are then unbounded below.

    >>> unbiased([[1, 1], [0, 1]], [1 / 3, 1 / 3], normalized=True).pos.toarray()
    array([[-1.5, -1.5],
           [ 0. ,  3. ]])
    """
    _validation.one_of(reduction, REDUCTIONS, "reduction")
    matrix = _validation.labels(labels)
    return _unbiased(matrix, inverse_of(propensity, matrix), normalized)


def _unbiased(matrix: sp.csr_array, inverse: Inverse, normalized: bool) -> Weights:
    if normalized:
        return _both(matrix, exact(matrix.indptr, inverse))
    return _both(matrix, inverse.entries())


def bound(
    labels: Any, propensity: Any, *, normalized: bool = False, reduction: str = "ova"
) -> Weights:
    """Positive weights whose loss is, in the mean over masks, no less than the true one.

    Plain one-vs-all: 2/p − 1 on the positive side and nothing left of the negative one, which
    bounds the unbiased 0–1 loss up to a constant (Qaraei et al., 2021). Normalised: the share
    a_j / (1 + Σ_{k≠j} a_k) bounds the true share 1/N* by Jensen's inequality; with label j itself
    in the sum, as sometimes printed, it is no bound. Plain pick-all-labels needs none: it is linear
    in non-negative terms, and this is the unbiased weight.

    >>> bound([[1, 1]], [0.5, 0.25], normalized=True).pos.toarray()
    array([[0.4       , 1.33333333]])
    """
    _validation.one_of(reduction, REDUCTIONS, "reduction")
    matrix = _validation.labels(labels)
    inverse = inverse_of(propensity, matrix)
    if normalized:
        return _both(matrix, by_chunks(matrix.indptr, kernels.bound, inverse=inverse)[0])
    if reduction == "pal":
        return _unbiased(matrix, inverse, normalized)
    pos = with_values(matrix, 2 * inverse.entries() - 1)
    return Weights(pos, with_values(matrix, np.ones(matrix.nnz)))


def empirical_bayes(
    labels: Any, propensity: Any, *, normalized: bool = True, reduction: str = "ova"
) -> Weights:
    """(1/p_j) E[1/N* | m]: how many labels a row truly has is learnt from all rows together.

    M_j is independent of N* = |Y*|, so E[(Y_j/p_j)(1/N*)] is the mean true share; the unknown 1/N*
    is replaced by its posterior mean given the m labels seen. The weights are positive and of
    bounded variance, at the price of a bias where the propensities of a row say something about its
    N* beyond m. The fitted distribution of N*: `count_distribution`. There is no plain form: a loss
    without 1/N* has nothing to estimate, and `unbiased` is already exact and positive.

    >>> empirical_bayes([[1, 1, 0], [0, 1, 0], [0, 0, 0]], [1.0, 1.0, 1.0]).pos.toarray()
    array([[0.5, 0.5, 0. ],
           [0. , 1. , 0. ],
           [0. , 0. , 0. ]])
    """
    _validation.one_of(reduction, REDUCTIONS, "reduction")
    if not normalized:
        raise ValueError(
            "empirical_bayes estimates the 1/N* of normalised losses and has no plain form; "
            "pass normalized=True, or use `unbiased` for a plain loss."
        )
    matrix = _validation.labels(labels)
    inverse = inverse_of(propensity, matrix)
    share = distribution_of(matrix, inverse).share
    values, _ = by_chunks(matrix.indptr, kernels.spread, share)
    return _both(matrix, values * inverse.entries())


def tempered(
    labels: Any,
    propensity: Any,
    *,
    tau: float = 0.5,
    normalized: bool = False,
    reduction: str = "ova",
) -> Weights:
    """Unbiased weights for 1 + τ(1/p − 1) in place of 1/p: less variance, more bias.

    τ = 0 is `vanilla`, τ = 1 is `unbiased`, bit for bit.

    >>> tempered([[1, 1]], [0.5, 0.25], tau=0.5).pos.toarray()
    array([[1.5, 2.5]])
    """
    _validation.one_of(reduction, REDUCTIONS, "reduction")
    matrix = _validation.labels(labels)
    if sp.issparse(propensity):
        propensity = with_values(
            matrix, temper(_validation.entry_propensity(propensity, matrix), tau)
        )
    else:
        propensity = temper(_validation.propensity(propensity, matrix.shape[1]), tau)
    return _unbiased(matrix, inverse_of(propensity, matrix), normalized)


def _both(matrix: sp.csr_array, values: Floats) -> Weights:
    pos = with_values(matrix, values)
    return Weights(pos, pos)


CORRECTIONS: dict[str, Callable[..., Weights]] = {
    "vanilla": vanilla,
    "unbiased": unbiased,
    "bound": bound,
    "empirical_bayes": empirical_bayes,
    "tempered": tempered,
}
