"""From features and labels to a label tree: the order of labels first, then part by part, anywhere.

No node depends on another once the order is there, so every part of every tree is a task of its
own; `train_to` writes each as it is finished and skips those that are already there.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from unmask import __version__, parallel
from unmask._messages import named_options, warn
from unmask._typing import (
    BackendLike,
    FeaturesLike,
    Indices,
    Ints,
    LabelsLike,
    PathLike,
    Progress,
    PropensityLike,
)
from unmask.data import Dataset
from unmask.data.texts import Vocabulary
from unmask.files import atomic_write
from unmask.linear import folders
from unmask.linear.folders import Beside, intact
from unmask.linear.problem import UnconvergedWarning, unconverged
from unmask.linear.solving import counter
from unmask.linear.training import beside_of, own_folder, refuse_started
from unmask.tree import files
from unmask.tree.clustering import centroids, clustered
from unmask.tree.model import Tree, TreeModel
from unmask.tree.nodes import Part, train_part
from unmask.tree.recipe import TrainingRows, TreeRecipe, prepare
from unmask.tree.shape import Shape, depth_of, halves, split_bits, unchangeable


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
    recipe = recipe or TreeRecipe()
    return train_counted(features, labels, recipe, propensity, progress, backend)[0]


def train_counted(
    features: FeaturesLike,
    labels: LabelsLike | Dataset,
    recipe: TreeRecipe,
    propensity: PropensityLike | None,
    progress: Progress | None,
    backend: BackendLike,
) -> tuple[TreeModel, int]:
    """Train as `train`, and say how many iterations the slowest node took."""
    data = prepare(features, labels, recipe, propensity)
    shapes = _shapes(data, recipe)
    tasks = _tasks(shapes)
    note = counter(progress, data.n_labels * recipe.n_trees)
    parts: dict[tuple[int, int], Part] = {}
    exhausted, iterations = 0, 0
    with parallel.connect(backend) as runner:
        shared = Common(data, shapes, recipe)
        with closing(runner.run(train_task, tasks, shared)) as finished:
            for position, done in finished:
                exhausted += done.exhausted
                iterations = max(iterations, done.iterations)
                if done.levels is not None:
                    parts[tasks[position]] = done.levels
                note(_labels_of(shapes, tasks[position]))
    _warn(exhausted, recipe)
    trees = tuple(
        Tree(shape, tuple(parts[t, number] for number in range(shape.n_parts)))
        for t, shape in enumerate(shapes)
    )
    model = TreeModel(trees, recipe.settled_loss, data.n_features, asdict(recipe))
    return model, iterations


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
    folder = Path(path).resolve()
    beside = beside_of((data.n_features, data.n_labels), idf, label_names, vocabulary)
    earlier = None if first is None else _First(Path(first).resolve())
    digest = _digest(*data.x)
    fingerprint = _fingerprint(data, digest, recipe, beside, earlier)
    note = counter(progress, data.n_labels * recipe.n_trees)
    with own_folder(folder):
        head = _earlier(folder, fingerprint) if resume else None
        shapes = _stored_shapes(folder, head, data.n_labels)
        if shapes is None:
            shapes, head = _shapes(data, recipe, earlier), None
        kept = [] if head is None else [e for e in head["parts"] if intact(folder, e)]
        manifest = files.FORMAT.header(
            recipe.settled_loss, data.n_labels, data.n_features, asdict(recipe), fingerprint
        )
        entries = [files.write_shape(folder, t, shape) for t, shape in enumerate(shapes)]
        folders.begin(folder, {**manifest, "shapes": entries, "parts": kept}, beside)
        files.FORMAT.remove_unlisted(folder)
        finished = {(entry["tree"], entry["part"]) for entry in kept}
        marks = {
            task: _mark(data, digest, shapes[task[0]], task[1], recipe)
            for task in _tasks(shapes)
            if task not in finished
        }
        if earlier is not None:
            finished |= earlier.copy_parts(marks, folder)
        for task in finished:
            note(_labels_of(shapes, task))
        left = {task: mark for task, mark in marks.items() if task not in finished}
        exhausted = _train_parts(Common(data, shapes, recipe), left, folder, note, backend)
        _warn(exhausted, recipe)
        files.FORMAT.finish(folder)
        return files.load(folder, verify=False)


def _tasks(shapes: Sequence[Shape]) -> list[tuple[int, int]]:
    """The parts of all trees: the number of the tree, and of the part in it."""
    return [(t, number) for t, shape in enumerate(shapes) for number in range(shape.n_parts)]


def _train_parts(
    common: Common,
    marks: Mapping[tuple[int, int], str],
    folder: Path,
    note: Callable[[int], None],
    backend: BackendLike,
) -> int:
    """Train parts, list each in the manifest; how many problems ran out of steps."""
    tasks, exhausted = list(marks), 0
    with parallel.connect(backend if tasks else None) as runner:
        written_to = str(folder) if runner.shares_folder(folder) else None
        shared = common._replace(folder=written_to)
        with closing(runner.run(train_task, tasks, shared, folder=folder)) as parts:
            for position, done in parts:
                exhausted += done.exhausted
                _add(folder, tasks[position], done, marks[tasks[position]])
                note(_labels_of(common.shapes, tasks[position]))
    return exhausted


class Common(NamedTuple):
    """What all tasks share; `folder` is where to write parts, None for sending them back."""

    data: TrainingRows
    shapes: tuple[Shape, ...]
    recipe: TreeRecipe
    folder: str | None = None


class Done(NamedTuple):
    """A part that is trained: its nodes, or the manifest's entry of the file that was written."""

    exhausted: int
    iterations: int
    levels: Part | None = None
    entry: files.PartEntry | None = None


