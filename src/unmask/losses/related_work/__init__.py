"""Other people's answers to missing labels, in the same shape, so that studies can compare them.

Every function returns a one-vs-all `Loss`. Unless its docstring says otherwise it is meant for
vanilla weights: these methods replace the correction rather than use it. What changes from epoch to
epoch or depends on the batch is an explicit argument: make a new loss when it changes.
"""

from collections.abc import Callable

from unmask.losses._loss import Loss
from unmask.losses.related_work.likelihood import observed_likelihood
from unmask.losses.related_work.robust import asymmetric, hill, self_paced, sigmoid, unhinged
from unmask.losses.related_work.wrappers import (
    class_conditional,
    label_smoothing,
    large_loss_rejection,
    non_negative,
)

__all__ = [
    "RELATED_WORK",
    "asymmetric",
    "class_conditional",
    "hill",
    "label_smoothing",
    "large_loss_rejection",
    "non_negative",
    "observed_likelihood",
    "self_paced",
    "sigmoid",
    "unhinged",
]

RELATED_WORK: dict[str, Callable[..., Loss]] = {
    function.__name__: function
    for function in (
        sigmoid,
        unhinged,
        asymmetric,
        hill,
        self_paced,
        label_smoothing,
        class_conditional,
        non_negative,
        large_loss_rejection,
        observed_likelihood,
    )
}
