"""The best labels of rows by beam search, many rows at a time.

Level by level every row keeps its `beam` best nodes; at the end the labels of its leaf nodes are
scored exactly. Rows are taken together, and their pairs of row and node are met node by node. Of
several trees, the best few labels that any of them reached are scored in all of them.

Ranked by probability / propensity, a node is worth its score plus the largest −ln p below it: no
label below can have more. And no mean over trees exceeds the best of them. So what was dropped
bounds what was missed, and a search that keeps more and more (`beam=None`) can tell when it is
exact, as the search of Wydmuch et al. does.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unmask import _validation
from unmask._kernels import in_chunks
from unmask._kernels import tree_predict as kernels
from unmask._kernels.linear_state import Rows
from unmask._typing import FeaturesLike, Floats, Indices, Ints, PropensityLike, Singles
from unmask.linear.model import RANKINGS, checked_features, ranking_propensity
from unmask.predictions import TopK
from unmask.tree.checking import refuse_bad_model
from unmask.tree.model import LINKS, Tree, TreeModel
from unmask.tree.nodes import Nodes
from unmask.tree.shape import Shape, read_only

BEAM = 20
CANDIDATES = 1 << 23  # labels that are scored at once, at most
CHUNK = 1 << 13  # rows that are searched together
TENTHS = (10, 7), (6, 6)
"""Of the beam: leaf nodes and nodes above that are kept, in one tree and in each of several."""
SPARE = 4  # labels that are scored in all trees, for every one that is asked for


def predict_top(
    model: TreeModel,
    features: FeaturesLike,
    k: int,
    *,
    rank_by: str = "score",
    propensity: PropensityLike | None = None,
    beam: int | None = BEAM,
) -> TopK:
    """The k best labels of every row.

    Parameters
    ----------
    model : TreeModel
    features : (n, d) matrix
        Dense or sparse.
    k : int
        Labels per row.
    rank_by : {"score", "probability/propensity"}, default "score"
        Scores of the result are ln P(label | row), or ln of P(label | row) / p. Ties: the smaller
        label first.
    propensity : (L,) numbers in (0, 1], optional
        Needed for "probability/propensity".
    beam : int or None, default 20
        Leaf nodes that a row keeps, and seven tenths as many nodes on the levels above; of several
        trees six tenths of both in each. None: as many as it takes for the exact best.

    Returns
    -------
    TopK
        Rows have fewer than k labels where the beam reached fewer.

    Raises
    ------
    ValueError
        If the model has another number of features, or is damaged, or propensities are missing.

    References
    ----------
    Wydmuch et al., *Propensity-scored probabilistic label trees* (2021).

    Examples
    --------
    >>> from unmask import tree
    >>> model = tree.train(np.eye(4), np.eye(4, dtype=int))
    >>> predict_top(model, np.eye(4)[2:], 1).labels
    array([[2],
           [3]], dtype=int32)
    """
    refuse_bad_model(model)
    matrix = checked_features(features, model.n_features)
    _validation.positive_int(k, "k")
    if beam is not None:
        _validation.positive_int(beam, "beam")
    ranking = _ranking(model, rank_by, propensity)
    labels = np.full((matrix.shape[0], k), -1, dtype=np.int32)
    scores = np.full(labels.shape, -np.inf, dtype=np.float32)
    x = Rows(matrix.indptr, matrix.indices, matrix.data.astype(np.float32, copy=False))
    _search(model, x, ranking, beam, labels, scores)
    return TopK(labels, scores, names=model.label_names)


_Weights: TypeAlias = list[list[tuple[int, Nodes]]]
"""Of every level of a tree: the first node and the weights of each part that has nodes of it."""


class _Ranking(NamedTuple):
    """The kernels' link of margins; −ln p of every label, and of the best below every node."""

    link: int
    label: Singles
    nodes: list[list[Singles]]


def _weights(tree: Tree) -> _Weights:
    """The weights of a tree as kernels take them."""
    levels: _Weights = [[] for _ in range(tree.shape.levels)]
    for number, part in enumerate(tree.parts):
        for span, nodes in zip(tree.shape.part(number), part, strict=True):
            levels[span.level].append((span.start, nodes.read_only))
    return levels


def _ranking(model: TreeModel, rank_by: str, propensity: PropensityLike | None) -> _Ranking:
    if _validation.one_of(rank_by, RANKINGS, "ranking") == "score":
        bonus = np.zeros(model.n_labels, dtype=np.float32)
    else:
        p = ranking_propensity(rank_by, propensity, model.n_labels, of="tree.predict_top")
        bonus = -np.log(p).astype(np.float32)
    nodes = []
    for tree in model.trees:
        shape = tree.shape
        below = np.maximum.reduceat(bonus[shape.order], shape.bounds[:-1])
        levels = [below]
        for bits in reversed(shape.bits):
            levels.append(levels[-1].reshape(-1, 1 << bits).max(axis=1))
        nodes.append(levels[::-1])
    shares = model.loss == "squared_hinge" and (
        rank_by != "score" or model.parameters.get("correction", "vanilla") != "vanilla"
    )
    return _Ranking(kernels.SHARE if shares else LINKS[model.loss], bonus, nodes)


