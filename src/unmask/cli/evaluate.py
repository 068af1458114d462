"""`unmask evaluate`: how good are these predictions, given that labels are missing?"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeAlias, TypedDict

import typer

from unmask._text import visible
from unmask.cli import options
from unmask.cli.inputs import obey, read_systems, read_test, table_columns, with_ancestors
from unmask.cli.output import (
    command,
    one_line,
    progress_console,
    results,
    show_json,
    show_rows,
    show_text,
)
from unmask.cli.per_label import counts_of, write_label_counts
from unmask.cli.predicted import as_asked, read_groups

if TYPE_CHECKING:
    import scipy.sparse as sp

    from unmask._typing import Array, Floats, Record
    from unmask.cli.predicted import Predicted
    from unmask.data import Hierarchy
    from unmask.metrics import Estimate, Ranking, Table, Tables
    from unmask.metrics.by_label import LabelCounts, LabelRankings
    from unmask.metrics.judged_pairs import JudgedPairs
    from unmask.metrics.vary import Sensitivity
    from unmask.propensity import PropensityEstimate, PropensityModel

Propensities: TypeAlias = "Floats | PropensityEstimate | sp.csr_array"
Models: TypeAlias = "dict[str, PropensityModel]"

MOVES = "how far conditional numbers move if propensities are off, or labels of a row lost together"


def evaluate(
    labels: Annotated[
        Path,
        typer.Option(
            help="File with the observed labels of the test rows.", callback=options.existing
        ),
    ],
    predictions: Annotated[
        Path,
        typer.Option(help="File with the predictions, label:score.", callback=options.existing),
    ],
    train: options.Train = None,
    propensity: options.Propensity = "jain",
    dataset: Annotated[
        str | None,
        typer.Option(
            help="Short for --propensity jain:DATASET.",
            autocompletion=options.presets,
        ),
    ] = None,
    complete: Annotated[
        bool,
        typer.Option("--complete", help="No label is missing: short for --propensity constant:1."),
    ] = False,
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
    confidence: options.Confidence = 0.95,
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
    judgements: options.Judgements = None,
    threshold: Annotated[
        str | None,
        typer.Option(
            help="Read predictions as sets, of the labels whose score is at least this: a number, "
            "or a file of `unmask threshold`. Without it a list is a set as it is."
        ),
    ] = None,
    groups: Annotated[
        Path | None,
        typer.Option(
            help="Also by group of rows: a file with the group of every row on a line of its own, "
            "or lines id, tab, group."
        ),
    ] = None,
    hierarchy: Annotated[
        Path | None,
        typer.Option(
            help="Evaluate labels with all their ancestors: OBO, SKOS in Turtle, or lines child, "
            "tab, parent."
        ),
    ] = None,
    per_label: Annotated[
        Path | None,
        typer.Option(
            help="Also write a table with a line per label: .csv, .tsv, .jsonl, .parquet."
        ),
    ] = None,
    table: options.Table = None,
    no_sensitivity: Annotated[
        bool,
        typer.Option(
            "--no-sensitivity",
            help="Do not say how far conditional numbers move if propensities are off by a factor, "
            "or labels of a row go missing together.",
        ),
    ] = False,
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
    [dim]unmask evaluate --labels test.csv --predictions predictions.csv --train tags.csv \\
         --per-label per-label.csv[/]
    [dim]unmask evaluate --labels test.txt --predictions ours.txt --compare theirs.txt \\
         --train train.txt --dataset Amazon-670K --metrics R@5 --estimators unbiased,deconvolved[/]
    [dim]unmask evaluate --labels test.txt --predictions scores.txt --train train.txt \\
         --metrics micro-F1,macro-F1 --threshold 0.5 --groups years.txt[/]
    [dim]unmask evaluate --labels test.txt --predictions scores.npy --train train.txt \\
         --metrics mAP,macro-AUC,Fmax --html page.html[/]
    """
    import numpy as np

    from unmask.metrics.request import Request

    rows = read_test(labels, train, table_columns(table), judgements)
    described = f"jain:{dataset}" if dataset else propensity
    if complete:
        _refuse_beside_complete(described, sensitivity)
        described = "constant:1"
    refuse_without_training(train, described)
    if hierarchy is not None and sensitivity:
        raise ValueError("--hierarchy has propensities of its own; leave out --sensitivity.")
    rows, tops = read_systems(rows, [predictions, *(compare or ())])
    rows, tree = with_ancestors(rows, hierarchy)
    p = propensities_of(rows.trained, rows.observed, described)
    rows, tops, pairs = obey(rows, tops)
    names = metrics.split(",")
    Request(names, estimators.split(","))
    systems = {
        path: as_asked(top, rows, names, threshold, path, as_sets=tree is not None)
        for path, top in tops.items()
    }
    first = systems[str(predictions)]
    observed, trained = rows.observed, rows.trained
    models = _models(sensitivity, p, trained)
    stated = p if pairs is None else _certain(pairs, p)
    settings: Settings = {
        "metrics": names, "estimators": estimators.split(","),
        "confidence": confidence, "seed": seed,
    }  # fmt: skip
    with progress_console.status(f"evaluating {observed.shape[0]:,} rows"):
        evaluation = _evaluate(first, observed, stated, models, interval, settings, tree)
        if pairs is not None:
            evaluation = replace(evaluation, table=pairs.with_counts(evaluation.table))
        if groups is not None:
            named = read_groups(groups, rows)
            evaluation = replace(
                evaluation, groups=_by_group(first, observed, stated, named, settings, tree)
            )
        if compare:
            differences = _differences(systems, observed, stated, settings, tree)
            evaluation = replace(evaluation, differences=differences)
        if compare and models is not None:
            around = _models_around(models, sensitivity, trained)
            rankings = _rankings(systems, observed, around, evaluation.table, settings)
            evaluation = replace(evaluation, rankings=rankings)
        if not no_sensitivity:
            evaluation = replace(evaluation, moves=_moves(evaluation))
    if as_json or html is not None:
        record = _record(predictions, evaluation, observed, p)
        if evaluation.groups is not None:
            record |= {"groups": evaluation.groups.to_dicts()}
        if isinstance(first, np.ndarray) and tree is None:
            record |= {"curves": _curves(first, observed, stated, confidence)}
    if per_label is not None or ((as_json or html is not None) and rows.names is not None):
        run = evaluation.table.run
        counts = counts_of(rows, first, getattr(p, "value", p), confidence, run)
        if per_label is not None:
            write_label_counts(per_label, counts)
        if as_json or html is not None:
            record |= _by_name(counts)
    if html is not None:
        _write_page(html, record)
    if as_json:
        show_json(record)
    elif as_csv:
        for part in (
            evaluation.table, evaluation.groups, evaluation.sensitivity, evaluation.differences,
        ):  # fmt: skip
            if part is not None:
                show_text(part.to("csv"))
    else:
        _show(evaluation, predictions)


