"""Linear models on the command line: the recipe of a training, how it was chosen, its plan."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from unmask.cli.output import bar, command, progress_console, show_facts, show_json
from unmask.cli.training import ASKED, NO_PROPENSITIES, Training, expectations, refuse_chosen

if TYPE_CHECKING:
    import scipy.sparse as sp

    from unmask._typing import Floats
    from unmask.data import Dataset
    from unmask.linear import Recipe
    from unmask.models.linear import Plan
    from unmask.models.store import Parameter
    from unmask.parallel import Backend
    from unmask.propensity import PropensityEstimate
    from unmask.tuning import Tuned


class Task(TypedDict):
    """What a plan and a training are made from."""

    features: sp.csr_array
    labels: sp.csr_array | Dataset
    recipe: Recipe
    propensity: Floats | PropensityEstimate | None
    shard_labels: int | None
    backend: Backend


def train(training: Training, tune: str | None, block: int | None, **parameters: Any) -> None:
    """Train a linear model, or say what it would take; `parameters` are those of `Recipe`."""
    from unmask import linear
    from unmask import propensity as models

    dataset, inputs = training.dataset, training.inputs
    stated = training.propensity
    task: Task = {
        "features": inputs.features,
        "labels": training.labels if dataset.judgements is None else dataset,
        "recipe": linear.Recipe(correction=training.correction or "vanilla", **parameters),
        "propensity": None if stated is None else models.from_spec(stated, training.labels),
        "shard_labels": block,
        "backend": training.backend,
    }
    task, choice = (
        _stated(task, training.correction) if tune is None else _tuned(task, tune, training)
    )
    if training.plan_only:
        with progress_console.status("training a sample of labels"):
            plan = linear.plan(**task)
        show_json(plan.to_dict()) if training.as_json else show_facts("plan", _plan_facts(plan))
        return
    folder = training.folder
    with bar("labels") as step:
        fitted = linear.train_to(
            folder, **task, idf=inputs.idf, vocabulary=inputs.vocabulary,
            label_names=dataset.label_names, choice=choice.manifest, resume=training.resume,
            progress=step,
        )  # fmt: skip
    judged = 0 if dataset.judgements is None else dataset.judgements.nnz
    facts = {
        **({"model of": training.kind.reason} if training.kind.by_itself else {}),
        "labels": fitted.n_labels,
        **({"judged pairs used": judged} if judged else {}),
        "words" if fitted.vocabulary else "features": fitted.n_features,
        "correction": task["recipe"].correction,
        "because": choice.reason,
        **choice.facts,
        "weights kept": "sparse" if fitted.sparse else "dense",
        "bytes": training.bytes_written,
        "model": str(folder),
    }
    if training.as_json:
        show_json({**facts, **choice.record})
    else:
        show_facts("trained", facts)


@dataclass(frozen=True)
class _Choice:
    """How a training was chosen: a sentence, what the manifest keeps, and what else to show."""

    reason: str
    manifest: dict[str, Parameter]
    facts: dict[str, object] = field(default_factory=dict)
    record: dict[str, object] = field(default_factory=dict)


def _stated(task: Task, correction: str | None) -> tuple[Task, _Choice]:
    """The correction that was named, or the one that stated propensities recommend."""
    from unmask import data
    from unmask import propensity as models
    from unmask.tuning import recommended

    recipe, p = task["recipe"], task["propensity"]
    if correction is not None:
        if p is None and correction != "vanilla":
            labels = task["labels"]
            p = models.from_spec(
                "jain", labels.labels if isinstance(labels, data.Dataset) else labels
            )
        p = None if correction == "vanilla" else p
        reason = ASKED if p is None else f"{ASKED}, with {models.source_of(p).sentence}"
    elif p is None:
        reason = NO_PROPENSITIES
    else:
        recipe = replace(recipe, correction=recommended(recipe))
        reason = f"recommended for {recipe.loss} with {models.source_of(p).sentence}"
    chosen = _Choice(reason, {"chosen_because": reason})
    return {**task, "recipe": recipe, "propensity": p}, chosen


CHOSEN = {
    "loss": "--loss", "reduction": "--reduction", "correction": "--correction",
    "normalized": "--normalized", "C": "--C", "l2": "--l2",
}  # fmt: skip
"""What --tune chooses."""
TRIED, RECORD, PAGE, RANKED_BY = (
    "tuning.jsonl.zst", "tuning.json", "tuning.html", "propensity.txt",
)  # fmt: skip
"""Beside a tuned model: what was tried, the choice, its page; p if labels are ranked by it."""


def _tuned(task: Task, metric: str, training: Training) -> tuple[Task, _Choice]:
    """The training that is best for the metric, and the files that show why."""
    from unmask import linear, tuning
    from unmask.files import remove_records

    recipe, usual = task["recipe"], linear.Recipe()
    refuse_chosen(
        [CHOSEN[name] for name in CHOSEN if getattr(recipe, name) != getattr(usual, name)]
    )
    if training.output is None:
        raise ValueError("name a folder for the model and for what was tried with --output.")
    if not training.resume:
        remove_records(training.output / TRIED)
    with bar("trainings") as step:
        best = tuning.tune(
            task["features"], task["labels"], task["propensity"], metric, recipe=recipe,
            refit=False, store=training.output / TRIED, progress=step, backend=task["backend"],
        )  # fmt: skip
    record = _written(best, training.output, training.source)
    manifest: dict[str, Parameter] = {
        "chosen_because": best.reason,
        "tuned_for": metric,
        "tau": best.tau,
        "rank_by": best.rank_by,
    }
    untried = "they need propensities: --propensity MODEL or FILE"
    facts: dict[str, object] = {
        **({"corrections not tried": untried} if task["propensity"] is None else {}),
        "chosen": best.headline,
        "ranked by": best.rank_by,
        **({} if best.run is None else {"verdict": best.run.sentence}),
        "what was tried": str(training.output / PAGE),
    }
    p = best.propensity if best.recipe.correction != "vanilla" else None
    chosen = _Choice(best.reason, manifest, facts, {"tuning": record, "run": record["run"]})
    return {**task, "recipe": best.recipe, "propensity": p}, chosen


def _written(best: Tuned, folder: Path, source: Path) -> dict[str, object]:
    """The record of a choice, written beside the model with its page."""
    import json

    from unmask import pages
    from unmask import propensity as models
    from unmask._text import finite
    from unmask.files import atomic_write

    record = {**best.to_dict(), "source": str(source), "command": command()}
    with atomic_write(folder / RECORD) as file:
        file.write(json.dumps(finite(record), indent=1).encode())
    pages.write_records([record], folder / PAGE)
    if best.rank_by != "score" and best.propensity is not None:
        models.write(folder / RANKED_BY, best.propensity)
    return record


def _plan_facts(plan: Plan) -> dict[str, object]:
    """A plan as people read it."""
    from unmask.models.training import gigabytes

    return {
        "rows × features": f"{plan.rows:,} × {plan.features:,}",
        "labels": plan.labels,
        "labels per task": plan.block,
        "tasks": plan.tasks,
        "workers × threads": f"{plan.workers} × {plan.threads}",
        "memory a worker needs": gigabytes(plan.memory),
        "memory a worker may use": None if plan.available is None else gigabytes(plan.available),
        "of it features, shared": gigabytes(plan.features_bytes),
        "of it each task": gigabytes(plan.task_bytes),
        **expectations(plan),
        "extrapolated from": f"{plan.sampled} labels",
    }
