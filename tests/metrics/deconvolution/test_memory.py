"""What deconvolution remembers of rows, and fits, stays small however long a row is."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask._kernels import row_bounds
from unmask._kernels.deconvolution import FIXED, stratum
from unmask.metrics import Evaluator, compare, evaluate
from unmask.metrics import sums as state
from unmask.metrics import sums as cell_counts
from unmask.metrics import thinning
from unmask.metrics.sums import as_counts
from unmask.metrics.deconvolution import Counts, fit
from unmask.metrics.thinning import Cells
from unmask.predictions import TopK

LONG_ROW = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
import numpy as np
import scipy.sparse as sp
import unmask
from unmask.metrics import evaluate
from unmask.predictions import TopK

unmask.set_threads(2)
n, L, k, random = 60_000, 40_000, 100, np.random.default_rng(0)
sizes = 1 + random.poisson(6, n)
sizes[n // 2] = 20_000
first = random.integers(L - 200, size=n)
first[n // 2] = 0
indptr = np.r_[0, np.cumsum(sizes)]
indices = np.arange(indptr[-1]) + np.repeat(first - indptr[:-1], sizes)
labels = sp.csr_array((np.ones(indices.size, np.float32), indices, indptr), shape=(n, L))
top = (first[:, None] + np.arange(k)).astype(np.int32)  # every label of a row that has at most 100
top = TopK(top, np.tile(-np.arange(k, dtype=np.float32), (n, 1)))
found = evaluate(top, labels, np.full(L, 0.5), metrics=["P@100", "R@100"],
                 estimators=["deconvolved"])
for each in found:
    print(each.value, each.standard_error, each.verdict.level)
"""


def test_twenty_thousand_labels_in_a_row_need_less_than_a_gigabyte() -> None:
    """Dense tables would take 16 GB for each of the chunks of rows."""
    run = subprocess.run([sys.executable, "-c", LONG_ROW], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    precision, recall = (line.split(maxsplit=2) for line in run.stdout.splitlines())
    assert float(precision[0]) == pytest.approx(0.14, abs=0.01)  # 7 labels in the mean, halved
    assert float(recall[0]) == pytest.approx(1.0, abs=0.001)
    assert precision[2] == recall[2] == "conditional"


def rows_of(seed: int, n: int = 60, n_labels: int = 12, k: int = 4) -> Any:
    """Predictions, observed labels (rows of very different lengths) and propensities."""
    random = np.random.default_rng(seed)
    labels = random.random((n, n_labels)) < random.choice([0.02, 0.3, 0.95], (n, 1))
    top = np.argsort(random.random((n, n_labels)), axis=1)[:, :k].astype(np.int32)
    p = 1 / random.integers(1, 9, n_labels)
    return TopK(top, np.tile(-np.arange(k, dtype=np.float32), (n, 1))), sp.csr_array(labels), p


def counted_by_hand(top: TopK, labels: Any, p: Any, k: int) -> dict[tuple[int, int, int], Any]:
    """(stratum, s, t) → rows, Σ 1/p of hits by place, Σ 1/p of misses."""
    cells: dict[tuple[int, int, int], Any] = {}
    for predicted, row in zip(top.labels[:, :k], labels.toarray() > 0, strict=True):
        outside = set(np.flatnonzero(row)) - set(predicted)
        key = stratum(sum(1 / p[predicted]), k), int(row[predicted].sum()), len(outside)
        count = cells.setdefault(key, Counter())
        count["rows"] += 1
        count["misses"] += sum(round(1 / p[j]) for j in outside)
        for place, j in enumerate(predicted):
            count[place] += round(1 / p[j]) * bool(row[j])
    return cells


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(1, 3), st.sampled_from([1 << 18, 7]))
def test_cells_hold_what_rows_say(seed: int, pieces: int, chunk: int) -> None:
    """All k at once, in shards and small chunks: exactly the occupied cells, exact sums."""
    top, labels, p = rows_of(seed)
    options = {"metrics": ["R@1", "R@4", "P@3"], "estimators": ["deconvolved"]}
    evaluator = Evaluator(p, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state, "row_bounds", lambda indptr, _: row_bounds(indptr, chunk))
        for rows in np.array_split(np.arange(60), pieces):
            part = TopK(top.labels[rows], top.scores[rows])
            evaluator.merge(Evaluator(p, **options).update(part, labels[rows]))
    tables = evaluator.summary().state.tables
    assert sorted(tables) == [1, 3, 4]
    for k, table in tables.items():
        expected = counted_by_hand(top, labels, p, k)
        counts = as_counts(table)
        keys = [tuple(cell) for cell in counts.cells.T.tolist()]
        assert keys == sorted(expected)
        for c, key in enumerate(keys):
            assert counts.rows[c] == expected[key]["rows"]
            assert counts.misses[c] == expected[key]["misses"]
            assert counts.hits[:, c].tolist() == [expected[key][place] for place in range(k)]
        assert evaluator.summary().state.inverse_sum == FIXED * sum(labels @ np.round(1 / p))


def test_counts_with_and_without_axes_are_the_same() -> None:
    top, labels, p = rows_of(5, n=3000)
    cells = evaluated(top, labels, p).tables[4]
    flat = as_counts(cells)
    shape = (10, 5, 1 + flat.cells[2].max())
    rows, hits, misses = np.zeros(shape), np.zeros((4, *shape)), np.zeros(shape)
    rows[*flat.cells], hits[:, *flat.cells], misses[*flat.cells] = flat.rows, flat.hits, flat.misses
    for metric in ("R", "nDCG"):
        assert fit(flat).estimate(metric) == fit(Counts(rows, hits, misses)).estimate(metric)


