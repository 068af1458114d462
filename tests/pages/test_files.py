"""A page as HTML and Markdown: self-contained, escaped, accessible, the same bytes every time."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import subprocess
import sys
import zipfile
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.pages import EVIL, ONE_OF_EACH, everything_named, rich_page
from tests.helpers.paths import ROOT
from unmask import pages
from unmask._text import printable
from unmask.pages import Chart, Estimate, Page, Panels, Section, Series, Table, Text, Verdict
from unmask.pages.describe import as_csv
from unmask.pages.parts import PALETTE, THEME, Column, Facts, Part, Verdicts, styles_of

STRANGE = "日本語 🙂 a\x00b \ud800 $x^2$ \\frac"


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
        return [value for _, attrs in self.tags for name, value in attrs.items() if name in names]


def page_of(*parts: Part, **more: object) -> Page:
    return Page("Study", sections=[Section("Part", parts)], **more)


@pytest.fixture(scope="module")
def rich() -> str:
    return pages.render(rich_page())


def test_markup_in_data_stays_text() -> None:
    elements = Elements(pages.render(everything_named(EVIL)))
    tags = [tag for tag, _ in elements.tags]
    assert tags.count("script") == 1
    assert "img" not in tags
    assert not [name for _, attrs in elements.tags for name in attrs if name.startswith("on")]
    assert sum(EVIL in text for text in elements.texts) > 25


def test_strange_characters_are_drawn_and_stay_in_the_text() -> None:
    page = pages.render(everything_named(STRANGE))
    assert page.encode()
    assert "日本語 🙂 a�b � $x^2$ \\frac</text>" in page


@settings(max_examples=40)
@given(st.text(max_size=30))
def test_any_text_in_a_table_comes_back_as_text(text: str) -> None:
    source = pages.render(page_of(Table(["name"], [[text]])))
    assert [tag for tag, _ in Elements(source).tags].count("script") == 1
    shown = re.search(r'<th scope="row"[^>]*>(.*?)</th>', source, re.DOTALL)
    assert shown
    assert "".join(Elements(shown[1]).texts) == printable(text).strip()


def test_a_page_needs_no_other_file_and_runs_exactly_our_script(rich: str) -> None:
    elements = Elements(rich)
    for link in elements.attributes("src", "href", "xlink:href", "action", "srcset", "poster"):
        assert link.startswith(("#", "data:")), link
    assert "://" not in rich
    assert "@import" not in rich
    assert set(re.findall(r"url\((.)", rich)) <= {"#"}
    assert "default-src 'none'" in rich
    (script,) = re.findall(r"<script>(.*?)</script>", rich, re.DOTALL)
    (allowed,) = re.findall(r"'sha256-([^']+)'", rich)
    assert base64.b64decode(allowed) == hashlib.sha256(script.encode()).digest()


def test_ids_are_unique_and_every_reference_leads_to_one(rich: str) -> None:
    elements = Elements(rich)
    ids = elements.attributes("id")
    assert len(ids) == len(set(ids))
    links = [link[1:] for link in elements.attributes("href") if link.startswith("#")]
    links += [name for names in elements.attributes("aria-labelledby") for name in names.split()]
    links += re.findall(r"url\(#([^)]+)\)", rich)
    assert len(links) > 100
    assert set(links) <= set(ids)


def test_a_rich_page_is_small_and_an_enormous_one_is_refused(rich: str, tmp_path: Path) -> None:
    assert len(rich.encode()) < 400_000
    path = tmp_path / "page.html"
    path.write_text("the old page")
    with pytest.raises(ValueError, match=r"would have [\d,]+ bytes, more than 3,000,000"):
        pages.write(page_of(Text("x" * 3_000_000)), path)
    assert path.read_text() == "the old page"
    assert os.listdir(tmp_path) == ["page.html"]


def test_structure_for_screen_readers(rich: str) -> None:
    elements = Elements(rich)
    tags = [tag for tag, _ in elements.tags]
    assert tags.count("h1") == tags.count("main") == tags.count("nav") == 1
    assert tags.count("caption") == tags.count("table") > 3
    assert all(attrs["scope"] in ("row", "col") for tag, attrs in elements.tags if tag == "th")
    drawn = [attrs for tag, attrs in elements.tags if tag == "svg" and "role" in attrs]
    assert len(drawn) == 7 + 2  # those that stand alone are drawn once more, for phones
    assert tags.count("title") == tags.count("desc") + 1 == 10
    assert ("html", {"lang": "en"}) in elements.tags


def test_charts_in_a_page_have_real_text_in_the_colours_of_the_theme(rich: str) -> None:
    texts = re.findall(r"<text[^>]*>[^<]*</text>", rich)
    assert any(">propensity<" in text for text in texts)
    rules = dict(
        re.findall(r"\.([\w-]+)\{([^}]*)\}", "".join(re.findall(r"<style>(.*?)</style>", rich)))
    )
    for text in texts:
        shared = re.search(r'class="([^"]*)"', text)
        style = rules[shared[1]] if shared else text
        assert "var(--" in style
    assert "font-family" not in "".join(texts)
    styles_in_svg = re.findall(r'<(?:path|use)[^>]*style="([^"]*)"', rich)
    fixed = {color for style in styles_in_svg for color in re.findall(r"(?<!, )#\w{6}", style)}
    light = {pair[0] for pair in [*PALETTE.values(), *THEME.values()]}
    assert not fixed & light, "every colour of the palette is a variable"


def test_text_between_backticks_is_code() -> None:
    shown = pages.render(page_of(Text("use `a<b` now\n\none ` alone")))
    assert "<p>use <code>a&lt;b</code> now</p>" in shown
    assert "<p>one ` alone</p>" in shown


def test_numbers_of_a_chart_are_shown_and_linked_up_to_a_size() -> None:
    for points, table, link in ((300, True, True), (301, False, True), (2000, False, True),
                                (2001, False, False)):  # fmt: skip
        chart = Chart("lines", [Series("a", range(points), np.sin(np.arange(points) / 400))])
        source = pages.render(page_of(chart))
        assert ("<details>" in source, "data:text/csv" in source) == (table, link)
    assert len(source) < 80_000


PROGRAM = """
import sys, hashlib
import unmask.pages as pages
loaded = {"matplotlib", "jinja2"} & set(sys.modules)
assert not loaded, loaded
if sys.argv[1:]:
    import matplotlib
    matplotlib.rcParams.update({"font.size": 30, "svg.hashsalt": "other", "axes.xmargin": 0.5})
