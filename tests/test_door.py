"""Attacks through the front door: indices that point elsewhere, stale flags, changes afterwards.

scipy does not look at the indices of a matrix, and compiled loops follow them: labels counted from
1 used to end a training in `free(): corrupted unsorted chunks`. Every public function is called
here with every kind of damage, in a process of its own, so that a crash is a failed test.
"""

from __future__ import annotations

import inspect
import os
import pickle
import re
import signal
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from tests.helpers.public_calls import CALLS, GIVEN, MODEL, RECIPE, inputs_of, uses
from unmask import (
    audit,
    data,
    linear,
    losses,
    metrics,
    missing,
    operator,
    predictions,
    propensity,
    thresholds,
    tree,
    tuning,
    weights,
)
from unmask._names import Strings, matched_rows
from unmask.arrays import checks
from unmask.models.linear import Shard
from unmask.predictions import LabelSets, TopK
from unmask.propensity.mask_model import ScoreSlope

Damage = Callable[[sp.csr_array], sp.csr_array]
LABELS, FEATURES, P, SCORES = (GIVEN[name] for name in ("labels", "features", "p", "scores"))


def survives(work: Callable[[], str], patience: int = 120) -> str:
    """What `work` returns, or how its process died."""
    inward, outward = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(patience)
        warnings.simplefilter("ignore")
        try:
            answer = work()
        except BaseException as error:  # whatever it is, it is the answer
            answer = f"{type(error).__name__}: {error}"
        os.write(outward, answer.encode()[:60_000])
        os._exit(0)
    os.close(outward)
    with os.fdopen(inward, "rb") as answers:
        answer = answers.read().decode()
    status = os.waitpid(child, 0)[1]
    return f"died of signal {status & 127}: {answer}" if status else answer


def refusal(call: Callable[[], Any]) -> str:
    """The words of the ValueError, or what came instead."""
    try:
        result = call()
    except ValueError as error:
        return str(error)
    except Exception as error:
        return f"not a ValueError but {type(error).__name__}: {error}"
    return f"not refused: {result!r}"[:200]


def raw(matrix: Any, **arrays: Any) -> Any:
    """A copy with other arrays, past all checks of scipy."""
    made = matrix.copy()
    for name, array in arrays.items():
        setattr(made, name, array)
    return made


def _moved(matrix: sp.csr_array, by: int) -> sp.csr_array:
    return raw(matrix, indices=matrix.indices + by)


