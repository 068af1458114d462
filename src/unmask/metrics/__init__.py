"""Metrics: how good are these predictions, when labels are missing, and how sure is that?

    table = evaluate(top, labels, propensity, metrics=["R@5"], estimators=["unbiased"])
    table["R@5", "unbiased"].value, .standard_error, .interval, .verdict

The one expensive fact, which predictions are among the observed labels, is found once per row;
every metric and estimator is a formula in it. One pipeline makes every number:

    request ──▶ sums ──▶ estimates ──▶ claims ──▶ table

Read on in `registry` (what there is), `request` (what can be asked), `evaluation` (one call,
batches, shards, model selection), `sums` (one exact pass), `estimates` (value, error, interval),
`deconvolution` and `thinning` (when single rows are too noisy), `scored` (scores of all labels,
curves), `groups` (of rows and labels, hierarchies), `comparison` (two systems, other propensities),
`vary` (estimated and wrong propensities), `by_label` (a line per label), `claims` (what a number
may claim), `table` (the result).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unmask.metrics.by_label import label_counts
    from unmask.metrics.claims import Advice
    from unmask.metrics.comparison import (
        compare,
        jain_around,
        jain_grid,
        powers,
        ranking,
        sensitivity,
    )
    from unmask.metrics.evaluation import (
        Evaluator,
        contributions,
        evaluate,
        evaluate_shards,
        make_scorer,
    )
    from unmask.metrics.registry import ESTIMATORS, METRICS, supported
    from unmask.metrics.scored import curve, reliability
    from unmask.metrics.table import Estimate, Table, Tables

_HOMES = {
    "by_label": ("label_counts",),
    "claims": ("Advice",),
    "comparison": (
        "compare", "jain_around", "jain_grid", "powers", "ranking", "sensitivity",
    ),
    "evaluation": ("Evaluator", "contributions", "evaluate", "evaluate_shards", "make_scorer"),
    "registry": ("ESTIMATORS", "METRICS", "supported"),
    "scored": ("curve", "reliability"),
    "table": ("Estimate", "Table", "Tables"),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "ESTIMATORS",
    "METRICS",
    "Advice",
    "Estimate",
    "Evaluator",
    "Table",
    "Tables",
    "compare",
    "contributions",
    "curve",
    "evaluate",
    "evaluate_shards",
    "jain_around",
    "jain_grid",
    "label_counts",
    "make_scorer",
    "powers",
    "ranking",
    "reliability",
    "sensitivity",
    "supported",
]


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(f"unmask.metrics.{_HOME_OF[name]}"), name)
    if name in ("intervals", "reference"):  # public modules
        return import_module(f"unmask.metrics.{name}")
    raise AttributeError(f"module 'unmask.metrics' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
