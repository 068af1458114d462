"""Estimates on pages: rows as results store them become cells, verdicts, charts and comparisons.

A row has a metric, an estimator, a value with its interval, and a verdict: what the number may
claim. Rows of several systems, groups or propensity models also say whose they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from unmask._typing import Record
from unmask.metrics import claims
from unmask.metrics.claims import Level
from unmask.metrics.comparison import Ranking
from unmask.pages import parts

Row = Mapping[str, Any]

STYLES: parts.Styles = {
    "truth": parts.Style("ink"),
    "most possible": parts.Style("gray"),
    "measured": parts.Style("ink", "star"),
    "vanilla": parts.Style("blue", "circle"),
    "unbiased": parts.Style("orange", "square"),
    "bound": parts.Style("green", "triangle"),
    "deconvolved": parts.Style("vermilion", "diamond"),
    "tempered": parts.Style("purple", "plus"),
    "clipped": parts.Style("sky", "cross"),
    "self_normalized": parts.Style("olive", "down"),
    "filtered": parts.Style("gray", "star"),
    "subsampled": parts.Style("gray", "circle", "dashed"),
}
"""The style of every estimator and of the truth, on every chart of the package."""

LEVELS: Mapping[str, str] = {
    Level.MEASURED: "good",
    Level.CONDITIONAL: "info",
    Level.WIDE: "warning",
    Level.DOUBTFUL: "warning",
    Level.UNUSABLE: "error",
}
"""Everything that a number may claim, most first, with the level that pages show it as."""

PARAMETERS = {"γ": "γ: propensities p^γ"}
"""The parameters of propensity models, as axes call them."""


# ----------------------------------------------------------------------------- cells and verdicts


def level_of(row: Row) -> Level:
    """Return what the number of a row may claim."""
    return Level(row["verdict"]["level"])


def level_cell(row: Row) -> parts.Verdict:
    """Return the level of a row in a word; `verdict_list` says why.

    >>> level_cell({"verdict": {"level": "unusable", "text": "unusable: 3 of 900 rows carry it"}})
    Verdict(level='error', words='unusable', evidence='', advice='', badge='', effect='')
    """
    level = level_of(row)
    return parts.Verdict(LEVELS[level], level.value)


def verdict_list(rows: Iterable[Row]) -> parts.Verdicts:
    """Return why numbers have their levels, once per reason.

    >>> wide = {"level": "wide", "reason": "wide", "advice": "", "text": "wide: ± 0.2"}
    >>> (one,) = verdict_list([{"metric": "R@5", "estimator": "bound", "verdict": wide}]).verdicts
    >>> one.level, one.badge, one.words, one.evidence
    ('warning', 'wide', 'R@5 by bound', '± 0.2.')
    """
    groups = claims.grouped(rows, measured=True)
    return parts.Verdicts(
        [parts.Verdict(LEVELS[g.level], g.names, f"{g.why}.", badge=g.level.value) for g in groups]
    )


def estimate_cell(row: Row) -> parts.Estimate:
    """Return a stored estimate as a cell; empty where the data refused it.

    A value that is further from its interval, which stays within the range of the metric, than that
    is wide stands alone.
    """
    value, low, high = row["value"], row["low"], row["high"]
    if value is None or value != value:
        return parts.Estimate(None)
    if low is not None and high is not None and not 2 * low - high <= value <= 2 * high - low:
        return parts.Estimate(value)
    return parts.Estimate(value, low, high)


def by(rows: Iterable[Row], key: str) -> dict[str, list[Row]]:
    """Return the rows by their value of a key, in order of appearance."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row[key], []).append(row)
    return groups


# ---------------------------------------------------------------------------------------- charts


def estimates(rows: Iterable[Row], *, rules: Mapping[str, float] | None = None) -> parts.Panels:
    """Draw every metric's estimates with their intervals, one below the other.

    Metrics with a single estimate are left out, unless all have one. `rules` are the true values of
    metrics, where they are known.

    >>> row = {"metric": "P@1", "estimator": "vanilla", "value": 0.5, "low": 0.4, "high": 0.6}
    >>> [chart.title for chart in estimates([row]).charts]
    ['P@1']
    """
    groups = by(rows, "metric")
    shown = {metric: group for metric, group in groups.items() if len(group) > 1} or groups
    charts = []
    for metric, group in shown.items():
        series = [series_of(row["estimator"], [row["estimator"]], [row]) for row in group]
        values, truth = [row["value"] for row in group], _truth(metric, rules)
        charts.append(_chart("dots", series, metric, values, rules=truth))
    title = "Estimates and their intervals" + ("; dashed: the truth" if rules else "")
    return parts.Panels(charts, columns=3, title=title)


def _truth(metric: str, rules: Mapping[str, float] | None) -> list[parts.Rule]:
    value = (rules or {}).get(metric)
    return [] if value is None else [parts.Rule("truth", value, style=STYLES["truth"])]


