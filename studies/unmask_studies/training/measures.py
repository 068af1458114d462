"""What is measured of a trained model: its losses, what it is chosen by, and what it achieves.

Losses come on true labels and as unbiased estimates from observed ones (normalised losses with
their exact weights, so really unbiased). A model is chosen by R@5 of validation rows, deconvolved
or on true labels, and judged by P@k and R@k on the true labels of test rows, where the vanilla
formulas are the truth. A row of the study is flat:

    test/true/R@5       valid/seen/R@5/deconvolved       train/seen/loss       …
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from unmask import losses
from unmask._typing import Bools
from unmask.losses import Observed
from unmask.metrics import evaluate
from unmask.predictions import TopK
from unmask.weights import unbiased, vanilla
from unmask_studies.runs import Row
from unmask_studies.training import adam
from unmask_studies.training.protocol import METRICS, PARTS, PROBLEMS, TOP, Trial

if TYPE_CHECKING:
    from torch import Tensor

CHOSEN_BY = "R@5"
"""The metric of validation rows by which a model is chosen."""


def judge(trial: Trial, problem: str, scores: dict[str, Tensor], ranking: dict[str, Tensor]) -> Row:
    """All measures; `scores` go into the losses, `ranking` (often the same) orders the labels."""
    row: Row = {}
    loss = losses.get(PROBLEMS[problem].loss)
    for part in PARTS:
        for_true, for_observed = _observed(trial, problem, part)
        row[f"{part}/true/loss"] = adam.mean_loss(loss, scores[part], for_true)
        row[f"{part}/seen/loss"] = adam.mean_loss(loss, scores[part], for_observed)
    top = {part: TopK.from_scores(ranking[part].numpy(), TOP) for part in ("valid", "test")}
    for part, metrics in (("valid", [CHOSEN_BY]), ("test", METRICS)):
        for each in evaluate(top[part], trial.parts[part].true, metrics=metrics):
            row[f"{part}/true/{each.metric}"] = each.value
    table = evaluate(
        top["valid"], trial.parts["valid"].observed, trial.propensity,
        metrics=[CHOSEN_BY], estimators=["deconvolved"],
    )  # fmt: skip
    row[f"valid/seen/{CHOSEN_BY}/deconvolved"] = table[CHOSEN_BY, "deconvolved"].value
    return row


@lru_cache(maxsize=16)
def _observed(trial: Trial, problem: str, part: str) -> tuple[Observed, Observed]:
    """Weights that give the true loss on true labels, and its unbiased estimate on seen ones."""
    of, chosen = trial.parts[part], PROBLEMS[problem]
    normalized, reduction = chosen.normalized, chosen.reduction
    for_true = vanilla(of.true, normalized=normalized, reduction=reduction)
    for_observed = unbiased(
        of.observed, trial.propensity, normalized=normalized, reduction=reduction
    )
    return adam.observed(for_true), adam.observed(for_observed)


def decisions(chosen: Bools, true: sp.csr_array) -> Row:
    """Micro and macro F1 of sets of labels, on the true labels of the test rows.

    `chosen` is a truth value for every row and label.
    """
    relevant = true.toarray() > 0
    both = np.asarray(chosen & relevant).sum(0)
    total = np.asarray(chosen).sum(0) + relevant.sum(0)
    return {
        "test/true/micro-F1": float(2 * both.sum() / max(total.sum(), 1)),
        "test/true/macro-F1": float(np.mean(2 * both / np.maximum(total, 1))),
    }