def _refuse_beside_complete(described: str, sensitivity: str | None) -> None:
    """Raise if labels are declared complete and something else is said of what is missing."""
    if described not in ("jain", "constant:1"):
        raise ValueError(
            f"--complete says that no label is missing, --propensity {described} that some are; "
            "leave out one of them."
        )
    if sensitivity is not None:
        raise ValueError("labels that are --complete leave --sensitivity nothing to vary.")


def _by_name(counts: LabelCounts | LabelRankings) -> dict[str, object]:
    """The part of a record that is about labels by name."""
    from unmask.metrics.by_label import LabelCounts

    if isinstance(counts, LabelCounts):
        return {"per_label": counts.to_dicts(), "places": counts.k}
    return {"label_rankings": counts.to_dicts()}


def _certain(pairs: JudgedPairs, p: Propensities) -> Propensities:
    """Propensities per entry where labels are verified; the doubt of an estimate is then lost."""
    if not pairs.pairs.certain.any():
        return p
    return pairs.pairs.propensity(getattr(p, "value", p))


class Settings(TypedDict):
    """What all evaluations of one command share."""

    metrics: list[str]
    estimators: list[str]
    confidence: float
    seed: int


@dataclass(frozen=True)
class Evaluation:
    """The estimates of one system, and what was asked for beside them."""

    table: Table
    sensitivity: Tables | None
    differences: Tables | None = None
    rankings: Sequence[Ranking] = ()
    moves: Sequence[Move] = ()
    groups: Tables | None = None


