"""Running a study: what is kept, what is measured again, and how the command finds the package."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

import unmask_studies
from tests.helpers.command import run as command
from tests.helpers.paths import ROOT
from unmask import pages
from unmask.cli import show
from unmask.files.streams import atomic_write
from unmask_studies import pages as study_pages
from unmask_studies import study
from unmask_studies.study import DataSets, Drawn, Row, Study, Unit, read_rows, rows_files, run


def made_up(
    units: Iterable[Unit] | Callable[[str, int, DataSets | None], list[Unit]],
    measure: Callable[..., Iterable[Row]],
) -> Study:
    """A study of these units, however it is asked."""
    listed = units if callable(units) else lambda *_, own=list(units): own
    return Study("demo", "", "", listed, measure, lambda rows: Drawn([], [], []), lambda rows: "")


def numbered(n: int) -> list[Unit]:
    return [{"unit": unit} for unit in range(n)]


def test_an_interrupted_run_keeps_what_was_finished(tmp_path: Path) -> None:
    measured: list[int] = []

    def measure(unit: int) -> Iterable[Row]:
        if unit == 2 and len(measured) == 2:
            measured.append(-1)
            raise KeyboardInterrupt
        measured.append(unit)
        return [{"value": np.float64(unit)}]

    four = made_up(numbered(4), measure)
    with pytest.raises(KeyboardInterrupt):
        run(four, tmp_path / "rows", size="tiny")
    (path,) = rows_files(tmp_path)
    assert not path.exists()
    assert rows_files(path.with_suffix("")) == [path]
    assert [row["value"] for row in read_rows(path)] == [0, 1]
    (tmp_path / "rows" / "notes.jsonl").write_text("not ours")
    assert rows_files(tmp_path) == [path]
    rows = run(four, tmp_path / "rows", size="tiny")
    assert measured == [0, 1, -1, 2, 3]
    assert [row["value"] for row in rows] == [0, 1, 2, 3]


def test_rows_are_kept_as_they_come_and_packed_at_the_end(tmp_path: Path) -> None:
    """Rows are the same if the run is stopped, in one file that does not depend on it."""
    packed, journal = (tmp_path / f"demo-tiny.jsonl{end}" for end in (".zst", ""))

    def measure(unit: int) -> Iterable[Row]:
        kept = journal.read_text().count("\n") if journal.exists() else 0
        assert kept == unit - (1 if packed.exists() else 0)
        return [{"value": np.float64(unit), "series": np.arange(unit)}] * unit

    run(made_up(numbered(1), measure), tmp_path, size="tiny")
    rows = run(made_up(numbered(4), measure), tmp_path, size="tiny")
    assert [row["value"] for row in rows] == [1, 2, 2, 3, 3, 3]
    assert [path.name for path in tmp_path.iterdir()] == [packed.name]
    assert run(made_up(numbered(4), measure), tmp_path, size="tiny") == rows  # measured, read
    assert read_rows(packed) == rows
    before = packed.read_bytes()
    packed.unlink()
    run(made_up(numbered(4), measure), tmp_path, size="tiny")
    assert packed.read_bytes() == before


def test_progress_begins_with_what_is_stored(tmp_path: Path) -> None:
    """Nothing at first, then all but one, then all."""
    steps: list[list[tuple[int, int]]] = []
    for n in (3, 4, 4):
        own: list[tuple[int, int]] = []
        squares = made_up(numbered(n), lambda unit: [{"square": unit**2}, {"square": -unit}])
        rows = run(squares, tmp_path, size="tiny", progress=lambda *step, own=own: own.append(step))
        assert [row["square"] for row in rows] == [v for i in range(n) for v in (i * i, -i)]
        steps.append(own)
    assert steps == [[(0, 3), (1, 3), (2, 3), (3, 3)], [(3, 4), (4, 4)], [(4, 4)]]


def test_damaged_rows_are_named(tmp_path: Path) -> None:
    toy = unmask_studies.STUDIES["recall-toy"]
    run(toy, tmp_path, size="tiny")
    (file,) = tmp_path.iterdir()
    for contents, message in (
        ("[{", "damaged rows: .*recall-toy-tiny.jsonl.zst, line 1 is not JSON"),
        ("[1]", "damaged rows: .*line 1 is not a record with a key. Remove the file"),
        ('{"key": {}}', "damaged rows: .* a line that is not a unit and its rows"),
        ('{"key": 1, "rows": []}', "damaged rows: .* a line that is not a unit and its rows"),
        ('{"key": {}, "rows": [1]}', "damaged rows: .* a line that is not a unit and its rows"),
    ):
        with atomic_write(file) as packed:
            packed.write(contents.encode())
        with pytest.raises(ValueError, match=message):
            run(toy, tmp_path, size="tiny")
    with pytest.raises(ValueError, match="unknown size 'huge'"):
        run(toy, tmp_path, size="huge")


def test_data_that_moved_are_the_same_data(tmp_path: Path) -> None:
    """Rows name a data set by its folder's name: where it lies is neither recorded nor asked."""
    moved = made_up(lambda size, seed, data: [{"folder": data.path("set")}],  # type: ignore[union-attr]
                    lambda folder: [{"seen": str(folder.parent.name)}])  # fmt: skip
    here = run(moved, tmp_path, size="tiny", data=tmp_path / "here")
    assert here == run(moved, tmp_path, size="tiny", data=tmp_path / "there")
    assert (here[0]["folder"], here[0]["seen"]) == ("set", "here")
    assert DataSets.inside(tmp_path / "absent") == DataSets(tmp_path / "absent", frozenset())
    assert DataSets(None, frozenset()).path("set") == Path("set")


