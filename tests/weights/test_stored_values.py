"""Weights of every correction on a few rows, and their exports, as stored beside this test."""

from __future__ import annotations

import numpy as np
import pytest

from unmask import operator, weights
from unmask.weights import CORRECTIONS, Weights

LABELS = np.zeros((9, 20), dtype=int)
LABELS[1, :1], LABELS[2, 3:5], LABELS[3, 2:9], LABELS[4, ::2], LABELS[5, 5:] = 1, 1, 1, 1, 1
LABELS[6], LABELS[7, 19], LABELS[8, [0, 7, 11]] = 1, 1, 1
P = np.linspace(0.15, 1.0, 20).round(3)


def numbers(made: Weights) -> list[float]:
    """Sums over the weights that tell places apart."""
    places = np.cos(np.arange(LABELS.size)).reshape(LABELS.shape)
    return [float((each.toarray() * places).sum()) for each in (made.pos, made.cut)]


def measured() -> dict[str, list[float]]:
    """Sums of every kind of weights, exports, and normalised weights."""
    made = {
        f"{name}, {normalized}, {reduction}": numbers(
            correction(LABELS, P, normalized=normalized, reduction=reduction)
        )
        for name, correction in CORRECTIONS.items()
        for normalized in (False, True)
        for reduction in ("ova", "pal", "pairwise")
        if not (normalized and reduction == "pairwise")
        and (normalized or name != "empirical_bayes")
    }
    made["tempered, 0.25"] = numbers(weights.tempered(LABELS, P, tau=0.25))
    for without_empty in (None, False, True):
        fit = weights.count_distribution(LABELS, P, without_empty=without_empty)
        own = weights.empirical_bayes(LABELS, P, without_empty=without_empty)
        counts = float(fit.probability @ np.arange(fit.probability.size))
        made[f"counts {without_empty}"] = [*numbers(own), counts, float(fit.share.sum())]
    bound = weights.bound(LABELS, P)
    samples = weights.to_samples(bound, 7)
    made["exports"] = [
        float(weights.to_relevance(bound).sum()),
        float(weights.to_soft_targets(weights.unbiased(LABELS, P)).sum()),
        float(weights.to_pos_weight(bound).sum()),
        float(samples.weights @ (samples.rows + 9 * samples.targets)),
    ]
    extreme = np.r_[1.0, 1e30 ** np.linspace(0.1, 1, 11), 2.0]
    huge = weights.normalized_weights(np.array([0, 13]), extreme)
    long = weights.normalized_weights(np.array([0, 70]), 1 / np.resize(P, 70))
    made["normalised"] = [float((np.sign(huge) * np.log(np.abs(huge))).sum()), float(long.sum())]
    drawn = operator.unbiased(
        lambda sets, row: sets.sum(axis=1) ** 1.5 + row, LABELS, P, exact_up_to=4, samples=7, seed=3
    )
    made["operator"] = [float(drawn.value.sum()), float(drawn.standard_error.sum())]
    return made


def test_numbers_are_those_stored() -> None:
    made = measured()
    assert made.keys() == STORED.keys()
    for name, expected in STORED.items():
        assert made[name] == pytest.approx(expected, rel=1e-6, abs=1e-6), name


STORED = {
    "vanilla, False, ova": [1.8258906, 1.8258906],
    "vanilla, False, pal": [1.8258906, 1.8258906],
    "vanilla, False, pairwise": [1.8258906, 1.8258906],
    "vanilla, True, ova": [0.42519645, 0.42519645],
    "vanilla, True, pal": [0.42519645, 0.42519645],
    "unbiased, False, ova": [7.2531071, 7.2531071],
    "unbiased, False, pal": [7.2531071, 7.2531071],
    "unbiased, False, pairwise": [7.2531071, 7.2531071],
    "unbiased, True, ova": [-2.1182154, -2.1182154],
    "unbiased, True, pal": [-2.1182154, -2.1182154],
    "bound, False, ova": [12.680324, 1.8258906],
    "bound, False, pal": [7.2531071, 7.2531071],
    "bound, False, pairwise": [7.2531071, 1.8258906],
    "bound, True, ova": [2.3668006, 2.3668006],
    "bound, True, pal": [2.3668006, 2.3668006],
    "empirical_bayes, True, ova": [0.81645623, 0.81645623],
    "empirical_bayes, True, pal": [0.81645623, 0.81645623],
    "tempered, False, ova": [4.5394989, 4.5394989],
    "tempered, False, pal": [4.5394989, 4.5394989],
    "tempered, False, pairwise": [4.5394989, 4.5394989],
    "tempered, True, ova": [0.29572393, 0.29572393],
    "tempered, True, pal": [0.29572393, 0.29572393],
    "tempered, 0.25": [3.1826947, 3.1826947],
    "counts None": [0.81645623, 0.81645623, 10.788125, 1.8747646],
    "counts False": [0.81645623, 0.81645623, 10.788125, 1.8747646],
    "counts True": [1.0754812, 1.0754812, 11.783421, 1.2667078],
    "exports": [220.37878, 139.6894, 72.806076, 206.53996],
    "normalised": [-4537.6389, 1.0],
    "operator": [2389.8677, 1872.3675],
}
