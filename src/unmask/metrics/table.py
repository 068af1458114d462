"""Results of evaluations: estimates, and a table of them that prints and converts.

Every estimate carries its uncertainty and a `Verdict`: what the number may claim, and why.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from unmask._text import format_value, html_table, text_of, visible
from unmask.arrays import checks
from unmask.metrics import claims
from unmask.metrics.claims import Level, Run, Verdict
from unmask.metrics.registry import METRICS

if TYPE_CHECKING:
    from unmask.metrics.vary import Sensitivity
    from unmask.pages import Panels


@dataclass(frozen=True)
class Estimate:
    """One metric by one estimator.

    Parameters
    ----------
    metric, estimator : str
        Names such as "R@5" and "unbiased".
    value, standard_error : float
        Over rows, as if they were drawn at random.
    interval : pair of float
        The ends of the confidence interval.
    effective_sample_size : float
        (Σ|x|)² / Σx² of the rows' contributions x: how many rows carry the estimate.
    largest_contribution : float
        The share of the single largest row in Σ|x|.
    rows : int
        How many rows there were.
    verdict : Verdict
        What the number may claim: `verdict.level`, `verdict.reason`, `verdict.advice`.
    details : mapping
        What else was found, such as the chosen τ or the fraction filtered.
    basis : function without arguments, optional
        Computes `sensitivity` when it is asked for; not stored.

    Examples
    --------
    >>> from unmask import TopK, evaluate
    >>> top, labels = TopK([[0]] * 100, [[1.0]] * 100), [[1, 0]] * 40 + [[0, 1]] * 60
    >>> estimate = evaluate(top, labels, metrics=["P@1"])["P@1", "vanilla"]
    >>> estimate.value, estimate.rows, str(estimate)
    (0.4, 100, '0.4000 [0.3079, 0.4997]')
    """

    metric: str
    estimator: str
    value: float
    standard_error: float
    interval: tuple[float, float]
    effective_sample_size: float
    largest_contribution: float
    rows: int
    verdict: Verdict
    details: Mapping[str, Any] = field(default_factory=dict)
    basis: Callable[[], Sensitivity] | None = field(default=None, repr=False, compare=False)

    @cached_property
    def sensitivity(self) -> Sensitivity | None:
        """Distance that the number moves if propensities are off, or labels go together.

        None for estimators that do not claim the truth (such as vanilla), and where batches of rows
        were evaluated for a metric whose ends need the rows.
        """
        return None if self.basis is None else self.basis()

    def __str__(self) -> str:
        """Value and interval, as in `0.4210 [0.4019, 0.4401]`."""
        value, low, high = (self._written(x) for x in (self.value, *self.interval))
        return f"{value} [{low}, {high}]"

    @property
    def plus_minus(self) -> str:
        """Value and half the interval, as in `0.4210 ± 0.0191`.

        The value alone where it is further from the interval, which stays within the range of the
        metric, than that is wide.
        """
        low, high = self.interval
        if self.value < 2 * low - high or self.value > 2 * high - low:
            return self._written(self.value)
        half = (high - low) / 2
        return f"{self._written(self.value)} ± {self._written(half)}"

    @property
    def short(self) -> str:
        """The value alone, with three decimals."""
        written = self._written(self.value)
        return written if abs(self.value) > 1e3 else format_value(self.value, ".3f")

    def _written(self, x: float) -> str:
        """Four decimals; of a metric that is at most 1, anything beyond 1000 is just that."""
        about = METRICS.get(self.metric.partition("@")[0])
        limited = about is None or about.at_most is not None
        if limited and 1e3 < abs(x) < math.inf:
            return "> 1e3" if x > 0 else "< −1e3"
        return format_value(x, ".4f" if abs(x) < 1e4 else "")

    def to_dict(self) -> dict[str, Any]:
        """A flat dict; the interval is `low` and `high`, the verdict that of `Verdict.to_dict`."""
        return {
            "metric": self.metric,
            "estimator": self.estimator,
            "value": self.value,
            "standard_error": self.standard_error,
            "effective_sample_size": self.effective_sample_size,
            "largest_contribution": self.largest_contribution,
            "rows": self.rows,
            "verdict": self.verdict.to_dict(),
            "low": self.interval[0],
            "high": self.interval[1],
            "details": dict(self.details),
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Estimate:
        """Return the estimate that `to_dict` stored, without what computes its sensitivity."""
        names = (
            "metric", "estimator", "value", "standard_error", "effective_sample_size",
            "largest_contribution", "rows",
        )  # fmt: skip
        return cls(
            **{name: stored[name] for name in names},
            interval=(stored["low"], stored["high"]),
            verdict=Verdict.from_dict(stored["verdict"]),
            details=dict(stored["details"]),
        )


@dataclass(frozen=True)
class Table:
    """Estimates by (metric, estimator), in the order they were asked for.

    Parameters
    ----------
    estimates : sequence of Estimate
    run : Run, optional
        What all of them share: where propensities come from, and what speaks against them.

    Examples
    --------
    >>> from unmask.metrics.claims import MEASURED
    >>> one = Estimate("P@1", "vanilla", 0.5, 0.1, (0.3, 0.7), 25.0, 0.04, 50, MEASURED)
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
    run: Run | None = None

    @property
    def headline(self) -> str:
        """One sentence: do the assumptions hold, the best number, what next."""
        return claims.headline(self.estimates, self.run) if self.run else ""

    def __getitem__(self, cell: tuple[str, str]) -> Estimate:
        """The estimate of (metric, estimator)."""
        for estimate in self.estimates:
            if (estimate.metric, estimate.estimator) == cell:
                return estimate
        names = ", ".join(str((each.metric, each.estimator)) for each in self.estimates)
        raise KeyError(f"no estimate {cell}; there are: {names}")

    def __iter__(self) -> Iterator[Estimate]:
        """The estimates in turn."""
        return iter(self.estimates)

    def __len__(self) -> int:
        """Number of estimates."""
        return len(self.estimates)

    def __str__(self) -> str:
        """Readable text: value and interval of every estimate, then what to be careful about."""
        return _text(self._grid(str), self.notes)

    @property
    def notes(self) -> list[str]:
        """Cautions, one sentence for all estimates that share it."""
        judged = self.run.judged_pairs if self.run is not None else ""
        return [*filter(None, [judged]), *map(str, claims.grouped(self.to_dicts()))]

    def _repr_html_(self) -> str:
        """HTML for notebooks."""
        header, *body = self._grid(str)
        return html_table("estimates", header, body, self.notes)

    def to(self, kind: str) -> str:
        """As "text", "markdown", "latex", "csv" or "json"; see `WRITERS`."""
        return WRITERS[checks.one_of(kind, WRITERS, "format")](self)

    def to_dicts(self) -> list[dict[str, Any]]:
        """One flat dict per estimate; numbers stay numbers."""
        return [each.to_dict() for each in self.estimates]

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain values: `Table.from_dict` makes the table again."""
        run = None if self.run is None else self.run.to_dict()
        return {"estimates": self.to_dicts(), "run": run}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Table:
        """Return the table that `to_dict` stored."""
        run = None if stored["run"] is None else Run.from_dict(stored["run"])
        return cls(tuple(map(Estimate.from_dict, stored["estimates"])), run)

    def conditional(self) -> list[Estimate]:
        """The estimates that hold under a condition: level `conditional` or `wide`."""
        levels = (Level.CONDITIONAL, Level.WIDE)
        return [each for each in self.estimates if each.verdict.level in levels]

    def chart(self) -> Panels:
        """Return every metric's estimates with their intervals, for a page of `unmask.pages`."""
        from unmask.pages.estimates import estimates

        return estimates(self.to_dicts())

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Draw the chart: a matplotlib figure, or a file .png, .svg, .csv or .json by its ending.

        Without `path` the figure is returned, with it the path of the file.

        >>> import tempfile
        >>> from unmask.metrics.claims import MEASURED
        >>> one = Estimate("P@1", "vanilla", 0.5, 0.1, (0.3, 0.7), 25.0, 0.04, 50, MEASURED)
        >>> Table([one]).plot(tempfile.mkdtemp() + "/estimates.svg").name
        'estimates.svg'
        """
        return _plotted(self.chart(), path)

    def _grid(self, write: Callable[[Estimate], str]) -> list[list[str]]:
        """Header and rows of cells; a metric that an estimator does not support stays blank."""
        metrics = list(dict.fromkeys(each.metric for each in self.estimates))
        estimators = list(dict.fromkeys(each.estimator for each in self.estimates))
        cells = {(each.metric, each.estimator): write(each) for each in self.estimates}
        body = [[m, *(cells.get((m, e), "") for e in estimators)] for m in metrics]
        return [["metric", *estimators], *body]

    @property
    def _number_columns(self) -> int:
        return len({each.estimator for each in self.estimates})


SHOWN = 40
"""Groups that are printed; all are in `to_dicts` and in files."""


@dataclass(frozen=True)
class Tables:
    """Several tables of the same estimates: per system compared, propensity model, or group.

    Parameters
    ----------
    axis : str
        What the keys are: "system", "propensity" or "group" (of rows or labels).
    tables : mapping of str to Table
    parameters : mapping of str to mapping, optional
        The parameters of the propensity models, such as {"γ = 2": {"γ": 2.0}}.
    run : Run, optional
        Of a comparison: where propensities come from, and what speaks against them.

    Examples
    --------
    >>> from unmask.metrics.claims import MEASURED
    >>> one = Estimate("P@1", "vanilla", 0.5, 0.1, (0.3, 0.7), 25.0, 0.04, 50, MEASURED)
    >>> print(Tables("system", {"ours": Table([one]), "theirs": Table([one])}))
    metric  estimator  ours                     theirs
    P@1     vanilla    0.5000 [0.3000, 0.7000]  0.5000 [0.3000, 0.7000]
    """

    axis: str
    tables: Mapping[str, Table]
    parameters: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    run: Run | None = None

    @property
    def headline(self) -> str:
        """Result of a comparison, a line per system: who is better, on which condition."""
        if self.run is None:
            return ""
        return "\n".join(
            visible(claims.comparison_headline(table.estimates, self.run))
            for table in self.tables.values()
        )

    @property
    def title(self) -> str:
        """Result of a comparison: who is better, in a few words."""
        if self.run is None or len(self.tables) != 1:
            return f"{len(self.tables)} systems compared with the first"
        (table,) = self.tables.values()
        return visible(claims.comparison_title(table.estimates))

    def __getitem__(self, key: str) -> Table:
        """The table of one system or model."""
        return self.tables[key]

    def __iter__(self) -> Iterator[str]:
        """The keys in turn."""
        return iter(self.tables)

    def __len__(self) -> int:
        """Number of tables."""
        return len(self.tables)

    def __str__(self) -> str:
        """Readable text: estimates down, tables across, then the verdicts; groups stand below.

        Of many groups the first are shown.
        """
        shown = SHOWN + 1 if self.axis == "group" else None
        return _text(self._grid(str)[:shown], [*self._left_out, *self.notes])

    @property
    def notes(self) -> list[str]:
        """Cautions, or who is better: one sentence for all that share it."""
        if self.axis == "group":
            return [*self._marks, *claims.across(self.to_dicts(), "group")]
        return [
            f"{key}: {group}"
            for key, table in self.tables.items()
            for group in claims.grouped(table.to_dicts())
        ]

    @property
    def _marks(self) -> list[str]:
        """Meaning of marks of groups, and which groups are small."""
        every = [each for table in self.tables.values() for each in table]
        small = [key for key, table in self.tables.items()
                 if any(each.details.get("small") for each in table)]  # fmt: skip
        differs = any(each.details.get("differs") for each in every)
        return [
            *(["* differs from all others (false-discovery rate 5 %)"] if differs else []),
            *([f"too few rows or observed labels to say much: {claims.some(small)}"]
              if small else []),
        ]  # fmt: skip

    @property
    def _left_out(self) -> list[str]:
        more = len(self.tables) - SHOWN if self.axis == "group" else 0
        return [f'and {more:,} more groups: `to("csv")` has all'] if more > 0 else []

    def _repr_html_(self) -> str:
        """HTML for notebooks."""
        header, *body = self._grid(str)
        caption = "estimates by group" if self.axis == "group" else "estimates side by side"
        shown = SHOWN if self.axis == "group" else None
        return html_table(caption, header, body[:shown], [*self._left_out, *self.notes])

    def to(self, kind: str) -> str:
        """As "text", "markdown", "latex", "csv" or "json"; see `WRITERS`."""
        return WRITERS[checks.one_of(kind, WRITERS, "format")](self)

    def to_dicts(self) -> list[dict[str, Any]]:
        """One flat dict per estimate of every table, with the model's `parameters` if any has."""
        rows = [(key, row) for key, table in self.tables.items() for row in table.to_dicts()]
        if not self.parameters:
            return [{self.axis: key, **row} for key, row in rows]
        return [
            {self.axis: key, "parameters": dict(self.parameters.get(key, {})), **row}
            for key, row in rows
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain values: `Tables.from_dict` makes the tables again."""
        return {
            "axis": self.axis,
            "tables": {key: table.to_dict() for key, table in self.tables.items()},
            "parameters": {key: dict(values) for key, values in self.parameters.items()},
            "run": None if self.run is None else self.run.to_dict(),
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Tables:
        """Return the tables that `to_dict` stored."""
        run = None if stored["run"] is None else Run.from_dict(stored["run"])
        tables = {key: Table.from_dict(table) for key, table in stored["tables"].items()}
        return cls(stored["axis"], tables, stored["parameters"], run)

    def chart(self) -> Panels:
        """Return every estimate from table to table, a panel per metric."""
        from unmask.pages.estimates import along

        return along(self.to_dicts(), self.axis)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Draw the chart: a matplotlib figure, or with `path` a file, as `Table.plot` does."""
        return _plotted(self.chart(), path)

    def _grid(self, write: Callable[[Estimate], str]) -> list[list[str]]:
        cells = {
            (each.metric, each.estimator, key): write(each)
            + (" *" if each.details.get("differs") and self.axis == "group" else "")
            for key, table in self.tables.items()
            for each in table
        }
        names = list(dict.fromkeys((metric, estimator) for metric, estimator, _ in cells))
        if self.axis == "group":
            counts = {key: _counts(table) for key, table in self.tables.items()}
            counted = list(dict.fromkeys(name for count in counts.values() for name in count))
            if all(count.get("labels") == 1 for count in counts.values()):
                counted.remove("labels")
            return [
                ["group", *counted, *(f"{metric} {estimator}" for metric, estimator in names)],
                *(
                    [key, *(f"{counts[key].get(name, 0):,}" for name in counted),
                     *(cells.get((*name, key), "") for name in names)]
                    for key in self.tables
                ),
            ]  # fmt: skip
        body = [[*name, *(cells.get((*name, key), "") for key in self.tables)] for name in names]
        return [["metric", "estimator", *self.tables], *body]

    @property
    def _number_columns(self) -> int:
        return len(self.tables) if self.axis != "group" else len(self._grid(str)[0]) - 1


def _plotted(panels: Panels, path: str | os.PathLike[str] | None) -> Any:
    from unmask import pages

    return pages.figure(panels) if path is None else pages.save(panels, path)


def _counts(table: Table) -> dict[str, int]:
    """Numbers that count a group: its rows, or its labels and how often they are observed."""
    about = next(iter(table)).details
    if "labels_in_group" in about:
        return {"labels": about["labels_in_group"], "observed": about["observed"]}
    return {"rows": about["rows"]} if "rows" in about else {}


def _text(grid: list[list[str]], below: list[str]) -> str:
    """Cells in columns, and below them sentences, a line each, whatever names hold."""
    cells = [[visible(cell) for cell in line] for line in grid]
    lines = [visible(sentence) for sentence in below]
    return "\n".join([text_of(cells), *([""] if below else []), *lines])


_PLUS_MINUS = attrgetter("plus_minus")


def _to_markdown(table: Table | Tables) -> str:
    """`value ± half the interval` in each cell."""
    from unmask._text import markdown_of

    grid = table._grid(_PLUS_MINUS)
    return markdown_of([[cell.replace("|", r"\|") for cell in line] for line in grid])


def _to_latex(table: Table | Tables) -> str:
    """`value ± half the interval`, as a `tabular`."""
    from unmask._text import latex_of

    return latex_of(table._grid(_PLUS_MINUS), table._number_columns)


def _to_csv(table: Table | Tables) -> str:
    """One line per estimate, under a header; a verdict has a column for each of its codes."""
    from unmask._text import csv_of

    rows = []
    for row in table.to_dicts():
        codes = {
            key: value
            for key, value in row["verdict"].items()
            if key not in ("text", "why", "details")
        }
        rows.append({**row, "verdict": row["verdict"]["text"], **codes})
    return csv_of(rows)


def _to_json(table: Table | Tables) -> str:
    """A list of `to_dicts`; numbers that are not finite become null."""
    from unmask._text import json_of

    return json_of(table.to_dicts())


WRITERS: dict[str, Callable[[Any], str]] = {
    "text": str,
    "markdown": _to_markdown,
    "latex": _to_latex,
    "csv": _to_csv,
    "json": _to_json,
}
