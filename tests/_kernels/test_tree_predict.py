"""Beam search: every step of it by sorting all candidates of a row, ties included."""

from __future__ import annotations

import math

import numpy as np
import pytest

from unmask._kernels import tree_predict as kernels
from unmask._kernels.lanes import WIDTH as LANES
from unmask._kernels.linear_state import Rows
from unmask.models.tree_model import Nodes
from unmask.models.tree_search import _aligned, _Heaps, _Level, _Meetings, _Pairs, _Scratch

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
    rng = np.random.default_rng(seed)
    sizes, rows = np.array([3, 0, 5, 2]), np.array([7, 8, 20, 21])
    nodes, scores = rng.integers(0, 5, 10).astype(np.int32), singles(-np.arange(10))
    pairs = _Pairs(np.r_[0, np.cumsum(sizes)], nodes, scores)
    meetings = _Meetings(np.full(7, 99), np.empty(10, np.int32), np.empty(10, np.float32))
    place = np.empty(10, np.int32)
    kernels.by_node(pairs, rows, meetings, place)
    order = np.argsort(nodes, kind="stable")
    assert meetings.starts.tolist() == [int((nodes < v).sum()) for v in range(7)]
    assert meetings.rows.tolist() == np.repeat(rows, sizes)[order].tolist()
    assert meetings.scores.tolist() == scores[order].tolist()
    assert place[order].tolist() == list(range(10))


N_FEATURES, LONGEST = 12, 5
CHILDREN = (5, 20, 60)
"""Of three nodes: one group of eight, four less one, and eight: all ways to add groups up."""


