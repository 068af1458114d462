"""What every estimator of propensities returns: values, intervals, and draws from what is unknown.

An estimate can stand wherever propensities can, since numpy reads its values. Whoever computes
something from propensities can repeat it for the rows of `draw`, and so carry the doubt on.

Propensities along label frequency, from a few labels observed kept or lost.

Of K_j true labels j, k_j were kept. The rates scatter around a curve over the training counts n_j:

    k_j ~ BetaBinomial(K_j; κ c_j, κ (1 − c_j)),    c_j = 1 / (1 + C (n_j + b)^(−a) (b + 1)^a)

With C = ln n − 1 this is the curve of Jain et al., which passes through 1 / ln n at n_j = 1
whatever a and b are; a "free" curve estimates C, too. κ, the concentration, says how closely labels
follow the curve: a label's own rate counts K_j, the curve counts κ. (a, b, κ, C) maximise the
likelihood; their intervals are profile likelihood intervals; draws of them follow the likelihood
times a wide log-normal prior around the values in common use.

Where the counts n_j are themselves a small sample, a label's place on the curve is known to ± n_j^½
only, and the curve counts for less there: 1/κ_j = 1/κ + a² / (4 n_j).

The level of all propensities: what rows that nobody audited say of it.

Audited rows may by chance be those of little effort, and then all propensities come out too low
together. How many labels *all* rows show on average is known, and a random part of the rows that
shows fewer has lost more. With k_i kept, K_i true and x_i observed labels of m audited rows out of
n, the logarithm of the kept share, log Σk/ΣK, is corrected as by regression:

    θ = log Σk/ΣK + β (x̄_all − x̄),     β = Cov(z, x)/Var(x),   z_i = k_i/k̄ − K_i/K̄
    Var(θ) = (1 − m/n) Var(z − βx)/m

β is multiplied by max(0, 1 − 2/F), F its F statistic, so that few rows whose counts say little are
left as they are. The correction holds for any masks, for rows that were drawn at random.

Cochran, *Sampling techniques* (1977), chapter 7.

Propensities of groups of rows: annotators, sources, years; drawn towards each other.

    logit p_ij = logit p_j + δ_g,    g the group of row i,    δ_g ~ N(0, τ²)

p_j is the estimate of the whole audit. Given τ, every δ_g has its mode by Newton's method, and τ²
is the mean of δ_g² and their variances (EM). Few audited labels of a group leave it near 0, many
let it go its own way; where labels of a row are kept or lost together, they count for less by the
design effect.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy.optimize import brentq, minimize
from scipy.special import betaln, expit, logit, psi
from scipy.stats import chi2

from unmask._typing import Bools, Floats, Ints, LabelsLike
from unmask.arrays import checks, entry_rows
from unmask.propensity.models import Source, SourceKind

SMALLEST = 1e-3
"""Draws stay above this: a label whose propensity could be zero has no finite correction."""


TOGETHER = 1.5
"""A design effect from which on labels of a row count as kept or lost together."""


class Uncertainty(Protocol):
    """Anything that propensity vectors can be drawn from."""

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        """(size, L) propensities."""
        ...


@dataclass(frozen=True, eq=False)
class PropensityEstimate:
    """Propensities estimated from data, one per label, with their uncertainty.

    Parameters
    ----------
    value : array of shape (L,)
        The estimate.
    low, high : arrays of shape (L,)
        The ends of each label's interval; an interval is for one label at a time.
    confidence : float
        The probability that an interval aims at.
    method : str
        The name of the estimator.
    evidence : array of shape (L,)
        How many true labels were observed kept or lost; 0 means "from the curve alone".
    uncertainty : Uncertainty
        What `draw` draws from.
    curve : CurveFit, optional
        The curve over label frequency that labels were drawn towards.
    notes : tuple of str, default ()
        Sentences on what to keep in mind.
    effect : float, default 1.0
        Design effect: how much more a row's kept labels vary than if kept independently.
    rows : int, default 0
        Rows behind the estimate, such as those audited; 0 if that is not known.

    Examples
    --------
    >>> from unmask import propensity
    >>> p = propensity.from_marginals([[1, 0]] * 30 + [[0, 1]] * 10, [0.9, 0.5])
    >>> p
    PropensityEstimate('marginals', 2 labels, 0.512 to 0.827)
    >>> np.asarray(p).round(2), p.draw(seed=0, size=3).shape
    (array([0.83, 0.51]), (3, 2))
    """

    value: Floats
    low: Floats
    high: Floats
    confidence: float
    method: str
    evidence: Floats
    uncertainty: Uncertainty
    curve: CurveFit | None = None
    notes: tuple[str, ...] = ()
    effect: float = 1.0
    rows: int = 0

    @property
    def source(self) -> Source:
        """Where the propensities come from: the method, and the rows that it saw."""
        own = self.method in list(SourceKind)
        kind = SourceKind(self.method) if own else SourceKind.STATED
        return Source(kind, {"rows": self.rows} if self.rows else {})

    def draw(self, seed: int, size: int) -> Floats:
        """Propensity vectors that the data allow.

        Parameters
        ----------
        seed : int
            The same seed gives the same draws.
        size : int
            How many vectors.

        Returns
        -------
        array of shape (size, L)
        """
        drawn = self.uncertainty.sample(np.random.default_rng(seed), size)
        return np.clip(drawn, SMALLEST, 1.0).reshape(size, len(self))

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Floats:
        """The values, so that an estimate serves as propensities."""
        return np.array(self.value, dtype=dtype)

    def __len__(self) -> int:
        """The number of labels."""
        return int(self.value.size)

    def __repr__(self) -> str:
        """One line."""
        span = f"{self.value.min():.3f} to {self.value.max():.3f}" if len(self) else "none"
        return f"PropensityEstimate({self.method!r}, {len(self)} labels, {span})"


Interval = tuple[float, float]

NAMES = ("a", "b", "concentration", "scale")
BOUNDS = np.log([(1e-3, 10.0), (1e-3, 1e4), (2.0, 1e5), (1e-3, 1e3)])
COMMON = np.log([0.55, 1.5, 30.0])
SPREAD = np.array([1.0, 1.5, 1.3, 1.5])
"""Standard deviation of the prior of ln a, ln b, ln κ, ln C."""


@dataclass(frozen=True, eq=False)
class CurveFit:
    """The fitted curve: p_j ≈ 1 / (1 + scale · ((n_j + b) / (1 + b))^(−a)).

    Parameters
    ----------
    a, b, concentration, scale : float
        Most likely values (scale = ln n − 1 unless the curve is free).
    intervals : dict of str to (low, high)
        By parameter, from the profile likelihood at the stated confidence.
    n : int
        Training rows.
    free : bool
        Whether the scale was estimated.
    draws : array of shape (S, 4)
        Values of (a, b, concentration, scale) that the data allow.
    log_likelihood : float
        At the maximum, without the binomial coefficients.

    Examples
    --------
    >>> from unmask import propensity
    >>> true_labels = np.tile([[1, 1, 1], [1, 0, 0], [1, 1, 0], [1, 0, 0]], (50, 1))
    >>> observed = true_labels * (np.arange(200)[:, None] % 10 < [8, 6, 4])
    >>> curve = propensity.audit(observed, true_labels).curve
    >>> curve.free, sorted(curve.intervals)
    (False, ['a', 'b', 'concentration'])
    >>> curve.level_at(np.array([2.0, 20.0, 200.0])).round(2)
    array([0.19, 0.29, 0.79])
    """

    a: float
    b: float
    concentration: float
    scale: float
    intervals: dict[str, Interval]
    n: int
    free: bool
    draws: Floats
    log_likelihood: float

    def level_at(self, counts: Floats) -> Floats:
        """The curve at these training counts."""
        return level(np.log([self.a, self.b, self.concentration, self.scale]), counts)


@dataclass(frozen=True, eq=False)
class Evidence:
    """k of K kept, at training count n_j, for `times` equal labels; labels without K are left out.

    `sampled`: the counts are themselves a small sample.
    """

    kept: Floats
    of: Floats
    counts: Floats
    times: Floats
    sampled: bool

    @classmethod
    def collect(cls, kept: Floats, of: Floats, counts: Floats, sampled: bool = False) -> Evidence:
        """Labels that say the same thing are counted, not repeated."""
        labels = np.column_stack([kept, of, counts])[of > 0]
        distinct, times = np.unique(labels, axis=0, return_counts=True)
        k, total, frequency = distinct.T
        return cls(k, total, frequency, times.astype(np.float64), sampled)


def level(theta: Floats, counts: Floats) -> Floats:
    """c_j for parameters θ = ln (a, b, κ, C), along the last axis; leading axes of θ come first."""
    a, b, _, scale = np.exp(np.moveaxis(theta, -1, 0))[..., None]
    climb = a * np.log((counts + b) / (1 + b))
    return np.asarray(np.clip(expit(climb - np.log(scale)), 1e-12, 1 - 1e-12))


def concentration(theta: Floats, counts: Floats, sampled: bool) -> Floats:
    """κ_j, in the same shape."""
    a, kappa = np.exp(theta[..., 0, None]), np.exp(theta[..., 2, None])
    doubt = a**2 / (4 * counts) if sampled else np.zeros_like(counts)
    return np.asarray(1 / (1 / kappa + doubt))


def log_likelihood(theta: Floats, evidence: Evidence) -> Floats:
    """Σ_j ln BetaBinomial(k_j), without binomial coefficients; θ may have leading axes."""
    c, kappa = (
        level(theta, evidence.counts),
        concentration(theta, evidence.counts, evidence.sampled),
    )
    own = betaln(evidence.kept + kappa * c, evidence.of - evidence.kept + kappa * (1 - c))
    return np.asarray((own - betaln(kappa * c, kappa * (1 - c))) @ evidence.times)


def slope(theta: Floats, evidence: Evidence) -> Floats:
    """∂ log-likelihood / ∂θ."""
    a, b, overall, _ = np.exp(theta)
    c, kappa = (
        level(theta, evidence.counts),
        concentration(theta, evidence.counts, evidence.sampled),
    )
    up = psi(evidence.kept + kappa * c) - psi(kappa * c)
    down = psi(evidence.of - evidence.kept + kappa * (1 - c)) - psi(kappa * (1 - c))
    by_logit = evidence.times * kappa * (up - down) * c * (1 - c)
    by_kappa = evidence.times * (c * up + (1 - c) * down + psi(kappa) - psi(evidence.of + kappa))
    doubt = 1 / kappa - 1 / overall  # proportional to a²
    return np.array(
        [
            by_logit @ (a * np.log((evidence.counts + b) / (1 + b)))
            - by_kappa @ (2 * doubt * kappa**2),
            by_logit @ (a * b * (1 / (evidence.counts + b) - 1 / (1 + b))),
            by_kappa @ kappa**2 / overall,
            -by_logit.sum(),
        ]
    )


def fit(
    evidence: Evidence, n: int, *, free: bool, confidence: float, effect: float = 1.0,
    rng: np.random.Generator,
) -> CurveFit:  # fmt: skip
    """Maximum likelihood, profile intervals (wider by a design effect) and draws."""
    jain_scale = float(np.log(np.log(n) - 1))
    open_axes = np.array([True, True, True, free])
    start = np.r_[COMMON, jain_scale]
    best = maximize(evidence, start, open_axes)
    top = float(log_likelihood(best, evidence))
    drop = effect * chi2.ppf(confidence, 1) / 2
    names = NAMES if free else NAMES[:3]
    intervals = {
        name: profile(evidence, best, axis, open_axes, top - drop)
        for axis, name in enumerate(names)
    }
    a, b, kappa, scale = np.exp(best).tolist()
    draws = np.exp(_draws(evidence, best, start, open_axes, rng))
    return CurveFit(a, b, kappa, scale, intervals, n, free, draws, top)


def maximize(evidence: Evidence, start: Floats, open_axes: Bools) -> Floats:
    """The most likely θ that differs from `start` on the open axes only, within the bounds."""
    shifts = ([0, 0, 4, 0], [-2, 2, -1, 0])
    starts = [start, *(np.clip(start + shift, *BOUNDS.T) for shift in shifts)]
    maxima = [_climb(evidence, np.where(open_axes, s, start), open_axes) for s in starts]
    return max(maxima, key=lambda theta: float(log_likelihood(theta, evidence)))


def _climb(evidence: Evidence, start: Floats, open_axes: Bools, precision: float = 1e-14) -> Floats:
    def full_theta(part: Floats) -> Floats:
        theta = start.copy()
        theta[open_axes] = part
        return theta

    result = minimize(
        lambda part: -float(log_likelihood(full_theta(part), evidence)),
        start[open_axes],
        jac=lambda part: -slope(full_theta(part), evidence)[open_axes],
        bounds=BOUNDS[open_axes],
        method="TNC",  # L-BFGS-B hands tiny systems to threaded LAPACK: far slower on busy cores
        options={"maxfun": 1000, "ftol": precision, "gtol": 1e-10},
    )
    return full_theta(result.x)


def profile(
    evidence: Evidence, best: Floats, axis: int, open_axes: Bools, target: float
) -> Interval:
    """Where the likelihood, maximised over everything else, falls to `target`, or the bound."""
    others = open_axes.copy()
    others[axis] = False

    def excess(value: float) -> float:
        theta = best.copy()
        theta[axis] = value
        return float(log_likelihood(_climb(evidence, theta, others, 1e-6), evidence)) - target

    def end(limit: float) -> float:
        if excess(limit) >= 0:
            return limit
        return float(brentq(excess, best[axis], limit, xtol=1e-2))

    low, high = (float(np.exp(end(limit))) for limit in BOUNDS[axis])
    return low, high


def _draws(
    evidence: Evidence,
    best: Floats,
    centre: Floats,
    open_axes: Bools,
    rng: np.random.Generator,
) -> Floats:
    def density(part: Floats) -> Floats:
        theta = np.tile(best, (len(part), 1))
        theta[:, open_axes] = part
        inside = ((theta >= BOUNDS[:, 0]) & (theta <= BOUNDS[:, 1]))[:, open_axes].all(axis=1)
        prior = -((((theta - centre) / SPREAD)[:, open_axes] ** 2).sum(axis=1)) / 2
        value = log_likelihood(np.clip(theta, *BOUNDS.T), evidence) + prior
        return np.where(inside, value, -np.inf)

    drawn = np.tile(best, (WALKERS * SNAPSHOTS, 1))
    drawn[:, open_axes] = ensemble(density, best[open_axes], BOUNDS[open_axes], rng)
    return drawn


WALKERS, SNAPSHOTS, BURN_IN, APART = 32, 8, 120, 12


def ensemble(
    density: Callable[[Floats], Floats], start: Floats, bounds: Floats, rng: np.random.Generator
) -> Floats:
    """Draws from a log-density of a few variables: walkers that stretch towards one another.

    Goodman & Weare, *Ensemble samplers with affine invariance* (2010): no step size to choose, and
    a ridge (a and b trade off) costs nothing.
    """
    margin = 0.02 * np.ptp(bounds, axis=1)
    state = start + 0.1 * rng.standard_normal((WALKERS, start.size))
    state = np.clip(state, bounds[:, 0] + margin * rng.random(state.shape),
                    bounds[:, 1] - margin * rng.random(state.shape))  # fmt: skip
    value = density(state)
    halves = np.arange(WALKERS).reshape(2, -1)
    snapshots = []
    for step in range(BURN_IN + APART * SNAPSHOTS):
        for movers, partners in (halves, halves[::-1]):
            _stretch(density, state, value, movers, partners, rng)
        if step >= BURN_IN and (step - BURN_IN) % APART == 0:
            snapshots.append(state.copy())
    return np.concatenate(snapshots)


def _stretch(
    density: Callable[[Floats], Floats],
    state: Floats,
    value: Floats,
    movers: NDArray[np.intp],
    partners: NDArray[np.intp],
    rng: np.random.Generator,
) -> None:
    """Move half of the walkers, in place, along lines through walkers of the other half."""
    z = (1 + rng.random(movers.size)) ** 2 / 2
    anchor = state[rng.choice(partners, movers.size)]
    proposed = anchor + z[:, None] * (state[movers] - anchor)
    proposed_value = density(proposed)
    gain = (state.shape[1] - 1) * np.log(z) + proposed_value - value[movers]
    accepted = np.log(rng.random(movers.size)) < gain
    state[movers[accepted]], value[movers[accepted]] = proposed[accepted], proposed_value[accepted]


FEWEST = 10
"""Audited rows from which on a regression says something."""
MOST = 0.999
"""A share of kept labels that is not exceeded."""


class Level(NamedTuple):
    """How the logarithm of the kept share is corrected, and the variance of what comes out."""

    shift: float
    variance: float


def level_of(kept: Floats, true: Floats, shown: Floats, mean_shown: float, n: int) -> Level | None:
    """The correction; None where there is nothing to learn.

    Parameters
    ----------
    kept, true, shown : (m,) floats
        Kept, true and observed labels of every audited row.
    mean_shown : float
        Observed labels per row, over all rows.
    n : int
        All rows.

    Returns
    -------
    Level or None

    Examples
    --------
    Of rows with two labels each, half lose both; 40 of 100 audited rows are such:

    >>> kept = np.repeat([2.0, 0.0], [60, 40])
    >>> made = level_of(kept, np.full(100, 2.0), kept, 1.0, 10**6)
    >>> round(float(np.exp(np.log(0.6) + made.shift)), 3)
    0.508
    """
    m = kept.size
    if not (m >= FEWEST and n > m and kept.any() and np.ptp(shown)):
        return None
    residual = kept / kept.mean() - true / true.mean()
    along = shown - shown.mean()
    length = float(along @ along)
    slope = float(along @ residual) / length
    noise = float(((residual - residual.mean() - slope * along) ** 2).sum()) / (m - 2)
    gain = slope**2 * length
    slope *= max(0.0, 1.0 - 2.0 * noise / gain) if gain else 0.0
    left = residual - slope * along
    variance = (1 - m / n) * float(((left - left.mean()) ** 2).sum()) / (m - 2) / m
    return Level(slope * (mean_shown - float(shown.mean())), variance)


def odds_shift(level: Level, of: Floats, p: Floats) -> tuple[float, float]:
    """The same as a shift δ of all logits, Σ K_j p_j(δ) = e^shift Σ K_j p_j, and its variance.

    Parameters
    ----------
    level : Level
    of : (L,) floats
        K_j, true labels of the audited rows.
    p : (L,) floats in (0, 1)
        The propensities before.

    Returns
    -------
    shift, variance : float

    Examples
    --------
    >>> shift, variance = odds_shift(Level(np.log(1.5), 0.01), np.array([10.0]), np.array([0.5]))
    >>> round(shift, 3), round(variance, 3)
    (1.099, 0.16)
    """
    used = of > 0
    weight, odds = of[used] / of[used].sum(), logit(p[used])
    target = min(float(np.exp(level.shift) * (weight @ p[used])), MOST)
    shift = float(brentq(lambda x: weight @ expit(odds + x) - target, -50, 50, xtol=1e-12))
    after = expit(odds + shift)
    slope = float(weight @ (after * (1 - after)) / (weight @ after))
    return shift, level.variance / slope**2


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

        checks.one_of(name, self.names, "group")
        checks.confidence(confidence)
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
        matrix = checks.labels(labels)
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
