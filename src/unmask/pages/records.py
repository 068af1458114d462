"""Stored records: read from files, recognised by kind, and put on one page in their order.

A page made at once and one made later from the stored record are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unmask import __version__, _io, report
from unmask._typing import Record
from unmask.pages import diagnosis, evaluation, tuning


@dataclass(frozen=True)
class PageKind:
    """What a page shows of one kind of record.

    Parameters
    ----------
    summary : function of a record
        Returns the sentences at the top of the page.
    sections : function of a record
        Returns the sections below.
    recognise : function of a path and what its JSON holds
        Returns the records of this kind in it, or none.
    read : function of a path, optional
        Returns the records in a folder, or in a file that is no JSON, or none.
    title : function of a record, optional
        Returns the title of a page of this record alone, or None for the usual one.

    Examples
    --------
    >>> from unmask.pages import KINDS
    >>> sorted(KINDS), KINDS["diagnosis"].recognise(Path("empty.json"), {})
    (['diagnosis', 'evaluation', 'tuning'], [])
    """

    summary: Callable[[Any], list[str]]
    sections: Callable[[Any], list[report.Section]]
    recognise: Callable[[Path, object], Sequence[Mapping[str, object]]]
    read: Callable[[Path], Sequence[Mapping[str, object]]] | None = None
    title: Callable[[Any], str | None] | None = None


def page(
    records: list[Record],
    *,
    title: str | None = None,
    commands: Iterable[str] = (),
    kinds: Mapping[str, PageKind] | None = None,
) -> report.Page:
    """One page of all records, in their order.

    Parameters
    ----------
    records : list of dict
        As `read` returns them, or as a command made them.
    title : str, optional
        By default the headings of the records.
    commands : iterable of str, default ()
        Commands that made the page itself; those that made the records are on it anyway.
    kinds : mapping of str to PageKind, optional
        By default `KINDS`.

    Returns
    -------
    Page

    Raises
    ------
    ValueError
        If a record's sections are no sections of a page.
    KeyError
        If a record's kind is none of `kinds`.

    Examples
    --------
    >>> kind = PageKind(lambda r: [r["text"]], lambda r: [], lambda path, content: [content])
    >>> made = page([{"kind": "note", "text": "It holds."}], kinds={"note": kind})
    >>> made.title, made.summary
    ('Note of note', ('It holds.',))
    """
    kinds = kinds or KINDS
    several = len(records) > 1
    sections = [
        _prefixed(section, name(record)) if several else section
        for record in records
        for section in kinds[record["kind"]].sections(record)
    ]
    evaluations = [record for record in records if record["kind"] == "evaluation"]
    if len(evaluations) > 1:
        columns = {
            f"{number}. {name(record)}": record for number, record in enumerate(evaluations, 1)
        }
        sections.insert(0, evaluation.side_by_side(columns))
    lines = [*(record["command"] for record in records if "command" in record), *commands]
    if lines:
        all_commands = report.Commands(list(dict.fromkeys(lines)))
        sections.append(report.Section("How this page was made", [all_commands]))
    summary = [
        f"{name(record)}: {sentence}" if several else sentence
        for record in records
        for sentence in kinds[record["kind"]].summary(record)
    ]
    page_title = title or _own_title(records, kinds) or " · ".join(map(heading, records))
    return report.Page(page_title, summary, sections, footer=f"Made by unmask {__version__}.")


def _own_title(records: list[Record], kinds: Mapping[str, PageKind]) -> str | None:
    """The title that a single record gives its page."""
    if len(records) != 1:
        return None
    of_kind = kinds[records[0]["kind"]].title
    return of_kind(records[0]) if of_kind else None


def write(
    records: list[Record],
    path: Path,
    *,
    title: str | None = None,
    commands: Iterable[str] = (),
    kinds: Mapping[str, PageKind] | None = None,
) -> report.Page:
    """Write the page of stored records and return it.

    Parameters
    ----------
    records : list of dict
        As `read` returns them.
    path : Path
        The HTML file.
    title, commands, kinds
        As in `page`.

    Returns
    -------
    Page

    Raises
    ------
    ValueError
        If a record has not the form of its kind; the message names its file.

    Examples
    --------
    >>> import tempfile
    >>> kind = PageKind(lambda r: [r["text"]], lambda r: [], lambda path, content: [content])
    >>> path = Path(tempfile.mkdtemp()) / "note.html"
    >>> made = write([{"kind": "note", "text": "It holds."}], path, kinds={"note": kind})
    >>> "It holds." in path.read_text()
    True
    """
    try:
        result = page(records, title=title, commands=commands, kinds=kinds)
        report.write(result, path)
    except DAMAGE as error:
        for record in records:
            _refuse_damaged(record, kinds)
        raise error
    return result


def _refuse_damaged(record: Record, kinds: Mapping[str, PageKind] | None) -> None:
    try:
        report.render(page([record], kinds=kinds))
    except DAMAGE as error:
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(f"{record['file']}: the stored result is damaged ({reason}).") from error


def read(path: Path, *, kinds: Mapping[str, PageKind] | None = None) -> list[Record]:
    """The records in a file or folder.

    Parameters
    ----------
    path : Path
        What a command printed with `--json`, or a folder of rows of studies.
    kinds : mapping of str to PageKind, optional
        By default `KINDS`.

    Returns
    -------
    list of dict
        The records, each with its `file`.

    Raises
    ------
    ValueError
        If there are none.

    Examples
    --------
    >>> import tempfile
    >>> kind = PageKind(lambda r: [r["text"]], lambda r: [], lambda path, content: [content])
    >>> path = Path(tempfile.mkdtemp()) / "note.json"
    >>> _ = path.write_text('{"kind": "note", "text": "It holds."}')
    >>> [record["text"] for record in read(path, kinds={"note": kind})]
    ['It holds.']
    """
    page_kinds = (kinds or KINDS).values()
    for kind in page_kinds:
        if kind.read is not None and (records := kind.read(path)):
            return [{**record, "file": str(path)} for record in records]
    if path.is_dir():
        raise ValueError(f"{path} holds no rows; name a folder that `unmask reproduce` made.")
    content = _read_json(path)
    for kind in page_kinds:
        if records := kind.recognise(path, content):
            return [{**record, "file": str(path)} for record in records]
    raise ValueError(
        f"{path} holds no stored result; give what evaluate, diagnose or reproduce print with "
        "--json, or the folder that reproduce wrote."
    )


def _read_json(path: Path) -> object:
    try:
        return _io.read_json(path)
    except ValueError as error:
        raise ValueError(f"{error} Store results with --json.") from None


def name(record: Record) -> str:
    """The name of a record among others on its page: that of its source."""
    return Path(str(record.get("source") or record["kind"])).name


def heading(record: Record) -> str:
    """The title of a page of one record alone.

    Parameters
    ----------
    record : dict
        With its `kind` and perhaps its `source`.

    Returns
    -------
    str

    Examples
    --------
    >>> heading({"kind": "evaluation", "source": "runs/top.txt"})
    'Evaluation of top.txt'
    """
    return f"{record['kind'].capitalize()} of {name(record)}"


def _prefixed(section: report.Section, prefix: str) -> report.Section:
    return report.Section(f"{prefix}: {section.title}", section.parts)


DAMAGE = (KeyError, TypeError, AttributeError, IndexError, ValueError, OverflowError)
"""What is raised when a record has not the form of its kind."""

KINDS: dict[str, PageKind] = {
    "evaluation": PageKind(
        evaluation.summary, evaluation.sections, evaluation.recognise, title=evaluation.title
    ),
    "diagnosis": PageKind(diagnosis.summary, diagnosis.sections, diagnosis.recognise),
    "tuning": PageKind(tuning.summary, tuning.sections, tuning.recognise),
}
"""The kinds of record that the library stores; studies add theirs (`unmask_studies.KINDS`)."""