def evaluated(top: TopK, labels: Any, p: Any) -> Any:
    options = {"metrics": [f"R@{top.k}"], "estimators": ["deconvolved"]}
    return Evaluator(p, **options).update(top, labels).summary().state


def test_no_more_cells_than_rows() -> None:
    """However long the rows are, and however many cut-offs there could be."""
    n, n_labels, k = 40, 5000, 200
    labels = sp.csr_array(np.tri(n_labels, dtype=np.float32)[:: n_labels // n][:n])
    top = TopK.from_scores(np.tile(np.arange(n_labels, dtype=np.float32), (n, 1)), k)
    cells = evaluated(top, labels, np.full(n_labels, 0.5)).tables[k]
    assert len(cells.keys) <= n
    assert sum(each.nbytes for each in cells) <= 8 * n * (k + 4)


# --- grids ----------------------------------------------------------------------------------------


def thinned(seed: int, n: int = 4000, k: int = 12, p: float = 0.5) -> tuple[Counts, float]:
    """Counts of rows with many labels, half of them hidden, and the true recall."""
    random = np.random.default_rng(seed)
    true = 1 + random.poisson(random.gamma(2, 20, n))
    hits = random.binomial(np.minimum(true, k), 0.4)
    s, t = random.binomial(hits, p), random.binomial(true - hits, p)
    cells, rows = np.unique([np.full(n, stratum(1 / p, 1)), s, t], axis=1, return_counts=True)
    by_place = np.repeat((rows * cells[1] / p / k)[None], k, axis=0)
    truth = float(np.mean(hits / true))
    return Counts(rows.astype(float), by_place, rows * cells[2] / p, cells), truth


def test_a_coarser_grid_says_nearly_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    counts, truth = thinned(0)
    fine = fit(counts)
    monkeypatch.setattr(thinning, "MOST_ATOMS", 300)
    coarse = fit(counts)
    sizes = [found.strata[0].atoms.hits.size for found in (fine, coarse)]
    assert sizes[1] <= 300 < sizes[0]
    for metric in ("R", "nDCG", "F1"):
        exact, near = fine.estimate(metric), coarse.estimate(metric)
        assert near.value == pytest.approx(exact.value, abs=0.1 * exact.standard_error)
        assert near.standard_error == pytest.approx(exact.standard_error, rel=0.05)
    assert near.verdict.level == "conditional"
    assert coarse.value("R") == pytest.approx(truth, abs=4 * exact.standard_error)


def test_counts_that_nothing_suggests_are_left_out_of_a_large_grid() -> None:
    """Short rows, and one of 20,000: with p = 1 only what was seen can be true."""
    cells = Cells(*np.array([[0.0, 2, 1], [3, 0, 20_000], [5, 5, 1], [0, 10, 1], [15, 0, 2e4]]))
    found = thinning.latent(cells, (1.0, 1.0), 100, 1e9)
    assert found.hits.size < thinning.MOST_ATOMS
    atoms = set(zip(found.hits.tolist(), found.misses.tolist(), strict=True))
    assert {(0.0, 3.0), (2.0, 0.0), (1.0, 20_000.0)} <= atoms
    assert not {t for _, t in atoms if 10 < t < 19_000}
    blurred = thinning.latent(cells, (1.0, 1.5), 100, 1e9)
    near = blurred.misses[blurred.misses > 10_000]
    assert near.min() < 30_000 - 4 * 122 < 30_000 + 4 * 122 < near.max()  # √(30,000 · ½) = 122


def test_what_has_no_room_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    top, labels, p = rows_of(3, n=200)
    monkeypatch.setattr(thinning, "MOST_ATOMS", 3)
    options = {"metrics": ["R@4"], "estimators": ["vanilla", "deconvolved"]}
    table = evaluate(top, labels, p, **options)
    each = table["R@4", "deconvolved"]
    assert np.isnan([each.value, each.standard_error, *each.interval]).all()
    words = r"unusable: \d+ different counts of observed labels are too many .* at k = 4; use a"
    assert re.match(words, str(each.verdict))
    assert np.isfinite(table["R@4", "vanilla"].value)
    bootstrapped = evaluate(top, labels, p, **options, interval="percentile", replicates=10)
    assert bootstrapped["R@4", "deconvolved"].verdict == each.verdict
    pair = compare({"one": top, "two": top}, labels, p, metrics=["R@4"], estimators=["deconvolved"])
    assert np.isnan(pair["two"]["R@4", "deconvolved"].value)
    refused = fit(as_counts(evaluated(top, labels, p).tables[4]))
    assert np.isnan([refused.value("R"), refused.misfit, *refused.goodness()]).all()
    assert np.isnan(refused.resampled("R", replicates=3)).all()


def test_all_strata_together_have_so_much_room() -> None:
    counts, _ = thinned(1)
    rows = counts.rows
    cells = np.array([np.arange(rows.size) % 2, *counts.cells[1:]])
    both = fit(Counts(rows, counts.hits, counts.misses, cells))
    assert len(both.strata) == 2
    assert sum(each.kernel.size for each in both.strata) <= thinning.MOST_ENTRIES
    half = rows.size / 2 * 400  # entries for a kernel of 400 atoms each
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unmask.metrics.deconvolution.MOST_ENTRIES", 2 * half)
        small = fit(Counts(rows, counts.hits, counts.misses, cells))
    assert 0 < sum(each.kernel.size for each in small.strata) <= 2 * half


def test_a_sum_is_kept_as_two_numbers() -> None:
    assert cell_counts._whole(np.array([0, 7])) == 7
    assert cell_counts._whole(np.array([3, 7])) == 3 * 2**32 + 7
