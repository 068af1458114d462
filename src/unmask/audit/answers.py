"""Answers: what people said to the questions of a sheet, joined, and made into judgements.

A unit without an answer leaves the sample, and the others of its stratum stand for it: their
probability is what was answered over what there is. That is exact where the missing answers are
those that nobody got to, since units stand in random order; `Judgements.unanswered` counts them.
What people looked at and could not decide is not missing: it stays in the sample as `undecided`,
label by label, and measured intervals hold whatever it means.

Joined, the answer is that of most people, or of the adjudicator where there is one, label by label.
Labels on which people are evenly split are undecided until somebody else has judged, as are
questions on which everybody was unsure; measured intervals hold whatever they mean.

`read` takes what the judging page saved, filled-in CSV and JSONL sheets, and the exports of Label
Studio and Argilla. Answers may be partial; several people may answer the same questions. What
cannot be meant is refused with file, place and token: a question that was not asked, two answers of
one person to one question, a word that is no answer, a name that is not that of the row or label,
label numbers beside names of other labels.

**Agreement.** Kappa is (a − e) / (1 − e): the agreement a, beyond the agreement e of annotators who
say yes as often, but at random. Cohen's e multiplies the two annotators' own shares of yes; Fleiss'
squares the common one, and an item may have been judged by any number of people from two up.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from unmask._messages import function, named_options
from unmask._text import harmless, printable, visible
from unmask._typing import Bools, LabelsLike, PathLike, Record
from unmask.arrays import checks
from unmask.audit.planning import AuditPlan
from unmask.audit.sheets import SEPARATOR, WORDS, Question, Sheet, plan_key
from unmask.data.judgements import Judgements
from unmask.files import contents, fields, read_json

COMPLETE, BEGUN = "complete", "begun"
"""Answers about rows: all labels are named; some are, and perhaps not all."""
DECIDED = ("yes", "no", COMPLETE)
"""Answers that decide; unsure does not, and skip means later."""
OF_ROWS = (COMPLETE, BEGUN, "unsure", "skip")
"""Answers about whole rows."""


# --- judgements


@named_options
def from_rows(
    plan: AuditPlan,
    true_labels: LabelsLike,
    *,
    answered: ArrayLike | None = None,
    undecided: LabelsLike | None = None,
    unsure: ArrayLike | None = None,
    unlisted: LabelsLike | None = None,
) -> Judgements:
    """Make judgements of the complete labels of the planned rows.

    Parameters
    ----------
    plan : AuditPlan
        A plan of rows.
    true_labels : (m, L) matrix of 0 and 1
        All labels of `plan.rows`, in their order.
    answered : (m,) booleans, optional
        Which rows have been judged; by default all.
    undecided : (m, L) or (m, L + e) matrix of 0 and 1, optional
        Labels of which nobody could say whether they apply; none of those that do.
    unsure : (m,) booleans, optional
        Rows of which nothing is decided.
    unlisted : (m, e) matrix of 0 and 1, optional
        Further labels of the same rows, which are not among the L of the data: relevant labels
        that no system can predict.

    Returns
    -------
    Judgements

    Raises
    ------
    ValueError
        If the plan is one of pairs, shapes differ, or nothing was judged.

    Examples
    --------
    >>> from unmask.audit import plan
    >>> from unmask.predictions import TopK
    >>> made = plan(TopK([[0]] * 4, [[1.0]] * 4), [[1, 0]] * 4, budget=2)
    >>> from_rows(made, [[1, 0], [1, 1]]).true_labels.nnz
    3
    """
    if plan.unit != "rows":
        raise ValueError(
            f"this is a plan of pairs; give its answers to {function('audit.from_pairs')}."
        )
    labels = checks.labels(true_labels, name="true labels")
    expected = (len(plan), plan.sample.shape[1])
    if labels.shape != expected:
        raise ValueError(
            f"true labels must be those of the {len(plan)} planned rows, {expected}; got shape "
            f"{labels.shape}."
        )
    if unlisted is not None:
        more = checks.labels(unlisted, name="unlisted labels")
        checks.same_rows(more, labels, "unlisted labels", "true labels")
        labels = sp.csr_array(sp.hstack([labels, more], format="csr"))
    open_ = sp.csr_array(labels.shape, dtype=np.float32)
    if undecided is not None:
        open_ = checks.labels(undecided, name="undecided labels")
        if open_.shape not in (expected, labels.shape):
            raise ValueError(
                f"undecided labels must be those of the {len(plan)} planned rows, {expected}; got "
                f"shape {open_.shape}."
            )
        open_ = sp.csr_array((open_.data, open_.indices, open_.indptr), shape=labels.shape)
    if labels.multiply(open_).nnz:
        raise ValueError("a label that is true is not undecided; give it once.")
    judged, of_nothing = _per_unit(plan, answered, True), _per_unit(plan, unsure, False)
    if judged.sum() < min(2, len(judged)):
        raise ValueError(f"at least two rows must be judged; got {int(judged.sum())}.")
    kept = np.flatnonzero(judged)
    some = open_[kept].nnz or of_nothing[kept].any()
    return Judgements(
        plan.sample.answered(judged), labels[kept], int((~judged).sum()),
        *((open_[kept], of_nothing[kept]) if some else ()),
    )  # fmt: skip


@named_options
def from_pairs(
    plan: AuditPlan,
    answers: ArrayLike | Sequence[float | None],
    *,
    undecided: ArrayLike | None = None,
) -> Judgements:
    """Make judgements of one answer per planned pair.

    Parameters
    ----------
    plan : AuditPlan
        A plan of pairs.
    answers : (m,) numbers
        1 relevant, 0 not, nan (or None) no answer, in the order of the plan.
    undecided : (m,) booleans, optional
        Pairs that were looked at, but that nobody could decide; their answers do not count.

    Returns
    -------
    Judgements

    Raises
    ------
    ValueError
        If the plan is one of rows, the number of answers differs, an answer is none of these, or
        there is none at all.

    Examples
    --------
    >>> from unmask.audit import plan
    >>> from unmask.predictions import TopK
    >>> top = TopK([[0]] * 4, [[1.0]] * 4)
    >>> made = plan(top, [[0, 0]] * 4, budget=4, unit="pairs", metrics=["P@1"])
    >>> judged = from_pairs(made, [1, 0, float("nan"), 1])
    >>> judged.answers, judged.unanswered, judged.sample.probability
    (array([1., 0., 1.]), 1, array([0.75, 0.75, 0.75]))
    """
    if plan.unit != "pairs":
        raise ValueError(
            f"this is a plan of rows; give their labels to {function('audit.from_rows')}."
        )
    values = np.array([np.nan if a is None else a for a in np.asarray(answers).tolist()], float)
    if values.shape != (len(plan),):
        raise ValueError(f"give one answer per planned pair, {len(plan)}; got {values.size}.")
    open_ = _per_unit(plan, undecided, False)
    values[open_] = 0.0
    judged = ~np.isnan(values)
    wrong = np.flatnonzero(judged & (values != 0) & (values != 1))
    if wrong.size:
        raise ValueError(
            f"an answer is 1 (relevant), 0 (not) or nan (none); got {values[wrong[0]]:g} at pair "
            f"{wrong[0]}."
        )
    if not judged.any():
        raise ValueError("no pair has an answer; judge at least one.")
    return Judgements(
        plan.sample.answered(judged), values[judged], int((~judged).sum()),
        open_[judged] if open_.any() else None,
    )  # fmt: skip


def _per_unit(plan: AuditPlan, values: ArrayLike | None, default: bool) -> Bools:
    made = np.full(len(plan), default) if values is None else np.asarray(values, dtype=bool)
    if made.shape != (len(plan),):
        raise ValueError(
            f"give one answer per planned {plan.unit.removesuffix('s')}, {len(plan)}; got "
            f"{made.shape}."
        )
    return made


# --- agreement


@dataclass(frozen=True)
class PairAgreement:
    """Two annotators on the items that both decided.

    Parameters
    ----------
    annotators : (str, str)
    items : int
        Items on which both said yes or no.
    percent : float
        The share of items with the same answer.
    positive : float
        2 both-yes / (yes of the one + yes of the other): agreement where yes is rare.
    kappa : float
        Cohen's; nan if both gave the same answer throughout.

    Examples
    --------
    >>> both = pair_agreement(("ann", "ben"), [[20, 5], [10, 15]])
    >>> both.items, both.percent, round(both.positive, 3), round(both.kappa, 3)
    (50, 0.7, 0.667, 0.4)
    """

    annotators: tuple[str, str]
    items: int
    percent: float
    positive: float
    kappa: float


@dataclass(frozen=True)
class Agreement:
    """The agreement of several annotators.

    Parameters
    ----------
    pairs : tuple of PairAgreement
        Every two annotators with items in common.
    fleiss : float
        Fleiss' kappa over all items with at least two answers; nan if there are none.
    items : int
        How many such items there are.

    Examples
    --------
    >>> from unmask.audit import Answer, Answers, Question, Sheet
    >>> questions = (Question(3, 0, "doc 3"), Question(5, 1, "doc 5"))
    >>> asked = Sheet("k", "pairs", questions, ("cat", "dog"))
    >>> ann, ben = {0: Answer("yes"), 1: Answer("no")}, {0: Answer("yes"), 1: Answer("yes")}
    >>> agreement = Answers(asked, {"ann": ann, "ben": ben}).agreement()
    >>> agreement.items, agreement.pairs[0].percent, round(agreement.fleiss, 2)
    (2, 0.5, -0.33)
    """

    pairs: tuple[PairAgreement, ...]
    fleiss: float
    items: int


def pair_agreement(annotators: tuple[str, str], counts: ArrayLike) -> PairAgreement:
    """Compute the agreement of two annotators from their table of answers.

    Parameters
    ----------
    annotators : (str, str)
    counts : numbers of shape (2, 2)
        Items by the answer of the first (no, yes) and of the second.

    Returns
    -------
    PairAgreement

    Examples
    --------
    >>> round(pair_agreement(("a", "b"), [[20, 5], [10, 15]]).kappa, 3)
    0.4
    """
    table = np.asarray(counts, dtype=np.float64)
    total = float(table.sum())
    same = float(np.trace(table)) / total if total else np.nan
    chance = float(table.sum(0) @ table.sum(1)) / total**2 if total else np.nan
    yes = float(table[1].sum() + table[:, 1].sum())
    return PairAgreement(
        annotators,
        int(total),
        same,
        float(2 * table[1, 1] / yes) if yes else np.nan,
        _kappa(same, chance),
    )


def fleiss_kappa(counts: ArrayLike) -> float:
    """Compute Fleiss' kappa.

    Parameters
    ----------
    counts : numbers of shape (items, categories)
        How many people put an item into a category; items with fewer than two do not count.

    Returns
    -------
    float
        nan if no item has two answers, or all answers are the same.

    Examples
    --------
    >>> round(fleiss_kappa([[2, 0], [0, 2], [1, 1]]), 3)
    0.333
    """
    table = np.atleast_2d(np.asarray(counts, dtype=np.float64))
    people = table.sum(1)
    table, people = table[people >= 2], people[people >= 2]
    if people.size == 0:
        return float("nan")
    same = float(((table * (table - 1)).sum(1) / (people * (people - 1))).mean())
    shares = table.sum(0) / people.sum()
    return _kappa(same, float((shares**2).sum()))


def _kappa(same: float, chance: float) -> float:
    return float((same - chance) / (1 - chance)) if chance < 1 else float("nan")


def agreement(answers: Mapping[str, Mapping[int, bool]]) -> Agreement:
    """Compute the agreement of annotators who decided items.

    Parameters
    ----------
    answers : mapping of annotator to mapping of item to bool
        What each of them decided.

    Returns
    -------
    Agreement

    Examples
    --------
    >>> both = agreement({"ann": {1: True, 2: False, 3: True}, "bob": {1: True, 2: True}})
    >>> both.items, both.pairs[0].percent
    (2, 0.5)
    """
    names = list(answers)
    pairs = []
    for position, first in enumerate(names):
        for second in names[position + 1 :]:
            common = answers[first].keys() & answers[second].keys()
            table = np.zeros((2, 2))
            for item in common:
                table[int(answers[first][item]), int(answers[second][item])] += 1
            if common:
                pairs.append(pair_agreement((first, second), table))
    counts: dict[int, list[int]] = {}
    for decided in answers.values():
        for item, yes in decided.items():
            counts.setdefault(item, [0, 0])[int(yes)] += 1
    several = [each for each in counts.values() if sum(each) >= 2]
    kappa = fleiss_kappa(several) if several else float("nan")
    return Agreement(tuple(pairs), kappa, len(several))


# --- people


@dataclass(frozen=True)
class Answer:
    """The answer of one person to one question.

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
    """The answers of several people to the questions of a sheet.

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
        """Count questions asked, judged, only unsure, only skipped, begun, split, and open."""
        joined = self._joined()
        tally = Counter(joined.get(i, "open") for i in range(len(self.sheet.questions)))
        names = ("judged", "unsure", "skip", "begun", "split", "open")
        return {"asked": len(self.sheet.questions), **{name: tally[name] for name in names}}

    def _joined(self) -> dict[int, str]:
        """Return the state of every question that somebody answered."""
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
        """Return the labels that apply by annotator who decided a question."""
        label = self.sheet.questions[position].label
        decided = {}
        for name, said in self.by_annotator.items():
            answer = said.get(position)
            if answer is not None and answer.word in DECIDED:
                own = self._named(answer) if label is None else (label,) * (answer.word == "yes")
                decided[name] = frozenset(own)
        return decided

    def _named(self, answer: Answer) -> tuple[int, ...]:
        """Return the numbers of all labels of an answer."""
        return answer.labels + tuple(self._added[plain(each)] for each in answer.others)

    def _votes(self, position: int) -> tuple[frozenset[int], frozenset[int]]:
        """Return labels that apply, by the adjudicator or by most, and those that are undecided."""
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
        """Return the labels that apply; None if nobody decided, or any label is undecided."""
        most, undecided = self._votes(position)
        return None if undecided or not self._decided(position) else most

    def decisions(self) -> dict[int, frozenset[int]]:
        """Return the labels that apply to every decided question, by its position."""
        positions = sorted({p for said in self.by_annotator.values() for p in said})
        decided = ((position, self._decision(position)) for position in positions)
        return {position: labels for position, labels in decided if labels is not None}

    def judgements(self, plan: AuditPlan, *, first: int | None = None) -> Judgements:
        """Join the answers into judgements, for `evaluate(…, audit=…)`.

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
        """Return the agreement of annotators on pairs of a row and a label that they decided.

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
        """Return the questions that people decided differently, in the order of the sheet."""
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
        """Return plain values for JSON, labels by number, others by name; `from_dict` inverts."""
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
        """Make answers of what `to_dict` returned.

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
        """Put newer answers over these, and count those that changed one.

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
    """Return a stored answer: its word, and labels of rows by number or in a person's words."""
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
    """Return a row per unit, 1 at the labels that are named."""
    starts = np.concatenate([[0], np.cumsum([len(own) for own in named])])
    columns = np.array([label for own in named for label in sorted(own)], dtype=np.int64)
    ones = np.ones(columns.size, dtype=np.float32)
    return sp.csr_array((ones, columns, starts), shape=(len(named), width))


