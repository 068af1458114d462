"""The chunked output layer is the loss of its logits, in value and gradients, without them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from unmask import weights
from unmask.losses import LOSSES
from unmask.torch import CorrectedOutput, MissingLabelLoss, samplers

pytestmark = pytest.mark.filterwarnings("ignore::unmask.losses.UnboundedLossWarning")
N, D, L = 7, 5, 23
RNG = np.random.default_rng(0)
LABELS = (RNG.random((N, L)) < 0.2).astype(float) * (np.arange(N) > 0)[:, None]
LISTS = [np.flatnonzero(row).tolist() for row in LABELS]
P = RNG.uniform(0.2, 1, L)
COMBINATIONS = [
    (name, correction, normalized)
    for name, loss in LOSSES.items()
    if loss.slope is not None and loss.reduction != "pairwise"
    for correction in weights.CORRECTIONS
    for normalized in (False, True)
    if normalized or correction != "empirical_bayes"
]


def layer(name="logistic", correction="bound", normalized=False, over="mean", **options):
    labels = sp.csr_array(LABELS) if correction == "empirical_bayes" else None
    loss = MissingLabelLoss(
        P, loss=name, correction=correction, normalized=normalized, labels=labels,
        reduction_over_batch=over,
    )  # fmt: skip
    torch.manual_seed(1)
    made = CorrectedOutput(D, loss, **options)
    if made.bias is not None:
        torch.nn.init.normal_(made.bias)
    return made


def hidden(dtype=torch.float64) -> torch.Tensor:
    return torch.tensor(np.random.default_rng(5).normal(size=(N, D)), dtype=dtype)


def both_ways(made: CorrectedOutput, inputs: torch.Tensor) -> list[list[torch.Tensor]]:
    """Value, gradient of inputs, weight and bias: by chunks, and by all logits at once."""
    out = []
    for chunked in (True, False):
        leaf = inputs.clone().requires_grad_()
        made.zero_grad()
        value = made(leaf, LISTS) if chunked else made.loss(made.logits(leaf), LISTS)
        (value * torch.arange(1, 1 + value.numel()).view_as(value)).sum().backward()
        out.append([value.detach(), leaf.grad, *(p.grad for p in made.parameters())])
    return out


def test_chunks_are_the_whole():
    for over in ["mean", "none"]:
        for name, correction, normalized in COMBINATIONS:
            for chunk, bias in ((4, True), (L, False), (1, True), (100, True)):
                made = layer(name, correction, normalized, over, chunk=chunk, bias=bias).double()
                for ours, whole in zip(*both_ways(made, hidden()), strict=True):
                    torch.testing.assert_close(ours, whole, rtol=1e-10, atol=1e-10)


def test_bfloat16_products_and_float32_sums():
    """As exact as logits of bfloat16 are; the loss itself, and sums over chunks, are float32."""
    for name in ["logistic", "softmax"]:
        made = layer(name, chunk=4).bfloat16()
        ours, whole = both_ways(made, hidden(torch.bfloat16))
        assert ours[0].dtype is torch.float32
        torch.testing.assert_close(ours[0], whole[0], rtol=1e-2, atol=0)
        for one, other in zip(ours[1:], whole[1:], strict=True):
            assert one.dtype is torch.bfloat16
            torch.testing.assert_close(one, other, rtol=5e-2, atol=2e-2)
        assert made.loss.inverse_propensity.dtype is torch.float64
        np.testing.assert_array_equal(made.loss.inverse_propensity[:-1], 1 / P)


def test_autocast_multiplies_in_bfloat16_and_keeps_parameters_in_single():
    made = layer(chunk=4)
    inputs = hidden(torch.float32)
    exact = made(inputs, LISTS)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = made(inputs, LISTS)
    rough.backward()
    assert rough.dtype is torch.float32
    assert made.weight.grad.dtype is torch.float32
    assert rough != exact
    torch.testing.assert_close(rough, exact, rtol=2e-2, atol=0)


def test_parts_that_need_no_gradient_get_none():
    made = layer(chunk=4)
    made.weight.requires_grad_(False)
    made(hidden(torch.float32), LISTS).backward()
    assert made.weight.grad is None
    assert made.bias.grad is not None


class Largest(TorchDispatchMode):
    """Bytes of the largest storage that is made."""

    size = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for each in tree_iter(out):
            if isinstance(each, torch.Tensor):
                self.size = max(self.size, each.untyped_storage().nbytes())
        return out


@pytest.mark.parametrize("name", ["logistic", "softmax"])
def test_nothing_is_as_large_as_all_logits(name):
    n, d, n_labels = 256, 8, 20_000
    made = CorrectedOutput(d, MissingLabelLoss(np.full(n_labels, 0.5), loss=name), chunk=500)
    inputs = torch.randn(n, d, requires_grad=True)
    targets = torch.randint(n_labels, (n, 3), generator=torch.Generator().manual_seed(0))
    with Largest() as largest:
        made(inputs, targets).backward()
    assert largest.size <= max(4 * n * 500, 4 * n_labels * d, 8 * (n_labels + 1))
    assert inputs.grad.isfinite().all()


def test_candidates_touch_their_rows_alone():
    for per_row in [False, True]:
        for sparse in [False, True]:
            made = layer("logistic", "unbiased", sparse=sparse)
            sample = samplers.uniform(L, 6, generator=torch.Generator().manual_seed(0))
            ids, q = samplers.with_observed(sample, LISTS, L, per_row=per_row)
            inputs = hidden(torch.float32)
            value = made(inputs, LISTS, candidates=ids, sampling=q)
            full = made.logits(inputs)
            short = full.gather(1, ids.clamp(min=0)) if per_row else full[:, ids]
            expected = made.loss(short, LISTS, candidates=ids, sampling=q)
            torch.testing.assert_close(value, expected)
            torch.testing.assert_close(
                torch.autograd.grad(value, made.weight, retain_graph=True)[0].to_dense(),
                torch.autograd.grad(expected, made.weight)[0],
            )
            value.backward()
            assert made.weight.grad.is_sparse == sparse
            if sparse:
                before = made.weight.detach().clone()
                torch.optim.SparseAdam([made.weight, made.bias], lr=0.1).step()
                moved = (made.weight != before).any(1).nonzero()[:, 0]
                assert set(moved.tolist()) <= set(ids.clamp(min=0).flatten().tolist())
                assert len(moved)


def test_the_best_labels_are_those_of_all_logits():
    made = layer(chunk=4)
    made.weight.data.round_()
    made.bias.data.zero_()
    inputs = hidden(torch.float32).round()  # with ties
    logits = made.logits(inputs)
    expected = logits.sort(dim=1, descending=True, stable=True)
    for k in (1, 6, 40):
        scores, labels = made.top(inputs, k)
        assert torch.equal(labels, expected.indices[:, :k])
        assert torch.equal(scores, expected.values[:, :k])


def test_doors():
    with pytest.raises(ValueError, match="pairwise_hinge must see all labels"):
        layer("pairwise_hinge")
    rejection = MissingLabelLoss(
        P, loss=replace(LOSSES["logistic"], keep=lambda s, _: s > 0), correction="vanilla"
    )
    with pytest.raises(ValueError, match="must see all labels"):
        CorrectedOutput(D, rejection)
    for options in ({"chunk": 0}, {"chunk": 2.5}):
        with pytest.raises(ValueError, match="chunk"):
            layer(**options)
    made = layer()
    with pytest.raises(ValueError, match=r"shape \(n, 5\); got \(7, 4\)"):
        made(torch.zeros(7, 4), LISTS)
    with pytest.raises(ValueError, match="labels of 7 rows for 6"):
        made(torch.zeros(6, D), LISTS)
    with pytest.raises(ValueError, match="pass candidates="):
        made(torch.zeros(7, D), LISTS, sampling=0.5)


def test_candidates_that_are_no_labels_are_refused_before_they_are_looked_up():
    """On a GPU an index beyond the weights ends the process."""
    for wrong in [
        torch.tensor([0, 99]),
        torch.tensor([0.0, 1.7]),
        [[0, 1]] * 3,
        torch.tensor(3),
        torch.zeros(3, 2, dtype=torch.long),
    ]:
        made, hidden = layer(), torch.zeros(7, D)
        with pytest.raises(ValueError, match="candidates"):
            made.logits(hidden, wrong)
        with pytest.raises(ValueError, match="candidates"):
            made(hidden, LISTS, candidates=wrong)
        assert made.logits(hidden, torch.tensor([0, -1])).shape == (7, 2)


def test_hidden_states_have_the_width_of_the_layer():
    for wrong in [
        torch.zeros(N, D + 1),
        torch.zeros(N),
        torch.zeros(N, D, dtype=torch.int64),
        np.zeros((N, D)),
    ]:
        made = layer()
        for use in (
            made.logits,
            lambda inputs: made(inputs, LISTS),  # noqa: B023
            lambda inputs: made.top(inputs, 2),  # noqa: B023
        ):
            with pytest.raises(ValueError, match=rf"floats of shape \(n, {D}\)"):
                use(wrong)
        with pytest.raises(ValueError, match=rf"floats of shape \(n, {D}\)"):
            made.logits(wrong, candidates=torch.tensor([0, 1]))
