"""Predictions in memory: the best k labels of every row, in one order.

From the value to what it is made of: `TopK`, predictions one by one (`Triples`), names, checks, and
the best k of dense or sparse scores.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from unmask import _validation
from unmask._kernels import even_bounds, in_chunks, row_bounds
from unmask._names import (
    Index,
    Strings,
    matched_rows,
    row_ids,
    some,
    sorted_names,
    unique_index,
)
from unmask._settings import setting
from unmask._sparse import entry_rows
from unmask._text import html_table
from unmask._typing import Indices, Ints, ScoresLike, Singles


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
        object.__setattr__(self, "names", _label_names(self.names, labels))

    def __reduce__(self) -> tuple[type[TopK], tuple[object, ...]]:
        """Pickling goes through the checks, so that a copy cannot be written to, either."""
        return TopK, (self.labels, self.scores, self.ids, self.names)

    @property
    def k(self) -> int:
        """Places per row."""
        return int(self.labels.shape[1])

    def named(
        self, *, ids: Sequence[str] | None = None, names: Sequence[str] | None = None
    ) -> TopK:
        """The same predictions with names for rows and labels.

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
        """The predictions of a row, best first: (name, score); a number as text without names.

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
        """What a notebook shows: the first rows."""
        rows = [
            [
                row if self.ids is None else self.ids[row],
                ", ".join(f"{name} ({score:.3g})" for name, score in self.of_row(row)),
            ]
            for row in range(min(len(self.labels), 5))
        ]
        caption = f"the best {self.k} labels of {len(self.labels):,} rows"
        return html_table(caption, ["row", "labels (scores), best first"], rows)

    def aligned(
        self, *, ids: Sequence[str] | None = None, names: Sequence[str] | None = None
    ) -> TopK:
        """Rows in the order of `ids`, labels numbered as in `names`.

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
        columns = _columns(self.names, tuple(names), self.labels)
        moved = np.where(labels < 0, np.int32(-1), columns[labels])
        return TopK.sorted(moved, scores).named(ids=own, names=names)

    def first(self, k: int) -> TopK:
        """The first k places.

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
        k = _validation.positive_int(k, "k")
        return TopK(self.labels[:, :k], self.scores[:, :k], self.ids, self.names)

    def without(self, pairs: sp.csr_array) -> TopK:
        """The predictions without some pairs of row and label; places behind them move up.

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
        _validation.same_rows(self.labels, pairs, "predictions", "pairs to leave out")
        if not pairs.nnz:
            return self
        width = max(int(self.labels.max(initial=0)) + 1, pairs.shape[1])
        own = np.arange(len(self.labels), dtype=np.int64)[:, None] * width + self.labels
        rows = entry_rows(pairs)
        gone = np.isin(own, rows * width + pairs.indices) & (self.labels >= 0)
        left = TopK.sorted(np.where(gone, np.int32(-1), self.labels), self.scores)
        return left.named(ids=self.ids, names=self.names)

    @classmethod
    def from_pairs(
        cls,
        pairs: Iterable[Iterable[tuple[object, float]]],
        *,
        names: Sequence[str] | None = None,
        ids: Sequence[str] | None = None,
    ) -> TopK:
        """Predictions as lists of (label, score), in any order: what napkinXC and omikuji return.

        Parameters
        ----------
        pairs : n lists of (label, score)
            Labels are all names or all numbers.
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
        triples = _of_pairs(rows, None if names is None else tuple(names))
        top = from_triples(triples, len(rows), None)
        return top.named(ids=ids) if ids is not None else top

    @classmethod
    def sorted(cls, labels: ArrayLike, scores: ArrayLike) -> TopK:
        """Predictions in any order within a row.

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
        """The k best labels of every row of a score matrix.

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
        _validation.positive_int(k, "k")
        return _from_sparse(scores, k) if sp.issparse(scores) else _from_dense(scores, k)


def _freeze(top: TopK, labels: Indices, scores: Singles) -> TopK:
    """`top` with arrays of our own, in order, that nobody can write to any more."""
    for name, array in (("labels", labels), ("scores", scores)):
        array.setflags(write=False)
        object.__setattr__(top, name, array)
    return top


class Triples(NamedTuple):
    """Predictions one by one: row, label number, score; and the names of the labels.

    Attributes
    ----------
    rows, labels : (m,) integers
        Row and label number of every prediction.
    scores : (m,) float32
        Its score.
    names : tuple of str or None
        The names of the labels, if the file has names instead of numbers.
    """

    rows: Indices
    labels: Indices
    scores: Singles
    names: tuple[str, ...] | None


def _of_pairs(rows: list[list[tuple[object, float]]], names: tuple[str, ...] | None) -> Triples:
    """Lists of (label, score) one by one."""
    labels = [pair[0] for row in rows for pair in row]
    scores = np.array([pair[1] for row in rows for pair in row], dtype=np.float64)
    counts = np.array([len(row) for row in rows], dtype=np.int64)
    row_of = np.repeat(np.arange(len(rows), dtype=np.int32), counts)
    by_name = [isinstance(label, str) for label in labels]
    if not any(by_name):
        numbers = np.array(labels) if labels else np.empty(0, dtype=np.int32)
        if numbers.dtype.kind not in "iu" or (numbers.size and numbers.min() < 0):
            wrong = next(
                (j for j in labels if not isinstance(j, int | np.integer) or j < 0), labels
            )
            raise ValueError(f"a label is a name or a number from 0; got {wrong!r:.60}.")
        return Triples(row_of, numbers.astype(np.int32), scores.astype(np.float32), names)
    if not all(by_name):
        wrong = labels[by_name.index(False)]
        raise ValueError(f"labels are all names or all numbers; got {wrong!r:.60} among names.")
    index = Index()
    if names is not None:
        index.add(Strings.of(names))
    codes = index.add(Strings.of([str(label) for label in labels]))
    if names is not None:
        return Triples(row_of, codes, scores.astype(np.float32), tuple(index.names()))
    ordered, rank = sorted_names(index)
    return Triples(row_of, rank[codes], scores.astype(np.float32), ordered)


def from_triples(triples: Triples, n: int, k: int | None) -> TopK:
    """The best k of every row; by default k is the length of the longest row."""
    rows, labels, scores, names = triples
    if not np.isfinite(scores).all():
        raise ValueError(f"predicted scores must be finite; got {scores[~np.isfinite(scores)][0]}.")
    counts = np.bincount(rows, minlength=n)
    places = max(1, int(counts.max(initial=1))) if k is None else _validation.positive_int(k, "k")
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


def _label_names(names: Sequence[str] | None, labels: Indices) -> tuple[str, ...] | None:
    if names is None:
        return None
    highest = int(labels.max(initial=-1))
    if highest >= len(names):
        raise ValueError(
            f"predictions name label {highest}, but there are {len(names)} label names, 0 … "
            f"{len(names) - 1}; give one per label."
        )
    return tuple(names)


def _columns(old: tuple[str, ...], new: tuple[str, ...], labels: Indices) -> Indices:
    """The number among `new` of each old label, if all that are predicted have one."""
    columns = unique_index(Strings.of(new), "label names").find(Strings.of(old))
    predicted = np.unique(labels[labels >= 0])
    lost = predicted[columns[predicted] < 0]
    if len(lost):
        raise ValueError(
            f"{len(lost):,} predicted labels are not among the {len(new):,} label names: "
            f"{some((old[j] for j in lost.tolist()), len(lost))}."
        )
    return columns


def listed_keys(top: TopK, k: int, width: int) -> Ints:
    """Keys (row · width + label) of the first k predictions of every row.

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
    row, place = np.nonzero(top.labels[:, :k] >= 0)
    return np.asarray(row.astype(np.int64) * width + top.labels[row, place])