def plain(name: str) -> str:
    """Return a label in a person's words, without differences of capitals and spaces.

    >>> plain(" Wild  Cat") == plain("wild cat")
    True
    """
    return " ".join(name.casefold().split())


# --- files


@named_options
def read(sheet: Sheet, *paths: PathLike, adjudicator: str = "") -> Answers:
    """Read answers from files.

    Parameters
    ----------
    sheet : Sheet
        What was asked.
    *paths : str or path
        Files that the judging page saved, filled-in sheets, exports of Label Studio or Argilla.
    adjudicator : str, default ""
        The annotator whose answers decide where there are any.

    Returns
    -------
    Answers
        An annotator without a name is called after the file.

    Raises
    ------
    ValueError
        If a file holds something else, a question was not asked, one person answered it twice, or
        a word is no answer; the message names file, place and token.

    Examples
    --------
    >>> import tempfile
    >>> from unmask.audit import Question
    >>> asked = Sheet("k", "pairs", (Question(12, 1, "doc 12"),), ("cat", "dog"))
    >>> file = Path(tempfile.mkdtemp(), "ann.csv")
    >>> _ = file.write_text("question,answer\\nr12_l1,yes\\n")
    >>> read(asked, file).by_annotator["ann"][0].word
    'yes'
    >>> _ = file.write_text("question,answer\\nr12_l0,yes\\n")
    >>> read(asked, file)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: .../ann.csv, line 2: question 'r12_l0' was not asked.
    """
    said: dict[str, dict[int, Answer]] = {}
    sources: dict[tuple[str, int], tuple[Path, str]] = {}
    reader = _Reader(sheet)
    for path in map(Path, paths):
        for entry in _entries(path, sheet):
            name, position, answer = reader.answer(entry, path.stem.split(".")[0])
            before = said.setdefault(name, {}).get(position)
            file, first = sources.get((name, position), (None, ""))
            if before is not None and (before != answer or file == path):
                raise ValueError(
                    f"{entry.place}: {name!r} answers question {sheet.questions[position].id!r} "
                    f"a second time; the other answer is at {first}."
                )
            said[name][position] = answer
            sources[name, position] = path, entry.place
    return Answers(sheet, said, adjudicator)


