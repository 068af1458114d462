"""Beam search: with all nodes it is exact, with fewer it can tell; trees are averaged."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from tests.helpers.trees import all_scores, best, level_scores, path_scores
from unmask import _kernels, tree
from unmask.data import synthetic
from unmask.models import tree_search as prediction
from unmask.tree import TreeModel, TreeRecipe, predict_top

DATA = synthetic.planted(260, n_features=50, n_labels=40, labels_per_row=3, seed=1)
X, Y = DATA.features, DATA.labels
ROWS = X.toarray().astype(float)[:50]
P = np.random.default_rng(0).uniform(0.05, 1.0, 40)
MODELS = {
    (loss, n_trees): tree.train(
        X, Y, TreeRecipe(loss, n_trees=n_trees, arity=4, leaf=3, C=0.3, prune_below=0.02)
    )
    for loss in ("squared_hinge", "logistic")
    for n_trees in (1, 3)
}


@pytest.mark.parametrize("beam", [16, None, 1000])
@pytest.mark.parametrize("ratio", [False, True])
@pytest.mark.parametrize("key", MODELS)
def test_all_nodes_give_the_exact_best(key: tuple[str, int], ratio: bool, beam: int | None) -> None:
    model = MODELS[key]
    assert model.trees[0].shape.levels == 3
    scores = all_scores(model, ROWS, ratio) - (np.log(P) if ratio else 0)
    rank_by = "probability/propensity" if ratio else "score"
    top = predict_top(model, X[:50], 6, rank_by=rank_by, propensity=P, beam=beam)
    labels, values = best(scores, 6)
    np.testing.assert_allclose(top.scores, values, atol=2e-5)
    np.testing.assert_allclose(np.take_along_axis(scores, top.labels, 1), values, atol=2e-5)
    assert (top.labels == labels).mean() > 0.99  # float32 may swap near ties


def test_a_narrow_beam_keeps_the_best_nodes() -> None:
    """A beam of one is greedy: the best child at every level, the best label at the end."""
    model = MODELS["logistic", 1]
    shape = model.trees[0].shape
    top = predict_top(model, X[:50], 1, beam=1)
    nodes = level_scores(model.trees[0], "logistic", ROWS)
    for i in range(50):
        node = 0
        for level in range(shape.levels - 1):
            starts = shape.child_starts(level)
            children = np.arange(starts[node], starts[node + 1])
            node = children[np.argmax(nodes[level][i, children])]
        own = shape.order[shape.bounds[node] : shape.bounds[node + 1]]
        scores = all_scores(model, ROWS[[i]])[0]
        assert top.labels[i, 0] == own[np.argmax(scores[own])]
        assert top.scores[i, 0] == pytest.approx(scores[own].max(), abs=1e-5)


def reached(model: TreeModel, t: int, row: int, inner: int, leaves: int, bonus: np.ndarray):  # type: ignore[no-untyped-def]
    """Labels below the leaf nodes that a search keeps, by keeping the best of every level."""
    shape = model.trees[t].shape
    own = level_scores(model.trees[t], model.loss, ROWS[[row]])
    kept = np.zeros(1, dtype=int)
    for level in range(shape.levels - 1):
        starts, bounds = shape.child_starts(level), shape.node_bounds(level + 1)
        children = np.concatenate([np.arange(starts[v], starts[v + 1]) for v in kept])
        most = np.array([bonus[shape.order[bounds[c] : bounds[c + 1]]].max() for c in children])
        order = np.argsort(-(own[level][0, children] + most), kind="stable")
        kept = np.sort(children[order[: leaves if level == shape.levels - 2 else inner]])
    return np.concatenate([shape.order[shape.bounds[v] : shape.bounds[v + 1]] for v in kept])


@pytest.mark.parametrize("ratio", [False, True])
@pytest.mark.parametrize(("beam", "leaves", "inner"), [(1, 1, 1), (3, 2, 2), (5, 3, 3)])
@pytest.mark.parametrize("n_trees", [1, 3])
def test_a_search_keeps_the_best_nodes_of_every_level_and_tree(
    n_trees: int, beam: int, leaves: int, inner: int, ratio: bool
) -> None:
    """Of several trees the best labels that any of them reached are ranked by their exact score."""
    model = MODELS["logistic", n_trees]
    bonus = -np.log(P) if ratio else np.zeros(40)
    rank_by = "probability/propensity" if ratio else "score"
    top = predict_top(model, X[:50], 2, rank_by=rank_by, propensity=P, beam=beam)
    exact = all_scores(model, ROWS) + bonus
    kept = (-(-7 * beam // 10), beam) if n_trees == 1 else (inner, leaves)
    for i in range(50):
        entries = []
        for t, tree_ in enumerate(model.trees):
            labels = reached(model, t, i, *kept, bonus)
            scores = path_scores(tree_, model.loss, ROWS[[i]])[0] + bonus
            entries += [(-scores[label], label) for label in labels]
        candidates = {label for _, label in sorted(entries)[: 8 if n_trees > 1 else None]}
        wanted = sorted(candidates, key=lambda label: -exact[i, label])[:2]
        assert top.labels[i].tolist() == wanted
        np.testing.assert_allclose(top.scores[i], exact[i, wanted], atol=2e-5)


def test_the_exact_best_of_several_trees_needs_no_luck(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few nodes and labels the search begins with."""
    monkeypatch.setattr(prediction, "BEAM", 1)
    monkeypatch.setattr(prediction, "SPARE", 1)
    labels, values = best(all_scores(MODELS["logistic", 3], ROWS), 4)
    top = predict_top(MODELS["logistic", 3], X[:50], 4, beam=None)
    np.testing.assert_allclose(top.scores, values, atol=2e-5)
    assert (top.labels == labels).mean() > 0.99
    hasty = predict_top(MODELS["logistic", 3], X[:50], 4, beam=1)
    assert (hasty.labels != labels).any()


