"""Which metrics there are, which estimators, and which estimates which.

A metric is written `name@k`; `R-precision`, `MRR` and `Kendall-tau` without `@k` use the whole
list of predictions. Y* are the true labels, N = |Y*|, q = 1/p, and a row without labels
contributes 0 to every metric (it counts in the mean), unless the metric counts wrong pairs or asks
whether a row is right altogether. A row with fewer than k predictions is scored as if its empty
places held wrong labels: P@k still divides by k.

Metrics *of sets* (`sample-…`, `micro-…`, `macro-…`, `weighted-…`, `Hamming`, `subset-accuracy`)
read a list as the set P of its labels, whatever its length and order: all of it, or with `@k` the
first k. A list that is shorter is a smaller set, so sample-P@k divides by the predictions that
there are. Micro metrics divide sums over all rows; with propensities both sums are unbiased, and
their ratio is to first order.

Metrics *of scores* need a score (or probability) for every label of every row.

Most estimators are one formula read with different inverse propensities (a *view*): all 1 for
`vanilla`, 1/p for `unbiased`, something between for `tempered` and `clipped`. A metric therefore
names one compiled form for all of these, and separate forms only where the formula differs. Its
`kernels` fill those forms: to add a metric of rows, write one kernel (`unmask._kernels.block` says
what it is given) and one row of `METRICS`. `reference` is the same in plain NumPy, for one row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from unmask._kernels import ranking, scored, sets
from unmask._kernels.block import Kernel, Need
from unmask._messages import named_options
from unmask.arrays import checks
from unmask.metrics import reference
from unmask.metrics.reference import Reference

MICRO = ("micro-P", "micro-R", "micro-F1")
"""Ratios of sums over pairs that an audit measures."""
LINEAR = frozenset({"P", "DCG", *MICRO})
"""Metrics that add up pairs (or divide such sums): judged pairs anywhere measure them."""
OF_PREDICTED = frozenset({"P", "DCG", "hit", "MRR", "sample-P", "micro-P", "macro-P", "one-error"})
"""Metrics that do not change where a row has one more relevant label that nobody predicts."""
GAMMAS = (1.5, 2.0)
"""Factors by which propensities are taken to be off. On six real pairs of incomplete and complete
labels Jain's formula was off by at most 1.5 times in four, by at most 2 in five (mean p)."""
VIEWS = ("vanilla", "unbiased", "tempered", "clipped", "filtered")


@dataclass(frozen=True)
class Metric:
    """Definition of a metric, and how it can be estimated.

    Parameters
    ----------
    meaning
        The definition in words.
    form
        Name of the formula that every view shares.
    forms
        Estimator → name of its formula, for estimators that are no views.
    views
        Estimators that read `form` with different inverse propensities.
    over
        "rows": a mean over rows; "ratio": of two such means; "labels": a mean over labels, from
        counts per label; "scores": a function of the scores of all rows, to which every row adds
        (`scored`), which must therefore be kept.
    reads
        "list": the predictions of a row, a ranking or a set; "scores": those of every label, or
        "probabilities".
    kernels
        What fills the forms of a metric over rows, or of a ratio.
    below
        Of a ratio that views read: the form of its denominator.
    reference
        The definition for one row in plain NumPy; `None` unless over "rows".
    at_most
        The largest value that the truth can take; `None`: it has no limit.
    deconvolved
        Whether the estimator of that name knows the metric.
    whole_list
        Whether the name may come without `@k`.
    of_sets
        Whether predictions are read as a set, of as many labels as there are.
    adds_up
        Whether it adds up pairs, or divides such sums: then it does not matter to a correction
        which labels of a row go missing together.
    higher_is_better
        False for a loss.
    labels_alike
        Whether it is a mean over labels in which rare ones count as much as frequent ones.
    """

    meaning: str
    form: str
    forms: dict[str, str] = field(default_factory=dict)
    views: tuple[str, ...] = VIEWS
    over: Literal["rows", "ratio", "labels", "scores"] = "rows"
    reads: Literal["list", "scores", "probabilities"] = "list"
    kernels: tuple[Kernel, ...] = ()
    below: str = ""
    reference: Reference | None = None
    at_most: float | None = 1.0
    deconvolved: bool = False
    whole_list: bool = False
    of_sets: bool = False
    adds_up: bool = False
    higher_is_better: bool = True
    labels_alike: bool = False

    @property
    def estimators(self) -> tuple[str, ...]:
        """The estimators that this metric supports."""
        return (*self.views, *self.forms, *(("deconvolved",) if self.deconvolved else ()))


