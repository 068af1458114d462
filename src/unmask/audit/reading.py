"""Answers back from people: files of every format that `sheets` writes, read strictly.

`read` takes what the judging page saved, filled-in CSV and JSONL sheets, and the exports of Label
Studio and Argilla. Answers may be partial; several people may answer the same questions. What
cannot be meant is refused with file, place and token: a question that was not asked, two answers of
one person to one question, a word that is no answer, a name that is not that of the row or label,
label numbers beside names of other labels.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unmask._messages import named_options
from unmask._text import harmless, printable, visible
from unmask._typing import PathLike
from unmask.audit.annotators import BEGUN, COMPLETE, Answer, Answers, plain
from unmask.audit.sheets import SEPARATOR, WORDS, Sheet
from unmask.files import contents, read_json


@named_options
def read(sheet: Sheet, *paths: PathLike, adjudicator: str = "") -> Answers:
    """Answers from files.

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
    """From the fields of an entry to annotator, question and answer."""

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
        """A sheet whose lines were mixed up has names that do not belong to their questions."""
        value = entry.fields.get(field)
        forms = {name, harmless(name), printable(name), str(harmless(name)).strip()}
        if isinstance(value, str | int) and str(value) not in forms:
            asked = entry.fields["question"]
            raise entry.refuse(
                f"question {asked!r} is about {field} {_shown(name)}, but the file says "
                f"{_shown(value)}; lines may have been mixed up"
            )

    def _check_names(self, entry: _Entry, numbers: list[int]) -> None:
        """The page saves names beside numbers; both must mean the same labels."""
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
        """Labels in the person's own words; none of them may be in the list."""
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
        """A label by number (12, #12) or by name."""
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
    """Whether a text looks like several labels."""
    return any(mark in text for mark in ";,\t ")


def _shown(token: object) -> str:
    text = visible(str(token))
    return repr(text if len(text) <= 60 else text[:60] + "…")


def _entries(path: Path, sheet: Sheet) -> Iterator[_Entry]:
    """The answers in a file, whatever its format; lines that are not filled in are left out."""
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
    """Comma, or what spreadsheets of other countries put in its place."""
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
    """A field of Label Studio's short export: text, or choices."""
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
            given = _object(f"{place}, value", value.get("value", {}))
            chosen = given.get("choices") or given.get("text") or []
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
    """One entry per person who responded; drafts and discarded responses are no answers."""
    asked = _object(f"{place}, fields", record.get("fields") or {})
    by_person: dict[str, dict[str, Any]] = {}
    for name, responses in _object(f"{place}, responses", record["responses"]).items():
        for response in responses or []:
            one = _object(f"{place}, {name}", response)
            if one.get("status") not in ("draft", "discarded"):
                by_person.setdefault(str(one.get("user_id") or ""), {})[name] = one.get("value")
    for person, fields in by_person.items():
        names = {key: asked[key] for key in ("row", "label") if key in asked}
        yield _Entry(place, {"question": record.get("id"), "annotator": person, **names, **fields})
