"""A study: units of work, each measured once and kept at once, and drawn afterwards from its rows.

A unit is a dict of plain values (a repetition, a propensity, a data set …). When it is measured its
rows are appended to a journal, so a run that is stopped loses at most the unit at hand and the next
run measures only what is missing; a finished run packs all rows of a study and size into one file,
`STUDY-SIZE.jsonl.zst`, with one line per unit (`files.fields`). Every row carries the unit, the
study, its size and seed, and the version and commit that measured it.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from unmask import __version__, pages, parallel
from unmask._typing import Progress, Record
from unmask.arrays import checks
from unmask.files import append_record, key_text, pack_records, read_records
from unmask.pages.parts import Verdicts

if TYPE_CHECKING:
    from unmask.parallel import Backend

Unit: TypeAlias = Record  # the arguments of one piece of work
Row: TypeAlias = Record  # a measurement: plain values by name
Figure: TypeAlias = pages.Chart | pages.Panels

SIZES = ("tiny", "small", "paper")


@dataclass(frozen=True)
class DataSets:
    """Data sets by name: those in a folder, or (without one) those whose rows are stored.

    Parameters
    ----------
    folder : Path or None
        The folder that holds them.
    names : frozenset of str
        Their names, which are those of their folders.
    """

    folder: Path | None
    names: frozenset[str]

    @classmethod
    def inside(cls, folder: Path) -> DataSets:
        """Return all folders in a folder."""
        inner = folder.iterdir() if folder.is_dir() else ()
        return cls(folder, frozenset(path.name for path in inner if path.is_dir()))

    def path(self, name: str) -> Path:
        """Return where a data set is, or would be."""
        return (self.folder or Path()) / name


def folders(data: DataSets | None, size: str, names: Iterable[str]) -> list[Path | None]:
    """Return the data sets that are there; [None], for built-in data, without any or if tiny.

    >>> folders(DataSets(Path("data"), frozenset({"b"})), "paper", ["a", "b"])
    [PosixPath('data/b')]
    >>> folders(None, "paper", ["a", "b"])
    [None]
    """
    if data is None or size == "tiny":
        return [None]
    return [data.path(name) for name in names if name in data.names] or [None]


class Drawn(NamedTuple):
    """A study's pictures (the page opens with the first), its statements, and its tables."""

    figures: Sequence[Figure]
    statements: list[pages.Verdict]
    tables: list[pages.Table]


@dataclass(frozen=True)
class Study:
    """A named experiment.

    Parameters
    ----------
    name : str
        As in `STUDIES` and in the names of files.
    title : str
        Of its page, and in menus.
    question : str
        One sentence.
    units : function of (size, seed, data)
        Lists the work: the arguments of `measure`, piece by piece. A data set stands in a unit as
        the `Path` of its folder, and in the rows by the folder's name.
    measure : function of the fields of a unit
        Does one piece of work and returns its rows. The page shows its docstring.
    picture : function of a list of rows
        Returns what is `Drawn`.
    answer : function of a list of rows
        Returns one sentence, or nothing where the rows cannot tell.

    Examples
    --------
    >>> study = Study(
    ...     "squares", "Squares", "How large?", lambda size, seed, data: [{"x": 2}, {"x": 3}],
    ...     lambda x: [{"square": x * x}], lambda rows: Drawn([], [], []), lambda rows: "Nine.",
    ... )
    >>> [row for unit in study.units("tiny", 0, None) for row in study.measure(**unit)]
    [{'square': 4}, {'square': 9}]
    """

    name: str
    title: str
    question: str
    units: Callable[[str, int, DataSets | None], list[Unit]]
    measure: Callable[..., Iterable[Row]]
    picture: Callable[[list[Row]], Drawn]
    answer: Callable[[list[Row]], str]

    def draw(self, rows: list[Row]) -> list[pages.Section]:
        """Return the sections of a page: a picture, what holds, and everything else, folded."""
        figures, statements, tables = self.picture(rows)
        tables = [table for table in tables if table.rows]
        sections = [pages.Section(each.title or "In one picture", [replace(each, title="")])
                    for each in figures[:1]]  # fmt: skip
        if statements:
            sections.append(pages.Section("What holds", [Verdicts(statements)]))
        text = [pages.Text(words) for words in [_text_of(self.measure)] if words]
        for title, parts in (
            ("What was done", text),
            ("More pictures", figures[1:]),
            ("Numbers", tables),
        ):
            if parts:
                sections.append(pages.Section(title, parts, folded=True))
        return sections


