"""The level of propensities from all rows: the regression estimate, and what it is worth."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit, logit

from unmask import audit, data, propensity
from unmask.predictions import TopK
from unmask.propensity.audit import level_of, odds_shift

RNG = np.random.default_rng(5)


def test_the_level_is_the_regression_of_the_textbook() -> None:
    """β and its residuals by least squares, shrunk by its F statistic."""
    true = RNG.integers(1, 6, 50).astype(float)
    kept = RNG.binomial(true.astype(int), RNG.choice([0.2, 0.9], 50)).astype(float)
    made = level_of(kept, true, kept, 1.9, 400)
    z = kept / kept.mean() - true / true.mean()
    design = np.column_stack([np.ones(50), kept])
    coefficients, (squares,), *_ = np.linalg.lstsq(design, z, rcond=None)
    spread = ((kept - kept.mean()) ** 2).sum()
    f = coefficients[1] ** 2 * spread / (squares / 48)
    slope = coefficients[1] * (1 - 2 / f)
    left = z - slope * kept
    assert made is not None
    assert made[0] == pytest.approx(slope * (1.9 - kept.mean()), rel=1e-9)
    variance = (1 - 50 / 400) * ((left - left.mean()) ** 2).sum() / 48 / 50
    assert made[1] == pytest.approx(variance, rel=1e-9)


@pytest.mark.parametrize(
    ("kept", "shown", "n"),
    [
        (np.ones(9), np.arange(9.0), 99),  # too few rows
        (np.ones(10), np.arange(10.0), 10),  # all rows were audited
        (np.zeros(10), np.arange(10.0), 99),  # nothing kept
        (np.ones(10), np.full(10, 3.0), 99),  # all rows show the same
    ],
)
def test_where_there_is_nothing_to_learn(kept: np.ndarray, shown: np.ndarray, n: int) -> None:
    assert level_of(kept, np.ones(kept.size), shown, 1.0, n) is None


def test_a_shift_of_logits_moves_the_kept_share_as_far() -> None:
    of, p = np.array([10.0, 0.0, 30.0]), np.array([0.2, 0.9, 0.6])
    shift, variance = odds_shift(-0.3, 0.02, of, p)
    after = expit(logit(p) + shift)
    assert of @ after == pytest.approx(np.exp(-0.3) * (of @ p), rel=1e-9)
    slope = (of @ (after * (1 - after))) / (of @ after)  # of the log of the share, by the shift
    assert variance == pytest.approx(0.02 / slope**2, rel=1e-9)
    shift, _ = odds_shift(5.0, 0.02, of, p)
    assert of @ expit(logit(p) + shift) == pytest.approx(0.999 * of.sum(), rel=1e-9)


def rows_of_effort(seed: int, n: int = 3000) -> tuple[sp.csr_array, sp.csr_array]:
    true = data.synthetic.independent(n, 12, seed=seed)
    mask = propensity.MaskModel(np.full(12, 0.4), row_effort=0.7)
    return true, data.hide(true, mask, seed=seed + 1)


def test_all_rows_tell_the_level_better_than_the_audited_ones() -> None:
    """Audits of 80 rows with strong effort: half the error, and as large as it is said to be."""
    true, observed = rows_of_effort(7)
    sizes, shown = (np.diff(each.indptr).astype(float) for each in (true, observed))
    level = np.log(shown.sum() / sizes.sum())
    rng, errors, said = np.random.default_rng(0), [], []
    for _ in range(400):
        rows = rng.choice(3000, 80, replace=False)
        made = level_of(shown[rows], sizes[rows], shown[rows], shown.mean(), 3000)
        assert made is not None
        alone = np.log(shown[rows].sum() / sizes[rows].sum()) - level
        errors.append([alone, alone + made[0]])
        said.append(made[1])
    alone, better = np.sqrt(np.mean(np.square(errors), axis=0))
    assert better < 0.6 * alone
    assert better / np.sqrt(np.mean(said)) == pytest.approx(1.0, abs=0.1)


def test_judgements_bring_all_rows_along() -> None:
    true, observed = rows_of_effort(1)
    top = TopK.from_scores(true.toarray() + 0.1, 2)
    plan = audit.plan(top, observed, budget=80, seed=3)
    judged = audit.from_rows(plan, true[plan.rows])
    by_judgements = propensity.audit(observed, judged, curve="free")
    by_hand = propensity.audit(
        observed[plan.rows], true[plan.rows], curve="free", all_rows=observed
    )
    assert np.array_equal(by_judgements.value, by_hand.value)
    alone = propensity.audit(observed[plan.rows], true[plan.rows], curve="free")
    assert by_hand.uncertainty.common < alone.uncertainty.common
    shift = logit(by_hand.value) - logit(alone.value)
    assert shift == pytest.approx(by_hand.uncertainty.offset, rel=1e-6)
    draws = by_hand.draw(seed=0, size=4000)
    assert draws.mean(axis=0) == pytest.approx(by_hand.value, abs=0.01)
    with pytest.raises(ValueError, match="leave all_rows"):
        propensity.audit(observed, judged, all_rows=observed)


def test_all_rows_must_be_all_rows() -> None:
    true, observed = rows_of_effort(1, n=60)
    with pytest.raises(ValueError, match="the 60 audited ones included, with 12 labels"):
        propensity.audit(observed, true, all_rows=observed[:50])
    with pytest.raises(ValueError, match="leave all_rows out"):
        propensity.audit(observed, true, pool=TopK.from_scores(true, 3), all_rows=observed)
