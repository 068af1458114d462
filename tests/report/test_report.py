"""The report room: pages, charts as data, looks, files.

What only a browser can tell is in `test_report_browser.py`.
"""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask import report
from unmask.report import (
    STYLES,
    Axis,
    Chart,
    Column,
    Estimate,
    Note,
    Page,
    Panels,
    Rule,
    Section,
    Series,
    Style,
    Table,
    Text,
    Verdict,
    alt_text,
    drawing,
    html,
    kinds,
    marks,
    svg,
    tables,
)
from unmask.report.styles import PALETTE, THEME, styles

EVIL = "<script>alert('x')</script><img src=//x onerror=alert(1)> & \"quoted\" $5_6$ `"
STRANGE = "日本語 🙂 a\x00b \ud800 $x^2$ \\frac"


def rich_page() -> report.Page:
    """One of everything, as a study would compose it."""
    p = np.linspace(0.1, 1, 19)
    names = ["vanilla", "unbiased", "bound", "deconvolved", "tempered", "clipped"]
    curves = [Series("truth", p, np.full(19, 0.5))]
    for at, name in enumerate(names):
        mean = 0.5 * p ** [0.9, 0, -0.3, 0.05, 0.3, 0.2][at] + 0.01 * at
        sd = [0.01, 0.06, 0.03, 0.02, 0.02, 0.03][at] / p
        curves.append(Series(name, p, mean, low=mean - sd, high=mean + sd))
    over_p = Chart(
        "lines",
        curves[:5],
        title="Estimated recall over the propensity",
        x="propensity",
        y=Axis("R@1", low=0, high=1.25),
        caption="Bands are one standard deviation over 100 repetitions.",
    )
    grid = np.logspace(-7, 0, 11)
    gaps = Chart(
        "lines",
        [
            Series("noisy train", grid, 0.02 + 0.05 * grid**0.3),
            Series("clean train", grid, 0.06 + 0.04 * grid**0.25),
            Series("clean test", grid, 0.11 + 0.01 * (np.log10(grid) + 4) ** 2 / 5),
        ],
        title="Loss over regularisation",
        x=Axis("L2 penalty", log=True),
        y=Axis("loss", log=True),
        notes=[Note(1e-5, 0.023, "noise pattern", to=0.062)],
    )
    dots = Panels(
        [
            Chart(
                "dots",
                [
                    Series(n, [n], [0.5 + 0.04 * i * k], low=[0.4 - 0.03 * i], high=[0.6 + 0.2 * i])
                    for i, n in enumerate(names)
                ],
                title=f"R@{k}",
                y=Axis("estimate", low=0.2, high=1.2),
                rules=[Rule("truth", 0.55)],
            )
            for k in (1, 3, 5)
        ],
        title="Estimators against the truth",
        columns=3,
        share_x=True,
        caption="Intervals are 95 % bootstrap intervals; an arrow says that one goes on.",
    )
    edges = np.linspace(0, 4, 17)
    tail = np.exp(-edges[:-1])
    histogram = Panels(
        [
            Chart(
                "steps",
                [
                    Series("unbiased", edges, tail, low=tail * 0.8, high=tail * 1.2),
                    Series("vanilla", edges[:6], tail[:5] * 1.4, low=tail[:5], high=tail[:5] * 2),
                ],
                title=f"top {k}",
                x="recall of a row",
                y=Axis("share of rows", log=k == 5),
                rules=[Rule("unbiased", 0.9, "x"), Rule("vanilla", 0.5, "x")],
            )
            for k in (1, 5)
        ],
        title="Recall per row",
        share_y=False,
    )
    a, b = np.round(np.linspace(0.35, 0.75, 9), 2), np.round(np.linspace(0.5, 2.5, 7), 2)
    heat = Chart(
        "heat",
        [Series(f"{v:g}", a, 3 * (a - 0.55) + v - 1.4) for v in b],
        title="Does the ranking survive other propensities?",
        x="a",
        y="b",
        color=Axis("difference in R@5", center=0),
        notes=[Note(0.55, "1.5")],
        caption="System A is better where the cells are purple.",
    )
    bars = Chart(
        "bars",
        [
            Series(n, ["P@1", "P@3", "P@5"], [30 + i, 20 + i, 9 + 2 * i], [28, 18, 8], [40, 26, 22])
            for i, n in enumerate(names[:4])
        ],
        title="Precision at the chosen regularisation",
        y="per cent",
    )
    level = ["good", "error", "warning", "good", "info", "good"]
    words = ["usable", "do not use", "wide", "usable", "not tested", "usable"]
    table = report.Table(
        [
            "estimator",
            Column("R@1", ".3f", help="recall at 1"),
            Column("R@5", ".1%"),
            "ESS",
            "verdict",
        ],
        [
            [
                name,
                Estimate(0.42 - 0.13 * i % 0.31, 0.40 - 0.1 * i, 0.44 + i) if i != 2 else None,
                Estimate(0.6 + 0.01 * i, error=0.01),
                12345 // (i + 1) ** 3,
                Verdict(level[i], words[i]),
            ]
            for i, name in enumerate(names)
        ],
        title="Recall, by estimator",
        caption="Intervals hold with 95 % probability.",
    )
    return report.Page(
        "What missing labels do to these numbers",
        summary=[
            "Vanilla recall at 5 is 62.0 %; correcting for missing labels gives 78.3 % ± 0.9.",
            "The unbiased estimate cannot be used below a propensity of 0.4; use `deconvolved`.",
            "The ranking of both systems survives every propensity curve that the data admit.",
        ],
        sections=[
            report.Section(
                "Data",
                [
                    report.Facts(
                        {
                            "rows": 2515,
                            "labels": 159,
                            "labels per row": 2.4,
                            "mean propensity": Estimate(0.41, error=0.02),
                            "masks": Verdict("warning", "dependent"),
                        }
                    ),
                    report.Text("Labels were read from `test.txt`.\n\nPropensities are Jain's."),
                ],
            ),
            report.Section("Estimates", [table, over_p, dots, bars]),
            report.Section("Training", [gaps, histogram]),
            report.Section("Sensitivity", [heat]),
            report.Section(
                "Verdicts",
                [
                    report.Verdicts(
                        [
                            Verdict(
                                "good",
                                "The propensities can be true",
                                "Likelihood ratio 1.2, p = 0.41.",
                            ),
                            Verdict(
                                "warning",
                                "The unbiased estimate is too uncertain here",
                                "Its effective sample size is 41 of 2,515 rows.",
                                "Use `deconvolved`, or label 300 more rows.",
                            ),
                            Verdict(
                                "error",
                                "Every row has a label",
                                "Under independent masks 12 % would be empty.",
                                "Ask how rows were selected.",
                            ),
                            Verdict("info", "31 labels have fewer than 5 positives"),
                        ]
                    )
                ],
            ),
            report.Section(
                "Reproduce",
                [
                    report.Commands(
                        [
                            "unmask evaluate pred.txt test.txt --html report.html",
                            "unmask diagnose test.txt --seed 0",
                        ]
                    )
                ],
            ),
        ],
        footer="Made by unmask 0.1.0, seed 0.",
    )


