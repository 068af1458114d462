"""Pairs of incomplete and complete labels that people really left: what is in a folder of each.

A folder holds `train` and `test` with features and the *observed* labels, `truth_train` and
`truth_test` with the true labels of the same rows, and `p_true.txt`, the share of the true labels
that was observed, label by label. Some have the same rows at a date in between (`later`), some what
other people said of them (`others`). Two have labels alone, and serve for diagnosis only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from unmask import data, propensity
from unmask._typing import Floats
from unmask.propensity import MaskModel
from unmask_studies import models
from unmask_studies.runs import DataSets

INSIDE = "truth"
"""The folder of the pairs, in a folder with other data sets."""


@dataclass(frozen=True)
class About:
    """What a pair is, and which files beside the two label sets it has.

    Parameters
    ----------
    title : str
    masks : str
        What hid its labels, and what to do with such data: a paragraph of the page.
    observed, truth : str
        Files with the observed and the true labels, `{part}` being train or test.
    later : str, optional
        Files of the same rows at a later date.
    others : tuple of str, default ()
        Files of what other people said, independently.
    others_count_truth : bool, default False
        Whether the truth is what these others said, so that they tell how complete it is itself.
    raw : str, optional
        Files of the observed labels with those that are wrong, which `observed` leaves out.
    features : bool, default True
        Whether there is anything to train on.
    """

    title: str
    masks: str
    observed: str = "{part}"
    truth: str = "truth_{part}"
    later: str | None = None
    others: tuple[str, ...] = ()
    others_count_truth: bool = False
    raw: str | None = None
    features: bool = True


PAIRS = {
    "mdi-icons-2018-2023": About(
        "icon categories",
        "Volunteers filed icons under categories, and filed more of them five years later. Masks "
        "of a row are nearly independent, and propensities are moderate: the assumptions hold. "
        "State propensities from the later snapshot, or audit; Jain's are far too low.",
        later="observed_v5_{part}",
    ),
    "docred-audit": About(
        "relations in texts",
        "Annotators were shown what a machine proposed and missed three quarters of the relations. "
        "Masks are nearly independent, but p is low and the truth itself was found by two audits "
        "that agree in two thirds. Audit rows; recapture from the two audits tells how far the "
        "truth can be trusted.",
        others=("audit_scratch_{part}", "audit_redocred_{part}"),
        others_count_truth=True,
        raw="original_raw_{part}",
    ),
    "coco80-captions": About(
        "objects in photographs",
        "Five people each described a photograph; what one of them names is observed. They name "
        "what is salient, so the same objects are named by all, and what a model predicts best is "
        "named most. No propensity per label describes that: recapture makes labels look complete, "
        "P@1 exceeds 1. Only an audit gives the number.",
        others=tuple(f"caption{i}_{{part}}" for i in (2, 3, 4, 5)),
        raw="mentioned_raw1_{part}",
    ),
    "go-human-2014-2026": About(
        "functions of human genes",
        "Gene annotations grow with research, and research goes where it has been: whole genes are "
        "studied or not, and a term brings all terms above it. Labels of a row go missing "
        "together. Measure by an audit (or a later snapshot of some genes); mask models help "
        "little, for closure and effort come together.",
        later="observed2020_{part}",
    ),
    "trec-covid-rounds": About(
        "topics of articles",
        "Documents were judged because search systems found them; later rounds found more. Masks "
        "come from systems, not from people. Labels alone: nothing is trained here.",
        observed="observed_round1", truth="truth_round5", later="observed_round2", features=False,
    ),
    "imagenet-real": About(
        "classes of photographs",
        "Exactly one class of each photograph was recorded, whatever else it shows: labels of a "
        "row compete, which no propensity can say. Labels alone: the diagnosis must object.",
        features=False,
    ),
}  # fmt: skip
"""By the name of the folder."""
PLANTED = About(
    "built-in data", "Planted rows, with row effort ρ = 0.5.", others=("second person",)
)


@dataclass(frozen=True)
class Pair:
    """A pair in memory.

    Parameters
    ----------
    about : About
    split : Split
        Features and observed labels; without features, matrices of no columns.
    true_train, true_test : csr_array
        True labels of the same rows.
    p : (L,) floats in (0, 1]
        The share of true labels that was observed.
    later, others : csr_arrays
        Of the training rows: at a later date, and by other people.
    raw : csr_array, optional
        Of the test rows: the observed labels with wrong ones among them.
    """

    about: About
    split: models.Split
    true_train: sp.csr_array
    true_test: sp.csr_array
    p: Floats
    later: sp.csr_array | None = None
    others: tuple[sp.csr_array, ...] = ()
    raw: sp.csr_array | None = None

    @property
    def observed(self) -> sp.csr_array:
        """The observed labels of the test rows."""
        return self.split.test_labels


def folders_of(sets: DataSets | None) -> list[Path]:
    """The folders of all pairs that there are, beside other data sets or among themselves."""
    if sets is None:
        return []
    own = [sets.path(name) for name in PAIRS if name in sets.names]
    inner = sets.path(INSIDE) if INSIDE in sets.names else None
    return own or [inner / name for name in PAIRS if inner and (inner / name).is_dir()]


@lru_cache(maxsize=1)
def pair_of(folder: Path | None, n: int = 900) -> Pair:
    """The pair in a folder, or (without one) one of n planted rows."""
    return _planted(n) if folder is None else _read(folder, PAIRS[folder.name])


def _read(folder: Path, about: About) -> Pair:
    def labels(name: str, part: str) -> sp.csr_array:
        path = folder / f"{name.format(part=part)}.txt.gz"
        return data.read(path, names=False).labels

    parts = ("train", "test") if "{part}" in about.truth else ("",)
    observed = [labels(about.observed, part) for part in parts]
    true = [labels(about.truth, part) for part in parts]
    if about.features:
        split = models.split_of(folder)
    else:
        nothing = [sp.csr_array((each.shape[0], 0)) for each in observed]
        split = models.Split(nothing[0], observed[0], nothing[-1], observed[-1])
    p = folder / "p_true.txt"
    rates = np.loadtxt(p) if p.exists() else _rates(observed, true)
    later = labels(about.later, parts[0]) if about.later else None
    others = tuple(labels(name, parts[0]) for name in about.others)
    raw = labels(about.raw, parts[-1]) if about.raw else None
    return Pair(about, split, true[0], true[-1], np.clip(rates, 1e-3, 1.0), later, others, raw)


def _rates(observed: list[sp.csr_array], true: list[sp.csr_array]) -> Floats:
    """The share of true labels that was observed, drawn towards the mean by two labels."""
    kept, present = (
        np.sum([np.bincount(y.indices, minlength=y.shape[1]) for y in each], axis=0)
        for each in ([a.multiply(b).tocsr() for a, b in zip(observed, true, strict=True)], true)
    )
    rates: Floats = (kept + 2 * kept.sum() / present.sum()) / (present + 2)
    return rates


def _planted(n: int) -> Pair:
    rows = data.synthetic.planted(n, n_features=200, n_labels=20, seed=0)
    p = np.asarray(propensity.inverse_linear(rows.labels, head=1.3, tail=4))
    mask = MaskModel(p, row_effort=0.5)
    observed, other = (data.hide(rows.labels, mask, seed=seed) for seed in (1, 2))
    cut = n - n // 3
    features = data.tfidf(rows.features, data.idf(rows.features))
    split = models.Split(features[:cut], observed[:cut], features[cut:], observed[cut:])
    truth: sp.csr_array = rows.labels
    return Pair(PLANTED, split, truth[:cut], truth[cut:], p, None, (sp.csr_array(other[:cut]),))
