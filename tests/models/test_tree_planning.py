"""Plans of trees: memory as arrays take it, time and size extrapolated from a small tree."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from unmask import _kernels, tree
from unmask._kernels.linear_state import BLOCK
from unmask.models import tree as planning
from unmask.models.tree import prepare
from unmask.tree import TreeRecipe

X = sp.csr_array(np.array([[1.0, 0, 2, 0, 3], [0, 4, 0, 0, 0], [5, 6, 0, 0, 0]]))
Y = sp.csr_array(np.array([[1, 1, 0, 1], [0, 1, 0, 0], [0, 0, 0, 1]]))


def test_memory_is_that_of_the_arrays_and_of_the_larger_step() -> None:
    """3 rows, 5 features, 6 entries; 5 labels of rows, which have 3 + 3 + 3 + 1 + 2 entries."""
    recipe = TreeRecipe()
    rows = prepare(X, Y, recipe, None)
    features = (4 * 8 + 6 * 4 + 6 * 4) + (5 * 8 + 5 * 4 + 5 * 8)
    root = (20 * BLOCK + 88) * 3 + 16 * 6 + (20 * BLOCK + 68) * 5
    for threads in (1, 3):
        expected = (400 << 20) + 2 * features + threads * root
        assert planning.memory(rows, recipe, threads) == expected
    clustering = 2 * 8 * (3 + 3 + 3 + 1 + 2)
    assert planning.memory(rows, recipe, 0) == (400 << 20) + 2 * features + clustering


@pytest.mark.parametrize("sample", [8, 64])
def test_time_and_size_are_extrapolated_from_the_sample(
    monkeypatch: pytest.MonkeyPatch, sample: int
) -> None:
    """64 labels in leaves of 4 are 4 halvings, 2 levels of arity 4; 8 labels are 1."""
    asked = []

    def measured(rows: object, recipe: TreeRecipe, count: int) -> tuple[float, int, int]:
        asked.append(count)
        return 6.0, 1000, sample

    monkeypatch.setattr(planning, "_measure", measured)
    features = sp.csr_array(np.eye(64, 9))
    with _kernels.using_threads(2):
        made = tree.plan(features, sp.eye_array(64), TreeRecipe(n_trees=5, arity=4, leaf=4))
    assert asked == [2048]
    assert (made.rows, made.features, made.labels, made.trees) == (64, 9, 64, 5)
    assert (made.levels, made.threads, made.sampled) == (3, 2, sample)
    growth = 1 + (3 / (1 + 2) if sample == 8 else 0)
    assert made.seconds_per_label == pytest.approx(6.0 / sample * growth * 5)
    assert made.seconds == pytest.approx(6.0 / sample * growth * 5 * 64 / 2)
    assert made.model_bytes == round(1000 / sample * 64 * 5)
    assert made.parts == 5 * 17
    assert made.to_dict()["model_bytes"] == made.model_bytes


def test_the_sample_is_a_tree_of_some_labels() -> None:
    rows = prepare(X, Y, TreeRecipe(), None)
    took, stored, sampled = planning._measure(rows, TreeRecipe(n_trees=3), 2)
    assert 0 < took < 100
    assert sampled == 2
    everything = planning._measure(rows, TreeRecipe(n_trees=3), 9)
    assert everything[2] == 4
    assert 0 < stored < everything[1]
    empty = prepare(X, sp.csr_array((3, 4)), TreeRecipe(), None)
    assert planning._measure(empty, TreeRecipe(), 2)[2] == 2
