"""Which labels are missing: how good findings are, what confirming them is worth, and training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from unmask import data, linear, missing, pages
from unmask._typing import Bools, Floats, Ints
from unmask.arrays.checks import entry_rows
from unmask.metrics import evaluate
from unmask.models.completed import STRONGER
from unmask_studies.drawing import chart, mean, table
from unmask_studies.scenarios import SCENARIOS, Setting, by_score, effort
from unmask_studies.study import (
    DataSets,
    Drawn,
    Row,
    Study,
    Unit,
    folders,
    group_rows,
    statement,
)
from unmask_studies.training.protocol import Trial, trial

# Labels, 1/p of the most frequent and of the rarest, and the middle of the grid of l2.
COLLECTIONS = {
    "debtags-bookworm": (100, 2.0, 20.0, 1e-5),
    "delicious": (60, 1.5, 8.0, 1e-4),
    "cooking-stackexchange": (80, 1.5, 8.0, 1e-5),
    "finna-yso-en": (500, 1.5, 8.0, 1e-6),
}
PLANTED = (20, 1.5, 5.0, 1e-3)
LARGE = {"finna-yso-en": 40_000}  # only trained on, once, on so many rows at most
MASKS = {
    "right": SCENARIOS["right"],
    "row effort 0.5": effort(0.5),
    "score slope 1": by_score(1.0),
    "propensities × 2": SCENARIOS["p × 2 stated"],
}
WAYS = ("completed", "plain scores", "cleanlab", "frequency")
DEPTHS = (100, 1000)
CONFIRMED = 500
# l2 that are tried, in units of one for each collection.
GRID = {"vanilla": (3.0, 1.0, 0.3), "unbiased": (30.0, 10.0, 3.0, 1.0), "clean": (3.0, 1.0, 0.3)}
METRICS = ("R@1", "R@3", "R@5")
TRAINED = ("vanilla", "unbiased", "completed", "clean")
SIZES = {"tiny": (1, 400, 400), "small": (1, 4000, 4000), "paper": (5, 3000, None)}
# Repetitions of training, and at most how many rows for findings and for training.
FEWER = 2  # repetitions on collections other than the first


def units(size: str, seed: int, data: DataSets | None) -> list[Unit]:
    """Return a unit per collection and mask of findings, and per repetition of training."""
    repetitions, few, n = SIZES[size]
    present = folders(data, size, COLLECTIONS)
    planned: list[tuple[Path | None, str, int | None, str, int]] = []
    for folder in present:
        if folder is not None and folder.name in LARGE:
            most = min(n or LARGE[folder.name], LARGE[folder.name])
            planned.append((folder, "training", most, "right", 0))
            continue
        masks = list(MASKS)[:1] if size == "tiny" else list(MASKS)
        planned += [(folder, "findings", few, mask, 0) for mask in masks]
        count = repetitions if folder in present[:1] else min(FEWER, repetitions)
        planned += [(folder, "training", n, "right", draw) for draw in range(count)]
    return [
        {"folder": folder, "seed": seed, "n": rows, "part": part, "masks": masks, "draw": draw}
        for folder, part, rows, masks, draw in planned
    ]


def measure(
    folder: Path | None, n: int | None, seed: int, part: str, masks: str, draw: int
) -> Iterable[Row]:
    """Return precisions of findings, or true recall of trainings.

    Labels of real text collections are taken for the truth and hidden in the training rows; 1/p is
    linear in the rank of a label. *Findings* are made by completed training, in two rounds, and
    ranked against plain scores (a model that takes labels as they are, out of fold), the scores of
    cleanlab (where it is installed) made of the same probabilities, and label frequency. Masks are
    those that are stated (`right`), or not: labels of a row are lost together, obvious labels are
    recorded more often, all propensities are twice too high. `calibration error` is the mean of
    |stated − true share| over the expected findings, in ten bins. At most 2,100 training rows:
    little for two rounds.

    *Confirming*: the first 500 findings are judged by the truth, or 500 random pairs that are not
    observed, and a plain model is trained on the repaired labels; R@5 of the test rows, by the
    truth.

    *Training*: repetitions with splits and masks of their own; every method at the l2 that is best
    by deconvolved R@5 of validation rows whose labels are hidden, too; R@1, R@3 and R@5 by the
    truth. Completed training is normalised, which is for recall. It has a tenth of the l2 of
    unbiased training and none chosen for itself: choosing it on noisy rows lost more than it gained
    (0.1 to 0.3 points of R@5). Of finna, whose labels are rare, 40,000 rows and 500 labels are
    trained on once; four of five rows have none of these labels, hence recall is low.
    """
    labels, head, tail, l2 = PLANTED if folder is None else COLLECTIONS[folder.name]
    rows = trial(folder, draw, seed, n, labels, head, tail)
    if part == "findings":
        return _findings(rows, l2, masks, np.random.default_rng([seed, draw, len(masks)]))
    return _training(rows, l2)


def _findings(part: Trial, l2: float, masks: str, rng: np.random.Generator) -> Iterator[Row]:
    true, features, p = part.train.true, part.train.features, np.asarray(part.propensity)
    scores = _plain(features, true, l2)[entry_rows(true), true.indices]
    masked = MASKS[masks](Setting(true, p, scores, np.arange(p.size), rng))
    observed, stated = masked.observed, masked.stated
    recipe = linear.Recipe("logistic", correction=None, l2=l2)
    completed = linear.completion(features, observed, stated, recipe, rounds=2)
    hidden = sp.csr_array(true - observed).toarray() > 0
    plain = _plain(features, observed, l2)
    n = observed.shape[0]
    rankings: dict[str, Floats | None] = {
        "plain scores": plain,
        "cleanlab": _by_cleanlab(observed, plain),
        "frequency": np.tile(observed.sum(axis=0) / n, (n, 1)),
    }
    listed = missing.find(completed.probabilities, observed, stated, top=true.nnz)
    count = min(round(listed.expected), len(listed))
    most = max(count, *DEPTHS)
    first = missing.find(completed.probabilities, observed, stated, top=most)
    right = {"completed": hidden[first.rows, first.labels].astype(float)}
    for way, values in rankings.items():
        if values is not None:
            right[way] = _right(values, observed, hidden, most)
    for way, answers in right.items():
        row: Row = {
            f"precision@{k}": float(answers[:k].mean()) for k in DEPTHS if k <= answers.size
        }
        row |= {"way": way, "precision@expected": float(answers[:count].mean())}
        if way == "completed":
            bins = np.array_split(np.arange(count), 10)
            chances = listed.probability
            errors = (abs(chances[b].mean() - answers[b].mean()) * b.size for b in bins)
            row |= {"calibration": float(sum(errors) / max(count, 1)), "expected": listed.expected,
                    "stage": completed.stage, "penalty": completed.penalty}  # fmt: skip
        yield {**row, "missing": int(hidden.sum())}
    if masks == "right":
        yield from _confirmed(part, observed, listed, rng, l2)


def _plain(features: sp.csr_array, labels: sp.csr_array, l2: float) -> Floats:
    """Probabilities of a model that takes labels as they are, out of fold."""
    fold = np.random.default_rng(0).integers(3, size=features.shape[0])
    out = np.empty(labels.shape)
    for number in range(3):
        others, own = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        recipe = linear.Recipe("logistic", l2=l2)
        model, _ = linear.train(features[others], labels[others], recipe)
        out[own] = linear.probabilities(model, features[own])
    return out


def _by_cleanlab(labels: sp.csr_array, chances: Floats) -> Floats | None:
    """1 − the label quality of cleanlab, by confident thresholds per label; None without it."""
    try:
        from cleanlab.multilabel_classification import rank
    except ImportError:
        return None
    lists = [labels.indices[a:b].tolist() for a, b in pairwise(labels.indptr)]
    quality = rank.get_label_quality_scores_per_class(lists, chances, adjust_pred_probs=True)
    return np.clip(1.0 - np.asarray(quality), 0.0, 1.0)


def _right(values: Floats, observed: sp.csr_array, hidden: Bools, most: int) -> Floats:
    """1 for every truly missing pair, in the order of a ranking."""
    chances = np.where(observed.toarray() > 0, -1.0, values)
    order = np.argsort(-chances, axis=None, kind="stable")[:most]
    return hidden.ravel()[order].astype(float)


def _confirmed(
    part: Trial, observed: sp.csr_array, findings: missing.Findings, rng: np.random.Generator,
    l2: float,
) -> Iterator[Row]:  # fmt: skip
    """R@5 by the truth after confirming findings, random pairs, or nothing."""
    true = part.train.true.toarray()
    width = true.shape[1]
    first = findings.first(min(CONFIRMED, len(findings)))
    free = np.flatnonzero(observed.toarray().ravel() == 0)
    drawn = rng.choice(free, len(first), replace=False)
    rows = data.Dataset(part.train.features, observed)
    pairs: dict[str, tuple[Ints, Ints] | None] = {
        "nothing": None,
        "500 random pairs": (drawn // width, drawn % width),
        "500 findings": (first.rows, first.labels),
    }
    for name, chosen in pairs.items():
        repaired, confirmed = rows, 0
        if chosen is not None:
            answers = true[chosen].astype(float)
            confirmed = int(answers.sum())
            unknown = np.full(answers.size, np.nan)
            reviewed = missing.Reviewed(*chosen, answers, unknown, true.shape)
            repaired = missing.complete(rows, reviewed).dataset
        model, _ = linear.train(part.train.features, repaired, linear.Recipe("logistic", l2=l2))
        yield {"way": name, "confirmed": confirmed, **_truth(part, model)}


def _truth(part: Trial, model: linear.LinearModel) -> dict[str, float]:
    test = part.parts["test"]
    found = evaluate(linear.predict_top(model, test.features, 5), test.true, metrics=list(METRICS))
    return {name: found[name, "vanilla"].value for name in METRICS}


def _training(part: Trial, middle: float) -> Iterator[Row]:
    chosen: dict[str, float] = {}
    for way in TRAINED:
        grid = [middle * factor for factor in GRID.get(way, ())] or [chosen["unbiased"] / STRONGER]
        models = {l2: _trained(part, way, l2) for l2 in grid}
        chosen[way] = max(models, key=lambda l2: _noisy(part, models[l2], way))
        yield {"way": way, "l2": chosen[way], **_truth(part, models[chosen[way]])}


def _trained(part: Trial, way: str, l2: float) -> linear.LinearModel:
    labels = part.train.true if way == "clean" else part.train.observed
    correction = "vanilla" if way == "clean" else way
    recipe = linear.Recipe("logistic", correction=correction, l2=l2, normalized=way == "completed")
    p = None if correction == "vanilla" else part.propensity
    return linear.train(part.train.features, labels, recipe, propensity=p)[0]


def _noisy(part: Trial, model: linear.LinearModel, way: str) -> float:
    """Deconvolved R@5 of the validation rows as they were left; of clean training, by the truth."""
    valid = part.parts["valid"]
    top = linear.predict_top(model, valid.features, 5)
    if way == "clean":
        return float(evaluate(top, valid.true, metrics=["R@5"])["R@5", "vanilla"].value)
    found = evaluate(
        top, valid.observed, part.propensity, metrics=["R@5"], estimators=["deconvolved"]
    )
    return float(found["R@5", "deconvolved"].value)


def draw(rows: list[Row]) -> Drawn:
    """Return the precision of findings, the worth of confirming and of training, and the bars."""
    rows = [{**row, "data": row["folder"] or "planted"} for row in rows]
    findings = [row for row in rows if row["part"] == "findings" and row["way"] in WAYS]
    confirmed = [row for row in rows if row["part"] == "findings" and row["way"] not in WAYS]
    training = [row for row in rows if row["part"] == "training"]
    deepest = [d for d in DEPTHS if all(f"precision@{d}" in row for row in findings)]
    name = f"precision@{deepest[-1]}" if deepest else "precision@expected"
    points: dict[str, dict[str, float]] = {}
    for row in findings:
        if row["masks"] == "right":
            points.setdefault(row["way"], {})[row["data"]] = row[name]
    figure = chart(
        "dots", points, title="How many of the first findings are truly missing",
        y=pages.Axis(name, low=0.0, high=1.0),
        caption="Propensities as they are; every ranking lists pairs that are not observed.",
    )  # fmt: skip
    columns = [f"precision@{depth}" for depth in (*DEPTHS, "expected")]
    columns += ["calibration", "expected", "missing"]
    recalls = dict.fromkeys(METRICS, ".4f")
    tables = [
        table("Share of the first findings that are truly missing",
              {"data, masks": "", "ranking": "", **dict.fromkeys(columns[:4], ".3f"),
               "expected": ",.0f", "truly missing": ",.0f"},
              [[f"{row['data']}, {row['masks']}", row["way"], *map(row.get, columns)]
               for row in findings]),
        table("True recall of the test rows after confirming pairs of the training rows",
              {"data": "", "confirmed": "", "labels added": ",.0f", **recalls},
              [[row[key] for key in ("data", "way", "confirmed", *METRICS)] for row in confirmed]),
        table("True recall of the test rows, means over repetitions",
              {"data": "", "training": "", "repetitions": "", **recalls, "sd of R@5": ".4f"},
              [[*key, len(part), *(mean(part, metric) for metric in METRICS),
                float(np.std([row["R@5"] for row in part]))]
               for key, part in group_rows(training, "data", "way").items()]),
    ]  # fmt: skip
    return Drawn([figure], _claims(findings, confirmed, training), tables)


def _claims(findings: list[Row], confirmed: list[Row], training: list[Row]) -> list[pages.Verdict]:
    own: dict[tuple[Any, ...], Row] = {
        (row["data"], row["masks"], row["way"]): row for row in findings
    }
    right = {key[0]: row["calibration"] for key, row in own.items()
             if key[1:] == ("right", "completed")}  # fmt: skip
    claims = [statement(
        "calibration error ≤ 0.05 where p is right", max(right.values()) <= 0.05,
        ", ".join(f"{name} {value:.3f}" for name, value in right.items()),
    )]  # fmt: skip
    for name in ("precision@1000", "precision@expected"):
        worse = [
            f"{key[0]}, {key[1]}: {key[2]}" for key, row in own.items()
            if (row.get(name) or 0) > (own[(*key[:2], "completed")].get(name) or 0)
        ]  # fmt: skip
        said = "; ".join(worse) or "none"
        claims.append(statement(f"{name}: no other ranking is better", not worse, said))
    recall = {(row["data"], row["way"]): row["R@5"] for row in confirmed}
    gains = {name: value - recall[name, "500 random pairs"]
             for (name, way), value in recall.items() if way == "500 findings"}  # fmt: skip
    claims.append(statement(
        "R@5 is higher after 500 findings than after 500 random pairs", min(gains.values()) > 0,
        ", ".join(f"{name} {gain:+.4f}" for name, gain in gains.items()),
    ))  # fmt: skip
    for (name,), part in group_rows(training, "data").items():
        by = {way: np.array([row["R@5"] for row in part if row["way"] == way]) for way in TRAINED}
        gain = 100 * (by["completed"] - by["unbiased"])
        bar = 0.5 if name == "debtags-bookworm" else 0.0
        claims.append(statement(
            f"{name}: completed above tuned unbiased by {bar:g} in every repetition",
            bool(gain.min() > bar),
            f"by {', '.join(f'{each:+.2f}' for each in gain)} points of R@5",
        ))  # fmt: skip
    return claims


def answer(rows: list[Row]) -> str:
    """Return the precision of the first 1,000 findings and the gain of completed training."""
    own = [row for row in rows if (row["part"], row["way"]) == ("findings", "completed")]
    shares = {row["folder"]: row.get("precision@1000") for row in own if row["masks"] == "right"}
    of = {way: [row for row in rows if row["part"] == "training" and row["way"] == way]
          for way in TRAINED}  # fmt: skip
    gain = 100 * ((mean(of["completed"], "R@5") or 0) - (mean(of["unbiased"], "R@5") or 0))
    said = ", ".join(f"{share:.0%} ({name})" for name, share in shares.items() if share and name)
    findings = (
        f"Of the first 1,000 findings {said} are truly missing; completed" if said else "Completed"
    )
    return f"{findings} training recalls {gain:+.1f} points of R@5 over tuned unbiased training."


MISSING = Study(
    "missing", "Which labels are missing?",
    "Can the missing labels be named, and does that train better models?",
    units, measure, draw, answer,
)  # fmt: skip
STUDIES = (MISSING,)
