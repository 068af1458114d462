"""Label trees: very many labels, trained and predicted along the paths of balanced trees.

First the order of labels: similar labels are neighbours. A label is represented by the mean of the
rows that have it, scaled to length 1. All labels are halved by balanced spherical 2-means, then
every half, and so on; no half depends on another, and random choices depend on the seed and the
place alone, so the order is the same on any number of threads.

Then the nodes, which do not depend on each other once the order is there, so that every part of
every tree is a task of its own. A node's problem is that of one-vs-all for its children, on the
rows with a label below the node (all rows, for the root) and the features of these rows. Squared
hinge has a solver of its own; `one_vs_all` has those of the logistic loss and of fine tolerances.

A plan takes memory from shapes and time from a small tree:

    memory = process + features + centroids of labels + threads × the largest node
    time   = seconds per label of a sample × labels × (1 + log2(labels / sampled) / levels) × trees

The sample is a tree of a few thousand labels, drawn evenly over the frequencies, on the rows that
have one of them. A tree of twice the labels has one more halving, and a node more on every path.

The values stand in `tree_model`, the search for the best labels in `tree_search`.
"""

from __future__ import annotations

import hashlib
import math
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from unmask import __version__, _kernels, parallel, weights
from unmask._kernels import in_chunks, linear_state, tree_cluster
from unmask._kernels import tree_nodes as kernels
from unmask._kernels.linear_state import BLOCK as LANES
from unmask._kernels.linear_state import EXHAUSTED, Entries, Rows
from unmask._messages import named_options, setting
from unmask._typing import (
    BackendLike,
    FeaturesLike,
    Floats,
    Indices,
    Ints,
    LabelsLike,
    PathLike,
    Progress,
    PropensityLike,
    Singles,
)
from unmask.arrays import checks
from unmask.data import Dataset
from unmask.data.texts import Vocabulary
from unmask.files import atomic_write
from unmask.models import store, training, tree_model
from unmask.models.one_vs_all import START, solve_smooth
from unmask.models.problem import Problem, Recipe, Solution
from unmask.models.store import Beside, Earlier
from unmask.models.training import checked
from unmask.models.tree_model import Nodes, Part, Shape, Subtree, Tree, TreeModel
from unmask.models.tree_search import predict_top
from unmask.parallel import LocalRunner
from unmask.predictions import TopK

LOSSES = ("squared_hinge", "logistic")
"""The losses of nodes."""
CORRECTIONS = ("vanilla", "counts", "unbiased")
"""Targets that a tree is trained on; "unbiased" is "counts"."""
MOST_CHILDREN = 1 << 16
TOLERANCES = {"squared_hinge": 0.2, "logistic": 0.02}
"""Where to stop, unless told otherwise."""
FINE = 0.01
"""Tolerances below this are for Newton's method in float64."""
SHARE = 0.025
"""Conjugate gradients stop when further steps promise less than this part of the tolerance.

Less exact nodes lose precision on finna (docs/decisions/0013).
"""
SAMPLE = 2048
ITERATIONS = 10  # of 2-means
LEAST_GAIN = 1e-4
CHUNKS = 32


def _arity(value: int, name: str) -> None:
    checks.positive_int(value, name)
    if value < 2 or value & (value - 1) or value > MOST_CHILDREN:
        raise ValueError(f"arity must be a power of 2 from 2 to 65536; got {value}.")


