"""The study of the diagnosis: every repetition has a seed of its own, shares are of repetitions."""

from __future__ import annotations

from typing import Any

import pytest

from unmask.diagnosis.findings import TestKind
from unmask_studies import diagnosis_power


def test_repetitions_go_on_from_the_first_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []

    def alarms(case: str, rows: int, seed: int) -> tuple[list[TestKind], list[TestKind]]:
        seeds.append(seed)
        return [], [TestKind.ROW] if seed % 4 == 0 else []

    def violations(case: str, strength: float, rows: int, seed: int) -> list[TestKind]:
        seeds.append(seed)
        _, _, meant, _ = diagnosis_power.VIOLATIONS[case]
        others = [kind for kind in TestKind if kind not in meant]
        return [[], [next(iter(meant))], others[:1]][seed % 3]

    monkeypatch.setattr(diagnosis_power, "_alarms", alarms)
    monkeypatch.setattr(diagnosis_power, "_violations", violations)
    valid = next(iter(diagnosis_power.VALID))
    asked: dict[str, Any] = {"strength": 0.0, "repetitions": 4, "rows": 10, "first_seed": 6}
    without, with_audit = diagnosis_power.measure(valid, **asked)
    assert seeds == [6, 7, 8, 9]
    assert (without["audited"], without["any"]) == (False, 0)
    assert (with_audit["audited"], with_audit["any"]) == (True, 0.25)
    for case, (_, _, meant, audited) in diagnosis_power.VIOLATIONS.items():
        seeds.clear()
        (row,) = diagnosis_power.measure(case, **{**asked, "repetitions": 6})
        assert seeds == [6, 7, 8, 9, 10, 11]
        assert row["audited"] == audited
        assert row["meant"] == pytest.approx(1 / 3)
        assert row["any"] == pytest.approx(1 / 3 if meant == set(TestKind) else 2 / 3)
    monkeypatch.setattr(diagnosis_power, "_each_test", lambda *asked: [asked])
    (harmless,) = list(diagnosis_power.HARMLESS)[:1]
    assert list(diagnosis_power.measure(harmless, **asked)) == [(harmless, [6, 7, 8, 9], 10)]
