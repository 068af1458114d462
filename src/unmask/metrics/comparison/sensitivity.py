"""How much a conclusion depends on the propensity model: the same question under many models.

Propensities are themselves an assumption (which a and b? is the model right at all?). A number
that holds over a range of them is worth more than its standard error under one, and so is an order
of systems: `sensitivity` repeats an evaluation, `ranking` a paired comparison, under every model
that `powers`, `jain_grid` or `jain_around` make, or that is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from unmask import propensity as models
from unmask._messages import function, named_options
from unmask._text import visible
from unmask._typing import Floats, LabelsLike, PropensityLike, ScoresLike
from unmask.arrays import TopK, checks
from unmask.metrics.comparison.paired import compare
from unmask.metrics.evaluation import evaluate
from unmask.metrics.registry import METRICS, split
from unmask.metrics.table import Tables
from unmask.metrics.verdict import Level
from unmask.propensity import PropensityModel

Models: TypeAlias = "Mapping[str, PropensityModel | PropensityLike] | Sequence[PropensityModel]"
"""Models, or propensities by name."""

GAMMAS = (0.0, 0.5, 0.8, 1.0, 1.2, 1.5, 2.0)
SHOWN = 3
"""Turning points that a sentence names."""


@named_options
def sensitivity(
    top: TopK | ScoresLike,
    labels: LabelsLike,
    propensities: Models,
    *,
    metrics: Sequence[str] | None = None,
    estimators: Sequence[str] | None = None,
    confidence: float = 0.95,
    interval: str = "normal",
    replicates: int = 1000,
    seed: int = 0,
    tau: float | str = "auto",
    clip: float = 10.0,
    fraction: float = 0.01,
    information: ArrayLike | None = None,
    draws: int = 100,
) -> Tables:
    """Evaluate under each of several propensity models, by name.

    Parameters
    ----------
    top : TopK or (n, L) scores
    labels : (n, L) matrix of 0 and 1
        The observed labels.
    propensities : mapping of str to PropensityModel or propensities, or sequence of PropensityModel
        Make models with `powers`, `jain_grid` or `jain_around`, or give any vectors.
    metrics, estimators, confidence, interval, replicates, seed, tau, clip, fraction
        As in `evaluate`.
    information, draws
        As in `evaluate`.

    Returns
    -------
    Tables
        By name of model, with the models' parameters.

    Raises
    ------
    ValueError
        If there is no model, or as `evaluate` under one of them.

    Examples
    --------
    >>> top = TopK([[0], [0]], [[1.0], [1.0]])
    >>> models = powers([0.5, 0.5], [0, 1])
    >>> tables = sensitivity(top, [[1, 0], [0, 1]], models, metrics=["P@1"])
    >>> [tables[name]["P@1", "unbiased"].value for name in tables]
    [0.5, 1.0]
    """
    stated = _stated(propensities)
    tables = {
        name: evaluate(
            top, labels, p, metrics=metrics, estimators=estimators, confidence=confidence,
            interval=interval, replicates=replicates, seed=seed, tau=tau, clip=clip,
            fraction=fraction, information=information, draws=draws,
        )
        for name, (p, _) in stated.items()
    }  # fmt: skip
    return Tables(
        "propensity",
        tables,
        {name: parameters for name, (_, parameters) in stated.items()},
    )


@named_options
def ranking(
    systems: Mapping[str, TopK | ScoresLike],
    labels: LabelsLike,
    propensities: Models,
    *,
    metric: str,
    estimator: str = "unbiased",
    confidence: float = 0.95,
    replicates: int = 2000,
    seed: int = 0,
    tau: float | str = "auto",
    clip: float = 10.0,
    information: ArrayLike | None = None,
    draws: int = 100,
) -> Ranking:
    """Compare systems under each of several propensity models: does their order survive?

    Parameters
    ----------
    systems : mapping of str to TopK or (n, L) scores
        At least two; every system is compared with the first one.
    labels : (n, L) matrix of 0 and 1
        The observed labels.
    propensities : mapping of str to PropensityModel or propensities, or sequence of PropensityModel
        Where models have parameters, the result says at which the order turns.
    metric : str
        Such as "R@5".
    estimator : str, default "unbiased"
    confidence, replicates, seed, tau, clip, information, draws
        As in `compare`.

    Returns
    -------
    Ranking

    Raises
    ------
    ValueError
        If there is no model or fewer than two systems, or as `compare` under one of the models.

    Examples
    --------
    One system finds label 0, which is common, the other label 1, of which half is missing:

    >>> systems = {"head": TopK([[0]] * 9, [[1.0]] * 9), "tail": TopK([[1]] * 9, [[1.0]] * 9)}
    >>> labels = [[1, 0]] * 5 + [[0, 1]] * 4
    >>> order = ranking(systems, labels, powers([1.0, 0.5], [0, 0.2, 1]), metric="P@1")
    >>> print(order.statement)
    The order of tail and head in P@1 (unbiased) depends on the propensities: tail is ahead under \
