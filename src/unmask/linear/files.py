"""Linear models on disk: a folder of safetensors shards and a JSON manifest.

    manifest.json                          format, version, package, loss, labels, features,
                                           parameters, checksums of the files below
    shard-00000000-<sha256>.safetensors    weights (dense) or indptr, indices, data (CSR), and bias
    idf-<sha256>.txt                       if trained on tf-idf: the weight of every word, in a line
    names-<sha256>.json                    if labels have names: a list of them
    vocabulary-<sha256>.json               if trained on texts: the words and how they are found
    unfinished.json                        the manifest of a model that is on its way

Nothing in such a folder is ever executed, and links in it are not followed. A file appears whole or
not at all, under a name that its contents decide. The manifest of a new model is gathered in
`unfinished.json`, which names only finished files, and takes the old one's place in one step:
interrupted at any time, the folder holds the old model or the new one, and training can go on.
Arrays are mapped from the files and read when they are used.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from io import BufferedReader
from pathlib import Path
from typing import Literal, NamedTuple, TypedDict, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from safetensors.numpy import save as to_safetensors

from unmask import __version__, _io, _validation
from unmask._io import archive
from unmask._settings import setting
from unmask._typing import Array, Floats, PathLike
from unmask.data.texts import Vocabulary
from unmask.linear.model import LOSSES, LinearModel, Parameter, Shard, checked

FORMAT = "unmask linear model"
VERSION = 2
MANIFEST = "manifest.json"
UNFINISHED = "unfinished.json"


class TensorHeader(TypedDict):
    """What a safetensors header says of an array."""

    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


class FileEntry(TypedDict):
    """What the manifest says of a file: name, size, checksum."""

    file: str
    bytes: int
    sha256: str


class Entry(FileEntry):
    """What the manifest says of a shard, with its first label and the label after its last."""

    start: int
    stop: int


class Head(TypedDict):
    """A manifest."""

    format: str
    version: int
    package: str
    loss: str
    labels: int
    features: int
    parameters: dict[str, Parameter]
    fingerprint: str
    idf: FileEntry | None
    names: FileEntry | None
    vocabulary: FileEntry | None
    shards: list[Entry]


class Beside(NamedTuple):
    """What a model has beside its weights; None: it has none.

    Attributes
    ----------
    idf : (d,) floats or None
        Word weights.
    names : tuple of str or None
        Of the labels.
    vocabulary : Vocabulary or None
        Of a model of texts.
    """

    idf: Floats | None = None
    names: tuple[str, ...] | None = None
    vocabulary: Vocabulary | None = None


_BESIDE: tuple[Literal["idf", "names", "vocabulary"], ...] = ("idf", "names", "vocabulary")


_TYPES = {"F32": np.float32, "I32": np.int32, "I64": np.int64}
_ROWS = 1 << 12  # of weights that are looked at in one go
_OURS = re.compile(
    r"shard-\d{8,}(-[0-9a-f]{16})?\.safetensors|idf(-[0-9a-f]{16})?\.txt"
    r"|(names|vocabulary)-[0-9a-f]{16}\.json"
    r"|\..*\.part|\.(shared|seen)-.*"
)


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
    head = header(model.loss, model.n_labels, model.n_features, model.parameters)
    idf = word_weights(model.idf, model.n_features)
    folder.mkdir(parents=True, exist_ok=True)
    with _io.exclusive(folder):
        begin(folder, head, Beside(idf, model.label_names, model.vocabulary))
        start = 0
        for part in split_shards(model, shard_labels):
            list_shard(folder, write_shard(folder, start, part))
            start += len(part.bias)
        finish(folder)


def split_shards(model: LinearModel, size: int) -> Iterator[Shard]:
    """The shards of a model, cut where they have more than `size` labels."""
    for part in model.shards:
        for start in range(0, len(part.bias), size):
            yield Shard(part.weights[start : start + size], part.bias[start : start + size])


def header(
    loss: str,
    n_labels: int,
    n_features: int,
    parameters: Mapping[str, Parameter],
    fingerprint: str = "",
) -> Head:
    """The manifest of a model without shards."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "package": __version__,
        "loss": loss,
        "labels": n_labels,
        "features": n_features,
        "parameters": dict(parameters),
        "fingerprint": fingerprint,
        "idf": None,
        "names": None,
        "vocabulary": None,
        "shards": [],
    }


