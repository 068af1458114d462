"""Expected intervals: audits are carried out on labels that could be the true ones.

Unobserved pairs become relevant by chance, each with the rate of its stratum (`designs`): that of
observed labels at its score, or what propensities leave missing. The design then draws from them,
with half the budget, the budget and twice the budget, and the measured estimates say how wide
their intervals are. Nobody knows the true labels: more may be missing than propensities say, some
rows miss many of them, and a few audited rows may not show how much rows differ. So that four of
five plans keep what they promise, it is the largest of several audits, each with other propensities
and other rows that miss more, widened by the doubt of a width itself, which of m normal values is
1/√(2 (m − 1)) of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from unmask.arrays import TopK, pair_keys, values_at
from unmask.audit.designs import Question, draw, pair_frame
from unmask.data.judgements import Judgements, Sample
from unmask.metrics.intervals import z_quantile
from unmask.metrics.measured.context import Audit
from unmask.metrics.measured.estimates import estimates_of

SEED = 20_000
GUESSES = (math.inf, 1.0, 0.7, 0.5, 0.35, 0.25, 0.15)
"""Factors of the propensities, one audit each; at first nothing is missing.

They lie so close that shares near one half, which are the hardest to measure, are among them.
"""
FACTORS = (0.5, 1.0, 2.0)
KEPT = 0.8
"""The share of plans that keep what they promise."""


@dataclass(frozen=True)
class Expected:
    """The half-width of the 95 % interval that four of five plans keep.

    Parameters
    ----------
    metric : str
        Such as "R@5".
    half, budget, twice : float
        With half the budget, with the budget, with twice the budget; nan if it cannot be measured.

    Examples
    --------
    >>> from unmask import TopK, audit
    >>> top, labels = TopK([[0], [1]] * 50, [[1.0]] * 100), [[1, 0], [0, 0]] * 50
    >>> (precision,) = audit.plan(top, labels, budget=40, metrics=["P@1"]).expected
    >>> precision.metric, precision.twice < precision.budget < precision.half
    ('P@1', True)
    """

    metric: str
    half: float
    budget: float
    twice: float


def expected(question: Question, budget: int) -> tuple[Expected, ...]:
    """Return half-widths for the first system of a question.

    Parameters
    ----------
    question : Question
        What the plan is made from.
    budget : int
        Rows or pairs.

    Returns
    -------
    tuple of Expected
        One for every metric of the question.
    """
    columns = np.zeros((len(FACTORS), len(question.metrics)))
    about: Audit | None = None
    for seed, guess in enumerate(GUESSES, SEED):
        supposed = replace(question, p=np.minimum(question.p * guess, 1.0))
        true = plausible_truth(supposed, seed)
        for row, factor in enumerate(FACTORS):
            try:
                sample = draw(question, max(1, int(budget * factor)), None, seed)
            except ValueError:  # the budget buys less than two rows
                columns[row] = math.nan
                continue
            judged = _answered(sample, true)
            if about is None:
                about = Audit.checked(judged, question.labels, asked=question.metrics)
            widths = _half_widths(about.with_judged(judged), question.systems[0])
            columns[row] = np.maximum(columns[row], widths)
    return tuple(
        Expected(name, *(float(column[i]) for column in columns))
        for i, name in enumerate(question.metrics)
    )


def plausible_truth(question: Question, seed: int = SEED) -> sp.csr_array:
    """Draw labels that could be the true ones: the observed, and unobserved ones by chance.

    Rows miss more or fewer: their chances are multiplied by exponential numbers of mean 1.
    """
    rng = np.random.default_rng(seed)
    frame = pair_frame(
        question.systems, question.labels, question.p, k=question.k, observed_free=True
    )
    more = rng.standard_exponential(frame.shape[0])[frame.keys // frame.shape[1]]
    listed = frame.keys[rng.random(frame.keys.size) < more * frame.rates[frame.stratum]]
    first_far = len(frame.kinds) - len(frame.far_labels)
    counts = rng.binomial(frame.sizes, frame.rates)
    counts[:first_far] = 0
    far, _ = frame.draw(counts, np.zeros(0, np.int64), rng)
    keys = np.unique(np.concatenate([pair_keys(question.labels), listed, far]))
    row, label = np.divmod(keys, frame.shape[1])
    return sp.csr_array(sp.coo_array((np.ones(keys.size), (row, label)), shape=frame.shape))


def _half_widths(about: Audit, top: TopK) -> list[float]:
    sample = about.judged.sample
    judged = np.unique(sample.first_phase[0]).size
    margin = 1 + z_quantile(2 * KEPT - 1) / math.sqrt(2 * max(judged - 1, 1))
    made = estimates_of(about, top)
    return [margin * (each.interval[1] - each.interval[0]) / 2 for each in made]


def _answered(sample: Sample, true: sp.csr_array) -> Judgements:
    if sample.unit == "rows":
        return Judgements(sample, true[sample.rows])
    return Judgements(sample, values_at(true, sample.rows, sample.pair_labels))
