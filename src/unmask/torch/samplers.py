"""Samplers: candidate labels drawn with known probabilities, for the shortlist of a batch.

Every function returns a `Sample`: label numbers, and for each how often its label is expected in
the list, which is what `MissingLabelLoss(…)(…, sampling=…)` divides by. Where a label can be drawn
once, that is its probability. Draws do not depend on the labels of the rows that they are for;
`with_observed` then puts the observed labels in, which every row needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from unmask._typing import PropensityLike
from unmask.arrays import checks
from unmask.torch.targets import Targets, label_index, row_count


@dataclass(frozen=True)
class Sample:
    """Candidate labels and how often each is expected among them.

    Attributes
    ----------
    ids : (c,) or (n, c) integers
        Label numbers; −1 for none.
    expected : floats in the shape of `ids`
        For `sampling=`.

    Examples
    --------
    >>> ids, expected = uniform(10, 4, generator=torch.Generator().manual_seed(0))
    >>> expected
    tensor([0.4000, 0.4000, 0.4000, 0.4000], dtype=torch.float64)
    """

    ids: Tensor
    expected: Tensor

    def __iter__(self) -> Iterator[Tensor]:
        """Unpack as `ids, expected = sample`."""
        return iter((self.ids, self.expected))


def uniform(n_labels: int, size: int, *, generator: torch.Generator | None = None) -> Sample:
    """Draw `size` distinct labels, every set of them with the same probability.

    Parameters
    ----------
    n_labels : int
        L.
    size : int, at most L
        c.
    generator : torch.Generator, optional
        The source of random numbers; torch's own by default.

    Returns
    -------
    Sample
        `expected` is c / L.

    Raises
    ------
    ValueError
        If `size` is larger than `n_labels`, or one of them is not positive.

    Examples
    --------
    >>> uniform(5, 5).ids.sort().values
    tensor([0, 1, 2, 3, 4])
    """
    n_labels = checks.positive_int(n_labels, "n_labels")
    size = checks.positive_int(size, "size")
    if size > n_labels:
        raise ValueError(f"size: {size} distinct labels of {n_labels}; take at most {n_labels}.")
    if 4 * size > n_labels:
        ids = torch.randperm(n_labels, generator=generator)[:size]
    else:
        ids = _distinct(n_labels, size, generator)
    return Sample(ids, torch.full((size,), size / n_labels, dtype=torch.float64))


def _distinct(n_labels: int, size: int, generator: torch.Generator | None) -> Tensor:
    """Draw one after another and pass over repetitions, without a permutation of all L labels."""
    ids = np.empty(0, dtype=np.int64)
    while len(ids) < size:
        more = torch.randint(n_labels, (size + size // 2 + 8,), generator=generator).numpy()
        drawn = np.concatenate([ids, more])
        _, first = np.unique(drawn, return_index=True)
        ids = drawn[np.sort(first)]
    return torch.from_numpy(ids[:size])


class ByFrequency:
    """A sampler with replacement, P(label j) ∝ (number of rows with label j)^α.

    The cumulated probabilities are made once; a draw is a binary search.

    Parameters
    ----------
    counts : (L,) numbers of 0 or more
        Rows of every label in the training data. A label of count 0 is never drawn: the loss is
        then estimated over the others alone, so give it a small count instead.
    alpha : float in [0, 1], default 0.75
        1 draws by frequency, 0 uniformly among labels that occur.

    Raises
    ------
    ValueError
        If counts are negative, not finite or all 0.

    Examples
    --------
    >>> sampler = ByFrequency([16, 1, 0], alpha=0.5)
    >>> sampler.probability
    tensor([0.8000, 0.2000, 0.0000], dtype=torch.float64)
    >>> sampler.draw(5).ids.max() < 2
    tensor(True)
    """

    def __init__(self, counts: PropensityLike, *, alpha: float = 0.75) -> None:
        """See the class."""
        numbers = checks.numbers(counts, "counts").astype(np.float64)
        checks.finite(numbers, "counts")
        checks.in_range(alpha, "alpha", 0, 1)
        if numbers.ndim != 1 or (numbers < 0).any() or not numbers.any():
            raise ValueError("counts must be one number of 0 or more per label, not all 0.")
        powers = np.where(numbers > 0, numbers**alpha, 0.0)
        self._cumulated = torch.from_numpy(np.cumsum(powers / powers.sum()))
        self.probability = torch.from_numpy(powers / powers.sum())

    def draw(self, size: int, *, generator: torch.Generator | None = None) -> Sample:
        """Draw labels.

        Parameters
        ----------
        size : int
            c, the number of draws.
        generator : torch.Generator, optional
            The source of random numbers; torch's own by default.

        Returns
        -------
        Sample
            `expected` is c · P(label).
        """
        size = checks.positive_int(size, "size")
        uniforms = torch.rand(size, dtype=torch.float64, generator=generator)
        ids = torch.searchsorted(self._cumulated, uniforms * self._cumulated[-1], right=True)
        return Sample(ids, size * self.probability[ids])


def with_observed(
    sample: Sample, targets: Targets, n_labels: int, *, per_row: bool = False
) -> Sample:
    """Add the observed labels of the rows, which are there with certainty, to a sample.

    Shared candidates: the labels that any row of the batch has come first, once each and with the
    probability 1, then the draws of other labels. Candidates per row: the row's own labels come
    first (−1 where a row has fewer than others), then the draws.

    Parameters
    ----------
    sample : Sample
        Draws that do not depend on the labels of the batch; shared by its rows, (c,).
    targets : as in `MissingLabelLoss`
        The observed labels of the batch, (n, L).
    n_labels : int
        L.
    per_row : bool, default False
        Whether to return candidates per row, (n, m + c).

    Returns
    -------
    Sample
        (c',) candidates for all rows, or (n, m + c).

    Raises
    ------
    ValueError
        If targets are none, or the sample is not shared.

    Examples
    --------
    >>> drawn = Sample(torch.tensor([3, 0]), torch.tensor([0.5, 0.5]))
    >>> with_observed(drawn, [[0, 1], [1]], 4)
    Sample(ids=tensor([0, 1, 3]), expected=tensor([1.0000, 1.0000, 0.5000]))
    >>> with_observed(drawn, [[0, 1], [1]], 4, per_row=True).ids
    tensor([[ 0,  1,  3,  0],
            [ 1, -1,  3,  0]])
    """
    if sample.ids.ndim != 1:
        raise ValueError("with_observed takes a sample that the rows share, of shape (c,).")
    n = row_count(targets)
    index = label_index(targets, (n, n_labels)).to(sample.ids.device)
    if per_row:
        ids = torch.cat([index, sample.ids.expand(n, -1)], dim=1)
        ones = torch.ones(index.shape, dtype=sample.expected.dtype, device=index.device)
        return Sample(ids, torch.cat([ones, sample.expected.expand(n, -1)], dim=1))
    union: Tensor = torch.unique(index[index >= 0])
    other = ~torch.isin(sample.ids, union)
    ones = torch.ones(len(union), dtype=sample.expected.dtype, device=index.device)
    return Sample(torch.cat([union, sample.ids[other]]), torch.cat([ones, sample.expected[other]]))
