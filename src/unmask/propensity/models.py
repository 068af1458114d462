"""Stated propensities: from label frequency, from label rank, or one number for all labels.

A number computed with propensities is right *if* they are. So every result is an array that carries
its `Source`: a formula with its constants, the preset of a data set, a file, an audit of so many
rows, or "stated" for a plain vector of which nothing is known. `source_of` finds it;
`Source.sentence` is its English, which whoever uses the propensities can state as a condition.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from unmask._messages import named_options
from unmask._typing import Floats, LabelsLike, PropensityLike
from unmask.arrays import checks


@named_options
def jain(labels: LabelsLike, *, a: float = 0.55, b: float = 1.5) -> Propensity:
    """Return Jain's propensities of a *training* label matrix.

        p_j = 1 / (1 + C (n_j + b)^(−a)),    C = (ln n − 1)(b + 1)^a

    with n training rows, n_j of which carry label j.

    Parameters
    ----------
    labels : matrix of shape (n, L)
        Training labels, dense or sparse, n ≥ 3.
    a, b : float, default 0.55 and 1.5
        Jain's constants; `preset` has those in use for public data sets.

    Returns
    -------
    Propensity
        An array of shape (L,) that carries its `source`.

    Raises
    ------
    ValueError
        If there are fewer than 3 rows, or a or b is no positive number.

    References
    ----------
    Jain, Prabhu & Varma, *Extreme multi-label loss functions for recommendation, tagging, ranking
    and other missing label applications*, KDD 2016.

    Examples
    --------
    >>> jain([[1, 0]] * 25 + [[0, 1]] + [[0, 0]] * 24).round(4)
    array([0.5572, 0.2556])
    """
    matrix = checks.labels(labels)
    counts = np.bincount(matrix.indices, minlength=matrix.shape[1])
    return jain_curve(counts, matrix.shape[0], a=a, b=b)


@named_options
def jain_curve(counts: ArrayLike, n: int, *, a: float = 0.55, b: float = 1.5) -> Propensity:
    """Return Jain's propensities from label counts, for when the matrix is not at hand.

        p_j = 1 / (1 + C (n_j + b)^(−a)),    C = (ln n − 1)(b + 1)^a

    Parameters
    ----------
    counts : array of shape (L,)
        Training rows n_j that carry each label.
    n : int
        Training rows, at least 3.
    a, b : float, default 0.55 and 1.5
        Jain's constants.

    Returns
    -------
    Propensity
        An array of shape (L,) that carries its `source`.

    Raises
    ------
    ValueError
        If a count lies outside 0 … n, n is below 3, or a or b is no positive number.

    References
    ----------
    Jain, Prabhu & Varma, KDD 2016 (as for `jain`).

    Examples
    --------
    >>> jain_curve([1, 25], n=50).round(4)
    array([0.2556, 0.5572])
    """
    numbers = checks.numbers(counts, "label counts")
    positives = checks.finite(numbers.astype(np.float64), "label counts")
    checks.training_rows(n)
    if not (0 < a < np.inf and 0 < b < np.inf):
        raise ValueError(f"the Jain constants must be positive numbers; got a = {a:g}, b = {b:g}.")
    if positives.size and not (positives.min() >= 0 and positives.max() <= n):
        raise ValueError(
            f"label counts must lie between 0 and n = {n}; got {positives.min():g} "
            f"to {positives.max():g}."
        )
    with np.errstate(over="ignore", invalid="ignore"):
        scale = (np.log(n) - 1) * np.float64(b + 1) ** a
        p = np.asarray(1 / (1 + scale * (positives + b) ** -a))
    if not (p > 0).all():
        raise ValueError(
            f"the Jain constants a = {a:g}, b = {b:g} leave a label no propensity at all."
        )
    return with_source(p, Source(SourceKind.JAIN, {"a": float(a), "b": float(b)}))


def constant(n_labels: int, value: float) -> Propensity:
    """Return one propensity for all labels: p_j = value.

    Parameters
    ----------
    n_labels : int
        L, the number of labels.
    value : float
        The propensity, in (0, 1].

    Returns
    -------
    Propensity
        An array of shape (L,) that carries its `source`.

    Raises
    ------
    ValueError
        If the value lies outside (0, 1].

    Examples
    --------
    >>> constant(3, 0.4)
    array([0.4, 0.4, 0.4])
    """
    checked = checks.propensity(np.full(n_labels, value))
    return with_source(checked, Source(SourceKind.CONSTANT, {"p": float(value)}))


@named_options
def inverse_linear(labels: LabelsLike, *, head: float = 2.0, tail: float = 20.0) -> Propensity:
    """Return 1/p_j linear in the rank of label j: `head` for the most frequent, `tail` the rarest.

        1/p_j = head + (tail − head) rank_j / (L − 1),    rank 0 the most frequent label

    Parameters
    ----------
    labels : matrix of shape (n, L)
        Training labels, dense or sparse. Equally frequent labels rank by index.
    head, tail : float, default 2.0 and 20.0
        1/p of the first and of the last label, at least 1.

    Returns
    -------
    Propensity
        An array of shape (L,) that carries its `source`.

    Raises
    ------
    ValueError
        If head or tail is below 1 or not finite.

    References
    ----------
    Schultheis & Babbar, *Unbiased loss functions for multilabel classification with missing
    labels*: the schedule of the training study.

    Examples
    --------
    >>> 1 / inverse_linear([[1, 1, 0], [0, 1, 0]])
    array([11.,  2., 20.])
    """
    if not (1 <= head < np.inf and 1 <= tail < np.inf):
        raise ValueError(f"inverse propensities must be at least 1; got {head:g} to {tail:g}.")
    matrix = checks.labels(labels)
    counts = np.bincount(matrix.indices, minlength=matrix.shape[1])
    inverse = np.empty(matrix.shape[1])
    inverse[np.argsort(-counts, kind="stable")] = np.linspace(head, tail, matrix.shape[1])
    ends = {"head": float(head), "tail": float(tail)}
    return with_source(1 / inverse, Source(SourceKind.INVERSE_LINEAR, ends))


def clip(propensity: PropensityLike, low: float) -> Propensity:
    """Raise propensities to at least `low`, max(p_j, low): less variance, more bias.

    Parameters
    ----------
    propensity : array of shape (L,)
        Numbers in (0, 1].
    low : float
        The lowest propensity, in (0, 1].

    Returns
    -------
    Propensity
        An array of shape (L,) that carries its `source`.

    Raises
    ------
    ValueError
        If `low` or a propensity lies outside (0, 1].

    Examples
    --------
    >>> clip([0.01, 0.5], 0.1)
    array([0.1, 0.5])
    """
    if not 0 < low <= 1:
        raise ValueError(f"the lowest propensity must lie in (0, 1]; got {low:g}.")
    raised = np.maximum(checks.propensity(propensity), low)
    return with_source(raised, source_of(propensity).changed("clip", low))


def reciprocal(propensity: Floats) -> Floats:
    """Return 1/p of checked propensities, finite (as is 2/p − 1) even for the smallest.

    >>> reciprocal(np.array([0.25, 5e-324]))
    array([4.00000000e+000, 4.49423284e+307])
    """
    return 1 / np.maximum(propensity, 4 / np.finfo(np.float64).max)


def temper(propensity: PropensityLike, tau: float) -> Propensity:
    """Move 1/p towards 1:  1/p_τ = 1 + τ (1/p − 1).  τ = 0 corrects nothing, τ = 1 everything.

    Parameters
    ----------
    propensity : array of shape (L,)
        Numbers in (0, 1].
    tau : float
        The share of the correction that is kept, in [0, 1].

    Returns
    -------
    Propensity
        An array of shape (L,) that carries its `source`.

    Raises
    ------
    ValueError
        If τ lies outside [0, 1] or a propensity outside (0, 1].

    Examples
    --------
    >>> temper([0.25, 1.0], 0.5)
    array([0.4, 1. ])
    """
    checks.in_range(tau, "tau", 0, 1)
    p = checks.propensity(propensity)
    tempered = p / (p + tau * (1 - p))  # at τ = 1 exactly p, at τ = 0 exactly 1
    return with_source(tempered, source_of(propensity).changed("temper", tau))


class SourceKind(StrEnum):
    """The kinds of sources of propensities.

    Examples
    --------
    >>> from unmask import propensity
    >>> propensity.constant(2, 0.5).source.kind is SourceKind.CONSTANT
    True
    """

    NONE = "none"
    """There are none."""
    STATED = "stated"
    """Numbers of which nothing else is known."""
    ENTRIES = "entries"
    """A number for every observed label of every row."""
    JAIN = "jain"
    PRESET = "preset"
    """Jain's formula with the constants in use for a public data set."""
    CONSTANT = "constant"
    INVERSE_LINEAR = "inverse_linear"
    FILE = "file"
    AUDIT = "audit"
    RECAPTURE = "recapture"
    SNAPSHOTS = "snapshots"
    """Labels of rows at two dates: upper bounds."""
    MODEL = "model"
    """A classifier's probabilities (Elkan & Noto)."""
    MARGINALS = "marginals"
    COUNTS = "counts"


