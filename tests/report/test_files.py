"""Pages, drawings and tables as files."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.helpers.pages import EVIL, ONE_OF_EACH
from unmask import report
from unmask.report import Chart, Panels, Series, Table


@pytest.mark.parametrize("kind", report.KINDS)
def test_rows_come_back_from_csv_and_json(kind: str, tmp_path: Path) -> None:
    part = Panels([ONE_OF_EACH[kind]], title="p")
    rows = report.rows(part)
    saved = json.loads(report.save(part, tmp_path / "c.json").read_text())
    assert saved == rows
    with open(report.save(part, tmp_path / "c.csv"), newline="") as file:
        read = list(csv.DictReader(file))
    assert len(read) == len(rows)
    for back, row in zip(read, rows, strict=True):
        for name, value in row.items():
            assert back[name] == ("" if value is None else str(value))
            assert not isinstance(value, float) or float(back[name]) == value


@pytest.mark.parametrize("kind", report.KINDS)
@pytest.mark.parametrize("form", ["png", "svg"])
def test_every_kind_is_saved_as_a_picture(kind: str, form: str, tmp_path: Path) -> None:
    data = report.save(ONE_OF_EACH[kind], tmp_path / f"c.{form}").read_bytes()
    if form == "png":
        assert data.startswith(b"\x89PNG\r\n")
        width, height = (int.from_bytes(data[i : i + 4], "big") for i in (16, 20))
        assert width > 900
        assert height > 300
    else:
        assert b"<image" not in data, "no pixels"
        assert b"prefers-color-scheme" in data
        assert data.count(b"http") == 1, "the name space only"


def test_svg_files_hold_data_as_text(tmp_path: Path) -> None:
    chart = Chart("dots", [Series(EVIL, [EVIL], [1.0])], title=EVIL)
    root = ElementTree.fromstring(report.save(chart, tmp_path / "c.svg").read_text())  # noqa: S314
    tags = [element.tag.rpartition("}")[2] for element in root.iter()]
    assert not {"script", "img", "image"} & set(tags)
    assert EVIL in [element.text for element in root.iter()]
    texts = [element.text or "" for element in root.iter() if element.tag.endswith("text")]
    assert any(text.startswith("<script>alert") for text in texts)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: report.save(Table(["a"], []), "a.png"), r"a table is saved as \.csv, \.json; got"),
        (lambda: report.save(ONE_OF_EACH["dots"], "a.pdf"), r"a chart is saved as \.csv"),
    ],
)
def test_an_unknown_file_format_is_refused_in_a_sentence(
    make: Callable[[], object], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        make()
    assert str(caught.value).endswith(".")


def test_a_narrow_picture_has_the_width_that_was_asked_for(tmp_path: Path) -> None:
    chart = report.Chart("dots", [report.Series("a", ["x"], [0.5])])
    texts = [
        report.save(chart, tmp_path / f"{width}.svg", width=width).read_text()
        for width in (None, 3.4)
    ]
    widths = [float(re.search(r'viewBox="0 0 ([\d.]+)', text)[1]) for text in texts]
    assert widths == pytest.approx([5.6 * 72, 3.4 * 72])
