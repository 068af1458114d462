"""Findings before people, and a repaired data set.

`review` makes a sheet of the findings, like that of an audit: for a spreadsheet, Label Studio,
Argilla or the judging page, read back by `audit.read`. Questions stand in random order, so that
whatever was answered first is a random sample of the listed findings, and measures their precision.
It is no audit of the data: pairs were chosen because a model believes in them, and pairs it does
not believe in were never asked about, so nothing follows for recall or P@k. Answers that are only a
list of pairs (`Reviewed` with `random=False`) repair the data and measure nothing at all.

`complete` repairs a data set; every label of it has an origin. Confirmed and refuted pairs become
judgements of the data set, so that weights and metrics take them as certain, and labels stay as
they were observed; those that are filled in (P(missing) at least a threshold) become labels like
observed ones. A file has no judgements: in it, confirmed labels are labels and refuted ones are
none. Propensities describe the observed labels alone: after filling in, state or estimate them
anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from unmask._messages import named_options
from unmask._typing import Floats, Ints, PathLike, Record
from unmask.arrays import checks, pair_keys
from unmask.audit.answers import Answers
from unmask.audit.sheets import Question, Sheet
from unmask.data import Dataset
from unmask.data.dataset import Judgement
from unmask.data.writing import write
from unmask.files import atomic_write, contents, read_json
from unmask.files.tables import write_columns
from unmask.metrics.intervals import wilson, z_quantile
from unmask.missing.findings import Findings


class Origin(StrEnum):
    """The origin of a label of a repaired data set.

    Examples
    --------
    >>> Origin("imputed") is Origin.IMPUTED
    True
    """

    OBSERVED = "observed"
    CONFIRMED = "confirmed"
    """Not observed; somebody looked, and it applies."""
    IMPUTED = "imputed"
    """Not observed; P(missing) reached the threshold."""
    REFUTED = "refuted"
    """Somebody looked, and it does not apply: no label of the data set."""


@dataclass(frozen=True, eq=False)
class Repaired:
    """A repaired data set and the origin of each of its labels.

    Parameters
    ----------
    dataset : Dataset
        With the labels, observed and filled in, and confirmed and refuted pairs as judgements.
    rows, labels : (m,) integers
        All pairs with an origin, by row and label.
    origin : tuple of m Origin
    probability : (m,) floats
        P(missing) of those that were not observed, as far as it was stated; else nan.

    Examples
    --------
    >>> from unmask import missing
    >>> rows = Dataset(None, [[1, 0]], label_names=("art", "law"))
    >>> repaired = missing.complete(rows, missing.Reviewed([0], [1], [1], [0.9], (1, 2)))
    >>> repaired.dataset.after_judgements.labels.toarray(), [str(each) for each in repaired.origin]
    (array([[1., 1.]], dtype=float32), ['observed', 'confirmed'])
    """

    dataset: Dataset
    rows: Ints
    labels: Ints
    origin: tuple[Origin, ...]
    probability: Floats

    def counts(self) -> dict[str, int]:
        """Count the pairs of each origin."""
        return {each.value: self.origin.count(each) for each in Origin}

    def write(self, path: PathLike) -> tuple[Path, Path]:
        """Write the data set (`data.write`), and the origin of every label beside it.

        Parameters
        ----------
        path : str or path
            Of the data set; the table `NAME-provenance.csv` stands beside it, with the columns id,
            label, origin and probability.

        Returns
        -------
        both paths

        Raises
        ------
        ValueError
            If the path is there and is no file: nothing can stand beside a device or a pipe.
        """
        target = Path(path)
        if target.exists() and not target.is_file():
            raise ValueError(
                f"{target} is no file; a repaired data set is written to two files, side by side."
            )
        beside = target.with_name(target.name.split(".")[0] + "-provenance.csv")
        ids, names = self.dataset.ids, self.dataset.label_names
        write(
            target,
            replace(self.dataset, labels=self.dataset.after_judgements.labels, judgements=None),
        )
        write_columns(
            beside,
            "csv",
            {
                "id": [str(i) if ids is None else ids[i] for i in self.rows.tolist()],
                "label": [str(j) if names is None else names[j] for j in self.labels.tolist()],
                "origin": [each.value for each in self.origin],
                "probability": [
                    None if np.isnan(each) else round(each, 6) for each in self.probability.tolist()
                ],
            },
        )
        return target, beside


@named_options
def complete(
    dataset: Dataset,
    reviewed: Reviewed | None = None,
    threshold: float | None = None,
    *,
    findings: Findings | Review | None = None,
) -> Repaired:
    """Add confirmed labels, and those that are missing with great probability.

    Parameters
    ----------
    dataset : Dataset
        With labels.
    reviewed : Reviewed, optional
        What people said: confirmed labels are added, refuted ones kept as such.
    threshold : float in (0, 1], optional
        Fill in every finding of at least this P(missing) that nobody judged; by default none.
    findings : Findings or Review, optional
        Where those are; needed with a threshold.

    Returns
    -------
    Repaired

    Raises
    ------
    ValueError
        If shapes do not fit, a threshold has no findings, or there is nothing to repair with.

    Examples
    --------
    >>> from unmask import missing
    >>> rows = Dataset(None, [[1, 0], [0, 0]], label_names=("art", "law"))
    >>> findings = missing.find([[0.9, 0.1], [0.1, 0.95]], rows, [0.5, 0.5])
    >>> complete(rows, threshold=0.9, findings=findings).counts()
    {'observed': 1, 'confirmed': 0, 'imputed': 1, 'refuted': 0}
    """
    if dataset.labels is None:
        raise ValueError("the data set has no labels.")
    if reviewed is None and threshold is None:
        raise ValueError("nothing to repair with; give a review, or a threshold with findings.")
    shape, width = dataset.labels.shape, dataset.labels.shape[1]
    for part in (reviewed, findings):
        if part is not None and part.shape != shape:
            raise ValueError(
                f"the data set has {shape[0]} rows and {width} labels; findings and answers are "
                f"of {part.shape[0]} and {part.shape[1]}."
            )
    own = pair_keys(dataset.labels)
    judged, answers, stated = np.zeros(0, np.int64), np.zeros(0), np.zeros(0)
    if reviewed is not None:
        judged = reviewed.rows * width + reviewed.labels
        answers, stated = reviewed.answers, reviewed.probability
    filled, chance = _filled(findings, threshold, np.r_[own, judged], width)
    confirmed = judged[(answers == 1) & ~np.isin(judged, own)]
    refuted = judged[answers == 0]
    kept = own[~np.isin(own, refuted)]
    origins = {
        Origin.OBSERVED: kept,
        Origin.CONFIRMED: confirmed,
        Origin.IMPUTED: filled,
        Origin.REFUTED: refuted,
    }
    keys = np.concatenate(list(origins.values()))
    names = np.repeat(list(origins), [each.size for each in origins.values()])
    stated_of = dict(
        zip(np.r_[judged, filled].tolist(), np.r_[stated, chance].tolist(), strict=True)
    )
    order = np.argsort(keys, kind="stable")
    probability = [
        np.nan if names[i] == Origin.OBSERVED else stated_of.get(int(keys[i]), np.nan)
        for i in order
    ]
    repaired = replace(
        dataset,
        labels=_matrix(np.r_[own, filled], shape),
        judgements=_judgements(dataset, judged, answers, shape),
    )
    return Repaired(
        repaired,
        keys[order] // width,
        keys[order] % width,
        tuple(Origin(names[i]) for i in order),
        np.array(probability, dtype=np.float64),
    )


def _filled(
    findings: Findings | Review | None, threshold: float | None, taken: Ints, width: int
) -> tuple[Ints, Floats]:
    """Return pairs to be filled in, and their probabilities."""
    if threshold is None:
        return np.zeros(0, np.int64), np.zeros(0)
    checks.in_range(threshold, "threshold", np.finfo(float).tiny, 1.0)
    if findings is None or findings.kind != "missing":
        raise ValueError("a threshold needs findings of missing labels to fill in.")
    keys = findings.rows * width + findings.labels
    kept = (findings.probability >= threshold) & ~np.isin(keys, taken)
    return keys[kept], findings.probability[kept]


def _matrix(keys: Ints, shape: tuple[int, int], values: Floats | None = None) -> sp.csr_array:
    order = np.argsort(keys)
    data = np.ones(keys.size) if values is None else values[order]
    rows, columns = keys[order] // shape[1], keys[order] % shape[1]
    return sp.csr_array(
        (data.astype(np.float32), columns, np.searchsorted(rows, np.arange(shape[0] + 1))),
        shape=shape,
    )


def _judgements(
    dataset: Dataset, judged: Ints, answers: Floats, shape: tuple[int, int]
) -> sp.csr_array | None:
    """Return earlier judgements and the new ones, which take their place."""
    earlier = dataset.judgements
    if earlier is None and not judged.size:
        return None
    keys, values = judged, np.where(answers == 1, Judgement.POSITIVE, Judgement.NEGATIVE)
    if earlier is not None:
        old = pair_keys(earlier)
        kept = ~np.isin(old, judged)
        keys, values = np.r_[old[kept], keys], np.r_[earlier.data[kept], values]
    return _matrix(keys, shape, values.astype(np.float64))


FORMAT, VERSION = "unmask-review", 1
KINDS = ("missing", "wrong")
"""Kinds of findings."""


@dataclass(frozen=True, eq=False)
class Review:
    """Findings and the sheet on which people judge them.

    Parameters
    ----------
    sheet : Sheet
        What is asked: pairs, in random order.
    probability : (m,) floats
        P(missing) of every question, which the sheet does not show.
    shape : (int, int)
        Rows and labels of the data.
    kind : {"missing", "wrong"}, default "missing"
        Of the findings.

    Raises
    ------
    ValueError
        If a question is none about a pair of the data, or there is not a probability for each.

    Examples
    --------
    >>> from unmask import missing
    >>> asked = missing.review(missing.find([[0.9, 0.5]], [[0, 0]], [0.5, 0.5]))
    >>> sorted(question.id for question in asked.sheet.questions)
    ['r0_l0', 'r0_l1']
    """

    sheet: Sheet
    probability: Floats
    shape: tuple[int, int]
    kind: str = "missing"

    def __post_init__(self) -> None:
        """Check that the parts belong together."""
        checks.one_of(self.kind, KINDS, "kind of findings")
        if any(question.label is None for question in self.sheet.questions):
            raise ValueError("the questions of a review are about pairs, each with a label.")
        checks.indices(self.rows, self.shape[0], "rows of questions")
        checks.indices(self.labels, self.shape[1], "labels of questions")
        chances = np.asarray(self.probability)
        if chances.shape != (len(self.sheet.questions),):
            raise ValueError(
                f"{len(self.sheet.questions)} questions need as many probabilities; got shape "
                f"{chances.shape}."
            )
        if not ((chances >= 0) & (chances <= 1)).all():
            raise ValueError("probabilities must lie in [0, 1].")

    @property
    def rows(self) -> Ints:
        """The row of every question."""
        return np.array([question.row for question in self.sheet.questions], dtype=np.int64)

    @property
    def labels(self) -> Ints:
        """The label of every question."""
        return np.array([question.label for question in self.sheet.questions], dtype=np.int64)

    def reviewed(self, answers: Answers) -> Reviewed:
        """Join the answers of one or several people (`audit.read`) with the findings.

        Parameters
        ----------
        answers : Answers
            To this very sheet.

        Returns
        -------
        Reviewed
            Without the pairs on which people were unsure, split or silent.

        Raises
        ------
        ValueError
            If the answers belong to another sheet, or nothing is decided.
        """
        if answers.sheet.key != self.sheet.key:
            raise ValueError("these answers belong to the questions of another review.")
        decided = answers.decisions()
        if not decided:
            raise ValueError("no finding has an answer; judge at least one.")
        places = sorted(decided)
        questions = [self.sheet.questions[place] for place in places]
        return Reviewed(
            np.array([question.row for question in questions]),
            np.array([question.label for question in questions]),
            np.array([bool(decided[place]) for place in places], dtype=np.float64),
            self.probability[places],
            self.shape,
            random=True,
            asked=len(self.sheet.questions),
        )

    def write(self, path: PathLike) -> None:
        """Keep the review in a JSON file; `read_review` is the inverse."""
        with atomic_write(path) as file:
            file.write(json.dumps(self.to_dict(), ensure_ascii=False).encode())

    def to_dict(self) -> Record:
        """Return plain values for JSON."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "kind": self.kind,
            "shape": list(self.shape),
            "probability": self.probability.round(6).tolist(),
            "sheet": self.sheet.to_dict(),
        }


