"""Metrics by group of rows or labels: where is a system better or worse than elsewhere?

A group is evaluated as if its rows (or labels) were all there are, and compared with all others
together; of more than `MANY` groups, with all rows or labels. Rows of two groups are different
rows, so the two errors add up as squares, and of many groups some will differ by chance: the
p-values of all groups, for one metric and estimator, are adjusted so that among those called
different at most `SHARE` are false, on average (Benjamini & Hochberg 1995). An error that few rows
or few observed labels tell is itself uncertain, so differences are compared with Student's t, by
the smaller of the two counts. Groups of labels share their rows, which makes the test of a
difference cautious where labels of a row are right or wrong together. A mean over labels (macro-F1,
mAP) counts those that a group of rows has; with other labels than the rest has it is another
question, and not compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from scipy.stats import false_discovery_control, t

from unmask._typing import Array, Bools, LabelsLike, PropensityLike, ScoresLike
from unmask.arrays import LabelSets, TopK, checks
from unmask.metrics.table import Estimate, Table, Tables
from unmask.propensity import MaskModel, PropensityEstimate

SHARE = 0.05
"""Of the groups called different, the share that may be false."""
MANY = 20
"""Of more groups than this, each is compared with the whole rather than with all others."""
FEW = 30
"""A group of fewer rows is called small, …"""
FEW_OBSERVED = 10
"""… and so is one with fewer observed labels; small groups are not called different."""

Part = tuple["TopK | LabelSets | ScoresLike", LabelsLike, "PropensityLike | None"]


def by_group(evaluate: Callable[[Part], Table], whole: Part, groups: Sequence[object]) -> Tables:
    """A table for every group of rows.

    Parameters
    ----------
    evaluate : function
        Makes the table of some rows: predictions, labels and propensities.
    whole : predictions, labels and propensities
        Of all n rows.
    groups : sequence of n names
        The group of every row.

    Returns
    -------
    Tables
        By name of group, in the order in which they come; every estimate has in its details the
        numbers of `rows` and of `observed` labels, whether they are few (`small`), the adjusted
        p-value of the difference to all other rows (`adjusted_p`) and whether that is one
        (`differs`).
    """
    top, labels, propensity = whole
    observed = checks.labels(labels)
    names = _names(groups, observed.shape[0], "rows")
    return _by_parts(
        names, lambda inside: _counted(evaluate, _rows(top, observed, propensity, inside))
    )


def by_label_group(
    evaluate: Callable[[Part], Table], whole: Part, groups: Sequence[object]
) -> Tables:
    """A table for every group of labels, each with the rows of all.

    Parameters
    ----------
    evaluate, whole
        As in `by_group`; predictions are sets or dense scores, of which columns can be taken.
    groups : sequence of L names
        The group of every label.

    Returns
    -------
    Tables
        As of `by_group`; `labels_in_group` counts labels.
    """
    top, labels, propensity = whole
    observed = checks.labels(labels)
    names = _names(groups, observed.shape[1], "labels")
    return _by_parts(
        names,
        lambda inside: _counted(
            evaluate, _columns(top, observed, propensity, inside), labels_in_group=int(inside.sum())
        ),
    )


def _names(groups: Sequence[object], count: int, of: str) -> Array:
    names = np.array([str(name) for name in groups])
    if names.shape != (count,):
        raise ValueError(f"give a group for each of {count} {of}; got {names.size} groups.")
    return names


def _by_parts(names: Array, evaluate: Callable[[Bools], Table]) -> Tables:
    """The tables of all groups, in the order in which they first come."""
    groups = list(dict.fromkeys(names.tolist()))
    if not groups:
        raise ValueError("there is nothing to group; give at least one row and one label.")
    tables = {group: evaluate(names == group) for group in groups}
    whole = evaluate(np.ones(names.size, dtype=bool)) if len(groups) > MANY else None
    others = {}
    for group in groups if len(groups) > 1 else ():
        others[group] = evaluate(names != group) if whole is None else whole
    return Tables("group", _marked(tables, others))


def _rows(
    top: TopK | LabelSets | ScoresLike,
    labels: LabelsLike,
    propensity: PropensityLike | None,
    inside: Bools,
) -> Part:
    observed = checks.labels(labels)
    part = propensity
    if checks.is_sparse(propensity):
        part = propensity.tocsr()[inside]
    if isinstance(top, TopK):
        return TopK(top.labels[inside], top.scores[inside]), observed[inside], part
    if isinstance(top, LabelSets):
        return top[inside], observed[inside], part
    if checks.is_sparse(top):
        return top.tocsr()[inside], observed[inside], part
    return checks.dense(top, "scores", "label")[inside], observed[inside], part


def _columns(
    top: TopK | LabelSets | ScoresLike,
    labels: LabelsLike,
    propensity: PropensityLike | None,
    inside: Bools,
) -> Part:
    observed = checks.labels(labels)
    if isinstance(top, TopK) or isinstance(propensity, PropensityEstimate | MaskModel):
        raise ValueError(
            "groups of labels need predicted sets or a matrix of scores, and propensities as "
            "numbers; a ranking of all labels is none of some of them."
        )
    part: PropensityLike | None = propensity
    if checks.is_sparse(propensity):
        part = propensity.tocsr()[:, inside]
    elif propensity is not None:
        part = checks.propensity(propensity, observed.shape[1])[inside]
    if isinstance(top, LabelSets):
        return LabelSets(top.indicator[:, inside], ids=top.ids), observed[:, inside], part
    if checks.is_sparse(top):
        return top.tocsr()[:, inside], observed[:, inside], part
    return checks.dense(top, "scores", "label")[:, inside], observed[:, inside], part


def _counted(evaluate: Callable[[Part], Table], part: Part, **counts: int) -> Table:
    """The table of a part; every estimate says how many labels are observed in it."""
    table = evaluate(part)
    about = {"observed": int(checks.labels(part[1]).nnz), **counts}
    made = [replace(each, details={**each.details, **about}) for each in table]
    return replace(table, estimates=tuple(made))


def _marked(tables: dict[str, Table], others: dict[str, Table]) -> dict[str, Table]:
    """Every estimate with the adjusted p-value of its difference to all others."""
    names = list(tables)
    marked: dict[str, list[Estimate]] = {name: [] for name in names}
    for each in tables[names[0]]:
        cell = each.metric, each.estimator
        p_values = np.array([_p_value(tables, others, name, cell) for name in names])
        adjusted = false_discovery_control(p_values)
        for name, p_value in zip(names, adjusted.tolist(), strict=True):
            own = tables[name][cell]
            about = {
                "rows": own.rows,
                "small": _is_small(own),
                "adjusted_p": p_value,
                "differs": p_value <= SHARE,
            }
            marked[name].append(replace(own, details={**own.details, **about}))
    return {name: replace(tables[name], estimates=tuple(marked[name])) for name in names}


def _is_small(each: Estimate) -> bool:
    return each.rows < FEW or each.details["observed"] < FEW_OBSERVED


def _p_value(
    tables: dict[str, Table], others: dict[str, Table], name: str, cell: tuple[str, str]
) -> float:
    own = tables[name][cell]
    if name not in others or _is_small(own):
        return 1.0
    rest = others[name][cell]
    if "labels_in_group" not in own.details and own.details.get("labels") != rest.details.get(
        "labels"
    ):
        return 1.0
    error = math.hypot(own.standard_error, rest.standard_error)
    difference = own.value - rest.value
    if not (math.isfinite(error) and math.isfinite(difference) and error > 0):
        return 1.0
    degrees = max(1, min(own.rows, own.details["observed"]) - 1)
    return float(2 * t.sf(abs(difference) / error, degrees))
