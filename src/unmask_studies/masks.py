"""Masks as they are: what an audit makes of rows of little effort, unannotated rows and the like.

Labels of real test rows are taken for the truth and hidden in one of the ways of `mask_scenarios`;
marginal propensities are right. Then 100 or 300 rows are audited. `stated` numbers use the
propensities themselves, `audited` those of the audit with independent masks, `modelled` the mask
model of the audit: effort and unannotated rows, or a slope on the score where the diagnosis finds
one. `measured` stands beside them. On jester5k masks are natural: which jokes users rated.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from unmask import audit as audits
from unmask import data, propensity, report
from unmask._typing import Floats, Ints
from unmask.diagnosis.dependence import agreement, dependence
from unmask.diagnosis.diagnose import holm
from unmask.diagnosis.recording import recording
from unmask.metrics import evaluate
from unmask.predictions import TopK
from unmask.propensity import MaskModel
from unmask_studies import models
from unmask_studies.mask_scenarios import SCENARIOS, Masked, Setting, by_score, effort, parents_of
from unmask_studies.populations import Population, population_of
from unmask_studies.runs import DataSets, Row, Study, Unit, group_rows, statement

FOLDERS = ("debtags-bookworm", "delicious")
JESTER = "jester5k"
AUDITS = (100, 300)
SIZES = {"tiny": 1, "small": 3, "paper": 6}
"""Repetitions."""
CELLS = (("P@5", "unbiased"), ("nDCG@5", "deconvolved"), ("R@5", "deconvolved"))
WAYS = {
    "independent": SCENARIOS["right"],
    "row effort 0.5": effort(0.5),
    "row effort 0.8": effort(0.8),
    "20 % unannotated": SCENARIOS["20 % of rows never annotated"],
    "score slope 1": by_score(1.0),
    "10 % spurious": SCENARIOS["10 % spurious"],
}
MEANT = {
    "row effort 0.5": "row", "row effort 0.8": "row", "20 % unannotated": "unannotated",
    "score slope 1": "score", "10 % spurious": "spurious",
}  # fmt: skip
"""The test that is made for each."""


def units(size: str, seed: int, data: DataSets | None) -> list[Unit]:
    """One unit per data set and repetition; all masks and audits in each."""
    real = data if data and size != "tiny" else DataSets(None, frozenset())
    names = [name for name in (*FOLDERS, JESTER) if name in real.names]
    folders: list[Path | None] = [real.path(name) for name in names]
    return [
        {"folder": folder, "draw": seed + i, "few": size == "tiny"}
        for folder in folders or [None]
        for i in range(SIZES[size])
    ]


def measure(folder: Path | None, draw: int, few: bool) -> Iterable[Row]:
    """A row per mask, size of the audit, metric and kind of number; `few`: of two masks alone."""
    if folder is not None and folder.name == JESTER:
        yield from _natural(folder, draw)
        return
    population = population_of(folder)
    p = np.asarray(propensity.inverse_linear(population.train_labels, head=2, tail=8))
    parents = parents_of(population.train_labels)
    names = ("score slope 1", "10 % spurious") if few else tuple(WAYS)
    for name in names:
        way = WAYS[name]
        rng = np.random.default_rng([draw, len(name)])
        setting = Setting(population.labels, p, population.scores, parents, rng)
        masked = way(setting)
        for rows in AUDITS[:1] if few else AUDITS:
            chosen = rng.choice(population.labels.shape[0], rows, replace=False)
            for row in _numbers(population, masked, p, chosen, rng):
                yield {"masks": name, "audited": rows, **row}


def _numbers(
    population: Population, masked: Masked, p: Floats, chosen: Ints, rng: np.random.Generator
) -> Iterable[Row]:
    scores = _scores(population)
    observed, complete = masked.observed[chosen], sp.csr_array(population.labels[chosen])
    kinds = _found(sp.csr_array(observed), complete, p, scores[chosen], rng)
    plain = propensity.audit(observed, complete, curve="free")
    if "score" in kinds:
        model = propensity.audit(
            observed, complete, mask="score", scores=scores[chosen], curve="free"
        )
    else:
        model = propensity.audit(observed, complete, mask="effort", curve="free")
    ways = {"stated": p, "audited": plain.value, "modelled": model.centre}
    truth = {name: float(np.mean(values)) for name, values in population.by_row.items()}
    for way, known in ways.items():
        table = evaluate(
            scores if way == "modelled" else population.top, masked.observed, known,
            metrics=[name for name, _ in CELLS], estimators=["unbiased", "deconvolved"],
        )  # fmt: skip
        for cell in CELLS:
            each = table[cell]
            yield {
                "metric": each.metric, "way": way, "value": each.value,
                "truth": truth[each.metric], "level": each.verdict.level.value,
                "found": sorted(kinds), "model": _parts(model),
            }  # fmt: skip


def _found(
    observed: sp.csr_array, complete: sp.csr_array, p: Floats, scores: sp.csr_array,
    rng: np.random.Generator,
) -> set[str]:  # fmt: skip
    """What the tests of an audit reject."""
    tests = holm(
        [
            *agreement(observed, complete, p),
            *dependence(observed, complete, rng, scores=scores),
            *recording(observed, complete),
        ]
    )
    return {test.kind.value for test in tests if test.adjusted <= 0.05}


def _parts(model: MaskModel) -> dict[str, float]:
    slope = 0.0 if model.score_slope is None else model.score_slope.slope
    return {"row_effort": model.row_effort, "unannotated": model.unannotated, "slope": slope}


def _scores(population: Population) -> sp.csr_array:
    """The model's scores of predicted and of true labels; others are never asked for."""
    labels, top = population.labels, population.top
    rows = np.repeat(np.arange(labels.shape[0]), np.diff(labels.indptr))
    places = np.repeat(np.arange(labels.shape[0]), top.k)
    keys = np.r_[
        rows * labels.shape[1] + labels.indices, places * labels.shape[1] + top.labels.ravel()
    ]
    values = np.r_[population.scores, top.scores.ravel()]
    keys, first = np.unique(keys, return_index=True)
    entries = (values[first], (keys // labels.shape[1], keys % labels.shape[1]))
    return sp.csr_array(sp.coo_array(entries, shape=labels.shape))


def _natural(folder: Path, draw: int) -> Iterable[Row]:
    """jester5k: R@5 from 200 audited users, the labels hidden as users left jokes unrated."""
    split = models.split_of(folder)
    rated: sp.csr_array = data.read(folder / "train_rated.txt.gz", names=False).labels
    rng = np.random.default_rng(draw)
    users = rng.integers(rated.shape[0], size=split.test_labels.shape[0])
    observed = sp.csr_array(split.test_labels.multiply(rated[users]))
    top: TopK = models.best(split, split.train_labels, 5)
    truth = evaluate(top, split.test_labels, metrics=["R@5"])["R@5", "vanilla"].value
    sample = audits.plan(top, observed, budget=200, seed=draw)
    judged = audits.from_rows(sample, split.test_labels[sample.rows])
    rates = np.clip(np.asarray(rated.sum(axis=0) / rated.shape[0]).ravel(), 1e-3, 1.0)
    plain = propensity.audit(observed, judged, curve="free")
    model = propensity.audit(observed, judged, mask="effort", curve="free")
    ways = {"stated": rates, "audited": plain.value, "modelled": model.centre}
    for way, known in ways.items():
        each = evaluate(top, observed, known, metrics=["R@5"], estimators=["deconvolved"])
        value = each["R@5", "deconvolved"].value
        yield _jester_row(way, value, truth, _parts(model))
    measured = evaluate(top, observed, metrics=["R@5"], audit=judged)["R@5", "measured"].value
    yield _jester_row("measured", measured, truth, _parts(model))


def _jester_row(way: str, value: float, truth: float, model: dict[str, float]) -> Row:
    return {
        "masks": "natural", "audited": 200, "metric": "R@5", "way": way, "value": value,
        "truth": truth, "level": "", "found": [], "model": model,
    }  # fmt: skip


def draw(rows: list[Row]) -> list[report.Section]:
    """Errors before and after, and whether the bars hold."""
    return [
        report.Section(
            "Errors",
            [report.Text(str(__doc__).partition("\n\n")[2]), _errors(rows),
             report.Verdicts(_bars(rows))],
        ),
    ]  # fmt: skip


def _errors(rows: list[Row]) -> report.Table:
    ways = [way for way in ("stated", "audited", "modelled", "measured") if _of(rows, way=way)]
    body: list[list[report.Cell]] = []
    for key, part in group_rows(rows, "folder", "masks", "audited", "metric").items():
        folder, masks, audited, metric = key
        errors = [_error(_of(part, way=way)) for way in ways]
        meant = MEANT.get(masks)
        raised = np.mean([meant in row["found"] for row in part]) if meant else None
        body.append(
            [f"{folder or 'planted'}, {masks}, {audited} rows, {metric}", part[0]["truth"],
             *errors, None if raised is None else float(raised)]
        )  # fmt: skip
    return report.Table(
        ["data, masks, audit, metric", report.Column("truth", ".3f"),
         *(report.Column(f"error, {way}", ".3f") for way in ways),
         report.Column("finding raised", ".0%")],
        body,
        title="Mean error of P@5 (unbiased), nDCG@5 and R@5 (deconvolved)",
    )  # fmt: skip


def _of(rows: list[Row], **fields: object) -> list[Row]:
    return [row for row in rows if all(row[name] == value for name, value in fields.items())]


def _errors_of(rows: list[Row]) -> Floats:
    """Of the numbers that were not refused."""
    values = [(row["value"], row["truth"]) for row in rows if row["value"] is not None]
    errors = np.array([value - truth for value, truth in values], dtype=np.float64)
    return errors[np.isfinite(errors)]


def _error(rows: list[Row]) -> float | None:
    errors = _errors_of(rows)
    return float(errors.mean()) if errors.size else None


def _bars(rows: list[Row]) -> list[report.Verdict]:
    """The bars for audits of 300 rows, the findings at 100, and jester5k."""
    bars = [("row effort 0.5", "R@5", 0.015), ("row effort 0.8", "R@5", 0.015),
            ("20 % unannotated", "R@5", 0.015), ("score slope 1", "P@5", 0.02),
            ("score slope 1", "nDCG@5", 0.02)]  # fmt: skip
    verdicts = []
    for masks, metric, bar in bars:
        own = _of(rows, masks=masks, metric=metric, way="modelled", audited=300)
        errors = {folder: _error(part) for (folder,), part in group_rows(own, "folder").items()}
        finite = [abs(error) for error in errors.values() if error is not None]
        holds = None if not finite else max(finite) <= bar
        said = ", ".join(f"{name or 'planted'} {error:+.3f}" for name, error in errors.items())
        verdicts.append(statement(f"{masks}, {metric}: |error| ≤ {bar}", holds, said))
    return [*verdicts, _power(rows), _never_claimed(rows), _not_worse(rows), *_jester_bar(rows)]


def _power(rows: list[Row]) -> report.Verdict:
    own = _of(rows, masks="score slope 1", metric="P@5", way="stated", audited=100)
    share = float(np.mean(["score" in row["found"] for row in own])) if own else 0.0
    return statement("score slope 1 is found with 100 rows in ≥ 80 %", share >= 0.8, f"{share:.0%}")


def _never_claimed(rows: list[Row]) -> report.Verdict:
    own = [
        row for row in _of(rows, masks="10 % spurious", way="modelled")
        if row["level"] in ("conditional", "wide") and "spurious" not in row["found"]
    ]  # fmt: skip
    return statement(
        "10 % spurious: nothing conditional without the finding", not own, f"{len(own)}"
    )


def _not_worse(rows: list[Row]) -> report.Verdict:
    """Independent masks: the root mean square error of R@5, modelled over audited."""
    own = _of(rows, masks="independent", metric="R@5", audited=300)

    def rmse(way: str) -> float:
        return float(np.sqrt(np.mean(_errors_of(_of(own, way=way)) ** 2)))

    ratio = rmse("modelled") / max(rmse("audited"), 1e-12) if own else 1.0
    claim = "independent masks: RMSE of R@5 at most 5 % larger than with independence assumed"
    return statement(claim, ratio <= 1.05, f"{ratio:.2f} times")


def _jester_bar(rows: list[Row]) -> Iterable[report.Verdict]:
    own = _of(rows, masks="natural")
    if not own:
        return
    relative = {
        way: float(np.mean(np.abs(_errors_of(_of(own, way=way))))) / own[0]["truth"]
        for way in ("stated", "audited", "modelled", "measured")
        if _errors_of(_of(own, way=way)).size
    }
    said = ", ".join(f"{way} {value:.1%}" for way, value in relative.items())
    yield statement(
        "jester5k: relative error of R@5 ≤ 8 %", relative.get("modelled", 1.0) <= 0.08, said
    )


STUDY = Study(
    "masks", "row effort, unannotated rows, slopes and wrong labels", units, measure, draw
)
