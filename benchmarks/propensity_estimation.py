"""Do the propensity estimators find the truth, and does the diagnosis know right from wrong?

    python benchmarks/propensity_estimation.py [STUDY ...] [--repeats N] [--data FOLDER]

Studies: recovery, estimators, plan, alarms, power, real (default: all; `real` is skipped where
FOLDER, or UNMASK_DATA, is not there). Data are planted: the truth is known, labels are hidden by
the true propensities, and every method sees what a user would see. Numbers are averages over N
repetitions.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from unmask import data, propensity
from unmask.diagnosis import Diagnosis, diagnose
from unmask.metrics import evaluate
from unmask.predictions import TopK

L, N_TRAIN, N_TEST = 200, 8_000, 4_000


def planted(n: int, seed: int) -> sp.csr_array:
    return data.synthetic.planted(n, n_labels=L, seed=seed).labels


def counts_of(labels: sp.csr_array) -> np.ndarray:
    return np.bincount(labels.indices, minlength=labels.shape[1])


def on_curve(true_counts: np.ndarray, n: int, a: float, b: float) -> np.ndarray:
    """Propensities that lie on the Jain curve of the counts that are left after hiding."""
    p = propensity.jain_curve(true_counts, n, a=a, b=b)
    for _ in range(100):
        p = propensity.jain_curve(true_counts * p, n, a=a, b=b)
    return p


def scatter(p: np.ndarray, sd: float, rng: np.random.Generator) -> np.ndarray:
    odds = p / (1 - p) * np.exp(sd * rng.standard_normal(p.size))
    return odds / (1 + odds)


def good_predictions(true_labels: sp.csr_array, k: int, seed: int, hidden: int = 0) -> TopK:
    """A model that ranks true labels well but not perfectly, and knows nothing of the masks.

    It never predicts the `hidden` most frequent labels.
    """
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=true_labels.shape) + 2.2 * true_labels.toarray()
    scores[:, np.argsort(-counts_of(true_labels))[:hidden]] = -np.inf
    return TopK.from_scores(scores.astype(np.float32), k)


def table(title: str, head: str, rows: Iterator[str]) -> None:
    print(f"\n{title}\n{head}")
    for row in rows:
        print(row, flush=True)


def recovery(repeats: int) -> None:
    """Audits of 100, 300, 1000 rows against the constants in common use."""
    for title, constants, sd in (
        ("Truth: Jain curve with a=0.9, b=6", (0.9, 6.0), 0.0),
        ("Truth: labels scattered around that curve (logit sd 0.5)", (0.9, 6.0), 0.5),
        ("Truth: the default curve, a=0.55, b=1.5", (0.55, 1.5), 0.0),
    ):
        table(
            f"recovery. {title}",
            "rows | rmse p: audit, default | cover p | cover a, b | width p | "
            "R@5 error: audit, default | PSP@5 error: audit, default | s",
            (recovery_row(rows, *constants, sd, repeats) for rows in (100, 300, 1000)),
        )


def recovery_row(rows: int, a: float, b: float, sd: float, repeats: int) -> str:
    found = np.array([recovery_once(rows, a, b, sd, seed) for seed in range(repeats)])
    rms, mean = np.sqrt((found**2).mean(axis=0)), found.mean(axis=0)
    return (
        f"{rows:4d} | {rms[0]:.4f} {rms[1]:.4f} | {mean[2]:.3f} | {mean[3]:.2f} {mean[4]:.2f} | "
        f"{mean[5]:.3f} | {rms[6]:.4f} {rms[7]:.4f} | {rms[8]:.4f} {rms[9]:.4f} | {mean[10]:.1f}"
    )


def recovery_once(rows: int, a: float, b: float, sd: float, seed: int) -> list[float]:
    rng = np.random.default_rng(seed)
    true = planted(N_TRAIN + rows + N_TEST, seed)
    train, audited, test = true[:N_TRAIN], true[N_TRAIN:-N_TEST], true[-N_TEST:]
    p = scatter(on_curve(counts_of(train), N_TRAIN, a, b), sd, rng)
    counts = counts_of(data.hide(train, p, seed=seed))
    start = time.perf_counter()
    estimate = propensity.audit(
        data.hide(audited, p, seed=seed + 1), audited, counts=counts, n=N_TRAIN, seed=seed
    )
    seconds = time.perf_counter() - start
    default = propensity.jain_curve(counts, N_TRAIN)
    ends = estimate.curve.intervals
    top, seen = good_predictions(test, 5, seed), data.hide(test, p, seed=seed + 2)
    truth, ours, theirs = (scores(top, seen, q) for q in (p, estimate, default))
    return [
        rmse(estimate.value, p),
        rmse(default, p),
        ((estimate.low <= p) & (p <= estimate.high)).mean(),
        ends["a"][0] <= a <= ends["a"][1],
        ends["b"][0] <= b <= ends["b"][1],
        (estimate.high - estimate.low).mean(),
        *(ours[0] - truth[0], theirs[0] - truth[0], ours[1] - truth[1], theirs[1] - truth[1]),
        seconds,
    ]


def scores(top: TopK, seen: sp.csr_array, p: object) -> tuple[float, float]:
    """R@5 and PSP@5 with these propensities, on the same masks for everybody."""
    found = evaluate(
        top, seen, p, metrics=["R@5", "PSP@5"], estimators=["unbiased", "deconvolved", "normalized"]
    )
    return found["R@5", "deconvolved"].value, found["PSP@5", "normalized"].value


def rmse(left: np.ndarray, right: np.ndarray) -> float:
    return float(np.sqrt(np.mean((left - right) ** 2)))


def estimators(repeats: int) -> None:
    """Two annotations, a model's probabilities, known marginals: error and coverage of p."""
    table(
        "estimators. Truth: Jain curve a=0.9 b=6, labels scattered (logit sd 0.3); 2,000 rows",
        "estimator | bias p | rmse p | coverage of 95 % intervals",
        (estimator_row(name, once, repeats) for name, once in ESTIMATES.items()),
    )


