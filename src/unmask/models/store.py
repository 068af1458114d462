"""Folders of models, whatever the kind: a JSON manifest, and files that it lists by checksum.

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

A kind of model describes its pieces by a `Format`; what is particular to their arrays stands with
the kind (`unmask.models.linear`, `unmask.models.tree`).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from safetensors.numpy import save as to_safetensors

from unmask import __version__
from unmask._messages import setting
from unmask._typing import Array, Floats, PathLike, Record
from unmask.arrays import checks
from unmask.data.texts import Vocabulary
from unmask.files import (
    atomic_write,
    exclusive,
    is_name,
    numbers,
    open_readable,
    read_json,
    read_json_bytes,
    refuse_columns,
)

MANIFEST = "manifest.json"
UNFINISHED = "unfinished.json"
SETTLING = 10.0
"""Seconds that a network disk may take to show what another machine wrote."""
BESIDE = {"idf": "the word weights", "names": "names", "vocabulary": "the vocabulary"}
_TYPES = {"F32": np.float32, "I32": np.int32, "I64": np.int64, "U16": np.uint16}
OURS = re.compile(
    r"shard-\d{8,}(-[0-9a-f]{16})?\.safetensors|idf(-[0-9a-f]{16})?\.txt"
    r"|(shape|part)-[\d-]+-[0-9a-f]{16}\.safetensors"
    r"|(names|vocabulary)-[0-9a-f]{16}\.json"
    r"|\..*\.part|\.(shared|seen)-.*"
)

Parameter: TypeAlias = str | float | bool | None
Entry: TypeAlias = Record
"""A file in a manifest: name (`file`), size (`bytes`), checksum (`sha256`), and its place."""


class Stored(Protocol):
    """A model, as the manifest describes it."""

    @property
    def n_labels(self) -> int:
        """Labels."""
        ...

    @property
    def n_features(self) -> int:
        """Features."""
        ...

    @property
    def loss(self) -> str:
        """The loss of its training."""
        ...

    @property
    def parameters(self) -> Mapping[str, Parameter]:
        """The recipe of its training."""
        ...

    @property
    def idf(self) -> Floats | None:
        """Word weights."""
        ...

    @property
    def label_names(self) -> tuple[str, ...] | None:
        """Names of labels."""
        ...

    @property
    def vocabulary(self) -> Vocabulary | None:
        """Words."""
        ...


class Beside(NamedTuple):
    """Word weights, label names and vocabulary of a model: what it has beside its weights."""

    idf: Floats | None = None
    names: tuple[str, ...] | None = None
    vocabulary: Vocabulary | None = None

    @classmethod
    def checked(
        cls,
        n_features: int,
        n_labels: int,
        idf: ArrayLike | None,
        names: Sequence[str] | None,
        vocabulary: Vocabulary | None,
    ) -> Beside:
        """Return the three; ValueError where one does not fit the data."""
        if names is not None and len(names) != n_labels:
            raise ValueError(f"{len(names)} label names for {n_labels} labels; give one each.")
        if vocabulary is not None and len(vocabulary.words) != n_features:
            words = len(vocabulary.words)
            raise ValueError(f"a vocabulary of {words} words for {n_features} features.")
        return cls(
            word_weights(idf, n_features), None if names is None else tuple(names), vocabulary
        )


def word_weights(idf: ArrayLike | None, n_features: int) -> Floats | None:
    """Return one finite number per feature, or None."""
    if idf is None:
        return None
    values = np.asarray(idf, dtype=np.float64)
    if values.shape != (n_features,):
        raise ValueError(
            f"expected {n_features} word weights, one per feature; got shape {values.shape}."
        )
    return checks.finite(values, "word weights")


def refuse_other_sizes(model: Stored) -> None:
    """Raise ValueError where names or words of a model do not fit its labels and features."""
    names, words = model.label_names, model.vocabulary
    if names is not None and len(names) != model.n_labels:
        raise ValueError(f"{len(names)} label names for a model of {model.n_labels} labels.")
    if words is not None and len(words.words) != model.n_features:
        raise ValueError(
            f"a vocabulary of {len(words.words)} words for a model of {model.n_features} features."
        )


class Piece(NamedTuple):
    """A list of files in the manifest of a kind of model.

    Attributes
    ----------
    description : str
        One of them, in messages.
    fields : mapping of str to type
        The fields of an entry beside name, size and checksum.
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
    losses : tuple of str
        The losses that models of this kind may have.
    pieces : mapping of str to Piece
        The lists of files that a manifest has.
    """

    name: str
    version: int
    trainer: str
    losses: tuple[str, ...]
    pieces: Mapping[str, Piece]

    def header(
        self,
        loss: str,
        n_labels: int,
        n_features: int,
        parameters: Mapping[str, Parameter],
        fingerprint: str = "",
    ) -> Record:
        """Return the manifest of a model without pieces."""
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
        """Return a manifest; ValueError unless it is one of this format, complete in itself."""
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
        for key, description in BESIDE.items():
            if head.setdefault(key, None) is not None:
                _refuse_bad_entry(path, head[key], description, {})
        names = [entry["file"] for entry in self.listed(head)]
        if len(set(names)) < len(names):
            raise ValueError(f"{path} names a file twice; the file is damaged.")
        return head

    def current(self, folder: Path) -> tuple[bool, Record]:
        """Return whether a folder holds a finished model, and its manifest or that of the other."""
        path = folder / MANIFEST
        present = os.path.lexists(path) or not os.path.lexists(folder / UNFINISHED)
        head = self.read(folder, MANIFEST if present else UNFINISHED)
        refuse_columns(path, head["features"], "features")
        refuse_columns(path, head["labels"], "labels")
        if head["loss"] not in self.losses:
            raise ValueError(
                f"{path} has the unknown loss {head['loss']!r:.60}; known are: "
                f"{', '.join(self.losses)}."
            )
        return present, head

    def listed(self, head: Mapping[str, Any]) -> list[Entry]:
        """Return all files that a manifest names."""
        pieces = [entry for kind in self.pieces for entry in head[kind]]
        return [*pieces, *(head[part] for part in BESIDE if head[part] is not None)]

    def earlier(self, folder: Path, fingerprint: str) -> Earlier:
        """Return what the folder has of this very training.

        If it has manifests of other trainings alone, that is a ValueError.
        """
        others = []
        for name, head in self._manifests(folder):
            if head.get("fingerprint") == fingerprint:
                files = self.listed(head) if name == MANIFEST else []
                whole = bool(files) and all(intact(folder, entry) for entry in files)
                return Earlier(folder, head, whole)
            others.append(head["package"])
        if not others:
            return Earlier(folder)
        restart = f"start again with {setting('resume', False, of=self.trainer)}"
        if others[0] != __version__:
            raise ValueError(
                f"the model in {folder} was begun by unmask {others[0]:.40}; this is "
                f"{__version__}, which may solve differently: go on with the version that began "
                f"it, choose another folder, or {restart}."
            )
        raise ValueError(
            f"{folder} holds a model of other data or another recipe; choose another folder, or "
            f"{restart}."
        )

    def _manifests(self, folder: Path) -> Iterator[tuple[str, Record]]:
        """Yield the manifests in a folder: of the unfinished model, then of the finished one."""
        for name in (UNFINISHED, MANIFEST):
            if os.path.lexists(folder / name):
                yield name, self.read(folder, name)

    def begin(self, folder: Path, head: Mapping[str, object], beside: Beside) -> None:
        """Start a model: write what it has beside its weights, then a manifest not yet in use."""
        written: dict[str, Entry | None] = dict.fromkeys(BESIDE)
        if beside.idf is not None:
            lines = b"".join(b"%r\n" % value for value in beside.idf.tolist())
            written["idf"] = write_file(folder, "idf-{}.txt", lines)
        if beside.names is not None:
            written["names"] = _write_json(folder, "names", list(beside.names))
        if beside.vocabulary is not None:
            written["vocabulary"] = _write_json(folder, "vocabulary", beside.vocabulary.to_dict())
        _write_manifest(folder, {**head, **written})

    def add(self, folder: Path, kind: str, entry: Entry) -> None:
        """Add a piece to the manifest of the unfinished model, in place of one like it."""
        wait_for(folder, entry)
        head, place = self.read(folder, UNFINISHED), self.pieces[kind].place

        def where(each: Entry) -> tuple[Any, ...]:
            return tuple(each[field] for field in place)

        kept = [each for each in head[kind] if where(each) != where(entry)]
        _write_manifest(folder, {**head, kind: sorted([*kept, entry], key=where)})

    def begun(self, folder: Path, kind: str) -> list[Entry]:
        """Return the pieces that the unfinished model has so far."""
        pieces: list[Entry] = self.read(folder, UNFINISHED)[kind]
        return pieces

    def finish(self, folder: Path) -> None:
        """Put the new manifest in the old one's place; remove files that only the old one named."""
        os.replace(folder / UNFINISHED, folder / MANIFEST)
        self.remove_unlisted(folder)

    def remove_unlisted(self, folder: Path) -> None:
        """Remove what no manifest names: files of models before, and what was left unfinished."""
        try:
            listed = {
                entry["file"] for _, head in self._manifests(folder) for entry in self.listed(head)
            }
        except ValueError:  # a manifest of another kind or version may name any file
            return
        for path in folder.iterdir():
            left = OURS.fullmatch(path.name) and path.name not in listed
            if left and (path.is_symlink() or not path.is_dir()):
                path.unlink(missing_ok=True)

    def save(self, path: PathLike, model: Stored, pieces: Mapping[str, Iterable[Any]]) -> None:
        """Write a checked model; `pieces` are functions from a folder to the entry of a file."""
        folder = Path(path)
        head = self.header(model.loss, model.n_labels, model.n_features, model.parameters)
        beside = Beside.checked(
            model.n_features, model.n_labels, model.idf, model.label_names, model.vocabulary
        )
        folder.mkdir(parents=True, exist_ok=True)
        with exclusive(folder):
            entries = {kind: [write(folder) for write in own] for kind, own in pieces.items()}
            self.begin(folder, {**head, **entries}, beside)
            self.finish(folder)

    def is_in(self, path: PathLike) -> bool:
        """Return whether a folder holds a model of this kind, finished or not."""
        for name in (MANIFEST, UNFINISHED):
            if os.path.lexists(Path(path) / name):
                try:
                    head = read_json(Path(path) / name, follow=False)
                except (OSError, ValueError):
                    return False
                return isinstance(head, dict) and head.get("format") == self.name
        return False


