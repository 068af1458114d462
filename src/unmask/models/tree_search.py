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

from typing import NamedTuple

import numpy as np

from unmask._kernels import in_chunks
from unmask._kernels import tree_predict as kernels
from unmask._kernels.lanes import WIDTH
from unmask._kernels.linear_state import Rows
from unmask._messages import named_options
from unmask._typing import FeaturesLike, Floats, Indices, Ints, PropensityLike, Singles
from unmask.arrays import checks
from unmask.models.training import by_ratio, checked_features, ranking_propensity
from unmask.models.tree_model import LINKS, Nodes, Tree, TreeModel, read_only, refuse_bad_model
from unmask.predictions import TopK

BEAM = 20
CANDIDATES = 1 << 24  # labels that are scored at once, at most
CHUNK = 1 << 14  # rows that are searched together
PER_LEAF = 32  # rows that a leaf node meets in a chunk, at least, if memory allows
TENTHS = (10, 7), (6, 6)
"""Width of the beam: leaf nodes and nodes above that are kept, in one tree and in several."""
SPARE = 4  # labels that are candidates for all trees, for every one that is asked for
TABLE = 1 << 21  # weights that are written out at once, at most


@named_options
def predict_top(
    model: TreeModel,
    features: FeaturesLike,
    k: int,
    *,
    rank_by: str = "score",
    propensity: PropensityLike | None = None,
    beam: int | None = BEAM,
) -> TopK:
    """Return the k best labels of every row.

    Parameters
    ----------
    model : TreeModel
    features : (n, d) matrix
        Dense or sparse.
    k : int
        Labels per row; all of them where there are fewer.
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
    k = min(checks.positive_int(k, "k"), model.n_labels)
    if beam is not None:
        checks.positive_int(beam, "beam")
    ranking = _ranking(model, rank_by, propensity)
    labels = np.full((matrix.shape[0], k), -1, dtype=np.int32)
    scores = np.full(labels.shape, -np.inf, dtype=np.float32)
    x = Rows(matrix.indptr, matrix.indices, matrix.data.astype(np.float32, copy=False))
    _search(model, x, ranking, beam, labels, scores)
    return TopK(labels, scores, names=model.label_names)


class _Ranking(NamedTuple):
    """The kernels' link of margins; −ln p of every label, and of the best below every node."""

    link: int
    label: Singles
    nodes: list[list[Singles]]

    @property
    def lowest(self) -> float:
        """No path has less, with the bonus of its label."""
        return float(kernels.LOWEST + self.label.max())


def _ranking(model: TreeModel, rank_by: str, propensity: PropensityLike | None) -> _Ranking:
    if not by_ratio(rank_by):
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


class _Weights(NamedTuple):
    """A level of a tree as kernels take it.

    The first node and the weights of each part that has nodes of it, where the children of nodes
    begin, and the most that a node has of features and of children.
    """

    parts: list[tuple[int, Nodes]]
    child_starts: Ints
    most_features: int
    most_children: int


class _Searched(NamedTuple):
    """A tree that is searched: its levels, the bonus of their nodes, and where its labels are.

    Label j is child `child_of[j]` of the leaf node `leaf_of[j]`.
    """

    bits: tuple[int, ...]
    order: Indices
    levels: list[_Weights]
    bonus: list[Singles]
    leaf_of: Indices
    child_of: Indices

    @classmethod
    def of(cls, tree: Tree, bonus: list[Singles]) -> _Searched:
        """Return the tree as kernels take it."""
        shape = tree.shape
        parts: list[list[tuple[int, Nodes]]] = [[] for _ in range(shape.levels)]
        for number, part in enumerate(tree.parts):
            for span, nodes in zip(shape.part(number), part, strict=True):
                parts[span.level].append((span.start, nodes.read_only))
        levels = []
        for level, own in enumerate(parts):
            features = max(int(np.diff(nodes.feature_starts).max()) for _, nodes in own)
            starts = read_only(shape.child_starts(level))
            levels.append(_Weights(own, starts, features, int(np.diff(starts).max())))
        leaf_of, child_of = np.empty((2, shape.n_labels), dtype=np.int32)
        leaf_of[shape.order] = np.repeat(np.arange(len(shape.bounds) - 1), np.diff(shape.bounds))
        child_of[shape.order] = np.arange(shape.n_labels)
        child_of -= shape.bounds[leaf_of]
        return cls(shape.bits, read_only(shape.order), levels, bonus, leaf_of, child_of)