@dataclass(frozen=True)
class Estimator:
    """Meaning of an estimator, and the caution that its verdict carries (empty: unbiased)."""

    meaning: str
    caution: str = ""


@cache
def split(name: str) -> tuple[str, int | None]:
    """A metric's name and its k (None: the whole list).

    >>> split("R@5"), split("MRR")
    (('R', 5), ('MRR', None))
    >>> split("P@0")
    Traceback (most recent call last):
    ValueError: 'P@0' is not a metric; write a name and a k of at least 1, like 'R@5'.
    """
    metric, separator, k = name.partition("@")
    checks.one_of(metric, METRICS, "metric")
    if separator and METRICS[metric].reads != "list":
        raise ValueError(f"{metric} reads the scores of all labels; ask for it without @{k}.")
    if separator and not (k.isascii() and k.isdigit() and k[0] != "0"):
        raise ValueError(
            f"{name!r} is not a metric; write a name and a k of at least 1, like 'R@5'."
        )
    if not separator and not METRICS[metric].whole_list:
        raise ValueError(f"{name!r} needs a cut-off; write for example '{name}@5'.")
    return metric, int(k) if separator else None


def split_measured(name: str) -> tuple[str, int | None]:
    """As `split`, for metrics that an audit measures: those over rows, and micro metrics.

    >>> split_measured("micro-R@5"), split_measured("R@5")
    (('micro-R', 5), ('R', 5))
    >>> split_measured("PSP@5")
    Traceback (most recent call last):
    ValueError: PSP@5 is not measured by an audit; use metrics over rows, or: micro-F1, micro-P,
    micro-R.
    """
    metric, cut_off = split(name)
    if METRICS[metric].over != "rows" and metric not in MICRO:
        raise ValueError(
            f"{name} is not measured by an audit; use metrics over rows, or: "
            f"{', '.join(sorted(MICRO))}."
        )
    return metric, cut_off


@named_options
def supported(metric: str) -> tuple[str, ...]:
    """The estimators that can estimate a metric.

    Parameters
    ----------
    metric : str
        A name in `METRICS`, without @k.

    Returns
    -------
    tuple of str
        Names in `ESTIMATORS`.

    Raises
    ------
    ValueError
        If there is no such metric.

    Examples
    --------
    >>> supported("PSP")
    ('normalized',)
    >>> supported("macro-R")
    ('vanilla',)
    """
    return METRICS[checks.one_of(metric, METRICS, "metric")].estimators


_PRECISION = Kernel(("precision",), ranking.precision)
_DCG = Kernel(("dcg",), ranking.discounted)
_SETS = Kernel(
    ("recall", "f1", "jaccard"), ranking.sets, vanilla=ranking.observed_sets,
    needs=("rest", "quadrature"),
)  # fmt: skip
_BY_SIZE = Kernel(
    ("ndcg", "r_precision"), ranking.by_size, vanilla=ranking.observed_by_size,
    needs=("rest", "ideal"),
)  # fmt: skip
_BOUNDS = Kernel(
    ("recall_bound", "f1_bound", "jaccard_bound", "ndcg_bound"), ranking.bounds, needs=("rest",)
)
_SELF = Kernel(("recall_self", "f1_self"), ranking.self_normalized, needs=("rest",))
_SUBSAMPLED = Kernel(("recall_subsampled",), ranking.recall, needs=("quadrature",))
_SET_MEANS = Kernel(
    ("set_precision", "set_recall", "set_f1", "set_jaccard"), sets.means,
    vanilla=sets.observed_means, needs=("rest", "set quadrature"),
)  # fmt: skip
_SET_F = Kernel(
    ("set_f05", "set_f2"), sets.weighted_f, vanilla=sets.observed_weighted_f,
    needs=("rest", "long quadrature"),
)  # fmt: skip
_SCORED = Kernel(
    ("row_average_precision", "row_average_precision_or_empty", "coverage_error"),
    scored.rankings, needs=("quadrature", "scores"),
)  # fmt: skip
_SCORED_PAIRS = Kernel(("one_error", "brier", "log_loss"), scored.pairs, needs=("scores",))
_EQUAL = Kernel(("subset_accuracy",), sets.equal, needs=("every rest",))
_TOTALS = Kernel(
    ("hits", "predicted", "positives", "half_both", "f05_below", "f2_below", "union", "wrong",
     "all_labels"),
    sets.totals, needs=("every rest",),
)  # fmt: skip
BOTH = ("vanilla", "unbiased")


