"""What training trees will need, before it starts: memory from shapes, time from a small tree.

    memory = process + features + centroids of labels + threads × the largest node
    time   = seconds per label of a sample × labels × (1 + log2(labels / sampled) / levels) × trees

The sample is a tree of a few thousand labels, drawn evenly over the frequencies, on the rows that
have one of them. A tree of twice the labels has one more halving, and a node more on every path.
"""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass, replace

import numpy as np
import scipy.sparse as sp

from unmask import _kernels
from unmask._kernels.linear_state import BLOCK as LANES
from unmask._messages import named_options
from unmask._typing import FeaturesLike, LabelsLike, PropensityLike
from unmask.arrays import checks
from unmask.data import Dataset
from unmask.linear.planning import PROCESS, spread_labels
from unmask.parallel import LocalRunner
from unmask.tree.recipe import TrainingRows, TreeRecipe, prepare
from unmask.tree.shape import Shape, depth_of, split_bits
from unmask.tree.training import train

SAMPLE = 2048


@dataclass(frozen=True)
class TreePlan:
    """What training trees will need: memory in bytes, time in seconds.

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

    rows: int
    features: int
    labels: int
    trees: int
    levels: int
    parts: int
    threads: int
    memory: int
    available: int | None
    seconds_per_label: float
    seconds: float
    model_bytes: int
    sampled: int

    def to_dict(self) -> dict[str, int | float | None]:
        """Names and values."""
        return asdict(self)


@named_options
def plan(
    features: FeaturesLike,
    labels: LabelsLike | Dataset,
    recipe: TreeRecipe | None = None,
    *,
    propensity: PropensityLike | None = None,
    sample: int = SAMPLE,
) -> TreePlan:
    """What `train_to` would need with these arguments, on the threads of this process.

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
    depth = depth_of(data.n_labels, recipe.leaf)
    bits = split_bits(depth, recipe.arity)
    shape_parts = _parts(bits)
    seconds, stored, sampled = _measure(data, recipe, sample)
    growth = 1 + (math.log2(data.n_labels / sampled) / (depth_of(sampled, recipe.leaf) + 2))
    per_label = seconds / sampled * growth * recipe.n_trees
    threads = _kernels.threads()
    return TreePlan(
        rows=data.n,
        features=data.n_features,
        labels=data.n_labels,
        trees=recipe.n_trees,
        levels=len(bits) + 1,
        parts=shape_parts * recipe.n_trees,
        threads=threads,
        memory=memory(data, recipe, threads),
        available=LocalRunner().resources().memory,
        seconds_per_label=per_label,
        seconds=per_label * data.n_labels / threads,
        model_bytes=round(stored / sampled * data.n_labels * recipe.n_trees),
        sampled=sampled,
    )


def _parts(bits: tuple[int, ...]) -> int:
    leaves = 1 << sum(bits)
    return Shape(np.arange(leaves, dtype=np.int32), np.arange(leaves + 1), bits).n_parts


def _measure(data: TrainingRows, recipe: TreeRecipe, sample: int) -> tuple[float, int, int]:
    """Seconds and bytes of one tree of some labels, and how many; compiled code is loaded."""
    picked = spread_labels(np.diff(data.starts), sample)
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
    return PROCESS + 2 * features + max(clustering, threads * root)
