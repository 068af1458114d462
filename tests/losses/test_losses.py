"""Losses × weights against direct sums, enumeration over masks, finite differences and autograd."""

from __future__ import annotations

import doctest
import pydoc
import warnings
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.oracles import expectation_over_masks
from tests.helpers.strategies import label_sets
from unmask import losses, weights
from unmask.losses import LOSSES, UnboundedLossWarning, related_work
from unmask.weights import Weights

# Stated again, in plain Python, so that the losses are not judged by themselves.
BY_HAND = {
    "logistic": lambda s, y: np.log1p(np.exp(-s if y else s)),
    "squared_error": lambda s, y: (s - y) ** 2,
    "hinge": lambda s, y: max(0.0, 1 - (s if y else -s)),
    "squared_hinge": lambda s, y: max(0.0, 1 - (s if y else -s)) ** 2,
    "zero_one": lambda s, y: 0.5 if s == 0 else float((s < 0) == bool(y)),
}
POINTWISE = sorted(BY_HAND)
TRAINABLE = sorted(name for name, loss in LOSSES.items() if loss.slope is not None)
score = st.one_of(st.sampled_from([-1.0, 0.0, 0.5, 1.0]), st.floats(-4, 4))


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[int], np.ndarray, np.ndarray]:
    true, propensity = draw(label_sets())
    scores = draw(st.lists(score, min_size=propensity.size, max_size=propensity.size))
    return true, propensity, np.array(scores)


def rows_of(observed: tuple[int, ...], n_labels: int) -> np.ndarray:
    labels = np.zeros((1, n_labels))
    labels[0, list(observed)] = 1
    return labels


def on_true_labels(name: str, true: list[int], scores: np.ndarray, normalized: bool) -> float:
    """The complete-data loss, written out."""
    share = 1 / max(len(true), 1) if normalized else 1.0
    every = range(len(scores))
    if name == "softmax":
        return share * sum(np.log(np.exp(scores).sum()) - scores[i] for i in true)
    if name.startswith("pairwise_"):
        phi = BY_HAND[name.removeprefix("pairwise_")]
        return sum(phi(scores[i] - scores[j], 1) for i in true for j in every if j not in true)
    ell = BY_HAND[name]
    negatives = sum(ell(scores[j], 0) for j in every)
    return negatives + share * sum(ell(scores[i], 1) - ell(scores[i], 0) for i in true)


def mean_over_masks(
    name: str, case: tuple[list[int], np.ndarray, np.ndarray], correction, **options
) -> tuple[float, float]:
    """E over masks of the corrected loss, and the size of the terms that it is made of."""
    true, propensity, scores = case

    def one(observed: tuple[int, ...]) -> np.ndarray:
        w = correction(rows_of(observed, len(scores)), propensity, **options)
        value = losses.total(name, scores[None], w)[0]
        return np.array([value, abs(value)])

    return tuple(np.ones(2) * expectation_over_masks(one, true, propensity))


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("name", sorted(LOSSES))
@settings(max_examples=40)
@given(case=cases())
def test_unbiased_losses_have_the_true_loss_as_their_mean_over_masks(name, normalized, case):
    if normalized and name.startswith("pairwise"):
        return
    mean, size = mean_over_masks(name, case, weights.unbiased, normalized=normalized)
    truth = on_true_labels(name, case[0], case[2], normalized)
    assert mean == pytest.approx(truth, rel=1e-10, abs=1e-10 * max(size, 1))


@pytest.mark.parametrize("name", [*POINTWISE, "softmax", "pairwise_hinge", "pairwise_logistic"])
@settings(max_examples=40)
@given(case=cases())
def test_bounds_are_no_less_than_the_true_loss(name, case):
    mean, size = mean_over_masks(name, case, weights.bound, reduction=LOSSES[name].reduction)
    assert mean >= on_true_labels(name, case[0], case[2], False) - 1e-10 * max(size, 1)


@settings(max_examples=40)
@given(case=cases())
def test_the_normalised_bound_bounds_pick_all_labels(case):
    mean, _ = mean_over_masks("softmax", case, weights.bound, normalized=True, reduction="pal")
    assert mean >= on_true_labels("softmax", case[0], case[2], True) - 1e-9


def random_batch(seed: int = 0, weigh=weights.bound) -> tuple[np.ndarray, Weights]:
    rng = np.random.default_rng(seed)
    labels = (rng.random((7, 6)) < 0.4).astype(float)
    labels[0] = 0  # a row without labels
    return rng.normal(size=labels.shape) * 2, weigh(labels, rng.uniform(0.2, 1, 6))


