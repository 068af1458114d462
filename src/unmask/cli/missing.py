"""`unmask missing` and `unmask complete`: which labels are missing, and data that are repaired."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unmask.cli import options
from unmask.cli.evaluate import write_for_people
from unmask.cli.inputs import labels_of, read, with_judgements
from unmask.cli.output import (
    messages,
    one_line,
    progress_console,
    results,
    show_facts,
    show_json,
    show_rows,
)
from unmask.cli.predict import ModelFolder, features_for

if TYPE_CHECKING:
    import scipy.sparse as sp

    from unmask._typing import Floats
    from unmask.data import Dataset
    from unmask.linear import LinearModel, Recipe
    from unmask.missing import Findings
    from unmask.missing.findings import Quality
    from unmask.propensity import PropensityEstimate
    from unmask.tree import TreeModel

SHOWN = 15
POOL = 100


FIND = options.Defaults("unmask.missing.find")


def missing(
    model: ModelFolder,
    source: options.Source,
    output: options.Output,
    columns: options.Columns,
    running: options.Running,
    top: int = FIND.top,
    propensity: options.Propensity = "jain",
    rounds: int = 2,
    suspicious: bool = False,
    page: Path | None = None,
    label_studio: Path | None = None,
    argilla: Path | None = None,
    check: bool = False,
    judgements: options.Judgements = None,
    seed: options.Seed = 0,
) -> None:
    """List the labels that are probably missing, likeliest first, with names.

    Beside the list, NAME.review.json keeps what is asked; `unmask complete` reads it with answers.

    [dim]unmask missing model train.csv --text text -o findings.csv --top 1000[/]
    [dim]unmask missing model train.txt.gz -o findings.csv --page judge.html[/]
    [dim]unmask missing model new.txt.gz -o findings.csv --rounds 0 --suspicious[/]

    Options
    -------
    top
        How many findings to list.
    rounds
        How often the model is trained again on parts of the rows to score the others; 0 takes its
        scores as they are, for rows that it has not seen.
    suspicious
        List observed labels that are probably wrong.
    page
        Also write a page on which a person judges the findings.
    check
        Hide 10 % more labels and see how many are found again.

    Pages and files
    ---------------
    label_studio
        Also write the findings as tasks for Label Studio.
    argilla
        Also write the findings as records for Argilla.
    """
    from unmask import audit, pages
    from unmask import missing as room
    from unmask import models as kinds
    from unmask import propensity as models

    loaded = kinds.load(model)
    rows = with_judgements(read(source, columns), judgements)
    labels = labels_of(rows, source)
    features = features_for(loaded, rows, source)
    if loaded.label_names is not None and rows.label_names is not None:
        rows = rows.with_label_names(loaded.label_names)
        labels = labels_of(rows, source)
    p = models.from_spec(propensity, labels)
    with progress_console.status(f"scoring {features.shape[0]:,} rows"):
        scored = _probabilities(loaded, features, rows, labels, p, rounds, seed)
        find = room.suspicious if suspicious else room.find
        findings = find(scored, rows, p, top=top)
    quality = None
    if check:
        with progress_console.status("hiding labels on top"):
            quality = room.rehearse(
                lambda kept, rest: _probabilities(
                    loaded, features, replace(rows, labels=kept), kept, rest, rounds, seed
                ),
                labels, p, top=top, seed=seed,
            )  # fmt: skip
    write_for_people(output, findings.table(), "-o")
    written = [str(output)]
    if len(findings):
        asked = room.review(findings, texts=rows.texts, seed=seed)
        kept = output.with_name(output.name.split(".")[0] + ".review.json")
        asked.write(kept)
        written.append(str(kept))
        for path, name in ((label_studio, "label-studio"), (argilla, "argilla")):
            if path is not None:
                written += map(str, audit.write_sheet(asked.sheet, path, format=name))
        if page is not None:
            pages.write_judging(asked.sheet, page)
            written.append(str(page))
    if running.as_json:
        checked = {} if quality is None else {"check": quality.to_dict()}
        show_json({**findings.to_dict(), **checked, "written": written})
        return
    _show(findings, quality, written)
    if len(findings):
        named = "".join(f" --{name} {value}" for name, value in columns.named.items())
        repair = f"unmask complete {source} {written[1]}{named} --answers answers.json -o FILE"
        results.print(one_line(f"next: judge them, save the answers, then {repair}"))


def _probabilities(
    model: LinearModel | TreeModel,
    features: sp.csr_array,
    rows: Dataset,
    labels: sp.csr_array,
    p: Floats | PropensityEstimate,
    rounds: int,
    seed: int,
) -> sp.csr_array:
    """Return P(true | features, other labels) of the rows, by models that have not seen them."""
    from unmask import linear, tree
    from unmask import missing as room

    if rounds < 0:
        raise ValueError(f"--rounds must be 0 or more; got {rounds}.")
    if isinstance(model, tree.TreeModel):
        places = min(POOL, model.n_labels)
        if rounds == 0:
            best = tree.predict_top(model, features, places)
        else:
            best = tree.predict_unseen(model, features, labels, places, propensity=p, seed=seed)
        return room.join(best, labels, p, seed=seed).probabilities
    if rounds == 0:
        top = linear.predict_top(model, features, min(POOL, model.n_labels))
        return room.join(top, labels, p, seed=seed).probabilities
    completed = linear.completion(
        features, labels if rows.judgements is None else rows, p, _recipe(model), rounds=rounds,
        seed=seed,
    )  # fmt: skip
    return completed.probabilities


def _recipe(model: LinearModel) -> Recipe:
    """Return completed training as strong as the model's own; C = 10 if that had another loss."""
    from unmask import linear
    from unmask.models.completed import STRONGER

    stored = model.parameters
    if model.loss != "logistic":
        return linear.Recipe("logistic", C=STRONGER)
    factor = 1.0 if stored.get("correction") == "completed" else STRONGER
    l2 = stored.get("l2")
    return linear.Recipe(
        "logistic",
        C=float(stored.get("C") or 1.0) * factor,
        l2=None if l2 is None else float(l2) / factor,
    )


