"""What every estimator of propensities returns: values, intervals, and draws from what is unknown.

An estimate can stand wherever propensities can, since numpy reads its values. Whoever computes
something from propensities can repeat it for the rows of `draw`, and so carry the doubt on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import DTypeLike

from unmask._typing import Floats
from unmask.propensity.frequency_curve import CurveFit
from unmask.propensity.source import Source, SourceKind

SMALLEST = 1e-3
"""Draws stay above this: a label whose propensity could be zero has no finite correction."""


TOGETHER = 1.5
"""A design effect from which on labels of a row count as kept or lost together."""


class Uncertainty(Protocol):
    """Anything that propensity vectors can be drawn from."""

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        """(size, L) propensities."""
        ...


@dataclass(frozen=True, eq=False)
class PropensityEstimate:
    """Propensities estimated from data, one per label, with their uncertainty.

    Parameters
    ----------
    value : array of shape (L,)
        The estimate.
    low, high : arrays of shape (L,)
        The ends of each label's interval; an interval is for one label at a time.
    confidence : float
        The probability that an interval aims at.
    method : str
        The name of the estimator.
    evidence : array of shape (L,)
        How many true labels were observed kept or lost; 0 means "from the curve alone".
    uncertainty : Uncertainty
        What `draw` draws from.
    curve : CurveFit, optional
        The curve over label frequency that labels were drawn towards.
    notes : tuple of str, default ()
        Sentences on what to keep in mind.
    effect : float, default 1.0
        Design effect: how much more a row's kept labels vary than if kept independently.
    rows : int, default 0
        Rows behind the estimate, such as those audited; 0 if that is not known.

    Examples
    --------
    >>> from unmask import propensity
    >>> p = propensity.from_marginals([[1, 0]] * 30 + [[0, 1]] * 10, [0.9, 0.5])
    >>> p
    PropensityEstimate('marginals', 2 labels, 0.512 to 0.827)
    >>> np.asarray(p).round(2), p.draw(seed=0, size=3).shape
    (array([0.83, 0.51]), (3, 2))
    """

    value: Floats
    low: Floats
    high: Floats
    confidence: float
    method: str
    evidence: Floats
    uncertainty: Uncertainty
    curve: CurveFit | None = None
    notes: tuple[str, ...] = ()
    effect: float = 1.0
    rows: int = 0

    @property
    def source(self) -> Source:
        """Where the propensities come from: the method, and the rows that it saw."""
        own = self.method in list(SourceKind)
        kind = SourceKind(self.method) if own else SourceKind.STATED
        return Source(kind, {"rows": self.rows} if self.rows else {})

    def draw(self, seed: int, size: int) -> Floats:
        """Propensity vectors that the data allow.

        Parameters
        ----------
        seed : int
            The same seed gives the same draws.
        size : int
            How many vectors.

        Returns
        -------
        array of shape (size, L)
        """
        drawn = self.uncertainty.sample(np.random.default_rng(seed), size)
        return np.clip(drawn, SMALLEST, 1.0).reshape(size, len(self))

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Floats:
        """The values, so that an estimate serves as propensities."""
        return np.array(self.value, dtype=dtype)

    def __len__(self) -> int:
        """The number of labels."""
        return int(self.value.size)

    def __repr__(self) -> str:
        """One line."""
        span = f"{self.value.min():.3f} to {self.value.max():.3f}" if len(self) else "none"
        return f"PropensityEstimate({self.method!r}, {len(self)} labels, {span})"
