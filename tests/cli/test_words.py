"""Messages of commands name options; messages of Python name arguments; both from one value."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main

import unmask
from tests.helpers.command import run
from unmask import _messages, data
from unmask._messages import Setting
from unmask.cli import app
from unmask.cli.words import COMMANDS, FUNCTIONS, CommandLine

ROOT = typer.main.get_command(app)
SOURCE = Path(unmask.__file__).parent
ARGUMENT = re.compile(r"(?<![\w-])[a-z_]+=(?!=)")


@pytest.mark.parametrize(
    ("command", "setting", "words"),
    [
        ("info", Setting("format", "features"), "--format features"),
        ("info", Setting("base", 1), "`unmask convert --base 1`"),
        ("convert", Setting("base", 1), "--base 1"),
        ("info", Setting("labels"), "--labels"),
        ("evaluate", Setting("labels"), "--table labels=…"),  # its --labels is a file
        ("evaluate", Setting("delimiter", ";"), "--table delimiter=';'"),
        ("audit plan", Setting("nulls", "empty"), "`unmask convert --table nulls=empty`"),
        ("evaluate", Setting("part", "train"), "`unmask convert --part train`"),
        ("info", Setting("columns", of="data.limits"), "`unmask --max-columns`"),
        ("audit plan", Setting("metrics", ["R@5", "P@1"], "audit.plan"), "--metrics R@5,P@1"),
        ("evaluate", Setting("unit", "rows", "audit.plan"), "`unmask audit plan --unit rows`"),
        ("train", Setting("resume", False, "linear.train"), "--no-resume"),
        ("train", Setting("normalized", True, "linear.train"), "--normalized"),
        ("evaluate", Setting("k", 5, "predictions.read"), "`unmask.predictions.read` in Python"),
    ],
)
def test_a_setting_is_an_option_of_this_command_or_of_another(
    command: str, setting: Setting, words: str
) -> None:
    assert CommandLine(ROOT, tuple(command.split())).setting(setting) == words


def test_the_default_words_are_those_of_python() -> None:
    assert _messages.setting("base", 1) == "base=1"
    assert _messages.setting("labels") == "`labels`"
    assert _messages.setting("columns", of="data.limits") == "`data.limits(columns=…)`"
    with _messages.worded(CommandLine(ROOT, ("info",))):
        assert _messages.setting("part", "train") == "--part train"
        assert _messages.function("propensity.clip") == "`unmask propensity --lowest`"
        assert _messages.function("operator.unbiased") == "`unmask.operator.unbiased` in Python"
    assert _messages.function("propensity.clip") == "`propensity.clip`"


def messages(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The literal parts of texts that are raised, warned of or shown, by line."""
    for node in ast.walk(tree):
        raised = isinstance(node, ast.Raise)
        warned = isinstance(node, ast.Call) and ast.unparse(node.func) == "warnings.warn"
        if raised or warned:
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.lineno, part.value


def test_no_message_spells_an_argument_out() -> None:
    """Of `unmask.torch`, which no command uses, messages may."""
    spelt = [
        f"{path.relative_to(SOURCE)}:{line}: {text}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path.relative_to(SOURCE).parts[0] not in ("torch", "cli")
        for line, text in messages(ast.parse(path.read_text(encoding="utf-8")))
        if ARGUMENT.search(text)
    ]
    assert not spelt


def test_settings_and_functions_exist() -> None:
    """What messages name can be given: the functions and commands are there."""
    for name in {*COMMANDS, *FUNCTIONS}:
        value: object = unmask
        for part in name.split("."):
            value = getattr(value, part)
        assert callable(value), name
    for path in COMMANDS.values():
        assert CommandLine(ROOT, path)._command(path) is not None
    for words in FUNCTIONS.values():
        option = re.fullmatch(r"`unmask ([a-z ]+?)(?: (--[a-z]+).*)?`", words)
        if option is not None:
            command = CommandLine(ROOT, ())._command(tuple(option[1].split()))
            assert option[2] is None or any(option[2] in p.opts for p in command.params)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = data.synthetic.planted(30, n_features=8, n_labels=4, seed=0)
    data.write(tmp_path / "train.txt", rows)
    data.write(tmp_path / "test.txt", rows)
    (tmp_path / "wrong_k.txt").write_text("30 90000\n" + "99999:1\n" * 30)
    (tmp_path / "one.txt").write_text("1,4 1:1\n2 1:1\n")
    (tmp_path / "pairs.txt").write_text("2 3\n0:1 1:0.5\n0:1\n")
    (tmp_path / "tiny.txt").write_text("1e-300\n" * 4)
    return tmp_path


def test_what_commands_say_of_mistakes(folder: Path) -> None:
    labels, evaluate = folder / "test.txt", ("evaluate", "--labels", folder / "test.txt")
    predict = (
        "predict", folder / "model", labels, "-o", folder / "p", "--rank-by",
        "probability/propensity",
    )  # fmt: skip
    trained = run("train", labels, "-o", folder / "model", "--loss", "logistic")
    assert trained.returncode == 0
    for arguments, advice in (
        (("propensity", folder), "e.g. --part train"),
        (("train", folder / "train.txt", "--part", "test", "-o", "x"), "leave out --part"),
        (("info", folder / "pairs.txt"), "with --format features"),
        (
            (*evaluate, "--propensity", "constant:0.5", "--predictions", folder / "wrong_k.txt"),
            "write 1 there, or read it with `unmask.predictions.read` in Python",
        ),
        (("train", labels, "-o", folder / "m", "--correction", "empirical_bayes"), "--normalized"),
        (predict, "give it with --propensity"),
        ((*predict, "--propensity", folder / "tiny.txt"), "with `unmask propensity --lowest`"),
    ):
        result = run(*arguments)
        assert advice in result.stderr, (arguments, result)
        assert result.returncode == 2


def test_files_that_count_from_one_can_be_converted(tmp_path: Path) -> None:
    source, target = tmp_path / "one.txt", tmp_path / "zero.txt"
    source.write_text("2 3 2\n1,2 1:1 3:1\n2 2:1\n")
    refused = run("info", source)
    assert (refused.returncode, "unmask convert --base 1" in refused.stderr) == (2, True)
    assert run("convert", source, target, "--base", 1).returncode == 0
    assert data.read(target).labels.toarray().tolist() == [[1, 1], [0, 1]]


def test_propensities_can_be_raised(folder: Path) -> None:
    target = folder / "p.txt"
    run("propensity", folder / "train.txt", "--propensity", folder / "tiny.txt", "--lowest", 0.25,
        "-o", target)  # fmt: skip
    assert target.read_text().split() == ["0.25"] * 4
