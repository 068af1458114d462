"""The reference of the command line: every option stands there, with an example that parses."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.paths import ROOT
from tests.helpers.scripts import script
from unmask import set_threads
from unmask.cli.output import progress_console

PAGES = script(ROOT / "docs" / "command_pages.py")
COMMANDS = PAGES.commands()
PARTS = dict(
    part.split("\n", 1)
    for part in (ROOT / "docs" / "commands.md").read_text(encoding="utf-8").split("\n## unmask")[1:]
)


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    """Parsing `--threads` and `--quiet` sets them."""
    quiet = progress_console.quiet
    yield
    progress_console.quiet = quiet
    set_threads(None)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_stands_in_the_reference_with_an_example(name: str) -> None:
    rows = [line for line in PARTS[f" {name}"].splitlines() if line.startswith("| `")]
    shown = [parameter for parameter in COMMANDS[name].params if not parameter.hidden]
    assert len(rows) == len(shown)
    for row, parameter in zip(rows, shown, strict=True):
        names = [parameter.name.upper()] if is_argument(parameter) else parameter.opts
        assert all(f"`{each}`" in row.split("|")[1] for each in names)
        assert f"| {PAGES.default(parameter)} |" in row


def is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_example_of_an_option_parses_to_something_else_than_its_default(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "exists", lambda path: True)
    command = COMMANDS[name]
    shown = [p for p in command.params if not p.hidden]
    needed = [p for p in shown if p.required]
    for parameter in shown:
        used = [*needed, *([] if parameter.required else [parameter])]
        line = " ".join(PAGES.example(name, each) for each in used)
        context = command.make_context(name, shlex.split(line))
        assert context.params[parameter.name] != parameter.default, line


def test_defaults_are_worded_as_they_are_typed() -> None:
    predict = {p.name: p for p in COMMANDS["predict"].params}
    train = {p.name: p for p in COMMANDS["train"].params}
    assert PAGES.default(predict["k"]) == "`5`"
    assert PAGES.default(predict["model"]) == "required"
    assert PAGES.default(predict["quiet"]) == "off"
    assert PAGES.default(predict["rank_by"]) == "–"
    assert PAGES.default(train["resume"]) == "on"
    assert PAGES.default(train["tol"]) == "`0.0004`"


def test_there_are_no_examples_of_options_that_are_gone() -> None:
    names = {
        p.name.upper() if is_argument(p) else option
        for command in COMMANDS.values()
        for p in command.params
        if not p.hidden
        for option in p.opts
    }
    first = {line.split("`")[1] for line in PARTS[""].splitlines() if line.startswith("| `")}
    assert set(PAGES.EXAMPLES) <= names | first
    assert {command for command, _ in PAGES.OWN} <= set(COMMANDS)
