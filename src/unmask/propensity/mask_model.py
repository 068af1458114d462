"""Masks as they are: one propensity per label, and what else decides which labels were recorded.

The paper's mask keeps every true label of every row independently with p_j. A `MaskModel` adds what
real masks have beside it, each part a number that is 0 in the paper:

    row_effort   ρ    labels of a row are kept or lost together (`row_effort`)
    unannotated  π₀   share of rows that nobody annotated: they show nothing
    spurious     φ    share of the *observed* labels that are not true
    score_slope  β    labels that the model finds obvious are kept more often (`score_slope`)

p_j stays the propensity over all rows, those without annotation included, so no p_j can exceed
1 − π₀; larger ones are lowered to it. A model can stand wherever propensities can, since numpy
reads its values; who knows what to do with the other parts (`data.hide`, `evaluate`) uses them,
too.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike

from unmask import _validation
from unmask._sparse import entry_rows
from unmask._typing import Floats, PropensityLike, ScoresLike
from unmask.predictions import TopK
from unmask.propensity.estimate import PropensityEstimate
from unmask.propensity.row_effort import MOST, RowEffort, normal
from unmask.propensity.score_slope import ScoreSlope, scores_of
from unmask.propensity.source import Source, source_of

MOST_SPURIOUS = 0.5
PARTS = ("row_effort", "unannotated", "spurious")


class EffortUncertainty(Protocol):
    """Anything that (ρ, π₀) can be drawn from."""

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        """(size, 2) numbers."""
        ...


@dataclass(frozen=True, eq=False)
class MaskModel:
    """How labels go missing: a propensity per label, row effort, unannotated rows, wrong labels.

    Parameters
    ----------
    propensity : (L,) floats in (0, 1] or PropensityEstimate
        How likely a true label is observed, over all rows.
    row_effort : float in [0, 0.9], default 0.0
        ρ, the correlation of the masks of a row on the probit scale.
    unannotated : float in [0, 0.9], default 0.0
        π₀, the share of rows that nobody annotated.
    spurious : float in [0, 0.5], default 0.0
        φ, the share of the observed labels that are not true.
    uncertainty : EffortUncertainty, optional
        What ρ and π₀ are drawn from; by default they are certain.
    score_slope : ScoreSlope, optional
        How propensities of entries depend on the model's score; `evaluate` then uses a propensity
        per entry, and calls corrected recall doubtful.

    Raises
    ------
    ValueError
        If a number is out of its range.

    Examples
    --------
    >>> mask = MaskModel([0.5, 0.25, 0.9], row_effort=0.5, unannotated=0.2)
    >>> np.asarray(mask), len(mask)
    (array([0.5 , 0.25, 0.8 ]), 3)
    >>> mask
    MaskModel(3 labels, 0.250 to 0.800, row_effort=0.5, unannotated=0.2)
    """

    propensity: PropensityLike | PropensityEstimate
    row_effort: float = 0.0
    unannotated: float = 0.0
    spurious: float = 0.0
    uncertainty: EffortUncertainty | None = None
    score_slope: ScoreSlope | None = None
    value: Floats = field(init=False)
    """The propensities over all rows, (L,) floats."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        _validation.in_range(self.row_effort, "row_effort", 0, MOST)
        _validation.in_range(self.unannotated, "unannotated", 0, MOST)
        _validation.in_range(self.spurious, "spurious", 0, MOST_SPURIOUS)
        stated = _validation.propensity(self.propensity)
        object.__setattr__(self, "value", np.minimum(stated, 1.0 - self.unannotated))

    @property
    def source(self) -> Source:
        """Where the propensities come from, and what stands beside them."""
        source = source_of(self.propensity)
        for name in PARTS:
            if number := getattr(self, name):
                source = source.changed(name, number)
        if self.score_slope is not None:
            source = source.changed("score_slope", self.score_slope.slope)
        return source

    @property
    def effort(self) -> RowEffort | None:
        """How the masks of a row depend on each other; None if they do not."""
        if not self.row_effort and not self.unannotated:
            return None
        return normal(self.row_effort, self.unannotated)

    @property
    def certain(self) -> bool:
        """Whether no part of the model is drawn from."""
        doubted = self.uncertainty is not None or (
            self.score_slope is not None and self.score_slope.covariance is not None
        )
        return not doubted and not isinstance(self.propensity, PropensityEstimate)

    @property
    def centre(self) -> MaskModel:
        """The same, every part taken as certain."""
        slope = self.score_slope
        certain = None if slope is None else replace(slope, covariance=None)
        return MaskModel(
            self.value, self.row_effort, self.unannotated, self.spurious, score_slope=certain
        )

    def draw(self, seed: int, size: int) -> list[MaskModel]:
        """Models that the data behind this one allow, each of them certain.

        Parameters
        ----------
        seed : int
            The same seed gives the same draws.
        size : int
            How many.

        Returns
        -------
        list of MaskModel
        """
        efforts = np.tile([self.row_effort, self.unannotated], (size, 1))
        if self.uncertainty is not None:
            rng = np.random.default_rng([seed, 1])
            efforts = np.clip(self.uncertainty.sample(rng, size), 0.0, MOST)
        if isinstance(self.propensity, PropensityEstimate):
            vectors = self.propensity.draw(seed, size)
        else:
            vectors = np.tile(self.value, (size, 1))
        slopes: list[ScoreSlope | None] = [None] * size
        if self.score_slope is not None:
            slopes = list(self.score_slope.drawn(np.random.default_rng([seed, 2]), size))
        return [
            MaskModel(vector, float(rho), float(share), self.spurious, score_slope=slope)
            for vector, (rho, share), slope in zip(vectors, efforts, slopes, strict=True)
        ]

    def of_entries(self, labels: sp.csr_array, scores: TopK | ScoresLike) -> sp.csr_array:
        """A propensity for every observed label, by the model's score of it.

        Parameters
        ----------
        labels : csr_array of shape (n, L)
            Checked observed labels.
        scores : TopK, or (n, L) dense or sparse scores
            Of the same rows.

        Returns
        -------
        csr_array of shape (n, L)
            With the pattern of the labels; p_j where there is no slope.

        Raises
        ------
        ValueError
            If the scores do not fit the labels.
        """
        if self.score_slope is None:
            chance = self.value[labels.indices]
        else:
            scored = scores_of(scores, labels, name="labels")
            chance = self.score_slope.at(self.value, labels.indices, scored)
        return sp.csr_array((chance, labels.indices, labels.indptr), shape=labels.shape)

    def false_rate(self, labels: sp.csr_array) -> Floats:
        """ε_j = P(label j is observed | it is not true), from φ and how often j is observed.

        Of n_j observed labels j, φ n_j are wrong, in the rows that do not truly have it.

        Parameters
        ----------
        labels : csr_array of shape (n, L)
            Checked observed labels.

        Returns
        -------
        (L,) floats, below p_j
        """
        counts = np.bincount(labels.indices, minlength=labels.shape[1])
        true_counts = (1 - self.spurious) * counts / self.value
        without = np.maximum(labels.shape[0] - true_counts, 1.0)
        return np.asarray(np.minimum(self.spurious * counts / without, 0.5 * self.value))

    def observe(self, true_labels: sp.csr_array, rng: np.random.Generator) -> sp.csr_array:
        """Observed labels of rows with these true ones: hidden, and wrong ones added.

        Parameters
        ----------
        true_labels : csr_array of shape (n, L)
            Checked labels.
        rng : numpy Generator
            Decides what is hidden and added.

        Returns
        -------
        csr_array of shape (n, L), float32
        """
        _validation.propensity(self.value, true_labels.shape[1])
        kept = _kept(true_labels, self, rng)
        if not self.spurious:
            return kept
        return sp.csr_array(kept + _wrong(true_labels, kept, self.spurious, rng))

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Floats:
        """The propensities, so that a model serves as propensities."""
        return np.array(self.value, dtype=dtype)

    def __len__(self) -> int:
        """The number of labels."""
        return int(self.value.size)

    def __repr__(self) -> str:
        """One line."""
        span = f"{self.value.min():.3f} to {self.value.max():.3f}" if len(self) else "none"
        parts = {name: getattr(self, name) for name in PARTS}
        stated = "".join(f", {name}={number:.3g}" for name, number in parts.items() if number)
        slope = self.score_slope
        stated += "" if slope is None else f", score_slope={slope.slope:.3g}"
        return f"MaskModel({len(self)} labels, {span}{stated})"


