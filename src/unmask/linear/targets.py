"""What people train on and want back: indicators, lists of names, data frames.

`read_targets` turns any of them into a label matrix, with the names of its columns where there are
any; `shown` turns predicted 0 and 1 back into what was given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from sklearn.utils.multiclass import type_of_target

from unmask._names import Strings, refuse_repeated
from unmask._typing import Ints, MatrixLike
from unmask.arrays import checks
from unmask.data import Dataset
from unmask.data.tables import is_tag_lists, label_matrix

Kind = Literal["dense", "sparse", "labels", "frame"]
OUTPUTS = ("indicator", "labels")


@dataclass(frozen=True)
class Targets:
    """Observed labels of training rows.

    Parameters
    ----------
    labels : csr_array of shape (n, L)
    names : tuple of L str, or None
    kind : {"dense", "sparse", "labels", "frame"}
        What they were given as.
    frame : type or None
        The class of a data frame.
    judgements : csr_array of shape (n, L), or None
        Of a data set.
    """

    labels: sp.csr_array
    names: tuple[str, ...] | None
    kind: Kind
    frame: type | None = None
    judgements: sp.csr_array | None = None

    def judged(self, judgements: MatrixLike | None) -> sp.csr_array | Dataset:
        """The labels, with judgements of their pairs where there are any (these, or their own)."""
        own = self.judgements if judgements is None else judgements
        return self.labels if own is None else Dataset(None, self.labels, judgements=own)

    @property
    def classes(self) -> Ints | np.ndarray[Any, Any]:
        """Names, or numbers where there are none."""
        if self.names is None:
            return np.arange(self.labels.shape[1])
        return np.array(self.names, dtype=object)


def read_targets(values: object) -> Targets:
    """Labels in any of the forms above; ValueError if they are none of them."""
    if values is None:
        raise ValueError(
            "training requires y to be passed, but the target y is None; give a 0/1 label matrix "
            "or lists of names."
        )
    if isinstance(values, Dataset):
        matrix = checks.labels(values.labels)
        return Targets(matrix, values.label_names, "sparse", judgements=values.judgements)
    if sp.issparse(values):
        return Targets(checks.labels(values), None, "sparse")
    if hasattr(values, "columns") and hasattr(values, "to_numpy"):
        names = tuple(str(name) for name in values.columns)
        refuse_repeated(Strings.of(names), "columns of labels")
        return Targets(checks.labels(values.to_numpy()), names, "frame", type(values))
    rows = _name_lists(values)
    if rows is not None:
        matrix, names = label_matrix(rows)
        return Targets(matrix, names, "labels")
    try:
        return Targets(checks.labels(values), None, "dense")
    except ValueError as error:
        try:
            with np.errstate(invalid="ignore"):  # NaN is no whole number
                kind = type_of_target(values)
        except (ValueError, TypeError):
            raise error from None
        raise ValueError(
            f"{error} Unknown label type: {kind}. Only binary classification is supported. Give a "
            "column of 0 and 1 for every class, or lists of names."
        ) from None


def _name_lists(values: Any) -> Sequence[object] | None:
    """The rows as lists of names; None if these are no names."""
    if hasattr(values, "tolist") and getattr(values, "ndim", None) in (1, 2):
        if values.ndim == 2 and values.dtype.kind in "US":
            return [[name for name in row if name] for row in values.tolist()]
        listed = values.tolist() if values.ndim == 1 else None
    elif hasattr(values, "to_list"):  # a polars column
        listed = values.to_list()
    else:
        listed = values
    if listed is not None and is_tag_lists(listed):
        return list(listed)
    if isinstance(listed, list | tuple) and listed and all(isinstance(v, str) for v in listed):
        return [[name] for name in listed]
    return None


def shown(chosen: np.ndarray[Any, Any], targets: Targets, output: str | None) -> Any:
    """Predicted labels (n × L, 0 or 1) as they were given for training, or as `output` says."""
    if output is not None:
        checks.one_of(output, OUTPUTS, "output")
    kind = {None: targets.kind, "labels": "labels"}.get(output, "dense")
    if output == "indicator" and targets.kind in ("sparse", "frame"):
        kind = targets.kind
    indicator = chosen.astype(np.int64)
    if kind == "labels":
        classes = targets.classes
        return [[classes[j] for j in np.flatnonzero(row).tolist()] for row in chosen]
    if kind == "frame" and targets.frame is not None:
        columns = targets.names or ()
        return targets.frame({name: indicator[:, j] for j, name in enumerate(columns)})
    return sp.csr_array(indicator) if kind == "sparse" else indicator
