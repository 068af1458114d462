"""The tables of the study, from its rows and results."""

from __future__ import annotations

from collections import Counter

import numpy as np

from unmask import report
from unmask_studies.runs import Row, Unit, group_rows
from unmask_studies.training.protocol import METHODS, METRICS, PROBLEMS, RANKED, SETTINGS
from unmask_studies.training.results import Path, Results, mean


def at_chosen(results: Results, optimizer: str, rule: str) -> report.Table:
    """Loss, P@k and R@k at the chosen l2, for every problem and setting."""
    body = [
        [
            PROBLEMS[problem].title,
            _marked(setting),
            *_cells(results, (optimizer, problem, setting), rule),
        ]
        for problem in PROBLEMS
        for setting in results.settings(optimizer, problem)
    ]
    reasons = {
        "loss": "the smallest unbiased loss on observed validation labels",
        "recall": "the largest deconvolved R@5 on observed validation labels",
    }
    return report.Table(
        ["loss", "setting", report.Column("l2", ".0e"), report.Column("test loss", ".2f"),
         *(report.Column(m, ".1f") for m in METRICS), report.Column("best R@5", ".1f")],
        body,
        title=f"Results ({optimizer}), l2 chosen by {reasons[rule]}",
        caption="On true labels of test rows, in percent; mean and standard deviation over "
        "repetitions. l2: geometric mean. The last column is R@5 at the l2 that hindsight would "
        "choose.",
    )  # fmt: skip


def _marked(setting: str) -> str:
    mark = f"{SETTINGS[setting].mark}) " if setting in SETTINGS else ""
    return f"{mark}{setting.replace('_', ' ').replace('bayes', 'Bayes')}"


def _cells(results: Results, path: Path, rule: str) -> list[report.Cell]:
    l2 = np.exp(np.log(results.values(path, rule, "l2")).mean())
    loss = results.values(path, rule, "test/true/loss")
    metrics = (results.values(path, rule, f"test/true/{metric}") for metric in METRICS)
    values = [_spread(loss), *(_spread(100 * v) for v in metrics)]
    return [float(l2), *values, 100 * _best_recall(results, path)]


def _best_recall(results: Results, path: Path) -> float:
    """R@5 at the l2 that hindsight would choose."""
    return mean(results.values(path, "truth", "test/true/R@5"))


def _spread(values: np.ndarray) -> report.Estimate:
    error = float(values.std(ddof=1)) if len(values) > 1 else None
    return report.Estimate(float(values.mean()), error=error)


def coverage(rows: list[Row], planned: list[Unit]) -> report.Table:
    """Runs measured so far of those planned; no rows where all are there."""
    names = ("repetition", "optimizer", "problem", "setting", "l2")
    done = {tuple(row[name] for name in names) for row in rows}
    body = []
    for (optimizer, problem), part in group_rows(planned, "optimizer", "problem").items():
        present = [unit for unit in part if tuple(unit[name] for name in names) in done]
        complete = [
            repetition
            for (repetition,), all_ in group_rows(part, "repetition").items()
            if all(unit in present for unit in all_)
        ]
        if present:
            body.append([optimizer, problem, len(present), len(part), len(complete),
                         len({unit["repetition"] for unit in part})])  # fmt: skip
    unfinished = any(row[2] < row[3] for row in body)
    return report.Table(
        ["optimiser", "loss", "runs measured", "runs planned", "repetitions complete",
         "repetitions planned"],
        body if unfinished else [],
        title="Not all runs have been measured yet",
        caption="The same command measures what is missing. Means are over the repetitions that "
        "have the run.",
    )  # fmt: skip


def endings(rows: list[Row]) -> report.Table:
    """What can be promised of every objective, and how its runs ended."""
    body: list[list[report.Cell]] = []
    for (problem, setting), part in group_rows(
        [row for row in rows if row["problem"] in PROBLEMS and row["setting"] in SETTINGS],
        "problem", "setting",
    ).items():  # fmt: skip
        promised = [row for row in part if "convex" in row]
        runaway = {row["repetition"]: row["runaway"] for row in promised}
        by = {name: Counter(row["status"] for row in part if row["optimizer"] == name)
              for name in ("adam", "converged")}  # fmt: skip
        body.append(
            [PROBLEMS[problem].title, _marked(setting), _share(promised, "convex"),
             _share(promised, "bounded"), float(np.mean(list(runaway.values()))),
             _counted(by["adam"]), _counted(by["converged"])]
        )  # fmt: skip
    return report.Table(
        ["loss", "setting", "convex", "bounded below",
         report.Column("runaway biases", ".1f"), "Adam", "converged solver"],
        body,
        title="Is there a minimum, and was it found?",
        caption="Convex and bounded below in the scores, in all repetitions or in that share of "
        "them. Runaway biases: labels, of 100, whose bias alone drives the objective to minus "
        "infinity, as it is outside the penalty; the solver then puts it inside. Numbers of the "
        "last two columns count runs.",
    )  # fmt: skip