def refuse_for_weights(propensity: object, *, normalized: bool) -> None:
    """Raise where label weights cannot mean what a mask model says.

    Weights 1/p are right under row effort and unannotated rows, since p is over all rows. Those
    that divide a row's loss among its labels need to know how its labels are lost together, and
    a slope needs scores.

    Parameters
    ----------
    propensity : anything
    normalized : bool

    Raises
    ------
    ValueError
        If the mask model has a slope, or row effort where weights are normalised.
    """
    if not isinstance(propensity, MaskModel):
        return
    if propensity.score_slope is not None:
        raise ValueError(
            "the mask depends on the model's scores; give weights a propensity per entry, "
            "`mask.of_entries(labels, scores)`, or `mask.value`."
        )
    if normalized and propensity.effort is not None:
        raise ValueError(
            "normalised weights take the labels of a row to be lost independently, and this mask "
            "has row effort or unannotated rows; use plain weights, or pass `mask.value`."
        )


def _kept(labels: sp.csr_array, mask: MaskModel, rng: np.random.Generator) -> sp.csr_array:
    """The true labels that are recorded; without row effort, those that `data.hide` keeps of p."""
    chance, threshold = mask.value[labels.indices], rng.random(labels.nnz)
    if mask.effort is not None:
        row_of_entry = entry_rows(labels)
        effort = rng.standard_normal(labels.shape[0])
        annotated = rng.random(labels.shape[0]) >= mask.unannotated
        chance = mask.effort.propensity_at(chance, effort[row_of_entry])
        chance = chance * annotated[row_of_entry]
    kept = threshold < chance
    kept_before = np.r_[0, np.cumsum(kept)].astype(labels.indptr.dtype)
    parts = labels.data[kept], labels.indices[kept], kept_before[labels.indptr]
    return sp.csr_array(parts, shape=labels.shape)


def _wrong(
    labels: sp.csr_array, kept: sp.csr_array, share: float, rng: np.random.Generator
) -> sp.csr_array:
    """Labels that are not true, so many that they are this share of all observed ones.

    Their frequencies are those of the observed labels, their rows any that lack the label.
    """
    counts = np.bincount(kept.indices, minlength=labels.shape[1])
    numbers = rng.poisson(share / (1.0 - share) * counts)
    columns = sp.csc_array(labels)
    rows, chosen = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for label in np.flatnonzero(numbers):
        start, stop = columns.indptr[label : label + 2]
        free = np.setdiff1d(np.arange(labels.shape[0]), columns.indices[start:stop])
        rows.append(rng.choice(free, min(int(numbers[label]), free.size), replace=False))
        chosen.append(np.full(rows[-1].size, label))
    where = np.concatenate(rows), np.concatenate(chosen)
    return sp.csr_array((np.ones(where[0].size, np.float32), where), shape=labels.shape)
