"""Groups of rows and labels, and labels that imply one another."""

from __future__ import annotations

import itertools
import math
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import false_discovery_control, t

from unmask import Evaluator, LabelSets, TopK, compare, data, evaluate
from unmask.metrics import contributions
from unmask.metrics.claims import Level, Reason


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


PARENTS = {f"T:{j}": [f"T:{(j - 1) // 2}"] for j in range(1, 15)} | {"T:9": ["T:4", "T:5"]}

TREE = data.hierarchy(PARENTS, names=[f"T:{j}" for j in range(15)])


def rows_of_closure(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels (some in every row) and scores that are no multiples of 0.01."""
    rng = np.random.default_rng(seed)
    labels = (rng.random((n, 15)) < 0.12).astype(int)
    labels[np.arange(n), rng.integers(15, size=n)] = 1
    scores = 0.35 * labels + 0.6 * rng.random((n, 15)) ** 2
    return labels, np.round(scores, 3) + 0.0005


def by_threshold(labels: np.ndarray, scores: np.ndarray, content: np.ndarray) -> list[float]:
    """√(ru² + mi²) at 0.01 … 0.99, where anything is predicted; row by row."""
    sizes = []
    for cut in np.arange(1, 100) / 100:
        chosen = scores >= cut
        if chosen.any():
            missed = sum(content[(y == 1) & ~c].sum() for y, c in zip(labels, chosen, strict=True))
            wrong = sum(content[(y == 0) & c].sum() for y, c in zip(labels, chosen, strict=True))
            sizes.append(math.hypot(missed / len(labels), wrong / len(labels)))
    return sizes


def test_smin_is_the_smallest_over_thresholds() -> None:
    labels, scores = rows_of_closure(40, seed=0)
    content = np.linspace(0, 2, 15)
    each = evaluate(scores, labels, metrics=["Smin"], information=content)["Smin", "vanilla"]
    assert each.value == pytest.approx(min(by_threshold(labels, scores, content)), abs=1e-12)
    assert each.value == pytest.approx(math.hypot(each.details["missed"], each.details["wrong"]))
    best = 1 + int(np.argmin(by_threshold(labels, scores, content)))
    assert each.details["threshold"] == pytest.approx(best / 100)
    assert evaluate(scores, labels, metrics=["Smin"])["Smin", "vanilla"].value == pytest.approx(
        min(by_threshold(labels, scores, np.ones(15))), abs=1e-12
    )
    low = 0.3 * scores  # nothing reaches the higher thresholds: they do not count
    assert evaluate(low, labels, metrics=["Smin"])["Smin", "vanilla"].value == pytest.approx(
        min(by_threshold(labels, low, np.ones(15))), abs=1e-12
    )


def test_missed_and_wrong_information_is_right_on_average_over_all_masks() -> None:
    labels, scores = rows_of_closure(3, seed=1)
    labels[:, 4:] = 0
    p, content = np.linspace(0.4, 0.9, 15), np.linspace(0.5, 2, 15)
    scores[:] = np.where(np.arange(15) % 2, 0.9, 0.05)  # one set at all thresholds from 0.06 on
    scores[:, 0] = 0.995
    pairs, mean = np.argwhere(labels), np.zeros(2)
    for kept in itertools.product([0, 1], repeat=len(pairs)):
        observed = np.zeros_like(labels)
        observed[pairs[:, 0], pairs[:, 1]] = kept
        chance = math.prod(p[j] if k else 1 - p[j] for (_, j), k in zip(pairs, kept, strict=True))
        made = evaluate(
            np.where(scores > 0.5, 1.0, 0.0), observed, p, metrics=["Smin"], information=content
        )["Smin", "unbiased"]
        mean += chance * np.array([made.details["missed"], made.details["wrong"]])
    chosen = scores > 0.5
    assert mean[0] == pytest.approx((content * ((labels == 1) & ~chosen)).sum() / 3, abs=1e-10)
    assert mean[1] == pytest.approx((content * ((labels == 0) & chosen)).sum() / 3, abs=1e-10)


def test_what_rows_add_to_smin_and_its_error() -> None:
    labels, scores = rows_of_closure(60, seed=2)
    p = np.full(15, 0.7)
    asked = {"metrics": ["Smin"], "estimators": ["unbiased"]}
    each = evaluate(scores, labels, p, **asked)["Smin", "unbiased"]
    added = contributions(scores, labels, p, **asked)["Smin", "unbiased"]
    assert added.mean() == pytest.approx(each.value, abs=1e-12)
    assert added.std(ddof=1) / math.sqrt(60) == pytest.approx(each.standard_error, rel=1e-9)
    worse = np.ascontiguousarray(scores[:, ::-1])
    both = compare({"worse": worse, "better": scores}, labels, p, **asked)["better"]
    assert both["Smin", "unbiased"].value < 0
    assert "better is better than worse" in str(both["Smin", "unbiased"].verdict)


def cafa_files(folder: Path, labels: np.ndarray, scores: np.ndarray, ia: np.ndarray) -> None:
    terms = ["format-version: 1.2\n"]
    for j, name in enumerate(TREE.names):
        above = "".join(f"is_a: {parent}\n" for parent in PARENTS.get(name, []))
        terms.append(f"[Term]\nid: {name}\nname: t{j}\nnamespace: one\n{above}")
    (folder / "terms.obo").write_text("\n".join(terms))
    truth = [f"row{i}\t{TREE.names[j]}" for i, j in np.argwhere(labels)]
    (folder / "truth.tsv").write_text("\n".join(truth) + "\n")
    (folder / "ia.tsv").write_text(
        "\n".join(f"{n}\t{x!r}" for n, x in zip(TREE.names, ia.tolist(), strict=True))
    )
    (folder / "predictions").mkdir()
    numbers = scores.tolist()
    lines = [f"row{i}\t{TREE.names[j]}\t{numbers[i][j]!r}\n" for i, j in np.ndindex(scores.shape)]
    (folder / "predictions" / "ours.tsv").write_text("".join(lines))


def test_fmax_and_smin_are_those_of_cafaeval(tmp_path: Path) -> None:
    """On closed labels and scores, with information content, to the last digits."""
    peer = pytest.importorskip("cafaeval.evaluation", reason="cafaeval is not installed")
    labels, scores = rows_of_closure(30, seed=4)
    content = TREE.information_content(rows_of_closure(400, seed=5)[0])
    cafa_files(tmp_path, labels, scores, content)
    files = (str(tmp_path / name) for name in ("terms.obo", "predictions", "truth.tsv"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own, of pandas
        frame, best = peer.cafa_eval(*files, ia=str(tmp_path / "ia.tsv"))
    table = evaluate(scores, labels, metrics=["Fmax", "Smin"], hierarchy=TREE, information=content)
    fmax, smin = table["Fmax", "vanilla"], table["Smin", "vanilla"]
    assert fmax.value == pytest.approx(float(best["f"]["f"].iloc[0]), abs=1e-12)
    assert smin.value == pytest.approx(float(frame["s_w"].min()), abs=1e-12)
    assert fmax.details["threshold"] == pytest.approx(float(best["f"].index[0][2]))


def test_a_hand_computed_case() -> None:
    """a above b above c, and d: the row has c; c at 0.8, d at 0.4."""
    tree = data.hierarchy({"b": ["a"], "c": ["b"], "d": []})
    scores, labels = np.array([[0.1, 0.1, 0.8, 0.4]] * 2), np.array([[0, 0, 1, 0]] * 2)
    table = evaluate(scores, labels, metrics=["Fmax", "Smin", "mAP"], hierarchy=tree)
    assert table["Fmax", "vanilla"].value == 1.0
    assert table["Smin", "vanilla"].value == 0.0
    assert 0.4 < table["Fmax", "vanilla"].details["threshold"] <= 0.8
    sets = evaluate(LabelSets([[1], [2]], n_labels=4), labels, metrics=["micro-P", "micro-R"],
                    hierarchy=tree)  # fmt: skip
    assert sets["micro-P", "vanilla"].value == 1.0
    assert sets["micro-R", "vanilla"].value == pytest.approx(5 / 6)


def test_corrected_numbers_of_closed_labels_are_doubtful_and_say_why() -> None:
    labels, scores = rows_of_closure(300, seed=6)
    labels[:30] = 0
    p = np.full(15, 0.8)
    plain = evaluate(scores, labels, p, metrics=["Smin", "mAP"])
    assert plain["Smin", "unbiased"].verdict.level is Level.CONDITIONAL
    table = evaluate(scores, labels, p, metrics=["Smin", "mAP"], hierarchy=TREE)
    for name in ("Smin", "mAP"):
        verdict = table[name, "unbiased"].verdict
        assert (verdict.level, verdict.reason) == (Level.DOUBTFUL, Reason.CLOSED)
        assert "imply one another" in str(verdict)
        assert table[name, "vanilla"].verdict.reason is Reason.BIASED_BY_DESIGN
    groups = ["a", "b"] * 150
    by_group = evaluate(scores, labels, p, metrics=["mAP"], hierarchy=TREE, groups=groups)
    assert by_group["a"]["mAP", "unbiased"].verdict.reason is Reason.CLOSED
    complete = evaluate(scores, labels, np.ones(15), metrics=["mAP"], hierarchy=TREE)
    assert complete["mAP", "unbiased"].verdict.level is Level.MEASURED


def test_propensities_of_ancestors_follow() -> None:
    labels, scores = rows_of_closure(50, seed=7)
    p = np.linspace(0.5, 0.9, 15)
    closed = TREE.close_labels(labels)
    made = evaluate(scores, labels, p, metrics=["Brier"], hierarchy=TREE)["Brier", "unbiased"]
    same = evaluate(
        TREE.close_scores(scores), closed, TREE.propensity(labels, p), metrics=["Brier"]
    )["Brier", "unbiased"]
    assert made.value == same.value


def test_systems_are_compared_with_their_ancestors() -> None:
    """As the difference of two evaluations, and as a comparison of what was closed by hand."""
    labels, scores = rows_of_closure(120, seed=9)
    worse = np.random.default_rng(1).permuted(scores, axis=0)
    p, names = np.linspace(0.5, 0.9, 15), ["Smin", "mAP"]
    content = TREE.information_content(labels)
    both = {"worse": worse, "better": scores}
    table = compare(both, labels, p, metrics=names, hierarchy=TREE, information=content)["better"]
    by_hand = compare(
        {name: TREE.close_scores(each) for name, each in both.items()}, TREE.close_labels(labels),
        TREE.propensity(labels, p), metrics=names, information=content,
    )["better"]  # fmt: skip
    for name, estimator in [(name, each) for name in names for each in ("vanilla", "unbiased")]:
        cell = table[name, estimator]
        apart = [
            evaluate(each, labels, p, metrics=names, hierarchy=TREE, information=content)
            for each in (scores, worse)
        ]
        values = [each[name, estimator].value for each in apart]
        assert cell.value == pytest.approx(values[0] - values[1], abs=1e-12)
        assert cell.interval == by_hand[name, estimator].interval
    verdict = table["mAP", "unbiased"].verdict
    assert (verdict.level, verdict.reason) == (Level.DOUBTFUL, Reason.CLOSED)
    assert verdict.details["outcome"] == by_hand["mAP", "unbiased"].verdict.details["outcome"]
    assert (verdict.details["system"], verdict.details["first"]) == ("better", "worse")
    sets = {name: LabelSets.from_scores(each, 0.5) for name, each in both.items()}
    closed = compare(sets, labels, p, metrics=["micro-F1"], hierarchy=TREE)["better"]
    of_closed = [
        evaluate(LabelSets(TREE.close_labels(sets[name].indicator)), TREE.close_labels(labels),
                 metrics=["micro-F1"])["micro-F1", "vanilla"].value
        for name in ("better", "worse")
    ]  # fmt: skip
    assert closed["micro-F1", "vanilla"].value == pytest.approx(of_closed[0] - of_closed[1])
    with pytest.raises(ValueError, match="no place in a ranking"):
        compare({"a": scores, "b": TopK.from_scores(scores, 3)}, labels, metrics=["mAP"],
                hierarchy=TREE)  # fmt: skip


def test_what_cannot_be_closed_is_refused() -> None:
    labels, scores = rows_of_closure(10, seed=8)
    with pytest.raises(ValueError, match="no place in a ranking"):
        evaluate(TopK.from_scores(scores, 3), labels, metrics=["P@1"], hierarchy=TREE)
    with pytest.raises(ValueError, match="one propensity per label"):
        evaluate(scores, labels, sp.csr_array(labels * 0.5), metrics=["mAP"], hierarchy=TREE)
    with pytest.raises(ValueError, match="give the labels of the data set"):
        evaluate(scores, data.Dataset(None, labels), metrics=["mAP"], hierarchy=TREE)
    for wrong in ([-1.0] * 15, [[1.0] * 15], [math.inf] * 15):
        with pytest.raises(ValueError, match="information must hold"):
            Evaluator(metrics=["Smin"], information=wrong)
    with pytest.raises(ValueError, match="3 information contents for 15 labels"):
        evaluate(scores, labels, metrics=["Smin"], information=[1.0] * 3)
    one = Evaluator(metrics=["Smin"], information=[1.0] * 15).update(scores, labels)
    with pytest.raises(ValueError, match="same information content"):
        one.merge(Evaluator(metrics=["Smin"], information=[2.0] * 15))


def test_propensities_of_labels_that_are_closed_already_stay() -> None:
    """Annotations that are stored with their ancestors: what is stated is of these."""
    labels, scores = rows_of_closure(50, seed=7)
    p = np.linspace(0.5, 0.9, 15)
    closed = TREE.close_labels(labels)
    made = evaluate(scores, closed, p, metrics=["Brier"], hierarchy=TREE)["Brier", "unbiased"]
    same = evaluate(TREE.close_scores(scores), closed, p, metrics=["Brier"])["Brier", "unbiased"]
    assert made.value == same.value
