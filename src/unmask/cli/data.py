"""`unmask info`, `propensity`, `hide`, `convert`: files in, facts or files out."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

if TYPE_CHECKING:
    from unmask.data import Dataset, Description

from unmask.cli import options
from unmask.cli.output import passing, results, say, show_facts, show_json, show_rows


def info(
    source: options.Source,
    part: options.Part = None,
    format: options.Format = None,
    threads: options.Threads = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Say what a data file holds: sizes, label counts, the tail.

    [dim]unmask info train.txt.gz[/]
    [dim]unmask info datasets/bibtex[/]          all parts of a folder, side by side
    [dim]unmask info datasets/bibtex --part test --json[/]
    """
    from unmask import data

    parts = data.parts(source) if part is None and source.is_dir() else (part,)
    found = {name: _read(source, name, format) for name in parts or (None,)}
    described = {name: data.describe(dataset) for name, dataset in found.items()}
    if as_json:
        records = {
            name: asdict(described[name]) | {"source": asdict(found[name].source)} for name in found
        }
        show_json(records if len(records) > 1 else next(iter(records.values())))
        return
    counted = [_facts(d) for d in described.values()]
    show_rows(
        f"{source} ({', '.join({d.source.format for d in found.values()})})",
        ["", *(name or "" for name in found)],
        ((fact, *(c[fact] for c in counted)) for fact in counted[0]),
    )
    for name, d in described.items():
        _show_histogram(" ".join(filter(None, [name, "rows by number of labels"])), d)


def _facts(found: Description) -> dict[str, Any]:
    from unmask.data import TAIL

    return {
        "rows": found.n,
        "features": found.d,
        "labels": found.L,
        "labels per row": found.labels_per_row,
        "rows per label": found.rows_per_label,
        "features per row": found.features_per_row,
        "rows without label": found.empty_rows,
        "labels without row": found.unused_labels,
        f"labels with 1 to {TAIL} rows": found.tail_labels,
        "their share of all labels": found.tail_share,
        "largest row (labels)": found.largest_row,
        "most frequent label (rows)": found.most_frequent,
    }


