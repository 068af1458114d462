"""Studies run at their smallest size, resume without repeating work, and state what rows show."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy
import scipy.sparse as sp

import unmask_studies
from tests.helpers.command import run as command
from tests.helpers.paths import ROOT
from unmask import propensity, report
from unmask._io import atomic_write
from unmask.report.charts import charts_of, styles_of
from unmask_studies import recall_table, recall_toy, runs, tuning
from unmask_studies.openings import OPENINGS
from unmask_studies.pages import arranged
from unmask_studies.runs import STYLES

RESULTS = ROOT / "docs" / "results"
PRESENT = (
    "bibtex-xc", "cooking-stackexchange", "debtags-bookworm", "delicious", "finna-yso-en",
    "jester5k",
)  # fmt: skip
"""The data sets that were there when the stored rows were measured."""


SLOW = (
    "audit-plan", "diagnosis-power", "masks", "propensity-recovery", "reality", "training", "tree",
)  # fmt: skip
"""Those that take longest. What they measure is compared in `test_stored_rows` all the same."""
QUICK = [name for name in unmask_studies.STUDIES if name not in SLOW]
NAMES = [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a study that is reproduced, once, through the command line."""
    folder = tmp_path_factory.mktemp("results")

    @cache
    def reproduce(name: str) -> Path:
        result = command("reproduce", name, "--size", "tiny", "-o", folder)
        assert result.returncode == 0, result.stderr
        return folder

    return reproduce


@pytest.mark.parametrize("name", NAMES)
def test_every_study_leaves_rows_figures_and_a_page(
    reproduced: Callable[[str], Path], name: str
) -> None:
    tiny = reproduced(name)
    rows = runs.read_rows(tiny / "rows" / f"{name}-tiny.jsonl.zst")
    assert rows
    assert all(row["study"] == name and "version" in row and "commit" in row for row in rows)
    for picture in (tiny / name).glob("*.svg"):
        with zipfile.ZipFile(tiny / name / "numbers.zip") as numbers:
            assert numbers.read(f"{picture.stem}.csv")
        assert f"({name}/{picture.stem}.svg)" in (tiny / f"{name}.md").read_text()
    drawn = unmask_studies.STUDIES[name].draw(runs.run(unmask_studies.STUDIES[name], tiny / "rows",
                                                    size="tiny"))  # fmt: skip
    page = unescape((tiny / f"{name}.html").read_text())
    assert all(f">{section.title}</h2>" in page for section in arranged(drawn))


@pytest.mark.parametrize("name", NAMES)
def test_a_name_has_the_same_style_in_every_study(
    reproduced: Callable[[str], Path], name: str
) -> None:
    study = unmask_studies.STUDIES[name]
    sections = study.draw(runs.run(study, reproduced(name) / "rows", size="tiny"))
    for drawing in report.Page(name, sections=sections).drawings:
        for chart in charts_of(drawing):
            for series in chart.series:
                shared = STYLES.get(series.name)
                own = series.name not in STYLES and series.style in STYLES.values()
                assert own or series.style == shared, series.name
        styles_of(drawing)


@pytest.mark.slow
def test_all_studies_reproduce_at_once(tmp_path: Path) -> None:
    assert command("reproduce", "all", "--size", "tiny", "-o", tmp_path).returncode == 0
    names = {file.stem for file in tmp_path.glob("*.html")}
    assert set(unmask_studies.STUDIES) <= names


def test_a_second_run_measures_nothing(reproduced: Callable[[str], Path]) -> None:
    def refuse(**_: object) -> list[runs.Row]:
        raise AssertionError("measured again")

    for study in map(unmask_studies.STUDIES.__getitem__, QUICK):
        stubborn = runs.Study(study.name, study.about, study.units, refuse, study.draw)
        rows = runs.run(stubborn, reproduced(study.name) / "rows", size="tiny", seed=0)
        assert study.draw(rows)


def stored(study: runs.Study, size: str, data: Path | None = None) -> list[runs.Row]:
    """The rows of the documentation, all of which must be there."""

    def refuse(**unit: object) -> list[runs.Row]:
        raise AssertionError(f"not stored: {unit}")

    reading = runs.Study(study.name, study.about, study.units, refuse, study.draw)
    return runs.run(reading, RESULTS / "rows", size=size, seed=0, data=data)


