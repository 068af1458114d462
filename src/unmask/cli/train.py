"""`unmask train`: a linear model or label trees, from a file to a folder.

A `Training` is what was asked, whatever the kind of model. Each kind makes its recipe, chooses what
was left open (a correction for stated propensities, or by `--tune`), says what it would take
(`--plan`), or trains and prints what was done, and why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from unmask.cli import options
from unmask.cli.inputs import features_of, labels_of, read, with_judgements
from unmask.cli.options import RECIPE, TRAINING, TREE, option
from unmask.cli.output import bar, command, progress_console, show_facts, show_json, warn

if TYPE_CHECKING:
    import scipy.sparse as sp

    from unmask._typing import Floats
    from unmask.data import Dataset, Vocabulary
    from unmask.linear import Recipe
    from unmask.models.linear import Plan
    from unmask.models.store import Parameter
    from unmask.models.tree import TreePlan
    from unmask.parallel import Backend
    from unmask.propensity import PropensityEstimate
    from unmask.tuning import Tuned

KINDS = ("auto", "linear", "tree")
MANY = 20_000
"""Labels from which on a tree is trained by itself."""
ASKED = "asked for with --correction"
NO_PROPENSITIES = "no propensities were stated or audited, so what is not recorded counts as false"
CHOSEN = {
    "loss": "--loss", "reduction": "--reduction", "correction": "--correction",
    "normalized": "--normalized", "C": "--C", "l2": "--l2",
}  # fmt: skip
"""Options that --tune chooses."""
TRIED, RECORD, PAGE, RANKED_BY = (
    "tuning.jsonl.zst", "tuning.json", "tuning.html", "propensity.txt",
)  # fmt: skip
"""Beside a tuned model: what was tried, the choice, its page; p if labels are ranked by it."""

Advanced = Annotated[float, option(topic=TRAINING)]
Counted = Annotated[int, option(topic=TRAINING)]


def train(
    context: typer.Context,
    source: options.Source,
    columns: options.Columns,
    cluster: options.Cluster,
    running: options.Running,
    output: Annotated[Path | None, option(None, "--output", "-o")] = None,
    model: Annotated[str, options.choice("unmask.cli.train", "KINDS")] = "auto",
    loss: Annotated[
        str, options.choice("unmask.models.one_vs_all", "SOLVERS", "softmax")
    ] = RECIPE.loss,
    correction: Annotated[
        str | None, options.choice("unmask.weights", "CORRECTIONS", "completed", "likelihood")
    ] = None,
    propensity: Annotated[str | None, option(autocompletion=options.models)] = None,
    tune: Annotated[str | None, option(metavar="METRIC")] = None,
    cost: Annotated[float, option(None, "--C")] = RECIPE.C,
    tfidf: bool = False,
    plan: bool = False,
    reduction: Annotated[str, option(topic=TRAINING)] = RECIPE.reduction,
    normalized: Annotated[bool, option(None, "--normalized", topic=TRAINING)] = RECIPE.normalized,
    l2: Annotated[float | None, option(topic=TRAINING)] = RECIPE.l2,
    bias: Annotated[str, option(topic=TRAINING)] = RECIPE.bias,
    tol: Advanced = RECIPE.tol,
    max_iter: Counted = RECIPE.max_iter,
    prune_below: Annotated[float, option(None, "--prune", topic=TRAINING)] = RECIPE.prune_below,
    n_trees: Annotated[int, option(None, "--trees", topic=TRAINING)] = TREE.n_trees,
    first: Path | None = None,
    judgements: options.Judgements = None,
    resume: bool = True,
    block: int | None = None,
) -> None:
    """Train a model into a folder; interrupted, it goes on.

    Corrected for missing labels where --propensity says how many are; without it, what is not
    recorded counts as false. What was done, and why, is printed and kept in the manifest.

    [dim]unmask train train.txt.gz -o model --tfidf --prune 0.01[/]
    [dim]unmask train train.txt.gz -o model --propensity p.txt --tune R@5[/]
    [dim]unmask train train.txt.gz -o model --loss logistic --correction unbiased[/]
    [dim]unmask train tags.csv --text title,abstract --labels tags --id id -o model[/]
    [dim]unmask train train.txt.gz --scheduler tcp://node1:8786 --plan[/]
    [dim]unmask train train.txt.gz -o model --model tree --tfidf --trees 1[/]

    Options
    -------
    output
        Folder for the model.
    model
        linear (one-vs-all or softmax), tree (for very many labels), or auto: a tree from 20,000
        labels on.
    correction
        vanilla, unbiased, bound, empirical_bayes, tempered; completed or likelihood with logistic.
        Default: the one for the loss where --propensity is given, else vanilla.
    propensity
        jain, jain:a,b, jain:DATASET, constant:p, inverse_linear:head,tail, or a file with one
        number per label; a correction without it takes jain.
    tune
        Choose loss, correction, ranking and C for a metric on true labels, such as R@5.
    tfidf
        Turn word counts into tf-idf first, as DiSMEC does; not for features that are weighted
        already. Texts are always turned into it.
    plan
        Only say what it would take: memory, tasks, time, size.

    Training
    --------
    first
        Folder of a tree of the same rows with fewer labels, to add labels to.

    Running
    -------
    resume
        Go on after the shards that are there, or start anew; the old model stays until the new one
        is complete.
    block
        Labels per task and shard; default: from the data.
    """
    from unmask.models.tree import CORRECTIONS, LOSSES

    backend = cluster.backend
    dataset = with_judgements(read(source, columns), judgements)
    labels = labels_of(dataset, source)
    only_linear = {
        f"--loss {loss}": loss not in LOSSES,
        f"--reduction {reduction}": reduction != "ova",
        f"--correction {correction}": correction not in (None, *CORRECTIONS),
        "--normalized": normalized,
        "--l2": l2 is not None,
        "--block": block is not None,
        "judgements": dataset.judgements is not None,
    }
    kind = choose_kind("tree" if first else model, labels.shape[1], only_linear)
    trees = options.changed(
        context, loss=loss, tol=tol, max_iter=max_iter, prune_below=prune_below, n_trees=n_trees
    )
    if kind.name == "linear" and "n_trees" in trees:
        raise ValueError("--trees is for label trees; leave it out, or add --model tree.")
    training = Training(
        source, dataset, labels, training_inputs(dataset, source, tfidf), kind, correction,
        propensity, output, resume, plan, backend, running.as_json,
    )  # fmt: skip
    if kind.name == "tree":
        _train_trees(training, tune, first, C=cost, bias=bias, **trees)
        return
    _train_linear(
        training, tune, block,
        loss=loss, reduction=reduction, normalized=normalized, C=cost, l2=l2, bias=bias, tol=tol,
        max_iter=max_iter, prune_below=prune_below,
    )  # fmt: skip


class Kind(NamedTuple):
    """A kind of model, and why; whether it was left to us."""

    name: str
    reason: str
    by_itself: bool = False


def choose_kind(wished: str, n_labels: int, only_linear: Mapping[str, bool]) -> Kind:
    """Return the kind of model for so many labels.

    `only_linear` names options that label trees do not have, and says which are in use.
    """
    from unmask.arrays.checks import one_of

    one_of(wished, KINDS, "model")
    used = [name for name, in_use in only_linear.items() if in_use]
    if wished == "tree" and used:
        raise ValueError(
            f"label trees cannot be trained with {', '.join(used)}; leave that out, or train "
            "one-vs-all with --model linear."
        )
    if wished != "auto":
        return Kind(wished, f"{'label trees' if wished == 'tree' else 'linear'}, as asked")
    if n_labels < MANY:
        return Kind("linear", f"one-vs-all, the best there is below {MANY:,} labels", True)
    if used:
        return Kind("linear", f"one-vs-all, because label trees have no {', '.join(used)}", True)
    reason = f"label trees: one-vs-all of {n_labels:,} labels takes long; see --model linear"
    return Kind("tree", reason, True)


class Inputs(NamedTuple):
    """The features of a training, and what makes them of counts or texts."""

    features: sp.csr_array
    idf: Floats | None
    vocabulary: Vocabulary | None


def training_inputs(dataset: Dataset, source: Path, tfidf: bool) -> Inputs:
    """Return the features of a data set: as they are, by tf-idf, or made of its texts."""
    from unmask import data

    if dataset.texts is None:
        features = features_of(dataset, source)
        if tfidf and (features.data % 1).any():
            warn("features are no whole numbers; if they are weighted already, leave --tfidf out.")
        idf = data.idf(features) if tfidf else None
        return Inputs(features if idf is None else data.tfidf(features, idf), idf, None)
    with progress_console.status(f"counting the words of {dataset.n:,} texts"):
        words = data.vocabulary(dataset.texts)
        counts = words.counts(dataset.texts)
    idf = data.idf(counts)
    return Inputs(data.tfidf(counts, idf), idf, words)


@dataclass(frozen=True)
class Training:
    """A training as it was asked for, whatever the model."""

    source: Path
    dataset: Dataset
    labels: sp.csr_array
    inputs: Inputs
    kind: Kind
    correction: str | None
    propensity: str | None
    output: Path | None
    resume: bool
    plan_only: bool
    backend: Backend
    as_json: bool

    @property
    def stated(self) -> Floats | PropensityEstimate | None:
        """Propensities as --propensity describes them; None without it."""
        from unmask.propensity import from_spec

        return None if self.propensity is None else from_spec(self.propensity, self.labels)

    @property
    def folder(self) -> Path:
        """The folder of the model; an error without one."""
        if self.output is None:
            raise ValueError(
                "name a folder for the model with --output, or ask for the --plan only."
            )
        return self.output

    def show_plan(self, plan: Plan | TreePlan, facts: Mapping[str, object]) -> None:
        """Print what a training will take: JSON of the plan, or facts with time and size."""
        from datetime import timedelta

        if self.as_json:
            show_json(plan.to_dict())
            return
        expected = {
            "milliseconds per label": 1000 * plan.seconds_per_label,
            "expected time": str(timedelta(seconds=round(plan.seconds))),
            "expected model": _gigabytes(plan.model_bytes),
        }
        *first, (last, value) = facts.items()
        show_facts("plan", {**dict(first), **expected, last: value})

    def show_trained(self, facts: Mapping[str, object], record: Mapping[str, object]) -> None:
        """Print what was done; `record` is for JSON only."""
        size = sum(file.stat().st_size for file in self.folder.iterdir() if file.is_file())
        facts = {**facts, "bytes": size, "model": str(self.folder)}
        show_json({**facts, **record}) if self.as_json else show_facts("trained", facts)


def _refuse_chosen(names: Sequence[str]) -> None:
    """Raise if options are stated that --tune chooses."""
    if names:
        raise ValueError(f"--tune chooses {', '.join(names)} itself; leave out one or the other.")


def _gigabytes(size: int) -> str:
    from unmask.models.training import gigabytes

    return gigabytes(size)


def _train_linear(
    training: Training, tune: str | None, block: int | None, **parameters: Any
) -> None:
    """Train a linear model, or say what it would take; `parameters` are those of `Recipe`."""
    from unmask import linear

    dataset, inputs = training.dataset, training.inputs
    labels = training.labels if dataset.judgements is None else dataset
    recipe = linear.Recipe(correction=training.correction or "vanilla", **parameters)
    choice = _stated(recipe, training) if tune is None else _tuned(recipe, tune, training, labels)
    if training.plan_only:
        with progress_console.status("training a sample of labels"):
            plan = linear.plan(
                inputs.features, labels, choice.recipe, propensity=choice.propensity,
                shard_labels=block, backend=training.backend,
            )  # fmt: skip
        available = None if plan.available is None else _gigabytes(plan.available)
        facts = {
            "rows × features": f"{plan.rows:,} × {plan.features:,}",
            "labels": plan.labels,
            "labels per task": plan.block,
            "tasks": plan.tasks,
            "workers × threads": f"{plan.workers} × {plan.threads}",
            "memory a worker needs": _gigabytes(plan.memory),
            "memory a worker may use": available,
            "of it features, shared": _gigabytes(plan.features_bytes),
            "of it each task": _gigabytes(plan.task_bytes),
            "extrapolated from": f"{plan.sampled} labels",
        }
        training.show_plan(plan, facts)
        return
    folder = training.folder
    with bar("labels") as step:
        fitted = linear.train_to(
            folder, inputs.features, labels, choice.recipe, propensity=choice.propensity,
            shard_labels=block, backend=training.backend, idf=inputs.idf,
            vocabulary=inputs.vocabulary, label_names=dataset.label_names, choice=choice.manifest,
            resume=training.resume, progress=step,
        )  # fmt: skip
    judged = 0 if dataset.judgements is None else dataset.judgements.nnz
    training.show_trained(
        {
            **({"model of": training.kind.reason} if training.kind.by_itself else {}),
            "labels": fitted.n_labels,
            **({"judged pairs used": judged} if judged else {}),
            "words" if fitted.vocabulary else "features": fitted.n_features,
            "correction": choice.recipe.correction,
            "because": choice.reason,
            **choice.facts,
            "weights kept": "sparse" if fitted.sparse else "dense",
        },
        choice.record,
    )


@dataclass(frozen=True)
class _Choice:
    """The choice of a training: recipe, propensities, a sentence, and what is kept and shown."""

    recipe: Recipe
    propensity: Floats | PropensityEstimate | None
    reason: str
    manifest: dict[str, Parameter]
    facts: dict[str, object] = field(default_factory=dict)
    record: dict[str, object] = field(default_factory=dict)


def _stated(recipe: Recipe, training: Training) -> _Choice:
    """Return the choice of the named correction, or of the one that is recommended."""
    from unmask import propensity as models
    from unmask.tuning import recommended

    p, correction = training.stated, training.correction
    if correction is not None:
        if p is None and correction != "vanilla":
            p = models.from_spec("jain", training.labels)
        p = None if correction == "vanilla" else p
        reason = ASKED if p is None else f"{ASKED}, with {models.source_of(p).sentence}"
    elif p is None:
        reason = NO_PROPENSITIES
    else:
        recipe = replace(recipe, correction=recommended(recipe))
        reason = f"recommended for {recipe.loss} with {models.source_of(p).sentence}"
    return _Choice(recipe, p, reason, {"chosen_because": reason})


def _tuned(
    recipe: Recipe, metric: str, training: Training, labels: sp.csr_array | Dataset
) -> _Choice:
    """Return the choice that is best for the metric, and write the files that show why."""
    from unmask import linear, tuning
    from unmask.files import remove_records

    usual, p = linear.Recipe(), training.stated
    _refuse_chosen(
        [CHOSEN[name] for name in CHOSEN if getattr(recipe, name) != getattr(usual, name)]
    )
    if training.output is None:
        raise ValueError("name a folder for the model and for what was tried with --output.")
    if not training.resume:
        remove_records(training.output / TRIED)
    with bar("trainings") as step:
        best = tuning.tune(
            training.inputs.features, labels, p, metric, recipe=recipe, refit=False,
            store=training.output / TRIED, progress=step, backend=training.backend,
        )  # fmt: skip
    record = _stored(best, training.output, training.source)
    manifest: dict[str, Parameter] = {
        "chosen_because": best.reason,
        "tuned_for": metric,
        "tau": best.tau,
        "rank_by": best.rank_by,
    }
    untried = "they need propensities: --propensity MODEL or FILE"
    facts: dict[str, object] = {
        **({"corrections not tried": untried} if p is None else {}),
        "chosen": best.headline,
        "ranked by": best.rank_by,
        **({} if best.run is None else {"verdict": best.run.sentence}),
        "what was tried": str(training.output / PAGE),
    }
    used = best.propensity if best.recipe.correction != "vanilla" else None
    return _Choice(best.recipe, used, best.reason, manifest, facts,
                   {"tuning": record, "run": record["run"]})  # fmt: skip


def _stored(best: Tuned, folder: Path, source: Path) -> dict[str, object]:
    """Write the record of a choice and its page beside the model, and return it."""
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


def _train_trees(
    training: Training, tune: str | None, first: Path | None, **parameters: Any
) -> None:
    """Train label trees, or say what it would take; `parameters` are those of `TreeRecipe`.

    `tune` is the metric for which loss, correction, ranking and C are chosen, if they are.
    """
    from unmask import propensity as models
    from unmask import tree

    inputs, labels = training.inputs, training.labels
    correction = training.correction or ("vanilla" if training.propensity is None else "unbiased")
    vanilla = correction == "vanilla"
    p: Floats | PropensityEstimate | None
    p = None if vanilla else models.from_spec(training.propensity or "jain", labels)
    recipe = tree.TreeRecipe(correction=correction, **parameters)
    tuned = None if tune is None else _tuned_trees(training, tune, parameters)
    if tuned is not None:
        recipe, correction, p = tuned.recipe, tuned.recipe.correction, training.stated
    if training.plan_only:
        if training.backend is not None:
            raise ValueError("the --plan of a label tree is one of this machine; no --scheduler.")
        with progress_console.status("training a small tree"):
            plan = tree.plan(inputs.features, labels, recipe, propensity=p)
        facts = {
            "rows × features": f"{plan.rows:,} × {plan.features:,}",
            "labels": plan.labels,
            "trees": plan.trees,
            "levels of nodes": plan.levels,
            "tasks": plan.parts,
            "threads": plan.threads,
            "memory needed": _gigabytes(plan.memory),
            "memory free": None if plan.available is None else _gigabytes(plan.available),
            "extrapolated from": f"a tree of {plan.sampled:,} labels",
        }
        training.show_plan(plan, facts)
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
    training.show_trained(
        {
            "model of": training.kind.reason,
            "labels": model.n_labels,
            "trees": len(model.trees),
            "words" if model.vocabulary else "features": model.n_features,
            "correction": correction,
            "because": because,
            **({} if tuned is None else _chosen(tuned)),
        },
        {} if tuned is None or tuned.run is None else {"run": tuned.run.to_dict()},
    )


def _tuned_trees(training: Training, metric: str, parameters: dict[str, Any]) -> Tuned:
    """Return the choice for a metric; options stated in its place are refused."""
    from unmask import tree
    from unmask.tuning import tune_tree

    usual = {"--correction": training.correction is None, "--loss": "loss" not in parameters,
             "--C": parameters["C"] == tree.TreeRecipe().C}  # fmt: skip
    _refuse_chosen([option for option, is_usual in usual.items() if not is_usual])
    with bar("trainings") as step:
        return tune_tree(
            training.inputs.features, training.labels, training.stated, metric, refit=False,
            progress=step, recipe=tree.TreeRecipe(**parameters), backend=training.backend,
        )  # fmt: skip


def _chosen(tuned: Tuned) -> dict[str, object]:
    """Return what was chosen, and how to predict with it."""
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
