"""Styles: colours that everyone can tell apart, and one style per name."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from unmask.report import PALETTE, Style, assign_styles
from unmask.report.charts import THEME


def linear(color: str) -> np.ndarray:
    rgb = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def perceived(rgb: np.ndarray) -> np.ndarray:
    """OKLab (Ottosson 2020), in which equal distances look about equally different."""
    to_lms = [[0.41222, 0.53633, 0.05145], [0.21190, 0.68070, 0.10740], [0.08830, 0.28172, 0.62998]]
    to_lab = [
        [0.21045, 0.79362, -0.00407],
        [1.97800, -2.42859, 0.45059],
        [0.0259, 0.78277, -0.80868],
    ]
    return np.array(to_lab) @ np.cbrt(np.array(to_lms) @ np.clip(rgb, 0, 1))


# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
EYES = {
    "all cones": np.eye(3),
    "protanopia": [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]],
    "deuteranopia": [
        [0.3673, 0.8606, -0.2280],
        [0.2801, 0.6725, 0.0474],
        [-0.0118, 0.0429, 0.9689],
    ],
    "tritanopia": [[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]],
}


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("eyes", EYES)
def test_every_two_colours_differ_for_every_pair_of_eyes(theme: int, eyes: str) -> None:
    colors = [*(pair[theme] for pair in PALETTE.values()), THEME["ink"][theme]]
    perceptions = [perceived(np.array(EYES[eyes]) @ linear(color)) for color in colors]
    closest = min(np.linalg.norm(a - b) for a, b in itertools.combinations(perceptions, 2))
    assert closest > 0.07  # a just noticeable difference is about 0.02


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_every_colour_stands_out_from_the_page(theme: int) -> None:
    def contrast(a: str, b: str) -> float:
        dark, bright = sorted(linear(c) @ [0.2126, 0.7152, 0.0722] for c in (a, b))
        return float((bright + 0.05) / (dark + 0.05))

    for name, pair in PALETTE.items():
        assert contrast(pair[theme], THEME["paper"][theme]) >= 3, name
    for text, ground in itertools.product(("ink", "muted"), ("paper", "soft")):
        assert contrast(THEME[text][theme], THEME[ground][theme]) >= 4.5, (text, ground)


def test_a_chosen_style_is_kept_and_its_colour_is_given_to_no_other_name() -> None:
    chosen = {"mine": Style("green", "star", "dotted")}
    for names in (["mine"], ["a", "mine"], [*"abcdefghij", "mine"]):
        styles = assign_styles(names, chosen)
        assert styles["mine"] == chosen["mine"]
        assert list(styles) == names
        assert len(set(styles.values())) == len(names)
    styles = assign_styles([*"abcdefg", "mine"], chosen)
    assert "green" not in {style.color for name, style in styles.items() if name != "mine"}


def test_a_chosen_style_of_an_absent_name_changes_nothing() -> None:
    assert assign_styles("abc", {"mine": Style("green", "star")}) == assign_styles("abc")


def test_names_keep_their_style_when_more_follow() -> None:
    assert assign_styles("abc")["b"] == assign_styles("ab")["b"] == assign_styles("abab")["b"]
    assert len(set(assign_styles(str(i) for i in range(24)).values())) == 24
    assert len(assign_styles(str(i) for i in range(99))) == 99


def test_an_unknown_marker_is_refused_in_a_sentence() -> None:
    with pytest.raises(ValueError, match=r"unknown marker 'blob'; use one of: .*\.$"):
        Style("blue", "blob")


def test_every_free_style_of_a_series_has_a_marker() -> None:
    chosen = list(assign_styles(f"s{i}" for i in range(24)).values())
    assert "none" not in {style.marker for style in chosen}
    assert len(set(chosen)) == 24
    assert len({(style.marker, style.dash) for style in chosen}) == 24
    assert [(style.color, style.marker, style.dash) for style in chosen[::8]] == [
        ("blue", "circle", "solid"), ("blue", "diamond", "dashed"), ("blue", "cross", "dotted"),
    ]  # fmt: skip


def test_styles_of_strangers_keep_away_from_those_that_are_taken() -> None:
    """First other colours, then the same colour with another marker or dash."""
    mine = Style("blue", "circle")
    chosen = assign_styles(["mine", *(f"s{i}" for i in range(23))], {"mine": mine})
    assert len(set(chosen.values())) == 24
    colors = [style.color for style in chosen.values()]
    assert "blue" not in colors[1:22]
    assert colors[22:] == ["blue", "blue"]
