"""`MissingLabelLoss` against numpy's weights and losses, torch's own losses, and gradcheck."""

from __future__ import annotations

import copy
import dataclasses
import io
import pickle
import runpy
import shutil
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from tests.helpers.oracles import normalized_weights_mp
from tests.helpers.paths import ROOT
from unmask import losses, weights
from unmask.losses import LOSSES, UnboundedLossWarning
from unmask.torch import MissingLabelLoss
from unmask.weights.formulas import Rectangle

pytestmark = [
    pytest.mark.filterwarnings("ignore::unmask.losses.UnboundedLossWarning"),
    pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta"),
]
COMBINATIONS = [
    (name, correction, normalized)
    for name, loss in LOSSES.items()
    if loss.slope is not None
    for correction in weights.CORRECTIONS
    for normalized in (False, True)
    if (normalized or correction != "empirical_bayes")
    and not (normalized and loss.reduction == "pairwise")
]
TARGETS = {
    "dense float": lambda y: torch.tensor(y.toarray(), dtype=torch.float32),
    "dense bool": lambda y: torch.tensor(y.toarray(), dtype=torch.bool),
    "dense long": lambda y: torch.tensor(y.toarray(), dtype=torch.long),
    "coo": lambda y: torch.tensor(y.toarray()).to_sparse_coo(),
    "csr": lambda y: torch.tensor(y.toarray()).to_sparse_csr(),
    "index": lambda y: index_of(y),
    "lists": lambda y: [np.flatnonzero(row).tolist() for row in y.toarray()],
    "arrays": lambda y: [np.flatnonzero(row)[::-1] for row in y.toarray()],
    "tensors": lambda y: tuple(torch.tensor(row).nonzero()[:, 0] for row in y.toarray()),
    "scipy csr": lambda y: y,
    "scipy coo": lambda y: sp.coo_matrix(y),
}


def index_of(labels: sp.csr_array) -> torch.Tensor:
    seen = losses.observed(weights.vanilla(labels))
    return torch.as_tensor(np.where(seen.pos > 0, seen.index, -1))


def batch(seed: int = 0, n: int = 11, n_labels: int = 9):
    rng = np.random.default_rng(seed)
    dense = (rng.random((n, n_labels)) < 0.4).astype(float)
    dense[0] = 0  # a row without labels
    labels = sp.csr_array(dense)
    propensity = rng.uniform(0.2, 1, n_labels)
    propensity[0] = 1
    return rng.normal(size=(n, n_labels)) * 2, labels, propensity


def module(name: str, correction: str, normalized: bool, labels, propensity, **options):
    if correction == "empirical_bayes":
        options["labels"] = labels
    if correction == "tempered":
        options["tau"] = 0.4
    return MissingLabelLoss(
        propensity, loss=name, correction=correction, normalized=normalized, **options
    )


def numpy_weights(name: str, correction: str, normalized: bool, labels, propensity):
    options = {"tau": 0.4} if correction == "tempered" else {}
    options |= {"normalized": normalized, "reduction": LOSSES[name].reduction}
    return weights.CORRECTIONS[correction](labels, propensity, **options)


def test_values_and_gradients_equal_numpy():
    for name, correction, normalized in COMBINATIONS:
        scores, labels, propensity = batch()
        loss = module(name, correction, normalized, labels, propensity, reduction_over_batch="none")
        logits = torch.tensor(scores, requires_grad=True)
        value = loss(logits, index_of(labels))
        value.sum().backward()
        w = numpy_weights(name, correction, normalized, labels, propensity)
        np.testing.assert_allclose(value.detach(), losses.total(name, scores, w), rtol=1e-11)
        np.testing.assert_allclose(
            logits.grad, losses.gradient(name, scores, w), rtol=1e-10, atol=1e-12
        )
        again = loss(logits, weights=w)
        np.testing.assert_allclose(again.detach(), value.detach(), rtol=1e-11)


def test_empirical_bayes_of_rows_whose_empty_ones_were_dropped_equals_numpy():
    scores, labels, propensity = batch(6, n=40)
    with_labels = np.diff(labels.indptr) > 0
    kept, logits = labels[with_labels], torch.tensor(scores[with_labels])
    loss = module("softmax", "empirical_bayes", True, kept, propensity, reduction_over_batch="none")
    w = weights.empirical_bayes(kept, propensity, reduction="pal", without_empty=True)
    expected = losses.total("softmax", scores[with_labels], w)
    np.testing.assert_allclose(loss(logits, index_of(kept)), expected, rtol=1e-11)
    whole = module("softmax", "empirical_bayes", True, labels, propensity)
    assert not torch.equal(loss.share, whole.share)


