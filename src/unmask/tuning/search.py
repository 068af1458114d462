"""The search: successive halving of trainings over samples, each along a warm path of C.

Rows are cut into two halves at random. A model that is trained on rows of one half is judged on all
rows of the other, which it has not seen:

    rung   trained on              judged on        trainings
    1      a quarter of the rows   the other half   all, with all C until the value falls
    2      either half             all rows         the best three and the best plain one, with the
                                                    best C and its neighbours

A candidate's C is that of all n rows. The best C falls with their number, about as 1/√n (the usual
rate of a penalty per row; measured: by 0.20 to 0.39 of our steps per doubling of the rows of
delicious and cooking, and 1/√n is 0.30 of them), so that on m rows C √(n/m) is trained with.

Of many labels only a sample is trained, one in six but at least `FEWEST`, evenly from frequent to
rare, and as much smaller the metric's k is. A path starts every model from the one before it and
stops within `TOLERANCE` of the objective, which hardly changes a ranking. All this together costs
about two trainings of all rows and labels (`benchmarks/tuning.py`). With fewer than 4 · `LEAST`
rows the first rung is left out.

What was tried is kept in records as it is measured; a search that finds a record uses it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from unmask import __version__, _io, _validation, linear
from unmask._typing import Floats, Ints, PathLike, Record
from unmask.data import Dataset
from unmask.linear import LinearModel, Recipe
from unmask.parallel import Runner
from unmask.predictions import TopK
from unmask.tuning.candidates import Family
from unmask.tuning.judging import Judge, Judged, matrix_of, rows_of

TOLERANCE = 1e-2
LEAST = 1000
FEWEST, SHARE, MOST = 100, 6, 1000
"""Labels that are trained: one in `SHARE`, but from `FEWEST` to `MOST` of them."""
FALL = 0.02
"""A path ends where all its rankings are below their best by this share."""


class Rung(NamedTuple):
    """A share of the rows to train on, of which halves, and how many trainings go on from it."""

    share: float
    halves: tuple[int, ...]
    keep: int


RUNGS = (Rung(1 / 4, (0,), 3), Rung(1 / 2, (0, 1), 0))


class Task(NamedTuple):
    """A path on a rung: a family as it is trained, its rankings, and its costs, smallest first."""

    rung: int
    family: Family
    rankings: tuple[str, ...]
    costs: tuple[float, ...]


class Tried(NamedTuple):
    """A family with one C on one rung: on how many rows it was trained, and what it is worth.

    Attributes
    ----------
    rung : int
        0 for the small sample, 1 for the halves.
    family : Family
        Loss, correction, its strength and ranking.
    cost : float
        C on all rows; that of the sample is larger (`scaled`).
    rows : int
        Rows that it was trained on.
    judged : Judged
        The metric on held-out rows.

    Examples
    --------
    >>> from unmask import data, tune
    >>> rows = data.synthetic.planted(200, n_features=40, n_labels=8, seed=0)
    >>> best = tune(rows.features, rows.labels, metric="R@3", losses=["logistic"])
    >>> best.table[0].family.loss
    'logistic'
    """

    rung: int
    family: Family
    cost: float
    rows: int
    judged: Judged

    def to_dict(self) -> Record:
        """Plain values, for JSON."""
        return {
            "rung": self.rung,
            **self.family.to_dict(),
            "C": self.cost,
            "rows": self.rows,
            "value": self.judged.value if np.isfinite(self.judged.value) else None,
            "without": list(self.judged.without),
            "error": self.judged.error,
        }

    @classmethod
    def of(cls, record: Record) -> Tried:
        """From such values."""
        family = Family(*(record[name] for name in Family.__dataclass_fields__))
        value = np.nan if record["value"] is None else record["value"]
        judged = Judged(value, tuple(record["without"]), record["error"])
        return cls(record["rung"], family, record["C"], record["rows"], judged)


@dataclass(frozen=True, eq=False)
class Rows:
    """What all paths share: data, propensities, the rows of every rung, and the judge."""

    features: sp.csr_array
    labels: sp.csr_array | Dataset
    propensity: Floats | None
    judge: Judge
    base: Recipe
    halves: tuple[Ints, Ints]
    rungs: tuple[Rung, ...]
    samples: tuple[tuple[Ints, ...], ...]
    """Of every rung, half by half: the rows to train on."""

    def judged_on(self, rung: int) -> Ints:
        """The rows that the models of a rung are judged on, in order: the other half of each."""
        others = [self.halves[1 - half] for half in self.rungs[rung].halves]
        return np.sort(np.concatenate(others))


def sample_labels(labels: sp.csr_array, seed: int) -> Ints:
    """The labels to train: all if they are few, else every so many-th from frequent to rare.

    >>> sample_labels(sp.csr_array(np.eye(3)), 0)
    array([0, 1, 2])
    """
    n_labels = labels.shape[1]
    size = min(MOST, max(FEWEST, n_labels // SHARE))
    if 2 * size > n_labels:
        return np.arange(n_labels)
    counts = np.bincount(labels.indices, minlength=n_labels)
    order = np.argsort(-counts, kind="stable")
    offset = np.random.default_rng([seed, 1]).random()
    return np.sort(order[((np.arange(size) + offset) * n_labels / size).astype(np.int64)])


def arrange(
    features: sp.csr_array,
    labels: sp.csr_array | Dataset,
    propensity: Floats | None,
    judge: Judge,
    base: Recipe,
    seed: int,
) -> Rows:
    """Halve the rows, and draw the sample of every rung that has rows enough."""
    n = features.shape[0]
    rng = np.random.default_rng(seed)
    order = rng.permutation(n)
    halves = (np.sort(order[: n // 2]), np.sort(order[n // 2 :]))
    rungs = (*(rung for rung in RUNGS[:-1] if rung.share * n >= LEAST), RUNGS[-1])
    samples = tuple(
        tuple(
            np.sort(rng.permutation(halves[half])[: max(1, round(rung.share * n))])
            for half in rung.halves
        )
        for rung in rungs
    )
    loose = replace(base, tol=max(base.tol, TOLERANCE), prune_below=0.0)
    return Rows(features, labels, propensity, judge, loose, halves, rungs, samples)


def walk(rows: Rows, task: Task, *, last: bool | None = None) -> tuple[list[Tried], list[TopK]]:
    """Train along a path and judge every model, until all rankings fall.

    Returns what was tried, and the predictions in the same order. On the last rung the best C of
    every ranking is judged again, with what its differences from others can be judged by.
    """
    last = task.rung == len(rows.rungs) - 1 if last is None else last
    own = rows.samples[task.rung]
    judged_on = rows.judged_on(task.rung)
    labels = rows_of(rows.labels, judged_on)
    size = sum(map(len, own)) // len(own)
    models: list[LinearModel | None] = [None] * len(own)
    tried: list[Tried] = []
    tops: list[TopK] = []
    for position, cost in enumerate(task.costs):
        models = [_train(rows, task.family, cost, r, m) for r, m in zip(own, models, strict=True)]
        for ranking in task.rankings:
            family = replace(task.family, rank_by=ranking)
            top = _predict(rows, models, task.rung, family)
            tried.append(
                Tried(task.rung, family, cost, size, Judged(rows.judge.value(top, labels)))
            )
            tops.append(top)
        curves = (
            [t.judged.value for t in tried if t.family.rank_by == name] for name in task.rankings
        )
        if position > 1 and all(map(_falls, curves)):
            break
    if last:
        for ranking in task.rankings:
            mine = [i for i, t in enumerate(tried) if t.family.rank_by == ranking]
            best = max(mine, key=lambda i: worth(tried[i]))
            tried[best] = tried[best]._replace(judged=rows.judge.judged(tops[best], labels))
    return tried, tops


def worth(tried: Tried) -> float:
    """The value to compare by: −∞ where there is none."""
    value = tried.judged.value
    return value if np.isfinite(value) else -np.inf


def scaled(cost: float, sample: int, rows: int) -> float:
    """The C of a sample that is worth a C of all rows.

    >>> scaled(1.0, 25, 100)
    2.0
    """
    return cost * math.sqrt(rows / sample)


def _train(
    rows: Rows, family: Family, cost: float, own: Ints, first: LinearModel | None
) -> LinearModel:
    recipe = family.recipe(scaled(cost, len(own), rows.features.shape[0]), rows.base)
    return linear.train(
        rows.features[own], rows_of(rows.labels, own), recipe,
        propensity=family.propensity(rows.propensity), first=first,
    )[0]  # fmt: skip


def _predict(rows: Rows, models: Sequence[LinearModel | None], rung: int, family: Family) -> TopK:
    """The best labels of the rows that the rung is judged on, in their order."""
    k = min(rows.judge.places, matrix_of(rows.labels).shape[1])
    p = rows.propensity if family.rank_by != "score" else None
    parts = [
        linear.predict_top(
            model, rows.features[rows.halves[1 - half]], k, rank_by=family.rank_by, propensity=p
        )
        for half, model in zip(rows.rungs[rung].halves, models, strict=True)
        if model is not None
    ]
    others = [rows.halves[1 - half] for half in rows.rungs[rung].halves]
    order = np.argsort(np.concatenate(others))
    labels, scores = (
        np.concatenate([getattr(part, name) for part in parts])[order]
        for name in ("labels", "scores")
    )
    return TopK(labels, scores)


def _falls(values: Sequence[float]) -> bool:
    """Whether the last value is clearly below the best one before it."""
    best = max(values)
    return bool(values[-1] < best - FALL * abs(best))


class Records:
    """What was tried, kept in a file as it is measured; without a file it is only passed on.

    Records belong to what determines the values: data, propensities, metric, audit, seed and
    version.
    """

    def __init__(self, path: PathLike | None, rows: Rows) -> None:
        """Read those of these rows that are there."""
        self.path = path
        self.mark = "" if path is None else _mark(rows)
        stored = [] if path is None else _io.read_records(path)
        self.kept: dict[str, Any] = {
            _io.key_text(each["key"]): each.get("tried") for each in stored
        }

    def key(self, task: Task, trusted: float) -> Record:
        """What tells a path from others."""
        family = task.family.to_dict()
        return {
            "of": self.mark, "rung": task.rung, **family, "rankings": list(task.rankings),
            "costs": list(task.costs), "trusted": trusted,
        }  # fmt: skip

    def run(
        self, runner: Runner, rows: Rows, tasks: Sequence[Task], trusted: float,
        note: Callable[[], None],
    ) -> list[Tried]:  # fmt: skip
        """The paths of all tasks, in their order: read, or walked and kept."""
        keys = [_io.key_text(self.key(task, trusted)) for task in tasks]
        missing = [i for i, key in enumerate(keys) if key not in self.kept]
        for _ in range(len(tasks) - len(missing)):
            note()
        walked = runner.run(_walked, [tasks[i] for i in missing], rows)
        with closing(walked) as finished:
            for position, tried in finished:
                self.keep(tasks[missing[position]], trusted, tried)
                note()
        return [tried for key in keys for tried in self._read(key)]

    def _read(self, key: str) -> list[Tried]:
        try:
            return [Tried.of(each) for each in self.kept[key]]
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"{self.path} holds a record that tuning did not write ({key:.60}…); remove it."
            ) from error

    def keep(self, task: Task, trusted: float, tried: Iterable[Tried]) -> None:
        """Add a path."""
        key, listed = self.key(task, trusted), [each.to_dict() for each in tried]
        self.kept[_io.key_text(key)] = listed
        if self.path is not None:
            _io.append_record(self.path, {"key": key, "tried": listed})


def _walked(rows: Rows, task: Task) -> list[Tried]:
    return walk(rows, task)[0]


def _mark(rows: Rows) -> str:
    """A digest of all that decides what a path is worth."""
    labels = rows.labels
    judged = labels.judgements if isinstance(labels, Dataset) else None
    shared = rows.features, matrix_of(labels), judged, rows.propensity, rows.halves, rows.samples
    digest = hashlib.sha256()
    for piece in _pieces((__version__, rows.judge, rows.base, *shared)):
        digest.update(piece)
    return digest.hexdigest()[:32]


def _pieces(value: object) -> Iterator[bytes]:
    """All that a value consists of: arrays to the last number, records field by field."""
    if _validation.is_sparse(value):
        yield from _pieces((value.shape, value.data, value.indices, value.indptr))
    elif isinstance(value, np.ndarray):
        yield f"{value.dtype.str}{value.shape}".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif is_dataclass(value):
        yield type(value).__name__.encode()
        for each in fields(value):
            yield from _pieces((each.name, getattr(value, each.name)))
    elif isinstance(value, Mapping):
        yield from _pieces(tuple(value.items()))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        yield f"{len(value)}[".encode()
        for item in value:
            yield from _pieces(item)
    else:
        yield f"{value!r};".encode()
