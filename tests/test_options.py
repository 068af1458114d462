"""Options without a meaning are refused by every public function that has them."""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.helpers.public_calls import CALLS, GIVEN
from unmask import TopK

INPUTS = {**GIVEN, "top": TopK.from_scores(GIVEN["scores"], 5)}
FREE = {
    ("propensity.from_counts", "method"),  # a name for the report
    ("missing.rehearse", "share"), ("tuning.tune", "metric"), ("tuning.tune_tree", "metric"),
    ("operator.unbiased", "seed"), ("tree.predict_unseen", "seed"),
    ("metrics.compare", "replicates"),
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
