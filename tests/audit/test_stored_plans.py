"""What an audit stores is checked against itself: damage is refused, and no number is nonsense."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from tests.helpers.audits import IDS, NAMES, universe
from unmask import audit, data, evaluate
from unmask.metrics import Estimate
from unmask.predictions import TopK

N, L = 40, 5
TRUE: sp.csr_array = data.synthetic.planted(N, n_features=30, n_labels=L, seed=0).labels
OBSERVED = data.hide(TRUE, np.full(L, 0.6), seed=1)
TOP = TopK.from_scores(TRUE.toarray() * 0.6 + np.random.default_rng(2).random((N, L)), 3)
PLANS: dict[str, dict[str, Any]] = {
    "simple": {"unit": "rows", "budget": 10, "metrics": ["P@2", "R@2"]},
    "stratified": {"unit": "rows", "budget": 12, "design": "stratified", "strata": 3,
                   "metrics": ["P@2", "R@2"]},
    "pairs": {"unit": "pairs", "budget": 30, "metrics": ["P@2", "micro-R@2"]},
    "two-phase": {"unit": "pairs", "budget": 30, "design": "two-phase", "metrics": ["P@2", "R@2"],
                  "head": 2, "tail": 0.5},
}  # fmt: skip
DAMAGE = (-1, 0, 41, 1e308, float("nan"), "", [], None, 10**30, True, {"a": {"b": 1}})
UNUSED = {"seed", "half", "budget", "twice", "head", "rate", "k", "version", "systems", "strata"}
"""Fields without which estimates are the same: forecasts, and what only a further wave needs."""

Path_ = tuple[str | int, ...]


def leaves(value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    """Every field; of lists of numbers the first, a middle and the last entry."""
    if isinstance(value, dict) and value:
        for name, each in value.items():
            yield from leaves(each, (*path, name))
    elif isinstance(value, list) and value:
        numbers = isinstance(value[0], int | float)
        chosen = {0, len(value) // 2, len(value) - 1} if numbers else range(len(value))
        for position in sorted(chosen):
            yield from leaves(value[position], (*path, position))
    else:
        yield path, value


def damaged(record: Any) -> Iterator[tuple[Path_, Any, Any]]:
    """The record with one leaf after the other replaced by something else."""
    for path, old in list(leaves(record)):
        for new in DAMAGE:
            if type(new) is type(old) and new == old:
                continue
            made = copy.deepcopy(record)
            place = made
            for step in path[:-1]:
                place = place[step]
            place[path[-1]] = new
            yield path, new, made


def measured(plan: audit.AuditPlan) -> list[tuple[float, ...]]:
    if plan.labels is None:
        judged = audit.from_rows(plan, TRUE[plan.rows])
    else:
        judged = audit.from_pairs(plan, TRUE.toarray()[plan.rows, plan.labels])
    table = evaluate(
        TOP, OBSERVED, metrics=plan.metrics, estimators=["measured"], audit=judged
    )  # fmt: skip
    return [(each.value, *each.interval) for each in table]


def test_a_damaged_plan_is_refused_or_measures_the_same() -> None:
    count, same = 0, 0
    for design, options in PLANS.items():
        plan = audit.plan(TOP, OBSERVED, seed=3, **options)
        record = json.loads(json.dumps(plan.to_dict()))
        right = measured(audit.AuditPlan.from_dict(record))
        asked = audit.sheet(plan).questions
        for path, new, made in damaged(record):
            count += 1
            where = f"{design} {path} = {new!r}"
            try:
                other = audit.AuditPlan.from_dict(json.loads(json.dumps(made)))
                numbers = measured(other)
            except ValueError:
                continue
            assert all(0 <= low <= value <= high <= 1 for value, low, high in numbers), where
            if audit.sheet(other).questions == asked:  # else it does not fit the sheet beside it
                same += 1
                assert UNUSED & set(path), where
                np.testing.assert_array_equal(numbers, right, where)
    assert count > 2000
    assert same < count / 10


def read_or_refused(folder: Path, where: str) -> audit.AuditFolder | None:
    """The folder, or None if it is refused by the name of one of its files."""
    message = ""
    try:
        return audit.read_folder(folder)
    except ValueError as error:
        message = str(error)
    assert ".json: " in message, f"{where}: {message}"
    return None


def evaluated(
    top: TopK, observed: sp.csr_array, judged: audit.Judgements, where: str
) -> Iterable[Estimate]:
    """What is measured; nothing if the judgements do not belong to the labels."""
    message = ""
    try:
        return evaluate(top, observed, metrics=["P@5"], estimators=["measured"], audit=judged)
    except ValueError as error:
        message = str(error)
    assert "the plan is damaged" in message or "belong to data of shape" in message, where
    return ()


def test_damaged_files_of_a_folder_are_refused_by_name(tmp_path: Path) -> None:
    top, observed, truth = universe()
    dense = truth.toarray()
    count = accepted = 0
    for unit in ("rows", "pairs"):
        plan = audit.plan(top, observed, budget=4, unit=unit, metrics=["P@5"], expect=False)
        sheet = audit.sheet(plan, ids=IDS, label_names=NAMES)
        folder = tmp_path / unit
        files = {"labels": tmp_path / "labels.txt", "predictions": [tmp_path / "top.txt"]}
        for file in (files["labels"], *files["predictions"]):
            file.touch()
        made = audit.write_folder(folder, plan, sheet, **files)
        answers = {
            i: audit.Answer("complete", labels=tuple(np.flatnonzero(dense[q.row]).tolist()))
            if q.label is None else audit.Answer("yes")
            for i, q in enumerate(sheet.questions)
        }  # fmt: skip
        audit.add_answers(made, audit.Answers(sheet, {"ann": answers}))
        for name in ("plan.json", "answers.json"):
            file = folder / name
            whole = file.read_text()
            whole_records: list[Any] = [((), new, new) for new in (*DAMAGE, [3], "x", {})]
            for path, new, bad in [*damaged(json.loads(whole)), *whole_records]:
                file.write_text(json.dumps(bad))
                count += 1
                where = f"{unit} {name} {path} = {new!r}"
                current = read_or_refused(folder, where)
                if current is None:
                    continue
                try:  # what fits itself may still not fit the answers and the data
                    judged = current.answers.judgements(current.plan)
                    (each,) = evaluate(
                        top, observed, metrics=["P@5"], estimators=["measured"], audit=judged
                    )
                except ValueError:
                    continue
                accepted += 1
                if np.isnan(each.value):  # no number, and it says so
                    assert each.verdict.level == "unusable", where
                    continue
                assert 0 <= each.interval[0] <= each.value <= each.interval[1] <= 1, where
            file.write_text(whole)
    assert count > 700
    assert accepted < count / 5


def test_further_waves_can_be_stored_and_read() -> None:
    """What is checked holds for plans of several waves, too."""
    for options in PLANS.values():
        plan = audit.plan(TOP, OBSERVED, seed=3, **options)
        both = audit.extend(plan, TOP, OBSERVED, budget=9, seed=5)
        again = audit.AuditPlan.from_dict(json.loads(json.dumps(both.to_dict())))
        assert again.to_dict() == both.to_dict()


def planned(
    top: TopK, observed: np.ndarray[Any, Any], options: dict[str, Any]
) -> audit.AuditPlan | None:
    """A plan, or None where there is nothing to judge."""
    message = ""
    try:
        return audit.plan(top, observed, budget=4, **options)
    except ValueError as error:
        message = str(error)
    assert "no pair to judge" in message or "fewer than two" in message
    return None


def test_plans_of_odd_sizes_can_be_stored_and_read() -> None:
    """Few rows or labels, nothing or everything observed: what was planned is no damage."""
    rng = np.random.default_rng(0)
    made = 0
    for n in (1, 2, 3, 9):
        for width in (1, 2, 4):
            top = TopK.from_scores(rng.random((n, width)), min(width, 3))
            for observed in (np.zeros((n, width)), np.eye(n, width), np.ones((n, width))):
                for design in PLANS:
                    metrics = ["P@3", "micro-R@3"] if width < 4 else ["P@1", "micro-R@1"]
                    unit = "rows" if design in ("simple", "stratified") else "pairs"
                    options: dict[str, Any] = {"unit": unit, "design": design, "metrics": metrics}
                    plan = planned(top, observed, options)
                    if plan is not None:
                        stored = json.loads(json.dumps(plan.to_dict()))
                        assert audit.AuditPlan.from_dict(stored).to_dict() == plan.to_dict()
                        made += 1
    assert made > 90


def test_no_stratum_has_more_drawn_than_members() -> None:
    """Sizes may add up and yet not fit what was drawn."""
    for design in ("stratified", "pairs"):
        plan = audit.plan(TOP, OBSERVED, seed=3, expect=False, **PLANS[design])
        record = json.loads(json.dumps(plan.to_dict()))
        first, second, *_ = record["sample"]["strata"]
        moved = first["size"] - first["drawn"] + 1
        first["size"], second["size"] = first["size"] - moved, second["size"] + moved
        with pytest.raises(ValueError, match="of which"):
            audit.AuditPlan.from_dict(record)
