"""`unmask train`: a linear model or label trees, from a file to a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unmask.cli import linear, options, tree
from unmask.cli.inputs import labels_of, read, table_columns, with_judgements
from unmask.cli.training import Training, choose_kind, training_inputs

Folder = Annotated[Path | None, typer.Option("--output", "-o", help="Folder for the model.")]
Kind = Annotated[
    str,
    typer.Option(
        help="linear (one-vs-all or softmax), tree (for very many labels), or auto: a tree from "
        "20,000 labels on.",
        autocompletion=options.names("unmask.cli.training", "KINDS"),
    ),
]
Loss = Annotated[
    str,
    typer.Option(
        help="squared_hinge, logistic, squared_error; softmax with pal.",
        autocompletion=options.names("unmask.models.one_vs_all", "SOLVERS", "softmax"),
    ),
]
Reduction = Annotated[str, typer.Option(help="ova (one-vs-all) or pal (pick-all-labels).")]
Correction = Annotated[
    str | None,
    typer.Option(
        help="vanilla, unbiased, bound, empirical_bayes, tempered; completed or likelihood with "
        "logistic. Default: the one for the loss where --propensity is given, else vanilla.",
        autocompletion=options.names("unmask.weights", "CORRECTIONS", "completed", "likelihood"),
    ),
]
Normalized = Annotated[
    bool, typer.Option("--normalized", help="Divide a row's loss among its labels.")
]
Propensity = Annotated[
    str | None,
    typer.Option(
        help="jain, jain:a,b, jain:DATASET, constant:p, inverse_linear:head,tail, or a file with "
        "one number per label; default: jain where a correction needs them.",
        autocompletion=options.models,
    ),
]
Tune = Annotated[
    str | None,
    typer.Option(
        metavar="METRIC",
        help="Choose loss, correction, ranking and C for a metric on true labels, such as R@5.",
    ),
]
Cost = Annotated[float, typer.Option("--C", help="Cost of the loss, as in liblinear.")]
L2 = Annotated[float | None, typer.Option(help="Instead of C: mean loss + l2/2 ‖w‖².")]
Bias = Annotated[str, typer.Option(help="regularized, free or none.")]
Tolerance = Annotated[float, typer.Option(help="Stop when a step promises less than this.")]
Iterations = Annotated[int, typer.Option("--max-iter", help="Newton iterations per label at most.")]
Prune = Annotated[
    float, typer.Option("--prune", help="Drop smaller weights; DiSMEC uses 0.01, trees use 0.1.")
]
Trees = Annotated[int, typer.Option("--trees", help="Trees that are averaged.")]
First = Annotated[
    Path | None,
    typer.Option(help="Folder of a tree of the same rows with fewer labels, to add labels to."),
]
Tfidf = Annotated[
    bool,
    typer.Option(
        "--tfidf",
        help="Turn word counts into tf-idf first, as DiSMEC does; not for features that are "
        "weighted already. Texts are always turned into it.",
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        help="Go on after the shards that are there, or start anew; the old model stays until the "
        "new one is complete."
    ),
]
Block = Annotated[
    int | None, typer.Option(help="Labels per task and shard; default: from the data.")
]
PlanOnly = Annotated[
    bool, typer.Option("--plan", help="Only say what it would take: memory, tasks, time, size.")
]


def train(
    context: typer.Context,
    source: options.Source,
    output: Folder = None,
    model: Kind = "auto",
    loss: Loss = "squared_hinge",
    reduction: Reduction = "ova",
    correction: Correction = None,
    normalized: Normalized = False,
    propensity: Propensity = None,
    tune: Tune = None,
    cost: Cost = 1.0,
    l2: L2 = None,
    bias: Bias = "regularized",
    tol: Tolerance = 4e-4,
    max_iter: Iterations = 100,
    prune_below: Prune = 0.0,
    n_trees: Trees = 3,
    first: First = None,
    tfidf: Tfidf = False,
    text: options.Text = None,
    label_column: options.LabelColumn = None,
    id: options.IdColumn = None,
    table: options.Table = None,
    judgements: options.Judgements = None,
    resume: Resume = True,
    block: Block = None,
    scheduler: options.Scheduler = None,
    tls_ca_file: options.TlsCaFile = None,
    tls_cert: options.TlsCert = None,
    tls_key: options.TlsKey = None,
    plan: PlanOnly = False,
    threads: options.Threads = None,
    part: options.Part = None,
    format: options.Format = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
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
    """
    backend = options.backend(scheduler, tls_ca_file, tls_cert, tls_key)
    columns = table_columns(table, text=text, labels=label_column, id=id)
    dataset = with_judgements(read(source, part, format, columns=columns), judgements)
    labels = labels_of(dataset, source)
    only_linear = {
        f"--loss {loss}": loss not in tree.losses(),
        f"--reduction {reduction}": reduction != "ova",
        f"--correction {correction}": correction not in (None, *tree.corrections()),
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
        propensity, output, resume, plan, backend, as_json,
    )  # fmt: skip
    if kind.name == "tree":
        tree.train(training, tune, first, C=cost, bias=bias, **trees)
        return
    linear.train(
        training, tune, block,
        loss=loss, reduction=reduction, normalized=normalized, C=cost, l2=l2, bias=bias, tol=tol,
        max_iter=max_iter, prune_below=prune_below,
    )  # fmt: skip
