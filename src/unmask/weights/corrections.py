"""Label weights of observed labels, from labels and propensities, and for other people's trainers.

A correction takes labels and propensities and returns `Weights`; all have one signature. `labels`
is rows × labels, 0/1, or a data set, whose judgements are then used. `propensity` is one number
per label, or a sparse matrix with the pattern of the labels where it differs from row to row.
`normalized` divides a row's loss among its labels (the losses consistent for recall), `reduction`
is the kind of loss that will use the weights: "ova" (one-vs-all), "pal" (pick-all-labels; only
`pos` counts there) or "pairwise". The formulas stand in `formulas`, which `unmask.torch` reads as
well.

Exports say for which weights they are exact, and refuse others:

| trainer                                     | takes                     | exact for              |
|---------------------------------------------|---------------------------|------------------------|
| torch `BCEWithLogitsLoss(pos_weight=…)`     | one weight per label      | cut = 1, pos per label |
| torch `BCEWithLogitsLoss` / cross-entropy   | targets beyond {0, 1}     | pos = cut              |
| liblinear, scikit-learn, one label          | rows with target, weight  | pos ≥ 0, cut ≤ 1       |
| PECOS `XLinearModel.train(X, Y, R=…)`       | relevance of positives    | cut = 1, pos > 0       |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
import scipy.sparse as sp

from unmask._messages import named_options, setting
from unmask._text import html_table
from unmask._typing import (
    Array,
    Bools,
    Floats,
    Integers,
    Ints,
    LabelsLike,
    MatrixLike,
    PropensityLike,
)
from unmask.arrays import checks
from unmask.arrays.checks import entry_rows, values_at
from unmask.data import Dataset
from unmask.propensity import temper
from unmask.propensity.mask_model import refuse_for_weights
from unmask.weights.formulas import (
    REDUCTIONS,
    StoredEntries,
    distribution_of,
    refuse_combination,
    stored_entries,
    weigh,
)

RowsLike: TypeAlias = "int | slice | list[int] | list[bool] | Integers | Bools"
"""Rows by number, slice, list or boolean mask."""


@dataclass(frozen=True)
class Weights:
    """`pos` and `cut` of every observed label: float64 matrices with the pattern of the labels.

    A row of weights belongs to a row of labels; `weights[rows]` takes rows out as a Weights, by
    number, slice, list or boolean mask. Where both are equal, `cut` is the same object as `pos`.

    Parameters
    ----------
    pos : (n, L) sparse floats
        The weight of ℓ₊ of every observed label.
    cut : (n, L) sparse floats
        How much of ℓ₋ of every observed label is taken away; stores the same entries as `pos`.

    Raises
    ------
    ValueError
        If a matrix is damaged, a weight is not finite, or the entries differ.

    Examples
    --------
    >>> from unmask import weights
    >>> w = weights.bound([[1, 1], [0, 1]], [0.5, 0.25])
    >>> w.pos.toarray()
    array([[3., 7.],
           [0., 7.]])
    >>> w[1].pos.toarray()
    array([[0., 7.]])
    """

    pos: sp.csr_array
    cut: sp.csr_array

    def __post_init__(self) -> None:
        """Bring both to float64 in canonical form, and refuse what are no label weights.

        Matrices can be changed in place, so whoever uses weights makes the record again.
        """
        pos = _matrix(self.pos)
        cut = pos if self.cut is self.pos else _matrix(self.cut)
        if cut is not pos and not checks.same_pattern(pos, cut):
            raise ValueError(
                f"pos and cut of label weights must store the same entries; got {pos.nnz} in "
                f"{pos.shape} and {cut.nnz} in {cut.shape}."
            )
        object.__setattr__(self, "pos", pos)
        object.__setattr__(self, "cut", cut)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: sizes and the range of the weights."""
        rows = [
            [name, f"{values.min(initial=0):.4g}", f"{values.max(initial=0):.4g}"]
            for name, values in (("pos", self.pos.data), ("cut", self.cut.data))
        ]
        caption = f"weights of {self.pos.nnz:,} observed labels in {self.pos.shape[0]:,} rows"
        return html_table(caption, ["", "lowest", "highest"], rows)

    def __getitem__(self, rows: RowsLike) -> Weights:
        """Return the weights of some rows."""
        chosen = np.atleast_1d(np.arange(self.pos.shape[0])[rows])
        if not (_has_rows(self.pos, chosen) and _has_rows(self.cut, chosen)):
            return replace(self)[rows]  # which checks all rows and raises
        pos = self.pos[chosen]
        return Weights(pos, pos if self.cut is self.pos else self.cut[chosen])


