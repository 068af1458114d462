"""The table of benchmark results: how it is written, and that the documents read it."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from tests.helpers.paths import ROOT

FOLDER = ROOT / "benchmarks"
SCRIPTS = sorted({file.stem for file in FOLDER.glob("*.py")} - {"results", "run"})


@pytest.fixture
def results(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(FOLDER)
    return import_module("results")


@pytest.fixture
def run(results: ModuleType) -> ModuleType:
    return import_module("run")


def test_a_script_replaces_its_own_rows_only(results: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "results.csv"
    old = "2001-02-03,a machine"
    file.write_text(f"script,name,value,date,machine\na,x,1,{old}\na,y,2,{old}\nb,x,3,{old}\n")
    results.update("a", {"y": 123456.0, "é, quoted": 1 / 3}, file)
    rows = {row[:2]: row for row in results.read(file)}
    assert list(rows) == [("a", "x"), ("a", "y"), ("a", "é, quoted"), ("b", "x")]
    assert rows["a", "x"][2:] == (1.0, "2001-02-03", "a machine")
    assert rows["b", "x"][2:] == (3.0, "2001-02-03", "a machine")
    assert (rows["a", "y"].value, rows["a", "é, quoted"].value) == (123500.0, 0.3333)
    assert rows["a", "y"].machine == results.machine()
    assert rows["a", "y"].date > "2001-02-03"


def test_running_keeps_what_was_measured_and_names_what_failed(
    run: ModuleType, results: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "results.csv"
    monkeypatch.setattr(results.update, "__defaults__", (file,))
    monkeypatch.setattr(run, "FOLDER", tmp_path)
    monkeypatch.setattr(run, "SCRIPTS", ["broken", "good", "silent"])
    writes = "import json, sys; open(sys.argv[-1], 'w').write(json.dumps({'ratio': 2}))"
    (tmp_path / "good.py").write_text(writes)
    (tmp_path / "silent.py").write_text("")
    (tmp_path / "broken.py").write_text(f"{writes}; sys.exit(3)")
    monkeypatch.setattr(sys, "argv", ["run.py", "broken", "good", "silent"])
    with pytest.raises(SystemExit, match=r"broken$"):
        run.main()
    assert [(row.script, row.name, row.value) for row in results.read(file)] == [
        ("good", "ratio", 2.0)
    ]
    monkeypatch.setattr(sys, "argv", ["run.py", "unheard"])
    with pytest.raises(SystemExit, match="2"):
        run.main()


def test_the_table_names_scripts_that_exist(results: ModuleType) -> None:
    rows = results.read()
    assert {row.script for row in rows} <= set(SCRIPTS)
    assert rows == sorted(rows)
    assert len({row[:2] for row in rows}) == len(rows)


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_script_can_write_its_numbers(script: str) -> None:
    text = (FOLDER / f"{script}.py").read_text(encoding="utf-8")
    assert "add_json_option(" in text
    assert "write_json(" in text


def test_numbers_have_the_names_of_the_table(results: ModuleType, tmp_path: Path) -> None:
    """Of the script that runs soonest."""
    file = tmp_path / "numbers.json"
    options = ["--megabytes", "1", "--repeat", "1", "--json", str(file)]
    subprocess.run([sys.executable, str(FOLDER / "read.py"), *options], check=True)
    names = {row.name for row in results.read() if row.script == "read"}
    assert names
    assert names <= json.loads(file.read_text()).keys()
