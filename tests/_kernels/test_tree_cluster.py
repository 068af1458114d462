"""Loops that order labels for a tree, beside dense vectors in float64."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from unmask._kernels import tree_cluster as kernels
from unmask._kernels.linear_state import Rows


def rows_of(matrix: np.ndarray) -> Rows:
    sparse = sp.csr_array(matrix.astype(np.float32))
    return Rows(sparse.indptr.astype(np.int64), sparse.indices, sparse.data)


def unit_vectors(m: int, d: int = 12, seed: int = 0) -> np.ndarray:
    """Of many lengths, as unit vectors; odd and even numbers of entries, one vector empty."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(m, d)) * (rng.random((m, d)) < 0.5)
    z[m // 2] = 0
    return np.asarray(z / np.maximum(np.linalg.norm(z, axis=1), 1e-30)[:, None])


def test_seeds_are_mixed_by_splitmix64() -> None:
    """The published sequence of the seed 1234567."""
    outputs = (
        6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431,
        16408922859458223821,
    )  # fmt: skip
    for step, output in enumerate(outputs):
        state = (1234567 + step * 0x9E3779B97F4A7C15) % 2**64
        assert int(kernels._mixed(np.uint64(state))) == output


def test_features_of_labels_are_counted_once() -> None:
    x = np.array([[1, 0, 2, 0], [0, 0, 3, 0], [0, 4, 0, 5], [0, 0, 0, 0]])
    starts, rows = np.array([0, 2, 2, 5, 6]), np.array([0, 1, 1, 2, 0, 3], np.int32)
    lengths = np.full(4, 9)
    kernels.distinct(rows_of(x), 4, starts, rows, 1, 4, lengths)
    assert lengths.tolist() == [9, 0, 4, 0]
    kernels.distinct(rows_of(x), 4, starts, rows, 0, 1, lengths)
    assert lengths.tolist() == [2, 0, 4, 0]


def test_centroids_of_some_labels_have_length_one() -> None:
    x = np.array([[1, 0, 2, 0], [0, 0, 3, 0], [0, 4, 0, 5], [0, 0, 0, 0]])
    starts, rows = np.array([0, 2, 2, 5, 6]), np.array([0, 1, 1, 2, 0, 3], np.int32)
    begins = np.array([0, 2, 2, 6])
    indices, values = np.full(8, 9, np.int32), np.full(8, 9.0, np.float32)
    kernels.centroids(rows_of(x), 4, starts, rows, 1, 4, begins, indices, values)
    assert indices.tolist() == [9, 9, 2, 1, 3, 0, 9, 9]
    length = np.sqrt(5**2 + 4**2 + 5**2 + 1)
    wanted = np.array([5, 4, 5, 1]) / length
    np.testing.assert_allclose(values, [9, 9, *wanted, 9, 9], rtol=1e-6)
    kernels.centroids(rows_of(x), 4, starts, rows, 0, 1, begins, indices, values)
    np.testing.assert_allclose(values[:2], np.array([1, 5]) / np.sqrt(26), rtol=1e-6)


def test_rows_that_cancel_have_a_centroid_of_zeros() -> None:
    x = np.array([[1.0, -2.0], [-1.0, 2.0]])
    indices, values = np.full(2, 9, np.int32), np.full(2, 9.0, np.float32)
    starts, rows = np.array([0, 2]), np.array([0, 1], np.int32)
    kernels.centroids(rows_of(x), 2, starts, rows, 0, 1, np.array([0]), indices, values)
    assert (indices.tolist(), values.tolist()) == ([0, 1], [0.0, 0.0])


def test_a_vector_is_added_with_what_it_does_to_the_length() -> None:
    z = unit_vectors(5)
    centres, squares = np.zeros((12, 2), np.float32), np.zeros(2)
    for label, sign, to in ((0, 1.0, 0), (1, 1.0, 0), (3, 1.0, 1), (0, -1.0, 0), (4, 1.0, 1)):
        kernels._add(rows_of(z), label, sign, to, centres, squares)
    expected = np.stack([z[1], z[3] + z[4]], axis=1)
    np.testing.assert_allclose(centres, expected, atol=1e-6)
    np.testing.assert_allclose(squares, (expected**2).sum(axis=0), atol=1e-6)


@pytest.mark.parametrize("m", [2, 7, 8])
def test_labels_are_compared_with_two_centres(m: int) -> None:
    z, rng = unit_vectors(9), np.random.default_rng(m)
    order = rng.permutation(9)[:m].astype(np.int32)
    centres, scale = rng.normal(size=(12, 2)).astype(np.float32), np.array([0.5, 2.0])
    closer = np.empty(m, np.float32)
    total, border = kernels._compare(rows_of(z), order, centres, scale, closer)
    similar = (z[order] @ centres.astype(float)) * scale
    difference = similar[:, 0] - similar[:, 1]
    np.testing.assert_allclose(closer, difference, atol=1e-5)
    half = (m + 1) // 2
    first = np.argsort(-difference, kind="stable")[:half]
    assert border == pytest.approx(difference[first[-1]], abs=1e-5)
    own = np.where(np.isin(np.arange(m), first), similar[:, 0], similar[:, 1])
    assert total == pytest.approx(own.sum(), abs=1e-4)


def test_the_closest_half_is_taken_ties_by_place() -> None:
    closer = np.array([3, 1, 2, 2, 2, 0], np.float32)
    side = np.full(6, -1, np.int8)
    assert kernels._divide(closer, 3, np.float32(2), side) == 6
    assert side.tolist() == [2, 3, 2, 2, 3, 3]
    side = np.array([0, 0, 1, 0, 1, 1], np.int8)
    assert kernels._divide(closer, 3, np.float32(2), side) == 2
    assert side.tolist() == [0, 3, 2, 0, 1, 1]


def two_means(z: np.ndarray, order: np.ndarray, seed: int, iterations: int, gain: float):  # type: ignore[no-untyped-def]
    """Balanced spherical 2-means of dense vectors, every centre added up anew."""
    m = len(order)
    one = int(kernels._mixed(np.uint64(seed))) % m
    other = int(kernels._mixed(np.uint64(seed + 1))) % (m - 1)
    other += other >= one
    points = z[order]
    centres, first, before = np.stack([points[one], points[other]]), None, -np.inf
    for iteration in range(iterations):
        lengths = np.maximum(np.linalg.norm(centres, axis=1), 1e-6)
        similar = points @ (centres / lengths[:, None]).T
        closest = np.argsort(similar[:, 1] - similar[:, 0], kind="stable")[: (m + 1) // 2]
        new = np.isin(np.arange(m), closest)
        total = np.where(new, similar[:, 0], similar[:, 1]).sum()
        if iteration > 0 and total - before <= gain * abs(total):
            break
        before = total if iteration > 0 else before
        if first is not None and (new == first).all():
            break
        first, centres = new, np.stack([points[new].sum(axis=0), points[~new].sum(axis=0)])
    return [*order[first], *order[~first]]


@pytest.mark.parametrize("gain", [0.0, 0.03, 0.2])
@pytest.mark.parametrize("iterations", [1, 2, 3, 50])
def test_halves_are_those_of_dense_vectors(iterations: int, gain: float) -> None:
    """Some of 31 labels, by several first centres; centres are zero again afterwards."""
    z = unit_vectors(31, seed=4)
    for seed in range(8):
        order = np.random.default_rng(seed).permutation(31)[: 20 + seed].astype(np.int32)
        expected = two_means(z, order, seed, iterations, gain)
        centres = np.zeros((12, 2), np.float32)
        kernels.bisect(rows_of(z), order, seed, iterations, gain, centres)
        assert order.tolist() == expected
        assert not centres.any()


def test_two_labels_are_a_half_each_and_one_is_left_alone() -> None:
    z = np.eye(3)
    for seed in range(4):
        pair, centres = np.array([2, 1], np.int32), np.zeros((3, 2), np.float32)
        kernels.bisect(rows_of(z), pair, seed, 10, 0.0, centres)
        assert sorted(pair.tolist()) == [1, 2]
        assert not centres.any()
    alone = np.array([2], np.int32)
    kernels.bisect(rows_of(z), alone, 0, 10, 0.0, np.zeros((3, 2), np.float32))
    assert alone.tolist() == [2]
