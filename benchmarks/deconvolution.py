"""How far from the truth is recall by deconvolution, beside the row-by-row estimators?

    python benchmarks/deconvolution.py [repetitions] [--json FILE]

1. The paper's simulation (100 labels at 10 %, 10,000 rows, one true label predicted): root mean
   squared error of recall@1 against the true recall of the rows, and coverage of the 95 % interval.
2. Propensities 1/2 … 1/20 over labels, label counts independent or correlated, k = 1, 3, 5.
3. Real test sets, a ridge model's top 5, labels hidden with known propensities: error ± deviation.
4. What the strata are made of: nothing, predicted labels, observed labels.
5. Time of a fit on a table of 1,000,000 rows.

The real sets are read from the folder in UNMASK_DATA (skipped where there is none).
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.decomposition import TruncatedSVD
from sklearn.preprocessing import normalize

from results import add_json_option, write_json
from unmask._kernels.deconvolution import STRATA, stratum
from unmask.data import read
from unmask.metrics import evaluate
from unmask.metrics.deconvolution import METRICS, Counts, fit
from unmask.predictions import TopK
from unmask.propensity import jain

DATA = Path(os.environ.get("UNMASK_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
RIVALS = ("vanilla", "unbiased", "bound")
Bools = np.ndarray
Floats = np.ndarray


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("repetitions", nargs="?", type=int, default=100)
    add_json_option(parser)
    options = parser.parse_args()
    repetitions = options.repetitions
    ratios = paper(repetitions)
    allowed = {p: 0.5 if p < 0.4 else 1.2 for p in ratios}
    worst = max(ratio / allowed[p] for p, ratio in ratios.items())
    worst = max(worst, heterogeneous(max(3, repetitions // 10)))
    if DATA.is_dir():
        sets = {name: prepared(DATA / name) for name in REAL}
        real(sets, max(3, repetitions // 15))
        strata(sets, max(3, repetitions // 15))
    else:
        print(f"\nno real data in {DATA}; set UNMASK_DATA\n")
    speed()
    print(f"\nlargest error relative to what is allowed: {worst:.2f} (at most 1)")
    numbers = {f"R@1 error, ours / best of three, p = {p}": r for p, r in ratios.items()}
    write_json(options.json, numbers | {"largest error / allowed error": worst})


def paper(repetitions: int) -> dict[float, float]:
    """Our error beside the smallest of the rivals', by propensity."""
    print(f"1. The paper's simulation, recall@1, RMSE over {repetitions} repetitions")
    print(
        "  p    " + "".join(f"{name:>12}" for name in (*RIVALS, "deconvolved")) + "  ratio  covered"
    )
    ratios = {}
    for p in (0.1, 0.2, 0.3, 0.5, 0.7, 0.9):
        random = np.random.default_rng(7)
        errors, covered = [], []
        for _ in range(repetitions):
            true = random.random((10_000, 100)) < 0.1
            top = np.argmax(true * random.random(true.shape), axis=1)[:, None]
            found, inside = one(random, true, top, np.full(100, p), 1)
            errors.append(found)
            covered.append(inside)
        rmse = np.sqrt(np.mean(np.square(errors), axis=0))
        ratios[p] = rmse[-1] / rmse[:-1].min()
        print(f"  {p:.1f}  " + row(rmse) + f"  {ratios[p]:5.2f}  {np.mean(covered):6.0%}")
    return ratios


def heterogeneous(repetitions: int) -> float:
    print(f"\n2. Propensities 1/2 … 1/20, RMSE over {repetitions} repetitions")
    print(
        "  label counts, k "
        + "".join(f"{name:>12}" for name in (*RIVALS, "deconvolved"))
        + "  ratio"
    )
    worst = 0.0
    for name, rate in COUNTS.items():
        random = np.random.default_rng(2)
        propensity = 1 / random.permutation(np.linspace(2, 20, 100))
        errors: dict[int, list[Floats]] = {1: [], 3: [], 5: []}
        for _ in range(repetitions):
            true = random.random((10_000, 100)) < rate(random)
            scores = true + random.normal(0, 0.6, true.shape)
            top = np.argsort(-scores, axis=1)[:, :5]
            for k in errors:
                errors[k].append(one(random, true, top[:, :k], propensity, k)[0])
        for k, found in errors.items():
            rmse = np.sqrt(np.mean(np.square(found), axis=0))
            ratio = rmse[-1] / rmse[:-1].min()
            worst = max(worst, ratio / 0.5)
            print(f"  {name:12} {k}   " + row(rmse) + f"  {ratio:5.2f}")
    return worst


