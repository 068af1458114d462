"""Estimates as records and files: every field comes back, damaged records are refused."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.propensities import either, estimated
from unmask import data, propensity
from unmask.propensity import PropensityEstimate
from unmask.propensity.estimate import from_counts
from unmask.propensity.spec import from_record, to_record

NAN, INF = float("nan"), float("inf")


@cache
def audited() -> PropensityEstimate:
    return from_counts([3, 1], [9, 4], counts=[3, 50], n=1000)


def changed(record: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A deep copy with one place changed, through JSON."""
    copy = json.loads(json.dumps(record))
    *above, last = path.split(".")
    inner = copy
    for name in above:
        inner = inner[name]
    inner[last] = value
    return dict(copy)


def test_a_record_with_one_thing_wrong_is_damaged() -> None:
    for path, value in [
        ("value", [0.5, 0.0]),
        ("value", [0.5]),
        ("low", [0.1]),
        ("high", [0.5, -1.0]),
        ("evidence", [1.0, NAN]),
        ("confidence", -0.01),
        ("confidence", 1.01),
        ("effect", -0.01),
        ("effect", INF),
        ("method", 7),
        ("notes", [1.0, 2.0]),
        ("notes", ["right", 2.0]),
        ("notes", "text"),
        ("curve.draws", []),
        ("curve.draws", [1.0, 1.0, 1.0, 1.0]),
        ("curve.draws", [[1.0, 1.0, 1.0]]),
        ("curve.draws", [[1.0, 1.0, 1.0, 0.0]]),
        ("curve.draws", [[1.0, 1.0, 1.0, INF]]),
        ("curve.a", 0.0),
        ("curve.scale", -1.0),
        ("curve.intervals", {"a": [1.0]}),
        ("uncertainty.curve.draws", [[1.0, 1.0, 1.0, 0.0]]),
        ("uncertainty.curve.b", 0.0),
        ("uncertainty.kept", [1.0, 1.0, 1.0]),
        ("uncertainty.kind", "Evidence"),
        ("uncertainty", None),
    ]:
        record = to_record(audited())
        assert isinstance(from_record(changed(record, "method", "other")), PropensityEstimate)
        with pytest.raises(ValueError, match="damaged"):
            from_record(changed(record, path, value))


@pytest.mark.parametrize("which", ["first", "second"])
def test_both_annotations_of_a_record_are_looked_at(which: str) -> None:
    record = to_record(either())
    with pytest.raises(ValueError, match="parameters of a curve must be positive"):
        from_record(changed(record, f"uncertainty.{which}.curve.a", -1.0))


def test_a_record_at_its_bounds_is_read() -> None:
    for path, value in [
        ("confidence", 0.0),
        ("confidence", 1.0),
        ("effect", 0.5),
        ("curve.a", 0.25),
        ("notes", []),
    ]:
        again = from_record(changed(to_record(audited()), path, value))
        assert isinstance(again.notes, tuple)
        np.testing.assert_array_equal(again.draw(1, 3), audited().draw(1, 3))
        assert audited().draw(1, 0).shape == (0, len(audited()))


def test_what_is_no_record_is_refused() -> None:
    for record in [None, 3, [], {}, {"kind": "Ratio"}, "PropensityEstimate"]:
        with pytest.raises(ValueError, match="no propensity estimate"):
            from_record(record)


def test_records_give_back_every_field(tmp_path: Path) -> None:
    """Also one note, one label, one draw of the frequency_curve, and no label at all."""
    one = replace(audited(), notes=("x",), effect=1.25)
    none = propensity.from_marginals(np.zeros((4, 0)), [])
    single = propensity.from_marginals([[1], [0], [0]], [0.5], true_n=7)
    for at, estimate in enumerate((one, none, single)):
        propensity.write(tmp_path / f"{at}.json", estimate)
        again = propensity.read(tmp_path / f"{at}.json")
        assert isinstance(again, PropensityEstimate)
        assert to_record(again) == to_record(estimate)
        assert (again.notes, again.effect) == (estimate.notes, estimate.effect)
        assert again.draw(0, 3).shape == (3, len(estimate))
    assert again.uncertainty.true_n == 7


def saved_estimates() -> dict[str, PropensityEstimate]:
    true = data.synthetic.independent(60, 4, probability=0.4, seed=0)
    one, two = (data.hide(true, np.full(4, 0.5), seed=s) for s in (1, 2))
    return {
        "audit": propensity.audit(one, true),
        "recapture": propensity.recapture(one, two),
        "either": propensity.recapture(one, two, of="either"),
        "model": propensity.from_model(true.toarray() * 0.5, one),
        "marginals": propensity.from_marginals(one, [0.9] * 4),
        "counted marginals": propensity.from_marginals(one, [0.9] * 4, true_n=30),
    }


@pytest.mark.parametrize("suffix", ["json", "json.gz"])
def test_estimates_come_back_from_files_with_their_uncertainty(tmp_path: Path, suffix: str) -> None:
    for name, estimate in saved_estimates().items():
        path = tmp_path / f"{name}.{suffix}"
        propensity.write(path, estimate)
        again = propensity.read(path)
        assert isinstance(again, PropensityEstimate)
        np.testing.assert_array_equal(again.draw(seed=1, size=5), estimate.draw(seed=1, size=5))
        for field in ("value", "low", "high", "evidence"):
            np.testing.assert_array_equal(getattr(again, field), getattr(estimate, field))
        assert (again.method, again.notes) == (estimate.method, estimate.notes)
        if estimate.curve is not None:
            assert again.curve.intervals == estimate.curve.intervals
        assert isinstance(propensity.from_spec(str(path), np.ones((2, 4))), PropensityEstimate)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "Expecting property name"),
        ('{"kind": "Posterior"}', "no propensity estimate"),
        ('{"kind": "PropensityEstimate"}', "damaged"),
        ('{"kind": "PropensityEstimate", "uncertainty": {"kind": "os.system"}}', "damaged"),
    ],
)
def test_files_that_hold_no_estimate_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "estimate.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        propensity.read(path)
    assert str(path) in str(caught.value)


def test_an_unknown_uncertainty_is_not_saved_halfway(tmp_path: Path) -> None:
    class Own:
        def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
            return rng.random((size, 60))

    with pytest.raises(ValueError, match="Own cannot be saved"):
        propensity.write(tmp_path / "p.json", replace(estimated(), uncertainty=Own()))
    assert not (tmp_path / "p.json").exists()
