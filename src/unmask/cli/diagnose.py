"""`unmask diagnose`: can these propensities be true, and can estimates be used here?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmask.cli import options
from unmask.cli.output import messages, results, show_json

if TYPE_CHECKING:
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
        typer.Option(help="Training file for the propensities; default: the file itself."),
    ] = None,
    audit: AuditPair = None,
    html: Annotated[Path | None, typer.Option(help="Also write a page to this file.")] = None,
    seed: options.Seed = 0,
    part: options.Part = None,
    format: options.Format = None,
    as_json: options.Json = False,
) -> None:
    """Test labels against independent masks with these propensities; say what can be used.

    [dim]unmask diagnose train.txt.gz --propensity jain:AmazonCat-13K[/]
    [dim]unmask diagnose train.txt.gz --audit seen.txt complete.txt --html diagnosis.html[/]
    """
    from unmask import data, diagnosis
    from unmask import propensity as models

    labels: Any = data.read(source, part=part, format=format).labels
    base: Any = labels if train is None else data.read(train).labels
    pair = None if audit is None else tuple(data.read(path).labels for path in audit)
    with messages.status("testing"):
        found = diagnosis.diagnose(labels, models.named(propensity, base), pair, seed=seed)  # type: ignore[arg-type]
    if html is not None:
        _write_page(html, found, source)
    if as_json:
        show_json(found.to_dict())
        return
    for finding in found.findings:
        results.print(f"[bold]{finding.severity}[/]: ", end="")
        results.print(finding.title, markup=False)
        results.print(f"    {finding.evidence}\n    {finding.advice}", markup=False)


def _write_page(path: Path, found: Diagnosis, source: Path) -> None:
    from unmask import report

    verdicts = [
        report.Verdict(f.severity, f.title, evidence=f.evidence, advice=f.advice)
        for f in found.findings
    ]
    tests = report.Table(
        ["test", "effect", report.Column("p", ".2g"), report.Column("p, corrected", ".2g")],
        [[t.name, t.effect, t.p_value, t.adjusted] for t in found.tests],
        title="All tests",
    )
    sections = [
        report.Section("Findings", [report.Verdicts(verdicts)]),
        report.Section("Tests", [tests]),
    ]
    summary = [f"{f.title}." for f in found.findings if f.severity != "info"]
    report.write(report.Page(f"Diagnosis of {source.name}", summary, sections), path)
