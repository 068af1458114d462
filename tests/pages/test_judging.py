"""The judging page: judged through in a real browser, read back, and estimated from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.audits import NAMES, asked, true_numbers, true_words, universe
from tests.helpers.browser import View, needs_chromium
from unmask import audit, evaluate, report
from unmask.pages import judging

pytestmark = needs_chromium

Show = Callable[..., View]


def saved(view: View, path: Path) -> Path:
    with view.page.expect_download() as download:
        view.page.locator("#save").click()
    download.value.save_as(path)
    return path


def test_pairs_judged_by_keyboard_give_the_number_of_the_truth(show: Show, tmp_path: Path) -> None:
    plan, sheet, truth = asked("pairs")
    view = show(report.write_questionnaire(judging.questionnaire(sheet), tmp_path / "judge.html"))
    words = true_words(sheet, truth)
    for position, word in enumerate(words):
        question = sheet.questions[position]
        assert view.page.locator("#option").text_content() == NAMES[question.label or 0]
        assert view.page.locator("#text").text_content() == question.text
        view.page.keyboard.press("n" if word == "yes" else "y")  # a slip, taken back
        view.page.keyboard.press("z")
        view.page.keyboard.press(word[0])
        if position == len(words) // 2:
            view.reload()
    view.page.locator("#annotator").fill("ann")
    answers = audit.read(sheet, saved(view, tmp_path / "answers.json"))
    assert answers.counts()["judged"] == len(plan)
    top, observed, _ = universe()
    measured = answers.judgements(plan)
    right = audit.from_pairs(plan, truth.toarray()[plan.rows, plan.labels])
    estimates = [
        evaluate(top, observed, metrics=["P@5"], audit=each)["P@5", "measured"].value
        for each in (measured, right)
    ]
    assert estimates[0] == estimates[1]
    assert view.complaints == []


def test_rows_judged_by_typing_give_the_labels_of_the_truth(show: Show, tmp_path: Path) -> None:
    plan, sheet, truth = asked("rows", budget=6)
    view = show(report.write_questionnaire(judging.questionnaire(sheet), tmp_path / "judge.html"))
    for numbers in true_numbers(sheet, truth):
        view.page.locator("#query").focus()
        for number in numbers:
            view.page.keyboard.type(NAMES[number])
            view.page.keyboard.press("Enter")
        view.page.keyboard.press("Control+Enter")
    assert view.page.locator("#finished").is_visible()
    judged = audit.read(sheet, saved(view, tmp_path / "ann.json")).judgements(plan)
    assert (judged.true_labels != truth[plan.rows]).nnz == 0


EVIL = ["</script><script>document.title='broken'</script>", '"><img src=x onerror=alert(1)>',
        "=1+1", "\u202eevil", "a\x00b\x07", "#3", "x|y", "'quoted'", "naïve"]  # fmt: skip


@pytest.mark.parametrize("unit", ["rows", "pairs"])
def test_hostile_names_come_back_as_answers_to_the_same_questions(
    show: Show, tmp_path: Path, unit: str
) -> None:
    top, observed, _ = universe()
    plan = audit.plan(top, observed, budget=6, unit=unit, seed=1)
    ids = [EVIL[i % len(EVIL)] + str(i) for i in range(plan.sample.shape[0])]
    sheet = audit.sheet(plan, ids=ids, label_names=EVIL, texts=ids)
    view = show(report.write_questionnaire(judging.questionnaire(sheet), tmp_path / "judge.html"))
    for _ in sheet.questions:
        if unit == "rows":
            view.page.locator("#choices input").nth(0).check()
            view.page.locator("#choices input").nth(5).check()
        view.page.locator("[data-answer]").first.click()
    answers = audit.read(sheet, saved(view, tmp_path / "ann.json")).by_annotator["ann"]
    expected = audit.Answer("complete", (0, 5)) if unit == "rows" else audit.Answer("yes")
    assert answers == dict.fromkeys(range(len(plan)), expected)
    assert view.page.title() != "broken"
    assert view.complaints == []
