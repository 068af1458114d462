"""A page as HTML: self-contained, escaped, accessible, the same bytes every time."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.pages import EVIL, everything_named, rich_page
from tests.helpers.paths import ROOT
from unmask import report
from unmask.report import (
    PALETTE,
    Cell,
    Chart,
    Estimate,
    Page,
    Section,
    Series,
    Table,
    Text,
    Verdict,
    assign_styles,
    html,
)
from unmask.report.charts import THEME, styles_of
from unmask.report.format import printable
from unmask.report.html import slug

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


@pytest.fixture(scope="module")
def rich() -> str:
    return report.render(rich_page())


def test_markup_in_data_stays_text() -> None:
    elements = Elements(report.render(everything_named(EVIL)))
    tags = [tag for tag, _ in elements.tags]
    assert tags.count("script") == 1
    assert "img" not in tags
    assert not [name for _, attrs in elements.tags for name in attrs if name.startswith("on")]
    assert sum(EVIL in text for text in elements.texts) > 25


def test_strange_characters_are_drawn_and_stay_in_the_text() -> None:
    page = report.render(everything_named(STRANGE))
    assert page.encode()
    assert "日本語 🙂 a�b � $x^2$ \\frac</text>" in page


@settings(max_examples=40)
@given(st.text(max_size=30))
def test_any_text_in_a_table_comes_back_as_text(text: str) -> None:
    page = Page("t", sections=[Section("s", [Table(["name"], [[text]])])])
    source = report.render(page)
    elements = Elements(source)
    assert [tag for tag, _ in elements.tags].count("script") == 1
    shown = re.search(r'<th scope="row"[^>]*>(.*?)</th>', source, re.DOTALL)
    assert shown
    assert "".join(Elements(shown[1]).texts) == printable(text).strip()


def test_a_page_needs_no_other_file(rich: str) -> None:
    elements = Elements(rich)
    for link in elements.attributes("src", "href", "xlink:href", "action", "srcset", "poster"):
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
        report.write(Page("big", sections=[Section("s", [Text("x" * 3_000_000)])]), path)
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
        assert any(color in style for color in ("var(--", "#fdfdfd", "#0b0b0b"))
    assert "font-family" not in "".join(texts)
    styles_in_svg = re.findall(r'<(?:path|use)[^>]*style="([^"]*)"', rich)
    fixed = {color for style in styles_in_svg for color in re.findall(r"(?<!, )#\w{6}", style)}
    light = {pair[0] for pair in [*PALETTE.values(), *THEME.values()]}
    assert not fixed & light, "every colour of the palette is a variable"


def test_text_between_backticks_is_code() -> None:
    assert html._prose("use `a<b` now") == "use <code>a&lt;b</code> now"
    assert html._prose("one ` alone") == "one ` alone"


def test_large_charts_keep_their_numbers_out_of_the_page() -> None:
    chart = Chart("lines", [Series("a", range(5000), np.sin(np.arange(5000) / 400))])
    source = report.render(Page("t", sections=[Section("s", [chart])]))
    assert "data:text/csv" not in source
    assert "<details>" not in source
    assert len(source) < 80_000


PROGRAM = """
import sys, hashlib
import unmask.report as report
loaded = {"matplotlib", "jinja2"} & set(sys.modules)
assert not loaded, loaded
if sys.argv[1:]:
    import matplotlib
    import unmask_studies
    matplotlib.rcParams.update({"font.size": 30, "svg.hashsalt": "other", "axes.xmargin": 0.5})
from tests.helpers.pages import everything_named
text = report.render(everything_named("unbiased"))
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
    page = report.render(everything_named("unbiased"))
    assert digests == {hashlib.sha256(page.encode()).hexdigest() + "\n"}


def test_a_name_has_one_colour_on_the_whole_page() -> None:
    charts = [
        Chart("dots", [Series(name, [name], [1.0]) for name in names])
        for names in ("ab", "cb", "b")
    ]
    source = report.render(Page("t", sections=[Section("s", charts)]))
    orange = assign_styles("abc")["b"].color
    filled = [re.findall(r"fill: var\(--(\w+)", figure) for figure in source.split("<figure>")[1:]]
    assert all(orange in colors for colors in filled)
    assert set(filled[2]) & set(PALETTE) == {orange}


@pytest.mark.parametrize(
    ("cell", "spec", "text", "spread", "sort"),
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
        (Verdict("error", "does not hold"), "", "does not hold", "", "3"),
    ],
)
def test_cells_as_text(cell: Cell, spec: str, text: str, spread: str, sort: str) -> None:
    view = html.cell_view(cell, spec)
    assert (view.text, view.spread, view.sort) == (text, spread, sort)


def test_numbers_stand_right_and_verdicts_have_words_and_signs(rich: str) -> None:
    assert re.search(
        r'<td class="number" data-sort="0.42"[^>]*>0.420 <span class="spread">\[', rich
    )
    assert '<span class="verdict error"><span aria-hidden="true">✕</span> do not use</span>' in rich


def test_the_evidence_of_a_claim_with_an_effect_is_folded() -> None:
    claim = Verdict("good", "It holds", evidence="many numbers", effect="+1.0 points")
    shown = report.render(
        report.Page("P", sections=[report.Section("S", [report.Verdicts([claim])])])
    )
    before, _, folded = shown.partition("<details><summary>Numbers")
    assert "<p>+1.0 points</p>" in before
    assert "many numbers" not in before
    assert "<p>many numbers</p>" in folded


def test_anchors_have_sixty_characters_at_most() -> None:
    assert slug("a" * 61) == "a" * 60
    assert slug("-" + "b" * 80 + "-") == "b" * 60


def test_only_panels_have_titles_of_their_own() -> None:
    chart = Chart("dots", [Series("s", ["x"], [1.0])], title="Alone")
    (panel,) = html._chart(chart, "p1", styles_of(chart))["panels"]
    assert panel["title"] == ""
    panels = report.Panels([chart, Chart("dots", chart.series, title="Other")])
    several = html._chart(panels, "p1", styles_of(chart))["panels"]
    assert [each["title"] for each in several] == ["Alone", "Other"]
