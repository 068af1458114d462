"""Masks as they are: one propensity per label, and what else decides which labels were recorded.

The paper's mask keeps every true label of every row independently with p_j. A `MaskModel` adds what
real masks have beside it, each part a number that is 0 in the paper:

    row_effort   ρ    labels of a row are kept or lost together
    unannotated  π₀   share of rows that nobody annotated: they show nothing
    spurious     φ    share of the *observed* labels that are not true
    score_slope  β    labels that the model finds obvious are kept more often

p_j stays the propensity over all rows, those without annotation included, so no p_j can exceed
1 − π₀; larger ones are lowered to it. A model can stand wherever propensities can, since numpy
reads its values; who knows what to do with the other parts (`data.hide`, `evaluate`) asks
`MaskModel.of` for them, which takes propensities of any form.

**Row effort.** Annotators differ in effort, and some rows were never annotated; then the labels of
a row share a fate, and counts thin as

    P(s, t | s*, t*) = π₀ [s = t = 0] + (1 − π₀) ∫ Bin(s; s*, p_S(e)) Bin(t; t*, p_T(e)) dF(e)

with e the effort that a row lacks, and

    p(e) = Φ((Φ⁻¹(p') − √ρ e) / √(1 − ρ)),     p' = p / (1 − π₀).

For e ~ N(0, 1) the mean of p(e) is p' (a Gaussian copula with correlation ρ between the masks of a
row), so p stays the propensity of a label over all rows, and Σ_hits 1/p stays unbiased. F is a
value, points with weights. `normal` spaces points evenly: given many labels the integrand is a
narrow peak anywhere, which Gauss–Hermite's 21 points miss (at ρ = 0.8 and 20 labels a row, R@5
comes out 0.01 too high: docs/decisions/0011), and for smooth functions the trapezoidal rule over
the whole line is as exact as any.

Of an audited row the true labels are known, and which of them were kept. With K its kept and M its
lost labels the row has the likelihood

    π₀ [K = ∅] + (1 − π₀) ∫ Π_{j∈K} p_j(e) Π_{j∈M} (1 − p_j(e)) dF(e)

p_j fixed at their estimates. Both numbers are 0 in the paper's model, and half of the prior stands
there; the other half is spread evenly over a grid. So an audit that shows no effort gives exactly
0, and one that does gives the mean over what it allows.

**A slope on the score.** Obvious labels are recorded more often:

    p_ij = expit(a_j + β x_ij),    a_j = logit p_j + δ + u_j,    u_j ~ N(0, SPREAD²)

with x_ij the score of label j in row i, centred and scaled to variance 1 over the audited true
labels, and p_j the propensities of the same audit. β, δ and u are fitted by penalised maximum
likelihood to what was kept of the audited true labels (Newton; the Hessian is an arrow, solved
label by label). Labels without audited entries have u_j = 0. The doubt about β and δ is that of the
normal distribution with the inverse of the penalised information.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike
from scipy.special import expit, logit, ndtr, ndtri

from unmask._typing import Bools, Floats, Ints, PropensityLike, ScoresLike
from unmask.arrays import checks
from unmask.arrays.checks import entry_rows
from unmask.predictions import TopK
from unmask.propensity.estimate import PropensityEstimate, Uncertainty
from unmask.propensity.models import Source, source_of

MOST = 0.9
"""The largest row effort and share of unannotated rows; beyond, p(e) is a step between points."""
MOST_SPURIOUS = 0.5
PARTS = ("row_effort", "unannotated", "spurious")


class Propensities(Protocol):
    """Propensities that may be in doubt: `PropensityEstimate` and `MaskModel` are such."""

    @property
    def value(self) -> Floats:
        """The most likely propensities, (L,)."""
        ...

    @property
    def source(self) -> Source:
        """Their origin."""
        ...

    @property
    def certain(self) -> bool:
        """True where there is nothing to draw."""
        ...

    @property
    def centre(self) -> PropensityLike:
        """The most likely ones, taken as certain."""
        ...

    def draw(self, seed: int, size: int) -> Sequence[PropensityLike] | Floats:
        """Return `size` certain ones that the data allow; the same for the same seed."""
        ...


@dataclass(frozen=True, eq=False)
class MaskModel:
    """A model of masks: a propensity per label, row effort, unannotated rows, wrong labels.

    Parameters
    ----------
    propensity : (L,) floats in (0, 1] or PropensityEstimate
        How likely a true label is observed, over all rows.
    row_effort : float in [0, 0.9], default 0.0
        ρ, the correlation of the masks of a row on the probit scale.
    unannotated : float in [0, 0.9], default 0.0
        π₀, the share of rows that nobody annotated.
    spurious : float in [0, 0.5], default 0.0
        φ, the share of the observed labels that are not true.
    uncertainty : Uncertainty, optional
        Where pairs of ρ and π₀ are drawn from; by default they are certain.
    score_slope : ScoreSlope, optional
        How propensities of entries depend on the model's score; `evaluate` then uses a propensity
        per entry, and calls corrected recall doubtful.

    Raises
    ------
    ValueError
        If a number is out of its range.

    Examples
    --------
    >>> mask = MaskModel([0.5, 0.25, 0.9], row_effort=0.5, unannotated=0.2)
    >>> np.asarray(mask), len(mask)
    (array([0.5 , 0.25, 0.8 ]), 3)
    >>> mask
    MaskModel(3 labels, 0.250 to 0.800, row_effort=0.5, unannotated=0.2)
    """

    propensity: PropensityLike | PropensityEstimate
    row_effort: float = 0.0
    unannotated: float = 0.0
    spurious: float = 0.0
    uncertainty: Uncertainty | None = None
    score_slope: ScoreSlope | None = None
    value: Floats = field(init=False)
    """The propensities over all rows, (L,) floats."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name, most in zip(PARTS, (MOST, MOST, MOST_SPURIOUS), strict=True):
            checks.in_range(getattr(self, name), name, 0, most)
        stated = checks.propensity(self.propensity)
        object.__setattr__(self, "value", np.minimum(stated, 1.0 - self.unannotated))

    @classmethod
    def of(cls, propensity: PropensityLike) -> MaskModel:
        """Return a mask model as it is, and other propensities, one per label, as a plain one."""
        return propensity if isinstance(propensity, MaskModel) else cls(propensity)

    @property
    def source(self) -> Source:
        """The source of the propensities, and what stands beside them."""
        source = source_of(self.propensity)
        for name in PARTS:
            if number := getattr(self, name):
                source = source.changed(name, number)
        if self.score_slope is not None:
            source = source.changed("score_slope", self.score_slope.slope)
        return source

    @property
    def effort(self) -> RowEffort | None:
        """The dependence between the masks of a row; None if there is none."""
        if not self.row_effort and not self.unannotated:
            return None
        return normal(self.row_effort, self.unannotated)

    @property
    def certain(self) -> bool:
        """True where no part of the model is drawn from."""
        slope = self.score_slope
        return (
            self.uncertainty is None
            and (slope is None or slope.covariance is None)
            and not isinstance(self.propensity, PropensityEstimate)
        )

    @property
    def highest(self) -> Floats:
        """The upper ends of the propensities' intervals; their values where they are certain."""
        if isinstance(self.propensity, PropensityEstimate):
            return self.propensity.high
        return self.value

    @property
    def centre(self) -> MaskModel:
        """The model with every part taken as certain."""
        slope = self.score_slope
        certain = None if slope is None else replace(slope, covariance=None)
        return MaskModel(
            self.value, self.row_effort, self.unannotated, self.spurious, score_slope=certain
        )

    def draw(self, seed: int, size: int) -> list[MaskModel]:
        """Draw models that the data behind this one allow, each of them certain.

        Parameters
        ----------
        seed : int
            The same seed gives the same draws.
        size : int
            How many.

        Returns
        -------
        list of MaskModel
        """
        efforts = np.tile([self.row_effort, self.unannotated], (size, 1))
        if self.uncertainty is not None:
            rng = np.random.default_rng([seed, 1])
            efforts = np.clip(self.uncertainty.sample(rng, size), 0.0, MOST)
        if isinstance(self.propensity, PropensityEstimate):
            vectors = self.propensity.draw(seed, size)
        else:
            vectors = np.tile(self.value, (size, 1))
        slopes: list[ScoreSlope | None] = [None] * size
        if self.score_slope is not None:
            slopes = list(self.score_slope.drawn(np.random.default_rng([seed, 2]), size))
        return [
            MaskModel(vector, float(rho), float(share), self.spurious, score_slope=slope)
            for vector, (rho, share), slope in zip(vectors, efforts, slopes, strict=True)
        ]

    def of_entries(self, labels: sp.csr_array, scores: TopK | ScoresLike) -> sp.csr_array:
        """Return a propensity for every observed label, by the model's score of it.

        Parameters
        ----------
        labels : csr_array of shape (n, L)
            Checked observed labels.
        scores : TopK, or (n, L) dense or sparse scores
            Of the same rows.

        Returns
        -------
        csr_array of shape (n, L)
            With the pattern of the labels; p_j where there is no slope.

        Raises
        ------
        ValueError
            If the scores do not fit the labels.
        """
        if self.score_slope is None:
            chance = self.value[labels.indices]
        else:
            scored = scores_of(scores, labels, name="labels")
            chance = self.score_slope.at(self.value, labels.indices, scored)
        return sp.csr_array((chance, labels.indices, labels.indptr), shape=labels.shape)

    def false_rate(self, labels: sp.csr_array) -> Floats:
        """Return ε_j = P(label j is observed | it is not true), from φ and its frequency.

        Of n_j observed labels j, φ n_j are wrong, in the rows that do not truly have it.

        Parameters
        ----------
        labels : csr_array of shape (n, L)
            Checked observed labels.

        Returns
        -------
        (L,) floats, below p_j
        """
        counts = np.bincount(labels.indices, minlength=labels.shape[1])
        true_counts = (1 - self.spurious) * counts / self.value
        without = np.maximum(labels.shape[0] - true_counts, 1.0)
        return np.asarray(np.minimum(self.spurious * counts / without, 0.5 * self.value))

    def observe(self, true_labels: sp.csr_array, rng: np.random.Generator) -> sp.csr_array:
        """Draw observed labels of rows with these true ones: some hidden, wrong ones added.

        Parameters
        ----------
        true_labels : csr_array of shape (n, L)
            Checked labels.
        rng : numpy Generator
            Decides what is hidden and added.

        Returns
        -------
        csr_array of shape (n, L), float32
        """
        checks.propensity(self.value, true_labels.shape[1])
        kept = _kept(true_labels, self, rng)
        if not self.spurious:
            return kept
        return sp.csr_array(kept + _wrong(true_labels, kept, self.spurious, rng))

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Floats:
        """Return the propensities, so that a model serves as such."""
        return np.array(self.value, dtype=dtype)

    def __len__(self) -> int:
        """Return the number of labels."""
        return int(self.value.size)

    def __repr__(self) -> str:
        """Return one line."""
        span = f"{self.value.min():.3f} to {self.value.max():.3f}" if len(self) else "none"
        parts = {name: getattr(self, name) for name in PARTS}
        stated = "".join(f", {name}={number:.3g}" for name, number in parts.items() if number)
        slope = self.score_slope
        stated += "" if slope is None else f", score_slope={slope.slope:.3g}"
        return f"MaskModel({len(self)} labels, {span}{stated})"