@dataclass(frozen=True, eq=False)
class Reviewed:
    """Answers of people about pairs that a model had chosen.

    Parameters
    ----------
    rows, labels : (m,) integers
        The pairs.
    answers : (m,) floats
        1 where the label applies, else 0.
    probability : (m,) floats
        P(missing) as it was stated; nan where nothing was.
    shape : (int, int)
        Rows and labels of the data.
    random : bool, default False
        Whether the pairs are a random sample of the listed findings.
    asked : int, default 0
        How many findings were listed.

    Raises
    ------
    ValueError
        If lengths differ, a number is out of range, or an answer is neither 0 nor 1.

    Examples
    --------
    >>> own = Reviewed([0, 3], [1, 1], [1, 0], [0.9, 0.8], (4, 2))
    >>> own.measures, own.confirmed
    (False, 1)
    """

    rows: Ints
    labels: Ints
    answers: Floats
    probability: Floats
    shape: tuple[int, int]
    random: bool = False
    asked: int = 0

    def __post_init__(self) -> None:
        """Check that the parts belong together."""
        for name, size in (("rows", self.shape[0]), ("labels", self.shape[1])):
            checks.indices(getattr(self, name), size, name)
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=np.int64))
        for name in ("answers", "probability"):
            numbers = checks.numbers(getattr(self, name), name).astype(np.float64)
            object.__setattr__(self, name, numbers)
        sizes = {len(each) for each in (self.rows, self.labels, self.answers, self.probability)}
        if len(sizes) != 1:
            raise ValueError(f"a review needs as many labels and answers as rows; got {sizes}.")
        if not np.isin(self.answers, (0.0, 1.0)).all():
            raise ValueError("an answer is 1 (the label applies) or 0 (it does not).")
        if np.unique(self.rows * self.shape[1] + self.labels).size != self.rows.size:
            raise ValueError("a pair was reviewed twice; give every pair one answer.")

    @property
    def confirmed(self) -> int:
        """The number of labels that apply."""
        return int(self.answers.sum())

    @property
    def measures(self) -> bool:
        """True where the share of right findings follows; recall and P@k never do."""
        return self.random

    def precision(self, confidence: float = 0.95) -> tuple[float, float, float]:
        """Return the share of the listed findings that are truly missing, and its interval.

        Parameters
        ----------
        confidence : float, default 0.95

        Returns
        -------
        value, low, high
            Wilson's interval, narrowed by the share of the findings that were judged; all judged:
            the share itself.

        Raises
        ------
        ValueError
            If the pairs are no random sample of the findings.
        """
        if not self.measures:
            raise ValueError(
                "these pairs were chosen by hand or by score, and how likely each was to be chosen "
                "is not known: they repair the data (`missing.complete`) and measure nothing. "
                "Judge the sheet of `missing.review`, whose order is random."
            )
        share, left = float(self.answers.mean()), 1.0 - self.rows.size / self.asked
        if left <= 0:
            return share, share, share
        low, high = wilson(share, self.rows.size / left, z_quantile(confidence))
        return share, float(low), float(high)


