"""Corrected losses and metrics for a torch training loop.

`MissingLabelLoss` is a module that takes logits and observed targets. It finds the observed labels
(`targets`), weighs them on their own device and hands both to a loss; the formulas of weights and
losses are those that numpy uses (`unmask.weights.formulas`, `unmask.losses`). A custom backward
keeps the cost at two passes over the logits. Unobserved labels are never touched by the correction.
`RankingMetrics` evaluates logits batch by batch, over all ranks (`metric`).
"""

from unmask.torch.metric import RankingMetrics
from unmask.torch.module import MissingLabelLoss

__all__ = ["MissingLabelLoss", "RankingMetrics"]
