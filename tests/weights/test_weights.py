"""Label weights against enumeration over all masks, rational arithmetic and mpmath."""

from __future__ import annotations

import warnings
from fractions import Fraction
from itertools import pairwise, product

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import unmask
from tests.helpers import oracles, strategies
from unmask import _kernels, data, weights
from unmask._kernels import weights as kernels
from unmask.weights import formulas

NORMALISED = sorted(weights.CORRECTIONS)
PLAIN = sorted(set(weights.CORRECTIONS) - {"empirical_bayes"})


def row(observed: tuple[int, ...], n_labels: int) -> sp.csr_array:
    matrix = sp.lil_array((1, n_labels), dtype=np.float32)
    matrix[0, list(observed)] = 1
    return sp.csr_array(matrix)


def loss(w: weights.Weights, plus: np.ndarray, minus: np.ndarray, reduction: str) -> float:
    """Section 3 of the mathematics, for one row and arbitrary values of ℓ₊, ℓ₋ (or g)."""
    pos, cut = oracles.dense(w.pos)[0], oracles.dense(w.cut)[0]
    if reduction == "pal":
        return float(pos @ plus)
    return float(minus.sum() + pos @ plus - cut @ minus)


def mean_and_truth(correction, truth, p, scores, **options) -> tuple[float, float]:
    """The mean of a corrected loss over all masks, and the uncorrected loss of the true labels."""

    def estimate(observed: tuple[int, ...]) -> float:
        w = weights.CORRECTIONS[correction](row(observed, len(p)), p, **options)
        return loss(w, *scores, options["reduction"])

    true = weights.vanilla(row(tuple(truth), len(p)), **options)
    return (
        oracles.expectation_over_masks(estimate, truth, p),
        loss(true, *scores, options["reduction"]),
    )


reductions = pytest.mark.parametrize("reduction", ["ova", "pal"])
normalisations = pytest.mark.parametrize("normalized", [False, True])


@reductions
@normalisations
@settings(max_examples=15)
@given(case=strategies.label_sets(), seed=st.integers(0, 2**32 - 1))
def test_unbiased_has_the_true_loss_as_its_mean(reduction, normalized, case, seed):
    truth, p = case
    scores = np.random.default_rng(seed).normal(size=(2, p.size))
    mean, true = mean_and_truth(
        "unbiased", truth, p, scores, normalized=normalized, reduction=reduction
    )
    # Terms of size Π(2/p − 1) cancel, each rounded on its own.
    size = float(np.prod(2 / p[truth] - 1)) + 1
    assert mean == pytest.approx(true, rel=1e-10, abs=1e-14 * size)


@settings(max_examples=15)
@given(case=strategies.label_sets(max_labels=6), seed=st.integers(0, 2**32 - 1))
def test_the_normalised_bound_bounds_every_share(case, seed):
    truth, p = case
    gain = np.random.default_rng(seed).uniform(0, 1, size=(2, p.size))
    mean, true = mean_and_truth("bound", truth, p, gain, normalized=True, reduction="pal")
    assert mean >= true * (1 - 1e-12)


@settings(max_examples=25)
@given(case=strategies.label_sets(max_labels=6), seed=st.integers(0, 2**32 - 1))
def test_the_plain_bound_bounds_the_zero_one_loss_up_to_a_constant(case, seed):
    """Its 0–1 loss is the unbiased one plus Σ_{j∈I} (1/p_j − 1), which no score can change."""
    truth, p = case
    wrong = np.random.default_rng(seed).integers(0, 2, p.size).astype(float)
    seen = row(tuple(truth), p.size)
    bound, exact = weights.bound(seen, p), weights.unbiased(seen, p)
    constant = (1 / p[truth] - 1).sum()
    of_bound, of_exact = loss(bound, wrong, 1 - wrong, "ova"), loss(exact, wrong, 1 - wrong, "ova")
    assert of_bound == pytest.approx(of_exact + constant, rel=1e-12, abs=1e-9)


def test_the_plain_bound_of_pick_all_labels_is_the_unbiased_weight():
    labels, p = [[1, 1, 0], [0, 1, 1]], [0.5, 0.25, 0.1]
    assert_same(weights.bound(labels, p, reduction="pal"), weights.unbiased(labels, p))


# T itself


