"""`unmask audit`: what to judge, judging it, and the number that comes of it.

A folder holds the audit from `plan` on: every command below reads it, and answers that are handed
in are kept there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from unmask.cli import options
from unmask.cli.evaluate import (
    Propensities,
    Settings,
    listed,
    propensities_of,
    refuse_without_training,
    show_estimates,
)
from unmask.cli.inputs import EvaluatedRows, labels_of, read, read_systems, read_test
from unmask.cli.options import REQUEST, option
from unmask.cli.output import (
    command,
    one_line,
    progress_console,
    results,
    show_facts,
    show_json,
    show_rows,
    warn,
    write_page,
)

if TYPE_CHECKING:
    import scipy.sparse as sp

    from unmask._typing import Floats, Record
    from unmask.arrays import TopK
    from unmask.audit import AuditFolder, AuditPlan
    from unmask.data import Dataset
    from unmask.data.judgements import Vocabulary
    from unmask.metrics import Table

app = typer.Typer(
    help="Measure metrics by judging a random sample, whatever hid the labels.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

Folder = Annotated[Path, typer.Argument(help="The folder that `unmask audit plan` made.")]
AnswerFiles = Annotated[
    list[Path] | None,
    option(
        "Answers: a file that the judging page saved, a filled-in sheet, an export of Label "
        "Studio or Argilla; may be repeated. They are kept in the folder."
    ),
]
Adjudicator = Annotated[str, option("The annotator whose answers decide where people differ.")]


class Data(NamedTuple):
    """The data of an audit: labels, predictions by name, names and texts where there are any.

    `vocabulary` says whether the columns of the labels are all that a row can have.
    """

    labels: sp.csr_array
    systems: dict[str, TopK]
    ids: Sequence[str] | None
    label_names: Sequence[str] | None
    texts: Sequence[str] | None
    vocabulary: Vocabulary


PLAN = options.Defaults("unmask.audit.plan")


def plan(
    budget: int,
    output: Annotated[Path, option(None, "--output", "-o")],
    running: options.Running,
    labels: options.OptionalFile = None,
    predictions: options.OptionalFiles = None,
    unit: str = PLAN.unit,
    metrics: str | None = None,
    text: str | None = None,
    vocabulary: Path | None = None,
    train: Path | None = None,
    reveal: bool = False,
    extend: bool = False,
    design: str | None = PLAN.design,
    observed: str | None = PLAN.observed,
    texts: Path | None = None,
    label_names: Path | None = None,
    ids: Path | None = None,
    seed: options.Seed = PLAN.seed,
) -> None:
    """Choose what to judge: rows or pairs, with known inclusion probabilities.

    [dim]unmask audit plan --labels test.txt --predictions ours.txt --budget 200 -o audit/[/]
    [dim]unmask audit plan --labels test.csv --predictions p.csv --vocabulary labels.txt \\
        --budget 200 -o audit/[/]
    [dim]unmask audit plan --labels test.txt --predictions ours.txt --predictions theirs.txt \\
        --unit pairs --metrics P@5,micro-R@5 --budget 600 --texts texts.txt -o audit/[/]
    [dim]unmask audit plan --extend --budget 100 --seed 1 -o audit/[/]

    Options
    -------
    budget
        How many rows or pairs can be judged.
    output
        Folder of the audit.
    labels
        File with the observed labels of the test rows.
    predictions
        File with predictions; repeated for several systems.
    unit
        rows (all labels of a row), or pairs (one label of one row).
    metrics
        What is to be measured, such as P@5,R@5,micro-R@5; decides the pairs.
    text
        Column of the labels' table that holds the text of every row.
    vocabulary
        All labels that judges may choose: a file with one name per line, or a model. Without it a
        table offers what it and the predictions name, which is not enough to measure recall.
    train
        Training file, all of whose labels judges may choose.
    reveal
        Show judges what is observed and predicted.
    extend
        Add a wave of --budget more to the audit there.

    Estimates
    ---------
    design
        simple, stratified, pairs or two-phase; default: by unit.
    observed
        Pairs: take observed ones as true (free, the default), or judge a part of them (sampled).

    Reading files
    -------------
    texts
        File with the text of every row, one line each.
    label_names
        File with the name of every label, one line each.
    ids
        File with the name of every row, one line each.
    """
    from unmask import audit
    from unmask.arrays.checks import one_of

    if not extend and (output / "plan.json").exists():
        raise ValueError(
            f"{output} holds an audit already; add to it with --extend, or name another folder."
        )
    before = audit.read_folder(output) if extend else None
    if before is not None and (vocabulary or train):
        raise ValueError("a further wave keeps the vocabulary of the audit; leave it out.")
    files = _files(before, labels, predictions)
    material = _data(
        files, text=text, texts=texts, label_names=label_names, ids=ids, vocabulary=vocabulary,
        train=train, axis=None if before is None else before.sheet.label_names,
    )  # fmt: skip
    if before is None:
        chosen: dict[str, Any] = {
            "unit": one_of(unit, ("rows", "pairs"), "value of --unit"),
            "observed": observed,
            "design": design,
            "metrics": listed(metrics) if metrics else None,
        }
        chosen_plan = audit.plan(
            material.systems, material.labels, budget=budget, seed=seed,
            vocabulary=material.vocabulary, **chosen,
        )  # fmt: skip
    else:
        chosen_plan = audit.extend(
            before.plan, material.systems, material.labels, budget=budget, seed=seed
        )
        material = _with_names_of(before, material)
    sheet = audit.sheet(
        chosen_plan, ids=material.ids, label_names=material.label_names, texts=material.texts,
        reveal=(material.labels, material.systems) if reveal else None,
    )  # fmt: skip
    audit.write_folder(output, chosen_plan, sheet, labels=files[0], predictions=files[1])
    facts = _plan_facts(chosen_plan, output)
    if running.as_json:
        show_json(facts | {"expected": [asdict(each) for each in chosen_plan.expected]})
        return
    show_facts("audit plan", facts)
    if chosen_plan.expected:
        show_rows(
            "expected half-width of the 95 % interval",
            ["metric", "half the budget", "this budget", "twice the budget"],
            ((e.metric, e.half, e.budget, e.twice) for e in chosen_plan.expected),
        )
    if material.texts is None:
        results.print(
            "Judges see row names only; give texts with --text COLUMN of the table of labels, or "
            "with --texts FILE."
        )
    if material.label_names is None:
        results.print("Labels are shown by their numbers; name them with --label-names FILE.")
    if chosen_plan.sample.vocabulary == "seen":
        results.print(
            "Judges are offered the labels that are recorded or predicted. What counts all true "
            "labels, such as R@5, stays doubtful: give them all with --vocabulary FILE or --train "
            "FILE."
        )
    results.print(one_line(f"next: unmask audit page {output} -o judge.html"))


def _files(
    before: AuditFolder | None, labels: Path | None, predictions: list[Path] | None
) -> tuple[Path, tuple[Path, ...]]:
    """Return the files of labels and predictions: as named, or the unchanged ones of the folder."""
    if before is not None:
        named = tuple(predictions or ())
        return (
            labels or before.labels.unchanged,
            named or tuple(each.unchanged for each in before.predictions),
        )
    if labels is None or not predictions:
        raise ValueError("a plan needs --labels FILE and --predictions FILE.")
    return labels, tuple(predictions)


def _data(
    files: tuple[Path, tuple[Path, ...]],
    *,
    text: str | None = None,
    texts: Path | None = None,
    label_names: Path | None = None,
    ids: Path | None = None,
    vocabulary: Path | None = None,
    train: Path | None = None,
    axis: Sequence[str] | None = None,
) -> Data:
    """Return labels and predictions, with names and texts from their files or from the data set.

    The columns of labels are those of `axis`, the labels of a plan so far, else of the vocabulary.
    """
    labels, systems = files
    rows = read_test(labels, None, options.Texts(text=text))
    names = _lines(label_names)
    if axis is not None:
        test, stated = _with_axis(rows.test, axis), True
    else:
        test, stated, names = _with_vocabulary(rows, names, vocabulary, train)
    rows, tops = read_systems(EvaluatedRows(test, None, labels), systems)
    own = rows.test
    return Data(
        rows.observed,
        tops,
        _lines(ids) or (None if own.ids is None else [str(each) for each in own.ids]),
        names or own.label_names,
        _lines(texts) or (None if own.texts is None else [str(each) for each in own.texts]),
        "stated" if stated else "seen",
    )


def _with_vocabulary(
    rows: EvaluatedRows, names: list[str] | None, vocabulary: Path | None, train: Path | None
) -> tuple[Dataset, bool, list[str] | None]:
    """Return the test rows with a column for every label that judges may choose.

    Returns also whether somebody stated these labels, and the names that are left to show.
    """
    from unmask._names import some
    from unmask.audit.planning import WITH_LENGTH

    test = rows.test
    offered = [] if vocabulary is None else _vocabulary(vocabulary)
    trained = None if train is None else read(train, options.Files())
    if test.label_names is None:
        if trained is not None and trained.label_names is not None:
            raise ValueError(f"{train} has names of labels, {rows.path} numbers; give both alike.")
        names = offered or names
        stated = bool(names) or trained is not None or test.source.format in WITH_LENGTH
        widths = [len(names or ())]
        if trained is not None and train is not None:
            widths.append(labels_of(trained, train).shape[1])
        return _widened(test, max(widths)), stated, names
    if trained is not None and trained.label_names is None:
        raise ValueError(f"{train} has numbers of labels, {rows.path} names; give both alike.")
    offered += [] if trained is None else trained.label_names or ()
    if names is not None and set(test.label_names) <= set(names):
        offered, names = [*offered, *names], None  # all labels there are, not other names for ours
    if not offered:
        return test, test.source.format in WITH_LENGTH, names
    new = [name for name in test.label_names if name not in set(offered)]
    if new and len(new) == len(test.label_names):
        raise ValueError(
            f"the vocabulary has none of the labels of {rows.path}, such as {some(new, 1)}; it is "
            "a file with one name per line, as the labels are called there."
        )
    if new:
        warn(
            f"{len(new):,} labels of {rows.path} are not in the vocabulary: {some(new, len(new))}; "
            "they are added to it."
        )
    return test.with_label_names(tuple(dict.fromkeys([*offered, *new]))), True, names


def _vocabulary(path: Path) -> list[str]:
    """Return names of labels: the lines of a file, or those of a model."""
    if not path.is_dir():
        return [name for line in _lines(path) or () if (name := line.strip())]
    from unmask import models

    model = models.load(path)
    if model.label_names is None:
        raise ValueError(f"the model in {path} knows its labels by number; name them in a file.")
    return list(model.label_names)


def _with_axis(test: Dataset, axis: Sequence[str]) -> Dataset:
    """Return the rows with the labels of a plan, where the file has the same names; or as many."""
    if test.label_names is None:
        return _widened(test, len(axis))
    same = set(test.label_names) <= set(axis)
    return test.with_label_names(tuple(axis)) if same else test


def _widened(test: Dataset, width: int) -> Dataset:
    """Return the rows with columns for so many labels, where the file leaves their number open."""
    from dataclasses import replace

    from scipy.sparse import csr_array

    from unmask.audit.planning import WITH_LENGTH

    if test.source.format in WITH_LENGTH or test.labels is None or width <= test.labels.shape[1]:
        return test
    own = test.labels
    return replace(
        test, labels=csr_array((own.data, own.indices, own.indptr), shape=(own.shape[0], width))
    )


def _lines(path: Path | None) -> list[str] | None:
    from unmask.files import contents

    if path is None:
        return None
    lines = contents(path).decode("utf-8", "replace").removesuffix("\n").split("\n")
    return [line.removesuffix("\r") for line in lines]


def _with_names_of(before: AuditFolder, material: Data) -> Data:
    """Return data with the names and texts of the questions so far, where no file says others."""
    n = material.labels.shape[0]
    names = {question.row: question.row_name for question in before.sheet.questions}
    ids = material.ids or [names.get(row, str(row)) for row in range(n)]
    if material.texts is None and any(question.text for question in before.sheet.questions):
        raise ValueError(
            "the audit shows texts; give them for the new rows, too: --text COLUMN or --texts FILE."
        )
    return material._replace(ids=ids, label_names=before.sheet.label_names)


def _plan_facts(plan: AuditPlan, output: Path) -> dict[str, object]:
    n, width = plan.sample.shape
    rows = len(set(plan.rows.tolist()))
    to_judge = f"{len(plan):,} {plan.unit}"
    return {
        "to judge": to_judge if plan.unit == "rows" else f"{to_judge} in {rows:,} rows",
        "of": f"{n:,} rows × {width:,} labels",
        "design": plan.sample.design.value,
        "made for": ", ".join(plan.metrics),
        "vocabulary": plan.sample.vocabulary,
        "seeds": ", ".join(str(wave.seed) for wave in plan.waves),
        "folder": str(output),
    }


def sheet(
    folder: Folder,
    printing: options.Printing,
    output: options.Output,
    format: Annotated[
        str | None, option(None, "--for", autocompletion=options.names("unmask.audit", "FORMATS"))
    ] = None,
) -> None:
    """Write the questions for a spreadsheet or an annotation tool.

    [dim]unmask audit sheet audit/ -o sheet.csv[/]
    [dim]unmask audit sheet audit/ -o tasks.json --for label-studio[/]

    Options
    -------
    format
        csv, jsonl, label-studio or argilla; default: by the suffix of the file.
    """
    from unmask import audit

    asked = audit.read_folder(folder).sheet
    files = audit.write_sheet(asked, output, format=format)
    facts = {"questions": len(asked.questions), "written": ", ".join(map(str, files))}
    printing.show("sheet", facts)
    if files[0].suffix == ".csv" and not printing.as_json:
        pairs = asked.questions and asked.questions[0].label is not None
        columns = (
            "answer with yes, no, unsure or skip" if pairs
            else "labels with names or #numbers, | between them, and complete with yes"
        )  # fmt: skip
        results.print(one_line(f"Fill in the column {columns}; then"))
        results.print(one_line(f"next: unmask audit estimate {folder} --answers {files[0]}"))


def page(
    folder: Folder, printing: options.Printing, output: options.Output, title: options.Title = None
) -> None:
    """Write one HTML file on which a person judges; it needs no server and sends nothing.

    [dim]unmask audit page audit/ -o judge.html[/]
    """
    from unmask import audit, pages

    asked = audit.read_folder(folder).sheet
    pages.write_judging(asked, output, title=title)
    facts = {
        "questions": len(asked.questions), "bytes": output.stat().st_size, "page": str(output)
    }  # fmt: skip
    printing.show("judging page", facts)
    if printing.as_json:
        return
    results.print("Open it in a browser, judge, save the answers to a file; then")
    results.print(one_line(f"next: unmask audit estimate {folder} --answers answers.json"))


def status(
    folder: Folder,
    printing: options.Printing,
    answers: AnswerFiles = None,
    adjudicator: Adjudicator = "",
) -> None:
    """Say how much has been judged, by whom, and how far people agree.

    [dim]unmask audit status audit/[/]
    [dim]unmask audit status audit/ --answers ann.json --answers bob.csv[/]
    """
    current = _answered(folder, answers, adjudicator)
    record = _people(current)
    if printing.as_json:
        show_json({**_plan_facts(current.plan, folder), **record})
        return
    _show_people(folder, current.plan.unit, record)


def _answered(folder: Path, answers: list[Path] | None, adjudicator: str) -> AuditFolder:
    """Return the folder, with the answers of these files put into it."""
    from dataclasses import replace

    from unmask import audit

    current = audit.read_folder(folder)
    if answers:
        newer = audit.read(current.sheet, *answers)
        current, changed = audit.add_answers(current, newer)
        if changed:
            warn(f"{changed:,} answers that the folder had were changed by newer ones.")
    return replace(current, answers=replace(current.answers, adjudicator=adjudicator))


def _people(current: AuditFolder) -> Record:
    """Return counts, annotators, agreement and contradictions, as values."""
    answers = current.answers
    agreement = answers.agreement()
    return {
        "counts": answers.counts(),
        "annotators": {name: len(said) for name, said in answers.by_annotator.items()},
        "agreement": [asdict(pair) for pair in agreement.pairs],
        "fleiss_kappa": agreement.fleiss,
        "contradictions": [asdict(each) for each in answers.contradictions()],
    }


SHOWN = 10
"""Contradictions that are printed; `--json` has all."""


def _show_people(folder: Path, unit: str, record: Record) -> None:
    counts: Mapping[str, int] = record["counts"]
    words = {"asked": f"{unit} asked", "judged": "judged", "unsure": "unsure", "skip": "skipped",
             "begun": "begun", "split": "people differ", "open": "open"}  # fmt: skip
    show_facts(str(folder), {words[name]: count for name, count in counts.items()})
    if record["annotators"]:
        show_rows("annotators", ["name", "answers"], record["annotators"].items())
    if record["agreement"]:
        show_rows(
            "agreement on pairs of a row and a label",
            ["annotators", "pairs", "same answer", "of yes", "Cohen's kappa"],
            (
                (" and ".join(a["annotators"]), a["items"], a["percent"], a["positive"], a["kappa"])
                for a in record["agreement"]
            ),
        )
        if len(record["annotators"]) > 2:
            results.print(f"Fleiss' kappa of all annotators: {record['fleiss_kappa']:.3f}")
    contradictions = record["contradictions"]
    if contradictions:
        show_rows(
            f"{len(contradictions):,} questions on which people differ",
            ["question", "row", "label", "answers", "settled"],
            (
                (c["question"], c["row"], c["label"],
                 "; ".join(f"{name}: {word}" for name, word in c["answers"]),
                 "yes" if c["settled"] else "no")
                for c in contradictions[:SHOWN]
            ),
        )  # fmt: skip


def estimate(
    folder: Folder,
    running: options.Running,
    answers: AnswerFiles = None,
    metrics: str | None = None,
    labels: Path | None = None,
    predictions: list[Path] | None = None,
    train: options.Train = None,
    propensity: str | None = None,
    adjudicator: Adjudicator = "",
    until_width: float | None = None,
    until_at_least: float | None = None,
    elusion: bool = False,
    confidence: options.Confidence = REQUEST.confidence,
    html: options.Html = None,
    seed: options.Seed = REQUEST.seed,
) -> None:
    """Measure metrics from the answers so far, beside what the observed labels say.

    Two or more systems are also compared with the first. --until-width and --until-at-least use
    intervals that hold at every look, so that judging may stop when they say so.

    [dim]unmask audit estimate audit/ --answers answers.json[/]
    [dim]unmask audit estimate audit/ --metrics R@5 --until-at-least 0.8 --elusion[/]
    [dim]unmask audit estimate audit/ --metrics P@5,R@5 --propensity jain --train train.txt \\
        --html result.html[/]

    Options
    -------
    metrics
        Metrics, separated by commas; default: those of the plan.
    labels
        File of observed labels, if it has moved.
    predictions
        Files of predictions, if they have moved.
    propensity
        Also estimate from these propensities, beside what is measured.
    until_width
        Say whether the audit may stop: are metrics known to ± this?
    until_at_least
        Say whether the audit may stop: are metrics certain to reach this?
    elusion
        Say how many relevant labels nobody predicted, at most.
    """
    from unmask import audit
    from unmask.metrics import compare, evaluate
    from unmask.pages.audit import stopping_lines

    current = _answered(folder, answers, adjudicator)
    files = _files(current, labels, predictions)
    material = _data(files, axis=current.sheet.label_names)
    systems = list(material.systems.values())
    if audit.data_fingerprint(systems, material.labels) != current.plan.fingerprint:
        raise ValueError(
            "these are not the labels and predictions that the plan was made from; name them with "
            "--labels and --predictions if they have moved, or plan a new audit."
        )
    p = None if propensity is None else _propensities(files[0], material, train, propensity)
    names = listed(metrics) if metrics else list(current.plan.metrics)
    with progress_console.status("measuring"):
        judged = current.answers.judgements(current.plan)
        corrected = [] if p is None else ["unbiased", "deconvolved"]
        asked: Settings = {
            "metrics": names,
            "estimators": ["measured", "vanilla", *corrected],
            "confidence": confidence,
            "seed": seed,
        }
        tables = {
            name: evaluate(top, material.labels, p, audit=judged, **asked)
            for name, top in material.systems.items()
        }
        differences = None
        if len(tables) > 1:
            paired: Settings = {**asked, "estimators": ["measured", *corrected]}
            differences = compare(material.systems, material.labels, p, audit=judged, **paired)
        records = [
            _record(name, table, current, material, names, confidence)
            | {
                "stopping": {
                    "sequences": _sequences(
                        current, material, name, names, until_width, until_at_least, confidence
                    ),
                    "elusion": _elusion(current, material, name, names, confidence)
                    if elusion
                    else None,
                }
            }
            for name, table in tables.items()
        ]
    if differences is not None:
        records[0] |= {
            "differences": differences.to_dicts(),
            "comparison": {"title": differences.title, "headline": differences.headline},
        }
    if html is not None:
        write_page(html, records)
    if running.as_json:
        show_json(records[0] if len(records) == 1 else records)
        return
    if differences is not None:
        for line in differences.headline.splitlines():
            results.print(one_line(line))
    for (name, table), record in zip(tables.items(), records, strict=True):
        results.print(one_line(table.headline))
        show_estimates(table, Path(name))
        for line in stopping_lines(record["stopping"]):
            results.print(line)
    if differences is not None:
        results.print(str(differences))
    _show_answered(current, records[0]["audit"])
    if html is not None:
        results.print(one_line(f"page: {html}"))


def _show_answered(current: AuditFolder, facts: Record) -> None:
    """Print how much was judged, and what the answers that were no answers could change."""
    counts = current.answers.counts()
    judged = f"{counts['judged']:,} of {counts['asked']:,} {current.plan.unit} are judged"
    undecided = counts["unsure"] + counts["split"]
    results.print(f"{judged}; on {undecided:,} people were unsure or differed.")
    if facts["undecided"]:
        show_rows(
            "by what undecided answers mean; intervals hold all of it",
            ["metric", "at least", "at most"],
            ((each["metric"], each["low"], each["high"]) for each in facts["undecided"]),
        )


def _sequences(
    current: AuditFolder,
    material: Data,
    name: str,
    metrics: list[str],
    width: float | None,
    at_least: float | None,
    confidence: float,
) -> list[Record]:
    """Return intervals that hold at every look, and what they say of the goals, if any."""
    from unmask import audit

    if width is None and at_least is None:
        return []
    judged, records = current.answers.judgements(current.plan), []
    for metric in metrics:
        each = audit.sequence(
            material.systems[name], material.labels, judged, metric, planned=current.plan.budget,
            confidence=confidence,
        )  # fmt: skip
        low, high = each.interval
        records.append(
            {"metric": metric, "low": low, "high": high, "judged": judged.n_judged,
             "confidence": confidence, "half_width": width, "at_least": at_least,
             "stop_after": each.rows_until(half_width=width, at_least=at_least)}
        )  # fmt: skip
    return records


def _elusion(
    current: AuditFolder, material: Data, name: str, metrics: list[str], confidence: float
) -> Record:
    """Return how many relevant labels nobody predicted, at most."""
    from unmask import audit
    from unmask.metrics.registry import split_measured

    top, judged = material.systems[name], current.answers.judgements(current.plan)
    k = max(split_measured(metric)[1] or top.k for metric in metrics)
    eluding = audit.elusion(top, material.labels, judged, k=k, confidence=confidence)
    return {**asdict(eluding), "share": eluding.share, "text": eluding.sentence}


def _propensities(labels: Path, material: Data, train: Path | None, described: str) -> Propensities:
    """Return propensities of the audit's labels, which a training file may order otherwise."""
    import numpy as np

    refuse_without_training(train, described)
    if train is None:
        return propensities_of(None, material.labels, described)
    rows = read_test(labels, train, options.Files())
    if rows.train is None or rows.names is None or material.label_names is None:
        return propensities_of(rows.trained, rows.observed, described)
    names = tuple(dict.fromkeys([*rows.names, *material.label_names]))
    rows = EvaluatedRows(
        rows.test.with_label_names(names), rows.train.with_label_names(names), labels
    )
    p = propensities_of(rows.trained, rows.observed, described)
    if names == material.label_names:
        return p
    places = {name: position for position, name in enumerate(names)}
    order = np.array([places[name] for name in material.label_names])
    values: Floats = np.asarray(getattr(p, "value", p), dtype=np.float64)[order]
    return values


