"""Estimated propensities: values, intervals, and draws that carry the doubt on.

An estimate can stand wherever propensities can, since numpy reads its values. Whoever computes
something from propensities can repeat it for the rows of `draw`, and so carry the doubt on.

Rates of few labels are pooled along label frequency. Of K_j true labels j, k_j were kept; the rates
scatter around a curve over the training counts n_j:

    k_j ~ BetaBinomial(K_j; κ c_j, κ (1 − c_j)),    c_j = 1 / (1 + C (n_j + b)^(−a) (b + 1)^a)

With C = ln n − 1 this is the curve of Jain et al., which passes through 1 / ln n at n_j = 1
whatever a and b are; a "free" curve estimates C, too. κ, the concentration, says how closely labels
follow the curve: a label's own rate counts K_j, the curve counts κ. (a, b, κ, C) maximise the
likelihood; their intervals are profile likelihood intervals; draws of them follow the likelihood
times a wide log-normal prior around the values in common use. Given the curve's parameters,

    p_j | k_j ~ Beta(κ c_j + k_j, κ (1 − c_j) + K_j − k_j)

and the parameters themselves are averaged over what the counts allow (`Posterior`). A label without
a K_j gets the curve, with the scatter of labels around it. Where the counts n_j are themselves a
small sample, a label's place on the curve is known to ± n_j^½ only, and the curve counts for less
there: 1/κ_j = 1/κ + a² / (4 n_j).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy.special import betaincinv, betaln, chdtri, expit, ndtri, psi

from unmask._messages import named_options, setting
from unmask._typing import Bools, Floats, Ints
from unmask.arrays import checks
from unmask.propensity.models import Propensity, Source, SourceKind, with_source

SMALLEST = 1e-3
"""Draws stay above this: a label whose propensity could be zero has no finite correction."""
TOGETHER = 1.5
"""A design effect from which on labels of a row count as kept or lost together."""
CURVES = ("jain", "free")


class Uncertainty(Protocol):
    """Anything that propensity vectors can be drawn from."""

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        """Return (size, L) propensities."""
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
        Where `draw` draws from.
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

    certain = False
    """An estimate is drawn from."""

    @property
    def source(self) -> Source:
        """The method, and the rows that it saw."""
        own = self.method in list(SourceKind)
        kind = SourceKind(self.method) if own else SourceKind.STATED
        return Source(kind, {"rows": self.rows} if self.rows else {})

    @property
    def centre(self) -> Propensity:
        """The values, taken as certain."""
        return with_source(self.value, self.source)

    def draw(self, seed: int, size: int) -> Floats:
        """Draw propensity vectors that the data allow.

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
        """Return the values, so that an estimate serves as propensities."""
        return np.array(self.value, dtype=dtype)

    def __len__(self) -> int:
        """Return the number of labels."""
        return int(self.value.size)

    def __repr__(self) -> str:
        """Return one line."""
        span = f"{self.value.min():.3f} to {self.value.max():.3f}" if len(self) else "none"
        return f"PropensityEstimate({self.method!r}, {len(self)} labels, {span})"


@named_options
def from_counts(
    kept: ArrayLike,
    of: ArrayLike,
    *,
    counts: ArrayLike,
    n: int,
    sampled: bool = False,
    effect: float = 1.0,
    curve: str = "jain",
    confidence: float = 0.95,
    seed: int = 0,
    method: str = "counts",
    notes: tuple[str, ...] = (),
) -> PropensityEstimate:
    """Estimate propensities from numbers alone: of `of[j]` true labels j, `kept[j]` were observed.

        p_j | k_j ~ Beta(κ c_j + k_j, κ (1 − c_j) + K_j − k_j),    c_j the curve at n_j

    Parameters
    ----------
    kept, of : arrays of shape (L,)
        k_j and K_j, 0 ≤ k_j ≤ K_j; fractions are allowed.
    counts : array of shape (L,)
        n_j, training rows with label j, which place the labels along the curve.
    n : int
        Training rows, at least 3.
    sampled : bool, default False
        Whether the counts come from few rows, such as those of the audit itself; then the curve is
        trusted less where they are small.
    effect : float, default 1.0
        Design effect of labels that are kept or lost together, at least 1.
    curve : {"jain", "free"}, default "jain"
        Whether the level of the curve is estimated, too ("free").
    confidence : float, default 0.95
        Of the intervals, in [0.5, 0.9999].
    seed : int, default 0
        Decides the draws of the curve's parameters.
    method : str, default "counts"
        The name that the estimate carries.
    notes : tuple of str, default ()
        Sentences that the estimate carries, before those on the curve.

    Returns
    -------
    PropensityEstimate

    Raises
    ------
    ValueError
        If counts contradict each other, or an option is unknown or out of its range.

    Examples
    --------
    >>> p = from_counts([30, 3, 0], [60, 9, 0], counts=[500, 60, 8], n=1000)
    >>> p.evidence
    array([60.,  9.,  0.])
    >>> bool(p.high[2] - p.low[2] > p.high[0] - p.low[0])
    True
    """
    posterior = fit_posterior(
        kept, of, counts, n, sampled=sampled, effect=effect, curve=curve, confidence=confidence,
        seed=seed,
    )  # fmt: skip
    return posterior.estimate(confidence, method, notes, effect)


