"""From features and labels to a model: weights once, then blocks of labels, here or on a cluster.

`train` returns a model, and `train_to` writes it to a folder as it goes: a shard of labels at a
time, skipping those that are already there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from unmask import __version__, parallel
from unmask._messages import named_options, setting
from unmask._typing import (
    BackendLike,
    FeaturesLike,
    LabelsLike,
    PathLike,
    Progress,
    PropensityLike,
)
from unmask.data import Dataset
from unmask.data.texts import Vocabulary
from unmask.files import exclusive
from unmask.linear import files, folders
from unmask.linear.blocks import Block, Common, Trained, block_labels, blocks, train_block
from unmask.linear.completed import prepared
from unmask.linear.model import LinearModel, Parameter
from unmask.linear.planning import refuse_small
from unmask.linear.problem import FitLog, Problem, Recipe
from unmask.linear.solving import counter, report, solve
from unmask.weights import Weights


@named_options
def train(
    features: FeaturesLike,
    labels: LabelsLike | Dataset,
    recipe: Recipe | None = None,
    *,
    propensity: PropensityLike | None = None,
    weights: Weights | None = None,
    first: LinearModel | None = None,
    progress: Progress | None = None,
    backend: BackendLike = None,
) -> tuple[LinearModel, FitLog]:
    """Train a model in memory.

    Minimises ½‖w‖² + C Σ_i loss, see `Recipe`.

    Parameters
    ----------
    features : (n, d) matrix
        Dense or sparse.
    labels : (n, L) matrix of 0 and 1, or Dataset
        Observed labels, dense or sparse; judgements of a data set are obeyed (`weights`).
    recipe : Recipe, optional
        The parameters; their defaults if left out.
    propensity : (L,) numbers in (0, 1], or sparse (n, L), optional
        Needed by every correction but "vanilla".
    weights : Weights, optional
        Take the place of the recipe's correction.
    first : LinearModel, optional
        A model to start from.
    progress : function (done, total), optional
        Called as labels are finished.
    backend : optional
        Where blocks of labels are solved (`unmask.parallel`), which does not change the model.

    Returns
    -------
    model : LinearModel
    log : FitLog
        Objective, iterations and status of every label.

    Raises
    ------
    ValueError
        If features, labels, weights or propensities are out of range or do not fit each other, a
        problem has no minimum, or the tasks do not fit the workers.

    References
    ----------
    Babbar & Schölkopf, *DiSMEC: distributed sparse machines for extreme multi-label classification*
    (2017); Schultheis & Babbar (2021).

    Examples
    --------
    >>> model, _ = train([[1.0, 0.0], [0.0, 1.0]], [[1, 0], [0, 1]])
    >>> (model.weights @ np.eye(2) + model.bias[:, None] > 0).astype(int)
    array([[1, 0],
           [0, 1]])
    """
    problem = prepared(features, labels, recipe or Recipe(), propensity, weights, backend)
    return solve(problem, first=first, progress=progress, backend=backend)


@named_options
def train_to(
    path: PathLike,
    features: FeaturesLike,
    labels: LabelsLike | Dataset,
    recipe: Recipe | None = None,
    *,
    propensity: PropensityLike | None = None,
    weights: Weights | None = None,
    idf: ArrayLike | None = None,
    label_names: Sequence[str] | None = None,
    vocabulary: Vocabulary | None = None,
    shard_labels: int | None = None,
    choice: Mapping[str, Parameter] | None = None,
    resume: bool = True,
    progress: Progress | None = None,
    backend: BackendLike = None,
) -> LinearModel:
    """Train into a folder, shard by shard; a shard that is there already is not trained again.

    Interrupted (even killed), the folder keeps its finished shards, and the same call goes on
    after them; the result is the same model, bit for bit, whatever the `backend`. A folder that
    was made from other data, with another recipe or by another version of this package is refused
    unless `resume` is False, which starts again. A model that is there stays until the new one is
    complete; interrupted on the way, the new one goes on with `resume=True`. Workers that see the
    folder write their shards into it, others send them here; the manifest lists a shard only after
    its file has been compared with its checksum. While one process trains into a folder, another
    that tries to is refused.

    Parameters
    ----------
    path : path
        The folder; made if it is not there.
    features : (n, d) matrix
        Dense or sparse.
    labels : (n, L) matrix of 0 and 1, or Dataset
        Observed labels, dense or sparse; judgements of a data set are obeyed (`weights`).
    recipe : Recipe, optional
        The parameters; their defaults if left out.
    propensity : (L,) numbers in (0, 1], or sparse (n, L), optional
        Needed by every correction but "vanilla".
    weights : Weights, optional
        Take the place of the recipe's correction.
    idf : (d,) floats, optional
        The word weights that made tf-idf of the features (`data.idf`); the model keeps them.
    label_names : L strings, optional
        The names of the labels; the model keeps them, and predictions carry them.
    vocabulary : Vocabulary, optional
        The words of the features, if those were made of texts; the model keeps it.
    shard_labels : int, optional
        Labels of a shard; from the data if left out.
    choice : mapping of str to plain values, optional
        How the recipe was chosen and by what predictions are ranked; the manifest keeps it among
        the model's parameters.
    resume : bool, default True
        Whether to go on after the shards that are there.
    progress : function (done, total), optional
        Called as labels are finished.
    backend : optional
        Where blocks of labels are solved (`unmask.parallel`), which does not change the model.

    Returns
    -------
    LinearModel
        Its arrays are mapped from the folder.

    Raises
    ------
    ValueError
        As `train`; and if the folder holds another model, or a file is not what was written.
    OSError
        If the disk fails; the message says how many labels are kept.

    Examples
    --------
    >>> import tempfile
    >>> model = train_to(tempfile.mkdtemp() + "/model", [[1.0], [0.0]], [[1, 0], [0, 1]])
    >>> model.n_labels
    2
    """
    problem = prepared(features, labels, recipe or Recipe(), propensity, weights, backend)
    size = block_labels(problem, shard_labels)
    folder, n_labels = Path(path).resolve(), problem.shape[2]
    beside = beside_of(problem.shape[1:], idf, label_names, vocabulary)
    mark = _fingerprint(problem, size, beside)
    note = counter(progress, n_labels)
    with own_folder(folder):
        complete, kept = _earlier(folder, mark) if resume else (False, [])
        if complete:
            files.FORMAT.remove_unlisted(folder)
            note(n_labels)
            return files.load(folder, verify=False)
        finished = {entry["start"] for entry in kept}
        tasks = [b for b in blocks(problem, size) if b.start not in finished]
        with parallel.connect(backend if tasks else None) as runner:
            if backend is not None:
                refuse_small(problem, size, runner.resources())
            head = files.FORMAT.header(
                problem.recipe.loss,
                n_labels,
                problem.shape[1],
                {**asdict(problem.recipe), **(choice or {})},
                mark,
            )
            folders.begin(folder, {**head, "shards": kept}, beside)
            files.FORMAT.remove_unlisted(folder)
            note(sum(entry["stop"] - entry["start"] for entry in kept))
            with _keeping(folder, n_labels):
                _train_shards(runner, problem, tasks, folder, note)
        files.FORMAT.finish(folder)
        return files.load(folder, verify=False)


def beside_of(
    sizes: tuple[int, int],
    idf: ArrayLike | None,
    label_names: Sequence[str] | None,
    vocabulary: Vocabulary | None,
) -> folders.Beside:
    """What the model keeps beside its weights; ValueError where that does not fit the data."""
    d, n_labels = sizes
    if label_names is not None and len(label_names) != n_labels:
        raise ValueError(f"{len(label_names)} label names for {n_labels} labels; give one each.")
    if vocabulary is not None and len(vocabulary.words) != d:
        raise ValueError(f"a vocabulary of {len(vocabulary.words)} words for {d} features.")
    names = None if label_names is None else tuple(label_names)
    return folders.Beside(folders.word_weights(idf, d), names, vocabulary)


@contextmanager
def own_folder(path: Path) -> Iterator[None]:
    """The folder, made if need be, to which no other process writes meanwhile.

    A new one that stayed empty is removed again, but not by a process that was refused: it may be
    the folder of another one, which is about to write its first file.
    """
    new = not path.exists()
    path.mkdir(parents=True, exist_ok=True)
    with exclusive(path):
        try:
            yield
        finally:
            if new and not any(path.iterdir()):
                path.rmdir()


def _train_shards(
    runner: parallel.Runner,
    problem: Problem,
    tasks: list[Block],
    folder: Path,
    note: Callable[[int], None],
) -> None:
    """Solve blocks and list each shard in the manifest as it is finished."""
    written_to = str(folder) if runner.shares_folder(folder) else None
    shared = Common(problem.common, problem.recipe.prune_below, written_to)
    with closing(runner.run(train_block, tasks, shared, folder=folder)) as parts:
        for _, part in parts:
            labels = part.start + np.arange(len(part.log.status))
            report(problem, labels, part.log)
            _add(folder, part)
            note(len(labels))


def _add(folder: Path, part: Trained) -> None:
    """A finished block into the manifest; its file first, and seen to be whole."""
    entry = part.entry
    if part.shard is not None:
        entry = files.write_shard(folder, part.start, part.shard)
    if entry is not None:
        folders.wait_for(folder, entry)
        files.FORMAT.add(folder, "shards", entry)


@contextmanager
def _keeping(folder: Path, n_labels: int) -> Iterator[None]:
    """What goes wrong with files is said together with how much is safe."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        kept = sum(
            e["stop"] - e["start"] for e in files.FORMAT.read(folder, folders.UNFINISHED)["shards"]
        )
        says = f"{error.strerror}; {kept} of {n_labels} labels are kept in {folder}: make room or "
        says += "repair what is wrong, and start the same training again to go on"
        raise OSError(error.errno, says, error.filename) from error


