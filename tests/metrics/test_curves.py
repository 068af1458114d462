"""Curves over thresholds and reliability: what sets at thresholds score, scikit-learn, bands."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import precision_recall_curve

from unmask import LabelSets, evaluate
from unmask.metrics import curve, reliability
from unmask.metrics.intervals import z_quantile


def rows(n: int, n_labels: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Observed labels, propensities and scores, two decimals of them."""
    rng = np.random.default_rng(seed)
    true = rng.random((n, n_labels)) < 0.3
    p = np.linspace(0.5, 0.9, n_labels)
    observed = (true & (rng.random(true.shape) < p)).astype(int)
    return observed, p, np.clip(0.3 * true + 0.6 * rng.random(true.shape), 0, 1).round(2)


def test_one_label_has_the_curve_of_scikit_learn() -> None:
    observed, _, scores = rows(200, 3, seed=0)
    precision, recall, thresholds = precision_recall_curve(observed[:, 1], scores[:, 1])
    made = curve(scores, observed, thresholds=thresholds, labels_of_interest=[1])
    assert made.precision == pytest.approx(precision[:-1], abs=1e-12)
    assert made.recall == pytest.approx(recall[:-1], abs=1e-12)
    assert made.estimator == "vanilla"


@pytest.mark.parametrize("form", ["per label", "per entry"])
def test_some_labels_are_counted_with_their_own_propensities(form: str) -> None:
    observed, p, scores = rows(80, 5, seed=1)
    stated = p if form == "per label" else sp.csr_array(observed * p)
    made = curve(scores, observed, stated, thresholds=[0.3, 0.5], labels_of_interest=[4, 0])
    for step, cut in enumerate(made.thresholds):
        sets = LabelSets.from_scores(scores[:, [0, 4]], cut)
        table = evaluate(sets, observed[:, [0, 4]], p[[0, 4]])
        assert made.f1[step] == pytest.approx(table["micro-F1", "unbiased"].value, abs=1e-12)


def test_bands_are_those_of_the_normal_distribution_within_the_range() -> None:
    observed, p, scores = rows(60, 4, seed=2)
    made = curve(scores, observed, p, confidence=0.9)
    for name in ("precision", "recall", "f1"):
        low, high = made.band(name)
        half = z_quantile(0.9) * getattr(made, f"{name}_error")
        assert low == pytest.approx(np.maximum(getattr(made, name) - half, 0))
        assert high == pytest.approx(np.clip(getattr(made, name) + half, 0, 1))
        assert (low < high).any()
    records = made.to_dicts()
    assert len(records) == made.thresholds.size == 99
    assert records[30]["threshold"] == pytest.approx(0.31)
    assert records[30]["recall"] == made.recall[30]
    assert records[30]["recall_low"] == made.band("recall")[0][30]
    with pytest.raises(ValueError, match="number of a curve"):
        made.band("accuracy")


def test_the_best_point_is_fmax() -> None:
    observed, p, scores = rows(90, 6, seed=3)
    made = curve(scores, observed, p, average="sample")
    each = evaluate(scores, observed, p, metrics=["Fmax"])["Fmax", "unbiased"]
    best = made.best
    assert best.f1 == made.f1.max()
    assert each.value == pytest.approx(best.f1, abs=1e-15)  # rows are added in another order
    assert best.threshold == each.details["threshold"]
    assert best.f1_error == pytest.approx(each.standard_error)
    parts = each.details["precision"], each.details["recall"]
    assert (best.precision, best.recall) == pytest.approx(parts, abs=1e-15)
    assert "(best)" in made._repr_html_()


def test_other_scores_are_cut_at_their_quantiles_and_minus_infinity_never_counts() -> None:
    observed, _, scores = rows(50, 4, seed=4)
    logits = 10 * scores - 3
    logits[0, 0] = -np.inf
    made = curve(logits, observed)
    finite = logits[np.isfinite(logits)]
    assert made.thresholds[0] == pytest.approx(np.quantile(finite, 0.01))
    assert made.thresholds[-1] == pytest.approx(np.quantile(finite, 0.99))


def test_reliability_is_what_is_in_the_bins() -> None:
    observed, p, scores = rows(70, 4, seed=5)
    made = reliability(scores, observed, p, bins=4)
    v = observed / p
    spot = np.minimum((scores * 4).astype(int), 3)
    assert made.pairs.tolist() == [int((spot == b).sum()) for b in range(4)]
    true = [v[spot == b].mean() if (spot == b).any() else 0.0 for b in range(4)]
    assert made.true == pytest.approx(np.array(true))
    inside = [(spot == b).sum(axis=1) for b in range(4)]
    off = [(v * (spot == b)).sum(axis=1) - t * m for b, (t, m) in enumerate(zip(true, inside,
           strict=True))]  # fmt: skip
    errors = [np.sqrt((o**2).sum() * 70 / 69) / max(m.sum(), 1) for o, m in zip(off, inside,
              strict=True)]  # fmt: skip
    assert made.true_error == pytest.approx(np.array(errors))
    assert reliability(scores, observed, bins=4).true == pytest.approx(
        np.array([observed[spot == b].mean() if (spot == b).any() else 0.0 for b in range(4)])
    )


def test_what_has_no_curve_is_refused() -> None:
    observed, p, scores = rows(10, 3, seed=6)
    for wrong, message in (
        ({"thresholds": [0.5, 0.2]}, "rising"),
        ({"thresholds": []}, "rising"),
        ({"labels_of_interest": [3]}, "label"),
        ({"labels_of_interest": [1, 1]}, "none twice"),
        ({"average": "macro"}, "unknown average 'macro'"),
    ):
        with pytest.raises(ValueError, match=message):
            curve(scores, observed, p, **wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="got inf"):
        curve(np.where(scores > 0.5, np.inf, scores), observed)
    with pytest.raises(ValueError, match="reliability needs probabilities"):
        reliability(scores * 3, observed)
    with pytest.raises(ValueError, match="at least one row"):
        curve(scores[:0], observed[:0])


def test_curves_and_reliability_show_themselves() -> None:
    observed, p, scores = rows(90, 6, seed=3)
    made = curve(scores, observed, p)
    first, *lines = str(made).splitlines()
    assert first.split() == ["threshold", "precision", "recall", "f1"]
    (best,) = [line for line in lines if "(best)" in line]
    assert best.split("  ")[0] == f"{made.best.threshold:.3g} (best)"
    assert f"{made.best.f1:.3f} [" in best
    table = reliability(scores, observed, p, bins=4)
    assert len(str(table).splitlines()) == 7
    assert str(table).endswith(f"calibration error {table.error:.4f}")
    assert "calibration error" in table._repr_html_()
