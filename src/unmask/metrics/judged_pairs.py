"""Predictions, labels and propensities after judgements of pairs, before metrics see them.

Ignored pairs leave the ranking (the places behind move up) and the labels; verified positives are
labels with p = 1; verified negatives are none. After that nothing else needs to know of them: a
pair that is certain is one whose propensity is 1 (`data.pairs`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from unmask._names import ids_of_rows
from unmask._typing import LabelsLike, PropensityLike, ScoresLike
from unmask.arrays import LabelSets, TopK, checks, entry_rows
from unmask.data import Dataset
from unmask.data.dataset import JudgedLabels
from unmask.metrics.table import Table
from unmask.propensity import MaskModel, PropensityEstimate


@dataclass(frozen=True, eq=False)
class JudgedPairs:
    """Labels after judgements, and what that does to predictions and propensities.

    Parameters
    ----------
    pairs : JudgedLabels
        Labels after judgements.
    ids, names : strings, optional
        Of rows and labels; predictions that have them, too, are put into this order.
    """

    pairs: JudgedLabels
    ids: Sequence[str] | None = None
    names: Sequence[str] | None = None

    @property
    def labels(self) -> sp.csr_array:
        """(n, L), to be compared with predictions."""
        return self.pairs.labels

    def predictions(self, top: TopK | LabelSets | ScoresLike) -> TopK | LabelSets | ScoresLike:
        """Return the predictions in the order of ids and names, without ignored pairs.

        Of a list, the places behind ignored pairs move up.

        Parameters
        ----------
        top : TopK, LabelSets or (n, L) scores

        Returns
        -------
        of the same kind

        Raises
        ------
        ValueError
            If an id is missing, double or unknown, predictions alone have ids, or a predicted
            name is unknown.
        """
        if isinstance(top, TopK | LabelSets):
            ids = ids_of_rows(self.ids, self.labels.shape[0], top.ids)
            top = top.aligned(ids=ids, names=self.names)
        ignored = self.pairs.ignored
        if not ignored.nnz:
            return top
        if isinstance(top, TopK):
            return top.without(ignored)
        if isinstance(top, LabelSets):
            left = _without(top.indicator, ignored)
            return LabelSets(left, names=top.names, ids=top.ids)
        if checks.is_sparse(top):
            return _without(checks.columns(top, name="scores", column="label"), ignored)
        scores = np.array(checks.dense(top, "scores", "label"), dtype=np.float64)
        checks.same_shape(scores, ignored, "scores", "labels")
        scores[ignored.nonzero()] = -np.inf
        return scores

    def propensity(
        self, propensity: PropensityLike | PropensityEstimate | None
    ) -> PropensityLike | PropensityEstimate | None:
        """Return the propensities, 1 for verified labels.

        Parameters
        ----------
        propensity : as in `evaluate`

        Returns
        -------
        the same where no label is verified, else a sparse matrix with the pattern of the labels

        Raises
        ------
        ValueError
            If labels are verified and the propensities are uncertain.
        """
        if propensity is None or not self.pairs.certain.any():
            return propensity
        if isinstance(propensity, PropensityEstimate | MaskModel):
            raise ValueError(
                "verified labels have propensity 1, so that propensities differ from entry to "
                "entry, for which an estimate has no doubt to give; pass its `.value`."
            )
        return self.pairs.propensity(propensity)

    def with_counts(self, table: Table) -> Table:
        """Return the table with a run that says how many pairs were judged.

        Parameters
        ----------
        table : Table

        Returns
        -------
        Table
        """
        if table.run is None:
            return table
        verified = int(self.pairs.certain.sum())
        run = replace(table.run, ignored_pairs=self.pairs.ignored.nnz, verified_labels=verified)
        return replace(table, run=run)


def judged_pairs(labels: LabelsLike | Dataset) -> JudgedPairs | None:
    """Return the labels of a data set after its judgements; None for plain labels.

    Parameters
    ----------
    labels : (n, L) matrix of 0 and 1, or Dataset

    Returns
    -------
    JudgedPairs or None

    Raises
    ------
    ValueError
        If the data set has no labels.

    Examples
    --------
    >>> rows = Dataset(None, [[1, 1, 0]], judgements=[[2, 0, 0]])
    >>> pairs = judged_pairs(rows)
    >>> pairs.labels.toarray(), pairs.predictions(TopK([[0, 2]], [[0.9, 0.5]])).labels
    (array([[0., 1., 0.]], dtype=float32), array([[ 2, -1]], dtype=int32))
    >>> judged_pairs([[1, 0]]) is None
    True
    """
    if not isinstance(labels, Dataset):
        return None
    return JudgedPairs(labels.after_judgements, labels.ids, labels.label_names)


def _without(matrix: sp.csr_array, pairs: sp.csr_array) -> sp.csr_array:
    """Return the stored entries, zeros among them, that are not among the pairs."""
    checks.same_shape(matrix, pairs, "predictions", "labels")
    rows, others = (entry_rows(each) for each in (matrix, pairs))
    width = matrix.shape[1]
    kept = ~np.isin(rows * width + matrix.indices, others * width + pairs.indices)
    before = np.r_[0, np.cumsum(kept)].astype(matrix.indptr.dtype)
    parts = matrix.data[kept], matrix.indices[kept], before[matrix.indptr]
    return sp.csr_array(parts, shape=matrix.shape)
