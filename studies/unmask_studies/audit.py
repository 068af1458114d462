"""Is a measured number right, whatever hid the labels, and what does it cost?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, logit
from scipy.stats import rankdata
from scipy.stats import t as student

from unmask import audit, data, pages, propensity
from unmask._typing import Floats, Ints
from unmask.arrays import pair_keys
from unmask.arrays.checks import values_at
from unmask.arrays.top import listed_keys
from unmask.audit import designs
from unmask.audit.designs import Question, allocation, question_of
from unmask.audit.stopping import betting
from unmask.data.judgements import IN_TOP
from unmask.metrics import contributions, evaluate
from unmask.metrics.measured import measure as measured
from unmask.metrics.measured import sampling
from unmask.metrics.measured.context import Columns, System
from unmask.metrics.measured.estimates import row_mean
from unmask.metrics.measured.sampling import Limits, RowSample
from unmask.predictions import TopK
from unmask_studies.data import best, split_of
from unmask_studies.drawing import chart, share, table
from unmask_studies.scenarios import SCENARIOS, Setting, effort
from unmask_studies.study import (
    DataSets,
    Drawn,
    Row,
    Study,
    Unit,
    folders,
    statement,
)

Cells: TypeAlias = dict[tuple[Any, ...], Row]
# By part, data, mask, metric, estimator and number of judgements.
FOLDERS = ("debtags-bookworm", "delicious", "cooking-stackexchange")
EFFORTS = {"effort .5": 0.5, "effort .8": 0.8}
MASKS = ("right", *EFFORTS, "score", "spurious", "never annotated")
METRICS, MICRO = ("P@5", "R@5"), "micro-R@5"
AUDITS = (50, 100, 200, 400)
TWO_PHASE_ROWS = 100  # two-phase audits have as many judgements as so many whole rows
NEARLY_ALL = 0.005
# Narrower intervals are those of audits that judged nearly all pairs that count: they hold the
# truth more often than they must, up to always.
OUTSIDE = (
    ("delicious", "effort .8", "P@5", 400),
    ("cooking-stackexchange", "right", "R@5", 100),
)
AGAIN = 2000
# Data, mask, metric and rows of the cells that were outside their bar in the first audits, and
# by how many audits these are measured again at the size paper.
BARRED = ("debtags-bookworm", "delicious", "planted")
# Where control variates are promised to save a quarter of the error.
UNANNOTATED = 0.2
INVERSE = "inverse_linear:1.5,6"
WIDTH, MOST_ROWS, LOOKS = 100, 4000, 200
REPEATS = {"tiny": (6, 20, 1, 6), "small": (100, 1000, 2, 200), "paper": (400, 4000, 12, 1000)}
# Audits of rows, of pairs and in two phases, and sequences.


def units(size: str, seed: int, data: DataSets | None) -> list[Unit]:
    """Return one unit per data set and mask, and one per data set for the sequences."""
    names = ("rows", "pairs", "two_phase", "sequences")
    amounts: Unit = dict(zip(names, REPEATS[size], strict=True))
    none: Unit = dict.fromkeys(names, 0)
    present = folders(data, size, FOLDERS)
    shared = {"seed_of_masks": seed}
    planned: list[Unit] = []
    for folder in present:
        for kind in MASKS if size != "tiny" else ("effort .8", "spurious"):
            planned.append({"folder": folder, "mask": kind, **shared, **amounts, "sequences": 0})
        sequences = {**none, "sequences": amounts["sequences"]}
        planned.append({"folder": folder, "mask": "effort .5", **shared, **sequences})
    by_name = {folder.name: folder for folder in present if folder}
    return planned + [
        {"folder": by_name[name], "mask": kind, **shared, **none, "rows": AGAIN,
         "metric_again": metric, "rows_again": m}
        for name, kind, metric, m in OUTSIDE if size == "paper" and name in by_name
    ]  # fmt: skip


@dataclass(frozen=True, eq=False)
class Problem:
    """Complete labels of test rows, a model's predictions for them, and propensities."""

    name: str
    true: sp.csr_array
    top: TopK
    p: Floats

    def exact(self, name: str) -> Floats:
        """Return the metric of every row, by the complete labels."""
        return contributions(self.top, self.true, metrics=[name])[name, "vanilla"]

    def truth(self, name: str) -> float:
        """Return the metric, by the complete labels."""
        if name == MICRO:
            return float(5 * self.exact("P@5").sum() / self.true.nnz)
        return float(self.exact(name).mean())


