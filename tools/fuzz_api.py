"""Fuzzing of the public functions: CSR matrices that nobody has checked, changed between calls.

    python tools/fuzz_api.py --examples 50000      the long run; `make fuzz-api`
    python tools/fuzz_api.py --examples 500 --seed 7

A hypothesis state machine holds one sparse matrix, built past all checks of scipy. Between calls of
public functions its arrays are changed in place, exchanged, shuffled, and scipy's memory of their
order is set at random. An oracle in plain Python (`rows_of`) decides from the bare arrays whether
they are a matrix at all and whether its values mean something to the function:

- if they are not, the function must raise ValueError: no number comes of invalid input;
- if they are, it must do with them, to the bit, what it does with the same matrix built properly,
  and raise nothing but ValueError (too few rows, say).

Examples run in batches, each in a process of its own: one that dies is a defect, and the last call
that it wrote down says where.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

BATCH = 2500
STEPS = 3
PATIENCE = 3600.0
SLOW = {
    "propensity.audit",
    "propensity.audit, complete",
    "propensity.from_model",
    "propensity.recapture",
    "propensity.snapshots",
    "diagnosis.diagnose, audit",
    "data.write",
    "linear.completion",
    "tuning.tune",
    "tuning.tune_tree",
    "tree.train",
    "tree.predict_top",
    "tree.predict_unseen",
    "missing.rehearse",
    "missing.join",
}
"""Called less often: they take up to half a second."""

Rows = list[dict[int, float]]
JUDGEMENTS = (-1, 0, 1, 2)
"""False, not judged, true, ignored."""


@dataclasses.dataclass(frozen=True)
class Function:
    """A public function: what its matrix is to it, and a call with everything else in order."""

    role: str
    call: Callable[[Any, Scene], Any]


@dataclasses.dataclass(frozen=True)
class Scene:
    """Sound arguments that go with a matrix of this shape; `pattern` is one of its shape, too."""

    shape: tuple[int, int]
    pattern: sp.csr_array

    @property
    def p(self) -> np.ndarray:
        """A propensity per column."""
        return np.linspace(1, 0.3, self.shape[1]) if self.shape[1] else np.empty(0)

    @property
    def scores(self) -> np.ndarray:
        """Dense scores of the matrix's shape."""
        return np.random.default_rng(self.shape).normal(size=self.shape)

    @property
    def top(self) -> Any:
        """Predictions for labels of this shape."""
        from unmask import TopK

        return TopK.from_scores(self.scores, 2)

    @property
    def features(self) -> np.ndarray:
        """Three features for every row."""
        return np.random.default_rng(self.shape).normal(size=(self.shape[0], 3))

    @property
    def labels(self) -> np.ndarray:
        """Two labels for every row."""
        return np.random.default_rng(self.shape).integers(0, 2, size=(self.shape[0], 2))

    @property
    def bias(self) -> np.ndarray:
        """A bias for every row of a weight matrix."""
        return np.zeros(self.shape[0], dtype=np.float32)


