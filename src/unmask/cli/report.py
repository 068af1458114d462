"""`unmask report`: one page from stored results; nothing is computed again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unmask.cli import options
from unmask.cli.output import command, progress_console, show_facts, show_json


def report(
    stored: Annotated[
        list[Path],
        typer.Argument(
            help="What evaluate, diagnose or reproduce printed with --json, or the folder or rows "
            "that reproduce wrote."
        ),
    ],
    output: options.Output = Path("report.html"),
    title: options.Title = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Put stored results on one page, without computing anything again.

    [dim]unmask evaluate --labels test.txt --predictions ours.txt --train train.txt --json \\
        > evaluation.json[/]
    [dim]unmask diagnose train.txt --json > diagnosis.json[/]
    [dim]unmask report evaluation.json diagnosis.json -o page.html[/]
    [dim]unmask report unmask-results --title Studies[/]      rows of `unmask reproduce`
    """
    from unmask import pages
    from unmask.cli.reproduce import installed

    kinds = getattr(installed(), "KINDS", pages.KINDS)
    records = [record for path in stored for record in pages.read(path, kinds=kinds)]
    with progress_console.status("drawing"):
        page = pages.write_records(records, output, title=title, commands=[command()], kinds=kinds)
    facts = {
        "results": ", ".join(pages.heading(record) for record in records),
        "sections": len(page.sections),
        "bytes": output.stat().st_size,
        "page": str(output),
    }
    show_json(facts) if as_json else show_facts("report", facts)
