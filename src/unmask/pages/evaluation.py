"""The page of an evaluation: do the assumptions hold, the numbers, and how sure they are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from unmask import report
from unmask._typing import Record
from unmask.metrics import ESTIMATORS, Level, Ranking, charts
from unmask.metrics.claims import Standing
from unmask.metrics.registry import split
from unmask.pages import audit, comparison, label_figures, label_tables, slices
from unmask.pages.comparison import estimate_cell
from unmask.pages.verdicts import (
    is_unusable,
    verdict_cell,
    verdict_level,
    verdict_list,
    verdict_text,
)


def title(record: Record) -> str | None:
    """Who is better, of a comparison; None if it has none."""
    compared = record.get("comparison")
    return compared["title"] if compared else None


def summary(record: Record) -> list[str]:
    """Who is better, whether the assumptions hold, and the numbers that a reader asks for first."""
    rows = record["estimates"]
    compared = record.get("comparison")
    opening = compared["headline"].splitlines() if compared else []
    if record.get("headline"):
        whose = f"{record['source']}: " if compared and record.get("source") else ""
        opening.append(f"{whose}{record['headline']}")
    cells = {(row["metric"], row["estimator"]): row for row in rows}
    asked = [] if compared else list(_representatives(rows).items())
    made = (_face_value(kind, metric, cells) for kind, metric in asked if not opening)
    sentences = [sentence for sentence in made if sentence is not None]
    if opening:
        sentences = _beside_recorded(asked, cells)
    unusable = [row for row in rows if is_unusable(row["verdict"])]
    if unusable:
        some = ", ".join(f"{row['metric']} {row['estimator']}" for row in unusable[:4])
        sentences.append(
            f"{len(unusable)} of {len(rows)} estimates cannot be used ({some}"
            f"{' …' if len(unusable) > 4 else ''}); the verdicts say why."
        )
    labels = record.get("labels")
    if labels and not _refuted(record):
        sentences.insert(
            0,
            f"{labels['entries']:,} labels are recorded in {labels['rows']:,} rows; by these "
            f"propensities that is {labels['seen']:.0%} of the true ones.",
        )
    return [*opening, *sentences]


def _refuted(record: Record) -> bool:
    """Whether the run refutes its propensities, so that nothing is to be said by them."""
    return (record.get("run") or {}).get("standing") == Standing.REFUTED


def _representatives(rows: list[Record]) -> dict[str, str]:
    """P and R at their last k: what a reader asks for first."""
    kinds = {row["metric"]: _kind(row["metric"]) for row in rows}
    return {kind: metric for metric, kind in kinds.items() if kind in BEST_ESTIMATORS}


def _kind(metric: str) -> str:
    return split(metric)[0]


BEST_ESTIMATORS = {
    "P": ("measured", "unbiased", "deconvolved"),
    "R": ("measured", "deconvolved", "unbiased"),
}
"""The metrics of the summary, with the corrected estimates that it prefers, best first."""


def _beside_recorded(
    asked: list[tuple[str, str]], cells: Mapping[tuple[str, str], Record]
) -> list[str]:
    """Below a headline: the values as recorded beside those that may be used."""
    moved: dict[str, list[str]] = {}
    for kind, metric in asked:
        observed, best = _observed_and_best(kind, metric, cells)
        if observed is None or best is None or verdict_level(best["verdict"]) >= Level.DOUBTFUL:
            continue
        word = "measured" if best["estimator"] == "measured" else "corrected"
        moved.setdefault(word, []).append(f"{metric} {observed['value']:.3f} → {best['value']:.3f}")
    return [f"As recorded → {word}: {', '.join(each)}." for word, each in moved.items()]


def _observed_and_best(
    kind: str, metric: str, cells: Mapping[tuple[str, str], Record]
) -> tuple[Record | None, Record | None]:
    """The estimate on observed labels that has a value, and the best of the others."""
    observed = cells.get((metric, "vanilla"))
    estimators = [name for name in BEST_ESTIMATORS[kind] if (metric, name) in cells]
    corrected = [cells[metric, name] for name in estimators]
    usable = [row for row in corrected if not is_unusable(row["verdict"])]
    if observed is not None and observed["value"] is None:
        observed = None
    return observed, next(iter(usable or corrected), None)


def _face_value(kind: str, metric: str, cells: Mapping[tuple[str, str], Record]) -> str | None:
    """The value as observed beside the corrected one, with its verdict."""
    observed, best = _observed_and_best(kind, metric, cells)
    if observed is None or best is None:
        return None
    verdict = verdict_text(best["verdict"])
    head = f"Taken at face value {metric} is {observed['value']:.3f}; "
    if best["value"] is None or best["value"] != best["value"]:
        return f"{head}the {best['estimator']} estimate was refused: {verdict}."
    value = f"{best['value']:.3f}, interval {best['low']:.3f} to {best['high']:.3f}"
    if best["estimator"] == "measured":
        if verdict_level(best["verdict"]) >= Level.DOUBTFUL:
            return f"{head}judged rows say {value} ({verdict})."
        return f"{metric} is {value}, measured by an audit; {head[0].lower()}{head[1:-2]}."
    return f"{head}corrected for missing labels ({best['estimator']}) it is {value} ({verdict})."


def sections(record: Record) -> list[report.Section]:
    """Estimates, what they depend on, how systems compare, the labels, what estimators mean."""
    rows = record["estimates"]
    estimators = list(dict.fromkeys(row["estimator"] for row in rows))
    meanings = "\n\n".join(f"`{name}`: {meaning(name)}." for name in estimators)
    glance = at_a_glance(rows)
    every = charts.estimates(rows)
    more = [every] if glance and len(estimators) > 2 else []
    estimates: list[report.Part] = [
        glance or every, _estimates_table(rows), verdict_list(rows), *more,
    ]  # fmt: skip
    differences = record.get("differences")
    moved = [row for row in record.get("moves", []) if row["system"]]
    sections: list[report.Section] = []
    if differences:
        first = record.get("source") or "the first system"
        sections.append(comparison.differences_section(differences, moved, first=first))
    sections.append(report.Section("Estimates", estimates))
    if groups := record.get("groups"):
        sections.append(slices.groups_section(groups))
    if curves := record.get("curves"):
        sections.append(slices.curves_section(curves))
    if moves := [row for row in record.get("moves", []) if not row["system"]]:
        sections.append(_moves_section(moves))
    if audited := record.get("audit"):
        sections.append(audit.section(audited, record.get("stopping")))
    if sensitivity := record.get("sensitivity"):
        sections.append(_sensitivity_section(sensitivity))
    for ranking in record.get("rankings", ()):
        sections.append(comparison.ranking_section(Ranking(**ranking)))
    if labels := record.get("labels"):
        sections.append(label_figures.section(labels))
    if named := record.get("per_label"):
        places = record.get("places", 0)
        sections.append(label_tables.section(named, places, refuted=_refuted(record)))
    if rankings := record.get("label_rankings"):
        sections.append(label_tables.ranking_section(rankings))
    return [*sections, report.Section("What the estimators mean", [report.Text(meanings)])]


def at_a_glance(rows: list[Record]) -> report.Chart | None:
    """Every metric as recorded beside the best number that there is of it.

    Parameters
    ----------
    rows : list of Record

    Returns
    -------
    Chart or None
        None where no metric has both.
    """
    recorded, best = {}, {}
    for metric in dict.fromkeys(row["metric"] for row in rows):
        own = {row["estimator"]: row for row in rows if row["metric"] == metric}
        usable = [
            own[name] for name in BEST_ESTIMATORS["R"]  # those that stay in the range come first
            if name in own and verdict_level(own[name]["verdict"]) < Level.DOUBTFUL
        ]  # fmt: skip
        vanilla = own.get("vanilla")
        if usable and vanilla is not None and vanilla["value"] is not None:
            recorded[metric], best[metric] = vanilla, usable[0]
    measured = {m: row for m, row in best.items() if row["estimator"] == "measured"}
    corrected = {m: row for m, row in best.items() if row["estimator"] != "measured"}
    series = [
        _glance_series(name, chosen, charts.STYLES[estimator])
        for name, estimator, chosen in (
            ("as recorded", "vanilla", recorded),
            ("corrected", "deconvolved", corrected),
            ("measured", "measured", measured),
        )
        if chosen
    ]
    if not best:
        return None
    axis = charts.scale(row["value"] for row in [*recorded.values(), *best.values()])
    return report.Chart(
        "dots", series, title="As recorded, and what is claimed instead", y=axis,
        rules=charts.most(axis),
    )  # fmt: skip


def _glance_series(name: str, rows: Mapping[str, Record], style: report.Style) -> report.Series:
    cells = [estimate_cell(row) for row in rows.values()]
    ends = [[cell.value if end is None else end for cell in cells
             for end in [getattr(cell, side)]] for side in ("low", "high")]  # fmt: skip
    return report.Series(name, list(rows), [cell.value for cell in cells], *ends, style=style)


def meaning(estimator: str) -> str:
    """What an estimator is, in words.

    Parameters
    ----------
    estimator : str
        A name in `ESTIMATORS`, or "measured".

    Returns
    -------
    str
    """
    return MEASURED_MEANING if estimator == "measured" else ESTIMATORS[estimator].meaning


MEASURED_MEANING = (
    "from judgements of a random sample with known inclusion probabilities; it assumes nothing of "
    "what hid the labels"
)


def _estimates_table(rows: list[Record]) -> report.Table:
    columns: list[report.Column | str] = [
        "metric", "estimator", report.Column("value", ".4f"), "level",
        report.Column("effective rows", ",.0f", "how many rows carry the estimate"),
        report.Column("largest row", ".1%", "the share of the single largest row"),
    ]  # fmt: skip
    body: list[list[report.Cell]] = [
        [row["metric"], row["estimator"], estimate_cell(row), verdict_cell(row["verdict"]),
         row.get("effective_sample_size"), row.get("largest_contribution")]
        for row in rows
    ]  # fmt: skip
    return report.Table(columns, body, title="All estimates")


def _moves_section(rows: list[Record]) -> report.Section:
    text = report.Text(
        "A conditional number is right if its condition is. Here the condition is moved: every "
        "observed label may have been recorded with a probability that is up to so many times "
        "lower or higher than stated, hits and misses in opposite directions; and labels of a row "
        "may be kept or lost together."
    )
    words = report.Table(
        ["number", "how far it moves"],
        [[f"{row['metric']} {row['estimator']}", row["text"]] for row in rows],
        title="How far each number moves",
    )
    return report.Section("How far the numbers move", [text, charts.moves(rows), words])


def _sensitivity_section(rows: list[Record]) -> report.Section:
    models = list(dict.fromkeys(row["propensity"] for row in rows))
    text = f"The same estimates under {len(models)} propensity models: {', '.join(models)}."
    return report.Section(
        "Sensitivity to the propensities", [report.Text(text), charts.along(rows)]
    )


def side_by_side(records: Mapping[str, Record]) -> report.Section:
    """Every metric and estimator of all evaluations, a column for each.

    Parameters
    ----------
    records : mapping of column name to Record

    Returns
    -------
    Section
    """
    values: dict[tuple[str, str], dict[str, report.Estimate]] = {}
    for column, record in records.items():
        for row in record["estimates"]:
            values.setdefault((row["metric"], row["estimator"]), {})[column] = estimate_cell(row)
    columns = [report.Column(column, ".4f") for column in records]
    body: list[list[report.Cell]] = [
        [*key, *(cells.get(column) for column in records)] for key, cells in values.items()
    ]
    return report.Section("Side by side", [report.Table(["metric", "estimator", *columns], body)])


def recognise(path: Path, content: object) -> list[Record]:
    """The record in the content of a file: an evaluation, or a bare list of estimates."""
    if isinstance(content, dict) and content.get("kind") == "evaluation":
        return [content]
    if not isinstance(content, list) or not content or not isinstance(content[0], dict):
        return []
    if {"metric", "estimator", "value", "low", "high", "verdict"} <= content[0].keys():
        return [{"kind": "evaluation", "source": path.stem, "estimates": content}]
    return []