@lru_cache(maxsize=1)
def problem(folder: Path | None) -> Problem:
    """Return a model trained on hidden labels, once for all masks of a data set."""
    rows = split_of(folder)
    p = np.asarray(propensity.from_spec(INVERSE, rows.train_labels))
    top = best(rows, data.hide(rows.train_labels, p, seed=0), WIDTH)
    keep = slice(0, MOST_ROWS)
    test = TopK(top.labels[keep], top.scores[keep])
    return Problem(folder.name if folder else "planted", rows.test_labels[keep], test, p)


def hidden(about: Problem, kind: str, seed: int) -> sp.csr_array:
    """Return observed labels under a kind of mask."""
    true, rng = about.true, np.random.default_rng(seed)
    setting = Setting(true, about.p, np.zeros(0), np.zeros(0, dtype=np.int64), rng)
    if kind in EFFORTS:
        return effort(EFFORTS[kind])(setting).observed
    if kind == "spurious":
        return SCENARIOS["10 % spurious"](setting).observed
    chances = setting.chances
    if kind == "score":  # by the place that the model gives a label
        match = about.top.labels[setting.rows] == true.indices[:, None]
        place = np.where(match.any(axis=1), match.argmax(axis=1), WIDTH)
        obvious = 0.5 - rankdata(place) / (place.size + 1)
        chances = expit(logit(np.minimum(chances, 0.99)) + 6 * obvious)
    kept = setting.draw(chances)
    if kind == "never annotated":
        kept &= (rng.random(true.shape[0]) >= UNANNOTATED)[setting.rows]
    return setting.keep(kept).observed


def measure(
    folder: Path | None, mask: str, seed_of_masks: int, rows: int, pairs: int, two_phase: int,
    sequences: int, metric_again: str = "", rows_again: int = 0,
) -> Iterable[Row]:  # fmt: skip
    """Return errors, coverage and widths of one data set under one mask; or of one cell again.

    Complete labels of test rows are taken as the truth and hidden by masks that the estimates are
    not told: independent ones, rows that lose their labels together (row effort), masks that depend
    on the model's score, 10 % spurious labels, a fifth of the rows never annotated. Then rows, or
    pairs, are judged at random from the truth, many times. What counts: the error, how often the
    95 % interval holds the true value, and its width, for the audit with control variates
    (`controlled`), for the audit `alone` and for the estimates that rest on the stated
    propensities. Pairs are judged as many as the rows have labels; what they find depends on how
    many relevant pairs are drawn in each stratum only, and that is hypergeometric, so that audits
    of pairs are repeated without listing them. Two-phase audits draw rows, and pairs within them.
    Cells of rows that were outside their bar in the first audits are decided by many more, with
    draws of their own: the first ones were picked for being low. A last part looks at a confidence
    sequence after every judged row.

    `known rates` is the error that the same strata would have if the plan had known how many pairs
    of each are relevant (Neyman's rule with the true rates): no allocation over these strata is
    better. Where it lies above one half of whole rows, no choice of pairs by score and label
    frequency reaches that: most of what is missing there are labels that the model never lists, and
    nothing tells one row from another. Better predictions, or another judge's answers handed in as
    covariates, are what would help.
    """
    about = problem(folder)
    seed = 1000 * seed_of_masks
    observed = hidden(about, mask, seed)
    parts: list[Iterator[Row]] = []
    rng = np.random.default_rng([seed, AGAIN] if rows_again else seed)
    if rows_again:
        parts = [_rows(about, observed, rows, rng, metric_again, rows_again, "again")]
    elif rows:
        parts = [_stated(about, observed)] + [
            _rows(about, observed, rows, rng, name, m, "rows")
            for name in (*METRICS, MICRO) for m in AUDITS if m <= observed.shape[0] // 2
        ]  # fmt: skip
    if pairs:
        parts.append(_pairs(about, observed, pairs, seed))
    if two_phase:
        parts.append(_two_phase(about, observed, two_phase, seed))
    if sequences:
        parts.append(_sequences(about, observed, sequences, seed))
    shared = {"data": about.name, "n": about.true.shape[0], "labels": about.true.shape[1]}
    for part in parts:
        yield from ({**shared, **row} for row in part)


