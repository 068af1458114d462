"""Control variates: what all rows show makes a judged sample worth more rows.

For rows i = 1 … n with values u_i, of which a sample S of m is judged, and any f_i known for all,

    θ̂ = mean over all f + mean over S (u − f)

is right for every f that does not depend on the judged rows it is applied to, and precise where f
predicts u. f is a ridge regression on covariates of all rows, cross-fitted: the sample is cut into
folds, and a row is predicted by the others. Sampling is without replacement, so that a fold is a
random part of the rows that are *not* in the other folds T, and exactly unbiased for any n is

    θ̂ = mean over folds of (1/n) [ Σ_T u + Σ_{not T} f + (n − |T|) mean over the fold (u − f) ]

where folds count by their sizes, so that every judged row does as much. It differs from the above
by O(1/n). In a stratified sample the last mean is taken by stratum.
With s² the variance of the cross-fitted residuals, drawn as if by one more row of each of the two
extreme values (of differences by one towards ¼),

    Var(θ̂) = Σ_h W_h² [ (1 − m_h/n_h) s_h²/m_h + V̄_h/n_h ]

where V̄ is the mean variance of values that are themselves estimated (pairs within a row), else 0.
The variance of a stratum of which one row was judged is unknown, and taken as the largest of that
bound and of the other strata.

Angelopoulos et al., *Prediction-powered inference*, Science 2023; Särndal, Swensson & Wretman,
*Model assisted survey sampling*, 1992, for the variance of two phases.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from unmask._typing import Floats, Ints

Limits: TypeAlias = "tuple[float, float] | tuple[Floats, Floats]"
FOLDS, RIDGE = 10, 10.0
SPREAD = 0.25
"""The largest variance of a value in [0, 1]."""


@dataclass(frozen=True, eq=False)
class RowSample:
    """Judged rows and their values.

    Parameters
    ----------
    rows, stratum : integers of shape (m,)
        The judged rows, and the stratum of each.
    sizes : integers of shape (H,)
        How many rows the strata have; together n.
    values : floats of shape (m, c)
        What was measured, c numbers of each row.
    variances : floats of shape (m,), or None
        Of values that are themselves estimated: an estimate of the variance of the first number
        (of the linearised ratio of two) within the row. None, with `estimated`, if unknown.
    estimated : bool, default False
        Whether values are estimates.
    """

    rows: Ints
    stratum: Ints
    sizes: Ints
    values: Floats
    variances: Floats | None = None
    estimated: bool = False

    @property
    def drawn(self) -> Ints:
        """How many rows were judged in each stratum."""
        return np.bincount(self.stratum, minlength=self.sizes.size)


@dataclass(frozen=True, eq=False)
class Controlled:
    """Means over all rows, and the residuals that they left.

    Parameters
    ----------
    means : floats of shape (c,)
        Of the values.
    residuals : floats of shape (m, c)
        u − f of every judged row, f fitted without it.
    """

    means: Floats
    residuals: Floats


def controlled(
    sample: RowSample, covariates: Floats | None, limits: Limits, seed: int = 0
) -> Controlled:
    """Means over all rows with cross-fitted control variates; see the module.

    Parameters
    ----------
    sample : RowSample
    covariates : floats of shape (n, q), or None
        Of all rows. None: the plain stratified mean.
    limits : pair of float, or of floats of shape (c,)
        Between which predictions are kept.
    seed : int, default 0
        Decides the folds.

    Returns
    -------
    Controlled

    Examples
    --------
    >>> x = np.arange(100.0)[:, None]
    >>> rows = np.array([3, 50, 80, 20, 99, 61])
    >>> sample = RowSample(rows, np.zeros(6, int), np.array([100]), x[rows] / 100)
    >>> plain, better = (controlled(sample, c, (0, 1)).means[0] for c in (None, x))
    >>> bool(abs(better - 0.495) < abs(plain - 0.495))
    True
    """
    folds = min(FOLDS, int(sample.drawn[sample.sizes > 0].min(initial=FOLDS)))
    if covariates is None or folds < 2:
        return _plain(sample)
    z = standardized(covariates)
    fold = folds_of(sample.stratum, folds, seed)
    n = int(sample.sizes.sum())
    means = np.zeros(sample.values.shape[1])
    residuals = np.empty_like(sample.values)
    for each in range(folds):
        out = fold == each
        others = ~out
        predicted = ridge_predictions(z, sample.rows[others], sample.values[others], limits)
        residuals[out] = sample.values[out] - predicted[sample.rows[out]]
        rest = predicted.sum(axis=0) - predicted[sample.rows[others]].sum(axis=0)
        left = sample.sizes - np.bincount(sample.stratum[others], minlength=sample.sizes.size)
        total = sample.values[others].sum(axis=0) + rest
        total += left @ _by_stratum(residuals[out], sample.stratum[out], sample.sizes.size)
        means += total / n * (out.sum() / out.size)
    return Controlled(means, residuals)


def variance(sample: RowSample, residuals: Floats, largest: float = SPREAD) -> float:
    """The variance of a mean, from one residual per judged row.

    Parameters
    ----------
    sample : RowSample
    residuals : floats of shape (m,)
    largest : float, default 0.25
        What further rows are supposed to add to the squares of the residuals.

    Returns
    -------
    float

    Examples
    --------
    >>> half = RowSample(np.arange(50), np.zeros(50, int), np.array([100]), np.zeros((50, 1)))
    >>> variance(half, np.tile([0.0, 1.0], 25))  # (1 − ½) (49 s² + ¼) / 50 / 50, s² = 12.5/49
    0.00255
    """
    drawn, n, total = sample.drawn, float(sample.sizes.sum()), 0.0
    squares = {
        h: float(((mine - mine.mean()) ** 2).sum())
        for h in np.flatnonzero(drawn)
        for mine in (residuals[sample.stratum == h],)
    }
    unknown = max([largest, *(squares[h] / drawn[h] for h in squares)])
    for h in squares:
        m, size, weight = float(drawn[h]), float(sample.sizes[h]), sample.sizes[h] / n
        spread = (squares[h] + largest * m / residuals.size) / m if m > 1 else unknown
        open_share = 1 - m / size
        inner = 0.0
        if sample.estimated and sample.variances is None:
            open_share = 1.0  # an upper bound: what is not known within rows may be all of it
        elif sample.variances is not None:
            inner = max(0.0, float(sample.variances[sample.stratum == h].mean())) / size
        total += weight**2 * (open_share * spread / m + inner)
    return float(total)


def _plain(sample: RowSample) -> Controlled:
    by_stratum = _by_stratum(sample.values, sample.stratum, sample.sizes.size)
    judged = sample.drawn > 0
    weight = np.where(judged, sample.sizes, 0) / sample.sizes[judged].sum()
    residuals = sample.values - by_stratum[sample.stratum]
    return Controlled(weight @ by_stratum, residuals)


def _by_stratum(values: Floats, stratum: Ints, count: int) -> Floats:
    """Means of the columns within strata, (count, c); 0 in strata without values."""
    sums = np.stack([np.bincount(stratum, column, minlength=count) for column in values.T], axis=1)
    return np.asarray(sums / np.maximum(np.bincount(stratum, minlength=count), 1)[:, None])


def folds_of(stratum: Ints, folds: int, seed: int) -> Ints:
    """A fold for every unit, as even as possible within strata and at random."""
    order = np.random.default_rng(seed).permutation(stratum.size)
    fold = np.empty(stratum.size, dtype=np.int64)
    for h in np.unique(stratum):
        members = order[stratum[order] == h]
        fold[members] = np.arange(members.size) % folds
    return fold


def standardized(covariates: Floats) -> Floats:
    """Mean 0 and variance 1 over all rows; a covariate without spread is left out."""
    centred = covariates - covariates.mean(axis=0)
    spread = centred.std(axis=0)
    useful = spread > 1e-12 * np.maximum(np.abs(covariates).max(axis=0), 1e-300)
    return np.asarray(centred[:, useful] / spread[useful])


def ridge_predictions(z: Floats, rows: Ints, values: Floats, limits: Limits) -> Floats:
    """Predictions for all rows, kept within limits; the intercept is not shrunk."""
    x, centre = z[rows], z[rows].mean(axis=0)
    mean = values.mean(axis=0)
    gram = (x - centre).T @ (x - centre) + RIDGE * np.eye(z.shape[1])
    slope = np.linalg.solve(gram, (x - centre).T @ (values - mean))
    return np.asarray(np.clip(z @ slope + (mean - centre @ slope), *limits))
