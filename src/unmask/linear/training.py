"""From features and labels to a model: weights once, then a solver, in memory or shard by shard.

`Recipe` is everything that is chosen, `train` returns a model, and `train_to` writes it to a folder
as it goes: a shard of labels at a time, skipping those that are already there.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from unmask import _checks
from unmask.linear import files, ova, softmax
from unmask.linear.model import LinearModel, shard
from unmask.linear.problem import BIASES, Problem, Solution, problem
from unmask.weights import CORRECTIONS, Weights

Progress = Callable[[int, int], None]
REDUCTIONS = ("ova", "pal")


@dataclass(frozen=True)
class Recipe:
    """The choices of a training.

    - `loss`: squared_hinge, logistic or squared_error (`reduction` "ova"); softmax ("pal");
    - `correction`: a name in `weights.CORRECTIONS`, with `normalized`;
    - `C` as in liblinear, ½‖w‖² + C Σ loss; or `l2`, mean loss + l2/2 ‖w‖², where C = 1/(l2·n);
    - `bias`: "regularized" (a feature that is always 1), "free" (not in the penalty) or "none";
    - `tol`: stop when the next step promises less than this share of the objective;
    - `cull`: drop weights below this size (DiSMEC: 0.01); the model is then stored sparse.

    >>> Recipe(loss="logistic", l2=1e-3).cost(rows=500)
    2.0
    """

    loss: str = "squared_hinge"
    reduction: str = "ova"
    correction: str = "vanilla"
    normalized: bool = False
    C: float = 1.0
    l2: float | None = None
    bias: str = "regularized"
    tol: float = 4e-4
    max_iter: int = 100
    cull: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what cannot be combined."""
        _checks.one_of(self.reduction, REDUCTIONS, "reduction")
        known = ova.SOLVERS if self.reduction == "ova" else ("softmax",)
        _checks.one_of(self.loss, known, f"loss for reduction={self.reduction!r}")
        _checks.one_of(self.correction, [*CORRECTIONS, "given"], "correction")
        _checks.one_of(self.bias, BIASES, "bias")
        for name in ("C", "tol") if self.l2 is None else ("l2", "tol"):
            _checks.number(getattr(self, name), name, np.finfo(float).tiny, np.inf)
        _checks.number(self.cull, "cull", 0, np.inf)
        _checks.count(self.max_iter, "max_iter")

    def cost(self, rows: int) -> float:
        """C, for this many rows."""
        return self.C if self.l2 is None else 1.0 / (self.l2 * rows)


def train(
    features: Any,
    labels: Any,
    recipe: Recipe | None = None,
    *,
    propensity: Any = None,
    weights: Weights | None = None,
    first: LinearModel | None = None,
    progress: Progress | None = None,
) -> tuple[LinearModel, Solution]:
    """Train a model in memory; also returns objectives, turns and status of every label.

    `weights` take the place of the recipe's correction; `first` is a model to start from;
    `progress(done, total)` is called as labels are finished, one call at a time.

    >>> model, _ = train([[1.0, 0.0], [0.0, 1.0]], [[1, 0], [0, 1]])
    >>> (model.weights @ np.eye(2) + model.bias[:, None] > 0).astype(int)
    array([[1, 0],
           [0, 1]])
    """
    chosen = recipe or Recipe()
    given = _problem(features, labels, chosen, propensity, weights)
    solution = _solve(given, None, _start(first, given), _counter(progress, given.shape[2]))
    model = LinearModel((shard(solution.weights, chosen.cull),), chosen.loss, asdict(chosen))
    return model, solution


def train_to(
    path: str | os.PathLike[str],
    features: Any,
    labels: Any,
    recipe: Recipe | None = None,
    *,
    propensity: Any = None,
    weights: Weights | None = None,
    shard_labels: int = 1024,
    resume: bool = True,
    progress: Progress | None = None,
) -> LinearModel:
    """Train into a folder, shard by shard; a shard that is there already is not trained again.

    Interrupted (even killed), the folder keeps its finished shards, and the same call goes on
    after the last one; the result is the same model, bit for bit. A folder that was made from other
    data or another recipe is refused unless `resume` is False, which starts anew.

    >>> import tempfile
    >>> model = train_to(tempfile.mkdtemp() + "/model", [[1.0], [0.0]], [[1, 0], [0, 1]])
    >>> model.n_labels
    2
    """
    chosen = recipe or Recipe()
    _checks.count(shard_labels, "shard_labels")
    given = _problem(features, labels, chosen, propensity, weights)
    n_labels = given.shape[2]
    folder = Path(path)
    mark = _fingerprint(given, chosen, shard_labels)
    finished = _finished(folder, mark) if resume else None
    if finished is None:
        files.begin(
            folder, files.header(chosen.loss, n_labels, given.shape[1], asdict(chosen), mark)
        )
    note = _counter(progress, n_labels)
    for start, part in _shards(given, chosen, shard_labels, finished or set(), note):
        files.add_shard(folder, start, part)
    return files.load(folder, verify=False)


