"""Warnings name the line of the caller that they are about."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from unmask import linear, losses, weights
from unmask.linear import Recipe

RNG = np.random.default_rng(1)
X = sp.csr_array(RNG.random((20, 4)).astype(np.float32))
Y = (RNG.random((20, 3)) < 0.5).astype(int)
BEYOND = weights.Weights(sp.csr_array(Y * 1.0), sp.csr_array(Y * 1.001))


def stopped(loss: str, reduction: str) -> None:
    linear.train(X, Y, Recipe(loss, reduction=reduction, max_iter=1, tol=1e-12))


def just_not_convex() -> None:
    linear.train(X, Y, Recipe(C=1e-3), weights=BEYOND)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: stopped("squared_hinge", "ova"), "did not converge"),
        (lambda: stopped("softmax", "pal"), "softmax did not converge"),
        (just_not_convex, "not convex"),
    ],
)
def test_a_warning_points_at_the_call(call: Callable[[], None], words: str) -> None:
    with pytest.warns(Warning, match=words) as caught:
        call()
    assert {each.filename for each in caught} == {__file__}


def test_a_warning_of_a_loss_points_at_the_line_that_asked() -> None:
    with pytest.warns(losses.UnboundedLossWarning) as caught:
        losses.warn_if_unbounded(losses.hinge, "unbiased")
    (one,) = caught
    assert one.filename == __file__
    line = Path(__file__).read_text(encoding="utf-8").splitlines()[one.lineno - 1]
    assert line.strip() == 'losses.warn_if_unbounded(losses.hinge, "unbiased")'