def test_every_kind_of_target_means_the_same():
    for correction in ["unbiased", "empirical_bayes"]:
        for kind in TARGETS:
            scores, labels, propensity = batch(1)
            loss = module("logistic", correction, True, labels, propensity)
            logits = torch.tensor(scores)
            expected = loss(logits, index_of(labels))
            torch.testing.assert_close(
                loss(logits, TARGETS[kind](labels)), expected, rtol=1e-12, atol=0
            )


def test_sparse_targets_may_store_zeros():
    scores, _, propensity = batch(2)
    stored = torch.tensor([[0, 0, 1], [1, 3, 2]]), torch.tensor([1.0, 0.0, 1.0])
    sparse = torch.sparse_coo_tensor(*stored, scores.shape, check_invariants=True)
    loss = MissingLabelLoss(propensity, normalized=True)
    logits = torch.tensor(scores)
    torch.testing.assert_close(loss(logits, sparse), loss(logits, sparse.to_dense()))


def test_vanilla_equals_torch():
    scores, labels, _ = batch(3)
    logits, dense = torch.tensor(scores), torch.tensor(labels.toarray())
    ones = np.ones(scores.shape[1])
    ours = MissingLabelLoss(ones, correction="vanilla", reduction_over_batch="sum")
    theirs = binary_cross_entropy_with_logits(logits, dense, reduction="sum")
    torch.testing.assert_close(ours(logits, dense), theirs)
    ours = MissingLabelLoss(ones, correction="vanilla", reduction="pal", reduction_over_batch="sum")
    torch.testing.assert_close(ours(logits, dense), cross_entropy(logits, dense, reduction="sum"))


def test_complete_labels_and_the_ends_of_tau_are_exact():
    for normalized in [False, True]:
        scores, labels, propensity = batch(4)
        logits, index = torch.tensor(scores), index_of(labels)

        def value(p, correction, **options):
            loss = MissingLabelLoss(p, correction=correction, normalized=normalized, **options)  # noqa: B023
            return loss(logits, index)  # noqa: B023

        ones = np.ones(len(propensity))
        assert value(propensity, "tempered", tau=1.0) == value(propensity, "unbiased")
        assert value(ones, "tempered", tau=0.3) == value(ones, "unbiased")
        tolerance = {"rtol": 1e-12 if normalized else 0, "atol": 0}
        vanilla = value(propensity, "vanilla")
        torch.testing.assert_close(value(ones, "unbiased"), vanilla, **tolerance)
        torch.testing.assert_close(value(propensity, "tempered", tau=0.0), vanilla, **tolerance)


def test_batched_quadrature_equals_high_precision():
    for m in [1, 2, 7, 40]:
        propensity = np.random.default_rng(m).uniform(0.05, 1, m)
        inverse = torch.as_tensor(
            np.stack([1 / propensity, np.r_[1 / propensity[:1], np.zeros(m - 1)]])
        )
        ours = Rectangle(inverse).shares()
        exact = np.array([float(t) for t in normalized_weights_mp(propensity)])
        np.testing.assert_allclose(ours[0], exact, rtol=0, atol=1e-12 * np.abs(exact).max())
        assert ours[1, 0] == pytest.approx(1 / propensity[0], rel=1e-13)
        assert (ours[1, 1:] == 0).all()


def test_propensities_at_the_nodes_of_the_quadrature_are_harmless():
    low, half, high = np.polynomial.legendre.leggauss(3)[0] / 2 + 0.5  # the nodes for 5 labels
    rows = [half] * 5, [half, 0.3, 0.6, 0.9, 1.0], [low, half, high, high, 0.7]
    ours = Rectangle(1 / torch.tensor(np.array(rows))).shares()
    exact = [[float(t) for t in normalized_weights_mp(row)] for row in rows]
    np.testing.assert_allclose(ours, exact, rtol=1e-12, atol=1e-14)


def test_gradcheck():
    for name, correction, normalized in COMBINATIONS:
        scores, labels, propensity = batch(5, n=3, n_labels=4)
        loss = module(name, correction, normalized, labels, propensity)
        logits = torch.tensor(scores, requires_grad=True)
        assert torch.autograd.gradcheck(lambda s: loss(s, index_of(labels)), logits)  # noqa: B023


