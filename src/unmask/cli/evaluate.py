"""`unmask evaluate`: how good are these predictions, given that labels are missing?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmask._text import visible
from unmask.cli import options
from unmask.cli.output import (
    command,
    one_line,
    passing,
    results,
    show_json,
    show_rows,
    show_text,
)

if TYPE_CHECKING:
    from unmask.metrics import Ranking, Table, Tables

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
    train: options.Train = None,
    propensity: options.Propensity = "jain",
    dataset: Annotated[
        str | None,
        typer.Option(
            help="Short for --propensity jain:DATASET.",
            autocompletion=options.presets,
        ),
    ] = None,
    metrics: Annotated[
        str, typer.Option(help="Metrics, separated by commas, such as P@1,R@5,nDCG@5,PSP@3.")
    ] = "P@1,P@3,P@5,R@1,R@3,R@5,nDCG@5,PSP@1,PSP@3,PSP@5",
    estimators: Annotated[
        str,
        typer.Option(
            help="Estimators, separated by commas; each is used where it applies.",
            autocompletion=options.names("unmask.metrics", "ESTIMATORS", several=True),
        ),
    ] = "vanilla,unbiased,deconvolved,normalized",
    confidence: Annotated[float, typer.Option(help="Confidence of the intervals.")] = 0.95,
    interval: Annotated[str, typer.Option(help="normal, percentile or bca.")] = "normal",
    compare: Annotated[
        list[Path] | None,
        typer.Option(help="Predictions of another system on the same rows; may be repeated."),
    ] = None,
    sensitivity: Annotated[
        str | None,
        typer.Option(
            help="Also evaluate under other propensities: powers (p^γ) or jain (other a and b). "
            "With --compare: does the order of the systems survive?",
            autocompletion=options.names("unmask.cli.evaluate", "MODELS"),
        ),
    ] = None,
    html: options.Html = None,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV instead of a table.")] = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Estimate ranking metrics from incomplete labels, with intervals and a verdict on each.

    [dim]unmask evaluate --labels test.txt --predictions ours.txt --train train.txt[/]
    [dim]unmask evaluate --labels test.txt --predictions ours.txt --train train.txt \\
         --sensitivity powers --html page.html[/]
    [dim]unmask evaluate --labels test.txt --predictions ours.txt --compare theirs.txt \\
         --train train.txt --dataset Amazon-670K --metrics R@5 --estimators unbiased,deconvolved[/]
    """
    from unmask import data
    from unmask import metrics as library
    from unmask import predictions as files

    with passing.status(f"reading {labels}, {predictions}"):
        observed: Any = data.read(labels).labels
        trained = None if train is None else data.read(train).labels
        p = _propensities(trained, observed, f"jain:{dataset}" if dataset else propensity)
        models = _models(sensitivity, p, trained)
        top = files.read(predictions)
    settings: dict[str, Any] = {
        "metrics": metrics.split(","), "estimators": estimators.split(","),
        "confidence": confidence, "seed": seed,
    }  # fmt: skip
    with passing.status(f"evaluating {observed.shape[0]:,} rows"):
        table = library.evaluate(top, observed, p, interval=interval, **settings)
        others = library.sensitivity(top, observed, models, **settings) if models else None
        differences, rankings = None, []
        if compare:
            systems = {str(path): files.read(path) for path in [predictions, *compare]}
            differences = library.compare(systems, observed, p, **_comparable(settings))
        if compare and models:
            around = library.jain_around(trained) if sensitivity == "jain" else models
            rankings = [
                library.ranking(systems, observed, around, metric=metric, estimator=estimator,
                                confidence=confidence, seed=seed)
                for metric, estimator in _decisive(table)
            ]  # fmt: skip
    if as_json or html is not None:
        record = _record(predictions, table, others, differences, rankings, observed, p)
    if html is not None:
        _write_page(html, record)
    if as_json:
        show_json(record)
    elif as_csv:
        for each in (table, others, differences):
            if each is not None:
                show_text(each.to("csv"))
    else:
        _show(table, predictions)
        if others is not None:
            results.print("\nthe same under other propensities")
            results.print(str(others))
        if differences is not None:
            results.print(f"\ndifference to {visible(str(predictions))}, paired over rows")
            results.print(str(differences))
        for order in rankings:
            results.print(f"\n{order.statement}")


