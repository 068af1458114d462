"""Related work: formulas written out again, slopes, and the theorems that hold for each."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
import torch
from scipy.special import expit, log_expit

from unmask import losses, weights
from unmask.losses._loss import gradient, rows
from unmask_studies.training import related_work

EXAMPLES = {
    "sigmoid": related_work.sigmoid(),
    "unhinged": related_work.unhinged(),
    "asymmetric": related_work.asymmetric(gamma_positive=1.0),
    "asymmetric without clip": related_work.asymmetric(clip=0.0, gamma_negative=2.0),
    "hill": related_work.hill(),
    "self_paced before": related_work.self_paced(epoch=0),
    "self_paced after": related_work.self_paced(epoch=1),
    "label_smoothing": related_work.label_smoothing(epsilon=0.2),
    "class_conditional": related_work.class_conditional(flip_positive=0.3, flip_negative=0.1),
    "class_conditional per label": related_work.class_conditional(
        losses.squared_error, flip_positive=np.linspace(0, 0.8, 6), flip_negative=0.1
    ),
    "non_negative": related_work.non_negative(),
    "large_loss_rejection": related_work.large_loss_rejection(epoch=5, percent=5.0),
    "large_loss_rejection first": related_work.large_loss_rejection(epoch=1),
}


def batch(seed: int = 0, n: int = 9, n_labels: int = 6):
    rng = np.random.default_rng(seed)
    labels = (rng.random((n, n_labels)) < 0.35).astype(float)
    return rng.normal(size=(n, n_labels)) * 2, labels, rng.uniform(0.2, 1, n_labels)


def as_tensors(w, dtype=torch.float64):
    seen = losses.observed(w)
    return losses.Observed(
        torch.as_tensor(seen.index),
        *(torch.as_tensor(a, dtype=dtype) for a in (seen.pos, seen.cut)),
    )


@pytest.mark.parametrize("name", EXAMPLES)
def test_gradient_equals_autograd_and_finite_differences(name):
    loss, (scores, labels, propensity) = EXAMPLES[name], batch()
    w = weights.unbiased(labels, propensity)
    slope = losses.gradient(loss, scores, w)
    tensor = torch.tensor(scores, requires_grad=True)
    value = rows(loss, tensor, as_tensors(w))
    value.sum().backward()
    np.testing.assert_allclose(value.detach().numpy(), losses.total(loss, scores, w), rtol=1e-12)
    np.testing.assert_allclose(slope, tensor.grad.numpy(), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        slope, gradient(loss, tensor.detach(), as_tensors(w)).numpy(), rtol=1e-12
    )
    for i, j in product(range(3), range(scores.shape[1])):
        up, down = scores.copy(), scores.copy()
        up[i, j] += 1e-6
        down[i, j] -= 1e-6
        rise = losses.total(loss, up, w).sum() - losses.total(loss, down, w).sum()
        assert slope[i, j] == pytest.approx(rise / 2e-6, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("name", EXAMPLES)
def test_curvatures_are_slopes_of_slopes(name):
    loss, s = EXAMPLES[name], np.tile(np.linspace(-4.1, 4.1, 9)[:, None], 6)
    for label in (0, 1) if loss.curvature else ():
        rise = loss.slope(s + 1e-5, label) - loss.slope(s - 1e-5, label)
        np.testing.assert_allclose(loss.curvature(s, label), rise / 2e-5, rtol=1e-5, atol=1e-8)


def test_only_mixtures_of_proper_losses_and_plain_ones_are_proper():
    proper = {name for name, loss in EXAMPLES.items() if loss.proper}
    assert proper == {
        "label_smoothing",
        "class_conditional",
        "class_conditional per label",
        "large_loss_rejection first",
    }


@pytest.mark.parametrize("name", EXAMPLES)
def test_extreme_scores_stay_finite(name):
    scores = np.array([[1e4, -1e4, 1e4, -1e4, 0.0, 3.0]])
    w = weights.vanilla([[1, 1, 0, 0, 1, 0]])
    assert np.isfinite(losses.total(EXAMPLES[name], scores, w)).all()
    assert np.isfinite(losses.gradient(EXAMPLES[name], scores, w)).all()
    seen, tensor = as_tensors(w, torch.float32), torch.tensor(scores, dtype=torch.float32)
    assert rows(EXAMPLES[name], tensor, seen).isfinite().all()
    assert gradient(EXAMPLES[name], tensor, seen).isfinite().all()


@pytest.mark.parametrize(
    "name", ["logistic", "squared_error", "hinge", "squared_hinge", "zero_one"]
)
@pytest.mark.parametrize("per_label", [False, True])
def test_class_conditional_is_unbiased_over_all_flips(name, per_label):
    base, rng = losses.LOSSES[name], np.random.default_rng(2)
    lost = rng.uniform(0, 0.6, 4) if per_label else np.full(4, 0.4)
    false = rng.uniform(0, 0.3, 4) if per_label else np.full(4, 0.2)
    rates = (lost, false) if per_label else (0.4, 0.2)
    loss = related_work.class_conditional(base, flip_positive=rates[0], flip_negative=rates[1])
    true, scores = np.array([1, 0, 1, 0]), rng.normal(size=(1, 4))
    mean = 0.0
    for flips in product([0, 1], repeat=4):
        seen = np.abs(true - flips)
        rate = np.where(true == 1, lost, false)
        chance = np.prod(np.where(flips, rate, 1 - rate))
        mean += chance * losses.total(loss, scores, weights.vanilla(seen[None]))[0]
    truth = losses.total(base, scores, weights.vanilla(true[None]))[0]
    assert mean == pytest.approx(truth, rel=1e-10)


@pytest.mark.parametrize("name", ["logistic", "hinge"])
def test_missing_labels_are_class_conditional_noise_without_false_positives(name):
    scores, labels, propensity = batch(1)
    base = losses.LOSSES[name]
    ours = losses.total(base, scores, weights.unbiased(labels, propensity))
    loss = related_work.class_conditional(base, flip_positive=1 - propensity)
    theirs = losses.total(loss, scores, weights.vanilla(labels))
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@pytest.mark.parametrize("rates", [(0.5, 0.5), (0.7, 0.4), (-0.1, 0.2), (0.2, -0.1), (1.0, 0.0)])
def test_flip_rates_leave_something_of_the_labels(rates):
    with pytest.raises(ValueError, match="must add up to less than 1"):
        related_work.class_conditional(flip_positive=rates[0], flip_negative=rates[1])


def test_class_conditional_says_when_unobserved_labels_are_unbounded():
    assert not EXAMPLES["class_conditional"].describe("vanilla").bounded_below
    harmless = related_work.class_conditional(flip_positive=0.0)
    assert harmless.describe("vanilla").bounded_below
    assert EXAMPLES["label_smoothing"].describe("vanilla").bounded_below


def test_only_unobserved_labels_are_harmed_by_false_positives():
    """Without them there is nothing that could be unbounded."""
    loss = related_work.class_conditional(flip_positive=0.0, flip_negative=0.1)
    assert loss.describe(weights.vanilla([[1, 1]])).lower_bound == 0
    assert not loss.describe(weights.vanilla([[1, 0]])).bounded_below


def test_unhinged_is_bounded_where_its_slopes_cancel():
    lower = EXAMPLES["unhinged"].lower
    found = lower(np.array([0.25, 1.0, 1.0, 2.0]), np.array([0.75, 0.0, 1.0, 1.0]))
    np.testing.assert_array_equal(found, [0.5, 2.0, -np.inf, -np.inf])


def test_nothing_is_rejected_in_the_first_epoch():
    scores, labels, _ = batch(7)
    plain = losses.total(losses.logistic, scores, weights.vanilla(labels))
    for epoch in (0, 1):
        loss = related_work.large_loss_rejection(epoch=epoch, percent=50.0)
        np.testing.assert_array_equal(losses.total(loss, scores, weights.vanilla(labels)), plain)
        assert loss.describe("vanilla").convex
    later = related_work.large_loss_rejection(epoch=2, percent=50.0)
    assert losses.total(later, scores, weights.vanilla(labels)).sum() < plain.sum()
    assert not later.proper
    assert not later.describe("vanilla").convex


@pytest.mark.parametrize("name", ["sigmoid", "unhinged"])
def test_symmetric_losses_are_symmetric(name):
    s = np.linspace(-5, 5, 21)
    total = EXAMPLES[name].value(s, 0) + EXAMPLES[name].value(s, 1)
    np.testing.assert_allclose(total, total[0], rtol=1e-14)


def test_asymmetric_formula():
    s, p = np.linspace(-6, 6, 25), expit(np.linspace(-6, 6, 25))
    q = np.maximum(p - 0.05, 0)
    loss = related_work.asymmetric(gamma_positive=1.0)
    np.testing.assert_allclose(loss.value(s, 1), -(1 - p) * np.log(p), rtol=1e-12)
    np.testing.assert_allclose(loss.value(s, 0), -(q**4) * np.log(1 - q), rtol=1e-12)
    plain = related_work.asymmetric(gamma_negative=0.0, gamma_positive=0.0, clip=0.0)
    np.testing.assert_allclose(plain.value(s, 0), losses.logistic.value(s, 0), rtol=1e-12)
    np.testing.assert_allclose(plain.slope(s, 0), losses.logistic.slope(s, 0), rtol=1e-12)


def test_hill_and_self_paced_formulas():
    s = np.linspace(-6, 6, 25)
    p, moved = expit(s), expit(s - 1)
    hill, late = EXAMPLES["hill"], EXAMPLES["self_paced after"]
    np.testing.assert_allclose(hill.value(s, 1), -((1 - moved) ** 2) * np.log(moved), rtol=1e-12)
    np.testing.assert_allclose(hill.value(s, 0), (1.5 - p) * p**2, rtol=1e-12)
    np.testing.assert_allclose(late.value(s, 1), hill.value(s, 1))
    negative = np.where(p > 0.6, -((1 - p) ** 2) * log_expit(s), -(p**2) * log_expit(-s))
    np.testing.assert_allclose(late.value(s, 0), negative, rtol=1e-12)
    early = EXAMPLES["self_paced before"]
    np.testing.assert_allclose(early.value(s, 0), -(p**2) * log_expit(-s), rtol=1e-12)


def test_lower_bounds_of_bounded_losses_hold():
    rng, (_, labels, propensity) = np.random.default_rng(3), batch(3)
    w = weights.unbiased(labels, propensity)
    for loss in EXAMPLES.values():
        bound = loss.describe(w).lower_bound
        for spread in (0.5, 3, 30):
            value = losses.total(loss, rng.normal(size=labels.shape) * spread, w).mean()
            assert value >= bound - 1e-9
    assert EXAMPLES["sigmoid"].describe(w).bounded_below
    assert EXAMPLES["non_negative"].describe(w).lower_bound == 0


@pytest.mark.parametrize("lam", [0.9, 1.2, 1.5, 2.0])
def test_the_hill_has_its_top_where_it_is_said_to_be(lam):
    loss, s = related_work.hill(lam=lam), np.linspace(-20, 40, 60001)
    lowest = loss.lower(np.array([0.0]), np.array([2.0]))
    assert lowest == pytest.approx(-loss.value(s, 0).max(), rel=1e-6)


@pytest.mark.parametrize(("tau", "gamma"), [(0.6, 2.0), (0.2, 1.0), (0.9, 0.0)])
def test_the_most_that_a_self_paced_negative_can_cost(tau, gamma):
    loss = related_work.self_paced(epoch=1, tau=tau, gamma=gamma)
    s = np.log(tau / (1 - tau)) + np.r_[-np.geomspace(1e-9, 30, 5000), np.geomspace(1e-9, 30, 5000)]
    lowest = loss.lower(np.array([0.0]), np.array([2.0]))
    assert lowest == pytest.approx(-loss.value(s, 0).max(), rel=1e-6)
    early = related_work.self_paced(epoch=0, tau=tau, gamma=gamma)
    assert early.lower(np.array([0.0]), np.array([2.0])) == -np.inf


def test_a_negative_part_of_zero_is_not_clamped():
    """At equal scores −ℓ₋ of the observed row and ℓ₋ of the other cancel; their slopes count."""
    w = weights.unbiased([[1], [0]], [0.5])
    slope = losses.gradient(EXAMPLES["non_negative"], [[0.7], [0.7]], w)
    expected = [[2 * (expit(0.7) - 1) - expit(0.7)], [expit(0.7)]]
    np.testing.assert_allclose(slope, expected, rtol=1e-12)


def test_label_smoothing_is_bce_on_smoothed_targets():
    scores, labels, _ = batch(4)
    ours = losses.total(EXAMPLES["label_smoothing"], scores, weights.vanilla(labels)).sum()
    smooth = torch.tensor(labels * 0.9 + (1 - labels) * 0.1)
    theirs = torch.nn.functional.binary_cross_entropy_with_logits(
        torch.tensor(scores), smooth, reduction="sum"
    )
    assert ours == pytest.approx(float(theirs), rel=1e-12)


def test_non_negative_clamps_label_by_label():
    scores, labels, propensity = batch(5)
    scores += 4 * labels  # confident: the unbiased negative part turns negative for some labels
    w = weights.unbiased(labels, propensity)
    positive = (np.logaddexp(0, -scores) * labels / propensity).sum(0)
    negative = (np.logaddexp(0, scores) * (1 - labels / propensity)).sum(0)
    assert (negative < 0).any()
    assert (negative > 0).any()
    ours = losses.total(EXAMPLES["non_negative"], scores, w).sum()
    assert ours == pytest.approx((positive + np.maximum(negative, 0)).sum(), rel=1e-12)


def test_large_loss_rejection_drops_the_largest_unobserved_losses():
    scores, labels, _ = batch(6)
    ours = losses.total(EXAMPLES["large_loss_rejection"], scores, weights.vanilla(labels)).sum()
    unobserved = np.sort(np.logaddexp(0, scores)[labels == 0])
    dropped = math.ceil(scores.size * 0.2)
    positive = (np.logaddexp(0, -scores) * labels).sum()
    assert ours == pytest.approx(positive + unobserved[:-dropped].sum(), rel=1e-12)
    everything = related_work.large_loss_rejection(epoch=101, percent=1.0)
    left = losses.total(everything, scores, weights.vanilla(labels)).sum()
    assert left == pytest.approx(positive, rel=1e-12)


@pytest.mark.parametrize(
    ("make", "name", "low", "high"),
    [
        (lambda x: related_work.self_paced(epoch=0, tau=x), "tau", 0, 1),
        (lambda x: related_work.asymmetric(clip=x), "clip", 0, 1),
        (lambda x: related_work.label_smoothing(epsilon=x), "epsilon", 0, 1),
        (lambda x: related_work.large_loss_rejection(epoch=3, percent=x), "percent", 0, 100),
    ],
)
def test_parameters_lie_in_their_intervals(make, name, low, high):
    make(low)
    make(high)
    for outside in (low - 0.01, high + 0.01):
        with pytest.raises(ValueError, match=rf"{name} must lie in \[{low}, {high}\]"):
            make(outside)


def test_doors():
    with pytest.raises(ValueError, match=r"add up to less than 1; got 0\.8"):
        related_work.class_conditional(flip_positive=0.8, flip_negative=0.3)
    with pytest.raises(ValueError, match=r"0 or at least 1; got 0\.5"):
        related_work.hill(gamma=0.5)
    with pytest.raises(ValueError, match="only one-vs-all losses can be wrapped; softmax is pal"):
        related_work.non_negative(losses.softmax)


def test_mixtures_need_one_vs_all_losses_and_are_per_label_if_a_part_is():
    with pytest.raises(ValueError, match="only one-vs-all losses can be wrapped; softmax is pal"):
        related_work.class_conditional(losses.softmax, flip_positive=0.1, flip_negative=0.1)
    for rates, per_label in ((0.1, False), ([0.1, 0.2], True)):
        made = related_work.class_conditional(flip_positive=rates, flip_negative=0.1)
        assert made.per_label is per_label
