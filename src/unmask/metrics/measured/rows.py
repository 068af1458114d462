"""Judged rows: the metric of each, its unbiased estimate from judged pairs, its undecided labels.

A row that was judged completely has the metric itself. In a two-phase sample, "judged and relevant"
is an observation under a mask that we know, with the propensity π of the pair within its row: the
unbiased estimates of rows (`contributions`) are then right by construction.

Their variance within a row: if everything among the first k was surely judged, the metric is a
known function g of N alone, the number of true labels, and with r_s the coefficients of
Π (1 − 1/π_j + z/π_j) over the uncertain ones found, Σ_s r_s g(N₁ + s)² is unbiased for g(N)²:

    V̂ = û² − Σ_s r_s g(N₁ + s)²

is unbiased for the variance of û (for recall it is û² − h² ∫ (−ln t) t^(N₁−1) (1 − (1−t)/π)^n dt).
Neither is of use where g has a kink, as the ideal DCG has one at k labels: no other estimate is
unbiased, but the coefficients alternate and explode. Such metrics are bounded instead (`possible`):
so many labels were found, and from k on more do not matter.

Measured numbers hold whatever undecided answers mean. A label on which people are evenly split, or
all unsure, is relevant or it is not. Metrics here are functions of the gain Σ w over the relevant
labels of a row (w: what a label counts at its place in the list, 0 outside) and of how many are
relevant, and rise with the gain. Of all ways to call s of the undecided labels relevant, the s with
the largest w are best, and those with the smallest worst: the extremes of a row are among the ways
"all w ≥ t" (or ≤ t), one per value t of w and one of none. Recall is highest if exactly the
undecided labels of the list are relevant, lowest if exactly the others are. Of sums over many rows,
t is the same for all.

The number is the middle of both extremes, its interval the union of theirs. Where they are further
apart than the wider of the two reaches, what people did not decide matters more than what was not
judged: `doubtful`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from unmask._typing import Floats, Integers, Ints
from unmask.arrays import TopK, entry_rows, listed_keys, pair_keys, stored_in
from unmask.data.judgements import Design, Judgements
from unmask.metrics.claims import Advice, Level, Reason, Verdict, too_wide
from unmask.metrics.evaluation import contributions
from unmask.metrics.registry import METRICS, split
from unmask.metrics.table import Estimate


@dataclass(frozen=True, eq=False)
class JudgedRows:
    """The chosen rows, the relevant pairs found in them, and with which probability.

    Parameters
    ----------
    rows, stratum : integers of shape (m,)
        The chosen rows and their strata.
    relevant : csr_array of shape (m, L + e)
        1 where a pair is known to be relevant; the last e columns are labels that judges named and
        the data do not have.
    chance : csr_array of shape (m, L + e)
        Same pattern: the probability of the pair to be judged once its row is chosen.
    sure : integers, rising
        Keys (position · L + label) of pairs that were surely judged; all, for whole rows.
    whole : bool
        Whether rows were judged completely.
    """

    rows: Ints
    stratum: Ints
    relevant: sp.csr_array
    chance: sp.csr_array
    sure: Ints
    whole: bool
    _kept: dict[Any, Any] = field(default_factory=dict, repr=False)

    @cached_property
    def weights(self) -> sp.csr_array:
        """1/π of every relevant pair: sums of rows are unbiased counts."""
        chance = self.chance
        return sp.csr_array((1 / chance.data, chance.indices, chance.indptr), shape=chance.shape)

    def linear_variances(self, weights: Floats) -> Floats:
        """Return Σ w² (1 − π)/π² of every row, for sums Σ w/π with a weight per relevant pair."""
        part = weights**2 * (1 - self.chance.data) / self.chance.data**2
        row = entry_rows(self.chance)
        return np.bincount(row, part, minlength=self.rows.size).astype(np.float64)

    def top_weights(self, top: TopK, k: int, *, discounted: bool = False) -> Floats:
        """Return 1 (or its discount) for relevant pairs among the first k of their row, else 0."""
        place = np.zeros(self.relevant.shape)  # m rows are few
        row, label, position = top.take(self.rows).pairs(k)
        place[row, label] = 1 / np.log2(2 + position) if discounted else 1.0
        entry = entry_rows(self.relevant)
        return np.asarray(place[entry, self.relevant.indices])

    def surely_judged(self, top: TopK, k: int) -> bool:
        """Return whether all of the first k predictions of the chosen rows were surely judged."""
        keys = listed_keys(top.take(self.rows), k, self.relevant.shape[1])
        return self.whole or bool(np.isin(keys, self.sure).all())

    def values(self, top: TopK, name: str, beside: Sequence[str] = ()) -> Floats:
        """Return the metric of every row, or its unbiased estimate; (m,) floats.

        Metrics `beside` it are going to be asked for: they are computed in the same pass.
        """
        if (id(top), name) not in self._kept:
            names = list(dict.fromkeys([*beside, name]))
            estimator = "vanilla" if self.whole else "unbiased"
            values = contributions(
                top.take(self.rows), self.relevant, None if self.whole else self.chance,
                metrics=names, estimators=[estimator],
            )  # fmt: skip
            self._kept.update({(id(top), each): values[each, estimator] for each in names})
            self._kept[id(top)] = top  # so that its number stays its own
        return np.asarray(self._kept[id(top), name])

    def possible(self, top: TopK, metric: str, k: int) -> Floats:
        """Return the metric of every row if 0 … k more of its labels are relevant, (m, k + 1).

        The first k predictions were surely judged, so that it depends on the number alone.
        """
        reference = METRICS[metric].reference
        if reference is None:
            raise ValueError(f"internal error: {metric} has no value of a single row.")
        made = np.empty((self.rows.size, k + 1))
        more = self.relevant.shape[1] + np.arange(k)
        for i in range(self.rows.size):
            ranking, true = self._ranking(top, k, i), stored_in(self.relevant, i)
            made[i] = [reference(ranking, np.r_[true, more[:count]], k) for count in range(k + 1)]
        return made

    def _ranking(self, top: TopK, k: int, i: int) -> Ints:
        """Return the first k predictions of a judged row."""
        places = top.labels[self.rows[i], :k]
        return places[places >= 0].astype(np.int64)

    def variances(self, top: TopK, metric: str, k: int) -> Floats | None:
        """Return V̂ of every row; None where the first k are not surely judged."""
        if metric in ("P", "DCG"):
            weights = self.top_weights(top, k, discounted=metric == "DCG")
            return self.linear_variances(weights / (k if metric == "P" else 1))
        if not self.surely_judged(top, k):
            return None
        estimates = self.values(top, f"{metric}@{k}")
        return np.array(
            [self._variance(top, metric, k, i, estimates[i]) for i in range(self.rows.size)]
        )

    def _variance(self, top: TopK, metric: str, k: int, i: int, estimate: float) -> float:
        start, stop = self.relevant.indptr[i : i + 2]
        chance = self.chance.data[start:stop]
        uncertain = chance[chance < 1]
        if not uncertain.size:
            return 0.0
        ranking = self._ranking(top, k, i)
        sure = self.relevant.indices[start:stop][chance == 1]
        beyond = self.relevant.shape[1] + np.arange(uncertain.size)
        reference = METRICS[metric].reference
        if reference is None:
            return 0.0
        squares = [
            reference(ranking, np.r_[sure, beyond[:count]], k) ** 2
            for count in range(uncertain.size + 1)
        ]
        return float(estimate**2 - coefficients(1 / uncertain) @ np.array(squares))


def coefficients(inverse: Floats) -> Floats:
    """Return the coefficients of Π_j (1 − a_j + z a_j), those of rising powers of z.

    >>> coefficients(np.array([2.0, 2.0]))
    array([ 1., -4.,  4.])
    """
    made = np.ones(1)
    for a in inverse:
        made = np.convolve(made, [1 - a, a])
    return made


def judged_rows(judged: Judgements, labels: sp.csr_array) -> JudgedRows:
    """Return the chosen rows of an audit with what is known of them.

    Parameters
    ----------
    judged : Judgements
        Of whole rows, or two-phase.
    labels : csr_array of shape (n, L), validated
        Observed labels, which count as relevant if they were not judged.

    Returns
    -------
    JudgedRows
    """
    sample = judged.sample
    rows, stratum = sample.first_phase
    if sample.unit == "rows":
        true = judged.all_true_labels
        ones = sp.csr_array((np.ones(true.nnz), true.indices, true.indptr), shape=true.shape)
        return JudgedRows(rows, stratum, true, ones, np.zeros(0, np.int64), whole=True)
    if sample.within is None:
        raise ValueError("internal error: pairs over all rows have no values of rows.")
    yes = judged.answers == 1
    position = np.empty(sample.shape[0], dtype=np.int64)
    position[rows] = np.arange(rows.size)
    row, label = position[sample.rows[yes]], sample.pair_labels[yes]
    chance = sample.within.probability[yes]
    certain = sample.within.probability == 1
    width = sample.shape[1]
    sure = position[sample.rows[certain]] * width + sample.pair_labels[certain]
    if sample.observed_free:
        shown = sp.csr_array(labels[rows])
        sure = np.r_[sure, pair_keys(shown)]
        row, label = np.r_[row, entry_rows(shown)], np.r_[label, shown.indices]
        chance = np.r_[chance, np.ones(shown.nnz)]
    order = np.lexsort((label, row))
    indptr = np.searchsorted(row[order], np.arange(rows.size + 1))
    shape = (rows.size, sample.shape[1])
    relevant, chances = (
        sp.csr_array((data, label[order], indptr), shape=shape)
        for data in (np.ones(row.size, np.float32), chance[order])
    )
    return JudgedRows(rows, stratum, relevant, chances, sure, whole=False)


# --- undecided answers

Weigh = Callable[[Ints, Ints], Floats]
"""Weights of labels in the list: from rows and labels of pairs to numbers."""
Score = Callable[[Judgements], Floats]
"""The metric of every row in `first_phase`, or one number for all."""


def extremes(
    judged: Judgements, more: sp.csr_array, weigh: Weigh, score: Score
) -> tuple[Judgements, Judgements]:
    """Return the judgements with undecided answers taken so that a metric is least, and most.

    Parameters
    ----------
    judged : Judgements
    more : csr_array
        Labels of rows of which nothing is decided, as `offered` makes it.
    weigh : function of rows and labels
    score : function of judgements

    Returns
    -------
    (Judgements, Judgements)
        Without anything undecided.
    """
    unit, label = _open(judged, more)
    rows = judged.sample.rows[unit]
    none = _taken(judged, unit[:0], label[:0])
    at_none = score(none)
    group = np.zeros(unit.size, dtype=np.int64)
    if at_none.size > 1:
        position = np.empty(judged.sample.shape[0], dtype=np.int64)
        chosen = judged.sample.first_phase[0]
        position[chosen] = np.arange(chosen.size)
        group = position[rows]
    weight = weigh(rows, label)
    ends = []
    for side in (-1, 1):
        best, limit = side * at_none, np.full(at_none.size, np.inf)
        for t in np.unique(side * weight)[::-1].tolist():
            mine = side * weight >= t
            value = side * score(_taken(judged, unit[mine], label[mine]))
            better = value > best
            best, limit = np.where(better, value, best), np.where(better, t, limit)
        mine = side * weight >= limit[group]
        ends.append(_taken(judged, unit[mine], label[mine]))
    return ends[0], ends[1]


def offered(judged: Judgements, labels: sp.csr_array, lists: Sequence[TopK]) -> sp.csr_array:
    """Return labels that may apply to rows of which nothing is decided: observed or predicted.

    Parameters
    ----------
    judged : Judgements
    labels : csr_array of shape (n, L)
        Observed.
    lists : sequence of TopK
        Predictions of all rows.

    Returns
    -------
    csr_array of the shape of `judged.relevant`
        Of the judged rows that are unsure; empty in others.
    """
    m, width = judged.n_judged, labels.shape[1] + judged.unlisted
    if judged.unsure is None or not judged.unsure.any():
        return sp.csr_array((m, width))
    unit = np.flatnonzero(judged.unsure)
    mine = judged.sample.rows[unit]
    shown = labels[mine].tocoo()
    rows, columns = [unit[shown.row]], [shown.col]
    for each in lists:
        row, label, _ = each.take(mine).pairs()
        rows, columns = [*rows, unit[row]], [*columns, label]
    pairs = np.concatenate(rows), np.concatenate(columns)
    return sp.csr_array((np.ones(pairs[0].size), pairs), shape=(m, width))


def _open(judged: Judgements, more: sp.csr_array) -> tuple[Ints, Ints]:
    """Return unit and label of every undecided decision."""
    undecided, sample = judged.undecided, judged.sample
    if not isinstance(undecided, sp.csr_array):
        unit = np.flatnonzero(judged.open_units)
        return unit, sample.pair_labels[unit]
    pattern = sp.csr_array(undecided + more)
    return entry_rows(pattern), pattern.indices.astype(np.int64)


def _taken(judged: Judgements, unit: Ints, label: Ints) -> Judgements:
    """Return judgements in which these undecided labels are relevant, and the others are not."""
    relevant = judged.relevant
    if isinstance(relevant, sp.csr_array):
        more = sp.csr_array((np.ones(unit.size, np.float32), (unit, label)), shape=relevant.shape)
        both = sp.csr_array(relevant + more)
        both.data[:] = 1
        relevant = both
    else:
        relevant = relevant.copy()
        relevant[unit] = 1.0
    return replace(judged, relevant=relevant, undecided=None, unsure=None)


def joined(least: Estimate, most: Estimate, questions: int) -> Estimate:
    """Join the estimates at both extremes of what is undecided.

    Parameters
    ----------
    least, most : Estimate
        Of the same metric, measured.
    questions : int
        How many rows or pairs are undecided.

    Returns
    -------
    Estimate
        `details["undecided"]` says how many, `undecided_low` and `undecided_high` what they span.
    """
    worse = max(least, most, key=lambda each: each.verdict.level.rank)
    if not worse.verdict.usable:
        return worse
    low, high = sorted((least.value, most.value))
    ends = (
        min(each.interval[0] for each in (least, most)),
        max(each.interval[1] for each in (least, most)),
    )
    reach = max((each.interval[1] - each.interval[0]) / 2 for each in (least, most))
    value, half = (low + high) / 2, (ends[1] - ends[0]) / 2
    error = max(each.standard_error for each in (least, most)) + (high - low) / 2
    span = {"undecided": questions, "undecided_low": low, "undecided_high": high}
    about = {**worse.verdict.details, **span, "half_width": half}
    verdict = replace(worse.verdict, details=about)
    if high - low > reach:
        verdict = Verdict(Level.DOUBTFUL, Reason.UNDECIDED, Advice.DECIDE, about)
    elif verdict.level is Level.MEASURED and too_wide(
        half, value, METRICS[split(least.metric)[0]].at_most, measured=True
    ):
        verdict = Verdict(Level.WIDE, Reason.AUDITED, Advice.LARGER_AUDIT, about)
    both = [each.details["alone"] for each in (least, most)]
    plain = [(both[0][0] + both[1][0]) / 2, min(b[1] for b in both), max(b[2] for b in both)]
    details = {**worse.details, **span, "alone": plain}
    return replace(
        worse, value=value, standard_error=error, interval=ends, details=details, verdict=verdict
    )


# --- what was judged


def place_weights(top: TopK, rows: Integers, labels: Integers, k: int, metric: str) -> Floats:
    """Return 1, or the discount for DCG, for pairs among the first k of their row; else 0."""
    match = top.labels[rows, :k] == np.asarray(labels)[:, None]
    return np.asarray(match @ worth(match.shape[1], metric), dtype=np.float64)


def worth(k: int, metric: str) -> Floats:
    """Return the weight of a relevant pair at each of k places."""
    return 1 / np.log2(2 + np.arange(k)) if metric == "DCG" else np.ones(k)


def uncovered(judged: Judgements) -> dict[str, Any]:
    """Return the parts of the rows or pairs that have no answer at all; of pairs, if any has none.

    Parameters
    ----------
    judged : Judgements

    Returns
    -------
    dict
        `parts` in words, how many are `unjudged`, `of` how many, and their `unit`.
    """
    sample, strata = judged.sample, judged.sample.strata
    if sample.within is not None and sample.within.unjudged:
        return {"parts": "pairs of one probability", "unjudged": sample.within.unjudged,
                "of": len(sample.rows) + judged.unanswered, "unit": "drawn pairs"}  # fmt: skip
    of_pairs = sample.design is Design.PAIRS
    if not sample.uncovered or (of_pairs and not judged.unanswered):  # the plan left them out
        return {}
    numbers = ", ".join(str(h + 1) for h in sample.uncovered)
    return {
        "parts": f"stratum {numbers} of {len(strata)}",
        "unjudged": sum(strata[h].size for h in sample.uncovered),
        "of": sum(each.size for each in strata),
        "unit": "pairs" if of_pairs else "rows",
    }


def refuse_uncovered(judged: Judgements) -> None:
    """Raise where a part of the rows or pairs has no answer at all."""
    part = uncovered(judged)
    if part:
        verdict = Verdict(Level.UNUSABLE, Reason.PART_NOT_JUDGED, Advice.JUDGE_REST, part)
        raise ValueError(f"{verdict.why}.")