def refuse_for_weights(propensity: object, *, normalized: bool) -> None:
    """Raise where label weights cannot mean what a mask model says.

    Weights 1/p are right under row effort and unannotated rows, since p is over all rows. Those
    that divide a row's loss among its labels need to know how its labels are lost together, and
    a slope needs scores.

    Parameters
    ----------
    propensity : anything
    normalized : bool

    Raises
    ------
    ValueError
        If the mask model has a slope, or row effort where weights are normalised.
    """
    if not isinstance(propensity, MaskModel):
        return
    if propensity.score_slope is not None:
        raise ValueError(
            "the mask depends on the model's scores; give weights a propensity per entry, "
            "`mask.of_entries(labels, scores)`, or `mask.value`."
        )
    if normalized and propensity.effort is not None:
        raise ValueError(
            "normalised weights take the labels of a row to be lost independently, and this mask "
            "has row effort or unannotated rows; use plain weights, or pass `mask.value`."
        )


def _kept(labels: sp.csr_array, mask: MaskModel, rng: np.random.Generator) -> sp.csr_array:
    """Return the true labels that are recorded; without row effort, as `data.hide` keeps of p."""
    chance, threshold = mask.value[labels.indices], rng.random(labels.nnz)
    if mask.effort is not None:
        row_of_entry = entry_rows(labels)
        effort = rng.standard_normal(labels.shape[0])
        annotated = rng.random(labels.shape[0]) >= mask.unannotated
        chance = mask.effort.propensity_at(chance, effort[row_of_entry])
        chance = chance * annotated[row_of_entry]
    kept = threshold < chance
    kept_before = np.r_[0, np.cumsum(kept)].astype(labels.indptr.dtype)
    parts = labels.data[kept], labels.indices[kept], kept_before[labels.indptr]
    return sp.csr_array(parts, shape=labels.shape)


