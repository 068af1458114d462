"""What an evaluation returns: estimates, and a table of them that prints and converts.

Every estimate carries its uncertainty and a verdict in words; one that cannot be trusted says why.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from unmask import _validation, report
from unmask._text import visible
from unmask.metrics import charts


@dataclass(frozen=True)
class Estimate:
    """One metric by one estimator.

    - `value`, `standard_error`, `interval`: over rows, as if they were drawn at random;
    - `effective_sample_size`: (Σ|x|)² / Σx² of the rows' contributions x: how many rows carry it;
    - `largest_contribution`: the share of the single largest row in Σ|x|;
    - `rows`: how many rows there were;
    - `verdict`: "trust", "wide: …" or "unusable: …", and what the estimator is not;
    - `details`: what else was found, such as the chosen τ or the fraction filtered.
    """

    metric: str
    estimator: str
    value: float
    standard_error: float
    interval: tuple[float, float]
    effective_sample_size: float
    largest_contribution: float
    rows: int
    verdict: str
    details: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        """Value and interval, as in `0.4210 [0.4019, 0.4401]`."""
        low, high = self.interval
        return f"{_short(self.value)} [{_short(low)}, {_short(high)}]"


@dataclass(frozen=True)
class Table:
    """Estimates by (metric, estimator), in the order they were asked for.

    >>> one = Estimate("P@1", "vanilla", 0.5, 0.1, (0.3, 0.7), 25.0, 0.04, 50, "trust")
    >>> table = Table([one])
    >>> table["P@1", "vanilla"].value
    0.5
    >>> print(table)
    metric  vanilla
    P@1     0.5000 [0.3000, 0.7000]
    >>> table.to_dicts()[0]["low"], table.to_dicts()[0]["high"]
    (0.3, 0.7)
    """

    estimates: tuple[Estimate, ...] | list[Estimate]

    def __getitem__(self, cell: tuple[str, str]) -> Estimate:
        """The estimate of (metric, estimator)."""
        for estimate in self.estimates:
            if (estimate.metric, estimate.estimator) == cell:
                return estimate
        known = ", ".join(str((each.metric, each.estimator)) for each in self.estimates)
        raise KeyError(f"no estimate {cell}; there are: {known}")

    def __iter__(self) -> Iterator[Estimate]:
        """The estimates in turn."""
        return iter(self.estimates)

    def __len__(self) -> int:
        """How many estimates."""
        return len(self.estimates)

    def __str__(self) -> str:
        """Readable text: value and interval of every estimate, then what to be careful about."""
        notes = [
            f"{each.metric} {each.estimator}: {each.verdict}"
            for each in self.estimates
            if each.verdict != "trust"
        ]
        return _text(self._grid(str), notes)

    def to(self, kind: str) -> str:
        """As "text", "markdown", "latex", "csv" or "json"; see `WRITERS`."""
        return WRITERS[_validation.one_of(kind, WRITERS, "format")](self)

    def to_dicts(self) -> list[dict[str, Any]]:
        """One flat dict per estimate; numbers stay numbers."""
        return [_flat(each) for each in self.estimates]

    def chart(self) -> report.Panels:
        """Every metric's estimates with their intervals, for a page of `unmask.report`."""
        return charts.estimates(self.to_dicts())

    def plot(self, path: str | os.PathLike[str]) -> Path:
        """Save the chart as .png, .svg, .csv or .json, by the name's end.

        >>> import tempfile
        >>> one = Estimate("P@1", "vanilla", 0.5, 0.1, (0.3, 0.7), 25.0, 0.04, 50, "trust")
        >>> Table([one]).plot(tempfile.mkdtemp() + "/estimates.svg").name
        'estimates.svg'
        """
        return report.save(self.chart(), path)

    def _grid(self, write: Callable[[Estimate], str]) -> list[list[str]]:
        """Header and rows of cells; a metric that an estimator does not support stays blank."""
        metrics = list(dict.fromkeys(each.metric for each in self.estimates))
        estimators = list(dict.fromkeys(each.estimator for each in self.estimates))
        cells = {(each.metric, each.estimator): write(each) for each in self.estimates}
        body = [[m, *(cells.get((m, e), "") for e in estimators)] for m in metrics]
        return [["metric", *estimators], *body]


@dataclass(frozen=True)
class Tables:
    """Several tables of the same estimates: one per system compared, or per propensity model.

    `axis` says what the keys are.

    >>> one = Estimate("P@1", "vanilla", 0.5, 0.1, (0.3, 0.7), 25.0, 0.04, 50, "trust")
    >>> print(Tables("system", {"ours": Table([one]), "theirs": Table([one])}))
    metric  estimator  ours                     theirs
    P@1     vanilla    0.5000 [0.3000, 0.7000]  0.5000 [0.3000, 0.7000]
    """

    axis: str
    tables: Mapping[str, Table]

    def __getitem__(self, key: str) -> Table:
        """The table of one system or model."""
        return self.tables[key]

    def __iter__(self) -> Iterator[str]:
        """The keys in turn."""
        return iter(self.tables)

    def __len__(self) -> int:
        """How many tables."""
        return len(self.tables)

    def __str__(self) -> str:
        """Readable text: estimates down, tables across, then the verdicts."""
        notes = [
            f"{key}: {each.metric} {each.estimator}: {each.verdict}"
            for key, table in self.tables.items()
            for each in table
            if each.verdict != "trust"
        ]
        return _text(self._grid(str), notes)

    def to(self, kind: str) -> str:
        """As "text", "markdown", "latex", "csv" or "json"; see `WRITERS`."""
        return WRITERS[_validation.one_of(kind, WRITERS, "format")](self)

    def to_dicts(self) -> list[dict[str, Any]]:
        """One flat dict per estimate of every table."""
        rows = [(key, row) for key, table in self.tables.items() for row in table.to_dicts()]
        return [{self.axis: key, **row} for key, row in rows]

    def chart(self) -> report.Panels:
        """How every estimate moves from table to table, a panel per metric."""
        return charts.along(self.to_dicts(), self.axis)

    def plot(self, path: str | os.PathLike[str]) -> Path:
        """Save the chart as .png, .svg, .csv or .json, by the name's end."""
        return report.save(self.chart(), path)

    def _grid(self, write: Callable[[Estimate], str]) -> list[list[str]]:
        cells = {
            (each.metric, each.estimator, key): write(each)
            for key, table in self.tables.items()
            for each in table
        }
        names = list(dict.fromkeys((metric, estimator) for metric, estimator, _ in cells))
        body = [[*name, *(cells.get((*name, key), "") for key in self.tables)] for name in names]
        return [["metric", "estimator", *self.tables], *body]