class Earlier(NamedTuple):
    """An earlier run of a training: its manifest, and whether that is in use with all its files."""

    folder: Path
    head: Record | None = None
    whole: bool = False

    def pieces(self, kind: str) -> list[Entry]:
        """Return the pieces whose files are there and whole."""
        entries = [] if self.head is None else self.head[kind]
        return [entry for entry in entries if intact(self.folder, entry)]


@contextmanager
def own_folder(path: Path) -> Iterator[None]:
    """Hold a folder, made if need be, to which no other process writes meanwhile.

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


def _write_manifest(folder: Path, head: Mapping[str, object]) -> None:
    """Write the manifest of a model that is on its way."""
    with atomic_write(folder / UNFINISHED, follow=False) as file:
        file.write(json.dumps(head, indent=1).encode())


def _write_json(folder: Path, kind: str, value: object) -> Entry:
    return write_file(folder, kind + "-{}.json", json.dumps(value, ensure_ascii=False).encode())


def write_tensors(folder: Path, pattern: str, arrays: dict[str, Array]) -> Entry:
    """Write a safetensors file; see `write_file`."""
    return write_file(folder, pattern, to_safetensors(arrays))


def write_file(folder: Path, pattern: str, contents: bytes) -> Entry:
    """Write a file whose name says what is in it, so that no other model's file is touched."""
    digest = hashlib.sha256(contents).hexdigest()
    name = pattern.format(digest[:16])
    with atomic_write(folder / name, follow=False) as file:
        file.write(contents)
    return {"file": name, "bytes": len(contents), "sha256": digest}