def functions() -> dict[str, Function]:
    """All that is called; imports the package."""
    import torch

    from unmask import audit as audits
    from unmask import (
        data,
        diagnosis,
        linear,
        losses,
        metrics,
        missing,
        operator,
        propensity,
        thresholds,
        tree,
        tuning,
        weights,
    )  # fmt: skip
    from unmask.models.linear import Shard
    from unmask.predictions import LabelSets, TopK
    from unmask.torch import MissingLabelLoss, RankingMetrics, ScoreMetrics, SetMetrics

    names = {"metrics": ["P@1", "R@2", "nDCG@2", "F1@2", "PSP@1", "MRR", "macro-R@2"]}
    every = {**names, "estimators": list(metrics.ESTIMATORS)}
    quick = {"metrics": ["R@2"], "estimators": ["vanilla", "unbiased"], "replicates": 10}
    recipes = {
        "squared_hinge": linear.Recipe(max_iter=5),
        "logistic": linear.Recipe(loss="logistic", correction="unbiased", max_iter=5),
        "softmax": linear.Recipe(loss="softmax", reduction="pal", correction="bound", max_iter=5),
    }

    def values(table: Any) -> Any:
        return [(each.metric, each.estimator, each.value, *each.interval) for each in table]

    def tables(several: Any) -> Any:
        return [values(several[name]) for name in several]

    def both(made: weights.Weights) -> Any:
        return made.pos, made.cut

    def changed(record: Any, **matrices: Any) -> Any:
        """A frozen record whose matrices are exchanged, as if they had been changed in place."""
        for name, matrix in matrices.items():
            object.__setattr__(record, name, matrix)
        return record

    def systems(s: Scene) -> Any:
        return {"a": s.top, "b": TopK.from_scores(-s.scores, 2)}

    def trained(loss: str) -> Callable[[Any, Scene], Any]:
        return lambda y, s: linear.train(s.features, y, recipes[loss], propensity=s.p)[0].weights

    def model(w: Any, s: Scene) -> linear.LinearModel:
        return linear.LinearModel((Shard(w, s.bias),), "logistic")

    def dense_model(s: Scene) -> linear.LinearModel:
        shard = Shard(np.ones((4, s.shape[1]), np.float32), np.arange(4, dtype=np.float32))
        return linear.LinearModel((shard,), "logistic")

    def written(y: Any, s: Scene) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            data.write(Path(folder) / "y.txt", data.Dataset(None, y))
            return (Path(folder) / "y.txt").read_text(encoding="ascii")

    def torch_loss(y: Any, s: Scene) -> Any:
        loss = MissingLabelLoss(s.p, normalized=True, reduction_over_batch="none")
        return loss(torch.tensor(s.scores), as_tensor(torch, y)).numpy()

    def torch_metric(y: Any, s: Scene) -> Any:
        metric = RankingMetrics(s.p, metrics=["P@1"])
        metric.update(torch.tensor(s.scores), as_tensor(torch, y))
        return metric.values()

    def torch_bayes(y: Any, s: Scene) -> Any:
        options = {"correction": "empirical_bayes", "normalized": True, "labels": y}
        return MissingLabelLoss(s.p, **options).share.numpy()

    def torch_scores(y: Any, s: Scene) -> Any:
        metric = ScoreMetrics(s.p, metrics=["mAP", "macro-AUC"])
        metric.update(torch.tensor(s.scores), as_tensor(torch, y))
        return metric.values()

    def torch_sets(y: Any, s: Scene) -> Any:
        metric = SetMetrics(s.p, metrics=["micro-F1", "sample-F1"])
        metric.update(torch.tensor(s.scores), as_tensor(torch, y))
        return metric.values()

    def chain(s: Scene) -> data.Hierarchy:
        """Every label below the next one."""
        names = [str(label) for label in range(s.shape[1])]
        above = {name: names[label + 1 : label + 2] for label, name in enumerate(names)}
        return data.hierarchy(above, names=names)

    def sets(s: Scene) -> LabelSets:
        return LabelSets.from_scores(s.scores, 0.0)

    def halves(y: Any, s: Scene) -> Any:
        groups = ["ab"[row % 2] for row in range(s.shape[0])]
        return tables(metrics.evaluate(s.top, y, s.p, metrics=["R@1"], groups=groups))

    trees = tree.TreeRecipe(n_trees=1, arity=2, leaf=2)

    def small_tree(s: Scene) -> tree.TreeModel:
        return tree.train(np.eye(4, max(s.shape[1], 1)), np.eye(4), trees)

    def chances(s: Scene) -> np.ndarray:
        return np.asarray(1 / (1 + np.exp(-s.scores)))

    def expected(made: missing.Findings) -> Any:
        return made.rows, made.labels, made.probability, made.by_row

    corrections = {
        f"weights.{name}, {kind}": lambda y, s, f=weights.CORRECTIONS[name], n=normalized: both(
            f(y, s.p, normalized=n)
        )
        for name in weights.CORRECTIONS
        for kind, normalized in (("plain", False), ("normalized", True))
    }
    of_labels = {
        "propensity.jain": lambda y, s: propensity.jain(y),
        "propensity.inverse_linear": lambda y, s: propensity.inverse_linear(y),
        "propensity.from_spec": lambda y, s: propensity.from_spec("jain:0.5,0.4", y),
        "propensity.from_marginals": lambda y, s: (
            propensity.from_marginals(y, np.full(s.shape[1], 0.9)).value
        ),
        "propensity.audit": lambda y, s: propensity.audit(y, np.ones(s.shape)).value,
        "propensity.audit, complete": lambda y, s: propensity.audit(s.pattern, y).value,
        "propensity.recapture": lambda y, s: propensity.recapture(y, np.ones(s.shape)).value,
        "propensity.chao": lambda y, s: propensity.chao(s.pattern, y),
        "propensity.snapshots": lambda y, s: (
            propensity.snapshots(y, np.ones(s.shape), curve="free").value
        ),
        "propensity.from_model": lambda y, s: propensity.from_model(np.full(s.shape, 0.5), y).value,
        **corrections,
        "weights.count_distribution": lambda y, s: weights.count_distribution(y, s.p).probability,
        "operator.unbiased": lambda y, s: (
            operator.unbiased(lambda sets, _: sets.sum(axis=1) ** 2, y, s.p).value
        ),
        "losses.total": lambda y, s: losses.total("softmax", s.scores, weights.vanilla(y)),
        "data.hide": lambda y, s: data.hide(y, s.p, seed=0),
        "data.describe": lambda y, s: data.describe(data.Dataset(None, y)),
        "data.write": written,
        "data.Dataset": lambda y, s: data.Dataset(None, y).labels,
        "data.Dataset.take": lambda y, s: (
            changed(data.Dataset(None, s.pattern), labels=y).take(slice(None)).labels
        ),
        "metrics.evaluate": lambda y, s: values(metrics.evaluate(s.top, y, s.p, **every)),
        "metrics.evaluate, bootstrap": lambda y, s: values(
            metrics.evaluate(s.scores, y, s.p, interval="bca", **quick)
        ),
        "metrics.evaluate_shards": lambda y, s: values(
            metrics.evaluate_shards([(s.top, y)], s.p, metrics=["P@1"])
        ),
        "metrics.curve": lambda y, s: metrics.curve(s.scores, y, s.p).f1,
        "metrics.curve, sample": lambda y, s: (
            metrics.curve(s.scores, y, s.p, average="sample").f1_error
        ),
        "metrics.evaluate, sets": lambda y, s: values(
            metrics.evaluate(sets(s), y, s.p, metrics=["micro-F1", "macro-F1", "sample-F1"])
        ),
        "metrics.evaluate, all scores": lambda y, s: values(
            metrics.evaluate(s.scores, y, s.p, metrics=["mAP", "macro-AUC", "LRAP", "Fmax"])
        ),
        "metrics.evaluate, groups": halves,
        "metrics.evaluate, hierarchy": lambda y, s: values(
            metrics.evaluate(sets(s), y, s.p, metrics=["micro-F1"], hierarchy=chain(s))
        ),
        "predictions.LabelSets": lambda y, s: LabelSets(y).as_top(),
        "predictions.LabelSets, evaluated": lambda y, s: values(
            metrics.evaluate(
                changed(LabelSets(s.pattern), indicator=y), s.pattern, s.p, metrics=["micro-F1"]
            )
        ),
        "thresholds.fit": lambda y, s: thresholds.fit(s.scores, y, s.p).values,
        "thresholds.fit, per label": lambda y, s: (
            thresholds.fit(s.scores, y, s.p, metric="macro-F1", prior=0).values
        ),
        "thresholds.calibrate": lambda y, s: thresholds.calibrate(s.scores, y, s.p).probabilities,
        "thresholds.calibrate, platt": lambda y, s: (
            thresholds.calibrate(s.scores, y, s.p, method="platt").slope
        ),
        "data.Hierarchy.close_labels": lambda y, s: chain(s).close_labels(y),
        "data.Hierarchy.information_content": lambda y, s: chain(s).information_content(y),
        "data.Hierarchy.propensity": lambda y, s: chain(s).propensity(y, s.p),
        "audit.plan": lambda y, s: audits.plan(s.top, y, budget=2).rows,
        "tree.predict_unseen": lambda y, s: (
            tree.predict_unseen(small_tree(s), s.features, y, 2).labels
        ),
        "metrics.reliability": lambda y, s: metrics.reliability(chances(s), y, s.p).true,
        "missing.find": lambda y, s: expected(missing.find(chances(s), y, s.p)),
        "missing.suspicious": lambda y, s: expected(missing.suspicious(chances(s), y, s.p)),
        "missing.join": lambda y, s: missing.join(s.scores, y, s.p).probabilities,
        "missing.rehearse": lambda y, s: (
            missing.rehearse(lambda *_: chances(s), y, s.p, share=0.5).precision
        ),
        "linear.completion": lambda y, s: (
            linear.completion(s.features, y, s.p, linear.Recipe("logistic", max_iter=5)).weights.pos
        ),
        "tree.train": lambda y, s: tree.train(s.features, y, trees).trees[0].parts[0][0],
        "tuning.tune": lambda y, s: [
            each.judged.value
            for each in tuning.tune(
                s.features, y, s.p, "P@2", losses=["logistic"], costs=[0.01], tau=[1.0],
                refit=False,
            ).table
        ],
        "tuning.tune_tree": lambda y, s: [
            each.judged.value
            for each in tuning.tune_tree(
                s.features, y, s.p, "P@2", losses=["logistic"], costs=[0.01], recipe=trees,
                refit=False,
            ).table
        ],
        "metrics.contributions": lambda y, s: list(
            metrics.contributions(s.top, y, s.p, metrics=["R@1"], estimators=["unbiased"]).values()
        ),
        "metrics.label_counts": lambda y, s: list(
            metrics.label_counts(s.top, y, s.p, k=1).columns().values()
        ),
        "metrics.compare": lambda y, s: values(
            metrics.compare(systems(s), y, s.p, **quick)["b"]
        ),
        "metrics.sensitivity": lambda y, s: tables(
            metrics.sensitivity(s.top, y, metrics.powers(s.p, [0, 1]), metrics=["P@1"])
        ),
        "metrics.ranking": lambda y, s: (
            metrics.ranking(
                systems(s), y, metrics.powers(s.p, [1]), metric="P@1", replicates=10
            ).statement
        ),
        "metrics.jain_grid": lambda y, s: list(metrics.jain_grid(y).values()),
        "metrics.jain_around": lambda y, s: list(metrics.jain_around(y).values()),
        "diagnosis.diagnose": lambda y, s: diagnosis.diagnose(y, s.p).findings,
        "diagnosis.diagnose, audit": lambda y, s: (
            diagnosis.diagnose(s.pattern, s.p, audit=(s.pattern, y)).findings
        ),
        "linear.train, squared_hinge": trained("squared_hinge"),
        "linear.train, logistic": trained("logistic"),
        "linear.train, softmax": trained("softmax"),
        "linear.plan": lambda y, s: linear.plan(s.features, y, recipes["squared_hinge"]).tasks,
        "torch.MissingLabelLoss, labels": torch_bayes,
    }  # fmt: skip
    of_features = {
        "data.idf": lambda x, s: data.idf(x),
        "data.tfidf": lambda x, s: data.tfidf(x, np.ones(s.shape[1])),
        "data.Dataset, features": lambda x, s: data.Dataset(x, None).features,
        "TopK.from_scores": lambda x, s: TopK.from_scores(x, 2),
        "metrics.evaluate, scores": lambda x, s: values(
            metrics.evaluate(x, s.pattern, s.p, **names)
        ),
        "linear.train, features": lambda x, s: (
            linear.train(x, s.labels, recipes["squared_hinge"])[0].weights
        ),
        "linear.predict_top": lambda x, s: linear.predict_top(dense_model(s), x, 2),
        "tree.predict_top": lambda x, s: tree.predict_top(small_tree(s), x, 2).labels,
        "linear.scores": lambda x, s: linear.scores(dense_model(s), x),
        "linear.probabilities": lambda x, s: linear.probabilities(dense_model(s), x),
        "linear.LinearClassifier": lambda x, s: (
            linear.LinearClassifier(max_iter=5).fit(x, s.labels).coef_
        ),
        "linear.predict_top, weights": lambda w, s: linear.predict_top(
            model(w, s), np.eye(s.shape[1]), 2
        ),
        "linear.scores, weights": lambda w, s: linear.scores(model(w, s), np.eye(s.shape[1])),
    }
    of_chances = {
        "data.hide, per entry": lambda q, s: data.hide(s.pattern, q, seed=0),
        "weights.unbiased, per entry": lambda q, s: both(weights.unbiased(s.pattern, q)),
        "weights.tempered, per entry": lambda q, s: both(weights.tempered(s.pattern, q)),
        "operator.unbiased, per entry": lambda q, s: (
            operator.unbiased(lambda sets, _: sets.sum(axis=1), s.pattern, q).value
        ),
        "metrics.evaluate, per entry": lambda q, s: values(
            metrics.evaluate(s.top, s.pattern, q, metrics=["P@1", "R@2"])
        ),
    }
    of_judgements = {
        "data.Dataset, judgements": lambda y, s: (
            data.Dataset(None, s.pattern, judgements=y).judgements
        ),
        "metrics.evaluate, judgements": lambda y, s: values(
            metrics.evaluate(s.top, data.Dataset(None, s.pattern, judgements=y), s.p, **names)
        ),
    }
    of_numbers = {
        "weights.Weights": lambda w, s: both(weights.Weights(w, w)),
        "weights.Weights, rows": lambda w, s: both(
            changed(weights.Weights(s.pattern, s.pattern), pos=w, cut=w)[:]
        ),
        "losses.gradient": lambda w, s: losses.gradient(
            "logistic", s.scores, weights.Weights(w, w)
        ),
        "losses.observed": lambda w, s: losses.observed(weights.Weights(w, w)),
        "losses.describe": lambda w, s: losses.describe(losses.logistic, weights.Weights(w, w)),
        "weights.to_samples": lambda w, s: weights.to_samples(weights.Weights(w, w), 0),
        "weights.to_soft_targets": lambda w, s: weights.to_soft_targets(weights.Weights(w, w)),
        "weights.to_pos_weight": lambda w, s: weights.to_pos_weight(weights.Weights(w, w)),
        "weights.to_relevance": lambda w, s: weights.to_relevance(weights.Weights(w, w)),
        "linear.train, weights": lambda w, s: (
            linear.train(s.features, s.pattern, recipes["logistic"], weights=weights.Weights(w, w))[
                0
            ].weights
        ),
    }
    of_torch = {
        "torch.MissingLabelLoss": torch_loss, "torch.RankingMetrics": torch_metric,
        "torch.ScoreMetrics": torch_scores, "torch.SetMetrics": torch_sets,
    }  # fmt: skip
    roles = {
        "labels": of_labels, "features": of_features, "chances": of_chances,
        "judgements": of_judgements, "numbers": of_numbers, "targets": of_torch,
    }  # fmt: skip
    return {
        name: Function(role, call) for role, calls in roles.items() for name, call in calls.items()
    }