1 of 3 models; it turns between γ = 0.2 and 1, at about 0.295. The interval of the difference \
excludes 0 under 0 of 3.
    """
    rows = []
    for model, (p, parameters) in _stated(propensities).items():
        tables = compare(
            systems, labels, p, metrics=[metric], estimators=[estimator], confidence=confidence,
            replicates=replicates, seed=seed, tau=tau, clip=clip, information=information,
            draws=draws,
        )  # fmt: skip
        for name in tables:
            each = tables[name][metric, estimator]
            numbers = (each.value, *each.interval, *each.details["values"])
            finite = (float(x) if np.isfinite(x) else None for x in numbers)
            named = zip(("difference", "low", "high", "value", "first"), finite, strict=True)
            about = {"model": model, "parameters": parameters, "system": name}
            rows.append({**about, **dict(named), "level": each.verdict.level.value})
    return Ranking(metric, estimator, next(iter(systems)), tuple(rows))


def _stated(propensities: Models) -> dict[str, tuple[PropensityLike, dict[str, float]]]:
    """Propensities and parameters by name of model."""
    if not len(propensities):
        raise ValueError("give at least one propensity model, as a mapping from name to vector.")
    if not isinstance(propensities, Mapping):
        propensities = {model.name: model for model in propensities}
    return {
        name: (p.values, dict(p.parameters)) if isinstance(p, PropensityModel) else (p, {})
        for name, p in propensities.items()
    }


@dataclass(frozen=True)
class Ranking:
    """How far every system is ahead of the first under every propensity model.

    Attributes
    ----------
    metric, estimator : str
        What is compared.
    first : str
        The system that all others are compared with.
    rows : tuple of dict
        Plain values: model, parameters (of the model, by name), system, value, first (the value of
        the first system), difference, low, high (the interval of the difference); None where the
        data refuse the model; and level, what the difference may claim under the model.

    Examples
    --------
    >>> systems = {"head": TopK([[0]] * 9, [[1.0]] * 9), "tail": TopK([[1]] * 9, [[1.0]] * 9)}
    >>> labels = [[1, 0]] * 5 + [[0, 1]] * 4
    >>> order = ranking(systems, labels, powers([1.0, 0.5], [0, 1]), metric="P@1")
    >>> order.holds, order.level.value
    (False, 'doubtful')
    >>> [(row["model"], row["system"], round(row["difference"], 2)) for row in order.rows]
    [('γ = 0', 'tail', -0.11), ('γ = 1', 'tail', 0.33)]
    """

    metric: str
    estimator: str
    first: str
    rows: tuple[dict[str, Any], ...]

    @property
    def statement(self) -> str:
        """One sentence per system: does the order hold, and if not, where does it turn?"""
        return "\n".join(visible(self._sentence(*each)) for each in self.by_system())

    @property
    def holds(self) -> bool:
        """Is the order of every pair the same under all models?"""
        return all(len({sign for sign in self._signs(rows) if sign}) <= 1
                   for _, rows in self.by_system())  # fmt: skip

    @property
    def level(self) -> Level:
        """What the order may claim: `doubtful` if it turns, else what it may under every model.

        `unusable` if the data refute every model.
        """
        levels = [Level(row["level"]) for row in _accepted(list(self.rows)) if "level" in row]
        if not _accepted(list(self.rows)):
            return Level.UNUSABLE
        if not self.holds or len(_accepted(list(self.rows))) < len(self.rows):
            return Level.DOUBTFUL
        return max(levels, default=Level.CONDITIONAL)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; `Ranking(**record)` makes it again."""
        return asdict(self) | {"rows": list(self.rows)}

    def by_system(self) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        """Every system but the first, with its rows."""
        for system in dict.fromkeys(row["system"] for row in self.rows):
            yield system, [row for row in self.rows if row["system"] == system]

    def _signs(self, rows: list[dict[str, Any]]) -> list[int]:
        """1 where the system is better than the first, −1 where it is worse."""
        upwards = 1 if METRICS[split(self.metric)[0]].higher_is_better else -1
        return [upwards * int(np.sign(row["difference"])) for row in _accepted(rows)]

    def _sentence(self, system: str, rows: list[dict[str, Any]]) -> str:
        accepted, measure = _accepted(rows), f"in {self.metric} ({self.estimator})"
        if not accepted:
            return f"No propensity model gives {system} and {self.first} an order {measure}."
        signs, of = self._signs(rows), len(accepted)
        ahead, behind = signs.count(1), signs.count(-1)
        clear = sum(row["low"] > 0 or row["high"] < 0 for row in accepted)
        refused = f" The data refute the other {len(rows) - of}." if of < len(rows) else ""
        sure = f"The interval of the difference excludes 0 under {clear} of {of}.{refused}"
        if not ahead and not behind:
            return f"{system} and {self.first} are equal {measure} under all {of} models. {sure}"
        if not ahead or not behind:
            winner, loser = (system, self.first) if ahead else (self.first, system)
            sizes = [abs(row["difference"]) for row in accepted if row["difference"]]
            under = f"all {of}" if len(sizes) == of else f"{len(sizes)} of {of}"
            equal = f" They are equal under {of - len(sizes)}." if len(sizes) < of else ""
            return (
                f"{winner} beats {loser} {measure} under {under} propensity models, by "
                f"{min(sizes):.4f} to {max(sizes):.4f}.{equal} {sure}"
            )
        return (
            f"The order of {system} and {self.first} {measure} depends on the propensities: "
            f"{system} is ahead under {ahead} of {of} models"
            f"{_turning_points(list(_crossings(accepted)))}. {sure}"
        )


