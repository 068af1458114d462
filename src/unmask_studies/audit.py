"""Is a measured number right, whatever hid the labels, and what does it cost?

Complete labels of test rows are taken as the truth and hidden by masks that the estimates are not
told: independent ones, rows that lose their labels together (row effort), masks that depend on the
model's score, 10 % spurious labels, a fifth of the rows never annotated. Then rows, or pairs, are
judged at random from the truth, many times. What counts: the error, how often the 95 % interval
holds the true value, and its width, for the audit with control variates, for the audit alone and
for the estimates that rest on the stated propensities. A last part looks at a confidence sequence
after every judged row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, logit
from scipy.stats import norm, rankdata
from scipy.stats import t as student

from unmask import audit, data, propensity, report
from unmask._typing import Floats, Ints
from unmask.audit.stopping import betting
from unmask.metrics import contributions, evaluate
from unmask.metrics.measured import measure
from unmask.metrics.measured.control import RowSample, standardized
from unmask.metrics.measured.covariates import of_rows
from unmask.metrics.measured.estimating import row_mean
from unmask.predictions import TopK
from unmask_studies import models
from unmask_studies.runs import DataSets, Row, Study, Unit, group_rows, statement

Cells: TypeAlias = dict[tuple[Any, ...], Row]
"""What was found, by part, data, mask, metric, estimator and number of judgements."""
FOLDERS = ("debtags-bookworm", "delicious", "cooking-stackexchange")
MASKS = ("right", "effort .5", "effort .8", "score", "spurious", "never annotated")
METRICS = ("P@5", "R@5")
PAIR_MASKS = ("right", "effort .8", "spurious")
"""Under which pairs are judged, too."""
PAIR_METRICS = ("P@5", "micro-R@5", "R@5")
SIZES_OF_AUDITS = (50, 100, 200, 400)
PAIR_ROWS = 12
"""Pairs are judged as many as this many whole rows have."""
SPURIOUS, UNANNOTATED, SLOPE = 0.1, 0.2, 1.0
INVERSE = (1.5, 6.0)
"""The range of 1/p, from the most frequent label to the rarest."""
WIDTH = 100
MOST_ROWS = 4000
LOOKS = 200


@dataclass(frozen=True)
class Size:
    """How often things are repeated: masks, audits of rows and of pairs per mask, sequences."""

    masks: int
    rows: int
    pairs: int
    sequences: int


SIZES = {
    "tiny": Size(1, 6, 2, 6),
    "small": Size(1, 100, 4, 200),
    "paper": Size(1, 400, 6, 1000),
}


def units(size: str, seed: int, data: DataSets | None) -> list[Unit]:
    """One unit per data set and mask, and one per data set for the sequences."""
    repeats = SIZES[size]
    real = data if data and size != "tiny" else DataSets(None, frozenset())
    folders: list[Path | None] = [real.path(name) for name in FOLDERS if name in real.names]
    kinds = MASKS if size != "tiny" else ("effort .8", "spurious")
    shared = {"masks": repeats.masks, "rows": repeats.rows}
    return [
        {"folder": folder, "mask": kind, "seed_of_masks": seed, **amounts}
        for folder in folders or [None]
        for kind, amounts in [
            *(
                (kind, {**shared, "sequences": 0, "pairs": repeats.pairs * (kind in PAIR_MASKS)})
                for kind in kinds
            ),
            ("effort .5", {"masks": 1, "rows": 0, "pairs": 0, "sequences": repeats.sequences}),
        ]
    ]


@dataclass(frozen=True, eq=False)
class Problem:
    """Complete labels of test rows, a model's predictions for them, and propensities."""

    name: str
    true: sp.csr_array
    top: TopK
    p: Floats

    def exact(self, name: str) -> Floats:
        """The metric of every row, by the complete labels."""
        return contributions(self.top, self.true, metrics=[name])[name, "vanilla"]

    @property
    def micro_recall(self) -> float:
        """Hits of the first five over all true labels."""
        return float(5 * self.exact("P@5").sum() / self.true.nnz)


@lru_cache(maxsize=1)
def problem(folder: Path | None) -> Problem:
    """A model trained on hidden labels, once for all masks of a data set."""
    rows = models.split_of(folder) if folder else models.planted(2000, 0)
    low, high = INVERSE
    p = np.asarray(propensity.from_spec(f"inverse_linear:{low},{high}", rows.train_labels))
    top = models.best(rows, data.hide(rows.train_labels, p, seed=0), WIDTH)
    keep = slice(0, MOST_ROWS)
    test = TopK(top.labels[keep], top.scores[keep])
    return Problem(folder.name if folder else "planted", rows.test_labels[keep], test, p)