def _matrix(values: MatrixLike) -> sp.csr_array:
    checked = checks.matrix(values, name="label weights", column="label")
    numbers = checks.finite(checked.data.astype(np.float64, copy=False), "label weights")
    return checked if numbers is checked.data else with_values(checked, numbers)


def _has_rows(matrix: sp.csr_array, rows: Integers) -> bool:
    """Tell if these rows can be taken out, in time that depends on them alone; scipy trusts."""
    starts, indices, data = matrix.indptr, matrix.indices, matrix.data
    kinds = starts.dtype.kind, indices.dtype.kind, data.dtype
    if kinds != ("i", "i", np.float64) or starts.shape != (matrix.shape[0] + 1,):
        return False
    if data.ndim != 1 or data.shape != indices.shape:
        return False
    first, after = starts[rows], starts[rows + 1]
    sound = (first >= 0) & (first <= after) & (after <= data.size)
    return bool(starts[0] == 0 and sound.all())


def with_values(pattern: sp.csr_array, values: Array) -> sp.csr_array:
    """Return a matrix that shares the pattern (and its index arrays) and holds other values."""
    return sp.csr_array((values, pattern.indices, pattern.indptr), shape=pattern.shape)


Correction = TypeVar("Correction", bound=Callable[..., Weights])


def with_judgements(correction: Correction) -> Correction:
    """Check what a correction is asked for, and let it use the judgements of a data set.

    Verified labels have propensity 1, verified negatives are no labels. An ignored pair gets pos 0
    and cut 1, so that its ℓ₋ is taken away and it adds nothing to a one-vs-all loss; other losses
    compare the labels of a row with each other and cannot leave one of them out.
    """

    @wraps(correction)
    def corrected(
        labels: LabelsLike | Dataset, propensity: PropensityLike | None = None, **form: Any
    ) -> Weights:
        name, reduction = correction.__name__, form.get("reduction", "ova")
        normalized = form.get("normalized", name == "empirical_bayes")
        checks.one_of(reduction, REDUCTIONS, "reduction")
        refuse_combination(name, normalized, reduction)
        refuse_for_weights(propensity, normalized=normalized)
        if not isinstance(labels, Dataset):
            return correction(labels, propensity, **form)
        pairs = labels.after_judgements
        if pairs.ignored.nnz and reduction != "ova":
            raise ValueError(
                f"{pairs.ignored.nnz} ignored pairs can only be left out of one-vs-all losses; "
                "others compare all labels of a row. Use "
                f"{setting('reduction', 'ova', of='linear.train')}."
            )
        if pairs.certain.any() and propensity is not None:
            propensity = pairs.propensity(propensity)
        return _beside_ignored(correction(pairs.labels, propensity, **form), pairs.ignored)

    return cast(Correction, corrected)


def _beside_ignored(weights: Weights, ignored: sp.csr_array) -> Weights:
    """Add pos 0, cut 1 for every ignored pair."""
    if not ignored.nnz:
        return weights
    ones = with_values(ignored, np.ones(ignored.nnz))
    cut = sp.csr_array(weights.cut + ones)
    rows = entry_rows(cut)
    pos = values_at(weights.pos, rows, cut.indices)
    return Weights(with_values(cut, pos), cut)


