"""How far a conditional number moves when its conditions are off: the values, and their English.

Two conditions are moved, one at a time:

- *the propensities*: every observed label may have been recorded with a probability p′ that is up
  to Γ times lower or higher than stated, p/Γ ≤ p′ ≤ min(1, pΓ), those of hits and of misses in
  opposite directions (a label that is easy to predict may be easy to record as well);
- *independence*: labels of a row may be kept or lost together, with correlation ρ.

`perturbation` computes them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from unmask._text import format_value

GAMMAS = (1.5, 2.0)
"""Factors by which propensities are taken to be off. On six real pairs of incomplete and complete
labels Jain's formula was off by at most 1.5 times in four, by at most 2 in five (mean p)."""
EFFORTS = (0.0, 0.25, 0.5, 0.75)
"""Correlations ρ of row effort."""
MOST = 10.0
"""Beyond this factor nobody states propensities; a winner that survives it survives."""


@dataclass(frozen=True)
class GammaRange:
    """The number over propensities within a factor.

    Parameters
    ----------
    gamma : float
        Γ ≥ 1.
    low, high : float
        The ends; NaN where the data contradict the propensities there.
    """

    gamma: float
    low: float
    high: float


@dataclass(frozen=True)
class EffortValue:
    """The number if labels of a row are kept or lost together.

    Parameters
    ----------
    correlation : float
        ρ in [0, 1).
    value : float
        NaN where the data contradict it.
    """

    correlation: float
    value: float


@dataclass(frozen=True)
class Sensitivity:
    """How far a number moves, with the settings used.

    Parameters
    ----------
    value : float
        The number itself.
    gammas : tuple of GammaRange
        Over propensities within each Γ.
    efforts : tuple of EffortValue, default ()
        Over row effort; only deconvolved estimates depend on it here.
    exact : bool, default False
        Whether the ends over Γ are exact (metrics linear in 1/p) or found numerically.
    turns_at : float, optional
        Of a difference: the smallest Γ at which the winner changes; ∞ if none up to `MOST` does,
        None if there is no winner.

    Examples
    --------
    >>> moved = Sensitivity(0.5, (GammaRange(1.25, 0.41, 0.62),), (EffortValue(0.5, 0.48),))
    >>> moved.low, moved.high
    (0.41, 0.62)
    >>> print(moved)
    0.410 to 0.620 if propensities are off by up to 1.25 times; 0.480 to 0.500 if labels of a row \
go missing together (ρ up to 0.5)
    """

    value: float
    gammas: tuple[GammaRange, ...]
    efforts: tuple[EffortValue, ...] = ()
    exact: bool = False
    turns_at: float | None = None

    @property
    def low(self) -> float:
        """The lowest end of all."""
        return min(self._numbers)

    @property
    def high(self) -> float:
        """The highest end of all."""
        return max(self._numbers)

    @property
    def over_efforts(self) -> tuple[float, float]:
        """The ends over row effort; the number itself where nothing depends on it."""
        values = _finite([self.value, *(each.value for each in self.efforts)])
        return min(values, default=math.nan), max(values, default=math.nan)

    @property
    def _numbers(self) -> list[float]:
        ends = [end for each in self.gammas for end in (each.low, each.high)]
        return _finite([self.value, *ends, *self.over_efforts]) or [math.nan]

    @property
    def sentence(self) -> str:
        """All of it in one line of English."""
        clauses = [
            f"{between(each.low, each.high)} if propensities are off by up to {each.gamma:g} times"
            for each in self.gammas
        ]
        if self.efforts:
            most = max(each.correlation for each in self.efforts)
            clauses.append(
                f"{between(*self.over_efforts)} if labels of a row go missing together "
                f"(ρ up to {most:g})"
            )
        return "; ".join([*clauses, *([self.turning] if self.turning else [])])

    @property
    def turning(self) -> str:
        """Of a difference: at which Γ the winner changes; "" of anything else."""
        if self.turns_at is None:
            return ""
        if math.isinf(self.turns_at):
            return f"the winner stays the same up to a factor of {MOST:g}"
        return f"the winner changes where propensities are off by {self.turning_factor} times"

    @property
    def turning_factor(self) -> str:
        """The same as a number; "" where there is no winner."""
        if self.turns_at is None:
            return ""
        if math.isinf(self.turns_at):
            return f"> {MOST:g}"
        return format_value(math.ceil(self.turns_at * 100) / 100, ".2f")

    def __str__(self) -> str:
        """The sentence."""
        return self.sentence

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; the English is `text`."""
        return {
            "gammas": [vars(each) for each in self.gammas],
            "efforts": [vars(each) for each in self.efforts],
            "exact": self.exact,
            "turns_at": self.turns_at,
            "text": self.sentence,
        }


class Basis(Protocol):
    """What an estimate keeps so that its sensitivity can be computed when it is asked for."""

    def sensitivity(self) -> Sensitivity:
        """How far the number moves."""
        ...


def between(low: float, high: float) -> str:
    """Two ends in words; an end at which the data contradict the propensities is `refused`.

    >>> between(0.25, float("nan"))
    '0.250 to (refused by the data)'
    """
    ends = [
        "(refused by the data)" if math.isnan(end) else format_value(end, ".3f")
        for end in (low, high)
    ]
    return " to ".join(ends)


def _finite(values: Iterable[float]) -> list[float]:
    return [value for value in values if math.isfinite(value)]
