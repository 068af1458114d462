"""Estimated propensities on the command line: from an audit to intervals and orders."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.command import run
from unmask import data, predictions, propensity
from unmask.diagnosis import findings
from unmask.diagnosis.findings import FindingKind
from unmask.predictions import TopK


def words(text: str) -> str:
    """Without line breaks, wherever the terminal put them."""
    return " ".join(text.split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Training rows, 150 audited rows, test rows and two systems' predictions."""
    folder = tmp_path_factory.mktemp("audit")
    rows = data.synthetic.planted(1400, n_features=20, n_labels=30, seed=0)
    seen = data.hide(rows.labels, propensity.jain(rows.labels, a=0.9, b=6.0), seed=1)
    parts = {"train": slice(0, 800), "audited": slice(800, 950), "test": slice(950, 1400)}
    for name, part in parts.items():
        data.write(folder / f"{name}.txt", replace(rows.take(part), labels=seen[part]))
    data.write(folder / "complete.txt", rows.take(parts["audited"]))
    second = data.hide(rows.labels, np.full(30, 0.5), seed=2)[parts["audited"]]
    data.write(folder / "second.txt", replace(rows.take(parts["audited"]), labels=second))
    truth = rows.labels[parts["test"]].toarray()
    for name, strength in (("ours", 2.2), ("theirs", 1.6)):
        noise = np.random.default_rng(len(name)).normal(size=truth.shape)
        top = TopK.from_scores((noise + strength * truth).astype(np.float32), 5)
        predictions.write(folder / f"{name}.txt", top)
    result = run("propensity", folder / "train.txt", "--audit", folder / "audited.txt",
                 folder / "complete.txt", "-o", folder / "estimate.json")  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "true labels audited" in words(result.stdout)
    return folder


def test_an_audit_is_that_of_the_library(folder: Path) -> None:
    written = propensity.read(folder / "estimate.json")
    train, seen, complete = (
        data.read(folder / f"{name}.txt").labels for name in ("train", "audited", "complete")
    )
    counts = np.bincount(train.indices, minlength=30)
    expected = propensity.audit(seen, complete, counts=counts, n=800)
    np.testing.assert_array_equal(written.value, expected.value)
    np.testing.assert_array_equal(written.draw(seed=3, size=2), expected.draw(seed=3, size=2))


def test_two_annotations(folder: Path) -> None:
    found = run("propensity", folder / "train.txt", "--annotations", folder / "audited.txt",
                folder / "second.txt", "--json")  # fmt: skip
    record = json.loads(found.stdout)
    assert record["method"] == "recapture"
    assert len(record["value"]) == len(record["low"]) == 30
    assert "scale" in record["curve"]
    seen, complete = folder / "audited.txt", folder / "complete.txt"
    both = run("propensity", folder / "train.txt", "--annotations", seen, folder / "second.txt",
               "--audit", seen, complete)  # fmt: skip
    assert both.returncode != 0
    assert "not both" in both.stderr


def test_an_estimate_widens_what_evaluate_prints(folder: Path) -> None:
    given = ["evaluate", "--labels", folder / "test.txt", "--predictions", folder / "ours.txt",
             "--metrics", "P@5", "--estimators", "unbiased", "--propensity"]  # fmt: skip
    p = propensity.read(folder / "estimate.json")
    propensity.write(folder / "certain.txt", p.value)
    wide, plain = (
        json.loads(run(*given, folder / name, "--json").stdout)["estimates"][0]
        for name in ("estimate.json", "certain.txt")
    )
    assert wide["value"] == plain["value"]
    assert wide["low"] < plain["low"]
    assert wide["details"]["rows_only"] == [plain["low"], plain["high"]]
    told = run(*given, folder / "estimate.json").stdout
    assert "Intervals carry what is not known of the propensities" in words(told)


def test_the_order_of_systems_is_tried_under_other_propensities(folder: Path) -> None:
    given = ["evaluate", "--labels", folder / "test.txt", "--predictions", folder / "ours.txt",
             "--compare", folder / "theirs.txt", "--train", folder / "train.txt", "--metrics",
             "P@1,P@5", "--estimators", "vanilla,unbiased", "--sensitivity", "jain"]  # fmt: skip
    record = json.loads(run(*given, "--json", "--html", folder / "page.html").stdout)
    (order,) = record["rankings"]
    assert (order["metric"], order["estimator"], len(order["rows"])) == ("P@5", "unbiased", 9)
    said = words(run(*given).stdout)
    assert "excludes 0 under 7 of 7. The data refute the other 2." in said
    assert "survive other propensities" in (folder / "page.html").read_text()


def test_diagnose_opens_with_its_verdict(folder: Path) -> None:
    told = run("diagnose", folder / "test.txt", "--propensity", folder / "estimate.json").stdout
    assert "450 rows, 30 labels" in words(told)
    title = findings.FINDINGS[FindingKind.STANDARD_ERRORS].title
    assert told.index("verdict") < told.index(title)


def test_scores_of_audited_rows_need_an_audit(folder: Path) -> None:
    asked = ("diagnose", folder / "test.txt", "--scores", folder / "test.txt")
    refused = run(*asked)
    assert refused.returncode == 2
    assert "--scores are predictions of audited rows; give --audit" in words(refused.stderr)
