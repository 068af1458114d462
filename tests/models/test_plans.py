"""Plans of trainings: counted by hand, with workers and clocks that are made up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from unmask import _kernels, parallel, tree
from unmask._kernels.linear_state import BLOCK
from unmask.linear import Recipe, plan
from unmask.models import linear as planning
from unmask.models import training
from unmask.models import tree as tree_plans
from unmask.models.problem import prepare
from unmask.models.tree import prepare as prepare_trees
from unmask.tree import TreeRecipe
from unmask.weights import Weights

RNG = np.random.default_rng(5)
N, D, L = 20, 6, 100
X = sp.csr_array((RNG.random((N, D)) * (RNG.random((N, D)) < 0.6)).astype(np.float32))
Y = sp.csr_array((RNG.random((N, L)) < RNG.random(L)).astype(np.float32))


@pytest.mark.parametrize(
    ("room", "rounds", "available"),
    [
        (parallel.Resources(1, 1, None), 4, None),  # 100 labels in blocks of 32: 4 tasks
        (parallel.Resources(1, 2, None), 2, None),
        (parallel.Resources(3, 1, 2_000_000_001), 2, 1_400_000_000),
        (parallel.Resources(2, 2, 3_000_000_001), 1, 2_100_000_000),
    ],
)
def test_time_and_size_are_extrapolated_from_the_sample(
    monkeypatch: pytest.MonkeyPatch, room: parallel.Resources, rounds: int, available: int | None
) -> None:
    class Made(parallel.LocalRunner):
        def resources(self) -> parallel.Resources:
            return room

    @contextmanager
    def connect(_: Any) -> Iterator[Made]:
        yield Made()

    monkeypatch.setattr(parallel, "connect", connect)
    monkeypatch.setattr(planning, "_measure", lambda _, block: (6.0, 7 * len(block.part.convex)))
    made = plan(X, Y, shard_labels=32, sample=12)
    assert (made.rows, made.features, made.labels) == (N, D, L)
    assert (made.block, made.tasks, made.sampled) == (32, 4, 12)
    assert (made.workers, made.threads, made.available) == (room.workers, room.threads, available)
    assert made.seconds_per_label == 0.5
    assert made.seconds == 0.5 * min(32 * rounds, L)
    assert made.model_bytes == 7 * L
    assert made.memory == training.PROCESS + made.features_bytes + room.threads * made.task_bytes


def test_memory_is_counted_as_the_solvers_hold_it() -> None:
    """32 labels go together; bytes of a row, a feature and a weight are those of the arrays."""
    bytes_of = {
        loss: planning.task_bytes(prepare(X, Y, Recipe(loss), None, None), 64)
        for loss in ("squared_hinge", "logistic", "squared_error")
    }
    weights = 4 * 4 * 64 * (D + 1)
    assert bytes_of["squared_hinge"] == weights + N * 704 + 8 * X.nnz + 700 * (D + 1)
    assert bytes_of["logistic"] == weights + N * 768 + 1280 * (D + 1)
    assert bytes_of["squared_error"] == bytes_of["logistic"]
    softmax = prepare(X, Y, Recipe("softmax", reduction="pal"), None, None)
    more, less = (planning.task_bytes(softmax, labels) for labels in (11, 10))
    assert more - less == 32 * (D + 1)
    problem = prepare(X, Y, Recipe(), None, None)
    arrays = (*problem.rows, problem.squares, problem.order)
    assert planning.features_bytes(problem) == sum(a.size * a.itemsize for a in arrays)
    one, two = (planning.worker_bytes(problem, 32, threads) for threads in (1, 2))
    assert two - one == planning.task_bytes(problem, 32)
    assert planning.worker_bytes(problem, 32, 0) == 400 * 1024**2 + planning.features_bytes(problem)


@pytest.mark.parametrize(
    ("count", "places"), [(1, [5]), (2, [2, 7]), (3, [1, 5, 8]), (10, range(10)), (99, range(10))]
)
def test_the_sample_is_in_the_middle_of_equal_parts_by_frequency(
    count: int, places: list[int]
) -> None:
    frequencies = RNG.permutation(10)
    picked = training.spread_labels(frequencies, count)
    assert frequencies[picked].tolist() == list(places)


def test_picked_labels_are_a_block_of_their_columns() -> None:
    """Solved beside others they have the weights that they have alone."""
    problem = prepare(X, Y, Recipe(), None, None)
    labels = np.array([70, 3, 41])
    block = planning._pick(problem, labels)
    assert (block.start, block.first) == (0, None)
    picked = block.part
    together = prepare(X, sp.csr_array(Y[:, labels]), Recipe(), None, None).part(0, 3)
    for own, wanted in zip(picked.entries, together.entries, strict=True):
        np.testing.assert_array_equal(own, wanted)
    np.testing.assert_array_equal(picked.convex, together.convex)


def test_what_has_no_minimum_cannot_be_timed() -> None:
    pos = sp.csr_array(-5.0 * Y)
    with pytest.raises(ValueError, match="some labels have no minimum with these weights; train"):
        plan(X, Y, Recipe(C=100.0), weights=Weights(pos, pos))


def test_a_worker_that_just_fits_is_taken() -> None:
    problem = prepare(X, Y, Recipe(), None, None)
    needed = planning.worker_bytes(problem, 64, 2)
    memory = -(-needed * 10 // 7)  # 70 % of it can be used
    planning.refuse_small(problem, 64, parallel.Resources(1, 2, memory))
    planning.refuse_small(problem, 64, parallel.Resources(1, 2, None))
    with pytest.raises(ValueError, match="use workers with at most 1 thread each"):
        planning.refuse_small(problem, 64, parallel.Resources(1, 2, memory - 2))


def test_blocks_are_halved_down_to_what_is_solved_together() -> None:
    """512 labels → 256, 128, 64, 32; softmax takes all labels at once and cannot be halved."""
    wide = sp.csr_array((np.ones(N, np.float32), np.zeros(N, int), np.arange(N + 1)), (N, 10_000))
    problem = prepare(wide, Y, Recipe(), None, None)
    room = parallel.Resources(1, 1, int(planning.worker_bytes(problem, 32, 1) / 0.7) + 1)
    with pytest.raises(ValueError, match="one thread each and blocks of 32 labels"):
        planning.refuse_small(problem, 512, room)
    least = planning.worker_bytes(problem, 32, 1) / 0.7
    with pytest.raises(ValueError, match=f"at least {least / 1e9:.2g} GB each"):
        planning.refuse_small(problem, 512, room._replace(memory=room.memory - 9))
    joint = prepare(wide, Y, Recipe("softmax", reduction="pal"), None, None)
    least = planning.worker_bytes(joint, 32, 1) / 0.7
    with pytest.raises(ValueError, match="use workers with at least"):
        planning.refuse_small(joint, 512, room)
    for count, words in ((9_990_000_000, "10 GB"), (10_000_000_000, "10 GB"), (2**41, "2,199 GB")):
        assert training.gigabytes(count) == words


@pytest.mark.parametrize(
    ("features", "labels", "size"),
    [
        (10, 100, 96), (10, 6_144, 96), (10, 12_800, 200), (10, 20_480, 320), (10, 32_768, 512),
        (10, 1_000_000, 512), (2**20 - 1, 1_000_000, 64), (2**24 - 1, 1_000_000, 8),
    ],
)  # fmt: skip
def test_a_block_is_a_64th_of_the_labels_within_limits(
    features: int, labels: int, size: int
) -> None:
    """From 96 to 512 labels, rounded to lanes, with at most 256 MB of weights."""
    problem: Any = SimpleNamespace(shape=(5, features, labels), recipe=Recipe("logistic"))
    made = planning.block_labels(problem)
    assert made == max(planning.LANES, round(size / planning.LANES) * planning.LANES)
    assert planning.block_labels(problem, 7) == 7
    softmax: Any = SimpleNamespace(
        shape=(5, features, labels), recipe=Recipe("softmax", reduction="pal")
    )
    assert planning.block_labels(softmax) == labels


def test_workers_that_are_too_small_are_refused_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a backend; this process may try whatever it has."""

    def refuse(problem: object, block: int, room: object) -> None:
        raise ValueError("too small")

    monkeypatch.setattr(planning, "refuse_small", refuse)
    problem = prepare(X, Y, Recipe(), None, None)
    assert planning.solve(problem)[0].n_labels == Y.shape[1]
    with parallel.connect() as runner, pytest.raises(ValueError, match="too small"):
        planning.solve(problem, backend=runner)
    with pytest.raises(ValueError, match="too small"):
        plan(X, Y)