def word_weights(idf: ArrayLike | None, n_features: int) -> Floats | None:
    """One finite number per feature, or None."""
    if idf is None:
        return None
    values = np.asarray(idf, dtype=np.float64)
    if values.shape != (n_features,):
        raise ValueError(
            f"expected {n_features} word weights, one per feature; got shape {values.shape}."
        )
    _validation.finite(values, "word weights")
    return values


def begin(folder: Path, head: Head, beside: Beside) -> None:
    """Start a model: what it has beside its weights, then a manifest that is not yet in use."""
    words = None if beside.vocabulary is None else beside.vocabulary.to_dict()
    started: Head = {
        **head,
        "idf": None if beside.idf is None else _write_idf(folder, beside.idf),
        "names": None if beside.names is None else _write_json(folder, "names", list(beside.names)),
        "vocabulary": None if words is None else _write_json(folder, "vocabulary", words),
    }
    _write_manifest(folder, started)


def write_shard(folder: Path, start: int, part: Shard) -> Entry:
    """Write the file of a shard, and return what the manifest is to say of it."""
    contents = to_safetensors(_arrays(part))
    entry = _write(folder, f"shard-{start:08d}-{{}}.safetensors", contents)
    return {**entry, "start": start, "stop": start + len(part.bias)}


def _write_idf(folder: Path, idf: Floats) -> FileEntry:
    return _write(folder, "idf-{}.txt", b"".join(b"%r\n" % value for value in idf.tolist()))


def _write_json(folder: Path, kind: str, value: object) -> FileEntry:
    return _write(folder, kind + "-{}.json", json.dumps(value, ensure_ascii=False).encode())


def _write(folder: Path, pattern: str, contents: bytes) -> FileEntry:
    """Write a file whose name says what is in it, so that no other model's file is touched."""
    digest = hashlib.sha256(contents).hexdigest()
    name = pattern.format(digest[:16])
    with _io.atomic_write(folder / name, follow=False) as file:
        file.write(contents)
    return {"file": name, "bytes": len(contents), "sha256": digest}


def list_shard(folder: Path, entry: Entry) -> None:
    """Add a shard to the manifest of the unfinished model."""
    head = read_manifest(folder, UNFINISHED)
    kept = [s for s in head["shards"] if s["start"] != entry["start"]]
    head["shards"] = sorted([*kept, entry], key=lambda s: s["start"])
    _write_manifest(folder, head)


def finish(folder: Path) -> None:
    """Replace the old manifest by the new one; then remove files that only the old one named."""
    os.replace(folder / UNFINISHED, folder / MANIFEST)
    remove_unlisted(folder)


def begun(folder: Path) -> Iterator[tuple[str, Head]]:
    """The manifests in a folder: of the unfinished model, then of the finished one."""
    for name in (UNFINISHED, MANIFEST):
        if os.path.lexists(folder / name):
            yield name, read_manifest(folder, name)


def intact(folder: Path, entry: FileEntry) -> bool:
    """Whether a file is what its entry says, byte for byte."""
    try:
        with _opened(folder, entry) as file:
            return bool(_digest(file) == entry["sha256"])
    except (OSError, ValueError):
        return False


def is_complete(folder: Path, head: Head) -> bool:
    """Whether all files that a manifest names are there, byte for byte."""
    files = [*head["shards"], *(entry for part in _BESIDE if (entry := head[part]))]
    return _labels_written(head) == head["labels"] and all(intact(folder, entry) for entry in files)


