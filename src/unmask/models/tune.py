"""`tune`: search, choose a family and its C, train the chosen recipe on all rows.

Of the last candidates the best is chosen, unless one that needs no propensities is within `MARGIN`
standard errors of it, that of their difference on the same rows: a correction has to earn its
place. A whole standard error, as usual, would be too much here: few candidates are left, so that
the best is hardly best by luck, while the estimates of recall from noisy rows are less certain than
the differences that count.

Those estimates also assume that labels of a row are lost independently, and counts of labels often
do not tell whether they are: a plain training that is best, or close to it, only because of that
would be far from the best in truth. So it has to be close by unbiased precision, too.

A parabola over log C through the best value of the chosen family and those beside it has its top
between the costs that were tried, and families are compared by their values there: a family whose
best C lies between two that were tried is not worse for that. C is then `KEPT` of the way from the
usual one to that top (`towards_usual`). (Values that an audit measured, and costs that the caller
names, are taken as they are.)
"""

from __future__ import annotations

import itertools
import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from unmask import parallel
from unmask._messages import named_options
from unmask._text import format_value, html_table, text_of
from unmask._typing import (
    BackendLike,
    FeaturesLike,
    Floats,
    Ints,
    LabelsLike,
    PathLike,
    Progress,
    PropensityLike,
    Record,
)
from unmask.arrays import checks
from unmask.data import Dataset
from unmask.data.judgements import Judgements
from unmask.files import pack_records
from unmask.metrics import METRICS
from unmask.metrics.claims import Run
from unmask.metrics.evaluation import judge_propensities
from unmask.models import KINDS, judging, linear, search, tree
from unmask.models.judging import Judge, Judged, Trust, matrix_of
from unmask.models.problem import Recipe
from unmask.models.search import Family, Models, Rows, Task, Tried, worth
from unmask.models.training import RANKINGS, UnconvergedWarning, counter
from unmask.models.tree import TreeRecipe
from unmask.models.tree_search import predict_top
from unmask.predictions import TopK
from unmask.propensity.models import Source, source_of

LOSSES = ("logistic", "squared_hinge")
MARGIN = 0.5
"""Standard errors by which a family that needs no propensities may be worse."""
KEPT, KEPT_BY_FORMULA = 0.75, 0.25
"""The share of the way from the usual C to the best one that is gone; and where propensities follow
from label frequencies alone."""
TREE_COSTS = (0.3, 1.0, 3.0)
HELD_OUT = 5
"""One row in so many is held out, of label trees."""

if TYPE_CHECKING:
    from unmask.pages import Panels


