"""Folders of models, whatever the model: a JSON manifest, and files that it lists by checksum.

    manifest.json                  format, version, package, loss, labels, features, parameters,
                                   sizes and checksums of the files below
    <piece>-<sha256>.safetensors   the weights, in pieces that each kind of model names and orders
    idf-<sha256>.txt               if trained on tf-idf: the weight of every word, in a line
    names-<sha256>.json            if labels have names: a list of them
    vocabulary-<sha256>.json       if trained on texts: the words and how they are found
    unfinished.json                the manifest of a model that is on its way

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
import time
from collections.abc import Iterator, Mapping
from io import BufferedReader
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypedDict

import numpy as np
from numpy.typing import ArrayLike
from safetensors.numpy import save as to_safetensors

from unmask import __version__
from unmask._messages import setting
from unmask._typing import Array, Floats, Record
from unmask.arrays import checks
from unmask.data.texts import Vocabulary
from unmask.files import atomic_write, is_name, numbers, open_readable, read_json, read_json_bytes
from unmask.linear.model import Parameter

MANIFEST = "manifest.json"
UNFINISHED = "unfinished.json"
SETTLING = 10.0
"""Seconds that a network disk may take to show what another machine wrote."""


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


class Head(TypedDict):
    """What the manifest of any model says, but for the pieces of its weights."""

    format: str
    version: int
    package: str
    loss: str
    parameters: dict[str, Parameter]
    fingerprint: str
    labels: int
    features: int
    idf: FileEntry | None
    names: FileEntry | None
    vocabulary: FileEntry | None


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


BESIDE: tuple[Literal["idf", "names", "vocabulary"], ...] = ("idf", "names", "vocabulary")


_TYPES = {"F32": np.float32, "I32": np.int32, "I64": np.int64, "U16": np.uint16}
OURS = re.compile(
    r"shard-\d{8,}(-[0-9a-f]{16})?\.safetensors|idf(-[0-9a-f]{16})?\.txt"
    r"|(shape|part)-[\d-]+-[0-9a-f]{16}\.safetensors"
    r"|(names|vocabulary)-[0-9a-f]{16}\.json"
    r"|\..*\.part|\.(shared|seen)-.*"
)


class Piece(NamedTuple):
    """A list of files in the manifest of a kind of model.

    Attributes
    ----------
    description : str
        One of them, in messages.
    fields : mapping of str to type
        What an entry has beside name, size and checksum.
    place : tuple of str
        The fields that say which piece it is; entries are in their order.
    """

    description: str
    fields: Mapping[str, type]
    place: tuple[str, ...] = ()


class Format(NamedTuple):
    """A kind of model on disk.

    Attributes
    ----------
    name, version : str and int
        As every manifest says them.
    trainer : str
        The function that makes such models, for messages.
    pieces : mapping of str to Piece
        The lists of files that a manifest has.
    """

    name: str
    version: int
    trainer: str
    pieces: Mapping[str, Piece]

    def header(
        self,
        loss: str,
        n_labels: int,
        n_features: int,
        parameters: Mapping[str, Parameter],
        fingerprint: str = "",
    ) -> Record:
        """The manifest of a model without pieces."""
        return {
            "format": self.name,
            "version": self.version,
            "package": __version__,
            "loss": loss,
            "labels": n_labels,
            "features": n_features,
            "parameters": dict(parameters),
            "fingerprint": fingerprint,
            **dict.fromkeys(BESIDE),
            **{kind: [] for kind in self.pieces},
        }

    def read(self, folder: Path, name: str = MANIFEST) -> Record:
        """The manifest, if it is one of this format and complete in itself."""
        path = folder / name
        try:
            head = read_json(path, follow=False)
        except (OSError, ValueError) as error:
            raise ValueError(
                f"{folder} is no model folder: {name} cannot be read ({error})."
            ) from None
        if not isinstance(head, dict) or head.get("format") != self.name:
            raise ValueError(f"{path} is not the manifest of an {self.name}.")
        if head.get("version") != self.version:
            raise ValueError(
                f"{folder} has version {head.get('version')!r:.20} of the model format; this "
                f"package reads and writes version {self.version}: train again, with "
                f"{setting('resume', False, of=self.trainer)}."
            )
        fields = {
            "package": str, "loss": str, "labels": int, "features": int, "parameters": dict,
            **dict.fromkeys(self.pieces, list),
        }  # fmt: skip
        for key, kind in fields.items():
            if not isinstance(head.get(key), kind) or (kind is int and head[key] < 0):
                raise ValueError(f"{path} has no proper {key!r}; the file is damaged.")
        for key, piece in self.pieces.items():
            for entry in head[key]:
                _refuse_bad_entry(path, entry, piece.description, piece.fields)
        for part, what in zip(BESIDE, ("the word weights", "names", "the vocabulary"), strict=True):
            if head.setdefault(part, None) is not None:
                _refuse_bad_entry(path, head[part], what, {})
        names = [entry["file"] for entry in self.listed(head)]
        if len(set(names)) < len(names):
            raise ValueError(f"{path} names a file twice; the file is damaged.")
        return head

    def listed(self, head: Mapping[str, Any]) -> list[FileEntry]:
        """All files that a manifest names."""
        pieces = [entry for kind in self.pieces for entry in head[kind]]
        return [*pieces, *(entry for part in BESIDE if (entry := head[part]) is not None)]

    def begun(self, folder: Path) -> Iterator[tuple[str, Record]]:
        """The manifests in a folder: of the unfinished model, then of the finished one."""
        for name in (UNFINISHED, MANIFEST):
            if os.path.lexists(folder / name):
                yield name, self.read(folder, name)

    def add(self, folder: Path, kind: str, entry: Mapping[str, Any]) -> None:
        """Add a piece to the manifest of the unfinished model, in place of one like it."""
        head, place = self.read(folder, UNFINISHED), self.pieces[kind].place

        def where(each: Mapping[str, Any]) -> tuple[Any, ...]:
            return tuple(each[field] for field in place)

        kept = [each for each in head[kind] if where(each) != where(entry)]
        head[kind] = sorted([*kept, entry], key=where)
        _write_manifest(folder, head)

    def finish(self, folder: Path) -> None:
        """Put the new manifest in the old one's place; remove files that only the old one named."""
        os.replace(folder / UNFINISHED, folder / MANIFEST)
        self.remove_unlisted(folder)

    def remove_unlisted(self, folder: Path) -> None:
        """Remove what no manifest names: files of models before, and what was left unfinished."""
        try:
            listed = {
                entry["file"] for _, head in self.begun(folder) for entry in self.listed(head)
            }
        except ValueError:  # a manifest of another kind or version may name any file
            return
        for path in folder.iterdir():
            left = OURS.fullmatch(path.name) and path.name not in listed
            if left and (path.is_symlink() or not path.is_dir()):
                path.unlink(missing_ok=True)


