"""A little of `make fuzz-api`, and that it would notice."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from tests.helpers.paths import ROOT
from tests.helpers.public_calls import CALLS
from unmask.arrays import checks

sys.path.insert(0, str(ROOT / "tools"))  # no part of the package
import fuzz_api

PATTERN = sp.csr_array(np.array([[1, 0], [0, 1], [1, 1], [0, 1]], np.float32))
NO_MATRIX = {
    "propensity.clip", "propensity.from_counts", "propensity.jain_curve",
    "propensity.temper", "metrics.powers", "weights.normalized_weights", "missing.posterior",
}  # fmt: skip
COMBINED = {"missing.measure", "tree.predict_unseen"}
"""Take what others made, or several matrices: tried with damaged input in `test_input_forms`."""


def test_a_few_hundred_examples() -> None:
    """In a process of their own, as in the long run: it may die."""
    command = [sys.executable, fuzz_api.__file__, "--examples", "250", "--seed", "3"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert run.returncode == 0, run.stdout + run.stderr
    counts = {
        word: int(number.replace(",", ""))
        for number, word in re.findall(r"([\d,]+) (examples|answered|refused|defects)", run.stdout)
    }
    assert counts["examples"] >= 250
    assert counts["answered"] > 100
    assert counts["refused"] > 50
    assert counts["defects"] == 0


def test_every_function_that_takes_a_matrix_is_fuzzed() -> None:
    fuzzed = {name.partition(",")[0] for name in fuzz_api.functions()}
    assert CALLS.keys() - NO_MATRIX - COMBINED <= fuzzed
    assert fuzz_api.functions().keys() >= fuzz_api.SLOW


def judged(name: str, **arrays: Any) -> str:
    wild = PATTERN.copy()
    for field, array in arrays.items():
        setattr(wild, field, array)
    return fuzz_api.judge(fuzz_api.functions()[name], wild, PATTERN)


def test_what_a_missing_check_looks_like(monkeypatch: pytest.MonkeyPatch) -> None:
    shifted = {"indices": PATTERN.indices + 1}
    assert judged("propensity.jain", **shifted) == "refused"
    monkeypatch.setattr(checks, "_pattern", lambda indices, indptr, *rest: (indices, indptr, True))
    assert judged("propensity.jain", **shifted).startswith("invalid, but: [")


def test_what_a_trusted_flag_looks_like(monkeypatch: pytest.MonkeyPatch) -> None:
    backwards = {"indices": np.array([0, 1, 1, 0, 1], np.int32), "_has_canonical_format": True}
    assert judged("data.write", **backwards) == "answered"
    monkeypatch.setattr(checks, "matrix", lambda values, **names: values)
    assert "instead of" in judged("data.write", **backwards)


def test_what_a_changed_matrix_looks_like(monkeypatch: pytest.MonkeyPatch) -> None:
    def looked_at(values: sp.csr_array, **names: str) -> sp.csr_array:
        assert values.has_canonical_format  # which scipy remembers on the caller's object
        return values

    assert judged("data.hide") == "answered"
    monkeypatch.setattr(checks, "matrix", looked_at)
    assert judged("data.hide") == "it changed the matrix"


@pytest.mark.parametrize(
    ("arrays", "rows"),
    [
        ({}, [{0: 1}, {1: 1}, {0: 1, 1: 1}, {1: 1}]),
        ({"indices": np.array([0, 1, 1, 0, 1])}, [{0: 1}, {1: 1}, {0: 1, 1: 1}, {1: 1}]),
        ({"indptr": np.array([0, 0, 0, 0, 1])}, [{}, {}, {}, {0: 1}]),
        ({"indptr": np.array([0, 1, 2, 4])}, None),
        ({"indptr": np.array([0, 1, 2, 4, 6])}, None),
        ({"indptr": np.array([1, 1, 2, 4, 5])}, None),
        ({"indptr": np.array([0, 2, 1, 4, 5])}, None),
        ({"indptr": np.array([0.0, 1, 2, 4, 5])}, None),
        ({"indices": np.array([0, 1, 1, 1, 1])}, None),
        ({"indices": np.array([0, 1, 0, 2, 1])}, None),
        ({"indices": np.array([0, 1, 0, 1, -1])}, None),
        ({"indices": np.array([0, 1, 0, 1])}, None),
        ({"data": np.ones(4)}, None),
        ({"data": np.ones(5, complex)}, None),
    ],
)
def test_the_oracle(arrays: dict[str, Any], rows: Any) -> None:
    wild = PATTERN.copy()
    for field, array in arrays.items():
        setattr(wild, field, array)
    assert fuzz_api.rows_of(wild) == rows