@settings(max_examples=20)
@given(st.lists(st.sampled_from([Fraction(n, 20) for n in range(1, 21)]), min_size=1, max_size=8))
def test_t_equals_rational_arithmetic(p):
    assert_t_is(p, oracles.normalized_weights_exact(p))


def assert_t_is(p: list[Fraction], exact: list[Fraction]) -> None:
    expected = np.array([float(t) for t in exact])
    ours = weights.normalized_weights(np.array([0, len(p)]), np.array([float(1 / q) for q in p]))
    np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-13 * np.abs(expected).max())


def test_t_equals_mpmath_for_a_hundred_labels():
    for low, high in [(0.01, 0.05), (0.05, 0.3), (0.3, 0.7), (0.7, 0.99)]:
        inverse = 1 / np.random.default_rng(3).uniform(low, high, 100)
        relative_errors = errors(inverse, range(0, 100, 25))
        assert max(relative_errors) < 4e-15


@pytest.mark.parametrize("m", [65, 130, pytest.param(1000, marks=pytest.mark.slow)])
def test_t_equals_mpmath_for_very_many_labels(m):
    """From 0.01 to 1 mixed, which goes through products up to 1e400 and comes back."""
    inverse = 1 / np.random.default_rng(1).uniform(0.01, 1, m)
    assert max(errors(inverse, range(0, m, m // 3))) < 4e-15


def errors(inverse: np.ndarray, chosen: range) -> list[float]:
    """Errors of T relative to the largest |T| of the row (one entry alone may be near 0)."""
    ours = weights.normalized_weights(np.array([0, inverse.size]), inverse)
    with mpmath.workdps(40 + 3 * inverse.size):
        exact = [share_mp([mpmath.mpf(float(a)) for a in inverse], i) for i in chosen]
        return [
            float(abs(ours[i] - t)) / np.abs(ours).max() for i, t in zip(chosen, exact, strict=True)
        ]


def share_mp(inverse: list, i: int):
    """T_i from the coefficients of Π_{k≠i} (1 − a_k u)."""
    coefficients = [mpmath.mpf(1)]
    for k, a in enumerate(inverse):
        if k != i:
            longer = [*coefficients, mpmath.mpf(0)]
            for power, c in enumerate(coefficients):
                longer[power + 1] -= a * c
            coefficients = longer
    return inverse[i] * sum(c / (power + 1) for power, c in enumerate(coefficients))


@settings(max_examples=50)
@given(st.lists(strategies.propensities, min_size=1, max_size=40))
def test_the_shares_of_a_row_sum_to_the_chance_of_any_label(p):
    inverse = 1 / np.array(p)
    t = weights.normalized_weights(np.array([0, len(p)]), inverse)
    expected = 1 - np.prod(1 - inverse)
    assert t.sum() == pytest.approx(expected, rel=1e-11, abs=1e-12 * np.abs(t).sum())


@pytest.mark.parametrize("correction", NORMALISED)
@given(labels=strategies.label_matrices(), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=15)
def test_the_order_of_labels_and_rows_does_not_matter(correction, labels, seed):
    random = np.random.default_rng(seed)
    p = random.uniform(0.1, 1, labels.shape[1])
    columns, rows = random.permutation(labels.shape[1]), random.permutation(labels.shape[0])
    weigh = weights.CORRECTIONS[correction]
    straight = oracles.dense(weigh(labels, p, normalized=True).pos)[rows][:, columns]
    permuted = sp.csr_array(oracles.dense(labels)[rows][:, columns])
    ours = oracles.dense(weigh(permuted, p[columns], normalized=True).pos)
    scale = np.abs(straight).max(initial=1)
    np.testing.assert_allclose(ours, straight, rtol=1e-9, atol=1e-12 * scale)


def test_quadrature_nodes_are_good_to_the_last_digits():
    """Against mpmath: the roots of P_n mapped to [0, 1], relative to their distance from 0."""
    for n in [1, 2, 3, 10, 51, 200]:
        nodes, node_weights = kernels.gauss_legendre(n)
        with mpmath.workdps(120):
            for at in {0, n // 3, n - 1}:
                x = mpmath.findroot(lambda x: mpmath.legendre(n, 1 - 2 * x), mpmath.mpf(nodes[at]))  # noqa: B023
                slope = mpmath.diff(lambda x: mpmath.legendre(n, x), 1 - 2 * x)  # noqa: B023
                weight = 1 / ((1 - (1 - 2 * x) ** 2) * slope**2)
                assert abs(nodes[at] / x - 1) < 8e-16
                assert abs(node_weights[at] / weight - 1) < 8e-15


# What is exact to the bit


@reductions
@pytest.mark.parametrize(
    ("correction", "normalized"),
    [*((name, False) for name in PLAIN), *((name, True) for name in NORMALISED)],
)
@settings(max_examples=10)
@given(labels=strategies.label_matrices())
def test_with_every_propensity_one_all_corrections_are_vanilla(
    correction, normalized, reduction, labels
):
    options = {"normalized": normalized, "reduction": reduction}
    ours = weights.CORRECTIONS[correction](labels, np.ones(labels.shape[1]), **options)
    assert_same(ours, weights.vanilla(labels, **options))


@reductions
@normalisations
@given(labels=strategies.label_matrices(), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=15)
def test_tempering_goes_from_vanilla_to_unbiased(reduction, normalized, labels, seed):
    p = np.random.default_rng(seed).uniform(0.05, 1, labels.shape[1])
    options = {"normalized": normalized, "reduction": reduction}
    for per_entry in (p, entry_propensity(labels, p)):
        none, all_of_it = (weights.tempered(labels, per_entry, tau=t, **options) for t in (0, 1))
        assert_same(none, weights.vanilla(labels, **options))
        assert_same(all_of_it, weights.unbiased(labels, p, **options))


@pytest.mark.parametrize("correction", NORMALISED)
@given(labels=strategies.label_matrices(), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=15)
def test_propensities_per_label_and_per_entry_agree(correction, labels, seed):
    p = np.random.default_rng(seed).uniform(0.05, 1, labels.shape[1])
    weigh = weights.CORRECTIONS[correction]
    assert_same(
        weigh(labels, entry_propensity(labels, p), normalized=True),
        weigh(labels, p, normalized=True),
    )


@pytest.mark.parametrize("correction", NORMALISED)
def test_results_depend_on_neither_threads_nor_chunks(correction, monkeypatch):
    labels = random_labels(400, 120, 9)
    p = np.random.default_rng(0).uniform(0.2, 1, 120)
    weigh = weights.CORRECTIONS[correction]
    whole = weigh(labels, p, normalized=True)
    bounds = _kernels.row_bounds
    monkeypatch.setattr(_kernels, "row_bounds", lambda indptr: bounds(indptr, entries=100))
    for threads in (1, 3):
        unmask.set_threads(threads)
        try:
            assert_same(weigh(labels, p, normalized=True), whole)
        finally:
            unmask.set_threads(None)


# Extremes


def test_values_beyond_float64_are_the_largest_float_and_name_the_row():
    labels = sp.csr_array(np.vstack([np.eye(1, 400), np.zeros((1, 400)), np.ones((2, 400))]))
    with pytest.warns(RuntimeWarning, match=r"row 2 \(400 labels\) exceed float64"):
        w = weights.unbiased(labels, np.full(400, 0.01), normalized=True)
    limit = np.finfo(np.float64).max
    assert oracles.dense(w.pos)[0, 0] == 100
    assert (oracles.dense(w.pos)[2:] == -limit).all()  # 399 negative factors


def test_nothing_is_ever_nan():
    for p in [1e-300, 5e-324, 1e-12, 0.009, 0.5]:
        for m in [2, 7, 63, 64, 65, 130, 1001]:
            inverse = 1 / np.maximum(np.r_[np.full(m - 1, p), 1.0], 1e-308)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                ours = weights.normalized_weights(np.array([0, m]), inverse)
            assert np.isfinite(ours).all()


def test_rows_on_both_sides_of_the_exponent_switch_agree():
    """The same row, once as it is and once with the threshold that sends it through exponents."""
    inverse = 1 / np.random.default_rng(5).uniform(0.05, 1, 90)
    nodes, node_weights, _ = kernels.quadrature(np.array([90]))
    scaled = np.empty(90)
    assert not kernels._with_exponents(inverse, nodes, node_weights, scaled)
    plain = weights.normalized_weights(np.array([0, 90]), inverse)
    np.testing.assert_allclose(scaled, plain, rtol=1e-12, atol=1e-13 * np.abs(plain).max())


def test_tiny_propensities_give_finite_plain_weights():
    for correction in PLAIN:
        w = weights.CORRECTIONS[correction]([[1, 1]], [5e-324, 1.0])
        assert np.isfinite(w.pos.data).all()


def test_rows_without_labels_have_no_weights():
    for correction in NORMALISED:
        weigh = weights.CORRECTIONS[correction]
        w = weigh([[0, 0], [1, 1], [0, 0]], [0.5, 0.5], normalized=True)
        assert w.pos.indptr.tolist() == [0, 0, 2, 2]
        for nothing in (np.zeros((3, 2)), np.zeros((0, 2))):
            assert weigh(nothing, [0.5, 0.5], normalized=True).pos.nnz == 0


def test_what_was_given_is_not_touched():
    labels = sp.csr_array(np.array([[1.0, 0, 1], [0, 1, 0]]))
    p, before = np.array([0.5, 0.25, 1]), labels.copy()
    for correction in weights.CORRECTIONS.values():
        correction(labels, p, normalized=True).pos.data[:] = 7
    assert (labels != before).nnz == 0
    assert p.tolist() == [0.5, 0.25, 1]


def test_mistakes_are_named():
    for correction in NORMALISED:
        weigh = weights.CORRECTIONS[correction]
        with pytest.raises(
            ValueError, match="unknown reduction 'ovr'; use one of: ova, pairwise, pal"
        ):
            weigh([[1]], [0.5], reduction="ovr")
        if correction != "vanilla":
            with pytest.raises(ValueError, match=r"must lie in \(0, 1\]; got 1.7 at label 1"):
                weigh([[1, 1]], [0.5, 1.7], normalized=True)


def test_empirical_bayes_has_no_plain_form():
    with pytest.raises(ValueError, match="no plain form; pass normalized=True, or use `unbiased`"):
        weights.empirical_bayes([[1]], [0.5], normalized=False)


# The distribution of true counts


def test_empirical_bayes_is_one_over_p_times_the_posterior_share():
    labels = random_labels(500, 40, 6)
    p = np.random.default_rng(1).uniform(0.3, 0.9, 40)
    w = weights.empirical_bayes(labels, p)
    fit = weights.count_distribution(labels, p)
    rows = np.repeat(np.diff(labels.indptr), np.diff(labels.indptr))
    np.testing.assert_allclose(w.pos.data, fit.share[rows] / p[labels.indices], rtol=1e-15)
    assert (w.pos.data > 0).all()


@settings(max_examples=30)
@given(
    rows=st.lists(st.integers(0, 60), min_size=1, max_size=40).map(lambda seen: [*seen, 1]),
    p=st.sampled_from([0.05, 0.3, 0.7, 0.99]),
)
def test_the_count_distribution_is_the_maximum_of_its_likelihood(rows, p):
    """Rises to the end, and satisfies the optimality conditions, in the oracle's own likelihood."""
    counts = np.repeat(np.arange(len(rows)), rows)
    labels = sp.csr_array(np.arange(len(rows))[None, :] < counts[:, None]).astype(np.float32)
    fit = weights.count_distribution(labels, np.full(len(rows), p))
    assert fit.converged
    assert all(later >= earlier for earlier, later in pairwise(fit.log_likelihood))
    assert fit.propensity == pytest.approx(p, rel=1e-12)
    assert fit.probability.sum() == pytest.approx(1, rel=1e-12)
    table = binomial_table(len(rows), fit.probability.size, p)
    if rows[0] == 0:  # as if empty rows were dropped: binomials given that they are not 0
        table[:, 1:] /= table[1:, 1:].sum(axis=0)
        assert fit.probability[0] == 0
    seen, mixed = np.array(rows) / sum(rows), table @ fit.probability
    gradient = (seen / np.where(seen > 0, mixed, 1)) @ table
    assert gradient.max() <= 1 + 2e-6
    mean_log = seen @ np.log(np.where(seen > 0, mixed, 1))
    assert fit.log_likelihood[-1] == pytest.approx(mean_log, rel=1e-9, abs=1e-9)


def binomial_table(m: int, n: int, p: float) -> np.ndarray:
    return np.array(
        [[float(mpmath.binomial(N, k) * p**k * (1 - p) ** (N - k)) for N in range(n)]
         for k in range(m)]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("p", "rows", "support", "probability"),
    [
        (0.5, [0, 200, 100], [1, 2, 3, 4], [0, 1, 0, 0]),
        (0.5, [0, 500, 100], [1, 2, 3, 4], [0.5, 0.5, 0, 0]),
        (1.0, [0, 300, 100], [1, 2], [0.75, 0.25]),
    ],
)
def test_rows_that_show_nothing_need_not_be_counted(p, rows, support, probability):
    """Of two true labels at p = 1/2, where any is seen, one is 2/3 of the time and both 1/3."""
    fit = formulas.mixture(np.array(rows), p, 9, without_empty=True)
    assert fit.support.tolist() == support
    np.testing.assert_allclose(fit.probability, probability, atol=2e-3)
    assert 0 <= fit.gap <= 1e-6


def every_mask(rows_by_count: dict[int, int], n_labels: int) -> tuple[sp.csr_array, np.ndarray]:
    """What rows with 1, 2 … true labels show under every mask at p = 1/2, once each; N* of each."""
    shown, true_counts = [], []
    for count, repeats in rows_by_count.items():
        for mask in product([0, 1], repeat=n_labels):
            row = [kept if label < count else 0 for label, kept in enumerate(mask)]
            shown += [row] * repeats
            true_counts += [count] * repeats
    return sp.csr_array(np.array(shown, dtype=np.float32)), np.array(true_counts)


@pytest.mark.parametrize("rows_by_count", [{1: 3, 3: 1}, {1: 4, 2: 2, 4: 1}, {2: 1}])
@pytest.mark.parametrize("dropped", [True, False])
def test_the_posterior_share_is_that_of_all_masks_with_or_without_empty_rows(
    rows_by_count, dropped
):
    """E[1/N* | m] of a population that is enumerated does not change when empty rows are dropped.

    π does: it is then the distribution of N* among the rows that are left.
    """
    labels, true_counts = every_mask(rows_by_count, 4)
    if dropped:
        kept = np.diff(labels.indptr) > 0
        labels, true_counts = labels[kept], true_counts[kept]
    fit = weights.count_distribution(labels, np.full(4, 0.5), tolerance=1e-9)
    assert fit.without_empty == dropped
    shown = np.diff(labels.indptr)
    for m in np.unique(shown):
        assert fit.share[m] == pytest.approx((1 / true_counts[shown == m]).mean(), abs=2e-4)
    expected = np.bincount(true_counts, minlength=5) / true_counts.size
    np.testing.assert_allclose(fit.probability, expected, atol=2e-4)


def test_weights_of_rows_with_labels_are_the_same_whether_empty_rows_were_dropped():
    labels, _ = every_mask({1: 3, 2: 2, 4: 1}, 4)
    p, kept = np.full(4, 0.5), np.diff(labels.indptr) > 0
    whole, rest = weights.empirical_bayes(labels, p), weights.empirical_bayes(labels[kept], p)
    np.testing.assert_allclose(rest.pos.data, whole.pos.data, rtol=5e-3)
    stated = weights.empirical_bayes(labels, p, without_empty=True)
    np.testing.assert_array_equal(stated.pos.data, rest.pos.data)
    unaware = weights.empirical_bayes(labels[kept], p, without_empty=False)
    alone = np.diff(unaware.pos.indptr)[unaware.pos.nonzero()[0]] == 1
    assert (unaware.pos.data[alone] < 0.6 * whole.pos.data[alone]).all()


def test_dropped_rows_are_allowed_for_where_propensities_differ():
    """E[1/N* | m = 1] of simulated rows: read as all rows they would seem twice as long."""
    rng = np.random.default_rng(5)
    p = 1 / np.linspace(1.5, 6, 30)
    true_labels = sp.csr_array(rng.random((20_000, 30)) < rng.gamma(1.5, 1.6, 20_000)[:, None] / 30)
    true_labels = sp.csr_array(true_labels[np.diff(true_labels.indptr) > 0], dtype=np.float32)
    observed = data.hide(true_labels, p, seed=6)
    shown, true_counts = np.diff(observed.indptr), np.diff(true_labels.indptr)
    truth = (1 / true_counts[shown == 1]).mean()
    kept = observed[shown > 0]
    assert weights.count_distribution(kept, p).share[1] == pytest.approx(truth, rel=0.1)
    unaware = weights.count_distribution(kept, p, without_empty=False)
    assert unaware.share[1] < 0.6 * truth


def test_rows_without_a_label_have_no_share():
    fit = weights.count_distribution(np.zeros((3, 4)), np.full(4, 0.5))
    assert fit.share.tolist() == [0.0]
    assert fit.probability.tolist() == [1.0]
    assert fit.propensity == 1.0


def test_more_labels_than_the_propensity_allows_still_fit():
    """A row with all 200 labels at p̄ near 0.01: its likelihood underflows at every count."""
    labels = sp.csr_array(np.vstack([np.ones((1, 200)), np.eye(200)]))
    fit = weights.count_distribution(labels, np.full(200, 0.01))
    assert np.isfinite(fit.log_likelihood).all()
    assert fit.share[200] == pytest.approx(1 / 200)


# Records and exports


def test_rows_can_be_taken_out():
    labels = random_labels(20, 10, 3)
    w = weights.bound(labels, np.full(10, 0.5))
    for rows in (3, slice(2, 9, 2), [4, 1, 1], np.arange(20) % 3 == 0, np.int64(-1)):
        part = w[rows]
        wanted = np.atleast_1d(np.arange(20)[rows])
        np.testing.assert_array_equal(oracles.dense(part.pos), oracles.dense(w.pos)[wanted])
        np.testing.assert_array_equal(oracles.dense(part.cut), oracles.dense(w.cut)[wanted])
    shared = weights.unbiased(labels, np.full(10, 0.5))[:3]
    assert shared.pos is shared.cut


LABELS, P = np.array([[1, 1, 0], [0, 1, 0], [1, 1, 1]]), np.array([0.5, 0.25, 0.8])


def test_pos_weight_is_what_torch_means_by_it():
    torch = pytest.importorskip("torch")
    w = weights.bound(LABELS, P)
    scores, target = (
        torch.randn(3, 3, dtype=torch.float64),
        torch.tensor(LABELS, dtype=torch.float64),
    )
    theirs = torch.nn.functional.binary_cross_entropy_with_logits(
        scores, target, pos_weight=torch.tensor(weights.to_pos_weight(w)), reduction="sum"
    )
    assert float(theirs) == pytest.approx(logistic_loss(w, scores.numpy()), rel=1e-12)


@pytest.mark.parametrize("normalized", [False, True])
def test_soft_targets_are_what_torch_means_by_them(normalized):
    torch = pytest.importorskip("torch")
    w = weights.unbiased(LABELS, P, normalized=normalized)
    scores = torch.randn(3, 3, dtype=torch.float64)
    target = torch.tensor(weights.to_soft_targets(w).toarray())
    theirs = torch.nn.functional.binary_cross_entropy_with_logits(scores, target, reduction="sum")
    assert float(theirs) == pytest.approx(logistic_loss(w, scores.numpy()), rel=1e-12)


@pytest.mark.parametrize("w", [weights.bound(LABELS, P), weights.vanilla(LABELS, normalized=True)])
def test_samples_make_up_the_loss_of_a_label(w):
    scores = np.random.default_rng(0).normal(size=3)
    for label in range(3):
        samples = weights.to_samples(w, label)
        signs = np.where(samples.targets == 1, -1, 1)
        theirs = samples.weights @ np.logaddexp(0, signs * scores[samples.rows])
        column = [label]
        one = weights.Weights(w.pos[:, column], w.cut[:, column])
        assert theirs == pytest.approx(logistic_loss(one, scores[:, None]), rel=1e-12)
        assert (samples.weights > 0).all()


def logistic_loss(w: weights.Weights, scores: np.ndarray) -> float:
    plus, minus = np.logaddexp(0, -scores), np.logaddexp(0, scores)
    pos, cut = oracles.dense(w.pos), oracles.dense(w.cut)
    return float((minus + pos * plus - cut * minus).sum())


def test_relevance_is_a_float32_matrix_of_the_old_kind():
    relevance = weights.to_relevance(weights.bound(LABELS, P))
    assert sp.isspmatrix(relevance)
    assert relevance.dtype == np.float32
    np.testing.assert_array_equal(relevance.toarray(), (LABELS * (2 / P - 1)).astype(np.float32))


def test_exports_refuse_what_they_cannot_say():
    for export, w, message in [
        (weights.to_pos_weight, weights.unbiased(LABELS, P), "pos 2 in row 0, label 0.*soft_targ"),
        (
            weights.to_pos_weight,
            weights.bound([[1], [1]], sp.csr_array([[0.5], [0.25]])),
            "one weight per label; got pos 3 in row 0, label 0.*to_samples",
        ),
        (weights.to_soft_targets, weights.bound(LABELS, P), "pos = cut.*row 0, label 0.*pos_weig"),
        (
            weights.to_relevance,
            weights.unbiased(LABELS, P, normalized=True),
            r"positive relevances; got pos -2 in row 0, label 0.*`bound`",
        ),
        (
            lambda w: weights.to_samples(w, 1),
            weights.unbiased(LABELS, P),
            "must not be negative; got -3 in row 0, label 1.*`bound`",
        ),
        (lambda w: weights.to_samples(w, 3), weights.vanilla(LABELS), r"in 0 … 2; got 3"),
    ]:
        with pytest.raises(ValueError, match=message):
            export(w)


def random_labels(n: int, n_labels: int, mean: float) -> sp.csr_array:
    random = np.random.default_rng(n)
    return sp.csr_array((random.random((n, n_labels)) < mean / n_labels).astype(np.float32))


def entry_propensity(labels: sp.csr_array, p: np.ndarray) -> sp.csr_array:
    return sp.csr_array((p[labels.indices], labels.indices, labels.indptr), shape=labels.shape)


def assert_same(left: weights.Weights, right: weights.Weights) -> None:
    for ours, theirs in ((left.pos, right.pos), (left.cut, right.cut)):
        np.testing.assert_array_equal(ours.indptr, theirs.indptr)
        np.testing.assert_array_equal(ours.indices, theirs.indices)
        np.testing.assert_array_equal(ours.data, theirs.data)


def test_relevances_are_positive_and_within_single_precision():
    def given(value):
        pos = sp.csr_array(np.array([[1.0]]))
        pos.data[:] = value
        return weights.Weights(pos, pos)

    largest = float(np.finfo(np.float32).max)
    for value in (1e-30, 0.25, largest):
        assert weights.to_relevance(given(value)).data[0] == np.float32(value)
    for value in (0.0, -1.0, 1.001 * largest):
        with pytest.raises(ValueError, match="PECOS needs"):
            weights.to_relevance(given(value))


def test_rows_of_weights_that_were_damaged_in_place() -> None:
    for array, change, message in [
        ("data", lambda data: np.append(data, 1.0), "store"),
        ("data", lambda data: data[None], "one row"),
        ("indices", lambda indices: indices.astype(np.float64), "whole numbers"),
        ("indices", lambda indices: indices[None], "one row"),
        ("indptr", lambda starts: starts.astype(np.float64), "whole numbers"),
        ("indptr", lambda starts: starts[:-1], "need 4 row starts"),
        ("indptr", lambda starts: starts + 1, "begin at 0"),
    ]:
        for field in ["pos", "cut"]:
            labels = sp.csr_array(np.array([[1, 0], [0, 1], [1, 1]], np.float32))
            w = weights.bound(labels, [0.5, 0.25])
            if field == "cut":
                w = weights.Weights(w.pos, w.pos.copy())
            matrix = getattr(w, field)
            setattr(matrix, array, change(getattr(matrix, array)))
            with pytest.raises(ValueError, match=message):
                w[:]


def test_rows_of_weights_whose_type_was_changed_in_place() -> None:
    w = weights.bound(sp.csr_array(np.eye(2, dtype=np.float32)), [0.5, 0.25])
    w.pos.data = w.pos.data.astype(np.float16)
    np.testing.assert_array_equal(w[1].pos.toarray(), [[0, 7]])


def test_a_maximum_on_the_border_is_reached_as_far_as_the_tolerance_says() -> None:
    """Shares 2/3 and 1/3 of one and two labels, p = 1/2, are exactly N* = 2, given a label.

    With a share ε of rows with one label the gradient of N* = 2 is 4 / (6 + 3ε) + 1 / (3 − 3ε),
    1 + ε²/2 + …; what it exceeds 1 by is the gap that is compared with the tolerance.
    """
    labels = [[1, 1]] * 25 + [[1, 0]] * 25 + [[0, 1]] * 25
    for tolerance in (1e-3, 1e-6, 1e-9):
        fit = weights.count_distribution(labels, [0.5, 0.5], tolerance=tolerance)
        share = fit.probability[1]
        gradient = 4 / (6 + 3 * share) + 1 / (3 - 3 * share)
        assert fit.gap == pytest.approx(gradient - 1, rel=1e-6, abs=1e-15)
        assert share <= np.sqrt(2 * tolerance)
        assert fit.converged
