"""The best labels of rows, here or as tasks: blocks of rows, or shards whose best are merged.

By rows, the model is shared with every worker once. By labels, the rows are, and every shard of the
model goes to one worker: for models that do not fit a worker. The best k of all labels are among
the best k of every shard, so merging those is exact; both ways give the numbers of one process.
"""

from __future__ import annotations

from contextlib import closing
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp

from unmask import parallel
from unmask._messages import named_options
from unmask._typing import BackendLike, FeaturesLike, Floats, PathLike, PropensityLike
from unmask.arrays import TopK, checks
from unmask.linear import files
from unmask.linear.model import LinearModel, Shard, best_labels, checked, checked_features

SPLITS = ("rows", "labels")
PIECE = 4096  # labels of a task at most


Estimator: TypeAlias = Any
"""A scikit-learn estimator or pipeline, whose package this module does not import."""

Stored: TypeAlias = LinearModel | tuple[Path, files.Head]
"""A model, or its folder and manifest."""


class Ranking(NamedTuple):
    """How labels are ranked; see `predict_top`."""

    k: int
    rank_by: str
    propensity: Floats | None


@named_options
def predict_top(
    model: LinearModel | PathLike | Estimator,
    features: FeaturesLike,
    k: int,
    *,
    rank_by: str = "score",
    propensity: PropensityLike | None = None,
    backend: BackendLike = None,
    by: str | None = None,
) -> TopK:
    """The k best labels of every row; no n × L matrix at any time.

    Parameters
    ----------
    model : LinearModel, path or estimator
        A model, or the folder of one, which workers that see it map for themselves; or a trained
        `LinearClassifier`, also as the last step of a scikit-learn pipeline, which then says the
        ranking's propensities and the backend itself.
    features : matrix of shape (n, d)
        Features, dense or sparse.
    k : int
        Labels per row; all of them where there are fewer.
    rank_by : {"score", "probability/propensity"}
        "probability/propensity" ranks by P(label observed | row) / p: the order that is best for
        precision on the true labels when training saw observed ones (the idea of PS-PLT, for
        one-vs-all). Ties: the smaller label first.
    propensity : array of shape (L,), optional
        Needed for "probability/propensity".
    backend : optional
        Whose workers predict (`unmask.parallel`); by default the threads of this process.
    by : {"rows", "labels"}, optional
        What a backend's tasks are (see the module); by default rows, unless the model is larger
        than half the memory of a worker.

    Returns
    -------
    TopK
        The same numbers by every backend and either way.

    Raises
    ------
    ValueError
        If the model is damaged, has another number of features, or needs propensities.

    References
    ----------
    Wydmuch et al., *Propensity-scored probabilistic label trees* (2021).

    Examples
    --------
    >>> weights = np.float32([[1, 0], [0, 1], [1, 1]])
    >>> model = LinearModel((Shard(weights, np.zeros(3, np.float32)),), "logistic")
    >>> predict_top(model, [[1.0, 0.5]], 2).labels
    array([[2, 0]], dtype=int32)
    >>> by_ratio = {"rank_by": "probability/propensity", "propensity": [1, 0.1, 1]}
    >>> predict_top(model, [[1.0, 0.5]], 2, **by_ratio).labels
    array([[1, 2]], dtype=int32)
    >>> predict_top(model, [[1.0, 0.5], [0.0, 1.0]], 2, by="labels").labels
    array([[2, 0],
           [1, 2]], dtype=int32)
    """
    folder = None
    if hasattr(model, "steps") or hasattr(model, "predict_top"):
        return _by_estimator(model, features, k, rank_by)
    if isinstance(model, LinearModel):
        loaded = checked(model)
    else:
        folder = files.complete(Path(model).resolve())
        loaded = files.load_manifest(*folder, verify=True)
    rows = checked_features(features, loaded.n_features)
    p = None if propensity is None else checks.propensity(propensity, loaded.n_labels)
    ranking = Ranking(min(checks.positive_int(k, "k"), loaded.n_labels), rank_by, p)
    if backend is None and by is None:
        return best_labels(loaded, rows, ranking.k, rank_by=rank_by, propensity=p)
    with parallel.connect(backend) as runner:
        split = (
            _split_by(runner, loaded)
            if by is None
            else checks.one_of(by, SPLITS, "way to split the work")
        )
        if split == "labels":
            top = _by_labels(runner, loaded, rows, ranking)
        else:
            shared = folder if folder and runner.shares_folder(folder[0]) else _plain(loaded)
            top = _by_rows(runner, shared, rows, ranking)
    return top if loaded.label_names is None else top.named(names=loaded.label_names)


