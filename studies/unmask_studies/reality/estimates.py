"""Numbers about the systems of a pair, in every way that there is, each beside the truth.

`stated` mask models need no audit: Jain's formula, one number for all labels (their true mean
rate), the true rates themselves, a later snapshot, other people's annotations. `audited` ones come
from some judged test rows: rates per label, with row effort, with a slope on the score. `measured`
numbers come from the same rows, or from pairs, and assume nothing. A cell is one metric by one
estimator: value, interval, how far it moves if its conditions are off, level, and truth.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations

import numpy as np
import scipy.sparse as sp

from unmask import audit as audits
from unmask import linear, propensity
from unmask._sparse import entry_rows, values_at
from unmask._typing import Floats, Ints
from unmask.data.judgements import Judgements
from unmask.diagnosis import diagnose
from unmask.metrics import compare, evaluate
from unmask.metrics.table import Estimate, Table
from unmask.predictions import TopK
from unmask.propensity import MaskModel, PropensityEstimate
from unmask_studies.reality.pairs import Pair
from unmask_studies.runs import Row

METRICS = ("P@1", "P@3", "R@3", "R@5", "nDCG@5")
COMPARED = ("P@3", "R@3")
"""By which two systems are compared."""
OF_PAIRS = ("P@3", "micro-R@5")
"""What pairs are judged for: a row of a thousand labels is too long to be judged whole."""
ESTIMATORS = ("vanilla", "unbiased", "deconvolved")
CORRECTED = ESTIMATORS[1:]
AUDITS = (50, 100, 200, 400)
DIAGNOSED = 200
"""The largest audit that the diagnosis is given."""
PAIRS_PER_ROW = 10
"""Judged pairs that are taken to cost as much as one row."""
CELL = ("metric", "estimator", "level", "value", "low", "high", "moved_low", "moved_high", "truth")

Propensities = Floats | PropensityEstimate | MaskModel
Systems = Mapping[str, TopK]


def stated(pair: Pair, systems: Systems, draws: int) -> Iterator[Row]:
    """All numbers that need no audit, and who wins by them."""
    for mask, p in stated_models(pair).items():
        for name, top in systems.items():
            table = evaluate(
                top, pair.observed, p, metrics=METRICS, estimators=ESTIMATORS, draws=draws
            )
            yield {"kind": "estimate", "mask": mask, "system": name,
                   "cells": _cells(table, _truth(pair, top))}  # fmt: skip
        yield from _winners(pair, systems, mask, p, ESTIMATORS, draws)


def stated_models(pair: Pair) -> dict[str, Propensities]:
    """Mask models that somebody could state without judging a row."""
    labels = pair.split.train_labels
    n_labels = labels.shape[1]
    rate = float(labels.nnz / pair.true_train.nnz)
    models: dict[str, Propensities] = {
        "Jain": propensity.jain(labels),
        "constant": propensity.constant(n_labels, rate),
        "true rates": pair.p,
    }
    if pair.later is not None:
        models["snapshot"] = propensity.snapshots(labels, pair.later, curve="free")
    if pair.others:
        models["recapture"] = propensity.recapture(labels, *pair.others)
    return models


def measured(pair: Pair, systems: Systems, draw: int, largest: int) -> Iterator[Row]:
    """Numbers of one audit of every size, of rows and of pairs, and who wins by them."""
    name, top = next(iter(systems.items()))
    truth = _truth(pair, top)
    for m in sizes_of(pair, largest):
        plan = audits.plan(dict(systems), pair.observed, budget=m, seed=draw)
        judged = audits.from_rows(plan, pair.true_test[plan.rows])
        by_rows = evaluate(top, pair.observed, metrics=METRICS, audit=judged)
        for mask, table in (
            ("measured, rows", by_rows),
            ("measured, pairs", _of_pairs(pair, top, m, draw)),
        ):
            yield {"kind": "estimate", "mask": mask, "system": name, "audited": m,
                   "cells": _measured_cells(table, truth)}  # fmt: skip
        yield from _winners(pair, systems, "measured, rows", None, (), 2, m, judged)


def audited(
    pair: Pair, systems: Systems, scores: sp.csr_array, draw: int, largest: int, draws: int
) -> Iterator[Row]:
    """Numbers by the mask models of one audit of every size, and what a diagnosis says of it."""
    name, top = next(iter(systems.items()))
    truth = _truth(pair, top)
    sizes = sizes_of(pair, largest)
    for m in sizes:
        plan = audits.plan(dict(systems), pair.observed, budget=m, seed=draw)
        judged = audits.from_rows(plan, pair.true_test[plan.rows])
        models = _audited_models(pair, top, scores, plan.rows)
        for mask, (predictions, p) in models.items():
            table = evaluate(
                predictions, pair.observed, p,
                metrics=METRICS, estimators=CORRECTED, audit=judged, draws=draws,
            )  # fmt: skip
            cells = [cell for cell in _cells(table, truth) if cell[1] != "measured"]
            yield {"kind": "estimate", "mask": mask, "system": name, "audited": m, "cells": cells}
        if m == max(size for size in sizes if size <= DIAGNOSED):
            yield from _winners(pair, systems, "audit", models["audit"][1], CORRECTED, draws, m)
            yield from diagnosed(pair, scores, plan.rows, m)


def sizes_of(pair: Pair, largest: int) -> list[int]:
    """The audits of at most so many rows that leave half of the rows unjudged."""
    return [m for m in AUDITS if m <= min(largest, pair.observed.shape[0] // 2)]


def _audited_models(
    pair: Pair, top: TopK, scores: sp.csr_array, rows: Ints
) -> dict[str, tuple[TopK | sp.csr_array, Propensities]]:
    """Mask models of judged rows, each with the predictions that it wants: lists or scores."""
    two = sp.csr_array(pair.observed[rows]), sp.csr_array(pair.true_test[rows])
    return {
        "audit": (top, propensity.audit(*two, curve="free")),
        "audit, effort": (top, propensity.audit(*two, mask="effort", curve="free")),
        "audit, score": (
            scores,
            propensity.audit(*two, mask="score", scores=scores[rows], curve="free"),
        ),
    }


def _of_pairs(pair: Pair, top: TopK, m: int, draw: int) -> Table:
    """Measured by pairs, at a cost of `PAIRS_PER_ROW` pairs for every row."""
    plan = audits.plan(
        top, pair.observed,
        budget=PAIRS_PER_ROW * m, unit="pairs", metrics=list(OF_PAIRS), seed=draw,
    )  # fmt: skip
    answers = values_at(pair.true_test, plan.rows, plan.sample.pair_labels)
    judged = audits.from_pairs(plan, answers)
    return evaluate(top, pair.observed, metrics=list(OF_PAIRS), audit=judged)


def _winners(
    pair: Pair, systems: Systems, mask: str, p: Propensities | None, estimators: tuple[str, ...],
    draws: int, audited: int = 0, judged: Judgements | None = None,
) -> Iterator[Row]:  # fmt: skip
    """The difference of every two systems, by every estimator, and in truth."""
    truths = {name: _truth(pair, top) for name, top in systems.items()}
    for first, second in combinations(systems, 2):
        two = {name: systems[name] for name in (first, second)}
        table = compare(
            two,
            pair.observed,
            p,
            metrics=list(COMPARED),
            estimators=estimators or None,
            audit=judged,
            draws=draws,
        )[second]
        truth = {name: truths[second][name] - truths[first][name] for name in COMPARED}
        yield {"kind": "winner", "mask": mask, "system": f"{second} − {first}", "audited": audited,
               "cells": [cell for cell in _cells(table, truth, moved=False)
                         if judged is None or cell[1] == "measured"]}  # fmt: skip


def diagnosed(pair: Pair, scores: sp.csr_array | None, rows: Ints, m: int) -> Iterator[Row]:
    """What a diagnosis with an audit of some test rows rejects, of Jain's and of the true rates."""
    two = sp.csr_array(pair.observed[rows]), sp.csr_array(pair.true_test[rows])
    for mask, p in {
        "Jain": np.asarray(propensity.jain(pair.split.train_labels)),
        "true rates": pair.p,
    }.items():
        options = {} if scores is None else {"scores": scores[rows]}
        diagnosis = diagnose(pair.observed, p, two, **options)
        rejected = {test.kind.value for test in diagnosis.tests if test.adjusted <= 0.05}
        yield {"kind": "diagnosis", "mask": mask, "audited": m, "rejected": sorted(rejected),
               "tested": sorted({test.kind.value for test in diagnosis.tests})}  # fmt: skip


