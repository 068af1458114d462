"""The search for a training: families along a path of costs, on which rows, in which order.

A `Family` is everything but C: loss, correction, how much of the correction (τ, which tempers the
propensities: 1 + τ(1/p − 1) for 1/p), and by what labels are ranked. Families are listed from the
plainest to the one that leans most on the propensities. The usual loss is tried along C, then other
losses where it is best, then what is close.

Rows are put into a random order. Models are trained on the first `TRAINED` of them (on a quarter of
all from 10,000 rows on, but on `ENOUGH` at least) and judged on the others, which they have not
seen. With fewer than 4 · `LEAST` rows, either half is trained on, and all rows are judged on.

    round   trainings                                                       C
    1       a plain one of the usual loss (that of `Recipe()`), which also  the middle of the path
            says how far propensities are to be trusted; its correction
    2       the correction (plain, where there are no propensities)         upwards or downwards
                                                                            until the value falls
    3       one correction of every other loss; what is ahead of the usual  that of the best; then
            loss by more than `FOLLOWED` standard errors is followed        up- or downwards
    4       other corrections of the loss that leads; plain ones, unless    that of the best
            they are clearly behind; weaker τ, if the best one is so
            corrected

A search without the usual loss starts with a correction of every loss that it has and follows the
best, and the next unless it is clearly behind. Where errors are not known (metrics that are no sum
over hits), the better value is ahead.

Why the usual loss comes first: in the 60 cases of three other draws of the study whose propensities
are not permuted, squared hinge with its bound, at its best C, was within 0.005 of the best of all
candidates in 59 and 0.0054 from it in one, while the difference of two losses has a standard error
of 0.002 to 0.004 on delicious. To let every loss compete costs more trainings than it gains, most
of all where another loss trains in a fraction of the time.

Trainings are compared by a sum over hits (`judging.Hits`). The best is chosen unless a plain one is
within `tune.MARGIN` standard errors of it. Then, and where a plain one is the best, both are
compared by unbiased precision, too, which holds however labels of a row are lost together; if that
agrees, a tie is settled by cross-validation: both are trained on the last `TRAINED` rows as well
and judged on the first, by the estimate itself. Else only the chosen one is judged by that. Where
there is no such sum, the best `LAST` and the best plain one are; an audit measures these on all
rows.

What this costs is five trainings of two fifths of the rows, two more at times; predictions and
estimates come on top, a third of a training of all rows. With the model on all rows that was the
processor time of 3.1 trainings of the chosen recipe on average, 4.2 at most, on two draws that the
study does not have (48 cases, a busy machine), and the regret in R@5 0.0007 on average, above 0.005
in three cases, all of delicious. A logistic model trains four times as fast there, so that a search
which chooses one takes about ten of its trainings.

Every model starts from nothing. To start from that of another training saves a tenth at most (the
solver takes three Newton iterations from anywhere), and values would depend on the way to them.

A candidate's C is that of all n rows. The best C falls with their number, about as 1/√n (the usual
rate of a penalty per row; measured: by 0.20 to 0.39 of our steps per doubling of the rows of
delicious and cooking, and 1/√n is 0.30 of them), so that on m rows C √(n/m) is trained with.

Of many labels only a sample is trained, one in six but at least `FEWEST`, evenly from frequent to
rare, and as much smaller the metric's k is. Features that no row of the sample has would get no
weight and are left out. Models stop within `TOLERANCE` of the objective, which hardly changes a
ranking (`benchmarks/tuning.py` has what all this costs).

What was tried is kept in records as it is measured; a search that finds a record uses it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from unmask import __version__, losses
from unmask._typing import Floats, Ints, PathLike, Record
from unmask.arrays import checks
from unmask.data import Dataset
from unmask.files import append_record, key_text, read_records
from unmask.models import linear
from unmask.models.judging import Hits, Judge, Judged, matrix_of, rows_of, with_jackknife
from unmask.models.linear import LinearModel, Ranking, best_labels
from unmask.models.problem import Recipe
from unmask.models.training import RANKINGS
from unmask.parallel import Runner
from unmask.predictions import TopK
from unmask.propensity import temper
from unmask.propensity.mask_model import refuse_for_weights

COSTS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Values of C for vanilla logistic training, smallest first; a path goes up from model to model."""
SCALES = {"logistic": 1.0, "squared_hinge": 0.03, "squared_error": 0.1, "softmax": 3.0}
"""Where the best C of a loss lies beside that of the logistic one."""
CORRECTED = 0.3
"""Where the best C of a corrected training lies beside that of vanilla: its weights are larger,
unless they are divided among the labels of a row."""
CORRECTIONS = {
    "logistic": (("vanilla", False), ("unbiased", False), ("empirical_bayes", True)),
    "squared_error": (("vanilla", False), ("unbiased", False)),
    "squared_hinge": (("vanilla", False), ("bound", False)),
    "softmax": (("vanilla", True), ("empirical_bayes", True)),
}
"""The corrections that keep a loss convex and their `normalized`, by loss."""
PROBABILISTIC = ("logistic", "softmax")
"""Losses whose scores, trained without correction, stand for P(observed | x), which divided by p is
P(true | x). A corrected training has divided by p already: to do it again corrects twice."""
SCORE, BY_RATIO = RANKINGS
OF_LEVEL = ("vanilla", "bound")
"""Corrections that are tried where all that is left of propensities is one for all labels; if a
loss has one beside vanilla, of such losses only."""
TAUS = (0.5, 1.0)


