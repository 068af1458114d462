"""Statements hold, are contradicted or stay undecided by the rows that they are judged from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unmask_studies import encoder, missing, reality, recall, trust
from unmask_studies import tree as of_trees
from unmask_studies.study import Row


def judged(drawn: Any) -> dict[str, tuple[str, str]]:
    """Outcome and evidence, by what is said."""
    statements = drawn if isinstance(drawn, list) else drawn.statements
    return {each.words: (each.badge, each.evidence) for each in statements}


def test_the_toy_example_is_the_papers() -> None:
    drawn = recall.draw_toy(list(recall.measure_toy(inverse_propensity=3)))
    assert {outcome for outcome, _ in judged(drawn).values()} == {"holds"}
    assert "variance 2, standard deviation 1.414" in drawn.statements[-1].evidence
    rows = [{**row, "probability": "1/4"} for row in recall.measure_toy(inverse_propensity=3)]
    assert drawn.statements[0].words not in [
        words for words, (outcome, _) in judged(recall.draw_toy(rows)).items() if outcome == "holds"
    ]


def test_absent_data_sets_are_listed_with_the_papers_numbers(tmp_path: Path) -> None:
    unit = {"dataset": "Mediamill", "split": None, "training": "bound"}
    absent = recall.measure_table(folder=tmp_path / "mediamill", seed=0, **unit)  # type: ignore[arg-type]
    (table,) = recall.draw_table([unit | dict(row) for row in absent]).tables
    assert "21.6 / 49.2 / 61.9" in table.rows[0]
    assert "not run: put the files in mediamill/" in table.rows[0]


def test_bibtex_lands_within_0_7_points_of_the_paper(real_data: Path) -> None:
    rows = []
    for training in recall.TRAININGS:
        unit: dict[str, Any] = {"dataset": "Bibtex", "split": 0, "training": training}
        found = recall.measure_table(folder=real_data / "bibtex-xc", seed=0, **unit)
        rows += [unit | dict(row) for row in found]
    ((outcome, evidence),) = judged(recall.draw_table(rows)).values()
    assert outcome == "holds", evidence
    rows[0]["value"] += 0.01
    ((outcome, _),) = judged(recall.draw_table(rows)).values()
    assert outcome == "contradicted"


def trusted(*cells: list[Any]) -> dict[str, tuple[str, str]]:
    row: Row = {
        "folder": "d", "n": 10, "draw": 0, "scenario": "right", "standing": "not refuted",
        "names_condition": True, "evidence": [], "cells": list(cells),
    }  # fmt: skip
    return judged(trust.trust_claims([row], trust.trust_cells(row)))


def test_a_chosen_tau_claims_nothing_of_its_own() -> None:
    """Outside its range, or as precise as the unbiased number only where it is that number."""
    unbiased = ["P@5", "unbiased", "conditional", "", 0.5, 0.1, 0.9, 0.5]
    for value, level, low, high, within, modest in (
        (0.5, "conditional", 0.1, 0.9, True, True), (0.5, "measured", 0.1, 0.9, True, False),
        (0.4, "conditional", 0.1, 0.9, True, False), (0.4, "doubtful", 0.1, 0.9, True, True),
        (0.95, "doubtful", 0.1, 1.1, False, True), (0.5, "doubtful", -0.1, 0.9, False, True),
        (0.5, "doubtful", 0.6, 0.9, False, True),
    ):  # fmt: skip
        tempered = ["P@5", "tempered", level, "", value, low, high, 0.5]
        claims = trusted(unbiased, tempered)
        outcomes = [outcome == "holds" for words, (outcome, _) in claims.items()
                    if words.startswith(("Numbers by a τ", "They claim"))]  # fmt: skip
        assert outcomes == [within, modest], (value, level, low, high)
    alone = ["P@5", "tempered", "wide", "", 0.5, 0.1, 0.9, 0.5]
    claims = trusted(alone)
    (evidence,) = (said for words, (_, said) in claims.items() if words.startswith("They claim"))
    assert evidence.startswith("1 of 1 claim something, 1 of them something else")


def test_a_measured_number_that_misses_is_counted() -> None:
    for missing_cells, outcome in ((1, "holds"), (2, "contradicted")):
        truths = [0.7] * missing_cells + [0.5] * (13 - missing_cells)
        cells = [["P@5", "measured", "measured", "", 0.5, 0.4, 0.6, truth] for truth in truths]
        claims = trusted(*cells)
        words = "A measured number misses the truth in at most 8% of the cells"
        assert claims[words] == (outcome, f"{missing_cells} of 13")


def test_mask_models_are_compared_where_there_are_independent_masks() -> None:
    """The root mean square error of the modelled numbers over that of the audited ones."""

    def rows(way: str, *errors: float | None) -> list[Row]:
        about = {"masks": "independent", "metric": "R@5", "audited": 300, "way": way, "truth": 0.5,
                 "folder": None, "found": [], "level": "wide"}  # fmt: skip
        return [{**about, "value": None if each is None else 0.5 + each} for each in errors]

    words = "independent masks: RMSE of R@5 at most 5 % larger than with independence assumed"
    for errors, outcome, said in (
        ((0.1, 0.1), "holds", "1.00 times"), ((0.2, -0.2), "contradicted", "2.00 times"),
        ((0.1, None), "holds", "1.00 times"),
    ):  # fmt: skip
        both = [*rows("audited", 0.1, -0.1, None), *rows("modelled", *errors)]
        assert judged(trust.draw_masks(both))[words] == (outcome, said)


def test_coverage_is_judged_where_numbers_may_be_used_and_again_by_fresh_draws() -> None:
    def unit(part: int, holds: int, runs: int = 100, used: int = 100) -> Row:
        return {"folder": "d", "mask": "m", "n": 200, "metric": "R@5", "estimator": "unbiased",
                "part": part, "runs": runs, "used": used, "holds": holds, "widths": 10.0,
                "errors": 0.0, "squares": 0.0, "outside": 0, "flat": 0, "doubted": 0}  # fmt: skip

    words = next(iter(judged(trust.draw_coverage([unit(0, 95)]))))
    for rows, outcome in (
        ([unit(0, 95)], "holds"), ([unit(0, 91)], "contradicted"),
        ([unit(0, 9, 10, 10)], "undecided"),
        ([unit(0, 91), unit(trust.FRESH, 93)], "holds"),
        ([unit(0, 95), unit(trust.FRESH, 90)], "contradicted"),
    ):  # fmt: skip
        assert judged(trust.draw_coverage(rows))[words][0] == outcome
    (cell,) = trust.coverage_cells([unit(0, 20, 100, 40)])
    assert not cell["judged"]


def test_an_audit_may_name_a_wrong_winner_once_in_twenty_comparisons() -> None:
    for wrong, outcome in ((1, "holds"), (2, "contradicted"), (0, "holds")):
        cells = [
            {"value": sign, "truth": 1.0, "low": sign - 0.5, "high": sign + 0.5, "audited": 200,
             "mask": reality.BY_ROWS, "corrected": True, "claims": True}
            for sign in [-1.0] * wrong + [1.0] * (20 - wrong)
        ]  # fmt: skip
        verdict = reality._winner_bar(cells)
        assert verdict.badge == outcome
        assert f"measured, 200 rows {wrong / 20:.1%}" in verdict.evidence


def test_the_page_of_reality_opens_with_all_pairs_if_each_was_audited() -> None:
    def row(folder: str, mask: str, audited: int, estimator: str) -> Row:
        cell = ["R@3", estimator, "measured", 0.5, 0.4, 0.6, None, None, 0.5]
        return {"kind": "estimate", "folder": folder, "mask": mask, "audited": audited,
                "system": "vanilla", "cells": [cell]}  # fmt: skip

    for others, shown in (
        ([("b", reality.BY_ROWS, 200)], True), ([("b", reality.BY_ROWS, 100)], False), ([], True),
    ):  # fmt: skip
        rows = [row("a", reality.BY_ROWS, 200, "measured"), row("a", "Jain", 0, "vanilla")]
        for folder, mask, audited in others:
            rows += [row(folder, mask, audited, "measured"), row(folder, "Jain", 0, "vanilla")]
        titles = [figure.title for figure in reality.draw(rows).figures]
        assert ("Recall at 3, on labels that people really left out" in titles) == shown


def test_what_completed_training_gains_is_told_in_points() -> None:
    rows: list[Row] = [
        {"part": "training", "masks": "right", "folder": "a", "way": way, "R@5": value}
        for way, recalls in (("unbiased", (0.2, 0.3)), ("completed", (0.4, 0.6)))
        for value in recalls
    ]
    said = "training recalls +25.0 points of R@5 over tuned unbiased training."
    assert missing.answer(rows) == f"Completed {said}"
    right = {"part": "findings", "masks": "right", "precision@1000": 0.5}
    rows += [{**right, "way": "completed", "folder": "a"}, {**right, "way": "score", "folder": "b"}]
    start = "Of the first 1,000 findings 50% (a) are truly missing; completed "
    assert missing.answer(rows) == start + said


def tree_rows(name: str, measure: str, recall_of: dict[str, list[float]]) -> list[Row]:
    return [
        {"data": name, "method": method, "draw": draw, "C": 1.0, measure: value}
        for method, values in recall_of.items()
        for draw, value in enumerate(values)
    ]


def test_claims_about_trees_are_judged_where_the_truth_is_known() -> None:
    methods = {method for _, *pair in of_trees.CLAIMS for method in pair if method}
    methods |= {method for method, _ in of_trees.SHOWN.values()}
    equal = {method: [0.30, 0.32] for method in sorted(methods)}
    drawn = of_trees.draw(tree_rows("one", "true R@5", equal))
    assert {outcome for outcome, _ in judged(drawn).values()} == {"contradicted"}
    ratio = of_trees.RATIO
    better = equal | {ratio: [0.31, 0.34], of_trees.COUNTS: [0.29, 0.32],
                      of_trees.BEST: [0.35, 0.36]}  # fmt: skip
    rows = [
        *tree_rows("one", "true R@5", better),
        *tree_rows("other", "true R@5", better | {ratio: [0.40, 0.42]}),
        *tree_rows("as it is", "deconvolved R@5", better | {ratio: [0.20, 0.22]}),
    ]
    claims = judged(of_trees.draw(rows))
    outcomes = {words.partition(",")[0]: outcome for words, (outcome, _) in claims.items()}
    assert outcomes["P/p at the leaves raises the R@5 of a logistic tree"] == "holds"
    assert outcomes["Counts raise the R@5 of a logistic tree"] == "contradicted"
    assert outcomes["as it is"] == "contradicted"  # where nobody knows, a claim of its own
    assert "vanilla, P/p over vanilla -10.0 ± 0.0" in list(claims.values())[-1][1]
    assert len(claims) == len(of_trees.CLAIMS) + 1
    said = of_trees.answer(rows)
    assert "adds 1.5 to 10.0 points of true R@5" in said
    assert "adds 4.5 points and stays ahead" in said


def encoder_rows(gain: tuple[float, ...], cost: float = 0.0) -> list[Row]:
    """Bound is better than vanilla by `gain`, all others equal it; a shortlist costs `cost`."""
    rows = []
    for draw, more in enumerate(gain):
        start = 0.4 + 0.1 * draw
        numbers = {(encoder.COMPLETE, encoder.ALL): 0.9}
        for method in encoder.METHODS[1:]:
            value = start + more * (method == "bound")
            numbers[method, encoder.ALL], numbers[method, encoder.SHORTLIST] = value, value - cost
        rows += [
            {"data": "planted", "method": method, "way": way, "draw": draw, "labels": 5,
             "R@5": value, "PSP@5": value / 2, "estimate": value, "rate": 0.1, "epoch": 1}
            for (method, way), value in numbers.items()
        ]  # fmt: skip
    return rows


def test_claims_about_an_encoder_follow_the_rows() -> None:
    """A gain is compared with its error, repetition by repetition, in whatever order."""
    bound = "planted: bound raises the true R@5 of vanilla, tuned"
    rows = encoder_rows((0.02, 0.03, 0.04))
    mixed = sorted(rows, key=lambda row: (row["R@5"], row["way"]))
    claims = judged(encoder.draw(mixed))
    assert claims == judged(encoder.draw(rows))
    assert claims[bound] == ("holds", "by 0.030 ± 0.006, from 0.500 ± 0.058")
    for gain, outcome in (
        ((-0.02, -0.03, -0.04), "contradicted"), ((0.02, -0.01, 0.04), "undecided"),
        ((0.02,), "undecided"), ((0.0, 0.0), "undecided"),
    ):  # fmt: skip
        assert judged(encoder.draw(encoder_rows(gain)))[bound][0] == outcome
    shortlist = "planted: a shortlist costs at most 0.01 of R@5"
    for cost, outcome in ((0.009, "holds"), (0.011, "contradicted")):
        claims = judged(encoder.draw(encoder_rows((0.0, 0.0), cost)))
        assert claims[shortlist][0] == outcome
    cell = encoder.Cell((0.1, 0.2, 0.6))
    assert cell.error == pytest.approx(np.sqrt(0.07 / 3))
    assert str(cell.less(encoder.Cell((0.1, 0.1, 0.1)))) == "0.200 ± 0.153"
    assert str(encoder.Cell((0.1,))) == "0.100"
