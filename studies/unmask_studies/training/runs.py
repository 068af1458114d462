"""One run: train, say what can be promised of the objective, measure.

`status` of a run by the converged solver: `converged`; `unfinished` where labels reached the
largest number of iterations; `diverged` where numbers overflow; `not convex` where no solver can
vouch for a minimum (then nothing is run). Of a run by Adam: `diverged` where the objective ends
above that of zero weights or is no number; otherwise `finished`, and `objective` beside that of the
converged run tells how far.

`runaway` counts labels whose bias alone drives the objective to −∞: the bias is outside the
penalty, and the loss falls without end in b where Σ pos < 0 (b → −∞) or, one-vs-all, Σ cut > n
(b → ∞). The converged solver then takes the bias into the penalty, and says so (`bias`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np

from unmask import linear, losses
from unmask.losses import Loss
from unmask.weights import Weights
from unmask.weights.corrections import with_values
from unmask_studies.runs import Row
from unmask_studies.training import adam
from unmask_studies.training.ablations import TRIED
from unmask_studies.training.measures import decisions, judge
from unmask_studies.training.protocol import (
    METHODS,
    PARTS,
    PROBLEMS,
    RANKED,
    RATE,
    SETTINGS,
    Problem,
    Setting,
    Trial,
    rate_for,
    weights_of,
)

if TYPE_CHECKING:
    from torch import Tensor

    from unmask.linear.problem import FitLog

EPOCHS, LATE, PRETRAINING = 20, 5, 10
MAX_ITERATIONS = 40
RERANKED = ("ova-bce", "pal-cce", "pal-n-cce")
"""Problems whose vanilla runs are also measured after division by the propensities."""


def by_adam(trial: Trial, problem: str, setting: str, l2: float) -> Iterable[Row]:
    """The paper's optimiser at the rate that moves the weights as far as it did there."""
    return _by_adam(trial, problem, setting, l2, rate_for(trial.train.true.shape[0]))


def by_literal_adam(trial: Trial, problem: str, setting: str, l2: float) -> Iterable[Row]:
    """The same at the paper's own rate, to show what that does on fewer rows."""
    return _by_adam(trial, problem, setting, l2, RATE)


def _by_adam(trial: Trial, problem: str, setting: str, l2: float, rate: float) -> Iterable[Row]:
    chosen, options = PROBLEMS[problem], SETTINGS[setting]
    weights, loss = weights_of(options, chosen, trial), losses.get(chosen.loss)
    phases = [adam.Phase(lambda _: loss, weights, EPOCHS, LATE)]
    if options.pretrained:
        first = weights_of(SETTINGS["vanilla"], chosen, trial)
        phases.insert(0, adam.Phase(lambda _: loss, first, PRETRAINING, 0))
    model = adam.train(trial.train.features, phases, l2=l2, rate=rate, seed=trial.seed)
    row = _promises(loss, weights, chosen) | {"rate": rate}
    return _rows(trial, problem, setting, model, row | _objective(trial, loss, weights, model, l2))


def related(trial: Trial, problem: str, setting: str, l2: float) -> Iterable[Row]:
    """A method of related work, by Adam, in place of a correction."""
    method = METHODS[setting]
    weights = weights_of(SETTINGS[method.correction], PROBLEMS["ova-bce"], trial)
    phase = adam.Phase(method.loss, weights, EPOCHS, LATE)
    rate = rate_for(trial.train.true.shape[0])
    model = adam.train(trial.train.features, [phase], l2=l2, rate=rate, seed=trial.seed)
    row = {"rate": rate, "status": "finished" if model.finite else "diverged"}
    return _rows(trial, "ova-bce", setting, model, row)


def by_solver(trial: Trial, problem: str, setting: str, l2: float) -> Iterable[Row]:
    """Our own solver, to the optimum, where the problem is convex.

    The pre-trained setting starts from the optimum of vanilla training instead of from nothing.
    """
    chosen, options = PROBLEMS[problem], setting_of(setting)
    weights, loss = training_weights(setting, chosen, trial), losses.get(chosen.loss)
    row = _promises(loss, weights, chosen)
    if not row["convex"]:
        return [row | {"status": "not convex"}]
    row["bias"] = "regularized" if row["runaway"] else "free"
    recipe = linear.Recipe(
        loss=chosen.loss,
        reduction=chosen.reduction,
        correction=None,
        l2=l2,
        bias=row["bias"],
        max_iter=MAX_ITERATIONS,
    )
    first = None
    if options.pretrained:
        first, _ = _solve(trial, recipe, weights_of(SETTINGS["vanilla"], chosen, trial))
    solution, log = _solve(trial, recipe, weights, first)
    model = adam.of_arrays(solution.weights, solution.bias)
    row |= _objective(trial, loss, weights, model, l2, bias=row["bias"])
    row["unfinished"] = len(log.exhausted)
    row["turns"] = int(log.iterations.max())
    if row["status"] == "finished":
        row["status"] = "unfinished" if row["unfinished"] else "converged"
    return _rows(trial, problem, setting, model, row)