TOLERANCE = 3e-2
LEAST = 1000
TRAINED = 0.4
"""The share of the rows that is trained on; the others are judged on."""
ENOUGH = 4000
"""Rows to train on from which on a quarter of all is enough."""
FEWEST, SHARE, MOST = 100, 6, 1000
"""Labels that are trained: one in `SHARE`, but from `FEWEST` to `MOST` of them."""
CLIMBED, LAST = 2, 2
"""The largest number of trainings followed along C, and the number of them judged fully."""
CLEARLY, FOLLOWED = 2.0, 3.0
"""Standard errors behind the best with which plain training is given up; and by which another loss
has to be ahead of the usual one to be followed along C."""
CROSSED, TOGETHER = 2, 3
"""The rung of both parts of a cross-validation, and that of the first one by unbiased precision."""


@dataclass(frozen=True)
class Family:
    """A way to train and to rank, whatever C.

    Parameters
    ----------
    loss : str
        As in `linear.Recipe`, which also says its reduction.
    correction : str, default "vanilla"
        A name in `weights.CORRECTIONS`.
    normalized : bool, default False
        Whether a row's loss is divided among its labels.
    tau : float in [0, 1], default 1.0
        How much of 1/p − 1 is corrected for.
    rank_by : {"score", "probability/propensity"}, default "score"

    Examples
    --------
    >>> Family("logistic", "unbiased", tau=0.5).name
    'logistic, unbiased, τ = 0.5'
    >>> Family("logistic").recipe(3.0).C
    3.0
    """

    loss: str
    correction: str = "vanilla"
    normalized: bool = False
    tau: float = 1.0
    rank_by: str = "score"

    @property
    def corrected(self) -> bool:
        """True if propensities play a part, in training or in ranking."""
        return self.correction != "vanilla" or self.rank_by != "score"

    @property
    def trained(self) -> Family:
        """The family that is trained alike, ranked by score."""
        return replace(self, rank_by="score")

    @property
    def name(self) -> str:
        """In a few words."""
        words = [self.loss, self.correction.replace("_", " ")]
        words += ["normalised"] if self.normalized and self.correction == "vanilla" else []
        words += [f"τ = {self.tau:g}"] if self.tau != 1 else []
        words += ["by probability / propensity"] if self.rank_by == BY_RATIO else []
        return ", ".join(words)

    def recipe(self, cost: float, base: Any = None) -> Any:
        """Return the training with this C, of the kind of `base`, which says all the rest."""
        base = base or Recipe()
        own: dict[str, Any] = {"loss": self.loss, "correction": self.correction, "C": cost}
        if isinstance(base, Recipe):
            reduction = losses.get(self.loss).reduction
            own |= {"reduction": reduction, "normalized": self.normalized, "l2": None}
        return replace(base, **own)

    def propensity(self, p: Floats | None) -> Floats | None:
        """Return the propensities that training sees: tempered, or none for vanilla."""
        return None if p is None or self.correction == "vanilla" else temper(p, self.tau)

    def to_dict(self) -> Record:
        """Plain values, for JSON."""
        return asdict(self)


