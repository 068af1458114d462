"""The page of the study: pictures over l2, results at the chosen l2, and every statement."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from unmask import pages
from unmask._typing import Floats
from unmask_studies.drawing import STYLES, chart, share, table
from unmask_studies.study import Drawn, Figure, Row, group_rows
from unmask_studies.training import statements
from unmask_studies.training.protocol import METHODS, METRICS, PROBLEMS, RANKED, SETTINGS
from unmask_studies.training.statements import Path, Results, collect, mean, over_repetitions

RULE = {"adam": "loss", "converged": "recall"}  # by which l2 is chosen: the paper's, and ours
# The losses of the first picture, one per reduction, and what it calls the ways to train.
FAMILIES = {
    "ova-bce": "one label at a time (OvA BCE)",
    "pal-n-cce": "all labels at once (PAL-N CCE)",
}
NAMED = {
    "clean": "complete labels", "vanilla": "as they are", "unbiased": "unbiased", "bound": "bound",
    "empirical_bayes": "empirical Bayes", "halved": "halved", RANKED: "ranked by P / p",
}  # fmt: skip
WHERE = {
    "observed labels, training rows": "train/seen/loss",
    "true labels, training rows": "train/true/loss",
    "true labels, test rows": "test/true/loss",
}
L2 = pages.Axis("regularisation (l2)", log=True)


def draw(rows: list[Row]) -> Drawn:
    """Return all pictures, statements and tables for which there are rows."""
    results = collect(rows)
    figures: list[Figure | None] = [
        recovered(results),
        gaps(results, "ova-bce", ("clean", "vanilla", "unbiased", "bound")),
        gaps(results, "ova-n-bce", ("vanilla", "unbiased", "pretrained", "empirical_bayes")),
    ]
    for key in ("test/true/loss", "test/true/R@5", "test/true/P@5"):
        figures += [over_l2(results, optimizer, key) for optimizer in RULE]
    tables = [_protocol(rows)]
    for optimizer in RULE:
        paths = [(optimizer, problem, setting) for problem in PROBLEMS
                 for setting in results.settings(optimizer, problem)]  # fmt: skip
        tables.append(_at_chosen(results, paths, RULE[optimizer], f"Results ({optimizer})"))
    beside = [("adam", "ova-bce", s) for s in ("vanilla", RANKED, "unbiased", "bound", "tempered")]
    beside += [("adam", "pal-n-cce", s) for s in ("bound", "empirical_bayes", "halved")]
    beside += [("related work", "related", method) for method in METHODS]
    tables += [
        _at_chosen(results, beside, "recall", "Related work under the same protocol (Adam)"),
        _processed(results), _endings(rows), _literal_rate(results, rows),
    ]  # fmt: skip
    return Drawn([each for each in figures if each], statements.judged(results), tables)


def recovered(results: Results) -> pages.Panels | None:
    """Return true R@5 of every way to train, between labels as they are and complete labels."""
    charts = []
    for problem, title in FAMILIES.items():
        if ("converged", problem, "clean") not in results.paths:
            continue
        points, level = {}, 0.0
        for setting, name in NAMED.items():
            path = ("converged", problem, setting)
            if path in results.paths:
                values = 100 * results.values(path, "recall", "test/true/R@5")
                middle, spread = (float(each[0]) for each in over_repetitions(values[:, None]))
                points[name] = {name: (middle, middle - spread, middle + spread)}
                level = middle if setting == "vanilla" else level
        lowest = min(low for by in points.values() for _, low, _ in by.values())
        y = pages.Axis("true R@5, %", low=min(lowest, level) - 1)
        styles = {name: _words(setting) for setting, name in NAMED.items()
                  if _words(setting) in STYLES}  # fmt: skip
        rules = {NAMED["vanilla"]: level} if level else {}
        charts.append(chart("dots", points, title=title, y=y, rules=rules, styles=styles))
    return pages.Panels(
        charts, share_x=True, title="What training gets back of the recall",
        caption="True R@5 on test rows, in percent: means and standard deviations over "
        "repetitions; converged, each at the l2 that honest validation chooses. Dashed: training "
        "on the labels as they are.",
    ) if charts else None  # fmt: skip


def gaps(results: Results, problem: str, settings: tuple[str, ...]) -> pages.Panels | None:
    """Return loss over l2 on observed train, true train and true test labels, with two gaps."""
    present = [s for s in settings if ("adam", problem, s) in results.paths]
    if not present:
        return None
    top = 1.25 * _plateau(results, "adam", problem)
    lines = {s: {name: results.over_l2(("adam", problem, s), key) for name, key in WHERE.items()}
             for s in present}  # fmt: skip
    means = {s: {name: over_repetitions(values)[0] for name, (_, values) in each.items()}
             for s, each in lines.items()}  # fmt: skip
    lowest = min(float(np.nanmin(v)) for each in means.values() for v in each.values())
    y = pages.Axis("loss per row", low=max(min(1.1 * lowest, 0.0), -top), high=top)
    charts = []
    for setting in present:
        grid = lines[setting]["true labels, test rows"][0]
        best = int(np.nanargmin(means[setting]["true labels, test rows"]))
        seen, pattern, test = (float(means[setting][name][best]) for name in WHERE)
        points = {
            name: {l2: float(v) if -top < v < 2 * top else None
                   for l2, v in zip(grid, values, strict=True)}
            for name, values in means[setting].items()
        }  # fmt: skip
        title = f"{_words(setting)}: noise {pattern - seen:+.2g}, sample {test - pattern:+.2g}"
        charts.append(chart("lines", points, title=title, x=L2, y=y))
    return pages.Panels(
        charts, columns=2, share_y=True,
        title=f"{PROBLEMS[problem].title}: overfitting to the sample and to the noise pattern",
        caption="Adam; unbiased estimates on observed labels; means over repetitions. The gaps of "
        "noise (true minus observed labels of training rows) and sample (test minus training "
        "rows) at the l2 of the smallest true test loss stand in the titles.",
    )  # fmt: skip


def _plateau(results: Results, optimizer: str, problem: str) -> float:
    """The test loss of models so strongly regularised that they are constants."""
    ends = [
        mean(results.over_l2((optimizer, problem, setting), "test/true/loss")[1][:, -1])
        for setting in _drawn(results, optimizer, problem)
    ]
    return float(np.nanmedian(ends))


def over_l2(results: Results, optimizer: str, key: str) -> pages.Panels | None:
    """Return a measure of the true test labels over l2, a panel per problem."""
    problems = [problem for problem in PROBLEMS if _drawn(results, optimizer, problem)]
    measure, charts = key.rpartition("/")[2], []
    for problem in problems:
        top = 1.3 * _plateau(results, optimizer, problem) if measure == "loss" else np.inf
        points = {}
        for setting in _drawn(results, optimizer, problem):
            grid, values = results.over_l2((optimizer, problem, setting), key)
            middle, spread = over_repetitions(values)
            points[_words(setting)] = {
                l2: (m, m - s, min(m + s, 4 * top)) if m < 2 * top else (None, None, None)
                for l2, m, s in zip(grid, middle.tolist(), spread.tolist(), strict=True)
            }  # fmt: skip
        y = pages.Axis("loss per row", low=0, high=top) if measure == "loss" else measure
        charts.append(chart("lines", points, title=PROBLEMS[problem].title, x=L2, y=y))
    return pages.Panels(
        charts, columns=2, title=f"True {measure} on test rows over regularisation ({optimizer})",
        caption="Means over repetitions with one standard deviation.",
    ) if charts else None  # fmt: skip


def _drawn(results: Results, optimizer: str, problem: str) -> list[str]:
    present = results.settings(optimizer, problem)
    return [setting for setting in SETTINGS if setting in present]


def _words(setting: str) -> str:
    return setting.replace("_", " ")


def _marked(setting: str) -> str:
    mark = f"{SETTINGS[setting].mark}) " if setting in SETTINGS else ""
    return f"{mark}{_words(setting).replace('bayes', 'Bayes')}"


def _spread(values: Floats) -> pages.Estimate | None:
    if not len(values) or not np.isfinite(values).all():
        return None
    return pages.Estimate(
        float(values.mean()), error=float(values.std(ddof=1)) if len(values) > 1 else None
    )


def _title(path: Path) -> str:
    return PROBLEMS[path[1]].title if path[1] in PROBLEMS else path[1]


def _at_chosen(results: Results, paths: list[Path], rule: str, title: str) -> pages.Table:
    """Loss, P@k and R@k at the chosen l2."""
    lines = []
    for path in (path for path in paths if path in results.paths):
        l2 = float(np.exp(np.log(results.values(path, rule, "l2")).mean()))
        metrics = (results.values(path, rule, f"test/true/{metric}") for metric in METRICS)
        lines.append([
            _title(path), _marked(path[2]), l2,
            _spread(results.values(path, rule, "test/true/loss")),
            *(_spread(100 * values) for values in metrics),
            100 * mean(results.values(path, "truth", "test/true/R@5")),
        ])  # fmt: skip
    reasons = {
        "loss": "the smallest unbiased loss on observed validation labels",
        "recall": "the largest deconvolved R@5 on observed validation labels",
    }
    heads = {"loss": "", "setting": "", "l2": ".0e", "test loss": ".2f",
             **dict.fromkeys(METRICS, ".1f"), "best R@5": ".1f"}  # fmt: skip
    return table(
        f"{title}, l2 chosen by {reasons[rule]}", heads, lines,
        "On true labels of test rows, in percent; mean and standard deviation over repetitions. "
        "l2: geometric mean. The last column is R@5 at the l2 that hindsight would choose.",
    )  # fmt: skip


def _processed(results: Results) -> pages.Table:
    """Correcting after training: rank by probability / propensity, threshold at p/2."""
    keys = [*(f"R@{k}" for k in (1, 3, 5)), "micro-F1", "macro-F1"]
    paths = [
        (optimizer, problem, setting)
        for optimizer in ("adam", "converged") for problem in ("ova-bce", "pal-cce", "pal-n-cce")
        for setting in ("vanilla", RANKED, "unbiased", "empirical_bayes", "halved")
    ]  # fmt: skip
    lines = [
        [path[0], _title(path), _marked(path[2]),
         *(_spread(100 * results.values(path, "recall", f"test/true/{key}")) for key in keys)]
        for path in paths if path in results.paths
    ]  # fmt: skip
    return table(
        "Correction after training, l2 chosen by deconvolved R@5",
        {"optimiser": "", "loss": "", "setting": "", **dict.fromkeys(keys, ".1f")}, lines,
        "F1 of the labels whose (corrected) probability is above one half: for vanilla training "
        "ranked by probability / propensity, above p/2 before correction.",
    )  # fmt: skip


def _endings(rows: list[Row]) -> pages.Table:
    """Say what can be promised of every objective, and how its runs ended."""
    lines: list[list[Any]] = []
    own = [row for row in rows if row["problem"] in PROBLEMS and row["setting"] in SETTINGS]
    for (problem, setting), part in group_rows(own, "problem", "setting").items():
        promised = {row["repetition"]: row for row in part if "convex" in row}
        counts = [Counter(row["status"] for row in part if row["optimizer"] == name)
                  for name in ("adam", "converged")]  # fmt: skip
        lines.append([
            PROBLEMS[problem].title, _marked(setting),
            *(share(row[key] for row in promised.values()) for key in
              ("convex", "bounded", "runaway")),
            *(", ".join(f"{n} {status}" for status, n in count.most_common()) for count in counts),
        ])  # fmt: skip
    return table(
        "Is there a minimum, and was it found?",
        {"loss": "", "setting": "", "convex": ".0%", "bounded below": ".0%",
         "runaway biases": ".1f", "Adam": "", "converged solver": ""}, lines,
        "Convex and bounded below in the scores, in that share of the repetitions. Runaway biases: "
        "labels, of 100, whose bias alone drives the objective to minus infinity, as it is outside "
        "the penalty; the solver then puts it inside. Numbers of the last two columns count runs.",
    )  # fmt: skip


def _literal_rate(results: Results, rows: list[Row]) -> pages.Table:
    """The paper's own rate on this data, beside the rate that moves as far."""
    lines = []
    for path in ((name, "ova-bce", setting) for setting in ("vanilla", "unbiased")
                 for name in ("adam, literal rate", "adam")):  # fmt: skip
        if 0 in results.paths.get(path, {}):
            best = min(results.paths[path][0], key=lambda row: float(row["test/true/loss"]))
            lines.append([_marked(path[2]), f"{best['rate']:.2g}", best["norm"],
                          best["test/true/loss"], 100 * best["test/true/R@5"]])  # fmt: skip
    return table(
        "OvA BCE at the paper's rate and at the scaled one, first repetition, best l2",
        {"setting": "", "rate": "", "norm of W": ".1f", "test loss": ".2f", "R@5": ".1f"}, lines,
    )  # fmt: skip


