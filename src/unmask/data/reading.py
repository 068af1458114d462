"""Reading: `read` makes one `Dataset` of files, wherever they lie and however they are packed.

Downwards: which files make up a data set, what one of them means, and how they are put together
with splits, filters and names. Tables are read in `tables`.

A folder's parts are found by the names the field uses (each also with `.gz` or `.zst`):

    train_X_Xf.txt + train_X_Y.txt     features and labels; also `trn_…`, labels alone, `.npz`
    X.trn.npz + Y.trn.npz              the same as PECOS names it
    train.txt, train.svm, train.npz    one file; also .csv, .tsv, .jsonl, .parquet
    Name_data.txt + Name_trSplit.txt   one file and the row numbers of the part

The first that exists is taken, except that a `column` asks for the split file. A folder of Annif
has `NAME.txt` with a text and beside it `NAME.tsv` (`<URI> tab label`, a line per subject) or
`NAME.key` (a label per line); a text with neither was not indexed and is no row. One file, or a
file of features and a file of labels, may be

    xc            header `n d L`, lines `l,l f:v f:v`, counted from 0 (one file)
    xc-pair       header `n d`, lines `f:v f:v`; header `n L`, lines `l:1 l:1` (two files)
    features      the first of the pair alone
    labels        the second of the pair alone; `l l` and `l,l` are understood as well
    libsvm        as xc without header; features counted from 0 or 1, `:v` may be missing (1)
    npz           one scipy matrix (or two files of them), or what `write` made of both
    csv, tsv, jsonl, json, parquet     tables; see `unmask.data.tables`

What the text formats accept and refuse is said in `unmask.files.text`: in short, nothing is
dropped, and what could mean two things is an error that names file, line and token. Values are
float32(float(token)). A file of judgements is a list of pairs `row label` that are ignored (the
filter files of the XC repository), or a table with the columns row or id, label, judgement.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from unmask._messages import named_options, setting
from unmask._names import Strings, unique_index
from unmask._typing import Ints, PathLike
from unmask.arrays import checks
from unmask.data.dataset import WORDS, Dataset, Judgement, Source
from unmask.data.tables import TableOptions, is_tag_lists, label_matrix, read_table
from unmask.files import archive
from unmask.files import tables as table_files
from unmask.files import text as lines
from unmask.files.streams import blocks, compression, first_bytes, quoted, refuse_columns, text_of


@named_options
def read(
    path: PathLike | Iterable[object],
    labels: PathLike | None = None,
    *,
    part: str | None = None,
    split: PathLike | None = None,
    column: int | None = None,
    filter_labels: PathLike | None = None,
    format: str | None = None,
    base: int | tuple[int, int] | None = None,
    like: Dataset | None = None,
    names: bool = True,
    text: str | Sequence[str] | None = None,
    id: str | None = None,
    layout: str | None = None,
    delimiter: str | None = None,
    separator: str | None = None,
    encoding: str | None = None,
    nulls: str = "refuse",
    repeated: str = "refuse",
    negative: str | None = None,
    ignored: str | None = None,
) -> Dataset:
    """Read a data set; `dataset.source` says how its files were understood.

        read("train.txt.gz")                              # any one file
        read("trn_X_Xf.txt", "trn_X_Y.txt")               # features and labels; or read("trn")
        read("datasets/bibtex", part="test")              # a folder
        read("Bibtex_data.txt", split="Bibtex_trSplit.txt", column=3)
        read("test.svm", like=train)                      # headerless: shape and base as in train
        read("tags.csv", text="title,abstract", labels="tags", id="id")
        read(frame, labels="tags")                        # pandas, polars, Arrow, a dict of columns
        read([["physics", "optics"], ["law"]])            # lists or sets of names
        read("documents")                                 # a folder of Annif: .txt, .tsv or .key

    Parameters
    ----------
    path : str, path or table
        A file, a folder (with `part`), or what the names of several files begin with; or a table
        in memory, or lists of names.
    labels : str or path, optional
        The file of labels, where `path` holds features alone; of a table, the column of labels. By
        default the column that is called labels, tags, subjects or the like. Columns of 0 and 1
        (several between commas, or one with a name of its own) are labels called as the column.
    part : {"train", "test", "valid"}, optional
        The part of a folder.
    split : str or path, optional
        A file with columns of row numbers counted from 1. The rows come in its order.
    column : int, optional
        The column of the split file, counted from 0; by default the first.
    filter_labels : str or path, optional
        A file of judged pairs, kept in `dataset.judgements`: lines `row label` counted from 0 are
        ignored pairs; or a table of judgements (`data.pairs`).
    format : str, optional
        One of `FORMATS`. By default three numbers in the first line mean "xc", two mean "labels"
        ("features" if the name has `Xf` in it or starts with `X.`), anything else "libsvm".
    base : int or (int, int), optional
        The number that labels and features are counted from, 0 or 1, or a pair of the two. By
        default everything is counted from 0, except that LIBSVM *features* are counted from 1 if
        index 0 never occurs. That is a guess about one file: give `like` or `base` for the next.
    like : Dataset, optional
        A data set that was read before: columns and base are those of it. Of a table, the labels
        of `like` are the first columns; names that it does not have follow (see `unseen`).
    names : bool, default True
        Whether `features.txt` and `labels.txt` (`Xf.txt`, `Yf.txt`) beside the data are taken,
        when they have exactly one line per column.
    text : str or list of str, optional
        For tables, as all that follow: the column or columns (a list, or names between commas) that
        become `dataset.texts`.
    id : str, optional
        The column of ids, by default the one called id, doc_id or the like.
    layout : {"wide", "long"}, optional
        A row per document, or a row per label. By default this and the next are found from the
        content, and `dataset.source.details` says what was found.
    delimiter, separator : str, optional
        The text between the labels in a cell (one character, "list" or "none"), and the character
        between fields.
    encoding : str, optional
        By default UTF-8, or what a byte-order mark says.
    nulls : {"refuse", "empty", "name"}, default "refuse"
        The meaning of a label cell such as NaN.
    repeated : {"refuse", "merge"}, default "refuse"
        The meaning of a label twice in a row.
    negative, ignored : str, optional
        Columns of a wide table with labels that somebody rejected, and with labels that do not
        count; they become `dataset.judgements`.

    Returns
    -------
    Dataset

    Raises
    ------
    ValueError
        If a file is not what it should be; the message names file, line and token.
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "tiny.txt"
    >>> _ = file.write_text("2 3 4\\n0,3 0:0.5 2:1\\n 1:2\\n")
    >>> tiny = read(file)
    >>> tiny.labels.toarray()
    array([[1., 0., 0., 1.], [0., 0., 0., 0.]], dtype=float32)
    >>> tiny.source.format, tiny.source.compression
    ('xc', ('none',))
    """
    table = TableOptions(
        text, id, layout, delimiter, separator, encoding, nulls, repeated, negative, ignored
    )
    of_files = {
        "part": part, "split": split, "column": column, "filter_labels": filter_labels,
        "format": format, "base": base,
    }  # fmt: skip
    chosen = [name for name, value in of_files.items() if value is not None]
    if is_tag_lists(path):
        named_labels = [] if labels is None else ["labels"]
        _refuse_options(
            "a list of names is no table, so that", [*named_labels, *chosen, *table.chosen]
        )
        matrix, label_names = label_matrix(path, None if like is None else like.label_names)  # type: ignore[arg-type]
        return Dataset(None, matrix, label_names=label_names)
    if format is not None:
        checks.one_of(format, FORMATS, "format")
    named = None if labels is None else str(labels)
    if table_files.is_frame(path):
        _refuse_options("a table in memory is no file, so that", chosen)
        return read_table(path, None, named, like, table)
    path = Path(os.fspath(path))  # type: ignore[arg-type]
    folder = path if part is None else path / part
    if _is_corpus(folder):
        _refuse_options(f"{folder} is no table, so that", table.chosen)
        return _read_corpus(folder, like)
    own_file = None if labels is None or _is_table(path, part, format) else labels
    files = _files_of(path, own_file, part, split, column, filter_labels)
    bases = _bases(base, like)
    if files.data is not None and (form := _form(files.data, format)):
        dataset = read_table(files.data, form, named, like, table)
        like, names = None, False
    elif table.chosen:
        _refuse_options(f"{path} is no table, so that", table.chosen)
    elif files.data is None:
        dataset = _read_pair(files.features, files.labels, format, bases)
    else:
        dataset = _read_one(files.data, format, bases, like)
    _refuse_columns(dataset, like)
    dataset = _with_names(dataset) if names else dataset
    if files.filtered is not None:
        if dataset.labels is None:
            raise ValueError(f"{files.filtered} filters labels, but the data set has none.")
        judged = read_judgements(
            files.filtered,
            dataset.labels.shape,
            ids=dataset.ids,
            label_names=dataset.label_names,
        )
        source = _source_with(dataset, files.filtered)
        dataset = replace(dataset, judgements=judged, source=source)
    if files.split is not None:
        dataset = _with_rows(dataset, files.split, column or 0)
    return dataset


def _refuse_options(reason: str, options: list[str]) -> None:
    """Refuse options that mean nothing for a source, of which the reason says why."""
    if options:
        raise ValueError(f"{reason} {', '.join(options)} mean nothing for it; leave them out.")


def _form(path: Path, format: str | None) -> str | None:
    """Return the form of the table in a file; None if it is no table."""
    if format is not None:
        return format if format in table_files.FORMS else None
    return table_files.recognised(path)


def _is_table(path: Any, part: str | None, format: str | None) -> bool:
    file = Path(path)
    if part is not None and file.is_dir():
        file = locate(file, part).data or file
    return file.is_file() and _form(file, format) is not None


def _files_of(
    path: PathLike,
    labels: PathLike | None,
    part: str | None,
    split: PathLike | None,
    column: int | None,
    filter_labels: PathLike | None,
) -> Files:
    if labels is not None:
        files = Files(features=Path(path), labels=Path(labels))
    else:
        files = locate(path, part, None if split is not None else column)
    if split is not None:
        files = replace(files, split=Path(split))
    if filter_labels is not None:
        files = replace(files, filtered=Path(filter_labels))
    if column is not None and files.split is None:
        raise ValueError(
            f"{setting('column', column)} chooses from a split file; give one with "
            f"{setting('split')}."
        )
    return files


def _bases(base: int | tuple[int, int] | None, like: Dataset | None) -> Bases:
    """Return the numbers that labels and features are counted from; None: to be detected."""
    if base is None:
        return like.source.base if like is not None and like.source.paths else (None, None)
    pair = base if isinstance(base, tuple) else (base, base)
    if len(pair) != 2 or any(number not in (0, 1) for number in pair):
        raise ValueError(f"base must be 0, 1 or a pair (labels, features) of them; got {base!r}.")
    return pair


def _refuse_columns(dataset: Dataset, like: Dataset | None) -> None:
    """Refuse more columns than the limits allow, or others than those of `like`."""
    path = dataset.source.paths[0]
    for noun in ("features", "labels"):
        ours, theirs = getattr(dataset, noun), getattr(like, noun, None)
        if ours is not None:
            refuse_columns(path, ours.shape[1], noun)
        if ours is not None and theirs is not None and ours.shape[1] != theirs.shape[1]:
            raise ValueError(
                f"{path} has {ours.shape[1]} {noun}; the data set it should be like has "
                f"{theirs.shape[1]}."
            )


def _with_rows(dataset: Dataset, path: Path, column: int) -> Dataset:
    table = lines.integers(path)
    if not 0 <= column < table.shape[1]:
        raise ValueError(f"{path} has {table.shape[1]} columns; got column {column}.")
    rows = table[:, column]
    n = next(m.shape[0] for m in (dataset.labels, dataset.features) if m is not None)
    bad = np.flatnonzero((rows < 1) | (rows > n))
    if bad.size:
        raise ValueError(
            f"{path}, line {bad[0] + 1}: row number must lie in 1 … {n}, got {rows[bad[0]]}."
        )
    distinct, first = np.unique(rows, return_index=True)
    if len(distinct) < len(rows):
        again = int(np.setdiff1d(np.arange(len(rows)), first)[0])
        raise ValueError(f"{path}, line {again + 1}: row {rows[again]} is named a second time.")
    return replace(dataset.take(rows - 1), source=_source_with(dataset, path))


def _source_with(dataset: Dataset, path: Path) -> Source:
    """Return the data set's source with one more file."""
    source = dataset.source
    packed = (*source.compression, compression(path))
    return replace(source, paths=(*source.paths, str(path)), compression=packed)


