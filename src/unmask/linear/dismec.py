"""Models of DiSMEC and DiSMEC++, read from their text (and npy) files.

- DiSMEC writes liblinear's text format, one file per batch of labels: `solver_type`, `nr_class`,
  `label` (the names of the columns), `nr_feature`, `bias`, then `w` and one line per feature.
- DiSMEC++ writes a JSON file that lists weight files: `DenseTXT` (one line of numbers per label),
  `SparseTXT` (`feature:weight` pairs per label, zero-based) or `DenseNPY`. A bias is an ordinary
  last feature there, and the file does not say whether there is one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from unmask import _checks
from unmask.linear.model import LinearModel, Shard


def read_dismec(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], *, loss: str = "squared_hinge"
) -> LinearModel:
    """A DiSMEC model from its batch files; columns go to the labels that the files name.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "1.model"
    >>> head = "solver_type L2R_L2LOSS_SVC\\nnr_class 2\\nlabel 1 0\\nnr_feature 2\\nbias 1\\nw\\n"
    >>> _ = path.write_text(head + "0.5 0 \\n0 2 \\n-1 -3 \\n")
    >>> read_dismec(path).weights.toarray()
    array([[0. , 2. ],
           [0.5, 0. ]], dtype=float32)
    """
    several = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    batches = [_liblinear(Path(path)) for path in several]
    names = np.concatenate([names for names, _, _ in batches])
    if not np.array_equal(np.sort(names), np.arange(len(names))):
        raise ValueError(
            f"the {len(several)} files name {len(names)} labels, but not each of 0 to "
            f"{len(names) - 1} once; give all batches of one model."
        )
    weights = sp.csr_array(sp.vstack([w for _, w, _ in batches]))
    bias = np.concatenate([b for _, _, b in batches])
    order = np.argsort(names)
    return LinearModel((Shard(weights[order], bias[order]),), loss, {"source": "DiSMEC"})


def _liblinear(path: Path) -> tuple[NDArray[np.int64], sp.csr_array, NDArray[np.float32]]:
    with open(path, encoding="ascii", errors="replace") as file:
        head: dict[str, str] = {}
        for number, line in enumerate(file, 1):
            key, _, value = line.strip().partition(" ")
            if key == "w":
                break
            if key not in ("solver_type", "nr_class", "label", "nr_feature", "bias"):
                raise ValueError(
                    f"{path}, line {number}: unknown entry {key[:30]!r} in a DiSMEC model."
                )
            head[key] = value
        try:
            n_labels, n_features = int(head["nr_class"]), int(head["nr_feature"])
            bias, names = float(head["bias"]), np.array(head["label"].split(), dtype=np.int64)
            rows = np.loadtxt(file, dtype=np.float32, ndmin=2)
        except (KeyError, ValueError) as error:
            raise ValueError(f"{path} is no DiSMEC model: {error}.") from None
    wanted = (n_features + (bias >= 0), n_labels)
    if rows.shape != wanted or len(names) != n_labels:
        raise ValueError(
            f"{path} announces {wanted[0]} × {wanted[1]} weights and holds {rows.shape[0]} × "
            f"{rows.shape[1]} with {len(names)} label names; the file is cut short or damaged."
        )
    extra = bias * rows[-1] if bias >= 0 else np.zeros(n_labels)
    return names, sp.csr_array(rows[:n_features].T), extra.astype(np.float32)


def read_dismecpp(
    path: str | os.PathLike[str], *, bias: bool, loss: str = "squared_hinge"
) -> LinearModel:
    """A DiSMEC++ model from its JSON file; `bias` says whether its last feature is the bias.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> part = {"first": 0, "count": 2, "file": "m.weights", "weight-format": "SparseTXT"}
    >>> meta = {"num-features": 3, "num-labels": 2, "date": "", "files": [part]}
    >>> _ = (folder / "m").write_text(json.dumps(meta))
    >>> _ = (folder / "m.weights").write_text("0:0.5 2:-1 \\n1:2 \\n")
    >>> read_dismecpp(folder / "m", bias=True).bias
    array([-1.,  0.], dtype=float32)
    """
    meta_path = Path(path)
    try:
        meta = json.loads(meta_path.read_bytes())
        n_features, n_labels = int(meta["num-features"]), int(meta["num-labels"])
        files = sorted(meta["files"], key=lambda entry: entry["first"])
        spans = [(int(f["first"]), int(f["count"])) for f in files]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{meta_path} is no DiSMEC++ model file: {error!r}.") from None
    ends = np.cumsum([0, *(count for _, count in spans)])
    if [first for first, _ in spans] != ends[:-1].tolist() or ends[-1] != n_labels:
        raise ValueError(
            f"{meta_path} does not list weights for each of its {n_labels} labels once."
        )
    shards = tuple(_dismecpp_shard(meta_path.parent, entry, n_features, bias) for entry in files)
    return LinearModel(shards, loss, {"source": "DiSMEC++"})


def _dismecpp_shard(folder: Path, entry: dict[str, Any], n_features: int, bias: bool) -> Shard:
    path = folder / Path(entry["file"]).name
    kind = _checks.one_of(entry["weight-format"], _READERS, "weight format")
    matrix = _READERS[kind](path, n_features)
    if matrix.shape != (entry["count"], n_features):
        raise ValueError(
            f"{path} holds {matrix.shape[0]} × {matrix.shape[1]} weights; "
            f"expected {entry['count']} × {n_features}."
        )
    if not bias:
        return Shard(matrix, np.zeros(matrix.shape[0], dtype=np.float32))
    last = matrix[:, -1:]
    return Shard(matrix[:, :-1], np.ravel(last.toarray() if sp.issparse(last) else last))


def _dense_text(path: Path, n_features: int) -> NDArray[np.float32]:
    return np.loadtxt(path, dtype=np.float32, ndmin=2)


def _npy(path: Path, n_features: int) -> NDArray[np.float32]:
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False), dtype=np.float32)


def _sparse_text(path: Path, n_features: int) -> sp.csr_array:
    counts, columns, values = [0], [], []
    with open(path, encoding="ascii", errors="replace") as file:
        for number, line in enumerate(file, 1):
            for token in line.split():
                column, _, value = token.partition(":")
                try:
                    columns.append(int(column))
                    values.append(float(value))
                except ValueError:
                    raise ValueError(
                        f"{path}, line {number}: expected feature:weight, got {token[:30]!r}."
                    ) from None
                if not 0 <= columns[-1] < n_features:
                    raise ValueError(
                        f"{path}, line {number}: feature {columns[-1]} of {n_features}."
                    )
            counts.append(len(columns))
    arrays = np.array(values, np.float32), np.array(columns, np.int32), np.array(counts, np.int32)
    return sp.csr_array(arrays, shape=(len(counts) - 1, n_features))


_READERS = {"DenseTXT": _dense_text, "SparseTXT": _sparse_text, "DenseNPY": _npy}
