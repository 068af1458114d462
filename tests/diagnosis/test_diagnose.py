"""The whole diagnosis: silence on valid data, planted violations, Holm's correction, real data."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.diagnoses import ALL, L, planted, rng, violations
from unmask import data, propensity
from unmask.diagnosis import Test, diagnose
from unmask.diagnosis.diagnose import holm
from unmask.diagnosis.findings import TestKind


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_holm_equals_the_closed_test(p_values: list[float]) -> None:
    """Adjusted p = the largest Bonferroni p-value over all sets of hypotheses containing it."""
    found = [test.adjusted for test in holm([Test(TestKind.ROW, p) for p in p_values])]
    everything = range(len(p_values))
    for i in everything:
        sets = [s for r in everything for s in combinations(everything, r + 1) if i in s]
        closed = max(min(1.0, len(s) * min(p_values[j] for j in s)) for s in sets)
        assert found[i] == pytest.approx(closed)


@pytest.mark.parametrize("model", ["jain", "constant:0.4", "inverse_linear:2,10"])
def test_valid_data_pass_in_silence(model: str) -> None:
    true = planted(2300)
    p = propensity.from_spec(model, true)
    seen = data.hide(true, p, seed=5)
    found = diagnose(seen[:2000], p, (seen[2000:], true[2000:]))
    assert violations(found) == set()
    assert found.severity != "error"
    assert found.finding("no_contradiction") is not None


def keep_at_least_one(true: sp.csr_array, seen: sp.csr_array) -> sp.csr_array:
    rows = np.flatnonzero((np.diff(seen.indptr) == 0) & (np.diff(true.indptr) > 0))
    first = true.indices[true.indptr[rows]]
    entries = (np.ones(rows.size, dtype=np.float32), (rows, first))
    return sp.csr_array(seen + sp.csr_array(entries, shape=true.shape))


def test_rows_that_hardly_become_empty_are_a_violation() -> None:
    """One empty row is left: so empty rows were not dropped, and there are too few."""
    true = planted(2000)
    p = propensity.jain(true)
    seen = keep_at_least_one(true, data.hide(true, p, seed=1))
    diagnosis = diagnose(sp.vstack([seen, sp.csr_array((1, L))]), p)
    assert diagnosis.severity == "error"
    assert ("empty_rows", ALL) in violations(diagnosis)
    assert diagnosis.finding("cannot_judge") is None


@pytest.mark.parametrize("repair", ["one label put back", "empty rows removed"])
def test_without_any_empty_row_a_file_cannot_tell(repair: str) -> None:
    """Dropped empty rows and rows that are never empty look alike: no refutation, a warning."""
    true = planted(2000)
    p = propensity.jain(true)
    seen = data.hide(true, p, seed=1)
    if repair == "empty rows removed":
        seen = seen[np.diff(seen.indptr) > 0]
    else:
        seen = keep_at_least_one(true, seen)
    diagnosis = diagnose(seen, p)
    assert violations(diagnosis) == set()
    assert "empty_rows" not in {test.kind for test in diagnosis.tests}
    cannot = diagnosis.finding("cannot_judge")
    assert cannot is not None
    assert cannot.severity == "warning"
    assert "this file cannot tell" in cannot.evidence
    assert 0 < cannot.values["least_share"] < 0.1


@pytest.mark.parametrize("seed", range(4))
def test_dropped_empty_rows_alone_violate_nothing(seed: int) -> None:
    """One to three labels per row, most of them lost, empty rows dropped: the masks are valid.

    Counts that are never 0 vary less than losing labels makes counts vary, group by group.
    """
    sizes = rng(seed).integers(1, 4, 4000)
    true = np.array([rng(seed * 4000 + i).permutation(20) < size for i, size in enumerate(sizes)])
    p = np.where(np.arange(20) % 2, 0.5, 0.2)
    seen = data.hide(true.astype(np.float32), p, seed=seed)
    kept = seen[np.diff(seen.indptr) > 0]
    counts = np.diff(kept.indptr)
    assert counts.var() < (1 - p[kept.indices]).sum() / kept.shape[0]  # as if it were too narrow
    assert violations(diagnose(kept, p, seed=seed)) == set()


def test_constant_counts_do_not_come_from_losing_labels() -> None:
    """Three labels in every row: no spread at all, while half of the labels went missing."""
    labels = np.array([rng(i).permutation([1, 1, 1, 0, 0, 0, 0, 0]) for i in range(400)])
    found = diagnose(labels, np.full(8, 0.5))
    assert ("count_spread", ALL) in violations(found)
    assert ("count_thinning", ALL) in violations(found)


def test_wrong_propensities_are_found_with_an_audit() -> None:
    true = planted(1000)
    seen = data.hide(true, np.full(L, 0.6), seed=0)
    found = diagnose(seen, np.full(L, 0.9), (seen[:300], true[:300]))
    assert ("audit_level", None) in violations(found)
    level = found.finding("audit_level")
    assert level is not None
    assert "propensity.audit" in level.advice


def test_an_estimate_is_tested_at_its_upper_ends() -> None:
    """Half of the labels lost, three in every row: too sure an estimate fails, a vague one not."""
    labels = np.array([rng(i).permutation([1, 1, 1, 0, 0, 0, 0, 0]) for i in range(400)])
    half = propensity.from_counts([5000] * 8, [10_000] * 8, counts=[150] * 8, n=400)
    vague = propensity.from_counts([2] * 8, [2] * 8, counts=[150] * 8, n=400, confidence=0.9999)
    assert violations(diagnose(labels, half))
    assert ("count_spread", ALL) not in violations(diagnose(labels, vague))


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ((50, 4), None),
        ((50, 3), "0 of 2 labels are never observed, 1 fewer than 4 times; by these propensities "
                  "they make up 10.7%"),
        ((50, 0), "1 of 2 labels are never observed, 0 fewer than 4 times; by these propensities "
                  "they make up 0.0%"),
    ],
)  # fmt: skip
def test_labels_that_are_rare_or_absent_are_mentioned(
    counts: tuple[int, int], words: str | None
) -> None:
    """Three labels at p = ½ stand for six, beside fifty; four in all rows are no longer rare."""
    both = diagnose(np.arange(8)[:, None] < np.array([4, 3]), [0.99999, 0.99999]).findings
    (share,) = [f.evidence for f in both if f.kind == "rare_labels"]
    assert "make up 42.9% of the true labels" in share
    labels = sp.csr_array((np.arange(100)[:, None] < counts).astype(np.float32))
    found = diagnose(labels, [0.99999, 0.5]).findings
    tail = [f.evidence for f in found if f.kind == "rare_labels"]
    assert len(tail) == (words is not None)
    assert all(evidence.startswith(words or "") for evidence in tail)


def test_the_record_is_plain_data_and_the_seed_decides() -> None:
    true = planted(300)
    p = np.full(L, 0.5)
    seen = data.hide(true, p, seed=0)
    one, two = (diagnose(seen, p, (seen[:100], true[:100]), seed=4) for _ in range(2))
    assert json.dumps(one.to_dict()) == json.dumps(two.to_dict())
    assert str(one).startswith(f"300 rows, {L} labels: ")
    order = ["info", "warning", "error"]
    ranks = [order.index(f.severity) for f in one.findings]
    assert ranks == sorted(ranks, reverse=True)


def test_rows_and_labels_carry_no_order() -> None:
    true = planted(600)
    p = propensity.jain(true)
    seen = data.hide(true, p, seed=0)
    rows, labels = rng(1).permutation(600), rng(2).permutation(L)
    found = diagnose(seen, p).tests
    shuffled = diagnose(seen[rows][:, labels], p[labels]).tests
    for one, two in zip(found, shuffled, strict=True):
        if one.kind != "count_thinning":  # drawn replicates
            assert one.p_value == pytest.approx(two.p_value, rel=1e-9)


def test_bad_input_is_refused_in_words() -> None:
    for call, message in [
        (lambda: diagnose([[0, 0]], [0.5, 0.5]), "hold no label"),
        (lambda: diagnose([[1, 0]], [0.5]), "1 propensities for 2 labels"),
        (lambda: diagnose([[1, 0]], [0.5, 0.5], ([[1]], [[1]])), "the audit has 1 labels"),
        (lambda: diagnose([[1, 0]], [0.5, 0.5], ([[1, 0]], [[1, 0]] * 2)), "same rows and labels"),
        (lambda: diagnose([[1, 0]], [0.5, 0.5], k=()), "k is empty; give at least one"),
        (lambda: diagnose([[1, 0]], [0.5, 0.5], k=(0,)), "k must be a whole number"),
        (lambda: diagnose([[1, 0]], [0.5, 0.5], alpha=2), r"alpha must lie in \[0, 1\]"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize("name", ["bibtex-xc", "debtags-bookworm"])
def test_real_data_without_empty_rows_cannot_be_judged(real_data: Path, name: str) -> None:
    """Jain's propensities are neither refuted by these files nor supported."""
    labels = data.read(real_data / name / "train.txt.gz").labels
    diagnosis = diagnose(labels, propensity.jain(labels))
    assert violations(diagnosis) == set()
    cannot = diagnosis.finding("cannot_judge")
    assert cannot is not None
    assert cannot.severity == "warning"


