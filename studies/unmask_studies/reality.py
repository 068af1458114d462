"""Every promise put to labels that people really left out.

For each pair of incomplete and complete labels, models are trained on the observed labels and
evaluated on the observed test labels, in every way that the library offers; the truth stands beside
each number. A cell is one metric by one estimator: value, interval, how far it moves if its
conditions are off, level, and truth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import expit, xlogy
from scipy.stats import spearmanr

from unmask import audit as audits
from unmask import data, linear, missing, pages, propensity
from unmask._typing import Floats, Ints
from unmask.arrays.checks import entry_rows, values_at
from unmask.data.judgements import Judgements
from unmask.diagnosis import diagnose
from unmask.metrics import compare, evaluate
from unmask.metrics.claims import Level
from unmask.metrics.table import Estimate
from unmask.models.completed import completion
from unmask.predictions import TopK
from unmask.propensity import MaskModel, PropensityEstimate
from unmask.tuning import tune
from unmask_studies.data import Split, counts_of, scores_at, split_of
from unmask_studies.drawing import STYLES, chart, share, table
from unmask_studies.study import DataSets, Drawn, Row, Study, Unit, group_rows, statement

# The data


@dataclass(frozen=True)
class About:
    """A pair, and which files beside the two label sets it has.

    Parameters
    ----------
    title : str
    masks : str
        What hid its labels, and what to do with such data.
    observed, truth : str
        Files with the observed and the true labels, `{part}` being train or test.
    later : str, optional
        Files of the same rows at a later date.
    others : tuple of str, default ()
        Files of what other people said, independently.
    raw : str, optional
        Files of the observed labels with those that are wrong, which `observed` leaves out.
    features : bool, default True
        Whether there is anything to train on.
    """

    title: str
    masks: str
    observed: str = "{part}"
    truth: str = "truth_{part}"
    later: str | None = None
    others: tuple[str, ...] = ()
    raw: str | None = None
    features: bool = True


PAIRS = {
    "mdi-icons-2018-2023": About(
        "icon categories",
        "Volunteers filed icons under categories, and filed more of them five years later. Masks "
        "of a row are nearly independent, and propensities are moderate: the assumptions hold. "
        "State propensities from the later snapshot, or audit; Jain's are far too low.",
        later="observed_v5_{part}",
    ),
    "docred-audit": About(
        "relations in texts",
        "Annotators were shown what a machine proposed and missed three quarters of the relations. "
        "Masks are nearly independent, but p is low and the truth itself was found by two audits "
        "that agree in two thirds. Audit rows; recapture from the two audits tells how far the "
        "truth can be trusted.",
        others=("audit_scratch_{part}", "audit_redocred_{part}"), raw="original_raw_{part}",
    ),
    "coco80-captions": About(
        "objects in photographs",
        "Five people each described a photograph; what one of them names is observed. They name "
        "what is salient, so the same objects are named by all, and what a model predicts best is "
        "named most. No propensity per label describes that: recapture makes labels look complete, "
        "P@1 exceeds 1. Only an audit gives the number.",
        others=tuple(f"caption{i}_{{part}}" for i in (2, 3, 4, 5)), raw="mentioned_raw1_{part}",
    ),
    "go-human-2014-2026": About(
        "functions of human genes",
        "Gene annotations grow with research, and research goes where it has been: whole genes are "
        "studied or not, and a term brings all terms above it. Labels of a row go missing "
        "together. Measure by an audit (or a later snapshot of some genes); mask models help "
        "little, for closure and effort come together.",
        later="observed2020_{part}",
    ),
    "trec-covid-rounds": About(
        "topics of articles",
        "Documents were judged because search systems found them; later rounds found more. Masks "
        "come from systems, not from people. Labels alone: nothing is trained here.",
        observed="observed_round1", truth="truth_round5", later="observed_round2", features=False,
    ),
    "imagenet-real": About(
        "classes of photographs",
        "Exactly one class of each photograph was recorded, whatever else it shows: labels of a "
        "row compete, which no propensity can say. Labels alone: the diagnosis must object.",
        features=False,
    ),
}  # fmt: skip
PLANTED = About("built-in data", "Planted rows, with row effort ρ = 0.5.")


@dataclass(frozen=True)
class Pair:
    """A pair in memory.

    Parameters
    ----------
    split : Split
        Features and observed labels; without features, matrices of no columns.
    true_train, true_test : csr_array
        True labels of the same rows.
    p : (L,) floats in (0, 1]
        The share of true labels that was observed.
    later, others : csr_arrays
        Of the training rows: at a later date, and by other people.
    raw : csr_array, optional
        Of the test rows: the observed labels with wrong ones among them.
    """

    split: Split
    true_train: sp.csr_array
    true_test: sp.csr_array
    p: Floats
    later: sp.csr_array | None = None
    others: tuple[sp.csr_array, ...] = ()
    raw: sp.csr_array | None = None

    @property
    def observed(self) -> sp.csr_array:
        """The observed labels of the test rows."""
        return self.split.test_labels


def about_of(name: str | None) -> About:
    """Return what is known of the pair in a folder of this name, or of built-in data."""
    return PAIRS.get(name or "", PLANTED)


@lru_cache(maxsize=1)
def pair_of(folder: Path | None, n: int = 900) -> Pair:
    """Return the pair in a folder, or (without one) one of n planted rows.

    A folder holds `train` and `test` with features and the *observed* labels, `truth_train` and
    `truth_test` with the true labels of the same rows, and `p_true.txt`, the share of the true
    labels that was observed, label by label.
    """
    if folder is None:
        rows = data.synthetic.planted(n, n_features=200, n_labels=20, seed=0)
        p = np.asarray(propensity.inverse_linear(rows.labels, head=1.3, tail=4))
        mask = MaskModel(p, row_effort=0.5)
        observed, other = (data.hide(rows.labels, mask, seed=seed) for seed in (1, 2))
        words: sp.csr_array = rows.features
        truth: sp.csr_array = rows.labels
        cut = n - n // 3
        x = data.tfidf(words, data.idf(words))
        split = Split(x[:cut], observed[:cut], x[cut:], observed[cut:])
        return Pair(split, truth[:cut], truth[cut:], p, None, (sp.csr_array(other[:cut]),))
    about = PAIRS[folder.name]

    def labels(name: str, part: str) -> sp.csr_array:
        return data.read(folder / f"{name.format(part=part)}.txt.gz", names=False).labels

    parts = ("train", "test") if "{part}" in about.truth else ("",)
    seen, true = ([labels(kind, part) for part in parts] for kind in (about.observed, about.truth))
    if about.features:
        split = split_of(folder)
    else:
        nothing = [sp.csr_array((each.shape[0], 0)) for each in seen]
        split = Split(nothing[0], seen[0], nothing[-1], seen[-1])
    stored = folder / "p_true.txt"
    rates = np.loadtxt(stored) if stored.exists() else _rates(seen, true)
    return Pair(
        split, true[0], true[-1], np.clip(rates, 1e-3, 1.0),
        labels(about.later, parts[0]) if about.later else None,
        tuple(labels(name, parts[0]) for name in about.others),
        labels(about.raw, parts[-1]) if about.raw else None,
    )  # fmt: skip


def _rates(observed: list[sp.csr_array], true: list[sp.csr_array]) -> Floats:
    """The share of true labels that was observed, drawn towards the mean by two labels."""
    both = [a.multiply(b).tocsr() for a, b in zip(observed, true, strict=True)]
    kept, present = (np.sum([counts_of(y) for y in each], axis=0) for each in (both, true))
    return np.asarray((kept + 2 * kept.sum() / present.sum()) / (present + 2))


# Work


@dataclass(frozen=True)
class Size:
    """Numbers of audits that are measured and modelled, of rows, systems and draws of models."""

    measured: int
    audited: int
    largest: int
    systems: int
    draws: int


SIZES = {
    "tiny": Size(measured=1, audited=1, largest=50, systems=2, draws=3),
    "small": Size(measured=10, audited=1, largest=200, systems=3, draws=25),
    "paper": Size(measured=40, audited=3, largest=400, systems=3, draws=25),
}
WIDE = 500  # labels from which on only two trainings are compared, findings made in one round
DIAGNOSED = 200  # rows of the largest audit that the diagnosis is given
METRICS = ("P@1", "P@3", "R@3", "R@5", "nDCG@5")
COMPARED = ("P@3", "R@3")  # by which two systems are compared
OF_PAIRS = ("P@3", "micro-R@5")
# What pairs are judged for: a row of a thousand labels is too long to be judged whole.
ESTIMATORS = ("vanilla", "unbiased", "deconvolved")
AUDITS = (50, 100, 200, 400)
PAIRS_PER_ROW = 10  # judged pairs that are taken to cost as much as one row
CELL = ("metric", "estimator", "level", "value", "low", "high", "moved_low", "moved_high", "truth")
SYSTEMS = ("vanilla", "unbiased", "few rows")
# One-vs-all as it is, corrected by the true propensities, and trained on a quarter of the rows.
Propensities = Floats | PropensityEstimate | MaskModel


def units(size: str, seed: int, data: DataSets | None) -> list[Unit]:
    """Return per pair: what is stated, every draw of an audit, and what training is worth."""
    chosen = SIZES[size]
    present: list[Path | None] = []
    if data is not None and size != "tiny":
        present += [data.path(name) for name in PAIRS if name in data.names]
        if not present and "truth" in data.names:  # the pairs lie beside other data sets
            inner = (data.path("truth") / name for name in PAIRS)
            present += [folder for folder in inner if folder.is_dir()]
    planned = []
    for folder in present or [None]:
        parts = {"stated": 1, "measured": chosen.measured, "audited": chosen.audited, "training": 1}
        if folder is not None and not PAIRS[folder.name].features:
            parts = {"labels": 1}
        planned += [(folder, part, seed + i) for part, n in parts.items() for i in range(n)]
    return [
        {"folder": folder, "draw": draw, "part": part, "largest": chosen.largest,
         "systems": chosen.systems, "draws": chosen.draws}
        for folder, part, draw in planned
    ]  # fmt: skip


def measure(
    folder: Path | None, draw: int, part: str, largest: int, systems: int, draws: int
) -> Iterator[Row]:
    """Return the rows of one part of a pair.

    Models are trained on the observed labels of the training rows. `stated` mask models need no
    audit: Jain's formula, one number for all labels (their true mean rate), the true rates
    themselves, a later snapshot, other people's annotations. `audited` ones come from some judged
    test rows: rates per label, with row effort, with a slope on the score. `measured` numbers come
    from the same rows, or from pairs, and assume nothing. Trainings are judged by the true labels
    of the test rows; findings are pairs of the training rows that nobody recorded, and the truth
    says which of them are missing.

    Does any curve over label frequency describe real propensities? Deviances per label tell, with
    K_j true labels j of which k_j were observed: D = 2 Σ_j [k ln(k / (K p)) + (K − k) ln((K − k) /
    (K (1 − p)))] / L. One number per label has the deviance 0; about 1 would be chance. `fitted` is
    the best curve of Jain's shape, both numbers chosen by the true labels themselves.

    On photographs plain scores find more missing labels: of the first 100 findings by what chance
    can make, of 1,000 by more. Captions name what is salient, so that no propensity per label is
    right, and probabilities that rest on one are too high. On genes, a difference of 4 in 100 is
    chance, and of 1,000 findings posteriors are ahead.
    """
    pair = pair_of(folder)
    if part == "labels":
        yield from shapes(pair)
        n = pair.observed.shape[0]
        rows = np.sort(np.random.default_rng(draw).choice(n, DIAGNOSED, replace=False))
        yield from diagnosed(pair, None, rows)
    elif part == "training":
        quick = largest < DIAGNOSED or pair.observed.shape[1] > WIDE
        yield from trainings(pair, draw, quick)
        yield from findings(pair, draw, quick)
    else:
        tops = {name: system(folder, name)[1] for name in SYSTEMS[:systems]}
        if part == "stated":
            yield from shapes(pair)
            yield from stated(pair, tops, draws)
            yield from wrong_labels(pair, tops["vanilla"], draw)
        elif part == "measured":
            yield from measured(pair, tops, draw, largest)
        else:
            model = system(folder, "vanilla")[0]
            yield from audited(pair, tops, model, draw, largest, draws)


@lru_cache(maxsize=4)
def system(folder: Path | None, name: str) -> tuple[linear.LinearModel, TopK]:
    """Return one of the `SYSTEMS` of a pair, and its best labels of the test rows."""
    pair = pair_of(folder)
    step = 4 if name == "few rows" else 1
    x, y = (sp.csr_array(each[::step]) for each in
            (pair.split.train_features, pair.split.train_labels))  # fmt: skip
    if name == "unbiased":
        recipe = linear.Recipe("logistic", correction="unbiased")
        model, _ = linear.train(x, y, recipe, propensity=pair.p)
    else:
        model, _ = linear.train(x, y, linear.Recipe("squared_hinge"))
    return model, linear.predict_top(model, pair.split.test_features, 5)


# Numbers, each beside the truth


def _estimates(mask: str, system: str, cells: list[list[Any]], **more: Any) -> Row:
    return {"kind": "estimate", "mask": mask, "system": system, **more, "cells": cells}


def _options(p: Propensities | None, draws: int) -> dict[str, Any]:
    """The number of vectors drawn, where propensities are estimates."""
    return {"draws": draws} if isinstance(p, PropensityEstimate | MaskModel) else {}


def stated(pair: Pair, tops: Mapping[str, TopK], draws: int) -> Iterator[Row]:
    """Return all numbers that need no audit, and who wins by them."""
    labels = pair.split.train_labels
    models: dict[str, Propensities] = {
        "Jain": propensity.jain(labels),
        "constant": propensity.constant(labels.shape[1], labels.nnz / pair.true_train.nnz),
        "true rates": pair.p,
    }
    if pair.later is not None:
        models["snapshot"] = propensity.snapshots(labels, pair.later, curve="free")
    if pair.others:
        models["recapture"] = propensity.recapture(labels, *pair.others)
    for mask, p in models.items():
        options = _options(p, draws)
        for name, top in tops.items():
            found = evaluate(
                top, pair.observed, p, metrics=METRICS, estimators=ESTIMATORS, **options
            )
            yield _estimates(mask, name, _cells(found, _truth(pair, top)))
        yield from _winners(pair, tops, mask, p, ESTIMATORS, options)


def measured(pair: Pair, tops: Mapping[str, TopK], draw: int, largest: int) -> Iterator[Row]:
    """Return numbers of one audit of every size, of rows and of pairs, and who wins by them."""
    name, top = next(iter(tops.items()))
    truth = _truth(pair, top)
    for m, plan, judged in _audits(pair, tops, draw, largest):
        by_rows = evaluate(top, pair.observed, metrics=METRICS, audit=judged)
        plan = audits.plan(
            top, pair.observed, budget=PAIRS_PER_ROW * m, unit="pairs", metrics=list(OF_PAIRS),
            seed=draw,
        )  # fmt: skip
        answers = values_at(pair.true_test, plan.rows, plan.sample.pair_labels)
        by_pairs = evaluate(
            top, pair.observed, metrics=list(OF_PAIRS), audit=audits.from_pairs(plan, answers)
        )
        for mask, found in (("measured, rows", by_rows), ("measured, pairs", by_pairs)):
            cells = [cell for cell in _cells(found, truth) if cell[1] == "measured"]
            yield _estimates(mask, name, cells, audited=m)
        yield from _winners(pair, tops, "measured, rows", None, (), {}, m, judged)


def audited(
    pair: Pair, tops: Mapping[str, TopK], model: linear.LinearModel, draw: int, largest: int,
    draws: int,
) -> Iterator[Row]:  # fmt: skip
    """Return numbers by the mask models of one audit of every size, and what a diagnosis says."""
    name, top = next(iter(tops.items()))
    truth = _truth(pair, top)
    scores = _scores(model, pair, top)
    last = max(size for size in sizes_of(pair, largest) if size <= DIAGNOSED)
    for m, plan, judged in _audits(pair, tops, draw, largest):
        two = sp.csr_array(pair.observed[plan.rows]), sp.csr_array(pair.true_test[plan.rows])
        options = {"mask": "score", "scores": scores[plan.rows], "curve": "free"}
        models: dict[str, tuple[Any, Propensities]] = {
            "audit": (top, propensity.audit(*two, curve="free")),
            "audit, effort": (top, propensity.audit(*two, mask="effort", curve="free")),
            "audit, score": (scores, propensity.audit(*two, **options)),
        }
        for mask, (predictions, p) in models.items():
            found = evaluate(
                predictions, pair.observed, p, metrics=METRICS, estimators=ESTIMATORS[1:],
                audit=judged, **_options(p, draws),
            )  # fmt: skip
            cells = [cell for cell in _cells(found, truth) if cell[1] != "measured"]
            yield _estimates(mask, name, cells, audited=m)
        if m == last:
            p = models["audit"][1]
            yield from _winners(pair, tops, "audit", p, ESTIMATORS[1:], _options(p, draws), m)
            yield from diagnosed(pair, scores, plan.rows)


def sizes_of(pair: Pair, largest: int) -> list[int]:
    """Return the audits of at most so many rows that leave half of the rows unjudged."""
    return [m for m in AUDITS if m <= min(largest, pair.observed.shape[0] // 2)]


def _audits(
    pair: Pair, tops: Mapping[str, TopK], draw: int, largest: int
) -> Iterator[tuple[int, Any, Judgements]]:
    for m in sizes_of(pair, largest):
        plan = audits.plan(dict(tops), pair.observed, budget=m, seed=draw)
        yield m, plan, audits.from_rows(plan, pair.true_test[plan.rows])


def _winners(
    pair: Pair, tops: Mapping[str, TopK], mask: str, p: Propensities | None,
    estimators: tuple[str, ...], options: Mapping[str, Any], audited: int = 0,
    judged: Judgements | None = None,
) -> Iterator[Row]:  # fmt: skip
    """The difference of every two systems, by every estimator, and in truth."""
    truths = {name: _truth(pair, top) for name, top in tops.items()}
    for first, second in combinations(tops, 2):
        found = compare(
            {name: tops[name] for name in (first, second)}, pair.observed, p,
            metrics=list(COMPARED), estimators=estimators or None, audit=judged, **options,
        )[second]  # fmt: skip
        truth = {name: truths[second][name] - truths[first][name] for name in COMPARED}
        cells = [cell for cell in _cells(found, truth, moved=False)
                 if judged is None or cell[1] == "measured"]  # fmt: skip
        yield {"kind": "winner", "mask": mask, "system": f"{second} − {first}", "audited": audited,
               "cells": cells}  # fmt: skip


def diagnosed(pair: Pair, scores: sp.csr_array | None, rows: Ints) -> Iterator[Row]:
    """Return what a diagnosis with an audit rejects, of Jain's and of the true rates."""
    two = sp.csr_array(pair.observed[rows]), sp.csr_array(pair.true_test[rows])
    options = {} if scores is None else {"scores": scores[rows]}
    jain = np.asarray(propensity.jain(pair.split.train_labels))
    for mask, p in {"Jain": jain, "true rates": pair.p}.items():
        tests = diagnose(pair.observed, p, two, **options).tests
        rejected = {test.kind.value for test in tests if test.adjusted <= 0.05}
        yield {"kind": "diagnosis", "mask": mask, "audited": len(rows),
               "rejected": sorted(rejected),
               "tested": sorted({test.kind.value for test in tests})}  # fmt: skip