class _Width(NamedTuple):
    """The most that a search keeps of a row: leaf nodes, nodes above them, and labels."""

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
    trees = [_Searched.of(*each) for each in zip(model.trees, ranking.nodes, strict=True)]

    def search_rows(rows: Ints, width: _Width) -> Ints:
        """Find the best labels of some rows; return the rows for which that is uncertain."""
        uncertain: list[Ints] = []

        def work(start: int, stop: int) -> None:
            own = rows[start:stop]
            chunk = _Chunk.of(x, own, ranking, model.n_features)
            best, dropped = _best(trees, chunk, width, labels.shape[1])
            labels[own], scores[own] = best
            bound = np.maximum(dropped, ranking.lowest)
            uncertain.append(own[~(best[1][:, -1] > bound) & (dropped > -np.inf)])

        in_chunks(_row_bounds(len(rows), trees, width), work)
        return np.sort(np.concatenate(uncertain)) if uncertain else rows[:0]

    rows = np.arange(len(labels))
    first = BEAM if beam is None or exact else beam
    of_leaves, of_inner = (-(-tenths * first // 10) for tenths in TENTHS[several])
    width = _Width(of_leaves, of_inner, SPARE * labels.shape[1])
    while rows.size:
        width = _Width(*map(min, width, everything))
        uncertain = search_rows(rows, width)
        if not exact or width == everything:
            return
        rows, width = uncertain, _Width(*(4 * each for each in width))


def _row_bounds(n: int, trees: list[_Searched], width: _Width) -> Ints:
    """Chunks in which every leaf node meets a few rows, if memory allows."""
    leaves = max(len(tree.levels[-1].child_starts) - 1 for tree in trees)
    widest = max(level.most_children for tree in trees for level in tree.levels)
    most = CANDIDATES // max(width.leaves * _padded(widest), width.candidates)
    rows = max(PER_LEAF * leaves // width.leaves, CHUNK)
    rows = max(1, min(rows, most, max(1024, -(-n // 2))))
    return np.linspace(0, n, -(-n // rows) + 1).astype(np.int64)


def _padded(children: int) -> int:
    """Return the next multiple of the numbers that travel in one register."""
    return -(-children // WIDTH) * WIDTH


class _Pairs(NamedTuple):
    """Pairs of a row and a node of a level, by row, and the scores of their paths."""

    row_starts: Ints
    nodes: Indices
    scores: Singles

    @classmethod
    def room(cls, rows: int, most: int) -> _Pairs:
        """Return room for some pairs."""
        starts = np.zeros(rows + 1, dtype=np.int64)
        return cls(starts, np.empty(most, np.int32), np.empty(most, np.float32))

    def cut(self, count: int) -> _Pairs:
        """Return the first pairs."""
        return _Pairs(self.row_starts, self.nodes[:count], self.scores[:count])


class _Level(NamedTuple):
    """Pairs with the scores of the children of their nodes, in row `place` of `out`."""

    row_starts: Ints
    nodes: Indices
    scores: Singles
    place: Indices
    out: Singles


class _Meetings(NamedTuple):
    """Pairs in the order of their nodes: where those of a node begin, their rows and scores."""

    starts: Ints
    rows: Indices
    scores: Singles


class _Scratch(NamedTuple):
    """Room of the kernel that expands nodes: see there."""

    place: Indices
    base: Ints
    table: Singles
    entries: Ints
    amounts: Singles


class _Chunk(NamedTuple):
    """Rows that are searched together, how labels are ranked, and the marks of features."""

    x: Rows
    rows: Ints
    ranking: _Ranking
    longest: int
    place: Indices
    base: Ints

    @classmethod
    def of(cls, x: Rows, rows: Ints, ranking: _Ranking, n_features: int) -> _Chunk:
        """Return some rows of x."""
        longest = max(1, int(np.diff(x.indptr).max(initial=0)))
        return cls(x, rows, ranking, longest, np.zeros(n_features, np.int32), np.ones(1, np.int64))

    def expanded(self, weights: _Weights, pairs: _Pairs) -> _Level:
        """Return pairs with the scores of their children."""
        count, padded = len(pairs.nodes), _padded(weights.most_children)
        place = np.empty(count, dtype=np.int32)
        out = np.empty((count, padded), dtype=np.float32)
        if count:
            starts = np.empty(len(weights.child_starts), dtype=np.int64)
            meetings = _Meetings(starts, np.empty_like(place), np.empty(count, np.float32))
            kernels.by_node(pairs, self.rows, meetings, place)
            scratch = self._scratch(weights.most_features, padded)
            for first, part in weights.parts:
                kernels.expand(self.x, part, first, meetings, self.ranking.link, scratch, out)
        return _Level(*pairs, place, out)

    def _scratch(self, features: int, padded: int) -> _Scratch:
        """Return room for the weights of a node's features, or of as many as a table may have."""
        rows = 1 + max(self.longest, min(features, TABLE // padded))
        entries = np.empty(self.longest, dtype=np.int64)
        amounts = np.empty(self.longest, dtype=np.float32)
        return _Scratch(self.place, self.base, _aligned(rows, padded), entries, amounts)


def _aligned(rows: int, columns: int) -> Singles:
    """Return zeros that begin where a line of memory begins."""
    size = rows * columns
    room = np.zeros(size + kernels.LINE // 4, dtype=np.float32)
    start = -room.ctypes.data % kernels.LINE // 4
    return room[start : start + size].reshape(rows, columns)


class _Heaps(NamedTuple):
    """The best labels of every row so far, on a heap each."""

    labels: Indices
    keys: Singles
    sizes: Ints


def _best(
    trees: list[_Searched], chunk: _Chunk, width: _Width, k: int
) -> tuple[tuple[Indices, Singles], Floats]:
    """Return the best labels of some rows with their scores, and a bound of what was dropped."""
    n = len(chunk.rows)
    dropped, lost = np.full((2, n), -np.inf)
    labels = np.empty((n, width.candidates), dtype=np.int32)
    heaps = _Heaps(labels, np.empty(labels.shape, np.float32), np.zeros(n, np.int64))
    searched = []
    for tree in trees:
        levels = _descend(tree, chunk, width, dropped)
        kernels.offer_labels(
            levels[-1], tree.levels[-1].child_starts, tree.bonus[-1], tree.order,
            chunk.ranking.label, heaps, lost,
        )  # fmt: skip
        searched.append(levels)
    if len(trees) == 1:
        kernels.drain(*heaps)
        return (heaps.labels, heaps.keys), dropped
    dropped = np.maximum(dropped, lost)
    bound = np.maximum(dropped, chunk.ranking.lowest)
    kernels.contenders(heaps, k, len(trees), len(chunk.ranking.label), bound)
    sums = np.zeros(labels.shape)
    for tree, levels in zip(trees, searched, strict=True):
        _add_scores(tree, chunk, levels, heaps, sums)
    best = np.empty((n, k), dtype=np.int32), np.empty((n, k), dtype=np.float32)
    kernels.best_of_many(labels, heaps.sizes, sums, len(trees), chunk.ranking.label, *best)
    return best, dropped


def _descend(tree: _Searched, chunk: _Chunk, width: _Width, dropped: Floats) -> list[_Level]:
    """From the root to the leaf nodes, the best nodes of every row on every level."""
    n = len(chunk.rows)
    pairs = _Pairs(np.arange(n + 1), np.zeros(n, np.int32), np.zeros(n, np.float32))
    levels = []
    for level, bits in enumerate(tree.bits):
        levels.append(chunk.expanded(tree.levels[level], pairs))
        kept = width.leaves if level == len(tree.bits) - 1 else width.inner
        most = int(np.minimum(kept, np.diff(pairs.row_starts) << bits).sum())
        pairs = _Pairs.room(n, most)
        kernels.narrow(levels[-1], 1 << bits, *tree.bonus[level : level + 2], kept, dropped, pairs)
    return [*levels, chunk.expanded(tree.levels[-1], pairs)]


def _add_scores(
    tree: _Searched, chunk: _Chunk, levels: list[_Level], heaps: _Heaps, sums: Floats
) -> None:
    """Add what one tree says of the candidates of every row, reached by its search or not.

    From the root on, the nodes above them that are lacking are expanded too.
    """
    n, (candidates, _, sizes) = len(chunk.rows), heaps
    added = chunk.expanded(tree.levels[0], _Pairs.room(n, 0))
    for level, bits in enumerate(tree.bits, start=1):
        pairs = _Pairs.room(n, int(sizes.sum()))
        count = kernels.lacking(
            candidates, sizes, tree.leaf_of, sum(tree.bits[level:]), bits,
            (levels[level - 1], added), levels[level], pairs,
        )  # fmt: skip
        added = chunk.expanded(tree.levels[level], pairs.cut(count))
    kernels.add_scores(candidates, sizes, tree.leaf_of, tree.child_of, (levels[-1], added), sums)
