"""The study of masks as they are: natural masks are what users of the training rows rated."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from unmask import TopK
from unmask.propensity import MaskModel
from unmask_studies import masks, models
from unmask_studies.populations import Population

RATED = sp.csr_array(np.array([[0.0, 0, 0]] * 3 + [[1, 1, 0], [1, 0, 0], [1, 1, 1], [1, 1, 0]]))
"""Seven users and three jokes; the first three users rated none."""
TRUE = sp.csr_array(np.ones((40, 3)))


@pytest.mark.parametrize("draw", [2, 3])
def test_natural_masks_are_those_of_users_drawn_from_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, draw: int
) -> None:
    """Every second draw also has masks of the same rates; label 2 is rated by 1 of 7."""
    split = models.Split(sp.csr_array((7, 2)), RATED, sp.csr_array((40, 2)), TRUE)
    top = TopK([[0, 1, -1]] * 40, [[0.9, 0.5, -np.inf]] * 40)
    observed: list[sp.csr_array] = []
    rates: list[Any] = []

    def numbers(*arguments: Any) -> Iterator[tuple[str, float, dict[str, float]]]:
        observed.append(arguments[2])
        rates.append(arguments[3])
        yield "stated", 0.25, {}

    monkeypatch.setattr(models, "split_of", lambda folder: split)
    monkeypatch.setattr(models, "best", lambda split, labels, k: {5: top}[k])
    monkeypatch.setattr(masks.data, "read", lambda *_, **__: SimpleNamespace(labels=RATED))
    monkeypatch.setattr(masks, "_jester_numbers", numbers)
    made = list(masks.measure(tmp_path / masks.JESTER, draw, few=False))
    names = [masks.NATURAL, *masks.DRAWN] if draw % 2 == 0 else [masks.NATURAL]
    assert [row["masks"] for row in made] == names
    assert {row["truth"] for row in made} == {2 / 3}
    assert {(row["audited"], row["value"], row["way"]) for row in made} == {(200, 0.25, "stated")}
    np.testing.assert_allclose(rates[0], [4 / 7, 3 / 7, 1 / 7])
    users = np.random.default_rng(draw).integers(7, size=40)
    np.testing.assert_array_equal(observed[0].toarray(), RATED.toarray()[users])


def test_scores_are_those_of_true_and_of_predicted_labels() -> None:
    labels = sp.csr_array(np.array([[0.0, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]]))
    top = TopK([[1, 3], [2, 1], [0, 3]], [[0.9, 0.2], [0.8, 0.7], [0.6, 0.5]])
    rows: Any = SimpleNamespace(labels=labels, top=top, scores=np.array([0.9, 0.3, 0.1]))
    population: Population = rows
    expected = [[0, 0.9, 0.3, 0.2], [0.1, 0.7, 0.8, 0], [0.6, 0, 0, 0.5]]
    np.testing.assert_allclose(masks._scores(population).toarray(), expected)


def test_parts_of_a_mask_model() -> None:
    model = MaskModel([0.5, 0.4], row_effort=0.3, unannotated=0.1)
    assert masks._parts(model) == {"row_effort": 0.3, "unannotated": 0.1, "slope": 0.0}


@pytest.mark.parametrize(("adjusted", "rejected"), [(0.05, True), (0.0500001, False)])
def test_a_test_rejects_at_one_in_twenty(
    monkeypatch: pytest.MonkeyPatch, adjusted: float, rejected: bool
) -> None:
    kind = SimpleNamespace(value="agreement")
    for name in ("agreement", "dependence", "recording"):
        monkeypatch.setattr(masks, name, lambda *_, **__: ["a test"])

    def holm(tests: list[Any]) -> list[Any]:
        assert len(tests) == 3
        return [SimpleNamespace(kind=kind, adjusted=adjusted)]

    monkeypatch.setattr(masks, "holm", holm)
    rng = np.random.default_rng(0)
    rejecting = masks._found(RATED, RATED, np.ones(3), RATED, rng)
    assert rejecting == ({"agreement"} if rejected else set())


def test_two_hundred_users_are_audited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of which the stated, audited, modelled and measured numbers are given."""
    asked: list[tuple[int, int]] = []
    plan = masks.audits.plan

    def planned(*arguments: Any, budget: int, seed: int) -> Any:
        asked.append((budget, seed))
        return plan(*arguments, budget=budget, seed=seed)

    monkeypatch.setattr(masks.audits, "plan", planned)
    rng = np.random.default_rng(0)
    true = sp.csr_array((rng.random((260, 3)) < 0.5).astype(float))
    observed = sp.csr_array(true.multiply(rng.random((260, 3)) < 0.6))
    split = models.Split(sp.csr_array((7, 2)), RATED, sp.csr_array((260, 2)), true)
    top = TopK.from_scores(rng.random((260, 3)), 3)
    rates = np.array([0.6, 0.6, 0.6])
    numbers = list(masks._jester_numbers(split, top, observed, rates, 4))
    assert asked == [(200, 4)]
    assert [way for way, _, _ in numbers] == ["stated", "audited", "modelled", "measured"]


def test_independent_masks_are_compared_where_there_are_any() -> None:
    """The root mean square error of the modelled numbers over that of the audited ones."""

    def rows(way: str, *errors: float | None) -> list[dict[str, Any]]:
        about = {"masks": "independent", "metric": "R@5", "audited": 300, "way": way, "truth": 0.5}
        return [{**about, "value": None if each is None else 0.5 + each} for each in errors]

    audited = rows("audited", 0.1, -0.1, None)
    for errors, holds, said in (
        ((0.1, 0.1), True, "1.00 times"),
        ((0.2, -0.2), False, "2.00 times"),
        ((0.1, None), True, "1.00 times"),
    ):
        made = masks._not_worse([*audited, *rows("modelled", *errors)])
        assert (made.level, made.evidence) == ("good" if holds else "error", said)
    assert masks._not_worse([]).level == "good"