def hidden(about: Problem, kind: str, seed: int) -> sp.csr_array:
    """Observed labels under a kind of mask."""
    rng = np.random.default_rng(seed)
    true = about.true
    row = np.repeat(np.arange(true.shape[0]), np.diff(true.indptr))
    p = about.p[true.indices]
    if kind.startswith("effort"):
        rho = float(kind.split()[1])
        effort = rng.standard_normal(true.shape[0])[row]
        noise = rng.standard_normal(true.nnz)
        kept = np.sqrt(rho) * effort + np.sqrt(1 - rho) * noise < norm.ppf(p)
    elif kind == "score":
        place = np.full(true.nnz, WIDTH)
        match = about.top.labels[row] == true.indices[:, None]
        place = np.where(match.any(axis=1), match.argmax(axis=1), WIDTH)
        obvious = 0.5 - rankdata(place) / (place.size + 1)
        kept = rng.random(true.nnz) < expit(logit(np.minimum(p, 0.99)) + 6 * SLOPE * obvious)
    else:
        kept = rng.random(true.nnz) < p
    if kind == "never annotated":
        kept &= (rng.random(true.shape[0]) >= UNANNOTATED)[row]
    seen = _only(true, kept)
    return _with_spurious(seen, true, rng) if kind == "spurious" else seen


def _only(true: sp.csr_array, kept: np.ndarray) -> sp.csr_array:
    row = np.repeat(np.arange(true.shape[0]), np.diff(true.indptr))
    entries = (np.ones(int(kept.sum())), (row[kept], true.indices[kept]))
    return sp.csr_array(sp.coo_array(entries, shape=true.shape))


def _with_spurious(
    seen: sp.csr_array, true: sp.csr_array, rng: np.random.Generator
) -> sp.csr_array:
    """A share of the observed labels is wrong: labels of other rows, as frequent as they are."""
    count = int(SPURIOUS / (1 - SPURIOUS) * seen.nnz)
    row = rng.integers(seen.shape[0], size=count)
    label = rng.choice(true.indices, count)
    wrong = np.asarray(true[row, label]).ravel() == 0
    extra = sp.coo_array((np.ones(int(wrong.sum())), (row[wrong], label[wrong])), shape=seen.shape)
    return sp.csr_array((seen + sp.csr_array(extra)) > 0).astype(np.float64)


def measure_unit(
    folder: Path | None, mask: str, seed_of_masks: int, masks: int, rows: int, pairs: int,
    sequences: int,
) -> Iterable[Row]:  # fmt: skip
    """Errors, coverage and widths of one data set under one kind of mask."""
    about = problem(folder)
    shared = {"data": about.name, "n": about.true.shape[0], "labels": about.true.shape[1]}
    for draw in range(masks):
        seed = 1000 * seed_of_masks + draw
        observed = hidden(about, mask, seed)
        parts: list[Iterator[Row]] = []
        if rows:
            parts += [_stated(about, observed), _rows(about, observed, rows, seed)]
        if pairs:
            parts.append(_pairs(about, observed, pairs, seed))
        if sequences:
            parts.append(_sequences(about, observed, sequences, seed))
        for part in parts:
            yield from ({**shared, "draw": draw, **row} for row in part)


def _stated(about: Problem, observed: sp.csr_array) -> Iterator[Row]:
    """The estimates that rest on the propensities, once per mask."""
    table = evaluate(
        about.top, observed, about.p, metrics=METRICS,
        estimators=["vanilla", "unbiased", "deconvolved"],
    )  # fmt: skip
    for each in table:
        truth = float(about.exact(each.metric).mean())
        yield {
            "part": "stated", "metric": each.metric, "estimator": each.estimator, "judged": 0,
            **_summary(np.array([each.value]), np.array([each.interval]), truth),
        }  # fmt: skip


