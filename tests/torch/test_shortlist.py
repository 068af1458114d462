"""Shortlists: exact over what is listed, unbiased over all labels by enumeration of all samples."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from unmask import losses, weights
from unmask.losses import LOSSES
from unmask.torch import MissingLabelLoss, samplers
from unmask.torch.samplers import Sample

pytestmark = [
    pytest.mark.filterwarnings("ignore::unmask.losses.UnboundedLossWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # torch's own, while tracing
]
L = 4
P = np.array([1.0, 0.5, 0.25, 0.8])
SETS = np.array(list(product([0, 1], repeat=L)))  # what can be observed
LISTS = [np.flatnonzero(row).tolist() for row in SETS]
SCORES = np.random.default_rng(0).normal(size=SETS.shape) * 2
COMBINATIONS = [
    (name, correction, normalized)
    for name, loss in LOSSES.items()
    if loss.slope is not None
    for correction in weights.CORRECTIONS
    for normalized in (False, True)
    if (normalized or correction != "empirical_bayes")
    and not (normalized and loss.reduction == "pairwise")
]
SUMS = [each for each in COMBINATIONS if LOSSES[each[0]].reduction != "pal"]
Draws = list[tuple[float, Sample]]


def module(name: str, correction: str, normalized: bool, **options) -> MissingLabelLoss:
    options = {"reduction_over_batch": "none"} | options
    if correction == "empirical_bayes":
        options["labels"] = sp.csr_array(SETS)
    return MissingLabelLoss(P, loss=name, correction=correction, normalized=normalized, **options)


def without_replacement() -> Draws:
    """All pairs of labels, as `samplers.uniform` draws them."""
    half = torch.full((2,), 0.5)
    pairs = list(combinations(range(L), 2))
    return [(1 / len(pairs), Sample(torch.tensor(pair), half)) for pair in pairs]


def with_replacement() -> Draws:
    """All sequences of three draws, with replacement."""
    chance = [math.log((j + 2) / (j + 1)) / math.log(L + 1) for j in range(L)]
    return [
        (
            math.prod(chance[j] for j in draws),
            Sample(
                torch.tensor(draws),
                3 * torch.tensor([chance[j] for j in draws], dtype=torch.float64),
            ),
        )
        for draws in product(range(L), repeat=3)
    ]


def independent() -> Draws:
    """Every label by a coin of its own; the list is shorter or longer, filled up with −1."""
    q = torch.tensor([0.9, 0.2, 0.5, 0.7], dtype=torch.float64)
    return [
        (
            float(torch.where(drawn, q, 1 - q).prod()),
            Sample(torch.arange(L).where(drawn, -1), q),
        )
        for drawn in torch.tensor(SETS, dtype=torch.bool)
    ]


DRAWS = {each.__name__: each() for each in (without_replacement, with_replacement, independent)}


def sampled(
    loss: MissingLabelLoss, sample: Sample, scores: torch.Tensor, rows=LISTS
) -> torch.Tensor:
    own = samplers.with_observed(sample, rows, L, per_row=True)
    logits = scores.gather(1, own.ids.clamp(min=0))
    return loss(logits, rows, candidates=own.ids, sampling=own.expected)


def average(loss: MissingLabelLoss, draws: Draws) -> tuple[torch.Tensor, torch.Tensor]:
    """Expected loss of every row, and expected gradient by the scores of all labels."""
    scores = torch.tensor(SCORES, requires_grad=True)
    mean = sum(chance * sampled(loss, sample, scores) for chance, sample in draws)
    mean.sum().backward()
    return mean.detach(), scores.grad


def close(actual, expected) -> None:
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-9)


def test_loss_and_gradient_are_unbiased_over_all_samples():
    for name, correction, normalized in SUMS:
        for draws in DRAWS:
            loss = module(name, correction, normalized)
            full = torch.tensor(SCORES, requires_grad=True)
            expected = loss(full, LISTS)
            expected.sum().backward()
            value, gradient = average(loss, DRAWS[draws])
            close(value, expected.detach())
            close(gradient, full.grad)


@pytest.mark.parametrize("name", [n for n in LOSSES if LOSSES[n].slope and n != "softmax"])
@pytest.mark.parametrize("normalized", [False, True])
def test_masks_and_samples_together_average_to_the_loss_of_the_true_labels(name, normalized):
    """All masks × all samples: the corrected, sampled loss estimates that of complete labels."""
    if normalized and LOSSES[name].reduction == "pairwise":
        pytest.skip("pairwise losses have no normalised form")
    loss = module(name, "unbiased", normalized)
    reduction = LOSSES[name].reduction
    for true in SETS[[15, 11, 6, 1]]:
        chance = np.prod(np.where(SETS, P, np.where(true, 1 - P, 1.0)), axis=1)
        chance *= (true >= SETS).all(axis=1)  # nothing is spurious
        assert chance.sum() == pytest.approx(1)
        scores = torch.tensor(np.tile(SCORES[3], (len(SETS), 1)), requires_grad=True)
        rows = sum(odds * sampled(loss, sample, scores) for odds, sample in DRAWS["independent"])
        value = (torch.tensor(chance) * rows).sum()
        value.backward()
        complete = weights.vanilla([true], normalized=normalized, reduction=reduction)
        close(value.item(), losses.total(name, SCORES[3:4], complete)[0])
        close(scores.grad.sum(0), losses.gradient(name, SCORES[3:4], complete)[0])


def test_the_sum_within_the_softmax_is_unbiased_and_its_loss_low():
    for correction in ["vanilla", "unbiased", "bound"]:
        for draws in DRAWS:
            loss = module("softmax", correction, False)
            scores = torch.tensor(SCORES)
            inverse = 1 / P if correction != "vanilla" else np.ones(L)
            total = torch.tensor((SETS * inverse).sum(1))[1:]
            own = torch.tensor((SETS * inverse * SCORES).sum(1))[1:]
            full = loss(scores, LISTS)[1:]
            mean, partition = 0.0, 0.0
            for chance, sample in DRAWS[draws]:
                value = sampled(loss, sample, scores)[1:]
                mean = mean + chance * value
                partition = partition + chance * ((value + own) / total).exp()
            close(partition, scores[1:].exp().sum(1))
            assert (mean < full - 1e-3).any()
            assert (mean <= full + 1e-12).all()


def test_all_labels_as_candidates_are_the_full_loss():
    """In any order, with or without the certainty 1; a row of its own order for every row."""
    for name, correction, normalized in COMBINATIONS:
        loss = module(name, correction, normalized, reduction_over_batch="mean")
        generator = torch.Generator().manual_seed(3)
        orders = torch.stack([torch.randperm(L, generator=generator) for _ in SETS])
        for ids in (orders[0], orders):
            full, short = (torch.tensor(SCORES, requires_grad=True) for _ in range(2))
            expected = loss(full, LISTS)
            expected.backward()
            for sampling in (None, 1.0, torch.ones(L)):
                short.grad = None
                logits = short.gather(1, ids.expand(orders.shape))
                value = loss(logits, LISTS, candidates=ids, sampling=sampling)
                value.backward()
                close(value.detach(), expected.detach())
                close(short.grad, full.grad)


def test_without_sampling_it_is_the_loss_of_the_labels_listed():
    """Weights are those of all observed labels; labels outside the list take no part."""
    for name, correction, normalized in COMBINATIONS:
        loss = module(name, correction, normalized)
        options = {"tau": 0.5} if correction == "tempered" else {}
        reduction = LOSSES[name].reduction
        w = weights.CORRECTIONS[correction](
            sp.csr_array(SETS), P, normalized=normalized, reduction=reduction, **options
        )
        ids = [2, 0, 3]
        inside = weights.Weights(w.pos[:, ids], w.cut[:, ids])
        logits = torch.tensor(SCORES[:, ids], requires_grad=True)
        value = loss(logits, LISTS, candidates=torch.tensor(ids))
        value.sum().backward()
        close(value.detach(), losses.total(name, SCORES[:, ids], inside))
        close(logits.grad, losses.gradient(name, SCORES[:, ids], inside))
        again = loss(logits, weights=w, candidates=torch.tensor(ids))
        close(again.detach(), value.detach())


def test_empty_places_add_nothing_whatever_their_logits():
    for name in ["logistic", "softmax", "pairwise_hinge"]:
        loss = module(name, "bound", False)
        ids = torch.tensor([[2, -1, 0, -5]]).repeat(len(SETS), 1)
        logits = torch.tensor(SCORES)
        expected = loss(logits[:, [0, 2]], LISTS, candidates=torch.tensor([2, 0]))
        for value in (0.0, -torch.inf, torch.nan):
            logits[:, [1, 3]] = value
            leaf = logits.clone().requires_grad_()
            actual = loss(leaf, LISTS, candidates=ids)
            actual.sum().backward()
            close(actual.detach(), expected)
            assert (leaf.grad[:, [1, 3]] == 0).all()


def test_shared_candidates_with_the_labels_of_the_batch_are_unbiased():
    """Given the labels of the batch: those of other rows are there with certainty."""
    rows, scores = [[0, 2], [2], []], torch.tensor(SCORES[:3])
    loss = module("squared_error", "unbiased", True)
    for draws in DRAWS.values():
        mean = 0.0
        for chance, sample in draws:
            ids, q = samplers.with_observed(sample, rows, L)
            assert set(ids.tolist()) >= {0, 2}
            logits = scores[:, ids.clamp(min=0)]
            mean = mean + chance * loss(logits, rows, candidates=ids, sampling=q)
        close(mean, loss(scores, rows))


def test_sampling_is_by_candidate_or_by_label():
    loss, scores = module("logistic", "vanilla", False), torch.tensor(SCORES)
    q = torch.tensor([0.9, 0.2, 0.5, 0.7], dtype=torch.float64)
    for ids in (torch.tensor([3, 1]), torch.tensor([[3, 1]]).repeat(len(SETS), 1)):
        logits, none = scores[:, [3, 1]], [[]] * len(SETS)
        by_label = loss(logits, none, candidates=ids, sampling=q)
        by_candidate = loss(logits, none, candidates=ids, sampling=q[ids])
        close(by_label, by_candidate)
        softplus = np.logaddexp(0, SCORES)
        close(by_label, softplus[:, 3] / 0.7 + softplus[:, 1] / 0.2)
    order = torch.tensor([3, 2, 1, 0])
    value = loss(scores[:, order], [[]] * len(SETS), candidates=order, sampling=q)
    close(value, (np.logaddexp(0, SCORES[:, ::-1]) / q.numpy()).sum(1))


# --- samplers -------------------------------------------------------------------------------------


def test_uniform_draws_sets_of_the_same_probability():
    generator = torch.Generator().manual_seed(0)
    for n_labels, size in ((40, 3), (5, 3), (3_000_000, 1000)):
        ids, q = samplers.uniform(n_labels, size, generator=generator)
        assert len(ids.unique()) == len(ids) == size
        assert 0 <= ids.min() <= ids.max() < n_labels
        assert (q == size / n_labels).all()
    drawn = torch.cat([samplers.uniform(40, 3, generator=generator).ids for _ in range(4000)])
    counts = torch.bincount(drawn, minlength=40)
    assert (counts - 300).abs().max() < 5 * math.sqrt(300)


def test_draws_by_frequency_invert_their_distribution(monkeypatch):
    grid = (torch.arange(10_000, dtype=torch.float64) + 0.5) / 10_000
    monkeypatch.setattr(torch, "rand", lambda *_, **__: grid)
    sampler = samplers.ByFrequency([81, 0, 16, 1], alpha=0.25)
    ids, expected = sampler.draw(10_000)
    chance = torch.tensor([3.0, 0.0, 2.0, 1.0]).double() / 6
    assert (torch.bincount(ids, minlength=4) - 10_000 * chance).abs().max() <= 1
    close(expected, 10_000 * chance[ids])
    assert torch.bincount(samplers.ByFrequency([5, 0, 1], alpha=0).draw(10_000).ids)[1] == 0


def test_samples_that_cannot_be_drawn():
    for call, message in [
        (lambda: samplers.uniform(3, 4), "4 distinct labels of 3"),
        (lambda: samplers.uniform(3, 0), "size"),
        (lambda: samplers.ByFrequency([0, 0]), "not all 0"),
        (lambda: samplers.ByFrequency([1, -1]), "0 or more"),
        (lambda: samplers.ByFrequency([1, np.nan]), "finite"),
        (lambda: samplers.ByFrequency([1], alpha=2), "alpha"),
        (
            lambda: samplers.with_observed(Sample(torch.zeros(1, 2), torch.ones(1, 2)), [[0]], 3),
            "shape",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            call()


# --- the door, memory, transforms -----------------------------------------------------------------

REFUSED = {
    "no label": ({"candidates": torch.tensor([0, 1, 9])}, "names? label 9"),
    "shape": ({"candidates": torch.tensor([0, 1])}, r"candidates of shape \(2,\) for logits"),
    "floats": ({"candidates": torch.tensor([0.0, 1.0, 2.0])}, "label numbers; got torch.float32"),
    "list": ({"candidates": [0, 1, 2]}, "label numbers; got list"),
    "zero": ({"sampling": [1.0, 0.5, 0.0, 1.0]}, "candidate 2 has 0"),
    "nan": ({"sampling": torch.tensor([1.0, torch.nan, 1.0])}, "candidate 1 has nan"),
    "sampling shape": ({"sampling": [0.5, 0.5]}, r"sampling of shape \(2,\)"),
    "words": ({"sampling": "half"}, "cannot be read as numbers"),
    "outside": ({"targets": [[0], [1, 3]], "sampling": 0.5}, "row 1: its observed label 3 is not"),
    "alone": ({"candidates": None, "logits": torch.zeros(2, L), "sampling": 0.5}, "candidates="),
    "columns": ({"candidates": None}, r"or say which labels the columns are: candidates="),
}


def test_shortlists_that_are_none_are_refused():
    for name in REFUSED:
        changed, message = REFUSED[name]
        call = {
            "logits": torch.zeros(2, 3),
            "targets": [[0], [1]],
            "candidates": torch.arange(3),
        } | changed
        with pytest.raises(ValueError, match=message):
            MissingLabelLoss(P)(call.pop("logits"), call.pop("targets"), **call)


def test_losses_that_must_see_all_labels_refuse_a_shortlist():
    loss = MissingLabelLoss(
        P, loss=replace(LOSSES["logistic"], keep=lambda s, _: s > 0), correction="vanilla"
    )
    with pytest.raises(ValueError, match="must see all labels"):
        loss(torch.zeros(2, 3), [[0], [1]], candidates=torch.arange(3))


class Largest(TorchDispatchMode):
    """The number of entries of the largest tensor that is made."""

    entries = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for each in tree_iter(out):
            if isinstance(each, torch.Tensor):
                self.entries = max(self.entries, each.untyped_storage().nbytes() // 8)
        return out


@pytest.mark.parametrize("per_row", [False, True])
def test_three_million_labels_never_meet_all_rows(per_row):
    n, n_labels = 64, 3_000_000
    loss = MissingLabelLoss(np.linspace(0.1, 1, n_labels), correction="unbiased", normalized=True)
    generator = torch.Generator().manual_seed(0)
    targets = torch.randint(n_labels, (n, 5), generator=generator)
    sample = samplers.uniform(n_labels, 1000, generator=generator)
    ids, q = samplers.with_observed(sample, targets, n_labels, per_row=per_row)
    logits = torch.zeros(n, ids.shape[-1], requires_grad=True)
    with Largest() as largest:
        loss(logits, targets, candidates=ids, sampling=q).backward()
    assert largest.entries <= n_labels + 1  # the propensities themselves
    assert logits.grad.isfinite().all()


def awkward() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Shared and per row, with repeated candidates, some of them observed, and empty places."""
    shared = torch.tensor([1, 3, 1, 0, -1, 2, 3])
    index = torch.tensor([[0, 1], [3, -1], [-1, -1]])
    yield shared, index
    yield torch.stack([shared, shared.flip(0), shared.roll(2)]), index


