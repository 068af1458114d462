"""Functions for trainers of others: a loss and metrics for Hugging Face, a Lightning mixin.

None of them is imported here. `transformers.Trainer` calls `compute_loss_func(outputs, labels,
num_items_in_batch)` and `compute_metrics(prediction)`; `LightningLosses` is a mixin for a
`LightningModule`, which brings `log_dict`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from unmask import metrics as library
from unmask._messages import named_options
from unmask._typing import PropensityLike
from unmask.torch.metric import RankingMetrics, _labels
from unmask.torch.module import MissingLabelLoss


class _Prediction(Protocol):
    """The fields of `transformers.EvalPrediction`."""

    predictions: Any
    label_ids: Any


def compute_loss(loss: MissingLabelLoss, *, accumulation_steps: int = 1) -> Callable[..., Tensor]:
    """Make a `compute_loss_func` for Hugging Face's `Trainer`.

    The trainer takes the batch's "labels" away from the model, so that the model computes no loss
    of its own, and hands them over: 0/1 of rows × labels, or label numbers, short rows filled up
    with −100 as its collators do. It does not divide what such a function returns by the number of
    batches whose gradients are added up; say that number here, as in its arguments.

    Parameters
    ----------
    loss : MissingLabelLoss
        With `reduction_over_batch` "mean" or "sum".
    accumulation_steps : int, default 1
        `gradient_accumulation_steps` of the training arguments.

    Returns
    -------
    function (outputs, labels, num_items_in_batch=None) → tensor

    Examples
    --------
    >>> function = compute_loss(MissingLabelLoss([0.5, 0.5, 0.5], correction="bound"))
    >>> function({"logits": torch.zeros(1, 3)}, torch.tensor([[1, -100]]))
    tensor(3.4657)
    """

    def function(outputs: Any, labels: Tensor, num_items_in_batch: Any = None) -> Tensor:
        logits = _logits(outputs)
        value: Tensor = loss.to(logits.device)(logits, labels)
        return value / accumulation_steps

    return function


@named_options
def compute_metrics(
    propensity: PropensityLike | None = None,
    *,
    metrics: Sequence[str] = ("P@1", "R@5", "nDCG@5"),
    estimators: Sequence[str] | None = None,
    seed: int = 0,
    tau: float | str = "auto",
    clip: float = 10.0,
    fraction: float = 0.01,
    information: ArrayLike | None = None,
) -> Callable[[_Prediction], dict[str, float]]:
    """Make a `compute_metrics` for Hugging Face's `Trainer`: corrected metrics by name.

    The names, such as "R@5/deconvolved", may be `metric_for_best_model` of the training arguments.

    Parameters
    ----------
    propensity : (L,) floats in (0, 1], optional
        Needed by all estimators but vanilla.
    metrics : sequence of str
    estimators : sequence of str, optional
        By default vanilla and, with propensities, unbiased.
    seed, tau, clip, fraction, information
        As in `unmask.Evaluator`.

    Returns
    -------
    function (prediction) → dict
        Values as `metric/estimator`.

    Raises
    ------
    ValueError
        When the function is called: if labels are none, or a name is unknown.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> function = compute_metrics([0.5, 0.5], metrics=["P@1"], estimators=["unbiased"])
    >>> rows = SimpleNamespace(predictions=torch.tensor([[2.0, 1.0]]), label_ids=[[0]])
    >>> function(rows)
    {'P@1/unbiased': 2.0}
    """

    def function(prediction: _Prediction) -> dict[str, float]:
        raw = prediction.predictions
        logits = torch.as_tensor(raw[0] if isinstance(raw, tuple) else raw)
        targets = prediction.label_ids
        if not isinstance(targets, list | tuple):
            targets = torch.as_tensor(targets)
        table = library.evaluate(
            logits.detach().float().cpu().numpy(),
            _labels(targets, logits.shape),
            propensity,
            metrics=metrics,
            estimators=estimators,
            seed=seed,
            tau=tau,
            clip=clip,
            fraction=fraction,
            information=information,
        )
        return {f"{each.metric}/{each.estimator}": each.value for each in table}

    return function


class LightningLosses:
    """A mixin for a `LightningModule` whose batches are (inputs, targets).

    Put it first: `class Tagger(LightningLosses, LightningModule)`, set `self.loss` and
    `self.validation` after `super().__init__()`, and write `forward` (inputs → logits) and
    `configure_optimizers`. It logs "loss" in training and, once per epoch of validation and over
    all ranks, every corrected metric under its name.

    Attributes
    ----------
    loss : MissingLabelLoss
    validation : RankingMetrics, SetMetrics or ScoreMetrics

    Examples
    --------
    >>> from torch import nn
    >>> class Tagger(LightningLosses, nn.Linear):  # with LightningModule in place of nn.Linear
    ...     def log(self, name, value, **_):
    ...         print(name, round(value.item(), 4))
    >>> model = Tagger(2, 2)
    >>> _ = nn.init.zeros_(model.weight), nn.init.zeros_(model.bias)
    >>> model.loss = MissingLabelLoss([0.5, 0.5], correction="bound")
    >>> value = model.training_step((torch.ones(1, 2), [[0]]), 0)
    loss 2.7726
    """

    loss: MissingLabelLoss
    validation: RankingMetrics

    def training_step(self, batch: tuple[Any, Any], batch_idx: int) -> Tensor:
        """Return the corrected loss of a batch."""
        inputs, targets = batch
        logits = _logits(self(inputs))  # type: ignore[operator]
        value: Tensor = self.loss(logits, targets)
        self.log("loss", value.detach(), batch_size=len(logits))  # type: ignore[attr-defined]
        return value

    def validation_step(self, batch: tuple[Any, Any], batch_idx: int) -> None:
        """Take a batch into the metrics."""
        inputs, targets = batch
        self.validation.update(_logits(self(inputs)), targets)  # type: ignore[operator]

    def on_validation_epoch_end(self) -> None:
        """Log the metrics of all batches and ranks, and forget the rows."""
        self.log_dict(self.validation.values())  # type: ignore[attr-defined]
        self.validation.reset()


def _logits(outputs: Any) -> Tensor:
    """Return the logits of outputs: a tensor, a mapping, a record, or the first of a tuple."""
    if isinstance(outputs, dict):
        outputs = outputs["logits"]
    elif hasattr(outputs, "logits"):
        outputs = outputs.logits
    logits: Tensor = outputs[0] if isinstance(outputs, tuple) else outputs
    return logits
