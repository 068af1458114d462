"""Forward + backward of every one-vs-all correction against torch's own BCE with a dense target.

512 rows of 13,330 and of 100 labels, five observed labels per row. The peer and all corrections run
interleaved in one process; the time of each is its best of many rounds, the ratio is ours / BCE.
With one thread the clock counts processor time, so that a busy machine can be measured, too.
Limits of the dearest correction: 0.6 at 13,330 labels; at 100 labels 1.15 for label numbers and
1.25 for CSR targets.

    python benchmarks/torch_losses.py [threads] [--seconds 25] [--json FILE]
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from results import add_json_option, write_json
from unmask.losses import UnboundedLossWarning
from unmask.torch import MissingLabelLoss

ROWS, PER_ROW = 512, 5
LIMITS = {
    13_330: {"index": 0.6, "csr": 0.6, "coo": 0.6},
    100: {"index": 1.15, "csr": 1.25, "coo": float("inf")},
}
CORRECTIONS = [
    (correction, normalized)
    for correction in ("vanilla", "unbiased", "bound", "tempered", "empirical_bayes")
    for normalized in (False, True)
    if normalized or correction != "empirical_bayes"
]


def targets(n_labels: int) -> dict[str, torch.Tensor]:
    rng = np.random.default_rng(0)
    index = torch.as_tensor(
        np.stack([rng.choice(n_labels, PER_ROW, replace=False) for _ in range(ROWS)])
    ).sort(1)[0]
    dense = torch.zeros(ROWS, n_labels).scatter_(1, index, 1.0)
    return {
        "dense": dense,
        "csr": dense.to_sparse_csr(),
        "coo": dense.to_sparse_coo().coalesce(),
        "index": index,
    }


def contestants(n_labels: int) -> dict[str, Callable[[], None]]:
    rng = np.random.default_rng(1)
    logits = torch.randn(ROWS, n_labels, requires_grad=True)
    propensity, kinds = rng.uniform(0.2, 1, n_labels), targets(n_labels)
    labels = sp.csr_array(kinds["dense"].numpy())

    def step(loss: Callable[..., torch.Tensor], target: torch.Tensor) -> Callable[[], None]:
        def run() -> None:
            logits.grad = None
            loss(logits, target).backward()

        return run

    runs = {"BCE": step(binary_cross_entropy_with_logits, kinds["dense"])}
    for correction, normalized in CORRECTIONS:
        module = MissingLabelLoss(
            propensity,
            correction=correction,
            normalized=normalized,
            labels=labels if correction == "empirical_bayes" else None,
            tau=0.5,
        )
        for kind in ("csr", "coo", "index"):
            name = f"{correction}{' normalised' if normalized else ''}, {kind} targets"
            runs[name] = step(module, kinds[kind])
    return runs


def interleaved(runs: dict[str, Callable[[], None]], seconds: float) -> dict[str, float]:
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    best = dict.fromkeys(runs, float("inf"))
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, run in runs.items():
            start = clock()
            run()
            best[name] = min(best[name], clock() - start)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("threads", nargs="?", type=int)
    parser.add_argument("--seconds", type=float, default=25.0, help="of each size")
    add_json_option(parser)
    options = parser.parse_args()
    warnings.simplefilter("ignore", UnboundedLossWarning)
    warnings.filterwarnings("ignore", message="Sparse CSR tensor support")
    if options.threads:
        torch.set_num_threads(options.threads)
    worst: dict[tuple[int, str], float] = {}
    for n_labels, limits in LIMITS.items():
        best = interleaved(contestants(n_labels), options.seconds)
        peer = best.pop("BCE")
        print(f"{ROWS} × {n_labels}: BCE with a dense target {peer * 1e3:.2f} ms")
        for name, taken in best.items():
            print(f"  {name:40s} {taken * 1e3:8.2f} ms  {taken / peer:.2f}")
        for kind in limits:
            ratios = [taken / peer for name, taken in best.items() if f" {kind} " in name]
            worst[n_labels, kind] = max(ratios)
    for (n_labels, kind), ratio in worst.items():
        limit = LIMITS[n_labels][kind]
        print(f"worst ratio at {n_labels} labels, {kind}: {ratio:.2f} (limit {limit})")
    numbers = {
        f"{n:,} labels, {kind} targets, dearest correction / BCE": ratio
        for (n, kind), ratio in worst.items()
    }
    for n in LIMITS:
        dearest = max(ratio for (size, _), ratio in worst.items() if size == n)
        numbers[f"{n:,} labels, dearest correction / BCE"] = dearest
    write_json(options.json, numbers)


if __name__ == "__main__":
    main()
