"""The demo: data whose truth is known, labels hidden on purpose, what is lost, what comes back.

Rows are planted, labels hidden with 1/p from 2 (frequent) to 20 (rare), and three linear models
trained: on complete labels, on observed labels as if they were complete, and on observed labels
with unbiased weights. All are scored on the true labels of fresh rows; then the scores are
estimated from hidden labels, as one has to in life.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from unmask import data, linear, propensity, report
from unmask.metrics import Table, Tables, charts, evaluate, powers, sensitivity
from unmask.pages import labels
from unmask.weights import count_distribution
from unmask_studies import models

BANDS = {"frequent tenth": (0.0, 0.1), "middle": (0.1, 0.5), "rare half": (0.5, 1.0)}
"""Labels by frequency rank, as shares of all labels."""
METRICS = ("P@1", "P@5", "R@1", "R@5", "nDCG@5")
GAMMAS = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25)
"""Powers to which propensities are raised: 0 says that nothing is missing, 1 is the truth."""
ESTIMATORS = ("vanilla", "unbiased", "bound", "deconvolved", "tempered")


@dataclass(frozen=True)
class Band:
    """Labels of similar frequency: how many true entries they have and how many are still seen."""

    name: str
    labels: int
    propensity: float
    true: int
    observed: int

    @property
    def lost(self) -> float:
        """The share of true entries that is hidden."""
        return 1 - self.observed / self.true if self.true else 0.0


@dataclass(frozen=True)
class Demo:
    """What hiding labels did to one data set, to models trained on it, and to their scores."""

    n: int
    seed: int
    bands: tuple[Band, ...]
    empty_rows: int
    scores: dict[str, Table]
    """By model, on true labels: complete, vanilla, unbiased."""
    estimates: Table
    """Of the unbiased model, from hidden test labels."""
    sensitivity: Tables
    """The same under other propensities than those by which labels were hidden."""
    histogram: NDArray[np.int64]
    """Training rows by number of observed labels."""
    fitted: NDArray[np.float64]
    """Share of rows by number of true labels, as deconvolved from the observed ones."""
    true_histogram: NDArray[np.int64]
    curve: NDArray[np.float64]
    """True count and propensity of every label, most frequent first."""

    @property
    def total(self) -> Band:
        """All labels together."""
        true, observed = sum(b.true for b in self.bands), sum(b.observed for b in self.bands)
        return Band("all", sum(b.labels for b in self.bands), observed / true, true, observed)

    def recovered(self, metric: str) -> float:
        """The share of what vanilla training loses that corrected training brings back."""
        complete, vanilla, unbiased = (
            self.scores[name][metric, "vanilla"].value for name in self.scores
        )
        return (unbiased - vanilla) / (complete - vanilla)


def run(
    *, n: int = 15_000, seed: int = 0, progress: Callable[[int, int], None] | None = None
) -> Demo:
    """Make n rows, hide labels, train three models, evaluate them with and without the truth.

    >>> run(n=600).total.lost > 0.5
    True
    """
    steps = iter(range(1, 6))

    def step() -> None:
        if progress is not None:
            progress(next(steps), 5)

    rows = models.planted(n, seed)
    p = propensity.inverse_linear(rows.train_labels)
    seen = data.hide(rows.train_labels, p, seed=seed + 1)
    step()
    tops = {}
    for name, labels, correction in (
        ("complete", rows.train_labels, "vanilla"),
        ("vanilla", seen, "vanilla"),
        ("unbiased", seen, "unbiased"),
    ):
        recipe = linear.Recipe(loss="logistic", correction=correction)
        model, _ = linear.train(rows.train_features, labels, recipe, propensity=p)
        tops[name] = linear.top(model, rows.test_features, 5)
        step()
    hidden = data.hide(rows.test_labels, p, seed=seed + 2)
    found = Demo(
        n=n,
        seed=seed,
        bands=tuple(_band(name, rows.train_labels, seen, p) for name in BANDS),
        empty_rows=int((np.diff(seen.indptr) == 0).sum()),
        scores={
            name: evaluate(top, rows.test_labels, metrics=METRICS) for name, top in tops.items()
        },
        estimates=evaluate(tops["unbiased"], hidden, p, metrics=METRICS, estimators=ESTIMATORS),
        sensitivity=sensitivity(
            tops["unbiased"],
            hidden,
            powers(p, GAMMAS),
            metrics=["P@1", "R@5"],
            estimators=["vanilla", "unbiased", "deconvolved"],
        ),
        histogram=np.bincount(np.diff(seen.indptr)),
        fitted=count_distribution(seen, p).probability,
        true_histogram=np.bincount(np.diff(rows.train_labels.indptr)),
        curve=_curve(rows.train_labels, p),
    )
    step()
    return found


def _curve(labels: sp.csr_array, p: NDArray[np.float64]) -> NDArray[np.float64]:
    counts = np.bincount(labels.indices, minlength=len(p))
    order = np.argsort(-counts, kind="stable")
    return np.asarray(np.c_[counts[order], p[order]], dtype=np.float64)


def _band(
    name: str, true_labels: sp.csr_array, observed: sp.csr_array, p: NDArray[np.float64]
) -> Band:
    counts = np.bincount(true_labels.indices, minlength=len(p))
    low, high = (round(share * len(p)) for share in BANDS[name])
    chosen = np.argsort(-counts, kind="stable")[low:high]
    seen = np.bincount(observed.indices, minlength=len(p))
    return Band(
        name, len(chosen), p[chosen].mean(), int(counts[chosen].sum()), int(seen[chosen].sum())
    )


def words(found: Demo) -> list[str]:
    """What happened, in five sentences."""
    frequent, rare = found.bands[0], found.bands[-1]
    truth = found.scores["unbiased"]["R@5", "vanilla"].value
    naive = found.estimates["R@5", "vanilla"].value
    ours = found.estimates["R@5", "deconvolved"]
    return [
        f"{found.total.lost:.0%} of all labels were hidden: a label of the {frequent.name} is "
        f"still seen in {1 - frequent.lost:.0%} of its rows, one of the {rare.name} in "
        f"{1 - rare.lost:.0%}; {found.empty_rows:,} training rows lost all their labels.",
        "Nothing in the observed data marks the gaps: a model trained on them as they are finds "
        f"{_percent(found, 'vanilla')} of the true labels in its top five, one trained on complete "
        f"labels {_percent(found, 'complete')}.",
        f"Training with unbiased weights finds {_percent(found, 'unbiased')}: "
        f"{found.recovered('R@5'):.0%} of the loss is back.",
        f"Scored on hidden labels as if they were complete, that model has R@5 = {naive:.3f}; "
        f"the truth is {truth:.3f}.",
        f"The deconvolved estimate from the same hidden labels is {ours.value:.3f}, 95 % interval "
        f"{ours.interval[0]:.3f} to {ours.interval[1]:.3f}.",
    ]


def _percent(found: Demo, model: str) -> str:
    return f"{found.scores[model]['R@5', 'vanilla'].value:.1%}"


def page(found: Demo) -> report.Page:
    """The demo as a page."""
    return report.Page(
        "What missing labels do, and what can be done about it",
        summary=words(found),
        sections=[
            report.Section("What is lost", [_bands_table(found), _curves(found)]),
            report.Section("How many labels rows have", [_counts(found)]),
            report.Section("Training", [_models_table(found), _models_chart(found)]),
            report.Section("Evaluation without the truth", [_estimates_table(found), _dots(found)]),
            report.Section("If the propensities were wrong", [*_sensitivity(found)]),
            report.Section(
                "How this page was made", [report.Commands([f"unmask demo --seed {found.seed}"])]
            ),
        ],
    )


def _bands_table(found: Demo) -> report.Table:
    return report.Table(
        ["labels by frequency", "labels", report.Column("mean p", ".3f"), "true entries",
         "observed", report.Column("lost", ".0%")],
        [[b.name, b.labels, b.propensity, b.true, b.observed, b.lost]
         for b in (*found.bands, found.total)],
    )  # fmt: skip


def _curves(found: Demo) -> report.Panels:
    rank = np.arange(1, len(found.curve) + 1)
    return labels.curves(rank, *found.curve.T, of="true entries")


def _counts(found: Demo) -> report.Panels:
    rows = found.histogram.sum()
    return labels.counts(
        observed=found.histogram / rows,
        truth=found.true_histogram / rows,
        deconvolved=found.fitted,
    )


def _models_table(found: Demo) -> report.Table:
    return report.Table(
        ["metric", *(report.Column(name, ".3f") for name in found.scores)],
        [
            [m, *(report.Estimate(t[m, "vanilla"].value, *t[m, "vanilla"].interval)
                  for t in found.scores.values())]
            for m in METRICS
        ],
        title="Scores on true labels",
        caption="Trained on, complete: all true labels; vanilla: observed labels as they are; "
        "unbiased: observed labels with weights 1/p.",
    )  # fmt: skip


def _models_chart(found: Demo) -> report.Chart:
    return report.Chart(
        "bars",
        [
            report.Series(name, list(METRICS), [t[m, "vanilla"].value for m in METRICS])
            for name, t in found.scores.items()
        ],
        title="Scores on true labels",
        y=report.Axis("value", low=0, high=1),
    )


def _estimates_table(found: Demo) -> report.Table:
    truth = found.scores["unbiased"]
    return report.Table(
        ["metric", "estimator", report.Column("estimate", ".3f"), report.Column("truth", ".3f"),
         "verdict"],
        [
            [e.metric, e.estimator, report.Estimate(e.value, *e.interval),
             truth[e.metric, "vanilla"].value, labels.judged(e.verdict)]
            for e in found.estimates
        ],
        title="Estimates from hidden test labels beside the truth",
    )  # fmt: skip


def _dots(found: Demo) -> report.Panels:
    panels = []
    for metric in METRICS:
        truth = found.scores["unbiased"][metric, "vanilla"].value
        part = [e for e in found.estimates if e.metric == metric]
        series = [
            report.Series(e.estimator, [e.estimator], [e.value], [e.interval[0]], [e.interval[1]])
            for e in part
        ]
        axis, rule = charts.scale(e.value for e in part), report.Rule("truth", truth)
        panels.append(report.Chart("dots", series, title=metric, y=axis, rules=[rule]))
    return report.Panels(panels, columns=3, title="Estimates and 95 % intervals; dashed: the truth")


def _sensitivity(found: Demo) -> tuple[report.Text, report.Panels]:
    truth = {m: found.scores["unbiased"][m, "vanilla"].value for m in ("P@1", "R@5")}
    told = (
        "Propensities are rarely known. Here the same labels are evaluated with p^γ instead of p: "
        "γ = 0 says that nothing is missing, γ = 1 is how labels were hidden. An estimate that "
        "changes much near γ = 1 is only as good as the propensities."
    )
    return report.Text(told), charts.along(found.sensitivity.to_dicts(), rules=truth)