def wrong_labels(pair: Pair, top: TopK, draw: int) -> Iterator[Row]:
    """Return measured and conditional numbers where some observed labels are wrong."""
    if pair.raw is None:
        return
    plan = audits.plan(top, pair.raw, budget=200, seed=draw)
    judged = audits.from_rows(plan, pair.true_test[plan.rows])
    found = evaluate(
        top, pair.raw, pair.p, metrics=METRICS, estimators=ESTIMATORS[1:], audit=judged
    )
    cells = _cells(found, _truth(pair, top))
    for mask, judges in (("measured, wrong labels", True), ("true rates, wrong labels", False)):
        own = [cell for cell in cells if (cell[1] == "measured") == judges]
        yield _estimates(mask, "vanilla", own, audited=200)


def _scores(model: linear.LinearModel, pair: Pair, top: TopK) -> sp.csr_array:
    """Scores of the test rows at predicted and at true labels."""
    labels, values = pair.true_test, []
    rows = entry_rows(labels)
    for start in range(0, labels.shape[0], 512):
        block = slice(*np.searchsorted(rows, [start, start + 512]))
        dense = linear.scores(model, pair.split.test_features[start : start + 512])
        values.append(dense[rows[block] - start, labels.indices[block]])
    return scores_at(labels, top, np.concatenate(values))


