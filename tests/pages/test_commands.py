"""Records of commands have the stated form, and every number of theirs stands on the page."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.command import run
from unmask import TopK, audit, data, pages, predictions

N, L = 240, 12
NUMBER, TEXT, FLAG = (float, int, type(None)), str, bool
VERDICT = dict.fromkeys(("level", "reason", "advice", "condition", "outcome", "why", "text"), TEXT)
ESTIMATE = {
    "metric": TEXT, "estimator": TEXT, "value": NUMBER, "low": NUMBER, "high": NUMBER,
    "standard_error": NUMBER, "effective_sample_size": NUMBER, "largest_contribution": NUMBER,
    "rows": int, "verdict": VERDICT, "details": {},
}  # fmt: skip
SCHEMAS: dict[str, dict[str, Any]] = {
    "evaluation": {
        "kind": TEXT, "source": TEXT, "headline": TEXT, "run": {}, "estimates": [ESTIMATE],
        "labels": {"rows": int, "labels": int, "entries": int, "seen": NUMBER},
    },
    "diagnosis": {
        "kind": TEXT, "source": TEXT, "severity": TEXT,
        "findings": [dict.fromkeys(("kind", "severity", "title", "evidence", "advice"), TEXT)],
        "tests": [{"name": TEXT, "effect": TEXT, "p_value": NUMBER, "adjusted": NUMBER}],
    },
}  # fmt: skip
"""What a record has at least, by its kind; a list says what each of its entries has."""


def check(value: Any, schema: Any, place: str) -> None:
    """Hold a value to a schema: mappings have the keys, lists the entries, leaves the types."""
    if isinstance(schema, Mapping):
        assert isinstance(value, Mapping), place
        for key, inner in schema.items():
            assert key in value, f"{place}.{key}"
            check(value[key], inner, f"{place}.{key}")
    elif isinstance(schema, list):
        assert isinstance(value, list), place
        assert value, place
        for number, each in enumerate(value):
            check(each, schema[0], f"{place}[{number}]")
    else:
        assert isinstance(value, schema), f"{place}: {value!r}"


STATED = ("--labels", "observed.txt", "--propensity", "constant:0.65", "--html", "page.html")
TOP = ("evaluate", *STATED, "--predictions", "ours.txt", "--metrics", "P@3,R@5")
SCORES = ("evaluate", *STATED, "--predictions", "ours.npy", "--metrics")
COMMANDS = {
    "evaluation": (
        (*TOP, "--sensitivity", "powers"),
        {"Estimates", "Sensitivity to the propensities", "The labels"},
    ),
    "comparison": (
        (*TOP, "--compare", "theirs.txt", "--estimators", "vanilla,unbiased"),
        {"Compared with ours.txt"},
    ),
    "groups": (
        (*SCORES, "micro-F1,macro-F1", "--threshold", "0.5", "--groups", "groups", "--per-label",
         "labels.csv"),
        {"By group", "Labels by name"},
    ),
    "curves": ((*SCORES, "mAP,Fmax"), {"Over thresholds"}),
    "diagnosis": (
        ("diagnose", "observed.txt", "--audit", "observed.txt", "truth.txt", "--html", "page.html"),
        {"Findings", "All tests"},
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Labels, predictions of two systems, scores and groups, as files."""
    place = tmp_path_factory.mktemp("commands")
    rng = np.random.default_rng(5)
    true = (rng.random((N, L)) < np.linspace(0.5, 0.05, L)).astype(int)
    names = tuple(f"topic {number}" for number in range(L))
    observed = data.hide(true, np.linspace(0.9, 0.4, L), seed=1)
    for name, labels in (("observed", observed), ("truth", true)):
        data.write(place / f"{name}.txt", data.Dataset(None, labels, label_names=names))
    for name, weight in (("ours", 0.5), ("theirs", 0.3)):
        scores = np.round(weight * true + 0.45 * rng.random((N, L)), 4)
        np.save(place / f"{name}.npy", scores)
        predictions.write(place / f"{name}.txt", TopK.from_scores(scores, 5))
    (place / "groups").write_text("old\n" * 100 + "new\n" * 140)
    return place