def _cell(part: str, metric: str, estimator: str, judged: int, **numbers: Any) -> Row:
    return {"part": part, "metric": metric, "estimator": estimator, "judged": judged, **numbers}


def summary(values: Floats, ends: Floats, truth: float) -> Row:
    """Return error, coverage and width of repeated audits; runs without a number only count."""
    usable = np.isfinite(values)
    error, widths = (values - truth)[usable], (ends[:, 1] - ends[:, 0])[usable]
    inside = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
    return {
        "repeats": int(values.size), "truth": truth,
        "bias": float(error.mean()) if error.size else None,
        "rmse": float(np.sqrt((error**2).mean())) if error.size else None,
        "inside": int(inside.sum()), "width": float(widths.mean()) if error.size else None,
    }  # fmt: skip


def _stated(about: Problem, observed: sp.csr_array) -> Iterator[Row]:
    """The estimates that rest on the propensities, once per mask."""
    estimates = evaluate(
        about.top, observed, about.p, metrics=METRICS,
        estimators=["vanilla", "unbiased", "deconvolved"],
    )  # fmt: skip
    for e in estimates:
        numbers = summary(np.array([e.value]), np.array([e.interval]), about.truth(e.metric))
        yield _cell("stated", e.metric, e.estimator, 0, **numbers)
    inverse = 1 / about.p[observed.indices]  # of micro recall: every label counts 1/p times
    row = np.repeat(np.arange(observed.shape[0]), np.diff(observed.indptr))
    hit = (about.top.labels[row, :5] == observed.indices[:, None]).any(axis=1)
    value = np.array([inverse[hit].sum() / inverse.sum()])
    numbers = summary(value, np.full((1, 2), np.nan), about.truth(MICRO))
    yield _cell("stated", MICRO, "unbiased", 0, **numbers)


def known(about: Problem, observed: sp.csr_array, name: str) -> Columns:
    """Return the covariates of all rows for a metric at 5."""
    return Columns(System(about.top, observed).covariates(name, 5), observed.shape[0])


def _rows(
    about: Problem, observed: sp.csr_array, repeats: int, rng: np.random.Generator, name: str,
    m: int, part: str,
) -> Iterator[Row]:  # fmt: skip
    """Audits of m whole rows: with control variates, and the audit alone."""
    n = observed.shape[0]
    values, limits = about.exact("R@5" if name == "R@5" else "P@5")[:, None], (0.0, 1.0)
    within: Limits = limits
    if name == MICRO:
        counts = np.diff(about.true.indptr).astype(np.float64)
        values, within = np.column_stack([5 * values, counts]), (np.zeros(2), np.array([5, n]))
    covariates = known(about, observed, "P@5" if name == "P@5" else "R@5")
    samples = [
        RowSample(rows, np.zeros(rows.size, dtype=np.int64), np.array([n]), values[rows])
        for rows in (rng.permutation(n)[:m] for _ in range(repeats))
    ]
    for estimator, beside in (("controlled", covariates), ("alone", None)):
        means = [
            row_mean(sample, beside, within, limits, ratio=name == MICRO) for sample in samples
        ]
        found = np.array([(each.value, *each.interval) for each in means])
        yield _cell(part, name, estimator, m, **summary(found[:, 0], found[:, 1:],
                                                        about.truth(name)))  # fmt: skip


