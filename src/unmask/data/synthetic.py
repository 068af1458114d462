"""Data whose truth is known, made from a seed, and labels hidden on purpose.

`independent`: the simulation of the paper's recall study; labels only, no features.
`planted`: a text-like data set that models can really learn. Labels follow a power law, each label
has a few words of its own, and a row's words are drawn from its labels' words and from a Zipf
background. Label and word numbers carry no meaning: both orders are shuffled.
`hide` is the masking model, so that what is lost can be measured:

    Y = M ⊙ Y*,   M_ij ~ Bernoulli(p_j), all independent

Labels go missing; none is added. A mask that does more (`propensity.MaskModel`: rows of little
effort, rows nobody annotated, wrong labels) says by its method `observe` what is seen.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp

from unmask._typing import Integers, LabelsLike, PropensityLike
from unmask.arrays import checks, chosen_entries
from unmask.data.dataset import Dataset

Rng = np.random.Generator
__all__ = ["independent", "planted"]


def independent(
    n: int = 10_000, n_labels: int = 100, *, probability: float = 0.1, seed: int
) -> sp.csr_array:
    """Draw true labels, all independent and equally likely: Y*_ij ~ Bernoulli(probability).

    Parameters
    ----------
    n : int, default 10000
        Rows.
    n_labels : int, default 100
        Labels.
    probability : float, default 0.1
        Of every label in every row, in [0, 1].
    seed : int
        The same seed gives the same labels.

    Returns
    -------
    csr_array of shape (n, n_labels), float32

    Raises
    ------
    ValueError
        If the probability lies outside [0, 1].

    References
    ----------
    Schultheis & Babbar, figure simdata: the simulation of the recall study.

    Examples
    --------
    >>> float(independent(1000, seed=0).sum(axis=1).mean().round())
    10.0
    """
    checks.in_range(probability, "probability", 0, 1)
    drawn = np.random.default_rng(seed).random((n, n_labels)) < probability
    return sp.csr_array(drawn.astype(np.float32))


def planted(
    n: int,
    *,
    n_features: int = 2_000,
    n_labels: int = 200,
    labels_per_row: float = 4.0,
    words_per_label: int = 8,
    noise_words: float = 6.0,
    skew: float = 0.8,
    seed: int,
) -> Dataset:
    """Draw n rows of word counts with their true labels.

    Rows are independent, so the first part can serve for training and the rest for testing. Each
    label of a row contributes three words drawn from its own.

    Parameters
    ----------
    n : int
        Rows.
    n_features : int, default 2000
        Words.
    n_labels : int, default 200
        Labels.
    labels_per_row : float, default 4.0
        Mean of the geometric number of labels drawn for a row, at least 1.
    words_per_label : int, default 8
        Words of its own that each label has.
    noise_words : float, default 6.0
        Mean of the Poisson number of background words in a row.
    skew : float, default 0.8
        Labels are drawn with probability ∝ rank^(−skew).
    seed : int
        The same seed gives the same data.

    Returns
    -------
    Dataset
        Features of shape (n, n_features), labels of shape (n, n_labels).

    Raises
    ------
    ValueError
        If a size is below 1.

    Examples
    --------
    >>> data = planted(100, seed=0)
    >>> data.features.shape, data.labels.shape
    ((100, 2000), (100, 200))
    """
    least_one = {"n": n, "n_features": n_features, "n_labels": n_labels,
                 "labels_per_row": labels_per_row, "words_per_label": words_per_label}  # fmt: skip
    for name, value in least_one.items():
        checks.in_range(value, name, 1, np.inf)
    rng = np.random.default_rng(seed)
    per_row = np.minimum(rng.geometric(1 / labels_per_row, n), n_labels)
    labels = _csr_of(_rows(per_row), _power_law(n_labels, skew, per_row.sum(), rng), (n, n_labels))
    labels.data[:] = 1  # a label drawn twice is there once

    own_words = rng.integers(n_features, size=(n_labels, words_per_label))
    picked = own_words[labels.indices[:, None], rng.integers(words_per_label, size=(labels.nnz, 3))]
    background = rng.poisson(noise_words, n)
    words = np.r_[picked.ravel(), _power_law(n_features, 1.0, background.sum(), rng)]
    rows = np.r_[np.repeat(_rows(np.diff(labels.indptr)), 3), _rows(background)]
    return Dataset(features=_csr_of(rows, words, (n, n_features)), labels=labels)


def _rows(per_row: Integers) -> Integers:
    return np.repeat(np.arange(len(per_row), dtype=np.int32), per_row)


def _csr_of(rows: Integers, columns: Integers, shape: tuple[int, int]) -> sp.csr_array:
    """Count how often each (row, column) was drawn."""
    ones = np.ones(len(rows), dtype=np.float32)
    drawn = sp.coo_array((ones, (rows, columns.astype(np.int32))), shape=shape)
    return sp.csr_array(drawn)


def _power_law(n: int, skew: float, size: int, rng: Rng) -> Integers:
    """Draw from n shuffled items, the item of rank r with probability ∝ r^(−skew)."""
    cumulative = np.cumsum(np.arange(1, n + 1, dtype=np.float64) ** -skew)
    ranks = np.searchsorted(cumulative, rng.random(size) * cumulative[-1], side="right")
    shuffled = rng.permutation(n).astype(np.int32)
    return np.asarray(shuffled[np.minimum(ranks, n - 1)])


@runtime_checkable
class Mask(Protocol):
    """Anything that says which labels of rows are observed."""

    def observe(self, true_labels: sp.csr_array, rng: np.random.Generator) -> sp.csr_array:
        """Return observed labels of rows with these true ones (checked)."""
        ...


def hide(true_labels: LabelsLike, propensity: PropensityLike | Mask, *, seed: int) -> sp.csr_array:
    """Return observed labels: each true label kept, independently, with its propensity.

        Y_ij = M_ij Y*_ij,    M_ij ~ Bernoulli(p_j)

    Parameters
    ----------
    true_labels : matrix of shape (n, L)
        Complete labels, dense or sparse.
    propensity : array of shape (L,), sparse matrix of shape (n, L), or Mask
        Numbers in (0, 1]: one per label, or one per true label entry (same pattern); or a mask
        that does more than that, such as `propensity.MaskModel`.
    seed : int
        The same seed gives the same mask on every machine.

    Returns
    -------
    csr_array of shape (n, L), float32

    Raises
    ------
    ValueError
        If labels or propensities are out of range or do not fit each other.

    Examples
    --------
    >>> hide([[1, 1, 0], [0, 1, 1]], [1.0, 0.5, 1.0], seed=1).toarray()
    array([[1., 0., 0.],
           [0., 1., 1.]], dtype=float32)
    """
    labels = checks.labels(true_labels, name="true_labels")
    if isinstance(propensity, Mask):
        return propensity.observe(labels, np.random.default_rng(seed))
    chance = checks.entry_propensity(propensity, labels)
    kept = np.random.default_rng(seed).random(labels.nnz) < chance
    return chosen_entries(labels, kept)