def _leaf(value: int, name: str) -> None:
    checks.in_range(checks.positive_int(value, name), name, 1, MOST_CHILDREN // 2)


@dataclass(frozen=True)
class TreeRecipe(training.BaseRecipe):
    """The parameters of a label tree.

    Every node minimises, for each of its children, ½‖w‖² + C Σ_i loss over the rows that reach it.

    Parameters
    ----------
    loss : {"squared_hinge", "logistic"}, optional
        "squared_hinge" for vanilla and "logistic" for corrected trees if left out: ranking by
        P/p and counts need probabilities, which squared hinge only sketches.
    correction : {"vanilla", "counts", "unbiased"}, default "vanilla"
        "vanilla": a row belongs to a child that has one of its labels. "counts" ("unbiased"): a row
        weighs Σ 1/p over its labels below the node, and belongs to a child with the part of that
        which lies below the child; unbiased, convex, and products along a path become
        P(label | row) / E[number of true labels | row] (docs/decisions/0013).
    n_trees : int, default 3
        Trees that are averaged.
    arity : int, default 32
        Children of an inner node at most, a power of 2.
    leaf : int, default 24
        Labels of a leaf node, about.
    C : float, default 1.0
        The cost of the loss, as in liblinear.
    bias : {"regularized", "free", "none"}, default "regularized"
        A feature that is always 1; not in the penalty; or no bias.
    tol : float, optional
        A child is finished when the next step promises less than this share of its objective;
        0.2 for squared hinge and 0.02 for logistic if left out. Squared hinge takes smaller steps,
        of which all further ones together have to promise less than a fortieth of that.
    forcing : float, default 0.5
        Conjugate gradients within an iteration of Newton's method stop when a step gains less than
        this share of all gains (squared hinge with a tolerance below 0.01).
    max_iter : int, default 100
        Iterations per child.
    prune_below : float, default 0.1
        Drop weights below this size.
    seed : int, default 0
        Of the random choices of clustering.

    Raises
    ------
    ValueError
        If a name is unknown or a number out of range.

    References
    ----------
    Prabhu et al., *Parabel* (2018); Khandagale et al., *Bonsai* (2020); Wydmuch et al.,
    *Propensity-scored probabilistic label trees* (2021).

    Examples
    --------
    >>> TreeRecipe(n_trees=1, arity=16).stop
    0.2
    """

    loss: str | None = checked(None, training.one_of(LOSSES, "loss of a label tree"))
    correction: str = checked("vanilla", training.one_of(CORRECTIONS, "correction of a label tree"))
    n_trees: int = checked(3, checks.positive_int, "Trees that are averaged.")
    arity: int = checked(32, _arity)
    leaf: int = checked(24, _leaf)
    C: float = checked(1.0, training.above_zero)
    bias: str = checked("regularized", training.one_of(training.BIASES, "bias"))
    tol: float | None = checked(None, training.optional(training.above_zero))
    forcing: float = checked(0.5, training.above_zero)
    max_iter: int = checked(100, checks.positive_int)
    prune_below: float = checked(0.1, training.not_negative)
    seed: int = checked(0, partial(checks.in_range, low=0, high=2**20))

    def __post_init__(self) -> None:
        """Settle the loss, and refuse what is out of range."""
        if self.loss is None:
            object.__setattr__(self, "loss", LOSSES[self.counting])
        super().__post_init__()

    @property
    def settled_loss(self) -> str:
        """The loss, which is never left out of a recipe that was made."""
        return str(self.loss)

    @property
    def stop(self) -> float:
        """The tolerance: as told, or that of the loss."""
        return TOLERANCES[self.settled_loss] if self.tol is None else self.tol

    @property
    def counting(self) -> bool:
        """True if rows and children weigh what they count."""
        return self.correction != "vanilla"

    @property
    def solver(self) -> str:
        """All of it that decides the weights of a node."""
        return repr((__version__, replace(self, n_trees=1, arity=2, leaf=1, seed=0)))


class TrainingRows(NamedTuple):
    """Features by row, and rows by label with what each label weighs there.

    Rows are in the order of their lengths, which a processor can predict; n rows, d features.
    """

    x: Rows
    n_features: int
    starts: Ints
    rows: Indices
    weight: Floats

    @property
    def n(self) -> int:
        """Rows."""
        return len(self.x.indptr) - 1

    @property
    def n_labels(self) -> int:
        """Labels."""
        return len(self.starts) - 1


def prepare(
    features: FeaturesLike,
    labels: LabelsLike | Dataset,
    recipe: TreeRecipe,
    propensity: PropensityLike | None,
) -> TrainingRows:
    """Check features and labels, weigh the labels, and arrange both for training.

    Weights of labels are 1/p, divided by their mean, so that C means what it means without them.
    """
    if isinstance(labels, Dataset):
        if labels.judgements is not None:
            raise ValueError(
                "a label tree cannot use judged pairs; train one-vs-all "
                f"({setting('model', 'linear', of='tree.train')}), or leave the judgements out."
            )
        labels = labels.labels
    x, y = training.checked_rows(features, labels)
    weight = y
    if recipe.counting:
        if propensity is None:
            raise training.no_propensities(recipe.correction, of="tree.train")
        weight = weights.unbiased(y, propensity).pos
    order = np.argsort(np.diff(x.indptr), kind="stable")
    x, columns = x[order], weight[order].tocsc()
    index = np.ascontiguousarray(x.indices, dtype=np.int32).view(np.uint32)
    rows = Rows(x.indptr.astype(np.int64), index, x.data.astype(np.float32, copy=False))
    amount = columns.data.astype(np.float64)
    return TrainingRows(
        rows,
        x.shape[1],
        columns.indptr.astype(np.int64),
        columns.indices.astype(np.int32),
        amount / amount.mean() if amount.size else amount,
    )


@named_options
def train(
    features: FeaturesLike,
    labels: LabelsLike | Dataset,
    recipe: TreeRecipe | None = None,
    *,
    propensity: PropensityLike | None = None,
    progress: Progress | None = None,
    backend: BackendLike = None,
) -> TreeModel:
    """Train label trees in memory.

    Parameters
    ----------
    features : (n, d) matrix
        Dense or sparse; rows of length 1, such as tf-idf, are what C and the pruning are made for.
    labels : (n, L) matrix of 0 and 1, or Dataset
        Observed labels, dense or sparse.
    recipe : TreeRecipe, optional
        The parameters; their defaults if left out.
    propensity : (L,) numbers in (0, 1], or sparse (n, L), optional
        Needed by the correction "counts".
    progress : function (done, total), optional
        Called as subtrees are finished, with labels of all trees.
    backend : optional
        Where parts of trees are trained (`unmask.parallel`), which does not change the model.

    Returns
    -------
    TreeModel

    Raises
    ------
    ValueError
        If features, labels or propensities are out of range or do not fit each other.

    References
    ----------
    Prabhu et al., *Parabel* (2018); Khandagale et al., *Bonsai* (2020).

    Examples
    --------
    >>> model = train(np.eye(4), np.eye(4, dtype=int), TreeRecipe(n_trees=1, arity=2, leaf=1))
    >>> model.trees[0].shape.levels
    3
    """
    return train_counted(features, labels, recipe, propensity, progress, backend)[0]


def train_counted(
    features: FeaturesLike,
    labels: LabelsLike | Dataset,
    recipe: TreeRecipe | None,
    propensity: PropensityLike | None,
    progress: Progress | None,
    backend: BackendLike,
) -> tuple[TreeModel, int]:
    """Train as `train` does, and count the iterations of the node that took most."""
    recipe = recipe or TreeRecipe()
    data = prepare(features, labels, recipe, propensity)
    shapes = _shapes(data, recipe)
    solved: dict[Subtree, training.Done] = {}
    with parallel.connect(backend) as runner:
        training.Work(
            train_part, tree_model.write_part, Common(data, shapes, recipe), _tasks(shapes)
        ).run(
            runner,
            lambda task, done: solved.update({task: done}),
            training.counter(progress, data.n_labels * recipe.n_trees),
        )
    _warn(sum(done.log.exhausted for done in solved.values()), recipe)
    parts = {(task.tree, task.part): done.piece for task, done in solved.items()}
    trees = tuple(
        Tree(shape, tuple(parts[t, number] for number in range(shape.n_parts)))
        for t, shape in enumerate(shapes)
    )
    model = TreeModel(trees, recipe.settled_loss, data.n_features, recipe.parameters)
    return model, max(done.log.iterations for done in solved.values())


@named_options
def train_to(
    path: PathLike,
    features: FeaturesLike,
    labels: LabelsLike | Dataset,
    recipe: TreeRecipe | None = None,
    *,
    propensity: PropensityLike | None = None,
    idf: ArrayLike | None = None,
    label_names: Sequence[str] | None = None,
    vocabulary: Vocabulary | None = None,
    first: PathLike | None = None,
    resume: bool = True,
    progress: Progress | None = None,
    backend: BackendLike = None,
) -> TreeModel:
    """Train into a folder, part by part; a part that is there already is not trained again.

    Interrupted (even killed), the folder keeps its finished parts, and the same call goes on after
    them; the result is the same model, byte for byte, whatever the `backend`. A folder that was
    made from other data, with another recipe or by another version of this package is refused
    unless `resume` is False, which starts again; the model that is there stays until the new one is
    complete.

    Parameters
    ----------
    path : path
        The folder; made if it is not there.
    features, labels, recipe, propensity, progress, backend
        As of `train`.
    idf : (d,) floats, optional
        The word weights that made tf-idf of the features (`data.idf`); the model keeps them.
    label_names : L strings, optional
        The names of the labels; the model keeps them, and predictions carry them.
    vocabulary : Vocabulary, optional
        The words of the features, if those were made of texts; the model keeps it.
    first : path, optional
        The folder of a model of the same rows and of the first labels of these: new labels join
        the leaf nodes that are most like them, and only parts that change are trained.
    resume : bool, default True
        Whether to go on after the parts that are there.

    Returns
    -------
    TreeModel
        Its weights are mapped from the folder.

    Raises
    ------
    ValueError
        As `train`; and if the folder holds another model, a file is not what was written, or
        `first` is a model of other features or of more labels.

    Examples
    --------
    >>> import tempfile
    >>> model = train_to(tempfile.mkdtemp() + "/model", np.eye(4), np.eye(4, dtype=int))
    >>> model.n_labels
    4
    """
    recipe = recipe or TreeRecipe()
    data = prepare(features, labels, recipe, propensity)
    folder, total = Path(path).resolve(), data.n_labels * recipe.n_trees
    beside = Beside.checked(data.n_features, data.n_labels, idf, label_names, vocabulary)
    earlier = None if first is None else _First(Path(first).resolve())
    digest = _digest(*data.x)
    fingerprint = _fingerprint(data, digest, recipe, beside, earlier)
    note, exhausted = training.counter(progress, total), 0
    with store.own_folder(folder):
        before = tree_model.FORMAT.earlier(folder, fingerprint) if resume else Earlier(folder)
        shapes = _stored_shapes(before, data.n_labels)
        if shapes is None:
            shapes, before = _shapes(data, recipe, earlier), Earlier(folder)
        kept = before.pieces("parts")
        if before.whole and len(kept) == len(_tasks(shapes)):
            tree_model.FORMAT.remove_unlisted(folder)
            note(total)
            return tree_model.load(folder, verify=False)
        manifest = tree_model.FORMAT.header(
            recipe.settled_loss, data.n_labels, data.n_features, recipe.parameters, fingerprint
        )
        entries = [tree_model.write_shape(folder, t, shape) for t, shape in enumerate(shapes)]
        tree_model.FORMAT.begin(folder, {**manifest, "shapes": entries, "parts": kept}, beside)
        tree_model.FORMAT.remove_unlisted(folder)
        finished = {(entry["tree"], entry["part"]) for entry in kept}
        left = []
        for task in _tasks(shapes):
            if task[:2] not in finished:
                mark = _mark(data, digest, shapes[task.tree], task.part, recipe)
                marked = task._replace(mark=mark)
                if earlier is None or not earlier.copy(marked, folder):
                    left.append(marked)
        note(total - sum(task.n_labels for task in left))

        def report(task: Subtree, log: PartLog) -> None:
            nonlocal exhausted
            exhausted += log.exhausted

        def labels_kept() -> int:
            parts = tree_model.FORMAT.begun(folder, "parts")
            there = {(entry["tree"], entry["part"]) for entry in parts}
            return sum(task.n_labels for task in _tasks(shapes) if task[:2] in there)

        with (
            parallel.connect(backend if left else None) as runner,
            training.keeping(folder, labels_kept, total),
        ):
            training.Work(
                train_part, tree_model.write_part, Common(data, shapes, recipe), left
            ).run_into(folder, tree_model.FORMAT, "parts", runner, report, note)
        _warn(exhausted, recipe)
        tree_model.FORMAT.finish(folder)
        return tree_model.load(folder, verify=False)


class Common(NamedTuple):
    """The rows, shapes and recipe that all tasks share."""

    data: TrainingRows
    shapes: tuple[Shape, ...]
    recipe: TreeRecipe


def _tasks(shapes: Sequence[Shape]) -> list[Subtree]:
    """Return the parts of all trees, with the labels of subtrees."""
    tasks = []
    for t, shape in enumerate(shapes):
        for number in range(shape.n_parts):
            span = shape.part(number)[0]
            bounds = shape.node_bounds(span.level)
            labels = int(bounds[span.stop] - bounds[span.start]) if span.level == shape.cut else 0
            tasks.append(Subtree(t, number, labels))
    return tasks


def _warn(exhausted: int, recipe: TreeRecipe) -> None:
    if exhausted:
        training.warn_unconverged(
            f"{exhausted} children of nodes", recipe.max_iter, of="tree.train"
        )


def _shapes(
    data: TrainingRows, recipe: TreeRecipe, earlier: _First | None = None
) -> tuple[Shape, ...]:
    """Return one order of labels per tree; of an earlier model, with new labels added."""
    vectors = centroids(data.x, data.n_features, data.starts, data.rows)
    if earlier is not None:
        earlier.refuse_other(data, recipe)
        return tuple(_extended(shape, vectors) for shape in earlier.shapes)
    depth = tree_model.depth_of(data.n_labels, recipe.leaf)
    bounds = tree_model.unchangeable(tree_model.halves(data.n_labels, depth))
    bits = tree_model.split_bits(depth, recipe.arity)
    return tuple(
        Shape(tree_model.unchangeable(clustered(vectors, depth, recipe.seed + t)), bounds, bits)
        for t in range(recipe.n_trees)
    )


def _extended(shape: Shape, vectors: sp.csr_array) -> Shape:
    """Return the shape with new labels, each in the leaf node that is most like it.

    Labels that are like none join the smallest leaf nodes.
    """
    old, new = shape.n_labels, np.arange(shape.n_labels, vectors.shape[0])
    leaf_of = np.repeat(np.arange(len(shape.bounds) - 1), np.diff(shape.bounds))
    member = sp.csr_array(
        (np.ones(old, np.float32), (leaf_of, shape.order)), shape=(leaf_of[-1] + 1, len(new) + old)
    )
    similarity = sp.csr_array(vectors[new] @ (member @ vectors).T)
    sizes = np.diff(shape.bounds)
    chosen = np.empty(len(new), dtype=np.int64)
    for i in range(len(new)):
        own = slice(similarity.indptr[i], similarity.indptr[i + 1])
        values = similarity.data[own] / sizes[similarity.indices[own]]
        best = np.argmax(values) if values.size and values.max() > 0 else None
        chosen[i] = np.argmin(sizes) if best is None else similarity.indices[own][best]
        sizes[chosen[i]] += 1
    leaves = np.r_[leaf_of, chosen]
    places = np.argsort(leaves, kind="stable")
    order = np.r_[shape.order, new][places].astype(np.int32)
    return Shape(
        tree_model.unchangeable(order),
        tree_model.unchangeable(np.r_[0, np.cumsum(sizes)]),
        shape.bits,
    )


class _First:
    """The folder of a model to start from: its shapes, and its parts by their marks."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.head = folder, tree_model.FORMAT.read(folder)
        self.shapes = [
            tree_model.read_shape(folder, entry, self.head["labels"], verify=True)
            for entry in self.head["shapes"]
        ]
        self.parts = {entry["mark"]: entry for entry in self.head["parts"] if entry["mark"]}

    def refuse_other(self, data: TrainingRows, recipe: TreeRecipe) -> None:
        """Raise if labels cannot be added to this model."""
        head = self.head
        if head["features"] != data.n_features or head["labels"] > data.n_labels:
            raise ValueError(
                f"{self.folder} holds a model of {head['features']} features and {head['labels']} "
                f"labels; the data have {data.n_features} and {data.n_labels}. Labels can be added "
                "after those that are there, features cannot."
            )
        if len(self.shapes) != recipe.n_trees:
            raise ValueError(
                f"{self.folder} holds {len(self.shapes)} trees; got n_trees = {recipe.n_trees}."
            )

    def copy(self, task: Subtree, folder: Path) -> bool:
        """Copy a part that is the same here into another model's folder; False if none is."""
        entry = self.parts.get(task.mark)
        if entry is None:
            return False
        source = self.folder / entry["file"]
        if not store.intact(self.folder, entry):
            raise ValueError(f"{source} was altered or damaged; train anew.")
        name = f"part-{task.tree:04d}-{task.part:06d}-{entry['sha256'][:16]}.safetensors"
        with source.open("rb") as old, atomic_write(folder / name, follow=False) as new:
            shutil.copyfileobj(old, new)
        tree_model.FORMAT.add(
            folder, "parts", {**entry, "file": name, "tree": task.tree, "part": task.part}
        )
        return True


def _digest(*arrays: np.ndarray) -> bytes:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(repr((array.shape, array.dtype.str)).encode())
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.digest()


def _mark(
    data: TrainingRows, features: bytes, shape: Shape, number: int, recipe: TreeRecipe
) -> str:
    """Digest all that determines a part: its nodes, the rows of their labels, the recipe."""
    spans = shape.part(number)
    bounds = shape.node_bounds(spans[0].level)
    first, last = int(bounds[spans[0].start]), int(bounds[spans[0].stop])
    inside = shape.bounds[(shape.bounds >= first) & (shape.bounds <= last)] - first
    order = shape.order[first:last]
    entries = _entries_of(data.starts, order)
    about = (recipe.solver, [span.level for span in spans], shape.bits, features)
    digest = hashlib.sha256(repr(about).encode())
    digest.update(_digest(order, inside, data.rows[entries], data.weight[entries]))
    digest.update(_digest(np.diff(data.starts)[order]))
    return digest.hexdigest()


def _entries_of(starts: Ints, order: Indices) -> Ints:
    """Return the positions of the entries of some labels, one label after the other."""
    counts = np.diff(starts)[order]
    before = np.r_[0, np.cumsum(counts)[:-1]]
    return np.repeat(starts[order] - before, counts) + np.arange(counts.sum())


def _fingerprint(
    data: TrainingRows,
    features: bytes,
    recipe: TreeRecipe,
    beside: Beside,
    earlier: _First | None,
) -> str:
    """Digest all that determines the model, the version of this package included."""
    about = (__version__, recipe, beside.names, beside.vocabulary, features, data.n_features)
    digest = hashlib.sha256(repr(about).encode())
    digest.update(_digest(data.starts, data.rows, data.weight))
    if beside.idf is not None:
        digest.update(_digest(beside.idf))
    if earlier is not None:
        digest.update(_digest(*(each for s in earlier.shapes for each in (s.order, s.bounds))))
    return digest.hexdigest()


def _stored_shapes(earlier: Earlier, n_labels: int) -> tuple[Shape, ...] | None:
    """Return the shapes that an earlier run found, if all of them are there and whole."""
    entries = earlier.pieces("shapes")
    if earlier.head is None or entries != earlier.head["shapes"]:
        return None
    return tuple(tree_model.read_shape(earlier.folder, e, n_labels, verify=False) for e in entries)


# The order of labels


def centroids(x: Rows, n_features: int, starts: Ints, rows: Indices) -> sp.csr_array:
    """Unit vectors (labels × features) in the direction of the sum of each label's rows.

    `starts` and `rows` are the rows of every label. Labels without rows have zeros.
    """
    n_labels = len(starts) - 1
    sizes = np.diff(x.indptr)[rows]
    cost = np.r_[0, np.cumsum(sizes)][starts]
    cuts = np.searchsorted(cost, np.linspace(0, cost[-1], CHUNKS + 1))
    bounds = np.unique(np.r_[0, cuts, n_labels])

    lengths = np.empty(n_labels, np.int64)

    def count(first: int, last: int) -> None:
        tree_cluster.distinct(x, n_features, starts, rows, first, last, lengths)

    in_chunks(bounds, count)
    indptr = np.r_[0, np.cumsum(lengths)]
    indices, values = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.float32)

    def fill(first: int, last: int) -> None:
        tree_cluster.centroids(x, n_features, starts, rows, first, last, indptr, indices, values)

    in_chunks(bounds, fill)
    if indptr[-1] <= np.iinfo(np.int32).max:  # or `indices` would be copied to the size of `indptr`
        indptr = indptr.astype(np.int32)
    return sp.csr_array((values, indices, indptr), shape=(n_labels, n_features))


