"""The commands as one tool: the same options, examples that run, exit codes, pipelines, pages."""

from __future__ import annotations

import inspect
import json
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import typer

import unmask_studies
from tests.helpers.command import run
from tests.helpers.paths import ROOT
from unmask import (
    TopK,
    audit,
    data,
    demo,
    linear,
    losses,
    metrics,
    missing,
    pages,
    predictions,
    propensity,
    thresholds,
    tree,
)
from unmask import weights as corrections
from unmask.cli import app
from unmask.models import training


def commands(group: Any, before: str = "") -> dict[str, Any]:
    """All commands by what a user types after `unmask`, those of groups as "group command"."""
    named: dict[str, Any] = {}
    for name, command in group.commands.items():
        words = f"{before}{name}"
        named |= (
            commands(command, f"{words} ") if hasattr(command, "commands") else {words: command}
        )
    return named


COMMANDS = commands(typer.main.get_command(app))
COMPUTE_NOTHING = ("report", "audit sheet", "audit page", "audit status")


def options(command: str) -> dict[str, Any]:
    """The command's parameters by the long name that a user types."""
    return {
        next((o for o in parameter.opts if o.startswith("--")), parameter.name): parameter
        for parameter in COMMANDS[command].params
    }


# One tool


def test_the_commands_are_those_of_the_readme_and_the_guide() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    guide = (ROOT / "docs" / "guides" / "command-line.md").read_text(encoding="utf-8")
    for name in COMMANDS:
        first = name.split()[0]
        assert f"`{first}`" in readme or f"unmask {first}" in readme, name
        assert f"`unmask {name}`" in guide, name


def test_every_command_takes_the_common_options_and_explains_all() -> None:
    overview = run("--help").stdout
    for command in COMMANDS:
        assert command.split()[0] in overview
        assert f"unmask {command}" in run(*command.split(), "--help").stdout
        offered = options(command)
        assert {"--json", "--quiet"} <= offered.keys()
        assert ("--threads" in offered) == (command not in COMPUTE_NOTHING)
        assert "-q" in offered["--quiet"].opts
        assert all(each.help or each.hidden for each in offered.values()), command


def test_an_option_means_the_same_wherever_it_stands() -> None:
    shared = ("--seed", "--threads", "--json", "--quiet", "--part", "--format", "--html")
    for name in shared:
        told = {
            (found[name].help, str(found[name].default))
            for command in COMMANDS
            if name in (found := options(command))
        }
        assert len(told) == 1, f"{name}: {told}"


def examples(command: str) -> list[str]:
    """The example lines of a command's help, continuation lines joined, comments cut off."""
    help_text = inspect.getdoc(COMMANDS[command].callback) or ""
    joined = re.sub(r"\\+\n\s*", "", help_text)
    return re.findall(r"\[dim\](.*?)\[/\]", joined, re.DOTALL)


def test_every_help_has_examples_and_all_of_them_parse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "exists", lambda path: True)  # files are not what is tried here
    for command in COMMANDS:
        found = examples(command)
        assert any(line.startswith(f"unmask {command}") for line in found)
        for line in found:
            program, *words = shlex.split(line.partition(">")[0])
            assert program == "unmask"
            size = next(size for size in (2, 1) if " ".join(words[:size]) in COMMANDS)
            name, arguments = " ".join(words[:size]), words[size:]
            COMMANDS[name].make_context(name, list(arguments))  # raises on what it does not know


def shown_options(*arguments: str) -> set[str]:
    """Return the options that a help shows."""
    result = run(*arguments)
    assert result.returncode == 0, result.stderr
    return set(re.findall(r"(?m)^│[* ]{1,6}(--[a-zA-Z][a-zA-Z0-9-]*)", result.stdout)) - {"--help"}


