"""Propensity models against published values, closed forms and a real file of another system."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import strategies
from unmask import data, propensity
from unmask.propensity import clip, constant, inverse_linear, jain, jain_curve, temper
from unmask.propensity.models import PropensityModel


def test_jain_agrees_with_published_values() -> None:
    """Two values that DiSMEC++ computes for n = 50."""
    expected = [0.25562221863533147, 0.5571545100089221]
    np.testing.assert_allclose(jain_curve([1, 25], 50), expected, rtol=1e-15)


def test_jain_agrees_with_an_official_file(real_data: Path) -> None:

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


def test_inverse_linear_of_one_label_is_the_head_and_may_be_one() -> None:
    assert inverse_linear([[1]])[0] == 0.5
    np.testing.assert_array_equal(inverse_linear([[1, 0]], head=1, tail=1), 1)


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


def test_jain_works_at_the_ends_of_its_domain() -> None:
    """Three rows, labels in none and in all of them; no labels at all; p = 1 / ln n at count 1."""
    p = propensity.jain_curve([0, 1, 3], 3)
    assert p[1] == pytest.approx(1 / np.log(3), rel=1e-15)
    assert p[0] < p[1] < p[2]
    assert propensity.jain_curve([], 3).shape == (0,)
    scale = np.log(50) - 1
    np.testing.assert_allclose(
        propensity.jain_curve([7], 50, a=0.5, b=0.5), 1 / (1 + scale * np.sqrt(1.5 / 7.5))
    )


def test_the_default_constants_are_those_in_common_use() -> None:
    labels = [[1, 0], [1, 1], [0, 0], [0, 0]]
    common = propensity.jain_curve([2, 1], 4, a=0.55, b=1.5)
    np.testing.assert_array_equal(propensity.jain(labels), common)
    np.testing.assert_array_equal(propensity.jain_curve([2, 1], 4), common)
    np.testing.assert_array_equal(1 / propensity.inverse_linear(labels), [2, 20])


def test_labels_that_never_occur_have_propensities_too() -> None:
    """The last columns are empty: still one number per label."""
    labels = sp.csr_array((np.ones(1), ([0], [0])), shape=(4, 3))
    np.testing.assert_array_equal(propensity.jain(labels), propensity.jain_curve([1, 0, 0], 4))
    np.testing.assert_allclose(1 / propensity.inverse_linear(labels), [2, 11, 20])
    np.testing.assert_array_equal(propensity.from_spec("constant:0.3", labels), [0.3] * 3)


NAN, INF = float("nan"), float("inf")


def test_models_refuse_what_they_have_no_meaning_for() -> None:
    for call, message in [
        (lambda: jain([[1]]), "at least 3 training rows"),
        (lambda: jain_curve([5], 4), "between 0 and n = 4"),
        (lambda: constant(2, 0.0), r"\(0, 1\]; got 0 at label 0"),
        (lambda: clip([0.5, np.nan], 0.1), "got nan at label 1"),
        (lambda: clip([0.5], 0), "lowest propensity"),
        (lambda: temper([0.5], 1.5), r"tau must lie in \[0, 1\]; got 1.5"),
        (lambda: inverse_linear([[1]], head=0.5), "at least 1"),
        (lambda: propensity.jain_curve([1], 2), "got 2"),
        (lambda: propensity.jain_curve([1], NAN), "got nan"),
        (lambda: propensity.jain_curve([1], INF), "got inf"),
        (lambda: propensity.jain_curve([1], 9, a=0), "a = 0, b = 1.5"),
        (lambda: propensity.jain_curve([0], 9, a=1000), "a = 1000, b = 1.5 leave a label no"),
        (lambda: propensity.jain_curve([1], 9, b=0), "a = 0.55, b = 0"),
        (lambda: propensity.jain_curve([1], 9, a=NAN), "a = nan"),
        (lambda: propensity.jain_curve([1], 9, b=INF), "b = inf"),
        (lambda: propensity.jain_curve([-1], 9), "got -1 to -1"),
        (lambda: propensity.jain_curve([9.5], 9), "got 9.5 to 9.5"),
        (lambda: propensity.inverse_linear([[1]], tail=0.5), "got 2 to 0.5"),
        (lambda: propensity.inverse_linear([[1]], head=NAN), "got nan to 20"),
        (lambda: propensity.inverse_linear([[1, 0]], tail=INF), "got 2 to inf"),
        (lambda: propensity.clip([0.5], 1.5), "got 1.5"),
        (lambda: propensity.clip([0.5], NAN), "got nan"),
        (lambda: propensity.temper([0.5], -0.1), "got -0.1"),
        (lambda: propensity.from_spec("inverse_linear:2,nan", [[1]]), "got 2 to nan"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()


def test_a_model_does_not_change_with_the_callers_parameters() -> None:
    given = {"γ": 2.0}
    model = PropensityModel("γ = 2", [0.25, 1.0], given)
    given["γ"] = 3.0
    assert model.parameters == {"γ": 2.0}
