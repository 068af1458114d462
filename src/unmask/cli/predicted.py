"""Predictions of a file as what metrics read: rankings, sets above a threshold, or all scores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from unmask.cli.output import warn

if TYPE_CHECKING:
    from unmask._typing import Array, Floats
    from unmask.arrays import LabelSets, TopK
    from unmask.cli.inputs import EvaluatedRows

Predicted: TypeAlias = "TopK | LabelSets | Array"


def as_asked(
    top: TopK,
    rows: EvaluatedRows,
    metrics: Sequence[str],
    threshold: str | None,
    path: str,
    *,
    as_sets: bool = False,
) -> Predicted:
    """What the metrics read: sets if there is a threshold, scores if one of them needs all.

    `as_sets`: lists as they are become sets, too.
    """
    import numpy as np

    from unmask.arrays import LabelSets
    from unmask.metrics.request import of_scores

    scored = of_scores(metrics)
    if threshold is not None and scored:
        raise ValueError(
            f"{scored[0]} reads the scores of all labels, --threshold makes sets of them; ask for "
            "metrics of sets, or leave out --threshold."
        )
    if threshold is not None or (as_sets and not scored):
        lowest = float(np.finfo(np.float64).min)
        cut = lowest if threshold is None else cut_offs(threshold, rows)
        scores = listed_scores(top, rows.observed.shape[1])
        return LabelSets.from_scores(scores, cut, names=rows.names)
    return dense_scores(top, rows.observed.shape[1], path) if scored else top


def cut_offs(threshold: str, rows: EvaluatedRows) -> float | Floats:
    """A number, or the thresholds of a file, in the order of the labels."""
    import numpy as np

    from unmask import thresholds

    try:
        return float(threshold)
    except ValueError:
        cut = thresholds.read(Path(threshold))
    n_labels = rows.observed.shape[1]
    if cut.names is None or rows.names is None:
        if cut.values.size != n_labels:
            raise ValueError(
                f"{threshold} has thresholds of {cut.values.size} labels, not of {n_labels}."
            )
        return cut.values
    by_name = dict(zip(cut.names, cut.values.tolist(), strict=True))
    unknown = [name for name in rows.names if name not in by_name]
    if unknown:
        warn(
            f"{threshold}: {len(unknown):,} of {n_labels:,} labels have no threshold, such as "
            f"{unknown[0]}; they are never predicted."
        )
    return np.array([by_name.get(name, np.inf) for name in rows.names])


def listed_scores(top: TopK, n_labels: int) -> Array:
    """(n, L): the scores that are listed, −inf elsewhere."""
    import numpy as np

    scores = np.full((len(top.labels), n_labels), -np.inf)
    row, place = np.nonzero(top.labels >= 0)
    scores[row, top.labels[row, place]] = top.scores[row, place]
    return scores


def dense_scores(top: TopK, n_labels: int, path: str) -> Array:
    """(n, L): the scores of all labels; those that are not listed count as 0, if that is least."""
    import numpy as np

    scores = listed_scores(top, n_labels)
    unlisted = np.isneginf(scores)
    if not unlisted.any():
        return scores
    if scores[~unlisted].min(initial=0.0) < 0:
        raise ValueError(
            f"{path}: a score for every label of every row is needed, and {unlisted.sum():,} are "
            "not listed; list all of them (or give probabilities, of which those not listed are 0)."
        )
    warn(f"{path}: {unlisted.mean():.0%} of the scores are not listed, and count as 0.")
    return np.where(unlisted, 0.0, scores)


def read_groups(path: Path, rows: EvaluatedRows) -> list[str]:
    """The group of every row: a line each, or lines `id tab group` in any order."""
    from unmask.files.streams import text_of

    n = rows.observed.shape[0]
    lines = [line for line in text_of(path).splitlines() if line.strip()]
    pairs = [line.split("\t") for line in lines]
    if rows.test.ids is not None and all(len(pair) == 2 for pair in pairs):
        by_id = {each[0].strip(): each[1].strip() for each in pairs}
        missing = [name for name in rows.test.ids if name not in by_id]
        if missing:
            raise ValueError(f"{path}: {len(missing):,} rows have no group, such as {missing[0]}.")
        return [by_id[name] for name in rows.test.ids]
    if len(lines) != n:
        raise ValueError(
            f"{path} has {len(lines):,} lines for {n:,} rows; give the group of every row on a "
            "line of its own, or lines id, tab, group."
        )
    return [line.strip() for line in lines]
