"""Frames: strata by hand, allocations by their rule, draws of exactly what is asked for.

Designs: what is asked by default, what rows cost, what a pair is worth, what is drawn.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from unmask import audit, evaluate
from unmask.arrays import pair_keys
from unmask.audit import designs
from unmask.audit.designs import PlanOptions, Question, question_of
from unmask.data.judgements import Design, Sample, Stratum, StratumKind
from unmask.predictions import TopK

TOP, LISTED, FAR = StratumKind.TOP, StratumKind.LISTED, StratumKind.FAR


@pytest.mark.parametrize(
    ("sizes", "importance", "budget", "least", "counts"),
    [
        ([10, 20, 30], [1, 1, 1], 60, 2, [10, 20, 30]),
        ([10, 20, 30], [1, 1, 1], 99, 2, [10, 20, 30]),
        ([10, 20, 30], [1, 1, 1], 12, 1, [2, 4, 6]),
        ([10, 20, 30], [3, 0, 1], 12, 1, [6, 0, 6]),
        ([4, 100], [10, 1], 50, 1, [4, 46]),  # a full stratum leaves the rest to the others
        ([10, 20, 30], [1, 1, 1], 4, 2, [1, 1, 2]),  # below the least: turns
        ([10, 20, 30], [1, 1, 1], 6, 2, [2, 2, 2]),
        ([1, 20, 30], [1, 1, 1], 5, 2, [1, 2, 2]),
        ([100, 100], [1, 1000], 20, 5, [5, 15]),
        ([10, 10], [0, 0], 5, 1, [0, 0]),
        ([3, 3], [1, 1], 5, 1, [3, 2]),
    ],
)
def test_allocations(
    sizes: Any, importance: Any, budget: int, least: int, counts: list[int]
) -> None:
    made = designs.allocate(np.array(sizes), np.array(importance, float), budget, least)
    assert made.tolist() == counts


def test_chances_of_pairs_that_were_not_observed() -> None:
    """r (1 − p)/(1 − p r), between a thousandth and what a chance of almost 1 leaves."""
    chance = sp.csr_array(np.array([[0.5, 0.2, 0], [1.0, 0, 0.001]]))
    made = designs._missing(chance, np.array([0.5, 0.75, 0.9]))
    near = (1 - 1e-9) * 0.5 / (1 - 0.5 * (1 - 1e-9))
    expected = [0.25 / 0.75, 0.2 * 0.25 / 0.85, near, 1e-3]
    np.testing.assert_allclose(made, expected, rtol=1e-12)
    counts = designs._far_counts(np.array([1, 4, 7, 5]), np.array([0.5, 0.25, 1.0]), 3)
    np.testing.assert_allclose(counts, [0.5 * 1, 3.5 * 3, 1.5 * 1e-3], rtol=1e-12)


def test_bins_of_equal_size_keep_equal_rates_together() -> None:
    assert designs._bins(np.arange(12) / 12).tolist() == [i // 2 for i in range(12)]
    assert designs._bins(np.array([0.5, 0.1, 0.5, 0.5])).tolist() == [1, 0, 1, 1]
    assert designs._bins(np.full(5, 0.3)).tolist() == [0] * 5


def test_far_labels_are_cut_where_roots_of_counts_add_up_alike() -> None:
    counts = np.array([0, 9, 4, 1, 0, 25])
    labels = sp.csr_array((np.arange(25)[:, None] < counts).astype(float))
    order = [5, 1, 2, 3, 0, 4]
    total = np.cumsum([np.sqrt(counts[j] + 0.5) for j in order])
    groups: dict[int, list[int]] = {}
    for label, sum_ in zip(order, total, strict=True):
        groups.setdefault(min(int(10 * sum_ / total[-1]), 9), []).append(label)
    assert [each.tolist() for each in designs._far_groups(labels)] == [
        sorted(groups[key]) for key in sorted(groups)
    ]
    alike = designs._far_groups(sp.csr_array((3, 20)))
    assert sorted(int(label) for each in alike for label in each) == list(range(20))


FRAME = designs.PairFrame(
    (4, 3),
    np.array([0, 4, 5, 9]),
    np.array([0, 1, 0, 1]),
    (TOP, LISTED, FAR, FAR),
    np.array([2, 2, 3, 2]),
    np.array([0.5, 0.2, 0.1, 0.1]),
    (np.array([0, 1]), np.array([2])),
    np.array([0, 3, 4, 5, 7, 9, 11]),
)
"""Rows 0 to 3 of three labels: pairs 3, 7 and 11 are observed, four are listed."""


def test_every_pair_has_its_stratum_or_needs_none() -> None:
    strata = FRAME.stratum_of(np.arange(12)).tolist()
    assert strata == [0, 2, 3, -1, 1, 0, 2, -1, 3, 1, 2, -1]
    nothing = designs.PairFrame(
        (2, 2), *(np.zeros(0, np.int64),) * 2, (FAR,), np.array([3]), np.array([0.1]),
        (np.array([0, 1]),), np.array([2]),
    )  # fmt: skip
    assert nothing.stratum_of(np.arange(4)).tolist() == [0, 0, -1, 0]


@pytest.mark.parametrize("few", [0, 1 << 14])
@pytest.mark.parametrize("without", [[], [1, 9]])
def test_draws_are_new_pairs_of_their_strata(
    monkeypatch: pytest.MonkeyPatch, few: int, without: list[int]
) -> None:
    """As many as asked for, each once; over seeds every pair that is left comes up."""
    monkeypatch.setattr(designs, "FEW", few)
    counts = np.array([1, 1, 1, 2 if not without else 1])
    seen: set[int] = set()
    for seed in range(60):
        keys, strata = FRAME.draw(counts, np.array(without, int), np.random.default_rng(seed))
        assert len(set(keys.tolist())) == counts.sum()
        assert FRAME.stratum_of(keys).tolist() == strata.tolist()
        assert np.bincount(strata, minlength=4).tolist() == counts.tolist()
        seen |= set(keys.tolist())
    assert seen == {0, 5, 4, 9, 1, 6, 10, 2, 8} - set(without)


def test_pairs_that_are_drawn_until_enough_are_new_are_as_likely(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(designs, "FEW", 0)
    labels, taken = np.array([0, 2]), np.array([0, 3, 5])
    times = np.zeros(60)
    for seed in range(600):
        wide = designs.PairFrame((20, 3), taken, taken, (FAR,), taken, taken, (labels,), taken)
        drawn = wide._draw_far(labels, 3, taken, np.random.default_rng(seed))
        assert drawn.size == 3
        times[drawn] += 1
    left = [
        row * 3 + label for row in range(20) for label in (0, 2) if row * 3 + label not in taken
    ]
    assert np.flatnonzero(times).tolist() == left
    assert abs(times[left] - 3 * 600 / 37).max() < 5 * np.sqrt(3 * 600 / 37)


def test_rows_are_cut_by_their_predicted_size() -> None:
    """Parts of equal size, the smallest first; equal ones in the order of rows."""
    rng = np.random.default_rng(0)
    labels = sp.csr_array((rng.random((7, 5)) < 0.4).astype(float))
    top = TopK.from_scores(rng.random((7, 5)), 3)
    size = np.asarray(designs.listed_chances([top], labels, None).sum(axis=1)).ravel()
    stratum = designs.row_strata([top], labels, 3)
    order = np.argsort(size, kind="stable")
    assert stratum[order].tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert pair_keys(sp.csr_array(np.array([[0, 1, 0], [1, 0, 1.0]]))).tolist() == [1, 3, 5]
    assert not designs.contains(np.zeros(0, int), np.arange(3)).any()


def test_strata_of_pairs_add_up_to_all_pairs() -> None:
    """By enumeration: the first k of either system, listed, observed or not, and all others."""
    rng = np.random.default_rng(1)
    labels = sp.csr_array((rng.random((12, 6)) < 0.3).astype(np.float32))
    tops = [TopK.from_scores(rng.random((12, 6)), 3) for _ in range(2)]
    for free in (True, False):
        frame = designs.pair_frame(tops, labels, np.full(6, 0.5), k=1, observed_free=free)
        strata = frame.stratum_of(np.arange(72)).reshape(12, 6)
        sizes = np.zeros(len(frame.kinds), int)
        for row in range(12):
            for label in range(6):
                seen = labels[row, label] > 0
                first = any(top.labels[row, 0] == label for top in tops)
                listed = any(label in top.labels[row] for top in tops)
                kind = "top" if first else "listed" if listed else "far"
                if seen:
                    kind = "observed-top" if first else "observed"
                if seen and free:
                    assert strata[row, label] == -1
                else:
                    assert frame.kinds[strata[row, label]] == kind
                    sizes[strata[row, label]] += 1
        assert frame.sizes.tolist() == sizes.tolist()
        shown = [kind.startswith("observed") for kind in frame.kinds]
        assert sum(shown) == (0 if free else 2)
        np.testing.assert_allclose(frame.rates[shown], 0.95)


LABELS = sp.csr_array(np.array([[1.0, 0, 0, 1], [0, 1, 0, 0]]))
FIRST = TopK([[0, 1, 2], [3, 0, 1]], [[0.9, 0.5, 0.1]] * 2)
SECOND = TopK([[0, 2, 1], [3, 2, 0]], [[0.9, 0.5, 0.1]] * 2)


def asked(systems: tuple[TopK, ...] = (FIRST, SECOND), k: int = 2, **options: Any) -> Question:
    metrics = options.pop("metrics", ("R@2",))
    chosen: Any = {"head": 2, "tail": 0.25, "observed": "free", **options}
    return Question(systems, LABELS, np.full(4, 0.5), metrics, k, chosen)


@pytest.mark.parametrize(
    ("head", "observed", "cost"),
    [
        (2, "sampled", 3 + 0.25 * 1),  # three different labels of each row, a quarter of the fourth
        (2, "free", 3.25 - (1 + 0.25 * 2) / 2),  # one of three observed labels is in a head
        (3, "sampled", 3.5 + 0.25 * 0.5),
        (3, "free", 3.625 - (2 + 0.25 * 1) / 2),
        (4, "sampled", 4.0),
        (4, "free", 4 - 3 / 2),
        (9, "free", 4 - 3 / 2),
    ],
)
def test_a_row_costs_its_head_and_a_share_of_its_tail(
    head: int, observed: Any, cost: float
) -> None:
    options = PlanOptions(head=head, tail=0.25, observed=observed)
    assert designs._row_cost((FIRST, SECOND), LABELS, options) == pytest.approx(cost, rel=1e-12)


def test_a_row_costs_a_pair_at_least() -> None:
    options = PlanOptions(head=4, tail=0.25, observed="free")
    assert designs._row_cost((FIRST,), sp.csr_array(np.ones((2, 4))), options) == 1.0


class Numbers:
    """Stands for a generator: these numbers, and the reversed order."""

    def __init__(self, *values: float) -> None:
        self.values = np.array(values)

    def random(self, size: int) -> Any:
        assert size == self.values.size
        return self.values

    def permutation(self, values: Any) -> Any:
        return values[::-1]


@pytest.mark.parametrize(
    ("row", "options", "numbers", "labels", "chances"),
    [
        (1, {"observed": "sampled"}, (0.9, 0.24, 0.9, 0.9), [3, 2, 1, 0], [1, 1, 0.25, 1]),
        (1, {"observed": "sampled"}, (0.9, 0.25, 0.9, 0.9), [3, 2, 0], [1, 1, 1]),
        (1, {}, (0.9, 0.1, 0.9, 0.9), [3, 2, 0], [1, 1, 1]),
        (0, {}, (0.1, 0.9, 0.9, 0.1), [2, 1], [1, 1]),
        (1, {"head": 1, "observed": "sampled"}, (0.9, 0.9, 0.2, 0.9), [3, 2], [1, 0.25]),
    ],
)
def test_heads_are_surely_judged_and_tails_with_their_chance(
    row: int, options: Any, numbers: Any, labels: list[int], chances: list[float]
) -> None:
    rng: Any = Numbers(*numbers)
    drawn, chance = designs._pairs_of_row(asked(**options), row, rng)
    assert (drawn.tolist(), chance.tolist()) == (labels, chances)


@pytest.mark.parametrize(("head", "count"), [(3, 2), (4, 4), (5, 4)])
def test_a_head_as_long_as_there_are_labels_holds_them_all(head: int, count: int) -> None:
    """Also those that a system does not list."""
    short = TopK([[0, 1], [3, 0]], [[0.9, 0.5]] * 2)
    rng: Any = Numbers(0.9, 0.9, 0.9, 0.9)
    drawn, chance = designs._pairs_of_row(asked((short,), head=head, observed="sampled"), 1, rng)
    assert (drawn.size, chance.tolist()) == (count, [1.0] * count)


SHOWN_TOP, SHOWN = StratumKind.OBSERVED_TOP, StratumKind.OBSERVED


@pytest.mark.parametrize(
    ("observed", "kinds", "sizes", "rates", "total", "recall"),
    [
        # two of three observed labels are among the first two of a system
        ("free", (TOP, LISTED, FAR), (5, 6, 20), (0.4, 0.2, 0.01), 6.4, (2 + 2) / 6.4),
        ("sampled", (TOP, SHOWN_TOP, SHOWN), (5, 2, 1), (0.4, 0.95, 0.9), 4.8, 3.9 / 4.8),
        ("sampled", (TOP, FAR), (5, 20), (0.1, 0.01), 1.0, 0.5),
        ("sampled", (TOP, FAR), (5, 20), (0.001, 0.1), 2.005, 0.05),
        ("sampled", (TOP, FAR), (50, 20), (0.1, 0.001), 5.02, 0.95),
    ],
)
def test_a_pair_is_worth_what_it_moves_the_metrics_by(
    observed: str, kinds: Any, sizes: Any, rates: Any, total: float, recall: float
) -> None:
    """√(Σ c² q (1 − q)): c 1/(n k) of precision, of recall (1 − R or R)/total."""
    nothing = np.zeros(0, np.int64)
    frame = designs.PairFrame(
        (2, 4), nothing, nothing, kinds, np.array(sizes), np.array(rates), (), nothing
    )
    lists = ([[0, 1], [3, 0]], [[0, 3], [3, 0]])
    systems = tuple(TopK(places, [[0.9, 0.5]] * 2) for places in lists)
    metrics = ("P@1", "micro-P", "micro-R@2", "micro-F1@2")
    question = asked(systems, k=3, observed=observed, metrics=metrics)
    expected = []
    for kind, rate in zip(kinds, rates, strict=True):
        top = kind in (TOP, SHOWN_TOP)
        square = 2 * ((1 - recall) if top else recall) ** 2 / total**2
        square += (1 / (2 * 1)) ** 2 + (1 / (2 * 3)) ** 2 if top else 0.0
        square += (0.25 / 3) ** 2 if kind in (SHOWN_TOP, SHOWN) else 0.0
        expected.append(math.sqrt(square * rate * (1 - rate)))
    assert designs._importance(question, frame) == pytest.approx(expected, rel=1e-12)


def question_for(**changes: Any) -> Question:
    labels = np.eye(4)
    arguments: dict[str, Any] = {
        "predictions": np.random.default_rng(0).random((4, 4)), "labels": labels,
        "propensity": None, "metrics": None, "unit": "pairs", "budget": 15, "options": {},
    }  # fmt: skip
    return question_of(**{**arguments, **changes})


def test_pairs_of_whole_rows_are_judged_where_five_rows_can_be_paid() -> None:
    """A row of 4 labels, one of them observed, costs 3 pairs."""
    two_phase, pairs = question_for(), question_for(budget=14)
    assert two_phase.options["design"] == "two-phase"
    assert two_phase.metrics == ("P@4", "R@4", "micro-R@4")
    assert pairs.options["design"] == "pairs"
    assert pairs.metrics == ("P@4", "micro-R@4")
    rows = question_for(unit="rows")
    assert (rows.options["design"], rows.metrics) == ("simple", ("P@4", "R@4"))


def test_choices_that_are_left_open() -> None:
    wide = np.random.default_rng(0).random((4, 120))
    question = question_for(predictions=wide, labels=np.eye(4, 120))
    assert [top.k for top in question.systems] == [100]
    assert question.k == 5
    assert question.options == {
        "design": "pairs", "observed": "free", "head": 50, "tail": 0.3, "strata": 1, "expect": True,
    }  # fmt: skip
    further = question_for(predictions=wide, labels=np.eye(4, 120), metrics=["P@110", "P@3"])
    assert (further.k, further.systems[0].k) == (110, 110)
    stratified = question_for(unit="rows", options={"design": "stratified"})
    assert stratified.options["strata"] == 4
    assert question_for(options={"tail": 0.2, "expect": False}).options["tail"] == 0.2
    with pytest.raises(ValueError, match="tail"):
        question_for(options={"tail": 0.19})
    with pytest.raises(ValueError, match="simple rows have one stratum; got 2"):
        question_for(unit="rows", options={"strata": 2})


def test_lists_are_as_long_as_metrics_read() -> None:
    """Unless they hold every label."""
    whole = TopK([[0, 1, 2, 3]] * 4, [[0.9, 0.5, 0.4, 0.1]] * 4)
    assert question_for(predictions=whole, metrics=["P@5"]).k == 5
    short = TopK([[0, 1, 2]] * 4, [[0.9, 0.5, 0.4]] * 4)
    assert question_for(predictions=short, metrics=["P@3"]).k == 3
    assert question_for(predictions={"a": whole, "b": short}).k == 3
    with pytest.raises(ValueError, match="need the first 4 predictions; there are 3"):
        question_for(predictions=short, metrics=["P@4"])
    with pytest.raises(ValueError, match="label 4 is predicted, but there are 4 labels"):
        question_for(predictions=TopK([[4]] * 4, [[0.5]] * 4))


def test_of_two_rows_half_of_the_labels_is_guessed_to_be_observed() -> None:
    two, three = (question_for(predictions=np.eye(n, 4), labels=np.eye(n, 4)) for n in (2, 3))
    assert two.p.tolist() == [0.5] * 4
    assert three.p[0] != 0.5
    assert three.p.shape == (4,)


@pytest.mark.parametrize(
    ("head", "budget", "rows"),
    [
        (3, 140, int((140 - 2 * math.sqrt(35 * 8 * 0.2)) / 4)),  # 35 rows at 3 + 0.2 · 5 pairs
        (3, 8, 2),
        (8, 140, 17),  # rows of 8 pairs each: no chance is left
        (8, 16, 2),
    ],
)
def test_rows_of_two_phases_leave_room_for_longer_tails(head: int, budget: int, rows: int) -> None:
    """Two standard deviations of the number of pairs in all, at most."""
    rng = np.random.default_rng(0)
    chosen: Any = {"head": head, "tail": 0.2, "observed": "sampled", "design": "two-phase"}
    scores = TopK.from_scores(rng.random((50, 8)), 8)
    labels = sp.csr_array((rng.random((50, 8)) < 0.3).astype(float))
    question = Question((scores,), labels, np.full(8, 0.5), ("R@2",), 2, {**chosen, "strata": 1})
    sample = designs.draw(question, budget, None, seed=3)
    assert sample.first_phase[0].size == rows
    assert sample.within is not None
    assert set(sample.within.probability) <= {0.2, 1.0}
    assert (sample.within.probability == 1).sum() == rows * head
    further = designs.draw(question, 16, sample, seed=4)
    assert further.rows[: sample.rows.size].tolist() == sample.rows.tolist()
    assert further.first_phase[0].size == rows + 2
    with pytest.raises(ValueError, match="buys fewer than two rows"):
        designs.draw(question, 7, None, seed=3)


def test_every_row_of_the_first_wave_has_pairs_to_judge() -> None:
    """The head of each is surely judged: no chosen row goes without, in this wave and the next."""
    rng = np.random.default_rng(0)
    labels = sp.csr_array((rng.random((60, 9)) < 0.2).astype(float))
    top = TopK.from_scores(rng.random((60, 9)), 4)
    options: Any = {"design": "two-phase", "head": 3, "tail": 0.2, "observed": "sampled"}
    first = audit.plan(top, labels, budget=60, unit="pairs", metrics=["R@3"], seed=1, **options)
    assert first.sample.design == "two-phase"
    assert np.unique(first.sample.rows).tolist() == sorted(first.sample.first_phase[0].tolist())
    for row in first.sample.first_phase[0].tolist():
        judged = first.sample.pair_labels[first.sample.rows == row]
        assert set(top.labels[row, :3].tolist()) <= set(judged.tolist())


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"rows": [0, 4, 1]}, "rows"), ({"rows": [0, -1, 1]}, "rows"),
        ({"labels": [0, 1, 2]}, "labels"), ({"stratum": [0, 1, 0]}, "strata"),
    ],
)  # fmt: skip
def test_a_sample_names_rows_labels_and_strata_that_exist(
    changed: dict[str, list[int]], name: str
) -> None:
    parts = {"rows": [0, 3, 1], "labels": [0, 1, 0], "stratum": [0, 0, 0]} | changed
    strata = (Stratum("far", 8, 3),)
    with pytest.raises(ValueError, match=name):
        Sample(Design.PAIRS, (4, 2), strata, parts["rows"], parts["labels"], parts["stratum"])


def test_predictions_and_labels_of_a_plan_are_of_the_same_rows() -> None:
    top = TopK(np.zeros((6, 1), int), np.ones((6, 1)))
    with pytest.raises(ValueError, match="must have the same rows; got 6 and 5"):
        audit.plan(top, np.eye(5), budget=2, seed=0)


@pytest.mark.parametrize("observed", [np.eye(40, 6), np.zeros((40, 6))], ids=["some", "none"])
def test_a_system_that_predicts_nothing_is_measured_too(observed: np.ndarray) -> None:
    """Its hits are none, whoever looks; a sample of pairs has nothing to ask about P@3."""
    silent = TopK(np.full((40, 3), -1), np.full((40, 3), -np.inf))
    plan = audit.plan(silent, observed, budget=20, metrics=["P@3", "R@3"], seed=0)
    judged = audit.from_rows(plan, np.eye(40, 6)[plan.rows])
    table = evaluate(silent, observed, metrics=["P@3", "R@3", "micro-R@3"], audit=judged)
    for metric in ("P@3", "R@3", "micro-R@3"):
        made = table[metric, "measured"]
        assert (made.value, made.interval[0]) == (0.0, 0.0)
    with pytest.raises(ValueError, match="no pair to judge for P@3: no label is predicted that"):
        audit.plan(silent, observed, budget=20, unit="pairs", metrics=["P@3"], seed=0)