@dataclass(frozen=True)
class Source:
    """The origin of propensities.

    Parameters
    ----------
    kind : SourceKind, default SourceKind.STATED
    parameters : mapping of str to float, default {}
        Constants of a formula, or `rows` of an audit.
    name : str, default ""
        Of the data set of a preset, or of a file.
    changes : tuple of (str, float), default ()
        Changes made to them since, ("clip", lowest) or ("temper", τ), and what a mask model has
        beside them: ("row_effort", ρ), ("unannotated", π₀), ("spurious", φ).

    Examples
    --------
    >>> Source(SourceKind.JAIN, {"a": 0.55, "b": 1.5}).sentence
    "Jain's formula with a = 0.55, b = 1.5"
    >>> Source(SourceKind.AUDIT, {"rows": 300}).sentence, Source().sentence
    ('the audit of 300 rows', 'the stated propensities')
    """

    kind: SourceKind = SourceKind.STATED
    parameters: Mapping[str, float] = field(default_factory=dict, hash=False)
    name: str = ""
    changes: tuple[tuple[str, float], ...] = ()

    @property
    def independent(self) -> bool:
        """True where labels of a row are taken to go missing independently of each other."""
        return not {"row_effort", "unannotated"} & dict(self.changes).keys()

    @property
    def spurious(self) -> float:
        """The share of observed labels that are stated to be wrong."""
        return dict(self.changes).get("spurious", 0.0)

    @property
    def score_slope(self) -> float:
        """The rise of the logit of an entry's propensity per standard deviation of the score."""
        return dict(self.changes).get("score_slope", 0.0)

    @property
    def by_formula(self) -> bool:
        """True where they follow from label frequencies alone: nobody measured what is missing."""
        return self.kind in (SourceKind.JAIN, SourceKind.PRESET)

    @property
    def assumption(self) -> str:
        """The condition of numbers that use them, in words that fit after "if"."""
        how = "go missing independently, by" if self.independent else "go missing by"
        return f"labels {how} {self.sentence}"

    @property
    def sentence(self) -> str:
        """The source in words that fit after "by"."""
        numbers = self.parameters
        constants = ", ".join(f"{name} = {value:g}" for name, value in numbers.items())
        of_rows = f" of {numbers['rows']:,.0f} rows" if "rows" in numbers else ""
        own = _SENTENCES[self.kind].format(
            **numbers, name=self.name, constants=constants, of_rows=of_rows
        )
        return ", ".join([own, *(_CHANGES[name].format(number) for name, number in self.changes)])

    def changed(self, name: str, number: float) -> Source:
        """Return the source with one more change."""
        return replace(self, changes=(*self.changes, (name, float(number))))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON; the English is `text`."""
        return {
            "kind": self.kind.value,
            "parameters": dict(self.parameters),
            "name": self.name,
            "changes": [list(change) for change in self.changes],
            "text": self.sentence,
        }


class Propensity(np.ndarray[Any, np.dtype[np.float64]]):
    """One number in (0, 1] per label, float64 of shape (L,), that knows its `source`.

    It is an array in every respect; what is computed from it is a plain array.

    Attributes
    ----------
    source : Source
        Where the numbers come from.

    Examples
    --------
    >>> p = with_source(np.array([0.5, 0.25]), Source(SourceKind.CONSTANT))
    >>> p.source.kind.value, 1 / p
    ('constant', array([2., 4.]))
    """

    source: Source

    def __array_finalize__(self, origin: object) -> None:
        """Give a part or a copy the same source."""
        self.source = getattr(origin, "source", Source())

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        """Return a plain array: a computed number is no propensity any more."""
        plain = np.asarray(array)  # before numpy 2, `array` is a propensity here, of any dimension
        return plain[()] if return_scalar or plain.ndim == 0 else plain

    def __reduce__(self) -> tuple[Callable[..., Propensity], tuple[Floats, Source]]:
        """Keep the source in other processes."""
        return with_source, (np.array(self), self.source)

    def __repr__(self) -> str:
        """Return that of an array."""
        return repr(np.asarray(self))


def with_source(values: Floats, source: Source) -> Propensity:
    """Return checked propensities that carry their source."""
    labelled = np.asarray(values, dtype=np.float64).view(Propensity)
    labelled.source = source
    return labelled


def source_of(propensity: object) -> Source:
    """Return the source of propensities of any form.

    Parameters
    ----------
    propensity : anything that stands for propensities, or None

    Returns
    -------
    Source
        The one that they carry; `stated` for a plain vector, `entries` for a sparse matrix, `none`
        for None.

    Examples
    --------
    >>> source_of([0.5, 0.5]).kind.value, source_of(None).kind.value
    ('stated', 'none')
    """
    if propensity is None:
        return Source(SourceKind.NONE)
    carried = getattr(propensity, "source", None)
    if isinstance(carried, Source):
        return carried
    return Source(SourceKind.ENTRIES if hasattr(propensity, "tocsr") else SourceKind.STATED)


_SENTENCES = {
    SourceKind.NONE: "no propensities",
    SourceKind.STATED: "the stated propensities",
    SourceKind.ENTRIES: "the stated propensities of single entries",
    SourceKind.JAIN: "Jain's formula with {constants}",
    SourceKind.PRESET: "Jain's formula with the constants in use for {name} ({constants})",
    SourceKind.CONSTANT: "the same propensity {p:g} for all",
    SourceKind.INVERSE_LINEAR: "1/p linear in label rank ({constants})",
    SourceKind.FILE: "the propensities in {name}",
    SourceKind.AUDIT: "the audit{of_rows}",
    SourceKind.RECAPTURE: "the recapture estimate{of_rows}",
    SourceKind.SNAPSHOTS: "upper bounds from two snapshots{of_rows}",
    SourceKind.MODEL: "propensities from a classifier{of_rows}",
    SourceKind.MARGINALS: "true label frequencies from elsewhere{of_rows}",
    SourceKind.COUNTS: "counts of kept and lost labels",
}

_CHANGES = {
    "clip": "raised to at least {:g}",
    "temper": "tempered with τ = {:g}",
    "row_effort": "with row effort ρ = {:.2g}",
    "unannotated": "with {:.0%} of the rows not annotated",
    "spurious": "with {:.1%} of the observed labels wrong",
    "score_slope": "with the slope {:.2g} of the logit on the model's score",
}


@dataclass(frozen=True)
class Preset:
    """A public data set: Jain's constants in use for it and, where known, its published size.

    Parameters
    ----------
    name : str
        As the field spells it.
    a, b : float
        Jain's constants.
    shape : (features, labels, training rows, test rows), optional
        As published.

    Examples
    --------
    >>> preset("Wikipedia-500K").a, preset("Wikipedia-500K").b
    (0.5, 0.4)
    """

    name: str
    a: float
    b: float
    shape: tuple[int, int, int, int] | None = None


def preset(name: str) -> Preset:
    """Return the Jain constants in use for a public data set.

    Parameters
    ----------
    name : str
        The data set; case, spaces and punctuation do not matter.

    Returns
    -------
    Preset

    Raises
    ------
    ValueError
        If no such data set is listed; the message names the nearest.

    Examples
    --------
    >>> preset("Amazon 670k")
    Preset(name='Amazon-670K', a=0.6, b=2.6, shape=(135909, 670091, 490449, 153025))
    >>> preset("amazoncat_13K").b
    1.5
    """
    by_key = {_plain(p.name): p for p in PRESETS}
    key = _plain(name)
    if key in by_key:
        return by_key[key]
    near = [by_key[each].name for each in difflib.get_close_matches(key, by_key, n=2, cutoff=0.7)]
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    raise ValueError(
        f"no preset for data set {name!r}.{hint} Known: {', '.join(p.name for p in PRESETS)}. "
        "Others mostly use a = 0.55, b = 1.5."
    )


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


_COMMON, _WIKIPEDIA, _AMAZON = (0.55, 1.5), (0.5, 0.4), (0.6, 2.6)

PRESETS = (
    Preset("Mediamill", *_COMMON, (120, 101, 30993, 12914)),
    Preset("Bibtex", *_COMMON, (1836, 159, 4880, 2515)),
    Preset("Delicious", *_COMMON, (500, 983, 12920, 3185)),
    Preset("RCV1-2K", *_COMMON, (47236, 2456, 623847, 155962)),
    Preset("EURLex-4K", *_COMMON, (5000, 3993, 15539, 3809)),
    Preset("AmazonCat-13K", *_COMMON, (203882, 13330, 1186239, 306782)),
    Preset("AmazonCat-14K", *_COMMON, (597540, 14588, 4398050, 1099725)),
    Preset("Wiki10-31K", *_COMMON, (101938, 30938, 14146, 6616)),
    Preset("cooking-stackexchange", *_COMMON, (4240, 736, 12404, 3000)),
    Preset("debtags-bookworm", *_COMMON, (13091, 598, 24212, 6088)),
    Preset("finna-yso-en", *_COMMON, (30823, 24626, 280316, 69716)),
    Preset("jester5k", *_COMMON, (10, 90, 4260, 736)),
    Preset("WikiLSHTC-325K", *_WIKIPEDIA, (1617899, 325056, 1778351, 587084)),
    Preset("Wikipedia-500K", *_WIKIPEDIA, (2381304, 501070, 1813391, 783743)),
    Preset("WikiTitles-500K", *_WIKIPEDIA),
    Preset("LF-WikiTitles-500K", *_WIKIPEDIA),
    Preset("Amazon-670K", *_AMAZON, (135909, 670091, 490449, 153025)),
    Preset("Amazon-3M", *_AMAZON, (337067, 2812281, 1717899, 742507)),
    Preset("AmazonTitles-670K", *_AMAZON),
    Preset("AmazonTitles-3M", *_AMAZON),
    Preset("LF-Amazon-131K", *_AMAZON),
    Preset("LF-Amazon-1.3M", *_AMAZON),
    Preset("LF-AmazonTitles-131K", *_AMAZON),
    Preset("LF-AmazonTitles-1.3M", *_AMAZON),
)


@dataclass(frozen=True, eq=False)
class PropensityModel:
    """Propensities with the name and the parameters of the model that states them.

    It can stand wherever propensities can, since numpy reads its values.

    Parameters
    ----------
    name : str
        For people, such as "a = 0.55, b = 1.5"; nothing is read from it.
    values : (L,) floats in (0, 1]
        One propensity per label.
    parameters : mapping of str to float, optional
        The numbers that tell models of one family apart, such as {"a": 0.55, "b": 1.5}.
    source : Source, optional
        Where the propensities come from; by default they are stated.

    Raises
    ------
    ValueError
        If a propensity lies outside (0, 1].

    Examples
    --------
    >>> model = PropensityModel("γ = 2", [0.25, 1.0], {"γ": 2.0})
    >>> np.asarray(model).tolist(), model.parameters["γ"]
    ([0.25, 1.0], 2.0)
    """

    name: str
    values: Floats
    parameters: Mapping[str, float] = field(default_factory=dict)
    source: Source = field(default_factory=Source)

    def __post_init__(self) -> None:
        """Check the propensities."""
        object.__setattr__(self, "values", checks.propensity(self.values))
        object.__setattr__(self, "parameters", dict(self.parameters))

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Floats:
        """Return the values, so that a model serves as propensities."""
        return np.array(self.values, dtype=dtype)

    def __len__(self) -> int:
        """Return the number of labels."""
        return int(self.values.size)

    def __repr__(self) -> str:
        """Return one line."""
        return f"PropensityModel({self.name!r}, {len(self)} labels)"
