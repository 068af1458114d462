"""What every study asks, in words that people understand, and its answer in one sentence.

A page opens with them, and the menu of the documentation lists studies by these titles. Answers are
made of the rows, so that they change when the numbers do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from unmask_studies.encoder.study import ALL, COMPLETE, RATIO, VANILLA
from unmask_studies.encoder.study import cells as encoder_cells
from unmask_studies.interval_coverage import (
    LOW,
    UNSOLVED,
    judged_cells,
    lowest_coverage,
)
from unmask_studies.reality.drawing import answer as _reality
from unmask_studies.runs import Row, group_rows
from unmask_studies.training.results import collect, mean
from unmask_studies.tree import answer as _tree


@dataclass(frozen=True)
class Opening:
    """How the page of a study opens.

    Parameters
    ----------
    title : str
        Of the page and in menus.
    question : str
        One sentence.
    answer : function of a list of rows
        Returns one sentence, or nothing where the rows cannot tell.
    """

    title: str
    question: str
    answer: Callable[[list[Row]], str]


def _toy(rows: list[Row]) -> str:
    values = [row["unbiased"] for row in rows if row["inverse_propensity"] == 3]
    return (
        "Unbiased is right on average and wrong in every case: the true recall is 1/2, and the "
        f"four possible estimates are {', '.join(values)}."
    )


def _simulation(rows: list[Row]) -> str:
    """The root mean square errors at the lowest propensity."""
    own = [r for r in rows if r["scenario"] == "independent"]
    lowest = min(r["severity"] for r in own)
    errors = {r["estimator"]: r["rmse"] for r in own if r["severity"] == lowest}
    return (
        f"At p = {lowest:g} the deconvolved estimate is off by {errors['deconvolved']:.3f}, the "
        f"labels as they are by {errors['vanilla']:.3f}, and the unbiased estimate by "
        f"{errors['unbiased']:.3g}."
    )


def _table(rows: list[Row]) -> str:
    own = [r for r in rows if r["metric"] == "R@5" and r["value"] is not None
           and r["estimator"] in ("vanilla", "unbiased")]  # fmt: skip
    beyond = sum(r["estimator"] == "unbiased" and not 0 <= r["value"] <= 1 for r in own)
    count = sum(r["estimator"] == "unbiased" for r in own)
    return (
        "The paper's numbers for Bibtex come out again; on other data its unbiased recall leaves "
        f"the range of a recall in {beyond} of {count} cases."
    )


def _histograms(rows: list[Row]) -> str:
    shares = [row["outside"] for row in rows if row["estimator"] == "unbiased"]
    return f"The unbiased recall of single rows lies outside [0, 1] in {max(shares):.0%} of them."


def _truth(rows: list[Row]) -> str:
    own = [r for r in rows if r["metric"] == "R@5" and r["value"] is not None]
    by: dict[tuple[object, ...], float] = {}
    for key, part in group_rows(own, "data", "masks", "estimator").items():
        by[key] = float(np.sqrt(np.mean([(r["value"] - r["truth"]) ** 2 for r in part])))
    cases = {key[:2] for key in by}
    won = sum(
        min((e for e in by if e[:2] == case), key=lambda e: by[e])[2] == "deconvolved"
        for case in cases
    )
    return (
        f"In {won} of {len(cases)} cases the deconvolved estimate of R@5 is the closest to the "
        "truth."
    )


def _variance(rows: list[Row]) -> str:
    return "It grows like 1/p for one label, and exponentially with the labels of a row for recall."


def _recovery(rows: list[Row]) -> str:
    own = [r for r in rows if r["about"] == "propensities" and r["audited"] == 100]
    audit, default = (
        float(np.mean([r[name] for r in own])) for name in ("rmse_audit", "rmse_default")
    )
    return (
        f"100 judged rows bring the error of propensities from {default:.3f} (the usual constants) "
        f"to {audit:.3f}."
    )


def _power(rows: list[Row]) -> str:
    valid = [r["any"] for r in rows if r["kind"] == "valid"]
    return f"It objects to at most {max(valid):.1%} of the data sets that are as stated."


def _scorecard(rows: list[Row]) -> str:
    cells = [cell for r in rows if r["scenario"] == "complete labels" for cell in r["cells"]]
    missed = np.mean([not _inside(cell) for cell in cells])
    return f"Of numbers that were measured, {missed:.1%} miss the truth; 5 % are allowed to."


def _inside(cell: list[float | None]) -> bool:
    low, high, truth = cell[5], cell[6], cell[7]
    return low is not None and high is not None and truth is not None and low <= truth <= high


def _masks(rows: list[Row]) -> str:
    own = [r for r in rows if r["metric"] == "R@5" and r["masks"] == "row effort 0.8"
           and r["audited"] == 300 and r["value"] is not None]  # fmt: skip
    errors = {
        way: float(
            np.mean([  # of data sets, which have more or fewer repetitions
                np.mean([abs(r["value"] - r["truth"]) for r in of_data])
                for of_data in group_rows(part, "folder").values()
            ])
        )
        for (way,), part in group_rows(own, "way").items()
    }  # fmt: skip
    if not {"stated", "modelled"} <= errors.keys():
        return ""
    return (
        "Where rows differ much in effort, R@5 is off by "
        f"{errors['stated']:.3f} with the right propensities alone, and by "
        f"{errors['modelled']:.3f} with a mask model from 300 judged rows."
    )


def _coverage(rows: list[Row]) -> str:
    """Of the cells that the study judges: estimators that aim at the truth, used often enough."""
    cells = judged_cells(rows)
    reached = sum(cell["coverage"] >= lowest_coverage(cell) for cell in cells)
    return (
        f"In {reached} of {len(cells)} cases 95 % intervals hold the truth in at least {LOW:.0%} "
        f"of the runs ({UNSOLVED:.0%} for R@1 and macro precision on cooking), if the propensities "
        "are right."
    )


def _audit_plan(rows: list[Row]) -> str:
    ratios = []
    for (_,), part in group_rows(rows, "case").items():
        by = {
            kind: np.sqrt(np.mean([r["error"] ** 2 for r in part if r["audit"] == kind]))
            for kind in {r["audit"] for r in part}
        }
        ratios += [by["blind"] / by["planned"]] if by.keys() >= {"blind", "planned"} else []
    return f"Up to {max(ratios):.1f} times smaller an error for the same cost." if ratios else ""


def _audit(rows: list[Row]) -> str:
    own = [r for r in rows if r["part"] == "rows" and r["judged"] == 200 and r["metric"] == "R@5"
           and r["estimator"] == "controlled"]  # fmt: skip
    if not own:
        return ""
    inside = sum(r["inside"] for r in own) / sum(r["repeats"] for r in own)
    width = float(np.mean([r["width"] for r in own])) / 2
    return (
        f"200 judged rows give R@5 to ± {width:.3f}, whatever hid the labels, with intervals that "
        f"hold the truth in {inside:.0%} of the audits."
    )


def _training(rows: list[Row]) -> str:
    """What missing labels cost in true R@5, and what the paper's corrections change, converged."""
    results = collect(rows)
    clean, vanilla, unbiased, bound = (
        100 * mean(results.values(("converged", "ova-bce", name), "recall", "test/true/R@5"))
        for name in ("clean", "vanilla", "unbiased", "bound")
    )
    return (
        f"Missing labels cost {clean - vanilla:.1f} points of true R@5 ({clean:.1f} % with all "
        f"labels, {vanilla:.1f} % with what is left of them); unbiased weights add "
        f"{unbiased - vanilla:+.1f} points, bounding weights {bound - vanilla:+.1f} (one label "
        "at a time, logistic loss)."
    )


