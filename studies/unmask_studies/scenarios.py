"""Ways in which labels go missing: as corrections assume, and in twenty ways that they do not.

A scenario takes true labels of some rows and a propensity per label, and returns the observed
labels with the propensities that somebody would state. Where a scenario is about dependence, the
chance of an entry is expit(a_j + shift_ij) with a_j such that label j is kept in a share p_j of its
rows: marginal propensities are right, and what is wrong cannot be seen in them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, logit
from scipy.stats import norm

from unmask._typing import Bools, Floats, Ints
from unmask.arrays.checks import entry_rows
from unmask_studies.data import counts_of

SLOPE = 1.5  # change of the logit of being kept with one standard deviation of its cause
CAP = 3
NEVER_ANNOTATED = 0.2
DRIFT = 0.4  # standard deviation of the error of ln p where frequencies have drifted


@dataclass(frozen=True)
class Setting:
    """The rows that a scenario works on.

    Parameters
    ----------
    true_labels : csr_array of shape (n, L)
    p : (L,) floats in (0, 0.5]
        The propensities by which labels go missing.
    scores : (nnz,) floats
        The model's score of every true label, in the order of `true_labels.indices`.
    parents : (L,) ints
        A more frequent label that stands above each label, or the label itself.
    rng : Generator
    """

    true_labels: sp.csr_array
    p: Floats
    scores: Floats
    parents: Ints
    rng: np.random.Generator

    @cached_property
    def rows(self) -> Ints:
        """The row of every true label."""
        return entry_rows(self.true_labels)

    @cached_property
    def labels(self) -> Ints:
        """The label of every true label."""
        return np.asarray(self.true_labels.indices)

    @cached_property
    def chances(self) -> Floats:
        """The propensity of every true label."""
        return np.asarray(self.p[self.labels])

    def draw(self, chances: Floats) -> Bools:
        """Return which true labels are kept, independently, with these chances."""
        return self.rng.random(self.labels.size) < chances

    def keep(self, kept: Bools) -> Masked:
        """Return what is left if these true labels are kept, with the propensities as they are."""
        observed = self.true_labels.copy()
        observed.data = kept.astype(np.float32)
        observed.eliminate_zeros()
        return Masked(observed, self.p, np.arange(observed.shape[0]))

    def depending(self, shift: Floats) -> Masked:
        """Return masks whose chance depends on `shift`, marginals right."""
        return self.keep(self.draw(calibrated(self.labels, self.p, shift)))

    def with_realised_shares(self, kept: Bools) -> Masked:
        """Return these true labels, and as propensities the share of every label that was kept."""
        total = counts_of(self.true_labels)
        share = np.bincount(self.labels, kept, self.p.size) / np.maximum(total, 1)
        pooled = (share * total + 4 * kept.mean()) / (total + 4)  # rare labels: towards all labels
        return replace(self.keep(kept), stated=np.clip(pooled, 0.02, 1.0))


@dataclass(frozen=True)
class Masked:
    """Observed labels, stated propensities, and which rows of the setting they are."""

    observed: sp.csr_array
    stated: Floats
    rows: Ints


Scenario = Callable[[Setting], Masked]


def right(setting: Setting) -> Masked:
    """Hide independently, with the stated propensities."""
    return setting.keep(setting.draw(setting.chances))


def times(factor: float) -> Scenario:
    """State the true propensities times a factor."""
    return lambda setting: replace(right(setting), stated=np.minimum(1.0, factor * setting.p))


def _permuted(setting: Setting) -> Masked:
    """State the propensities of other labels."""
    return replace(right(setting), stated=setting.rng.permutation(setting.p))


def _drift(setting: Setting) -> Masked:
    """State propensities from frequencies that have changed since."""
    factor = np.exp(DRIFT * setting.rng.standard_normal(setting.p.size))
    return replace(right(setting), stated=np.clip(setting.p * factor, 0.02, 1.0))


def _by_size(sign: int) -> Scenario:
    """Let long rows lose more (−1) or less (+1) of their labels."""

    def scenario(setting: Setting) -> Masked:
        size = np.log(np.diff(setting.true_labels.indptr)[setting.rows])
        return setting.depending(sign * SLOPE * _standardized(size))

    return scenario


def _by_topic(setting: Setting) -> Masked:
    """Keep fewer labels in half of the topics, a row's topic being its most frequent label."""
    topic = np.zeros(setting.true_labels.shape[0], dtype=np.int64)
    order = np.argsort(counts_of(setting.true_labels)[setting.labels], kind="stable")
    topic[setting.rows[order]] = setting.labels[order]  # the most frequent one is written last
    better = setting.rng.random(setting.p.size) < 0.5
    return setting.depending(SLOPE * np.where(better[topic[setting.rows]], 1.0, -1.0))


def by_score(slope: float) -> Scenario:
    """Keep more, or with a negative slope less, of what the model finds obvious."""
    return lambda setting: setting.depending(slope * _standardized(setting.scores))


def _compete(setting: Setting) -> Masked:
    """Let labels of a row compete in pairs: where one is kept the other tends to be lost."""
    place = np.arange(setting.labels.size) - setting.true_labels.indptr[setting.rows]
    uniform = setting.rng.random(setting.labels.size)
    second = place % 2 == 1
    uniform[second] = 1 - uniform[np.flatnonzero(second) - 1]
    return setting.keep(uniform < setting.chances)


def _hierarchy(setting: Setting) -> Masked:
    """Keep the true label above a kept one; state the shares that are kept."""
    kept = setting.draw(setting.chances)
    keys = setting.rows * setting.p.size + setting.labels
    above = setting.rows[kept] * setting.p.size + setting.parents[setting.labels[kept]]
    return setting.with_realised_shares(kept | np.isin(keys, above))


