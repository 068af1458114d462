"""Scorers for model selection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.helpers.evaluations import one
from unmask.metrics import (
    make_scorer,
)
from unmask.predictions import TopK


class Scored:
    """A model with some of the methods that scorers look for."""

    def __init__(self, **methods: Callable[..., Any]) -> None:
        vars(self).update(methods)


def test_scorers_take_the_first_method_that_answers() -> None:
    scores = np.random.default_rng(0).random((6, 4))
    labels = (scores[::-1] > 0.6).astype(int)
    asked: list[int] = []

    def predict_top(features: Any, k: int) -> TopK:
        asked.append(k)
        return TopK.from_scores(scores, k)

    def wrong(features: Any) -> Any:
        raise AssertionError

    full = Scored(predict_top=predict_top, decision_function=wrong, predict_proba=wrong)
    plain = Scored(decision_function=lambda _: scores, predict_proba=wrong)
    last = Scored(predict_proba=lambda _: scores)
    expected = one(scores, labels, None, "R@2", "vanilla").value
    assert all(make_scorer("R@2", "vanilla")(m, None, labels) == expected
               for m in (full, plain, last))  # fmt: skip
    assert asked == [2]
    listing = Scored(predict_top=wrong, decision_function=lambda _: scores)
    loss = one(scores, labels, None, "Kendall-tau", "vanilla").value
    assert loss > 0
    assert make_scorer("Kendall-tau", "vanilla")(listing, None, labels) == -loss


def test_scorers_refuse_before_any_model_is_fitted() -> None:
    for metric, estimator in (("P@1", "unbaised"), ("P@1", "bound"), ("PSP@1", "vanilla")):
        with pytest.raises(ValueError, match=f"unknown estimator '{estimator}'; use one of"):
            make_scorer(metric, estimator)
    with pytest.raises(ValueError, match="needs a cut-off"):
        make_scorer("P", "vanilla")