PINNED = f"scipy=={scipy.__version__}" in (ROOT / "constraints.txt").read_text().split()


FITTED = {"propensity-recovery", "audit-plan"}
"""Studies that fit propensities. The climb to the maximum of a likelihood ends where it gains less
than 1e-6, and where that is depends on scipy: with 1.13, propensities of a half differ by 3e-6 from
the stored ones of the pinned version, and so do errors, their differences to the truth. The other
studies do not depend on it."""


def _close(value: Any, name: str) -> Any:
    """As good as equal, for a row of this study."""
    loose = name in FITTED and not PINNED
    precision = {"rel": 2e-5, "abs": 5e-6} if loose else {"rel": 1e-6}
    return pytest.approx(value, nan_ok=True, **precision) if isinstance(value, float) else value


AGAIN = {
    "recall-toy": {},
    "variance": {},
    "recall-simulation": {"severity": (3.0,)},
    "propensity-recovery": {"audited": (300,), "first_seed": (0,)},
    "audit-plan": {"case": ("R@5, 150 rows", "P@5, labels cost, rows hardly")},
}
"""Studies of data made here, and which of their units are quick enough to be measured again."""


@pytest.mark.slow
@pytest.mark.parametrize("name", AGAIN)
def test_measuring_again_gives_the_stored_rows(name: str) -> None:
    """The first repetition of them, where every repetition has rows of its own."""
    study, wanted = unmask_studies.STUDIES[name], AGAIN[name]
    units = [
        unit
        for unit in study.units("paper", 0, None)
        if all(unit[key] in values for key, values in wanted.items())
    ]
    assert units
    first = {"repetitions": 1} if name in ("propensity-recovery", "audit-plan") else {}
    for unit in units:
        before = stored(replace(study, units=lambda *_, unit=unit: [unit]), "paper")
        again = [dict(row) for row in study.measure(**{**unit, **first})]
        assert len(again) * (unit["repetitions"] if first else 1) == len(before)
        for row, old in zip(again, before, strict=False):
            for key, value in row.items():
                assert old[key] == _close(value, name), (unit, key)


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
        "demo", "", lambda size, seed, data: [{"folder": data.path("set")}],
        lambda folder: [{"seen": str(folder.parent.name)}], lambda _: [],
    )  # fmt: skip
    here = runs.run(study, tmp_path, size="tiny", data=tmp_path / "here")
    there = runs.run(study, tmp_path, size="tiny", data=tmp_path / "there")
    assert here == there
    assert (here[0]["folder"], here[0]["seen"]) == ("set", "here")


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ("[{", "damaged rows: .*recall-toy-tiny.jsonl.zst, line 1 is not JSON"),
        ("[1]", "damaged rows: .*line 1 is not a record with a key. Remove the file"),
        ('{"key": {}}', "damaged rows: .* a line that is not a unit and its rows"),
        ('{"key": 1, "rows": []}', "damaged rows: .* a line that is not a unit and its rows"),
        ('{"key": {}, "rows": [1]}', "damaged rows: .* a line that is not a unit and its rows"),
    ],
)
def test_damaged_rows_are_named(tmp_path: Path, contents: str, message: str) -> None:
    study = unmask_studies.STUDIES["recall-toy"]
    runs.run(study, tmp_path, size="tiny")
    (file,) = tmp_path.iterdir()
    with atomic_write(file) as packed:
        packed.write(contents.encode())
    with pytest.raises(ValueError, match=message):
        runs.run(study, tmp_path, size="tiny")


def test_rows_are_kept_as_they_come_and_packed_at_the_end(tmp_path: Path) -> None:
    """Whether the run is stopped or not, in one file that does not depend on it."""
    packed, journal = (tmp_path / f"demo-tiny.jsonl{end}" for end in (".zst", ""))

    def measure(unit: int) -> Iterable[runs.Row]:
        kept = journal.read_text().count("\n") if journal.exists() else 0
        assert kept == unit - (1 if packed.exists() else 0)
        return [{"value": np.float64(unit), "series": np.arange(unit)}] * unit

    def study(n: int) -> runs.Study:
        units = [{"unit": unit} for unit in range(n)]
        return runs.Study("demo", "", lambda *_: units, measure, lambda _: [])

    runs.run(study(1), tmp_path, size="tiny")
    rows = runs.run(study(4), tmp_path, size="tiny")
    assert [row["value"] for row in rows] == [1, 2, 2, 3, 3, 3]
    assert [path.name for path in tmp_path.iterdir()] == [packed.name]
    assert runs.run(study(4), tmp_path, size="tiny") == rows  # as measured, as read
    assert runs.read_rows(packed) == rows
    before = packed.read_bytes()
    packed.unlink()
    runs.run(study(4), tmp_path, size="tiny")
    assert packed.read_bytes() == before


