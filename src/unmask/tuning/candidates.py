"""What is tried: families of trainings, each along a path of costs C.

A `Family` is everything but C: loss, correction, how much of the correction (τ, which tempers the
propensities: 1 + τ(1/p − 1) for 1/p), and by what labels are ranked. Families are listed from the
plainest to the one that leans most on the propensities. `recommended` is the correction of a
training for which none is named and nothing is tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace

from unmask import losses
from unmask._typing import Floats, Record
from unmask.linear import Recipe
from unmask.propensity import temper
from unmask.propensity.mask_model import refuse_for_weights

COSTS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Values of C for vanilla logistic training, smallest first; a path goes up from model to model."""
SCALES = {"logistic": 1.0, "squared_hinge": 0.03, "squared_error": 0.1, "softmax": 3.0}
"""Where the best C of a loss lies beside that of the logistic one."""
CORRECTED = 0.3
"""Where the best C of a corrected training lies beside that of vanilla: its weights are larger,
unless they are divided among the labels of a row."""
CORRECTIONS = {
    "logistic": (("vanilla", False), ("unbiased", False), ("empirical_bayes", True)),
    "squared_error": (("vanilla", False), ("unbiased", False)),
    "squared_hinge": (("vanilla", False), ("bound", False)),
    "softmax": (("vanilla", True), ("empirical_bayes", True)),
}
"""The corrections that keep a loss convex and their `normalized`, by loss."""
PROBABILISTIC = ("logistic", "softmax")
"""Losses whose scores, trained without correction, stand for P(observed | x), which divided by p is
P(true | x). A corrected training has divided by p already: to do it again corrects twice."""
BY_RATIO = "probability/propensity"
OF_LEVEL = ("vanilla", "bound")
"""Corrections that are tried where all that is left of propensities is one for all labels; if a
loss has one beside vanilla, of such losses only."""
TAUS = (0.5, 1.0)


@dataclass(frozen=True)
class Family:
    """A way to train and to rank, whatever C.

    Parameters
    ----------
    loss : str
        As in `linear.Recipe`, which also says its reduction.
    correction : str, default "vanilla"
        A name in `weights.CORRECTIONS`.
    normalized : bool, default False
        Whether a row's loss is divided among its labels.
    tau : float in [0, 1], default 1.0
        How much of 1/p − 1 is corrected for.
    rank_by : {"score", "probability/propensity"}, default "score"

    Examples
    --------
    >>> Family("logistic", "unbiased", tau=0.5).name
    'logistic, unbiased, τ = 0.5'
    >>> Family("logistic").recipe(3.0).C
    3.0
    """

    loss: str
    correction: str = "vanilla"
    normalized: bool = False
    tau: float = 1.0
    rank_by: str = "score"

    @property
    def corrected(self) -> bool:
        """Whether propensities play a part, in training or in ranking."""
        return self.correction != "vanilla" or self.rank_by != "score"

    @property
    def trained(self) -> Family:
        """The family that is trained alike, ranked by score."""
        return replace(self, rank_by="score")

    @property
    def name(self) -> str:
        """In a few words."""
        words = [self.loss, self.correction.replace("_", " ")]
        words += ["normalised"] if self.normalized and self.correction == "vanilla" else []
        words += [f"τ = {self.tau:g}"] if self.tau != 1 else []
        words += ["by probability / propensity"] if self.rank_by == BY_RATIO else []
        return ", ".join(words)

    def recipe(self, cost: float, base: Recipe | None = None) -> Recipe:
        """The training with this C; what a family does not say is that of `base`."""
        return replace(
            base or Recipe(),
            loss=self.loss,
            reduction=losses.get(self.loss).reduction,
            correction=self.correction,
            normalized=self.normalized,
            C=cost,
            l2=None,
        )

    def propensity(self, p: Floats | None) -> Floats | None:
        """The propensities that training sees: tempered, or none for vanilla."""
        return None if p is None or self.correction == "vanilla" else temper(p, self.tau)

    def to_dict(self) -> Record:
        """Plain values, for JSON."""
        return asdict(self)


def families(
    names: Sequence[str], taus: Iterable[float], rankings: Sequence[str], propensity: object
) -> tuple[Family, ...]:
    """The families of these losses, the plainest first; without propensities only vanilla.

    Parameters
    ----------
    names : sequence of str
        Losses.
    taus : iterable of float in (0, 1]
        For the unbiased correction.
    rankings : sequence of str
        Ways to rank; by score is always among them.
    propensity : propensities, MaskModel or None
        What a mask model does not allow (`refuse_for_weights`) is left out.

    Returns
    -------
    tuple of Family
    """
    tried = []
    for loss in names:
        for correction, normalized in CORRECTIONS[loss]:
            strengths = sorted(taus) if correction == "unbiased" else [1.0]
            tried += [Family(loss, correction, normalized, tau) for tau in strengths]
    if propensity is None:
        return tuple(family for family in tried if not family.corrected)
    tried = [family for family in tried if _accepted(family, propensity)]
    if BY_RATIO in rankings:
        tried += [
            replace(family, rank_by=BY_RATIO)
            for family in tried
            if family.loss in PROBABILISTIC and family.correction == "vanilla"
        ]
    return tuple(sorted(tried, key=plainness))


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

    Examples
    --------
    >>> recommended(Recipe("logistic")), recommended(Recipe("squared_hinge"))
    ('unbiased', 'bound')
    >>> recommended(Recipe("softmax", "pal", normalized=True))
    'empirical_bayes'
    """
    if recipe.normalized:
        return "empirical_bayes"
    return "bound" if recipe.loss == "squared_hinge" else "unbiased"


def plainness(family: Family) -> tuple[bool, bool, float]:
    """Sorts families: by what they leave to the propensities, least first."""
    strength = 0.0 if family.correction == "vanilla" else family.tau
    return family.corrected, family.correction != "vanilla", strength


def path(family: Family, costs: Sequence[float] | None) -> tuple[float, ...]:
    """The costs of a training, smallest first: those named, or those usual for it."""
    if costs is not None:
        return tuple(sorted({float(cost) for cost in costs}))
    larger = family.correction != "vanilla" and not family.normalized
    scale = SCALES[family.loss] * (CORRECTED if larger else 1.0)
    return tuple(float(f"{cost * scale:.2g}") for cost in COSTS)


def _accepted(family: Family, propensity: object) -> bool:
    if family.correction == "vanilla":
        return True
    try:
        refuse_for_weights(propensity, normalized=family.normalized)
    except ValueError:
        return False
    return True
