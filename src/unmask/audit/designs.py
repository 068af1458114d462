"""Designs: everything that could be judged, cut into strata, and how a sample of it is drawn.

`question_of` checks what a plan is made from and fills in the choices that were left open; `draw`
draws a sample of the chosen design, or adds to one.

**Strata.** Rows are cut by their predicted size, the sum of the chances of their predictions. Pairs
are cut by where they stand: among the first k of a system ("top"), further down a list ("listed"),
or nowhere ("far": cut by how frequent labels are); "top" and "listed" also by the chance to be
relevant. The far pairs are most of all n · L, so they are never listed, only drawn.

Observed labels enter as totals, and as pairs that need no judging; a row or an unobserved pair is
never chosen by its own observed labels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypedDict

import numpy as np
import scipy.sparse as sp

from unmask._messages import setting
from unmask._typing import Bools, Floats, Ints, LabelsLike, PropensityLike, ScoresLike
from unmask.arrays import (
    LabelSets,
    TopK,
    checks,
    fingerprint,
    listed_keys,
    pair_keys,
    stored_in,
)
from unmask.data.judgements import (
    IN_TOP,
    OBSERVED,
    Design,
    Sample,
    Stratum,
    StratumKind,
    WithinRows,
)
from unmask.metrics.registry import LINEAR, MICRO, split_measured
from unmask.metrics.request import as_top
from unmask.propensity import calibration, jain

FEW = 1 << 14  # so many pairs are listed rather than drawn until enough are new
FAR_GROUPS, SCORE_BINS = 10, 6
UNSEEN = 0.5
"""Rows more than observed that a label is supposed to have far from all lists: a label that
nobody recorded may be missing as well."""
HEAD, TAIL, LEAST_TAIL = 50, 0.3, 0.2
WIDTH = 100
"""Places that are taken of a score matrix."""
LEAST_ROWS = 5
"""Without metrics, pairs within fewer rows than this are not planned."""
LEAST_PAIRS = 5
SPURIOUS_WORTH = 0.25
"""Weight of an error of the spurious rate where observed pairs are sampled; metrics weigh 1."""
ROW_STRATA = 4

System: TypeAlias = "TopK | LabelSets | ScoresLike"
Predictions: TypeAlias = "System | Mapping[str, System]"
"""One system, or several by name: top-k lists, predicted sets or score matrices."""
OF_SETS = {"rows": ("sample-P", "sample-R", "sample-F1"), "pairs": MICRO}
"""Metrics of predicted sets that are measured by default."""


# --- strata


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
        """Return the stratum of pairs by key; −1 for those that need no judging."""
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
        """Draw `counts[h]` pairs of every stratum, none of them in `without`: keys and strata."""
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
        """Draw by listing what there is, or until enough are new."""
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
    """Return which of the keys are in a rising array.

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
    """Cut all pairs that could be judged into strata.

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
    observed = pair_keys(labels)
    chance = listed_chances(systems, labels, p)
    listed = pair_keys(chance)
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
    """Return the frame of listed parts and of far pairs, of which `far_counts` may be missing."""
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
    """Return the chance of every listed pair to be true, the largest of any system."""
    largest = calibration.chances(systems[0], labels, p)
    for top in systems[1:]:
        largest = sp.csr_array(largest.maximum(calibration.chances(top, labels, p)))
    largest.sort_indices()
    return largest


def row_strata(systems: Sequence[TopK], labels: sp.csr_array, count: int) -> Ints:
    """Return the stratum of every row, by its predicted size: `count` parts of equal size."""
    predicted = np.asarray(listed_chances(systems, labels, None).sum(axis=1)).ravel()
    order = np.argsort(predicted, kind="stable")
    stratum = np.empty(order.size, dtype=np.int64)
    stratum[order] = np.arange(order.size) * count // max(order.size, 1)
    return stratum


def data_fingerprint(systems: Sequence[TopK], labels: LabelsLike) -> str:
    """Return a text that tells labels and predictions from others; a plan keeps its own.

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
    """Return a short text that is the same for the same observed labels."""
    keys = np.ascontiguousarray(pair_keys(labels), dtype="<i8")
    return hashlib.sha256(f"{labels.shape}".encode() + keys.tobytes()).hexdigest()[:16]


