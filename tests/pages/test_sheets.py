"""The judging page as a file: data stay data, and it stays small."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.sheets import pairs_sheet, rows_sheet
from unmask._text import printable
from unmask.audit import Question, Sheet
from unmask.pages.judging import render_judging

BLOCK = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)


def embedded(sheet: Sheet) -> dict[str, Any]:
    (block,) = BLOCK.findall(render_judging(sheet))
    record = json.loads(block)
    assert isinstance(record, dict)
    return record


@given(st.text(), st.text(), st.text())
def test_any_text_comes_back_from_the_page_as_it_was(name: str, text: str, label: str) -> None:
    record = embedded(Sheet("k", "pairs", (Question(0, 1, name, text),), ("unused", label)))
    assert record["passages"] == [[printable(name), printable(text)]]
    assert record["options"] == [printable(label)]
    assert record["questions"] == [["r0_l1", 0, 0, ""]]


def test_nothing_in_the_data_ends_or_opens_an_element() -> None:
    for evil in ("</script><script>alert(1)</script>", "<!--<script>", "]]>&lt;"):
        for unit, label in (("pairs", 0), ("rows", None)):
            sheet = Sheet(evil, unit, (Question(0, label, evil, evil, evil),), (evil,))
            page = render_judging(sheet, title=evil)
            assert page.count("<script") == page.count("</script>") == 2
            assert evil not in page
            assert embedded(sheet)["options"] == [evil]


def test_many_questions_weigh_little_beside_their_texts_and_too_many_are_refused() -> None:
    questions = tuple(
        Question(i, j, f"row {i}", "x" * 200) for i in range(1000) for j in range(2)
    )  # fmt: skip
    page = render_judging(Sheet("k", "pairs", questions, ("cat", "dog")))
    assert len(page.encode()) < 200 * 1000 + 130_000
    huge = Sheet("k", "pairs", (Question(0, 0, "a", "x" * 20_000_000),), ("cat",))
    with pytest.raises(ValueError, match=r"more than 20,000,000; .*shorten the texts"):
        render_judging(huge)


def test_the_same_questions_give_the_same_bytes_and_only_their_own_controls() -> None:
    pairs, rows = render_judging(pairs_sheet()), render_judging(rows_sheet())
    assert pairs == render_judging(pairs_sheet())
    assert 'id="query"' not in pairs
    assert 'data-answer="yes"' not in rows
    assert "<h1>Does the label apply?</h1>" in pairs
    assert "<h1>Which labels apply?</h1>" in rows
