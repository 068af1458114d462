"""Is a measured number right, whatever hid the labels, and what does it cost?

Complete labels of test rows are taken as the truth and hidden by masks that the estimates are not
told: independent ones, rows that lose their labels together (row effort), masks that depend on the
model's score, 10 % spurious labels, a fifth of the rows never annotated. Then rows, or pairs, are
judged at random from the truth, many times. What counts: the error, how often the 95 % interval
holds the true value, and its width, for the audit with control variates, for the audit alone and
for the estimates that rest on the stated propensities. Pairs are judged as many as the rows have
labels. What they find depends on how many relevant pairs are drawn in each stratum only, and that
is hypergeometric, so that audits of pairs are repeated without listing them. Cells of rows that
were outside their bar in the first audits are decided by many more, with draws of their own: the
first ones were picked for being low. A last part looks at a confidence sequence after every judged
row.
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
from unmask._sparse import entry_rows, values_at
from unmask._typing import Floats, Ints
from unmask.audit import frames
from unmask.audit.designs import Question, allocation, question_of
from unmask.audit.stopping import betting
from unmask.data.judgements import IN_TOP
from unmask.metrics import contributions, evaluate
from unmask.metrics.measured import measure, pair_totals
from unmask.metrics.measured.control import Limits, RowSample, standardized
from unmask.metrics.measured.covariates import of_rows
from unmask.metrics.measured.estimating import row_mean
from unmask.predictions import TopK, listed_keys
from unmask_studies import models
from unmask_studies.runs import DataSets, Row, Study, Unit, group_rows, statement

Cells: TypeAlias = dict[tuple[Any, ...], Row]
"""What was found, by part, data, mask, metric, estimator and number of judgements."""
FOLDERS = ("debtags-bookworm", "delicious", "cooking-stackexchange")
EFFORTS = {"effort .5": 0.5, "effort .8": 0.8}
"""Row effort of the masks that have one."""
MASKS = ("right", *EFFORTS, "score", "spurious", "never annotated")
METRICS = ("P@5", "R@5")
MICRO = "micro-R@5"
SIZES_OF_AUDITS = (50, 100, 200, 400)
TWO_PHASE_ROWS = 100
"""Two-phase audits have as many judgements as this many whole rows."""
NEARLY_ALL = 0.005
"""Narrower intervals are those of audits that judged nearly all pairs that count: they hold the
truth more often than they must, up to always."""
OUTSIDE = (
    ("delicious", "effort .8", "P@5", 400),
    ("cooking-stackexchange", "right", "R@5", 100),
)
"""Data, mask, metric and rows of the cells that were outside their bar in the first audits."""
AGAIN = 2000
"""Audits by which these are measured again, at the size paper."""
BARRED = ("debtags-bookworm", "delicious", "planted")
"""Where control variates are promised to save a quarter of the error."""
SPURIOUS, UNANNOTATED, SLOPE = 0.1, 0.2, 1.0
INVERSE = (1.5, 6.0)
"""The range of 1/p, from the most frequent label to the rarest."""
WIDTH = 100
MOST_ROWS = 4000
LOOKS = 200


@dataclass(frozen=True)
class Size:
    """How often things are repeated: audits of rows, pairs and in two phases, sequences."""

    rows: int
    pairs: int
    two_phase: int
    sequences: int


SIZES = {
    "tiny": Size(6, 20, 1, 6),
    "small": Size(100, 1000, 2, 200),
    "paper": Size(400, 4000, 12, 1000),
}


def units(size: str, seed: int, data: DataSets | None) -> list[Unit]:
    """One unit per data set and mask, and one per data set for the sequences."""
    repeats = SIZES[size]
    real = data if data and size != "tiny" else DataSets(None, frozenset())
    folders: list[Path | None] = [real.path(name) for name in FOLDERS if name in real.names]
    kinds = MASKS if size != "tiny" else ("effort .8", "spurious")
    judged = {"rows": repeats.rows, "pairs": repeats.pairs, "two_phase": repeats.two_phase}
    none = {**dict.fromkeys(judged, 0), "sequences": 0}
    again: list[Unit] = [
        {"folder": real.path(name), "mask": kind, "seed_of_masks": seed, **none, "rows": AGAIN,
         "metric_again": metric, "rows_again": m}
        for name, kind, metric, m in OUTSIDE
        if size == "paper" and name in real.names
    ]  # fmt: skip
    first: list[Unit] = [
        {"folder": folder, "mask": kind, "seed_of_masks": seed, **amounts}
        for folder in folders or [None]
        for kind, amounts in [
            *((kind, {**judged, "sequences": 0}) for kind in kinds),
            ("effort .5", {**none, "sequences": repeats.sequences}),
        ]
    ]
    return [*first, *again]


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

    def truth(self, name: str) -> float:
        """The metric, by the complete labels."""
        if name == MICRO:
            return float(5 * self.exact("P@5").sum() / self.true.nnz)
        return float(self.exact(name).mean())


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
    row = entry_rows(true)
    p = about.p[true.indices]
    if kind in EFFORTS:
        rho = EFFORTS[kind]
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
    observed = _only(true, kept)
    return _with_spurious(observed, true, rng) if kind == "spurious" else observed


def _only(true: sp.csr_array, kept: np.ndarray) -> sp.csr_array:
    row = entry_rows(true)
    entries = (np.ones(int(kept.sum())), (row[kept], true.indices[kept]))
    return sp.csr_array(sp.coo_array(entries, shape=true.shape))


def _with_spurious(
    observed: sp.csr_array, true: sp.csr_array, rng: np.random.Generator
) -> sp.csr_array:
    """A share of the observed labels is wrong: labels of other rows, as frequent as they are."""
    count = int(SPURIOUS / (1 - SPURIOUS) * observed.nnz)
    row = rng.integers(observed.shape[0], size=count)
    label = rng.choice(true.indices, count)
    wrong = values_at(true, row, label) == 0
    extra = sp.coo_array(
        (np.ones(int(wrong.sum())), (row[wrong], label[wrong])), shape=observed.shape
    )
    return sp.csr_array((observed + sp.csr_array(extra)) > 0).astype(np.float64)


def measure_unit(
    folder: Path | None, mask: str, seed_of_masks: int, rows: int, pairs: int, two_phase: int,
    sequences: int, metric_again: str = "", rows_again: int = 0,
) -> Iterable[Row]:  # fmt: skip
    """Errors, coverage and widths of one data set under one kind of mask; or of one cell again."""
    about = problem(folder)
    shared = {"data": about.name, "n": about.true.shape[0], "labels": about.true.shape[1]}
    seed = 1000 * seed_of_masks
    observed = hidden(about, mask, seed)
    parts: list[Iterator[Row]] = []
    if rows_again:
        fresh = np.random.default_rng([seed, AGAIN])
        parts.append(_row_cell(about, observed, rows, fresh, metric_again, rows_again, "again"))
    elif rows:
        parts += [_stated(about, observed), _rows(about, observed, rows, seed)]
    if pairs:
        parts.append(_pairs(about, observed, pairs, seed))
    if two_phase:
        parts.append(_two_phase(about, observed, two_phase, seed))
    if sequences:
        parts.append(_sequences(about, observed, sequences, seed))
    for part in parts:
        yield from ({**shared, **row} for row in part)


def _stated(about: Problem, observed: sp.csr_array) -> Iterator[Row]:
    """The estimates that rest on the propensities, once per mask."""
    table = evaluate(
        about.top, observed, about.p, metrics=METRICS,
        estimators=["vanilla", "unbiased", "deconvolved"],
    )  # fmt: skip
    for each in table:
        yield {
            "part": "stated", "metric": each.metric, "estimator": each.estimator, "judged": 0,
            **_summary(
                np.array([each.value]), np.array([each.interval]), about.truth(each.metric)
            ),
        }  # fmt: skip
    yield _stated_micro(about, observed)


def _stated_micro(about: Problem, observed: sp.csr_array) -> Row:
    """Micro-recall with every observed label counted 1/p times."""
    inverse = 1 / about.p[observed.indices]
    row = entry_rows(observed)
    hit = (about.top.labels[row, :5] == observed.indices[:, None]).any(axis=1)
    value = float(inverse[hit].sum() / inverse.sum())
    return {
        "part": "stated", "metric": MICRO, "estimator": "unbiased", "judged": 0,
        **_summary(np.array([value]), np.full((1, 2), np.nan), about.truth(MICRO)),
    }  # fmt: skip


def _rows(about: Problem, observed: sp.csr_array, repeats: int, seed: int) -> Iterator[Row]:
    """Whole rows: with control variates, and the audit alone."""
    rng = np.random.default_rng(seed)
    for name in (*METRICS, MICRO):
        for m in (size for size in SIZES_OF_AUDITS if size <= observed.shape[0] // 2):
            yield from _row_cell(about, observed, repeats, rng, name, m, "rows")


def _row_cell(
    about: Problem, observed: sp.csr_array, repeats: int, rng: np.random.Generator, name: str,
    m: int, part: str,
) -> Iterator[Row]:  # fmt: skip
    """Audits of m whole rows."""
    n = observed.shape[0]
    values, limits = about.exact("R@5" if name == "R@5" else "P@5")[:, None], (0.0, 1.0)
    within: Limits = limits
    if name == MICRO:
        counts = np.diff(about.true.indptr).astype(np.float64)
        values, within = np.column_stack([5 * values, counts]), (np.zeros(2), np.array([5, n]))
    covariates = of_rows(about.top, observed, "P@5" if name == "P@5" else "R@5", 5)
    samples = [_simple(rng.permutation(n)[:m], values, n) for _ in range(repeats)]
    for estimator, beside in (("controlled", covariates), ("alone", None)):
        means = [
            row_mean(sample, beside, within, limits, ratio=name == MICRO) for sample in samples
        ]
        ends = np.array([each.interval for each in means])
        yield {
            "part": part, "metric": name, "estimator": estimator, "judged": m,
            **_summary(np.array([each.value for each in means]), ends, about.truth(name)),
        }  # fmt: skip


def _simple(rows: Ints, values: Floats, n: int) -> RowSample:
    return RowSample(rows, np.zeros(rows.size, dtype=np.int64), np.array([n]), values[rows])


@dataclass(frozen=True, eq=False)
class Strata:
    """The strata of an audit of pairs, and how many pairs of each are in truth relevant."""

    question: Question
    frame: frames.PairFrame
    relevant: Ints

    @property
    def in_top(self) -> Floats:
        """1 for strata among the first five, else 0."""
        return np.array([float(kind in IN_TOP) for kind in self.frame.kinds])

    def fraction(self, name: str, relevant: Ints, drawn: Ints) -> pair_totals.Fraction:
        """The measured metric, if so many of the drawn pairs are relevant."""
        labels, top = self.question.labels, self.question.systems[0]
        free = float(self.question.options["observed"] == "free")
        hits = free * frames.contains(
            np.sort(listed_keys(top, 5, labels.shape[1])), frames.keys_of(labels)
        ).sum()  # fmt: skip
        everywhere = np.full(drawn.size, float(name == MICRO))
        denominator = free * labels.nnz if name == MICRO else 5.0 * labels.shape[0]
        mine = (drawn > 0) & ((self.in_top > 0) | (everywhere > 0))
        totals = pair_totals.of_counts(
            relevant[..., mine], drawn[mine], self.frame.sizes[mine],
            (self.in_top[mine], everywhere[mine]), 0.95,
        )  # fmt: skip
        return pair_totals.Fraction(totals, hits, denominator, (0.0, 1.0))

    def least_error(self, budget: int, truth: float, total: float) -> float:
        """Of micro-recall, if the true rate of every stratum were known when the plan is made."""
        sizes = self.frame.sizes
        rate = self.relevant / np.maximum(sizes, 1)
        weight = np.where(self.in_top > 0, 1 - truth, truth)
        spread = weight * np.sqrt(rate * (1 - rate))
        drawn = np.maximum(frames.allocate(sizes, spread, budget, 0), 1)
        return float(np.sqrt((sizes**2 * (1 - drawn / sizes) * spread**2 / drawn).sum()) / total)


def strata(about: Problem, observed: sp.csr_array) -> Strata:
    """Of an audit of pairs; observed pairs are judged, too, where some of them are wrong."""
    wrong = observed.multiply(about.true).nnz < observed.nnz
    question = question_of(
        about.top, observed, None, ["P@5", MICRO], "pairs", 1,
        {"observed": "sampled" if wrong else "free"},
    )  # fmt: skip
    frame = frames.pair_frame(
        question.systems, question.labels, question.p, k=5, observed_free=not wrong
    )
    of_true = frame.stratum_of(frames.keys_of(about.true))
    counts = np.bincount(of_true[of_true >= 0], minlength=len(frame.kinds))
    return Strata(question, frame, counts)


def _pairs(about: Problem, observed: sp.csr_array, repeats: int, seed: int) -> Iterator[Row]:
    """Pairs over all rows, as many as some whole rows have: P@5 and micro-R@5."""
    rng = np.random.default_rng(seed)
    pairs = strata(about, observed)
    others = pairs.frame.sizes - pairs.relevant
    for m in (size for size in SIZES_OF_AUDITS if size <= observed.shape[0] // 2):
        budget = m * observed.shape[1]
        drawn = allocation(pairs.question, pairs.frame, budget)
        relevant = rng.hypergeometric(pairs.relevant, others, drawn, (repeats, drawn.size))
        for name in ("P@5", MICRO):
            fraction, truth = pairs.fraction(name, relevant, drawn), about.truth(name)
            ends = np.column_stack(fraction.interval())
            row = {"part": "pairs", "metric": name, "estimator": "pairs", "judged": m}
            yield row | _summary(fraction.value, ends, truth)
        least = pairs.least_error(budget, about.truth(MICRO), float(about.true.nnz))
        yield {**row, "estimator": "known rates", **_no_runs(about.truth(MICRO)), "rmse": least}


def _two_phase(about: Problem, observed: sp.csr_array, repeats: int, seed: int) -> Iterator[Row]:
    """Some rows, and pairs within them: R@5 from as many judgements as whole rows have."""
    rows = min(TWO_PHASE_ROWS, observed.shape[0] // 4)
    results = []
    for repeat in range(repeats):
        plan = audit.plan(
            about.top, observed, budget=rows * observed.shape[1], unit="pairs", metrics=["R@5"],
            seed=7919 * seed + repeat, expect=False,
            observed="sampled" if observed.multiply(about.true).nnz < observed.nnz else "free",
        )  # fmt: skip
        answers = values_at(about.true, plan.rows, plan.sample.pair_labels)
        judged = audit.from_pairs(plan, answers)
        (each,) = measure(about.top, observed, judged, metrics=["R@5"])
        results.append((each.value, *each.interval))
    values = np.array(results)
    yield {
        "part": "two-phase", "metric": "R@5", "estimator": "two-phase", "judged": rows,
        **_summary(values[:, 0], values[:, 1:], about.truth("R@5")),
    }  # fmt: skip


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


def _no_runs(truth: float) -> Row:
    """What a row says of an error that was computed, not found by repetition."""
    return {"repeats": 0, "truth": truth, "bias": 0.0, "inside": 0, "width": None}


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
                _coverage_chart(cells, "rows", "R@5"),
                _rows_table(cells),
                report.Verdicts([_covers(cells, "rows", "controlled"), *_gains(cells)]),
            ],
        ),
        report.Section(
            "Audits of pairs",
            [
                _coverage_chart(cells, "pairs", MICRO),
                _pairs_table(cells),
                report.Text(BOUND),
                _two_phase_table(cells),
                report.Verdicts([_covers(cells, "pairs", "pairs"), *_pair_gains(cells)]),
            ],
        ),
        report.Section(
            "A look after every judgement",
            [_sequence_table(rows), report.Verdicts(_sequence_claims(rows))],
        ),
    ]


BOUND = (
    "The column “known rates” is the error that the same strata would have if the plan had known "
    "how many pairs of each are relevant (Neyman's rule with the true rates): no allocation over "
    "these strata is better. Where it lies above one half, no choice of pairs by score and label "
    "frequency reaches half the error of whole rows: most of what is missing there are labels that "
    "the model never lists, and nothing tells one row from another. Better predictions, or another "
    "judge's answers handed in as covariates, are what would help."
)


def _cells(rows: list[Row]) -> Cells:
    """Figures by part, data, mask, metric, estimator and size."""
    cells = {}
    for key, (row,) in group_rows(
        [row for row in rows if row["part"] != "sequence"],
        "part", "data", "mask", "metric", "estimator", "judged",
    ).items():  # fmt: skip
        cells[key] = {
            "coverage": row["inside"] / row["repeats"] if row["repeats"] else float("nan"),
            "rmse": float("nan") if row["rmse"] is None else row["rmse"],
            "width": float("nan") if row["width"] is None else row["width"],
            "repeats": row["repeats"],
        }
    return cells


def _coverage_chart(cells: Cells, part: str, metric: str) -> report.Chart:
    estimator = {"rows": "controlled", "pairs": "pairs"}[part]
    keys = [key for key in cells if (key[0], key[3], key[4]) == (part, metric, estimator)]
    series = []
    for m in SIZES_OF_AUDITS:
        values = {_case(key): cells[key]["coverage"] for key in keys if key[5] == m}
        if values:
            series.append(report.Series(f"{m} rows", list(values), list(values.values())))
    return report.Chart(
        "dots",
        series,
        title=f"How often the 95 % interval of {metric} holds the true value, {part} judged",
        y=report.Axis("coverage", low=0.85, high=1.0),
        rules=[report.Rule("95 %", 0.95)],
    )


def _case(key: tuple[Any, ...]) -> str:
    return f"{str(key[1]).split('-')[0]}, {key[2]}"


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
    for key in (key for key in cells if key[0] == "rows" and key[4] == "controlled"):
        line: list[report.Cell] = [f"{_case(key)}, {key[3]}, {key[5]}"]
        for each in ("controlled", "alone"):
            cell = cells[(*key[:4], each, key[5])]
            line += [cell["rmse"], cell["coverage"], cell["width"]]
        body.append([*line, *_stated_errors(cells, key)])
    return report.Table(heads, body, title="Whole rows", caption="Stated: with the propensities.")


def _stated_errors(cells: Cells, key: tuple[Any, ...]) -> list[float]:
    """RMSE of the unbiased and the deconvolved estimate; nan where there is none."""
    keys = [("stated", *key[1:4], each, 0) for each in ("unbiased", "deconvolved")]
    return [cells[each]["rmse"] if each in cells else float("nan") for each in keys]


def _covers(cells: Cells, part: str, estimator: str) -> report.Verdict:
    judged = {
        key: cell["coverage"] for key, cell in cells.items()
        if key[0] == part and key[4] == estimator and int(key[5]) >= 100
        and cell["width"] >= NEARLY_ALL
    }  # fmt: skip
    outside = [key for key, coverage in judged.items() if not _within_bar(coverage)]
    still = [
        key for key in outside
        if not _within_bar(cells.get(("again", *key[1:]), cells[key])["coverage"])
    ]  # fmt: skip
    left_out = "" if part == "rows" else f" and a width of {NEARLY_ALL} or more"
    return statement(
        f"{part.capitalize()}: in every one of {len(judged)} cells with the judgements of at least "
        f"100 rows{left_out}, 92 to 98 % of the intervals hold the true value",
        bool(judged) and not still,
        f"lowest {min(judged.values(), default=0):.1%}, highest "
        f"{max(judged.values(), default=0):.1%}, {len(outside)} outside"
        + "".join(f"; {_first_and_again(cells, key)}" for key in outside[:6]),
    )


def _within_bar(coverage: float) -> bool:
    return 0.92 <= coverage <= 0.98


def _first_and_again(cells: Cells, key: tuple[Any, ...]) -> str:
    """A cell, its coverage, and the coverage of the many fresh audits, if there are any."""
    case = f"{', '.join(map(str, key[1:]))}: {cells[key]['coverage']:.2%}"
    again = cells.get(("again", *key[1:]))
    if again is None:
        return case
    return f"{case}, in {again['repeats']:,} fresh audits {again['coverage']:.2%}"


def _gains(cells: Cells) -> list[report.Verdict]:
    """How much control variates save at 200 rows, by data set, metric and mask."""
    claims = []
    for name in dict.fromkeys(key[1] for key in cells if key[0] == "rows" and key[1] in BARRED):
        for metric in (*METRICS, MICRO):
            pairs = [
                (cells["rows", name, mask, metric, "controlled", 200],
                 cells["rows", name, mask, metric, "alone", 200])
                for mask in MASKS if ("rows", name, mask, metric, "alone", 200) in cells
            ]  # fmt: skip
            ratios = [controlled["rmse"] / alone["rmse"] for controlled, alone in pairs]
            if ratios:
                claims.append(
                    statement(
                        f"{name}: control variates bring the RMSE of {metric} at 200 rows to .75 "
                        "of the audit alone, or less, under every mask",
                        max(ratios) <= 0.75,
                        f"by mask {', '.join(f'{ratio:.2f}' for ratio in ratios)}",
                    )
                )
    return claims


def _pairs_table(cells: Cells) -> report.Table:
    body: list[list[report.Cell]] = []
    for key in (key for key in cells if key[0] == "pairs" and key[4] == "pairs"):
        mine = cells[key]
        alone, controlled = (cells[("rows", *key[1:4], e, key[5])] for e in ("alone", "controlled"))
        least = cells.get((*key[:4], "known rates", key[5]))
        unbiased, deconvolved = _stated_errors(cells, key)
        body.append(
            [f"{_case(key)}, {key[3]}, {key[5]}", mine["rmse"], mine["coverage"], mine["width"],
             alone["rmse"], controlled["rmse"], mine["rmse"] / alone["rmse"],
             mine["rmse"] / controlled["rmse"],
             float("nan") if least is None else least["rmse"] / alone["rmse"],
             unbiased, deconvolved]
        )  # fmt: skip
    return report.Table(
        ["data, mask, metric, rows", report.Column("RMSE", ".4f"), report.Column("coverage", ".1%"),
         report.Column("width", ".3f"), report.Column("rows alone", ".4f", "RMSE of whole rows"),
         report.Column("rows controlled", ".4f", "the same with control variates"),
         report.Column("of rows alone", ".2f"), report.Column("of rows controlled", ".2f"),
         report.Column("known rates", ".2f", "of rows alone, with the best allocation"),
         report.Column("RMSE unbiased", ".4f"), report.Column("RMSE deconvolved", ".4f")],
        body,
        title="Pairs against whole rows of as many judgements",
    )  # fmt: skip


def _two_phase_table(cells: Cells) -> report.Table:
    body: list[list[report.Cell]] = []
    for key in (key for key in cells if key[0] == "two-phase"):
        rows = cells.get(("rows", *key[1:4], "controlled", key[5]))
        other = float("nan") if rows is None else rows["rmse"]
        mine = cells[key]
        body.append([f"{_case(key)}, {key[3]}, {key[5]}", mine["repeats"], mine["rmse"], other,
                     mine["rmse"] / other, mine["coverage"]])  # fmt: skip
    return report.Table(
        ["data, mask, metric, rows", "audits", report.Column("RMSE", ".4f"),
         report.Column("rows controlled", ".4f"), report.Column("ratio", ".2f"),
         report.Column("coverage", ".0%")],
        body,
        title="Two-phase audits against whole rows of as many judgements",
    )  # fmt: skip


def _pair_gains(cells: Cells) -> list[report.Verdict]:
    """Pairs against whole rows, by data set and metric; the mean over masks and sizes ≥ 100."""
    claims = []
    for name in dict.fromkeys(key[1] for key in cells if key[0] == "pairs"):
        for metric in ("P@5", MICRO):
            keys = [key for key in cells if key[0] == "pairs" and key[4] == "pairs"
                    and (key[1], key[3]) == (name, metric) and key[5] >= 100]  # fmt: skip
            ratios = {
                f"{key[2]}, {key[5]}": cells[key]["rmse"]
                / cells[("rows", *key[1:4], "alone", key[5])]["rmse"]
                for key in keys
            }
            worst = max(ratios, key=lambda each: ratios[each], default="")
            least = [
                cells[best]["rmse"] / cells[("rows", *best[1:4], "alone", best[5])]["rmse"]
                for key in keys
                if (best := (*key[:4], "known rates", key[5])) in cells
            ]
            claims.append(
                statement(
                    f"{name}: pairs measure {metric} with at most half the error of whole rows of "
                    "as many judgements",
                    bool(ratios) and max(ratios.values()) <= 0.5,
                    f"largest ratio {ratios.get(worst, 0):.2f} ({worst}), mean "
                    f"{np.mean(list(ratios.values()) or [0]):.2f}"
                    + (
                        f"; the best allocation over these strata: {min(least):.2f} to "
                        f"{max(least):.2f}"
                        if least
                        else ""
                    ),
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
