"""What people said to the questions of a sheet: each of them, and joined.

Joined, the answer is that of most people, or of the adjudicator where there is one. Where people
are evenly split there is no answer until somebody else has judged; `Answers.contradictions` lists
it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from unmask._typing import Record
from unmask.audit.agreement import Agreement, agreement
from unmask.audit.answers import from_pairs, from_rows
from unmask.audit.planning import AuditPlan
from unmask.audit.sheets import Question, Sheet, plan_key
from unmask.data.judgements import Judgements

COMPLETE, BEGUN = "complete", "begun"
"""Of rows: all labels are named; some are, and perhaps not all."""
DECIDED = ("yes", "no", COMPLETE)
"""Answers that count as judged; unsure and skip do not."""


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
                added = tuple(self._added[plain(each)] for each in answer.others)
                own = answer.labels + added if label is None else (label,) * (answer.word == "yes")
                decided[name] = frozenset(own)
        return decided

    def _decision(self, position: int) -> frozenset[int] | None:
        """The labels that apply, by the adjudicator or by most; None if split on any label."""
        decided = self._decided(position)
        if self.adjudicator in decided:
            return decided[self.adjudicator]
        votes = Counter(label for own in decided.values() for label in own)
        if not decided or any(2 * count == len(decided) for count in votes.values()):
            return None
        return frozenset(label for label, count in votes.items() if 2 * count > len(decided))

    def decisions(self) -> dict[int, frozenset[int]]:
        """Of every question that is decided, by position, the labels that apply."""
        positions = sorted({p for said in self.by_annotator.values() for p in said})
        decided = ((position, self._decision(position)) for position in positions)
        return {position: labels for position, labels in decided if labels is not None}

    def undecided(self) -> tuple[int, ...]:
        """Positions of questions on which people are only unsure, or evenly split."""
        joined = self._joined()
        return tuple(sorted(i for i, state in joined.items() if state in ("unsure", "split")))

    def judgements(
        self,
        plan: AuditPlan,
        *,
        first: int | None = None,
        supposed: Mapping[int, frozenset[int]] | None = None,
    ) -> Judgements:
        """The joined answers as judgements, for `evaluate(…, audit=…)`.

        Parameters
        ----------
        plan : AuditPlan
            The plan of the sheet, or an extended one.
        first : int, optional
            Only answers to so many units at the beginning of the plan.
        supposed : mapping of int to frozenset of int, optional
            Labels that are supposed to apply, by position of questions that nobody decided.

        Returns
        -------
        Judgements

        Raises
        ------
        ValueError
            If the plan is another one, or too little was answered.
        """
        if plan_key(plan) != self.sheet.key:
            raise ValueError("these answers belong to the questions of another plan.")
        decisions = {
            self.sheet.questions[position].id: decision
            for position, decision in self.decisions().items()
            if first is None or position < first
        }
        decisions |= {self.sheet.questions[i].id: own for i, own in (supposed or {}).items()}
        if plan.labels is not None:
            ids = [f"r{row}_l{label}" for row, label in zip(plan.rows, plan.labels, strict=True)]
            return from_pairs(
                plan, [float(bool(decisions[i])) if i in decisions else np.nan for i in ids]
            )
        ids = [f"r{row}" for row in plan.rows]
        answered = [i in decisions for i in ids]
        named = [sorted(decisions.get(i, ())) for i in ids]
        pointers = np.concatenate([[0], np.cumsum([len(each) for each in named])])
        columns = np.array([label for each in named for label in each], dtype=np.int64)
        ones = np.ones(columns.size, dtype=np.float32)
        listed = len(self.sheet.label_names)
        labels = sp.csr_array((ones, columns, pointers), (len(ids), len(self.names)))
        return from_rows(plan, labels[:, :listed], answered=answered, unlisted=labels[:, listed:])

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
        if stored.get("key") != sheet.key:
            raise ValueError("these answers belong to other questions.")
        places = {question.id: position for position, question in enumerate(sheet.questions)}
        by_annotator = {
            str(name): {
                places[i]: Answer(
                    word,
                    tuple(each for each in labels if not isinstance(each, str)),
                    tuple(each for each in labels if isinstance(each, str)),
                )
                for i, (word, *labels) in said.items()
            }
            for name, said in stored["annotators"].items()
        }
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


def plain(name: str) -> str:
    """A label in a person's words, without differences of capitals and spaces.

    >>> plain(" Wild  Cat") == plain("wild cat")
    True
    """
    return " ".join(name.casefold().split())
