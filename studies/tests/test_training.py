"""The training study: its Adam is Adam, its measures are the library's, its statements can fail."""

from __future__ import annotations

import builtins
import json
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.stats

pytest.importorskip("torch", reason="needs torch")
import torch
from scipy.sparse import csr_array

from tests.helpers.command import run as command
from unmask import linear, losses, pages
from unmask.files import append_record, read_records, remove_records
from unmask.metrics import evaluate
from unmask.predictions import TopK
from unmask.torch import MissingLabelLoss
from unmask.weights import Weights, count_distribution, unbiased, vanilla
from unmask.weights.corrections import with_values
from unmask_studies import encoder, network
from unmask_studies.study import DataSets, Row, read_rows, rows_file
from unmask_studies.training import LOSSES, TRAINING, only, optimise, page, protocol, statements
from unmask_studies.training.protocol import PROBLEMS, SETTINGS, weights_of


@pytest.fixture(scope="module")
def given() -> protocol.Trial:
    return protocol.trial(None, 0, 0, 1300)


def test_a_trial_follows_the_protocol(given: protocol.Trial) -> None:
    train, valid, test = (given.parts[name] for name in protocol.PARTS)
    known = train.true.shape[0] + valid.true.shape[0]
    assert train.true.shape[1] == protocol.LABELS
    assert valid.true.shape[0] == round(0.3 * known)
    assert np.isclose(1 / given.propensity.min(), 20)
    assert np.isclose(1 / given.propensity.max(), 2)
    for part in (train, valid, test):
        assert (part.true - part.observed).min() >= 0  # labels go missing, none is added
        assert 0 < part.observed.nnz < part.true.nnz
    fit = count_distribution(train.observed, given.propensity)
    assert fit.rows[0] > 0  # rows that lost all labels stay in the study
    assert not fit.without_empty
    other = protocol.trial(None, 1, 0, 1300)
    assert (other.parts["test"].observed != test.observed).nnz > 0
    assert (other.train.features != train.features).nnz > 0


