"""The paper's statements about training, and ours, as checks on the rows.

A paper's statement is judged with the paper's optimiser and rule (Adam, l2 by the unbiased loss on
observed validation labels); the same under the converged solver stands in its evidence. "Better"
means beyond the spread: the mean of the differences, repetition by repetition with the same split
and masks, exceeds their standard deviation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from unmask import report
from unmask_studies.runs import Row, statement
from unmask_studies.training.protocol import METRICS, PROBLEMS, RANKED
from unmask_studies.training.results import (
    Path,
    Results,
    beyond_spread,
    collect,
    effect_text,
    gain_text,
    mean,
    over_repetitions,
)

R5, P5 = "test/true/R@5", "test/true/P@5"
OPTIMIZERS = {"adam": "Adam", "converged": "converged"}
"""What claims call the optimisers."""
ALIKE = 2.0
"""Percent points within which results are called roughly equal."""


def papers(results: Results) -> list[report.Verdict]:
    """What the paper says, on these data."""
    return [verdict for check in CHECKS for verdict in check(results)]


def _unbiased_like_bound(results: Results) -> Iterable[report.Verdict]:
    pair = ("adam", "ova-bce", "unbiased"), ("adam", "ova-bce", "bound")
    gains = {m: 100 * results.gain(*pair, "loss", f"test/true/{m}") for m in METRICS}
    if not all(len(gain) for gain in gains.values()):
        return [_untested("OvA BCE: unbiased and bound are about equal")]
    worst = max(gains, key=lambda m: abs(gains[m].mean()))
    return [
        statement(
            "OvA BCE: unbiased and bound are about equal",
            bool(abs(gains[worst].mean()) <= ALIKE),
            f"largest difference of the six metrics {gains[worst].mean():+.2f} points ({worst}); "
            + _both(results, "ova-bce", "unbiased", "bound"),
            f"{worst} {effect_text(gains[worst] / 100)}, the largest of six metrics",
        )
    ]


def _bound_for_hinge(results: Results) -> Iterable[report.Verdict]:
    yield _better(results, "ova-sqh", "bound", "unbiased", "OvA squared hinge: bound is far better "
                  "than unbiased", at_least=ALIKE)  # fmt: skip


def _unbiased_fails_when_normalised(results: Results) -> Iterable[report.Verdict]:
    for problem in ("ova-n-bce", "ova-n-sqh", "pal-n-cce"):
        title = f"{PROBLEMS[problem].title}: unbiased is worse than vanilla"
        yield _better(results, problem, "vanilla", "unbiased", title)


def _bound_for_softmax(results: Results) -> Iterable[report.Verdict]:
    yield _better(
        results, "pal-n-cce", "bound", "vanilla", "PAL-N CCE: bound is better than vanilla"
    )


def _noise_needs_regularisation(results: Results) -> Iterable[report.Verdict]:
    for optimizer in ("adam", "converged"):
        for noisy, other, claim in (
            ("vanilla", "clean", "The best l2 is larger under noise than on clean labels"),
            ("unbiased", "vanilla", "The best l2 is larger for unbiased than for vanilla training"),
        ):
            yield _larger_l2(results, f"{claim} ({OPTIMIZERS[optimizer]})", noisy, other, optimizer)


def _larger_l2(
    results: Results, claim: str, noisy: str, other: str, optimizer: str
) -> report.Verdict:
    compared, holds = [], []
    for problem in PROBLEMS:
        paths = [(optimizer, problem, setting) for setting in (noisy, other)]
        if not all(path in results.paths for path in paths):
            continue
        high, low = (best_l2(results, path) for path in paths)
        holds.append(high > low)
        compared.append(f"{PROBLEMS[problem].title} {high:.0e} against {low:.0e}")
    if not holds:
        return _untested(claim)
    evidence = "; ".join(compared) + " (smallest true test loss)"
    return statement(claim, all(holds), evidence, f"in {sum(holds)} of {len(holds)} comparisons")


def best_l2(results: Results, path: Path) -> float:
    """Where the true test loss, averaged over repetitions, is smallest."""
    grid, values = results.over_l2(path, "test/true/loss")
    return grid[int(np.nanargmin(over_repetitions(values)[0]))]


def _noise_gap_dominates(results: Results) -> Iterable[report.Verdict]:
    claim = "OvA BCE: the noise-pattern gap is much larger than the sample gap"
    evidence, holds, noise_gaps, sample_gaps = [], [], [], []
    for setting in ("vanilla", "unbiased", "bound"):
        path = ("adam", "ova-bce", setting)
        if path not in results.paths:
            continue
        best = results.over_l2(path, "l2")[0].index(best_l2(results, path))
        test, pattern, observed = (
            mean(results.over_l2(path, key)[1][:, best])
            for key in ("test/true/loss", "train/true/loss", "train/seen/loss")
        )
        noise, sample = pattern - observed, test - pattern
        noise_gaps.append(noise)
        sample_gaps.append(sample)
        holds.append(noise > 2 * sample)
        evidence.append(f"{setting}: noise {noise:.2f}, sample {sample:.2f}")
    if not holds:
        return [_untested(claim)]
    effect = (
        f"loss per row: noise {min(noise_gaps):.2f} to {max(noise_gaps):.2f}, "
        f"sample {min(sample_gaps):.2f} to {max(sample_gaps):.2f}"
    )
    return [statement(claim, all(holds), "; ".join(evidence), effect)]


def _normalised_recalls_better(results: Results) -> Iterable[report.Verdict]:
    for plain, normalised in (("ova-bce", "ova-n-bce"), ("pal-cce", "pal-n-cce")):
        claim = f"Vanilla training: {PROBLEMS[normalised].title} has better recall than plain"
        pair = ("adam", normalised, "vanilla"), ("adam", plain, "vanilla")
        solved = ("converged", normalised, "vanilla"), ("converged", plain, "vanilla")
        gain = results.gain(*pair, "loss", R5)
        evidence = f"R@5 {_gain_text(gain)}; converged, l2 by recall: "
        evidence += _gain_text(results.gain(*solved, "recall", R5))
        yield statement(claim, beyond_spread(gain), evidence, _effect("R@5", gain))


def _better(
    results: Results, problem: str, better: str, worse: str, claim: str, at_least: float = 0.0
) -> report.Verdict:
    gain = results.gain(("adam", problem, better), ("adam", problem, worse), "loss", R5)
    holds = beyond_spread(gain)
    if holds is not None:
        holds = holds and bool(100 * gain.mean() >= at_least)
    effect = _effect(f"{better} − {worse}: R@5", gain)
    return statement(claim, holds, _both(results, problem, better, worse), effect)


def _effect(metric: str, gain: np.ndarray) -> str:
    """The paired difference with its interval, if there is one."""
    return f"{metric} {effect_text(gain)}" if len(gain) else ""


def _both(results: Results, problem: str, better: str, worse: str) -> str:
    """R@5 and P@5 differences under both optimisers, as far as there are any."""
    parts = []
    for optimizer, rule in (("adam", "loss"), ("adam", "recall"), ("converged", "recall")):
        pair = (optimizer, problem, better), (optimizer, problem, worse)
        if all(path in results.paths for path in pair):
            texts = ", ".join(
                f"{key[-3:]} {_gain_text(results.gain(*pair, rule, key))}" for key in (R5, P5)
            )
            parts.append(f"{optimizer}, l2 by {rule}: {texts}")
    return f"{better} − {worse}: ".replace("_", " ") + ("; ".join(parts) or "no such runs")


def _gain_text(gain: np.ndarray) -> str:
    return gain_text(gain) if len(gain) else "not run"


def _untested(claim: str) -> report.Verdict:
    return statement(claim, None, "there are no such runs")


CHECKS: tuple[Callable[[Results], Iterable[report.Verdict]], ...] = (
    _unbiased_like_bound,
    _bound_for_hinge,
    _unbiased_fails_when_normalised,
    _bound_for_softmax,
    _noise_needs_regularisation,
    _noise_gap_dominates,
    _normalised_recalls_better,
)
"""The paper's statements, in its order."""


