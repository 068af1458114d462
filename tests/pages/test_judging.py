"""The judging page in a real browser: answered by keyboard, kept, undone, saved, estimated from."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.audits import NAMES, asked, true_numbers, true_words, universe
from tests.helpers.browser import View, needs_chromium
from tests.helpers.sheets import pairs_sheet, rows_sheet
from unmask import audit, evaluate
from unmask.audit import Question, Sheet
from unmask.pages import write_judging

pytestmark = needs_chromium

Show = Callable[..., View]


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_judging(pairs_sheet(), tmp_path_factory.mktemp("one") / "judge.html")


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_judging(rows_sheet(), tmp_path_factory.mktemp("all") / "judge.html")


def text(view: View, name: str) -> str:
    return str(view.page.locator(f"#{name}").text_content())


def press(view: View, *keys: str) -> None:
    for key in keys:
        view.page.keyboard.press(key)


def saved(view: View) -> tuple[str, dict[str, Any]]:
    """The name and the content of the file that the button saves."""
    with view.page.expect_download() as download:
        view.page.locator("#save").click()
    record = json.loads(Path(download.value.path()).read_text(encoding="utf-8"))
    assert isinstance(record, dict)
    return download.value.suggested_filename, record


def answers(view: View) -> dict[str, str]:
    return {entry["question"]: entry["answer"] for entry in saved(view)[1]["answers"]}


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_complained_of_loaded_or_cut_off(
    show: Show, one: Path, several: Path, dark: bool, width: int
) -> None:
    for file in (one, several):
        view = show(file, dark=dark, width=width)
        background = view.run("getComputedStyle(document.body).backgroundColor")
        assert background == ("rgb(18, 22, 28)" if dark else "rgb(255, 255, 255)")
        assert view.run("document.documentElement.scrollWidth") <= width
        assert view.complaints == []
        assert [url for url in view.requests if not url.startswith("data:")] == [file.as_uri()]


def test_judged_through_by_keyboard_with_a_reload_and_an_undo(show: Show, one: Path) -> None:
    view = show(one)
    press(view, "y", "n", "u", "s")
    assert text(view, "count") == "3 of 8 judged, 1 unsure, 1 skipped"
    view.reload()
    assert text(view, "count") == "3 of 8 judged, 1 unsure, 1 skipped"
    assert (text(view, "place"), text(view, "name"), text(view, "option")) == (
        "5 of 8", "doc-2", "cat",
    )  # fmt: skip
    press(view, "y", "z", "z")  # the undo reaches back before the reload
    assert (text(view, "place"), text(view, "option")) == ("4 of 8", "dog")
    press(view, "n", "n", "y", "s", "y")
    assert text(view, "finished-words").startswith("7 of 8 judged, 1 unsure, 1 skipped")
    view.page.locator("#again").click()
    assert text(view, "place") == "7 of 8"
    press(view, "n")
    assert view.page.locator("#finished").is_visible()
    view.page.locator("#annotator").fill("Zoë / 1")
    name, record = saved(view)
    assert name == "answers-Zoe-1.json"
    assert {key: record[key] for key in ("kind", "key", "annotator")} == {
        "kind": "answers", "key": "key-one", "annotator": "Zoë / 1",
    }  # fmt: skip
    words = ["yes", "no", "unsure", "no", "no", "yes", "no", "yes"]
    expected = [
        {"question": f"r{i}_l{j}", "row": f"doc-{i}", "label": ("cat", "dog")[j]}
        for i in range(4) for j in range(2)
    ]  # fmt: skip
    assert record["answers"] == [
        {**entry, "answer": word} for entry, word in zip(expected, words, strict=True)
    ]
    assert text(view, "unsaved") == "All answers are in the file."


def test_an_answer_can_be_looked_at_again_and_changed(show: Show, one: Path) -> None:
    view = show(one)
    press(view, "y", "ArrowLeft")
    pressed = "document.querySelector('[aria-pressed=true]')?.dataset.answer"
    assert view.run(pressed) == "yes"
    press(view, "n", "ArrowLeft")
    assert view.run(pressed) == "no"
    assert answers(view) == {"r0_l0": "no"}


def test_keys_answer_only_where_no_text_is_typed_and_can_be_switched_off(
    show: Show, one: Path
) -> None:
    view = show(one)
    view.page.locator("#annotator").press_sequentially("yuzns")
    assert text(view, "count") == "0 of 8 judged"
    view.page.locator("summary").click()
    view.page.locator("#shortcuts").uncheck()
    view.page.locator("h1").click()
    press(view, "y")
    assert text(view, "count") == "0 of 8 judged"
    view.page.locator("[data-answer=yes]").focus()
    press(view, "Enter", "Space")
    assert answers(view) == {"r0_l0": "yes", "r0_l1": "yes"}, "buttons still answer"


def test_all_labels_of_a_row_by_typing(show: Show, several: Path) -> None:
    view = show(several)
    press(view, "/")
    view.page.keyboard.type("cat")
    shown = view.page.locator("#choices bdi").all_text_contents()
    assert shown == ["cat", "wild cat"], "the exact name first"
    press(view, "Enter")
    view.page.keyboard.type("CAFE")
    press(view, "Enter")
    view.page.keyboard.type("thing 19")
    hits = sum("19" in str(i) for i in range(3, 2000))
    assert text(view, "matches").startswith(f"{hits} of 2,000 labels match, the first 60 are")
    press(view, "ArrowDown", "ArrowDown", "Space")
    assert text(view, "chosen-title") == "Chosen: 3"
    view.page.locator("#query").fill("")
    view.page.locator("#query").focus()
    press(view, "Backspace")
    assert view.page.locator("#chosen bdi").all_text_contents() == ["cat", "Café"]
    assert text(view, "count") == "0 of 4 judged", "begun, not complete"
    view.reload()
    press(view, "Control+Enter")
    assert text(view, "place") == "2 of 4"
    assert text(view, "complete-words") == "None applies"
    press(view, "Control+Enter", "u", "/")
    view.page.keyboard.type("thing 7")
    press(view, "Enter")
    _, record = saved(view)
    assert record["answers"] == [
        {"question": "r0", "row": "doc-0", "labels": [1, 0], "names": ["cat", "Café"],
         "complete": True},
        {"question": "r1", "row": "doc-1", "labels": [], "names": [], "complete": True},
        {"question": "r2", "row": "doc-2", "labels": [], "names": [], "complete": False,
         "answer": "unsure"},
        {"question": "r3", "row": "doc-3", "labels": [7], "names": ["thing 7"], "complete": False},
    ]  # fmt: skip


def test_labels_that_are_not_in_the_list_are_typed(show: Show, several: Path) -> None:
    view = show(several)
    other = view.page.locator("#other")
    other.fill("  big   cat ")
    view.page.locator("#add").click()
    other.fill("BIG CAT")
    press(view, "Enter")
    other.fill("CAFE")  # which is in the list
    press(view, "Enter")
    assert view.page.locator("#chosen bdi").all_text_contents() == ["Café", "big cat"]
    assert text(view, "chosen-title") == "Chosen: 2"
    view.page.locator("#query").fill("thing 7")
    press(view, "Enter")
    view.reload()
    other.fill("fox")
    press(view, "Control+Enter")  # what is typed and not added yet is meant, too
    other.fill("seen and left")
    press(view, "Control+Enter")
    view.page.locator("#previous").click()
    view.page.get_by_role("button", name="Remove seen and left").click()
    _, record = saved(view)
    assert record["answers"] == [
        {"question": "r0", "row": "doc-0", "labels": [0, 7], "names": ["Café", "thing 7"],
         "others": ["big cat", "fox"], "complete": True},
        {"question": "r1", "row": "doc-1", "labels": [], "names": [], "complete": False},
    ]  # fmt: skip


def test_undo_takes_back_a_chosen_label_and_a_complete_row(show: Show, several: Path) -> None:
    view = show(several)
    press(view, "/")
    view.page.keyboard.type("cat")
    press(view, "Enter", "Control+Enter")
    assert text(view, "place") == "2 of 4"
    view.page.locator("#undo").click()
    assert (text(view, "place"), text(view, "chosen-title")) == ("1 of 4", "Chosen: 1")
    view.page.locator("#undo").click()
    assert text(view, "chosen-title") == "Chosen: none"
    assert view.page.locator("#undo").is_disabled()


def test_a_saved_file_goes_on_elsewhere_and_only_with_its_own_questions(
    show: Show, one: Path, several: Path, tmp_path: Path
) -> None:
    view = show(one)
    press(view, "y", "n")
    _, record = saved(view)
    file = tmp_path / "answers.json"
    file.write_text(json.dumps(record))
    other = show(one)
    press(other, "u")  # what is answered here already stays
    other.page.locator("#open").set_input_files(file)
    other.page.wait_for_function("document.getElementById('count').textContent.startsWith('2 of')")
    assert answers(other) == {"r0_l0": "unsure", "r0_l1": "no"}
    assert text(other, "place") == "3 of 8"
    wrong = show(several)
    wrong.page.locator("#open").set_input_files(file)
    wrong.page.wait_for_selector("#trouble:not([hidden])")
    assert text(wrong, "trouble") == "That file belongs to other questions."


def test_damaged_storage_is_left_behind_and_full_storage_is_said(show: Show, one: Path) -> None:
    view = show(one)
    damage = {"answers": {"r0_l0": {"answer": "perhaps"}, "gone": {"answer": "yes"},
              "r0_l1": {"answer": "no"}}, "history": [["x"], 3], "position": 10**9}  # fmt: skip
    view.page.evaluate("value => localStorage.setItem('unmask:key-one', value)", json.dumps(damage))
    view.reload()
    stored = view.run("localStorage.getItem('unmask:key-one')")
    assert json.loads(stored) == damage, "loading the page does not write over what is kept"
    assert answers(view) == {"r0_l1": "no"}
    view.run("void (Storage.prototype.setItem = () => { throw new Error('full') })")
    press(view, "y")
    assert "save them to a file" in text(view, "trouble")
    assert view.complaints == []


def test_screen_readers_get_names_and_hear_what_happens(
    show: Show, one: Path, several: Path
) -> None:
    for file in (one, several):
        nodes = show(file).accessible_nodes()
        roles = {role for role, _ in nodes}
        assert {"main", "navigation", "heading", "button", "progressbar"} <= roles
        for named in ("button", "textbox", "searchbox", "checkbox", "region", "heading"):
            assert all(name.strip() for role, name in nodes if role == named), named
    view = show(one)
    press(view, "y")
    assert text(view, "said") == "Yes. Question 2 of 8, row doc-0. label dog."
    assert view.run("document.getElementById('said').getAttribute('aria-live')") == "polite"


def test_the_focus_goes_through_the_question_in_reading_order(show: Show, one: Path) -> None:
    view = show(one)
    order = []
    for _ in range(9):
        press(view, "Tab")
        order.append(view.run("document.activeElement.id || document.activeElement.dataset.answer"
                              " || document.activeElement.className"))  # fmt: skip
    assert order == ["skip", "text", "yes", "no", "unsure", "skip", "next", "annotator", "save"]


EVIL = [
    "<img src=x onerror=document.title='broken'>",
    "</script><script>document.title='broken'</script>",
    "\"quotes' `and` ${ticks}",
    "\u202egnorw\u202c \u0000\u0007 שלום",
    "long" * 80,
]


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("unit", ["rows", "pairs"])
def test_data_stay_text(show: Show, tmp_path: Path, width: int, unit: str) -> None:
    questions = tuple(
        Question(i, i if unit == "pairs" else None, evil, evil, evil) for i, evil in enumerate(EVIL)
    )
    sheet = Sheet("evil</script>'\"", unit, questions, tuple(EVIL))
    view = show(write_judging(sheet, tmp_path / "evil.html", title="safe"), width=width)
    for _ in EVIL:
        assert view.run("document.documentElement.scrollWidth") <= width
        press(view, "ArrowRight")
    press(view, "ArrowLeft", "u")
    view.reload()
    assert view.page.title() == "safe"
    assert view.page.locator("img").count() == 0
    assert view.page.locator("script").count() == 2, "only our own"
    assert view.complaints == []
    record = saved(view)[1]
    assert record["key"] == sheet.key
    assert record["answers"][0]["row"] == EVIL[-1]


# --------------------------------------------------------------------- from answers to estimates


def answers_of(view: View, sheet: Sheet, path: Path) -> audit.Answers:
    with view.page.expect_download() as download:
        view.page.locator("#save").click()
    download.value.save_as(path)
    return audit.read(sheet, path)


def test_pairs_judged_by_keyboard_give_the_number_of_the_truth(show: Show, tmp_path: Path) -> None:
    plan, sheet, truth = asked("pairs")
    view = show(write_judging(sheet, tmp_path / "judge.html"))
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
    answers = answers_of(view, sheet, tmp_path / "answers.json")
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
    view = show(write_judging(sheet, tmp_path / "judge.html"))
    for numbers in true_numbers(sheet, truth):
        view.page.locator("#query").focus()
        for number in numbers:
            view.page.keyboard.type(NAMES[number])
            view.page.keyboard.press("Enter")
        view.page.keyboard.press("Control+Enter")
    assert view.page.locator("#finished").is_visible()
    judged = answers_of(view, sheet, tmp_path / "ann.json").judgements(plan)
    assert (judged.true_labels != truth[plan.rows]).nnz == 0


HOSTILE = ["</script><script>document.title='broken'</script>", '"><img src=x onerror=alert(1)>',
        "=1+1", "\u202eevil", "a\x00b\x07", "#3", "x|y", "'quoted'", "naïve"]  # fmt: skip


@pytest.mark.parametrize("unit", ["rows", "pairs"])
def test_hostile_names_come_back_as_answers_to_the_same_questions(
    show: Show, tmp_path: Path, unit: str
) -> None:
    top, observed, _ = universe()
    plan = audit.plan(top, observed, budget=6, unit=unit, seed=1)
    ids = [HOSTILE[i % len(HOSTILE)] + str(i) for i in range(plan.sample.shape[0])]
    sheet = audit.sheet(plan, ids=ids, label_names=HOSTILE, texts=ids)
    view = show(write_judging(sheet, tmp_path / "judge.html"))
    for _ in sheet.questions:
        if unit == "rows":
            view.page.locator("#choices input").nth(0).check()
            view.page.locator("#choices input").nth(5).check()
        view.page.locator("[data-answer]").first.click()
    answers = answers_of(view, sheet, tmp_path / "ann.json").by_annotator["ann"]
    expected = audit.Answer("complete", (0, 5)) if unit == "rows" else audit.Answer("yes")
    assert answers == dict.fromkeys(range(len(plan)), expected)
    assert view.page.title() != "broken"
    assert view.complaints == []
