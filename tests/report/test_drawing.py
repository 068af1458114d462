"""Charts drawn: every mark is where the data say, and hard data are drawn without a warning."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.helpers.pages import ONE_OF_EACH
from unmask import report
from unmask.report import Axis, Chart, Note, Panels, Rule, Series, assign_styles, drawing, html
from unmask.report import charts as alt_text
from unmask.report.charts import Style, kinds_of, styles_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def test_every_kind_is_checked_described_drawn_and_tried_here() -> None:
    for registry in (drawing.DRAW, alt_text.NOUNS, ONE_OF_EACH):
        assert registry.keys() == report.KINDS.keys()


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


@pytest.mark.parametrize("chart", HARD, ids=lambda c: f"{c.kind}-{c.y.log}")
def test_hard_data_is_drawn_without_a_warning(chart: Chart) -> None:
    (picture,) = drawing.panels_as_svg(chart, styles_of(chart))
    assert "<svg" in picture
    assert "nan" not in picture


def axes_with(chart: Chart) -> Axes:
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    drawing.DRAW[chart.kind](ax, chart, styles_of(chart))
    return ax


def test_lines_are_at_their_points_with_their_bands() -> None:
    ax = axes_with(ONE_OF_EACH["lines"])
    assert np.array_equal(ax.lines[0].get_xydata(), [[1, 1], [2, np.nan], [3, 3]], equal_nan=True)
    corners = {tuple(point) for point in ax.collections[0].get_paths()[0].vertices}
    assert {(1, 0), (3, 2), (1, 2), (3, 4)} <= corners
    assert ax.get_xlabel() == "n"


def test_dots_stand_in_their_rows_side_by_side() -> None:
    ax = axes_with(ONE_OF_EACH["dots"])
    points = [
        tuple(np.ravel(line.get_xydata())) for line in ax.lines if line.get_marker() != "None"
    ]
    assert points == [(1.5, 0.0, -2.0, 0.8), (1.0, 1.2)]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["p", "q"]
    assert ax.get_ylim()[0] > ax.get_ylim()[1], "the first row is on top"


def test_dots_beyond_the_axis_leave_an_arrow_and_a_hollow_one_if_the_value_does() -> None:
    dots = [Series("in", ["in"], [0.5], [0.2], [9]), Series("out", ["out"], [7], [0.2], [9])]
    ax = axes_with(Chart("dots", dots, y=Axis(low=0, high=1)))
    arrows = [line for line in ax.lines if line.get_marker() == ">"]
    assert [line.get_xdata()[0] for line in arrows] == [1, 1]
    faces = [line.get_markerfacecolor() for line in arrows]
    assert faces == [assign_styles(["in", "out"])["in"].hex, drawing.PAPER]


@pytest.mark.parametrize(
    ("kind", "axis", "upright"),
    [("lines", "x", True), ("lines", "y", False), ("dots", "y", True)],
)
def test_rules_cross_the_axis_they_belong_to(kind: str, axis: str, upright: bool) -> None:
    ax = axes_with(Chart(kind, ONE_OF_EACH[kind].series, rules=[Rule("rule", 0.75, axis)]))
    xs, ys = ax.lines[-1].get_data()
    assert list(xs if upright else ys) == [0.75, 0.75]
    assert list(ys if upright else xs) == [0, 1], "from edge to edge"


def test_panels_share_the_ends_of_their_axes() -> None:
    from matplotlib.figure import Figure

    charts = [Chart("lines", [Series("a", [0, 1], [0, top])]) for top in (1, 5)]
    axes = [Figure().subplots() for _ in charts]
    drawing._draw_all(Panels(charts, share_y=True), axes, assign_styles(["a"]))
    assert axes[0].get_ylim() == axes[1].get_ylim()
    assert axes[0].get_ylim()[1] >= 5


@pytest.mark.parametrize(
    ("value", "text"),
    [(1e-7, "10⁻⁷"), (0.05, "0.05"), (1e12, "10¹²"), (2e-5, "2·10⁻⁵"), (0, ""), (10_000, "10⁴")],
)
def test_ticks_of_log_axes(value: float, text: str) -> None:
    assert drawing._log_tick(value, 0) == text


def test_lines_lie_above_their_bands_and_carry_a_dozen_markers() -> None:
    x = list(range(25))
    series = [
        Series("a", x, x, [y - 1 for y in x], [y + 1 for y in x]),
        Series("b", x, x),
        Series("truth", x[:12], x[:12], style=Style("ink")),
    ]
    ax = axes_with(Chart("lines", series))
    chosen = assign_styles(["a", "b", "truth"], {"truth": Style("ink")})
    assert [line.get_color() for line in ax.lines] == [style.hex for style in chosen.values()]
    assert [line.get_zorder() for line in ax.lines] == [3, 2.99, 4]
    assert [line.get_markevery() for line in ax.lines] == [(0, 3), (1, 3), None]
    (band,) = ax.collections
    assert (band.get_alpha(), band.get_zorder(), list(band.get_linewidth())) == (0.16, 2, [0])


@pytest.mark.parametrize(("log", "bottom"), [(False, 0), (True, None)])
def test_steps_are_outlines_over_a_light_fill_with_intervals_side_by_side(
    log: bool, bottom: int | None
) -> None:
    series = [
        Series("a", [0, 3, 9], [1, 2], [0.5, 1], [2, 3]),
        Series("b", [0, 3, 9], [2, 2], [1, 1], [3, 3]),
    ]
    ax = axes_with(Chart("steps", series, y=Axis(log=log)))
    drawn = [(s.get_fill(), s.get_linewidth(), s.get_alpha(), s.get_zorder()) for s in ax.patches]
    assert drawn == [(False, 1.4, None, 3), (True, 0, 0.1, 1)] * 2
    assert [step.get_data().values.tolist() for step in ax.patches] == [[1, 2]] * 2 + [[2, 2]] * 2
    places = [[segment[0][0] for segment in whisker.get_segments()] for whisker in ax.collections]
    assert places == [[1, 5], [2, 7]]  # thirds of the bins
    assert [(w.get_linewidth()[0], w.get_zorder()) for w in ax.collections] == [(1.5, 3)] * 2
    ends = [[segment[:, 1].tolist() for segment in w.get_segments()] for w in ax.collections]
    assert ends == [[[0.5, 2], [1, 3]], [[1, 3], [1, 3]]]
    assert ax.get_ylim()[0] == bottom if bottom is not None else ax.get_ylim()[0] > 0


def test_rows_of_dots_are_parted_and_every_dot_has_a_marker() -> None:
    series = [Series("truth", ["p", "q", "r"], [1, 2, 3], [0, 1, 2], [2, 3, 4], style=Style("ink"))]
    ax = axes_with(Chart("dots", series))
    borders, dots = ax.lines[1:3], ax.lines[0]
    assert [line.get_ydata()[0] for line in borders] == [0.5, 1.5]
    assert {(line.get_linewidth(), line.get_zorder()) for line in borders} == {(0.6, 0)}
    assert len(ax.lines) == 3
    assert (dots.get_marker(), dots.get_markersize(), dots.get_linestyle()) == ("o", 6, "None")
    assert dots.get_zorder() == 4
    assert dots.get_markeredgewidth() == 0
    assert ax.get_ylim() == (2.5, -0.5)
    assert not ax.spines["left"].get_visible()
    assert [line.get_visible() for line in (*ax.get_xgridlines(), *ax.get_ygridlines())] == [
        True
    ] * len(ax.get_xgridlines()) + [False] * 3


def test_arrows_point_to_both_sides_and_leave_the_axis_as_it_is() -> None:
    rows = [
        Series("low", ["low"], [0.5], [-3], [0.9]),
        Series("lost", ["lost"], [-7], [-9], [-5]),
        Series("none", ["none"], [0.5], [0], [1]),
        Series("gap", ["gap"], [None]),
    ]
    ax = axes_with(Chart("dots", rows, y=Axis(low=0, high=1)))
    arrows = [line for line in ax.lines if line.get_marker() in "<>"]
    assert [(*a.get_xydata()[0], a.get_marker()) for a in arrows] == [(0, 0, "<"), (0, 1, "<")]
    chosen = assign_styles(["low", "lost", "none"])
    assert [a.get_markerfacecolor() for a in arrows] == [chosen["low"].hex, drawing.PAPER]
    assert {(a.get_markersize(), a.get_zorder(), a.get_clip_on()) for a in arrows} == {
        (5, 5, False)
    }
    assert ax.get_xlim() == (0, 1)


@pytest.mark.parametrize(
    ("letters", "text"), [(87, "n" * 87), (88, "n" * 86 + "…"), (0, ""), (500, "n" * 86 + "…")]
)
def test_texts_are_cut_to_the_width_of_the_figure(letters: int, text: str) -> None:
    """6.4 inches, 0.073 for a letter."""
    from matplotlib.figure import Figure

    ax = Figure(figsize=(6.4, 4.8)).subplots()
    assert drawing._fit(ax, "n" * letters) == text
    assert drawing._fit(ax, "n" * 50, 0.5) == "n" * 42 + "…"


@pytest.mark.parametrize(
    ("high", "locator", "subs"),
    [(9, "MaxNLocator", None), (10, "LogLocator", [1, 2, 5]), (300, "LogLocator", [1, 2, 5])],
)
def test_log_axes_of_few_decades_have_steps_between_powers(
    high: float, locator: str, subs: list[float] | None
) -> None:
    ax = axes_with(
        Chart("lines", [Series("a", [1, high], [1, 2])], x=Axis(log=True, low=1, high=high))
    )
    chosen = ax.xaxis.get_major_locator()
    assert type(chosen).__name__ == locator
    assert list(chosen._subs) == subs if subs else chosen._nbins == 5


def test_log_axes_of_many_decades_have_powers_of_ten() -> None:
    ax = axes_with(
        Chart("lines", [Series("a", [1, 1e3], [1, 2])], x=Axis(log=True, low=1, high=1e3))
    )
    assert [say for say in map(drawing._log_tick, ax.get_xticks(), [0] * 9) if say][1:3] == [
        "1",
        "10",
    ]
    assert ax.get_xlim() == (1, 1e3)


@pytest.mark.parametrize(("log", "middle"), [(False, 5.0), (True, 3.0)])
def test_the_words_of_a_bracket_stand_at_its_middle(log: bool, middle: float) -> None:
    chart = Chart(
        "lines", [Series("a", [1, 2], [1, 9])], y=Axis(log=log), notes=[Note(1, 1, "n", to=9)]
    )
    bracket, words = axes_with(chart).texts
    assert (bracket.xy, bracket.xyann, bracket.get_text()) == ((1, 1), (1, 9), "")
    assert (words.xy, words.xyann, words.get_text()) == ((1, middle), (6, 0), "n")
    assert bracket.arrow_patch.get_linewidth() == 0.9
    assert bracket.arrow_patch.shrinkA == bracket.arrow_patch.shrinkB == 0
    assert words.get_fontsize() == 7.5


def test_a_note_stands_beside_its_point() -> None:
    (words,) = axes_with(
        Chart("lines", [Series("a", [1, 2], [1, 9])], notes=[Note(1, 2, "here")])
    ).texts
    assert (words.xy, words.xyann, words.get_text()) == ((1, 2), (4, 4), "here")


def test_rules_are_dashed_above_the_lines() -> None:
    ax = axes_with(Chart("lines", [Series("a", [0, 1], [0, 1])], rules=[Rule("truth", 0.5)]))
    rule = ax.lines[-1]
    assert rule.is_dashed()
    assert (rule.get_linewidth(), rule.get_zorder()) == (1.3, 3.5)
    assert rule.get_color() == assign_styles(["a", "truth"])["truth"].hex


@pytest.mark.parametrize(
    ("chart", "height"),
    [
        (Chart("lines", [Series("a", [0], [1])]), 1.5 + 0.28 * 4),
        (
            Chart("dots", [Series("a", ["x", "y"], [1, 1]), Series("b", ["y"], [1])]),
            0.8 + (0.14 + 0.16) + (0.14 + 0.32),
        ),
    ],
)
def test_charts_are_as_high_as_their_rows_need(chart: Chart, height: float) -> None:
    assert drawing._height(chart, 4) == pytest.approx(height)


def test_panels_of_dots_share_an_axis_that_counts_downwards() -> None:
    from matplotlib.figure import Figure

    charts = [Chart("dots", [Series("a", list("pqr")[:n], [1.0] * n)]) for n in (1, 3)]
    axes = [Figure().subplots() for _ in charts]
    drawing._draw_all(Panels(charts, share_y=True), axes, assign_styles(["a"]))
    assert [ax.get_ylim() for ax in axes] == [(2.5, -0.5)] * 2
    assert axes[0].get_xlim() == axes[1].get_xlim()
    wide = [Chart("lines", [Series("a", [0, end], [0, 1])]) for end in (1, 5)]
    axes = [Figure().subplots() for _ in wide]
    drawing._draw_all(Panels(wide, share_x=True), axes, assign_styles(["a"]))
    assert axes[0].get_xlim() == axes[1].get_xlim()
    assert axes[0].get_xlim()[1] >= 5


def test_columns_are_no_more_than_charts() -> None:
    one = ONE_OF_EACH["steps"]
    assert [drawing.columns_of(Panels([one] * n, columns=3)) for n in (1, 2, 3, 4)] == [1, 2, 3, 3]
    assert drawing.columns_of(one) == 1


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        (["a", "b"], 2),
        (["a", "b", "c", "d", "e"], 3),
        (["n" * 30, "b", "c"], 2),
        (["n" * 90] * 1, 1),
    ],
)
def test_the_legend_of_a_picture_has_as_many_columns_as_fit(names: list[str], columns: int) -> None:
    from matplotlib.figure import Figure

    figure = Figure((5.6, 3), layout="constrained")
    chart = Chart("lines", [Series(n, [0], [1]) for n in names], rules=[Rule(names[0], 1)])
    drawing._add_legend(figure, chart, assign_styles(names))
    (legend,) = figure.legends
    assert legend._ncols == columns
    shown = [text.get_text() for text in legend.get_texts()]
    assert shown == [name if len(name) <= 67 else name[:61] + "…" for name in names]


def test_a_name_that_only_rules_have_is_dashed_in_both_legends() -> None:
    chart = Chart("lines", [Series("a", [0, 1], [1, 2])], rules=[Rule("target", 1.5)])
    chosen = assign_styles(["a", "target"])
    page = html.VIEWS[Chart](chart, "c", chosen)
    assert [(one["name"], one["dash"]) for one in page["legend"]] == [("a", ""), ("target", "10 4")]
    handles = [drawing._handle(chosen[n], kinds_of(chart, n)) for n in ("a", "target")]
    assert [handle.is_dashed() for handle in handles] == [False, True]


def test_names_beside_dots_stand_at_the_end_with_more_room() -> None:
    near = Series("near", ["x", "y"], [0.2, 0.5], [0.1, 0.4], [0.3, 0.6])
    far = Series("far", ["x", "y"], [0.8, 0.5], [0.7, 0.4], [0.9, 0.6])
    chart = Chart("dots", [near, far], y=Axis(low=0, high=1))
    figure = drawing.figure_of(chart, styles_of(chart))
    (ax,) = figure.subfigs[0].axes
    texts = {text.get_text(): text for text in ax.texts}
    assert not figure.legends
    assert texts.keys() == {"near", "far"}
    assert [round(float(v), 3) for v in texts["near"].xy] == [0.3, -0.2]
    assert [round(float(v), 3) for v in texts["far"].xy] == [0.7, 0.2]
    assert texts["near"].get_ha() == "left"
    assert texts["far"].get_ha() == "right"
    assert texts["near"].xyann == (7, 0)
    assert texts["far"].xyann == (-7, 0)


@pytest.mark.parametrize(
    ("points", "table", "link"),
    [(300, True, True), (301, False, True), (2000, False, True), (2001, False, False)],
)
def test_numbers_are_shown_and_linked_up_to_a_size(points: int, table: bool, link: bool) -> None:
    chart = Chart("lines", [Series("a", range(points), range(points))])
    view = html.VIEWS[Chart](chart, "c", assign_styles(["a"]))
    assert (view["numbers"] is not None, view["csv"] is not None) == (table, link)


def test_notes_take_half_of_the_width() -> None:
    for to in (None, 9.0):
        chart = Chart("lines", [Series("a", [1, 2], [1, 9])], notes=[Note(1, 2, "n" * 60, to)])
        assert axes_with(chart).texts[-1].get_text() == "n" * 42 + "…"


@pytest.mark.parametrize(("columns", "inches"), [(1, 5.6), (2, 3.5), (3, 2.5), (4, 2.1)])
def test_charts_side_by_side_are_narrower(columns: int, inches: float) -> None:
    charts = Panels([Chart("lines", [Series("a", [0, 1], [0, 1])])] * columns, columns=columns)
    for picture in drawing.panels_as_svg(charts, assign_styles(["a"])):
        box = ElementTree.fromstring(picture).get("viewBox", "").split()  # noqa: S314
        expected = [0, 0, 72 * inches, 72 * (1.5 + 0.28 * inches)]
        assert [float(side) for side in box] == pytest.approx(expected)


def test_bands_end_where_a_neighbour_is_off_the_axis() -> None:
    """Nothing is filled between the axis and the interval of a value that is not shown."""
    far = Series("a", [1, 2, 3], [0.5, 0.6, 1e6], low=[0.4, 0.5, -1e6], high=[0.6, 0.7, 2e6])
    ax = axes_with(Chart("lines", [far], y=Axis(low=0, high=1)))
    corners = np.concatenate([path.vertices for path in ax.collections[0].get_paths()])
    assert corners[:, 0].max() == 2
    assert (corners[:, 1].min(), corners[:, 1].max()) == (0.4, 0.7)
    near = Series("a", [1, 2], [0.5, 0.6], low=[-3, 0.5], high=[0.6, 9])  # shown, with wide ends
    ax = axes_with(Chart("lines", [near], y=Axis(low=0, high=1)))
    corners = np.concatenate([path.vertices for path in ax.collections[0].get_paths()])
    assert (corners[:, 1].min(), corners[:, 1].max()) == (0, 1)


@pytest.mark.parametrize("kind", ["lines", "dots"])
def test_markers_at_the_end_of_the_axis_are_whole(kind: str) -> None:
    x: list[str | float] = ["p", "q"] if kind == "dots" else [1.0, 2.0]
    at_the_end = axes_with(Chart(kind, [Series("a", x, [0.0, 1.0])], y=Axis(low=0, high=1)))
    assert not at_the_end.lines[0].get_clip_on()
    beyond = axes_with(Chart(kind, [Series("a", x, [0.0, 7.0])], y=Axis(low=0, high=1)))
    assert beyond.lines[0].get_clip_on()


def test_panels_stand_in_as_many_rows_as_they_need() -> None:
    part = Chart("lines", [Series("a", [1, 2], [0.3, 0.4])], title="one")
    one = report.figure(Panels([part] * 2, columns=2)).get_figheight() - 0.7
    for count, rows in ((3, 2), (4, 2), (5, 3)):
        made = report.figure(Panels([part] * count, columns=2))
        assert len(made.subfigs) == 2 * rows
        assert made.get_figheight() == pytest.approx(rows * one + 0.7, rel=1e-9)
