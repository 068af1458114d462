"""A page on which a person answers: one HTML file with its questions, styles and script inside.

A `Questionnaire` says what is asked; this module arranges it by `questionnaire.html.jinja`. The
answers stay in the reader's browser (local storage, by the questionnaire's key) until they are
saved as a JSON file; the page loads nothing and sends nothing, and a content security policy
holds it to that. Everything from data is put into one JSON block, from which the script writes
text nodes only.

The file that the page saves holds `kind`, `key`, `annotator` and `answers`, one object per question
that was answered or begun: its id under `question`, the names of passage and option under the
nouns of the questionnaire, and

- where one option is asked about: `answer`, one of `ANSWERS`;
- where all options of a passage are asked for: the positions chosen (the plural noun), their names,
  `others` (what applies and is not among the options, in the person's words, if anything does),
  `complete` (true: the person said that these are all), and `answer` if it is unsure or skip.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from unmask._typing import PathLike
from unmask.report.format import printable
from unmask.report.html import document

LIMIT = 20_000_000
"""Bytes that a questionnaire may have."""

ANSWERS = ("yes", "no", "unsure", "skip")
"""What can be said about one option of a passage; skip means later."""

KIND = "answers"
"""What the saved file calls itself."""


@dataclass(frozen=True)
class Passage:
    """What a question is about.

    Parameters
    ----------
    name : str
        A short name, such as an identifier.
    text : str, default ""
        What the person reads, with its line ends.

    Examples
    --------
    >>> Passage("doc 12", text="Boil an egg.").name
    'doc 12'
    """

    name: str
    text: str = ""


@dataclass(frozen=True)
class Question:
    """One question: about one option of a passage, or about all of them.

    Parameters
    ----------
    id : str
        How the saved file names it.
    passage : int
        Position in `Questionnaire.passages`.
    option : int or None, default None
        Position in `Questionnaire.options`; None asks for all options that apply.
    hint : str, default ""
        Shown beside the question.

    Examples
    --------
    >>> Question("r12_l1", passage=0, option=1).option, Question("r12", passage=0).option
    (1, None)
    """

    id: str
    passage: int
    option: int | None = None
    hint: str = ""


@dataclass(frozen=True)
class Questionnaire:
    """What is asked, in the order in which it is asked.

    Parameters
    ----------
    title : str
    key : str
        Answers are kept in the browser, and saved, under this name: a fingerprint of the questions.
    passages : sequence of Passage
    options : sequence of str
        Names; where all are asked for, the saved file has positions in this sequence.
    questions : sequence of Question
        All about one option, or all about all options.
    prompt : str
        The question in words, such as "Does this label apply?".
    nouns : (str, str, str), default ("passage", "option", "options")
        What a passage, one option and several are called, on the page and in the saved file.
    notes : sequence of str, default ()
        Sentences on how to answer.

    Raises
    ------
    ValueError
        If there is no question, ids repeat, both kinds of question are mixed, or a position does
        not exist.

    Examples
    --------
    >>> asked = Questionnaire("Animals", "k1", [Passage("7", "A cat sat.")], ["cat", "dog"],
    ...                       [Question("q1", 0, 1)], "Does it occur?")
    >>> asked.asks_for_all
    False
    """

    title: str
    key: str
    passages: Sequence[Passage]
    options: Sequence[str]
    questions: Sequence[Question]
    prompt: str
    nouns: tuple[str, str, str] = ("passage", "option", "options")
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Refuse questions that the page could not ask."""
        if not self.questions:
            raise ValueError("a questionnaire needs at least one question.")
        ids = [question.id for question in self.questions]
        if len(set(ids)) < len(ids):
            twice = next(each for each in ids if ids.count(each) > 1)
            raise ValueError(f"questions need different ids; {twice!r} stands twice.")
        if len({question.option is None for question in self.questions}) == 2:
            raise ValueError("ask about one option in every question, or for all in every one.")
        for question in self.questions:
            if not 0 <= question.passage < len(self.passages):
                raise ValueError(f"{question.id}: there is no passage {question.passage}.")
            if question.option is not None and not 0 <= question.option < len(self.options):
                raise ValueError(f"{question.id}: there is no option {question.option}.")

    @property
    def asks_for_all(self) -> bool:
        """Whether each question asks for all options that apply."""
        return self.questions[0].option is None


def render_questionnaire(questionnaire: Questionnaire) -> str:
    """The questionnaire as HTML; the same questionnaire gives the same text.

    Parameters
    ----------
    questionnaire : Questionnaire

    Returns
    -------
    str
        One HTML document.

    Raises
    ------
    ValueError
        If it would be larger than 20 MB.

    Examples
    --------
    >>> asked = Questionnaire("Is 1 < 2?", "k1", [Passage("7")], ["a"], [Question("q1", 0, 0)], "?")
    >>> "<h1>Is 1 &lt; 2?</h1>" in render_questionnaire(asked)
    True
    """
    return document(
        "questionnaire", LIMIT, f"the page {questionnaire.title!r}",
        "ask fewer questions on one page, or give shorter texts",
        asked=questionnaire, data=_as_data(questionnaire),
    )  # fmt: skip


def write_questionnaire(questionnaire: Questionnaire, path: PathLike) -> Path:
    """Write the questionnaire as one HTML file that needs no other.

    Parameters
    ----------
    questionnaire : Questionnaire
    path : str or path

    Returns
    -------
    Path
        The file.

    Raises
    ------
    ValueError
        If the page would be larger than a page may be.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> asked = [Question("q1", passage=0, option=0)]
    >>> form = Questionnaire("Eggs", "k", [Passage("doc 1")], ["heat"], asked, "Does it apply?")
    >>> write_questionnaire(form, Path(tempfile.mkdtemp()) / "form.html").name
    'form.html'
    """
    from unmask.files import atomic_write

    with atomic_write(path) as file:
        file.write(render_questionnaire(questionnaire).encode())
    return Path(path)


def _as_data(asked: Questionnaire) -> str:
    """What the script reads: JSON in which nothing can end the element that holds it."""
    record = {
        "kind": KIND,
        "key": asked.key,
        "nouns": asked.nouns,
        "prompt": printable(asked.prompt),
        "passages": [[printable(p.name), printable(p.text)] for p in asked.passages],
        "options": [printable(name) for name in asked.options],
        "questions": [
            [q.id, q.passage, q.option, printable(q.hint)] for q in asked.questions
        ],
    }  # fmt: skip
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
