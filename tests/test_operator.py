"""The propensity-scoring operator against term-by-term sums and exact expectations over masks."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import oracles, strategies
from unmask import operator, weights


def table_function(n_labels: int, seed: int):
    """An arbitrary function: a random number for every label set."""
    values = np.random.default_rng(seed).normal(size=1 << n_labels)
    bits = 1 << np.arange(n_labels)
    return lambda sets, row: values[(sets @ bits).astype(int)]


def indicator(labels: tuple[int, ...], n_labels: int) -> np.ndarray:
    return np.isin(np.arange(n_labels), labels).astype(float)[None, :]


@settings(max_examples=40)
@given(case=strategies.label_sets(max_labels=7), seed=st.integers(0, 2**32 - 1))
def test_any_function_is_the_sum_over_subsets(case, seed):
    observed, p = case
    f = table_function(p.size, seed)
    ours = operator.unbiased(f, indicator(tuple(observed), p.size), p)
    theirs = oracles.operator(lambda kept: f(indicator(kept, p.size), 0)[0], observed, p.tolist())
    assert ours.exact.all()
    assert abs(ours.value[0] - theirs) <= 8 * ours.rounding[0] + 1e-15
    assert ours.standard_error.tolist() == [0.0]


@settings(max_examples=25)
@given(case=strategies.label_sets(max_labels=6), seed=st.integers(0, 2**32 - 1))
def test_its_mean_over_all_masks_is_the_function_of_the_truth(case, seed):
    truth, p = case
    f = table_function(p.size, seed)
    mean = oracles.expectation_over_masks(
        lambda seen: operator.unbiased(f, indicator(seen, p.size), p).value[0], truth, p
    )
    size = float(np.prod(2 / p[truth] - 1)) + 1
    expected = f(indicator(tuple(truth), p.size), 0)[0]
    assert mean == pytest.approx(expected, rel=1e-10, abs=1e-14 * size)


@settings(max_examples=15)
@given(labels=strategies.label_matrices(max_labels=7), seed=st.integers(0, 2**32 - 1))
def test_the_share_of_a_label_gives_the_exact_normalised_weights(labels, seed):
    """Functions may return arrays; T is the operator's value for y / |y|."""
    p = np.random.default_rng(seed).uniform(0.2, 1, labels.shape[1])
    ours = operator.unbiased(
        lambda sets, row: sets / np.maximum(sets.sum(axis=1, keepdims=True), 1), labels, p
    )
    quick = oracles.dense(weights.unbiased(labels, p, normalized=True).pos)
    np.testing.assert_allclose(
        ours.value.reshape(quick.shape), quick, rtol=1e-9, atol=1e-10 * np.abs(quick).max(initial=1)
    )


def test_an_empty_row_gives_the_value_of_the_empty_set():
    result = operator.unbiased(lambda sets, row: sets.sum(axis=1) + 7, np.zeros((2, 3)), [0.5] * 3)
    assert result.value.tolist() == [7.0, 7.0]
    assert (
        operator.unbiased(lambda sets, row: sets[:, 0], np.zeros((0, 3)), [0.5] * 3).value.size == 0
    )


def test_with_every_propensity_one_the_function_is_called_on_the_labels_only():
    seen = []
    labels = (np.random.default_rng(0).random((3, 40)) < 0.8).astype(float)
    result = operator.unbiased(
        lambda sets, row: seen.append(sets) or np.full(len(sets), 0.1 * row), labels, np.ones(40)
    )
    np.testing.assert_array_equal(np.vstack(seen), labels)
    assert result.value.tolist() == [0.0, 0.1, 0.2]
    assert result.exact.all()
    assert result.rounding.tolist() == [0.0, 0.0, 0.0]


def test_batches_do_not_change_the_value(monkeypatch):
    labels, p = np.ones((1, 9)), np.linspace(0.3, 0.9, 9)
    f = table_function(9, 1)
    whole = operator.unbiased(f, labels, p).value
    monkeypatch.setattr(operator, "BATCH", 9 * 7)
    np.testing.assert_allclose(operator.unbiased(f, labels, p).value, whole, rtol=1e-9)


