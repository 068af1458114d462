"""Label trees on the command line: their training and its plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.cli.output import bar, progress_console, show_facts, show_json
from unmask.cli.training import ASKED, NO_PROPENSITIES, Training, expectations, refuse_chosen

if TYPE_CHECKING:
    from unmask.models.tree import TreePlan
    from unmask.tuning import Tuned


def losses() -> tuple[str, ...]:
    """The losses of label trees."""
    from unmask.models.tree import LOSSES

    return LOSSES


def corrections() -> tuple[str, ...]:
    """The corrections of label trees."""
    from unmask.models.tree import CORRECTIONS

    return CORRECTIONS


def train(training: Training, tune: str | None, first: Path | None, **parameters: Any) -> None:
    """Train label trees, or say what it would take; `parameters` are those of `TreeRecipe`.

    `tune` is the metric for which loss, correction, ranking and C are chosen, if they are.
    """
    from unmask import propensity as models
    from unmask import tree

    inputs, labels = training.inputs, training.labels
    correction = training.correction or ("vanilla" if training.propensity is None else "unbiased")
    vanilla = correction == "vanilla"
    p = None if vanilla else models.from_spec(training.propensity or "jain", labels)
    recipe = tree.TreeRecipe(correction=correction, **parameters)
    tuned = None if tune is None else _tuned(training, tune, parameters)
    if tuned is not None:
        recipe, correction = tuned.recipe, tuned.recipe.correction
        stated = training.propensity
        p = None if stated is None else models.from_spec(stated, labels)
    if training.plan_only:
        if training.backend is not None:
            raise ValueError("the --plan of a label tree is one of this machine; no --scheduler.")
        with progress_console.status("training a small tree"):
            plan = tree.plan(inputs.features, labels, recipe, propensity=p)
        show_json(plan.to_dict()) if training.as_json else show_facts("plan", _plan_facts(plan))
        return
    folder = training.folder
    with bar("labels") as step:
        model = tree.train_to(
            folder, inputs.features, labels, recipe, propensity=p, idf=inputs.idf,
            label_names=training.dataset.label_names, vocabulary=inputs.vocabulary, first=first,
            resume=training.resume, progress=step, backend=training.backend,
        )  # fmt: skip
    if tuned is not None:
        because = tuned.reason
    elif training.correction:
        because = ASKED
    else:
        because = NO_PROPENSITIES if p is None else f"for trees with {models.source_of(p).sentence}"
    facts = {
        "model of": training.kind.reason,
        "labels": model.n_labels,
        "trees": len(model.trees),
        "words" if model.vocabulary else "features": model.n_features,
        "correction": correction,
        "because": because,
        **({} if tuned is None else _chosen(tuned)),
        "bytes": training.bytes_written,
        "model": str(folder),
    }
    if training.as_json:
        run = None if tuned is None else tuned.run
        show_json({**facts, **({} if run is None else {"run": run.to_dict()})})
    else:
        show_facts("trained", facts)


def _tuned(training: Training, metric: str, parameters: dict[str, Any]) -> Tuned:
    """The choice for a metric; what was stated in its place is refused."""
    from unmask import propensity as models
    from unmask import tree
    from unmask.tuning import tune_tree

    usual = {"--correction": training.correction is None, "--loss": "loss" not in parameters,
             "--C": parameters["C"] == tree.TreeRecipe().C}  # fmt: skip
    refuse_chosen([option for option, is_usual in usual.items() if not is_usual])
    stated = training.propensity
    p = None if stated is None else models.from_spec(stated, training.labels)
    with bar("trainings") as step:
        return tune_tree(
            training.inputs.features, training.labels, p, metric, refit=False, progress=step,
            recipe=tree.TreeRecipe(**parameters), backend=training.backend,
        )  # fmt: skip


def _chosen(tuned: Tuned) -> dict[str, object]:
    """What was chosen, and how to predict with it."""
    facts: dict[str, object] = {
        "chosen": tuned.headline,
        "loss": tuned.recipe.loss,
        "C": tuned.recipe.C,
        "rank by": tuned.rank_by,
        **({} if tuned.run is None else {"verdict": tuned.run.sentence}),
    }
    if tuned.rank_by == "score":
        return facts
    return {**facts, "predict with": f"--rank-by {tuned.rank_by} and --propensity FILE"}


def _plan_facts(plan: TreePlan) -> dict[str, object]:
    """A plan as people read it."""
    from unmask.models.training import gigabytes

    return {
        "rows × features": f"{plan.rows:,} × {plan.features:,}",
        "labels": plan.labels,
        "trees": plan.trees,
        "levels of nodes": plan.levels,
        "tasks": plan.parts,
        "threads": plan.threads,
        "memory needed": gigabytes(plan.memory),
        "memory free": None if plan.available is None else gigabytes(plan.available),
        **expectations(plan),
        "extrapolated from": f"a tree of {plan.sampled:,} labels",
    }
