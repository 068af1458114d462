"""Other normalised corrections that were tried for PAL-N, each beside those of the study.

All are weights 1/p_j times a guess of 1/N* (N* = true labels of a row), or a part of that:

- all at prediction: E[1/N* | m] alone in training, labels ranked by probability / p;
- tempered empirical Bayes: `empirical_bayes` for 1 + ½ (1/p − 1) in place of 1/p;
- posterior of a first model: E[1/N* | x, I], for every row its own. With η_j(x) of an unbiased OvA
  BCE model of the other half of the rows, an unseen label is there with probability
  r_j = η_j (1 − p_j) / (1 − η_j p_j), and

      E[1/N* | x, I] = ∫₀¹ t^{m−1} Π_{j∉I} (1 − r_j + r_j t) dt;

- true counts: 1/N* itself, which nobody has: what a perfect guess would be worth.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from unmask import linear
from unmask._sparse import entry_rows
from unmask.propensity import temper
from unmask.weights import Weights, empirical_bayes
from unmask.weights.corrections import with_values
from unmask_studies.training.protocol import Setting, Trial, smoothed

Floats = NDArray[np.float64]
FIRST_L2 = 1e-4
"""The regularisation of the first model."""


def all_at_prediction(trial: Trial) -> Weights:
    """E[1/N* | m]."""
    return smoothed(empirical_bayes(trial.train.observed, trial.propensity), trial.propensity, 1.0)


def tempered_bayes(trial: Trial) -> Weights:
    """Empirical Bayes halfway between no correction and the whole."""
    return empirical_bayes(trial.train.observed, temper(trial.propensity, 0.5))


def posterior(trial: Trial) -> Weights:
    """(1/p_j) E[1/N* | x, I] from a first model."""
    chance = _first_model(trial)
    return _times(trial, expected_share(trial.train.observed, trial.propensity, chance))


def true_counts(trial: Trial) -> Weights:
    """(1/p_j) / N*."""
    return _times(trial, 1 / np.maximum(np.diff(trial.train.true.indptr), 1))


def expected_share(observed: sp.csr_array, p: Floats, chance: Floats) -> Floats:
    """E[1/N* | x, I] of every row, for P(label true | x) in `chance`; 0 where no label can be.

    Two labels, one seen, the other there with probability 1/3: (2/3)·1 + (1/3)·½.

    >>> p, chance = np.array([0.5, 0.5]), np.array([[1.0, 0.5]])
    >>> expected_share(sp.csr_array([[1, 0]]), p, chance).round(6)
    array([0.833333])
    """
    present = chance * (1 - p) / (1 - chance * p)
    rows = entry_rows(observed)
    present[rows, observed.indices] = 1.0
    nodes, parts = np.polynomial.legendre.leggauss(observed.shape[1] // 2 + 1)  # exact
    total = np.zeros(observed.shape[0])
    for t, part in zip((1 + nodes) / 2, parts / 2, strict=True):
        total += part * (np.prod(1 + present * (t - 1), axis=1) - np.prod(1 - present, axis=1)) / t
    return total


def _first_model(trial: Trial) -> Floats:
    """P(label true | x) by models of the other half of the rows."""
    features, observed = trial.train.features, trial.train.observed
    half = np.random.default_rng(trial.seed).permutation(observed.shape[0]) % 2
    recipe = linear.Recipe(loss="logistic", correction="unbiased", l2=FIRST_L2, bias="free")
    chance = np.empty(observed.shape)
    for own in (0, 1):
        others, mine = half != own, half == own
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", linear.UnconvergedWarning)  # good enough for a guess
            model, _ = linear.train(
                features[others], observed[others], recipe, propensity=trial.propensity
            )
        chance[mine] = linear.probabilities(model, features[mine])
    return chance


def _times(trial: Trial, share: Floats) -> Weights:
    """1/p_j times one number per row."""
    observed = trial.train.observed
    values = np.repeat(share, np.diff(observed.indptr)) / trial.propensity[observed.indices]
    pos = with_values(observed, values)
    return Weights(pos, pos)


TRIED: dict[str, tuple[Setting, Callable[[Trial], Weights]]] = {
    "all at prediction": (Setting("", "", "all at prediction", later=1.0), all_at_prediction),
    "tempered empirical Bayes": (Setting("", "", "tempered empirical Bayes"), tempered_bayes),
    "posterior of a first model": (Setting("", "", "posterior of a first model"), posterior),
    "true counts": (Setting("", "", "true counts"), true_counts),
}
"""By name: how it is predicted with, and its weights."""
