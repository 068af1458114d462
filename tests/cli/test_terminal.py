"""Names are data: never markup, never commands to a terminal, in whatever a command prints."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
import unicodedata
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.command import Result, run
from unmask import TopK, data, demo, metrics, predictions
from unmask._text import visible
from unmask.cli import output
from unmask.metrics.claims import Level, Reason, Verdict
from unmask.metrics.comparison import Ranking
from unmask.pages import demo as demo_page

HOSTILE = {
    "markup": "te[/x]st",
    "style": "[bold red]loud[/]",
    "emoji": "a:fire:b",
    "colour": "a\x1b[31mred",
    "title": "a\x1b]0;owned\x07b",
    "clear": "a\x1b[2J\x1b[Hb",
    "c1": "a\x9b31mb\x90c",
    "bell": "a\x07\x08\x7fb",
    "bidi": "a\u202etxt.exe\u2066b\u2069",
    "lines": "a\nP@1: trust\r\tb",
    "separators": "a\u2028b\u2029c\x85d",
    "bytes": os.fsdecode(b"a\xff\x9b31m"),
}
FILES = {
    "markup": "te[/x]st",
    "controls": "[bold]a\x1b[31m\x1b]0;b\x07\x9bc\x7f",
    "lines": "a\nb\r\tc:fire:\u202ed\u2066\u2028",
    "bytes": os.fsdecode(b"a\xff\x9b31m"),
}
ALLOWED = {"\n"}


def harmless(result: Result) -> bool:
    """Nothing that a terminal acts on; line ends are ours."""
    shown = result.stdout + result.stderr
    kinds = ("Cc", "Cf", "Cs", "Zl", "Zp")
    bad = [c for c in shown if unicodedata.category(c) in kinds and c not in ALLOWED]
    assert not bad, (bad, shown)
    assert "Traceback" not in shown
    return True


def words(text: str) -> str:
    """Without the line breaks, frames and spaces that a narrow terminal makes."""
    return re.sub(r"[\s│╭╮╰╯─]", "", text)


@pytest.fixture(
    params=[
        "controls",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("markup", "lines", "bytes")),
    ]
)
def name(request: pytest.FixtureRequest) -> str:
    return FILES[request.param]


@pytest.fixture
def folder(tmp_path: Path, name: str) -> Path:
    """A folder, and files in it, of that name."""
    folder = tmp_path / name
    (folder / name).parent.mkdir(parents=True)  # [/x] is a folder and a name in it
    rows = data.synthetic.planted(120, n_features=30, n_labels=8, seed=0)
    data.write(folder / f"{name}.txt", rows)
    scores = np.random.default_rng(0).random((120, 8)).astype(np.float32)
    for system in ("ours", "theirs"):
        predictions.write(folder / f"{name}.{system}.txt", TopK.from_scores(scores, 5))
        scores = scores[:, ::-1]
    return folder


def test_every_command_with_such_files(folder: Path, name: str) -> None:
    source, ours, theirs = (folder / f"{name}{end}" for end in (".txt", ".ours.txt", ".theirs.txt"))
    model, page = folder / f"{name}.model", folder / f"{name}.html"
    stored = [folder / f"{name}.{kind}.json" for kind in ("evaluation", "diagnosis")]
    evaluated = ("evaluate", "--labels", source, "--predictions", ours, "--train", source)
    compared = (*evaluated, "--compare", theirs, "--sensitivity", "powers", "--metrics", "P@1,R@3")
    commands: list[tuple[Any, ...]] = [
        ("info", source),
        ("convert", source, folder / f"{name}.npz"),
        ("hide", source, "-o", folder / f"{name}.hidden.txt", "--propensity", "constant:0.5"),
        ("propensity", source, "-o", folder / f"{name}.p.txt"),
        ("propensity", source, "--propensity", folder / f"{name}.p.txt"),
        ("propensity", source, "--audit", source, source, "-o", folder / f"{name}.p.json"),
        ("train", source, "-o", model),
        ("train", source, "--plan"),
        ("predict", model, source, "-o", folder / f"{name}.top.txt"),
        compared,
        (*compared, "--csv"),
        (*compared, "--json"),
        (*evaluated, "--html", page),
        ("diagnose", source, "--propensity", folder / f"{name}.p.txt"),
        ("diagnose", source, "--json"),
        ("reproduce", "recall-toy", "--size", "tiny", "-o", folder / f"{name}.out"),
        ("report", folder / f"{name}.out", "-o", page),
    ]
    for command in commands:
        result = run(*command)
        assert result.returncode == 0, (command, result.stderr)
        assert harmless(result)
        if "--json" in command:
            kind = json.loads(result.stdout)["kind"]
            (folder / f"{name}.{kind}.json").write_text(result.stdout)
        elif command[0] in ("convert", "hide", "train", "predict") and "--plan" not in command:
            assert words(visible(name)) in words(result.stdout)
    assert json.loads(stored[0].read_text())["source"] == str(ours)
    result = run("report", *stored, "-o", page, "--title", name)
    assert result.returncode == 0, result.stderr
    assert harmless(result)
    assert words(visible(page.name)) in words(result.stdout)


def test_names_inside_files(folder: Path, name: str) -> None:
    """Labels called so, and stored results that were tampered with."""
    rows = data.synthetic.planted(20, n_features=9, n_labels=4, seed=0)
    data.write(folder / "train.txt", rows)
    (folder / "labels.txt").write_bytes(
        os.fsencode("\n".join(4 * [name.replace("\n", "")])) + b"\n"
    )
    assert harmless(run("info", folder))
    row = {
        "metric": name,
        "estimator": name,
        "value": 0.5,
        "low": 0.4,
        "high": 0.6,
        "verdict": name,
    }
    whole = {"standard_error": 0.1, "rows": 9, "effective_sample_size": 9.0,
             "largest_contribution": 0.1, "details": {}}  # fmt: skip
    for stored in (
        [row],
        [row | whole],
        {"kind": "evaluation", "source": name, "estimates": [row]},
        {"kind": "diagnosis", "source": name, "verdict": name},
        {name: name},
        name,
    ):
        file = folder / "stored.json"
        file.write_text(json.dumps(stored))
        assert harmless(run("report", file, "-o", folder / "page.html"))


def test_labels_and_groups_called_so(tmp_path: Path) -> None:
    """Thresholds, sets, groups and hierarchies of labels with such names."""
    names = [each for kind, each in HOSTILE.items() if kind not in ("lines", "bytes", "separators")]
    rng = np.random.default_rng(0)
    scores = rng.random((40, len(names)))
    observed = rng.random(scores.shape) < scores / 2
    with open(tmp_path / "labels.jsonl", "w", encoding="utf-8") as file:
        for i, row in enumerate(observed):
            tags = [names[j] for j in np.flatnonzero(row)]
            file.write(json.dumps({"id": f"r{i}", "labels": tags}) + "\n")
    with open(tmp_path / "scores.csv", "w", encoding="utf-8", newline="") as table:
        writer = csv.writer(table)
        writer.writerow(["id", "label", "score"])
        writer.writerows((f"r{i}", names[j], scores[i, j]) for i, j in np.ndindex(*scores.shape))
    groups = "".join(f"r{i}\t{names[i % 3]}\n" for i in range(40))
    (tmp_path / "groups.tsv").write_text(groups, encoding="utf-8")
    (tmp_path / "tree.tsv").write_text(
        "".join(f"{child}\t{parent}\n" for child, parent in pairwise(names)), encoding="utf-8"
    )
    (tmp_path / "circle.tsv").write_text(f"{names[3]}\t{names[4]}\n{names[4]}\t{names[3]}\n")
    shared = ("--labels", tmp_path / "labels.jsonl", "--predictions", tmp_path / "scores.csv",
              "--propensity", "constant:0.5")  # fmt: skip
    sets = ("evaluate", *shared, "--metrics", "micro-F1,macro-F1", "--threshold")
    cut = tmp_path / "cut.json"
    for command in (
        ("threshold", *shared, "--metric", "macro-F1", "-o", cut),
        (*sets, cut),
        (*sets, cut, "--groups", tmp_path / "groups.tsv"),
        (*sets, "0.5", "--hierarchy", tmp_path / "tree.tsv"),
    ):
        result = run(*command)
        assert result.returncode == 0, (command, result.stderr)
        assert harmless(result)
    refused = run(*sets, "0.5", "--hierarchy", tmp_path / "circle.tsv")
    assert refused.returncode == 2
    assert harmless(refused)
    assert "their own ancestors" in refused.stderr


def test_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, study = [], demo.run
    monkeypatch.setattr(demo, "run", lambda **options: made.append(study(**options)) or made[0])
    result = run("demo", "-o", tmp_path / FILES["controls"])
    assert result.returncode == 0, result.stderr
    assert harmless(result)
    words = " ".join(result.stdout.split())
    assert all(sentence in words for sentence in demo_page.summary(made[0]))


def test_a_line_of_a_name_is_no_line_of_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file called "…\\nP@1: trust" must not look like a verdict."""
    monkeypatch.setattr(output.results, "_width", 400)  # nothing is wrapped
    labels, top = tmp_path / "labels.txt", tmp_path / "x\nP@1 unbiased: trust"
    data.write(labels, data.synthetic.planted(50, n_features=9, n_labels=8, seed=0))
    predictions.write(top, TopK.from_scores(np.random.default_rng(0).random((50, 8)), 5))
    other = tmp_path / "y\nP@1 vanilla: trust"
    other.write_bytes(top.read_bytes())
    shown = run("evaluate", "--labels", labels, "--predictions", top, "--compare", other,
                "--propensity", "constant:0.5", "--sensitivity", "powers")  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    assert not [line for line in shown.stdout.splitlines() if line.startswith("P@1 unbiased: tr")]
    assert not [line for line in shown.stdout.splitlines() if line.startswith("P@1 vanilla: tr")]