from tests.helpers.pages import everything_named
text = pages.render(everything_named("unbiased"))
assert "matplotlib.pyplot" not in sys.modules
if sys.argv[1:]:
    assert matplotlib.rcParams["font.size"] == 30
print(hashlib.sha256(text.encode()).hexdigest())
"""


@pytest.mark.slow
def test_the_same_page_has_the_same_bytes_whatever_was_configured_and_imported() -> None:
    digests = set()
    for seed, argument in (("1", []), ("2", ["mine"])):
        run = subprocess.run(
            [sys.executable, "-c", PROGRAM, *argument],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
        )
        assert run.returncode == 0, run.stderr
        digests.add(run.stdout)
    page = pages.render(everything_named("unbiased"))
    assert digests == {hashlib.sha256(page.encode()).hexdigest() + "\n"}


def test_a_name_has_one_colour_on_the_whole_page() -> None:
    charts = [Chart("dots", [Series(n, [n], [1.0]) for n in names]) for names in ("ab", "cb", "b")]
    source = pages.render(page_of(*charts))
    orange = styles_of(*charts)["b"].color
    filled = [re.findall(r"fill:var\(--(\w+)", figure) for figure in source.split("<figure>")[1:]]
    assert all(orange in colors for colors in filled)
    assert set(filled[2]) & set(PALETTE) == {orange}


def test_numbers_stand_right_and_verdicts_have_words_and_signs(rich: str) -> None:
    number = r'<td class="number" data-sort="0.42"[^>]*>0.420 <span class="spread">\['
    assert re.search(number, rich)
    assert '<span class="verdict error"><span aria-hidden="true">✕</span> do not use</span>' in rich
    words = pages.render(page_of(Table(["a", "b"], [[True, "x"], [None, 1]])))
    assert words.count('<th scope="col">') == 2, "truth values and mixed columns stand left"
    assert pages.render(page_of(Table(["a", "b"], []))).count('<th scope="col">') == 2


def test_the_evidence_of_a_claim_with_an_effect_is_folded() -> None:
    claim = Verdict("good", "It holds", evidence="many numbers", effect="+1.0 points")
    shown = pages.render(page_of(Verdicts([claim])))
    before, _, folded = shown.partition("<details><summary>Numbers")
    assert "<p>+1.0 points</p>" in before
    assert "many numbers" not in before
    assert "<p>many numbers</p>" in folded


def test_anchors_are_short_and_only_panels_have_titles_of_their_own() -> None:
    chart = Chart("dots", [Series("s", ["x"], [1.0])], title="Alone")
    panels = Panels([chart, Chart("dots", chart.series, title="Other")])
    for part, titles in ((chart, []), (panels, ["Alone", "Other"])):
        page = Page("P", sections=[Section("-" + "b" * 80 + "-", [part])])
        source = pages.render(page)
        assert re.findall(r'<h2 id="([^"]*)"', source) == ["s1-" + "b" * 60]
        assert re.findall(r'class="panel-title">(.*?)<', source) == titles
        assert ('class="phone"' in source) == (part is chart), "drawn once more where it is wide"


# ------------------------------------------------------------------------------- saved drawings


def test_every_kind_is_saved_as_a_picture(tmp_path: Path) -> None:
    for kind, chart in ONE_OF_EACH.items():
        data = pages.save(chart, tmp_path / f"{kind}.png").read_bytes()
        assert data.startswith(b"\x89PNG\r\n")
        width, height = (int.from_bytes(data[i : i + 4], "big") for i in (16, 20))
        assert width > 900
        assert height > 300
        data = pages.save(chart, tmp_path / f"{kind}.svg").read_bytes()
        assert b"<image" not in data, "no pixels"
        assert b"prefers-color-scheme" in data
        assert data.count(b"http") == 1, "the name space only"
    with pytest.raises(ValueError, match=r"a table is saved as \.csv, \.json; got"):
        pages.save(Table(["a"], []), "a.png")
    with pytest.raises(ValueError, match=r"a chart is saved as \.csv"):
        pages.save(chart, "a.pdf")


def test_svg_files_hold_data_as_text_and_have_the_width_that_was_asked_for(tmp_path: Path) -> None:
    chart = Chart("dots", [Series(EVIL, [EVIL], [1.0])], title=EVIL)
    for width, points in ((None, 5.6 * 72), (3.4, 3.4 * 72)):
        file = pages.save(chart, tmp_path / "c.svg", width=width)
        root = ElementTree.fromstring(file.read_text())  # noqa: S314
        assert float(root.get("viewBox", "").split()[2]) == pytest.approx(points)
        tags = [element.tag.rpartition("}")[2] for element in root.iter()]
        assert not {"script", "img", "image"} & set(tags)
        assert EVIL in [element.text for element in root.iter()]
        texts = [element.text or "" for element in root.iter() if element.tag.endswith("text")]
        assert any(text.startswith("<script>alert") for text in texts)


# ------------------------------------------------------------------------------------- Markdown

CHART = Chart("lines", [Series("vanilla", [1, 2], [0.5, 0.6])], title="Recall")


def written(tmp_path: Path, *shown: Part) -> str:
    return pages.write_markdown(page_of(*shown), tmp_path / "study.md").read_text()


def test_links_lead_to_files_and_every_drawing_is_linked(tmp_path: Path) -> None:
    text = written(tmp_path, CHART, Panels([CHART, CHART]))
    links = re.findall(r"\]\((.+?)\)", text)
    assert links == ["study/1.svg", "study/numbers.zip", "study/2.svg", "study/numbers.zip"]
    assert all((tmp_path / link).is_file() for link in links)
    first = (tmp_path / "study" / "numbers.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "study" / "numbers.zip") as numbers:
        assert numbers.namelist() == re.findall(r"\((\d\.csv)\)", text) == ["1.csv", "2.csv"]
        assert numbers.read("1.csv").decode() == as_csv(CHART)
    written(tmp_path, CHART, Panels([CHART, CHART]))
    assert (tmp_path / "study" / "numbers.zip").read_bytes() == first, (
        "the same numbers, the same file"
    )


def test_a_table_keeps_its_shape_whatever_its_cells_say(tmp_path: Path) -> None:
    hostile = ["a|b", "<script>", "line\nbreak", "`x|y`"]
    text = written(tmp_path, Table(["name", "n"], [[name, 1] for name in hostile]))
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [len(re.findall(r"(?<!\\)\|", line)) for line in lines]
    assert cells == [3] * (2 + len(hostile))
    assert "\\<script\\>" in text


def test_every_part_is_written_as_on_the_page(tmp_path: Path) -> None:
    cells = [Estimate(0.5, low=0.4, high=0.6), Verdict("good", "trust"), None, -1.0]
    table = Table(["name", Column("R@5", ".2f")], [["x", cell] for cell in cells], "T", "Below.")
    claim = Verdict("warning", "wide", "ESS `12`", "use_more", badge="mind")
    page = Page(
        "A_study",
        ["It `holds_`."],
        [
            Section("One", [table, Text("use `a_b` not a_b\n\nand"), Facts({"rows": 2515})]),
            Section("Two", [Verdicts([claim]), pages.Commands(["a", "b"])], folded=True),
        ],
        footer="Made.",
    )
    text = pages.write_markdown(page, tmp_path / "page.md").read_text()
    assert text == (
        "# A\\_study\n\nIt `holds_`.\n\n## One\n\n**T**\n\n| name | R@5 |\n|---|---|\n"
        "| x | 0.50 \\[0.40, 0.60\\] |\n| x | ✓ trust |\n| x | – |\n| x | −1.00 |\n\nBelow.\n\n"
        "use `a_b` not a\\_b\n\nand\n\n- rows: **2,515**\n\n"
        '<details markdown="1"><summary>Two</summary>\n\n'
        "| outcome | claim | what was measured |\n|---|---|---|\n"
        "| ! mind | wide | ESS `12` use\\_more |\n\n```bash\na\nb\n```\n\n</details>\n\n*Made.*\n"
    )


def test_claims_with_an_effect_are_a_table_and_their_numbers_are_folded(tmp_path: Path) -> None:
    claim = Verdict(
        "good", "a | b", evidence="R@5 0.8 of `x`", badge="holds", effect="+1.0 points (0.5 to 1.5)"
    )
    other = Verdict("error", "c", evidence="0 of 3", badge="does not hold")
    text = written(tmp_path, Verdicts([claim, other]))
    assert r"| a \| b | ✓ holds | +1.0 points (0.5 to 1.5) |" in text
    assert "| c | ✕ does not hold | 0 of 3 |" in text
    folded = text.partition("<details")[2].partition("</details>")[0]
    assert r"- **a \| b**: R@5 0.8 of `x`" in folded
    assert "0 of 3" not in folded