def _truth(pair: Pair, top: TopK) -> dict[str, float]:
    found = evaluate(top, pair.true_test, metrics=[*METRICS, "P@5"])
    hits = found["P@5", "vanilla"].value * 5 * pair.true_test.shape[0]
    values = {name: found[name, "vanilla"].value for name in METRICS}
    return {**values, "micro-R@5": hits / pair.true_test.nnz}


def _cells(
    found: Iterable[Estimate], truth: Mapping[str, float], moved: bool = True
) -> list[list[Any]]:
    """The cells of a table, in the order of `CELL`, with five digits; None for what is none."""
    cells: list[list[Any]] = []
    for e in found:
        ends = (e.sensitivity.low, e.sensitivity.high) if moved and e.sensitivity else (np.nan,) * 2
        numbers = (e.value, *e.interval, *ends, truth[e.metric])
        short = [float(f"{x:.5g}") if np.isfinite(x) else None for x in numbers]
        cells.append([e.metric, e.estimator, e.verdict.level.value, *short])
    return cells


def shapes(pair: Pair) -> Iterator[Row]:
    """Return one row: the deviance per label of propensities that depend on frequency alone."""
    observed, true = pair.split.train_labels, pair.true_train
    present = counts_of(true).astype(np.float64)
    used = present > 0
    kept = counts_of(observed.multiply(true).tocsr())[used].astype(np.float64)
    present, x = present[used], np.log(counts_of(observed)[used] + 1.5)  # b of Jain's formula

    def off(parameters: Floats) -> float:
        return deviance(kept, present, expit(parameters[0] + parameters[1] * x))

    tight = {"xatol": 1e-6, "fatol": 1e-6}
    best = minimize(off, np.zeros(2), method="Nelder-Mead", options=tight)
    rates = {
        "constant": np.full(kept.size, kept.sum() / present.sum()),
        "Jain": np.asarray(propensity.jain(observed))[used],
        "fitted": expit(best.x[0] + best.x[1] * x),
    }
    yield {
        "kind": "shape", "labels": int(used.sum()),
        "rank_correlation": float(spearmanr(kept / present, present)[0]),
        "deviances": {name: deviance(kept, present, p) / kept.size for name, p in rates.items()},
    }  # fmt: skip