class Move(NamedTuple):
    """How far a conditional number moves: of a system, or (`system`) its difference to another."""

    system: str
    estimate: Estimate
    sensitivity: Sensitivity


def _moves(evaluation: Evaluation) -> list[Move]:
    """One per metric that has a conditional number: that of the best estimator."""
    from unmask.metrics.claims import best_by_metric

    tables = {"": evaluation.table}
    if evaluation.differences is not None:
        tables |= {name: evaluation.differences[name] for name in evaluation.differences}
    return [
        Move(system, each, each.sensitivity)
        for system, table in tables.items()
        for each in best_by_metric(table.conditional())
        if each.sensitivity is not None
    ]


def _evaluate(
    top: Predicted,
    observed: sp.csr_array,
    p: Propensities,
    models: Models | None,
    interval: str,
    settings: Settings,
    tree: Hierarchy | None,
) -> Evaluation:
    """One system, with the propensities as they are and under other ones."""
    from unmask import metrics

    table = metrics.evaluate(top, observed, p, interval=interval, hierarchy=tree, **settings)
    others = metrics.sensitivity(top, observed, models, **settings) if models else None
    return Evaluation(table, others)


def _by_group(
    top: Predicted,
    observed: sp.csr_array,
    p: Propensities,
    groups: list[str],
    settings: Settings,
    tree: Hierarchy | None,
) -> Tables:
    """The same for every group of rows."""
    from unmask import metrics

    return metrics.evaluate(top, observed, p, groups=groups, hierarchy=tree, **settings)


def _curves(
    scores: Array, observed: sp.csr_array, p: Propensities, confidence: float
) -> dict[str, list[dict[str, float]]]:
    """Precision, recall and F1 over thresholds, as observed and corrected."""
    from unmask.metrics import curve

    stated = getattr(p, "value", p)
    curves = [curve(scores, observed, each, confidence=confidence) for each in (None, stated)]
    return {each.estimator: each.to_dicts() for each in curves}


def _differences(
    systems: Mapping[str, Predicted],
    observed: sp.csr_array,
    p: Propensities,
    settings: Settings,
    tree: Hierarchy | None,
) -> Tables:
    """Every system against the first, by the estimators that can be paired over rows."""
    from unmask import metrics

    paired = [name for name in settings["estimators"] if name != "filtered"]
    options: Settings = {**settings, "estimators": paired}
    return metrics.compare(systems, observed, p, hierarchy=tree, **options)


def _rankings(
    systems: Mapping[str, Predicted],
    observed: sp.csr_array,
    models: Models,
    table: Table,
    settings: Settings,
) -> list[Ranking]:
    """Whether the order of the systems survives other propensities, for the decisive metrics."""
    from unmask import metrics

    return [
        metrics.ranking(
            systems, observed, models, metric=metric, estimator=estimator,
            confidence=settings["confidence"], seed=settings["seed"],
        )
        for metric, estimator in _decisive(table)
    ]  # fmt: skip


def _decisive(table: Table) -> list[tuple[str, str]]:
    """What an order of systems is judged by: P and R at their largest k, best estimator at hand."""
    decisive: dict[str, tuple[str, str]] = {}
    for metric in dict.fromkeys(each.metric for each in table):
        kind, cells = metric.partition("@")[0], [e.estimator for e in table if e.metric == metric]
        preferred = ("unbiased",) if kind == "P" else ("deconvolved", "unbiased")
        if kind in ("P", "R") and (best := next((e for e in preferred if e in cells), None)):
            decisive[kind] = metric, best
    return list(decisive.values())


