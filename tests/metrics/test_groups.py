"""Groups of rows and labels: the tables of the parts, and which of them differ."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import false_discovery_control, t

from unmask import LabelSets, TopK, evaluate
from unmask.metrics.claims import Reason


def rows(n: int, seed: int, n_labels: int = 6) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = (rng.random((n, n_labels)) < 0.3).astype(int)
    scores = np.clip(0.3 * labels + 0.6 * rng.random(labels.shape), 0.01, 0.99)
    return labels, scores, rng.uniform(0.5, 1, n_labels)


def test_a_group_is_evaluated_as_if_its_rows_were_all() -> None:
    labels, scores, p = rows(120, seed=0)
    groups = np.array(["b", "a", "a"] * 40)
    entries = sp.csr_array(labels * p)
    cases = [
        (LabelSets.from_scores(scores, 0.5), "micro-F1", lambda x, i: x[i]),
        (TopK.from_scores(scores, 2), "P@2", lambda x, i: TopK(x.labels[i], x.scores[i])),
        (scores, "mAP", lambda x, i: x[i]),
    ]
    for predictions, metric, part in cases:
        for propensity in (p, entries):
            tables = evaluate(predictions, labels, propensity, metrics=[metric], groups=groups)
            assert list(tables) == ["b", "a"]
            for name in ("a", "b"):
                own = groups == name
                q = propensity[own] if propensity is entries else propensity
                alone = evaluate(part(predictions, own), labels[own], q, metrics=[metric])
                for each in alone:
                    cell = tables[name][metric, each.estimator]
                    assert (cell.value, cell.interval) == (each.value, each.interval)
                    assert cell.details["rows"] == own.sum()


def test_a_group_of_labels_has_their_columns() -> None:
    labels, scores, p = rows(100, seed=1)
    groups = ["head", "head", "tail", "tail", "tail", "head"]
    own = np.array(groups) == "tail"
    for predictions in (LabelSets.from_scores(scores, 0.5), scores):
        metric = "micro-F1" if isinstance(predictions, LabelSets) else "mAP"
        tables = evaluate(predictions, labels, p, metrics=[metric], label_groups=groups)
        part = (
            LabelSets(predictions.indicator[:, own])
            if isinstance(predictions, LabelSets)
            else scores[:, own]
        )
        alone = evaluate(part, labels[:, own], p[own], metrics=[metric])[metric, "unbiased"]
        each = tables["tail"][metric, "unbiased"]
        assert (each.value, each.details["labels_in_group"]) == (alone.value, 3)


def test_only_the_group_that_differs_is_called_different() -> None:
    labels, scores, p = rows(1200, seed=2)
    groups = np.arange(1200) % 12
    spoiled = groups == 7
    scores[spoiled] = np.random.default_rng(3).random((spoiled.sum(), 6))
    observed = labels * (np.random.default_rng(4).random(labels.shape) < p)
    tables = evaluate(
        LabelSets.from_scores(scores, 0.5), observed, p, metrics=["micro-F1"], groups=groups
    )
    different = {name for name in tables if tables[name]["micro-F1", "unbiased"].details["differs"]}
    assert different == {"7"}
    assert not any(tables[name]["micro-F1", "vanilla"].details["small"] for name in tables)


def test_a_group_differs_by_the_quantiles_of_t() -> None:
    """Degrees of freedom are one less than the rows, or than the observed labels if fewer."""
    labels, scores, p = rows(120, seed=5)
    labels[40:] = 0
    labels[40:52, 0] = 1  # a group of 80 rows with 12 observed labels
    tables = evaluate(
        LabelSets.from_scores(scores, 0.5), labels, p, metrics=["micro-F1"],
        groups=["many"] * 40 + ["few"] * 80,
    )  # fmt: skip
    many, few = (tables[name]["micro-F1", "vanilla"] for name in ("many", "few"))
    ratio = abs(many.value - few.value) / np.hypot(many.standard_error, few.standard_error)
    wanted = false_discovery_control(2 * t.sf(ratio, [39, 11]))
    assert [each.details["adjusted_p"] for each in (many, few)] == pytest.approx(wanted)


def test_false_marks_are_rare_where_groups_do_not_differ() -> None:
    """In 40 runs of 8 equal groups, unadjusted tests would mark about 16 of them."""
    marks = 0
    for seed in range(40):
        labels, scores, p = rows(400, seed=100 + seed, n_labels=4)
        tables = evaluate(
            LabelSets.from_scores(scores, 0.5), labels, p, metrics=["sample-P"],
            estimators=["vanilla"], groups=np.arange(400) % 8,
        )  # fmt: skip
        marks += sum(tables[g]["sample-P", "vanilla"].details["differs"] for g in tables)
    assert marks <= 6


def test_small_groups_say_so_and_one_group_has_nothing_to_differ_from() -> None:
    labels, scores, _ = rows(60, seed=5)
    sets = LabelSets.from_scores(scores, 0.5)
    tables = evaluate(sets, labels, metrics=["micro-P"], groups=["few"] * 10 + ["more"] * 50)
    assert tables["few"]["micro-P", "vanilla"].details["small"]
    assert not tables["more"]["micro-P", "vanilla"].details["small"]
    (one,) = evaluate(sets, labels, metrics=["micro-P"], groups=["all"] * 60)["all"]
    assert one.details["adjusted_p"] == 1.0


def test_every_label_can_be_a_group() -> None:
    labels, scores, p = rows(150, seed=7, n_labels=25)
    by_label = evaluate(scores, labels, p, metrics=["mAP"], by="label")
    assert list(by_label) == [str(label) for label in range(25)]
    alone = evaluate(scores[:, [4]], labels[:, [4]], p[[4]], metrics=["mAP"])["mAP", "unbiased"]
    assert by_label["4"]["mAP", "unbiased"].value == alone.value
    sets = LabelSets(scores[:, :3] > 0.5, names=["art", "law", "optics"])
    by_name = evaluate(sets, labels[:, :3], metrics=["micro-R"], by="label")
    assert list(by_name) == ["art", "law", "optics"]
    hits = (labels[:, 1] & (scores[:, 1] > 0.5)).sum() / labels[:, 1].sum()
    assert by_name["law"]["micro-R", "vanilla"].value == pytest.approx(hits)
    with pytest.raises(ValueError, match="unknown by 'row'"):
        evaluate(sets, labels[:, :3], metrics=["micro-R"], by="row")


def test_groups_that_do_not_fit_are_refused() -> None:
    labels, scores, p = rows(20, seed=6)
    sets = LabelSets.from_scores(scores, 0.5)
    with pytest.raises(ValueError, match="give a group for each of 20 rows; got 3"):
        evaluate(sets, labels, p, metrics=["micro-P"], groups=[1, 2, 3])
    with pytest.raises(ValueError, match="give a group for each of 6 labels; got 3"):
        evaluate(sets, labels, p, metrics=["micro-P"], label_groups=[1, 2, 3])
    with pytest.raises(ValueError, match="groups of rows or of labels"):
        evaluate(sets, labels, p, metrics=["micro-P"], groups=[1] * 20, label_groups=[1] * 6)
    with pytest.raises(ValueError, match="a ranking of all labels is none of some of them"):
        evaluate(TopK.from_scores(scores, 2), labels, p, metrics=["P@1"], label_groups=[1] * 6)


def test_groups_of_labels_may_be_an_array() -> None:
    labels, scores, p = rows(100, seed=8)
    names = ["head", "tail"] * 3
    tables = [evaluate(scores, labels, p, metrics=["mAP"], label_groups=groups)
              for groups in (names, np.array(names))]  # fmt: skip
    assert tables[0].to_dicts() == tables[1].to_dicts()


def test_a_label_that_was_hardly_observed_is_a_small_group() -> None:
    labels, scores, p = rows(200, seed=9)
    labels[:, 2], labels[:, 4] = 0, 0
    labels[:7, 4] = 1
    sets = LabelSets.from_scores(scores, 0.5)
    tables = evaluate(sets, labels, p, metrics=["micro-F1"], by="label")
    small = [name for name in tables if tables[name]["micro-F1", "unbiased"].details["small"]]
    assert small == ["2", "4"]
    never = tables["2"]["micro-F1", "unbiased"].details
    assert (never["observed"], never["differs"]) == (0, False)


def test_few_rows_that_are_ranked_perfectly_are_not_certain() -> None:
    """Nor are they called different: with nine rows all right, one of them may yet be wrong."""
    labels, scores, p = rows(300, seed=10)
    scores[:9] = np.where(labels[:9], 0.9, 0.1)
    groups = ["few"] * 9 + ["rest"] * 291
    for metric in ("mAP", "macro-AUC"):
        each = evaluate(scores, labels, p, metrics=[metric], groups=groups)["few"][
            metric, "vanilla"
        ]
        assert each.value == 1.0
        assert each.interval[1] - each.interval[0] > 0.05
        assert not each.details["differs"]


def test_groups_print_one_below_the_other_with_their_marks() -> None:
    labels, scores, p = rows(1200, seed=2)
    groups = np.arange(1200) % 12
    scores[groups == 7] = np.random.default_rng(3).random((100, 6))
    groups[:8] = 99
    sets = LabelSets.from_scores(scores, 0.5)
    tables = evaluate(sets, labels, p, metrics=["micro-F1"], estimators=["vanilla"], groups=groups)
    first, *lines = str(tables).splitlines()
    assert first.split() == ["group", "rows", "micro-F1", "vanilla"]
    marked = [line.split()[0] for line in lines[:13] if line.endswith("*")]
    assert marked == ["7"]
    assert "* differs from all others (false-discovery rate 5 %)" in lines
    assert "too few rows or observed labels to say much: 99" in lines
    assert any(line.startswith("all groups: micro-F1 by vanilla: doubtful") for line in lines)
    assert "<caption>estimates by group</caption>" in tables._repr_html_()
    assert tables.to("markdown").count("\n") == 14
    assert r"\begin{tabular}{lrr}" in tables.to("latex")


def test_of_many_groups_the_first_are_printed() -> None:
    labels, scores, p = rows(90, seed=11, n_labels=60)
    tables = evaluate(scores, labels, p, metrics=["mAP"], by="label")
    lines = str(tables).splitlines()
    assert lines[40].split()[0] == "39"
    assert lines[42] == 'and 20 more groups: `to("csv")` has all'
    assert tables.to("csv").count("mAP,unbiased") == 60
    assert lines[0].split()[:2] == ["group", "observed"]
    levels = evaluate(scores, labels, p, metrics=["mAP"], label_groups=["leaf"] * 59 + ["root"])
    assert [line.split()[:2] for line in str(levels).splitlines()[:3]] == [
        ["group", "labels"], ["leaf", "59"], ["root", "1"],
    ]  # fmt: skip


def test_a_group_without_an_empty_row_did_not_lose_them() -> None:
    """Of eight rows none may be empty by chance; of all rows without an empty one that is said."""
    rng = np.random.default_rng(12)
    labels = (rng.random((400, 6)) < 0.5).astype(int)
    labels[labels.sum(axis=1) == 0, 0] = 1
    p = np.full(6, 0.5)
    observed = labels * (rng.random(labels.shape) < p)
    full = np.flatnonzero(observed.sum(axis=1))
    order = np.r_[full[:8], np.setdiff1d(np.arange(400), full[:8])]
    sets, groups = LabelSets(rng.random(labels.shape) < 0.4), ["few"] * 8 + ["rest"] * 392
    tables = evaluate(sets[order], observed[order], p, metrics=["micro-F1"], groups=groups)
    assert tables["few"]["micro-F1", "unbiased"].verdict.reason is not Reason.LEFT_OUT
    kept = evaluate(sets[full], observed[full], p, metrics=["micro-F1"])
    assert kept["micro-F1", "unbiased"].verdict.reason is Reason.LEFT_OUT


def test_means_over_other_labels_are_not_compared() -> None:
    """Groups that do not differ, of which one lacks the labels that are never found."""
    rng = np.random.default_rng(13)
    labels = (rng.random((800, 6)) < 0.3).astype(int)
    labels[:400, 3:] = 0
    sets = LabelSets((labels & (rng.random(labels.shape) < 0.9)) * [1, 1, 1, 0, 0, 0])
    tables = evaluate(sets, labels, metrics=["macro-F1", "micro-P"], groups=np.arange(800) // 400)
    first, second = (tables[name]["macro-F1", "vanilla"].value for name in tables)
    assert first > 1.8 * second
    assert not any(each.details["differs"] for name in tables for each in tables[name])
    same = evaluate(sets, labels, metrics=["macro-F1"], label_groups=["found"] * 3 + ["not"] * 3)
    assert all(each.details["differs"] for name in same for each in same[name])