def with_data_sets(*others: None) -> Study:
    """A study that is measured on two data sets, or on made-up rows; `others` always are."""

    def units(size: str, seed: int, data: DataSets | None) -> list[Unit]:
        real = [data.path(n) for n in ("first", "second") if n in data.names] if data else [None]
        return [{"folder": folder} for folder in [*real, *others]]

    return made_up(units, lambda folder: [{"value": 1}])


def test_without_data_the_kept_rows_of_data_sets_are_returned(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for name in ("first", "second"):
        (data / name).mkdir(parents=True)
    for kept, made, names in (
        (tmp_path / "a", with_data_sets(), ["first", "second"]),
        (tmp_path / "b", with_data_sets(None), ["first", "second", None]),
    ):
        rows = run(made, kept, size="tiny", data=data)
        assert [row["folder"] for row in rows] == names
        assert run(made, kept, size="tiny") == rows
    (other_seed,) = run(with_data_sets(), tmp_path / "a", size="tiny", seed=1)
    assert other_seed["folder"] is None
    assert run(with_data_sets(), tmp_path / "a", size="tiny", seed=1) == [other_seed]


def test_without_data_nothing_is_measured_in_place_of_data_sets(tmp_path: Path) -> None:
    def stop(folder: Path) -> Iterable[Row]:
        if folder.name == "second":
            raise KeyboardInterrupt
        return [{"value": 1}]

    data, kept = tmp_path / "data", tmp_path / "rows"
    for name in ("first", "second"):
        (data / name).mkdir(parents=True)
    two = made_up(
        lambda size, seed, data: [
            {"folder": data.path(name) if data else None} for name in ("first", "second")
        ],
        lambda folder: [{"value": 1}],
    )
    with pytest.raises(KeyboardInterrupt):
        run(replace(two, measure=stop), kept, size="tiny", data=data)
    message = r"1 of 2 units of demo \(tiny\) are not measured yet, the others on first; .*--data"
    with pytest.raises(ValueError, match=message):
        run(two, kept, size="tiny")
    assert len(run(two, kept, size="tiny", data=data)) == 2


def test_the_commit_of_a_source_tree(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The commit of a branch, loose or packed, of a commit by itself, and of no repository."""
    home = tmp_path / "studies" / "unmask_studies" / "study.py"
    monkeypatch.setattr(study, "__file__", str(home))
    assert study.commit() is None
    git = tmp_path / ".git"
    (git / "refs" / "heads").mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    packed = git / "packed-refs"
    packed.write_text("# pack-refs with: peeled\n01ab refs/heads/other\n23cd refs/heads/main\n")
    assert study.commit() == "23cd"
    packed.write_text("01ab refs/heads/other\n")
    assert study.commit() is None
    (git / "refs" / "heads" / "main").write_text("45ef\n")
    assert study.commit() == "45ef"
    (git / "HEAD").write_text("67ab\n")
    assert study.commit() == "67ab"


def test_rows_are_recognised_by_the_first_one(tmp_path: Path) -> None:
    row: Row = {"study": "variance", "size": "tiny", "seed": 0}
    path = tmp_path / "rows.json"
    (record,) = study_pages.recognise(path, [row])
    assert (record["source"], record["rows"]) == ("variance", [row])
    (record,) = study_pages.recognise(path, {"variance": [row, row]})
    assert record["rows"] == [row, row]
    for other in ([{"x": 1}], [], [1], {}, {"no study": [row]}, "text"):
        assert study_pages.recognise(path, other) == []
    with pytest.raises(ValueError, match="among rows of studies; it is damaged"):
        study_pages.recognise(path, [row, {"study": "variance", "size": "tiny", "seed": "0"}])


def test_a_page_opens_with_the_first_picture_and_the_statements() -> None:
    """Nothing else is shown before it is asked for, and empty tables are left out."""

    def measure(unit: int) -> Iterable[Row]:
        """Measure it.

        So it was done.
        """
        return []

    chart = pages.Chart("dots", [pages.Series("s", ["x"], [1.0])], title="Dots")
    claim, table = study.statement("c", True, "e"), pages.Table(["x"], [["1"]])
    drawn = Drawn([chart, chart], [claim], [table, pages.Table(["x"], [])])
    made = replace(made_up([], measure), picture=lambda rows: drawn)
    sections = made.draw([])
    assert [(s.title, s.folded) for s in sections] == [
        ("Dots", False), ("What holds", False), ("What was done", True), ("More pictures", True),
        ("Numbers", True),
    ]  # fmt: skip
    assert sections[0].parts == (replace(chart, title=""),)
    assert sections[2].parts == (pages.Text("So it was done."),)
    assert sections[4].parts == (table,)
    assert unmask_studies.claims(sections) == [claim]


def test_rows_are_measured_anew_on_request(tmp_path: Path) -> None:
    options = ("reproduce", "recall-toy", "--size", "tiny", "-o", tmp_path)
    assert command(*options).returncode == 0
    file = tmp_path / "rows" / "recall-toy-tiny.jsonl.zst"
    written = file.stat().st_mtime_ns
    assert command(*options).returncode == 0
    assert file.stat().st_mtime_ns == written
    assert command(*options, "--restart").returncode == 0
    assert file.stat().st_mtime_ns > written


def test_the_command_refuses_what_does_not_exist() -> None:
    for arguments, message in (
        (("recall",), "unknown study 'recall'; use one of: all, audit, coverage"),
        (("variance", "--losses", "ova-bce"), "--losses belongs to the study training"),
        (("training", "--losses", "bce"), "unknown loss 'bce'; use one of"),
    ):
        result = command("reproduce", *arguments)
        assert result.returncode == 2
        assert message in " ".join(result.stderr.split())


def test_the_help_lists_the_studies() -> None:
    shown = command("reproduce", "--help").stdout
    assert set(unmask_studies.STUDIES) <= set(shown.replace(",", " ").replace(".", " ").split())


def test_without_the_package_the_command_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(show, "installed", lambda: None)
    result = command("reproduce", "recall-toy")
    assert result.returncode == 2
    assert "pip install ./studies" in result.stderr
    assert len(result.stderr.strip().splitlines()) <= 2  # in one sentence
    assert "pip install ./studies" in " ".join(command("reproduce", "--help").stdout.split())


def test_the_package_is_found_by_its_entry_point_or_on_the_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entry = metadata.EntryPoint("studies", "json", "unmask.studies")
    for found, name in (([entry], "json"), ([], "unmask_studies")):
        monkeypatch.setattr(show.metadata, "entry_points", lambda group, own=found: own)
        package = show.installed()
        assert package is not None
        assert package.__name__ == name
    monkeypatch.setitem(sys.modules, "unmask_studies", None)  # as if it were not there
    assert show.installed() is None


def test_the_wheel_holds_the_package_and_its_entry_point(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    done = subprocess.run(build, cwd=ROOT / "studies", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        names = wheel.namelist()
        (points,) = (wheel.read(name).decode() for name in names if name.endswith("points.txt"))
    source = ROOT / "studies"
    modules = {str(p.relative_to(source)) for p in (source / "unmask_studies").rglob("*.py")}
    assert modules == {name for name in names if ".dist-info/" not in name}
    assert points.split() == ["[unmask.studies]", "studies", "=", "unmask_studies"]
