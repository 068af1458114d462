"""How far annotators agree: percent agreement, Cohen's and Fleiss' kappa.

Kappa is (a − e) / (1 − e): the agreement a, beyond the agreement e of annotators who say yes as
often, but at random. Cohen's e multiplies the two annotators' own shares of yes; Fleiss' squares
the common one, and an item may have been judged by any number of people from two up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class PairAgreement:
    """Two annotators on the items that both decided.

    Parameters
    ----------
    annotators : (str, str)
    items : int
        Items on which both said yes or no.
    percent : float
        The share of items with the same answer.
    positive : float
        2 both-yes / (yes of the one + yes of the other): agreement where yes is rare.
    kappa : float
        Cohen's; nan if both gave the same answer throughout.

    Examples
    --------
    >>> both = pair_agreement(("ann", "ben"), [[20, 5], [10, 15]])
    >>> both.items, both.percent, round(both.positive, 3), round(both.kappa, 3)
    (50, 0.7, 0.667, 0.4)
    """

    annotators: tuple[str, str]
    items: int
    percent: float
    positive: float
    kappa: float


@dataclass(frozen=True)
class Agreement:
    """What several annotators agree on.

    Parameters
    ----------
    pairs : tuple of PairAgreement
        Every two annotators with items in common.
    fleiss : float
        Fleiss' kappa over all items with at least two answers; nan if there are none.
    items : int
        How many such items there are.

    Examples
    --------
    >>> from unmask.audit import Answer, Answers, Question, Sheet
    >>> questions = (Question(3, 0, "doc 3"), Question(5, 1, "doc 5"))
    >>> asked = Sheet("k", "pairs", questions, ("cat", "dog"))
    >>> ann, ben = {0: Answer("yes"), 1: Answer("no")}, {0: Answer("yes"), 1: Answer("yes")}
    >>> agreement = Answers(asked, {"ann": ann, "ben": ben}).agreement()
    >>> agreement.items, agreement.pairs[0].percent, round(agreement.fleiss, 2)
    (2, 0.5, -0.33)
    """

    pairs: tuple[PairAgreement, ...]
    fleiss: float
    items: int


def pair_agreement(annotators: tuple[str, str], counts: ArrayLike) -> PairAgreement:
    """Agreement of two annotators from their table of answers.

    Parameters
    ----------
    annotators : (str, str)
    counts : numbers of shape (2, 2)
        Items by the answer of the first (no, yes) and of the second.

    Returns
    -------
    PairAgreement

    Examples
    --------
    >>> round(pair_agreement(("a", "b"), [[20, 5], [10, 15]]).kappa, 3)
    0.4
    """
    table = np.asarray(counts, dtype=np.float64)
    total = float(table.sum())
    same = float(np.trace(table)) / total if total else np.nan
    chance = float(table.sum(0) @ table.sum(1)) / total**2 if total else np.nan
    yes = float(table[1].sum() + table[:, 1].sum())
    return PairAgreement(
        annotators,
        int(total),
        same,
        float(2 * table[1, 1] / yes) if yes else np.nan,
        _kappa(same, chance),
    )


def fleiss_kappa(counts: ArrayLike) -> float:
    """Fleiss' kappa.

    Parameters
    ----------
    counts : numbers of shape (items, categories)
        How many people put an item into a category; items with fewer than two do not count.

    Returns
    -------
    float
        nan if no item has two answers, or all answers are the same.

    Examples
    --------
    >>> round(fleiss_kappa([[2, 0], [0, 2], [1, 1]]), 3)
    0.333
    """
    table = np.atleast_2d(np.asarray(counts, dtype=np.float64))
    people = table.sum(1)
    table, people = table[people >= 2], people[people >= 2]
    if people.size == 0:
        return float("nan")
    same = float(((table * (table - 1)).sum(1) / (people * (people - 1))).mean())
    shares = table.sum(0) / people.sum()
    return _kappa(same, float((shares**2).sum()))


def _kappa(same: float, chance: float) -> float:
    return float((same - chance) / (1 - chance)) if chance < 1 else float("nan")


def agreement(answers: Mapping[str, Mapping[int, bool]]) -> Agreement:
    """Agreement of annotators who decided items.

    Parameters
    ----------
    answers : mapping of annotator to mapping of item to bool
        What each of them decided.

    Returns
    -------
    Agreement

    Examples
    --------
    >>> both = agreement({"ann": {1: True, 2: False, 3: True}, "bob": {1: True, 2: True}})
    >>> both.items, both.pairs[0].percent
    (2, 0.5)
    """
    names = list(answers)
    pairs = []
    for position, first in enumerate(names):
        for second in names[position + 1 :]:
            common = answers[first].keys() & answers[second].keys()
            table = np.zeros((2, 2))
            for item in common:
                table[int(answers[first][item]), int(answers[second][item])] += 1
            if common:
                pairs.append(pair_agreement((first, second), table))
    counts: dict[int, list[int]] = {}
    for decided in answers.values():
        for item, yes in decided.items():
            counts.setdefault(item, [0, 0])[int(yes)] += 1
    several = [each for each in counts.values() if sum(each) >= 2]
    kappa = fleiss_kappa(several) if several else float("nan")
    return Agreement(tuple(pairs), kappa, len(several))