def _show(findings: Findings, quality: Quality | None, written: list[str]) -> None:
    low, high = findings.expected_interval
    facts: dict[str, object] = {
        f"labels probably {findings.kind}": f"{findings.expected:,.0f} ({low:,.0f} to {high:,.0f})"
    }
    if findings.kind == "missing":
        low, high = findings.implied_interval
        facts["missing by the propensities alone"] = (
            f"{findings.implied:,.0f} ({low:,.0f} to {high:,.0f})"
        )
    if quality is not None:
        low, high = quality.precision_interval
        facts["right, by labels hidden on top"] = (
            f"{quality.precision:.0%} ({low:.0%} to {high:.0%})"
        )
        facts["hidden labels found again"] = f"{quality.recall:.0%} of {quality.tried:,}"
        facts["calibration error"] = quality.calibration_error
    facts |= {"listed": len(findings), "written": ", ".join(written)}
    if findings.run is not None:
        facts["verdict"] = findings.run.sentence
    show_facts(f"if {findings.source.assumption}", facts)
    pairs = zip(*findings.first(SHOWN).table().values(), strict=True) if len(findings) else ()
    show_rows("likeliest", ["row", "label", "probability"], pairs)


def complete(
    source: options.Source,
    review: Annotated[
        Path,
        typer.Argument(
            help="The .review.json file of `unmask missing`.", callback=options.existing
        ),
    ],
    output: options.Output,
    columns: options.Columns,
    running: options.Running,
    answers: list[Path] | None = None,
    threshold: float | None = None,
) -> None:
    """Add labels that people confirmed to the data; NAME-provenance.csv says where each is from.

    [dim]unmask complete train.csv findings.review.json --answers answers.json -o repaired.csv[/]
    [dim]unmask complete train.csv findings.review.json --threshold 0.95 -o repaired.csv[/]

    Options
    -------
    answers
        Answers: of the judging page, a sheet, Label Studio or Argilla.
    threshold
        Also fill in what nobody judged, from this probability on.
    """
    from unmask import audit
    from unmask import missing as room

    rows = read(source, columns)
    asked = room.read_review(review)
    if rows.label_names is not None:
        rows = rows.with_label_names(asked.sheet.label_names)
    reviewed = None
    if answers:
        reviewed = asked.reviewed(audit.read(asked.sheet, *answers))
    repaired = room.complete(rows, reviewed, threshold, findings=asked)
    target, beside = repaired.write(output)
    facts: dict[str, object] = {**repaired.counts()}
    if reviewed is not None:
        share, low, high = reviewed.precision()
        facts["share of the findings that is right"] = f"{share:.0%} ({low:.0%} to {high:.0%})"
    facts |= {"data": str(target), "provenance": str(beside)}
    running.show("repaired", facts)
    if reviewed is None and not running.as_json:
        messages.print("unmask: nobody confirmed these labels; see the provenance.")
