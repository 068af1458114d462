"""What kernels may trust of a label tree: looked at when one is read, and before it predicts.

Trees are values that anybody can build or change, and their kernels follow every index. Arrays that
nobody can change, as those mapped from files, are looked at once; others whenever they are used.
"""

from __future__ import annotations

from itertools import chain
from mmap import mmap

import numpy as np

from unmask._kernels import tree_predict as kernels
from unmask._typing import Array
from unmask.arrays import checks
from unmask.linear.model import refuse_other_names
from unmask.tree.model import LINKS, Tree, TreeModel
from unmask.tree.nodes import Nodes, Part
from unmask.tree.shape import Shape

TYPES = {
    "feature_starts": np.int64, "features": np.int32, "entry_starts": np.int64,
    "children": np.uint16, "values": np.float32, "child_starts": np.int64, "bias": np.float32,
}  # fmt: skip
"""Of the arrays of nodes, in files and for kernels."""
MOST_LEVELS = 30
_FAULTS = {
    kernels.FEATURE: "a feature lies outside 0 … {last}",
    kernels.CHILD: "a weight belongs to no child",
    kernels.WEIGHT: "weights must be finite",
    kernels.BIAS: "biases must be finite",
}


def refuse_bad_model(model: TreeModel) -> None:
    """ValueError if trees do not fit each other, or a kernel would follow an index astray."""
    checks.one_of(model.loss, LINKS, "loss")
    if not model.trees:
        raise ValueError("the model has no trees; give it at least one.")
    refuse_other_names(model.label_names, model.n_labels)
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
    """Whether nobody can change the arrays of a tree: their memory itself is read-only."""
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
