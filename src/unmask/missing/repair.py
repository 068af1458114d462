"""A repaired data set: what was observed, what people confirmed, what was filled in.

Every label of it has an origin. Confirmed and refuted pairs become judgements of the data set, so
that weights and metrics take them as certain, and labels stay as they were observed; those that are
filled in (P(missing) at least a threshold) become labels like observed ones. A file has no
judgements: in it, confirmed labels are labels and refuted ones are none. Propensities describe the
observed labels alone: after filling in, state or estimate them anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from unmask import _validation
from unmask._tables.writing import write_columns
from unmask._typing import Floats, Ints, PathLike
from unmask.data import Dataset
from unmask.data.pairs import Judgement, pair_keys
from unmask.data.writing import write
from unmask.missing.findings import Findings
from unmask.missing.reviewing import Review, Reviewed


class Origin(StrEnum):
    """Where a label of a repaired data set comes from.

    Examples
    --------
    >>> Origin("imputed") is Origin.IMPUTED
    True
    """

    OBSERVED = "observed"
    CONFIRMED = "confirmed"
    """Not observed; somebody looked, and it applies."""
    IMPUTED = "imputed"
    """Not observed; P(missing) reached the threshold."""
    REFUTED = "refuted"
    """Somebody looked, and it does not apply: no label of the data set."""


@dataclass(frozen=True, eq=False)
class Repaired:
    """A repaired data set and where every label of it comes from.

    Parameters
    ----------
    dataset : Dataset
        With the labels, observed and filled in, and confirmed and refuted pairs as judgements.
    rows, labels : (m,) integers
        All pairs with an origin, by row and label.
    origin : tuple of m Origin
    probability : (m,) floats
        P(missing) of those that were not observed, as far as it was stated; else nan.

    Examples
    --------
    >>> from unmask import missing
    >>> rows = Dataset(None, [[1, 0]], label_names=("art", "law"))
    >>> repaired = missing.complete(rows, missing.Reviewed([0], [1], [1], [0.9], (1, 2)))
    >>> repaired.dataset.obeyed.labels.toarray(), [str(each) for each in repaired.origin]
    (array([[1., 1.]], dtype=float32), ['observed', 'confirmed'])
    """

    dataset: Dataset
    rows: Ints
    labels: Ints
    origin: tuple[Origin, ...]
    probability: Floats

    def counts(self) -> dict[str, int]:
        """How many pairs have each origin."""
        return {each.value: self.origin.count(each) for each in Origin}

    def write(self, path: PathLike) -> tuple[Path, Path]:
        """Write the data set (`data.write`), and the origin of every label beside it.

        Parameters
        ----------
        path : str or path
            Of the data set; the table `NAME-provenance.csv` stands beside it, with the columns id,
            label, origin and probability.

        Returns
        -------
        both paths

        Raises
        ------
        ValueError
            If the path is there and is no file: nothing can stand beside a device or a pipe.
        """
        target = Path(path)
        if target.exists() and not target.is_file():
            raise ValueError(
                f"{target} is no file; a repaired data set is written to two files, side by side."
            )
        beside = target.with_name(target.name.split(".")[0] + "-provenance.csv")
        ids, names = self.dataset.ids, self.dataset.label_names
        write(target, replace(self.dataset, labels=self.dataset.obeyed.labels, judgements=None))
        write_columns(
            beside,
            "csv",
            {
                "id": [str(i) if ids is None else ids[i] for i in self.rows.tolist()],
                "label": [str(j) if names is None else names[j] for j in self.labels.tolist()],
                "origin": [each.value for each in self.origin],
                "probability": [
                    None if np.isnan(each) else round(each, 6) for each in self.probability.tolist()
                ],
            },
        )
        return target, beside


def complete(
    dataset: Dataset,
    reviewed: Reviewed | None = None,
    threshold: float | None = None,
    *,
    findings: Findings | Review | None = None,
) -> Repaired:
    """Add confirmed labels, and those that are missing with great probability.

    Parameters
    ----------
    dataset : Dataset
        With labels.
    reviewed : Reviewed, optional
        What people said: confirmed labels are added, refuted ones kept as such.
    threshold : float in (0, 1], optional
        Fill in every finding of at least this P(missing) that nobody judged; by default none.
    findings : Findings or Review, optional
        Where those are; needed with a threshold.

    Returns
    -------
    Repaired

    Raises
    ------
    ValueError
        If shapes do not fit, a threshold has no findings, or there is nothing to repair with.

    Examples
    --------
    >>> from unmask import missing
    >>> rows = Dataset(None, [[1, 0], [0, 0]], label_names=("art", "law"))
    >>> findings = missing.find([[0.9, 0.1], [0.1, 0.95]], rows, [0.5, 0.5])
    >>> complete(rows, threshold=0.9, findings=findings).counts()
    {'observed': 1, 'confirmed': 0, 'imputed': 1, 'refuted': 0}
    """
    if dataset.labels is None:
        raise ValueError("the data set has no labels.")
    if reviewed is None and threshold is None:
        raise ValueError("nothing to repair with; give a review, or a threshold with findings.")
    shape, width = dataset.labels.shape, dataset.labels.shape[1]
    for part in (reviewed, findings):
        if part is not None and part.shape != shape:
            raise ValueError(
                f"the data set has {shape[0]} rows and {width} labels; findings and answers are "
                f"of {part.shape[0]} and {part.shape[1]}."
            )
    own = pair_keys(dataset.labels)
    judged, answers, stated = _judged(reviewed, width)
    filled, chance = _filled(findings, threshold, np.r_[own, judged], width)
    confirmed = judged[(answers == 1) & ~np.isin(judged, own)]
    refuted = judged[answers == 0]
    kept = own[~np.isin(own, refuted)]
    origins = {
        Origin.OBSERVED: kept,
        Origin.CONFIRMED: confirmed,
        Origin.IMPUTED: filled,
        Origin.REFUTED: refuted,
    }
    keys = np.concatenate(list(origins.values()))
    names = np.repeat(list(origins), [each.size for each in origins.values()])
    stated_of = dict(
        zip(np.r_[judged, filled].tolist(), np.r_[stated, chance].tolist(), strict=True)
    )
    order = np.argsort(keys, kind="stable")
    probability = [
        np.nan if names[i] == Origin.OBSERVED else stated_of.get(int(keys[i]), np.nan)
        for i in order
    ]
    repaired = replace(
        dataset,
        labels=_matrix(np.r_[own, filled], shape),
        judgements=_judgements(dataset, judged, answers, shape),
    )
    return Repaired(
        repaired,
        keys[order] // width,
        keys[order] % width,
        tuple(Origin(names[i]) for i in order),
        np.array(probability, dtype=np.float64),
    )


def _judged(reviewed: Reviewed | None, width: int) -> tuple[Ints, Floats, Floats]:
    if reviewed is None:
        return np.zeros(0, np.int64), np.zeros(0), np.zeros(0)
    return reviewed.rows * width + reviewed.labels, reviewed.answers, reviewed.probability


def _filled(
    findings: Findings | Review | None, threshold: float | None, taken: Ints, width: int
) -> tuple[Ints, Floats]:
    """Pairs that are filled in, and their probabilities."""
    if threshold is None:
        return np.zeros(0, np.int64), np.zeros(0)
    _validation.in_range(threshold, "threshold", np.finfo(float).tiny, 1.0)
    if findings is None or findings.kind != "missing":
        raise ValueError("a threshold needs findings of missing labels to fill in.")
    keys = findings.rows * width + findings.labels
    kept = (findings.probability >= threshold) & ~np.isin(keys, taken)
    return keys[kept], findings.probability[kept]


def _matrix(keys: Ints, shape: tuple[int, int], values: Floats | None = None) -> sp.csr_array:
    order = np.argsort(keys)
    data = np.ones(keys.size) if values is None else values[order]
    rows, columns = keys[order] // shape[1], keys[order] % shape[1]
    return sp.csr_array(
        (data.astype(np.float32), columns, np.searchsorted(rows, np.arange(shape[0] + 1))),
        shape=shape,
    )


def _judgements(
    dataset: Dataset, judged: Ints, answers: Floats, shape: tuple[int, int]
) -> sp.csr_array | None:
    """Earlier judgements and the new ones, which take their place."""
    earlier = dataset.judgements
    if earlier is None and not judged.size:
        return None
    keys, values = judged, np.where(answers == 1, Judgement.POSITIVE, Judgement.NEGATIVE)
    if earlier is not None:
        old = pair_keys(earlier)
        kept = ~np.isin(old, judged)
        keys, values = np.r_[old[kept], keys], np.r_[earlier.data[kept], values]
    return _matrix(keys, shape, values.astype(np.float64))
