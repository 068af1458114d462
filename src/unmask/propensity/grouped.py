"""Propensities of groups of rows: annotators, sources, years; drawn towards each other.

    logit p_ij = logit p_j + δ_g,    g the group of row i,    δ_g ~ N(0, τ²)

p_j is the estimate of the whole audit. Given τ, every δ_g has its mode by Newton's method, and τ²
is the mean of δ_g² and their variances (EM). Few audited labels of a group leave it near 0, many
let it go its own way; where labels of a row are kept or lost together, they count for less by the
design effect.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.special import expit, logit

from unmask import _validation
from unmask._sparse import entry_rows
from unmask._typing import Floats, Ints, LabelsLike
from unmask.propensity.estimate import PropensityEstimate

ITERATIONS = 200
SMALLEST_SPREAD = 1e-3


@dataclass(frozen=True, eq=False)
class GroupedPropensities:
    """Propensities that differ between groups of rows.

    Parameters
    ----------
    estimate : PropensityEstimate
        p_j of the whole audit.
    names : tuple of str
        The groups.
    shift, error : floats, one per group
        δ_g and its standard error.
    spread : float
        τ.

    Examples
    --------
    >>> from unmask import propensity
    >>> true_labels = np.ones((40, 2), dtype=int)
    >>> observed = np.array([[1, 1], [1, 0]] * 10 + [[1, 0], [0, 0]] * 10)
    >>> groups = ["north"] * 20 + ["south"] * 20
    >>> grouped = propensity.audit(observed, true_labels, groups=groups)
    >>> grouped.names, bool(grouped.shift[0] > grouped.shift[1])
    (('north', 'south'), True)
    """

    estimate: PropensityEstimate
    names: tuple[str, ...]
    shift: Floats
    error: Floats
    spread: float

    def interval(self, name: str, confidence: float = 0.95) -> tuple[float, float]:
        """The ends of δ of a group; ValueError for one that was not audited."""
        from scipy.stats import norm

        _validation.one_of(name, self.names, "group")
        _validation.confidence(confidence)
        place, reach = self.names.index(name), float(norm.ppf((1 + confidence) / 2))
        middle, error = float(self.shift[place]), float(self.error[place])
        return middle - reach * error, middle + reach * error

    def of_group(self, name: str) -> Floats:
        """(L,) propensities of a group; those of the whole audit for one that was not audited."""
        shift = self.shift[self.names.index(name)] if name in self.names else 0.0
        return np.asarray(expit(_logits(self.estimate.value) + shift))

    def of_entries(self, labels: LabelsLike, groups: ArrayLike) -> sp.csr_array:
        """A propensity for every observed label, for `evaluate` and the weights.

        Parameters
        ----------
        labels : (n, L) matrix of 0 and 1
        groups : n names

        Returns
        -------
        csr_array of shape (n, L)
            With the pattern of the labels.

        Raises
        ------
        ValueError
            If there is not one group per row.
        """
        matrix = _validation.labels(labels)
        names, group = _groups(groups, matrix.shape[0])
        by_group = np.array([self.of_group(name) for name in names])
        rows = entry_rows(matrix)
        chance = by_group[group[rows], matrix.indices]
        return sp.csr_array((chance, matrix.indices, matrix.indptr), shape=matrix.shape)


def fit_groups(
    kept: Floats, true_labels: sp.csr_array, groups: ArrayLike, estimate: PropensityEstimate
) -> GroupedPropensities:
    """The groups' shifts from audited rows.

    Parameters
    ----------
    kept : (nnz,) floats
        1 for every true label that was kept, else 0, in the order of `true_labels.indices`.
    true_labels : csr_array of shape (m, L)
    groups : m names
    estimate : PropensityEstimate
        Of all these rows.

    Returns
    -------
    GroupedPropensities

    Raises
    ------
    ValueError
        If there is not one group per row.
    """
    names, group = _groups(groups, true_labels.shape[0])
    of_entry = group[entry_rows(true_labels)]
    base = _logits(estimate.value)[true_labels.indices]
    shift, spread, weight = np.zeros(len(names)), 0.5, np.ones(len(names))
    for _ in range(ITERATIONS):
        chance = expit(base + shift[of_entry])
        slope = np.bincount(of_entry, kept - chance, len(names)) / estimate.effect
        weight = np.bincount(of_entry, chance * (1 - chance), len(names)) / estimate.effect
        weight = weight + 1 / spread**2
        step = np.clip((slope - shift / spread**2) / weight, -1, 1)
        shift = shift + step
        before, spread = (
            spread,
            max(float(np.sqrt(np.mean(shift**2 + 1 / weight))), SMALLEST_SPREAD),
        )
        if np.abs(step).max() < 1e-9 and abs(spread - before) < 1e-9:
            break
    return GroupedPropensities(estimate, names, shift, 1 / np.sqrt(weight), spread)


def _groups(groups: ArrayLike, rows: int) -> tuple[tuple[str, ...], Ints]:
    array = np.asarray(groups)
    if array.shape != (rows,):
        raise ValueError(f"groups of shape {array.shape} for {rows} rows; give one name per row.")
    names, group = np.unique(array.astype(str), return_inverse=True)
    return tuple(names.tolist()), np.asarray(group, dtype=np.int64)


def _logits(propensity: Floats) -> Floats:
    return np.asarray(logit(np.clip(propensity, 1e-6, 1 - 1e-6)))