def _share(rows: list[Row], key: str) -> str:
    by_repetition = {row["repetition"]: row[key] for row in rows}
    yes, all_ = sum(by_repetition.values()), len(by_repetition)
    return {0: "no", all_: "yes"}.get(yes, f"{yes} of {all_}")


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {status}" for status, count in counts.most_common()) or "not run"


def in_short(results: Results) -> report.Table:
    """True test R@5 of the main settings by loss, converged."""
    problems = [p for p in SHORT if results.settings("converged", p)]
    present = {s for p in problems for s in results.settings("converged", p)}
    body: list[list[report.Cell]] = [
        [_marked(setting), *(_recall(results, problem, setting) for problem in problems)]
        for setting in SETTINGS
        if setting in present
    ]
    return report.Table(
        ["setting", *(report.Column(PROBLEMS[p].title, ".1f") for p in problems)],
        body,
        title="True R@5 on test rows, in percent (converged), l2 chosen by deconvolved R@5",
        caption="Mean and standard deviation over repetitions.",
    )


SHORT = ("ova-bce", "ova-n-bce", "pal-cce", "pal-n-cce")
"""The losses of the short table."""


def _recall(results: Results, problem: str, setting: str) -> report.Cell:
    values = results.values(("converged", problem, setting), "recall", "test/true/R@5")
    return _spread(100 * values) if len(values) else None


def literal_rate(results: Results, rows: list[Row]) -> report.Table:
    """The paper's own rate on this data, beside the rate that moves as far."""
    body = []
    for setting in ("vanilla", "unbiased"):
        for name in ("adam, literal rate", "adam"):
            path = (name, "ova-bce", setting)
            first = [row for row in rows if row["optimizer"] == name and row["repetition"] == 0]
            if path not in results.paths:
                continue
            best = max(results.paths[path][0], key=lambda row: -float(row["test/true/loss"]))
            body.append([_marked(setting), f"{first[0]['rate']:.2g}", best["norm"],
                         best["test/true/loss"], 100 * best["test/true/R@5"]])  # fmt: skip
    return report.Table(
        ["setting", "rate", report.Column("norm of W", ".1f"),
         report.Column("test loss", ".2f"), report.Column("R@5", ".1f")],
        body,
        title="OvA BCE at the paper's rate and at the scaled one, first repetition, best l2",
    )  # fmt: skip


def minima(results: Results) -> report.Table:
    """What training OvA-N BCE with unbiased weights converges to, from two starting points."""
    cold, warm, adam_cold, adam_warm = (
        (optimizer, "ova-n-bce", setting)
        for optimizer in ("converged", "adam")
        for setting in ("unbiased", "pretrained")
    )
    solved, moved = (
        results.shared(*paths, "objective") for paths in ((cold, warm), (adam_cold, adam_warm))
    )
    recall = results.shared(cold, adam_cold, "test/true/R@5")
    body = [
        [l2, *_means(moved.get(l2)), *_means(solved.get(l2)),
         *(100 * value if value is not None else None for value in _means(recall.get(l2)))]
        for l2 in sorted({*solved, *moved}, reverse=True)
    ]  # fmt: skip
    return report.Table(
        [report.Column("l2", ".0e"), *(report.Column(name, ".4g") for name in (
            "Adam c)", "Adam c')", "solver from zero", "solver from vanilla optimum")),
         report.Column("R@5, solver", ".1f"), report.Column("R@5, Adam c)", ".1f")],
        body,
        title="OvA-N BCE, unbiased weights: training objective reached, mean over repetitions",
        caption="The solver stops after 40 turns; at small l2, where the objective is steep and "
        "hugely negative, it has not always converged by then.",
    )  # fmt: skip