@named_options
@with_judgements
def vanilla(
    labels: LabelsLike | Dataset,
    propensity: PropensityLike | None = None,
    *,
    normalized: bool = False,
    reduction: str = "ova",
) -> Weights:
    """Take observed labels for the truth: 1, or 1/m where normalised.

    Parameters
    ----------
    labels : (n, L) matrix of 0 and 1
        Observed labels, dense or sparse.
    propensity : optional
        Not used; here so that all corrections are called alike.
    normalized : bool, default False
        Whether a row's loss is divided among its m observed labels.
    reduction : {"ova", "pal", "pairwise"}, default "ova"
        The kind of loss; "pairwise" has no normalised form.

    Returns
    -------
    Weights
        pos = cut = 1, or 1/m.

    Raises
    ------
    ValueError
        If the labels are not 0/1, or the reduction is unknown or has no normalised form.

    Examples
    --------
    >>> vanilla([[1, 1, 0], [0, 0, 1]], normalized=True).pos.toarray()
    array([[0.5, 0.5, 0. ],
           [0. , 0. , 1. ]])
    """
    matrix = checks.labels(labels)
    entries = StoredEntries(matrix.indptr, np.ones(matrix.nnz))
    return _weights("vanilla", matrix, entries, normalized, reduction)


@named_options
@with_judgements
def unbiased(
    labels: LabelsLike | Dataset,
    propensity: PropensityLike,
    *,
    normalized: bool = False,
    reduction: str = "ova",
) -> Weights:
    """Weigh so that the loss has, over all masks, the mean of the loss on true labels.

    Plain a = 1/p; normalised T_j = a_j ∫₀¹ Π_{k≠j} (1 − u a_k) du, exact for any number of labels
    (`normalized_weights`). Large and of either sign where propensities are low: hinge losses are
    then unbounded below.

    Parameters
    ----------
    labels : (n, L) matrix of 0 and 1
        Observed labels, dense or sparse.
    propensity : (L,) numbers in (0, 1], or sparse (n, L)
        One per label, or one per observed label.
    normalized : bool, default False
        Whether a row's loss is divided among its labels.
    reduction : {"ova", "pal", "pairwise"}, default "ova"
        The kind of loss; "pairwise" has no normalised form.

    Returns
    -------
    Weights
        pos = cut = 1/p, or T.

    Raises
    ------
    ValueError
        If labels or propensities are out of range or do not fit each other, or the reduction is
        unknown or has no normalised form.

    References
    ----------
    Schultheis & Babbar, *Unbiased loss functions for multilabel classification with missing labels*
    (2021).

    Examples
    --------
    >>> unbiased([[1, 1], [0, 1]], [1 / 3, 1 / 3], normalized=True).pos.toarray()
    array([[-1.5, -1.5],
           [ 0. ,  3. ]])
    """
    matrix = checks.labels(labels)
    return _weights("unbiased", matrix, stored_entries(matrix, propensity), normalized, reduction)


@named_options
@with_judgements
def bound(
    labels: LabelsLike | Dataset,
    propensity: PropensityLike,
    *,
    normalized: bool = False,
    reduction: str = "ova",
) -> Weights:
    """Weigh positively, so that the mean loss over masks is no less than the true one.

    With a = 1/p:

    - plain one-vs-all: 2a − 1 on the positive side and nothing left of the negative one, which
      bounds the unbiased 0–1 loss up to a constant;
    - plain pick-all-labels: a, the unbiased weight, which is positive already;
    - pairwise: pos = a, cut = 1, which drops pairs of two observed labels. These are the smallest
      non-negative weights whose mean is a bound, for any non-negative pair loss (decision 0009);
    - normalised: a_j / (1 + Σ_{k≠j} a_k) bounds the true share 1/N* by Jensen's inequality. With
      label j itself in the sum, as sometimes printed, it is no bound.

    Parameters
    ----------
    labels : (n, L) matrix of 0 and 1
        Observed labels, dense or sparse.
    propensity : (L,) numbers in (0, 1], or sparse (n, L)
        One per label, or one per observed label. Propensities that are too high make it no bound.
    normalized : bool, default False
        Whether a row's loss is divided among its labels.
    reduction : {"ova", "pal", "pairwise"}, default "ova"
        The kind of loss; "pairwise" has no normalised form.

    Returns
    -------
    Weights
        Positive `pos`, and `cut` ≤ 1 for plain ova and pairwise.

    Raises
    ------
    ValueError
        If labels or propensities are out of range or do not fit each other, or the reduction is
        unknown or has no normalised form.

    References
    ----------
    Qaraei et al., *Convex surrogates for unbiased loss functions in extreme classification with
    missing labels* (2021); Schultheis & Babbar (2021).

    Examples
    --------
    >>> bound([[1, 1]], [0.5, 0.25], normalized=True).pos.toarray()
    array([[0.4       , 1.33333333]])
    >>> bound([[1, 1]], [0.5, 0.25], reduction="pairwise").pos.toarray()
    array([[2., 4.]])
    """
    matrix = checks.labels(labels)
    return _weights("bound", matrix, stored_entries(matrix, propensity), normalized, reduction)