def _record(
    name: str,
    table: Table,
    current: AuditFolder,
    material: Data,
    metrics: list[str],
    confidence: float,
) -> Record:
    """Return everything that a page needs, as `--json` prints it and `unmask report` reads it."""
    from unmask.audit import reached

    plan = current.plan
    path = reached(
        plan, current.answers, material.systems[name], material.labels, metrics,
        confidence=confidence,
    )  # fmt: skip
    return {
        "kind": "evaluation",
        "source": name,
        "command": command(),
        "headline": table.headline,
        "estimates": table.to_dicts(),
        "audit": {
            "unit": plan.unit,
            "design": plan.sample.design.value,
            "seeds": [wave.seed for wave in plan.waves],
            "expected": [
                {"metric": e.metric, "judged": count, "half": half}
                for e in plan.expected
                for count, half in (
                    (plan.budget // 2, e.half), (plan.budget, e.budget), (2 * plan.budget, e.twice)
                )
                if not math.isnan(half)
            ],
            "reached": [asdict(each) for each in path],
            "undecided": [
                {"metric": each.metric, "low": each.details["undecided_low"],
                 "high": each.details["undecided_high"], "questions": each.details["undecided"]}
                for each in table if "undecided" in each.details
            ],
            **_people(current),
        },
    }  # fmt: skip


for _function in (plan, sheet, page, status, estimate):
    app.command(cls=options.Command)(options.spread(_function))