def _accepted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows whose model the data did not refute, by a refused fit or by impossible values."""
    return [
        row for row in rows
        if row["difference"] is not None and row.get("level") != Level.UNUSABLE
    ]  # fmt: skip


def _turning_points(points: list[str]) -> str:
    if not points:
        return ""
    return f"; it turns {', '.join(points[:SHOWN])}" + (", and elsewhere" * (len(points) > SHOWN))


def _crossings(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Where the difference crosses 0 between models that differ in one parameter alone."""
    names = dict.fromkeys(name for row in rows for name in _parameters(row))
    for name in names:
        for fixed, line in _lines(rows, name):
            signed = [(x, difference) for x, difference in line if difference]
            for (left, before), (right, after) in pairwise(signed):
                if np.sign(before) != np.sign(after):
                    between = left + (right - left) * before / (before - after)
                    zero = next((x for x, _ in line if left < x < right), between)  # or there
                    fixed_parameters = ", ".join(f"{key} = {value:g}" for key, value in fixed)
                    yield (
                        f"between {name} = {left:g} and {right:g}, at about {zero:.3g}"
                        + (f" (for {fixed_parameters})" if fixed_parameters else "")
                    )


def _lines(
    rows: list[dict[str, Any]], name: str
) -> Iterator[tuple[tuple[tuple[str, float], ...], list[tuple[float, float]]]]:
    """(Parameter, difference) of the models that share all other parameters, in its order."""
    lines: dict[tuple[tuple[str, float], ...], list[tuple[float, float]]] = {}
    for row in rows:
        parameters = _parameters(row)
        if name in parameters:
            fixed = tuple((key, value) for key, value in parameters.items() if key != name)
            lines.setdefault(fixed, []).append((parameters[name], row["difference"]))
    return ((fixed, sorted(line)) for fixed, line in lines.items())


def _parameters(row: dict[str, Any]) -> Mapping[str, float]:
    parameters: Mapping[str, float] = row.get("parameters", {})
    return parameters


