"""What `help` shows of a loss: its own formula and an example that runs."""

from __future__ import annotations

import doctest
import pydoc

import pytest

from unmask import losses
from unmask.losses import LOSSES, RELATED_WORK

FORMULAS = {
    "logistic": "ℓ₊(s) = log(1 + e⁻ˢ),    ℓ₋(s) = log(1 + eˢ)",
    "squared_error": "ℓ₊(s) = (1 − s)²,    ℓ₋(s) = s²",
    "hinge": "ℓ₊(s) = max(0, 1 − s),    ℓ₋(s) = max(0, 1 + s)",
    "squared_hinge": "ℓ₊(s) = max(0, 1 − s)²,    ℓ₋(s) = max(0, 1 + s)²",
    "zero_one": "ℓ₊(s) = [s < 0],    ℓ₋(s) = [s > 0],    and one half at s = 0",
    "softmax": "Σ_{i∈I} pos_i (A(s) − s_i),    A(s) = log Σ_j eˢʲ",
    "pairwise_zero_one": "Σ_{i relevant} Σ_{j irrelevant} [s_i < s_j]",
    "pairwise_logistic": "Σ_{i relevant} Σ_{j irrelevant} log(1 + e^{−(s_i − s_j)})",
    "pairwise_hinge": "Σ_{i relevant} Σ_{j irrelevant} max(0, 1 − (s_i − s_j))",
}


@pytest.mark.parametrize("name", LOSSES)
def test_help_shows_the_formula_of_a_loss(name):
    shown = pydoc.render_doc(getattr(losses, name), renderer=pydoc.plaintext)
    assert FORMULAS[name] in shown


@pytest.mark.parametrize("name", LOSSES)
def test_the_example_of_a_loss_runs(name):
    parsed = doctest.DocTestParser().get_doctest(LOSSES[name].__doc__, {}, name, None, None)
    assert parsed.examples
    assert doctest.DocTestRunner(verbose=False).run(parsed).failed == 0


@pytest.mark.parametrize("name", ["label_smoothing", "non_negative", "large_loss_rejection"])
def test_a_wrapped_loss_does_not_show_the_formula_of_its_base(name):
    made = RELATED_WORK[name](**({"epoch": 1} if name == "large_loss_rejection" else {}))
    assert FORMULAS["logistic"] not in made.__doc__
    assert f"related_work.{name}" in made.__doc__


def test_a_loss_without_text_shows_the_class():
    assert losses.related_work.hill().__doc__ == losses.Loss.__doc__