def clustered(vectors: sp.csr_array, depth: int, seed: int) -> Indices:
    """Return labels in an order whose ranges of `halves` are clusters, at every depth."""
    n_labels, d = vectors.shape
    z = Rows(vectors.indptr.astype(np.int64), vectors.indices, vectors.data)
    order = np.arange(n_labels, dtype=np.int32)
    for level in range(depth):
        bounds = tree_model.halves(n_labels, level)

        def work(first: int, last: int, level: int = level, bounds: Ints = bounds) -> None:
            centres = np.zeros((d, 2), dtype=np.float32)
            for v in range(first, last):
                own = order[bounds[v] : bounds[v + 1]]
                number = (seed << 40) + (v + (1 << level))
                tree_cluster.bisect(z, own, number, ITERATIONS, LEAST_GAIN, centres)

        in_chunks(np.unique(np.linspace(0, 1 << level, CHUNKS + 1).astype(np.int64)), work)
    return order


# Nodes


class _Packed(NamedTuple):
    """One node."""

    features: Indices
    starts: Ints
    children: NDArray[np.uint16]
    values: Singles
    bias: Singles
    exhausted: int
    iterations: int


class PartLog(NamedTuple):
    """Children of a part that ran out of iterations, and the most that one of them took."""

    exhausted: int
    iterations: int