def _record(
    predictions: Path, evaluation: Evaluation, observed: sp.csr_array, p: Propensities
) -> Record:
    """Everything that a page needs, as `--json` prints it and `unmask report` reads it."""
    from unmask.pages.labels import label_facts

    return {
        "kind": "evaluation",
        "source": str(predictions),
        "command": command(),
        "headline": evaluation.table.headline,
        "run": None if evaluation.table.run is None else evaluation.table.run.to_dict(),
        "estimates": evaluation.table.to_dicts(),
        "moves": [
            {
                "system": each.system,
                "metric": each.estimate.metric,
                "estimator": each.estimate.estimator,
                "value": each.estimate.value,
                **each.sensitivity.to_dict(),
            }
            for each in evaluation.moves
        ],
        "comparison": evaluation.differences
        and {
            "title": evaluation.differences.title,
            "headline": evaluation.differences.headline,
        },
        "sensitivity": evaluation.sensitivity.to_dicts() if evaluation.sensitivity else [],
        "differences": evaluation.differences.to_dicts() if evaluation.differences else [],
        "rankings": [ranking.to_dict() for ranking in evaluation.rankings],
        "labels": label_facts(observed, p),
    }


def _write_page(path: Path, record: Record) -> None:
    from unmask import pages

    with progress_console.status("drawing"):
        pages.write(pages.page([record]), path)


def refuse_without_training(train: Path | None, described: str) -> None:
    """Raise if the propensities need training labels that were not given."""
    if train is None and described.partition(":")[0] == "jain":
        raise ValueError(
            "nothing says how likely labels were recorded: give --train FILE for Jain's formula, "
            "which is a guess, or --propensity FILE for what you know (constant:1 if labels are "
            "complete); or judge some rows, which needs neither: unmask audit plan."
        )


def propensities_of(
    trained: sp.csr_array | None, observed: sp.csr_array, described: str
) -> Propensities:
    """Propensities as --propensity and --train describe them."""
    from unmask import propensity as models

    return models.from_spec(described, observed if trained is None else trained)


def _models(kind: str | None, p: Propensities, trained: sp.csr_array | None) -> Models | None:
    """Propensity models by name, as asked for by --sensitivity; None if it was not."""
    from unmask.arrays import checks

    if kind is None:
        return None
    return MODELS[checks.one_of(kind, MODELS, "sensitivity")](p, trained)


def _powers(p: Propensities, trained: sp.csr_array | None) -> Models:
    from unmask.metrics import powers

    return powers(getattr(p, "value", p))  # of estimated propensities, the estimate


def _jain(p: Propensities, trained: sp.csr_array | None) -> Models:
    from unmask.metrics import jain_grid

    if trained is None:
        raise ValueError("other constants of Jain's model need the training labels: give --train.")
    return jain_grid(trained)


def _models_around(models: Models, kind: str | None, trained: sp.csr_array | None) -> Models:
    """The models under which the order of systems is tested: for jain, more of them."""
    from unmask.metrics import jain_around

    return jain_around(trained) if kind == "jain" else models


def _show(evaluation: Evaluation, predictions: Path) -> None:
    opening = [evaluation.table.headline]
    if evaluation.differences is not None:
        opening = [*evaluation.differences.headline.splitlines(), *opening]
    for sentence in opening:
        results.print(one_line(sentence, "bold"), "", sep="\n")
    show_estimates(evaluation.table, predictions)
    _show_moves(evaluation.moves)
    if evaluation.groups is not None:
        _show_groups(evaluation.groups)
    if evaluation.sensitivity is not None:
        _show_models(evaluation.sensitivity)
    if evaluation.differences is not None:
        results.print(f"\ndifference to {visible(str(predictions))}, paired over rows")
        results.print(str(evaluation.differences))
    for ranking in evaluation.rankings:
        results.print(f"\n{ranking.statement}")


