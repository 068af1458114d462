"""What a data file becomes: features, labels and texts of the same rows, their ids, all names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from unmask._messages import html_table
from unmask._names import Strings, refuse_repeated, some, unique_index
from unmask._typing import Indices
from unmask.arrays import checks
from unmask.data import pairs


@dataclass(frozen=True)
class Source:
    """How a data set was read: every detection that `read` made, so that nothing is a guess.

    Parameters
    ----------
    paths : tuple of str
        The files.
    format : str
        One of `unmask.data.FORMATS`, or "memory" for a data set that was made, not read.
    compression : tuple of {"none", "gzip", "zstd"}
        One for each path.
    base : (int, int), default (0, 0)
        The number that the files count (labels, features) from.
    details : mapping of str to str
        Of a table: its layout, the columns that were taken, separator and delimiter.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from unmask import data
    >>> path = Path(tempfile.mkdtemp()) / "recipes.csv"
    >>> path.write_text("text,labels\\nboil an egg,heat\\nbrew tea,drink;heat\\n")
    49
    >>> source = data.read(path).source
    >>> source.format, source.compression, source.details["labels"], source.details["delimiter"]
    ('csv', ('none',), 'labels', ';')
    """

    paths: tuple[str, ...]
    format: str
    compression: tuple[str, ...]
    base: tuple[int, int] = (0, 0)
    details: Mapping[str, str] = field(default_factory=dict)


_MATRICES: Mapping[str, Callable[..., sp.csr_array]] = {
    "features": checks.columns,
    "labels": checks.labels,
    "judgements": pairs.checked,
}


@dataclass(frozen=True, eq=False)
class Dataset:
    """Features, labels and texts of the same n rows, with their ids and names.

    Matrices are brought into canonical form when the object is made: `csr_array`, float32, indices
    sorted and unique, int32 where they fit. Stored zeros stay in the features.

    Parameters
    ----------
    features : matrix of shape (n, d), or None
        Dense or sparse; may be missing if there are labels or texts.
    labels : matrix of shape (n, L) of 0 and 1, or None
        Dense or sparse; may be missing if there are features or texts.
    feature_names, label_names : tuple of str, optional
        One name per column.
    judgements : matrix of shape (n, L) of `Judgement` values, optional
        The (row, label) pairs that are verified (1 or −1), or that count nowhere (2), such as a
        page that is its own label. `labels` are as they were observed; metrics, weights and
        trainers that take the data set in place of labels obey its judgements (`obeyed`).
    source : Source, default "memory"
        How it was read.
    ids : n strings, optional
        The names of the rows, all different. Rows of files that both have ids are matched by them.
    texts : n strings, optional
        What the rows say, where features are still to be made of it.

    Raises
    ------
    ValueError
        If matrices and texts are missing, ids are not all different, parts do not belong
        together, or a value is not finite or, in labels, neither 0 nor 1.

    Examples
    --------
    >>> Dataset(features=None, labels=[[0, 1], [1, 1]]).labels.nnz
    3
    >>> rows = Dataset(None, [[0, 1], [1, 1]], label_names=("art", "law"), ids=("d1", "d2"))
    >>> rows.take([1]).ids, rows.take([1]).labels_of(0)
    (Strings(['d2']), ('art', 'law'))
    """

    features: sp.csr_array | None
    labels: sp.csr_array | None
    feature_names: tuple[str, ...] | None = None
    label_names: tuple[str, ...] | None = None
    judgements: sp.csr_array | None = None
    source: Source = Source((), "memory", ())
    ids: Strings | None = None
    texts: Strings | None = None

    def __post_init__(self) -> None:
        """Check each part and that they belong together."""
        if self.features is None and self.labels is None and self.texts is None:
            raise ValueError("a data set needs features, labels or texts; got none of them.")
        for name, check in _MATRICES.items():
            if getattr(self, name) is not None:
                checked = checks.narrow(check(getattr(self, name), name=name))
                object.__setattr__(self, name, checked)
        if self.features is not None and self.labels is not None:
            checks.same_rows(self.features, self.labels, "features", "labels")
        if self.judgements is not None:
            if self.labels is None:
                raise ValueError("judgements belong to labels, and there are none.")
            checks.same_shape(self.judgements, self.labels, "judgements", "labels")
        _one_name_per_column(self.feature_names, self.features, "feature")
        _one_name_per_column(self.label_names, self.labels, "label")
        for name in ("ids", "texts"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, self._one_per_row(getattr(self, name), name))
        if self.ids is not None:
            refuse_repeated(self.ids, "ids")

    def _one_per_row(self, values: Sequence[str], name: str) -> Strings:
        strings = Strings.of(values, name)
        if len(strings) != self.n:
            raise ValueError(f"{len(strings)} {name} for {self.n} rows; give one per row.")
        return strings

    @property
    def n(self) -> int:
        """Rows."""
        for matrix in (self.features, self.labels):
            if matrix is not None:
                return int(matrix.shape[0])
        return 0 if self.texts is None else len(self.texts)

    def _repr_html_(self) -> str:
        """What a notebook shows: sizes, and the first rows by name."""
        sizes = [f"{self.n:,} rows"]
        sizes += [] if self.labels is None else [f"{self.labels.shape[1]:,} labels"]
        sizes += [] if self.features is None else [f"{self.features.shape[1]:,} features"]
        rows = [
            [
                row if self.ids is None else self.ids[row],
                "" if self.texts is None else self.texts[row][:80],
                "" if self.labels is None else "; ".join(self.labels_of(row)[:20]),
            ]
            for row in range(min(self.n, 5))
        ]
        return html_table(", ".join(sizes), ["row", "text", "labels"], rows)

    @property
    def obeyed(self) -> pairs.Obeyed:
        """What the judgements make of the labels; ValueError if there are no labels."""
        if self.labels is None:
            raise ValueError("the data set has no labels.")
        judgements = sp.csr_array(self.labels.shape) if self.judgements is None else self.judgements
        return pairs.obeyed(self.labels, judgements)

    def labels_of(self, row: int) -> tuple[str, ...]:
        """The labels of a row by name; by number, as text, where they have no names.

        Parameters
        ----------
        row : int
            Its number, counted from 0.

        Returns
        -------
        tuple of str

        Raises
        ------
        ValueError
            If there are no labels.
        """
        if self.labels is None:
            raise ValueError("the data set has no labels.")
        numbers = self.labels.indices[self.labels.indptr[row] : self.labels.indptr[row + 1]]
        names = self.label_names
        return tuple(str(j) if names is None else names[j] for j in numbers.tolist())

    def with_label_names(self, names: Sequence[str]) -> Dataset:
        """The same labels in the columns that these names say.

        Parameters
        ----------
        names : sequence of str
            All different. A label that is not among them must have no row; a name that is not
            among the labels gets an empty column.

        Returns
        -------
        Dataset

        Raises
        ------
        ValueError
            If the labels have no names, or one with rows is not among `names`.

        Examples
        --------
        >>> rows = Dataset(None, [[0, 1], [1, 1]], label_names=("art", "law"))
        >>> rows.with_label_names(("law", "tax", "art")).labels.toarray()
        array([[1., 0., 0.], [1., 0., 1.]], dtype=float32)
        """
        if self.labels is None or self.label_names is None:
            raise ValueError("labels without names cannot be put under names; they are numbers.")
        names = tuple(names)
        if names == self.label_names:
            return self
        columns = unique_index(Strings.of(names), "label names").find(Strings.of(self.label_names))
        labels, judgements = (
            None if matrix is None else _recolumned(matrix, columns, names, self.label_names)
            for matrix in (self.labels, self.judgements)
        )
        return replace(self, labels=labels, judgements=judgements, label_names=names)

    def renamed(self, names: Mapping[str, str]) -> Dataset:
        """The same labels under other names, such as those of `subject_labels` for URIs.

        Parameters
        ----------
        names : mapping of str to str
            New names by old ones. A label that is not among them keeps its name; where two labels
            would have the same, the old one is added in brackets.

        Returns
        -------
        Dataset

        Raises
        ------
        ValueError
            If the labels have no names.

        Examples
        --------
        >>> rows = Dataset(None, [[0, 1, 1]], label_names=("a1", "b1", "b2"))
        >>> rows.renamed({"a1": "art", "b1": "law", "b2": "law"}).label_names
        ('art', 'law (b1)', 'law (b2)')
        """
        if self.label_names is None:
            raise ValueError("labels without names cannot be renamed; they are numbers.")
        wanted = [names.get(name, name) for name in self.label_names]
        times = Counter(wanted)
        new = (
            name if times[name] == 1 else f"{name} ({old})"
            for old, name in zip(self.label_names, wanted, strict=True)
        )
        return replace(self, label_names=tuple(new))

    def take(self, rows: ArrayLike | slice) -> Dataset:
        """The rows with these numbers, in this order.

        Parameters
        ----------
        rows : integers of shape (m,), booleans of shape (n,), or slice
            Row numbers counted from 0, a mask, or a range of rows.

        Returns
        -------
        Dataset

        Examples
        --------
        >>> Dataset(None, [[0, 1], [1, 1]]).take([1]).labels.indices
        array([0, 1], dtype=int32)
        """
        checked = replace(self)  # validates again: arrays may have been changed in place
        features, labels, judgements = (
            None if matrix is None else matrix[rows]
            for matrix in (checked.features, checked.labels, checked.judgements)
        )
        chosen = rows if isinstance(rows, slice) else np.asarray(rows)
        ids, texts = (
            None if strings is None else strings.take(np.arange(self.n)[chosen])
            for strings in (self.ids, self.texts)
        )
        return replace(
            self, features=features, labels=labels, judgements=judgements, ids=ids, texts=texts
        )


def _recolumned(
    matrix: sp.csr_array, columns: Indices, names: tuple[str, ...], old: tuple[str, ...]
) -> sp.csr_array:
    """The matrix with column j moved to columns[j]."""
    moved = columns[matrix.indices]
    if (moved < 0).any():
        lost = np.unique(matrix.indices[moved < 0])
        raise ValueError(
            f"{len(lost)} labels are not among the {len(names)} names: "
            f"{some((old[j] for j in lost.tolist()), len(lost))}."
        )
    made = sp.csr_array((matrix.data, moved, matrix.indptr), shape=(matrix.shape[0], len(names)))
    made.sort_indices()
    return made


def _one_name_per_column(
    names: tuple[str, ...] | None, matrix: sp.csr_array | None, noun: str
) -> None:
    if names is not None and (matrix is None or len(names) != matrix.shape[1]):
        columns = 0 if matrix is None else matrix.shape[1]
        raise ValueError(f"{len(names)} {noun} names for {columns} {noun}s; give one per {noun}.")