def train_part(common: Common, task: Subtree) -> tuple[Part, PartLog]:
    """Train all nodes of a part."""
    data, shape = common.data, common.shapes[task.tree]
    places = np.full(data.n, -1, np.int32), np.full(data.n_features, -1, np.int32)
    levels, exhausted, iterations = [], 0, 1
    for span in shape.part(task.part):
        packed = [
            _train_node(data, shape, span.level, node, common.recipe, *places)
            for node in range(span.start, span.stop)
        ]
        levels.append(_level(packed))
        exhausted += sum(node.exhausted for node in packed)
        iterations = max([iterations, *(node.iterations for node in packed)])
    return tuple(levels), PartLog(exhausted, iterations)


def _level(nodes: list[_Packed]) -> Nodes:
    """Put nodes side by side."""

    def starts(sizes: Iterator[int]) -> Ints:
        return np.cumsum([0, *sizes], dtype=np.int64)

    entries = starts(len(node.values) for node in nodes)
    joined = Nodes(
        starts(len(node.features) for node in nodes),
        np.concatenate([node.features for node in nodes]),
        np.concatenate(
            [*(node.starts[:-1] + base for node, base in zip(nodes, entries, strict=False)),
             entries[-1:]]
        ),
        np.concatenate([node.children for node in nodes]),
        np.concatenate([node.values for node in nodes]),
        starts(len(node.bias) for node in nodes),
        np.concatenate([node.bias for node in nodes]),
    )  # fmt: skip
    return Nodes(*(tree_model.unchangeable(array) for array in joined._asdict().values()))