@dataclass(frozen=True)
class _Entry:
    """One answer as a file has it: fields as they are, and where they stand."""

    place: str
    fields: Mapping[str, Any]

    def refuse(self, words: str) -> ValueError:
        return ValueError(f"{self.place}: {words}.")


class _Reader:
    """Read annotator, question and answer from the fields of an entry."""

    def __init__(self, sheet: Sheet) -> None:
        self.sheet = sheet
        self.places = {question.id: i for i, question in enumerate(sheet.questions)}
        names = Counter(sheet.label_names)
        self.listed = set(map(plain, sheet.label_names))
        self.numbers = {name: j for j, name in enumerate(sheet.label_names) if names[name] == 1}

    def answer(self, entry: _Entry, file_name: str) -> tuple[str, int, Answer]:
        identity = entry.fields.get("question")
        if not isinstance(identity, str) or identity not in self.places:
            raise entry.refuse(f"question {_shown(identity)} was not asked")
        position = self.places[identity]
        question = self.sheet.questions[position]
        self._check_name(entry, "row", question.row_name)
        name = str(entry.fields.get("annotator") or file_name)
        if question.label is not None:
            self._check_name(entry, "label", self.sheet.name_of(question.label))
            return name, position, Answer(self._word(entry, "answer", WORDS))
        return name, position, self._row(entry)

    def _check_name(self, entry: _Entry, field: str, name: str) -> None:
        """Refuse a sheet whose lines were mixed up: its names do not belong to their questions."""
        value = entry.fields.get(field)
        forms = {name, harmless(name), printable(name), str(harmless(name)).strip()}
        if isinstance(value, str | int) and str(value) not in forms:
            asked = entry.fields["question"]
            raise entry.refuse(
                f"question {asked!r} is about {field} {_shown(name)}, but the file says "
                f"{_shown(value)}; lines may have been mixed up"
            )

    def _check_names(self, entry: _Entry, numbers: list[int]) -> None:
        """Return the page saves names beside numbers; both must mean the same labels."""
        names = entry.fields.get("names")
        if names is None:
            return
        own = [printable(self.sheet.name_of(number)) for number in numbers]
        if names != own:
            raise entry.refuse(
                f"labels {numbers} are {_shown(', '.join(own) or 'none')} here, but the file calls "
                f"them {_shown(names)}; it may belong to another list of labels"
            )

    def _word(self, entry: _Entry, field: str, allowed: Sequence[str]) -> str:
        value = entry.fields.get(field)
        word = _SYNONYMS.get(str(value).strip().lower(), "")
        if word not in allowed:
            raise entry.refuse(f"{_shown(value)} is no answer; use one of {', '.join(allowed)}")
        return word

    def _row(self, entry: _Entry) -> Answer:
        labels, others = self._labels(entry), self._others(entry)
        complete, word = entry.fields.get("complete"), entry.fields.get("answer")
        if word not in (None, ""):
            return Answer(self._word(entry, "answer", ("unsure", "skip")), labels, others)
        if complete in (None, "", False):
            return Answer(BEGUN, labels, others)
        said = self._word(entry, "complete", ("yes", "no", "unsure", "skip"))
        return Answer({"yes": COMPLETE, "no": BEGUN}.get(said, said), labels, others)

    def _others(self, entry: _Entry) -> tuple[str, ...]:
        """Return labels in the person's own words; none of them may be in the list."""
        value = entry.fields.get("others")
        tokens = value.split(SEPARATOR) if isinstance(value, str) else value or []
        if not isinstance(tokens, list) or not all(isinstance(each, str) for each in tokens):
            raise entry.refuse(f"other labels must be a list of names; got {_shown(value)}")
        names = [name for each in tokens if (name := " ".join(each.split()))]
        listed = next((name for name in names if plain(name) in self.listed), None)
        if listed is not None:
            raise entry.refuse(f"{_shown(listed)} is in the list; put it under labels")
        repeated = [name for name, count in Counter(map(plain, names)).items() if count > 1]
        if repeated:
            raise entry.refuse(f"label {_shown(repeated[0])} stands twice")
        return tuple(names)

    def _labels(self, entry: _Entry) -> tuple[int, ...]:
        value = entry.fields.get("labels")
        tokens = value.split(SEPARATOR) if isinstance(value, str) else value or []
        if not isinstance(tokens, list):
            raise entry.refuse(f"labels must be a list; got {_shown(value)}")
        numbers = [self._label(entry, t) for t in tokens if not isinstance(t, str) or t.strip()]
        self._check_names(entry, numbers)
        repeated = [number for number, count in Counter(numbers).items() if count > 1]
        if repeated:
            raise entry.refuse(f"label {_shown(self.sheet.name_of(repeated[0]))} stands twice")
        return tuple(sorted(numbers))

    def _label(self, entry: _Entry, token: object) -> int:
        """Return a label by number (12, #12) or by name."""
        count = len(self.sheet.label_names)
        if isinstance(token, str):
            text = token.strip()
            number = int(text[1:]) if text[:1] == "#" and text[1:].isdecimal() else None
            by_name = self.numbers.get(text, self.numbers.get(text.removeprefix("'")))
            if number is not None and by_name not in (None, number):
                raise entry.refuse(f"{_shown(text)} is a name and a number of different labels")
            token = by_name if number is None else number
            if token is None:
                between = f", and {SEPARATOR} between labels" if _several(text) else ""
                raise entry.refuse(
                    f"{_shown(text)} names no label, or more than one; use #number{between}"
                )
        if not isinstance(token, int) or isinstance(token, bool) or not 0 <= token < count:
            raise entry.refuse(f"there is no label {_shown(token)}; labels are 0 … {count - 1}")
        return token


