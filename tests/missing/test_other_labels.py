"""Joining scores and other labels: the kernel against scipy's optimiser, the choice of strength."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import brentq, minimize
from scipy.special import expit, logit
from sklearn.metrics import roc_auc_score

from unmask import TopK
from unmask._kernels import other_labels as kernels
from unmask.missing import join, other_labels

RNG = np.random.default_rng(5)
N, L = 240, 4
OBSERVED = (RNG.random((N, L)) < 0.15).astype(float)
SCORES = np.float32(RNG.normal(-1.0, 1.0, (N, L)))
P = np.array([0.5, 0.3, 0.8, 0.6])
COMMON = np.array([0.9, 0.1, -0.2, 0.3])


def surprise(z: np.ndarray, p: float, y: np.ndarray) -> float:
    """−ln P(what was observed), without the constant ln p."""
    return float(np.where(y > 0, -np.log(expit(z)), -np.log(1 - p * expit(z))).sum())


def described(label: int) -> np.ndarray:
    """Score, 1, is no other label observed, ln(1 + Σ 1/p of the others)."""
    rest = OBSERVED.copy()
    rest[:, label] = 0
    own = [SCORES[:, label], np.ones(N), rest.sum(axis=1) == 0, np.log1p(rest @ (1 / P))]
    return np.column_stack(own).astype(float)


def exact_stages(label: int, fold: np.ndarray, penalties: list[float]) -> list[np.ndarray]:
    """z of every stage, held out, by an outside optimiser."""
    f, y = described(label), OBSERVED[:, label]
    rest = OBSERVED.copy()
    rest[:, label] = 0
    accompanied = rest.sum(axis=1) > 0
    ridge = np.array(other_labels.RIDGE)
    stages = [f @ COMMON, np.empty(N), *(np.empty(N) for _ in penalties)]
    for number in range(other_labels.FOLDS):
        fit, out = fold != number, fold == number

        def first(c: np.ndarray, fit: np.ndarray = fit) -> float:
            penalty = 0.5 * (ridge * (c - COMMON) ** 2).sum()
            return surprise(f[fit] @ c, P[label], y[fit]) + penalty

        own = minimize(first, COMMON, method="BFGS", options={"gtol": 1e-7}).x
        stages[1][out] = f[out] @ own
        for index, penalty in enumerate(penalties):
            used = fit & accompanied

            def second(
                g: np.ndarray,
                used: np.ndarray = used,
                own: np.ndarray = own,
                penalty: float = penalty,
            ) -> float:
                z = f[used] @ own + rest[used] @ g
                return surprise(z, P[label], y[used]) + 0.5 * penalty * float(g @ g)

            g = minimize(second, np.zeros(L), method="BFGS", options={"gtol": 1e-7}).x
            stages[2 + index][out] = f[out] @ own + rest[out] @ g
    return stages


@pytest.mark.parametrize("penalties", [[3.0, 0.5], [0.5], []])
def test_the_kernel_finds_the_optimum_of_every_stage(penalties: list[float]) -> None:
    observed = sp.csr_array(OBSERVED)
    pairs = other_labels._by_label(SCORES, observed, P)
    others = other_labels._others(observed, P, seed=0)
    out = np.empty((2 + len(penalties), pairs.rows.size), np.float32)
    ridge = np.array(other_labels.RIDGE)
    kernels.held_out(0, L, pairs, others, 3, COMMON, ridge, np.array(penalties), 1e-12, out)
    for label in range(L):
        own = slice(*pairs.start[label : label + 2])
        for stage, exact in zip(out, exact_stages(label, others.fold, penalties), strict=True):
            np.testing.assert_allclose(stage[own], exact[pairs.rows[own]], atol=2e-4)


def test_the_balanced_intercept_is_the_one_root() -> None:
    for observed in [0, 3, 40, 60]:
        for pull in [0.01, 1.0, 30.0]:
            rng = np.random.default_rng(observed)
            z, p = rng.normal(8, 6, 60), rng.uniform(0.1, 1, 60)

            def excess(o: float) -> float:
                return float((p * expit(z + o)).sum() + pull * o - observed)  # noqa: B023

            exact = brentq(excess, -1e4, 1e4, xtol=1e-12)
            np.testing.assert_allclose(
                kernels.balanced(z, p, observed, pull), exact, rtol=1e-7, atol=1e-9
            )


@pytest.mark.parametrize("shared", [13.0, -13.0])
def test_a_label_far_from_what_all_share_finds_its_own_optimum(shared: float) -> None:
    """Where every z is 13 no slope leads away; the kernel's optimum is the best of many starts."""
    rng = np.random.default_rng(2)
    n, p = 1500, 0.77
    scores = rng.normal(0, 2, n).astype(np.float32)
    y = rng.random(n) < p * expit(1.5 * scores - 0.5)
    observed = sp.csr_array(y[:, None].astype(float))
    pairs = other_labels._by_label(scores[:, None], observed, np.array([p]))
    others = other_labels._others(observed, np.array([p]), seed=0)
    common, ridge = np.array([1.0, shared, 0.0, 0.0]), np.array(other_labels.RIDGE)
    out = np.empty((2, n), np.float32)
    kernels.held_out(0, 1, pairs, others, 3, common, ridge, np.zeros(0), 1e-12, out)
    f = np.column_stack([scores, np.ones(n), np.ones(n), np.zeros(n)]).astype(float)
    for fold in range(3):
        fit, own = others.fold != fold, others.fold == fold

        def cost(c: np.ndarray, fit: np.ndarray = fit) -> float:
            z, penalty = f[fit] @ c, 0.5 * float((ridge * (c - common) ** 2).sum())
            terms = np.where(y[fit], np.logaddexp(0, -z), -np.log1p(-p * expit(z)))
            return float(terms.sum()) + penalty

        starts = [common + np.array([0, move, 0, 0]) for move in (0.0, -shared, -2 * shared)]
        best = min((minimize(cost, start, method="BFGS") for start in starts), key=lambda m: m.fun)
        np.testing.assert_allclose(out[1][own], f[own] @ best.x, atol=1e-2)
    assert np.abs(np.median(out[1])) < 3