def _wrong(
    labels: sp.csr_array, kept: sp.csr_array, share: float, rng: np.random.Generator
) -> sp.csr_array:
    """Draw labels that are not true, so many that they are this share of all observed ones.

    Their frequencies are those of the observed labels, their rows any that lack the label.
    """
    counts = np.bincount(kept.indices, minlength=labels.shape[1])
    numbers = rng.poisson(share / (1.0 - share) * counts)
    columns = sp.csc_array(labels)
    rows, chosen = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for label in np.flatnonzero(numbers):
        start, stop = columns.indptr[label : label + 2]
        free = np.setdiff1d(np.arange(labels.shape[0]), columns.indices[start:stop])
        rows.append(rng.choice(free, min(int(numbers[label]), free.size), replace=False))
        chosen.append(np.full(rows[-1].size, label))
    where = np.concatenate(rows), np.concatenate(chosen)
    return sp.csr_array((np.ones(where[0].size, np.float32), where), shape=labels.shape)


POINTS = 33
REACH = 4.8
"""Points from −REACH to REACH; 2 in a million rows lie beyond."""


@dataclass(frozen=True)
class RowEffort:
    """The dependence between the masks of a row.

    Parameters
    ----------
    correlation : float
        ρ, between the masks of two labels of a row on the probit scale.
    points, weights : tuple of float
        The distribution of e; the weights sum to 1.
    unannotated : float, default 0.0
        π₀, the share of rows that nobody annotated.

    Examples
    --------
    >>> effort = normal(0.5)
    >>> by_point = effort.propensities(np.array([0.2]))  # one per point
    >>> by_point.shape, float((np.array(effort.weights) @ by_point).round(6)[0])
    ((33, 1), 0.2)
    """

    correlation: float
    points: tuple[float, ...]
    weights: tuple[float, ...]
    unannotated: float = 0.0

    def propensities(self, propensity: Floats) -> Floats:
        """Return p(e) of annotated rows, points × propensities."""
        return self.propensity_at(propensity, np.array(self.points)[:, None])

    def propensity_at(self, propensity: Floats, effort: Floats) -> Floats:
        """Return p(e) in annotated rows that lack the effort e; shapes broadcast."""
        annotated = np.minimum(propensity / (1.0 - self.unannotated), 1.0)
        shift = np.sqrt(self.correlation) * effort
        return np.asarray(ndtr((ndtri(annotated) - shift) / np.sqrt(1.0 - self.correlation)))