def _rows(about: Problem, observed: sp.csr_array, repeats: int, seed: int) -> Iterator[Row]:
    """Whole rows: with control variates, and the audit alone."""
    n = observed.shape[0]
    rng = np.random.default_rng(seed)
    for name in METRICS:
        values, known = about.exact(name), of_rows(about.top, observed, name, 5)
        for m in SIZES_OF_AUDITS:
            if m > n // 2:
                continue
            results = [
                [
                    row_mean(_simple(rows, values[:, None], n), each, (0.0, 1.0), (0.0, 1.0))
                    for each in (known, None)
                ]
                for rows in (rng.permutation(n)[:m] for _ in range(repeats))
            ]
            for estimator, made in zip(
                ("controlled", "alone"), zip(*results, strict=True), strict=True
            ):
                ends = np.array([each.interval for each in made])
                yield {
                    "part": "rows", "metric": name, "estimator": estimator, "judged": m,
                    **_summary(np.array([each.value for each in made]), ends, values.mean()),
                }  # fmt: skip


def _simple(rows: Ints, values: Floats, n: int) -> RowSample:
    return RowSample(rows, np.zeros(rows.size, dtype=np.int64), np.array([n]), values[rows])


def _pairs(about: Problem, observed: sp.csr_array, repeats: int, seed: int) -> Iterator[Row]:
    """Pairs, and whole rows of as many judgements: P@5 and micro-R@5, and R@5 in two phases."""
    budget = PAIR_ROWS * observed.shape[1]
    free = "sampled" if _any_spurious(about, observed) else "free"
    truth = {name: float(about.exact(name).mean()) for name in ("P@5", "R@5")}
    truth["micro-R@5"] = about.micro_recall
    designs = {"pairs": ("P@5", "micro-R@5"), "two-phase": ("R@5",), "rows": PAIR_METRICS}
    for design, names in designs.items():
        made: dict[str, list[tuple[float, float, float]]] = {name: [] for name in names}
        for repeat in range(repeats if design != "rows" else 4 * repeats):
            judged = _judged(about, observed, design, budget, 7919 * seed + repeat, free)
            for each in measure(about.top, observed, judged, metrics=names):
                made[each.metric].append((each.value, *each.interval))
        for name, results in made.items():
            values = np.array(results)
            yield {
                "part": "pairs", "metric": name, "estimator": design, "judged": budget,
                **_summary(values[:, 0], values[:, 1:], truth[name]),
            }  # fmt: skip


def _any_spurious(about: Problem, observed: sp.csr_array) -> bool:
    return bool(observed.multiply(about.true).nnz < observed.nnz)


def _judged(
    about: Problem, observed: sp.csr_array, design: str, budget: int, seed: int, free: str
) -> audit.Judgements:
    if design == "rows":
        plan = audit.plan(about.top, observed, budget=PAIR_ROWS, seed=seed, expect=False)
        return audit.from_rows(plan, about.true[plan.rows])
    names = ("P@5", "micro-R@5") if design == "pairs" else ("R@5",)
    plan = audit.plan(
        about.top, observed, budget=budget, unit="pairs", metrics=names, seed=seed,
        observed="sampled" if free == "sampled" else "free", expect=False,
    )  # fmt: skip
    return audit.from_pairs(plan, np.asarray(about.true[plan.rows, plan.labels]).ravel())