def _train_node(
    data: TrainingRows,
    shape: Shape,
    level: int,
    node: int,
    recipe: TreeRecipe,
    row_place: Indices,
    feature_place: Indices,
) -> _Packed:
    bounds = shape.child_bounds(level, node)
    below = (
        data.starts, data.rows, data.weight, shape.order[bounds[0] : bounds[-1]],
        bounds - bounds[0], level == 0, recipe.counting,
    )  # fmt: skip
    prune_below = np.float32(recipe.prune_below)
    if recipe.settled_loss == "squared_hinge" and recipe.stop >= FINE:
        settings = _settings(recipe, recipe.stop * SHARE)
        return _Packed(
            *kernels.train_hinge(
                data.x, *below, settings, _start(recipe.bias), prune_below, row_place, feature_place
            )
        )
    rows, counts, *entries = kernels.entries(*below, row_place)
    *x, names, squares = kernels.gather(data.x, rows, feature_place)
    starts, of_row, amount = entries
    problem = Problem(
        rows=Rows(*x),
        squares=squares,
        entries=Entries(starts, of_row, amount, amount),
        order=rows,
        shape=(len(rows), len(names), len(bounds) - 1),
        recipe=Recipe(
            recipe.settled_loss,
            C=recipe.C,
            bias=recipe.bias,
            tol=recipe.stop,
            max_iter=recipe.max_iter,
        ),
        cost=recipe.C,
        convex=np.ones(len(bounds) - 1, dtype=np.bool_),
        row_weights=counts if recipe.counting else None,
    )
    solution = _solve(problem, recipe.forcing)
    features, starts, child, value = kernels.pack(
        kernels.blocks(solution.weights), names, prune_below
    )
    bias = np.ascontiguousarray(solution.weights[:, -1])
    exhausted = int((solution.status == EXHAUSTED).sum())
    iterations = int(solution.iterations.max(initial=1))
    return _Packed(features, starts, child, value, bias, exhausted, iterations)


