"""The correction that a training gets where none is named."""

from __future__ import annotations

from unmask import _validation
from unmask.linear.problem import LOSSES, Recipe


def recommended(recipe: Recipe) -> str:
    """The correction to use with propensities that are to be trusted.

    Where a row's loss is divided among its labels, empirical Bayes: its weights are positive, those
    of the unbiased correction large and of either sign. Otherwise unbiased where that keeps the
    loss convex, and the bound for the squared hinge, where it does not.

    Parameters
    ----------
    recipe : Recipe
        Whose loss and `normalized` count.

    Returns
    -------
    str
        A name in `weights.CORRECTIONS`.

    Raises
    ------
    ValueError
        If the loss is not one of the reduction.

    Examples
    --------
    >>> recommended(Recipe("logistic")), recommended(Recipe("squared_hinge"))
    ('unbiased', 'bound')
    >>> recommended(Recipe("softmax", "pal", normalized=True))
    'empirical_bayes'
    """
    _validation.one_of(recipe.loss, LOSSES[recipe.reduction], "loss")
    if recipe.normalized:
        return "empirical_bayes"
    return "bound" if recipe.loss == "squared_hinge" else "unbiased"