def _means(pairs: list[tuple[float, float]] | None) -> tuple[float | None, float | None]:
    if not pairs:
        return None, None
    first, second = zip(*pairs, strict=True)
    return float(np.mean(first)), float(np.mean(second))


def gains(results: Results, pairs: list[tuple[Path, Path]], rule: str, title: str) -> report.Table:
    """Paired differences in true test recall, in points."""
    body: list[list[report.Cell]] = []
    for better, worse in pairs:
        if better in results.paths and worse in results.paths:
            values = (results.gain(better, worse, rule, f"test/true/R@{k}") for k in (1, 3, 5))
            cells = [_spread(100 * value) for value in values]
            names = f"{_marked(better[2])} − {_marked(worse[2])}"
            body.append([PROBLEMS[better[1]].title, names, better[0], *cells])
    return report.Table(
        ["loss", "difference", "optimiser",
         *(report.Column(f"R@{k}", ".2f") for k in (1, 3, 5))],
        body,
        title=title,
        caption="Percent points, mean and standard deviation of the differences over repetitions "
        "with the same split and masks.",
    )  # fmt: skip


def ablations_table(results: Results) -> report.Table:
    """All normalised corrections of PAL-N, the study's and others, by the converged solver."""
    names = [*results.settings("converged", "pal-n-cce")]
    paths = [("converged", "pal-n-cce", name) for name in names if name != "clean"]
    paths.sort(key=lambda path: -_best_recall(results, path))
    best_first = [[_marked(path[2]), *_cells(results, path, "recall")[2:]] for path in paths]
    return report.Table(
        ["weights", *(report.Column(m, ".1f") for m in METRICS), report.Column("best R@5", ".1f")],
        best_first,
        title="PAL-N CCE: what was tried (converged), l2 chosen by deconvolved R@5",
        caption="Best first. All at prediction: E[1/N* given m] in training, labels ranked by "
        "probability / p. Posterior of a first model: E[1/N* given the features and the labels "
        "seen]. True counts use the true N*, which nobody has.",
    )


def related(results: Results) -> report.Table:
    """Other people's losses beside ours, one protocol; l2 by deconvolved R@5."""
    paths = [("adam", "ova-bce", s) for s in ("vanilla", RANKED, "unbiased", "bound", "tempered")]
    paths += [("adam", "pal-n-cce", s) for s in ("bound", "empirical_bayes", "halved")]
    paths += [("related work", "related", method) for method in METHODS]
    body = [
        [_name(path), *_cells(results, path, "recall")[2:-1]]
        for path in paths
        if path in results.paths
    ]
    return report.Table(
        ["method", *(report.Column(m, ".1f") for m in METRICS)],
        body,
        title="Related work under the same protocol (Adam), l2 chosen by deconvolved R@5",
        caption="On true labels of test rows, in percent; mean and standard deviation over "
        "repetitions. Related methods are one-vs-all with their authors' constants.",
    )


def _name(path: Path) -> str:
    title = PROBLEMS[path[1]].title if path[1] in PROBLEMS else "related work"
    return f"{title}, {path[2].replace('_', ' ').replace('bayes', 'Bayes')}"


def processed(results: Results) -> report.Table:
    """Correcting after training: rank by probability / propensity, threshold at p/2."""
    body = []
    for optimizer in ("adam", "converged"):
        for problem in ("ova-bce", "pal-cce", "pal-n-cce"):
            for setting in ("vanilla", RANKED, "unbiased", "empirical_bayes", "halved"):
                path = (optimizer, problem, setting)
                if path not in results.paths:
                    continue
                recall = [results.values(path, "recall", f"test/true/R@{k}") for k in (1, 3, 5)]
                f1 = [results.values(path, "recall", f"test/true/{kind}-F1")
                      for kind in ("micro", "macro")]  # fmt: skip
                cells = [_spread(100 * v) if np.isfinite(v).all() else None for v in recall + f1]
                body.append([optimizer, PROBLEMS[problem].title, _marked(setting), *cells])
    return report.Table(
        ["optimiser", "loss", "setting", *(report.Column(f"R@{k}", ".1f") for k in (1, 3, 5)),
         report.Column("micro-F1", ".1f"), report.Column("macro-F1", ".1f")],
        body,
        title="Correction after training, l2 chosen by deconvolved R@5",
        caption="F1 of the labels whose (corrected) probability is above one half: for vanilla "
        "training ranked by probability / propensity, above p/2 before correction.",
    )  # fmt: skip
