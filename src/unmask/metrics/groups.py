"""Metrics by group of rows or labels, and of labels that imply one another.

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

*Hierarchies.* Predictions and labels are evaluated with all their ancestors. A propensity is that
of a label as annotated; an ancestor is observed if any label that implies it is, so that its
propensity follows (`Hierarchy.propensity`), on average over rows. Within a row, closed labels are
kept or lost together, and a row with many of them keeps their ancestors more often: what
corrections assume fails, and every corrected number says so (`claims`). Labels that come with all
their ancestors have propensities of closed labels already, and these stay as they are stated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import false_discovery_control, t

from unmask._typing import Bools, LabelsLike, PropensityLike
from unmask.arrays import checks
from unmask.metrics.request import Predictions, Request, is_dataset
from unmask.metrics.table import Estimate, Table, Tables
from unmask.predictions import LabelSets, TopK
from unmask.propensity.estimate import PropensityEstimate
from unmask.propensity.mask_model import MaskModel

if TYPE_CHECKING:
    from unmask.data import Dataset, Hierarchy

SHARE = 0.05
"""Share of the groups called different that may be false."""
MANY = 20
"""With more groups than this, each is compared with the whole rather than with all others."""
FEW = 30
"""A group of fewer rows is called small, …"""
FEW_OBSERVED = 10
"""… and so is one with fewer observed labels; small groups are not called different."""

Part = tuple[Predictions, "LabelsLike | Dataset", "PropensityLike | None"]
Answer = Callable[[Request, Predictions, LabelsLike, "PropensityLike | None"], Table]


def by_part(
    request: Request,
    top: Predictions,
    labels: LabelsLike | Dataset,
    propensity: PropensityLike | None,
    answer: Callable[..., Any],
) -> Table | Tables:
    """Answer a request with a hierarchy, or with groups: a table, or one for every group.

    Parameters
    ----------
    request : Request
    top, labels, propensity
        Of all rows and labels. Groups of labels need sets or scores, of which columns can be taken.
    answer : function
        From a request and some rows to their table.

    Returns
    -------
    Table or Tables
        By name of group, in the order in which they come; every estimate has in its details the
        numbers of `rows` and of `observed` labels (and of `labels_in_group`), whether they are few
        (`small`), the adjusted p-value of the difference to all others (`adjusted_p`) and whether
        that is one (`differs`).
    """
    if request.hierarchy is not None:
        top, labels, propensity = closed(request.hierarchy, top, labels, propensity)
    if not request.grouped:
        table: Table = answer(request, top, labels, propensity)
        return table
    by_rows = request.groups is not None
    named = request.groups if by_rows else request.label_groups
    if request.by is not None:
        named = top.names if isinstance(top, LabelSets) else None
    if is_dataset(labels):
        raise ValueError("groups are formed of matrices; give the labels of the data set.")
    observed = checks.labels(labels)
    count = observed.shape[0 if by_rows else 1]
    names = np.array([str(name) for name in (range(count) if named is None else named)])
    if names.shape != (count,):
        of = "rows" if by_rows else "labels"
        raise ValueError(f"give a group for each of {count} {of}; got {names.size} groups.")
    groups = list(dict.fromkeys(names.tolist()))
    if not groups:
        raise ValueError("there is nothing to group; give at least one row and one label.")

    def evaluated(inside: Bools) -> Table:
        """The table of a part; every estimate says how many labels are observed in it."""
        part = (_rows if by_rows else _columns)(top, observed, propensity, inside)
        table: Table = answer(request, *part)
        about = {"observed": int(checks.labels(part[1]).nnz)}
        if not by_rows:
            about["labels_in_group"] = int(inside.sum())
        made = [replace(each, details={**each.details, **about}) for each in table]
        return replace(table, estimates=tuple(made))

    tables = {group: evaluated(names == group) for group in groups}
    whole = evaluated(np.ones(names.size, dtype=bool)) if len(groups) > MANY else None
    others = {}
    for group in groups if len(groups) > 1 else ():
        others[group] = evaluated(names != group) if whole is None else whole
    return Tables("group", _marked(tables, others))


def _rows(
    top: Predictions, observed: Any, propensity: PropensityLike | None, inside: Bools
) -> tuple[Any, Any, Any]:
    part = propensity.tocsr()[inside] if checks.is_sparse(propensity) else propensity
    if isinstance(top, TopK):
        return TopK(top.labels[inside], top.scores[inside]), observed[inside], part
    if isinstance(top, LabelSets):
        return top[inside], observed[inside], part
    if checks.is_sparse(top):
        return top.tocsr()[inside], observed[inside], part
    return checks.dense(top, "scores", "label")[inside], observed[inside], part


def _columns(
    top: Predictions, observed: Any, propensity: PropensityLike | None, inside: Bools
) -> tuple[Any, Any, Any]:
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


def closed(
    hierarchy: Hierarchy,
    top: Predictions,
    labels: LabelsLike | Dataset,
    propensity: PropensityLike | PropensityEstimate | None,
) -> Part:
    """Return predictions, labels and propensities with all ancestors.

    Parameters
    ----------
    hierarchy : Hierarchy
        Over the L labels.
    top : LabelSets or (n, L) scores
    labels : (n, L) matrix of 0 and 1
    propensity : (L,) floats in (0, 1], optional

    Returns
    -------
    tuple of LabelSets or (n, L) floats, csr_array of shape (n, L), and (L,) floats or None

    Raises
    ------
    ValueError
        If predictions are a ranking, labels a data set, or propensities not one per label.
    """
    if isinstance(top, TopK):
        raise ValueError(
            "ancestors have no place in a ranking; give predicted sets or a matrix of scores."
        )
    if is_dataset(labels):
        raise ValueError("a hierarchy closes matrices; give the labels of the data set.")
    uncertain = isinstance(propensity, PropensityEstimate | MaskModel)
    if uncertain or checks.is_sparse(propensity):
        raise ValueError(
            "with a hierarchy give one propensity per label; of an estimate, its `.value`."
        )
    observed = checks.labels(labels)
    complete = hierarchy.close_labels(observed)
    of_labels = None
    if propensity is not None:
        of_labels = checks.propensity(propensity, observed.shape[1])
        if complete.nnz > observed.nnz:
            of_labels = hierarchy.propensity(observed, of_labels)
    if isinstance(top, LabelSets):
        indicator = hierarchy.close_labels(top.indicator)
        return LabelSets(indicator, names=top.names, ids=top.ids), complete, of_labels
    return hierarchy.close_scores(top), complete, of_labels
