"""Findings: the same from every form of probabilities, in order, with names; numbers add up."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from unmask import TopK, propensity
from unmask.data import Dataset, hide
from unmask.missing import find, findings, posterior, suspicious
from unmask.propensity import MaskModel
from unmask.propensity.mask_model import ScoreSlope, look_up

RNG = np.random.default_rng(3)
LABELS = (RNG.random((40, 6)) < 0.2).astype(int)
CHANCES = np.float32(RNG.random((40, 6)))
P = np.array([0.5, 0.2, 0.8, 1.0, 0.3, 0.6])


def test_pairs_are_ranked_by_the_posterior() -> None:
    found = find(CHANCES, LABELS, P, top=12)
    exact = np.where(LABELS == 1, -1.0, posterior(CHANCES, P))
    order = np.argsort(-exact, axis=None, kind="stable")[:12]
    np.testing.assert_array_equal(found.rows * 6 + found.labels, order)
    np.testing.assert_allclose(found.probability, exact.ravel()[order])
    hidden = np.where(LABELS == 1, 0.0, exact)
    np.testing.assert_allclose(found.by_row, hidden.sum(axis=1))
    np.testing.assert_allclose(found.by_label, hidden.sum(axis=0))
    np.testing.assert_allclose(found.expected, hidden.sum())
    spread = 1.959964 * np.sqrt((hidden * (1 - hidden)).sum())
    np.testing.assert_allclose(
        found.expected_interval, [hidden.sum() - spread, hidden.sum() + spread], rtol=1e-6
    )
    assert (found.considered, found.clipped) == ((LABELS == 0).sum(), 0)
    own = P[np.nonzero(LABELS)[1]]
    np.testing.assert_allclose(found.implied, (1 / own - 1).sum())
    low, high = found.implied_interval
    np.testing.assert_allclose(
        (high - low) / 2, 1.959964 * np.sqrt(((1 - own) / own**2).sum()), rtol=1e-6
    )


@pytest.mark.parametrize("block", [1, 7, 1 << 21])
def test_every_form_of_probabilities_gives_the_same(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(findings, "BLOCK", block)
    dense = find(CHANCES, LABELS, P, top=20)
    for form in (sp.csr_array(CHANCES), TopK.from_scores(CHANCES, 6), CHANCES.tolist()):
        other = find(form, LABELS, P, top=20)
        np.testing.assert_array_equal(other.rows, dense.rows)
        np.testing.assert_array_equal(other.labels, dense.labels)
        np.testing.assert_allclose(other.probability, dense.probability)
        np.testing.assert_allclose(other.by_label, dense.by_label)


def test_pairs_that_are_not_listed_are_impossible() -> None:
    top = TopK.from_scores(CHANCES, 2)
    found = find(top, LABELS, P, top=1000)
    listed = np.zeros(CHANCES.shape, bool)
    np.put_along_axis(listed, top.labels, True, axis=1)
    assert found.considered == (listed & (LABELS == 0)).sum()
    assert listed[found.rows, found.labels].all()


def test_equal_probabilities_stand_by_row_and_label() -> None:
    found = find(np.full((3, 2), 0.5), np.zeros((3, 2)), [0.5, 0.5], top=4)
    assert (found.rows.tolist(), found.labels.tolist()) == ([0, 0, 1, 1], [0, 1, 0, 1])


def test_of_equal_findings_the_likelier_pair_stands_first() -> None:
    """p = 1 makes every P(missing) 0, and rounding makes those of tiny 1 − r equal."""
    rising = np.array([[0.2, 0.3], [0.9, 0.1]])
    found = find(rising, np.zeros((2, 2)), [1.0, 1.0])
    assert (found.rows.tolist(), found.labels.tolist()) == ([1, 0, 0, 1], [0, 1, 0, 1])
    near = 1 - 2.0 ** -np.arange(40.0, 53.0)[:, None]
    found = find(near, np.zeros((13, 1)), [1e-9])
    assert found.rows.tolist() == list(range(12, -1, -1))
    wrong = suspicious(1 - near, np.ones((13, 1)), [1e-9])
    assert wrong.rows.tolist() == list(range(12, -1, -1))


def test_probabilities_of_being_observed() -> None:
    q = CHANCES * P
    exact = find(CHANCES, LABELS, P)
    np.testing.assert_allclose(
        find(q, LABELS, P, observed=True).probability, exact.probability, rtol=1e-5
    )
    too_large = find(CHANCES, LABELS, P, observed=True)
    assert too_large.clipped == (CHANCES > P).sum() > 0
    certain = too_large.probability == 1.0
    assert certain.sum() > 3
    ratio = (CHANCES / P)[too_large.rows, too_large.labels]
    assert (np.diff(ratio[certain]) <= 0).all()  # the more p is exceeded, the earlier


def test_ids_names_and_judged_pairs_of_a_data_set() -> None:
    judged = sp.csr_array(([1.0, -1.0, 2.0], ([0, 0, 1], [0, 1, 2])), shape=(2, 3))
    rows = Dataset(
        None, np.zeros((2, 3)), judgements=judged, label_names=("a", "b", "c"), ids=("x", "y")
    )
    found = find(np.full((2, 3), 0.5), rows, [0.5] * 3)
    assert found.table()["id"] == ["x", "y", "y"]
    assert found.table()["label"] == ["c", "a", "b"]
    assert found.by_row.round(3).tolist() == [0.333, 0.667]
    assert "x" in found._repr_html_()
    assert "1 labels are probably missing" in found._repr_html_()


def test_tables(tmp_path: Path) -> None:
    found = find(CHANCES, LABELS, P, top=3)
    found.write(tmp_path / "found.csv")
    lines = (tmp_path / "found.csv").read_text().splitlines()
    assert lines[0] == "id,label,probability"
    assert len(lines) == 4
    assert lines[1].split(",")[:2] == [str(found.rows[0]), str(found.labels[0])]
    found.write(tmp_path / "found.jsonl")
    first = json.loads((tmp_path / "found.jsonl").read_text().splitlines()[0])
    assert first == {
        "id": str(found.rows[0]),
        "label": str(found.labels[0]),
        "probability": round(float(found.probability[0]), 6),
    }
    with pytest.raises(ValueError, match="unknown format 'txt'"):
        found.write(tmp_path / "found.txt")
    assert found.to_dict()["expected"] == found.expected
    assert len(found.to_dict()["pairs"]) == 3  # type: ignore[arg-type]
    assert len(found.first(2)) == 2
    assert found.first(2).expected == found.expected


def test_a_slope_on_scores() -> None:
    slope = ScoreSlope(1.5, 0.2, np.zeros(6), centre=0.5, scale=0.25)
    mask = MaskModel(P, score_slope=slope)
    with pytest.raises(ValueError, match=r"missing\.find\(scores="):
        find(CHANCES, LABELS, mask)
    _rows, columns = np.divmod(np.arange(CHANCES.size), 6)
    own = slope.at(P, columns, CHANCES.ravel().astype(float)).reshape(CHANCES.shape)
    exact = np.where(LABELS == 1, 0.0, posterior(CHANCES, own))
    for scores in (CHANCES, TopK.from_scores(CHANCES, 6)):
        np.testing.assert_allclose(
            find(CHANCES, LABELS, mask, scores=scores).by_row, exact.sum(axis=1), rtol=1e-6
        )


def test_uncertain_propensities_widen_the_interval() -> None:
    true = (np.random.default_rng(0).random((300, 6)) < 0.3).astype(int)
    estimate = propensity.audit(hide(true, P, seed=0), true)
    sure, unsure = find(CHANCES, LABELS, estimate.value), find(CHANCES, LABELS, estimate)
    np.testing.assert_allclose(sure.expected, unsure.expected)
    assert unsure.variance > sure.variance


def test_what_does_not_fit_is_refused() -> None:
    for arguments, message in [
        ((CHANCES + 1, LABELS, P), r"probabilities must lie in \[0, 1\]; got 1\.9"),
        ((CHANCES[:5], LABELS, P), "must have the same"),
        ((TopK.from_scores(CHANCES[:5], 2), LABELS, P), "probabilities of 5 rows for 40 rows"),
        ((TopK([[9]] * 40, [[0.5]] * 40), LABELS, P), "name label 9, but there are 6 labels"),
        ((CHANCES, LABELS, P[:3]), "3 propensities for 6 labels"),
        ((CHANCES, Dataset(np.ones((40, 1)), None), P), "the data set has no labels"),
    ]:
        with pytest.raises(ValueError, match=message):
            find(*arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("share", [0.0, -0.1, 0.51, float("nan")])
def test_a_share_of_wrong_labels_is_above_zero_and_at_most_a_half(share: float) -> None:
    with pytest.raises(ValueError, match="spurious must lie in"):
        suspicious([[0.9, 0.01]], [[1, 1]], [0.5, 0.5], spurious=share)


def test_observed_labels_that_no_list_has_are_pairs_of_their_rows() -> None:
    """Of the rows 3 to 5: what is listed, then what is observed beyond it, as unlikely as any."""
    top = TopK.from_scores(CHANCES, 2)
    pairs = findings._pairs(top, sp.csr_array(LABELS), 3, 6)
    listed = [(row, int(label)) for row in range(3, 6) for label in top.labels[row]]
    observed = {(row, int(label)) for row in range(3, 6) for label in np.flatnonzero(LABELS[row])}
    beyond = sorted(observed.difference(listed))
    assert beyond
    assert list(zip(pairs.rows.tolist(), pairs.labels.tolist(), strict=True)) == listed + beyond
    assert pairs.observed.tolist() == [pair in observed for pair in listed + beyond]
    lowest = min(float(CHANCES[pair]) for pair in listed)
    expected = [float(CHANCES[pair]) for pair in listed] + [lowest] * len(beyond)
    assert pairs.chance.tolist() == pytest.approx(expected)


def test_what_is_looked_up_and_absent_stands_one_below_the_smallest() -> None:
    keys, values = np.array([7, 2, 5]), np.array([0.5, 0.75, -1.0])
    np.testing.assert_array_equal(look_up(keys, values, np.array([5, 1, 7, 9])), [-1, -2, 0.5, -2])
    nothing = np.zeros(0, dtype=np.int64)
    np.testing.assert_array_equal(look_up(nothing, np.zeros(0), np.array([3])), [0.0])
