"""Metrics of labels that imply one another: predictions and labels with all their ancestors.

A propensity is that of a label as annotated; an ancestor is observed if any label that implies it
is, so that its propensity follows (`Hierarchy.propensity`), on average over rows. Within a row,
closed labels are kept or lost together, and a row with many of them keeps their ancestors more
often: what corrections assume fails, and every corrected number says so. Labels that come with all
their ancestors have propensities of closed labels already, and these stay as they are stated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import scipy.sparse as sp

from unmask._typing import Array, Floats, LabelsLike, PropensityLike, ScoresLike
from unmask.arrays import LabelSets, TopK, checks
from unmask.data import Dataset, Hierarchy
from unmask.metrics.judgement import corrected, outcome_of
from unmask.metrics.table import Estimate, Table, Tables
from unmask.metrics.verdict import Level, Reason, Verdict
from unmask.propensity import MaskModel, PropensityEstimate


@dataclass(frozen=True, eq=False)
class Closed:
    """What is evaluated in place of predictions, labels and propensities.

    Parameters
    ----------
    predictions : LabelSets or (n, L) floats
    labels : csr_array of shape (n, L)
    propensity : (L,) floats or None
    """

    predictions: LabelSets | Array
    labels: sp.csr_array
    propensity: Floats | None


def closed(
    hierarchy: Hierarchy,
    top: TopK | LabelSets | ScoresLike,
    labels: LabelsLike | Dataset,
    propensity: PropensityLike | PropensityEstimate | None,
) -> Closed:
    """Everything with its ancestors.

    Parameters
    ----------
    hierarchy : Hierarchy
        Over the L labels.
    top : LabelSets or (n, L) scores
    labels : (n, L) matrix of 0 and 1
    propensity : (L,) floats in (0, 1], optional

    Returns
    -------
    Closed

    Raises
    ------
    ValueError
        If predictions are a ranking, labels a data set, or propensities not one per label.
    """
    if isinstance(top, TopK):
        raise ValueError(
            "ancestors have no place in a ranking; give predicted sets or a matrix of scores."
        )
    if isinstance(labels, Dataset):
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
    predictions: LabelSets | Array
    if isinstance(top, LabelSets):
        indicator = hierarchy.close_labels(top.indicator)
        predictions = LabelSets(indicator, names=top.names, ids=top.ids)
    else:
        predictions = hierarchy.close_scores(top)
    return Closed(predictions, complete, of_labels)


def closed_systems(
    hierarchy: Hierarchy,
    systems: Mapping[str, TopK | LabelSets | ScoresLike],
    labels: LabelsLike | Dataset,
    propensity: PropensityLike | PropensityEstimate | None,
) -> tuple[dict[str, LabelSets | Array], sp.csr_array, Floats | None]:
    """Everything of several systems with its ancestors: predictions, labels, propensities.

    Parameters
    ----------
    hierarchy, labels, propensity
        As in `closed`.
    systems : mapping of str to LabelSets or (n, L) scores
        At least one.

    Returns
    -------
    tuple of dict, csr_array and (L,) floats or None

    Raises
    ------
    ValueError
        As `closed`.
    """
    each = {name: closed(hierarchy, top, labels, propensity) for name, top in systems.items()}
    first = next(iter(each.values()))
    predictions = {name: system.predictions for name, system in each.items()}
    return predictions, first.labels, first.propensity


def refuse_audit(audit: object) -> None:
    """Raise if there is an audit.

    Parameters
    ----------
    audit : Judgements or None

    Raises
    ------
    ValueError
    """
    if audit is not None:
        raise ValueError("an audit judges labels as they are; leave out the hierarchy.")


Evaluated = TypeVar("Evaluated", Table, Tables, "Table | Tables")


def doubted(evaluated: Evaluated) -> Evaluated:
    """What was evaluated, with corrected numbers doubtful at least.

    Parameters
    ----------
    evaluated : Table or Tables

    Returns
    -------
    the same kind
    """
    if isinstance(evaluated, Table):
        return replace(evaluated, estimates=tuple(map(_doubted, evaluated)))
    tables = {
        name: replace(table, estimates=tuple(map(_doubted, table)))
        for name, table in evaluated.tables.items()
    }
    return replace(evaluated, tables=tables)


def _doubted(each: Estimate) -> Estimate:
    if not corrected(each) or each.verdict.level >= Level.DOUBTFUL:
        return each
    verdict = Verdict(Level.DOUBTFUL, Reason.CLOSED, details=outcome_of(each.verdict))
    return replace(each, verdict=verdict)
