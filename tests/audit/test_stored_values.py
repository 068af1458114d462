"""Audits of both units on a few rows, as stored beside this test: plans, estimates, stops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from tests.helpers import golden
from tests.helpers.audits import universe
from tests.helpers.versions import PINNED
from unmask import audit, compare, evaluate, propensity
from unmask.metrics import Table
from unmask.predictions import TopK

P = np.linspace(0.5, 0.7, 9)


def leaves(value: Any, name: str = "") -> Iterator[dict[str, Any]]:
    """The fields of a record, and of records in it, one line each."""
    if is_dataclass(value):
        for each in fields(value):
            yield from leaves(getattr(value, each.name), f"{name}.{each.name}".lstrip("."))
    elif sp.issparse(value):
        yield {"field": name, "value": [value.indptr, value.indices, value.data]}
    elif isinstance(value, tuple | list) and value and all(map(is_dataclass, value)):
        for number, each in enumerate(value):
            yield from leaves(each, f"{name}[{number}]")
    elif isinstance(value, dict) and value and all(map(is_dataclass, value.values())):
        for key, each in value.items():
            yield from leaves(each, f"{name}[{key}]")
    elif isinstance(value, float | int | str | tuple | list | dict | np.ndarray | None):
        yield {"field": name, "value": value}


def stored(section: str, *records: Any) -> None:
    lines = [line for record in records for line in leaves(record)]
    golden.check(golden.file_name("values", "audit"), golden.table(lines), section)


def of_table(table: Table) -> list[dict[str, Any]]:
    return [
        {"field": f"{e.metric} {e.estimator} {e.verdict.level}",
         "value": [e.value, e.standard_error, *e.interval]}
        for e in table
    ]  # fmt: skip


OPTIONS: dict[str, dict[str, Any]] = {
    "rows": {"unit": "rows", "budget": 20},
    "rows, another metric": {"unit": "rows", "budget": 30, "metrics": ["P@3"]},
    "pairs": {"unit": "pairs", "budget": 60},
    "pairs, another metric": {"unit": "pairs", "budget": 40, "metrics": ["micro-R@3", "P@2"]},
    "rows by strata": {"unit": "rows", "budget": 24, "design": "stratified", "strata": 3},
    "pairs by strata": {"unit": "pairs", "budget": 60, "design": "pairs", "observed": "sampled"},
    "two phases": {"unit": "pairs", "budget": 90, "design": "two-phase", "head": 2, "tail": 0.5},
}


def judged_by(plan: audit.AuditPlan, truth: sp.csr_array) -> audit.Judgements:
    if plan.unit == "rows":
        return audit.from_rows(plan, truth[plan.rows])
    dense = truth.toarray()
    return audit.from_pairs(plan, [dense[q.row, q.label] for q in audit.sheet(plan).questions])


@pytest.mark.parametrize("kind", OPTIONS)
def test_plans_and_estimates(kind: str) -> None:
    top, observed, truth = universe()
    plan = audit.plan(top, observed, P, seed=3, **OPTIONS[kind])
    stored(f"plan of {kind}", plan)
    judged = judged_by(plan, truth)
    stored(f"judgements of {kind}", judged)
    table = evaluate(top, observed, P, metrics=["P@1", "P@5", "R@5", "micro-R@5", "micro-P@3"],
                     audit=judged)  # fmt: skip
    golden.check(golden.file_name("values", "audit"), golden.table(of_table(table)), kind)


@pytest.mark.parametrize("kind", ["rows", "pairs"])
def test_what_else_is_measured(kind: str) -> None:
    top, observed, truth = universe()
    other = TopK.from_scores(np.random.default_rng(7).random(observed.shape), 5)
    plan = audit.plan(top, observed, P, seed=3, **OPTIONS[kind])
    judged = judged_by(plan, truth)
    tables = compare({"a": top, "b": other}, observed, P, metrics=["P@3", "R@3"], audit=judged,
                     covariates=np.arange(observed.shape[0]) % 5 / 4.0)  # fmt: skip
    lines = [line | {"table": name} for name in tables for line in of_table(tables[name])]
    golden.check(golden.file_name("values", "audit"), golden.table(lines), f"{kind}, compared")
    stored(f"{kind}, labels", audit.label_estimates(top, observed, judged, k=3).popitem()[1],
           audit.spurious(judged, observed))  # fmt: skip
    stored(f"{kind}, extended", audit.extend(plan, top, observed, P, budget=25, seed=8))


def test_gains_of_audited_rows() -> None:
    top, observed, truth = universe()
    plan = audit.plan(top, observed, P, seed=3, **OPTIONS["rows"])
    metrics = ["DCG@3", "nDCG@3", "F1@3", "Jaccard@2", "hit@2"]
    table = evaluate(top, observed, P, metrics=metrics, audit=judged_by(plan, truth))
    golden.check(golden.file_name("values", "audit"), golden.table(of_table(table)), "gains")


@pytest.mark.parametrize("kind", ["rows", "pairs", "two phases"])
def test_propensities_of_judgements(kind: str) -> None:
    top, observed, truth = universe()
    plan = audit.plan(top, observed, P, seed=3, **OPTIONS[kind])
    found = propensity.audit(observed, judged_by(plan, truth))
    lines = [{"value": found.value, "low": found.low, "high": found.high,
              "evidence": found.evidence}]  # fmt: skip
    loose = {} if PINNED else {"rel": 2e-5}  # where a fit stops depends on the version of scipy
    golden.check(
        golden.file_name("values", "audit"), golden.table(lines), f"propensities, {kind}", **loose
    )


def test_stopping() -> None:
    top, observed, truth = universe()
    plan = audit.plan(top, observed, P, budget=60, seed=3)
    judged = judged_by(plan, truth)
    sequences = [
        audit.sequence(top, observed, judged, metric, planned=planned, confidence=confidence)
        for metric, planned, confidence in (("R@5", None, 0.95), ("P@3", 100, 0.8))
    ]
    stored("sequences", *sequences)
    stored("elusion", audit.elusion(top, observed, judged, k=2))
