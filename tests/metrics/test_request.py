"""The door of evaluations: options by name, none without effect, rows by id, labels as complete."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import unmask
from tests.helpers.command import run
from tests.helpers.evaluations import rows_of
from unmask import LabelSets, TopK, audit, compare, data, evaluate, metrics
from unmask.metrics.evaluation import Evaluator
from unmask.metrics.request import DEFAULTS, NEEDS, Request
from unmask.torch import RankingMetrics, ScoreMetrics, SetMetrics
from unmask.torch.trainers import compute_metrics

TOP, LABELS, P = rows_of(900)
PLAN = audit.plan(TOP, LABELS, budget=20, metrics=["R@3"], expect=False)
JUDGED = audit.from_rows(PLAN, LABELS[PLAN.rows])
FORWARDS = {"audit.plan", "data.read", "diagnosis.diagnose", "propensity.snapshots"}
"""Functions with `**options`, which refuse a name where they use it."""


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    for room in unmask.__all__:
        module = getattr(unmask, room)
        if isinstance(module, ModuleType):
            for name in getattr(module, "__all__", ()):
                if inspect.isfunction(made := getattr(module, name)):
                    yield f"{room}.{name}", made


def test_a_misspelt_option_is_refused_by_every_public_function() -> None:
    seen = 0
    for name, function in public_functions():
        options = inspect.signature(function).parameters.values()
        if any(each.kind is each.VAR_KEYWORD for each in options):
            assert name in FORWARDS
            continue
        named = [each.name for each in options if each.kind is not each.POSITIONAL_ONLY]
        seen += len(named)
        for each in named:
            with pytest.raises(TypeError):
                function(**{f"{each}x": 1})
    assert seen > 500


def test_the_nearest_name_is_proposed() -> None:
    doors = [each for name, each in public_functions() if name.startswith("metrics.")]
    doors += [Evaluator, RankingMetrics, SetMetrics, ScoreMetrics, compute_metrics]
    assert len(doors) > 15
    for door in doors:
        for name in inspect.signature(door).parameters:
            wrong = f"{name[:-1]}_" if name != "k" else "kk"
            with pytest.raises(TypeError, match=rf"has no option '{wrong}'; ") as refused:
                door(**{wrong: 1})
            assert f"did you mean {name!r}?" in str(refused.value) or len(name) < 5
    with pytest.raises(TypeError, match=r"evaluate\(\) has no option 'confidnce'; did you mean"):
        evaluate(TOP, LABELS, metrics=["R@3"], audit=JUDGED, confidnce=0.5)  # type: ignore[call-overload]


def test_signatures_and_the_request_have_the_same_defaults() -> None:
    doors = [each for name, each in public_functions() if name.startswith("metrics.")]
    for door in [*doors, Evaluator, RankingMetrics, SetMetrics, ScoreMetrics, compute_metrics]:
        for name, each in inspect.signature(door).parameters.items():
            required = name in ("metrics", "estimators") or each.default is each.empty
            if name in DEFAULTS and not required:
                more = {"replicates": 2000} if door in (compare, metrics.ranking) else {}
                assert each.default == {**DEFAULTS, **more}[name], (door, name)


def test_options_without_effect_are_refused() -> None:
    """Each by itself; with what it needs, it is taken."""
    asked: dict[str, Any] = {"metrics": ["R@3"]}
    estimate = unmask.propensity.audit(LABELS[:30], LABELS[:30])
    cases: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "tau": ({"tau": 0.5}, {"estimators": ["tempered"], "propensity": P}),
        "clip": ({"clip": 4}, {"estimators": ["clipped"], "propensity": P}),
        "fraction": ({"fraction": 0.1}, {"estimators": ["filtered"], "propensity": P}),
        "information": ({"information": np.ones(LABELS.shape[1])}, {}),
        "interval": ({"interval": "bca", "estimators": ["measured"], "audit": JUDGED}, {}),
        "replicates": ({"replicates": 50}, {"interval": "bca"}),
        "draws": ({"draws": 3}, {"propensity": estimate}),
        "covariates": ({"covariates": np.ones(900)}, {"audit": JUDGED}),
    }
    assert cases.keys() == NEEDS.keys()
    for name, (given, more) in cases.items():
        with pytest.raises(ValueError, match=f"^{name} has no effect without .*; leave it out, or"):
            evaluate(TOP, LABELS, **asked, **given)
        if more:
            evaluate(TOP, LABELS, **{**asked, **given, **more})
    for wrong, words in (
        ({"draws": -1}, "draws must be a whole number"),
        ({"audit": JUDGED, "interval": "bogus"}, "unknown interval 'bogus'"),
        ({"audit": JUDGED, "confidence": math.nan}, "confidence must be"),
        ({"audit": JUDGED, "complete": True}, "leave out the audit, or complete=True"),
        ({"groups": ["a"] * 900, "by": "label"}, "groups of rows or of labels"),
        ({"groups": ["a"] * 900, "audit": JUDGED}, "and no audit"),
    ):
        with pytest.raises(ValueError, match=words):
            evaluate(TOP, LABELS, **asked, **wrong)
    alone = compare({"a": TOP, "b": TOP}, LABELS, **asked, audit=JUDGED, estimators=["measured"])
    assert [each.estimator for each in alone["b"]] == ["measured"]
    with pytest.raises(ValueError, match="covariates has no effect without an audit"):
        compare({"a": TOP, "b": TOP}, LABELS, **asked, covariates=np.ones(900))


def test_labels_are_complete_only_if_somebody_says_so() -> None:
    """What is true of `evaluate` is true of every door; the numbers are the same either way."""
    asked: dict[str, Any] = {"metrics": ["R@3"]}
    other = TopK(np.roll(TOP.labels, 1, axis=0), TOP.scores)
    systems = {"other": other, "ours": TOP}
    for declared, level in (({}, "doubtful"), ({"complete": True}, "measured")):
        numbers = [
            evaluate(TOP, LABELS, **asked, **declared),
            Evaluator(**asked, **declared).update(TOP, LABELS).compute(),
            metrics.evaluate_shards([(TOP, LABELS)], **asked, **declared),
            evaluate(TOP, LABELS, **asked, groups=["a"] * 900, **declared)["a"],
        ]
        for table in numbers:
            each = table["R@3", "vanilla"]
            assert each.verdict.level == level
            assert each.value == numbers[0]["R@3", "vanilla"].value
            assert each.interval == numbers[0]["R@3", "vanilla"].interval
        tables = compare(systems, LABELS, **asked, **declared)
        verdict = tables["ours"]["R@3", "vanilla"].verdict
        assert (verdict.level, verdict.details["outcome"]) == (
            (level, "better") if declared else (level, "higher")
        )
        words = tables.headline + str(tables) + tables.title + verdict.sentence
        assert ("better" in words) == bool(declared)
        assert ("ours scores higher than other on recorded labels" in words) != bool(declared)
    recorded = evaluate(TOP, LABELS, **asked)
    assert recorded.headline.startswith("R@3 on recorded labels is ")
    assert recorded["R@3", "vanilla"].verdict.advice == "audit"
    assert "on recorded labels" in str(recorded)
    worse = compare({"ours": TOP, "other": other}, LABELS, **asked)["other"]["R@3", "vanilla"]
    assert worse.verdict.details["outcome"] == "lower"


def test_propensities_and_a_declaration_agree_or_are_refused() -> None:
    ones = np.ones(LABELS.shape[1])
    entries = sp.csr_array(LABELS * ones)
    for p in (None, ones, entries):
        for complete in (False, True):
            each = evaluate(TOP, LABELS, p, metrics=["R@3"], complete=complete)["R@3", "vanilla"]
            assert (each.verdict.level == "measured") == (complete or p is not None)
    for p in (P, sp.csr_array(LABELS * P), unmask.propensity.MaskModel(P)):
        with pytest.raises(ValueError, match="complete=True says that no label is missing"):
            evaluate(TOP, LABELS, p, metrics=["R@3"], complete=True)
    with pytest.raises(ValueError, match="complete=True says"):
        Evaluator(metrics=["R@3"], complete=True).update(
            TOP, LABELS, entry_propensity=sp.csr_array(LABELS * P)
        )


def test_audited_runs_call_recorded_labels_so_and_advise_no_second_audit() -> None:
    table = evaluate(TOP, LABELS, metrics=["R@3"], audit=JUDGED)
    assert table["R@3", "measured"].verdict.reason == "audited"
    verdict = table["R@3", "vanilla"].verdict
    assert (verdict.level, verdict.reason, verdict.advice) == ("doubtful", "recorded-labels", "")
    assert table.headline.startswith("Measured on judged rows")


def test_a_request_is_made_by_hand_as_the_doors_make_it() -> None:
    request = Request(["R@3"], ["unbiased"], confidence=0.9)
    assert request.checked(P) is request
    table = Evaluator.asked(request, P).update(TOP, LABELS).compute()
    expected = evaluate(TOP, LABELS, P, metrics=["R@3"], estimators=["unbiased"], confidence=0.9)
    assert table.to_dicts() == expected.to_dicts()


def test_rows_with_ids_are_not_joined_by_position() -> None:
    """Predictions name their rows, labels do not: refused, unless the names are row numbers."""
    order = np.random.default_rng(0).permutation(900)
    dataset = data.Dataset(None, LABELS)
    value = evaluate(TOP, LABELS, metrics=["R@3"])["R@3", "vanilla"].value
    sets = LabelSets(sp.csr_array(LABELS[order]), ids=[f"d{i}" for i in order])
    named = TopK(TOP.labels[order], TOP.scores[order], [f"d{i}" for i in order])
    for each, metric in ((named, "R@3"), (sets, "micro-F1")):
        with pytest.raises(
            ValueError, match=r"predictions have ids \('d.*labels with ids \(`id`\)"
        ):
            evaluate(each, dataset, metrics=[metric])
    numbered = TopK(TOP.labels[order], TOP.scores[order], [str(i) for i in order])
    assert evaluate(numbered, dataset, metrics=["R@3"])["R@3", "vanilla"].value == value
    ids = data.Dataset(None, LABELS, ids=[f"d{i}" for i in range(900)])
    assert evaluate(named, ids, metrics=["R@3"])["R@3", "vanilla"].value == value
    assert evaluate(TOP, ids, metrics=["R@3"])["R@3", "vanilla"].value == value


def test_the_command_refuses_what_only_position_joins(tmp_path: Path) -> None:
    names = ["law", "art", "tax"]
    top, plain, named = (tmp_path / name for name in ("top.csv", "labels.tsv", "ids.csv"))
    plain.write_text("".join(f"text {name}\t<{name}>\n" for name in names))
    named.write_text("id,label\n" + "".join(f"d{i},<{n}>\n" for i, n in enumerate(names)))
    lines = [f"d{i},<{names[i]}>,0.9\n" for i in (2, 0, 1)]
    top.write_text("id,label,score\n" + "".join(lines))
    shared = ["evaluate", "--predictions", top, "--complete", "--metrics", "P@1", "--json"]
    refused = run(*shared, "--labels", plain)
    assert refused.returncode == 2
    assert "predictions have ids" in (words := " ".join(refused.stderr.split()))
    assert "--table id=" in words
    made = run(*shared, "--labels", named)
    assert made.returncode == 0
    record = json.loads(made.stdout)
    assert record["headline"].startswith("Labels are declared complete: P@1 is 1.000")
    for more in (["--propensity", "constant:0.5"], ["--sensitivity", "powers"]):
        assert run(*shared, "--labels", named, *more).returncode == 2
