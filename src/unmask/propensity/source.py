"""Where propensities come from: a value that whoever uses them can state as a condition.

A number computed with propensities is right *if* they are. So propensities carry their `Source`: a
formula with its constants, the preset of a data set, a file, an audit of so many rows, or "stated"
for a plain vector of which nothing is known. `source_of` finds it; `Source.sentence` is its
English.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np

from unmask._typing import Floats


class SourceKind(StrEnum):
    """What states the propensities.

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
    """The same rows at two dates: upper bounds."""
    MODEL = "model"
    """A classifier's probabilities (Elkan & Noto)."""
    MARGINALS = "marginals"
    COUNTS = "counts"


@dataclass(frozen=True)
class Source:
    """Where propensities come from.

    Parameters
    ----------
    kind : SourceKind, default SourceKind.STATED
    parameters : mapping of str to float, default {}
        Constants of a formula, or `rows` of an audit.
    name : str, default ""
        Of the data set of a preset, or of a file.
    changes : tuple of (str, float), default ()
        What was done to them since, ("clip", lowest) or ("temper", τ), and what a mask model has
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
        """Whether labels of a row are taken to go missing independently of each other."""
        return not {"row_effort", "unannotated"} & {name for name, _ in self.changes}

    @property
    def spurious(self) -> float:
        """The share of observed labels that are stated to be wrong."""
        return dict(self.changes).get("spurious", 0.0)

    @property
    def score_slope(self) -> float:
        """How much the logit of an entry's propensity rises per standard deviation of the score."""
        return dict(self.changes).get("score_slope", 0.0)

    @property
    def by_formula(self) -> bool:
        """Whether they follow from label frequencies alone: nobody measured what is missing."""
        return self.kind in (SourceKind.JAIN, SourceKind.PRESET)

    @property
    def assumption(self) -> str:
        """What has to be true, in words that fit after "if"."""
        how = "go missing independently, by" if self.independent else "go missing by"
        return f"labels {how} {self.sentence}"

    @property
    def sentence(self) -> str:
        """What the propensities come from, in words that fit after "by"."""
        changed = "".join(f", {_CHANGES[name](number)}" for name, number in self.changes)
        return _SENTENCES[self.kind](self) + changed

    def changed(self, name: str, number: float) -> Source:
        """The same with one more change."""
        return replace(self, changes=(*self.changes, (name, float(number))))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; the English is `text`."""
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
        """A part or a copy comes from the same source."""
        self.source = getattr(origin, "source", Source())

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        """What is computed is no propensity any more."""
        plain = np.asarray(array)  # before numpy 2, `array` is a propensity here, of any dimension
        return plain[()] if return_scalar or plain.ndim == 0 else plain

    def __reduce__(self) -> tuple[Callable[..., Propensity], tuple[Floats, Source]]:
        """Copies in other processes keep the source."""
        return with_source, (np.array(self), self.source)

    def __repr__(self) -> str:
        """That of an array."""
        return repr(np.asarray(self))


def with_source(values: Floats, source: Source) -> Propensity:
    """Checked propensities that carry where they come from.

    Parameters
    ----------
    values : (L,) floats in (0, 1]
    source : Source

    Returns
    -------
    Propensity
    """
    labelled = np.asarray(values, dtype=np.float64).view(Propensity)
    labelled.source = source
    return labelled


def source_of(propensity: object) -> Source:
    """Where propensities come from, whatever form they have.

    Parameters
    ----------
    propensity : anything that stands for propensities, or None

    Returns
    -------
    Source
        That which they carry; `stated` for a plain vector, `entries` for a sparse matrix, `none`
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


def _constants(source: Source) -> str:
    return ", ".join(f"{name} = {value:g}" for name, value in source.parameters.items())


def _rows(source: Source) -> str:
    return f" of {source.parameters['rows']:,.0f} rows" if "rows" in source.parameters else ""


_SENTENCES: dict[SourceKind, Callable[[Source], str]] = {
    SourceKind.NONE: lambda _: "no propensities",
    SourceKind.STATED: lambda _: "the stated propensities",
    SourceKind.ENTRIES: lambda _: "the stated propensities of single entries",
    SourceKind.JAIN: lambda source: f"Jain's formula with {_constants(source)}",
    SourceKind.PRESET: lambda source: (
        f"Jain's formula with the constants in use for {source.name} ({_constants(source)})"
    ),
    SourceKind.CONSTANT: lambda source: f"the same propensity {source.parameters['p']:g} for all",
    SourceKind.INVERSE_LINEAR: lambda source: f"1/p linear in label rank ({_constants(source)})",
    SourceKind.FILE: lambda source: f"the propensities in {source.name}",
    SourceKind.AUDIT: lambda source: f"the audit{_rows(source)}",
    SourceKind.RECAPTURE: lambda source: f"the recapture estimate{_rows(source)}",
    SourceKind.SNAPSHOTS: lambda source: f"upper bounds from two snapshots{_rows(source)}",
    SourceKind.MODEL: lambda source: f"propensities from a classifier{_rows(source)}",
    SourceKind.MARGINALS: lambda source: f"true label frequencies from elsewhere{_rows(source)}",
    SourceKind.COUNTS: lambda _: "counts of kept and lost labels",
}

_CHANGES: dict[str, Callable[[float], str]] = {
    "clip": lambda low: f"raised to at least {low:g}",
    "temper": lambda tau: f"tempered with τ = {tau:g}",
    "row_effort": lambda rho: f"with row effort ρ = {rho:.2g}",
    "unannotated": lambda share: f"with {share:.0%} of the rows not annotated",
    "spurious": lambda share: f"with {share:.1%} of the observed labels wrong",
    "score_slope": lambda slope: f"with the slope {slope:.2g} of the logit on the model's score",
}