def _solve(problem: Problem, forcing: float) -> Solution:
    """Return the optimum of every child; without rows that is 0."""
    n, d, children = problem.shape
    if n == 0:
        return Solution.empty(children, d)
    if problem.recipe.loss == "logistic":
        return solve_smooth(problem)
    return _solve_hinge(problem, forcing)


def _solve_hinge(problem: Problem, forcing: float) -> Solution:
    (n, d, children), recipe = problem.shape, problem.recipe
    settings = linear_state.Settings(
        problem.cost, problem.penalty, recipe.bias != "none", recipe.tol, forcing, recipe.max_iter
    )
    solution = Solution.empty(children, d)
    scale: Floats = 1.0 / (1.0 + 2.0 * problem.cost * problem.squares)
    kernels.solve(
        problem.rows,
        problem.entries,
        settings,
        scale,
        _start(recipe.bias),
        linear_state.block(n, d),
        linear_state.scratch(n, d, len(problem.rows.data), problem.row_weights),
        solution.weights,
        solution.objective,
        solution.iterations,
        solution.status,
    )
    return solution


def _settings(recipe: TreeRecipe, tol: float) -> linear_state.Settings:
    penalty = 1.0 if recipe.bias == "regularized" else 0.0
    return linear_state.Settings(
        recipe.C, penalty, recipe.bias != "none", tol, recipe.forcing, recipe.max_iter
    )