@named_options
def review(findings: Findings, *, texts: Sequence[str] | None = None, seed: int = 0) -> Review:
    """Turn findings into questions to people, in random order, without their probabilities.

    Parameters
    ----------
    findings : Findings
        Of any kind; `findings.first(500)` asks less.
    texts : sequence of n str, optional
        What a person reads to judge a row.
    seed : int, default 0
        Of the order.

    Returns
    -------
    Review

    Raises
    ------
    ValueError
        If there is not one text per row, or nothing to ask.

    Examples
    --------
    >>> from unmask import missing
    >>> asked = review(missing.find([[0.9, 0.5]], [[0, 0]], [0.5, 0.5]), texts=["boil an egg"])
    >>> {question.text for question in asked.sheet.questions}
    {'boil an egg'}
    """
    if not len(findings):
        raise ValueError("there is no finding to review.")
    if texts is not None and len(texts) != findings.shape[0]:
        raise ValueError(f"{len(texts)} texts for {findings.shape[0]} rows; give one per row.")
    order = np.random.default_rng(seed).permutation(len(findings))
    rows, labels = findings.rows[order], findings.labels[order]
    questions = tuple(
        Question(row, label, findings.row_name(row), "" if texts is None else str(texts[row]))
        for row, label in zip(rows.tolist(), labels.tolist(), strict=True)
    )
    names = tuple(findings.label_name(label) for label in range(findings.shape[1]))
    about = json.dumps([FORMAT, findings.kind, findings.shape, rows.tolist(), labels.tolist()])
    key = hashlib.sha256(about.encode()).hexdigest()[:16]
    sheet = Sheet(key, "pairs", questions, names)
    return Review(sheet, findings.probability[order], findings.shape, findings.kind)


def read_review(path: PathLike) -> Review:
    """Read the review that `Review.write` kept.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    Review

    Raises
    ------
    ValueError
        If the file holds something else.

    Examples
    --------
    >>> import tempfile
    >>> from unmask import missing
    >>> path = tempfile.mkdtemp() + "/review.json"
    >>> missing.review(missing.find([[0.9, 0.5]], [[0, 0]], [0.5, 0.5])).write(path)
    >>> len(read_review(path).sheet.questions)
    2
    """
    stored: Mapping[str, Any] | Any = read_json(path, contents(path))
    if not isinstance(stored, dict) or stored.get("format") != FORMAT:
        raise ValueError(f"{path} holds no review of findings; `unmask missing` writes one.")
    if stored.get("version") != VERSION:
        raise ValueError(f"{path} is a review of another version than {VERSION}.")
    try:
        sheet = Sheet.from_dict(stored["sheet"])
        n, width = stored["shape"]
        chances = np.array(stored["probability"], dtype=float)
        return Review(sheet, chances, (int(n), int(width)), str(stored["kind"]))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{path} is a damaged review: {str(error).rstrip('.')}.") from None
