"""Charts drawn with matplotlib, on figures of our own: pyplot and its global state stay untouched.

Colours are those of a light page; `svg` later turns them into the colours of the reader's theme.
Nothing in a text is taken for mathematics, so that a `$` in a name stays a `$`.
matplotlib is imported when the first chart is drawn.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any

from unmask.report.alt_text import categories, drawn_as, legend
from unmask.report.charts import Chart, Panels, charts_of
from unmask.report.kinds import DRAW
from unmask.report.marks import INK, LINE, MUTED, PAPER, Styles, dash, fit, pen
from unmask.report.styles import Style

WIDTHS = {1: 5.6, 2: 3.5, 3: 2.5, 4: 2.1}  # inches of a chart in so many columns

_SETTINGS: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": MUTED,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.labelcolor": INK,
    "axes.labelsize": 8.5,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 8.5,
    "axes.titlepad": 7,
    "figure.constrained_layout.h_pad": 0.06,
    "figure.constrained_layout.w_pad": 0.06,
    "figure.facecolor": PAPER,
    "axes.facecolor": PAPER,
    "font.size": 8.5,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.6,
    "savefig.dpi": 200,
    "svg.fonttype": "none",
    "svg.hashsalt": "unmask",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "xtick.major.size": 3,
    "xtick.major.width": 0.6,
    "xtick.minor.size": 0,
    "ytick.color": MUTED,
    "ytick.labelcolor": INK,
    "ytick.major.size": 0,
    "ytick.minor.size": 0,
}

# About data, not about us: a letter that the font lacks (the browser's may have it), and names so
# long that no room is left for the axes.
_HINTS = ("Glyph .* missing from", "constrained_layout not applied")

_alone = RLock()


@contextmanager
def _settings() -> Iterator[None]:
    """Our settings over matplotlib's, whatever the user configured; one thread at a time."""
    import matplotlib

    with _alone, matplotlib.rc_context(), warnings.catch_warnings():
        for hint in _HINTS:
            warnings.filterwarnings("ignore", message=hint)
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        yield


def panels_as_svg(drawing: Chart | Panels, styles: Styles) -> list[str]:
    """Every panel as an SVG of its own, without title and legend, which the page writes."""
    from matplotlib.figure import Figure

    width = WIDTHS[columns_of(drawing)]
    with _settings():
        figures = [
            Figure((width, _height(chart, width)), layout="constrained")
            for chart in charts_of(drawing)
        ]
        axes = [figure.subplots() for figure in figures]
        _draw_all(drawing, axes, styles)
        return [_saved(figure, "svg").decode() for figure in figures]


def picture(drawing: Chart | Panels, styles: Styles, form: str) -> bytes:
    """The whole drawing with title and legend as one PNG or SVG."""
    from matplotlib.figure import Figure

    charts, columns = charts_of(drawing), columns_of(drawing)
    count = math.ceil(len(charts) / columns)
    height = 0.25 * (columns > 1) + max(_height(chart, WIDTHS[columns]) for chart in charts)
    with _settings():
        figure = Figure((columns * WIDTHS[columns], count * height + 0.7), layout="constrained")
        cells = figure.subfigures(count, columns, squeeze=False).ravel()
        axes = [cell.subplots() for cell in cells[: len(charts)]]
        _draw_all(drawing, axes, styles)
        if isinstance(drawing, Panels):
            for cell, chart in zip(cells, charts, strict=False):
                cell.suptitle(fit(axes[0], chart.title), x=0.02, ha="left", fontsize=9)
        figure.suptitle(
            fit(axes[0], drawing.title, 0.75 * columns),
            x=0.02,
            ha="left",
            fontsize=11,
            fontweight="bold",
        )
        _add_legend(figure, drawing, styles)
        return _saved(figure, form)


def columns_of(drawing: Chart | Panels) -> int:
    """How many charts stand side by side."""
    return min(drawing.columns, len(drawing.charts)) if isinstance(drawing, Panels) else 1


def _height(chart: Chart, width: float) -> float:
    """Inches: by the width, but for one row of text per row of dots or of a grid."""
    usual = 1.5 + 0.28 * width
    if chart.kind == "dots":
        groups = [[s for s in chart.series if x in s.x] for x in categories(chart)]
        return 0.8 + sum(0.14 + 0.16 * len(group) for group in groups)
    if chart.kind == "heat":
        return max(usual, 0.9 + 0.26 * len(chart.series))
    return usual


def _draw_all(drawing: Chart | Panels, axes: Sequence[Any], styles: Styles) -> None:
    for ax, chart in zip(axes, charts_of(drawing), strict=True):
        DRAW[chart.kind](ax, chart, styles)
    if isinstance(drawing, Panels):
        for wanted, side in ((drawing.share_x, "x"), (drawing.share_y, "y")):
            if wanted:
                _share(axes, side)


def _share(axes: Sequence[Any], side: str) -> None:
    """The same ends for all panels on one side of the page."""
    ends = [getattr(ax, f"get_{side}lim")() for ax in axes]
    falling = ends[0][0] > ends[0][1]  # rows of dots count downwards
    low, high = min(min(pair) for pair in ends), max(max(pair) for pair in ends)
    for ax in axes:
        getattr(ax, f"set_{side}lim")((high, low) if falling else (low, high))


def _saved(figure: Any, form: str) -> bytes:
    file = io.BytesIO()
    nameless = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}
    figure.savefig(file, format=form, metadata=nameless[form])
    return file.getvalue()


def _add_legend(figure: Any, drawing: Chart | Panels, styles: Styles) -> None:
    names = legend(drawing)
    if names:
        handles = [_handle(styles[name], drawn_as(drawing, name)) for name in names]
        width = figure.get_figwidth()
        columns = max(1, min(4, int(width / (0.5 + 0.075 * max(map(len, names))))))
        rows = -(-len(names) // columns)
        short = [
            name if len(name) <= 12 * width else name[: int(11 * width)] + "…" for name in names
        ]
        figure.legend(handles, short, loc="outside lower left", ncols=-(-len(names) // rows))


def _handle(style: Style, kinds: frozenset[str]) -> Any:
    """What stands before a name in the legend; a name that only rules have is dashed."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    if kinds == {"bars"}:
        return Patch(color=style.hex)
    look = pen(style)
    if not kinds & {"lines", "dots"}:
        look["marker"] = "none"
    return Line2D([], [], **(look if kinds else {**look, "linestyle": dash("dashed")}))
