"""Charts as data: what they hold, which style every name has, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.helpers.pages import ONE_OF_EACH
from unmask.report import Axis, Chart, Panels, Rule, Series, Style
from unmask.report.charts import direct_names, legend_names, styles_of

ONE = Series("a", [1.0], [1.0])
STAR = Style("green", "star", "dotted")


def test_inputs_are_copied_and_records_compare() -> None:
    y = np.array([1.0, 2.0])
    series = Series("a", [1, 2], y)
    y[0] = 9
    assert series.y == (1.0, 2.0)
    assert series == Series("a", (1.0, 2.0), [1, 2])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Chart("pie", [ONE]), "unknown kind of chart 'pie'; use one of: dots"),
        (lambda: Chart("lines", []), "needs series with different names"),
        (lambda: Chart("lines", [ONE, ONE]), "needs series with different names"),
        (lambda: Chart("lines", ["a"]), "series of a chart must be Series; got 'a' at place 0"),
        (lambda: Chart("lines", [Series("a", ["x"], [1])]), "a line needs one number x per y"),
        (lambda: Chart("lines", [Series("a", [1, 2], [1])]), "a line needs one number x per y"),
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
        (lambda: Series("a", [1, float("inf")], [1, 2]), "x of series 'a' must be finite; got inf"),
        (lambda: Axis("p", low=1, high=0), "must run from low to high"),
        (lambda: Axis("p", low=0, log=True), "needs positive ends"),
        (lambda: Rule("a", float("nan")), "must lie at a finite number"),
        (lambda: Rule("a", 1, "z"), "unknown axis 'z'"),
        (lambda: Panels([]), "at least one chart"),
        (lambda: Panels([ONE_OF_EACH["dots"]], columns=9), "1 to 4 columns"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_a_sentence(
    make: Callable[[], object], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        make()
    assert str(caught.value).endswith(".")


def test_a_series_or_a_rule_brings_its_style_along() -> None:
    """Wherever its name stands: in the same chart, in another panel, in another drawing."""
    with_style = Chart("lines", [ONE, Series("mine", [1], [2], style=STAR)])
    by_rule = Chart("lines", [ONE], rules=[Rule("mine", 1.0, style=STAR)])
    without = Chart("dots", [Series("mine", ["x"], [1.0]), ONE])
    for drawings in ([with_style], [by_rule], [Panels([without, with_style])], [without, by_rule]):
        styles = styles_of(*drawings)
        assert styles["mine"] == STAR
        assert styles["a"].color != STAR.color


def test_a_name_with_two_styles_is_refused() -> None:
    charts = [Chart("lines", [Series("a", [1], [1], style=Style(c))]) for c in ("blue", "green")]
    with pytest.raises(ValueError, match=r"'a' has two styles, .*blue.* and .*green"):
        styles_of(*charts)


def dots(*values: float | None, **options: object) -> Chart:
    """Series a, b … of two rows; the values are those of the first."""
    series = [Series(n, ["x", "y"], [v, 0.5]) for n, v in zip("abcde", values, strict=False)]
    return Chart("dots", series, **options)  # type: ignore[arg-type]


def test_a_few_names_stand_beside_their_dots_and_need_no_legend() -> None:
    few, most = dots(0.1, 0.2), dots(0.1, 0.2, 0.3, 0.4)
    assert direct_names(few) == ("a", "b")
    assert direct_names(most) == ("a", "b", "c", "d")
    assert legend_names(few) == legend_names(most) == ()
    at_the_ends = dots(0.0, 1.0, y=Axis(low=0, high=1))
    assert direct_names(at_the_ends) == ("a", "b")


@pytest.mark.parametrize(
    "drawing",
    [
        dots(0.1, 0.2, 0.3, 0.4, 0.5),
        dots(0.1, None),
        dots(0.1, 1.1, y=Axis(high=1)),
        dots(0.1, -0.1, y=Axis(low=0)),
        dots(0.1, 0.2, rules=[Rule("truth", 0.5)]),
        Panels([dots(0.1, 0.2)]),
        Chart("dots", [Series("a", ["x"], [1.0]), Series("b", ["y"], [1.0])]),
    ],
    ids=["many", "gap", "above", "below", "rule", "panels", "elsewhere"],
)
def test_names_that_cannot_stand_there_have_a_legend(drawing: Chart | Panels) -> None:
    assert direct_names(drawing) == ()
    assert "a" in legend_names(drawing)


def test_one_series_needs_no_name() -> None:
    assert direct_names(dots(0.1)) == legend_names(dots(0.1)) == ()


def test_a_rule_at_a_row_that_has_its_name_needs_no_legend() -> None:
    rows = [Series("plain", ["plain"], [1.0]), Series("best", ["best"], [2.0])]
    named = Chart("dots", rows, rules=[Rule("plain", 1.0)])
    assert legend_names(named) == ()
    assert legend_names(Chart("dots", rows, rules=[Rule("truth", 1.0)])) == ("truth",)