@dataclass(frozen=True, eq=False)
class Strata:
    """The strata of an audit of pairs, and how many pairs of each are in truth relevant."""

    question: Question
    frame: designs.PairFrame
    relevant: Ints
    in_top: Floats  # 1 for strata among the first five, else 0

    def fraction(self, name: str, relevant: Ints, drawn: Ints) -> sampling.Fraction:
        """Return the measured metric, if so many of the drawn pairs are relevant."""
        labels, top = self.question.labels, self.question.systems[0]
        free = float(self.question.options["observed"] == "free")
        listed = np.sort(listed_keys(top, 5, labels.shape[1]))
        hits = free * designs.contains(listed, pair_keys(labels)).sum()
        everywhere = np.full(drawn.size, float(name == MICRO))
        denominator = free * labels.nnz if name == MICRO else 5.0 * labels.shape[0]
        mine = (drawn > 0) & ((self.in_top > 0) | (everywhere > 0))
        totals = sampling.of_counts(
            relevant[..., mine], drawn[mine], self.frame.sizes[mine],
            (self.in_top[mine], everywhere[mine]), 0.95,
        )  # fmt: skip
        return sampling.Fraction(totals, hits, denominator, (0.0, 1.0))

    def least_error(self, budget: int, truth: float, total: float) -> float:
        """Return the error of micro-recall if the true rate of every stratum were known."""
        sizes = self.frame.sizes
        rate = self.relevant / np.maximum(sizes, 1)
        spread = np.where(self.in_top > 0, 1 - truth, truth) * np.sqrt(rate * (1 - rate))
        drawn = np.maximum(designs.allocate(sizes, spread, budget, 0), 1)
        return float(np.sqrt((sizes**2 * (1 - drawn / sizes) * spread**2 / drawn).sum()) / total)


def strata_of(about: Problem, observed: sp.csr_array) -> Strata:
    """Return those of an audit of pairs; observed ones are judged, too, where some are wrong."""
    kind = _observed(about, observed)
    question = question_of(
        about.top, observed, None, ["P@5", MICRO], "pairs", 1, {"observed": kind}
    )
    frame = designs.pair_frame(
        question.systems, question.labels, question.p, k=5, observed_free=kind == "free"
    )
    of_true = frame.stratum_of(pair_keys(about.true))
    counts = np.bincount(of_true[of_true >= 0], minlength=len(frame.kinds))
    in_top = np.array([float(kind in IN_TOP) for kind in frame.kinds])
    return Strata(question, frame, counts, in_top)


def _observed(about: Problem, observed: sp.csr_array) -> Literal["free", "sampled"]:
    return "sampled" if observed.multiply(about.true).nnz < observed.nnz else "free"


