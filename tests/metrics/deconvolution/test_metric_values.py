"""Metric values: what hits earn, and the influence of a row."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from tests.helpers.count_tables import POPULATION, expected_counts
from unmask import _mixture
from unmask.metrics.deconvolution import fit
from unmask.metrics.deconvolution import METRICS, Part
from unmask.metrics.thinning import Atoms


@pytest.mark.parametrize("k", [1, 2, 5])
def test_hits_earn_the_metric_together(k: int) -> None:
    """s hits of N = s + t true labels, all at the first places, from every definition."""
    gains = [1 / math.log2(place + 2) for place in range(k)]
    for s, t in product(range(1, k + 1), range(7)):
        n, best = s + t, min(k, s + t)
        defined = {
            "P": s / k, "R": s / n, "F1": 2 * s / (k + n), "Jaccard": s / (k + t), "hit": 1.0,
            "nDCG": sum(gains[:s]) / sum(gains[:best]), "R-precision": min(s, best) / best,
        }  # fmt: skip
        one, true = (np.array([float(x)]) for x in (s, n))
        for name, metric in METRICS.items():
            worth = float(metric.hit_value(one, true - one, k)[0])
            if metric.at_place is None:
                assert s * worth == pytest.approx(defined[name])
            else:
                placed = [float(metric.at_place(r, one, true - one, k)[0]) for r in range(s)]
                assert sum(placed) == pytest.approx(defined[name])
                assert worth == placed[0]  # what ignores the place takes every one for the first


def test_late_places_earn_nothing_where_few_labels_are_true() -> None:
    at_place = METRICS["R-precision"].at_place
    assert at_place is not None
    one = np.ones(1)
    assert [float(at_place(r, one, one, 4)[0]) for r in range(4)] == [0.5, 0.5, 0, 0]


def test_rows_without_true_labels_earn_a_finite_nothing() -> None:
    none = np.zeros(1)
    for metric in METRICS.values():
        assert np.isfinite(metric.hit_value(none, none, 3)).all()
        if metric.at_place is not None:
            assert np.isfinite(metric.at_place(0, none, none, 3)).all()


@pytest.mark.parametrize("empty", [True, False])
@pytest.mark.parametrize("metric", ["F1", "nDCG", "R-precision"])
def test_the_influence_of_a_row_is_a_derivative(metric: str, empty: bool) -> None:
    """Also where rows without labels were left out; away from π = 0, where the fit is smooth."""
    everything = [*POPULATION, (1e7, (), (0, 1, 2))] if empty else POPULATION
    counts, _ = expected_counts(everything, [0.7] * 7, empty=empty)
    (found,) = fit(counts).strata
    in_population = [0, 2, 100, 101, 202] if empty else [2, 100, 101, 202]
    real = np.isin(found.atoms.hits * 100 + found.atoms.misses, in_population)
    rows, exactly = found.cells.rows, {"tolerance": 0.0, "steps": 3000}
    kernel = found.kernel[:, real]
    at_rest = _mixture.maximize(
        kernel, rows[:, None] / rows.sum(), found.weights[real], 1.0, **exactly
    ).weights[:, 0]
    smooth = replace(
        found,
        atoms=Atoms(found.atoms.hits[real], found.atoms.misses[real]),
        inverse=(found.inverse[0][real], found.inverse[1][real]),
        kernel=kernel, kept=found.kept[real], weights=at_rest,
    )  # fmt: skip
    part = Part(smooth, METRICS[metric], counts.k)
    nudges = np.diag(1e-3 * rows)
    both = np.hstack([rows[:, None] + nudges, rows[:, None] - nudges])
    mixtures = _mixture.maximize(kernel, both / both.sum(axis=0), at_rest, 1.0, **exactly).weights
    up, down = np.split(part.of(both, mixtures), 2)
    np.testing.assert_allclose(part.per_row, (up - down) / (2e-3 * rows), atol=2e-5)
    assert part.per_row @ rows == pytest.approx(part.value)
    any_gradient = np.random.default_rng(0).normal(size=at_rest.size)
    up, down = np.split(any_gradient @ mixtures, 2)
    moved = smooth.influence(any_gradient)
    np.testing.assert_allclose(moved, rows.sum() * (up - down) / (2e-3 * rows), rtol=1e-2)
    np.testing.assert_allclose(smooth.influence(np.ones(at_rest.size)), 0.0, atol=1e-6)