def _with_names(dataset: Dataset) -> Dataset:
    """Add names from the files beside the data, where those have one line per column."""
    first = Path(dataset.source.paths[0])
    for noun, matrix in (("feature", dataset.features), ("label", dataset.labels)):
        field = f"{noun}_names"
        path = names_beside(first, noun)
        if getattr(dataset, field) is None and matrix is not None and path is not None:
            column_names = _lines(path, matrix.shape[1])
            if column_names is not None:
                added: dict[str, Any] = {field: column_names, "source": _source_with(dataset, path)}
                dataset = replace(dataset, **added)
    return dataset


def _lines(path: Path, count: int) -> tuple[str, ...] | None:
    """Return the file's lines if there are `count`, reading no more than is needed to know."""
    read, ends = [], 0
    for block in blocks(path):
        read.append(block)
        ends += block.count(b"\n")
        if ends > count:
            return None
    content = b"".join(read).removeprefix(b"\xef\xbb\xbf").decode("utf-8", "backslashreplace")
    names = content.removesuffix("\n").split("\n")
    return tuple(name.removesuffix("\r") for name in names) if len(names) == count else None


@named_options
def read_judgements(
    path: PathLike,
    shape: tuple[int, int],
    *,
    ids: Sequence[str] | None = None,
    label_names: Sequence[str] | None = None,
) -> sp.csr_array:
    """Read the judgements in a file, for `Dataset.judgements`.

    Parameters
    ----------
    path : str or path
        Lines `row label` (numbers counted from 0): pairs that are ignored. Or a table, separated
        by commas or tabs, whose columns are `row` or `id`, `label` and `judgement`: 1, 0, and
        anything that is neither (positive, negative, ignore; see `WORDS`).
    shape : (int, int)
        Rows and labels of the data set.
    ids : sequence of str, optional
        The names of the rows, where the table has them.
    label_names : sequence of str, optional
        The names of the labels.

    Returns
    -------
    csr_array of shape (n, L), float32

    Raises
    ------
    ValueError
        If a line cannot be understood, names a row or label that is not there, or contradicts
        another one.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "judged.csv"
    >>> _ = file.write_text("row,label,judgement\\n0,1,1\\n1,0,0\\n1,1,ignore\\n")
    >>> read_judgements(file, (2, 2)).toarray()
    array([[ 0.,  1.],
           [-1.,  2.]], dtype=float32)
    """
    first = first_bytes(path)[:400].decode("utf-8", "replace").partition("\n")[0]
    if "label" not in first:
        pairs = _filter_pairs(path, shape)
        return _judged(pairs[:, 0], pairs[:, 1], [Judgement.IGNORED] * len(pairs), shape, path)
    source = table_files.open_table(path)
    key = "id" if "id" in source.names else "row"
    if not {key, "label", "judgement"} <= set(source.names):
        raise ValueError(
            f"{path}: a table of judgements has the columns row or id, label and judgement; got "
            f"{first.strip()!r}."
        )
    cells_of = {
        name: list(map(str, cells))
        for name, cells in source.read([key, "label", "judgement"]).items()
    }
    named = ids if key == "id" else None
    rows = _positions(cells_of[key], named, shape[0], source)
    columns = _positions(cells_of["label"], label_names, shape[1], source)
    words = [word.strip().lower() for word in cells_of["judgement"]]
    for number, word in enumerate(words):
        if word not in WORDS:
            raise ValueError(
                f"{source.where(number)}: a judgement is positive, negative or ignore; got "
                f"{word!r:.60}."
            )
    return _judged(rows, columns, [WORDS[word] for word in words], shape, path)


