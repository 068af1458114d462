"""An audit as a folder: its plan, its questions, where the data are, and all answers so far.

- `plan.json`: the plan (`planning`);
- `sheet.json`: the questions with names and texts (`sheets`);
- `data.json`: the files that the plan was made from, relative to the folder;
- `answers.json`: the answers read so far, by annotator (`annotators`).

Every file is replaced whole. Newer answers of a person are put over older ones, so files may be
handed in again and again while judging goes on.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from unmask import _io
from unmask._io import fields
from unmask._typing import PathLike, Record
from unmask.audit.annotators import Answers
from unmask.audit.planning import AuditPlan, read_plan, write_plan
from unmask.audit.sheets import Sheet, plan_key

PLAN, SHEET, DATA, ANSWERS = "plan.json", "sheet.json", "data.json", "answers.json"


@dataclass(frozen=True)
class AuditFolder:
    """What an audit's folder holds.

    Parameters
    ----------
    path : Path
        The folder.
    plan : AuditPlan
    sheet : Sheet
    labels : Path
        The file of observed labels.
    predictions : tuple of Path
        The files of predictions, one per system.
    answers : Answers
        All so far.

    Examples
    --------
    >>> import tempfile
    >>> from unmask import TopK, audit
    >>> top, labels = TopK([[0], [1], [0]], [[1.0]] * 3), [[1, 0], [0, 1], [0, 0]]
    >>> plan = audit.plan(top, labels, budget=2)
    >>> folder = Path(tempfile.mkdtemp())
    >>> files = {"labels": folder / "labels.txt", "predictions": [folder / "top.txt"]}
    >>> made = write_folder(folder / "audit", plan, audit.sheet(plan), **files)
    >>> made.labels.name, len(made.sheet.questions), made.answers.counts()["open"]
    ('labels.txt', 2, 2)
    """

    path: Path
    plan: AuditPlan
    sheet: Sheet
    labels: Path
    predictions: tuple[Path, ...]
    answers: Answers


def write_folder(
    path: PathLike, plan: AuditPlan, sheet: Sheet, *, labels: Path, predictions: Sequence[Path]
) -> AuditFolder:
    """Begin an audit's folder, or put a plan with a further wave into it.

    Parameters
    ----------
    path : str or path
        The folder; made if it is not there.
    plan : AuditPlan
    sheet : Sheet
        Its questions.
    labels : Path
        The file of observed labels.
    predictions : sequence of Path
        The files of predictions.

    Returns
    -------
    AuditFolder
        With the answers that the folder already has to the same plan.

    Raises
    ------
    ValueError
        If the folder holds another plan.

    Examples
    --------
    >>> import tempfile
    >>> from unmask import TopK, audit
    >>> top, labels = TopK([[0], [1], [0]], [[1.0]] * 3), [[1, 0], [0, 1], [0, 0]]
    >>> plan = audit.plan(top, labels, budget=2)
    >>> folder = Path(tempfile.mkdtemp())
    >>> files = {"labels": folder / "labels.txt", "predictions": [folder / "top.txt"]}
    >>> made = write_folder(folder / "audit", plan, audit.sheet(plan), **files)
    >>> sorted(file.name for file in made.path.glob("*.json"))
    ['data.json', 'plan.json', 'sheet.json']
    """
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    with _io.exclusive(folder):
        if (folder / PLAN).exists() and plan_key(read_plan(folder / PLAN)) != sheet.key:
            raise ValueError(f"{folder} holds another audit; choose another folder.")
        write_plan(folder / PLAN, plan)
        _write(folder / SHEET, sheet.to_dict())
        places = [os.path.relpath(file.resolve(), folder.resolve()) for file in predictions]
        source = os.path.relpath(labels.resolve(), folder.resolve())
        _write(folder / DATA, {"labels": source, "predictions": places})
    return read_folder(folder)


def read_folder(path: PathLike) -> AuditFolder:
    """An audit from its folder.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    AuditFolder

    Raises
    ------
    ValueError
        If it holds no audit, or a damaged one; the message names the file.

    Examples
    --------
    >>> import tempfile
    >>> from unmask import TopK, audit
    >>> top, labels = TopK([[0], [1], [0]], [[1.0]] * 3), [[1, 0], [0, 1], [0, 0]]
    >>> plan = audit.plan(top, labels, budget=2)
    >>> folder = Path(tempfile.mkdtemp())
    >>> files = {"labels": folder / "labels.txt", "predictions": [folder / "top.txt"]}
    >>> made = write_folder(folder / "audit", plan, audit.sheet(plan), **files)
    >>> read_folder(folder / "audit").plan.rows.tolist() == plan.rows.tolist()
    True
    """
    folder = Path(path)
    if not (folder / PLAN).is_file():
        raise ValueError(f"{folder} holds no audit: there is no {PLAN} in it.")
    plan = read_plan(folder / PLAN)
    try:
        sheet = Sheet.from_dict(_io.read_json(folder / SHEET))
        labels_asked = [None] * len(plan) if plan.labels is None else plan.labels.tolist()
        units = list(zip(plan.rows.tolist(), labels_asked, strict=True))
        asked = [(question.row, question.label) for question in sheet.questions]
        width = len(sheet.label_names)
        if (sheet.key, asked, width) != (plan_key(plan), units, plan.sample.shape[1]):
            raise ValueError("these are the questions of another plan.")
    except ValueError as error:
        raise ValueError(f"{folder / SHEET}: {error}") from None
    files = _io.read_json(folder / DATA)
    try:
        labels = folder / fields.text(files, "labels")
        predictions = tuple(
            folder / name for name in fields.list_of(files, "predictions", fields.text)
        )
    except ValueError as error:
        raise ValueError(f"{folder / DATA}: {error}") from None
    return AuditFolder(
        folder, plan, sheet, _short(labels), tuple(map(_short, predictions)),
        _stored_answers(folder, sheet),
    )  # fmt: skip


def _short(path: Path) -> Path:
    """Without `..` on the way, as one would type it."""
    return Path(os.path.relpath(path))


def _stored_answers(folder: Path, sheet: Sheet) -> Answers:
    file = folder / ANSWERS
    if not file.exists():
        return Answers(sheet, {})
    try:
        return Answers.from_dict(sheet, _io.read_json(file))
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


def add_answers(folder: AuditFolder, newer: Answers) -> tuple[AuditFolder, int]:
    """Put newer answers over those of the folder, and keep them there.

    Parameters
    ----------
    folder : AuditFolder
    newer : Answers
        As `read` gives them.

    Returns
    -------
    (AuditFolder, int)
        The folder as it is now, and how many older answers were changed.

    Raises
    ------
    ValueError
        If the stored answers are damaged, or another process is writing to the folder.
    OSError
        If the folder cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from unmask import TopK, audit
    >>> top, labels = TopK([[0], [1], [0]], [[1.0]] * 3), [[1, 0], [0, 1], [0, 0]]
    >>> plan = audit.plan(top, labels, budget=2)
    >>> folder = Path(tempfile.mkdtemp())
    >>> files = {"labels": folder / "labels.txt", "predictions": [folder / "top.txt"]}
    >>> made = write_folder(folder / "audit", plan, audit.sheet(plan), **files)
    >>> newer = Answers(made.sheet, {"ann": {0: audit.Answer("complete", labels=(0,))}})
    >>> made, changed = add_answers(made, newer)
    >>> made.answers.counts()["judged"], changed
    (1, 0)
    """
    with _io.exclusive(folder.path):
        stored = _stored_answers(folder.path, folder.sheet)
        answers, changed = stored.updated(newer)
        _write(folder.path / ANSWERS, answers.to_dict())
    return replace(folder, answers=answers), changed


def _write(path: Path, record: Record) -> None:
    with _io.atomic_write(path) as file:
        file.write(json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
