"""Sheets: the questions of a plan, with the names and texts that a person needs to answer them.

One question per pair (does this label apply to this row?) or, where whole rows are judged, one per
row (which labels apply?). Questions stand in the order of the plan, which its seeds decided at
random. A sheet is blind: it does not say what is observed or predicted, nor the stratum of a pair,
unless `reveal` says to.

Every question has an id that means the same in all formats and in all waves of a plan: `r12_l5` is
label 5 of row 12, `r12` the whole row 12, both counted from 0. Formats (`FORMATS`):

- `csv`: for spreadsheets. Pairs: question, row, text, label, answer (yes, no, unsure, skip, or
  empty). Rows: question, row, text, labels (names, or numbers as #12, with | between them), others
  (names of labels that are not in the list, with | between them) and complete (yes when these are
  all labels of the row; unsure, skip, or empty).
- `jsonl`: the same fields, one JSON object per line; labels as a list.
- `label-studio`: tasks to import; `label_studio_config` is the labelling interface they need.
- `argilla`: records for `rg.Dataset.records.from_json`, with a question `answer` (pairs), or
  `labels`, `others` and `complete` (rows).

A row is **complete** when the person says that exactly the labels named apply to it. Only complete
rows are judged rows: a list of some labels that apply says nothing about the others.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import scipy.sparse as sp

from unmask._messages import named_options
from unmask._text import harmless, printable
from unmask._typing import LabelsLike, PathLike, Record
from unmask.arrays import TopK, checks
from unmask.audit.planning import AuditPlan
from unmask.files import atomic_write, fields

FORMAT, VERSION = "unmask-audit-sheet", 1
SEPARATOR = "|"
"""Stands between label names in one cell."""
WORDS = ("yes", "no", "unsure", "skip")
"""Answers about a pair; skip means later."""


@dataclass(frozen=True)
class Question:
    """A question to a person.

    Parameters
    ----------
    row : int
        Number of the row, counted from 0.
    label : int or None
        Number of the label; None asks for all labels of the row.
    row_name : str
        The row's id, or its number.
    text : str, default ""
        What there is to read.
    hint : str, default ""
        What is observed and predicted, if the sheet is not blind.

    Examples
    --------
    >>> Question(12, 1, "doc 12").id, Question(12, None, "doc 12").id
    ('r12_l1', 'r12')
    """

    row: int
    label: int | None
    row_name: str
    text: str = ""
    hint: str = ""

    @property
    def id(self) -> str:
        """Its name in files; no spreadsheet takes it for a date or a time."""
        return f"r{self.row}" if self.label is None else f"r{self.row}_l{self.label}"


@dataclass(frozen=True)
class Sheet:
    """The questions of a plan, in the order in which they are asked.

    Parameters
    ----------
    key : str
        A fingerprint of the plan, the same for all its waves.
    unit : {"rows", "pairs"}
        What is judged.
    questions : tuple of Question
    label_names : tuple of str
        The names of all L labels.

    Examples
    --------
    >>> asked = Sheet("k", "pairs", (Question(12, 1, "doc 12"),), ("cat", "dog"))
    >>> asked.questions[0].id, asked.name_of(asked.questions[0].label)
    ('r12_l1', 'dog')
    """

    key: str
    unit: str
    questions: tuple[Question, ...]
    label_names: tuple[str, ...]

    def name_of(self, label: int | None) -> str:
        """Return the name of a label."""
        return "" if label is None else self.label_names[label]

    def to_dict(self) -> Record:
        """Return plain values for JSON; texts stand once per row. `from_dict` is the inverse."""
        rows = {q.row: [q.row_name, q.text] for q in self.questions}
        return {
            "format": FORMAT,
            "version": VERSION,
            "key": self.key,
            "unit": self.unit,
            "rows": [[row, *names] for row, names in rows.items()],
            "labels": list(self.label_names),
            "questions": [[q.row, q.label, q.hint] for q in self.questions],
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Sheet:
        """Make a sheet of what `to_dict` returned.

        Raises
        ------
        ValueError
            If it is not one, or of a later version.
        """
        if not isinstance(stored, Mapping) or (stored.get("format"), stored.get("version")) != (
            FORMAT,
            VERSION,
        ):
            raise ValueError(f"this is no sheet of version {VERSION}.")
        names = tuple(fields.list_of(stored, "labels", fields.text))
        unit = checks.one_of(fields.text(stored, "unit"), ("rows", "pairs"), "unit")
        rows: dict[int, tuple[str, str]] = {}
        for row, name, text in fields.list_of(stored, "rows", _entries):
            rows[fields.whole({"row": row}, "row")] = (
                fields.text({"name of a row": name}, "name of a row"),
                fields.text({"text of a row": text}, "text of a row"),
            )
        questions = []
        for row, label, hint in fields.list_of(stored, "questions", _entries):
            if fields.whole({"row": row}, "row") not in rows or (label is None) != (unit == "rows"):
                raise ValueError(f"a question about row {row} does not fit the sheet of {unit}.")
            if label is not None:
                fields.whole({"label": label}, "label", high=len(names) - 1)
            hint = fields.text({"hint": hint}, "hint")
            questions.append(Question(row, label, *rows[row], hint))
        if len({question.id for question in questions}) != len(questions):
            raise ValueError("a question is asked twice.")
        return cls(fields.text(stored, "key"), unit, tuple(questions), names)


def _entries(stored: Mapping[str, Any], name: str) -> list[Any]:
    """Return three values of any type."""
    return fields.list_of(stored, name, lambda held, place: held[place], length=3)


@named_options
def sheet(
    plan: AuditPlan,
    *,
    ids: Sequence[str] | None = None,
    label_names: Sequence[str] | None = None,
    texts: Sequence[str] | None = None,
    reveal: tuple[LabelsLike, Mapping[str, TopK]] | None = None,
) -> Sheet:
    """Make the questions of a plan.

    Parameters
    ----------
    plan : AuditPlan
        What is to be judged.
    ids : sequence of n str, optional
        Names of all rows of the data; by default their numbers.
    label_names : sequence of L str, optional
        Names of all labels; by default their numbers.
    texts : sequence of n str, optional
        What a person reads to judge a row.
    reveal : (labels, mapping of str to TopK), optional
        Observed labels and predictions by system, to be shown; by default the sheet is blind.

    Returns
    -------
    Sheet
        One question per unit of the plan, in its order.

    Raises
    ------
    ValueError
        If there is not one name per row or label.

    Examples
    --------
    >>> from unmask.audit import plan
    >>> made = plan(TopK([[0]] * 4, [[1.0]] * 4), [[1, 0]] * 4, budget=2)
    >>> asked = sheet(made, label_names=["cat", "dog"], texts=["a", "b", "c", "d"])
    >>> [question.text for question in asked.questions] == ["abcd"[row] for row in made.rows]
    True
    """
    n, width = plan.sample.shape
    for names, count, noun in ((ids, n, "row"), (label_names, width, "label"), (texts, n, "row")):
        if names is not None and len(names) != count:
            what = "texts" if names is texts else f"{noun} names"
            raise ValueError(f"{len(names)} {what} for {count} {noun}s; give one per {noun}.")
    label_names = tuple(map(str, label_names or range(width)))
    hint = _hints(reveal, label_names, plan.sample.shape)
    labels = [None] * len(plan) if plan.labels is None else plan.labels.tolist()
    questions = tuple(
        Question(
            row,
            label,
            str(ids[row] if ids is not None else row),
            "" if texts is None else str(texts[row]),
            hint(row, label),
        )
        for row, label in zip(plan.rows.tolist(), labels, strict=True)
    )
    return Sheet(plan_key(plan), plan.unit, questions, label_names)


def plan_key(plan: AuditPlan) -> str:
    """Return a text that tells a plan from others by its data and its first draw.

    Parameters
    ----------
    plan : AuditPlan

    Returns
    -------
    str
        16 hexadecimal digits.

    Examples
    --------
    >>> from unmask import TopK, audit
    >>> top, labels = TopK([[0], [1], [0]], [[1.0]] * 3), [[1, 0], [0, 1], [0, 0]]
    >>> plan = audit.plan(top, labels, budget=2)
    >>> len(plan_key(plan)), plan_key(plan) == audit.sheet(plan).key
    (16, True)
    """
    first = plan.waves[0]
    drawn = [plan.fingerprint, plan.sample.design.value, first.seed, first.budget, first.units]
    return hashlib.sha256(json.dumps(drawn).encode()).hexdigest()[:16]


def _hints(
    reveal: tuple[LabelsLike, Mapping[str, TopK]] | None,
    names: tuple[str, ...],
    shape: tuple[int, int],
) -> Callable[[int, int | None], str]:
    """Return hints about a row or pair: whether it is observed, and where systems have it."""
    if reveal is None:
        return lambda row, label: ""
    labels: sp.csr_array = checks.labels(reveal[0])
    systems = reveal[1]
    if labels.shape != shape:
        raise ValueError(f"the plan is of {shape} rows and labels; got labels of {labels.shape}.")

    def words(row: int, label: int | None) -> str:
        observed = labels.indices[labels.indptr[row] : labels.indptr[row + 1]].tolist()
        lists = {
            name: [each for each in top.labels[row].tolist() if each >= 0]
            for name, top in systems.items()
        }
        if label is not None:
            places = [
                f"place {each.index(label) + 1} of {name}"
                for name, each in lists.items() if label in each
            ]  # fmt: skip
            return ", ".join(["observed" if label in observed else "not observed", *places])
        parts = {"observed": observed} | {f"predicted by {n}": each for n, each in lists.items()}
        return "; ".join(
            f"{what}: {', '.join(names[j] for j in each) or 'none'}" for what, each in parts.items()
        )

    return words


@named_options
def write_sheet(sheet: Sheet, path: PathLike, *, format: str | None = None) -> tuple[Path, ...]:
    """Write the questions for a spreadsheet or an annotation tool.

    Parameters
    ----------
    sheet : Sheet
    path : str or path
        Where to.
    format : str, optional
        A name in `FORMATS`; by default by the suffix, .csv or .jsonl.

    Returns
    -------
    tuple of Path
        The files: the sheet itself, for `label-studio` also the labelling interface (.xml), for
        `csv` of whole rows also the list of labels.

    Raises
    ------
    ValueError
        If there is no such format.

    Examples
    --------
    >>> import tempfile
    >>> asked = Sheet("k", "pairs", (Question(12, 1, "doc 12", "A dog."),), ("cat", "dog"))
    >>> (file,) = write_sheet(asked, tempfile.mkdtemp() + "/sheet.csv")
    >>> print(file.read_text().strip())
    question,row,text,label,answer
    r12_l1,doc 12,A dog.,dog,
    """
    target = Path(path)
    if format is None:
        format = target.suffix.lstrip(".").lower()
        if format not in ("csv", "jsonl"):
            raise ValueError(
                f"{target} does not say its format by .csv or .jsonl; name one of "
                f"{', '.join(FORMATS)}."
            )
    contents = FORMATS[checks.one_of(format, FORMATS, "format")](sheet)
    written = [target, *(_beside(target, end) for end in list(contents)[1:])]
    for file, text in zip(written, contents.values(), strict=True):
        with atomic_write(file) as out:
            out.write(text.encode())
    return tuple(written)


def _beside(target: Path, end: str) -> Path:
    return target.with_name(target.name.removesuffix(target.suffix) + end)


def _fields(sheet: Sheet, question: Question) -> dict[str, object]:
    """Return a line of the sheet: what is asked, and places for the answer."""
    hint = {"hint": question.hint} if question.hint else {}
    asked = {"question": question.id, "row": question.row_name, "text": question.text, **hint}
    if question.label is None:
        return {**asked, "labels": [], "others": [], "complete": None}
    return {**asked, "label": sheet.name_of(question.label), "answer": None}


def _csv(sheet: Sheet) -> dict[str, str]:
    lines = [_fields(sheet, question) for question in sheet.questions]
    for line in lines:
        line |= {"labels": "", "others": ""} if "labels" in line else {}
    head = list(lines[0]) if lines else []
    files = {"": _csv_text(head, [list(line.values()) for line in lines])}
    if sheet.unit == "rows":
        numbered = [[f"#{number}", name] for number, name in enumerate(sheet.label_names)]
        files["-labels.csv"] = _csv_text(["number", "label"], numbered)
    return files


def _csv_text(head: list[str], lines: Sequence[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([harmless(cell) for cell in line] for line in lines)
    return text.getvalue()


def _jsonl(sheet: Sheet) -> dict[str, str]:
    lines = (json.dumps(_fields(sheet, q), ensure_ascii=False) for q in sheet.questions)
    return {"": "".join(f"{line}\n" for line in lines)}


def _label_studio(sheet: Sheet) -> dict[str, str]:
    tasks = [{"data": _shown(sheet, question)} for question in sheet.questions]
    return {"": _listed(tasks), ".xml": label_studio_config(sheet)}


def _shown(sheet: Sheet, question: Question) -> dict[str, object]:
    """Return the fields without places for an answer, none of them empty (tools dislike that)."""
    fields = _fields(sheet, question)
    asked = ("answer", "labels", "others", "complete")
    return {name: fields[name] or question.row_name for name in fields if name not in asked}


def label_studio_config(sheet: Sheet) -> str:
    """Return the labelling interface that Label Studio needs for the tasks of a sheet.

    Parameters
    ----------
    sheet : Sheet

    Returns
    -------
    str
        XML for Settings → Labeling Interface → Code.

    Examples
    --------
    >>> asked = Sheet("k", "pairs", (Question(12, 1, "doc 12"),), ("cat", "dog"))
    >>> '<Choice value="yes" hotkey="y" />' in label_studio_config(asked)
    True
    """
    view = ElementTree.Element("View")
    for name in ("row", "text", *(["hint"] if any(q.hint for q in sheet.questions) else [])):
        ElementTree.SubElement(view, "Text", name=name, value=f"${name}")
    if sheet.unit == "pairs":
        ElementTree.SubElement(view, "Header", value="Does this label apply?")
        ElementTree.SubElement(view, "Text", name="label", value="$label")
        _choices(view, "answer", [("yes", "y"), ("no", "n"), ("unsure", "u")])
    else:
        ElementTree.SubElement(view, "Filter", name="filter", toName="labels", minlength="0")
        options = ElementTree.SubElement(
            view, "Choices", name="labels", toName="text", choice="multiple"
        )
        for number, name in enumerate(sheet.label_names):
            ElementTree.SubElement(options, "Choice", value=printable(name), alias=f"#{number}")
        ElementTree.SubElement(view, "Header", value="Other labels, not in the list")
        ElementTree.SubElement(
            view, "TextArea", name="others", toName="text", maxSubmissions="0", editable="true"
        )
        ElementTree.SubElement(view, "Header", value="Are these all labels of the row?")
        _choices(view, "complete", [("yes", "y"), ("unsure", "u")])
    ElementTree.indent(view)
    return ElementTree.tostring(view, encoding="unicode") + "\n"


def _choices(view: ElementTree.Element, name: str, options: Sequence[tuple[str, str]]) -> None:
    group = ElementTree.SubElement(
        view, "Choices", name=name, toName="text", choice="single", required="true"
    )
    for value, key in options:
        ElementTree.SubElement(group, "Choice", value=value, hotkey=key)


def _argilla(sheet: Sheet) -> dict[str, str]:
    records = []
    for question in sheet.questions:
        fields = _shown(sheet, question)
        del fields["question"]
        records.append(
            {"id": question.id, "fields": fields, "metadata": {}, "suggestions": {},
             "responses": {}, "vectors": {}}
        )  # fmt: skip
    return {"": _listed(records)}


def _listed(records: Sequence[Mapping[str, object]]) -> str:
    lines = ",\n".join(json.dumps(record, ensure_ascii=False) for record in records)
    return f"[\n{lines}\n]\n"


FORMATS: dict[str, Callable[[Sheet], dict[str, str]]] = {
    "csv": _csv,
    "jsonl": _jsonl,
    "label-studio": _label_studio,
    "argilla": _argilla,
}
"""Writers of sheets: texts of the file itself and of files beside it, by the end of their
names."""
