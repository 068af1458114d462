"""Charts drawn: every mark is where the data say, and hard data are drawn without a warning."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.helpers.pages import ONE_OF_EACH
from unmask import pages
from unmask.pages import Axis, Chart, Panels, Rule, Series, drawing
from unmask.pages.parts import NOUNS, Note, Style, styles_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HARD = [
    Chart("lines", [Series("gone", [1, 2], [None, float("nan")])]),
    Chart("lines", [Series("a", [1], [2])], x=Axis(log=True), y=Axis(log=True)),
    Chart("lines", [Series("a", [1, 2], [-1, 1e-300])], y=Axis("loss", log=True)),
    Chart("lines", [Series("a", [0, 1e12], [1e-9, 1e9])]),
    Chart("lines", [Series("a", [1e-9, 1], [1.0, 1.2])], x=Axis(log=True), y=Axis(log=True)),
    Chart("dots", [Series("a" * 60, ["b" * 60], [None])]),
    Chart("dots", [Series("a", ["a"], [5], [4], [6])], y=Axis(low=0, high=1, log=False)),
    Chart("dots", [Series("a", ["a"], [5], [4], [60])], y=Axis(log=True)),
    Chart("steps", [Series("a", [0, 1, 2], [None, 3])], y=Axis(log=True)),
]


def test_hard_data_is_drawn_without_a_warning() -> None:
    for chart in HARD:
        (picture,) = drawing.pictures(chart, styles_of(chart))
        assert "<svg" in picture
        assert "nan" not in picture


def axes_with(chart: Chart) -> Axes:
    """The chart on axes of 6.4 inches."""
    from matplotlib.figure import Figure

    ax = Figure(figsize=(6.4, 4.8)).subplots()
    drawing.DRAW[chart.kind](ax, chart, styles_of(chart))
    return ax


def test_every_kind_is_drawn_and_tried_here() -> None:
    assert drawing.DRAW.keys() == ONE_OF_EACH.keys() == NOUNS.keys()


def test_lines_are_at_their_points_with_their_bands() -> None:
    ax = axes_with(ONE_OF_EACH["lines"])
    assert np.array_equal(ax.lines[0].get_xydata(), [[1, 1], [2, np.nan], [3, 3]], equal_nan=True)
    corners = {tuple(point) for point in ax.collections[0].get_paths()[0].vertices}
    assert {(1, 0), (3, 2), (1, 2), (3, 4)} <= corners
    assert ax.get_xlabel() == "n"


def test_lines_lie_above_their_bands_and_carry_a_dozen_markers() -> None:
    x = list(range(25))
    series = [
        Series("a", x, x, [y - 1 for y in x], [y + 1 for y in x]),
        Series("b", x, x),
        Series("truth", x[:12], x[:12], style=Style("ink")),
    ]
    chart = Chart("lines", series)
    ax = axes_with(chart)
    assert [line.get_color() for line in ax.lines] == [s.hex for s in styles_of(chart).values()]
    assert [line.get_zorder() for line in ax.lines] == [3, 2.99, 4]
    assert [line.get_markevery() for line in ax.lines] == [(0, 3), (1, 3), None]
    (band,) = ax.collections
    assert (band.get_alpha(), band.get_zorder(), list(band.get_linewidth())) == (0.16, 2, [0])


def test_bands_end_where_a_neighbour_is_off_the_axis() -> None:
    """Nothing is filled between the axis and the interval of a value that is not shown."""
    far = Series("a", [1, 2, 3], [0.5, 0.6, 1e6], low=[0.4, 0.5, -1e6], high=[0.6, 0.7, 2e6])
    near = Series("a", [1, 2], [0.5, 0.6], low=[-3, 0.5], high=[0.6, 9])  # shown, with wide ends
    for series, end, ends in ((far, 2, (0.4, 0.7)), (near, 2, (0, 1))):
        ax = axes_with(Chart("lines", [series], y=Axis(low=0, high=1)))
        corners = np.concatenate([path.vertices for path in ax.collections[0].get_paths()])
        assert corners[:, 0].max() == end
        assert (corners[:, 1].min(), corners[:, 1].max()) == ends


def test_markers_at_the_end_of_the_axis_are_whole() -> None:
    for kind, x in (("lines", [1.0, 2.0]), ("dots", ["p", "q"])):
        for top, clipped in ((1.0, False), (7.0, True)):
            ax = axes_with(Chart(kind, [Series("a", x, [0.0, top])], y=Axis(low=0, high=1)))
            assert ax.lines[0].get_clip_on() is clipped


def test_steps_are_outlines_over_a_light_fill_with_intervals_side_by_side() -> None:
    series = [
        Series("a", [0, 3, 9], [1, 2], [0.5, 1], [2, 3]),
        Series("b", [0, 3, 9], [2, 2], [1, 1], [3, 3]),
    ]
    for log in (False, True):
        ax = axes_with(Chart("steps", series, y=Axis(log=log)))
        drawn = [(s.get_fill(), s.get_linewidth(), s.get_alpha()) for s in ax.patches]
        assert drawn == [(False, 1.4, None), (True, 0, 0.1)] * 2
        heights = [step.get_data().values.tolist() for step in ax.patches]
        assert heights == [[1, 2]] * 2 + [[2, 2]] * 2
        places = [[s[0][0] for s in whisker.get_segments()] for whisker in ax.collections]
        assert places == [[1, 5], [2, 7]]  # thirds of the bins
        ends = [[s[:, 1].tolist() for s in whisker.get_segments()] for whisker in ax.collections]
        assert ends == [[[0.5, 2], [1, 3]], [[1, 3], [1, 3]]]
        assert (ax.get_ylim()[0] > 0) == log


def test_dots_stand_in_their_rows_side_by_side_and_rows_are_parted() -> None:
    ax = axes_with(ONE_OF_EACH["dots"])
    dots = [line for line in ax.lines if line.get_marker() != "None"]
    assert [tuple(np.ravel(d.get_xydata())) for d in dots] == [(1.5, 0.0, -2.0, 0.8), (1.0, 1.2)]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["p", "q"]
    series = [Series("truth", ["p", "q", "r"], [1, 2, 3], [0, 1, 2], [2, 3, 4], style=Style("ink"))]
    ax = axes_with(Chart("dots", series))
    points, *borders = ax.lines
    assert [line.get_ydata()[0] for line in borders] == [0.5, 1.5]
    assert (points.get_marker(), points.get_linestyle()) == ("o", "None"), "a dot has a marker"
    assert ax.get_ylim() == (2.5, -0.5), "the first row is on top"
    assert not ax.spines["left"].get_visible()
    assert all(line.get_visible() for line in ax.get_xgridlines())
    assert not any(line.get_visible() for line in ax.get_ygridlines())


def test_arrows_point_to_both_sides_and_are_hollow_where_the_dot_itself_is_beyond() -> None:
    rows = [
        Series("low", ["low"], [0.5], [-3], [0.9]),
        Series("lost", ["lost"], [-7], [-9], [-5]),
        Series("none", ["none"], [0.5], [0], [1]),
        Series("gap", ["gap"], [None]),
        Series("high", ["high"], [0.5], [0.2], [9]),
    ]
    chart = Chart("dots", rows, y=Axis(low=0, high=1))
    ax = axes_with(chart)
    arrows = [line for line in ax.lines if line.get_marker() in "<>"]
    shown = [(*a.get_xydata()[0], a.get_marker()) for a in arrows]
    assert shown == [(0, 0, "<"), (0, 1, "<"), (1, 4, ">")]
    styles = styles_of(chart)
    faces = [styles["low"].hex, drawing.PAPER, styles["high"].hex]
    assert [a.get_markerfacecolor() for a in arrows] == faces
    assert not any(a.get_clip_on() for a in arrows)
    assert ax.get_xlim() == (0, 1)


def test_rules_are_dashed_and_cross_the_axis_they_belong_to() -> None:
    for kind, axis, upright in (("lines", "x", True), ("lines", "y", False), ("dots", "y", True)):
        chart = Chart(kind, ONE_OF_EACH[kind].series, rules=[Rule("rule", 0.75, axis)])
        rule = axes_with(chart).lines[-1]
        xs, ys = rule.get_data()
        assert list(xs if upright else ys) == [0.75, 0.75]
        assert list(ys if upright else xs) == [0, 1], "from edge to edge"
        assert rule.is_dashed()
        assert rule.get_color() == styles_of(chart)["rule"].hex


def test_a_note_is_a_bracket_between_two_heights() -> None:
    chart = Chart("lines", [Series("a", [1, 2], [1, 9])], notes=[Note(1, 1, to=9)])
    (bracket,) = axes_with(chart).texts
    assert (bracket.xy, bracket.xyann, bracket.get_text()) == ((1, 1), (1, 9), "")


def test_texts_are_cut_to_the_width_of_the_figure() -> None:
    """6.4 inches, 0.073 for a letter; names of rows have about half of it."""
    long = "n" * 200
    ax = axes_with(Chart("dots", [Series("a", [long], [1.0])], y=long))
    assert ax.get_xlabel() == "n" * 86 + "…"
    assert ax.get_yticklabels()[0].get_text() == "n" * 41 + "…"
    exact = axes_with(Chart("lines", [Series("a", [1], [1])], x="n" * 87))
    assert exact.get_xlabel() == "n" * 87


def test_log_axes_have_powers_of_ten_or_steps_between_them() -> None:
    for high, locator in ((9, "MaxNLocator"), (10, "LogLocator"), (300, "LogLocator")):
        series = [Series("a", [1, high], [1, 2])]
        ax = axes_with(Chart("lines", series, x=Axis(log=True, low=1, high=high)))
        assert type(ax.xaxis.get_major_locator()).__name__ == locator
        assert ax.get_xlim() == (1, high)
        if locator == "LogLocator":
            assert {1, 2, 5, 10} <= set(ax.get_xticks())
    wide = axes_with(Chart("lines", [Series("a", [1, 1e3], [1, 2])], x=Axis(log=True)))
    assert not {2, 5, 20, 50} & set(wide.get_xticks())
    ticks = {1e-7: "10⁻⁷", 0.05: "0.05", 1e12: "10¹²", 2e-5: "2·10⁻⁵", 0: "", 10_000: "10⁴"}
    assert [drawing.log_tick(value, 0) for value in ticks] == list(ticks.values())


def test_panels_share_the_ends_of_their_axes() -> None:
    lines = [Chart("lines", [Series("a", [0, end], [0, end])]) for end in (1, 5)]
    dots = [Chart("dots", [Series("a", list("pqr")[:n], [float(n)] * n)]) for n in (1, 3)]
    for charts in (lines, dots):
        figure = pages.figure(Panels(charts, share_x=True, share_y=True))
        first, second = (cell.axes[0] for cell in figure.subfigs)
        assert first.get_xlim() == second.get_xlim()
        assert first.get_ylim() == second.get_ylim()
    assert first.get_ylim() == (2.5, -0.5), "rows of dots count downwards"


def test_names_that_nothing_shows_have_a_legend_and_rules_alone_are_dashed() -> None:
    def legend(drawn: Chart | Panels) -> dict[str, tuple[str, str]]:
        entries = drawing.legend_of(drawn, styles_of(drawn))
        return {name: (style.dash, style.marker) for name, style in entries.items()}

    a, b = (Series(name, [name], [1.0]) for name in "ab")
    assert legend(Chart("dots", [a, b])) == {}, "rows are named at their side"
    assert legend(Chart("dots", [a, b], rules=[Rule("a", 1.0)])) == {}
    assert legend(Chart("dots", [a, b], rules=[Rule("truth", 1.0)])).keys() == {"truth"}
    line = Chart("lines", [Series("a", [0, 1], [1, 2])])
    assert legend(line) == {}, "one series needs no name"
    ruled = Chart("lines", line.series, rules=[Rule("target", 1.5)])
    assert legend(ruled) == {"a": ("solid", "circle"), "target": ("dashed", "none")}
    steps = Chart("steps", [Series(n, [0, 1], [1]) for n in "ab"])
    assert legend(steps) == {"a": ("solid", "none"), "b": ("solid", "none")}
    assert legend(Panels([steps, line]))["a"] == ("solid", "circle")


def test_the_legend_of_a_picture_has_as_many_columns_as_fit() -> None:
    for names, columns in ((["a", "b"], 2), (list("abcde"), 3), (["n" * 30, "b", "c"], 2),
                           (["n" * 90], 1)):  # fmt: skip
        chart = Chart("lines", [Series(n, [0], [1]) for n in names], rules=[Rule(names[0], 1)])
        (legend,) = pages.figure(chart).legends
        assert legend._ncols == columns
        shown = [text.get_text() for text in legend.get_texts()]
        assert shown == [name if len(name) <= 67 else name[:66] + "…" for name in names]


def test_pictures_are_as_large_as_their_columns_and_rows_need() -> None:
    line = Chart("lines", [Series("a", [0, 1], [0, 1])], title="one")
    for columns, inches in {1: 5.6, 2: 3.5, 3: 2.5, 4: 2.1}.items():
        for picture in drawing.pictures(Panels([line] * columns, columns=columns), styles_of(line)):
            box = ElementTree.fromstring(picture).get("viewBox", "").split()  # noqa: S314
            expected = [0, 0, 72 * inches, 72 * (1.5 + 0.28 * inches)]
            assert [float(side) for side in box] == pytest.approx(expected)
    dots = Chart("dots", [Series("a", ["x", "y"], [1, 1]), Series("b", ["y"], [1])])
    assert pages.figure(dots).get_figheight() == pytest.approx(0.8 + 0.3 + 0.46 + 0.7)
    one = pages.figure(Panels([line] * 2)).get_figheight() - 0.7
    for count, rows in ((3, 2), (4, 2), (5, 3)):
        made = pages.figure(Panels([line] * count))
        assert len(made.subfigs) == 2 * rows
        assert made.get_figheight() == pytest.approx(rows * one + 0.7, rel=1e-9)


DRAWN = """<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"
viewBox="0 0 10 10"><metadata/><defs><path id="mabc" d="M 0 0.004 L 1.23456 16.2512"/>
<clipPath id="pdef"/></defs><g id="axes_1" clip-path="url(#pdef)">
<use xlink:href="#mabc" x="-0.00123" style="fill: none; stroke: #596573"/>
<use xlink:href="#mabc" x="100.98765" style="fill: none; stroke: #596573"/>
<text style="font: 8px x; font-family: y" transform="translate(10.123456 2) rotate(-90)">#596573
</text></g></svg>"""


def test_the_svg_of_a_page_is_short_has_own_names_and_the_colours_of_the_theme() -> None:
    made, other = (drawing.svg_element(DRAWN, name, "T <", "D") for name in ("a", "b"))
    root = ElementTree.fromstring(made)  # noqa: S314
    tags = [element.tag for element in root.iter()]
    assert "metadata" not in tags
    assert root.get("aria-labelledby") == "a-title a-desc"
    assert [root.findtext(tag) for tag in ("title", "desc")] == ["T <", "D"]
    assert '<path id="a-n0" d="M0 0L1.23 16.3" /><clipPath id="a-n1" />' in made
    assert '<g clip-path="url(#a-n1)">' in made
    assert '<use href="#a-n0" x="0" class="a-0" />' in made
    assert 'x="101"' in made
    assert made.count("stroke:") == 1, "styles that repeat are stated once"
    assert ".a-0{fill:none;stroke:var(--muted, #596573)}" in made
    assert 'style="font:8px x" transform="translate(10.1 2) rotate(-90)">#596573' in made
    assert "a-" not in other.replace("aria-", "")
