"""Sums over rows: groups, exactness, count tables."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from tests.helpers.evaluations import part, rows_of, same
from unmask.metrics import (
    Evaluator,
    contributions,
    evaluate,
    plan,
    state,
)
from unmask.metrics.evaluation import evaluate_once
from unmask.metrics.request import Request


def test_rows_of_a_group_are_those_with_its_remainder() -> None:
    top, labels, propensity = rows_of(30)
    options: dict[str, Any] = {"metrics": ["P@1"], "estimators": ["unbiased"]}
    x = contributions(top, labels, propensity, **options)["P@1", "unbiased"]
    used = Evaluator(propensity, **options, interval="percentile")
    firsts = (4090, 3 * 4096, 4096 + 20)
    for first in firsts:
        used.update(top, labels, first_row=first)
    expected, rows = np.zeros(4096), np.zeros(4096, int)
    for first in firsts:
        np.add.at(expected, (first + np.arange(30)) % 4096, x)
        np.add.at(rows, (first + np.arange(30)) % 4096, 1)
    sums, sizes = used.summary().state.per_group([0])
    assert sizes.tolist() == rows[rows > 0].tolist()
    assert sums[:, 0] == pytest.approx(expected[rows > 0], rel=1e-12)


def test_rows_that_come_later_have_later_numbers() -> None:
    top, labels, propensity = rows_of(90)
    options: dict[str, Any] = {"metrics": ["R@3", "PSP@1"], "estimators": ["unbiased"],
                               "interval": "bca", "replicates": 60}  # fmt: skip
    stream = Evaluator(propensity, **options)
    for a, b in ((0, 40), (40, 40), (40, 90)):
        stream.update(part(top, slice(a, b)), labels[a:b])
    assert same(stream.compute(), evaluate(top, labels, propensity, **options))


def test_group_sums_keep_what_rounding_would_lose() -> None:
    sums = np.zeros((2, 1, 1))
    for x in (1e17, 1.0, 3.0, -1e17, 1e-17):
        state._add_doubled(sums, np.array([[[x]], [[0.0]]]))
    assert sums[0, 0, 0] + sums[1, 0, 0] == 4 + 1e-17
    state._add_doubled(sums, np.array([[[0.0]], [[0.5]]]))
    assert (sums[0] + sums[1]).item() == 4.5
    made = plan.make(["P@1"], ["vanilla"], width=1, n_labels=2, tau=0, clip=1)
    one_group = state.empty(made, 0, groups=True)
    one_group.groups[:, 3, 0], one_group.group_rows[3] = (1e16, 2.0), 1
    assert one_group.per_group([0])[0].tolist() == [[1e16 + 2]]


def test_counts_of_short_and_long_rows_add_up() -> None:
    """Shards whose rows have at most 1 label and up to 5: tables of different widths."""
    top, labels, propensity = rows_of(120)
    order = np.argsort(labels.sum(axis=1), kind="stable")
    top, labels = part(top, order), labels[order]  # type: ignore[arg-type]
    options: dict[str, Any] = {"metrics": ["R@3", "P@1"], "estimators": ["deconvolved"]}
    whole = evaluate(top, labels, propensity, **options)
    for cuts in ((0, 30, 120), (0, 1, 119, 120)):
        for turn in (1, -1):
            merged = Evaluator(propensity, **options)
            for a, b in list(itertools.pairwise(cuts))[::turn]:
                merged.update(part(top, slice(a, b)), labels[a:b])
            assert same(merged.compute(), whole)


def test_what_two_states_counted_adds_up() -> None:
    """Rows, those without labels, what may have been lost, and Σ 1/p and Σ 1/p²."""
    top, labels, propensity = rows_of(60)
    options: dict[str, Any] = {"metrics": ["P@1", "R@3"], "estimators": ["unbiased"]}
    labels = sp.csr_array(labels)
    labels.data[labels.indptr[3] : labels.indptr[9]] = 0
    labels.eliminate_zeros()
    every, first, other = (
        Evaluator(propensity, **options).update(part(top, own), labels[own]).summary().state
        for own in (slice(0, 60), slice(0, 7), slice(7, 60))
    )
    assert first.empty_rows > 0
    assert other.empty_rows > 0
    first.add(other)
    for name in ("rows", "empty_rows", "lost", "inverse_sum", "inverse_squares", "complete"):
        assert getattr(first, name) == getattr(every, name), name


def test_scores_are_kept_only_for_metrics_that_need_those_of_all_rows() -> None:
    scores = np.random.default_rng(0).random((6, 3))
    labels = np.array([[1, 0, 1], [0, 1, 0]] * 3)
    for metric, kept in (("LRAP", 0), ("Brier", 0), ("P@1", 0), ("mAP", 1), ("macro-AUC", 1)):
        evaluator = evaluate_once(Request([metric]), scores, labels, None)
        assert len(evaluator.summary().state.scored) == kept
