"""The encoder study: what it says of numbers, and the network whose numbers they are."""

from __future__ import annotations

import builtins
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from unmask import report
from unmask_studies.encoder import study
from unmask_studies.encoder.study import ALL, COMPLETE, RATIO, SHORTLIST, VANILLA, Cell


def row(method: str, way: str, recall: float, draw: int) -> dict[str, Any]:
    return {
        "data": "planted", "method": method, "way": way, "draw": draw, "labels": 5, "R@5": recall,
        "PSP@5": recall / 2, "estimate": recall, "rate": 0.1, "epoch": 1,
    }  # fmt: skip


def rows(gain: tuple[float, ...], cost: float = 0.0) -> list[dict[str, Any]]:
    """Bound is better than vanilla by `gain`, all others equal it; a shortlist costs `cost`."""
    made = []
    for draw, more in enumerate(gain):
        start = 0.4 + 0.1 * draw
        made.append(row(COMPLETE, ALL, 0.9, draw))
        for method in (VANILLA, RATIO, "bound", "unbiased", "empirical Bayes"):
            recall = start + more * (method == "bound")
            made += [row(method, ALL, recall, draw), row(method, SHORTLIST, recall - cost, draw)]
    return made


def claims(measured: list[dict[str, Any]]) -> dict[str, tuple[str, str]]:
    (first, *_) = study.draw(measured)
    (verdicts,) = (part for part in first.parts if isinstance(part, report.Verdicts))
    return {each.words: (each.badge, each.evidence) for each in verdicts.verdicts}


def test_a_gain_is_compared_with_its_error_repetition_by_repetition() -> None:
    cell = Cell((0.1, 0.2, 0.6))
    assert cell.mean == pytest.approx(0.3)
    assert cell.error == pytest.approx(np.sqrt(0.07 / 3))
    assert str(cell.less(Cell((0.1, 0.1, 0.1)))) == "0.200 ± 0.153"
    assert Cell((0.1,)).error is None
    assert str(Cell((0.1,))) == "0.100"


def test_claims_follow_the_rows() -> None:
    words = "planted: bound raises the true R@5 of vanilla, tuned"
    mixed = sorted(rows((0.02, 0.03, 0.04)), key=lambda row: (row["R@5"], row["way"]))
    assert claims(mixed) == claims(rows((0.02, 0.03, 0.04)))
    badge, evidence = claims(mixed)[words]
    assert badge == "holds"
    assert evidence == "by 0.030 ± 0.006, from 0.500 ± 0.058"
    assert claims(rows((0.02, -0.01, 0.04)))[words][0] == "does not hold"
    assert claims(rows((0.02,)))[words][0] == "untested"
    assert (
        claims(rows((0.0, 0.0)))["planted: vanilla, P/p raises the true R@5 of vanilla, tuned"][0]
        == "does not hold"
    )
    shortlist = "planted: a shortlist costs at most 0.01 of R@5"
    assert claims(rows((0.0, 0.0), cost=0.009))[shortlist][0] == "holds"
    assert claims(rows((0.0, 0.0), cost=0.011))[shortlist][0] == "does not hold"


def test_without_torch_the_study_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = builtins.__import__

    def refuse(name: str, *args: Any, **options: Any) -> ModuleType:
        if name == "unmask_studies.encoder" and "network" in (args[2] or ()):
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
        return usual(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ValueError, match=r"needs PyTorch .*install unmask\[torch\]"):
        list(study.measure(**study.units("tiny", 0, None)[0]))


def network() -> tuple[Any, Any, sp.csr_array]:
    """A network of 3 words and 6 labels, and rows to rank."""
    pytest.importorskip("torch", reason="needs torch")
    from unmask_studies.encoder import network as module

    features = sp.csr_array(np.array([[1.0, 0.0, 0.5], [0.0, 0.0, 0.0], [0.2, 0.4, 0.0]]))
    labels = sp.csr_array(np.eye(3, 6))
    parts = module.Parts(features, labels, features, labels, features)
    plan = module.Plan("vanilla", 0, (0.1,), 1, 3)
    (trained,) = module.trained(parts, np.full(6, 0.5), plan, 0.1)
    return module, trained, features


def test_rankings_are_those_of_all_scores() -> None:
    _, trained, features = network()
    words, bias = trained.encoder.weight.detach().numpy(), trained.output.bias.detach().numpy()
    scores = features @ words @ trained.output.weight.detach().numpy().T + bias[:, 0]
    p = np.array([0.9, 0.1, 0.5, 0.2, 1.0, 0.3])
    np.testing.assert_array_equal(trained.top(features).labels, np.argsort(-scores)[:, :5])
    ratios = 1 / (1 + np.exp(-scores)) / p
    np.testing.assert_array_equal(trained.top(features, p).labels, np.argsort(-ratios)[:, :5])


def test_a_network_that_diverged_predicts_nothing_and_is_not_chosen() -> None:
    module, trained, features = network()
    trained.output.weight.data[2] = np.nan
    assert trained.top(features) is None
    parts = module.Parts(features, features, features, features, features)
    assert module._estimate(None, parts, np.ones(3)) == -np.inf


def test_one_repetition_has_a_mean_without_doubt() -> None:
    cells = {("bound", ALL): Cell((0.4,)), ("bound", SHORTLIST): Cell((0.3, 0.5))}
    alone, several = study._chart("planted", cells).series
    assert (alone.low, alone.y, alone.high) == ((0.4,), (0.4,), (0.4,))
    assert several.low == pytest.approx((0.4 - 2 * 0.1,))
    assert several.high == pytest.approx((0.4 + 2 * 0.1,))
