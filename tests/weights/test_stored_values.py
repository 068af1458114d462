"""Weights of every correction on a few rows, and their exports, as stored beside this test."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.helpers import golden
from unmask import operator, weights
from unmask.weights import CORRECTIONS, Weights

LABELS = np.zeros((9, 20), dtype=int)
LABELS[1, :1], LABELS[2, 3:5], LABELS[3, 2:9], LABELS[4, ::2], LABELS[5, 5:] = 1, 1, 1, 1, 1
LABELS[6], LABELS[7, 19], LABELS[8, [0, 7, 11]] = 1, 1, 1
P = np.linspace(0.15, 1.0, 20).round(3)


def row(made: Weights) -> dict[str, Any]:
    pos, cut = made.pos.toarray(), made.cut.toarray()
    return {"pos": pos, "cut": cut, "last": pos[8, 7], "last cut": cut[8, 11]}


def stored(section: str, rows: list[dict[str, Any]]) -> None:
    golden.check(golden.file_name("values", "weights"), golden.table(rows), section)


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_weights(correction: str) -> None:
    rows = []
    for normalized in (False, True):
        for reduction in ("ova", "pal", "pairwise"):
            options: dict[str, Any] = {"normalized": normalized, "reduction": reduction}
            try:
                made = row(CORRECTIONS[correction](LABELS, P, **options))
            except ValueError as error:
                made = {"pos": str(error).split(";")[0]}
            rows.append(options | made)
    stored(correction, rows)


def test_strength_of_tempering() -> None:
    made = [weights.tempered(LABELS, P, tau=tau) for tau in (0.0, 0.25, 1.0)]
    stored("strength", [row(each) for each in made])


@pytest.mark.parametrize("without_empty", [None, False, True])
def test_distributions_of_counts(without_empty: bool | None) -> None:
    labels = LABELS[1:] if without_empty else LABELS
    fit = weights.count_distribution(labels, P, without_empty=without_empty)
    made = weights.empirical_bayes(labels, P, without_empty=without_empty)
    shares = {"without": str(fit.without_empty), "chances": fit.probability, "rows": fit.rows}
    stored(f"counts {without_empty}", [shares | row(made) if not without_empty else shares
                                       | {"pos": made.pos.data, "cut": made.cut.data}])  # fmt: skip


def test_what_other_libraries_take() -> None:
    made = weights.bound(LABELS, P)
    samples = weights.to_samples(made, 7)
    stored("exports", [{
        "relevance": weights.to_relevance(made).toarray(),
        "targets": weights.to_soft_targets(weights.unbiased(LABELS, P)).toarray(),
        "pos_weight": weights.to_pos_weight(made),
        "rows": samples.rows, "y": samples.targets, "weight": samples.weights,
    }])  # fmt: skip


def test_normalised_weights_of_rows() -> None:
    sizes = np.array([0, 0, 1, 3, 8, 20, 50])
    inverse = 1 / np.resize(P, sizes[-1])
    long = 1 / np.resize(P, 70)
    extreme = np.r_[1.0, 1e30 ** np.linspace(0.1, 1, 11), 2.0]
    rows = [(sizes, inverse), (np.array([0, 70]), long), (np.array([0, 66]), np.ones(66))]
    made = [weights.normalized_weights(*row) for row in rows]
    huge = weights.normalized_weights(np.array([0, 13]), extreme)
    made.append(np.sign(huge) * np.log(np.abs(huge)))
    stored("normalised", [{"weights": each, "first": each[0]} for each in made])


def test_functions_of_label_sets() -> None:
    def squared(sets: np.ndarray, number: int) -> np.ndarray:
        return sets.sum(axis=1) ** 1.5 + number

    exact = operator.unbiased(squared, LABELS[:5], P)
    drawn = operator.unbiased(squared, LABELS, P, exact_up_to=4, samples=7, seed=3)
    rows = [
        {"value": e.value, "error": e.standard_error, "exact": [int(x) for x in e.exact]}
        for e in (exact, drawn)
    ]
    stored("operator", rows)
