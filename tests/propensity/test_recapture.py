"""Propensities from two annotations: Chapman's estimate and labels found by either."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from tests.helpers.propensities import either, posterior
from unmask import data, propensity
from unmask.propensity.estimate import Either


def gamma_rule(shape: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for means over a Gamma variable."""
    from scipy.special import roots_genlaguerre

    nodes, weights = roots_genlaguerre(40, shape - 1)
    return nodes, weights / weights.sum()


def test_what_neither_found_shares_the_labels_that_both_found() -> None:
    """Mean and mean square of (1 − p₁)(1 − p₂), by quadrature over the five Gamma variables."""
    m, wide = 4.0, 6000
    first = posterior([m] * wide, [9.0] * wide, [[0.5, 1.0, 6.0, 2.0]])  # Beta(m + 2, 5 + 4)
    second = posterior([m] * wide, [7.0] * wide, [[0.5, 1.0, 5.0, 4.0]])  # Beta(m + 1, 3 + 4)
    drawn = 1 - Either(first, second).sample(np.random.default_rng(0), 12).ravel()
    both, weight = gamma_rule(m)

    def missed(own: float, lost: float, power: int) -> np.ndarray:
        (x, wx), (y, wy) = gamma_rule(own), gamma_rule(lost)
        share = y / (both[:, None, None] + x[:, None] + y)
        return np.einsum("gxy,x,y->g", share**power, wx, wy)

    for power in (1, 2):
        wanted = weight @ (missed(2.0, 9.0, power) * missed(1.0, 7.0, power))
        assert (drawn**power).mean() == pytest.approx(wanted, rel=0.01)


def test_either_shifts_the_odds_of_a_draw_together() -> None:
    """The second annotation finds nothing: what is left is the first's Beta and common error."""
    from scipy.special import polygamma, psi

    first = posterior([0.0] * 300, [4.0] * 300, [[0.5, 1.0, 6.0, 2.0]], common=0.5)
    second = posterior([0.0] * 300, [1e7] * 300, [[0.5, 1.0, 2.0, 1e12]])
    drawn = Either(first, second).sample(np.random.default_rng(0), 500)
    logits = np.log(drawn / (1 - drawn))
    together = logits.mean(axis=1)
    own = float(polygamma(1, 2) + polygamma(1, 8))
    assert together.mean() == pytest.approx(psi(2) - psi(8), abs=0.1)
    assert together.std() == pytest.approx(np.sqrt(0.25 + own / 300), rel=0.12)
    assert (logits - together[:, None]).var() == pytest.approx(own, rel=0.03)


def test_either_states_the_mean_and_the_quantiles_of_its_draws() -> None:
    from unmask.propensity.audit import DRAWS

    found = either()
    drawn = found.uncertainty.sample(np.random.default_rng(0), DRAWS)
    np.testing.assert_array_equal(found.value, drawn.mean(axis=0))
    np.testing.assert_allclose(found.low, np.quantile(drawn, 0.1, axis=0))
    np.testing.assert_allclose(found.high, np.quantile(drawn, 0.9, axis=0))
    assert (found.method, found.confidence, len(found)) == ("recapture", 0.8, 3)


def test_recapture_is_an_audit_by_the_other() -> None:
    true = data.synthetic.independent(500, 8, probability=0.3, seed=0)
    one = data.hide(true, np.full(8, 0.6), seed=1)
    two = data.hide(true, np.full(8, 0.4), seed=2)
    found = propensity.recapture(one, two)
    both = sp.csr_array(one.multiply(two))
    np.testing.assert_array_equal(found.value, propensity.audit(both, two, curve="free").value)
    assert found.method == "recapture"


def test_either_combines_both() -> None:
    """With plenty of data the union's propensity is 1 − (1 − p₁)(1 − p₂)."""
    rows = np.ones((200_000, 2), dtype=np.float32)
    one = data.hide(rows, [0.6, 0.3], seed=1)
    two = data.hide(rows, [0.5, 0.2], seed=2)
    found = propensity.recapture(one, two, of="either")
    np.testing.assert_allclose(found.value, [0.8, 0.44], atol=0.01)
    assert ((found.low < found.value) & (found.value < found.high)).all()
    np.testing.assert_allclose(found.draw(0, 400).mean(axis=0), found.value, atol=0.005)


@pytest.mark.parametrize(("once", "twice", "lists"), [(3, 0, 2), (5, 0, 3), (4, 2, 3), (1, 3, 4)])
def test_chao_by_hand(once: int, twice: int, lists: int) -> None:
    """Size and variance of the frequencies f₁ and f₂, in fractions."""
    annotations = np.zeros((lists, once + twice, 1))
    annotations[0, :once] = annotations[:2, once:] = 1
    size, variance = propensity.chao(*annotations)
    a, f1, f2 = Fraction(lists - 1, lists), Fraction(once), Fraction(twice)
    if twice:
        exact = f1 + f2 + a * f1**2 / (2 * f2)
        ratio = f1 / f2
        spread = f2 * (a * ratio**2 / 2 + a**2 * ratio**3 + a**2 * ratio**4 / 4)
    else:
        exact = f1 + a * f1 * (f1 - 1) / 2
        spread = a * f1 * (f1 - 1) / 2 + a**2 * f1 * (2 * f1 - 1) ** 2 / 4
        spread -= a**2 * f1**4 / (4 * exact)
    assert size[0] == pytest.approx(float(exact), rel=1e-14)
    assert variance[0] == pytest.approx(float(spread), rel=1e-13)


def test_a_label_that_was_given_once_in_all_has_no_variance() -> None:
    """Nor more occurrences than the one: Chao's formulas where nothing was given twice."""
    size, variance = propensity.chao([[1], [0]], [[0], [0]])
    assert (size.tolist(), variance.tolist()) == ([1.0], [0.0])