def allocate(sizes: Ints, importance: Floats, budget: int, least: int) -> Ints:
    """Return how many to draw of every stratum: Neyman's rule, none above its size.

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
    """Return P(relevant | unobserved) of listed pairs: r (1 − p) / (1 − p r)."""
    own = p[chance.indices]
    r = np.minimum(chance.data, 1 - 1e-9)
    return np.asarray(np.maximum(r * (1 - own) / (1 - own * r), calibration.LEAST))


def _far_counts(unlisted: Ints, p: Floats, width: int) -> Floats:
    """Return how many far labels may be missing: (1 − p)/p for an observed one, and a few."""
    counts = np.bincount(unlisted % width, minlength=width) + UNSEEN
    return np.asarray(counts * np.maximum(1 - p, calibration.LEAST) / p)


def _bins(rate: Floats) -> Ints:
    """Return bins of equal size by rising rate, equal rates together."""
    edges = np.unique(np.quantile(rate, np.linspace(0, 1, SCORE_BINS + 1)[1:-1]))
    return np.unique(np.searchsorted(edges, rate, side="left"), return_inverse=True)[1]


def _far_groups(labels: sp.csr_array) -> list[Ints]:
    """Group labels by how often they are observed, where roots of their counts add up alike.

    (Dalenius & Hodges: the rule that makes the variance of a stratified total least.)
    """
    count = np.bincount(labels.indices, minlength=labels.shape[1])
    order = np.argsort(-count, kind="stable")
    total = np.cumsum(np.sqrt(count[order] + 0.5))
    part = np.minimum((total / total[-1] * FAR_GROUPS).astype(np.int64), FAR_GROUPS - 1)
    return [np.sort(order[part == group]) for group in range(FAR_GROUPS) if (part == group).any()]


# --- samples


class PlanOptions(TypedDict, total=False):
    """Further choices of `plan`."""

    design: Literal["simple", "stratified", "pairs", "two-phase"]
    """By default simple rows; for pairs what the metrics need."""
    observed: Literal["free", "sampled"]
    """Pairs: take observed ones as true ("free", the default), or judge a part of them, too."""
    head: int
    """Two-phase: places of every list that are surely judged; 50 by default."""
    tail: float
    """Two-phase: the probability of all other pairs of a chosen row, at least 0.2; 0.3."""
    strata: int
    """Strata of rows: 4 for the stratified design, else 1."""
    expect: bool
    """True: say which intervals to expect, which takes a moment on much data."""


@dataclass(frozen=True, eq=False)
class Question:
    """The checked material of a plan."""

    systems: tuple[TopK, ...]
    labels: sp.csr_array
    p: Floats
    metrics: tuple[str, ...]
    k: int
    options: PlanOptions

    @property
    def design(self) -> Design:
        """The design by which units are drawn."""
        return Design(self.options["design"])

    @property
    def fingerprint(self) -> str:
        """The fingerprint of labels and predictions."""
        return data_fingerprint(self.systems, self.labels)


def question_of(
    predictions: Predictions,
    labels: LabelsLike,
    propensity: PropensityLike | None,
    metrics: Sequence[str] | None,
    unit: str,
    budget: int,
    options: PlanOptions,
) -> Question:
    """Check the material of a plan, and make every open choice.

    Parameters
    ----------
    predictions, labels, propensity, metrics, unit, budget
        As in `audit.plan`.
    options : PlanOptions
        The choices that were stated.

    Returns
    -------
    Question
    """
    observed = checks.labels(labels)
    if not all(observed.shape):
        n, width = observed.shape
        raise ValueError(f"there is nothing to judge in {n} rows of {width} labels.")
    checks.positive_int(budget, "budget")
    checks.one_of(unit, ("rows", "pairs"), "unit")
    checks.one_of(options.get("observed", "free"), ("free", "sampled"), "observed")
    p = checks.propensity(_guess(observed) if propensity is None else propensity, observed.shape[1])
    named = predictions if isinstance(predictions, Mapping) else {"": predictions}
    if not named:
        raise ValueError("a plan is made from predictions; give at least one system.")
    if metrics is None and any(isinstance(top, LabelSets) for top in named.values()):
        metrics = OF_SETS[unit]
    asked = None if metrics is None else [split_measured(name) for name in _names(metrics)]
    systems = tuple(_listed(top, observed, asked) for top in named.values())
    width = min(top.k for top in systems)
    k = min(5, width) if not asked else max(each or width for _, each in asked)
    if k > width and width < observed.shape[1]:
        raise ValueError(f"metrics at {k} need the first {k} predictions; there are {width}.")
    chosen = checked_options(options, unit, None if asked is None else [name for name, _ in asked])
    if chosen["design"] == "stratified" and min(chosen["strata"], observed.shape[0] // 2) <= 1:
        chosen["design"], chosen["strata"] = "simple", 1  # one stratum is no strata
    if unit == "pairs" and metrics is None and "design" not in options:
        rows = budget / _row_cost(systems, observed, chosen)
        chosen["design"] = "two-phase" if rows >= LEAST_ROWS else "pairs"
    if metrics is None:
        recall = () if chosen["design"] == "pairs" else (f"R@{k}",)
        metrics = [f"P@{k}", *recall, *([f"micro-R@{k}"] if unit == "pairs" else ())]
    return Question(systems, observed, p, tuple(_names(metrics)), k, chosen)


def _guess(observed: sp.csr_array) -> Floats:
    """Return Jain's propensities (rare labels are missing more); ½ where rows are too few."""
    n, width = observed.shape
    return np.asarray(jain(observed), dtype=np.float64) if n >= 3 else np.full(width, 0.5)


