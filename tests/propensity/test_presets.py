"""Presets of published constants, by name."""

from __future__ import annotations

import pytest

from unmask import propensity
from unmask.propensity import preset
from unmask.propensity.models import PRESETS


@pytest.mark.parametrize("spelling", ["AmazonCat-13K", "amazoncat13k", "Amazon_Cat 13k"])
def test_preset_takes_spelling_lightly(spelling: str) -> None:
    assert preset(spelling).name == "AmazonCat-13K"


COMMON, WIKIPEDIA, AMAZON = (0.55, 1.5), (0.5, 0.4), (0.6, 2.6)


PUBLISHED = {
    "Mediamill": (COMMON, (120, 101, 30993, 12914)),
    "Bibtex": (COMMON, (1836, 159, 4880, 2515)),
    "Delicious": (COMMON, (500, 983, 12920, 3185)),
    "RCV1-2K": (COMMON, (47236, 2456, 623847, 155962)),
    "EURLex-4K": (COMMON, (5000, 3993, 15539, 3809)),
    "AmazonCat-13K": (COMMON, (203882, 13330, 1186239, 306782)),
    "AmazonCat-14K": (COMMON, (597540, 14588, 4398050, 1099725)),
    "Wiki10-31K": (COMMON, (101938, 30938, 14146, 6616)),
    "cooking-stackexchange": (COMMON, (4240, 736, 12404, 3000)),
    "debtags-bookworm": (COMMON, (13091, 598, 24212, 6088)),
    "finna-yso-en": (COMMON, (30823, 24626, 280316, 69716)),
    "jester5k": (COMMON, (10, 90, 4260, 736)),
    "WikiLSHTC-325K": (WIKIPEDIA, (1617899, 325056, 1778351, 587084)),
    "Wikipedia-500K": (WIKIPEDIA, (2381304, 501070, 1813391, 783743)),
    "WikiTitles-500K": (WIKIPEDIA, None),
    "LF-WikiTitles-500K": (WIKIPEDIA, None),
    "Amazon-670K": (AMAZON, (135909, 670091, 490449, 153025)),
    "Amazon-3M": (AMAZON, (337067, 2812281, 1717899, 742507)),
    "AmazonTitles-670K": (AMAZON, None),
    "AmazonTitles-3M": (AMAZON, None),
    "LF-Amazon-131K": (AMAZON, None),
    "LF-Amazon-1.3M": (AMAZON, None),
    "LF-AmazonTitles-131K": (AMAZON, None),
    "LF-AmazonTitles-1.3M": (AMAZON, None),
}
"""(a, b) and (features, labels, training rows, test rows) as published."""


def test_presets_are_what_was_published() -> None:
    found = {p.name: ((p.a, p.b), p.shape) for p in PRESETS}
    assert found == PUBLISHED


def test_a_name_like_two_presets_brings_up_both_and_one_like_none_brings_up_none() -> None:
    with pytest.raises(ValueError, match=r"Did you mean \S+ or \S+\? Known"):
        propensity.preset("Amazon-671K titles")
    with pytest.raises(ValueError, match=r"Did you mean Amazon-670K.*Known: Mediamill, Bibtex"):
        preset("amazon671k")
    with pytest.raises(ValueError, match=r"'zzz'\. Known"):
        propensity.preset("zzz")
