"""An audit as a folder: its plan, its questions, where the data are, and all answers so far.

- `plan.json`: the plan (`planning`), with its questions under `sheet` (`sheets`) and under `files`
  the labels and predictions that it was made from: path relative to the folder, bytes, checksum;
- `answers.json`: the answers read so far, by annotator (`annotators`).

Both are replaced whole, so that whatever interrupts a command leaves the audit as it was or as it
should be. Newer answers of a person are put over older ones, so files may be handed in again and
again while judging goes on.

A folder may come from somebody else, and says itself which files it is about. A file that it names
is read only if it is, byte for byte, the one that the plan was made from (`unchanged`): whoever
wrote the folder had it then, and nothing of it that a message quotes is a secret from them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from glob import escape
from pathlib import Path
from typing import Any

from unmask._messages import function
from unmask._typing import PathLike, Record
from unmask.audit.answers import Answers
from unmask.audit.planning import AuditPlan
from unmask.audit.sheets import Sheet, plan_key
from unmask.data.reading import names_beside
from unmask.files import atomic_write, exclusive, fields, open_readable, read_json
from unmask.files.tables import FORMS

PLAN, ANSWERS = "plan.json", "answers.json"


@dataclass(frozen=True)
class DataFile:
    """A file that a plan was made from, with what is read along with it.

    Parameters
    ----------
    path : Path
        Where it was; a folder of documents has all its files in it.
    size : int
        Bytes, those of files of names beside it included.
    sha256 : str
        Of names, lengths and contents.
    """

    path: Path
    size: int
    sha256: str

    @classmethod
    def of(cls, path: PathLike) -> DataFile:
        """Describe a file as it is now."""
        parts = _parts(Path(path))
        return cls(Path(path), _size(parts), _digest(parts))

    @property
    def unchanged(self) -> Path:
        """Return the path, if the same content is there.

        Raises
        ------
        ValueError
            If something else is.
        OSError
            If nothing is, or it cannot be read.
        """
        parts = _parts(self.path)
        if _size(parts) == self.size and _digest(parts) == self.sha256:
            return self.path
        raise ValueError(
            f"{self.path} is not what the plan was made from: its content differs. Name "
            f"the labels and predictions with {function('data.read')} and "
            f"{function('predictions.read')}, or plan a new audit."
        )


def _parts(path: Path) -> list[Path]:
    """Return all files that reading a path may read."""
    if path.is_dir():
        return sorted(file for file in path.iterdir() if file.is_file())
    if not path.exists():  # what the names of several files begin with
        return sorted(path.parent.glob(f"{escape(path.name)}*")) or [path]
    form = next((each for each in path.suffixes[::-1] if each not in (".gz", ".zst")), "")
    if form.removeprefix(".") in FORMS:
        return [path]
    beside = (names_beside(path, noun) for noun in ("feature", "label"))
    return [path, *(file for file in beside if file is not None)]


def _size(parts: Sequence[Path]) -> int:
    return sum(part.stat().st_size for part in parts)


def _digest(parts: Sequence[Path]) -> str:
    whole = hashlib.sha256()
    for part in parts:
        with open_readable(part) as file:
            own = hashlib.file_digest(file, "sha256").hexdigest()
        whole.update(f"{part.name}\0{own}\n".encode())
    return whole.hexdigest()


@dataclass(frozen=True)
class AuditFolder:
    """The content of an audit's folder.

    Parameters
    ----------
    path : Path
        The folder.
    plan : AuditPlan
    sheet : Sheet
    labels : DataFile
        The file of observed labels.
    predictions : tuple of DataFile
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
    >>> for file in (files["labels"], *files["predictions"]):
    ...     file.touch()
    >>> made = write_folder(folder / "audit", plan, audit.sheet(plan), **files)
    >>> made.labels.path.name, len(made.sheet.questions), made.answers.counts()["open"]
    ('labels.txt', 2, 2)
    """

    path: Path
    plan: AuditPlan
    sheet: Sheet
    labels: DataFile
    predictions: tuple[DataFile, ...]
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
        If the questions are not those of the plan, or the folder holds another plan.
    OSError
        If a file cannot be read, or the folder not be written.

    Examples
    --------
    >>> import tempfile
    >>> from unmask import TopK, audit
    >>> top, labels = TopK([[0], [1], [0]], [[1.0]] * 3), [[1, 0], [0, 1], [0, 0]]
    >>> plan = audit.plan(top, labels, budget=2)
    >>> folder = Path(tempfile.mkdtemp())
    >>> files = {"labels": folder / "labels.txt", "predictions": [folder / "top.txt"]}
    >>> for file in (files["labels"], *files["predictions"]):
    ...     file.touch()
    >>> made = write_folder(folder / "audit", plan, audit.sheet(plan), **files)
    >>> [file.name for file in made.path.iterdir()]
    ['plan.json']
    """
    folder = Path(path)
    _refuse_other_questions(plan, sheet)
    files = {
        "labels": _stored(labels, folder), "predictions": [_stored(p, folder) for p in predictions]
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    with exclusive(folder):
        if (folder / PLAN).exists() and plan_key(read_folder(folder).plan) != sheet.key:
            raise ValueError(f"{folder} holds another audit; choose another folder.")
        _write(folder / PLAN, {**plan.to_dict(), "sheet": sheet.to_dict(), "files": files})
    return read_folder(folder)


def _stored(path: Path, folder: Path) -> Record:
    file = DataFile.of(path)
    place = os.path.relpath(path.resolve(), folder.resolve())
    return {"path": place, "size": file.size, "sha256": file.sha256}


def _refuse_other_questions(plan: AuditPlan, sheet: Sheet) -> None:
    """Raise unless the sheet asks about exactly the units of the plan, in their order."""
    if len(sheet.label_names) != plan.sample.shape[1]:
        raise ValueError(
            f"questions about {len(sheet.label_names)} labels; the plan has {plan.sample.shape[1]}."
        )
    labels = [None] * len(plan) if plan.labels is None else plan.labels.tolist()
    units = list(zip(plan.rows.tolist(), labels, strict=True))
    if sheet.key != plan_key(plan) or [(q.row, q.label) for q in sheet.questions] != units:
        raise ValueError("these are the questions of another plan.")


def read_folder(path: PathLike) -> AuditFolder:
    """Read an audit from its folder.

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
    >>> for file in (files["labels"], *files["predictions"]):
    ...     file.touch()
    >>> made = write_folder(folder / "audit", plan, audit.sheet(plan), **files)
    >>> read_folder(folder / "audit").plan.rows.tolist() == plan.rows.tolist()
    True
    """
    folder = Path(path)
    if not (folder / PLAN).is_file():
        raise ValueError(f"{folder} holds no audit: there is no {PLAN} in it.")
    stored = read_json(folder / PLAN)
    try:
        plan, sheet = AuditPlan.from_dict(stored), Sheet.from_dict(fields.record(stored, "sheet"))
        _refuse_other_questions(plan, sheet)
        files = fields.record(stored, "files")
        labels = _read(fields.record(files, "labels"), folder)
        predictions = tuple(_read(each, folder) for each in fields.records(files, "predictions"))
    except ValueError as error:
        raise ValueError(f"{folder / PLAN}: {error}") from None
    return AuditFolder(folder, plan, sheet, labels, predictions, _stored_answers(folder, sheet))


def _read(stored: Mapping[str, Any], folder: Path) -> DataFile:
    path = Path(os.path.relpath(folder / fields.text(stored, "path")))  # as one would type it
    return DataFile(path, fields.whole(stored, "size"), fields.text(stored, "sha256"))


def _stored_answers(folder: Path, sheet: Sheet) -> Answers:
    file = folder / ANSWERS
    if not file.exists():
        return Answers(sheet, {})
    stored = read_json(file)
    try:
        return Answers.from_dict(sheet, stored)
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
    >>> for file in (files["labels"], *files["predictions"]):
    ...     file.touch()
    >>> made = write_folder(folder / "audit", plan, audit.sheet(plan), **files)
    >>> newer = Answers(made.sheet, {"ann": {0: audit.Answer("complete", labels=(0,))}})
    >>> made, changed = add_answers(made, newer)
    >>> made.answers.counts()["judged"], changed
    (1, 0)
    """
    with exclusive(folder.path):
        stored = _stored_answers(folder.path, folder.sheet)
        answers, changed = stored.updated(newer)
        _write(folder.path / ANSWERS, answers.to_dict())
    return replace(folder, answers=answers), changed


def _write(path: Path, record: Record) -> None:
    with atomic_write(path) as file:
        file.write(json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