def _sets(rows: list[Row]) -> str:
    """Root mean square errors over all cells, as observed and corrected."""
    own = [r for r in rows if r["kind"] == "metric" and r["runs"]]
    fitted = {r["metric"] for r in own if r["estimator"] == "deconvolved"}
    errors = {}
    for name in ("vanilla", "corrected"):
        part = [
            r for r in own
            if r["estimator"] == name
            or (name == "corrected" and r["estimator"] == _correction(r["metric"], fitted))
        ]  # fmt: skip
        if not part:
            return ""
        errors[name] = np.sqrt(sum(r["squares"] for r in part) / sum(r["runs"] for r in part))
    return (
        f"F1, average precision and AUC are off by {errors['vanilla']:.3f} on observed labels and "
        f"by {errors['corrected']:.3f} corrected."
    )


def _correction(metric: str, fitted: set[str]) -> str:
    return "deconvolved" if metric in fitted else "unbiased"


def _tuning(rows: list[Row]) -> str:
    regrets = []
    for _, part in group_rows(
        [r for r in rows if r["row"] != "related work"], "task", "masks"
    ).items():
        truth = {kind: max(r["truth"] for r in part if r["row"] == kind)
                 for kind in ("chosen", "candidate")}  # fmt: skip
        regrets.append(max(0.0, truth["candidate"] - truth["chosen"]))
    small = sum(regret <= 0.005 for regret in regrets)
    return (
        f"At most 0.005 in R@5 in {small} of {len(regrets)} cases, {np.mean(regrets):.4f} on "
        f"average and {max(regrets):.4f} at most."
    )


