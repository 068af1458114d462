"""Other people's procedures: the theorem behind each, by enumeration or written out again."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit, logit

from unmask import TopK, losses, weights
from unmask_studies import baselines
from unmask_studies.baselines import METHODS, TrainingData


def known(n: int = 60, n_labels: int = 5) -> TrainingData:
    rng = np.random.default_rng(0)
    x = sp.csr_array(rng.normal(size=(n, 4)).astype(np.float32))
    true = rng.random((n, n_labels)) < expit(x.toarray() @ rng.normal(size=(4, n_labels)) - 1)
    p = np.linspace(0.4, 0.9, n_labels)
    observed = true & (rng.random(true.shape) < p)
    judged = observed | (~true & (rng.random(true.shape) < p))
    return TrainingData(x, sp.csr_array(observed.astype(np.float32)), p, true.mean(axis=0),
                 sp.csr_array(judged.astype(float)))  # fmt: skip


def test_corruption_weights_and_precision_are_unbiased_over_all_observations() -> None:
    true, p, false = np.array([1, 0, 1]), np.array([0.6, 0.5, 0.9]), np.array([0.1, 0.2, 0.05])
    scores, top = np.array([[0.3, -1.0, 2.0]]), TopK([[2, 1]], [[2.0, 1.0]])
    mean_loss, mean_precision = 0.0, 0.0
    for seen in product([0, 1], repeat=3):
        chance = np.where(true, p, false)
        weight = np.prod(np.where(seen, chance, 1 - chance))
        labels = sp.csr_array(np.array([seen], dtype=float))
        made = baselines.corruption(labels, p, false)
        mean_loss += weight * losses.total("logistic", scores, made)[0]
        mean_precision += weight * baselines.corrected_precision(top, labels, p, false)
    truth = losses.total("logistic", scores, weights.vanilla(true[None, :]))[0]
    assert mean_loss == pytest.approx(truth, abs=1e-12)
    assert mean_precision == pytest.approx(0.5, abs=1e-12)  # label 2 is true, label 1 is not


def test_without_spurious_labels_corruption_is_the_unbiased_loss() -> None:
    rows = known()
    scores = np.random.default_rng(1).normal(size=rows.labels.shape)
    both = [
        losses.total("logistic", scores, made)
        for made in (
            baselines.corruption(rows.labels, rows.p, np.zeros(5)),
            weights.unbiased(rows.labels, rows.p),
        )
    ]
    assert np.allclose(*both)
    conditional = losses.related_work.class_conditional(flip_positive=1 - rows.p)
    assert np.allclose(both[0], losses.total(conditional, scores, weights.vanilla(rows.labels)))


def test_class_prior_weights_are_the_case_control_risk() -> None:
    rows = known()
    y, scores = rows.labels.toarray(), np.random.default_rng(1).normal(size=rows.labels.shape)
    positive, negative = np.logaddexp(0, -scores), np.logaddexp(0, scores)
    risk = sum(
        rows.prior[j] * (positive - negative)[y[:, j] > 0, j].mean() + negative[:, j].mean()
        for j in range(5)
    )
    made = baselines.class_prior(rows.labels, rows.prior)
    assert losses.total("logistic", scores, made).mean() == pytest.approx(risk)


def test_the_threshold_decides_as_the_truth_would() -> None:
    p, false = 0.7, 0.1
    for chance in (0.0, 0.3, 0.49, 0.51, 0.8, 1.0):
        seen = (p - false) * chance + false
        assert (seen > baselines.threshold(np.array([p]), false)[0]) == (chance > 0.5)


def test_the_hardest_unobserved_pairs_are_dropped() -> None:
    labels = sp.csr_array([[1.0, 0, 0], [0, 0, 1.0]])
    scores = np.array([[9.0, 1.0, 3.0], [2.0, 4.0, 9.0]])
    assert baselines.hardest(scores, labels, 0.5).tolist() == [[0, 0, 1], [0, 1, 0]]
    assert baselines.hardest(scores, labels, 0.0).sum() == 0


def test_known_mask_ignores_what_was_not_judged() -> None:
    rows = known()
    made = baselines._with_unobserved(rows.labels, 1.0 - rows.judged.toarray())
    scores = np.random.default_rng(1).normal(size=rows.labels.shape)
    y, judged = rows.labels.toarray(), rows.judged.toarray()
    by_pair = np.where(y > 0, np.logaddexp(0, -scores), np.logaddexp(0, scores)) * judged
    assert np.allclose(losses.total("logistic", scores, made), by_pair.sum(axis=1))


def test_the_ranking_objective_is_the_group_norm_and_its_slope_the_derivative() -> None:
    rng = np.random.default_rng(2)
    labels = sp.csr_array([[1.0, 1, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0]])
    scores = rng.normal(size=(3, 4))
    value, slope = baselines.ranking_objective(scores, labels)
    expected = 0.0
    for row in range(3):
        own = np.flatnonzero(labels.toarray()[row])
        errors = [
            sum(max(0.0, 1 - scores[row, j] + scores[row, other]) for j in own)
            for other in range(4)
            if other not in own
        ]
        expected += np.linalg.norm(errors)
    assert value == pytest.approx(expected, abs=1e-6)
    for place in np.ndindex(3, 4):
        step = np.zeros((3, 4))
        step[place] = 1e-6
        up, down = (baselines.ranking_objective(scores + s * step, labels)[0] for s in (1, -1))
        assert slope[place] == pytest.approx((up - down) / 2e-6, abs=1e-4)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_learns_more_than_the_label_frequencies(name: str) -> None:
    rows = known(400)
    scores = METHODS[name](rows, 3.0)(rows.features)
    assert scores.shape == (400, 5)
    hits = np.take_along_axis(rows.labels.toarray(), scores.argmax(axis=1)[:, None], axis=1)
    constant = rows.labels.toarray()[:, rows.labels.toarray().mean(axis=0).argmax()]
    assert hits.mean() > constant.mean()


def test_co_teaching_averages_two_models_and_curriculum_drops_hard_pairs() -> None:
    rows = known(200)
    vanilla, taught = (
        METHODS[name](rows, 1.0)(rows.features) for name in ("vanilla", "co-teaching")
    )
    unobserved = rows.labels.toarray() == 0
    assert taught[unobserved].mean() > vanilla[unobserved].mean()  # missing labels punish less
    eased = METHODS["curriculum"](rows, 1.0)(rows.features)
    assert eased[unobserved].mean() > vanilla[unobserved].mean()


def test_relabelled_targets_are_mixed_with_the_mean_of_all_predictions_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = known()
    q = np.linspace(0.4, 0.9, baselines.ROUNDS)
    models = iter([*q, 0.5])
    targets: list[float] = []

    def fit(*_: object) -> baselines.Scores:
        score = logit(next(models))
        return lambda features: np.full(rows.labels.shape, score)

    def with_unobserved(labels: sp.csr_array, pos: np.ndarray, cut: np.ndarray) -> None:
        assert (pos == pos[0, 0]).all()
        assert (cut == pos).all()
        targets.append(float(pos[0, 0]))

    monkeypatch.setattr(baselines, "_fit", fit)
    monkeypatch.setattr(baselines, "_with_unobserved", with_unobserved)
    baselines.relabelled(rows, 1.0, bound=0.8, retro=0.5)
    means = np.cumsum(q) / np.arange(1, q.size + 1)
    assert targets == pytest.approx(((1 - q < 0.8 * q) + 0.5 * means) / 1.5)
