"""Metrics per label: their mean over labels, and what is not known of it.

A label is counted if there is something to divide by: for recall if it was observed, for precision
if it was predicted, for F1 if either; others are left out, and their number is reported. What is
estimated is the mean, over the labels counted here, of what the metric of each would be on ever
more rows. With h hits, o times observed, m times predicted and q = 1/p of a label:

    recall h / o        precision q h / m        F1 (vanilla) 2 h / (m + o)

*F1 of few.* The quotient of counts as small as 1 is far from the quotient of what is expected, and
more so if hits are weighted. An unbiased sum over hits of 2 q / (m + q o) counts the other rows of
the label only, and then one appearance more, of average kind (1 / (K + 1) has the mean
(1 − e^−λ) / λ for a Poisson number K, which is the chance that the label is counted at all, by λ):

    F1 (unbiased) = 2 q h / (m − 1 + s_m + q (o − 1 + s_o))

with s_m and s_o the shares of appearances that are predictions and observations. How an appearance
divides is read in two other ways (`_readings`), and the interval spans both, for the plain quotient
too. Of complete labels every estimator gives the plain one, which is what other libraries give.

F-β and Jaccard divide by other sums of hits, wrong predictions and misses, in the same way.

*Weighted* means count a label as often as rows have it, Σ_j q o · value / Σ_j q o; labels of few
rows count little, and quotients are plain. Weighted recall is micro recall.

*Error.* Rows are what is random. The variance of Σ over labels is that of every label by itself,
plus what labels of one row have in common:

    Σ_j V_j + max(0, Σ_i [(Σ_j z_ij)² − Σ_j z_ij²]),

z_ij what the value of label j changes by without row i; of a share of n, what row i is off by from
what the other rows and one average row say, over n. For a share of n, V = (q P − P²) / n, with
P and P² drawn to their means over labels by one more observation: a label seen once says nothing
of its own spread. For F1, V = Σ_i z_ij², the jackknife's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from unmask._typing import Bools, Floats

FEW = 5
"""Squares of shares are drawn to their mean over labels counted at most so often, …"""
PRIOR = 20
"""… and over so many labels more that are as the mean is."""


@dataclass(frozen=True)
class Counts:
    """Counts of every label: hit, wrongly predicted and missed, and what a hit counts.

    Parameters
    ----------
    hits, wrong, missed : (L,) floats
        Wrong: predicted where it is not observed; missed: observed where it is not predicted.
    q : (L,) floats
        1/p, or ones.
    corrected : bool, default False
        Whether values, too, allow for counts being few, as intervals always do.
    """

    hits: Floats
    wrong: Floats
    missed: Floats
    q: Floats
    corrected: bool = False

    @property
    def predicted(self) -> Floats:
        """Times that every label was predicted."""
        return self.hits + self.wrong

    @property
    def observed(self) -> Floats:
        """Times that every label was observed."""
        return self.hits + self.missed


@dataclass(frozen=True)
class Effects:
    """Change of the value of a label without one of its rows, by what the row is.

    Parameters
    ----------
    hit, wrong, missed : (L,) floats
        0 where a label is not counted.
    """

    hit: Floats
    wrong: Floats
    missed: Floats

    @property
    def by_kind(self) -> tuple[Floats, Floats, Floats]:
        """Effects of a hit, a wrong prediction and a miss."""
        return self.hit, self.wrong, self.missed


@dataclass(frozen=True)
class OverLabels:
    """A metric of every label, before the mean.

    Parameters
    ----------
    values : (J,) floats
        Of the labels that are counted.
    left_out : int
        How many are not.
    own : float
        The variance of the sum of values, were labels independent.
    effects : Effects
    trials : float
        Coin tosses that would be as uncertain as the mean, where all labels say the same.
    readings : tuple of float, default ()
        The means that the interval spans; empty: the mean itself.
    centre : float, optional
        The mean that variance and effects belong to, if it is not that of the values; of another
        reading the error is in proportion.
    weighted : bool, default False
        Whether the values were weighted by how many rows have the label.
    """

    values: Floats
    left_out: int
    own: float
    effects: Effects
    trials: float
    readings: tuple[float, ...] = ()
    centre: float | None = None
    weighted: bool = False

    @property
    def labels(self) -> int:
        """Number of labels that are counted."""
        return self.values.size

    @property
    def mean(self) -> float:
        """The mean over the labels that are counted; 0 of none."""
        return _mean(self.values)

    def error(self, variance: float, reading: float) -> float:
        """The standard error of a reading of the mean, from the variance of the sum of values."""
        factor = reading / self.centre if self.centre else 1.0
        return factor * math.sqrt(variance) / max(self.labels, 1)


def precision(counts: Counts) -> OverLabels:
    """q · hits / times predicted.

    Parameters
    ----------
    counts : Counts

    Returns
    -------
    OverLabels
    """
    return _shares(counts, counts.predicted, counts.q, of_predicted=True)


def recall(counts: Counts) -> OverLabels:
    """hits / times observed: q cancels.

    Parameters
    ----------
    counts : Counts

    Returns
    -------
    OverLabels
    """
    return _shares(counts, counts.observed, np.ones_like(counts.q), of_predicted=False)


def _shares(counts: Counts, of: Floats, q: Floats, *, of_predicted: bool) -> OverLabels:
    counted, n, hits = of > 0, np.maximum(of, 1.0), counts.hits
    values = q * hits / n
    mean = _mean(values[counted])
    square = q * hits * (q * np.maximum(hits - 1, 0)) / (n * np.maximum(n - 1, 1))
    few = (of > 1) & (of <= FEW)
    squares = math.fsum(square[few]) + PRIOR * mean * mean
    mean_square = squares / (few.sum() + PRIOR)
    drawn = (q * hits + mean) / (n + 1)
    drawn_square = ((n - 1) * square + min(mean_square, mean)) / n
    own = (q * drawn - drawn_square) / n
    hit = (q - (q * (hits - 1) + mean) / n) / n
    other = -(q * hits + mean) / n / n
    nothing = np.zeros_like(hits)
    effects = Effects(
        np.where(counted, hit, 0.0),
        np.where(counted, other, 0.0) if of_predicted else nothing,
        nothing if of_predicted else np.where(counted, other, 0.0),
    )
    return OverLabels(
        values[counted],
        int((~counted).sum()),
        max(0.0, math.fsum(own[counted])),
        effects,
        _trials(counted, q / n),
    )


@dataclass(frozen=True)
class Fraction:
    """A metric hits · c / (c_h hits + c_w wrong + c_m missed) of complete labels.

    Parameters
    ----------
    above, hit, wrong, missed : float
        c, c_h, c_w and c_m.
    doubled : float
        Of c_h, what a hit adds as a label that is there; the rest it adds as a prediction.
    """

    above: float
    hit: float
    wrong: float
    missed: float
    doubled: float

    def weights(self, q: Floats) -> tuple[Floats, Floats, Floats]:
        """Weights below of a hit, a wrong prediction and a miss that were observed."""
        ones = np.ones_like(q)
        return self.hit - self.doubled + self.doubled * q, self.wrong * ones, self.missed * q


F1 = Fraction(2.0, 2.0, 1.0, 1.0, 1.0)
F05 = Fraction(1.25, 1.25, 1.0, 0.25, 0.25)
F2 = Fraction(5.0, 5.0, 1.0, 4.0, 4.0)
JACCARD = Fraction(1.0, 1.0, 1.0, 1.0, 0.0)


def fraction(counts: Counts, form: Fraction) -> OverLabels:
    """F1 and its like: a quotient of counts, or its estimate from few of them.

    Parameters
    ----------
    counts : Counts
    form : Fraction

    Returns
    -------
    OverLabels
    """
    q, hits = counts.q, counts.hits
    of_hit, of_wrong, of_missed = kinds = form.weights(q)
    appearances = hits + counts.wrong + counts.missed
    counted = appearances > 0
    below = of_hit * hits + of_wrong * counts.wrong + of_missed * counts.missed
    above = form.above * q * hits
    rest = below - of_hit + _appearance(kinds, _shares_of_kinds(counts, np.ones_like(hits)))
    values = _quotient(above, rest)
    hit = values - _quotient(form.above * q * np.maximum(hits - 1, 0), rest - of_hit)
    wrong = values - _quotient(above * (counts.wrong > 0), rest - of_wrong)
    missed = values - _quotient(above * (counts.missed > 0), rest - of_missed)
    effects = Effects(
        np.where(hits > 0, hit, 0.0),
        np.where(counts.wrong > 0, wrong, 0.0),
        np.where(counts.missed > 0, missed, 0.0),
    )
    plain = _quotient(above, below)
    return OverLabels(
        (values if counts.corrected else plain)[counted],
        int((~counted).sum()),
        math.fsum(_squares(counts, effects)[counted]),
        effects,
        _trials(counted, q / np.maximum(appearances, 1.0)),
        tuple(_mean(_quotient(above, each)[counted]) for each in _readings(counts, form, below)),
        centre=_mean(values[counted]),
    )


def _squares(counts: Counts, effects: Effects) -> Floats:
    """Σ over the rows of every label of what it changes by without the row, squared."""
    by_kind = zip(effects.by_kind, (counts.hits, counts.wrong, counts.missed), strict=True)
    return np.asarray(sum(times * effect**2 for effect, times in by_kind))


def _shares_of_kinds(counts: Counts, weights: Floats) -> tuple[float, float, float]:
    """The shares of appearances of labels that are hits, wrong and missed."""
    kinds = [math.fsum(weights * each) for each in (counts.hits, counts.wrong, counts.missed)]
    total = math.fsum(kinds)
    if not total:
        return 1.0, 0.0, 0.0
    hit, wrong, missed = (each / total for each in kinds)
    return hit, wrong, missed


def _appearance(kinds: tuple[Floats, ...], shares: tuple[float, ...]) -> Floats:
    """Weight below of one appearance, on average."""
    return np.asarray(sum(share * each for share, each in zip(shares, kinds, strict=True)))


def _readings(counts: Counts, form: Fraction, below: Floats) -> tuple[Floats, Floats]:
    """Denominators, if an appearance divides in either of two other ways.

    As the other appearances of labels that are hit do; or as labels truly appear, by totals
    weighted by q, of which label j shows the share p.
    """
    q, hits = counts.q, counts.hits
    kinds = form.weights(q)
    others = hits + counts.wrong + counts.missed - 1
    is_hit = (hits > 0) & (others > 0)
    beside = Counts(np.maximum(hits - 1, 0), counts.wrong, counts.missed, q)
    weights = np.where(is_hit, hits / np.maximum(others, 1.0), 0.0)
    companions = below - kinds[0] + _appearance(kinds, _shares_of_kinds(beside, weights))
    missed, right = math.fsum(q * counts.missed), math.fsum(q * hits)
    predicted = math.fsum(counts.predicted)
    true = form.hit * right + form.wrong * (predicted - right) + form.missed * missed
    shown = np.maximum(predicted + missed / q, 1.0)
    return companions, below - kinds[0] + true / shown


def weighted_precision(counts: Counts) -> OverLabels:
    """Precision of labels, weighted by how many rows have them.

    Parameters
    ----------
    counts : Counts

    Returns
    -------
    OverLabels
        Of hits and observations of other rows, q² h (o − 1), and of a row with itself, q h: both
        unbiased over masks.
    """
    q, hits, missed = counts.q, counts.hits, counts.missed
    predicted = np.maximum(counts.predicted, 1.0)

    def pairs(h: Floats, m: Floats) -> Floats:
        return q * h * (1 + q * np.maximum(h + m - 1, 0))

    values = pairs(hits, missed) / predicted
    fewer = np.maximum(predicted - 1, 1.0)
    without = (
        np.where(predicted > 1, pairs(hits - 1, missed) / fewer, 0.0),
        np.where(predicted > 1, pairs(hits, missed) / fewer, 0.0),
        pairs(hits, missed - 1) / predicted,
    )
    return _weighted(counts, values, without)


def weighted(counts: Counts, form: Fraction) -> OverLabels:
    """F1 and its like of labels, weighted by how many rows have them.

    Parameters
    ----------
    counts : Counts
    form : Fraction

    Returns
    -------
    OverLabels
    """
    q, hits = counts.q, counts.hits
    kinds = form.weights(q)
    below = sum(
        weight * times
        for weight, times in zip(kinds, (hits, counts.wrong, counts.missed), strict=True)
    )

    def value(h: Floats, o: Floats, under: Floats) -> Floats:
        return _quotient(form.above * q * np.maximum(h, 0) * q * np.maximum(o, 0), under)

    without = (
        value(hits - 1, counts.observed - 1, below - kinds[0]),
        value(hits * (counts.wrong > 0), counts.observed, below - kinds[1]),
        value(hits * (counts.missed > 0), counts.observed - 1, below - kinds[2]),
    )
    return _weighted(counts, value(hits, counts.observed, np.asarray(below)), without)


def _weighted(counts: Counts, values: Floats, without: tuple[Floats, ...]) -> OverLabels:
    """Σ values / Σ q o: as a mean over labels of values times labels over that sum.

    `without` are the values that are left without a hit, a wrong prediction and a miss.
    """
    counted = counts.observed > 0
    total = math.fsum(counts.q * counts.observed)
    factor = int(counted.sum()) / total if total else 0.0
    mean = math.fsum(values[counted]) / total if total else 0.0
    effects = Effects(
        *(
            np.where(counted & (times > 0), (values - left - mean * weight) * factor, 0.0)
            for left, times, weight in zip(
                without,
                (counts.hits, counts.wrong, counts.missed),
                (counts.q, np.zeros_like(counts.q), counts.q),
                strict=True,
            )
        )
    )
    return OverLabels(
        values[counted] * factor,
        int((~counted).sum()),
        math.fsum(_squares(counts, effects)[counted]),
        effects,
        max(math.fsum(counts.observed), 1.0),
        weighted=True,
    )


def covered(counts: Counts) -> OverLabels:
    """1 for a label that is hit at least once; all labels are counted.

    Parameters
    ----------
    counts : Counts

    Returns
    -------
    OverLabels
    """
    nothing = np.zeros_like(counts.hits)
    once = (counts.hits == 1).astype(np.float64)
    values = (counts.hits > 0).astype(np.float64)
    effects = Effects(once, nothing, nothing)
    trials = _trials(np.full(values.shape, True), 1 / np.maximum(counts.hits, 1.0))
    return OverLabels(values, 0, math.fsum(once), effects, trials)


def _quotient(above: Floats, below: Floats) -> Floats:
    """Elementwise; 0 where there is nothing above."""
    used = above > 0
    return np.where(used, above / np.where(used, below, 1.0), 0.0)


def _trials(counted: Bools, inverse: Floats) -> float:
    """Trials of a mean of shares: labels² / Σ weight of one observation."""
    labels = int(counted.sum())
    return labels * labels / math.fsum(inverse[counted]) if labels else 1.0


def _mean(values: Floats) -> float:
    return math.fsum(values) / max(values.size, 1)


FORMS: dict[str, Callable[[Counts], OverLabels]] = {
    "precision": precision,
    "recall": recall,
    "f1": partial(fraction, form=F1),
    "f05": partial(fraction, form=F05),
    "f2": partial(fraction, form=F2),
    "jaccard": partial(fraction, form=JACCARD),
    "weighted_precision": weighted_precision,
    "weighted_f1": partial(weighted, form=F1),
    "weighted_f05": partial(weighted, form=F05),
    "weighted_f2": partial(weighted, form=F2),
    "weighted_jaccard": partial(weighted, form=JACCARD),
    "coverage": covered,
}
