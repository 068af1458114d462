"""What pages show of studies: what each study draws of its rows, and the claims that it judges."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TypedDict

from unmask import pages, report
from unmask_studies.openings import OPENINGS
from unmask_studies.registry import STUDIES
from unmask_studies.runs import SIZES, Row, read_rows, rows_files


class StudyRecord(TypedDict):
    """The rows of one study, with the size and seed that the command names."""

    kind: str
    source: str
    command: str
    rows: list[Row]


def claims(sections: list[report.Section]) -> list[report.Verdict]:
    """The verdicts of all sections.

    Parameters
    ----------
    sections : list of Section

    Returns
    -------
    list of Verdict
        In order of appearance.

    Examples
    --------
    >>> verdict = report.Verdict("good", "It holds")
    >>> [each.words for each in claims([report.Section("Claims", [report.Verdicts([verdict])])])]
    ['It holds']
    """
    parts = [part for section in sections for part in section.parts]
    return [v for part in parts if isinstance(part, report.Verdicts) for v in part.verdicts]


def study_page(
    name: str, rows: list[Row], sections: list[report.Section], size: str, seed: int
) -> report.Page:
    """The page of one study: its question, its answer, one picture, its claims; then details.

    Parameters
    ----------
    name : str
        A name in `STUDIES`.
    rows : list of dict
        What was measured, …
    sections : list of Section
        … and what the study drew of it.
    size : str
        A name in `SIZES`.
    seed : int

    Returns
    -------
    Page

    Raises
    ------
    ValueError
        If `sections` holds anything but sections.

    Examples
    --------
    >>> study_page("variance", [], [], "small", 0).title
    'What missing labels cost in variance'
    """
    command = f"unmask reproduce {name} --size {size} --seed {seed} --data DIR -o FOLDER"
    commands = report.Section("How this page was made", [report.Commands([command])])
    opening = OPENINGS[name]
    return report.Page(
        opening.title,
        summary=[opening.question, *_answer(name, rows)],
        sections=[*arranged(sections), commands],
    )


def arranged(sections: list[report.Section]) -> list[report.Section]:
    """The first drawing and all claims first; what else the sections hold, folded.

    Parameters
    ----------
    sections : list of Section

    Returns
    -------
    list of Section
        With every part of the given ones, once.

    Examples
    --------
    >>> chart = report.Chart("bars", [report.Series("a", ["x"], [1.0])])
    >>> drawn = report.Section("Errors", [report.Text("Few."), chart])
    >>> [section.title for section in arranged([drawn])]
    ['In one picture', 'Errors']
    >>> titled = report.Chart("bars", chart.series, title="Errors by size")
    >>> [section.title for section in arranged([report.Section("Errors", [titled])])]
    ['Errors by size']
    """
    parts = [part for section in sections for part in section.parts]
    picture = next((part for part in parts if isinstance(part, report.Chart | report.Panels)), None)
    verdicts = claims(sections)
    details = [
        report.Section(section.title, kept, folded=True)
        for section in sections
        if (
            kept := [
                part
                for part in section.parts
                if part is not picture and not isinstance(part, report.Verdicts)
            ]
        )
    ]
    first = [_opening(picture)] if picture else []
    judged = [report.Section("What holds", [report.Verdicts(verdicts)])] if verdicts else []
    return [*first, *judged, *details]


def _opening(picture: report.Chart | report.Panels) -> report.Section:
    """The first picture under its own title."""
    return report.Section(picture.title or "In one picture", [replace(picture, title="")])


def _answer(name: str, rows: list[Row]) -> list[str]:
    """The answer of a study, where its rows give one."""
    answer = OPENINGS[name].answer(rows) if rows else ""
    return [answer] if answer else []


def summary(record: StudyRecord) -> list[str]:
    """What the study asks, and what its rows answer."""
    return [OPENINGS[record["source"]].question, *_answer(record["source"], record["rows"])]


def sections(record: StudyRecord) -> list[report.Section]:
    """As the study draws its rows: a picture, its claims, and details."""
    return arranged(STUDIES[record["source"]].draw(record["rows"]))


def recognise(path: Path, content: object) -> list[StudyRecord]:
    """The records in a list of rows, or in lists of rows by the name of the study."""
    if isinstance(content, dict) and content and content.keys() <= STUDIES.keys():
        return _records(path, [row for rows in content.values() for row in rows or ()])
    if isinstance(content, list) and content and isinstance(content[0], dict):
        return _records(path, content) if "study" in content[0] else []
    return []


def read(path: Path) -> list[StudyRecord]:
    """The records in a file of packed rows, or in a folder with such files."""
    return _records(path, [row for file in rows_files(path) for row in read_rows(file)])


def _records(path: Path, rows: list[Row]) -> list[StudyRecord]:
    """Rows by study and size, in the order of the registry."""
    for row in rows:
        is_row = isinstance(row, dict) and isinstance(row.get("study"), str)
        if not is_row or not {str(row.get("size")), type(row.get("seed"))} <= {*SIZES, int}:
            raise ValueError(f"{path} holds {row!r:.80} among rows of studies; it is damaged.")
    sizes = dict.fromkeys((row["study"], row["size"], row["seed"]) for row in rows)
    return [
        {
            "kind": "study",
            "source": study,
            "command": f"unmask reproduce {study} --size {size} --seed {seed}",
            "rows": [r for r in rows if (r["study"], r["size"], r["seed"]) == (study, size, seed)],
        }
        for name in STUDIES
        for study, size, seed in sizes
        if study == name
    ]


KINDS = {**pages.KINDS, "study": pages.PageKind(summary, sections, recognise, read)}
"""What can be stored and shown, studies included."""