SMALL_X = sp.csr_array(np.array([[1.0, 0, 2, 0, 3], [0, 4, 0, 0, 0], [5, 6, 0, 0, 0]]))
SMALL_Y = sp.csr_array(np.array([[1, 1, 0, 1], [0, 1, 0, 0], [0, 0, 0, 1]]))


def test_memory_is_that_of_the_arrays_and_of_the_larger_step() -> None:
    """3 rows, 5 features, 6 entries; 5 labels of rows, which have 3 + 3 + 3 + 1 + 2 entries."""
    recipe = TreeRecipe()
    rows = prepare_trees(SMALL_X, SMALL_Y, recipe, None)
    features = (4 * 8 + 6 * 4 + 6 * 4) + (5 * 8 + 5 * 4 + 5 * 8)
    root = (20 * BLOCK + 88) * 3 + 16 * 6 + (20 * BLOCK + 68) * 5
    for threads in (1, 3):
        expected = (400 << 20) + 2 * features + threads * root
        assert tree_plans.memory(rows, recipe, threads) == expected
    clustering = 2 * 8 * (3 + 3 + 3 + 1 + 2)
    assert tree_plans.memory(rows, recipe, 0) == (400 << 20) + 2 * features + clustering


@pytest.mark.parametrize("sample", [8, 64])
def test_trees_time_and_size_are_extrapolated_from_the_sample(
    monkeypatch: pytest.MonkeyPatch, sample: int
) -> None:
    """64 labels in leaves of 4 are 4 halvings, 2 levels of arity 4; 8 labels are 1."""
    asked = []

    def measured(rows: object, recipe: TreeRecipe, count: int) -> tuple[float, int, int]:
        asked.append(count)
        return 6.0, 1000, sample

    monkeypatch.setattr(tree_plans, "_measure", measured)
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
    rows = prepare_trees(SMALL_X, SMALL_Y, TreeRecipe(), None)
    took, stored, sampled = tree_plans._measure(rows, TreeRecipe(n_trees=3), 2)
    assert 0 < took < 100
    assert sampled == 2
    everything = tree_plans._measure(rows, TreeRecipe(n_trees=3), 9)
    assert everything[2] == 4
    assert 0 < stored < everything[1]
    empty = prepare_trees(SMALL_X, sp.csr_array((3, 4)), TreeRecipe(), None)
    assert tree_plans._measure(empty, TreeRecipe(), 2)[2] == 2
