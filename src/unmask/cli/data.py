"""`unmask info`, `propensity`, `hide`, `convert`: files in, facts or files out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from unmask.cli import options
from unmask.cli.inputs import labels_of, read
from unmask.cli.options import option
from unmask.cli.output import results, show_json, show_rows

if TYPE_CHECKING:
    import scipy.sparse as sp

    from unmask.data import Dataset
    from unmask.data.dataset import Description
    from unmask.propensity import PropensityEstimate


def info(source: options.Source, columns: options.Columns, running: options.Running) -> None:
    """Say what a data file holds: sizes, label counts, the tail.

    [dim]unmask info train.txt.gz[/]
    [dim]unmask info datasets/bibtex[/]          all parts of a folder, side by side
    [dim]unmask info datasets/bibtex --part test --json[/]
    [dim]unmask info tags.csv --text text --labels tags --id id[/]
    """
    from unmask import data

    parts = data.parts(source) if columns.part is None and source.is_dir() else (columns.part,)
    datasets = {name: read(source, replace(columns, part=name)) for name in parts or (None,)}
    described = {name: data.describe(dataset) for name, dataset in datasets.items()}
    if running.as_json:
        records = {
            name: asdict(described[name])
            | {"source": asdict(dataset.source), "frequent_labels": _frequent(dataset)}
            for name, dataset in datasets.items()
        }
        show_json(records if len(records) > 1 else next(iter(records.values())))
        return
    facts = [_facts(d) | _read_as(datasets[name]) for name, d in described.items()]
    show_rows(
        f"{source} ({', '.join({d.source.format for d in datasets.values()})})",
        ["", *(name or "" for name in datasets)],
        ((fact, *(column.get(fact) for column in facts)) for fact in facts[0]),
    )
    for name, d in described.items():
        _show_histogram(" ".join(filter(None, [name, "rows by number of labels"])), d)
        frequent = [(str(each["label"]), each["rows"]) for each in _frequent(datasets[name])]
        if frequent:
            title = " ".join(filter(None, [name, "most frequent labels"]))
            show_rows(title, ["label", "rows"], frequent)


def _read_as(dataset: Dataset) -> dict[str, object]:
    """Return how a table was understood."""
    details = dict(dataset.source.details)
    named = {"id": "column of ids", "labels": "column of labels", "text": "columns of texts"}
    named |= {"tool": "made by", "not annotated": "left out, not annotated"}
    named |= {"layout": "layout", "delimiter": "between labels", "separator": "between fields"}
    return {named[key]: repr(details[key])[1:-1] for key in named if key in details}


def _frequent(dataset: Dataset, most: int = 10) -> list[dict[str, object]]:
    """Return the most frequent labels by name; none where they have no names."""
    if dataset.label_names is None or dataset.labels is None:
        return []
    counts = np.bincount(dataset.labels.indices, minlength=len(dataset.label_names))
    order = np.argsort(-counts, kind="stable")[:most].tolist()
    return [{"label": dataset.label_names[j], "rows": int(counts[j])} for j in order]


def _facts(d: Description) -> dict[str, object]:
    from unmask.data.dataset import TAIL

    return {
        "rows": d.n,
        "features": d.d,
        "labels": d.L,
        "labels per row": d.labels_per_row,
        "rows per label": d.rows_per_label,
        "features per row": d.features_per_row,
        "rows without label": d.empty_rows,
        "labels without row": d.unused_labels,
        f"labels with 1 to {TAIL} rows": d.tail_labels,
        "their share of all labels": d.tail_share,
        "largest row (labels)": d.largest_row,
        "most frequent label (rows)": d.most_frequent,
    }


def _show_histogram(title: str, d: Description) -> None:
    """Print rows by their number of labels as bars; the last line has the longest hundredth."""
    counts = d.label_count_histogram
    long = int(np.searchsorted(counts.cumsum(), 0.99 * d.n)) + 1
    step = -(-long // 12)
    starts = np.arange(0, min(long + step, len(counts)), step).tolist()
    spans = [str(i) if step == 1 else f"{i}–{i + step - 1}" for i in starts]
    spans[-1] = f"{starts[-1]}–{len(counts) - 1}" if starts[-1] < len(counts) - 1 else spans[-1]
    sums = np.add.reduceat(counts, starts)
    bars = ["█" * round(30 * count / sums.max()) for count in sums]
    show_rows(title, ["labels", "rows", ""], zip(spans, sums.tolist(), bars, strict=True))


def propensity(
    source: options.Source,
    files: options.Files,
    running: options.Running,
    propensity: options.Propensity = "jain",
    lowest: float | None = None,
    audit: tuple[Path, Path] | None = None,
    annotations: tuple[Path, Path] | None = None,
    seed: options.Seed = 0,
    output: Annotated[Path | None, option(None, "--output", "-o")] = None,
) -> None:
    """Compute the propensity of every label from training labels, or estimate it from an audit.

    [dim]unmask propensity train.txt.gz --propensity jain:AmazonCat-13K -o propensity.txt[/]
    [dim]unmask propensity train.txt.gz --audit seen.txt complete.txt -o estimate.json[/]

    Options
    -------
    lowest
        Raise lower propensities to this number, in (0, 1].
    audit
        Estimate from two files: observed and complete labels of the same rows.
    annotations
        Estimate from two files: independent annotations of the same rows, the first of them made
        like the source.
    output
        Write one propensity per line; an estimate as JSON.
    """
    from unmask import propensity as models
    from unmask.files import is_standard_output

    dataset = read(source, files)
    labels = labels_of(dataset, source)
    p = (
        models.from_spec(propensity, labels)
        if audit is None and annotations is None
        else _estimate(labels, audit, annotations, seed)
    )
    if lowest is not None:
        p = models.clip(p, lowest)
    if output is not None:
        models.write(output, p)
        if is_standard_output(output):
            return
    if isinstance(p, models.PropensityEstimate):
        _show_estimate(p, labels, running.as_json)
    elif running.as_json:
        show_json({"model": propensity, "propensity": p})
    else:
        names = dataset.label_names
        show_rows(
            f"{propensity}: propensities of {len(p):,} labels",
            ["rank of the label", *(["label"] if names else []), "rows", "p", "1/p"],
            (
                (f"{rank:,}", *([names[j]] if names else []), count, p[j], 1 / p[j])
                for rank, j, count in _from_head_to_tail(labels)
            ),
        )


def _from_head_to_tail(labels: sp.csr_array) -> Iterator[tuple[int, int, int]]:
    """Yield rank, number and rows of nine labels, from the most frequent to the rarest."""
    n_labels = labels.shape[1]
    counts = np.bincount(labels.indices, minlength=n_labels)
    by_rank = np.argsort(-counts, kind="stable")
    for rank in np.unique((np.linspace(0, 1, 9) * (n_labels - 1)).astype(int)).tolist():
        label = int(by_rank[rank])
        yield rank + 1, label, int(counts[label])


def _estimate(
    labels: sp.csr_array,
    audit: tuple[Path, Path] | None,
    annotations: tuple[Path, Path] | None,
    seed: int,
) -> PropensityEstimate:
    from unmask import propensity as models

    if audit is not None and annotations is not None:
        raise ValueError("give --audit or --annotations, not both.")
    first, second = (
        labels_of(read(path, options.Files()), path) for path in audit or annotations or ()
    )
    n, n_labels = labels.shape
    counts = np.bincount(labels.indices, minlength=n_labels)
    estimate = models.audit if audit else models.recapture
    return estimate(first, second, counts=counts, n=n, seed=seed)


def _show_estimate(p: PropensityEstimate, labels: sp.csr_array, as_json: bool) -> None:
    """Print values with intervals, from head to tail, the fitted curve, and notes."""
    intervals = {} if p.curve is None else p.curve.intervals
    facts = {name: float(getattr(p.curve, name)) for name in intervals}
    if as_json:
        names = ("method", "confidence", "value", "low", "high", "evidence", "notes")
        show_json({**{name: getattr(p, name) for name in names}, "curve": facts})
        return
    show_rows(
        f"{p.method}: propensities of {len(p):,} labels, {p.confidence:.0%} intervals",
        ["rank of the label", "rows", "p", "low", "high", "true labels audited"],
        (
            (f"{rank:,}", count, p.value[j], p.low[j], p.high[j], p.evidence[j])
            for rank, j, count in _from_head_to_tail(labels)
        ),
    )
    for name, value in facts.items():
        low, high = intervals[name]
        results.print(f"{name} = {value:.3g}, from {low:.3g} to {high:.3g}", markup=False)
    for note in p.notes:
        results.print(note, markup=False)


def hide(
    source: options.Source,
    output: options.Output,
    files: options.Files,
    running: options.Running,
    propensity: options.Propensity = "jain",
    seed: options.Seed = 0,
) -> None:
    """Hide labels with known propensities, to study what missing labels do.

    [dim]unmask hide train.txt.gz -o hidden.txt.gz --propensity constant:0.3 --seed 1[/]
    """
    from unmask import data
    from unmask import propensity as models
    from unmask.files import is_standard_output

    dataset = read(source, files)
    true_labels = labels_of(dataset, source)
    observed = data.hide(true_labels, models.from_spec(propensity, true_labels), seed=seed)
    data.write(output, replace(dataset, labels=observed))
    if is_standard_output(output):
        return
    facts = {
        "true labels": true_labels.nnz,
        "kept": observed.nnz,
        "hidden": true_labels.nnz - observed.nnz,
        "rows left without label": int((np.diff(observed.indptr) == 0).sum()),
        "written to": str(output),
    }
    running.show("hidden labels", facts)


def _left_out(dataset: Dataset, output: Path, to: str | None) -> list[str]:
    """Return the parts of a data set that files of numbers do not hold."""
    from unmask.files.tables import ending

    if ".npz" in output.suffixes[-2:] or to == "npz":
        return []
    held = {"annif": {"texts", "label_names"}, "qrels": {"ids", "label_names"}}
    held["cafa"] = held["qrels"]
    tables = {"ids", "texts", "label_names"} if ending(output) else set()
    parts = ("ids", "texts", "label_names", "feature_names", "judgements")
    lost = [
        part
        for part in parts
        if part not in held.get(to or "", tables) and getattr(dataset, part) is not None
    ]
    return [part.replace("_", " ") for part in lost]


def convert(
    source: options.Source,
    columns: options.Columns,
    running: options.Running,
    target: Annotated[
        Path | None,
        typer.Argument(
            help="File to write; the ending chooses: .txt (XC), .svm, .npz, .csv, .tsv, .jsonl, "
            ".parquet; .gz and .zst compress."
        ),
    ] = None,
    output: Annotated[Path | None, option(None, "--output", "-o")] = None,
    to: Annotated[str | None, options.choice("unmask.data.writing", "WRITERS")] = None,
    base: int | None = None,
    vocabulary: Path | None = None,
) -> None:
    """Write a data set in another format or compression; what the format cannot hold is said.

    Names are written as they are, so that they can be read back: a spreadsheet may take one for a
    formula.

    [dim]unmask convert train.svm train.npz[/]
    [dim]unmask convert folder/ all.txt.zst --part train[/]

    Options
    -------
    output
        File to write, said as an option.
    to
        Format to write, when the ending does not say it: labels, features, annif …
    base
        What the file counts labels and features from, 0 or 1.
    vocabulary
        Vocabulary (CSV, TSV or Turtle) that names labels given as URIs.
    """
    from unmask import data
    from unmask.files import is_standard_output

    named = [path for path in (target, output) if path is not None]
    if len(named) != 1:
        raise ValueError("name one file to write, behind the source or with -o.")
    output = named[0]
    dataset = read(source, columns, base=base)
    if vocabulary is not None:
        dataset = dataset.renamed(data.subject_labels(vocabulary))
    data.write(output, dataset, format=to)
    if is_standard_output(output):
        return
    facts: dict[str, object] = {
        "read": f"{source} ({dataset.source.format})",
        "written": str(output),
        "bytes": output.stat().st_size,
        **({"left out": ", ".join(lost)} if (lost := _left_out(dataset, output, to)) else {}),
    }
    running.show("converted", facts)
