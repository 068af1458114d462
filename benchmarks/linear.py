"""How fast is linear one-vs-all training and prediction, beside napkinXC and scikit-learn?

    python benchmarks/linear.py [debtags] [threads] [corrections] [finna] [predict] [--json FILE]

Peers: `napkinxc` (binary relevance, liblinear inside) and scikit-learn's LinearSVC, same
data, same C = 1, same threads, in this process. Every time is the best of several runs; processor
time is printed beside the wall clock, because a shared machine disturbs the latter.

- debtags      all 598 labels on one thread: time, P@k, and the objective of every label that
               LinearSVC was asked for, relative to LinearSVC's;
- threads      1 and 2 threads, and a quarter and a half of the labels;
- corrections  logistic loss: what unbiased, bound and empirical-Bayes training cost beside vanilla;
- finna        a random subset of the 24,626 labels, milliseconds per label beside napkinXC;
- predict      top-5 of the finna test rows with a culled model of 2,000 labels beside napkinXC's.

Data are read from the folder in UNMASK_DATA.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from napkinxc.models import BR
from sklearn.svm import LinearSVC

from results import add_json_option, write_json
from unmask import set_threads
from unmask.data import read
from unmask.data.texts import idf, tfidf
from unmask.linear import Recipe, predict_top, train
from unmask.propensity import jain

DATA = Path(os.environ.get("UNMASK_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
OURS = Recipe("squared_hinge", C=1.0)


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


def debtags() -> dict[str, float]:
    x, y, test_x, test_y = loaded("debtags-bookworm")
    set_threads(1)
    train(x, y[:, :64], OURS)  # compile
    ours, (model, solution) = best(lambda: train(x, y, OURS), 5)
    theirs, peer = best(lambda: napkin(x, y), 2)
    print(f"  ours      {ours}  P@1/3/5 {precision(predict_top(model, test_x, 5).labels, test_y)}")
    predicted = peer.predict(sp.csr_matrix(test_x), top_k=5)
    labels = np.array(predicted)
    print(f"  napkinXC  {theirs}  P@1/3/5 {precision(labels, test_y)}")
    chosen = np.random.default_rng(0).permutation(np.flatnonzero(y.sum(0) > 0))[:60]
    gaps = []
    for j in chosen:
        target = y[:, [j]].toarray().ravel()
        svc = LinearSVC(C=1.0, tol=1e-6, max_iter=100_000).fit(x, target)
        margin = (2 * target - 1) * svc.decision_function(x)
        size = (svc.coef_**2).sum() + (svc.intercept_**2).sum()
        value = 0.5 * size + (np.maximum(1 - margin, 0) ** 2).sum()
        gaps.append(solution.objective[j] / value - 1)
    print(f"  objective beside liblinear's, {len(gaps)} labels: at most {max(gaps):+.1e} of it")
    return ratio("debtags training, one thread, napkinXC / ours", theirs, ours, 6)


def threads() -> dict[str, float]:
    x, y, _, _ = loaded("debtags-bookworm")
    train(x, y[:, :64], OURS)
    times = {}
    for count in (1, 2):
        set_threads(count)
        times[count], _ = best(lambda: train(x, y, OURS), 4)
        print(f"  {count} threads: {times[count]}")
    set_threads(1)
    order = np.random.default_rng(0).permutation(y.shape[1])
    for share in (4, 2, 1):
        part = y[:, order[: y.shape[1] // share]]
        took, _ = best(lambda part=part: train(x, part, OURS), 3)
        print(f"  {part.shape[1]:4d} labels: {took}, {1e3 * took.cpu / part.shape[1]:.2f} ms each")
    gain = times[1].wall / times[2].wall
    print(f"speed-up by a second thread: {gain:.2f}")
    return {"debtags training, speed-up by a second thread": gain}


def corrections() -> dict[str, float]:
    x, y, _, _ = loaded("debtags-bookworm")
    p = jain(y)
    set_threads(1)
    train(x, y[:, :32], Recipe("logistic"))
    cases = {
        "vanilla": ("vanilla", False),
        "unbiased": ("unbiased", False),
        "bound": ("bound", False),
        "vanilla, normalised": ("vanilla", True),
        "empirical Bayes, normalised": ("empirical_bayes", True),
    }
    times = {}
    for name, (correction, normalized) in cases.items():
        recipe = Recipe("logistic", correction=correction, normalized=normalized)
        times[name], _ = best(lambda recipe=recipe: train(x, y, recipe, propensity=p), 3)
        print(f"  {name:28s} {times[name]}")
    worst = max(times[n].cpu for n in cases) / times["vanilla"].cpu
    print(f"dearest correction beside vanilla: {worst:.2f} (at most 1.3)")
    return {"debtags training, dearest correction / vanilla": worst}


def finna(count: int = 64) -> dict[str, float]:
    x, y, _, _ = loaded("finna-yso-en")
    chosen = np.random.default_rng(0).choice(y.shape[1], count, replace=False)
    part = y[:, chosen]
    set_threads(1)
    recipe = Recipe("squared_hinge", C=1.0, prune_below=0.01)
    train(x, part[:, :32], recipe)
    ours, (model, _) = best(lambda: train(x, part, recipe), 3)
    whole, half = (best(lambda p=p: napkin(x, p), 1)[0] for p in (part, part[:, : count // 2]))
    theirs = Took(2 * (whole.wall - half.wall), 2 * (whole.cpu - half.cpu))  # without its set-up
    stored = 8 * model.weights.nnz * y.shape[1] / count
    print(f"  ours      {1e3 * ours.wall / count:8.2f} ms per label (processor {ours.cpu:.2f} s)")
    print(
        f"  napkinXC  {1e3 * theirs.wall / count:8.2f} ms per label (processor {theirs.cpu:.2f} s)"
    )
    print(f"  all labels would take {ours.wall * y.shape[1] / count:.0f} s on one thread")
    print(f"  and {stored / 2**30:.2f} GiB culled at 0.01")
    return ratio("finna training per label, one thread, napkinXC / ours", theirs, ours, 6)


def predict(count: int = 2000) -> dict[str, float]:
    x, y, test_x, _ = loaded("finna-yso-en")
    chosen = np.random.default_rng(1).choice(y.shape[1], count, replace=False)
    rng = np.random.default_rng(2)
    small = rng.choice(x.shape[0], 20_000, replace=False)
    x, y = x[small], y[small][:, chosen]  # the speed of prediction does not need a good model
    model, _ = train(x, y, Recipe("squared_hinge", prune_below=0.01))
    set_threads(1)
    predict_top(model, test_x[:100], 5)
    ours, _ = best(lambda: predict_top(model, test_x, 5), 3)
    peer = napkin(x, y, threshold=0.01)
    rows = sp.csr_matrix(test_x)
    theirs, _ = best(lambda: peer.predict(rows, top_k=5), 1)
    print(f"  ours      {ours}\n  napkinXC  {theirs}")
    return ratio("top-5 of the finna test rows, one thread, napkinXC / ours", theirs, ours, 10)


class Took:
    """Wall-clock and processor seconds."""

    def __init__(self, wall: float, cpu: float) -> None:
        self.wall, self.cpu = wall, cpu

    def __str__(self) -> str:
        return f"{self.wall:7.3f} s (processor {self.cpu:.3f} s)"


def best(work: Callable[[], Any], repetitions: int) -> tuple[Took, Any]:
    """The smallest times of several runs, and what the last one returned."""
    walls, cpus, result = [], [], None
    for _ in range(repetitions):
        wall, cpu = time.perf_counter(), time.process_time()
        result = work()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return Took(min(walls), min(cpus)), result


def ratio(what: str, theirs: Took, ours: Took, wanted: float) -> dict[str, float]:
    wall, cpu = theirs.wall / ours.wall, theirs.cpu / ours.cpu
    print(f"{what}: {wall:.1f}× by the clock, {cpu:.1f}× by processor time (at least {wanted}×)")
    return {what: wall, f"{what}, processor time": cpu}


def napkin(x: sp.csr_array, y: sp.csr_array, threshold: float = 0.0) -> Any:
    """Binary relevance with the loss and the C of ours; its folder is thrown away."""
    folder = tempfile.mkdtemp()
    options = {"loss": "l2", "liblinear_c": 1, "weights_threshold": threshold, "norm": False}
    peer = BR(folder, threads=1, verbose=0, **options)
    rows = [y.indices[a:b].tolist() for a, b in zip(y.indptr[:-1], y.indptr[1:], strict=True)]
    try:
        peer.fit(sp.csr_matrix(x), rows)
        peer.load()
    finally:
        shutil.rmtree(folder)
    return peer


def precision(labels: np.ndarray, truth: sp.csr_array) -> str:
    hits = np.take_along_axis(truth.toarray(), labels.astype(np.int64), 1)
    return "/".join(f"{100 * hits[:, :k].mean():.1f}" for k in (1, 3, 5))


def loaded(name: str) -> tuple[sp.csr_array, sp.csr_array, sp.csr_array, sp.csr_array]:
    """Training and test features and labels; word counts become tf-idf."""
    parts = [read(DATA / name / f"{part}.txt.gz") for part in ("train", "test")]
    features = [part.features for part in parts]
    if name.startswith("finna"):
        weights = idf(features[0])
        features = [tfidf(f, weights) for f in features]
    return features[0], parts[0].labels, features[1], parts[1].labels


PARTS = {
    "debtags": debtags,
    "threads": threads,
    "corrections": corrections,
    "finna": finna,
    "predict": predict,
}

if __name__ == "__main__":
    main()