def as_tensor(torch: Any, matrix: sp.csr_array) -> Any:
    """The same arrays as a sparse tensor that torch has not looked at."""
    starts, columns = (
        torch.tensor(array.astype(np.int64)) for array in (matrix.indptr, matrix.indices)
    )
    numbers = torch.tensor(matrix.data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.sparse_csr_tensor(
            starts, columns, numbers, matrix.shape, check_invariants=False
        )


def fits_torch(matrix: sp.csr_array) -> bool:
    """Whether torch can hold these arrays at all."""
    arrays = matrix.data, matrix.indices, matrix.indptr
    kinds = [array.dtype.kind for array in arrays]
    native = matrix.data.dtype.isnative and matrix.data.dtype != np.longdouble
    flat = all(array.ndim == 1 for array in arrays) and len(matrix.indptr) == matrix.shape[0] + 1
    whole = set(kinds[1:]) <= {"i", "u"} and len(matrix.data) == len(matrix.indices)
    return bool(flat and whole and native and kinds[0] in "bif")


# --- the oracle: plain Python, nothing of the package or scipy ------------------------------------


def rows_of(matrix: sp.csr_array) -> Rows | None:
    """What the bare arrays say, {column: value} per row; None if they are no matrix."""
    n, width = matrix.shape
    arrays = matrix.data, matrix.indices, matrix.indptr
    if any(array.ndim != 1 for array in arrays):
        return None
    kinds = [array.dtype.kind if array.size else "i" for array in arrays]
    if kinds[1] not in "iu" or kinds[2] not in "iu" or matrix.data.dtype.kind not in "biuf":
        return None
    data, columns, starts = (array.tolist() for array in arrays)
    if len(starts) != n + 1 or len(data) != len(columns) or starts[0] != 0:
        return None
    if any(a > b for a, b in itertools.pairwise(starts)) or starts[-1] > len(columns):
        return None
    rows: Rows = []
    for start, stop in itertools.pairwise(starts):
        row = dict(zip(columns[start:stop], data[start:stop], strict=True))
        if len(row) != stop - start or any(not 0 <= column < width for column in row):
            return None
        rows.append(row)
    return rows


def means_something(rows: Rows, matrix: sp.csr_array, role: str, pattern: sp.csr_array) -> bool:
    """Whether the values are labels, features, chances or weights."""
    numbers = [value for row in rows for value in row.values()]
    if role in ("labels", "targets"):
        in_use = int(matrix.indptr[-1]) == len(matrix.indices)  # torch leaves nothing over
        return all(value in (0, 1) for value in numbers) and (in_use or role == "labels")
    if role == "judgements":
        return all(value in JUDGEMENTS for value in numbers)
    if role == "features":
        with np.errstate(over="ignore"):
            return all(math.isfinite(float(np.float32(value))) for value in numbers)
    if role == "chances":
        own = [sorted(row) for row in rows]
        there = [sorted(row) for row in rows_of(pattern) or []]
        return own == there and all(0 < value <= 1 for value in numbers)
    return all(math.isfinite(float(value)) for value in numbers)


def proper(rows: Rows, matrix: sp.csr_array) -> sp.csr_array:
    """The same matrix, built as one should."""
    order = [(column, row[column]) for row in rows for column in sorted(row)]
    starts = np.cumsum([0, *(len(row) for row in rows)]).astype(np.int32)
    columns = np.array([column for column, _ in order], dtype=np.int32)
    kind = np.float32 if matrix.data.dtype == np.float16 else matrix.data.dtype.newbyteorder("=")
    data = np.array([value for _, value in order], dtype=kind)
    return sp.csr_array((data, columns, starts), shape=matrix.shape)


# --- one call, judged -----------------------------------------------------------------------------


VERDICTS = {
    "answered": "valid, and the same answer as for the matrix built properly",
    "declined": "valid, but the function says of both that it cannot (too few rows, say)",
    "refused": "invalid",
    "unfit": "torch cannot hold such arrays",
}


def judge(function: Function, matrix: sp.csr_array, pattern: sp.csr_array) -> str:
    """One of `VERDICTS`, or what is wrong."""
    if function.role == "targets" and not fits_torch(matrix):
        return "unfit"
    rows = rows_of(matrix)
    sound = rows is not None and means_something(rows, matrix, function.role, pattern)
    scene = Scene(matrix.shape, pattern)
    before = contents(matrix)
    answer = outcome(function, matrix, scene)
    if contents(matrix) != before:
        return "it changed the matrix"
    if not sound:
        return "refused" if answer.startswith("ValueError") else f"invalid, but: {answer}"
    assert rows is not None  # noqa: S101 (sound)
    expected = outcome(function, proper(rows, matrix), scene)
    if expected.startswith("ValueError") and answer.startswith("ValueError"):
        return "declined"
    if answer.startswith("Exception"):
        return f"valid, but: {answer}"
    return "answered" if answer == expected else f"{answer} instead of {expected}"


def outcome(function: Function, matrix: sp.csr_array, scene: Scene) -> str:
    """The result in writing, or the error."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return repr(plain(function.call(matrix, scene)))
    except ValueError as error:
        if type(error) is ValueError:
            return f"ValueError: {error}"
        return f"Exception {type(error).__name__}: {error}"
    except Exception as error:
        return f"Exception {type(error).__name__}: {error}"


def plain(result: Any) -> Any:
    """Lists, numbers and text of whatever a function returns."""
    if sp.issparse(result):
        return [result.shape, plain(result.toarray())]
    if isinstance(result, np.ndarray | np.generic):
        return result.tolist()
    if dataclasses.is_dataclass(result):
        return [plain(getattr(result, field.name)) for field in dataclasses.fields(result)]
    if isinstance(result, list | tuple):
        return [plain(each) for each in result]
    return result


def contents(matrix: sp.csr_array) -> Any:
    """Everything that can be told of a matrix, the flags that scipy sets among it."""
    return {
        name: value.tobytes() if isinstance(value, np.ndarray) else value
        for name, value in vars(matrix).items()
    }


# --- the machine ----------------------------------------------------------------------------------

INDICES = st.one_of(
    st.integers(-2, 7),
    st.sampled_from([2**31 - 1, -(2**31), 2**31, 2**32, 2**32 + 1, 2**62, 10**6, -(10**6)]),
)
VALUES = st.sampled_from([1.0, 1.0, 1.0, 1.0, 0.0, 0.5, 2.0, -1.0, np.nan, np.inf, 1e300, -1e39])
INDEX_TYPES = st.sampled_from(["i4", "i4", "i8", "i8", "u1", "u8", ">i4", ">i8", "f8", "O"])
DATA_TYPES = st.sampled_from(
    ["f4", "f4", "f8", "i1", "i8", "u1", "?", "f2", ">f8", "c16", "O", "g"]
)


@st.composite
def matrices(draw: st.DrawFn) -> tuple[sp.csr_array, sp.csr_array]:
    """A proper matrix of ones (or other values), and its pattern as labels."""
    shape = draw(st.integers(0, 6)), draw(st.integers(0, 4))
    rows = [
        sorted(draw(st.sets(st.integers(0, shape[1] - 1), max_size=shape[1])) if shape[1] else ())
        for _ in range(shape[0])
    ]
    columns = np.array([column for row in rows for column in row], dtype=np.int32)
    starts = np.cumsum([0, *map(len, rows)]).astype(np.int32)
    usual = draw(st.booleans())
    data = [1.0 if usual else draw(VALUES) for _ in columns]
    pattern = sp.csr_array((np.ones(len(columns), np.float32), columns, starts), shape=shape)
    wild = sp.csr_array((np.array(data, np.float64), columns.copy(), starts.copy()), shape=shape)
    return wild, pattern


class Door(RuleBasedStateMachine):
    """One matrix, and whoever may lay hands on it."""

    registry: ClassVar[dict[str, Function]] = {}
    tally: ClassVar[Counter[str]] = Counter()
    diary: ClassVar[Any] = None

    @initialize(made=matrices())
    def start(self, made: tuple[sp.csr_array, sp.csr_array]) -> None:
        """A proper matrix."""
        self.wild, self.pattern = made

    @rule(changes=st.lists(st.deferred(lambda: CHANGES), max_size=2), number=st.integers(0, 999))
    def step(self, changes: list[tuple[Any, ...]], number: int) -> None:
        """A few changes, then a call."""
        for change, *details in changes:
            change(self.wild, *details)
        light = sorted(self.registry.keys() - SLOW)
        slow = dict(enumerate(sorted(SLOW), 500))  # in the middle, where few numbers are drawn
        self.ask(slow.get(number, light[number % len(light)]))

    def teardown(self) -> None:
        """One more example."""
        self.tally["examples"] += 1

    def ask(self, name: str) -> None:
        """Call and judge; write down first what is about to happen."""
        if self.diary is not None:
            self.diary.seek(0)
            self.diary.truncate()
            self.diary.write(f"{name} {describe(self.wild)}")
            self.diary.flush()
        verdict = judge(self.registry[name], self.wild, self.pattern)
        self.tally["calls"] += 1
        self.tally[verdict] += verdict in VERDICTS
        if verdict not in VERDICTS:
            raise AssertionError(f"{name}: {verdict}\n{describe(self.wild)}")


def poke_index(wild: sp.csr_array, field: str, place: int, value: int) -> None:
    """Change one index in place, in the type that it has, as far as it fits."""
    array = getattr(wild, field)
    if array.size and array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        array.reshape(-1)[place % array.size] = min(max(value, limits.min), limits.max)


def poke_value(wild: sp.csr_array, place: int, value: float) -> None:
    """Change one value in place."""
    if wild.data.size and (wild.data.dtype.kind in "fcO" or value in (0.0, 1.0)):
        with np.errstate(all="ignore"):
            wild.data.reshape(-1)[place % wild.data.size] = value


def count_from_elsewhere(wild: sp.csr_array, by: int) -> None:
    """Labels counted from 1, or 1 subtracted once too often."""
    if wild.indices.dtype.kind == "i":
        wild.indices = wild.indices + by


def remember(wild: sp.csr_array, canonical: bool | None, ordered: bool | None) -> None:
    """Set what scipy remembers of the order, rightly or wrongly."""
    for name, flag in (("_has_canonical_format", canonical), ("_has_sorted_indices", ordered)):
        vars(wild).pop(name, None)
        if flag is not None:
            setattr(wild, name, flag)


def reverse(wild: sp.csr_array) -> None:
    """The entries of every row the other way round, in place: the same matrix."""
    if rows_of(wild) is not None:
        for start, stop in itertools.pairwise(wild.indptr.tolist()):
            for array in (wild.indices, wild.data):
                array[start:stop] = array[start:stop][::-1].copy()


def leave_over(wild: sp.csr_array, index: int) -> None:
    """An entry beyond the end of the last row, which belongs to no row."""
    if wild.data.dtype.kind == "f" and wild.data.ndim == wild.indices.ndim == 1:
        wild.indices = np.append(wild.indices.astype(np.int64), index)
        wild.data = np.append(wild.data, wild.data.dtype.type(np.nan))


def retype(wild: sp.csr_array, field: str, kind: str) -> None:
    """The same numbers in another type, or what becomes of them; NaN is no Python integer."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with contextlib.suppress(OverflowError, ValueError):
            setattr(wild, field, getattr(wild, field).astype(kind))


def reshape(wild: sp.csr_array, field: str, change: int) -> None:
    """An array too short, too long, or of two dimensions."""
    array = getattr(wild, field)
    if change == 2:
        setattr(wild, field, array[None])
    elif array.ndim == 1:
        setattr(wild, field, array[:-1] if change < 0 else np.append(array, array[-1:]))


FLAGS = st.sampled_from([None, True, False])
FIELDS = ["data", "indices", "indptr"]
CHANGES = st.one_of(
    st.tuples(st.just(reverse)),
    st.tuples(st.just(remember), FLAGS, FLAGS),
    st.tuples(st.just(leave_over), INDICES),
    st.tuples(st.just(poke_index), st.sampled_from(FIELDS[1:]), st.integers(0, 9), INDICES),
    st.tuples(st.just(poke_value), st.integers(0, 9), VALUES),
    st.tuples(st.just(count_from_elsewhere), st.sampled_from([1, -1])),
    st.tuples(st.just(retype), st.sampled_from(FIELDS[1:]), INDEX_TYPES),
    st.tuples(st.just(retype), st.just("data"), DATA_TYPES),
    st.tuples(st.just(reshape), st.sampled_from(FIELDS), st.sampled_from([-1, 1, 2])),
)


def describe(matrix: sp.csr_array) -> str:
    """The bare arrays."""
    arrays = (f"{name}={getattr(matrix, name)!r}" for name in ("data", "indices", "indptr"))
    return f"shape={matrix.shape} {' '.join(arrays)}".replace("\n", "")


# --- the run --------------------------------------------------------------------------------------


def batch(examples: int, number: int, diary: Path | None) -> Counter[str]:
    """So many examples in this process."""
    Door.registry, Door.tally = functions(), Counter()
    chosen = settings(
        max_examples=examples,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        derandomize=False,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    with contextlib.ExitStack() as stack:
        if diary is not None:
            Door.diary = stack.enter_context(open(diary, "w", encoding="utf-8"))
        run_state_machine_as_test(seed(number)(Door), settings=chosen)
    Door.diary = None
    return Door.tally


def batches(examples: int, size: int, first: int) -> Iterator[tuple[int, int]]:
    """(examples, seed) of every batch."""
    for number, start in enumerate(range(0, examples, size)):
        yield min(size, examples - start), first + number


def main() -> int:
    """Run the batches, each in a process of its own, and add up."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--examples", type=int, default=50_000)
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(batch(options.examples, options.seed, options.one)))
        return 0
    total: Counter[str] = Counter()
    defects, start = 0, time.monotonic()
    for size, number in batches(options.examples, options.batch, options.seed):
        tally, complaint = _in_a_process(size, number)
        total += tally
        if complaint:
            defects += 1
            print(f"batch of seed {number}: {complaint}", flush=True)
        spent = time.monotonic() - start
        print(
            f"{total['examples']:,} examples, {total['calls']:,} calls: "
            f"{', '.join(f'{total[name]:,} {name}' for name in VERDICTS)}; {spent:.0f} s, "
            f"{defects} defects",
            flush=True,
        )
    return min(defects, 1)


def _in_a_process(examples: int, number: int) -> tuple[Counter[str], str]:
    """The tally of a batch, and how it failed, if it did."""
    with tempfile.TemporaryDirectory() as folder:
        diary = Path(folder) / "diary"
        command = [sys.executable, __file__, "--examples", str(examples), "--seed", str(number)]
        try:
            run = subprocess.run(  # noqa: S603 (this very file)
                [*command, "--one", str(diary)],
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                env=os.environ | {"UNMASK_THREADS": "1", "OMP_NUM_THREADS": "1"},
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Counter(), f"no answer in {PATIENCE:g} s; last: {diary.read_text()[:2000]}"
        if run.returncode == 0:
            return Counter(json.loads(run.stdout.splitlines()[-1])), ""
        last = diary.read_text(encoding="utf-8")[:2000] if diary.exists() else ""
        if run.returncode < 0:
            return Counter(), f"the process died of signal {-run.returncode}; last: {last}"
        return Counter(), f"{run.stderr[-3000:]}"


if __name__ == "__main__":
    sys.exit(main())