def along(
    rows: Iterable[Row],
    axis: str = "propensity",
    *,
    rules: Mapping[str, float] | None = None,
    label: str | None = None,
) -> parts.Panels:
    """Draw the same estimates of several systems or groups, or under several propensity models.

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
    >>> row = {"metric": "P@1", "estimator": "vanilla", "value": 0.5, "low": 0.4, "high": 0.6}
    >>> along([{"system": name, **row} for name in "ab"], "system").charts[0].series[0].x
    ('a', 'b')
    """
    charts = []
    for metric, group in by(rows, "metric").items():
        (names, *others) = {tuple(row.get("parameters", ())) for row in group}
        parameter = names[0] if len(names) == 1 and not others else None
        series = []
        for name, own in by(group, "estimator").items():
            places = [row["parameters"][parameter] if parameter else row[axis] for row in own]
            series.append(series_of(name, places, own))
        truth = _truth(metric, rules)
        if parameter is None:
            charts.append(parts.Chart("dots", series, title=metric, rules=truth))
        else:
            x = label or PARAMETERS.get(parameter, parameter)
            values = [row["value"] for row in group]
            charts.append(_chart("lines", series, metric, values, x=x, rules=truth))
    return parts.Panels(charts, columns=min(3, len(charts)))


def moves(rows: Iterable[Row]) -> parts.Chart:
    """Draw how far numbers move: over propensities within a factor, and over row effort.

    >>> near = {"gamma": 1.25, "low": 0.4, "high": 0.6}
    >>> row = {"metric": "R@5", "estimator": "unbiased", "value": 0.5, "gammas": [near],
    ...        "efforts": []}
    >>> [series.name for series in moves([row]).series]
    ['p off by ≤ 1.25 ×']
    """
    lines: dict[str, list[tuple[str, float, float, float]]] = {}
    for row in rows:
        for label, low, high in _ends(row):
            place = (f"{row['metric']} {row['estimator']}", row["value"], low, high)
            lines.setdefault(label, []).append(place)
    series = [parts.Series(label, *zip(*line, strict=True)) for label, line in lines.items()]
    values = [end for each in series for end in (*each.low, *each.high)]
    return _chart("dots", series, "How far conditional numbers move", values)


def _ends(row: Row) -> Iterator[tuple[str, float, float]]:
    """Yield the ends of one number by what is varied; itself where the data refuse an end."""
    value = row["value"]
    for each in row["gammas"]:
        low, high = (value if end is None or end != end else end
                     for end in (each["low"], each["high"]))  # fmt: skip
        yield f"p off by ≤ {each['gamma']:g} ×", low, high
    if row["efforts"]:
        over = [each["value"] for each in row["efforts"]]
        values = [value, *(end for end in over if end is not None and end == end)]
        yield "lost together", min(values), max(values)


def series_of(
    name: str, x: list[Any], rows: Sequence[Row],
    *, keys: Sequence[str] = ("value", "low", "high"), style: parts.Style | None = None,
) -> parts.Series:  # fmt: skip
    """Return a series of the values and intervals of rows, in the style of its estimator."""
    columns = ([row[key] for row in rows] for key in keys)
    return parts.Series(name, x, *columns, style=style or STYLES.get(name))


def _chart(
    kind: str, series: list[parts.Series], title: str, values: Iterable[float | None],
    *, x: str = "", rules: Sequence[parts.Rule] = (),
) -> parts.Chart:  # fmt: skip
    """Draw estimates on the `scale` of values; a line at 1 is the most that they can be."""
    axis = scale(values)
    most = axis.high is not None and axis.high > 1
    limit = [parts.Rule("most possible", 1.0, style=STYLES["most possible"])] if most else []
    return parts.Chart(kind, series, title=title, x=x, y=axis, rules=[*rules, *limit])


def scale(values: Iterable[float | None]) -> parts.Axis:
    """Return an axis from 0 to 1, or to 1.5 where estimates go beyond 1; else as values lie.

    >>> scale([0.3, 1.1, -7.0]).high, scale([4.0]).high
    (1.5, None)
    """
    within = [value for value in values if value is not None and 0 <= value <= 1.5]
    return parts.Axis("", low=0, high=1.5 if max(within) > 1 else 1) if within else parts.Axis()


def at_a_glance(rows: Sequence[Row], preferred: Sequence[str]) -> parts.Chart | None:
    """Draw every metric as recorded beside the best number that may be claimed of it.

    Parameters
    ----------
    rows : sequence of mappings
    preferred : sequence of str
        Estimators, the best first.

    Returns
    -------
    Chart or None
        None where no metric has both.
    """
    shown: dict[str, dict[str, Row]] = {"as recorded": {}, "corrected": {}, "measured": {}}
    for metric, group in by(rows, "metric").items():
        own = {row["estimator"]: row for row in group}
        vanilla = own.get("vanilla")
        usable = [
            name for name in preferred if name in own and level_of(own[name]) < Level.DOUBTFUL
        ]
        if usable and vanilla is not None and vanilla["value"] is not None:
            shown["as recorded"][metric] = vanilla
            measured = usable[0] == "measured"
            shown["measured" if measured else "corrected"][metric] = own[usable[0]]
    if not shown["as recorded"]:
        return None
    styles = {"as recorded": "vanilla", "corrected": "deconvolved", "measured": "measured"}
    series = [
        series_of(name, [*rows], [*rows.values()], style=STYLES[styles[name]])
        for name, rows in shown.items()
        if rows
    ]
    values = [row["value"] for chosen in shown.values() for row in chosen.values()]
    return _chart("dots", series, "As recorded, and what is claimed instead", values)