def _fingerprint(problem: Problem, shard_labels: int, beside: folders.Beside) -> str:
    """A digest of all that determines the model, the version of this package included."""
    idf = beside.idf
    about = (__version__, problem.recipe, problem.shape, shard_labels, idf is not None)
    digest = hashlib.sha256(repr(about).encode())
    digest.update(repr((beside.names, beside.vocabulary)).encode())
    others = (idf, problem.propensity, problem.row_weights)
    beyond = [array for array in others if array is not None]
    for array in (*problem.rows, *problem.entries, *beyond):
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()


def _earlier(folder: Path, mark: str) -> tuple[bool, list[files.Entry]]:
    """Whether this very model is complete, else its shards that are there and whole."""
    others = []
    for name, head in files.FORMAT.begun(folder):
        if head.get("fingerprint") == mark:
            manifest = cast("files.Head", head)
            complete = name == folders.MANIFEST and files.is_complete(folder, manifest)
            return complete, [entry for entry in head["shards"] if folders.intact(folder, entry)]
        others.append(head["package"])
    if others:
        refuse_started(folder, others[0])
    return False, []


def refuse_started(folder: Path, package: str) -> None:
    """Say why training cannot go on in a folder that another training began."""
    restart = f"start again with {setting('resume', False, of='linear.train')}"
    if package != __version__:
        raise ValueError(
            f"the model in {folder} was begun by unmask {package:.40}; this is "
            f"{__version__}, which may solve differently: go on with the version that began "
            f"it, choose another folder, or {restart}."
        )
    raise ValueError(
        f"{folder} holds a model of other data or another recipe; choose another folder, or "
        f"{restart}."
    )
