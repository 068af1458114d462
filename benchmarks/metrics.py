"""Evaluation at the size of Amazon-670K: us and pyxclib on the same index array, in one process.

    python benchmarks/metrics.py [--rows 1000000] [--threads 2] [--growth] [--json FILE]

pyxclib is not on PyPI: clone github.com/kunaldahiya/pyxclib, `pip install cython six`, run
`python setup.py build_ext --inplace` in it, and put the clone on PYTHONPATH. Without it, only our
times are printed. `--growth` shows 10⁵, 10⁶ and 10⁷ rows. Best of several repetitions each.
"""

from __future__ import annotations

import argparse
import resource
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import unmask
from results import add_json_option, write_json
from unmask.metrics import evaluate
from unmask.predictions import TopK

N_LABELS = 670_000
PAGE = resource.getpagesize()
FOUR = ("P", "nDCG", "PSP", "PSnDCG")
MANY = ("P", "R", "nDCG", "F1", "hit", "PSP")
HIT_RATES = (0.4, 0.3, 0.25, 0.2, 0.15)


def case(n: int, seed: int = 0) -> tuple[TopK, sp.csr_array, np.ndarray]:
    """Rows of 5.5 labels with a long tail, and predictions that are right at the usual rates."""
    rng = np.random.default_rng(seed)
    sizes = 1 + rng.poisson(4.5, n)
    indices = (N_LABELS * rng.random(sizes.sum()) ** 3).astype(np.int32)
    data = np.ones(indices.size, dtype=np.float32)
    labels = sp.csr_array((data, indices, np.r_[0, np.cumsum(sizes)]), shape=(n, N_LABELS))
    labels.sum_duplicates()
    labels.data[:] = 1
    top = (N_LABELS * rng.random((n, 5))).astype(np.int32)
    for place, rate in enumerate(HIT_RATES):
        own = labels.indptr[:-1] + rng.integers(1 << 30, size=n) % np.diff(labels.indptr)
        top[:, place] = np.where(rng.random(n) < rate, labels.indices[own], top[:, place])
    repeated = (np.diff(np.sort(top, axis=1), axis=1) == 0).any(axis=1)
    top[repeated] = np.arange(5) * 1000 + rng.integers(1000, size=(repeated.sum(), 5))
    counts = np.bincount(labels.indices, minlength=N_LABELS)
    propensity = unmask.propensity.jain_curve(counts, n, a=0.6, b=2.6)
    return TopK(top, np.tile(-np.arange(5, dtype=np.float32), (n, 1))), labels, propensity


def at_all(names: tuple[str, ...]) -> list[str]:
    return [f"{name}@{k}" for name in names for k in range(1, 6)]


def peer(top: TopK, labels: sp.csr_array, propensity: np.ndarray) -> Callable[[], Any] | None:
    try:
        from xclib.evaluation.xc_metrics import Metrics
    except ImportError as reason:
        print(f"pyxclib is not here ({reason}); see the top of this file")
        return None
    metrics = Metrics(sp.csr_matrix(labels), 1 / propensity)
    return lambda: metrics.eval(top.labels, 5, sorted=True)


def contest(runs: dict[str, Callable[[], Any]], repetitions: int) -> dict[str, float]:
    """The best time of each, taken in turns so that a busy moment hurts all alike."""
    best = dict.fromkeys(runs, np.inf)
    for _ in range(repetitions):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def extra_megabytes(run: Callable[[], Any]) -> float:
    """How far the process grows while `run` runs, looked at every millisecond."""

    def resident() -> float:
        return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 2**20

    done, before = threading.Event(), resident()
    seen = [before]

    def watch() -> None:
        while not done.wait(0.001):
            seen.append(resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    run()
    done.set()
    watcher.join()
    return max(seen) - before


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--repetitions", type=int, default=5)
    options.add_argument("--growth", action="store_true")
    add_json_option(options)
    chosen = options.parse_args()
    unmask.set_threads(chosen.threads)
    evaluate(*case(1000), metrics=at_all(MANY), estimators=["vanilla", "unbiased", "deconvolved"])
    if chosen.growth:
        growth()
        return
    top, labels, propensity = case(chosen.rows)
    runs: dict[str, Callable[[], Any]] = {
        "four": lambda: evaluate(
            top, labels, propensity, metrics=at_all(FOUR), estimators=["vanilla"]
        ),
        "all": lambda: evaluate(
            top, labels, propensity, metrics=at_all(MANY),
            estimators=["vanilla", "unbiased", "deconvolved"],
        ),
    }  # fmt: skip
    extra = max(map(extra_megabytes, runs.values()))
    print(f"peak extra memory, the larger of ours: {extra:.0f} MB")
    theirs = peer(top, labels, propensity)
    if theirs:
        runs["pyxclib"] = theirs
    best = contest(runs, chosen.repetitions)
    print(f"{chosen.rows:,} rows, {labels.nnz / chosen.rows:.1f} labels per row, "
          f"{chosen.threads} threads")  # fmt: skip
    print(f"ours, P nDCG PSP PSnDCG at 1..5                     {best['four']:.3f} s")
    print(f"ours, P R nDCG F1 hit PSP, 3 estimators with errors {best['all']:.3f} s")
    if theirs:
        print(f"pyxclib, P nDCG PSP PSnDCG at 1..5                  {best['pyxclib']:.3f} s")
        print(f"largest difference: {difference(runs['four'](), theirs()):.1e}")
        ratios = {
            "our six metrics with three estimators, pyxclib's four / ours": "all",
            "four metrics, pyxclib / ours": "four",
        }
        numbers = {name: best["pyxclib"] / best[ours] for name, ours in ratios.items()}
        for name, ratio in numbers.items():
            print(f"{name}: {ratio:.2f}")
        write_json(chosen.json, numbers)


def difference(ours: Any, theirs: list[np.ndarray]) -> float:
    """Over the four metrics and five k."""
    estimators = ("vanilla", "vanilla", "normalized", "normalized")
    return max(
        abs(ours[f"{name}@{k}", estimator].value - values[k - 1])
        for name, estimator, values in zip(FOUR, estimators, theirs, strict=True)
        for k in range(1, 6)
    )


def growth() -> None:
    for n in (10**5, 10**6, 10**7):
        top, labels, propensity = case(n)
        run = {
            "all": lambda t=top, y=labels, p=propensity: evaluate(
                t, y, p, metrics=at_all(MANY), estimators=["vanilla", "unbiased", "deconvolved"]
            )
        }
        seconds = contest(run, 2)["all"]
        print(f"{n:>10,} rows: {seconds:7.3f} s, {seconds / n * 1e9:5.0f} ns per row")


if __name__ == "__main__":
    main()
