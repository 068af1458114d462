"""How much a conclusion depends on the propensity model: the same evaluation under many models.

Propensities are themselves an assumption (which a and b? is the model right at all?). A number
that holds over a range of them is worth more than its standard error under one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmask import _checks
from unmask import propensity as models
from unmask.metrics.evaluator import evaluate
from unmask.metrics.table import Tables

GAMMAS = (0.0, 0.5, 0.8, 1.0, 1.2, 1.5, 2.0)


def sensitivity(
    top: Any, labels: Any, propensities: Mapping[str, ArrayLike], **settings: Any
) -> Tables:
    """The same estimates under each of several propensity models, by name.

    Make the models with `powers` or `jain_grid`, or give any vectors. Settings: as in `evaluate`.

    >>> from unmask.predictions import TopK
    >>> top = TopK([[0], [0]], [[1.0], [1.0]])
    >>> models = powers([0.5, 0.5], [0, 1])
    >>> found = sensitivity(top, [[1, 0], [0, 1]], models, metrics=["P@1"], estimators=["unbiased"])
    >>> [found[name]["P@1", "unbiased"].value for name in found]
    [0.5, 1.0]
    """
    if not propensities:
        raise ValueError("give at least one propensity model, as a mapping from name to vector.")
    return Tables(
        "propensity",
        {name: evaluate(top, labels, p, **settings) for name, p in propensities.items()},
    )


def powers(
    propensity: ArrayLike, gammas: Iterable[float] = GAMMAS
) -> dict[str, NDArray[np.float64]]:
    """Propensities p^γ: γ = 0 says that nothing is missing, γ = 1 is the model, γ = 2 its square.

    >>> {name: p.tolist() for name, p in powers([0.5], [0, 1, 2]).items()}
    {'γ = 0': [1.0], 'γ = 1': [0.5], 'γ = 2': [0.25]}
    """
    checked = _checks.propensity(propensity)
    return {f"γ = {gamma:g}": checked ** _checks.number(gamma, "γ", 0, 10) for gamma in gammas}


def jain_grid(
    train_labels: Any, constants: Iterable[tuple[float, float]] | None = None
) -> dict[str, NDArray[np.float64]]:
    """Jain propensities of training labels for several (a, b); by default those in common use.

    >>> list(jain_grid([[1, 0]] * 25 + [[0, 1]] * 25, [(0.55, 1.5), (0.5, 0.4)]))
    ['a = 0.55, b = 1.5', 'a = 0.5, b = 0.4']
    """
    pairs = constants or ((0.5, 0.4), (0.55, 1.5), (0.6, 2.6))
    checked = _checks.labels(train_labels)
    return {f"a = {a:g}, b = {b:g}": models.jain(checked, a=a, b=b) for a, b in pairs}
