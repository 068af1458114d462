"""Which files make up a data set: given paths, a folder and a part of it, or a common prefix.

A folder's parts are found by the names the field uses (each also with `.gz` or `.zst`):

    train_X_Xf.txt + train_X_Y.txt     features and labels; also `trn_…`, labels alone, `.npz`
    X.trn.npz + Y.trn.npz              the same as PECOS names it
    train.txt, train.svm, train.npz    one file; also .csv, .tsv, .jsonl, .parquet
    Name_data.txt + Name_trSplit.txt   one file and the row numbers of the part

The first that exists is taken, except that a `column` asks for the split file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from unmask._messages import setting
from unmask._typing import PathLike
from unmask.arrays import checks

PARTS = {
    "train": ("train", "trn"),
    "test": ("test", "tst"),
    "valid": ("valid", "val", "vld", "dev"),
}
"""The parts a folder may hold, and how their files' names begin."""

_SPLITS = {"train": "trSplit", "test": "tstSplit"}
_PAIRS = (
    ("{0}_X_Xf.txt", "{0}_X_Y.txt"),
    ("{0}_X_Xf.npz", "{0}_X_Y.npz"),
    ("X.{0}.npz", "Y.{0}.npz"),
)
_SINGLE = (
    "{0}.txt", "{0}.svm", "{0}.libsvm", "{0}.npz",
    "{0}.csv", "{0}.tsv", "{0}.jsonl", "{0}.parquet",
)  # fmt: skip
_NAMES = {"feature": ("features.txt", "Xf.txt"), "label": ("labels.txt", "Yf.txt")}
_PACKED = ("", ".gz", ".zst")


@dataclass(frozen=True)
class Files:
    """The files of one data set; `data` holds both matrices where the other two are missing."""

    data: Path | None = None
    features: Path | None = None
    labels: Path | None = None
    split: Path | None = None
    filtered: Path | None = None


def parts(folder: PathLike) -> tuple[str, ...]:
    """The parts that `read(folder, part=…)` finds in a folder.

    Parameters
    ----------
    folder : str or path

    Returns
    -------
    tuple of {"train", "test", "valid"}

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> (folder / "trn_X_Y.txt").touch()
    >>> parts(folder)
    ('train',)
    """
    return tuple(part for part in PARTS if next(_of_part(Path(folder), part, False), None))


def locate(path: PathLike, part: str | None = None, column: int | None = None) -> Files:
    """The files behind one path: a file, a folder (with `part`), or what several files begin with.

    Raises `FileNotFoundError` where there is nothing.
    """
    path = Path(path)
    if path.is_dir():
        return _in_folder(path, part, column)
    if part is not None:
        raise ValueError(
            f"{path} is not a folder, so it has no part {part!r}; leave out {setting('part')}."
        )
    if path.exists():
        return Files(data=path)
    for files in _starting_with(path.parent, path.name):
        return files
    raise FileNotFoundError(f"there is no file or folder {path}, nor files named {path}_X_Y.txt.")


def _in_folder(folder: Path, part: str | None, column: int | None) -> Files:
    present = ", ".join(parts(folder)) or "none"
    if part is None:
        raise ValueError(
            f"{folder} is a folder; name a file in it, or say which part to read, e.g. "
            f"{setting('part', 'train')} (parts found: {present})."
        )
    name = next((name for name, starts in PARTS.items() if part in (name, *starts)), part)
    checks.one_of(name, PARTS, "part")
    for files in _of_part(folder, name, column is not None):
        return files
    raise ValueError(
        f"{folder} holds no part {part!r} (parts found: {present}); name a file in it."
    )


def _of_part(folder: Path, part: str, by_column: bool) -> Iterator[Files]:
    if not by_column:
        for start in PARTS[part]:
            yield from _starting_with(folder, start)
    if part in _SPLITS:
        for data in sorted(folder.glob("*_data.txt*")):
            start = data.name.partition("_data.txt")[0]
            if split := _existing(folder, f"{start}_{_SPLITS[part]}.txt"):
                yield Files(data=data, split=split)


def _starting_with(folder: Path, start: str) -> Iterator[Files]:
    """Every way in which files that begin with `start` make a data set."""
    for names in _PAIRS:
        features, labels = (_existing(folder, name.format(start)) for name in names)
        if features or labels:
            long = next((n for n, s in PARTS.items() if start in s), start)
            filtered = _existing(folder, f"filter_labels_{long}.txt")
            yield Files(features=features, labels=labels, filtered=filtered)
    for name in _SINGLE:
        if data := _existing(folder, name.format(start)):
            yield Files(data=data)


def names_beside(path: Path, noun: str) -> Path | None:
    """The file of feature or label names in the same folder, if there is one."""
    for name in _NAMES[noun]:
        names = _existing(path.parent, name)
        if names and names.resolve() != path.resolve():
            return names
    return None


def _existing(folder: Path, name: str) -> Path | None:
    return next((p for packed in _PACKED if (p := folder / (name + packed)).is_file()), None)
