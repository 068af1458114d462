"""Similar labels become neighbours: centroids are means, halves clusters, whatever the threads."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from unmask import _kernels
from unmask._kernels import tree_cluster as kernels
from unmask._kernels.linear_state import Rows
from unmask.models.tree import TreeRecipe, centroids, clustered, prepare

RNG = np.random.default_rng(3)


def rows_of(matrix: sp.csr_array) -> Rows:
    return Rows(matrix.indptr.astype(np.int64), matrix.indices, matrix.data)


def test_centroids_are_directions_of_mean_rows() -> None:
    x = sp.csr_array((RNG.random((40, 9)) * (RNG.random((40, 9)) < 0.4)).astype(np.float32))
    y = (RNG.random((40, 70)) < 0.1).astype(int)
    y[:, 5] = 0
    data = prepare(x, y, TreeRecipe(), None)
    vectors = centroids(data.x, 9, data.starts, data.rows).toarray()
    sums = y.T @ x.toarray().astype(float)
    expected = sums / np.maximum(np.linalg.norm(sums, axis=1), 1e-30)[:, None]
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
    assert not vectors[5].any()


def groups(n_groups: int, size: int, d: int = 40) -> tuple[sp.csr_array, np.ndarray]:
    """Unit vectors around a few orthogonal directions, and the group of each, shuffled."""
    group = RNG.permutation(np.repeat(np.arange(n_groups), size))
    points = 0.05 * RNG.random((len(group), d))
    points[np.arange(len(group)), group] += 1
    points /= np.linalg.norm(points, axis=1)[:, None]
    return sp.csr_array(points.astype(np.float32)), group


def test_planted_clusters_are_ranges() -> None:
    vectors, group = groups(2, 50)
    order = clustered(vectors, 1, seed=0)
    assert sorted(order.tolist()) == list(range(100))
    assert len(set(group[order[:50]])) == len(set(group[order[50:]])) == 1


def test_halves_are_a_fixed_point_of_balanced_two_means() -> None:
    """No label of one half is closer to the other centre than one that was preferred to it."""
    vectors, _ = groups(6, 21)
    order = np.arange(126, dtype=np.int32)
    centres = np.zeros((40, 2), dtype=np.float32)
    kernels.bisect(rows_of(vectors), order, 7, 100, 0.0, centres)
    assert (centres == 0).all()
    assert sorted(order.tolist()) == list(range(126))
    z = vectors.toarray().astype(float)
    left, right = (z[half].sum(0) for half in (order[:63], order[63:]))
    closer = z @ (left / np.linalg.norm(left) - right / np.linalg.norm(right))
    assert closer[order[:63]].min() >= closer[order[63:]].max() - 1e-5


def test_an_odd_label_is_in_the_first_half_and_equal_labels_stay_in_order() -> None:
    same = sp.csr_array(np.ones((5, 1), dtype=np.float32))
    order = np.arange(5, dtype=np.int32)
    kernels.bisect(rows_of(same), order, 0, 10, 1e-4, np.zeros((1, 2), dtype=np.float32))
    assert order.tolist() == [0, 1, 2, 3, 4]


def test_orders_depend_on_the_seed_and_not_on_threads() -> None:
    vectors, _ = groups(30, 8)
    orders = []
    for threads in (1, 3):
        with _kernels.using_threads(threads):
            orders.append([clustered(vectors, 5, seed).tolist() for seed in (0, 1)])
    assert orders[0] == orders[1]
    assert orders[0][0] != orders[0][1]
