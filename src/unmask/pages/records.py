"""Stored records: read from files, recognised by kind, and put on one page in their order.

A page made at once and one made later from the stored record are the same. What an evaluation
shows stands in `evaluation`; a diagnosis and a search for the best training are shown here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unmask import __version__
from unmask._typing import PathLike, Record
from unmask.files import read_json
from unmask.models.tune import best_of_families
from unmask.pages import estimates, evaluation, files, labels, parts


@dataclass(frozen=True)
class PageKind:
    """A kind of record, and what pages show of it.

    Parameters
    ----------
    summary : function of a record
        Returns the sentences at the top of the page.
    sections : function of a record
        Returns the sections below.
    recognise : function of a path and the content of its JSON
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
    sections: Callable[[Any], list[parts.Section]]
    recognise: Callable[[Path, object], Sequence[Mapping[str, object]]]
    read: Callable[[Path], Sequence[Mapping[str, object]]] | None = None
    title: Callable[[Any], str | None] | None = None


Kinds = Mapping[str, PageKind]


def page(
    records: list[Record],
    *,
    title: str | None = None,
    commands: Iterable[str] = (),
    kinds: Kinds | None = None,
) -> parts.Page:
    """Return one page of all records, in their order.

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
    shown = [((kinds or KINDS)[record["kind"]], record) for record in records]
    several = len(records) > 1
    sections, summary = [], []
    for kind, record in shown:
        prefix = f"{name(record)}: " if several else ""
        summary += [f"{prefix}{sentence}" for sentence in kind.summary(record)]
        own = kind.sections(record)
        sections += [parts.Section(prefix + s.title, s.parts, s.folded) for s in own]
    systems = [record for record in records if record["kind"] == "evaluation"]
    if len(systems) > 1:
        columns = {f"{number}. {name(record)}": record for number, record in enumerate(systems, 1)}
        sections.insert(0, estimates.side_by_side(columns))
    if lines := [*(record["command"] for record in records if "command" in record), *commands]:
        made = parts.Commands(list(dict.fromkeys(lines)))
        sections.append(parts.Section("How this page was made", [made]))
    if not title and not several and shown[0][0].title:
        title = shown[0][0].title(records[0])
    title = title or " · ".join(map(heading, records))
    return parts.Page(title, summary, sections, footer=f"Made by unmask {__version__}.")


def write_records(
    records: list[Record],
    path: PathLike,
    *,
    title: str | None = None,
    commands: Iterable[str] = (),
    kinds: Kinds | None = None,
) -> parts.Page:
    """Write the page of stored records and return it.

    Parameters
    ----------
    records : list of dict
        As `read` returns them.
    path : str or path
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
    >>> made = write_records([{"kind": "note", "text": "It holds."}], path, kinds={"note": kind})
    >>> "It holds." in path.read_text()
    True
    """
    try:
        result = page(records, title=title, commands=commands, kinds=kinds)
        files.write(result, path)
    except DAMAGE:
        for record in records:
            try:
                files.render(page([record], kinds=kinds))
            except DAMAGE as error:
                reason = f"{type(error).__name__}: {error}"
                message = f"{record['file']}: the stored result is damaged ({reason})."
                raise ValueError(message) from error
        raise
    return result


def read(path: Path, *, kinds: Kinds | None = None) -> list[Record]:
    """Return the records in a file or folder.

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
    try:
        content = read_json(path)
    except ValueError as error:
        raise ValueError(f"{error} Store results with --json.") from None
    for kind in page_kinds:
        if records := kind.recognise(path, content):
            return [{**record, "file": str(path)} for record in records]
    raise ValueError(
        f"{path} holds no stored result; give what evaluate, diagnose or reproduce print with "
        "--json, or the folder that reproduce wrote."
    )


def name(record: Record) -> str:
    """Return the name of a record among others on its page: that of its source."""
    source = record.get("source")
    return Path(source if source and isinstance(source, str) else record["kind"]).name


