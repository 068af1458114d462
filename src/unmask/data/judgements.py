"""Judgements: what people said about rows or pairs that were chosen at random, and how.

A `Sample` says what was chosen and with which probability; `Judgements` are a sample with its
answers. Inclusion probabilities are the whole point: with them an audit is a mask that we know.

- simple rows: m of n rows, each set of m equally likely; all labels of a row are judged;
- stratified rows: the same within strata of rows;
- pairs: (row, label) pairs, a fixed number of each stratum of pairs, over all rows;
- two-phase: rows as above, then pairs within a chosen row, independently of each other.

Pairs that the data already show may be taken as true without judging (`observed_free`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, TypeAlias

import numpy as np
import scipy.sparse as sp

from unmask import _validation
from unmask._typing import Floats, Ints, Record

Vocabulary: TypeAlias = Literal["stated", "seen"]
"""Whether the L labels are all that a row can have, or only those recorded or predicted."""


class Design(StrEnum):
    """How units were chosen.

    Examples
    --------
    >>> from unmask import TopK, audit
    >>> top, labels = TopK([[0], [1], [0]], [[1.0]] * 3), [[1, 0], [0, 1], [0, 0]]
    >>> plan = audit.plan(top, labels, budget=2)
    >>> plan.sample.design, plan.sample.design.unit
    (<Design.SIMPLE: 'simple'>, 'rows')
    """

    SIMPLE = "simple"
    STRATIFIED = "stratified"
    PAIRS = "pairs"
    TWO_PHASE = "two-phase"

    @property
    def unit(self) -> str:
        """What is judged: whole "rows", or "pairs" of a row and a label."""
        return "rows" if self in (Design.SIMPLE, Design.STRATIFIED) else "pairs"


class StratumKind(StrEnum):
    """What a stratum holds: rows, or pairs of a row and a label.

    Examples
    --------
    >>> StratumKind.OBSERVED_TOP in IN_TOP, "observed-top" in OBSERVED, "listed" in IN_TOP
    (True, True, False)
    """

    ROWS = "rows"
    TOP = "top"
    """Among the first k of a system, not observed."""
    LISTED = "listed"
    """Further down a list."""
    FAR = "far"
    """In no list, and not observed."""
    OBSERVED_TOP = "observed-top"
    OBSERVED = "observed"


IN_TOP = frozenset({StratumKind.TOP, StratumKind.OBSERVED_TOP})
OBSERVED = frozenset({StratumKind.OBSERVED, StratumKind.OBSERVED_TOP})


@dataclass(frozen=True)
class Stratum:
    """A part of the rows, or of the pairs, from which a fixed number is drawn.

    Parameters
    ----------
    kind : str
        One of `StratumKind`.
    size : int
        How many rows or pairs there are in it.
    drawn : int
        How many of them were chosen.
    rate : float, default nan
        The share of relevant pairs that was expected when the plan was made.

    Examples
    --------
    >>> from unmask import TopK, audit
    >>> top, labels = TopK([[0], [1], [0]], [[1.0]] * 3), [[1, 0], [0, 1], [0, 0]]
    >>> plan = audit.plan(top, labels, budget=2)
    >>> (stratum,) = plan.sample.strata
    >>> stratum.kind, stratum.size, stratum.drawn, round(stratum.probability, 2)
    ('rows', 3, 2, 0.67)
    """

    kind: str
    size: int
    drawn: int
    rate: float = float("nan")

    @property
    def probability(self) -> float:
        """The chance of a member to be chosen; 0 in an empty stratum."""
        return self.drawn / self.size if self.size else 0.0


@dataclass(frozen=True, eq=False)
class WithinRows:
    """The first phase of a two-phase sample, and the probabilities of the second.

    Parameters
    ----------
    chosen, stratum : integers of shape (c,)
        The chosen rows, also those of which no pair was drawn, and the stratum of each.
    probability : floats of shape (m,)
        The probability of every pair to be drawn once its row is chosen.
    """

    chosen: Ints
    stratum: Ints
    probability: Floats


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows or pairs chosen at random, with the probabilities of the choice.

    Parameters
    ----------
    design : Design
        How they were chosen.
    shape : (int, int)
        Rows n and labels L of the evaluated data.
    strata : tuple of Stratum
        Of rows, or of pairs if the design is "pairs".
    rows : integers of shape (m,)
        The row of each unit, in the order of judging.
    labels : integers of shape (m,), or None
        The label of each pair; None if whole rows are judged.
    stratum : integers of shape (m,)
        The stratum of each unit (of its row, in a two-phase sample).
    within : WithinRows, optional
        Of a two-phase sample.
    observed_free : bool, default True
        Whether observed pairs count as relevant without being judged; pairs only.
    k : int, default 0
        Pairs: how many places of each system's list are in strata "top".
    systems : tuple of str, default ()
        Pairs: a fingerprint (`fingerprint`) of the first k places of each planned system.
    vocabulary : {"stated", "seen"}, default "stated"
        Whether the L labels are all that a row can have, or only those that somebody recorded or
        predicted: then judges were never offered the others, and nothing that divides by the
        number of true labels is measured.

    Raises
    ------
    ValueError
        If lengths differ, or an index or probability is out of its range.

    Examples
    --------
    >>> rows = np.array([4, 1])
    >>> one = Stratum("rows", size=5, drawn=2)
    >>> sample = Sample(Design.SIMPLE, (5, 3), (one,), rows, None, np.array([0, 0]))
    >>> sample.probability
    array([0.4, 0.4])
    """

    design: Design
    shape: tuple[int, int]
    strata: tuple[Stratum, ...]
    rows: Ints
    labels: Ints | None
    stratum: Ints
    within: WithinRows | None = None
    observed_free: bool = True
    k: int = 0
    systems: tuple[str, ...] = ()
    vocabulary: Vocabulary = "stated"

    def __post_init__(self) -> None:
        """Check that the parts belong together."""
        _validation.one_of(self.vocabulary, ("stated", "seen"), "vocabulary")
        for name in ("rows", "labels", "stratum"):
            if getattr(self, name) is not None:
                checked = np.asarray(getattr(self, name), dtype=np.int64)
                object.__setattr__(self, name, checked)
        limits = {
            "rows": (self.rows, self.shape[0]),
            "labels": (self.labels, self.shape[1]),
            "strata": (self.stratum, len(self.strata)),
        }
        if self.within is not None:
            limits["chosen rows"] = (self.within.chosen, self.shape[0])
            limits["strata of chosen rows"] = (self.within.stratum, len(self.strata))
        for name, (values, size) in limits.items():
            _validation.indices(values, size, name)
        if (self.labels is None) != (self.design.unit == "rows"):
            raise ValueError(f"a sample of {self.design.unit} has labels exactly if it is pairs.")
        if (self.within is None) == (self.design is Design.TWO_PHASE):
            raise ValueError("a sample says what happened within rows exactly if it is two-phase.")
        within = None if self.within is None else self.within.probability
        parts = (self.rows, self.stratum, self.labels, within)
        sizes = {len(part) for part in parts if part is not None}
        if len(sizes) != 1:
            raise ValueError(f"a sample needs as many labels and strata as rows; got {sizes}.")

    @property
    def unit(self) -> str:
        """What is judged: whole "rows", or "pairs"."""
        return self.design.unit

    @property
    def probability(self) -> Floats:
        """The inclusion probability of every unit, floats of shape (m,)."""
        of_strata = np.array([each.probability for each in self.strata])
        first = of_strata[self.stratum]
        return first if self.within is None else first * self.within.probability

    @property
    def first_phase(self) -> tuple[Ints, Ints]:
        """The chosen rows and the stratum of each; only where rows are chosen."""
        if self.within is None:
            return self.rows, self.stratum
        return self.within.chosen, self.within.stratum

    @property
    def pair_labels(self) -> Ints:
        """The label of each pair; refused where whole rows are judged."""
        if self.labels is None:
            raise ValueError("whole rows were chosen, not pairs.")
        return self.labels

    def to_dict(self) -> Record:
        """Plain lists and numbers for JSON; `from_dict` is the inverse."""
        within = self.within
        return {
            "design": self.design.value,
            "shape": list(self.shape),
            "strata": [
                {"kind": s.kind, "size": s.size, "drawn": s.drawn,
                 "rate": None if np.isnan(s.rate) else s.rate}
                for s in self.strata
            ],
            **{name: _listed(getattr(self, name)) for name in ("rows", "labels", "stratum")},
            "within": None if within is None else {
                name: _listed(values) for name, values in vars(within).items()
            },
            "observed_free": self.observed_free,
            "k": self.k,
            "systems": list(self.systems),
            "vocabulary": self.vocabulary,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Sample:
        """The sample that `to_dict` made a dict of.

        Raises
        ------
        ValueError
            If a field is missing or does not fit.
        """
        try:
            strata = tuple(
                Stratum(s["kind"], int(s["size"]), int(s["drawn"]),
                        float("nan") if s["rate"] is None else float(s["rate"]))
                for s in stored["strata"]
            )  # fmt: skip
            n, width = stored["shape"]
            return cls(
                Design(stored["design"]),
                (int(n), int(width)),
                strata,
                _whole(stored["rows"]),
                None if stored["labels"] is None else _whole(stored["labels"]),
                _whole(stored["stratum"]),
                within=_within(stored["within"]),
                observed_free=bool(stored["observed_free"]),
                k=int(stored["k"]),
                systems=tuple(map(str, stored["systems"])),
                vocabulary=stored.get("vocabulary", "seen"),  # nobody said that it is whole
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"this is no stored sample: {error!r} is wrong or missing.") from None


@dataclass(frozen=True, eq=False)
class Judgements:
    """A sample with its answers; `unmask.audit.from_rows` and `from_pairs` make it.

    Parameters
    ----------
    sample : Sample
        What was judged: units without an answer are no longer in it, and the drawn numbers of
        its strata are those of the answers.
    relevant : csr matrix of shape (m, L + e), or floats of shape (m,)
        Rows: the true labels of the judged rows; the last e columns are labels that are not among
        the L of the data, so that no system can predict them. Pairs: 1 if relevant, else 0.
    unanswered : int, default 0
        How many planned units had no answer.

    Examples
    --------
    >>> one = Stratum("rows", size=5, drawn=2)
    >>> sample = Sample(Design.SIMPLE, (5, 3), (one,), [4, 1], None, [0, 0])
    >>> Judgements(sample, sp.csr_array([[1, 0, 0], [0, 1, 1]])).n_judged
    2
    """

    sample: Sample
    relevant: sp.csr_array | Floats
    unanswered: int = field(default=0)

    @property
    def n_judged(self) -> int:
        """How many rows or pairs have an answer."""
        return len(self.sample.rows)

    @property
    def true_labels(self) -> sp.csr_array:
        """Those of the L labels that judged rows have, csr of shape (m, L); of whole rows only."""
        return sp.csr_array(self.all_true_labels[:, : self.sample.shape[1]])

    @property
    def all_true_labels(self) -> sp.csr_array:
        """The same with a column for every unlisted label, csr of shape (m, L + e)."""
        if not isinstance(self.relevant, sp.csr_array):
            raise ValueError("pairs were judged; the complete labels of rows are not known.")
        return self.relevant

    @property
    def unlisted(self) -> int:
        """How many labels outside the L of the data judges named."""
        whole_rows = isinstance(self.relevant, sp.csr_array)
        return self.relevant.shape[1] - self.sample.shape[1] if whole_rows else 0

    @property
    def answers(self) -> Floats:
        """1 or 0 for every judged pair; only where pairs were judged."""
        if isinstance(self.relevant, sp.csr_array):
            raise ValueError("whole rows were judged; see `true_labels`.")
        return self.relevant


def _listed(values: Ints | Floats | None) -> list[float] | None:
    return None if values is None else values.tolist()


def _whole(values: list[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def _within(stored: Mapping[str, Any] | None) -> WithinRows | None:
    if stored is None:
        return None
    chances = np.array(stored["probability"], dtype=np.float64)
    return WithinRows(_whole(stored["chosen"]), _whole(stored["stratum"]), chances)