COUNTS: dict[str, Callable[[np.random.Generator], Floats]] = {
    "independent": lambda random: np.full((10_000, 1), 0.1),
    "correlated": lambda random: np.minimum(0.9, 0.1 * random.gamma(2, 0.5, (10_000, 1))),
    "long tail": lambda random: np.minimum(
        0.95, 1.2 / np.arange(1, 101) ** 0.8 * random.gamma(2, 0.5, (10_000, 1))
    ),
}


def one(
    random: np.random.Generator, true: Bools, top: np.ndarray, propensity: Floats, k: int
) -> tuple[Floats, bool]:
    """Errors of all estimators on one hidden copy; and whether the interval holds the truth."""
    observed = true & (random.random(true.shape) < propensity)
    truth = metric(true, top, "R")
    places = -np.arange(k, dtype=np.float32)
    table = evaluate(
        TopK(top.astype(np.int32), np.tile(places, (len(top), 1))),
        sp.csr_array(observed),
        propensity,
        metrics=[f"R@{k}"],
        estimators=RIVALS,
    )
    found = fit(counted(observed, top, propensity)).estimate("R")
    values = [*(table[f"R@{k}", name].value for name in RIVALS), found.value]
    return np.array(values) - truth, found.interval[0] <= truth <= found.interval[1]


def metric(labels: Bools, top: np.ndarray, name: str) -> float:
    """A metric of complete labels, from the same definition that deconvolution uses."""
    hit = np.take_along_axis(labels, top, axis=1)
    k, n = top.shape[1], labels.sum(axis=1).astype(float)
    s = hit.sum(axis=1).astype(float)
    about = METRICS[name]
    if about.at_place is None:
        return float(np.mean(s * about.hit_value(s, n - s, k)))
    return float(np.mean(sum(hit[:, r] * about.at_place(r, n, k) for r in range(k))))


def counted(observed: Bools, top: np.ndarray, propensity: Floats, by: str = "predicted") -> Counts:
    """The tables of `Counts`, with strata made of predicted or of observed labels."""
    hit, inverse = np.take_along_axis(observed, top, axis=1), 1 / propensity[top]
    k, m, sums = top.shape[1], observed.sum(axis=1), observed @ (1 / propensity)
    s = hit.sum(axis=1)
    pairs = zip(inverse.sum(axis=1), [k] * len(m), strict=True)
    if by == "observed":
        pairs = zip(sums, m.tolist(), strict=True)
    cell = np.array([stratum(*pair) for pair in pairs]), s, m - s
    rows = np.zeros((STRATA, k + 1, int((m - s).max()) + 1))
    hits, misses = np.zeros((k, *rows.shape)), np.zeros_like(rows)
    np.add.at(rows, cell, 1)
    np.add.at(misses, cell, sums - (hit * inverse).sum(axis=1))
    for place in range(k):
        np.add.at(hits[place], cell, hit[:, place] * inverse[:, place])
    return Counts(rows, hits, misses)


REAL = ("debtags-bookworm", "delicious", "cooking-stackexchange")
Prepared = tuple[Bools, np.ndarray, sp.csr_array, np.ndarray]
Hidden = tuple[Floats, Bools]


def prepared(folder: Path) -> Prepared:
    """True test labels, a ridge model's top 5, training labels, training positives per label."""
    train, test = read(folder / "train.txt.gz"), read(folder / "test.txt.gz")
    squeeze = TruncatedSVD(300, random_state=0)
    x = squeeze.fit_transform(normalize(train.features))
    weights = np.linalg.solve(x.T @ x + np.eye(300), x.T @ train.labels.toarray())
    scores = squeeze.transform(normalize(test.features)) @ weights
    positives = np.asarray(train.labels.sum(axis=0)).ravel()
    top = np.argsort(-scores, axis=1, kind="stable")[:, :5]
    return test.labels.toarray() > 0, top, train.labels, positives