def _decisive(table: Table) -> list[tuple[str, str]]:
    """What an order of systems is judged by: P and R at their largest k, best estimator at hand."""
    found: dict[str, tuple[str, str]] = {}
    for metric in dict.fromkeys(each.metric for each in table):
        kind, cells = metric.partition("@")[0], [e.estimator for e in table if e.metric == metric]
        wanted = ("unbiased",) if kind == "P" else ("deconvolved", "unbiased")
        if kind in ("P", "R") and (best := next((e for e in wanted if e in cells), None)):
            found[kind] = metric, best
    return list(found.values())


def _record(
    predictions: Path,
    table: Table,
    others: Tables | None,
    differences: Tables | None,
    rankings: list[Ranking],
    observed: Any,
    p: Any,
) -> dict[str, Any]:
    """Everything that a page needs, as `--json` prints it and `unmask report` reads it."""
    from unmask.pages.label_figures import label_facts

    return {
        "kind": "evaluation",
        "source": str(predictions),
        "command": command(),
        "estimates": table.to_dicts(),
        "sensitivity": [] if others is None else others.to_dicts(),
        "differences": [] if differences is None else differences.to_dicts(),
        "rankings": [each.to_dict() for each in rankings],
        "labels": label_facts(observed, p),
    }


def _write_page(path: Path, record: dict[str, Any]) -> None:
    from unmask import pages, report

    with passing.status("drawing"):
        report.write(pages.page([record]), path)


def _propensities(trained: Any, observed: Any, described: str) -> Any:
    from unmask import propensity as models

    if trained is not None:
        return models.from_spec(described, trained)
    if described.partition(":")[0] == "jain":
        raise ValueError(
            "Jain propensities are computed from the training labels: give --train FILE, or "
            "propensities with --propensity FILE."
        )
    return models.from_spec(described, observed)


def _models(kind: str | None, p: Any, trained: Any) -> Any:
    """Propensity models by name, as asked for by --sensitivity; None if it was not."""
    from unmask import _validation

    return (
        None
        if kind is None
        else MODELS[_validation.one_of(kind, MODELS, "sensitivity")](p, trained)
    )


def _powers(p: Any, trained: Any) -> Any:
    from unmask.metrics import powers

    return powers(getattr(p, "value", p))  # of estimated propensities, the estimate


def _jain(p: Any, trained: Any) -> Any:
    from unmask.metrics import jain_grid

    if trained is None:
        raise ValueError("other constants of Jain's model need the training labels: give --train.")
    return jain_grid(trained)


def _comparable(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings without what cannot be paired over rows."""
    kept = [e for e in settings["estimators"] if e != "filtered"]
    return {**settings, "estimators": kept}


def _show(table: Table, predictions: Path) -> None:
    from unmask.metrics import ESTIMATORS, METRICS
    from unmask.metrics.registry import split

    estimators = list(dict.fromkeys(each.estimator for each in table))
    cells = {(each.metric, each.estimator): each for each in table}
    names = list(dict.fromkeys(each.metric for each in table))
    show_rows(
        str(predictions),
        ["metric", *estimators],
        ([name, *(_cell(cells.get((name, e))) for e in estimators)] for name in names),
    )
    for name in estimators:
        results.print(f"{name}: {ESTIMATORS[name].meaning}")
    for note in table.notes:
        results.print(one_line(note))
    shares = [e.details["propensity_share"] for e in table if "propensity_share" in e.details]
    if shares:
        results.print(
            "Intervals carry what is not known of the propensities: "
            f"{min(shares):.0%} to {max(shares):.0%} of the variance."
        )
    if any(METRICS[split(name)[0]].over == "ratio" for name in names):
        results.print(ABOUT_PSP)
    if any(each.value < 0 or each.value > 1 for each in table if each.estimator == "unbiased"):
        results.print(ABOUT_EXCESS)


def _cell(each: Any) -> str:
    if each is None:
        return ""
    if each.value != each.value:
        return "refused"
    half = (each.interval[1] - each.interval[0]) / 2
    return f"{each.value:.4f} ± {half:.4f}"


MODELS: dict[str, Callable[[Any, Any], Any]] = {"powers": _powers, "jain": _jain}
"""What --sensitivity can vary: from the propensities and the training labels to named models."""
