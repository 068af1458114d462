"""What all kinds of charts share: pens, and the axes with their ticks, rules and notes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from unmask.report.charts import Axis, Chart, Note, Rule, axes_of
from unmask.report.format import say
from unmask.report.styles import DASHES, MARKERS, THEME, Style

Styles = Mapping[str, Style]
INK, MUTED, LINE, PAPER = (THEME[name][0] for name in ("ink", "muted", "line", "paper"))
NAMES = 0.48
"""The share of a figure's width that names on its left may take."""

_LETTER = 0.073  # inches, of a letter of 8.5 points on average


def pen(style: Style) -> dict[str, Any]:
    """A style as matplotlib's options of a line."""
    return {
        "color": style.hex,
        "marker": MARKERS[style.marker] or "none",
        "linestyle": dash(style.dash),
        "markeredgewidth": 0,
    }


def dash(name: str) -> Any:
    """A line pattern as matplotlib wants it."""
    return (0, tuple(float(length) for length in DASHES[name].split())) if DASHES[name] else "-"


def floats(values: Sequence[float | None]) -> list[float]:
    """Numbers with gaps as NaN."""
    return [math.nan if value is None else value for value in values]


def fit(ax: Any, text: str, share: float = 1.0) -> str:
    """`text`, cut to a share of the figure's width: names come from data and may be any length."""
    room = int(share * ax.figure.bbox.width / ax.figure.dpi / _LETTER)
    return text if len(text) <= room else text[: room - 1] + "…"


def finish(ax: Any, chart: Chart, styles: Styles, *, across: bool = False) -> None:
    """Labels, scales, ends, rules and notes; `across` if what was measured runs along the page."""
    x, y, _ = axes_of(chart)
    sides = {"x": y, "y": x} if across else {"x": x, "y": y}
    for side, axis in sides.items():
        _scale(ax, side, axis)
    ax.set_xlabel(fit(ax, sides["x"].label))
    ax.set_title(fit(ax, sides["y"].label))
    for rule in chart.rules:
        _rule(ax, rule, styles[rule.name], upright=(rule.axis == "x") != across)
    for note in chart.notes:
        _note(ax, note)


def _scale(ax: Any, side: str, axis: Axis) -> None:
    names = ("left", "right") if side == "x" else ("bottom", "top")
    ends = zip(names, (axis.low, axis.high), strict=True)
    if axis.log:
        getattr(ax, f"set_{side}scale")("log")
    getattr(ax, f"set_{side}lim")(**{end: at for end, at in ends if at is not None})
    if axis.log:
        _log_ticks(getattr(ax, f"{side}axis"), *getattr(ax, f"get_{side}lim")())


def _log_ticks(axis: Any, low: float, high: float) -> None:
    """Powers of ten, or steps between them where the axis spans few."""
    from matplotlib.ticker import LogLocator, MaxNLocator

    decades = math.log10(high / low)
    if decades < 1:
        axis.set_major_locator(MaxNLocator(5))
    elif decades < 2.5:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(_power)
    axis.set_minor_formatter("")


def _power(value: float, _: int) -> str:
    """A tick of a log axis: plain near one, a power of ten elsewhere."""
    if value <= 0:  # a locator may try places beyond the axis
        return ""
    if 1e-3 <= value < 1e4:
        return say(value, ".4g")
    digits, exponent = f"{value:.1e}".split("e")
    raised = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{raised}" if digits == "1.0" else f"{float(digits):g}·10{raised}"


def _rule(ax: Any, rule: Rule, style: Style, *, upright: bool) -> None:
    draw = ax.axvline if upright else ax.axhline
    draw(rule.at, color=style.hex, linewidth=1.3, linestyle=dash("dashed"), zorder=3.5)


def _note(ax: Any, note: Note) -> None:
    x, y, to = note.x, note.y, note.to
    look: dict[str, Any] = {"textcoords": "offset points", "fontsize": 7.5, "color": MUTED}
    if to is None or isinstance(y, str):
        ax.annotate(fit(ax, note.text, 0.5), (x, y), (4, 4), **look)
        return
    bracket = {"arrowstyle": "|-|,widthA=0.25,widthB=0.25", "color": MUTED, "linewidth": 0.9}
    ax.annotate("", (x, y), (x, to), arrowprops={**bracket, "shrinkA": 0, "shrinkB": 0})
    middle = math.sqrt(y * to) if ax.get_yscale() == "log" else (y + to) / 2
    ax.annotate(fit(ax, note.text, 0.5), (x, middle), (6, 0), va="center", **look)
