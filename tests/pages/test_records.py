"""Stored records: read from files, put on one page, refused by name if they are damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from unmask import pages, report

VERDICT = {
    "level": "conditional",
    "reason": "stated-propensities",
    "advice": "",
    "text": "conditional: so",
}
ESTIMATE = {"metric": "P@1", "estimator": "vanilla", "value": 0.5, "low": 0.4, "high": 0.6,
            "verdict": VERDICT}  # fmt: skip
EVALUATION = {"kind": "evaluation", "source": "a/system.txt", "command": "unmask evaluate",
              "estimates": [ESTIMATE]}  # fmt: skip
DIAGNOSIS = {"kind": "diagnosis", "source": "labels.txt", "severity": "info", "findings": [],
             "tests": []}  # fmt: skip


def stored(folder: Path, record: object) -> Path:
    path = folder / "record.json"
    path.write_text(json.dumps(record))
    return path


def test_a_page_of_one_record_is_named_after_it() -> None:
    page = pages.page([EVALUATION])
    assert page.title == "Evaluation of system.txt"
    assert [section.title for section in page.sections][-1] == "How this page was made"


def test_a_page_of_several_records_says_whose_everything_is() -> None:
    page = pages.page([EVALUATION, DIAGNOSIS, EVALUATION], commands=["unmask report"])
    assert page.title == ("Evaluation of system.txt · Diagnosis of labels.txt · "
                          "Evaluation of system.txt")  # fmt: skip
    titles = [section.title for section in page.sections]
    assert titles[0] == "Side by side"
    assert all(title.startswith(("system.txt: ", "labels.txt: ")) for title in titles[1:-1])
    assert all(sentence.startswith("labels.txt: ") for sentence in page.summary)
    (commands,) = page.sections[-1].parts
    assert commands == report.Commands(["unmask evaluate", "unmask report"])


def test_records_come_back_with_their_file(tmp_path: Path) -> None:
    path = stored(tmp_path, EVALUATION)
    assert pages.read(path) == [{**EVALUATION, "file": str(path)}]


def test_a_written_page_is_returned(tmp_path: Path) -> None:
    records = pages.read(stored(tmp_path, EVALUATION))
    page = pages.write(records, tmp_path / "page.html", title="Mine")
    assert (tmp_path / "page.html").read_text() == report.render(page)
    assert page.title == "Mine"


@pytest.mark.parametrize(
    "damage",
    [
        {"verdict": {**VERDICT, "level": "splendid"}},
        {"verdict": {"level": "wide"}},
        {"verdict": 7},
        {"metric": "nonsense"},
        {"estimator": "nonsense"},
        {"value": "high"},
    ],
    ids=lambda damage: "-".join(map(str, damage.items())),
)
def test_a_damaged_record_is_named(damage: dict[str, object], tmp_path: Path) -> None:
    path = stored(tmp_path, {**EVALUATION, "estimates": [ESTIMATE | damage]})
    with pytest.raises(ValueError, match=r"record\.json: the stored result is damaged"):
        pages.write(pages.read(path), tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()
