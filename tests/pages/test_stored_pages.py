"""What the pages of commands hold: sections, sentences, tables, charts, numbers, as stored."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.helpers import golden
from tests.helpers.command import run
from tests.helpers.pages import outline
from unmask import TopK, audit, data, predictions, report
from unmask_studies import demo

FILE = golden.file_name("pages", "pages")
N, L = 240, 12
TEXTS = ("Page.footer", "Text.text", "Panels.caption", "Chart.caption", "Column.help")
LEFT_OUT = (*TEXTS, "Series.style", "Rule.style")
"""Styles are those of the name, texts are read elsewhere, the footer has the version."""
NUMBERS = (*LEFT_OUT, *(f"Series.{name}" for name in ("x", "y", "low", "high")))


def check(page: report.Page, name: str, *, without: tuple[str, ...] = LEFT_OUT) -> None:
    """Compare a page with what is stored; how often labels occur stands on all, and once here."""
    sections = [
        section
        for section in page.sections
        if name == "evaluation" or section.title != "The labels"
    ]
    golden.check(FILE, "\n".join(outline(replace(page, sections=sections), without=without)), name)


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[report.Page]:
    """Pages that commands make, in a folder with labels, predictions, groups and an audit."""
    monkeypatch.chdir(tmp_path)
    made: list[report.Page] = []
    monkeypatch.setattr(report, "write", lambda page, path: made.append(page))
    rng = np.random.default_rng(5)
    true = (rng.random((N, L)) < np.linspace(0.5, 0.05, L)).astype(int)
    names = tuple(f"topic {number}" for number in range(L))
    truth = data.Dataset(None, true, label_names=names)
    observed = data.Dataset(
        None, data.hide(true, np.linspace(0.9, 0.4, L), seed=1), label_names=names
    )
    for name, rows in (("observed", observed), ("truth", truth)):
        data.write(f"{name}.txt", rows)
    for name, weight in (("ours", 0.5), ("theirs", 0.3)):
        scores = np.round(weight * true + 0.45 * rng.random((N, L)), 4)
        np.save(f"{name}.npy", scores)
        predictions.write(f"{name}.txt", TopK.from_scores(scores, 5))
    Path("groups").write_text("old\n" * 100 + "new\n" * 140)
    return made


STATED = ("--labels", "observed.txt", "--propensity", "constant:0.65", "--html", "page.html")
TOP = ("evaluate", *STATED, "--predictions", "ours.txt", "--metrics", "P@3,R@5")
SCORES = ("evaluate", *STATED, "--predictions", "ours.npy", "--metrics")
COMMANDS = {
    "evaluation": (*TOP, "--sensitivity", "powers"),
    "comparison": (*TOP, "--compare", "theirs.txt", "--estimators", "vanilla,unbiased"),
    "groups": (
        *SCORES, "micro-F1,macro-F1", "--threshold", "0.5", "--groups", "groups", "--per-label",
        "labels.csv",
    ),
    "curves": (*SCORES, "mAP,Fmax"),
    "diagnosis": (
        "diagnose", "observed.txt", "--audit", "observed.txt", "truth.txt", "--html", "page.html",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_pages_of_commands(name: str, written: list[report.Page]) -> None:
    result = run(*COMMANDS[name], "--quiet")
    assert result.returncode == 0, result.stderr
    (page,) = written
    check(page, name)


def test_the_page_of_an_audit(written: list[report.Page]) -> None:
    made = run("audit", "plan", "--labels", "observed.txt", "--predictions", "ours.txt",
               "--budget", 40, "--metrics", "P@5,R@5", "-o", "audit", "--quiet")  # fmt: skip
    assert made.returncode == 0, made.stderr
    sheet, truth = audit.read_folder("audit").sheet, data.read("truth.txt").labels
    answers = [
        {"question": each.id, "labels": truth[[each.row]].indices.tolist(), "complete": True}
        for each in sheet.questions
    ]
    record = {"kind": "answers", "key": sheet.key, "annotator": "ann", "answers": answers}
    Path("answers.json").write_text(json.dumps(record))
    result = run("audit", "estimate", "audit", "--answers", "answers.json", "--metrics", "P@5,R@5",
                 "--until-width", 0.2, "--html", "page.html", "--quiet")  # fmt: skip
    assert result.returncode == 0, result.stderr
    (page,) = written
    check(page, "audit")


def test_the_page_of_the_demo(written: list[report.Page], monkeypatch: pytest.MonkeyPatch) -> None:
    small = demo.run
    monkeypatch.setattr(demo, "run", lambda **options: small(n=600, **options))
    result = run("demo", "-o", "demo", "--quiet")
    assert result.returncode == 0, result.stderr
    (page,) = written
    check(page, "demo", without=NUMBERS)
