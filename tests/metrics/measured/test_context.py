"""What is known of all rows before anything is judged."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from unmask._kernels import audits
from unmask.arrays import checks
from unmask.data.judgements import Design, Judgements, Sample, Stratum
from unmask.metrics.measured import context, measure
from unmask.metrics.measured.context import Audit, System
from unmask.metrics.measured.estimates import estimates_of
from unmask.predictions import TopK

TOP = TopK(
    [[0, 1, 2], [1, 2, 0], [2, -1, -1], [-1, -1, -1]],
    [[4.0, 2.0, 1.0], [4.0, 2.0, 1.0], [4.0, -np.inf, -np.inf], [-np.inf] * 3],
)
LABELS = checks.labels([[1, 0, 1], [0, 0, 0], [0, 0, 0], [0, 1, 0]])
HIGH, MIDDLE, LOW = 1 / 3, 0.25, 0.25
"""The observed shares at the three scores: 1 of 3, then 0 of 2 and 1 of 2, which may not rise."""


def of_rows(top: TopK, name: str, k: int) -> np.ndarray:
    return np.stack([each.values for each in System(top, LABELS).covariates(name, k)], axis=1)


def test_covariates_of_every_row() -> None:
    recall_of_first = (1 + MIDDLE) / (2 + MIDDLE)
    expected = [
        # metric, hits, misses, empty, expected recall, mean score of the first two and after them
        [0.5, 1, 1, 0, recall_of_first, 3.0, 1.0],
        [0.0, 0, 0, 1, (HIGH + MIDDLE) / (HIGH + MIDDLE + LOW), 3.0, 1.0],
        [0.0, 0, 0, 1, 1.0, 4.0, 1.0],
        [0.0, 0, 1, 0, 0.0, 16 / 5, 1.0],
    ]
    np.testing.assert_allclose(of_rows(TOP, "P@2", 2), expected, rtol=1e-12)


def test_a_list_of_k_has_no_scores_after_them() -> None:
    made = of_rows(TOP.first(2), "R@2", 2)
    assert made[:, 6].tolist() == [0, 0, 0, 0]
    assert made[:, 0].tolist() == [0.5, 0, 0, 0]
    high, low = 1 / 3, 1e-3  # nothing is observed in second places; no chance is below 0.001
    np.testing.assert_allclose(made[:2, 4], [(1 + low) / (2 + low), 1.0], rtol=1e-12)
    assert made[2, 4] == high / high


def test_further_covariates_of_rows_are_columns_and_those_of_other_rows_are_refused() -> None:
    system = System(TOP, LABELS)
    one, two = np.arange(4.0), np.arange(8.0).reshape(4, 2)
    made = system.further({"one": one, "two": two}, 2)
    np.testing.assert_array_equal([each.values for each in made], [one, *two.T])
    for shape in ((3,), (3, 2), (5, 2), (4, 2, 1), (4, 2, 2)):
        with pytest.raises(ValueError, match="covariates must be known for all 4 rows"):
            System(TOP, LABELS).further(np.zeros(shape), 2)


def test_lists_in_any_order_are_described_by_the_bins_of_their_scores() -> None:
    """Bytes, counts and sums of places by a loop over places."""
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 40, size=(300, 4)).astype(np.float32)
    listed = rng.permuted(np.tile(np.arange(9), (300, 1)), axis=1)[:, :4].astype(np.int32)
    listed[rng.random(300) < 0.2, 2:] = -1
    observed = checks.labels(rng.random((300, 9)) < 0.3)
    edges, rate = np.array([0.0, 3.0, 7.5, 7.5 + 1e-9, 38.0]), np.linspace(0.1, 0.6, 6)
    described, size, hits = audits.describe_places(
        listed, scores, edges, observed.indptr, observed.indices
    )
    counts, dense, sums = np.zeros((2, 6)), observed.toarray(), np.zeros((7, 300))
    for row, place in np.ndindex(listed.shape):
        label, score = listed[row, place], float(scores[row, place])
        if label < 0:
            assert described[row, place] == audits.NOTHING
            continue
        above, shown = int((score >= edges).sum()), int(dense[row, label])
        assert described[row, place] == above + audits.OBSERVED * shown
        counts[:, above] += 1, shown
        first = place < 3
        sums[:3, row] += first * shown, first * (1 - shown) * rate[above], (1 - shown) * rate[above]
        sums[3:, row] += first * score, first, (1 - first) * score, 1 - first
    np.testing.assert_array_equal([size, hits], counts)
    made, overall = audits.row_sums(described, scores, 3, rate)
    np.testing.assert_allclose(made, sums, rtol=1e-14)
    np.testing.assert_allclose(overall, sums[3:].sum(axis=1))


def test_everything_is_computed_once_for_all_metrics_answers_and_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All rows are read twice: bins of predictions, and metrics on the observed labels."""
    rng = np.random.default_rng(0)
    true = checks.labels(rng.random((200, 6)) < 0.4)
    top = TopK.from_scores(true.toarray() + rng.random(true.shape), 4)
    names = ["P@1", "R@3", "nDCG@3", "F1@2", "micro-R@3"]
    rows, undecided = np.arange(40), np.zeros((40, 6))
    undecided[::4, 2] = 1 - true.toarray()[:40:4, 2]
    sample = Sample(Design.SIMPLE, (200, 6), (Stratum("rows", 200, 40),), rows, None, 0 * rows)
    decided = Judgements(sample, true[rows])
    parts = [replace(decided, undecided=sp.csr_array(undecided)), decided]
    passes: list[int] = []

    def counted(top: TopK, *arguments: Any, original: Any, **options: Any) -> Any:
        passes.append(top.n)
        return original(top, *arguments, **options)

    for room, name in ((context, "contributions"), (context.calibration, "places_of")):
        original = getattr(room, name)
        monkeypatch.setattr(room, name, partial(counted, original=original))
    about = Audit.checked(parts[0], true, asked=names)
    for judged in parts:
        made = estimates_of(about.with_judged(judged), top)
        assert [each.metric for each in made] == names
        alone = [measure(top, true, judged, metrics=[name])[0] for name in names]
        for one, other in zip(made, alone, strict=True):
            assert one.value == pytest.approx(other.value, rel=1e-12)
            assert one.interval == pytest.approx(other.interval, rel=1e-12)
    assert passes == [200] * (2 + 2 * 2 * len(names))
