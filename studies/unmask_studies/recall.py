"""Recall when labels are missing: by hand, simulated, on real data, row by row, and its variance.

Five studies of one question, how far an estimate of recall is off, and what it costs in variance.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from unmask import data, pages, propensity
from unmask._typing import Floats
from unmask.metrics import contributions, evaluate
from unmask.predictions import TopK
from unmask.weights import normalized_weights
from unmask_studies.data import Split, best, split_of
from unmask_studies.drawing import STYLES, chart, mean, rms, share, table
from unmask_studies.study import (
    DataSets,
    Drawn,
    Figure,
    Row,
    Study,
    Unit,
    folders,
    group_rows,
    statement,
)

# An example by hand

PAPERS_TOY = {"": ("4/9", "0"), "1": ("2/9", "0"), "0": ("2/9", "3"), "0 1": ("1/9", "-3/2")}
# What is seen: its probability and the unbiased recall, as printed.


def measure_toy(inverse_propensity: int) -> Iterable[Row]:
    """Return a row per set of labels that may be seen, in exact fractions.

    Three labels, of which 0 and 1 are true; label 0 is predicted, so the true recall is 1/2. Each
    true label is seen with probability p = 1/3. What is seen decides the estimate, which is right
    on average and far outside [0, 1] every time.
    """
    p = Fraction(1, inverse_propensity)
    states = list(product([0, 1], repeat=2))
    top = TopK(labels=np.zeros((4, 1), np.int32), scores=np.ones((4, 1), np.float32))
    recall = contributions(
        top, [[*state, 0] for state in states], [float(p)] * 3,
        metrics=["R@1"], estimators=["vanilla", "unbiased"],
    )  # fmt: skip
    for row, state in enumerate(states):
        chances = [p if kept else 1 - p for kept in state]
        yield {
            "seen": " ".join(str(j) for j, kept in enumerate(state) if kept),
            "probability": str(chances[0] * chances[1]),
            "vanilla": float(recall["R@1", "vanilla"][row]),
            "unbiased": str(Fraction(recall["R@1", "unbiased"][row]).limit_denominator(1000)),
        }


def draw_toy(rows: list[Row]) -> Drawn:
    """Return the table, and the moments that follow from it."""
    pairs = [(Fraction(row["probability"]), Fraction(row["unbiased"])) for row in rows]
    expected = sum((c * v for c, v in pairs), Fraction(0))
    variance = sum((c * (v - expected) ** 2 for c, v in pairs), Fraction(0))
    same = all(PAPERS_TOY[row["seen"]] == (row["probability"], row["unbiased"]) for row in rows)
    heads = ["labels seen", "probability", "vanilla R@1", "unbiased R@1", "paper"]
    lines = [
        [r["seen"] or "none", r["probability"], r["vanilla"], r["unbiased"],
         PAPERS_TOY[r["seen"]][1]] for r in rows
    ]  # fmt: skip
    claims = [
        statement("All values and probabilities are the paper's", same, f"{len(rows)} states"),
        statement(
            "The expectation is the true recall 1/2", 2 * expected == 1, f"it is {expected}",
        ),
        statement(
            "The standard deviation exceeds the range in which recall must lie", variance > 1,
            f"variance {variance}, standard deviation {float(variance) ** 0.5:.3f}",
        ),
    ]  # fmt: skip
    title = "Labels 0 and 1 are true, label 0 is predicted, p = 1/3"
    return Drawn([], claims, [table(title, dict.fromkeys(heads, ""), lines)])


TOY = Study(
    "recall-toy", "Unbiased recall, by hand", "What does an unbiased estimate of recall look like?",
    lambda size, seed, data: [{"inverse_propensity": 3}], measure_toy, draw_toy,
    lambda rows: "Unbiased is right on average and wrong in every case: the true recall is 1/2, "
    f"and the four possible estimates are {', '.join(row['unbiased'] for row in rows)}.",
)  # fmt: skip

# Simulated labels

SIMULATED = ("vanilla", "unbiased", "bound", "deconvolved", "tempered", "clipped",
             "self_normalized")  # fmt: skip
OF_THE_PAPER = SIMULATED[:3]
SIMULATIONS = {"tiny": (400, 2, 3), "small": (10_000, 10, 10), "paper": (10_000, 100, 19)}
# Rows, repetitions, and propensities between 0.1 and 1.
CLIP = 4.0  # the largest 1/p that the clipped estimate uses
LARGEST = (3.0, 5.0, 10.0, 20.0)  # 1/p of the rarest label, in the mixed scenario


def simulations(size: str, seed: int, data: object) -> list[Unit]:
    """Return one unit per scenario and severity."""
    n, repetitions, steps = SIMULATIONS[size]
    shared = {"n": n, "repetitions": repetitions, "first_seed": 1000 * seed}
    grid = np.linspace(0.1, 1, steps).round(4).tolist()
    return [{"scenario": "independent", "severity": p, **shared} for p in grid] + [
        {"scenario": "mixed", "severity": largest, **shared} for largest in LARGEST
    ]


def measure_simulation(
    scenario: str, severity: float, n: int, repetitions: int, first_seed: int
) -> Iterable[Row]:
    """Return bias, spread and coverage of every estimator over repetitions.

    *Independent* (the paper's): 100 labels, each true with probability 10 %, one true label
    predicted per row, every label seen with the same propensity p. *Mixed* (ours): rows differ in
    how many labels they have, 1/p runs over the labels from 2 to a largest value, and five labels
    are predicted, about half of them right. Every repetition draws truth, predictions and masks
    anew; an estimate is compared with the recall on the true labels of its own repetition.
    """
    metrics = ["R@1"] if scenario == "independent" else ["R@1", "R@3", "R@5"]
    cells: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    for seed in range(first_seed, first_seed + repetitions):
        truth, top, p = _simulated(scenario, n, severity, seed)
        true_values = evaluate(top, truth, metrics=metrics)
        observed = data.hide(truth, p, seed=seed)
        for e in evaluate(top, observed, p, metrics=metrics, estimators=SIMULATED, clip=CLIP):
            true_value = true_values[e.metric, "vanilla"].value
            cells.setdefault((e.metric, e.estimator), []).append((e.value, true_value, *e.interval))
    for (metric, estimator), repeated in cells.items():
        value, truth, low, high = np.array(repeated).T
        error = value - truth
        yield {
            "metric": metric, "estimator": estimator, "truth": truth.mean(), "mean": value.mean(),
            "deviation": value.std(ddof=1), "bias": error.mean(),
            "rmse": float(np.sqrt((error**2).mean())),
            "coverage": float(((low <= truth) & (truth <= high)).mean()),
        }  # fmt: skip


def _simulated(
    scenario: str, n: int, severity: float, seed: int
) -> tuple[sp.csr_array, TopK, Floats]:
    """True labels, predictions and propensities."""
    if scenario == "independent":
        truth = data.synthetic.independent(n, seed=seed)
        p = np.asarray(propensity.constant(truth.shape[1], severity))
    else:
        rng = np.random.default_rng([seed, 2])
        eagerness = rng.gamma(2.0, 0.05, size=(n, 1))  # 10 labels per row on average, unevenly
        truth = sp.csr_array((rng.random((n, 100)) < eagerness).astype(np.float32))
        p = 1 / np.linspace(2.0, severity, 100)
    k, odds = (1, 1e30) if scenario == "independent" else (5, 9.0)
    # one label after the other is drawn; a true one counts `odds` times
    liking = np.random.default_rng([seed, 1]).gumbel(size=truth.shape)
    return truth, TopK.from_scores(liking + np.log(odds) * truth.toarray(), k), p


def draw_simulation(rows: list[Row]) -> Drawn:
    """Return estimates with bands and their errors, and what the paper says of them."""
    simple, mixed = ([r for r in rows if r["scenario"] == s] for s in ("independent", "mixed"))
    first = pages.Panels(
        [_values(simple, OF_THE_PAPER, "R@1: the paper's estimates"),
         _values(simple, SIMULATED[3:], "R@1: further estimates"),
         _errors(simple, "propensity", "R@1: root mean square error")],
        columns=3, title="Independent labels, one propensity",
        caption="Left and middle: mean and one standard deviation.",
    )  # fmt: skip
    second = pages.Panels(
        [_errors(part, "1/p of the rarest label", f"{metric}: RMSE")
         for (metric,), part in group_rows(mixed, "metric").items()],
        columns=3, title="Uneven rows, propensities from 1/2 down",
    )  # fmt: skip
    heads = {"scenario, metric, severity": "", **dict.fromkeys(SIMULATED, ".4f")}
    lines = [
        [f"{key[0]}, {key[1]}, {key[2]:g}", *(row["rmse"] for row in part)]
        for key, part in group_rows(rows, "scenario", "metric", "severity").items()
    ]
    return Drawn(
        [first, second], _simulation_claims(simple), [table("Root mean square error", heads, lines)]
    )


def _values(rows: list[Row], names: tuple[str, ...], title: str) -> pages.Chart:
    by = {name: part for (name,), part in group_rows(rows, "estimator").items()}
    bands = {
        name: {
            r["severity"]: (r["mean"], r["mean"] - r["deviation"], r["mean"] + r["deviation"])
            for r in by[name]
        }
        for name in names
    }
    truth = {r["severity"]: r["truth"] for r in by["vanilla"]}
    y = pages.Axis("R@1", low=0, high=0.5)
    return chart("lines", {**bands, "truth": truth}, title=title, x="propensity", y=y)


def _errors(rows: list[Row], x: str, title: str) -> pages.Chart:
    """Errors, unless they are rounding: where nothing is missing every estimate is the truth."""
    points = {
        name: {r["severity"]: r["rmse"] if r["rmse"] > 1e-12 else None for r in part}
        for (name,), part in group_rows(rows, "estimator").items()
    }
    return chart("lines", points, title=title, x=x, y=pages.Axis("RMSE", log=True))


def _simulation_claims(rows: list[Row]) -> list[pages.Verdict]:
    by = {(row["estimator"], row["severity"]): row for row in rows}
    grid = sorted({row["severity"] for row in rows})
    low, medium = [p for p in grid if p < 0.4], [p for p in grid if 0.4 <= p < 0.9]

    def rmse(name: str, p: float) -> float:
        return float(by[name, p]["rmse"])

    def least(p: float) -> float:
        return min(rmse(name, p) for name in OF_THE_PAPER)

    def bias(name: str, p: float) -> float:
        return float(by[name, p]["bias"])

    def at(places: list[float], words: str, *names: str) -> str:
        numbers = [(p, *(by[name, p] for name in names)) for p in places]
        return "; ".join(f"p = {p:g}: {words.format(*rest)}" for p, *rest in numbers)

    unbiased = [by["unbiased", p] for p in low[:-1]]
    ratios = {p: rmse("deconvolved", p) / least(p) for p in low}
    return [
        statement(
            "Below p = 0.4 the unbiased estimate varies more than it is worth",
            all(row["deviation"] > row["truth"] for row in unbiased),
            at(low, "sd {0[deviation]:.3g}", "unbiased"),
        ),
        statement(
            "There the bound is unsuitable: it deviates from the truth more than vanilla does",
            all(abs(bias("bound", p)) > abs(bias("vanilla", p)) for p in low),
            at(low, "{0[bias]:+.3f} against {1[bias]:+.3f}", "bound", "vanilla"),
        ),
        statement(
            "There vanilla is the closest of the paper's three",
            all(rmse("vanilla", p) == least(p) for p in low),
            at(low, "RMSE {0[rmse]:.4f}", "vanilla"),
        ),
        statement(
            "At medium propensity unbiased is better than vanilla",
            any(rmse("unbiased", p) < rmse("vanilla", p) for p in medium),
            at(medium, "{0[rmse]:.4f} against {1[rmse]:.4f}", "unbiased", "vanilla"),
        ),
        statement(
            "Ours: below p = 0.4 the deconvolved estimate has at most half the error of the best "
            "of those three",
            max(ratios.values()) <= 0.5,
            "; ".join(f"p = {p:g}: ratio {ratio:.2f}" for p, ratio in ratios.items()),
        ),
    ]


def answer_simulation(rows: list[Row]) -> str:
    """Return the root mean square errors at the lowest propensity."""
    own = [r for r in rows if r["scenario"] == "independent"]
    lowest = min(r["severity"] for r in own)
    errors = {r["estimator"]: r["rmse"] for r in own if r["severity"] == lowest}
    return (
        f"At p = {lowest:g} the deconvolved estimate is off by {errors['deconvolved']:.3f}, the "
        f"labels as they are by {errors['vanilla']:.3f}, and the unbiased estimate by "
        f"{errors['unbiased']:.3g}."
    )


SIMULATION = Study(
    "recall-simulation", "Recall when most labels are missing",
    "How well can recall be estimated from few of the labels?",
    simulations, measure_simulation, draw_simulation, answer_simulation,
)  # fmt: skip

# The paper's table

PAPER = {
    "Bibtex": {"bound": ((42.1, 65.9, 78.3), (33.6, 53.0, 62.0)),
               "vanilla": ((42.9, 67.9, 78.4), (34.1, 54.3, 62.5))},
    "Mediamill": {"bound": ((21.6, 49.2, 61.9), (23.3, 52.6, 65.6)),
                  "vanilla": ((21.5, 49.1, 61.5), (23.1, 52.5, 65.3))},
    "RCV1-2K": {"bound": ((42.4, 78.1, 82.3), (40.4, 74.4, 80.7)),
                "vanilla": ((41.5, 78.8, 84.4), (39.8, 73.6, 79.9))},
    "AmazonCat-13K": {"bound": ((24.2, 57.1, 72.3), (26.4, 59.7, 75.0)),
                      "vanilla": ((23.7, 55.4, 72.2), (26.5, 59.9, 75.2))},
    "AmazonCat-14K": {"bound": ((38.8, 68.1, 83.0), (39.4, 69.3, 83.9)),
                      "vanilla": ((38.2, 67.2, 82.7), (39.5, 69.6, 84.1))},
}  # fmt: skip
# By data set and training: unbiased and vanilla R@1/3/5 in percent, as printed.
PRINTED = ("unbiased", "vanilla")
IN_TABLE = ("unbiased", "vanilla", "filtered", "deconvolved", "tempered")
TRAININGS = ("bound", "vanilla")
FRACTION = 0.01  # share of rows that the filtered column leaves out
TABLE_FOLDERS = {
    "Bibtex": "bibtex-xc", "Delicious": "delicious",
    "cooking-stackexchange": "cooking-stackexchange",
    "debtags-bookworm": "debtags-bookworm", "jester5k": "jester5k", "finna-yso-en": "finna-yso-en",
    "RCV1 topics (stand-in)": "truth/rcv1-topics-30k", "Mediamill": "mediamill",
    "RCV1-2K": "rcv1-2k", "AmazonCat-13K": "amazoncat-13k",
    "AmazonCat-14K": "amazoncat-14k",
}  # fmt: skip
SPLITS = {"tiny": 0, "small": 2, "paper": 10}  # official splits of Bibtex that are run
RECALLS = ("R@1", "R@3", "R@5")


def table_units(size: str, seed: int, data: DataSets | None) -> list[Unit]:
    """Return one unit per data set, split and training; absent data sets are units, too."""
    planned: list[tuple[str, Path | None, int | None]] = [("planted", None, None)]
    if size != "tiny" and data is not None:
        quick = ("Bibtex", "cooking-stackexchange", *PAPER)
        names = [name for name in TABLE_FOLDERS if size == "paper" or name in quick]
        planned = [
            (name, data.path(TABLE_FOLDERS[name]), split)
            for name in names
            for split in (range(SPLITS[size]) if name == "Bibtex" else [None])
        ]
    return [
        {"dataset": name, "folder": folder, "split": split, "training": training, "seed": seed}
        for name, folder, split in planned
        for training in TRAININGS
    ]


def measure_table(
    dataset: str, folder: Path | None, split: int | None, training: str, seed: int
) -> Iterable[Row]:
    """Return recall by every estimator, or one row that says the files are missing.

    Squared hinge, tf-idf, one-vs-all, as in DiSMEC; trained as if labels were complete (vanilla)
    and with the convex surrogate 2/p − 1 (bound); Jain propensities. The paper removes rows whose
    estimate is extreme ("filter"); beside its two columns stand the exact unbiased estimate with
    the same filter, and ours. RCV1-2K cannot be had; 28,000 rows of RCV1 with its 101 topics stand
    in for it: no comparison with the paper's numbers, only the same protocol on text like it.
    """
    if folder and not folder.is_dir():
        return [{"metric": None, "missing": f"not run: put the files in {folder.name}/"}]
    rows = split_of(folder, 2000, seed, split)
    p = propensity.jain(rows.train_labels)
    top = best(rows, rows.train_labels, 5, correction=training, propensity=p)
    estimates = evaluate(
        top, rows.test_labels, p, metrics=RECALLS, estimators=IN_TABLE, fraction=FRACTION
    )
    return [
        {"metric": e.metric, "estimator": e.estimator, "value": e.value, "low": e.interval[0],
         "high": e.interval[1], "level": e.verdict.level.value, "verdict": e.verdict.sentence}
        for e in estimates
    ]  # fmt: skip


def draw_table(rows: list[Row]) -> Drawn:
    """Return one table, first splits; Bibtex over its splits; the paper's numbers beside ours."""
    lines = []
    for (name, training), part in group_rows(rows, "dataset", "training").items():
        first = [r for r in part if r["split"] in (None, 0)]
        if part[0]["metric"] is None:
            lines += [[f"{name}, {training}", each, None, None, None,
                       _printed(name, training, each), part[0]["missing"]]
                      for each in PRINTED]  # fmt: skip
            continue
        for (each,), cells in group_rows(first, "estimator").items():
            note = next((c["verdict"] for c in cells if c["level"] == "unusable"), "")
            lines.append([f"{name}, {training}", each, *map(_percent, cells),
                          _printed(name, training, each), note])  # fmt: skip
    heads = {"data set, training": "", "estimator": "", **dict.fromkeys(RECALLS, ".1f")}
    caption = (
        f"In percent, 95 % intervals. The filtered column leaves out {FRACTION:.0%} of the rows."
    )
    tables = [table("R@1, R@3, R@5", {**heads, "paper": "", "note": ""}, lines, caption)]
    splits = [r for r in rows if r["dataset"] == "Bibtex" and r["metric"]]
    if not splits:
        return Drawn([], [], tables)
    over = [
        [*key, *(_spread([100 * r["value"] for r in part if r["metric"] == m]) for m in RECALLS)]
        for key, part in group_rows(splits, "training", "estimator").items()
    ]
    count = len({row["split"] for row in splits})
    title = f"Bibtex: mean and standard deviation over {count} official splits"
    own = {"training": "", "estimator": "", **dict.fromkeys(RECALLS, ".1f")}
    return Drawn([], [_close_to_paper(splits)], [*tables, table(title, own, over)])


def _percent(row: Row) -> pages.Estimate | None:
    """The row's estimate, unless it was refused or is beyond what recall can be."""
    if row["value"] is None or not row["low"] <= row["value"] <= row["high"]:
        return None
    return pages.Estimate(100 * row["value"], 100 * row["low"], 100 * row["high"])


def _printed(dataset: str, training: str, estimator: str) -> str | None:
    if dataset not in PAPER or estimator not in PRINTED:
        return None
    return " / ".join(f"{v:.1f}" for v in PAPER[dataset][training][PRINTED.index(estimator)])


def _spread(values: list[float]) -> pages.Estimate:
    error = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return pages.Estimate(float(np.mean(values)), error=error)


def _close_to_paper(rows: list[Row]) -> pages.Verdict:
    differences = [
        abs(
            100 * row["value"]
            - PAPER["Bibtex"][row["training"]][PRINTED.index(row["estimator"])][
                RECALLS.index(row["metric"])
            ]
        )
        for row in rows
        if row["split"] == 0 and row["estimator"] in PRINTED
    ]
    return statement(
        "On the first official split of Bibtex all twelve numbers are within 0.7 points of the "
        "paper",
        max(differences) <= 0.7 and len(differences) == 12,
        f"largest difference {max(differences):.2f} of {len(differences)} numbers",
    )


def answer_table(rows: list[Row]) -> str:
    """Return how often the unbiased recall leaves the range of a recall."""
    own = [r["value"] for r in rows if r["metric"] == "R@5" and r["value"] is not None
           and r["estimator"] == "unbiased"]  # fmt: skip
    beyond = sum(not 0 <= value <= 1 for value in own)
    return (
        "The paper's numbers for Bibtex come out again; on other data its unbiased recall leaves "
        f"the range of a recall in {beyond} of {len(own)} cases."
    )


TABLE = Study(
    "recall-table", "Recall of linear models on real data",
    "What does the paper's recall table say, computed exactly?",
    table_units, measure_table, draw_table, answer_table,
)  # fmt: skip

# Single rows

EDGES = np.linspace(-3.1, 4.1, 37)  # 0 and 1 are in the middle of a bin; the outermost are open
REPLICATES = 500


def histogram_units(size: str, seed: int, data: DataSets | None) -> list[Unit]:
    """Return one unit: the data set with the heaviest tail, or planted data."""
    return [{"folder": folders(data, size, ["debtags-bookworm"])[0], "seed": seed}]


def measure_histograms(folder: Path | None, seed: int) -> Iterable[Row]:
    """Return counts per bin, for unbiased and vanilla recall at 1 and 5.

    The unbiased recall of a row may lie far outside [0, 1]; its mean over rows is then carried by a
    few of them. Bars are 95 % bootstrap intervals of the number of rows in a bin.
    """
    rows = split_of(folder, 2000, seed)
    p = propensity.jain(rows.train_labels)
    top = best(rows, rows.train_labels, 5, correction="bound", propensity=p)
    by_metric = contributions(
        top, rows.test_labels, p, metrics=["R@1", "R@5"], estimators=["unbiased", "vanilla"]
    )
    rng = np.random.default_rng(seed)
    for (metric, estimator), values in by_metric.items():
        counts = np.histogram(np.clip(values, EDGES[0], EDGES[-1]), EDGES)[0]
        drawn = rng.multinomial(values.size, counts / values.size, size=REPLICATES)
        low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
        yield {
            "metric": metric, "estimator": estimator, "counts": counts, "low": low, "high": high,
            "mean": values.mean(), "outside": float(((values < 0) | (values > 1)).mean()),
            "smallest": values.min(), "largest": values.max(),
        }  # fmt: skip


def draw_histograms(rows: list[Row]) -> Drawn:
    """Return one panel per k, and how far the values reach."""
    panels = []
    for (metric,), part in group_rows(rows, "metric").items():
        series = [
            pages.Series(r["estimator"], EDGES.tolist(), r["counts"], r["low"], r["high"],
                          style=STYLES.get(r["estimator"])) for r in part
        ]  # fmt: skip
        rules = [pages.Rule(r["estimator"], r["mean"], axis="x") for r in part]
        x = f"{metric} of one row"
        panels.append(pages.Chart("steps", series, title=metric, x=x, y="rows", rules=rules))
    claims = [
        statement(
            f"Unbiased {r['metric']} of single rows leaves [0, 1]", r["outside"] > 0,
            f"{r['outside']:.1%} of the rows, from {r['smallest']:.3g} to {r['largest']:.3g}; "
            f"their mean is {r['mean']:.3g}",
        )
        for r in rows if r["estimator"] == "unbiased"
    ]  # fmt: skip
    caption = "Dashed: means, where they lie on the axis."
    return Drawn([pages.Panels(panels, caption=caption)], claims, [])


HISTOGRAMS = Study(
    "recall-histograms", "Recall of single rows",
    "What is the unbiased recall of one row worth?",
    histogram_units, measure_histograms, draw_histograms,
    lambda rows: "The unbiased recall of single rows lies outside [0, 1] in "
    f"{max(r['outside'] for r in rows if r['estimator'] == 'unbiased'):.0%} of them.",
)  # fmt: skip

# Hidden labels of real data

TRUTH_METRICS = ("R@1", "R@3", "R@5", "nDCG@5", "F1@5")
TRUTH_ESTIMATORS = ("vanilla", "unbiased", "bound", "deconvolved", "tempered")
SEVERITIES = ("jain", "constant:0.3", "inverse_linear:2,20")
HIDDEN_FOLDERS = ("debtags-bookworm", "delicious", "cooking-stackexchange")
JESTER = "jester5k"
DRAWS = {"tiny": 1, "small": 2, "paper": 5}


def truth_units(size: str, seed: int, data: DataSets | None) -> list[Unit]:
    """Return one unit per data set, severity and seed."""
    plans = [(f, masks) for f in folders(data, size, HIDDEN_FOLDERS) for masks in SEVERITIES]
    if (jester := folders(data, size, [JESTER])[0]) is not None:
        plans += [(jester, "natural"), (jester, "rates")]
    seeds = range(seed, seed + DRAWS[size])
    return [{"folder": folder, "masks": masks, "draw": s} for folder, masks in plans for s in seeds]


def measure_truth(folder: Path | None, masks: str, draw: int) -> Iterable[Row]:
    """Return value, interval and truth of every metric and estimator.

    A model is trained on hidden labels; its top five on the test rows are scored on hidden test
    labels by every estimator, and on the labels as published. Jester has natural gaps: the pattern
    of which jokes a user rated is taken from one user and laid over the complete ratings of
    another, so that masks within a row depend on each other as they do in life. The same rates with
    masks drawn independently (`rates`) tell what that dependence costs. *Dispersion* is the
    variance of the seen labels per row, relative to independent masks.
    """
    rows = split_of(folder, 2000, draw)
    if folder is not None and folder.name == JESTER:
        p, natural = jester_masks(folder, rows, draw)
        seen_train = rows.train_labels
        seen = data.hide(rows.test_labels, p, seed=draw) if masks == "rates" else natural
    else:
        p = np.asarray(propensity.from_spec(masks, rows.train_labels))
        seen_train = data.hide(rows.train_labels, p, seed=2 * draw)
        seen = data.hide(rows.test_labels, p, seed=2 * draw + 1)
    top = best(rows, seen_train, 5)
    true_values = evaluate(top, rows.test_labels, metrics=TRUTH_METRICS)
    expected, variance = rows.test_labels @ p, rows.test_labels @ (p * (1 - p))
    dispersion = float(((seen.sum(axis=1) - expected) ** 2).sum() / variance.sum())
    for e in evaluate(top, seen, p, metrics=TRUTH_METRICS, estimators=TRUTH_ESTIMATORS):
        yield {
            "data": folder.name if folder else "planted",
            "kept": seen.nnz / rows.test_labels.nnz, "dispersion": dispersion,
            "metric": e.metric, "estimator": e.estimator,
            "value": e.value, "low": e.interval[0], "high": e.interval[1],
            "truth": true_values[e.metric, "vanilla"].value,
            "level": e.verdict.level.value, "verdict": e.verdict.sentence,
        }  # fmt: skip


def jester_masks(folder: Path, rows: Split, seed: int) -> tuple[Floats, sp.csr_array]:
    """Return how often each joke is rated, and test labels as other users left them unrated."""
    rated: sp.csr_array = data.read(folder / "train_rated.txt.gz", names=False).labels
    rates = np.maximum(np.asarray(rated.sum(axis=0) / rated.shape[0], dtype=np.float64), 1e-3)
    users = np.random.default_rng(seed).integers(rated.shape[0], size=rows.test_labels.shape[0])
    return rates, sp.csr_array(rows.test_labels.multiply(rated[users]))


def draw_truth(rows: list[Row]) -> Drawn:
    """Return errors as dots and as a table, and where deconvolved recall is the closest."""
    cells = [
        {**part[0], **dict.fromkeys(("error", "rmse", "bias", "coverage")), **_truth_cell(part)}
        for part in group_rows(rows, "data", "masks", "metric", "estimator").values()
    ]
    recall = group_rows([c for c in cells if c["metric"] == "R@5"], "data", "masks")
    panels = [
        chart(
            "dots",
            {c["estimator"]: {c["estimator"]: [e / c["truth"] for e in c["range"]]} for c in part},
            title=f"{name.split('-')[0]}, {masks}",
            y=pages.Axis("relative error", low=-0.6, high=0.6), rules={"truth": 0.0},
        )
        for (name, masks), part in recall.items()
    ]  # fmt: skip
    figure = pages.Panels(
        panels, columns=3, title="Error of R@5 relative to its value: mean and range over masks",
        caption="Arrows: beyond the axis.",
    )  # fmt: skip
    heads = {"data, masks, metric": "", "kept": ".0%", "dispersion": ".1f"}
    heads |= {f"{e}: {what}": form for what, form in (("RMSE", ".3f"), ("coverage", ".0%"))
              for e in TRUTH_ESTIMATORS}  # fmt: skip
    lines = [
        [", ".join(key), part[0]["kept"], part[0]["dispersion"],
         *(c["rmse"] for c in part), *(c["coverage"] for c in part)]
        for key, part in group_rows(cells, "data", "masks", "metric").items()
    ]  # fmt: skip
    claims = []
    for key, part in recall.items():
        errors = {c["estimator"]: c["rmse"] for c in part}
        words = ", ".join(f"{name} {error:.3g}" for name, error in errors.items())
        claim = f"{', '.join(key)}: deconvolved R@5 is closest to the truth"
        holds = errors["deconvolved"] == min(errors.values())
        claims.append(statement(claim, holds, f"RMSE: {words}"))
    return Drawn(
        [figure], [*claims, *_dependence(cells)],
        [table("Errors, and how often the 95 % interval covers the truth", heads, lines)],
    )  # fmt: skip


def _truth_cell(part: list[Row]) -> Row:
    error = np.array([np.nan if r["value"] is None else r["value"] - r["truth"] for r in part])
    inside = [r["low"] is not None and r["low"] <= r["truth"] <= r["high"] for r in part]
    return {
        **{name: mean(part, name) for name in ("kept", "dispersion", "truth")},
        "range": (float(error.mean()), float(error.min()), float(error.max())),
        "rmse": float(np.sqrt((error**2).mean())),
        "coverage": share(inside),
    }


def _dependence(cells: list[Row]) -> list[pages.Verdict]:
    """Say what natural masks cost beyond their rates: only where a data set was run with both."""
    by = {(c["masks"], c["estimator"], c["metric"]): c for c in cells if c["data"] == JESTER}
    claims = []
    for metric, estimator in product(("R@5", "nDCG@5"), ("unbiased", "deconvolved")):
        if ("natural", estimator, metric) not in by:
            continue
        natural, independent = (by[masks, estimator, metric] for masks in ("natural", "rates"))
        claims.append(
            statement(
                f"Where independence fails: natural masks spoil {metric} ({estimator}), at the "
                "same rates, to more than twice the error",
                natural["rmse"] > 2 * independent["rmse"],
                f"RMSE {natural['rmse']:.3g} against {independent['rmse']:.3g}; dispersion "
                f"{natural['dispersion']:.1f} against {independent['dispersion']:.1f}",
            )
        )
    return claims


def answer_truth(rows: list[Row]) -> str:
    """Return in how many cases the deconvolved estimate is the closest."""
    own = [{**r, "error": r["value"] - r["truth"]} for r in rows
           if r["metric"] == "R@5" and r["value"] is not None]  # fmt: skip
    closest = []
    for part in group_rows(own, "data", "masks").values():
        errors = {
            e: rms(cells, "error") or 0 for (e,), cells in group_rows(part, "estimator").items()
        }
        closest.append(min(errors, key=lambda e: errors[e]) == "deconvolved")
    return (
        f"In {sum(closest)} of {len(closest)} cases the deconvolved estimate of R@5 is the closest "
        "to the truth."
    )


TRUTH = Study(
    "recall-truth", "Estimates of recall against the truth",
    "Which estimate of recall is the closest when known labels are hidden?",
    truth_units, measure_truth, draw_truth, answer_truth,
)  # fmt: skip

# Variance

PREVALENCE, CONFIDENCE = 0.1, 0.05
COSTS = ("binary variance", "range of recall", "generalisation")
STEPS = {"tiny": 5, "small": 25, "paper": 100}


def measure_variance(cost: str, steps: int) -> Iterable[Row]:
    """Return the cost over a grid of propensities.

    For a binary loss with values f₊ and f₋ the unbiased estimate has exactly the variance
    q (1 − q) (f₊ − f₋)² / p², q = P(Y = 1) = p q*, against q*(1 − q*)(f₊ − f₋)² on complete labels:
    the ratio grows like 1/p. Recall is worse: the estimate of one row of m observed labels lies
    between −T and T with T growing like a power of 1/p. And the two generalisation bounds of the
    paper trade a factor (2 − p)/p on the sample term (unbiased) for a bias q (1 − p)/p that no
    sample size removes (vanilla).
    """
    grid = np.geomspace(0.02, 1, steps).round(6).tolist()
    if cost == "binary variance":
        clean = PREVALENCE * (1 - PREVALENCE)
        for p in grid:
            q = p * PREVALENCE
            ratio = q * (1 - q) / p**2 / clean
            yield {"p": p, "ratio": ratio, "approximation": 1 / (p * (1 - PREVALENCE))}
    elif cost == "range of recall":
        for m, p in product((1, 2, 5, 10, 20), grid):
            weights = normalized_weights(np.array([0, m]), np.full(m, 1 / p))
            yield {"p": p, "labels": m, "largest": float(np.abs(weights).max())}
    else:
        for n, p in product((10**3, 10**4, 10**5, 10**6), grid):
            sample = float(np.sqrt(np.log(2 / CONFIDENCE) / (2 * n)))
            bias = p * PREVALENCE * (1 - p) / p
            unbiased = 2 * (2 - p) / p * sample
            yield {"p": p, "n": n, "unbiased": unbiased, "vanilla": bias + 2 * sample}


def draw_variance(rows: list[Row]) -> Drawn:
    """Return one chart per cost, and where the two bounds cross."""
    binary, recall, bounds = ([r for r in rows if r["cost"] == cost] for cost in COSTS)
    x = pages.Axis("propensity", log=True)
    worst = max(abs(r["ratio"] / r["approximation"] - 1) for r in binary if r["p"] < 0.1)
    ratios = {"exact": {r["p"]: r["ratio"] for r in binary},
              "1/(p (1 − q*))": {r["p"]: r["approximation"] for r in binary}}  # fmt: skip
    largest = {
        f"{m} labels": {r["p"]: r["largest"] for r in part}
        for (m,), part in group_rows(recall, "labels").items()
    }
    panels = [
        chart("lines", {name: {r["p"]: r[name] for r in part} for name in ("vanilla", "unbiased")},
              title=f"n = {n:,}", x=x, y=pages.Axis("excess over the best risk", log=True))
        for (n,), part in group_rows(bounds, "n").items()
    ]  # fmt: skip
    figures: list[Figure] = [
        chart("lines", ratios, x=x, y=pages.Axis("ratio", log=True),
              title=f"Variance on observed labels relative to complete ones (q* = {PREVALENCE:g})"),
        chart("lines", largest, title="Largest weight of one hit, by number of observed labels",
              x=x, y=pages.Axis("|T|", log=True)),
        pages.Panels(panels, title="Generalisation bounds", share_y=True),
    ]  # fmt: skip
    claim = statement(
        "The variance grows like 1/p as p falls", worst < 0.1,
        f"below p = 0.1 the exact ratio is within {worst:.1%} of 1/(p (1 − q*))",
    )  # fmt: skip
    return Drawn(figures, [claim], [])


VARIANCE = Study(
    "variance", "What missing labels cost in variance",
    "How much more uncertain is a corrected number?",
    lambda size, seed, data: [{"cost": cost, "steps": STEPS[size]} for cost in COSTS],
    measure_variance, draw_variance,
    lambda rows: "It grows like 1/p for one label, and exponentially with the labels of a row for "
    "recall.",
)  # fmt: skip
STUDIES = (TOY, SIMULATION, TABLE, HISTOGRAMS, TRUTH, VARIANCE)
