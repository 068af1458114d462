"""Heat maps: a grid of numbers as colours, with the border where they pass a centre."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from unmask.report.alt_text import categories
from unmask.report.charts import Axis, Chart, axes_of
from unmask.report.format import say
from unmask.report.marks import NAMES, Styles, fit, floats


def heat(ax: Any, chart: Chart, styles: Styles) -> None:
    """Cells in colour, numbers in them where they fit, a line where they pass `center`."""
    import matplotlib
    import numpy as np
    from matplotlib.colors import Normalize

    names, columns = [one.name for one in chart.series], categories(chart)
    values = np.array([floats(one.y) for one in chart.series])
    scale = axes_of(chart)[2]
    cmap = matplotlib.colormaps["cividis" if scale.center is None else "PuOr"].resampled(33)
    known = values[np.isfinite(values)] if np.isfinite(values).any() else np.zeros(1)
    norm = Normalize(*_color_ends(scale, float(known.min()), float(known.max())))
    mesh = ax.pcolormesh(np.ma.masked_invalid(values), cmap=cmap, norm=norm)
    if values.size <= 130 and len(columns) <= 12:
        _write_cells(ax, values, mesh)
    if scale.center is not None:
        _divide(ax, values >= scale.center)
    for note in chart.notes:
        at = [say(x) for x in columns].index(say(note.x)), names.index(say(note.y))
        _ring(ax, at, note.text)
    _grid_axes(ax, chart, [say(x) for x in columns], names)
    bar = ax.figure.colorbar(mesh, ax=ax, fraction=0.05, pad=0.02)
    bar.outline.set_visible(False)
    for cells in (mesh, bar.solids):
        cells.set(edgecolor="face", linewidth=0.4)  # else the page shines through between cells
    bar.set_label(fit(ax, scale.label, 0.5))


def _color_ends(scale: Axis, low: float, high: float) -> tuple[float, float]:
    low = low if scale.low is None else scale.low
    high = high if scale.high is None else scale.high
    if scale.center is None:
        return low, high
    reach = max(abs(high - scale.center), abs(low - scale.center)) or 1.0
    return scale.center - reach, scale.center + reach


def _write_cells(ax: Any, values: Any, mesh: Any) -> None:
    for (row, column), value in _cells(values):
        if math.isfinite(value):
            red, green, blue, _ = mesh.cmap(mesh.norm(value))
            dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.55
            pen = {"color": "#fdfdfd" if dark else "#0b0b0b", "fontsize": 7.5}
            ax.text(column + 0.5, row + 0.5, say(value, ".3g"), ha="center", va="center", **pen)


def _cells(values: Any) -> Iterator[tuple[tuple[int, int], float]]:
    for row, numbers in enumerate(values):
        for column, value in enumerate(numbers):
            yield (row, column), float(value)


def _divide(ax: Any, above: Any) -> None:
    """A line along every border between a cell at or above the centre and one below."""
    pen = {"color": "#0b0b0b", "linewidth": 1.6, "zorder": 4}
    for (row, column), inside in _cells(above):
        if column + 1 < above.shape[1] and inside != above[row, column + 1]:
            ax.plot([column + 1] * 2, [row, row + 1], **pen)
        if row + 1 < above.shape[0] and inside != above[row + 1, column]:
            ax.plot([column, column + 1], [row + 1] * 2, **pen)


def _ring(ax: Any, cell: tuple[int, int], text: str) -> None:
    place = (cell[0] + 0.5, cell[1] + 0.5)
    for color, width in (("#fdfdfd", 3.0), ("#0b0b0b", 1.3)):
        pen = {"markeredgecolor": color, "markeredgewidth": width, "markerfacecolor": "none"}
        ax.plot(*place, marker="o", markersize=17, zorder=5, **pen)
    ax.annotate(
        fit(ax, text, 0.3), place, (0, 12), textcoords="offset points", ha="center", fontsize=7.5
    )


def _grid_axes(ax: Any, chart: Chart, columns: list[str], names: list[str]) -> None:
    """Ticks in the middle of the cells, at most a dozen a side."""
    ax.grid(False)
    for spine in ax.spines.values():
        spine.set_visible(False)
    ax.tick_params(length=0)
    across, up = (range(0, len(found), 1 + len(found) // 13) for found in (columns, names))
    room = 0.7 / len(across)
    ax.set_xticks([i + 0.5 for i in across], [fit(ax, columns[i], room) for i in across])
    ax.set_yticks([i + 0.5 for i in up], [fit(ax, names[i], NAMES / 2) for i in up])
    x, y, _ = axes_of(chart)
    ax.set_xlabel(fit(ax, x.label, 0.7))
    ax.set_title(fit(ax, y.label, 0.7))