_SYNONYMS = {word: word for word in (*WORDS, COMPLETE)} | {
    "y": "yes", "n": "no", "u": "unsure", "s": "skip", "1": "yes", "0": "no", "?": "unsure",
    "true": "yes", "false": "no",
}  # fmt: skip


def _several(text: str) -> bool:
    """Return whether a text looks like several labels."""
    return any(mark in text for mark in ";,\t ")


def _shown(token: object) -> str:
    text = visible(str(token))
    return repr(text if len(text) <= 60 else text[:60] + "…")


def _entries(path: Path, sheet: Sheet) -> Iterator[_Entry]:
    """Return the answers in a file of any format, without lines that are not filled in."""
    text = contents(path).decode("utf-8-sig", "replace").lstrip()
    if text[:1] == "[" or (text[:1] == "{" and path.suffix.lower() != ".jsonl"):
        entries = _json_entries(path, read_json(path, text.encode()), sheet)
    elif text[:1] == "{":
        entries = _line_entries(path, text)
    else:
        entries = _csv_entries(path, text)
    return (entry for entry in entries if _is_filled(entry))


def _is_filled(entry: _Entry) -> bool:
    answer, *parts = map(entry.fields.get, ("answer", "labels", "others", "complete"))
    return answer not in (None, "") or any(parts)  # false and 0 are answers: no