def fit_posterior(
    kept: ArrayLike, of: ArrayLike, counts: ArrayLike, n: int, *, sampled: bool,
    effect: float, curve: str, confidence: float, seed: int,
) -> Posterior:  # fmt: skip
    """Fit the curve to checked counts; the arguments are those of `from_counts`."""
    checks.one_of(curve, CURVES, "curve")
    checks.in_range(confidence, "confidence", 0.5, 0.9999)
    checks.in_range(effect, "effect", 1, float(np.finfo(np.float64).max))
    total = checks.numbers(of, "true label counts")
    total = checks.per_label(total, total.size, "true label counts")
    k = checks.per_label(kept, total.size, "kept label counts")
    frequency = checks.per_label(counts, total.size, "training label counts")
    if (k > total).any():
        label = int(np.flatnonzero(k > total)[0])
        raise ValueError(
            f"label {label} was kept {k[label]:g} times out of {total[label]:g}; swap them?"
        )
    if not total.any():
        raise ValueError("no audited row has a true label; audit more rows.")
    checks.training_rows(n)
    if frequency.max() > n:
        raise ValueError(f"a label cannot occur in {frequency.max():g} of {n} training rows.")
    if sampled and not frequency.all():
        raise ValueError("counts that are themselves sampled must be above 0; add ½ to each.")
    fitted = fit(
        Evidence.collect(k, total, frequency, sampled), n, free=curve == "free",
        confidence=confidence, effect=effect, rng=np.random.default_rng(seed),
    )  # fmt: skip
    there = fitted.level_at(frequency)
    common = np.sqrt((effect - 1) / float((total * there * (1 - there)).sum()))
    return Posterior(fitted, k, total, frequency, sampled, float(common))


