"""Parts of pages as data: what is refused, styles that everyone can tell apart, words and rows."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.pages import ONE_OF_EACH, rich_page
from unmask import pages
from unmask.pages import (
    Axis,
    Chart,
    Commands,
    Estimate,
    Page,
    Panels,
    Rule,
    Section,
    Series,
    Table,
    Text,
    Verdict,
)
from unmask.pages.describe import alt_text, as_csv, cell_view, rows
from unmask.pages.parts import NOUNS, PALETTE, THEME, Column, Style, Verdicts, styles_of

ONE = Series("a", [1.0], [1.0])
REFUSED = [
    (lambda: Table([], []), "columns with different names"),
    (lambda: Table(["a", "a"], []), "columns with different names"),
    (lambda: Table(["a"], [[1, 2]], "T"), "row 0 of table 'T' has 2 cells for 1 columns"),
    (lambda: Estimate(1, low=0), "has low and high, or an error"),
    (lambda: Estimate(1, 0, 2, 3), "has low and high, or an error"),
    (lambda: Estimate(1, 2, 0), "low must not exceed high"),
    (lambda: Verdict("bad", "x"), "unknown level of a verdict 'bad'"),
    (lambda: Verdicts(["x"]), "verdicts must be Verdict"),
    (lambda: Section("", []), "needs a title"),
    (lambda: Section("s", ["text"]), "parts of section 's' must be Text, Facts"),
    (lambda: Page(" "), "needs a title"),
    (lambda: Page("t", summary="text"), "list of sentences"),
    (lambda: Page("t", sections=["s"]), "sections of a page must be Section"),
    (lambda: Chart("pie", [ONE]), "unknown kind of chart 'pie'; use one of: dots"),
    (lambda: Chart("lines", []), "needs series with different names"),
    (lambda: Chart("lines", [ONE, ONE]), "needs series with different names"),
    (lambda: Chart("lines", ["a"]), "series of a chart must be Series; got 'a'"),
    (lambda: Chart("lines", [Series("a", ["x"], [1])]), "needs one number x per y"),
    (lambda: Chart("lines", [Series("a", [1, 2], [1])]), "needs one number x per y"),
    (lambda: Chart("steps", [ONE]), r"n \+ 1 rising edges"),
    (lambda: Chart("steps", [Series("a", [1, 0], [1])]), r"n \+ 1 rising edges"),
    (lambda: Chart("dots", [Series("a", ["x", "x"], [1, 2])]), "each once"),
    (lambda: Chart("lines", [Series("a", [0], [1])], x=Axis("p", log=True)), "positive x"),
    (lambda: Chart("lines", [Series("a", [1], [-1])], y=Axis(log=True)), "no positive y"),
    (lambda: Chart("dots", [ONE], x=Axis(log=True)), "has no place there"),
    (lambda: Chart("dots", [ONE], rules=[Rule("a", 1, "x")]), "has no place there"),
    (lambda: Series("a", [1], []), "at least one y"),
    (lambda: Series("a", [1], [1], high=[2]), "as many low and high"),
    (lambda: Series("a", [1], [1], low=[0]), "as many low and high"),
    (lambda: Series("a", [1, 2], [1, 2], [0], [3]), "as many low and high"),
    (lambda: Series("a", [1], [1], [2], [1]), "low must not exceed high"),
    (lambda: Series("a", [1], ["one"]), "y of series 'a' must be numbers"),
    (lambda: Series("a", [1, float("inf")], [1, 2]), "x of series 'a' must be finite"),
    (lambda: Axis("p", low=1, high=0), "must run from low to high"),
    (lambda: Axis("p", low=0, log=True), "needs positive ends"),
    (lambda: Rule("a", float("nan")), "must lie at a finite number"),
    (lambda: Rule("a", 1, "z"), "unknown axis 'z'"),
    (lambda: Panels([]), "at least one chart"),
    (lambda: Panels([ONE_OF_EACH["dots"]], columns=9), "1 to 4 columns"),
    (lambda: Style("red"), "unknown color 'red'; use one of: blue"),
    (lambda: Style("blue", "blob"), "unknown marker 'blob'; use one of"),
]


def test_no_page_can_hold_what_it_could_not_show() -> None:
    for make, message in REFUSED:
        with pytest.raises(ValueError, match=message) as caught:
            make()
        assert str(caught.value).endswith(".")


def test_parts_do_not_change_with_the_callers_lists() -> None:
    y = np.array([1.0, 2.0])
    series = Series("a", [1, 2], y)
    y[0] = 9
    assert series == Series("a", (1.0, 2.0), [1, 2])
    parts, sections, summary = [Text("one")], [Section("S", [Text("two")])], ["It holds."]
    columns, cells, lines, verdicts = ["a", "b"], [[1, 2]], ["unmask"], [Verdict("good", "x")]
    section, page, table = Section("T", parts), Page("P", summary, sections), Table(columns, cells)
    commands, listed = Commands(lines), Verdicts(verdicts)
    for each in (parts, sections, summary, columns, cells, lines, verdicts):
        each.clear()
    assert (section.parts, page.summary) == ((Text("one"),), ("It holds.",))
    assert [each.title for each in page.sections] == ["S"]
    assert [head.name for head in table.heads] == ["a", "b"]
    assert (table.rows, commands.lines) == (((1, 2),), ("unmask",))
    assert listed.verdicts == (Verdict("good", "x"),)


def test_a_page_knows_its_drawings_in_order() -> None:
    first = Chart("dots", [Series("a", ["x"], [1.0])], title="first")
    second = Panels([first, first], title="second", columns=4)
    sections = [Section("one", [Text("t"), first]), Section("two", [Table(["a"], []), second])]
    assert Page("t", sections=sections).drawings == (first, second)
    assert (first.columns, second.columns) == (1, 2), "no more columns than charts"


# ------------------------------------------------------------------------------------- styles


def linear(color: str) -> np.ndarray:
    rgb = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def perceived(rgb: np.ndarray) -> np.ndarray:
    """OKLab (Ottosson 2020), in which equal distances look about equally different."""
    to_lms = [[0.41222, 0.53633, 0.05145], [0.21190, 0.68070, 0.10740], [0.08830, 0.28172, 0.62998]]
    to_lab = [[0.21045, 0.79362, -0.00407], [1.978, -2.42859, 0.45059], [0.0259, 0.78277, -0.80868]]
    return np.array(to_lab) @ np.cbrt(np.array(to_lms) @ np.clip(rgb, 0, 1))


EYES = [  # Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB, after all cones
    np.eye(3),
    [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]],
    [[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]],
    [[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]],
]


def test_colours_differ_for_all_eyes_and_stand_out_from_the_page() -> None:
    def contrast(a: str, b: str) -> float:
        dark, bright = sorted(linear(c) @ [0.2126, 0.7152, 0.0722] for c in (a, b))
        return float((bright + 0.05) / (dark + 0.05))

    for theme, eyes in itertools.product((0, 1), EYES):
        colors = [*(pair[theme] for pair in PALETTE.values()), THEME["ink"][theme]]
        perceptions = [perceived(np.array(eyes) @ linear(color)) for color in colors]
        closest = min(np.linalg.norm(a - b) for a, b in itertools.combinations(perceptions, 2))
        assert closest > 0.07  # a just noticeable difference is about 0.02
        for name, pair in PALETTE.items():
            assert contrast(pair[theme], THEME["paper"][theme]) >= 3, name
        for text, ground in itertools.product(("ink", "muted"), ("paper", "soft")):
            assert contrast(THEME[text][theme], THEME[ground][theme]) >= 4.5, (text, ground)


def assigned(*names: str, **chosen: Style) -> dict[str, Style]:
    series = [Series(name, [1], [1], style=chosen.get(name)) for name in dict.fromkeys(names)]
    return styles_of(Chart("lines", series))


def test_a_name_has_one_style_in_all_drawings() -> None:
    star = Style("green", "star", "dotted")
    styled = Chart("lines", [ONE, Series("mine", [1], [2], style=star)])
    by_rule = Chart("lines", [ONE], rules=[Rule("mine", 1.0, style=star)])
    without = Chart("dots", [Series("mine", ["x"], [1.0]), ONE])
    for drawings in ([styled], [by_rule], [Panels([without, styled])], [without, by_rule]):
        styles = styles_of(*drawings)
        assert styles["mine"] == star
        assert styles["a"].color != "green"
    charts = [Chart("lines", [Series("a", [1], [1], style=Style(c))]) for c in ("blue", "green")]
    with pytest.raises(ValueError, match=r"'a' has two styles, .*blue.* and .*green"):
        styles_of(*charts)


def test_strangers_get_free_styles_and_colours_that_nobody_chose_first() -> None:
    mine = Style("green", "star", "dotted")
    for names in (["mine"], ["a", "mine"], [*"abcdefghij", "mine"]):
        styles = assigned(*names, mine=mine)
        assert styles["mine"] == mine
        assert list(styles) == names
        assert len(set(styles.values())) == len(names)
    few = assigned(*"abcdefg", "mine", mine=mine)
    assert "green" not in {style.color for name, style in few.items() if name != "mine"}
    assert assigned("a", "b", "c")["b"] == assigned("a", "b")["b"]
    many = list(assigned(*(f"s{i}" for i in range(24))).values())
    assert "none" not in {style.marker for style in many}
    assert len({(style.marker, style.dash) for style in many}) == len(set(many)) == 24
    assert len(assigned(*(str(i) for i in range(99)))) == 99
    blue = assigned("mine", *(f"s{i}" for i in range(23)), mine=Style("blue", "circle"))
    colors = [style.color for style in blue.values()]
    assert "blue" not in colors[1:22]
    assert (colors[22:], len(set(blue.values()))) == (["blue", "blue"], 24)


# ---------------------------------------------------------------------------- cells, words, rows

CELLS = [
    (None, "", "–", "", "missing"),
    (float("nan"), ".2f", "–", "", "missing"),
    (np.float32(-0.5), ".2f", "−0.50", "", "-0.5"),
    (float("inf"), ".2f", "∞", "", "inf"),
    (1234567, "", "1,234,567", "", "1234567.0"),
    (-0.0, "", "0", "", "-0.0"),
    (True, "", "yes", "", "1.0"),
    ("text", ".2f", "text", "", ""),
    (Estimate(0.5, 0.25, 0.75), ".1%", "50.0%", "[25.0%, 75.0%]", "0.5"),
    (Estimate(2, error=0.5), "", "2", "± 0.5", "2.0"),
    (Estimate(None), "", "–", "", "missing"),
    (Verdict("error", "does not hold"), "", "does not hold", "", "3"),
]


def test_cells_as_text() -> None:
    for cell, spec, text, spread, sort in CELLS:
        view = cell_view(cell, spec)
        assert (view.text, view.spread, view.sort) == (text, spread, sort)


def test_rows_hold_every_number_and_come_back_from_csv_and_json(tmp_path: Path) -> None:
    assert rows(ONE_OF_EACH["steps"]) == [
        {"series": "a", "x": 0.0, "x_end": 0.1, "y": 5.0},
        {"series": "a", "x": 0.1, "x_end": 1.0, "y": 7.0},
        {"series": "a", "x": 0.3, "x_end": None, "y": None},
    ]
    second = {"series": "a", "x": 2.0, "y": None, "low": 1.0, "high": 3.0}
    assert rows(ONE_OF_EACH["lines"])[1] == second
    for kind in NOUNS:
        part = Panels([ONE_OF_EACH[kind]], title="p")
        assert json.loads(pages.save(part, tmp_path / "c.json").read_text()) == rows(part)
        with open(pages.save(part, tmp_path / "c.csv"), newline="") as file:
            for back, row in zip(csv.DictReader(file), rows(part), strict=True):
                for name, value in row.items():
                    assert back[name] == ("" if value is None else str(value))


def test_estimates_spread_over_columns_beside_their_own() -> None:
    cells = [["a", None, 1], ["b", Estimate(0.5, 0.4, 0.6), np.int64(2)],
             ["c", Estimate(1, error=2), 3]]  # fmt: skip
    first, second, _ = rows(Table(["name", "R", "n"], cells))
    assert list(first) == ["name", "R", "R low", "R high", "R error", "n"]
    assert second == {"name": "b", "R": 0.5, "R low": 0.4, "R high": 0.6, "R error": None, "n": 2}
    assert type(second["n"]) is int
    with pytest.raises(ValueError, match="two columns would be called 'R low'"):
        rows(Table(["R", "R low"], [[Estimate(1, 0, 2), 3]]))
    assert as_csv(Table(["a", "b"], [])) == "a,b\n"
    header, cell = next(csv.reader(io.StringIO(as_csv(Table([Column("=1")], [])))))[0], "=2"
    assert (header, as_csv(Table(["x"], [[cell]]))) == ("'=1", "x\n'=2\n")
    for value, plain in [(True, True), (np.True_, True), (np.int32(3), 3), (np.float32(0.5), 0.5),
                         (np.nan, None), (-np.inf, None), ("a\x07", "a\ufffd")]:  # fmt: skip
        (row,) = rows(Table(["a"], [[value]]))
        assert row == {"a": plain}
        assert type(row["a"]) is type(plain)


ALT_TEXTS = [
    (Chart("lines", [Series("a", [1, 2, 3], [0.5, 0.9, 0.7])], x="p", y="R"),
     "Line chart of R over p: a. It goes from 0.5 at 1 to 0.7 at 3, between 0.5 and 0.9."),
    (Chart("lines", [Series("flat", [1, 2], [3, 3]), Series("steep", [1, 2], [3, 9])]),
     "Line chart of values: flat, steep. Series steep goes from 3 at 1 to 9 at 2."),
    (Chart("lines", [Series("flat", [1, 2], [3, 3])], title="Loss"),
     "Line chart of Loss: flat. It stays at 3."),
    (Chart("dots", [Series("a", ["a"], [2]), Series("b", ["b"], [1])], y=Axis("R@5"),
           rules=[Rule("truth", 1.5)]),
     "Dot plot of R@5: a, b; dashed: truth at 1.5. The lowest value is 1 (b), the highest 2 (a)."),
    (Chart("dots", [Series("a", ["x", "y"], [-2, None])]),
     "Dot plot of values: a. All values are −2."),
    (Chart("lines", [Series("gone", [1, 2], [None, None])]),
     "Line chart of values: gone. There are no values to show."),
    (Panels([Chart("lines", [Series("gone", [1], [None])], title="empty", y="R"),
             Chart("lines", [Series("a", [1, 2], [3, 4])], title="full", y="R",
                   rules=[Rule("truth", 1.5)])]),
     "2 line charts of R: gone, a; dashed: truth. In full, it goes from 3 at 1 to 4 at 2."),
    (Panels([Chart("steps", [Series("a", [0, 1], [1])], title="one"),
             Chart("dots", [Series("a", ["x"], [5])], title="two")]),
     "2 charts of one, two: a. In one, all values are 1."),
]  # fmt: skip


def test_alt_texts_say_what_is_drawn_and_the_main_finding_in_two_sentences() -> None:
    for drawing, text in ALT_TEXTS:
        assert alt_text(drawing) == text
    many = [Series(f"series {i}", range(50), np.arange(50) * i) for i in range(40)]
    full = Panels([Chart("lines", many, title=f"panel {i}") for i in range(12)])
    assert "series 5, 34 more" in alt_text(full)
    drawn = (each for drawing in rich_page().drawings for each in (drawing, *drawing.charts))
    for each in (full, *drawn):
        text = alt_text(each)
        assert len(re.split(r"(?<=\.) (?=[A-Z])", text)) == 2, text
        assert text.endswith(".")
        assert len(text) < 400