@pytest.mark.parametrize(
    ("name", "sampling"),
    [
        ("logistic", 0.4),
        pytest.param("softmax", None, marks=pytest.mark.slow),
        pytest.param("pairwise_logistic", 0.4, marks=pytest.mark.slow),
    ],
)
def test_compiled_in_one_graph(name, sampling):
    torch.compiler.reset()
    loss = MissingLabelLoss(P, loss=name, correction="bound")
    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    for ids, index in awkward():
        gradients, values = [], []
        for function in (loss, compiled):
            logits = torch.tensor(SCORES[:3, [0, 1, 2, 3, 0, 1, 2]]).requires_grad_()
            value = function(logits, index, candidates=ids, sampling=sampling)
            value.backward()
            values.append(value.detach())
            gradients.append(logits.grad)
        torch.testing.assert_close(*values)
        torch.testing.assert_close(*gradients)


def test_a_compiled_graph_marks_rows_whose_labels_are_not_listed():
    torch.compiler.reset()
    loss = MissingLabelLoss(P, reduction_over_batch="none")
    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    index, ids = torch.tensor([[0], [2]]), torch.tensor([0, 1])
    value = compiled(torch.zeros(2, 2), index, candidates=ids, sampling=0.5)
    assert value.isnan().tolist() == [False, True]


