"""The result table: addressing, every written form, charts."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.helpers.rankings import one_top
from unmask import predictions
from unmask.cli import app
from unmask.metrics import (
    ESTIMATORS,
    METRICS,
    Estimate,
    Table,
    Tables,
    evaluate,
    powers,
    sensitivity,
    supported,
)
from unmask.metrics.claims import MEASURED, Level, Reason, Verdict
from unmask.metrics.table import WRITERS
from unmask.pages import estimates as charts
from unmask.predictions import TopK


@pytest.fixture(scope="module")
def table() -> Table:
    rng = np.random.default_rng(0)
    labels = (rng.random((200, 10)) < 0.3).astype(int)
    scores = (labels + rng.random((200, 10))).astype(np.float32)
    return evaluate(
        scores,
        labels,
        rng.uniform(0.5, 1, 10),
        metrics=["P@1", "R@3", "PSP@3", "macro-P@3"],
        estimators=["vanilla", "unbiased", "self_normalized"],
    )


def test_cells_are_the_asked_ones_that_are_supported_in_order(table: Table) -> None:
    assert [(each.metric, each.estimator) for each in table] == [
        ("P@1", "vanilla"),
        ("P@1", "unbiased"),
        ("R@3", "vanilla"),
        ("R@3", "unbiased"),
        ("R@3", "self_normalized"),
        ("PSP@3", "normalized"),
        ("macro-P@3", "vanilla"),
        ("macro-P@3", "unbiased"),
    ]
    with pytest.raises(KeyError, match=r"no estimate \('P@9', 'vanilla'\); there are"):
        table["P@9", "vanilla"]


def test_every_estimate_has_an_uncertainty(table: Table) -> None:
    for each in table:
        low, high = each.interval
        assert 0 < each.standard_error < 1
        assert low < each.value < high
        assert 0 < each.effective_sample_size <= 200
        assert 0 < each.largest_contribution < 1
        assert each.rows == 200


@pytest.mark.parametrize("kind", WRITERS)
def test_written_forms_hold_every_estimate(kind: str, table: Table) -> None:
    for given in (table, Tables("system", {"a": table, "b": table})):
        written = given.to(kind)
        for name in ("P@1", "R@3", "PSP@3", "macro-P@3"):
            assert name in written
    if kind in ("text", "markdown", "latex"):
        assert f"{table['R@3', 'unbiased'].value:.4f}" in table.to(kind)


def test_numbers_survive_json_and_csv(table: Table) -> None:
    wanted = table["R@3", "unbiased"]
    for rows in (json.loads(table.to("json")), list(csv.DictReader(io.StringIO(table.to("csv"))))):
        row = next(r for r in rows if (r["metric"], r["estimator"]) == ("R@3", "unbiased"))
        assert float(row["value"]) == wanted.value
        assert (float(row["low"]), float(row["high"])) == wanted.interval


def test_json_has_no_infinities() -> None:
    alone = evaluate(one_top([[0]]), [[1]], metrics=["P@1"])
    assert alone["P@1", "vanilla"].standard_error == np.inf
    assert json.loads(alone.to("json"))[0]["standard_error"] is None


def test_one_row_that_carries_everything_is_called_out() -> None:
    labels = np.zeros((500, 30), dtype=int)
    labels[:, 0] = 1
    labels[7] = 1
    propensity = np.full(30, 0.1)
    table = evaluate(one_top([[0]] * 500), labels, propensity, metrics=["R@1"])
    verdict = table["R@1", "unbiased"].verdict
    assert verdict.reason is Reason.FEW_ROWS
    assert str(verdict).startswith("unusable: 1 of 500 rows carry 100% of the estimate")
    assert table["R@1", "unbiased"].largest_contribution > 0.99
    assert "observed labels only" in str(table["R@1", "vanilla"].verdict)


def test_registry_names_only_known_estimators() -> None:
    for name in METRICS:
        assert set(supported(name)) <= set(ESTIMATORS)
        assert METRICS[name].meaning
    used = {estimator for name in METRICS for estimator in supported(name)}
    assert used == set(ESTIMATORS)


def test_tables_are_addressed_by_key(table: Table) -> None:
    both = Tables("system", {"a": table, "b": table})
    assert list(both) == ["a", "b"]
    assert len(both) == 2
    assert both["a"]["P@1", "vanilla"].value == table["P@1", "vanilla"].value
    assert both.to_dicts()[0]["system"] == "a"


def test_estimates_print_value_and_interval() -> None:
    large = Estimate("R@1", "unbiased", -12345.6, 1e5, (-2e5, 2e5), 1.0, 1.0, 9, WIDE)
    assert str(large) == "< −1e3 [< −1e3, > 1e3]"
    assert str(replace(large, metric="DCG@1")) == "−1.235e+04 [−200,000, 200,000]"


def test_names_cannot_become_markup() -> None:
    each = Estimate("P@1", "vanilla", 0.5, 0.1, (0.3, 0.7), 9.0, 0.1, 99, MEASURED)
    tables = Tables("system", {"a|b": Table([each]), r"5% & \x_{2}": Table([each])})
    marked = tables.to("markdown").splitlines()
    assert [len(re.findall(r"(?<!\\)\|", line)) for line in marked] == [5] * len(marked)
    assert r"5\% \& \textbackslash{}x\_\{2\}" in tables.to("latex")


ONE = Estimate("P@1", "vanilla", 0.5, 0.1, (0.3, 0.7), 25.0, 0.04, 50, MEASURED)

WIDE = Verdict(Level.WIDE, Reason.WIDE, details={"half_width": 0.2})


def test_text_is_the_grid_and_then_what_to_be_careful_about() -> None:
    doubtful = replace(ONE, metric="R@10", estimator="bound", verdict=WIDE)
    assert str(Table([ONE, doubtful])) == (
        "metric  vanilla                  bound\n"
        "P@1     0.5000 [0.3000, 0.7000]\n"
        "R@10                             0.5000 [0.3000, 0.7000]\n"
        "\n"
        "R@10 by bound: wide: ± 0.2000"
    )
    tables = Tables("system", {"ours": Table([ONE]), "theirs": Table([doubtful])})
    assert str(tables) == (
        "metric  estimator  ours                     theirs\n"
        "P@1     vanilla    0.5000 [0.3000, 0.7000]\n"
        "R@10    bound                               0.5000 [0.3000, 0.7000]\n"
        "\n"
        "theirs: R@10 by bound: wide: ± 0.2000"
    )
    assert len(Table([ONE, doubtful])) == 2
    assert len(tables) == 2


def test_numbers_are_short() -> None:
    large = replace(ONE, value=9999.0, interval=(-9999.99, 10_000.0))
    assert str(large) == "> 1e3 [< −1e3, > 1e3]"  # a metric of at most 1
    assert str(replace(large, metric="DCG@5")) == "9999.0000 [−9999.9900, 10,000]"
    assert large.plus_minus == "> 1e3 ± > 1e3"
    off = replace(ONE, value=-3010.0, interval=(0.0, 1.0))  # kept within the range of the metric
    assert off.plus_minus == "< −1e3"
    assert replace(off, value=1.9).plus_minus == "1.9000 ± 0.5000"


def test_markdown_and_latex_hold_half_the_interval() -> None:
    both = Table([ONE, replace(ONE, estimator="self_normalized", interval=(0.4, 0.8))])
    assert both.to("markdown") == (
        "| metric | vanilla | self_normalized |\n|---|---|---|\n"
        "| P@1 | 0.5000 ± 0.2000 | 0.5000 ± 0.2000 |"
    )
    assert both.to("latex") == (
        "\\begin{tabular}{lrr}\nmetric & vanilla & self\\_normalized \\\\\n\\hline\n"
        "P@1 & $0.5000 \\pm 0.2000$ & $0.5000 \\pm 0.2000$ \\\\\n\\end{tabular}"
    )


def test_a_name_that_looks_like_a_number_is_no_markup() -> None:
    tables = Tables("system", {r"$\input{x}$": Table([ONE])})
    assert r"\$\textbackslash{}input\{x\}\$" in tables.to("latex")


def test_what_is_not_finite_is_null_however_deep() -> None:
    deep = replace(
        ONE, value=math.nan, interval=(-math.inf, math.inf),
        details={"rows_only": [-math.inf, 0.5], "more": {"p": (math.nan, 1)}, "word": "x"},
    )  # fmt: skip

    def refuse(word: str) -> None:
        raise AssertionError(word)

    wanted = {"rows_only": [None, 0.5], "more": {"p": [None, 1]}, "word": "x"}
    (row,) = json.loads(Table([deep]).to("json"), parse_constant=refuse)
    assert (row["value"], row["low"], row["high"]) == (None, None, None)
    assert row["details"] == wanted
    (line,) = csv.DictReader(Table([deep]).to("csv").splitlines())
    assert json.loads(line["details"], parse_constant=refuse) == wanted


@pytest.mark.parametrize("empty", [Table(()), Tables("system", {})])
def test_tables_without_estimates_are_written_all_the_same(empty: Any) -> None:
    assert empty.to("text").startswith("metric")
    assert json.loads(empty.to("json")) == []
    assert empty.to("csv").strip() == ""
    assert empty.to("markdown").startswith("| metric |")
    assert "metric" in empty.to("latex")
    with pytest.raises(ValueError, match="unknown format 'html'; use one of"):
        empty.to("html")


P = np.array([0.9, 0.8, 0.7, 0.6, 0.5])

LABELS = np.array([[1, 0, 1, 0, 0], [0, 1, 0, 0, 1], [1, 1, 0, 0, 0], [0, 0, 0, 1, 0]] * 5)

SCORES = np.array([[5, 4, 3, 2, 1], [1, 5, 2, 3, 4], [4, 1, 5, 2, 3], [1, 2, 3, 5, 4]] * 5)

OPTIONS = {"metrics": ["P@1", "R@3"], "estimators": ["vanilla", "unbiased"]}


@pytest.fixture(scope="module")
def drawn_table() -> Table:
    return evaluate(SCORES.astype(np.float32), LABELS, P, **OPTIONS)


@pytest.fixture(scope="module")
def under_powers() -> Tables:
    return sensitivity(SCORES.astype(np.float32), LABELS, powers(P, [0, 1, 2]), **OPTIONS)


def test_a_panel_per_metric_shows_every_estimate_with_its_interval(drawn_table: Table) -> None:
    drawn = drawn_table.chart().charts
    assert [chart.title for chart in drawn] == ["P@1", "R@3"]
    for chart in drawn:
        for series in chart.series:
            each = drawn_table[chart.title, series.name]
            assert (series.y, series.low, series.high) == (
                (each.value,), (each.interval[0],), (each.interval[1],),
            )  # fmt: skip


@pytest.mark.parametrize("suffix", [".png", ".svg", ".csv", ".json"])
def test_plots_are_files(
    suffix: str, drawn_table: Table, under_powers: Tables, tmp_path: Path
) -> None:
    for name, each in (("one", drawn_table), ("many", under_powers)):
        path = each.plot(tmp_path / f"{name}{suffix}")
        assert path.stat().st_size > 100
    with pytest.raises(ValueError, match="is saved as"):
        drawn_table.plot(tmp_path / "drawn_table.pdf")


def test_a_refused_estimate_leaves_a_gap() -> None:
    row = {"metric": "R@1", "estimator": "deconvolved", "value": np.nan, "low": np.nan}
    (chart,) = charts.estimates([{**row, "high": np.nan}]).charts
    assert chart.series[0].y == (None,)


def test_every_estimator_has_a_style_of_its_own() -> None:
    styles = {name: charts.STYLES[name] for name in ESTIMATORS if name != "normalized"}
    assert len({*styles.values(), charts.STYLES["truth"]}) == len(styles) + 1


def test_a_line_at_one_stands_where_the_axis_goes_beyond_it() -> None:
    row = {"metric": "P@1", "estimator": "unbiased", "low": 0.4, "high": 1.2}
    within, beyond = (charts.estimates([{**row, "value": x}]).charts[0] for x in (0.9, 1.1))
    assert within.rules == ()
    assert [(rule.name, rule.value) for rule in beyond.rules] == [("most possible", 1.0)]


@pytest.mark.parametrize("parameters", [(0.5, 2.0), (0.5, None), (None, None)])
def test_models_with_a_parameter_stand_on_an_axis_of_numbers(
    parameters: tuple[float | None, ...], drawn_table: Table
) -> None:
    """Whatever they are called; by name if one of them has none."""
    rows = [
        {"propensity": name, "parameters": {} if parameter is None else {"c": parameter}, **row}
        for name, parameter in zip(("γ = 7", "b"), parameters, strict=True)
        for row in drawn_table.to_dicts()
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
    assert (found.charts[0].kind, found.charts[0].y.high, found.columns) == ("dots", 1.5, 1)
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