@named_options
@with_judgements
def empirical_bayes(
    labels: LabelsLike | Dataset,
    propensity: PropensityLike,
    *,
    normalized: bool = True,
    reduction: str = "ova",
    without_empty: bool | None = None,
) -> Weights:
    """Weigh by (1/p_j) E[1/N* | m], N* being learnt from all rows together.

    M_j is independent of N* = |Y*|, so E[(Y_j/p_j)(1/N*)] is the mean true share; the unknown 1/N*
    is replaced by its posterior mean given the m labels seen. The weights are positive and of
    bounded variance, at the price of a bias where the propensities of a row say something about its
    N* beyond m. The fitted distribution of N*: `count_distribution`. There is no plain form: a loss
    without 1/N* has nothing to estimate, and `unbiased` is already exact and positive.

    Parameters
    ----------
    labels : (n, L) matrix of 0 and 1
        Observed labels, dense or sparse.
    propensity : (L,) numbers in (0, 1], or sparse (n, L)
        One per label, or one per observed label.
    normalized : bool, default True
        Must be True.
    reduction : {"ova", "pal"}, default "ova"
        The kind of loss; the weights are the same.
    without_empty : bool, optional
        Whether rows that show no label were dropped from the data: see `count_distribution`. By
        default they were if none is there.

    Returns
    -------
    Weights
        pos = cut > 0.

    Raises
    ------
    ValueError
        If `normalized` is False, the reduction is unknown or pairwise, or labels or propensities
        are out of range or do not fit each other.

    Examples
    --------
    >>> empirical_bayes([[1, 1, 0], [0, 1, 0], [0, 0, 0]], [1.0, 1.0, 1.0]).pos.toarray()
    array([[0.5, 0.5, 0. ],
           [0. , 1. , 0. ],
           [0. , 0. , 0. ]])
    """
    matrix = checks.labels(labels)
    entries = stored_entries(matrix, propensity)
    share = distribution_of(entries, matrix.shape[1], without_empty).share
    return _weights("empirical_bayes", matrix, entries, normalized, reduction, share)


@named_options
@with_judgements
def tempered(
    labels: LabelsLike | Dataset,
    propensity: PropensityLike,
    *,
    tau: float = 0.5,
    normalized: bool = False,
    reduction: str = "ova",
) -> Weights:
    """Weigh as `unbiased` with 1 + τ(1/p − 1) in place of 1/p: less variance, more bias.

    τ = 0 is `vanilla`, τ = 1 is `unbiased`, bit for bit.

    Parameters
    ----------
    labels : (n, L) matrix of 0 and 1
        Observed labels, dense or sparse.
    propensity : (L,) numbers in (0, 1], or sparse (n, L)
        One per label, or one per observed label.
    tau : float in [0, 1], default 0.5
        How much of the correction to apply.
    normalized : bool, default False
        Whether a row's loss is divided among its labels.
    reduction : {"ova", "pal", "pairwise"}, default "ova"
        The kind of loss; "pairwise" has no normalised form.

    Returns
    -------
    Weights
        pos = cut = 1 + τ(1/p − 1), or T of these numbers.

    Raises
    ------
    ValueError
        If τ, labels or propensities are out of range or do not fit each other, or the reduction is
        unknown or has no normalised form.

    Examples
    --------
    >>> tempered([[1, 1]], [0.5, 0.25], tau=0.5).pos.toarray()
    array([[1.5, 2.5]])
    """
    matrix = checks.labels(labels)
    if sp.issparse(propensity):
        propensity = with_values(matrix, temper(checks.entry_propensity(propensity, matrix), tau))
    else:
        propensity = temper(checks.propensity(propensity, matrix.shape[1]), tau)
    return _weights("tempered", matrix, stored_entries(matrix, propensity), normalized, reduction)