def _pairs(about: Problem, observed: sp.csr_array, repeats: int, seed: int) -> Iterator[Row]:
    """Pairs over all rows, as many as some whole rows have: P@5 and micro-R@5."""
    rng = np.random.default_rng(seed)
    strata = strata_of(about, observed)
    others = strata.frame.sizes - strata.relevant
    for m in (size for size in AUDITS if size <= observed.shape[0] // 2):
        budget, truth = m * observed.shape[1], about.truth(MICRO)
        drawn = allocation(strata.question, strata.frame, budget)
        relevant = rng.hypergeometric(strata.relevant, others, drawn, (repeats, drawn.size))
        for name in ("P@5", MICRO):
            fraction = strata.fraction(name, relevant, drawn)
            ends = np.column_stack(fraction.interval())
            yield _cell("pairs", name, "pairs", m, **summary(fraction.value, ends,
                                                             about.truth(name)))  # fmt: skip
        least = strata.least_error(budget, truth, float(about.true.nnz))
        computed = {"repeats": 0, "truth": truth, "bias": 0.0, "inside": 0, "width": None}
        yield _cell("pairs", MICRO, "known rates", m, **computed, rmse=least)


def _two_phase(about: Problem, observed: sp.csr_array, repeats: int, seed: int) -> Iterator[Row]:
    """Some rows, and pairs within them: R@5 from as many judgements as whole rows have."""
    rows = min(TWO_PHASE_ROWS, observed.shape[0] // 4)
    results = []
    for repeat in range(repeats):
        plan = audit.plan(
            about.top, observed, budget=rows * observed.shape[1], unit="pairs", metrics=["R@5"],
            seed=7919 * seed + repeat, expect=False, observed=_observed(about, observed),
        )  # fmt: skip
        answers = values_at(about.true, plan.rows, plan.sample.pair_labels)
        judged = audit.from_pairs(plan, answers)
        (each,) = measured(about.top, observed, judged, metrics=["R@5"])
        results.append((each.value, *each.interval))
    found = np.array(results)
    numbers = summary(found[:, 0], found[:, 1:], about.truth("R@5"))
    yield _cell("two-phase", "R@5", "two-phase", rows, **numbers)


def _sequences(about: Problem, observed: sp.csr_array, repeats: int, seed: int) -> Iterator[Row]:
    """Count how often the truth is ever left out, with a look after every row."""
    n, rng = observed.shape[0], np.random.default_rng(seed)
    values = about.exact("R@5")
    truth, covariates = float(values.mean()), known(about, observed, "R@5")
    looks = min(LOOKS, n // 2)
    missed = {"sequence": 0, "interval at every look": 0}
    widths: list[float] = []
    for _ in range(repeats):
        rows = rng.permutation(n)[:looks]
        low, high = betting(values[rows], rows, n, covariates, planned=looks)
        missed["sequence"] += int(((low > truth) | (high < truth)).any())
        widths.append(float(high[-1] - low[-1]))
        missed["interval at every look"] += ever_missed(values[rows], truth, n)
    for kind, count in missed.items():
        numbers = {"repeats": repeats, "missed": count / repeats, "width": float(np.mean(widths))}
        yield _cell("sequence", "R@5", kind, looks, **numbers)


def ever_missed(values: Floats, truth: float, n: int) -> int:
    """Return whether an interval of Student's t, after any row from the tenth, misses the truth."""
    m = np.arange(1, values.size + 1)
    mean = np.cumsum(values) / m
    spread = np.maximum(np.cumsum(values**2) / m - mean**2, 0) * m / np.maximum(m - 1, 1)
    half = student.ppf(0.975, np.maximum(m - 1, 1)) * np.sqrt(spread / m * (1 - m / n))
    return int((np.abs(mean - truth) > half)[9:].any())


def draw(rows: list[Row]) -> Drawn:
    """Return coverage by mask, pairs against rows, sequences, and the bars."""
    cells: Cells = {
        tuple(row[name] for name in ("part", "data", "mask", "metric", "estimator", "judged")): {
            **row, "coverage": row["inside"] / row["repeats"] if row["repeats"] else None,
        }
        for row in rows if row["part"] != "sequence"
    }  # fmt: skip
    sequences = [row for row in rows if row["part"] == "sequence"]
    figures = [
        _coverage_chart(cells, "rows", "R@5", "controlled"),
        _coverage_chart(cells, "pairs", MICRO, "pairs"),
    ]
    claims = [
        _covers(cells, "rows", "controlled"), *_gains(cells), _covers(cells, "pairs", "pairs"),
        *_pair_gains(cells), _sequence_claim(sequences),
    ]  # fmt: skip
    return Drawn(figures, claims, [*_tables(cells), table(
        "Runs in which some look left out the true R@5",
        {"data": "", "what is looked at": "", "looks": "", "runs": "", "ever left out": ".1%"},
        [[row[name] for name in ("data", "estimator", "judged", "repeats", "missed")]
         for row in sequences],
    )])  # fmt: skip


def _coverage_chart(cells: Cells, part: str, metric: str, estimator: str) -> pages.Chart:
    points = {
        f"{m} rows": {
            f"{key[1].split('-')[0]}, {key[2]}": cell["coverage"] for key, cell in cells.items()
            if (key[0], *key[3:]) == (part, metric, estimator, m)
        }
        for m in AUDITS
    }  # fmt: skip
    title = f"How often the 95 % interval of {metric} holds the true value, {part} judged"
    y = pages.Axis("coverage", low=0.85, high=1.0)
    return chart("dots", points, title=title, y=y, rules={"95 %": 0.95})


def _tables(cells: Cells) -> list[pages.Table]:
    """Errors and coverage of rows, pairs and two phases; means over masks."""

    def over_masks(key: tuple[Any, ...], part: str, estimator: str, name: str) -> float | None:
        found = (cells.get((part, key[0], mask, key[1], estimator, key[2])) for mask in MASKS)
        return share(cell[name] for cell in found if cell and cell[name] is not None)

    def lines(part: str, columns: list[tuple[str, str, str]]) -> list[list[Any]]:
        keys = dict.fromkeys((*key[1:2], key[3], key[5]) for key in cells if key[0] == part)
        return [[*key, *(over_masks(key, *column) for column in columns)] for key in keys]

    heads = {"data": "", "metric": "", "rows": ""}
    whole = [("rows", way, name) for way in ("controlled", "alone")
             for name in ("rmse", "coverage", "width")]  # fmt: skip
    forms = {"rmse": ".4f", "coverage": ".1%", "width": ".3f"}
    pairs = [("pairs", "pairs", name) for name in forms]
    beside = [("rows", "alone", "rmse"), ("rows", "controlled", "rmse"),
              ("pairs", "known rates", "rmse")]  # fmt: skip
    both = [("two-phase", "two-phase", "rmse"), ("rows", "controlled", "rmse"),
            ("two-phase", "two-phase", "coverage")]  # fmt: skip
    return [
        table("Whole rows: means over masks",
              heads | {f"{name}, {way}": forms[name] for _, way, name in whole},
              lines("rows", whole)),
        table("Pairs, and whole rows of as many judgements: means over masks",
              heads | forms | {"rows alone": ".4f", "rows controlled": ".4f",
                               "known rates": ".4f"}, lines("pairs", pairs + beside)),
        table("Two-phase audits, and whole rows of as many judgements: means over masks",
              heads | {"rmse": ".4f", "rows controlled": ".4f", "coverage": ".0%"},
              lines("two-phase", both)),
    ]  # fmt: skip


def _covers(cells: Cells, part: str, estimator: str) -> pages.Verdict:
    judged = {
        key: cell for key, cell in cells.items()
        if (key[0], key[4]) == (part, estimator) and int(key[5]) >= 100
        and (cell["width"] or 0) >= NEARLY_ALL
    }  # fmt: skip
    coverages = [cell["coverage"] for cell in judged.values()] or [0.0]
    outside = {key: cell for key, cell in judged.items() if not 0.92 <= cell["coverage"] <= 0.98}
    again = {key: cells.get(("again", *key[1:])) for key in outside}
    still = [key for key, cell in again.items()
             if cell is None or not 0.92 <= cell["coverage"] <= 0.98]  # fmt: skip
    said = [
        f"; {', '.join(map(str, key[1:]))}: {outside[key]['coverage']:.2%}"
        + (f", in {cell['repeats']:,} fresh audits {cell['coverage']:.2%}" if cell else "")
        for key, cell in list(again.items())[:6]
    ]
    left_out = "" if part == "rows" else f" and a width of {NEARLY_ALL} or more"
    return statement(
        f"{part.capitalize()}: in every one of {len(judged)} cells with the judgements of at least "
        f"100 rows{left_out}, 92 to 98 % of the intervals hold the true value",
        bool(judged) and not still,
        f"lowest {min(coverages):.1%}, highest {max(coverages):.1%}, {len(outside)} outside"
        + "".join(said),
    )


def _gains(cells: Cells) -> list[pages.Verdict]:
    """Say how much control variates save at 200 rows, by data set, metric and mask."""
    claims = []
    names = dict.fromkeys(key[1] for key in cells if key[0] == "rows" and key[1] in BARRED)
    for name, metric in ((name, metric) for name in names for metric in (*METRICS, MICRO)):
        ratios = [
            cells["rows", name, mask, metric, "controlled", 200]["rmse"] / alone["rmse"]
            for mask in MASKS if (alone := cells.get(("rows", name, mask, metric, "alone", 200)))
        ]  # fmt: skip
        if ratios:
            claims.append(statement(
                f"{name}: control variates bring the RMSE of {metric} at 200 rows to .75 of the "
                "audit alone, or less, under every mask", max(ratios) <= 0.75,
                f"by mask {', '.join(f'{ratio:.2f}' for ratio in ratios)}",
            ))  # fmt: skip
    return claims


def _pair_gains(cells: Cells) -> list[pages.Verdict]:
    """Pairs against whole rows, by data set and metric; over masks and sizes ≥ 100."""
    claims = []
    for name, metric in dict.fromkeys((key[1], key[3]) for key in cells if key[0] == "pairs"):
        ratios, least = {}, []
        for key in cells:
            if (key[0], key[1], key[3]) != ("pairs", name, metric) or key[5] < 100:
                continue
            ratio = cells[key]["rmse"] / cells[("rows", *key[1:4], "alone", key[5])]["rmse"]
            if key[4] == "pairs":
                ratios[f"{key[2]}, {key[5]}"] = ratio
            else:
                least.append(ratio)
        worst = max(ratios, key=lambda each: ratios[each], default="")
        bound = (
            f"; the best allocation over these strata: {min(least):.2f} to {max(least):.2f}"
            if least else ""
        )  # fmt: skip
        claims.append(statement(
            f"{name}: pairs measure {metric} with at most half the error of whole rows of as many "
            "judgements", bool(ratios) and max(ratios.values()) <= 0.5,
            f"largest ratio {ratios.get(worst, 0):.2f} ({worst}), mean "
            f"{share(ratios.values()) or 0:.2f}{bound}",
        ))  # fmt: skip
    return claims


def _sequence_claim(rows: list[Row]) -> pages.Verdict:
    rates = {row["data"]: row["missed"] for row in rows if row["estimator"] == "sequence"}
    plain = [row["missed"] for row in rows if row["estimator"] != "sequence"]
    return statement(
        "A confidence sequence leaves out the truth in at most 5 % of the runs, with a look after "
        "every judged row", bool(rates) and max(rates.values()) <= 0.05,
        ", ".join(f"{name}: {rate:.1%}" for name, rate in rates.items())
        + f"; an ordinary interval: up to {max(plain, default=0):.0%}",
    )  # fmt: skip


def of_200_rows(rows: list[Row]) -> tuple[float, float]:
    """Return half the width and the coverage of R@5 from 200 judged rows; nan without any."""
    own = [r for r in rows if r["part"] == "rows" and r["judged"] == 200
           and (r["metric"], r["estimator"]) == ("R@5", "controlled")]  # fmt: skip
    if not own:
        return np.nan, np.nan
    inside = sum(r["inside"] for r in own) / sum(r["repeats"] for r in own)
    return float(np.mean([r["width"] for r in own])) / 2, inside


def answer(rows: list[Row]) -> str:
    """Return what 200 judged rows give."""
    width, inside = of_200_rows(rows)
    return "" if np.isnan(width) else (
        f"200 judged rows give R@5 to ± {width:.3f}, whatever hid the labels, with intervals that "
        f"hold the truth in {inside:.0%} of the audits."
    )  # fmt: skip


AUDIT = Study(
    "audit", "Measured by an audit",
    "How exact is a number from a few hundred judgements, whatever hid the labels?",
    units, measure, draw, answer,
)  # fmt: skip
STUDIES = (AUDIT,)