# ------------------------------------------------------------------------------------ comparisons


def differences_section(
    rows: Sequence[Row], moved: Sequence[Row] = (), *, first: str = "the first system"
) -> parts.Section:
    """Return every system against the first: intervals, p-values, levels, when winners change.

    Parameters
    ----------
    rows : sequence of mappings
    moved : sequence of mappings, default ()
        How far conditional differences move.
    first : str, default "the first system"
        The name of the system that the others are compared with.
    """
    columns: parts.Columns = {
        "system": "system",
        "metric": "metric",
        "estimator": "estimator",
        parts.Column("difference", ".4f"): estimate_cell,
        "level": level_cell,
        parts.Column("p", ".2g"): lambda row: row["details"]["p_value"],
    }
    words = f"Paired over rows; above 0 the named system is better than {first}."
    own = by(rows, "system")
    charts = [chart for system, part in own.items() for chart in _against(system, first, part)]
    shown: list[parts.Part] = [
        *charts,
        parts.Text(words),
        parts.Table.of(rows, columns, "All differences"),
    ]
    shown += [verdict_list(part) for part in own.values()]
    if moved:
        shown.append(moves_table(moved, "difference", "How far each difference moves"))
    return parts.Section(f"Compared with {first}", shown)


def moves_table(rows: Iterable[Row], what: str, title: str) -> parts.Table:
    """Return in words how far numbers move."""

    def name(row: Row) -> str:
        number = f"{row['metric']} {row['estimator']}"
        return f"{row['system']}, {number}" if row["system"] else number

    return parts.Table.of(rows, {what: name, "how far it moves": "text"}, title)


def _against(system: str, first: str, rows: Iterable[Row]) -> list[parts.Chart]:
    """Draw the usable differences of one system by metric and estimator, if there are any."""
    usable = [row for row in rows if level_of(row) < Level.UNUSABLE]
    usable = [row for row in usable if estimate_cell(row).low is not None]
    series = [
        series_of(estimator, [row["metric"] for row in own], own)
        for estimator, own in by(usable, "estimator").items()
    ]
    title = f"{system} − {first}: above 0 {system} is better"
    return [_differences(series, title)] if series else []


def _differences(series: list[parts.Series], title: str) -> parts.Chart:
    rule = parts.Rule("no difference", 0.0)
    return parts.Chart("dots", series, title=title, y="difference", rules=[rule])


def ranking_section(record: Record) -> parts.Section:
    """Return whether the order of systems survives other propensities: statement, charts, table."""
    ranking = Ranking(**record)
    drawn = []
    for system, rows in ranking.by_system():
        keys = ("model", "difference", "low", "high")
        series = parts.Series(
            f"{system} − {ranking.first}", *([row[key] for row in rows] for key in keys)
        )
        title = f"{ranking.metric}, {ranking.estimator}: {system} against {ranking.first}"
        drawn.append(_differences([series], title))
    columns: parts.Columns = {
        "propensities": "model",
        "system": "system",
        parts.Column("its value", ".4f"): "value",
        parts.Column(ranking.first, ".4f"): "first",
        parts.Column("difference", ".4f"): lambda r: parts.Estimate(
            r["difference"], r["low"], r["high"]
        ),
    }
    level = LEVELS[ranking.level]
    lines = ranking.statement.splitlines()
    verdicts = [parts.Verdict(level, line, badge=ranking.level.value) for line in lines]
    title = f"Does the order in {ranking.metric} survive other propensities?"
    return parts.Section(
        title, [parts.Verdicts(verdicts), *drawn, parts.Table.of(ranking.rows, columns)]
    )


def side_by_side(records: Mapping[str, Record]) -> parts.Section:
    """Return every metric and estimator of several evaluations, a column for each by its name."""
    values: dict[tuple[str, str], dict[str, parts.Estimate]] = {}
    for name, record in records.items():
        for row in record["estimates"]:
            values.setdefault((row["metric"], row["estimator"]), {})[name] = estimate_cell(row)
    body = [[*key, *map(cells.get, records)] for key, cells in values.items()]
    columns: list[parts.Column | str] = [
        "metric",
        "estimator",
        *(parts.Column(name, ".4f") for name in records),
    ]
    return parts.Section("Side by side", [parts.Table(columns, body)])