def _never_annotated(setting: Setting) -> Masked:
    """Let some rows lose everything, the others less."""
    annotated = setting.rng.random(setting.true_labels.shape[0]) >= NEVER_ANNOTATED
    chances = setting.chances / (1 - NEVER_ANNOTATED) * annotated[setting.rows]
    return setting.keep(setting.draw(chances))


def _capped(setting: Setting) -> Masked:
    """Record at most three labels of a row; state the shares that are kept."""
    kept = setting.draw(setting.chances)
    order = np.lexsort((setting.rng.random(kept.size), ~kept, setting.rows))
    place = np.empty(kept.size, dtype=np.int64)
    place[order] = np.arange(kept.size) - setting.true_labels.indptr[setting.rows[order]]
    return setting.with_realised_shares(kept & (place < CAP))


def _spurious(share: float) -> Scenario:
    """Add labels that are not true, as frequent as labels are, as a share of what is observed."""

    def scenario(setting: Setting) -> Masked:
        masked, rng, (n, width) = right(setting), setting.rng, setting.true_labels.shape
        extra = round(masked.observed.nnz * share / (1 - share))
        rows = rng.integers(n, size=2 * extra)
        labels = rng.choice(setting.labels, size=2 * extra)
        wrong = ~np.isin(rows * width + labels, setting.rows * width + setting.labels)
        entries = np.unique(np.column_stack([rows, labels])[wrong], axis=0)
        entries = rng.permutation(entries)[:extra]
        ones = np.ones(len(entries), np.float32)
        added = sp.csr_array((ones, (entries[:, 0], entries[:, 1])), (n, width))
        return replace(masked, observed=sp.csr_array(masked.observed + added))

    return scenario


def _non_empty(setting: Setting) -> Masked:
    """Leave rows that lost all their labels out of the file."""
    masked = right(setting)
    left = np.flatnonzero(np.diff(masked.observed.indptr) > 0)
    return Masked(sp.csr_array(masked.observed[left]), masked.stated, left)


def _duplicated(setting: Setting) -> Masked:
    """Put every row of the first half there twice, and leave the second half out."""
    masked = right(setting)
    twice = np.repeat(np.arange(masked.observed.shape[0] // 2), 2)
    return Masked(sp.csr_array(masked.observed[twice]), masked.stated, twice)


def effort(correlation: float) -> Scenario:
    """Keep or lose labels of a row together: a Gaussian effect of the row, marginals right."""

    def scenario(setting: Setting) -> Masked:
        row = setting.rng.standard_normal(setting.true_labels.shape[0])[setting.rows]
        own = setting.rng.standard_normal(setting.labels.size)
        effect = np.sqrt(correlation) * row + np.sqrt(1 - correlation) * own
        return setting.keep(effect < norm.ppf(setting.chances))

    return scenario


SCENARIOS: dict[str, Scenario] = {
    "right": right,
    "p × 0.5 stated": times(0.5),
    "p × 0.7 stated": times(0.7),
    "p × 1.4 stated": times(1.4),
    "p × 2 stated": times(2.0),
    "permuted": _permuted,
    "frequency drift": _drift,
    "long rows lose more": _by_size(-1),
    "long rows lose less": _by_size(1),
    "by topic": _by_topic,
    "kept more at high scores": by_score(SLOPE),
    "kept less at high scores": by_score(-SLOPE),
    "labels compete in pairs": _compete,
    "hierarchy closed": _hierarchy,
    "20 % of rows never annotated": _never_annotated,
    "at most 3 labels": _capped,
    "2 % spurious": _spurious(0.02),
    "10 % spurious": _spurious(0.1),
    "non-empty rows only": _non_empty,
    "duplicated rows": _duplicated,
    "row effort 0.3": effort(0.3),
    "row effort 0.8": effort(0.8),
}


def parents_of(labels: sp.csr_array) -> Ints:
    """Return for every label the more frequent label most often beside it, or itself."""
    together = sp.csr_array(labels.T @ labels).tocoo()
    counts = counts_of(labels)
    above = counts[together.col] > counts[together.row]
    child, parent, times = together.row[above], together.col[above], together.data[above]
    parents = np.arange(labels.shape[1])
    order = np.argsort(times, kind="stable")
    parents[child[order]] = parent[order]  # the most frequent companion is written last
    return parents


def calibrated(labels: Ints, p: Floats, shift: Floats) -> Floats:
    """Return chances expit(a_j + shift) of entries with the mean p_j over label j, by bisection.

    Parameters
    ----------
    labels : (e,) ints
        The label of every entry.
    p : (L,) floats in (0, 1)
    shift : (e,) floats

    Returns
    -------
    (e,) floats

    Examples
    --------
    >>> chances = calibrated(np.array([0, 0, 1]), np.array([0.4, 0.2]), np.array([1.0, -1.0, 3.0]))
    >>> float(round(chances[:2].mean(), 9)), float(round(chances[2], 9))
    (0.4, 0.2)
    """
    size = np.maximum(np.bincount(labels, minlength=p.size), 1)
    reach = np.abs(shift).max(initial=0.0) + 1
    low, high = logit(p) - reach, logit(p) + reach
    for _ in range(60):
        middle = (low + high) / 2
        average = np.bincount(labels, expit(middle[labels] + shift), p.size) / size
        low, high = np.where(average < p, middle, low), np.where(average < p, high, middle)
    return np.asarray(expit(((low + high) / 2)[labels] + shift))


def _standardized(values: Floats) -> Floats:
    spread = values.std()
    centred: Floats = values - values.mean()
    return centred / spread if spread > 0 else np.zeros_like(values)
