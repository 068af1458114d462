"""Plans: random samples of rows or pairs with known inclusion probabilities.

    plan = audit.plan(top, labels, budget=200, unit="rows", seed=0)
    plan.rows, plan.probability                  # and plan.labels for unit="pairs"

Which design serves which metric:

- `simple`: whole rows; every metric, and confidence sequences (`audit.Sequence`);
- `stratified`: whole rows, proportionally from strata of predicted size; every metric;
- `pairs`: pairs over all rows by Neyman's rule, for metrics that add up pairs (P, DCG, micro-P,
  micro-R, micro-F1). P@k needs only the unobserved pairs of the first k; micro-recall needs pairs
  everywhere, also those that nobody predicts;
- `two-phase`: some rows, and in them all pairs at the head of the lists and a share of the others;
  every metric, at less cost than whole rows where there are many labels.

A stored plan is one JSON object: `format` ("unmask-audit-plan"), `version` (1), `sample` (the
fields of `data.judgements.Sample`: design, shape, strata, rows, labels, stratum, within,
observed_free, k, systems, vocabulary), `budget`, `metrics`, `waves` (seed, budget and units of
each), `options`, `fingerprint`, `expected`. Rows and labels are numbers counted from 0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np

from unmask._messages import named_options
from unmask._text import html_table
from unmask._typing import Floats, Ints, LabelsLike, PathLike, PropensityLike, Record
from unmask.audit import expectation
from unmask.audit.designs import (
    PlanOptions,
    Predictions,
    checked_options,
    draw,
    nothing_left,
    question_of,
)
from unmask.audit.expectation import Expected
from unmask.data import Dataset
from unmask.data.judgements import Design, Sample, Vocabulary
from unmask.files import atomic_write, fields, read_json
from unmask.metrics.registry import split_measured

FORMAT, VERSION = "unmask-audit-plan", 1
WITH_LENGTH = ("xc", "xc-pair", "labels", "npz")
"""Formats of data that say how many labels there are, also those that no row has."""


@dataclass(frozen=True)
class Wave:
    """One draw of rows or pairs.

    Parameters
    ----------
    seed : int
        What decided it.
    budget : int
        Rows or pairs that it could have.
    units : int
        Rows or pairs that it added.

    Examples
    --------
    >>> from unmask import TopK, audit
    >>> top, labels = TopK([[0], [1], [0]], [[1.0]] * 3), [[1, 0], [0, 1], [0, 0]]
    >>> plan = audit.plan(top, labels, budget=2)
    >>> plan.waves
    (Wave(seed=0, budget=2, units=2),)
    """

    seed: int
    budget: int
    units: int


@dataclass(frozen=True, eq=False)
class AuditPlan:
    """Rows or pairs to judge, with their inclusion probabilities.

    Parameters
    ----------
    sample : Sample
        What was drawn; `rows`, `labels` and `probability` are read from it.
    budget : int
        Rows or pairs that may be judged, over all waves.
    metrics : tuple of str
        What the plan is made for.
    waves : tuple of Wave
        The draws, first one first; their units stand in this order in the sample.
    options : PlanOptions
        Every choice made.
    fingerprint : str
        Of the labels and predictions, so that another wave is drawn from the same.
    expected : tuple of Expected
        What intervals to expect.

    Examples
    --------
    >>> from unmask import TopK, audit
    >>> top, labels = TopK([[0], [1], [0]], [[1.0]] * 3), [[1, 0], [0, 1], [0, 0]]
    >>> plan = audit.plan(top, labels, budget=2)
    >>> plan.unit, len(plan), plan.probability.round(2)
    ('rows', 2, array([0.67, 0.67]))
    >>> print(audit.plan(top, labels, budget=2, expect=False))
    Audit plan: 2 rows to judge (simple design, seed 0; draws: 2)
    """

    sample: Sample
    budget: int
    metrics: tuple[str, ...]
    waves: tuple[Wave, ...]
    options: PlanOptions
    fingerprint: str
    expected: tuple[Expected, ...] = ()

    @property
    def unit(self) -> str:
        """The unit of judging: "rows" or "pairs"."""
        return self.sample.unit

    @property
    def rows(self) -> Ints:
        """The row of every unit, (m,) integers."""
        return self.sample.rows

    @property
    def labels(self) -> Ints | None:
        """The label of every pair, (m,) integers; None if rows are judged."""
        return self.sample.labels

    @property
    def probability(self) -> Floats:
        """The inclusion probability of every unit, (m,) floats."""
        return self.sample.probability

    @property
    def seed(self) -> int:
        """The seed of the first wave."""
        return self.waves[0].seed

    def __len__(self) -> int:
        """Return how many rows or pairs are to be judged."""
        return len(self.sample.rows)

    def __str__(self) -> str:
        """Say what is to be judged, with a line on what can be expected of every metric."""
        draws = ", ".join(str(wave.units) for wave in self.waves)
        lines = [
            f"Audit plan: {len(self):,} {self.unit} to judge ({self.sample.design.value} design, "
            f"seed {self.seed}; draws: {draws})"
        ]
        lines += [
            f"{each.metric} ± {each.budget:.3f} expected; with half as many ± {each.half:.3f}, "
            f"with twice as many ± {each.twice:.3f}"
            for each in self.expected
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Show what is to be judged, and what can be expected of it, in a notebook."""
        header = ["metric", "± with half of it", "± with this", "± with twice as many"]
        rows = [
            [each.metric, *(f"{width:.3f}" for width in (each.half, each.budget, each.twice))]
            for each in self.expected
        ]
        notes = (
            f"{self.sample.design.value} design, seed {self.seed}; draws: "
            + ", ".join(str(wave.units) for wave in self.waves),
        )
        return html_table(f"Audit plan: {len(self):,} {self.unit} to judge", header, rows, notes)

    def to_dict(self) -> Record:
        """Return plain values for JSON as the module describes them; `from_dict` is the inverse."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "sample": self.sample.to_dict(),
            "budget": self.budget,
            "metrics": list(self.metrics),
            "waves": [{"seed": w.seed, "budget": w.budget, "units": w.units} for w in self.waves],
            "options": dict(self.options),
            "fingerprint": self.fingerprint,
            "expected": [
                {name: _or_none(value) for name, value in vars(each).items()}
                for each in self.expected
            ],
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> AuditPlan:
        """Make a plan of what `to_dict` returned.

        Raises
        ------
        ValueError
            If it is not one, or of a later version.
        """
        if not isinstance(stored, Mapping):
            raise ValueError("this is no audit plan.")
        if stored.get("format") != FORMAT or stored.get("version") != VERSION:
            raise ValueError(
                f"this is no audit plan of version {VERSION}: it says format "
                f"{stored.get('format')!r}, version {stored.get('version')!r}."
            )
        sample = Sample.from_dict(fields.record(stored, "sample"))
        metrics = tuple(fields.list_of(stored, "metrics", fields.text))
        made = cls(
            sample,
            fields.whole(stored, "budget", low=1),
            metrics,
            tuple(
                Wave(
                    fields.whole(each, "seed"),
                    fields.whole(each, "budget", low=1),
                    fields.whole(each, "units", low=1),
                )
                for each in fields.records(stored, "waves")
            ),
            _stored_options(fields.record(stored, "options"), sample, metrics),
            fields.text(stored, "fingerprint"),
            tuple(
                Expected(
                    fields.text(each, "metric"),
                    *(fields.number(each, n, missing=True) for n in ("half", "budget", "twice")),
                )
                for each in fields.records(stored, "expected")
            ),
        )
        made._refuse_contradictions()
        return made

    def _refuse_contradictions(self) -> None:
        """Refuse waves that do not make up budget and units, or a forecast of some metrics only."""
        units, budget = (sum(getattr(w, name) for w in self.waves) for name in ("units", "budget"))
        if not self.metrics:
            raise ValueError("the plan is made for no metric.")
        if units != len(self):
            raise ValueError(f"waves of {units} {self.unit} in all; the sample has {len(self)}.")
        if budget != self.budget:
            raise ValueError(
                f"waves with a budget of {budget} in all; the plan's is {self.budget}."
            )
        if self.expected and tuple(each.metric for each in self.expected) != self.metrics:
            raise ValueError("what is expected is not of the metrics of the plan.")
        systems = self.fingerprint.split("-")[1:]
        if not systems or not self.fingerprint.replace("-", "").isalnum():
            raise ValueError("'fingerprint' names no labels and predictions.")


def write_plan(path: PathLike, plan: AuditPlan) -> None:
    """Store a plan as JSON.

    Parameters
    ----------
    path : str or path
    plan : AuditPlan

    Raises
    ------
    ValueError
        If the path is no place for a file, such as a folder.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> name = tempfile.mkdtemp() + "/plan.json"
    >>> from unmask import TopK
    >>> top = TopK([[0]] * 9, [[1.0]] * 9)
    >>> made = plan(top, [[1, 0]] * 9, budget=3)
    >>> write_plan(name, made)
    >>> bool((read_plan(name).rows == made.rows).all())
    True
    """
    with atomic_write(path) as file:
        file.write(json.dumps(plan.to_dict(), indent=1).encode())


def read_plan(path: PathLike) -> AuditPlan:
    """Read the plan in a file of `write_plan`.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    AuditPlan

    Raises
    ------
    ValueError
        If the file holds no plan; the message names it.

    Examples
    --------
    >>> import tempfile
    >>> from unmask import TopK, audit
    >>> top, labels = TopK([[0], [1], [0]], [[1.0]] * 3), [[1, 0], [0, 1], [0, 0]]
    >>> plan = audit.plan(top, labels, budget=2)
    >>> write_plan(path := tempfile.mkdtemp() + "/plan.json", plan)
    >>> read_plan(path).budget
    2
    """
    stored = read_json(path)
    try:
        return AuditPlan.from_dict(stored)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


@named_options
def plan(
    predictions: Predictions,
    labels: LabelsLike | Dataset,
    propensity: PropensityLike | None = None,
    *,
    budget: int,
    unit: Literal["rows", "pairs"] = "rows",
    metrics: Sequence[str] | None = None,
    seed: int = 0,
    vocabulary: Vocabulary | None = None,
    design: Literal["simple", "stratified", "pairs", "two-phase"] | None = None,
    observed: Literal["free", "sampled"] | None = None,
    head: int | None = None,
    tail: float | None = None,
    strata: int | None = None,
    expect: bool = True,
) -> AuditPlan:
    """Choose rows or pairs to judge, with known inclusion probabilities.

    Parameters
    ----------
    predictions : TopK, LabelSets, (n, L) scores, or mapping of str to any of them
        One system, or several; of several, the union of their lists is judged.
    labels : (n, L) matrix of 0 and 1, or Dataset
        The observed labels.
    propensity : (L,) floats in (0, 1], optional
        A guess, which only serves the allocation of pairs and the intervals to expect; it cannot
        bias anything. By default that of Jain's model: rare labels are missing more often.
    budget : int
        How many rows or pairs may be judged. The number of pairs of a two-phase sample varies by
        chance; it exceeds the budget about once in forty plans.
    unit : {"rows", "pairs"}, default "rows"
        What a person judges: all labels of a row, or one label of one row.
    metrics : sequence of str, optional
        What is to be measured, such as ["P@5", "micro-R@5"]; by default P@k and R@k with k = 5 or
        what is predicted, and micro-R@k for pairs; of sets sample-P, sample-R and sample-F1, and
        micro metrics for pairs.
    seed : int, default 0
        Decides the sample.
    vocabulary : {"stated", "seen"}, optional
        Whether the L columns are all labels that a row can have, or only those that somebody
        recorded or predicted. Then R@k and all else that divides by the number of true labels
        stays doubtful: judges are never offered the other labels. By default "stated", but "seen"
        for a data set whose file names no label beyond those of its rows, such as a table;
        `Dataset.with_label_names` puts labels under the names of a whole vocabulary.
    design : {"simple", "stratified", "pairs", "two-phase"}, optional
        By default simple rows; for pairs what the metrics need.
    observed : {"free", "sampled"}, optional
        Pairs: take observed ones as true ("free", the default), or judge a part of them, too.
    head : int, optional
        Two-phase: places of every list that are surely judged; 50 by default.
    tail : float, optional
        Two-phase: the probability of all other pairs of a chosen row, at least 0.2; by default 0.3.
    strata : int, optional
        Strata of rows: by default 4 for the stratified design, else 1.
    expect : bool, default True
        Whether to say which intervals to expect, which takes a moment on much data.

    Returns
    -------
    AuditPlan
        `rows`, `labels` (pairs) and `probability`, in the order of judging.

    Raises
    ------
    ValueError
        If shapes differ, an option does not fit the unit, or the budget buys less than two rows.

    Examples
    --------
    >>> from unmask import TopK
    >>> top = TopK([[0], [1], [0], [1]], [[1.0]] * 4)
    >>> made = plan(top, [[1, 0], [0, 0], [0, 0], [0, 1]], budget=2, seed=0)
    >>> len(made.rows), made.probability
    (2, array([0.5, 0.5]))
    >>> pairs = plan(
    ...     top, [[1, 0], [0, 0], [0, 0], [0, 1]], budget=2, unit="pairs", metrics=["P@1"]
    ... )
    >>> sorted(zip(pairs.rows.tolist(), pairs.labels.tolist()))
    [(1, 1), (2, 0)]
    """
    if vocabulary is None:
        vocabulary = "seen" if isinstance(labels, Dataset) and _as_read(labels) else "stated"
    options = _stated(
        design=design, observed=observed, head=head, tail=tail, strata=strata, expect=expect
    )
    question = question_of(
        predictions, _observed(labels), propensity, metrics, unit, budget, options
    )
    _refuse_without_effect(options, question.design)
    drawn = replace(draw(question, budget, None, seed), vocabulary=vocabulary)
    if not len(drawn.rows):
        raise ValueError(nothing_left(question))
    wave = Wave(int(seed), int(budget), len(drawn.rows))
    return AuditPlan(
        drawn, int(budget), question.metrics, (wave,), question.options, question.fingerprint,
        expectation.expected(question, budget) if question.options["expect"] else (),
    )  # fmt: skip


def _stated(**options: object) -> PlanOptions:
    """Return the options that were stated."""
    return cast("PlanOptions", {name: each for name, each in options.items() if each is not None})


ONLY_FOR = {
    "observed": (Design.PAIRS, Design.TWO_PHASE),
    "head": (Design.TWO_PHASE,),
    "tail": (Design.TWO_PHASE,),
    "strata": (Design.SIMPLE, Design.STRATIFIED),
}
"""The designs that an option has an effect on."""


def _refuse_without_effect(options: PlanOptions, design: Design) -> None:
    """Raise if an option that was stated has no effect on the design."""
    for name, designs in ONLY_FOR.items():
        if name in options and design not in designs:
            meant = " and ".join(each.value for each in designs)
            raise ValueError(
                f"{name} has no effect on the {design.value} design, only on {meant}; leave it out."
            )


@named_options
def extend(
    plan: AuditPlan,
    predictions: Predictions,
    labels: LabelsLike | Dataset,
    propensity: PropensityLike | None = None,
    *,
    budget: int,
    seed: int,
) -> AuditPlan:
    """Add a second wave: more units of the same strata, none of them twice.

    Both waves together are a sample of the same design, so that inclusion probabilities are those
    of the total numbers drawn. The first units of the new plan are those of the old one, in their
    order: answers to them stay valid.

    Parameters
    ----------
    plan : AuditPlan
        The plan so far.
    predictions, labels, propensity
        Exactly what the plan was made from.
    budget : int
        Further rows or pairs.
    seed : int
        Decides what is added.

    Returns
    -------
    AuditPlan

    Raises
    ------
    ValueError
        If predictions or labels are not those of the plan, a wave has this seed already, or
        nothing is left to judge.

    Examples
    --------
    >>> from unmask import TopK
    >>> top = TopK([[0]] * 9, [[1.0]] * 9)
    >>> first = plan(top, [[1, 0]] * 9, budget=3)
    >>> both = extend(first, top, [[1, 0]] * 9, budget=2, seed=1)
    >>> bool((both.rows[:3] == first.rows).all()), len(set(both.rows)), float(both.probability[0])
    (True, 5, 0.5555555555555556)
    """
    question = question_of(
        predictions, _observed(labels), propensity, plan.metrics, plan.unit, budget, plan.options
    )
    if question.fingerprint != plan.fingerprint:
        raise ValueError(
            "these are not the predictions and labels that the plan was made from; a further wave "
            "must be drawn from the same. Make a new plan for new predictions."
        )
    if seed in {wave.seed for wave in plan.waves}:
        raise ValueError(
            f"the plan has a wave of seed {seed} already, {len(plan):,} {plan.unit} in all; a "
            "further wave needs a seed of its own."
        )
    drawn = replace(draw(question, budget, plan.sample, seed), vocabulary=plan.sample.vocabulary)
    added = len(drawn.rows) - len(plan.sample.rows)
    if added == 0:
        raise ValueError("everything that the plan could draw is in it already.")
    wave = Wave(int(seed), int(budget), added)
    return replace(
        plan, sample=drawn, budget=plan.budget + int(budget), waves=(*plan.waves, wave),
        expected=(),
    )  # fmt: skip


def _observed(labels: LabelsLike | Dataset) -> LabelsLike:
    if not isinstance(labels, Dataset):
        return labels
    if labels.labels is None:
        raise ValueError("the data set has no labels.")
    return labels.labels


def _as_read(rows: Dataset) -> bool:
    """Return whether the labels are only those that the rows of a file have."""
    if rows.labels is None or rows.source.format in WITH_LENGTH:
        return False
    every_label_has_a_row = np.unique(rows.labels.indices).size == rows.labels.shape[1]
    return rows.source.format != "memory" and every_label_has_a_row


def _stored_options(
    stored: Mapping[str, Any], sample: Sample, metrics: Sequence[str]
) -> PlanOptions:
    """Return the options, which must be possible and those of the sample."""
    observed = fields.text(stored, "observed")
    if observed not in ("free", "sampled"):
        raise ValueError(f"'observed' must be free or sampled; got {observed[:40]!r}.")
    if fields.text(stored, "design") != sample.design.value:
        raise ValueError(f"the options do not say that the design is {sample.design.value}.")
    if sample.unit == "pairs" and (observed == "free") != sample.observed_free:
        raise ValueError(
            f"the options say that observed pairs are {observed}; the sample does not."
        )
    options = PlanOptions(
        design=sample.design.value,
        observed="free" if observed == "free" else "sampled",
        head=fields.whole(stored, "head", low=1),
        tail=fields.number(stored, "tail"),
        strata=fields.whole(stored, "strata", low=1),
        expect=fields.truth(stored, "expect"),
    )
    return checked_options(options, sample.unit, [split_measured(name)[0] for name in metrics])


def _or_none(value: object) -> object:
    return None if isinstance(value, float) and np.isnan(value) else value
