"""Models of DiSMEC and DiSMEC++, read from their text (and npy) files.

- DiSMEC writes liblinear's text format, one file per batch of labels: `solver_type`, `nr_class`,
  `label` (the names of the columns), `nr_feature`, `bias`, then `w` and one line per feature.
- DiSMEC++ writes a JSON file that lists weight files: `DenseTXT` (one line of numbers per label),
  `SparseTXT` (`feature:weight` pairs per label, zero-based) or `DenseNPY`. A bias is an ordinary
  last feature there, and the file does not say whether there is one.
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from unmask._messages import named_options
from unmask.arrays import checks
from unmask.files import is_inside, open_readable, read_json, refuse_columns
from unmask.linear.model import LinearModel, Shard


@named_options
def read_dismec(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], *, loss: str = "squared_hinge"
) -> LinearModel:
    """A DiSMEC model from its batch files; columns go to the labels that the files name.

    Parameters
    ----------
    paths : path or sequence of paths
        All batch files of one model, in any order.
    loss : str, default "squared_hinge"
        The loss it was trained with.

    Returns
    -------
    LinearModel

    Raises
    ------
    ValueError
        If a file is damaged, or the files do not name each label once.

    Examples
    --------
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
            f"the {len(several)} files from {several[0]} on name {len(names)} labels, but not each "
            f"of 0 to {len(names) - 1} once; give all batches of one model."
        )
    weights = sp.csr_array(sp.vstack([w for _, w, _ in batches]))
    bias = np.concatenate([b for _, _, b in batches])
    order = np.argsort(names)
    return LinearModel((Shard(weights[order], bias[order]),), loss, {"source": "DiSMEC"})


def _liblinear(path: Path) -> tuple[NDArray[np.int64], sp.csr_array, NDArray[np.float32]]:
    with _text_of(path) as file:
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
            rows = _dense_text(file)
        except (KeyError, ValueError, OverflowError) as error:
            raise ValueError(f"{path} is no DiSMEC model: {error}.") from None
    expected_shape = (n_features + (bias >= 0), n_labels)
    if rows.shape != expected_shape or len(names) != n_labels:
        raise ValueError(
            f"{path} announces {expected_shape[0]} × {expected_shape[1]} weights and "
            f"holds {rows.shape[0]} × {rows.shape[1]} with {len(names)} label names; "
            "the file is cut short or damaged."
        )
    with np.errstate(over="ignore", invalid="ignore"):  # both are refused in the next line
        extra = (bias * rows[-1] if bias >= 0 else np.zeros(n_labels)).astype(np.float32)
    if not (np.isfinite(rows).all() and np.isfinite(extra).all()):
        raise ValueError(f"{path} holds weights that are not finite; the file is damaged.")
    return names, sp.csr_array(rows[:n_features].T), extra


def _text_of(path: Path) -> IO[str]:
    return io.TextIOWrapper(open_readable(path), encoding="ascii", errors="replace")


def _dense_text(file: IO[str]) -> NDArray[np.float32]:
    """A table of numbers; numpy would warn of an empty one, and unpack a file by its name."""
    text = file.read()
    if not text.strip():
        return np.empty((0, 0), dtype=np.float32)
    return np.loadtxt(io.StringIO(text), dtype=np.float32, ndmin=2, comments=None)


@named_options
def read_dismecpp(
    path: str | os.PathLike[str], *, bias: bool, loss: str = "squared_hinge"
) -> LinearModel:
    """A DiSMEC++ model from its JSON file.

    Parameters
    ----------
    path : path
        The JSON file; weight files stand beside it.
    bias : bool
        Whether the last feature is the bias.
    loss : str, default "squared_hinge"
        The loss it was trained with.

    Returns
    -------
    LinearModel

    Raises
    ------
    ValueError
        If a file is damaged, or labels are missing.

    Examples
    --------
    >>> import json, tempfile
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
        meta = read_json(meta_path)
        n_features, n_labels = int(meta["num-features"]), int(meta["num-labels"])
        files = sorted(meta["files"], key=lambda entry: entry["first"])
        spans = [(int(f["first"]), int(f["count"])) for f in files]
        wrong = [f["file"] for f in files if not is_inside(meta_path.parent, f["file"])]
        kinds = [checks.one_of(f["weight-format"], _READERS, "weight format") for f in files]
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise ValueError(f"{meta_path} is no DiSMEC++ model file: {error!r}.") from None
    ends = np.cumsum([0, *(count for _, count in spans)])
    if [first for first, _ in spans] != ends[:-1].tolist() or ends[-1] != n_labels:
        raise ValueError(
            f"{meta_path} does not list weights for each of its {n_labels} labels once."
        )
    if wrong or not files or n_features < bias:
        raise ValueError(
            f"{meta_path} lists {wrong or files} for {n_features} features; weight files must "
            "stand beside it."
        )
    refuse_columns(meta_path, n_features, "features")
    shards = tuple(
        _dismecpp_shard(meta_path.parent / entry["file"], kind, (count, n_features), bias)
        for entry, kind, (_, count) in zip(files, kinds, spans, strict=True)
    )
    return LinearModel(shards, loss, {"source": "DiSMEC++"})


def _dismecpp_shard(path: Path, kind: str, shape: tuple[int, int], bias: bool) -> Shard:
    matrix = _READERS[kind](path, shape[1])
    if matrix.shape != shape:
        raise ValueError(f"{path} holds weights of shape {matrix.shape}; expected {shape}.")
    if not np.isfinite(matrix.data if sp.issparse(matrix) else matrix).all():
        raise ValueError(f"{path} holds weights that are not finite; the file is damaged.")
    if not bias:
        return Shard(matrix, np.zeros(matrix.shape[0], dtype=np.float32))
    last = matrix[:, -1:]
    return Shard(matrix[:, :-1], np.ravel(last.toarray() if sp.issparse(last) else last))


def _text(path: Path, n_features: int) -> NDArray[np.float32]:
    with _text_of(path) as file:
        try:
            return _dense_text(file)
        except (ValueError, OverflowError) as error:
            raise ValueError(f"{path}: {error}.") from None


def _npy(path: Path, n_features: int) -> NDArray[np.float32]:
    try:
        with np.errstate(over="ignore"):  # what does not fit becomes infinite, and is refused
            open_readable(path).close()  # a file, not a pipe
            return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False), dtype=np.float32)
    except OSError:
        raise
    except Exception as error:  # numpy's parser of headers raises errors of many kinds
        raise ValueError(f"{path} is no .npy file: {error}.") from None


def _sparse_text(path: Path, n_features: int) -> sp.csr_array:
    counts, columns, values = [0], [], []
    with _text_of(path) as file:
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
    with np.errstate(over="ignore"):
        weights = np.array(values, np.float32)
    arrays = (weights, np.array(columns, np.int64), np.array(counts, np.int64))
    return checks.narrow(sp.csr_array(arrays, shape=(len(counts) - 1, n_features)))


_READERS = {"DenseTXT": _text, "SparseTXT": _sparse_text, "DenseNPY": _npy}
