"""Predictions in memory: the best k labels of every row (`TopK`), or a set of them (`LabelSets`).

One order holds everywhere: **the higher score first; equal scores by label, smaller first**. Scores
are float32, and "equal" means equal as float32. A row names a label at most once. A set is a list
without an order: it reads as a `TopK` whose scores are all equal (`LabelSets.as_top`), so whatever
takes predictions takes sets; metrics that cut a ranking at k refuse them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from unmask._kernels import even_bounds, in_chunks, row_bounds
from unmask._messages import setting
from unmask._names import Index, Strings, matched_rows, row_ids, some, sorted_names, unique_index
from unmask._text import html_table
from unmask._typing import (
    Array,
    Bools,
    Floats,
    Indices,
    Integers,
    Ints,
    MatrixLike,
    ScoresLike,
    Singles,
)
from unmask.arrays import checks

BLOCK = 1 << 22
"""Scores compared with thresholds at a time."""


class Pairs(NamedTuple):
    """The pairs of row and label that are predicted, row by row, best first.

    Attributes
    ----------
    rows, labels, places : (m,) integers
        Row and label of every pair, and its place in the list of the row, counted from 0.

    Examples
    --------
    >>> TopK([[2, 0], [1, -1]], [[0.9, 0.4], [0.5, float("-inf")]]).pairs().labels
    array([2, 0, 1])
    """

    rows: Ints
    labels: Ints
    places: Ints


@dataclass(frozen=True, eq=False)
class TopK:
    """The k best labels of n rows, best first.

    `TopK.sorted` and `TopK.from_scores` bring predictions into this form. Both arrays are copies,
    and cannot be written to.

    Parameters
    ----------
    labels : integers of shape (n, k), k ≥ 1
        Label numbers; −1 in the places at the end of a row that has fewer than k predictions.
    scores : numbers of shape (n, k)
        Their scores, which never rise; equal scores stand by label, smaller first. −inf in empty
        places, finite elsewhere.
    ids : n strings, optional
        The names of the rows, all different.
    names : strings, optional
        The names of the labels, by number.

    Raises
    ------
    ValueError
        If an array breaks these rules, or a row names a label twice.

    Examples
    --------
    >>> TopK([[2, 0]], [[0.9, 0.4]]).scores
    array([[0.9, 0.4]], dtype=float32)
    >>> TopK([[0, 2]], [[0.4, 0.9]])
    Traceback (most recent call last):
    ValueError: predictions must stand best first, equal scores by smaller label; row 0 has label 2
    with 0.9 at place 1. Use `TopK.sorted`.
    """

    labels: Indices
    scores: Singles
    ids: Strings | None = None
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        """Bring both arrays to their types and refuse what breaks the rules above."""
        labels, scores = _validated_pair(self.labels, self.scores, copy=True)
        _refuse_faults(labels, scores)
        _freeze(self, labels, scores)
        object.__setattr__(self, "ids", row_ids(self.ids, len(labels), "predictions"))
        highest, names = int(labels.max(initial=-1)), self.names
        if names is not None and highest >= len(names):
            raise ValueError(
                f"predictions name label {highest}, but there are {len(names)} label names, 0 … "
                f"{len(names) - 1}; give one per label."
            )
        object.__setattr__(self, "names", None if names is None else tuple(names))

    def __reduce__(self) -> tuple[type[TopK], tuple[object, ...]]:
        """Pickle through the checks, so that a copy cannot be written to, either."""
        return TopK, (self.labels, self.scores, self.ids, self.names)

    @property
    def k(self) -> int:
        """The places per row."""
        return int(self.labels.shape[1])

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.labels)

    def take(self, rows: ArrayLike | slice) -> TopK:
        """Return the predictions of some rows.

        Parameters
        ----------
        rows : integers of shape (m,), booleans of shape (n,), or slice
            Row numbers counted from 0, a mask, or a range of rows.

        Returns
        -------
        TopK

        Examples
        --------
        >>> TopK([[1], [0]], [[0.9], [0.4]], ids=["a", "b"]).take([1]).ids
        Strings(['b'])
        """
        numbers = np.arange(self.n)[rows if isinstance(rows, slice) else np.asarray(rows)]
        ids = None if self.ids is None else self.ids.take(numbers)
        return TopK(self.labels[numbers], self.scores[numbers], ids, self.names)

    def pairs(self, k: int | None = None) -> Pairs:
        """Return the predicted pairs of row and label.

        Parameters
        ----------
        k : int, optional
            Only the first k places of every row.

        Returns
        -------
        Pairs

        Examples
        --------
        >>> top = TopK([[2, 0], [1, -1]], [[0.9, 0.4], [0.5, float("-inf")]])
        >>> top.pairs().rows, top.pairs(1).labels
        (array([0, 0, 1]), array([2, 1]))
        """
        rows, places = np.nonzero(self.labels[:, :k] >= 0)
        return Pairs(rows, self.labels[rows, places].astype(np.int64), places)

    def matrix(self, n_labels: int, k: int | None = None) -> sp.csr_array:
        """Return the predicted pairs as a matrix of 0 and 1.

        Parameters
        ----------
        n_labels : int
            L, its columns; more than any label that is predicted.
        k : int, optional
            Only the first k places of every row.

        Returns
        -------
        csr_array of shape (n, L), float32

        Raises
        ------
        ValueError
            If a predicted label is not among the L.

        Examples
        --------
        >>> TopK([[2, 0]], [[0.9, 0.4]]).matrix(4).toarray()
        array([[1., 0., 1., 0.]], dtype=float32)
        """
        rows, labels, _ = self.pairs(k)
        if labels.max(initial=-1) >= n_labels:
            raise ValueError(
                f"predictions name {checks.out_of_range(int(labels.max()), n_labels, 'label')}"
            )
        indptr = np.searchsorted(rows, np.arange(self.n + 1))
        return _binary(labels, indptr, (self.n, n_labels))

    def named(
        self, *, ids: Sequence[str] | None = None, names: Sequence[str] | None = None
    ) -> TopK:
        """Return the predictions with names for rows and labels.

        Parameters
        ----------
        ids : n strings, optional
            None leaves those that there are.
        names : strings, optional
            One for every label number.

        Returns
        -------
        TopK

        Examples
        --------
        >>> TopK([[1]], [[0.5]]).named(ids=["d1"], names=["art", "law"]).of_row(0)
        [('law', 0.5)]
        """
        return TopK(
            self.labels,
            self.scores,
            self.ids if ids is None else Strings.of(ids, "ids"),
            self.names if names is None else tuple(names),
        )

    def of_row(self, row: int) -> list[tuple[str, float]]:
        """Return the predictions of a row, best first: (name, score); numbers as text.

        Parameters
        ----------
        row : int
            Counted from 0.

        Returns
        -------
        list of (str, float)
        """
        names = self.names
        pairs = zip(self.labels[row].tolist(), self.scores[row].tolist(), strict=True)
        return [(str(j) if names is None else names[j], score) for j, score in pairs if j >= 0]

    def _repr_html_(self) -> str:
        """Show the first rows in a notebook."""
        rows = [
            [
                row if self.ids is None else self.ids[row],
                ", ".join(f"{name} ({score:.3g})" for name, score in self.of_row(row)),
            ]
            for row in range(min(self.n, 5))
        ]
        caption = f"the best {self.k} labels of {self.n:,} rows"
        return html_table(caption, ["row", "labels (scores), best first"], rows)

    def aligned(
        self, *, ids: Sequence[str] | None = None, names: Sequence[str] | None = None
    ) -> TopK:
        """Return rows in the order of `ids`, labels numbered as in `names`.

        Parameters
        ----------
        ids : strings, optional
            Of the rows to be compared with. Ignored if these predictions have no ids: then rows
            are matched by position.
        names : strings, optional
            Of the labels. A predicted name that is not among them is an error.

        Returns
        -------
        TopK

        Raises
        ------
        ValueError
            If ids are missing, double or unknown, or a name is unknown; the message names them.

        Examples
        --------
        >>> top = TopK([[0], [1]], [[0.9], [0.8]], ["a", "b"], ("law", "art"))
        >>> top.aligned(ids=["b", "a"], names=["art", "law"]).labels.ravel()
        array([0, 1], dtype=int32)
        """
        labels, scores, own = self.labels, self.scores, self.ids
        if ids is not None and own is not None:
            rows = matched_rows(Strings.of(ids, "ids"), own, "labels", "predictions")
            labels, scores, own = labels[rows], scores[rows], own.take(rows)
        if names is None or self.names is None or tuple(names) == self.names:
            return TopK(labels, scores, own, self.names)
        columns = _columns(self.names, names, self.pairs().labels)
        moved = np.where(labels < 0, np.int32(-1), columns[labels])
        return TopK.sorted(moved, scores).named(ids=own, names=names)

    def first(self, k: int) -> TopK:
        """Return the first k places.

        Parameters
        ----------
        k : int
            At least 1; the predictions themselves where they have no more places.

        Returns
        -------
        TopK

        Examples
        --------
        >>> TopK([[1, 0]], [[0.9, 0.4]]).first(1).labels
        array([[1]], dtype=int32)
        """
        k = checks.positive_int(k, "k")
        return TopK(self.labels[:, :k], self.scores[:, :k], self.ids, self.names)

    def without(self, pairs: sp.csr_array) -> TopK:
        """Return the predictions without some pairs; places behind them move up.

        Parameters
        ----------
        pairs : csr matrix of shape (n, L)
            What it stores is left out.

        Returns
        -------
        TopK
            As wide; the last places of a row that lost some are empty.

        Raises
        ------
        ValueError
            If the pairs are of another number of rows.

        Examples
        --------
        >>> TopK([[1, 0]], [[0.9, 0.4]]).without(sp.csr_array([[0, 1]])).labels
        array([[ 0, -1]], dtype=int32)
        """
        checks.same_rows(self.labels, pairs, "predictions", "pairs to leave out")
        if not pairs.nnz:
            return self
        width = max(int(self.labels.max(initial=0)) + 1, pairs.shape[1])
        listed = self.pairs()
        keys = checks.entry_rows(pairs) * width + pairs.indices
        gone = np.isin(listed.rows * width + listed.labels, keys)
        labels = self.labels.copy()
        labels[listed.rows[gone], listed.places[gone]] = -1
        left = TopK.sorted(labels, self.scores)
        return left.named(ids=self.ids, names=self.names)

    @classmethod
    def from_pairs(
        cls,
        pairs: Iterable[Iterable[tuple[object, float]]],
        *,
        names: Sequence[str] | None = None,
        ids: Sequence[str] | None = None,
    ) -> TopK:
        """Make predictions of lists of (label, score), as napkinXC and omikuji return them.

        Parameters
        ----------
        pairs : n lists of (label, score)
            In any order; labels are all names or all numbers.
        names : strings, optional
            The names of the labels by number. Names that are not among them follow; without it,
            names stand in the order of their characters.
        ids : n strings, optional
            The names of the rows.

        Returns
        -------
        TopK
            k is the length of the longest list.

        Raises
        ------
        ValueError
            If a label is neither a name nor a number from 0, or stands twice in a row.

        Examples
        --------
        >>> top = TopK.from_pairs([[("law", 0.9), ("optics", 0.4)], [("physics", 0.7)]])
        >>> top.names, top.labels
        (('law', 'optics', 'physics'), array([[ 0, 1], [ 2, -1]], dtype=int32))
        >>> TopK.from_pairs([[(3, 0.5), (0, 0.9)]]).labels
        array([[0, 3]], dtype=int32)
        """
        rows = [list(row) for row in pairs]
        labels = [pair[0] for row in rows for pair in row]
        scores = np.array([pair[1] for row in rows for pair in row], dtype=np.float64)
        sizes = np.array([len(row) for row in rows], dtype=np.int64)
        row_of = np.repeat(np.arange(len(rows), dtype=np.int32), sizes)
        label_names = None if names is None else tuple(names)
        if any(isinstance(label, str) for label in labels):
            numbers, label_names = _numbered(labels, label_names)
        else:
            numbers = np.array(labels) if labels else np.empty(0, dtype=np.int32)
            if numbers.dtype.kind not in "iu" or (numbers.size and numbers.min() < 0):
                wrong = next(
                    (j for j in labels if not isinstance(j, int | np.integer) or j < 0), labels
                )
                raise ValueError(f"a label is a name or a number from 0; got {wrong!r:.60}.")
        triples = row_of, numbers.astype(np.int32), scores.astype(np.float32)
        top = best_of_rows(*triples, n=len(rows), k=None, names=label_names)
        return top.named(ids=ids) if ids is not None else top

    @classmethod
    def sorted(cls, labels: ArrayLike, scores: ArrayLike) -> TopK:
        """Make predictions of labels that stand in any order within a row.

        Parameters
        ----------
        labels : integers of shape (n, k)
            −1 marks an empty place.
        scores : numbers of shape (n, k)
            Those of empty places do not matter.

        Returns
        -------
        TopK

        Raises
        ------
        ValueError
            If a row names a label twice, or a score is not finite.

        Examples
        --------
        >>> TopK.sorted([[0, 7, 3]], [[0.5, 0.9, 0.9]]).labels
        array([[3, 7, 0]], dtype=int32)
        """
        predicted, scored = _validated_pair(labels, scores, copy=False)
        scored = np.where(predicted == -1, np.float32(-np.inf), scored)
        order = np.lexsort((predicted, -scored), axis=1)
        return cls(np.take_along_axis(predicted, order, 1), np.take_along_axis(scored, order, 1))

    @classmethod
    def from_scores(cls, scores: ScoresLike, k: int) -> TopK:
        """Make predictions of the k best labels of every row of a score matrix.

        A row with fewer than k candidates keeps empty places. Scores are compared after rounding
        to float32.

        Parameters
        ----------
        scores : matrix of shape (n, L)
            Dense: every column is a candidate, except where the score is −inf ("never predict
            this"). Sparse: the stored entries are the candidates, stored zeros among them.
        k : int
            Places per row, at least 1; as many as there are labels where those are fewer.

        Returns
        -------
        TopK

        Raises
        ------
        ValueError
            If a score is not finite as float32, or k is below 1.

        Examples
        --------
        >>> TopK.from_scores([[0.1, 0.9, 0.9], [0.3, float("-inf"), 0.2]], k=2).labels
        array([[1, 2], [0, 2]], dtype=int32)
        >>> TopK.from_scores(sp.csr_array([[0.0, -2.0, 0.0]]), k=2).labels
        array([[ 1, -1]], dtype=int32)
        """
        from unmask._kernels import topk

        checks.positive_int(k, "k")
        if sp.issparse(scores):
            stored = checks.columns(scores, name="scores", column="label")
            labels, best = _empty_arrays(stored.shape, k)
            arrays = stored.indptr, stored.indices, stored.data
            in_chunks(
                row_bounds(stored.indptr),
                lambda start, stop: topk.sparse(*arrays, start, stop, labels, best),
            )
            return _freeze(object.__new__(cls), labels, best)
        dense = checks.dense(scores, "scores", "label")
        if dense.dtype not in (np.float32, np.float64):
            dense = dense.astype(np.float64)
        labels, best = _empty_arrays(dense.shape, k)
        for row, column in in_chunks(
            even_bounds(*dense.shape),
            lambda start, stop: topk.dense(dense, start, stop, labels, best),
        ):
            if row >= 0:
                raise ValueError(
                    f"scores must be finite as float32, or −inf for a label never to predict; got "
                    f"{dense[row, column]:g} in row {row}, label {column}."
                )
        return _freeze(object.__new__(cls), labels, best)


def _freeze(top: TopK, labels: Indices, scores: Singles) -> TopK:
    """Give `top` arrays of our own, in order, that nobody can write to any more."""
    for name, array in (("labels", labels), ("scores", scores)):
        array.setflags(write=False)
        object.__setattr__(top, name, array)
    return top


def _empty_arrays(scores: tuple[int, int], k: int) -> tuple[Indices, Singles]:
    places = scores[0], max(1, min(k, scores[1]))
    return np.empty(places, dtype=np.int32), np.empty(places, dtype=np.float32)


def _numbered(
    labels: list[object], names: tuple[str, ...] | None
) -> tuple[Indices, tuple[str, ...]]:
    """Return the number of each named label, and the names by number."""
    wrong = [label for label in labels if not isinstance(label, str)]
    if wrong:
        raise ValueError(f"labels are all names or all numbers; got {wrong[0]!r:.60} among names.")
    index = Index()
    index.add(Strings.of(names or ()))
    codes = index.add(Strings.of(cast("list[str]", labels)))
    if names is not None:
        return codes, tuple(index.names())
    ordered, rank = sorted_names(index)
    return rank[codes], ordered


def best_of_rows(
    rows: Integers,
    labels: Indices,
    scores: Singles,
    *,
    n: int,
    k: int | None,
    names: tuple[str, ...] | None,
) -> TopK:
    """Return the best k predictions of n rows, by default as many as the longest row has."""
    if not np.isfinite(scores).all():
        raise ValueError(f"predicted scores must be finite; got {scores[~np.isfinite(scores)][0]}.")
    counts = np.bincount(rows, minlength=n)
    places = max(1, int(counts.max(initial=1))) if k is None else checks.positive_int(k, "k")
    if n * places > (1 << 20) + 64 * len(rows):
        raise ValueError(
            f"one row has {places:,} predictions, most have far fewer; say how many of each to "
            f"keep with {setting('k', of='predictions.read')}."
        )
    order = np.lexsort((labels, -scores, rows))
    starts = np.cumsum(counts) - counts
    place = np.arange(len(order)) - np.repeat(starts, counts)
    kept = place < places
    into = rows[order][kept], place[kept]
    predicted = np.full((n, places), -1, dtype=np.int32)
    scored = np.full((n, places), -np.inf, dtype=np.float32)
    predicted[into], scored[into] = labels[order][kept], scores[order][kept]
    return TopK(predicted, scored, None, names)


def _columns(old: tuple[str, ...], new: Sequence[str], predicted: Integers) -> Indices:
    """Return the number among `new` of each old label, if all that are predicted have one."""
    columns = unique_index(Strings.of(new), "label names").find(Strings.of(old))
    lost = np.unique(predicted[columns[predicted] < 0])
    if len(lost):
        raise ValueError(
            f"{len(lost):,} predicted labels are not among the {len(new):,} label names: "
            f"{some((old[j] for j in lost.tolist()), len(lost))}."
        )
    return columns


def listed_keys(top: TopK, k: int, width: int) -> Ints:
    """Return keys (row · width + label) of the first k predictions of every row.

    Parameters
    ----------
    top : TopK
    k : int
        Places of each list.
    width : int
        The number of labels.

    Returns
    -------
    integers, rising by row

    Examples
    --------
    >>> listed_keys(TopK([[2, 0], [1, -1]], [[0.9, 0.4], [0.5, -np.inf]]), 2, 3)
    array([2, 0, 4])
    """
    rows, labels, _ = top.pairs(k)
    return rows * width + labels


def fingerprint(top: TopK, k: int) -> str:
    """Return a short text that is equal for equal first k predictions of the same rows.

    Parameters
    ----------
    top : TopK
        The predictions.
    k : int
        How many places of each row count; their scores do not.

    Returns
    -------
    str

    Examples
    --------
    >>> fingerprint(TopK([[2, 0]], [[0.9, 0.4]]), 1) == fingerprint(TopK([[2]], [[0.1]]), 1)
    True
    """
    first = np.ascontiguousarray(top.labels[:, :k], dtype="<i4")
    return hashlib.sha256(f"{first.shape}".encode() + first.tobytes()).hexdigest()[:16]


def _validated_pair(labels: ArrayLike, scores: ArrayLike, *, copy: bool) -> tuple[Indices, Singles]:
    """Return both as arrays of their types and of one shape (n, k) with at least one place."""
    predicted = checks.numbers(labels, "predicted labels")
    scored = checks.numbers(scores, "predicted scores")
    if predicted.ndim != 2 or predicted.shape != scored.shape or predicted.shape[1] == 0:
        raise ValueError(
            "predictions need labels and scores of one shape (rows, k) with k ≥ 1; "
            f"got {predicted.shape} and {scored.shape}."
        )
    if predicted.dtype.kind not in "iu":
        raise ValueError(f"predicted labels must be whole numbers; got {predicted.dtype} values.")
    if predicted.size and predicted.max() > np.iinfo(np.int32).max:
        raise ValueError(f"predicted labels must be below 2^31; got {predicted.max()}.")
    if predicted.size and predicted.min() < -1:
        raise ValueError(f"predicted labels must be −1 (empty) or more; got {predicted.min()}.")
    with np.errstate(over="ignore"):  # what does not fit becomes infinite, and is refused later
        return (
            predicted.astype(np.int32, order="C", copy=copy),
            scored.astype(np.float32, order="C", copy=copy),
        )


def _refuse_faults(labels: Indices, scores: Singles) -> None:
    from unmask._kernels import topk

    n, k = labels.shape
    for kind, row, place in in_chunks(
        even_bounds(n, k), lambda start, stop: topk.first_fault(labels, scores, start, stop)
    ):
        if kind == topk.FINE:
            continue
        if kind == topk.REPEATED:
            raise ValueError(
                f"predictions name label {place} twice in row {row}; keep one of them."
            )
        label, score = labels[row, place], scores[row, place]
        position = f"row {row} has label {label} with {score:g} at place {place}."
        if kind == topk.PADDING:
            raise ValueError(
                f"an empty place has label −1 and score −inf, and no other has either; {position}"
            )
        if kind == topk.NOT_A_SCORE:
            raise ValueError(f"predicted scores must be finite; {position}")
        raise ValueError(
            f"predictions must stand best first, equal scores by smaller label; {position} "
            "Use `TopK.sorted`."
        )


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
        is_array = hasattr(indicator, "__array__") or checks.is_tensor(indicator)
        if is_array or sp.issparse(indicator):  # plain lists are always lists of labels
            matrix = checks.labels(indicator, name="predicted sets")
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
        """The number of labels of every row; (n,) integers."""
        sizes: Ints = np.diff(self.indicator.indptr).astype(np.int64)
        return sizes

    def __len__(self) -> int:
        """Return the number of rows."""
        return int(self.indicator.shape[0])

    def __getitem__(self, rows: slice | Bools | Integers) -> LabelSets:
        """Return the sets of some rows: a slice, row numbers, or a flag for every row."""
        numbers = np.arange(len(self))[rows]
        ids = None if self.ids is None else self.ids.take(numbers)
        return LabelSets(self.indicator[numbers], names=self.names, ids=ids)

    def of_row(self, row: int) -> list[str]:
        """Return the labels of a row by name; numbers as text, where there are no names."""
        numbers = checks.stored_in(self.indicator, row).tolist()
        return [str(j) if self.names is None else self.names[j] for j in numbers]

    def as_top(self) -> TopK:
        """Return the sets as lists in which all scores are equal: (n, largest set) arrays.

        Returns
        -------
        TopK
            Labels of a row by number, with the score 0.

        Examples
        --------
        >>> LabelSets([[2, 0], []], n_labels=3).as_top().labels
        array([[ 0, 2], [-1, -1]], dtype=int32)
        """
        sets = checks.labels(self.indicator, name="predicted sets")
        n, sizes = sets.shape[0], np.diff(sets.indptr)
        labels = np.full((n, max(1, int(sizes.max(initial=0)))), -1, dtype=np.int32)
        is_used = np.arange(labels.shape[1]) < sizes[:, None]
        labels[is_used] = sets.indices
        scores = np.where(is_used, np.float32(0), np.float32(-np.inf))
        return TopK(labels, scores, self.ids, self.names)

    def aligned(
        self, *, ids: Sequence[str] | None = None, names: Sequence[str] | None = None
    ) -> LabelSets:
        """Return rows in the order of `ids`, labels numbered as in `names`.

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
        moved = _columns(self.names, names, matrix.indices)[matrix.indices]
        shape = (matrix.shape[0], len(names))
        return LabelSets(_binary(moved, matrix.indptr, shape), names=names, ids=own)

    @classmethod
    def from_scores(
        cls,
        scores: ScoresLike,
        threshold: float | ArrayLike,
        *,
        names: Sequence[str] | None = None,
        ids: Sequence[str] | None = None,
    ) -> LabelSets:
        """Make sets of the labels whose score is at least the threshold.

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
        matrix = scores if sp.issparse(scores) else checks.dense(scores, "scores", "label")
        n_labels = checks.width(matrix, "scores")
        cut = np.asarray(checks.numbers(threshold, "threshold"), dtype=np.float64)
        if cut.ndim == 0:
            cut = np.full(n_labels, float(cut))
        if cut.shape != (n_labels,):
            raise ValueError(
                f"give one threshold, or one for each of {n_labels} labels; got shape {cut.shape}."
            )
        if np.isnan(cut).any():
            raise ValueError("a threshold must be a number; got NaN.")
        return cls(_above(matrix, cut), names=names, ids=ids)

    def _repr_html_(self) -> str:
        """Show the first rows in a notebook."""
        rows = [
            [row if self.ids is None else self.ids[row], ", ".join(self.of_row(row))]
            for row in range(min(len(self), 5))
        ]
        caption = f"predicted sets of {len(self):,} rows, {self.sizes.mean():.2f} labels in a row"
        return html_table(caption, ["row", "labels"], rows)


def _of_lists(
    rows: list[list[int | str]], n_labels: int | None, names: tuple[str, ...] | None
) -> tuple[sp.csr_array, tuple[str, ...] | None]:
    """Return lists of labels as a matrix, with the names of its columns."""
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
        raise ValueError(checks.out_of_range(least - 1, width, "label"))
    return _binary(columns, indptr, (len(rows), width)), names


def _binary(columns: Integers, indptr: Integers, shape: tuple[int, int]) -> sp.csr_array:
    """Return the matrix with ones in these columns, which stand in any order within a row."""
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


def _above(scores: sp.sparray | Array, cut: Floats) -> sp.csr_array:
    """Return 1 where a score is at least its threshold; dense scores go in blocks of rows."""
    if sp.issparse(scores):
        matrix = checks.matrix(scores, name="scores", column="label")
        _refuse_nan(matrix.data)
        kept = matrix.data >= cut[matrix.indices]
        ones = sp.csr_array((kept.astype(np.float32), matrix.indices, matrix.indptr), matrix.shape)
        ones.eliminate_zeros()
        return ones
    n, n_labels = scores.shape
    counts, columns = [np.zeros(1, np.int64)], [np.zeros(0, np.int64)]
    for start, stop in pairwise(even_bounds(n, n_labels, BLOCK).tolist()):
        _refuse_nan(scores[start:stop])
        above = scores[start:stop] >= cut
        counts.append(above.sum(axis=1))
        columns.append(above.nonzero()[1])
    indptr, indices = np.cumsum(np.concatenate(counts)), np.concatenate(columns)
    ones = np.ones(indices.size, dtype=np.float32)
    return sp.csr_array((ones, indices.astype(np.int32), indptr.astype(np.int32)), (n, n_labels))


def _refuse_nan(scores: Array) -> None:
    if np.isnan(scores).any():
        raise ValueError("scores must be numbers; got NaN. Use −inf for a label never to predict.")


def as_top(predictions: TopK | LabelSets | ScoresLike, k: int) -> TopK:
    """Return predictions of any kind as lists: the k best of scores, sets without an order.

    >>> as_top([[0.1, 0.9, 0.9]], 2).labels, as_top(LabelSets([[2, 0]]), 1).labels
    (array([[1, 2]], dtype=int32), array([[0, 2]], dtype=int32))
    """
    if isinstance(predictions, TopK):
        return predictions
    return (
        predictions.as_top()
        if isinstance(predictions, LabelSets)
        else TopK.from_scores(predictions, k)
    )