def _sequences(about: Problem, observed: sp.csr_array, repeats: int, seed: int) -> Iterator[Row]:
    """How often the truth is ever left out, with a look after every row."""
    n = observed.shape[0]
    rng = np.random.default_rng(seed)
    name = "R@5"
    values = about.exact(name)
    truth, z = float(values.mean()), standardized(of_rows(about.top, observed, name, 5))
    looks = min(LOOKS, n // 2)
    missed = {"sequence": 0, "interval at every look": 0}
    widths: list[float] = []
    for _ in range(repeats):
        rows = rng.permutation(n)[:looks]
        low, high = betting(values[rows], rows, n, z, planned=looks)
        missed["sequence"] += int(((low > truth) | (high < truth)).any())
        widths.append(float(high[-1] - low[-1]))
        missed["interval at every look"] += _ever_missed(values[rows], truth, n)
    for kind, count in missed.items():
        yield {
            "part": "sequence", "metric": name, "estimator": kind, "judged": looks,
            "repeats": repeats, "missed": count / repeats, "width": float(np.mean(widths)),
        }  # fmt: skip


def _ever_missed(values: Floats, truth: float, n: int) -> int:
    """Whether an interval of Student's t, drawn after every row from the tenth, leaves it out."""
    m = np.arange(1, values.size + 1)
    mean = np.cumsum(values) / m
    spread = np.maximum(np.cumsum(values**2) / m - mean**2, 0) * m / np.maximum(m - 1, 1)
    half = student.ppf(0.975, np.maximum(m - 1, 1)) * np.sqrt(spread / m * (1 - m / n))
    return int((np.abs(mean - truth) > half)[9:].any())


def _summary(values: Floats, ends: Floats, truth: float) -> Row:
    error = values - truth
    usable = np.isfinite(values)
    inside = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
    return {
        "repeats": int(values.size),
        "truth": truth,
        "bias": float(error[usable].mean()) if usable.any() else None,
        "rmse": float(np.sqrt((error[usable] ** 2).mean())) if usable.any() else None,
        "inside": int(inside.sum()),
        "width": float((ends[usable, 1] - ends[usable, 0]).mean()) if usable.any() else None,
    }


def draw(rows: list[Row]) -> list[report.Section]:
    """Coverage and error by mask, pairs against rows, sequences, and the bars."""
    cells = _cells(rows)
    return [
        report.Section(
            "Audits of whole rows",
            [
                report.Text(str(__doc__).partition("\n\n")[2]),
                _coverage_chart(cells),
                _rows_table(cells),
                report.Verdicts([_covers(cells), *_gains(cells)]),
            ],
        ),
        report.Section(
            "Audits of pairs", [_pairs_table(cells), report.Verdicts(_pair_gains(cells))]
        ),
        report.Section(
            "A look after every judgement",
            [_sequence_table(rows), report.Verdicts(_sequence_claims(rows))],
        ),
    ]


def _cells(rows: list[Row]) -> Cells:
    """Means over masks, by part, data, mask, metric, estimator and size."""
    made = {}
    for key, part in group_rows(
        [row for row in rows if row["part"] != "sequence"],
        "part", "data", "mask", "metric", "estimator", "judged",
    ).items():  # fmt: skip
        usable = [row for row in part if row["rmse"] is not None]
        repeats = sum(row["repeats"] for row in part)
        made[key] = {
            "coverage": sum(row["inside"] for row in part) / repeats,
            "rmse": _rms([row["rmse"] for row in usable]),
            "bias": float(np.mean([row["bias"] for row in usable])) if usable else float("nan"),
            "width": float(np.mean([row["width"] for row in usable])) if usable else float("nan"),
            "truth": float(np.mean([row["truth"] for row in part])),
            "repeats": repeats,
        }
    return made


def _rms(values: list[float]) -> float:
    return float(np.sqrt(np.mean(np.square(values)))) if values else float("nan")


def _coverage_chart(cells: Cells) -> report.Chart:
    keys = [key for key in cells if key[0] == "rows" and key[4] == "controlled" and key[3] == "R@5"]
    names = sorted({f"{key[1].split('-')[0]}, {key[2]}" for key in keys})
    series = []
    for m in SIZES_OF_AUDITS:
        values = {
            f"{key[1].split('-')[0]}, {key[2]}": cells[key]["coverage"]
            for key in keys
            if key[5] == m
        }
        if values:
            listed = [name for name in names if name in values]
            series.append(report.Series(f"{m} rows", listed, [values[name] for name in listed]))
    return report.Chart(
        "dots",
        series,
        title="How often the 95 % interval of R@5 holds the true value",
        y=report.Axis("coverage", low=0.85, high=1.0),
        rules=[report.Rule("95 %", 0.95)],
    )


def _rows_table(cells: Cells) -> report.Table:
    heads: list[report.Column | str] = ["data, mask, metric, rows"]
    forms = (("RMSE", ".4f"), ("coverage", ".1%"), ("width", ".3f"))
    heads += [
        report.Column(f"{what} {name}", form)
        for name in ("controlled", "alone")
        for what, form in forms
    ]
    heads += [report.Column("RMSE unbiased", ".4f"), report.Column("RMSE deconvolved", ".4f")]
    body: list[list[report.Cell]] = []
    for part, name, mask, metric, estimator, m in cells:
        if part != "rows" or estimator != "controlled":
            continue
        line: list[report.Cell] = [f"{name.split('-')[0]}, {mask}, {metric}, {m}"]
        for each in ("controlled", "alone"):
            cell = cells["rows", name, mask, metric, each, m]
            line += [cell["rmse"], cell["coverage"], cell["width"]]
        for each in ("unbiased", "deconvolved"):
            stated = cells.get(("stated", name, mask, metric, each, 0))
            line.append(float("nan") if stated is None else stated["rmse"])
        body.append(line)
    return report.Table(heads, body, title="Whole rows", caption="Stated: with the propensities.")


def _covers(cells: Cells) -> report.Verdict:
    judged = [
        (key, cell) for key, cell in cells.items()
        if key[0] == "rows" and key[4] == "controlled" and int(key[5]) >= 100
    ]  # fmt: skip
    coverage = [cell["coverage"] for _, cell in judged]
    outside = [key for key, cell in judged if not 0.92 <= cell["coverage"] <= 0.98]
    return statement(
        f"In every one of {len(judged)} cells with at least 100 rows, 92 to 98 % of the intervals "
        "hold the true value",
        bool(judged) and not outside,
        f"lowest {min(coverage, default=0):.1%}, highest {max(coverage, default=0):.1%}, "
        f"{len(outside)} outside"
        + "".join(f"; {', '.join(map(str, key[1:]))}" for key in outside[:6]),
    )


def _gains(cells: Cells) -> list[report.Verdict]:
    claims = []
    for name in sorted({key[1] for key in cells if key[0] == "rows"}):
        ratios = [
            cells["rows", name, mask, "R@5", "controlled", 200]["rmse"]
            / cells["rows", name, mask, "R@5", "alone", 200]["rmse"]
            for mask in MASKS
            if ("rows", name, mask, "R@5", "alone", 200) in cells
        ]
        if ratios:
            claims.append(
                statement(
                    f"{name}: control variates bring the RMSE of R@5 at 200 rows to .75 of the "
                    "audit alone, or less",
                    float(np.mean(ratios)) <= 0.75,
                    f"by mask {', '.join(f'{ratio:.2f}' for ratio in ratios)}",
                )
            )
    return claims


def _pairs_table(cells: Cells) -> report.Table:
    body: list[list[report.Cell]] = []
    for part, name, mask, metric, estimator, judged in cells:
        if part != "pairs" or estimator == "rows":
            continue
        mine = cells[part, name, mask, metric, estimator, judged]
        rows = cells[part, name, mask, metric, "rows", judged]
        body.append(
            [f"{name.split('-')[0]}, {mask}, {metric}", estimator, judged, mine["rmse"],
             rows["rmse"], mine["rmse"] / rows["rmse"], mine["coverage"], rows["coverage"]]
        )  # fmt: skip
    return report.Table(
        ["data, mask, metric", "design", "judgements", report.Column("RMSE", ".4f"),
         report.Column("RMSE of rows", ".4f"), report.Column("ratio", ".2f"),
         report.Column("coverage", ".0%"), report.Column("coverage of rows", ".0%")],
        body,
        title=f"Pairs against {PAIR_ROWS} whole rows, as many judgements",
    )  # fmt: skip


def _pair_gains(cells: Cells) -> list[report.Verdict]:
    claims = []
    for metric in ("P@5", "micro-R@5"):
        ratios = {
            f"{key[1].split('-')[0]}, {key[2]}": cell["rmse"]
            / cells[(*key[:4], "rows", key[5])]["rmse"]
            for key, cell in cells.items()
            if key[0] == "pairs" and key[3] == metric and key[4] == "pairs"
        }
        worst = max(ratios, key=lambda name: ratios[name], default="")
        claims.append(
            statement(
                f"Pairs measure {metric} with at most half the error of whole rows of as many "
                "judgements",
                bool(ratios) and max(ratios.values()) <= 0.5,
                f"largest ratio {ratios.get(worst, 0):.2f} ({worst}), mean "
                f"{np.mean(list(ratios.values()) or [0]):.2f}",
            )
        )
    return claims


def _sequence_table(rows: list[Row]) -> report.Table:
    body: list[list[report.Cell]] = [
        [row["data"], row["estimator"], row["judged"], row["repeats"], row["missed"]]
        for row in rows
        if row["part"] == "sequence"
    ]
    return report.Table(
        ["data", "what is looked at", "looks", "runs", report.Column("ever left out", ".1%")],
        body,
        title="Runs in which some look left out the true R@5",
    )


def _sequence_claims(rows: list[Row]) -> list[report.Verdict]:
    parts = [row for row in rows if row["part"] == "sequence"]
    rates = {row["data"]: row["missed"] for row in parts if row["estimator"] == "sequence"}
    plain = [row["missed"] for row in parts if row["estimator"] == "interval at every look"]
    return [
        statement(
            "A confidence sequence leaves out the truth in at most 5 % of the runs, with a look "
            "after every judged row",
            bool(rates) and max(rates.values()) <= 0.05,
            ", ".join(f"{name}: {rate:.1%}" for name, rate in rates.items())
            + f"; an ordinary interval: up to {max(plain, default=0):.0%}",
        )
    ]


STUDY = Study("audit", "measured numbers against the truth", units, measure_unit, draw)
