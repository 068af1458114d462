"""Corrected losses and metrics for a torch training loop.

`MissingLabelLoss` is a module that takes logits and observed targets. It finds the observed labels
(`targets`), weighs them on their own device (`weighing`, the torch side of `unmask.weights`) and
hands both to the loss definitions that numpy uses (`unmask.losses`); a custom backward keeps the
cost at two passes over the logits. Unobserved labels are never touched by the correction.
`RankingMetrics` evaluates logits batch by batch, over all ranks (`metric`).
"""

from unmask.torch.metric import RankingMetrics
from unmask.torch.module import MissingLabelLoss

__all__ = ["MissingLabelLoss", "RankingMetrics"]