def _show_histogram(title: str, found: Description) -> None:
    """Rows by their number of labels, as bars; the last line gathers the longest hundredth."""
    counts = found.label_count_histogram
    long = int(np.searchsorted(counts.cumsum(), 0.99 * found.n)) + 1
    step = -(-long // 12)
    starts = np.arange(0, min(long + step, len(counts)), step).tolist()
    spans = [str(i) if step == 1 else f"{i}–{i + step - 1}" for i in starts]
    spans[-1] = f"{starts[-1]}–{len(counts) - 1}" if starts[-1] < len(counts) - 1 else spans[-1]
    sums = np.add.reduceat(counts, starts)
    bars = ["█" * round(30 * count / sums.max()) for count in sums]
    show_rows(title, ["labels", "rows", ""], zip(spans, sums.tolist(), bars, strict=True))


def propensity(
    source: options.Source,
    propensity: options.Propensity = "jain",
    audit: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            help="Estimate from two files: observed and complete labels of the same rows."
        ),
    ] = None,
    annotations: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            help="Estimate from two files: independent annotations of the same rows, the first "
            "of them made like the source."
        ),
    ] = None,
    seed: options.Seed = 0,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write one propensity per line; an estimate as JSON."),
    ] = None,
    part: options.Part = None,
    format: options.Format = None,
    threads: options.Threads = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Compute the propensity of every label from training labels, or estimate it from an audit.

    [dim]unmask propensity train.txt.gz --propensity jain:AmazonCat-13K -o propensity.txt[/]
    [dim]unmask propensity train.txt.gz --audit seen.txt complete.txt -o estimate.json[/]
    """
    from unmask import _io
    from unmask import propensity as models

    labels: Any = _labelled(source, part, format).labels
    if audit is None and annotations is None:
        p: Any = models.from_spec(propensity, labels)
    else:
        p = _estimate(labels, audit, annotations, seed)
    if output is not None:
        models.write(output, p)
        if _io.is_standard_output(output):
            return
    if isinstance(p, models.PropensityEstimate):
        _show_estimate(p, labels, as_json)
        return
    if as_json:
        show_json({"model": propensity, "propensity": p})
        return
    counts = np.bincount(labels.indices, minlength=len(p))
    by_rank = np.argsort(-counts, kind="stable")
    shown = np.unique((np.linspace(0, 1, 9) * (len(p) - 1)).astype(int)).tolist()
    show_rows(
        f"{propensity}: propensities of {say(len(p))} labels",
        ["rank of the label", "rows", "p", "1/p"],
        (
            (say(rank + 1), counts[j], p[j], 1 / p[j])
            for rank, j in zip(shown, by_rank[shown], strict=True)
        ),
    )


def _estimate(
    labels: Any, audit: tuple[Path, Path] | None, annotations: tuple[Path, Path] | None, seed: int
) -> Any:
    from unmask import propensity as models

    if audit is not None and annotations is not None:
        raise ValueError("give --audit or --annotations, not both.")
    pair: Any = [_labelled(path, None, None).labels for path in audit or annotations or ()]
    counts = np.bincount(labels.indices, minlength=labels.shape[1])
    known = {"counts": counts, "n": labels.shape[0], "seed": seed}
    return models.audit(*pair, **known) if audit else models.recapture(*pair, **known)


def _show_estimate(p: Any, labels: Any, as_json: bool) -> None:
    """Values with intervals, from head to tail, the fitted curve, and what to keep in mind."""
    facts = {} if p.curve is None else {name: getattr(p.curve, name) for name in p.curve.intervals}
    if as_json:
        names = ("method", "confidence", "value", "low", "high", "evidence", "notes")
        show_json({**{name: getattr(p, name) for name in names}, "curve": facts})
        return
    counts = np.bincount(labels.indices, minlength=len(p))
    by_rank = np.argsort(-counts, kind="stable")
    shown = np.unique((np.linspace(0, 1, 9) * (len(p) - 1)).astype(int)).tolist()
    show_rows(
        f"{p.method}: propensities of {say(len(p))} labels, {p.confidence:.0%} intervals",
        ["rank of the label", "rows", "p", "low", "high", "true labels audited"],
        (
            (say(rank + 1), counts[j], p.value[j], p.low[j], p.high[j], p.evidence[j])
            for rank, j in zip(shown, by_rank[shown], strict=True)
        ),
    )
    for name, value in facts.items():
        low, high = p.curve.intervals[name]
        results.print(f"{name} = {value:.3g}, from {low:.3g} to {high:.3g}", markup=False)
    for note in p.notes:
        results.print(note, markup=False)


def hide(
    source: options.Source,
    output: options.Output,
    propensity: options.Propensity = "jain",
    seed: options.Seed = 0,
    part: options.Part = None,
    format: options.Format = None,
    threads: options.Threads = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Hide labels with known propensities, to study what missing labels do.

    [dim]unmask hide train.txt.gz -o hidden.txt.gz --propensity constant:0.3 --seed 1[/]
    """
    from unmask import _io, data
    from unmask import propensity as models

    given = _labelled(source, part, format)
    true_labels: Any = given.labels
    observed = data.hide(true_labels, models.from_spec(propensity, true_labels), seed=seed)
    data.write(output, replace(given, labels=observed))
    if _io.is_standard_output(output):
        return
    facts = {
        "true labels": true_labels.nnz,
        "kept": observed.nnz,
        "hidden": true_labels.nnz - observed.nnz,
        "rows left without label": int((np.diff(observed.indptr) == 0).sum()),
        "written to": str(output),
    }
    show_json(facts) if as_json else show_facts("hidden labels", facts)


def convert(
    source: options.Source,
    output: Annotated[Path, typer.Argument(help="File to write; .gz, .zst and .npz are obeyed.")],
    to: Annotated[
        str | None, typer.Option(help="Format to write, when the name does not say it.")
    ] = None,
    part: options.Part = None,
    format: options.Format = None,
    threads: options.Threads = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a data set in another format or compression; nothing is lost on the way.

    [dim]unmask convert train.svm train.npz[/]
    [dim]unmask convert folder/ all.txt.zst --part train[/]
    """
    from unmask import _io, data

    dataset = _read(source, part, format)
    data.write(output, dataset, format=to)
    if _io.is_standard_output(output):
        return
    facts = {
        "read": f"{source} ({dataset.source.format})",
        "written": str(output),
        "bytes": output.stat().st_size,
    }
    show_json(facts) if as_json else show_facts("converted", facts)


def _read(source: Path, part: str | None, format: str | None) -> Dataset:
    from unmask import data

    with passing.status(f"reading {source}"):
        return data.read(source, part=part, format=format)


def _labelled(source: Path, part: str | None, format: str | None) -> Dataset:
    dataset = _read(source, part, format)
    if dataset.labels is None:
        raise ValueError(f"{source} holds no labels; name a file that does.")
    return dataset