def _csv_entries(path: Path, text: str) -> Iterator[_Entry]:
    lines = csv.reader(io.StringIO(text, newline=""), dialect=_dialect(text), strict=True)
    head = [name.strip().lower() for name in next(lines, [])]
    if "question" not in head or not {"answer", "complete"} & set(head):
        raise ValueError(
            f"{path} holds no answers: the first line names no columns question and answer (or "
            "labels and complete)."
        )
    try:
        for cells in lines:
            place = f"{path}, line {lines.line_num}"
            if len(cells) > len(head):
                raise ValueError(f"{place}: {len(cells)} cells in a table of {len(head)} columns.")
            if any(cells):
                yield _Entry(place, dict(zip(head, cells, strict=False)))
    except csv.Error as error:
        raise ValueError(f"{path}, line {lines.line_num}: {error}.") from None


def _dialect(text: str) -> type[csv.Dialect]:
    """Return the separator: a comma, or what spreadsheets of other countries use."""
    first = text.partition("\n")[0]

    class Cells(csv.excel):
        delimiter = max(",;\t", key=first.count)

    return Cells


def _line_entries(path: Path, text: str) -> Iterator[_Entry]:
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            place = f"{path}, line {number}"
            yield _Entry(place, _object(place, read_json(place, line.encode())))


