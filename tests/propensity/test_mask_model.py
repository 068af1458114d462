"""Mask models: what they hide is their law, and an audit finds their numbers again."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.integrate import quad
from scipy.stats import norm

from tests.helpers.oracles import subsets
from tests.helpers.propensities import estimated
from unmask import data, propensity
from unmask.propensity import MaskModel, source_of
from unmask.propensity.mask_model import (
    Propensities,
    ScoreSlope,
    _log_likelihood,
    _shares,
    estimate_effort,
    refuse_for_weights,
)

P = np.array([0.6, 0.3, 0.45, 0.2])
TRUE = sp.csr_array(np.ones((40_000, 4), dtype=np.float32))


def test_a_plain_model_hides_what_its_propensities_hide() -> None:
    truth = data.synthetic.independent(200, 7, seed=0)
    p = propensity.constant(7, 0.4)
    plain, modelled = (data.hide(truth, mask, seed=3) for mask in (p, MaskModel(p)))
    np.testing.assert_array_equal(plain.toarray(), modelled.toarray())


@pytest.mark.parametrize(("effort", "share"), [(0.5, 0.0), (0.8, 0.0), (0.0, 0.2), (0.5, 0.2)])
def test_propensities_stay_the_shares_over_all_rows(effort: float, share: float) -> None:
    mask = MaskModel(P, effort, share)
    observed = data.hide(TRUE, mask, seed=0).toarray()
    error = np.sqrt(P * (1 - P) / len(observed))
    assert (np.abs(observed.mean(axis=0) - P) < 5 * error).all()


def test_two_labels_of_a_row_share_its_effort() -> None:
    """P(both kept) = ∫ p₁(e) p₂(e) φ(e) de, by quadrature; 1 − π₀ of the rows are annotated."""
    rho, share = 0.5, 0.2
    observed = data.hide(TRUE, MaskModel(P, rho, share), seed=1).toarray()

    def chance(p: float, e: float) -> float:
        return float(norm.cdf((norm.ppf(p / (1 - share)) - np.sqrt(rho) * e) / np.sqrt(1 - rho)))

    both, _ = quad(lambda e: chance(P[0], e) * chance(P[1], e) * norm.pdf(e), -8, 8)
    both *= 1 - share
    measured = float((observed[:, 0] * observed[:, 1]).mean())
    assert abs(measured - both) < 5 * np.sqrt(both * (1 - both) / len(observed))
    assert both > 1.3 * P[0] * P[1]


def test_rows_that_nobody_annotated_show_nothing() -> None:
    observed = data.hide(TRUE, MaskModel(np.full(4, 0.7), unannotated=0.3), seed=2)
    silent = (np.diff(observed.indptr) == 0).mean()
    expected = 0.3 + 0.7 * (1 - 0.7 / 0.7) ** 4
    assert silent == pytest.approx(expected, abs=0.012)


def test_wrong_labels_are_a_share_of_the_observed_ones_and_never_true() -> None:
    truth = data.synthetic.independent(5_000, 12, seed=1)
    observed = data.hide(truth, MaskModel(np.full(12, 0.5), spurious=0.1), seed=0)
    wrong = observed.nnz - observed.multiply(truth).nnz
    assert wrong / observed.nnz == pytest.approx(0.1, abs=0.012)
    assert set(np.unique(observed.data)) == {1.0}


@pytest.mark.parametrize(("rho", "share"), [(0.0, 0.0), (0.4, 0.0), (0.4, 0.25), (0.0, 0.25)])
def test_the_likelihood_is_a_law_over_all_masks(rho: float, share: float) -> None:
    """Summed over what may be kept of a row it is 1, and each is the integral over its effort."""
    p = P[:3]
    total = 0.0
    for chosen in subsets(range(3)):
        kept = np.zeros((1, 3))
        kept[0, list(chosen)] = 1
        lost = sp.csr_array(1 - kept)
        silent = np.array([not chosen])
        value = np.exp(_log_likelihood(sp.csr_array(kept), lost, silent, p, rho, share))
        inside = np.minimum(p / (1 - share), 1)

        def density(e: float, kept: np.ndarray = kept[0], inside: np.ndarray = inside) -> float:
            chance = norm.cdf((norm.ppf(inside) - np.sqrt(rho) * e) / np.sqrt(1 - rho))
            return float(np.prod(np.where(kept == 1, chance, 1 - chance)) * norm.pdf(e))

        exact = share * (not chosen) + (1 - share) * quad(density, -9, 9)[0]
        assert value == pytest.approx(exact, abs=2e-6)
        total += value
    assert total == pytest.approx(1, abs=1e-9)


def audited(mask: MaskModel, seed: int, rows: int = 300) -> MaskModel:
    truth = data.synthetic.independent(rows, 30, seed=100 + seed)
    return propensity.audit(data.hide(truth, mask, seed=seed), truth, mask="effort", curve="free")


@pytest.mark.slow
@pytest.mark.parametrize(("rho", "share"), [(0.5, 0.0), (0.8, 0.0), (0.0, 0.2)])
def test_an_audit_finds_effort_and_unannotated_rows(rho: float, share: float) -> None:
    models = [audited(MaskModel(np.full(30, 0.4), rho, share), seed) for seed in range(4)]
    assert np.mean([model.row_effort for model in models]) == pytest.approx(rho, abs=0.1)
    assert np.mean([model.unannotated for model in models]) == pytest.approx(share, abs=0.06)


def test_independent_masks_give_exactly_none() -> None:
    models = [audited(MaskModel(np.full(30, 0.4)), seed) for seed in range(6)]
    assert sum(model.row_effort > 0 or model.unannotated > 0 for model in models) <= 1


def test_draws_spread_over_what_the_audit_allows() -> None:
    model = audited(MaskModel(np.full(30, 0.4), 0.5), 0, rows=100)
    drawn = model.draw(seed=0, size=200)
    efforts = np.array([each.row_effort for each in drawn])
    assert all(each.certain for each in drawn)
    assert not model.certain
    assert np.mean(efforts) == pytest.approx(model.row_effort, abs=0.05)
    assert 0.02 < np.std(efforts) < 0.25
    assert np.std([np.asarray(each)[0] for each in drawn]) > 0
    again = model.draw(seed=0, size=200)
    np.testing.assert_array_equal(efforts, [each.row_effort for each in again])


def test_rows_without_true_labels_say_nothing() -> None:
    truth = sp.csr_array(np.repeat([[1.0, 1.0], [0.0, 0.0]], 30, axis=0))
    kept = sp.csr_array(np.repeat([[1.0, 0.0], [0.0, 0.0]], 30, axis=0))
    with_empty = estimate_effort(kept, truth, np.array([0.9, 0.1]))
    without = estimate_effort(
        sp.csr_array(kept[:30]), sp.csr_array(truth[:30]), np.array([0.9, 0.1])
    )
    np.testing.assert_allclose(with_empty.probability, without.probability)


def test_unknown_masks_and_other_widths_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown mask 'lazy'; use one of: effort, independent"):
        propensity.audit([[1]], [[1]], mask="lazy")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="label"):
        data.hide([[1, 0]], MaskModel([0.5]), seed=0)


SLOPE = ScoreSlope(1.5, -0.2, np.array([0.3, 0.0, -0.1]), 0.5, 0.25, np.diag([0.04, 0.01]))


@pytest.mark.parametrize("name", ["row_effort", "unannotated"])
def test_parts_lie_between_none_and_nine_tenths(name: str) -> None:
    assert getattr(MaskModel([0.05], **{name: 0.9}), name) == 0.9
    assert MaskModel([0.05], spurious=0.5).spurious == 0.5
    with pytest.raises(ValueError, match=name):
        MaskModel([0.05], **{name: 0.91})


def test_rates_of_wrong_labels_by_hand() -> None:
    """φ n_j in the rows without label j, of which there is 1 at least; half of p_j at most."""
    counts = np.array([2, 6, 0, 9])
    labels = sp.csr_array((np.arange(10)[:, None] < counts).astype(np.float32))
    mask = MaskModel([0.5, 0.8, 0.4, 0.9], spurious=0.2)
    expected = [0.4 / (10 - 1.6 / 0.5), 1.2 / (10 - 4.8 / 0.8), 0, 0.45]
    np.testing.assert_allclose(mask.false_rate(labels), expected, rtol=1e-12)
    crowded = MaskModel([0.3, 0.3, 0.3, 0.3], spurious=0.05).false_rate(labels)
    np.testing.assert_allclose(crowded[1], 0.15)  # 6 · 0.05 in 1 row is more than half of p
    assert not MaskModel(P).false_rate(labels).any()


def test_certain_parts_and_draws_of_uncertain_ones() -> None:
    class Effort:
        def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
            return np.array([[0.2, 0.1], [-0.3, 0.95]])[:size]

    plain = MaskModel(P, 0.3, 0.1, 0.05)
    sloped = MaskModel([0.5, 0.4, 0.3], spurious=0.05, score_slope=SLOPE)
    doubted = MaskModel(P, 0.3, 0.1, 0.05, uncertainty=Effort())
    assert [each.certain for each in (plain, sloped, doubted)] == [True, False, False]
    assert all(each.centre.certain for each in (plain, sloped, doubted))
    drawn = doubted.draw(seed=0, size=2)
    assert [(each.row_effort, each.unannotated) for each in drawn] == [(0.2, 0.1), (0.0, 0.9)]
    np.testing.assert_allclose(drawn[1].value, np.minimum(P, 0.1))
    assert all(each.certain and each.spurious == 0.05 for each in drawn)
    same = plain.draw(seed=0, size=3)
    assert [(each.row_effort, each.unannotated, len(each)) for each in same] == [(0.3, 0.1, 4)] * 3
    slopes = [each.score_slope for each in sloped.draw(seed=5, size=400)]
    numbers = np.array([[each.slope, each.shift] for each in slopes if each is not None])
    np.testing.assert_allclose(numbers.mean(axis=0), [1.5, -0.2], atol=0.05)
    np.testing.assert_allclose(numbers.std(axis=0), [0.2, 0.1], rtol=0.15)
    centre = sloped.centre
    assert centre.score_slope is not None
    assert (centre.score_slope.slope, centre.score_slope.covariance) == (1.5, None)
    assert (centre.spurious, plain.centre.row_effort, plain.centre.unannotated) == (0.05, 0.3, 0.1)


def test_a_slope_moves_the_logit_of_an_entry() -> None:
    """logit p + δ + u_j + β (s − centre)/scale; without a slope p_j."""
    labels = sp.csr_array(np.array([[0.0, 1, 1], [1, 0, 0]]))
    scores = np.array([[0.1, 0.75, 0.5], [0.25, 0.2, 0.9]])
    p = np.array([0.5, 0.4, 0.3])
    made = MaskModel(p, score_slope=SLOPE).of_entries(labels, scores).toarray()
    logits = {(0, 1): np.log(0.4 / 0.6) - 0.2 + 0.0 + 1.5, (0, 2): np.log(0.3 / 0.7) - 0.2 - 0.1,
              (1, 0): 0.0 - 0.2 + 0.3 - 1.5}  # fmt: skip
    for (row, label), logit in logits.items():
        assert made[row, label] == pytest.approx(1 / (1 + np.exp(-logit)), rel=1e-9)
    assert np.count_nonzero(made) == 3
    plain = MaskModel(p).of_entries(labels, scores).toarray()
    np.testing.assert_allclose(plain, [[0, 0.4, 0.3], [0.5, 0, 0]])
    assert SLOPE.interval == pytest.approx((1.5 - 1.96 * 0.2, 1.5 + 1.96 * 0.2))
    assert ScoreSlope(1.5, 0.0, P).interval == (1.5, 1.5)


class Numbers:
    """Stands for a generator: numbers of entries, effort of rows, annotation, wrong labels."""

    def __init__(self, uniform: list[list[float]], effort: list[float], poisson: list[int]) -> None:
        self.uniform, self.effort, self.counts = uniform, effort, poisson
        self.means: np.ndarray | None = None

    def random(self, size: int) -> np.ndarray:
        assert size == len(self.uniform[0])
        return np.array(self.uniform.pop(0))

    def standard_normal(self, size: int) -> np.ndarray:
        assert size == len(self.effort)
        return np.array(self.effort)

    def poisson(self, means: np.ndarray) -> np.ndarray:
        self.means = means
        return np.array(self.counts)

    def choice(self, values: np.ndarray, size: int, replace: bool) -> np.ndarray:
        assert not replace
        return values[:size]


def test_what_is_kept_and_added_by_given_numbers() -> None:
    """An entry is kept below its chance, and not at it; rows without the label get wrong ones."""
    true = sp.csr_array(np.array([[1.0, 1, 0], [0, 1, 1], [1, 0, 0]], dtype=np.float32))
    rng = Numbers([[0.4, 0.7, 0.69, 0.2, 0.5]], [], [2, 9, 0])
    observed = MaskModel([0.5, 0.7, 0.2], spurious=0.25).observe(true, rng)  # type: ignore[arg-type]
    kept, wrong = [[1, 0, 0], [0, 1, 0], [0, 0, 0]], [[0, 0, 0], [1, 0, 0], [0, 1, 0]]
    np.testing.assert_array_equal(observed.toarray(), np.add(kept, wrong))
    assert observed.dtype == np.float32
    assert rng.means is not None
    np.testing.assert_allclose(rng.means, [1 / 3, 1 / 3, 0])


def test_rows_are_annotated_above_their_share_and_show_by_effort() -> None:
    true = sp.csr_array(np.array([[1.0, 1], [0, 1], [1, 0]], dtype=np.float32))
    p = np.array([0.4, 0.6])
    chance = norm.cdf((norm.ppf(p / 0.8) - np.sqrt(0.5) * 1.2) / np.sqrt(0.5))
    low = [chance[0] - 1e-6, chance[1] + 1e-6, 0.0, chance[0] - 1e-6]
    rng = Numbers([low, [0.9, 0.19, 0.2]], [1.2, 1.2, 1.2], [])
    observed = MaskModel(p, 0.5, 0.2).observe(true, rng)  # type: ignore[arg-type]
    np.testing.assert_array_equal(observed.toarray(), [[1, 0], [0, 0], [1, 0]])


def test_weights_refuse_what_they_cannot_mean() -> None:
    sloped = MaskModel([0.5, 0.4, 0.3], score_slope=SLOPE)
    for propensities in (None, P, MaskModel(P), MaskModel(P, spurious=0.1)):
        for normalized in (True, False):
            refuse_for_weights(propensities, normalized=normalized)
    for rowwise in (MaskModel(P, 0.5), MaskModel(P, unannotated=0.1)):
        refuse_for_weights(rowwise, normalized=False)
        with pytest.raises(ValueError, match="normalised weights take the labels"):
            refuse_for_weights(rowwise, normalized=True)
    for normalized in (True, False):
        with pytest.raises(ValueError, match="depends on the model's scores"):
            refuse_for_weights(sloped, normalized=normalized)


def test_models_say_their_parts() -> None:
    sloped = MaskModel([0.5, 0.4, 0.3], spurious=0.05, score_slope=SLOPE)
    assert repr(sloped) == "MaskModel(3 labels, 0.300 to 0.500, spurious=0.05, score_slope=1.5)"
    assert repr(MaskModel([])) == "MaskModel(0 labels, none)"
    assert sloped.source.score_slope == 1.5
    changes = MaskModel(P, 0.3, 0.1).source.changes
    assert changes == (("row_effort", 0.3), ("unannotated", 0.1))


@pytest.mark.parametrize(("silent", "rows"), [(3, 10), (1, 4), (9, 10)])
def test_shares_of_unannotated_rows_are_tried_up_to_three_errors_above(
    silent: int, rows: int
) -> None:
    shares = _shares(np.arange(rows) < silent)
    share = silent / rows
    most = share + 3 * np.sqrt((share * (1 - share) + 0.25 / rows) / rows)
    assert (shares[0], shares[-1]) == pytest.approx((0.0, min(most, 0.9)))
    np.testing.assert_allclose(np.diff(shares), shares[-1] / (shares.size - 1))
    for nothing in (np.zeros(rows, bool), np.zeros(0, bool)):
        assert _shares(nothing).tolist() == [0.0]


def test_effort_and_slope_are_drawn_from_numbers_of_their_own() -> None:
    class Effort:
        first = 0.0

        def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
            self.first = float(rng.standard_normal())
            return np.zeros((size, 2))

    effort = Effort()
    plain = ScoreSlope(0.0, 0.0, np.zeros(3), covariance=np.eye(2))
    (drawn,) = MaskModel([0.5] * 3, uncertainty=effort, score_slope=plain).draw(seed=7, size=1)
    assert drawn.score_slope is not None
    numbers = {abs(drawn.score_slope.slope), abs(drawn.score_slope.shift)}
    assert all(abs(abs(effort.first) - number) > 1e-6 for number in numbers)


def test_estimates_and_mask_models_have_one_protocol() -> None:
    """Value, source, certain, centre, draw; and `MaskModel.of` takes propensities of any form."""
    estimate = estimated()
    plain, doubtful = MaskModel(P), MaskModel(estimate, 0.3)
    for propensities, certain in ((estimate, False), (plain, True), (doubtful, False)):
        shared: Propensities = propensities
        assert shared.certain is certain
        np.testing.assert_array_equal(np.asarray(shared.centre), shared.value)
        assert MaskModel.of(shared.centre).certain
        assert shared.source == source_of(propensities)
        drawn = np.array([np.asarray(each) for each in shared.draw(seed=1, size=3)])
        assert (np.ptp(drawn, axis=0) == 0).all() == certain
    assert MaskModel.of(doubtful) is doubtful
    np.testing.assert_array_equal(MaskModel.of(estimate).highest, estimate.high)
    np.testing.assert_array_equal(MaskModel.of(P.tolist()).highest, P)
    np.testing.assert_array_equal(MaskModel([0.9], unannotated=0.25).highest, [0.75])
