"""The figures of the study, from its results."""

from __future__ import annotations

import numpy as np

from unmask import report
from unmask_studies.runs import STYLES
from unmask_studies.training.protocol import PROBLEMS
from unmask_studies.training.results import Results, mean, over_repetitions

SHOWN = ("clean", "vanilla", "unbiased", "pretrained", "bound", "empirical_bayes", "tempered",
         "halved")  # fmt: skip
"""Settings in figures, in the order of their legend."""

FAMILIES = {"ova-bce": "one label at a time (OvA BCE)",
            "pal-n-cce": "all labels at once (PAL-N CCE)"}  # fmt: skip
"""The losses of the first picture: one per reduction."""
NAMED = {
    "clean": "complete labels",
    "vanilla": "as they are",
    "unbiased": "unbiased",
    "bound": "bound",
    "empirical_bayes": "empirical Bayes",
    "halved": "halved",
    "vanilla, ranked by probability / propensity": "ranked by P / p",
}
"""What the first picture calls the ways to train on what is left of the labels."""

WHERE = {
    "observed labels, training rows": "train/seen/loss",
    "true labels, training rows": "train/true/loss",
    "true labels, test rows": "test/true/loss",
}
L2 = report.Axis("regularisation (l2)", log=True)


def recovered(results: Results) -> report.Panels | None:
    """True R@5 of every way to train, between labels as they are and complete labels."""
    charts = [
        _recovered_chart(results, problem, title)
        for problem, title in FAMILIES.items()
        if ("converged", problem, "clean") in results.paths
    ]
    return report.Panels(
        charts,
        share_x=True,
        title="What training gets back of the recall",
        caption="True R@5 on test rows, in percent: means and standard deviations over "
        "repetitions; converged, each at the l2 that honest validation chooses. Dashed: training "
        "on the labels as they are.",
    ) if charts else None  # fmt: skip


def _recovered_chart(results: Results, problem: str, title: str) -> report.Chart:
    series, level = [], 0.0
    for setting, name in NAMED.items():
        path = ("converged", problem, setting)
        if path in results.paths:
            values = 100 * results.values(path, "recall", "test/true/R@5")
            middle, spread = (float(each[0]) for each in over_repetitions(values[:, None]))
            style = STYLES.get(_setting_name(setting))
            ends = [middle - spread], [middle + spread]
            series.append(report.Series(name, [name], [middle], *ends, style=style))
            level = middle if setting == "vanilla" else level
    lowest = min(s.low[0] or 0.0 for s in series)
    return report.Chart(
        "dots", series, title=title, y=report.Axis("true R@5, %", low=min(lowest, level) - 1),
        rules=[report.Rule(NAMED["vanilla"], level, style=STYLES["vanilla"])] if level else [],
    )  # fmt: skip


def gaps(results: Results, problem: str, settings: tuple[str, ...]) -> report.Panels | None:
    """Loss over l2 on observed train, true train and true test labels, the two gaps annotated."""
    present = [s for s in settings if ("adam", problem, s) in results.paths]
    if not present:
        return None
    top = 1.25 * _plateau(results, "adam", problem)
    lowest = min(_lowest(results, ("adam", problem, setting)) for setting in present)
    y = report.Axis("loss per row", low=max(min(1.1 * lowest, 0.0), -top), high=top)
    return report.Panels(
        [_gap_chart(results, ("adam", problem, setting), y) for setting in present],
        title=f"{PROBLEMS[problem].title}: overfitting to the sample and to the noise pattern",
        columns=2,
        share_y=True,
        caption="Adam; unbiased estimates on observed labels; means over repetitions. The gaps of "
        "noise (true minus observed labels of training rows) and sample (test minus training "
        "rows) stand in the titles, and as brackets at the l2 of the smallest true test loss.",
    )


def _plateau(results: Results, optimizer: str, problem: str) -> float:
    """The test loss of models so strongly regularised that they are constants."""
    ends = [
        results.over_l2((optimizer, problem, setting), "test/true/loss")[1][:, -1]
        for setting in _drawn_settings(results, optimizer, problem)
    ]
    return float(np.nanmedian([mean(end) for end in ends]))


def _lowest(results: Results, path: tuple[str, str, str]) -> float:
    """The smallest of the three mean losses, at any l2; unbiased estimates may be negative."""
    means = (over_repetitions(results.over_l2(path, key)[1])[0] for key in WHERE.values())
    return min(float(np.nanmin(each)) for each in means)


def _gap_chart(results: Results, path: tuple[str, str, str], y: report.Axis) -> report.Chart:
    lines = {name: results.over_l2(path, key) for name, key in WHERE.items()}
    means = {name: over_repetitions(values)[0] for name, (_, values) in lines.items()}
    grid = lines["true labels, test rows"][0]
    best = int(np.nanargmin(means["true labels, test rows"]))
    observed, pattern, test = (float(means[name][best]) for name in WHERE)
    low, high = float(y.low or 0), float(y.high or 0)
    return report.Chart(
        "lines",
        [
            report.Series(name, grid, _clipped(means[name], high), style=STYLES[name])
            for name in WHERE
        ],
        title=(
            f"{_setting_name(path[2])}: noise {pattern - observed:+.2g}, "
            f"sample {test - pattern:+.2g}"
        ),
        x=L2,
        y=y,
        notes=[
            report.Note(grid[best], start, to=end)
            for start, end in ((observed, pattern), (pattern, test))
            if min(start, end) > low and max(start, end) < high
        ],
    )


