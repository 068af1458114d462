"""unmask: learning and evaluating multilabel models when labels are missing.

Observed labels are true labels behind a mask, Y = M ⊙ Y*. The walk through the package is
read → propensities → weights → loss → train → predict → evaluate; the modules below stand in
that order. Everything is imported when first used, so `import unmask` itself costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unmask import (
        audit,
        data,
        diagnosis,
        linear,
        losses,
        metrics,
        missing,
        operator,
        pages,
        parallel,
        predictions,
        propensity,
        thresholds,
        torch,
        tree,
        tuning,
        weights,
    )
    from unmask._kernels import set_threads
    from unmask.arrays import LabelSets, TopK
    from unmask.diagnosis.diagnose import diagnose
    from unmask.metrics.comparison import compare, sensitivity
    from unmask.metrics.evaluation import Evaluator, evaluate
    from unmask.models.base import LabelTree, LinearClassifier
    from unmask.models.tune import tune

__version__ = "0.1.0"

_HOMES = {
    "set_threads": "_kernels",
    "TopK": "arrays",
    "LabelSets": "arrays",
    "Evaluator": "metrics",
    "compare": "metrics",
    "evaluate": "metrics",
    "sensitivity": "metrics",
    "diagnose": "diagnosis",
    "LinearClassifier": "linear",
    "tune": "tuning",
    "LabelTree": "tree",
}

__all__ = [
    "Evaluator",
    "LabelSets",
    "LabelTree",
    "LinearClassifier",
    "TopK",
    "__version__",
    "audit",
    "compare",
    "data",
    "diagnose",
    "diagnosis",
    "evaluate",
    "linear",
    "losses",
    "metrics",
    "missing",
    "operator",
    "pages",
    "parallel",
    "predictions",
    "propensity",
    "sensitivity",
    "set_threads",
    "thresholds",
    "torch",
    "tree",
    "tune",
    "tuning",
    "weights",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"unmask.{_HOMES[name]}"), name)
    if name in __all__:
        return import_module(f"unmask.{name}")
    raise AttributeError(f"module 'unmask' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