def verdict(
    value: float,
    interval: tuple[float, float],
    *,
    rows: int,
    heaviest: tuple[int, float],
    at_most: float | None,
    caution: str,
    advice: str,
    of: str = "rows",
) -> str:
    """Can the number be used? In words.

    `heaviest` is how many of the largest rows carry which share of Σ|x|; a mean `of` labels has
    labels for rows. Unusable: a handful of rows (at most 16, and fewer than one in 50) carry half
    of it, or the interval is as wide as the range of the metric or lies outside it. Wide: the
    interval's half-width exceeds a tenth of that range or half of the value.
    """
    half = (interval[1] - interval[0]) / 2
    few, share = heaviest
    scale = at_most if at_most is not None else max(abs(value), 1e-300)
    if few * 50 < rows and share >= 0.5:
        carried = f"unusable: {few:,} of {rows:,} {of} carry {share:.0%} of the estimate"
        return carried.replace("%", " %") + advice
    if at_most is not None and (interval[0] > at_most or interval[1] < 0):
        return f"unusable: {_short(value)} lies outside the range of the metric{advice}"
    if not half < scale / 2 and at_most is not None:
        return f"unusable: the interval is as wide as the range of the metric{advice}"
    if half > scale / 10 or half > abs(value) / 2 > 0:
        return f"wide: ± {_short(half)}" + (f"; {caution}" if caution else "")
    return f"precise, but {caution}" if caution else "trust"


def _short(x: float) -> str:
    return f"{x:.4f}" if abs(x) < 1e4 else f"{x:.3g}"


def _plus_minus(each: Estimate) -> str:
    return f"{_short(each.value)} ± {_short((each.interval[1] - each.interval[0]) / 2)}"


def _flat(each: Estimate) -> dict[str, Any]:
    row = asdict(each)
    low, high = row.pop("interval")
    details = row.pop("details")
    return {**row, "low": low, "high": high, "details": dict(details)}


def _finite(value: Any) -> Any:
    """The same, with None for every number in it that is not finite: JSON has no word for those."""
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _text(grid: list[list[str]], notes: list[str]) -> str:
    """Cells in columns, and below them the notes, a line each, whatever names hold."""
    told = [visible(note) for note in notes]
    return "\n".join([_aligned(grid), *([""] if notes else []), *told])


def _aligned(grid: list[list[str]]) -> str:
    grid = [[visible(cell) for cell in line] for line in grid]
    widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
    lines = [
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) for line in grid
    ]
    return "\n".join(line.rstrip() for line in lines)


def _to_markdown(table: Table | Tables) -> str:
    """`value ± half the interval` in each cell."""
    head, *body = table._grid(_plus_minus)
    lines = [[cell.replace("|", r"\|") for cell in line] for line in (head, *body)]
    rule = ["---"] * len(head)
    return "\n".join("| " + " | ".join(line) + " |" for line in [lines[0], rule, *lines[1:]])


def _to_latex(table: Table | Tables) -> str:
    """The same as a `tabular`."""
    head, *body = table._grid(lambda each: "$" + _plus_minus(each).replace("±", r"\pm") + "$")
    cells = [[each.translate(_LATEX) for each in head], *(map(_in_latex, line) for line in body)]
    lines = [" & ".join(line) + r" \\" for line in cells]
    columns = "".join("r" if cell.startswith("$") else "l" for cell in (body or [head])[0])
    lines = [rf"\begin{{tabular}}{{{columns}}}", lines[0], r"\hline", *lines[1:]]
    return "\n".join([*lines, r"\end{tabular}"])


def _in_latex(cell: str) -> str:
    """A cell of the body: its names cannot become markup; numbers between $ are ours and stay."""
    return cell if cell.startswith("$") else cell.translate(_LATEX)


_LATEX = str.maketrans(
    {character: "\\" + character for character in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
)


def _to_csv(table: Table | Tables) -> str:
    """One line per estimate, under a header; a system called =1+1 is text, not a formula."""
    rows = [{**row, "details": json.dumps(_finite(row["details"]))} for row in table.to_dicts()]
    rows = [{name: report.harmless(value) for name, value in row.items()} for row in rows]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _to_json(table: Table | Tables) -> str:
    """A list of `to_dicts`; numbers that are not finite become null."""
    return json.dumps(_finite(table.to_dicts()))


WRITERS: dict[str, Callable[[Any], str]] = {
    "text": str,
    "markdown": _to_markdown,
    "latex": _to_latex,
    "csv": _to_csv,
    "json": _to_json,
}
