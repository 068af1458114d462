"""The demo: planted data with known truth, labels hidden on purpose, and what is lost by it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from unmask import data, propensity

BANDS = {"frequent tenth": (0.0, 0.1), "middle": (0.1, 0.5), "rare half": (0.5, 1.0)}
"""Labels by frequency rank, as shares of all labels."""


@dataclass(frozen=True)
class Band:
    """Labels of similar frequency: how many true entries they have and how many are still seen."""

    name: str
    labels: int
    propensity: float
    true: int
    observed: int

    @property
    def lost(self) -> float:
        """The share of true entries that is hidden."""
        return 1 - self.observed / self.true if self.true else 0.0


@dataclass(frozen=True)
class Demo:
    """What hiding labels did to one data set."""

    n: int
    n_labels: int
    bands: tuple[Band, ...]
    empty_rows: int

    @property
    def total(self) -> Band:
        """All labels together."""
        true, observed = sum(b.true for b in self.bands), sum(b.observed for b in self.bands)
        return Band("all", self.n_labels, observed / true, true, observed)


def run(*, n: int = 20_000, seed: int = 0) -> Demo:
    """Make n rows, hide labels with Jain propensities, count the losses by label frequency.

    >>> result = run(n=300)
    >>> result.total.true > result.total.observed
    True
    """
    true_labels = data.synthetic.planted(n, n_labels=500, seed=seed).labels
    p = propensity.jain(true_labels)
    observed = data.hide(true_labels, p, seed=seed + 1)
    return Demo(
        n=n,
        n_labels=len(p),
        bands=tuple(_band(name, true_labels, observed, p) for name in BANDS),
        empty_rows=int((np.diff(observed.indptr) == 0).sum()),
    )


def _band(
    name: str, true_labels: sp.csr_array, observed: sp.csr_array, p: NDArray[np.float64]
) -> Band:
    counts = np.bincount(true_labels.indices, minlength=len(p))
    low, high = (round(share * len(p)) for share in BANDS[name])
    chosen = np.argsort(-counts, kind="stable")[low:high]
    seen = np.bincount(observed.indices, minlength=len(p))
    return Band(
        name, len(chosen), p[chosen].mean(), int(counts[chosen].sum()), int(seen[chosen].sum())
    )