def test_rows_of_an_unfinished_study_are_read(tmp_path: Path) -> None:
    def measure(unit: int) -> Iterable[runs.Row]:
        if unit == 1:
            raise KeyboardInterrupt
        return [{"value": unit}]

    units = [{"unit": unit} for unit in range(2)]
    study = runs.Study("demo", "", lambda *_: units, measure, lambda _: [])
    with pytest.raises(KeyboardInterrupt):
        runs.run(study, tmp_path / "rows", size="tiny")
    (path,) = runs.rows_files(tmp_path)
    assert not path.exists()
    assert runs.rows_files(path.with_suffix("")) == [path]
    assert [row["value"] for row in runs.read_rows(path)] == [0]
    (tmp_path / "rows" / "notes.jsonl").write_text("not ours")
    assert runs.rows_files(tmp_path) == [path]


def on_data(names: frozenset[str] = frozenset({"first", "second"})) -> runs.Study:
    """A study that is measured on some data sets, or on made-up rows."""

    def units(size: str, seed: int, data: runs.DataSets | None) -> list[runs.Unit]:
        present = [data.path(n) for n in sorted(names) if n in data.names] if data else [None]
        return [{"folder": folder} for folder in present]

    def measure(folder: Path | None) -> Iterable[runs.Row]:
        assert folder is None or folder.is_dir()
        return [{"value": 1}]

    return runs.Study("demo", "", units, measure, lambda _: [])


def test_without_data_the_kept_rows_of_data_sets_are_returned(tmp_path: Path) -> None:
    data, kept = tmp_path / "data", tmp_path / "rows"
    for name in ("first", "second"):
        (data / name).mkdir(parents=True)
    rows = runs.run(on_data(), kept, size="tiny", data=data)
    assert [row["folder"] for row in rows] == ["first", "second"]
    assert runs.run(on_data(), kept, size="tiny") == rows
    (other_seed,) = runs.run(on_data(), kept, size="tiny", seed=1)
    assert other_seed["folder"] is None
    assert runs.run(on_data(), kept, size="tiny", seed=1) == [other_seed]


def test_without_data_the_kept_rows_are_returned_also_if_some_are_made_up(tmp_path: Path) -> None:
    def units(size: str, seed: int, data: runs.DataSets | None) -> list[runs.Unit]:
        present = [data.path("first")] if data and "first" in data.names else []
        return [{"folder": folder} for folder in [*present, None]]

    study = replace(on_data(), units=units)
    (tmp_path / "data" / "first").mkdir(parents=True)
    rows = runs.run(study, tmp_path / "rows", size="tiny", data=tmp_path / "data")
    assert [row["folder"] for row in rows] == ["first", None]
    assert runs.run(study, tmp_path / "rows", size="tiny") == rows


def test_without_data_nothing_is_measured_in_place_of_data_sets(tmp_path: Path) -> None:
    def stop(folder: Path) -> Iterable[runs.Row]:
        if folder.name == "second":
            raise KeyboardInterrupt
        return [{"value": 1}]

    data, kept = tmp_path / "data", tmp_path / "rows"
    for name in ("first", "second"):
        (data / name).mkdir(parents=True)
    study = replace(on_data(), units=lambda size, seed, data: [
        {"folder": data.path(name) if data else None} for name in ("first", "second")
    ])  # fmt: skip
    with pytest.raises(KeyboardInterrupt):
        runs.run(replace(study, measure=stop), kept, size="tiny", data=data)
    message = r"1 of 2 units of demo \(tiny\) are not measured yet, the others on first; .*--data"
    with pytest.raises(ValueError, match=message):
        runs.run(study, kept, size="tiny")
    assert len(runs.run(study, kept, size="tiny", data=data)) == 2


