"""Estimates as charts: rows of `Table.to_dicts` or `Tables.to_dicts` become panels, one per metric.

The room `report` draws them; here is only what stands where, and one look per estimator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from unmask import report

Row = Mapping[str, Any]

COLUMNS = 3

report.STYLES.update(
    {
        "vanilla": report.Style("blue", "circle"),
        "unbiased": report.Style("orange", "square"),
        "bound": report.Style("green", "triangle"),
        "deconvolved": report.Style("vermilion", "diamond"),
        "tempered": report.Style("purple", "plus"),
        "clipped": report.Style("sky", "cross"),
        "self_normalized": report.Style("olive", "down"),
        "filtered": report.Style("gray", "star"),
        "subsampled": report.Style("gray", "circle", "dashed"),
    }
)


def estimates(rows: Iterable[Row]) -> report.Panels:
    """Every metric's estimates with their intervals, one below the other.

    Metrics with a single estimate are left out, unless all are.

    >>> row = {"metric": "P@1", "estimator": "vanilla", "value": 0.5, "low": 0.4, "high": 0.6}
    >>> [chart.title for chart in estimates([row]).charts]
    ['P@1']
    """
    groups = _by_metric(rows)
    shown = {metric: group for metric, group in groups.items() if len(group) > 1} or groups
    charts = [
        report.Chart(
            "dots",
            [_series(row["estimator"], [row["estimator"]], [row]) for row in group],
            title=metric,
            y=scale(row["value"] for row in group),
        )
        for metric, group in shown.items()
    ]
    return report.Panels(charts, columns=COLUMNS, title="Estimates and their intervals")


def along(
    rows: Iterable[Row], axis: str = "propensity", *, rules: Mapping[str, float] | None = None
) -> report.Panels:
    """The same estimates of several systems or under several propensity models.

    `axis` is the key that tells them apart, `rules` the truth of a metric where it is known. Models
    that are powers, `γ = …`, stand on an axis of numbers; others by name.

    >>> row = {"metric": "P@1", "estimator": "unbiased", "value": 0.5, "low": 0.4, "high": 0.6}
    >>> along([{"propensity": f"γ = {g}", **row} for g in (0, 1)]).charts[0].kind
    'lines'
    """
    groups = _by_metric(rows)
    charts = [_along(group, metric, axis, rules or {}) for metric, group in groups.items()]
    return report.Panels(charts, columns=min(COLUMNS, len(charts)))


def _along(rows: list[Row], metric: str, axis: str, rules: Mapping[str, float]) -> report.Chart:
    powers = all(row[axis].startswith("γ = ") for row in rows)
    series = []
    for name in dict.fromkeys(row["estimator"] for row in rows):
        part = [row for row in rows if row["estimator"] == name]
        models = [row[axis] for row in part]
        at = [float(model.removeprefix("γ = ")) for model in models] if powers else models
        series.append(_series(name, at, part))
    truth = [report.Rule("truth", rules[metric])] if metric in rules else []
    if not powers:
        return report.Chart("dots", series, title=metric, rules=truth)
    x, y = report.Axis("γ: propensities p^γ"), scale(row["value"] for row in rows)
    return report.Chart("lines", series, title=metric, x=x, y=y, rules=truth)


def scale(values: Iterable[float | None]) -> report.Axis:
    """An axis from 0 to 1, or to 1.5 where estimates go beyond 1; None of them within: their own.

    >>> scale([0.3, 1.1, -7.0]).high, scale([4.0]).high
    (1.5, None)
    """
    within = [value for value in values if value is not None and 0 <= value <= 1.5]
    return report.Axis("", low=0, high=1.5 if max(within) > 1 else 1) if within else report.Axis()


def _series(name: str, at: list[Any], rows: list[Row]) -> report.Series:
    value, low, high = ([row[key] for row in rows] for key in ("value", "low", "high"))
    return report.Series(name, at, value, low, high)


def _by_metric(rows: Iterable[Row]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["metric"], []).append(row)
    return groups
