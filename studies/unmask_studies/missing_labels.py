"""Which labels are missing: how good findings are, what confirming them is worth, and training.

Labels of real text collections are taken for the truth and hidden in the training rows; 1/p is
linear in the rank of a label. *Findings* are made by completed training, in two rounds, and ranked
against plain scores (a model that takes labels as they are, out of fold), the scores of cleanlab
(where it is installed) made of the same probabilities, and label frequency. Masks are those that
are stated (`right`), or not: labels of a row are lost together, obvious labels are recorded more
often, all propensities are twice too high. `calibration error` is the mean of |stated − true share|
over the expected findings, in ten bins. At most 2,100 training rows: little for two rounds.

*Confirming*: the first 500 findings are judged by the truth, or 500 random pairs that are not
observed, and a plain model is trained on the repaired labels; R@5 of the test rows, by the truth.

*Training*: repetitions with splits and masks of their own; every method at the l2 that is best by
deconvolved R@5 of validation rows whose labels are hidden, too; R@1, R@3 and R@5 by the truth.
Completed training is normalised, which is for recall. It has a tenth of the l2 of unbiased training
and none chosen for itself: choosing it on noisy rows lost more than it gained (0.1 to 0.3 points of
R@5). Of finna, whose labels are rare, 40,000 rows and 500 labels are trained on once; four of five
rows have none of these labels, hence recall is low.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from unmask import data, linear, missing, report
from unmask._sparse import entry_rows
from unmask._typing import Floats, Ints
from unmask.linear.completed import STRONGER
from unmask.metrics import evaluate
from unmask_studies.mask_scenarios import SCENARIOS, Masked, Scenario, Setting, by_score, effort
from unmask_studies.runs import DataSets, Row, Study, Unit, group_rows, statement
from unmask_studies.training.protocol import Trial, trial

COLLECTIONS = {
    "debtags-bookworm": (100, 2.0, 20.0, 1e-5),
    "delicious": (60, 1.5, 8.0, 1e-4),
    "cooking-stackexchange": (80, 1.5, 8.0, 1e-5),
    "finna-yso-en": (500, 1.5, 8.0, 1e-6),
}
"""Labels, 1/p of the most frequent and of the rarest, and the middle of the grid of l2."""
LARGE = {"finna-yso-en": 40_000}
"""Collections that are only trained on, once, and at most how many of their rows."""
PLANTED = (20, 1.5, 5.0, 1e-3)
MASKS: dict[str, Scenario] = {
    "right": SCENARIOS["right"],
    "row effort 0.5": effort(0.5),
    "score slope 1": by_score(1.0),
    "propensities × 2": lambda setting: _twice(setting),
}
WAYS = ("completed", "plain scores", "cleanlab", "frequency")
DEPTHS = (100, 1000)
CONFIRMED = 500
GRID: dict[str, tuple[float, ...]] = {
    "vanilla": (3.0, 1.0, 0.3),
    "unbiased": (30.0, 10.0, 3.0, 1.0),
    "clean": (3.0, 1.0, 0.3),
}
"""l2 that are tried, in units of one for each collection."""
METRICS = ("R@1", "R@3", "R@5")
TRAINED = ("vanilla", "unbiased", "completed", "clean")
SIZES = {"tiny": (1, 400, 400), "small": (1, 4000, 4000), "paper": (5, 3000, None)}
"""Repetitions of training, and at most how many rows for findings and for training."""
FEWER = 2
"""Repetitions on collections other than the first."""


def _twice(setting: Setting) -> Masked:
    masked = SCENARIOS["right"](setting)
    return replace(masked, stated=np.minimum(2 * masked.stated, 1.0))


def units(size: str, seed: int, data: DataSets | None) -> list[Unit]:
    """A unit per collection and mask of findings, and per collection and repetition of training."""
    repetitions, few, n = SIZES[size]
    names = [name for name in COLLECTIONS if data and name in data.names and size != "tiny"]
    folders: list[Path | None] = [data.path(name) for name in names] if data else []
    listed = []
    for folder in folders or [None]:
        shared = {"folder": folder, "seed": seed}
        if folder is not None and folder.name in LARGE:
            most = min(n or LARGE[folder.name], LARGE[folder.name])
            once = {"n": most, "part": "training", "masks": "right", "draw": 0}
            listed.append(shared | once)
            continue
        masks = list(MASKS)[:1] if size == "tiny" else list(MASKS)
        listed += [
            shared | {"n": few, "part": "findings", "masks": mask, "draw": 0} for mask in masks
        ]
        listed += [
            shared | {"n": n, "part": "training", "masks": "right", "draw": draw}
            for draw in range(repetitions if folder in folders[:1] else min(FEWER, repetitions))
        ]
    return listed


def measure(
    folder: Path | None, n: int | None, seed: int, part: str, masks: str, draw: int
) -> Iterable[Row]:
    """Rows of one unit."""
    return PARTS[part](folder, n, seed, masks, draw)


def _settings(folder: Path | None) -> tuple[int, float, float, float]:
    return PLANTED if folder is None else COLLECTIONS[folder.name]


def _trial(folder: Path | None, draw: int, seed: int, n: int | None) -> Trial:
    labels, head, tail, _ = _settings(folder)
    return trial(folder, draw, seed, n, labels, head, tail)


def _recipe(l2: float) -> linear.Recipe:
    return linear.Recipe("logistic", correction=None, l2=l2)


def _findings(folder: Path | None, n: int | None, seed: int, masks: str, draw: int) -> list[Row]:
    part, l2 = _trial(folder, draw, seed, n), _settings(folder)[3]
    true, features, p = part.train.true, part.train.features, part.propensity
    scores = _plain(features, true, l2)
    rng = np.random.default_rng([seed, draw, len(masks)])
    own = entry_rows(true)
    setting = Setting(true, np.asarray(p), scores[own, true.indices], np.arange(p.size), rng)
    masked = MASKS[masks](setting)
    observed, stated = masked.observed, masked.stated
    completed = linear.completion(features, observed, stated, _recipe(l2), rounds=2)
    hidden = sp.csr_array(true - observed).toarray() > 0
    plain = _plain(features, observed, l2)
    rankings = {
        "completed": completed.probabilities,
        "plain scores": plain,
        "cleanlab": _by_cleanlab(observed, plain),
        "frequency": np.tile(observed.sum(axis=0) / observed.shape[0], (observed.shape[0], 1)),
    }
    listed = missing.find(completed.probabilities, observed, stated, top=true.nnz)
    count = min(round(listed.expected), len(listed))
    rows: list[Row] = []
    for way, values in rankings.items():
        if values is None:
            continue
        right = _right(way, values, observed, stated, hidden, count)
        depths = {f"precision@{k}": float(right[:k].mean()) for k in DEPTHS if k <= right.size}
        row: Row = {"way": way, **depths, "precision@expected": float(right[:count].mean())}
        if way == "completed":
            stages = {"stage": completed.stage, "penalty": completed.penalty}
            error = _calibration_error(listed.probability[:count], right[:count])
            row |= {"calibration": error, "expected": listed.expected, **stages}
        rows.append(row | {"missing": int(hidden.sum())})
    if masks == "right":
        rows += _confirmed(part, observed, listed, rng, l2)
    return rows


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


def _right(
    way: str, values: Floats | sp.csr_array, observed: sp.csr_array, stated: Floats,
    hidden: np.ndarray, count: int,
) -> Floats:  # fmt: skip
    """1 for every truly missing pair, in the order of a ranking."""
    most = max(count, *DEPTHS)
    if way == "completed":
        listed = missing.find(values, observed, stated, top=most)
        return hidden[listed.rows, listed.labels].astype(float)
    chances = np.where(observed.toarray() > 0, -1.0, np.asarray(values))
    order = np.argsort(-chances, axis=None, kind="stable")[:most]
    return hidden.ravel()[order].astype(float)


def _calibration_error(stated: Floats, right: Floats) -> float:
    parts = np.array_split(np.arange(stated.size), 10)
    errors = [abs(stated[part].mean() - right[part].mean()) * part.size for part in parts]
    return float(sum(errors) / max(stated.size, 1))


def _confirmed(
    part: Trial, observed: sp.csr_array, findings: missing.Findings,
    rng: np.random.Generator, l2: float,
) -> Iterator[Row]:  # fmt: skip
    """R@5 by the truth after confirming findings, random pairs, or nothing."""
    true = part.train.true.toarray()
    n, width = true.shape
    first = findings.first(min(CONFIRMED, len(findings)))
    free = np.flatnonzero(observed.toarray().ravel() == 0)
    drawn = rng.choice(free, len(first), replace=False)
    plain = data.Dataset(part.train.features, observed)
    choices: dict[str, tuple[Ints, Ints] | None] = {
        "nothing": None,
        "500 random pairs": (drawn // width, drawn % width),
        "500 findings": (first.rows, first.labels),
    }
    for name, pairs in choices.items():
        rows = plain
        confirmed = 0
        if pairs is not None:
            answers = true[pairs].astype(float)
            confirmed = int(answers.sum())
            chances = np.full(answers.size, np.nan)
            reviewed = missing.Reviewed(pairs[0], pairs[1], answers, chances, (n, width))
            rows = missing.complete(plain, reviewed).dataset
        recipe = linear.Recipe("logistic", l2=l2)
        model, _ = linear.train(part.train.features, rows, recipe)
        yield {"way": name, "confirmed": confirmed, **_truth(part, model)}


def _truth(part: Trial, model: linear.LinearModel) -> dict[str, float]:
    test = part.parts["test"]
    top = linear.predict_top(model, test.features, 5)
    table = evaluate(top, test.true, metrics=list(METRICS))
    return {name: table[name, "vanilla"].value for name in METRICS}


def _training(folder: Path | None, n: int | None, seed: int, masks: str, draw: int) -> list[Row]:
    part, own = _trial(folder, draw, seed, n), _settings(folder)[3]
    rows = []
    chosen: dict[str, float] = {}
    for way in TRAINED:
        if way == "completed":
            chosen[way] = chosen["unbiased"] / STRONGER
            model = _trained(part, way, chosen[way])
        else:
            models = {own * factor: _trained(part, way, own * factor) for factor in GRID[way]}
            chosen[way] = max(models, key=lambda l2: _noisy(part, models[l2], way))
            model = models[chosen[way]]
        rows.append({"way": way, "l2": chosen[way], **_truth(part, model)})
    return rows


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
    table = evaluate(
        top, valid.observed, part.propensity, metrics=["R@5"], estimators=["deconvolved"]
    )
    return float(table["R@5", "deconvolved"].value)


PARTS = {"findings": _findings, "training": _training}


def draw(rows: list[Row]) -> list[report.Section]:
    """Tables of findings, of confirming and of training, and whether the bars hold."""
    findings = [row for row in rows if row["part"] == "findings" and row["way"] in WAYS]
    confirmed = [row for row in rows if row["part"] == "findings" and row["way"] not in WAYS]
    training = [row for row in rows if row["part"] == "training"]
    text = report.Text(str(__doc__).partition("\n\n")[2])
    return [
        report.Section(
            "Findings",
            [_picture(findings), text, _table(findings), report.Verdicts(_bars(findings))],
        ),
        report.Section("Confirming", [_worth(confirmed), report.Verdicts(_worth_bars(confirmed))]),
        report.Section(
            "Training", [_trained_table(training), report.Verdicts(_training_bars(training))]
        ),
    ]


def _place(folder: str | None) -> str:
    return folder or "planted"


def _picture(rows: list[Row]) -> report.Chart:
    """Precision of the first findings where propensities are right, by ranking."""
    deepest = [d for d in DEPTHS if all(f"precision@{d}" in row for row in rows)]
    name = f"precision@{deepest[-1]}" if deepest else "precision@expected"
    right = [row for row in rows if row["masks"] == "right"]
    series = [
        report.Series(way, [_place(row["folder"]) for row in own], [row[name] for row in own])
        for (way,), own in group_rows(right, "way").items()
    ]
    return report.Chart(
        "dots", series, title="How many of the first findings are truly missing",
        y=report.Axis(name, low=0.0, high=1.0),
        caption="Propensities as they are; every ranking lists pairs that are not observed.",
    )  # fmt: skip


def _table(rows: list[Row]) -> report.Table:
    columns = [f"precision@{depth}" for depth in (*DEPTHS, "expected")]
    return report.Table(
        ["data, masks", "ranking", *(report.Column(name, ".3f") for name in columns),
         report.Column("calibration error", ".3f"), report.Column("expected", ",.0f"),
         report.Column("truly missing", ",.0f")],
        [
            [f"{_place(row['folder'])}, {row['masks']}", row["way"],
             *(row.get(name) for name in columns), row.get("calibration"), row.get("expected"),
             row["missing"]]
            for row in rows
        ],
        title="Share of the first findings that are truly missing",
    )  # fmt: skip


def _bars(rows: list[Row]) -> list[report.Verdict]:
    own = {(_place(row["folder"]), row["masks"], row["way"]): row for row in rows}
    right = {
        key[0]: row["calibration"] for key, row in own.items() if key[1:] == ("right", "completed")
    }
    said = ", ".join(f"{name} {value:.3f}" for name, value in right.items())
    verdicts = [
        statement("calibration error ≤ 0.05 where p is right", max(right.values()) <= 0.05, said)
    ]
    for name in ("precision@1000", "precision@expected"):
        worse = [
            f"{key[0]}, {key[1]}: {key[2]}"
            for key, row in own.items()
            if key[2] != "completed"
            and (row.get(name) or 0) > (own[(*key[:2], "completed")].get(name) or 0)
        ]
        verdicts.append(
            statement(f"{name}: no other ranking is better", not worse, "; ".join(worse) or "none")
        )
    return verdicts


def _worth(rows: list[Row]) -> report.Table:
    return report.Table(
        ["data", "confirmed", report.Column("labels added", ",.0f"),
         *(report.Column(name, ".4f") for name in METRICS)],
        [[_place(row["folder"]), row["way"], row["confirmed"], *(row[name] for name in METRICS)]
         for row in rows],
        title="True recall of the test rows after confirming pairs of the training rows",
    )  # fmt: skip


def _worth_bars(rows: list[Row]) -> list[report.Verdict]:
    gains = {}
    for (folder,), part in group_rows(rows, "folder").items():
        by = {row["way"]: row["R@5"] for row in part}
        gains[_place(folder)] = by["500 findings"] - by["500 random pairs"]
    said = ", ".join(f"{name} {gain:+.4f}" for name, gain in gains.items())
    claim = "R@5 is higher after 500 findings than after 500 random pairs"
    return [statement(claim, min(gains.values()) > 0, said)]


def _trained_table(rows: list[Row]) -> report.Table:
    body: list[list[report.Cell]] = []
    for (folder, way), part in group_rows(rows, "folder", "way").items():
        means = [float(np.mean([row[name] for row in part])) for name in METRICS]
        spread = float(np.std([row["R@5"] for row in part]))
        body.append([_place(folder), way, len(part), *means, spread])
    return report.Table(
        ["data", "training", "repetitions", *(report.Column(name, ".4f") for name in METRICS),
         report.Column("sd of R@5", ".4f")],
        body,
        title="True recall of the test rows, means over repetitions",
    )  # fmt: skip


def _training_bars(rows: list[Row]) -> list[report.Verdict]:
    verdicts = []
    for (folder,), part in group_rows(rows, "folder").items():
        by = {way: np.array([row["R@5"] for row in part if row["way"] == way]) for way in TRAINED}
        gain = 100 * (by["completed"] - by["unbiased"])
        bar = 0.5 if folder == "debtags-bookworm" else 0.0
        said = f"by {', '.join(f'{each:+.2f}' for each in gain)} points of R@5"
        claim = f"{_place(folder)}: completed above tuned unbiased by {bar:g} in every repetition"
        verdicts.append(statement(claim, bool(gain.min() > bar), said))
    return verdicts


STUDY = Study("missing", "which labels are missing, and completed training", units, measure, draw)