def intact(folder: Path, entry: Entry) -> bool:
    """Return whether a file is what its entry says, byte for byte."""
    try:
        with _opened(folder, entry) as file:
            return _digest(file) == str(entry["sha256"])
    except (OSError, ValueError):
        return False


def wait_for(folder: Path, entry: Entry) -> None:
    """Wait until a file that a worker wrote is seen whole; ValueError if that takes too long."""
    deadline = time.monotonic() + SETTLING
    while not intact(folder, entry):
        if time.monotonic() > deadline:
            raise ValueError(
                f"{folder / entry['file']} is not what a worker wrote; does every worker see this "
                "folder under the same path? It is left out: train again to go on."
            )
        time.sleep(0.2)


def read_tensors(folder: Path, entry: Entry, verify: bool) -> dict[str, Array]:
    """Return the arrays of a safetensors file, mapped, after its checksum if that is asked for."""
    with _opened(folder, entry, verify) as file:
        return mapped(folder / entry["file"], file, entry["bytes"])


def read_beside(folder: Path, head: Record, verify: bool) -> Beside:
    """Return what a model has beside its weights, by the entries of its manifest."""

    def json_of(entry: Entry) -> object:
        path = folder / entry["file"]
        with _opened(folder, entry, verify) as file:
            return read_json(path, read_json_bytes(path, file, entry["bytes"]))

    idf = names = words = None
    if (entry := head["idf"]) is not None:
        path = folder / entry["file"]
        with _opened(folder, entry, verify) as file:
            values = numbers(path, file.read(entry["bytes"]))
        try:
            idf = word_weights(values, head["features"])
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
    if (entry := head["names"]) is not None:
        path, listed = folder / entry["file"], json_of(entry)
        if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
            raise ValueError(f"{path} is not a list of names; the model is damaged.")
        if len(listed) != head["labels"]:
            raise ValueError(f"{path} has {len(listed)} names for {head['labels']} labels.")
        names = tuple(listed)
    if (entry := head["vocabulary"]) is not None:
        path = folder / entry["file"]
        try:
            words = Vocabulary.from_dict(json_of(entry))
        except ValueError as error:
            named = str(path) in str(error)
            raise ValueError(str(error) if named else f"{path}: {error}") from None
        if len(words.words) != head["features"]:
            raise ValueError(
                f"{path} has {len(words.words)} words for {head['features']} features."
            )
    return Beside(idf, names, words)


