"""Mask models: what they hide is their law, and an audit finds their numbers again."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.integrate import quad
from scipy.stats import norm

from tests.helpers.oracles import subsets
from unmask import data, propensity
from unmask.propensity import MaskModel
from unmask.propensity.effort_estimate import _log_likelihood, estimate_effort

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


def test_no_propensity_exceeds_the_share_of_annotated_rows() -> None:
    mask = MaskModel([0.9, 0.5], unannotated=0.25)
    np.testing.assert_array_equal(np.asarray(mask), [0.75, 0.5])


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"row_effort": 0.95}, "row_effort must lie in .* 0.9.* got 0.95"),
        ({"unannotated": -0.1}, "unannotated must lie"),
        ({"spurious": 0.6}, "spurious must lie"),
    ],
)
def test_numbers_out_of_range_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MaskModel([0.5], **options)


def test_unknown_masks_and_other_widths_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown mask 'lazy'; use one of: effort, independent"):
        propensity.audit([[1]], [[1]], mask="lazy")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="label"):
        data.hide([[1, 0]], MaskModel([0.5]), seed=0)
