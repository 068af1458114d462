"""`unmask train` and `unmask predict`: linear models, from file to folder to file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypedDict

import typer

from unmask.cli import options
from unmask.cli.inputs import features_of, labels_of, read, table_columns, with_judgements
from unmask.cli.output import bar, progress_console, show_facts, show_json

if TYPE_CHECKING:
    import scipy.sparse as sp

    from unmask._typing import Floats
    from unmask.data import Dataset, Vocabulary
    from unmask.linear import LinearModel, Plan, Recipe
    from unmask.parallel import Backend
    from unmask.propensity import PropensityEstimate

ModelFolder = Annotated[Path, typer.Argument(help="Folder that `unmask train` made.")]


def train(
    source: options.Source,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for the model.")
    ] = None,
    loss: Annotated[
        str,
        typer.Option(
            help="squared_hinge, logistic, squared_error; softmax with pal.",
            autocompletion=options.names("unmask.linear.ova", "SOLVERS", "softmax"),
        ),
    ] = "squared_hinge",
    reduction: Annotated[
        str, typer.Option(help="ova (one-vs-all) or pal (pick-all-labels).")
    ] = "ova",
    correction: Annotated[
        str,
        typer.Option(
            help="vanilla, unbiased, bound, empirical_bayes or tempered.",
            autocompletion=options.names("unmask.weights", "CORRECTIONS"),
        ),
    ] = "vanilla",
    normalized: Annotated[
        bool, typer.Option("--normalized", help="Divide a row's loss among its labels.")
    ] = False,
    propensity: options.Propensity = "jain",
    cost: Annotated[float, typer.Option("--C", help="Cost of the loss, as in liblinear.")] = 1.0,
    l2: Annotated[float | None, typer.Option(help="Instead of C: mean loss + l2/2 ‖w‖².")] = None,
    bias: Annotated[str, typer.Option(help="regularized, free or none.")] = "regularized",
    tol: Annotated[float, typer.Option(help="Stop when a step promises less than this.")] = 4e-4,
    prune_below: Annotated[
        float, typer.Option("--prune", help="Drop smaller weights; DiSMEC uses 0.01.")
    ] = 0.0,
    tfidf: Annotated[
        bool,
        typer.Option(
            "--tfidf",
            help="Turn word counts into tf-idf first, as DiSMEC does; texts are "
            "always turned into it.",
        ),
    ] = False,
    text: options.Text = None,
    label_column: options.LabelColumn = None,
    id: options.IdColumn = None,
    table: options.Table = None,
    judgements: options.Judgements = None,
    resume: Annotated[
        bool,
        typer.Option(
            help="Go on after the shards that are there, or start anew; the old model stays "
            "until the new one is complete."
        ),
    ] = True,
    block: Annotated[
        int | None, typer.Option(help="Labels per task and shard; default: from the data.")
    ] = None,
    scheduler: options.Scheduler = None,
    tls_ca_file: options.TlsCaFile = None,
    tls_cert: options.TlsCert = None,
    tls_key: options.TlsKey = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only say what it would take: memory, tasks, time, size.")
    ] = False,
    threads: options.Threads = None,
    part: options.Part = None,
    format: options.Format = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Train a linear model, corrected for missing labels, into a folder; interrupted, it goes on.

    [dim]unmask train train.txt.gz -o model --tfidf --prune 0.01[/]
    [dim]unmask train train.txt.gz -o model --loss logistic --correction unbiased[/]
    [dim]unmask train tags.csv --text title,abstract --labels tags --id id -o model[/]
    [dim]unmask train train.txt.gz --scheduler tcp://node1:8786 --plan[/]
    """
    from unmask import linear
    from unmask import propensity as models

    backend = options.backend(scheduler, tls_ca_file, tls_cert, tls_key)
    columns = table_columns(table, text=text, labels=label_column, id=id)
    dataset = with_judgements(read(source, part, format, columns=columns), judgements)
    recipe = linear.Recipe(
        loss=loss, reduction=reduction, correction=correction, normalized=normalized, C=cost,
        l2=l2, bias=bias, tol=tol, prune_below=prune_below,
    )  # fmt: skip
    labels = labels_of(dataset, source)
    inputs = _training_inputs(dataset, source, tfidf)
    task: Task = {
        "features": inputs.features,
        "labels": labels if dataset.judgements is None else dataset,
        "recipe": recipe,
        "propensity": None if correction == "vanilla" else models.from_spec(propensity, labels),
        "shard_labels": block,
        "backend": backend,
    }
    if plan:
        with progress_console.status("training a sample of labels"):
            planned = linear.plan(**task)
        show_json(planned.to_dict()) if as_json else show_facts("plan", _plan_facts(planned))
        return
    if output is None:
        raise ValueError("name a folder for the model with --output, or ask for the --plan only.")
    with bar("labels") as step:
        model = linear.train_to(
            output, **task, idf=inputs.idf, vocabulary=inputs.vocabulary,
            label_names=dataset.label_names, resume=resume, progress=step,
        )  # fmt: skip
    stored = sum(file.stat().st_size for file in output.iterdir() if file.is_file())
    judged = 0 if dataset.judgements is None else dataset.judgements.nnz
    facts = {
        "labels": model.n_labels,
        **({"judged pairs obeyed": judged} if judged else {}),
        "words" if model.vocabulary else "features": model.n_features,
        "correction": CORRECTIONS_SAY.get(correction, correction),
        "weights kept": "sparse" if model.sparse else "dense",
        "bytes": stored,
        "model": str(output),
    }
    show_json(facts) if as_json else show_facts("trained", facts)


