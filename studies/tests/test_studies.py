"""Every study runs at its smallest size, and stored rows give the pages of the documentation."""

from __future__ import annotations

import re
import shutil
import zipfile
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest

import unmask_studies
from tests.helpers.command import run as command
from tests.helpers.paths import ROOT
from tests.helpers.versions import PINNED
from unmask import pages
from unmask.pages import files
from unmask.pages.parts import styles_of
from unmask_studies import study
from unmask_studies.drawing import STYLES
from unmask_studies.study import Row, Study, read_rows, rows_file, run

STUDIES = unmask_studies.STUDIES
RESULTS = ROOT / "docs" / "results"
LONGEST = ("training", "reality", "tree", "masks")  # a minute together
SLOW = [pytest.param(LONGEST, marks=pytest.mark.slow)]


def refuse(**unit: object) -> list[Row]:
    raise AssertionError(f"measured: {unit}")


def stored(name: str) -> tuple[str, Path]:
    """The largest size whose rows are stored, and their file."""
    paths = ((size, rows_file(RESULTS / "rows", name, size)) for size in reversed(study.SIZES))
    return next((size, path) for size, path in paths if path.exists())


@pytest.mark.parametrize("names", [[n for n in STUDIES if n not in LONGEST], *SLOW])
def test_every_study_leaves_rows_figures_and_a_page(names: list[str], tmp_path: Path) -> None:
    for name in names:
        result = command("reproduce", name, "--size", "tiny", "-o", tmp_path)
        assert result.returncode == 0, result.stderr
        rows = read_rows(rows_file(tmp_path / "rows", name, "tiny"))
        assert rows
        assert all(row["study"] == name and "version" in row and "commit" in row for row in rows)
        sections = STUDIES[name].draw(
            run(replace(STUDIES[name], measure=refuse), tmp_path / "rows", size="tiny")
        )  # a second run measures nothing
        page = unescape((tmp_path / f"{name}.html").read_text(encoding="utf-8"))
        assert all(f">{s.title}</h2>" in page for s in sections if s.title != "What was done")
        text = (tmp_path / f"{name}.md").read_text(encoding="utf-8")
        for picture in (tmp_path / name).glob("*.svg"):
            with zipfile.ZipFile(tmp_path / name / "numbers.zip") as numbers:
                assert numbers.read(f"{picture.stem}.csv")
            assert f"({name}/{picture.stem}.svg)" in text
        same_styles(pages.Page(name, sections=sections))


def same_styles(page: pages.Page) -> None:
    """A name looks alike in every study."""
    for drawing in page.drawings:
        charts = [drawing] if isinstance(drawing, pages.Chart) else drawing.charts
        for series in (series for chart in charts for series in chart.series):
            own = series.name not in STYLES and series.style in STYLES.values()
            assert own or series.style == STYLES.get(series.name), series.name
        styles_of(drawing)


def test_every_study_has_a_title_that_is_not_its_command_and_a_question() -> None:
    assert len({each.title for each in STUDIES.values()}) == len(STUDIES)
    for name, each in STUDIES.items():
        assert each.name == name
        assert each.title.lower() != name
        assert each.question.endswith("?")


LONG_NUMBER = re.compile(rb"\d+\.\d{12,}(?:e[-+]?\d+)?")


def unzipped(path: Path) -> dict[str, bytes]:
    """Files of an archive, numbers to twelve digits: the last ones are rounding."""
    with zipfile.ZipFile(path) as packed:
        files = {name: packed.read(name) for name in packed.namelist()}
    return {
        name: LONG_NUMBER.sub(lambda number: b"%.12g" % float(number[0]), content)
        for name, content in files.items()
    }


def test_result_pages_say_what_the_packed_rows_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command on each page draws it again from the rows alone; pictures aside.

    After a change on purpose, `unmask reproduce` writes the pages anew.
    """
    monkeypatch.setattr(study, "_measure", refuse)
    monkeypatch.setattr(files, "save", lambda part, path: path)
    monkeypatch.setattr(pages, "write", lambda page, path: path)
    (tmp_path / "rows").mkdir()
    for name in STUDIES:
        size, path = stored(name)
        shutil.copy(path, tmp_path / "rows")
        result = command("reproduce", name, "--size", size, "-o", tmp_path)
        assert result.returncode == 0, result.stderr
        page = (tmp_path / f"{name}.md").read_text(encoding="utf-8")
        assert page == (RESULTS / f"{name}.md").read_text(encoding="utf-8"), name
        for file in (RESULTS / name).glob("*.zip"):
            assert unzipped(tmp_path / name / file.name) == unzipped(file)
        assert (tmp_path / "rows" / path.name).read_bytes() == path.read_bytes()


AGAIN: dict[str, dict[str, tuple[Any, ...]]] = {
    "recall-toy": {},
    "variance": {},
    "recall-simulation": {"severity": (3.0,)},
    "propensity-recovery": {"audited": (300,), "first_seed": (0,)},
}
# Studies of data made here, and which of their units are quick enough to be measured again.


@pytest.mark.slow
@pytest.mark.parametrize("name", AGAIN)
def test_measuring_again_gives_the_stored_rows(name: str, tmp_path: Path) -> None:
    """The first repetition of them, where every repetition has rows of its own.

    Fits of propensities end where the climb gains less than 1e-6, which depends on scipy.
    """
    made: Study = STUDIES[name]
    shutil.copy(stored(name)[1], tmp_path)
    fitted = name == "propensity-recovery"
    close = {"rel": 2e-5, "abs": 5e-6} if fitted and not PINNED else {"rel": 1e-6}
    units = [u for u in made.units("paper", 0, None)
             if all(u[key] in values for key, values in AGAIN[name].items())]  # fmt: skip
    assert units
    for unit in units:
        kept = replace(made, measure=refuse, units=lambda *_, own=unit: [own])
        before = run(kept, tmp_path, size="paper")
        first = {**unit, "repetitions": 1} if fitted else unit
        again = [dict(row) for row in made.measure(**first)]
        assert len(again) * (unit["repetitions"] if fitted else 1) == len(before)
        for row, old in zip(again, before, strict=False):
            for key, value in row.items():
                exact = not isinstance(value, float)
                wanted = value if exact else pytest.approx(value, nan_ok=True, **close)
                assert old[key] == wanted, (unit, key)


def test_units_of_the_stored_sizes_are_those_that_were_measured(tmp_path: Path) -> None:
    """Also where a unit is one of many data sets: nothing is to be measured again."""
    for name, each in STUDIES.items():
        size, path = stored(name)
        shutil.copy(path, tmp_path)
        assert run(replace(each, measure=refuse), tmp_path, size=size)
