"""Values, slopes, curvatures and descriptions of every loss, as stored beside this test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.helpers import golden
from unmask import losses, weights
from unmask.losses import LOSSES, RELATED_WORK, Loss

SCORES = np.array([-40.0, -3.0, -1.0, -0.4, 0.0, 0.3, 1.0, 2.5, 30.0])
POS, CUT = np.array([0.0, 0.5, 1.0, 3.0, -1.0, 2.0]), np.array([0.0, 0.5, 0.4, 3.0, 0.2, 1.0])
LABELS = np.array([[1, 0, 1, 0, 1], [0, 0, 0, 0, 0], [0, 1, 0, 0, 0], [1, 1, 1, 1, 1]])
P = np.array([0.9, 0.5, 0.25, 0.8, 0.4])
TABLE = np.random.default_rng(3).normal(0, 1.5, LABELS.shape).round(2)

OPTIONS: dict[str, list[dict[str, Any]]] = {
    "asymmetric": [{}, {"gamma_positive": 1.0, "gamma_negative": 2.0, "clip": 0.2}, {"clip": 0.0}],
    "hill": [{}, {"lam": 1.2, "margin": 0.5, "gamma": 1.0}],
    "self_paced": [{"epoch": 0}, {"epoch": 1}, {"epoch": 2}, {"epoch": 5, "tau": 0.3}],
    "label_smoothing": [{}, {"epsilon": 0.2}],
    "large_loss_rejection": [{"epoch": 1}, {"epoch": 3}, {"epoch": 40, "percent": 30.0}],
    "observed_likelihood": [{"propensity": [0.9, 0.5, 0.25, 0.8, 0.4]}],
    "class_conditional": [
        {"flip_positive": [0.1, 0.5, 0.75, 0.2, 0.6]},
        {"flip_positive": 0.2, "flip_negative": 0.1},
    ],
}


def variants() -> Iterator[tuple[str, dict[str, Any]]]:
    """Names, and the arguments of related work."""
    yield from ((name, {}) for name in LOSSES)
    for name in RELATED_WORK:
        yield from ((name, options) for options in OPTIONS.get(name, [{}]))


def title(name: str, options: dict[str, Any]) -> str:
    return " ".join([name, *(f"{key}={value}" for key, value in options.items())])


def made_of(name: str, options: dict[str, Any]) -> Loss:
    return LOSSES[name] if name in LOSSES else RELATED_WORK[name](**options)


def of_scores(loss: Loss) -> Iterator[dict[str, Any]]:
    for kind in ("value", "slope", "curvature"):
        function = getattr(loss, kind)
        if function is None:
            yield {"function": kind, "label": "none"}
        elif loss.reduction == "pal":
            yield {"function": kind, "label": "", "first": "", "all": function(TABLE)}
        elif loss.per_label:
            for label in (0, 1):
                yield {"function": kind, "label": label, "all": function(TABLE, label)}
        else:
            for label in (0, 1) if loss.reduction == "ova" else (1,):
                values = np.asarray(function(SCORES, label), dtype=float)
                yield {"function": kind, "label": label, "first": values[1], "all": values}


def facts(loss: Loss) -> Iterator[dict[str, Any]]:
    yield {"function": "convex", "all": [int(c) for c in np.atleast_1d(loss.convex(POS, CUT))]}
    lower = np.atleast_1d(np.asarray(loss.lower(POS, CUT), dtype=float))
    yield {"function": "lower", "all": np.where(np.isfinite(lower), lower, -999.0)}
    yield {"function": "proper", "all": [int(loss.proper), int(loss.per_label)]}
    yield {"function": "difference", "all": loss.difference or ()}


@pytest.mark.parametrize(("name", "options"), list(variants()))
def test_functions_of_scores(name: str, options: dict[str, Any]) -> None:
    loss = made_of(name, options)
    text = golden.table([*of_scores(loss), *facts(loss)])
    golden.check(golden.file_name("values", "losses"), text, title(name, options))


def corrected(loss: Loss) -> Iterator[tuple[str, bool, weights.Weights]]:
    for correction in ("vanilla", "unbiased", "bound", "tempered", "empirical_bayes"):
        for normalized in (False, True):
            try:
                made = weights.CORRECTIONS[correction](
                    LABELS, P, normalized=normalized, reduction=loss.reduction
                )
            except ValueError:
                continue
            yield correction, normalized, made


@pytest.mark.parametrize(("name", "options"), list(variants()))
def test_rows_gradients_and_descriptions(name: str, options: dict[str, Any]) -> None:
    loss, rows = made_of(name, options), list[dict[str, Any]]()
    for correction, normalized, made in corrected(loss):
        about = loss.describe(made, normalized=normalized)
        described = [about.convex, about.bounded_below, about.largest_weight]
        if about.bounded_below:
            described.append(about.lower_bound)
        rows.append({
            "correction": correction,
            "normalized": normalized,
            "rows": losses.total(loss, TABLE, made),
            "gradient": losses.gradient(loss, TABLE, made) if loss.slope else "none",
            "described": [float(value) for value in described],
            "words": loss.describe(correction, normalized=normalized).words * (name in LOSSES),
        })  # fmt: skip
    golden.check(golden.file_name("rows", "losses"), golden.table(rows), title(name, options))