def test_a_frequent_label_among_rare_ones_is_not_certain_everywhere() -> None:
    """Its scores are as low as theirs: one intercept for all labels would make it sure."""
    rng = np.random.default_rng(4)
    n, rare = 1200, 20
    odds = rng.normal(0, 2, (n, rare + 1)) + np.r_[0.0, np.full(rare, -6.0)]
    true = rng.random(odds.shape) < expit(odds)
    p = np.r_[0.77, np.full(rare, 0.5)]
    observed = (true & (rng.random(odds.shape) < p)).astype(int)
    scores = 0.2 * (odds - odds.mean(axis=0)) - np.r_[0.1, np.full(rare, 0.9)]
    q = join(scores, observed, p).probabilities.toarray()
    np.testing.assert_allclose((p * q).sum(axis=0)[0], observed[:, 0].sum(), rtol=0.1)
    hidden = observed[:, 0] == 0
    assert roc_auc_score(true[hidden, 0], q[hidden, 0]) > 0.8
    assert np.quantile(q[:, 0], 0.25) < 0.5


def test_what_all_labels_share_has_no_slope_left() -> None:
    observed = sp.csr_array(OBSERVED)
    pairs = other_labels._by_label(SCORES, observed, P)
    others = other_labels._others(observed, P, seed=0)
    every = np.arange(pairs.rows.size)
    common = other_labels._common(pairs, others, every)
    f, y = kernels.described(pairs, others, every), pairs.observed
    p = pairs.propensity.astype(float)

    def total(c: np.ndarray) -> float:
        return float(other_labels._surprise(f @ c, p, y).sum())

    best = minimize(total, common, method="BFGS", options={"gtol": 1e-6})
    np.testing.assert_allclose(common, best.x, atol=2e-3)
    np.testing.assert_allclose(f[0], described(0)[pairs.rows[0]], rtol=1e-6)