CORRECTIONS_SAY = {"vanilla": "vanilla: what is not recorded counts as false; see --correction"}


class _Inputs(NamedTuple):
    """The features of a training, and what makes them of counts or texts."""

    features: sp.csr_array
    idf: Floats | None
    vocabulary: Vocabulary | None


def _training_inputs(dataset: Dataset, source: Path, tfidf: bool) -> _Inputs:
    from unmask import data

    if dataset.texts is None:
        features = features_of(dataset, source)
        idf = data.idf(features) if tfidf else None
        return _Inputs(features if idf is None else data.tfidf(features, idf), idf, None)
    with progress_console.status(f"counting the words of {dataset.n:,} texts"):
        words = data.vocabulary(dataset.texts)
        counts = words.counts(dataset.texts)
    idf = data.idf(counts)
    return _Inputs(data.tfidf(counts, idf), idf, words)


class Task(TypedDict):
    """What a plan and a training are made from."""

    features: sp.csr_array
    labels: sp.csr_array | Dataset
    recipe: Recipe
    propensity: Floats | PropensityEstimate | None
    shard_labels: int | None
    backend: Backend


def predict(
    model: ModelFolder,
    source: options.Source,
    output: options.Output,
    k: Annotated[int, typer.Option(help="Labels per row.")] = 5,
    text: options.Text = None,
    id: options.IdColumn = None,
    table: options.Table = None,
    judgements: options.Judgements = None,
    rank_by: Annotated[str, typer.Option(help="score, or probability/propensity.")] = "score",
    propensity: Annotated[
        Path | None, typer.Option(help="Propensity file, for probability/propensity.")
    ] = None,
    scheduler: options.Scheduler = None,
    tls_ca_file: options.TlsCaFile = None,
    tls_cert: options.TlsCert = None,
    tls_key: options.TlsKey = None,
    threads: options.Threads = None,
    part: options.Part = None,
    format: options.Format = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write the best k labels of every row to a file.

    Into .csv, .tsv, .jsonl and .parquet as a table id, label, score with names; into other files as
    label:score with numbers.

    [dim]unmask predict model test.txt.gz -o predictions.txt --k 5[/]
    [dim]unmask predict model new.csv --id id --text text -o predictions.csv[/]
    """
    from unmask import _io, linear, predictions
    from unmask import propensity as models

    backend = options.backend(scheduler, tls_ca_file, tls_cert, tls_key)
    loaded = linear.load(model)
    rows = read(source, part, format, columns=table_columns(table, text=text, id=id))
    rows = with_judgements(rows, judgements)
    ignored = None if rows.judgements is None else rows.obeyed.ignored
    most = 0 if ignored is None else int((ignored.indptr[1:] - ignored.indptr[:-1]).max(initial=0))
    features = _features_for(loaded, rows, source)
    p = None if propensity is None else models.read(propensity)
    with progress_console.status(f"predicting {features.shape[0]:,} rows"):
        top = linear.predict_top(
            loaded if backend is None else model,  # workers that see the folder map it
            features, min(k + most, loaded.n_labels), rank_by=rank_by, propensity=p,
            backend=backend,
        )  # fmt: skip
        if backend is not None:
            _refuse_replaced(model, loaded.idf)
    if ignored is not None:
        top = top.without(ignored).first(k)
    top = top if rows.ids is None else top.named(ids=rows.ids)
    predictions.write(output, top)
    if _io.is_standard_output(output):
        return
    facts = {"rows": len(top.labels), "labels per row": top.k, "written to": str(output)}
    if ignored is not None:
        facts["ignored pairs left out"] = ignored.nnz
    show_json(facts) if as_json else show_facts("predicted", facts)


def _features_for(model: LinearModel, rows: Dataset, source: Path) -> sp.csr_array:
    """The features that the model takes, of counts or texts."""
    from unmask import data, linear

    if model.vocabulary is not None:
        if rows.texts is None:
            raise ValueError(
                f"the model was trained on texts: name the column of texts in {source} with --text."
            )
        return linear.text_features(model, rows.texts)
    features = features_of(rows, source)
    return features if model.idf is None else data.tfidf(features, model.idf)


def _plan_facts(plan: Plan) -> dict[str, object]:
    """A plan as people read it."""
    from datetime import timedelta

    from unmask.linear.planning import gigabytes

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
        "milliseconds per label": 1000 * plan.seconds_per_label,
        "expected time": str(timedelta(seconds=round(plan.seconds))),
        "expected model": gigabytes(plan.model_bytes),
        "extrapolated from": f"{plan.sampled} labels",
    }


def _refuse_replaced(folder: Path, idf: Floats | None) -> None:
    """Raise if the folder has another model by now, with other word weights than were used."""
    import numpy as np

    from unmask import linear

    current = linear.load(folder, verify=False).idf
    if not np.array_equal(np.asarray(current), np.asarray(idf)):
        raise ValueError(f"the model in {folder} was replaced in the meantime; predict again.")