@pytest.mark.parametrize("name", ["logistic", "softmax"])
@pytest.mark.parametrize("short", [False, True])
def test_gradients_per_row_by_vmap(name, short):
    loss = MissingLabelLoss(P, loss=name, correction="unbiased", reduction_over_batch="sum")
    index = torch.tensor([[0, 1], [3, -1], [-1, -1]])
    ids = torch.tensor([[0, 3, 1], [1, 2, 3], [0, 1, 2]]) if short else None
    scores = torch.tensor(SCORES[:3, :3] if short else SCORES[:3])

    def of_row(logits, labels, candidates):
        kept = None if candidates is None else candidates[None]
        return loss(logits[None], labels[None], candidates=kept)

    dims = (0, 0, 0 if short else None)
    by_row = torch.func.vmap(torch.func.grad(of_row), in_dims=dims)(scores, index, ids)
    leaf = scores.clone().requires_grad_()
    loss(leaf, index, candidates=ids).backward()
    torch.testing.assert_close(by_row, leaf.grad)


def test_probabilities_of_sampling_are_asked_of_candidates_alone() -> None:
    """Where a row has no candidate its number may be 0; of the others the wrong one is named."""
    loss = MissingLabelLoss(P, correction="bound")
    logits = torch.zeros(1, 3)
    ids = torch.tensor([[0, 2, -1]])
    whole = loss(logits, [[0]], candidates=ids, sampling=torch.tensor([[0.5, 0.25, 1.0]]))
    padded = loss(logits, [[0]], candidates=ids, sampling=torch.tensor([[0.5, 0.25, 0.0]]))
    assert padded == whole
    for wrong, said in ((0.0, "0"), (-1.0, "-1"), (torch.inf, "inf")):
        with pytest.raises(ValueError, match=f"candidate 2 has {said}"):
            loss(logits, [[0]], candidates=ids, sampling=torch.tensor([[0.5, wrong, 1.0]]))
        with pytest.raises(ValueError, match=f"candidate 0 has {said}"):
            loss(logits, [[0]], candidates=ids, sampling=torch.tensor([[wrong, 0.5, 1.0]]))


def test_few_labels_are_drawn_without_a_permutation_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter of them still is: a permutation of a million labels costs more than the draw."""
    made = []
    permutation = torch.randperm
    monkeypatch.setattr(torch, "randperm", lambda n, **more: made.append(n) or permutation(n))
    assert len(set(samplers.uniform(8, 2).ids.tolist())) == 2
    assert not made
    assert len(set(samplers.uniform(7, 2).ids.tolist())) == 2
    assert made == [7]


@pytest.mark.parametrize("name", ["logistic", "softmax"])
def test_an_observed_label_is_among_sampled_candidates(name):
    """A label that could not be drawn is in no sample; without a sample it is just left out."""
    loss = module(name, "bound", False)
    ids, logits = torch.tensor([2, 0]), torch.tensor(SCORES)[:, [2, 0]]
    assert loss(logits, LISTS, candidates=ids).isfinite().all()
    with pytest.raises(ValueError, match="is not among the candidates"):
        loss(logits, LISTS, candidates=ids, sampling=torch.tensor([0.5, 0.5]))
