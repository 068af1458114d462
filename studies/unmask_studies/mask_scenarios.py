"""Ways in which labels go missing: as corrections assume, and in twenty ways that they do not.

A scenario takes true labels of some rows and a propensity per label, and returns the observed
labels with the propensities that somebody would state. Where a scenario is about dependence, the
chance of an entry is expit(a_j + shift_ij) with a_j such that label j is kept in a share p_j of its
rows: marginal propensities are right, and what is wrong cannot be seen in them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, logit
from scipy.stats import norm

from unmask._sparse import entry_rows
from unmask._typing import Bools, Floats, Ints

SLOPE = 1.5
"""How much the logit of being kept changes with a standard deviation of what it depends on."""
CAP = 3
NEVER_ANNOTATED = 0.2
DRIFT = 0.4
"""Standard deviation of the error of ln p where frequencies have drifted."""


@dataclass(frozen=True)
class Setting:
    """What a scenario works on.

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

    @property
    def rows(self) -> Ints:
        """The row of every true label."""
        return entry_rows(self.true_labels)


@dataclass(frozen=True)
class Masked:
    """What is left: observed labels, stated propensities, and which rows of the setting they are.

    Parameters
    ----------
    observed : csr_array of shape (m, L)
    stated : (L,) floats in (0, 1]
    rows : (m,) ints
        Rows of the setting, by position.
    """

    observed: sp.csr_array
    stated: Floats
    rows: Ints


Scenario = Callable[[Setting], Masked]


def _right(setting: Setting) -> Masked:
    """Independent masks with the stated propensities."""
    return _kept(setting, setting.rng.random(setting.true_labels.nnz) < _of_entries(setting))


def _times(factor: float) -> Scenario:
    """Stated propensities are the true ones times a factor."""
    return lambda setting: replace(_right(setting), stated=np.minimum(1.0, factor * setting.p))


def _permuted(setting: Setting) -> Masked:
    """Stated propensities belong to other labels."""
    return replace(_right(setting), stated=setting.rng.permutation(setting.p))


def _drift(setting: Setting) -> Masked:
    """Stated propensities come from frequencies that have changed since."""
    factor = np.exp(DRIFT * setting.rng.standard_normal(setting.p.size))
    return replace(_right(setting), stated=np.clip(setting.p * factor, 0.02, 1.0))


def _by_size(sign: int) -> Scenario:
    """Long rows lose more (−1) or less (+1) of their labels."""

    def scenario(setting: Setting) -> Masked:
        size = np.log(np.diff(setting.true_labels.indptr)[setting.rows])
        return _depending(setting, sign * SLOPE * _standardized(size))

    return scenario


def _by_topic(setting: Setting) -> Masked:
    """In half of the topics, a row's topic being its most frequent label, labels are kept less."""
    counts = np.bincount(setting.true_labels.indices, minlength=setting.p.size)
    rows, labels = setting.rows, setting.true_labels.indices
    topic = np.zeros(setting.true_labels.shape[0], dtype=np.int64)
    order = np.argsort(counts[labels], kind="stable")
    topic[rows[order]] = labels[order]  # the most frequent one is written last
    better = setting.rng.random(setting.p.size) < 0.5
    return _depending(setting, SLOPE * np.where(better[topic[rows]], 1.0, -1.0))


def by_score(slope: float) -> Scenario:
    """What the model finds obvious is kept more, or with a negative slope less, often."""
    return lambda setting: _depending(setting, slope * _standardized(setting.scores))


def _compete(setting: Setting) -> Masked:
    """Labels of a row compete in pairs: where one is kept the other tends to be lost."""
    place = np.arange(setting.true_labels.nnz) - setting.true_labels.indptr[setting.rows]
    uniform = setting.rng.random(setting.true_labels.nnz)
    second = place % 2 == 1
    uniform[second] = 1 - uniform[np.flatnonzero(second) - 1]
    return _kept(setting, uniform < _of_entries(setting))


def _hierarchy(setting: Setting) -> Masked:
    """A kept label keeps the true label above it; stated are the shares that are kept."""
    kept = setting.rng.random(setting.true_labels.nnz) < _of_entries(setting)
    width = setting.true_labels.shape[1]
    keys = setting.rows * width + setting.true_labels.indices
    above = setting.rows[kept] * width + setting.parents[setting.true_labels.indices[kept]]
    return _with_realised_shares(setting, kept | np.isin(keys, above))


def _never_annotated(setting: Setting) -> Masked:
    """Some rows lose everything, the others less."""
    annotated = setting.rng.random(setting.true_labels.shape[0]) >= NEVER_ANNOTATED
    chance = _of_entries(setting) / (1 - NEVER_ANNOTATED) * annotated[setting.rows]
    return _kept(setting, setting.rng.random(setting.true_labels.nnz) < chance)


def _capped(setting: Setting) -> Masked:
    """At most three labels of a row are recorded; stated are the shares that are kept."""
    kept = setting.rng.random(setting.true_labels.nnz) < _of_entries(setting)
    order = np.lexsort((setting.rng.random(kept.size), ~kept, setting.rows))
    place = np.empty(kept.size, dtype=np.int64)
    place[order] = np.arange(kept.size) - setting.true_labels.indptr[setting.rows[order]]
    return _with_realised_shares(setting, kept & (place < CAP))