def estimator_row(name: str, once: Callable[..., object], repeats: int) -> str:
    found = []
    for seed in range(repeats):
        true = planted(N_TRAIN, seed)
        p = on_curve(counts_of(true), N_TRAIN, 0.9, 6.0)
        p = scatter(p, 0.3, np.random.default_rng(seed))
        estimate, target = once(true[:2000], p, seed)
        inside = (estimate.low <= target) & (target <= estimate.high)
        found.append(
            [(estimate.value - target).mean(), rmse(estimate.value, target), inside.mean()]
        )
    bias, error, cover = np.mean(found, axis=0)
    return f"{name:28s} | {bias:+.4f} | {error:.4f} | {cover:.3f}"


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


def plan(repeats: int) -> None:
    """Error of unbiased P@5 with estimated propensities: planned audit against blind audit."""
    for title, hidden in (
        ("a model for all labels", 0),
        ("a model for all but the 40 largest", 40),
    ):
        table(
            f"plan. Error of P@5 against complete labels (rms over repetitions), {title}",
            "budget | planned rows | blind rows | ratio | ratio that the plan promised",
            (plan_row(budget, hidden, repeats) for budget in (50, 150, 400)),
        )


def plan_row(budget: int, hidden: int, repeats: int) -> str:
    planned, blind, promised = [], [], []
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        true = planted(N_TEST, seed)
        p = scatter(on_curve(counts_of(true), N_TEST, 0.9, 6.0), 0.5, rng)
        seen, top = data.hide(true, p, seed=seed), good_predictions(true, 5, seed, hidden)
        counts = counts_of(seen)
        guess = propensity.jain_curve(counts, N_TEST)
        chosen = propensity.audit_plan(top, seen, guess, budget=budget)
        exact = precision(top, true, np.ones(L))
        for rows, errors in ((chosen.rows, planned), (rng.permutation(N_TEST)[:budget], blind)):
            p_hat = propensity.audit(seen[rows], true[rows], counts=counts, n=N_TEST, curve="free")
            errors.append(precision(top, seen, p_hat) - exact)
        promised.append(chosen.after / chosen.uniform)
    ours, theirs = (float(np.sqrt(np.mean(np.square(e)))) for e in (planned, blind))
    return (
        f"{budget:4d} | {ours:.4f} | {theirs:.4f} | {ours / theirs:.2f} | {np.mean(promised):.2f}"
    )


def precision(top: TopK, seen: sp.csr_array, p: object) -> float:
    return evaluate(top, seen, p, metrics=["P@5"], estimators=["unbiased"])["P@5", "unbiased"].value


def violated(found: Diagnosis) -> list[str]:
    return [test.name for test in found.tests if test.adjusted <= 0.05]


