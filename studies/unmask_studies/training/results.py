"""From rows to what they say: the l2 chosen, means over repetitions, paired differences.

A *path* is the runs of one optimiser, problem, setting and repetition over l2. A rule picks one of
them by what can be known without true labels (for the setting trained on true labels: with them):

    loss     the smallest unbiased loss on observed validation labels, as the paper chooses
    recall   the largest deconvolved R@5 on observed validation labels
    truth    the largest true R@5 on the test rows: what hindsight would choose
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from unmask_studies.runs import Row, group_rows

Path = tuple[str, str, str]
"""Optimiser, problem and setting."""


def _by_loss(row: Row) -> float:
    return -float(row["valid/true/loss" if row["setting"] == "clean" else "valid/seen/loss"])


def _by_recall(row: Row) -> float:
    clean = row["setting"] == "clean"
    value = row["valid/true/R@5" if clean else "valid/seen/R@5/deconvolved"]
    return -np.inf if value is None else float(value)


def _by_truth(row: Row) -> float:
    return float(row["test/true/R@5"])


RULES: dict[str, Callable[[Row], float]] = {
    "loss": _by_loss,
    "recall": _by_recall,
    "truth": _by_truth,
}
"""The higher, the better."""


@dataclass(frozen=True)
class Results:
    """The rows of all runs that ended in numbers, by path and repetition."""

    paths: dict[Path, dict[int, list[Row]]]

    def chosen(self, path: Path, rule: str) -> list[Row]:
        """The run that a rule picks, for every repetition; empty where there are none."""
        by = self.paths.get(path, {})
        return [max(by[repetition], key=RULES[rule]) for repetition in sorted(by)]

    def values(self, path: Path, rule: str, key: str) -> np.ndarray:
        """A measure of the chosen runs, one per repetition."""
        values = [row.get(key) for row in self.chosen(path, rule)]
        return np.array([np.nan if value is None else value for value in values], dtype=float)

    def gain(self, better: Path, worse: Path, rule: str, key: str) -> np.ndarray:
        """The difference of two paths, repetition by repetition: same split, same masks."""
        both = [r for r in self.paths.get(better, {}) if r in self.paths.get(worse, {})]
        left, right = (
            np.array([max(self.paths[path][r], key=RULES[rule])[key] for r in both], dtype=float)
            for path in (better, worse)
        )
        return np.asarray(left - right)

    def over_l2(self, path: Path, key: str) -> tuple[list[float], np.ndarray]:
        """A measure over l2: the l2 values, rising, and the values (repetitions × l2)."""
        grid = sorted({row["l2"] for row in self._runs(path)})
        table = np.full((len(self.paths.get(path, {})), len(grid)), np.nan)
        for row_number, repetition in enumerate(sorted(self.paths.get(path, {}))):
            for row in self.paths[path][repetition]:
                value = row.get(key)
                table[row_number, grid.index(row["l2"])] = np.nan if value is None else value
        return grid, table

    def shared(self, first: Path, second: Path, key: str) -> dict[float, list[tuple[float, float]]]:
        """A measure of two paths where both have it: by l2, a pair for every repetition."""
        pairs: dict[float, list[tuple[float, float]]] = {}
        left, right = (
            {(row["repetition"], row["l2"]): row.get(key) for row in self._runs(path)}
            for path in (first, second)
        )
        for (repetition, l2), value in left.items():
            other = right.get((repetition, l2))
            if value is not None and other is not None:
                pairs.setdefault(l2, []).append((value, other))
        return pairs

    def rows(self, paths: list[Path]) -> list[Row]:
        """All runs of some paths."""
        return [row for path in paths for row in self._runs(path)]

    def _runs(self, path: Path) -> list[Row]:
        return [row for rows in self.paths.get(path, {}).values() for row in rows]

    def settings(self, optimizer: str, problem: str) -> list[str]:
        """Those that have runs, in the order of the rows."""
        return [path[2] for path in self.paths if path[:2] == (optimizer, problem)]


def collect(rows: list[Row]) -> Results:
    """Sort the rows; runs that diverged or were not run have no measures and are left out."""
    measured = [row for row in rows if row.get("test/true/R@5") is not None]
    paths: dict[Path, dict[int, list[Row]]] = {}
    for key, part in group_rows(measured, "optimizer", "problem", "setting", "repetition").items():
        optimizer, problem, setting, repetition = key
        paths.setdefault((optimizer, problem, setting), {})[repetition] = part
    return Results(paths)


def beyond_spread(gain: np.ndarray) -> bool | None:
    """Whether the mean of paired differences exceeds their standard deviation.

    None where there are fewer than two repetitions.

    >>> beyond_spread(np.array([0.3, 0.4, 0.2])), beyond_spread(np.array([0.9, 0.1, -0.1]))
    (True, False)
    """
    if len(gain) < 2 or not np.isfinite(gain).all():
        return None
    return bool(gain.mean() > gain.std(ddof=1))


def gain_text(gain: np.ndarray) -> str:
    """Paired differences of shares in words: mean, deviation and how many are positive.

    >>> gain_text(np.array([0.011, 0.009, -0.002]))
    '+0.60 ± 0.70 points, positive in 2 of 3'
    """
    if len(gain) < 2:
        return f"{100 * gain.mean():+.2f} points"
    spread = 100 * gain.std(ddof=1)
    positive = int((gain > 0).sum())
    return f"{100 * gain.mean():+.2f} ± {spread:.2f} points, positive in {positive} of {len(gain)}"


def effect_text(gain: np.ndarray) -> str:
    """The mean of paired differences of shares with its 95 % interval, by Student's t.

    >>> effect_text(np.array([0.011, 0.009, -0.002]))
    '+0.60 points (-1.14 to +2.34)'
    """
    points = 100 * gain
    if len(gain) < 2:
        return f"{points.mean():+.2f} points" if len(gain) else ""
    half = float(stdtrit(len(gain) - 1, 0.975)) * points.std(ddof=1) / np.sqrt(len(gain))
    middle = points.mean()
    return f"{middle:+.2f} points ({middle - half:+.2f} to {middle + half:+.2f})"


def mean(values: ArrayLike) -> float:
    """The mean of what is a number."""
    return float(over_repetitions(np.ravel(values)[:, None])[0][0])


def over_repetitions(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of every column, of what is a number; NaN and 0 without any.

    >>> over_repetitions(np.array([[1.0, np.nan], [3.0, np.nan]]))
    (array([ 2., nan]), array([1.41421356, 0.        ]))
    """
    finite = np.isfinite(values)
    count = finite.sum(axis=0)
    filled = np.where(finite, values, 0.0)
    middle = np.where(count > 0, filled.sum(axis=0) / np.maximum(count, 1), np.nan)
    square = np.where(finite, (values - middle) ** 2, 0.0).sum(axis=0)
    return middle, np.sqrt(square / np.maximum(count - 1, 1))
