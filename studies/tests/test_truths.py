"""Truths of the studies are true: scenarios, populations, pairs, strata, masks."""

from __future__ import annotations

import gzip
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import t as student

from unmask import TopK, data, evaluate, linear, propensity, tree
from unmask.diagnosis.findings import TestKind
from unmask.models.linear import Shard
from unmask_studies import audit, missing, propensities, reality, recall, trust, tuning
from unmask_studies import data as studied
from unmask_studies import tree as of_trees
from unmask_studies.data import Population, Split, population_of, rows_of, scores_at
from unmask_studies.scenarios import SCENARIOS, Masked, Setting, calibrated, parents_of
from unmask_studies.study import DataSets
from unmask_studies.training.protocol import Rows, Trial

# Scenarios

WRONG_MARGINALS = {
    "p × 0.5 stated", "p × 0.7 stated", "p × 1.4 stated", "p × 2 stated", "permuted",
    "frequency drift", "2 % spurious", "10 % spurious", "non-empty rows only",
}  # fmt: skip


def masked(name: str) -> tuple[Setting, Masked]:
    labels = data.synthetic.planted(4000, n_labels=30, seed=3).labels
    labels = sp.csr_array(labels[np.diff(labels.indptr) > 0])
    rng = np.random.default_rng(0)
    scores = rng.standard_normal(labels.nnz)
    before = Setting(labels, np.linspace(0.15, 0.5, 30), scores, parents_of(labels), rng)
    return before, SCENARIOS[name](before)


def test_scenarios_keep_true_labels_and_state_their_marginals() -> None:
    """Label by label, within five standard errors of a binomial with few independent rows."""
    for name in SCENARIOS:
        before, after = masked(name)
        true_labels = sp.csr_array(before.true_labels[after.rows])
        wrong = after.observed.nnz - sp.csr_array(after.observed.multiply(true_labels)).nnz
        share = {"2 % spurious": 0.02, "10 % spurious": 0.1}.get(name, 0.0)
        assert wrong / after.observed.nnz == pytest.approx(share, abs=1e-3), name
        assert ((after.stated > 0) & (after.stated <= 1)).all()
        assert after.observed.shape == (len(after.rows), 30)
        if name not in WRONG_MARGINALS:
            total, kept = studied.counts_of(true_labels), studied.counts_of(after.observed)
            error = np.sqrt(2 * after.stated * (1 - after.stated) / total)
            assert (np.abs(kept / total - after.stated) < 5 * error + 4 / total).all(), name


def test_rows_vary_more_or_less_than_under_independent_masks() -> None:
    for name, low, high in (
        ("right", 0.95, 1.05), ("labels compete in pairs", 0.3, 0.8), ("row effort 0.3", 1.1, 2.0),
        ("row effort 0.8", 1.5, 4.0), ("20 % of rows never annotated", 1.1, 3.0),
    ):  # fmt: skip
        before, after = masked(name)
        expected = before.true_labels @ before.p
        variance = before.true_labels @ (before.p * (1 - before.p))
        observed = np.diff(after.observed.indptr)
        assert low < ((observed - expected) ** 2).sum() / variance.sum() < high, name


def test_what_a_scenario_says_is_what_it_does() -> None:
    assert np.diff(masked("at most 3 labels")[1].observed.indptr).max() == 3
    assert np.diff(masked("non-empty rows only")[1].observed.indptr).min() == 1
    before, after = masked("hierarchy closed")
    dense, true_labels = after.observed.toarray() > 0, before.true_labels.toarray() > 0
    for label, above in enumerate(before.parents):
        assert dense[dense[:, label] & true_labels[:, above], above].all()
    before, after = masked("kept more at high scores")
    kept = sp.csr_array(after.observed)[before.rows, before.labels] > 0
    assert before.scores[kept].mean() > before.scores[~kept].mean() + 0.5


def test_chances_are_calibrated_label_by_label() -> None:
    rng = np.random.default_rng(0)
    labels, p = rng.integers(5, size=500), np.array([0.1, 0.3, 0.5, 0.7, 0.9])
    chances = calibrated(labels, p, 2 * rng.standard_normal(500))
    for label in range(5):
        assert chances[labels == label].mean() == pytest.approx(p[label], abs=1e-9)


# Populations


def same_as_evaluation(population: Population, labels: Any, top: TopK, weights: Any = None) -> None:
    truth = population.truth(labels, top, weights)
    found = evaluate(top, labels, metrics=list(truth))
    for name, value in truth.items():
        assert value == pytest.approx(found[name, "vanilla"].value, rel=1e-12), name


