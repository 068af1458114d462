"""Nodes are ranges of one order: every level divides all labels, and parts divide all nodes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from unmask.models.tree_model import Shape, Span, depth_of, halves, read_only, split_bits


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
