"""How fast and how good are label trees, beside omikuji, and how do they grow?

    python benchmarks/tree.py [PART ...] [--json FILE]

Peer: `omikuji` (defaults: three balanced trees), same tf-idf features, same threads, in this
process. Processor time is printed beside the wall clock, because a shared machine disturbs the
latter. On finna, C and tol are those that `choose` put into the table of results, which sees
training rows only; arity and leaf are the defaults of `TreeRecipe`.

- choose   P@k of one tree on 20,000 held-out training rows for a few C and tol; the fastest whose
           mean of P@1, 3 and 5 is at most 0.1 points below the best is chosen;
- finna    three trees on 280,316 rows and 24,626 labels: time and P@k of both; rows per processor
           second of prediction, and its overlap with the exact best five;
- fifth    the same on a fifth of the training rows: a first look in a minute;
- alone    `finna` without omikuji: P@k and the speed of prediction;
- one      one tree of ours beside three;
- growth   planted data of 20,000, 60,000 and 200,000 labels: milliseconds per label, memory;
- smaller  the first two of them;
- vocabulary  `growth` with the 136,000 features of `large` for all sizes;
- arities  products per label at every arity, with 20,000 and 670,000 labels: how the work grows;
- large    planted data of the size of Amazon-670K: 490,000 rows, 136,000 features, 670,000 labels;
- peer     omikuji, one tree, on the 20,000 and 200,000 labels of `growth`;
- peer-large  omikuji, one tree, on the data of `large`;
- pecos, pecos-large  the same by PECOS XR-Linear, defaults. Release 1.2.8 does not run with NumPy
           2, so that it has a Python of its own (`pip install libpecos "numpy<2"`), whose path is
           in PECOS_PYTHON; it is handed the matrices and hands back its best labels.

Data are read from the folder in UNMASK_DATA.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import results
from results import add_json_option, write_json
from unmask import set_threads, tree
from unmask.data import Dataset, read, synthetic, write
from unmask.data.texts import idf, tfidf
from unmask.models.tree import centroids, clustered, prepare
from unmask.models.tree_model import Shape, depth_of, halves, split_bits

DATA = Path(os.environ.get("UNMASK_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
THREADS = 2
EXACT_ROWS = 2000
LARGE_FEATURES = 136_010
CHOSEN = "finna, chosen"
MEASURED: dict[str, float] = {}
PECOS_PYTHON = os.environ.get("PECOS_PYTHON", "")
PECOS = """
import json, resource, sys, time
from pathlib import Path
import numpy as np, scipy.sparse as sp
from pecos.xmc import Indexer, LabelEmbeddingFactory
from pecos.xmc.xlinear.model import XLinearModel

folder, threads = Path(sys.argv[1]), int(sys.argv[2])
x, y, test_x = (sp.load_npz(folder / f"{name}.npz").tocsr() for name in ("x", "y", "test_x"))
x, y, test_x = (sp.csr_matrix(m, dtype=np.float32) for m in (x, y, test_x))
wall, cpu = time.perf_counter(), time.process_time()
vectors = LabelEmbeddingFactory.create(y, x, method="pifa", threads=threads)
chain = Indexer.gen(vectors, indexer_type="hierarchicalkmeans", threads=threads)
model = XLinearModel.train(x, y, C=chain, threads=threads)
took = time.perf_counter() - wall, time.process_time() - cpu
wall, cpu = time.perf_counter(), time.process_time()
best = model.predict(test_x, only_topk=5, threads=threads)
predicted = time.perf_counter() - wall, time.process_time() - cpu
top = np.full((best.shape[0], 5), -1)
for i, (a, b) in enumerate(zip(best.indptr[:-1], best.indptr[1:])):
    top[i, : b - a] = best.indices[a:b][np.argsort(-best.data[a:b], kind="stable")]
np.save(folder / "top.npy", top)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
(folder / "took.json").write_text(json.dumps([took, predicted, peak]))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", nargs="*", choices=[*PARTS, []])
    add_json_option(parser)
    options = parser.parse_args()
    set_threads(THREADS)
    for part in options.part or DEFAULT:
        print(f"\n{part}", flush=True)
        MEASURED.update(PARTS[part]())
    write_json(options.json, MEASURED)