def _best(form: str, function: Callable[..., None], *needs: Need) -> Kernel:
    """The best that a row could reach, from its largest 1/p."""
    return Kernel((form,), function, needs=("largest", *needs))


def _normalized(meaning: str, form: str, best: str, *kernels: Kernel) -> Metric:
    """A ratio to the best value on the observed labels."""
    return Metric(meaning, form, {"normalized": best}, views=(), over="ratio", kernels=kernels)


def _of_rows(
    meaning: str, form: str, kernel: Kernel, definition: Reference, *, adds_up: bool = False
) -> Metric:
    """A mean over rows of a metric of sets."""
    return Metric(
        meaning, form, kernels=(kernel,), reference=definition, whole_list=True, of_sets=True,
        adds_up=adds_up, deconvolved=kernel is not _EQUAL,
    )  # fmt: skip


def _micro(meaning: str, below: str) -> Metric:
    """Σ hits over another sum, both over all rows."""
    return Metric(
        f"{meaning}, each summed over all rows", "hits", views=BOTH, over="ratio",
        kernels=(_TOTALS,), below=below, whole_list=True, of_sets=True, adds_up=True,
    )  # fmt: skip


def _scored_rows(
    meaning: str, form: str, kernel: Kernel = _SCORED, *, loss: bool = False,
    adds_up: bool = False, reads: Literal["scores", "probabilities"] = "scores",
    at_most: float | None = 1.0,
) -> Metric:  # fmt: skip
    """A mean over rows, from the scores of every label."""
    return Metric(
        meaning, form, kernels=(kernel,), reads=reads, whole_list=True, adds_up=adds_up,
        higher_is_better=not loss, at_most=at_most,
    )  # fmt: skip


def _of_scores(
    meaning: str, form: str, *, labels_alike: bool = False, loss: bool = False,
    reads: Literal["scores", "probabilities"] = "scores", at_most: float | None = 1.0,
) -> Metric:  # fmt: skip
    """A function of the scores of all rows."""
    return Metric(
        meaning, form, views=BOTH, over="scores", reads=reads, whole_list=True, adds_up=True,
        labels_alike=labels_alike, higher_is_better=not loss, at_most=at_most,
    )  # fmt: skip


def _macro(meaning: str, form: str, *views: str, labels_alike: bool = True) -> Metric:
    """A mean over labels, from their counts, in which they count alike or are weighted."""
    return Metric(
        meaning, form, views=views, over="labels", whole_list=True, of_sets=True, adds_up=True,
        labels_alike=labels_alike,
    )  # fmt: skip


def _weighted(name: str, form: str) -> Metric:
    """A macro metric with weights of labels."""
    meaning = f"{name} with labels weighted by how many rows have them"
    return _macro(meaning, form, *BOTH, labels_alike=False)


