"""Thresholds above which labels are predicted.

They are chosen on validation rows by a corrected metric. With v = y/p, a set of the pairs
whose score reaches t has Σ v of them as hits, and Σ v of all pairs as labels, both unbiased:

    F1(t) = 2 Σ_{s ≥ t} v / (|{s ≥ t}| + Σ v)          per label, or over all pairs

On observed labels as they are, right predictions that were not recorded count as wrong, and
thresholds come out too high.

A label that was observed in few rows says little of its own threshold, and the best of many is the
best by chance. So with o observed rows, v of a label is drawn to probabilities r that are fitted to
all labels together (`chances`), as if those had been observed in `prior` rows,

    v → (o v + prior · r) / (o + prior),

and alone (prior = ∞) they give the plug-in rule: predict where r is at least half of the best F1.
Micro-F1 with thresholds of several labels or bands is 2H/(P + N): at its best value F, every band
makes 2 hits − F · predictions as large as it can (Dinkelbach 1967).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias, TypeVar

import numpy as np
import scipy.sparse as sp

from unmask import _io, _validation, report
from unmask._kernels import even_bounds
from unmask._settings import named_options, setting
from unmask._sparse import entry_rows
from unmask._text import html_table
from unmask._typing import (
    Array,
    Floats,
    Ints,
    LabelsLike,
    PathLike,
    PropensityLike,
    Record,
    ScoresLike,
)
from unmask.metrics.scored import scores_of
from unmask.predictions import LabelSets
from unmask.thresholds import calibration
from unmask.thresholds.calibration import BLOCK, inverse_of

METRICS = {"micro-F1": "all", "macro-F1": "label", "F1 per label": "label", "cost": "label"}
"""What thresholds can be chosen by, and who has one if nothing is said."""
OF_LABELS = ("macro-F1", "F1 per label")
PRIOR = 100.0
"""Observed rows that fitted probabilities count as, for every label."""
ROUNDS = 50
"""Of the search for the best micro-F1; it ends where nothing changes, mostly after five."""
TRIED = 256
"""Thresholds that a band of labels tries for its mean F1: quantiles of observed scores."""
FEWEST = 256
"""Thresholds of a label that are tried at least, where there are too many rows for all."""
_ENDS = {np.inf: None, -np.inf: "-inf"}
"""How files write thresholds that JSON has no number for."""
Per: TypeAlias = Literal["all", "label", "band"]
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Thresholds:
    """Thresholds, one per label, and how they were chosen.

    Parameters
    ----------
    values : (L,) floats
        A label is predicted where its score is at least this; +inf: never, −inf: always.
    metric : str
        What they were chosen by.
    value : float
        The corrected metric of the validation rows at these thresholds; optimistic, since they were
        chosen for it.
    own : (L,) flags
        Whether a label has a threshold of its own, or of its band.
    names : L strings, optional
        Of the labels, for files.

    Raises
    ------
    ValueError
        If a threshold is NaN, or flags or names are not as many as thresholds.

    Examples
    --------
    >>> scores = np.array([[0.9, 0.2], [0.6, 0.7], [0.3, 0.1], [0.2, 0.8]])
    >>> cut = fit(scores, [[1, 0], [1, 1], [0, 0], [0, 1]], metric="micro-F1")
    >>> cut.metric, cut.own.shape
    ('micro-F1', (2,))
    """

    values: Floats
    metric: str
    value: float
    own: Array
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        """Refuse what does not fit together."""
        size = {len(each) for each in (self.values, self.own, self.names) if each is not None}
        if len(size) > 1 or np.ndim(self.values) != 1:
            raise ValueError("thresholds, names and flags do not fit each other.")
        if np.isnan(self.values).any():
            raise ValueError("a threshold must be a number; got NaN.")

    @property
    def facts(self) -> dict[str, str]:
        """What they are, in a few words each, for people."""
        finite = self.values[np.isfinite(self.values)]
        span = "none"
        if finite.size:
            low, high = f"{finite.min():.4g}", f"{finite.max():.4g}"
            span = low if low == high else f"{low} to {high}"
        warning = (
            "more than F1 can be: by chance, or the propensities are too low"
            if self.metric != "cost" and self.value > 1
            else "optimistic: it was chosen for these rows"
        )
        return {
            "chosen by": self.metric,
            "thresholds": span,
            "labels with one of their own": f"{int(self.own.sum()):,} of {self.own.size:,}",
            "labels never predicted": f"{int(np.isposinf(self.values).sum()):,}",
            "reached here": f"{self.value:.4f} ({warning})",
        }

    def __str__(self) -> str:
        """A line for every fact."""
        return report.text_of([[name, text] for name, text in self.facts.items()])

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return html_table("thresholds", [], [[name, text] for name, text in self.facts.items()])

    def apply(self, scores: ScoresLike) -> LabelSets:
        """The labels whose scores reach their thresholds.

        Parameters
        ----------
        scores : (n, L) matrix
            Of the same system, of any rows.

        Returns
        -------
        LabelSets
        """
        return LabelSets.from_scores(scores, self.values, names=self.names)

    def to_dict(self) -> Record:
        """Plain values, as `write` stores them; a label never predicted has None, always "-inf"."""
        values = [_ENDS.get(value, value) for value in self.values.tolist()]
        return {
            "kind": "thresholds",
            "metric": self.metric,
            "value": self.value,
            "thresholds": values,
            "own": [bool(each) for each in self.own],
            "names": None if self.names is None else list(self.names),
        }


def write(path: PathLike, thresholds: Thresholds) -> None:
    """Store thresholds as JSON.

    Parameters
    ----------
    path : str or path
    thresholds : Thresholds

    Raises
    ------
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> file = tempfile.mkdtemp() + "/cut.json"
    >>> write(file, Thresholds(np.array([0.5]), "micro-F1", 0.7, np.array([False])))
    >>> read(file).metric
    'micro-F1'
    """
    with _io.atomic_write(path) as file:
        file.write(json.dumps(thresholds.to_dict(), indent=1).encode() + b"\n")


def read(path: PathLike) -> Thresholds:
    """Thresholds from a file of `write`.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    Thresholds

    Raises
    ------
    ValueError
        If the file is not one of thresholds.

    Examples
    --------
    >>> import tempfile
    >>> file = tempfile.mkdtemp() + "/cut.json"
    >>> write(file, Thresholds(np.array([0.5, np.inf]), "micro-F1", 0.7, np.array([True, False])))
    >>> read(file).values
    array([0.5, inf])
    """
    content = _io.read_json(path)
    try:
        values = [_threshold(each) for each in _list(content["thresholds"], object)]
        own = np.array(_list(content["own"], bool), dtype=bool)
        names = None if content["names"] is None else tuple(_list(content["names"], str))
        metric, value = content["metric"], _number(content["value"])
        _validation.one_of(metric, METRICS, "metric")
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(f"{path} holds no thresholds of `unmask threshold`.") from error
    try:
        return Thresholds(np.array(values, dtype=np.float64), metric, value, own, names)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _list(stored: object, kind: type[T]) -> list[T]:
    """A list of JSON with values of this kind only; ValueError for anything else."""
    if not isinstance(stored, list) or not all(isinstance(each, kind) for each in stored):
        raise ValueError(f"expected a list of {kind.__name__}")
    return stored


def _threshold(stored: object) -> float:
    named = {None: np.inf, _ENDS[-np.inf]: -np.inf}
    return named[stored] if stored is None or isinstance(stored, str) else _number(stored)


def _number(stored: object) -> float:
    """A finite number of JSON, which may also say NaN, Infinity, true or a text."""
    if isinstance(stored, bool) or not isinstance(stored, int | float) or not np.isfinite(stored):
        raise ValueError(f"expected a number; got {stored!r:.60}")
    return float(stored)


@named_options
def fit(
    scores: ScoresLike,
    labels: LabelsLike,
    propensity: PropensityLike | None = None,
    *,
    metric: str = "micro-F1",
    per: Per | None = None,
    bands: Sequence[object] | None = None,
    prior: float = PRIOR,
    least: int = 0,
    cost: tuple[float, float] = (1.0, 1.0),
    names: Sequence[str] | None = None,
) -> Thresholds:
    """Choose thresholds on validation rows.

    Parameters
    ----------
    scores : (n, L) matrix
        Dense scores or probabilities, of any system.
    labels : (n, L) matrix of 0 and 1
        The observed labels.
    propensity : (L,) floats in (0, 1], or (n, L) sparse matrix, optional
        How likely a true label is observed; without it, labels are taken as complete.
    metric : {"micro-F1", "macro-F1", "F1 per label", "cost"}, default "micro-F1"
        What is made as large as possible; "cost", by the cost of wrong and of missing predictions,
        as small. Of single labels, macro-F1 is F1 per label.
    per : {"all", "label", "band"}, optional
        Who has a threshold: all labels together (default for "micro-F1"), each (default for the
        others), or each band.
    bands : sequence of L names, optional
        The band of every label, such as its frequency class; makes `per` "band".
    prior : float, default 100
        As how many observed rows of every label the probabilities count that are fitted to all
        labels together. 0: only what was observed; inf: only the probabilities, the plug-in rule.
    least : int, default 0
        A label or band observed in fewer rows gets the threshold that is best for all labels.
    cost : pair of float, default (1, 1)
        Of a wrong prediction and of a missing one, for "cost".
    names : L strings, optional
        Of the labels, for files and sets.

    Returns
    -------
    Thresholds

    Raises
    ------
    ValueError
        If shapes do not fit, scores or costs are not numbers, or no label is observed.

    Examples
    --------
    >>> scores = np.array([[0.9, 0.2], [0.6, 0.7], [0.3, 0.1], [0.2, 0.8]])
    >>> cut = fit(scores, [[1, 0], [1, 1], [0, 0], [0, 1]], metric="micro-F1")
    >>> cut.values, cut.value
    (array([0.6, 0.6]), 1.0)
    >>> cut.apply([[0.65, 0.4]]).indicator.toarray()
    array([[1., 0.]], dtype=float32)
    """
    _validation.one_of(metric, METRICS, "metric")
    observed = _validation.labels(labels)
    matrix = scores_of(scores, observed, "a threshold")
    if not observed.nnz:
        raise ValueError("no label is observed in these rows; thresholds need some that are.")
    _validation.in_range(prior, "prior", 0, np.inf)
    if metric != "cost" and tuple(cost) != (1.0, 1.0):
        raise ValueError(
            f"cost has no effect on {metric}; leave it out, or choose "
            f"{setting('metric', 'cost', of='thresholds.fit')}."
        )
    inverse = inverse_of(propensity, observed)
    goal = _Goal(metric, *_costs(cost))
    plain = tried = _candidates(matrix, observed, inverse)
    if prior > 0:
        of_labels = _label_propensities(propensity, observed, inverse)
        fitted = calibration.fit(matrix, observed, inverse, of_labels)
        tried = _drawn(fitted, matrix, observed, inverse, prior)
    group = _groups(metric, per, bands, matrix.shape[1])
    if least and group.max(initial=0) == 0 and per != "label" and bands is None:
        raise ValueError("least has no effect on one threshold for all labels; leave it out.")
    own = np.zeros(matrix.shape[1], dtype=bool)
    values = _by_group(matrix, tried, np.zeros(matrix.shape[1], dtype=np.int64), goal)
    if group.max() > 0:
        counts = np.bincount(observed.indices, minlength=matrix.shape[1])
        own = np.bincount(group, counts)[group] >= max(least, 0 if prior > 0 else 1)
        values = np.where(own, _by_group(matrix, tried, group, goal), values)
    value = _over_labels(values, plain, matrix, goal)
    return Thresholds(values, metric, value, own, None if names is None else tuple(names))


def _costs(cost: tuple[float, float]) -> tuple[float, float]:
    """Of a wrong and a missing prediction, checked."""
    pair = _validation.numbers(cost, "cost")
    if pair.shape != (2,) or not (np.isfinite(pair) & (pair >= 0)).all():
        raise ValueError(
            "cost is a pair of numbers of 0 or more, of a wrong and of a missing prediction; got "
            f"{cost!r:.60}."
        )
    return float(pair[0]), float(pair[1])


def _groups(metric: str, per: Per | None, bands: Sequence[object] | None, n_labels: int) -> Ints:
    """The number of the group of every label; groups have one threshold each."""
    chosen = per or ("band" if bands is not None else METRICS[metric])
    _validation.one_of(chosen, ("all", "label", "band"), "per")
    if (chosen == "band") != (bands is not None):
        raise ValueError(
            "thresholds per band need `bands`, a name for each label, and no other do."
        )
    if bands is None:
        return np.arange(n_labels) if chosen == "label" else np.zeros(n_labels, dtype=np.int64)
    if len(bands) != n_labels:
        raise ValueError(f"give a band for each of {n_labels} labels; got {len(bands)}.")
    return np.unique([str(band) for band in bands], return_inverse=True)[1]


@dataclass(frozen=True)
class _Goal:
    """What is made as large as possible, from Σ v of hits, predictions, and Σ v of labels."""

    metric: str
    wrong: float
    missing: float

    def __call__(self, hits: Floats, predicted: Floats, positives: float) -> Floats:
        if self.metric == "cost":
            lost = self.wrong * (predicted - hits) + self.missing * (positives - hits)
            return -lost
        return 2 * hits / np.maximum(predicted + positives, 1e-300)


@dataclass(frozen=True)
class _Candidates:
    """Thresholds to try, falling, with Σ v and the number of pairs that reach each.

    `complete`: they are all scores, or so many that pairs between two can be neglected.
    """

    thresholds: Floats
    hits: Floats
    predicted: Floats
    complete: bool = False

    @property
    def positives(self) -> float:
        """Σ v of all pairs; candidates end with the lowest score that has any."""
        return float(self.hits[-1]) if self.hits.size else 0.0

    def reached(self, threshold: float) -> tuple[float, float]:
        """Σ v and the number of pairs at any threshold that is a candidate, or above all."""
        above = np.flatnonzero(self.thresholds >= threshold)
        if not above.size:
            return 0.0, 0.0
        return float(self.hits[above[-1]]), float(self.predicted[above[-1]])


def _candidates(scores: Array, observed: sp.csr_array, inverse: Floats) -> list[_Candidates]:
    """Of every label: the scores at which it is observed."""
    order = np.argsort(observed.indices, kind="stable")
    rows = entry_rows(observed)[order]
    starts = np.searchsorted(observed.indices[order], np.arange(observed.shape[1] + 1))
    tried = []
    for label in range(observed.shape[1]):
        own = slice(starts[label], starts[label + 1])
        column = scores[:, label]
        tried.append(_tried(column[rows[own]], inverse[order[own]], column))
    return tried


def _label_propensities(
    propensity: PropensityLike | None, observed: sp.csr_array, inverse: Floats
) -> Floats:
    """A propensity for every label, also where they are stated per observed label."""
    if propensity is None:
        return np.ones(observed.shape[1])
    if _validation.is_sparse(propensity):
        return calibration.label_propensities(observed, inverse)
    return _validation.propensity(propensity, observed.shape[1])


def _drawn(
    fitted: calibration.Chances,
    scores: Array,
    observed: sp.csr_array,
    inverse: Floats,
    prior: float,
) -> list[_Candidates]:
    """Of every label: its scores, v drawn to fitted probabilities: see the module."""
    own = sp.csr_array((inverse, observed.indices, observed.indptr), observed.shape).tocsc()
    most = max(FEWEST, BLOCK // scores.shape[1])
    made = []
    for label in range(scores.shape[1]):
        entries = slice(own.indptr[label], own.indptr[label + 1])
        share = 1.0 if np.isinf(prior) else prior / (entries.stop - entries.start + prior)
        column = scores[:, label].astype(np.float64)
        order = np.argsort(-column, kind="stable")
        v = np.zeros(column.size)
        v[own.indices[entries]] = (1 - share) * own.data[entries]
        falling = column[order]
        sums = np.cumsum(share * fitted.of_label(falling) + v[order])
        last = _chosen_ends(falling, most)
        predicted = np.asarray(last + 1, dtype=np.float64)
        made.append(_Candidates(falling[last], sums[last], predicted, complete=True))
    return made


def _chosen_ends(falling: Floats, most: int) -> Ints:
    """The last places of equal scores; of too many, all near the top and fewer further down."""
    last = np.flatnonzero(np.r_[falling[1:] != falling[:-1], True])
    if last.size <= most:
        return last
    half = most // 2
    further = np.geomspace(half, last.size - 1, half).astype(np.int64)
    return np.asarray(last[np.unique(np.r_[np.arange(half), further])])


def _by_group(scores: Array, by_label: list[_Candidates], group: Ints, goal: _Goal) -> Floats:
    """The best threshold of every group, given to its labels."""
    labels_of = [np.flatnonzero(group == number) for number in range(int(group.max()) + 1)]
    single = all(labels.size == 1 for labels in labels_of)
    if goal.metric in OF_LABELS and not single:
        best = [_best_mean([by_label[j] for j in labels.tolist()], scores[:, labels], goal)
                for labels in labels_of]  # fmt: skip
        return np.array(best)[group]
    joined = [
        by_label[labels[0]]
        if labels.size == 1
        else _joined(scores[:, labels], [by_label[j] for j in labels.tolist()])
        for labels in labels_of
    ]
    if goal.metric == "micro-F1":
        return _best_together(joined)[group]
    return np.array([_best(each, each.positives, goal)[0] for each in joined])[group]


def _best_together(groups: list[_Candidates]) -> Floats:
    """Thresholds of the largest 2H/(P + N) of all groups together: see the module."""
    positives, value = sum(each.positives for each in groups), 0.0
    chosen: list[int] = []
    for _ in range(ROUNDS):
        before = chosen
        gains = [2 * each.hits - value * each.predicted for each in groups]
        chosen = [int(np.argmax(gain)) if gain.size and gain.max() > 0 else -1 for gain in gains]
        used = [(each, place) for each, place in zip(groups, chosen, strict=True) if place >= 0]
        hits = sum(float(each.hits[place]) for each, place in used)
        predicted = sum(float(each.predicted[place]) for each, place in used)
        value = 2 * hits / max(predicted + positives, 1e-300)
        if chosen == before:
            break
    return np.array(
        [
            each.thresholds[place] if place >= 0 else np.inf
            for each, place in zip(groups, chosen, strict=True)
        ]
    )


def _best_mean(by_label: list[_Candidates], scores: Array, goal: _Goal) -> float:
    """The threshold of the largest mean F1 of some labels, of quantiles of their candidates."""
    every = np.concatenate([each.thresholds for each in by_label])
    if not every.size:
        return float(np.inf)
    tried = np.unique(np.quantile(every, np.linspace(0, 1, TRIED), method="nearest"))
    means = np.zeros(tried.size)
    for label, each in enumerate(by_label):
        rising = np.sort(scores[:, label].astype(np.float64))
        predicted = rising.size - np.searchsorted(rising, tried, side="left")
        reached = np.searchsorted(-each.thresholds, -tried, side="right")
        hits = np.r_[0.0, each.hits][reached]
        means += goal(hits, predicted.astype(np.float64), each.positives)
    return float(tried[int(np.argmax(means))])


def _tried(reached: Array, weights: Floats, every: Array) -> _Candidates:
    order = np.argsort(-reached, kind="stable")
    ordered, sums = reached[order].astype(np.float64), np.cumsum(weights[order])
    last = np.flatnonzero(np.r_[ordered[1:] != ordered[:-1], True][: ordered.size])
    thresholds = ordered[last]
    rising = np.sort(every.astype(np.float64))
    predicted = every.size - np.searchsorted(rising, thresholds, side="left")
    return _Candidates(thresholds, sums[last], predicted.astype(np.float64))


def _joined(scores: Array, by_label: list[_Candidates]) -> _Candidates:
    """Of all labels together."""
    reached = np.concatenate([each.thresholds for each in by_label])
    weights = np.concatenate([np.diff(each.hits, prepend=0.0) for each in by_label])
    order = np.argsort(-reached, kind="stable")
    ordered, sums = reached[order], np.cumsum(weights[order])
    last = np.flatnonzero(np.r_[ordered[1:] != ordered[:-1], True][: ordered.size])
    if all(each.complete for each in by_label):
        more = np.concatenate([np.diff(each.predicted, prepend=0.0) for each in by_label])
        return _Candidates(ordered[last], sums[last], np.cumsum(more[order])[last], complete=True)
    rising = ordered[last][::-1]
    counts: Ints = np.zeros(rising.size + 1, dtype=np.int64)
    for start, stop in pairwise(even_bounds(scores.shape[0], scores.shape[1], BLOCK).tolist()):
        reached_by = np.searchsorted(rising, scores[start:stop].ravel(), side="right")
        counts += np.bincount(reached_by, minlength=rising.size + 1)
    predicted = np.cumsum(counts[::-1])[:-1].astype(np.float64)
    return _Candidates(ordered[last], sums[last], predicted)


def _best(tried: _Candidates, positives: float, goal: _Goal) -> tuple[float, float]:
    """The best threshold and what it reaches; to predict nothing where nothing is better."""
    if not tried.thresholds.size:
        return np.inf, 0.0
    values = goal(tried.hits, tried.predicted, positives)
    best = int(np.argmax(values))
    nothing = float(goal(np.zeros(1), np.zeros(1), positives)[0])
    if nothing > values[best]:
        return np.inf, nothing
    return float(tried.thresholds[best]), float(values[best])


def _over_labels(values: Floats, by_label: list[_Candidates], scores: Array, goal: _Goal) -> float:
    """What the thresholds reach: the metric of observed labels, corrected (of costs, the sum)."""
    totals, reached = np.zeros(3), []
    for label, (threshold, tried) in enumerate(zip(values, by_label, strict=True)):
        hits, _ = tried.reached(threshold)
        predicted = float((scores[:, label] >= threshold).sum())
        totals += [hits, predicted, tried.positives]
        if tried.thresholds.size:
            of_label = goal(np.array([hits]), np.array([predicted]), tried.positives)
            reached.append(float(of_label[0]))
    if goal.metric in ("micro-F1", "cost"):
        return float(goal(totals[:1], totals[1:2], float(totals[2]))[0])
    return float(np.mean(reached))