def test_help_opens_with_twelve_options_and_shows_all_on_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    for command in COMMANDS:
        first = shown_options(*command.split(), "--help")
        everything = {
            name
            for name, parameter in options(command).items()
            if name.startswith("--") and not parameter.hidden
        }
        assert shown_options(*command.split(), "--help-all") == everything, command
        assert first <= everything
        assert len(first) <= 12, (command, first)
        more = f"{command} --help-all"
        assert (more in run(*command.split(), "--help").stdout) == (first < everything)
        required = {n for n, p in options(command).items() if p.required and n.startswith("--")}
        assert required <= first
        assert "--json" in first
    text = run("train", "--help-all").stdout
    for topic in ("Training", "Reading files", "Running", "On a cluster"):
        assert f"─ {topic} ─" in text


def test_misspelt_words_are_answered_with_the_nearest(files: Path) -> None:
    top = files / "top-of-all.txt"
    predictions.write(top, TopK.from_scores(np.eye(200, 20), 5))
    evaluated = ("evaluate", "--labels", files / "test.txt.gz", "--predictions", top,
                 "--propensity", "constant:0.5")  # fmt: skip
    for arguments, words in (
        (("trian", "x"), "'train'"),
        (("train", files / "train.txt.gz", "--propensty", "p"), "did you mean --propensity?"),
        ((*evaluated, "--metrics", "mikro-F1"), "did you mean micro-F1?"),
        ((*evaluated, "--estimators", "vanilla,unbiasd"), "did you mean unbiased?"),
        (("info", files / "trian.txt.gz"), "did you mean train.txt.gz?"),
        (("audit", "plan", "--buget", 3), "did you mean --budget?"),
        ((*evaluated, "--metrics", "qqq"), "use one of: "),
    ):
        result = run(*arguments)
        assert result.returncode == 2, arguments
        assert words in result.stderr, (arguments, result.stderr)
        assert len(result.stderr.strip().splitlines()) == 1, result.stderr


DEFAULTS: dict[str, tuple[Callable[..., Any], dict[str, str]]] = {
    "train": (
        linear.Recipe,
        {"--loss": "loss", "--reduction": "reduction",
         "--normalized": "normalized", "--C": "C", "--l2": "l2", "--bias": "bias", "--tol": "tol",
         "--max-iter": "max_iter", "--prune": "prune_below"},
    ),
    "evaluate": (
        metrics.Evaluator,
        {"--confidence": "confidence", "--interval": "interval", "--seed": "seed"},
    ),
    "reproduce": (unmask_studies.run, {"--size": "size", "--seed": "seed"}),
    "missing": (missing.find, {"--top": "top"}),
    "threshold": (thresholds.fit, {"--metric": "metric", "--per": "per", "--prior": "prior"}),
    "predict": (tree.predict_top, {"--beam": "beam"}),
    "audit plan": (
        audit.plan,
        {"--unit": "unit", "--design": "design", "--observed": "observed", "--seed": "seed"},
    ),
    "demo": (demo.run, {"--seed": "seed"}),
    "diagnose": (__import__("unmask").diagnose, {"--seed": "seed"}),
}  # fmt: skip


def test_defaults_are_those_of_the_library() -> None:
    for command, (function, names) in DEFAULTS.items():
        defaults = {name: p.default for name, p in inspect.signature(function).parameters.items()}
        for option, parameter in names.items():
            assert options(command)[option].default == defaults[parameter], option


def test_training_offers_every_choice_of_the_recipe() -> None:
    _, offered = DEFAULTS["train"]
    chosen = {field.name for field in fields(linear.Recipe)}
    assert set(offered.values()) == chosen - {"correction"}, "that depends on --propensity"
    assert options("train")["--correction"].default is None