def test_the_search_for_the_exact_best_widens_where_it_must(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With propensities the first beam is not enough for every row, and the bound tells."""
    monkeypatch.setattr(prediction, "BEAM", 1)
    widths = []
    original = prediction._best

    def counted(trees, chunk, width, k):  # type: ignore[no-untyped-def]
        widths.append((width.leaves, len(chunk.rows)))
        return original(trees, chunk, width, k)

    monkeypatch.setattr(prediction, "_best", counted)
    model = MODELS["squared_hinge", 1]
    top = predict_top(model, X[:50], 2, rank_by="probability/propensity", propensity=P, beam=None)
    _, values = best(all_scores(model, ROWS, True) - np.log(P), 2)
    np.testing.assert_allclose(top.scores, values, atol=2e-5)
    assert [beam for beam, _ in widths] == [1, 4, 16][: len(widths)]
    assert widths[0][1] == 50
    assert widths[1][1] > 0
    assert [n for _, n in widths] == sorted((n for _, n in widths), reverse=True)


def test_threads_and_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    model = MODELS["squared_hinge", 3]
    wanted = predict_top(model, X, 5, beam=3)
    monkeypatch.setattr(prediction, "CANDIDATES", 3 * 4 * 7)
    for threads in (1, 3):
        with _kernels.using_threads(threads):
            top = predict_top(model, X, 5, beam=3)
        np.testing.assert_array_equal(top.labels, wanted.labels)
        np.testing.assert_array_equal(top.scores, wanted.scores)


def test_unreached_places_are_empty_and_scores_have_a_floor() -> None:
    model = MODELS["squared_hinge", 1]
    top = predict_top(model, X[:3], 20, beam=1)
    reached = np.diff(model.trees[0].shape.bounds)
    assert ((top.labels >= 0).sum(1) <= reached.max()).all()
    assert (top.scores[top.labels < 0] == -np.inf).all()
    far = predict_top(model, sp.csr_array(1e4 * X[:3]), 40, beam=None)
    assert far.scores.min() == -700.0
    assert len(predict_top(model, X[:0], 2).labels) == 0


def test_bad_rows_are_refused() -> None:
    model = MODELS["squared_hinge", 1]
    with pytest.raises(ValueError, match="the model has 50 features; got rows with 49"):
        predict_top(model, X[:, :49], 2)
    with pytest.raises(ValueError, match="needs the propensity"):
        predict_top(model, X, 2, rank_by="probability/propensity")
    with pytest.raises(ValueError, match="ranking"):
        predict_top(model, X, 2, rank_by="size")
    with pytest.raises(ValueError, match="beam"):
        predict_top(model, X, 2, beam=0)
    with pytest.raises(ValueError, match="k"):
        predict_top(model, X, 0)


@pytest.mark.parametrize("table", [1, 64, 200])
def test_tables_that_are_too_small_for_a_node_change_nothing(
    monkeypatch: pytest.MonkeyPatch, table: int
) -> None:
    """A node is met in several turns then."""
    model = MODELS["logistic", 3]
    usual = predict_top(model, X[:50], 5, beam=4)
    monkeypatch.setattr(prediction, "TABLE", table)
    again = predict_top(model, X[:50], 5, beam=4)
    assert again.labels.tolist() == usual.labels.tolist()
    assert again.scores.tolist() == usual.scores.tolist()


@pytest.mark.parametrize(
    ("features", "rows"), [(3, 5), (4, 5), (9, 10), (prediction.TABLE // 8 + 5, None)]
)
def test_a_table_has_room_for_the_bias_and_the_features_of_a_node(
    features: int, rows: int | None
) -> None:
    """And for those of the longest row, which has four; at most `TABLE` weights otherwise."""
    x = prediction.Rows(
        np.array([0, 1, 5], np.int32), np.arange(5, dtype=np.int32), np.ones(5, np.float32)
    )
    ranking = prediction._ranking(MODELS["logistic", 1], "score", None)
    chunk = prediction._Chunk.of(x, np.arange(2), ranking, 6)
    scratch = chunk._scratch(features, 8)
    assert scratch.table.shape == (rows or 1 + prediction.TABLE // 8, 8)
    assert scratch.table.ctypes.data % 64 == 0
    assert (scratch.entries.size, scratch.amounts.size, scratch.place.size) == (4, 4, 6)