class _Width(NamedTuple):
    """How much a search keeps of a row: leaf nodes, nodes of the levels above, and labels."""

    leaves: int
    inner: int
    candidates: int


def _search(
    model: TreeModel,
    x: Rows,
    ranking: _Ranking,
    beam: int | None,
    labels: Indices,
    scores: Singles,
) -> None:
    """Fill `labels` and `scores`, chunks of rows at a time."""
    leaves = max(tree.shape.nodes(tree.shape.levels - 1) for tree in model.trees)
    exact = beam is None or beam >= leaves
    several = len(model.trees) > 1  # labels of one tree are ranked as they are reached
    most = len(model.trees) * model.n_labels if several else labels.shape[1]
    everything = _Width(leaves, leaves, most)
    least = kernels.LOWEST + ranking.label.max()  # no path has less
    weights = [_weights(tree) for tree in model.trees]

    def search_rows(rows: Ints, width: _Width) -> Ints:
        """The best labels of some rows; returns the rows for which that is not certain."""
        uncertain: list[Ints] = []

        def work(start: int, stop: int) -> None:
            own = rows[start:stop]
            best, dropped = _best(model, weights, x, own, ranking, width, labels.shape[1])
            labels[own], scores[own] = best
            bound = np.maximum(dropped, least)
            uncertain.append(own[~(best[1][:, -1] > bound) & (dropped > -np.inf)])

        in_chunks(_row_bounds(len(rows), leaves, width, model), work)
        return np.sort(np.concatenate(uncertain)) if uncertain else rows[:0]

    rows = np.arange(len(labels))
    first = BEAM if beam is None or exact else beam
    of_leaves, of_inner = (-(-tenths * first // 10) for tenths in TENTHS[several])
    wished = _Width(of_leaves, of_inner, SPARE * labels.shape[1])
    while rows.size:
        width = _Width(*np.minimum(wished, everything).tolist())
        uncertain = search_rows(rows, width)
        if not exact or width == everything:
            return
        rows, wished = uncertain, _Width(*(4 * each for each in width))


def _row_bounds(n: int, leaves: int, width: _Width, model: TreeModel) -> Ints:
    """Chunks in which every leaf node meets a few rows, if memory allows."""
    per_leaf = max(int(np.diff(tree.shape.bounds).max()) for tree in model.trees)
    widest = max((1 << max(t.shape.bits, default=0) for t in model.trees), default=1)
    most = CANDIDATES // max(width.leaves * max(per_leaf, widest), width.candidates)
    rows = max(8 * leaves // width.leaves, min(CHUNK, max(1024, -(-n // 2))))
    rows = max(1, min(rows, most))
    return np.unique(np.r_[np.arange(0, n, rows), n])


def _best(
    model: TreeModel,
    weights: list[_Weights],
    x: Rows,
    rows: Ints,
    ranking: _Ranking,
    width: _Width,
    k: int,
) -> tuple[tuple[Indices, Singles], Floats]:
    """The best labels of some rows with their scores, and a bound of what was dropped."""
    n = len(rows)
    dropped = np.full(n, -np.inf)
    search = _Chunk.of(x, rows, ranking.link, model.n_features)
    labels = np.empty((n, width.candidates), dtype=np.int32)
    scores = np.empty(labels.shape, dtype=np.float32)
    sizes = np.zeros(n, dtype=np.int64)
    lost = np.full(n, -np.inf)
    searched = []
    for tree, own, bonus in zip(model.trees, weights, ranking.nodes, strict=True):
        levels = _descend(tree.shape, own, search, bonus, width, dropped)
        kernels.offer_labels(
            levels[-1], bonus[-1], read_only(tree.shape.order), ranking.label, labels, scores,
            sizes, lost,
        )  # fmt: skip
        searched.append(levels)
    if len(model.trees) == 1:
        kernels.drain(labels, scores, sizes)
        return (labels, scores), dropped
    kernels.distinct(labels, sizes, model.n_labels)
    sums = np.zeros(labels.shape)
    for tree, own, levels in zip(model.trees, weights, searched, strict=True):
        _add_scores(tree.shape, own, search, levels, labels, sizes, sums)
    best = np.empty((n, k), dtype=np.int32), np.empty((n, k), dtype=np.float32)
    kernels.best_of_many(labels, sizes, sums, len(model.trees), ranking.label, *best)
    return best, np.maximum(dropped, lost)


class _Scratch(NamedTuple):
    """Places of weights for every feature, and those of one row, with its values."""

    place: NDArray[np.uint32]
    begins: NDArray[np.uint32]
    ends: NDArray[np.uint32]
    amounts: Singles


class _Chunk(NamedTuple):
    """Rows that are searched together, the link of margins, and scratch space of the kernels."""

    x: Rows
    rows: Ints
    link: int
    scratch: _Scratch

    @classmethod
    def of(cls, x: Rows, rows: Ints, link: int, n_features: int) -> _Chunk:
        """Some rows of x."""
        longest = int(np.diff(x.indptr).max(initial=0)) + 1
        place = np.zeros((n_features, 2), dtype=np.uint32)
        begins, ends = np.empty((2, longest), dtype=np.uint32)
        return cls(x, rows, link, _Scratch(place, begins, ends, np.empty(longest, np.float32)))


class _Level(NamedTuple):
    """Pairs of rows and nodes of a level, by row, with the scores of their children."""

    row_starts: Ints
    nodes: Ints
    scores: Singles
    offsets: Ints
    out: Singles
    child_starts: Ints


def _descend(
    shape: Shape,
    weights: _Weights,
    search: _Chunk,
    bonus: list[Singles],
    width: _Width,
    dropped: Floats,
) -> list[_Level]:
    """From the root to the leaf nodes, the best nodes of every row on every level."""
    n = len(search.rows)
    row_starts, nodes = np.arange(n + 1), np.zeros(n, dtype=np.int64)
    scores = np.zeros(n, dtype=np.float32)
    levels = []
    for level, bits in enumerate(shape.bits):
        levels.append(_expanded(shape, weights, level, search, row_starts, nodes, scores))
        kept = width.leaves if level == len(shape.bits) - 1 else width.inner
        most = int(np.minimum(kept, np.diff(row_starts) << bits).sum())
        to = np.zeros(n + 1, dtype=np.int64)
        to_node, to_score = np.empty(most, np.int64), np.empty(most, np.float32)
        kernels.narrow(
            *levels[-1][:5], 1 << bits, *bonus[level : level + 2], kept, dropped,
            to, to_node, to_score,
        )  # fmt: skip
        row_starts, nodes, scores = to, to_node, to_score
    deepest = shape.levels - 1
    return [*levels, _expanded(shape, weights, deepest, search, row_starts, nodes, scores)]


def _expanded(
    shape: Shape,
    weights: _Weights,
    level: int,
    search: _Chunk,
    row_starts: Ints,
    nodes: Ints,
    scores: Singles,
) -> _Level:
    """Pairs with the scores of their children."""
    child_starts = read_only(shape.child_starts(level))
    offsets = np.r_[0, np.cumsum(np.diff(child_starts)[nodes])]
    out = np.empty(offsets[-1], dtype=np.float32)
    pairs = np.empty(len(nodes), dtype=np.int64)
    starts = np.empty(shape.nodes(level) + 1, dtype=np.int64)
    kernels.by_node(nodes, len(nodes), starts, pairs)
    of_row = np.repeat(search.rows, np.diff(row_starts))
    for first, part in weights[level]:
        kernels.expand(
            search.x, part, first, starts, pairs, of_row, scores, offsets, search.link,
            search.scratch, out,
        )  # fmt: skip
    return _Level(row_starts, nodes, scores, offsets, out, child_starts)


def _add_scores(
    shape: Shape,
    weights: _Weights,
    search: _Chunk,
    levels: list[_Level],
    candidates: Indices,
    sizes: Ints,
    sums: Floats,
) -> None:
    """Add what one tree says of the candidates of every row, reached by its search or not.

    From the root on, the nodes above them that are lacking are expanded too.
    """
    n = len(search.rows)
    leaf_of, child_of = np.empty((2, shape.n_labels), dtype=np.int64)
    leaf_of[shape.order] = np.repeat(np.arange(len(shape.bounds) - 1), np.diff(shape.bounds))
    child_of[shape.order] = np.arange(shape.n_labels)
    child_of -= shape.bounds[leaf_of]
    nothing, empty = np.zeros(n + 1, dtype=np.int64), np.empty(0, dtype=np.int64)
    added = _expanded(shape, weights, 0, search, nothing, empty, np.empty(0, dtype=np.float32))
    for level, bits in enumerate(shape.bits, start=1):
        to = np.zeros(n + 1, dtype=np.int64)
        nodes, scores = kernels.lacking(
            candidates, sizes, leaf_of, sum(shape.bits[level:]), bits, levels[level - 1], added,
            levels[level].row_starts, levels[level].nodes, to,
        )  # fmt: skip
        added = _expanded(shape, weights, level, search, to, nodes, scores)
    kernels.add_scores(candidates, sizes, leaf_of, child_of, levels[-1], added, sums)
