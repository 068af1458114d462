"""`unmask evaluate`: how good are these predictions, given that labels are missing?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmask.cli import options
from unmask.cli.output import results, show_rows, show_text

if TYPE_CHECKING:
    from unmask.metrics import Table, Tables

ABOUT_PSP = (
    "PSP@k, PSnDCG@k and PSDCG@k divide weighted hits by the best weighted hits possible on the "
    "observed labels:\na score of at most 1, below P@k where rare labels are missed."
)
ABOUT_EXCESS = (
    "An unbiased estimate is right on average; a single one may exceed 1 or fall below 0 when few "
    "rows carry it."
)


def evaluate(
    labels: Annotated[Path, typer.Option(help="File with the observed labels of the test rows.")],
    predictions: Annotated[Path, typer.Option(help="File with the predictions, label:score.")],
    train: Annotated[
        Path | None,
        typer.Option(help="Training file, from whose labels propensities are computed."),
    ] = None,
    propensity: options.Propensity = "jain",
    dataset: Annotated[
        str | None, typer.Option(help="Short for --propensity jain:DATASET.")
    ] = None,
    metrics: Annotated[
        str, typer.Option(help="Metrics, separated by commas, such as P@1,R@5,nDCG@5,PSP@3.")
    ] = "P@1,P@3,P@5,R@1,R@3,R@5,nDCG@5,PSP@1,PSP@3,PSP@5",
    estimators: Annotated[
        str, typer.Option(help="Estimators, separated by commas; each is used where it applies.")
    ] = "vanilla,unbiased,deconvolved,normalized",
    confidence: Annotated[float, typer.Option(help="Confidence of the intervals.")] = 0.95,
    interval: Annotated[str, typer.Option(help="normal, percentile or bca.")] = "normal",
    compare: Annotated[
        list[Path] | None,
        typer.Option(help="Predictions of another system on the same rows; may be repeated."),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Also write a page to this file.")] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV instead of a table.")] = False,
    as_json: options.Json = False,
) -> None:
    """Estimate ranking metrics from incomplete labels, with intervals and a verdict on each.

    [dim]unmask evaluate --labels test.txt --predictions ours.txt --train train.txt[/]
    [dim]unmask evaluate --labels test.txt --predictions ours.txt --compare theirs.txt \\
         --train train.txt --dataset Amazon-670K --metrics R@5 --estimators unbiased,deconvolved[/]
    """
    from unmask import data
    from unmask import metrics as library
    from unmask import predictions as files

    observed: Any = data.read(labels).labels
    asked = {"metrics": metrics.split(","), "estimators": estimators.split(",")}
    settings: dict[str, Any] = {**asked, "confidence": confidence, "interval": interval}
    p = _propensities(train, observed, f"jain:{dataset}" if dataset else propensity)
    top = files.read(predictions)
    table = library.evaluate(top, observed, p, **settings)
    tables: list[Table | Tables] = [table]
    if compare:
        systems = {str(path): files.read(path) for path in [predictions, *compare]}
        del settings["interval"]
        tables.append(library.compare(systems, observed, p, **_comparable(settings)))
    if html is not None:
        _write_page(html, table, tables[1:], predictions)
    if as_json or as_csv:
        for each in tables:
            show_text(each.to("json" if as_json else "csv"))
        return
    _show(table, predictions)
    for difference in tables[1:]:
        results.print(f"\ndifference to {predictions}, paired over rows", markup=False)
        results.print(str(difference), markup=False)


def _propensities(train: Path | None, observed: Any, described: str) -> Any:
    from unmask import data
    from unmask import propensity as models

    if train is not None:
        return models.named(described, data.read(train).labels)
    if described.partition(":")[0] == "jain":
        raise ValueError(
            "Jain propensities are computed from the training labels: give --train FILE, or "
            "propensities with --propensity FILE."
        )
    return models.named(described, observed)


def _comparable(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings without what cannot be paired over rows."""
    kept = [e for e in settings["estimators"] if e != "filtered"]
    return {**settings, "estimators": kept}


def _show(table: Table, predictions: Path) -> None:
    from unmask.metrics import ESTIMATORS

    estimators = list(dict.fromkeys(each.estimator for each in table))
    cells = {(each.metric, each.estimator): each for each in table}
    names = list(dict.fromkeys(each.metric for each in table))
    show_rows(
        str(predictions),
        ["metric", *estimators],
        ([name, *(_cell(cells.get((name, e))) for e in estimators)] for name in names),
    )
    for name in estimators:
        results.print(f"{name}: {ESTIMATORS[name].meaning}", markup=False)
    for each in table:
        if each.verdict.startswith(("unusable", "wide", "doubtful")):
            results.print(f"{each.metric} {each.estimator}: {each.verdict}", markup=False)
    if any(name.startswith("PS") for name in names):
        results.print(ABOUT_PSP, markup=False)
    if any(not 0 <= each.value <= 1 for each in table if each.estimator == "unbiased"):
        results.print(ABOUT_EXCESS, markup=False)


def _cell(each: Any) -> str:
    if each is None:
        return ""
    if each.value != each.value:
        return "refused"
    half = (each.interval[1] - each.interval[0]) / 2
    return f"{each.value:.4f} ± {half:.4f}"


def _write_page(path: Path, table: Table, differences: list[Any], predictions: Path) -> None:
    from unmask import report
    from unmask.experiments import looks  # noqa: F401 (the same looks as in the studies)
    from unmask.metrics import ESTIMATORS

    groups: dict[str, list[Any]] = {}
    for each in table:
        groups.setdefault(each.metric, []).append(each)
    charts = [
        report.Chart(
            "dots",
            [
                report.Series(e.estimator, [metric], [e.value], [e.interval[0]], [e.interval[1]])
                for e in group
            ],
            title=metric,
        )
        for metric, group in groups.items()
    ]
    rows = [
        [e.metric, e.estimator, report.Estimate(e.value, *e.interval), e.effective_sample_size,
         e.largest_contribution, _verdict(e.verdict)]
        for e in table
    ]  # fmt: skip
    columns: list[Any] = [
        "metric", "estimator", report.Column("value", ".4f"),
        report.Column("effective rows", ",.0f"), report.Column("largest row", ".1%"), "verdict",
    ]  # fmt: skip
    used = list(dict.fromkeys(e.estimator for e in table))
    sections = [
        report.Section(
            "Estimates", [report.Table(columns, rows), report.Panels(charts, columns=3)]
        ),
        report.Section(
            "What the columns mean",
            [report.Text("\n\n".join(f"`{name}`: {ESTIMATORS[name].meaning}." for name in used))],
        ),
    ]
    if differences:
        body = [
            [row["system"], row["metric"], row["estimator"],
             report.Estimate(row["value"], row["low"], row["high"]), row["details"]["p_value"]]
            for tables in differences for row in tables.to_dicts()
        ]  # fmt: skip
        heads: list[Any] = [
            "system",
            "metric",
            "estimator",
            report.Column("difference", ".4f"),
            "p",
        ]
        sections.append(
            report.Section("Compared with the first system", [report.Table(heads, body)])
        )
    worst = [f"{e.metric} {e.estimator}: {e.verdict}." for e in table if e.verdict != "trust"]
    report.write(report.Page(f"Evaluation of {predictions.name}", worst[:5], sections), path)


def _verdict(words: str) -> Any:
    from unmask import report

    levels = {"trust": "good", "wide": "warning", "doubtful": "warning", "unusable": "error"}
    level = next((levels[key] for key in levels if words.startswith(key)), "info")
    return report.Verdict(level, words)