def heading(record: Record) -> str:
    """Return the title of a page of one record alone.

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


# ------------------------------------------------------------------------------------- diagnosis


def diagnosis_summary(record: Record) -> list[str]:
    """Return the verdict, and the evidence of every finding that is more than information."""
    serious = [f["evidence"] for f in record["findings"] if f["severity"] != "info"]
    return [record["verdict"], *serious]


def diagnosis_sections(record: Record) -> list[parts.Section]:
    """Return the findings, all tests and the labels of a diagnosis."""
    findings = [
        parts.Verdict(f["severity"], f["title"], f["evidence"], f["advice"])
        for f in record["findings"]
    ]
    sections = [parts.Section("Findings", [parts.Verdicts(findings)])]
    if record["tests"]:
        columns: parts.Columns = {
            "test": "name",
            "effect": "effect",
            parts.Column("p", ".2g"): "p_value",
            parts.Column("p, corrected", ".2g"): "adjusted",
        }
        sections.append(parts.Section("All tests", [parts.Table.of(record["tests"], columns)]))
    if facts := record.get("labels"):
        sections.append(labels.section(facts))
    return sections


# ---------------------------------------------------------------------------------------- tuning


def tuning_sections(record: Record) -> list[parts.Section]:
    """Return the value of every training over C, and the best of each."""
    return [parts.Section("What was tried", [tuning_chart(record), tuning_table(record)])]


def tuning_table(record: Record) -> parts.Table:
    """Return the best C of every training on the last rung that it reached, best ones first."""
    chosen = record["chosen"]["family"]
    columns: parts.Columns = {
        "chosen": lambda each: "→" if each["family"] == chosen else "",
        "training": "family",
        parts.Column("C", "g"): "C",
        parts.Column(record["judged_by"], ".4f"): "value",
        "rows": "rows",
        "rung": lambda each: each["rung"] + 1,
    }
    return parts.Table.of(
        best_of_families(record),
        columns,
        title="The best of every training",
        caption="The best C of every training, on the largest sample that it reached: training "
        "rows, and the value on rows that training had not seen.",
    )


def tuning_chart(record: Record) -> parts.Panels:
    """Draw the value over C of all that was tried, a line per training and a panel per rung."""
    charts = []
    for _, mine in sorted(estimates.by(record["tried"], "rung").items()):
        series = []
        for family, tried in estimates.by(mine, "family").items():
            points = sorted((each["C"], each["value"]) for each in tried)
            series.append(parts.Series(family, *zip(*points, strict=True)))
        x, y = parts.Axis("C", log=True), f"{record['judged_by']} ({record['estimator']})"
        charts.append(parts.Chart("lines", series, f"trained on {mine[0]['rows']:,} rows", x, y))
    title = f"{record['judged_by']} by C; the higher C, the less regularisation"
    return parts.Panels(charts, columns=3, title=title)


# ----------------------------------------------------------------------------------------- kinds


def _of_kind(kind: str) -> Callable[[Path, object], list[Record]]:
    """Return a function that recognises a stored record by its kind."""

    def recognise(path: Path, content: object) -> list[Record]:
        return [content] if isinstance(content, dict) and content.get("kind") == kind else []

    return recognise


def recognise_evaluation(path: Path, content: object) -> list[Record]:
    """Return the record in the content of a file: an evaluation, or a bare list of estimates."""
    if not isinstance(content, list) or not content or not isinstance(content[0], dict):
        return _of_kind("evaluation")(path, content)
    if {"metric", "estimator", "value", "low", "high", "verdict"} <= content[0].keys():
        return [{"kind": "evaluation", "source": path.stem, "estimates": content}]
    return []


DAMAGE = (KeyError, TypeError, AttributeError, IndexError, ValueError, OverflowError)
"""Errors that are raised when a record has not the form of its kind."""

KINDS: dict[str, PageKind] = {
    "evaluation": PageKind(
        evaluation.summary, evaluation.sections, recognise_evaluation, title=evaluation.title
    ),
    "diagnosis": PageKind(diagnosis_summary, diagnosis_sections, _of_kind("diagnosis")),
    "tuning": PageKind(
        lambda record: [
            f"Chosen: {record['headline']}.",
            record["reason"],
            *([record["run"]["text"]] if record.get("run") else []),
        ],
        tuning_sections,
        _of_kind("tuning"),
    ),
}
"""The kinds of record that the library stores; studies add theirs."""
