"""`unmask threshold`: where to cut scores, chosen on validation rows with missing labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

from unmask.cli import options
from unmask.cli.evaluate import dense_scores, propensities_of, refuse_without_training
from unmask.cli.inputs import read_systems, read_test
from unmask.cli.output import progress_console, results, show_facts, show_json

if TYPE_CHECKING:
    import scipy.sparse as sp

    from unmask.thresholds import Per

FIT = options.Defaults("unmask.thresholds.fit")


def threshold(
    labels: options.File,
    predictions: options.File,
    output: options.Output,
    running: options.Running,
    train: options.Train = None,
    propensity: options.Propensity = "jain",
    metric: Annotated[str, options.choice("unmask.thresholds", "METRICS")] = FIT.metric,
    per: str | None = FIT.per,
    bands: int = 3,
    prior: float = FIT.prior,
    wrong: float = 1.0,
    missing: float = 1.0,
    table: options.TableSettings = None,
) -> None:
    """Choose thresholds on rows with missing labels; `unmask evaluate --threshold` applies them.

    [dim]unmask threshold --labels valid.txt --predictions scores.txt --train train.txt \\
         -o cut.json[/]
    [dim]unmask threshold --labels valid.txt --predictions scores.npy --propensity constant:0.5 \\
         --metric macro-F1 -o cut.json[/]
    [dim]unmask evaluate --labels test.txt --predictions test-scores.txt --train train.txt \\
         --metrics micro-F1,macro-F1 --threshold cut.json[/]

    Options
    -------
    labels
        File with the observed labels of the rows.
    predictions
        File with the scores of their labels, of any system.
    metric
        micro-F1, macro-F1, 'F1 per label' or cost.
    per
        Who has a threshold: all, label or band; default: as the metric.
    wrong
        For cost: of a wrong prediction.
    missing
        For cost: of a missing prediction.

    Estimates
    ---------
    bands
        With --per band: bands of labels of like frequency.
    prior
        Observed rows of every label that fitted probabilities count as; inf: the plug-in rule.
    """
    from unmask import thresholds

    rows = read_test(labels, train, options.Files(table=table))
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
    if running.as_json:
        show_json(cut.to_dict())
        return
    show_facts(str(output), cut.facts)
    results.print(f"apply them by `unmask evaluate --threshold {output}`")


def _bands(labels: sp.csr_array, count: int) -> list[str]:
    """Return bands of labels, equally many in each, by how often they were observed."""
    import numpy as np

    from unmask.arrays import checks

    checks.positive_int(count, "bands")
    counts = np.bincount(labels.indices, minlength=labels.shape[1])
    rank = np.argsort(np.argsort(-counts, kind="stable"), kind="stable")
    return [str(band) for band in (rank * count // max(counts.size, 1)).tolist()]
