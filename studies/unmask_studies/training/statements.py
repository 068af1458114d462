"""From rows to statements: the l2 chosen, paired differences, and what they say of the paper's.

A *path* is the runs of one optimiser, problem, setting and repetition over l2. A rule picks one of
them by what can be known without true labels (for the setting trained on true labels: with them):

    loss     the smallest unbiased loss on observed validation labels, as the paper chooses
    recall   the largest deconvolved R@5 on observed validation labels
    truth    the largest true R@5 on the test rows: what hindsight would choose

A paper's statement is judged with the paper's optimiser and rule (Adam, l2 by loss), ours with the
converged solver and l2 by recall. Differences are taken repetition by repetition, with the same
split and masks: a statement holds where their mean exceeds their standard deviation, is
contradicted where it is below zero (or what was claimed) by more than that, and undecided between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from unmask import pages
from unmask._typing import Floats
from unmask_studies.study import Row, group_rows, statement
from unmask_studies.training.protocol import METRICS, PROBLEMS, RANKED

Path = tuple[str, str, str]  # optimiser, problem and setting
ALIKE = 2.0  # percent points within which results are called roughly equal


def _or(row: Row, clean: str, observed: str) -> float | None:
    value: float | None = row[clean if row["setting"] == "clean" else observed]
    return value


def _by_recall(row: Row) -> float:
    value = _or(row, "valid/true/R@5", "valid/seen/R@5/deconvolved")
    return -np.inf if value is None else value


# The higher, the better.
RULES: dict[str, Callable[[Row], float]] = {
    "loss": lambda row: -(_or(row, "valid/true/loss", "valid/seen/loss") or 0.0),
    "recall": _by_recall,
    "truth": lambda row: float(row["test/true/R@5"]),
}


@dataclass(frozen=True)
class Results:
    """The rows of all runs that ended in numbers, by path and repetition."""

    paths: dict[Path, dict[int, list[Row]]]

    def values(self, path: Path, rule: str, key: str) -> Floats:
        """Return a measure of the runs that a rule picks, one per repetition."""
        by = self.paths.get(path, {})
        chosen = [max(by[repetition], key=RULES[rule]) for repetition in sorted(by)]
        return _numbers(row.get(key) for row in chosen)

    def gain(self, better: Path, worse: Path, rule: str, key: str) -> Floats:
        """Return the difference of two paths, repetition by repetition: same split and masks."""
        both = [r for r in self.paths.get(better, {}) if r in self.paths.get(worse, {})]
        left, right = (
            _numbers(max(self.paths[path][r], key=RULES[rule])[key] for r in both)
            for path in (better, worse)
        )
        return left - right

    def over_l2(self, path: Path, key: str) -> tuple[list[float], Floats]:
        """Return a measure over l2: the l2 values, rising, and the values (repetitions × l2)."""
        by = self.paths.get(path, {})
        grid = sorted({row["l2"] for rows in by.values() for row in rows})
        values = np.full((len(by), len(grid)), np.nan)
        for number, repetition in enumerate(sorted(by)):
            for row in by[repetition]:
                values[number, grid.index(row["l2"])] = _numbers([row.get(key)])[0]
        return grid, values

    def shared(
        self, first: Path, second: Path, key: str, status: str = ""
    ) -> list[tuple[float, float]]:
        """Return a measure of two paths at every repetition and l2 where both have it."""
        left, right = (
            {(r["repetition"], r["l2"]): r.get(key) for rows in self.paths.get(path, {}).values()
             for r in rows if status in ("", r["status"])}
            for path in (first, second)
        )  # fmt: skip
        pairs = [(value, right.get(place)) for place, value in left.items()]
        return [(a, b) for a, b in pairs if a is not None and b is not None]

    def settings(self, optimizer: str, problem: str) -> list[str]:
        """Return those that have runs, in the order of the rows."""
        return [path[2] for path in self.paths if path[:2] == (optimizer, problem)]

    def best_l2(self, path: Path) -> float:
        """Return where the true test loss, averaged over repetitions, is smallest."""
        grid, values = self.over_l2(path, "test/true/loss")
        return grid[int(np.nanargmin(over_repetitions(values)[0]))]


def _numbers(values: Iterable[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype=float)


def collect(rows: list[Row]) -> Results:
    """Sort the rows; runs that diverged or were not run have no measures and are left out."""
    measured = [row for row in rows if row.get("test/true/R@5") is not None]
    paths: dict[Path, dict[int, list[Row]]] = {}
    for key, part in group_rows(measured, "optimizer", "problem", "setting", "repetition").items():
        paths.setdefault(key[:3], {})[key[3]] = part
    return Results(paths)


def outcome(gain: Floats, at_least: float = 0.0) -> bool | None:
    """Return whether paired differences exceed zero, and reach `at_least`, beyond their spread.

    None where they straddle it, or where there are fewer than two repetitions.

    >>> [outcome(np.array(gain)) for gain in ([0.3, 0.4, 0.2], [-0.3, -0.2], [0.9, 0.1, -0.1])]
    [True, False, None]
    """
    if len(gain) < 2 or not np.isfinite(gain).all():
        return None
    mean, spread = gain.mean(), gain.std(ddof=1)
    if mean > spread and mean >= at_least:
        return True
    return False if mean + spread < at_least else None


def gain_text(gain: Floats) -> str:
    """Return paired differences of shares in words: mean, deviation and how many are positive.

    >>> gain_text(np.array([0.011, 0.009, -0.002]))
    '+0.60 ± 0.70 points, positive in 2 of 3'
    """
    if len(gain) < 2:
        return f"{100 * gain.mean():+.2f} points" if len(gain) else "not run"
    return (
        f"{100 * gain.mean():+.2f} ± {100 * gain.std(ddof=1):.2f} points, positive in "
        f"{int((gain > 0).sum())} of {len(gain)}"
    )


def effect_text(gain: Floats, what: str = "") -> str:
    """Return the mean of paired differences of shares with its 95 % interval, by Student's t.

    >>> effect_text(np.array([0.011, 0.009, -0.002]), "R@5 ")
    'R@5 +0.60 points (-1.14 to +2.34)'
    """
    points = 100 * gain
    if len(gain) < 2:
        return f"{what}{points.mean():+.2f} points" if len(gain) else ""
    half = float(stdtrit(len(gain) - 1, 0.975)) * points.std(ddof=1) / np.sqrt(len(gain))
    middle = points.mean()
    return f"{what}{middle:+.2f} points ({middle - half:+.2f} to {middle + half:+.2f})"


def over_repetitions(values: Floats) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of every column, of what is a number; else NaN and 0.

    >>> over_repetitions(np.array([[1.0, np.nan], [3.0, np.nan]]))
    (array([ 2., nan]), array([1.41421356, 0.        ]))
    """
    finite = np.isfinite(values)
    count = finite.sum(axis=0)
    filled = np.where(finite, values, 0.0)
    middle = np.where(count > 0, filled.sum(axis=0) / np.maximum(count, 1), np.nan)
    square = np.where(finite, (values - middle) ** 2, 0.0).sum(axis=0)
    return middle, np.sqrt(square / np.maximum(count - 1, 1))