METRICS: dict[str, Metric] = {
    "P": Metric(
        "hits among the first k, divided by k", "precision", kernels=(_PRECISION,),
        reference=reference.precision, deconvolved=True, adds_up=True,
    ),
    "R": Metric(
        "hits among the first k, divided by N", "recall",
        {"bound": "recall_bound", "self_normalized": "recall_self",
         "subsampled": "recall_subsampled"},
        kernels=(_SETS, _BOUNDS, _SELF, _SUBSAMPLED), reference=reference.recall,
        deconvolved=True,
    ),
    "F1": Metric(
        "2 · hits / (k + N), the harmonic mean of P@k and R@k", "f1",
        {"bound": "f1_bound", "self_normalized": "f1_self"},
        kernels=(_SETS, _BOUNDS, _SELF), reference=reference.f1, deconvolved=True,
    ),
    "Jaccard": Metric(
        "hits / (k + N − hits)", "jaccard", {"bound": "jaccard_bound"},
        kernels=(_SETS, _BOUNDS), reference=reference.jaccard, deconvolved=True,
    ),
    "hit": Metric(
        "1 if any of the first k is right (1 − abandonment)", "hit",
        kernels=(Kernel(("hit",), ranking.any_hit),), reference=reference.hit, deconvolved=True,
    ),
    "DCG": Metric(
        "Σ over hits of 1 / log2(1 + rank)", "dcg", kernels=(_DCG,), reference=reference.dcg,
        at_most=None, adds_up=True,
    ),
    "nDCG": Metric(
        "DCG@k divided by its best value, Σ over ranks up to min(k, N)", "ndcg",
        {"bound": "ndcg_bound"}, kernels=(_BY_SIZE, _BOUNDS), reference=reference.ndcg,
        deconvolved=True,
    ),
    "R-precision": Metric(
        "hits among the first min(k, N), divided by min(k, N)", "r_precision",
        kernels=(_BY_SIZE,), reference=reference.r_precision, deconvolved=True, whole_list=True,
    ),
    "MRR": Metric(
        "1 / rank of the first hit within the first k", "mrr",
        kernels=(Kernel(("mrr",), ranking.reciprocal_rank),), reference=reference.reciprocal_rank,
        whole_list=True,
    ),
    "Kendall-tau": Metric(
        "pairs of a wrong label ranked above a right one (a loss); labels outside the list are "
        "tied behind it", "kendall",
        kernels=(Kernel(("kendall",), ranking.misordered, needs=("every rest",)),),
        reference=reference.kendall_tau, at_most=None, whole_list=True, higher_is_better=False,
    ),
    "PSP": _normalized(
        "unbiased P@k divided by its best value on the observed labels (Jain et al. 2016)",
        "precision", "best_precision", _PRECISION, _best("best_precision", ranking.precision),
    ),
    "PSDCG": _normalized(
        "unbiased DCG@k divided by its best value on the observed labels",
        "dcg", "best_dcg", _DCG, _best("best_dcg", ranking.discounted),
    ),
    "PSnDCG": _normalized(
        "Σ over hits of q / log2(1 + rank) / IDCG(min(k, observed)), divided by its best value",
        "observed_ndcg", "best_ndcg",
        Kernel(("observed_ndcg",), ranking.observed_ndcg, needs=("ideal",)),
        _best("best_ndcg", ranking.observed_ndcg, "ideal"),
    ),
    "sample-P": _of_rows(
        "hits / predictions, mean over rows", "set_precision", _SET_MEANS, reference.set_precision,
        adds_up=True,
    ),
    "sample-R": _of_rows(
        "hits / N, mean over rows", "set_recall", _SET_MEANS, reference.set_recall
    ),
    "sample-F1": _of_rows(
        "2 · hits / (predictions + N), mean over rows", "set_f1", _SET_MEANS, reference.set_f1
    ),
    "sample-F0.5": _of_rows(
        "1.25 · hits / (predictions + N/4), mean over rows", "set_f05", _SET_F, reference.set_f05
    ),
    "sample-F2": _of_rows(
        "5 · hits / (predictions + 4N), mean over rows", "set_f2", _SET_F, reference.set_f2
    ),
    "sample-Jaccard": _of_rows(
        "hits / (predictions + N − hits), mean over rows", "set_jaccard", _SET_MEANS,
        reference.set_jaccard,
    ),
    "subset-accuracy": _of_rows(
        "share of rows whose predictions are the true labels, all of them", "subset_accuracy",
        _EQUAL, reference.subset_accuracy,
    ),
    "Hamming": Metric(
        "share of pairs of a row and a label that are wrong: predictions + N − 2 · hits, over all "
        "labels (a loss)", "wrong", views=BOTH, over="ratio", kernels=(_TOTALS,),
        below="all_labels", whole_list=True, of_sets=True, adds_up=True, higher_is_better=False,
    ),
    "micro-P": _micro("hits / predictions", "predicted"),
    "micro-R": _micro("hits / N", "positives"),
    "micro-F1": _micro("2 · hits / (predictions + N)", "half_both"),
    "micro-F0.5": _micro("1.25 · hits / (predictions + N/4)", "f05_below"),
    "micro-F2": _micro("5 · hits / (predictions + 4N)", "f2_below"),
    "micro-Jaccard": _micro("hits / (predictions + N − hits)", "union"),
    "macro-P": _macro(
        "per label: hits / times predicted; mean over labels that are predicted", "precision",
        *BOTH,
    ),
    "macro-R": _macro(
        "per label: hits / times right; mean over labels that are observed (propensities cancel "
        "where masks do not depend on the score)", "recall", "vanilla",
    ),
    "macro-F1": _macro(
        "per label: 2 · hits / (times predicted + times right); mean over labels that are "
        "predicted or observed", "f1", *BOTH,
    ),
    "macro-F0.5": _macro(
        "per label: 1.25 · hits / (times predicted + times right / 4); mean as of macro-F1", "f05",
        *BOTH,
    ),
    "macro-F2": _macro(
        "per label: 5 · hits / (times predicted + 4 · times right); mean as of macro-F1", "f2",
        *BOTH,
    ),
    "macro-Jaccard": _macro(
        "per label: hits / (times predicted + times right − hits); mean as of macro-F1", "jaccard",
        *BOTH,
    ),
    "weighted-P": _weighted("macro-P", "weighted_precision"),
    "weighted-R": _micro("macro-R with labels weighted by how many rows have them: hits / N",
                         "positives"),
    "weighted-F1": _weighted("macro-F1", "weighted_f1"),
    "weighted-F0.5": _weighted("macro-F0.5", "weighted_f05"),
    "weighted-F2": _weighted("macro-F2", "weighted_f2"),
    "weighted-Jaccard": _weighted("macro-Jaccard", "weighted_jaccard"),
    "coverage": _macro("share of labels that are hit at least once", "coverage", "vanilla"),
    "mAP": _of_scores(
        "per label: mean over its rows of the precision down to that row, rows ranked by score "
        "(average precision); mean over labels that were observed", "average_precision",
        labels_alike=True,
    ),
    "macro-AUC": _of_scores(
        "per label: chance that a row with it has a higher score than one without (ties count "
        "half); mean over labels that were observed", "auc", labels_alike=True,
    ),
    "Fmax": _of_scores(
        "the largest F1, over thresholds, of mean precision (of rows with predictions) and mean "
        "recall", "f_max",
    ),
    "Smin": _of_scores(
        "the smallest √(ru² + mi²) over thresholds: ru and mi are the mean information "
        "content of missed and of wrongly predicted labels (a loss; CAFA's)", "s_min",
        at_most=None, loss=True,
    ),
    "ECE": _of_scores(
        "mean over pairs of the difference between predicted probability and share of true "
        "labels, in ten bins (a loss; never below what chance makes)", "calibration",
        reads="probabilities", loss=True,
    ),
    "sample-AP": _scored_rows(
        "per row: mean over its true labels of the share of true ones among labels of at least "
        "their score (average precision)", "row_average_precision",
    ),
    "LRAP": _scored_rows(
        "sample-AP, with 1 for a row without true labels (label ranking average precision)",
        "row_average_precision_or_empty",
    ),
    "coverage-error": _scored_rows(
        "how far down the ranking the last true label of a row stands (a loss)",
        "coverage_error", loss=True, at_most=None,
    ),
    "one-error": _scored_rows(
        "share of rows whose best label is wrong (a loss)", "one_error", _SCORED_PAIRS,
        loss=True, adds_up=True,
    ),
    "Brier": _scored_rows(
        "mean over labels of (probability − truth)² (a loss)", "brier", _SCORED_PAIRS,
        loss=True, adds_up=True, reads="probabilities",
    ),
    "log-loss": _scored_rows(
        "mean over labels of −ln of the probability given to the truth (a loss)", "log_loss",
        _SCORED_PAIRS, loss=True, adds_up=True, reads="probabilities", at_most=None,
    ),
}  # fmt: skip