def choose(rows: int = 20_000) -> dict[str, float]:
    """C and tol by rows of the training file that are held out."""
    x, y, _, _ = loaded("finna-yso-en")
    order = np.random.default_rng(0).permutation(x.shape[0])
    kept, held = order[rows:], order[:rows]
    warm()
    numbers, tried = {}, []
    for cost in (0.25, 0.5, 1.0, 2.0):
        for tol in (0.1, 0.2, 0.4):
            recipe = tree.TreeRecipe(n_trees=1, C=cost, tol=tol)
            took, model = timed(lambda recipe=recipe: tree.train(x[kept], y[kept], recipe))
            hits = precision(tree.predict_top(model, x[held], 5).labels, y[held])
            mean = 100 * sum(hits.values()) / len(hits)
            print(f"  C {cost} tol {tol} {took} {shown(hits)}, mean {mean:.2f}", flush=True)
            tried.append((mean, took.cpu, cost, tol))
            numbers[f"{CHOSEN}, C {cost}, tol {tol}, mean of P@1/3/5 on held-out rows"] = mean
    best = max(mean for mean, *_ in tried)
    _, _, cost, tol = min((each for each in tried if each[0] >= best - 0.1), key=lambda t: t[1])
    print(f"  chosen: C {cost}, tol {tol}")
    return numbers | {f"{CHOSEN}, C": cost, f"{CHOSEN}, tol": tol}


def chosen() -> dict[str, float]:
    """What `choose` recorded, now or earlier, as parameters of a recipe."""
    table = {row.name: row.value for row in results.read() if row.script == "tree"} | MEASURED
    if f"{CHOSEN}, C" not in table:
        raise SystemExit("run the part `choose` first, and keep its numbers (results.py).")
    return {"C": table[f"{CHOSEN}, C"], "tol": table[f"{CHOSEN}, tol"]}


def finna(
    share: int = 1, name: str = "finna, three trees", beside: bool = True
) -> dict[str, float]:
    recipe = tree.TreeRecipe(**chosen())
    x, y, test_x, test_y = loaded("finna-yso-en")
    x, y = x[::share], y[::share]
    warm()
    ours, model = timed(lambda: tree.train(x, y, recipe))
    mine = precision(tree.predict_top(model, test_x, 5).labels, test_y)
    print(f"  ours      {ours}  P@1/3/5 {shown(mine)}", flush=True)
    numbers = prediction(model, test_x, name)
    numbers |= {f"{name}, ours, P@{k} in %": 100 * value for k, value in mine.items()}
    if not beside:
        return numbers
    theirs, peer = by_omikuji(x, y)
    predicted, top = timed(lambda: omikuji_top(peer, test_x))
    other = precision(top, test_y)
    print(f"  omikuji   {theirs}  P@1/3/5 {shown(other)}, predicts {predicted}")
    ratio = theirs.cpu / ours.cpu
    print(f"{name}, omikuji / ours: {ratio:.1f}× by processor time (at least 3×)")
    worst = min(mine[k] - other[k] for k in mine)
    print(f"  smallest difference of P@k: {100 * worst:+.2f} points (at least −0.1)")
    numbers |= {f"{name}, omikuji, P@{k} in %": 100 * value for k, value in other.items()}
    for who, took in (("ours", ours), ("omikuji", theirs)):
        numbers[f"{name}, {who}, processor seconds"] = took.cpu
        numbers[f"{name}, {who}, wall seconds"] = took.wall
    return numbers | {
        f"{name}, omikuji / ours, processor time": ratio,
        f"{name}, smallest difference of P@k to omikuji in points": 100 * worst,
        f"{name}, omikuji, rows predicted per processor second": len(top) / predicted.cpu,
    }


def fifth() -> dict[str, float]:
    return finna(5, "a fifth of finna, three trees")


def alone() -> dict[str, float]:
    return finna(beside=False)


