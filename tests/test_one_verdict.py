"""The same data, predictions and propensities have one verdict, whoever is asked."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from tests.helpers.command import run
from unmask import (
    TopK,
    compare,
    data,
    diagnose,
    evaluate,
    linear,
    missing,
    predictions,
    propensity,
    thresholds,
    tune,
)
from unmask.metrics.claims import Run
from unmask.metrics.evaluation import judge_propensities
from unmask.tuning import tune_tree

N, L = 1200, 12
SEEN = 0.7
CASES = {
    "P@1 above 1": ("constant:0.3", "refuted", "do not hold: P@1 comes to "),
    "nothing": (f"constant:{SEEN}", "not-refuted", "Nothing in this run contradicts the same "),
    "a formula": ("jain:0.55,1.5", "not-refuted", "Nothing in this run contradicts Jain's "),
}
TRUE = data.synthetic.planted(N, n_features=60, n_labels=L, seed=3)
OBSERVED = data.hide(TRUE.labels, propensity.constant(L, SEEN), seed=4)
SCORES = np.random.default_rng(5).random((N, L)) * 0.3 + 0.6 * TRUE.labels.toarray()
ESTIMATORS = ["vanilla", "unbiased", "deconvolved"]


def labels_of(case: str) -> sp.csr_array:
    """Return labels that lost three in ten, or what the formula says, of the same true ones."""
    if case != "a formula":
        return OBSERVED
    return data.hide(TRUE.labels, propensity.jain(TRUE.labels), seed=4)


def stated(case: str) -> tuple[sp.csr_array, Any]:
    labels = labels_of(case)
    return labels, propensity.from_spec(CASES[case][0], labels)


@pytest.mark.parametrize("case", CASES)
def test_every_function_gives_the_same_verdict(case: str) -> None:
    """Of the same predictions to the letter; `tune` makes its own, of a symptom of its own size."""
    (labels, p), (_, standing, words) = stated(case), CASES[case]
    top = TopK.from_scores(SCORES, 5)
    systems = {"a": top, "b": TopK.from_scores(SCORES, 5)}
    runs = {
        "judge": judge_propensities(top, labels, p),
        "evaluate": evaluate(top, labels, p, estimators=ESTIMATORS).run,
        "compare": compare(systems, labels, p, estimators=ESTIMATORS).run,
        "thresholds": thresholds.fit(SCORES, labels, p).run,
        "missing": missing.find(SCORES, labels, p).run,
        "suspicious": missing.suspicious(SCORES, labels, p).run,
    }
    for name, judged in runs.items():
        assert judged is not None, name
        assert judged.standing == standing, name
        assert judged.sentence == runs["judge"].sentence, name
        assert words in judged.sentence, name
        assert Run.from_dict(judged.to_dict()) == judged, name
    diagnosis = diagnose(labels, p, predictions=top)
    assert diagnosis.run.standing == standing
    assert diagnosis.verdict == diagnosis.run.sentence
    if standing == "not-refuted":
        assert diagnosis.verdict == runs["judge"].sentence
    asked: dict[str, Any] = {"costs": [1.0], "refit": False}
    for tuned in (
        tune(TRUE.features, labels, p, "P@1", losses=["logistic"], **asked),
        tune_tree(TRUE.features, labels, p, "P@1", losses=["logistic"], **asked),
    ):
        assert tuned.run is not None
        assert tuned.run.standing == standing
        assert tuned.run.source == runs["judge"].source


@pytest.mark.parametrize("case", CASES)
def test_every_command_prints_it_once_and_stores_it_as_run(case: str, tmp_path: Path) -> None:
    (labels, _), (spec, standing, words) = stated(case), CASES[case]
    rows = tmp_path / "rows.txt"
    data.write(rows, replace(TRUE, labels=labels))
    predictions.write(tmp_path / "scores.txt", TopK.from_scores(SCORES, L))
    model, _ = linear.train(TRUE.features, TRUE.labels, linear.Recipe("logistic"))
    linear.save(tmp_path / "model", model)
    p = ("--propensity", spec)
    files = ("--labels", rows, "--predictions", tmp_path / "scores.txt", "--train", rows)
    found, cut = tmp_path / "found.csv", tmp_path / "cut.json"
    commands: dict[str, tuple[Any, ...]] = {
        "evaluate": ("evaluate", *files, *p, "--estimators", ",".join(ESTIMATORS)),
        "diagnose": ("diagnose", rows, *p, "--predictions", tmp_path / "scores.txt"),
        "threshold": ("threshold", *files, *p, "-o", cut),
        "missing": ("missing", tmp_path / "model", rows, *p, "--rounds", 0, "-o", found),
        "tune": ("train", rows, "-o", tmp_path / "tuned", *p, "--tune", "P@1"),
    }
    for name, command in commands.items():
        result = run(*command, "--json", "-q")
        assert result.returncode == 0, (name, result.stderr)
        judged = json.loads(result.stdout)["run"]
        assert judged["standing"] == standing, name
        if standing == "not-refuted":
            assert judged["text"].startswith(words), name
        else:
            assert words.partition(":")[0] in judged["text"], name
        if name in ("diagnose", "threshold", "missing"):
            shown = " ".join(run(*command, "-q").stdout.split())
            assert shown.count("verdict") == 1, name
    assert thresholds.read(cut).run is not None


def test_without_propensities_the_verdict_is_that_of_recorded_labels() -> None:
    top = TopK.from_scores(SCORES, 5)
    for judged in (
        judge_propensities(top, OBSERVED, None),
        evaluate(top, OBSERVED).run,
        thresholds.fit(SCORES, OBSERVED).run,
        tune(TRUE.features, OBSERVED, metric="P@1", costs=[1.0], losses=["logistic"]).run,
    ):
        assert judged is not None
        assert judged.standing == "recorded"
        assert judged.sentence.startswith("Nobody said that labels are complete")
    complete = thresholds.fit(SCORES, OBSERVED, np.ones(L)).run
    assert complete is not None
    assert complete.standing == "complete"
