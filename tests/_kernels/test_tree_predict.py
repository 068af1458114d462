"""Beam search: every step of it by sorting all candidates of a row, ties included."""

from __future__ import annotations

import math

import numpy as np
import pytest

from unmask._kernels import tree_predict as kernels
from unmask.tree.prediction import _Level

WIDTH = 4
"""Children of a node."""


def singles(values: object) -> np.ndarray:
    return np.asarray(values, dtype=np.float32)


@pytest.mark.parametrize("z", [-800.0, -3.0, -1.0, -0.999, 0.0, 0.3, 0.998, 1.0, 2.5, 800.0])
def test_a_step_is_the_logarithm_of_a_chance(z: float) -> None:
    assert kernels.step(kernels.HINGE, z) == -(max(0.0, 1 - z) ** 2)
    logistic = -math.log1p(math.exp(-z)) if z > 0 else z - math.log1p(math.exp(z))
    assert kernels.step(kernels.LOGISTIC, z) == pytest.approx(logistic, rel=1e-12)
    share = min(max((1 + z) / 2, 1e-3), 1.0)
    assert kernels.step(kernels.SHARE, z) == pytest.approx(math.log(share), abs=1e-15)


@pytest.mark.parametrize("seed", range(4))
def test_pairs_are_sorted_by_their_nodes(seed: int) -> None:
    nodes = np.random.default_rng(seed).integers(0, 5, 12)
    starts, order = np.full(7, 99), np.full(12, -1)
    kernels.by_node(nodes, 10, starts, order)
    assert starts.tolist() == [int((nodes[:10] < v).sum()) for v in range(7)]
    assert order.tolist() == [*np.argsort(nodes[:10], kind="stable").tolist(), -1, -1]


def level_of(rng: np.random.Generator, rows: int, n_nodes: int, most: int) -> _Level:
    """Pairs of rows and nodes in order, whole numbers as scores, and the scores of children."""
    sizes = rng.integers(1, most + 1, rows)
    starts = np.r_[0, np.cumsum(sizes)]
    nodes = np.concatenate([np.sort(rng.permutation(n_nodes)[:size]) for size in sizes])
    scores = singles(-rng.integers(0, 4, nodes.size))
    out = singles(-rng.integers(0, 5, nodes.size * WIDTH))
    order = rng.permutation(nodes.size)
    child_starts = np.arange(n_nodes + 1) * WIDTH
    child_starts.setflags(write=False)
    return _Level(starts, nodes, scores, order * WIDTH, out, child_starts)