def topics(n: int, seed: int, strength: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """True labels of which two belong together, observed ones, and scores that know neither."""
    rng = np.random.default_rng(seed)
    topic = rng.random((n, 1)) < 0.3
    rate = np.where(topic, 0.3 + 0.6 * strength, 0.3 - 0.25 * strength)
    true = (rng.random((n, 3)) < np.c_[rate, rate, np.full(n, 0.3)]).astype(int)
    observed = true * (rng.random((n, 3)) < 0.5)
    return true, observed, np.full((n, 3), np.log(0.3 / 0.7))


def test_other_labels_are_used_where_they_tell_something() -> None:
    true, observed, scores = topics(20_000, 0, 1.0)
    joined = join(scores, observed, [0.5] * 3)
    assert joined.stage == "other labels"
    assert joined.penalty in other_labels.PENALTIES
    q = joined.probabilities.toarray()
    hidden = observed[:, 0] == 0
    with_other, without = hidden & (observed[:, 1] == 1), hidden & (observed[:, 1] == 0)
    missing = q[:, 0] * 0.5 / (1 - 0.5 * q[:, 0])  # of pairs that are not observed
    for part in (with_other, without):
        np.testing.assert_allclose(missing[part].mean(), true[part, 0].mean(), atol=0.03)
    assert joined.surprise["score"] == 0
    assert min(joined.surprise.values()) < 0


def test_on_independent_labels_other_labels_are_not_used() -> None:
    _, observed, scores = topics(400, 1, 0.0)
    joined = join(scores, observed, [0.5] * 3)
    assert joined.stage == "score"
    assert joined.penalty == np.inf


def test_lists_and_sparse_scores_name_the_pairs() -> None:
    dense = join(SCORES, OBSERVED, P).probabilities
    for form in (sp.csr_array(SCORES), TopK.from_scores(SCORES, L)):
        other = join(form, OBSERVED, P).probabilities
        np.testing.assert_allclose(other.toarray(), dense.toarray(), rtol=1e-5)
    few = join(TopK.from_scores(SCORES, 2), OBSERVED, P).probabilities
    assert few.nnz == 2 * N


def test_unlikely_pairs_keep_the_common_calibration() -> None:
    scores = SCORES + np.float32(2 * OBSERVED)
    scores[(OBSERVED[:, 3] == 0), 3] = -12.0
    joined = join(scores, OBSERVED, P).probabilities
    assert joined.nnz == N * L
    pairs = other_labels._by_label(scores, sp.csr_array(OBSERVED), P)
    others = other_labels._others(sp.csr_array(OBSERVED), P, seed=0)
    every = np.arange(pairs.rows.size)
    rng = np.random.default_rng([0, 1])
    sample = np.sort(rng.permutation(pairs.rows.size)[: other_labels.SAMPLE])
    common = other_labels._common(pairs, others, sample)
    likely, rest = other_labels._likely(pairs, others, common)
    assert (pairs.score[rest] == -12.0).any()
    assert likely.size + rest.size == N * L
    exact = expit(kernels.described(pairs, others, every) @ common)[rest]
    labels = np.searchsorted(pairs.start, rest, side="right") - 1
    once_more = logit(joined.toarray()[pairs.rows[rest], labels])
    line = np.polynomial.Polynomial.fit(logit(exact), once_more, 1)
    np.testing.assert_allclose(line(logit(exact)), once_more, rtol=1e-7)  # all below 0: one slope


def test_what_does_not_fit_is_refused() -> None:
    for scores, labels, message in [
        (SCORES[:3], OBSERVED, "must have the same shape; got"),
        (sp.csr_array(SCORES[:, :2]), OBSERVED, "must have the same shape; got"),
        (TopK([[9]] * N, [[0.5]] * N), OBSERVED, "labels up to 9"),
        (TopK([[L]] * N, [[0.5]] * N), OBSERVED, f"labels up to {L}"),
        (SCORES, np.zeros((N, L)), "none of the scored labels is observed"),
        (np.where(SCORES > 1, np.nan, SCORES), OBSERVED, "scores must be finite"),
    ]:
        with pytest.raises(ValueError, match=message):
            join(scores, labels, P)  # type: ignore[arg-type]


def test_the_last_calibration_is_likeliest_and_rises() -> None:
    observed = (np.random.default_rng(6).random((N, L)) < P * expit(SCORES)).astype(float)
    pairs = other_labels._by_label(SCORES, sp.csr_array(observed), P)
    every = np.arange(pairs.rows.size)
    z = 3.0 * pairs.score.astype(float) + 1.0  # too sure
    terms = np.column_stack([np.ones(z.size), z, np.maximum(z, 0)])
    p = pairs.propensity.astype(float)

    def missed(own: np.ndarray) -> float:
        return float(other_labels._surprise(terms @ own, p, pairs.observed).sum())

    own = minimize(missed, [0.0, 0.3, 0.0], method="BFGS", options={"gtol": 1e-6}).x
    assert 0.2 < own[1] < 0.6
    assert own[1] + own[2] > 0
    np.testing.assert_allclose(other_labels._less_sure(z, pairs, every), terms @ own, atol=2e-3)
    reversed_ = np.where(pairs.observed, -1.0, 1.0) + 0.1 * z  # what is observed has the smaller z
    np.testing.assert_array_equal(other_labels._less_sure(reversed_, pairs, every), reversed_)


@pytest.mark.parametrize(("sample", "labels"), [(1, 1), (N, 1), (N + 1, 2), (10**6, L)])
def test_the_stage_is_chosen_on_as_few_labels_as_suffice(
    monkeypatch: pytest.MonkeyPatch, sample: int, labels: int
) -> None:
    """Every label has N pairs."""
    pairs = other_labels._by_label(SCORES, sp.csr_array(OBSERVED), P)
    others = other_labels._others(sp.csr_array(OBSERVED), P, seed=0)
    monkeypatch.setattr(other_labels, "SAMPLE", sample)
    used: list[int] = []

    def held_out(part: kernels.Pairs, *_: object) -> list[np.ndarray]:
        used.append(int((np.diff(part.start) > 0).sum()))
        return [np.zeros(part.rows.size)] * (2 + len(other_labels.PENALTIES))

    monkeypatch.setattr(other_labels, "_held_out", held_out)
    other_labels._chosen_stage(pairs, others, np.zeros(9), np.random.default_rng(0))
    assert used == [labels]