def _names(metrics: Sequence[str] | str) -> list[str]:
    return [metrics] if isinstance(metrics, str) else list(metrics)


def _listed(top: System, labels: sp.csr_array, asked: list[tuple[str, int | None]] | None) -> TopK:
    if isinstance(top, LabelSets):
        top = as_top(top, [f"{name}@{k}" if k else name for name, k in asked or ()])
    if not isinstance(top, TopK):
        longest = max((k or 0 for _, k in asked or ()), default=0)
        top = TopK.from_scores(top, min(labels.shape[1], max(WIDTH, longest)))
    checks.same_rows(top.labels, labels, "predictions", "labels")
    largest = int(top.labels.max(initial=-1))
    if largest >= labels.shape[1]:
        raise ValueError(
            f"label {largest} is predicted, but there are {labels.shape[1]} labels; labels are "
            "numbered from 0."
        )
    return top


def checked_options(options: PlanOptions, unit: str, metrics: list[str] | None) -> PlanOptions:
    """Fill in the open choices; refused where choices contradict each other.

    Parameters
    ----------
    options : PlanOptions
        The choices that were stated.
    unit : {"rows", "pairs"}
    metrics : list of str or None
        Names without cut-offs, if any were asked for.

    Returns
    -------
    PlanOptions
    """
    linear = metrics is not None and set(metrics) <= LINEAR
    usual = "simple" if unit == "rows" else "pairs" if linear else "two-phase"
    design = Design(checks.one_of(options.get("design", usual), list(Design), "design"))
    if design.unit != unit:
        raise ValueError(
            f"the {design.value} design judges {design.unit}; "
            f"got {setting('unit', unit, of='audit.plan')}."
        )
    if design is Design.PAIRS and metrics is not None and not linear:
        other = next(name for name in metrics if name not in LINEAR)
        raise ValueError(
            f"{other} is not a sum over pairs, so pairs scattered over all rows cannot measure it; "
            f"use {setting('design', 'two-phase', of='audit.plan')}, or whole rows."
        )
    tail = checks.in_range(options.get("tail", TAIL), "tail", LEAST_TAIL, 1)
    strata = options.get("strata", ROW_STRATA if design is Design.STRATIFIED else 1)
    if design is Design.SIMPLE and strata != 1:
        raise ValueError(
            f"simple rows have one stratum; got {strata}. Use "
            f"{setting('design', 'stratified', of='audit.plan')}."
        )
    return PlanOptions(
        design=design.value,
        observed=options.get("observed", "free"),
        head=checks.positive_int(options.get("head", HEAD), "head"),
        tail=float(tail),
        strata=checks.positive_int(strata, "strata"),
        expect=bool(options.get("expect", True)),
    )


def draw(question: Question, budget: int, before: Sample | None, seed: int) -> Sample:
    """Draw a sample with `budget` more units than the one before.

    Parameters
    ----------
    question : Question
        What is asked.
    budget : int
        Rows or pairs to add.
    before : Sample or None
        What was drawn already.
    seed : int
        Decides the draw.

    Returns
    -------
    Sample
        The units before come first.

    Raises
    ------
    ValueError
        If the budget buys fewer than two rows.
    """
    rng = np.random.default_rng(seed)
    if question.design is Design.PAIRS:
        return _draw_pairs(question, budget, before, rng)
    if question.design is Design.TWO_PHASE:
        return _draw_two_phase(question, budget, before, rng)
    return _draw_rows(question, budget, before, rng)


