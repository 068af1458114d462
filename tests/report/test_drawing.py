"""Charts drawn: every mark is where the data say, and hard data are drawn without a warning."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.helpers.pages import ONE_OF_EACH
from unmask import report
from unmask.report import Axis, Chart, Note, Panels, Rule, Series, alt_text, assign_styles, drawing
from unmask.report.charts import styles_of

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
    Chart("bars", [Series(f"s{i}", [f"group {j}" for j in range(9)], range(9)) for i in range(9)]),
    Chart("steps", [Series("a", [0, 1, 2], [None, 3])], y=Axis(log=True)),
    Chart("heat", [Series("a", [1, 2], [None, None])], color=Axis(center=0)),
    Chart("heat", [Series("a", [1, 2], [3, 3])]),
    Chart("heat", [Series(str(i), range(40), range(40)) for i in range(40)], color=Axis(center=20)),
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


def test_heat_parts_cells_where_they_pass_the_centre() -> None:
    grid = [Series("0", [1, 2], [-1, 1]), Series("1", [1, 2], [1, 1])]
    ax = axes_with(Chart("heat", grid, color=Axis("d", center=0), notes=[Note(2, "1", "here")]))
    drawn = [tuple(map(tuple, line.get_xydata())) for line in ax.lines]
    borders = sorted(points for points in drawn if len(points) == 2)
    assert borders == [((0, 1), (1, 1)), ((1, 0), (1, 1))]
    assert {points for points in drawn if len(points) == 1} == {((1.5, 1.5),)}
    low, high = ax.collections[0].get_clim()
    assert (low, high) == (-1, 1)


@pytest.mark.parametrize(
    ("kind", "axis", "upright"),
    [("lines", "x", True), ("lines", "y", False), ("dots", "y", True), ("bars", "y", False)],
)
def test_rules_cross_the_axis_they_belong_to(kind: str, axis: str, upright: bool) -> None:
    ax = axes_with(Chart(kind, ONE_OF_EACH[kind].series, rules=[Rule("rule", 0.75, axis)]))
    xs, ys = ax.lines[-1].get_data()
    assert list(xs if upright else ys) == [0.75, 0.75]
    assert list(ys if upright else xs) == [0, 1], "from edge to edge"


def test_bars_of_a_group_do_not_overlap() -> None:
    ax = axes_with(ONE_OF_EACH["bars"])
    spans = sorted((bar.get_x(), bar.get_x() + bar.get_width()) for bar in ax.patches)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
    assert sorted(bar.get_height() for bar in ax.patches) == [1, 2, 2.5, 3]


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