def _start(bias: str) -> float:
    """Return the bias to start from: below the margin of a negative, so that no row is active."""
    return 0.0 if bias == "none" else START


# Plans and predictions of training rows


@dataclass(frozen=True, kw_only=True)
class TreePlan(training.BasePlan):
    """The needs of training trees: memory in bytes, time in seconds.

    Attributes
    ----------
    rows, features, labels, trees : int
        Sizes.
    levels, parts : int
        Levels of nodes of a tree, and parts that are trained as a task each.
    threads : int
        Threads of this process.
    memory, available : int, int or None
        What training needs at its peak, and what this machine has free (None: unknown).
    seconds_per_label, seconds : float
        Of one thread, over all trees; and of the whole.
    model_bytes : int
        What the model will take on disk.
    sampled : int
        The labels of the tree from which time and size were extrapolated.

    Examples
    --------
    >>> needs = plan(np.eye(4), np.eye(4, dtype=int))
    >>> needs.labels, needs.trees, needs.to_dict()["levels"]
    (4, 3, 1)
    """

    trees: int
    levels: int
    parts: int


@named_options
def plan(
    features: FeaturesLike,
    labels: LabelsLike | Dataset,
    recipe: TreeRecipe | None = None,
    *,
    propensity: PropensityLike | None = None,
    sample: int = SAMPLE,
) -> TreePlan:
    """Say what `train_to` would need with these arguments, on the threads of this process.

    Parameters
    ----------
    features : (n, d) matrix
        Dense or sparse.
    labels : (n, L) matrix of 0 and 1, or Dataset
        Observed labels.
    recipe : TreeRecipe, optional
        The parameters; their defaults if left out.
    propensity : (L,) numbers in (0, 1], optional
        Needed by the correction "counts".
    sample : int, default 2048
        Labels of the tree that is trained to measure the time.

    Returns
    -------
    TreePlan

    Raises
    ------
    ValueError
        As `train`.

    Examples
    --------
    >>> plan(np.eye(4), np.eye(4, dtype=int), TreeRecipe(n_trees=1)).sampled
    4
    """
    recipe = recipe or TreeRecipe()
    checks.positive_int(sample, "sample")
    data = prepare(features, labels, recipe, propensity)
    depth = tree_model.depth_of(data.n_labels, recipe.leaf)
    bits = tree_model.split_bits(depth, recipe.arity)
    leaves = 1 << sum(bits)
    shape = Shape(np.arange(leaves, dtype=np.int32), np.arange(leaves + 1), bits)
    seconds, stored, sampled = _measure(data, recipe, sample)
    growth = 1 + (
        math.log2(data.n_labels / sampled) / (tree_model.depth_of(sampled, recipe.leaf) + 2)
    )
    per_label = seconds / sampled * growth * recipe.n_trees
    threads = _kernels.threads()
    return TreePlan(
        rows=data.n,
        features=data.n_features,
        labels=data.n_labels,
        trees=recipe.n_trees,
        levels=len(bits) + 1,
        parts=shape.n_parts * recipe.n_trees,
        threads=threads,
        memory=memory(data, recipe, threads),
        available=LocalRunner().resources().memory,
        seconds_per_label=per_label,
        seconds=per_label * data.n_labels / threads,
        model_bytes=round(stored / sampled * data.n_labels * recipe.n_trees),
        sampled=sampled,
    )