def test_gradient_equals_autograd_and_finite_differences():
    for name in TRAINABLE:
        for weigh in [weights.bound, weights.unbiased]:
            scores, w = random_batch(weigh=weigh)
            given_gradient = losses.gradient(name, scores, w)
            tensor = torch.tensor(scores, requires_grad=True)
            rectangles = losses.observed(w)
            arrays = rectangles.index, rectangles.pos, rectangles.cut
            seen = losses.Observed(*(torch.as_tensor(array) for array in arrays))
            value = losses._loss.rows(LOSSES[name], tensor, seen)
            value.sum().backward()
            np.testing.assert_allclose(
                value.detach().numpy(), losses.total(name, scores, w), rtol=1e-12
            )
            np.testing.assert_allclose(given_gradient, tensor.grad.numpy(), rtol=1e-10, atol=1e-12)
            step = 1e-6
            for i, j in product(range(scores.shape[0]), range(scores.shape[1])):
                up, down = scores.copy(), scores.copy()
                up[i, j] += step
                down[i, j] -= step
                slope = (losses.total(name, up, w)[i] - losses.total(name, down, w)[i]) / (2 * step)
                assert given_gradient[i, j] == pytest.approx(slope, rel=1e-5, abs=1e-6)


def test_curvature_is_the_slope_of_the_slope():
    for name in [n for n in POINTWISE if n != "zero_one"]:
        for label in [0, 1]:
            loss, at, step = LOSSES[name], np.array([-3.3, -0.7, 0.2, 0.4, 2.6]), 1e-6
            numeric = (loss.slope(at + step, label) - loss.slope(at - step, label)) / (2 * step)
            np.testing.assert_allclose(loss.curvature(at, label), numeric, rtol=1e-6, atol=1e-8)


def test_extreme_scores_stay_finite():
    for name in sorted(LOSSES):
        for dtype in [torch.float32, torch.float64]:
            scores = np.array([[1e4, -1e4, 1e4, -1e4, 0.0]])
            w = weights.unbiased([[1, 1, 0, 0, 1]], [0.3, 0.5, 1, 1, 0.9])
            assert np.isfinite(losses.total(name, scores, w)).all()
            seen = losses.observed(w)
            seen = losses.Observed(
                torch.as_tensor(seen.index),
                *(torch.as_tensor(a, dtype=dtype) for a in (seen.pos, seen.cut)),
            )
            tensor = torch.tensor(scores, dtype=dtype)
            assert losses._loss.rows(LOSSES[name], tensor, seen).isfinite().all()
            if LOSSES[name].slope is not None:
                assert np.isfinite(losses.gradient(name, scores, w)).all()
                assert losses._loss.gradient(LOSSES[name], tensor, seen).isfinite().all()


def test_a_tie_is_half_a_mistake():
    w = weights.vanilla([[1, 0, 0]])
    assert losses.total("pairwise_zero_one", [[0.0, 0.0, -1.0]], w)[0] == 0.5
    assert losses.total("zero_one", [[0.0, 0.0, -1.0]], w)[0] == 1.0


def test_labels_may_be_renamed():
    for name in sorted(LOSSES):
        scores, w = random_batch(3)
        order = np.random.default_rng(4).permutation(scores.shape[1])
        renamed = Weights(w.pos[:, order].sorted_indices(), w.cut[:, order].sorted_indices())
        np.testing.assert_allclose(
            losses.total(name, scores, w), losses.total(name, scores[:, order], renamed), rtol=1e-12
        )


def numerically_convex(name: str, w: Weights, rng: np.random.Generator) -> bool:
    """No midpoint above the chord, over many random chords."""
    for _ in range(400):
        a, b = rng.normal(size=(2, *w.pos.shape)) * rng.choice([0.5, 3, 30])
        chord = (losses.total(name, a, w) + losses.total(name, b, w)) / 2
        gap = losses.total(name, (a + b) / 2, w) - chord
        if (gap > 1e-9 * (1 + np.abs(chord))).any():
            return False
    return True


def numerically_bounded(name: str, w: Weights, rng: np.random.Generator) -> bool:
    """No random direction along which the loss still falls from 1e5 to 1e6."""
    for _ in range(400):
        direction = rng.choice([-1.0, 0.0, 1.0, 2.0], size=w.pos.shape)
        near, far = (losses.total(name, direction * r, w) for r in (1e5, 1e6))
        if (far < near - 1e3).any():
            return False
    return True