def train_task(common: Common, task: tuple[int, int]) -> Done:
    """Train a part of a tree, wherever that is."""
    tree, number = task
    trained = train_part(common.data, common.shapes[tree], number, common.recipe)
    if common.folder is None or not Path(common.folder).is_dir():
        return Done(trained.exhausted, trained.iterations, trained.levels)
    entry = files.write_part(Path(common.folder), tree, number, trained.levels, "")
    return Done(trained.exhausted, trained.iterations, entry=entry)


def _add(folder: Path, task: tuple[int, int], done: Done, mark: str) -> None:
    """A finished part into the manifest; its file first, and seen to be whole."""
    entry = done.entry
    if done.levels is not None:
        entry = files.write_part(folder, *task, done.levels, mark)
    if entry is not None:
        folders.wait_for(folder, entry)
        files.FORMAT.add(folder, "parts", {**entry, "mark": mark})


def _warn(exhausted: int, recipe: TreeRecipe) -> None:
    if exhausted:
        warn(
            unconverged(f"{exhausted} children of nodes", recipe.max_iter, of="tree.train"),
            UnconvergedWarning,
        )


def _labels_of(shapes: Sequence[Shape], task: tuple[int, int]) -> int:
    """The labels of a subtree; 0 of the nodes above all subtrees."""
    shape = shapes[task[0]]
    span = shape.part(task[1])[0]
    if span.level != shape.cut:
        return 0
    bounds = shape.node_bounds(span.level)
    return int(bounds[span.stop] - bounds[span.start])


def _shapes(
    data: TrainingRows, recipe: TreeRecipe, earlier: _First | None = None
) -> tuple[Shape, ...]:
    """One order of labels per tree; of an earlier model, with new labels where they fit best."""
    vectors = centroids(data.x, data.n_features, data.starts, data.rows)
    if earlier is not None:
        earlier.refuse_other(data, recipe)
        return tuple(_extended(shape, vectors) for shape in earlier.shapes)
    depth = depth_of(data.n_labels, recipe.leaf)
    bounds = unchangeable(halves(data.n_labels, depth))
    bits = split_bits(depth, recipe.arity)
    return tuple(
        Shape(unchangeable(clustered(vectors, depth, recipe.seed + t)), bounds, bits)
        for t in range(recipe.n_trees)
    )


