"""What a series looks like: one palette, one registry, the same look for a name everywhere.

The palette keeps the hues of Okabe and Ito (jfly.uni-koeln.de/color, 2008), shifted in lightness
until every colour stands out from the page (contrast ≥ 3 : 1) in light and in dark, and every two
differ for readers with any of the three kinds of colour blindness; the tests measure both.
A colour never speaks alone: a style also has a marker and a dash.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from unmask._validation import one_of

THEME = {
    "paper": ("#ffffff", "#12161c"),
    "soft": ("#f4f6f8", "#1a2029"),
    "line": ("#d9dfe6", "#313b47"),
    "muted": ("#596573", "#9ba7b5"),
    "ink": ("#1d2733", "#e8ecf1"),
}
"""Colours of the page itself: (on a light page, on a dark page)."""

PALETTE = {
    "blue": ("#0468b0", "#4996ea"),
    "orange": ("#d07e0e", "#eda62a"),
    "green": ("#13946d", "#30c390"),
    "vermilion": ("#c3360c", "#f06a3a"),
    "purple": ("#aa4184", "#cb85bb"),
    "sky": ("#1d9adf", "#8fd2fe"),
    "olive": ("#6a6b41", "#dad46d"),
    "gray": ("#8290a3", "#85888c"),
}
"""Colours of series: (on a light page, on a dark page)."""

MARKERS = {
    "circle": "o",
    "square": "s",
    "triangle": "^",
    "diamond": "D",
    "plus": "P",
    "cross": "X",
    "down": "v",
    "star": "*",
    "none": "",
}
"""Our names for markers, and matplotlib's."""

DASHES = {
    "solid": "",
    "dashed": "5 2",
    "dotted": "1.2 1.6",
    "dashdot": "5 1.6 1.2 1.6",
}
"""Line patterns as SVG writes them: lengths of ink and gap, in line widths."""


@dataclass(frozen=True)
class Style:
    """Colour (of the palette, or `ink`), marker and dash of a series, each by name.

    >>> Style("blue", "circle").dash
    'solid'
    >>> Style("red")
    Traceback (most recent call last):
    ValueError: unknown color 'red'; use one of: blue, gray, green, ink, olive, orange, purple,
    sky, vermilion.
    """

    color: str
    marker: str = "none"
    dash: str = "solid"

    def __post_init__(self) -> None:
        """Refuse names that the tables above do not have."""
        one_of(self.color, [*PALETTE, "ink"], "color")
        one_of(self.marker, MARKERS, "marker")
        one_of(self.dash, DASHES, "dash")

    @property
    def hex(self) -> str:
        """The colour on a light page."""
        return {**PALETTE, **THEME}[self.color][0]


STYLES: dict[str, Style] = {"truth": Style("ink")}
"""The look of every series name that has one of its own; add yours: `STYLES["mine"] = Style(…)`."""


def styles(names: Iterable[str]) -> dict[str, Style]:
    """A look for every name: its own from `STYLES`, else the next one free, in order of appearance.

    The result depends only on the names and on `STYLES`, not on what was drawn before.

    >>> {name: style.color for name, style in styles(["a", "truth", "b"]).items()}
    {'a': 'blue', 'truth': 'ink', 'b': 'orange'}
    """
    wanted = list(dict.fromkeys(names))
    taken = {STYLES[name] for name in wanted if name in STYLES}
    colors = {style.color for style in taken}
    fresh = [style for style in _LOOKS if style.color not in colors]
    free = [*fresh, *(style for style in _LOOKS if style not in {*fresh, *taken})] or _LOOKS
    strangers = [name for name in wanted if name not in STYLES]
    given = {name: free[i % len(free)] for i, name in enumerate(strangers)}
    return {name: STYLES.get(name) or given[name] for name in wanted}


_LOOKS = [
    Style(color, marker, dash)
    for dash, shift in (("solid", 0), ("dashed", 3), ("dotted", 5))
    for color, marker in zip(
        PALETTE, (list(MARKERS)[:8] * 2)[shift : shift + len(PALETTE)], strict=True
    )
]
