"""Options without a meaning are refused by every public function that has them."""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Iterator
from dataclasses import is_dataclass
from enum import Enum
from functools import partial
from typing import Any

import pytest

import unmask
import unmask.torch
from tests.helpers.public_calls import CALLS, GIVEN
from unmask import TopK, audit, data, linear, thresholds, tuning

INPUTS = {**GIVEN, "top": TopK.from_scores(GIVEN["scores"], 5)}
FREE = {
    ("propensity.from_counts", "method"),  # a name for the report
    ("missing.rehearse", "share"), ("tuning.tune", "metric"), ("tuning.tune_tree", "metric"),
    ("operator.unbiased", "seed"), ("tree.predict_unseen", "seed"),
    ("metrics.compare", "replicates"), ("propensity.snapshots", "curve"),
}  # fmt: skip
"""Free text; given by the call itself; or not needed for such data."""


def options() -> Iterator[tuple[str, str, object]]:
    """Functions, their options with a word or a number as default, and what these cannot be."""
    for name in CALLS:
        room, _, function = name.partition(".")
        made = getattr(importlib.import_module(f"unmask.{room}"), function)
        for each in inspect.signature(made).parameters.values():
            if each.default is each.empty or (name, each.name) in FREE:
                continue
            if isinstance(each.default, str):
                yield name, each.name, "no such thing"
            elif isinstance(each.default, int | float) and not isinstance(each.default, bool):
                yield name, each.name, math.nan
            if each.name in ("confidence", "alpha"):
                yield name, each.name, 1.5


@pytest.mark.parametrize(("name", "option", "wrong"), list(options()))
def test_options_without_meaning_are_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, option: str, wrong: object
) -> None:
    room, _, function = name.partition(".")
    module = importlib.import_module(f"unmask.{room}")
    given: Any = partial(getattr(module, function), **{option: wrong})
    monkeypatch.setattr(module, function, given)
    with pytest.raises((ValueError, TypeError)):
        CALLS[name](INPUTS)


ROOMS = (
    "audit", "data", "diagnosis", "linear", "losses", "metrics", "missing", "predictions",
    "propensity", "thresholds", "torch", "tree", "tuning", "weights",
)  # fmt: skip
ARRAYS = {"propensity.Propensity"}
"""Classes whose constructor is numpy's."""


def public_callables() -> Iterator[tuple[str, Any]]:
    """Functions of all rooms, and classes that are not mere records."""
    for room in ROOMS:
        module = importlib.import_module(f"unmask.{room}")
        for name in module.__all__:
            made = getattr(module, name)
            own = inspect.isfunction(made) or (
                inspect.isclass(made)
                and "__init__" in vars(made)
                and not is_dataclass(made)
                and not issubclass(made, Enum | tuple)
            )
            if own and not getattr(made, "_is_protocol", False) and f"{room}.{name}" not in ARRAYS:
                yield f"{room}.{name}", made


def test_misspelt_options_are_refused_with_the_nearest_name() -> None:
    tried = 0
    for name, made in public_callables():
        for each in inspect.signature(made).parameters.values():
            assert each.kind is not each.VAR_KEYWORD, f"{name} swallows **{each.name}"
            if each.default is each.empty or name == "losses.warn_if_unbounded":
                continue
            wrong = each.name[0] + each.name[2:] if len(each.name) > 4 else f"{each.name}x"
            with pytest.raises(TypeError) as refused:
                made(**{wrong: 1})
            assert f"no option {wrong!r}; did you mean" in str(refused.value), name
            assert f"{each.name!r}?" in str(refused.value), name
            tried += 1
    assert tried > 300


def test_options_without_effect_are_refused() -> None:
    y, p, scores, x = (GIVEN[each] for each in ("labels", "p", "scores", "features"))
    top = TopK.from_scores(scores, 5)
    judged = audit.from_rows(plan := audit.plan(top, y, budget=20), y[plan.rows])

    def planned(**options: Any) -> Any:
        return audit.plan(top, y, budget=20, **options)

    cases: list[tuple[Any, str]] = [
        (lambda: planned(head=3), "head has no effect on the simple design, only on two-phase"),
        (lambda: planned(observed="sampled"), "observed has no effect on the simple design"),
        (lambda: planned(design="stratified", tail=0.5), "tail has no effect on the stratified"),
        (
            lambda: planned(unit="pairs", metrics=["P@5"], strata=2),
            "strata has no effect on",
        ),
        (
            lambda: unmask.diagnose(y, p, scores=scores),
            "scores of audited rows came",
        ),
        (
            lambda: unmask.diagnose(y, p, covariates={"year": [1] * y.shape[0]}),
            "covariates of",
        ),
        (lambda: data.read([["law"], ["art"]], delimiter=";"), "a list of names is no table"),
        (lambda: data.read({"labels": ["law", "art"]}, part="test"), "no file, so that part"),
        (lambda: thresholds.fit(scores, y, p, cost=(3, 1)), "cost has no effect on micro-F1"),
        (lambda: thresholds.fit(scores, y, p, least=3), "least has no effect on one threshold"),
        (lambda: tuning.tune(x, y, tau=[0.3]), "tau has no effect without propensities"),
        (lambda: tuning.tune(x, y, rank_by=["score"]), "rank_by has no effect without prop"),
        (lambda: unmask.torch.MissingLabelLoss(p, tau=0.3), "tau has no effect on unbiased"),
        (
            lambda: audit.sequence(top, y, judged, "R@5", planned=-3),
            "planned must be a whole",
        ),
    ]
    for call, message in cases:
        with pytest.raises(ValueError, match=message):
            call()
    planned(design="stratified", strata=2)
    planned(unit="pairs", metrics=["R@5"], head=2, tail=0.5, observed="sampled")
    assert thresholds.fit(scores, y, p, per="label", least=3).values.shape == (y.shape[1],)
    assert linear.train(x, y, propensity=p)[0].n_labels == y.shape[1]