@pytest.mark.parametrize(
    ("command", "option", "registry"),
    [
        ("train", "--correction", corrections.CORRECTIONS),
        ("train", "--bias", training.BIASES),
        ("evaluate", "--interval", metrics.intervals.INTERVALS),
        ("reproduce", "--size", unmask_studies.SIZES),
        ("hide", "--propensity", propensity.MODELS),
    ],
)
def test_help_names_every_choice(command: str, option: str, registry: Any) -> None:
    words = options(command)[option].help
    assert all(name in words for name in registry), words


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("unmask ", sorted({name.split()[0] for name in COMMANDS})),
        (
            "unmask train f -o m --correction ",
            sorted([*corrections.CORRECTIONS, "completed", "likelihood"]),
        ),
        ("unmask train f -o m --loss squ", ["squared_error", "squared_hinge"]),
        ("unmask reproduce rec", sorted(n for n in unmask_studies.STUDIES if n.startswith("rec"))),
        ("unmask evaluate --estimators vanilla,unb", ["vanilla,unbiased"]),
        ("unmask hide f -o g --propensity jain:Amazon-6", ["jain:Amazon-670K"]),
    ],
)
def test_the_shell_completes(typed: str, offered: list[str]) -> None:
    asked = {
        "_UNMASK_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(typed.split(" ")) - 1),
    }
    with mock.patch.dict(os.environ, asked):
        assert sorted(run().stdout.split()) == offered