SHAPES = [
    (name, correction, normalized)
    for name in TRAINABLE
    for correction in ("vanilla", "unbiased", "bound", "tempered", "empirical_bayes")
    for normalized in (False, True)
    if (normalized or correction != "empirical_bayes")
    and not (normalized and name.startswith("pairwise"))
]


def test_descriptions_tell_the_truth():
    for name, correction, normalized in SHAPES:
        loss, rng = LOSSES[name], np.random.default_rng(1)
        reduction = "pal" if loss.reduction == "pal" else "ova"
        w = weights.CORRECTIONS[correction](
            [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]],
            [0.3, 0.35, 0.4, 1.0],
            normalized=normalized,
            reduction=reduction,
        )
        told = loss.describe(w, normalized=normalized)
        assert told.convex == numerically_convex(name, w, rng)
        assert told.bounded_below == numerically_bounded(name, w, rng)
        assert told.largest_weight == max(np.abs(w.pos.data).max(), np.abs(w.cut.data).max())
        general = loss.describe(correction, normalized=normalized)
        if correction == "empirical_bayes":  # what its weights come to depends on the label counts
            assert general.convex <= told.convex
            assert general.bounded_below <= told.bounded_below
        else:
            assert (general.convex, general.bounded_below) == (told.convex, told.bounded_below)
        for _ in range(200):
            value = losses.total(name, rng.normal(size=w.pos.shape) * rng.choice([0.3, 1, 5]), w)
            assert value.mean() >= told.lower_bound - 1e-9


def test_where_convexity_ends():
    for name, pos, cut, convex in [
        ("logistic", 0.5, 1.5, True),  # the curvature vanishes
        ("logistic", 0.5, 1.51, False),
        ("squared_error", 1.0, 2.0, True),
        ("squared_error", 1.0, 2.01, False),
        ("hinge", 0.0, 1.0, True),
        ("hinge", -0.01, 1.0, False),
        ("hinge", 0.0, 1.01, False),
        ("zero_one", 1.0, 1.0, False),
    ]:
        assert bool(losses.LOSSES[name].convex(np.array(pos), np.array(cut))) == convex


def test_without_labels_no_weight_is_large():
    assert losses.logistic.describe(weights.vanilla(np.zeros((2, 3)))).largest_weight == 0


def test_a_parabola_that_is_none_is_bounded_only_if_nothing_is_left_of_it():
    """pos (1 − s)² + (1 − cut) s²: a vertex, a constant, a line, a parabola upside down."""
    pos, cut = np.array([2.0, 0.0, 1.0, 1.0]), np.array([1.5, 1.0, 2.0, 3.0])
    lowest = losses.squared_error.lower(pos, cut)
    np.testing.assert_allclose(lowest, [2 - 4 / 1.5, 0.0, -np.inf, -np.inf])


def test_the_lower_bound_is_reached_where_it_is_said_to_be():
    w = weights.unbiased([[1, 0]], [0.25, 1.0])
    lowest = losses.squared_error.describe(w).lower_bound
    assert losses.total("squared_error", [[4.0, 0.0]], w)[0] == pytest.approx(lowest) == -12.0