def test_the_truth_is_the_metric_of_the_population() -> None:
    """Sums of all rows, of rows that count more than once, and of labels that stand there once."""
    population = population_of(None)
    same_as_evaluation(population, population.labels, population.top)
    times = np.random.default_rng(0).integers(0, 3, size=population.labels.shape[0])
    repeated = np.repeat(np.arange(times.size), times)
    labels, top = population.labels[repeated], rows_of(population.top, repeated)
    same_as_evaluation(population, sp.csr_array(labels), top, times.astype(float))
    for seed in range(5):
        rng, dense = np.random.default_rng(seed), np.zeros((3, 15), np.float32)
        for row in dense:
            row[rng.permutation(15)[: rng.integers(1, 4)]] = 1
        few, top = sp.csr_array(dense), TopK.from_scores(rng.random((3, 15)), 5)
        same_as_evaluation(Population(few, top, np.zeros(few.nnz), few), few, top)


def test_metrics_per_label_are_about_the_labels_of_the_sample() -> None:
    population, few = population_of(None), np.arange(3)
    truth = population.truth(sp.csr_array(population.labels[few]), rows_of(population.top, few))
    recalls = []
    for label in np.unique(population.labels[few].indices):
        rows = np.flatnonzero(population.labels[:, [label]].toarray().ravel())
        recalls.append(np.mean([(population.top.labels[row] == label).any() for row in rows]))
    assert truth["macro-R@5"] == pytest.approx(np.mean(recalls))


def test_scores_are_those_of_true_and_of_predicted_labels() -> None:
    labels = sp.csr_array(np.array([[0.0, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]]))
    top = TopK([[1, 3], [2, 1], [0, 3]], [[0.9, 0.2], [0.8, 0.7], [0.6, 0.5]])
    expected = [[0, 0.9, 0.3, 0.2], [0.1, 0.7, 0.8, 0], [0.6, 0, 0, 0.5]]
    made = scores_at(labels, top, np.array([0.9, 0.3, 0.1])).toarray()
    np.testing.assert_allclose(made, expected)
    for n in (3, 512, 600):  # as many rows as a model scores at once, fewer and more
        rows = data.synthetic.planted(n, n_features=12, n_labels=5, labels_per_row=2, seed=0)
        rng = np.random.default_rng(0)
        weights = rng.normal(size=(5, 12)).astype(np.float32)
        model = linear.LinearModel((Shard(weights, np.zeros(5, np.float32)),), "logistic")
        top = linear.predict_top(model, rows.features, 2)
        split = Split(rows.features, rows.labels, rows.features, rows.labels)
        pair = reality.Pair(split, rows.labels, rows.labels, np.ones(5))
        chosen = rows.labels.toarray() > 0
        np.put_along_axis(chosen, top.labels, True, axis=1)
        wanted = np.where(chosen, rows.features @ weights.T, 0.0)
        made = reality._scores(model, pair, top).toarray()
        np.testing.assert_allclose(made, wanted, atol=1e-5)


# Jester: natural masks

RATED = sp.csr_array(np.array([[0.0, 0, 0]] * 3 + [[1, 1, 0], [1, 0, 0], [1, 1, 1], [1, 1, 0]]))


@pytest.mark.parametrize("draw", [2, 3])
def test_natural_masks_are_those_of_users_drawn_from_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, draw: int
) -> None:
    """Seven users and three jokes; every second draw also has masks of the same rates."""
    monkeypatch.setattr(recall.data, "read", lambda *_, **__: SimpleNamespace(labels=RATED))
    rng = np.random.default_rng(0)
    true = sp.csr_array((rng.random((260, 3)) < 0.8).astype(float))
    split = Split(sp.csr_array((7, 2)), RATED, sp.csr_array((260, 2)), true)
    rates, natural = recall.jester_masks(tmp_path, split, draw)
    np.testing.assert_allclose(rates, [4 / 7, 3 / 7, 1 / 7])
    users = np.random.default_rng(draw).integers(7, size=260)
    wanted = RATED.toarray()[users] * true.toarray()
    np.testing.assert_array_equal(natural.toarray(), wanted)
    monkeypatch.setattr(trust, "split_of", lambda folder: split)
    top = TopK.from_scores(rng.random((260, 3)), 3)
    monkeypatch.setattr(trust, "best", lambda split, labels, k: {5: top}[k])
    rows = list(trust.measure_masks(tmp_path / recall.JESTER, draw, few=False))
    names = [trust.NATURAL, *trust.DRAWN] if draw % 2 == 0 else [trust.NATURAL]
    assert [(row["masks"], row["way"]) for row in rows] == [
        (m, w) for m in names for w in trust.WAYS
    ]
    assert {row["audited"] for row in rows} == {200}