def normal(correlation: float, unannotated: float = 0.0, points: int = POINTS) -> RowEffort:
    """Return effort that is normally distributed, by evenly spaced points.

    Examples
    --------
    >>> spaced = normal(0.3, points=5)
    >>> [round(point, 1) for point in spaced.points], round(sum(spaced.weights), 12)
    ([-4.8, -2.4, 0.0, 2.4, 4.8], 1.0)
    """
    for number, name in ((correlation, "row_effort"), (unannotated, "unannotated")):
        checks.in_range(number, name, 0, MOST)
    if correlation == 0.0:
        return RowEffort(0.0, (0.0,), (1.0,), unannotated)
    places = np.linspace(-REACH, REACH, points)
    weights = np.exp(-(places**2) / 2)
    return RowEffort(
        correlation, tuple(places.tolist()), tuple((weights / weights.sum()).tolist()), unannotated
    )


SPREAD = 0.7
"""Standard deviation of a label's own intercept."""
ITERATIONS = 50
FLOOR = 0.01
"""The smallest propensity of an entry."""


@dataclass(frozen=True, eq=False)
class ScoreSlope:
    """The dependence of an entry's propensity on its score.

    Parameters
    ----------
    slope : float
        β, the change of the logit per standard deviation of the scores.
    shift : float
        δ, of all logits.
    own : (L,) floats
        u_j.
    centre, scale : float
        Of the scores.
    covariance : (2, 2) floats
        Of (β, δ).
    """

    slope: float
    shift: float
    own: Floats
    centre: float = 0.0
    scale: float = 1.0
    covariance: Floats | None = None

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of β."""
        error = 0.0 if self.covariance is None else float(np.sqrt(self.covariance[0, 0]))
        return self.slope - 1.96 * error, self.slope + 1.96 * error

    def at(self, propensity: Floats, labels: Ints, scores: Floats) -> Floats:
        """Return p_ij of entries from p_j of all labels, the entries' labels and their scores."""
        standard = (scores - self.centre) / self.scale
        bounded = np.clip(propensity, 1e-6, 1 - 1e-6)
        logits = logit(bounded)[labels] + self.shift + self.own[labels] + self.slope * standard
        return np.asarray(np.clip(expit(logits), FLOOR, 1.0))

    def drawn(self, rng: np.random.Generator, size: int) -> list[ScoreSlope]:
        """Draw slopes that the audit allows, each certain."""
        middle = np.array([self.slope, self.shift])
        covariance = np.zeros((2, 2)) if self.covariance is None else self.covariance
        pairs = rng.multivariate_normal(middle, covariance, size=size, method="eigh")
        return [
            ScoreSlope(float(slope), float(shift), self.own, self.centre, self.scale)
            for slope, shift in pairs
        ]


