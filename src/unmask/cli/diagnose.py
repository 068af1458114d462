"""`unmask diagnose`: can these propensities be true, and can estimates be used here?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.padding import Padding
from rich.text import Text

from unmask.cli import options
from unmask.cli.inputs import read_labels
from unmask.cli.output import command, one_line, progress_console, results, show_json

if TYPE_CHECKING:
    import scipy.sparse as sp

    from unmask._typing import PropensityLike
    from unmask.diagnosis import Diagnosis

AuditPair = Annotated[
    tuple[Path, Path] | None,
    typer.Option(help="Two files with the observed and the complete labels of the same rows."),
]


def diagnose(
    source: options.Source,
    propensity: options.Propensity = "jain",
    train: Annotated[
        Path | None,
        typer.Option(
            help="Training file for the propensities; default: the file itself.",
            callback=options.existing,
        ),
    ] = None,
    audit: AuditPair = None,
    predictions: Annotated[
        Path | None,
        typer.Option(
            help="Predictions of the same rows, whose metrics are put to the test too.",
            callback=options.existing,
        ),
    ] = None,
    scores: Annotated[
        Path | None,
        typer.Option(
            help="Predictions of the audited rows: are labels that the model finds obvious kept "
            "more often? Needs --audit."
        ),
    ] = None,
    html: options.Html = None,
    seed: options.Seed = 0,
    table: options.Table = None,
    part: options.Part = None,
    format: options.Format = None,
    threads: options.Threads = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Test labels against independent masks with these propensities; say what can be used.

    [dim]unmask diagnose train.txt.gz --propensity jain:AmazonCat-13K[/]
    [dim]unmask diagnose train.txt.gz --audit seen.txt complete.txt --html diagnosis.html[/]
    """
    from unmask import diagnosis
    from unmask import propensity as models
    from unmask.predictions import read as read_predictions

    files = read_labels(source, train, audit, part=part, format=format, table=table)
    labels, training_labels, audited = files.labels, files.trained, files.audited
    p = models.from_spec(propensity, training_labels)
    if scores is not None and audit is None:
        raise ValueError("--scores are predictions of audited rows; give --audit with them.")
    with progress_console.status("testing"):
        top = None if predictions is None else read_predictions(predictions)
        row_scores = None if scores is None else read_predictions(scores)
        result = diagnosis.diagnose(
            labels, p, audited, seed=seed, names=files.names, predictions=top,
            scores=row_scores,
        )  # fmt: skip
    if as_json or html is not None:
        record = _record(source, result, labels, p)
    if html is not None:
        _write_page(html, record)
    if as_json:
        show_json(record)
    else:
        size = f"{result.n:,} rows, {result.L:,} labels"
        _show(f"{source}, {size}, propensities {propensity}", result)


def _show(heading: str, result: Diagnosis) -> None:
    """The verdict and the findings on standard output."""
    results.print(one_line(heading))
    results.print(Text.assemble(("verdict", "bold"), ": ", one_line(result.verdict)))
    for finding in result.findings:
        severity = one_line(finding.severity, "bold")
        results.print(Text.assemble("\n", severity, ": ", one_line(finding.title)))
        for paragraph in (finding.evidence, f"→ {finding.advice}"):
            results.print(Padding(one_line(paragraph), (0, 0, 0, 4)))


def _record(
    source: Path, result: Diagnosis, labels: sp.csr_array, p: PropensityLike
) -> dict[str, object]:
    """Everything that a page needs, as `--json` prints it and `unmask report` reads it."""
    from unmask.pages.label_figures import label_facts

    return {
        "kind": "diagnosis",
        "source": str(source),
        "command": command(),
        **result.to_dict(),
        "labels": label_facts(labels, p),
    }


def _write_page(path: Path, record: dict[str, object]) -> None:
    from unmask import pages, report

    with progress_console.status("drawing"):
        report.write(pages.page([record]), path)
