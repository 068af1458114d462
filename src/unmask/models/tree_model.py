"""A trained label tree as a value: its shape, its nodes, what kernels may trust, its folder.

A tree is one order of the labels, of which every node is a range. With depth D it has 2^D leaf
nodes, each with a few neighbours in the order as its labels; nodes above them are unions of
neighbours: `bits` says how many binary levels are skipped from one level of nodes to the next, so
that a node of arity 32 skips five. Nodes near the root are one *part* of the tree, and the subtrees
below them one part each: what is trained, written and trained again as a whole.

The score of label j for row x is the logarithm of the mean over trees of exp(path score), where
the path score is Σ ln P(child | node) over the nodes from the root to j: ln σ(z) for logistic, and
−max(0, 1 − z)² for squared hinge, which stands for such a logarithm. Where probabilities themselves
are needed (ranking by P/p, trees of counts), squared hinge has ln of (1 + z)/2, at least 0.001.

Trees are values that anybody can build or change, and their kernels follow every index. Arrays that
nobody can change, as those mapped from files, are looked at once; others whenever they are used.

In a folder (`unmask.models.store`) lie

    shape-<tree>-<sha256>.safetensors          the order of labels, and where leaf nodes begin
    part-<tree>-<part>-<sha256>.safetensors    the nodes of a part, level by level

and the manifest says the binary levels of every tree. An entry of a part has a mark of all that the
part was trained on: a part with the same mark is the same part.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from mmap import mmap
from pathlib import Path
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from unmask._kernels import tree_predict as kernels
from unmask._messages import named_options
from unmask._typing import Array, Floats, Indices, Ints, PathLike, Singles
from unmask.arrays import checks
from unmask.data.texts import Vocabulary
from unmask.models import store
from unmask.models.store import Entry, Format, Parameter, Piece

Number = TypeVar("Number", bound=np.generic)
PARTS = 16  # subtrees at least, if there are nodes enough
MOST_LEVELS = 30
LINKS = {"squared_hinge": kernels.HINGE, "logistic": kernels.LOGISTIC}
TYPES = {
    "feature_starts": np.int64, "features": np.int32, "entry_starts": np.int64,
    "children": np.uint16, "values": np.float32, "child_starts": np.int64, "bias": np.float32,
}  # fmt: skip
"""Types of the arrays of nodes, in files and for kernels."""
FORMAT = Format(
    "unmask label tree", 1, "tree.train", tuple(LINKS),
    {
        "shapes": Piece("a shape", {"bits": list}),
        "parts": Piece("a part", {"tree": int, "part": int, "mark": str}, ("tree", "part")),
    },
)  # fmt: skip
_FAULTS = {
    kernels.FEATURE: "a feature lies outside 0 … {last}",
    kernels.CHILD: "a weight belongs to no child",
    kernels.WEIGHT: "weights must be finite",
    kernels.BIAS: "biases must be finite",
}


class Span(NamedTuple):
    """Nodes from `start` to before `stop` of a level."""

    level: int
    start: int
    stop: int


@dataclass(frozen=True)
class Shape:
    """Labels in the order of the tree, where its leaf nodes begin, and its levels.

    Attributes
    ----------
    order : (L,) int32
        Labels from left to right.
    bounds : (2^D + 1,) int64
        Leaf node v has the labels order[bounds[v] : bounds[v + 1]].
    bits : tuple of int
        Binary levels from every level of nodes to the next; their sum is D.

    Examples
    --------
    >>> shape = Shape(np.arange(5, dtype=np.int32), np.array([0, 3, 5]), (1,))
    >>> shape.levels, shape.node_bounds(0).tolist(), shape.child_starts(0).tolist()
    (2, [0, 5], [0, 2])
    """

    order: Indices
    bounds: Ints
    bits: tuple[int, ...]

    @property
    def n_labels(self) -> int:
        """Labels."""
        return len(self.order)

    @property
    def levels(self) -> int:
        """Levels of nodes; the root alone is one."""
        return len(self.bits) + 1

    def nodes(self, level: int) -> int:
        """Return nodes of a level."""
        return 1 << sum(self.bits[:level])

    def node_bounds(self, level: int) -> Ints:
        """Where in the order the nodes of a level begin, and the end."""
        return self.bounds[:: 1 << sum(self.bits[level:])]

    def child_starts(self, level: int) -> Ints:
        """Return the first child of every node of a level, and the end; leaf nodes have labels."""
        if level == self.levels - 1:
            return self.bounds
        return np.arange(0, self.nodes(level + 1) + 1, 1 << self.bits[level])

    def child_bounds(self, level: int, node: int) -> Ints:
        """Where in the order the children of a node begin, and the end."""
        first, last = self.child_starts(level)[node : node + 2].tolist()
        if level == self.levels - 1:
            return np.arange(first, last + 1)
        return self.node_bounds(level + 1)[first : last + 1]

    @property
    def cut(self) -> int:
        """The level of the roots of subtrees."""
        enough = (level for level in range(self.levels) if self.nodes(level) >= PARTS)
        return next(enough, self.levels - 1)

    @property
    def n_parts(self) -> int:
        """Parts: the nodes above the cut, if there are any, and the subtrees."""
        return self.nodes(self.cut) + (self.cut > 0)

    def part(self, number: int) -> list[Span]:
        """Return the nodes of a part, level by level."""
        if self.cut and number == 0:
            return [Span(level, 0, self.nodes(level)) for level in range(self.cut)]
        subtree = number - (self.cut > 0)
        width = [self.nodes(level) // self.nodes(self.cut) for level in range(self.levels)]
        return [
            Span(level, subtree * width[level], (subtree + 1) * width[level])
            for level in range(self.cut, self.levels)
        ]


class Nodes(NamedTuple):
    """Consecutive nodes of a level, as prediction needs them: weights by node, feature and child.

    Attributes
    ----------
    feature_starts : (nodes + 1,) int64
        Where in `features` those of every node begin.
    features : int32
        Features of the nodes.
    entry_starts : (features + 1,) int64
        Where in `children` and `values` every feature begins.
    children : uint16
        Of the node, counted from 0.
    values : float32
    child_starts : (nodes + 1,) int64
        Where in `bias` the children of every node begin.
    bias : (children,) float32

    Examples
    --------
    >>> from unmask import tree
    >>> model = tree.train(np.eye(4), np.eye(4, dtype=int), tree.TreeRecipe(n_trees=1))
    >>> model.trees[0].parts[0][0].bias.shape
    (4,)
    """

    feature_starts: Ints
    features: Indices
    entry_starts: Ints
    children: NDArray[np.uint16]
    values: Singles
    child_starts: Ints
    bias: Singles

    @property
    def read_only(self) -> Nodes:
        """A view for kernels, which are compiled for arrays that are only read."""
        return Nodes(*(read_only(array) for array in self._asdict().values()))


Part: TypeAlias = tuple[Nodes, ...]
"""The levels of a part of a tree."""


@dataclass(frozen=True)
class Tree:
    """The shape of one tree, and the weights of its parts.

    Attributes
    ----------
    shape : Shape
        The order of labels, and which of them make a node.
    parts : tuple of tuple of Nodes
        The nodes of every part, level by level.

    Examples
    --------
    >>> import numpy as np
    >>> from unmask import tree
    >>> model = tree.train(np.eye(4), np.eye(4, dtype=int), tree.TreeRecipe(n_trees=1))
    >>> sorted(model.trees[0].shape.order.tolist())
    [0, 1, 2, 3]
    """

    shape: Shape
    parts: tuple[Part, ...]
    checked_for: tuple[int, int] | None = field(default=None, init=False, repr=False, compare=False)
    """Labels and features for which its arrays were looked at (`checking`); None: not yet."""


@dataclass(frozen=True)
class TreeModel:
    """Label trees that are averaged, the loss they were trained with, and how.

    Parameters
    ----------
    trees : tuple of Tree
    loss : {"squared_hinge", "logistic"}
        Says what a margin adds to the score of a path.
    n_features : int
        Features, the bias not counted.
    parameters : mapping, optional
        The recipe of the training.
    idf : (d,) floats, optional
        The word weights of a model that was trained on tf-idf.
    label_names : tuple of str, optional
        The name of every label; predictions carry them.
    vocabulary : Vocabulary, optional
        The words of a model that was trained on texts.

    Examples
    --------
    >>> import numpy as np
    >>> from unmask import tree
    >>> model = tree.train(np.eye(4), np.eye(4, dtype=int))
    >>> model.n_labels, model.n_features, len(model.trees)
    (4, 4, 3)
    """

    trees: tuple[Tree, ...]
    loss: str
    n_features: int
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    idf: Floats | None = None
    label_names: tuple[str, ...] | None = None
    vocabulary: Vocabulary | None = None

    @property
    def n_labels(self) -> int:
        """Labels."""
        return self.trees[0].shape.n_labels


def read_only(array: NDArray[Number]) -> NDArray[Number]:
    """Return the array, or a view of it that cannot be written to."""
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


def unchangeable(array: NDArray[Number]) -> NDArray[Number]:
    """Return equal numbers in memory that nobody can change: they are looked at once."""
    return np.frombuffer(array.tobytes(), array.dtype) if array.size else array


def halves(n_labels: int, depth: int) -> Ints:
    """Return bounds of 2^depth ranges of sizes that differ by at most 1, by halving.

    >>> halves(5, 2).tolist()
    [0, 2, 3, 4, 5]
    """
    bounds = np.array([0, n_labels])
    for _ in range(depth):
        middle = bounds[:-1] + (np.diff(bounds) + 1) // 2
        bounds = np.append(np.stack([bounds[:-1], middle], axis=1).ravel(), n_labels)
    return bounds


def depth_of(n_labels: int, leaf: int) -> int:
    """Halvings after which leaf nodes have about `leaf` labels, off by a factor of √2 at most.

    >>> depth_of(24626, 24), depth_of(10, 24)
    (10, 0)
    """
    wished = round(math.log2(n_labels / leaf)) if n_labels > leaf else 0
    return max(0, min(wished, n_labels.bit_length() - 1))


def split_bits(depth: int, arity: int) -> tuple[int, ...]:
    """Binary levels of every level of nodes: as few levels as the arity allows, of even size.

    >>> split_bits(10, 32), split_bits(11, 32), split_bits(0, 32)
    ((5, 5), (4, 4, 3), ())
    """
    most = arity.bit_length() - 1
    levels = -(-depth // most)
    return tuple(depth // levels + (i < depth % levels) for i in range(levels))


def refuse_bad_model(model: TreeModel) -> None:
    """ValueError if trees do not fit each other, or a kernel would follow an index astray."""
    checks.one_of(model.loss, LINKS, "loss")
    if not model.trees:
        raise ValueError("the model has no trees; give it at least one.")
    store.refuse_other_sizes(model)
    for number, tree in enumerate(model.trees):
        if tree.checked_for == (model.n_labels, model.n_features) and _is_fixed(tree):
            continue
        try:
            refuse_bad_shape(tree.shape, model.n_labels)
            _refuse_other_parts(tree.shape, tree.parts, model.n_features)
        except ValueError as error:
            raise ValueError(f"tree {number} of the model is damaged: {error}.") from None
        remember_checked(tree, model.n_labels, model.n_features)


def remember_checked(tree: Tree, n_labels: int, n_features: int) -> None:
    """Note in a tree that its arrays were looked at, for a model of this size."""
    object.__setattr__(tree, "checked_for", (n_labels, n_features))


def _is_fixed(tree: Tree) -> bool:
    """Tell if nobody can change the arrays of a tree: their memory itself is read-only."""
    own = (tree.shape.order, tree.shape.bounds)
    nodes = (array for part in tree.parts for nodes in part for array in nodes)
    return all(map(_is_unchangeable, chain(own, nodes)))


def _is_unchangeable(array: Array) -> bool:
    if not array.size:
        return True
    memory: object = array
    while isinstance(memory, np.ndarray):
        if memory.flags.writeable:
            return False
        memory = memory.base
    return isinstance(memory, mmap | bytes) and memoryview(memory).readonly


def refuse_bad_shape(shape: Shape, n_labels: int) -> None:
    """ValueError unless the ranges of leaf nodes hold every label once."""
    order, bounds, bits = shape.order, shape.bounds, shape.bits
    if not all(isinstance(b, int) and 0 < b <= 16 for b in bits) or sum(bits) > MOST_LEVELS:
        raise ValueError(f"its levels are {list(bits)!r:.60}")
    if order.dtype != np.int32 or not np.array_equal(np.sort(order), np.arange(n_labels)):
        raise ValueError(f"its order is none of {n_labels} labels")
    ends = bounds.shape == ((1 << sum(bits)) + 1,) and (bounds[0], bounds[-1]) == (0, n_labels)
    if bounds.dtype != np.int64 or not ends or (np.diff(bounds) < 1).any():
        raise ValueError("its leaf nodes are no ranges of the order")


def _refuse_other_parts(shape: Shape, parts: tuple[Part, ...], n_features: int) -> None:
    if len(parts) != shape.n_parts:
        raise ValueError(f"it has {len(parts)} parts, its shape {shape.n_parts}")
    for number, part in enumerate(parts):
        spans = shape.part(number)
        if len(part) != len(spans):
            raise ValueError(f"part {number} has {len(part)} levels, its shape {len(spans)}")
        for nodes, span in zip(part, spans, strict=True):
            starts = shape.child_starts(span.level)[span.start : span.stop + 1]
            refuse_bad_nodes(nodes, np.diff(starts), n_features)


def refuse_bad_nodes(nodes: Nodes, children: Array, n_features: int) -> None:
    """ValueError unless nodes have these numbers of children, and no index leads elsewhere."""
    for name, array in nodes._asdict().items():
        if array.ndim != 1 or array.dtype != TYPES[name]:
            raise ValueError(f"{name} are {array.dtype} of shape {array.shape}")
    for starts, size, count in (
        (nodes.feature_starts, len(nodes.features), len(children)),
        (nodes.entry_starts, len(nodes.values), len(nodes.features)),
        (nodes.child_starts, len(nodes.bias), len(children)),
    ):
        rising = len(starts) == count + 1 and (starts[1:] >= starts[:-1]).all()
        if not rising or starts[0] != 0 or starts[-1] != size:
            raise ValueError("starts do not fit what they divide")
    if not np.array_equal(np.diff(nodes.child_starts), children):
        raise ValueError("nodes have other children than their tree says")
    if len(nodes.children) != len(nodes.values):
        raise ValueError("a weight belongs to no child")
    fault = kernels.fault(nodes.read_only, n_features)
    if fault:
        raise ValueError(_FAULTS[fault].format(last=n_features - 1))


def save(path: PathLike, model: TreeModel) -> None:
    """Write a model to a folder; an existing model there stays until the new one is complete.

    Parameters
    ----------
    path : path
        The folder; made if it is not there.
    model : TreeModel

    Raises
    ------
    ValueError
        If the folder is in use by another process, or the model is damaged.

    Examples
    --------
    >>> import tempfile
    >>> from unmask import tree
    >>> model = tree.train(np.eye(4), np.eye(4, dtype=int))
    >>> tree.save(folder := tempfile.mkdtemp() + "/model", model)
    >>> tree.load(folder).n_labels
    4
    """
    refuse_bad_model(model)
    trees = list(enumerate(model.trees))
    FORMAT.save(
        path,
        model,
        {
            "shapes": (partial(write_shape, number=i, shape=tree.shape) for i, tree in trees),
            "parts": (
                partial(write_part, task=Subtree(i, number, 0), piece=part)
                for i, tree in trees
                for number, part in enumerate(tree.parts)
            ),
        },
    )


class Subtree(NamedTuple):
    """A part of a tree as a task: its numbers, its labels, the mark of all that it is made from.

    The nodes above all subtrees have no labels of their own.
    """

    tree: int
    part: int
    n_labels: int
    mark: str = ""


def write_shape(folder: Path, number: int, shape: Shape) -> Entry:
    """Write the shape of a tree, and return what the manifest is to say of it."""
    arrays: dict[str, Array] = {"order": shape.order, "bounds": shape.bounds}
    entry = store.write_tensors(folder, f"shape-{number:04d}-{{}}.safetensors", arrays)
    return {**entry, "bits": list(shape.bits)}


def write_part(folder: Path, task: Subtree, piece: Part) -> Entry:
    """Write the file of a part, and return what the manifest is to say of it."""
    arrays: dict[str, Array] = {
        f"{level}.{name}": np.ascontiguousarray(array, dtype=TYPES[name])
        for level, nodes in enumerate(piece)
        for name, array in nodes._asdict().items()
    }
    pattern = f"part-{task.tree:04d}-{task.part:06d}-{{}}.safetensors"
    entry = store.write_tensors(folder, pattern, arrays)
    return {**entry, "tree": task.tree, "part": task.part, "mark": task.mark}


@named_options
def load(path: PathLike, *, verify: bool = True) -> TreeModel:
    """Return the model in a folder, its weights mapped from the files.

    Parameters
    ----------
    path : path
        A folder that `save` or `train_to` made.
    verify : bool, default True
        Whether to compare every file with its checksum, which reads them once.

    Returns
    -------
    TreeModel

    Raises
    ------
    ValueError
        If something is missing, altered, cut short or not a label tree of this package.

    Examples
    --------
    >>> import tempfile
    >>> from unmask import tree
    >>> folder = tempfile.mkdtemp() + "/model"
    >>> model = tree.train_to(folder, np.eye(4), np.eye(4, dtype=int))
    >>> tree.load(folder).n_features
    4
    """
    folder = Path(path)
    present, head = FORMAT.current(folder)
    shapes = [read_shape(folder, entry, head["labels"], verify) for entry in head["shapes"]]
    wanted = [(t, number) for t, shape in enumerate(shapes) for number in range(shape.n_parts)]
    if not present or [(e["tree"], e["part"]) for e in head["parts"]] != wanted or not shapes:
        raise ValueError(
            f"{folder} holds {len(head['parts'])} of {len(wanted)} parts: training has not "
            "finished; resume it, or train again."
        )
    parts: list[list[Part]] = [[] for _ in shapes]
    for entry in head["parts"]:
        shape = shapes[entry["tree"]]
        parts[entry["tree"]].append(read_part(folder, entry, shape, head["features"], verify))
    trees = tuple(Tree(shape, tuple(own)) for shape, own in zip(shapes, parts, strict=True))
    for tree in trees:
        remember_checked(tree, head["labels"], head["features"])
    beside = store.read_beside(folder, head, verify)
    return TreeModel(trees, head["loss"], head["features"], head["parameters"], *beside)


def read_shape(folder: Path, entry: Entry, n_labels: int, verify: bool) -> Shape:
    """Return the shape of a tree; ValueError unless its ranges hold every label once."""
    path, bits = folder / entry["file"], entry["bits"]
    arrays = store.read_tensors(folder, entry, verify)
    try:
        shape = Shape(np.asarray(arrays["order"]), np.asarray(arrays["bounds"]), tuple(bits))
        refuse_bad_shape(shape, n_labels)
    except (KeyError, ValueError) as error:
        raise ValueError(f"{path} holds no shape of a tree: {error}.") from None
    return shape


def read_part(folder: Path, entry: Entry, shape: Shape, n_features: int, verify: bool) -> Part:
    """Return the nodes of a part, checked: kernels trust their indices."""
    path = folder / entry["file"]
    arrays = store.read_tensors(folder, entry, verify)
    levels = []
    try:
        for level, span in enumerate(shape.part(entry["part"])):
            nodes = Nodes(*(np.asarray(arrays[f"{level}.{name}"]) for name in Nodes._fields))
            starts = shape.child_starts(span.level)[span.start : span.stop + 1]
            refuse_bad_nodes(nodes, np.diff(starts), n_features)
            levels.append(nodes)
    except (KeyError, ValueError) as error:
        raise ValueError(f"{path} does not hold part {entry['part']}: {error}.") from None
    return tuple(levels)
