"""How often do 95 % intervals hold what they should? Every estimator of recall, on simulated rows.

    python benchmarks/interval_coverage.py [--rows 2000] [--repetitions 200] [--write FILE.md]
                                           [--json FILE]

Rows are drawn anew in every repetition: 100 labels, of which a row has ten on average, ranked by a
noisy score. Labels go missing with one propensity for all (label counts binomial), or with
propensities 1/2 … 1/20 (label counts spread by a gamma factor, so that labels are correlated).
An interval can be asked for two things:

- the *aim*: the mean of the estimator over rows and masks. Whether the interval holds it is about
  the interval alone. Found from 100 times as many rows; for `unbiased` it is the true recall;
- the *truth*: the true recall of the population. Whether the interval holds that is about the
  estimator's bias as well.

`deconvolved` and `tempered` aim at the truth. Where an estimator has heavy tails (`unbiased` and
`clipped` at low propensities), its mean is carried by rows that most samples do not have, and no
interval from a sample holds it reliably; `tempered` trades such noise for bias, which its interval
does not contain and its verdict says. The number printed last is how many cells that ought
to be between 90 and 98 % are not: estimators that are means without heavy tails, about their aim.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from results import add_json_option, write_json
from unmask.metrics import Evaluator, evaluate
from unmask.predictions import TopK

LABELS, MEAN, NOISE, WIDTH = 100, 0.1, 0.6, 5
AIM_ROWS = 100  # times the rows of one repetition
METRICS = ("R@1", "R@3", "R@5")
OWN = ("vanilla", "bound", "clipped", "self_normalized", "filtered")  # their aim is their own mean
ESTIMATORS = (*OWN[:1], "unbiased", *OWN[1:], "deconvolved", "tempered")
INTERVALS = ("normal", "percentile")
SETTINGS = {"clip": 4.0, "fraction": 0.02, "replicates": 400}
CALM = 0.5  # smallest 1/E[1/p] at which unbiased estimates have no heavy tails

Key = tuple[str, str, str]  # metric, estimator, interval


class Case(NamedTuple):
    """How labels go missing, and whether label counts spread."""

    name: str
    propensity: np.ndarray
    spread: bool


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rows", type=int, default=2000)
    options.add_argument("--repetitions", type=int, default=200)
    options.add_argument("--write", type=Path)
    add_json_option(options)
    chosen = options.parse_args()
    cases = list(all_cases())
    found = [covered(case, chosen.rows, chosen.repetitions) for case in cases]
    strange = [
        (case.name, *key, share)
        for case, (aim, _) in zip(cases, found, strict=True)
        for key, share in aim.items()
        if ordinary(case, key[1]) and not 0.90 <= share <= 0.98
    ]
    page = written(cases, found, strange, chosen)
    print(page)
    if chosen.write:
        chosen.write.write_text(page, encoding="utf-8")
    print(f"ordinary cells outside 90 … 98 %: {len(strange)}")
    write_json(chosen.json, {"ordinary cells outside 90 … 98 %": len(strange)})


def all_cases() -> Iterator[Case]:
    for p in (0.1, 0.3, 0.5, 0.7, 0.9):
        yield Case(f"p = {p:g}", np.full(LABELS, p), spread=False)
    inverse = np.random.default_rng(0).permutation(np.linspace(2, 20, LABELS))
    yield Case("p = 1/2 … 1/20", 1 / inverse, spread=True)


def ordinary(case: Case, estimator: str) -> bool:
    """Is this a mean over rows without heavy tails?"""
    calm = 1 / (1 / case.propensity).mean() >= CALM
    bounded = ("vanilla", "bound", "self_normalized")
    return estimator in bounded or (calm and estimator in ("unbiased", "clipped"))


def covered(case: Case, rows: int, repetitions: int) -> tuple[dict[Key, float], dict[Key, float]]:
    """The share of intervals that hold the aim, and that hold the truth."""
    truth, means = targets(case, rows * AIM_ROWS)
    inside: dict[Key, list[tuple[bool, bool]]] = {}
    random = np.random.default_rng(1)
    for _ in range(repetitions):
        top, _, seen = drawn(random, case, rows)
        for interval in INTERVALS:
            table = evaluate(
                top, seen, case.propensity, metrics=METRICS, estimators=ESTIMATORS,
                interval=interval, **SETTINGS,
            )  # fmt: skip
            for each in table:
                low, high = each.interval
                aim = means.get((each.metric, each.estimator), truth[each.metric])
                key = each.metric, each.estimator, interval
                holds = (low <= aim <= high, low <= truth[each.metric] <= high)
                inside.setdefault(key, []).append(holds)
    shares = {key: np.mean(holds, axis=0) for key, holds in inside.items()}
    return (
        {key: float(share[0]) for key, share in shares.items()},
        {key: float(share[1]) for key, share in shares.items()},
    )


def targets(case: Case, rows: int) -> tuple[dict[str, float], dict[tuple[str, str], float]]:
    """True recall, and the means of the estimators that aim at their own, from many rows."""
    random, step = np.random.default_rng(2), 20_000
    true = Evaluator(metrics=METRICS)
    own = Evaluator(case.propensity, metrics=METRICS, estimators=OWN, **SETTINGS)
    for _ in range(0, rows, step):
        top, labels, seen = drawn(random, case, step)
        true.update(top, labels)
        own.update(top, seen)
    return (
        {each.metric: each.value for each in true.compute()},
        {(each.metric, each.estimator): each.value for each in own.compute()},
    )


def drawn(random: np.random.Generator, case: Case, n: int) -> tuple[TopK, Any, Any]:
    """Predictions, true labels and observed labels of n rows."""
    factor = random.gamma(2, 0.5, (n, 1)) if case.spread else 1.0
    true = random.random((n, LABELS)) < np.minimum(0.9, MEAN * factor)
    noise = random.standard_normal(true.shape, dtype=np.float32)
    top = TopK.from_scores(true + np.float32(NOISE) * noise, WIDTH)
    seen = true & (random.random(true.shape) < case.propensity)
    return top, sp.csr_array(true.astype(np.float32)), sp.csr_array(seen.astype(np.float32))


def written(cases: list[Case], found: Any, strange: list[Any], chosen: Any) -> str:
    """The page: one table for the aim and one for the truth, per kind of interval."""
    parts = [
        "# Coverage of intervals",
        "Written by `benchmarks/interval_coverage.py`, which says what is simulated. "
        f"{chosen.repetitions} repetitions of {chosen.rows:,} rows; the share of 95 % intervals of "
        "R@1, R@3, R@5 that hold their target, in percent. One standard deviation of such a share "
        f"is about {100 * np.sqrt(0.95 * 0.05 / chosen.repetitions):.1f}.",
    ]
    for interval in INTERVALS:
        for which, what in enumerate(("aim of the estimator", "true recall")):
            parts.append(f"## {interval.capitalize()} intervals: {what}")
            parts.append(table([(c.name, f[which]) for c, f in zip(cases, found, strict=True)],
                               interval))  # fmt: skip
    parts.append("## Ordinary cells outside 90 … 98 %")
    lines = [f"- {name}, {metric} {estimator}, {interval}: {share:.1%}"
             for name, metric, estimator, interval, share in strange]  # fmt: skip
    parts.append("\n".join(lines) or "None.")
    command = f"python benchmarks/{Path(__file__).name} --rows {chosen.rows}"
    made = f"{command} --repetitions {chosen.repetitions} --write FILE.md"
    parts += ["## How this page was made", f"```bash\n{made}\n```"]
    return "\n\n".join(parts) + "\n"


def table(shares: list[tuple[str, dict[Key, float]]], interval: str) -> str:
    head = ["labels missing", *ESTIMATORS]
    lines = [head, ["---", *["---:"] * len(ESTIMATORS)]]
    for name, found in shares:
        cells = [
            " · ".join(f"{100 * found[metric, each, interval]:.0f}" for metric in METRICS)
            for each in ESTIMATORS
        ]
        lines.append([name, *cells])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


if __name__ == "__main__":
    main()
