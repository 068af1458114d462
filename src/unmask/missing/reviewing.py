"""Findings before people, and what they said.

`review` makes a sheet of the findings, like that of an audit: for a spreadsheet, Label Studio,
Argilla or the judging page, read back by `audit.read`. Questions stand in random order, so that
whatever was answered first is a random sample of the listed findings, and measures their precision.
It is no audit of the data: pairs were chosen because a model believes in them, and pairs it does
not believe in were never asked about, so nothing follows for recall or P@k. Answers that are only a
list of pairs (`Reviewed` with `random=False`) repair the data and measure nothing at all.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unmask import _io, _validation
from unmask._typing import Floats, Ints, PathLike, Record
from unmask.audit.annotators import Answers
from unmask.audit.sheets import Question, Sheet
from unmask.metrics.intervals import wilson, z_quantile
from unmask.missing.findings import Findings

FORMAT, VERSION = "unmask-review", 1
KINDS = ("missing", "wrong")
"""Of findings."""


@dataclass(frozen=True, eq=False)
class Review:
    """Findings and the sheet on which people judge them.

    Parameters
    ----------
    sheet : Sheet
        What is asked: pairs, in random order.
    probability : (m,) floats
        P(missing) of every question, which the sheet does not show.
    shape : (int, int)
        Rows and labels of the data.
    kind : {"missing", "wrong"}, default "missing"
        Of the findings.

    Raises
    ------
    ValueError
        If a question is none about a pair of the data, or there is not a probability for each.

    Examples
    --------
    >>> from unmask import missing
    >>> asked = missing.review(missing.find([[0.9, 0.5]], [[0, 0]], [0.5, 0.5]))
    >>> sorted(question.id for question in asked.sheet.questions)
    ['r0_l0', 'r0_l1']
    """

    sheet: Sheet
    probability: Floats
    shape: tuple[int, int]
    kind: str = "missing"

    def __post_init__(self) -> None:
        """Check that the parts belong together."""
        _validation.one_of(self.kind, KINDS, "kind of findings")
        if any(question.label is None for question in self.sheet.questions):
            raise ValueError("the questions of a review are about pairs, each with a label.")
        _validation.indices(self.rows, self.shape[0], "rows of questions")
        _validation.indices(self.labels, self.shape[1], "labels of questions")
        chances = np.asarray(self.probability)
        if chances.shape != (len(self.sheet.questions),):
            raise ValueError(
                f"{len(self.sheet.questions)} questions need as many probabilities; got shape "
                f"{chances.shape}."
            )
        if not ((chances >= 0) & (chances <= 1)).all():
            raise ValueError("probabilities must lie in [0, 1].")

    @property
    def rows(self) -> Ints:
        """The row of every question."""
        return np.array([question.row for question in self.sheet.questions], dtype=np.int64)

    @property
    def labels(self) -> Ints:
        """The label of every question."""
        return np.array([question.label for question in self.sheet.questions], dtype=np.int64)

    def reviewed(self, answers: Answers) -> Reviewed:
        """The joined answers of one or several people (`audit.read`).

        Parameters
        ----------
        answers : Answers
            To this very sheet.

        Returns
        -------
        Reviewed
            Without the pairs on which people were unsure, split or silent.

        Raises
        ------
        ValueError
            If the answers belong to another sheet, or nothing is decided.
        """
        if answers.sheet.key != self.sheet.key:
            raise ValueError("these answers belong to the questions of another review.")
        decided = answers.decisions()
        if not decided:
            raise ValueError("no finding has an answer; judge at least one.")
        places = sorted(decided)
        questions = [self.sheet.questions[place] for place in places]
        return Reviewed(
            np.array([question.row for question in questions]),
            np.array([question.label for question in questions]),
            np.array([bool(decided[place]) for place in places], dtype=np.float64),
            self.probability[places],
            self.shape,
            random=True,
            asked=len(self.sheet.questions),
        )

    def write(self, path: PathLike) -> None:
        """Keep the review in a JSON file; `read_review` is the inverse."""
        with _io.atomic_write(path) as file:
            file.write(json.dumps(self.to_dict(), ensure_ascii=False).encode())

    def to_dict(self) -> Record:
        """Plain values for JSON."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "kind": self.kind,
            "shape": list(self.shape),
            "probability": self.probability.round(6).tolist(),
            "sheet": self.sheet.to_dict(),
        }