def _filter_pairs(path: PathLike, shape: tuple[int, int]) -> Ints:
    pairs = lines.integers(Path(path))
    if pairs.shape[1] != 2:
        raise ValueError(f"{path}, line 1: expected 'row label', got {pairs.shape[1]} numbers.")
    for axis, noun in enumerate(("row", "label")):
        bad = np.flatnonzero((pairs[:, axis] < 0) | (pairs[:, axis] >= shape[axis]))
        if bad.size:
            raise ValueError(
                f"{path}, line {bad[0] + 1}: {noun} must lie in 0 … {shape[axis] - 1}, got "
                f"{pairs[bad[0], axis]}."
            )
    return np.unique(pairs, axis=0)  # a pair given twice is still one pair


def _positions(
    texts: list[str], names: Sequence[str] | None, size: int, source: table_files.Source
) -> Ints:
    """Return the numbers of rows or labels by name, or by number counted from 0."""
    if names is not None:
        places = unique_index(Strings.of(names), "names").find(Strings.of(texts)).astype(np.int64)
    else:
        numbers = (int(text) if len(text) < 10 and text.isdecimal() else -1 for text in texts)
        places = np.array(list(numbers), dtype=np.int64)
    bad = np.flatnonzero((places < 0) | (places >= size))
    if bad.size:
        row = int(bad[0])
        raise ValueError(f"{source.where(row)}: {texts[row]!r:.60} is not in the data set.")
    return places


