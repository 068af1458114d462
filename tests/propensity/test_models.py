"""Propensity models against published values, closed forms and a real file of another system."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import strategies
from unmask import propensity
from unmask.propensity import (
    PRESETS,
    clip,
    constant,
    inverse_linear,
    jain,
    jain_curve,
    preset,
    temper,
)


def test_jain_agrees_with_published_values() -> None:
    """Two values that DiSMEC++ computes for n = 50."""
    expected = [0.25562221863533147, 0.5571545100089221]
    np.testing.assert_allclose(jain_curve([1, 25], 50), expected, rtol=1e-15)


def test_jain_agrees_with_an_official_file(real_data: Path) -> None:
    from unmask import data

    folder = real_data / "eurlex4k-labels-only"
    labels = data.read(folder / "trn_X_Y.txt.gz").labels
    official = 1 / propensity.read(folder / "inv_prop.txt.gz")
    # The file prints six significant digits, from a float computation.
    np.testing.assert_allclose(1 / jain(labels), official, atol=5e-4)


@given(strategies.label_matrices().filter(lambda m: m.shape[0] >= 3))
def test_jain_counts_the_matrix(labels: sp.csr_array) -> None:
    counts = labels.toarray().sum(axis=0)
    np.testing.assert_array_equal(jain(labels), jain_curve(counts, labels.shape[0]))


@given(st.integers(3, 10**7), st.floats(0.1, 2), st.floats(0.1, 10))
def test_jain_rises_with_frequency_and_stays_in_range(n: int, a: float, b: float) -> None:
    p = jain_curve(np.linspace(0, n, 50), n, a=a, b=b)
    assert p.min() > 0
    assert p.max() <= 1
    assert (np.diff(p) >= 0).all()


def test_inverse_linear_runs_from_head_to_tail() -> None:
    labels = np.tril(np.ones((5, 5)))  # label 0 most frequent
    np.testing.assert_allclose(1 / inverse_linear(labels), [2, 6.5, 11, 15.5, 20], rtol=1e-15)
    np.testing.assert_allclose(
        1 / inverse_linear(labels[:, ::-1]), [20, 15.5, 11, 6.5, 2], rtol=1e-15
    )


def test_inverse_linear_of_one_label_is_the_head() -> None:
    assert inverse_linear([[1]])[0] == 0.5


@given(strategies.propensity_vectors(6), st.floats(0, 1))
def test_temper_is_linear_in_the_inverse(p: np.ndarray, tau: float) -> None:
    np.testing.assert_allclose(1 / temper(p, tau), 1 + tau * (1 / p - 1), rtol=1e-14)


@given(strategies.propensity_vectors(6))
def test_temper_ends_are_exact(p: np.ndarray) -> None:
    np.testing.assert_array_equal(temper(p, 1), p)
    np.testing.assert_array_equal(temper(p, 0), 1)


@given(strategies.propensity_vectors(6), st.floats(0.01, 1))
def test_clip_raises_only_what_is_low(p: np.ndarray, low: float) -> None:
    clipped = clip(p, low)
    np.testing.assert_array_equal(clipped[p >= low], p[p >= low])
    assert (clipped[p < low] == low).all()


@pytest.mark.parametrize("spelling", ["AmazonCat-13K", "amazoncat13k", "Amazon_Cat 13k"])
def test_preset_takes_spelling_lightly(spelling: str) -> None:
    assert preset(spelling).name == "AmazonCat-13K"


def test_presets_carry_the_published_constants() -> None:
    constants = {p.name: (p.a, p.b) for p in PRESETS}
    assert constants["Wikipedia-500K"] == constants["WikiLSHTC-325K"] == (0.5, 0.4)
    assert constants["Amazon-670K"] == constants["LF-AmazonTitles-1.3M"] == (0.6, 2.6)
    assert constants["AmazonCat-13K"] == constants["EURLex-4K"] == (0.55, 1.5)


def test_unknown_preset_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"Did you mean Amazon-670K.*Known: Mediamill, Bibtex"):
        preset("amazon671k")


@pytest.mark.parametrize("inverse", [False, True])
def test_files_round_trip_and_say_what_they_hold(tmp_path: Path, inverse: bool) -> None:
    p = np.array([0.1, 1 / 3, 1.0])
    path = tmp_path / "p.txt"
    if inverse:
        path.write_bytes(gzip.compress(b"10\n3\n1\n"))
    else:
        propensity.write(path, p)
    np.testing.assert_array_equal(
        propensity.read(path), 1 / np.array([10, 3, 1.0]) if inverse else p
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0.5\n2\n", "numbers from 0.5 to 2 are neither"),
        ("0.5\nx\n", r"line 2.*'x'"),
        ("0.5\n0\n", "got 0 at label 1"),
        ("", "empty"),
        ("nan\n", "got nan at label 0"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "p.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as error:
        propensity.read(path)
    assert "p.txt" in str(error.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: jain([[1]]), "at least 3 training rows"),
        (lambda: jain_curve([5], 4), "between 0 and n=4"),
        (lambda: jain_curve([1], 4, a=-1), "a=-1"),
        (lambda: constant(2, 0.0), r"\(0, 1\]; got 0 at label 0"),
        (lambda: clip([0.5, np.nan], 0.1), "got nan at label 1"),
        (lambda: clip([0.5], 0), "lowest propensity"),
        (lambda: temper([0.5], 1.5), r"tau must lie in \[0, 1\]; got 1.5"),
        (lambda: inverse_linear([[1]], head=0.5), "at least 1"),
    ],
)
def test_bad_values_are_refused_in_words(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