class Elements(HTMLParser):
    """Tags with their attributes, and the text between them, as a browser's parser sees them."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def attributes(self, *names: str) -> list[str]:
        return [value for _, found in self.tags for name, value in found.items() if name in names]


@pytest.fixture(scope="module")
def rich() -> str:
    return report.render(rich_page())


ONE_OF_EACH = {
    "lines": Chart("lines", [Series("a", [1, 2, 3], [1, None, 3], [0, 1, 2], [2, 3, 4])], x="n"),
    "dots": Chart("dots", [Series("a", ["p", "q"], [1.5, -2]), Series("b", ["q"], [1], [0], [2])]),
    "bars": Chart("bars", [Series("a", [1, 3, 5], [1, 2, 3]), Series("b", [1], [2.5])]),
    "steps": Chart("steps", [Series("a", [0, 0.1, 1], [5, 7])], rules=[Rule("a", 0.3, "x")]),
    "heat": Chart("heat", [Series("1", [1, 2], [0.1, 0.2]), Series("2", [1, 2], [None, -1e-9])]),
}


def test_every_kind_is_checked_described_drawn_and_tried_here() -> None:
    for registry in (kinds.DRAW, alt_text._NOUNS, ONE_OF_EACH):
        assert registry.keys() == report.KINDS.keys()


# ---------------------------------------------------------------- nothing from data is markup


def everything_named(text: str) -> Page:
    chart = Chart(
        "lines",
        [Series(text, [1, 2], [3, 4]), Series("b", [1, 2], [1, 1])],
        title=text,
        x=text,
        y=text,
        caption=text,
        rules=[Rule(text, 3)],
        notes=[Note(1, 3, text)],
    )
    parts = [
        chart,
        Panels([chart], title=text, caption=text),
        Chart("heat", [Series(text, [text], [1.0])], color=text),
        Table([Column(text, help=text)], [[text], [Verdict("info", text)]], text, text),
        Text(text),
        report.Facts({text: text}),
        report.Verdicts([Verdict("good", text, text, text)]),
        report.Commands([text]),
    ]
    more = Section(text, [Text(text)])
    return Page(text, summary=[text], sections=[Section(text, parts), more, more], footer=text)


def test_markup_in_data_stays_text() -> None:
    found = Elements(report.render(everything_named(EVIL)))
    tags = [tag for tag, _ in found.tags]
    assert tags.count("script") == 1
    assert "img" not in tags
    assert not [name for _, attrs in found.tags for name in attrs if name.startswith("on")]
    assert sum(EVIL in text for text in found.texts) > 25


def test_strange_characters_are_drawn_and_stay_in_the_text() -> None:
    page = report.render(everything_named(STRANGE))
    assert page.encode()
    assert "日本語 🙂 a�b � $x^2$ \\frac</text>" in page


@settings(max_examples=40)
@given(st.text(max_size=30))
def test_any_text_in_a_table_comes_back_as_text(text: str) -> None:
    page = Page("t", sections=[Section("s", [Table(["name"], [[text]])])])
    source = report.render(page)
    found = Elements(source)
    assert [tag for tag, _ in found.tags].count("script") == 1
    shown = re.search(r'<th scope="row"[^>]*>(.*?)</th>', source, re.DOTALL)
    assert shown
    assert "".join(Elements(shown[1]).texts) == report.words.clean(text).strip()


def test_svg_files_hold_data_as_text(tmp_path: Path) -> None:
    chart = Chart("bars", [Series(EVIL, [EVIL], [1.0])], title=EVIL)
    root = ElementTree.fromstring(report.save(chart, tmp_path / "c.svg").read_text())  # noqa: S314
    tags = [element.tag.rpartition("}")[2] for element in root.iter()]
    assert not {"script", "img", "image"} & set(tags)
    assert EVIL in [element.text for element in root.iter()]
    texts = [element.text or "" for element in root.iter() if element.tag.endswith("text")]
    assert any(text.startswith("<script>alert") for text in texts)


# ---------------------------------------------------------------- the page


def test_a_page_needs_no_other_file(rich: str) -> None:
    found = Elements(rich)
    for link in found.attributes("src", "href", "xlink:href", "action", "srcset", "poster"):
        assert link.startswith(("#", "data:")), link
    assert "://" not in rich
    assert "@import" not in rich
    assert set(re.findall(r"url\((.)", rich)) <= {"#"}
    assert "default-src 'none'" in rich


def test_the_policy_admits_exactly_our_script(rich: str) -> None:
    import base64

    (script,) = re.findall(r"<script>(.*?)</script>", rich, re.DOTALL)
    (allowed,) = re.findall(r"'sha256-([^']+)'", rich)
    assert base64.b64decode(allowed) == hashlib.sha256(script.encode()).digest()


def test_ids_are_unique_and_every_reference_leads_to_one(rich: str) -> None:
    found = Elements(rich)
    ids = found.attributes("id")
    assert len(ids) == len(set(ids))
    links = [link[1:] for link in found.attributes("href") if link.startswith("#")]
    links += [name for names in found.attributes("aria-labelledby") for name in names.split()]
    links += re.findall(r"url\(#([^)]+)\)", rich)
    assert len(links) > 100
    assert set(links) <= set(ids)


def test_a_rich_page_is_small_and_an_enormous_one_is_refused(rich: str, tmp_path: Path) -> None:
    assert len(rich.encode()) < 400_000
    path = tmp_path / "page.html"
    path.write_text("the old page")
    with pytest.raises(ValueError, match=r"would have [\d,]+ bytes, more than 3,000,000"):
        report.write(Page("big", sections=[Section("s", [Text("x" * 3_000_000)])]), path)
    assert path.read_text() == "the old page"
    assert os.listdir(tmp_path) == ["page.html"]


def test_structure_for_screen_readers(rich: str) -> None:
    found = Elements(rich)
    tags = [tag for tag, _ in found.tags]
    assert tags.count("h1") == tags.count("main") == tags.count("nav") == 1
    assert tags.count("caption") == tags.count("table") > 3
    assert all(attrs["scope"] in ("row", "col") for tag, attrs in found.tags if tag == "th")
    drawn = [attrs for tag, attrs in found.tags if tag == "svg" and "role" in attrs]
    assert len(drawn) == 9
    assert tags.count("title") == tags.count("desc") + 1 == 10
    assert ("html", {"lang": "en"}) in found.tags


def test_charts_in_a_page_have_real_text_in_the_colours_of_the_theme(rich: str) -> None:
    texts = re.findall(r"<text[^>]*>[^<]*</text>", rich)
    assert any(">propensity<" in text for text in texts)
    assert all("var(--" in text or "#fdfdfd" in text or "#0b0b0b" in text for text in texts)
    assert "font-family" not in "".join(texts)
    styles_in_svg = re.findall(r'<(?:path|use)[^>]*style="([^"]*)"', rich)
    fixed = {color for style in styles_in_svg for color in re.findall(r"(?<!, )#\w{6}", style)}
    light = {pair[0] for pair in [*PALETTE.values(), *THEME.values()]}
    assert not fixed & light, "every colour of the palette is a variable"


def test_words_between_backticks_are_code() -> None:
    assert html._prose("use `a<b` now") == "use <code>a&lt;b</code> now"
    assert html._prose("one ` alone") == "one ` alone"


def test_large_charts_keep_their_numbers_out_of_the_page() -> None:
    chart = Chart("lines", [Series("a", range(5000), np.sin(np.arange(5000) / 400))])
    source = report.render(Page("t", sections=[Section("s", [chart])]))
    assert "data:text/csv" not in source
    assert "<details>" not in source
    assert len(source) < 80_000


@pytest.mark.parametrize(
    ("points", "table", "link"),
    [(300, True, True), (301, False, True), (2000, False, True), (2001, False, False)],
)
def test_numbers_are_shown_and_linked_up_to_a_size(points: int, table: bool, link: bool) -> None:
    chart = Chart("lines", [Series("a", range(points), range(points))])
    view = html.VIEWS[Chart](chart, "c", styles(["a"]))
    assert (view["numbers"] is not None, view["csv"] is not None) == (table, link)


# ---------------------------------------------------------------- the same page, the same bytes


PROGRAM = """
import sys, hashlib
import unmask.report as report
loaded = {"matplotlib", "jinja2"} & set(sys.modules)
assert not loaded, loaded
if sys.argv[1:]:
    import matplotlib
    matplotlib.rcParams.update({"font.size": 30, "svg.hashsalt": "other", "axes.xmargin": 0.5})
