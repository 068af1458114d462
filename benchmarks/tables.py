"""Reading a table of tags: a million rows with five tags each, beside polars.

    python benchmarks/tables.py [ROWS] [--json FILE]

Both read the same CSV (id, tags between semicolons) into memory: polars into a frame with a line
per tag (`read_csv`, `split`, `explode`), `unmask.data.read` into ids, names and a label matrix,
with every check. Memory is the growth of the resident set over what is there before, in a process
of its own, beside the bytes of the result.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import results
from unmask import data
from unmask._kernels import threads

TAGS = 20_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="?", type=int, default=1_000_000)
    parser.add_argument("--memory-of", type=Path, help=argparse.SUPPRESS)
    results.add_json_option(parser)
    options = parser.parse_args()
    if options.memory_of is not None:
        print(*memory(options.memory_of))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tags.csv")
        make(path, options.rows)
        numbers = measure(path)
    results.write_json(options.json, numbers)


def make(path: Path, rows: int) -> None:
    """Five tags of a row, the frequent ones far more often, all of a row different."""
    rng = np.random.default_rng(0)
    names = np.array([f"subject {number:05d}" for number in range(TAGS)])
    with path.open("w") as file:
        file.write("id,tags\n")
        for start in range(0, rows, 100_000):
            drawn = (rng.zipf(1.3, size=(min(100_000, rows - start), 5)) - 1) % (TAGS // 5)
            for row, tags in enumerate(names[5 * drawn + np.arange(5)].tolist(), start):
                file.write(f"document-{row:07d},{';'.join(tags)}\n")


def measure(path: Path) -> dict[str, float]:
    small = path.with_name("small.csv")
    with path.open() as file:
        small.write_text("".join(line for line, _ in zip(file, range(100), strict=False)))
    data.read(small)  # kernels are compiled once
    ours = best(lambda: data.read(path))
    peak, size = map(int, printed_memory(path))
    print(f"{path.stat().st_size / 1e6:.0f} MB of CSV, {threads()} threads")
    print(f"unmask.data.read                    {ours:6.2f} s")
    print(f"memory {peak / 1e6:.0f} MB, result {size / 1e6:.0f} MB: {peak / size:.2f} times")
    numbers = {"seconds, ours": ours, "memory / result": peak / size}
    try:
        import polars
    except ImportError:
        print("polars is not installed; pip install 'unmask[bench]'")
        return numbers

    def theirs() -> object:
        frame = polars.read_csv(path)
        return frame.with_columns(polars.col("tags").str.split(";")).explode("tags")

    other = best(theirs)
    print(f"polars.read_csv + split + explode   {other:6.2f} s")
    print(f"ours / polars                       {ours / other:6.2f}")
    return numbers | {"seconds, polars": other, "ours / polars": ours / other}


def best(work: Callable[[], object], repeat: int = 5) -> float:
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def printed_memory(path: Path) -> list[str]:
    command = [sys.executable, __file__, "--memory-of", str(path)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def memory(path: Path) -> tuple[int, int]:
    """How much the resident memory grows at most while reading, and the bytes of the result."""
    data.read(path.with_name("small.csv"))
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    rows = data.read(path)
    matrix, ids = rows.labels, rows.ids
    arrays = [matrix.data, matrix.indices, matrix.indptr, ids.data, ids.offsets]
    return resident("VmHWM") - before, sum(array.nbytes for array in arrays)


def resident(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


if __name__ == "__main__":
    main()
