"""What a search returns: the recipe and why it was chosen, the model, and all that was tried."""

from __future__ import annotations

import math
import os
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from unmask import linear
from unmask._text import format_value, html_table, text_of
from unmask._typing import FeaturesLike, Floats, Record
from unmask.arrays import TopK
from unmask.linear import LinearModel, Recipe
from unmask.propensity.models import Source
from unmask.tuning.judging import OF_COUNTS, Trust
from unmask.tuning.search import Tried, worth

if TYPE_CHECKING:
    from unmask.pages import Panels


class Because(StrEnum):
    """Why a candidate was chosen.

    Examples
    --------
    >>> Because("best").value
    'best'
    """

    BEST = "best"
    """Its value is the largest, and no vanilla training is within half a standard error of it."""
    PLAINER = "plainer"
    """It needs no propensities, and is within half a standard error of the best."""
    USUAL = "usual"
    """It is the best of the usual loss, and no other loss is clearly ahead."""
    TOGETHER = "together"
    """Vanilla training is as good by an estimate that takes labels of a row to be lost
    independently, but not by unbiased precision, which holds also where they are lost together."""
    ALONE = "alone"
    """It is the only family, or no other has a value."""


@dataclass(frozen=True, eq=False)
class Tuned:
    """The chosen training, its model, and everything that was tried.

    Parameters
    ----------
    recipe : Recipe
        The chosen training; `linear.train` takes it.
    tau : float
        How much of the correction by the stated propensities it applies: 1/p is tempered by it.
    rank_by : str
        How its predictions are ranked; `predict_top` does.
    propensity : (L,) floats or None
        What training (or ranking) uses: the propensities, tempered, or one level for all; None
        for plain vanilla.
    model : LinearModel or None
        Trained on all rows; None if that was not asked for.
    table : tuple of Tried
        Every family, C and rung with its value, in the order of the search.
    metric : str
        What was asked for.
    judged_by, labels, estimator : str, int and str
        What was maximised: this metric of so many of the labels, whose true value was estimated
        so on held-out rows. Where labels are few, it is the metric itself.
    because : Because
    chosen, best : Tried
        On the last rung: what was chosen, and what had the largest value.
    error : float
        The standard error of their difference; 0 if they are the same.
    trust : Trust
        Whether predictions refute the propensities.
    source : Source
        Where the propensities come from.

    Examples
    --------
    >>> import unmask
    >>> rows = unmask.data.synthetic.planted(300, n_features=40, n_labels=8, seed=0)
    >>> best = unmask.tune(rows.features, rows.labels, metric="P@1", losses=["logistic"])
    >>> best.recipe.correction, best.estimator, best.model.n_labels
    ('vanilla', 'vanilla', 8)
    """

    recipe: Recipe
    tau: float
    rank_by: str
    propensity: Floats | None
    model: LinearModel | None
    table: tuple[Tried, ...]
    metric: str
    judged_by: str
    labels: int
    estimator: str
    because: Because
    chosen: Tried
    best: Tried
    error: float
    trust: Trust
    source: Source = field(default_factory=Source)

    @property
    def reason(self) -> str:
        """Why this training, in a sentence or two."""
        return " ".join([_choice(self), *_refutation(self.trust)])

    def predict_top(self, features: FeaturesLike, k: int) -> TopK:
        """The best k labels of every row, ranked as was chosen.

        Parameters
        ----------
        features : (n, d) matrix
        k : int

        Returns
        -------
        TopK

        Raises
        ------
        ValueError
            If no model was trained, or features do not fit it.
        """
        if self.model is None:
            raise ValueError("only the recipe was asked for, no model; train one with it.")
        p = None if self.rank_by == "score" else self.propensity
        return linear.predict_top(self.model, features, k, rank_by=self.rank_by, propensity=p)

    def __str__(self) -> str:
        """The choice, its reason, and the best of every family."""
        return f"{self.headline}\n{self.reason}\n\n{text_of(self._grid())}"

    def _grid(self) -> list[list[str]]:
        """The header and the rows of what a terminal and a notebook show."""
        chosen = self.chosen.family.name
        body = [
            ["→" if each["family"] == chosen else "", each["family"], format_value(each["C"], "g"),
             format_value(each["value"], ".4f"), format_value(each["rows"]), str(each["rung"] + 1)]
            for each in best_of_families(self.to_dict())
        ]  # fmt: skip
        return [["", "training", "C", self.judged_by, "rows", "rung"], *body]

    @property
    def headline(self) -> str:
        """The chosen training with the value it is expected to have."""
        value = format_value(abs(self.chosen.judged.value), ".3f")
        training = f"{self.chosen.family.name}, C = {self.recipe.C:g}"
        return f"{training}: {self.measure} about {value} ({self.estimator}, held-out rows)"

    @property
    def measure(self) -> str:
        """What was maximised; where that is a part of the labels, it says what it stands for."""
        words = self.judged_by
        if self.judged_by != self.metric or (
            self.model is not None and self.labels < self.model.n_labels
        ):
            words += f" of {self.labels} of the labels"
        return words if self.judged_by == self.metric else f"{words} (for {self.metric})"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        header, *body = self._grid()
        return html_table(self.headline, header, body, [self.reason])

    def chart(self) -> Panels:
        """Return the value over C, a line per family, a panel per rung."""
        from unmask.pages.records import tuning_chart

        return tuning_chart(self.to_dict())

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Draw the chart: a matplotlib figure, or with `path` a file, by its ending."""
        from unmask import pages

        return pages.figure(self.chart()) if path is None else pages.save(self.chart(), path)

    def to_dict(self) -> Record:
        """Plain values, for JSON: what a page is made of."""
        return {
            "kind": "tuning",
            "metric": self.metric,
            "judged_by": self.judged_by,
            "labels": self.labels,
            "estimator": self.estimator,
            "recipe": asdict(self.recipe),
            "tau": self.tau,
            "rank_by": self.rank_by,
            "headline": self.headline,
            "reason": self.reason,
            "because": self.because.value,
            "error": self.error,
            "trusted": self.trust.tau,
            "evidence": [each.to_dict() for each in self.trust.evidence],
            "source": self.source.to_dict(),
            "chosen": named(self.chosen),
            "best": named(self.best),
            "tried": [named(each) for each in self.table],
        }


def named(tried: Tried) -> Record:
    """What was tried as plain values, with the name of its family."""
    plain = tried.to_dict()
    value = None if plain["value"] is None else abs(plain["value"])
    return {"family": tried.family.name, **plain, "value": value}


def best_of_families(record: Record) -> list[Record]:
    """Return the best C of every family on the last rung that it reached, best families first."""
    sign = _sign(record)

    def goodness(each: Record) -> tuple[int, float]:
        return each["rung"], sign * _number(each, sign)

    families: dict[str, list[Record]] = {}
    for each in record["tried"]:
        families.setdefault(each["family"], []).append(each)
    best = [max(tried, key=goodness) for tried in families.values()]
    return sorted(best, key=goodness, reverse=True)


def _sign(record: Record) -> float:
    from unmask.metrics import METRICS

    return 1.0 if METRICS[record["judged_by"].partition("@")[0]].higher_is_better else -1.0


def _number(each: Record, sign: float) -> float:
    value = each["value"]
    return value if value is not None and math.isfinite(value) else -sign * math.inf


def _choice(tuned: Tuned) -> str:
    if tuned.because is Because.ALONE:
        return f"No other training could be compared by {tuned.judged_by}."
    if tuned.because is Because.BEST:
        return f"It is the best by {tuned.measure} of all that was tried."
    if tuned.because is Because.TOGETHER:
        return (
            f"{tuned.best.family.name.capitalize()} is as good by {tuned.measure} if labels of a "
            "row are lost independently, but not by unbiased precision, which holds where they "
            "are lost together, too."
        )
    error = format_value(tuned.error, ".4f")
    if tuned.because is Because.USUAL:
        return (
            f"It is the best by {tuned.measure} of all trainings with the usual loss, and the best "
            f"other one, {tuned.best.family.name}, is not clearly ahead (standard error {error})."
        )
    return (
        f"It needs no propensities and is within half a standard error (of {error}) of the best, "
        f"{tuned.best.family.name}."
    )


def _refutation(trust: Trust) -> list[str]:
    doubts = [each.sentence for each in trust.evidence if each.kind in OF_COUNTS]
    doubted = [] if trust.independent else [
        f"Labels of a row seem to be lost together ({'; '.join(doubts)}), so trainings were judged "
        "by unbiased precision, which holds then, too."
    ]  # fmt: skip
    if trust.tau == 1:
        return doubted
    said = [each.sentence for each in trust.evidence if each.kind not in OF_COUNTS]
    if trust.test is not None:
        about = trust.test.values
        share, p = (format_value(about[name], ".0%") for name in ("observed_share", "propensity"))
        said.append(
            f"label {about['label']:.0f} is observed in {share} of the rows it is predicted for, "
            f"and its propensity is {p}"
        )
    then = (
        f"corrections use {trust.tau:.0%} of 1/p − 1" if trust.tau
        else f"corrections use {trust.level:.3g} for all labels, and trainings were judged by the "
        "recall of observed labels, rare ones counting for more than their number"
    )  # fmt: skip
    if not said:
        return [
            "The propensities are not borne out: labels of higher propensity are not observed more "
            f"often where they are predicted, so {then}.", *doubted,
        ]  # fmt: skip
    return [f"The propensities are refuted ({'; '.join(said)}), so {then}.", *doubted]


__all__ = ["Because", "Tuned", "best_of_families", "named", "worth"]
