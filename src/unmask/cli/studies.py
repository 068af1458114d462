"""`unmask reproduce`: run a study, keep its rows, draw them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmask.cli import options
from unmask.cli.output import results, show_json
from unmask.cli.progress import bar

if TYPE_CHECKING:
    from unmask.report import Section


def reproduce(
    name: Annotated[str, typer.Argument(help="A study, or all.")] = "all",
    size: Annotated[str, typer.Option(help="tiny, small or paper.")] = "small",
    seed: options.Seed = 0,
    data: Annotated[
        Path | None, typer.Option(help="Folder with real data sets, for studies that use them.")
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for rows, figures and the page.")
    ] = Path("unmask-results"),
    as_json: options.Json = False,
) -> None:
    """Run a study of the paper and write its rows, figures and a page; what is done is not redone.

    [dim]unmask reproduce recall-simulation[/]
    [dim]unmask reproduce all --size paper --data datasets/ -o results[/]
    """
    from unmask import _checks, experiments, report

    _checks.one_of(name, ["all", *experiments.STUDIES], "study")
    chosen = list(experiments.STUDIES) if name == "all" else [name]
    rows: dict[str, Any] = {}
    sections: list[Section] = []
    for each in chosen:
        study = experiments.STUDIES[each]
        with bar(each) as step:
            rows[each] = experiments.run(
                study, output / "rows", size=size, seed=seed, data=data, progress=step
            )
        drawn = study.draw(rows[each])
        _save_figures(drawn, output / "figures" / each)
        sections += drawn
    page = report.Page(
        f"Studies: {', '.join(chosen)}",
        summary=_claims(sections),
        sections=[*sections, _how_made(name, size, seed)],
    )
    report.write(page, output / "report.html")
    if as_json:
        show_json(rows)
        return
    for sentence in page.summary:
        results.print(sentence, markup=False)
    results.print(f"page: {output / 'report.html'}", markup=False)


def _save_figures(sections: list[Section], folder: Path) -> None:
    """Every chart as picture and as data."""
    from unmask import report

    folder.mkdir(parents=True, exist_ok=True)
    charts = [
        part
        for section in sections
        for part in section.parts
        if isinstance(part, report.Chart | report.Panels)
    ]
    for number, chart in enumerate(charts, start=1):
        for suffix in ("png", "svg", "csv"):
            report.save(chart, folder / f"{number}.{suffix}")


def _claims(sections: list[Section]) -> list[str]:
    """The verdicts of all sections, as sentences with their evidence."""
    from unmask import report

    return [
        f"{verdict.words} ({verdict.evidence})."
        for section in sections
        for part in section.parts
        if isinstance(part, report.Verdicts)
        for verdict in part.verdicts
    ]


def _how_made(name: str, size: str, seed: int) -> Section:
    from unmask import report

    command = f"unmask reproduce {name} --size {size} --seed {seed}"
    return report.Section("How this page was made", [report.Commands([command])])