def local_minima(results: Results, rows: list[Row]) -> list[report.Verdict]:
    """The paper's explanation of what happens to OvA-N BCE, taken apart."""
    own = [row for row in rows if row["problem"] == "ova-n-bce" and row["setting"] == "unbiased"]
    promised = [row for row in own if "convex" in row]
    if not promised:
        return [_untested("OvA-N BCE: unbiased training ends in bad local minima")]
    runaway = [row["runaway"] for row in promised]
    spread = _spread_of_starts(results)
    missed = _missed_by_adam(results)
    return [
        statement(
            "OvA-N BCE: unbiased training ends in bad local minima",
            not all(row["convex"] for row in promised),
            "the objective is convex in every repetition, and the solver reaches "
            f"objectives within {spread:.1e} of each other (relative) from zero and from the "
            "vanilla optimum, wherever it converges from both",
            f"two starts end within {spread:.1e} of each other",
        ),
        statement(
            "OvA-N BCE: with a bias outside the penalty the unbiased objective has no minimum",
            min(runaway) > 0,
            f"the bias alone drives {min(runaway)} to {max(runaway)} of 100 labels to minus "
            "infinity",
            f"{min(runaway)} to {max(runaway)} of 100 labels run away",
        ),
        statement(
            "OvA-N BCE: Adam does not reach the minimum of its objective",
            None if np.isnan(missed) else missed > 0,
            f"its objective is above the converged one, which also penalises the bias, by "
            f"{missed:.3g} in the median",
            "" if np.isnan(missed) else f"{missed:.3g} above it in the median",
        ),
    ]


