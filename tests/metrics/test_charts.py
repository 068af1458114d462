"""Estimates as pictures: what stands on a chart, the files, and the command that draws them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from unmask import predictions, report
from unmask.cli import app
from unmask.metrics import (
    ESTIMATORS,
    Table,
    Tables,
    charts,
    compare,
    evaluate,
    powers,
    sensitivity,
)
from unmask.predictions import TopK

P = np.array([0.9, 0.8, 0.7, 0.6, 0.5])
LABELS = np.array([[1, 0, 1, 0, 0], [0, 1, 0, 0, 1], [1, 1, 0, 0, 0], [0, 0, 0, 1, 0]] * 5)
SCORES = np.array([[5, 4, 3, 2, 1], [1, 5, 2, 3, 4], [4, 1, 5, 2, 3], [1, 2, 3, 5, 4]] * 5)
OPTIONS = {"metrics": ["P@1", "R@3"], "estimators": ["vanilla", "unbiased"]}


@pytest.fixture(scope="module")
def table() -> Table:
    return evaluate(SCORES.astype(np.float32), LABELS, P, **OPTIONS)


@pytest.fixture(scope="module")
def under_powers() -> Tables:
    return sensitivity(SCORES.astype(np.float32), LABELS, powers(P, [0, 1, 2]), **OPTIONS)


def test_a_panel_per_metric_shows_every_estimate_with_its_interval(table: Table) -> None:
    drawn = table.chart().charts
    assert [chart.title for chart in drawn] == ["P@1", "R@3"]
    for chart in drawn:
        for series in chart.series:
            each = table[chart.title, series.name]
            assert (series.y, series.low, series.high) == (
                (each.value,), (each.interval[0],), (each.interval[1],),
            )  # fmt: skip


def test_powers_stand_on_an_axis_of_numbers(under_powers: Tables) -> None:
    (precision, _) = under_powers.chart().charts
    assert precision.kind == "lines"
    unbiased = next(series for series in precision.series if series.name == "unbiased")
    assert unbiased.x == (0.0, 1.0, 2.0)
    assert unbiased.y == tuple(under_powers[key]["P@1", "unbiased"].value for key in under_powers)


def test_systems_stand_by_name() -> None:
    tops = {name: TopK.from_scores(s, 1) for name, s in (("a", SCORES), ("b", -SCORES))}
    found = compare(tops, LABELS, metrics=["P@1"])
    (chart,) = found.chart().charts
    assert (chart.kind, chart.series[0].x) == ("dots", ("b",))


@pytest.mark.parametrize("suffix", [".png", ".svg", ".csv", ".json"])
def test_plots_are_files(suffix: str, table: Table, under_powers: Tables, tmp_path: Path) -> None:
    for name, each in (("one", table), ("many", under_powers)):
        path = each.plot(tmp_path / f"{name}{suffix}")
        assert path.stat().st_size > 100
    with pytest.raises(ValueError, match="is saved as"):
        table.plot(tmp_path / "table.pdf")


def test_a_refused_estimate_leaves_a_gap() -> None:
    row = {"metric": "R@1", "estimator": "deconvolved", "value": np.nan, "low": np.nan}
    (chart,) = charts.estimates([{**row, "high": np.nan}]).charts
    assert chart.series[0].y == (None,)


def test_every_estimator_has_a_style_of_its_own() -> None:
    styles = {name: charts.STYLES[name] for name in ESTIMATORS if name != "normalized"}
    assert len({*styles.values(), charts.STYLES["truth"]}) == len(styles) + 1


def test_charts_carry_the_styles_of_estimators(table: Table, under_powers: Tables) -> None:
    """So that an estimator looks the same on any page, beside whatever else."""
    for drawing in (table.chart(), under_powers.chart()):
        for chart in drawing.charts:
            assert [s.style for s in chart.series] == [charts.STYLES[s.name] for s in chart.series]
    (drawing, *_) = charts.along(under_powers.to_dicts(), rules={"P@1": 0.5}).charts
    assert drawing.rules[0] == report.Rule("truth", 0.5, style=charts.STYLES["truth"])


def test_a_line_at_one_stands_where_the_axis_goes_beyond_it() -> None:
    row = {"metric": "P@1", "estimator": "unbiased", "low": 0.4, "high": 1.2}
    within, beyond = (charts.estimates([{**row, "value": x}]).charts[0] for x in (0.9, 1.1))
    assert within.rules == ()
    assert [(rule.name, rule.value) for rule in beyond.rules] == [("most possible", 1.0)]


@pytest.mark.parametrize("parameters", [(0.5, 2.0), (0.5, None), (None, None)])
def test_models_with_a_parameter_stand_on_an_axis_of_numbers(
    parameters: tuple[float | None, ...], table: Table
) -> None:
    """Whatever they are called; by name if one of them has none."""
    rows = [
        {"propensity": name, "parameters": {} if parameter is None else {"c": parameter}, **row}
        for name, parameter in zip(("γ = 7", "b"), parameters, strict=True)
        for row in table.to_dicts()
    ]
    numeric = None not in parameters
    for chart in charts.along(rows, label="c").charts:
        assert chart.kind == ("lines" if numeric else "dots")
        assert chart.series[0].x == (parameters if numeric else ("γ = 7", "b"))
        assert chart.x.label == ("c" if numeric else "")


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("files")
    lines = [",".join(map(str, np.flatnonzero(row))) + " 0:1" for row in LABELS]
    (folder / "labels.txt").write_text("\n".join([f"{len(LABELS)} 1 5", *lines]) + "\n")
    predictions.write(folder / "top.txt", TopK.from_scores(SCORES, 3))
    return [
        "evaluate", "--labels", str(folder / "labels.txt"), "--predictions",
        str(folder / "top.txt"), "--train", str(folder / "labels.txt"), "--metrics", "R@3",
        "--estimators", "vanilla,unbiased",
    ]  # fmt: skip


@pytest.mark.parametrize(("kind", "model"), [("powers", "γ = 0.5"), ("jain", "a = 0.6, b = 2.6")])
def test_the_command_varies_propensities(
    kind: str, model: str, command: list[str], tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    asked = [*command, "--sensitivity", kind]
    record = json.loads(CliRunner().invoke(app, [*asked, "--json", "--html", str(page)]).stdout)
    rows = [row for row in record["sensitivity"] if row["propensity"] == model]
    assert {row["estimator"] for row in rows} == {"vanilla", "unbiased"}
    vanilla = {row["value"] for row in record["sensitivity"] if row["estimator"] == "vanilla"}
    unbiased = {row["value"] for row in record["sensitivity"] if row["estimator"] == "unbiased"}
    assert len(vanilla) == 1 < len(unbiased)
    assert "Sensitivity to the propensities" in page.read_text()
    assert model in CliRunner().invoke(app, asked).stdout


def test_the_command_refuses_what_it_cannot_vary(command: list[str]) -> None:
    found = CliRunner().invoke(app, [*command, "--sensitivity", "seeds"])
    assert "unknown sensitivity 'seeds'; use one of: jain, powers" in str(found.exception)


def drawn(metric: str, value: float, estimator: str = "vanilla", **more: Any) -> dict[str, Any]:
    return {"metric": metric, "estimator": estimator, "value": value, "low": value, "high": value,
            **more}  # fmt: skip


def test_axes_run_to_one_or_as_far_as_estimates_go() -> None:
    def ends(*values: float | None) -> tuple[Any, Any]:
        axis = charts.scale(values)
        return axis.low, axis.high

    assert ends(0.0) == ends(0.2, None, math.nan) == ends(1.0, -3.0) == (0, 1)
    assert ends(1.001, 0.4) == ends(1.5) == ends(1.2, 40.0) == (0, 1.5)
    assert ends(1.501) == ends(-0.1) == ends() == ends(None) == (None, None)


def test_metrics_with_one_estimate_give_way_to_those_with_several() -> None:
    rows = [drawn("P@1", 0.5), drawn("R@1", 0.4), drawn("R@1", 1.2, "unbiased")]
    found = charts.estimates(rows)
    assert [chart.title for chart in found.charts] == ["R@1"]
    assert (found.charts[0].kind, found.charts[0].y.high, found.columns) == ("dots", 1.5, 3)
    assert [series.x for series in found.charts[0].series] == [("vanilla",), ("unbiased",)]
    assert [chart.title for chart in charts.estimates(rows[:2]).charts] == ["P@1", "R@1"]


def test_systems_by_name_and_powers_by_number() -> None:
    rows = [drawn(f"P@{k}", 0.5, propensity=f"p^{g}", parameters={"γ": g})
            for k in (1, 3, 5, 7) for g in (0.5, 2)]  # fmt: skip
    found = charts.along(rows, rules={"P@3": 0.6})
    assert found.columns == 3
    assert [chart.series[0].x for chart in found.charts] == [(0.5, 2.0)] * 4
    assert [[rule.value for rule in chart.rules] for chart in found.charts] == [[], [0.6], [], []]
    assert all((chart.kind, chart.y.high) == ("lines", 1) for chart in found.charts)
    mixed = charts.along([*rows[:2], drawn("P@1", 0.5, propensity="jain")])
    assert (mixed.columns, mixed.charts[0].kind) == (1, "dots")
    assert mixed.charts[0].series[0].x == ("p^0.5", "p^2", "jain")
    others = charts.along([drawn("P@1", 0.5, propensity=f"a = {a}", parameters={"a": a, "b": 1})
                           for a in (0.5, 2)])  # fmt: skip
    assert (others.charts[0].kind, others.charts[0].series[0].x) == ("dots", ("a = 0.5", "a = 2"))
