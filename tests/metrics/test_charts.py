"""Estimates as pictures: what stands on a chart, the files, and the command that draws them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from unmask import predictions, report
from unmask.cli import app
from unmask.metrics import ESTIMATORS, Table, Tables, charts, compare, evaluate, powers, sensitivity
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
    assert drawing.rules == (report.Rule("truth", 0.5, style=charts.STYLES["truth"]),)


@pytest.mark.parametrize("parameters", [(0.5, 2.0), (0.5, None), (None, None)])
def test_models_with_a_parameter_stand_on_an_axis_of_numbers(
    parameters: tuple[float | None, ...], table: Table
) -> None:
    """Whatever they are called; by name if one of them has none."""
    rows = [
        {"propensity": name, "parameter": parameter, **row}
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