def deviance(k: Floats, K: Floats, p: Floats) -> float:
    """Return the deviance of binomial counts k of K with probabilities p.

    >>> deviance(np.array([2.0]), np.array([4.0]), np.array([0.5]))
    0.0
    """
    p = np.clip(p, 1e-9, 1 - 1e-9)
    lost = K - k
    terms = xlogy(k, k / (K * p)) + xlogy(lost, lost / (K * (1 - p)))
    return float(2 * terms.sum())


# Training and findings

TRAINED = ("P@3", "R@1", "R@3", "R@5")
JUDGED = 200  # training rows that an audit judges
LISTED, CONSIDERED, FOLDS = 1000, 20, 3


def trainings(pair: Pair, seed: int, quick: bool) -> Iterator[Row]:
    """Return true metrics of every way to train; `quick`: of two of them."""
    x, y, z = pair.split.train_features, pair.split.train_labels, pair.split.test_features
    jain, rates = np.asarray(propensity.jain(y)), _audited_rates(pair, seed)

    def plain(correction: str, p: Floats | None = None) -> TopK:
        recipe = linear.Recipe("logistic", correction=correction, C=10.0, max_iter=200, tol=1e-3)
        return linear.predict_top(linear.train(x, y, recipe, propensity=p)[0], z, 5)

    def tuned(labels: sp.csr_array, p: Floats | None = None) -> TopK:
        return tune(x, labels, p, "R@5", seed=seed).predict_top(z, 5)

    ways: dict[str, Callable[[], TopK]] = {
        "vanilla": lambda: plain("vanilla"),
        "unbiased, true rates": lambda: plain("unbiased", pair.p),
        "completed, true rates": lambda: plain("completed", pair.p),
        "vanilla, tuned": lambda: tuned(y),
        "tuned, Jain": lambda: tuned(y, jain),
        "tuned, audit": lambda: tuned(y, rates),
        "tuned, true rates": lambda: tuned(y, pair.p),
        "complete labels, tuned": lambda: tuned(pair.true_train),
    }
    for name in list(ways)[: 2 if quick else None]:
        found = evaluate(ways[name](), pair.true_test, metrics=TRAINED)
        values = {metric: found[metric, "vanilla"].value for metric in TRAINED}
        yield {"kind": "training", "way": name, "values": values}