from tests.report.test_report import everything_named
text = report.render(everything_named("name"))
assert "matplotlib.pyplot" not in sys.modules
if sys.argv[1:]:
    assert matplotlib.rcParams["font.size"] == 30
print(hashlib.sha256(text.encode()).hexdigest())
"""


def test_the_same_page_has_the_same_bytes_in_any_process_and_configuration() -> None:
    digests = set()
    for seed, argument in (("1", []), ("2", ["mine"])):
        run = subprocess.run(
            [sys.executable, "-c", PROGRAM, *argument],
            cwd=Path(__file__).resolve().parents[1],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
        )
        assert run.returncode == 0, run.stderr
        digests.add(run.stdout)
    page = report.render(everything_named("name"))
    assert digests == {hashlib.sha256(page.encode()).hexdigest() + "\n"}


# ---------------------------------------------------------------- data first


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


def test_rows_hold_every_number_of_a_chart() -> None:
    rows = report.rows(ONE_OF_EACH["steps"])
    assert rows == [
        {"series": "a", "x": 0.0, "x_end": 0.1, "y": 5.0},
        {"series": "a", "x": 0.1, "x_end": 1.0, "y": 7.0},
        {"series": "a", "x": 0.3, "x_end": None, "y": None},
    ]
    assert report.rows(ONE_OF_EACH["lines"])[1] == {
        "series": "a",
        "x": 2.0,
        "y": None,
        "low": 1.0,
        "high": 3.0,
    }


def test_estimates_spread_over_columns_beside_their_own() -> None:
    cells = [
        ["a", None, 1],
        ["b", Estimate(0.5, 0.4, 0.6), np.int64(2)],
        ["c", Estimate(1, error=2), 3],
    ]
    rows = report.rows(Table(["name", "R", "n"], cells))
    assert list(rows[0]) == ["name", "R", "R error", "R low", "R high", "n"]
    assert rows[1] == {"name": "b", "R": 0.5, "R low": 0.4, "R high": 0.6, "R error": None, "n": 2}
    assert type(rows[1]["n"]) is int
    with pytest.raises(ValueError, match="two columns would be called 'R low'"):
        report.rows(Table(["R", "R low"], [[Estimate(1, 0, 2), 3]]))


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "＝"])
def test_csv_runs_no_formulas(start: str) -> None:
    text = tables.as_csv(Table([start + "head", "n"], [[start + "cmd|' /C calc'!A0", -1.5]]))
    (head, number), (cell, value) = csv.reader(io.StringIO(text, newline=""))
    start = start.replace("\r", "\n")
    assert (head, cell) == ("'" + start + "head", "'" + start + "cmd|' /C calc'!A0")
    assert (number, value) == ("n", "-1.5"), "numbers stay numbers"


def test_negative_numbers_as_text_stay_numbers() -> None:
    assert tables.as_csv(Table(["x"], [["-0.5"], ["-x"]])) == "x\n-0.5\n'-x\n"


def test_an_empty_table_still_has_its_header(tmp_path: Path) -> None:
    table = Table(["a", "b"], [])
    assert tables.as_csv(table) == "a,b\n"
    assert json.loads(tables.as_json(table)) == []
    assert "<th" in report.render(Page("t", sections=[Section("s", [table])]))


# ---------------------------------------------------------------- drawing


@pytest.mark.parametrize("kind", report.KINDS)
@pytest.mark.parametrize("form", ["png", "svg"])
def test_every_kind_is_saved_as_a_picture(kind: str, form: str, tmp_path: Path) -> None:
    data = report.save(ONE_OF_EACH[kind], tmp_path / f"c.{form}").read_bytes()
    if form == "png":
        assert data.startswith(b"\x89PNG\r\n")
        width, height = (int.from_bytes(data[at : at + 4], "big") for at in (16, 20))
        assert width > 900
        assert height > 300
    else:
        assert b"<image" not in data, "no pixels"
        assert b"prefers-color-scheme" in data
        assert data.count(b"http") == 1, "the name space only"


HARD = [
    Chart("lines", [Series("gone", [1, 2], [None, float("nan")])]),
    Chart("lines", [Series("a", [1], [2])], x=Axis(log=True), y=Axis(log=True)),
    Chart("lines", [Series("a", [1, 2], [-1, 1e-300])], y=Axis("loss", log=True)),
    Chart("lines", [Series("a", [0, 1e12], [1e-9, 1e9])]),
    Chart("lines", [Series("a", [1e-9, 1], [1.0, 1.2])], x=Axis(log=True), y=Axis(log=True)),
    Chart("dots", [Series("a" * 60, ["b" * 60], [None])]),
    Chart("dots", [Series("a", ["a"], [5], [4], [6])], y=Axis(low=0, high=1, log=False)),
    Chart("dots", [Series("a", ["a"], [5], [4], [60])], y=Axis(log=True)),
    Chart("bars", [Series(f"s{i}", [f"group {j}" for j in range(9)], range(9)) for i in range(9)]),
    Chart("steps", [Series("a", [0, 1, 2], [None, 3])], y=Axis(log=True)),
    Chart("heat", [Series("a", [1, 2], [None, None])], color=Axis(center=0)),
    Chart("heat", [Series("a", [1, 2], [3, 3])]),
    Chart("heat", [Series(str(i), range(40), range(40)) for i in range(40)], color=Axis(center=20)),
]


@pytest.mark.parametrize("chart", HARD, ids=lambda c: f"{c.kind}-{c.y.log}")
def test_hard_data_is_drawn_without_a_warning(chart: Chart) -> None:
    (picture,) = drawing.panels_as_svg(chart, styles(alt_text.series_names(chart)))
    assert "<svg" in picture
    assert "nan" not in picture


def axes_with(chart: Chart) -> Any:
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    kinds.DRAW[chart.kind](ax, chart, styles(alt_text.series_names(chart)))
    return ax


def test_lines_are_at_their_points_with_their_bands() -> None:
    ax = axes_with(ONE_OF_EACH["lines"])
    assert np.array_equal(ax.lines[0].get_xydata(), [[1, 1], [2, np.nan], [3, 3]], equal_nan=True)
    corners = {tuple(point) for point in ax.collections[0].get_paths()[0].vertices}
    assert {(1, 0), (3, 2), (1, 2), (3, 4)} <= corners
    assert ax.get_xlabel() == "n"


def test_dots_stand_in_their_rows_side_by_side() -> None:
    ax = axes_with(ONE_OF_EACH["dots"])
    points = [
        tuple(np.ravel(line.get_xydata())) for line in ax.lines if line.get_marker() != "None"
    ]
    assert points == [(1.5, 0.0, -2.0, 0.8), (1.0, 1.2)]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["p", "q"]
    assert ax.get_ylim()[0] > ax.get_ylim()[1], "the first row is on top"


def test_dots_beyond_the_axis_leave_an_arrow_and_a_hollow_one_if_the_value_does() -> None:
    dots = [Series("in", ["in"], [0.5], [0.2], [9]), Series("out", ["out"], [7], [0.2], [9])]
    ax = axes_with(Chart("dots", dots, y=Axis(low=0, high=1)))
    arrows = [line for line in ax.lines if line.get_marker() == ">"]
    assert [line.get_xdata()[0] for line in arrows] == [1, 1]
    faces = [line.get_markerfacecolor() for line in arrows]
    assert faces == [styles(["in", "out"])["in"].hex, marks.PAPER]


def test_heat_parts_cells_where_they_pass_the_centre() -> None:
    grid = [Series("0", [1, 2], [-1, 1]), Series("1", [1, 2], [1, 1])]
    ax = axes_with(Chart("heat", grid, color=Axis("d", center=0), notes=[Note(2, "1", "here")]))
    drawn = [tuple(map(tuple, line.get_xydata())) for line in ax.lines]
    borders = sorted(points for points in drawn if len(points) == 2)
    assert borders == [((0, 1), (1, 1)), ((1, 0), (1, 1))]
    assert {points for points in drawn if len(points) == 1} == {((1.5, 1.5),)}
    low, high = ax.collections[0].get_clim()
    assert (low, high) == (-1, 1)


def test_borders_lie_between_neighbours_alone() -> None:
    """The first and the last column differ, and so do the first and the last row."""
    rows = [Series("0", [1, 2, 3], [1, -1, -1]), Series("1", [1, 2, 3], [-1, -1, -1]),
            Series("2", [1, 2, 3], [-1, -1, 0])]  # fmt: skip
    ax = axes_with(Chart("heat", rows, color=Axis(center=0)))
    borders = sorted(tuple(map(tuple, line.get_xydata().tolist())) for line in ax.lines)
    assert borders == [
        ((0, 1), (1, 1)),
        ((1, 0), (1, 1)),
        ((2, 2), (2, 3)),
        ((2, 2), (3, 2)),
    ]
    assert {(line.get_linewidth(), line.get_zorder()) for line in ax.lines} == {(1.6, 4)}


@pytest.mark.parametrize(
    ("kind", "axis", "upright"),
    [("lines", "x", True), ("lines", "y", False), ("dots", "y", True), ("bars", "y", False)],
)
def test_rules_cross_the_axis_they_belong_to(kind: str, axis: str, upright: bool) -> None:
    ax = axes_with(Chart(kind, ONE_OF_EACH[kind].series, rules=[Rule("rule", 0.75, axis)]))
    xs, ys = ax.lines[-1].get_data()
    assert list(xs if upright else ys) == [0.75, 0.75]
    assert list(ys if upright else xs) == [0, 1], "from edge to edge"


def test_bars_of_a_group_do_not_overlap() -> None:
    ax = axes_with(ONE_OF_EACH["bars"])
    spans = sorted((bar.get_x(), bar.get_x() + bar.get_width()) for bar in ax.patches)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
    assert sorted(bar.get_height() for bar in ax.patches) == [1, 2, 2.5, 3]


def test_panels_share_the_ends_of_their_axes() -> None:
    from matplotlib.figure import Figure

    charts = [Chart("lines", [Series("a", [0, 1], [0, top])]) for top in (1, 5)]
    axes = [Figure().subplots() for _ in charts]
    drawing._draw_all(Panels(charts, share_y=True), axes, styles(["a"]))
    assert axes[0].get_ylim() == axes[1].get_ylim()
    assert axes[0].get_ylim()[1] >= 5


def test_lines_lie_above_their_bands_and_carry_a_dozen_markers() -> None:
    x = list(range(25))
    series = [
        Series("a", x, x, [y - 1 for y in x], [y + 1 for y in x]),
        Series("b", x, x),
        Series("truth", x[:12], x[:12]),
    ]
    ax = axes_with(Chart("lines", series))
    looks = styles(["a", "b", "truth"])
    assert [line.get_color() for line in ax.lines] == [look.hex for look in looks.values()]
    assert [line.get_zorder() for line in ax.lines] == [3, 2.99, 4]
    assert [line.get_markevery() for line in ax.lines] == [(0, 3), (1, 3), None]
    (band,) = ax.collections
    assert (band.get_alpha(), band.get_zorder(), list(band.get_linewidth())) == (0.16, 2, [0])


@pytest.mark.parametrize(("log", "bottom"), [(False, 0), (True, None)])
def test_steps_are_outlines_over_a_light_fill_with_intervals_side_by_side(
    log: bool, bottom: int | None
) -> None:
    series = [
        Series("a", [0, 3, 9], [1, 2], [0.5, 1], [2, 3]),
        Series("b", [0, 3, 9], [2, 2], [1, 1], [3, 3]),
    ]
    ax = axes_with(Chart("steps", series, y=Axis(log=log)))
    drawn = [(s.get_fill(), s.get_linewidth(), s.get_alpha(), s.get_zorder()) for s in ax.patches]
    assert drawn == [(False, 1.4, None, 3), (True, 0, 0.1, 1)] * 2
    assert [step.get_data().values.tolist() for step in ax.patches] == [[1, 2]] * 2 + [[2, 2]] * 2
    places = [[segment[0][0] for segment in whisker.get_segments()] for whisker in ax.collections]
    assert places == [[1, 5], [2, 7]]  # thirds of the bins
    assert [(w.get_linewidth()[0], w.get_zorder()) for w in ax.collections] == [(1.5, 3)] * 2
    ends = [[segment[:, 1].tolist() for segment in w.get_segments()] for w in ax.collections]
    assert ends == [[[0.5, 2], [1, 3]], [[1, 3], [1, 3]]]
    assert ax.get_ylim()[0] == bottom if bottom is not None else ax.get_ylim()[0] > 0


def test_bars_share_their_group_and_stand_on_a_line() -> None:
    series = [
        Series("a", ["x", "y"], [1, 2], [0.5, 1], [2, 3]),
        Series("b", ["x", "y"], [3, 4]),
    ]
    ax = axes_with(Chart("bars", series))
    middles = [bar.get_x() + bar.get_width() / 2 for bar in ax.patches]
    assert middles == pytest.approx([-0.2, 0.8, 0.2, 1.2])
    assert {round(bar.get_width(), 12) for bar in ax.patches} == {round(0.4 * 0.88, 12)}
    assert {bar.get_zorder() for bar in ax.patches} == {2}
    assert [segment[0][0] for segment in ax.collections[0].get_segments()] == [-0.2, 0.8]
    (base,) = ax.lines
    assert (list(base.get_ydata()), base.get_color()) == ([0, 0], marks.MUTED)
    assert (base.get_linewidth(), base.get_zorder()) == (0.6, 3)
    assert [tick.get_rotation() for tick in ax.get_xticklabels()] == [0, 0]
    assert list(ax.get_xticks()) == [0, 1]


def test_long_names_of_bars_are_slanted_and_cut() -> None:
    """6.4 inches have room for 87 letters: 35 for one of two names, and 30 below a group."""
    for letters, rotation in ((35, 0), (36, 35)):
        ax = axes_with(Chart("bars", [Series("a", ["n" * letters, "y"], [1, 2])]))
        names = ax.get_xticklabels()
        assert [name.get_rotation() for name in names] == [rotation] * 2
        assert [name.get_text() for name in names] == ["n" * 29 + "…", "y"]
        assert [name.get_ha() for name in names] == ["right" if rotation else "center"] * 2


def test_rows_of_dots_are_parted_and_every_dot_has_a_marker() -> None:
    series = [Series("truth", ["p", "q", "r"], [1, 2, 3], [0, 1, 2], [2, 3, 4])]
    ax = axes_with(Chart("dots", series))
    borders, dots = ax.lines[1:3], ax.lines[0]
    assert [line.get_ydata()[0] for line in borders] == [0.5, 1.5]
    assert {(line.get_linewidth(), line.get_zorder()) for line in borders} == {(0.6, 0)}
    assert len(ax.lines) == 3
    assert (dots.get_marker(), dots.get_markersize(), dots.get_linestyle()) == ("o", 6, "None")
    assert dots.get_zorder() == 4
    assert dots.get_markeredgewidth() == 0
    assert ax.get_ylim() == (2.5, -0.5)
    assert not ax.spines["left"].get_visible()
    assert [line.get_visible() for line in (*ax.get_xgridlines(), *ax.get_ygridlines())] == [
        True
    ] * len(ax.get_xgridlines()) + [False] * 3


def test_arrows_point_to_both_sides_and_leave_the_axis_as_it_is() -> None:
    rows = [
        Series("low", ["low"], [0.5], [-3], [0.9]),
        Series("lost", ["lost"], [-7], [-9], [-5]),
        Series("none", ["none"], [0.5], [0], [1]),
        Series("gap", ["gap"], [None]),
    ]
    ax = axes_with(Chart("dots", rows, y=Axis(low=0, high=1)))
    arrows = [line for line in ax.lines if line.get_marker() in "<>"]
    assert [(*a.get_xydata()[0], a.get_marker()) for a in arrows] == [(0, 0, "<"), (0, 1, "<")]
    looks = styles(["low", "lost", "none"])
    assert [a.get_markerfacecolor() for a in arrows] == [looks["low"].hex, marks.PAPER]
    assert {(a.get_markersize(), a.get_zorder(), a.get_clip_on()) for a in arrows} == {
        (5, 5, False)
    }
    assert ax.get_xlim() == (0, 1)


def grid(rows: int, columns: int) -> list[Series]:
    return [Series(f"r{i}", range(columns), [i + j for j in range(columns)]) for i in range(rows)]


@pytest.mark.parametrize(
    ("rows", "columns", "written"), [(10, 12, 120), (10, 13, 0), (13, 10, 130), (11, 12, 0)]
)
def test_cells_carry_their_numbers_where_they_fit(rows: int, columns: int, written: int) -> None:
    ax = axes_with(Chart("heat", grid(rows, columns)))
    assert len(ax.texts) == written
    assert [text.get_position() for text in ax.texts[:2]] == [(0.5, 0.5), (1.5, 0.5)][:written]


def test_numbers_in_cells_stand_out_from_their_colour() -> None:
    ax = axes_with(Chart("heat", [Series("r", range(4), [0, 1, 2, None])]))
    assert [text.get_text() for text in ax.texts] == ["0", "1", "2"]
    assert [text.get_color() for text in ax.texts] == ["#fdfdfd", "#fdfdfd", "#0b0b0b"]
    assert {text.get_fontsize() for text in ax.texts} == {7.5}
    shades = axes_with(Chart("heat", [Series("r", range(11), range(11))])).texts
    light = [text.get_color() == "#fdfdfd" for text in shades]
    assert light == [True] * 6 + [False] * 5  # colours get lighter from 0 to 10


@pytest.mark.parametrize(
    ("axis", "ends", "colors"),
    [
        (Axis(), (1, 4), "cividis"),
        (Axis(low=0), (0, 4), "cividis"),
        (Axis(high=9), (1, 9), "cividis"),
        (Axis(center=2), (0, 4), "PuOr"),
        (Axis(center=3), (1, 5), "PuOr"),
        (Axis(center=2, low=-3), (-3, 7), "PuOr"),
    ],
)
def test_colours_span_the_data_evenly_on_both_sides_of_a_centre(
    axis: Axis, ends: tuple[float, float], colors: str
) -> None:
    ax = axes_with(Chart("heat", [Series("r", [0, 1, 2], [1, 4, None])], color=axis))
    mesh = ax.collections[0]
    assert mesh.get_clim() == ends
    assert mesh.cmap.name == colors
    assert mesh.cmap.N == 33


def test_a_grid_without_differences_or_numbers_is_drawn() -> None:
    for y, ends in (([2.0], (1, 3)), ([None], (1, 3))):
        ax = axes_with(Chart("heat", [Series("r", [0], y)], color=Axis(center=2)))
        assert ax.collections[0].get_clim() == (ends if y[0] else (0, 4))


def test_a_ring_is_dark_on_light_and_its_words_stand_above() -> None:
    ax = axes_with(Chart("heat", grid(2, 3), notes=[Note(2, "r1", "best")]))
    rings = [
        (r.get_markeredgecolor(), r.get_markeredgewidth(), r.get_markersize()) for r in ax.lines
    ]
    assert rings == [("#fdfdfd", 3.0, 17), ("#0b0b0b", 1.3, 17)]
    assert [ring.get_xydata().tolist() for ring in ax.lines] == [[[2.5, 1.5]]] * 2
    assert {ring.get_zorder() for ring in ax.lines} == {5}
    words = ax.texts[-1]
    assert (words.get_text(), words.xy, words.xyann) == ("best", (2.5, 1.5), (0, 12))
    long = axes_with(Chart("heat", grid(2, 3), notes=[Note(2, "r1", "n" * 60)])).texts[-1]
    assert long.get_text() == "n" * 25 + "…"
    assert words.get_fontsize() == 7.5


@pytest.mark.parametrize(("count", "step"), [(12, 1), (13, 2), (26, 3)])
def test_a_grid_has_at_most_a_dozen_names_a_side(count: int, step: int) -> None:
    ax = axes_with(Chart("heat", grid(count, count)))
    for ticks in (ax.get_xticks(), ax.get_yticks()):
        assert list(ticks) == [i + 0.5 for i in range(0, count, step)]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == [
        f"r{i}" for i in range(0, count, step)
    ]
    assert not any(spine.get_visible() for spine in ax.spines.values())
    assert not any(line.get_visible() for line in (*ax.get_xgridlines(), *ax.get_ygridlines()))


def test_cells_and_their_scale_have_no_gaps_and_no_frame() -> None:
    ax = axes_with(Chart("heat", grid(2, 3), color="share"))
    bar = ax.figure.axes[1]
    assert bar.get_ylabel() == "share"
    assert not bar.spines["outline"].get_visible()
    solids = [c for c in bar.collections if len(c.get_facecolor())]
    assert {width for mesh in (ax.collections[0], *solids) for width in mesh.get_linewidth()} == {
        0.4
    }


@pytest.mark.parametrize(
    ("letters", "text"), [(87, "n" * 87), (88, "n" * 86 + "…"), (0, ""), (500, "n" * 86 + "…")]
)
def test_texts_are_cut_to_the_width_of_the_figure(letters: int, text: str) -> None:
    """6.4 inches, 0.073 for a letter."""
    from matplotlib.figure import Figure

    ax = Figure(figsize=(6.4, 4.8)).subplots()
    assert marks.fit(ax, "n" * letters) == text
    assert marks.fit(ax, "n" * 50, 0.5) == "n" * 42 + "…"


@pytest.mark.parametrize(
    ("high", "locator", "subs"),
    [(9, "MaxNLocator", None), (10, "LogLocator", [1, 2, 5]), (300, "LogLocator", [1, 2, 5])],
)
def test_log_axes_of_few_decades_have_steps_between_powers(
    high: float, locator: str, subs: list[float] | None
) -> None:
    ax = axes_with(
        Chart("lines", [Series("a", [1, high], [1, 2])], x=Axis(log=True, low=1, high=high))
    )
    chosen = ax.xaxis.get_major_locator()
    assert type(chosen).__name__ == locator
    assert list(chosen._subs) == subs if subs else chosen._nbins == 5


def test_log_axes_of_many_decades_have_powers_of_ten() -> None:
    ax = axes_with(
        Chart("lines", [Series("a", [1, 1e3], [1, 2])], x=Axis(log=True, low=1, high=1e3))
    )
    assert [say for say in map(marks._power, ax.get_xticks(), [0] * 9) if say][1:3] == ["1", "10"]
    assert ax.get_xlim() == (1, 1e3)


@pytest.mark.parametrize(("log", "middle"), [(False, 5.0), (True, 3.0)])
def test_the_words_of_a_bracket_stand_at_its_middle(log: bool, middle: float) -> None:
    chart = Chart(
        "lines", [Series("a", [1, 2], [1, 9])], y=Axis(log=log), notes=[Note(1, 1, "n", to=9)]
    )
    bracket, words = axes_with(chart).texts
    assert (bracket.xy, bracket.xyann, bracket.get_text()) == ((1, 1), (1, 9), "")
    assert (words.xy, words.xyann, words.get_text()) == ((1, middle), (6, 0), "n")
    assert bracket.arrow_patch.get_linewidth() == 0.9
    assert bracket.arrow_patch.shrinkA == bracket.arrow_patch.shrinkB == 0
    assert words.get_fontsize() == 7.5


def test_a_note_stands_beside_its_point() -> None:
    (words,) = axes_with(
        Chart("lines", [Series("a", [1, 2], [1, 9])], notes=[Note(1, 2, "here")])
    ).texts
    assert (words.xy, words.xyann, words.get_text()) == ((1, 2), (4, 4), "here")


def test_notes_take_half_of_the_width() -> None:
    for to in (None, 9.0):
        chart = Chart("lines", [Series("a", [1, 2], [1, 9])], notes=[Note(1, 2, "n" * 60, to)])
        assert axes_with(chart).texts[-1].get_text() == "n" * 42 + "…"


def test_rules_are_dashed_above_the_lines() -> None:
    ax = axes_with(Chart("lines", [Series("a", [0, 1], [0, 1])], rules=[Rule("truth", 0.5)]))
    rule = ax.lines[-1]
    assert rule.is_dashed()
    assert (rule.get_linewidth(), rule.get_zorder()) == (1.3, 3.5)
    assert rule.get_color() == styles(["truth"])["truth"].hex


@pytest.mark.parametrize(
    ("chart", "height"),
    [
        (Chart("lines", [Series("a", [0], [1])]), 1.5 + 0.28 * 4),
        (Chart("heat", [Series(f"r{i}", [0], [1]) for i in range(3)]), 1.5 + 0.28 * 4),
        (Chart("heat", [Series(f"r{i}", [0], [1]) for i in range(10)]), 0.9 + 0.26 * 10),
        (
            Chart("dots", [Series("a", ["x", "y"], [1, 1]), Series("b", ["y"], [1])]),
            0.8 + (0.14 + 0.16) + (0.14 + 0.32),
        ),
    ],
)
def test_charts_are_as_high_as_their_rows_need(chart: Chart, height: float) -> None:
    assert drawing._height(chart, 4) == pytest.approx(height)


def test_panels_of_dots_share_an_axis_that_counts_downwards() -> None:
    from matplotlib.figure import Figure

    charts = [Chart("dots", [Series("a", list("pqr")[:n], [1.0] * n)]) for n in (1, 3)]
    axes = [Figure().subplots() for _ in charts]
    drawing._draw_all(Panels(charts, share_y=True), axes, styles(["a"]))
    assert [ax.get_ylim() for ax in axes] == [(2.5, -0.5)] * 2
    assert axes[0].get_xlim() == axes[1].get_xlim()
    wide = [Chart("lines", [Series("a", [0, end], [0, 1])]) for end in (1, 5)]
    axes = [Figure().subplots() for _ in wide]
    drawing._draw_all(Panels(wide, share_x=True), axes, styles(["a"]))
    assert axes[0].get_xlim() == axes[1].get_xlim()
    assert axes[0].get_xlim()[1] >= 5


@pytest.mark.parametrize(("columns", "inches"), [(1, 5.6), (2, 3.5), (3, 2.5), (4, 2.1)])
def test_charts_side_by_side_are_narrower(columns: int, inches: float) -> None:
    charts = Panels([Chart("lines", [Series("a", [0, 1], [0, 1])])] * columns, columns=columns)
    for picture in drawing.panels_as_svg(charts, styles(["a"])):
        box = ElementTree.fromstring(picture).get("viewBox", "").split()  # noqa: S314
        assert [float(side) for side in box] == [
            0,
            0,
            pytest.approx(72 * inches),
            pytest.approx(72 * (1.5 + 0.28 * inches)),
        ]


def test_columns_are_no_more_than_charts() -> None:
    one = ONE_OF_EACH["bars"]
    assert [drawing.columns_of(Panels([one] * n, columns=3)) for n in (1, 2, 3, 4)] == [1, 2, 3, 3]
    assert drawing.columns_of(one) == 1


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        (["a", "b"], 2),
        (["a", "b", "c", "d", "e"], 3),
        (["n" * 30, "b", "c"], 2),
        (["n" * 90] * 1, 1),
    ],
)
def test_the_legend_of_a_picture_has_as_many_columns_as_fit(names: list[str], columns: int) -> None:
    from matplotlib.figure import Figure

    figure = Figure((5.6, 3), layout="constrained")
    chart = Chart("lines", [Series(n, [0], [1]) for n in names], rules=[Rule(names[0], 1)])
    drawing._add_legend(figure, chart, styles(names))
    (legend,) = figure.legends
    assert legend._ncols == columns
    shown = [text.get_text() for text in legend.get_texts()]
    assert shown == [name if len(name) <= 67 else name[:61] + "…" for name in names]


@pytest.mark.parametrize(
    ("value", "words"),
    [(1e-7, "10⁻⁷"), (0.05, "0.05"), (1e12, "10¹²"), (2e-5, "2·10⁻⁵"), (0, ""), (10_000, "10⁴")],
)
def test_ticks_of_log_axes(value: float, words: str) -> None:
    assert marks._power(value, 0) == words


# ---------------------------------------------------------------- looks


def linear(color: str) -> np.ndarray:
    rgb = np.array([int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def perceived(rgb: np.ndarray) -> np.ndarray:
    """OKLab (Ottosson 2020), in which equal distances look about equally different."""
    to_lms = [[0.41222, 0.53633, 0.05145], [0.21190, 0.68070, 0.10740], [0.08830, 0.28172, 0.62998]]
    to_lab = [
        [0.21045, 0.79362, -0.00407],
        [1.97800, -2.42859, 0.45059],
        [0.0259, 0.78277, -0.80868],
    ]
    return np.array(to_lab) @ np.cbrt(np.array(to_lms) @ np.clip(rgb, 0, 1))


# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
EYES = {
    "all cones": np.eye(3),
    "protanopia": [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]],
    "deuteranopia": [
        [0.3673, 0.8606, -0.2280],
        [0.2801, 0.6725, 0.0474],
        [-0.0118, 0.0429, 0.9689],
    ],
    "tritanopia": [[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]],
}


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("eyes", EYES)
def test_every_two_colours_differ_for_every_pair_of_eyes(theme: int, eyes: str) -> None:
    colors = [*(pair[theme] for pair in PALETTE.values()), THEME["ink"][theme]]
    seen = [perceived(np.array(EYES[eyes]) @ linear(color)) for color in colors]
    closest = min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2))
    assert closest > 0.07  # a just noticeable difference is about 0.02


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_every_colour_stands_out_from_the_page(theme: int) -> None:
    def contrast(a: str, b: str) -> float:
        dark, bright = sorted(linear(c) @ [0.2126, 0.7152, 0.0722] for c in (a, b))
        return float((bright + 0.05) / (dark + 0.05))

    for name, pair in PALETTE.items():
        assert contrast(pair[theme], THEME["paper"][theme]) >= 3, name
    for text, ground in itertools.product(("ink", "muted"), ("paper", "soft")):
        assert contrast(THEME[text][theme], THEME[ground][theme]) >= 4.5, (text, ground)


def test_a_registered_name_looks_the_same_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = Style("green", "star", "dotted")
    monkeypatch.setitem(STYLES, "mine", mine)
    for names in (["mine"], ["a", "mine"], [*"abcdefghij", "mine"]):
        found = styles(names)
        assert found["mine"] == mine
        assert list(found) == names
        assert len(set(found.values())) == len(names)
    assert "green" not in {
        style.color for name, style in styles([*"abcdefg", "mine"]).items() if name != "mine"
    }


def test_strangers_keep_their_look_when_more_follow() -> None:
    assert styles("abc")["b"] == styles("ab")["b"] == styles("abab")["b"]
    assert len(set(styles(str(i) for i in range(24)).values())) == 24
    assert len(styles(str(i) for i in range(99))) == 99


def test_a_name_has_one_colour_on_the_whole_page() -> None:
    charts = [
        Chart("bars", [Series(name, [name], [1.0]) for name in names])
        for names in ("ab", "cb", "b")
    ]
    source = report.render(Page("t", sections=[Section("s", charts)]))
    orange = styles("abc")["b"].color
    filled = [re.findall(r"fill: var\(--(\w+)", figure) for figure in source.split("<figure>")[1:]]
    assert all(orange in colors for colors in filled)
    assert set(filled[2]) & set(PALETTE) == {orange}


# ---------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("cell", "spec", "words", "spread", "sort"),
    [
        (None, "", "–", "", "missing"),
        (float("nan"), ".2f", "–", "", "missing"),
        (np.float32(-0.5), ".2f", "−0.50", "", "-0.5"),
        (float("inf"), ".2f", "∞", "", "inf"),
        (1234567, "", "1,234,567", "", "1234567.0"),
        (-0.0, "", "0", "", "-0.0"),
        (True, "", "yes", "", "1.0"),
        ("text", ".2f", "text", "", ""),
        (Estimate(0.5, 0.25, 0.75), ".1%", "50.0%", "[25.0%, 75.0%]", "0.5"),
        (Estimate(2, error=0.5), "", "2", "± 0.5", "2.0"),
        (Estimate(None), "", "–", "", "missing"),
        (Verdict("error", "does not hold"), "", "does not hold", "", 3),
    ],
)
def test_cells_in_words(cell: Any, spec: str, words: str, spread: str, sort: Any) -> None:
    view = html.cell_view(cell, spec)
    assert (view["text"], view["spread"], view["sort"]) == (words, spread, sort)


def test_numbers_stand_right_and_verdicts_have_words_and_signs(rich: str) -> None:
    assert '<td class="number" data-sort="0.42">0.420 <span class="spread">[' in rich
    assert '<span class="verdict error"><span aria-hidden="true">✕</span> do not use</span>' in rich


@pytest.mark.parametrize("kind", report.KINDS)
def test_descriptions_name_every_series(kind: str) -> None:
    told = alt_text.described(ONE_OF_EACH[kind])
    assert all(f" {one.name}: " in told for one in ONE_OF_EACH[kind].series)
    own = Chart(kind, ONE_OF_EACH[kind].series, description="Mine.")
    assert alt_text.described(own) == "Mine."


def test_a_description_names_eight_series_and_counts_the_others() -> None:
    for count, last in ((8, "s7: 7 at 1."), (10, "s7: 7 at 1. And 2 more series.")):
        chart = Chart("lines", [Series(f"s{i}", [1], [i]) for i in range(count)])
        assert alt_text.described(chart).endswith(last)


def test_a_name_that_only_rules_have_is_dashed_in_both_legends() -> None:
    chart = Chart("lines", [Series("a", [0, 1], [1, 2])], rules=[Rule("target", 1.5)])
    looks = styles(["a", "target"])
    page = html.VIEWS[Chart](chart, "c", looks)
    assert [(one["name"], one["dash"]) for one in page["legend"]] == [("a", ""), ("target", "10 4")]
    handles = [drawing._handle(looks[n], alt_text.drawn_as(chart, n)) for n in ("a", "target")]
    assert [handle.is_dashed() for handle in handles] == [False, True]


def test_every_free_look_of_a_series_has_a_marker() -> None:
    looks = list(styles(f"s{i}" for i in range(24)).values())
    assert "none" not in {look.marker for look in looks}
    assert len(set(looks)) == 24
    assert len({(look.marker, look.dash) for look in looks}) == 24
    firsts = [(look.color, look.marker, look.dash) for look in looks[::8]]
    assert firsts == [
        ("blue", "circle", "solid"), ("blue", "diamond", "dashed"), ("blue", "cross", "dotted"),
    ]  # fmt: skip


def test_looks_of_strangers_keep_away_from_those_that_are_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """First other colours, then the same colour with another marker or dash."""
    mine = Style("blue", "circle")
    monkeypatch.setitem(STYLES, "mine", mine)
    looks = styles(["mine", *(f"s{i}" for i in range(23))])
    assert len(set(looks.values())) == 24
    colors = [look.color for look in looks.values()]
    assert "blue" not in colors[1:22]
    assert colors[22:] == ["blue", "blue"]


def test_numbers_of_drawings_are_short_and_other_attributes_untouched() -> None:
    where = svg._attribute("d", "M 1.23456 7.0\n  L -0.00123 100.98765", "p")
    assert where == "M 1.23 7.0 L -0.00 100.99"
    assert svg._attribute("transform", "translate(10.123456 2)", "p") == "translate(10.12 2)"
    assert svg._attribute("width", "1.23456", "p") == "1.23456"
    assert svg._attribute("clip-path", "url(#a)", "p") == "url(#p-a)"
    assert svg._attribute("href", "#a", "p") == "#p-a"
    assert svg._attribute("id", "a", "p") == "p-a"
    style = svg._attribute("style", "fill: #0072b2; font-family: x; stroke-width: 1.23456", "p")
    assert "font-family" not in style
    assert style.endswith("stroke-width: 1.23456")


# ---------------------------------------------------------------- what is refused


ONE = Series("a", [1.0], [1.0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Chart("pie", [ONE]), "unknown kind of chart 'pie'; use one of: bars"),
        (lambda: Chart("lines", []), "needs series with different names"),
        (lambda: Chart("lines", [ONE, ONE]), "needs series with different names"),
        (lambda: Chart("lines", ["a"]), "series of a chart must be Series; got 'a' at place 0"),
        (lambda: Chart("lines", [Series("a", ["x"], [1])]), "a line needs one number x per y"),
        (lambda: Chart("lines", [Series("a", [1, 2], [1])]), "a line needs one number x per y"),
        (lambda: Chart("steps", [ONE]), r"n \+ 1 rising edges"),
        (lambda: Chart("steps", [Series("a", [1, 0], [1])]), r"n \+ 1 rising edges"),
        (lambda: Chart("bars", [Series("a", ["x", "x"], [1, 2])]), "each once"),
        (lambda: Chart("heat", [ONE, Series("b", [2], [1])]), "'b' differs from 'a'"),
        (lambda: Chart("heat", [Series("a", [1], [1], [0], [2])]), "and no intervals"),
        (lambda: Series("a", [1], [1], high=[2]), "as many low and high"),
        (lambda: Chart("lines", [Series("a", [0], [1])], x=Axis("p", log=True)), "positive x"),
        (lambda: Chart("lines", [Series("a", [1], [-1])], y=Axis(log=True)), "no positive y"),
        (lambda: Chart("bars", [ONE], y=Axis(log=True)), "has no log axis there"),
        (lambda: Chart("dots", [ONE], x=Axis(log=True)), "has no log axis there"),
        (lambda: Chart("dots", [ONE], rules=[Rule("a", 1, "x")]), "no place for a rule"),
        (lambda: Chart("heat", [ONE], rules=[Rule("a", 1)]), "no place for a rule"),
        (lambda: Chart("bars", [ONE], notes=[Note(1, 1, "n")]), "is no such place"),
        (lambda: Chart("heat", [ONE], notes=[Note(1, "b")]), "is no such place"),
        (lambda: Series("a", [1], []), "at least one y"),
        (lambda: Series("a", [1], [1], low=[0]), "as many low and high"),
        (lambda: Series("a", [1, 2], [1, 2], [0], [3]), "as many low and high"),
        (lambda: Series("a", [1], [1], [2], [1]), "low must not exceed high"),
        (lambda: Series("a", [1], ["one"]), "y of series 'a' must be numbers"),
        (lambda: Series("a", [1, float("inf")], [1, 2]), "x of series 'a' must be finite; got inf"),
        (lambda: Axis("p", low=1, high=0), "must run from low to high"),
        (lambda: Axis("p", low=0, log=True), "needs positive ends"),
        (lambda: Rule("a", float("nan")), "must lie at a finite number"),
        (lambda: Rule("a", 1, "z"), "unknown axis 'z'"),
        (lambda: Panels([]), "at least one chart"),
        (lambda: Panels([ONE_OF_EACH["bars"]], columns=9), "1 to 4 columns"),
        (lambda: Style("blue", "blob"), "unknown marker 'blob'"),
        (lambda: Table([], []), "columns with different names"),
        (lambda: Table(["a", "a"], []), "columns with different names"),
        (lambda: Table(["a"], [[1, 2]], "T"), "row 0 of table 'T' has 2 cells for 1 columns"),
        (lambda: Column("a", "%d"), "which numbers do not take"),
        (lambda: Estimate(1, low=0), "has low and high, or an error"),
        (lambda: Estimate(1, 0, 2, 3), "has low and high, or an error"),
        (lambda: Estimate(1, 2, 0), "low must not exceed high"),
        (lambda: Verdict("bad", "x"), "unknown level of a verdict 'bad'"),
        (lambda: Verdict("good", ""), "needs words"),
        (lambda: report.Verdicts(["x"]), "verdicts must be Verdict"),
        (lambda: report.Facts([("a", 1, 2)]), "pairs of a name and a value"),
        (lambda: report.Commands("unmask demo"), "list of lines"),
        (lambda: Section("", []), "needs a title"),
        (lambda: Section("s", ["text"]), "part 0 of section 's' is 'text'; use one of: Text"),
        (lambda: Page(" "), "needs a title"),
        (lambda: Page("t", summary="text"), "list of sentences"),
        (lambda: Page("t", sections=["s"]), "sections of a page must be Section"),
        (lambda: report.save(Table(["a"], []), "a.png"), r"a table is saved as \.csv, \.json; got"),
        (lambda: report.save(ONE_OF_EACH["bars"], "a.pdf"), r"a chart is saved as \.csv"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_a_sentence(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        make()
    assert str(caught.value).endswith(".")


def test_inputs_are_copied_and_records_compare() -> None:
    y = np.array([1.0, 2.0])
    series = Series("a", [1, 2], y)
    y[0] = 9
    assert series.y == (1.0, 2.0)
    assert series == Series("a", (1.0, 2.0), [1, 2])
