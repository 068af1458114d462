"""Choosing the training on noisy rows: how much is lost against choosing by the truth."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from unmask import linear, pages, propensity
from unmask._typing import Floats
from unmask.linear import Recipe, UnconvergedWarning
from unmask.metrics import evaluate
from unmask.models.search import TAUS, Family, families, path
from unmask.models.training import RANKINGS
from unmask.predictions import TopK
from unmask.propensity import MaskModel
from unmask.tuning import tune
from unmask_studies.data import counts_of
from unmask_studies.data import split_of as whole_split_of
from unmask_studies.drawing import chart, table
from unmask_studies.study import DataSets, Drawn, Row, Study, Unit, group_rows, statement

METRIC, TOP, EFFORT = "R@5", 5, 0.5
MASKS = ("right", "half", "twice", "permuted", "Jain", "row effort")
REGRET, BELOW_VANILLA = 0.005, 0.002
LOSSES = ("logistic", "squared_hinge")
# Data sets: folder, labels, and 1/p of the most frequent and the rarest one.
TASKS = {
    "debtags-100": ("debtags-bookworm", 100, 2, 20),
    "debtags-150": ("debtags-bookworm", 150, 2, 20),
    "delicious": ("delicious", 60, 1.5, 8),
    "cooking": ("cooking-stackexchange", 80, 1.5, 8),
}
ROWS = {"tiny": 200, "small": 3000, "paper": 6000}  # training rows at most


class Split(NamedTuple):
    """Features and true labels to train on and to test on, and the propensities."""

    features: sp.csr_array
    labels: sp.csr_array
    test_features: sp.csr_array
    test_labels: sp.csr_array
    p: Floats


@lru_cache(maxsize=1)
def split_of(folder: Path | None, task: str, rows: int, seed: int) -> Split:
    """Return the most frequent labels of a data set, or planted rows where there is none."""
    split = whole_split_of(folder, 2 * rows, seed)
    _, n_labels, head, tail = TASKS[task]
    order = np.argsort(-counts_of(split.train_labels), kind="stable")
    frequent = order[: n_labels if folder else 12]
    chosen = np.sort(np.random.default_rng(seed).permutation(split.train_features.shape[0])[:rows])
    labels = split.train_labels[chosen][:, frequent]
    p = np.asarray(propensity.inverse_linear(labels, head=head, tail=tail))
    test = (split.test_features, split.test_labels[:, frequent])
    return Split(split.train_features[chosen], labels, *test, p)


def observed_of(split: Split, masks: str, seed: int) -> tuple[sp.csr_array, Floats]:
    """Return observed labels, and what is stated of the propensities."""
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
    """Return one unit per data set and masks; planted rows where there are no files."""
    present = {
        name: data.path(task[0]) for name, task in TASKS.items()
        if data and size != "tiny" and task[0] in data.names
    }  # fmt: skip
    return [
        {"folder": present.get(task), "task": task, "masks": masks, "rows": ROWS[size],
         "draw": seed}
        for task in present or ["cooking"] for masks in (MASKS if size != "tiny" else MASKS[:1])
    ]  # fmt: skip


def measure(folder: Path | None, task: str, masks: str, rows: int, draw: int) -> Iterable[Row]:
    """Return a row per candidate with its true R@5, and one for what was chosen.

    The most frequent labels of a data set are taken for the truth and hidden; 1/p is linear in the
    rank of a label. What is stated of p is right, half or twice of it, that of other labels
    (permuted), or Jain's formula; or p is right but labels of a row are lost together (row effort
    0.5). `tune` sees features, observed labels and what is stated. Then every candidate (training,
    ranking and C) is trained on all rows and measured on the true labels of the test rows. *Regret*
    is the best R@5 of all candidates less that of the chosen one. *Vanilla, tuned* is the vanilla
    training with the largest R@5 on observed held-out labels, which is what one has without any
    propensities. Trusted is the share of 1/p − 1 that held-out predictions leave standing; where it
    is 0, a bound takes the mean of 1/p for all labels.

    Empirical Bayes ranked by probability / propensity, which corrects twice, is no candidate. With
    Jain's propensities, too high here, it is better by up to 0.008 than all others; with right ones
    worse by up to 0.06. No observed label tells which (docs/decisions/0017).
    """
    split = split_of(folder, task, rows, draw)
    observed, stated = observed_of(split, masks, draw)
    costs = (0.3,) if folder is None else None

    def truth(top: TopK) -> float:
        return evaluate(top, split.test_labels, metrics=[METRIC])[METRIC, "vanilla"].value

    options: dict[str, Any] = {"seed": draw, "costs": costs, "losses": LOSSES}
    best = tune(split.features, observed, stated, METRIC, **options)
    yield {
        "row": "chosen", "truth": truth(best.predict_top(split.test_features, TOP)),
        "family": best.chosen.family.name, "C": best.recipe.C, "because": best.because.value,
        "trusted": best.trust.tau, "judged_by": best.judged_by,
        "independent": best.trust.independent, "estimate": best.chosen.judged.value,
    }  # fmt: skip
    plain = tune(split.features, observed, None, METRIC, **options)
    yield {"row": "vanilla, tuned", "truth": truth(plain.predict_top(split.test_features, TOP))}
    by_training: dict[Family, list[Family]] = {}
    for family in families(LOSSES, TAUS, RANKINGS, stated):
        by_training.setdefault(family.trained, []).append(family)
    for trained, ranked in by_training.items():
        model = None  # at every C it starts from the one before
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
                    "rank_by": family.rank_by, "C": cost, "truth": truth(top),
                }  # fmt: skip


def cells_of(rows: list[Row]) -> list[Row]:
    """Return what was chosen per data set and masks, beside the best candidate and vanilla."""
    cells = []
    for key, part in group_rows(rows, "task", "masks").items():
        by = {kind: own for (kind,), own in group_rows(part, "row").items()}
        if "chosen" in by:
            best = max(row["truth"] for row in by["candidate"])
            vanilla = by["vanilla, tuned"][0]["truth"]
            (chosen,) = by["chosen"]
            cells.append({
                **chosen, "name": ", ".join(key), "best": best, "vanilla": vanilla,
                "regret": max(0.0, best - chosen["truth"]),
                "over_vanilla": chosen["truth"] - vanilla,
            })  # fmt: skip
    return cells


def draw(rows: list[Row]) -> Drawn:
    """Return what was chosen in every setting, whether the bars hold, and all candidates."""
    cells = cells_of(rows)
    series = {"best by the truth": "best", "chosen": "truth", "vanilla, tuned": "vanilla"}
    styles = dict(zip(series, ("truth", "unbiased", "vanilla"), strict=True))
    panels = [
        chart("dots", {name: {c["masks"]: c[key] for c in own} for name, key in series.items()},
              title=task, y="R@5 of true labels", styles=styles)
        for (task,), own in group_rows(cells, "task").items()
    ]  # fmt: skip
    figure = pages.Panels(
        panels, columns=min(2, len(panels)), caption="By what is stated of the propensities.",
        title="What was chosen on noisy rows, beside the best that there was",
    )  # fmt: skip
    worst, least = (
        max(cells, key=lambda c: c["regret"]),
        min(cells, key=lambda c: c["over_vanilla"]),
    )
    small = sum(c["regret"] <= REGRET for c in cells)
    above = sum(c["over_vanilla"] >= -BELOW_VANILLA for c in cells)
    claims = [
        statement(
            f"Regret is at most {REGRET} R@5 everywhere", small == len(cells),
            f"in {small} of {len(cells)}; largest {worst['regret']:.4f} ({worst['name']})",
        ),
        statement(
            f"Never more than {BELOW_VANILLA} below vanilla, tuned", above == len(cells),
            f"in {above} of {len(cells)}; least {least['over_vanilla']:+.4f} ({least['name']})",
        ),
    ]  # fmt: skip
    columns = {"trusted": "trusted", "R@5 of it": "truth", "best R@5": "best", "regret": "regret",
               "vanilla, tuned": "vanilla", "over vanilla": "over_vanilla"}  # fmt: skip
    chosen = table(
        "What was chosen, and its R@5 on true labels",
        {"data, stated propensities": "", "chosen": "", **dict.fromkeys(columns, ".4f")},
        [[c["name"], f"{c['family']}, C = {c['C']:g}", *(c[key] for key in columns.values())]
         for c in cells],
    )  # fmt: skip
    candidates = [row for row in rows if row["row"] == "candidate"]
    names = dict.fromkeys(row["family"] for row in candidates)
    lines = [
        [", ".join(key), *(max(row["truth"] for row in part if row["family"] == name)
                           for name in names)]
        for key, part in group_rows(candidates, "task", "masks").items()
    ]  # fmt: skip
    title = "R@5 on true labels of every training, at the C that hindsight would choose"
    heads = {"data, stated propensities": "", **dict.fromkeys(names, ".4f")}
    every = table(title, heads, lines)
    return Drawn([figure], claims, [chosen, every])


def answer(rows: list[Row]) -> str:
    """Return how large regrets are."""
    regrets = [cell["regret"] for cell in cells_of(rows)]
    return (
        f"At most {REGRET} in R@5 in {sum(r <= REGRET for r in regrets)} of {len(regrets)} cases, "
        f"{np.mean(regrets):.4f} on average and {max(regrets):.4f} at most."
    )


TUNING = Study(
    "tuning", "Choosing the training on noisy rows",
    "What is lost when correction and C are chosen on rows that miss labels, too?",
    units, measure, draw, answer,
)  # fmt: skip
STUDIES = (TUNING,)
