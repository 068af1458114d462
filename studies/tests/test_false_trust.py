"""The scorecard notices a τ that leaves its range or claims something of its own."""

from __future__ import annotations

from typing import Any

import pytest

from unmask_studies.false_trust import _chosen_tau


def cell(estimator: str, value: float, level: str, low: float = 0.1, high: float = 0.9) -> Any:
    place = {"data": "d", "n": 10, "draw": 0, "scenario": "right", "metric": "P@5"}
    return {
        **place, "estimator": estimator, "value": value, "low": low, "high": high, "level": level,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("tempered", "within", "modest"),
    [
        (cell("tempered", 0.5, "conditional"), True, True),
        (cell("tempered", 0.5, "measured"), True, False),
        (cell("tempered", 0.4, "conditional"), True, False),
        (cell("tempered", 0.4, "doubtful"), True, True),
        (cell("tempered", 0.95, "doubtful", high=1.1), False, True),
        (cell("tempered", 0.5, "doubtful", low=-0.1), False, True),
        (cell("tempered", 0.5, "doubtful", low=0.6), False, True),
    ],
)
def test_a_chosen_tau_claims_nothing_of_its_own(tempered: Any, within: bool, modest: bool) -> None:
    unbiased = cell("unbiased", 0.5, "conditional")
    verdicts = list(_chosen_tau([unbiased, tempered]))
    assert [each.level == "good" for each in verdicts] == [within, modest]


def test_without_an_unbiased_number_there_is_nothing_to_claim() -> None:
    _, claim = _chosen_tau([cell("tempered", 0.5, "wide")])
    assert claim.level == "error"
    assert (
        claim.evidence
        == "1 of 1 claim something, 1 of them something else than the unbiased number"
    )
