"""Predicted sets: which labels a system says are right, any number of them in a row.

A set is a list of predictions without an order. It reads as a `TopK` whose scores are all equal
(`LabelSets.as_top`), so whatever takes predictions takes sets; metrics that cut a ranking at k
refuse them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from unmask import _validation
from unmask._kernels import even_bounds
from unmask._names import Strings, matched_rows, row_ids, some, unique_index
from unmask._text import html_table
from unmask._typing import Array, Bools, Floats, Integers, Ints, MatrixLike, ScoresLike
from unmask.predictions.top import TopK

BLOCK = 1 << 22
"""Scores compared with thresholds at a time."""


@dataclass(frozen=True, eq=False, init=False)
class LabelSets:
    """The predicted labels of n rows.

    Parameters
    ----------
    indicator : matrix of shape (n, L) of 0 and 1, or n lists of labels
        Dense or sparse; or for every row the numbers of its labels, or their names.
    n_labels : int, optional
        L, for lists of numbers; by default one more than the largest.
    names : L strings, optional
        The names of the labels by number. For lists of names, by default those that occur, in the
        order of their characters.
    ids : n strings, optional
        The names of the rows, all different.

    Raises
    ------
    ValueError
        If entries are neither 0 nor 1, a list names a label twice, or a name is not in `names`.

    Examples
    --------
    >>> sets = LabelSets([["law", "art"], [], ["art"]])
    >>> sets.names, sets.sizes
    (('art', 'law'), array([2, 0, 1]))
    >>> LabelSets([[0, 2], [1]], n_labels=4).indicator.toarray()
    array([[1., 0., 1., 0.], [0., 1., 0., 0.]], dtype=float32)
    >>> LabelSets(np.array([[1, 0], [1, 1]])).of_row(1)
    ['0', '1']
    """

    indicator: sp.csr_array
    names: tuple[str, ...] | None
    ids: Strings | None

    def __init__(
        self,
        indicator: MatrixLike | Sequence[Sequence[int]] | Sequence[Sequence[str]],
        *,
        n_labels: int | None = None,
        names: Sequence[str] | None = None,
        ids: Sequence[str] | None = None,
    ) -> None:
        """Bring lists and matrices to one form, and check it."""
        label_names = None if names is None else tuple(names)
        if _is_matrix(indicator):
            matrix = _validation.labels(indicator, name="predicted sets")
        else:
            rows = cast("Iterable[Iterable[int | str]]", indicator)
            matrix, label_names = _of_lists([list(row) for row in rows], n_labels, label_names)
        if n_labels is not None and n_labels != matrix.shape[1]:
            raise ValueError(f"predicted sets have {matrix.shape[1]} labels, not {n_labels}.")
        if label_names is not None and len(label_names) != matrix.shape[1]:
            raise ValueError(
                f"{len(label_names)} names for {matrix.shape[1]} labels; give one for each label."
            )
        matrix = matrix.copy()
        for array in (matrix.data, matrix.indices, matrix.indptr):
            array.flags.writeable = False
        object.__setattr__(self, "indicator", matrix)
        object.__setattr__(self, "names", label_names)
        object.__setattr__(self, "ids", row_ids(ids, matrix.shape[0], "predicted sets"))

    @property
    def sizes(self) -> Ints:
        """How many labels every row has; (n,) integers."""
        sizes: Ints = np.diff(self.indicator.indptr).astype(np.int64)
        return sizes

    def __len__(self) -> int:
        """How many rows."""
        return int(self.indicator.shape[0])

    def __getitem__(self, rows: slice | Bools | Integers) -> LabelSets:
        """The sets of some rows: a slice, row numbers, or a flag for every row."""
        numbers = np.arange(len(self))[rows]
        ids = None if self.ids is None else self.ids.take(numbers)
        return LabelSets(self.indicator[numbers], names=self.names, ids=ids)

    def of_row(self, row: int) -> list[str]:
        """The labels of a row by name; a number as text without names."""
        start, stop = self.indicator.indptr[row : row + 2]
        numbers = self.indicator.indices[start:stop].tolist()
        return [str(j) if self.names is None else self.names[j] for j in numbers]

    def as_top(self) -> TopK:
        """The sets as lists in which all scores are equal: (n, largest set) arrays.

        Returns
        -------
        TopK
            Labels of a row by number, with the score 0.

        Examples
        --------
        >>> LabelSets([[2, 0], []], n_labels=3).as_top().labels
        array([[ 0, 2], [-1, -1]], dtype=int32)
        """
        sets = _validation.labels(self.indicator, name="predicted sets")
        n, sizes = sets.shape[0], np.diff(sets.indptr)
        labels = np.full((n, max(1, int(sizes.max(initial=0)))), -1, dtype=np.int32)
        is_used = np.arange(labels.shape[1]) < sizes[:, None]
        labels[is_used] = sets.indices
        scores = np.where(is_used, np.float32(0), np.float32(-np.inf))
        return TopK(labels, scores, self.ids, self.names)

    def aligned(
        self, *, ids: Sequence[str] | None = None, names: Sequence[str] | None = None
    ) -> LabelSets:
        """Rows in the order of `ids`, labels numbered as in `names`.

        Parameters
        ----------
        ids : strings, optional
            Of the rows to be compared with; ignored if these sets have none.
        names : strings, optional
            Of the labels; ignored if these sets have none.

        Returns
        -------
        LabelSets

        Raises
        ------
        ValueError
            If ids or predicted names are unknown.

        Examples
        --------
        >>> sets = LabelSets([["law"], ["art"]], ids=["a", "b"])
        >>> sets.aligned(ids=["b", "a"], names=["law", "optics", "art"]).indicator.indices
        array([2, 0], dtype=int32)
        """
        matrix, own = self.indicator, self.ids
        if ids is not None and own is not None:
            rows = matched_rows(Strings.of(ids, "ids"), own, "labels", "predicted sets")
            matrix, own = matrix[rows], own.take(rows)
        if names is None or self.names is None or tuple(names) == self.names:
            return LabelSets(matrix, names=self.names, ids=own)
        columns = unique_index(Strings.of(names), "label names").find(Strings.of(self.names))
        moved = columns[matrix.indices]
        lost = np.unique(matrix.indices[moved < 0])
        if lost.size:
            listed = some((self.names[j] for j in lost.tolist()), lost.size)
            raise ValueError(
                f"{lost.size:,} predicted labels are not among the {len(names):,} label names: "
                f"{listed}."
            )
        shape = (matrix.shape[0], len(names))
        return LabelSets(_sorted(moved, matrix.indptr, shape), names=names, ids=own)

    @classmethod
    def from_scores(
        cls,
        scores: ScoresLike,
        threshold: float | ArrayLike,
        *,
        names: Sequence[str] | None = None,
        ids: Sequence[str] | None = None,
    ) -> LabelSets:
        """The labels whose score is at least the threshold.

        Parameters
        ----------
        scores : matrix of shape (n, L)
            Dense, or sparse, of which only stored entries can be predicted.
        threshold : float or array of shape (L,)
            One for all labels, or one for each; +inf never predicts a label.
        names, ids
            As in the class.

        Returns
        -------
        LabelSets

        Raises
        ------
        ValueError
            If a score or a threshold is NaN, or there is not one threshold for each label.

        Examples
        --------
        >>> LabelSets.from_scores([[0.2, 0.7], [0.5, 0.1]], 0.5).indicator.toarray()
        array([[0., 1.], [1., 0.]], dtype=float32)
        >>> LabelSets.from_scores([[0.2, 0.7], [0.5, 0.1]], [0.1, 0.9]).sizes
        array([1, 1])
        """
        matrix = scores if sp.issparse(scores) else _validation.dense(scores, "scores", "label")
        n_labels = _validation.width(matrix, "scores")
        cut = _thresholds(threshold, n_labels)
        chosen = _above(matrix, cut)
        return cls(chosen, names=names, ids=ids)

    def _repr_html_(self) -> str:
        """What a notebook shows: the first rows."""
        rows = [
            [row if self.ids is None else self.ids[row], ", ".join(self.of_row(row))]
            for row in range(min(len(self), 5))
        ]
        caption = f"predicted sets of {len(self):,} rows, {self.sizes.mean():.2f} labels in a row"
        return html_table(caption, ["row", "labels"], rows)


def _is_matrix(values: object) -> bool:
    """Whether this is a matrix; plain lists are always lists of labels."""
    arrays = hasattr(values, "__array__") or _validation.is_tensor(values)
    return arrays or bool(sp.issparse(values))


def _of_lists(
    rows: list[list[int | str]], n_labels: int | None, names: tuple[str, ...] | None
) -> tuple[sp.csr_array, tuple[str, ...] | None]:
    """Lists of labels as a matrix, with the names of its columns."""
    flat = [label for row in rows for label in row]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    if any(isinstance(label, str) for label in flat):
        names = names or tuple(sorted({str(label) for label in flat}))
        index = unique_index(Strings.of(names), "label names")
        columns = index.find(Strings.of(cast("list[str]", flat), "predicted labels"))
        if (columns < 0).any():
            first = flat[int(np.argmax(columns < 0))]
            raise ValueError(
                f"the predicted label {first!r:.60} is not among the {len(names):,} label names."
            )
    else:
        columns = np.asarray(flat if flat else np.zeros(0, dtype=np.int64))
        if columns.dtype.kind not in "iu" or (columns.size and columns.min() < 0):
            wrong = flat if columns.dtype.kind not in "iu" else columns.min()
            raise ValueError(f"a predicted label is a name or a number from 0; got {wrong!r:.60}.")
    least = int(columns.max(initial=-1)) + 1
    width = n_labels if n_labels is not None else len(names) if names is not None else least
    if least > width:
        raise ValueError(_validation.out_of_range(least - 1, width, "label"))
    return _sorted(columns, indptr, (len(rows), width)), names


def _sorted(columns: Integers, indptr: Integers, shape: tuple[int, int]) -> sp.csr_array:
    """The matrix with ones in these columns, which stand in any order within a row."""
    rows = np.repeat(np.arange(shape[0]), np.diff(indptr))
    order = np.lexsort((columns, rows))
    ordered = np.asarray(columns)[order].astype(np.int32)
    again = (np.diff(ordered) == 0) & (np.diff(rows) == 0)
    if again.any():
        entry = int(np.argmax(again))
        raise ValueError(
            f"a predicted set names label {ordered[entry]} twice in row {rows[entry]}; keep one "
            "(a matrix of 0 and 1 is given as an array, not as lists)."
        )
    ones = np.ones(ordered.size, dtype=np.float32)
    return sp.csr_array((ones, ordered, indptr.astype(np.int32)), shape=shape)


def _thresholds(threshold: float | ArrayLike, n_labels: int) -> Floats:
    cut = np.asarray(_validation.numbers(threshold, "threshold"), dtype=np.float64)
    if cut.ndim == 0:
        cut = np.full(n_labels, float(cut))
    if cut.shape != (n_labels,):
        raise ValueError(
            f"give one threshold, or one for each of {n_labels} labels; got shape {cut.shape}."
        )
    if np.isnan(cut).any():
        raise ValueError("a threshold must be a number; got NaN.")
    return cut


def _above(scores: sp.sparray | Array, cut: Floats) -> sp.csr_array:
    """1 where a score is at least its threshold; dense scores in blocks of rows."""
    if sp.issparse(scores):
        matrix = _validation.matrix(scores, name="scores", column="label")
        _refuse_nan(matrix.data)
        kept = matrix.data >= cut[matrix.indices]
        ones = sp.csr_array((kept.astype(np.float32), matrix.indices, matrix.indptr), matrix.shape)
        ones.eliminate_zeros()
        return ones
    n, n_labels = scores.shape
    counts, columns = [np.zeros(1, np.int64)], [np.zeros(0, np.int64)]
    for start, stop in pairwise(even_bounds(n, n_labels, BLOCK).tolist()):
        above = _compared(scores[start:stop], cut)
        counts.append(above.sum(axis=1))
        columns.append(above.nonzero()[1])
    indptr, indices = np.cumsum(np.concatenate(counts)), np.concatenate(columns)
    ones = np.ones(indices.size, dtype=np.float32)
    return sp.csr_array((ones, indices.astype(np.int32), indptr.astype(np.int32)), (n, n_labels))


def _compared(scores: Array, cut: Floats) -> Bools:
    _refuse_nan(scores)
    return np.asarray(scores >= cut)


def _refuse_nan(scores: Array) -> None:
    if np.isnan(scores).any():
        raise ValueError("scores must be numbers; got NaN. Use −inf for a label never to predict.")