def families(
    names: Sequence[str], taus: Iterable[float], rankings: Sequence[str], propensity: object
) -> tuple[Family, ...]:
    """Return the families of these losses, the plainest first; without propensities only vanilla.

    Parameters
    ----------
    names : sequence of str
        Losses.
    taus : iterable of float in (0, 1]
        For the unbiased correction.
    rankings : sequence of str
        Ways to rank; by score is always among them.
    propensity : propensities, MaskModel or None
        What a mask model does not allow (`refuse_for_weights`) is left out.

    Returns
    -------
    tuple of Family
    """
    tried = []
    for loss in names:
        for correction, normalized in CORRECTIONS[loss]:
            strengths = sorted(taus) if correction == "unbiased" else [1.0]
            tried += [Family(loss, correction, normalized, tau) for tau in strengths]
    if propensity is None:
        return tuple(family for family in tried if not family.corrected)
    tried = [family for family in tried if _accepted(family, propensity)]
    if BY_RATIO in rankings:
        tried += [
            replace(family, rank_by=BY_RATIO)
            for family in tried
            if family.loss in PROBABILISTIC and family.correction == "vanilla"
        ]
    return tuple(sorted(tried, key=plainness))


def recommended(recipe: Recipe) -> str:
    """Return the correction to use with propensities that are to be trusted.

    Where a row's loss is divided among its labels, empirical Bayes: its weights are positive, those
    of the unbiased correction large and of either sign. Otherwise unbiased where that keeps the
    loss convex, and the bound for the squared hinge, where it does not.

    Parameters
    ----------
    recipe : Recipe
        Whose loss and `normalized` count.

    Returns
    -------
    str
        A name in `weights.CORRECTIONS`.

    Examples
    --------
    >>> recommended(Recipe("logistic")), recommended(Recipe("squared_hinge"))
    ('unbiased', 'bound')
    >>> recommended(Recipe("softmax", "pal", normalized=True))
    'empirical_bayes'
    """
    if recipe.normalized:
        return "empirical_bayes"
    return "bound" if recipe.loss == "squared_hinge" else "unbiased"


def plainness(family: Family) -> tuple[bool, bool, float]:
    """Sorts families: by what they leave to the propensities, least first."""
    strength = 0.0 if family.correction == "vanilla" else family.tau
    return family.corrected, family.correction != "vanilla", strength


def path(family: Family, costs: Sequence[float] | None) -> tuple[float, ...]:
    """Return the costs of a training, smallest first: those named, or those usual for it."""
    if costs is not None:
        return tuple(sorted({float(cost) for cost in costs}))
    larger = family.correction != "vanilla" and not family.normalized
    scale = SCALES[family.loss] * (CORRECTED if larger else 1.0)
    return tuple(float(f"{cost * scale:.2g}") for cost in COSTS)


def _accepted(family: Family, propensity: object) -> bool:
    if family.correction == "vanilla":
        return True
    try:
        refuse_for_weights(propensity, normalized=family.normalized)
    except ValueError:
        return False
    return True


class Task(NamedTuple):
    """A family as it is trained, its rankings, and costs, on a rung: all of them in their order.

    With values that are `known` of some, the neighbours of the best until that has no better one.
    """

    rung: int
    family: Family
    rankings: tuple[str, ...]
    costs: tuple[float, ...]
    known: tuple[tuple[float, float], ...] = ()


class Tried(NamedTuple):
    """A family with one C on one rung: on how many rows it was trained, and what it is worth.

    Attributes
    ----------
    rung : int
        0 where candidates are compared, 1 where they are judged fully, 2 by cross-validation.
    family : Family
        Loss, correction, its strength and ranking.
    cost : float
        C on all rows; that of the sample is larger (`scaled`).
    rows : int
        Rows that it was trained on.
    judged : Judged
        The metric on held-out rows.

    Examples
    --------
    >>> from unmask import data, tune
    >>> rows = data.synthetic.planted(200, n_features=40, n_labels=8, seed=0)
    >>> best = tune(rows.features, rows.labels, metric="R@3", losses=["logistic"])
    >>> best.table[0].family.loss
    'logistic'
    """

    rung: int
    family: Family
    cost: float
    rows: int
    judged: Judged

    def to_dict(self) -> Record:
        """Plain values, for JSON."""
        return {
            "rung": self.rung,
            **self.family.to_dict(),
            "C": self.cost,
            "rows": self.rows,
            "value": self.judged.value if np.isfinite(self.judged.value) else None,
            "without": list(self.judged.without),
            "error": self.judged.error,
        }

    @classmethod
    def of(cls, record: Record) -> Tried:
        """From such values."""
        family = Family(*(record[name] for name in Family.__dataclass_fields__))
        value = np.nan if record["value"] is None else record["value"]
        judged = Judged(value, tuple(record["without"]), record["error"])
        return cls(record["rung"], family, record["C"], record["rows"], judged)


