"""The questionnaire as a file: what it refuses, that data stay data, that it stays small."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.questionnaires import asked_about_all, asked_about_one
from unmask.report import Passage, Question, Questionnaire, render_questionnaire
from unmask.report.format import printable

BLOCK = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)


def embedded(questionnaire: Questionnaire) -> dict[str, object]:
    (block,) = BLOCK.findall(render_questionnaire(questionnaire))
    record = json.loads(block)
    assert isinstance(record, dict)
    return record


@pytest.mark.parametrize(
    ("questions", "words"),
    [
        ([], "at least one question"),
        ([Question("a", 0, 0), Question("a", 0, 1)], "'a' stands twice"),
        ([Question("a", 0, 0), Question("b", 0)], "all in every one"),
        ([Question("a", 1, 0)], "no passage 1"),
        ([Question("a", 0, 2)], "no option 2"),
        ([Question("a", 0, -1)], "no option -1"),
    ],
)
def test_what_cannot_be_asked_is_refused(questions: list[Question], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Questionnaire("t", "k", [Passage("p")], ["x", "y"], questions, "?")


@given(st.text(), st.text(), st.text())
def test_any_text_comes_back_from_the_page_as_it_was(name: str, text: str, option: str) -> None:
    asked = Questionnaire("t", "k", [Passage(name, text)], [option], [Question("a", 0, 0)], "?")
    record = embedded(asked)
    assert record["passages"] == [[printable(name), printable(text)]]
    assert record["options"] == [printable(option)]


@pytest.mark.parametrize("evil", ["</script><script>alert(1)</script>", "<!--<script>", "]]>&lt;"])
def test_nothing_in_the_data_ends_or_opens_an_element(evil: str) -> None:
    asked = Questionnaire(
        evil, "k", [Passage(evil, evil)], [evil], [Question("a", 0, 0, evil)], evil, notes=[evil]
    )
    page = render_questionnaire(asked)
    assert page.count("<script") == page.count("</script>") == 2
    assert evil not in page
    assert embedded(asked)["options"] == [evil]


def test_two_thousand_questions_weigh_little_beside_their_texts() -> None:
    passages = [Passage(f"row {i}", "x" * 200) for i in range(1000)]
    questions = [Question(f"r{i}_l{j}", i, j) for i in range(1000) for j in range(2)]
    asked = Questionnaire("t", "k", passages, ["cat", "dog"], questions, "?")
    assert len(render_questionnaire(asked).encode()) < 200 * 1000 + 130_000


def test_too_large_a_page_is_refused() -> None:
    asked = Questionnaire(
        "t", "k", [Passage("a", "x" * 20_000_000)], ["cat"], [Question("a", 0, 0)], "?"
    )
    with pytest.raises(ValueError, match="shorter texts"):
        render_questionnaire(asked)


def test_the_same_questions_give_the_same_bytes_and_only_their_own_controls() -> None:
    one, several = asked_about_one(), asked_about_all()
    assert render_questionnaire(one) == render_questionnaire(asked_about_one())
    assert 'id="query"' not in render_questionnaire(one)
    assert 'data-answer="yes"' not in render_questionnaire(several)