@pytest.mark.parametrize(
    ("name", "setting"),
    [("ova-bce", "bound"), ("pal-n-cce", "empirical_bayes"), ("ova-n-sqh", "b")],
)
def test_training_is_adam_on_the_penalised_loss(
    given: protocol.Trial, name: str, setting: str
) -> None:
    """Against autograd of the written-out objective, dense, under `torch.optim.Adam`."""
    problem = PROBLEMS[name]
    weights = weights_of(SETTINGS["vanilla" if setting == "b" else setting], problem, given)
    loss, l2, rate = losses.get(problem.loss), 0.01, 0.05
    phase = optimise.Phase(lambda _: loss, weights, 4, 1)
    features = given.train.features
    model = optimise.train(features, [phase], l2=l2, rate=rate, seed=7)

    dense = torch.as_tensor(features.toarray())
    kernel = torch.zeros(dense.shape[1], protocol.LABELS, requires_grad=True)
    bias = torch.zeros(protocol.LABELS, requires_grad=True)
    optimiser = torch.optim.Adam([kernel, bias], lr=rate)
    value = MissingLabelLoss(np.ones(protocol.LABELS), loss=loss, correction="vanilla")
    for epoch in range(4):
        optimiser.param_groups[0]["lr"] = rate * (0.1 if epoch == 3 else 1.0)
        order = np.random.default_rng([7, epoch]).permutation(len(dense))
        for start in range(0, len(order), protocol.BATCH):
            rows = order[start : start + protocol.BATCH]
            optimiser.zero_grad()
            scores = dense[rows] @ kernel + bias
            (value(scores, weights=weights[rows]) + l2 / 2 * (kernel**2).sum()).backward()
            optimiser.step()
    torch.testing.assert_close(model.weights, kernel.detach(), rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(model.bias, bias.detach(), rtol=1e-3, atol=1e-4)


def test_runs_of_the_same_seed_are_identical(given: protocol.Trial) -> None:
    unit = next(u for u in TRAINING.units("tiny", 0, None) if u["setting"] == "pretrained"
                and u["optimizer"] == "adam")  # fmt: skip
    assert list(TRAINING.measure(**unit)) == list(TRAINING.measure(**unit))


def test_measures_are_those_of_the_library(given: protocol.Trial) -> None:
    (row,) = optimise.by_solver(given, "pal-n-cce", "bound", 1e-3)
    recipe = linear.Recipe(loss="softmax", reduction="pal", correction="bound",
                                   normalized=True, l2=1e-3, bias="free", max_iter=40)  # fmt: skip
    of = given.parts["valid"]
    model, _ = linear.train(
        given.train.features, given.train.observed, recipe, propensity=given.propensity
    )
    scores = linear.scores(model, of.features)
    top = TopK.from_scores(scores, 5)
    table = evaluate(top, of.observed, given.propensity,
                     metrics=["R@5"], estimators=["deconvolved"])  # fmt: skip
    assert row["valid/true/R@5"] == pytest.approx(evaluate(top, of.true)["R@5", "vanilla"].value)
    assert row["valid/seen/R@5/deconvolved"] == pytest.approx(table["R@5", "deconvolved"].value)
    exact = unbiased(of.observed, given.propensity, normalized=True, reduction="pal")
    expected = losses.total("softmax", scores, exact).mean()
    assert row["valid/seen/loss"] == pytest.approx(expected, rel=1e-3, abs=1e-3)
    expected = losses.total("softmax", scores, vanilla(of.true, normalized=True)).mean()
    assert row["valid/true/loss"] == pytest.approx(expected, rel=1e-4)
    assert row["status"] == "converged"


def test_unbiased_ova_n_has_one_minimum(given: protocol.Trial) -> None:
    """The paper sees local minima; the objective is convex, and two starts end alike."""
    (cold,) = optimise.by_solver(given, "ova-n-bce", "unbiased", 1e-2)
    (warm,) = optimise.by_solver(given, "ova-n-bce", "pretrained", 1e-2)
    assert cold["convex"]
    assert cold["runaway"] > 0
    assert cold["bias"] == "regularized"
    assert warm["objective"] == pytest.approx(cold["objective"], rel=1e-3)


def test_what_is_not_convex_is_not_solved(given: protocol.Trial) -> None:
    (row,) = optimise.by_solver(given, "ova-sqh", "unbiased", 1e-2)
    assert row["status"] == "not convex"
    assert "test/true/R@5" not in row


@pytest.mark.parametrize("name", ["ova-bce", "ova-sqh", "pal-cce"])
def test_runaway_biases_are_those_that_have_no_minimum(name: str) -> None:
    """Against the loss itself, far out along the bias of every label."""
    loss = losses.get(PROBLEMS[name].loss)
    seen = np.array([[1, 1, 0], [1, 0, 0], [1, 0, 1], [0, 0, 0]])
    pos = unbiased(seen, np.ones(3)).pos
    pos = with_values(pos, np.array([3.0, -2.0, 1.5, 1.0, 0.5]))
    weights = Weights(pos, pos)
    ends = (-1e6,) if loss.reduction == "pal" else (-1e6, 1e6)
    falls = [
        min(losses.total(loss, far * np.eye(3)[[label] * 4], weights).sum() for far in ends) < -1e5
        for label in range(3)
    ]
    assert optimise.promises(loss, weights, PROBLEMS[name])["runaway"] == sum(falls)
    assert any(falls)
    assert not all(falls)


def test_divided_scores_stand_for_divided_probabilities() -> None:
    scores = torch.tensor([[-3.0, -1.0, 0.5]])
    p = np.array([0.5, 0.8, 0.9])
    ova, ranking = optimise.divided(losses.logistic, scores, p)
    expected = torch.sigmoid(scores) / torch.as_tensor(p, dtype=torch.float32)
    torch.testing.assert_close(torch.sigmoid(ova), expected)
    torch.testing.assert_close(ranking.exp(), expected)
    pal, _ = optimise.divided(losses.softmax, scores, p)
    quotient = torch.softmax(scores, 1) / torch.as_tensor(p, dtype=torch.float32)
    torch.testing.assert_close(torch.softmax(pal, 1), quotient / quotient.sum())


def test_a_power_of_p_may_move_from_weights_to_prediction(given: protocol.Trial) -> None:
    """Both agree for a constant model: its softmax is ∝ Σ pos."""
    whole = weights_of(SETTINGS["empirical_bayes"], PROBLEMS["pal-n-cce"], given).pos.sum(axis=0)
    eased = weights_of(SETTINGS["halved"], PROBLEMS["pal-n-cce"], given).pos.sum(axis=0)
    later = SETTINGS["halved"].later
    shown = whole > 0
    scores = torch.as_tensor(np.log(eased[shown]))[None]
    moved, _ = optimise.divided(losses.softmax, scores, given.propensity[shown] ** later)
    np.testing.assert_allclose(torch.softmax(moved, 1)[0], whole[shown] / whole.sum())


def test_decisions_are_counted() -> None:
    chosen = np.array([[True, False], [True, True]])
    row = optimise.decisions(chosen, csr_array([[1, 0], [0, 1]]))
    assert row["test/true/micro-F1"] == pytest.approx(4 / 5)  # 2 hits, 3 chosen, 2 true
    assert row["test/true/macro-F1"] == pytest.approx((2 / 3 + 1) / 2)


def test_the_paper_size_is_the_papers_protocol() -> None:
    units = protocol.units("paper", 0, None)
    assert {unit["repetition"] for unit in units} == set(range(5))
    by_adam = [u for u in units if u["optimizer"] == "adam" and u["repetition"] == 0]
    grids = {name: sorted({u["l2"] for u in by_adam if u["problem"] == name}) for name in PROBLEMS}
    assert all(len(grid) == 11 for grid in grids.values())
    np.testing.assert_allclose(np.log10([grids["pal-cce"][-1], grids["pal-cce"][0]]), [0, -7])
    np.testing.assert_allclose(np.log10([grids["ova-sqh"][-1], grids["ova-sqh"][0]]), [1.4, -5.6])
    settings = {u["setting"] for u in by_adam if u["problem"] == "ova-n-bce"}
    assert settings == set(SETTINGS)
    assert protocol.rate_for(protocol.PAPER_STEPS * protocol.BATCH) == pytest.approx(1e-4)


def test_some_losses_are_a_part_of_the_study() -> None:
    whole = [json.dumps(u, default=str) for u in TRAINING.units("tiny", 0, None)]
    parts = [json.dumps(u, default=str) for name in LOSSES
             for u in only([name]).units("tiny", 0, None)]  # fmt: skip
    assert sorted(parts) == sorted(whole)
    with pytest.raises(ValueError, match="unknown loss 'bce'; use one of"):
        only(["bce"])


def test_a_folder_without_data_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds neither debtags-bookworm nor a train"):
        protocol.folder_of(DataSets.inside(tmp_path))


def test_the_data_set_is_the_default_one_the_folder_itself_or_the_one_of_kept_rows(
    tmp_path: Path,
) -> None:
    for part in ("train", "test"):
        (tmp_path / f"{part}.txt").write_text("1 1 1\n0 0:1\n")
    assert protocol.folder_of(DataSets.inside(tmp_path)) == tmp_path
    (tmp_path / protocol.DEFAULT).mkdir()
    assert protocol.folder_of(DataSets.inside(tmp_path)) == tmp_path / protocol.DEFAULT
    kept = DataSets(None, frozenset({tmp_path.name}))
    assert protocol.folder_of(kept) == Path(tmp_path.name)
    assert protocol.folder_of(None) is None


def rows_of(values: dict[tuple[str, str, str], list[float]]) -> list[Row]:
    """Rows of runs at two l2, the larger one worse in every respect."""
    return [
        {"optimizer": path[0], "problem": path[1], "setting": path[2], "repetition": r, "l2": l2,
         "status": "converged", **_measures(value - 0.1 * (l2 > 0.01))}
        for path, series in values.items() for r, value in enumerate(series)
        for l2 in (1e-3, 1.0)
    ]  # fmt: skip


def _measures(value: float) -> dict[str, Any]:
    row: dict[str, Any] = {f"test/true/{m}": value for m in protocol.METRICS}
    for part in protocol.PARTS:
        row |= {f"{part}/true/loss": 1 - value, f"{part}/seen/loss": 1 - value}
    return row | {"valid/seen/R@5/deconvolved": value, "valid/true/R@5": value}


PAL_N = ("vanilla", "unbiased", "bound", "empirical_bayes")


def outcome_of(values: list[list[float]]) -> str:
    paths = {("converged", "pal-n-cce", s): v for s, v in zip(PAL_N, values, strict=True)}
    found = statements.collect(rows_of(paths))
    claims = [v for v in statements.ours(found) if "R@5" in v.words]
    return claims[0].badge if claims else "not run"


def test_our_claims_hold_or_fail_by_the_rows() -> None:
    low, high = [0.80, 0.82, 0.81], [0.81, 0.83, 0.83]
    assert outcome_of([low, low, low, high]) == "holds"
    assert outcome_of([low, low, high, low]) == "contradicted"
    assert outcome_of([low, low, [0.81, 0.82, 0.8], high]) == "undecided"  # within the spread
    assert outcome_of([[0.8], [0.8], [0.8], [0.9]]) == "undecided"
    assert outcome_of([[], low, low, high]) == "not run"


def test_effects_are_the_intervals_of_a_paired_t_test() -> None:
    gain = np.array([0.012, 0.031, -0.004, 0.021])
    low, high = 100 * np.array(scipy.stats.ttest_1samp(gain, 0).confidence_interval())
    expected = f"{100 * gain.mean():+.2f} points ({low:+.2f} to {high:+.2f})"
    assert statements.effect_text(gain) == expected
    assert statements.effect_text(gain[:1]) == "+1.20 points"
    assert statements.effect_text(gain[:0]) == ""


def test_a_claim_shows_the_difference_to_its_closest_rival() -> None:
    low, high = [0.80, 0.82, 0.81], [0.81, 0.83, 0.83]
    near = [0.805, 0.825, 0.82]
    paths = {
        ("converged", "pal-n-cce", s): v for s, v in zip(PAL_N, [low, near, low, high], strict=True)
    }
    claims = statements.ours(statements.collect(rows_of(paths)))
    (claim,) = (c for c in claims if c.words.startswith("PAL-N CCE: empirical Bayes")
                and "R@5" in c.words)  # fmt: skip
    effect = statements.effect_text(np.array(high) - np.array(near))
    assert claim.effect == f"R@5 {effect} over unbiased, the closest"


def test_pairs_are_of_the_same_repetition() -> None:
    rows = rows_of({("adam", "ova-bce", "bound"): [0.1, 0.2, 0.3],
                    ("adam", "ova-bce", "vanilla"): [0.0, 0.0, 0.0]})  # fmt: skip
    del rows[2:4]  # repetition 1 of the first
    found = statements.collect(rows)
    gain = found.gain(("adam", "ova-bce", "bound"), ("adam", "ova-bce", "vanilla"), "loss",
                      "test/true/R@5")  # fmt: skip
    np.testing.assert_allclose(gain, [0.1, 0.3])


def test_the_clean_setting_chooses_with_true_labels() -> None:
    rows = rows_of({("adam", "ova-bce", "clean"): [0.5]})
    rows[1] |= {"valid/true/loss": -1.0, "valid/true/R@5": 0.9}
    found = statements.collect(rows)
    for rule in ("loss", "recall"):
        assert found.values(("adam", "ova-bce", "clean"), rule, "l2") == [1.0]


def test_papers_statements_can_hold_be_contradicted_or_not_be_run() -> None:
    vanilla_, unbiased_ = [0.8, 0.81], [0.5, 0.6]
    rows = rows_of({("adam", "pal-n-cce", "vanilla"): vanilla_,
                    ("adam", "pal-n-cce", "unbiased"): unbiased_,
                    ("adam", "pal-n-cce", "bound"): unbiased_})  # fmt: skip
    outcome = {v.words: v.badge for v in statements.papers(statements.collect(rows))}
    assert outcome["PAL-N CCE: unbiased is worse than vanilla"] == "holds"
    assert outcome["PAL-N CCE: bound is better than vanilla"] == "contradicted"
    assert "OvA-N BCE: unbiased is worse than vanilla" not in outcome  # there are no such runs


@pytest.mark.slow
def test_some_losses_are_drawn_alone(tmp_path: Path) -> None:
    options = ["--size", "tiny", "--losses", "pal-n-cce", "-o", tmp_path]
    first = command("reproduce", "training", *options)
    assert first.returncode == 0, first.stderr
    page = (tmp_path / "training.md").read_text(encoding="utf-8")
    assert "<summary>What was done</summary>" in page
    assert "PAL-N CCE" in page
    assert "OvA squared hinge |" not in page
    rows = read_rows(rows_file(tmp_path / "rows", "training", "tiny"))
    chosen = {"optimizer": "adam", "setting": "bound", "l2": 1.0}
    (row,) = (r for r in rows if chosen.items() <= r.items())
    assert row["test/true/R@5"] > 0
    (packed,) = (tmp_path / "rows").iterdir()
    whole = read_records(packed)
    remove_records(packed)
    for record in whole[:2] + whole[3:]:  # one is measured again
        for row in record["rows"]:
            row["commit"] = "kept"
        append_record(packed, record)
    again = command("reproduce", "training", *options)
    assert again.returncode == 0, again.stderr
    assert [r["key"] for r in read_records(packed)] == [r["key"] for r in whole]
    anew = [r["key"] for r in read_records(packed) if r["rows"][0]["commit"] != "kept"]
    assert anew == [whole[2]["key"]]
    assert (tmp_path / "training.md").read_text(encoding="utf-8") == page


def test_the_first_picture_shows_what_training_gets_back() -> None:
    """Means over repetitions of the run that validation chooses, in percent, lowest end below."""

    def path(setting: str, *recalls: float) -> dict[int, list[dict[str, Any]]]:
        run = {"setting": setting, "valid/true/R@5": 0.5, "valid/seen/R@5/deconvolved": 0.5}
        worse = {**run, "valid/true/R@5": 0.4, "valid/seen/R@5/deconvolved": 0.4}
        return {
            number: [{**worse, "test/true/R@5": 0.99}, {**run, "test/true/R@5": value}]
            for number, value in enumerate(recalls)
        }

    paths = {
        ("converged", "ova-bce", "vanilla"): path("vanilla", 0.78, 0.82),
        ("converged", "ova-bce", "clean"): path("clean", 0.9, 0.9),
        ("adam", "pal-n-cce", "clean"): path("clean", 0.9),
    }
    drawn = page.recovered(statements.Results(paths))
    assert drawn is not None
    (chart,) = drawn.charts
    assert [(s.name, s.x) for s in chart.series] == [
        ("complete labels", ("complete labels",)), ("as they are", ("as they are",)),
    ]  # fmt: skip
    assert chart.series[0].y == pytest.approx((90.0,))
    assert chart.series[1].y == pytest.approx((80.0,))
    assert chart.series[1].low == pytest.approx((80 - 8**0.5,))
    assert chart.series[1].high == pytest.approx((80 + 8**0.5,))
    assert [(rule.name, rule.value) for rule in chart.rules] == [("as they are", 80.0)]
    assert isinstance(chart.y, pages.Axis)
    assert chart.y.low == pytest.approx(80 - 8**0.5 - 1)
    assert page.recovered(statements.Results({})) is None


def test_objectives_are_mean_loss_and_half_the_penalty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A training that ends above where it began has diverged."""
    monkeypatch.setattr(optimise, "observed", lambda weights: None)
    monkeypatch.setattr(optimise, "mean_loss", lambda loss, scores, entries: 2 + float(scores[0]))
    trial: Any = SimpleNamespace(train=SimpleNamespace(features=None))

    def ended(loss: float, square: float, **bias: str) -> dict[str, Any]:
        model: Any = SimpleNamespace(
            finite=True, square=square, bias=torch.tensor([2.0]),
            scores=lambda _: torch.tensor([loss - 2]),
        )  # fmt: skip
        return optimise.objective(trial, None, None, model, 0.5, **bias)  # type: ignore[arg-type]

    assert ended(1.0, 4.0) == {"objective": 2.0, "norm": 2.0, "status": "finished"}
    assert ended(1.0, 4.4)["status"] == "diverged"
    assert ended(1.0, 4.0, bias="regularized")["objective"] == 3.0
    diverged: Any = SimpleNamespace(finite=False)
    assert optimise.objective(trial, None, None, diverged, 0.5) == {"status": "diverged"}  # type: ignore[arg-type]


def test_claims_at_the_bar_itself() -> None:
    """Two points to the digit are far better; much larger is more than twice."""
    numbers = {"test/true/loss": 1.5, "train/true/loss": 1.0, "train/seen/loss": 0.0, "l2": 1e-3}
    stated: Any = SimpleNamespace(
        paths={("adam", "ova-bce", "vanilla")},
        over_l2=lambda path, key: ([1e-3], np.full((3, 1), numbers[key])),
        gain=lambda *_: np.array([0.02, 0.02, 0.02]),
        best_l2=lambda path: 1e-3,
    )
    assert 100 * stated.gain().mean() == statements.ALIKE
    claims = {claim.words: claim.badge for claim in statements.papers(stated)}
    assert claims["OvA squared hinge: bound is far better than unbiased"] == "holds"
    [dominates] = statements.gaps(stated)
    assert dominates.badge == "contradicted"
    numbers["train/seen/loss"] = -0.01
    [dominates] = statements.gaps(stated)
    assert dominates.badge == "holds"


@pytest.mark.parametrize("shared", [True, False])
def test_smoothed_weights_are_times_a_power_of_the_propensity(shared: bool) -> None:
    """By the label of every entry; what is one matrix stays one, what are two stay two."""
    p = np.array([0.25, 0.04, 1.0])
    pos = csr_array(np.array([[4.0, 0, 3], [0, 25, 0]]))
    cut = pos if shared else csr_array(np.array([[2.0, 0, 1], [0, 5, 0]]))
    made = protocol.smoothed(Weights(pos, cut), p, 0.5)
    np.testing.assert_allclose(made.pos.toarray(), [[2, 0, 3], [0, 5, 0]])
    assert (made.cut is made.pos) == shared
    if not shared:
        np.testing.assert_allclose(made.cut.toarray(), [[1, 0, 1], [0, 1, 0]])
    kept = Weights(pos, cut)
    assert protocol.smoothed(kept, p, 0.0) is kept


def test_without_torch_a_study_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = builtins.__import__

    def refuse(name: str, *args: Any, **options: Any) -> ModuleType:
        if name == "unmask_studies.training.optimise" or "network" in (args[2] or ()):
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
        return usual(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    for study in (TRAINING, encoder.ENCODER):
        with pytest.raises(ValueError, match=r"needs PyTorch .*install unmask\[torch\]"):
            list(study.measure(**study.units("tiny", 0, None)[0]))


def trained() -> tuple[network.Network, csr_array]:
    """A network of 3 words and 6 labels, and rows to rank."""
    features = csr_array(np.array([[1.0, 0.0, 0.5], [0.0, 0.0, 0.0], [0.2, 0.4, 0.0]]))
    parts = network.Parts(features, csr_array(np.eye(3, 6)), features, csr_array(np.eye(3, 6)),
                          features)  # fmt: skip
    plan = network.Plan("vanilla", 0, (0.1,), 1, 3)
    (made,) = network.trained(parts, np.full(6, 0.5), plan, 0.1)
    return made, features


def test_rankings_are_those_of_all_scores() -> None:
    made, features = trained()
    words, bias = made.encoder.weight.detach().numpy(), made.output.bias.detach().numpy()  # type: ignore[union-attr]
    scores = features @ words @ made.output.weight.detach().numpy().T + bias[:, 0]
    p = np.array([0.9, 0.1, 0.5, 0.2, 1.0, 0.3])
    ratios = 1 / (1 + np.exp(-scores)) / p
    for found, wanted in ((made.top(features), scores), (made.top(features, p), ratios)):
        assert found is not None
        np.testing.assert_array_equal(found.labels, np.argsort(-wanted)[:, :5])


def test_a_network_that_diverged_predicts_nothing_and_is_not_chosen() -> None:
    made, features = trained()
    made.output.weight.data[2] = np.nan
    assert made.top(features) is None
    parts = network.Parts(features, features, features, features, features)
    assert network._estimate(None, parts, np.ones(3)) == -np.inf
