"""What does a cluster of workers give and cost?

    python benchmarks/cluster.py [speed] [bytes] [large] [--json FILE]

- speed   finna-yso-en, 4,000 labels: two single-threaded worker processes beside one, same blocks;
          the largest difference between the models (0: the same bits). On a machine that others
          use, the clock measures them, too: so also by processor time, with the load average.
- bytes   the same features, two workers in network namespaces of their own: what the counters of
          their network interfaces say they received, beside the size of the features (needs root).
- large   200,000 rows, 100,000 labels, made up: memory and time beside the plan.

Data are read from the folder in UNMASK_DATA.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import distributed
import numpy as np
import scipy.sparse as sp

from results import add_json_option, write_json
from unmask import data, parallel
from unmask.linear import Recipe, load, plan, train_to
from unmask.models import linear as planning
from unmask.models.problem import prepare
from unmask_studies.data import split_of

DATA = Path(os.environ.get("UNMASK_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
RECIPE = Recipe(prune_below=0.01)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", nargs="*", choices=[*PARTS, []])
    add_json_option(parser)
    options = parser.parse_args()
    numbers: dict[str, float] = {}
    for part in options.part or PARTS:
        print(f"\n{part}")
        numbers |= PARTS[part]()
    write_json(options.json, numbers)


def speed(n_labels: int = 4000, rounds: int = 2) -> dict[str, float]:
    x, y = finna(n_labels)
    best = {1: (np.inf, np.inf), 2: (np.inf, np.inf)}
    with tempfile.TemporaryDirectory() as home:
        folders = {count: Path(home) / f"{count}" for count in best}
        for _ in range(rounds):
            for count, folder in folders.items():
                took = timed(count, folder, x, y)
                best[count] = min(best[count], took, key=lambda pair: pair[1])
                print(f"  {count} workers: {took[0]:.1f} s, processor time of the busiest ", end="")
                print(f"{took[1]:.1f} s, load {os.getloadavg()[0]:.1f}")
        one, two = (load(folder) for folder in folders.values())
        apart = abs(one.weights - two.weights).max()
        same = all(
            (folders[1] / f.name).read_bytes() == f.read_bytes() for f in folders[2].iterdir()
        )
    print(f"  largest difference of a weight: {apart:g}; files byte for byte the same: {same}")
    wall, work = (best[1][i] / best[2][i] for i in (0, 1))
    print(f"two workers beside one (1.6 wanted): {wall:.2f} times as fast by the clock, ", end="")
    print(f"{work:.2f} by the processor time of the busiest worker")
    return {"two workers, clock of one / of two": wall, "two workers, processor time": work}


def timed(count: int, folder: Path, x: sp.csr_array, y: sp.csr_array) -> tuple[float, float]:
    """Seconds, and processor time of the busiest worker."""
    with local(count) as client, parallel.connect(client) as runner:
        train_to(folder.with_name("warm"), x, y[:, :64], resume=False, backend=runner)
        start, before = time.perf_counter(), client.run(used)
        train_to(folder, x, y, RECIPE, resume=False, backend=runner)
        took, after = time.perf_counter() - start, client.run(used)
    return took, max(after[worker][1] - before[worker][1] for worker in after)


@contextmanager
def local(count: int) -> Iterator[Any]:
    with (
        distributed.LocalCluster(
            n_workers=count, threads_per_worker=1, dashboard_address=":0"
        ) as workers,
        distributed.Client(workers, set_as_default=False) as client,
    ):
        yield client


def finna(n_labels: int) -> tuple[sp.csr_array, sp.csr_array]:
    split = split_of(DATA / "finna-yso-en")
    order = np.random.default_rng(0).permutation(split.train_labels.shape[1])
    return split.train_features, split.train_labels[:, order[:n_labels]]


def bytes_sent(n_labels: int = 400) -> dict[str, float]:
    x, y = finna(n_labels)
    size = planning.features_bytes(prepare(x, y, RECIPE, None, None))
    with (
        tempfile.TemporaryDirectory() as home,
        namespaces(2, home) as (address, homes),
        parallel.connect(address) as runner,
    ):
        greeting = [received(name) for name in homes]
        train_to(Path(home) / "m", x, y, RECIPE, shard_labels=32, backend=runner)
        got = [received(name) - first for name, first in zip(homes, greeting, strict=True)]
    labels = 20 * y.nnz + 8 * y.shape[1]
    print(f"  features {size:,} bytes, entries of all labels {labels:,} bytes, 13 tasks")
    print(f"  received by the workers: {', '.join(f'{count:,}' for count in got)} bytes")
    print(f"received per worker beside the size of the features: {max(got) / size:.3f}")
    return {"bytes received by a worker / bytes of the features": max(got) / size}


@contextmanager
def namespaces(count: int, hide: str) -> Iterator[tuple[str, list[str]]]:
    """A scheduler here, and workers that reach it through a bridge, blind for the folder `hide`."""
    names, running = [f"unmask{i}" for i in range(count)], []
    try:
        sh("ip link add unmask-br type bridge && ip addr add 10.77.0.1/24 dev unmask-br")
        sh("ip link set unmask-br up")
        worker = [sys.executable, "-m", "distributed.cli.dask_worker"]
        scheduler = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
        port = ["--host", "10.77.0.1", "--port", "18786", "--no-dashboard"]
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        running.append(subprocess.Popen([*scheduler, *port], **quiet))
        for number, name in enumerate(names):
            sh(f"ip netns add {name} && ip link add {name} type veth peer name eth0 netns {name}")
            sh(f"ip link set {name} master unmask-br up")
            inside = f"ip -n {name}"
            sh(f"{inside} addr add 10.77.0.{10 + number}/24 dev eth0 && {inside} link set eth0 up")
            sh(f"{inside} link set lo up")
            blind = ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs none "{hide}"; exec "$@"']
            prefix = ["ip", "netns", "exec", name, *blind, "sh"]
            arguments = ["tcp://10.77.0.1:18786", "--nthreads", "1", "--no-nanny", "--no-dashboard"]
            running.append(
                subprocess.Popen([*prefix, *worker, *arguments], cwd=tempfile.mkdtemp(), **quiet)
            )
        yield "tcp://10.77.0.1:18786", names
    finally:
        for process in running:
            process.terminate()
            process.wait()
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], check=False)
        subprocess.run(["ip", "link", "delete", "unmask-br"], check=False)


def sh(command: str) -> str:
    done = subprocess.run(["sh", "-c", command], check=True, capture_output=True, text=True)
    return done.stdout


def received(name: str) -> int:
    return int(sh(f"ip netns exec {name} cat /sys/class/net/eth0/statistics/rx_bytes"))


def large(n: int = 200_000, n_labels: int = 100_000) -> dict[str, float]:
    made = data.synthetic.planted(
        n, n_features=5000, n_labels=n_labels, labels_per_row=1.5, words_per_label=4,
        noise_words=1.0, skew=0.4, seed=0,
    )  # fmt: skip
    x: Any = made.features
    x = data.tfidf(x, data.idf(x))
    print(f"  {x.nnz / n:.1f} features and {made.labels.nnz / n:.1f} labels per row")
    with tempfile.TemporaryDirectory() as home, local(1) as client:
        with parallel.connect(client) as runner:
            expected = plan(x, made.labels, RECIPE, backend=runner)
            print(f"  plan: {expected.to_dict()}")
            start, before = time.perf_counter(), next(iter(client.run(used).values()))[1]
            folder = Path(home) / "model"
            train_to(folder, x, made.labels, RECIPE, backend=runner)
            took = time.perf_counter() - start
            peak, worked = next(iter(client.run(used).values()))
        stored = sum(file.stat().st_size for file in folder.iterdir())
        assert load(folder).n_labels == n_labels
    print(f"  memory of the worker: peak {peak / 1e9:.2f} GB, plan {expected.memory / 1e9:.2f} GB")
    print(f"  model: {stored / 1e9:.2f} GB, plan {expected.model_bytes / 1e9:.2f} GB")
    print(f"  processor time of the worker: {worked - before:.0f} s")
    print(f"time beside the plan: {took:.0f} s / {expected.seconds:.0f} s = ", end="")
    print(f"{took / expected.seconds:.2f}, load {os.getloadavg()[0]:.1f}")
    return {
        "100,000 labels, time / plan": took / expected.seconds,
        "100,000 labels, memory / plan": peak / expected.memory,
    }


def used() -> tuple[int, float]:
    """Peak memory in bytes and processor time in seconds of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return 1024 * usage.ru_maxrss, usage.ru_utime


PARTS = {"speed": speed, "bytes": bytes_sent, "large": large}

if __name__ == "__main__":
    main()