def fit_slope(
    kept: Floats, true_labels: sp.csr_array, scores: Floats, propensity: Floats
) -> ScoreSlope:
    """Fit the slope that makes what was kept of the audited true labels likeliest.

    `kept` is 1 for every true label that was kept, else 0, in the order of `true_labels.indices`,
    as are the scores.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> true = sp.csr_array(np.ones((400, 5)))
    >>> score = rng.standard_normal(2000)
    >>> kept = (rng.random(2000) < expit(-1 + 1.5 * score)).astype(float)
    >>> fitted = fit_slope(kept, true, score, np.full(5, 0.33))
    >>> fitted.interval[0] < 1.5 < fitted.interval[1]
    True
    """
    labels, n_labels = true_labels.indices, true_labels.shape[1]
    centre, scale = float(scores.mean()), float(scores.std()) or 1.0
    x = np.column_stack([(scores - centre) / scale, np.ones(scores.size)])
    base = logit(np.clip(propensity, 1e-6, 1 - 1e-6))[labels]
    common, own = np.zeros(2), np.zeros(n_labels)
    inverse = np.eye(2)
    for _ in range(ITERATIONS):
        chance = expit(base + x @ common + own[labels])
        residual, weight = kept - chance, chance * (1 - chance)
        slopes = x.T @ residual
        own_slopes = np.bincount(labels, residual, n_labels) - own / SPREAD**2
        own_weight = np.bincount(labels, weight, n_labels) + 1 / SPREAD**2
        cross = np.column_stack([np.bincount(labels, weight * v, n_labels) for v in x.T])
        schur = (x * weight[:, None]).T @ x - cross.T @ (cross / own_weight[:, None])
        inverse = np.linalg.pinv(schur, hermitian=True)
        step = inverse @ (slopes - cross.T @ (own_slopes / own_weight))
        own_step = (own_slopes - cross @ step) / own_weight
        size = min(1.0, 2.0 / max(np.abs(step).max(), np.abs(own_step).max(), 1e-12))
        common, own = common + size * step, own + size * own_step
        if np.abs(step).max() < 1e-10:
            break
    return ScoreSlope(float(common[0]), float(common[1]), own, centre, scale, inverse)