def mean(values: Floats) -> float:
    """Return the mean of what is a number."""
    return float(over_repetitions(np.ravel(values)[:, None])[0][0])


# Statements


def judged(results: Results) -> list[pages.Verdict]:
    """Return every statement, the paper's and ours, of which there are runs."""
    claims = (papers, best_regularisation, gaps, local_minima, ours)
    return [each for claim in claims for each in claim(results)]


R5, P5 = "test/true/R@5", "test/true/P@5"
# Problem, better and worse setting, the statement, and how many points it takes.
PAPERS = (
    ("ova-sqh", "bound", "unbiased", "bound is far better than unbiased", ALIKE),
    ("ova-n-bce", "vanilla", "unbiased", "unbiased is worse than vanilla", 0.0),
    ("ova-n-sqh", "vanilla", "unbiased", "unbiased is worse than vanilla", 0.0),
    ("pal-n-cce", "vanilla", "unbiased", "unbiased is worse than vanilla", 0.0),
    ("pal-n-cce", "bound", "vanilla", "bound is better than vanilla", 0.0),
)
# Problem, better setting, and the settings that it beats.
OURS = (
    ("pal-n-cce", "empirical_bayes", ("vanilla", "unbiased", "bound")),
    ("ova-n-bce", "empirical_bayes", ("vanilla", "unbiased")),
    ("pal-n-cce", "halved", ("vanilla", "unbiased", "bound", "empirical_bayes")),
    ("ova-n-bce", "halved", ("vanilla", "unbiased", "bound", "empirical_bayes")),
    ("pal-n-cce", RANKED, ("vanilla", "unbiased", "bound", "empirical_bayes")),
)