def _audited_rates(pair: Pair, seed: int) -> Floats:
    """Propensities from some judged training rows."""
    n = pair.split.train_labels.shape[0]
    rows = np.random.default_rng([seed, 7]).choice(n, min(JUDGED, n // 2), replace=False)
    estimate = propensity.audit(pair.split.train_labels[rows], pair.true_train[rows], curve="free")
    return np.asarray(estimate.value)


def findings(pair: Pair, seed: int, quick: bool) -> Iterator[Row]:
    """Return how many of the likeliest missing labels are missing, beside plain scores."""
    x, y = pair.split.train_features, pair.split.train_labels
    shared = {"kind": "finding", "hidden": pair.true_train.nnz - y.multiply(pair.true_train).nnz}

    def right(rows: Ints, labels: Ints) -> Row:
        true = values_at(pair.true_train, rows, labels)
        return {f"precision_{m}": float(true[:m].mean()) for m in (100, LISTED)}

    models = {"true rates": pair.p}
    if not quick:
        models["audit"] = _audited_rates(pair, seed)
    for mask, p in models.items():
        completed = completion(x, y, p, rounds=1 if quick else 2, seed=seed)
        listed = missing.find(completed.probabilities, y, p, top=LISTED)
        way = {"way": f"posterior, {mask}", "expected": listed.expected}
        yield {**shared, **way, **right(listed.rows, listed.labels)}
    yield {**shared, "way": "plain score", "expected": None, **right(*_by_score(x, y, seed))}


def _by_score(x: sp.csr_array, y: sp.csr_array, seed: int) -> tuple[Ints, Ints]:
    """Pairs that are not observed, by the scores of vanilla models that never saw the row."""
    fold = np.random.default_rng([seed, 2]).integers(FOLDS, size=x.shape[0])
    k = min(CONSIDERED, y.shape[1])
    labels, scores = (np.zeros((x.shape[0], k), dtype=kind) for kind in (np.int64, np.float64))
    for each in range(FOLDS):
        model, _ = linear.train(x[fold != each], y[fold != each], linear.Recipe("squared_hinge"))
        top = linear.predict_top(model, x[fold == each], k)
        labels[fold == each], scores[fold == each] = top.labels, top.scores
    rows = np.repeat(np.arange(x.shape[0]), k)
    recorded = values_at(y, rows, labels.ravel()) > 0
    order = np.argsort(-np.where(recorded, -np.inf, scores.ravel()), kind="stable")[:LISTED]
    return rows[order], labels.ravel()[order]


# What it comes to

CLAIMING = (Level.MEASURED.value, Level.CONDITIONAL.value, Level.WIDE.value)
# Levels whose interval is claimed to hold the truth, if the assumptions hold.
USABLE = CLAIMING[:2]
FAR = 0.05  # an error that would mislead
CLEAN = ("mdi-icons-2018-2023", "docred-audit")  # pairs whose masks are nearly independent
SHOWN, BY_ROWS = "R@3", "measured, rows"
FAMILIES = {
    "stated": ("Jain", "constant", "true rates", "snapshot", "recapture"),
    "audited": ("audit", "audit, effort", "audit, score"),
    "measured": (BY_ROWS, "measured, pairs", "measured, wrong labels"),
}


def cells_of(rows: list[Row], kind: str = "estimate") -> list[Row]:
    """Return the cells of all rows of a kind, each with what its row says of all of them."""
    family = {mask: name for name, masks in FAMILIES.items() for mask in masks}
    cells = []
    for row, values in ((r, v) for r in rows if r["kind"] == kind for v in r["cells"]):
        cell: Row = dict(zip(CELL, values, strict=True))
        truth = cell["truth"]

        def within(low: float | None, high: float | None, truth: float = truth) -> bool:
            return low is not None and high is not None and low <= truth <= high

        holds = within(cell["low"], cell["high"])
        cells.append(cell | {
            "data": row["folder"], "mask": row["mask"], "system": row["system"],
            "audited": row.get("audited", 0), "family": family.get(row["mask"], "other"),
            "error": None if cell["value"] is None else cell["value"] - truth,
            "holds": holds, "moves_to": holds or within(cell["moved_low"], cell["moved_high"]),
            "corrected": cell["estimator"] != "vanilla",
            "claims": cell["level"] in CLAIMING and cell["estimator"] != "vanilla",
        })  # fmt: skip
    return cells


def draw(rows: list[Row]) -> Drawn:
    """Return the answer first, then levels, winners, trainings, findings, shapes, diagnoses."""
    cells, differences = cells_of(rows), cells_of(rows, "winner")
    decided = [c for c in differences if c["value"] is not None and abs(c["truth"]) > 1e-9]
    trained, listed = ([r for r in rows if r["kind"] == kind] for kind in ("training", "finding"))
    at_200 = {c["data"] for c in cells if (c["mask"], c["audited"]) == (BY_ROWS, 200)}
    figures: list[Any] = [overview(rows)] if at_200 >= {c["data"] for c in cells} else []
    claims = [*_bars(cells), _winner_bar(decided), *_worth_bars(trained, listed)]
    tables = [
        _levels(cells),
        _winners_table(decided),
        *_worth(trained, listed),
        *_data_sets(rows, cells),
    ]
    return Drawn([*figures, *_errors(cells)], claims, tables)


def overview(rows: list[Row]) -> pages.Chart:
    """Return R@3 on every pair: what recorded labels say, what one audit measures, and the truth.

    Parameters
    ----------
    rows : list of dict
        Of the study; the audit is the first one of 200 rows.

    Returns
    -------
    Chart
    """
    points: dict[str, dict[str, Any]] = {
        "recorded labels": {}, "audit of 200 rows": {}, "truth": {},
    }  # fmt: skip
    own = [c for c in cells_of(rows) if (c["metric"], c["system"]) == (SHOWN, "vanilla")]
    for (name,), part in group_rows(own, "data").items():
        recorded = next(c for c in part if not c["corrected"])
        audit = next(c for c in part if (c["mask"], c["audited"]) == (BY_ROWS, 200))
        three = (audit["value"], audit["low"], audit["high"])
        for series, value in zip(points.values(), (recorded["value"], three, audit["truth"]),
                                 strict=True):  # fmt: skip
            series[about_of(name).title] = value
    styles = {"recorded labels": "vanilla", "audit of 200 rows": "empirical bayes"}
    figure = chart(
        "dots", points, title="Recall at 3, on labels that people really left out",
        caption="The first audit of 200 rows, with its 95 % interval; the plain linear model.",
        y=pages.Axis("R@3", low=0, high=1), styles=styles,
    )  # fmt: skip
    return figure


def _errors(cells: list[Row]) -> list[pages.Panels]:
    """The error of R@3 by every way to it that is not refused, a panel per pair."""
    own = [
        c for c in cells
        if (c["metric"], c["system"]) == (SHOWN, "vanilla") and c["error"] is not None
        and c["audited"] in (0, 200) and c["level"] != Level.UNUSABLE.value
        and (c["corrected"] or c["mask"] == "Jain")
    ]  # fmt: skip
    panels = []
    for (name,), part in group_rows(own, "data").items():
        points, styles = {}, {}
        for (mask, estimator), group in group_rows(part, "mask", "estimator").items():
            errors = [c["error"] for c in group]
            way = _way(mask, estimator)
            points[way] = {way: (float(np.mean(errors)), min(errors), max(errors))}
            if estimator in STYLES:
                styles[way] = estimator
        y = pages.Axis("error", low=-0.4, high=0.4)
        panels.append(chart("dots", points, title=about_of(name).title, y=y, styles=styles,
                            rules={"truth": 0.0}))  # fmt: skip
    return [pages.Panels(
        panels, columns=2,
        title=f"Error of {SHOWN}: what is not refused, by mask model and estimator",
        caption="Dots: mean over audits; bars: their range. Audits of 200 rows.",
    )] if panels else []  # fmt: skip


def _way(mask: str, estimator: str) -> str:
    if estimator == "vanilla":
        return "vanilla"
    return mask if estimator == "measured" else f"{mask}: {estimator}"


def _levels(cells: list[Row]) -> pages.Table:
    lines = []
    for family, level in ((f, level.value) for f in (*FAMILIES, "other") for level in Level):
        own = [c for c in cells if c["corrected"] and (c["family"], c["level"]) == (family, level)]
        if own:
            name = "true rates, some labels wrong" if family == "other" else family
            off = share(abs(c["error"]) > FAR for c in own if c["error"] is not None)
            lines.append([name, level, len(own), share(c["holds"] for c in own),
                          share(c["moves_to"] for c in own), off])  # fmt: skip
    heads = {"mask model": "", "level": "", "numbers": "", "interval holds the truth": ".0%",
             "so does it when moved": ".0%", f"off by more than {FAR}": ".0%"}  # fmt: skip
    return table(
        "What each level is worth", heads, lines,
        "All pairs, systems, metrics and corrected estimators. When moved: the interval, or how "
        "far the number moves with propensities off by up to 2 times and with row effort.",
    )  # fmt: skip


def _bars(cells: list[Row]) -> list[pages.Verdict]:
    measured = [c for c in cells if c["family"] == "measured" and c["audited"] >= 100]
    held = share(c["holds"] for c in measured)
    by_data = [
        share(c["holds"] for c in part) or 0 for part in group_rows(measured, "data").values()
    ]
    audited = [c for c in cells if c["family"] == "audited"]
    flagged = share(c["moves_to"] or not c["claims"] for c in audited)
    numbers = [c for c in cells if c["error"] is not None]
    usable = [c for c in numbers if c["corrected"] and c["level"] in USABLE]
    far = [c for c in usable if abs(c["error"]) > FAR]
    beyond = [c for c in far if not c["moves_to"]]
    clean = [c for c in usable if c["data"] in CLEAN]
    modelled, judged = ([c for c in clean if (c["family"] == "measured") == measures]
                        for measures in (False, True))  # fmt: skip
    off, by_audit = ([c for c in part if abs(c["error"]) > FAR] for part in (modelled, judged))
    keys = ("data", "family", "mask", "system", "metric", "estimator", "audited")
    chosen = group_rows(usable, *keys)  # ways to a number, with means over all their audits
    ways = {key: float(np.mean([c["error"] for c in part]))
            for key, part in group_rows(numbers, *keys).items() if key in chosen}  # fmt: skip
    wrong = [key for key, error in ways.items() if abs(error) > FAR]
    by_mask = ", ".join(f"{mask} {sum(key[2] == mask for key in wrong)}"
                        for mask in dict.fromkeys(key[2] for key in wrong))  # fmt: skip
    n_measured, wrong_measured = (sum(k[1] == "measured" for k in each) for each in (ways, wrong))
    return [
        statement(
            "Measured numbers of at least 100 judged rows hold the truth in 90 to 99 %",
            None if held is None else 0.90 <= held <= 0.99,
            f"{held or 0:.1%} of {len(measured)}; per data set {min(by_data, default=0):.1%} to "
            f"{max(by_data, default=0):.1%}",
        ),
        statement(
            "Conditional numbers of an audited mask model hold the truth within what they say they "
            "may move, or are doubted, in at least 90 %",
            None if flagged is None else flagged >= 0.9, f"{flagged or 0:.1%} of {len(audited)}",
        ),
        statement(
            "Where masks are nearly independent, no number by a mask model that is called usable "
            f"is off by more than {FAR}", not off if modelled else None,
            f"{len(off)} of {len(modelled)} on icons and relations; of {len(judged)} measured "
            f"there, by one audit each, {len(by_audit)}, which an interval of 95 % allows",
        ),
        statement(
            f"At most 2 % of the numbers called usable are off by more than {FAR}",
            len(far) <= 0.02 * len(usable) if usable else None,
            f"{len(far)} of {len(usable)}; {len(beyond)} of them beyond both their interval and "
            "what they say they may move",
        ),
        statement(
            f"No way to a number that is called usable is off by more than {FAR} on average over "
            "its audits", not wrong if ways else None,
            f"{len(wrong)} of {len(ways)} are ({by_mask or 'none'}); of {n_measured} measured ones "
            f"{wrong_measured or 'none'}",
        ),
    ]  # fmt: skip


def _agreement(part: list[Row]) -> tuple[float, float, float]:
    """Shares: right sign, winner named, wrong winner named."""
    sign = np.array([np.sign(c["value"]) == np.sign(c["truth"]) for c in part])
    named = np.array([
        c["low"] is not None and (c["low"] > 0 or c["high"] < 0)
        and (c["claims"] or not c["corrected"]) for c in part
    ])  # fmt: skip
    return float(sign.mean()), float(named.mean()), float((named & ~sign).mean())


def _winners_table(decided: list[Row]) -> pages.Table:
    lines = [
        [_way(mask, estimator).replace("vanilla", "observed labels"), audited or None, len(part),
         *_agreement(part)]
        for (mask, estimator, audited), part in group_rows(
            [c for c in decided if c["corrected"] or c["mask"] == "Jain"],
            "mask", "estimator", "audited").items()
    ]  # fmt: skip
    heads = {"by": "", "judged rows": ".0f", "comparisons": ".0f", "right sign": ".0%",
             "names a winner": ".0%", "the wrong one": ".0%"}  # fmt: skip
    return table(
        "P@3 and R@3 of every two of three systems, all pairs", heads, lines,
        "Names a winner: the interval of the difference excludes 0 and the number is not refused "
        "or doubted. The wrong one: share of all comparisons.",
    )  # fmt: skip


def _winner_bar(decided: list[Row]) -> pages.Verdict:
    largest = max((c["audited"] for c in decided), default=0)
    parts = {
        "observed labels": [c for c in decided if not c["corrected"]],
        "stated propensities": [c for c in decided if c["corrected"] and c["audited"] == 0],
        f"measured, {largest} rows": [
            c for c in decided if (c["mask"], c["audited"]) == (BY_ROWS, largest)
        ],
    }
    wrong = {name: _agreement(part)[2] for name, part in parts.items() if part}
    measured = wrong.get(f"measured, {largest} rows")
    return statement(
        "An audit names a wrong winner in at most 5 % of comparisons",
        None if measured is None else measured <= 0.05,
        ", ".join(f"{name} {of_all:.1%}" for name, of_all in wrong.items()),
    )


def _worth(trained: list[Row], listed: list[Row]) -> list[pages.Table]:
    """True recall by training, and the share of findings that the truth confirms."""
    ways = dict.fromkeys(row["way"] for row in trained)
    by = {(r["folder"], r["way"]): r["values"] for r in trained}
    lines = [
        [f"{about_of(folder).title}, {metric}",
         *(by[folder, way][metric] if (folder, way) in by else None for way in ways)]
        for folder in dict.fromkeys(r["folder"] for r in trained) for metric in ("R@1", "R@5")
    ]  # fmt: skip
    found = [
        [about_of(row["folder"]).title,
         *(row[name] for name in ("way", "precision_100", "precision_1000", "expected", "hidden"))]
        for row in listed
    ]  # fmt: skip
    return [
        table("True recall on test rows, by training on observed labels",
              {"data and metric": "", **dict.fromkeys(ways, ".3f")}, lines),
        table("Labels of training rows that are probably missing: how many are",
              {"data": "", "ranked by": "", "right of 100": ".0%", "right of 1,000": ".0%",
               "expected": ".0f", "truly missing": ".0f"}, found),
    ]  # fmt: skip


def _worth_bars(trained: list[Row], listed: list[Row]) -> list[pages.Verdict]:
    recall = {(row["folder"], row["way"]): row["values"]["R@5"] for row in trained}
    gains = [value - recall[folder, "vanilla, tuned"]
             for (folder, way), value in recall.items() if way == "tuned, audit"]  # fmt: skip
    right = {(row["folder"], row["way"]): row["precision_100"] for row in listed}
    ours = {folder: value for (folder, way), value in right.items() if way.endswith("true rates")}
    beside = [(value, right[folder, "plain score"]) for folder, value in ours.items()]
    return [
        statement(
            "Tuned with audited propensities, true R@5 is at least that of tuned vanilla − 0.002",
            min(gains) >= -0.002 if gains else None, ", ".join(f"{gain:+.3f}" for gain in gains),
        ),
        statement(
            "Of the first 100 findings more are confirmed than by plain scores",
            all(ours >= plain for ours, plain in beside) if beside else None,
            ", ".join(f"{ours:.0%} against {plain:.0%}" for ours, plain in beside),
        ),
    ]  # fmt: skip


def _data_sets(rows: list[Row], cells: list[Row]) -> list[pages.Table]:
    """Describe the masks of every pair, the shapes of propensities, and diagnoses."""
    names = dict.fromkeys(row["folder"] for row in rows)
    refused = {
        name: share(not c["claims"] for c in cells
                    if (c["data"], c["family"]) == (name, "stated") and c["corrected"])
        for name in names
    }  # fmt: skip
    shape = [
        [about_of(row["folder"]).title, row["labels"], row["rank_correlation"],
         *(row["deviances"][name] for name in ("constant", "Jain", "fitted"))]
        for row in rows if row["kind"] == "shape"
    ]  # fmt: skip
    diagnoses = []
    own = [row for row in rows if row["kind"] == "diagnosis"]
    for (folder, mask), part in group_rows(own, "folder", "mask").items():
        kinds = sorted({kind for row in part for kind in row["rejected"]})
        said = ", ".join(
            f"{kind.replace('_', ' ')} {share(kind in row['rejected'] for row in part):.0%}"
            for kind in kinds
        )
        diagnoses.append([about_of(folder).title, mask, part[0]["audited"], said or "nothing"])
    return [
        table("The data sets",
              {"data": "", "folder": "", "stated numbers refused or doubted": ".0%", "masks": ""},
              [[about_of(name).title.capitalize(), name or "planted", refused[name],
                about_of(name).masks] for name in names]),
        table("Deviance per label of propensities that depend on frequency alone",
              {"data": "", "labels": "", "rank correlation of p and frequency": ".2f",
               "constant": ".1f", "Jain": ".1f", "fitted Jain shape": ".1f"}, shape),
        table("What a diagnosis with an audit says",
              dict.fromkeys(("data", "propensities", "judged rows", "tests that reject"), ""),
              diagnoses),
    ]  # fmt: skip


def held_by_audits(rows: list[Row]) -> list[bool]:
    """Return whether each interval from an audit of at least 100 rows holds the truth."""
    cells = cells_of(rows)
    return [c["holds"] for c in cells if c["family"] == "measured" and c["audited"] >= 100]


def answer(rows: list[Row]) -> str:
    """Return what measured and what stated numbers are worth."""
    held = held_by_audits(rows)
    numbers = [c for c in cells_of(rows) if c["family"] == "stated" and c["corrected"]]
    stated = [c for c in numbers if c["claims"]]
    measured_part = (
        f"Measured numbers, from an audit of at least 100 rows, hold the truth in "
        f"{share(held):.0%} of {len(held)} intervals. "
    ) if held else ""  # fmt: skip
    return measured_part + ((
        "Numbers that rest on stated propensities do so in "
        f"{share(c['holds'] for c in stated):.0%} of the {len(stated)} that were not refused; "
        f"{1 - len(stated) / len(numbers):.0%} were refused or doubted."
    ) if stated else "")  # fmt: skip


REALITY = Study(
    "reality", "Labels that people really left out",
    "Do estimates, intervals and verdicts hold where nobody rolled dice?",
    units, measure, draw, answer,
)  # fmt: skip
STUDIES = (REALITY,)
