"""Studies run at their smallest size, resume without repeating work, and state what rows show."""

from __future__ import annotations

import json
from collections.abc import Iterable
from html import escape
from pathlib import Path

import numpy as np
import pytest

import unmask_studies
from tests.helpers.command import run as command
from unmask import report
from unmask.report.charts import charts_of, styles_of
from unmask_studies import recall_table, recall_toy, runs
from unmask_studies.styles import STYLES

pytestmark = pytest.mark.xdist_group("studies")  # one process runs them all, once


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All studies, once, through the command line."""
    folder = tmp_path_factory.mktemp("results")
    result = command("reproduce", "all", "--size", "tiny", "-o", folder)
    assert result.returncode == 0, result.stderr
    return folder


@pytest.mark.parametrize("name", unmask_studies.STUDIES)
def test_every_study_leaves_rows_figures_and_a_page(tiny: Path, name: str) -> None:
    files = list((tiny / "rows" / name / "tiny").glob("*.json"))
    rows = [row for file in files for row in json.loads(file.read_text())]
    assert rows
    assert all(row["study"] == name and "version" in row and "commit" in row for row in rows)
    for picture in (tiny / name).glob("*.svg"):
        assert picture.with_suffix(".csv").exists()
        assert f"({name}/{picture.stem}.svg)" in (tiny / f"{name}.md").read_text()
    drawn = unmask_studies.STUDIES[name].draw(runs.run(unmask_studies.STUDIES[name], tiny / "rows",
                                                    size="tiny"))  # fmt: skip
    page = (tiny / "report.html").read_text()
    assert all(f">{escape(section.title)}</h2>" in page for section in drawn)


@pytest.mark.parametrize("name", unmask_studies.STUDIES)
def test_a_name_has_the_same_style_in_every_study(tiny: Path, name: str) -> None:
    study = unmask_studies.STUDIES[name]
    sections = study.draw(runs.run(study, tiny / "rows", size="tiny"))
    for drawing in report.Page(name, sections=sections).drawings:
        for chart in charts_of(drawing):
            for series in chart.series:
                assert series.style == STYLES.get(series.name), series.name
        styles_of(drawing)


def test_a_second_run_measures_nothing(tiny: Path) -> None:
    def refuse(**_: object) -> list[runs.Row]:
        raise AssertionError("measured again")

    for study in unmask_studies.STUDIES.values():
        stubborn = runs.Study(study.name, study.about, study.units, refuse, study.draw)
        rows = runs.run(stubborn, tiny / "rows", size="tiny", seed=0)
        assert study.draw(rows)


def test_an_interrupted_run_keeps_what_was_finished(tmp_path: Path) -> None:
    measured: list[int] = []

    def measure(unit: int) -> Iterable[runs.Row]:
        if unit == 2 and len(measured) == 2:
            measured.append(-1)
            raise KeyboardInterrupt
        measured.append(unit)
        return [{"value": np.float64(unit)}]

    study = runs.Study(
        "demo", "", lambda *_: [{"unit": u} for u in range(4)], measure, lambda _: []
    )
    with pytest.raises(KeyboardInterrupt):
        runs.run(study, tmp_path, size="tiny")
    rows = runs.run(study, tmp_path, size="tiny")
    assert measured == [0, 1, -1, 2, 3]
    assert [row["value"] for row in rows] == [0, 1, 2, 3]


def test_data_that_moved_are_the_same_data(tmp_path: Path) -> None:
    """Rows name a data set by its folder's name: where it lies is neither recorded nor asked."""
    study = runs.Study(
        "demo", "", lambda size, seed, data: [{"folder": data / "set"}],
        lambda folder: [{"seen": str(folder.parent.name)}], lambda _: [],
    )  # fmt: skip
    here = runs.run(study, tmp_path, size="tiny", data=tmp_path / "here")
    there = runs.run(study, tmp_path, size="tiny", data=tmp_path / "there")
    assert here == there
    assert (here[0]["folder"], here[0]["seen"]) == ("set", "here")


def test_damaged_rows_are_named(tmp_path: Path) -> None:
    study = unmask_studies.STUDIES["recall-toy"]
    runs.run(study, tmp_path, size="tiny")
    (file,) = (tmp_path / "recall-toy" / "tiny").iterdir()
    file.write_text("[{")
    with pytest.raises(ValueError, match="damaged rows"):
        runs.run(study, tmp_path, size="tiny")


def test_the_toy_example_is_the_papers() -> None:
    (section,) = recall_toy.draw(list(recall_toy.measure(inverse_propensity=3)))
    (verdicts,) = (part for part in section.parts if isinstance(part, report.Verdicts))
    assert [v.level for v in verdicts.verdicts] == ["good"] * 3
    assert "variance 2, standard deviation 1.414" in verdicts.verdicts[-1].evidence


def test_a_statement_can_fail() -> None:
    assert runs.statement("x", False, "because").level == "error"
    assert runs.statement("x", None, "because").words == "x: untested"


def test_absent_data_sets_are_listed_with_the_papers_numbers(tmp_path: Path) -> None:
    unit = {"dataset": "Mediamill", "split": None, "training": "bound"}
    rows = [unit | dict(row) for row in
            recall_table.measure(folder=tmp_path / "mediamill", seed=0, **unit)]  # fmt: skip
    (section,) = recall_table.draw(rows)
    (table,) = section.parts
    assert "21.6 / 49.2 / 61.9" in table.rows[0]
    assert "not run: put the files in mediamill/" in table.rows[0]


def test_bibtex_lands_within_0_7_points_of_the_paper(real_data: Path) -> None:
    rows = []
    for training in recall_table.TRAININGS:
        unit = {"dataset": "Bibtex", "split": 0, "training": training}
        found = recall_table.measure(folder=real_data / "bibtex-xc", seed=0, **unit)
        rows += [unit | dict(row) for row in found]
    verdict = recall_table._close_to_paper(rows)
    assert verdict.level == "good", verdict.evidence


def test_an_unknown_study_is_refused() -> None:
    result = command("reproduce", "recal")
    assert result.returncode == 2
    assert "unknown study 'recal'; use one of: all, audit-plan" in result.stderr
