"""Every study, at its smallest size, measures the numbers that are stored beside this test.

`make golden` measures and stores them anew. Wording is left out: it is tested where it is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest

import unmask_studies
from tests.helpers import golden
from tests.helpers.versions import PINNED
from unmask import TopK
from unmask._io import key_text
from unmask.data.synthetic import planted
from unmask_studies import audit, diagnosis_power, mask_scenarios, runs
from unmask_studies.training.ablations import TRIED
from unmask_studies.training.protocol import METHODS, PROBLEMS, settings_of
from unmask_studies.training.runs import OPTIMIZERS

STORED = golden.file_name("rows", "../studies/tests")
WORDING = {"verdict", "headline"}
DATA = runs.DataSets(
    None,
    frozenset(
        (
            "bibtex-xc", "cooking-stackexchange", "debtags-bookworm", "delicious", "finna-yso-en",
            "jester5k",
        )
    ),
)  # fmt: skip
"""Data sets by name: units name them, nothing is read."""


def measured(name: str, units: Iterable[runs.Unit]) -> Iterator[runs.Row]:
    """The rows of units, without wording."""
    study = unmask_studies.STUDIES[name]
    for unit in units:
        for row in study.measure(**unit):
            yield {key: value for key, value in row.items() if key not in WORDING}


def compare(name: str, text: str) -> None:
    """Numbers that a fit ends with depend on scipy a little more than others."""
    loose = {} if PINNED else {"rel": 2e-4, "abs": 5e-5}
    golden.check(STORED, text, name, **loose)


@pytest.mark.parametrize("name", [name for name in unmask_studies.STUDIES if name != "training"])
def test_measuring_gives_the_stored_numbers(name: str) -> None:
    if name == "tree" and not PINNED:
        pytest.skip("ties of label trees fall as rounding has it: see constraints.txt")
    units = unmask_studies.STUDIES[name].units("tiny", 0, None)
    compare(name, golden.table(measured(name, units)))


def training_units(optimizer: str) -> Iterator[runs.Unit]:
    """The optimiser on every loss, with one setting after the other, or all that it can do."""
    shared: dict[str, Any] = {"folder": None, "n": 200, "seed": 0, "repetition": 0}
    runs_of: dict[str, list[tuple[str, str]]] = {
        "converged": [*settings(), *(("pal-n-cce", tried) for tried in TRIED if tried != FIRST)],
        "adam": settings(),
        "related work": [("related", method) for method in METHODS],
        "adam, literal rate": [("ova-bce", "unbiased")],
    }
    for problem, setting in runs_of[optimizer]:
        run = {"optimizer": optimizer, "problem": problem, "setting": setting, "l2": 1e-3}
        yield shared | run


FIRST = "posterior of a first model"
"""Needs more rows than are quick."""


def settings() -> list[tuple[str, str]]:
    """The settings of a loss by turns, so that all are used."""
    return [
        (name, setting.series)
        for number, (name, problem) in enumerate(PROBLEMS.items())
        for setting in settings_of(problem)[number % 3 :: 3]
    ]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training_gives_the_stored_numbers(optimizer: str) -> None:
    rows = measured("training", training_units(optimizer))
    name = f"training-{optimizer.replace(',', '').replace(' ', '-')}"
    compare(name, golden.table(by_part(row) for row in rows))


def by_part(row: runs.Row) -> runs.Row:
    """The measures of a part of the data with the same labels together, by their sums."""
    short: runs.Row = {}
    for key, value in row.items():
        part, slash, measure = key.rpartition("/")
        if slash:
            short.setdefault("/".join(part.split("/")[:2]), {})[measure] = value
        else:
            short[key] = value
    return short


def test_the_work_of_every_size_is_the_stored_one() -> None:
    lines = []
    for name, study in unmask_studies.STUDIES.items():
        for size in runs.SIZES:
            for data in (None, DATA):
                units = study.units(size, 7, data)
                texts = [key_text(runs._plain(unit)) for unit in units]
                marks = crc32("\n".join(texts).encode())
                where = "data sets" if data else "no data"
                lines += [f"{name} {size}, {where}: {len(units)} units, {marks}", texts[-1]]
    golden.check(STORED, "\n".join(lines) + "\n", "units")


def test_masks_hide_the_stored_labels() -> None:
    """Of every kind that the studies know, also of those that only larger sizes use."""
    true = planted(120, n_features=40, n_labels=30, seed=2).labels
    top = TopK.from_scores(np.random.default_rng(1).random(true.shape), audit.WIDTH)
    p = np.linspace(0.3, 0.9, 30)
    about = audit.Problem("planted", true, top, p)
    hidden = {kind: audit.hidden(about, kind, 5) for kind in audit.MASKS}
    lines = [{"mask": kind, "rows": m.indptr, "labels": m.indices} for kind, m in hidden.items()]
    for case, (make, strengths, _, _) in diagnosis_power.VIOLATIONS.items():
        for strength in strengths:
            seen, stated = make(true, p, strength, np.random.default_rng(3))
            lines.append({"mask": f"{case} {strength}", "rows": seen.indptr,
                          "labels": seen.indices, "stated": stated})  # fmt: skip
    scores = np.random.default_rng(6).normal(size=true.nnz)
    parents = mask_scenarios.parents_of(true)
    for name, scenario in mask_scenarios.SCENARIOS.items():
        rng = np.random.default_rng(7)
        left = scenario(mask_scenarios.Setting(true, p / 2, scores, parents, rng))
        lines.append({"mask": name, "rows": left.observed.indptr, "labels": left.observed.indices,
                      "stated": left.stated, "of": left.rows})  # fmt: skip
    golden.check(golden.file_name("masks-hide", "../studies/tests"), golden.table(lines))


def test_a_study_without_its_data_says_where_they_belong(tmp_path: Path) -> None:
    empty = runs.DataSets.inside(tmp_path / "absent")
    assert empty == runs.DataSets(tmp_path / "absent", frozenset())
    assert empty.path("set") == tmp_path / "absent" / "set"
    assert runs.DataSets(None, frozenset()).path("set") == Path("set")
