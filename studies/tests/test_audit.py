"""The study of audits: what counts as missed by a confidence sequence, and by intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import t as student

from unmask import TopK
from unmask_studies import audit


@pytest.mark.parametrize("shift", [0.0, 0.4, 0.8])
def test_an_interval_misses_if_it_does_after_any_row_from_the_tenth(shift: float) -> None:
    rng = np.random.default_rng(0)
    answers = set()
    for size in (5, 9, 10, 25):
        values, n = rng.random(size), 60
        truth = 0.5 + shift
        misses = []
        for m in range(10, size + 1):
            mean, sd = values[:m].mean(), values[:m].std(ddof=1)
            half = student.ppf(0.975, m - 1) * sd / np.sqrt(m) * np.sqrt(1 - m / n)
            misses.append(abs(mean - truth) > half)
        assert audit._ever_missed(values, truth, n) == int(any(misses))
        answers.add(any(misses))
    assert shift != 0.8 or answers == {False, True}


def test_sequences_that_leave_the_truth_out_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four repetitions, one lies above, one below, one touches it, and one holds it."""
    rng = np.random.default_rng(0)
    true = sp.csr_array((rng.random((40, 6)) < 0.4).astype(np.float32))
    about = audit.Problem("small", true, TopK.from_scores(rng.random((40, 6)), 5), np.full(6, 0.5))
    truth = about.truth("R@5")
    bands = iter([(truth + 0.1, truth + 0.4), (truth - 0.2, truth - 0.1), (truth, truth + 0.3),
                  (truth - 0.1, truth + 0.1)])  # fmt: skip
    looked = []

    def betting(values: Any, rows: Any, n: int, z: Any, *, planned: int) -> Any:
        looked.append((len(values), len(set(rows.tolist())), n, planned))
        low, high = next(bands)
        return np.array([0.0, low]), np.array([1.0, high])

    monkeypatch.setattr(audit, "betting", betting)
    monkeypatch.setattr(audit, "_ever_missed", lambda values, truth, n: 1)
    rows = list(audit._sequences(about, audit.hidden(about, "stated", 0), 4, 0))
    looks = min(audit.LOOKS, 20)
    assert looked == [(looks, looks, 40, looks)] * 4
    assert [row["missed"] for row in rows] == [0.5, 1.0]
    assert [row["width"] for row in rows] == pytest.approx([0.225, 0.225])
    assert {row["judged"] for row in rows} == {looks}


def test_a_summary_of_runs_by_hand() -> None:
    """Ends belong to an interval; runs without a number count as repeats alone."""
    values = np.array([0.5, 0.7, np.nan, 0.4])
    ends = np.array([[0.3, 0.6], [0.6, 0.9], [np.nan, np.nan], [0.2, 0.5]])
    made = audit._summary(values, ends, 0.6)
    assert made["repeats"] == 4
    assert made["truth"] == 0.6
    assert made["inside"] == 2  # 0.6 is the last of one interval and the first of another
    assert made["bias"] == pytest.approx((-0.1 + 0.1 - 0.2) / 3)
    assert made["rmse"] == pytest.approx(np.sqrt((0.01 + 0.01 + 0.04) / 3))
    assert made["width"] == pytest.approx(0.3)
    nothing = audit._summary(np.array([np.nan]), np.full((1, 2), np.nan), 0.6)
    assert (nothing["bias"], nothing["rmse"], nothing["width"]) == (None, None, None)
    assert (nothing["repeats"], nothing["inside"]) == (1, 0)