@dataclass(frozen=True, eq=False)
class Posterior:
    """The distribution of every p_j: a Beta for each curve that the counts allow."""

    curve: CurveFit
    kept: Floats
    of: Floats
    counts: Floats
    sampled: bool
    common: float
    """Standard deviation of the error of all logits together."""
    offset: float = 0.0
    """Added to all logits: what rows say that were not audited."""

    def betas(self, draw: Floats) -> tuple[Floats, Floats]:
        """Return the two parameters of the Beta distributions given (a, b, κ, C)."""
        theta = np.log(draw)
        c, kappa = level(theta, self.counts), concentration(theta, self.counts, self.sampled)
        return kappa * c + self.kept, kappa * (1 - c) + self.of - self.kept

    def pick(self, rng: np.random.Generator, size: int) -> Floats:
        """Return `size` of the draws of (a, b, κ, C)."""
        return self.curve.draws[rng.integers(len(self.curve.draws), size=size)]

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        """Return (size, L) draws of p."""
        alone = np.array([rng.beta(*self.betas(draw)) for draw in self.pick(rng, size)])
        odds = self.shift(rng, size)[:, None]
        return np.asarray(odds * alone / (1 - alone + odds * alone))

    def shift(self, rng: np.random.Generator, size: int) -> Floats:
        """Return factors for the odds of all labels."""
        return np.exp(self.offset + self.common * rng.standard_normal(size))

    def summary(self, confidence: float) -> tuple[Floats, Floats, Floats]:
        """Return mean and interval of p_j over all curves, from a Beta with the same moments."""
        mean, square = np.zeros_like(self.kept), np.zeros_like(self.kept)
        for draw in self.curve.draws:
            hits, misses = self.betas(draw)
            size = hits + misses
            mean += hits / size
            square += hits / size * (hits + 1) / (size + 1)
        mean, square = mean / len(self.curve.draws), square / len(self.curve.draws)
        variance = square - mean**2
        if self.offset:
            odds = np.exp(self.offset)
            below = 1 - mean + odds * mean
            mean, variance = odds * mean / below, variance * (odds / below**2) ** 2
        variance += (self.common * mean * (1 - mean)) ** 2
        size = np.maximum(mean * (1 - mean) / np.maximum(variance, 1e-15) - 1, 1e-3)
        tails = [[(1 - confidence) / 2], [(1 + confidence) / 2]]
        low, high = betaincinv(mean * size, (1 - mean) * size, tails)
        return mean, low, high

    def estimate(
        self, confidence: float, method: str, notes: tuple[str, ...], effect: float, rows: int = 0
    ) -> PropensityEstimate:
        """Return the estimate with this uncertainty."""
        value, low, high = self.summary(confidence)
        return PropensityEstimate(
            value, low, high, confidence, method, self.of, self, self.curve,
            (*notes, *self._curve_notes()), effect, rows,
        )  # fmt: skip

    def _curve_notes(self) -> Iterator[str]:
        """Say which parameters are open, and whether another level fits better."""
        fitted = self.curve
        for name, (low, high) in fitted.intervals.items():
            if name != "concentration" and high > 30 * low:
                yield (
                    f"{name} is hardly determined by these counts (anything from {low:.2g} to "
                    f"{high:.2g})."
                )
        if fitted.free:
            return
        evidence = Evidence.collect(self.kept, self.of, self.counts, self.sampled)
        start = np.log([fitted.a, fitted.b, fitted.concentration, fitted.scale])
        freed = maximize(evidence, start, np.ones(4, dtype=bool))
        gain = 2 * (float(log_likelihood(freed, evidence)) - fitted.log_likelihood)
        if gain > chdtri(1, 0.01):
            yield (
                f"a curve whose level is free fits better (likelihood ratio {gain:.1f}, level "
                f"{np.exp(freed[3]):.2g} against {fitted.scale:.2g}); use "
                f"{setting('curve', 'free', of='propensity.audit')}."
            )


@dataclass(frozen=True, eq=False)
class Either:
    """The distribution of 1 − (1 − p₁)(1 − p₂): labels found twice weigh on both factors alike.

    A Beta variable is a ratio of Gamma variables; the one of the common count m is shared.
    """

    first: Posterior
    second: Posterior

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        """Return (size, L) draws."""
        shared = np.minimum(self.first.kept, self.second.kept)
        drawn = []
        for pair in zip(self.first.pick(rng, size), self.second.pick(rng, size), strict=True):
            common, missed = rng.gamma(shared), np.ones_like(shared)
            for posterior, draw in zip((self.first, self.second), pair, strict=True):
                alpha, beta_ = posterior.betas(draw)
                kept, lost = common + rng.gamma(alpha - shared), rng.gamma(beta_)
                kept *= posterior.shift(rng, 1)
                missed *= lost / (kept + lost)
            drawn.append(1 - missed)
        return np.array(drawn)


@dataclass(frozen=True, eq=False)
class Ratio:
    """The distribution of p_j = observed share / true share."""

    counts: Floats
    n: int
    share: Floats
    true_n: int | None

    def interval(self, confidence: float) -> tuple[Floats, Floats]:
        """Return the ends: exact where the true share is known, else normal on the log scale."""
        checks.in_range(confidence, "confidence", 0.5, 0.9999)
        tails = np.array([[(1 - confidence) / 2], [(1 + confidence) / 2]])
        if self.true_n is None:
            ends = betaincinv(self.counts + 0.5, self.n - self.counts + 0.5, tails) / self.share
        else:
            observed, share = (self.counts + 0.5) / (self.n + 1), self.share
            error = (1 - observed) / (self.counts + 0.5) + (1 - share) / (share * self.true_n)
            with np.errstate(over="ignore"):  # beyond 1 it is 1
                ends = observed / share * np.exp(ndtri(tails) * np.sqrt(error))
        low, high = np.clip(ends, SMALLEST, 1.0)
        return low, high

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        """Return (size, L) draws."""
        shape = (size, self.share.size)
        observed = rng.beta(self.counts + 0.5, self.n - self.counts + 0.5, shape)
        if self.true_n is None:
            return observed / self.share
        positives = self.share * self.true_n
        return observed / rng.beta(positives + 0.5, self.true_n - positives + 0.5, shape)


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
        """Return the curve at these training counts."""
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
        """Count labels that say the same thing instead of repeating them."""
        labels = np.column_stack([kept, of, counts])[of > 0]
        distinct, times = np.unique(labels, axis=0, return_counts=True)
        k, total, frequency = distinct.T
        return cls(k, total, frequency, times.astype(np.float64), sampled)