def _shards(
    given: Problem, recipe: Recipe, size: int, finished: set[int], note: Callable[[int], None]
) -> Any:
    """(first label, shard) of what is still to do; a softmax is one problem and comes as one."""
    n_labels = given.shape[2]
    size = size if recipe.reduction == "ova" else max(n_labels, 1)
    for start in range(0, n_labels, size):
        chosen = np.arange(start, min(start + size, n_labels))
        if start in finished:
            note(len(chosen))
            continue
        yield start, shard(_solve(given, chosen, None, note).weights, recipe.cull)


def _solve(
    given: Problem,
    labels: NDArray[np.int64] | None,
    first: NDArray[np.float32] | None,
    note: Callable[[int], None],
) -> Solution:
    if given.loss != "softmax":
        return ova.solve(given, labels, first=first, done=note)
    return softmax.solve(given, first=first, done=note)


def _problem(
    features: Any, labels: Any, recipe: Recipe, propensity: Any, weights: Weights | None
) -> Problem:
    """Check, weigh, arrange."""
    x = _checks.narrow(_checks.columns(features))
    y = _checks.narrow(_checks.labels(labels))
    _checks.same_rows(x, y, "features", "labels")
    if min(x.shape) < 1 or y.shape[1] < 1:
        raise ValueError(
            f"training needs rows, features and labels; got {x.shape[0]} rows, {x.shape[1]} "
            f"features and {y.shape[1]} labels."
        )
    if weights is None:
        weights = _weigh(y, recipe, propensity)
    _checks.same_shape(weights.pos, y, "weights", "labels")
    return problem(
        x,
        weights,
        loss=recipe.loss,
        cost=recipe.cost(x.shape[0]),
        bias=recipe.bias,
        tol=recipe.tol,
        max_iter=recipe.max_iter,
    )


def _weigh(labels: sp.csr_array, recipe: Recipe, propensity: Any) -> Weights:
    if recipe.correction == "given":
        raise ValueError("correction='given' needs the weights themselves.")
    if propensity is None and recipe.correction != "vanilla":
        raise ValueError(
            f"correction={recipe.correction!r} needs propensities, one per label; "
            "see `unmask.propensity`."
        )
    correct = CORRECTIONS[recipe.correction]
    return correct(labels, propensity, normalized=recipe.normalized, reduction=recipe.reduction)


def _start(first: LinearModel | None, given: Problem) -> NDArray[np.float32] | None:
    """Weight vectors (labels × features+1) of the model to start from."""
    if first is None:
        return None
    _, d, n_labels = given.shape
    if (first.n_labels, first.n_features) != (n_labels, d):
        raise ValueError(
            f"the model to start from has {first.n_labels} labels and {first.n_features} features; "
            f"the data have {n_labels} and {d}."
        )
    w = first.weights
    return np.asarray(np.c_[w.toarray() if sp.issparse(w) else w, first.bias], dtype=np.float32)


def _counter(progress: Progress | None, total: int) -> Callable[[int], None]:
    """Turn "so many more are finished", from any thread, into progress(done, total)."""
    done, lock = 0, Lock()

    def note(count: int) -> None:
        nonlocal done
        with lock:
            done += count
            if progress is not None:
                progress(done, total)

    return note


def _fingerprint(given: Problem, recipe: Recipe, shard_labels: int) -> str:
    """A digest of all that determines the model."""
    digest = hashlib.sha256(repr((recipe, given.shape, shard_labels)).encode())
    for array in (*given.rows, *given.entries):
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()


def _finished(folder: Path, mark: str) -> set[int] | None:
    """First labels of the shards that are there; None where nothing was begun."""
    if not (folder / files.MANIFEST).exists():
        return None
    head = files.read_manifest(folder)
    if head.get("fingerprint") != mark:
        raise ValueError(
            f"{folder} holds a model of other data or another recipe; "
            "choose another folder, or start anew with resume=False."
        )
    sizes = {e["start"]: (e["file"], e["bytes"]) for e in head["shards"]}
    return {
        start
        for start, (name, size) in sizes.items()
        if (folder / name).is_file() and (folder / name).stat().st_size == size
    }