def test_delicious_is_cut_off_at_25_labels(real_data: Path) -> None:
    labels = data.read(real_data / "delicious" / "train.txt.gz").labels
    diagnosis = diagnose(labels, propensity.jain(labels))
    assert violations(diagnosis) == {("count_thinning", ALL)}
    assert "no row shows more than 25 labels" in diagnosis.violations[0].evidence


def test_jester_masks_depend_on_the_row(real_data: Path) -> None:
    """Real masks on complete labels: people who rated much kept much."""
    rated = data.read(real_data / "jester5k" / "train_rated.txt.gz").labels
    true = data.read(real_data / "jester5k" / "test.txt.gz").labels[:200]
    seen = sp.csr_array(true.multiply(rated[rng().permutation(rated.shape[0])[:200]]))
    estimate = propensity.audit(seen, true, curve="free")
    found = diagnose(seen, estimate, (seen, true))
    assert ("row", None) in violations(found)


@pytest.mark.slow
def test_false_alarms_are_rare() -> None:
    """120 valid data sets, three kinds, with an audit: at most 5 % plus two standard errors."""
    alarms = []
    for seed in range(40):
        true = planted(1300, seed=seed)
        fixed = np.array(
            [rng(seed * 2000 + i).permutation([1] * 4 + [0] * 16) for i in range(1300)]
        )
        for labels, p in (
            (true, propensity.jain(true)),
            (true, np.where(np.arange(L) % 2, 0.95, 0.1)),
            (sp.csr_array(fixed.astype(np.float32)), np.full(20, 0.5)),
        ):
            seen = data.hide(labels, p, seed=seed + 500)
            found = diagnose(seen[:1000], p, (seen[1000:], labels[1000:]), seed=seed)
            alarms.append(bool(violations(found)))
    assert np.mean(alarms) <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / len(alarms))