def test_every_subset_is_handed_over_once_in_batches_of_at_most_sixteen_megabytes():
    labels = (np.arange(2500) < 11).astype(float)[None, :]
    sizes, codes = [], []

    def f(sets, row):
        sizes.append(sets.nbytes)
        codes.extend(sets[:, :11] @ 2.0 ** np.arange(11))
        return sets[:, 0]

    operator.unbiased(f, labels, [0.5] * 2500)
    assert all(0 < size <= 2**24 for size in sizes)
    assert len(sizes) == 3  # as few as that allows
    assert sorted(codes) == list(range(2**11))


def test_a_set_larger_than_a_batch_comes_alone(monkeypatch):
    monkeypatch.setattr(operator, "BATCH", 1)
    sizes = []
    operator.unbiased(
        lambda sets, row: sizes.append(len(sets)) or sets[:, 0], np.ones((1, 3)), [0.5] * 3
    )
    assert sizes == [1] * 8


def test_the_rounding_bound_is_that_of_a_sum_of_products():
    """A term is a product of m factors and a value of f: (m + 1) roundings of its size."""
    f = table_function(2, 5)
    result = operator.unbiased(f, [[1, 1]], [0.25, 0.5])
    sizes = {(): 3 * 1, (0,): 4 * 1, (1,): 3 * 2, (0, 1): 4 * 2}
    size = sum(w * abs(f(indicator(kept, 2), 0)[0]) for kept, w in sizes.items())
    assert result.rounding[0] == pytest.approx(3 * 2**-52 * size, rel=1e-12, abs=0)


def test_enumeration_ends_where_it_is_told_to():
    labels, p = np.array([[1, 1, 1, 1], [1, 1, 1, 0]]), [0.5, 0.5, 0.5, 0.5]
    result = operator.unbiased(lambda sets, row: sets.sum(axis=1), labels, p, exact_up_to=3)
    assert result.exact.tolist() == [False, True]


def test_without_options_the_documented_ones_hold():
    labels, p = np.ones((1, 6)), np.full(6, 0.9)
    f = table_function(6, 2)
    plain = operator.unbiased(f, labels, p, exact_up_to=3)
    told = operator.unbiased(f, labels, p, exact_up_to=3, samples=100, seed=0)
    assert (plain.value[0], plain.standard_error[0]) == (told.value[0], told.standard_error[0])


def test_propensities_may_belong_to_entries():
    labels, p = np.array([[1, 1], [1, 0]]), sp.csr_array([[0.5, 0.25], [0.1, 0]])
    ours = operator.unbiased(lambda sets, row: sets @ [1.0, 10.0], labels, p).value
    np.testing.assert_allclose(ours, [2 + 40, 10], rtol=1e-14)


# Subsampling


class Chosen:
    """Stands in for a random generator: keeps exactly the labels it was told to."""

    def __init__(self, kept: tuple[bool, ...]) -> None:
        self.kept = kept

    def random(self, size: int) -> np.ndarray:
        return np.where(self.kept[:size], 0.0, 0.999)


def test_the_mean_over_all_droppings_is_the_exact_value():
    """One round of thinning, every outcome once: dropping with one half, halved propensities."""
    p = np.array([0.3, 0.6, 1.0, 0.9, 0.45])
    f = table_function(5, 3)
    whole = operator._Row(f, 0, 5, np.arange(5), 1 / p)
    outcomes = []
    for kept in product([False, True], repeat=5):
        thinned = operator._thin(whole, 3, Chosen(kept)) if sum(kept) - kept[2] < 4 else None
        if thinned is None:  # all four uncertain labels kept: the real one would go on thinning
            halved = np.where(p < 1, 2 / p, 1.0)
            thinned = operator._Row(f, 0, 5, np.arange(5), halved)
        outcomes.append(operator._enumerate(thinned)[0])
    exact = operator.unbiased(f, np.ones((1, 5)), p)
    assert np.mean(outcomes) == pytest.approx(exact.value[0], rel=1e-11)


