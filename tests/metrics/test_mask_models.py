"""Metrics under mask models: effort enters the deconvolution, doubt is carried on and said."""

from __future__ import annotations

import numpy as np
import pytest

from unmask import data, evaluate, propensity
from unmask.metrics import Evaluator
from unmask.predictions import TopK
from unmask.propensity import MaskModel

P = np.linspace(0.3, 0.6, 30)
OPTIONS = {"metrics": ["R@5"], "estimators": ["unbiased", "deconvolved"]}


@pytest.fixture(scope="module")
def case():
    """True labels, and a model that ranks them above others by chance."""
    truth = data.synthetic.independent(4_000, 30, seed=0)
    noise = np.random.default_rng(1).normal(size=truth.shape)
    return truth, TopK.from_scores(truth.toarray() + 0.8 * noise, 5)


def test_a_plain_model_gives_the_numbers_of_its_propensities(case):
    truth, top = case
    observed = data.hide(truth, P, seed=2)
    by_vector, by_model = (evaluate(top, observed, p, **OPTIONS) for p in (P, MaskModel(P)))
    for one, other in zip(by_vector, by_model, strict=True):
        assert (one.value, one.interval) == (other.value, other.interval)


@pytest.mark.parametrize(("effort", "share"), [(0.8, 0.0), (0.0, 0.3)])
def test_the_true_recall_comes_back_where_independence_is_wrong(case, effort, share):
    truth, top = case
    mask = MaskModel(P, effort, share)
    observed = data.hide(truth, mask, seed=3)
    true = evaluate(top, truth, metrics=["R@5"])["R@5", "vanilla"].value
    wrong = evaluate(top, observed, P, **OPTIONS)["R@5", "deconvolved"]
    right = evaluate(top, observed, mask, **OPTIONS)["R@5", "deconvolved"]
    assert abs(right.value - true) < 0.5 * abs(wrong.value - true)
    assert abs(right.value - true) < 3 * right.standard_error + 0.01


def test_what_a_number_is_conditional_on_is_said(case):
    truth, top = case
    mask = MaskModel(P, 0.5, 0.2)
    observed = data.hide(truth, mask, seed=4)
    table = evaluate(top, observed, mask, metrics=["R@5"], estimators=["deconvolved"])
    sentence = str(table["R@5", "deconvolved"].verdict)
    assert "row effort ρ = 0.5" in sentence
    assert "20% of the rows not annotated" in sentence
    assert "independently" not in sentence


@pytest.mark.parametrize(("effort", "share"), [(0.8, 0.0), (0.0, 0.3)])
def test_corrections_row_by_row_are_doubted_where_labels_are_lost_together(case, effort, share):
    """Unbiased recall misses the truth then; P@k and micro recall add labels up and do not care."""
    truth, top = case
    mask = MaskModel(P, effort, share)
    metrics = ["R@5", "P@5", "micro-R@5"]
    observed = data.hide(truth, mask, seed=3)
    table = evaluate(top, observed, mask, metrics=metrics, estimators=["unbiased", "deconvolved"])
    doubted = table["R@5", "unbiased"]
    true = evaluate(top, truth, metrics=metrics)
    assert not doubted.interval[0] < true["R@5", "vanilla"].value < doubted.interval[1]
    assert (doubted.verdict.level, doubted.verdict.reason) == ("doubtful", "row-effort")
    assert str(doubted.verdict).endswith("assume that they are not; use deconvolved")
    assert table["R@5", "deconvolved"].verdict.level == "conditional"  # and not for disagreeing
    for name in ("P@5", "micro-R@5"):
        each = table[name, "unbiased"]
        assert each.verdict.level == "conditional"
        assert abs(each.value - true[name, "vanilla"].value) < 3 * each.standard_error
    alone = evaluate(top, observed, mask, metrics=["R@5"], estimators=["unbiased"])
    assert str(alone["R@5", "unbiased"].verdict).endswith("audit some hundred rows")


def test_wrong_labels_make_every_correction_doubtful(case):
    truth, top = case
    mask = MaskModel(P, spurious=0.1)
    table = evaluate(top, data.hide(truth, mask, seed=5), mask, **OPTIONS)
    for each in table:
        assert each.verdict.level >= "doubtful"
    assert "10.0% of the observed labels are wrong" in str(table["R@5", "deconvolved"].verdict)


def test_doubt_about_effort_widens_the_interval(case):
    truth, top = case
    mask = MaskModel(P, 0.5)
    observed = data.hide(truth, mask, seed=6)
    audited = propensity.audit(observed[:150], truth[:150], mask="effort", curve="free")
    options = {**OPTIONS, "estimators": ["deconvolved"]}
    doubted = evaluate(top, observed, audited, draws=15, **options)["R@5", "deconvolved"]
    certain = evaluate(top, observed, audited.centre, **options)["R@5", "deconvolved"]
    assert doubted.value == certain.value
    assert doubted.standard_error > 1.2 * certain.standard_error


def test_shards_under_one_model_merge_to_the_bit_and_others_are_refused(case):
    truth, top = case
    mask = MaskModel(P, 0.5)
    observed = data.hide(truth, mask, seed=7)

    def shard(rows: slice, model: MaskModel) -> Evaluator:
        part = TopK(top.labels[rows], top.scores[rows])
        return Evaluator(model, **OPTIONS).update(part, observed[rows])

    merged = shard(slice(0, 900), mask).merge(shard(slice(900, None), mask)).compute()
    whole = evaluate(top, observed, mask, **OPTIONS)
    assert merged["R@5", "deconvolved"].value == whole["R@5", "deconvolved"].value
    with pytest.raises(ValueError, match="same settings"):
        shard(slice(0, 900), mask).merge(shard(slice(900, None), MaskModel(P)))
