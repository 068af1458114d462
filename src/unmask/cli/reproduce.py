"""`unmask reproduce`: run a study, keep its rows, draw them."""

from __future__ import annotations

import json
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmask.cli import options
from unmask.cli.output import one_line, results, show_json
from unmask.cli.progress import bar

if TYPE_CHECKING:
    from unmask.report import Page, Section, Table, Verdict
    from unmask_studies import Study


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
        Path | None, typer.Option(help="Folder with real data sets, for studies that use them.")
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for rows, figures and the page.")
    ] = Path("unmask-results"),
    losses: Annotated[
        str | None,
        typer.Option(
            help="For the study training: only these losses, separated by commas.",
            autocompletion=options.names("unmask_studies.training", "LOSSES"),
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume/--anew", help="Keep what is done, or measure it again.")
    ] = True,
    scheduler: options.Scheduler = None,
    threads: options.Threads = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Run a study of the paper and write its rows, figures and a page; what is done is not redone.

    [dim]unmask reproduce recall-simulation[/]
    [dim]unmask reproduce all --size paper --data datasets/ -o results[/]
    [dim]unmask reproduce training --losses ova-bce,pal-n-cce --data datasets/[/]
    """
    import unmask_studies
    from unmask import _validation, parallel, report

    _validation.one_of(name, ["all", *unmask_studies.STUDIES], "study")
    studies = _studies(name, losses)
    if not resume:
        for each in studies:
            rmtree(output / "rows" / each / size, ignore_errors=True)
    rows: dict[str, Any] = {}
    sections: list[Section] = []
    with parallel.connect(scheduler) as runner:
        for each, study in studies.items():
            with bar(each) as step:
                rows[each] = unmask_studies.run(
                    study, output / "rows", size=size, seed=seed, data=data,
                    progress=step, backend=None if scheduler is None else runner,
                )  # fmt: skip
    for each, study in studies.items():
        drawn = study.draw(rows[each])
        report.write_markdown(_page(each, drawn, size, seed), output / f"{each}.md")
        (output / each).mkdir(exist_ok=True)  # where there were no drawings
        report.save(_table(rows[each]), output / each / "rows.csv")
        sections += drawn
    page = _page(name, sections, size, seed)
    report.write(page, output / "report.html")
    if as_json:
        show_json(rows)
        return
    for claim in _claims(sections):
        results.print(f"{claim.words} ({claim.evidence}).")
    results.print(one_line(f"page: {output / 'report.html'}"))


def _studies(name: str, losses: str | None) -> dict[str, Study]:
    """The studies to run, by name."""
    import unmask_studies
    from unmask_studies import training

    if losses is not None:
        if name != "training":
            raise ValueError(f"--losses belongs to the study training; got it with {name}.")
        return {name: training.only(losses.split(","))}
    return dict(unmask_studies.STUDIES) if name == "all" else {name: unmask_studies.STUDIES[name]}


def _table(rows: list[dict[str, Any]]) -> Table:
    """All rows of a study, numbers to six digits."""
    from unmask import report

    names = list(dict.fromkeys(name for row in rows for name in row))
    return report.Table(names, [[_short(row.get(name)) for name in names] for row in rows])


def _short(value: Any) -> Any:
    if isinstance(value, list | dict):
        return json.dumps(value)
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _page(name: str, sections: list[Section], size: str, seed: int) -> Page:
    from unmask import report

    command = f"unmask reproduce {name} --size {size} --seed {seed} --data DIR -o FOLDER"
    made = report.Section("How this page was made", [report.Commands([command])])
    title = "All studies" if name == "all" else f"Study: {name}"
    return report.Page(
        title,
        summary=[f"{claim.words}." for claim in _claims(sections)],
        sections=[*sections, made],
    )


def _claims(sections: list[Section]) -> list[Verdict]:
    """The verdicts of all sections."""
    from unmask import report

    parts = [part for section in sections for part in section.parts]
    return [v for part in parts if isinstance(part, report.Verdicts) for v in part.verdicts]