VALID = {
    "planted, Jain": lambda n, s: (t := planted(n, s), propensity.jain(t)),
    "planted, p = 0.3": lambda n, s: (planted(n, s), np.full(L, 0.3)),
    "planted, 1/2 … 1/20": lambda n, s: (t := planted(n, s), propensity.inverse_linear(t)),
    "independent, p = 0.5": lambda n, s: (
        data.synthetic.independent(n, 100, seed=s),
        np.full(100, 0.5),
    ),
    "6 labels in every row, p = 0.5": lambda n, s: (fixed_count(n, s), np.full(L, 0.5)),
    "head p = 0.95 with few, tail p = 0.1": lambda n, s: (
        planted(n, s),
        np.where(np.arange(L) % 2, 0.95, 0.1),
    ),
}


def fixed_count(n: int, seed: int) -> sp.csr_array:
    """Every row has exactly six labels: the boundary of what thinning allows."""
    chosen = np.random.default_rng(seed).random((n, L)).argpartition(6, axis=1)[:, :6]
    rows = np.repeat(np.arange(n), 6)
    return sp.csr_array((np.ones(6 * n, np.float32), (rows, chosen.ravel())), shape=(n, L))


def alarms(repeats: int) -> None:
    """How often valid data are called a violation (the bar: 5 %)."""
    table(
        "alarms. Share of valid data sets with any violation; 3,000 rows, audit of 300",
        "data | without audit | with audit",
        (alarm_row(name, make, repeats) for name, make in VALID.items()),
    )


def alarm_row(name: str, make: Callable, repeats: int) -> str:
    found = []
    for seed in range(repeats):
        true, p = make(3300, seed)
        seen = data.hide(true, p, seed=seed + 7)
        alone = diagnose(seen[:3000], p, seed=seed)
        audited = diagnose(seen[:3000], p, (seen[3000:], true[3000:]), seed=seed)
        found.append([bool(violated(alone)), bool(violated(audited))])
    without, with_audit = np.mean(found, axis=0)
    return f"{name:38s} | {without:.3f} | {with_audit:.3f}"


def keep_one(true: sp.csr_array, p: np.ndarray, share: float, rng: np.random.Generator) -> tuple:
    """Rows that lost everything get one of their labels back, in this share of cases."""
    seen = data.hide(true, p, seed=int(rng.integers(1 << 30)))
    lost = (np.diff(seen.indptr) == 0) & (np.diff(true.indptr) > 0)
    saved = np.flatnonzero(lost & (rng.random(lost.size) < share))
    entries = true.indptr[saved] + rng.integers(np.diff(true.indptr)[saved])
    extra = sp.csr_array(
        (np.ones(saved.size, np.float32), (saved, true.indices[entries])), shape=true.shape
    )
    return sp.csr_array(seen + extra), p


def too_low(true: sp.csr_array, p: np.ndarray, strength: float, rng: np.random.Generator) -> tuple:
    """The stated propensities are a share too low."""
    return data.hide(true, p, seed=int(rng.integers(1 << 30))), p * (1 - strength)


def by_entry(
    true: sp.csr_array, p: np.ndarray, shift: np.ndarray, rng: np.random.Generator
) -> tuple:
    """Labels kept with logit p_j + shift of the entry."""
    logit = np.log(p / (1 - p))[true.indices] + shift
    chance = sp.csr_array((1 / (1 + np.exp(-logit)), true.indices, true.indptr), shape=true.shape)
    return data.hide(true, chance, seed=int(rng.integers(1 << 30))), p


def by_number(true: sp.csr_array, p: np.ndarray, s: float, rng: np.random.Generator) -> tuple:
    """The odds of being kept fall with the number of labels: factor e^(−s) per doubling."""
    size = np.log2(np.repeat(np.diff(true.indptr), np.diff(true.indptr)))
    return by_entry(true, p, -s * (size - size.mean()), rng)


def by_row(true: sp.csr_array, p: np.ndarray, s: float, rng: np.random.Generator) -> tuple:
    """Some rows are annotated better than others: logit sd s between rows."""
    per_row = s * rng.standard_normal(true.shape[0])
    return by_entry(true, p, np.repeat(per_row, np.diff(true.indptr)), rng)


def by_label(true: sp.csr_array, p: np.ndarray, s: float, rng: np.random.Generator) -> tuple:
    """Wherever the most frequent label is present, other labels are kept less: logit − s."""
    present = true[:, [int(np.argmax(counts_of(true)))]].toarray().ravel() > 0
    return by_entry(true, p, -s * np.repeat(present, np.diff(true.indptr)), rng)


