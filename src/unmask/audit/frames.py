"""Frames: everything that could be judged, cut into strata from which units are drawn.

Rows are cut by their predicted size, the sum of the chances of their predictions. Pairs are cut by
where they stand: among the first k of a system ("top"), further down a list ("listed"), or nowhere
("far": cut by how frequent labels are); "top" and "listed" also by the chance to be relevant.
The far pairs are most of all n · L, so they are never listed, only drawn.

Observed labels enter as totals, and as pairs that need no judging; a row or an unobserved pair is
never chosen by its own observed labels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from unmask._typing import Bools, Floats, Ints, LabelsLike
from unmask.arrays import TopK, checks, entry_rows, fingerprint, listed_keys
from unmask.data.judgements import StratumKind
from unmask.propensity import calibration

FEW = 1 << 14  # so many pairs are listed rather than drawn until enough are new
FAR_GROUPS, SCORE_BINS = 10, 6
UNSEEN = 0.5
"""How many rows more than observed a label is supposed to have far from all lists: a label that
nobody recorded may be missing as well."""


@dataclass(frozen=True, eq=False)
class PairFrame:
    """Pairs in strata: those of `keys` (row · L + label) are listed, far ones are not.

    Parameters
    ----------
    shape : (int, int)
        Rows and labels.
    keys, stratum : integers of shape (N,)
        Listed pairs, rising, and the stratum of each.
    kinds, sizes, rates : one per stratum
        What it is, how many pairs it has, and which share of them is expected to be relevant.
    far_labels : list of integer arrays
        The labels of each far stratum, which are the last strata.
    not_far : integers, rising
        Keys of all pairs that are in no far stratum.
    """

    shape: tuple[int, int]
    keys: Ints
    stratum: Ints
    kinds: tuple[StratumKind, ...]
    sizes: Ints
    rates: Floats
    far_labels: tuple[Ints, ...]
    not_far: Ints

    def stratum_of(self, keys: Ints) -> Ints:
        """The stratum of pairs by key; −1 for those that need no judging."""
        place = np.minimum(np.searchsorted(self.keys, keys), max(self.keys.size - 1, 0))
        made = np.full(keys.size, -1, dtype=np.int64)
        if self.keys.size:
            made = np.where(self.keys[place] == keys, self.stratum[place], made)
        of_label = np.full(self.shape[1], -1, dtype=np.int64)
        for position, labels in enumerate(self.far_labels):
            of_label[labels] = len(self.kinds) - len(self.far_labels) + position
        is_far = ~contains(self.not_far, keys)
        return np.where(is_far, of_label[keys % self.shape[1]], made)

    def draw(self, counts: Ints, without: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """`counts[h]` pairs of every stratum, none of them in `without`: keys and strata."""
        first_far = len(self.kinds) - len(self.far_labels)
        without = np.sort(without)
        taken = np.union1d(self.not_far, without) if without.size else self.not_far
        keys, strata = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for stratum in np.flatnonzero(counts).tolist():
            count = int(counts[stratum])
            if stratum < first_far:
                members = self.keys[self.stratum == stratum]
                members = members[~contains(without, members)]
                drawn = rng.choice(members, count, replace=False)
            else:
                labels = self.far_labels[stratum - first_far]
                drawn = self._draw_far(labels, count, taken, rng)
            keys.append(drawn)
            strata.append(np.full(count, stratum))
        order = rng.permutation(int(counts.sum()))
        return np.concatenate(keys)[order], np.concatenate(strata)[order]

    def _draw_far(self, labels: Ints, count: int, taken: Ints, rng: np.random.Generator) -> Ints:
        """By listing what there is, or by drawing until enough are new."""
        n, width = self.shape
        if n * labels.size <= 8 * count or n * labels.size <= FEW:
            everything = (np.arange(n)[:, None] * width + labels).ravel()
            left = everything[~contains(taken, everything)]
            return np.asarray(rng.choice(left, count, replace=False))
        drawn = np.zeros(0, dtype=np.int64)
        while drawn.size < count:
            new = rng.integers(n, size=2 * count) * width + rng.choice(labels, 2 * count)
            both = np.r_[drawn, new[~contains(taken, new)]]
            _, first = np.unique(both, return_index=True)
            drawn = both[np.sort(first)]
        return drawn[:count]


def contains(ordered: Ints, keys: Ints) -> Bools:
    """Which of the keys are in a rising array.

    >>> contains(np.array([2, 5, 7]), np.array([5, 6, 9]))
    array([ True, False, False])
    """
    if not ordered.size:
        return np.zeros(keys.size, dtype=bool)
    place = np.minimum(np.searchsorted(ordered, keys), ordered.size - 1)
    return np.asarray(ordered[place] == keys)


def pair_frame(
    systems: Sequence[TopK],
    labels: sp.csr_array,
    p: Floats,
    *,
    k: int,
    observed_free: bool,
) -> PairFrame:
    """All pairs that could be judged, in strata.

    Parameters
    ----------
    systems : sequence of TopK
        The union of their lists is what is listed.
    labels : csr_array of shape (n, L), validated
        Observed labels.
    p : floats of shape (L,)
        Propensities, or a guess at them: by them the chances to be missing are guessed.
    k : int
        Places of each list that are "top".
    observed_free : bool
        Whether observed pairs are taken as true, and left out.

    Returns
    -------
    PairFrame
    """
    width = labels.shape[1]
    observed = keys_of(labels)
    chance = listed_chances(systems, labels, p)
    listed = keys_of(chance)
    firsts = np.sort(np.concatenate([listed_keys(top, k, width) for top in systems]))
    in_top = contains(firsts, listed)
    missing = _missing(chance, p)
    unseen = ~contains(observed, listed)
    parts = [
        (StratumKind.TOP, listed[unseen & in_top], missing[unseen & in_top]),
        (StratumKind.LISTED, listed[unseen & ~in_top], missing[unseen & ~in_top]),
    ]
    if not observed_free:
        top = contains(listed[in_top], observed)
        parts += [
            (StratumKind.OBSERVED_TOP, observed[top], np.full(int(top.sum()), 0.95)),
            (StratumKind.OBSERVED, observed[~top], np.full(int((~top).sum()), 0.95)),
        ]
    bins = [(kind, keys, rate, _bins(rate)) for kind, keys, rate in parts if keys.size]
    unlisted = observed[~contains(listed, observed)]
    return _assembled(labels, bins, np.union1d(listed, observed), _far_counts(unlisted, p, width))


def _assembled(
    labels: sp.csr_array,
    parts: list[tuple[StratumKind, Ints, Floats, Ints]],
    not_far: Ints,
    far_counts: Floats,
) -> PairFrame:
    """The frame of listed parts and of what is far, where `far_counts` labels may be missing."""
    n, width = labels.shape
    kinds: list[StratumKind] = []
    keys, stratum, rates = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0)]
    for kind, members, rate, bins in parts:
        keys.append(members)
        stratum.append(bins + len(kinds))
        rates.append(np.bincount(bins, rate) / np.bincount(bins))
        kinds += [kind] * int(bins.max() + 1)
    listed, order = np.unique(np.concatenate(keys), return_index=True)
    of_listed = np.concatenate(stratum)[order]
    groups = _far_groups(labels)
    not_far_labels = np.bincount(not_far % width, minlength=width)
    far_sizes = [int(n * group.size - not_far_labels[group].sum()) for group in groups]
    far_rates = [
        min(0.5, far_counts[group].sum() / max(size, 1))
        for group, size in zip(groups, far_sizes, strict=True)
    ]
    keep = [i for i, size in enumerate(far_sizes) if size > 0]
    return PairFrame(
        (n, width),
        listed,
        of_listed,
        (*kinds, *(StratumKind.FAR for _ in keep)),
        np.r_[np.bincount(of_listed, minlength=len(kinds)), [far_sizes[i] for i in keep]].astype(
            np.int64
        ),
        np.concatenate([*rates, [far_rates[i] for i in keep]]),
        tuple(groups[i] for i in keep),
        not_far,
    )


def listed_chances(systems: Sequence[TopK], labels: sp.csr_array, p: Floats | None) -> sp.csr_array:
    """The chance of every listed pair to be true, the largest of any system."""
    largest = calibration.chances(systems[0], labels, p)
    for top in systems[1:]:
        largest = sp.csr_array(largest.maximum(calibration.chances(top, labels, p)))
    largest.sort_indices()
    return largest


def row_strata(systems: Sequence[TopK], labels: sp.csr_array, count: int) -> Ints:
    """The stratum of every row, by its predicted size: `count` parts of equal size."""
    predicted = np.asarray(listed_chances(systems, labels, None).sum(axis=1)).ravel()
    order = np.argsort(predicted, kind="stable")
    stratum = np.empty(order.size, dtype=np.int64)
    stratum[order] = np.arange(order.size) * count // max(order.size, 1)
    return stratum


def keys_of(matrix: sp.csr_array) -> Ints:
    """Keys of the stored entries of a matrix with sorted indices, rising."""
    rows = entry_rows(matrix)
    return np.asarray(rows * matrix.shape[1] + matrix.indices)


def data_fingerprint(systems: Sequence[TopK], labels: LabelsLike) -> str:
    """What tells labels and predictions from others; a plan keeps that of its own.

    Parameters
    ----------
    systems : sequence of TopK
        Predictions, in the order in which the plan was given them.
    labels : (n, L) matrix of 0 and 1
        The observed labels.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If labels are not 0 and 1.

    Examples
    --------
    >>> from unmask import TopK, audit
    >>> top, labels = TopK([[0], [1], [0]], [[1.0]] * 3), [[1, 0], [0, 1], [0, 0]]
    >>> plan = audit.plan(top, labels, budget=2)
    >>> data_fingerprint([top], labels) == plan.fingerprint
    True
    """
    parts = [fingerprint(top, top.k) for top in systems]
    return "-".join([labels_fingerprint(checks.labels(labels)), *parts])


def labels_fingerprint(labels: sp.csr_array) -> str:
    """A short text that is the same for the same observed labels."""
    keys = np.ascontiguousarray(keys_of(labels), dtype="<i8")
    return hashlib.sha256(f"{labels.shape}".encode() + keys.tobytes()).hexdigest()[:16]


def allocate(sizes: Ints, importance: Floats, budget: int, least: int) -> Ints:
    """How many to draw of every stratum: Neyman's rule, none above its size.

    Proportional to size × importance, with at least `least` of every stratum that matters.

    >>> allocate(np.array([10, 1000, 50]), np.array([0.5, 0.1, 0.0]), 40, least=5)
    array([ 5, 35,  0])
    """
    worth = sizes * importance
    counts = np.where(worth > 0, np.minimum(sizes, least), 0)
    while counts.sum() > budget:  # a budget below the least: take turns
        counts[np.argmax(counts)] -= 1
    open_: Bools = (worth > 0) & (counts < sizes)
    left = budget - int(counts.sum())
    while left > 0 and open_.any():
        goal = (counts.sum() + left) * worth / worth[worth > 0].sum()
        short = np.where(open_, np.maximum(goal - counts, 0), 0.0)
        if not short.any():
            short = np.where(open_, worth, 0.0)
        share = np.minimum(np.floor(left * short / short.sum()), sizes - counts).astype(np.int64)
        if not share.any():
            share[np.argmax(short)] = 1
        counts = counts + share
        left -= int(share.sum())
        open_ &= counts < sizes
    return counts


def _missing(chance: sp.csr_array, p: Floats) -> Floats:
    """P(relevant | unobserved) of listed pairs: r (1 − p) / (1 − p r)."""
    own = p[chance.indices]
    r = np.minimum(chance.data, 1 - 1e-9)
    return np.asarray(np.maximum(r * (1 - own) / (1 - own * r), calibration.LEAST))


def _far_counts(unlisted: Ints, p: Floats, width: int) -> Floats:
    """How many far labels may be missing, by label: (1 − p)/p for an observed one, and a few."""
    counts = np.bincount(unlisted % width, minlength=width) + UNSEEN
    return np.asarray(counts * np.maximum(1 - p, calibration.LEAST) / p)


def _bins(rate: Floats) -> Ints:
    """Bins of equal size by rising rate, equal rates together."""
    edges = np.unique(np.quantile(rate, np.linspace(0, 1, SCORE_BINS + 1)[1:-1]))
    return np.unique(np.searchsorted(edges, rate, side="left"), return_inverse=True)[1]


def _far_groups(labels: sp.csr_array) -> list[Ints]:
    """Labels by how often they are observed, cut where the roots of their counts add up alike.

    (Dalenius & Hodges: the rule that makes the variance of a stratified total least.)
    """
    count = np.bincount(labels.indices, minlength=labels.shape[1])
    order = np.argsort(-count, kind="stable")
    total = np.cumsum(np.sqrt(count[order] + 0.5))
    part = np.minimum((total / total[-1] * FAR_GROUPS).astype(np.int64), FAR_GROUPS - 1)
    return [np.sort(order[part == group]) for group in range(FAR_GROUPS) if (part == group).any()]
