"""Linear models on disk: a folder of safetensors shards and a JSON manifest.

    manifest.json                format, version, loss, labels, features, parameters, checksums
    shard-00000000.safetensors   weights (dense) or indptr, indices, data (CSR), and bias

Nothing in such a folder is ever executed. A file appears whole or not at all, and the manifest
names only finished shards, so an interrupted training leaves a folder from which it can go on.
Arrays are mapped from the files and read when they are used.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from safetensors.numpy import save as to_safetensors

from unmask import _io, _validation
from unmask._io import archive
from unmask.linear.model import LOSSES, LinearModel, Shard, checked

FORMAT = "unmask linear model"
VERSION = 1
MANIFEST = "manifest.json"

Entry = dict[str, Any]
"""What the manifest says of a shard: file, first label, label after the last, size, checksum."""

_TYPES = {"F32": np.float32, "I32": np.int32, "I64": np.int64}
_ROWS = 1 << 12  # of weights that are looked at in one go


def save(path: str | os.PathLike[str], model: LinearModel, *, shard_labels: int = 4096) -> None:
    """Write a model to a folder; an existing model there is replaced.

    >>> import tempfile
    >>> from unmask.linear import LinearModel, Shard, load, save
    >>> w, b = np.float32([[1, 2]]), np.float32([0.5])
    >>> save(folder := tempfile.mkdtemp(), LinearModel((Shard(w, b),), "logistic"))
    >>> load(folder).weights
    array([[1., 2.]], dtype=float32)
    """
    folder, model = Path(path), checked(model)
    head = header(model.loss, model.n_labels, model.n_features, model.parameters)
    folder.mkdir(parents=True, exist_ok=True)
    with _io.exclusive(folder):
        begin(folder, head)
        at = 0
        for piece in pieces(model, shard_labels):
            add_shard(folder, at, piece)
            at += len(piece.bias)


def pieces(model: LinearModel, size: int) -> Iterator[Shard]:
    """The shards of a model, cut where they have more than `size` labels."""
    for part in model.shards:
        for start in range(0, len(part.bias), size):
            yield Shard(part.weights[start : start + size], part.bias[start : start + size])


def header(
    loss: str, n_labels: int, n_features: int, parameters: Mapping[str, Any], fingerprint: str = ""
) -> dict[str, Any]:
    """The manifest of a model without shards."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "loss": loss,
        "labels": n_labels,
        "features": n_features,
        "parameters": dict(parameters),
        "fingerprint": fingerprint,
        "shards": [],
    }


def begin(folder: Path, head: dict[str, Any]) -> None:
    """Start a folder (again): an empty manifest first, so that no old shard is taken for new."""
    _write_manifest(folder, head)


def add_shard(folder: Path, start: int, part: Shard) -> None:
    """Write the shard of labels `start`, `start + 1`, …; then let the manifest know of it."""
    list_shard(folder, write_shard(folder, start, part))


def write_shard(folder: Path, start: int, part: Shard) -> Entry:
    """Write the file of a shard, and return what the manifest is to say of it."""
    name = f"shard-{start:08d}.safetensors"
    contents = to_safetensors(_arrays(part))
    with _io.atomic_write(folder / name) as file:
        file.write(contents)
    return {
        "file": name,
        "start": start,
        "stop": start + len(part.bias),
        "bytes": len(contents),
        "sha256": hashlib.sha256(contents).hexdigest(),
    }


def list_shard(folder: Path, entry: Entry) -> None:
    """Let the manifest know of a shard."""
    head = read_manifest(folder)
    kept = [s for s in head["shards"] if s["start"] != entry["start"]]
    head["shards"] = sorted([*kept, entry], key=lambda s: s["start"])
    _write_manifest(folder, head)


def intact(folder: Path, entry: Entry) -> bool:
    """Whether the file of a shard is what its entry says, byte for byte."""
    path = folder / entry["file"]
    same = path.is_file() and path.stat().st_size == entry["bytes"]
    return bool(same and _digest(path) == entry["sha256"])


def tidy(folder: Path) -> None:
    """Remove what a killed process may have left half done."""
    for pattern in (".*.part", ".placed-*", ".seen-*"):
        for left in folder.glob(pattern):
            left.unlink(missing_ok=True)


def _arrays(part: Shard) -> dict[str, NDArray[Any]]:
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


def _write_manifest(folder: Path, head: dict[str, Any]) -> None:
    with _io.atomic_write(folder / MANIFEST) as file:
        file.write(json.dumps(head, indent=1).encode())


