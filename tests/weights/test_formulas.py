"""The formulas of the corrections: numpy, torch and compiled sums agree; pairwise bounds hold."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.oracles import expectation_over_masks
from tests.helpers.strategies import label_sets
from unmask import losses, weights
from unmask.losses import LOSSES
from unmask.weights.formulas import REDUCTIONS, Rectangle, tempered_inverse, weigh

TAU = 0.3
COMBINATIONS = [
    (correction, normalized, reduction)
    for correction in weights.CORRECTIONS
    for normalized in (False, True)
    for reduction in REDUCTIONS
    if not (normalized and reduction == "pairwise")
    and not (correction == "empirical_bayes" and not normalized)
]
PROPENSITIES = {
    "ordinary": np.r_[1.0, np.linspace(0.1, 1, 7)],
    "tiny": np.array([1e-20, 1.0, 1e-3, 0.5, 1e-9, 0.9, 0.2, 1.0]),
}


def example(p: np.ndarray) -> tuple[sp.csr_array, np.ndarray]:
    """Labels with an empty row and a full one, and the (n, m) rectangle of their 1/p."""
    dense = np.random.default_rng(0).random((30, p.size)) < 0.4
    dense[0], dense[1] = False, True
    labels = sp.csr_array(dense.astype(float))
    seen = losses.observed(weights.unbiased(labels, p))
    return labels, seen.pos


def in_rectangle(matrix: sp.csr_array) -> np.ndarray:
    return losses.observed(weights.Weights(matrix, matrix)).pos


def rectangle_weights(inverse, correction, normalized, reduction, share):
    if correction == "tempered":
        inverse = tempered_inverse(inverse, Rectangle(inverse).ones(), TAU)
    options = {"normalized": normalized, "reduction": reduction, "share": share}
    return weigh(correction, Rectangle(inverse), **options)


def test_numpy_torch_and_stored_entries_agree():
    for correction, normalized, reduction in COMBINATIONS:
        for kind in PROPENSITIES:
            p = PROPENSITIES[kind]
            labels, inverse = example(p)
            options = {"tau": TAU} if correction == "tempered" else {}
            options |= {"normalized": normalized, "reduction": reduction}
            stored = weights.CORRECTIONS[correction](labels, p, **options)
            share = weights.count_distribution(labels, p).share
            form = (correction, normalized, reduction)
            by_numpy = rectangle_weights(inverse, *form, share)
            by_torch = rectangle_weights(torch.as_tensor(inverse), *form, torch.as_tensor(share))
            for ours, on_torch, matrix in zip(
                by_numpy, by_torch, (stored.pos, stored.cut), strict=True
            ):
                expected = in_rectangle(matrix)
                # T of a label sums terms of either sign as large as Π 1/p of its row
                size = np.abs(expected).max(axis=1, keepdims=True, initial=0)
                assert (np.abs(ours - expected) <= 1e-12 * size).all()
                np.testing.assert_allclose(on_torch, ours, rtol=1e-12, atol=1e-12 * size.max())
            assert (by_numpy[0] is by_numpy[1]) == (stored.pos is stored.cut)


def test_a_large_weight_does_not_swallow_the_others_in_the_normalised_bound():
    """1 + (1e20 + 1) − 1e20 is 1 in float64, the sum of the others is 2."""
    inverse = np.array([[1e20, 1.0]])
    for array in (inverse, torch.as_tensor(inverse)):
        pos, _ = weigh("bound", Rectangle(array), normalized=True)
        np.testing.assert_array_equal(pos, [[5e19, 1 / (1 + 1e20)]])
    stored = weights.bound([[1, 1]], [1e-20, 1.0], normalized=True)
    np.testing.assert_allclose(stored.pos.data, [5e19, 1e-20], rtol=1e-15)


def test_pairwise_losses_have_no_normalised_form():
    for correction in weights.CORRECTIONS.values():
        with pytest.raises(ValueError, match="pairwise losses have no normalised form"):
            correction([[1, 1]], [0.5, 0.5], normalized=True, reduction="pairwise")


# --- the pairwise bound -----------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n, loss in LOSSES.items() if loss.reduction == "pairwise"])
@settings(max_examples=60)
@given(data=st.data())
def test_the_pairwise_bound_is_no_less_than_the_loss_of_true_labels(name, data):
    """By enumeration of all masks, and by what the mean is: Σ y*_i (1 − p_j y*_j) φ(s_i − s_j)."""
    true, p = data.draw(label_sets())
    scores = np.array(data.draw(st.lists(st.floats(-3, 3), min_size=p.size, max_size=p.size)))
    phi = LOSSES[name].value
    pairs = [(i, j) for i in true for j in range(p.size) if i != j]
    closed = sum((1 - p[j] * (j in true)) * float(phi(scores[i] - scores[j], 1)) for i, j in pairs)
    truth = sum(float(phi(scores[i] - scores[j], 1)) for i, j in pairs if j not in true)

    def mean(**form: str) -> float:
        def value(observed: tuple[int, ...]) -> float:
            labels = np.zeros((1, p.size))
            labels[0, list(observed)] = 1
            w = weights.bound(labels, p, **form)
            return float(losses.total(name, scores[None], w)[0])

        return float(expectation_over_masks(value, true, p))

    tight, loose = mean(reduction="pairwise"), mean(reduction="ova")
    assert tight == pytest.approx(closed, rel=1e-9, abs=1e-9)
    assert truth <= tight + 1e-9 * (1 + truth)
    assert tight <= loose + 1e-9 * (1 + loose)