def level(theta: Floats, counts: Floats) -> Floats:
    """Return c_j for θ = ln (a, b, κ, C) along the last axis; leading axes come first."""
    a, b, _, scale = np.exp(np.moveaxis(theta, -1, 0))[..., None]
    climb = a * np.log((counts + b) / (1 + b))
    return np.asarray(np.clip(expit(climb - np.log(scale)), 1e-12, 1 - 1e-12))


def concentration(theta: Floats, counts: Floats, sampled: bool) -> Floats:
    """Return κ_j, in the same shape."""
    a, kappa = np.exp(theta[..., 0, None]), np.exp(theta[..., 2, None])
    doubt = a**2 / (4 * counts) if sampled else np.zeros_like(counts)
    return np.asarray(1 / (1 / kappa + doubt))


def log_likelihood(theta: Floats, evidence: Evidence) -> Floats:
    """Return Σ_j ln BetaBinomial(k_j), without binomial coefficients; θ may have leading axes."""
    c = level(theta, evidence.counts)
    kappa = concentration(theta, evidence.counts, evidence.sampled)
    own = betaln(evidence.kept + kappa * c, evidence.of - evidence.kept + kappa * (1 - c))
    return np.asarray((own - betaln(kappa * c, kappa * (1 - c))) @ evidence.times)


def slope(theta: Floats, evidence: Evidence) -> Floats:
    """Return ∂ log-likelihood / ∂θ."""
    a, b, overall, _ = np.exp(theta)
    c = level(theta, evidence.counts)
    kappa = concentration(theta, evidence.counts, evidence.sampled)
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


@named_options
def fit(
    evidence: Evidence, n: int, *, free: bool, confidence: float, effect: float = 1.0,
    rng: np.random.Generator,
) -> CurveFit:  # fmt: skip
    """Maximise the likelihood, with profile intervals (wider by a design effect) and draws."""
    jain_scale = float(np.log(np.log(n) - 1))
    open_axes = np.array([True, True, True, free])
    start = np.r_[COMMON, jain_scale]
    best = maximize(evidence, start, open_axes)
    top = float(log_likelihood(best, evidence))
    drop = effect * chdtri(1, 1 - confidence) / 2
    names = NAMES if free else NAMES[:3]
    intervals = {
        name: profile(evidence, best, axis, open_axes, top - drop)
        for axis, name in enumerate(names)
    }
    a, b, kappa, scale = np.exp(best).tolist()
    draws = np.exp(_draws(evidence, best, start, open_axes, rng))
    return CurveFit(a, b, kappa, scale, intervals, n, free, draws, top)


def maximize(evidence: Evidence, start: Floats, open_axes: Bools) -> Floats:
    """Return the most likely θ that differs from `start` on the open axes only, within bounds."""
    shifts = ([0, 0, 4, 0], [-2, 2, -1, 0])
    starts = [start, *(np.clip(start + shift, *BOUNDS.T) for shift in shifts)]
    maxima = [_climb(evidence, np.where(open_axes, s, start), open_axes) for s in starts]
    return max(maxima, key=lambda theta: float(log_likelihood(theta, evidence)))


def _climb(evidence: Evidence, start: Floats, open_axes: Bools, precision: float = 1e-14) -> Floats:
    from scipy.optimize import minimize  # which takes a while to import

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
    """Return where the likelihood, maximised over all else, falls to `target`, or the bound."""
    from scipy.optimize import brentq

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
    evidence: Evidence, best: Floats, centre: Floats, open_axes: Bools, rng: np.random.Generator
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
    """Draw from a log-density of a few variables: walkers that stretch towards one another.

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
    movers: Ints,
    partners: Ints,
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