# Pairs of recorded and complete labels

OBSERVED = [[1, 0, 0], [0, 1, 0], [0, 0, 0], [1, 0, 0]]
TRUE = [[1, 1, 0], [0, 1, 0], [0, 1, 1], [1, 0, 0]]
LATER = [[1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]]


def written(folder: Path, name: str, labels: list[list[int]]) -> None:
    """Labels without features, packed."""
    rows = [",".join(str(j) for j, is_on in enumerate(row) if is_on) for row in labels]
    text = f"{len(rows)} 0 3\n" + "".join(f"{row}\n" for row in rows)
    (folder / f"{name}.txt.gz").write_bytes(gzip.compress(text.encode()))


def test_a_pair_in_parts_keeps_training_and_test_rows_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = reality.About("", "", later="later_{part}", others=("other_{part}",),
                          raw="raw_{part}", features=False)  # fmt: skip
    monkeypatch.setitem(reality.PAIRS, tmp_path.name, about)
    for name, labels in (("{part}", OBSERVED), ("truth_{part}", TRUE), ("later_{part}", LATER),
                         ("other_{part}", TRUE), ("raw_{part}", LATER)):  # fmt: skip
        written(tmp_path, name.format(part="train"), labels[:3])
        written(tmp_path, name.format(part="test"), labels[1:])
    pair = reality.pair_of.__wrapped__(tmp_path)
    for labels, wanted in (
        (pair.split.train_labels, OBSERVED[:3]), (pair.observed, OBSERVED[1:]),
        (pair.true_train, TRUE[:3]), (pair.true_test, TRUE[1:]), (pair.later, LATER[:3]),
        (pair.others[0], TRUE[:3]), (pair.raw, LATER[1:]),
    ):  # fmt: skip
        assert labels.toarray().tolist() == wanted
    kept, present = np.array([2, 2, 0]), np.array([2, 5, 2])  # of both parts
    assert pair.p == pytest.approx((kept + 2 * 4 / 9) / (present + 2))
    (tmp_path / "p_true.txt").write_text("0.5\n0.25\n0\n")
    assert reality.pair_of.__wrapped__(tmp_path).p.tolist() == [0.5, 0.25, 1e-3]
    whole = reality.About("", "", observed="observed", truth="truth", features=False)
    monkeypatch.setitem(reality.PAIRS, tmp_path.name, whole)
    written(tmp_path, "observed", OBSERVED)
    written(tmp_path, "truth", TRUE)
    pair = reality.pair_of.__wrapped__(tmp_path)
    assert (
        pair.split.train_labels.toarray().tolist() == pair.observed.toarray().tolist() == OBSERVED
    )
    assert pair.true_train.toarray().tolist() == pair.true_test.toarray().tolist() == TRUE
    assert (pair.later, pair.others, pair.raw) == (None, (), None)


def test_a_third_of_planted_rows_are_for_testing() -> None:
    made = reality.pair_of(None, 31)
    assert [made.split.train_features.shape[0], made.split.test_features.shape[0]] == [21, 10]
    observed = made.split.train_labels
    assert (observed.multiply(made.true_train) != observed).nnz == 0  # nothing is invented
    assert 0 < observed.nnz < made.true_train.nnz
    assert not np.array_equal(made.others[0].toarray(), observed.toarray())


# Audits


@pytest.mark.parametrize("shift", [0.0, 0.4, 0.8])
def test_an_interval_misses_if_it_does_after_any_row_from_the_tenth(shift: float) -> None:
    rng = np.random.default_rng(0)
    answers = set()
    for size in (5, 9, 10, 25):
        values, n = rng.random(size), 60
        truth = 0.5 + shift
        misses = []
        for m in range(10, size + 1):
            mean, sd = values[:m].mean(), values[:m].std(ddof=1)
            half = student.ppf(0.975, m - 1) * sd / np.sqrt(m) * np.sqrt(1 - m / n)
            misses.append(abs(mean - truth) > half)
        assert audit.ever_missed(values, truth, n) == int(any(misses))
        answers.add(any(misses))
    assert shift != 0.8 or answers == {False, True}