def _by_estimator(estimator: Any, features: FeaturesLike, k: int, rank_by: str) -> TopK:
    """What a classifier predicts, or the last step of a pipeline after those before it."""
    steps = getattr(estimator, "steps", None)
    last = estimator if steps is None else steps[-1][1]
    if not hasattr(last, "predict_top"):
        kind = type(last).__name__
        raise ValueError(f"a {kind} has no `predict_top`; use a LinearClassifier as last step.")
    rows = features if steps is None or len(steps) == 1 else estimator[:-1].transform(features)
    top: TopK = last.predict_top(rows, k, rank_by=rank_by)
    return top


def _split_by(runner: parallel.Runner, model: LinearModel) -> str:
    memory = runner.resources().memory
    return "rows" if memory is None or 2 * size(model) <= memory else "labels"


def size(model: LinearModel) -> int:
    """Bytes of its arrays."""
    arrays = [
        (w,) if isinstance(w, np.ndarray) else (w.data, w.indices, w.indptr)
        for w in (part.weights for part in model.shards)
    ]
    return sum(int(array.nbytes) for group in arrays for array in group) + 4 * model.n_labels


def _by_rows(runner: parallel.Runner, model: Stored, rows: sp.csr_array, ranking: Ranking) -> TopK:
    resources = runner.resources()
    height = max(1, -(-rows.shape[0] // (2 * resources.workers * resources.threads)))
    tasks = [rows[i : i + height] for i in range(0, rows.shape[0], height)] or [rows]
    with closing(runner.run(_top_of_rows, tasks, (model, ranking))) as parts:
        by_position = dict(parts)
    inorder = [by_position[position] for position in range(len(tasks))]
    labels = np.concatenate([top.labels for top in inorder])
    return TopK(labels, np.concatenate([top.scores for top in inorder]))


def _top_of_rows(shared: tuple[Stored, Ranking], rows: sp.csr_array) -> TopK:
    model, ranking = shared  # by its manifest, so that all use one model even if it is replaced
    loaded = model if isinstance(model, LinearModel) else files.load_manifest(*model, verify=False)
    return best_labels(
        loaded, rows, ranking.k, rank_by=ranking.rank_by, propensity=ranking.propensity
    )


def _by_labels(
    runner: parallel.Runner, model: LinearModel, rows: sp.csr_array, ranking: Ranking
) -> TopK:
    resources = runner.resources()
    shards = [_unmapped(part) for part in files.split_shards(model, PIECE)]
    starts = np.cumsum([0, *(len(part.bias) for part in shards)]).tolist()
    tasks, shared = list(zip(starts, shards, strict=False)), (model.loss, rows, ranking)
    ahead = (
        2 * resources.workers * resources.threads
    )  # shards are large; no more of them on their way
    with closing(runner.run(_top_of_shard, tasks, shared, ahead=ahead)) as parts:
        return reduce(merged, (part for _, part in parts))


def _top_of_shard(shared: tuple[str, sp.csr_array, Ranking], task: tuple[int, Shard]) -> TopK:
    loss, rows, ranking = shared
    start, part = task
    stop = start + len(part.bias)
    p = None if ranking.propensity is None else ranking.propensity[start:stop]
    model = LinearModel((part,), loss)
    best = best_labels(model, rows, ranking.k, rank_by=ranking.rank_by, propensity=p)
    return TopK(np.where(best.labels < 0, -1, best.labels + start), best.scores)


def merged(first: TopK, second: TopK) -> TopK:
    """The best k of two predictions for the same rows, from different labels.

    >>> merged(TopK([[0, 1]], [[0.9, 0.2]]), TopK([[7, 8]], [[0.5, 0.4]])).labels
    array([[0, 7]], dtype=int32)
    """
    both = TopK.sorted(np.c_[first.labels, second.labels], np.c_[first.scores, second.scores])
    return TopK(both.labels[:, : first.k], both.scores[:, : first.k])


def _plain(model: LinearModel) -> LinearModel:
    """Without maps of files, so that arrays are sent as they are."""
    return LinearModel(tuple(_unmapped(part) for part in model.shards), model.loss)


def _unmapped(part: Shard) -> Shard:
    w, bias = part.weights, np.asarray(part.bias)
    if isinstance(w, np.ndarray):
        return Shard(np.asarray(w), bias)
    arrays = tuple(np.asarray(a) for a in (w.data, w.indices, w.indptr))
    return Shard(sp.csr_array(arrays, shape=w.shape), bias)
