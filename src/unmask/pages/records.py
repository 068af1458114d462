"""Stored records: read from files, recognised by kind, and put on one page in their order.

A page made at once and one made later from the stored record are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from unmask import __version__, _io, report
from unmask.pages import diagnosis, evaluation

Record = dict[str, Any]


class PageKind(NamedTuple):
    """What a page shows of one kind of record: sentences first, then sections.

    `recognise` turns the content of a file into records of this kind, or into none.
    """

    summary: Callable[[Record], list[str]]
    sections: Callable[[Record], list[report.Section]]
    recognise: Callable[[Path, Any], list[Record]]


def page(
    records: list[Record],
    *,
    title: str | None = None,
    commands: Iterable[str] = (),
    kinds: Mapping[str, PageKind] | None = None,
) -> report.Page:
    """One page of all records, in their order; `commands` are those that made the page itself."""
    known = kinds or KINDS
    several = len(records) > 1
    sections = [
        _prefixed(section, name(record)) if several else section
        for record in records
        for section in known[record["kind"]].sections(record)
    ]
    evaluations = [record for record in records if record["kind"] == "evaluation"]
    if len(evaluations) > 1:
        names = [f"{number}. {name(record)}" for number, record in enumerate(evaluations, 1)]
        sections.insert(0, evaluation.side_by_side(dict(zip(names, evaluations, strict=True))))
    lines = [*(record["command"] for record in records if "command" in record), *commands]
    if lines:
        commands_made = report.Commands(list(dict.fromkeys(lines)))
        sections.append(report.Section("How this page was made", [commands_made]))
    summary = [
        f"{name(record)}: {sentence}" if several else sentence
        for record in records
        for sentence in known[record["kind"]].summary(record)
    ]
    heading_of_page = title or " · ".join(map(heading, records))
    return report.Page(heading_of_page, summary, sections, footer=f"Made by unmask {__version__}.")


def write(
    records: list[Record],
    path: Path,
    *,
    title: str | None = None,
    commands: Iterable[str] = (),
    kinds: Mapping[str, PageKind] | None = None,
) -> report.Page:
    """Write the page of stored records and return it; a file that holds nonsense is named."""
    try:
        made = page(records, title=title, commands=commands, kinds=kinds)
        report.write(made, path)
    except DAMAGE as error:
        for record in records:
            _refuse_damaged(record, kinds)
        raise error
    return made


def _refuse_damaged(record: Record, kinds: Mapping[str, PageKind] | None) -> None:
    try:
        report.render(page([record], kinds=kinds))
    except DAMAGE as error:
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(f"{record['file']}: the stored result is damaged ({reason}).") from error


def read(path: Path, *, kinds: Mapping[str, PageKind] | None = None) -> list[Record]:
    """The records in a file or folder; what is none is refused by name."""
    content = path if path.is_dir() else _loaded(path)
    for kind in (kinds or KINDS).values():
        if records := kind.recognise(path, content):
            return [{**record, "file": str(path)} for record in records]
    if path.is_dir():
        raise ValueError(f"{path} holds no rows; name a folder that `unmask reproduce` made.")
    raise ValueError(
        f"{path} holds no stored result; give what evaluate, diagnose or reproduce print with "
        "--json, or the folder that reproduce wrote."
    )


def _loaded(path: Path) -> Any:
    try:
        return _io.read_json(path)
    except ValueError as error:
        raise ValueError(f"{error} Store results with --json.") from None


def name(record: Record) -> str:
    """A record in short, to tell it from others on its page."""
    return Path(str(record.get("source") or record["kind"])).name


def heading(record: Record) -> str:
    """What a page of this record alone is called."""
    return f"{record['kind'].capitalize()} of {name(record)}"


def _prefixed(section: report.Section, prefix: str) -> report.Section:
    return report.Section(f"{prefix}: {section.title}", section.parts)


DAMAGE = (KeyError, TypeError, AttributeError, IndexError, ValueError, OverflowError)
"""What drawing a record raises that no command has stored."""

KINDS: dict[str, PageKind] = {
    "evaluation": PageKind(evaluation.summary, evaluation.sections, evaluation.recognise),
    "diagnosis": PageKind(diagnosis.summary, diagnosis.sections, diagnosis.recognise),
}
"""The kinds of record that the library stores; `unmask_studies` adds its own when it asks."""
