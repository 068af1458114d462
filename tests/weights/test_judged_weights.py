"""Weights use judged pairs: no gradient from ignored ones, linear and torch."""

from __future__ import annotations

import numpy as np
import pytest

from unmask import linear, losses, weights
from unmask.data import Dataset

RNG = np.random.default_rng(1)
LABELS = (RNG.random((30, 4)) < 0.4).astype(np.float32)
JUDGED = RNG.choice([0.0, 0.0, 1.0, -1.0, 2.0], (30, 4)).astype(np.float32)
P = np.array([0.3, 0.5, 0.7, 0.9])
ROWS = Dataset(None, LABELS, judgements=JUDGED)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
@pytest.mark.parametrize("correction", ["vanilla", "unbiased", "bound", "tempered"])
def test_the_loss_is_the_sum_over_pairs_that_count(correction: str, loss: str) -> None:
    """Positive: ℓ₊ alone; negative: ℓ₋; ignored: nothing; the others as corrected."""
    scores = RNG.standard_normal((30, 4))
    weigh = weights.CORRECTIONS[correction]
    made = weigh(ROWS, P)
    by_hand = weigh(np.where(JUDGED == 0, LABELS, 0), P)
    if loss == "logistic":
        plus, minus = np.logaddexp(0, -scores), np.logaddexp(0, scores)
    else:
        plus, minus = (np.maximum(0, 1 - sign * scores) ** 2 for sign in (1, -1))
    free = minus + by_hand.pos.toarray() * plus - by_hand.cut.toarray() * minus
    expected = np.select([JUDGED == 0, JUDGED == 1, JUDGED == -1], [free, plus, minus], 0.0)
    np.testing.assert_allclose(losses.total(loss, scores, made), expected.sum(axis=1))


def test_softmax_cannot_leave_a_label_out() -> None:
    with pytest.raises(ValueError, match="ignored pairs can only be left out of one-vs-all losses"):
        weights.unbiased(ROWS, P, reduction="pal")
    known = Dataset(None, LABELS, judgements=np.where(JUDGED == 2, 0, JUDGED))
    assert weights.unbiased(known, P, reduction="pal").pos.nnz == known.after_judgements.labels.nnz


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_an_ignored_pair_is_a_row_less_for_its_label(loss: str) -> None:
    """Label by label, the model is that of the rows which count for the label."""
    features = RNG.standard_normal((30, 3))
    recipe = linear.Recipe(loss=loss, correction="unbiased" if loss == "logistic" else "bound")
    recipe = linear.Recipe(loss=loss, correction=recipe.correction, tol=1e-8)
    model, _ = linear.train(features, ROWS, recipe, propensity=P)
    after = ROWS.after_judgements
    entry_p = after.propensity(P)
    for label in range(4):
        used = JUDGED[:, label] != 2
        own = after.labels[used][:, [label]]
        alone, _ = linear.train(features[used], own, recipe, propensity=entry_p[used][:, [label]])
        np.testing.assert_allclose(
            np.asarray(model.weights[label]).ravel(), np.asarray(alone.weights[0]).ravel(),
            atol=2e-4,
        )  # fmt: skip


def test_torch_sees_no_gradient_from_ignored_pairs() -> None:
    torch = pytest.importorskip("torch")
    from unmask.torch import MissingLabelLoss

    logits = torch.randn(30, 4, dtype=torch.float64, requires_grad=True)
    module = MissingLabelLoss(P, loss="logistic", correction="bound")
    module(logits, weights=weights.bound(ROWS, P)).backward()
    assert (logits.grad.numpy()[JUDGED == 2] == 0).all()
    assert (logits.grad.numpy()[JUDGED == -1] > 0).all()
