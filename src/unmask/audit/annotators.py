"""What people said to the questions of a sheet: each of them, and joined.

Joined, the answer is that of most people, or of the adjudicator where there is one, label by label.
Labels on which people are evenly split are undecided until somebody else has judged, as are
questions on which everybody was unsure; measured intervals hold whatever they mean.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from unmask._typing import Record
from unmask.audit.agreement import Agreement, agreement
from unmask.audit.answers import from_pairs, from_rows
from unmask.audit.planning import AuditPlan
from unmask.audit.sheets import WORDS, Question, Sheet, plan_key
from unmask.data.judgements import Judgements
from unmask.files import fields

COMPLETE, BEGUN = "complete", "begun"
"""Of rows: all labels are named; some are, and perhaps not all."""
DECIDED = ("yes", "no", COMPLETE)
"""Answers that decide; unsure does not, and skip means later."""
OF_ROWS = (COMPLETE, BEGUN, "unsure", "skip")
"""Answers about whole rows."""


@dataclass(frozen=True)
class Answer:
    """What one person said to one question.

    Parameters
    ----------
    word : {"yes", "no", "unsure", "skip", "complete", "begun"}
        Rows are complete, or begun: some labels are named, and perhaps not all.
    labels : tuple of int, default ()
        Of rows: the labels that apply.
    others : tuple of str, default ()
        Of rows: further labels that apply and are not in the list, in the person's words.

    Examples
    --------
    >>> Answer("unsure"), Answer("complete", labels=(2, 5))
    (Answer(word='unsure', labels=(), others=()), Answer(word='complete', labels=(2, 5), others=()))
    """

    word: str
    labels: tuple[int, ...] = ()
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class Contradiction:
    """People who decided a question differently.

    Parameters
    ----------
    question : str
        Its id.
    row : str
        Name of the row.
    label : str
        Name of the label; of rows, the labels that not all of them named.
    answers : tuple of (str, str)
        Annotator and answer; of rows, the annotator and which of these labels were named.
    settled : bool
        Whether there is an answer all the same.

    Examples
    --------
    >>> questions = (Question(3, 0, "doc 3"), Question(5, 1, "doc 5"))
    >>> asked = Sheet("k", "pairs", questions, ("cat", "dog"))
    >>> ann, ben = {0: Answer("yes"), 1: Answer("no")}, {0: Answer("yes"), 1: Answer("yes")}
    >>> (split,) = Answers(asked, {"ann": ann, "ben": ben}).contradictions()
    >>> split.row, split.label, split.answers, split.settled
    ('doc 5', 'dog', (('ann', 'no'), ('ben', 'yes')), False)
    """

    question: str
    row: str
    label: str
    answers: tuple[tuple[str, str], ...]
    settled: bool


@dataclass(frozen=True)
class Answers:
    """What people said about the questions of a sheet.

    Parameters
    ----------
    sheet : Sheet
        What was asked.
    by_annotator : mapping of str to mapping of int to Answer
        By person, then by position of the question in the sheet.
    adjudicator : str, default ""
        Whose answers decide where there are any.

    Raises
    ------
    ValueError
        If the adjudicator has not answered anything.

    Examples
    --------
    >>> questions = (Question(3, 0, "doc 3"), Question(5, 1, "doc 5"))
    >>> asked = Sheet("k", "pairs", questions, ("cat", "dog"))
    >>> said = Answers(asked, {"ann": {0: Answer("yes")}, "ben": {0: Answer("unsure")}})
    >>> said.counts()
    {'asked': 2, 'judged': 1, 'unsure': 0, 'skip': 0, 'begun': 0, 'split': 0, 'open': 1}
    """

    sheet: Sheet
    by_annotator: Mapping[str, Mapping[int, Answer]]
    adjudicator: str = ""

    def __post_init__(self) -> None:
        """Refuse an adjudicator who said nothing."""
        if self.adjudicator and self.adjudicator not in self.by_annotator:
            people = ", ".join(map(repr, self.by_annotator)) or "nobody"
            raise ValueError(f"{self.adjudicator!r} has not answered; answers are by {people}.")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of all labels: those of the sheet, then those that people added in their words.

        What differs in capitals or spaces alone is one label.
        """
        said = (answer for own in self.by_annotator.values() for answer in own.values())
        added = {plain(name): name for answer in said for name in answer.others}
        return (*self.sheet.label_names, *(added[each] for each in sorted(added)))

    @cached_property
    def _added(self) -> dict[str, int]:
        """The number of every label that people added."""
        listed = len(self.sheet.label_names)
        return {plain(name): listed + i for i, name in enumerate(self.names[listed:])}

    def counts(self) -> dict[str, int]:
        """Questions asked, judged, only unsure, only skipped, begun, split, and open."""
        joined = self._joined()
        tally = Counter(joined.get(i, "open") for i in range(len(self.sheet.questions)))
        names = ("judged", "unsure", "skip", "begun", "split", "open")
        return {"asked": len(self.sheet.questions), **{name: tally[name] for name in names}}

    def _joined(self) -> dict[int, str]:
        """The state of every question that somebody answered."""
        states: dict[int, str] = {}
        for position in {p for said in self.by_annotator.values() for p in said}:
            words = [said[position].word for said in self.by_annotator.values() if position in said]
            decided = any(word in DECIDED for word in words)
            if decided:
                states[position] = "judged" if self._decision(position) is not None else "split"
            else:
                states[position] = next(w for w in ("unsure", BEGUN, "skip") if w in words)
        return states

    def _decided(self, position: int) -> dict[str, frozenset[int]]:
        """By annotator who decided a question, the labels that apply."""
        label = self.sheet.questions[position].label
        decided = {}
        for name, said in self.by_annotator.items():
            answer = said.get(position)
            if answer is not None and answer.word in DECIDED:
                own = self._named(answer) if label is None else (label,) * (answer.word == "yes")
                decided[name] = frozenset(own)
        return decided

    def _named(self, answer: Answer) -> tuple[int, ...]:
        """The numbers of all labels of an answer."""
        return answer.labels + tuple(self._added[plain(each)] for each in answer.others)

    def _votes(self, position: int) -> tuple[frozenset[int], frozenset[int]]:
        """The labels that apply, by the adjudicator or by most, and those that are undecided."""
        decided = self._decided(position)
        if self.adjudicator in decided:
            return decided[self.adjudicator], frozenset()
        if not decided:
            said = (own[position] for own in self.by_annotator.values() if position in own)
            unsure = (self._named(answer) for answer in said if answer.word == "unsure")
            return frozenset(), frozenset(label for named in unsure for label in named)
        votes = Counter(label for own in decided.values() for label in own)
        most = frozenset(label for label, count in votes.items() if 2 * count > len(decided))
        return most, frozenset(label for label in votes if 2 * votes[label] == len(decided))

    def _decision(self, position: int) -> frozenset[int] | None:
        """The labels that apply; None if nobody decided, or any label is undecided."""
        most, undecided = self._votes(position)
        return None if undecided or not self._decided(position) else most

    def decisions(self) -> dict[int, frozenset[int]]:
        """Of every question that is decided, by position, the labels that apply."""
        positions = sorted({p for said in self.by_annotator.values() for p in said})
        decided = ((position, self._decision(position)) for position in positions)
        return {position: labels for position, labels in decided if labels is not None}

    def judgements(self, plan: AuditPlan, *, first: int | None = None) -> Judgements:
        """The joined answers as judgements, for `evaluate(…, audit=…)`.

        Parameters
        ----------
        plan : AuditPlan
            The plan of the sheet, or an extended one.
        first : int, optional
            Only answers to so many units at the beginning of the plan.

        Returns
        -------
        Judgements
            With `undecided` where everybody was unsure, or people are evenly split on a label.

        Raises
        ------
        ValueError
            If the plan is another one, or too little was answered.
        """
        if plan_key(plan) != self.sheet.key:
            raise ValueError("these answers belong to the questions of another plan.")
        states = self._joined()
        places = {question.id: i for i, question in enumerate(self.sheet.questions)}
        names = (
            [f"r{row}" for row in plan.rows] if plan.labels is None
            else [f"r{r}_l{label}" for r, label in zip(plan.rows, plan.labels, strict=True)]
        )  # fmt: skip
        at = [places.get(name, -1) for name in names[:first]]
        at += [-1] * (len(names) - len(at))
        state = [states.get(position, "open") for position in at]
        most, split = zip(*map(self._votes, at), strict=True)
        unsure = [each == "unsure" for each in state]
        answered = [each in ("judged", "split", "unsure") for each in state]
        if plan.labels is not None:
            return from_pairs(
                plan,
                [float(bool(own)) if some else np.nan
                 for own, some in zip(most, answered, strict=True)],
                undecided=[each in ("split", "unsure") for each in state],
            )  # fmt: skip
        width, listed = len(self.names), len(self.sheet.label_names)
        relevant = _indicator(most, width)
        return from_rows(
            plan, relevant[:, :listed], answered=answered, unlisted=relevant[:, listed:],
            undecided=_indicator(split, width), unsure=unsure,
        )  # fmt: skip

    def agreement(self) -> Agreement:
        """How far annotators agree, on pairs of a row and a label that they decided.

        Returns
        -------
        Agreement
            Of complete rows, every label is a pair.
        """
        width = len(self.names)
        shared = [
            position
            for position in range(len(self.sheet.questions))
            if len(self._decided(position)) >= 2
        ]
        items: dict[str, dict[int, bool]] = {name: {} for name in self.by_annotator}
        for position in shared:
            label = self.sheet.questions[position].label
            for name, own in self._decided(position).items():
                asked = range(width) if label is None else (label,)
                items[name] |= {position * width + each: each in own for each in asked}
        return agreement({name: decided for name, decided in items.items() if decided})

    def contradictions(self) -> tuple[Contradiction, ...]:
        """Questions that people decided differently, in the order of the sheet."""
        listed = []
        for position, question in enumerate(self.sheet.questions):
            decided = self._decided(position)
            if len(set(decided.values())) > 1:
                listed.append(self._contradiction(position, question, decided))
        return tuple(listed)

    def _contradiction(
        self, position: int, question: Question, decided: Mapping[str, frozenset[int]]
    ) -> Contradiction:
        named = frozenset.union(*decided.values())
        disputed = sorted(named - frozenset.intersection(*decided.values()))
        answers = tuple(
            (name, ("yes" if own else "no") if question.label is not None
             else ", ".join(self.names[each] for each in disputed if each in own) or "none")
            for name, own in decided.items()
        )  # fmt: skip
        return Contradiction(
            question.id,
            question.row_name,
            ", ".join(self.names[each] for each in disputed),
            answers,
            self._decision(position) is not None,
        )

    def to_dict(self) -> Record:
        """Plain values for JSON, labels by number and others by name; `from_dict` inverts it."""
        return {
            "key": self.sheet.key,
            "annotators": {
                name: {
                    self.sheet.questions[position].id: [answer.word, *answer.labels, *answer.others]
                    for position, answer in sorted(said.items())
                }
                for name, said in self.by_annotator.items()
            },
        }

    @classmethod
    def from_dict(cls, sheet: Sheet, stored: Mapping[str, Any]) -> Answers:
        """The answers that `to_dict` made a dict of.

        Raises
        ------
        ValueError
            If they belong to other questions.
        """
        if not isinstance(stored, Mapping) or stored.get("key") != sheet.key:
            raise ValueError("these answers belong to other questions.")
        places = {question.id: position for position, question in enumerate(sheet.questions)}
        people = fields.record(stored, "annotators")
        by_annotator: dict[str, dict[int, Answer]] = {}
        for name in people:
            said = fields.record(people, name)
            for asked in said:
                if asked not in places:
                    raise ValueError(f"{name!r} answers question {asked!r}, which was not asked.")
            by_annotator[name] = {places[asked]: _stored(sheet, said, asked) for asked in said}
        return cls(sheet, by_annotator)

    def updated(self, newer: Answers) -> tuple[Answers, int]:
        """With newer answers put over these, and how many of them changed one.

        Parameters
        ----------
        newer : Answers
            To the same questions.

        Returns
        -------
        (Answers, int)
        """
        both = {name: dict(said) for name, said in self.by_annotator.items()}
        changed = 0
        for name, said in newer.by_annotator.items():
            old = both.setdefault(name, {})
            changed += sum(position in old and old[position] != said[position] for position in said)
            old |= said
        return Answers(self.sheet, both, newer.adjudicator or self.adjudicator), changed


