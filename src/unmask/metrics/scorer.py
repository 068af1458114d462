"""A scorer for scikit-learn's model selection: choose by what the labels would say if complete."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import ArrayLike

from unmask._messages import named_options
from unmask._typing import PropensityLike
from unmask.arrays import checks
from unmask.metrics.evaluation import table_of
from unmask.metrics.registry import METRICS, split, supported
from unmask.metrics.request import Request

Scorer = Callable[[Any, Any, Any], float]


@named_options
def make_scorer(
    metric: str,
    estimator: str,
    propensity: PropensityLike | None = None,
    *,
    seed: int = 0,
    tau: float | str = "auto",
    clip: float = 10.0,
    fraction: float = 0.01,
    information: ArrayLike | None = None,
) -> Scorer:
    """Make a `score(model, X, labels)` for GridSearchCV and the like: larger is better.

    Parameters
    ----------
    metric : str
        Such as "R@5". A loss (Kendall-tau) is negated.
    estimator : str
        One that can estimate the metric.
    propensity : (L,) floats in (0, 1], optional
        As in `evaluate`.
    seed, tau, clip, fraction, information
        As in `Evaluator`.

    Returns
    -------
    function of (model, features, labels)
        The model's scores come from `predict_top`, `decision_function` or `predict_proba`,
        whichever it has first.

    Raises
    ------
    ValueError
        If the estimator cannot estimate the metric.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.multiclass import OneVsRestClassifier
    >>> features, labels = [[0.0], [1.0], [2.0], [3.0]], [[1, 0], [1, 0], [0, 1], [0, 1]]
    >>> model = OneVsRestClassifier(LogisticRegression()).fit(features, labels)
    >>> make_scorer("P@1", "vanilla")(model, features, labels)
    1.0
    """
    name, k = split(metric)
    checks.one_of(estimator, supported(name), "estimator")
    request = Request(
        [metric], [estimator], seed=seed, tau=tau, clip=clip, fraction=fraction,
        information=information,
    ).checked(propensity)  # fmt: skip
    sign = 1.0 if METRICS[name].higher_is_better else -1.0

    def score(model: Any, features: Any, labels: Any) -> float:
        table = table_of(request, _predictions(model, features, k), labels, propensity)
        return sign * table[metric, estimator].value

    return score


def _predictions(model: Any, features: Any, k: int | None) -> Any:
    if hasattr(model, "predict_top") and k is not None:
        return model.predict_top(features, k)
    if hasattr(model, "decision_function"):
        return model.decision_function(features)
    return model.predict_proba(features)
