"""Data sets: features, labels and texts of the same rows, their ids, all names; sizes, alignment.

`Dataset.judgements` holds pairs of a row and a label of which more is known than "observed or not",
as a sparse matrix with one of three values per pair (`Judgement`):

    POSITIVE   somebody looked and the label is true: observed for certain, p = 1
    NEGATIVE   somebody looked and it is not: never a label, even if the data show it
    IGNORED    neither: such as a page that is its own label, or what was known before; the pair
               leaves rankings, counts and losses

`Dataset.after_judgements` makes of observed labels what follows from that. `same_labels` puts data
sets under the same names, `unseen` returns the labels that one of them lacks, `describe` counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from unmask._names import Strings, refuse_repeated, some, unique_index
from unmask._text import html_table
from unmask._typing import Bools, Indices, Ints, LabelsLike, MatrixLike, PropensityLike
from unmask.arrays import checks, chosen_entries, entry_rows, pair_keys, stored_in, values_at


@dataclass(frozen=True)
class Source:
    """The files of a data set, and every detection that `read` made, so that nothing is a guess.

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


class Judgement(IntEnum):
    """A value of `Dataset.judgements`: what somebody said of a pair of row and label.

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
"""The words of files for them: the third value of a table is neither 1 nor 0."""


def _checked_judgements(values: MatrixLike, *, name: str = "judgements") -> sp.csr_array:
    """Return a canonical matrix of −1, 0 (nothing is known), 1 and 2."""
    matrix = checks.without_zeros(checks.columns(values, name=name, column="label"))
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
    """Return the pairs with this judgement, as ones.

    >>> judged = sp.csr_array([[1.0, 2.0], [0.0, -1.0]])
    >>> pairs_that_are(judged, Judgement.IGNORED).toarray()
    array([[0., 1.],
           [0., 0.]], dtype=float32)
    """
    pairs = chosen_entries(judgements, judgements.data == which)
    pairs.data = np.ones(pairs.nnz, np.float32)
    return pairs


@dataclass(frozen=True, eq=False)
class JudgedLabels:
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
        """Return propensities with the pattern of the labels, 1 for those that are verified.

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


