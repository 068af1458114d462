"""P(missing) and P(wrong), against enumeration of all truths, efforts and masks of a tiny model."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from unmask.missing import find, posterior, suspicious
from unmask.missing.findings import by_effort, unobserved, wrong
from unmask.propensity import MaskModel
from unmask.propensity.mask_model import RowEffort

R = np.array([0.7, 0.3, 0.55])
P = np.array([0.5, 0.2, 0.8])
SPURIOUS = np.array([0.1, 0.05, 0.02])


def worlds(
    chances: list[tuple[float, np.ndarray, np.ndarray]],
) -> Iterator[tuple[float, np.ndarray, np.ndarray]]:
    """(probability, truth, observed) of everything that can happen to one row."""
    for share, p, rate in chances:
        for truth in product((0, 1), repeat=R.size):
            for shown in product((0, 1), repeat=R.size):
                true, seen = np.array(truth), np.array(shown)
                q = np.where(true == 1, p, rate)
                chance = np.prod(np.where(true == 1, R, 1 - R))
                chance *= np.prod(np.where(seen == 1, q, 1 - q))
                yield share * chance, true, seen


def share_true(
    chances: list[tuple[float, np.ndarray, np.ndarray]], pattern: tuple[int, ...], label: int
) -> float:
    """P(label is true | exactly this is observed), by counting."""
    total = true = 0.0
    for chance, truth, seen in worlds(chances):
        if tuple(seen) == pattern:
            total += chance
            true += chance * truth[label]
    return true / total


def test_independent_masks() -> None:
    own = [(1.0, P, np.zeros(3))]
    for label in range(3):
        pattern = tuple(int(j == (label + 1) % 3) for j in range(3))
        exact = share_true(own, pattern, label)
        np.testing.assert_allclose(posterior(R, P)[label], exact, rtol=1e-12)


def test_spurious_labels_make_unobserved_ones_a_little_less_likely_missing() -> None:
    own = [(1.0, P, SPURIOUS)]
    for label in range(3):
        exact = share_true(own, (0, 0, 0), label)
        np.testing.assert_allclose(posterior(R, P, SPURIOUS)[label], exact, rtol=1e-12)
        exact = 1 - share_true(own, (1, 1, 1), label)
        np.testing.assert_allclose(wrong(R, P, SPURIOUS)[label], exact, rtol=1e-12)


def test_row_effort() -> None:
    """Nobody writes wrong labels into a row at which nobody looks."""
    for spurious in [np.zeros(3), SPURIOUS]:
        for pattern in [(0, 0, 0), (1, 0, 0), (0, 1, 1)]:
            for unannotated in [0.0, 0.3]:
                effort = RowEffort(0.5, (-1.0, 0.0, 1.5), (0.2, 0.5, 0.3), unannotated)
                p = np.minimum(P, 1 - unannotated)
                chances = [
                    (
                        (1 - unannotated) * weight,
                        effort.propensity_at(p, np.float64(point)),
                        spurious,
                    )
                    for point, weight in zip(effort.points, effort.weights, strict=True)
                ]
                chances.append((unannotated, np.zeros(3), np.zeros(3)))
                rows = np.zeros(3, dtype=np.int64)
                got = by_effort(R, p, rows, np.array(pattern, dtype=float), effort, spurious)
                for label in np.flatnonzero(np.array(pattern) == 0):
                    np.testing.assert_allclose(
                        got[label], share_true(chances, pattern, label), 1e-10, 1e-200
                    )


def test_rows_of_effort_do_not_mix() -> None:
    effort = RowEffort(0.5, (-1.0, 1.0), (0.5, 0.5))
    one = by_effort(R, P, np.zeros(3, int), np.array([1.0, 0, 0]), effort, np.zeros(3))
    both = by_effort(
        np.r_[R, R], np.r_[P, P], np.repeat([0, 1], 3), np.array([1.0, 0, 0, 0, 0, 0]), effort,
        np.zeros(6),
    )  # fmt: skip
    np.testing.assert_allclose(both[:3], one)
    assert (both[4:] > both[1:3]).all()  # a row that shows nothing had less effort


def test_find_allows_for_a_mask_model() -> None:
    mask = MaskModel(P, row_effort=0.5, unannotated=0.2, spurious=0.1)
    labels = np.array([[1, 0, 0], [0, 0, 1], [0, 0, 0], [1, 1, 0]])
    chances = np.tile(R, (4, 1))
    found = find(chances, labels, mask)
    rows, columns = np.divmod(np.arange(12), 3)
    rate = mask.false_rate(sp.csr_array(labels))
    exact = by_effort(
        chances.ravel(), mask.value[columns], rows, labels.ravel().astype(float), mask.effort,
        rate[columns],
    )  # fmt: skip
    hidden = labels.ravel() == 0
    np.testing.assert_allclose(np.sort(found.probability), np.sort(exact[hidden]))


def test_numbers_out_of_range_are_refused() -> None:
    for arguments, message in [
        (([1.5], [0.5]), r"probabilities must lie in \[0, 1\]; got 1.5"),
        (([0.5], [0.0]), r"propensities must lie in \(0, 1\]; got 0"),
        (([0.5], [0.5], [1.0]), r"false rates must lie in \[0, 1\); got 1"),
    ]:
        with pytest.raises(ValueError, match=message):
            posterior(*arguments)  # type: ignore[arg-type]


def test_certain_and_impossible_labels() -> None:
    np.testing.assert_array_equal(
        unobserved(np.array([1.0, 0.0, 1.0]), np.array([0.5, 0.5, 1.0])), [1, 0, 0]
    )
    assert posterior(0.4, 1.0) == 0


@given(
    st.lists(st.floats(0, 1), min_size=2, max_size=20),
    st.floats(1e-6, 1.0),
    st.sampled_from([0.0, 0.1, 0.9]),
)
def test_p_missing_rises_with_r_to_the_last_bit(r: list[float], p: float, rate: float) -> None:
    rising = np.sort(np.array(r + [1 - 2.0**-k for k in range(45, 53)]))
    got = unobserved(rising, np.float64(p), rate)
    assert (np.diff(got) >= 0).all()
    assert ((got >= 0) & (got <= 1)).all()


@given(st.integers(0, 64), st.integers(1, 64), st.integers(0, 60))
def test_p_missing_of_rationals(r: int, p: int, rate: int) -> None:
    """Exact numbers: multiples of 1/64 are floats."""
    true, kept, false = Fraction(r, 64), Fraction(p, 64), Fraction(rate, 64)
    below = 1 - kept * true - false * (1 - true)
    exact = float(true * (1 - kept) / below) if below else 0.0
    got = unobserved(np.float64(true), np.float64(kept), float(false))
    np.testing.assert_allclose(got, exact, rtol=1e-14)


def test_suspicious_labels_have_little_probability() -> None:
    found = suspicious([[0.9, 0.01], [0.8, 0.3]], [[1, 1], [1, 1]], [0.5, 0.5], spurious=0.1)
    assert found.kind == "wrong"
    assert list(zip(found.rows.tolist(), found.labels.tolist(), strict=True)) == [
        (0, 1), (1, 1), (1, 0), (0, 0),
    ]  # fmt: skip
    with pytest.raises(ValueError, match="spurious must lie in"):
        suspicious([[0.9]], [[1]], [0.5], spurious=0.7)
