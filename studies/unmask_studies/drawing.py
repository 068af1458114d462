"""Tables from heads with formats and lines, charts from points by series, means of rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from unmask import pages
from unmask.pages import estimates
from unmask.pages.parts import Column, Style, Styles
from unmask_studies.study import Row

STYLES: Styles = {
    **estimates.STYLES,
    "empirical bayes": Style("vermilion", "diamond"),
    "clean": Style("ink", "star"),
    "pretrained": Style("orange", "cross", "dashed"),
    "halved": Style("sky", "down"),
    "observed labels, training rows": Style("gray", "none", "dashed"),
    "true labels, training rows": Style("blue", "none", "dotted"),
    "true labels, test rows": Style("ink", "none"),
}
# What several studies show (estimators, corrections, settings) looks the same in all of them.


def table(
    title: str, heads: Mapping[str, str], lines: Iterable[Sequence[Any]], caption: str = ""
) -> pages.Table:
    """Return a table from the format of every column, by its head ("" for words).

    >>> table("Errors", {"metric": "", "RMSE": ".3f"}, [("R@5", 0.01)]).columns[1].format
    '.3f'
    """
    columns = [Column(name, form) if form else name for name, form in heads.items()]
    return pages.Table(columns, [list(line) for line in lines], title=title, caption=caption)


def chart(
    kind: str,
    points: Mapping[str, Mapping[Any, Any]],
    *,
    title: str = "",
    x: pages.Axis | str = "",
    y: pages.Axis | str = "",
    rules: Mapping[str, float] | None = None,
    caption: str = "",
    styles: Mapping[str, str | Style] | None = None,
) -> pages.Chart:
    """Return a chart from values by x, by the name of the series.

    Parameters
    ----------
    kind : {"dots", "lines"}
    points : mapping of str to mapping
        A value is y, or (y, low, high).
    title, caption : str
    x, y : Axis or str
    rules : mapping of str to float, optional
        Dashed lines across the chart.
    styles : mapping of str to str or Style, optional
        How series look whose name is not in `STYLES`: a style, or a name there.
    """
    chosen = {
        name: STYLES[style] if isinstance(style, str) else style
        for name, style in (styles or {}).items()
    }
    series = []
    for name, by_x in points.items():
        ends = list(zip(*(np.atleast_1d(np.asarray(v, dtype=object)) for v in by_x.values()),
                        strict=True))  # fmt: skip
        if ends:
            style = chosen.get(name) or STYLES.get(name)
            series.append(pages.Series(name, list(by_x), *map(list, ends), style=style))
    lines = [pages.Rule(name, at, style=STYLES.get(name)) for name, at in (rules or {}).items()]
    return pages.Chart(kind, series, title=title, x=x, y=y, rules=lines, caption=caption)


def mean(rows: Iterable[Row], name: str) -> float | None:
    """Return the mean of what rows hold under a name; None of nothing."""
    return share(row[name] for row in rows if row[name] is not None)


def rms(rows: Iterable[Row], name: str) -> float | None:
    """Return the root mean square of what rows hold under a name; None of nothing."""
    square = share(row[name] ** 2 for row in rows if row[name] is not None)
    return None if square is None else square**0.5


def share(values: Iterable[float]) -> float | None:
    """Return the mean of numbers, or how many of some answers are yes; None of nothing."""
    listed = list(values)
    return float(np.mean(listed)) if listed else None