def _text_of(measure: Callable[..., object]) -> str:
    """Return how the numbers of a page were made: the docstring after its first sentence."""
    return (inspect.getdoc(measure) or "").partition("\n\n")[2]


def statement(claim: str, holds: bool | None, evidence: str, effect: str = "") -> pages.Verdict:
    """Return a claim of a study, with its outcome.

    Parameters
    ----------
    claim : str
        What is said.
    holds : bool or None
        Whether the rows confirm it; None where they cannot decide.
    evidence : str
        The numbers behind it.
    effect : str, default ""
        The one number that it turns on, with its interval; the evidence is then folded.

    Returns
    -------
    pages.Verdict

    Examples
    --------
    >>> [statement("1 > 2", holds, "").badge for holds in (True, False, None)]
    ['holds', 'contradicted', 'undecided']
    """
    level, badge = OUTCOMES[holds]
    return pages.Verdict(level, claim, evidence=evidence, badge=badge, effect=effect)


OUTCOMES = {
    True: ("good", "holds"),
    False: ("error", "contradicted"),
    None: ("info", "undecided"),
}


def run(
    study: Study,
    folder: Path,
    *,
    size: str = "small",
    seed: int = 0,
    data: Path | None = None,
    progress: Progress | None = None,
    backend: Backend = None,
) -> list[Row]:
    """Return all rows of a study: those that are stored are read, the others measured and stored.

    Parameters
    ----------
    study : Study
    folder : Path
        Where rows are stored.
    size : {"small", "tiny", "paper"}
    seed : int, default 0
    data : Path, optional
        Folder of data sets. Without it, a study whose stored rows come from data sets is not
        measured on made-up ones: its rows are returned, if they are complete.
    progress : function of (done, total), optional
        Called after every unit.
    backend : str, Scheduler, Runner, distributed.Client or cluster, optional
        Where units are measured (`unmask.parallel`); its workers must see `data` under the same
        path. By default one after the other here.

    Returns
    -------
    list of dict
        In the order of the units.

    Raises
    ------
    ValueError
        If there is no such size, stored rows are damaged, or rows of data sets are missing and
        `data` is None.

    Examples
    --------
    >>> import tempfile
    >>> from unmask_studies import STUDIES
    >>> rows = run(STUDIES["recall-toy"], Path(tempfile.mkdtemp()), size="tiny")
    >>> [row["unbiased"] for row in rows]
    ['0', '0', '3', '-3/2']
    """
    checks.one_of(size, SIZES, "size")
    context = {"study": study.name, "size": size, "seed": seed}
    path = rows_file(folder, study.name, size)
    kept = _read(path)
    units, keys, missing = _work(study, context, data, kept)
    note = progress or (lambda done, total: None)
    note(len(units) - len(missing), len(units))
    measured_by = {"version": __version__, "commit": commit()}
    with closing(_measured(study, [units[i] for i in missing], backend)) as measured:
        for done, (position, rows) in enumerate(measured, start=len(units) - len(missing) + 1):
            i = missing[position]
            signed = [_plain({**context, **units[i], **_short(row), **measured_by}) for row in rows]
            kept[keys[i]] = signed
            append_record(path, {"key": _plain({**context, **units[i]}), "rows": signed})
            note(done, len(units))
    pack_records(path)
    return [row for key in keys for row in kept[key]]


def _work(
    study: Study, context: Record, data: Path | None, kept: dict[str, list[Row]]
) -> tuple[list[Unit], list[str], list[int]]:
    """All units, their keys, and the positions of those that are to be measured."""
    size, seed = context["size"], context["seed"]

    def work(sets: DataSets | None) -> tuple[list[Unit], list[str], list[int]]:
        units = study.units(size, seed, sets)
        keys = [key_text(_plain({**context, **unit})) for unit in units]
        return units, keys, [i for i, key in enumerate(keys) if key not in kept]

    if data is not None:
        return work(DataSets.inside(data))
    ours = (key for key in map(json.loads, kept) if context.items() <= key.items())
    names = frozenset(str(key["folder"]) for key in ours if key.get("folder") is not None)
    units, keys, missing = work(DataSets(None, names) if names else None)
    if not names or not missing:
        return units, keys, missing
    made_up = work(None)
    if len(made_up[2]) < len(made_up[0]):
        return made_up
    raise ValueError(
        f"{len(missing)} of {len(units)} units of {study.name} ({size}) are not measured yet, "
        f"the others on {', '.join(sorted(names))}; name the folder of the data sets (--data), "
        "or choose another output folder."
    )