def _measure(data: TrainingRows, recipe: TreeRecipe, sample: int) -> tuple[float, int, int]:
    """Seconds and bytes of one tree of some labels, and how many; compiled code is loaded."""
    picked = training.spread_labels(np.diff(data.starts), sample)
    x = sp.csr_array(
        (data.x.data, data.x.indices.view(np.int32), data.x.indptr), (data.n, data.n_features)
    )
    columns = sp.csc_array((data.weight, data.rows, data.starts), (data.n, data.n_labels))
    y = sp.csr_array(columns[:, picked])
    rows = np.flatnonzero(np.diff(y.indptr))
    rows = rows if rows.size else np.arange(1)
    one = replace(recipe, n_trees=1, correction="vanilla")  # of the loss that was settled
    x, y = x[rows], sp.csr_array((y[rows] > 0).astype(np.float32))
    train(x, y[:, : min(4, y.shape[1])], one)
    with _kernels.using_threads(1):
        start = time.perf_counter()
        model = train(x, y, one)
        took = time.perf_counter() - start
    arrays = (array for part in model.trees[0].parts for nodes in part for array in nodes)
    return took, sum(int(array.nbytes) for array in arrays), len(picked)


def memory(data: TrainingRows, recipe: TreeRecipe, threads: int) -> int:
    """Bytes at the peak: twice the features and the centroids of labels, or training of nodes."""
    arrays = (*data.x, data.starts, data.rows, data.weight)
    features = sum(int(array.nbytes) for array in arrays)
    entries = int(np.diff(data.x.indptr)[data.rows].sum())
    clustering = 2 * 8 * entries
    root = (20 * LANES + 88) * data.n + 16 * len(data.x.data) + (20 * LANES + 68) * data.n_features
    return training.PROCESS + 2 * features + max(clustering, threads * root)


@named_options
def predict_unseen(
    model: TreeModel,
    features: FeaturesLike,
    labels: LabelsLike,
    k: int,
    *,
    propensity: PropensityLike | None = None,
    seed: int = 0,
) -> TopK:
    """Return the k best labels of training rows, each by a tree of the other half.

    A tree knows the labels of the rows that it was trained on, so that it cannot say which of them
    are missing there. Both halves are trained with the recipe of the model.

    Parameters
    ----------
    model : TreeModel
        Says the recipe.
    features : (n, d) matrix
        Dense or sparse.
    labels : (n, L) matrix of 0 and 1
        Observed labels.
    k : int
        Labels per row.
    propensity : (L,) numbers in (0, 1], optional
        Needed by trees of counts.
    seed : int, default 0
        Of the division into halves.

    Returns
    -------
    TopK
        As of `predict_top`.

    Raises
    ------
    ValueError
        As `train` and `predict_top`; and if there are fewer than two rows.

    Examples
    --------
    >>> from unmask import tree
    >>> features, labels = np.tile(np.eye(4), (4, 1)), np.tile(np.eye(4, dtype=int), (4, 1))
    >>> model = tree.train(features, labels)
    >>> predict_unseen(model, features, labels, 1).labels[:4].ravel()
    array([0, 1, 2, 3], dtype=int32)
    """
    x, y = checks.columns(features), checks.labels(labels)
    checks.same_rows(x, y, "features", "labels")
    n = x.shape[0]
    if n < 2:
        raise ValueError(f"predicting rows from others needs at least two rows; got {n}.")
    settings: dict[str, Any] = dict(model.parameters)
    recipe = TreeRecipe(**settings)
    best = np.full((n, k), -1, dtype=np.int32)
    scores = np.full((n, k), -np.inf, dtype=np.float32)
    order = np.random.default_rng(seed).permutation(n)
    halves = np.array_split(order, 2)
    for own, other in (halves, halves[::-1]):
        fitted = train(x[np.sort(other)], y[np.sort(other)], recipe, propensity=propensity)
        top = predict_top(fitted, x[own], k)
        best[own], scores[own] = top.labels, top.scores
    return TopK(best, scores, names=model.label_names)