def _weights(
    correction: str,
    matrix: sp.csr_array,
    entries: StoredEntries,
    normalized: bool,
    reduction: str,
    share: Floats | None = None,
) -> Weights:
    values, cut_values = weigh(
        correction, entries, normalized=normalized, reduction=reduction, share=share
    )
    pos = with_values(matrix, values)
    return Weights(pos, pos if cut_values is values else with_values(matrix, cut_values))


CORRECTIONS: dict[str, Callable[..., Weights]] = {
    "vanilla": vanilla,
    "unbiased": unbiased,
    "bound": bound,
    "empirical_bayes": empirical_bayes,
    "tempered": tempered,
}


def to_pos_weight(weights: Weights) -> Floats:
    """Return the `pos_weight` of torch's `BCEWithLogitsLoss`: ℓ₊ counts pos_j, ℓ₋ of a positive 0.

    Exact for plain `vanilla` and plain `bound` with per-label propensities, where cut = 1 and pos
    is the same for all rows. Everything else raises: unbiased and normalised weights leave a share
    of ℓ₋ on observed labels, which `pos_weight` cannot say but soft targets can.

    Parameters
    ----------
    weights : Weights
        Label weights (n, L).

    Returns
    -------
    (L,) floats
        One weight per label; 1 for a label without observations, which nothing will use.

    Raises
    ------
    ValueError
        If some cut is not 1, or some label has different weights in different rows.

    Examples
    --------
    >>> from unmask import weights
    >>> to_pos_weight(weights.bound([[1, 1, 0], [0, 1, 0]], [0.5, 0.25, 0.1]))
    array([3., 7., 1.])
    """
    weights = replace(weights)
    _refuse(weights.pos, weights.cut.data != 1, "pos_weight needs cut = 1", "`to_soft_targets`")
    vector = np.ones(weights.pos.shape[1])
    vector[weights.pos.indices] = weights.pos.data
    differs = vector[weights.pos.indices] != weights.pos.data
    _refuse(weights.pos, differs, "pos_weight needs one weight per label", "`to_samples`")
    return vector


def to_soft_targets(weights: Weights) -> sp.csr_array:
    """Return targets for a loss linear in its target, t ℓ₊ + (1 − t) ℓ₋: binary cross-entropy.

    Exact whenever pos = cut: vanilla, unbiased, tempered, and every normalised correction.

    Parameters
    ----------
    weights : Weights
        Label weights (n, L).

    Returns
    -------
    sparse (n, L)
        0 off the pattern; may exceed 1 or be negative on it, which `BCEWithLogitsLoss` accepts.

    Raises
    ------
    ValueError
        If pos and cut differ.

    Examples
    --------
    >>> from unmask import weights
    >>> to_soft_targets(weights.unbiased([[1, 0]], [0.25, 0.5])).toarray()
    array([[4., 0.]])
    """
    weights = replace(weights)
    differs = weights.pos.data != weights.cut.data
    _refuse(weights.pos, differs, "soft targets need pos = cut", "`to_pos_weight`")
    return weights.pos


@dataclass(frozen=True)
class Samples:
    """A weighted binary problem.

    Attributes
    ----------
    rows : (s,) integers
        Row numbers into the features.
    targets : (s,) integers
        0 or 1.
    weights : (s,) floats
        Sample weights, none negative.

    Examples
    --------
    >>> from unmask import weights
    >>> problem = to_samples(weights.vanilla([[1, 1], [0, 1], [1, 0]]), label=0)
    >>> problem.rows, problem.targets.tolist(), problem.weights
    (array([1, 0, 2]), [0, 1, 1], array([1., 1., 1.]))
    """

    rows: Ints
    targets: Integers
    weights: Floats