def hidings(given: Prepared, repetitions: int) -> Iterator[tuple[str, list[Hidden]]]:
    """Ways to hide labels, and for each several (propensities, hidden copy)."""
    true, _, train_labels, positives = given
    random = np.random.default_rng(3)
    spread = np.linspace(2, 20, true.shape[1])
    by_frequency = np.empty_like(spread)
    by_frequency[np.argsort(-positives)] = spread
    ways: dict[str, Callable[[], Floats]] = {
        "Jain": lambda: np.asarray(jain(train_labels)),
        "1/2 … 1/20, rare last": lambda: 1 / by_frequency,
        "1/2 … 1/20, at random": lambda: 1 / random.permutation(spread),
        "constant 0.3": lambda: np.full(true.shape[1], 0.3),
    }
    for name, way in ways.items():
        drawn = [way() for _ in range(repetitions)]
        yield name, [(p, true & (random.random(true.shape) < p)) for p in drawn]


def real(sets: dict[str, Prepared], repetitions: int) -> None:
    print(f"\n3. Real test sets, top 5: error ± deviation over {repetitions} masks")
    for name, given in sets.items():
        true, top = given[:2]
        for way, copies in hidings(given, repetitions):
            fits = [fit(counted(copy, top, propensity)) for propensity, copy in copies]
            print(f"  {name}, {way} ({fits[-1].estimate('R').verdict})")
            for metric_name in ("R", "nDCG", "F1", "Jaccard", "hit", "R-precision"):
                truth = metric(true, top, metric_name)
                plain = np.array([metric(copy, top, metric_name) for _, copy in copies]) - truth
                ours = np.array([each.value(metric_name) for each in fits]) - truth
                print(
                    f"    {metric_name + '@5':14} true {truth:.3f}"
                    f"   vanilla {plain.mean():+.3f} ± {plain.std():.3f}"
                    f"   deconvolved {ours.mean():+.4f} ± {ours.std():.4f}"
                )


def strata(sets: dict[str, Prepared], repetitions: int) -> None:
    print("\n4. Strata: RMSE of R@1 and R@5, relative to the truth")
    print(f"  {'':54}{'none':>10}{'predicted':>11}{'observed':>10}")
    squares = []
    for name, given in sets.items():
        true, top = given[:2]
        for way, copies in hidings(given, repetitions):
            for k in (1, 5):
                truth = metric(true, top[:, :k], "R")
                values = [by_strata(copy, top[:, :k], p) for p, copy in copies]
                error = np.sqrt(np.mean(np.square(np.array(values) / truth - 1), axis=0))
                squares.append(error**2)
                print(f"  {f'{name}, {way}, k = {k}':54}" + "".join(f"{e:10.1%}" for e in error))
    print(f"  {'all':54}" + "".join(f"{e:10.1%}" for e in np.sqrt(np.mean(squares, axis=0))))


def by_strata(observed: Bools, top: np.ndarray, propensity: Floats) -> list[float]:
    """Recall without strata, with strata of predicted, and of observed labels."""
    right = counted(observed, top, propensity)
    wrong = counted(observed, top, propensity, "observed")
    fits = fit(right, stratified=False), fit(right), fit(wrong)
    return [each.value("R") for each in fits]


def speed() -> None:
    print("\n5. Time on tables of 1,000,000 rows, k = 1 … 5, five metrics each with its error")
    random, n = np.random.default_rng(0), 1_000_000
    tables = []
    for k in range(1, 6):
        true = 1 + random.poisson(random.gamma(2, 2.25, n))
        hits = random.binomial(np.minimum(true, k), 0.5)
        group = random.integers(2, 8, n)
        inverse = 2 ** (group / 2)
        s, t = random.binomial(hits, 1 / inverse), random.binomial(true - hits, 1 / inverse)
        rows = np.zeros((STRATA, k + 1, t.max() + 1))
        np.add.at(rows, (group, s, t), 1)
        scale = 2 ** (np.arange(STRATA) / 2)[:, None, None]
        _, seen, missed = np.indices(rows.shape)
        of_hits = rows * seen * scale / k
        tables.append(Counts(rows, np.repeat(of_hits[None], k, axis=0), rows * missed * scale))
    times = []
    for _ in range(4):
        start = time.perf_counter()
        for table in tables:
            found = fit(table)
            for name in ("P", "R", "F1", "hit", "nDCG"):
                found.estimate(name)
        times.append(time.perf_counter() - start)
    print(f"  {min(times):.3f} s")


def row(numbers: Floats) -> str:
    return "".join(f"{x:12.4f}" if x < 1000 else f"{x:12.3g}" for x in numbers)


if __name__ == "__main__":
    main()
