"""Node problems: the right rows, weights and optimum; counts are unbiased and telescope."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
import scipy.sparse as sp

from tests.helpers.trees import STEPS, path_scores
from unmask import linear, tree
from unmask._kernels import tree_nodes as kernels
from unmask.models.one_vs_all import solve
from unmask.models.problem import Recipe, arrange
from unmask.models.tree import TreeRecipe, _settings, _solve, prepare
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