class Fold(NamedTuple):
    """Rows to train on and rows to judge on, with the features that the former have."""

    own: Ints
    features: sp.csr_array
    labels: sp.csr_array | Dataset
    held_out: Ints
    held_out_features: sp.csr_array


@dataclass(frozen=True, eq=False)
class Rows:
    """Data, propensities, folds of either rung, and the judge, which all paths share."""

    features: sp.csr_array
    labels: sp.csr_array | Dataset
    propensity: Floats | None
    judge: Judge
    base: Recipe
    folds: tuple[tuple[Fold, ...], ...]
    """Those to compare on; where that is one only, also both to cross-validate on, it first."""
    made: Mapping[tuple[Family, float], TopK] = field(default_factory=dict)
    """Predictions by the models of the first fold that need not be made again."""

    def of_rung(self, rung: int) -> tuple[Fold, ...]:
        """Return the folds of a rung: the first two have the same."""
        return self.folds[-1 if rung == CROSSED else 0]

    def size(self, rung: int) -> int:
        """Return the number of rows that a model is trained on."""
        folds = self.of_rung(rung)
        return sum(len(fold.own) for fold in folds) // len(folds)

    def judged_on(self, rung: int) -> Ints:
        """Return the rows that the models of a rung are judged on, in order."""
        return np.sort(np.concatenate([fold.held_out for fold in self.of_rung(rung)]))

    def labels_judged_on(self, rung: int) -> sp.csr_array | Dataset:
        """Their labels."""
        return rows_of(self.labels, self.judged_on(rung))

    @cached_property
    def _compared(self) -> tuple[sp.csr_array | Dataset, Hits | None]:
        labels = self.labels_judged_on(0)
        return labels, self.judge.hits(labels)

    def judged(self, top: TopK, rung: int) -> Judged:
        """Return the worth of predictions: roughly on the first rung, fully on others."""
        if rung == TOGETHER:
            return self.judge.by_precision.judged(top, self.labels_judged_on(rung))
        if rung:
            return self.judge.judged(top, self.labels_judged_on(rung))
        labels, hits = self._compared
        if hits is None:
            return Judged(self.judge.value(top, labels))
        of_rows = hits.of(top, matrix_of(labels))
        return with_jackknife(float(of_rows.mean()), of_rows)


