"""Propensities of groups: modes against an optimiser, pooling, and entries for metrics."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize_scalar
from scipy.special import expit, logit

from unmask import data, evaluate, propensity

TRUTH = data.synthetic.independent(900, 8, seed=0)
GROUPS = np.array(["careful", "hasty", "usual"])[np.arange(900) % 3]
SHIFT = {"careful": 1.5, "hasty": -1.5, "usual": 0.0}
ROWS = np.repeat(np.arange(900), np.diff(TRUTH.indptr))
CHANCE = expit(np.array([SHIFT[name] for name in GROUPS])[ROWS])
OBSERVED = data.hide(
    TRUTH, sp.csr_array((CHANCE, TRUTH.indices, TRUTH.indptr), TRUTH.shape), seed=1
)


def test_every_shift_is_the_mode_given_the_spread() -> None:
    found = propensity.audit(OBSERVED, TRUTH, groups=GROUPS, curve="free")
    kept = np.asarray(OBSERVED[ROWS, TRUTH.indices]).ravel()
    base = logit(found.estimate.value)[TRUTH.indices]
    for name, shift in zip(found.names, found.shift, strict=True):
        own = GROUPS[ROWS] == name

        def loss(delta: float, own: np.ndarray = own) -> float:
            z = base[own] + delta
            value = (np.logaddexp(0, z).sum() - kept[own] @ z) / found.estimate.effect
            return float(value + delta**2 / (2 * found.spread**2))

        assert shift == pytest.approx(minimize_scalar(loss, (-3, 3)).x, abs=1e-4)
        low, high = found.interval(name)
        assert low < SHIFT[name] + 0.15
        assert high > SHIFT[name] - 0.15


def test_equal_groups_are_drawn_together_and_few_rows_to_the_middle() -> None:
    even = data.hide(TRUTH, np.full(8, 0.5), seed=2)
    found = propensity.audit(even, TRUTH, groups=GROUPS, curve="free")
    assert found.spread < 0.2
    few = np.where(np.arange(900) < 2, "new", GROUPS)
    among = propensity.audit(OBSERVED, TRUTH, groups=few, curve="free")
    assert among.error[among.names.index("new")] > 3 * among.error[among.names.index("hasty")]


def test_entries_have_the_propensity_of_their_group() -> None:
    found = propensity.audit(OBSERVED, TRUTH, groups=GROUPS, curve="free")
    entries = found.of_entries(OBSERVED[:3], GROUPS[:3])
    row = entries[[1]].toarray().ravel()
    np.testing.assert_allclose(row[row > 0], found.of_group("hasty")[row > 0])
    np.testing.assert_allclose(found.of_group("unknown"), found.estimate.value)
    scores = np.random.default_rng(0).random(TRUTH.shape)
    true_value = evaluate(scores, TRUTH, metrics=["P@1"])["P@1", "vanilla"].value
    table = evaluate(scores, OBSERVED, found.of_entries(OBSERVED, GROUPS), metrics=["P@1"])
    assert table["P@1", "unbiased"].value == pytest.approx(true_value, abs=0.05)


def test_labels_that_are_always_kept_stay_so_in_every_group() -> None:
    """p = 1 has no logit; it is read as one in a million less."""
    certain = data.hide(TRUTH, np.r_[[1.0] * 4, [0.4] * 4], seed=3)
    audited = propensity.audit(certain, TRUTH, groups=GROUPS, curve="free")
    whole = replace(audited, estimate=replace(audited.estimate, value=np.r_[[1.0] * 4, [0.4] * 4]))
    for name, shift in zip(audited.names, audited.shift, strict=True):
        kept = whole.of_group(name)
        assert kept[:4] == pytest.approx(expit(logit(1 - 1e-6) + shift), rel=1e-12)
        assert kept[4:] == pytest.approx(expit(logit(0.4) + shift), rel=1e-12)


def test_groups_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="give one name per row"):
        propensity.audit(OBSERVED, TRUTH, groups=["a"], curve="free")
    with pytest.raises(ValueError, match="groups go with mask='independent'"):
        propensity.audit(OBSERVED, TRUTH, groups=GROUPS, mask="effort")  # type: ignore[call-overload]