@dataclass(frozen=True, eq=False)
class Reviewed:
    """What people said about pairs that a model had chosen.

    Parameters
    ----------
    rows, labels : (m,) integers
        The pairs.
    answers : (m,) floats
        1 where the label applies, else 0.
    probability : (m,) floats
        P(missing) as it was stated; nan where nothing was.
    shape : (int, int)
        Rows and labels of the data.
    random : bool, default False
        Whether the pairs are a random sample of the listed findings.
    asked : int, default 0
        How many findings were listed.

    Raises
    ------
    ValueError
        If lengths differ, a number is out of range, or an answer is neither 0 nor 1.

    Examples
    --------
    >>> own = Reviewed([0, 3], [1, 1], [1, 0], [0.9, 0.8], (4, 2))
    >>> own.measures, own.confirmed
    (False, 1)
    """

    rows: Ints
    labels: Ints
    answers: Floats
    probability: Floats
    shape: tuple[int, int]
    random: bool = False
    asked: int = 0

    def __post_init__(self) -> None:
        """Check that the parts belong together."""
        for name, size in (("rows", self.shape[0]), ("labels", self.shape[1])):
            _validation.indices(getattr(self, name), size, name)
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=np.int64))
        for name in ("answers", "probability"):
            numbers = _validation.numbers(getattr(self, name), name).astype(np.float64)
            object.__setattr__(self, name, numbers)
        sizes = {len(each) for each in (self.rows, self.labels, self.answers, self.probability)}
        if len(sizes) != 1:
            raise ValueError(f"a review needs as many labels and answers as rows; got {sizes}.")
        if not np.isin(self.answers, (0.0, 1.0)).all():
            raise ValueError("an answer is 1 (the label applies) or 0 (it does not).")
        if np.unique(self.rows * self.shape[1] + self.labels).size != self.rows.size:
            raise ValueError("a pair was reviewed twice; give every pair one answer.")

    @property
    def confirmed(self) -> int:
        """How many labels apply."""
        return int(self.answers.sum())

    @property
    def measures(self) -> bool:
        """Whether the share of right findings follows; recall and P@k never do."""
        return self.random

    def precision(self, confidence: float = 0.95) -> tuple[float, float, float]:
        """The share of the listed findings that are truly missing, and its interval.

        Parameters
        ----------
        confidence : float, default 0.95

        Returns
        -------
        value, low, high
            Wilson's interval, narrowed by the share of the findings that were judged; all judged:
            the share itself.

        Raises
        ------
        ValueError
            If the pairs are no random sample of the findings.
        """
        if not self.measures:
            raise ValueError(
                "these pairs were chosen by hand or by score, and how likely each was to be chosen "
                "is not known: they repair the data (`missing.complete`) and measure nothing. "
                "Judge the sheet of `missing.review`, whose order is random."
            )
        share, left = float(self.answers.mean()), 1.0 - self.rows.size / self.asked
        if left <= 0:
            return share, share, share
        low, high = wilson(share, self.rows.size / left, z_quantile(confidence))
        return share, float(low), float(high)


def review(findings: Findings, *, texts: Sequence[str] | None = None, seed: int = 0) -> Review:
    """Findings as questions to people, in random order, without their probabilities.

    Parameters
    ----------
    findings : Findings
        Of any kind; `findings.first(500)` asks less.
    texts : sequence of n str, optional
        What a person reads to judge a row.
    seed : int, default 0
        Of the order.

    Returns
    -------
    Review

    Raises
    ------
    ValueError
        If there is not one text per row, or nothing to ask.

    Examples
    --------
    >>> from unmask import missing
    >>> asked = review(missing.find([[0.9, 0.5]], [[0, 0]], [0.5, 0.5]), texts=["boil an egg"])
    >>> {question.text for question in asked.sheet.questions}
    {'boil an egg'}
    """
    if not len(findings):
        raise ValueError("there is no finding to review.")
    if texts is not None and len(texts) != findings.shape[0]:
        raise ValueError(f"{len(texts)} texts for {findings.shape[0]} rows; give one per row.")
    order = np.random.default_rng(seed).permutation(len(findings))
    rows, labels = findings.rows[order], findings.labels[order]
    questions = tuple(
        Question(row, label, findings.row_name(row), "" if texts is None else str(texts[row]))
        for row, label in zip(rows.tolist(), labels.tolist(), strict=True)
    )
    names = tuple(findings.label_name(label) for label in range(findings.shape[1]))
    about = json.dumps([FORMAT, findings.kind, findings.shape, rows.tolist(), labels.tolist()])
    key = hashlib.sha256(about.encode()).hexdigest()[:16]
    sheet = Sheet(key, "pairs", questions, names)
    return Review(sheet, findings.probability[order], findings.shape, findings.kind)


def read_review(path: PathLike) -> Review:
    """The review that `Review.write` kept.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    Review

    Raises
    ------
    ValueError
        If the file holds something else.

    Examples
    --------
    >>> import tempfile
    >>> from unmask import missing
    >>> path = tempfile.mkdtemp() + "/review.json"
    >>> missing.review(missing.find([[0.9, 0.5]], [[0, 0]], [0.5, 0.5])).write(path)
    >>> len(read_review(path).sheet.questions)
    2
    """
    stored: Mapping[str, Any] | Any = _io.read_json(path, _io.contents(path))
    if not isinstance(stored, dict) or stored.get("format") != FORMAT:
        raise ValueError(f"{path} holds no review of findings; `unmask missing` writes one.")
    if stored.get("version") != VERSION:
        raise ValueError(f"{path} is a review of another version than {VERSION}.")
    try:
        sheet = Sheet.from_dict(stored["sheet"])
        n, width = stored["shape"]
        chances = np.array(stored["probability"], dtype=float)
        return Review(sheet, chances, (int(n), int(width)), str(stored["kind"]))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{path} is a damaged review: {error}.") from None
