"""Confidence sequences hold at every look; elusion has its upper end."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import t as student

from unmask import audit, data
from unmask.audit import stopping
from unmask.audit.stopping import ConfidenceSequence, betting, elusion
from unmask.data.judgements import Design, Judgements, Sample, Stratum
from unmask.metrics import contributions
from unmask.metrics.measured.context import Columns
from unmask.metrics.measured.sampling import ridge
from unmask.predictions import TopK


def test_over_all_orders_of_a_small_population_the_truth_is_hardly_ever_left_out() -> None:
    """All 5,040 orders of seven values, a look after each: at most 5 % ever miss the mean."""
    values = np.array([0.0, 0.0, 1.0, 0.3, 1.0, 0.1, 0.0])
    missed = 0
    orders = list(permutations(range(7)))[::20]
    for order in orders:
        rows = np.array(order)
        low, high = betting(values[rows], rows, 7, confidence=0.8)
        missed += bool(((low > values.mean()) | (high < values.mean())).any())
    assert missed / len(orders) <= 0.2


@pytest.mark.parametrize("known", [False, True])
def test_sequences_cover_at_all_looks_together(known: bool) -> None:
    """150 audits of rare, skewed values: at most 5 % may ever miss; 12 of 150 is beyond chance."""
    rng = np.random.default_rng(0)
    n = 1500
    x = rng.standard_normal((n, 2))
    values = np.clip(0.1 + 0.2 * x[:, 0] + 0.1 * rng.standard_normal(n), 0, 1)
    missed, widths = 0, []
    for _ in range(150):
        rows = rng.permutation(n)[:120]
        low, high = betting(values[rows], rows, n, Columns.of(x) if known else None)
        missed += bool(((low > values.mean()) | (high < values.mean())).any())
        widths.append(high[-1] - low[-1])
    assert missed <= 12
    assert np.mean(widths) < (0.12 if known else 0.16)


def test_judging_everything_leaves_the_mean_alone() -> None:
    values = np.random.default_rng(1).random(60)
    low, high = betting(values, np.arange(60), 60)
    assert low[-1] <= values.mean() <= high[-1]
    assert high[-1] - low[-1] < 0.05


def _audited() -> tuple[TopK, sp.csr_array, sp.csr_array, audit.Judgements]:
    true = data.synthetic.planted(900, n_labels=20, seed=1).labels
    observed = data.hide(true, np.full(20, 0.5), seed=2)
    scores = np.random.default_rng(3).standard_normal(true.shape) + 3 * true.toarray()
    top = TopK.from_scores(scores, 10)
    plan = audit.plan(top, observed, budget=250)
    return top, observed, true, audit.from_rows(plan, true[plan.rows])


def test_an_audit_stops_when_it_is_certain() -> None:
    top, observed, true, judged = _audited()
    made = audit.sequence(top, observed, judged, "R@5")
    truth = contributions(top, true, metrics=["R@5"])["R@5", "vanilla"].mean()
    assert ((made.low <= truth) & (truth <= made.high)).all()
    assert (np.diff(made.high - made.low) <= 0).all()
    enough = made.rows_until(half_width=0.15)
    assert enough is not None
    assert (made.high - made.low)[enough - 1] <= 0.3 < (made.high - made.low)[enough - 2]
    assert made.rows_until(at_least=truth - 0.2) is not None
    assert made.rows_until(at_least=truth + 0.05) is None
    with pytest.raises(ValueError, match="say when to stop"):
        made.rows_until()
    with pytest.raises(ValueError, match="not a mean of values"):
        audit.sequence(top, observed, judged, "DCG@5")
    pairs = audit.plan(top, observed, budget=90, unit="pairs", metrics=["P@5"])
    with pytest.raises(ValueError, match="simple rows"):
        audit.sequence(top, observed, audit.from_pairs(pairs, np.zeros(len(pairs))), "P@5")


@pytest.mark.parametrize("unit", ["rows", "pairs", "two-phase"])
def test_what_eludes_the_predictions_is_below_its_upper_end(unit: str) -> None:
    top, observed, true, judged = _audited()
    hidden = true - observed
    inside = np.take_along_axis(hidden.toarray(), top.labels[:, :5].astype(int), axis=1)
    outside = hidden.nnz - int(inside.sum())
    if unit != "rows":
        options = {"metrics": ["micro-R@5"]} if unit == "pairs" else {"metrics": ["R@5"], "head": 6}
        plan = audit.plan(top, observed, budget=1500, unit="pairs", seed=2, **options)
        judged = audit.from_pairs(plan, np.asarray(true[plan.rows, plan.labels]).ravel())
    made = audit.elusion(top, observed, judged, k=5)
    dark = observed.toarray() == 0
    listed = np.take_along_axis(dark, top.labels[:, :5].astype(int), axis=1)
    assert made.pairs == int(dark.sum()) - int(listed.sum())
    assert made.relevant == pytest.approx(outside, rel=0.5)
    assert outside <= made.at_most <= made.pairs
    assert f"{made.pairs:,}" in made.sentence


def by_loops(
    values: list[float], rows: list[int], n: int, fits: dict[int, np.ndarray], aim: int,
    confidence: float, grid: int,
) -> list[tuple[float, float]]:  # fmt: skip
    """The sequence by its definition, one mean after the other; `fits` are f_t from a row on."""
    alpha = 1 - confidence
    ends = [(0.0, 1.0)] * len(values)
    left: list[set[int]] = [set() for _ in values]
    for step in range(grid + 1):
        mean, gains, losses, f = step / grid, 1.0, 1.0, np.zeros(n)
        variance, centre = 0.25, 0.5
        for t, (value, row) in enumerate(zip(values, rows, strict=True)):
            f = fits.get(t, f)
            rest = [i for i in range(n) if i not in rows[:t]]
            f_mean = float(f[rest].mean())
            x = value - float(f[row]) + f_mean
            due = (n * mean - sum(values[:t])) / len(rest)
            if not -1e-9 <= due <= 1 + 1e-9:
                break
            bet = np.sqrt(2 * np.log(2 / alpha) / (aim * variance / (t + 1)))
            up = min(bet, 0.75 / max(due + f.max() - f_mean, 1e-9))
            down = min(bet, 0.75 / max(1 - f.min() + f_mean - due, 1e-9))
            gains *= 1 + max(up * (x - due), -0.75)
            losses *= 1 + max(-down * (x - due), -0.75)
            if max(gains, losses) >= 2 / alpha:
                break
            left[t].add(step)
            centre += (x - centre) / (t + 2)
            variance += (x - centre) ** 2
    for t in range(1, len(values)):
        low, high = ends[t - 1]
        if left[t]:
            low = max(low, (min(left[t]) - 1) / grid)
            high = min(high, (max(left[t]) + 1) / grid)
        ends[t] = low, high
    return ends


@pytest.mark.parametrize(
    ("planned", "known", "level"),
    [(None, False, 0.2), (9, False, 0.2), (None, True, 0.2), (None, True, 0.9), (None, True, 0.1)],
)
def test_sequences_are_those_of_bets_on_every_mean(
    monkeypatch: pytest.MonkeyPatch, planned: int | None, known: bool, level: float
) -> None:
    """26 of 40 rows, f fitted after 4, 9, 14 … rows, and kept within [0, 1]."""
    for name, number in (("GRID", 50), ("FIRST_FIT", 4), ("REFIT", 5)):
        monkeypatch.setattr(stopping, name, number)
    rng = np.random.default_rng(8)
    x = Columns.of(rng.standard_normal((40, 2)))
    z = x.at(slice(None))
    everything = np.clip(level + 0.2 * z[:, 0] + 0.05 * rng.standard_normal(40), 0, 1)
    rows = rng.permutation(40)[:26]
    values = everything[rows]
    fits = {
        t: np.clip(z @ slope[:, 0] + intercept, 0, 1)
        for t in range(4, 26, 5)
        for slope, intercept in (ridge(z[rows[:t]], values[:t, None]),)
    }
    low, high = betting(values, rows, 40, x if known else None, planned=planned, confidence=0.9)
    expected = by_loops(
        values.tolist(), rows.tolist(), 40, fits if known else {}, planned or 26, 0.9, 50
    )
    np.testing.assert_allclose(np.c_[low, high], expected, atol=1e-9)
    assert high[-1] - low[-1] < 0.4


def test_an_audit_stops_at_the_first_row_at_which_a_goal_is_met() -> None:
    low, high = np.array([0.0, 0.1, 0.25, 0.25]), np.array([1.0, 0.75, 0.75, 0.5])
    made = ConfidenceSequence("P@1", low, high, 0.95)
    assert made.interval == (0.25, 0.5)
    assert [made.rows_until(half_width=h) for h in (0.5, 0.25, 0.125, 0.12)] == [1, 3, 4, None]
    assert [made.rows_until(at_least=a) for a in (0.0, 0.25, 0.26)] == [1, 3, None]
    assert [made.rows_until(below=b) for b in (1.1, 1.0, 0.75, 0.5)] == [1, 2, 4, None]
    assert made.rows_until(half_width=0.1, at_least=0.1) == 2


SHOWN = np.array([[1, 0, 0], [0, 0, 0], [0, 1, 0], [0, 0, 1]])
LISTED = TopK([[0, 1, 2], [0, 2, 1], [1, 0, -1], [0, 1, 2]],
              [[0.9, 0.5, 0.1]] * 2 + [[0.9, 0.5, -np.inf]] + [[0.9, 0.5, 0.1]])  # fmt: skip


@pytest.mark.parametrize(("k", "pairs", "total"), [(1, 7, 5 / 2 + 3), (2, 3, 3), (3, 1, 0)])
def test_pairs_outside_the_list_are_counted(k: int, pairs: int, total: float) -> None:
    """Of 5 pairs at places 2 two were judged, one relevant; of 3 others one, relevant."""
    strata = Stratum("top", 5, 2), Stratum("far", 3, 1), Stratum("observed", 4, 1)
    rows, label, of = np.array([[1, 3, 0, 3], [2, 1, 2, 2], [0, 0, 1, 2]])
    sample = Sample(Design.PAIRS, (4, 3), strata, rows, label, of, observed_free=False, k=2)
    judged = Judgements(sample, np.array([1.0, 0, 1, 1]))
    made = elusion(LISTED, SHOWN, judged, k=k)
    assert (made.k, made.pairs, made.confidence) == (k, pairs, 0.95)
    assert made.relevant == pytest.approx(total)
    assert made.at_most <= pairs
    assert made.share == pytest.approx(made.at_most / pairs)
    undrawn = Sample(
        Design.PAIRS, (4, 3), (Stratum("top", 5, 2), Stratum("far", 4, 0)), rows[:2], label[:2],
        of[:2], k=2,
    )  # fmt: skip
    with pytest.raises(ValueError, match="did not judge pairs outside"):
        elusion(LISTED, SHOWN, Judgements(undrawn, np.ones(2)), k=k)


def test_rows_show_what_eludes_them_with_the_error_of_their_counts() -> None:
    """Of 4 rows 0, 1 and 3 were judged; 2, 2 and 1 of their labels are outside."""
    true = sp.csr_array(np.array([[1.0, 1, 1], [0, 1, 1], [1, 1, 1]]))
    sample = Sample(
        Design.SIMPLE, (4, 3), (Stratum("rows", 4, 3),), np.array([0, 1, 3]), None, np.zeros(3, int)
    )
    made = elusion(LISTED, SHOWN, Judgements(sample, true), k=1, confidence=0.9)
    counts = np.array([2, 2, 1])
    assert made.pairs == 12 - 4 - 1
    assert made.relevant == pytest.approx(4 * counts.mean())
    error = np.sqrt(counts.var(ddof=1) / 3 * (1 - 3 / 4))
    most = 4 * (counts.mean() + student.ppf(0.9, 2) * error)
    assert made.at_most == pytest.approx(min(most, made.pairs))


@pytest.mark.parametrize("confidence", [0.49, 1.0, np.nan])
def test_a_sequence_needs_a_confidence(confidence: float) -> None:
    with pytest.raises(ValueError, match="confidence must be at least"):
        betting(np.ones(5), np.arange(5), 10, confidence=confidence)
