"""`unmask evaluate`: how good are these predictions, given that labels are missing?

Files become rows, propensities and predictions (rankings, sets above a threshold, or all scores);
the library evaluates them; what it finds is printed, stored and drawn from one record.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeAlias, TypedDict

from unmask._text import visible
from unmask.cli import options
from unmask.cli.inputs import after_judgements, read_systems, read_test, with_ancestors
from unmask.cli.options import ESTIMATES, REQUEST, option
from unmask.cli.output import (
    command,
    one_line,
    progress_console,
    results,
    show_json,
    show_rows,
    show_text,
    warn,
    write_page,
)

if TYPE_CHECKING:
    import scipy.sparse as sp

    from unmask._typing import Array, Floats, PropensityLike, Record
    from unmask.arrays import LabelSets, TopK
    from unmask.cli.inputs import EvaluatedRows
    from unmask.files.tables import Cell
    from unmask.metrics import Estimate, Ranking, Table, Tables
    from unmask.metrics.by_label import LabelCounts, LabelRankings
    from unmask.metrics.claims import Run
    from unmask.metrics.judged_pairs import JudgedPairs
    from unmask.metrics.vary import Sensitivity
    from unmask.propensity import PropensityEstimate
    from unmask.propensity.models import PropensityModel

Propensities: TypeAlias = "Floats | PropensityEstimate | sp.csr_array"
Predicted: TypeAlias = "TopK | LabelSets | Array"
Models: TypeAlias = "dict[str, PropensityModel]"

MODELS = ("powers", "jain")
"""Ways in which --sensitivity varies propensities."""
MOVES = "how far conditional numbers move if propensities are off, or labels of a row lost together"


def evaluate(
    labels: options.Labels,
    predictions: options.File,
    running: options.Running,
    train: options.Train = None,
    propensity: options.Propensity = "jain",
    complete: bool = False,
    metrics: str = "P@1,P@3,P@5,R@1,R@3,R@5,nDCG@5,PSP@1,PSP@3,PSP@5",
    estimators: Annotated[
        str, options.choice("unmask.metrics", "ESTIMATORS", several=True)
    ] = "vanilla,unbiased,deconvolved,normalized",
    compare: list[Path] | None = None,
    threshold: str | None = None,
    groups: Path | None = None,
    html: options.Html = None,
    dataset: Annotated[str | None, option(autocompletion=options.presets)] = None,
    confidence: options.Confidence = REQUEST.confidence,
    interval: Annotated[str, option(topic=ESTIMATES)] = REQUEST.interval,
    sensitivity: Annotated[str | None, options.choice("unmask.cli.evaluate", "MODELS")] = None,
    no_sensitivity: bool = False,
    judgements: options.Judgements = None,
    table: options.TableSettings = None,
    hierarchy: Path | None = None,
    per_label: Path | None = None,
    seed: options.Seed = REQUEST.seed,
    as_csv: Annotated[bool, option(None, "--csv")] = False,
) -> None:
    """Estimate ranking metrics from incomplete labels, with intervals and a verdict on each.

    [dim]unmask evaluate --labels test.txt --predictions ours.txt --train train.txt[/]
    [dim]unmask evaluate --labels test.txt --predictions ours.txt --train train.txt \\
         --html page.html --sensitivity powers[/]
    [dim]unmask evaluate --labels test.csv --predictions predictions.csv \\
         --train tags.csv --per-label per-label.csv[/]
    [dim]unmask evaluate --labels test.txt --predictions ours.txt --compare theirs.txt \\
         --train train.txt --dataset Amazon-670K --metrics R@5 --estimators unbiased,deconvolved[/]
    [dim]unmask evaluate --labels test.txt --predictions scores.txt --train train.txt \\
         --metrics micro-F1,macro-F1 --threshold 0.5 --groups years.txt[/]
    [dim]unmask evaluate --labels test.txt --predictions scores.npy --train train.txt \\
         --metrics mAP,macro-AUC,Fmax --html page.html[/]

    Options
    -------
    predictions
        File with the predictions, label:score.
    complete
        No label is missing: short for --propensity constant:1.
    metrics
        Metrics, separated by commas, such as P@1,R@5,nDCG@5,PSP@3.
    estimators
        Estimators, separated by commas; each is used where it applies.
    compare
        Predictions of another system on the same rows; may be repeated.
    threshold
        Read predictions as sets, of the labels whose score is at least this: a number, or a file of
        `unmask threshold`. Without it a list is a set as it is.
    groups
        Also by group of rows: a file with the group of every row on a line of its own, or lines id,
        tab, group.

    Estimates
    ---------
    dataset
        Short for --propensity jain:DATASET.
    sensitivity
        Also evaluate under other propensities: powers (p^γ) or jain (other a and b). With
        --compare: does the order of the systems survive?
    no_sensitivity
        Do not say how far conditional numbers move if propensities are off by a factor, or labels
        of a row go missing together.
    hierarchy
        Evaluate labels with all their ancestors: OBO, SKOS in Turtle, or lines child, tab, parent.

    Pages and files
    ---------------
    per_label
        Also write a table with a line per label: .csv, .tsv, .jsonl, .parquet.
    as_csv
        Print CSV instead of a table.
    """
    import numpy as np

    from unmask.metrics import compare as difference
    from unmask.metrics import evaluate as estimate
    from unmask.metrics import jain_around
    from unmask.metrics import sensitivity as sensitivities
    from unmask.metrics.by_label import LabelCounts
    from unmask.metrics.request import Request

    rows = read_test(labels, train, options.Files(table=table), judgements)
    described = f"jain:{dataset}" if dataset else propensity
    if complete:
        if described not in ("jain", "constant:1"):
            raise ValueError(
                f"--complete says that no label is missing, --propensity {described} that some "
                "are; leave out one of them."
            )
        if sensitivity is not None:
            raise ValueError("labels that are --complete leave --sensitivity nothing to vary.")
        described = "constant:1"
    refuse_without_training(train, described)
    if hierarchy is not None and sensitivity:
        raise ValueError("--hierarchy has propensities of its own; leave out --sensitivity.")
    rows, tops = read_systems(rows, [predictions, *(compare or ())])
    rows, tree = with_ancestors(rows, hierarchy)
    p = propensities_of(rows.trained, rows.observed, described)
    rows, tops, pairs = after_judgements(rows, tops)
    names = listed(metrics)
    settings: Settings = {
        "metrics": names, "estimators": listed(estimators, "estimator"), "confidence": confidence,
        "seed": seed,
    }  # fmt: skip
    Request(**settings)
    systems = {
        path: as_asked(top, rows, names, threshold, path, as_sets=tree is not None)
        for path, top in tops.items()
    }
    first, observed, stated = systems[str(predictions)], rows.observed, with_judged(pairs, p)
    models = _models(sensitivity, p, rows.trained)
    with progress_console.status(f"evaluating {observed.shape[0]:,} rows"):
        table_ = estimate(first, observed, stated, interval=interval, hierarchy=tree, **settings)
        evaluation = Evaluation(
            predictions, table_ if pairs is None else pairs.with_counts(table_), observed, p
        )
        if models:
            varied = sensitivities(first, observed, models, **settings)
            evaluation = replace(evaluation, sensitivity=varied)
        if groups is not None:
            own = estimate(
                first, observed, stated, groups=read_groups(groups, rows), hierarchy=tree,
                **settings,
            )  # fmt: skip
            evaluation = replace(evaluation, groups=own)
        if compare:
            paired: Settings = {
                **settings,
                "estimators": [name for name in settings["estimators"] if name != "filtered"],
            }
            differences = difference(systems, observed, stated, hierarchy=tree, **paired)
            evaluation = replace(evaluation, differences=differences)
        if compare and models is not None:
            around = models if sensitivity != "jain" else jain_around(rows.trained)
            rankings = _rankings(systems, observed, around, evaluation.table, settings)
            evaluation = replace(evaluation, rankings=rankings)
        if not no_sensitivity:
            evaluation = replace(evaluation, moves=_moves(evaluation))
    stored = running.as_json or html is not None
    record = evaluation.to_dict() if stored else {}
    if stored and isinstance(first, np.ndarray) and tree is None:
        record |= {"curves": _curves(first, observed, stated, confidence)}
    if per_label is not None or (stored and rows.names is not None):
        counts = counts_of(rows, first, getattr(p, "value", p), confidence, evaluation.table.run)
        if per_label is not None:
            write_for_people(per_label, counts.columns(), "--per-label")
        if stored:
            if isinstance(counts, LabelCounts):
                record |= {"per_label": counts.to_dicts(), "places": counts.k}
            else:
                record |= {"label_rankings": counts.to_dicts()}
    if html is not None:
        write_page(html, [record])
    if running.as_json:
        show_json(record)
    elif as_csv:
        for part in (
            evaluation.table, evaluation.groups, evaluation.sensitivity, evaluation.differences,
        ):  # fmt: skip
            if part is not None:
                show_text(part.to("csv"))
    else:
        _show(evaluation)


def listed(text: str, kind: str = "metric") -> list[str]:
    """Return the names in a list with commas; a misspelt one is answered with the nearest."""
    from unmask.metrics import ESTIMATORS, METRICS

    registry = METRICS if kind == "metric" else ESTIMATORS
    names = text.split(",")
    for each in names:
        name = each.partition("@")[0]
        near = "" if name in registry else options.nearest(name, registry)
        if near:
            raise ValueError(f"unknown {kind} {name!r}{near}")
    return names


class Settings(TypedDict):
    """Settings that all evaluations of one command share."""

    metrics: list[str]
    estimators: list[str]
    confidence: float
    seed: int


class Move(NamedTuple):
    """The sensitivity of a conditional number: of a system, or of its difference to `system`."""

    system: str
    estimate: Estimate
    sensitivity: Sensitivity


@dataclass(frozen=True)
class Evaluation:
    """The estimates of one system, and what was asked for beside them."""

    source: Path
    table: Table
    observed: sp.csr_array
    propensity: Propensities
    sensitivity: Tables | None = None
    differences: Tables | None = None
    rankings: Sequence[Ranking] = ()
    moves: Sequence[Move] = ()
    groups: Tables | None = None

    def to_dict(self) -> Record:
        """Return everything that a page needs, as `--json` prints it and `report` reads it."""
        from unmask.pages.labels import label_facts

        moves = [
            {
                "system": each.system,
                "metric": each.estimate.metric,
                "estimator": each.estimate.estimator,
                "value": each.estimate.value,
                **each.sensitivity.to_dict(),
            }
            for each in self.moves
        ]
        compared = self.differences
        return {
            "kind": "evaluation",
            "source": str(self.source),
            "command": command(),
            "headline": self.table.headline,
            "run": None if self.table.run is None else self.table.run.to_dict(),
            "estimates": self.table.to_dicts(),
            "moves": moves,
            "comparison": compared and {"title": compared.title, "headline": compared.headline},
            "sensitivity": self.sensitivity.to_dicts() if self.sensitivity else [],
            "differences": compared.to_dicts() if compared else [],
            "rankings": [ranking.to_dict() for ranking in self.rankings],
            "labels": label_facts(self.observed, self.propensity),
            **({} if self.groups is None else {"groups": self.groups.to_dicts()}),
        }


def with_judged(pairs: JudgedPairs | None, p: Propensities) -> Propensities:
    """Return propensities per entry where labels are verified; the doubt of an estimate is lost."""
    if pairs is None or not pairs.pairs.certain.any():
        return p
    return pairs.pairs.propensity(getattr(p, "value", p))


def _moves(evaluation: Evaluation) -> list[Move]:
    """Return a move of the best estimator of each metric that has a conditional number."""
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


def _curves(
    scores: Array, observed: sp.csr_array, p: Propensities, confidence: float
) -> dict[str, list[dict[str, float]]]:
    """Return precision, recall and F1 over thresholds, as observed and corrected."""
    from unmask.metrics import curve

    stated = getattr(p, "value", p)
    curves = [curve(scores, observed, each, confidence=confidence) for each in (None, stated)]
    return {each.estimator: each.to_dicts() for each in curves}


def _rankings(
    systems: Mapping[str, Predicted],
    observed: sp.csr_array,
    models: Models,
    table: Table,
    settings: Settings,
) -> list[Ranking]:
    """Return how the order of systems fares under other propensities, by the decisive metrics."""
    from unmask import metrics

    return [
        metrics.ranking(
            systems, observed, models, metric=metric, estimator=estimator,
            confidence=settings["confidence"], seed=settings["seed"],
        )
        for metric, estimator in _decisive(table)
    ]  # fmt: skip


def _decisive(table: Table) -> list[tuple[str, str]]:
    """Return what orders systems: P and R at their largest k, by the best estimator at hand."""
    decisive: dict[str, tuple[str, str]] = {}
    for metric in dict.fromkeys(each.metric for each in table):
        kind, cells = metric.partition("@")[0], [e.estimator for e in table if e.metric == metric]
        preferred = ("unbiased",) if kind == "P" else ("deconvolved", "unbiased")
        if kind in ("P", "R") and (best := next((e for e in preferred if e in cells), None)):
            decisive[kind] = metric, best
    return list(decisive.values())


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
    """Return propensities as --propensity and --train describe them."""
    from unmask import propensity as models

    return models.from_spec(described, observed if trained is None else trained)


def _models(kind: str | None, p: Propensities, trained: sp.csr_array | None) -> Models | None:
    """Return propensity models by name, as --sensitivity asks for them; None without it."""
    from unmask.arrays import checks
    from unmask.metrics import jain_grid, powers

    if kind is None:
        return None
    if checks.one_of(kind, MODELS, "sensitivity") == "powers":
        return powers(getattr(p, "value", p))  # of estimated propensities, the estimate
    if trained is None:
        raise ValueError("other constants of Jain's model need the training labels: give --train.")
    return jain_grid(trained)


def _show(evaluation: Evaluation) -> None:
    opening = [evaluation.table.headline]
    if evaluation.differences is not None:
        opening = [*evaluation.differences.headline.splitlines(), *opening]
    for sentence in opening:
        results.print(one_line(sentence, "bold"), "", sep="\n")
    show_estimates(evaluation.table, evaluation.source)
    _show_moves(evaluation.moves)
    if evaluation.groups is not None:
        _show_groups(evaluation.groups)
    if evaluation.sensitivity is not None:
        _show_models(evaluation.sensitivity)
    if evaluation.differences is not None:
        results.print(f"\ndifference to {visible(str(evaluation.source))}, paired over rows")
        results.print(str(evaluation.differences))
    for ranking in evaluation.rankings:
        results.print(f"\n{ranking.statement}")


def show_estimates(table: Table, predictions: Path) -> None:
    """Print all estimates of a system, what their names mean, and how far to trust them."""
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
    """Print a line per metric: over propensities within a factor, and over row effort."""
    from unmask._text import format_value
    from unmask.metrics.claims import between
    from unmask.metrics.registry import GAMMAS

    titles: dict[str, list[Move]] = {}
    for move in moves:
        title = f"how far the difference of {move.system} moves" if move.system else MOVES
        titles.setdefault(title, []).append(move)
    for title, own in titles.items():
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
    """Print every estimate by group, with its rows; marked where it differs from the rest."""
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
    """Print every estimate under every model, and what refutes a model."""
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


def counts_of(
    rows: EvaluatedRows,
    predicted: Predicted,
    propensity: PropensityLike,
    confidence: float,
    run: Run | None,
) -> LabelCounts | LabelRankings:
    """Return what one system does with every label; no precision if propensities are refuted.

    For scores, it is how every label ranks the rows.
    """
    import numpy as np

    from unmask.metrics import label_counts
    from unmask.metrics.by_label import label_rankings
    from unmask.metrics.claims import Standing

    if isinstance(predicted, np.ndarray):
        return label_rankings(
            predicted, rows.observed, propensity, names=rows.names, confidence=confidence
        )
    counts = label_counts(
        predicted, rows.observed, propensity, names=rows.names, train=rows.trained,
        confidence=confidence,
    )  # fmt: skip
    return replace(counts, refuted=run is not None and run.standing is Standing.REFUTED)


def write_for_people(path: Path, columns: Mapping[str, Sequence[Cell]], option: str) -> None:
    """Write a table in the form that the ending of the file of an option says.

    In CSV and TSV, which people open, a name is neither a formula nor a command to a terminal.
    """
    from unmask._text import harmless, visible
    from unmask.files.tables import ending, write_columns

    form = ending(path)
    if form is None:
        raise ValueError(f"{option} writes .csv, .tsv, .jsonl or .parquet; got {path}.")
    if form in ("csv", "tsv"):
        columns = {
            name: [harmless(visible(cell)) if isinstance(cell, str) else cell for cell in cells]
            for name, cells in columns.items()
        }
    write_columns(path, form, columns)


def as_asked(
    top: TopK,
    rows: EvaluatedRows,
    metrics: Sequence[str],
    threshold: str | None,
    path: str,
    *,
    as_sets: bool = False,
) -> Predicted:
    """Return what metrics read: sets if there is a threshold, scores if one of them needs all.

    `as_sets`: lists as they are become sets, too.
    """
    import numpy as np

    from unmask.arrays import LabelSets
    from unmask.metrics.request import of_scores

    scored = of_scores(metrics)
    if threshold is not None and scored:
        raise ValueError(
            f"{scored[0]} reads the scores of all labels, --threshold makes sets of them; ask for "
            "metrics of sets, or leave out --threshold."
        )
    if threshold is not None or (as_sets and not scored):
        lowest = float(np.finfo(np.float64).min)
        cut = lowest if threshold is None else cut_offs(threshold, rows)
        scores = listed_scores(top, rows.observed.shape[1])
        return LabelSets.from_scores(scores, cut, names=rows.names)
    return dense_scores(top, rows.observed.shape[1], path) if scored else top


def cut_offs(threshold: str, rows: EvaluatedRows) -> float | Floats:
    """Return a number, or the thresholds of a file in the order of the labels."""
    import numpy as np

    from unmask import thresholds

    try:
        return float(threshold)
    except ValueError:
        cut = thresholds.read(Path(threshold))
    n_labels = rows.observed.shape[1]
    if cut.names is None or rows.names is None:
        if cut.values.size != n_labels:
            raise ValueError(
                f"{threshold} has thresholds of {cut.values.size} labels, not of {n_labels}."
            )
        return cut.values
    by_name = dict(zip(cut.names, cut.values.tolist(), strict=True))
    unknown = [name for name in rows.names if name not in by_name]
    if unknown:
        warn(
            f"{threshold}: {len(unknown):,} of {n_labels:,} labels have no threshold, such as "
            f"{unknown[0]}; they are never predicted."
        )
    return np.array([by_name.get(name, np.inf) for name in rows.names])


def listed_scores(top: TopK, n_labels: int) -> Array:
    """Return (n, L) scores: those that are listed, −inf elsewhere."""
    import numpy as np

    scores = np.full((len(top.labels), n_labels), -np.inf)
    row, place = np.nonzero(top.labels >= 0)
    scores[row, top.labels[row, place]] = top.scores[row, place]
    return scores


def dense_scores(top: TopK, n_labels: int, path: str) -> Array:
    """Return (n, L) scores; those that are not listed count as 0, if that is least."""
    import numpy as np

    scores = listed_scores(top, n_labels)
    unlisted = np.isneginf(scores)
    if not unlisted.any():
        return scores
    if scores[~unlisted].min(initial=0.0) < 0:
        raise ValueError(
            f"{path}: a score for every label of every row is needed, and {unlisted.sum():,} are "
            "not listed; list all of them (or give probabilities, of which those not listed are 0)."
        )
    warn(f"{path}: {unlisted.mean():.0%} of the scores are not listed, and count as 0.")
    return np.where(unlisted, 0.0, scores)


def read_groups(path: Path, rows: EvaluatedRows) -> list[str]:
    """Return the group of every row: a line each, or lines `id tab group` in any order."""
    from unmask.files.streams import text_of

    n = rows.observed.shape[0]
    lines = [line for line in text_of(path).splitlines() if line.strip()]
    pairs = [line.split("\t") for line in lines]
    if rows.test.ids is not None and all(len(pair) == 2 for pair in pairs):
        by_id = {each[0].strip(): each[1].strip() for each in pairs}
        missing = [name for name in rows.test.ids if name not in by_id]
        if missing:
            raise ValueError(f"{path}: {len(missing):,} rows have no group, such as {missing[0]}.")
        return [by_id[name] for name in rows.test.ids]
    if len(lines) != n:
        raise ValueError(
            f"{path} has {len(lines):,} lines for {n:,} rows; give the group of every row on a "
            "line of its own, or lines id, tab, group."
        )
    return [line.strip() for line in lines]
