"""`unmask demo`, `report`, `reproduce`, `warm`: a first look, pages, studies, and a warm start.

Studies are a package of their own (`studies/` of the repository), found by its entry point in the
group `unmask.studies`; in a clone it is enough that its folder is on the path.
"""

from __future__ import annotations

from importlib import import_module, metadata
from pathlib import Path
from typing import Annotated, Any

import typer

from unmask.cli import options
from unmask.cli.options import option
from unmask.cli.output import (
    bar,
    command,
    one_line,
    progress_console,
    results,
    show_json,
    show_rows,
)

MISSING = (
    "studies are a package of their own, which is not installed; in a clone of the repository: "
    "pip install ./studies"
)


def demo(
    running: options.Running,
    output: Annotated[Path, option(None, "--output", "-o")] = Path("unmask-demo"),
    seed: options.Seed = 0,
) -> None:
    """Make data with known truth, hide labels, train, evaluate, and write a page about it.

    [dim]unmask demo[/]

    Options
    -------
    output
        Folder for the page.
    """
    from unmask import demo as library
    from unmask import pages
    from unmask.pages import demo as demo_page

    with bar("demo") as step:
        result = library.run(seed=seed, progress=step)
    output.mkdir(parents=True, exist_ok=True)
    page = output / "report.html"
    pages.write(demo_page.page(result), page)
    if running.as_json:
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


def report(
    stored: Annotated[
        list[Path],
        typer.Argument(
            help="What evaluate, diagnose or reproduce printed with --json, or the folder or rows "
            "that reproduce wrote."
        ),
    ],
    printing: options.Printing,
    output: options.Output = Path("report.html"),
    title: options.Title = None,
) -> None:
    """Put stored results on one page, without computing anything again.

    [dim]unmask evaluate --labels test.txt --predictions ours.txt --train train.txt --json \\
        > evaluation.json[/]
    [dim]unmask diagnose train.txt --json > diagnosis.json[/]
    [dim]unmask report evaluation.json diagnosis.json -o page.html[/]
    [dim]unmask report unmask-results --title Studies[/]      rows of `unmask reproduce`
    """
    from unmask import pages

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
    printing.show("report", facts)


def installed() -> Any | None:
    """Return the package of studies, or None if there is none."""
    for entry in metadata.entry_points(group="unmask.studies"):
        return entry.load()
    try:
        return import_module("unmask_studies")
    except ModuleNotFoundError as error:
        if error.name != "unmask_studies":
            raise
        return None


class Reproduce(options.Command):
    """The command, whose help lists the studies that are installed."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help, with the names of all studies or the way to get them."""
        studies = installed()
        self.epilog = f"Studies: {', '.join(studies.STUDIES)}." if studies else f"Note: {MISSING}"
        super().format_help(ctx, formatter)


def _complete(registry: str, *others: str) -> Any:
    """Complete from a registry of the studies, if they are installed."""

    def complete(incomplete: str) -> list[str]:
        names = [*getattr(installed(), registry, ()), *others]
        return [name for name in names if name.startswith(incomplete)]

    return complete


def reproduce(
    cluster: options.Cluster,
    running: options.Running,
    name: Annotated[
        str, typer.Argument(help="A study, or all.", autocompletion=_complete("STUDIES", "all"))
    ] = "all",
    size: Annotated[str, option(autocompletion=_complete("SIZES"))] = "small",
    seed: options.Seed = 0,
    data: Path | None = None,
    output: Annotated[Path, option(None, "--output", "-o")] = Path("unmask-results"),
    losses: Annotated[str | None, option(autocompletion=_complete("LOSSES"))] = None,
    resume: Annotated[bool, option(None, "--resume/--restart")] = True,
) -> None:
    """Run a study of the paper and write its rows, figures and page; what is done is not redone.

    [dim]unmask reproduce recall-simulation[/]
    [dim]unmask reproduce all --size paper --data datasets/ -o results[/]
    [dim]unmask reproduce training --losses ova-bce,pal-n-cce --data datasets/[/]

    Options
    -------
    size
        tiny, small or paper.
    data
        Folder with real data sets, for studies that use them; without it, rows in the output folder
        are drawn, or made-up data measured.
    output
        Folder for rows, figures and pages.
    losses
        For the study training: only these losses, separated by commas.
    resume
        Keep what is done, or measure it again.
    """
    from unmask import pages, parallel
    from unmask.arrays import checks
    from unmask.files import remove_records

    package = installed()
    if package is None:
        raise ValueError(f"{MISSING}.")
    checks.one_of(name, ["all", *package.STUDIES], "study")
    if losses is not None and name != "training":
        raise ValueError(f"--losses belongs to the study training; got it with {name}.")
    studies = dict(package.STUDIES) if name == "all" else {name: package.STUDIES[name]}
    if losses is not None:
        studies = {name: package.only(losses.split(","))}
    if not resume:
        for each in studies:
            remove_records(package.rows_file(output / "rows", each, size))
    rows: dict[str, list[dict[str, Any]]] = {}
    backend = cluster.backend
    with parallel.connect(backend) as runner:
        for each, study in studies.items():
            with bar(each) as step:
                rows[each] = package.run(
                    study, output / "rows", size=size, seed=seed, data=data,
                    progress=step, backend=None if backend is None else runner,
                )  # fmt: skip
    sections = {each: study.draw(rows[each]) for each, study in studies.items()}
    for each, drawn in sections.items():
        page = package.study_page(each, rows[each], drawn, size, seed)
        pages.write_markdown(page, output / f"{each}.md")
        pages.write(page, output / f"{each}.html")
    if running.as_json:
        show_json(rows)
        return
    for each, drawn in sections.items():
        for claim in package.claims(drawn):
            results.print(f"{claim.words}: {claim.badge} ({claim.evidence}).")
        results.print(one_line(f"page: {output / each}.html"))


def warm(running: options.Running) -> None:
    """Compile every kernel that the commands use, and say where they are kept (NUMBA_CACHE_DIR).

    [dim]unmask warm[/]
    """
    from unmask import warm as library

    with bar("compiling") as step:
        summary = library.run(progress=step)
    if running.as_json:
        show_json(summary.to_dict())
        return
    facts = {
        "kernels": summary.kernels,
        "compiled now": summary.compiled,
        "bytes": summary.bytes,
        "kept in": summary.folder,
        "seconds": summary.seconds,
    }
    running.show("compiled kernels", facts)
