"""Estimates as charts: rows of `Table.to_dicts` or `Tables.to_dicts` become panels, one per metric.

`report` draws them; here is only what stands where, and the style of every estimator.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from unmask import report

Row = Mapping[str, Any]

COLUMNS = 3

STYLES: report.Styles = {
    "truth": report.Style("ink"),
    "most possible": report.Style("gray"),
    "measured": report.Style("ink", "star"),
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
"""The style of every estimator and of the truth, on every chart of the package."""


def estimates(rows: Iterable[Row]) -> report.Panels:
    """Draw every metric's estimates with their intervals, one below the other.

    Parameters
    ----------
    rows : iterable of mappings
        With the keys metric, estimator, value, low and high, as `Table.to_dicts` makes them.

    Returns
    -------
    Panels
        One chart per metric. Metrics with a single estimate are left out, unless all have one.

    Examples
    --------
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
            rules=most(scale(row["value"] for row in group)),
        )
        for metric, group in shown.items()
    ]
    return report.Panels(charts, columns=COLUMNS, title="Estimates and their intervals")


def most(axis: report.Axis) -> list[report.Rule]:
    """A line at 1, the most that these metrics can be, where the axis goes beyond it.

    Parameters
    ----------
    axis : Axis
        As `scale` makes it.

    Returns
    -------
    list of Rule

    Examples
    --------
    >>> [rule.value for rule in most(scale([0.3, 1.1]))], most(scale([0.3]))
    ([1.0], [])
    """
    beyond = axis.high is not None and axis.high > 1
    return [report.Rule("most possible", 1.0, style=STYLES["most possible"])] if beyond else []


def moves(rows: Iterable[Row]) -> report.Chart:
    """Draw how far numbers move: over propensities within a factor, and over row effort.

    Parameters
    ----------
    rows : iterable of mappings
        With metric, estimator, value, gammas and efforts, as `unmask evaluate --json` stores them
        under "moves".

    Returns
    -------
    Chart
        A row of intervals per metric.

    Examples
    --------
    >>> near = {"gamma": 1.25, "low": 0.4, "high": 0.6}
    >>> row = {"metric": "R@5", "estimator": "unbiased", "value": 0.5, "gammas": [near],
    ...        "efforts": []}
    >>> [series.name for series in moves([row]).series]
    ['p off by ≤ 1.25 ×']
    """
    lines: dict[str, dict[str, tuple[float, float, float]]] = {}
    values = []
    for row in rows:
        name = f"{row['metric']} {row['estimator']}"
        for label, low, high in _ends(row):
            lines.setdefault(label, {})[name] = row["value"], low, high
            values += [low, high]
    axis = scale(values)
    return report.Chart(
        "dots",
        [
            report.Series(label, list(line), *map(list, zip(*line.values(), strict=True)))
            for label, line in lines.items()
        ],
        title="How far conditional numbers move",
        y=axis,
        rules=most(axis),
    )


def _ends(row: Row) -> Iterator[tuple[str, float, float]]:
    """The ends of one number by what is varied; the number itself where the data refuse an end."""
    value = row["value"]
    for each in row["gammas"]:
        low, high = (value if end is None or end != end else end
                     for end in (each["low"], each["high"]))  # fmt: skip
        yield f"p off by ≤ {each['gamma']:g} ×", low, high
    over = [each["value"] for each in row["efforts"]]
    if over:
        values = [value, *(end for end in over if end is not None and end == end)]
        yield "lost together", min(values), max(values)


def along(
    rows: Iterable[Row],
    axis: str = "propensity",
    *,
    rules: Mapping[str, float] | None = None,
    label: str | None = None,
) -> report.Panels:
    """Draw estimates of several systems or under several propensity models.

    Parameters
    ----------
    rows : iterable of mappings
        With the keys metric, estimator, value, low, high and `axis`. If all rows of a metric also
        have the same single entry in "parameters", they stand at its numbers, else by name.
    axis : str, default "propensity"
        The key that tells systems or models apart.
    rules : mapping of metric to float, optional
        The truth of a metric, where it is known.
    label : str, optional
        What the parameter is; by default its name, or what `PARAMETERS` says of it.

    Returns
    -------
    Panels
        One chart per metric: lines over the parameter, or dots by name.

    Examples
    --------
    >>> row = {"metric": "P@1", "estimator": "unbiased", "value": 0.5, "low": 0.4, "high": 0.6}
    >>> models = [{"propensity": f"p^{γ}", "parameters": {"γ": γ}, **row} for γ in (0, 1)]
    >>> along(models).charts[0].kind, along(models).charts[0].series[0].x
    ('lines', (0.0, 1.0))
    """
    groups = _by_metric(rows)
    charts = [_along(group, metric, axis, rules or {}, label) for metric, group in groups.items()]
    return report.Panels(charts, columns=min(COLUMNS, len(charts)))


def _along(
    rows: list[Row], metric: str, axis: str, rules: Mapping[str, float], label: str | None
) -> report.Chart:
    parameter = _only_parameter(rows)
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["estimator"], []).append(row)
    series = [
        _series(
            name,
            [row["parameters"][parameter] if parameter else row[axis] for row in group],
            group,
        )
        for name, group in groups.items()
    ]
    truth = [report.Rule("truth", rules[metric], style=STYLES["truth"])] if metric in rules else []
    if parameter is None:
        return report.Chart("dots", series, title=metric, rules=truth)
    x = report.Axis(label or PARAMETERS.get(parameter, parameter))
    y = scale(row["value"] for row in rows)
    return report.Chart("lines", series, title=metric, x=x, y=y, rules=[*truth, *most(y)])


PARAMETERS = {"γ": "γ: propensities p^γ"}
"""Parameters of propensity models, in words."""


def _only_parameter(rows: list[Row]) -> str | None:
    """The name of the parameter that all rows have alone, if there is one."""
    names = {tuple(row.get("parameters", ())) for row in rows}
    (only, *others) = names
    return str(only[0]) if not others and len(only) == 1 else None


def scale(values: Iterable[float | None]) -> report.Axis:
    """An axis from 0 to 1, or to 1.5 where estimates go beyond 1; None of them within: their own.

    Parameters
    ----------
    values : iterable of float or None
        The estimates on the axis.

    Returns
    -------
    Axis

    Examples
    --------
    >>> scale([0.3, 1.1, -7.0]).high, scale([4.0]).high
    (1.5, None)
    """
    within = [value for value in values if value is not None and 0 <= value <= 1.5]
    return report.Axis("", low=0, high=1.5 if max(within) > 1 else 1) if within else report.Axis()


def _series(name: str, x: list[Any], rows: list[Row]) -> report.Series:
    value, low, high = ([row[key] for row in rows] for key in ("value", "low", "high"))
    return report.Series(name, x, value, low, high, style=STYLES.get(name))


def _by_metric(rows: Iterable[Row]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["metric"], []).append(row)
    return groups