# Streams and exit codes


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.txt.gz and test.txt.gz, as in the README."""
    folder = tmp_path_factory.mktemp("files")
    rows = data.synthetic.planted(600, n_features=200, n_labels=20, seed=0)
    data.write(folder / "train.txt.gz", rows.take(slice(0, 400)))
    data.write(folder / "test.txt.gz", rows.take(slice(400, 600)))
    return folder


def test_progress_goes_to_stderr_and_quiet_silences_it(files: Path, tmp_path: Path) -> None:
    arguments = ("train", files / "train.txt.gz", "-o", tmp_path / "model", "--json")
    loud = run(*arguments)
    assert json.loads(loud.stdout)["labels"] == 20
    assert "labels" in loud.stderr
    quiet = run(*arguments, "--quiet", "--no-resume")
    assert (quiet.stderr, quiet.returncode) == ("", 0)
    assert "missing.txt" in run("info", "missing.txt", "--quiet").stderr, "mistakes are told"


def test_threads_change_the_time_and_nothing_else(files: Path, tmp_path: Path) -> None:
    from unmask._kernels import threads

    used = []

    def look(path: Path, **_: object) -> None:
        used.append(threads())
        raise ValueError("seen enough")

    with mock.patch.object(data, "read", look):
        run("info", files / "train.txt.gz", "--threads", 3)
    assert used == [3]
    assert run("info", files / "train.txt.gz", "--threads", 0).returncode == 2
    made = []
    for count in (1, 2):
        assert run("train", files / "train.txt.gz", "-o", tmp_path / str(count), "--threads", count,
                   "-q").returncode == 0  # fmt: skip
        made.append([f.read_bytes() for f in sorted((tmp_path / str(count)).iterdir())])
    assert made[0] == made[1]


def test_the_seed_reaches_the_bootstrap(files: Path, tmp_path: Path) -> None:
    top, labels = tmp_path / "top.txt", files / "test.txt.gz"
    noise = np.random.default_rng(0).normal(size=(200, 20))
    predictions.write(top, TopK.from_scores(noise, 5))
    asked = ("evaluate", "--labels", labels, "--predictions", top, "--propensity", "constant:0.5",
             "--metrics", "P@1", "--interval", "percentile", "--csv")  # fmt: skip
    first, again, other = (run(*asked, "--seed", seed).stdout for seed in (1, 1, 2))
    assert first == again != other


def test_a_mistake_of_ours_is_code_1_with_a_traceback(files: Path) -> None:
    program = (
        "import sys, unmask.cli, unmask.data as d\n"
        "def broken(*a, **k): raise RuntimeError('a bug')\n"
        "d.read = broken\n"
        f"sys.argv = ['unmask', 'info', {str(files / 'train.txt.gz')!r}]\n"
        "unmask.cli.main()"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.returncode == 1
    assert "RuntimeError: a bug" in found.stderr


@pytest.mark.parametrize("arguments", [["nonsense"], ["info"], ["info", "x", "--what"]])
def test_a_command_line_that_is_not_understood_is_code_2(arguments: list[str]) -> None:
    result = run(*arguments)
    assert (result.returncode, result.stdout) == (2, "")


def test_ctrl_c_is_code_130(tmp_path: Path) -> None:
    """A real signal, sent while the command waits on a pipe that is full."""
    waiting = tmp_path / "pipe"
    os.mkfifo(waiting)
    data.write(tmp_path / "x.txt", data.synthetic.planted(5000, n_labels=50, seed=0))
    command = [sys.executable, "-m", "unmask", "convert", tmp_path / "x.txt", waiting]
    reader = os.open(waiting, os.O_RDONLY | os.O_NONBLOCK)
    started = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # jobs in the background
    )
    try:
        assert select.select([reader], [], [], 60)[0]  # the command has begun to write
        time.sleep(0.2)
        started.send_signal(signal.SIGINT)
        out, err = started.communicate(timeout=60)
    finally:
        os.close(reader)
    assert (started.returncode, out) == (130, "")
    assert "Traceback" not in err


# From files to a page


def pipeline(folder: Path, monkeypatch: pytest.MonkeyPatch, *more: str) -> str:
    """The README's four commands in a folder that holds train.txt.gz and test.txt.gz.

    `more` are further options of the first one, which trains.
    """
    monkeypatch.chdir(folder)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = (
        b for b in re.findall(r"```bash\n(.*?)```", text, re.DOTALL) if "unmask report" in b
    )
    lines = [shlex.split(line) for line in block.splitlines()]
    assert len(lines) == 4
    lines[0] += more
    for _, *arguments in lines:
        at = arguments.index(">") if ">" in arguments else None
        result = run(*arguments[:at])
        assert result.returncode == 0, result.stderr
        if at is not None:
            Path(arguments[at + 1]).write_text(result.stdout)
    return (folder / "page.html").read_text(encoding="utf-8")


CONTENT = (
    "audit some hundred rows",
    "How often a true label is seen",
    "Rows by number of labels",
    "Estimates and their intervals",
    "How this page was made",
)


def test_four_commands_lead_from_files_to_a_page(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = pipeline(files, monkeypatch)
    assert all(words in page for words in CONTENT)
    assert "unmask evaluate --labels test.txt.gz" in page, "the exact command"


def test_four_commands_on_bibtex(
    real_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for part in ("train", "test"):
        (tmp_path / f"{part}.txt.gz").symlink_to(real_data / "bibtex-xc" / f"{part}.txt.gz")
    page = pipeline(tmp_path, monkeypatch, "--tfidf")  # its features are words, not yet weighted
    assert all(words in page for words in CONTENT)
    assert "the assumptions do not hold: P@1 comes to 1.1" in page, "Jain does not fit bibtex"


def test_predictions_of_another_system_become_a_page(files: Path, tmp_path: Path) -> None:
    labels = data.read(files / "test.txt.gz").labels
    theirs = tmp_path / "theirs.npz"  # a score matrix, as PECOS saves it
    scores = labels.toarray() + np.random.default_rng(0).random(labels.shape)
    predictions.write(theirs, TopK.from_scores(scores, 5))
    asked = ("--labels", files / "test.txt.gz", "--train", files / "train.txt.gz")
    page = tmp_path / "page.html"
    assert run("evaluate", *asked, "--predictions", theirs, "--html", page, "-q").returncode == 0
    assert "Evaluation of theirs.npz" in page.read_text(encoding="utf-8")


# Stored results


@pytest.fixture(scope="module")
def stored(files: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Evaluation and diagnosis as `--json` prints them, each beside the page made at once."""
    folder = tmp_path_factory.mktemp("stored")
    top, other = folder / "top.txt", folder / "other.txt"
    for seed, path in enumerate((top, other)):
        scores = np.random.default_rng(seed).random((200, 20))
        predictions.write(path, TopK.from_scores(scores, 5))
    found = {name: folder / name for name in ("evaluation.json", "diagnosis.json", "now.html")}
    asked = ("--labels", files / "test.txt.gz", "--train", files / "train.txt.gz",
             "--metrics", "P@1,R@5")  # fmt: skip
    made = ("--predictions", top, "--compare", other, "--html", found["now.html"], "--json")
    found["evaluation.json"].write_text(run("evaluate", *asked, *made).stdout)
    diagnosed = run("diagnose", files / "train.txt.gz", "--propensity", "constant:0.2", "--json")
    found["diagnosis.json"].write_text(diagnosed.stdout)
    return found


