"""Linear models on disk: a model folder (`folders`) whose weights lie in shards of labels.

shard-00000000-<sha256>.safetensors    weights (dense) or indptr, indices, data (CSR), and bias
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np
import scipy.sparse as sp

from unmask._messages import named_options
from unmask._typing import Array, PathLike
from unmask.arrays import checks
from unmask.files import archive, exclusive, refuse_columns
from unmask.linear import folders
from unmask.linear.folders import MANIFEST, UNFINISHED, Beside, FileEntry, Format, Piece, intact
from unmask.linear.model import LOSSES, LinearModel, Shard, checked

FORMAT = Format(
    "unmask linear model", 2, "linear.train",
    {"shards": Piece("a shard", {"start": int, "stop": int}, ("start",))},
)  # fmt: skip
_ROWS = 1 << 12  # of weights that are looked at in one go


class Entry(FileEntry):
    """What the manifest says of a shard, with its first label and the label after its last."""

    start: int
    stop: int


class Head(folders.Head):
    """A manifest."""

    shards: list[Entry]


@named_options
def save(path: PathLike, model: LinearModel, *, shard_labels: int = 4096) -> None:
    """Write a model to a folder; an existing model there stays until the new one is complete.

    Parameters
    ----------
    path : path
        The folder; made if it is not there.
    model : LinearModel
    shard_labels : int, default 4096
        The most labels of a file.

    Raises
    ------
    ValueError
        If the model is damaged.

    Examples
    --------
    >>> import tempfile
    >>> from unmask.linear import LinearModel, Shard, load, save
    >>> w, b = np.float32([[1, 2]]), np.float32([0.5])
    >>> save(folder := tempfile.mkdtemp(), LinearModel((Shard(w, b),), "logistic"))
    >>> load(folder).weights
    array([[1., 2.]], dtype=float32)
    """
    folder, model = Path(path), checked(model)
    head = FORMAT.header(model.loss, model.n_labels, model.n_features, model.parameters)
    idf = folders.word_weights(model.idf, model.n_features)
    folder.mkdir(parents=True, exist_ok=True)
    with exclusive(folder):
        folders.begin(folder, head, Beside(idf, model.label_names, model.vocabulary))
        start = 0
        for part in split_shards(model, shard_labels):
            FORMAT.add(folder, "shards", write_shard(folder, start, part))
            start += len(part.bias)
        FORMAT.finish(folder)


def split_shards(model: LinearModel, size: int) -> Iterator[Shard]:
    """The shards of a model, cut where they have more than `size` labels."""
    for part in model.shards:
        for start in range(0, len(part.bias), size):
            yield Shard(part.weights[start : start + size], part.bias[start : start + size])


def write_shard(folder: Path, start: int, part: Shard) -> Entry:
    """Write the file of a shard, and return what the manifest is to say of it."""
    contents = folders.tensors(_arrays(part))
    entry = folders.write_file(folder, f"shard-{start:08d}-{{}}.safetensors", contents)
    return {**entry, "start": start, "stop": start + len(part.bias)}


def _arrays(part: Shard) -> dict[str, Array]:
    bias = np.ascontiguousarray(part.bias, dtype=np.float32)
    if not sp.issparse(part.weights):
        return {"weights": np.ascontiguousarray(part.weights, dtype=np.float32), "bias": bias}
    matrix = sp.csr_array(part.weights)
    return {
        "indptr": matrix.indptr.astype(np.int64),
        "indices": matrix.indices.astype(np.int32),
        "data": matrix.data.astype(np.float32),
        "bias": bias,
    }


def is_complete(folder: Path, head: Head) -> bool:
    """Whether all files that a manifest names are there, byte for byte."""
    whole = _labels_written(head) == head["labels"]
    return whole and all(intact(folder, entry) for entry in FORMAT.listed(head))


@named_options
def load(path: PathLike, *, verify: bool = True) -> LinearModel:
    """The model in a folder, its arrays mapped from the files.

    Parameters
    ----------
    path : path
        A folder that `save` or `train_to` made.
    verify : bool, default True
        Whether to compare every file with its checksum, which reads them once.

    Returns
    -------
    LinearModel

    Raises
    ------
    ValueError
        If something is missing, altered, cut short or not a model of this package.

    Examples
    --------
    >>> import tempfile
    >>> from unmask import linear
    >>> folder = tempfile.mkdtemp() + "/model"
    >>> model, log = linear.train(np.eye(2), np.eye(2, dtype=int))
    >>> linear.save(folder, model)
    >>> linear.load(folder).n_labels
    2
    """
    return load_manifest(*complete(path), verify=verify)


def complete(path: PathLike) -> tuple[Path, Head]:
    """The folder of a complete model, and its manifest."""
    folder = Path(path)
    present = os.path.lexists(folder / MANIFEST) or not os.path.lexists(folder / UNFINISHED)
    head = cast("Head", FORMAT.read(folder, MANIFEST if present else UNFINISHED))
    refuse_columns(folder / MANIFEST, head["features"], "features")
    if not present or _labels_written(head) != head["labels"] or not head["shards"]:
        raise ValueError(
            f"{folder} holds labels 0 to {_labels_written(head) - 1} of {head['labels']}: "
            "training has not finished; resume it, or train again."
        )
    return folder, head


def load_manifest(folder: Path, head: Head, *, verify: bool) -> LinearModel:
    """The model that a manifest describes; see `load`."""
    shards = tuple(_read_shard(folder, entry, head["features"], verify) for entry in head["shards"])
    if head["loss"] not in LOSSES:
        raise ValueError(
            f"{folder / MANIFEST} has the unknown loss {head['loss']!r:.60}; known are: "
            f"{', '.join(LOSSES)}."
        )
    beside = folders.read_beside(folder, head, verify)
    return LinearModel(shards, head["loss"], head["parameters"], *beside)


def _labels_written(head: Head) -> int:
    """The label after the last of those that are there without a gap from label 0 on."""
    stop = 0
    for entry in head["shards"]:
        if entry["start"] != stop:
            break
        stop = entry["stop"]
    return stop


def _read_shard(folder: Path, entry: Entry, n_features: int, verify: bool) -> Shard:
    path, count = folder / entry["file"], entry["stop"] - entry["start"]
    with folders.opened(folder, entry) as file:
        if verify:
            folders.refuse_other(file, entry)
        arrays = folders.mapped(path, file, entry["bytes"])
    try:
        part = _shard_of(arrays, count, n_features)
        if verify:
            _refuse_infinite(part)
        return part
    except (KeyError, ValueError) as error:
        raise ValueError(f"{path} does not hold {count} × {n_features} weights: {error}.") from None


def _shard_of(arrays: dict[str, Array], count: int, n_features: int) -> Shard:
    bias = arrays["bias"]
    if "weights" in arrays:
        weights = arrays["weights"]
    else:  # checked before it is used: kernels trust these indices
        csr = (arrays["data"], arrays["indices"], arrays["indptr"])
        weights = archive.sparse(*csr, (count, n_features))
    if weights.shape != (count, n_features) or bias.shape != (count,):
        raise ValueError(f"found weights {weights.shape} and biases {bias.shape}")
    if not weights.dtype == bias.dtype == np.float32:
        raise ValueError(f"found {weights.dtype} weights and {bias.dtype} biases")
    return Shard(weights, bias)


def _refuse_infinite(part: Shard) -> None:
    """Raise unless weights are finite and, if sparse, stored once each."""
    weights = part.weights
    if not isinstance(weights, np.ndarray):
        checks.matrix(weights, name="model weights")
    values = weights if isinstance(weights, np.ndarray) else weights.data
    for numbers, name in ((values, "weights"), (part.bias, "biases")):
        for start in range(0, len(numbers), _ROWS):
            checks.finite(numbers[start : start + _ROWS], name)