def sample_labels(labels: sp.csr_array, seed: int) -> Ints:
    """Return the labels to train: all if they are few, else every so many-th from frequent to rare.

    >>> sample_labels(sp.csr_array(np.eye(3)), 0)
    array([0, 1, 2])
    """
    n_labels = labels.shape[1]
    size = min(MOST, max(FEWEST, n_labels // SHARE))
    if 2 * size > n_labels:
        return np.arange(n_labels)
    counts = np.bincount(labels.indices, minlength=n_labels)
    order = np.argsort(-counts, kind="stable")
    offset = np.random.default_rng([seed, 1]).random()
    return np.sort(order[((np.arange(size) + offset) * n_labels / size).astype(np.int64)])


def arrange(
    features: sp.csr_array,
    labels: sp.csr_array | Dataset,
    propensity: Floats | None,
    judge: Judge,
    base: Recipe,
    seed: int,
) -> Rows:
    """Cut the rows into those to train on and those to judge on."""
    n = features.shape[0]
    order = np.random.default_rng(seed).permutation(n)
    enough = max(ENOUGH, n // 4)

    def fold(own: Ints, held_out: Ints) -> Fold:
        own, held_out = np.sort(own), np.sort(held_out)
        some = features[own]
        used = np.flatnonzero(np.bincount(some.indices, minlength=features.shape[1]))
        own_labels = rows_of(labels, own)
        return Fold(own, some[:, used], own_labels, held_out, features[held_out][:, used])

    def parts(size: int) -> tuple[Fold, Fold]:
        """Trained on the first rows or on the last ones; every row is judged on once."""
        first, last = order[:size], order[n - size :]
        return fold(first[:enough], order[size:]), fold(last[:enough], first)

    both = parts(n // 2 if n < 4 * LEAST else round(TRAINED * n))
    folds = [both] if n < 4 * LEAST else [both[:1], both]
    loose = replace(base, tol=max(base.tol, TOLERANCE), prune_below=0.0)
    return Rows(features, labels, propensity, judge, loose, tuple(folds))


Models = tuple[LinearModel, ...]
"""One for each fold of a rung."""


def walk(rows: Rows, task: Task) -> list[tuple[Tried, TopK]]:
    """Train with the costs of a task and judge the models.

    Every one from nothing: what a training is worth does not depend on those before it.
    """
    values = dict(task.known)
    made: list[tuple[Tried, TopK]] = []
    for cost in _steps(task, values):
        first_made = all((family, cost) in rows.made for family in _ranked(task))
        models = train(rows, task.rung, task.family, cost, but_first=first_made)
        made += judged(rows, task, cost, models)
        values[cost] = max(worth(tried) for tried, _ in made if tried.cost == cost)
    return made


def train(rows: Rows, rung: int, family: Family, cost: float, *, but_first: bool = False) -> Models:
    """Return the models of a family with a C of all rows, on all folds of a rung.

    `but_first` leaves the first one out: what its model predicts was made before.
    """
    p, n = family.propensity(rows.propensity), rows.features.shape[0]
    return tuple(
        linear.train(fold.features, fold.labels,
                     family.recipe(scaled(cost, len(fold.own), n), rows.base), propensity=p)[0]
        for fold in rows.of_rung(rung)[but_first:]
    )  # fmt: skip


def judged(rows: Rows, task: Task, cost: float, models: Models) -> list[tuple[Tried, TopK]]:
    """Return the worth of models of a task by all its rankings, with their predictions."""
    made = []
    for family in _ranked(task):
        first_made = len(models) < len(rows.of_rung(task.rung))
        made_before = [rows.made[family, cost]] if first_made else []
        top = predict(rows, task.rung, family, models, made_before)
        judged = rows.judged(top, task.rung)
        made.append((Tried(task.rung, family, cost, rows.size(task.rung), judged), top))
    return made


def predict(
    rows: Rows, rung: int, family: Family, models: Models, made: Sequence[TopK] = ()
) -> TopK:
    """Return the best labels of the rows that are judged on; some of them were made before."""
    folds = rows.of_rung(rung)
    k = min(rows.judge.places, matrix_of(rows.labels).shape[1])
    p = rows.propensity if family.rank_by != "score" else None
    parts = [
        *made,
        *(best_labels(model, fold.held_out_features, Ranking(k, family.rank_by, p))
          for fold, model in zip(folds[len(made):], models, strict=True)),
    ]  # fmt: skip
    if len(parts) == 1:
        return parts[0]
    order = np.argsort(np.concatenate([fold.held_out for fold in folds]))
    labels, scores = (
        np.concatenate([getattr(part, name) for part in parts])[order]
        for name in ("labels", "scores")
    )
    return TopK(labels, scores)


def _ranked(task: Task) -> list[Family]:
    return [replace(task.family, rank_by=name) for name in task.rankings]


def _steps(task: Task, values: Mapping[float, float]) -> Iterator[float]:
    """Yield the costs of a task; where `values` are known, those beside the best."""
    if not values:
        yield from task.costs
        return
    while True:
        best = max(values, key=lambda cost: values[cost])
        place = task.costs.index(best)
        beside = [*task.costs[place + 1 : place + 2], *task.costs[max(0, place - 1) : place]]
        unknown = [cost for cost in beside if cost not in values]
        if not unknown:
            return
        yield unknown[0]


def worth(tried: Tried) -> float:
    """Return the value to compare by: −∞ where there is none."""
    value = tried.judged.value
    return value if np.isfinite(value) else -np.inf


def scaled(cost: float, sample: int, rows: int) -> float:
    """Return the C of a sample that is worth a C of all rows.

    >>> scaled(1.0, 25, 100)
    2.0
    """
    return cost * math.sqrt(rows / sample)


class Records:
    """All that was tried, kept in a file as it is measured; without a file, passed on.

    Records belong to what determines the values: data, propensities, metric, audit, seed and
    version.
    """

    def __init__(self, path: PathLike | None, rows: Rows) -> None:
        """Read those of these rows that are there."""
        self.path = path
        self.mark = "" if path is None else _mark(rows)
        stored = [] if path is None else read_records(path)
        self.kept: dict[str, Any] = {key_text(each["key"]): each.get("tried") for each in stored}
        self.tops: dict[tuple[Family, float], TopK] = {}

    def key(self, task: Task, trusted: float) -> Record:
        """Return the fields that tell a path from others."""
        family = task.family.to_dict()
        return {
            "of": self.mark, "rung": task.rung, **family, "rankings": list(task.rankings),
            "costs": list(task.costs), "known": [cost for cost, _ in task.known],
            "trusted": trusted,
        }  # fmt: skip

    def run(
        self, runner: Runner, rows: Rows, tasks: Sequence[Task], trusted: float,
        note: Callable[[], None],
    ) -> list[Tried]:  # fmt: skip
        """Return all that tasks tried, in their order: read, or walked and kept.

        Predictions that were made for the first rung are not made again for others.
        """
        for task in tasks:
            self._judge_again(rows, task, trusted)
        keys = [key_text(self.key(task, trusted)) for task in tasks]
        missing = [i for i, key in enumerate(keys) if key not in self.kept]
        for _ in range(len(tasks) - len(missing)):
            note()
        crossed = len(rows.folds) > 1 and any(task.rung == CROSSED for task in tasks)
        shared = replace(rows, made=self.tops) if crossed else rows
        walked = runner.run(walk, [tasks[i] for i in missing], shared)
        with closing(walked) as finished:
            for position, made in finished:
                if not tasks[missing[position]].rung:
                    self.tops |= {(tried.family, tried.cost): top for tried, top in made}
                self.keep(tasks[missing[position]], trusted, [tried for tried, _ in made])
                note()
        return [tried for key in keys for tried in self._read(key)]

    def _judge_again(self, rows: Rows, task: Task, trusted: float) -> None:
        """Return a task of the last rung from the predictions of the first, if those are there."""
        if not task.rung or rows.of_rung(task.rung) is not rows.folds[0]:
            return
        if key_text(self.key(task, trusted)) in self.kept:
            return
        size = rows.size(task.rung)
        wanted = [(family, cost) for cost in task.costs for family in _ranked(task)]
        if all(each in self.tops for each in wanted):
            self.keep(task, trusted, [
                Tried(task.rung, *each, size, rows.judged(self.tops[each], task.rung))
                for each in wanted
            ])  # fmt: skip

    def _read(self, key: str) -> list[Tried]:
        try:
            return [Tried.of(each) for each in self.kept[key]]
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"{self.path} holds a record that tuning did not write ({key:.60}…); remove it."
            ) from error

    def keep(self, task: Task, trusted: float, tried: Iterable[Tried]) -> None:
        """Add a path."""
        key, listed = self.key(task, trusted), [each.to_dict() for each in tried]
        self.kept[key_text(key)] = listed
        if self.path is not None:
            append_record(self.path, {"key": key, "tried": listed})


def _mark(rows: Rows) -> str:
    """Digest all that decides what a path is worth."""
    labels = rows.labels
    judged = labels.judgements if isinstance(labels, Dataset) else None
    samples = tuple((fold.own, fold.held_out) for folds in rows.folds for fold in folds)
    shared = rows.features, matrix_of(labels), judged, rows.propensity, samples
    digest = hashlib.sha256()
    for piece in _pieces((__version__, rows.judge, rows.base, *shared)):
        digest.update(piece)
    return digest.hexdigest()[:32]


def _pieces(value: object) -> Iterator[bytes]:
    """Yield the bytes of a value: arrays to the last number, records field by field."""
    if checks.is_sparse(value):
        yield from _pieces((value.shape, value.data, value.indices, value.indptr))
    elif isinstance(value, np.ndarray):
        yield f"{value.dtype.str}{value.shape}".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif is_dataclass(value):
        yield type(value).__name__.encode()
        for each in fields(value):
            yield from _pieces((each.name, getattr(value, each.name)))
    elif isinstance(value, Mapping):
        yield from _pieces(tuple(value.items()))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        yield f"{len(value)}[".encode()
        for item in value:
            yield from _pieces(item)
    else:
        yield f"{value!r};".encode()
