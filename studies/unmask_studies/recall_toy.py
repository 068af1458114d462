"""The paper's example of unbiased recall, in exact fractions.

Three labels, of which 0 and 1 are true; label 0 is predicted, so the true recall is 1/2. Each true
label is seen with probability p = 1/3. What is seen decides the estimate, which is right on average
and far outside [0, 1] every time.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import product

import numpy as np

from unmask import report
from unmask.metrics import contributions
from unmask.predictions import TopK
from unmask_studies.runs import Row, Study, Unit, statement

PAPER = {"": ("4/9", "0"), "1": ("2/9", "0"), "0": ("2/9", "3"), "0 1": ("1/9", "-3/2")}
"""What is seen: its probability and the unbiased recall, as printed."""


def units(size: str, seed: int, data: object) -> list[Unit]:
    """One unit: nothing here is random."""
    return [{"inverse_propensity": 3}]


def measure(inverse_propensity: int) -> Iterable[Row]:
    """One row per set of labels that may be seen."""
    p = Fraction(1, inverse_propensity)
    states = list(product([0, 1], repeat=2))
    observed = [[first, second, 0] for first, second in states]
    top = TopK(labels=np.zeros((4, 1), np.int32), scores=np.ones((4, 1), np.float32))
    by_estimator = contributions(
        top, observed, [float(p)] * 3, metrics=["R@1"], estimators=["vanilla", "unbiased"]
    )
    for row, state in enumerate(states):
        chance = Fraction(1)
        for kept in state:
            chance *= p if kept else 1 - p
        exact = Fraction(by_estimator["R@1", "unbiased"][row]).limit_denominator(1000)
        yield {
            "seen": " ".join(str(j) for j, kept in enumerate(state) if kept),
            "probability": str(chance),
            "vanilla": float(by_estimator["R@1", "vanilla"][row]),
            "unbiased": str(exact),
        }


def draw(rows: list[Row]) -> list[report.Section]:
    """The table, and the moments that follow from it."""
    chances = [Fraction(row["probability"]) for row in rows]
    values = [Fraction(row["unbiased"]) for row in rows]
    mean = sum((c * v for c, v in zip(chances, values, strict=True)), Fraction(0))
    variance = sum((c * (v - mean) ** 2 for c, v in zip(chances, values, strict=True)), Fraction(0))
    deviation = float(variance) ** 0.5
    same = all(PAPER[row["seen"]] == (row["probability"], row["unbiased"]) for row in rows)
    table = report.Table(
        ["labels seen", "probability", "vanilla R@1", "unbiased R@1", "paper"],
        [
            [
                r["seen"] or "none",
                r["probability"],
                r["vanilla"],
                r["unbiased"],
                PAPER[r["seen"]][1],
            ]
            for r in rows
        ],
        title="Labels 0 and 1 are true, label 0 is predicted, p = 1/3",
    )
    claims = [
        statement("All values and probabilities are the paper's", same, f"{len(rows)} states"),
        statement(
            "The expectation is the true recall 1/2", mean == Fraction(1, 2), f"it is {mean}"
        ),
        statement(
            "The standard deviation exceeds the range in which recall must lie",
            deviation > 1,
            f"variance {variance}, standard deviation {deviation:.3f}",
        ),
    ]
    return [report.Section("An example by hand", [table, report.Verdicts(claims)])]


STUDY = Study("recall-toy", "the paper's example of unbiased recall", units, measure, draw)