def remove_unlisted(folder: Path) -> None:
    """Remove what no manifest names: files of models before, and what was left unfinished."""
    try:
        heads = [head for _, head in begun(folder)]
    except ValueError:  # a manifest of another version may name any file
        return
    named = {entry["file"] for head in heads for entry in head["shards"]}
    named |= {entry["file"] for head in heads for kind in _BESIDE if (entry := head[kind])}
    for path in folder.iterdir():
        left = _OURS.fullmatch(path.name) and path.name not in named
        if left and (path.is_symlink() or not path.is_dir()):
            path.unlink(missing_ok=True)


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


def _write_manifest(folder: Path, head: Head) -> None:
    with _io.atomic_write(folder / UNFINISHED, follow=False) as file:
        file.write(json.dumps(head, indent=1).encode())


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
    head = read_manifest(folder, MANIFEST if present else UNFINISHED)
    _io.refuse_columns(folder / MANIFEST, head["features"], "features")
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
    idf = None if head["idf"] is None else _read_idf(folder, head["idf"], head["features"], verify)
    names = None if head["names"] is None else _read_names(folder, head["names"], head, verify)
    words = head["vocabulary"]
    vocabulary = None if words is None else _read_vocabulary(folder, words, head, verify)
    return LinearModel(shards, head["loss"], head["parameters"], idf, names, vocabulary)


def _labels_written(head: Head) -> int:
    """The label after the last of those that are there without a gap from label 0 on."""
    stop = 0
    for entry in head["shards"]:
        if entry["start"] != stop:
            break
        stop = entry["stop"]
    return stop


def read_manifest(folder: Path, name: str = MANIFEST) -> Head:
    """The manifest, if it is one of ours and complete in itself."""
    path = folder / name
    try:
        head = _io.read_json(path, follow=False)
    except (OSError, ValueError) as error:
        raise ValueError(f"{folder} is no model folder: {name} cannot be read ({error}).") from None
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise ValueError(f"{path} is not the manifest of an {FORMAT}.")
    if head.get("version") != VERSION:
        raise ValueError(
            f"{folder} has version {head.get('version')!r:.20} of the model format; this package "
            f"reads and writes version {VERSION}: train again, with "
            f"{setting('resume', False, of='linear.train')}."
        )
    fields = {
        "package": str, "loss": str, "labels": int, "features": int, "parameters": dict,
        "shards": list,
    }  # fmt: skip
    for key, kind in fields.items():
        if not isinstance(head.get(key), kind) or (kind is int and head[key] < 0):
            raise ValueError(f"{path} has no proper {key!r}; the file is damaged.")
    for entry in head["shards"]:
        _refuse_bad_entry(path, entry, "a shard", start=int, stop=int)
    for part, what in zip(_BESIDE, ("the word weights", "names", "the vocabulary"), strict=True):
        if head.setdefault(part, None) is not None:
            _refuse_bad_entry(path, head[part], what)
    names = [entry["file"] for entry in head["shards"]]
    if len(set(names)) < len(names):
        raise ValueError(f"{path} names a shard twice; the file is damaged.")
    return cast("Head", head)


def _refuse_bad_entry(path: Path, entry: object, description: str, **numbers: type) -> None:
    kinds = {"file": str, "bytes": int, "sha256": str, **numbers}
    sound = isinstance(entry, dict) and all(isinstance(entry.get(k), t) for k, t in kinds.items())
    if not (sound and isinstance(entry, dict) and _io.is_name(entry["file"])):
        raise ValueError(f"{path} describes {description} as {entry!r:.200}; the file is damaged.")


def _opened(folder: Path, entry: FileEntry) -> BufferedReader:
    """The file of an entry, if it has the size that the manifest says."""
    path = folder / entry["file"]
    try:
        file = _io.open_readable(path, follow=False)
    except FileNotFoundError:
        raise ValueError(
            f"{path} is missing: the model is incomplete; train or copy it again."
        ) from None
    size = os.fstat(file.fileno()).st_size
    if size != entry["bytes"]:
        file.close()
        raise ValueError(
            f"{path} has {size} bytes instead of {entry['bytes']}: the model is incomplete; train "
            "or copy it again."
        )
    return file