@pytest.fixture
def written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[pages.Page]:
    """Keep the pages that commands make in that folder."""
    monkeypatch.chdir(folder)
    made: list[pages.Page] = []
    write = pages.write

    def kept(page: pages.Page, path: Path) -> Path:
        made.append(page)
        return write(page, path)

    monkeypatch.setattr(pages, "write", kept)
    return made


def shown(page: pages.Page) -> list[float]:
    """List every number in the tables of a page."""
    cells = [
        cell
        for section in page.sections
        for part in section.parts if isinstance(part, pages.Table)
        for row in part.rows for cell in row
    ]  # fmt: skip
    values = [cell.value if isinstance(cell, pages.Estimate) else cell for cell in cells]
    return [float(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool)]


def test_records_have_their_form_and_pages_show_their_numbers(written: list[pages.Page]) -> None:
    for name, (command, titles) in COMMANDS.items():
        result = run(*command, "--json", "--quiet")
        assert result.returncode == 0, f"{name}: {result.stderr}"
        record = json.loads(result.stdout)
        check(record, SCHEMAS[record["kind"]], name)
        page = written[-1]
        found = {section.title for section in page.sections}
        assert titles <= found, f"{name}: {sorted(titles - found)} of {sorted(found)}"
        numbers = shown(page)
        for row in record.get("estimates", []):
            if row["value"] is not None and math.isfinite(row["value"]):
                assert row["value"] in numbers, f"{name}: {row['metric']} {row['estimator']}"
        html = Path("page.html").read_text(encoding="utf-8")
        assert ">nan<" not in html.lower(), name
        assert pages.page([record]).title, name


@pytest.mark.parametrize(("kind", "model"), [("powers", "γ = 0.5"), ("jain", "a = 0.6, b = 2.6")])
def test_the_command_varies_propensities(kind: str, model: str, written: list[pages.Page]) -> None:
    asked = (*TOP, "--train", "observed.txt", "--estimators", "vanilla,unbiased", "--sensitivity")
    record = json.loads(run(*asked, kind, "--json").stdout)
    rows = [row for row in record["sensitivity"] if row["propensity"] == model]
    assert {row["estimator"] for row in rows} == {"vanilla", "unbiased"}
    values = {
        name: {r["value"] for r in record["sensitivity"]
               if (r["metric"], r["estimator"]) == ("R@5", name)}
        for name in ("vanilla", "unbiased")
    }  # fmt: skip
    assert len(values["vanilla"]) == 1 < len(values["unbiased"])
    assert "Sensitivity to the propensities" in {section.title for section in written[-1].sections}
    assert model in run(*asked, kind).stdout
    refused = run(*asked, "seeds")
    assert refused.returncode == 2
    assert "unknown sensitivity 'seeds'; use one of: jain, powers" in refused.stderr


def test_a_measured_number_stands_on_its_page(written: list[pages.Page]) -> None:
    made = run("audit", "plan", "--labels", "observed.txt", "--predictions", "ours.txt",
               "--budget", 40, "--metrics", "P@5,R@5", "-o", "audit", "--quiet")  # fmt: skip
    assert made.returncode == 0, made.stderr
    sheet, truth = audit.read_folder("audit").sheet, data.read("truth.txt").labels
    answers = [
        {"question": each.id, "labels": truth[[each.row]].indices.tolist(), "complete": True}
        for each in sheet.questions
    ]
    record = {"kind": "answers", "key": sheet.key, "annotator": "ann", "answers": answers}
    Path("answers.json").write_text(json.dumps(record))
    result = run("audit", "estimate", "audit", "--answers", "answers.json", "--metrics", "P@5,R@5",
                 "--until-width", 0.2, "--html", "page.html", "--json", "--quiet")  # fmt: skip
    assert result.returncode == 0, result.stderr
    stored = json.loads(result.stdout)
    check(
        stored,
        {"estimates": [ESTIMATE], "audit": {"unit": TEXT, "counts": {"judged": int}}},
        "audit",
    )
    measured = [row["value"] for row in stored["estimates"] if row["estimator"] == "measured"]
    assert len(measured) == 2
    assert set(measured) <= set(shown(written[-1]))
    assert "The audit" in {section.title for section in written[-1].sections}