@named_options
def tune(
    features: FeaturesLike,
    labels: LabelsLike | Dataset,
    propensity: PropensityLike | None = None,
    metric: str = "R@5",
    *,
    losses: Sequence[str] = LOSSES,
    tau: Sequence[float] = search.TAUS,
    rank_by: Sequence[str] = RANKINGS,
    costs: Sequence[float] | None = None,
    audit: Judgements | None = None,
    recipe: Recipe | None = None,
    refit: bool = True,
    store: PathLike | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    backend: BackendLike = None,
) -> Tuned:
    """Choose loss, correction, its strength τ, ranking and C for a metric on true labels.

    Candidates are trained on parts of the rows and judged on others by an estimate of the *true*
    metric: `deconvolved` for recall and the like, `unbiased` for linear metrics, `measured` with an
    audit, `vanilla` without propensities. The usual loss is tried along C, then one correction of
    every other loss, then what is close to the best, which is chosen, with C between those tried;
    or the usual loss if no other is clearly ahead, or vanilla training if it is within half a
    standard error. Propensities that held-out predictions refute are tempered until they are no
    longer, or replaced by one for all labels, as are those whose order is not borne out. See
    `unmask.models.search` for the order and what it costs.

    Parameters
    ----------
    features : (n, d) matrix
        Dense or sparse.
    labels : (n, L) matrix of 0 and 1, or Dataset
        Observed labels; judgements of a data set are used.
    propensity : (L,) numbers in (0, 1], PropensityEstimate or MaskModel, optional
        Without it only vanilla training is tried, for which C is chosen.
    metric : str, default "R@5"
        A metric of the first k labels, such as "R@5", "P@3" or "nDCG@5".
    losses : sequence of str, default ("logistic", "squared_hinge")
        Also "squared_error" and "softmax".
    tau : sequence of float in (0, 1], default (0.5, 1.0)
        Strengths of the unbiased correction.
    rank_by : sequence of str, default ("score", "probability/propensity")
        Ways to rank labels; the second for logistic and softmax losses.
    costs : sequence of float, optional
        Values of C; by default six that are usual for the loss, and what lies between the best.
    audit : Judgements, optional
        Of these rows (`unmask.audit`): the last candidates are judged by the measured metric.
    recipe : Recipe, optional
        What is not chosen: bias, tol, max_iter and prune_below of the model.
    refit : bool, default True
        Whether to train the chosen recipe on all rows.
    store : path, optional
        A file `NAME.jsonl.zst` that keeps what was tried; the same call then goes on after it.
    seed : int, default 0
        Of the rows to train on and of samples; the same seed gives the same choice.
    progress : function (done, total), optional
        Called as paths are finished.
    backend : optional
        Where paths are trained (`unmask.parallel`), which does not change the choice.

    Returns
    -------
    Tuned
        `recipe`, `model`, `table`, `reason`, and `predict_top`.

    Raises
    ------
    ValueError
        If data do not fit each other, there are fewer than 4 rows, a name is unknown, or the
        metric cannot be estimated from the best labels.

    References
    ----------
    Breiman et al., *Classification and regression trees* (1984), for the one-standard-error rule.

    Examples
    --------
    >>> from unmask import data, propensity
    >>> rows = data.synthetic.planted(400, n_features=60, n_labels=12, seed=0)
    >>> p = propensity.constant(12, 0.5)
    >>> best = tune(rows.features, data.hide(rows.labels, p, seed=1), p, "R@3", tau=[1.0])
    >>> best.metric, best.estimator, len(best.table) > 4
    ('R@3', 'deconvolved', True)
    >>> best.predict_top(rows.features, 3).labels.shape
    (400, 3)
    """
    x = checks.narrow(checks.columns(features))
    y = _labels(labels)
    checks.same_rows(x, matrix_of(y), "features", "labels")
    if x.shape[0] < 4:
        raise ValueError(f"tuning needs at least 4 rows to hold some out; got {x.shape[0]}.")
    for name, asked, usual in (("tau", tau, search.TAUS), ("rank_by", rank_by, RANKINGS)):
        if propensity is None and tuple(asked) != tuple(usual):
            raise ValueError(f"{name} has no effect without propensities; leave it out.")
    judged_by = None if propensity is None else judging.tempered(propensity, 1.0)
    p = None if judged_by is None else checks.propensity(judged_by, matrix_of(y).shape[1])
    for loss in losses:
        checks.one_of(loss, search.CORRECTIONS, "loss")
    if not losses:
        raise ValueError("losses is empty; name at least one, such as 'logistic'.")
    for strength in tau:
        checks.in_range(strength, "tau", np.finfo(float).tiny, 1)
    for ranking in rank_by:
        checks.one_of(ranking, RANKINGS, "ranking")
    for cost in costs if costs is not None else ():
        checks.in_range(cost, "costs", np.finfo(float).tiny, np.finfo(float).max)
    if costs is not None and not len(costs):
        raise ValueError("costs is empty; name at least one, such as 1.0.")
    judge = judging.judge_of(metric, judged_by, audit)
    some, judge = _sampled(y, judge, seed)
    own = judging.labels_of(y, some)
    p_of_some = None if p is None else p[some]
    rows = search.arrange(x, own, p_of_some, judge, recipe or Recipe(), seed)
    tried_by = search.families(losses, tau, rank_by, judged_by)
    with warnings.catch_warnings(), parallel.connect(backend) as runner:
        warnings.simplefilter("ignore", UnconvergedWarning)  # of models that only compete
        plain = {} if p is None else _plain_models(rows, tried_by, costs)
        standing = Trust(1.0) if p is None else _standing(rows, plain)
        run = replace(_run(rows, plain, standing), source=source_of(propensity))
        rows, tried_by = _trusting(rows, tried_by, standing)
        rounds = _Search(runner, rows, tried_by, costs, search.Records(store, rows), standing.tau)
        rounds.run(plain, progress)
        because, chosen, best, error = rounds.chosen(raised=costs is None and audit is None)
        tried = rounds.climbed([chosen.family.trained])
    if store is not None:
        pack_records(store)
    family = chosen.family
    standing_p = None if p is None else standing.left_of(p)
    trained_on = family.propensity(standing_p)
    named_costs = costs is not None or audit is not None  # measured and estimated values differ
    top = chosen.cost if named_costs else between(chosen, tried)
    source = source_of(propensity)
    cost = top if named_costs else towards_usual(top, family, by_formula=source.by_formula)
    final = family.recipe(cost, recipe)
    model = linear.train(x, y, final, propensity=trained_on, backend=backend)[0] if refit else None
    names = labels.label_names if isinstance(labels, Dataset) else None
    return Tuned(
        recipe=final,
        tau=standing.tau * family.tau if family.corrected else 0.0,
        rank_by=family.rank_by,
        propensity=standing_p if family.rank_by != "score" else trained_on,
        model=model if model is None or names is None else replace(model, label_names=names),
        table=tuple(tried),
        metric=metric,
        judged_by=metric if audit is not None else rows.judge.metric,
        labels=len(some),
        estimator="measured" if audit is not None else rows.judge.estimator,
        because=because,
        chosen=chosen,
        best=best,
        error=error,
        trust=standing,
        source=source,
        run=run,
    )