def load(path: str | os.PathLike[str], *, verify: bool = True) -> LinearModel:
    """The model in a folder, its arrays mapped from the files.

    `verify` compares every file with its checksum, which reads them once. Whatever is missing,
    altered, cut short or not ours is a ValueError that says so.
    """
    folder = Path(path)
    head = read_manifest(folder)
    _io.refuse_columns(folder / MANIFEST, head["features"], "features")
    expected = 0
    for entry in head["shards"]:
        if entry["start"] != expected:
            break
        expected = entry["stop"]
    if expected != head["labels"] or not head["shards"]:
        raise ValueError(
            f"{folder} holds labels 0 to {expected - 1} of {head['labels']}: training has not "
            "finished; resume it, or train again."
        )
    shards = tuple(_read_shard(folder, entry, head["features"], verify) for entry in head["shards"])
    if head["loss"] not in LOSSES:
        raise ValueError(
            f"{folder / MANIFEST} has the unknown loss {head['loss']!r:.60}; known are: "
            f"{', '.join(LOSSES)}."
        )
    return LinearModel(shards, head["loss"], head["parameters"])


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest, if it is one of ours and complete in itself."""
    try:
        head = _io.read_json(folder / MANIFEST)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{folder} is no model folder: {MANIFEST} cannot be read ({error})."
        ) from None
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise ValueError(f"{folder / MANIFEST} is not the manifest of an {FORMAT}.")
    if head.get("version") != VERSION:
        raise ValueError(
            f"{folder} has version {head.get('version')} of the model format; this package reads "
            f"version {VERSION}."
        )
    wanted = {"loss": str, "labels": int, "features": int, "parameters": dict, "shards": list}
    for key, kind in wanted.items():
        if not isinstance(head.get(key), kind) or (kind is int and head[key] < 0):
            raise ValueError(f"{folder / MANIFEST} has no proper {key!r}; the file is damaged.")
    for entry in head["shards"]:
        _refuse_bad_entry(folder, entry)
    names = [entry["file"] for entry in head["shards"]]
    if len(set(names)) < len(names):
        raise ValueError(f"{folder / MANIFEST} names a shard twice; the file is damaged.")
    return head


def _refuse_bad_entry(folder: Path, entry: Any) -> None:
    kinds = {"file": str, "start": int, "stop": int, "bytes": int, "sha256": str}
    sound = isinstance(entry, dict) and all(isinstance(entry.get(k), t) for k, t in kinds.items())
    if not sound or not _io.is_inside(folder, entry["file"]):
        raise ValueError(
            f"{folder / MANIFEST} describes a shard as {entry!r:.200}; the file is damaged."
        )


def _read_shard(folder: Path, entry: dict[str, Any], n_features: int, verify: bool) -> Shard:
    path = folder / entry["file"]
    size = path.stat().st_size if path.is_file() else -1
    if size != entry["bytes"]:
        found = f"has {size} bytes instead of {entry['bytes']}" if size >= 0 else "is missing"
        raise ValueError(f"{path} {found}: the model is incomplete; train or copy it again.")
    if verify and _digest(path) != entry["sha256"]:
        raise ValueError(f"{path} does not match its checksum: it was altered or damaged.")
    arrays = _mapped(path)
    count = entry["stop"] - entry["start"]
    try:
        part = _shard_of(arrays, count, n_features)
        if verify:
            _refuse_infinite(part)
        return part
    except (KeyError, ValueError) as error:
        raise ValueError(f"{path} does not hold {count} × {n_features} weights: {error}.") from None


def _shard_of(arrays: dict[str, Any], count: int, n_features: int) -> Shard:
    bias = arrays["bias"]
    if "weights" in arrays:
        weights = arrays["weights"]
    else:  # checked before it is used: kernels follow these indices wherever they point
        csr = (arrays["data"], arrays["indices"], arrays["indptr"])
        weights = archive.sparse(*csr, (count, n_features))
    if weights.shape != (count, n_features) or bias.shape != (count,):
        raise ValueError(f"found weights {weights.shape} and biases {bias.shape}")
    if not weights.dtype == bias.dtype == np.float32:
        raise ValueError(f"found {weights.dtype} weights and {bias.dtype} biases")
    return Shard(weights, bias)


def _refuse_infinite(part: Shard) -> None:
    values = part.weights.data if sp.issparse(part.weights) else part.weights
    for numbers, name in ((values, "weights"), (part.bias, "biases")):
        for at in range(0, len(numbers), _ROWS):
            _validation.finite(numbers[at : at + _ROWS], name)


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _mapped(path: Path) -> dict[str, NDArray[Any]]:
    """The tensors of a safetensors file, mapped: 8 bytes of header length, JSON, raw arrays."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        try:
            if not 2 <= length <= size - 8:
                raise ValueError("its header does not fit")
            named = _io.read_json(path, file.read(length))
            return {
                name: _tensor(path, about, 8 + length, size)
                for name, about in named.items()
                if name != "__metadata__"
            }
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"{path} is no safetensors file: {error}.") from None


def _tensor(path: Path, about: dict[str, Any], base: int, size: int) -> NDArray[Any]:
    kind, shape = np.dtype(_TYPES[about["dtype"]]), tuple(int(s) for s in about["shape"])
    start, stop = about["data_offsets"]
    fits = stop - start == kind.itemsize * math.prod(shape) and start >= 0 and base + stop <= size
    if not fits or min(shape, default=0) < 0:
        raise ValueError(f"array offsets {start}:{stop} do not fit shape {shape}")
    if stop == start:
        return np.zeros(shape, dtype=kind)
    return np.memmap(path, dtype=kind, mode="r", offset=base + start, shape=shape)