def scores_of(
    scores: TopK | ScoresLike, labels: sp.csr_array, *, name: str = "audited labels"
) -> Floats:
    """Return the score of every label entry, in the order of `labels.indices`.

    An entry that is not listed gets what is 1 below the smallest score. ValueError if the scores
    are of other rows or labels, or not finite.

    Examples
    --------
    >>> scores_of(TopK([[1], [0]], [[0.75], [0.5]]), sp.csr_array([[1, 1], [1, 0]]))
    array([-0.5 ,  0.75,  0.5 ])
    """
    rows = entry_rows(labels)
    if not isinstance(scores, TopK) and not checks.is_sparse(scores):
        table = checks.finite(checks.dense(scores, "scores", "label"), "scores")
        checks.same_shape(table, labels, "scores", name)
        return np.asarray(table[rows, labels.indices], dtype=np.float64)
    if not isinstance(scores, TopK):
        entries = checks.matrix(scores, name="scores", column="label").tocoo()
        checks.same_shape(entries, labels, "scores", name)
        row, label, value = entries.row, entries.col, entries.data
    elif scores.labels.shape[0] != labels.shape[0]:
        raise ValueError(
            f"scores of {scores.labels.shape[0]} rows for {labels.shape[0]} rows of {name}; give "
            "those of the same rows, in their order."
        )
    else:
        row, place = np.nonzero(scores.labels >= 0)
        label, value = scores.labels[row, place], scores.scores[row, place]
    width = labels.shape[1]
    return look_up(
        row.astype(np.int64) * width + label, value.astype(np.float64),
        rows * width + labels.indices,
    )  # fmt: skip


def look_up(keys: Ints, values: Floats, wanted: Ints) -> Floats:
    """Return the value of every wanted key; of an absent one what is 1 below the smallest."""
    result = np.full(wanted.size, values.min() - 1.0 if values.size else 0.0)
    if keys.size:
        order = np.argsort(keys)
        place = np.minimum(np.searchsorted(keys[order], wanted), keys.size - 1)
        listed = keys[order][place] == wanted
        result[listed] = values[order][place[listed]]
    return result


CORRELATIONS = np.linspace(0.0, MOST, 19)
SHARES = 13
TINIEST = 1e-9
"""A chance below which nothing is certain, so that one odd row does not decide everything."""


@dataclass(frozen=True, eq=False)
class EffortPosterior:
    """Row effort and the share of unannotated rows, as an audit shows them.

    Parameters
    ----------
    correlations : (R,) floats
        Values of ρ, the first 0.
    shares : (S,) floats
        Values of π₀, the first 0.
    probability : (R, S) floats
        The probability of every pair; they sum to 1.
    """

    correlations: Floats
    shares: Floats
    probability: Floats

    @property
    def row_effort(self) -> float:
        """ρ: 0 where that is likelier than not, else the mean of the others."""
        return _location(self.correlations, self.probability.sum(axis=1))

    @property
    def unannotated(self) -> float:
        """π₀, in the same way."""
        return _location(self.shares, self.probability.sum(axis=0))

    def interval(self, confidence: float = 0.95) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return the middle of the distributions of ρ and of π₀."""
        ends = []
        for values, axis in ((self.correlations, 1), (self.shares, 0)):
            below = np.cumsum(self.probability.sum(axis=axis))
            tails = np.searchsorted(below, [(1 - confidence) / 2, (1 + confidence) / 2])
            low, high = values[np.minimum(tails, values.size - 1)]
            ends.append((float(low), float(high)))
        return ends[0], ends[1]

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        """Draw (size, 2) pairs (ρ, π₀): a point of the grid, and a step's width around it."""
        flat = rng.choice(self.probability.size, size=size, p=self.probability.ravel())
        rows, columns = np.unravel_index(flat, self.probability.shape)
        drawn = np.column_stack([self.correlations[rows], self.shares[columns]])
        grids = self.correlations, self.shares
        steps = [np.diff(grid[:2])[0] if grid.size > 1 else 0.0 for grid in grids]
        jitter = (rng.random((size, 2)) - 0.5) * steps * (drawn > 0)
        return np.asarray(np.clip(drawn + jitter, 0.0, MOST))


