"""The judging page: the questions of an audit's sheet, answered by a person in a browser.

The answers stay in the reader's browser (local storage, by the key of the sheet) until they are
saved as a JSON file; the page loads nothing and sends nothing, and a content security policy holds
it to that. Everything from data is put into one JSON block, from which the script writes text
nodes only. `audit.read` says what the saved file holds.
"""

from __future__ import annotations

import json
from pathlib import Path

from unmask._text import printable
from unmask._typing import PathLike
from unmask.audit import Sheet
from unmask.pages import files

LIMIT = 20_000_000
"""Bytes that a judging page may have."""


def render_judging(sheet: Sheet, *, title: str | None = None) -> str:
    """Return the questions of a sheet as HTML; the same sheet gives the same text.

    Parameters
    ----------
    sheet : Sheet
        Pairs of a row and a label to be judged, or rows whose labels are asked for.
    title : str, optional
        By default it says what is judged.

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
    >>> from unmask.audit import Question
    >>> asked = Sheet("k", "pairs", (Question(12, 1, "doc 12"),), ("cat", "dog"))
    >>> "<h1>Is 1 &lt; 2?</h1>" in render_judging(asked, title="Is 1 < 2?")
    True
    """
    pairs = sheet.unit == "pairs"
    title = title or ("Does the label apply?" if pairs else "Which labels apply?")
    passages = {question.row: question for question in sheet.questions}
    rows = {row: position for position, row in enumerate(passages)}
    used = sorted({question.label for question in sheet.questions if question.label is not None})
    labels = {label: position for position, label in enumerate(used)}
    names = [sheet.label_names[label] for label in used] if pairs else sheet.label_names
    record = {
        "kind": "answers",
        "key": sheet.key,
        "passages": [[printable(q.row_name), printable(q.text)] for q in passages.values()],
        "options": [printable(name) for name in names],
        "questions": [
            [q.id, rows[q.row], None if q.label is None else labels[q.label], printable(q.hint)]
            for q in sheet.questions
        ],
    }
    data = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":  # nothing in it can end the element that holds it
        data = data.replace(character, f"\\u{ord(character):04x}")
    text = files.document("judging", title, sheet=sheet, pairs=pairs, data=data)
    return files.within(text, LIMIT, title, "ask fewer questions on one page, or shorten the texts")


def write_judging(sheet: Sheet, path: PathLike, *, title: str | None = None) -> Path:
    """Write the questions of a sheet as one HTML file that needs no other.

    Parameters
    ----------
    sheet : Sheet
    path : str or path
    title : str, optional
        By default it says what is judged.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    ValueError
        If the page would be larger than 20 MB.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from unmask.audit import Question
    >>> asked = Sheet("k", "pairs", (Question(12, 1, "doc 12"),), ("cat", "dog"))
    >>> write_judging(asked, Path(tempfile.mkdtemp()) / "judge.html").name
    'judge.html'
    """
    return files.write_bytes(path, render_judging(sheet, title=title).encode())
