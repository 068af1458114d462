"""Pages as data: what is no part, cell or table is refused in a sentence."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from unmask import report
from unmask.report import (
    Chart,
    Column,
    Estimate,
    Page,
    Panels,
    Section,
    Series,
    Table,
    Text,
    Verdict,
)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Table([], []), "columns with different names"),
        (lambda: Table(["a", "a"], []), "columns with different names"),
        (lambda: Table(["a"], [[1, 2]], "T"), "row 0 of table 'T' has 2 cells for 1 columns"),
        (lambda: Column("a", "%d"), "which numbers do not take"),
        (lambda: Estimate(1, low=0), "has low and high, or an error"),
        (lambda: Estimate(1, 0, 2, 3), "has low and high, or an error"),
        (lambda: Estimate(1, 2, 0), "low must not exceed high"),
        (lambda: Verdict("bad", "x"), "unknown level of a verdict 'bad'"),
        (lambda: Verdict("good", ""), "needs words"),
        (lambda: report.Verdicts(["x"]), "verdicts must be Verdict"),
        (lambda: report.Facts([("a", 1, 2)]), "pairs of a name and a value"),
        (lambda: report.Commands("unmask demo"), "list of lines"),
        (lambda: Section("", []), "needs a title"),
        (lambda: Section("s", ["text"]), "part 0 of section 's' is 'text'; use one of: Text"),
        (lambda: Page(" "), "needs a title"),
        (lambda: Page("t", summary="text"), "list of sentences"),
        (lambda: Page("t", sections=["s"]), "sections of a page must be Section"),
    ],
)
def test_what_is_no_page_is_refused_in_a_sentence(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        make()
    assert str(caught.value).endswith(".")


def test_a_page_knows_its_drawings_in_order() -> None:
    first = Chart("dots", [Series("a", ["x"], [1.0])], title="first")
    second = Panels([first, first], title="second")
    sections = [Section("one", [Text("t"), first]), Section("two", [Table(["a"], []), second])]
    assert Page("t", sections=sections).drawings == (first, second)


def test_what_a_page_holds_cannot_change_with_the_callers_lists() -> None:
    parts, sections, summary = [Text("one")], [Section("S", [Text("two")])], ["It holds."]
    section, page = Section("T", parts), Page("P", summary, sections)
    columns, cells = ["a", "b"], [[1, 2]]
    table = Table(columns, cells)
    verdicts = [Verdict("good", "x")]
    listed = report.Verdicts(verdicts)
    for each in (parts, sections, summary, columns, cells, verdicts):
        each.clear()
    assert (section.parts, page.summary) == ((Text("one"),), ("It holds.",))
    assert [each.title for each in page.sections] == ["S"]
    assert [head.name for head in table.heads] == ["a", "b"]
    assert (table.rows, listed.verdicts) == (((1, 2),), (Verdict("good", "x"),))


BELL = "a\x07b"
"""A character that no page can hold."""


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda: Table(["x"], [], BELL, BELL), ("title", "caption")),
        (lambda: report.Chart("dots", [report.Series("s", ["x"], [1.0])], BELL, caption=BELL),
         ("title", "caption")),
        (lambda: report.Series(BELL, ["x"], [1.0]), ("name",)),
        (lambda: report.Axis(BELL), ("label",)),
        (lambda: Section(BELL, []), ("title",)),
        (lambda: Page(BELL, footer=BELL), ("title", "footer")),
    ],
)  # fmt: skip
def test_characters_that_cannot_be_printed_are_marked(
    make: Callable[[], object], names: tuple[str, ...]
) -> None:
    part = make()
    for name in names:
        assert getattr(part, name) == "a\ufffdb"
