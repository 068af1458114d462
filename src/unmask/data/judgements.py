"""Judgements: what people said about rows or pairs that were chosen at random, and how.

A `Sample` says what was chosen and with which probability; `Judgements` are a sample with its
answers, and with the decisions that nobody could make. Inclusion probabilities are the whole point:
with them an audit is a mask that we know.

- simple rows: m of n rows, each set of m equally likely; all labels of a row are judged;
- stratified rows: the same within strata of rows;
- pairs: (row, label) pairs, a fixed number of each stratum of pairs, over all rows;
- two-phase: rows as above, then pairs within a chosen row, independently of each other.

Pairs that the data already show may be taken as true without judging (`observed_free`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Literal, TypeAlias

import numpy as np
import scipy.sparse as sp

from unmask._typing import Bools, Floats, Ints, Record
from unmask.arrays import checks
from unmask.files import fields

Vocabulary: TypeAlias = Literal["stated", "seen"]
"""The L labels are all that a row can have ("stated"), or all that was recorded or predicted."""


class Design(StrEnum):
    """The way in which units were chosen.

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
        """The unit of judging: whole "rows", or "pairs" of a row and a label."""
        return "rows" if self in (Design.SIMPLE, Design.STRATIFIED) else "pairs"


class StratumKind(StrEnum):
    """The members of a stratum: rows, or pairs of a row and a label.

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
    """Neither listed nor observed."""
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
    unjudged : int, default 0
        Drawn pairs of chosen rows for which no other can stand: nobody answered any pair of the
        same probability.
    """

    chosen: Ints
    stratum: Ints
    probability: Floats
    unjudged: int = 0


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
        checks.one_of(self.vocabulary, ("stated", "seen"), "vocabulary")
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
            checks.indices(values, size, name)
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
        """The unit of judging: whole "rows", or "pairs"."""
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

    @property
    def uncovered(self) -> tuple[int, ...]:
        """The strata that have members, but of which none was chosen (or answered)."""
        return tuple(h for h, s in enumerate(self.strata) if s.size and not s.drawn)

    def answered(self, units: Bools) -> Sample:
        """Return the sample without units that have no answer; others of their stratum stand in.

        In a two-phase sample, rows without any answer are no longer chosen, and within the others
        answers stand for pairs of the same probability.

        Parameters
        ----------
        units : booleans of shape (m,)
            Which ones have an answer.

        Returns
        -------
        Sample
        """
        kept, within, of_drawn = np.flatnonzero(units), self.within, self.stratum[units]
        if within is not None:
            chances, chosen = within.probability, within.chosen
            begun = np.isin(chosen, self.rows[units]) | ~np.isin(chosen, self.rows)
            levels, level = np.unique(chances, return_inverse=True)
            asked = np.bincount(level[np.isin(self.rows, chosen[begun])], minlength=levels.size)
            had = np.bincount(level[units], minlength=levels.size)
            share = (had / np.maximum(asked, 1))[level]
            unjudged = within.unjudged + int(asked[had == 0].sum())
            of_drawn = within.stratum[begun]
            within = WithinRows(chosen[begun], of_drawn, (chances * share)[kept], unjudged)
        counts = np.bincount(of_drawn, minlength=len(self.strata)).tolist()
        strata = tuple(replace(s, drawn=n) for s, n in zip(self.strata, counts, strict=True))
        labels = None if self.labels is None else self.labels[kept]
        return replace(self, rows=self.rows[kept], labels=labels, stratum=self.stratum[kept],
                       strata=strata, within=within)  # fmt: skip

    def to_dict(self) -> Record:
        """Return plain lists and numbers for JSON; `from_dict` is the inverse."""
        within = self.within
        return {
            "design": self.design.value,
            "shape": list(self.shape),
            "strata": [
                {"kind": s.kind, "size": s.size, "drawn": s.drawn,
                 "rate": None if np.isnan(s.rate) else s.rate}
                for s in self.strata
            ],
            "rows": self.rows.tolist(),
            "labels": None if self.labels is None else self.labels.tolist(),
            "stratum": self.stratum.tolist(),
            "within": None if within is None else {
                "chosen": within.chosen.tolist(),
                "stratum": within.stratum.tolist(),
                "probability": within.probability.tolist(),
            },
            "observed_free": self.observed_free,
            "k": self.k,
            "systems": list(self.systems),
            "vocabulary": self.vocabulary,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Sample:
        """Make a sample of what `to_dict` gave.

        Raises
        ------
        ValueError
            If a field is missing or does not fit.
        """
        n, width = fields.list_of(stored, "shape", fields.whole, low=1, length=2)
        count = len(fields.records(stored, "strata"))
        sample = cls(
            Design(checks.one_of(fields.text(stored, "design"), list(Design), "design")),
            (n, width),
            tuple(
                Stratum(
                    checks.one_of(fields.text(each, "kind"), list(StratumKind), "kind"),
                    fields.whole(each, "size", high=n * width),
                    fields.whole(each, "drawn", high=n * width),
                    fields.number(each, "rate", high=1.0, missing=True),
                )
                for each in fields.records(stored, "strata")
            ),
            _whole(stored, "rows", n),
            None if stored.get("labels") is None else _whole(stored, "labels", width),
            _whole(stored, "stratum", count),
            within=_within(stored, n, count),
            observed_free=fields.truth(stored, "observed_free"),
            k=fields.whole(stored, "k"),
            systems=tuple(fields.list_of(stored, "systems", fields.text)),
            vocabulary=_vocabulary(stored),
        )
        _refuse_contradictions(sample)
        return sample


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
    undecided : csr matrix of the shape of `relevant`, or booleans of shape (m,), optional
        Decisions that people looked at and could not make, or made differently: not relevant in
        `relevant`. Measured numbers hold whatever they mean.
    unsure : booleans of shape (m,), optional
        Rows of which nothing is decided: any label that is observed or predicted may apply.

    Examples
    --------
    >>> one = Stratum("rows", size=5, drawn=2)
    >>> sample = Sample(Design.SIMPLE, (5, 3), (one,), [4, 1], None, [0, 0])
    >>> Judgements(sample, sp.csr_array([[1, 0, 0], [0, 1, 1]])).n_judged
    2
    """

    sample: Sample
    relevant: sp.csr_array | Floats
    unanswered: int = 0
    undecided: sp.csr_array | Bools | None = None
    unsure: Bools | None = None

    @property
    def n_judged(self) -> int:
        """The number of rows or pairs that have an answer."""
        return len(self.sample.rows)

    @property
    def true_labels(self) -> sp.csr_array:
        """The true ones of the L labels in whole judged rows, csr of shape (m, L)."""
        return sp.csr_array(self.all_true_labels[:, : self.sample.shape[1]])

    @property
    def all_true_labels(self) -> sp.csr_array:
        """The true labels with a column for every unlisted one, csr of shape (m, L + e)."""
        if not isinstance(self.relevant, sp.csr_array):
            raise ValueError("pairs were judged; the complete labels of rows are not known.")
        return self.relevant

    @property
    def unlisted(self) -> int:
        """The number of labels outside the L of the data that judges named."""
        whole_rows = isinstance(self.relevant, sp.csr_array)
        return self.relevant.shape[1] - self.sample.shape[1] if whole_rows else 0

    @property
    def answers(self) -> Floats:
        """The answers about pairs, 1 or 0; only where pairs were judged."""
        if isinstance(self.relevant, sp.csr_array):
            raise ValueError("whole rows were judged; see `true_labels`.")
        return self.relevant

    @property
    def open_units(self) -> Bools:
        """The units with a decision that nobody could make, booleans of shape (m,)."""
        if self.undecided is None:
            return np.zeros(self.n_judged, dtype=bool)
        if not isinstance(self.undecided, sp.csr_array):
            return self.undecided
        some: Bools = np.diff(self.undecided.indptr) > 0
        return some if self.unsure is None else some | self.unsure

    @property
    def decided(self) -> Judgements:
        """The judgements without undecided rows or pairs; others of their stratum stand in.

        For what has no range of its own; `evaluate` and `compare` state one.
        """
        left = ~self.open_units
        if left.all():
            return replace(self, undecided=None, unsure=None)
        relevant = self.relevant[np.flatnonzero(left)]
        lost = int((~left).sum())
        return Judgements(self.sample.answered(left), relevant, self.unanswered + lost)


def _whole(stored: Mapping[str, Any], name: str, size: int) -> Ints:
    return np.array(fields.list_of(stored, name, fields.whole, high=size - 1), dtype=np.int64)


def _vocabulary(stored: Mapping[str, Any]) -> Vocabulary:
    """Return the stored kind of vocabulary; of older records nobody said that it was whole."""
    kind = fields.text(stored, "vocabulary") if "vocabulary" in stored else "seen"
    checks.one_of(kind, ("stated", "seen"), "vocabulary")
    return "stated" if kind == "stated" else "seen"


def _within(stored: Mapping[str, Any], n: int, strata: int) -> WithinRows | None:
    if stored.get("within") is None:
        return None
    inner = fields.record(stored, "within")
    chances = fields.list_of(inner, "probability", fields.number, low=1e-300, high=1.0)
    rows, stratum = _whole(inner, "chosen", n), _whole(inner, "stratum", strata)
    return WithinRows(rows, stratum, np.array(chances, dtype=np.float64))


def _refuse_contradictions(sample: Sample) -> None:
    """Refuse a stored sample with numbers that do not follow from one another."""
    (n, width), strata, pairs = sample.shape, sample.strata, sample.design is Design.PAIRS
    chosen, of_chosen = (sample.rows, sample.stratum) if pairs else sample.first_phase
    for h, each in enumerate(strata):
        if (each.kind == StratumKind.ROWS) == pairs:
            raise ValueError(f"stratum {h} holds {each.kind!r} in a {sample.design.value} sample.")
        if each.drawn > each.size:
            raise ValueError(f"stratum {h} has {each.size} members, of which {each.drawn} drawn.")
        count = int((of_chosen == h).sum())
        if count != each.drawn:
            raise ValueError(f"stratum {h} says that {each.drawn} were drawn; there are {count}.")
    total, frame = sum(each.size for each in strata), n * width if pairs else n
    if total > frame or (total < frame and not (pairs and sample.observed_free)):
        unit = "pairs" if pairs else "rows"
        raise ValueError(f"strata of {total} {unit} in all do not make up {frame} {unit}.")
    units = sample.rows if sample.labels is None else sample.rows * width + sample.labels
    for values in (units, units if pairs else chosen):
        if np.unique(values).size != values.size:
            raise ValueError("a row or pair was drawn twice.")
    if sample.within is not None:
        of_row = np.full(n, -1)
        of_row[chosen] = of_chosen
        if (of_row[sample.rows] != sample.stratum).any():
            raise ValueError("a pair is of a row that was not chosen, or of another stratum.")
    if sample.design is Design.SIMPLE and len(strata) != 1:
        raise ValueError(f"simple rows have one stratum, not {len(strata)}.")
    if pairs and not (sample.k >= 1 and sample.systems):
        raise ValueError("pairs are drawn from the first k ≥ 1 places of at least one system.")
    if pairs and sample.observed_free and any(each.kind in OBSERVED for each in strata):
        raise ValueError("observed pairs are free, and yet there are strata of them.")