def after_judgements(labels: sp.csr_array, judgements: sp.csr_array) -> JudgedLabels:
    """Return what judgements make of observed labels; both matrices are checked.

    >>> after = after_judgements(sp.csr_array([[1.0, 1.0, 0.0]]), sp.csr_array([[2.0, 0.0, 1.0]]))
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
    return JudgedLabels(made, certain, pairs_that_are(judgements, Judgement.IGNORED))


_MATRICES: Mapping[str, Callable[..., sp.csr_array]] = {
    "features": checks.columns,
    "labels": checks.labels,
    "judgements": _checked_judgements,
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
        trainers that take the data set in place of labels use its judgements (`after_judgements`).
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
        for noun in ("feature", "label"):
            names, matrix = getattr(self, f"{noun}_names"), getattr(self, f"{noun}s")
            count = 0 if matrix is None else matrix.shape[1]
            if names is not None and (matrix is None or len(names) != count):
                raise ValueError(
                    f"{len(names)} {noun} names for {count} {noun}s; give one per {noun}."
                )
        for name in ("ids", "texts"):
            if getattr(self, name) is not None:
                strings = Strings.of(getattr(self, name), name)
                if len(strings) != self.n:
                    raise ValueError(f"{len(strings)} {name} for {self.n} rows; give one per row.")
                object.__setattr__(self, name, strings)
        if self.ids is not None:
            refuse_repeated(self.ids, "ids")

    @property
    def n(self) -> int:
        """The number of rows."""
        for matrix in (self.features, self.labels):
            if matrix is not None:
                return int(matrix.shape[0])
        return 0 if self.texts is None else len(self.texts)

    def _repr_html_(self) -> str:
        """Show sizes and the first rows by name in a notebook."""
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
    def after_judgements(self) -> JudgedLabels:
        """The labels after the judgements; ValueError if there are no labels."""
        labels = self._present_labels
        judgements = sp.csr_array(labels.shape) if self.judgements is None else self.judgements
        return after_judgements(labels, judgements)

    @property
    def _present_labels(self) -> sp.csr_array:
        if self.labels is None:
            raise ValueError("the data set has no labels.")
        return self.labels

    def labels_of(self, row: int) -> tuple[str, ...]:
        """Return the labels of a row by name; by number, as text, where they have no names.

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
        names, numbers = self.label_names, stored_in(self._present_labels, row).tolist()
        return tuple(str(j) if names is None else names[j] for j in numbers)

    def with_label_names(self, names: Sequence[str]) -> Dataset:
        """Return the data set with its labels in the columns that these names say.

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
        """Return the data set with other label names, such as `subject_labels` for URIs.

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
        """Return the rows with these numbers, in this order.

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
    """Return the matrix with column j moved to columns[j]."""
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


def labels_of(labels: LabelsLike | Dataset) -> sp.csr_array:
    """Return the checked label matrix of a data set or of a matrix.

    >>> labels_of(Dataset(None, [[0, 1]])).indices, labels_of([[1, 0]]).indices
    (array([1], dtype=int32), array([0], dtype=int32))
    """
    return checks.labels(labels._present_labels if isinstance(labels, Dataset) else labels)


class Unseen(NamedTuple):
    """Labels of some rows that the training rows do not have.

    Attributes
    ----------
    names : tuple of str
        Their names.
    pairs : int
        How often they occur, over all rows.

    Examples
    --------
    >>> train = Dataset(None, [[1, 1]], label_names=("art", "law"))
    >>> test = Dataset(None, [[1, 1], [0, 1]], label_names=("law", "tax"))
    >>> names, pairs = unseen(test, train)
    >>> names, pairs
    (('tax',), 2)
    """

    names: tuple[str, ...]
    pairs: int


def unseen(dataset: Dataset, train: Dataset) -> Unseen:
    """Return the labels of a data set that no training row has, by name.

    Parameters
    ----------
    dataset, train : Dataset
        Both with label names.

    Returns
    -------
    Unseen

    Raises
    ------
    ValueError
        If one of them has labels without names.

    Examples
    --------
    >>> train = Dataset(None, [[1, 1]], label_names=("art", "law"))
    >>> unseen(Dataset(None, [[1, 1]], label_names=("law", "tax")), train)
    Unseen(names=('tax',), pairs=1)
    """
    counts = _counts(dataset)
    trained = _counts(train)
    new = {name: count for name, count in counts.items() if count and not trained.get(name)}
    return Unseen(tuple(sorted(new)), sum(new.values()))


def _counts(dataset: Dataset) -> dict[str, int]:
    if dataset.labels is None or dataset.label_names is None:
        raise ValueError("labels must have names to be compared by name.")
    totals = np.bincount(dataset.labels.indices, minlength=len(dataset.label_names))
    return dict(zip(dataset.label_names, totals.tolist(), strict=True))


def same_labels(*datasets: Dataset) -> tuple[Dataset, ...]:
    """Return the data sets with equal label columns: those of the first, then others.

    Parameters
    ----------
    *datasets : Dataset
        All with label names. Names that the first lacks follow in the order of their characters.

    Returns
    -------
    tuple of Dataset

    Raises
    ------
    ValueError
        If one of them has labels without names, or a name twice.

    Examples
    --------
    >>> train = Dataset(None, [[1, 1]], label_names=("law", "art"))
    >>> test = Dataset(None, [[1, 1]], label_names=("art", "tax"))
    >>> [each.label_names for each in same_labels(train, test)]
    [('law', 'art', 'tax'), ('law', 'art', 'tax')]
    """
    first = datasets[0].label_names or ()
    others = {name for each in datasets[1:] for name in each.label_names or ()} - set(first)
    names = (*first, *sorted(others))
    unique_index(Strings.of(names), "label names")
    return tuple(each.with_label_names(names) for each in datasets)


TAIL = 5
"""A label with at least one and at most this many rows belongs to the tail."""


@dataclass(frozen=True)
class Description:
    """Counts of a data set; averages are over all rows and all labels, empty ones included.

    Parameters
    ----------
    n, L : int
        Rows and labels.
    d : int or None
        Features.
    labels_per_row, rows_per_label : float
        Averages.
    features_per_row : float or None
        Average of stored features.
    empty_rows, unused_labels : int
        Rows without a label, labels without a row.
    tail_labels : int
        Labels with 1 to `TAIL` rows.
    largest_row, most_frequent : int
        The most labels of a row, the most rows of a label.
    label_count_histogram : integers of shape (largest_row + 1,)
        Entry m is the number of rows with m labels.

    Examples
    --------
    >>> counts = describe(Dataset(None, [[1, 1, 0], [0, 0, 0]]))
    >>> counts.n, counts.L, counts.unused_labels, counts.tail_labels
    (2, 3, 1, 2)
    >>> round(counts.tail_share, 2)
    0.67
    """

    n: int
    d: int | None
    L: int
    labels_per_row: float
    rows_per_label: float
    features_per_row: float | None
    empty_rows: int
    unused_labels: int
    tail_labels: int
    largest_row: int
    most_frequent: int
    label_count_histogram: Ints

    @property
    def tail_share(self) -> float:
        """The tail's share of all labels."""
        return self.tail_labels / self.L if self.L else 0.0


def describe(dataset: Dataset) -> Description:
    """Count what matters in a data set that has labels.

    Parameters
    ----------
    dataset : Dataset
        With labels; features may be missing.

    Returns
    -------
    Description

    Raises
    ------
    ValueError
        If the data set has no labels.

    Examples
    --------
    >>> counts = describe(Dataset(None, [[1, 1, 0], [0, 0, 0]]))
    >>> counts.labels_per_row, counts.empty_rows, counts.label_count_histogram
    (1.0, 1, array([1, 0, 1]))
    """
    dataset = replace(dataset)  # which checks it: its matrices can be changed in place
    labels, features = dataset.labels, dataset.features
    if labels is None:
        raise ValueError("the data set has no labels to describe; read a file that holds labels.")
    (n, n_labels), per_row = labels.shape, np.diff(labels.indptr)
    per_label = np.bincount(labels.indices, minlength=n_labels)
    return Description(
        n=n,
        d=None if features is None else features.shape[1],
        L=n_labels,
        labels_per_row=labels.nnz / max(n, 1),
        rows_per_label=labels.nnz / max(n_labels, 1),
        features_per_row=None if features is None else features.nnz / max(n, 1),
        empty_rows=int((per_row == 0).sum()),
        unused_labels=int((per_label == 0).sum()),
        tail_labels=int(((per_label > 0) & (per_label <= TAIL)).sum()),
        largest_row=int(per_row.max(initial=0)),
        most_frequent=int(per_label.max(initial=0)),
        label_count_histogram=np.bincount(per_row),
    )
