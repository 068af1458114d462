"""Findings before people: what is asked, what comes back, what it may be used for."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from unmask import TopK, audit, data, evaluate, missing
from unmask.data import Dataset
from unmask.metrics.intervals import wilson
from unmask.missing import Reviewed
from unmask.missing.repair import Origin

LABELS = np.array([[1, 0, 0], [0, 0, 0], [0, 1, 0]])
CHANCES = np.array([[0.9, 0.8, 0.1], [0.3, 0.95, 0.2], [0.6, 0.9, 0.05]])
ROWS = Dataset(
    None, LABELS, label_names=("art", "law", "tax"), ids=("x", "y", "z"), texts=("a", "b", "c")
)


def found() -> missing.Findings:
    return missing.find(CHANCES, ROWS, [0.5, 0.5, 0.5])


def test_all_findings_are_asked_once_in_random_order() -> None:
    asked = missing.review(found(), texts=ROWS.texts, seed=3)
    pairs = set(zip(found().rows.tolist(), found().labels.tolist(), strict=True))
    assert {(q.row, q.label) for q in asked.sheet.questions} == pairs
    assert [q.row_name for q in asked.sheet.questions] == ["xyz"[r] for r in asked.rows]
    assert [q.text for q in asked.sheet.questions] == ["abc"[r] for r in asked.rows]
    assert (np.diff(asked.probability) > 0).any()  # not likeliest first
    assert not any(q.hint for q in asked.sheet.questions)
    stated = dict(
        zip(zip(found().rows, found().labels, strict=True), found().probability, strict=True)
    )
    np.testing.assert_allclose(
        asked.probability, [stated[pair] for pair in zip(asked.rows, asked.labels, strict=True)]
    )
    other = missing.review(found(), seed=4).sheet
    assert other.key != asked.sheet.key
    assert missing.review(found(), seed=3).sheet.key == asked.sheet.key


def test_answers_come_back_from_every_format(tmp_path: Path) -> None:
    asked = missing.review(found(), texts=ROWS.texts)
    asked.write(tmp_path / "review.json")
    again = missing.read_review(tmp_path / "review.json")
    assert again.sheet == asked.sheet
    np.testing.assert_allclose(again.probability, asked.probability, atol=1e-6)
    lines = [f"{q.id},{'yes' if q.label == 1 else 'no'}" for q in asked.sheet.questions]
    (tmp_path / "ann.csv").write_text(
        "\n".join(["question,answer", *lines[:-1], f"{lines[-1].split(',')[0]},unsure"])
    )
    reviewed = again.reviewed(audit.read(again.sheet, tmp_path / "ann.csv"))
    assert reviewed.rows.size == len(found()) - 1
    np.testing.assert_array_equal(reviewed.answers, reviewed.labels == 1)
    assert (reviewed.measures, reviewed.asked) == (True, len(found()))
    for name in ("label-studio", "argilla"):
        files = audit.write_sheet(asked.sheet, tmp_path / f"{name}.json", format=name)
        assert files[0].exists()


def test_a_random_part_of_the_findings_measures_their_precision() -> None:
    reviewed = Reviewed(
        [0, 1, 2, 3], [0] * 4, [1, 1, 1, 0], [0.9] * 4, (9, 1), random=True, asked=8
    )
    value, low, high = reviewed.precision()
    exact = wilson(0.75, 8.0, 1.959964)  # four of eight: half of the variance
    np.testing.assert_allclose((value, low, high), (0.75, *exact), rtol=1e-5)
    every = Reviewed([0, 1], [0, 0], [1, 0], [0.9] * 2, (9, 1), random=True, asked=2)
    assert every.precision() == (0.5, 0.5, 0.5)


def test_a_list_of_pairs_repairs_and_measures_nothing() -> None:
    own = Reviewed([0, 1], [1, 0], [1, 0], [np.nan] * 2, (3, 3))
    assert not own.measures
    with pytest.raises(ValueError, match="repair the data"):
        own.precision()
    for reviewed in (own, Reviewed([0], [1], [1], [0.5], (3, 3), random=True, asked=1)):
        with pytest.raises(ValueError, match=r"got Reviewed\. Answers about pairs that"):
            evaluate(TopK([[0]] * 3, [[1.0]] * 3), LABELS, audit=reviewed)  # type: ignore[call-overload]


def test_repaired_data_say_where_every_label_is_from(tmp_path: Path) -> None:
    reviewed = Reviewed([0, 1, 2], [1, 0, 1], [1, 0, 0], [0.67, 0.18, np.nan], (3, 3))
    repaired = missing.complete(ROWS, reviewed, 0.9, findings=found())
    expected = {
        (0, 0): Origin.OBSERVED, (0, 1): Origin.CONFIRMED, (1, 0): Origin.REFUTED,
        (1, 1): Origin.IMPUTED, (2, 1): Origin.REFUTED,
    }  # fmt: skip
    pairs = zip(repaired.rows.tolist(), repaired.labels.tolist(), strict=True)
    assert dict(zip(pairs, repaired.origin, strict=True)) == expected
    np.testing.assert_allclose(repaired.probability, [np.nan, 0.67, 0.18, 0.95 / 1.05, np.nan])
    for labels, exact in (
        (repaired.dataset.labels, [[1, 0, 0], [0, 1, 0], [0, 1, 0]]),
        (repaired.dataset.after_judgements.labels, [[1, 1, 0], [0, 1, 0], [0, 0, 0]]),
    ):
        np.testing.assert_array_equal(labels.toarray(), exact)
    np.testing.assert_array_equal(
        repaired.dataset.judgements.toarray(), [[0, 1, 0], [-1, 0, 0], [0, -1, 0]]
    )
    assert repaired.counts() == {"observed": 1, "confirmed": 1, "imputed": 1, "refuted": 2}
    target, beside = repaired.write(tmp_path / "repaired.csv")
    assert data.read(target).labels_of(0) == ("art", "law")
    assert beside.name == "repaired-provenance.csv"
    assert beside.read_text().splitlines()[:4] == [
        "id,label,origin,probability", "x,art,observed,", "x,law,confirmed,0.67",
        "y,art,refuted,0.18",
    ]  # fmt: skip


def test_later_judgements_take_the_place_of_earlier_ones() -> None:
    judged = sp.csr_array(([1.0, 2.0], ([0, 1], [2, 2])), shape=(3, 3))
    rows = Dataset(None, LABELS, judgements=judged)
    repaired = missing.complete(rows, Reviewed([0, 2], [2, 0], [0, 1], [0.5] * 2, (3, 3)))
    np.testing.assert_array_equal(
        repaired.dataset.judgements.toarray(), [[0, 0, -1], [0, 0, 2], [1, 0, 0]]
    )


def test_what_does_not_fit_is_refused() -> None:
    for call, message in [
        (lambda: missing.complete(ROWS), "nothing to repair with"),
        (lambda: missing.complete(ROWS, threshold=0.5), "needs findings"),
        (lambda: missing.complete(ROWS, threshold=1.5, findings=found()), "threshold must lie in"),
        (lambda: missing.complete(ROWS, Reviewed([0], [0], [1], [0.5], (2, 3))), "are of 2 and 3"),
        (lambda: missing.complete(Dataset(np.ones((3, 1)), None), None, 0.5), "has no labels"),
        (lambda: Reviewed([0], [0, 1], [1], [0.5], (2, 3)), "as many labels and answers"),
        (lambda: Reviewed([5], [0], [1], [0.5], (2, 3)), "rows must lie in 0 … 1; got 5"),
        (lambda: Reviewed([0], [0], [0.5], [0.5], (2, 3)), "an answer is 1"),
        (lambda: Reviewed([0, 0], [1, 1], [1, 0], [0.5] * 2, (2, 3)), "reviewed twice"),
        (lambda: missing.review(found(), texts=["a"]), "1 texts for 3 rows"),
        (
            lambda: missing.review(missing.find(CHANCES, np.ones((3, 3)), [0.5] * 3)),
            "no finding to review",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            call()  # type: ignore[operator]


def test_other_files_are_refused(tmp_path: Path) -> None:
    for changes, message in [
        ({"format": "other"}, "holds no review of findings"),
        ({"version": 9}, "another version than 1"),
        ({"shape": None}, "a damaged review"),
        ({"shape": [3, float("inf")]}, "a damaged review"),
        ({"shape": [3, 1]}, "labels of questions must lie in 0 … 0"),
        ({"shape": [1, 3]}, "rows of questions must lie in 0 … 0"),
        ({"probability": [0.5]}, "as many probabilities"),
        ({"probability": [[0.5]]}, "as many probabilities"),
        ({"kind": "other"}, "kind of findings"),
        ({"sheet": 3}, "no sheet of version"),
        ({"sheet": {}}, "no sheet of version"),
    ]:
        stored = missing.review(found()).to_dict() | changes
        (tmp_path / "review.json").write_text(json.dumps(stored))
        with pytest.raises(ValueError, match=message):
            missing.read_review(tmp_path / "review.json")


def test_reviews_state_probabilities(tmp_path: Path) -> None:
    for wrong in [float("nan"), -0.5, 1.5, float("inf"), None]:
        stored = missing.review(found()).to_dict()
        stored["probability"] = [wrong, *stored["probability"][1:]]
        (tmp_path / "review.json").write_text(json.dumps(stored))
        with pytest.raises(ValueError, match="damaged review: probabilities must lie"):
            missing.read_review(tmp_path / "review.json")


def test_questions_of_a_review_name_labels(tmp_path: Path) -> None:
    stored = missing.review(found()).to_dict()
    for label, message in (
        (None, r"does not fit the sheet of pairs\.$"),
        (-1, "must be at least 0; got -1"),
        (3, "must be at most 2"),
    ):
        row, _, hint = stored["sheet"]["questions"][0]
        stored["sheet"]["questions"][0] = [row, label, hint]
        (tmp_path / "review.json").write_text(json.dumps(stored))
        with pytest.raises(ValueError, match=message):
            missing.read_review(tmp_path / "review.json")


def test_nothing_is_written_beside_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    repaired = missing.complete(ROWS, Reviewed([0], [0], [1], [0.5], (3, 3)))
    for path in (tmp_path / "pipe.txt", tmp_path):
        with pytest.raises(ValueError, match="is no file; a repaired data set"):
            repaired.write(path)
    assert [path.name for path in tmp_path.iterdir()] == ["pipe.txt"]


def test_answers_of_another_review_are_refused() -> None:
    one, two = missing.review(found(), seed=0), missing.review(found(), seed=1)
    with pytest.raises(ValueError, match="another review"):
        one.reviewed(audit.Answers(two.sheet, {}))
    with pytest.raises(ValueError, match="no finding has an answer"):
        one.reviewed(audit.Answers(one.sheet, {}))


def test_only_a_pair_itself_can_be_reviewed_twice() -> None:
    """Rows and labels that give the same sum or difference are other pairs."""
    rows, labels = [0, 1, 1, 2, 0], [2, 0, 2, 0, 0]
    made = Reviewed(rows, labels, [1, 0, 1, 0, 1], [0.5] * 5, (3, 3))
    assert made.confirmed == 3
    with pytest.raises(ValueError, match="a pair was reviewed twice"):
        Reviewed([*rows, 1], [*labels, 2], [1, 0, 1, 0, 1, 1], [0.5] * 6, (3, 3))
