"""`unmask demo`: what missing labels do, on data whose truth is known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unmask.cli import options
from unmask.cli.output import bar, one_line, results, show_json, show_rows


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the page.")] = Path(
        "unmask-demo"
    ),
    seed: options.Seed = 0,
    threads: options.Threads = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Make data with known truth, hide labels, train, evaluate, and write a page about it.

    [dim]unmask demo[/]
    """
    from unmask import demo as library
    from unmask import pages
    from unmask.pages import demo as demo_page

    with bar("demo") as step:
        result = library.run(seed=seed, progress=step)
    output.mkdir(parents=True, exist_ok=True)
    page = output / "report.html"
    pages.write(demo_page.page(result), page)
    if as_json:
        scores = {name: table.to_dicts() for name, table in result.scores.items()}
        show_json(
            {
                "words": demo_page.summary(result),
                "scores": scores,
                "estimates": result.estimates.to_dicts(),
            }
        )
        return
    show_rows(
        "labels lost",
        ["labels by frequency", "labels", "mean p", "true entries", "observed", "lost"],
        (
            (b.name, b.labels, b.propensity, b.true, b.observed, f"{b.lost:.0%}")
            for b in (*result.bands, result.total)
        ),
    )
    for sentence in demo_page.summary(result):
        results.print(sentence)
    results.print(one_line(f"page: {page}"))
