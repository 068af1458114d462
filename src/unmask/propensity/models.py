"""Models that state propensities: from label frequency, from label rank, or the same for all.

Every result is an array that carries its `source`: the formula and its constants.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from unmask import _validation
from unmask._typing import Floats, LabelsLike, PropensityLike
from unmask.propensity.source import Propensity, Source, SourceKind, source_of, with_source


def jain(labels: LabelsLike, *, a: float = 0.55, b: float = 1.5) -> Propensity:
    """Jain propensities of a *training* label matrix.

        p_j = 1 / (1 + C (n_j + b)^(−a)),    C = (ln n − 1)(b + 1)^a

    with n training rows, n_j of which carry label j.

    Parameters
    ----------
    labels : matrix of shape (n, L)
        Training labels, dense or sparse, n ≥ 3.
    a, b : float, default 0.55 and 1.5
        Jain's constants; `preset` has those in use for public data sets.

    Returns
    -------
    Propensity
        An array of shape (L,) that carries its `source`.

    Raises
    ------
    ValueError
        If there are fewer than 3 rows, or a or b is no positive number.

    References
    ----------
    Jain, Prabhu & Varma, *Extreme multi-label loss functions for recommendation, tagging, ranking
    and other missing label applications*, KDD 2016.

    Examples
    --------
    >>> jain([[1, 0]] * 25 + [[0, 1]] + [[0, 0]] * 24).round(4)
    array([0.5572, 0.2556])
    """
    matrix = _validation.labels(labels)
    counts = np.bincount(matrix.indices, minlength=matrix.shape[1])
    return jain_curve(counts, matrix.shape[0], a=a, b=b)


def jain_curve(counts: ArrayLike, n: int, *, a: float = 0.55, b: float = 1.5) -> Propensity:
    """Jain propensities from label counts, for when the matrix is not at hand.

        p_j = 1 / (1 + C (n_j + b)^(−a)),    C = (ln n − 1)(b + 1)^a

    Parameters
    ----------
    counts : array of shape (L,)
        Training rows n_j that carry each label.
    n : int
        Training rows, at least 3.
    a, b : float, default 0.55 and 1.5
        Jain's constants.

    Returns
    -------
    Propensity
        An array of shape (L,) that carries its `source`.

    Raises
    ------
    ValueError
        If a count lies outside 0 … n, n is below 3, or a or b is no positive number.

    References
    ----------
    Jain, Prabhu & Varma, KDD 2016 (as for `jain`).

    Examples
    --------
    >>> jain_curve([1, 25], n=50).round(4)
    array([0.2556, 0.5572])
    """
    numbers = _validation.numbers(counts, "label counts")
    positives = _validation.finite(numbers.astype(np.float64), "label counts")
    _validation.training_rows(n)
    if not (0 < a < np.inf and 0 < b < np.inf):
        raise ValueError(f"the Jain constants must be positive numbers; got a = {a:g}, b = {b:g}.")
    if positives.size and not (positives.min() >= 0 and positives.max() <= n):
        raise ValueError(
            f"label counts must lie between 0 and n = {n}; got {positives.min():g} "
            f"to {positives.max():g}."
        )
    with np.errstate(over="ignore", invalid="ignore"):
        scale = (np.log(n) - 1) * np.float64(b + 1) ** a
        p = np.asarray(1 / (1 + scale * (positives + b) ** -a))
    if not (p > 0).all():
        raise ValueError(
            f"the Jain constants a = {a:g}, b = {b:g} leave a label no propensity at all."
        )
    return with_source(p, Source(SourceKind.JAIN, {"a": float(a), "b": float(b)}))


def constant(n_labels: int, value: float) -> Propensity:
    """The same propensity for every label: p_j = value.

    Parameters
    ----------
    n_labels : int
        L, the number of labels.
    value : float
        The propensity, in (0, 1].

    Returns
    -------
    Propensity
        An array of shape (L,) that carries its `source`.

    Raises
    ------
    ValueError
        If the value lies outside (0, 1].

    Examples
    --------
    >>> constant(3, 0.4)
    array([0.4, 0.4, 0.4])
    """
    checked = _validation.propensity(np.full(n_labels, value))
    return with_source(checked, Source(SourceKind.CONSTANT, {"p": float(value)}))


def inverse_linear(labels: LabelsLike, *, head: float = 2.0, tail: float = 20.0) -> Propensity:
    """1/p_j linear in the rank of label j: `head` for the most frequent, `tail` for the rarest.

        1/p_j = head + (tail − head) rank_j / (L − 1),    rank 0 the most frequent label

    Parameters
    ----------
    labels : matrix of shape (n, L)
        Training labels, dense or sparse. Equally frequent labels rank by index.
    head, tail : float, default 2.0 and 20.0
        1/p of the first and of the last label, at least 1.

    Returns
    -------
    Propensity
        An array of shape (L,) that carries its `source`.

    Raises
    ------
    ValueError
        If head or tail is below 1 or not finite.

    References
    ----------
    Schultheis & Babbar, *Unbiased loss functions for multilabel classification with missing
    labels*: the schedule of the training study.

    Examples
    --------
    >>> 1 / inverse_linear([[1, 1, 0], [0, 1, 0]])
    array([11.,  2., 20.])
    """
    if not (1 <= head < np.inf and 1 <= tail < np.inf):
        raise ValueError(f"inverse propensities must be at least 1; got {head:g} to {tail:g}.")
    matrix = _validation.labels(labels)
    counts = np.bincount(matrix.indices, minlength=matrix.shape[1])
    inverse = np.empty(matrix.shape[1])
    inverse[np.argsort(-counts, kind="stable")] = np.linspace(head, tail, matrix.shape[1])
    ends = {"head": float(head), "tail": float(tail)}
    return with_source(1 / inverse, Source(SourceKind.INVERSE_LINEAR, ends))


def clip(propensity: PropensityLike, low: float) -> Propensity:
    """Propensities raised to at least `low`, max(p_j, low): less variance, more bias.

    Parameters
    ----------
    propensity : array of shape (L,)
        Numbers in (0, 1].
    low : float
        The lowest propensity, in (0, 1].

    Returns
    -------
    Propensity
        An array of shape (L,) that carries its `source`.

    Raises
    ------
    ValueError
        If `low` or a propensity lies outside (0, 1].

    Examples
    --------
    >>> clip([0.01, 0.5], 0.1)
    array([0.1, 0.5])
    """
    if not 0 < low <= 1:
        raise ValueError(f"the lowest propensity must lie in (0, 1]; got {low:g}.")
    raised = np.maximum(_validation.propensity(propensity), low)
    return with_source(raised, source_of(propensity).changed("clip", low))


def reciprocal(propensity: Floats) -> Floats:
    """1/p of propensities that have been checked, finite (as is 2/p − 1) even for the smallest.

    >>> reciprocal(np.array([0.25, 5e-324]))
    array([4.00000000e+000, 4.49423284e+307])
    """
    return 1 / np.maximum(propensity, 4 / np.finfo(np.float64).max)


def temper(propensity: PropensityLike, tau: float) -> Propensity:
    """Move 1/p towards 1:  1/p_τ = 1 + τ (1/p − 1).  τ = 0 corrects nothing, τ = 1 everything.

    Parameters
    ----------
    propensity : array of shape (L,)
        Numbers in (0, 1].
    tau : float
        The share of the correction that is kept, in [0, 1].

    Returns
    -------
    Propensity
        An array of shape (L,) that carries its `source`.

    Raises
    ------
    ValueError
        If τ lies outside [0, 1] or a propensity outside (0, 1].

    Examples
    --------
    >>> temper([0.25, 1.0], 0.5)
    array([0.4, 1. ])
    """
    _validation.in_range(tau, "tau", 0, 1)
    p = _validation.propensity(propensity)
    tempered = p / (p + tau * (1 - p))  # at τ = 1 exactly p, at τ = 0 exactly 1
    return with_source(tempered, source_of(propensity).changed("temper", tau))