FAILING: dict[str, list[str]] = {
    "no such file": ["info", "{name}.missing"],
    "no such command": ["{name}"],
    "no such option": ["info", "x", "--{name}"],
    "no value": ["predict", "{name}"],
    "a number": ["predict", "x", "y", "-o", "z", "--k", "{name}"],
    "unknown format": ["info", "{file}", "--format", "{name}"],
    "unknown part": ["info", "{folder}", "--part", "{name}"],
    "unknown loss": ["train", "{file}", "-o", "{folder}/out", "--loss", "{name}"],
    "unknown metric": ["evaluate", "--labels", "{file}", "--predictions", "{file}", "--train",
                       "{file}", "--metrics", "{name}"],
    "unknown preset": ["propensity", "{file}", "--propensity", "jain:{name}"],
    "unknown study": ["reproduce", "{name}"],
    "unknown size": ["reproduce", "recall-toy", "--size", "{name}", "-o", "{folder}/out"],
    "unknown scheduler": ["train", "{file}", "-o", "{folder}/out", "--scheduler", "{name}"],
    "no predictions": ["evaluate", "--labels", "{file}", "--predictions", "{file}", "--train",
                       "{file}"],
    "no model": ["predict", "{folder}", "{file}", "-o", "{folder}/out"],
    "no stored result": ["report", "{file}"],
    "no rows": ["report", "{folder}"],
}  # fmt: skip