def show_estimates(table: Table, predictions: Path) -> None:
    """All estimates of a system, what their names mean, and how far to trust them."""
    from unmask.pages.evaluation import meaning

    estimators = list(dict.fromkeys(each.estimator for each in table))
    cells = {(each.metric, each.estimator): each for each in table}
    names = list(dict.fromkeys(each.metric for each in table))
    show_rows(
        str(predictions),
        ["metric", *estimators],
        ([name, *(_cell(cells.get((name, e))) for e in estimators)] for name in names),
    )
    for name in estimators:
        results.print(f"{name}: {meaning(name)}")
    for note in table.notes:
        results.print(one_line(note))
    shares = [e.details["propensity_share"] for e in table if "propensity_share" in e.details]
    if shares:
        results.print(
            "Intervals carry what is not known of the propensities: "
            f"{min(shares):.0%} to {max(shares):.0%} of the variance."
        )


def _cell(estimate: Estimate | None) -> str:
    if estimate is None:
        return ""
    return "refused" if math.isnan(estimate.value) else estimate.plus_minus


def _show_moves(moves: Sequence[Move]) -> None:
    """One line per metric: over propensities within a factor, and over row effort."""
    from unmask._text import format_value
    from unmask.metrics.claims import between
    from unmask.metrics.registry import GAMMAS

    for title, own in _by_title(moves).items():
        turning = any(each.sensitivity.turning for each in own)
        efforts = any(each.sensitivity.efforts for each in own)
        columns = ["metric", "number", *(f"p off by ≤ {gamma:g} ×" for gamma in GAMMAS)]
        columns += ["lost together"] * efforts + ["winner changes at"] * turning
        lines = []
        for _, each, moved in own:
            line = [f"{each.metric} {each.estimator}", format_value(each.value, ".3f")]
            line += [between(end.low, end.high) for end in moved.gammas]
            line += [between(*moved.over_efforts) if moved.efforts else ""] * efforts
            line += [moved.turning_factor] * turning
            lines.append(line)
        show_rows(title, columns, lines)


def _show_groups(tables: Tables) -> None:
    """Every estimate by group, with how many rows it has; marked where it differs from the rest."""
    cells: dict[tuple[str, int, str], dict[str, str]] = {}
    for name in tables:
        for each in tables[name]:
            mark = " *" if each.details["differs"] else ""
            number = "refused" if math.isnan(each.value) else each.plus_minus
            line = cells.setdefault((name, each.details["rows"], each.metric), {})
            line[each.estimator] = f"{number}{mark}"
    estimators = list(dict.fromkeys(name for line in cells.values() for name in line))
    lines = [
        [name, f"{rows:,}", metric, *(line.get(estimator, "") for estimator in estimators)]
        for (name, rows, metric), line in cells.items()
    ]
    show_rows("by group", ["group", "rows", "metric", *estimators], lines)
    if any(each.details["differs"] for name in tables for each in tables[name]):
        results.print("* differs from all other rows (false-discovery rate 5 %)")
    small = [name for name in tables if next(iter(tables[name])).details["small"]]
    if small:
        results.print(one_line(f"too few rows to say much: {', '.join(small)}"))


def _show_models(tables: Tables) -> None:
    """Every estimate under every model, and what refutes a model; intervals are in --json."""
    names = list(tables)
    cells: dict[tuple[str, str], list[str]] = {}
    for name in names:
        for each in tables[name]:
            number = "refused" if math.isnan(each.value) else each.short
            cells.setdefault((each.metric, each.estimator), []).append(number)
    lines = [[f"{metric} {estimator}", *line] for (metric, estimator), line in cells.items()]
    show_rows("the same under other propensities", ["metric", *names], lines)
    for name in names:
        run = tables[name].run
        for evidence in () if run is None else run.evidence[:1]:
            word = "refuted" if evidence.refutes else "doubtful"
            results.print(one_line(f"{name}: {word}: {evidence.sentence}"))


def _by_title(moves: Sequence[Move]) -> dict[str, list[Move]]:
    titles: dict[str, list[Move]] = {}
    for each in moves:
        title = f"how far the difference of {each.system} moves" if each.system else MOVES
        titles.setdefault(title, []).append(each)
    return titles


MODELS: dict[str, Callable[[Propensities, sp.csr_array | None], Models]] = {
    "powers": _powers,
    "jain": _jain,
}
"""What --sensitivity can vary: from the propensities and the training labels to named models."""
