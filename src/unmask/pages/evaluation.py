"""The page of an evaluation: do the assumptions hold, the numbers, and how sure they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from unmask._typing import Record
from unmask.metrics import ESTIMATORS, claims
from unmask.metrics.claims import Level, Standing
from unmask.metrics.registry import split
from unmask.pages import audit, estimates, labels, parts
from unmask.pages.estimates import Row, by, estimate_cell, level_cell, level_of

PREFERRED = {
    "P": ("measured", "unbiased", "deconvolved"),
    "R": ("measured", "deconvolved", "unbiased"),
}
"""The metrics of the summary, with the estimates that it prefers, best first."""
MEASURED = (
    "from judgements of a random sample with known inclusion probabilities; it assumes nothing of "
    "what hid the labels"
)
GROUPS = 60
"""Groups that are drawn; all are in the table."""


def title(record: Record) -> str | None:
    """Return who is better, of a comparison; None if it has none."""
    compared = record.get("comparison")
    return compared["title"] if compared else None


def summary(record: Record) -> list[str]:
    """Return who is better, whether the assumptions hold, and the numbers asked for first."""
    rows, compared = record["estimates"], record.get("comparison")
    sentences = compared["headline"].splitlines() if compared else []
    if record.get("headline"):
        whose = f"{record['source']}: " if compared and record.get("source") else ""
        sentences.append(f"{whose}{record['headline']}")
    recorded = record.get("labels")
    if recorded and not _refuted(record):
        sentences.append(
            f"{recorded['entries']:,} labels are recorded in {recorded['rows']:,} rows; by these "
            f"propensities that is {recorded['seen']:.0%} of the true ones."
        )
    if not compared:
        sentences += (_beside_recorded if record.get("headline") else _at_face_value)(rows)
    if unusable := [row for row in rows if level_of(row) is Level.UNUSABLE]:
        some = ", ".join(f"{row['metric']} {row['estimator']}" for row in unusable[:4])
        more = " …" if len(unusable) > 4 else ""
        sentences.append(
            f"{len(unusable)} of {len(rows)} estimates cannot be used ({some}{more}); the verdicts "
            "say why."
        )
    return sentences


def _refuted(record: Record) -> bool:
    """Return whether the run refutes its propensities, so that nothing is to be said by them."""
    return (record.get("run") or {}).get("standing") == Standing.REFUTED


def _recorded_and_best(rows: Sequence[Row]) -> Iterator[tuple[str, Row, Row]]:
    """Yield P and R at their last k: as recorded, and the best of their other estimates."""
    cells = {(row["metric"], row["estimator"]): row for row in rows}
    last = {split(row["metric"])[0]: row["metric"] for row in rows}
    for kind, metric in last.items():
        recorded = cells.get((metric, "vanilla"))
        others = [cells[metric, e] for e in PREFERRED.get(kind, ()) if (metric, e) in cells]
        usable = [row for row in others if level_of(row) is not Level.UNUSABLE]
        if others and recorded is not None and recorded["value"] is not None:
            yield metric, recorded, (usable or others)[0]


def _beside_recorded(rows: Sequence[Row]) -> list[str]:
    """Say the values as recorded beside those that may be claimed."""
    moved: dict[str, list[str]] = {}
    for metric, recorded, best in _recorded_and_best(rows):
        if level_of(best) < Level.DOUBTFUL:
            word = "measured" if best["estimator"] == "measured" else "corrected"
            numbers = f"{metric} {recorded['value']:.3f} → {best['value']:.3f}"
            moved.setdefault(word, []).append(numbers)
    return [f"As recorded → {word}: {', '.join(numbers)}." for word, numbers in moved.items()]


def _at_face_value(rows: Sequence[Row]) -> list[str]:
    """Say, where there is no headline, values as recorded beside others with their verdicts."""
    sentences = []
    for metric, recorded, best in _recorded_and_best(rows):
        number, said = f"the {best['estimator']} estimate was refused", best["verdict"]["text"]
        if best["value"] is not None and best["value"] == best["value"]:
            ends = f"interval {best['low']:.3f} to {best['high']:.3f}"
            number = f"the {best['estimator']} estimate is {best['value']:.3f}, {ends}"
        value = f"Taken at face value {metric} is {recorded['value']:.3f}"
        sentences.append(f"{value}; {number}: {said}.")
    return sentences


def sections(record: Record) -> list[parts.Section]:
    """Return estimates, what they depend on, how systems compare, labels, and what names mean."""
    rows = record["estimates"]
    moves = by(record.get("moves", []), "system")
    made: list[parts.Section] = []
    if differences := record.get("differences"):
        first = record.get("source") or "the first system"
        moved = [row for system, own in moves.items() if system for row in own]
        made.append(estimates.differences_section(differences, moved, first=first))
    made.append(_estimates_section(rows))
    if groups := record.get("groups"):
        made.append(groups_section(groups))
    if curves := record.get("curves"):
        made.append(curves_section(curves))
    if moves.get(""):
        made.append(_moves_section(moves[""]))
    if audited := record.get("audit"):
        made.append(audit.section(audited, record.get("stopping")))
    if varied := record.get("sensitivity"):
        models = by(varied, "propensity")
        text = f"The same estimates under {len(models)} propensity models: {', '.join(models)}."
        drawn = estimates.along(varied)
        made.append(parts.Section("Sensitivity to the propensities", [parts.Text(text), drawn]))
    made += [estimates.ranking_section(ranking) for ranking in record.get("rankings", ())]
    if recorded := record.get("labels"):
        made.append(labels.section(recorded))
    if named := record.get("per_label"):
        places = record.get("places", 0)
        made.append(labels.judged_section(named, places, refuted=_refuted(record)))
    if ranked := record.get("label_rankings"):
        made.append(labels.ranked_section(ranked))
    meanings = "\n\n".join(f"`{name}`: {meaning(name)}." for name in by(rows, "estimator"))
    return [*made, parts.Section("What the estimators mean", [parts.Text(meanings)])]


def meaning(estimator: str) -> str:
    """Return in words what an estimator is.

    Parameters
    ----------
    estimator : str
        A name in `ESTIMATORS`, or "measured".

    Returns
    -------
    str
    """
    return MEASURED if estimator == "measured" else ESTIMATORS[estimator].meaning


def _estimates_section(rows: Sequence[Row]) -> parts.Section:
    carried, largest = "how many rows carry the estimate", "the share of the single largest row"
    columns: parts.Columns = {
        "metric": "metric",
        "estimator": "estimator",
        parts.Column("value", ".4f"): estimate_cell,
        "level": level_cell,
        parts.Column("effective rows", ",.0f", carried): lambda row: row.get(
            "effective_sample_size"
        ),
        parts.Column("largest row", ".1%", largest): lambda row: row.get("largest_contribution"),
    }
    table = parts.Table.of(rows, columns, "All estimates")
    every = estimates.estimates(rows)
    # of the preferred estimators, those that stay in the range come first
    glance = estimates.at_a_glance(rows, PREFERRED["R"])
    more = [every] if glance and len(by(rows, "estimator")) > 2 else []
    shown: list[parts.Part] = [glance or every, table, estimates.verdict_list(rows), *more]
    return parts.Section("Estimates", shown)


def _moves_section(rows: Sequence[Row]) -> parts.Section:
    text = parts.Text(
        "A conditional number is right if its condition is. Here the condition is moved: every "
        "observed label may have been recorded with a probability that is up to so many times "
        "lower or higher than stated, hits and misses in opposite directions; and labels of a row "
        "may be kept or lost together."
    )
    table = estimates.moves_table(rows, "number", "How far each number moves")
    return parts.Section("How far the numbers move", [text, estimates.moves(rows), table])


def groups_section(rows: Sequence[Row]) -> parts.Section:
    """Return every metric by group: a chart each, and a table with counts and marks.

    Parameters
    ----------
    rows : sequence of mappings
        Estimates, each with its group.

    Returns
    -------
    Section
    """
    groups = by(rows, "group")
    small = list(by([row for row in rows if row["details"]["small"]], "group"))
    differ = list(by([row for row in rows if row["details"]["differs"]], "group"))
    text = f"{len(groups):,} groups of rows, each evaluated as if its rows were all there are. "
    text += (
        f"{len(differ):,} of them differ from all other rows in some number: {claims.some(differ)}."
        if differ
        else "None differs from all other rows beyond chance."
    )
    text += " Of such marks 5 % are false, on average, however many groups there are."
    if small:
        text += f" Too few rows to say much: {claims.some(small)}."

    def mark(row: Row) -> str:
        if row["details"]["small"]:
            return "too few to say"
        return "differs" if row["details"]["differs"] else ""

    columns: parts.Columns = {
        "group": "group",
        parts.Column("rows", ",.0f"): lambda row: row["details"]["rows"],
        "metric": "metric",
        "estimator": "estimator",
        parts.Column("value", ".4f"): estimate_cell,
        "level": level_cell,
        "from all others": mark,
    }
    drawn = estimates.along([row for row in rows if row["group"] in list(groups)[:GROUPS]], "group")
    return parts.Section("By group", [parts.Text(text), drawn, parts.Table.of(rows, columns)])


def curves_section(curves: Mapping[str, Sequence[Mapping[str, Any]]]) -> parts.Section:
    """Return precision over recall, and F1 over thresholds, as observed and corrected.

    Parameters
    ----------
    curves : mapping of estimator to sequence of mappings
        One mapping per threshold.

    Returns
    -------
    Section
    """
    by_recall, by_threshold, best = [], [], []
    for name, rows in curves.items():
        rising = sorted(rows, key=lambda row: row["recall"])
        precision = ("precision", "precision_low", "precision_high")
        recall, threshold = ([r["recall"] for r in rising], [r["threshold"] for r in rows])
        by_recall.append(estimates.series_of(name, recall, rising, keys=precision))
        f1 = ("f1", "f1_low", "f1_high")
        by_threshold.append(estimates.series_of(name, threshold, rows, keys=f1))
        top = max(rows, key=lambda row: row["f1"])
        best.append(f"by the {name} estimate F1 is best at {top['threshold']:.3g}: {top['f1']:.3f}")
    text = parts.Text(
        "Sets of all labels whose score reaches a threshold, over all pairs of a row and a label; "
        + "; ".join(best)
        + ". The best of many is optimistic by chance: choose on other rows (`unmask threshold`)."
    )
    x, y, best_f1 = (parts.Axis(name, low=0, high=1) for name in ("recall", "precision", "F1"))
    charts = [
        parts.Chart("lines", by_recall, "precision over recall", x, y),
        parts.Chart("lines", by_threshold, "F1 over thresholds", "threshold", best_f1),
    ]
    return parts.Section("Over thresholds", [text, parts.Panels(charts)])