@named_options
def powers(propensity: ArrayLike, gammas: Iterable[float] = GAMMAS) -> dict[str, PropensityModel]:
    """Propensities p^γ: γ = 0 says that nothing is missing, γ = 1 is the model, γ = 2 its square.

    Parameters
    ----------
    propensity : (L,) floats in (0, 1]
    gammas : iterable of float, default (0, 0.5, 0.8, 1, 1.2, 1.5, 2)
        Powers in [0, 10].

    Returns
    -------
    dict of str to PropensityModel
        By name, each with the parameter γ.

    Raises
    ------
    ValueError
        If a power is 0 in float64.

    Examples
    --------
    >>> {name: model.values.tolist() for name, model in powers([0.5], [0, 1, 2]).items()}
    {'γ = 0': [1.0], 'γ = 1': [0.5], 'γ = 2': [0.25]}
    """
    checked = checks.propensity(propensity)
    return _by_name(({"γ": float(gamma)}, _power(checked, gamma)) for gamma in gammas)


def _power(p: Floats, gamma: float) -> Floats:
    with np.errstate(under="ignore"):
        raised: Floats = p ** checks.in_range(gamma, "γ", 0, 10)
    if not raised.all():
        label = int(np.argmin(p))
        raise ValueError(
            f"p^{gamma:g} is 0 in float64 for p = {p[label]:g} at label {label}; leave that γ out, "
            f"or raise the propensities with {function('propensity.clip')}."
        )
    return raised


@named_options
def jain_grid(
    train_labels: LabelsLike, constants: Iterable[tuple[float, float]] | None = None
) -> dict[str, PropensityModel]:
    """Jain propensities of training labels for several (a, b).

    Parameters
    ----------
    train_labels : (n, L) matrix of 0 and 1
    constants : iterable of (a, b), optional
        By default those in common use: (0.5, 0.4), (0.55, 1.5), (0.6, 2.6).

    Returns
    -------
    dict of str to PropensityModel
        By name, each with the parameters a and b.

    Raises
    ------
    ValueError
        If labels are not 0 and 1, there are fewer than 3 rows, or a constant is not positive.

    Examples
    --------
    >>> list(jain_grid([[1, 0]] * 25 + [[0, 1]] * 25, [(0.55, 1.5), (0.5, 0.4)]))
    ['a = 0.55, b = 1.5', 'a = 0.5, b = 0.4']
    """
    pairs = constants or ((0.5, 0.4), (0.55, 1.5), (0.6, 2.6))
    checked = checks.labels(train_labels)
    return _by_name(
        ({"a": float(a), "b": float(b)}, models.jain(checked, a=a, b=b)) for a, b in pairs
    )


@named_options
def jain_around(
    train_labels: LabelsLike, *, a: float = 0.55, b: float = 1.5, spread: float = 0.5
) -> dict[str, PropensityModel]:
    """The nine Jain models with a and b lower by the share `spread`, as given, and higher by it.

    Parameters
    ----------
    train_labels : (n, L) matrix of 0 and 1
    a, b : float, default 0.55 and 1.5
        The constants in the middle.
    spread : float, default 0.5
        A share in [0.01, 0.99].

    Returns
    -------
    dict of str to PropensityModel
        By name, each with the parameters a and b.

    Raises
    ------
    ValueError
        If `spread` lies outside [0.01, 0.99], or as `jain_grid`.

    Examples
    --------
    >>> list(jain_around([[1, 0]] * 25 + [[0, 1]] * 25))[::4]
    ['a = 0.275, b = 0.75', 'a = 0.55, b = 1.5', 'a = 0.825, b = 2.25']
    """
    checks.in_range(spread, "spread", 0.01, 0.99)
    steps = (1 - spread, 1.0, 1 + spread)
    return jain_grid(
        train_labels, [(a * across_a, b * across_b) for across_a in steps for across_b in steps]
    )


def _by_name(family: Iterable[tuple[dict[str, float], Floats]]) -> dict[str, PropensityModel]:
    """Models of (parameters, propensities), named after their parameters."""
    named = [
        PropensityModel(
            ", ".join(f"{key} = {value:g}" for key, value in parameters.items()), p, parameters
        )
        for parameters, p in family
    ]
    return {model.name: model for model in named}
