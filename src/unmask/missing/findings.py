"""Findings: pairs of a row and a label that are probably missing or wrong, and their quality.

`find` ranks the pairs that are not observed by P(missing), and adds up how many are to be expected,
per row, per label and in all. `suspicious` ranks observed pairs by P(wrong).

Probabilities are those of *true* labels, of a model that was not trained on the row itself
(cross-fitted), and calibrated: a model that has learnt a row's labels by heart finds nothing in it.
Sparse probabilities and lists name the pairs that are considered; all others are taken as
impossible. Rows are taken block by block, so that nothing larger than the probabilities is made.

With r = P(Y* = 1 | x), p = P(Y = 1 | Y* = 1) and ε = P(Y = 1 | Y* = 0), Bayes' rule gives

    P(missing) = r (1 − p) / (1 − p r − ε (1 − r)),       of a pair that is not observed
    P(wrong)   = (1 − r) ε / ((1 − r) ε + r p),           of a pair that is observed

The odds of the first are r (1 − p) : (1 − r)(1 − ε). They are computed as such: without a
difference that loses digits, and by operations each of which rises or falls with r, so that of two
pairs of a label the one with the larger r never has the smaller P(missing), near to 1 as both be.

Where the labels of a row are kept or lost together (row effort e, rows that nobody annotated), what
a row shows says how much effort went into it. With true labels independent given x,

    P(e | row) ∝ P(e) Π_observed p(e) Π_unobserved (1 − p(e) r),

and P(missing) is the mean of the first formula over it.

**How good are findings?** `rehearse` hides a share h of the observed labels, lets the caller make
probabilities anew from what is left, and looks which hidden labels come back. Propensities of the
rest are p' = (1 − h) p. A missing label is one of those just hidden with chance b = h p / (1 − p'),
so that

    Σ_findings [came back] / b

estimates how many findings are right, without any truth: unbiased if labels go missing as stated.
`measure` needs no such assumption: among judged rows or pairs of an audit it counts which findings
are right, and which missing labels are among the findings, weighted by inclusion probabilities.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.special import ndtri

from unmask._kernels import even_bounds
from unmask._messages import named_options, setting
from unmask._names import Strings
from unmask._text import html_table
from unmask._typing import (
    Array,
    Bools,
    Floats,
    Ints,
    LabelsLike,
    PathLike,
    PropensityLike,
    ScoresLike,
)
from unmask.arrays import checks
from unmask.arrays.checks import pair_keys
from unmask.data import Dataset
from unmask.data.judgements import Judgements
from unmask.data.synthetic import hide
from unmask.files.tables import write_columns
from unmask.metrics.claims import Run
from unmask.metrics.evaluation import judge_propensities
from unmask.metrics.intervals import wilson, z_quantile
from unmask.predictions import TopK
from unmask.propensity.mask_model import MaskModel, RowEffort, look_up
from unmask.propensity.models import Source

TOP = 1000
BLOCK = 1 << 21
"""Pairs of a block of rows."""
SPURIOUS = 0.02
"""The share of observed labels that `suspicious` takes to be wrong unless it is stated."""
DRAWS = 20
"""Draws of propensities that are not certain."""
FORMATS = ("csv", "tsv", "jsonl", "parquet")


@dataclass(frozen=True, eq=False)
class Findings:
    """Pairs of row and label, likeliest first, and how many are to be expected.

    Parameters
    ----------
    kind : {"missing", "wrong"}
        Whether labels that are not observed are true, or observed ones are not.
    rows, labels : (m,) integers
        The pairs.
    probability : (m,) floats
        P(missing) or P(wrong), falling; equal ones by r, the likelier first, or for P(wrong) last.
    shape : (int, int)
        Rows n and labels L of the data.
    by_row, by_label : (n,) and (L,) floats
        Expected numbers, over all pairs that were considered, not only those listed.
    variance : float
        Of the number in all, were the probabilities exact and pairs independent; with what is not
        known of estimated propensities.
    considered : int
        How many pairs have a probability.
    clipped : int, default 0
        How many probabilities of being observed were larger than the propensity, and r was set
        to 1.
    implied : float, default nan
        How many are missing by the propensities alone: Σ (1 − p)/p over observed labels. A
        calibrated model agrees with it.
    implied_variance : float, default nan
        Its variance, Σ (1 − p)/p².
    source : Source, default stated
        Where the propensities come from.
    ids : n strings, optional
    names : L strings, optional
    run : Run, optional
        The standing of the propensities, judged by the same probabilities (or scores) and labels.

    Examples
    --------
    >>> findings = find([[0.9, 0.5]], [[1, 0]], [0.5, 0.5])
    >>> findings.rows, findings.labels, findings.probability.round(3)
    (array([0]), array([1]), array([0.333]))
    """

    kind: str
    rows: Ints
    labels: Ints
    probability: Floats
    shape: tuple[int, int]
    by_row: Floats
    by_label: Floats
    variance: float
    considered: int
    clipped: int = 0
    implied: float = float("nan")
    implied_variance: float = float("nan")
    source: Source = field(default_factory=Source)
    ids: Strings | None = None
    names: tuple[str, ...] | None = None
    run: Run | None = None

    def __len__(self) -> int:
        """Return how many pairs are listed."""
        return self.rows.size

    @property
    def expected(self) -> float:
        """The number to be expected in all."""
        return float(self.by_row.sum())

    @property
    def expected_interval(self) -> tuple[float, float]:
        """The 95 % interval of that number, were the probabilities exact; see `implied_interval`.

        Returns
        -------
        pair of floats, none below 0
        """
        return _interval(self.expected, self.variance)

    @property
    def implied_interval(self) -> tuple[float, float]:
        """The 95 % interval of the number missing by the propensities alone."""
        return _interval(self.implied, self.implied_variance)

    def first(self, count: int) -> Findings:
        """Return the likeliest `count` of the pairs; expected numbers stay those of all."""
        kept = slice(0, checks.positive_int(count, "count"))
        return replace(
            self,
            rows=self.rows[kept],
            labels=self.labels[kept],
            probability=self.probability[kept],
        )

    def row_name(self, row: int) -> str:
        """Return the id of a row, or its number."""
        return str(row) if self.ids is None else self.ids[row]

    def label_name(self, label: int) -> str:
        """Return the name of a label, or its number."""
        return str(label) if self.names is None else self.names[label]

    def table(self) -> dict[str, list[str | float]]:
        """Return columns `id`, `label` and `probability`, by name where there are names."""
        return {
            "id": [self.row_name(row) for row in self.rows.tolist()],
            "label": [self.label_name(label) for label in self.labels.tolist()],
            "probability": self.probability.round(6).tolist(),
        }

    def write(self, path: PathLike, *, format: str | None = None) -> None:
        """Write the pairs as a table.

        Parameters
        ----------
        path : str or path
            Ending in .csv, .tsv, .jsonl or .parquet.
        format : str, optional
            One of these, where the ending does not say it.

        Raises
        ------
        ValueError
            If there is no such format.
        """
        ending = str(path).rpartition(".")[2].lower() if format is None else format
        write_columns(path, checks.one_of(ending, FORMATS, "format"), self.table())

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON: the numbers in all, and the listed pairs."""
        low, high = self.expected_interval
        return {
            "kind": self.kind,
            "rows": self.shape[0],
            "labels": self.shape[1],
            "considered": self.considered,
            "expected": self.expected,
            "expected_interval": [low, high],
            "implied": self.implied,
            "implied_interval": list(self.implied_interval),
            "clipped": self.clipped,
            "propensities": self.source.to_dict(),
            "run": None if self.run is None else self.run.to_dict(),
            "pairs": [
                {"id": id, "label": label, "probability": chance}
                for id, label, chance in zip(*self.table().values(), strict=True)
            ],
        }

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the number expected, and the likeliest pairs."""
        low, high = self.expected_interval
        caption = f"{self.expected:,.0f} labels are probably {self.kind} ({low:,.0f} to {high:,.0f}"
        caption += f", if {self.source.assumption})"
        columns = self.first(20).table() if len(self) else self.table()
        cells = [list(row) for row in zip(*columns.values(), strict=True)]
        notes = [] if self.run is None else [self.run.sentence]
        return html_table(caption, list(columns), cells, notes)


@named_options
def find(
    probabilities: TopK | ScoresLike,
    labels: LabelsLike | Dataset,
    propensity: PropensityLike,
    *,
    observed: bool = False,
    top: int = TOP,
    scores: TopK | ScoresLike | None = None,
) -> Findings:
    """Find the labels that are probably missing.

    Parameters
    ----------
    probabilities : (n, L) dense or sparse floats in [0, 1], or TopK
        Of true labels given the features, out of fold and calibrated. Pairs that are not stored or
        not listed are taken as impossible.
    labels : (n, L) matrix of 0 and 1, or Dataset
        Observed labels. Of a data set, ids and names go with the findings, and pairs that are
        judged or ignored are not asked about.
    propensity : (L,) floats in (0, 1], or MaskModel
        How likely a true label is observed. Row effort, unannotated rows, wrong labels and a slope
        on the score are allowed for.
    observed : bool, default False
        Whether `probabilities` are of being *observed*; then r = q/p, at most 1. Pairs that reach 1
        stand in the order of q/p.
    top : int, default 1000
        How many pairs to list.
    scores : TopK or (n, L) dense or sparse, optional
        The model's scores, which a mask model with a slope on them needs.

    Returns
    -------
    Findings

    Raises
    ------
    ValueError
        If shapes do not fit, a number is no probability, or a slope lacks its scores.

    References
    ----------
    Elkan & Noto, *Learning classifiers from only positive and unlabeled data* (2008).

    Examples
    --------
    >>> findings = find([[0.9, 0.5], [0.2, 0.8]], [[1, 0], [0, 0]], [0.5, 0.25], top=2)
    >>> findings.rows, findings.labels, findings.probability.round(3), round(findings.expected, 3)
    (array([1, 0]), array([1, 1]), array([0.75 , 0.429]), 1.29)
    """
    mask = MaskModel.of(propensity)
    findings = _gather("missing", probabilities, labels, mask, observed, top, scores)
    judged_by = probabilities if scores is None else scores
    findings = replace(findings, run=judge_propensities(judged_by, labels, propensity))
    if mask.certain:
        return findings
    totals = [
        _gather("missing", probabilities, labels, drawn, observed, 1, scores).expected
        for drawn in mask.draw(0, DRAWS)
    ]
    return replace(findings, variance=findings.variance + float(np.var(totals, ddof=1)))


@named_options
def suspicious(
    probabilities: TopK | ScoresLike,
    labels: LabelsLike | Dataset,
    propensity: PropensityLike,
    *,
    spurious: float | None = None,
    top: int = TOP,
) -> Findings:
    """Find the observed labels that are probably wrong.

    Parameters
    ----------
    probabilities : (n, L) dense or sparse floats in [0, 1], or TopK
        As in `find`; an observed pair that is not listed has the smallest probability of all that
        are.
    labels : (n, L) matrix of 0 and 1, or Dataset
        Observed labels.
    propensity : (L,) floats in (0, 1], or MaskModel
        How likely a true label is observed.
    spurious : float in (0, 0.5], optional
        The share of the observed labels that are wrong; by default what the mask model says, else
        0.02. The order within a label does not depend on it.
    top : int, default 1000
        How many pairs to list.

    Returns
    -------
    Findings
        Of the kind "wrong".

    Raises
    ------
    ValueError
        If shapes do not fit, or a number is out of its range.

    Examples
    --------
    >>> findings = suspicious([[0.9, 0.01], [0.8, 0.3]], [[1, 1], [1, 1]], [0.5, 0.5], top=1)
    >>> findings.rows, findings.labels
    (array([0]), array([1]))
    """
    mask = MaskModel.of(propensity)
    share = spurious if spurious is not None else mask.spurious or SPURIOUS
    checks.in_range(share, "spurious", np.finfo(float).tiny, 0.5)
    mask = replace(mask, spurious=share)
    findings = _gather("wrong", probabilities, labels, mask, False, top, None)
    return replace(findings, run=judge_propensities(probabilities, labels, propensity))


class _Pairs(NamedTuple):
    """Pairs of a block of rows; evidence orders those of equal chance."""

    rows: Ints
    labels: Ints
    chance: Floats
    evidence: Floats
    observed: Bools


def _gather(
    kind: str,
    probabilities: TopK | ScoresLike,
    labels: LabelsLike | Dataset,
    mask: MaskModel,
    observed: bool,
    top: int,
    scores: TopK | ScoresLike | None,
) -> Findings:
    dataset = labels if isinstance(labels, Dataset) else None
    if dataset is not None and dataset.labels is None:
        raise ValueError("the data set has no labels.")
    matrix = checks.labels(labels if dataset is None else dataset.labels)
    count = checks.positive_int(top, "top")
    p = checks.propensity(mask.value, matrix.shape[1])
    rate = mask.false_rate(matrix) if mask.spurious else np.zeros(p.size)
    judged = None
    if dataset is not None and dataset.judgements is not None:
        judged = pair_keys(dataset.judgements)
    chances = _checked(probabilities, matrix)
    slope = mask.score_slope
    if slope is not None and scores is None and kind == "missing":
        raise ValueError(
            f"the mask depends on the model's scores; give {setting('scores', of='missing.find')}, "
            "or `mask.value` in place of the mask."
        )
    own_scores = None if slope is None or scores is None else _checked(scores, matrix, "scores")
    by_row, by_label = np.zeros(matrix.shape[0]), np.zeros(matrix.shape[1])
    best = _Pairs(*(np.zeros(0, t) for t in (np.int64, np.int64, np.float64, np.float64, bool)))
    variance, considered, clipped = 0.0, 0, 0
    width = chances.k if isinstance(chances, TopK) else matrix.shape[1]
    if checks.is_sparse(chances):
        width = chances.nnz // max(1, matrix.shape[0])
    for start, stop in pairwise(even_bounds(matrix.shape[0], width, BLOCK).tolist()):
        pairs = _pairs(chances, matrix, start, stop)
        r, chance = pairs.chance, p[pairs.labels]
        if observed:
            clipped += int((r > chance).sum())
            r = r / chance
        evidence, r = r if kind == "missing" else -r, np.minimum(r, 1.0)
        if slope is not None and own_scores is not None:
            rows, columns, values = _listed(own_scores, start, stop)
            wide = matrix.shape[1]
            scored = look_up(rows * wide + columns, values, pairs.rows * wide + pairs.labels)
            chance = slope.at(mask.value, pairs.labels, scored)
        if kind == "wrong":
            value, wanted = wrong(r, chance, rate[pairs.labels]), pairs.observed
        else:
            value, wanted = _missing(r, chance, pairs, start, mask, rate), ~pairs.observed
        if judged is not None:
            wanted &= ~np.isin(pairs.rows * matrix.shape[1] + pairs.labels, judged)
        value, evidence = value[wanted], evidence[wanted]
        rows, columns = pairs.rows[wanted], pairs.labels[wanted]
        by_row += np.bincount(rows, value, by_row.size)
        by_label += np.bincount(columns, value, by_label.size)
        variance += float((value * (1.0 - value)).sum())
        considered += value.size
        candidates = _Pairs(rows, columns, value, evidence, np.zeros(value.size, bool))
        best = _best(best, candidates, count)
    names = dataset.label_names if dataset is not None else None
    if names is None and isinstance(probabilities, TopK):
        names = probabilities.names
    own = mask.value[matrix.indices]
    return Findings(
        kind, best.rows, best.labels, best.chance, matrix.shape, by_row, by_label, variance,
        considered, clipped, float(((1 - own) / own).sum()), float(((1 - own) / own**2).sum()),
        mask.source, None if dataset is None else dataset.ids, names,
    )  # fmt: skip


def _missing(
    r: Floats, p: Floats, pairs: _Pairs, start: int, mask: MaskModel, rate: Floats
) -> Floats:
    effort, of_pairs = mask.effort, rate[pairs.labels]
    if effort is None:
        return unobserved(r, p, of_pairs)
    return by_effort(r, p, pairs.rows - start, pairs.observed.astype(np.float64), effort, of_pairs)


def _checked(
    values: TopK | ScoresLike, labels: sp.csr_array, name: str = "probabilities"
) -> TopK | Floats | sp.csr_array:
    """Check probabilities, in [0, 1] and of the same rows and labels; they keep their form."""
    if isinstance(values, TopK):
        if values.labels.shape[0] != labels.shape[0]:
            raise ValueError(
                f"{name} of {values.labels.shape[0]} rows for {labels.shape[0]} rows of labels; "
                "give those of the same rows, in their order."
            )
        if values.labels.max(initial=-1) >= labels.shape[1]:
            raise ValueError(
                f"{name} name label {values.labels.max()}, but there are {labels.shape[1]} labels."
            )
        checked: TopK | Floats | sp.csr_array = values
        numbers: Array = values.scores[values.labels >= 0]
    elif checks.is_sparse(values):
        checked = checks.matrix(values, name=name, column="label")
        checks.same_shape(checked, labels, name, "labels")
        numbers = checks.finite(checked.data, name)
    else:
        checked = checks.finite(checks.dense(values, name, "label"), name)
        checks.same_shape(checked, labels, name, "labels")
        numbers = checked
    if name == "probabilities" and numbers.size and not 0 <= numbers.min() <= numbers.max() <= 1:
        wrong = numbers.min() if numbers.min() < 0 else numbers.max()
        raise ValueError(
            f"probabilities must lie in [0, 1]; got {wrong:g}. Scores become probabilities by "
            "`thresholds.calibrate`, or `linear.probabilities`."
        )
    return checked


def _pairs(
    chances: TopK | Floats | sp.csr_array, labels: sp.csr_array, start: int, stop: int
) -> _Pairs:
    """Return all pairs of the block with a probability, and the observed ones, row by row."""
    own = labels[start:stop].tocoo()
    rows, columns, values = _listed(chances, start, stop)
    width = labels.shape[1]
    keys = (rows - start) * width + columns
    shown = np.sort(own.row.astype(np.int64) * width + own.col)
    place = np.minimum(np.searchsorted(shown, keys), max(shown.size - 1, 0))
    is_observed = shown[place] == keys if shown.size else np.zeros(keys.size, bool)
    absent = np.setdiff1d(shown, keys[is_observed], assume_unique=True)
    lowest = float(values.min(initial=1.0)) if values.size else 0.0
    chance = np.r_[values, np.full(absent.size, lowest)]
    return _Pairs(
        np.r_[rows, absent // width + start],
        np.r_[columns, absent % width],
        chance,
        chance,
        np.r_[is_observed, np.ones(absent.size, bool)],
    )


def _listed(
    chances: TopK | Floats | sp.csr_array, start: int, stop: int
) -> tuple[Ints, Ints, Floats]:
    if isinstance(chances, TopK):
        row, place = np.nonzero(chances.labels[start:stop] >= 0)
        labels, scores = chances.labels[start:stop], chances.scores[start:stop]
        return row + start, labels[row, place].astype(np.int64), scores[row, place].astype(float)
    if checks.is_sparse(chances):
        part = chances[start:stop].tocoo()
        values = part.data.astype(np.float64)
        return part.row.astype(np.int64) + start, part.col.astype(np.int64), values
    block = np.asarray(chances[start:stop], dtype=np.float64)
    height, width = block.shape
    rows = np.repeat(np.arange(start, start + height), width)
    return rows, np.tile(np.arange(width), height), block.ravel()


def _best(first: _Pairs, second: _Pairs, count: int) -> _Pairs:
    """Return the likeliest `count` of both; equal ones by evidence, then by row and label."""
    chance, evidence = (np.r_[a, b] for a, b in zip(first[2:4], second[2:4], strict=True))
    kept: Ints = np.arange(chance.size)
    if chance.size > count:
        least = np.partition(chance, chance.size - count)[chance.size - count]
        kept = np.flatnonzero(chance >= least)
    rows, labels = np.r_[first.rows, second.rows], np.r_[first.labels, second.labels]
    order = np.lexsort((labels[kept], rows[kept], -evidence[kept], -chance[kept]))
    kept = kept[order[:count]]
    empty = np.zeros(kept.size, bool)
    return _Pairs(rows[kept], labels[kept], chance[kept], evidence[kept], empty)


def _interval(value: float, variance: float) -> tuple[float, float]:
    reach = float(ndtri(0.975)) * float(np.sqrt(variance))
    return max(0.0, value - reach), value + reach


@named_options
def posterior(probability: ArrayLike, propensity: ArrayLike, false_rate: ArrayLike = 0.0) -> Floats:
    """Return P(true | not observed) of labels that are true with these probabilities.

    Parameters
    ----------
    probability : floats in [0, 1]
        r, of true labels.
    propensity : floats in (0, 1]
        p, of the same shape or one that broadcasts.
    false_rate : floats in [0, 1), default 0
        ε, how likely a label is observed that is not true.

    Returns
    -------
    floats
        Of the common shape. Where a label cannot be unobserved (p = r = 1) it is 0.

    Raises
    ------
    ValueError
        If a number is out of its range.

    References
    ----------
    Elkan & Noto, *Learning classifiers from only positive and unlabeled data* (2008), section 2.

    Examples
    --------
    >>> posterior([0.5, 0.9], 0.25).round(3)
    array([0.429, 0.871])
    """
    r = checks.finite(checks.numbers(probability, "probabilities"), "probabilities")
    p = checks.numbers(propensity, "propensities").astype(np.float64)
    rate = checks.numbers(false_rate, "false rates").astype(np.float64)
    for values, name, inside in (
        (r, "probabilities must lie in [0, 1]", (r >= 0) & (r <= 1)),
        (p, "propensities must lie in (0, 1]", (p > 0) & (p <= 1)),
        (rate, "false rates must lie in [0, 1)", (rate >= 0) & (rate < 1)),
    ):
        if not inside.all():
            raise ValueError(f"{name}; got {values[~inside].flat[0]:g}.")
    return unobserved(r.astype(np.float64), p, rate)


def unobserved(r: Floats, p: Floats, false_rate: Floats | float = 0.0) -> Floats:
    """Return P(true | not observed) of checked numbers."""
    hidden, absent = np.broadcast_arrays(r * (1.0 - p), (1.0 - r) * (1.0 - false_rate))
    with np.errstate(over="ignore"):
        odds = np.divide(absent, hidden, out=np.full(hidden.shape, np.inf), where=hidden > 0)
    return np.asarray(1.0 / (1.0 + odds))


def wrong(r: Floats, p: Floats, false_rate: Floats) -> Floats:
    """Return P(not true | observed) of checked numbers; 0 if nothing wrong is ever observed."""
    spurious = (1.0 - r) * false_rate
    return np.asarray(spurious / np.maximum(spurious + r * p, 1e-300))


def by_effort(
    r: Floats, p: Floats, rows: Ints, is_observed: Floats, effort: RowEffort, false_rate: Floats
) -> Floats:
    """Return P(missing) of pairs whose rows say how much effort went into them.

    All pairs that are observed or may be true must be among them; `is_observed` is 1 or 0. Only the
    results of unobserved pairs mean something.
    """
    weights = (1.0 - effort.unannotated) * np.array(effort.weights)
    chances = [effort.propensity_at(p, np.array(point)) for point in effort.points]
    if effort.unannotated:
        weights, chances = np.r_[weights, effort.unannotated], [*chances, np.zeros_like(p)]
    count = int(rows.max(initial=-1)) + 1
    logs, hidden = np.empty((len(chances), count)), []
    for index, chance in enumerate(chances):
        rate = false_rate if chance.any() else np.zeros_like(p)
        shown = chance * r + rate * (1.0 - r)
        likely = np.where(is_observed > 0, shown, 1.0 - shown)
        logs[index] = np.log(weights[index]) + np.bincount(
            rows, np.log(np.maximum(likely, 1e-300)), count
        )
        hidden.append(unobserved(r, chance, rate))
    share = np.exp(logs - logs.max(axis=0))
    share /= share.sum(axis=0)
    return np.asarray(sum(share[i][rows] * each for i, each in enumerate(hidden)))


SHARE = 0.1
BINS, FEWEST = 10, 10
Share = tuple[float, tuple[float, float]]
"""A share and its interval."""
Fit: TypeAlias = "Callable[[sp.csr_array, Floats], TopK | ScoresLike]"
"""Probabilities of true labels from observed labels and their propensities, out of fold."""


@dataclass(frozen=True)
class Bin:
    """Findings of similar probability.

    Parameters
    ----------
    size : int
    stated : float
        The mean of their probabilities.
    right : float
        The estimated share that is truly missing.
    interval : pair of floats
        Of that share, 95 %.

    Examples
    --------
    >>> Bin(100, 0.9, 0.87, (0.7, 0.95)).size
    100
    """

    size: int
    stated: float
    right: float
    interval: tuple[float, float]


@dataclass(frozen=True, eq=False)
class Quality:
    """The quality of findings.

    Parameters
    ----------
    way : {"rehearsed", "measured"}
        By labels hidden on top, which takes propensities to be right; or with an audit.
    precision : float
        The share of the listed findings that are truly missing; rehearsed, an unbiased estimate
        that chance can lift above 1.
    precision_interval : pair of floats
    recall : float
        The share of the missing labels (hidden on top, or judged) that are listed.
    recall_interval : pair of floats
    bins : tuple of Bin
        By probability, likeliest first.
    tried : int
        How many labels were hidden on top, or how many findings were judged.

    Examples
    --------
    >>> Quality("rehearsed", 0.9, (0.8, 0.95), 0.5, (0.4, 0.6), (), 100).calibration_error
    nan
    """

    way: str
    precision: float
    precision_interval: tuple[float, float]
    recall: float
    recall_interval: tuple[float, float]
    bins: tuple[Bin, ...]
    tried: int

    @property
    def calibration_error(self) -> float:
        """The mean of |stated − right| over the findings, bin by bin."""
        total = sum(each.size for each in self.bins)
        off = sum(each.size * abs(each.stated - each.right) for each in self.bins)
        return off / total if total else float("nan")

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        own = {name: getattr(self, name) for name in ("way", "precision", "recall", "tried")}
        return {
            **own,
            "precision_interval": list(self.precision_interval),
            "recall_interval": list(self.recall_interval),
            "calibration_error": self.calibration_error,
            "bins": [vars(each) | {"interval": list(each.interval)} for each in self.bins],
        }

    def _repr_html_(self) -> str:
        """Return what a notebook shows: precision, recall, and stated against estimated shares."""
        low, high = self.precision_interval
        caption = f"{self.precision:.0%} of the findings are right ({low:.0%} to {high:.0%}), "
        caption += f"{self.recall:.0%} of the missing labels are among them ({self.way})"
        rows = [[e.size, f"{e.stated:.3f}", f"{e.right:.3f}"] for e in self.bins]
        return html_table(caption, ["findings", "stated", "right"], rows)


@named_options
def rehearse(
    fit: Fit,
    labels: LabelsLike,
    propensity: PropensityLike,
    *,
    top: int = 1000,
    share: float = SHARE,
    seed: int = 0,
) -> Quality:
    """Hide some observed labels, find missing ones anew, and see what comes back.

    Parameters
    ----------
    fit : function (labels, propensity) → probabilities
        Trains on labels (n, L) of which more are hidden than of `labels`, with the propensities
        that they have, and returns probabilities of true labels, out of fold.
    labels : (n, L) matrix of 0 and 1
        Observed labels.
    propensity : (L,) floats in (0, 1]
        How likely a true label is observed.
    top : int, default 1000
        How many findings are looked at.
    share : float in (0, 0.5], default 0.1
        Of the observed labels, to be hidden on top.
    seed : int, default 0
        Decides which.

    Returns
    -------
    Quality
        Of findings on a little fewer labels than there are: slightly pessimistic.

    Raises
    ------
    ValueError
        If shapes do not fit, a number is out of range, or nothing was hidden.

    Examples
    --------
    >>> from unmask import data
    >>> true = data.synthetic.planted(500, n_labels=6, seed=0).labels
    >>> observed = data.hide(true, [0.5] * 6, seed=1)
    >>> quality = rehearse(lambda labels, p: 0.1 + 0.8 * true.toarray(), observed, [0.5] * 6)
    >>> quality.recall
    1.0
    """
    observed = checks.labels(labels)
    p = checks.propensity(propensity, observed.shape[1])
    checks.in_range(share, "share", np.finfo(float).tiny, 0.5)
    kept = hide(observed, np.full(p.size, 1.0 - share), seed=seed)
    rest = (1.0 - share) * p
    held = np.setdiff1d(pair_keys(observed), pair_keys(kept))
    if not held.size:
        raise ValueError("no label was hidden on top; there are too few, or the share is small.")
    findings = find(fit(kept, rest), kept, rest, top=top)
    back = share * p / (1.0 - rest)
    keys = findings.rows * p.size + findings.labels
    returned, chance = np.isin(keys, held).astype(np.float64), back[findings.labels]
    bins = tuple(
        Bin(
            part.stop - part.start,
            float(findings.probability[part].mean()),
            *_returned_share(returned[part], chance[part]),
        )
        for part in _bins(len(findings), float(chance.sum()))
    )
    recall = float(returned.sum()) / held.size
    return Quality(
        "rehearsed",
        *_returned_share(returned, chance),
        recall,
        _wilson(recall, held.size),
        bins,
        int(held.size),
    )


def measure(findings: Findings, judgements: Judgements, labels: LabelsLike) -> Quality:
    """Measure findings by an audit of the same rows.

    Parameters
    ----------
    findings : Findings
        Of missing labels.
    judgements : Judgements
        Of an audit of rows or pairs (`unmask.audit`), planned without looking at the findings.
    labels : (n, L) matrix of 0 and 1
        The observed labels.

    Returns
    -------
    Quality
        Assuming nothing of what hid the labels.

    Raises
    ------
    ValueError
        If the audit is of other data, or none of the findings was judged.

    Examples
    --------
    >>> from unmask import TopK, audit, missing
    >>> labels, truth = [[1, 0]] * 8, np.array([[1, 1]] * 8)
    >>> plan = audit.plan(TopK([[0]] * 8, [[1.0]] * 8), labels, budget=4)
    >>> judged = audit.from_rows(plan, truth[plan.rows])
    >>> measure(missing.find([[0.9, 0.8]] * 8, labels, [0.5, 0.5]), judged, labels).precision
    1.0
    """
    observed = checks.labels(labels)
    sample, width = judgements.sample, observed.shape[1]
    if not sample.shape == observed.shape == findings.shape:
        raise ValueError(
            f"the audit is of {sample.shape} rows and labels, the labels of {observed.shape}, the "
            f"findings of {findings.shape}; give those of the same data."
        )
    asked, true, chance = _answers(judgements, width)
    hidden = ~np.isin(asked, pair_keys(observed))
    asked, true, chance = asked[hidden], true[hidden], chance[hidden]
    keys = findings.rows * width + findings.labels
    order = np.argsort(keys)
    place = np.minimum(np.searchsorted(keys[order], asked), max(keys.size - 1, 0))
    listed = keys[order][place] == asked if keys.size else np.zeros(asked.size, bool)
    if not listed.any():
        raise ValueError("none of the findings was judged; list more findings, or audit more rows.")
    weight = 1.0 / chance
    stated = findings.probability[order][place[listed]]
    falling = np.argsort(-stated, kind="stable")
    right, own = true[listed][falling], weight[listed][falling]
    stated = stated[falling]
    bins = tuple(
        Bin(
            part.stop - part.start,
            float(stated[part].mean()),
            *_weighted_share(right[part], own[part]),
        )
        for part in _bins(right.size, right.size)
    )
    positive = true > 0
    return Quality(
        "measured",
        *_weighted_share(right, own),
        *_weighted_share(listed[positive].astype(np.float64), weight[positive]),
        bins,
        right.size,
    )


def _answers(judgements: Judgements, width: int) -> tuple[Ints, Floats, Floats]:
    """Return judged pairs, 1 where true, and their inclusion probabilities."""
    sample = judgements.sample
    if sample.unit == "pairs":
        return sample.rows * width + sample.pair_labels, judgements.answers, sample.probability
    rows = np.repeat(sample.rows, width)
    labels = np.tile(np.arange(width), sample.rows.size)
    true = judgements.true_labels.toarray().ravel().astype(np.float64)
    return rows * width + labels, true, np.repeat(sample.probability, width)


def _bins(count: int, trials: float) -> list[slice]:
    """Cut findings into equal parts, of at least `FEWEST` labels that could come back each."""
    parts = max(1, min(BINS, int(trials / FEWEST)))
    ends = np.linspace(0, count, parts + 1).astype(int)
    return [slice(a, b) for a, b in pairwise(ends.tolist()) if b > a]


def _returned_share(returned: Floats, back: Floats) -> Share:
    """Return the share that is right, of findings that come back with chance `back` if they are."""
    share = float((returned / back).mean()) if back.size else float("nan")
    return share, _wilson(share, float(back.sum()))


def _weighted_share(right: Floats, weight: Floats) -> Share:
    """Return the share that is right, of judged pairs that stand for so many each."""
    share = float((right * weight).sum() / weight.sum()) if weight.size else float("nan")
    return share, _wilson(share, float(weight.sum() ** 2 / max((weight**2).sum(), 1e-300)))


def _wilson(share: float, trials: float) -> tuple[float, float]:
    if not trials > 0:
        return 0.0, 1.0
    low, high = wilson(min(share, 1.0), trials, z_quantile(0.95))
    return float(low), float(high)