def _draw_rows(
    question: Question, count: int, before: Sample | None, rng: np.random.Generator
) -> Sample:
    """Draw `count` further rows, proportionally from every stratum, in random order."""
    parts = question.options["strata"]
    n = question.labels.shape[0]
    of_row = np.zeros(n, dtype=np.int64)
    if parts > 1:
        of_row = row_strata(question.systems, question.labels, min(parts, max(n // 2, 1)))
    sizes = np.bincount(of_row)
    old, old_stratum = (np.zeros(0, np.int64),) * 2 if before is None else before.first_phase
    drawn = np.bincount(old_stratum, minlength=sizes.size)
    total = min(n, old.size + count)
    counts = np.maximum(allocate(sizes, np.ones(sizes.size), total, least=2), drawn)
    left = np.setdiff1d(np.arange(n), old)
    new = [
        rng.choice(left[of_row[left] == h], counts[h] - drawn[h], replace=False)
        for h in range(sizes.size)
    ]
    rows = np.r_[old, rng.permutation(np.concatenate(new))]
    if rows.size < min(n, 2):
        raise ValueError(f"a sample needs at least two rows; a budget of {count} buys {rows.size}.")
    strata = tuple(
        Stratum("rows", int(size), int(count)) for size, count in zip(sizes, counts, strict=True)
    )
    design = Design.SIMPLE if sizes.size == 1 else Design.STRATIFIED
    return Sample(design, question.labels.shape, strata, rows, None, of_row[rows])


def _draw_pairs(
    question: Question, budget: int, before: Sample | None, rng: np.random.Generator
) -> Sample:
    """Draw pairs of every stratum by Neyman's rule."""
    free = question.options["observed"] == "free"
    frame = pair_frame(
        question.systems, question.labels, question.p, k=question.k, observed_free=free
    )
    if not len(frame.kinds):
        raise ValueError(nothing_left(question))
    drawn = np.zeros(len(frame.kinds), dtype=np.int64)
    old, old_stratum = np.zeros(0, np.int64), np.zeros(0, np.int64)
    width = question.labels.shape[1]
    if before is not None:
        old, old_stratum = before.rows * width + before.pair_labels, before.stratum
        drawn = np.bincount(old_stratum, minlength=drawn.size)
    total = allocation(question, frame, old.size + budget)
    counts = np.maximum(total - drawn, 0)
    keys, strata = frame.draw(counts, old, rng)
    keys, strata = np.r_[old, keys], np.r_[old_stratum, strata]
    made = tuple(
        Stratum(kind, int(size), int(count), float(rate))
        for kind, size, count, rate in zip(
            frame.kinds, frame.sizes, drawn + counts, frame.rates, strict=True
        )
    )
    return Sample(
        Design.PAIRS, question.labels.shape, made, keys // width, keys % width, strata,
        observed_free=free, k=question.k,
        systems=tuple(fingerprint(top, question.k) for top in question.systems),
    )  # fmt: skip


def allocation(question: Question, frame: PairFrame, budget: int) -> Ints:
    """Return how many pairs of every stratum are judged, by Neyman's rule with guessed rates.

    Parameters
    ----------
    question : Question
    frame : PairFrame
        Of the question.
    budget : int
        Pairs in all.

    Returns
    -------
    integers, one per stratum
    """
    return allocate(frame.sizes, _importance(question, frame), budget, LEAST_PAIRS)


def _importance(question: Question, frame: PairFrame) -> Floats:
    """Return √(Σ over metrics of c² q (1 − q)) of strata, c what one pair moves the metric by."""
    n = frame.shape[0]
    in_top = np.array([kind in IN_TOP for kind in frame.kinds], dtype=bool)
    expected = frame.sizes * frame.rates
    labels_shown = question.labels.nnz
    observed = labels_shown if question.options["observed"] == "free" else 0
    shown = pair_keys(question.labels)
    tops = [listed_keys(top, question.k, frame.shape[1]) for top in question.systems]
    hits = contains(np.sort(np.concatenate(tops)), shown).sum() if observed else 0
    total = max(float(expected.sum() + observed), 1.0)
    recall = float(np.clip((expected[in_top].sum() + hits) / total, 0.05, 0.95))
    shown_strata = np.array([kind in OBSERVED for kind in frame.kinds], dtype=bool)
    square = np.where(shown_strata, SPURIOUS_WORTH / max(labels_shown, 1), 0.0) ** 2
    for name, k in map(split_measured, question.metrics):
        if name in ("micro-R", "micro-F1"):
            square += np.where(in_top, 1 - recall, recall) ** 2 / total**2
        else:
            square += np.where(in_top, 1 / (n * (k or question.k)), 0.0) ** 2
    return np.asarray(np.sqrt(square * frame.rates * (1 - frame.rates)))


def nothing_left(question: Question) -> str:
    """Say why a plan of pairs would be empty.

    Parameters
    ----------
    question : Question

    Returns
    -------
    str
    """
    metrics = ", ".join(question.metrics)
    return (
        f"there is no pair to judge for {metrics}: no label is predicted that is not recorded, and "
        "recorded labels are taken as right. Judge a part of them, too, with "
        f"{setting('observed', 'sampled', of='audit.plan')}, or measure what nobody recorded or "
        f"predicted with {setting('metrics', ['micro-R@k'], of='audit.plan')}."
    )


def _draw_two_phase(
    question: Question, budget: int, before: Sample | None, rng: np.random.Generator
) -> Sample:
    """Draw further rows, and in each its head and a share of its tail, row after row."""
    cost = _row_cost(question.systems, question.labels, question.options)
    count = int(budget / cost)
    if count < 2:
        raise ValueError(
            f"judging a row costs about {cost:.0f} pairs here, so a budget of {budget} buys fewer "
            "than two rows; raise it, lower `head` and `tail`, or measure P@k and micro-R@k by "
            f"{setting('design', 'pairs', of='audit.plan')}."
        )
    spread = np.sqrt(count * question.labels.shape[1] * question.options["tail"])
    count = max(2, int((budget - (2 * spread if cost > question.options["head"] else 0)) / cost))
    first = _draw_rows(question, count, before, rng)
    old = 0 if before is None else len(before.first_phase[0])
    pairs = [_pairs_of_row(question, int(row), rng) for row in first.rows[old:]]
    rows = np.repeat(first.rows[old:], [len(labels) for labels, _ in pairs])
    labels = np.concatenate([np.zeros(0, np.int64), *(labels for labels, _ in pairs)])
    within = np.concatenate([np.zeros(0), *(chance for _, chance in pairs)])
    stratum = np.repeat(first.stratum[old:], [len(labels) for labels, _ in pairs])
    if before is not None and before.within is not None:
        rows, labels = np.r_[before.rows, rows], np.r_[before.pair_labels, labels]
        stratum = np.r_[before.stratum, stratum]
        within = np.r_[before.within.probability, within]
    return Sample(
        Design.TWO_PHASE, first.shape, first.strata, rows, labels, stratum,
        WithinRows(first.rows, first.stratum, within), k=question.k,
        observed_free=question.options["observed"] == "free",
    )  # fmt: skip


def _pairs_of_row(question: Question, row: int, rng: np.random.Generator) -> tuple[Ints, Floats]:
    """Draw the labels of a chosen row that are judged, with their probabilities."""
    width = question.labels.shape[1]
    chance = np.full(width, question.options["tail"])
    if width <= question.options["head"]:
        chance[:] = 1.0
    for top in question.systems:
        first = top.labels[row, : question.options["head"]]
        chance[first[first >= 0]] = 1.0
    drawn = rng.random(width) < chance
    if question.options["observed"] == "free":
        drawn[stored_in(question.labels, row)] = False
    labels = rng.permutation(np.flatnonzero(drawn))
    return labels, chance[labels]


def _row_cost(systems: Sequence[TopK], labels: sp.csr_array, options: PlanOptions) -> float:
    """Return the mean number of pairs that a chosen row costs."""
    n, width = labels.shape
    if width <= options["head"]:
        judged = float(width)
        free = labels.nnz / max(n, 1)
    else:
        keys = np.unique(
            np.concatenate([listed_keys(top, options["head"], width) for top in systems])
        )
        head, shown = keys.size / max(n, 1), pair_keys(labels)
        in_head = int(np.isin(shown, keys).sum())
        judged = head + options["tail"] * (width - head)
        free = (in_head + options["tail"] * (labels.nnz - in_head)) / max(n, 1)
    return max(judged - (free if options["observed"] == "free" else 0.0), 1.0)
