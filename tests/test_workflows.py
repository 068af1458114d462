"""What runs on GitHub fits the project: versions, scripts, permissions."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest

from tests.conftest import FIRST
from tests.helpers.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FOLDER = ROOT / ".github"

yaml = pytest.importorskip("yaml")


def workflow(name: str) -> dict[str, Any]:
    text = (FOLDER / "workflows" / f"{name}.yml").read_text(encoding="utf-8")
    return dict(yaml.safe_load(text))


def commands(jobs: dict[str, Any]) -> list[str]:
    steps = [step for job in jobs.values() for step in job["steps"]]
    return [line for step in steps for line in step.get("run", "").splitlines()]


def test_the_suite_runs_on_every_python_that_is_promised() -> None:
    classifiers = "\n".join(PROJECT["classifiers"])
    promised = re.findall(r"Python :: (3\.\d+)", classifiers)
    assert workflow("ci")["jobs"]["test"]["strategy"]["matrix"]["python"] == promised
    assert PROJECT["requires-python"] == f">={promised[0]}"


def test_everything_that_is_asked_for_is_run() -> None:
    lines = commands(workflow("ci")["jobs"])
    wanted = ("ruff check .", "ruff format --check .", "mypy", "pytest -n auto", "make docs",
              "python tools/oldest.py", "pytest -m browser")  # fmt: skip
    for command in wanted:
        assert any(line.startswith(command) for line in lines), command


def test_files_that_begin_first_exist() -> None:
    assert not [file for file in FIRST if not (ROOT / file).is_file()]


@pytest.mark.parametrize("name", ["ci", "nightly", "release"])
def test_scripts_and_targets_exist(name: str) -> None:
    text = "\n".join(commands(workflow(name)["jobs"]))
    for script in re.findall(r"python ([\w/]+\.py)", text):
        assert (ROOT / script).is_file(), script
    targets = re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert set(re.findall(r"^make ([\w-]+)", text, re.M)) <= set(targets)
    for extras in re.findall(r"\.\[([\w,]+)\]", text):
        assert set(extras.split(",")) <= PROJECT["optional-dependencies"].keys()


def test_only_publishing_may_write_and_it_needs_no_secret() -> None:
    """Trusted publishing: a token of identity for one job, made for it."""
    for name in ("ci", "release"):
        assert workflow(name)["permissions"] == {"contents": "read"}
        assert "secrets." not in (FOLDER / "workflows" / f"{name}.yml").read_text(encoding="utf-8")
    jobs = workflow("release")["jobs"]
    assert [job for job in jobs if "permissions" in jobs[job]] == ["publish"]
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert jobs["publish"]["needs"] == "build"
    assert jobs["publish"]["environment"] == "pypi"