@named_options
def tune_tree(
    features: FeaturesLike,
    labels: LabelsLike | Dataset,
    propensity: PropensityLike | None = None,
    metric: str = "R@5",
    *,
    losses: Sequence[str] = tree.LOSSES,
    costs: Sequence[float] = TREE_COSTS,
    recipe: TreeRecipe | None = None,
    refit: bool = True,
    seed: int = 0,
    progress: Progress | None = None,
    backend: BackendLike = None,
) -> Tuned:
    """Choose loss, correction, ranking and C of label trees for a metric on true labels.

    Candidates are trained on four fifths of the rows and judged on the others by an estimate of the
    *true* metric: `deconvolved` for recall and the like, `unbiased` for linear metrics, `vanilla`
    without propensities. All combinations are tried, as one tree each, whatever the number of trees
    in the end; a tree without correction is also ranked by probability / propensity.

    Parameters
    ----------
    features : (n, d) matrix
        Dense or sparse.
    labels : (n, L) matrix of 0 and 1, or Dataset
        Observed labels.
    propensity : (L,) numbers in (0, 1] or PropensityEstimate, optional
        Without it only trees without correction are tried, for which loss and C are chosen.
    metric : str, default "R@5"
        A metric of the first k labels, such as "R@5", "P@3" or "nDCG@5".
    losses : sequence of str, default ("squared_hinge", "logistic")
        What is tried.
    costs : sequence of float, default (0.3, 1.0, 3.0)
        Values of C.
    recipe : TreeRecipe, optional
        What is not chosen: trees, arity, leaf and so on.
    refit : bool, default True
        Whether to train the chosen recipe on all rows.
    seed : int, default 0
        Of the rows that are held out.
    progress : function (done, total), optional
        Called as candidates are finished.
    backend : optional
        Where trees are trained (`unmask.parallel`), which does not change the choice.

    Returns
    -------
    Tuned
        `recipe`, `rank_by`, `model`, `table`, `reason`, and `predict_top`.

    Raises
    ------
    ValueError
        As `tree.train`; if there are fewer than 5 rows, nothing to try, or the metric cannot be
        estimated from the best labels.

    Examples
    --------
    >>> from unmask import data
    >>> rows = data.synthetic.planted(200, n_features=60, n_labels=30, seed=0)
    >>> best = tune_tree(rows.features, rows.labels, metric="P@3", costs=[0.3, 3.0])
    >>> best.estimator, len(best.table), best.model.n_labels
    ('vanilla', 4, 30)
    """
    x = checks.columns(features)
    y = checks.labels(labels.labels if isinstance(labels, Dataset) else labels)
    checks.same_rows(x, y, "features", "labels")
    if x.shape[0] < HELD_OUT:
        raise ValueError(f"tuning needs at least {HELD_OUT} rows; got {x.shape[0]}.")
    if not losses or not len(costs):
        raise ValueError("there is nothing to try; name at least one loss and one of costs.")
    base, run = recipe or TreeRecipe(), judge_propensities(None, y, propensity)
    p = None if propensity is None else checks.propensity(propensity, y.shape[1])
    judge = judging.judge_of(metric, propensity, None)
    order = np.random.default_rng(seed).permutation(x.shape[0])
    held, kept = np.split(order, [x.shape[0] // HELD_OUT])
    corrections = ("vanilla",) if p is None else ("vanilla", "counts")
    note = counter(progress, len(losses) * len(corrections) * len(costs))
    table: list[Tried] = []
    for loss, correction, cost in itertools.product(losses, corrections, costs):
        family = Family(loss, correction)
        one = replace(family.recipe(float(cost), base), n_trees=1)
        model = tree.train(x[kept], y[kept], one, propensity=p, backend=backend)
        for rank_by in RANKINGS if p is not None and not family.corrected else RANKINGS[:1]:
            top = predict_top(model, x[held], judge.places, rank_by=rank_by, propensity=p)
            value = Judged(judge.value(top, y[held]))
            if not table and propensity is not None:
                run = judge_propensities(top, y[held], propensity)
            table.append(Tried(0, replace(family, rank_by=rank_by), float(cost), len(kept), value))
        note(1)
    best = max(table, key=worth)
    final = best.family.recipe(best.cost, base)
    return Tuned(
        recipe=final,
        tau=0.0 if best.family.correction == "vanilla" else 1.0,
        rank_by=best.family.rank_by,
        propensity=p,
        model=tree.train(x, labels, final, propensity=p, backend=backend) if refit else None,
        table=tuple(table),
        metric=metric,
        judged_by=metric,
        labels=y.shape[1],
        estimator=judge.estimator,
        because=Because.BEST if np.isfinite(worth(best)) else Because.ALONE,
        chosen=best,
        best=best,
        error=0.0,
        trust=Trust(1.0),
        source=source_of(propensity),
        run=run,
    )


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
    INDEPENDENCE = "independence"
    """Vanilla training is as good by an estimate that takes labels of a row to be lost
    independently, but not by unbiased precision, which holds also where they are lost together."""
    ALONE = "alone"
    """It is the only family, or no other has a value."""


@dataclass(frozen=True, eq=False)
class Tuned:
    """The chosen training, its model, and everything that was tried.

    Parameters
    ----------
    recipe : Recipe or TreeRecipe
        The chosen training; `linear.train` or `tree.train` takes it.
    tau : float
        How much of the correction by the stated propensities it applies: 1/p is tempered by it.
    rank_by : str
        How its predictions are ranked; `predict_top` does.
    propensity : (L,) floats or None
        What training (or ranking) uses: the propensities, tempered, or one level for all; None
        for plain vanilla.
    model : LinearModel, TreeModel or None
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
    run : Run, optional
        The standing of the propensities, judged by held-out predictions of plain training.

    Examples
    --------
    >>> import unmask
    >>> rows = unmask.data.synthetic.planted(300, n_features=40, n_labels=8, seed=0)
    >>> best = unmask.tune(rows.features, rows.labels, metric="P@1", losses=["logistic"])
    >>> best.recipe.correction, best.estimator, best.model.n_labels
    ('vanilla', 'vanilla', 8)
    """

    recipe: Any
    tau: float
    rank_by: str
    propensity: Floats | None
    model: Any
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
    run: Run | None = None

    @property
    def reason(self) -> str:
        """Why this training, in a sentence or two."""
        return " ".join([_choice(self), *_refutation(self.trust)])

    def predict_top(self, features: FeaturesLike, k: int) -> TopK:
        """Return the best k labels of every row, ranked as was chosen.

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
        kind = next(kind for kind in KINDS.values() if isinstance(self.model, kind.model))
        return kind.predict_top(self.model, features, k, rank_by=self.rank_by, propensity=p)

    def __str__(self) -> str:
        """Return the choice, its reason, and the best of every family."""
        return f"{self.headline}\n{self.reason}\n\n{text_of(self._grid())}"

    def _grid(self) -> list[list[str]]:
        """Return the header and the rows of what a terminal and a notebook show."""
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
        """The metric that was maximised; if only of some labels, what it stands for."""
        words = self.judged_by
        if self.judged_by != self.metric or (
            self.model is not None and self.labels < self.model.n_labels
        ):
            words += f" of {self.labels} of the labels"
        return words if self.judged_by == self.metric else f"{words} (for {self.metric})"

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
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
            "run": None if self.run is None else self.run.to_dict(),
            "chosen": named(self.chosen),
            "best": named(self.best),
            "tried": [named(each) for each in self.table],
        }


def choose(
    finalists: Sequence[Tried], margin: float = MARGIN
) -> tuple[Because, Tried, Tried, float]:
    """Choose the best family, or one without propensities within `margin` standard errors.

    Returns why, the chosen one, the best one, and the standard error of their difference.
    """
    best = max(finalists, key=worth)
    if not np.isfinite(worth(best)):
        plainest = min(finalists, key=lambda each: search.plainness(each.family))
        return Because.ALONE, plainest, plainest, 0.0
    plain = [each for each in finalists if not each.family.corrected]
    if best.family.corrected and plain:
        second = max(plain, key=worth)
        error = judging.difference_error(best.judged, second.judged)
        if best.judged.value - second.judged.value <= margin * error:
            return Because.PLAINER, second, best, error
    return Because.BEST if len(finalists) > 1 else Because.ALONE, best, best, 0.0


def between(chosen: Tried, tried: Sequence[Tried]) -> float:
    """C at the top of the parabola; the chosen one where no parabola has a top.

    Parameters
    ----------
    chosen : Tried
        On the last rung.
    tried : sequence of Tried
        On both rungs, of all families.

    Returns
    -------
    float
        Of two digits.
    """
    return _top(_by_cost(chosen, tried))[0]


def towards_usual(cost: float, family: Family, *, by_formula: bool = False) -> float:
    """C between the best one on held-out rows and the usual one, the middle of the path.

    What is not certain about the best is chance only in part: it is that of a part of the rows, by
    propensities that may be wrong. (In 72 cases, three other draws of the study, C at the top
    itself had a regret of 0.0012 on average, above 0.005 in five; `KEPT` of the way 0.0008, in
    three.) Propensities from a formula are off by 1.5 times on real labels
    (docs/decisions/0014-what-real-masks-taught.md), and how much rare labels count decides which C
    is best: a quarter of the way is gone then. (In 20 cases with Jain's, five draws: 0.0008 on
    average and above 0.005 in one, where three quarters had 0.0015, and three.)

    >>> towards_usual(30.0, Family("logistic")), towards_usual(3.0, Family("logistic"))
    (17.0, 3.0)
    >>> towards_usual(30.0, Family("logistic"), by_formula=True)
    5.3
    """
    usual = _middle(search.path(family, None))
    kept = KEPT_BY_FORMULA if by_formula else KEPT
    return float(f"{usual * (cost / usual) ** kept:.2g}")


def _raised(each: Tried, tried: Sequence[Tried]) -> Tried:
    """Return a finalist with the value at the top of the parabola, where its C will lie."""
    values = _by_cost(each, tried)
    rise = _top(values)[1] - values[each.cost]
    if not rise > 0:
        return each
    judged = each.judged
    without = tuple(value + rise for value in judged.without)
    return each._replace(judged=judged._replace(value=judged.value + rise, without=without))


def _by_cost(finalist: Tried, tried: Sequence[Tried]) -> dict[float, float]:
    """Return the values of a family by C, where candidates were compared."""
    return {t.cost: worth(t) for t in tried if t.family == finalist.family and not t.rung}


def _top(values: Mapping[float, float]) -> tuple[float, float]:
    """C and value at the top of the parabola through the best value and those beside it."""
    costs = sorted(values)
    best = max(costs, key=lambda cost: values[cost])
    if len(costs) < 3:
        return best, values[best]
    middle = min(max(costs.index(best), 1), len(costs) - 2)
    near = costs[middle - 1 : middle + 2]
    below, centre, above = (values[cost] for cost in near)
    curvature = 2 * centre - below - above
    if not np.isfinite(curvature) or curvature <= 0:
        return best, values[best]
    steps = min(max((above - below) / (2 * curvature), -1.0), 1.0)
    cost = near[1] * (near[1] / near[0] if steps < 0 else near[2] / near[1]) ** steps
    value = centre + (above - below) / 2 * steps - curvature / 2 * steps**2
    return float(f"{cost:.2g}"), max(value, values[best])


def _labels(labels: LabelsLike | Dataset) -> sp.csr_array | Dataset:
    """Checked labels; a data set without judgements is its matrix."""
    if isinstance(labels, Dataset) and labels.judgements is not None:
        return replace(labels, features=None)
    matrix = labels.labels if isinstance(labels, Dataset) else labels
    return checks.narrow(checks.labels(matrix))


def _sampled(labels: sp.csr_array | Dataset, judge: Judge, seed: int) -> tuple[Ints, Judge]:
    """Return the labels to train in the search, and their judge: k falls as their number does.

    With an audit all labels are trained, since whole rows were judged.
    """
    matrix = matrix_of(labels)
    if judge.audit is not None:
        return np.arange(matrix.shape[1]), judge
    some = search.sample_labels(matrix, seed)
    k = max(1, round(judge.places * len(some) / max(1, matrix.shape[1])))
    p = None if judge.propensity is None else judging.of_labels(judge.propensity, some)
    name = judge.metric.partition("@")[0]
    return some, replace(judge, metric=f"{name}@{k}", propensity=p)


def _plain_models(
    rows: Rows, tried_by: Sequence[Family], costs: Sequence[float] | None
) -> dict[Task, Models]:
    """Return the models of a plain training, of the usual loss if it is there, with the middle C.

    They do not depend on propensities.
    """
    plain = [family for family in tried_by if not family.corrected]
    family = next((each for each in plain if each.loss == Recipe().loss), plain[0])
    cost = _middle(search.path(family, costs))
    return {Task(0, family, ("score",), (cost,)): search.train(rows, 0, family, cost)}


def _standing(rows: Rows, plain: Mapping[Task, Models]) -> Trust:
    """Say how far plain models, by their predictions, leave the propensities standing."""
    tops = [search.predict(rows, 0, task.family, models) for task, models in plain.items()]
    labels = rows.labels_judged_on(0)
    standing = judging.trust(tops, labels, np.asarray(rows.propensity))
    if not standing.tau or rows.judge.propensity is None:
        return standing
    stated = judging.tempered(rows.judge.propensity, standing.tau)
    doubts = judging.misfit(tops, labels, replace(rows.judge, propensity=stated))
    return replace(standing, independent=not doubts, evidence=(*standing.evidence, *doubts))


def _run(rows: Rows, plain: Mapping[Task, Models], standing: Trust) -> Run:
    """Judge the stated propensities as every command does, by predictions of plain models."""
    labels = rows.labels_judged_on(0)
    tops = [search.predict(rows, 0, task.family, models) for task, models in plain.items()]
    stated = rows.judge.propensity
    return judge_propensities(tops[0] if tops else None, labels, stated, evidence=standing.rejected)


def _trusting(
    rows: Rows, tried_by: tuple[Family, ...], standing: Trust
) -> tuple[Rows, tuple[Family, ...]]:
    """Return rows and families with the propensities that are left standing."""
    if rows.judge.propensity is None:
        return rows, tried_by
    p = standing.left_of(np.asarray(rows.propensity))
    if standing.tau == 0:
        judge = replace(rows.judge, metric=f"R@{rows.judge.places}", estimator=judging.BALANCED,
                        propensity=None)  # fmt: skip
        tried_by = tuple(
            f for f in tried_by if f.correction in search.OF_LEVEL and f.rank_by == "score"
        )
        of_level = {f.loss for f in tried_by if f.corrected}
        tried_by = tuple(f for f in tried_by if f.loss in (of_level or {f.loss}))
        return replace(rows, propensity=p, judge=judge), tried_by
    judge = replace(rows.judge, propensity=judging.tempered(rows.judge.propensity, standing.tau))
    if not standing.independent:
        judge = judge.by_precision
        tried_by = tuple(family for family in tried_by if not family.normalized)
    return replace(rows, propensity=p, judge=judge), tried_by


class _Search:
    """The rounds of a search (`search`), with what was tried so far."""

    def __init__(
        self,
        runner: parallel.Runner,
        rows: Rows,
        tried_by: Sequence[Family],
        costs: Sequence[float] | None,
        records: search.Records,
        trusted: float,
    ) -> None:
        self.runner, self.rows, self.records, self.trusted = runner, rows, records, trusted
        self.costs, self.tried = costs, list[Tried]()
        self.left = {family.loss for family in tried_by}
        """Losses that are not given up."""
        self.rankings: dict[Family, tuple[str, ...]] = {}
        for family in tried_by:
            rankings = self.rankings.get(family.trained, ())
            self.rankings[family.trained] = (*rankings, family.rank_by)
        self.note: Callable[[], None] = lambda: None

    def run(self, plain: Mapping[Task, Models], progress: Progress | None) -> None:
        """Walk all rounds but the last; some plain models are there already."""
        first = self._first()
        total, done = len(first) + search.CLIMBED + search.LAST + 3, 0

        def note() -> None:
            nonlocal done
            done += 1
            if progress is not None:
                progress(min(done, total), total)

        self.note = note
        self._take(plain)
        usual = [family for family in first if family.loss == Recipe().loss]
        self._at([(family, _middle(self._path(family))) for family in usual or first])
        self.climbed(usual or self._close())
        if usual:
            self._challenge(usual[0], [family for family in first if family not in usual])
        self._at(self._beside_best())
        self.climbed(self._best(1))
        self._at(self._weaker())
        if progress is not None:
            progress(total, total)

    def _challenge(self, usual: Family, others: Sequence[Family]) -> None:
        """Other losses where the usual one has its best C; what is clearly ahead is followed.

        If none is, the usual loss alone is left.
        """
        place = self._path(usual).index(self._top(usual).cost)
        self._at([(family, self._path(family)[place]) for family in others])
        best = max((self._top(family) for family in self.rankings if family.loss == usual.loss
                    and self._known(family)), key=worth)  # fmt: skip
        best = best if self.costs is not None else _raised(best, self.tried)
        ahead = [each for each in others
                 if _behind(best, self._top(each), search.FOLLOWED, unknown=True)]  # fmt: skip
        self.climbed(ahead)
        if not ahead:
            self.left = {usual.loss}

    def chosen(self, *, raised: bool) -> tuple[Because, Tried, Tried, float]:
        """Choose of the best trainings that are left and the best plain one.

        By the sum over hits, where there is one; a plain one only if unbiased precision agrees.
        """
        compared = [t for t in self.tried if not t.rung]
        plain = max((t for t in compared if t.family.loss in self.left and not t.family.corrected),
                    key=worth)  # fmt: skip
        last = [*(self._top(family) for family in self._best(search.LAST)), plain]
        last = list({each.family: each for each in last}.values())
        if self.rows.judge.audit is not None:
            last = self._fully(last, search.CROSSED)
            return choose([_raised(each, self.tried) for each in last] if raised else last)
        summed = all(each.judged.without for each in last)
        last = last if summed else self._fully(last, 1)
        last = [_raised(each, self.tried) for each in last] if raised else last
        because, chosen, best, error = choose(last)
        corrected = [each for each in last if each.family.corrected and np.isfinite(worth(each))]
        if not chosen.family.corrected and corrected and self.rows.judge.by_independence:
            other = max(corrected, key=worth)
            both = self._walked([chosen, other], search.TOGETHER)
            if choose(both)[1].family == other.family:
                because, chosen, best = Because.INDEPENDENCE, other, chosen
        if because is Because.PLAINER and len(self.rows.folds) > 1:
            both = self._fully([chosen, best], search.CROSSED)
            return choose([_raised(each, self.tried) for each in both] if raised else both)
        if not summed:
            return because, chosen, best, error
        rival, alone = max(compared, key=worth), (Because.BEST, Because.ALONE)
        if because in alone and rival.family.loss not in self.left and worth(rival) > worth(chosen):
            because, best = Because.USUAL, rival
            error = judging.difference_error(rival.judged, chosen.judged)
        fully = {each.family: each for each in self._fully([chosen, best], 1)}
        return because, fully[chosen.family], fully[best.family], error

    def climbed(self, trained: Sequence[Family]) -> list[Tried]:
        """Follow trainings along C until their value falls; return all that was tried."""
        self._walk([
            Task(0, family, self.rankings[family], self._path(family), tuple(self._known(family)))
            for family in trained
        ])  # fmt: skip
        return self.tried

    def _take(self, plain: Mapping[Task, Models]) -> None:
        """Plain models by the judge that is left, and by all rankings."""
        for task, models in plain.items():
            asked = task._replace(rankings=self.rankings[task.family])
            for tried, top in search.judged(self.rows, asked, task.costs[0], models):
                self.tried.append(tried)
                self.records.tops[tried.family, tried.cost] = top

    def _path(self, family: Family) -> tuple[float, ...]:
        return search.path(family, self.costs)

    def _first(self) -> list[Family]:
        """Return the last correction of every loss in `CORRECTIONS`; else the plain training."""
        first: dict[str, Family] = {}
        for family in self.rankings:
            other = first.get(family.loss, family)
            first[family.loss] = max(other, family, key=lambda each: (_order(each), each.tau))
        return list(first.values())

    def _known(self, trained: Family) -> list[tuple[float, float]]:
        """Return the costs of a training with the value of its best ranking."""
        values: dict[float, float] = {}
        for each in self.tried:
            if each.family.trained == trained and not each.rung:
                values[each.cost] = max(values.get(each.cost, -np.inf), worth(each))
        return sorted(values.items())

    def _best(self, count: int, *, plain: bool = False) -> list[Family]:
        """Return the best trainings that are left; `plain`: those without propensities."""
        best: dict[Family, float] = {}
        for each in self.tried:
            left = each.family.loss in self.left and not (plain and each.family.corrected)
            if not each.rung and left:
                family = each.family.trained
                best[family] = max(best.get(family, -np.inf), worth(each))
        return sorted(best, key=lambda family: -best[family])[:count]

    def _close(self) -> list[Family]:
        """Return the best training and corrections that may be as good with another C."""
        best, *others = [self._top(family) for family in self._best(len(self.rankings))]
        corrected = [each for each in others if each.family.trained.corrected]
        close = [each for each in corrected if not _behind(each, best, search.FOLLOWED)]
        return [each.family.trained for each in [best, *close][: search.CLIMBED]]

    def _top(self, trained: Family) -> Tried:
        """Where candidates were compared, the best of a training."""
        return max((t for t in self.tried if t.family.trained == trained and not t.rung), key=worth)

    def _beside_best(self) -> list[tuple[Family, float]]:
        """Return other corrections of the leading loss, and plain trainings, at the C of the best.

        These are the best one and that of the same loss, unless they are clearly behind; and always
        where nothing but a level is left of the propensities.
        """
        leader, place = self._leader()
        asked = {_order(family): family for family in sorted(self.rankings, key=lambda f: f.tau)
                 if family.loss == leader.loss and family.corrected}  # fmt: skip
        (plain,) = self._best(1, plain=True)
        behind = self.trusted and _behind(self._top(plain), self._top(leader), search.CLEARLY)
        near = [] if behind else [
            family for family in self.rankings
            if not family.corrected and (family == plain or family.loss == leader.loss)
        ]  # fmt: skip
        return [(family, self._path(family)[place]) for family in (*asked.values(), *near)]

    def _weaker(self) -> list[tuple[Family, float]]:
        """Return the correction of the best training with less strength."""
        leader, place = self._leader()
        return [(f, self._path(f)[place]) for f in self.rankings
                if f.tau < leader.tau and replace(f, tau=leader.tau) == leader]  # fmt: skip

    def _leader(self) -> tuple[Family, int]:
        """Return the best training, and the place of its C in the path."""
        (leader,) = self._best(1)
        return leader, self._path(leader).index(self._top(leader).cost)

    def _at(self, asked: Sequence[tuple[Family, float]]) -> None:
        """Trainings at one C each, unless that is known."""
        new = [(f, cost) for f, cost in asked if cost not in dict(self._known(f))]
        self._walk([Task(0, f, self.rankings[f], (cost,)) for f, cost in new])

    def _fully(self, last: Sequence[Tried], rung: int) -> list[Tried]:
        """Judge finalists on a later rung."""
        made = self._walked(last, rung)
        self.tried += made
        return made

    def _walked(self, last: Sequence[Tried], rung: int) -> list[Tried]:
        tasks = dict.fromkeys(
            Task(rung, each.family.trained, (each.family.rank_by,), (each.cost,)) for each in last
        )
        return self.records.run(self.runner, self.rows, list(tasks), self.trusted, self.note)

    def _walk(self, tasks: Sequence[Task]) -> None:
        self.tried += self.records.run(self.runner, self.rows, tasks, self.trusted, self.note)


def _middle(costs: Sequence[float]) -> float:
    return costs[len(costs) // 2]


def _order(family: Family) -> int:
    """Return the place of a correction among those of its loss."""
    return search.CORRECTIONS[family.loss].index((family.correction, family.normalized))


def _behind(each: Tried, best: Tried, errors: float, *, unknown: bool = False) -> bool:
    """Tell if one is behind by more than so many standard errors of the difference."""
    if not (each.judged.without and best.judged.without):
        return unknown and worth(best) > worth(each)
    return worth(best) - worth(each) > errors * judging.difference_error(best.judged, each.judged)


def named(tried: Tried) -> Record:
    """Return a trial as plain values, with the name of its family."""
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
    return 1.0 if METRICS[record["judged_by"].partition("@")[0]].higher_is_better else -1.0


def _number(each: Record, sign: float) -> float:
    value = each["value"]
    return value if value is not None and math.isfinite(value) else -sign * math.inf


def _choice(tuned: Tuned) -> str:
    if tuned.because is Because.ALONE:
        return f"No other training could be compared by {tuned.judged_by}."
    if tuned.because is Because.BEST:
        return f"It is the best by {tuned.measure} of all that was tried."
    if tuned.because is Because.INDEPENDENCE:
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
    doubts = [each.sentence for each in trust.evidence if each.kind in judging.OF_COUNTS]
    doubted = [] if trust.independent else [
        f"Labels of a row seem to be lost together ({'; '.join(doubts)}), so trainings were judged "
        "by unbiased precision, which holds then, too."
    ]  # fmt: skip
    if trust.tau == 1:
        return doubted
    said = [each.sentence for each in trust.evidence if each.kind not in judging.OF_COUNTS]
    if trust.test is not None:
        said += [each.sentence for each in trust.rejected]
    then = (
        f"corrections use {trust.tau:.0%} of 1/p − 1" if trust.tau
        else f"corrections use {trust.level:.3g} for all labels, and trainings were judged by the "
        "recall of observed labels, rare ones counting for more than their number"
    )  # fmt: skip
    if not said:
        return [
            f"The propensities are not borne out: {judging.UNORDERED}, so {then}.", *doubted,
        ]  # fmt: skip
    return [f"The propensities are refuted ({'; '.join(said)}), so {then}.", *doubted]
