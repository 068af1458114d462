"""`unmask threshold`: where to cut scores, chosen on validation rows with missing labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from unmask.cli import options
from unmask.cli.evaluate import propensities_of, refuse_without_training
from unmask.cli.inputs import read_systems, read_test, table_columns
from unmask.cli.output import progress_console, results, show_facts, show_json
from unmask.cli.predicted import dense_scores

if TYPE_CHECKING:
    import scipy.sparse as sp

    from unmask.thresholds import Per


def threshold(
    labels: Annotated[
        Path,
        typer.Option(help="File with the observed labels of the rows.", callback=options.existing),
    ],
    predictions: Annotated[
        Path,
        typer.Option(
            help="File with the scores of their labels, of any system.", callback=options.existing
        ),
    ],
    output: options.Output,
    train: options.Train = None,
    propensity: options.Propensity = "jain",
    metric: Annotated[
        str,
        typer.Option(
            help="micro-F1, macro-F1, 'F1 per label' or cost.",
            autocompletion=options.names("unmask.thresholds", "METRICS"),
        ),
    ] = "micro-F1",
    per: Annotated[
        str | None,
        typer.Option(help="Who has a threshold: all, label or band; default: as the metric."),
    ] = None,
    bands: Annotated[
        int, typer.Option(help="With --per band: bands of labels of like frequency.")
    ] = 3,
    prior: Annotated[
        float,
        typer.Option(
            help="Observed rows of every label that fitted probabilities count as; "
            "inf: the plug-in rule."
        ),
    ] = 100.0,
    wrong: Annotated[float, typer.Option(help="For cost: of a wrong prediction.")] = 1.0,
    missing: Annotated[float, typer.Option(help="For cost: of a missing prediction.")] = 1.0,
    table: options.Table = None,
    threads: options.Threads = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Choose thresholds on rows with missing labels; `unmask evaluate --threshold` applies them.

    [dim]unmask threshold --labels valid.txt --predictions scores.txt --train train.txt \\
         -o cut.json[/]
    [dim]unmask threshold --labels valid.txt --predictions scores.npy --propensity constant:0.5 \\
         --metric macro-F1 -o cut.json[/]
    [dim]unmask evaluate --labels test.txt --predictions test-scores.txt --train train.txt \\
         --metrics micro-F1,macro-F1 --threshold cut.json[/]
    """
    from unmask import thresholds

    rows = read_test(labels, train, table_columns(table))
    refuse_without_training(train, propensity)
    rows, systems = read_systems(rows, [predictions])
    p = propensities_of(rows.trained, rows.observed, propensity)
    scores = dense_scores(systems[str(predictions)], rows.observed.shape[1], str(predictions))
    counted = rows.observed if rows.trained is None else rows.trained
    with progress_console.status(f"choosing thresholds on {rows.observed.shape[0]:,} rows"):
        cut = thresholds.fit(
            scores, rows.observed, p, metric=metric, per=cast("Per", per),
            bands=_bands(counted, bands) if per == "band" else None, prior=prior,
            cost=(wrong, missing), names=rows.names,
        )  # fmt: skip
    thresholds.write(output, cut)
    if as_json:
        show_json(cut.to_dict())
        return
    show_facts(str(output), cut.facts)
    results.print(f"apply them by `unmask evaluate --threshold {output}`")


def _bands(labels: sp.csr_array, count: int) -> list[str]:
    """Bands of labels, equally many in each, by how often they were observed."""
    import numpy as np

    from unmask.arrays import checks

    checks.positive_int(count, "bands")
    counts = np.bincount(labels.indices, minlength=labels.shape[1])
    rank = np.argsort(np.argsort(-counts, kind="stable"), kind="stable")
    return [str(band) for band in (rank * count // max(counts.size, 1)).tolist()]