def _protocol(rows: list[Row]) -> pages.Table:
    """Say how large the data are, and how many runs there were."""
    sized = [row for row in rows if "n_train" in row][:1]
    names = {"training rows": "n_train", "validation rows": "n_valid", "test rows": "n_test",
             "features": "n_features"}  # fmt: skip
    lines = [[row["folder"] or "planted rows", *(row[name] for name in names.values()),
              len({row["repetition"] for row in rows}), len(rows)] for row in sized]  # fmt: skip
    heads = ["data", *names, "repetitions", "runs"]
    return table("The data", {"data": "", **dict.fromkeys(heads[1:], ",.0f")}, lines)


def answer(rows: list[Row]) -> str:
    """Return what missing labels cost in true R@5, and what the paper's corrections change."""
    results = collect(rows)
    clean, vanilla, unbiased, bound = (
        100 * mean(results.values(("converged", "ova-bce", name), "recall", "test/true/R@5"))
        for name in ("clean", "vanilla", "unbiased", "bound")
    )
    return (
        f"Missing labels cost {clean - vanilla:.1f} points of true R@5 ({clean:.1f} % with all "
        f"labels, {vanilla:.1f} % with what is left of them); unbiased weights add "
        f"{unbiased - vanilla:+.1f} points, bounding weights {bound - vanilla:+.1f} (one label "
        "at a time, logistic loss)."
    )
