"""What `tune` costs, in trainings: processor time of the search and its model over that of one.

    python benchmarks/tuning.py [--data FOLDER] [--json FILE]

One training is that of the chosen recipe on all rows and labels, at its usual tolerance.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np

import unmask
from results import add_json_option, write_json
from unmask import data, linear, propensity
from unmask_studies import models

T = TypeVar("T")


def main() -> None:
    """Print, and with `--json` write, the ratio."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of a data set; default: planted rows")
    add_json_option(parser)
    options = parser.parse_args()
    split = models.planted(20_000, 0) if options.data is None else models.split_of(options.data)
    unmask.set_threads(1)
    labels = split.train_labels
    p = np.asarray(propensity.inverse_linear(labels, head=2, tail=20))
    observed = data.hide(labels, p, seed=1)
    unmask.tune(split.train_features[:1500], observed[:1500], p, refit=False)  # compiled
    best, search = _timed(lambda: unmask.tune(split.train_features, observed, p))
    _, one = _timed(
        lambda: linear.train(
            split.train_features, observed, best.recipe, propensity=best.propensity
        )
    )
    print(f"{labels.shape[0]:,} rows, {labels.shape[1]:,} labels; {best.headline}")
    print(f"tune {search:.1f} s, one training {one:.1f} s: {search / one:.1f} trainings")
    numbers = {"tune seconds": search, "training seconds": one, "trainings": search / one}
    write_json(options.json, numbers)


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    start = time.process_time()
    made = work()
    return made, time.process_time() - start


if __name__ == "__main__":
    main()
