"""Metrics: how good are these predictions, when labels are missing, and how sure is that?

    table = evaluate(top, labels, propensity, metrics=["R@5"], estimators=["unbiased"])
    table["R@5", "unbiased"].value, .standard_error, .interval, .verdict

The one expensive fact, which predictions are among the observed labels, is found once per row;
every metric and estimator is a formula in it. Read on in `registry` (what there is), `evaluator`
(one call, or batches that merge), `shards` (files and clusters), `estimates` (value, error,
interval), `deconvolution` (when single rows are too noisy), `comparison` (two systems, other
propensities), `propensity_uncertainty` (estimated propensities), `scorer` (model selection),
`by_label` (a line per label), `curves` (over thresholds), `verdict` (what a number may claim),
`table` (the result; `pages.estimates` draws it).
"""

from unmask.metrics.by_label import LabelCounts, label_counts
from unmask.metrics.comparison.paired import compare
from unmask.metrics.comparison.sensitivity import (
    Ranking,
    jain_around,
    jain_grid,
    powers,
    ranking,
    sensitivity,
)
from unmask.metrics.curves import Curve, curve, reliability
from unmask.metrics.evaluation import evaluate
from unmask.metrics.evaluator import Evaluator, contributions
from unmask.metrics.registry import ESTIMATORS, METRICS, supported
from unmask.metrics.scored import Reliability
from unmask.metrics.scorer import make_scorer
from unmask.metrics.shards import evaluate_shards
from unmask.metrics.table import Estimate, Table, Tables
from unmask.metrics.verdict import Advice, Level, Outcome, Reason, Verdict

__all__ = [
    "ESTIMATORS",
    "METRICS",
    "Advice",
    "Curve",
    "Estimate",
    "Evaluator",
    "LabelCounts",
    "Level",
    "Outcome",
    "Ranking",
    "Reason",
    "Reliability",
    "Table",
    "Tables",
    "Verdict",
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
