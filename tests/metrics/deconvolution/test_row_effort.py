"""Row effort: the law of masks that labels of a row share, by enumeration, and fits under it."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tests.helpers.count_tables import POPULATION, Row, tabulated, true_values
from tests.helpers.oracles import subsets
from unmask.metrics import thinning
from unmask.metrics.deconvolution import METRICS, Counts, fit, under_effort
from unmask.propensity import mask_model
from unmask.propensity.mask_model import RowEffort

TWO_KINDS = RowEffort(0.4, (-1.0, 1.0), (0.5, 0.5))
"""Diligent and careless rows; at p = 1/2 the mean of p(e) is 1/2 by symmetry."""


def law(p: float, effort: RowEffort, true: int, hits: int) -> dict[tuple[int, int], float]:
    """P(s, t) of a row with these true labels, the first `hits` predicted: all masks, all e."""
    chances = dict.fromkeys(product(range(hits + 1), range(true - hits + 1)), 0.0)
    chances[0, 0] = effort.unannotated
    seen_with = effort.propensities(np.array([p]))[:, 0]
    for weight, q in zip(effort.weights, seen_with, strict=True):
        for seen in subsets(range(true)):
            s = sum(j < hits for j in seen)
            mask = q ** len(seen) * (1 - q) ** (true - len(seen))
            chances[s, len(seen) - s] += (1 - effort.unannotated) * weight * mask
    return chances


@pytest.mark.parametrize("unannotated", [0.0, 0.2])
@pytest.mark.parametrize(("hits", "misses"), [(0, 0), (2, 3), (3, 1)])
def test_kernel_is_the_law_of_masks_that_a_row_shares(
    hits: int, misses: int, unannotated: float
) -> None:
    p = 0.3
    effort = RowEffort(0.4, (-1.0, 0.5), (0.3, 0.7), unannotated)
    exact = law(p, effort, hits + misses, hits)
    s, t = np.array(list(exact), dtype=float).T
    cells = thinning.Cells(s, t, np.ones(s.size), s / p, t / p)
    at = thinning.Atoms(np.array([float(hits)]), np.array([float(misses)]))
    inverse = np.array([1 / p])
    chances = thinning.kernel(cells, at, inverse, inverse, effort)[:, 0]
    np.testing.assert_allclose(chances, list(exact.values()), atol=1e-14)
    nothing = thinning.empty(at, inverse, inverse, effort)
    np.testing.assert_allclose(nothing, exact[0, 0], atol=1e-14)


@pytest.mark.parametrize("unannotated", [0.0, 0.25])
def test_the_other_labels_of_a_row_with_a_hit(unannotated: float) -> None:
    """P(others | a hit was seen): that hit's chance averages p, and a diligent row shows more."""
    p, hits, misses = 0.5, 3, 2
    inside = p / (1 - unannotated)  # of annotated rows
    chance = TWO_KINDS.propensities(np.array([inside]))[:, 0]
    effort = RowEffort(0.4, (-1.0, 1.0), (0.5, 0.5), unannotated)
    exact = {}
    for s, t in product(range(hits), range(misses + 1)):
        exact[s, t] = 0.0
        for q in chance:
            others = thinning.kernel(
                thinning.Cells(*(np.array([float(x)]) for x in (s, t, 1, 1, 1))),
                thinning.Atoms(np.array([hits - 1.0]), np.array([float(misses)])),
                np.array([1 / q]), np.array([1 / q]),
            )[0, 0]  # fmt: skip
            exact[s, t] += (1 - unannotated) * 0.5 * q / p * others
    s, t = np.array(list(exact), dtype=float).T
    cells = thinning.Cells(s, t, np.ones(s.size), s / p, t / p)
    at = thinning.Atoms(np.array([hits - 1.0]), np.array([float(misses)]))
    inverse = np.array([1 / p])
    computed = thinning.kernel(cells, at, inverse, inverse, effort, beside_hit=True)[:, 0]
    np.testing.assert_allclose(computed, list(exact.values()), atol=1e-14)
    if not unannotated:
        assert computed.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("rho", [0.25, 0.5, 0.75])