VIOLATIONS: dict[str, tuple[Callable, tuple[float, ...], str, bool]] = {
    "rows keep at least one label (share saved)": (keep_one, (0.5, 0.75, 1), "empty", False),
    "stated propensities too low (share), no audit": (too_low, (0.3, 0.6, 0.8), "", False),
    "stated propensities too low (share)": (too_low, (0.03, 0.1, 0.3), "agrees", True),
    "keeping depends on number (logit per doubling)": (by_number, (0.1, 0.3, 0.6), "number", True),
    "keeping depends on row (logit sd)": (by_row, (0.3, 0.7, 1.5), "row", True),
    "keeping depends on a label (logit)": (by_label, (0.5, 1, 2), "other labels", True),
}


def power(repeats: int) -> None:
    """How often each violation is found, by strength: any test, and the test made for it."""
    table(
        "power. planted, Jain propensities, 3,000 rows; audit of 600 rows where one is needed",
        "violation | strength: any violation found, the test meant for it",
        (power_row(name, *spec, repeats) for name, spec in VIOLATIONS.items()),
    )


def power_row(
    name: str, break_it: Callable, strengths: tuple, word: str, needs_audit: bool, repeats: int
) -> str:
    cells = []
    for strength in strengths:
        found = []
        for seed in range(repeats):
            true, rng = planted(3600, seed), np.random.default_rng(seed)
            seen, p = break_it(true, propensity.jain(true), strength, rng)
            audit = (seen[3000:], true[3000:]) if needs_audit else None
            names = violated(diagnose(seen[:3000], p, audit, seed=seed))
            found.append([bool(names), any(word in test for test in names)])
        any_test, meant = np.mean(found, axis=0)
        cells.append(f"{strength:g}: {any_test:.2f} {meant:.2f}")
    return f"{name:46s} | " + " | ".join(cells)


def real(folder: Path) -> None:
    """Verdicts on real data, and R@5 on jester5k from an audit of 200 rows."""
    if not folder.is_dir():
        print(f"\nreal: {folder} is not there; skipped")
        return
    for name in ("bibtex-xc", "delicious", "debtags-bookworm"):
        labels = data.read(folder / name / "train.txt.gz").labels
        print(f"\n{name}, Jain propensities\n{diagnose(labels, propensity.jain(labels))}")
    jester(folder / "jester5k")


def jester(folder: Path) -> None:
    """Complete labels of the test users, seen through the masks of real training users."""
    rated = data.read(folder / "train_rated.txt.gz").labels
    true = data.read(folder / "test.txt.gz").labels
    rng = np.random.default_rng(0)
    masks = rated[rng.permutation(rated.shape[0])[: true.shape[0]]]
    seen = sp.csr_array(true.multiply(masks))
    counts = counts_of(seen)
    estimate = propensity.audit(
        seen[:200], true[:200], counts=counts, n=true.shape[0], curve="free"
    )
    print(f"\njester5k: {estimate}; rates of all masks {rated.mean(axis=0).min():.2f} to "
          f"{rated.mean(axis=0).max():.2f}; " + " ".join(estimate.notes))  # fmt: skip
    rates = np.asarray(rated.mean(axis=0)).ravel()
    inside = ((estimate.low <= rates) & (rates <= estimate.high)).mean()
    print(
        f"intervals that hold the rate of all masks: {inside:.2f}; "
        f"rmse {rmse(estimate.value, rates):.3f}"
    )
    popular = np.tile(counts_of(true).astype(np.float32), (true.shape[0], 1))
    top = TopK.from_scores(popular, 5)
    truth = evaluate(top, true, np.ones(90), metrics=["R@5"], estimators=["vanilla"])
    corrected = evaluate(
        top,
        seen,
        estimate,
        metrics=["R@5"],
        estimators=["vanilla", "bound", "unbiased", "deconvolved"],
    )
    print(
        "R@5 of the five most popular jokes on complete labels: "
        f"{truth['R@5', 'vanilla'].value:.4f}"
    )
    print(corrected)
    print(diagnose(seen, estimate, (seen[:200], true[:200])))


STUDIES = {
    "recovery": recovery,
    "estimators": estimators,
    "plan": plan,
    "alarms": alarms,
    "power": power,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("study", nargs="*", choices=[*STUDIES, "real", []])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("UNMASK_DATA", "data")))
    given = parser.parse_args()
    for name in given.study or [*STUDIES, "real"]:
        if name == "real":
            real(given.data)
        else:
            STUDIES[name](given.repeats)


if __name__ == "__main__":
    main()