def test_half_precision_logits_are_computed_in_single():
    for name in ["logistic", "softmax", "pairwise_logistic"]:
        for dtype in [torch.bfloat16, torch.float16]:
            scores, labels, propensity = batch(6)
            loss = MissingLabelLoss(propensity, loss=name)
            half = torch.tensor(scores, dtype=dtype, requires_grad=True)
            value = loss(half, index_of(labels))
            value.backward()
            assert value.dtype is torch.float32
            assert half.grad.dtype is dtype
            torch.testing.assert_close(value, loss(half.detach().float(), index_of(labels)))


def test_autocast_changes_nothing():
    scores, labels, propensity = batch(7)
    loss = MissingLabelLoss(propensity, normalized=True)
    layer = torch.nn.Linear(scores.shape[1], scores.shape[1])
    inputs = torch.tensor(scores, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = layer(inputs)
        inside = loss(logits, index_of(labels))
    inside.backward()
    assert logits.dtype is torch.bfloat16
    assert torch.equal(inside, loss(logits, index_of(labels)))
    assert layer.weight.grad.isfinite().all()


def test_extreme_logits_stay_finite():
    for name in [n for n, loss in LOSSES.items() if loss.slope is not None]:
        logits = torch.tensor([[1e4, -1e4, 1e4, -1e4]], requires_grad=True)
        loss = MissingLabelLoss([0.1, 0.5, 0.9, 1.0], loss=name)
        value = loss(logits, torch.tensor([[0, 1]]))
        value.backward()
        assert value.isfinite()
        assert logits.grad.isfinite().all()


def test_batches_without_labels_or_rows_are_no_accident():
    loss = MissingLabelLoss([0.5, 0.5, 0.5], normalized=True)
    logits = torch.zeros(2, 3, requires_grad=True)
    for empty in (torch.zeros(2, 3), torch.zeros(2, 3).to_sparse_csr(), torch.empty(2, 0).long()):
        assert loss(logits, empty).item() == pytest.approx(3 * np.log(2))
    assert loss(torch.zeros(0, 3), torch.zeros(0, 3)) == 0


def test_state_dict_carries_the_propensities():
    scores, labels, propensity = batch(1)
    saved = module("softmax", "empirical_bayes", True, labels, propensity)
    other = module("softmax", "empirical_bayes", True, labels, propensity**0.9)
    file = io.BytesIO()
    torch.save(saved.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    logits = torch.tensor(scores)
    assert torch.equal(other(logits, index_of(labels)), saved(logits, index_of(labels)))


def test_losses_of_other_people_run_in_the_module():
    """Of one's own: one that sees the batch, and the likelihood of what was observed."""
    scores, labels, propensity = batch(9)
    logits = torch.tensor(scores, requires_grad=True)
    of_batch = replace(losses.logistic, name="own", keep=lambda s, _: s > s.mean(), difference=None)
    for made in (of_batch, losses.related_work.observed_likelihood(propensity)):
        loss = MissingLabelLoss(propensity, loss=made, correction="vanilla")
        assert torch.autograd.gradcheck(lambda s, f=loss: f(s, index_of(labels)), logits)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, while tracing
@pytest.mark.parametrize(("name", "normalized"), [("logistic", True), ("softmax", False)])
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_compiled_in_one_graph(name, normalized, backend):
    if backend == "inductor" and shutil.which("gcc") is None:
        pytest.skip("torch.compile needs a C++ compiler")
    torch.compiler.reset()
    scores, labels, propensity = batch(10)
    loss = MissingLabelLoss(propensity, loss=name, normalized=normalized)
    compiled = torch.compile(loss, backend=backend, fullgraph=True)
    gradients = []
    for function in (loss, compiled):
        logits = torch.tensor(scores, dtype=torch.float32, requires_grad=True)
        value = function(logits, index_of(labels))
        value.backward()
        gradients.append(logits.grad)
    torch.testing.assert_close(value, loss(logits, index_of(labels)))
    torch.testing.assert_close(*gradients)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("normalized", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_dense_targets_are_compiled_in_one_graph(normalized):
    torch.compiler.reset()
    scores, labels, propensity = batch(12)
    loss = MissingLabelLoss(propensity, normalized=normalized, reduction_over_batch="none")
    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    logits, dense = torch.tensor(scores), torch.tensor(labels.toarray())
    torch.testing.assert_close(compiled(logits, dense), loss(logits, dense))
    dense[3, 2], dense[5, 1] = 0.5, torch.nan  # no labels, and a graph cannot stop
    assert compiled(logits, dense).isnan().nonzero()[:, 0].tolist() == [3, 5]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_precision_of_a_model_is_not_that_of_its_propensities(dtype):
    """`model.half()` and buffers of mixed precision leave float64 weights as they are."""
    scores, labels, propensity = batch(13)
    loss = module("softmax", "empirical_bayes", True, labels, propensity)
    expected = loss(torch.tensor(scores), index_of(labels))
    share = loss.share.clone()
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), loss).to(dtype)
    assert model[0].weight.dtype is dtype
    assert torch.equal(loss.inverse_propensity[:-1], torch.tensor(1 / propensity))
    assert torch.equal(loss.share, share)
    assert loss(torch.tensor(scores), index_of(labels)) == expected


def test_a_gradient_scaler_trains_as_without_it():
    """float16 under autocast: scaled losses and unscaled gradients are those of one step."""
    scores, labels, propensity = batch(14)
    steps = []
    for enabled in (True, False):
        torch.manual_seed(0)
        layer = torch.nn.Linear(9, 9)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, enabled=enabled)
        with torch.autocast("cpu", dtype=torch.float16):
            logits = layer(torch.tensor(scores, dtype=torch.float32))
            value = MissingLabelLoss(propensity)(logits, index_of(labels))
        assert (logits.dtype, value.dtype) == (torch.float16, torch.float32)
        scaler.scale(value).backward()
        scaler.step(optimizer)
        scaler.update()
        steps.append(layer.weight.detach())
    torch.testing.assert_close(*steps, rtol=1e-2, atol=1e-3)
    torch.manual_seed(0)
    assert not torch.equal(steps[0], torch.nn.Linear(9, 9).weight)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compiled_with_sparse_targets():
    torch.compiler.reset()
    scores, labels, propensity = batch(11)
    loss = MissingLabelLoss(propensity, normalized=True)
    compiled = torch.compile(loss, backend="aot_eager")
    logits = torch.tensor(scores)
    for kind in ("dense float", "csr", "coo"):
        target = TARGETS[kind](labels)
        torch.testing.assert_close(compiled(logits, target), loss(logits, target))


