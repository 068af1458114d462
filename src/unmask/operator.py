"""The propensity-scoring operator: an unbiased estimate of any function of the true labels.

Labels go missing independently, Y = M ⊙ Y*, P(M_j = 1) = p_j. For a function f of a label set there
is exactly one function P(f) of the observed set with E[P(f)(Y)] = f(Y*) for every Y*:

    one label   P(f)(1) = (f(1) + (p − 1) f(0)) / p,    P(f)(0) = f(0)
    any number  P(f)(I) = Σ_{J⊆I} f(J) Π_{j∈J} 1/p_j Π_{k∈I∖J} (1 − 1/p_k)

For one label its variance is q(1 − q)(f(1) − f(0))² / p², q = P(Y = 1).

(Schultheis & Babbar, *Unbiased loss functions for multilabel classification with missing labels*,
2021). This is the slow, general truth beside the closed forms in `weights` and `metrics`, and it
works for functions that have none. Its cost is 2^u for u observed labels with p < 1; labels with
p = 1 are certain and cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from unmask._kernels import even_bounds
from unmask._messages import named_options
from unmask._typing import Bools, Floats, Integers, LabelsLike, PropensityLike
from unmask.arrays import checks
from unmask.propensity.models import reciprocal

__all__ = ["Estimate", "unbiased"]

SetFunction = Callable[[Floats, int], ArrayLike]

BATCH = 1 << 21  # numbers in one batch of label sets: 16 MB
BEYOND = "P(f) exceeds float64 for {}: raise the propensities with `propensity.clip`."


@dataclass(frozen=True)
class Estimate:
    """P(f) for every row.

    Attributes
    ----------
    value : floats, first axis rows
        Whatever f returns, averaged over label sets.
    standard_error : floats
        Of the subsampling alone (0 where every subset was visited).
    rounding : floats
        How far rounding may have moved an enumerated value: terms of either sign cancel.
    exact : (n,) bool
        Whether every subset was visited.

    Examples
    --------
    >>> how_many = unbiased(lambda sets, row: sets.sum(axis=1), [[1, 1], [0, 0]], [0.5, 0.25])
    >>> how_many.value, how_many.exact, bool((how_many.rounding < 1e-12).all())
    (array([6., 0.]), array([ True,  True]), True)
    """

    value: Floats
    standard_error: Floats
    rounding: Floats
    exact: Bools


@named_options
def unbiased(
    f: SetFunction,
    labels: LabelsLike,
    propensity: PropensityLike,
    *,
    exact_up_to: int = 20,
    samples: int = 100,
    seed: int = 0,
) -> Estimate:
    """Return P(f) for every row of `labels`, whatever `f` is.

        P(f)(I) = Σ_{J⊆I} f(J) Π_{j∈J} 1/p_j Π_{k∈I∖J} (1 − 1/p_k)

    Rows with up to `exact_up_to` uncertain labels are enumerated. Above that the average of
    `samples` subsamplings estimates P(f): drop each uncertain label with probability one half,
    halve the propensities of those kept, and again until few enough are left. That is unbiased too,
    and noisy: mind the standard error. Results depend on `seed` and the row alone.

    Parameters
    ----------
    f : function (label_sets, row) → one number or array per set
        Receives a batch of label sets, a 0/1 array of shape (batch, L), and the number of the row
        they belong to (to look up its scores, say). Where L is large and f looks only at observed
        labels, hand in one row's observed columns alone:
        `unbiased(f, np.ones((1, m)), p[columns])`.
    labels : (n, L) matrix of 0 and 1
        Observed labels, dense or sparse.
    propensity : (L,) numbers in (0, 1], or sparse (n, L)
        One per label, or one per observed label.
    exact_up_to : int, default 20
        The most uncertain labels (p < 1) of a row that is enumerated.
    samples : int, default 100
        Subsamplings of longer rows.
    seed : int, default 0
        Of the subsampling.

    Returns
    -------
    Estimate

    Raises
    ------
    ValueError
        If labels or propensities are out of range, `f` does not return one value per set, or the
        result exceeds float64.

    References
    ----------
    Schultheis & Babbar, *Unbiased loss functions for multilabel classification with missing labels*
    (2021).

    Examples
    --------
    Recall of the prediction {0} when both labels are true and p = 1/3, over what may be observed:

    >>> recall = lambda sets, row: sets[:, 0] / np.maximum(sets.sum(axis=1), 1)
    >>> unbiased(recall, [[1, 1], [1, 0], [0, 1], [0, 0]], [1 / 3, 1 / 3]).value
    array([-1.5,  3. ,  0. ,  0. ])
    """
    if not (exact_up_to >= 1 and samples >= 2):
        raise ValueError(
            f"exact_up_to must be at least 1 and samples at least 2; got {exact_up_to}, {samples}."
        )
    matrix = checks.labels(labels)
    inverse = reciprocal(checks.entry_propensity(propensity, matrix))
    rows = []
    for row, (begin, end) in enumerate(zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)):
        instance = _Row(f, row, matrix.shape[1], matrix.indices[begin:end], inverse[begin:end])
        if np.count_nonzero(instance.inverse > 1) <= exact_up_to:
            rows.append((*_enumerate(instance), True))
        else:
            rows.append((*_subsample(instance, exact_up_to, samples, seed), False))
    value, error, rounding, exact = zip(*rows, strict=True) if rows else ((), (), (), ())
    return Estimate(
        np.array(value), np.array(error), np.array(rounding), np.array(exact, dtype=bool)
    )


@dataclass(frozen=True)
class _Row:
    """One instance: the function, the columns of its observed labels, and their 1/p."""

    f: SetFunction
    number: int
    n_labels: int
    columns: Integers
    inverse: Floats


def _enumerate(row: _Row) -> tuple[Floats, Floats, Floats]:
    """Return value, standard error and rounding of P(f), visiting all subsets in batches."""
    value = size = np.zeros(())
    for label_sets, weights in _subsets(row):
        values = np.asarray(row.f(label_sets, row.number), dtype=np.float64)
        if values.shape[:1] != weights.shape:
            raise ValueError(
                f"f must return one value per label set; got shape {values.shape} "
                f"for {weights.size} sets in row {row.number}."
            )
        with np.errstate(over="ignore", invalid="ignore"):
            value = value + np.tensordot(weights, values, 1)
            size = size + np.tensordot(np.abs(weights), np.abs(values), 1)
        if not np.isfinite(size).all() and np.isfinite(values).all():
            raise ValueError(BEYOND.format(f"the {row.inverse.size} labels of row {row.number}"))
    rounding = (row.columns.size + 1) * np.finfo(np.float64).eps * size
    certain = row.inverse.size == 0 or row.inverse.max() == 1
    return value, np.zeros_like(value), np.zeros_like(value) if certain else rounding


def _subsets(row: _Row) -> Iterator[tuple[Floats, Floats]]:
    """Yield all subsets with a weight other than 0, and Π_{kept} a Π_{dropped} (1 − a) for each.

    A label with p = 1 has no weight when dropped, so it is in every subset.
    """
    certain = row.inverse == 1
    always, columns, inverse = row.columns[certain], row.columns[~certain], row.inverse[~certain]
    for start, stop in pairwise(even_bounds(1 << columns.size, row.n_labels, BATCH).tolist()):
        codes = np.arange(start, stop)
        kept = (codes[:, None] >> np.arange(columns.size)) & 1 == 1
        label_sets = np.zeros((codes.size, row.n_labels))
        label_sets[:, always] = 1
        label_sets[:, columns] = kept
        with np.errstate(over="ignore"):
            weights = np.where(kept, inverse, 1 - inverse).prod(axis=1)
        yield label_sets, weights


def _subsample(
    row: _Row, exact_up_to: int, samples: int, seed: int
) -> tuple[Floats, Floats, Floats]:
    random = np.random.default_rng([seed, row.number])
    results = [_enumerate(_thin(row, exact_up_to, random)) for _ in range(samples)]
    values, _, rounding = (np.array(part) for part in zip(*results, strict=True))
    error = values.std(axis=0, ddof=1) / np.sqrt(samples)
    return values.mean(axis=0), error, rounding.mean(axis=0)


def _thin(row: _Row, exact_up_to: int, random: np.random.Generator) -> _Row:
    """Drop uncertain labels of a row at random, p halved, until few enough are left."""
    columns, inverse = row.columns, row.inverse
    while np.count_nonzero(inverse > 1) > exact_up_to:
        kept = (inverse == 1) | (random.random(inverse.size) < 0.5)
        columns, inverse = columns[kept], inverse[kept]
        inverse = np.where(inverse > 1, 2 * inverse, inverse)
    return _Row(row.f, row.number, row.n_labels, columns, inverse)
