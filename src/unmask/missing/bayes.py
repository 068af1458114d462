"""How likely is a label missing where it is not observed?

With r = P(Y* = 1 | x), p = P(Y = 1 | Y* = 1) and ε = P(Y = 1 | Y* = 0), Bayes' rule gives

    P(missing) = r (1 − p) / (1 − p r − ε (1 − r)),       of a pair that is not observed
    P(wrong)   = (1 − r) ε / ((1 − r) ε + r p),           of a pair that is observed

The odds of the first are r (1 − p) : (1 − r)(1 − ε). They are computed as such: without a
difference that loses digits, and by operations each of which rises or falls with r, so that of two
pairs of a label the one with the larger r never has the smaller P(missing), near to 1 as both be.

Where the labels of a row are kept or lost together (row effort e, rows that nobody annotated), what
a row shows says how much effort went into it. With true labels independent given x,

    P(e | row) ∝ P(e) Π_observed p(e) Π_unobserved (1 − p(e) r),

and P(missing) is the mean of the first formula over it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from unmask import _validation
from unmask._typing import Floats, Ints
from unmask.propensity.mask_model import RowEffort


def posterior(probability: ArrayLike, propensity: ArrayLike, false_rate: ArrayLike = 0.0) -> Floats:
    """P(true | not observed) of labels that are true with these probabilities.

    Parameters
    ----------
    probability : floats in [0, 1]
        r, of true labels.
    propensity : floats in (0, 1]
        p, of the same shape or one that broadcasts.
    false_rate : floats in [0, 1), default 0
        ε, how likely a label is observed that is not true.

    Returns
    -------
    floats
        Of the common shape. Where a label cannot be unobserved (p = r = 1) it is 0.

    Raises
    ------
    ValueError
        If a number is out of its range.

    References
    ----------
    Elkan & Noto, *Learning classifiers from only positive and unlabeled data* (2008), section 2.

    Examples
    --------
    >>> posterior([0.5, 0.9], 0.25).round(3)
    array([0.429, 0.871])
    """
    r = _validation.finite(_validation.numbers(probability, "probabilities"), "probabilities")
    p = _validation.numbers(propensity, "propensities").astype(np.float64)
    rate = _validation.numbers(false_rate, "false rates").astype(np.float64)
    for values, name, inside in (
        (r, "probabilities must lie in [0, 1]", (r >= 0) & (r <= 1)),
        (p, "propensities must lie in (0, 1]", (p > 0) & (p <= 1)),
        (rate, "false rates must lie in [0, 1)", (rate >= 0) & (rate < 1)),
    ):
        if not inside.all():
            raise ValueError(f"{name}; got {values[~inside].flat[0]:g}.")
    return unobserved(r.astype(np.float64), p, rate)


def unobserved(r: Floats, p: Floats, false_rate: Floats | float = 0.0) -> Floats:
    """The same of checked numbers."""
    hidden, absent = np.broadcast_arrays(r * (1.0 - p), (1.0 - r) * (1.0 - false_rate))
    with np.errstate(over="ignore"):
        odds = np.divide(absent, hidden, out=np.full(hidden.shape, np.inf), where=hidden > 0)
    return np.asarray(1.0 / (1.0 + odds))


def wrong(r: Floats, p: Floats, false_rate: Floats) -> Floats:
    """P(not true | observed) of checked numbers; 0 where nothing wrong is ever observed."""
    spurious = (1.0 - r) * false_rate
    return np.asarray(spurious / np.maximum(spurious + r * p, 1e-300))


def by_effort(
    r: Floats, p: Floats, rows: Ints, is_observed: Floats, effort: RowEffort, false_rate: Floats
) -> Floats:
    """P(missing) of pairs whose rows say how much effort went into them.

    Parameters
    ----------
    r, p, false_rate : (m,) floats
        Of pairs; all that are observed or may be true must be among them.
    rows : (m,) integers
        The row of every pair.
    is_observed : (m,) floats
        1 where the pair is observed.
    effort : RowEffort

    Returns
    -------
    (m,) floats
        Only those of unobserved pairs mean something.
    """
    weights = (1.0 - effort.unannotated) * np.array(effort.weights)
    chances = [effort.propensity_at(p, np.array(point)) for point in effort.points]
    if effort.unannotated:
        weights, chances = np.r_[weights, effort.unannotated], [*chances, np.zeros_like(p)]
    count = int(rows.max(initial=-1)) + 1
    logs, hidden = np.empty((len(chances), count)), []
    for index, chance in enumerate(chances):
        rate = false_rate if chance.any() else np.zeros_like(p)
        shown = chance * r + rate * (1.0 - r)
        likely = np.where(is_observed > 0, shown, 1.0 - shown)
        logs[index] = np.log(weights[index]) + np.bincount(
            rows, np.log(np.maximum(likely, 1e-300)), count
        )
        hidden.append(unobserved(r, chance, rate))
    share = np.exp(logs - logs.max(axis=0))
    share /= share.sum(axis=0)
    return np.asarray(sum(share[i][rows] * each for i, each in enumerate(hidden)))
