"""Does the training study fit on data of AmazonCat-13K's size, and how long is a run there?

    python benchmarks/training_memory.py [share] [--json FILE]

Files of that shape are made up (1,186,239 and 306,782 rows, 203,882 features, 71 a row, 13,330
labels, 5 a row, both falling like 1 / rank; `share` of the rows where given), read as the study
reads them, and one epoch of Adam, all measures of a run, and a few turns of the converged solver
follow. Every stage prints its seconds and the most memory that the process has used so far.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from results import add_json_option, write_json
from unmask import data, linear, losses
from unmask.weights import Weights
from unmask_studies.training import optimise
from unmask_studies.training.protocol import PROBLEMS, SETTINGS, Trial, trial, weights_of

SIZES = {"train": 1_186_239, "test": 306_782}
FEATURES, LABELS = 203_882, 13_330
FEATURES_OF_A_ROW, LABELS_OF_A_ROW = 71, 5
TURNS = 3


NUMBERS: dict[str, float] = {}
"""Seconds of every stage, and the peak of all."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("share", nargs="?", type=float, default=1.0)
    add_json_option(parser)
    options = parser.parse_args()
    measure(options.share)
    write_json(options.json, NUMBERS)


def measure(share: float) -> None:
    with tempfile.TemporaryDirectory() as home:
        for seed, (part, rows) in enumerate(SIZES.items()):
            with stage(f"writing the {part} part"):
                data.write(Path(home, f"{part}.txt"), made_up(round(share * rows), seed))
        with stage("reading, splitting, hiding"):
            given = trial(Path(home), 0, 0, None)
    features = given.train.features
    print(f"    {features.shape[0]:,} training rows, {features.nnz:,} entries")
    weights = weights_of(SETTINGS["unbiased"], PROBLEMS["ova-bce"], given)
    with stage("one epoch of Adam (a run has 20)"):
        phase = optimise.Phase(lambda _: losses.get("logistic"), weights, 1, 0)
        model = optimise.train(features, [phase], l2=1e-6, rate=1e-4, seed=0)
    with stage("all measures of a run"):
        optimise.judged(given, "ova-bce", "unbiased", model, {})
    with stage(
        f"{TURNS} turns of the converged solver (a run has up to {optimise.MAX_ITERATIONS})"
    ):
        solve(given, weights)


def solve(given: Trial, weights: Weights) -> None:
    recipe = linear.Recipe("logistic", correction=None, l2=1e-4, bias="free", max_iter=TURNS)
    optimise.solve(given, recipe, weights)


@contextmanager
def stage(words: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{words}: {seconds:.0f} s, peak {peak:.1f} GiB", flush=True)
    NUMBERS.update({f"{words}, seconds": seconds, "peak GiB": peak})


def made_up(rows: int, seed: int) -> data.Dataset:
    random = np.random.default_rng(seed)
    return data.Dataset(
        falling(random, rows, FEATURES, FEATURES_OF_A_ROW),
        falling(random, rows, LABELS, LABELS_OF_A_ROW),
    )


def falling(random: np.random.Generator, rows: int, columns: int, per_row: int) -> sp.csr_array:
    """0 or 1, in features times a random number; columns of low number are frequent."""
    size = rows * per_row
    drawn = ((columns + 1) ** random.random(size, dtype=np.float32) - 1).astype(np.int32)
    start = np.arange(0, size + 1, per_row)
    values = np.ones(size, dtype=np.float32)
    if columns == FEATURES:
        values = random.random(size, dtype=np.float32) + 0.01
    matrix = sp.csr_array((values, drawn.clip(0, columns - 1), start), shape=(rows, columns))
    matrix.sum_duplicates()
    if columns == LABELS:
        matrix.data[:] = 1
    return matrix


if __name__ == "__main__":
    main()
