"""How a study runs: units of work, each measured once, each one file of rows, drawn afterwards.

A unit is a dict of plain values (a repetition, a propensity, a data set …). Its rows go to one JSON
file that appears whole or not at all, so a run that is stopped loses at most the unit at hand, and
the next run measures only what is missing. Every row carries the unit, the study, its size and
seed, and the version and commit that measured it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unmask import __version__, _io, _validation, parallel, report

Unit = dict[str, Any]
Row = dict[str, Any]
Progress = Callable[[int, int], None]

SIZES = ("tiny", "small", "paper")


@dataclass(frozen=True)
class Study:
    """A named experiment.

    `units(size, seed, data)` lists the work, `measure(**unit)` does one piece of it and returns
    rows, `draw(rows)` turns all rows into sections of a report page. A data set stands in a unit as
    the `Path` of its folder, and in the rows by the folder's name.
    """

    name: str
    about: str
    units: Callable[[str, int, Path | None], list[Unit]]
    measure: Callable[..., Iterable[Row]]
    draw: Callable[[list[Row]], list[Any]]


def run(
    study: Study,
    folder: Path,
    *,
    size: str = "small",
    seed: int = 0,
    data: Path | None = None,
    progress: Progress | None = None,
    backend: Any = None,
) -> list[Row]:
    """All rows of a study; units whose file is in `folder` are read, the others are measured.

    One after the other here, or as tasks of a `backend` (`unmask.parallel`), whose workers must see
    `data` under the same path.
    """
    _validation.one_of(size, SIZES, "size")
    context = {"study": study.name, "size": size, "seed": seed}
    units = study.units(size, seed, data)
    paths = [_path(folder / study.name / size, {**context, **unit}) for unit in units]
    missing = [at for at, path in enumerate(paths) if not path.exists()]
    known = len(units) - len(missing)
    note = progress or (lambda done, total: None)
    note(known, len(units))
    with closing(_measured(study, [units[at] for at in missing], backend)) as found:
        for done, (position, rows) in enumerate(found, start=known + 1):
            at = missing[position]
            _write(paths[at], [{**context, **units[at], **row} for row in rows])
            note(done, len(units))
    return [row for path in paths for row in _read(path)]


def _path(folder: Path, unit: Unit) -> Path:
    key = json.dumps(unit, sort_keys=True, default=_plain)
    return folder / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"


def _measured(
    study: Study, units: list[Unit], backend: Any
) -> Generator[tuple[int, list[Row]], None, None]:
    """(position, rows) of every unit, as they finish."""
    if backend is None or not units:
        yield from ((at, _measure(study.measure, unit)) for at, unit in enumerate(units))
        return
    with parallel.connect(backend) as runner:
        yield from runner.run(_measure, units, study.measure)


def _measure(measure: Callable[..., Iterable[Row]], unit: Unit) -> list[Row]:
    return list(measure(**unit))


def _write(path: Path, rows: list[Row]) -> None:
    measured_by = {"version": __version__, "commit": commit()}
    path.parent.mkdir(parents=True, exist_ok=True)
    with _io.atomic_write(path) as file:
        signed = [{**row, **measured_by} for row in rows]
        file.write(json.dumps(signed, indent=1, default=_plain).encode())


def _read(path: Path) -> list[Row]:
    try:
        rows = _io.read_json(path)
    except ValueError as error:
        raise ValueError(f"{path}: damaged rows ({error}); remove the file to redo it.") from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"{path}: damaged rows (no list of records); remove the file to redo it.")
    return rows


def _plain(value: Any) -> Any:
    """numpy numbers as JSON has them; a folder by its name, as where it lies is no result."""
    return value.name if isinstance(value, Path) else value.tolist()


def commit() -> str | None:
    """The commit of the source tree this package runs from, if it runs from one."""
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


def tidy(rows: list[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    """Rows grouped by the values under `names`, groups in order of first appearance."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return groups


def statement(words: str, holds: bool | None, evidence: str) -> report.Verdict:
    """A claim and whether the rows bear it out; None where they cannot tell."""
    judged = {
        True: ("good", "holds"),
        False: ("error", "does not hold"),
        None: ("info", "untested"),
    }
    level, verdict = judged[holds]
    return report.Verdict(level, f"{words}: {verdict}", evidence=evidence)