def _stored(sheet: Sheet, said: Mapping[str, Any], asked: str) -> Answer:
    """A stored answer: its word, and of rows the labels: numbers, or a person's own words."""
    entry = said[asked]
    word, *labels = entry if isinstance(entry, list) and entry else (None,)
    allowed = WORDS if sheet.unit == "pairs" else OF_ROWS
    if word not in allowed or (labels and sheet.unit == "pairs"):
        raise ValueError(f"question {asked!r}: {str(entry)[:40]!r} is no answer.")
    width = len(sheet.label_names)
    others = tuple(label for label in labels if isinstance(label, str))
    listed = [label for label in labels if not isinstance(label, str)]
    numbers = fields.list_of({asked: listed}, asked, fields.whole, high=width - 1)
    if len(set(numbers)) != len(numbers):
        raise ValueError(f"question {asked!r}: a label stands twice.")
    return Answer(word, tuple(numbers), others)


def _indicator(named: Sequence[frozenset[int]], width: int) -> sp.csr_array:
    """A row per unit, 1 at the labels that are named."""
    starts = np.concatenate([[0], np.cumsum([len(own) for own in named])])
    columns = np.array([label for own in named for label in sorted(own)], dtype=np.int64)
    ones = np.ones(columns.size, dtype=np.float32)
    return sp.csr_array((ones, columns, starts), shape=(len(named), width))


def plain(name: str) -> str:
    """A label in a person's words, without differences of capitals and spaces.

    >>> plain(" Wild  Cat") == plain("wild cat")
    True
    """
    return " ".join(name.casefold().split())