def _refuse_bad_entry(
    path: Path, entry: object, description: str, fields: Mapping[str, type]
) -> None:
    """Raise unless an entry of a manifest names a file, with these fields too."""
    kinds = {"file": str, "bytes": int, "sha256": str, **fields}
    sound = isinstance(entry, dict) and all(isinstance(entry.get(k), t) for k, t in kinds.items())
    if not (sound and isinstance(entry, dict) and is_name(entry["file"])):
        raise ValueError(f"{path} describes {description} as {entry!r:.200}; the file is damaged.")


def _opened(folder: Path, entry: Entry, verify: bool = False) -> BufferedReader:
    """Open the file of an entry; ValueError unless it has the size, and the checksum if asked."""
    path = folder / entry["file"]
    try:
        file = open_readable(path, follow=False)
    except FileNotFoundError:
        raise ValueError(
            f"{path} is missing: the model is incomplete; train or copy it again."
        ) from None
    try:
        size = os.fstat(file.fileno()).st_size
        if size != entry["bytes"]:
            raise ValueError(
                f"{path} has {size} bytes instead of {entry['bytes']}: the model is incomplete; "
                "train or copy it again."
            )
        if verify and _digest(file) != entry["sha256"]:
            raise ValueError(f"{path} does not match its checksum: it was altered or damaged.")
    except BaseException:
        file.close()
        raise
    return file


def _digest(file: BufferedReader) -> str:
    """Return the checksum of an open file, which stands at its beginning before and after."""
    file.seek(0)
    digest = hashlib.file_digest(file, "sha256").hexdigest()
    file.seek(0)
    return digest


def mapped(path: Path, file: BufferedReader, size: int) -> dict[str, Array]:
    """Map the tensors of a safetensors file: 8 bytes of header length, JSON, raw arrays."""
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


def _tensor(file: BufferedReader, about: Record, base: int, size: int) -> Array:
    kind, shape = np.dtype(_TYPES[about["dtype"]]), tuple(int(s) for s in about["shape"])
    start, stop = about["data_offsets"]
    fits = stop - start == kind.itemsize * math.prod(shape) and start >= 0 and base + stop <= size
    if not fits or min(shape, default=0) < 0:
        raise ValueError(f"array offsets {start}:{stop} do not fit shape {shape}")
    if stop == start:
        return np.zeros(shape, dtype=kind)
    return np.memmap(file, dtype=kind, mode="r", offset=base + start, shape=shape)
