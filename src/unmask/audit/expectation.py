"""What interval to expect: the audit is carried out once on labels that could be the true ones.

Unobserved pairs become relevant by chance, each with the rate of its stratum (`frames`): that of
observed labels at its score, or what propensities leave missing. The design then draws from them,
with half the budget, the budget and twice the budget, and the measured estimates say how wide
their intervals are. Nobody knows the true labels, so that this is a guide, not a promise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from unmask._sparse import values_at
from unmask.audit import frames
from unmask.audit.designs import Question, draw
from unmask.data.judgements import Judgements, Sample
from unmask.metrics.measured import measure

SEED = 20_000
FACTORS = (0.5, 1.0, 2.0)


@dataclass(frozen=True)
class Expected:
    """What half-width of the 95 % interval to expect for a metric.

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
    """Half-widths for the first system of a question.

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
    true = plausible_truth(question)
    columns = [_half_widths(question, true, max(1, int(budget * factor))) for factor in FACTORS]
    return tuple(
        Expected(name, *(column[i] for column in columns))
        for i, name in enumerate(question.metrics)
    )


def plausible_truth(question: Question) -> sp.csr_array:
    """Labels that could be the true ones: the observed, and unobserved ones by chance."""
    rng = np.random.default_rng(SEED)
    frame = frames.pair_frame(
        question.systems, question.labels, question.p, k=question.k, observed_free=True
    )
    listed = frame.keys[rng.random(frame.keys.size) < frame.rates[frame.stratum]]
    first_far = len(frame.kinds) - len(frame.far_labels)
    counts = rng.binomial(frame.sizes, frame.rates)
    counts[:first_far] = 0
    far, _ = frame.draw(counts, np.zeros(0, np.int64), rng)
    keys = np.unique(np.concatenate([frames.keys_of(question.labels), listed, far]))
    row, label = np.divmod(keys, frame.shape[1])
    return sp.csr_array(sp.coo_array((np.ones(keys.size), (row, label)), shape=frame.shape))


def _half_widths(question: Question, true: sp.csr_array, budget: int) -> list[float]:
    try:
        sample = draw(question, budget, None, SEED)
    except ValueError:  # the budget buys less than two rows
        return [math.nan] * len(question.metrics)
    made = measure(
        question.systems[0], question.labels, _answered(sample, true), metrics=question.metrics
    )
    return [(each.interval[1] - each.interval[0]) / 2 for each in made]


def _answered(sample: Sample, true: sp.csr_array) -> Judgements:
    if sample.unit == "rows":
        return Judgements(sample, true[sample.rows])
    return Judgements(sample, values_at(true, sample.rows, sample.pair_labels))