def _spurious(share: float) -> Scenario:
    """A share of the observed labels is not true; which ones follows frequency."""

    def scenario(setting: Setting) -> Masked:
        masked, true_labels = _right(setting), setting.true_labels
        n, extra = true_labels.shape[0], round(masked.observed.nnz * share / (1 - share))
        rows = setting.rng.integers(n, size=2 * extra)
        labels = setting.rng.choice(true_labels.indices, size=2 * extra)
        wrong = ~np.isin(
            rows * true_labels.shape[1] + labels,
            setting.rows * true_labels.shape[1] + true_labels.indices,
        )
        entries = np.unique(np.column_stack([rows, labels])[wrong], axis=0)
        entries = setting.rng.permutation(entries)[:extra]
        added = sp.csr_array(
            (np.ones(len(entries), np.float32), (entries[:, 0], entries[:, 1])), true_labels.shape
        )
        return replace(masked, observed=sp.csr_array(masked.observed + added))

    return scenario


def _non_empty(setting: Setting) -> Masked:
    """Rows that lost all their labels are left out of the file."""
    masked = _right(setting)
    left = np.flatnonzero(np.diff(masked.observed.indptr) > 0)
    return Masked(sp.csr_array(masked.observed[left]), masked.stated, left)


def _duplicated(setting: Setting) -> Masked:
    """Every row of the first half stands there twice, the second half is not there."""
    masked = _right(setting)
    twice = np.repeat(np.arange(masked.observed.shape[0] // 2), 2)
    return Masked(sp.csr_array(masked.observed[twice]), masked.stated, twice)


def effort(correlation: float) -> Scenario:
    """Labels of a row are kept or lost together: a Gaussian effect of the row, marginals right."""

    def scenario(setting: Setting) -> Masked:
        row = setting.rng.standard_normal(setting.true_labels.shape[0])[setting.rows]
        own = setting.rng.standard_normal(setting.true_labels.nnz)
        effect = np.sqrt(correlation) * row + np.sqrt(1 - correlation) * own
        return _kept(setting, effect < norm.ppf(_of_entries(setting)))

    return scenario


SCENARIOS: dict[str, Scenario] = {
    "right": _right,
    "p × 0.5 stated": _times(0.5),
    "p × 0.7 stated": _times(0.7),
    "p × 1.4 stated": _times(1.4),
    "p × 2 stated": _times(2.0),
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
"""By name; `right` is how the corrections assume it."""


def parents_of(labels: sp.csr_array) -> Ints:
    """For every label the more frequent label that occurs most often with it, or itself."""
    together = sp.csr_array(labels.T @ labels).tocoo()
    counts = np.bincount(labels.indices, minlength=labels.shape[1])
    above = counts[together.col] > counts[together.row]
    child, parent, times = together.row[above], together.col[above], together.data[above]
    parents = np.arange(labels.shape[1])
    order = np.argsort(times, kind="stable")
    parents[child[order]] = parent[order]  # the most frequent companion is written last
    return parents


def calibrated(labels: Ints, p: Floats, shift: Floats) -> Floats:
    """Chances expit(a_j + shift) of entries whose mean over every label j is p_j, by bisection.

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
        mean = np.bincount(labels, expit(middle[labels] + shift), p.size) / size
        low, high = np.where(mean < p, middle, low), np.where(mean < p, high, middle)
    return np.asarray(expit(((low + high) / 2)[labels] + shift))


def _depending(setting: Setting, shift: Floats) -> Masked:
    """Masks whose chance depends on `shift`, marginals right."""
    chance = calibrated(setting.true_labels.indices, setting.p, shift)
    return _kept(setting, setting.rng.random(chance.size) < chance)


def _standardized(values: Floats) -> Floats:
    spread = values.std()
    centred: Floats = values - values.mean()
    return centred / spread if spread > 0 else np.zeros_like(values)


def _of_entries(setting: Setting) -> Floats:
    of_entries: Floats = setting.p[setting.true_labels.indices]
    return of_entries


def _kept(setting: Setting, kept: Bools) -> Masked:
    """What is left if these true labels are kept, with the propensities of the setting."""
    observed = setting.true_labels.copy()
    observed.data = kept.astype(np.float32)
    observed.eliminate_zeros()
    return Masked(observed, setting.p, np.arange(observed.shape[0]))


def _with_realised_shares(setting: Setting, kept: Bools) -> Masked:
    """As `_kept`; stated is the share of every label that was kept."""
    labels = setting.true_labels.indices
    total = np.bincount(labels, minlength=setting.p.size)
    share = np.bincount(labels, kept, setting.p.size) / np.maximum(total, 1)
    pooled = (share * total + 4 * kept.mean()) / (total + 4)  # rare labels: towards all labels
    return replace(_kept(setting, kept), stated=np.clip(pooled, 0.02, 1.0))
