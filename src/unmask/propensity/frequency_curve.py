"""Propensities along label frequency, from a few labels observed kept or lost.

Of K_j true labels j, k_j were kept. The rates scatter around a curve over the training counts n_j:

    k_j ~ BetaBinomial(K_j; κ c_j, κ (1 − c_j)),    c_j = 1 / (1 + C (n_j + b)^(−a) (b + 1)^a)

With C = ln n − 1 this is the curve of Jain et al., which passes through 1 / ln n at n_j = 1
whatever a and b are; a "free" curve estimates C, too. κ, the concentration, says how closely labels
follow the curve: a label's own rate counts K_j, the curve counts κ. (a, b, κ, C) maximise the
likelihood; their intervals are profile likelihood intervals; draws of them follow the likelihood
times a wide log-normal prior around the values in common use.

Where the counts n_j are themselves a small sample, a label's place on the curve is known to ± n_j^½
only, and the curve counts for less there: 1/κ_j = 1/κ + a² / (4 n_j).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize
from scipy.special import betaln, expit, psi
from scipy.stats import chi2

from unmask._typing import Bools, Floats

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