def test_subsampling_is_seeded_and_says_how_far_off_it_may_be():
    labels, p = np.ones((2, 12)), np.full(12, 0.9)
    f = lambda sets, row: sets.sum(axis=1) ** 2  # noqa: E731
    exact = operator.unbiased(f, labels, p)
    rough = operator.unbiased(f, labels, p, exact_up_to=8, samples=200, seed=4)
    again = operator.unbiased(f, labels[:1], p, exact_up_to=8, samples=200, seed=4)
    other = operator.unbiased(f, labels, p, exact_up_to=8, samples=200, seed=5)
    assert exact.exact.all()
    assert not rough.exact.any()
    assert rough.value[0] == again.value[0] != rough.value[1]
    assert rough.value[0] != other.value[0]
    assert (rough.standard_error > 0).all()
    assert (np.abs(rough.value - exact.value) < 4 * rough.standard_error).all()


def test_thinning_goes_on_until_few_enough_are_left_and_spares_the_certain():
    p = np.r_[np.full(60, 0.5), np.ones(5)]
    row = operator._Row(lambda sets, row: sets[:, 0], 0, 65, np.arange(65), 1 / p)
    thinned = operator._thin(row, 6, np.random.default_rng(0))
    uncertain = thinned.inverse > 1
    assert uncertain.sum() <= 6
    assert thinned.columns[~uncertain].tolist() == [60, 61, 62, 63, 64]
    rounds = np.log2(thinned.inverse[uncertain] / 2)
    assert (rounds == rounds[0]).all()
    assert rounds[0] >= 3


@settings(max_examples=40)
@given(p=strategies.propensities, seed=st.integers(0, 2**32 - 1))
def test_of_one_label_it_is_unbiased_and_has_the_stated_variance(p, seed):
    one, zero = np.random.default_rng(seed).normal(size=2)
    values = operator.unbiased(lambda y, _: np.where(y[:, 0] == 1, one, zero), [[1], [0]], [p])
    seen, unseen = values.value
    assert seen == pytest.approx((one + (p - 1) * zero) / p, rel=1e-12, abs=1e-12)
    assert p * seen + (1 - p) * unseen == pytest.approx(one, rel=1e-12, abs=1e-12)
    variance = p * seen**2 + (1 - p) * unseen**2 - one**2
    assert variance == pytest.approx(p * (1 - p) * (one - zero) ** 2 / p**2, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: operator.unbiased(lambda sets, row: 1.0, [[1, 1]], [0.5, 0.5]),
            r"one value per label set; got shape \(\) for 4 sets in row 0",
        ),
        (
            lambda: operator.unbiased(lambda sets, row: sets[:, 0], [[1]], [0.5], samples=1),
            "samples at least 2; got 20, 1",
        ),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_smallest_sample_is_two_and_its_error_is_half_the_distance() -> None:
    """Of two values, sd/√2 with n − 1 is half their distance."""
    row, p = [[1] * 6], np.full(6, 0.5)

    def size(sets: np.ndarray, row: int) -> np.ndarray:
        return sets.sum(axis=1) ** 2

    drawn = [operator._Row(size, 0, 6, np.arange(6), np.full(6, 2.0))] * 2
    random = np.random.default_rng([0, 0])
    values = [operator._enumerate(operator._thin(each, 1, random))[0] for each in drawn]
    assert values[0] != values[1]
    found = operator.unbiased(size, row, p, exact_up_to=1, samples=2, seed=0)
    assert found.value[0] == pytest.approx(np.mean(values), rel=1e-12)
    assert found.standard_error[0] == pytest.approx(abs(values[0] - values[1]) / 2, rel=1e-12)


@pytest.mark.parametrize("given", [{"exact_up_to": 0}, {"samples": 1}])
def test_less_than_that_is_refused(given: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least 1 and samples at least 2"):
        operator.unbiased(lambda sets, row: sets.sum(axis=1), [[1, 1]], [0.5, 0.5], **given)


def test_sets_come_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def size(sets: np.ndarray, row: int) -> np.ndarray:
        seen.append(len(sets))
        return sets.sum(axis=1)

    monkeypatch.setattr(operator, "BATCH", 24)
    found = operator.unbiased(size, [[1] * 5 + [0]], np.full(6, 0.5))
    assert found.value[0] == pytest.approx(10)
    assert max(seen) == 4  # 24 numbers of 6 labels
