"""Normalised weights of rows, as exact integrals of polynomials with whole coefficients."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest

from unmask._kernels import weights as kernels


def exact(row: list[int]) -> list[Fraction]:
    """a_k ∫ Π_{j≠k} (1 − u a_j) du over [0, 1]."""
    shares = []
    for k, own in enumerate(row):
        coefficients = [1]
        for other in row[:k] + row[k + 1 :]:
            raised = [0, *(-other * c for c in coefficients)]
            coefficients = [a + b for a, b in zip([*coefficients, 0], raised, strict=True)]
        shares.append(own * sum(Fraction(c, power + 1) for power, c in enumerate(coefficients)))
    return shares


@pytest.mark.parametrize("first", [0, 5])
def test_rows_of_all_lengths(first: int) -> None:
    """Short ones side by side, one that is longer than that, rows of ones, and an empty one."""
    rng = np.random.default_rng(0)
    long = [1] * (kernels.SHORT + 1)
    rows = [[2, 1, 3], [1], [4], [], [1, 1, 1], [1, 2], long, [*long[2:], 2, 2], [3, 5, 2]]
    inverse = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    flat = [a for row in rows for a in row]
    indptr = np.cumsum([first, *map(len, rows)], dtype=np.int32)
    index = np.array(flat, np.int32)
    rule = kernels.quadrature(np.diff(indptr))
    out = rng.random(index.size)
    assert kernels.normalized(indptr, index, inverse, *rule, out) == -1
    wanted = [float(share) for row in rows for share in exact(row)]
    np.testing.assert_allclose(out, wanted, rtol=1e-11, atol=1e-15)
    for row, start in zip(rows, indptr - first, strict=False):
        if set(row) == {1}:  # exactly the weights of complete labels
            assert out[start : start + len(row)].tolist() == [1 / len(row)] * len(row)
    others = np.empty(index.size)
    kernels.one_plus_others(indptr, index, inverse, others)
    np.testing.assert_allclose(others, [1 + sum(row) - a for row in rows for a in row])


def test_rows_beyond_float64_are_computed_with_exponents() -> None:
    """Two large numbers cancel to a number that fits; three of 1e150 do not fit."""
    inverse = np.array([1.0, 1e150, 1e130, 3.0])
    rows = [[0, 3], [2, 2], [1, 1, 1], [1, 1]]
    indptr = np.cumsum([0, *map(len, rows)], dtype=np.int32)
    index = np.array([j for row in rows for j in row], np.int32)
    out = np.empty(index.size)
    overflow = kernels.normalized(indptr, index, inverse, *kernels.quadrature(np.diff(indptr)), out)
    assert overflow == 2
    for row, start in zip(rows, indptr[:-1], strict=True):
        wanted = exact([int(inverse[j]) for j in row])
        made = out[start : start + len(row)].tolist()
        if row == rows[2]:
            assert made == [kernels.LARGEST] * 3
        else:
            assert made == pytest.approx([float(each) for each in wanted], rel=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 10])
def test_legendre_polynomials_and_their_slopes_in_rationals(n: int) -> None:
    """P_n(x) and (1 − x²) P_n'(x) anywhere, not only where P_n is 0; x = 1 − 2u."""
    powers = [Fraction(0)] * (n + 1)
    for k in range(n // 2 + 1):
        sign, choose = Fraction(-1) ** k, comb(n, k) * comb(2 * n - 2 * k, n)
        powers[n - 2 * k] = sign * choose / 2**n
    for u in (Fraction(1, 16), Fraction(3, 8), Fraction(1, 2), Fraction(29, 32)):
        x = 1 - 2 * u
        value = sum(c * x**k for k, c in enumerate(powers))
        slope = sum(k * c * x ** (k - 1) for k, c in enumerate(powers) if k)
        made = kernels._legendre(n, np.array([float(u)]))
        wanted = float(value), float((1 - x * x) * slope)
        assert (made[0][0], made[1][0]) == pytest.approx(wanted, rel=1e-12, abs=1e-14)