def _extended(shape: Shape, vectors: sp.csr_array) -> Shape:
    """The shape with the labels that it lacks, each in the leaf node whose labels are most like it.

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
    return Shape(unchangeable(order), unchangeable(np.r_[0, np.cumsum(sizes)]), shape.bits)


class _First:
    """The folder of a model to start from: its shapes, and its parts by their marks."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.head = folder, cast("files.Head", files.FORMAT.read(folder))
        self.shapes = [
            files.read_shape(folder, entry, self.head["labels"], verify=True)
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

    def copy_parts(
        self, marks: Mapping[tuple[int, int], str], folder: Path
    ) -> set[tuple[int, int]]:
        """Copy the parts that are the same here into another model's folder; which those are."""
        same = {task: mark for task, mark in marks.items() if mark in self.parts}
        for task, mark in same.items():
            files.FORMAT.add(folder, "parts", self._copy(mark, folder, *task))
        return set(same)

    def _copy(self, mark: str, folder: Path, tree: int, number: int) -> files.PartEntry:
        """The part with a mark in another folder, under the number that it has there."""
        entry = self.parts[mark]
        name = f"part-{tree:04d}-{number:06d}-{entry['sha256'][:16]}.safetensors"
        if not intact(self.folder, entry):
            raise ValueError(f"{self.folder / entry['file']} was altered or damaged; train anew.")
        source = self.folder / entry["file"]
        with source.open("rb") as old, atomic_write(folder / name, follow=False) as new:
            shutil.copyfileobj(old, new)
        return {**entry, "file": name, "tree": tree, "part": number}


def _digest(*arrays: np.ndarray) -> bytes:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(repr((array.shape, array.dtype.str)).encode())
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.digest()


def _solver(recipe: TreeRecipe) -> str:
    """What of a recipe decides the weights of a node."""
    return repr((__version__, replace(recipe, n_trees=1, arity=2, leaf=1, seed=0)))


def _mark(
    data: TrainingRows, features: bytes, shape: Shape, number: int, recipe: TreeRecipe
) -> str:
    """A digest of all that determines a part: its nodes, the rows of their labels, the recipe."""
    spans = shape.part(number)
    bounds = shape.node_bounds(spans[0].level)
    first, last = int(bounds[spans[0].start]), int(bounds[spans[0].stop])
    inside = shape.bounds[(shape.bounds >= first) & (shape.bounds <= last)] - first
    order = shape.order[first:last]
    entries = _entries_of(data.starts, order)
    about = (_solver(recipe), [span.level for span in spans], shape.bits, features)
    digest = hashlib.sha256(repr(about).encode())
    digest.update(_digest(order, inside, data.rows[entries], data.weight[entries]))
    digest.update(_digest(np.diff(data.starts)[order]))
    return digest.hexdigest()


def _entries_of(starts: Ints, order: Indices) -> Ints:
    """The positions of the entries of some labels, one label after the other."""
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
    """A digest of all that determines the model, the version of this package included."""
    about = (__version__, recipe, beside.names, beside.vocabulary, features, data.n_features)
    digest = hashlib.sha256(repr(about).encode())
    digest.update(_digest(data.starts, data.rows, data.weight))
    if beside.idf is not None:
        digest.update(_digest(beside.idf))
    if earlier is not None:
        digest.update(_digest(*(each for s in earlier.shapes for each in (s.order, s.bounds))))
    return digest.hexdigest()


def _earlier(folder: Path, fingerprint: str) -> files.Head | None:
    """The manifest of this very model, finished or not, if the folder has one."""
    others = []
    for _, head in files.FORMAT.begun(folder):
        if head["fingerprint"] == fingerprint:
            return cast("files.Head", head)
        others.append(head["package"])
    if others:
        refuse_started(folder, others[0])
    return None


def _stored_shapes(
    folder: Path, head: files.Head | None, n_labels: int
) -> tuple[Shape, ...] | None:
    """The shapes that a manifest names, if all of them are there and whole."""
    if head is None or not all(intact(folder, entry) for entry in head["shapes"]):
        return None
    return tuple(files.read_shape(folder, e, n_labels, verify=False) for e in head["shapes"])
