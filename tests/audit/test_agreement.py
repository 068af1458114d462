"""Agreement figures against scikit-learn and a published example."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score, f1_score

from unmask.audit.answers import agreement, fleiss_kappa


def test_two_annotators_against_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    first = rng.random(200) < 0.3
    second = first ^ (rng.random(200) < 0.15)
    answers = {
        "ann": {i: bool(v) for i, v in enumerate(first)},
        "bob": {i: bool(v) for i, v in enumerate(second)} | {999: True},
    }
    both = agreement(answers)
    (pair,) = both.pairs
    assert both.items == pair.items == 200, "what only one of them judged does not count"
    assert pair.percent == pytest.approx((first == second).mean())
    assert pair.kappa == pytest.approx(cohen_kappa_score(first, second))
    assert pair.positive == pytest.approx(f1_score(first, second))


def test_fleiss_of_the_published_example() -> None:
    """Fleiss (1971), ten subjects of fourteen raters as many textbooks have it: 0.210."""
    counts = [
        [0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1],
        [7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7],
    ]  # fmt: skip
    assert fleiss_kappa(counts) == pytest.approx(0.210, abs=5e-4)


def test_items_of_different_numbers_of_people_count_by_their_pairs() -> None:
    """By enumeration: two answers of an item drawn at random agree, mean over items."""
    items = {0: [1, 1, 0], 1: [0, 0], 2: [1, 0, 0, 0], 3: [1]}
    same = np.mean([
        np.mean([a == b for i, a in enumerate(votes) for j, b in enumerate(votes) if i != j])
        for votes in items.values() if len(votes) > 1
    ])  # fmt: skip
    pooled = [v for votes in items.values() if len(votes) > 1 for v in votes]
    chance = np.mean(pooled) ** 2 + (1 - np.mean(pooled)) ** 2
    people = {f"p{i}": {k: bool(v[i]) for k, v in items.items() if i < len(v)} for i in range(4)}
    assert agreement(people).fleiss == pytest.approx((same - chance) / (1 - chance))
    assert agreement(people).items == 3


def test_one_person_agrees_with_nobody() -> None:
    alone = agreement({"ann": {1: True}})
    assert (alone.pairs, alone.items) == ((), 0)
    assert np.isnan(alone.fleiss)


def test_two_answers_to_one_question_agree_or_not() -> None:
    assert fleiss_kappa([[1, 1]]) == -1
    assert fleiss_kappa([[2, 1], [1, 0]]) == pytest.approx((1 / 3 - 5 / 9) / (4 / 9))
    assert np.isnan(fleiss_kappa([[1, 0], [0, 1]]))
