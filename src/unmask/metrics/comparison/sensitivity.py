"""How much a conclusion depends on the propensity model: the same question under many models.

Propensities are themselves an assumption (which a and b? is the model right at all?). A number
that holds over a range of them is worth more than its standard error under one, and so is an order
of systems: `sensitivity` repeats an evaluation, `ranking` a paired comparison, under every model
that `powers`, `jain_grid` or `jain_around` make, or that is given.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unmask import _validation
from unmask import propensity as models
from unmask._text import visible
from unmask.metrics.comparison.paired import compare
from unmask.metrics.evaluator import evaluate
from unmask.metrics.registry import METRICS, split
from unmask.metrics.table import Tables

GAMMAS = (0.0, 0.5, 0.8, 1.0, 1.2, 1.5, 2.0)
SHOWN = 3
"""Turning points that a sentence names."""

_CONSTANT = re.compile(r"(\w+) = ([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)")


def sensitivity(
    top: Any, labels: Any, propensities: Mapping[str, ArrayLike], **settings: Any
) -> Tables:
    """The same estimates under each of several propensity models, by name.

    Make the models with `powers`, `jain_grid` or `jain_around`, or give any vectors. Settings: as
    in `evaluate`.

    >>> from unmask.predictions import TopK
    >>> top = TopK([[0], [0]], [[1.0], [1.0]])
    >>> models = powers([0.5, 0.5], [0, 1])
    >>> found = sensitivity(top, [[1, 0], [0, 1]], models, metrics=["P@1"], estimators=["unbiased"])
    >>> [found[name]["P@1", "unbiased"].value for name in found]
    [0.5, 1.0]
    """
    _some(propensities)
    return Tables(
        "propensity",
        {name: evaluate(top, labels, p, **settings) for name, p in propensities.items()},
    )


def ranking(
    systems: Mapping[str, Any],
    labels: Any,
    propensities: Mapping[str, ArrayLike],
    *,
    metric: str,
    estimator: str = "unbiased",
    **settings: Any,
) -> Ranking:
    """Does the order of systems survive another propensity model? Paired, under each of them.

    Every system is compared with the first one (settings: as in `compare`). The result says it in
    words, and where names tell numbers ("a = 0.55, b = 1.5", "γ = 2"), at which the order turns.

    One system finds label 0, which is common, the other label 1, of which half is missing:

    >>> from unmask.predictions import TopK
    >>> systems = {"head": TopK([[0]] * 9, [[1.0]] * 9), "tail": TopK([[1]] * 9, [[1.0]] * 9)}
    >>> labels = [[1, 0]] * 5 + [[0, 1]] * 4
    >>> found = ranking(systems, labels, powers([1.0, 0.5], [0, 0.2, 1]), metric="P@1")
    >>> print(found.statement)
    The order of tail and head in P@1 (unbiased) depends on the propensities: tail is ahead under \
1 of 3 models; it turns between γ = 0.2 and 1, at about 0.295. The interval of the difference \
excludes 0 under 0 of 3.
    """
    _some(propensities)
    rows = []
    for model, p in propensities.items():
        found = compare(
            systems, labels, p, metrics=[metric], estimators=[estimator], **settings
        )  # fmt: skip
        for name in found:
            each = found[name][metric, estimator]
            numbers = (each.value, *each.interval, *each.details["values"])
            shown = (float(x) if np.isfinite(x) else None for x in numbers)
            named = zip(("difference", "low", "high", "value", "first"), shown, strict=True)
            rows.append({"model": model, "system": name, **dict(named)})
    return Ranking(metric, estimator, next(iter(systems)), tuple(rows))


@dataclass(frozen=True)
class Ranking:
    """How far every system is ahead of the first under every propensity model.

    `rows` are plain dicts: model, system, value, first (the value of the first system), difference,
    low, high (the interval of the difference); None where the data refuse the model.
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
        return [upwards * int(np.sign(row["difference"])) for row in _told(rows)]

    def _sentence(self, system: str, rows: list[dict[str, Any]]) -> str:
        told, what = _told(rows), f"in {self.metric} ({self.estimator})"
        if not told:
            return f"No propensity model gives {system} and {self.first} an order {what}."
        signs, of = self._signs(rows), len(told)
        ahead, behind = signs.count(1), signs.count(-1)
        clear = sum(row["low"] > 0 or row["high"] < 0 for row in told)
        refused = f" The data refuse the other {len(rows) - of}." if of < len(rows) else ""
        sure = f"The interval of the difference excludes 0 under {clear} of {of}.{refused}"
        if not ahead and not behind:
            return f"{system} and {self.first} are equal {what} under all {of} models. {sure}"
        if not ahead or not behind:
            winner, loser = (system, self.first) if ahead else (self.first, system)
            sizes = [abs(row["difference"]) for row in told if row["difference"]]
            under = f"all {of}" if len(sizes) == of else f"{len(sizes)} of {of}"
            equal = f" They are equal under {of - len(sizes)}." if len(sizes) < of else ""
            return (
                f"{winner} beats {loser} {what} under {under} propensity models, by "
                f"{min(sizes):.4f} to {max(sizes):.4f}.{equal} {sure}"
            )
        return (
            f"The order of {system} and {self.first} {what} depends on the propensities: {system} "
            f"is ahead under {ahead} of {of} models{_where(list(_turns(told)))}. {sure}"
        )


