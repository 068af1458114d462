"""Choosing the training on noisy rows: how much is lost against choosing by the truth.

The most frequent labels of a data set are taken for the truth and hidden; 1/p is linear in the rank
of a label. What is stated of p is right, half or twice of it, that of other labels (permuted), or
Jain's formula; or p is right but labels of a row are lost together (row effort 0.5). `tune` sees
features, observed labels and what is stated. Then every candidate (training, ranking and C) is
trained on all rows and measured on the true labels of the test rows. *Regret* is the best R@5 of
all candidates less that of the chosen one. *Vanilla, tuned* is the vanilla training with the
largest R@5 on observed held-out labels, which is what one has without any propensities.

Empirical Bayes ranked by probability / propensity, which corrects twice, is no candidate. With
Jain's propensities, too high here, it is better by up to 0.008 than all others; with right ones
worse by up to 0.06. No observed label tells which (docs/decisions/0017).

Other people's procedures (`baselines`) go through the same data once, with right propensities: C is
chosen by deconvolved R@5 on a quarter of the rows, then they are trained on all.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from unmask import linear, propensity, report
from unmask._typing import Floats
from unmask.linear import Recipe, UnconvergedWarning
from unmask.linear.model import RANKINGS
from unmask.metrics import evaluate
from unmask.predictions import TopK
from unmask.propensity import MaskModel
from unmask.tuning import Family, Tuned, tune
from unmask.tuning.candidates import TAUS, families, path
from unmask_studies import baselines, models
from unmask_studies.runs import STYLES, DataSets, Row, Study, Unit, group_rows, statement

METRIC, TOP = "R@5", 5
EFFORT = 0.5
MASKS = ("right", "half", "twice", "permuted", "Jain", "row effort")
REGRET, BELOW_VANILLA = 0.005, 0.002
LOSSES = ("logistic", "squared_hinge")
RELATED, RELATED_TASK = "related work", "cooking"
RELATED_COSTS = (0.3, 1.0, 3.0, 10.0)


class Task(NamedTuple):
    """A data set: its folder, how many labels, and 1/p of the most frequent and the rarest one."""

    folder: str
    labels: int
    head: float
    tail: float


TASKS = {
    "debtags-100": Task("debtags-bookworm", 100, 2, 20),
    "debtags-150": Task("debtags-bookworm", 150, 2, 20),
    "delicious": Task("delicious", 60, 1.5, 8),
    "cooking": Task("cooking-stackexchange", 80, 1.5, 8),
}
ROWS = {"tiny": 200, "small": 3000, "paper": 6000}
"""Training rows at most."""


class Split(NamedTuple):
    """Features and true labels to train on and to test on, and the propensities."""

    features: sp.csr_array
    labels: sp.csr_array
    test_features: sp.csr_array
    test_labels: sp.csr_array
    p: Floats


@lru_cache(maxsize=1)
def split_of(folder: Path | None, task: str, rows: int, seed: int) -> Split:
    """The most frequent labels of a data set, or planted rows where there is none."""
    split = models.planted(2 * rows, seed) if folder is None else models.split_of(folder)
    about = TASKS[task]
    counts = np.bincount(split.train_labels.indices, minlength=split.train_labels.shape[1])
    frequent = np.argsort(-counts, kind="stable")[: about.labels if folder else 12]
    chosen = np.sort(np.random.default_rng(seed).permutation(split.train_features.shape[0])[:rows])
    labels = split.train_labels[chosen][:, frequent]
    p = np.asarray(propensity.inverse_linear(labels, head=about.head, tail=about.tail))
    test = (split.test_features, split.test_labels[:, frequent])
    return Split(split.train_features[chosen], labels, *test, p)


def observed_of(split: Split, masks: str, seed: int) -> tuple[sp.csr_array, Floats]:
    """Observed labels, and what is stated of the propensities."""
    rng = np.random.default_rng([seed, MASKS.index(masks)])
    hidden_by = MaskModel(split.p, row_effort=EFFORT if masks == "row effort" else 0.0)
    observed = hidden_by.observe(split.labels, rng)
    stated = {
        "half": split.p / 2,
        "twice": np.minimum(1.0, 2 * split.p),
        "permuted": rng.permutation(split.p),
        "Jain": propensity.jain(observed),
    }
    return observed, stated.get(masks, split.p)


def units(size: str, seed: int, data: DataSets | None) -> list[Unit]:
    """One unit per data set and masks; planted rows where there are no files."""
    real = data if data and size != "tiny" else None
    tasks = [name for name, task in TASKS.items() if real and task.folder in real.names]
    return [
        {"folder": real.path(TASKS[task].folder) if real and tasks else None, "task": task,
         "masks": masks, "rows": ROWS[size], "draw": seed}
        for task in tasks or ["cooking"]
        for masks in (*(MASKS if size != "tiny" else MASKS[:1]),
                      *((RELATED,) if task == RELATED_TASK else ()))
    ]  # fmt: skip


def measure(folder: Path | None, task: str, masks: str, rows: int, draw: int) -> Iterable[Row]:
    """A row per candidate with its true R@5, and one for what was chosen."""
    split = split_of(folder, task, rows, draw)
    if masks == RELATED:
        yield from _related(split, draw, (1.0,) if folder is None else RELATED_COSTS)
        return
    observed, stated = observed_of(split, masks, draw)
    costs = (0.3,) if folder is None else None
    best = tune(split.features, observed, stated, METRIC, seed=draw, costs=costs, losses=LOSSES)
    yield _chosen_row(best, _truth(best.predict_top(split.test_features, TOP), split))
    plain = tune(split.features, observed, None, METRIC, seed=draw, costs=costs, losses=LOSSES)
    yield {"row": "vanilla, tuned", "truth": _truth(plain.predict_top(split.test_features, TOP),
                                                    split)}  # fmt: skip
    rankings: dict[Family, list[Family]] = {}
    for family in families(LOSSES, TAUS, RANKINGS, stated):
        rankings.setdefault(family.trained, []).append(family)
    for trained, ranked in rankings.items():
        yield from _candidates(split, observed, stated, trained, ranked, costs)


def _chosen_row(best: Tuned, truth: float) -> Row:
    return {
        "row": "chosen", "truth": truth, "family": best.chosen.family.name, "C": best.recipe.C,
        "because": best.because.value, "trusted": best.trust.tau, "judged_by": best.judged_by,
        "independent": best.trust.independent, "estimate": best.chosen.judged.value,
    }  # fmt: skip


def _candidates(
    split: Split,
    observed: sp.csr_array,
    stated: Floats,
    trained: Family,
    ranked: list[Family],
    costs: tuple[float, ...] | None,
) -> Iterable[Row]:
    """The truth of a training at every C, each model from the one before it, by every ranking."""
    model = None
    for cost in path(trained, costs):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnconvergedWarning)
            model, _ = linear.train(
                split.features, observed, trained.recipe(cost, Recipe(tol=1e-2)),
                propensity=trained.propensity(stated), first=model,
            )  # fmt: skip
        for family in ranked:
            p = stated if family.rank_by != "score" else None
            top = linear.predict_top(
                model, split.test_features, TOP, rank_by=family.rank_by, propensity=p
            )
            yield {
                "row": "candidate", "family": family.name, "correction": family.correction,
                "rank_by": family.rank_by, "C": cost, "truth": _truth(top, split),
            }  # fmt: skip


def _related(split: Split, seed: int, costs: tuple[float, ...]) -> Iterable[Row]:
    """A row per method of `baselines`."""
    observed, p = observed_of(split, "right", seed)
    n = split.features.shape[0]
    rng = np.random.default_rng([seed, len(MASKS)])
    others = rng.random(split.labels.shape) < p  # false labels are judged as often as true ones
    judged = sp.csr_array(np.where(split.labels.toarray() > 0, observed.toarray(), others))
    prior = np.asarray(split.labels.sum(axis=0)).ravel() / n
    training = baselines.TrainingData(split.features, observed, p, prior, judged, seed)
    held_out = rng.random(n) < 0.25
    part = replace(training, features=training.features[~held_out], labels=observed[~held_out],
                   judged=judged[~held_out])  # fmt: skip
    for name, method in baselines.METHODS.items():
        values = {}
        for cost in costs:
            top = TopK.from_scores(method(part, cost)(training.features[held_out]), TOP)
            table = evaluate(top, observed[held_out], p, metrics=[METRIC],
                             estimators=["deconvolved"])  # fmt: skip
            values[cost] = table[METRIC, "deconvolved"].value
        best = max(values, key=lambda cost: values[cost])
        top = TopK.from_scores(method(training, best)(split.test_features), TOP)
        yield {"row": RELATED, "family": name, "C": best, "truth": _truth(top, split)}


def _truth(top: TopK, split: Split) -> float:
    table = evaluate(top, split.test_labels, metrics=[METRIC])
    return table[METRIC, "vanilla"].value


def draw(rows: list[Row]) -> list[report.Section]:
    """What was chosen in every setting, and whether the bars hold."""
    related = [row for row in rows if row["row"] == RELATED]
    rows = [row for row in rows if row["row"] != RELATED]
    cells = [_cell(key, part) for key, part in group_rows(rows, "task", "masks").items()]
    text = report.Text(str(__doc__).partition("\n\n")[2])
    return [
        report.Section(
            "Regret", [_picture(cells), text, _table(cells), report.Verdicts(_statements(cells))]
        ),
        report.Section("All candidates", [_best_table(rows)]),
        report.Section("Related work", [_related_table(related)]),
    ]


class Cell(NamedTuple):
    """A data set and masks: what was chosen, and the true R@5 of it, of the best and of vanilla."""

    task: str
    masks: str
    chosen: Row
    best: Row
    vanilla: float

    @property
    def regret(self) -> float:
        """Of all candidates."""
        return max(0.0, float(self.best["truth"] - self.chosen["truth"]))

    @property
    def over_vanilla(self) -> float:
        """How much better than vanilla, tuned."""
        return float(self.chosen["truth"] - self.vanilla)


def _cell(key: tuple[str, str], rows: list[Row]) -> Cell:
    (chosen,) = [row for row in rows if row["row"] == "chosen"]
    (vanilla,) = [row for row in rows if row["row"] == "vanilla, tuned"]
    best = max((row for row in rows if row["row"] == "candidate"), key=lambda row: row["truth"])
    return Cell(*key, chosen, best, vanilla["truth"])


def _picture(cells: list[Cell]) -> report.Panels:
    """The R@5 of the best candidate, of the chosen one and of vanilla, a panel per data set."""
    charts = []
    for task in dict.fromkeys(cell.task for cell in cells):
        own = [cell for cell in cells if cell.task == task]
        masks = [cell.masks for cell in own]
        series = [
            report.Series("best by the truth", masks, [cell.best["truth"] for cell in own],
                          style=STYLES["truth"]),
            report.Series("chosen", masks, [cell.chosen["truth"] for cell in own],
                          style=STYLES["unbiased"]),
            report.Series("vanilla, tuned", masks, [cell.vanilla for cell in own],
                          style=STYLES["vanilla"]),
        ]  # fmt: skip
        charts.append(report.Chart("dots", series, title=task, y="R@5 of true labels"))
    return report.Panels(
        charts, columns=min(2, len(charts)),
        title="What was chosen on noisy rows, beside the best that there was",
        caption="By what is stated of the propensities.",
    )  # fmt: skip


def _table(cells: list[Cell]) -> report.Table:
    body = [
        [f"{cell.task}, {cell.masks}", f"{cell.chosen['family']}, C = {cell.chosen['C']:g}",
         cell.chosen["trusted"], cell.chosen["truth"], cell.best["truth"], cell.regret,
         cell.vanilla, cell.over_vanilla]
        for cell in cells
    ]  # fmt: skip
    columns = ("R@5 of it", "best R@5", "regret", "vanilla, tuned", "over vanilla")
    return report.Table(
        ["data, stated propensities", "chosen", report.Column("trusted", ".2f"),
         *(report.Column(name, ".4f") for name in columns)],
        body,
        title="What was chosen, and its R@5 on true labels",
        caption="Trusted: the share of 1/p − 1 that held-out predictions leave standing; where it "
        "is 0, a bound takes the mean of 1/p for all labels.",
    )  # fmt: skip


def _best_table(rows: list[Row]) -> report.Table:
    names = list(dict.fromkeys(row["family"] for row in rows if row["row"] == "candidate"))
    body: list[list[report.Cell]] = []
    for (task, masks), part in group_rows(rows, "task", "masks").items():
        by_family = group_rows([row for row in part if row["row"] == "candidate"], "family")
        best = [max(r["truth"] for r in by_family[(name,)]) for name in names]
        body.append([f"{task}, {masks}", *best])
    return report.Table(
        ["data, stated propensities", *(report.Column(name, ".4f") for name in names)],
        body,
        title="R@5 on true labels of every training, at the C that hindsight would choose",
    )


def _related_table(rows: list[Row]) -> report.Table:
    body = [[row["family"], row["C"], row["truth"]] for row in rows]
    return report.Table(
        ["method", report.Column("C", "g"), report.Column("R@5", ".4f")],
        body,
        title=f"Other people's procedures on {RELATED_TASK}, right propensities",
        caption="R@5 on true labels of test rows; C chosen by deconvolved R@5 on held-out rows. "
        "Known mask sees the same share of judged false labels, class prior the true frequencies, "
        "which others do not have.",
    )


def _statements(cells: list[Cell]) -> list[report.Verdict]:
    worst = max(cells, key=lambda cell: cell.regret)
    short = [cell for cell in cells if cell.regret > REGRET]
    least = min(cells, key=lambda cell: cell.over_vanilla)
    below = [cell for cell in cells if cell.over_vanilla < -BELOW_VANILLA]
    return [
        statement(
            f"Regret is at most {REGRET} R@5 everywhere", not short,
            f"in {len(cells) - len(short)} of {len(cells)}; largest {worst.regret:.4f} "
            f"({worst.task}, {worst.masks})",
        ),
        statement(
            f"Never more than {BELOW_VANILLA} below vanilla, tuned", not below,
            f"in {len(cells) - len(below)} of {len(cells)}; least {least.over_vanilla:+.4f} "
            f"({least.task}, {least.masks})",
        ),
    ]  # fmt: skip


STUDY = Study("tuning", "choosing correction and C on noisy rows", units, measure, draw)
