"""`unmask reproduce`: run a study, keep its rows, draw them.

Studies are a package of their own (`studies/` of the repository), found by its entry point in the
group `unmask.studies`; in a clone it is enough that its folder is on the path.
"""

from __future__ import annotations

from importlib import import_module, metadata
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from unmask.cli import options
from unmask.cli.output import bar, one_line, results, show_json

MISSING = (
    "studies are a package of their own, which is not installed; in a clone of the repository: "
    "pip install ./studies"
)


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


class Reproduce(TyperCommand):
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
    name: Annotated[
        str,
        typer.Argument(
            help="A study, or all.",
            autocompletion=_complete("STUDIES", "all"),
        ),
    ] = "all",
    size: Annotated[
        str,
        typer.Option(
            help="tiny, small or paper.",
            autocompletion=_complete("SIZES"),
        ),
    ] = "small",
    seed: options.Seed = 0,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder with real data sets, for studies that use them; without it, rows in the "
            "output folder are drawn, or made-up data measured."
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for rows, figures and pages.")
    ] = Path("unmask-results"),
    losses: Annotated[
        str | None,
        typer.Option(
            help="For the study training: only these losses, separated by commas.",
            autocompletion=_complete("LOSSES"),
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume/--restart", help="Keep what is done, or measure it again.")
    ] = True,
    scheduler: options.Scheduler = None,
    tls_ca_file: options.TlsCaFile = None,
    tls_cert: options.TlsCert = None,
    tls_key: options.TlsKey = None,
    threads: options.Threads = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Run a study of the paper and write its rows, figures and page; what is done is not redone.

    [dim]unmask reproduce recall-simulation[/]
    [dim]unmask reproduce all --size paper --data datasets/ -o results[/]
    [dim]unmask reproduce training --losses ova-bce,pal-n-cce --data datasets/[/]
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
    backend = options.backend(scheduler, tls_ca_file, tls_cert, tls_key)
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
    if as_json:
        show_json(rows)
        return
    for each, drawn in sections.items():
        for claim in package.claims(drawn):
            results.print(f"{claim.words}: {claim.badge} ({claim.evidence}).")
        results.print(one_line(f"page: {output / each}.html"))
