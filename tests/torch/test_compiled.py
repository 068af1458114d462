"""The compiled logistic loss equals the loss of `unmask.losses`, value and gradient."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from unmask import losses, weights
from unmask._kernels import batches
from unmask.torch import MissingLabelLoss, module, targets
from unmask.weights.formulas import Rectangle

pytestmark = [
    pytest.mark.filterwarnings("ignore::unmask.losses.UnboundedLossWarning"),
    pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta"),
    pytest.mark.filterwarnings("ignore:Sparse invariant checks are implicitly disabled"),
]


def batch(n_labels: int, scale: float = 3.0):
    rng = np.random.default_rng(n_labels)
    dense = (rng.random((9, n_labels)) < 0.3) * (np.arange(9) > 0)[:, None]
    scores = (rng.normal(size=dense.shape) * scale).astype(np.float32)
    return scores, sp.csr_array(dense.astype(float)), rng.uniform(0.2, 1, n_labels)


def test_single_precision_equals_the_losses_in_double():
    """Rows of fewer labels than a register, of whole registers, and of a rest; long sums."""
    for over in ["mean", "sum", "none"]:
        for correction in ["unbiased", "bound"]:
            for n_labels in [1, 7, 8, 9, 16, 100, 519, 1100]:
                scores, labels, p = batch(n_labels)
                loss = MissingLabelLoss(p, correction=correction, reduction_over_batch=over)
                logits = torch.tensor(scores, requires_grad=True)
                value = loss(logits, labels)
                assert value.grad_fn.name().startswith("_CompiledLogistic")
                w = weights.CORRECTIONS[correction](labels, p)
                rows = losses.total("logistic", scores, w)
                expected = {"mean": rows.mean(), "sum": rows.sum(), "none": rows}[over]
                assert value.dtype is torch.float32
                np.testing.assert_allclose(value.detach(), expected, rtol=2e-6, atol=2e-5)
                by_row = (
                    np.arange(1.0, 10)
                    if over == "none"
                    else np.full(9, 1 / 9 if over == "mean" else 1)
                )
                (value * torch.tensor(by_row if over == "none" else 1.0)).sum().backward()
                gradient = losses.gradient("logistic", scores, w) * by_row[:, None]
                largest = np.abs(gradient).max()  # terms of that size are added in float32
                np.testing.assert_allclose(logits.grad, gradient, rtol=0, atol=4e-7 * largest)


def test_a_shortlist_in_single_precision_equals_that_in_double():
    """With repeated candidates, some of them observed, and empty places that hold NaN."""
    for over in ["mean", "none"]:
        for sampling in [False, True]:
            for per_row in [False, True]:
                for c in [1, 7, 8, 21, 600]:
                    _, labels, p = batch(30)
                    rng = np.random.default_rng(c)
                    loss = MissingLabelLoss(p, correction="bound", reduction_over_batch=over)
                    lists = [row.nonzero()[0].tolist() for row in labels.toarray()]
                    union = labels.indices if sampling else []
                    drawn = [
                        np.r_[rng.integers(-1, 30, c), union, union[:3]].astype(int) for _ in lists
                    ]
                    ids = torch.tensor(np.array(drawn if per_row else drawn[0]))
                    q = torch.tensor(rng.uniform(0.1, 2, ids.shape)) if sampling else None
                    scores = torch.tensor(rng.normal(size=(9, ids.shape[-1])) * 3)
                    scores = torch.where(ids < 0, torch.nan, scores)
                    both = []
                    for dtype in (torch.float32, torch.float64):
                        logits = scores.to(dtype).requires_grad_()
                        value = loss(logits, lists, candidates=ids, sampling=q)
                        assert ("Compiled" in value.grad_fn.name()) == (dtype is torch.float32)
                        (value * torch.arange(1, 1 + value.numel()).view_as(value)).sum().backward()
                        both.append((value.detach().double(), logits.grad.double()))
                    (value, gradient), (expected, exact) = both
                    torch.testing.assert_close(value, expected, rtol=2e-6, atol=1e-4)
                    torch.testing.assert_close(
                        gradient, exact, rtol=0, atol=1e-6 * (1 + exact.abs().max().item())
                    )


def test_other_logits_take_the_general_way():
    scores, labels, p = batch(9)
    loss = MissingLabelLoss(p)
    for logits in (torch.tensor(scores).double(), torch.zeros(9, 9)):
        name = loss(logits.requires_grad_(), labels).grad_fn.name()
        assert name.startswith("_CompiledLogistic") == (logits.dtype is torch.float32)
    softmax = MissingLabelLoss(p, loss="softmax")
    name = softmax(torch.zeros(9, 9).requires_grad_(), labels).grad_fn.name()
    assert name.startswith("_BatchLoss")


@pytest.mark.parametrize("candidates", [None, "shared", "per row"])
@pytest.mark.parametrize("chunk", [1, 40, 300])
def test_many_logits_are_taken_some_rows_at_a_time(monkeypatch, candidates, chunk):
    """To the bit as all at once, also on several threads and in chunks of less than a row."""
    scores, labels, p = batch(20)
    loss = MissingLabelLoss(p, correction="bound", reduction_over_batch="none")
    ids = np.random.default_rng(0).permuted(np.tile(np.arange(20), (9, 1)), axis=1)
    options = {
        None: {},
        "shared": {"candidates": torch.tensor(ids[0])},
        "per row": {"candidates": torch.tensor(ids), "sampling": torch.tensor(0.5)},
    }[candidates]

    def both() -> tuple[torch.Tensor, torch.Tensor]:
        logits = torch.tensor(scores, requires_grad=True)
        values = loss(logits, labels, **options)
        values.sum().backward()
        return values.detach(), logits.grad

    at_once = both()
    monkeypatch.setattr(module, "_CHUNK", chunk)
    before = torch.get_num_threads()
    for threads in (1, 3):
        torch.set_num_threads(threads)
        try:
            in_parts = both()
        finally:
            torch.set_num_threads(before)
        assert all(torch.equal(*pair) for pair in zip(at_once, in_parts, strict=True))


def test_logits_that_are_not_in_order_and_half_precision():
    scores, labels, p = batch(20)
    loss = MissingLabelLoss(p, correction="bound")
    expected = loss(torch.tensor(scores).double(), labels).float()
    turned = torch.tensor(scores.T.copy()).T.requires_grad_()
    value = loss(turned, labels)
    torch.testing.assert_close(value, expected)
    value.backward()
    straight = torch.tensor(scores, requires_grad=True)
    loss(straight, labels).backward()
    assert torch.equal(turned.grad, straight.grad)
    half = torch.tensor(scores).bfloat16().requires_grad_()
    loss(half, labels).backward()
    assert half.grad.dtype is torch.bfloat16


def test_backward_may_be_taken_twice():
    scores, labels, p = batch(20)
    logits = torch.tensor(scores, requires_grad=True)
    value = MissingLabelLoss(p)(logits, labels)
    value.backward(retain_graph=True)
    once = logits.grad.clone()
    value.backward()
    assert torch.equal(logits.grad, 2 * once)


def test_extreme_logits():
    """Far out both ways, at −inf (the limit) and at NaN, observed and not."""
    loss = MissingLabelLoss([0.5] * 10, correction="bound", reduction_over_batch="none")
    logits = torch.zeros(5, 10)
    logits[0, 0], logits[0, 9] = 1e4, -1e4
    logits[1, 3] = -torch.inf
    logits[2, 9] = torch.nan
    logits[3, 0] = torch.inf
    logits.requires_grad_()
    loss(logits, [[0, 9], [1], [], [], [4]])[[0, 1, 4]].sum().backward()
    value = loss(logits, [[0, 9], [1], [], [], [4]]).detach()
    log2 = np.log(2)
    assert value[0] == pytest.approx(3 * 1e4 + 8 * log2, rel=1e-6)
    assert value[1] == pytest.approx(8 * log2 + 3 * log2, rel=1e-6)
    assert value[2].isnan()
    assert value[3] == torch.inf
    assert value[4] == pytest.approx(9 * log2 + 3 * log2, rel=1e-6)
    expected = [0.0, *[0.5] * 8, -3.0]
    np.testing.assert_allclose(logits.grad[0], expected, atol=1e-6)
    assert 0 <= logits.grad[1, 3] < 1e-37


def test_compiled_sums_equal_those_of_the_formulas():
    rng = np.random.default_rng(0)
    for n, m in ((6, 0), (0, 3), (6, 1), (6, 5), (4, 40)):
        inverse = rng.uniform(1, 4, (n, m)) * (rng.random((n, m)) < 0.7)
        plain = Rectangle(inverse)
        np.testing.assert_array_equal(batches.row_counts(inverse), plain.counts())
        np.testing.assert_allclose(batches.one_plus_others(inverse), plain.one_plus_others())
        rule = plain.rule(max(1, (m + 1) // 2))
        np.testing.assert_allclose(
            batches.shares(inverse, *rule), plain.shares(), rtol=1e-10, atol=1e-9
        )


def test_label_numbers_are_checked_row_by_row():
    for index, row in (
        ([[0, 1], [2, -1]], -1),
        ([[-1, -1], [-1, -1]], -1),
        ([[0, 1], [2, 2]], 1),
        ([[0, 3], [2, 2]], 0),
        ([[1, 1], [0, 3]], 0),
    ):
        assert batches.first_invalid_row(np.array(index), 3) == row
    long = np.stack([np.random.default_rng(i).permutation(50)[:40] for i in range(3)])
    assert batches.first_invalid_row(long, 50) == -1
    assert batches.first_invalid_row(long, int(long[0].max())) == 0
    long[2, 39] = long[2, 0]
    assert batches.first_invalid_row(long, 50) == 2
    long[:2] = -1
    assert batches.first_invalid_row(long, 50) == 2


def test_valid_label_numbers_are_read_once(monkeypatch):
    """By the compiled loop; only where it finds something does torch say what."""
    monkeypatch.setattr(targets, "invalid_rows", None)
    index = torch.tensor([[0, 2], [1, -1]])
    assert targets._checked_numbers(index, 3) is index
    with pytest.raises(TypeError):
        targets._checked_numbers(index, 2)


def test_rows_of_a_sparse_matrix():
    for starts, columns, width in [
        ([0, 2, 2, 3], [0, 4, 1], 2),
        ([0], [], 0),
        ([0, 2, 3], [4, 0, 1], -1),
        ([0, 2, 3], [1, 1, 1], -1),
        ([0, 2, 3], [1, 5, 1], -1),
        ([0, 2, 3], [-1, 2, 1], -1),
        ([0, 2, 1, 3], [0, 1, 2], -1),
        ([0, 9, 3], [0, 1, 2], -1),
        ([1, 2, 3], [0, 1, 2], -1),
        ([0, 2, 4], [0, 1, 2], -1),
    ]:
        starts, columns = np.array(starts), np.array(columns, dtype=np.int64)
        assert batches.widest(starts, columns, 5) == width
        if width == 2:
            out = np.empty((3, 2), dtype=np.int64)
            batches.unpack(starts, columns, out)
            assert out.tolist() == [[0, 4], [-1, -1], [1, -1]]


def _in_every_layout(dense: torch.Tensor) -> dict[str, torch.Tensor]:
    backwards = dense.to_sparse_coo().coalesce()
    order = torch.arange(backwards._nnz() - 1, -1, -1)
    return {
        "dense": dense,
        "boolean": dense.bool(),
        "columns first": dense.T.contiguous().T,
        "csr": dense.to_sparse_csr(),
        "coo": dense.to_sparse_coo().coalesce(),
        "coo, backwards": torch.sparse_coo_tensor(
            backwards.indices()[:, order], backwards.values()[order], dense.shape
        ),
    }


@pytest.mark.parametrize("rows", [[[0, 3], [], [1, 2, 4]], [[1, 4], [0, 2]], [[], []], []])
def test_the_quick_way_to_label_numbers_is_the_careful_one(rows):
    dense = torch.zeros(len(rows), 5)
    for number, labels in enumerate(rows):
        dense[number, labels] = 1.0
    width = max(map(len, rows), default=0)
    filled = [labels + [-1] * (width - len(labels)) for labels in rows]
    for name, layout in _in_every_layout(dense).items():
        quick = targets._of_usual(layout)
        assert quick is not None or name in ("columns first", "coo, backwards")
        assert quick is None or quick.tolist() == filled, name
        assert targets._observed_index(layout).tolist() == filled, name
        assert targets.label_index(layout, (len(rows), 5)).tolist() == filled, name


def test_the_quick_way_leaves_what_is_unusual_to_the_careful_one():
    index = torch.tensor([[0, 1, 1], [2, 0, 3]])
    for unusual in (
        torch.tensor([[0.0, 2.0], [1.0, 0.0]]),
        torch.tensor([[0.0, torch.nan], [1.0, 0.0]]),
        torch.ones(2, 2, dtype=torch.bfloat16),
        torch.complex(torch.ones(2, 2), torch.ones(2, 2)).conj().imag,
        torch.sparse_coo_tensor(index, torch.tensor([1.0, 0.0, 1.0]), (2, 4)).coalesce(),
        torch.sparse_coo_tensor(index[:, [0, 1, 1]], torch.ones(3), (2, 4)),
        torch.sparse_coo_tensor(index, torch.ones(3, 2), (2, 4, 2)).coalesce(),
    ):
        assert targets._of_usual(unusual) is None
