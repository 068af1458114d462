"""`unmask reproduce`: run a study, keep its rows, draw them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unmask.cli import options
from unmask.cli.output import bar, one_line, results, show_json

if TYPE_CHECKING:
    from unmask_studies import Study
    from unmask_studies.runs import Row


def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            help="A study, or all.",
            autocompletion=options.names("unmask_studies", "STUDIES", "all"),
        ),
    ] = "all",
    size: Annotated[
        str,
        typer.Option(
            help="tiny, small or paper.",
            autocompletion=options.names("unmask_studies", "SIZES"),
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
            autocompletion=options.names("unmask_studies.training", "LOSSES"),
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
    import unmask_studies
    from unmask import pages, parallel
    from unmask.arrays import checks
    from unmask.files import remove_records

    checks.one_of(name, ["all", *unmask_studies.STUDIES], "study")
    studies = _studies(name, losses)
    if not resume:
        for each in studies:
            remove_records(unmask_studies.runs.rows_file(output / "rows", each, size))
    rows: dict[str, list[Row]] = {}
    backend = options.backend(scheduler, tls_ca_file, tls_cert, tls_key)
    with parallel.connect(backend) as runner:
        for each, study in studies.items():
            with bar(each) as step:
                rows[each] = unmask_studies.run(
                    study, output / "rows", size=size, seed=seed, data=data,
                    progress=step, backend=None if backend is None else runner,
                )  # fmt: skip
    sections = {each: study.draw(rows[each]) for each, study in studies.items()}
    for each, drawn in sections.items():
        page = unmask_studies.study_page(each, rows[each], drawn, size, seed)
        pages.write_markdown(page, output / f"{each}.md")
        pages.write(page, output / f"{each}.html")
    if as_json:
        show_json(rows)
        return
    for each, drawn in sections.items():
        for claim in unmask_studies.claims(drawn):
            results.print(f"{claim.words}: {claim.badge} ({claim.evidence}).")
        results.print(one_line(f"page: {output / each}.html"))


def _studies(name: str, losses: str | None) -> dict[str, Study]:
    """The studies to run, by name."""
    import unmask_studies
    from unmask_studies import training

    if losses is not None:
        if name != "training":
            raise ValueError(f"--losses belongs to the study training; got it with {name}.")
        return {name: training.only(losses.split(","))}
    return dict(unmask_studies.STUDIES) if name == "all" else {name: unmask_studies.STUDIES[name]}
