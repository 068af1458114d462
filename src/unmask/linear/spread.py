"""Prediction as tasks: rows in blocks, or labels in shards whose best are merged.

By rows, the model is placed once per worker. By labels, the rows are placed once per worker, and
every shard of the model goes to one of them: for models that do not fit a worker. The best k of all
labels are among the best k of every shard, so merging those is exact; both ways give the very
numbers of `top`.
"""

from __future__ import annotations

import os
from contextlib import closing
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from unmask import _validation, parallel
from unmask.linear import files
from unmask.linear.model import LinearModel, Shard, checked, features, top
from unmask.predictions import TopK

WAYS = ("rows", "labels")
PIECE = 4096  # labels of a task at most


class Ranking(NamedTuple):
    """How labels are ranked; see `top`."""

    k: int
    rank_by: str
    propensity: Any


def top_spread(
    model: LinearModel | str | os.PathLike[str],
    given: Any,
    k: int,
    *,
    rank_by: str = "score",
    propensity: ArrayLike | None = None,
    backend: Any = None,
    by: str | None = None,
) -> TopK:
    """The k best labels of every row, as `top`, by the workers of a backend (`unmask.parallel`).

    `model` may be the path of a folder, which workers that see it map for themselves. `by` is
    "rows" or "labels" (see the module); by default rows, unless the model is larger than half the
    memory of a worker.

    >>> weights = np.float32([[1, 0], [0, 1], [1, 1]])
    >>> model = LinearModel((Shard(weights, np.zeros(3, np.float32)),), "logistic")
    >>> top_spread(model, [[1.0, 0.5], [0.0, 1.0]], 2, by="labels").labels
    array([[2, 0],
           [1, 2]], dtype=int32)
    """
    stored = None
    if isinstance(model, LinearModel):
        loaded = checked(model)
    else:
        stored = files.complete(Path(model).resolve())
        loaded = files.of_manifest(*stored, verify=True)
    rows = features(loaded, given)
    p = None if propensity is None else _validation.propensity(propensity, loaded.n_labels)
    how = Ranking(_validation.positive_int(k, "k"), rank_by, p)
    with parallel.connect(backend) as runner:
        way = _way(runner, loaded) if by is None else _validation.one_of(by, WAYS, "way to spread")
        if way == "labels":
            return _by_labels(runner, loaded, rows, how)
        placed = stored if stored and runner.shares_folder(stored[0]) else _plain(loaded)
        return _by_rows(runner, placed, rows, how)


def _way(runner: parallel.Runner, model: LinearModel) -> str:
    memory = runner.resources().memory
    return "rows" if memory is None or 2 * size(model) <= memory else "labels"


def size(model: LinearModel) -> int:
    """Bytes of its arrays."""
    arrays = [
        (w.data, w.indices, w.indptr) if sp.issparse(w) else (w,)
        for w in (part.weights for part in model.shards)
    ]
    return sum(int(array.nbytes) for group in arrays for array in group) + 4 * model.n_labels


def _by_rows(runner: parallel.Runner, model: Any, rows: sp.csr_array, how: Ranking) -> TopK:
    room = runner.resources()
    height = max(1, -(-rows.shape[0] // (2 * room.workers * room.threads)))
    tasks = [rows[at : at + height] for at in range(0, rows.shape[0], height)] or [rows]
    with closing(runner.run(_top_of_rows, tasks, (model, how))) as parts:
        found = dict(parts)
    inorder = [found[at] for at in range(len(tasks))]
    return TopK(
        *(np.concatenate([getattr(t, name) for t in inorder]) for name in TopK.__match_args__)
    )


def _top_of_rows(placed: tuple[Any, Ranking], rows: sp.csr_array) -> TopK:
    model, how = placed  # by its manifest, so that all use one model even if it is replaced
    known = model if isinstance(model, LinearModel) else files.of_manifest(*model, verify=False)
    return top(known, rows, how.k, rank_by=how.rank_by, propensity=how.propensity)


def _by_labels(
    runner: parallel.Runner, model: LinearModel, rows: sp.csr_array, how: Ranking
) -> TopK:
    room = runner.resources()
    shards = [_unmapped(part) for part in files.pieces(model, PIECE)]
    starts = np.cumsum([0, *(len(part.bias) for part in shards)]).tolist()
    tasks, placed = list(zip(starts, shards, strict=False)), (model.loss, rows, how)
    ahead = 2 * room.workers * room.threads  # shards are large; no more of them on their way
    with closing(runner.run(_top_of_shard, tasks, placed, ahead=ahead)) as parts:
        return reduce(merged, (part for _, part in parts))


def _top_of_shard(placed: tuple[str, sp.csr_array, Ranking], task: tuple[int, Shard]) -> TopK:
    loss, rows, how = placed
    start, part = task
    stop = start + len(part.bias)
    p = None if how.propensity is None else how.propensity[start:stop]
    found = top(LinearModel((part,), loss), rows, how.k, rank_by=how.rank_by, propensity=p)
    return TopK(np.where(found.labels < 0, -1, found.labels + start), found.scores)


def merged(one: TopK, other: TopK) -> TopK:
    """The best k of two predictions for the same rows, from different labels.

    >>> merged(TopK([[0, 1]], [[0.9, 0.2]]), TopK([[7, 8]], [[0.5, 0.4]])).labels
    array([[0, 7]], dtype=int32)
    """
    both = TopK.sorted(np.c_[one.labels, other.labels], np.c_[one.scores, other.scores])
    return TopK(both.labels[:, : one.k], both.scores[:, : one.k])


def _plain(model: LinearModel) -> LinearModel:
    """Without maps of files, so that arrays are sent as they are."""
    return LinearModel(tuple(_unmapped(part) for part in model.shards), model.loss)


def _unmapped(part: Shard) -> Shard:
    w, bias = part.weights, np.asarray(part.bias)
    if not sp.issparse(w):
        return Shard(np.asarray(w), bias)
    arrays = tuple(np.asarray(a) for a in (w.data, w.indices, w.indptr))
    return Shard(sp.csr_array(arrays, shape=w.shape), bias)