def test_an_unbounded_combination_warns_at_construction():
    with pytest.warns(UnboundedLossWarning, match="use the bound weights"):
        MissingLabelLoss([0.5, 1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MissingLabelLoss([0.5, 1.0], correction="bound")
        MissingLabelLoss([1.0, 1.0])


def test_doors():
    logits = torch.zeros(2, 3)
    loss = MissingLabelLoss([0.5] * 3, loss="softmax")
    with pytest.raises(ValueError, match=r"targets of shape \(2, 4\) for 2 rows and 3 labels"):
        loss(logits, torch.zeros(2, 4))
    with pytest.raises(ValueError, match=r"targets must be 0 or 1; got 2 at label 1"):
        loss(logits, torch.tensor([[0.0, 2.0, 0.0], [0.0, 0.0, 0.0]]))
    with pytest.raises(ValueError, match="for 3 propensities"):
        loss(torch.zeros(2, 4), torch.zeros(2, 4))
    with pytest.raises(ValueError, match="either targets or weights"):
        loss(logits)
    with pytest.raises(ValueError, match=r"weights of shape \(1, 3\)"):
        loss(logits, weights=weights.vanilla([[1, 0, 0]]))
    with pytest.raises(ValueError, match="softmax is a loss of the reduction 'pal', not 'ova'"):
        MissingLabelLoss([0.5], loss="softmax", reduction="ova")
    with pytest.raises(ValueError, match="pairwise losses have no normalised form"):
        MissingLabelLoss([0.5], loss="pairwise_hinge", normalized=True)
    with pytest.raises(ValueError, match="pass labels="):
        MissingLabelLoss([0.5], correction="empirical_bayes", normalized=True)
    with pytest.raises(ValueError, match="evaluation only"):
        MissingLabelLoss([0.5], loss="zero_one")
    with pytest.raises(ValueError, match=r"propensities must lie in \(0, 1\]"):
        MissingLabelLoss([0.0])


def test_numbers_below_zero_are_padding():
    loss = MissingLabelLoss([0.5, 0.6, 0.7], normalized=True)
    logits = torch.randn(2, 3)
    ignored = torch.tensor([[0, -100], [2, 1]])
    torch.testing.assert_close(loss(logits, ignored), loss(logits, ignored.clamp(min=-1)))


@pytest.mark.slow
def test_the_example_recovers_recall_that_vanilla_training_loses():
    path = ROOT / "examples" / "torch_mlp.py"
    recall = runpy.run_path(str(path))["main"]()
    lost = recall["complete labels"] - recall["hidden labels, vanilla"]
    won = recall["hidden labels, unbiased"] - recall["hidden labels, vanilla"]
    assert lost > 0.15
    assert won > 0.4 * lost


# --- the door -------------------------------------------------------------------------------------


def csr(starts, columns, values=None, shape=(2, 3)) -> torch.Tensor:
    """A sparse tensor that torch has not looked at, as by default."""
    values = torch.ones(len(columns)) if values is None else values
    arrays = torch.tensor(starts), torch.tensor(columns), values
    return torch.sparse_csr_tensor(*arrays, shape, check_invariants=False)


def coo(rows, columns, values=None, shape=(2, 3)) -> torch.Tensor:
    values = torch.ones(len(rows)) if values is None else values
    index = torch.tensor([rows, columns])
    return torch.sparse_coo_tensor(index, values, shape, is_coalesced=True, check_invariants=False)


REFUSED = {
    "number twice": (lambda: torch.tensor([[2, 2], [1, -1]]), "name label 2 twice in row 0"),
    "number twice, apart": (
        lambda: torch.tensor([[0, 1, -1, 0], [1, -1, -1, -1]]),
        "label 0 twice in row",
    ),
    "number L": (
        lambda: torch.tensor([[0, -1], [3, 1]]),
        r"row 1 names label 3.* counted from 1\?",
    ),
    "number beyond": (
        lambda: torch.tensor([[9, -1], [0, 1]], dtype=torch.int8),
        "row 0 names label 9",
    ),
    "csr column": (lambda: csr([0, 1, 2], [1, 3]), r"names label 3, .* counted from 1\?"),
    "csr far": (lambda: csr([0, 1, 2], [1, 10**9]), "names label 1000000000, but"),
    "csr below": (lambda: csr([0, 1, 2], [-1, 1]), r"names label −1, .* counted from 1"),
    "csr twice": (lambda: csr([0, 2, 2], [1, 1]), "name label 1 twice in row 0"),
    "csr falls": (lambda: csr([0, 2, 1], [0, 1]), "must rise from 0 to 2"),
    "csr begins late": (lambda: csr([1, 1, 2], [0, 1]), "must rise from 0 to 2"),
    "csr ends late": (lambda: csr([0, 1, 9], [0, 1]), "must rise from 0 to 2"),
    "csr value": (
        lambda: csr([0, 1, 2], [0, 1], torch.tensor([1.0, 0.5])),
        "0 or 1; got 0.5 at label 1",
    ),
    "coo column": (lambda: coo([0, 1], [1, 3]), "names label 3"),
    "coo row": (lambda: coo([0, 2], [1, 1]), r"names row 2, but the 2 rows are 0 … 1"),
    "coo twice": (lambda: coo([0, 1, 0], [1, 2, 1]), "name label 1 twice in row 0"),
    "coo wraps": (
        lambda: coo([0] * 257, [0] * 257, torch.ones(257, dtype=torch.int8)),
        "label 0 twice",
    ),
    "nan": (lambda: torch.full((2, 3), torch.nan), "0 or 1; got nan"),
    "complex": (lambda: torch.ones(2, 3, dtype=torch.complex64), "not complex"),
    "vector": (lambda: torch.tensor([1, 0]), r"got torch.int64 in shape \(2,\)"),
    "cube": (
        lambda: torch.zeros(2, 3, 1, dtype=torch.long),
        r"got torch.int64 in shape \(2, 3, 1\)",
    ),
    "array of names": (lambda: np.full((2, 3), "a"), "got ndarray"),
    "array, shape": (lambda: np.zeros((2, 4)), r"targets of shape \(2, 4\) for 2 rows and 3"),
    "list of one row": (lambda: [[0]], "labels of 1 rows for 2 rows"),
    "flat list": (lambda: [0, 1], "row 0 is int; give a list of label numbers per row"),
    "names": (lambda: [["a"], ["b"]], r"label numbers \(integers\); got 'a'"),
    "floats": (lambda: [[0], [1.0]], r"label numbers \(integers\); got 1.0"),
    "nothing": (lambda: [[None], [1]], r"label numbers \(integers\); got None"),
    "bools": (lambda: [[0], [True]], r"label numbers \(integers\); got True"),
    "list twice": (lambda: [[0], [2, 1, 2]], "label 2 twice in row 1"),
    "list beyond": (lambda: [[0], [3]], r"row 1 names label 3.* counted from 1\?"),
    "scipy shape": (lambda: sp.csr_array((2, 4)), r"targets of shape \(2, 4\) for 2 rows and 3"),
    "scipy value": (lambda: sp.csr_array([[0, 2, 0], [0, 0, 1]]), "targets must be 0 or 1; got 2"),
    "csc": (lambda: torch.zeros(2, 3).to_sparse_csc(), "got the layout torch.sparse_csc"),
    "hybrid": (lambda: torch.zeros(2, 3).to_sparse(1), "with 1 dense dimensions"),
}


@pytest.mark.filterwarnings("ignore:Sparse CSC tensor support is in beta")
def test_targets_that_are_none_are_refused():
    for name in REFUSED:
        make, message = REFUSED[name]
        loss, target = MissingLabelLoss([0.5, 0.6, 0.7]), make()
        with pytest.raises(ValueError, match=message):
            loss(torch.zeros(2, 3), target)


def test_unsorted_targets_mean_the_same():
    loss = MissingLabelLoss([0.5, 0.6, 0.7], normalized=True)
    logits = torch.tensor([[0.3, -1.0, 0.5], [2.0, 0.1, -0.4]])
    expected = loss(logits, torch.tensor([[0, 2], [1, -1]]))
    for target in (
        csr([0, 2, 3], [2, 0, 1]),
        coo([1, 0, 0], [1, 2, 0]),
        torch.tensor([[-1, 2, 0, -7], [1, -1, -1, -1]]),
        torch.tensor([[2, 0], [1, -1]], dtype=torch.int8),
    ):
        torch.testing.assert_close(loss(logits, target), expected)


def test_no_rows_have_no_loss_and_no_gradient():
    for name, correction, normalized in COMBINATIONS:
        _, labels, propensity = batch()
        for over_batch in ("mean", "sum", "none"):
            loss = module(
                name, correction, normalized, labels, propensity, reduction_over_batch=over_batch
            )
            for target in (
                torch.zeros(0, 9),
                torch.zeros(0, 9).to_sparse_coo(),
                torch.zeros(0, 9).to_sparse_csr(),
                torch.zeros(0, 4, dtype=torch.long),
            ):
                logits = torch.zeros(0, 9, requires_grad=True)
                value = loss(logits, target)
                value.sum().backward()
                assert value.shape == ((0,) if over_batch == "none" else ())
                assert value.sum() == 0
                assert logits.grad.shape == (0, 9)
            assert loss(torch.zeros(0, 9), weights=weights.vanilla(labels)[:0]).sum() == 0


INF = float("inf")


def test_a_logit_of_minus_infinity_is_the_limit():
    """A label that is never predicted: like −10000 to the loss, and no gradient.

    Label 0, because short rows are filled up with it at weight 0. Only the squared error has no
    limit there.
    """
    for name, correction, normalized in [
        combination for combination in COMBINATIONS if combination[0] != "squared_error"
    ]:
        scores, labels, propensity = batch(3)
        labels = sp.csr_array(labels.toarray() * (np.arange(9) > 0))
        scores[:, 0] = -1e4
        loss = module(name, correction, normalized, labels, propensity, reduction_over_batch="none")
        logits = [torch.tensor(scores, requires_grad=True) for _ in range(2)]
        masked = torch.where(torch.arange(9) == 0, -INF, logits[1])
        far, limit = loss(logits[0], index_of(labels)), loss(masked, index_of(labels))
        torch.testing.assert_close(far, limit, rtol=1e-10, atol=1e-10)
        far.sum().backward()
        limit.sum().backward()
        assert logits[1].grad.isfinite().all()
        torch.testing.assert_close(logits[0].grad[:, 1:], logits[1].grad[:, 1:])


def test_other_rows_do_not_suffer_from_a_row_that_is_not_finite():
    for name, correction, normalized in COMBINATIONS:
        scores, labels, propensity = batch(4)
        labels = sp.csr_array(np.maximum(labels.toarray(), np.eye(11, 9)))  # every row has a label
        loss = module(name, correction, normalized, labels, propensity, reduction_over_batch="none")
        clean = loss(torch.tensor(scores), index_of(labels))
        for value in (np.nan, np.inf):
            spoilt = scores.copy()
            spoilt[2, 5] = spoilt[7, labels.indices[labels.indptr[7]]] = value
            dirty = loss(torch.tensor(spoilt), index_of(labels))
            rest = np.setdiff1d(np.arange(11), [2, 7])
            assert torch.equal(dirty[rest], clean[rest])
            if np.isnan(value):
                assert dirty[[2, 7]].isnan().all()


def test_logits_that_are_none_are_refused():
    loss = MissingLabelLoss([0.5, 0.6, 0.7])
    for logits in (np.zeros((2, 3)), torch.zeros(3), torch.zeros(2, 3, dtype=torch.complex64),
                   torch.zeros(2, 3).to_sparse()):  # fmt: skip
        with pytest.raises(ValueError, match="logits must be a dense tensor of real numbers"):
            loss(logits, torch.zeros(2, 3))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("correction", ["unbiased", "bound"])
def test_a_compiled_graph_answers_nan_to_bad_label_numbers(correction):
    """It cannot stop to complain; the other rows are as ever."""
    torch.compiler.reset()
    loss = MissingLabelLoss(
        [0.5, 0.6, 0.7], correction=correction, normalized=True, reduction_over_batch="none"
    )
    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    logits = torch.tensor([[0.3, -1.0, 0.5]] * 4)
    index = torch.tensor([[0, 2], [1, 1], [3, 0], [-1, -5]])
    value = compiled(logits, index)
    assert value.isnan().tolist() == [False, True, True, False]
    torch.testing.assert_close(value[[0, 3]], loss(logits[[0, 3]], index[[0, 3]]))


def test_arrays_are_targets_as_tensors_are():
    for kind in ["bool", "uint16", "int32", "float64"]:
        dense = np.array([[1, 0, 0, 1], [0, 1, 0, 0]])
        loss = MissingLabelLoss([0.5, 0.6, 0.7, 0.8], correction="bound")
        logits = torch.arange(8.0).view(2, 4)
        expected = loss(logits, torch.tensor(dense))
        assert loss(logits, dense.astype(kind)) == expected
        assert loss(logits, np.array([[0, 3], [1, -1]])) == expected
        ids = np.array([0, 3, 1], dtype=np.int32)
        short = loss(logits[:, :3], dense, candidates=torch.tensor(ids))
        assert loss(logits[:, :3], dense.astype(kind), candidates=ids) == short


def test_the_jacobian_of_rows_is_the_gradient_of_each():
    for name in ["logistic", "softmax"]:
        loss = MissingLabelLoss(
            [0.5, 0.6, 0.7], loss=name, correction="bound", reduction_over_batch="none"
        )
        logits, targets = torch.tensor([[0.3, -1.0, 2.0], [1.0, 0.0, -0.5]]), [[0, 2], [1]]
        index = torch.tensor([[0, 2], [1, -1]])
        jacobian = torch.func.jacrev(lambda scores: loss(scores, index))(logits)  # noqa: B023
        leaf = logits.clone().requires_grad_()
        loss(leaf, targets).sum().backward()
        assert torch.equal(jacobian[0, 1], torch.zeros(3))
        assert torch.equal(jacobian[1, 0], torch.zeros(3))
        torch.testing.assert_close(torch.stack([jacobian[0, 0], jacobian[1, 1]]), leaf.grad)


def test_a_module_is_copied_and_sent_to_processes():
    """`multiprocessing.spawn` pickles it; the loss stays the library's own value."""
    loss = MissingLabelLoss([0.5, 0.6, 0.7], correction="bound", normalized=True)
    logits, targets = torch.tensor([[0.3, -1.0, 2.0]]), [[0, 2]]
    for other in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):  # noqa: S301
        assert other.loss is losses.logistic
        assert torch.equal(other.inverse_propensity, loss.inverse_propensity)
        assert other(logits, targets) == loss(logits, targets)
        other.half()
        assert other(logits, targets) == loss(logits, targets)
    own = dataclasses.replace(losses.hinge, name="mine")
    assert copy.deepcopy(own) == own


def test_combinations_are_refused_in_the_words_of_the_module():
    with pytest.raises(ValueError, match=r"leave out `MissingLabelLoss\(normalized=…\)`"):
        MissingLabelLoss([0.5], loss="pairwise_logistic", normalized=True)


def test_buffers_that_were_cast_by_others_get_their_precision_back():
    """As FSDP does, which puts tensors of its `buffer_dtype` in their place."""
    scores, labels, propensity = batch(13)
    loss = module("softmax", "unbiased", False, labels, propensity)
    expected = loss(torch.tensor(scores), index_of(labels))
    loss.inverse_propensity.data = loss.inverse_propensity.data.to(torch.bfloat16)
    assert loss(torch.tensor(scores), index_of(labels)) == expected
    assert loss.inverse_propensity.dtype is torch.float64


FORMS = {
    "dense": torch.tensor,
    "array": np.asarray,
    "single": lambda p: torch.tensor(p, dtype=torch.float32),
    "scipy csr": sp.csr_array,
    "scipy coo": sp.coo_matrix,
    "coo": lambda p: torch.tensor(p).to_sparse_coo(),
    "csr": lambda p: torch.tensor(p).to_sparse_csr(),
}


def test_propensities_by_row_and_label_equal_numpy():
    """For every combination, in every form, whole, of candidates, and in an output layer."""
    scores, labels, propensity = batch(7)
    rng = np.random.default_rng(3)
    own = rng.uniform(0.2, 1, labels.shape).astype(np.float32).astype(float)
    stored = labels * own
    every = torch.arange(labels.shape[1])
    for name, correction, normalized in COMBINATIONS:
        loss = module(name, correction, normalized, labels, propensity, reduction_over_batch="none")
        if correction == "empirical_bayes":
            w = weights.Weights(*[sp.csr_array(labels)] * 2)
            pos = losses.observed(w).pos / 1
            share = loss.share.numpy()[np.minimum((pos > 0).sum(1), len(loss.share) - 1)]
            scaled = sp.csr_array(labels.multiply(1 / own).multiply(share[:, None]))
            scaled.sort_indices()
            w = weights.Weights(scaled, scaled)
        else:
            w = numpy_weights(name, correction, normalized, labels, sp.csr_array(stored))
        expected = losses.total(name, scores, w)
        logits = torch.tensor(scores)
        lists = [row.nonzero()[0][::-1].tolist() for row in labels.toarray()]
        for kind, form in FORMS.items():
            sparse = kind in ("scipy csr", "scipy coo", "coo", "csr")
            given = form(stored.toarray() if sparse else own)
            for targets in (index_of(labels), lists):
                value = loss(logits, targets, propensity=given)
                np.testing.assert_allclose(value, expected, rtol=1e-10, err_msg=f"{name} {kind}")
        if loss.loss.keep is None and not loss.loss.per_label:
            short = loss(logits, lists, propensity=torch.tensor(own), candidates=every)
            np.testing.assert_allclose(short, expected, rtol=1e-10)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_propensities_by_row_and_label_in_a_graph_and_per_row():
    torch.compiler.reset()
    scores, labels, propensity = batch(7)
    own = torch.tensor(np.random.default_rng(3).uniform(0.2, 1, labels.shape))
    index, logits = index_of(labels), torch.tensor(scores)
    loss = MissingLabelLoss(propensity, correction="bound", reduction_over_batch="none")
    expected = loss(logits, index, propensity=own)
    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(logits, index, propensity=own), expected)
    wrong = own.clone()
    wrong[1, index[1, 0]] = 0
    marked = compiled(logits, index, propensity=wrong)
    assert marked.isnan().tolist() == [row == 1 for row in range(len(index))]

    def one(row, numbers, p):
        return loss(row[None], numbers[None], propensity=p[None])[0]

    torch.testing.assert_close(torch.func.vmap(one)(logits, index, own), expected)