def one() -> dict[str, float]:
    x, y, test_x, test_y = loaded("finna-yso-en")
    warm()
    took, model = timed(lambda: tree.train(x, y, tree.TreeRecipe(n_trees=1, **chosen())))
    mine = precision(tree.predict_top(model, test_x, 5).labels, test_y)
    print(f"  one tree  {took}  P@1/3/5 {shown(mine)}", flush=True)
    numbers = {f"finna, one tree, ours, P@{k} in %": 100 * value for k, value in mine.items()}
    numbers["finna, one tree, ours, processor seconds"] = took.cpu
    return numbers | prediction(model, test_x, "finna, one tree")


def growth(sizes: tuple[int, ...] = (20_000, 60_000, 200_000)) -> dict[str, float]:
    warm()
    numbers = {}
    for n_labels in sizes:
        numbers |= grown(n_labels)
    return numbers


def large() -> dict[str, float]:
    warm()
    return grown(670_000)


def vocabulary(sizes: tuple[int, ...] = (20_000, 60_000, 200_000)) -> dict[str, float]:
    warm()
    numbers = {}
    for n_labels in sizes:
        numbers |= grown(n_labels, LARGE_FEATURES)
    return numbers


def arities(sizes: tuple[int, ...] = (20_000, 670_000)) -> dict[str, float]:
    """Products per label in one order of labels, whatever is trained on it."""
    numbers = {}
    for n_labels in sizes:
        x, y, _, _ = planted(n_labels)
        data = prepare(x, y, tree.TreeRecipe(), None)
        depth = depth_of(n_labels, tree.TreeRecipe().leaf)
        vectors = centroids(data.x, data.n_features, data.starts, data.rows)
        order, bounds = clustered(vectors, depth, 0), halves(n_labels, depth)
        for arity in (2, 4, 8, 16, 32):
            shape = Shape(order, bounds, split_bits(depth, arity))
            work = products(x, y, shape) / n_labels
            print(f"  {n_labels:,} labels, arity {arity}: {work:,.0f} products", flush=True)
            numbers[f"planted, {n_labels} labels, arity {arity}, products per label"] = work
    return numbers


def grown(n_labels: int, features: int | None = None) -> dict[str, float]:
    """One tree of planted data, 0.73 rows per label, as in Amazon-670K."""
    x, y, test_x, test_y = planted(n_labels, features)
    took, model = timed(lambda: tree.train(x, y, tree.TreeRecipe(n_trees=1)))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    each = 1000 * took.cpu / n_labels
    name = f"planted, {n_labels} labels, one tree"
    if features is not None:
        name = f"planted, {n_labels} labels on {features} features, one tree"
    hits = precision(tree.predict_top(model, test_x, 5).labels, test_y)
    print(f"  {name}: {took}, {each:.2f} ms per label, {each / math.log(n_labels):.4f} / ln L")
    print(f"    {peak:.1f} GiB at most, P@1/3/5 {shown(hits)}", flush=True)
    work = products(x, y, model.trees[0].shape) / n_labels
    print(f"    {work:,.0f} products per label, {1e6 * each / work:.1f} ns each", flush=True)
    numbers = {f"{name}, ours, P@{k} in %": 100 * value for k, value in hits.items()}
    return numbers | {
        f"{name}, ours, processor seconds": took.cpu,
        f"{name}, ours, wall seconds": took.wall,
        f"{name}, ours, milliseconds per label": each,
        f"{name}, ours, milliseconds per label / ln L": each / math.log(n_labels),
        f"{name}, ours, products per label": work,
        f"{name}, ours, nanoseconds per product": 1e6 * each / work,
        f"{name}, ours, GiB": peak,
        **prediction(model, test_x, name),
    }