@pytest.mark.parametrize("beam", [1, 3, 6, 40])
@pytest.mark.parametrize("seed", range(6))
def test_a_beam_keeps_the_best_children_and_tells_the_best_that_is_lost(
    seed: int, beam: int
) -> None:
    """Ties go to the earlier child; every node promises exactly what its best child has."""
    rng, n_nodes = np.random.default_rng(seed), 30
    level = level_of(rng, 1, n_nodes, 8)
    rows = level.row_starts.size - 1
    below = singles(rng.integers(0, 3, n_nodes * WIDTH))
    children = [level.out[offset : offset + WIDTH] for offset in level.offsets]
    keys = [own + below[v * WIDTH : (v + 1) * WIDTH]
            for own, v in zip(children, level.nodes, strict=True)]  # fmt: skip
    above = np.zeros(n_nodes, np.float32)
    above[level.nodes] = [own.max() - s for own, s in zip(keys, level.scores, strict=True)]
    dropped, to = np.full(rows, -3.5), np.zeros(rows + 1, np.int64)
    room = max(beam, level.nodes.size * WIDTH) * rows
    to_node, to_score = np.zeros(room, np.int64), np.zeros(room, np.float32)
    kernels.narrow(
        level.row_starts, level.nodes, level.scores, level.offsets, level.out, WIDTH, above, below,
        beam, dropped, to, to_node, to_score,
    )  # fmt: skip
    flat = np.concatenate(keys)
    best = sorted(range(flat.size), key=lambda place: (-flat[place], place))
    kept = sorted(best[:beam])
    count = len(kept)
    assert to.tolist() == [0, count]
    assert to_node[:count].tolist() == [
        int(level.nodes[place // WIDTH]) * WIDTH + place % WIDTH for place in kept
    ]
    assert to_score[:count].tolist() == [
        float(children[place // WIDTH][place % WIDTH]) for place in kept
    ]
    assert dropped[0] == max([-3.5, *(float(flat[place]) for place in best[beam:])])


def test_rows_are_narrowed_one_after_the_other() -> None:
    """As each of them alone."""
    level = level_of(np.random.default_rng(0), 5, 30, 6)
    above, below = np.zeros(30, np.float32), np.zeros(30 * WIDTH, np.float32)

    def narrowed(level: _Level) -> tuple[list[int], list[int], list[float]]:
        rows = level.row_starts.size - 1
        dropped, to = np.full(rows, -np.inf), np.zeros(rows + 1, np.int64)
        to_node, to_score = np.zeros(3 * rows, np.int64), np.zeros(3 * rows, np.float32)
        kernels.narrow(
            level.row_starts, level.nodes, level.scores, level.offsets, level.out, WIDTH, above,
            below, 3, dropped, to, to_node, to_score,
        )  # fmt: skip
        return np.diff(to).tolist(), to_node[: to[-1]].tolist(), to_score[: to[-1]].tolist()

    together = narrowed(level)
    alone = []
    for first, last in zip(level.row_starts[:-1], level.row_starts[1:], strict=True):
        own = slice(first, last)
        alone.append(
            narrowed(
                level._replace(
                    row_starts=np.array([0, last - first]),
                    nodes=level.nodes[own].copy(),
                    scores=level.scores[own].copy(),
                    offsets=level.offsets[own].copy(),
                )
            )
        )
    assert together == tuple([x for each in alone for x in each[part]] for part in range(3))


@pytest.mark.parametrize("most", [1, 4, 40])
@pytest.mark.parametrize("seed", range(6))
def test_labels_that_are_offered_leave_the_best(seed: int, most: int) -> None:
    """Of two trees; paths have a floor. What is lost is known where nodes promise no more."""
    rng, rows, n_nodes = np.random.default_rng(seed), 3, 10
    labels, keys = np.empty((rows, most), np.int32), np.empty((rows, most), np.float32)
    sizes, dropped = np.zeros(rows, np.int64), np.full(rows, -2000.0)
    bonus = singles(rng.integers(0, 3, n_nodes * WIDTH))
    offered: list[list[tuple[float, int]]] = [[] for _ in range(rows)]
    for _ in range(2):
        level = level_of(rng, rows, n_nodes, 4)
        level.out[rng.random(level.out.size) < 0.1] = -900.0
        level.scores[:] = 0.0  # no promise is kept from below
        order = rng.permutation(n_nodes * WIDTH).astype(np.int32)
        order.setflags(write=False)
        below = singles([bonus[order[v * WIDTH : (v + 1) * WIDTH]].max() for v in range(n_nodes)])
        kernels.offer_labels(level, below, order, bonus, labels, keys, sizes, dropped)
        for i in range(rows):
            for q in range(level.row_starts[i], level.row_starts[i + 1]):
                for c in range(WIDTH):
                    label = int(order[level.nodes[q] * WIDTH + c])
                    score = max(float(level.out[level.offsets[q] + c]), -700.0)
                    offered[i].append((score + float(bonus[label]), label))
    kernels.drain(labels, keys, sizes)
    for i in range(rows):
        ranked = sorted(offered[i], key=lambda pair: (-pair[0], pair[1]))
        size = min(most, len(ranked))
        assert sizes[i] == size
        assert list(zip(keys[i].tolist(), labels[i].tolist(), strict=True))[:size] == ranked[:size]
        assert (labels[i, size:] == -1).all()
        if len(ranked) > most:
            assert ranked[most][0] <= dropped[i] <= max(ranked[most][0] + 2, float(bonus.max()))
        else:
            assert dropped[i] == -2000.0


@pytest.mark.parametrize("seed", range(4))
def test_repeated_labels_are_dropped(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 6, (5, 7)).astype(np.int32)
    sizes = rng.integers(0, 8, 5)
    wanted = [
        list(dict.fromkeys(row[:size].tolist())) for row, size in zip(labels, sizes, strict=True)
    ]
    kernels.distinct(labels, sizes, 6)
    assert [row[:size].tolist() for row, size in zip(labels, sizes, strict=True)] == wanted


@pytest.mark.parametrize("seed", range(5))
def test_nodes_above_labels_that_were_not_reached_are_added_once_and_in_order(seed: int) -> None:
    """Parents were searched or added before; a level has four times the nodes of that above."""
    rng, rows, bits, shift = np.random.default_rng(seed), 4, 2, 1
    searched, added = (level_of(rng, rows, 6, 6) for _ in range(2))
    reached = level_of(rng, rows, 24, 9)
    parents = [
        [set(each.nodes[each.row_starts[i] : each.row_starts[i + 1]].tolist()) for i in range(rows)]
        for each in (searched, added)
    ]
    leaf_of = rng.integers(0, 48, 60)  # leaf nodes of labels; two of them below a node
    labels, sizes = np.full((rows, 12), -1, np.int32), np.zeros(rows, np.int64)
    for i in range(rows):
        own = parents[0][i] | parents[1][i]
        fitting = [j for j in rng.permutation(60) if leaf_of[j] >> shift >> bits in own][:12]
        labels[i, : len(fitting)], sizes[i] = fitting, len(fitting)
    to = np.zeros(rows + 1, np.int64)
    to_node, to_score = kernels.lacking(
        labels, sizes, leaf_of, shift, bits, searched, added, reached.row_starts, reached.nodes, to
    )
    sums, child_of = np.ones((rows, 12)), rng.integers(0, WIDTH, 60)
    own_leaf = np.array([leaf >> shift >> bits for leaf in leaf_of])
    kernels.add_scores(labels, sizes, own_leaf, child_of, searched, added, sums)
    for i in range(rows):

        def score(parent: int, child: int, row: int = i) -> float:
            level = searched if parent in parents[0][row] else added
            inside = range(level.row_starts[row], level.row_starts[row + 1])
            (q,) = (q for q in inside if level.nodes[q] == parent)
            return float(level.out[level.offsets[q] + child])

        chosen = labels[i, : sizes[i]]
        own = reached.nodes[reached.row_starts[i] : reached.row_starts[i + 1]]
        wanted = sorted({int(leaf_of[j]) >> shift for j in chosen} - set(own.tolist()))
        span = slice(to[i], to[i + 1])
        assert to_node[span].tolist() == wanted
        assert to_score[span].tolist() == [score(v >> bits, v % WIDTH) for v in wanted]
        expected = [1 + math.exp(score(own_leaf[j], child_of[j])) for j in chosen]
        assert sums[i, : sizes[i]] == pytest.approx(expected)
        assert (sums[i, sizes[i] :] == 1).all()


@pytest.mark.parametrize("k", [1, 3, 9])
def test_the_best_of_many_trees_is_that_of_the_mean(k: int) -> None:
    rng, rows, n_trees = np.random.default_rng(k), 4, 3
    candidates = np.array([rng.permutation(8) for _ in range(rows)], np.int32)
    sizes, sums = np.array([0, 2, 8, 5]), rng.uniform(0.1, 3, (rows, 8))
    bonus = singles(rng.random(8))
    labels, best = np.empty((rows, k), np.int32), np.empty((rows, k), np.float32)
    kernels.best_of_many(candidates, sizes, sums, n_trees, bonus, labels, best)
    for i in range(rows):
        keys = {
            int(label): math.log(sums[i, c] / n_trees) + float(bonus[label])
            for c, label in enumerate(candidates[i, : sizes[i]])
        }
        ranked = sorted(keys, key=lambda label: -keys[label])[:k]
        assert labels[i].tolist() == [*ranked, *[-1] * (k - len(ranked))]
        assert best[i, : len(ranked)] == pytest.approx([keys[j] for j in ranked], rel=1e-5)
        assert (best[i, len(ranked) :] == -np.inf).all()
