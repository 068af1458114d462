"""The style of a series: colour, marker and dash, from one palette.

The palette keeps the hues of Okabe and Ito (jfly.uni-koeln.de/color, 2008), shifted in lightness
until every colour stands out from the page (contrast ≥ 3 : 1) in light and in dark, and every two
differ for readers with any of the three kinds of colour blindness; the tests measure both.
Series differ in marker and dash as well, so that colour is never the only distinction.

Which name has which style is not decided here: a `Series` or `Rule` may carry its style, and
`assign_styles` chooses one for every other name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
"""Markers by name, and what matplotlib calls them."""

DASHES = {
    "solid": "",
    "dashed": "5 2",
    "dotted": "1.2 1.6",
    "dashdot": "5 1.6 1.2 1.6",
}
"""Line patterns as SVG writes them: lengths of ink and gap, in line widths."""


@dataclass(frozen=True)
class Style:
    """How a series is drawn.

    Parameters
    ----------
    color : str
        A name in `PALETTE`, or "ink" (the colour of text).
    marker : str, default "none"
        A name in `MARKERS`.
    dash : str, default "solid"
        A name in `DASHES`.

    Examples
    --------
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


Styles = Mapping[str, Style]
"""The style of every name in a drawing or on a page."""


def assign_styles(names: Iterable[str], chosen: Styles | None = None) -> dict[str, Style]:
    """A style for every name: the chosen one, or the next free one in order of appearance.

    Parameters
    ----------
    names : iterable of str
        Names of series and rules; repeated names count once.
    chosen : mapping of str to Style, optional
        Styles of some names. Other names get these colours only when no other is left.

    Returns
    -------
    dict of str to Style
        One entry per name, in order of appearance; it depends on the arguments alone.

    Examples
    --------
    >>> styles = assign_styles(["a", "truth", "b"], {"truth": Style("ink")})
    >>> {name: style.color for name, style in styles.items()}
    {'a': 'blue', 'truth': 'ink', 'b': 'orange'}
    """
    chosen = chosen or {}
    unique = list(dict.fromkeys(names))
    used = {chosen[name] for name in unique if name in chosen}
    used_colors = {style.color for style in used}
    unused_colors = [style for style in _DEFAULTS if style.color not in used_colors]
    others = [style for style in _DEFAULTS if style not in {*unused_colors, *used}]
    free = [*unused_colors, *others] or _DEFAULTS
    unstyled = [name for name in unique if name not in chosen]
    assigned = {name: free[i % len(free)] for i, name in enumerate(unstyled)}
    return {name: chosen.get(name) or assigned[name] for name in unique}


_DEFAULTS = [
    Style(color, marker, dash)
    for dash, shift in (("solid", 0), ("dashed", 3), ("dotted", 5))
    for color, marker in zip(
        PALETTE, (list(MARKERS)[:8] * 2)[shift : shift + len(PALETTE)], strict=True
    )
]