def _told(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows whose model the data did not refuse (deconvolved estimates may be)."""
    return [row for row in rows if row["difference"] is not None]


def _where(turns: list[str]) -> str:
    if not turns:
        return ""
    return f"; it turns {', '.join(turns[:SHOWN])}" + (", and elsewhere" * (len(turns) > SHOWN))


def _turns(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Where the difference crosses 0 between models whose names differ in one constant alone."""
    names = dict.fromkeys(name for row in rows for name in _constants(row["model"]))
    for name in names:
        for held, line in _lines(rows, name):
            signed = [(at, difference) for at, difference in line if difference]
            for (left, before), (right, after) in pairwise(signed):
                if np.sign(before) != np.sign(after):
                    between = left + (right - left) * before / (before - after)
                    at = next((x for x, _ in line if left < x < right), between)  # 0 right there
                    rest = ", ".join(f"{key} = {value:g}" for key, value in held)
                    yield (
                        f"between {name} = {left:g} and {right:g}, at about {at:.3g}"
                        + (f" (for {rest})" if rest else "")
                    )


def _lines(
    rows: list[dict[str, Any]], name: str
) -> Iterator[tuple[tuple[tuple[str, float], ...], list[tuple[float, float]]]]:
    """(Constant, difference) of the models that share all but this constant, in its order."""
    lines: dict[Any, list[tuple[float, float]]] = {}
    for row in rows:
        at = _constants(row["model"])
        if name in at:
            held = tuple((key, value) for key, value in at.items() if key != name)
            words = _CONSTANT.sub("", row["model"])
            lines.setdefault((words, held), []).append((at[name], row["difference"]))
    return ((held, sorted(line)) for (_, held), line in lines.items())


def _constants(model: str) -> dict[str, float]:
    """The numbers in a name such as "a = 0.55, b = 1.5"."""
    return {key: float(value) for key, value in _CONSTANT.findall(model)}


def powers(
    propensity: ArrayLike, gammas: Iterable[float] = GAMMAS
) -> dict[str, NDArray[np.float64]]:
    """Propensities p^γ: γ = 0 says that nothing is missing, γ = 1 is the model, γ = 2 its square.

    >>> {name: p.tolist() for name, p in powers([0.5], [0, 1, 2]).items()}
    {'γ = 0': [1.0], 'γ = 1': [0.5], 'γ = 2': [0.25]}
    """
    checked = _validation.propensity(propensity)
    return {f"γ = {gamma:g}": _power(checked, gamma) for gamma in gammas}


def _power(p: NDArray[np.float64], gamma: float) -> NDArray[np.float64]:
    with np.errstate(under="ignore"):
        raised: NDArray[np.float64] = p ** _validation.in_range(gamma, "γ", 0, 10)
    if not raised.all():
        at = int(np.argmin(p))
        raise ValueError(
            f"p^{gamma:g} is 0 in float64 for p = {p[at]:g} at label {at}; leave that γ out, or "
            "raise the propensities with `propensity.clip`."
        )
    return raised


def jain_grid(
    train_labels: Any, constants: Iterable[tuple[float, float]] | None = None
) -> dict[str, NDArray[np.float64]]:
    """Jain propensities of training labels for several (a, b); by default those in common use.

    >>> list(jain_grid([[1, 0]] * 25 + [[0, 1]] * 25, [(0.55, 1.5), (0.5, 0.4)]))
    ['a = 0.55, b = 1.5', 'a = 0.5, b = 0.4']
    """
    pairs = constants or ((0.5, 0.4), (0.55, 1.5), (0.6, 2.6))
    checked = _validation.labels(train_labels)
    return {f"a = {a:g}, b = {b:g}": models.jain(checked, a=a, b=b) for a, b in pairs}


def jain_around(
    train_labels: Any, *, a: float = 0.55, b: float = 1.5, spread: float = 0.5
) -> dict[str, NDArray[np.float64]]:
    """The nine Jain models with a and b lower by the share `spread`, as given, and higher by it.

    >>> list(jain_around([[1, 0]] * 25 + [[0, 1]] * 25))[::4]
    ['a = 0.275, b = 0.75', 'a = 0.55, b = 1.5', 'a = 0.825, b = 2.25']
    """
    _validation.in_range(spread, "spread", 0.01, 0.99)
    steps = (1 - spread, 1.0, 1 + spread)
    return jain_grid(train_labels, [(a * up, b * across) for up in steps for across in steps])


def _some(propensities: Mapping[str, ArrayLike]) -> None:
    if not propensities:
        raise ValueError("give at least one propensity model, as a mapping from name to vector.")
