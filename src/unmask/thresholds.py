"""Decide: thresholds above which labels are predicted, and scores as probabilities of true labels.

**Thresholds** are chosen on validation rows by a corrected metric. With v = y/p, a set of the pairs
whose score reaches t has Σ v of them as hits, and Σ v of all pairs as labels, both unbiased:

    F1(t) = 2 Σ_{s ≥ t} v / (|{s ≥ t}| + Σ v)          per label, or over all pairs

On observed labels as they are, right predictions that were not recorded count as wrong, and
thresholds come out too high.

A label that was observed in few rows says little of its own threshold, and the best of many is the
best by chance. So with o observed rows, v of a label is drawn to probabilities r that are fitted to
all labels together (`Chances`), as if those had been observed in `prior` rows,

    v → (o v + prior · r) / (o + prior),

and alone (prior = ∞) they give the plug-in rule: predict where r is at least half of the best F1.
Micro-F1 with thresholds of several labels or bands is 2H/(P + N): at its best value F, every band
makes 2 hits − F · predictions as large as it can (Dinkelbach 1967).

**One curve for all labels** (`calibrate`) is isotonic regression of v on the score, or Platt's
logistic curve by the unbiased log-loss, Σ ln(1 + e^z) − v z with z = a · score + b, convex. It says
what a score is worth on average. But labels differ, and their scores say how even where they were
hardly observed: the row that has the highest score of a label is more likely right than the one
that has its hundredth, at the same score. So r, the probability that a label is true, is the mean
of two: the rising curve, and a logistic curve

    log-odds = polynomial of degree 2 in (score, u),
    u = ln(share of rows that have at least this score for the label),

whose six coefficients are the same for all labels, and those of the largest likelihood of what was
observed, P(y = 1) = p r, with a little shrinkage. The likelihood uses labels that were observed and
those that were not, at every propensity, while Σ y/p of a single label is mostly noise. Which of
the two is better depends on the data; their mean is never much worse than the better one (the study
`sets`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias, TypeVar

import numpy as np
import scipy.sparse as sp
from scipy.optimize import isotonic_regression
from scipy.special import expit

from unmask._kernels import even_bounds
from unmask._messages import named_options, setting
from unmask._text import html_table, text_of
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
from unmask.arrays import checks
from unmask.arrays.checks import entry_rows
from unmask.files import atomic_write, read_json
from unmask.metrics.claims import Run
from unmask.metrics.evaluation import judge_propensities
from unmask.metrics.scored import scores_of
from unmask.predictions import LabelSets
from unmask.propensity.models import reciprocal

__all__ = [
    "METRICS",
    "Thresholds",
    "calibrate",
    "fit",
    "read",
    "write",
]

METRICS = {"micro-F1": "all", "macro-F1": "label", "F1 per label": "label", "cost": "label"}
"""Criteria that thresholds can be chosen by, and who has one if nothing is said."""
OF_LABELS = ("macro-F1", "F1 per label")
PRIOR = 100.0
"""Observed rows that fitted probabilities count as, for every label."""
ROUNDS = 50
"""Rounds of the search for the best micro-F1; it ends where nothing changes, mostly after five."""
TRIED = 256
"""Thresholds that a band of labels tries for its mean F1: quantiles of observed scores."""
FEWEST = 256
"""Thresholds of a label that are tried at least, where there are too many rows for all."""
_ENDS = {np.inf: None, -np.inf: "-inf"}
"""Words in files for thresholds that JSON has no number for."""
Per: TypeAlias = Literal["all", "label", "band"]
Method: TypeAlias = Literal["isotonic", "platt"]
T = TypeVar("T")
BLOCK = 1 << 22
"""Pairs of a block of rows."""


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
    run : Run, optional
        The standing of the propensities, judged by the same scores and labels.

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
    run: Run | None = None

    def __post_init__(self) -> None:
        """Refuse what does not fit together."""
        size = {len(each) for each in (self.values, self.own, self.names) if each is not None}
        if len(size) > 1 or np.ndim(self.values) != 1:
            raise ValueError("thresholds, names and flags do not fit each other.")
        if np.isnan(self.values).any():
            raise ValueError("a threshold must be a number; got NaN.")

    @property
    def facts(self) -> dict[str, str]:
        """Facts in a few words each, for people."""
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
            **({} if self.run is None else {"verdict": self.run.sentence}),
        }

    def __str__(self) -> str:
        """Return a line for every fact."""
        return text_of([[name, text] for name, text in self.facts.items()])

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        return html_table("thresholds", [], [[name, text] for name, text in self.facts.items()])

    def apply(self, scores: ScoresLike) -> LabelSets:
        """Return the labels whose scores reach their thresholds.

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
        """Return what `write` stores; a label never predicted has None, always "-inf"."""
        values = [_ENDS.get(value, value) for value in self.values.tolist()]
        return {
            "kind": "thresholds",
            "metric": self.metric,
            "value": self.value,
            "thresholds": values,
            "own": [bool(each) for each in self.own],
            "names": None if self.names is None else list(self.names),
            "run": None if self.run is None else self.run.to_dict(),
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
    with atomic_write(path) as file:
        file.write(json.dumps(thresholds.to_dict(), indent=1).encode() + b"\n")


def read(path: PathLike) -> Thresholds:
    """Read thresholds from a file of `write`.

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
    content = read_json(path)
    try:
        values = [_threshold(each) for each in _list(content["thresholds"], object)]
        own = np.array(_list(content["own"], bool), dtype=bool)
        names = None if content["names"] is None else tuple(_list(content["names"], str))
        metric, value = content["metric"], _number(content["value"])
        checks.one_of(metric, METRICS, "metric")
        run = None if content.get("run") is None else Run.from_dict(content["run"])
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(f"{path} holds no thresholds of `unmask threshold`.") from error
    try:
        return Thresholds(np.array(values, dtype=np.float64), metric, value, own, names, run)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _list(stored: object, kind: type[T]) -> list[T]:
    """Return a list of JSON with values of this kind only; ValueError for anything else."""
    if not isinstance(stored, list) or not all(isinstance(each, kind) for each in stored):
        raise ValueError(f"expected a list of {kind.__name__}")
    return stored


def _threshold(stored: object) -> float:
    named = {None: np.inf, _ENDS[-np.inf]: -np.inf}
    return named[stored] if stored is None or isinstance(stored, str) else _number(stored)


def _number(stored: object) -> float:
    """Return a finite number of JSON, which may also say NaN, Infinity, true or a text."""
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
    checks.one_of(metric, METRICS, "metric")
    observed = checks.labels(labels)
    matrix = scores_of(scores, observed, "a threshold")
    if not observed.nnz:
        raise ValueError("no label is observed in these rows; thresholds need some that are.")
    checks.in_range(prior, "prior", 0, np.inf)
    if metric != "cost" and tuple(cost) != (1.0, 1.0):
        by_cost = setting("metric", "cost", of="thresholds.fit")
        raise ValueError(f"cost has no effect on {metric}; leave it out, or choose {by_cost}.")
    inverse = inverse_of(propensity, observed)
    goal = _Goal(metric, *_costs(cost))
    plain = tried = _candidates(matrix, observed, inverse)
    if prior > 0:
        if propensity is None:
            of_labels = np.ones(observed.shape[1])
        elif checks.is_sparse(propensity):
            of_labels = label_propensities(observed, inverse)
        else:
            of_labels = checks.propensity(propensity, observed.shape[1])
        chances = fit_chances(matrix, observed, inverse, of_labels)
        tried = _drawn(chances, matrix, observed, inverse, prior)
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
    named = None if names is None else tuple(names)
    most = float(np.finfo(np.float32).max) / 2
    run = judge_propensities(np.clip(matrix, -most, most), observed, propensity)
    return Thresholds(values, metric, value, own, named, run)


def _costs(cost: tuple[float, float]) -> tuple[float, float]:
    """Check the costs of a wrong and a missing prediction."""
    pair = checks.numbers(cost, "cost")
    if pair.shape != (2,) or not (np.isfinite(pair) & (pair >= 0)).all():
        raise ValueError(
            "cost is a pair of numbers of 0 or more, of a wrong and of a missing prediction; got "
            f"{cost!r:.60}."
        )
    return float(pair[0]), float(pair[1])


def _groups(metric: str, per: Per | None, bands: Sequence[object] | None, n_labels: int) -> Ints:
    """Number the groups of labels; each group has one threshold."""
    chosen = per or ("band" if bands is not None else METRICS[metric])
    checks.one_of(chosen, ("all", "label", "band"), "per")
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
    """The function to maximise, from Σ v of hits, predictions, and Σ v of labels."""

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
        """Return Σ v and the number of pairs at a threshold that is a candidate, or above all."""
        above = np.flatnonzero(self.thresholds >= threshold)
        if not above.size:
            return 0.0, 0.0
        return float(self.hits[above[-1]]), float(self.predicted[above[-1]])


def _candidates(scores: Array, observed: sp.csr_array, inverse: Floats) -> list[_Candidates]:
    """Collect the scores at which every label is observed."""
    order = np.argsort(observed.indices, kind="stable")
    rows = entry_rows(observed)[order]
    starts = np.searchsorted(observed.indices[order], np.arange(observed.shape[1] + 1))
    tried = []
    for label in range(observed.shape[1]):
        own = slice(starts[label], starts[label + 1])
        column = scores[:, label]
        tried.append(_tried(column[rows[own]], inverse[order[own]], column))
    return tried


def _drawn(
    chances: Chances,
    scores: Array,
    observed: sp.csr_array,
    inverse: Floats,
    prior: float,
) -> list[_Candidates]:
    """Collect the scores of every label, v drawn to fitted probabilities: see the module."""
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
        sums = np.cumsum(share * chances.of_label(falling) + v[order])
        last = _last_of_equal(falling)
        if last.size > most:  # all near the top and fewer further down
            half = most // 2
            further = np.geomspace(half, last.size - 1, half).astype(np.int64)
            last = last[np.unique(np.r_[np.arange(half), further])]
        predicted = np.asarray(last + 1, dtype=np.float64)
        made.append(_Candidates(falling[last], sums[last], predicted, complete=True))
    return made


def _last_of_equal(falling: Floats) -> Ints:
    """Return the last places of equal scores."""
    return np.flatnonzero(np.r_[falling[1:] != falling[:-1], True][: falling.size])


def _by_group(scores: Array, by_label: list[_Candidates], group: Ints, goal: _Goal) -> Floats:
    """Give the best threshold of every group to its labels."""
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
    """Return thresholds of the largest 2H/(P + N) of all groups together: see the module."""
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
    """Return the threshold of the largest mean F1 of some labels, of quantiles of candidates."""
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
    last = _last_of_equal(ordered)
    thresholds = ordered[last]
    rising = np.sort(every.astype(np.float64))
    predicted = every.size - np.searchsorted(rising, thresholds, side="left")
    return _Candidates(thresholds, sums[last], predicted.astype(np.float64))


def _joined(scores: Array, by_label: list[_Candidates]) -> _Candidates:
    """Join the candidates of labels."""
    reached = np.concatenate([each.thresholds for each in by_label])
    weights = np.concatenate([np.diff(each.hits, prepend=0.0) for each in by_label])
    order = np.argsort(-reached, kind="stable")
    ordered, sums = reached[order], np.cumsum(weights[order])
    last = _last_of_equal(ordered)
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
    """Return the best threshold and its value; to predict nothing where nothing is better."""
    if not tried.thresholds.size:
        return np.inf, 0.0
    values = goal(tried.hits, tried.predicted, positives)
    best = int(np.argmax(values))
    nothing = float(goal(np.zeros(1), np.zeros(1), positives)[0])
    if nothing > values[best]:
        return np.inf, nothing
    return float(tried.thresholds[best]), float(values[best])


def _over_labels(values: Floats, by_label: list[_Candidates], scores: Array, goal: _Goal) -> float:
    """Return the value of thresholds: the corrected metric of observed labels, or the costs."""
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


BINS = 4096
"""Scores are calibrated in so many bins of equal size."""
SAMPLE = 1 << 22
"""Scores that decide where bins end."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """A rising curve from scores to probabilities of true labels.

    Parameters
    ----------
    method : str
    scores, probabilities : (B,) floats
        Points of the curve, both rising; straight lines between them, constant beyond.
    slope, intercept : float
        Of Platt's curve, where that is the method.

    Examples
    --------
    >>> curve = Calibration("isotonic", np.array([0.0, 1.0]), np.array([0.0, 0.5]))
    >>> curve.apply([[0.0, 0.5, 1.0]])
    array([[0.  , 0.25, 0.5 ]])
    """

    method: Method
    scores: Floats
    probabilities: Floats
    slope: float = 0.0
    intercept: float = 0.0

    def __str__(self) -> str:
        """Return the curve at a few scores."""
        return text_of([["score", "probability of a true label"], *self._points()])

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        return html_table(
            f"{self.method} calibration", ["score", "probability of a true label"], self._points()
        )

    def _points(self) -> list[list[str]]:
        if not self.scores.size:
            return []
        scores = np.linspace(self.scores[0], self.scores[-1], 9)
        shares = self.apply(scores[None])[0]
        return [[f"{s:.3g}", f"{p:.3f}"] for s, p in zip(scores, shares, strict=True)]

    def apply(self, scores: ScoresLike) -> Floats:
        """Return probabilities of true labels.

        Parameters
        ----------
        scores : (n, L) matrix

        Returns
        -------
        (n, L) floats in [0, 1]
        """
        values = checks.dense(scores, "scores", "label").astype(np.float64)
        if np.isnan(values).any():
            raise ValueError("scores must be numbers; got NaN.")
        if self.method == "platt":
            return np.asarray(expit(self.slope * values + self.intercept))
        return np.asarray(np.interp(values, self.scores, self.probabilities))


@named_options
def calibrate(
    scores: ScoresLike,
    labels: LabelsLike,
    propensity: PropensityLike | None = None,
    *,
    method: Method = "isotonic",
) -> Calibration:
    """Turn scores into probabilities of true labels, by one curve for all labels.

    Parameters
    ----------
    scores : (n, L) matrix
        Dense, of validation rows.
    labels : (n, L) matrix of 0 and 1
        The observed labels.
    propensity : (L,) floats in (0, 1], or (n, L) sparse matrix, optional
        Without it, labels are taken as complete.
    method : {"isotonic", "platt"}, default "isotonic"
        A rising step curve, or a logistic one.

    Returns
    -------
    Calibration

    Raises
    ------
    ValueError
        If shapes do not fit, scores are not finite, no label is observed, or propensities are so
        small that no logistic curve has numbers.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random((4000, 2))
    >>> observed = rng.random((4000, 2)) < scores * 0.5  # half of the true ones are seen
    >>> curve = calibrate(scores, observed, [0.5, 0.5])
    >>> bool(abs(curve.apply([[0.5, 0.8]]) - [[0.5, 0.8]]).max() < 0.1)
    True
    """
    checks.one_of(method, ("isotonic", "platt"), "method")
    observed = checks.labels(labels)
    matrix = scores_of(scores, observed, "calibration")
    if not observed.nnz:
        raise ValueError("no label is observed in these rows; calibration needs some that are.")
    if not np.isfinite(matrix).all():
        raise ValueError("calibration needs finite scores; got an infinite one.")
    inverse = inverse_of(propensity, observed)
    if method == "isotonic":
        return rising_curve(matrix, observed, inverse)
    centres, pairs, true = binned(matrix, observed, inverse)
    slope, intercept = platt(centres, pairs, true)
    return Calibration(method, centres, expit(slope * centres + intercept), slope, intercept)


def rising_curve(scores: Array, observed: sp.csr_array, inverse: Floats) -> Calibration:
    """Fit y/p by isotonic regression on the score."""
    centres, pairs, true = binned(scores, observed, inverse)
    fitted = isotonic_regression(true / pairs, weights=pairs).x
    return Calibration("isotonic", centres, np.clip(fitted, 0.0, 1.0))


def inverse_of(propensity: PropensityLike | None, observed: sp.csr_array) -> Floats:
    """Return 1/p of every observed label."""
    if propensity is None:
        return np.ones(observed.nnz)
    return reciprocal(checks.entry_propensity(propensity, observed))


def binned(scores: Array, observed: sp.csr_array, inverse: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the mean score, the number of pairs and Σ v of bins of scores."""
    flat = scores.ravel()
    sample = flat[:: max(1, flat.size // SAMPLE)].astype(np.float64)
    edges = np.unique(np.quantile(sample, np.linspace(0, 1, BINS + 1)))[1:-1]
    spot = np.searchsorted(edges, flat, side="right")
    size = edges.size + 1
    rows = entry_rows(observed)
    own = spot[rows * scores.shape[1] + observed.indices]
    pairs = np.bincount(spot, minlength=size).astype(np.float64)
    sums = np.bincount(spot, flat.astype(np.float64), minlength=size)
    true = np.bincount(own, inverse, minlength=size).astype(np.float64)
    used = pairs > 0
    return sums[used] / pairs[used], pairs[used], true[used]


def platt(scores: Floats, pairs: Floats, true: Floats) -> tuple[float, float]:
    """Fit slope and intercept by Newton's method on standardised scores, with halved steps."""
    centre = float(np.average(scores, weights=pairs))
    scale = float(np.sqrt(np.average((scores - centre) ** 2, weights=pairs))) or 1.0
    x = np.c_[(scores - centre) / scale, np.ones(scores.size)]
    with np.errstate(over="ignore"):
        share = min(max(float(true.sum() / pairs.sum()), 1e-9), 1 - 1e-9)
    w = np.array([0.0, np.log(share / (1 - share))])

    def loss(point: Floats) -> float:
        z = x @ point
        return float(pairs @ np.logaddexp(0.0, z) - true @ z) + 1e-6 * float(point @ point)

    with np.errstate(over="ignore", invalid="ignore"):
        w = _minimised(loss, x, pairs, true, w)
    if not np.isfinite(w).all():
        raise ValueError(
            "no logistic curve fits labels over propensities as small as these; use isotonic."
        )
    return float(w[0] / scale), float(w[1] - w[0] * centre / scale)


def _minimised(
    loss: Callable[[Floats], float], x: Floats, pairs: Floats, true: Floats, w: Floats
) -> Floats:
    """Minimise by Newton's method; NaN where something is not finite."""
    for _ in range(100):
        r = expit(x @ w)
        gradient = x.T @ (pairs * r - true) + 2e-6 * w
        curvature = (x * (pairs * r * (1 - r))[:, None]).T @ x + 2e-6 * np.eye(2)
        if not (np.isfinite(curvature).all() and np.isfinite(gradient).all()):
            return np.full(2, np.nan)
        step = np.linalg.solve(curvature, gradient)
        size = 1.0
        while size > 1e-9 and loss(w - size * step) > loss(w):
            size /= 2
        w = w - size * step
        if float(np.abs(size * step).max()) < 1e-10:
            break
    return w


TERMS = np.array([(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)])
"""Which of (1, score, u) are multiplied."""
PENALTY = np.array([0.0, 0.1, 0.1, 1.0, 1.0, 1.0])
"""Penalty of squared coefficients, the variables having mean 0 and variance 1."""
PAIRS = 1 << 16
"""Pairs of rows and labels that are fitted, beside observed ones; of more, a part is taken."""
STEPS = 50
"""Steps of the search for the largest likelihood; it mostly ends after ten."""


@dataclass(frozen=True, eq=False)
class Chances:
    """The chances of labels to be true, by their scores.

    Parameters
    ----------
    curve : Calibration
        Of all labels together.
    centre, scale : (2,) floats
        By which score and u are standardised.
    coefficients : (6,) floats
        Of `TERMS`.
    ends : pair of float
        Scores beyond are taken as these.
    """

    curve: Calibration
    centre: Floats
    scale: Floats
    coefficients: Floats
    ends: tuple[float, float]

    def of_label(self, falling: Floats) -> Floats:
        """Return probabilities that a label is true, by its scores in all rows, highest first."""
        finite = np.clip(falling, *self.ends)
        terms = _terms((_variables(finite) - self.centre) / self.scale)
        alike = np.interp(finite, self.curve.scores, self.curve.probabilities)
        return np.asarray((alike + expit(terms @ self.coefficients)) / 2)


def fit_chances(
    scores: Array, observed: sp.csr_array, inverse: Floats, propensity: Floats
) -> Chances:
    """Fit the chances of all labels to what was observed; `inverse` is 1/p of observed labels."""
    finite = scores[np.isfinite(scores)]
    ends = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    variables, weights, chances, is_observed = _sampled(scores, observed, propensity, ends)
    total = weights.sum()
    centre = weights @ variables / total
    scale = np.sqrt(weights @ (variables - centre) ** 2 / total)
    scale[scale == 0] = 1.0
    terms = _terms((variables - centre) / scale)
    coefficients = _maximized(terms, weights, chances, is_observed)
    curve = rising_curve(np.clip(scores, *ends), observed, inverse)
    return Chances(curve, centre, scale, coefficients, ends)


def _variables(falling: Floats) -> Floats:
    """Return the scores of a label, the highest first, and u."""
    reached = falling.size - np.searchsorted(falling[::-1], falling, side="left")
    return np.column_stack([falling, np.log(reached / falling.size)])


def _terms(variables: Floats) -> Floats:
    """Return 1, both variables and their products, a column each."""
    with_one = np.column_stack([np.ones(len(variables)), variables])
    return np.asarray(with_one[:, TERMS[:, 0]] * with_one[:, TERMS[:, 1]])


def _sampled(
    scores: Array, observed: sp.csr_array, propensity: Floats, ends: tuple[float, float]
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return variables, weights, propensities and flags of observation of the pairs to be fitted.

    Of many pairs, those are taken that were observed or are among the highest of their label, and
    every so many of the others, which then count as many times.
    """
    n, n_labels = scores.shape
    entries = observed.tocsc()
    near, stride = n, 1
    if n * n_labels > PAIRS:
        near = PAIRS // 2 // n_labels
        stride = -(-(n - near) * n_labels // (PAIRS // 2))
    variables, weights, flags, sizes = [], [], [], []
    for label in range(n_labels):
        column = np.clip(scores[:, label].astype(np.float64), *ends)
        order = np.argsort(-column, kind="stable")
        is_observed = np.zeros(n)
        is_observed[entries.indices[entries.indptr[label] : entries.indptr[label + 1]]] = 1.0
        is_observed = is_observed[order]
        weight = _weights(is_observed, near, stride, label)
        taken = np.flatnonzero(weight)
        variables.append(_variables(column[order])[taken])
        weights.append(weight[taken])
        flags.append(is_observed[taken])
        sizes.append(taken.size)
    return (
        np.concatenate(variables), np.concatenate(weights), np.repeat(propensity, sizes),
        np.concatenate(flags),
    )  # fmt: skip


def _weights(is_observed: Floats, near: int, stride: int, label: int) -> Floats:
    """Weigh the rows of a label, in the order of their scores; 0 for those left out.

    >>> _weights(np.array([0.0, 0, 0, 1, 0, 0]), near=1, stride=3, label=1)
    array([1., 0., 3., 1., 0., 3.])
    """
    place = np.arange(is_observed.size)
    chosen = (place + label) % stride == 0
    return np.where((place < near) | (is_observed > 0), 1.0, np.where(chosen, float(stride), 0.0))


def _maximized(terms: Floats, weights: Floats, propensity: Floats, is_observed: Floats) -> Floats:
    """Maximise the penalised likelihood by Fisher scoring with halved steps."""

    def loss(point: Floats) -> float:
        chance = np.clip(propensity * expit(terms @ point), 1e-300, 1 - 1e-16)
        likelihood = is_observed * np.log(chance) + (1 - is_observed) * np.log1p(-chance)
        return float(PENALTY @ point**2 - weights @ likelihood)

    share = float(weights @ is_observed) / float(weights @ propensity)
    share = min(max(share, 1e-9), 1 - 1e-9)
    point: Floats = np.r_[np.log(share / (1 - share)), np.zeros(len(PENALTY) - 1)]
    reached = loss(point)
    for _ in range(STEPS):
        r = expit(terms @ point)
        hidden = np.maximum(1 - propensity * r, 1e-16)
        slopes = np.where(is_observed > 0, 1 - r, -propensity * r * (1 - r) / hidden)
        gradient = terms.T @ (weights * slopes) - 2 * PENALTY * point
        curvature = weights * propensity * r * (1 - r) ** 2 / hidden
        information = (terms * curvature[:, None]).T @ terms + np.diag(2 * PENALTY + 1e-9)
        step = np.linalg.solve(information, gradient)
        size = 1.0
        while size > 1e-6 and loss(point + size * step) > reached:
            size /= 2
        before, point = reached, point + size * step
        reached = loss(point)
        if before - reached < 1e-6 * (1 + abs(reached)):
            break
    return point


def label_propensities(observed: sp.csr_array, inverse: Floats) -> Floats:
    """Return a propensity per label from those of entries: their harmonic mean, or that of all.

    >>> observed = sp.csr_array([[1.0, 0.0], [1.0, 0.0]])
    >>> label_propensities(observed, np.array([2.0, 4.0])).round(3)
    array([0.333, 0.333])
    """
    counts: Ints = np.bincount(observed.indices, minlength=observed.shape[1])
    sums = np.bincount(observed.indices, inverse, minlength=observed.shape[1])
    overall = counts.sum() / sums.sum()
    return np.where(counts > 0, counts / np.maximum(sums, 1e-300), overall)
