"""A shortlist of 1,000 candidates of 670,000 labels: against all labels, and against plain BCE.

512 rows, 64 dimensions, five observed labels per row; unbiased logistic loss. Three things are
measured with one thread, in processor time: the loss of the candidates' logits, forwards and
backwards, against `binary_cross_entropy_with_logits` of the same logits with a dense target that
somebody has made before (limit 1.3), for candidates that rows share and that they do not; a step of
training (projection, loss, gradients) with the shortlist against `CorrectedOutput` over all labels
in chunks; and the peak memory of both steps, each in a process of its own. Logits of all labels
would take 512 × 670,000 × 4 bytes, and their gradient as much again.

    python benchmarks/torch_shortlist.py [--labels 670000] [--seconds 8] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from results import add_json_option, write_json
from unmask.losses import UnboundedLossWarning
from unmask.torch import CorrectedOutput, MissingLabelLoss, samplers

ROWS, PER_ROW, CANDIDATES, WIDTH, LIMIT = 512, 5, 1000, 64, 1.3


def batch(n_labels: int) -> tuple[MissingLabelLoss, torch.Tensor, samplers.Sample]:
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    warnings.simplefilter("ignore", UnboundedLossWarning)
    loss = MissingLabelLoss(np.linspace(0.2, 1, n_labels))
    pool = torch.randperm(n_labels, generator=generator)[: CANDIDATES // 2]
    places = torch.stack(
        [torch.randperm(len(pool), generator=generator)[:PER_ROW] for _ in range(ROWS)]
    )
    sample = samplers.uniform(n_labels, CANDIDATES // 2, generator=generator)
    return loss, pool[places], sample


def losses(n_labels: int, seconds: float) -> dict[str, float]:
    loss, targets, sample = batch(n_labels)
    numbers = {}
    for kind, per_row in (("shared", False), ("per row", True)):
        if per_row:
            sample = samplers.uniform(n_labels, CANDIDATES - PER_ROW)
        ids, q = samplers.with_observed(sample, targets, n_labels, per_row=per_row)
        logits = torch.randn(ROWS, ids.shape[-1], requires_grad=True)
        member = (ids.expand(logits.shape)[:, :, None] == targets[:, None, :]).any(-1)
        dense = member.float()

        def plain(logits: torch.Tensor = logits, dense: torch.Tensor = dense) -> None:
            binary_cross_entropy_with_logits(logits, dense).backward()

        def exact(logits: torch.Tensor = logits, ids: torch.Tensor = ids) -> None:
            loss(logits, targets, candidates=ids).backward()

        def sampled(
            logits: torch.Tensor = logits, ids: torch.Tensor = ids, q: torch.Tensor = q
        ) -> None:
            loss(logits, targets, candidates=ids, sampling=q).backward()

        best = interleaved({"plain": plain, "exact": exact, "sampled": sampled}, logits, seconds)
        print(f"{ROWS} × {ids.shape[-1]} candidates, {kind}: BCE {best['plain'] * 1e3:.2f} ms")
        for name in ("exact", "sampled"):
            ratio = best[name] / best["plain"]
            print(f"  {name:8s} {best[name] * 1e3:8.2f} ms  {ratio:.2f} (limit {LIMIT})")
            numbers[f"{kind} candidates, {name} / BCE"] = ratio
    return numbers


def interleaved(
    runs: dict[str, Callable[[], None]], logits: torch.Tensor, seconds: float
) -> dict[str, float]:
    best = dict.fromkeys(runs, float("inf"))
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, run in runs.items():
            logits.grad = None
            start = time.process_time()
            run()
            best[name] = min(best[name], time.process_time() - start)
    return best


def step(n_labels: int, shortlist: bool, rounds: int) -> dict[str, float]:
    """Seconds of a step and the memory that it adds at its peak, in MB."""
    loss, targets, sample = batch(n_labels)
    layer = CorrectedOutput(WIDTH, loss, sparse=shortlist)
    hidden = torch.randn(ROWS, WIDTH, requires_grad=True)
    options = {}
    if shortlist:
        ids, q = samplers.with_observed(sample, targets, n_labels)
        options = {"candidates": ids, "sampling": q}
    loss(torch.zeros(2, 1), targets[:2], candidates=torch.tensor([-1]))  # compile first
    before, best = resident(), float("inf")
    for _ in range(rounds):
        layer.zero_grad()
        start = time.process_time()
        layer(hidden, targets, **options).backward()
        best = min(best, time.process_time() - start)
    return {"seconds": best, "megabytes": resident() - before}


def resident() -> float:
    """The most memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def apart(n_labels: int, name: str) -> dict[str, float]:
    """`step` in a process of its own."""
    command = [sys.executable, __file__, "--labels", str(n_labels), "--step", name]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ)
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--labels", type=int, default=670_000)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each kind of candidates")
    parser.add_argument("--step", choices=["shortlist", "all"], help=argparse.SUPPRESS)
    add_json_option(parser)
    options = parser.parse_args()
    if options.step:
        rounds = 5 if options.step == "shortlist" else 1
        print(json.dumps(step(options.labels, options.step == "shortlist", rounds)))
        return
    numbers = losses(options.labels, options.seconds)
    short, whole = (apart(options.labels, name) for name in ("shortlist", "all"))
    for name, taken in (("shortlist", short), ("all labels, in chunks", whole)):
        print(f"step, {name:22s} {taken['seconds']:8.3f} s  {taken['megabytes']:8.0f} MB")
    all_logits = ROWS * options.labels * 4 / 1e6
    print(f"logits of all labels would be {all_logits:.0f} MB, and their gradient as much")
    numbers["step, shortlist / all labels"] = short["seconds"] / whole["seconds"]
    numbers["peak of a step, shortlist, MB"] = short["megabytes"]
    numbers["peak of a step, all labels in chunks, MB"] = whole["megabytes"]
    write_json(options.json, numbers)


if __name__ == "__main__":
    main()
