"""What all estimators of propensities have in common: defaults, result, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from unmask import data, propensity
from unmask.propensity import PropensityEstimate
from unmask.propensity.estimate import from_counts


def test_counts_and_rows_come_together() -> None:
    for estimator in ["audit", "model", "recapture"]:
        for wrong in [{"counts": [1, 2]}, {"n": 9}]:
            with pytest.raises(ValueError, match="both `counts` and `n`"):
                propensity.ESTIMATORS[estimator](np.ones((4, 2)), np.ones((4, 2)), **wrong)


def test_every_estimator_returns_the_same_kind_of_thing() -> None:
    for name in list(propensity.ESTIMATORS):
        true = data.synthetic.independent(200, 5, probability=0.4, seed=0)
        seen = data.hide(true, np.full(5, 0.5), seed=1)
        given_ = {
            "audit": (seen, true),
            "snapshots": (seen, true),
            "recapture": (seen, data.hide(true, np.full(5, 0.5), seed=2)),
            "model": (true.toarray() * 0.5, seen),
            "marginals": (seen, np.full(5, 0.4)),
        }
        found = propensity.ESTIMATORS[name](*given_[name])
        assert isinstance(found, PropensityEstimate)
        assert found.method == name
        assert (found.low <= found.value).all()
        assert (found.value <= found.high).all()
        drawn = found.draw(seed=0, size=7)
        assert drawn.shape == (7, 5)
        assert ((drawn > 0) & (drawn <= 1)).all()


def test_bad_input_is_refused_in_words() -> None:
    for call, message in [
        (lambda: propensity.audit([[1, 0]], [[1]]), r"same rows and labels; got \(1, 2\)"),
        (lambda: propensity.audit([[0]] * 5, [[0]] * 5), "no audited row has a true label"),
        (lambda: propensity.audit([[1]], [[1]]), "at least 3 training rows"),
        (lambda: propensity.audit([[1]] * 5, [[1]] * 5, counts=[3]), "both `counts` and `n`"),
        (lambda: propensity.audit([[1]] * 5, [[1]] * 5, curve="jian"), "unknown curve 'jian'"),
        (lambda: from_counts([3], [2], counts=[5], n=9), "kept 3 times out of 2"),
        (lambda: from_counts([1], [2], counts=[50], n=9), "50 of 9 training rows"),
        (lambda: from_counts([1, 1], [2], counts=[5], n=9), "1 numbers, one per label"),
        (lambda: propensity.recapture([[1]], [[1]], of="both"), "unknown annotation 'both'"),
        (lambda: propensity.chao([[1.0]]), "at least two annotations"),
        (lambda: propensity.from_model([[1.5]], [[1]]), "Calibrate"),
        (lambda: propensity.from_model([[0.5, 0.1]], [[1]]), "same rows and labels"),
        (lambda: propensity.from_model([[0.5]] * 3, [[1]] * 3, n=3), "both `counts` and `n`"),
        (lambda: propensity.from_marginals([[1]], [0.0]), "got 0 at label 0"),
        (lambda: propensity.from_marginals([[1]], [0.5], confidence=2), "confidence must lie"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