def _missing(rows: list[Row]) -> str:
    """Precision of the first 1,000 findings and the gain of completed training."""
    right = [r for r in rows if r["part"] == "findings" and r["masks"] == "right"]
    shares = {r["folder"]: r.get("precision@1000") for r in right if r["way"] == "completed"}
    by = {w: [r["R@5"] for r in rows if r["part"] == "training" and r["way"] == w]
          for w in ("unbiased", "completed")}  # fmt: skip
    gain = 100 * float(np.mean(by["completed"]) - np.mean(by["unbiased"]))
    said = ", ".join(f"{share:.0%} ({name})" for name, share in shares.items() if share and name)
    findings = f"Of the first 1,000 findings {said} are truly missing; " if said else ""
    words = "completed training recalls {:+.1f} points of R@5 over tuned unbiased training."
    sentence = findings + words.format(gain)
    return sentence[0].upper() + sentence[1:]


def _encoder(rows: list[Row]) -> str:
    """How far corrections move the true R@5 of vanilla training on all labels, by data set."""
    parts = []
    for name, own in encoder_cells(rows, "R@5").items():
        recall = {method: cell.mean for (method, way), cell in own.items() if way == ALL}
        complete, vanilla = recall.pop(COMPLETE), recall.pop(VANILLA)
        del recall[RATIO]
        moved = [100 * (value - vanilla) for value in recall.values()]
        parts.append(
            f"by {min(moved):+.1f} to {max(moved):+.1f} points on {name} ({vanilla:.1%} without "
            f"them, {complete:.1%} where nothing is hidden)"
        )
    return f"Corrections change the true R@5 of an encoder {' and '.join(parts)}."


OPENINGS: dict[str, Opening] = {
    "missing": Opening(
        "Which labels are missing?",
        "Can the missing labels be named, and does that train better models?",
        _missing,
    ),
    "recall-toy": Opening(
        "Unbiased recall, by hand", "What does an unbiased estimate of recall look like?", _toy
    ),
    "recall-simulation": Opening(
        "Recall when most labels are missing",
        "How well can recall be estimated from few of the labels?",
        _simulation,
    ),
    "recall-table": Opening(
        "Recall of linear models on real data",
        "What does the paper's recall table say, computed exactly?",
        _table,
    ),
    "recall-histograms": Opening(
        "Recall of single rows", "What is the unbiased recall of one row worth?", _histograms
    ),
    "recall-truth": Opening(
        "Estimates of recall against the truth",
        "Which estimate of recall is the closest when known labels are hidden?",
        _truth,
    ),
    "variance": Opening(
        "What missing labels cost in variance",
        "How much more uncertain is a corrected number?",
        _variance,
    ),
    "propensity-recovery": Opening(
        "Propensities from a few judged rows",
        "How many rows must be judged to know the propensities?",
        _recovery,
    ),
    "diagnosis-power": Opening(
        "What a diagnosis finds, and when it is wrong",
        "Does the diagnosis object to wrong assumptions, and only to them?",
        _power,
    ),
    "false-trust": Opening(
        "Are wrong numbers believed?",
        "In twenty-two ways of losing labels: which numbers are claimed though they are wrong?",
        _scorecard,
    ),
    "masks": Opening(
        "Masks as they are",
        "What does an audit make of uneven effort, unannotated rows and wrong labels?",
        _masks,
    ),
    "coverage": Opening(
        "Do intervals hold the truth?",
        "How often does a 95 % interval hold the truth when its assumptions do?",
        _coverage,
    ),
    "audit-plan": Opening(
        "A planned audit against a blind one",
        "What is gained by choosing the rows whose labels are checked?",
        _audit_plan,
    ),
    "audit": Opening(
        "Measured by an audit",
        "How exact is a number from a few hundred judgements, whatever hid the labels?",
        _audit,
    ),
    "reality": Opening(
        "Labels that people really left out",
        "Do estimates, intervals and verdicts hold where nobody rolled dice?",
        _reality,
    ),
    "sets": Opening(
        "F1, average precision and thresholds",
        "How far off are the metrics of sets and scores, and does correcting them help?",
        _sets,
    ),
    "training": Opening(
        "Training when most labels are missing",
        "What do corrections give back to a model that never saw most labels?",
        _training,
    ),
    "tuning": Opening(
        "Choosing the training on noisy rows",
        "What is lost when correction and C are chosen on rows that miss labels, too?",
        _tuning,
    ),
    "training-news": Opening(
        "Training when most labels are missing: news",
        "Does what holds for package descriptions hold for news?",
        _training,
    ),
    "tree": Opening(
        "Label trees when labels are missing",
        "What do corrections give to a tree of labels, and what does the tree cost in quality?",
        _tree,
    ),
    "encoder": Opening(
        "An encoder when most labels are missing",
        "What do corrections give to an encoder, and what does a shortlist of labels cost?",
        _encoder,
    ),
}
"""By the name of the study."""
