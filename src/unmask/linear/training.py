"""From features and labels to a model: weights once, then blocks of labels, here or on a cluster.

`train` returns a model, and `train_to` writes it to a folder as it goes: a shard of labels at a
time, skipping those that are already there.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from unmask import __version__, _io, parallel
from unmask.linear import files, ova, softmax
from unmask.linear.blocks import Common, Trained, block_labels, blocks, joined, train_block
from unmask.linear.model import LinearModel, Shard, checked
from unmask.linear.planning import refuse_small
from unmask.linear.problem import FitLog, Problem
from unmask.linear.recipe import Recipe, prepare
from unmask.weights import Weights

Progress = Callable[[int, int], None]
SETTLING = 10.0  # seconds that a network disk may take to show what another machine wrote


def train(
    features: Any,
    labels: Any,
    recipe: Recipe | None = None,
    *,
    propensity: Any = None,
    weights: Weights | None = None,
    first: LinearModel | None = None,
    progress: Progress | None = None,
    backend: Any = None,
) -> tuple[LinearModel, FitLog]:
    """Train a model in memory; also returns objectives, iterations and status of every label.

    `weights` take the place of the recipe's correction; `first` is a model to start from;
    `progress(done, total)` is called as labels are finished; `backend` is where blocks of labels
    are solved (`unmask.parallel`), which does not change the model.

    >>> model, _ = train([[1.0, 0.0], [0.0, 1.0]], [[1, 0], [0, 1]])
    >>> (model.weights @ np.eye(2) + model.bias[:, None] > 0).astype(int)
    array([[1, 0],
           [0, 1]])
    """
    chosen = recipe or Recipe()
    given = prepare(features, labels, chosen, propensity, weights)
    size = block_labels(given)
    tasks = blocks(given, size, start=_start(first, given))
    note = _counter(progress, given.shape[2])
    solved: list[Trained] = []
    shared = Common(given.common, chosen.prune_below)
    with parallel.connect(backend) as runner:
        if backend is not None:
            refuse_small(given, size, runner.resources())
        with closing(runner.run(train_block, tasks, shared)) as parts:
            for _, part in parts:
                solved.append(part)
                note(len(part.course.status))
    solved.sort(key=lambda part: part.start)
    course = joined([part.course for part in solved])
    _report(given, np.arange(given.shape[2]), course)
    model = LinearModel(tuple(part.shard for part in solved if part.shard), chosen.loss, {})
    whole = Shard(model.weights, model.bias)
    return LinearModel((whole,), chosen.loss, asdict(chosen)), course


def train_to(
    path: str | os.PathLike[str],
    features: Any,
    labels: Any,
    recipe: Recipe | None = None,
    *,
    propensity: Any = None,
    weights: Weights | None = None,
    idf: ArrayLike | None = None,
    shard_labels: int | None = None,
    resume: bool = True,
    progress: Progress | None = None,
    backend: Any = None,
) -> LinearModel:
    """Train into a folder, shard by shard; a shard that is there already is not trained again.

    Interrupted (even killed), the folder keeps its finished shards, and the same call goes on
    after them; the result is the same model, bit for bit, whatever the `backend`. A folder that
    was made from other data, with another recipe or by another version of this package is refused
    unless `resume` is False, which starts anew. A model that is there stays until the new one is
    complete; interrupted on the way, the new one goes on with `resume=True`. Workers that see the
    folder write their shards into it, others send them here; the manifest lists a shard only after
    its file has been compared with its checksum. While one process trains into a folder, another
    that tries to is refused.

    `idf` are the word weights that made tf-idf of the features (`data.idf`); the model keeps them.

    >>> import tempfile
    >>> model = train_to(tempfile.mkdtemp() + "/model", [[1.0], [0.0]], [[1, 0], [0, 1]])
    >>> model.n_labels
    2
    """
    chosen = recipe or Recipe()
    given = prepare(features, labels, chosen, propensity, weights)
    size = block_labels(given, shard_labels)
    folder, n_labels = Path(path).resolve(), given.shape[2]
    words = files.word_weights(idf, given.shape[1])
    mark = _fingerprint(given, chosen, size, words)
    folder.mkdir(parents=True, exist_ok=True)
    note = _counter(progress, n_labels)
    with _io.exclusive(folder):
        complete, kept = _earlier(folder, mark) if resume else (False, [])
        if complete:
            files.tidy(folder)
            note(n_labels)
            return files.load(folder, verify=False)
        head = files.header(chosen.loss, n_labels, given.shape[1], asdict(chosen), mark)
        files.begin(folder, {**head, "shards": kept}, words)
        files.tidy(folder)
        note(sum(entry["stop"] - entry["start"] for entry in kept))
        finished = {entry["start"] for entry in kept}
        tasks = [b for b in blocks(given, size) if b.start not in finished]
        with parallel.connect(backend if tasks else None) as runner, _keeping(folder, n_labels):
            if backend is not None:
                refuse_small(given, size, runner.resources())
            shared = Common(
                given.common,
                chosen.prune_below,
                str(folder) if runner.shares_folder(folder) else None,
            )
            with closing(runner.run(train_block, tasks, shared, folder=folder)) as parts:
                for _, part in parts:
                    done = part.start + np.arange(len(part.course.status))
                    _report(given, done, part.course)
                    _add(folder, part)
                    note(len(done))
        files.finish(folder)
        return files.load(folder, verify=False)


def _report(given: Problem, labels: NDArray[np.integer], course: FitLog) -> None:
    if given.loss == "softmax":
        softmax.report(given, course)
    else:
        ova.report(given, labels, course)


def _add(folder: Path, part: Trained) -> None:
    """A finished block into the manifest; its file first, and seen to be whole."""
    entry = part.entry
    if part.shard is not None:
        entry = files.write_shard(folder, part.start, part.shard)
    deadline = time.monotonic() + SETTLING
    while entry is not None and not files.intact(folder, entry):
        if time.monotonic() > deadline:
            raise ValueError(
                f"{folder / entry['file']} is not what a worker wrote; does every worker see this "
                "folder under the same path? The shard is left out: train again to go on."
            )
        time.sleep(0.2)
    if entry is not None:
        files.list_shard(folder, entry)


@contextmanager
def _keeping(folder: Path, n_labels: int) -> Iterator[None]:
    """What goes wrong with files is said together with how much is safe."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        kept = sum(
            e["stop"] - e["start"] for e in files.read_manifest(folder, files.UNFINISHED)["shards"]
        )
        says = f"{error.strerror}; {kept} of {n_labels} labels are kept in {folder}: make room or "
        says += "repair what is wrong, and start the same training again to go on"
        raise OSError(error.errno, says, error.filename) from error


