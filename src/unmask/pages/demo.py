"""The page of the demo: what is lost when labels are hidden, and what comes back.

The sentences stand in `templates/demo.txt.jinja`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unmask._typing import Floats
from unmask.metrics import Table, Tables
from unmask.pages import estimates, files, labels, parts
from unmask.pages.estimates import STYLES

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
    """The outcome of hiding labels: for a data set, models trained on it, and their scores."""

    n: int
    seed: int
    bands: tuple[Band, ...]
    empty_rows: int
    scores: dict[str, Table]
    """By model, on true labels: complete, vanilla, "vanilla, tuned", unbiased."""
    tuned_C: float
    """The C that suits the tuned model best."""
    estimates: Table
    """Estimates for the unbiased model, from hidden test labels."""
    sensitivity: Tables
    """Its estimates under other propensities than those by which labels were hidden."""
    audited: Table
    """Where rows differ in effort: measured on judged rows, beside the other estimates."""
    judged: int
    """The number of judged rows."""
    histogram: NDArray[np.int64]
    """Training rows by number of observed labels."""
    fitted: Floats
    """Share of rows by number of true labels, as deconvolved from the observed ones."""
    true_histogram: NDArray[np.int64]
    curve: Floats
    """True count and propensity of every label, most frequent first."""

    @property
    def total(self) -> Band:
        """All labels together."""
        true, observed = sum(b.true for b in self.bands), sum(b.observed for b in self.bands)
        return Band("all", sum(b.labels for b in self.bands), observed / true, true, observed)

    @property
    def truth(self) -> dict[str, float]:
        """The true value of every metric of the unbiased model."""
        scores = self.scores["unbiased"]
        return {metric: scores[metric, "vanilla"].value for metric in METRICS}

    def recovered(self, metric: str) -> float:
        """Return the share of what tuned vanilla training loses that corrected training regains."""
        complete, tuned, unbiased = (
            self.scores[name][metric, "vanilla"].value
            for name in ("complete", "vanilla, tuned", "unbiased")
        )
        return (unbiased - tuned) / (complete - tuned)


def summary(demo: Demo) -> list[str]:
    """Return what happened, in three sentences: measuring, training, and why an audit is needed.

    Parameters
    ----------
    demo : Demo

    Returns
    -------
    list of str
    """
    words = files.words("demo", demo=demo)
    return [words[name] for name in ("measuring", "training", "auditing")]


def page(demo: Demo) -> parts.Page:
    """Return the demo as a page.

    Parameters
    ----------
    demo : Demo

    Returns
    -------
    Page
    """
    words = files.words("demo", demo=demo)
    text = {name: parts.Text(paragraph) for name, paragraph in words.items()}
    two = {metric: demo.truth[metric] for metric in ("P@1", "R@5")}
    shown: dict[str, list[parts.Part]] = {
        "One model, five answers": [_answers(demo, words["uneven"])],
        "What is lost": [text["lost"], _bands(demo), curves(demo)],
        "How many labels rows have": [counts(demo)],
        "Training": [text["trained"], *_models(demo, words["models"])],
        "Evaluation without the truth": _beside_truth(
            demo, demo.estimates, "Estimates from hidden test labels beside the truth"
        ),
        "If the propensities were wrong": [
            text["wrong"], estimates.along(demo.sensitivity.to_dicts(), rules=two)
        ],
        f"{demo.judged} judged rows": [text["judged"], *_beside_truth(
            demo, demo.audited, "Estimates where rows differ in effort, beside the truth"
        )],
        "How this page was made": [parts.Commands([f"unmask demo --seed {demo.seed}"])],
    }  # fmt: skip
    return parts.Page(
        "What missing labels do, and what can be done about it",
        summary=summary(demo),
        sections=[parts.Section(title, own) for title, own in shown.items()],
    )


def curves(demo: Demo) -> parts.Panels:
    """Draw how frequent labels are and how likely they are seen."""
    return labels.curves(np.arange(1, len(demo.curve) + 1), *demo.curve.T, of="true entries")


def counts(demo: Demo) -> parts.Panels:
    """Draw how many labels rows have: observed, true and deconvolved."""
    rows = demo.histogram.sum()
    truth = demo.true_histogram / rows
    return labels.counts(observed=demo.histogram / rows, truth=truth, deconvolved=demo.fitted)


def _answers(demo: Demo, caption: str) -> parts.Chart:
    """Draw the R@5 of one model as it is said and as it is."""
    said = {
        "as recorded": demo.estimates["R@5", "vanilla"],
        "corrected": demo.estimates["R@5", "deconvolved"],
        "uneven: as recorded": demo.audited["R@5", "vanilla"],
        "uneven: corrected": demo.audited["R@5", "deconvolved"],
        f"uneven: {demo.judged} judged rows": demo.audited["R@5", "measured"],
    }
    series = []
    for name, each in said.items():
        low, high = each.interval
        style = STYLES[each.estimator]
        series.append(parts.Series(name, [name], [each.value], [low], [high], style=style))
    return parts.Chart(
        "dots",
        series,
        y=parts.Axis("R@5", low=0, high=1),
        rules=[parts.Rule("truth", demo.truth["R@5"], style=STYLES["truth"])],
        title="R@5 of one model: what is said of it, and the truth",
        caption=caption,
    )


def _bands(demo: Demo) -> parts.Table:
    """Return what was hidden, by frequency of the labels."""
    bands = (*demo.bands, demo.total)
    return parts.Table(
        ["labels by frequency", "labels", parts.Column("mean p", ".3f"), "true entries",
         "observed", parts.Column("lost", ".0%")],
        [[b.name, b.labels, b.propensity, b.true, b.observed, b.lost] for b in bands],
    )  # fmt: skip


def _models(demo: Demo, caption: str) -> list[parts.Part]:
    """Return a table and a chart of every model's scores."""
    title = "Scores on true labels"
    body: list[list[parts.Cell]] = []
    for metric in METRICS:
        scores = [table[metric, "vanilla"] for table in demo.scores.values()]
        body.append([metric, *(parts.Estimate(each.value, *each.interval) for each in scores)])
    columns: list[parts.Column | str] = [
        "metric",
        *(parts.Column(name, ".3f") for name in demo.scores),
    ]
    series = [
        parts.Series(
            name, METRICS, [scores[m, "vanilla"].value for m in METRICS], style=STYLES.get(name)
        )
        for name, scores in demo.scores.items()
    ]
    chart = parts.Chart("dots", series, title, y=parts.Axis("value", low=0, high=1))
    return [parts.Table(columns, body, title, caption), chart]


def _beside_truth(demo: Demo, table: Table, title: str) -> list[parts.Part]:
    """Return estimates beside the truth, as a table and as a chart for every metric."""
    rows = table.to_dicts()
    columns: parts.Columns = {
        "metric": "metric",
        "estimator": "estimator",
        parts.Column("estimate", ".3f"): lambda r: parts.Estimate(r["value"], r["low"], r["high"]),
        parts.Column("truth", ".3f"): lambda row: demo.truth[row["metric"]],
        "verdict": estimates.level_cell,
    }
    drawn = estimates.estimates(rows, rules=demo.truth)
    return [parts.Table.of(rows, columns, title), drawn]