def begin(folder: Path, head: Mapping[str, object], beside: Beside) -> None:
    """Start a model: what it has beside its weights, then a manifest that is not yet in use."""
    _write_manifest(folder, {**head, **_write_beside(folder, beside)})


def _write_manifest(folder: Path, head: Mapping[str, object]) -> None:
    """Write the manifest of a model that is on its way."""
    with atomic_write(folder / UNFINISHED, follow=False) as file:
        file.write(json.dumps(head, indent=1).encode())


def word_weights(idf: ArrayLike | None, n_features: int) -> Floats | None:
    """One finite number per feature, or None."""
    if idf is None:
        return None
    values = np.asarray(idf, dtype=np.float64)
    if values.shape != (n_features,):
        raise ValueError(
            f"expected {n_features} word weights, one per feature; got shape {values.shape}."
        )
    checks.finite(values, "word weights")
    return values


class _WrittenBeside(TypedDict):
    """Entries of what a model has beside its weights."""

    idf: FileEntry | None
    names: FileEntry | None
    vocabulary: FileEntry | None


def _write_beside(folder: Path, beside: Beside) -> _WrittenBeside:
    """Write what a model has beside its weights, and return the entries of the manifest."""
    words = None if beside.vocabulary is None else beside.vocabulary.to_dict()
    return {
        "idf": None if beside.idf is None else _write_idf(folder, beside.idf),
        "names": None if beside.names is None else _write_json(folder, "names", list(beside.names)),
        "vocabulary": None if words is None else _write_json(folder, "vocabulary", words),
    }


def tensors(arrays: dict[str, Array]) -> bytes:
    """The contents of a safetensors file."""
    return to_safetensors(arrays)


def _write_idf(folder: Path, idf: Floats) -> FileEntry:
    """Write word weights."""
    return write_file(folder, "idf-{}.txt", b"".join(b"%r\n" % value for value in idf.tolist()))


def _write_json(folder: Path, kind: str, value: object) -> FileEntry:
    """Write names or words."""
    return write_file(folder, kind + "-{}.json", json.dumps(value, ensure_ascii=False).encode())


def write_file(folder: Path, pattern: str, contents: bytes) -> FileEntry:
    """Write a file whose name says what is in it, so that no other model's file is touched."""
    digest = hashlib.sha256(contents).hexdigest()
    name = pattern.format(digest[:16])
    with atomic_write(folder / name, follow=False) as file:
        file.write(contents)
    return {"file": name, "bytes": len(contents), "sha256": digest}