def to_samples(weights: Weights, label: int) -> Samples:
    """Return one label's problem for solvers with sample weights (liblinear, scikit-learn …).

    Every row without the label is a negative of weight 1. A row with it is a positive of weight pos
    and, where cut ≠ 1, once more a negative of weight 1 − cut. Exact for any loss as long as no
    weight is negative: vanilla, bound, and normalised weights within [0, 1]. Unbiased weights make
    the second copy negative and raise.

    Parameters
    ----------
    weights : Weights
        Label weights (n, L).
    label : int
        The column.

    Returns
    -------
    Samples

    Raises
    ------
    ValueError
        If there is no such label, or a sample weight would be negative.

    Examples
    --------
    >>> from unmask import weights
    >>> to_samples(weights.vanilla([[1, 1], [0, 1], [1, 0]], normalized=True), label=1)
    Samples(rows=array([2, 0, 1, 0]), targets=array([0, 1, 1, 0], dtype=int8),
        weights=array([1. , 0.5, 1. , 0.5]))
    """
    weights = replace(weights)
    n, n_labels = weights.pos.shape
    if not 0 <= label < n_labels:
        span = f"lie in 0 … {n_labels - 1}" if n_labels else "exist, but there are none"
        raise ValueError(f"label must {span}; got {label}.")
    entries = np.flatnonzero(weights.pos.indices == label)
    observed = np.searchsorted(weights.pos.indptr, entries, side="right") - 1
    pos, rest = weights.pos.data[entries], 1 - weights.cut.data[entries]
    smallest = np.minimum(pos, rest)
    if (smallest < 0).any():
        first = int(np.argmax(smallest < 0))
        raise ValueError(
            f"sample weights must not be negative; got {smallest[first]:g} in row "
            f"{observed[first]}, label {label}. Use `bound` weights, or a loss that takes pos and "
            "cut."
        )
    other, again = np.setdiff1d(np.arange(n), observed), observed[rest > 0]
    return Samples(
        rows=np.concatenate([other, observed, again]),
        targets=np.repeat(np.array([0, 1, 0], np.int8), [other.size, observed.size, again.size]),
        weights=np.concatenate([np.ones(other.size), pos, rest[rest > 0]]),
    )


def to_relevance(weights: Weights) -> sp.csr_matrix:
    """Return the relevance matrix R of PECOS: float32, the cost of every positive.

    PECOS multiplies the loss of a positive by R and has nothing for the negative side of an
    observed label: exact where cut = 1 (plain vanilla and bound); else only `pos` is passed on.

    Parameters
    ----------
    weights : Weights
        Label weights (n, L).

    Returns
    -------
    sparse matrix (n, L) of float32

    Raises
    ------
    ValueError
        If a weight is not positive, or exceeds float32.

    Examples
    --------
    >>> from unmask import weights
    >>> to_relevance(weights.bound([[1, 0]], [0.25, 0.5])).toarray()
    array([[7., 0.]], dtype=float32)
    """
    pos = replace(weights).pos
    _refuse(pos, ~(pos.data > 0), "PECOS needs positive relevances", "`bound` or `empirical_bayes`")
    too_large = pos.data > np.finfo(np.float32).max
    _refuse(pos, too_large, "PECOS needs relevances within float32", "`bound`")
    # PECOS asks `isspmatrix`, which the newer sparse arrays are not.
    values = pos.data.astype(np.float32)
    return sp.csr_matrix((values, pos.indices, pos.indptr), shape=pos.shape)


def _refuse(matrix: sp.csr_array, bad: Bools, reason: str, instead: str) -> None:
    if bad.any():
        entry = int(np.argmax(bad))
        raise ValueError(
            f"{reason}; got pos {matrix.data[entry]:g} in row {checks.row_of(matrix, entry)}, "
            f"label {matrix.indices[entry]}. Use {instead} instead."
        )
