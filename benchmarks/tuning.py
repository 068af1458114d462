"""What `tune` costs, in trainings: processor time of the search and its model over that of one.

    python benchmarks/tuning.py [--data FOLDER [--task NAME]] [--json FILE]

One training is that of the chosen recipe on all rows and labels, at its usual tolerance; the cost
of the search alone, without the model on all rows, stands beside it, and so does that in trainings
of the default recipe (squared hinge, the recommended correction, C = 1). With a task of the study
(`unmask reproduce tuning`), FOLDER holds data sets, and 6,000 rows and the most frequent labels of
one are taken, hidden by right propensities.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

import unmask
from results import add_json_option, write_json
from unmask import data, linear, propensity
from unmask.tuning import recommended
from unmask_studies import tuning
from unmask_studies.data import split_of

T = TypeVar("T")
REPETITIONS = 3
"""In turn; the least of each counts."""


def main() -> None:
    """Print, and with `--json` write, the ratio."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of a data set; default: planted rows")
    parser.add_argument("--task", choices=tuning.TASKS, help="a task of the study; needs --data")
    add_json_option(parser)
    options = parser.parse_args()
    unmask.set_threads(1)
    if options.task is None:
        split = split_of(options.data, 20_000)
        x, labels = split.train_features, split.train_labels
        p = np.asarray(propensity.inverse_linear(labels, head=2, tail=20))
    else:
        folder = options.data / tuning.TASKS[options.task][0]
        x, labels, _, _, p = tuning.split_of(folder, options.task, tuning.ROWS["paper"], 0)
    observed = data.hide(labels, p, seed=1)
    unmask.tune(x[:1500], observed[:1500], p, refit=False)  # compiled
    usual = linear.Recipe(correction=recommended(linear.Recipe()))
    times = []
    for _ in range(REPETITIONS):
        best, whole = _timed(lambda: unmask.tune(x, observed, p))
        _, search = _timed(lambda: unmask.tune(x, observed, p, refit=False))
        q = None if best.recipe.correction == "vanilla" else best.propensity
        _, one = _timed(partial(linear.train, x, observed, best.recipe, propensity=q))
        _, default = _timed(partial(linear.train, x, observed, usual, propensity=p))
        times.append((whole, search, one, default))
    whole, search, one, default = np.min(times, axis=0).tolist()
    print(f"{labels.shape[0]:,} rows, {labels.shape[1]:,} labels; {best.headline}")
    print(f"tune {whole:.2f} s, of which search {search:.2f} s; one training {one:.2f} s: "
          f"{whole / one:.1f} trainings, {search / one:.1f} without the model")  # fmt: skip
    print(f"one training of the default recipe {default:.2f} s: {whole / default:.1f} of these")
    numbers = {
        "tune seconds": whole, "search seconds": search, "training seconds": one,
        "default training seconds": default, "trainings": whole / one,
        "trainings without the model": search / one, "default trainings": whole / default,
    }  # fmt: skip
    write_json(options.json, numbers)


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    start = time.process_time()
    made = work()
    return made, time.process_time() - start


if __name__ == "__main__":
    main()
