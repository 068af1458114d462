"""Public data sets: the Jain constants in use for them, and their published sizes."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Preset:
    """A public data set: Jain's constants in use for it and, where known, its published size.

    Parameters
    ----------
    name : str
        As the field spells it.
    a, b : float
        Jain's constants.
    shape : (features, labels, training rows, test rows), optional
        As published.

    Examples
    --------
    >>> preset("Wikipedia-500K").a, preset("Wikipedia-500K").b
    (0.5, 0.4)
    """

    name: str
    a: float
    b: float
    shape: tuple[int, int, int, int] | None = None


def preset(name: str) -> Preset:
    """The Jain constants in use for a public data set.

    Parameters
    ----------
    name : str
        The data set; case, spaces and punctuation do not matter.

    Returns
    -------
    Preset

    Raises
    ------
    ValueError
        If no such data set is listed; the message names the nearest.

    Examples
    --------
    >>> preset("Amazon 670k")
    Preset(name='Amazon-670K', a=0.6, b=2.6, shape=(135909, 670091, 490449, 153025))
    >>> preset("amazoncat_13K").b
    1.5
    """
    by_key = {_plain(p.name): p for p in PRESETS}
    key = _plain(name)
    if key in by_key:
        return by_key[key]
    near = [by_key[each].name for each in difflib.get_close_matches(key, by_key, n=2, cutoff=0.7)]
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    raise ValueError(
        f"no preset for data set {name!r}.{hint} Known: {', '.join(p.name for p in PRESETS)}. "
        "Others mostly use a = 0.55, b = 1.5."
    )


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


_COMMON, _WIKIPEDIA, _AMAZON = (0.55, 1.5), (0.5, 0.4), (0.6, 2.6)

PRESETS = (
    Preset("Mediamill", *_COMMON, (120, 101, 30993, 12914)),
    Preset("Bibtex", *_COMMON, (1836, 159, 4880, 2515)),
    Preset("Delicious", *_COMMON, (500, 983, 12920, 3185)),
    Preset("RCV1-2K", *_COMMON, (47236, 2456, 623847, 155962)),
    Preset("EURLex-4K", *_COMMON, (5000, 3993, 15539, 3809)),
    Preset("AmazonCat-13K", *_COMMON, (203882, 13330, 1186239, 306782)),
    Preset("AmazonCat-14K", *_COMMON, (597540, 14588, 4398050, 1099725)),
    Preset("Wiki10-31K", *_COMMON, (101938, 30938, 14146, 6616)),
    Preset("cooking-stackexchange", *_COMMON, (4240, 736, 12404, 3000)),
    Preset("debtags-bookworm", *_COMMON, (13091, 598, 24212, 6088)),
    Preset("finna-yso-en", *_COMMON, (30823, 24626, 280316, 69716)),
    Preset("jester5k", *_COMMON, (10, 90, 4260, 736)),
    Preset("WikiLSHTC-325K", *_WIKIPEDIA, (1617899, 325056, 1778351, 587084)),
    Preset("Wikipedia-500K", *_WIKIPEDIA, (2381304, 501070, 1813391, 783743)),
    Preset("WikiTitles-500K", *_WIKIPEDIA),
    Preset("LF-WikiTitles-500K", *_WIKIPEDIA),
    Preset("Amazon-670K", *_AMAZON, (135909, 670091, 490449, 153025)),
    Preset("Amazon-3M", *_AMAZON, (337067, 2812281, 1717899, 742507)),
    Preset("AmazonTitles-670K", *_AMAZON),
    Preset("AmazonTitles-3M", *_AMAZON),
    Preset("LF-Amazon-131K", *_AMAZON),
    Preset("LF-Amazon-1.3M", *_AMAZON),
    Preset("LF-AmazonTitles-131K", *_AMAZON),
    Preset("LF-AmazonTitles-1.3M", *_AMAZON),
)