def estimate_effort(kept: sp.csr_array, true_labels: sp.csr_array, p: Floats) -> EffortPosterior:
    """Estimate row effort and the share of unannotated rows from audited rows.

    `kept` are those of the true labels that were observed, `p` propensities over all rows.

    Examples
    --------
    Half of the rows show both of their labels, half none:

    >>> true = sp.csr_array(np.ones((80, 2)))
    >>> kept = sp.csr_array(np.repeat([[1.0, 1.0], [0.0, 0.0]], 40, axis=0))
    >>> posterior = estimate_effort(kept, true, np.array([0.5, 0.5]))
    >>> posterior.row_effort + posterior.unannotated > 0.4
    True
    """
    grid = log_likelihoods(kept, true_labels, p)
    posterior = np.exp(grid.log_likelihood - grid.log_likelihood.max())
    posterior *= _spike(grid.correlations.size)[:, None] * _spike(grid.shares.size)
    return EffortPosterior(grid.correlations, grid.shares, posterior / posterior.sum())


class EffortGrid(NamedTuple):
    """The likelihood of an audit for values of ρ (rows) and π₀ (columns), the first of each 0."""

    correlations: Floats
    shares: Floats
    log_likelihood: Floats


def log_likelihoods(kept: sp.csr_array, true_labels: sp.csr_array, p: Floats) -> EffortGrid:
    """Return the log-likelihood of the audited rows over a grid of ρ and π₀."""
    some = np.diff(true_labels.indptr) > 0
    kept, true_labels = sp.csr_array(kept[some]), sp.csr_array(true_labels[some])
    used = np.flatnonzero(np.bincount(true_labels.indices, minlength=p.size))
    kept, true_labels, p = kept[:, used], sp.csr_array(true_labels[:, used]), p[used]
    lost = sp.csr_array(true_labels - kept)
    silent = np.diff(kept.indptr) == 0
    shares = _shares(silent)
    log_likelihood = np.array(
        [[_log_likelihood(kept, lost, silent, p, rho, share) for share in shares]
         for rho in CORRELATIONS]
    )  # fmt: skip
    return EffortGrid(CORRELATIONS, shares, log_likelihood)


def _shares(silent: Bools) -> Floats:
    """Return values of π₀ up to what the share of rows that show nothing allows."""
    rows, share = max(silent.size, 1), silent.mean() if silent.size else 0.0
    most = min(MOST, share + 3 * np.sqrt((share * (1 - share) + 0.25 / rows) / rows))
    return np.linspace(0.0, most, SHARES) if share else np.zeros(1)


def _spike(size: int) -> Floats:
    """Return a prior with one half at 0, the other half even."""
    prior = np.full(size, 0.5 / max(size - 1, 1))
    prior[0] = 0.5 if size > 1 else 1.0
    return prior


def _log_likelihood(
    kept: sp.csr_array, lost: sp.csr_array, silent: Bools, p: Floats, rho: float, share: float
) -> float:
    effort = normal(rho, share)
    chance = np.clip(effort.propensities(p), TINIEST, 1 - TINIEST).T  # labels × points
    by_point = kept @ np.log(chance) + lost @ np.log1p(-chance)
    largest = by_point.max(axis=1)
    annotated = largest + np.log(np.exp(by_point - largest[:, None]) @ effort.weights)
    rows = np.log1p(-share) + annotated
    if share:
        rows = np.where(silent, np.logaddexp(np.log(share), rows), rows)
    return float(rows.sum())


def _location(values: Floats, probability: Floats) -> float:
    if values.size == 1 or probability[0] >= 0.5:
        return 0.0
    return float(values[1:] @ probability[1:] / probability[1:].sum())
