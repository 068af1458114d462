"""The page of an evaluation: what the numbers say at face value, corrected, and how sure that is.

A record holds source, labels (`label_figures.label_facts`), estimates, differences and sensitivity
as rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unmask import report
from unmask.metrics import ESTIMATORS, Ranking, charts
from unmask.pages import comparison, label_figures
from unmask.pages.comparison import estimate_cell

Record = dict[str, Any]


def summary(record: Record) -> list[str]:
    """The numbers that a reader asks for first, observed beside corrected."""
    rows = record["estimates"]
    cells = {(row["metric"], row["estimator"]): row for row in rows}
    told = [
        sentence
        for metric in _representatives(rows)
        if (sentence := _face_value(metric, cells)) is not None
    ]
    unusable = [row for row in rows if row["verdict"].startswith("unusable")]
    if unusable:
        some = ", ".join(f"{row['metric']} {row['estimator']}" for row in unusable[:4])
        told.append(
            f"{len(unusable)} of {len(rows)} estimates cannot be used ({some}"
            f"{' …' if len(unusable) > 4 else ''}); the verdicts say why."
        )
    if labels := record.get("labels"):
        told.insert(
            0,
            f"{labels['entries']:,} labels are recorded in {labels['rows']:,} rows; by these "
            f"propensities that is {labels['seen']:.0%} of the true ones.",
        )
    return told


def _representatives(rows: list[Record]) -> list[str]:
    """P and R at their largest k: what a reader asks for first."""
    metrics = dict.fromkeys(row["metric"] for row in rows)
    found = {}
    for metric in metrics:
        if metric.partition("@")[0] in ("P", "R"):
            found[metric.partition("@")[0]] = metric
    return list(found.values())


def _face_value(metric: str, cells: dict[tuple[str, str], Record]) -> str | None:
    """The value as observed beside the corrected one."""
    naive = cells.get((metric, "vanilla"))
    better = ("unbiased", "deconvolved") if metric.startswith("P") else ("deconvolved", "unbiased")
    known = [cells[metric, name] for name in better if (metric, name) in cells]
    usable = [row for row in known if not row["verdict"].startswith("unusable")]
    if naive is None or naive["value"] is None or not known:
        return None
    ours = (usable or known)[0]
    head = f"Taken at face value {metric} is {naive['value']:.3f}; "
    if ours["value"] is None or ours["value"] != ours["value"]:
        return f"{head}the {ours['estimator']} estimate was refused: {ours['verdict']}."
    return (
        f"{head}corrected for missing labels ({ours['estimator']}) it is {ours['value']:.3f}, "
        f"interval {ours['low']:.3f} to {ours['high']:.3f} ({ours['verdict']})."
    )


def sections(record: Record) -> list[report.Section]:
    """Estimates, what they depend on, how systems compare, the labels, what estimators mean."""
    rows = record["estimates"]
    used = list(dict.fromkeys(row["estimator"] for row in rows))
    meanings = "\n\n".join(f"`{each}`: {ESTIMATORS[each].meaning}." for each in used)
    made = [report.Section("Estimates", [_estimates_table(rows), charts.estimates(rows)])]
    if record.get("sensitivity"):
        made.append(_sensitivity(record["sensitivity"]))
    if record.get("differences"):
        made.append(comparison.differences_section(record["differences"]))
    for each in record.get("rankings", ()):
        made.append(comparison.ranking_section(Ranking(**each)))
    if record.get("labels"):
        made.append(label_figures.section(record["labels"]))
    return [*made, report.Section("What the estimators mean", [report.Text(meanings)])]


def _estimates_table(rows: list[Record]) -> Any:
    columns: list[Any] = [
        "metric", "estimator", report.Column("value", ".4f"),
        report.Column("effective rows", ",.0f", "how many rows carry the estimate"),
        report.Column("largest row", ".1%", "the share of the single largest row"), "verdict",
    ]  # fmt: skip
    body = [
        [row["metric"], row["estimator"], estimate_cell(row), row.get("effective_sample_size"),
         row.get("largest_contribution"), label_figures.judged(row["verdict"])]
        for row in rows
    ]  # fmt: skip
    return report.Table(columns, body)


def _sensitivity(rows: list[Record]) -> Any:
    models = list(dict.fromkeys(row["propensity"] for row in rows))
    told = f"The same estimates under {len(models)} propensity models: {', '.join(models)}."
    return report.Section(
        "Sensitivity to the propensities", [report.Text(told), charts.along(rows)]
    )


def side_by_side(records: dict[str, Record]) -> report.Section:
    """Every metric and estimator of all evaluations, a column for each."""
    values: dict[tuple[str, str], dict[str, report.Estimate]] = {}
    for column, record in records.items():
        for row in record["estimates"]:
            values.setdefault((row["metric"], row["estimator"]), {})[column] = estimate_cell(row)
    columns = [report.Column(column, ".4f") for column in records]
    body = [[*key, *(cells.get(column) for column in records)] for key, cells in values.items()]
    return report.Section("Side by side", [report.Table(["metric", "estimator", *columns], body)])


def recognise(path: Path, content: Any) -> list[Record]:
    """A stored evaluation, or the bare list of estimates of `Table.to_dicts`."""
    if isinstance(content, dict) and content.get("kind") == "evaluation":
        return [content]
    bare = isinstance(content, list) and content and isinstance(content[0], dict)
    if bare and {"metric", "estimator", "value", "low", "high", "verdict"} <= content[0].keys():
        return [{"kind": "evaluation", "source": path.stem, "estimates": content}]
    return []
