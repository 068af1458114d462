"""A scorer for scikit-learn's model selection: choose by what the labels would say if complete."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

from unmask import _validation
from unmask._typing import PropensityLike
from unmask.metrics.evaluation import evaluate
from unmask.metrics.options import EvaluatorOptions
from unmask.metrics.registry import METRICS, split, supported

Scorer = Callable[[Any, Any, Any], float]


def make_scorer(
    metric: str,
    estimator: str,
    propensity: PropensityLike | None = None,
    **options: Unpack[EvaluatorOptions],
) -> Scorer:
    """`score(model, X, labels)` for GridSearchCV and the like: larger is better.

    Parameters
    ----------
    metric : str
        Such as "R@5". A loss (Kendall-tau) is negated.
    estimator : str
        One that can estimate the metric.
    propensity : (L,) floats in (0, 1], optional
        As in `evaluate`.
    **options : EvaluatorOptions
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
    _validation.one_of(estimator, supported(name), "estimator")
    sign = 1.0 if METRICS[name].higher_is_better else -1.0

    def score(model: Any, features: Any, labels: Any) -> float:
        table = evaluate(
            _predictions(model, features, k), labels, propensity,
            metrics=[metric], estimators=[estimator], **options,
        )  # fmt: skip
        return sign * table[metric, estimator].value

    return score


def _predictions(model: Any, features: Any, k: int | None) -> Any:
    if hasattr(model, "predict_top") and k is not None:
        return model.predict_top(features, k)
    if hasattr(model, "decision_function"):
        return model.decision_function(features)
    return model.predict_proba(features)