def test_propensities_stay_what_they_are_over_all_rows(rho: float) -> None:
    p = np.array([0.02, 0.1, 0.5, 0.9, 0.98])
    effort = mask_model.normal(rho, unannotated=0.01)
    mean = 0.99 * np.array(effort.weights) @ effort.propensities(p)
    np.testing.assert_allclose(mean, p, rtol=2e-5)
    assert effort.propensities(np.array([1.0])).min() == 1.0  # certain labels stay certain


def shared_counts(rows: list[Row], effort: RowEffort) -> tuple[Counts, dict[str, float]]:
    """The mean table of rows with p = 1/2 under shared masks, and the true metrics."""
    observed: list[Row] = []
    totals, n = dict.fromkeys(METRICS, 0.0), sum(count for count, _, _ in rows)
    seen_with = effort.propensities(np.array([0.5]))[:, 0]
    for count, true, predicted in rows:
        observed.append((count * effort.unannotated, (), predicted))
        for (weight, q), seen in product(
            zip(effort.weights, seen_with, strict=True), subsets(true)
        ):
            mask = q ** len(seen) * (1 - q) ** (len(true) - len(seen))
            observed.append((count * (1 - effort.unannotated) * weight * mask, seen, predicted))
        for metric, value in true_values(true, predicted).items():
            totals[metric] += count * value / n
    return tabulated(observed, [0.5] * 7), totals


@pytest.mark.parametrize("unannotated", [0.0, 0.2])
def test_expected_counts_under_shared_masks_give_back_the_truth(unannotated: float) -> None:
    effort = RowEffort(0.4, (-1.0, 1.0), (0.5, 0.5), unannotated)
    if unannotated:  # then p' = 5/8, where two points do not average p'; any F is allowed
        high, low = effort.propensities(np.array([0.5]))[:, 0]
        weight = (0.625 - low) / (high - low)
        effort = RowEffort(0.4, (-1.0, 1.0), (weight, 1 - weight), unannotated)
    counts, truth = shared_counts(POPULATION, effort)
    fitted = fit(counts, row_effort=effort)
    assert fitted.misfit < 1e-3
    assert {m: fitted.value(m) for m in METRICS if m != "R-precision"} == pytest.approx(
        {m: value for m, value in truth.items() if m != "R-precision"}, abs=8e-3
    )
    independent = fit(counts).value("R")
    assert abs(independent - truth["R"]) > 3 * abs(fitted.value("R") - truth["R"])


def test_no_effort_is_the_independent_fit() -> None:
    counts, _ = shared_counts(POPULATION, TWO_KINDS)
    plain, point = fit(counts), fit(counts, row_effort=RowEffort(0.0, (0.0,), (1.0,)))
    assert plain.effort is None
    assert fit(counts, row_effort=0.0, unannotated=0.0).value("R") == plain.value("R")
    for one, other in zip(plain.strata, point.strata, strict=True):
        np.testing.assert_allclose(one.kernel, other.kernel, atol=1e-13)


def test_fits_under_several_strengths() -> None:
    counts, _ = shared_counts(POPULATION, TWO_KINDS)
    fits = under_effort(counts)
    assert list(fits) == [0.0, 0.25, 0.5, 0.75]
    assert fits[0.0].value("R") == fit(counts).value("R")
    assert fits[0.5].value("R") == fit(counts, row_effort=0.5).value("R")
    assert len({fitted.value("R") for fitted in fits.values()}) == 4
    assert [fitted.value("P") for fitted in fits.values()] == pytest.approx(
        [fits[0.0].value("P")] * 4
    )


@pytest.mark.parametrize(("rho", "share"), [(0.95, 0.0), (-0.1, 0.0), (0.5, 1.0)])
def test_impossible_strengths_are_refused(rho: float, share: float) -> None:
    counts, _ = shared_counts(POPULATION, TWO_KINDS)
    with pytest.raises(ValueError, match="must lie in"):
        fit(counts, row_effort=rho, unannotated=share)
