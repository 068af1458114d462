"""`unmask diagnose`: can these propensities be true, and can estimates be used here?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.text import Text

from unmask.cli import options
from unmask.cli.inputs import read_labels
from unmask.cli.output import command, one_line, progress_console, results, show_json, write_page

if TYPE_CHECKING:
    from unmask.diagnosis import Diagnosis

DIAGNOSE = options.Defaults("unmask.diagnosis.diagnose")


def diagnose(
    source: options.Source,
    files: options.Files,
    running: options.Running,
    propensity: options.Propensity = "jain",
    train: options.OptionalFile = None,
    audit: tuple[Path, Path] | None = None,
    predictions: options.OptionalFile = None,
    scores: Path | None = None,
    html: options.Html = None,
    seed: options.Seed = DIAGNOSE.seed,
) -> None:
    """Test labels against independent masks with these propensities; say what can be used.

    [dim]unmask diagnose train.txt.gz --propensity jain:AmazonCat-13K[/]
    [dim]unmask diagnose train.txt.gz --audit seen.txt complete.txt --html diagnosis.html[/]

    Options
    -------
    train
        Training file for the propensities; default: the file itself.
    audit
        Two files with the observed and the complete labels of the same rows.
    predictions
        Predictions of the same rows, whose metrics are put to the test too.
    scores
        Predictions of the audited rows: are labels that the model finds obvious kept more often?
        Needs --audit.
    """
    from unmask import diagnosis
    from unmask import propensity as models
    from unmask.pages.labels import label_facts
    from unmask.predictions import read as read_predictions

    labelled = read_labels(source, files, train, audit)
    labels = labelled.labels
    p = models.from_spec(propensity, labelled.trained)
    if scores is not None and audit is None:
        raise ValueError("--scores are predictions of audited rows; give --audit with them.")
    with progress_console.status("testing"):
        top = None if predictions is None else read_predictions(predictions)
        row_scores = None if scores is None else read_predictions(scores)
        result = diagnosis.diagnose(
            labels, p, labelled.audited, seed=seed, names=labelled.names, predictions=top,
            scores=row_scores,
        )  # fmt: skip
    if running.as_json or html is not None:
        record = {
            "kind": "diagnosis", "source": str(source), "command": command(), **result.to_dict(),
            "labels": label_facts(labels, p),
        }  # fmt: skip
    if html is not None:
        write_page(html, [record])
    if running.as_json:
        show_json(record)
    else:
        size = f"{result.n:,} rows, {result.L:,} labels"
        _show(f"{source}, {size}, propensities {propensity}", result)


def _show(heading: str, result: Diagnosis) -> None:
    """Print the verdict and the findings."""
    results.print(one_line(heading))
    results.print(Text.assemble(("verdict", "bold"), ": ", one_line(result.verdict)))
    for finding in result.findings:
        severity = one_line(finding.severity, "bold")
        results.print(Text.assemble("\n", severity, ": ", one_line(finding.title)))
        for paragraph in (finding.evidence, f"→ {finding.advice}"):
            results.print(Padding(one_line(paragraph), (0, 0, 0, 4)))
