"""What the study comes to: coverage by level, errors, who wins, and a paragraph per data set."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from unmask import report
from unmask.metrics.verdict import Level, too_wide
from unmask_studies.reality.estimates import CELL
from unmask_studies.reality.pairs import PAIRS, PLANTED, About
from unmask_studies.runs import STYLES, Row, group_rows, statement

CLAIMING = (Level.MEASURED.value, Level.CONDITIONAL.value, Level.WIDE.value)
"""Levels whose interval is claimed to hold the truth, if the assumptions hold."""
USABLE = (Level.MEASURED.value, Level.CONDITIONAL.value)
FAR = 0.05
"""An error that would mislead."""
LIMITS = (0.1, 0.08, 0.06, 0.05, 0.04)
"""Half-widths beyond which a number could be called too wide to use."""
CLEAN = ("mdi-icons-2018-2023", "docred-audit")
"""Pairs whose masks are nearly independent."""
WHY_NOT = (
    "On photographs plain scores are ahead: of the first 100 findings by what chance can make, of "
    "1,000 by more. Captions name what is salient, so that no propensity per label is right, and "
    "probabilities that rest on one are too high. On genes, a difference of 4 in 100 is chance, "
    "and of 1,000 findings posteriors are ahead."
)
"""What is known of the negative results."""
SHOWN = "R@3"
MEASURED = "measured, rows"
FAMILIES = {
    "stated": ("Jain", "constant", "true rates", "snapshot", "recapture"),
    "audited": ("audit", "audit, effort", "audit, score"),
    "measured": ("measured, rows", "measured, pairs", "measured, wrong labels"),
}


def draw(rows: list[Row]) -> list[report.Section]:
    """All sections, the answer first."""
    cells = [cell for row in rows if row["kind"] == "estimate" for cell in _cells(row)]
    differences = [cell for row in rows if row["kind"] == "winner" for cell in _cells(row)]
    return [
        report.Section(
            "May these numbers be believed?",
            [*_overview(rows), *_figure(cells), _levels(cells), _wrong_cells(cells),
             _limits(cells), report.Verdicts(_bars(cells))],
        ),
        report.Section(
            "Which of two systems is better?",
            [_winners(differences), report.Verdicts(_winner_bars(differences))],
        ),
        report.Section("Does correcting help, and what is found?", _worth(rows)),
        report.Section("The data sets, one by one", _one_by_one(rows, cells)),
        report.Section("Errors of every way to a number", [_errors(cells)]),
    ]  # fmt: skip


def _cells(row: Row) -> list[Row]:
    """The cells of a row, each with what the row says of all of them."""
    shared = {
        "data": row["folder"] or "planted", "mask": row["mask"], "system": row["system"],
        "audited": row.get("audited", 0), "draw": row["draw"],
        "family": next((name for name, ways in FAMILIES.items() if row["mask"] in ways), "other"),
    }  # fmt: skip
    cells = []
    for values in row["cells"]:
        cell = {**shared, **dict(zip(CELL, values, strict=True))}
        cell["error"] = None if cell["value"] is None else cell["value"] - cell["truth"]
        cell["holds"] = _within(cell, "low", "high")
        cell["moves_to"] = _within(cell, "moved_low", "moved_high") or cell["holds"]
        cells.append(cell)
    return cells


def _within(cell: Row, low: str, high: str) -> bool:
    bounded = cell[low] is not None and cell[high] is not None
    return bool(bounded and cell[low] <= cell["truth"] <= cell[high])


def _is_claim(cell: Row) -> bool:
    return cell["level"] in CLAIMING and cell["estimator"] != "vanilla"


def _share(values: Iterable[bool]) -> float | None:
    kept = list(values)
    return float(np.mean(kept)) if kept else None


def answer(rows: list[Row]) -> str:
    """What measured and what stated numbers are worth."""
    cells = [cell for row in rows if row["kind"] == "estimate" for cell in _cells(row)]
    measured = [c for c in cells if c["family"] == "measured" and c["audited"] >= 100]
    stated = [c for c in cells if c["family"] == "stated" and _is_claim(c)]
    refused = _share(
        not _is_claim(c) for c in cells if c["family"] == "stated" and c["estimator"] != "vanilla"
    )
    held, kept = _share(c["holds"] for c in measured), _share(c["holds"] for c in stated)
    measured_part = "" if held is None else (
        f"Measured numbers, from an audit of at least 100 rows, hold the truth in {held:.0%} of "
        f"{len(measured)} intervals. "
    )  # fmt: skip
    stated_part = "" if kept is None else (
        f"Numbers that rest on stated propensities do so in {kept:.0%} of the {len(stated)} that "
        f"were not refused; {refused:.0%} were refused or doubted."
    )  # fmt: skip
    return measured_part + stated_part


def _levels(cells: list[Row]) -> report.Table:
    """Coverage by family and level."""
    body: list[list[report.Cell]] = []
    corrected = [cell for cell in cells if cell["estimator"] != "vanilla"]
    for family in (*FAMILIES, "other"):
        for level in Level:
            own = [c for c in corrected if c["family"] == family and c["level"] == level.value]
            if own:
                name = "true rates, some labels wrong" if family == "other" else family
                errors = [abs(c["error"]) > FAR for c in own if c["error"] is not None]
                body.append(
                    [name, level.value, len(own), _share(c["holds"] for c in own),
                     _share(c["moves_to"] for c in own), _share(errors)]
                )  # fmt: skip
    return report.Table(
        ["mask model", "level", "numbers", report.Column("interval holds the truth", ".0%"),
         report.Column("so does it when moved", ".0%"),
         report.Column(f"off by more than {FAR}", ".0%")],
        body,
        title="What each level is worth",
        caption="All pairs, systems, metrics and corrected estimators. When moved: the interval, "
        "or how far the number moves with propensities off by up to 2 times and with row effort.",
    )  # fmt: skip


def _usable(cells: list[Row], limit: float | None = None) -> list[Row]:
    """Corrected and measured numbers that are called usable, or would be by another limit."""
    numbers = [c for c in cells if c["estimator"] != "vanilla" and c["error"] is not None]
    if limit is None:
        return [c for c in numbers if c["level"] in USABLE]
    return [c for c in numbers if c["level"] in CLAIMING and _is_narrow(c, limit)]


def _is_narrow(cell: Row, limit: float) -> bool:
    half = (cell["high"] - cell["low"]) / 2
    measured = cell["family"] == "measured"
    return not too_wide(half, cell["value"], 1.0, measured=measured, limit=limit)


def _averages(cells: list[Row], usable: list[Row]) -> list[Row]:
    """Of every way to a number with one that is usable: the mean error over all its audits."""
    keys = ("data", "family", "mask", "system", "metric", "estimator", "audited")
    chosen = set(group_rows(usable, *keys))
    numbers = [c for c in cells if c["error"] is not None]
    return [
        {**dict(zip(keys, key, strict=True)), "error": float(np.mean([c["error"] for c in part]))}
        for key, part in group_rows(numbers, *keys).items()
        if key in chosen
    ]


def _wrong(cells: list[Row]) -> list[Row]:
    return [cell for cell in cells if abs(cell["error"]) > FAR]


def _wrong_cells(cells: list[Row]) -> report.Table:
    """Which ways to a number are wrong on average, though called usable."""
    body: list[list[report.Cell]] = []
    for (mask,), part in group_rows(_averages(cells, _usable(cells)), "mask").items():
        wrong = _wrong(part)
        names = [_about(name).title for (name,) in group_rows(wrong, "data")]
        body.append([mask, len(part), len(wrong), ", ".join(names) or "–"])
    return report.Table(
        ["by", report.Column("cells called usable", ".0f"), report.Column("wrong", ".0f"),
         "on"],
        body,
        title="Which of them are wrong, and not by chance",
        caption="A cell is one metric of one system by one estimator and audit size with a number "
        "that is called usable. It is wrong where the mean over its audits is off by more than "
        f"{FAR}; one audit alone can be off by chance.",
    )  # fmt: skip


def _limits(cells: list[Row]) -> report.Table:
    """What another limit on widths would call usable, and how much of that would be wrong."""
    body: list[list[report.Cell]] = []
    by_size = {
        size: [c for c in cells if c["mask"] == MEASURED and c["audited"] == size]
        for size in (100, 200)
    }
    for limit in LIMITS:
        usable = _usable(cells, limit)
        averages = _averages(cells, usable)
        wrong = _wrong(averages)
        body.append(
            [f"± {limit}", len(usable), _share(abs(c["error"]) > FAR for c in usable),
             *(_share(_is_narrow(c, limit) for c in part) for part in by_size.values()),
             len(averages), len(wrong), sum(c["mask"] == "Jain" for c in wrong)]
        )  # fmt: skip
    return report.Table(
        ["wide beyond", report.Column("numbers called usable", ".0f"),
         report.Column(f"off by more than {FAR}", ".1%"),
         report.Column("usable after 100 judged rows", ".0%"),
         report.Column("after 200", ".0%"), report.Column("cells", ".0f"),
         report.Column("wrong cells", ".0f"), report.Column("of them by Jain's formula", ".0f")],
        body,
        title="How narrow must an interval be?",
        caption="By intervals alone; numbers by Jain's formula are wide for another reason, too.",
    )  # fmt: skip


def _figure(cells: list[Row]) -> list[report.Part]:
    """The error of R@3 by every way to it, a panel per pair."""
    chosen = [
        cell for cell in cells
        if cell["metric"] == SHOWN and cell["system"] == "vanilla" and cell["error"] is not None
        and cell["audited"] in (0, 200) and cell["level"] != Level.UNUSABLE.value
    ]  # fmt: skip
    panels = [
        _dots(_about(name).title, part) for (name,), part in group_rows(chosen, "data").items()
    ]
    if not panels:
        return []
    figure = report.Panels(
        panels,
        columns=2,
        title=f"Error of {SHOWN}: what is not refused, by mask model and estimator",
        caption="Dots: mean over audits; bars: their range. Audits of 200 rows. Numbers that were "
        "refused (unusable) are left out.",
    )
    return [figure]


def _overview(rows: list[Row]) -> list[report.Part]:
    """What opens the page, where every pair was audited with 200 rows."""
    estimates = [row for row in rows if row["kind"] == "estimate"]
    audited = {r["folder"] for r in estimates if r["mask"] == MEASURED and r.get("audited") == 200}
    return [overview(rows)] if audited and audited == {r["folder"] for r in estimates} else []


def overview(rows: list[Row]) -> report.Chart:
    """R@3 on every pair: what recorded labels say, what one audit measures, and the truth.

    Parameters
    ----------
    rows : list of dict
        Of the study; the audit is the first one of 200 rows.

    Returns
    -------
    Chart
    """
    cells = [
        cell for row in rows if row["kind"] == "estimate" for cell in _cells(row)
        if cell["metric"] == SHOWN and cell["system"] == "vanilla"
    ]  # fmt: skip
    by_data = {_about(name).title: part for (name,), part in group_rows(cells, "data").items()}
    recorded = {name: _first(part, lambda c: c["estimator"] == "vanilla")
                for name, part in by_data.items()}  # fmt: skip
    measured = {
        name: _first(part, lambda c: c["mask"] == MEASURED and c["audited"] == 200)
        for name, part in by_data.items()
    }
    names = list(by_data)
    return report.Chart(
        "dots",
        [
            report.Series("recorded labels", names, [recorded[n]["value"] for n in names],
                          style=STYLES["vanilla"]),
            report.Series("audit of 200 rows", names, [measured[n]["value"] for n in names],
                          [measured[n]["low"] for n in names],
                          [measured[n]["high"] for n in names],
                          style=report.Style("vermilion", "diamond")),
            report.Series("truth", names, [measured[n]["truth"] for n in names],
                          style=STYLES["clean"]),
        ],
        title="Recall at 3, on labels that people really left out",
        caption="The first audit of 200 rows, with its 95 % interval; the plain linear model.",
        y=report.Axis("R@3", low=0, high=1),
    )  # fmt: skip


def _first(cells: list[Row], chosen: Callable[[Row], bool]) -> Row:
    return next(cell for cell in cells if chosen(cell))


def _dots(title: str, cells: list[Row]) -> report.Chart:
    series = []
    for (mask, estimator), part in group_rows(cells, "mask", "estimator").items():
        if estimator == "vanilla" and mask != "Jain":
            continue
        name = "vanilla" if estimator == "vanilla" else _way(mask, estimator)
        errors = np.array([cell["error"] for cell in part])
        series.append(
            report.Series(
                name, [name], [float(errors.mean())], [float(errors.min())],
                [float(errors.max())], style=STYLES.get(estimator),
            )
        )  # fmt: skip
    return report.Chart(
        "dots", series, title=title,
        y=report.Axis("error", low=-0.4, high=0.4),
        rules=[report.Rule("no error", 0.0, style=STYLES["truth"])],
    )  # fmt: skip


def _way(mask: str, estimator: str) -> str:
    return mask if estimator == "measured" else f"{mask}: {estimator}"


def _bars(cells: list[Row]) -> list[report.Verdict]:
    measured = [c for c in cells if c["family"] == "measured" and c["audited"] >= 100]
    held = _share(c["holds"] for c in measured)
    audited = [c for c in cells if c["family"] == "audited"]
    flagged = _share(c["moves_to"] or not _is_claim(c) for c in audited)
    usable = _usable(cells)
    far = _wrong(usable)
    clean = [c for c in usable if c["data"] in CLEAN]
    modelled = [c for c in clean if c["family"] != "measured"]
    judged = [c for c in clean if c["family"] == "measured"]
    averages = _averages(cells, usable)
    wrong = _wrong(averages)
    by_mask = ", ".join(
        f"{mask} {len(part)}" for (mask,), part in group_rows(wrong, "mask").items()
    )
    n_measured = sum(c["family"] == "measured" for c in averages)
    beyond = [c for c in far if not c["moves_to"]]
    least, most = _by_data(measured, min), _by_data(measured, max)
    return [
        statement(
            "Measured numbers of at least 100 judged rows hold the truth in 90 to 99 %",
            None if held is None else 0.90 <= held <= 0.99,
            f"{_percent(held)} of {len(measured)}; per data set {_percent(least)} to "
            f"{_percent(most)}",
        ),
        statement(
            "Conditional numbers of an audited mask model hold the truth within what they say they "
            "may move, or are doubted, in at least 90 %",
            None if flagged is None else flagged >= 0.9,
            f"{_percent(flagged)} of {len(audited)}",
        ),
        statement(
            "Where masks are nearly independent, no number by a mask model that is called usable "
            f"is off by more than {FAR}",
            None if not modelled else not _wrong(modelled),
            f"{len(_wrong(modelled))} of {len(modelled)} on icons and relations; of "
            f"{len(judged)} measured there, by one audit each, {len(_wrong(judged))}, which an "
            "interval of 95 % allows",
        ),
        statement(
            f"At most 2 % of the numbers called usable are off by more than {FAR}",
            None if not usable else len(far) <= 0.02 * len(usable),
            f"{len(far)} of {len(usable)}; {len(beyond)} of them beyond both their interval and "
            "what they say they may move",
        ),
        statement(
            f"No way to a number that is called usable is off by more than {FAR} on average over "
            "its audits",
            None if not averages else not wrong,
            f"{len(wrong)} of {len(averages)} are ({by_mask or 'none'}); of {n_measured} measured "
            f"ones {sum(c['family'] == 'measured' for c in wrong) or 'none'}",
        ),
    ]


def _by_data(cells: list[Row], pick: Callable[[list[float]], float]) -> float | None:
    shares = [_share(c["holds"] for c in part) for part in group_rows(cells, "data").values()]
    return pick([share for share in shares if share is not None]) if shares else None


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"


def _winners(cells: list[Row]) -> report.Table:
    """How often the sign of a difference is right, and how often a winner is named wrongly."""
    body: list[list[report.Cell]] = []
    decided = [c for c in cells if c["value"] is not None and abs(c["truth"]) > 1e-9]
    for (mask, estimator, audited), part in group_rows(
        decided, "mask", "estimator", "audited"
    ).items():
        if estimator == "vanilla" and mask != "Jain":
            continue
        body.append(
            ["observed labels" if estimator == "vanilla" else _way(mask, estimator),
             audited or None, len(part), *_agreement(part)]
        )  # fmt: skip
    return report.Table(
        ["by", report.Column("judged rows", ".0f"), report.Column("comparisons", ".0f"),
         report.Column("right sign", ".0%"), report.Column("names a winner", ".0%"),
         report.Column("the wrong one", ".0%")],
        body,
        title="P@3 and R@3 of every two of three systems, all pairs",
        caption="Names a winner: the interval of the difference excludes 0 and the number is not "
        "refused or doubted. The wrong one: share of all comparisons.",
    )  # fmt: skip


def _agreement(part: list[Row]) -> tuple[float, float, float]:
    """Shares: right sign, winner named, wrong winner named."""
    sign = [np.sign(c["value"]) == np.sign(c["truth"]) for c in part]
    clear = [
        c["low"] is not None and (c["low"] > 0 or c["high"] < 0)
        and (c["level"] in CLAIMING or c["estimator"] == "vanilla")
        for c in part
    ]  # fmt: skip
    wrong = [named and not right for named, right in zip(clear, sign, strict=True)]
    return float(np.mean(sign)), float(np.mean(clear)), float(np.mean(wrong))


def _winner_bars(cells: list[Row]) -> list[report.Verdict]:
    decided = [c for c in cells if c["value"] is not None and abs(c["truth"]) > 1e-9]
    largest = max((c["audited"] for c in decided), default=0)
    shares = {
        "observed labels": _agreement_of(decided, lambda c: c["estimator"] == "vanilla"),
        "stated propensities": _agreement_of(
            decided, lambda c: c["audited"] == 0 and c["estimator"] != "vanilla"
        ),
        f"measured, {largest} rows": _agreement_of(
            decided, lambda c: c["mask"] == MEASURED and c["audited"] == largest
        ),
    }
    wrong = {name: share[2] for name, share in shares.items() if share is not None}
    said = ", ".join(f"{name} {share:.1%}" for name, share in wrong.items())
    measured = wrong.get(f"measured, {largest} rows")
    return [
        statement(
            "An audit names a wrong winner in at most 5 % of comparisons",
            None if measured is None else measured <= 0.05,
            said,
        )
    ]


def _agreement_of(
    cells: list[Row], chosen: Callable[[Row], bool]
) -> tuple[float, float, float] | None:
    part = [cell for cell in cells if chosen(cell)]
    return _agreement(part) if part else None


def _worth(rows: list[Row]) -> list[report.Part]:
    """True recall by training, and the share of findings that the truth confirms."""
    trained = [row for row in rows if row["kind"] == "training"]
    listed = [row for row in rows if row["kind"] == "finding"]
    ways = list(dict.fromkeys(row["way"] for row in trained))
    body: list[list[report.Cell]] = []
    for (folder,), part in group_rows(trained, "folder").items():
        by_way = {row["way"]: row["values"] for row in part}
        for metric in ("R@1", "R@5"):
            values = [by_way[way][metric] if way in by_way else None for way in ways]
            body.append([f"{_about(folder or 'planted').title}, {metric}", *values])
    precisions: list[list[report.Cell]] = [
        [_about(row["folder"] or "planted").title, row["way"], row["precision_100"],
         row["precision_1000"], row["expected"], row["hidden"]]
        for row in listed
    ]  # fmt: skip
    return [
        report.Table(
            ["data and metric", *(report.Column(way, ".3f") for way in ways)],
            body,
            title="True recall on test rows, by training on observed labels",
        ),
        report.Table(
            ["data", "ranked by", report.Column("right of 100", ".0%"),
             report.Column("right of 1,000", ".0%"), report.Column("expected", ".0f"),
             report.Column("truly missing", ".0f")],
            precisions,
            title="Labels of training rows that are probably missing: how many are",
        ),
        report.Text(WHY_NOT),
        report.Verdicts(_worth_bars(trained, listed)),
    ]  # fmt: skip


def _worth_bars(trained: list[Row], listed: list[Row]) -> list[report.Verdict]:
    values = {(row["folder"], row["way"]): row["values"]["R@5"] for row in trained}
    gains = [
        value - values[folder, "vanilla, tuned"]
        for (folder, way), value in values.items()
        if way == "tuned, audit"
    ]
    right = {(row["folder"], row["way"]): row["precision_100"] for row in listed}
    beside = [
        (value, right[folder, "plain score"])
        for (folder, way), value in right.items()
        if way == "posterior, true rates"
    ]
    return [
        statement(
            "Tuned with audited propensities, true R@5 is at least that of tuned vanilla − 0.002",
            None if not gains else min(gains) >= -0.002,
            ", ".join(f"{gain:+.3f}" for gain in gains),
        ),
        statement(
            "Of the first 100 findings more are confirmed than by plain scores",
            None if not beside else all(ours >= plain for ours, plain in beside),
            ", ".join(f"{ours:.0%} against {plain:.0%}" for ours, plain in beside),
        ),
    ]


def _one_by_one(rows: list[Row], cells: list[Row]) -> list[report.Part]:
    """A paragraph per pair on what its masks are like, then shapes and diagnoses."""
    names = dict.fromkeys(row["folder"] for row in rows)
    parts: list[report.Part] = []
    for name in names:
        about = _about(name or "planted")
        own = [c for c in cells if c["data"] == (name or "planted")]
        said = _share(
            not _is_claim(c) for c in own if c["family"] == "stated" and c["estimator"] != "vanilla"
        )
        refused = "" if said is None else f" Refused or doubted: {said:.0%} of the stated numbers."
        parts.append(
            report.Text(f"{about.title.capitalize()} ({name or 'planted'}): {about.masks}{refused}")
        )
    return [*parts, _shapes(rows), _diagnoses(rows)]


def _about(name: str) -> About:
    return PAIRS.get(name, PLANTED)


def _shapes(rows: list[Row]) -> report.Table:
    body: list[list[report.Cell]] = [
        [_about(row["folder"] or "planted").title, row["labels"], row["rank_correlation"],
         *(row["deviances"][name] for name in ("constant", "Jain", "fitted"))]
        for row in rows
        if row["kind"] == "shape"
    ]  # fmt: skip
    return report.Table(
        ["data", "labels", report.Column("rank correlation of p and frequency", ".2f"),
         *(report.Column(name, ".1f") for name in ("constant", "Jain", "fitted Jain shape"))],
        body,
        title="Deviance per label of propensities that depend on frequency alone",
        caption="One number per label has the deviance 0; about 1 per label would be chance.",
    )  # fmt: skip


def _diagnoses(rows: list[Row]) -> report.Table:
    """What diagnoses reject, in what share of the audits."""
    body: list[list[report.Cell]] = []
    own = [row for row in rows if row["kind"] == "diagnosis"]
    for (folder, mask), part in group_rows(own, "folder", "mask").items():
        kinds = sorted({kind for row in part for kind in row["rejected"]})
        shares = {kind: np.mean([kind in row["rejected"] for row in part]) for kind in kinds}
        said = ", ".join(f"{kind.replace('_', ' ')} {share:.0%}" for kind, share in shares.items())
        body.append(
            [_about(folder or "planted").title, mask, part[0]["audited"], said or "nothing"]
        )
    return report.Table(
        ["data", "propensities", "judged rows", "tests that reject"],
        body,
        title="What a diagnosis with an audit says",
    )


def _errors(cells: list[Row]) -> report.Table:
    """Mean error, spread and levels of R@3, by data, mask model and audit."""
    body: list[list[report.Cell]] = []
    own = [c for c in cells if c["metric"] == SHOWN and c["system"] == "vanilla"]
    for key, part in group_rows(own, "data", "mask", "estimator", "audited").items():
        data, mask, estimator, audited = key
        if estimator == "vanilla" and mask != "Jain":
            continue
        errors = np.array([c["error"] for c in part if c["error"] is not None])
        widths = [c["high"] - c["low"] for c in part if c["low"] is not None]
        levels = "/".join(dict.fromkeys(c["level"] for c in part))
        body.append(
            [_about(data).title, "vanilla" if estimator == "vanilla" else _way(mask, estimator),
             audited or None, part[0]["truth"], float(errors.mean()) if errors.size else None,
             float(np.sqrt(np.mean(errors**2))) if errors.size else None,
             float(np.mean(widths)) if widths else None, _share(c["holds"] for c in part), levels]
        )  # fmt: skip
    return report.Table(
        ["data", "by", report.Column("judged rows", ".0f"), report.Column("truth", ".3f"),
         report.Column("mean error", ".3f"), report.Column("RMSE", ".3f"),
         report.Column("width", ".3f"), report.Column("coverage", ".0%"), "levels"],
        body,
        title=f"{SHOWN} of the vanilla system",
    )  # fmt: skip
