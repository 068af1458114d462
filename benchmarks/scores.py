"""Average precision of many labels: us, corrected and with errors, and scikit-learn, uncorrected.

    python benchmarks/scores.py [--rows 100000] [--labels 1000] [--threads 2] [--json FILE]

Both on the same float32 scores, in one process, by processor time of all threads; torchmetrics too,
where it is installed. Our time holds the values of every label as observed and corrected, and the
influence of every row. `extra` is how far the process grew while it ran, beyond its input.
"""

from __future__ import annotations

import argparse
import resource
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.metrics import average_precision_score

import unmask
from results import add_json_option, write_json


def case(n: int, n_labels: int) -> tuple[np.ndarray, sp.csr_array, np.ndarray]:
    rng = np.random.default_rng(0)
    scores = rng.random((n, n_labels), dtype=np.float32)
    rates = 0.01 + 0.05 * rng.random(n_labels)
    labels = sp.csr_array(scores * rng.random((n, n_labels), dtype=np.float32) > 1 - 3 * rates)
    return scores, labels.astype(np.float32), rng.uniform(0.3, 1, n_labels)


class Cost(NamedTuple):
    """What a call took, and its result."""

    processor: float
    wall: float
    megabytes: float
    value: float


def resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def cost_of(call: Callable[[], float]) -> Cost:
    """Processor and wall time, and the growth of the process, looked at every 5 milliseconds."""
    done, before = threading.Event(), resident()
    sizes = [before]

    def watch() -> None:
        while not done.wait(0.005):
            sizes.append(resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    processor, wall = time.process_time(), time.perf_counter()
    value = call()
    processor, wall = time.process_time() - processor, time.perf_counter() - wall
    done.set()
    watcher.join()
    return Cost(processor, wall, max(sizes) - before, value)


def by_torchmetrics(scores: np.ndarray, labels: np.ndarray) -> Callable[[], float] | None:
    try:
        import torch
        from torchmetrics.functional.classification import multilabel_average_precision
    except ImportError:
        return None
    tensors = torch.from_numpy(scores), torch.from_numpy(labels.astype(np.int64))
    return lambda: float(multilabel_average_precision(*tensors, num_labels=scores.shape[1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--labels", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=2)
    add_json_option(parser)
    options = parser.parse_args()
    unmask.set_threads(options.threads)
    scores, labels, p = case(options.rows, options.labels)
    dense = labels.toarray().astype(np.int8)
    asked = {"metrics": ["mAP"], "estimators": ["vanilla", "unbiased"]}
    unmask.evaluate(scores[:200, :8], labels[:200, :8], p[:8], **asked)  # compiled

    def ours() -> float:
        table = unmask.evaluate(scores, labels, p, **asked)
        return table["mAP", "vanilla"].value

    def sklearn() -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return float(average_precision_score(dense, scores, average="macro"))

    costs = {"ours": cost_of(ours), "scikit-learn": cost_of(sklearn)}
    peer = by_torchmetrics(scores, dense)
    if peer is not None:
        costs["torchmetrics"] = cost_of(peer)
    size = scores.nbytes / 2**20
    print(f"{options.rows:,} rows, {options.labels:,} labels: {size:,.0f} MB of scores")
    for name, cost in costs.items():
        print(
            f"{name:13s} {cost.processor:8.2f} s of processor  {cost.wall:8.2f} s  "
            f"extra {cost.megabytes:8,.0f} MB   mAP {cost.value:.12f}"
        )
    numbers = {
        f"mAP of {options.labels} labels, ours / {name}": costs["ours"].processor / cost.processor
        for name, cost in costs.items()
        if name != "ours"
    }
    for name, ratio in numbers.items():
        print(f"{name}: {ratio:.2f}")
    write_json(options.json, numbers)


if __name__ == "__main__":
    main()
