"""Columns of a plan: what is asked for together is what is asked for alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.helpers.evaluations import one, rows_of
from tests.helpers.rankings import LISTED, one_top
from unmask.metrics import METRICS, Table, contributions, evaluate, supported
from unmask.metrics import sums as plan
from unmask.predictions import TopK

CHOSEN = ["vanilla", "unbiased", "bound", "clipped", "self_normalized", "filtered", "deconvolved",
          "subsampled", "tempered"]  # fmt: skip


@pytest.fixture(scope="module")
def together() -> Table:
    """Every metric at two cut-offs by every estimator, in one pass."""
    names = [f"{name}@{k}" for name in LISTED for k in (3, 1)]
    return evaluate(*rows_of(70), metrics=names, estimators=CHOSEN)


@pytest.mark.parametrize("metric", LISTED)
def test_what_is_asked_for_together_is_what_is_asked_for_alone(
    metric: str, together: Table
) -> None:
    """In passes of its own, in which its first column is the first of all."""
    for each in (e for e in together if e.metric.partition("@")[0] == metric):
        alone = one(*rows_of(70), each.metric, each.estimator)
        for name in ("value", "standard_error", "effective_sample_size", "largest_contribution"):
            wanted = pytest.approx(getattr(alone, name), rel=1e-9, nan_ok=True)
            assert getattr(each, name) == wanted, (each.metric, each.estimator, name)
        verdicts = each.verdict, alone.verdict
        assert len({(verdict.level, verdict.reason) for verdict in verdicts}) == 1
        assert each.details == alone.details


def test_bounds_of_rows_with_one_label_stay_within_their_tables() -> None:
    """N = 1: every bound at k = 1 is 1/p, also where 1 + q − q is below 1 (it once read beyond)."""
    propensity = np.linspace(0.05, 1, 400)
    for name in ("nDCG@1", "R@1", "F1@1", "Jaccard@1"):
        for _ in range(5):  # memory differs from call to call
            found = contributions(one_top([[j] for j in range(400)]), np.eye(400), propensity,
                                  metrics=[name], estimators=["bound"])  # fmt: skip
            assert found[name, "bound"] == pytest.approx(1 / propensity, rel=1e-12)


def test_estimates_that_need_the_same_column_share_it() -> None:
    made = plan.make(["P@5", "PSP@5", "PSP@5", "P@3", "macro-P@5", "DCG@5"],
                     ["vanilla", "unbiased", "deconvolved"],
                     width=5, n_labels=9, tau="auto", clip=10.0)  # fmt: skip
    cells = {(cell.name, cell.estimator): cell for cell in made.cells}
    columns = [made.column(cells[name].keys[0], 5)
               for name in (("P@5", "unbiased"), ("PSP@5", "normalized"))]  # fmt: skip
    assert columns[0] == columns[1]
    used = {made.column(key, k) for key in made.starts for k in (3, 5)}
    used |= set(made.products.values())
    assert used == set(range(made.columns))  # none twice, none missing
    assert len(made.products) == 1
    assert made.integrates == set()
    assert plan.make(["R@1"], ["vanilla"], width=5, n_labels=9, tau=0, clip=1).integrates == set()
    assert plan.make(["R@1"], ["unbiased"], width=5, n_labels=9, tau=0, clip=1).integrates


@pytest.mark.parametrize("estimator", ["vanilla", "unbiased"])
@pytest.mark.parametrize("of_sets", [False, True])
def test_a_metric_alone_is_what_it_is_among_all_others(of_sets: bool, estimator: str) -> None:
    """Whichever column it stands in, the first or a later one."""
    rng = np.random.default_rng(3)
    labels = (rng.random((30, 6)) < 0.4).astype(int)
    top, p = TopK.from_scores(rng.random((30, 6)), 3), np.linspace(0.5, 0.9, 6)
    names = [
        name if about.of_sets else f"{name}@3" for name, about in METRICS.items()
        if about.reads == "list" and about.of_sets == of_sets
        and about.over in ("rows", "ratio") and estimator in supported(name)
    ]  # fmt: skip
    assert len(names) > 5
    asked: dict[str, Any] = {"estimators": [estimator]}
    together = evaluate(top, labels, p, metrics=names, **asked)
    for name in names:
        alone = evaluate(top, labels, p, metrics=[name], **asked)[name, estimator]
        other = together[name, estimator]
        assert (alone.value, alone.standard_error) == (other.value, other.standard_error)


def test_rows_that_are_short_enough_are_not_thinned() -> None:
    """Then `subsampled` is `unbiased`, wherever in the row a hit stands."""
    labels = np.array([[1, 1, 0, 1], [0, 1, 0, 0], [1, 0, 1, 1], [0, 0, 0, 0], [0, 1, 1, 1]])
    top = TopK(
        [[0, 2, 3], [1, 0, 2], [3, 0, 1], [0, 1, 2], [1, 3, -1]],
        [[3.0, 2, 1]] * 4 + [[3.0, 2, -np.inf]],
    )
    p = np.array([0.5, 0.8, 0.4, 0.9])
    names = ["R@1", "R@2", "R@3"]
    made = contributions(top, labels, p, metrics=names, estimators=["subsampled"])
    exact = contributions(top, labels, p, metrics=names, estimators=["unbiased"])
    for metric in names:
        np.testing.assert_allclose(
            made[metric, "subsampled"], exact[metric, "unbiased"], rtol=1e-12, atol=1e-15
        )