def test_rows_are_measured_anew_on_request(tmp_path: Path) -> None:
    options = ("reproduce", "recall-toy", "--size", "tiny", "-o", tmp_path)
    assert command(*options).returncode == 0
    file = tmp_path / "rows" / "recall-toy-tiny.jsonl.zst"
    written = file.stat().st_mtime_ns
    assert command(*options).returncode == 0
    assert file.stat().st_mtime_ns == written
    assert command(*options, "--restart").returncode == 0
    assert file.stat().st_mtime_ns > written


def test_the_toy_example_is_the_papers() -> None:
    (section,) = recall_toy.draw(list(recall_toy.measure(inverse_propensity=3)))
    (verdicts,) = (part for part in section.parts if isinstance(part, report.Verdicts))
    assert [v.level for v in verdicts.verdicts] == ["good"] * 3
    assert "variance 2, standard deviation 1.414" in verdicts.verdicts[-1].evidence


def test_a_statement_can_fail() -> None:
    assert runs.statement("x", False, "because").level == "error"
    untested = runs.statement("x", None, "because")
    assert (untested.words, untested.badge, untested.evidence) == ("x", "untested", "because")


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
    assert "unknown study 'recal'; use one of: all, audit, audit-plan" in result.stderr


def test_every_study_has_a_title_that_is_not_its_command_and_a_question() -> None:
    assert OPENINGS.keys() == unmask_studies.STUDIES.keys()
    assert len({opening.title for opening in OPENINGS.values()}) == len(OPENINGS)
    for name, opening in OPENINGS.items():
        assert opening.title.lower() != name
        assert opening.question.endswith("?")


def test_a_page_opens_with_the_first_drawing_and_the_claims_and_keeps_every_part() -> None:
    chart = report.Chart("bars", [report.Series("s", ["x"], [1.0])])
    text, table = report.Text("a"), report.Table(["x"], [["1"]])
    claim = runs.statement("c", True, "e")
    sections = [
        report.Section("one", [text, report.Verdicts([claim])]),
        report.Section("two", [table, chart]),
        report.Section("three", [report.Verdicts([claim])]),
    ]
    first, judged, *details = arranged(sections)
    assert first.parts == (chart,)
    assert judged.parts == (report.Verdicts([claim, claim]),)
    assert [(s.title, s.parts, s.folded) for s in details] == [
        ("one", (text,), True),
        ("two", (table,), True),
    ]
    assert arranged([report.Section("one", [text])])[0].folded


def test_what_completed_training_gains_is_told_in_points() -> None:
    rows: list[runs.Row] = [
        {"part": "training", "way": way, "R@5": recall}
        for way, recalls in (("unbiased", (0.2, 0.3)), ("completed", (0.4, 0.6)))
        for recall in recalls
    ]
    said = OPENINGS["missing"].answer(rows)
    assert said == ("Completed training recalls +25.0 points of R@5 over tuned unbiased training.")
    right = {"part": "findings", "masks": "right", "precision@1000": 0.5}
    rows += [{**right, "way": "completed", "folder": "a"}, {**right, "way": "score", "folder": "b"}]
    said = OPENINGS["missing"].answer(rows)
    assert said.startswith("Of the first 1,000 findings 50% (a) are truly missing; completed")


P = np.array([0.8, 0.3, 0.5, 0.6])


@pytest.mark.parametrize("masks", tuning.MASKS)
def test_what_is_stated_of_propensities(masks: str) -> None:
    labels = sp.csr_array(np.ones((50, 4)))
    split: Any = SimpleNamespace(labels=labels, p=P)
    observed, stated = tuning.observed_of(split, masks, 3)
    assert 0 < observed.nnz < labels.nnz
    if masks == "permuted":
        assert sorted(stated.tolist()) == sorted(P.tolist())
    else:
        wanted = {"half": P / 2, "twice": np.minimum(1, 2 * P), "Jain": propensity.jain(observed)}
        np.testing.assert_array_equal(stated, np.asarray(wanted.get(masks, P)))
    again, _ = tuning.observed_of(split, masks, 3)
    assert (again != observed).nnz == 0