def papers(results: Results) -> Iterator[pages.Verdict]:
    """Yield which setting is better than which, by the paper's optimiser and rule."""
    pair = ("adam", "ova-bce", "unbiased"), ("adam", "ova-bce", "bound")
    gains = {m: results.gain(*pair, "loss", f"test/true/{m}") for m in METRICS}
    if all(map(len, gains.values())):
        worst = max(gains, key=lambda m: abs(gains[m].mean()))
        middle = 100 * gains[worst].mean()
        yield statement(
            "OvA BCE: unbiased and bound are about equal", bool(abs(middle) <= ALIKE),
            f"largest difference of the six metrics {middle:+.2f} points ({worst}); "
            + _both(results, "ova-bce", "unbiased", "bound"),
            f"{effect_text(gains[worst], f'{worst} ')}, the largest of six metrics",
        )  # fmt: skip
    for problem, better, worse, words, at_least in PAPERS:
        gain = results.gain(("adam", problem, better), ("adam", problem, worse), "loss", R5)
        if len(gain):
            yield statement(
                f"{PROBLEMS[problem].title}: {words}", outcome(gain, at_least / 100),
                _both(results, problem, better, worse),
                effect_text(gain, f"{better} − {worse}: R@5 "),
            )  # fmt: skip
    for plain, normalised in (("ova-bce", "ova-n-bce"), ("pal-cce", "pal-n-cce")):
        gain, solved = (
            results.gain((by, normalised, "vanilla"), (by, plain, "vanilla"), rule, R5)
            for by, rule in (("adam", "loss"), ("converged", "recall"))
        )
        if len(gain):
            yield statement(
                f"Vanilla training: {PROBLEMS[normalised].title} has better recall than plain",
                outcome(gain),
                f"R@5 {gain_text(gain)}; converged, l2 by recall: {gain_text(solved)}",
                effect_text(gain, "R@5 "),
            )


def _both(results: Results, problem: str, better: str, worse: str) -> str:
    """R@5 and P@5 differences under both optimisers, as far as there are any."""
    parts = []
    for optimizer, rule in (("adam", "loss"), ("adam", "recall"), ("converged", "recall")):
        pair = (optimizer, problem, better), (optimizer, problem, worse)
        if all(path in results.paths for path in pair):
            texts = (f"{k[-3:]} {gain_text(results.gain(*pair, rule, k))}" for k in (R5, P5))
            parts.append(f"{optimizer}, l2 by {rule}: {', '.join(texts)}")
    return f"{better} − {worse}: ".replace("_", " ") + "; ".join(parts)


def best_regularisation(results: Results) -> Iterator[pages.Verdict]:
    """Yield whether noise needs more regularisation."""
    for optimizer, shown in (("adam", "Adam"), ("converged", "converged")):
        for noisy, other, claim in (
            ("vanilla", "clean", "The best l2 is larger under noise than on clean labels"),
            ("unbiased", "vanilla", "The best l2 is larger for unbiased than for vanilla training"),
        ):
            best = {
                problem: [results.best_l2((optimizer, problem, each)) for each in (noisy, other)]
                for problem in PROBLEMS
                if {noisy, other} <= set(results.settings(optimizer, problem))
            }
            holds = [high > low for high, low in best.values()]
            said = (f"{PROBLEMS[p].title} {high:.0e} against {low:.0e}"
                    for p, (high, low) in best.items())  # fmt: skip
            if best:
                yield statement(
                    f"{claim} ({shown})", all(holds),
                    f"{'; '.join(said)} (smallest true test loss)",
                    f"in {sum(holds)} of {len(holds)} comparisons",
                )  # fmt: skip