def _spread_of_starts(results: Results) -> float:
    """The largest relative difference between the objectives from two starts."""
    cold, warm = ("converged", "ova-n-bce", "unbiased"), ("converged", "ova-n-bce", "pretrained")
    settled = collect([r for r in results.rows([cold, warm]) if r["status"] == "converged"])
    pairs = [pair for each in settled.shared(cold, warm, "objective").values() for pair in each]
    return max((abs(a - b) / max(abs(a), 1.0) for a, b in pairs), default=float("nan"))


def _missed_by_adam(results: Results) -> float:
    """By how much, in the median, Adam's objective lies above the solver's."""
    first, second = ("adam", "ova-n-bce", "unbiased"), ("converged", "ova-n-bce", "unbiased")
    shared = results.shared(first, second, "objective")
    missed = [a - b for pairs in shared.values() for a, b in pairs]
    return float(np.median(missed)) if missed else float("nan")


def ours(results: Results) -> list[report.Verdict]:
    """What exact weights, converged solvers and empirical Bayes do to the paper's conclusion."""
    claims = []
    for problem, better, others in (
        ("pal-n-cce", "empirical_bayes", ("vanilla", "unbiased", "bound")),
        ("ova-n-bce", "empirical_bayes", ("vanilla", "unbiased")),
        ("pal-n-cce", "halved", ("vanilla", "unbiased", "bound", "empirical_bayes")),
        ("ova-n-bce", "halved", ("vanilla", "unbiased", "bound", "empirical_bayes")),
        ("pal-n-cce", RANKED, ("vanilla", "unbiased", "bound", "empirical_bayes")),
    ):
        for k in (3, 5):
            claims.append(_beats(results, problem, better, others, k))
    return claims


def _beats(
    results: Results, problem: str, better: str, others: tuple[str, ...], k: int
) -> report.Verdict:
    key = f"test/true/R@{k}"
    holds, gains, texts = [], {}, []
    for other in others:
        # where the solver cannot vouch for a minimum, Adam stands in for both
        optimizer = "converged" if ("converged", problem, other) in results.paths else "adam"
        pair = (optimizer, problem, better), (optimizer, problem, other)
        gain = results.gain(*pair, "recall", key)
        holds.append(beyond_spread(gain))
        gains[other] = gain
        texts.append(f"{other} ({optimizer}) {_gain_text(gain)}")
    claim = _named(f"{PROBLEMS[problem].title}: {better} beats {', '.join(others)} in R@{k}")
    verdict = None if None in holds else all(holds)
    value = mean(results.values(("converged", problem, better), "recall", key))
    evidence = f"R@{k} {100 * value:.1f}; over {'; over '.join(texts)}"
    run = {other: gain for other, gain in gains.items() if len(gain)}
    rival = min(run, key=lambda other: float(run[other].mean()), default="")
    effect = f"{_effect(f'R@{k}', run[rival])} over {rival}, the closest" if rival else ""
    return statement(claim, verdict, _named(evidence), _named(effect))


def _named(text: str) -> str:
    """Names of settings as people write them."""
    return text.replace("empirical_bayes", "empirical Bayes")