def test_propensities_that_are_none_are_refused():
    loss, logits, targets = MissingLabelLoss([0.5] * 3), torch.zeros(2, 3), [[0], [2, 1]]
    good = np.full((2, 3), 0.5)
    low, nan = good.copy(), good.copy()
    low[1, 2], nan[0, 0] = 1e-45, np.nan
    entries = sp.csr_array(([0.5, 0.5, 1e-45], ([0, 1, 1], [0, 1, 2])), shape=(2, 3))
    for wrong, message in (
        (good[:1], r"must be rows × labels, \(2, 3\), dense or sparse; got torch.float64 in shape"),
        (good[0], r"must be rows × labels, \(2, 3\)"),
        ([0.5, 0.5, 0.5], "got list"),
        (low, r"must lie in \[1e-30, 1\]; got 1e-45 in row 1, label 2"),
        (nan, "got nan in row 0, label 0"),
        (entries, r"must lie in \[1e-30, 1\]; got 1e-45 in row 1, label 2"),
        (sp.csr_array(good), "must store exactly the entries that the labels store; got 6"),
        (torch.tensor(good).to_sparse_csc(), "propensities must be dense, or COO or CSR"),
    ):
        with pytest.raises(ValueError, match=message):
            loss(logits, targets, propensity=wrong)
    with pytest.raises(ValueError, match="weights are corrected already"):
        loss(logits, weights=weights.vanilla([[1, 0, 0]] * 2), propensity=good)
    with pytest.raises(ValueError, match=r"at least 1e-30; got 1\.4013e-45 at label 1\. Raise"):
        MissingLabelLoss(np.float32([0.5, 1e-45]))
    assert MissingLabelLoss([1e-30])(torch.full((1, 1), -80.0), [[0]]).isfinite()