def _start(first: LinearModel | None, given: Problem) -> NDArray[np.float32] | None:
    """Weight vectors (labels × features+1) of the model to start from."""
    if first is None:
        return None
    first = checked(first)
    _, d, n_labels = given.shape
    if (first.n_labels, first.n_features) != (n_labels, d):
        raise ValueError(
            f"the model to start from has {first.n_labels} labels and {first.n_features} features; "
            f"the data have {n_labels} and {d}."
        )
    w = first.weights
    return np.asarray(np.c_[w.toarray() if sp.issparse(w) else w, first.bias], dtype=np.float32)


def _counter(progress: Progress | None, total: int) -> Callable[[int], None]:
    """Turn "so many more are finished" into progress(done, total)."""
    done = 0

    def note(count: int) -> None:
        nonlocal done
        done += count
        if progress is not None and count:
            progress(done, total)

    return note


def _fingerprint(given: Problem, recipe: Recipe, shard_labels: int, idf: Any) -> str:
    """A digest of all that determines the model, the version of this package included."""
    about = (__version__, recipe, given.shape, shard_labels, idf is not None)
    digest = hashlib.sha256(repr(about).encode())
    for array in (*given.rows, *given.entries, *(() if idf is None else (idf,))):
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()


def _earlier(folder: Path, mark: str) -> tuple[bool, list[files.Entry]]:
    """Whether this very model is complete, else its shards that are there and whole."""
    others = []
    for name, head in files.begun(folder):
        if head.get("fingerprint") == mark:
            complete = name == files.MANIFEST and files.whole(folder, head)
            return complete, [entry for entry in head["shards"] if files.intact(folder, entry)]
        others.append(head["package"])
    if others:
        _refuse(folder, others[0])
    return False, []


def _refuse(folder: Path, package: str) -> None:
    anew = "start anew with `resume=False` or `unmask train --no-resume`"
    if package != __version__:
        raise ValueError(
            f"the model in {folder} was begun by unmask {package:.40}; this is "
            f"{__version__}, which may solve differently: go on with the version that began "
            f"it, choose another folder, or {anew}."
        )
    raise ValueError(
        f"{folder} holds a model of other data or another recipe; choose another folder, or {anew}."
    )