@pytest.mark.parametrize("case", FAILING)
def test_mistakes_quote_names_in_one_harmless_line(case: str, folder: Path, name: str) -> None:
    filled = {"name": name, "file": str(folder / f"{name}.txt"), "folder": str(folder)}
    result = run(*(each.format(**filled) for each in FAILING[case]))
    assert result.returncode == 2, result
    assert harmless(result)
    assert result.stdout == ""
    assert not (folder / "out").exists()  # nothing half-written
    if result.stderr.startswith("unmask: "):
        assert result.stderr.count("\n") == 1


def test_lines_of_a_file_are_quoted_harmlessly(tmp_path: Path) -> None:
    source = tmp_path / "rows.txt"
    for token in HOSTILE.values():
        raw = os.fsencode(token.replace("\n", "").replace("\r", ""))
        source.write_bytes(b"1 3 4\n0 0:1 " + raw + b":2\n")
        result = run("info", source)
        assert result.returncode == 2
        assert harmless(result)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_the_real_command_on_a_real_terminal(tmp_path: Path, stream: str) -> None:
    """With colours on, all escape sequences are those of rich; those of a name are not acted on."""
    file = tmp_path / "a\x1b[31mx[bold]y.txt"
    data.write(file, data.synthetic.planted(20, n_features=9, n_labels=5, seed=0))
    arguments = ["info", str(file if stream == "stdout" else file.with_suffix(".none"))]
    environment = {**os.environ, "FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "200"}
    found = subprocess.run(
        [sys.executable, "-m", "unmask", *arguments], capture_output=True, env=environment
    )
    shown = getattr(found, stream)
    assert found.returncode == (0 if stream == "stdout" else 2), found.stderr
    assert b"\x1b[31m" not in found.stdout + found.stderr
    assert rb"a\x1b[31mx[bold]y." in re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", shown)


# --- the parts ------------------------------------------------------------------------------------


def test_visible_keeps_what_is_text() -> None:
    for text in (
        "",
        "plain",
        "Größe 日本語 עברית 👍🏽",
        "می\u200cخواهم",
        "👩\u200d🔬",
        "a b",
        r"C:\new",
    ):
        assert visible(text) == text


def test_visible_shows_every_character_that_acts() -> None:
    spans = (range(0x20), range(0x7F, 0xA0), range(0x202A, 0x202F), range(0x2066, 0x206A))
    single = (0x200B, 0x200E, 0x200F, 0x061C, 0x2028, 0x2029, 0xFEFF, 0xE0041, 0xD800)
    for code in (*chain(*spans), *single):
        shown = visible(f"a{chr(code)}b")
        assert shown[0] == "a"
        assert shown[-1] == "b"
        assert re.fullmatch(r"\\(x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|[ntr])", shown[1:-1]), code
        shown.encode("utf-8")


@pytest.mark.parametrize("given", HOSTILE.values(), ids=HOSTILE)
def test_whatever_is_printed(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    output.show_facts(given, {given: given, "n": 3})
    output.show_rows(given, [given, "n"], [(given, 3), (given, 4)])
    output.show_text(given)
    output.show_json({given: [given]})
    output.results.print(given)
    output.show_error(ValueError(given))
    output.show_error(OSError(2, given, given))
    output.warn(given)
    with output.progress_console.status(f"reading {given}"):
        pass
    with output.bar(given) as step:
        step(1, 2)
    result = Result(0, *capsys.readouterr())
    assert harmless(result)
    assert words(visible(given)) in words(result.stdout)
    assert words(visible(given)) in words(result.stderr)


def test_warnings_are_one_harmless_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a program would print a file name and a line of code, the command prints a sentence."""
    import warnings

    def warn(*_: Any, **__: Any) -> None:
        warnings.warn("be \x1b[31mcareful\n[/x]", RuntimeWarning, stacklevel=1)
        raise ValueError("enough")

    monkeypatch.setattr(data, "read", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        result = run("info", __file__)
    assert harmless(result)
    assert result.stderr == ("unmask: warning: be \\x1b[31mcareful\\n[/x]\nunmask: enough\n")


def test_text_of_tables_is_harmless() -> None:
    wide = Verdict(Level.WIDE, Reason.WIDE, details={"half_width": 0.2})
    one = metrics.Estimate("P@1", "vanilla", 0.5, 0.1, (0.3, 0.7), 25.0, 0.04, 50, wide)
    for name in HOSTILE.values():
        text = str(metrics.Tables(name, {name: metrics.Table([one]), "b": metrics.Table([one])}))
        assert harmless(Result(0, text, ""))
        assert visible(name) in text
        assert len(text.splitlines()) == 5  # head, row, blank, a note for each
        row = {"model": name, "system": name, "value": 0.5, "first": 0.4, "difference": 0.1,
               "low": 0.0, "high": 0.2}  # fmt: skip
        statement = Ranking("P@1", "unbiased", name, (row,)).statement
        assert harmless(Result(0, statement, ""))
        assert "\n" not in statement


@pytest.mark.parametrize(
    ("character", "shown"),
    [
        ("a", "a"), ("é", "é"), (" ", " "), ("\u200c", "\u200c"), ("\u200d", "\u200d"),
        ("\n", r"\n"), ("\x1b", r"\x1b"), ("\x85", r"\x85"), ("\u200b", r"\u200b"),
        ("\u2028", r"\u2028"), ("\u2029", r"\u2029"), ("\u202e", r"\u202e"),
        ("\udc7f", r"\udc7f"), ("\udc80", r"\x80"), ("\udcff", r"\xff"), ("\udd00", r"\udd00"),
        ("\ud800", r"\ud800"),
    ],
)  # fmt: skip
def test_what_a_terminal_would_act_on_is_escaped(character: str, shown: str) -> None:
    """Bytes that are not UTF-8, which Python has as U+DC80 … U+DCFF, are shown as bytes."""
    assert visible(character) == shown
    assert visible(f"\n{character}.") == rf"\n{shown}."
