"""`unmask train` and `unmask predict`: linear models, from file to folder to file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from unmask.cli import options
from unmask.cli.output import passing, show_facts, show_json
from unmask.cli.progress import bar

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
        bool, typer.Option("--tfidf", help="Turn word counts into tf-idf first, as DiSMEC does.")
    ] = False,
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
    [dim]unmask train train.txt.gz --scheduler tcp://node1:8786 --plan[/]
    """
    from unmask import data, linear
    from unmask import propensity as models

    backend = options.backend(scheduler, tls_ca_file, tls_cert, tls_key)
    with passing.status(f"reading {source}"):
        given = data.read(source, part=part, format=format)
    recipe = linear.Recipe(
        loss=loss, reduction=reduction, correction=correction, normalized=normalized, C=cost,
        l2=l2, bias=bias, tol=tol, prune_below=prune_below,
    )  # fmt: skip
    features: Any = _present(given.features, source, "features")
    labels: Any = _present(given.labels, source, "labels")
    idf = data.idf(features) if tfidf else None
    task: dict[str, Any] = {
        "features": features if idf is None else data.tfidf(features, idf),
        "labels": labels,
        "recipe": recipe,
        "propensity": None if correction == "vanilla" else models.from_spec(propensity, labels),
        "shard_labels": block,
        "backend": backend,
    }
    if plan:
        with passing.status("training a sample of labels"):
            made = linear.plan(**task)
        show_json(made.to_dict()) if as_json else show_facts("plan", _plan_facts(made))
        return
    if output is None:
        raise ValueError("name a folder for the model with --output, or ask for the --plan only.")
    with bar("labels") as step:
        model = linear.train_to(output, **task, idf=idf, resume=resume, progress=step)
    stored = sum(file.stat().st_size for file in output.iterdir() if file.is_file())
    facts = {
        "labels": model.n_labels,
        "features": model.n_features,
        "weights kept": "sparse" if model.sparse else "dense",
        "bytes": stored,
        "model": str(output),
    }
    show_json(facts) if as_json else show_facts("trained", facts)


def predict(
    model: ModelFolder,
    source: options.Source,
    output: options.Output,
    k: Annotated[int, typer.Option(help="Labels per row.")] = 5,
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
    """Write the best k labels of every row, as label:score, to a file.

    [dim]unmask predict model test.txt.gz -o predictions.txt --k 5[/]
    """
    from unmask import _io, data, linear, predictions
    from unmask import propensity as models

    backend = options.backend(scheduler, tls_ca_file, tls_cert, tls_key)
    with passing.status(f"reading {source}"):
        rows = data.read(source, part=part, format=format)
        loaded = linear.load(model)
    features: Any = _present(rows.features, source, "features")
    if loaded.idf is not None:
        features = data.tfidf(features, loaded.idf)
    p = None if propensity is None else models.read(propensity)
    with passing.status(f"predicting {features.shape[0]:,} rows"):
        top = linear.predict_top(
            loaded if backend is None else model,  # workers that see the folder map it
            features, k, rank_by=rank_by, propensity=p, backend=backend,
        )  # fmt: skip
        if backend is not None:
            _refuse_replaced(model, loaded.idf)
    predictions.write(output, top)
    if _io.is_standard_output(output):
        return
    facts = {"rows": len(top.labels), "labels per row": top.k, "written to": str(output)}
    show_json(facts) if as_json else show_facts("predicted", facts)


def _plan_facts(made: Any) -> dict[str, Any]:
    """A plan as people read it."""
    from datetime import timedelta

    from unmask.linear.planning import gigabytes

    return {
        "rows × features": f"{made.rows:,} × {made.features:,}",
        "labels": made.labels,
        "labels per task": made.block,
        "tasks": made.tasks,
        "workers × threads": f"{made.workers} × {made.threads}",
        "memory a worker needs": gigabytes(made.memory),
        "memory a worker may use": None if made.available is None else gigabytes(made.available),
        "of it features, shared": gigabytes(made.features_bytes),
        "of it each task": gigabytes(made.task_bytes),
        "milliseconds per label": 1000 * made.seconds_per_label,
        "expected time": str(timedelta(seconds=round(made.seconds))),
        "expected model": gigabytes(made.model_bytes),
        "extrapolated from": f"{made.sampled} labels",
    }


def _present(matrix: Any, source: Path, what: str) -> Any:
    if matrix is None:
        raise ValueError(f"{source} holds no {what}; name a file that does.")
    return matrix


def _refuse_replaced(folder: Path, idf: Any) -> None:
    """Raise if the folder has another model by now, with other word weights than were used."""
    import numpy as np

    from unmask import linear

    current: Any = linear.load(folder, verify=False).idf
    if not np.array_equal(current, idf):
        raise ValueError(f"the model in {folder} was replaced in the meantime; predict again.")