def intact(folder: Path, entry: FileEntry) -> bool:
    """Whether a file is what its entry says, byte for byte."""
    try:
        with opened(folder, entry) as file:
            return bool(_digest(file) == entry["sha256"])
    except (OSError, ValueError):
        return False


def wait_for(folder: Path, entry: FileEntry) -> None:
    """Wait until a file that a worker wrote is seen whole; ValueError if that takes too long."""
    deadline = time.monotonic() + SETTLING
    while not intact(folder, entry):
        if time.monotonic() > deadline:
            raise ValueError(
                f"{folder / entry['file']} is not what a worker wrote; does every worker see this "
                "folder under the same path? It is left out: train again to go on."
            )
        time.sleep(0.2)


def read_beside(folder: Path, head: Head, verify: bool) -> Beside:
    """What a model has beside its weights, by the entries of its manifest."""
    idf, names, words = head["idf"], head["names"], head["vocabulary"]
    return Beside(
        None if idf is None else _read_idf(folder, idf, head["features"], verify),
        None if names is None else _read_names(folder, names, head["labels"], verify),
        None if words is None else _read_vocabulary(folder, words, head["features"], verify),
    )


def _refuse_bad_entry(
    path: Path, entry: object, description: str, fields: Mapping[str, type]
) -> None:
    """Raise unless an entry of a manifest names a file, with these fields too."""
    kinds = {"file": str, "bytes": int, "sha256": str, **fields}
    sound = isinstance(entry, dict) and all(isinstance(entry.get(k), t) for k, t in kinds.items())
    if not (sound and isinstance(entry, dict) and is_name(entry["file"])):
        raise ValueError(f"{path} describes {description} as {entry!r:.200}; the file is damaged.")


def opened(folder: Path, entry: FileEntry) -> BufferedReader:
    """The file of an entry, if it has the size that the manifest says."""
    path = folder / entry["file"]
    try:
        file = open_readable(path, follow=False)
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


def refuse_other(file: BufferedReader, entry: FileEntry) -> None:
    """Raise unless a file has the checksum of its entry."""
    if _digest(file) != entry["sha256"]:
        raise ValueError(f"{file.name} does not match its checksum: it was altered or damaged.")


def _read_idf(folder: Path, entry: FileEntry, n_features: int, verify: bool) -> Floats | None:
    """The word weights of an entry."""
    path = folder / entry["file"]
    with opened(folder, entry) as file:
        if verify:
            refuse_other(file, entry)
        values = numbers(path, file.read(entry["bytes"]))
    try:
        return word_weights(values, n_features)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _read_json(folder: Path, entry: FileEntry, verify: bool) -> object:
    path = folder / entry["file"]
    with opened(folder, entry) as file:
        if verify:
            refuse_other(file, entry)
        return read_json(path, read_json_bytes(path, file, entry["bytes"]))


def _read_names(folder: Path, entry: FileEntry, n_labels: int, verify: bool) -> tuple[str, ...]:
    """The label names of an entry."""
    names = _read_json(folder, entry, verify)
    path = folder / entry["file"]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{path} is not a list of names; the model is damaged.")
    if len(names) != n_labels:
        raise ValueError(f"{path} has {len(names)} names for {n_labels} labels.")
    return tuple(names)


def _read_vocabulary(folder: Path, entry: FileEntry, n_features: int, verify: bool) -> Vocabulary:
    """The vocabulary of an entry."""
    path = folder / entry["file"]
    try:
        words = Vocabulary.from_dict(_read_json(folder, entry, verify))
    except ValueError as error:
        named = str(path) in str(error)
        raise ValueError(str(error) if named else f"{path}: {error}") from None
    if len(words.words) != n_features:
        raise ValueError(f"{path} has {len(words.words)} words for {n_features} features.")
    return words


def _digest(file: BufferedReader) -> str:
    """The checksum of an open file, which stands at its beginning before and after."""
    file.seek(0)
    digest = hashlib.file_digest(file, "sha256").hexdigest()
    file.seek(0)
    return digest


def mapped(path: Path, file: BufferedReader, size: int) -> dict[str, Array]:
    """The tensors of a safetensors file, mapped: 8 bytes of header length, JSON, raw arrays."""
    length = int.from_bytes(file.read(8), "little")
    try:
        if not 2 <= length <= size - 8:
            raise ValueError("its header does not fit")
        named = read_json(path, read_json_bytes(path, file, length))
        named.pop("__metadata__", None)
        spans = sorted(tuple(about["data_offsets"]) for about in named.values())
        ends = [0, *(stop for _, stop in spans)]
        if [*(start for start, _ in spans), size - 8 - length] != ends:
            raise ValueError("its arrays overlap, or leave bytes out")
        return {name: _tensor(file, about, 8 + length, size) for name, about in named.items()}
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