def setting_of(setting: str) -> Setting:
    """A setting of the study, or one that was tried."""
    return SETTINGS[setting] if setting in SETTINGS else TRIED[setting][0]


def training_weights(setting: str, problem: Problem, trial: Trial) -> Weights:
    """The weights of the training rows, of a setting of either kind."""
    if setting in SETTINGS:
        return weights_of(SETTINGS[setting], problem, trial)
    return TRIED[setting][1](trial)


def _solve(
    trial: Trial, recipe: linear.Recipe, weights: Weights, first: linear.LinearModel | None = None
) -> tuple[linear.LinearModel, FitLog]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", linear.UnconvergedWarning)  # the row says so
        labels = with_values(weights.pos, np.ones(weights.pos.nnz, dtype=np.float32))
        return linear.train(trial.train.features, labels, recipe, weights=weights, first=first)


def _promises(loss: Loss, weights: Weights, chosen: Problem) -> Row:
    """Convex? Bounded below, in the scores? How many labels does the bias alone run away with?"""
    about = loss.describe(weights, normalized=chosen.normalized)
    total = weights.pos.sum(axis=0)
    runaway = total < 0
    if loss.reduction == "ova":
        runaway |= weights.cut.sum(axis=0) > weights.cut.shape[0]
    return {
        "convex": about.convex,
        "bounded": about.bounded_below,
        "largest_weight": about.largest_weight,
        "runaway": int(runaway.sum()),
    }


def _objective(
    trial: Trial,
    loss: Loss,
    weights: Weights,
    model: adam.Linear,
    l2: float,
    bias: str = "free",
) -> Row:
    """The training objective that was minimised, and whether that went well."""
    if not model.finite:
        return {"status": "diverged"}
    entries = adam.observed(weights)
    scores = model.scores(trial.train.features)
    square = model.square + (float((model.bias.double() ** 2).sum()) if bias != "free" else 0.0)
    value = adam.mean_loss(loss, scores, entries) + l2 / 2 * square
    start = adam.mean_loss(loss, 0 * scores, entries)
    measures = {"objective": value, "norm": model.square**0.5}
    return measures | {"status": "finished" if value <= start else "diverged"}


def _rows(trial: Trial, problem: str, setting: str, model: adam.Linear, row: Row) -> Iterable[Row]:
    row |= {f"n_{part}": trial.parts[part].true.shape[0] for part in PARTS}
    row["n_features"] = trial.train.features.shape[1]
    if not model.finite:
        return [row]
    later = setting_of(setting).later if setting in SETTINGS or setting in TRIED else 0.0
    with adam.one_thread():
        scores = {part: model.scores(trial.parts[part].features) for part in PARTS}
        rows = [row | _judged(trial, problem, scores, later)]
        if setting == "vanilla" and problem in RERANKED:
            rows.append(row | _judged(trial, problem, scores, 1.0) | {"setting": RANKED})
    return rows


def _judged(trial: Trial, problem: str, scores: dict[str, Tensor], later: float) -> Row:
    """All measures of a model whose probabilities are to be divided by p^later."""
    ranking = scores
    if later:
        loss, divisor = losses.get(PROBLEMS[problem].loss), trial.propensity**later
        pairs = {part: adam.divided(loss, each, divisor) for part, each in scores.items()}
        scores = {part: pair[0] for part, pair in pairs.items()}
        ranking = {part: pair[1] for part, pair in pairs.items()}
    row = judge(trial, problem, scores, ranking)
    if problem == "ova-bce":
        row |= decisions(scores["test"].numpy() > 0, trial.parts["test"].true)
    return row


OPTIMIZERS: dict[str, Callable[[Trial, str, str, float], Iterable[Row]]] = {
    "adam": by_adam,
    "adam, literal rate": by_literal_adam,
    "converged": by_solver,
    "related work": related,
}