def _object(place: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{place}: expected an object, got {_shown(json.dumps(value))}.")
    return value


def _json_entries(path: Path, content: object, sheet: Sheet) -> Iterator[_Entry]:
    if isinstance(content, dict):
        if content.get("kind") != "answers" or not isinstance(content.get("answers"), list):
            raise ValueError(f"{path} holds no answers of a judging page.")
        if content.get("key") != sheet.key:
            raise ValueError(
                f"{path} answers the questions of another plan (key {_shown(content.get('key'))}, "
                f"not {sheet.key!r})."
            )
        who = {"annotator": content.get("annotator")}
        for number, fields in enumerate(content["answers"], start=1):
            place = f"{path}, answer {number}"
            yield _Entry(place, {**_object(place, fields), **who})
        return
    for number, fields in enumerate(content if isinstance(content, list) else (), start=1):
        place = f"{path}, entry {number}"
        record = _object(place, fields)
        if "annotations" in record:
            yield from _label_studio(place, record)
        elif "responses" in record:
            yield from _argilla(place, record)
        else:
            yield _Entry(place, {name: _choice(value) for name, value in record.items()})


def _choice(value: object) -> object:
    """Return a field of Label Studio's short export: text, or choices."""
    return value.get("choices") if isinstance(value, dict) else value


def _label_studio(place: str, task: Mapping[str, Any]) -> Iterator[_Entry]:
    data = _object(f"{place}, data", task.get("data"))
    for annotation in task["annotations"]:
        record = _object(f"{place}, annotations", annotation)
        fields: dict[str, Any] = {
            name: data.get(name) for name in ("question", "row", "label") if name in data
        }
        fields["annotator"] = _person(record.get("completed_by"))
        for result in record.get("result") or []:
            value = _object(f"{place}, result", result)
            content = _object(f"{place}, value", value.get("value", {}))
            chosen = content.get("choices") or content.get("text") or []
            single = value.get("from_name") not in ("labels", "others")
            fields[str(value.get("from_name"))] = (chosen or [None])[0] if single else chosen
        if record.get("was_cancelled"):
            fields["answer"] = "skip"
        yield _Entry(place, fields)


def _person(completed_by: object) -> str:
    if isinstance(completed_by, dict):
        return str(completed_by.get("email") or completed_by.get("id") or "")
    return "" if completed_by is None else str(completed_by)


def _argilla(place: str, record: Mapping[str, Any]) -> Iterator[_Entry]:
    """Return one entry per person who responded; drafts and discarded responses are no answers."""
    asked = _object(f"{place}, fields", record.get("fields") or {})
    by_person: dict[str, dict[str, Any]] = {}
    for name, responses in _object(f"{place}, responses", record["responses"]).items():
        for response in responses or []:
            one = _object(f"{place}, {name}", response)
            if one.get("status") not in ("draft", "discarded"):
                by_person.setdefault(str(one.get("user_id") or ""), {})[name] = one.get("value")
    for person, answers in by_person.items():
        names = {key: asked[key] for key in ("row", "label") if key in asked}
        yield _Entry(place, {"question": record.get("id"), "annotator": person, **names, **answers})