def _judged(
    rows: Ints, columns: Ints, judged: Iterable[int], shape: tuple[int, int], path: PathLike
) -> sp.csr_array:
    values = np.array(list(judged), dtype=np.float32)
    keys = np.asarray(rows, dtype=np.int64) * shape[1] + columns
    different, first = np.unique(keys, return_index=True)
    again = np.flatnonzero(values != values[first][np.searchsorted(different, keys)])
    if again.size:
        row, label = divmod(int(keys[again[0]]), shape[1])
        raise ValueError(
            f"{path}: the pair of row {row} and label {label} is judged in two ways; keep one."
        )
    places = (different // shape[1], different % shape[1])
    return sp.csr_array(sp.coo_array((values[first], places), shape=shape))


def _is_corpus(folder: Path) -> bool:
    """Return whether a folder holds texts with their subjects beside them."""
    return folder.is_dir() and any(
        text.with_suffix(ending).is_file()
        for text in folder.glob("*.txt")
        for ending in (".tsv", ".key")
    )


def _read_corpus(folder: Path, like: Dataset | None) -> Dataset:
    """Read the documents of a folder, in the order of their names, which are the ids."""
    ids, texts, subjects, endings, bare = [], [], [], set(), 0
    for path in sorted(folder.glob("*.txt")):
        beside = next((p for e in (".tsv", ".key") if (p := path.with_suffix(e)).is_file()), None)
        if beside is None:
            bare += 1
            continue
        ids.append(path.stem)
        texts.append(text_of(path))
        subjects.append(list(_subjects(beside)))
        endings.add(beside.suffix)
    if len(endings) > 1:
        raise ValueError(
            f"{folder} has URIs beside some texts (.tsv) and labels beside others (.key); they "
            "cannot be told to be the same: make all of one kind."
        )
    labels, names = label_matrix(subjects, None if like is None else like.label_names)
    details = {"tool": "annif", **({"not annotated": str(bare)} if bare else {})}
    source = Source((str(folder),), "annif-folder", ("none",), details=details)
    return Dataset(
        None, labels, label_names=names, ids=Strings.of(ids), texts=Strings.of(texts), source=source
    )  # fmt: skip


def _subjects(path: Path) -> Iterator[str]:
    """Yield the subjects of a document, each once: URIs of lines, or whole lines."""
    names: set[str] = set()
    for number, line in enumerate(text_of(path).splitlines(), start=1):
        if not line.strip():
            continue
        name = line.partition("\t")[0].strip() if path.suffix == ".tsv" else line.strip()
        if path.suffix == ".tsv" and not (name.startswith("<") and name.endswith(">")):
            raise ValueError(
                f"{path}, line {number}: expected <URI>, tab, label; got {line!r:.60}."
            )
        name = name.strip("<>") if path.suffix == ".tsv" else name
        if not name:
            raise ValueError(f"{path}, line {number}: an empty URI; got {line!r:.60}.")
        if name not in names:
            names.add(name)
            yield name


PARTS = {
    "train": ("train", "trn"),
    "test": ("test", "tst"),
    "valid": ("valid", "val", "vld", "dev"),
}
"""The parts that a folder may hold, with the beginnings of their files' names."""

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
    """Return the parts that `read(folder, part=…)` finds in a folder.

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
    """Return the files behind a path: a file, a folder, or what several files begin with.

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
    """Yield every way in which files that begin with `start` make a data set."""
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
    """Return the file of feature or label names in the same folder, if there is one."""
    for name in _NAMES[noun]:
        names = _existing(path.parent, name)
        if names and names.resolve() != path.resolve():
            return names
    return None


def _existing(folder: Path, name: str) -> Path | None:
    return next((p for packed in _PACKED if (p := folder / (name + packed)).is_file()), None)


Bases: TypeAlias = tuple[int | None, int | None]
"""The numbers that labels and features are counted from; None: to be detected."""


def _read_one(path: Path, format: str | None, bases: Bases, like: Dataset | None) -> Dataset:
    """Read the data set in one file; `bases` and `like` as `read` understands them."""
    if archive.recognised(path):
        return _read_npz(path, format)
    opened = lines.open_text(path)
    usual = {3: "xc", 2: _role(path), 0: "libsvm"}
    name = format or usual[len(opened.header)]
    if name not in _READERS:
        raise ValueError(f"{path} is text, not {name!r}; use one of: {', '.join(_READERS)}.")
    return _READERS[name](opened, bases, like)


def _read_pair(
    features: Path | None, labels: Path | None, format: str | None, bases: Bases
) -> Dataset:
    """Read features and labels from a file each; one may be missing, or left out by `format`."""
    paths = {"features": features, "labels": labels}
    roles = [format] if format in paths else list(paths)
    halves = {
        role: _read_npz(path, role)
        if archive.recognised(path)
        else _read_matrix(role, lines.open_text(path), bases, None)
        for role in roles
        if (path := paths[role])
    }
    if not halves or format not in (None, "xc-pair", "npz", *paths):
        present = " and ".join(str(path) for path in paths.values() if path)
        raise ValueError(f"{present}: cannot be read as {format}; leave out {setting('format')}.")
    if len(halves) == 1:
        return next(iter(halves.values()))
    left, right = halves["features"], halves["labels"]
    checks.same_rows(left.features, right.labels, str(features), str(labels))
    of_features, of_labels = left.source, right.source
    source = Source(
        of_features.paths + of_labels.paths,
        "npz" if of_features.format == of_labels.format == "npz" else "xc-pair",
        of_features.compression + of_labels.compression,
        (of_labels.base[0], of_features.base[1]),
    )
    return Dataset(left.features, right.labels, source=source)


def _role(path: Path) -> str:
    """Return the role of a file that holds one matrix, by its name."""
    return "features" if "Xf" in path.name or path.name.startswith("X.") else "labels"


def _read_xc(opened: lines.Text, bases: Bases, like: Dataset | None) -> Dataset:
    from unmask._kernels.text import XC

    n, d, n_labels = _header(opened, "n d L")
    base = (bases[0] or 0, bases[1] or 0)
    block = lines.parse(
        opened, XC, n_rows=n, n_columns=d, n_labels=n_labels, label_base=base[0], base=base[1]
    )
    return Dataset(
        block.matrix(d), block.label_matrix(n_labels), source=_source(opened, "xc", base)
    )


def _read_libsvm(opened: lines.Text, bases: Bases, like: Dataset | None) -> Dataset:
    label_base, base = bases[0] or 0, bases[1]
    from unmask._kernels.text import LIBSVM

    n_labels, d = (
        None if like is None or (matrix := getattr(like, role)) is None else int(matrix.shape[1])
        for role in ("labels", "features")
    )

    def parsed(opened: lines.Text, base: int, d: int | None) -> lines.Block:
        return lines.parse(
            opened.headerless(),
            LIBSVM,
            n_columns=lines.INT32 if d is None else d,
            n_labels=lines.INT32 if n_labels is None else n_labels,
            base=base,
            label_base=label_base,
        )

    block = parsed(opened, base or 0, None if base is None else d)
    needed = int(block.columns.max(initial=-1)) + 1
    if base is None:
        base = int(block.columns.size > 0 and block.columns.min() > 0)
        block.columns[:] -= base
        needed = max(needed - base, 0)
        if d is not None and needed > d:  # read again, for the line number
            parsed(lines.open_text(opened.path), base, d)
    return Dataset(
        block.matrix(needed if d is None else d),
        block.label_matrix(int(block.labels.max(initial=-1)) + 1 if n_labels is None else n_labels),
        source=_source(opened, "libsvm", (label_base, base)),
    )


def _read_matrix(role: str, opened: lines.Text, bases: Bases, like: Dataset | None) -> Dataset:
    from unmask._kernels.text import LABELS, PAIRS

    n, columns = _header(opened, "n d" if role == "features" else "n L")
    layout, own = (PAIRS, 1) if role == "features" else (LABELS, 0)
    base = (bases[0] or 0, bases[1] or 0)
    block = lines.parse(opened, layout, n_rows=n, n_columns=columns, base=base[own])
    return _one_matrix(role, block.matrix(columns), _source(opened, role, base))


def _one_matrix(role: str, matrix: sp.csr_array, source: Source) -> Dataset:
    if role == "features":
        return Dataset(matrix, None, source=source)
    return Dataset(None, matrix, source=source)


def _header(opened: lines.Text, shape: str) -> tuple[int, ...]:
    if len(opened.header) != len(shape.split()) or max(opened.header) >= 1 << 60:
        line = quoted(opened.first_line.rstrip(b"\r\n"))
        raise ValueError(f"{opened.path}, line 1: expected the header '{shape}', got {line}.")
    return opened.header


def _source(opened: lines.Text, format: str, base: tuple[int, int]) -> Source:
    return Source((opened.path,), format, (opened.compression,), base)


def _read_npz(path: Path, format: str | None) -> Dataset:
    stored = archive.load(path)
    source = Source((str(path),), "npz", (compression(path),))
    try:
        if isinstance(stored, dict):
            return Dataset(**stored, source=source)
        role = format if format in ("features", "labels") else _role(path)
        return _one_matrix(role, stored, source)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


_READERS: dict[str, Callable[[lines.Text, Bases, Dataset | None], Dataset]] = {
    "xc": _read_xc,
    "libsvm": _read_libsvm,
    "features": partial(_read_matrix, "features"),
    "labels": partial(_read_matrix, "labels"),
}

FORMATS = ("xc", "xc-pair", "features", "labels", "libsvm", "npz", *table_files.FORMS)
"""The formats that `read` knows, as `dataset.source.format` names them."""