def test_an_unbounded_loss_warns_and_names_the_alternative():
    with pytest.warns(UnboundedLossWarning, match="use the bound weights"):
        losses.warn_if_unbounded(losses.hinge, "unbiased")
    with pytest.warns(UnboundedLossWarning, match="empirical_bayes"):
        losses.warn_if_unbounded(losses.softmax, "unbiased", normalized=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        losses.warn_if_unbounded(losses.hinge, "bound")
        losses.warn_if_unbounded(losses.hinge, weights.unbiased([[1, 0]], [1.0, 1.0]))


def test_doors():
    w = weights.vanilla([[1, 0]])
    with pytest.raises(ValueError, match="unknown loss 'hing'; use one of: hinge"):
        losses.total("hing", [[0, 0]], w)
    with pytest.raises(ValueError, match=r"scores must have the shape of the weights, \(1, 2\)"):
        losses.total("hinge", [[0, 0, 0]], w)
    with pytest.raises(ValueError, match="scores must be finite; got nan"):
        losses.total("hinge", [[0, np.nan]], w)
    with pytest.raises(ValueError, match="evaluation only"):
        losses.gradient("zero_one", [[0, 0]], w)


def test_caller_arrays_are_left_alone():
    scores, w = random_batch(5)
    kept, pos = scores.copy(), w.pos.data.copy()
    for name in LOSSES:
        losses.total(name, scores, w)
        if LOSSES[name].slope is not None:
            losses.gradient(name, scores, w)
    np.testing.assert_array_equal(scores, kept)
    np.testing.assert_array_equal(w.pos.data, pos)


def test_observed_likelihood_is_that_of_what_was_observed():
    scores, p = np.linspace(-6, 6, 25)[:, None] * np.ones(3), np.array([0.2, 0.7, 1.0])
    loss = related_work.observed_likelihood(p)
    chance = p / (1 + np.exp(-scores))
    np.testing.assert_allclose(loss.value(scores, 1), -np.log(chance), rtol=1e-12)
    np.testing.assert_allclose(loss.value(scores, 0), -np.log(1 - chance), rtol=1e-9)
    assert (loss.value(scores, 0)[:, :2] <= -np.log(1 - p[:2])).all()
    described = loss.describe("vanilla")
    assert described.bounded_below
    assert not described.convex
    complete = related_work.observed_likelihood(1.0)
    np.testing.assert_allclose(
        complete.value(scores, 0), losses.logistic.value(scores, 0), rtol=1e-12
    )
    assert complete.describe("vanilla").convex
    for label in (0, 1):
        up, down = (loss.value(scores + step, label) for step in (1e-6, -1e-6))
        np.testing.assert_allclose(loss.slope(scores, label), (up - down) / 2e-6, atol=1e-8)
        up, down = (loss.slope(scores + step, label) for step in (1e-6, -1e-6))
        np.testing.assert_allclose(loss.curvature(scores, label), (up - down) / 2e-6, atol=1e-8)
    # in expectation over the mask −r p ln P(1) − (1 − r p) ln P(0) is least at s = logit r
    half, r, q = related_work.observed_likelihood(0.3), 0.4, 0.3
    slope = r * q * half.slope(np.log(r / (1 - r)), 1)
    slope += (1 - r * q) * half.slope(np.log(r / (1 - r)), 0)
    assert abs(float(slope)) < 1e-15
    far = np.array([1e4, -1e4])
    assert all(np.isfinite(half.value(far, label)).all() for label in (0, 1))
    for wrong in (0.0, 1.2, [0.5, -0.1]):
        with pytest.raises(ValueError, match="propensities must lie in"):
            related_work.observed_likelihood(wrong)


def test_help_shows_the_formula_of_a_loss_and_its_example_runs():
    for name, loss in LOSSES.items():
        shown = pydoc.render_doc(getattr(losses, name), renderer=pydoc.plaintext)
        assert FORMULAS[name] in shown
        parsed = doctest.DocTestParser().get_doctest(loss.__doc__, {}, name, None, None)
        assert parsed.examples
        assert doctest.DocTestRunner(verbose=False).run(parsed).failed == 0
    plain = losses.Loss("own", "ova", *[losses.hinge.value] * 3, losses.hinge.convex,
                        losses.hinge.lower, proper=False)  # fmt: skip
    assert plain.__doc__ == losses.Loss.__doc__


FORMULAS = {
    "logistic": "ℓ₊(s) = log(1 + e⁻ˢ),    ℓ₋(s) = log(1 + eˢ)",
    "squared_error": "ℓ₊(s) = (1 − s)²,    ℓ₋(s) = s²",
    "hinge": "ℓ₊(s) = max(0, 1 − s),    ℓ₋(s) = max(0, 1 + s)",
    "squared_hinge": "ℓ₊(s) = max(0, 1 − s)²,    ℓ₋(s) = max(0, 1 + s)²",
    "zero_one": "ℓ₊(s) = [s < 0],    ℓ₋(s) = [s > 0],    and one half at s = 0",
    "softmax": "Σ_{i∈I} pos_i (A(s) − s_i),    A(s) = log Σ_j eˢʲ",
    "pairwise_zero_one": "Σ_{i relevant} Σ_{j irrelevant} [s_i < s_j]",
    "pairwise_logistic": "Σ_{i relevant} Σ_{j irrelevant} log(1 + e^{−(s_i − s_j)})",
    "pairwise_hinge": "Σ_{i relevant} Σ_{j irrelevant} max(0, 1 − (s_i − s_j))",
}
