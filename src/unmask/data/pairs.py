"""Pairs of a row and a label of which more is known than "observed or not".

`Dataset.judgements` holds them, a sparse matrix with one of three values per pair (`Judgement`):

    POSITIVE   somebody looked and the label is true: observed for certain, p = 1
    NEGATIVE   somebody looked and it is not: never a label, even if the data show it
    IGNORED    neither: such as a page that is its own label, or what was known before; the pair
               leaves rankings, counts and losses

`obeyed` makes of observed labels what follows from that. A file of judgements is a list of pairs
`row label` that are ignored (the filter files of the XC repository), or a table with the columns
row or id, label, judgement.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from unmask import _io, _tables
from unmask._names import Strings, unique_index
from unmask._typing import Bools, Ints, MatrixLike, PathLike, PropensityLike
from unmask.arrays import checks, entry_rows, values_at


class Judgement(IntEnum):
    """What is known of a pair.

    Examples
    --------
    >>> from unmask.data import Dataset
    >>> read = Dataset(None, [[1, 1]], judgements=[[Judgement.NEGATIVE, Judgement.POSITIVE]])
    >>> read.judgements.toarray()
    array([[-1.,  1.]], dtype=float32)
    """

    NEGATIVE = -1
    POSITIVE = 1
    IGNORED = 2


WORDS = {
    "positive": Judgement.POSITIVE, "yes": Judgement.POSITIVE, "1": Judgement.POSITIVE,
    "negative": Judgement.NEGATIVE, "no": Judgement.NEGATIVE, "0": Judgement.NEGATIVE,
    "ignore": Judgement.IGNORED, "ignored": Judgement.IGNORED, "-1": Judgement.IGNORED,
    "unsure": Judgement.IGNORED, "?": Judgement.IGNORED, "": Judgement.IGNORED,
}  # fmt: skip
"""How files write them: the third value of a table is neither 1 nor 0."""


def checked(values: MatrixLike, *, name: str = "judgements") -> sp.csr_array:
    """Judgements as a canonical matrix; ValueError for any other value than a `Judgement`.

    Parameters
    ----------
    values : matrix of shape (n, L)
        Dense or sparse, of −1, 0 (nothing is known), 1 and 2.
    name : str, default "judgements"
        In messages.

    Returns
    -------
    csr_array of shape (n, L), float32
    """
    matrix = checks.columns(values, name=name, column="label")
    if not matrix.data.all():
        matrix = matrix.copy()
        matrix.eliminate_zeros()
    wrong = np.flatnonzero(~np.isin(matrix.data, [float(each) for each in Judgement]))
    if wrong.size:
        entry = int(wrong[0])
        raise ValueError(
            f"{name} must be 1 (positive), -1 (negative) or 2 (ignored); got "
            f"{matrix.data[entry]:g} in row {checks.row_of(matrix, entry)}, label "
            f"{matrix.indices[entry]}."
        )
    return matrix


def pairs_that_are(judgements: sp.csr_array, which: Judgement) -> sp.csr_array:
    """The pairs with this judgement, as ones.

    Parameters
    ----------
    judgements : csr_array of shape (n, L)
    which : Judgement

    Returns
    -------
    csr_array of shape (n, L), float32

    Examples
    --------
    >>> judged = sp.csr_array([[1.0, 2.0], [0.0, -1.0]])
    >>> pairs_that_are(judged, Judgement.IGNORED).toarray()
    array([[0., 1.],
           [0., 0.]], dtype=float32)
    """
    return _part(judgements, judgements.data == which)


def _part(matrix: sp.csr_array, kept: Bools) -> sp.csr_array:
    before = np.r_[0, np.cumsum(kept)].astype(matrix.indptr.dtype)
    ones = np.ones(int(before[-1]), np.float32)
    parts = ones, matrix.indices[kept], before[matrix.indptr]
    return sp.csr_array(parts, shape=matrix.shape)


@dataclass(frozen=True, eq=False)
class Obeyed:
    """Observed labels after judgements.

    Parameters
    ----------
    labels : csr_array of shape (n, L)
        With the verified positives, without verified negatives and ignored pairs.
    certain : booleans of shape (nnz of `labels`,)
        Which entries are verified: their propensity is 1.
    ignored : csr_array of shape (n, L)
        The pairs that count nowhere.
    """

    labels: sp.csr_array
    certain: Bools
    ignored: sp.csr_array

    def propensity(self, stated: PropensityLike) -> sp.csr_array:
        """Propensities with the pattern of the labels, 1 for those that are verified.

        Parameters
        ----------
        stated : (L,) numbers in (0, 1], or sparse (n, L)
            One per label, or one per observed label; those of verified labels do not matter.

        Returns
        -------
        csr_array of shape (n, L)

        Raises
        ------
        ValueError
            If they do not fit the labels.
        """
        if checks.is_sparse(stated):
            matrix = checks.matrix(stated, name="propensities", column="label")
            checks.same_shape(matrix, self.labels, "propensities", "labels")
            rows = entry_rows(self.labels)
            values = values_at(matrix, rows, self.labels.indices)
        else:
            values = checks.propensity(stated, self.labels.shape[1])[self.labels.indices]
        parts = np.where(self.certain, 1.0, values), self.labels.indices, self.labels.indptr
        return sp.csr_array(parts, shape=self.labels.shape)


def obeyed(labels: sp.csr_array, judgements: sp.csr_array) -> Obeyed:
    """What judgements make of observed labels.

    Parameters
    ----------
    labels : csr_array of shape (n, L)
    judgements : csr_array of shape (n, L)
        Of `Judgement` values; both are checked.

    Returns
    -------
    Obeyed

    Examples
    --------
    >>> after = obeyed(sp.csr_array([[1.0, 1.0, 0.0]]), sp.csr_array([[2.0, 0.0, 1.0]]))
    >>> after.labels.toarray(), after.certain, after.ignored.nnz
    (array([[0., 1., 1.]], dtype=float32), array([False,  True]), 1)
    """
    width = labels.shape[1]
    pairs, judged = pair_keys(labels), pair_keys(judgements)
    positive = judgements.data == Judgement.POSITIVE
    free = ~np.isin(pairs, judged, assume_unique=True)
    merged = np.sort(np.r_[pairs[free], judged[positive]])
    rows, columns = merged // width, (merged % width).astype(labels.indices.dtype)
    starts = np.searchsorted(rows, np.arange(labels.shape[0] + 1)).astype(labels.indptr.dtype)
    ones = np.ones(merged.size, np.float32)
    made = sp.csr_array((ones, columns, starts), shape=labels.shape)
    certain = np.isin(merged, judged[positive], assume_unique=True)
    return Obeyed(made, certain, pairs_that_are(judgements, Judgement.IGNORED))


def pair_keys(matrix: sp.csr_array) -> Ints:
    """row · L + label of every stored pair of a checked matrix, rising."""
    rows = entry_rows(matrix)
    return np.asarray(rows * matrix.shape[1] + matrix.indices)


def read_judgements(
    path: PathLike,
    shape: tuple[int, int],
    *,
    ids: Sequence[str] | None = None,
    label_names: Sequence[str] | None = None,
) -> sp.csr_array:
    """The judgements in a file, for `Dataset.judgements`.

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
    first = next(_io.blocks(path), b"")[:400].decode("utf-8", "replace").partition("\n")[0]
    if "label" not in first:
        pairs = _filter_pairs(path, shape)
        return _matrix(pairs[:, 0], pairs[:, 1], [Judgement.IGNORED] * len(pairs), shape, path)
    source = _tables.open_table(path)
    key = "id" if "id" in source.names else "row"
    _require({key, "label", "judgement"} <= set(source.names), path, first)
    lines = {
        name: list(map(str, cells))
        for name, cells in source.read([key, "label", "judgement"]).items()
    }
    named = ids if key == "id" else None
    rows = _positions(lines[key], named, shape[0], source)
    columns = _positions(lines["label"], label_names, shape[1], source)
    words = [word.strip().lower() for word in lines["judgement"]]
    for number, word in enumerate(words):
        if word not in WORDS:
            raise ValueError(
                f"{source.where(number)}: a judgement is positive, negative or ignore; got "
                f"{word!r:.60}."
            )
    return _matrix(rows, columns, [WORDS[word] for word in words], shape, path)


def _require(columns_are_there: bool, path: PathLike, first: str) -> None:
    if not columns_are_there:
        raise ValueError(
            f"{path}: a table of judgements has the columns row or id, label and judgement; got "
            f"{first.strip()!r}."
        )


def _filter_pairs(path: PathLike, shape: tuple[int, int]) -> Ints:
    pairs = _io.integers(Path(path))
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
    texts: list[str], names: Sequence[str] | None, size: int, source: _tables.Source
) -> Ints:
    """Rows or labels by name, or by number counted from 0."""
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


def _matrix(
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
