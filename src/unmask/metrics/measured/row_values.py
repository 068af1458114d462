"""What a judged row says: the value of a metric, or an unbiased estimate of it from judged pairs.

A row that was judged completely has the metric itself. In a two-phase sample, "judged and relevant"
is an observation under a mask that we know, with the propensity π of the pair within its row: the
unbiased estimates of rows (`contributions`) are then right by construction.

Their variance within a row: if everything among the first k was surely judged, the metric is a
known function g of N alone, the number of true labels, and with r_s the coefficients of
Π (1 − 1/π_j + z/π_j) over the uncertain ones found, Σ_s r_s g(N₁ + s)² is unbiased for g(N)²:

    V̂ = û² − Σ_s r_s g(N₁ + s)²

is unbiased for the variance of û. Neither is of use where g has a kink, as the ideal DCG has one at
k labels: no other estimate is unbiased, but the coefficients alternate and explode. Such metrics
are bounded instead (`possible`): so many labels were found, and from k on more do not matter. V̂ is
(for recall: û² − h² ∫ (−ln t) t^(N₁−1) (1 − (1−t)/π)^n dt).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from unmask._typing import Floats, Ints
from unmask.arrays import TopK, entry_rows
from unmask.data.judgements import Judgements
from unmask.metrics.evaluation import contributions
from unmask.metrics.registry import METRICS


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

    @cached_property
    def weights(self) -> sp.csr_array:
        """1/π of every relevant pair: sums of rows are unbiased counts."""
        chance = self.chance
        return sp.csr_array((1 / chance.data, chance.indices, chance.indptr), shape=chance.shape)

    def linear_variances(self, weights: Floats) -> Floats:
        """Σ w² (1 − π)/π² of every row, for sums Σ w/π with one weight per relevant pair."""
        part = weights**2 * (1 - self.chance.data) / self.chance.data**2
        row = entry_rows(self.chance)
        return np.bincount(row, part, minlength=self.rows.size).astype(np.float64)

    def top_weights(self, top: TopK, k: int, *, discounted: bool = False) -> Floats:
        """For every relevant pair: 1 (or its discount) among the first k of its row, else 0."""
        place = np.zeros(self.relevant.shape)  # m rows are few
        row, column = np.nonzero(top.labels[self.rows, :k] >= 0)
        worth = 1 / np.log2(2 + column) if discounted else 1.0
        place[row, top.labels[self.rows[row], column]] = worth
        entry = entry_rows(self.relevant)
        return np.asarray(place[entry, self.relevant.indices])

    def surely_judged(self, top: TopK, k: int) -> bool:
        """Whether all of the first k predictions of the chosen rows were surely judged."""
        row, place = np.nonzero(top.labels[self.rows, :k] >= 0)
        keys = row * self.relevant.shape[1] + top.labels[self.rows[row], place]
        return self.whole or bool(np.isin(keys, self.sure).all())

    def values(self, top: TopK, name: str) -> Floats:
        """The metric of every row, or its unbiased estimate; (m,) floats."""
        mine = TopK(top.labels[self.rows], top.scores[self.rows])
        if self.whole:
            return contributions(mine, self.relevant, metrics=[name])[name, "vanilla"]
        values = contributions(
            mine, self.relevant, self.chance, metrics=[name], estimators=["unbiased"]
        )
        return values[name, "unbiased"]

    def possible(self, top: TopK, metric: str, k: int) -> Floats:
        """The metric of every row if 0 … k more of its labels are relevant, (m, k + 1).

        The first k predictions were surely judged, so that it depends on the number alone.
        """
        reference = METRICS[metric].reference
        if reference is None:
            raise ValueError(f"internal error: {metric} has no value of a single row.")
        made = np.empty((self.rows.size, k + 1))
        more = self.relevant.shape[1] + np.arange(k)
        for i, (row, found) in enumerate(
            zip(self.rows, np.split(self.relevant.indices, self.relevant.indptr[1:-1]), strict=True)
        ):
            places = top.labels[row, :k]
            ranking = places[places >= 0].astype(np.int64)
            made[i] = [reference(ranking, np.r_[found, more[:count]], k) for count in range(k + 1)]
        return made

    def variances(self, top: TopK, metric: str, k: int) -> Floats | None:
        """V̂ of every row; None where the first k are not surely judged."""
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
        places = top.labels[self.rows[i], :k]
        ranking = places[places >= 0].astype(np.int64)
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
    """The coefficients of Π_j (1 − a_j + z a_j), those of rising powers of z.

    >>> coefficients(np.array([2.0, 2.0]))
    array([ 1., -4.,  4.])
    """
    made = np.ones(1)
    for a in inverse:
        made = np.convolve(made, [1 - a, a])
    return made


def judged_rows(judged: Judgements, labels: sp.csr_array) -> JudgedRows:
    """The chosen rows of an audit with what is known of them.

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
        shown = labels[rows].tocoo()
        sure = np.r_[sure, shown.row.astype(np.int64) * width + shown.col]
        row, label = np.r_[row, shown.row], np.r_[label, shown.col]
        chance = np.r_[chance, np.ones(shown.nnz)]
    order = np.lexsort((label, row))
    indptr = np.searchsorted(row[order], np.arange(rows.size + 1))
    shape = (rows.size, sample.shape[1])
    relevant, chances = (
        sp.csr_array((data, label[order], indptr), shape=shape)
        for data in (np.ones(row.size, np.float32), chance[order])
    )
    return JudgedRows(rows, stratum, relevant, chances, sure, whole=False)
