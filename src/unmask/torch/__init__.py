"""Corrected losses for a torch training loop.

`MissingLabelLoss` is a module that takes logits and observed targets. It finds the observed labels
(`targets`), weighs them on their own device (`weighing`, the torch side of `unmask.weights`) and
hands both to the loss definitions that numpy uses (`unmask.losses`); a custom backward keeps the
cost at two passes over the logits. Unobserved labels are never touched by the correction.
"""

from unmask.torch.module import MissingLabelLoss

__all__ = ["MissingLabelLoss"]