def test_sequences_that_leave_the_truth_out_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four repetitions: one lies above, one below, one touches it, and one holds it."""
    rng = np.random.default_rng(0)
    true = sp.csr_array((rng.random((40, 6)) < 0.4).astype(np.float32))
    about = audit.Problem("small", true, TopK.from_scores(rng.random((40, 6)), 5), np.full(6, 0.5))
    truth = about.truth("R@5")
    bands = iter([(truth + 0.1, truth + 0.4), (truth - 0.2, truth - 0.1), (truth, truth + 0.3),
                  (truth - 0.1, truth + 0.1)])  # fmt: skip
    looked = []

    def betting(values: Any, rows: Any, n: int, z: Any, *, planned: int) -> Any:
        looked.append((len(values), len(set(rows.tolist())), n, planned))
        low, high = next(bands)
        return np.array([0.0, low]), np.array([1.0, high])

    monkeypatch.setattr(audit, "betting", betting)
    monkeypatch.setattr(audit, "ever_missed", lambda values, truth, n: 1)
    rows = list(audit._sequences(about, audit.hidden(about, "right", 0), 4, 0))
    assert looked == [(20, 20, 40, 20)] * 4
    assert [row["missed"] for row in rows] == [0.5, 1.0]
    assert [row["width"] for row in rows] == pytest.approx([0.225, 0.225])


def test_a_summary_of_runs_by_hand() -> None:
    """Ends belong to an interval; runs without a number count as repeats alone."""
    values = np.array([0.5, 0.7, np.nan, 0.4])
    ends = np.array([[0.3, 0.6], [0.6, 0.9], [np.nan, np.nan], [0.2, 0.5]])
    made = audit.summary(values, ends, 0.6)
    assert (made["repeats"], made["truth"], made["inside"]) == (4, 0.6, 2)
    assert made["bias"] == pytest.approx((-0.1 + 0.1 - 0.2) / 3)
    assert made["rmse"] == pytest.approx(np.sqrt((0.01 + 0.01 + 0.04) / 3))
    assert made["width"] == pytest.approx(0.3)
    nothing = audit.summary(np.array([np.nan]), np.full((1, 2), np.nan), 0.6)
    assert (nothing["bias"], nothing["rmse"], nothing["width"]) == (None, None, None)


def test_masks_of_audits_hide_true_labels() -> None:
    """Spurious ones alone put a tenth of wrong labels there."""
    true = data.synthetic.planted(900, n_features=40, n_labels=30, seed=2).labels
    top = TopK.from_scores(np.random.default_rng(1).random(true.shape), 30)
    about = audit.Problem("planted", true, top, np.linspace(0.3, 0.9, 30))
    hidden = {kind: audit.hidden(about, kind, 5) for kind in audit.MASKS}
    for kind, observed in hidden.items():
        wrong = 1 - observed.multiply(true).nnz / observed.nnz
        assert wrong == pytest.approx(0.1 if kind == "spurious" else 0, abs=0.01), kind
        assert 0 < observed.nnz < true.nnz
    rank = np.argsort(np.argsort(-top.scores, axis=1), axis=1)
    place = np.empty(true.shape)
    np.put_along_axis(place, top.labels, rank, axis=1)
    kept = hidden["score"].toarray() > 0
    assert place[kept].mean() < place[(true.toarray() > 0) & ~kept].mean() - 2
    empty = {kind: (np.diff(observed.indptr) == 0).mean() for kind, observed in hidden.items()}
    assert empty["never annotated"] > empty["right"] + 0.1
    assert empty["effort .8"] > empty["effort .5"] > empty["right"]


# Single studies


def test_repetitions_of_a_diagnosis_go_on_from_the_first_seed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seeds: list[int] = []

    def alarms(case: str, rows: int, seed: int) -> Any:
        seeds.append(seed)
        return set(), {TestKind.ROW} if seed % 4 == 0 else set()

    monkeypatch.setattr(propensities, "_alarms", alarms)
    valid = next(iter(propensities.VALID))
    asked: dict[str, Any] = {"strength": 0.0, "repetitions": 4, "rows": 10, "first_seed": 6}
    without, with_audit = propensities.measure_power(valid, **asked)
    assert seeds == [6, 7, 8, 9]
    assert (without["audited"], without["any"]) == (False, 0)
    assert (with_audit["audited"], with_audit["any"]) == (True, 0.25)
    for case, (_, _, meant, audited) in propensities.VIOLATIONS.items():
        others = [kind for kind in TestKind if kind not in meant][:1]
        answers = iter([set(), {next(iter(meant))}, set(others)] * 2)
        monkeypatch.setattr(propensities, "_rejected", lambda tests, own=answers: next(own))
        (row,) = propensities.measure_power(case, **{**asked, "rows": 60, "repetitions": 6})
        assert row["audited"] == audited
        assert row["meant"] == pytest.approx(1 / 3)
        assert row["any"] == pytest.approx(1 / 3 if meant == set(TestKind) else 2 / 3)


def test_what_is_stated_of_propensities() -> None:
    p = np.array([0.8, 0.3, 0.5, 0.6])
    split: Any = SimpleNamespace(labels=sp.csr_array(np.ones((50, 4))), p=p)
    for masks in tuning.MASKS:
        observed, stated = tuning.observed_of(split, masks, 3)
        assert 0 < observed.nnz < split.labels.nnz
        wanted = {"half": p / 2, "twice": np.minimum(1, 2 * p), "Jain": propensity.jain(observed),
                  "permuted": stated}  # fmt: skip
        np.testing.assert_array_equal(stated, np.asarray(wanted.get(masks, p)))
        assert masks != "permuted" or sorted(stated.tolist()) == sorted(p.tolist())
        assert (tuning.observed_of(split, masks, 3)[0] != observed).nnz == 0


@pytest.mark.parametrize("way", ["clean", "vanilla", "unbiased"])
def test_only_clean_training_is_chosen_by_the_truth(
    monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    rng = np.random.default_rng(0)
    true = (rng.random((60, 8)) < 0.4).astype(np.float32)
    observed = true * (rng.random(true.shape) < 0.7)
    top, p = TopK.from_scores(true + rng.random(true.shape), 5), np.full(8, 0.7)
    rows = Rows(sp.csr_array((60, 2)), sp.csr_array(true), sp.csr_array(observed))
    monkeypatch.setattr(linear, "predict_top", lambda *_: top)
    model: Any = None
    by_truth = evaluate(top, true, metrics=["R@5"])["R@5", "vanilla"].value
    asked: Any = {"metrics": ["R@5"], "estimators": ["deconvolved"]}
    as_left = evaluate(top, observed, p, **asked)["R@5", "deconvolved"].value
    assert by_truth != as_left
    chosen = missing._noisy(Trial({"valid": rows}, p, 0), model, way)
    assert chosen == pytest.approx(by_truth if way == "clean" else as_left)


ROWS = data.synthetic.planted(300, n_features=60, n_labels=50, labels_per_row=3, seed=2)


def test_vanilla_leaves_are_those_of_the_tree() -> None:
    """A leaf node solves one-vs-all on the rows that reach it; both models give five labels."""
    p = np.linspace(0.2, 0.9, 50)
    recipe = tree.TreeRecipe("logistic", n_trees=1, arity=4, leaf=6, tol=1e-6, prune_below=0.0)
    model = tree.train(ROWS.features, ROWS.labels, recipe)
    assert model.trees[0].shape.levels == 3

    def scores(correction: str | None) -> Any:
        own = model if correction is None else of_trees.with_leaves(
            model, ROWS.features, ROWS.labels, p, correction, 1.0)  # fmt: skip
        top = tree.predict_top(own, ROWS.features, 50, beam=None)
        return np.take_along_axis(top.scores, np.argsort(top.labels), axis=1)

    ours, theirs, raised = scores(None), scores("vanilla"), scores("bound")
    np.testing.assert_allclose(ours, theirs, atol=0.05)
    assert np.abs(ours - theirs).max() > 0  # solved anew
    gain = (raised - ours)[ROWS.labels.toarray() > 0]
    assert (gain > 0).mean() > 0.9  # observed labels weigh more
    flat = of_trees.one_vs_all(ROWS.features, ROWS.labels, p, "squared_hinge", "vanilla", 1.0)
    for each in (model, flat):
        assert of_trees.predicted(each, ROWS.features[:3], "score", p).k == 5


def test_rows_for_trees_are_hidden_as_stated_and_finna_is_drawn_once() -> None:
    for rows in (600, of_trees.SAMPLE):
        case = of_trees.case_of(None, rows, 0)
        assert case.x.shape[0] + case.test_x.shape[0] == rows
        assert case.truth is not None
        assert (case.tested - case.truth).max() <= 0  # nothing is invented
        assert case.tested.sum() / case.truth.multiply(case.p).sum() == pytest.approx(1, abs=0.1)
    names = frozenset((*of_trees.HIDDEN, of_trees.AS_IT_IS))
    units = of_trees.units("paper", 0, DataSets(None, names))
    assert len(units) == len(of_trees.TRAININGS) * (3 * 3 + 1)
    folders = [unit["folder"] and unit["folder"].name for unit in units]
    draws = {(name, unit["draw"]) for name, unit in zip(folders, units, strict=True)}
    often = {(name, draw) for name in (*of_trees.HIDDEN, None) for draw in range(3)}
    assert draws == {(of_trees.AS_IT_IS, 0), *often}
    assert {unit["rows"] for unit in of_trees.units("paper", 0, None)} == {600}