def expanded(
    rng: np.random.Generator, link: int, table_rows: int, stale: np.ndarray, base: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """Scores of the children of eight pairs, what they are by hand, and the base afterwards."""
    lengths = np.array([LONGEST, 2, 0, 4])
    indices = np.concatenate([rng.permutation(N_FEATURES)[:size] for size in lengths])
    ends = np.cumsum(lengths, dtype=np.int32)
    x = Rows(np.r_[np.int32(0), ends], indices.astype(np.int32), singles(rng.random(11)))
    weights = [rng.integers(-3, 4, (N_FEATURES, children)) / 2 for children in CHILDREN]
    has = [np.sort(rng.permutation(N_FEATURES)[:size]) for size in (9, 12, 7)]
    counts = np.repeat(CHILDREN, [own.size for own in has])
    bias = singles(rng.random(sum(CHILDREN)))
    part = Nodes(
        np.cumsum([0, *(own.size for own in has)]),
        np.concatenate(has).astype(np.int32),
        np.r_[0, np.cumsum(counts)],
        np.concatenate([np.arange(count) for count in counts]).astype(np.uint16),
        singles(np.concatenate([w[own].ravel() for w, own in zip(weights, has, strict=True)])),
        np.r_[0, np.cumsum(CHILDREN)],
        bias,
    ).read_only
    starts = np.array([99, 99, 0, 3, 4, 8])  # the part begins with the third node
    rows, scores = np.array([0, 1, 3, 0, 3, 2, 0, 1], np.int32), singles(-rng.random(8))
    scratch = _Scratch(
        stale.astype(np.int32), np.array([base]), _aligned(table_rows, 64),
        np.empty(LONGEST, np.int64), np.empty(LONGEST, np.float32),
    )  # fmt: skip
    scratch.table[:] = 99.0
    out = np.full((8, 64), 99.0, np.float32)
    kernels.expand(x, part, 2, _Meetings(starts, rows, scores), link, scratch, out)
    wanted = np.full((8, 64), np.nan)
    for p, v in enumerate([0, 0, 0, 1, 2, 2, 2, 2]):
        own = slice(x.indptr[rows[p]], x.indptr[rows[p] + 1])
        row = np.zeros(N_FEATURES)
        row[x.indices[own]] = x.data[own]
        margins = (
            row[has[v]] @ weights[v][has[v]] + bias[part.child_starts[v] : part.child_starts[v + 1]]
        )
        steps = [kernels.step(link, float(z)) for z in margins]
        wanted[p, : CHILDREN[v]] = scores[p] + np.array(steps)
    return out, wanted, int(scratch.base[0])


@pytest.mark.parametrize("table_rows", [LONGEST + 1, LONGEST + 4, 30])
@pytest.mark.parametrize("link", [kernels.HINGE, kernels.LOGISTIC, kernels.SHARE])
def test_children_of_all_pairs_of_a_node_by_hand(link: int, table_rows: int) -> None:
    """A table that has room for one row alone, for some rows of a node, and for all."""
    stale = np.arange(N_FEATURES) % 7  # marks of an earlier node, below the base
    for seed in range(2):
        rng = np.random.default_rng(seed)
        out, wanted, _ = expanded(rng, link, table_rows, stale, 7)
        inside = ~np.isnan(wanted)
        assert out[inside] == pytest.approx(wanted[inside], rel=2e-5, abs=2e-6)


@pytest.mark.parametrize(("beyond", "anew"), [(0, "second"), (1, "first")])
def test_marks_are_counted_anew_before_there_are_too_many(beyond: int, anew: str) -> None:
    """Marks of before, which are small numbers too, are forgotten then."""
    table_rows, stale = 30, np.arange(N_FEATURES) % 9 + 1

    def after(base: int, marks: np.ndarray) -> int:
        out, wanted, after = expanded(np.random.default_rng(0), 0, table_rows, marks, base)
        inside = ~np.isnan(wanted)
        assert out[inside] == pytest.approx(wanted[inside], rel=2e-5, abs=2e-6)
        return after

    from_one = after(1, 0 * stale)
    counted = after(kernels.MOST_MARKS - table_rows + beyond, stale)
    assert (counted == from_one) == (anew == "first")
    assert counted <= from_one < 40


def level_of(rng: np.random.Generator, rows: int, n_nodes: int, most: int) -> _Level:
    """Pairs of rows and nodes in order, whole numbers as scores, and the scores of children."""
    sizes = rng.integers(1, most + 1, rows)
    starts = np.r_[0, np.cumsum(sizes)]
    nodes = np.concatenate([np.sort(rng.permutation(n_nodes)[:size]) for size in sizes])
    scores = singles(-rng.integers(0, 4, nodes.size))
    out = singles(rng.integers(50, 90, (nodes.size, LANES)))  # what is no child is never read
    out[:, :WIDTH] = -rng.integers(0, 5, (nodes.size, WIDTH))
    place = rng.permutation(nodes.size).astype(np.int32)
    return _Level(starts, nodes.astype(np.int32), scores, place, out)


ALL = 0
"""A beam that has room for just all children."""


@pytest.mark.parametrize("beam", [1, 3, 6, 40, 90, ALL])
@pytest.mark.parametrize("seed", range(6))
def test_a_beam_keeps_the_best_children_and_bounds_what_is_lost(seed: int, beam: int) -> None:
    """Ties go to the earlier child; every node promises exactly what its best child has."""
    rng, n_nodes = np.random.default_rng(seed), 30
    level = level_of(rng, 1, n_nodes, 30 if beam == 90 else 8)
    beam = len(level.nodes) * WIDTH if beam == ALL else beam
    of_child = singles(rng.integers(0, 3, n_nodes * WIDTH))
    children = level.out[level.place, :WIDTH]
    keys = children + of_child.reshape(n_nodes, WIDTH)[level.nodes]
    of_node = np.zeros(n_nodes, np.float32)
    of_node[level.nodes] = keys.max(axis=1) - level.scores
    dropped, to = np.full(1, -3.5), _Pairs.room(1, max(beam, keys.size))
    kernels.narrow(level, WIDTH, of_node, of_child, beam, dropped, to)
    flat = keys.ravel()
    best = sorted(range(flat.size), key=lambda place: (-flat[place], place))
    kept = sorted(best[:beam])
    assert to.row_starts.tolist() == [0, len(kept)]
    parents = level.nodes[np.array(kept) // WIDTH]
    wanted = to.cut(len(kept))
    assert wanted.nodes.tolist() == (parents * WIDTH + np.array(kept) % WIDTH).tolist()
    assert wanted.scores.tolist() == children.ravel()[kept].tolist()
    lost = [-3.5, float(flat[best[beam - 1]])] if len(best) > beam else [-3.5]
    assert dropped[0] == max(lost)


def test_pairs_are_found_by_row_and_node() -> None:
    starts, nodes = np.array([0, 3, 3, 5, 9]), np.array([1, 4, 6, 0, 4, 0, 2, 3, 9])
    for i in range(4):
        own = nodes[starts[i] : starts[i + 1]].tolist()
        for node in range(11):
            wanted = starts[i] + own.index(node) if node in own else -1
            assert kernels.pair_of(starts, nodes, i, node) == wanted


def test_rows_are_narrowed_one_after_the_other() -> None:
    """As each of them alone."""
    level = level_of(np.random.default_rng(0), 5, 30, 6)
    of_node, of_child = np.zeros(30, np.float32), np.zeros(30 * WIDTH, np.float32)

    def narrowed(level: _Level) -> tuple[list[int], list[int], list[float]]:
        rows = level.row_starts.size - 1
        dropped, to = np.full(rows, -np.inf), _Pairs.room(rows, 3 * rows)
        kernels.narrow(level, WIDTH, of_node, of_child, 3, dropped, to)
        kept = to.cut(to.row_starts[-1])
        return np.diff(kept.row_starts).tolist(), kept.nodes.tolist(), kept.scores.tolist()

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
                    place=level.place[own].copy(),
                )
            )
        )
    assert together == tuple([x for each in alone for x in each[part]] for part in range(3))


