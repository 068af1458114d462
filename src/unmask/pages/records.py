"""Stored results as pages: a record is what a command prints with `--json`, a page is made of them.

`unmask evaluate --html`, `unmask diagnose --html` and `unmask report` all come through here, so a
page made at once and one made later from the stored record are the same. Nothing is recomputed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import unmask_studies
from unmask import __version__, _io, report
from unmask.diagnosis.findings import VERDICTS
from unmask.metrics import ESTIMATORS, Ranking, charts
from unmask.pages import labels
from unmask_studies import runs

Record = dict[str, Any]


def page(records: list[Record], *, title: str | None = None, commands: Iterable[str] = ()) -> Any:
    """One page of all records, in their order; `commands` are those that made the page itself."""
    several = len(records) > 1
    sections = [
        _renamed(section, name(record)) if several else section
        for record in records
        for section in KINDS[record["kind"]][1](record)
    ]
    if len([r for r in records if r["kind"] == "evaluation"]) > 1:
        sections.insert(0, _side_by_side([r for r in records if r["kind"] == "evaluation"]))
    lines = [*(record["command"] for record in records if "command" in record), *commands]
    if lines:
        made = report.Section("How this page was made", [report.Commands(dict.fromkeys(lines))])  # type: ignore[arg-type]
        sections.append(made)
    told = [(record, KINDS[record["kind"]][0](record)) for record in records]
    summary = [f"{name(r)}: {words}" if several else words for r, all_ in told for words in all_]
    named = title or " · ".join(map(heading, records))
    return report.Page(named, summary, sections, footer=f"Made by unmask {__version__}.")


def write(
    records: list[Record], path: Path, *, title: str | None = None, commands: Iterable[str] = ()
) -> Any:
    """Write the page of stored records and return it; a file that holds nonsense is named."""
    try:
        drawn = page(records, title=title, commands=commands)
        report.write(drawn, path)
    except DAMAGE as error:
        for record in records:
            _refuse_damaged(record)
        raise error
    return drawn


def _refuse_damaged(record: Record) -> None:
    try:
        report.render(page([record]))
    except DAMAGE as error:
        says = f"{type(error).__name__}: {error}"
        raise ValueError(f"{record['file']}: the stored result is damaged ({says}).") from error


def read(path: Path) -> list[Record]:
    """The records in a file, or in a folder of study rows; what is none is refused by name."""
    files = runs.rows_files(path)
    if files or path.is_dir():
        rows = [row for file in files for row in runs.read_rows(file)]
        if not rows:
            raise ValueError(f"{path} holds no rows; name a folder that `unmask reproduce` made.")
        records = _studies(path, rows)
    else:
        records = _recognised(path, _loaded(path))
    return [{**record, "file": str(path)} for record in records]


def name(record: Record) -> str:
    """A record in short, to tell it from others on its page."""
    return Path(str(record.get("source") or record["kind"])).name


def heading(record: Record) -> str:
    """What a page of this record alone is called."""
    return f"{record['kind'].capitalize()} of {name(record)}"


def _loaded(path: Path) -> Any:
    try:
        return _io.read_json(path)
    except ValueError as error:
        raise ValueError(f"{error} Store results with --json.") from None


def _recognised(path: Path, found: Any) -> list[Record]:
    if isinstance(found, dict) and str(found.get("kind")) in KINDS:
        return [found]
    if isinstance(found, dict) and found and found.keys() <= unmask_studies.STUDIES.keys():
        return _studies(path, [row for rows in found.values() for row in rows or ()])
    if isinstance(found, list) and found and isinstance(found[0], dict):
        if "study" in found[0]:
            return _studies(path, found)
        if {"metric", "estimator", "value", "low", "high", "verdict"} <= found[0].keys():
            return [{"kind": "evaluation", "source": path.stem, "estimates": found}]
    raise ValueError(
        f"{path} holds no stored result; give what evaluate, diagnose or reproduce print with "
        "--json, or the folder that reproduce wrote."
    )


def _studies(path: Path, rows: list[Record]) -> list[Record]:
    """Rows by study and size, in the order of the registry."""
    for row in rows:
        whole = isinstance(row, dict) and isinstance(row.get("study"), str)
        if not whole or not {str(row.get("size")), type(row.get("seed"))} <= {*runs.SIZES, int}:
            raise ValueError(f"{path} holds {row!r:.80} among rows of studies; it is damaged.")
    sizes = dict.fromkeys((row["study"], row["size"], row["seed"]) for row in rows)
    known = [key for study in unmask_studies.STUDIES for key in sizes if key[0] == study]
    return [
        {
            "kind": "study",
            "source": study,
            "command": f"unmask reproduce {study} --size {size} --seed {seed}",
            "rows": [row for row in rows if (row["study"], row["size"], row["seed"]) == key],
        }
        for key in known
        for study, size, seed in [key]
    ]


def _renamed(section: Any, prefix: str) -> Any:
    return report.Section(f"{prefix}: {section.title}", section.parts)


# Evaluations: source, labels (label_facts), estimates, differences and sensitivity as rows.


def _evaluation_words(record: Record) -> list[str]:
    rows = record["estimates"]
    cells = {(row["metric"], row["estimator"]): row for row in rows}
    told = [
        sentence
        for metric in _representatives(rows)
        if (sentence := _face_value(metric, cells)) is not None
    ]
    unusable = [row for row in rows if row["verdict"].startswith("unusable")]
    if unusable:
        some = ", ".join(f"{row['metric']} {row['estimator']}" for row in unusable[:4])
        told.append(
            f"{len(unusable)} of {len(rows)} estimates cannot be used ({some}"
            f"{' …' if len(unusable) > 4 else ''}); the verdicts say why."
        )
    if labels := record.get("labels"):
        told.insert(
            0,
            f"{labels['entries']:,} labels are recorded in {labels['rows']:,} rows; by these "
            f"propensities that is {labels['seen']:.0%} of the true ones.",
        )
    return told


def _representatives(rows: list[Record]) -> list[str]:
    """P and R at their largest k: what a reader asks for first."""
    metrics = dict.fromkeys(row["metric"] for row in rows)
    found = {}
    for metric in metrics:
        if metric.partition("@")[0] in ("P", "R"):
            found[metric.partition("@")[0]] = metric
    return list(found.values())


def _face_value(metric: str, cells: dict[tuple[str, str], Record]) -> str | None:
    """The value as observed beside the corrected one."""
    naive = cells.get((metric, "vanilla"))
    better = ("unbiased", "deconvolved") if metric.startswith("P") else ("deconvolved", "unbiased")
    known = [cells[metric, name] for name in better if (metric, name) in cells]
    usable = [row for row in known if not row["verdict"].startswith("unusable")]
    if naive is None or naive["value"] is None or not known:
        return None
    ours = (usable or known)[0]
    head = f"Taken at face value {metric} is {naive['value']:.3f}; "
    if ours["value"] is None or ours["value"] != ours["value"]:
        return f"{head}the {ours['estimator']} estimate was refused: {ours['verdict']}."
    return (
        f"{head}corrected for missing labels ({ours['estimator']}) it is {ours['value']:.3f}, "
        f"interval {ours['low']:.3f} to {ours['high']:.3f} ({ours['verdict']})."
    )


def _evaluation(record: Record) -> list[Any]:
    rows = record["estimates"]
    used = list(dict.fromkeys(row["estimator"] for row in rows))
    meanings = "\n\n".join(f"`{each}`: {ESTIMATORS[each].meaning}." for each in used)
    sections = [report.Section("Estimates", [_estimates_table(rows), charts.estimates(rows)])]
    if record.get("sensitivity"):
        sections.append(_sensitivity(record["sensitivity"]))
    if record.get("differences"):
        sections.append(_differences(record["differences"]))
    for each in record.get("rankings", ()):
        sections.append(Ranking(**each).section())
    if record.get("labels"):
        sections.append(_labels(record["labels"]))
    return [*sections, report.Section("What the estimators mean", [report.Text(meanings)])]


def _estimates_table(rows: list[Record]) -> Any:
    columns: list[Any] = [
        "metric", "estimator", report.Column("value", ".4f"),
        report.Column("effective rows", ",.0f", "how many rows carry the estimate"),
        report.Column("largest row", ".1%", "the share of the single largest row"), "verdict",
    ]  # fmt: skip
    body = [
        [row["metric"], row["estimator"], _estimate(row), row.get("effective_sample_size"),
         row.get("largest_contribution"), labels.judged(row["verdict"])]
        for row in rows
    ]  # fmt: skip
    return report.Table(columns, body)


def _sensitivity(rows: list[Record]) -> Any:
    models = list(dict.fromkeys(row["propensity"] for row in rows))
    told = f"The same estimates under {len(models)} propensity models: {', '.join(models)}."
    return report.Section(
        "Sensitivity to the propensities", [report.Text(told), charts.along(rows)]
    )


def _differences(rows: list[Record]) -> Any:
    body = [
        [row["system"], row["metric"], row["estimator"], _estimate(row), row["details"]["p_value"]]
        for row in rows
    ]
    heads: list[Any] = ["system", "metric", "estimator", report.Column("difference", ".4f"),
                        report.Column("p", ".2g")]  # fmt: skip
    told = report.Text("Differences to the first system, paired over rows; positive is better.")
    return report.Section("Compared with the first system", [told, report.Table(heads, body)])


def _side_by_side(records: list[Record]) -> Any:
    """Every metric and estimator of all evaluations, a column for each."""
    values: dict[tuple[str, str], dict[str, Any]] = {}
    names = [f"{at}. {name(record)}" for at, record in enumerate(records, 1)]
    for column, record in zip(names, records, strict=True):
        for row in record["estimates"]:
            values.setdefault((row["metric"], row["estimator"]), {})[column] = _estimate(row)
    heads: list[Any] = ["metric", "estimator", *(report.Column(each, ".4f") for each in names)]
    body = [[*key, *(cells.get(each) for each in names)] for key, cells in values.items()]
    return report.Section("Side by side", [report.Table(heads, body)])


def _labels(facts: Record) -> Any:
    histogram = labels.counts(observed=facts["observed"], deconvolved=facts["deconvolved"])
    drawn = labels.curves(facts["rank"], facts["count"], facts["propensity"], of="as observed")
    return report.Section("The labels", [drawn, histogram])


def _estimate(row: Record) -> Any:
    if row["value"] is None or row["value"] != row["value"]:
        return report.Estimate(None)
    return report.Estimate(row["value"], row["low"], row["high"])


# Diagnoses: `Diagnosis.to_dict`, with source and labels.


def _diagnosis_words(record: Record) -> list[str]:
    worst = [f"{f['title']}." for f in record["findings"] if f["severity"] != "info"]
    verdict = VERDICTS[record["severity"]]
    return [verdict[0].upper() + verdict[1:], *worst]


def _diagnosis(record: Record) -> list[Any]:
    verdicts = [
        report.Verdict(f["severity"], f["title"], evidence=f["evidence"], advice=f["advice"])
        for f in record["findings"]
    ]
    tests = report.Table(
        ["test", "effect", report.Column("p", ".2g"), report.Column("p, corrected", ".2g")],
        [[t["name"], t["effect"], t["p_value"], t["adjusted"]] for t in record["tests"]],
    )
    sections = [report.Section("Findings", [report.Verdicts(verdicts)])]
    if record["tests"]:
        sections.append(report.Section("All tests", [tests]))
    if record.get("labels"):
        sections.append(_labels(record["labels"]))
    return sections


# Studies: their own drawing of their rows.


def _study_words(record: Record) -> list[str]:
    parts = [part for section in _study(record) for part in section.parts]
    verdicts = [part for part in parts if isinstance(part, report.Verdicts)]
    return [f"{verdict.words}." for part in verdicts for verdict in part.verdicts]


def _study(record: Record) -> list[Any]:
    return unmask_studies.STUDIES[record["source"]].draw(record["rows"])


DAMAGE = (KeyError, TypeError, AttributeError, IndexError, ValueError, OverflowError)
"""What drawing a record raises that no command has stored."""

KINDS: dict[str, tuple[Callable[[Record], list[str]], Callable[[Record], list[Any]]]] = {
    "evaluation": (_evaluation_words, _evaluation),
    "diagnosis": (_diagnosis_words, _diagnosis),
    "study": (_study_words, _study),
}
"""What can be stored and shown: the sentences and the sections of each kind of record."""