def fingerprint(top: TopK, k: int) -> str:
    """A short text that is the same for the same first k predictions of the same rows.

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
    """Both as two-dimensional arrays of their types and of one shape with at least one place."""
    predicted = _validation.numbers(labels, "predicted labels")
    scored = _validation.numbers(scores, "predicted scores")
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
        if kind != topk.FINE:
            raise ValueError(_fault(kind, row, place, labels, scores))


def _fault(kind: int, row: int, place: int, labels: Indices, scores: Singles) -> str:
    from unmask._kernels import topk

    if kind == topk.REPEATED:
        return f"predictions name label {place} twice in row {row}; keep one of them."
    label, score = labels[row, place], scores[row, place]
    position = f"row {row} has label {label} with {score:g} at place {place}."
    if kind == topk.PADDING:
        return f"an empty place has label −1 and score −inf, and no other has either; {position}"
    if kind == topk.NOT_A_SCORE:
        return f"predicted scores must be finite; {position}"
    return (
        f"predictions must stand best first, equal scores by smaller label; {position} "
        "Use `TopK.sorted`."
    )


def _from_dense(values: ScoresLike, k: int) -> TopK:
    from unmask._kernels import topk

    scores = _validation.dense(values, "scores", "label")
    if scores.dtype not in (np.float32, np.float64):
        scores = scores.astype(np.float64)
    labels, best = _empty_arrays(scores.shape, k)
    for row, column in in_chunks(
        even_bounds(*scores.shape),
        lambda start, stop: topk.dense(scores, start, stop, labels, best),
    ):
        if row >= 0:
            raise ValueError(
                f"scores must be finite as float32, or −inf for a label never to predict; got "
                f"{scores[row, column]:g} in row {row}, label {column}."
            )
    return _freeze(object.__new__(TopK), labels, best)


def _from_sparse(values: ScoresLike, k: int) -> TopK:
    from unmask._kernels import topk

    scores = _validation.columns(values, name="scores", column="label")
    labels, best = _empty_arrays(scores.shape, k)
    in_chunks(
        row_bounds(scores.indptr),
        lambda start, stop: topk.sparse(
            scores.indptr, scores.indices, scores.data, start, stop, labels, best
        ),
    )
    return _freeze(object.__new__(TopK), labels, best)


def _empty_arrays(scores: tuple[int, int], k: int) -> tuple[Indices, Singles]:
    places = scores[0], max(1, min(k, scores[1]))
    return np.empty(places, dtype=np.int32), np.empty(places, dtype=np.float32)