def wrong_labels(pair: Pair, top: TopK, draw: int) -> Iterator[Row]:
    """Measured and conditional numbers where some observed labels are wrong."""
    if pair.raw is None:
        return
    plan = audits.plan(top, pair.raw, budget=200, seed=draw)
    judged = audits.from_rows(plan, pair.true_test[plan.rows])
    table = evaluate(top, pair.raw, pair.p, metrics=METRICS, estimators=CORRECTED, audit=judged)
    cells = _cells(table, _truth(pair, top))
    for mask, chosen in (
        ("measured, wrong labels", [cell for cell in cells if cell[1] == "measured"]),
        ("true rates, wrong labels", [cell for cell in cells if cell[1] != "measured"]),
    ):
        yield {"kind": "estimate", "mask": mask, "system": "vanilla", "audited": 200,
               "cells": chosen}  # fmt: skip


def candidate_scores(model: linear.LinearModel, pair: Pair, top: TopK) -> sp.csr_array:
    """Scores of the test rows at predicted and at true labels; others are never asked for."""
    labels = pair.true_test
    rows = entry_rows(labels)
    places = np.repeat(np.arange(labels.shape[0]), top.k)
    keys = np.unique(
        np.r_[rows * labels.shape[1] + labels.indices,
              places * labels.shape[1] + top.labels.ravel()]
    )  # fmt: skip
    row, label = keys // labels.shape[1], keys % labels.shape[1]
    values = np.empty(keys.size)
    for start in range(0, labels.shape[0], 512):
        block = slice(*np.searchsorted(row, [start, start + 512]))
        dense = linear.scores(model, pair.split.test_features[start : start + 512])
        values[block] = dense[row[block] - start, label[block]]
    return sp.csr_array(sp.coo_array((values, (row, label)), shape=labels.shape))


def _truth(pair: Pair, top: TopK) -> dict[str, float]:
    table = evaluate(top, pair.true_test, metrics=[*METRICS, "P@5"])
    hits = table["P@5", "vanilla"].value * 5 * pair.true_test.shape[0]
    values = {name: table[name, "vanilla"].value for name in METRICS}
    return {**values, "micro-R@5": hits / pair.true_test.nnz}


def _measured_cells(table: Table, truth: Mapping[str, float]) -> list[list[object]]:
    return [cell for cell in _cells(table, truth) if cell[1] == "measured"]


def _cells(
    table: Iterable[Estimate], truth: Mapping[str, float], moved: bool = True
) -> list[list[object]]:
    """The cells of a table, in the order of `CELL`."""
    cells: list[list[object]] = []
    for each in table:
        ends = each.sensitivity if moved else None
        far = (np.nan, np.nan) if ends is None else (ends.low, ends.high)
        numbers = (each.value, *each.interval, *far, truth[each.metric])
        cells.append([each.metric, each.estimator, each.verdict.level.value, *map(_short, numbers)])
    return cells


def _short(value: float) -> float | None:
    """Five digits; None if it is no number."""
    return float(f"{value:.5g}") if np.isfinite(value) else None
