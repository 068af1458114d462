"""Exact normalised weights: against subset enumeration, and against merely dividing by m.

    python benchmarks/normalized_weights.py [--data FOLDER] [--json FILE]

FOLDER (or UNMASK_DATA) holds `delicious/train.txt.gz`; without it that part is skipped. Everything
goes through the public functions, validation included; times are the best of several runs. Bars:
more than 100 times faster than enumeration at 15 labels, and at most twice the time of vanilla
weights for a million rows of 5.5 labels.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numba import njit

import unmask
from results import add_json_option, write_json
from unmask import data, propensity, weights


def best(*calls: Callable[[], object], repeat: int = 5) -> list[float]:
    """Seconds of the fastest run of each call, taken in turns, after one that compiles."""
    times = [[] for _ in calls]
    for _ in range(repeat + 1):
        for call, taken in zip(calls, times, strict=True):
            start = time.perf_counter()
            call()
            taken.append(time.perf_counter() - start)
    return [min(taken[1:]) for taken in times]


@njit(nogil=True)
def by_subsets(inverse: np.ndarray, terms: np.ndarray, out: np.ndarray) -> None:
    """T_i = Σ_{J∋i} (1/|J|) Π_{j∈J} a_j Π_{k∉J} (1 − a_k) of many rows; subsets by doubling."""
    for row in range(len(inverse)):
        terms[0], filled = 1.0, 1
        out[row] = 0.0
        for a in inverse[row]:
            for code in range(filled):
                terms[filled + code] = terms[code] * a
                terms[code] *= 1 - a
            filled *= 2
        for code in range(1, filled):
            size = 0
            for k in range(inverse.shape[1]):
                size += code >> k & 1
            for k in range(inverse.shape[1]):
                if code >> k & 1:
                    out[row, k] += terms[code] / size


def against_enumeration() -> dict[int, float]:
    """Both on one thread, same rows; enough rows that the call itself does not count."""
    unmask.set_threads(1)
    ratios = {}
    print(f"{'labels':>8} {'subsets/row':>14} {'quadrature/row':>16} {'ratio':>10}  largest gap")
    for m, rows in ((5, 20_000), (10, 2_000), (15, 40), (20, 2)):
        ratios[m] = one_length(m, rows)
    unmask.set_threads(None)
    return ratios


def one_length(m: int, rows: int) -> float:
    inverse = 1 / np.random.default_rng(0).uniform(0.3, 1.0, (rows, m))
    slow, terms = np.empty((rows, m)), np.empty(1 << m)
    many = np.tile(inverse, (20_000 // rows, 1))
    indptr, entries = np.arange(len(many) + 1) * m, many.ravel()
    subsets, ours = best(
        lambda: by_subsets(inverse, terms, slow),
        lambda: weights.normalized_weights(indptr, entries),
    )
    subsets, ours = subsets / rows, ours / len(many)
    gap = np.abs(weights.normalized_weights(indptr, entries)[: slow.size] - slow.ravel()).max()
    ratio = subsets / ours
    print(f"{m:>8} {subsets * 1e6:>11.3f} µs {ours * 1e6:>13.3f} µs {ratio:>9.1f}×  {gap:.0e}")
    return ratio


def against_vanilla(name: str, labels: sp.csr_array) -> float:
    p = propensity.jain(labels)
    vanilla, ours = best(
        lambda: weights.vanilla(labels, normalized=True),
        lambda: weights.unbiased(labels, p, normalized=True),
        repeat=40,
    )
    counts = np.diff(labels.indptr)
    print(
        f"{name}: {labels.shape[0]:,} rows, {counts.mean():.1f} labels each (most {counts.max()}); "
        f"vanilla {vanilla * 1e3:.1f} ms, exact {ours * 1e3:.1f} ms, ratio {ours / vanilla:.2f}"
    )
    return ours / vanilla


def synthetic(rows: int = 1_000_000, n_labels: int = 13_330) -> sp.csr_array:
    """About 5.5 distinct labels per row, frequent ones more often."""
    random = np.random.default_rng(1)
    counts = 1 + random.poisson(4.6, rows)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    indices = (n_labels * random.random(indptr[-1]) ** 3).astype(np.int32)
    labels = sp.csr_array((np.ones(indptr[-1], np.float32), indices, indptr), (rows, n_labels))
    labels.sum_duplicates()
    labels.data[:] = 1
    return labels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("UNMASK_DATA"))
    add_json_option(parser)
    options = parser.parse_args()
    folder, enumeration = options.data, against_enumeration()
    numbers = {f"{m} labels, sum over subsets / ours": ratio for m, ratio in enumeration.items()}
    file = Path(folder) / "delicious" / "train.txt.gz" if folder else None
    if file is not None and file.exists():
        ratio = against_vanilla("delicious", data.read(file).labels)
        numbers["delicious, exact / vanilla"] = ratio
    else:
        print("delicious: skipped, not found; give --data or set UNMASK_DATA")
    million = against_vanilla("synthetic", synthetic())
    print(
        f"ratio at 15 labels: {enumeration[15]:.0f}× faster than subsets (bar: > 100×); "
        f"a million rows: {million:.2f}× the time of vanilla (bar: ≤ 2×)"
    )
    write_json(options.json, numbers | {"a million rows, exact / vanilla": million})


if __name__ == "__main__":
    main()
