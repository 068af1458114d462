"""Kinds, values and words of tests and findings; lookups and JSON."""

from __future__ import annotations

import json
from functools import lru_cache

import numpy as np
import pytest

from tests.helpers.diagnoses import ALL, LOW, L, planted, rng, violations
from unmask import data
from unmask.diagnosis import Diagnosis, Test, diagnose, findings
from unmask.diagnosis.diagnose import _of_tests
from unmask.diagnosis.findings import Finding, FindingKind, TestKind


@lru_cache
def audited() -> Diagnosis:
    """Two groups of labels, an audit with a spurious label, and labels that are never observed."""
    true = planted(900)
    p = np.linspace(0.3, 0.9, L)
    seen = data.hide(true, p, seed=0)
    wrong = seen[:300].tolil()
    wrong[0, int(np.argmin(true[[0]].toarray()))] = 1
    scores, years = rng(1).random((300, L)), rng(2).integers(2000, 2020, 300)
    return diagnose(seen, p, (wrong.tocsr(), true[:300]), scores=scores, covariates={"year": years})


def test_every_kind_of_test_can_be_asked_for() -> None:
    found = audited()
    assert {test.kind for test in found.tests} == set(TestKind)
    for kind in TestKind:
        assert found.test(kind) is found.test(kind.value)
        assert found.test(kind).group in (None, ALL)
    low = found.test("empty_rows", group="low_propensity")
    highest = low.values["highest_propensity"]
    assert low.group == LOW
    assert highest < 0.9 == found.test("empty_rows").values["highest_propensity"]
    assert low.name == f"enough empty rows (labels with propensity up to {highest:.2g})"
    assert low.title.endswith(f"labels are missing (labels with propensity up to {highest:.2g})")


def test_a_test_that_was_not_made_is_refused_with_the_reason() -> None:
    alone = diagnose([[1, 0], [0, 1]] * 20, [0.5, 0.5])
    with pytest.raises(ValueError, match=r"audit_level needs an audit; give `audit` to `diagnose`"):
        alone.test("audit_level")
    with pytest.raises(ValueError, match=r"empty_rows of the group low_propensity could not be"):
        alone.test("empty_rows", group="low_propensity")
    with pytest.raises(ValueError, match=r"unknown kind of test 'empty'; use one of: audit_labels"):
        alone.test("empty")
    with pytest.raises(ValueError, match=r"unknown kind of finding 'empty'; use one of: audit_lab"):
        alone.finding("empty")
    for lookup in (alone.test, alone.finding):
        with pytest.raises(ValueError, match=r"unknown group of labels 'some'; use one of: all, l"):
            lookup("empty_rows", group="some")


def test_findings_are_those_of_rejected_tests_and_others() -> None:
    found = diagnose([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]] * 50, [0.5] * 3)
    assert {(f.kind, f.group) for f in found.violations} == violations(found)
    for finding in found.violations:
        (test,) = finding.tests
        assert test is found.test(finding.kind, finding.group)
        assert (finding.title, finding.advice) == (test.title, test.advice)
    assert found.finding("spurious_labels") is None
    assert found.finding("empty_rows") is found.finding("empty_rows", group="all")
    assert found.finding("empty_rows", group="low_propensity") is None
    assert audited().finding("spurious_labels") is not None


def test_every_kind_has_words() -> None:
    assert set(findings.TESTS) == set(TestKind)
    assert set(findings.FINDINGS) == set(FindingKind)
    assert not set(TestKind) & set(FindingKind)  # one name, one meaning, for `finding(kind)`
    made = [test for test in audited().tests if test.name and test.title and test.effect]
    assert len(made) == len(audited().tests)


def test_kinds_survive_json_and_compare_with_strings() -> None:
    found = audited()
    stored = json.loads(json.dumps(found.to_dict()))
    for rows, items in ((stored["tests"], found.tests), (stored["findings"], found.findings)):
        for row, item in zip(rows, items, strict=True):
            assert row["kind"] == item.kind
            assert row["group"] == item.group
            assert row["values"] == item.values
            assert row["severity"] == item.severity
            assert row["title"] == item.title
    assert {test.kind.needs_audit for test in diagnose([[1, 0]], [0.5, 0.5]).tests} == {False}
    assert sum(kind.needs_audit for kind in TestKind) == 11
    assert len({hash(Finding("row", "error")), hash(Finding(TestKind.ROW, "error"))}) == 1


@pytest.mark.parametrize(("adjusted", "words"), [(1e-15, "p = 1e-15"), (9e-16, "p below 1e-15")])
def test_tiny_chances_are_not_told_apart(adjusted: float, words: str) -> None:
    test = Test(TestKind.AUDIT_SHAPE, 0.0, {"slope": 2.0}, adjusted=adjusted)
    (found,) = _of_tests([test], [test], 0.05)
    assert found.evidence == (
        "From rare to frequent labels the logit of the propensity should rise 2.00 times as fast "
        f"as stated ({words} after correction for 1 tests)."
    )


def test_a_single_passed_test_is_named() -> None:
    tests = [Test(TestKind.ROW, 0.001, {"correlation": 0.2}), Test(TestKind.AUDIT_LEVEL, 0.9)]
    _, found = _of_tests(tests, tests[:1], 0.05)
    assert found.tests == (tests[1],)
    assert found.evidence == f"1 of 2 tests find nothing: {tests[1].name}."
    assert len(list(_of_tests(tests, tests, 0.05))) == 2
    (quiet,) = _of_tests(tests, [], 0.05)
    assert quiet.evidence == "2 tests, none rejected at 0.05 after correction."