def products(x: sp.csr_array, y: sp.csr_array, shape: Shape) -> float:
    """Non-zeros of the rows of a node × its children, over all nodes: what training has to look at.

    A row is met at every node that has one of its labels, so its labels part on the way down: the
    root meets it once, the leaf nodes nearly once per label.
    """
    lengths = np.diff(x.indptr)
    rows = np.repeat(np.arange(y.shape[0]), np.diff(y.indptr))
    leaf_of = np.empty(shape.n_labels, dtype=np.int64)
    leaf_of[shape.order] = np.repeat(np.arange(len(shape.bounds) - 1), np.diff(shape.bounds))
    total = float(lengths.sum()) * (len(shape.child_bounds(0, 0)) - 1)
    for level in range(1, shape.levels):
        nodes = leaf_of[y.indices] >> sum(shape.bits[level:])
        pairs = np.unique(rows * shape.nodes(level) + nodes)
        children = np.diff(shape.child_starts(level))
        met_by, met = np.divmod(pairs, shape.nodes(level))
        total += float(lengths[met_by] @ children[met])
    return total


def planted(
    n_labels: int, features: int | None = None
) -> tuple[sp.csr_array, sp.csr_array, sp.csr_array, sp.csr_array]:
    """Training rows, and 20,000 test rows, as tf-idf; 0.2 features per label unless told."""
    rows, d = round(0.7313 * n_labels), features or round(0.203 * n_labels)
    made = synthetic.planted(
        rows + 20_000, n_features=d, n_labels=n_labels, labels_per_row=5.45, noise_words=20, seed=0
    )
    weights = idf(made.features[:rows])
    x, test_x = tfidf(made.features[:rows], weights), tfidf(made.features[rows:], weights)
    return x, made.labels[:rows], test_x, made.labels[rows:]


def peer(sizes: tuple[int, ...] = (20_000, 200_000)) -> dict[str, float]:
    numbers = {}
    for n_labels in sizes:
        x, y, test_x, test_y = planted(n_labels)
        took, model = by_omikuji(x, y, n_trees=1)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"  trained in {took}", flush=True)
        predicted, top = timed(lambda model=model, test_x=test_x: omikuji_top(model, test_x))
        numbers |= of_peer("omikuji", n_labels, took, predicted, peak, top, test_y)
    return numbers


def peer_large() -> dict[str, float]:
    return peer((670_000,))


def pecos(sizes: tuple[int, ...] = (20_000, 200_000)) -> dict[str, float]:
    if not PECOS_PYTHON:
        raise SystemExit("set PECOS_PYTHON to a Python that has libpecos and NumPy 1.")
    numbers = {}
    for n_labels in sizes:
        x, y, test_x, test_y = planted(n_labels)
        with tempfile.TemporaryDirectory() as folder:
            for name, matrix in (("x", x), ("y", y), ("test_x", test_x)):
                sp.save_npz(Path(folder, f"{name}.npz"), sp.csr_matrix(matrix), compressed=False)
            command = [PECOS_PYTHON, "-c", PECOS, folder, str(THREADS)]
            subprocess.run(command, check=True)
            took, predicted, peak = json.loads(Path(folder, "took.json").read_text())
            top = np.load(Path(folder, "top.npy"))
        numbers |= of_peer("PECOS", n_labels, Took(*took), Took(*predicted), peak, top, test_y)
    return numbers


def pecos_large() -> dict[str, float]:
    return pecos((670_000,))


def of_peer(
    who: str, n_labels: int, took: Took, predicted: Took, peak: float, top: np.ndarray,
    test_y: sp.csr_array,
) -> dict[str, float]:  # fmt: skip
    """What a peer needs for planted data, and its P@k."""
    hits = precision(top, test_y)
    name = f"planted, {n_labels} labels, one tree, {who}"
    print(f"  {name}: {took}, {peak:.1f} GiB, P@1/3/5 {shown(hits)}, predicts {predicted}")
    numbers = {f"{name}, P@{k} in %": 100 * value for k, value in hits.items()}
    return numbers | {
        f"{name}, processor seconds": took.cpu,
        f"{name}, wall seconds": took.wall,
        f"{name}, GiB": peak,
        f"{name}, rows predicted per processor second": len(top) / predicted.cpu,
    }


