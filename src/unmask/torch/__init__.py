"""Corrected losses and metrics for a torch training loop.

`MissingLabelLoss` is a module that takes logits and observed targets. It finds the observed labels
(`targets`), weighs them on their own device and hands both to a loss; the formulas of weights and
losses are those that numpy uses (`unmask.weights.formulas`, `unmask.losses`). A custom backward
keeps the cost at two passes over the logits. Unobserved labels are never touched by the correction.
Logits may be those of candidate labels, which `samplers` draw. `CorrectedOutput` is
an output layer and its loss in one, which never holds the logits of all labels (`output`).
`RankingMetrics`, `SetMetrics` and `ScoreMetrics` evaluate logits batch by batch, over all ranks
(`metric`); `trainers` holds what Hugging Face's `Trainer` and Lightning call.
"""

from unmask.torch import samplers, trainers
from unmask.torch.metric import RankingMetrics, ScoreMetrics, SetMetrics
from unmask.torch.module import MissingLabelLoss
from unmask.torch.output import CorrectedOutput

__all__ = [
    "CorrectedOutput",
    "MissingLabelLoss",
    "RankingMetrics",
    "ScoreMetrics",
    "SetMetrics",
    "samplers",
    "trainers",
]
