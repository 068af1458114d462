"""The audit behind measured numbers: what was judged, by whom, and how precise it became."""

from __future__ import annotations

import math

from unmask import report
from unmask._typing import Record
from unmask.metrics import charts

SHOWN = 50
"""Contradictions that a page lists."""

EXPECTED_STYLE = report.Style("blue", "none", "dashed")
REACHED_STYLE = report.Style("vermilion", "circle")


def section(facts: Record, stopping: Record | None = None) -> report.Section:
    """What was judged, the funnel of precision, agreement and contradictions.

    Parameters
    ----------
    facts : Record
        As `unmask audit estimate --json` prints them under `audit`.
    stopping : Record, optional
        As it prints them under `stopping`.

    Returns
    -------
    Section
    """
    counts = facts["counts"]
    parts: list[report.Part] = [
        report.Text(
            "The numbers called measured come from a random sample with known inclusion "
            "probabilities. They assume nothing of what hid the labels."
        ),
        report.Facts(
            [
                (f"{facts['unit']} asked", counts["asked"]),
                ("judged", counts["judged"]),
                ("unsure", counts["unsure"]),
                ("people differ", counts["split"]),
                ("design", facts["design"]),
                ("annotators", len(facts["annotators"])),
            ]
        ),
    ]
    if stopping is not None and (lines := stopping_lines(stopping)):
        parts.append(report.Text("\n\n".join(lines)))
    if facts["reached"]:
        parts.append(_funnel(facts))
    if facts.get("undecided"):
        parts.append(_undecided(facts["undecided"]))
    if facts["agreement"]:
        parts.append(_agreement(facts))
    if facts["contradictions"]:
        parts.append(_contradictions(facts))
    return report.Section("The audit", parts)


def stopping_lines(stopping: Record) -> list[str]:
    """Whether the audit may stop, in sentences, and how much eluded it.

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
        end = "not yet: go on judging"
        if row["stop_after"] is not None:
            end = f"yes, after {row['stop_after']:,} rows: judging may stop"
        lines.append(
            f"{row['metric']} lies between {row['low']:.3f} and {row['high']:.3f} with "
            f"{row['confidence']:.0%} confidence, whenever one looks ({row['judged']:,} rows). "
            f"Is it {' or '.join(goals)}? {end[0].upper()}{end[1:]}."
        )
    if stopping["elusion"] is not None:
        lines.append(stopping["elusion"]["text"])
    return lines


def _undecided(rows: list[Record]) -> report.Table:
    return report.Table(
        ["metric", report.Column("at least", ".4f"), report.Column("at most", ".4f")],
        [[row["metric"], row["low"], row["high"]] for row in rows],
        title=f"{rows[0]['questions']:,} questions that nobody could decide",
        caption="The number lies between these, by what they mean; its interval holds all of it.",
    )


def _funnel(facts: Record) -> report.Panels:
    """Every metric's estimate by number of judgements, with its interval narrowing."""
    metrics = list(dict.fromkeys(row["metric"] for row in facts["reached"]))
    panels = [
        _metric_funnel(
            metric,
            [row for row in facts["reached"] if row["metric"] == metric],
            [row for row in facts["expected"] if row["metric"] == metric],
            f"{facts['unit']} judged",
        )
        for metric in metrics
    ]
    return report.Panels(
        panels,
        columns=min(2, len(panels)),
        title="Precision, expected and reached",
        caption="The estimate after more and more of the answers, with its interval; dashed: the "
        "interval that the plan expected around the last estimate. The interval of the last point "
        "is the result; stopping when an interval happens to look good needs wider ones "
        "(`audit.sequence`).",
    )


def _metric_funnel(
    metric: str, reached: list[Record], expected: list[Record], unit: str
) -> report.Chart:
    usable = [row for row in reached if row["value"] is not None]
    series = [
        report.Series(
            "reached",
            [row["judged"] for row in usable],
            [row["value"] for row in usable],
            [row["low"] for row in usable],
            [row["high"] for row in usable],
            style=REACHED_STYLE,
        )
    ]
    last = usable[-1]["value"] if usable else None
    if expected and last is not None:
        ends = {"upper": 1.0, "lower": -1.0}
        share = all(0 <= (row["low"] or 0) <= (row["high"] or 0) <= 1 for row in usable)
        low, high = (0.0, 1.0) if share else (-math.inf, math.inf)
        series += [
            report.Series(
                f"expected, {name} end",
                [row["judged"] for row in expected],
                [min(max(last + sign * row["half"], low), high) for row in expected],
                style=EXPECTED_STYLE,
            )
            for name, sign in ends.items()
        ]
    values = [v for each in series for v in each.y]
    return report.Chart("lines", series, title=metric, x=report.Axis(unit, low=0),
                        y=charts.scale(values))  # fmt: skip


def _agreement(facts: Record) -> report.Table:
    several = len(facts["annotators"]) > 2 and facts["fleiss_kappa"] is not None
    return report.Table(
        ["annotators", "pairs", report.Column("same answer", ".1%"),
         report.Column("of yes", ".1%", "2 both-yes / (yes of the one + yes of the other)"),
         report.Column("Cohen's kappa", ".2f", "agreement beyond chance; 1 is perfect")],
        [
            [" and ".join(row["annotators"]), row["items"], row["percent"], row["positive"],
             row["kappa"]]
            for row in facts["agreement"]
        ],
        title="Agreement on pairs of a row and a label",
        caption=f"Fleiss' kappa of all annotators: {facts['fleiss_kappa']:.2f}." if several else "",
    )  # fmt: skip


def _contradictions(facts: Record) -> report.Table:
    rows = facts["contradictions"]
    return report.Table(
        ["question", "row", "label", "answers", "settled"],
        [
            [row["question"], row["row"], row["label"],
             "; ".join(f"{name}: {word}" for name, word in row["answers"]), row["settled"]]
            for row in rows[:SHOWN]
        ],
        title=f"{len(rows):,} questions on which people differ",
        caption="Settled by most people, or by the adjudicator; intervals hold whatever the others "
        "mean.",
    )  # fmt: skip
