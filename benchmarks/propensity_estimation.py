"""The other estimators of propensities against planted truth, and an audit of real masks.

    python benchmarks/propensity_estimation.py [STUDY ...] [--repeats N] [--data FOLDER]
                                               [--json FILE]

Studies: estimators (two annotations, a model's probabilities, known marginals; averages over N
planted data sets), jester (people's own gaps laid over complete ratings; skipped where FOLDER, or
UNMASK_DATA, is not there). Audits and the diagnosis have studies of their own:
`unmask reproduce propensity-recovery`, `diagnosis-power`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from results import add_json_option, write_json
from unmask import data, propensity
from unmask.diagnosis import diagnose
from unmask.metrics import evaluate
from unmask.predictions import TopK
from unmask_studies.data import counts_of
from unmask_studies.propensities import on_curve, scattered

L, N = 200, 8_000


def planted(n: int, seed: int) -> sp.csr_array:
    return data.synthetic.planted(n, n_labels=L, seed=seed).labels


def rmse(left: np.ndarray, right: np.ndarray) -> float:
    return float(np.sqrt(np.mean((left - right) ** 2)))


def estimators(repeats: int) -> dict[str, float]:
    """Two annotations, a model's probabilities, known marginals: error and coverage of p."""
    print("\nestimators. Truth: Jain curve a=0.9 b=6, labels scattered (logit sd 0.3); 2,000 rows")
    print("estimator | bias p | rmse p | coverage of 95 % intervals")
    numbers = {}
    for name, once in ESTIMATES.items():
        bias, error, cover = averages(once, repeats)
        print(f"{name:28s} | {bias:+.4f} | {error:.4f} | {cover:.3f}", flush=True)
        numbers |= {f"{name}: rmse of p": error, f"{name}: coverage": cover}
    return numbers


def averages(once: Callable[..., object], repeats: int) -> np.ndarray:
    """Bias, root mean square error and coverage of an estimator over several planted data sets."""
    found = []
    for seed in range(repeats):
        true = planted(N, seed)
        p = on_curve(counts_of(true), N, 0.9, 6.0)
        p = scattered(p, 0.3, seed)
        estimate, target = once(true[:2000], p, seed)
        inside = (estimate.low <= target) & (target <= estimate.high)
        found.append(
            [(estimate.value - target).mean(), rmse(estimate.value, target), inside.mean()]
        )
    return np.mean(found, axis=0)


def two_annotations(true: sp.csr_array, p: np.ndarray, seed: int, of: str) -> tuple:
    first, second = data.hide(true, p, seed=seed), data.hide(true, p * 0.7, seed=seed + 1)
    target = p if of == "first" else 1 - (1 - p) * (1 - 0.7 * p)
    return propensity.recapture(first, second, of=of, seed=seed), target


def from_probabilities(true: sp.csr_array, p: np.ndarray, seed: int, doubt: float) -> tuple:
    """Calibrated probabilities of a model that is sure of a share 1 − doubt of the true labels.

    The rest it knows at even odds only: π = 1/2.
    """
    certainty = np.where(np.random.default_rng(seed).random(true.nnz) < doubt, 0.5, 1.0)
    sure = sp.csr_array((certainty, true.indices, true.indptr), shape=true.shape)
    probabilities = sp.csr_array(sure.multiply(p[None, :]))
    return propensity.from_model(probabilities, data.hide(true, p, seed=seed), seed=seed), p


def marginals(true: sp.csr_array, p: np.ndarray, seed: int, true_n: int | None) -> tuple:
    share = np.maximum(counts_of(true), 0.5) / true.shape[0]
    population = share if true_n is None else np.maximum(
        np.random.default_rng(seed).binomial(true_n, share), 0.5
    ) / true_n  # fmt: skip
    return propensity.from_marginals(data.hide(true, p, seed=seed), population, true_n=true_n), p


ESTIMATES = {
    "audit, 300 rows": lambda t, p, s: (
        propensity.audit(data.hide(t[:300], p, seed=s), t[:300], curve="free", seed=s),
        p,
    ),
    "recapture, first": lambda t, p, s: two_annotations(t, p, s, "first"),
    "recapture, either": lambda t, p, s: two_annotations(t, p, s, "either"),
    "model, features decide": lambda t, p, s: from_probabilities(t, p, s, 0.0),
    "model, doubt about 30 %": lambda t, p, s: from_probabilities(t, p, s, 0.3),
    "marginals of 5,000 other rows": lambda t, p, s: marginals(t, p, s, 5000),
}


def jester(folder: Path) -> None:
    """Complete ratings of some people, seen through the gaps of others; 200 people are audited.

    The five jokes that most of the training people liked are predicted to everybody.
    """
    rated = data.read(folder / "train_rated.txt.gz").labels
    train = data.read(folder / "train.txt.gz").labels
    true = data.read(folder / "test.txt.gz").labels
    rng = np.random.default_rng(0)
    seen = sp.csr_array(true.multiply(rated[rng.permutation(rated.shape[0])[: true.shape[0]]]))
    audited = rng.permutation(true.shape[0])[:200]
    rest = np.setdiff1d(np.arange(true.shape[0]), audited)
    estimate = propensity.audit(
        seen[audited], true[audited], counts=counts_of(seen), n=true.shape[0], curve="free"
    )
    rates = np.asarray(rated.mean(axis=0)).ravel()
    inside = ((estimate.low <= rates) & (rates <= estimate.high)).mean()
    print(f"\njester5k: {estimate}; " + " ".join(estimate.notes))
    print(f"intervals that hold the rate of all masks: {inside:.2f}; "
          f"rmse {rmse(estimate.value, rates):.3f}")  # fmt: skip
    liked = counts_of(train) / np.maximum(counts_of(rated), 1)
    top = TopK.from_scores(np.tile(liked.astype(np.float32), (rest.size, 1)), 5)
    truth = evaluate(top, true[rest], metrics=["R@1", "R@5"], complete=True)
    asked = {"metrics": ["R@1", "R@5"], "estimators": ["vanilla", "unbiased", "deconvolved"]}
    print(f"on complete labels\n{truth}\non observed labels")
    print(evaluate(top, seen[rest], estimate, **asked))
    print(diagnose(seen, estimate, (seen[audited], true[audited])))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("study", nargs="*", choices=["estimators", "jester", []])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("UNMASK_DATA", "data")))
    add_json_option(parser)
    given = parser.parse_args()
    numbers: dict[str, float] = {}
    if not given.study or "estimators" in given.study:
        numbers = estimators(given.repeats)
    if not given.study or "jester" in given.study:
        folder = given.data / "jester5k"
        jester(folder) if folder.is_dir() else print(f"\njester: {folder} is not there; skipped")
    write_json(given.json, numbers)


if __name__ == "__main__":
    main()