ESTIMATORS: dict[str, Estimator] = {
    "vanilla": Estimator(
        "treats the observed labels as all the true ones", "measures the observed labels only"
    ),
    "unbiased": Estimator("right on average over which labels went missing; can be very noisy"),
    "bound": Estimator(
        "at least the truth on average, if no propensity is too high",
        "an upper bound, if no propensity is too high",
    ),
    "deconvolved": Estimator("fits how many labels rows truly have, from the whole data set"),
    "tempered": Estimator(
        "1/p replaced by 1 + τ(1/p − 1): less noise for some bias", "biased towards vanilla"
    ),
    "clipped": Estimator("1/p limited to a largest value", "biased towards vanilla"),
    "self_normalized": Estimator(
        "Σ q over hits divided by Σ q over observed labels, row by row",
        "biased in rows with few labels",
    ),
    "filtered": Estimator(
        "unbiased, without the rows of lowest and highest value", "biased by the rows left out"
    ),
    "subsampled": Estimator(
        "unbiased, with rows of many labels thinned at random first (a slower, noisier baseline)"
    ),
    "normalized": Estimator(
        "the literature's score: weighted hits over the best weighted hits possible",
        "a score relative to the observed labels, not an estimate of the true metric",
    ),
}  # fmt: skip

UNCONDITIONAL = frozenset({"vanilla", "normalized", "measured"})
"""Estimators whose numbers do not rest on the propensities as a claim about the truth."""