@pytest.mark.parametrize("kept_share", [0.3, 0.9])
def test_swapped_files_of_an_audit_are_refused(kept_share: float) -> None:
    """Also where few labels are missing; a mix-up of rows is refused in other words."""
    true = planted(300)
    p = np.full(L, kept_share)
    seen = data.hide(true, p, seed=0)
    for swapped in (lambda: diagnose(seen, p, (true, seen)), lambda: propensity.audit(true, seen)):
        with pytest.raises(ValueError, match=r"two swapped\? Give the observed labels first"):
            swapped()
    diagnose(seen, p, (seen, true))


def test_an_audit_of_other_rows_is_refused() -> None:
    true, p = planted(300), np.full(L, 0.3)
    seen = data.hide(true, p, seed=0)
    with pytest.raises(ValueError, match="are these the same rows, in the same order"):
        diagnose(seen, p, (sp.csr_array(seen[rng().permutation(300)]), true))


def test_predictions_bear_witness_as_they_do_in_an_evaluation() -> None:
    """Labels kept with p = 0.8, stated as 0.4: P@1 comes to about 2, which refutes them."""
    rng = np.random.default_rng(0)
    true = rng.random((600, 12)) < 0.4
    labels = (true & (rng.random(true.shape) < 0.8)).astype(int)
    scores = (true + 0.9 * rng.random(true.shape)).astype(np.float32)
    wrong = diagnose(labels, np.full(12, 0.4), predictions=scores)
    finding = wrong.finding("predictions")
    assert finding is not None
    assert finding.severity == "error"
    assert "more than 1, so the propensities are too low" in finding.evidence
    assert finding.evidence.endswith(".")
    right = diagnose(labels, np.full(12, 0.8), predictions=scores)
    assert right.finding("predictions") is None
    assert diagnose(labels, np.full(12, 0.4)).finding("predictions") is None