def test_a_stored_evaluation_makes_the_page_that_was_made_at_once(
    stored: dict[str, Path], tmp_path: Path
) -> None:
    later = tmp_path / "later.html"
    assert run("report", stored["evaluation.json"], "-o", later).returncode == 0
    now = stored["now.html"].read_text(encoding="utf-8")
    body, made = "<main", "How this page was made"
    strip = [text[text.index(body) : text.rindex(made)] for text in (now, later.read_text())]
    assert strip[0] == strip[1]
    assert "Compared with " in now


def test_several_results_stand_on_one_page(stored: dict[str, Path], tmp_path: Path) -> None:
    page = tmp_path / "all.html"
    names = ("evaluation.json", "diagnosis.json", "evaluation.json")
    facts = json.loads(run("report", *(stored[n] for n in names), "-o", page, "--json").stdout)
    text = page.read_text(encoding="utf-8")
    assert facts["bytes"] == page.stat().st_size
    for words in (
        "Side by side",
        "train.txt.gz: Findings",
        "top.txt: Estimates",
        "unmask diagnose",
    ):
        assert words in text
    assert "unmask report" in text


def test_rows_of_studies_become_a_page_without_being_measured_again(tmp_path: Path) -> None:
    made = run("reproduce", "recall-toy", "--size", "tiny", "-o", tmp_path, "--json")
    printed = tmp_path / "printed.json"
    printed.write_text(made.stdout)
    title = ("--title", "Toy")
    with mock.patch.object(unmask_studies.study, "_measure", side_effect=AssertionError):
        packed = tmp_path / "rows" / "recall-toy-tiny.jsonl.zst"
        for source in (printed, tmp_path, packed):
            result = run("report", source, *title, "-o", tmp_path / "p.html")
            assert result.returncode == 0, result.stderr
            text = (tmp_path / "p.html").read_text(encoding="utf-8")
            assert "<h1>Toy</h1>" in text
            assert "unmask reproduce recall-toy --size tiny --seed 0" in text


def test_sensitivity_is_shown_where_it_was_stored(stored: dict[str, Path]) -> None:
    record = json.loads(stored["evaluation.json"].read_text())
    record["sensitivity"] = [{"propensity": name, **record["estimates"][0]} for name in "ab"]
    page = pages.page([record])
    section = next(s for s in page.sections if s.title.startswith("Sensitivity"))
    assert "2 propensity models: a, b" in section.parts[0].text


def test_a_refused_estimate_has_a_place_on_the_page(stored: dict[str, Path]) -> None:
    record = json.loads(stored["evaluation.json"].read_text())
    for row in record["estimates"]:
        if row["metric"] == "R@5" and row["estimator"] != "vanilla":
            row.update(
                value=None,
                low=None,
                high=None,
                verdict={"level": "unusable", "text": "unusable: no thinning fits"},
            )
    assert "cannot be used" in " ".join(pages.page([record]).summary)
    for opening in ("headline", "comparison"):  # as records were stored once
        record.pop(opening)
    told = " ".join(pages.page([record]).summary)
    assert "Taken at face value P@1" in told
    assert "the deconvolved estimate was refused: unusable: no thinning fits" in told
    assert "cannot be used" in told


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{}", "holds no stored result"),
        ("[1, 2]", "holds no stored result"),
        ('{"kind": "other"}', "holds no stored result"),
        ("not json", "is not JSON"),
    ],
)
def test_what_is_no_stored_result_is_refused(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    result = run("report", path, "-o", tmp_path / "p.html")
    assert result.returncode == 2
    assert message in " ".join(result.stderr.split())
    assert not (tmp_path / "p.html").exists()
    assert run("report", tmp_path / "empty", "-o", tmp_path / "p.html").returncode == 2


def test_losses_named_by_the_help_are_those_that_can_be_trained() -> None:
    from unmask.models.one_vs_all import SOLVERS

    named = re.findall(r"\w+", options("train")["--loss"].help)
    assert set(named) & losses.LOSSES.keys() == {*SOLVERS, "softmax"}