def gaps(results: Results) -> Iterator[pages.Verdict]:
    """Yield whether the gap of noise is larger than that of the sample."""
    found = {}
    for setting in ("vanilla", "unbiased", "bound"):
        path = ("adam", "ova-bce", setting)
        if path in results.paths:
            best = results.over_l2(path, "l2")[0].index(results.best_l2(path))
            test, pattern, seen = (
                mean(results.over_l2(path, f"{key}/loss")[1][:, best])
                for key in ("test/true", "train/true", "train/seen")
            )
            found[setting] = (pattern - seen, test - pattern)
    if found:
        noise, sample = zip(*found.values(), strict=True)
        yield statement(
            "OvA BCE: the noise-pattern gap is much larger than the sample gap",
            all(a > 2 * b for a, b in found.values()),
            "; ".join(f"{name}: noise {a:.2f}, sample {b:.2f}" for name, (a, b) in found.items()),
            f"loss per row: noise {min(noise):.2f} to {max(noise):.2f}, sample {min(sample):.2f} "
            f"to {max(sample):.2f}",
        )


def local_minima(results: Results) -> Iterator[pages.Verdict]:
    """Yield whether unbiased OvA-N BCE ends in local minima, and what it does instead."""
    cold, warm, adam = (
        (optimizer, "ova-n-bce", setting)
        for optimizer, setting in (
            ("converged", "unbiased"), ("converged", "pretrained"), ("adam", "unbiased"))
    )  # fmt: skip
    promised = [row for path in (cold, adam) for rows in results.paths.get(path, {}).values()
                for row in rows]  # fmt: skip
    if not promised:
        return
    pairs = results.shared(cold, warm, "objective", "converged")
    spread = max((abs(a - b) / max(abs(a), 1.0) for a, b in pairs), default=np.nan)
    above = [a - b for a, b in results.shared(adam, cold, "objective")]
    missed = float(np.median(above)) if above else np.nan
    runaway = [row["runaway"] for row in promised]
    yield statement(
        "OvA-N BCE: unbiased training ends in bad local minima",
        not all(row["convex"] for row in promised),
        f"the objective is convex in every repetition, and the solver reaches objectives within "
        f"{spread:.1e} of each other (relative) from zero and from the vanilla optimum, wherever "
        "it converges from both", f"two starts end within {spread:.1e} of each other",
    )  # fmt: skip
    yield statement(
        "OvA-N BCE: with a bias outside the penalty the unbiased objective has no minimum",
        min(runaway) > 0,
        f"the bias alone drives {min(runaway)} to {max(runaway)} of 100 labels to minus infinity",
        f"{min(runaway)} to {max(runaway)} of 100 labels run away",
    )
    if above:
        yield statement(
            "OvA-N BCE: Adam does not reach the minimum of its objective", missed > 0,
            "its objective is above the converged one, which also penalises the bias, by "
            f"{missed:.3g} in the median", f"{missed:.3g} above it in the median",
        )  # fmt: skip


def ours(results: Results) -> Iterator[pages.Verdict]:
    """Yield what exact weights, converged solvers and empirical Bayes do to the conclusion."""
    for problem, better, others in OURS:
        for k in (3, 5):
            gains = {}
            for other in others:
                # where the solver cannot vouch for a minimum, Adam stands in for both
                by = "converged" if ("converged", problem, other) in results.paths else "adam"
                pair = (by, problem, better), (by, problem, other)
                gains[other, by] = results.gain(*pair, "recall", f"test/true/R@{k}")
            if not all(map(len, gains.values())):
                continue
            outcomes = [outcome(gain) for gain in gains.values()]
            rival = min(gains, key=lambda other: float(gains[other].mean()))
            value = mean(results.values(("converged", problem, better), "recall",
                                        f"test/true/R@{k}"))  # fmt: skip
            texts = (f"{name} ({by}) {gain_text(gain)}" for (name, by), gain in gains.items())
            claim = f"{PROBLEMS[problem].title}: {better} beats {', '.join(others)} in R@{k}"
            effect = f"{effect_text(gains[rival], f'R@{k} ')} over {rival[0]}, the closest"
            evidence = f"R@{k} {100 * value:.1f}; over {'; over '.join(texts)}"
            holds = False if False in outcomes else None if None in outcomes else True
            named = (text.replace("empirical_bayes", "empirical Bayes")
                     for text in (claim, evidence, effect))  # fmt: skip
            yield statement(next(named), holds, *named)
