"""Answers come back as they were given, from every format; what cannot be meant is refused.

Agreement figures against scikit-learn and a published example.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score, f1_score

from tests.helpers.audits import NAMES, asked, csv_of, true_numbers, true_words, universe
from unmask import audit
from unmask.audit import Answer, Question, Sheet
from unmask.audit.answers import agreement, fleiss_kappa

PAIRS = Sheet(
    "k", "pairs", (Question(3, 0, "doc 3"), Question(3, 1, "doc 3"), Question(7, 1, "doc 7")),
    ("cat", "dog"),
)  # fmt: skip
ROWS = Sheet("k", "rows", (Question(3, None, "doc 3"), Question(7, None, "doc 7")),
             ("cat", "#0", "dog", "twice", "twice"))  # fmt: skip


def saved(tmp_path: Path, content: Any, name: str = "ann.json") -> Path:
    file = tmp_path / name
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def words(answers: audit.Answers, annotator: str) -> dict[str, Answer]:
    said = answers.by_annotator[annotator]
    return {answers.sheet.questions[i].id: answer for i, answer in said.items()}


def page_of(entries: list[dict[str, Any]], annotator: str = "ann") -> dict[str, Any]:
    return {"kind": "answers", "key": "k", "annotator": annotator, "answers": entries}


# Formats


def test_a_filled_in_spreadsheet(tmp_path: Path) -> None:
    _, sheet, truth = asked("pairs")
    (file,) = audit.write_sheet(sheet, tmp_path / "ann.csv")
    with open(file, newline="") as source:
        lines = list(csv.DictReader(source))
    right = true_words(sheet, truth)
    for line, word in zip(lines, right, strict=True):
        line["answer"] = word.upper()
    lines[3]["answer"], lines[4]["answer"] = "", "?"
    with open(file, "w", newline="", encoding="utf-8-sig") as target:
        writer = csv.DictWriter(target, lines[0], delimiter=";")  # as other countries save it
        writer.writeheader()
        writer.writerows(lines[::-1])
    answers = audit.read(sheet, file).by_annotator["ann"]
    assert len(answers) == len(right) - 1
    assert answers[4] == Answer("unsure")
    assert all(answers[i].word == right[i] for i in answers if i != 4)


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (True, "yes"), (1, "yes"), ("1", "yes"), ("TRUE", "yes"), (" y ", "yes"),
        (False, "no"), (0, "no"), ("0", "no"), ("false", "no"), ("N", "no"),
        ("?", "unsure"), ("u", "unsure"), ("s", "skip"), (None, None), ("", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("format", ["page", "jsonl"])
def test_answers_may_be_words_numbers_or_truth_values(
    tmp_path: Path, format: str, value: object, word: str | None
) -> None:
    entries = [{"question": "r3_l0", "answer": value}, {"question": "r7_l1", "answer": "yes"}]
    lines = "\n".join(map(json.dumps, entries))
    file = saved(tmp_path, *((page_of(entries),) if format == "page" else (lines, "ann.jsonl")))
    expected = {"r7_l1": Answer("yes")} | ({"r3_l0": Answer(word)} if word else {})
    assert words(audit.read(PAIRS, file), "ann") == expected


@pytest.mark.parametrize("complete", [None, "", False])
@pytest.mark.parametrize("labels", [None, "", []])
def test_rows_without_labels_that_are_not_complete_are_not_answered(
    tmp_path: Path, labels: object, complete: object
) -> None:
    entry = {"question": "r3", "answer": "", "labels": labels, "complete": complete}
    begun = {"question": "r7", "answer": None, "labels": ["cat"], "complete": complete}
    answers = words(audit.read(ROWS, saved(tmp_path, page_of([entry, begun]))), "ann")
    assert answers == {"r7": Answer("begun", (0,))}


@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_filled_in_sheets_of_rows(format: str, tmp_path: Path) -> None:
    plan, sheet, truth = asked("rows")
    file, *_ = audit.write_sheet(sheet, tmp_path / f"ann.{format}")
    numbers = true_numbers(sheet, truth)
    if format == "csv":
        with open(file, newline="") as source:
            lines = list(csv.DictReader(source))
        for line, own in zip(lines, numbers, strict=True):
            line |= {"labels": " | ".join(NAMES[j] for j in own), "complete": "yes"}
        with open(file, "w", newline="") as target:
            writer = csv.DictWriter(target, lines[0])
            writer.writeheader()
            writer.writerows(lines)
    else:
        records = [json.loads(line) for line in file.read_text().splitlines()]
        for record, own in zip(records, numbers, strict=True):
            record |= {"labels": own, "complete": True}
        file.write_text("\n".join(map(json.dumps, records)))
    judged = audit.read(sheet, file).judgements(plan)
    assert (judged.true_labels != truth[plan.rows]).nnz == 0


def test_the_export_of_label_studio(tmp_path: Path) -> None:
    def annotation(who: Any, word: str | None, cancelled: bool = False) -> dict[str, Any]:
        result = [] if word is None else [
            {"id": "x", "type": "choices", "from_name": "answer", "to_name": "text",
             "value": {"choices": [word]}, "origin": "manual"}
        ]  # fmt: skip
        return {"id": 1, "completed_by": who, "result": result, "was_cancelled": cancelled}

    tasks = [
        {"id": 11, "data": {"question": "r3_l0", "row": "doc 3", "label": "cat", "text": "t"},
         "annotations": [annotation({"id": 1, "email": "a@x.org"}, "yes"), annotation(2, "no")]},
        {"id": 12, "data": {"question": "r7_l1", "row": "doc 7", "label": "dog"},
         "annotations": [annotation(2, None, cancelled=True)]},
        {"id": 13, "data": {"question": "r3_l1"}, "annotations": []},
    ]  # fmt: skip
    answers = audit.read(PAIRS, saved(tmp_path, tasks))
    assert words(answers, "a@x.org") == {"r3_l0": Answer("yes")}
    assert words(answers, "2") == {"r3_l0": Answer("no"), "r7_l1": Answer("skip")}
    short = [{"question": "r3_l0", "answer": "yes", "annotator": 1, "id": 5, "lead_time": 2.0}]
    assert words(audit.read(PAIRS, saved(tmp_path, short)), "1") == {"r3_l0": Answer("yes")}


def test_rows_exported_by_label_studio(tmp_path: Path) -> None:
    result = [
        {"from_name": "labels", "type": "choices", "value": {"choices": ["#2", "#0"]}},
        {"from_name": "complete", "type": "choices", "value": {"choices": ["yes"]}},
    ]
    tasks = [{"data": {"question": "r3"}, "annotations": [{"completed_by": 1, "result": result}]}]
    plain = Sheet("k", "rows", ROWS.questions, ("cat", "cow", "dog"))
    answers = audit.read(plain, saved(tmp_path, tasks))
    assert words(answers, "1") == {"r3": Answer("complete", (0, 2))}


def test_the_export_of_argilla(tmp_path: Path) -> None:
    def record(name: str, **responses: list[dict[str, Any]]) -> dict[str, Any]:
        return {"id": name, "fields": {"row": "doc 3"}, "metadata": {}, "suggestions": {},
                "responses": responses, "vectors": {}, "_server_id": "u"}  # fmt: skip

    both = [{"value": "yes", "user_id": "u1"}, {"value": "no", "user_id": "u2"}]
    records = [
        record("r3_l0", answer=both),
        record("r3_l1", answer=[{"value": "no", "user_id": "u1", "status": "discarded"}]),
    ]  # fmt: skip
    answers = audit.read(PAIRS, saved(tmp_path, records))
    assert words(answers, "u1") == {"r3_l0": Answer("yes")}
    assert words(answers, "u2") == {"r3_l0": Answer("no")}
    rows = [record("r3", labels=[{"value": ["dog"], "user_id": "u1"}],
                   complete=[{"value": "yes", "user_id": "u1"}])]  # fmt: skip
    assert words(audit.read(ROWS, saved(tmp_path, rows)), "u1") == {"r3": Answer("complete", (2,))}


def test_rows_as_the_page_saves_them(tmp_path: Path) -> None:
    entries = [
        {"question": "r3", "row": "doc 3", "labels": [2, 0], "names": ["dog", "cat"],
         "complete": True},
        {"question": "r7", "row": "doc 7", "labels": [1], "names": ["#0"], "complete": False},
    ]  # fmt: skip
    answers = audit.read(ROWS, saved(tmp_path, page_of(entries)))
    assert words(answers, "ann") == {"r3": Answer("complete", (0, 2)), "r7": Answer("begun", (1,))}


# What cannot be meant


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("question,answer\nr9_l9,yes\n", "ann.csv, line 2: question 'r9_l9' was not asked"),
        (
            "question,answer\nr3_l0,yes\n\nr3_l0,yes\n",
            "line 4: 'ann' answers question 'r3_l0' a se",
        ),
        ("question,answer\nr3_l0,perhaps\n", "line 2: 'perhaps' is no answer; use one of yes, no,"),
        ("question,label,answer\nr3_l0,dog,yes\n", "is about label 'cat', but the file says 'dog'"),
        (
            "question,row,answer\nr3_l0,doc 7,no\n",
            "is about row 'doc 3', but the file says 'doc 7'",
        ),
        ("question,answer\nr3_l0,yes,no\n", "line 2: 3 cells in a table of 2 columns"),
        ("id,value\n1,2\n", "names no columns question and answer"),
        ('question,answer\n"r3_l0,yes\n', "line 2: unexpected end of data"),
        ("", "names no columns"),
    ],
)
def test_pairs_that_cannot_be_meant(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        audit.read(PAIRS, saved(tmp_path, text, "ann.csv"))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["bird"], "'bird' names no label"),
        (["twice"], "'twice' names no label, or more than one; use #number"),
        (["cat;dog"], r"use #number, and \| between labels"),
        ([5], r"there is no label '5'; labels are 0 … 4"),
        ([-1], "there is no label '-1'"),
        ([True], "there is no label 'True'"),
        (["cat", 0], "label 'cat' stands twice"),
        (["#0"], "'#0' is a name and a number of different labels"),
        ({"a": 1}, "labels must be a list"),
        (["x" * 60], f"'{'x' * 60}' names no label"),
        (["x" * 61], f"'{'x' * 60}…' names no label"),
    ],
)
def test_labels_that_cannot_be_meant(labels: Any, message: str, tmp_path: Path) -> None:
    entries = [{"question": "r3", "labels": labels, "complete": True}]
    with pytest.raises(ValueError, match=rf"ann.json, answer 1: .*{message}"):
        audit.read(ROWS, saved(tmp_path, page_of(entries)))


def test_files_of_something_else(tmp_path: Path) -> None:
    for content, message in [
        ({"kind": "evaluation"}, "holds no answers of a judging page"),
        ({**page_of([]), "key": "other"}, "answers the questions of another plan .key 'other'"),
        ([3], "entry 1: expected an object, got '3'"),
        ("{broken", "is not JSON"),
    ]:
        with pytest.raises(ValueError, match=message):
            audit.read(PAIRS, saved(tmp_path, content))


def test_the_same_answer_in_two_files_is_one_and_a_different_one_is_refused(tmp_path: Path) -> None:
    first = saved(tmp_path, page_of([{"question": "r3_l0", "answer": "yes"}]), "a.json")
    again = saved(tmp_path, page_of([{"question": "r3_l0", "answer": "yes"}]), "b.json")
    assert len(audit.read(PAIRS, first, again).by_annotator["ann"]) == 1
    other = saved(tmp_path, page_of([{"question": "r3_l0", "answer": "no"}]), "c.json")
    with pytest.raises(ValueError, match=r"c.json, answer 1: .* the other answer is at .*a.json"):
        audit.read(PAIRS, first, other)


# Several people


def test_the_majority_counts_a_split_is_undecided_and_the_adjudicator_decides(
    tmp_path: Path,
) -> None:
    plan, sheet, truth = asked("pairs")
    right = true_words(sheet, truth)
    flip = {"yes": "no", "no": "yes"}
    others = [flip[right[0]], flip[right[1]], "unsure", *right[3:]]
    said = {"ann": right, "bob": others, "eve": [right[0], "skip", *right[2:]]}
    files = [csv_of(sheet, each, tmp_path / f"{name}.csv") for name, each in said.items()]
    answers = audit.read(sheet, *files)
    first, second = answers.contradictions()
    assert (first.question, first.settled) == (sheet.questions[0].id, True)
    assert (second.question, second.settled) == (sheet.questions[1].id, False)
    assert second.answers == (("ann", right[1]), ("bob", others[1]))
    judged = answers.judgements(plan)
    expected = [word == "yes" and i != 1 for i, word in enumerate(right)]
    np.testing.assert_array_equal(judged.answers, expected)
    np.testing.assert_array_equal(judged.open_units, np.arange(20) == 1)
    assert (judged.unanswered, judged.decided.n_judged, judged.decided.unanswered) == (0, 19, 1)
    assert answers.counts() == {"asked": 20, "judged": 19, "unsure": 0, "skip": 0, "begun": 0,
                                "split": 1, "open": 0}  # fmt: skip
    decided = audit.read(sheet, *files, adjudicator="bob")
    assert decided.counts()["split"] == 0
    assert decided.judgements(plan).answers[0] == (others[0] == "yes")
    with pytest.raises(ValueError, match="'zoe' has not answered; answers are by 'ann', 'bob'"):
        audit.read(sheet, *files, adjudicator="zoe")


def test_agreement_on_rows_is_that_on_all_their_labels(tmp_path: Path) -> None:
    _, sheet, truth = asked("rows")
    numbers = true_numbers(sheet, truth)
    changed = [sorted({*own} ^ {0}) for own in numbers]
    files = [
        saved(tmp_path, {"kind": "answers", "key": sheet.key, "annotator": name, "answers": [
            {"question": q.id, "labels": own, "complete": True}
            for q, own in zip(sheet.questions, each, strict=True)]}, f"{name}.json")
        for name, each in (("ann", numbers), ("bob", changed))
    ]  # fmt: skip
    answers = audit.read(sheet, *files)
    (pair,) = answers.agreement().pairs
    assert pair.items == 20 * len(NAMES)
    assert pair.percent == pytest.approx(1 - 1 / len(NAMES))
    assert [c.label for c in answers.contradictions()] == [NAMES[0]] * 20
    assert answers.counts()["split"] == 20


def test_answers_are_stored_and_newer_ones_put_over_them(tmp_path: Path) -> None:
    old = audit.read(PAIRS, csv_of(PAIRS, ["yes", "no", "unsure"], tmp_path / "ann.csv"))
    stored = audit.Answers.from_dict(PAIRS, json.loads(json.dumps(old.to_dict())))
    assert stored == old
    newer = audit.read(PAIRS, csv_of(PAIRS, ["yes", "yes", ""], tmp_path / "ann.csv"))
    both, changed = stored.updated(newer)
    assert changed == 1
    assert [both.by_annotator["ann"][i].word for i in range(3)] == ["yes", "yes", "unsure"]
    with pytest.raises(ValueError, match="other questions"):
        audit.Answers.from_dict(Sheet("other", "pairs", (), ()), old.to_dict())


def test_answers_belong_to_their_plan_and_to_its_further_waves(tmp_path: Path) -> None:
    plan, sheet, truth = asked("pairs")
    answers = audit.read(sheet, csv_of(sheet, true_words(sheet, truth), tmp_path / "ann.csv"))
    top, observed, _ = universe()
    more = audit.extend(plan, top, observed, budget=10, seed=9)
    assert answers.judgements(more).n_judged == 20
    other = audit.plan(top, observed, budget=20, unit="pairs", seed=8)
    with pytest.raises(ValueError, match="another plan"):
        answers.judgements(other)


@pytest.mark.parametrize(
    ("votes", "labels"), [(1, set()), (2, set()), (3, {2}), (4, {2}), (5, {2})]
)
def test_of_five_people_three_are_most(votes: int, labels: set[int], tmp_path: Path) -> None:
    files = []
    for person in range(5):
        chosen = ["dog"] if person < votes else []
        entries = [{"question": "r3", "labels": chosen, "complete": True}]
        files.append(saved(tmp_path, page_of(entries, f"p{person}"), f"p{person}.json"))
    answers = audit.read(ROWS, *files)
    (decision,) = answers.decisions().values()
    assert decision == labels


def test_names_that_are_not_those_of_the_numbers_are_refused(tmp_path: Path) -> None:
    """As when the page of another list of labels saved them."""
    entry = {"question": "r3", "complete": True, "labels": [0, 2], "names": ["cat", "dog"]}
    answers = words(audit.read(ROWS, saved(tmp_path, page_of([entry]))), "ann")
    assert answers == {"r3": Answer("complete", (0, 2))}
    for names in (["dog", "cat"], ["cat"], ["cat", "dog", "dog"], [], "cat", ["cat", 2]):
        file = saved(tmp_path, page_of([{**entry, "names": names}]))
        with pytest.raises(ValueError, match=r"answer 1: labels \[0, 2\] are 'cat, dog' here"):
            audit.read(ROWS, file)


def test_labels_that_are_not_in_the_list_come_back_from_every_format(tmp_path: Path) -> None:
    plan, sheet, _ = asked("rows")
    others = [" big  cat ", "fox"]
    question = sheet.questions[0].id
    page = {"question": question, "labels": [1], "others": others, "complete": True}
    csv_lines = f"question,labels,others,complete\n{question},#1, big  cat | fox,yes\n"
    studio = [{"data": {"question": question}, "annotations": [{"completed_by": 1, "result": [
        {"from_name": "labels", "value": {"choices": ["#1"]}},
        {"from_name": "others", "value": {"text": others}},
        {"from_name": "complete", "value": {"choices": ["yes"]}},
    ]}]}]  # fmt: skip
    files = [
        saved(tmp_path, {**page_of([page]), "key": sheet.key}, "a.json"),
        saved(tmp_path, csv_lines, "b.csv"),
        saved(tmp_path, json.dumps(page) + "\n", "c.jsonl"),
        saved(tmp_path, studio, "d.json"),
    ]
    for file in files:
        ((said,),) = (own.values() for own in audit.read(sheet, file).by_annotator.values())
        assert said == Answer("complete", (1,), ("big cat", "fox"))
    both = audit.read(sheet, *files)
    assert audit.Answers.from_dict(sheet, json.loads(json.dumps(both.to_dict()))) == both
    for wrong, message in (([NAMES[1].upper()], "is in the list"), (["a", "A"], "stands twice"),
                           ([1], "must be a list of names")):  # fmt: skip
        file = saved(tmp_path, {**page_of([{**page, "others": wrong}]), "key": sheet.key}, "w.json")
        with pytest.raises(ValueError, match=message):
            audit.read(sheet, file)
    del plan


def test_people_agree_on_labels_that_are_not_in_the_list() -> None:
    """The same words but for capitals are one label; a vote decides on it as on any other."""
    plan, sheet, _ = asked("rows")
    listed = len(sheet.label_names)
    said = {
        "ann": {i: Answer("complete", (0,), ("Big cat",)) for i in range(20)},
        "bob": {0: Answer("complete", (0,), ("big  CAT",)), 1: Answer("complete", (0,), ("fox",))},
        "cem": {1: Answer("complete", (0,), ("fox", "big cat"))},
    }
    answers = audit.Answers(sheet, said)
    assert answers.names[listed:] == ("big cat", "fox")
    assert answers.decisions()[0] == {0, listed}
    assert answers.decisions()[1] == {0, listed, listed + 1}
    (split,) = answers.contradictions()
    assert (split.label, split.settled) == ("big cat, fox", True)
    judged = answers.judgements(plan)
    assert judged.unlisted == 2
    assert judged.true_labels.shape == (20, listed)
    assert judged.all_true_labels[:, listed:].sum() == 21


def test_two_annotators_against_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    first = rng.random(200) < 0.3
    second = first ^ (rng.random(200) < 0.15)
    answers = {
        "ann": {i: bool(v) for i, v in enumerate(first)},
        "bob": {i: bool(v) for i, v in enumerate(second)} | {999: True},
    }
    both = agreement(answers)
    (pair,) = both.pairs
    assert both.items == pair.items == 200, "what only one of them judged does not count"
    assert pair.percent == pytest.approx((first == second).mean())
    assert pair.kappa == pytest.approx(cohen_kappa_score(first, second))
    assert pair.positive == pytest.approx(f1_score(first, second))


def test_fleiss_of_the_published_example() -> None:
    """Fleiss (1971), ten subjects of fourteen raters as many textbooks have it: 0.210."""
    counts = [
        [0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1],
        [7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7],
    ]  # fmt: skip
    assert fleiss_kappa(counts) == pytest.approx(0.210, abs=5e-4)


def test_items_of_different_numbers_of_people_count_by_their_pairs() -> None:
    """By enumeration: two answers of an item drawn at random agree, mean over items."""
    items = {0: [1, 1, 0], 1: [0, 0], 2: [1, 0, 0, 0], 3: [1]}
    same = np.mean([
        np.mean([a == b for i, a in enumerate(votes) for j, b in enumerate(votes) if i != j])
        for votes in items.values() if len(votes) > 1
    ])  # fmt: skip
    pooled = [v for votes in items.values() if len(votes) > 1 for v in votes]
    chance = np.mean(pooled) ** 2 + (1 - np.mean(pooled)) ** 2
    people = {f"p{i}": {k: bool(v[i]) for k, v in items.items() if i < len(v)} for i in range(4)}
    assert agreement(people).fleiss == pytest.approx((same - chance) / (1 - chance))
    assert agreement(people).items == 3


def test_one_person_agrees_with_nobody() -> None:
    alone = agreement({"ann": {1: True}})
    assert (alone.pairs, alone.items) == ((), 0)
    assert np.isnan(alone.fleiss)


def test_two_answers_to_one_question_agree_or_not() -> None:
    assert fleiss_kappa([[1, 1]]) == -1
    assert fleiss_kappa([[2, 1], [1, 0]]) == pytest.approx((1 / 3 - 5 / 9) / (4 / 9))
    assert np.isnan(fleiss_kappa([[1, 0], [0, 1]]))
