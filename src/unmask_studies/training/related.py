"""Other people's answers to missing labels, as they go through the same protocol.

Each is a one-vs-all loss with its authors' constants and the weights it is meant for; what changes
from epoch to epoch is remade at the start of each. A loss for noise of known rates
(`class_conditional`) is not here: for missing labels it is the unbiased loss itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from unmask.losses import Loss, related_work


@dataclass(frozen=True)
class Method:
    """The loss of an epoch, counted from 0, and the correction of its weights."""

    loss: Callable[[int], Loss]
    correction: str = "vanilla"


METHODS: dict[str, Method] = {
    "nnPU": Method(lambda _: related_work.non_negative(), "unbiased"),
    "ASL": Method(lambda _: related_work.asymmetric()),
    "Hill": Method(lambda _: related_work.hill()),
    "SPLC": Method(lambda epoch: related_work.self_paced(epoch=epoch)),
    "LL-R": Method(lambda epoch: related_work.large_loss_rejection(epoch=epoch + 1)),
    "label smoothing": Method(lambda _: related_work.label_smoothing()),
    "sigmoid (robust)": Method(lambda _: related_work.sigmoid()),
    "unhinged (robust)": Method(lambda _: related_work.unhinged()),
}
"""By the name that tables give them."""
