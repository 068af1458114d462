"""Compiling ahead of time: every kernel that the commands use, once, on few rows.

numba compiles a kernel when it is first called, for the types that it is called with, and keeps the
result (`unmask._kernels.compiling`). The steps below go the ways of the commands, with files where
they have files, so that their types are those of real use. Whatever is there already is loaded.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

from unmask import audit, data, demo, diagnosis, linear, metrics, predictions, propensity
from unmask._kernels import compiling
from unmask.arrays import checks
from unmask.models import one_vs_all

ROWS, LABELS = 1500, 24
"""Enough rows that no estimate is refused before its kernels are called."""
METRICS = ("P@1", "R@5", "nDCG@5", "PSP@3", "macro-R@5")


@dataclass(frozen=True)
class CompiledKernels:
    """Where compiled kernels are kept, how many there are, and what this run added."""

    folder: str
    kernels: int
    """Compiled functions in the folder, each counted once for every set of types."""
    bytes: int
    """The number of compiled functions in the folder."""
    compiled: int
    """Functions that this run compiled; the others were there."""
    seconds: float

    def to_dict(self) -> dict[str, object]:
        """Fields by name."""
        return asdict(self)


def run(progress: Callable[[int, int], None] | None = None) -> CompiledKernels:
    """Compile every kernel that is not yet compiled.

    Parameters
    ----------
    progress : function of (done, total), optional
        Called after every step.

    Returns
    -------
    CompiledKernels

    Raises
    ------
    ValueError
        If there is no folder in which compiled kernels can be kept.
    """
    start = time.monotonic()
    with TemporaryDirectory() as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rows, and losses without a bound
        for number, step in enumerate(STEPS, start=1):
            step(Path(scratch))
            if progress is not None:
                progress(number, len(STEPS))
    folder = compiling.cache_folder()
    if folder is None:
        raise ValueError(
            "there is no folder in which compiled kernels can be kept; set NUMBA_CACHE_DIR to one "
            "that only you can write to."
        )
    kept = [path.stat().st_size for path in folder.glob("*.nbc")]
    return CompiledKernels(
        str(folder),
        len(kept),
        sum(kept),
        sum(sum(kernel.stats.cache_misses.values()) for kernel in compiling.KERNELS),
        time.monotonic() - start,
    )


def _io(folder: Path) -> None:
    """Every format, written and read; train.txt and test.txt serve the other steps."""
    rows = data.synthetic.planted(ROWS, n_features=120, n_labels=LABELS, seed=0)
    for name in ("train.txt", "train.svm", "train.npz", "test.txt"):
        data.write(folder / name, rows)
        data.describe(data.read(folder / name))
    labels = data.read(folder / "train.txt").labels
    p = propensity.from_spec("inverse_linear:2,20", labels)
    propensity.write(folder / "p.txt", p)
    propensity.read(folder / "p.txt")
    data.hide(labels, p, seed=0)


def _train(folder: Path) -> None:
    """Every loss, reduction and correction; models with and without zeros."""
    rows = data.read(folder / "train.txt")
    features = data.tfidf(rows.features, data.idf(rows.features))
    p = propensity.jain(rows.labels)
    losses = [("ova", loss) for loss in one_vs_all.SOLVERS] + [("pal", "softmax")]
    for (reduction, loss), correction, normalized in product(
        losses, ("vanilla", "unbiased"), (False, True)
    ):
        recipe = linear.Recipe(loss, reduction, correction=correction, normalized=normalized)
        try:
            linear.train(features, rows.labels, recipe, propensity=p)
        except ValueError:  # a combination that is not offered, or has no minimum
            continue
    completed = linear.Recipe("logistic", correction="completed", normalized=True)
    linear.train(features, rows.labels, completed, propensity=p)
    likelihood = linear.Recipe("logistic", correction="likelihood")
    linear.train(features, rows.labels, likelihood, propensity=p)
    for name, prune_below in (("dense", 0.0), ("sparse", 0.01)):
        linear.train_to(
            folder / name, features, rows.labels, linear.Recipe(prune_below=prune_below)
        )


def _predict(folder: Path) -> None:
    """By rows and by labels, by score and by probability/propensity, into files."""
    rows = data.read(folder / "test.txt")
    features = data.tfidf(rows.features, data.idf(rows.features))
    p = propensity.jain(rows.labels)
    for name in ("dense", "sparse"):
        model = linear.load(folder / name)
        top = linear.predict_top(model, features, 5)
        for rank_by, by in product(("score", "probability/propensity"), ("rows", "labels")):
            linear.predict_top(model, features, 5, rank_by=rank_by, propensity=p)
            linear.predict_top(folder / name, features, 5, rank_by=rank_by, propensity=p, by=by)
        for end in ("txt", "npz"):
            predictions.write(folder / f"{name}.{end}", top)
            predictions.read(folder / f"{name}.{end}")


def _evaluate(folder: Path) -> None:
    """Every estimator, paired comparison, other propensities."""
    labels = data.read(folder / "test.txt").labels
    p = propensity.jain(labels)
    systems = {name: predictions.read(folder / f"{name}.txt") for name in ("dense", "sparse")}
    estimators = list(metrics.ESTIMATORS)
    metrics.evaluate(systems["dense"], labels, p, metrics=METRICS, estimators=estimators)
    metrics.evaluate(systems["dense"], labels, metrics=METRICS, interval="bca")
    few, estimators = ["P@1", "R@5"], ["unbiased", "deconvolved"]
    metrics.compare(systems, labels, p, metrics=few, estimators=estimators)
    others = metrics.powers(p)
    metrics.sensitivity(systems["dense"], labels, others, metrics=few, estimators=estimators)
    metrics.ranking(systems, labels, others, metric="R@5", estimator="deconvolved")


def _audit(folder: Path) -> None:
    labels = checks.labels(data.read(folder / "test.txt").labels)
    top = predictions.read(folder / "dense.npz")
    plan = audit.plan(top, labels, budget=40, expect=False)
    audit.sequence(top, labels, audit.from_rows(plan, labels[plan.rows]), "R@5")


def _diagnose(folder: Path) -> None:
    labels = data.read(folder / "train.txt").labels
    diagnosis.diagnose(labels, propensity.jain(labels))


def _demo(folder: Path) -> None:
    demo.run(n=ROWS)


STEPS: tuple[Callable[[Path], None], ...] = (
    _io,
    _train,
    _predict,
    _evaluate,
    _audit,
    _diagnose,
    _demo,
)
"""In this order: a step uses the files of those before it."""
