"""The page of the demo: what is lost when labels are hidden, and what comes back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unmask import report
from unmask.metrics import Estimate, Table, Tables, charts
from unmask.metrics.charts import STYLES
from unmask.pages import label_figures
from unmask.pages.verdicts import verdict_cell

METRICS = ("P@1", "P@5", "R@1", "R@5", "nDCG@5")


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
    """By model, on true labels: complete, vanilla, "vanilla, tuned", unbiased."""
    tuned_C: float
    """The C that suits the tuned model best."""
    estimates: Table
    """Of the unbiased model, from hidden test labels."""
    sensitivity: Tables
    """The same under other propensities than those by which labels were hidden."""
    audited: Table
    """Where rows differ in effort: measured on judged rows, beside the other estimates."""
    judged: int
    """How many rows were judged."""
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
        """The share of what tuned vanilla training loses that corrected training brings back."""
        complete, tuned, unbiased = (
            self.scores[name][metric, "vanilla"].value
            for name in ("complete", "vanilla, tuned", "unbiased")
        )
        return (unbiased - tuned) / (complete - tuned)


def summary(demo: Demo) -> list[str]:
    """What happened, in three sentences: measuring, training, and when an audit is needed."""
    truth = demo.scores["unbiased"]["R@5", "vanilla"].value
    observed = demo.estimates["R@5", "vanilla"].value
    corrected = demo.estimates["R@5", "deconvolved"]
    return [
        f"{demo.total.lost:.0%} of all labels were hidden. The true R@5 of a model is {truth:.3f}; "
        f"the recorded labels say {observed:.3f}, corrected for missing labels it is "
        f"{_in_words(corrected)}.",
        f"Trained on what is left, a model finds {_percent(demo, 'vanilla, tuned')} of the true "
        f"labels in its top five, with unbiased weights {_percent(demo, 'unbiased')}, on complete "
        f"labels {_percent(demo, 'complete')}.",
        _audit_sentence(demo),
    ]


def _lost_text(demo: Demo) -> report.Text:
    frequent, rare = demo.bands[0], demo.bands[-1]
    return report.Text(
        f"A label of the {frequent.name} is still seen in {1 - frequent.lost:.0%} of its rows, one "
        f"of the {rare.name} in {1 - rare.lost:.0%}; {demo.empty_rows:,} training rows lost all "
        "their labels. Nothing in the observed data marks the gaps."
    )


def _training_text(demo: Demo) -> report.Text:
    return report.Text(
        "Trained on the observed labels as they are, a model finds "
        f"{_percent(demo, 'vanilla')} of the true labels in its top five, one trained on complete "
        f"labels {_percent(demo, 'complete')} (C = 1 for both). With the regularisation that suits "
        f"it best (C = {demo.tuned_C:g}, chosen on the true labels in its favour) the former finds "
        f"{_percent(demo, 'vanilla, tuned')}; training with unbiased weights finds "
        f"{_percent(demo, 'unbiased')}: {demo.recovered('R@5'):.0%} of what is still lost is back."
    )


def _audit_sentence(demo: Demo) -> str:
    measured, stated = (demo.audited["R@5", name] for name in ("measured", "deconvolved"))
    return (
        "If rows differ in effort, so that labels of a row are kept or lost together, the "
        f"correction says {_in_words(stated)}; {demo.judged} rows judged at random measure "
        f"{_in_words(measured)}, whatever hid the labels."
    )


def _in_words(estimate: Estimate) -> str:
    low, high = estimate.interval
    return f"{estimate.value:.3f} ({low:.3f} to {high:.3f})"


def _percent(demo: Demo, model: str) -> str:
    return f"{demo.scores[model]['R@5', 'vanilla'].value:.1%}"


def page(demo: Demo) -> report.Page:
    """The demo as a page."""
    return report.Page(
        "What missing labels do, and what can be done about it",
        summary=summary(demo),
        sections=[
            report.Section("One model, five answers", [_answers(demo)]),
            report.Section("What is lost", [_lost_text(demo), _bands_table(demo), _curves(demo)]),
            report.Section("How many labels rows have", [_counts(demo)]),
            report.Section(
                "Training", [_training_text(demo), _models_table(demo), _models_chart(demo)]
            ),
            report.Section("Evaluation without the truth", [_estimates_table(demo), _dots(demo)]),
            report.Section("If the propensities were wrong", [*_sensitivity(demo)]),
            report.Section(f"{demo.judged} judged rows", [*_audit(demo)]),
            report.Section(
                "How this page was made", [report.Commands([f"unmask demo --seed {demo.seed}"])]
            ),
        ],
    )


def _answers(demo: Demo) -> report.Chart:
    """The R@5 of one model as it is said and as it is."""
    said = {
        "as recorded": demo.estimates["R@5", "vanilla"],
        "corrected": demo.estimates["R@5", "deconvolved"],
        "uneven: as recorded": demo.audited["R@5", "vanilla"],
        "uneven: corrected": demo.audited["R@5", "deconvolved"],
        f"uneven: {demo.judged} judged rows": demo.audited["R@5", "measured"],
    }
    truth = demo.scores["unbiased"]["R@5", "vanilla"].value
    return report.Chart(
        "dots",
        [
            report.Series(name, [name], [e.value], [e.interval[0]], [e.interval[1]],
                          style=STYLES[e.estimator])
            for name, e in said.items()
        ],
        y=report.Axis("R@5", low=0, high=1),
        rules=[report.Rule("truth", truth, style=STYLES["truth"])],
        title="R@5 of one model: what is said of it, and the truth",
        caption="Uneven: people differ in effort, so that the labels of a row are kept or lost "
        "together, which no correction by labels alone can see.",
    )  # fmt: skip


def _bands_table(demo: Demo) -> report.Table:
    return report.Table(
        ["labels by frequency", "labels", report.Column("mean p", ".3f"), "true entries",
         "observed", report.Column("lost", ".0%")],
        [[b.name, b.labels, b.propensity, b.true, b.observed, b.lost]
         for b in (*demo.bands, demo.total)],
    )  # fmt: skip


def _curves(demo: Demo) -> report.Panels:
    rank = np.arange(1, len(demo.curve) + 1)
    return label_figures.curves(rank, *demo.curve.T, of="true entries")


def _counts(demo: Demo) -> report.Panels:
    rows = demo.histogram.sum()
    return label_figures.counts(
        observed=demo.histogram / rows,
        truth=demo.true_histogram / rows,
        deconvolved=demo.fitted,
    )


def _models_table(demo: Demo) -> report.Table:
    return report.Table(
        ["metric", *(report.Column(name, ".3f") for name in demo.scores)],
        [
            [metric, *(report.Estimate(table[metric, "vanilla"].value,
                                       *table[metric, "vanilla"].interval)
                       for table in demo.scores.values())]
            for metric in METRICS
        ],
        title="Scores on true labels",
        caption="Trained on, complete: all true labels; vanilla: observed labels as they are; "
        "unbiased: observed labels with weights 1/p. C is 1, for vanilla, tuned: "
        f"{demo.tuned_C:g}, the best for its true R@5.",
    )  # fmt: skip


def _models_chart(demo: Demo) -> report.Chart:
    return report.Chart(
        "dots",
        [
            report.Series(
                name,
                METRICS,
                [table[metric, "vanilla"].value for metric in METRICS],
                style=STYLES.get(name),
            )
            for name, table in demo.scores.items()
        ],
        title="Scores on true labels",
        y=report.Axis("value", low=0, high=1),
    )


def _audit(demo: Demo) -> tuple[report.Text, report.Table, report.Panels]:
    text = (
        "Here the same test labels are hidden with the same propensities, but people differ in "
        "effort: the labels of a row are kept or lost together. Estimates that suppose independent "
        "masks are off, and nothing in the observed labels need show it. An audit chooses rows at "
        f"random and has all their labels judged: here {demo.judged} rows, answered from the truth."
    )
    table = _beside_truth(
        demo, demo.audited, "Estimates where rows differ in effort, beside the truth"
    )
    return report.Text(text), table, _panels(demo, demo.audited)


def _estimates_table(demo: Demo) -> report.Table:
    return _beside_truth(demo, demo.estimates, "Estimates from hidden test labels beside the truth")


def _beside_truth(demo: Demo, estimates: Table, title: str) -> report.Table:
    truth = demo.scores["unbiased"]
    return report.Table(
        ["metric", "estimator", report.Column("estimate", ".3f"), report.Column("truth", ".3f"),
         "verdict"],
        [
            [e.metric, e.estimator, report.Estimate(e.value, *e.interval),
             truth[e.metric, "vanilla"].value, verdict_cell(e.verdict)]
            for e in estimates
        ],
        title=title,
    )  # fmt: skip


def _dots(demo: Demo) -> report.Panels:
    return _panels(demo, demo.estimates)


def _panels(demo: Demo, table: Table) -> report.Panels:
    panels = []
    for metric in METRICS:
        truth = demo.scores["unbiased"][metric, "vanilla"].value
        estimates = [e for e in table if e.metric == metric]
        series = [
            report.Series(e.estimator, [e.estimator], [e.value], [e.interval[0]], [e.interval[1]],
                          style=STYLES.get(e.estimator))
            for e in estimates
        ]  # fmt: skip
        axis = charts.scale(e.value for e in estimates)
        rule = report.Rule("truth", truth, style=STYLES["truth"])
        panels.append(report.Chart("dots", series, title=metric, y=axis, rules=[rule]))
    return report.Panels(panels, columns=3, title="Estimates and 95 % intervals; dashed: the truth")


def _sensitivity(demo: Demo) -> tuple[report.Text, report.Panels]:
    truth = {m: demo.scores["unbiased"][m, "vanilla"].value for m in ("P@1", "R@5")}
    text = (
        "Propensities are rarely known. Here the same labels are evaluated with p^γ instead of p: "
        "γ = 0 says that nothing is missing, γ = 1 is how labels were hidden. An estimate that "
        "changes much near γ = 1 is only as good as the propensities."
    )
    return report.Text(text), charts.along(demo.sensitivity.to_dicts(), rules=truth)
