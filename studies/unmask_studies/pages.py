"""All studies by name, and what pages show of them."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict

from unmask import pages
from unmask.pages.parts import Verdicts
from unmask_studies import (
    audit,
    encoder,
    missing,
    pair_coverage,
    propensities,
    reality,
    recall,
    sets,
    training,
    tree,
    trust,
    tuning,
)
from unmask_studies.study import SIZES, Row, Study, read_rows, rows_files

STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        *reality.STUDIES, *audit.STUDIES, *trust.STUDIES, *recall.STUDIES, *sets.STUDIES,
        *propensities.STUDIES, training.TRAINING, training.ON_NEWS, *tuning.STUDIES, *tree.STUDIES,
        *encoder.STUDIES, *missing.STUDIES, pair_coverage.STUDY,
    )
}  # fmt: skip


class StudyRecord(TypedDict):
    """The rows of one study, with the size and seed that the command names."""

    kind: str
    source: str
    command: str
    rows: list[Row]


def claims(sections: list[pages.Section]) -> list[pages.Verdict]:
    """Return the verdicts of all sections, in order of appearance.

    Parameters
    ----------
    sections : list of Section

    Returns
    -------
    list of Verdict

    Examples
    --------
    >>> verdict = pages.Verdict("good", "It holds")
    >>> [each.words for each in claims([pages.Section("Claims", [Verdicts([verdict])])])]
    ['It holds']
    """
    parts = [part for section in sections for part in section.parts]
    return [v for part in parts if isinstance(part, Verdicts) for v in part.verdicts]


def study_page(
    name: str, rows: list[Row], sections: list[pages.Section], size: str, seed: int
) -> pages.Page:
    """Return the page of one study: question, answer, picture and statements; then details.

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
    made = pages.Section("How this page was made", [pages.Commands([command])])
    return pages.Page(STUDIES[name].title, summary=_summary(name, rows), sections=[*sections, made])


def _summary(name: str, rows: list[Row]) -> list[str]:
    """Return the question of a study, and what its rows answer, where they do."""
    answer = STUDIES[name].answer(rows) if rows else ""
    return [STUDIES[name].question, *([answer] if answer else [])]


def recognise(path: Path, content: object) -> list[StudyRecord]:
    """Return the records in a list of rows, or in lists of rows by the name of the study."""
    if isinstance(content, dict) and content and content.keys() <= STUDIES.keys():
        return _records(path, [row for rows in content.values() for row in rows or ()])
    if isinstance(content, list) and content and isinstance(content[0], dict):
        return _records(path, content) if "study" in content[0] else []
    return []


def read(path: Path) -> list[StudyRecord]:
    """Return the records in a file of packed rows, or in a folder with such files."""
    return _records(path, [row for file in rows_files(path) for row in read_rows(file)])


def _records(path: Path, rows: list[Row]) -> list[StudyRecord]:
    """Rows by study and size, in the order of the registry."""
    for row in rows:
        is_row = isinstance(row, dict) and isinstance(row.get("study"), str)
        if not is_row or not {str(row.get("size")), type(row.get("seed"))} <= {*SIZES, int}:
            raise ValueError(f"{path} holds {row!r:.80} among rows of studies; it is damaged.")
    groups: dict[tuple[str, str, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["study"], row["size"], row["seed"]), []).append(row)
    return [
        {"kind": "study", "source": name, "rows": own,
         "command": f"unmask reproduce {name} --size {size} --seed {seed}"}
        for name in STUDIES for (study, size, seed), own in groups.items() if study == name
    ]  # fmt: skip


KINDS = {
    **pages.KINDS,
    "study": pages.PageKind(
        lambda record: _summary(record["source"], record["rows"]),
        lambda record: STUDIES[record["source"]].draw(record["rows"]), recognise, read,
    ),
}  # fmt: skip
# What can be stored and shown, studies included.
