"""Observed and complete labels of audited rows: which pairs of them are taken for swapped."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from unmask import _validation


def pair(both: int, outside: int, reverse: int) -> tuple[sp.csr_array, sp.csr_array]:
    """Labels in both, only observed, and only complete, of one row."""
    total = both + outside + reverse
    observed, complete = np.zeros((1, total)), np.zeros((1, total))
    observed[0, : both + outside] = 1
    complete[0, :both] = complete[0, both + outside :] = 1
    return sp.csr_array(observed), sp.csr_array(complete)


@pytest.mark.parametrize(
    ("both", "outside", "reverse"),
    [(10, 0, 90), (10, 10, 10), (10, 10, 90), (80, 20, 20), (95, 5, 0), (0, 0, 5), (0, 0, 0)],
)
def test_pairs_that_may_be(both: int, outside: int, reverse: int) -> None:
    _validation.audited_pair(*pair(both, outside, reverse))


@pytest.mark.parametrize(
    ("both", "outside", "reverse", "message"),
    [
        (10, 90, 0, "are the two swapped"),
        (80, 20, 19, "20 of 100 observed .* 19 of 99 the other way round: are the two swapped"),
        (10, 11, 90, "11 of 21 observed .*; are these the same rows, in the same order"),
        (10, 11, 10, "10 of 20 the other way round: are the two swapped"),
        (0, 1, 0, "are the two swapped"),
        (0, 1, 1, "1 of 1 observed .*; are these the same rows, in the same order"),
        (0, 3, 1, "3 of 3 observed .*; are these the same rows, in the same order"),
    ],
)
def test_pairs_that_cannot_be(both: int, outside: int, reverse: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _validation.audited_pair(*pair(both, outside, reverse))
