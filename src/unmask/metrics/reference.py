"""Every metric of rows by its definition, in plain NumPy: what the kernels must reproduce.

    reference.recall(ranking, labels, k)      one row: predicted labels, best first; true labels

These are for reading and for tests; `evaluate` computes the same numbers for millions of rows. A
row without labels scores 0, and a list shorter than k is filled with wrong labels. The registry
names the reference of each metric: `METRICS["R"].reference`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from unmask._typing import Bools, Ints

Labels: TypeAlias = "Sequence[int] | Ints"

Reference: TypeAlias = Callable[[Labels, Labels, int], float]
"""`reference(ranking, labels, k)`: the metric of one row."""


def precision(ranking: Labels, labels: Labels, k: int) -> float:
    """P@k: hits among the first k, divided by k.

    Parameters
    ----------
    ranking
        Numbers of the predicted labels, best first, at most once each.
    labels
        Numbers of the true labels, in any order.
    k
        How many predictions count, at least 1.

    Returns
    -------
    float
        The metric of this row.

    Examples
    --------
    >>> precision([4, 0, 2], [0, 2, 7, 9], 3)
    0.6666666666666666
    """
    return float(_is_right(ranking, labels, k).sum() / k)


def recall(ranking: Labels, labels: Labels, k: int) -> float:
    """R@k: hits among the first k, divided by the number of true labels.

    Parameters
    ----------
    ranking
        Numbers of the predicted labels, best first, at most once each.
    labels
        Numbers of the true labels, in any order.
    k
        How many predictions count, at least 1.

    Returns
    -------
    float
        The metric of this row.

    Examples
    --------
    >>> recall([4, 0, 2], [0, 2, 7, 9], 3)
    0.5
    """
    return float(_is_right(ranking, labels, k).sum() / max(len(labels), 1))


def f1(ranking: Labels, labels: Labels, k: int) -> float:
    """F1@k: 2 · hits / (k + number of true labels), the harmonic mean of P@k and R@k.

    Parameters
    ----------
    ranking
        Numbers of the predicted labels, best first, at most once each.
    labels
        Numbers of the true labels, in any order.
    k
        How many predictions count, at least 1.

    Returns
    -------
    float
        The metric of this row.

    Examples
    --------
    >>> f1([4, 0, 2], [0, 2, 7, 9, 11], 3)
    0.5
    """
    return float(2 * _is_right(ranking, labels, k).sum() / (k + len(labels)))


def jaccard(ranking: Labels, labels: Labels, k: int) -> float:
    """Jaccard@k: hits over the size of the union of the first k and the true labels.

    Parameters
    ----------
    ranking
        Numbers of the predicted labels, best first, at most once each.
    labels
        Numbers of the true labels, in any order.
    k
        How many predictions count, at least 1.

    Returns
    -------
    float
        The metric of this row.

    Examples
    --------
    >>> jaccard([4, 0, 2], [0, 2, 7], 3)
    0.5
    """
    hits = _is_right(ranking, labels, k).sum()
    return float(hits / (k + len(labels) - hits))


def hit(ranking: Labels, labels: Labels, k: int) -> float:
    """hit@k: 1 if any of the first k is right.

    Parameters
    ----------
    ranking
        Numbers of the predicted labels, best first, at most once each.
    labels
        Numbers of the true labels, in any order.
    k
        How many predictions count, at least 1.

    Returns
    -------
    float
        The metric of this row.

    Examples
    --------
    >>> hit([4, 0, 2], [0], 1), hit([4, 0, 2], [0], 2)
    (0.0, 1.0)
    """
    return float(_is_right(ranking, labels, k).any())


def dcg(ranking: Labels, labels: Labels, k: int) -> float:
    """DCG@k: Σ over hits of 1 / log2(1 + rank), the first rank being 1.

    Parameters
    ----------
    ranking
        Numbers of the predicted labels, best first, at most once each.
    labels
        Numbers of the true labels, in any order.
    k
        How many predictions count, at least 1.

    Returns
    -------
    float
        The metric of this row.

    Examples
    --------
    >>> dcg([4, 0, 2, 5], [2], 3)
    0.5
    """
    is_right = _is_right(ranking, labels, k)
    return float((is_right / np.log2(2 + np.arange(is_right.size))).sum())


def ndcg(ranking: Labels, labels: Labels, k: int) -> float:
    """nDCG@k: DCG@k divided by that of the best ranking, which begins with the true labels.

    Parameters
    ----------
    ranking
        Numbers of the predicted labels, best first, at most once each.
    labels
        Numbers of the true labels, in any order.
    k
        How many predictions count, at least 1.

    Returns
    -------
    float
        The metric of this row.

    Examples
    --------
    >>> ndcg([4, 0, 2], [2], 3)
    0.5
    """
    return dcg(ranking, labels, k) / dcg(labels, labels, k) if len(labels) else 0.0


def r_precision(ranking: Labels, labels: Labels, k: int) -> float:
    """R-precision@k: precision at min(k, number of true labels).

    Parameters
    ----------
    ranking
        Numbers of the predicted labels, best first, at most once each.
    labels
        Numbers of the true labels, in any order.
    k
        How many predictions count, at least 1.

    Returns
    -------
    float
        The metric of this row.

    Examples
    --------
    >>> r_precision([4, 0, 2], [0, 2], 3)
    0.5
    """
    return precision(ranking, labels, min(k, len(labels))) if len(labels) else 0.0


def reciprocal_rank(ranking: Labels, labels: Labels, k: int) -> float:
    """MRR@k: 1 / rank of the first hit within the first k, 0 without one.

    Parameters
    ----------
    ranking
        Numbers of the predicted labels, best first, at most once each.
    labels
        Numbers of the true labels, in any order.
    k
        How many predictions count, at least 1.

    Returns
    -------
    float
        The metric of this row.

    Examples
    --------
    >>> reciprocal_rank([4, 0, 2], [0, 2], 3)
    0.5
    """
    places = np.flatnonzero(_is_right(ranking, labels, k))
    return float(1 / (1 + places[0])) if places.size else 0.0


def kendall_tau(ranking: Labels, labels: Labels, k: int) -> float:
    """Kendall-tau: pairs of a wrong label ranked above a right one; a loss.

    Labels outside the first k are tied behind them.

    Parameters
    ----------
    ranking
        Numbers of the predicted labels, best first, at most once each.
    labels
        Numbers of the true labels, in any order.
    k
        How many predictions count, at least 1.

    Returns
    -------
    float
        The metric of this row.

    Examples
    --------
    >>> kendall_tau([4, 0, 2], [0, 7], 3)  # 4 above 0; 4 and 2 above 7
    3.0
    """
    is_right = _is_right(ranking, labels, k)
    wrong_above = np.cumsum(~is_right)
    unlisted = len(labels) - is_right.sum()
    return float(wrong_above[is_right].sum() + unlisted * (~is_right).sum())


def _is_right(ranking: Labels, labels: Labels, k: int) -> Bools:
    """Which of the first k predictions are true labels."""
    return np.isin(np.asarray(ranking[:k], np.int64), np.asarray(labels, np.int64))


def _set_reference(name: str, score: Callable[[int, int, int], float], formula: str) -> Reference:
    """The definition of a metric of sets, from the numbers of hits, predictions and labels."""

    def of_row(ranking: Labels, labels: Labels, k: int) -> float:
        is_right = _is_right(ranking, labels, k)
        return score(int(is_right.sum()), is_right.size, len(labels))

    of_row.__doc__ = f"""{formula} of the first k predictions as a set P, N being the true labels.

    Parameters
    ----------
    ranking
        Numbers of the predicted labels, at most once each.
    labels
        Numbers of the true labels, in any order.
    k
        How many predictions count, at least 1.

    Returns
    -------
    float
        The metric of this row; 0 where it would divide by 0.

    Examples
    --------
    Two of three predictions are among four true labels:

    >>> from unmask.metrics import reference
    >>> round(reference.{name}([4, 0, 2], [0, 2, 7, 9], 3), 4)
    {round(of_row([4, 0, 2], [0, 2, 7, 9], 3), 4)}
    """
    return of_row


set_precision = _set_reference(
    "set_precision", lambda h, size, n: h / max(size, 1), "sample-P: hits / |P|"
)
set_recall = _set_reference("set_recall", lambda h, size, n: h / max(n, 1), "sample-R: hits / N")
set_f1 = _set_reference(
    "set_f1", lambda h, size, n: 2 * h / max(size + n, 1), "sample-F1: 2 hits / (|P| + N)"
)
set_f05 = _set_reference(
    "set_f05", lambda h, size, n: 5 * h / max(4 * size + n, 1), "sample-F0.5: 5 hits / (4|P| + N)"
)
set_f2 = _set_reference(
    "set_f2", lambda h, size, n: 5 * h / max(size + 4 * n, 1), "sample-F2: 5 hits / (|P| + 4N)"
)
set_jaccard = _set_reference(
    "set_jaccard",
    lambda h, size, n: h / max(size + n - h, 1),
    "sample-Jaccard: hits / (|P| + N − hits)",
)
subset_accuracy = _set_reference(
    "subset_accuracy",
    lambda h, size, n: float(h == size == n),
    "subset-accuracy: 1 if P are the true labels",
)