@pytest.mark.parametrize("most", [1, 4, 40])
@pytest.mark.parametrize("seed", range(6))
def test_labels_that_are_offered_leave_the_best(seed: int, most: int) -> None:
    """Of two trees; paths have a floor. What is lost is at most the worst that is kept."""
    rng, rows, n_nodes = np.random.default_rng(seed), 3, 10
    labels, keys = np.empty((rows, most), np.int32), np.empty((rows, most), np.float32)
    heaps = _Heaps(labels, keys, np.zeros(rows, np.int64))
    dropped = np.full(rows, -2000.0)
    bonus = singles(rng.integers(0, 3, n_nodes * WIDTH))
    child_starts = np.arange(n_nodes + 1) * WIDTH
    offered: list[list[tuple[float, int]]] = [[] for _ in range(rows)]
    for _ in range(2):
        level = level_of(rng, rows, n_nodes, 4)
        level.out[rng.random(level.out.shape) < 0.1] = -900.0
        level.scores[:] = 0.0  # no promise is kept from below
        order = rng.permutation(n_nodes * WIDTH).astype(np.int32)
        order.setflags(write=False)
        of_node = bonus[order].reshape(n_nodes, WIDTH).max(axis=1)
        kernels.offer_labels(level, child_starts, of_node, order, bonus, heaps, dropped)
        for i in range(rows):
            for q in range(level.row_starts[i], level.row_starts[i + 1]):
                for c in range(WIDTH):
                    label = int(order[level.nodes[q] * WIDTH + c])
                    score = max(float(level.out[level.place[q], c]), -700.0)
                    offered[i].append((score + float(bonus[label]), label))
    kernels.drain(*heaps)
    for i in range(rows):
        ranked = sorted(offered[i], key=lambda pair: (-pair[0], pair[1]))
        size = min(most, len(ranked))
        assert heaps.sizes[i] == size
        assert list(zip(keys[i].tolist(), labels[i].tolist(), strict=True))[:size] == ranked[:size]
        assert (labels[i, size:] == -1).all()
        assert dropped[i] == (ranked[most - 1][0] if len(ranked) > most else -2000.0)


@pytest.mark.parametrize("k", [1, 3, 6])
@pytest.mark.parametrize("seed", range(4))
def test_contenders_are_the_labels_whose_most_reaches_the_kth_least(seed: int, k: int) -> None:
    """A tree that is not on the heap adds nothing at least, exp(dropped) at most."""
    rng, n_trees = np.random.default_rng(seed), 3
    labels = np.array([rng.permutation(np.repeat(np.arange(6), n_trees))[:9] for _ in range(5)])
    keys, sizes = singles(rng.uniform(-4, 0, labels.shape)), rng.integers(0, 10, 5)
    heaps, dropped = _Heaps(labels.astype(np.int32), keys, sizes.copy()), rng.uniform(-6, -2, 5)
    kernels.contenders(heaps, k, n_trees, 6, dropped)
    for i, size in enumerate(sizes):
        own = list(zip(labels[i, :size].tolist(), np.exp(keys[i, :size], dtype=float), strict=True))
        distinct = list(dict.fromkeys(label for label, _ in own))
        least = {j: sum(chance for label, chance in own if label == j) for j in distinct}
        absent = {j: n_trees - sum(label == j for label, _ in own) for j in distinct}
        limit = sorted(least.values())[-k] if len(distinct) >= k else -math.inf
        wanted = [j for j in distinct if least[j] + absent[j] * math.exp(dropped[i]) >= limit]
        assert heaps.labels[i, : heaps.sizes[i]].tolist() == wanted


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
    leaf_of = rng.integers(0, 48, 60).astype(np.int32)  # of labels; two below a node
    labels, sizes = np.full((rows, 12), -1, np.int32), np.zeros(rows, np.int64)
    for i in range(rows):
        own = parents[0][i] | parents[1][i]
        fitting = [j for j in rng.permutation(60) if leaf_of[j] >> shift >> bits in own][:12]
        labels[i, : len(fitting)], sizes[i] = fitting, len(fitting)
    to = _Pairs.room(rows, int(sizes.sum()))
    count = kernels.lacking(labels, sizes, leaf_of, shift, bits, (searched, added), reached, to)
    assert count == to.row_starts[-1]
    sums, child_of = np.ones((rows, 12)), rng.integers(0, WIDTH, 60).astype(np.int32)
    own_leaf = np.array([leaf >> shift >> bits for leaf in leaf_of], np.int32)
    kernels.add_scores(labels, sizes, own_leaf, child_of, (searched, added), sums)
    for i in range(rows):

        def score(parent: int, child: int, row: int = i) -> float:
            level = searched if parent in parents[0][row] else added
            inside = range(level.row_starts[row], level.row_starts[row + 1])
            (q,) = (q for q in inside if level.nodes[q] == parent)
            return float(level.out[level.place[q], child])

        chosen = labels[i, : sizes[i]]
        own = reached.nodes[reached.row_starts[i] : reached.row_starts[i + 1]]
        wanted = sorted({int(leaf_of[j]) >> shift for j in chosen} - set(own.tolist()))
        span = slice(to.row_starts[i], to.row_starts[i + 1])
        assert to.nodes[span].tolist() == wanted
        assert to.scores[span].tolist() == [score(v >> bits, v % WIDTH) for v in wanted]
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
