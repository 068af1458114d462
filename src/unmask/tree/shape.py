"""The shape of a label tree: one order of the labels, of which every node is a range.

A tree of depth D has 2^D leaf nodes, each with a few neighbours in the order as its labels. Nodes
above them are unions of neighbours: `bits` says how many binary levels are skipped from one level
of nodes to the next, so that a node of arity 32 skips five. Nodes near the root are one *part* of
the tree, and the subtrees below them one part each: what is trained, written and trained again as
a whole.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from unmask._typing import Indices, Ints

Number = TypeVar("Number", bound=np.generic)
PARTS = 16  # subtrees at least, if there are nodes enough


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
        """Nodes of a level."""
        return 1 << sum(self.bits[:level])

    def node_bounds(self, level: int) -> Ints:
        """Where in the order the nodes of a level begin, and the end."""
        return self.bounds[:: 1 << sum(self.bits[level:])]

    def child_starts(self, level: int) -> Ints:
        """The first child of every node of a level, and the end; leaf nodes have labels."""
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
        """The nodes of a part, level by level."""
        if self.cut and number == 0:
            return [Span(level, 0, self.nodes(level)) for level in range(self.cut)]
        subtree = number - (self.cut > 0)
        width = [self.nodes(level) // self.nodes(self.cut) for level in range(self.levels)]
        return [
            Span(level, subtree * width[level], (subtree + 1) * width[level])
            for level in range(self.cut, self.levels)
        ]


def read_only(array: NDArray[Number]) -> NDArray[Number]:
    """The array, or a view of it that cannot be written to."""
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


def unchangeable(array: NDArray[Number]) -> NDArray[Number]:
    """The same numbers in memory that nobody can change: `checking` looks at them once."""
    return np.frombuffer(array.tobytes(), array.dtype) if array.size else array


def halves(n_labels: int, depth: int) -> Ints:
    """Bounds of 2^depth ranges whose sizes differ by at most 1: every range halved again and again.

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