def _clipped(values: np.ndarray, top: float) -> list[float | None]:
    """What lies far outside of the axis is left out, so that lines end at its border."""
    return [float(v) if -top < v < 2 * top else None for v in values]


def loss_over_l2(results: Results, optimizer: str) -> report.Panels | None:
    """Six panels: the true test loss of every setting over l2."""
    if not _problems(results, optimizer):
        return None
    return report.Panels(
        [_loss_chart(results, optimizer, problem) for problem in _problems(results, optimizer)],
        title=f"True loss on test rows over regularisation ({optimizer})",
        columns=2,
        caption="Means over repetitions with one standard deviation; lines end where they leave "
        "the axis.",
    )


def _loss_chart(results: Results, optimizer: str, problem: str) -> report.Chart:
    top = 1.3 * _plateau(results, optimizer, problem)
    series = []
    for setting in _drawn_settings(results, optimizer, problem):
        grid, values = results.over_l2((optimizer, problem, setting), "test/true/loss")
        series += _line(setting, grid, values, limit=2 * top)
    return report.Chart(
        "lines", series, title=PROBLEMS[problem].title, x=L2,
        y=report.Axis("loss per row", low=0, high=top),
    )  # fmt: skip


def metric_over_l2(
    results: Results, optimizer: str, problem: str, metrics: tuple[str, ...]
) -> report.Panels | None:
    """A true test metric over l2, one panel each."""
    if not _drawn_settings(results, optimizer, problem):
        return None
    return report.Panels(
        [_metric_chart(results, optimizer, problem, metric, metric) for metric in metrics],
        title=f"{PROBLEMS[problem].title}: true test metrics over regularisation ({optimizer})",
        columns=3,
        caption="Means over repetitions with one standard deviation.",
    )


def recall_over_l2(results: Results, optimizer: str) -> report.Panels | None:
    """True R@5 on test rows over l2, one panel per problem."""
    if not _problems(results, optimizer):
        return None
    return report.Panels(
        [_metric_chart(results, optimizer, problem, "R@5", PROBLEMS[problem].title)
         for problem in _problems(results, optimizer)],
        title=f"True R@5 on test rows over regularisation ({optimizer})",
        columns=2,
        caption="Means over repetitions with one standard deviation.",
    )  # fmt: skip


def _metric_chart(
    results: Results, optimizer: str, problem: str, metric: str, title: str
) -> report.Chart:
    series = []
    for setting in _drawn_settings(results, optimizer, problem):
        grid, values = results.over_l2((optimizer, problem, setting), f"test/true/{metric}")
        series += _line(setting, grid, values)
    return report.Chart("lines", series, title=title, x=L2, y="" if title == metric else metric)


def _line(
    setting: str, grid: list[float], values: np.ndarray, limit: float = np.inf
) -> list[report.Series]:
    """One line with its spread, or none where nothing is within the limit."""
    middle, spread = over_repetitions(values)
    inside = np.isfinite(middle) & (middle < limit)
    if not inside.any():
        return []
    drawn, low, high = (
        np.where(inside, each, np.nan)
        for each in (middle, middle - spread, np.minimum(middle + spread, 2 * limit))
    )
    name, ends = _setting_name(setting), (low.tolist(), high.tolist())
    return [report.Series(name, grid, drawn.tolist(), *ends, style=STYLES.get(name))]


def at_chosen(
    results: Results, optimizer: str, rule: str, metrics: tuple[str, ...]
) -> report.Panels | None:
    """Metrics at the chosen l2 with their spread, one panel per problem."""
    if not _problems(results, optimizer):
        return None
    charts = []
    for problem in _problems(results, optimizer):
        series = [
            _dots(results, (optimizer, problem, setting), rule, metrics)
            for setting in _drawn_settings(results, optimizer, problem)
        ]
        charts.append(report.Chart("dots", series, title=PROBLEMS[problem].title))
    return report.Panels(
        charts,
        columns=3,
        title=f"True {metrics[0][0]}@k on test rows ({optimizer}, l2 by {rule})",
        caption="Means and standard deviations over repetitions.",
    )


def _dots(
    results: Results, path: tuple[str, str, str], rule: str, metrics: tuple[str, ...]
) -> report.Series:
    values = [results.values(path, rule, f"test/true/{metric}") for metric in metrics]
    middle, spread = over_repetitions(np.array(values).T)
    ends = (middle - spread).tolist(), (middle + spread).tolist()
    name = _setting_name(path[2])
    return report.Series(name, metrics, middle.tolist(), *ends, style=STYLES.get(name))


def _problems(results: Results, optimizer: str) -> list[str]:
    return [problem for problem in PROBLEMS if _drawn_settings(results, optimizer, problem)]


def _drawn_settings(results: Results, optimizer: str, problem: str) -> list[str]:
    present = results.settings(optimizer, problem)
    return [setting for setting in SHOWN if setting in present]


def _setting_name(setting: str) -> str:
    return setting.replace("_", " ")