def _refuse_other(file: BufferedReader, entry: FileEntry) -> None:
    if _digest(file) != entry["sha256"]:
        raise ValueError(f"{file.name} does not match its checksum: it was altered or damaged.")


def _read_idf(folder: Path, entry: FileEntry, n_features: int, verify: bool) -> Floats | None:
    path = folder / entry["file"]
    with _opened(folder, entry) as file:
        if verify:
            _refuse_other(file, entry)
        values = _io.numbers(path, file.read(entry["bytes"]))
    try:
        return word_weights(values, n_features)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _read_json(folder: Path, entry: FileEntry, verify: bool) -> object:
    path = folder / entry["file"]
    with _opened(folder, entry) as file:
        if verify:
            _refuse_other(file, entry)
        return _io.read_json(path, _io.read_json_bytes(path, file, entry["bytes"]))


def _read_names(folder: Path, entry: FileEntry, head: Head, verify: bool) -> tuple[str, ...]:
    names = _read_json(folder, entry, verify)
    path = folder / entry["file"]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{path} is not a list of names; the model is damaged.")
    if len(names) != head["labels"]:
        raise ValueError(f"{path} has {len(names)} names for {head['labels']} labels.")
    return tuple(names)


def _read_vocabulary(folder: Path, entry: FileEntry, head: Head, verify: bool) -> Vocabulary:
    path = folder / entry["file"]
    try:
        words = Vocabulary.from_dict(_read_json(folder, entry, verify))
    except ValueError as error:
        named = str(path) in str(error)
        raise ValueError(str(error) if named else f"{path}: {error}") from None
    if len(words.words) != head["features"]:
        raise ValueError(f"{path} has {len(words.words)} words for {head['features']} features.")
    return words


def _read_shard(folder: Path, entry: Entry, n_features: int, verify: bool) -> Shard:
    path, count = folder / entry["file"], entry["stop"] - entry["start"]
    with _opened(folder, entry) as file:
        if verify:
            _refuse_other(file, entry)
        arrays = _mapped(path, file, entry["bytes"])
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
        _validation.matrix(weights, name="model weights")
    values = weights if isinstance(weights, np.ndarray) else weights.data
    for numbers, name in ((values, "weights"), (part.bias, "biases")):
        for start in range(0, len(numbers), _ROWS):
            _validation.finite(numbers[start : start + _ROWS], name)


def _digest(file: BufferedReader) -> str:
    """The checksum of an open file, which stands at its beginning before and after."""
    file.seek(0)
    digest = hashlib.file_digest(file, "sha256").hexdigest()
    file.seek(0)
    return digest


def _mapped(path: Path, file: BufferedReader, size: int) -> dict[str, Array]:
    """The tensors of a safetensors file, mapped: 8 bytes of header length, JSON, raw arrays."""
    length = int.from_bytes(file.read(8), "little")
    try:
        if not 2 <= length <= size - 8:
            raise ValueError("its header does not fit")
        named = _io.read_json(path, _io.read_json_bytes(path, file, length))
        return {
            name: _tensor(file, about, 8 + length, size)
            for name, about in named.items()
            if name != "__metadata__"
        }
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"{path} is no safetensors file: {error}.") from None


def _tensor(file: BufferedReader, about: TensorHeader, base: int, size: int) -> Array:
    kind, shape = np.dtype(_TYPES[about["dtype"]]), tuple(int(s) for s in about["shape"])
    start, stop = about["data_offsets"]
    fits = stop - start == kind.itemsize * math.prod(shape) and start >= 0 and base + stop <= size
    if not fits or min(shape, default=0) < 0:
        raise ValueError(f"array offsets {start}:{stop} do not fit shape {shape}")
    if stop == start:
        return np.zeros(shape, dtype=kind)
    return np.memmap(file, dtype=kind, mode="r", offset=base + start, shape=shape)