def _one(matrix: sp.csr_array, index: int) -> sp.csr_array:
    changed = matrix.indices.astype(np.int64)
    changed[len(changed) // 2] = index
    return raw(matrix, indices=changed)


def _starts(matrix: sp.csr_array, row: int, start: int) -> sp.csr_array:
    changed = matrix.indptr.copy()
    changed[row] = start
    return raw(matrix, indptr=changed)


DAMAGES: dict[str, tuple[Damage, str]] = {
    "counted from 1": (lambda m: _moved(m, 1), "names .* but .* counted from 1?"),
    "counted from -1": (lambda m: _moved(m, -1), "−1, but the .* counted from 1 .* fill up rows"),
    "far": (lambda m: _one(m, 10**9), "1000000000, but the"),
    "beyond 32 bits": (lambda m: _one(m, 2**32 + 1), "4294967297, but the"),
    "far below": (lambda m: _one(m, -(10**6)), "−1000000, but the"),
    "indptr falls": (lambda m: _starts(m, 5, 10**6), r"indptr\) of .* must not fall"),
    "indptr begins late": (lambda m: _starts(m, 0, 1), r"must begin at 0; got 1"),
    "indptr ends late": (lambda m: _starts(m, -1, m.nnz + 9), r"end at entry .*, but .* stored"),
    "indptr is short": (lambda m: raw(m, indptr=m.indptr[:-1]), r"need 81 row starts .* got 80"),
    "indptr is flat": (lambda m: raw(m, indptr=m.indptr[None]), r"must stand in one row"),
    "indptr is not whole": (lambda m: raw(m, indptr=m.indptr / 2), r"whole numbers; got float64"),
    "indices are few": (lambda m: raw(m, indices=m.indices[:-1]), r"store \d+ values for \d+"),
    "values are few": (lambda m: raw(m, data=m.data[:-1]), r"store \d+ values for \d+"),
    "indices repeat": (lambda m: raw(m, indices=m.indices * 0), r"names column 0 twice in row"),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("changed", ["labels", "features"])
def test_a_damaged_pattern_is_refused_everywhere(changed: str, damage: str) -> None:
    make, message = DAMAGES[damage]
    wrong = make(GIVEN[changed])

    def work() -> str:
        said = []
        for name, call in CALLS.items():
            if uses(call, changed):
                said.append(f"{name}: {refusal(lambda c=call: c(inputs_of() | {changed: wrong}))}")
        return "\n".join(said)

    lines = survives(work).splitlines()
    assert len(lines) == sum(uses(call, changed) for call in CALLS.values()), lines
    for line in lines:
        assert re.search(message, line), line


BOUNDS = [name for name in DAMAGES if name != "indices repeat"]


def _wrong_records(damage: Damage) -> dict[str, Callable[[], Any]]:
    """Everything else that holds a sparse matrix."""
    half = sp.csr_array((np.full(LABELS.nnz, 0.5), LABELS.indices, LABELS.indptr), LABELS.shape)
    top, wide = TopK.from_scores(SCORES, 3), sp.csr_array(MODEL.weights)
    ones = LABELS.astype(np.float64)
    made = weights.vanilla(LABELS)

    def after(record: Any, name: str) -> Any:
        """The record, damaged in place after it was made."""
        object.__setattr__(record, name, damage(getattr(record, name)))
        return record

    def model() -> linear.LinearModel:
        shard = Shard(damage(wide), MODEL.bias)
        return linear.LinearModel((shard,), "logistic")

    def spoilt() -> weights.Weights:
        return after(weights.Weights(ones, ones.copy()), "pos")

    return {
        "entry propensities": lambda: data.hide(LABELS, damage(half), seed=0),
        "entry propensities of evaluate": lambda: metrics.evaluate(
            top, LABELS, damage(half), metrics=["R@3"], estimators=["unbiased"]
        ),
        "entry propensities of weights": lambda: weights.unbiased(LABELS, damage(half)),
        "scores": lambda: TopK.from_scores(damage(half), 3),
        "scores of evaluate": lambda: metrics.evaluate(damage(half), LABELS, metrics=["P@1"]),
        "probabilities": lambda: propensity.from_model(damage(half), LABELS),
        "Weights": lambda: weights.Weights(damage(ones), damage(ones)),
        "Weights.cut": lambda: weights.Weights(ones, damage(ones)),
        "losses.total": lambda: losses.total("logistic", SCORES, spoilt()),
        "losses.gradient": lambda: losses.gradient("logistic", SCORES, spoilt()),
        "losses.observed": lambda: losses.observed(spoilt()),
        "Weights, rows": lambda: spoilt()[:],
        "Dataset.take": lambda: after(data.Dataset(None, LABELS), "labels").take([0]),
        "losses.describe": lambda: losses.describe(losses.logistic, spoilt()),
        "weights.to_samples": lambda: weights.to_samples(spoilt(), 0),
        "weights.to_pos_weight": lambda: weights.to_pos_weight(spoilt()),
        "weights.to_relevance": lambda: weights.to_relevance(spoilt()),
        "weights.to_soft_targets": lambda: weights.to_soft_targets(spoilt()),
        "linear.train, weights": lambda: linear.train(
            FEATURES, LABELS, replace(RECIPE, correction=None), weights=spoilt()
        ),
        "linear.predict_top": lambda: linear.predict_top(model(), FEATURES, 3),
        "linear.scores": lambda: linear.scores(model(), FEATURES),
        "linear.probabilities": lambda: linear.probabilities(model(), FEATURES),
        "linear.save": lambda: linear.save("nowhere/model", model()),
        "linear.train, first": lambda: linear.train(FEATURES, LABELS, RECIPE, propensity=P,
                                                    first=model()),
        "LinearClassifier.fit": lambda: linear.LinearClassifier().fit(damage(FEATURES), LABELS),
        "LinearClassifier, labels": lambda: linear.LinearClassifier().fit(FEATURES, damage(LABELS)),
        "Dataset, features": lambda: data.Dataset(damage(FEATURES), None),
        "Dataset, labels": lambda: data.Dataset(None, damage(LABELS)),
        "Dataset, judgements": lambda: data.Dataset(None, LABELS, judgements=damage(LABELS)),
        "data.describe": lambda: data.describe(after(data.Dataset(None, LABELS), "labels")),
        "data.write": lambda: data.write("nowhere/x.txt", after(data.Dataset(None, LABELS),
                                                                "labels")),
        "made": lambda: losses.total("logistic", SCORES, after(replace(made), "cut")),
    }  # fmt: skip


@pytest.mark.parametrize("damage", BOUNDS)
def test_a_damaged_record_is_refused(damage: str) -> None:
    make, message = DAMAGES[damage]
    cases = _wrong_records(make)
    if damage == "indptr is short":
        message = r"need \d+ row starts .* got \d+"
    lines = survives(
        lambda: "\n".join(f"{name}: {refusal(call)}" for name, call in cases.items())
    ).splitlines()
    assert len(lines) == len(cases), lines[-1]
    for line in lines:
        assert re.search(message, line), line


def test_the_message_asks_whether_labels_are_counted_from_1() -> None:
    expected = (
        r"^labels: row 0 names label 2, but the 2 labels are 0 … 1; are labels counted from 1\? "
        r"Count them from 0\.$"
    )
    with pytest.raises(ValueError, match=expected):
        propensity.jain(raw(sp.csr_array([[0, 1]]), indices=np.array([2])))
    one = {"indices": np.array([0]), "data": np.ones(1), "indptr": np.array([0, 1])}
    with pytest.raises(ValueError, match="label 0, but there are no labels"):
        propensity.jain(raw(sp.csr_array((1, 0)), **one))


def test_entries_beyond_the_last_row_belong_to_no_row() -> None:
    longer = raw(
        LABELS,
        indices=np.r_[LABELS.indices, 10**9].astype(np.int32),
        data=np.r_[LABELS.data, np.nan].astype(np.float32),
    )
    np.testing.assert_array_equal(propensity.jain(longer), propensity.jain(LABELS))


# --- other forms ----------------------------------------------------------------------------------


def _coo(matrix: sp.csr_array, **arrays: Any) -> sp.coo_array:
    made = sp.coo_array(matrix)
    for name, array in arrays.items():
        setattr(made, name, array)
    return made


def _lil(matrix: sp.csr_array, row: list[int]) -> sp.lil_array:
    made = sp.lil_array(matrix)
    made.rows[0], made.data[0] = row, [1.0] * len(row)
    return made


def _dok() -> sp.dok_array:
    made = sp.dok_array(LABELS)
    made._dict[(3, 99)] = 1.0
    return made


def _cut(made: sp.lil_array) -> sp.lil_array:
    made.data[0] = made.data[0] + [1.0] * 1000
    return made


DENSE = LABELS.toarray()


def _far_blocks() -> sp.bsr_array:
    """Four times their indices is beyond int32, and back at 0."""
    made = sp.bsr_array(DENSE, blocksize=(2, 4))
    return raw(made, indices=made.indices + np.int32(2**30))


def _one_dimension() -> sp.coo_array:
    """Whatever shape scipy's own constructor makes of it: before 1.13 that has two dimensions."""
    made = sp.coo_array(np.ones(3))
    made._shape = (3,)
    return made


OTHERS: dict[str, tuple[Callable[[], Any], str]] = {
    "csc": (lambda: raw(sp.csc_array(LABELS), indices=sp.csc_array(LABELS).indices + 1),
            "names row 80, but the 80 rows are 0 … 79; are rows counted from 1"),
    "coo, row": (lambda: _coo(LABELS, row=sp.coo_array(LABELS).row + 1), "names row 80"),
    "coo, column": (lambda: _coo(LABELS, col=sp.coo_array(LABELS).col - 1), "names label −1"),
    "coo, short": (lambda: _coo(LABELS, data=np.ones(3)), "store 3 values for"),
    "lil": (lambda: _lil(LABELS, [0, 12]), "names label 12"),
    "lil, twice": (lambda: _lil(LABELS, [1, 1]), "names column 1 twice in row 0"),
    "lil, uneven": (lambda: _cut(sp.lil_array(LABELS)), "damaged in their lil form"),
    "dok": (_dok, "damaged in their dok form|names label 99"),
    "bsr": (lambda: _far_blocks(), "names label block 107374182., but the 3 label blocks"),
    "bsr, indptr": (lambda: raw(sp.bsr_array(DENSE, blocksize=(2, 2)), indptr=np.arange(41) * 9),
                    "end at entry"),
    "one row": (_one_dimension, r"must be a matrix, rows × columns; got shape"),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_other_forms_are_looked_at_too(name: str) -> None:
    make, message = OTHERS[name]
    words = survives(lambda: refusal(lambda: propensity.jain(make())))
    assert re.search(message, words), words


@pytest.mark.parametrize("form", ["coo", "bsr", "dia"])
def test_257_repetitions_do_not_add_up_to_one(form: str) -> None:
    """As int8 they do, and the label would count."""
    ones, places = np.ones(257, np.int8), np.zeros(257, np.int64)
    matrix = sp.coo_array((ones, (places, places)), shape=(5, 2))
    if form == "bsr":
        blocks = (ones.reshape(-1, 1, 1), places, np.array([0, 257, 257, 257, 257, 257]))
        matrix = sp.bsr_array(blocks, shape=(5, 2))
    if form == "dia":
        matrix = sp.dia_array((np.ones((2, 2), np.int8), [0, 1]), shape=(5, 2))
        matrix.offsets, matrix.data = places.astype(np.int32), np.ones((257, 2), np.int8)
    for check in (checks.labels, checks.columns):
        with pytest.raises(ValueError, match="names column 0 twice in row 0"):
            check(matrix)


# --- flags, copies, masks -------------------------------------------------------------------------


def test_a_flag_that_scipy_remembers_is_not_believed() -> None:
    """The rows are reversed in place after scipy has looked; P@5 was .004 instead of .088 once."""
    rng = np.random.default_rng(0)
    labels = sp.csr_array((rng.random((400, 300)) < 0.1).astype(np.float32))
    top = TopK.from_scores(rng.random((400, 300)), 5)
    truth = metrics.evaluate(top, labels, metrics=["P@5"])["P@5", "vanilla"].value
    assert labels.has_canonical_format
    for start, stop in zip(labels.indptr[:-1], labels.indptr[1:], strict=True):
        labels.indices[start:stop] = labels.indices[start:stop][::-1].copy()
    assert labels.has_canonical_format  # so scipy says, still
    for _ in range(2):
        changed = metrics.evaluate(top, labels, metrics=["P@5"])["P@5", "vanilla"].value
        assert changed == truth


@pytest.mark.filterwarnings("ignore")
def test_nothing_is_remembered_on_the_callers_matrix() -> None:
    for changed in ("labels", "features"):
        matrix = GIVEN[changed]
        fresh = sp.csr_array((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape)
        before = {name: id(value) for name, value in vars(fresh).items()}
        for name, call in CALLS.items():
            if uses(call, changed):
                call(inputs_of() | {changed: fresh})
                after = {name: id(value) for name, value in vars(fresh).items()}
                assert after == before, name


def test_predictions_cannot_be_changed_afterwards() -> None:
    labels, scores = np.array([[2, 0]], np.int32), np.array([[0.9, 0.4]], np.float32)
    top = TopK(labels, scores)
    labels[0, 0], scores[0, 0] = 10**8, np.nan
    assert top.labels.tolist() == [[2, 0]]
    assert top.scores.tolist() == [[np.float32(0.9), np.float32(0.4)]]
    made = [top, TopK.sorted(labels * 0 - 1, scores), TopK.from_scores([[0.1, 0.2]], 1)]
    made += [
        TopK.from_scores(sp.csr_array([[0.1, 0.2]]), 1),
        linear.predict_top(MODEL, FEATURES, 2),
    ]
    made += [pickle.loads(pickle.dumps(top)), replace(top)]  # noqa: S301 (our own)
    for each in made:
        for array in (each.labels, each.scores):
            with pytest.raises(ValueError, match="read-only"):
                array[0, 0] = 1
            assert array.flags.c_contiguous


def test_predicted_sets_cannot_be_changed_afterwards() -> None:
    matrix = sp.csr_array(np.eye(3, dtype=np.float32))
    sets = LabelSets(matrix)
    matrix.indices[:] = 99
    assert sets.as_top().labels.tolist() == [[0], [1], [2]]
    for array in (sets.indicator.data, sets.indicator.indices, sets.indicator.indptr):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0
    object.__setattr__(sets, "indicator", matrix)  # by force
    with pytest.raises(ValueError, match="predicted sets: row 0 names label 99"):
        metrics.evaluate(sets, np.eye(3), metrics=["micro-F1"])


def test_scores_of_predictions_are_not_copied_twice() -> None:
    """`from_scores` keeps the very arrays that the kernel filled."""
    top = TopK.from_scores(SCORES, 3)
    assert top.labels.base is None
    assert top.labels.flags.owndata


MASKED: dict[str, Callable[[], Any]] = {
    "propensity": lambda: weights.unbiased([[1, 1]], np.ma.array([0.5, 0.5], mask=[0, 1])),
    "propensity of evaluate": lambda: metrics.evaluate(
        SCORES, LABELS, np.ma.array(P, mask=P < 0.5), metrics=["P@1"]
    ),
    "labels": lambda: propensity.jain(np.ma.array([[1, 0]] * 9, mask=[[1, 0]] * 9)),
    "rows of labels": lambda: propensity.jain([np.ma.array([1, 0], mask=[1, 0])] * 9),
    "features": lambda: linear.predict_top(MODEL, np.ma.array(FEATURES.toarray(), mask=True), 2),
    "features of a classifier": lambda: linear.LinearClassifier().fit(
        np.ma.array(FEATURES.toarray(), mask=True), LABELS
    ),
    "scores": lambda: TopK.from_scores(np.ma.array([[3.0, 1.0]], mask=[[1, 0]]), 1),
    "scores of losses": lambda: losses.total(
        "logistic", np.ma.array(SCORES, mask=True), weights.vanilla(LABELS)
    ),
    "predicted labels": lambda: TopK(np.ma.array([[3]], mask=[[1]]), [[1.0]]),
    "predicted scores": lambda: TopK([[3]], np.ma.array([[1.0]], mask=[[1]])),
    "counts": lambda: propensity.jain_curve(np.ma.array([3, 4], mask=[1, 0]), 9),
    "stored values": lambda: propensity.jain(raw(LABELS, data=np.ma.array(LABELS.data, mask=True))),
    "stored indices": lambda: propensity.jain(
        raw(LABELS, indices=np.ma.array(LABELS.indices, mask=True))
    ),
}


@pytest.mark.parametrize("name", MASKED)
def test_masked_entries_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"have masked entries \(\d+\), which have no value"):
        MASKED[name]()


def test_an_array_that_could_be_masked_but_is_not_is_an_array() -> None:
    np.testing.assert_array_equal(propensity.clip(np.ma.array([0.5, 0.25]), 0.3), [0.5, 0.3])
    np.testing.assert_array_equal(
        propensity.jain(np.ma.array(LABELS.toarray())), propensity.jain(LABELS)
    )


STRANGE = {
    "complex": lambda a: a + 0j,
    "object": lambda a: np.frompyfunc(lambda number: [number], 1, 1)(a),
    "text": lambda a: a.astype(str),
    "dates": lambda a: a.astype("datetime64[s]"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", STRANGE)
@pytest.mark.parametrize("changed", ["labels", "features", "p", "scores"])
def test_what_are_no_numbers_is_refused_in_our_words(changed: str, kind: str) -> None:
    array = GIVEN[changed]
    wrong = STRANGE[kind](array.toarray() if sp.issparse(array) else array)
    for name, call in CALLS.items():
        computed = name in (
            "weights.normalized_weights", "propensity.from_model", "metrics.reliability",
        )  # fmt: skip
        if computed or f'g["{changed}"]' not in inspect.getsource(call):
            continue
        words = refusal(lambda c=call: c(inputs_of() | {changed: wrong}))
        assert "must be real numbers" in words or "must be a matrix of numbers" in words, name


def test_stored_complex_values_are_refused() -> None:
    with pytest.raises(ValueError, match="values of labels must be real numbers; got complex128"):
        propensity.jain(LABELS.astype(np.complex128))


def test_row_starts_of_normalized_weights_are_checked() -> None:
    inverse = np.array([3.0, 3.0, 3.0])
    for starts, message in (
        ([0, 1, 4], "end at entry 4"),
        ([1, 2, 3], "must begin at 0"),
        ([0, 2, 1], "must not fall"),
        ([0, 1.5], "whole numbers"),
    ):
        with pytest.raises(ValueError, match=message):
            weights.normalized_weights(np.array(starts), inverse)
    with pytest.raises(ValueError, match=r"finite and at least 1; got 0\.5 at entry 1"):
        weights.normalized_weights(np.array([0, 3]), np.array([1.0, 0.5, 2.0]))


def test_models_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    shard, narrow = (Shard(np.ones((2, d), np.float32), np.zeros(2)) for d in (3, 2))
    cases = (
        (linear.LinearModel((shard, narrow), "logistic"), r"the same features; got \[2, 3\]"),
        (linear.LinearModel((), "logistic"), "at least one shard"),
        (linear.LinearModel((shard,), "magic"), "unknown loss 'magic'"),
        (linear.LinearModel((replace(shard, bias=np.zeros(3)),), "logistic"), "one bias per label"),
        (
            linear.LinearModel((replace(shard, bias=[np.inf, 0]),), "logistic"),
            "must be finite",
        ),
        (linear.LinearModel((replace(shard, weights=np.ones(3)),), "logistic"), "must be a matrix"),
    )
    for model, message in cases:
        with pytest.raises(ValueError, match=message):
            linear.predict_top(model, [[1.0, 0.0, 0.0]], 1)
        with pytest.raises(ValueError, match=message):
            linear.save(tmp_path / "model", model)


def test_judgements_belong_to_the_labels() -> None:
    with pytest.raises(ValueError, match="judgements and labels must have the same rows"):
        data.Dataset(None, [[1, 0]], judgements=[[1, 0, 0]])
    with pytest.raises(ValueError, match="belong to labels, and there are none"):
        data.Dataset([[1.0]], None, judgements=[[1]])


def test_scores_that_are_no_matrix_are_refused() -> None:
    for call in (metrics.evaluate, lambda s, y: metrics.contributions(s, y, metrics=["P@1"])):
        with pytest.raises(ValueError, match=r"scores must be a matrix .*shape \(2,\)"):
            call([0.5, 0.25], [[1, 0]])


def test_systems_and_propensities_of_any_form_are_compared() -> None:
    """The twentieths of a deconvolved difference take rows, which not every form can give."""
    half = sp.csr_array((np.full(LABELS.nnz, 0.5), LABELS.indices, LABELS.indptr), LABELS.shape)
    systems = {"a": SCORES - 9, "b": -SCORES - 9}
    settings = {"metrics": ["P@3"], "estimators": ["deconvolved"], "replicates": 20}
    plain = metrics.compare(systems, LABELS, P, **settings)["b"]["P@3", "deconvolved"]
    forms = {"a": sp.coo_array(systems["a"]), "b": sp.csc_array(systems["b"])}
    other = metrics.compare(forms, sp.coo_array(LABELS), P, **settings)["b"]["P@3", "deconvolved"]
    assert (other.value, other.interval) == (plain.value, plain.interval)
    settings["estimators"] = ["unbiased"]
    one, two = (metrics.compare(systems, LABELS, p, **settings)["b"]["P@3", "unbiased"].value
                for p in (half, sp.coo_array(half)))  # fmt: skip
    assert one == two


def test_rows_without_any_label_column_have_the_value_of_the_empty_set() -> None:
    made = operator.unbiased(lambda sets, row: sets.sum(axis=1) + 2, np.empty((3, 0)), [])
    assert made.value.tolist() == [2, 2, 2]


def test_what_does_not_belong_together_is_refused_at_once(tmp_path: Path) -> None:
    """Before a kernel, a worker or a long computation would notice."""
    x, y, p = GIVEN["features"], GIVEN["labels"], GIVEN["p"]
    n, width = y.shape
    hierarchy = data.Hierarchy(tuple(map(str, range(width))), sp.csr_array((width, width)))
    plan = audit.plan(GIVEN["scores"], y, budget=3, metrics=["P@1"], seed=0)
    answered = audit.from_rows(plan, y[plan.rows])
    judged = data.Dataset(None, y, judgements=sp.csr_array(([2.0], ([0], [0])), shape=y.shape))
    slope = ScoreSlope(1.0, 0.0, np.zeros(width), 0.0, 1.0)
    table = tmp_path / "t.csv"
    table.write_text("id,label\nx,a\n,b\n")
    listed = tmp_path / "p.csv"
    listed.write_text("row,label,score\n0,0,1\n2,1,1\n")
    groups = np.array(["a", "b"])[np.arange(n) % 2]
    grouped = propensity.audit(y, y, groups=groups, curve="free")
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: matched_rows(Strings.of(["a", "a"]), Strings.of(["a", "b"]), "labels", "rows"),
         "ids of the labels"),
        (lambda: data.read(table, layout="tall"), "unknown layout 'tall'"),
        (lambda: data.read(table), "line 3: .*id"),
        (lambda: hierarchy.propensity(y[:, 1:], p), f"{width - 1}"),
        (lambda: linear.train_to(tmp_path / "m", x, y, shard_labels=0), "shard_labels must be"),
        (lambda: linear.train(x, y, linear.Recipe("logistic", correction="likelihood"),
                              propensity=propensity.MaskModel(p, score_slope=slope)),
         "the mask depends on the model's scores"),
        (lambda: linear.train(x[:-1], y), "features and labels must have the same rows"),
        (lambda: tuning.tune_tree(x[:-1], y, metric="P@1"),
         "features and labels must have the same rows"),
        (lambda: metrics.evaluate(np.zeros((n, width + 1)), judged, metrics=["P@1"]),
         "scores and labels must have the same"),
        (lambda: metrics.evaluate(GIVEN["scores"], y, hierarchy=hierarchy, audit=answered),
         "an audit judges labels as they are"),
        (lambda: metrics.compare(dict.fromkeys("ab", GIVEN["scores"]), y, hierarchy=hierarchy,
                                 audit=answered),
         "an audit judges labels as they are"),
        (lambda: audit.plan(GIVEN["scores"], y, budget=3, unit="cells"), "unknown unit 'cells'"),
        (lambda: audit.plan(GIVEN["scores"], y, budget=3, observed="maybe"),
         "unknown observed 'maybe'"),
        (lambda: audit.elusion(TopK.from_scores(GIVEN["scores"], 1), y, answered, k=1,
                               confidence=1.0),
         "confidence must be at least"),
        (lambda: metrics.reliability(np.full(y.shape, 0.5), y, p, bins=1001), "bins must lie in"),
        (lambda: predictions.read(listed), "line 3: rows are numbered 0, 1, 2 … in order; got '2'"),
        (lambda: missing.find(sp.csr_array((n, width + 1)), y, p), "must have the same rows"),
        (lambda: missing.find(np.zeros((n + 1, width)), y, p), "must have the same rows"),
        (lambda: grouped.interval("nobody"), "unknown group 'nobody'"),
        (lambda: grouped.interval("a", confidence=1.0), "confidence must be at least"),
        (lambda: thresholds.fit(GIVEN["scores"], y, p, per="row"), "unknown per 'row'"),
        (lambda: tree.plan(x, y, sample=0), "sample must be a whole number"),
        (lambda: tree.predict_unseen(tree.train(x, y), x[:-1], y, 1),
         "features and labels must have the same rows"),
        (lambda: linear.predict_top(replace(MODEL, label_names=("a",)), x, 1),
         f"1 label names for a model of {width} labels"),
        (lambda: hierarchy.close_scores(np.zeros((2, width + 1))), f"{width + 1}"),
        (lambda: data.read(table, repeated="twice"), "unknown repeated 'twice'"),
        (lambda: losses.logistic.describe("magic"), "unknown correction 'magic'"),
        (lambda: linear.LinearClassifier().fit(x[:-1], y),
         "features and labels must have the same rows"),
    ]  # fmt: skip
    for call, message in cases:
        with pytest.raises(ValueError, match=message):
            call()
    assert not (tmp_path / "m").exists()
