"""Gradients of gradients, for penalties on the gradient and curvature methods."""

from __future__ import annotations

import pytest
import torch

from tests.torch.test_loss import COMBINATIONS, batch, index_of, module
from unmask.torch import MissingLabelLoss

pytestmark = pytest.mark.filterwarnings("ignore::unmask.losses.UnboundedLossWarning")


def test_every_loss_can_be_differentiated_twice():
    scores, labels, propensity = batch(5, n=2, n_labels=4)
    ids = torch.tensor([2, 0, 3, 1, 0])
    lists, q = index_of(labels), torch.tensor([0.3, 0.2, 0.4, 0.7, 0.2], dtype=torch.float64)
    for number, (name, correction, normalized) in enumerate(COMBINATIONS):
        over = ("mean", "none")[number % 2]
        loss = module(name, correction, normalized, labels, propensity, reduction_over_batch=over)
        logits = torch.tensor(scores, requires_grad=True)
        assert torch.autograd.gradgradcheck(lambda s, loss=loss: loss(s, lists), logits)
        short = torch.tensor(scores[:, ids], requires_grad=True)
        assert torch.autograd.gradgradcheck(
            lambda s, loss=loss: loss(s, lists, candidates=ids, sampling=q), short
        )
        if (correction, normalized) == ("unbiased", False):
            hessian = torch.func.jacrev(
                torch.func.jacrev(lambda s, loss=loss: loss(s, lists).sum())
            )(logits.detach())
            plain = torch.autograd.functional.hessian(
                lambda s, loss=loss: loss(s, lists).sum(), logits
            )
            torch.testing.assert_close(hessian, plain)


def test_the_compiled_loss_has_the_curvature_of_that_in_double():
    scores, labels, propensity = batch(3)
    ids, lists = torch.tensor([2, 0, 3, 1, 0]), index_of(labels)
    for correction in ("unbiased", "bound"):
        loss = MissingLabelLoss(propensity, correction=correction)
        for options in ({}, {"candidates": ids}):
            products = []
            for dtype in (torch.float64, torch.float32, torch.bfloat16):
                x = torch.tensor(scores).bfloat16().to(dtype)
                logits = (x[:, ids] if options else x).requires_grad_()
                value = loss(logits, lists, **options)
                assert ("Compiled" in value.grad_fn.name()) == (dtype is not torch.float64)
                (first,) = torch.autograd.grad(value, logits, create_graph=True)
                assert first.dtype is dtype
                (first.double() ** 2).sum().backward()
                products.append(logits.grad.double())
            exact, *others = products
            assert exact.abs().max() > 1e-3
            for own, error in zip(others, (1e-6, 2e-2), strict=True):
                torch.testing.assert_close(own, exact, rtol=0, atol=error * exact.abs().max())
