"""Reading data files: speed against scikit-learn, and the memory it takes.

Bars: at least 5 times as fast as `sklearn.datasets.load_svmlight_file(multilabel=True)` on 200 MB
of XC text, and a peak of at most 3 times the arrays that come out, on one thread and on two. The
second part, with a real file, shows how much of reading a gzip file is gunzip:

    python benchmarks/read.py [--json FILE]
    python benchmarks/read.py --megabytes 50 --real datasets/finna-yso-en/train.txt.gz
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from results import add_json_option, write_json
from unmask import data, set_threads

BYTES_PER_ROW = 1520


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--repeat", type=int, default=3, help="our runs; the peer runs once less")
    parser.add_argument("--real", type=Path, default=None, help="a gzip file")
    parser.add_argument("--memory-of", type=Path, default=None, help=argparse.SUPPRESS)
    add_json_option(parser)
    options = parser.parse_args()
    if options.memory_of:
        print(*peak_and_size(options.memory_of))
        return
    with tempfile.TemporaryDirectory() as folder:
        numbers = compare(Path(folder), options.megabytes, options.repeat)
    write_json(options.json, numbers)
    if options.real:
        gunzip_share(options.real)


def compare(folder: Path, megabytes: int, repeat: int) -> dict[str, float]:
    from sklearn.datasets import load_svmlight_file

    ours, theirs = folder / "ours.txt", folder / "theirs.txt"
    dataset = make(megabytes * 1_000_000 // BYTES_PER_ROW)
    data.write(ours, dataset)
    without_first_line(ours, theirs)
    print(f"{ours.stat().st_size / 1e6:.0f} MB of text, {dataset.features.nnz:,} values")

    took, found = {}, None
    for threads in (1, 2):
        set_threads(threads)
        took[threads], found = best(repeat, lambda: data.read(ours))
    set_threads(None)
    took_peer, peer = best(
        max(1, repeat - 1),
        lambda: load_svmlight_file(str(theirs), multilabel=True, dtype=np.float32, zero_based=True),
    )
    d = dataset.features.shape[1]
    same = sp.csr_array((peer[0].data, peer[0].indices, peer[0].indptr), shape=(len(peer[1]), d))
    for matrix in (dataset.features, same):
        if abs(matrix - found.features).max() != 0:
            raise SystemExit("the matrices differ")

    command = [sys.executable, __file__, "--memory-of", str(ours)]
    peak, size = map(int, subprocess.run(command, capture_output=True, check=True).stdout.split())
    for threads, seconds in took.items():
        speed = ours.stat().st_size / seconds / 1e6
        print(f"unmask, {threads} threads      {seconds:7.2f} s   {speed:6.0f} MB/s")
    print(f"load_svmlight_file     {took_peer:7.2f} s")
    print(f"peak memory            {peak / 1e6:7.0f} MB for arrays of {size / 1e6:.0f} MB")
    print(f"peak memory / arrays   {peak / size:7.2f}   (bar: at most 3)")
    ratios = {
        "load_svmlight_file / ours, one thread": took_peer / took[1],
        "load_svmlight_file / ours, two threads": took_peer / took[2],
    }
    for name, ratio in ratios.items():
        print(f"{name}: {ratio:.1f} (bar: at least 5)")
    return ratios | {"peak memory / arrays": peak / size}


def make(n: int) -> data.Dataset:
    """n rows of about 100 tf-idf-like values and 5 labels."""
    rng = np.random.default_rng(0)
    features = scattered(rng, n, 200_000, 100)
    features.data = (rng.gamma(2.0, 0.05, features.nnz) + 1e-5).round(5).astype(np.float32)
    labels = scattered(rng, n, 30_000, 5)
    return data.Dataset(features, labels)


def scattered(rng: np.random.Generator, n: int, width: int, per_row: int) -> sp.csr_array:
    """Ones at random places, about `per_row` in each of n rows."""
    rows = np.repeat(np.arange(n), rng.poisson(per_row, n))
    places = (rows, rng.integers(0, width, rows.size))
    matrix = sp.coo_array((np.ones(rows.size, np.float32), places), shape=(n, width)).tocsr()
    matrix.data[:] = 1
    return matrix


def without_first_line(source: Path, target: Path) -> None:
    with open(source, "rb") as read, open(target, "wb") as write:
        read.readline()
        while block := read.read(1 << 24):
            write.write(block)


def best(repeat: int, work: Callable[[], Any]) -> tuple[float, Any]:
    """The shortest time of several, and the last result."""
    times, result = [], None
    for _ in range(repeat):
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = work()
        times.append(time.perf_counter() - start)
    return min(times), result


def peak_and_size(path: Path) -> tuple[int, int]:
    """How much the resident memory grows at most while reading, and the bytes of the arrays."""
    with tempfile.NamedTemporaryFile(suffix=".txt") as small:
        small.write(b"1 5 5\n0 0:1\n")
        small.flush()
        data.read(small.name)  # compiled kernels are not the file's doing
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    found = data.read(path)
    arrays = [
        array
        for matrix in (found.features, found.labels)
        for array in (matrix.data, matrix.indices, matrix.indptr)
    ]
    return resident("VmHWM") - before, sum(array.nbytes for array in arrays)


def resident(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def gunzip_share(path: Path) -> None:
    packed = path.read_bytes()
    alone, text = best(5, lambda: zlib.decompress(packed, wbits=31))
    whole, _ = best(5, lambda: data.read(path, names=False))
    print(f"\n{path.name}: {len(text) / 1e6:.1f} MB of text in {len(packed) / 1e6:.1f} MB of gzip")
    print(f"gunzip alone           {alone:7.3f} s")
    print(f"unmask.data.read       {whole:7.3f} s on {os.cpu_count()} cores")
    print(f"read / gunzip          {whole / alone:7.2f}")


if __name__ == "__main__":
    main()