def _measured(
    study: Study, units: list[Unit], backend: Backend
) -> Generator[tuple[int, list[Row]], None, None]:
    """(position, rows) of every unit, as they finish."""
    if backend is None or not units:
        yield from ((i, _measure(study.measure, unit)) for i, unit in enumerate(units))
        return
    with parallel.connect(backend) as runner:
        yield from runner.run(_measure, units, study.measure)


def _measure(measure: Callable[..., Iterable[Row]], unit: Unit) -> list[Row]:
    return list(measure(**unit))


def rows_file(folder: Path, study: str, size: str) -> Path:
    """Return the file with all rows of a study of one size, once it is finished.

    Parameters
    ----------
    folder : Path
    study, size : str

    Returns
    -------
    Path

    Examples
    --------
    >>> rows_file(Path("rows"), "audit", "paper").name
    'audit-paper.jsonl.zst'
    """
    return folder / f"{study}-{size}.jsonl.zst"


def read_rows(path: Path) -> list[Row]:
    """Return all rows in the file of a study and size, also of one that is not finished."""
    return [row for rows in _read(path).values() for row in rows]


def rows_files(place: Path) -> list[Path]:
    """Return the files of rows in and below a folder, or the file itself, as if finished."""
    ends = tuple(f"-{size}.jsonl{packed}" for size in SIZES for packed in ("", ".zst"))
    paths = place.rglob("*.jsonl*") if place.is_dir() else [place]
    ours = (path for path in paths if path.is_file() and path.name.endswith(ends))
    return sorted({path.with_name(path.name.removesuffix(".zst") + ".zst") for path in ours})


def _read(path: Path) -> dict[str, list[Row]]:
    """The rows of all units that are kept, by the unit's key."""
    try:
        records = read_records(path)
    except ValueError as error:
        raise ValueError(f"damaged rows: {error} Remove the file to measure them again.") from None
    for record in records:
        rows = record.get("rows") if isinstance(record["key"], dict) else None
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise ValueError(
                f"damaged rows: {path} has a line that is not a unit and its rows. Remove the file "
                "to measure them again."
            )
    return {key_text(record["key"]): record["rows"] for record in records}


def _plain(row: Row) -> Row:
    """A row as it is read back: JSON values only."""
    plain: Row = json.loads(json.dumps(row, default=_json_value))
    return plain


def _json_value(value: Path | np.ndarray | np.generic) -> object:
    """numpy numbers as JSON has them; a folder by its name, as where it lies is no result."""
    return value.name if isinstance(value, Path) else value.tolist()


def _short(row: Row) -> Row:
    """The measured numbers of a row with seven digits: more is noise, and fills files."""
    return {
        name: float(f"{value:.7g}") if isinstance(value, float) else value
        for name, value in row.items()
    }


def commit() -> str | None:
    """Return the commit of the source tree this package runs from, if it runs from one."""
    git = Path(__file__).resolve().parents[2] / ".git"
    try:
        head = (git / "HEAD").read_text().strip().removeprefix("ref: ")
        loose = git / head
        if not loose.is_file():  # a commit by itself, or a reference that git has packed
            packed = (git / "packed-refs").read_text().splitlines() if "/" in head else [f"{head} "]
            return next((line.split()[0] for line in packed if line.endswith((head, " "))), None)
        return loose.read_text().strip()
    except OSError:
        return None


def group_rows(rows: Iterable[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    """Return rows by the values that they have under some names, in order of first appearance.

    >>> group_rows([{"a": 1, "b": 2}, {"a": 1, "b": 3}], "a")
    {(1,): [{'a': 1, 'b': 2}, {'a': 1, 'b': 3}]}
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return groups
