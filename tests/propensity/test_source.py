"""Propensities carry where they come from, and are arrays in every respect."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from unmask import propensity
from unmask.propensity import source_of
from unmask.propensity.models import PropensityModel, Source, SourceKind, with_source

LABELS = np.array([[1, 0]] * 25 + [[0, 1]] * 25)


@pytest.mark.parametrize(
    ("spec", "kind", "sentence"),
    [
        ("jain", "jain", "Jain's formula with a = 0.55, b = 1.5"),
        ("jain:0.5,0.4", "jain", "Jain's formula with a = 0.5, b = 0.4"),
        ("jain:Amazon-670K", "preset",
         "Jain's formula with the constants in use for Amazon-670K (a = 0.6, b = 2.6)"),
        ("constant:0.3", "constant", "the same propensity 0.3 for all"),
        ("inverse_linear", "inverse_linear", "1/p linear in label rank (head = 2, tail = 20)"),
    ],
)  # fmt: skip
def test_models_say_formula_and_constants(spec: str, kind: str, sentence: str) -> None:
    p = propensity.from_spec(spec, LABELS)
    assert (source_of(p).kind, source_of(p).sentence) == (kind, sentence)


def test_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "p.txt"
    propensity.write(path, [0.5, 0.25])
    for p in (propensity.read(path), propensity.from_spec(str(path), LABELS)):
        assert source_of(p) == Source(SourceKind.FILE, name=str(path))


def test_estimates_say_method_and_rows_also_from_files(tmp_path: Path) -> None:
    complete = np.ones((60, 2), int)
    observed = (np.random.default_rng(0).random((60, 2)) < 0.5).astype(int)
    estimate = propensity.audit(observed, complete, curve="free")
    assert source_of(estimate).sentence == "the audit of 60 rows"
    propensity.write(tmp_path / "audit.json", estimate)
    assert source_of(propensity.read(tmp_path / "audit.json")) == estimate.source
    assert source_of(propensity.recapture(observed, complete)).kind == "recapture"
    for of in ("first", "either"):
        two = propensity.recapture(observed, complete, of=of)
        assert source_of(two).sentence == "the recapture estimate of 60 rows"


def test_what_carries_nothing_is_stated() -> None:
    assert source_of(None).kind is SourceKind.NONE
    assert source_of(sp.csr_array(LABELS * 0.5)).kind is SourceKind.ENTRIES
    for p in ([0.5, 0.5], np.array([0.5, 0.5]), PropensityModel("x", [0.5, 0.5])):
        assert source_of(p) == Source()


def test_changes_are_said() -> None:
    p = propensity.temper(propensity.clip(propensity.jain(LABELS), 0.1), 0.5)
    assert source_of(p).sentence.endswith("b = 1.5, raised to at least 0.1, tempered with τ = 0.5")


def test_propensities_are_arrays_and_what_is_computed_is_plain() -> None:
    p = propensity.jain(LABELS)
    assert isinstance(p, np.ndarray)
    assert p.dtype == np.float64
    assert p[:1].source == p.copy().source == p.source  # a part is no less a propensity
    for computed in (1 / p, p * p, np.log(p), p.round(2), p == p):
        assert type(computed) is np.ndarray
    assert type(p.sum()) is type(p[0]) is np.float64
    assert repr(p) == repr(np.asarray(p))


def test_copies_in_other_processes_keep_the_source() -> None:
    p = propensity.jain(LABELS)
    there = pickle.loads(pickle.dumps(p))  # noqa: S301 (our own bytes)
    assert there.source == p.source
    np.testing.assert_array_equal(there, p)


def test_every_kind_has_words() -> None:
    for kind in SourceKind:
        parameters = {"a": 1.0} if kind in ("jain", "preset", "inverse_linear") else {"p": 0.5}
        source = with_source(np.array([0.5]), Source(kind, parameters, "name")).source
        assert source.to_dict()["text"] == source.sentence != ""