def prediction(model: tree.TreeModel, test_x: sp.csr_array, name: str) -> dict[str, float]:
    """Rows per processor second with the default beam, and overlap with the exact best five."""
    took, top = timed(lambda: tree.predict_top(model, test_x, 5))
    every = slice(None, None, -(-test_x.shape[0] // EXACT_ROWS))
    exact = tree.predict_top(model, test_x[every], 5, beam=None).labels
    same = (top.labels[every, :, None] == exact[:, None, :]).any(axis=2).mean()
    speed = test_x.shape[0] / took.cpu
    print(f"  {name}: {speed:,.0f} rows per processor second (at least 10,000), ", end="")
    print(f"{test_x.shape[0] / took.wall:,.0f} by the clock, ", end="")
    print(f"overlap with the exact {same:.4f} (at least 0.99)", flush=True)
    return {
        f"{name}, rows predicted per processor second": speed,
        f"{name}, overlap with exact": float(same),
    }


def warm() -> None:
    """Compile before anything is timed."""
    small = synthetic.planted(300, n_features=60, n_labels=80, seed=0)
    recipe = tree.TreeRecipe(arity=4, leaf=4)
    tree.predict_top(tree.train(small.features, small.labels, recipe), small.features, 2)
    recipe = tree.TreeRecipe(arity=4, leaf=4, n_trees=1)
    tree.predict_top(tree.train(small.features, small.labels, recipe), small.features, 2)


class Took:
    """Wall-clock and processor seconds."""

    def __init__(self, wall: float, cpu: float) -> None:
        self.wall, self.cpu = wall, cpu

    def __str__(self) -> str:
        return f"{self.wall:7.2f} s (processor {self.cpu:.2f} s)"


def timed(work: Callable[[], Any]) -> tuple[Took, Any]:
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return Took(time.perf_counter() - wall, time.process_time() - cpu), result


def by_omikuji(x: sp.csr_array, y: sp.csr_array, n_trees: int = 3) -> tuple[Took, Any]:
    """Its defaults. It trains from a file, whose reading (some seconds) is part of its time."""
    import omikuji

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.txt")
        write(path, Dataset(features=x, labels=y))
        settings = omikuji.Model.default_hyper_param()
        settings.n_trees = n_trees
        return timed(lambda: omikuji.Model.train_on_data(str(path), settings, n_threads=THREADS))


def omikuji_top(model: Any, x: sp.csr_array, k: int = 5) -> np.ndarray:
    top = np.full((x.shape[0], k), -1)
    for i, (a, b) in enumerate(zip(x.indptr[:-1], x.indptr[1:], strict=True)):
        pairs = list(zip(x.indices[a:b].tolist(), x.data[a:b].tolist(), strict=True))
        for place, (label, _) in enumerate(model.predict(pairs, top_k=k)):
            top[i, place] = label
    return top


def precision(labels: np.ndarray, truth: sp.csr_array) -> dict[int, float]:
    rows = np.repeat(np.arange(len(labels)), labels.shape[1])
    keys = rows * (truth.shape[1] + 1) + labels.ravel()
    true_rows = np.repeat(np.arange(truth.shape[0]), np.diff(truth.indptr))
    hits = np.isin(keys, true_rows * (truth.shape[1] + 1) + truth.indices).reshape(labels.shape)
    return {k: float(hits[:, :k].mean()) for k in (1, 3, 5)}


def shown(values: dict[int, float]) -> str:
    return "/".join(f"{100 * value:.2f}" for value in values.values())


def loaded(name: str) -> tuple[sp.csr_array, sp.csr_array, sp.csr_array, sp.csr_array]:
    train, test = (read(DATA / name / f"{part}.txt.gz") for part in ("train", "test"))
    weights = idf(train.features)
    return tfidf(train.features, weights), train.labels, tfidf(test.features, weights), test.labels


def smaller() -> dict[str, float]:
    return growth((20_000, 60_000))


PARTS = {
    "choose": choose,
    "finna": finna,
    "fifth": fifth,
    "alone": alone,
    "one": one,
    "smaller": smaller,
    "growth": growth,
    "vocabulary": vocabulary,
    "arities": arities,
    "large": large,
    "peer": peer,
    "peer-large": peer_large,
    "pecos": pecos,
    "pecos-large": pecos_large,
}
DEFAULT = ("choose", "finna", "one", "growth", "large", "peer")

if __name__ == "__main__":
    main()
