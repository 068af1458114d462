"""Closed metrics: CAFA's Fmax and Smin by hand and by cafaeval, and the doubt that they carry."""

from __future__ import annotations

import itertools
import math
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from unmask import Evaluator, LabelSets, TopK, compare, data, evaluate
from unmask.metrics import contributions
from unmask.metrics.claims import Level, Reason

PARENTS = {f"T:{j}": [f"T:{(j - 1) // 2}"] for j in range(1, 15)} | {"T:9": ["T:4", "T:5"]}
TREE = data.hierarchy(PARENTS, names=[f"T:{j}" for j in range(15)])


def rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
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
    labels, scores = rows(40, seed=0)
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
    labels, scores = rows(3, seed=1)
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
    labels, scores = rows(60, seed=2)
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
    labels, scores = rows(30, seed=4)
    content = TREE.information_content(rows(400, seed=5)[0])
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
    labels, scores = rows(300, seed=6)
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
    labels, scores = rows(50, seed=7)
    p = np.linspace(0.5, 0.9, 15)
    closed = TREE.close_labels(labels)
    made = evaluate(scores, labels, p, metrics=["Brier"], hierarchy=TREE)["Brier", "unbiased"]
    same = evaluate(
        TREE.close_scores(scores), closed, TREE.propensity(labels, p), metrics=["Brier"]
    )["Brier", "unbiased"]
    assert made.value == same.value


def test_systems_are_compared_with_their_ancestors() -> None:
    """As the difference of two evaluations, and as a comparison of what was closed by hand."""
    labels, scores = rows(120, seed=9)
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
    labels, scores = rows(10, seed=8)
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
    labels, scores = rows(50, seed=7)
    p = np.linspace(0.5, 0.9, 15)
    closed = TREE.close_labels(labels)
    made = evaluate(scores, closed, p, metrics=["Brier"], hierarchy=TREE)["Brier", "unbiased"]
    same = evaluate(TREE.close_scores(scores), closed, p, metrics=["Brier"])["Brier", "unbiased"]
    assert made.value == same.value
