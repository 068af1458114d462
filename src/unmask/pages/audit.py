"""The audit behind measured numbers: what was judged, by whom, and how precise it became."""

from __future__ import annotations

import math
from collections.abc import Sequence

from unmask._typing import Record
from unmask.pages import parts
from unmask.pages.estimates import Row, by, scale

SHOWN = 50
"""Contradictions that a page lists."""

EXPECTED_STYLE = parts.Style("blue", "none", "dashed")
REACHED_STYLE = parts.Style("vermilion", "circle")


def section(facts: Record, stopping: Record | None = None) -> parts.Section:
    """Return what was judged, the funnel of precision, agreement and contradictions.

    Parameters
    ----------
    facts, stopping : Record
        As `unmask audit estimate --json` prints them under `audit` and `stopping`.
    """
    counts = facts["counts"]
    shown: list[parts.Part] = [
        parts.Text(
            "The numbers called measured come from a random sample with known inclusion "
            "probabilities. They assume nothing of what hid the labels."
        ),
        parts.Facts(
            {
                f"{facts['unit']} asked": counts["asked"],
                "judged": counts["judged"],
                "unsure": counts["unsure"],
                "people differ": counts["split"],
                "design": facts["design"],
                "annotators": len(facts["annotators"]),
            }
        ),
    ]
    if stopping is not None and (lines := stopping_lines(stopping)):
        shown.append(parts.Text("\n\n".join(lines)))
    if facts["reached"]:
        shown.append(_funnel(facts))
    if undecided := facts.get("undecided"):
        columns: parts.Columns = {
            "metric": "metric",
            parts.Column("at least", ".4f"): "low",
            parts.Column("at most", ".4f"): "high",
        }
        title = f"{undecided[0]['questions']:,} questions that nobody could decide"
        meant = "The number lies between these, by what they mean; its interval holds all of it."
        shown.append(parts.Table.of(undecided, columns, title, meant))
    if facts["agreement"]:
        shown.append(_agreement(facts))
    if contradictions := facts["contradictions"]:
        columns = {
            "question": "question",
            "row": "row",
            "label": "label",
            "answers": lambda row: "; ".join(f"{name}: {word}" for name, word in row["answers"]),
            "settled": "settled",
        }
        title = f"{len(contradictions):,} questions on which people differ"
        settled = (
            "Settled by most people, or by the adjudicator; intervals hold whatever the others "
            "mean."
        )
        shown.append(parts.Table.of(contradictions[:SHOWN], columns, title, settled))
    return parts.Section("The audit", shown)


def stopping_lines(stopping: Record) -> list[str]:
    """Say whether the audit may stop, and how much eluded it.

    Parameters
    ----------
    stopping : Record

    Returns
    -------
    list of str
    """
    lines = []
    for row in stopping["sequences"]:
        goals = [] if row["half_width"] is None else [f"known to ± {row['half_width']:g}"]
        goals += [] if row["at_least"] is None else [f"certain to be at least {row['at_least']:g}"]
        end = "Not yet: go on judging"
        if row["stop_after"] is not None:
            end = f"Yes, after {row['stop_after']:,} rows: judging may stop"
        lines.append(
            f"{row['metric']} lies between {row['low']:.3f} and {row['high']:.3f} with "
            f"{row['confidence']:.0%} confidence, whenever one looks ({row['judged']:,} rows). "
            f"Is it {' or '.join(goals)}? {end}."
        )
    return lines if stopping["elusion"] is None else [*lines, stopping["elusion"]["text"]]


def _funnel(facts: Record) -> parts.Panels:
    """Draw every metric's estimate by number of judgements, with its interval narrowing."""
    expected, unit = by(facts["expected"], "metric"), f"{facts['unit']} judged"
    panels = [
        _metric_funnel(metric, rows, expected.get(metric, []), unit)
        for metric, rows in by(facts["reached"], "metric").items()
    ]
    return parts.Panels(
        panels,
        title="Precision, expected and reached",
        caption="The estimate after more and more of the answers, with its interval; dashed: the "
        "interval that the plan expected around the last estimate. The interval of the last point "
        "is the result; stopping when an interval happens to look good needs wider ones "
        "(`audit.sequence`).",
    )


def _metric_funnel(
    metric: str, reached: Sequence[Row], expected: Sequence[Row], unit: str
) -> parts.Chart:
    usable = [row for row in reached if row["value"] is not None]
    columns = ([row[key] for row in usable] for key in ("judged", "value", "low", "high"))
    series = [parts.Series("reached", *columns, style=REACHED_STYLE)]
    if expected and usable:
        share = all(0 <= (row["low"] or 0) <= (row["high"] or 0) <= 1 for row in usable)
        least, most = (0.0, 1.0) if share else (-math.inf, math.inf)
        for name, sign in {"upper": 1, "lower": -1}.items():
            ends = [usable[-1]["value"] + sign * row["half"] for row in expected]
            kept = [min(max(end, least), most) for end in ends]
            judged = [row["judged"] for row in expected]
            series.append(parts.Series(f"expected, {name} end", judged, kept, style=EXPECTED_STYLE))
    values = [value for each in series for value in each.y]
    return parts.Chart("lines", series, title=metric, x=parts.Axis(unit, low=0), y=scale(values))


def _agreement(facts: Record) -> parts.Table:
    columns: parts.Columns = {
        "annotators": lambda row: " and ".join(row["annotators"]),
        "pairs": "items",
        parts.Column("same answer", ".1%"): "percent",
        parts.Column(
            "of yes", ".1%", "2 both-yes / (yes of the one + yes of the other)"
        ): "positive",
        parts.Column("Cohen's kappa", ".2f", "agreement beyond chance; 1 is perfect"): "kappa",
    }
    several = len(facts["annotators"]) > 2 and facts["fleiss_kappa"] is not None
    caption = f"Fleiss' kappa of all annotators: {facts['fleiss_kappa']:.2f}." if several else ""
    title = "Agreement on pairs of a row and a label"
    return parts.Table.of(facts["agreement"], columns, title, caption)
