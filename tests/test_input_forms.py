"""Whatever form arrays come in, a public function gives the same answer and leaves them alone.

`CALLS` names every public function that takes labels, propensities, predictions or features, with a
call of it; a test proves that none is forgotten. Every call is repeated with every form of its
inputs (order, type, width of indices, byte order, read-only, strided, mapped from a file, a tensor)
and with inputs that
hold what has no meaning (nan, infinity, a propensity of zero).
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from tests.helpers.public_calls import (
    CALLS,
    GIVEN,
    Form,
    Inputs,
    inputs_of,
    uses,
)
from unmask import (
    data,
    diagnosis,
    linear,
    losses,
    metrics,
    missing,
    operator,
    propensity,
    tree,
    tuning,
    weights,
)
from unmask.predictions import TopK

NO_ARRAYS = {
    "data.describe", "data.label_matrix", "data.limits", "data.parts", "data.read",
    "data.read_judgements", "data.subject_labels", "data.hierarchy", "data.read_hierarchy",
    "data.same_labels", "data.unseen", "data.vocabulary", "data.write", "propensity.constant",
    "propensity.preset", "propensity.read", "propensity.source_of", "propensity.write",
    "weights.to_pos_weight", "weights.to_relevance", "weights.to_samples",
    "weights.to_soft_targets", "losses.describe", "losses.get", "losses.observed",
    "losses.pairwise", "losses.warn_if_unbounded", "metrics.make_scorer", "metrics.supported",
    "linear.load", "linear.save",
    "linear.text_features", "linear.train_to", "tuning.recommended",
    "tree.load", "tree.plan", "tree.save", "tree.train_to",
    "missing.complete", "missing.read_review", "missing.review",
}  # fmt: skip
"""Take files, names or the package's own records; `train_to` is `train` with a folder, `tree.plan`
trains to measure."""

ROOMS = (
    data, propensity, weights, operator, losses, metrics, linear, diagnosis, missing, tuning,
    tree,
)  # fmt: skip


def test_every_public_function_is_tried() -> None:
    public = set()
    for room in ROOMS:
        short = room.__name__.removeprefix("unmask.")
        names = room.__all__
        public |= {f"{short}.{name}" for name in names if inspect.isfunction(getattr(room, name))}
    assert public == CALLS.keys() | NO_ARRAYS


def _shuffled(matrix: sp.csr_array) -> sp.csr_array:
    """The same matrix with the entries of every row in reverse order."""
    order = np.concatenate(
        [np.arange(b, a, -1) - 1 for a, b in zip(matrix.indptr, matrix.indptr[1:], strict=False)]
    )
    parts = (matrix.data[order], matrix.indices[order], matrix.indptr)
    return sp.csr_array(parts, shape=matrix.shape)


def _wide(matrix: sp.csr_array) -> sp.csr_array:
    parts = (matrix.data, matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64))
    return sp.csr_array(parts, shape=matrix.shape)


def _locked(given: Any) -> Any:
    copied = given.copy()
    for array in (copied.data, copied.indices, copied.indptr) if sp.issparse(given) else (copied,):
        array.flags.writeable = False
    return copied


def _mapped(given: Any, folder: Path) -> np.ndarray:
    dense = given.toarray() if sp.issparse(given) else given
    np.save(folder / "array.npy", dense)
    return np.load(folder / "array.npy", mmap_mode="r")


def _strided(given: np.ndarray) -> np.ndarray:
    twice = np.repeat(given, 2, axis=-1)
    return twice[..., ::2]


def _swapped(matrix: sp.csr_array) -> sp.csr_array:
    """The same matrix in the other byte order, which scipy does not make but does hold."""
    made = matrix.copy()
    for name in ("data", "indices", "indptr"):
        array = getattr(matrix, name)
        setattr(made, name, array.astype(array.dtype.newbyteorder()))
    return made


def _halves(matrix: sp.csr_array) -> sp.csr_array:
    made = matrix.copy()
    made.data = matrix.data.astype(np.float16)
    return made


def _spaced(matrix: sp.csr_array) -> sp.csr_array:
    made = matrix.copy()
    made.data, made.indices = _strided(matrix.data), _strided(matrix.indices)
    return made


SPARSE: dict[str, Form] = {
    "csr_matrix": lambda m, _: sp.csr_matrix(m),
    "csc": lambda m, _: sp.csc_array(m),
    "coo": lambda m, _: sp.coo_array(m),
    "unsorted": lambda m, _: _shuffled(m),
    "wide": lambda m, _: _wide(m),
    "read-only": lambda m, _: _locked(m),
    "float64": lambda m, _: m.astype(np.float64),
    "dense": lambda m, _: m.toarray(),
    "fortran": lambda m, _: np.asfortranarray(m.toarray()),
    "strided": lambda m, _: _strided(m.toarray()),
    "float16": lambda m, _: m.toarray().astype(np.float16),
    "mapped": _mapped,
    "big-endian": lambda m, _: m.toarray().astype(">f8"),
    "masked nowhere": lambda m, _: np.ma.array(m.toarray()),
    "tensor": lambda m, _: torch.tensor(m.toarray(), requires_grad=True),
    "bfloat16": lambda m, _: torch.tensor(m.toarray()).bfloat16(),
    "integers": lambda m, _: m.toarray().astype(np.uint8),
    "swapped": lambda m, _: _swapped(m),
    "halves": lambda m, _: _halves(m),
    "spaced": lambda m, _: _spaced(m),
    "lil": lambda m, _: sp.lil_array(m),
    "bsr": lambda m, _: sp.bsr_array(m, blocksize=(1, 1)),
    "dia": lambda m, _: sp.dia_array(m),
    "dok": lambda m, _: sp.dok_array(m),
}
DENSE: dict[str, Form] = {
    "float32": lambda a, _: a.astype(np.float32),
    "float16": lambda a, _: a.astype(np.float16),
    "fortran": lambda a, _: np.asfortranarray(a),
    "strided": lambda a, _: _strided(a),
    "read-only": lambda a, _: _locked(a),
    "mapped": _mapped,
    "list": lambda a, _: a.tolist(),
    "big-endian": lambda a, _: a.astype(">f8"),
    "masked nowhere": lambda a, _: np.ma.array(a),
    "tensor": lambda a, _: torch.tensor(a, requires_grad=True),
    "bfloat16": lambda a, _: torch.tensor(a).bfloat16(),
}
FORMS = [("labels", name) for name in SPARSE] + [("features", name) for name in SPARSE]
FORMS += [("p", name) for name in DENSE] + [("scores", name) for name in DENSE]
CURVES = {
    "propensity.recapture", "propensity.audit", "propensity.from_model", "propensity.snapshots",
}  # fmt: skip
"""Fit a curve, half a second each: here with a few forms, with all of them in `make test-slow`."""
FEW = ("unsorted", "read-only", "dense", "tensor", "float32")


@pytest.fixture(scope="module")
def usual() -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: call(inputs_of()) for name, call in CALLS.items()}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("changed", "form"), FORMS)
def test_the_form_of_an_input_does_not_matter(
    usual: dict[str, Any], changed: str, form: str, tmp_path: Path
) -> None:
    _check_form(usual, changed, form, tmp_path, CALLS.keys() - (() if form in FEW else CURVES))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("changed", "form"), FORMS)
def test_the_form_of_an_input_does_not_matter_to_curves(
    usual: dict[str, Any], changed: str, form: str, tmp_path: Path
) -> None:
    _check_form(usual, changed, form, tmp_path, CURVES)


def _check_form(
    usual: dict[str, Any], changed: str, form: str, folder: Path, names: Iterable[str]
) -> None:
    forms = SPARSE if changed in ("labels", "features") else DENSE
    for name in names:
        if not uses(CALLS[name], changed):
            continue
        inputs = inputs_of(changed, forms[form], folder)
        before = _contents(inputs[changed])
        _same(CALLS[name](inputs), usual[name], name)
        assert _contents(inputs[changed]) == before, f"{name} changed its {changed}"


def _contents(given: Any) -> Any:
    if sp.issparse(given):
        parts = vars(given)
        return [parts[k].tobytes() for k in ("data", "indices", "indptr") if k in parts]
    return given.tobytes() if isinstance(given, np.ndarray) else repr(given)


def _same(found: Any, expected: Any, name: str) -> None:
    if isinstance(expected, tuple | list):
        assert len(found) == len(expected), name
        for one, other in zip(found, expected, strict=True):
            _same(one, other, name)
    elif isinstance(expected, str | None.__class__):
        assert found == expected, name
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7, err_msg=name)


BAD = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("value", [*BAD.values(), 0.0, -0.5, 1.5], ids=[*BAD, "0", "-0.5", "1.5"])
def test_propensities_without_meaning_are_refused_everywhere(value: float) -> None:
    wrong = GIVEN["p"].copy()
    wrong[5] = value
    for name, call in CALLS.items():
        if uses(call, "p") and name != "weights.normalized_weights":  # a kernel: it trusts
            with pytest.raises(ValueError, match=r"propensit.*5|0, 1"):
                call(inputs_of() | {"p": wrong})


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("value", BAD.values(), ids=BAD)
@pytest.mark.parametrize("changed", ["labels", "features", "scores"])
def test_numbers_that_are_none_are_refused_everywhere(changed: str, value: float) -> None:
    wrong = GIVEN[changed].copy()
    (wrong.data if sp.issparse(wrong) else wrong.reshape(-1))[3] = value
    allowed = {"propensity.from_model"}  # which is given no scores
    if changed == "scores" and value == -np.inf:  # "not to be predicted"
        allowed |= {name for name, call in CALLS.items() if 'g["top"]' in inspect.getsource(call)}
        allowed |= {"metrics.curve"}
    taken = [
        name
        for name, call in CALLS.items()
        if uses(call, changed) and name not in allowed and _takes(call, changed, wrong)
    ]
    assert taken == []


def _takes(call: Callable[[Inputs], Any], changed: str, wrong: Any) -> bool:
    try:
        _with_bad(call, changed, wrong)
    except ValueError:
        return False
    return True


def _with_bad(call: Callable[[Inputs], Any], changed: str, wrong: Any) -> None:
    call(inputs_of() | {changed: wrong} | ({"top": _top(wrong)} if changed == "scores" else {}))


def _top(scores: np.ndarray) -> TopK:
    return TopK.from_scores(scores, 3)
