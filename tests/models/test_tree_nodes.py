"""The order of labels, the shape of trees, and the problems of nodes."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
import scipy.sparse as sp

from tests.helpers.trees import STEPS, path_scores
from unmask import _kernels, linear, tree
from unmask._kernels import tree_cluster
from unmask._kernels import tree_nodes as kernels
from unmask._kernels.linear_state import Rows
from unmask.models.one_vs_all import solve
from unmask.models.problem import Recipe, arrange
from unmask.models.tree import TreeRecipe, _settings, _solve, centroids, clustered, prepare
from unmask.models.tree_model import Shape, Span, depth_of, halves, read_only, split_bits
from unmask.weights import Weights

RNG = np.random.default_rng(5)
N, D, L = 60, 15, 20
X = sp.csr_array((RNG.random((N, D)) * (RNG.random((N, D)) < 0.4)).astype(np.float32))
Y = (RNG.random((N, L)) < 0.12).astype(int)
Y[:, 4] = 0
P = RNG.uniform(0.3, 1.0, L)


def entries_of(y, weight, order, bounds, everything, counting):  # type: ignore[no-untyped-def]
    columns = sp.csc_array(y * weight)
    place = np.full(len(y), -1, np.int32)
    result = kernels.entries(
        columns.indptr.astype(np.int64),
        columns.indices.astype(np.int32),
        columns.data.astype(float),
        np.asarray(order, np.int32),
        np.asarray(bounds),
        everything,
        counting,
        place,
    )
    assert (place == -1).all()
    return result


@pytest.mark.parametrize("everything", [False, True])
@pytest.mark.parametrize("counting", [False, True])
def test_rows_and_children_of_a_node(everything: bool, counting: bool) -> None:
    order, bounds = [7, 2, 4, 11, 0, 19], [0, 2, 3, 6]
    weight = 1 / P
    rows, counts, starts, of_row, amount = entries_of(
        Y, weight, order, bounds, everything, counting
    )
    below = (Y * weight)[:, order]
    reached = np.flatnonzero(below.any(axis=1))
    assert rows.tolist() == (list(range(N)) if everything else reached.tolist())
    np.testing.assert_allclose(counts, below[rows].sum(1) if counting else np.ones(len(rows)))
    for child, (a, b) in enumerate(pairwise(bounds)):
        mass = below[rows][:, a:b].sum(1)
        own = slice(starts[child], starts[child + 1])
        assert of_row[own].tolist() == np.flatnonzero(mass).tolist()
        expected = mass[of_row[own]] if counting else np.ones(len(of_row[own]))
        np.testing.assert_allclose(amount[own], expected)
    assert (counts >= 0).all()


def test_rows_are_copied_onto_the_features_they_touch() -> None:
    data = prepare(X, Y, TreeRecipe(), None)
    dense = sp.csr_array(
        (data.x.data, data.x.indices.view(np.int32), data.x.indptr), (N, D)
    ).toarray()
    rows, place = np.array([3, 9, 30], np.int32), np.full(D, -1, np.int32)
    starts, index, value, names, squares = kernels.gather(data.x, rows, place)
    assert (place == -1).all()
    assert sorted(names) == np.flatnonzero(dense[rows].any(axis=0)).tolist()
    local = sp.csr_array((value, index.view(np.int32), starts), (3, len(names))).toarray()
    np.testing.assert_array_equal(local, dense[rows][:, names])
    np.testing.assert_allclose(squares, (local.astype(float) ** 2).sum(0))


def test_packed_weights_are_the_weights_that_are_large_enough() -> None:
    blocks = kernels.blocks(np.float32([[0.5, 0.0, -0.1, 9], [0.05, 0.0, 0.2, 8]]))
    features, starts, child, value = kernels.pack(blocks, np.int32([7, 8, 3]), np.float32(0.1))
    assert features.tolist() == [7, 3]
    assert starts.tolist() == [0, 1, 3]
    assert child.tolist() == [0, 0, 1]
    np.testing.assert_array_equal(value, np.float32([0.5, -0.1, 0.2]))
    assert kernels.pack(blocks, np.int32([7, 8, 3]), np.float32(0.0))[1][-1] == 4  # zeros are none


@pytest.mark.parametrize("children", [1, 8, 9, 16, 17, 40])
def test_blocks_of_children_are_packed_in_their_order(children: int) -> None:
    weights = RNG.normal(size=(children, 6)).astype(np.float32)
    names = np.int32([4, 9, 2, 0, 7])
    features, starts, child, value = kernels.pack(kernels.blocks(weights), names, np.float32(0.7))
    packed = np.zeros((children, 10), np.float32)
    for f, (a, b) in zip(features, pairwise(starts), strict=True):
        assert a < b
        assert (np.diff(child[a:b].astype(int)) > 0).all()
        packed[child[a:b], f] = value[a:b]
    expected = np.zeros((children, 10), np.float32)
    expected[:, names] = np.where(np.abs(weights[:, :-1]) >= 0.7, weights[:, :-1], 0)
    np.testing.assert_array_equal(packed, expected)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_a_row_of_weight_three_counts_as_three_rows(loss: str) -> None:
    """pos = cut = weight where the label is observed: its loss, three times."""
    weight = RNG.integers(1, 4, N)
    repeated = np.repeat(np.arange(N), weight)
    recipe = Recipe(loss, tol=1e-9, C=0.5)
    y = sp.csr_array(Y.astype(float))
    many = arrange(X[repeated], Weights(y[repeated], y[repeated]), recipe)
    heavy = sp.csr_array(Y * weight[:, None].astype(float))
    few = arrange(X, Weights(heavy, heavy), recipe)
    weighted = type(few)(**{**vars(few), "row_weights": weight[few.order].astype(float)})
    expected = solve(many)
    for solution in (solve(weighted), _solve(weighted, 0.1)):
        np.testing.assert_allclose(solution.objective, expected.objective, rtol=1e-5)
        np.testing.assert_allclose(solution.weights, expected.weights, atol=2e-3)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_a_tree_of_one_node_is_one_vs_all(loss: str) -> None:
    recipe = TreeRecipe(loss, n_trees=1, leaf=L, tol=1e-9, forcing=0.1, prune_below=0.0, C=2.0)
    model = tree.train(X, Y, recipe)
    (nodes,) = model.trees[0].parts[0]
    flat, _ = linear.train(X, Y, linear.Recipe(loss, C=2.0, tol=1e-9))
    x = X.toarray().astype(float)
    step = STEPS[loss](linear.scores(flat, X))
    np.testing.assert_allclose(path_scores(model.trees[0], loss, x), step, atol=1e-4)
    np.testing.assert_allclose(nodes.bias, flat.bias[model.trees[0].shape.order], atol=1e-4)


def test_counts_are_unbiased_by_enumeration_of_masks() -> None:
    """E of what a row and a child weigh is the number of true labels below them, exactly."""
    true = np.array([[1, 0, 1, 1, 0, 1]])
    p = [
        Fraction(1, 2),
        Fraction(1, 3),
        Fraction(3, 4),
        Fraction(1, 5),
        Fraction(1),
        Fraction(2, 3),
    ]
    weight = np.array([float(1 / each) for each in p])
    order, bounds = [5, 0, 3, 2], [0, 2, 3, 4]
    row, children = 0.0, np.zeros(3)
    for mask in product([0, 1], repeat=6):
        chance = float(np.prod([each if m else 1 - each for m, each in zip(mask, p, strict=True)]))
        result = entries_of(true * np.array(mask), weight, order, bounds, True, True)
        _, counts, starts, _, amount = result
        row += chance * counts[0]
        mass = [amount[a:b].sum() for a, b in pairwise(starts)]
        children += chance * np.array(mass)
        assert (np.array(mass) <= counts[0] + 1e-12).all()  # convex: neg = row − child ≥ 0
    assert row == pytest.approx(4, abs=1e-12)
    np.testing.assert_allclose(children, [2, 1, 1], atol=1e-12)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_counts_telescope_to_shares_of_the_number_of_labels(loss: str) -> None:
    """Where features say everything, a path is worth Σ Y_ij/p_j over Σ_l Σ Y_il/p_l."""
    kinds, copies = 3, 40
    x = np.repeat(np.eye(kinds), copies, axis=0)
    y = (RNG.random((kinds * copies, 8)) < 0.3).astype(int)
    p = RNG.uniform(0.3, 1.0, 8)
    recipe = TreeRecipe(
        loss, correction="counts", n_trees=1, arity=2, leaf=2, C=1e5, bias="none", tol=1e-9,
        forcing=0.01, prune_below=0.0,
    )  # fmt: skip
    model = tree.train(x, y, recipe, propensity=p)
    assert model.trees[0].shape.levels == 3
    share = np.stack([(y[x[:, f] > 0] / p).sum(0) for f in range(kinds)])
    share /= share.sum(1, keepdims=True)
    step = "logistic" if loss == "logistic" else "share"
    scores = path_scores(model.trees[0], step, np.eye(kinds))
    np.testing.assert_allclose(np.exp(scores), share, rtol=2e-3)


def test_the_loss_follows_the_correction_unless_it_is_given() -> None:
    losses = [TreeRecipe(correction=c).loss for c in ("vanilla", "counts", "unbiased")]
    assert losses == ["squared_hinge", "logistic", "logistic"]
    assert TreeRecipe("squared_hinge", correction="counts").loss == "squared_hinge"
    assert [TreeRecipe(each).stop for each in ("squared_hinge", "logistic")] == [0.2, 0.02]
    assert TreeRecipe("logistic", tol=0.5).stop == 0.5


def test_squared_hinge_of_counts_is_ranked_by_shares() -> None:
    """Its margins stand for shares: (1 + z) / 2, which multiply along a path."""
    recipe = TreeRecipe("squared_hinge", correction="counts", n_trees=1, arity=2, leaf=4)
    model = tree.train(X, Y, recipe, propensity=P)
    top = tree.predict_top(model, X, 3, beam=None)
    scores = path_scores(model.trees[0], "share", X.toarray().astype(float))
    np.testing.assert_allclose(top.scores, np.sort(scores, axis=1)[:, ::-1][:, :3], atol=1e-5)


def test_unbiased_is_another_name_of_counts() -> None:
    both = [
        tree.train(X, Y, TreeRecipe(correction=name, n_trees=1), propensity=P)
        for name in ("counts", "unbiased")
    ]
    for one, other in zip(*(model.trees[0].parts[0] for model in both), strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_bad_recipes_and_data_are_refused() -> None:
    with pytest.raises(ValueError, match="counts weights need propensities"):
        tree.train(X, Y, TreeRecipe(correction="counts"))
    for setting, message in [
        ({"arity": 3}, "power of 2"),
        ({"arity": 1}, "power of 2"),
        ({"leaf": 0}, "leaf"),
        ({"leaf": 32769}, "leaf must lie in"),
        ({"loss": "softmax"}, "loss of a label tree"),
        ({"bias": "some"}, "unknown bias 'some'"),
        ({"correction": "bound"}, "correction of a label tree"),
        ({"n_trees": 0}, "n_trees"),
        ({"tol": 0.0}, "tol"),
        ({"prune_below": -1.0}, "prune_below"),
        ({"seed": -1}, "seed"),
    ]:
        with pytest.raises(ValueError, match=message):
            TreeRecipe(**setting)
    with pytest.raises(ValueError, match="rows, features and labels"):
        tree.train(np.zeros((2, 0)), np.zeros((2, 1)))


def test_a_bias_is_in_the_penalty_outside_it_or_absent() -> None:
    for bias, penalty, there in (
        ("regularized", 1.0, True),
        ("free", 0.0, True),
        ("none", 0.0, False),
    ):
        made = _settings(TreeRecipe(bias=bias, C=3.0, forcing=0.25, max_iter=7), 0.125)
        assert made == (3.0, penalty, there, 0.125, 0.25, 7)


DRAWS = np.random.default_rng(3)


def rows_of(matrix: sp.csr_array) -> Rows:
    return Rows(matrix.indptr.astype(np.int64), matrix.indices, matrix.data)


def test_centroids_are_directions_of_mean_rows() -> None:
    x = sp.csr_array((DRAWS.random((40, 9)) * (DRAWS.random((40, 9)) < 0.4)).astype(np.float32))
    y = (DRAWS.random((40, 70)) < 0.1).astype(int)
    y[:, 5] = 0
    data = prepare(x, y, TreeRecipe(), None)
    vectors = centroids(data.x, 9, data.starts, data.rows).toarray()
    sums = y.T @ x.toarray().astype(float)
    expected = sums / np.maximum(np.linalg.norm(sums, axis=1), 1e-30)[:, None]
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
    assert not vectors[5].any()


def groups(n_groups: int, size: int, d: int = 40) -> tuple[sp.csr_array, np.ndarray]:
    """Unit vectors around a few orthogonal directions, and the group of each, shuffled."""
    group = DRAWS.permutation(np.repeat(np.arange(n_groups), size))
    points = 0.05 * DRAWS.random((len(group), d))
    points[np.arange(len(group)), group] += 1
    points /= np.linalg.norm(points, axis=1)[:, None]
    return sp.csr_array(points.astype(np.float32)), group


def test_planted_clusters_are_ranges() -> None:
    vectors, group = groups(2, 50)
    order = clustered(vectors, 1, seed=0)
    assert sorted(order.tolist()) == list(range(100))
    assert len(set(group[order[:50]])) == len(set(group[order[50:]])) == 1


def test_halves_are_a_fixed_point_of_balanced_two_means() -> None:
    """No label of one half is closer to the other centre than one that was preferred to it."""
    vectors, _ = groups(6, 21)
    order = np.arange(126, dtype=np.int32)
    centres = np.zeros((40, 2), dtype=np.float32)
    tree_cluster.bisect(rows_of(vectors), order, 7, 100, 0.0, centres)
    assert (centres == 0).all()
    assert sorted(order.tolist()) == list(range(126))
    z = vectors.toarray().astype(float)
    left, right = (z[half].sum(0) for half in (order[:63], order[63:]))
    closer = z @ (left / np.linalg.norm(left) - right / np.linalg.norm(right))
    assert closer[order[:63]].min() >= closer[order[63:]].max() - 1e-5


def test_an_odd_label_is_in_the_first_half_and_equal_labels_stay_in_order() -> None:
    same = sp.csr_array(np.ones((5, 1), dtype=np.float32))
    order = np.arange(5, dtype=np.int32)
    tree_cluster.bisect(rows_of(same), order, 0, 10, 1e-4, np.zeros((1, 2), dtype=np.float32))
    assert order.tolist() == [0, 1, 2, 3, 4]


def test_orders_depend_on_the_seed_and_not_on_threads() -> None:
    vectors, _ = groups(30, 8)
    orders = []
    for threads in (1, 3):
        with _kernels.using_threads(threads):
            orders.append([clustered(vectors, 5, seed).tolist() for seed in (0, 1)])
    assert orders[0] == orders[1]
    assert orders[0][0] != orders[0][1]


def shape_of(n_labels: int, depth: int, arity: int) -> Shape:
    order = np.random.default_rng(0).permutation(n_labels).astype(np.int32)
    return Shape(order, halves(n_labels, depth), split_bits(depth, arity))


@pytest.mark.parametrize("n_labels", [1, 2, 7, 8, 1000])
def test_halves_are_balanced_and_nested(n_labels: int) -> None:
    for depth in range(depth_of(n_labels, 1) + 1):
        bounds = halves(n_labels, depth)
        assert (bounds[0], bounds[-1], len(bounds)) == (0, n_labels, 2**depth + 1)
        sizes = np.diff(bounds)
        assert sizes.max() - sizes.min() <= 1
        assert sizes.min() >= 1
        if depth:
            assert set(halves(n_labels, depth - 1)) <= set(bounds)


def test_depths_and_levels() -> None:
    assert [depth_of(n, 24) for n in (1, 24, 25, 33, 34, 48, 24626, 670091)] == [
        0, 0, 0, 0, 1, 1, 10, 15,
    ]  # fmt: skip
    assert [depth_of(n, 1) for n in (1, 2, 3, 6, 8)] == [0, 1, 1, 2, 3]
    assert [split_bits(d, 32) for d in (0, 5, 6, 15, 16)] == [
        (), (5,), (3, 3), (5, 5, 5), (4, 4, 4, 4),
    ]  # fmt: skip
    assert split_bits(3, 2) == (1, 1, 1)


@pytest.mark.parametrize(
    ("n_labels", "depth", "arity"), [(5, 0, 2), (40, 3, 2), (300, 6, 8), (90, 5, 32)]
)
def test_children_divide_their_node_and_parts_divide_the_tree(
    n_labels: int, depth: int, arity: int
) -> None:
    shape = shape_of(n_labels, depth, arity)
    for level in range(shape.levels):
        bounds, starts = shape.node_bounds(level), shape.child_starts(level)
        assert len(bounds) == len(starts) == shape.nodes(level) + 1
        for node, (first, last) in enumerate(pairwise(bounds.tolist())):
            children = shape.child_bounds(level, node)
            assert (children[0], children[-1]) == (first, last)
            assert len(children) - 1 == starts[node + 1] - starts[node]
            assert (np.diff(children) >= 1).all()
            if level == shape.levels - 1:
                assert (np.diff(children) == 1).all()
    spans = [span for number in range(shape.n_parts) for span in shape.part(number)]
    nodes = [(s.level, node) for s in spans for node in range(s.start, s.stop)]
    wanted = [(level, node) for level in range(shape.levels) for node in range(shape.nodes(level))]
    assert sorted(nodes) == wanted


def test_parts_are_the_top_and_subtrees() -> None:
    shape = shape_of(3000, 10, 32)
    assert (shape.cut, shape.n_parts) == (1, 33)
    assert shape.part(0) == [Span(0, 0, 1)]
    assert shape.part(2) == [Span(1, 1, 2), Span(2, 32, 64)]
    narrow = shape_of(3000, 6, 2)
    assert (narrow.cut, narrow.n_parts) == (4, 17)
    assert narrow.part(0) == [Span(0, 0, 1), Span(1, 0, 2), Span(2, 0, 4), Span(3, 0, 8)]
    assert narrow.part(16) == [Span(4, 15, 16), Span(5, 30, 32), Span(6, 60, 64)]
    assert shape_of(9, 0, 2).part(0) == [Span(0, 0, 1)]


def test_arrays_of_trees_cannot_be_written_to_but_those_of_the_caller_can() -> None:
    own = np.arange(3)
    held = read_only(own)
    assert np.shares_memory(held, own)
    assert (held.flags.writeable, own.flags.writeable) == (False, True)
    assert read_only(held) is held
