"""Drawings as SVG: short numbers, own names, the colours of the page."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from unmask.report import drawing


def test_numbers_of_drawings_are_short_and_other_attributes_untouched() -> None:
    where = drawing._attribute("d", "M 1.23456 7.0\n  L -0.00123 100.98765", "p")
    assert where == "M1.23 7L0 101"
    assert drawing._attribute("transform", "translate(10.123456 2)", "p") == "translate(10.1 2)"
    assert drawing._attribute("width", "1.23456", "p") == "1.23456"
    assert drawing._attribute("clip-path", "url(#a)", "p") == "url(#p-a)"
    assert drawing._attribute("href", "#a", "p") == "#p-a"
    assert drawing._attribute("id", "a", "p") == "p-a"
    style = drawing._attribute("style", "fill: #0072b2; font-family: x; stroke-width: 1.23456", "p")
    assert "font-family" not in style
    assert style.endswith("stroke-width: 1.23456")


_DRAWN = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 10 10">
<path d="M 0 0 L 1 1" style="fill: none; stroke: #596573"/>
<path d="M 0 0 L 2 2" style="fill: none; stroke: #596573"/>
<path d="M 0 0 L 3 3" style="fill: none"/>
</svg>"""


def test_styles_that_repeat_are_stated_once_under_a_name_of_the_chart() -> None:
    first, second = (
        drawing.themed(_DRAWN, prefix=prefix, title="t", description="d") for prefix in ("a", "b")
    )
    assert first.count("stroke:") == 1
    assert first.count('class="a-0"') == 2
    assert ".a-0{fill:none;stroke:var(--muted, #596573)}" in first
    assert first.count('style="fill: none"') == 1  # stands alone: stays where it is
    assert "a-0" not in second
    assert 'class="b-0"' in second


def test_paths_and_numbers_are_as_short_as_they_can_be() -> None:
    assert drawing._path("M 10.004 2.500 L 3.00 4 \n L -0.254 16.25 C 1 2 3 4 5 6 z") == (
        "M10 2.5L3 4 -0.25 16.2C1 2 3 4 5 6z"
    )
    assert (
        drawing._rounded("translate(12.345 -99.96) rotate(-90)")
        == "translate(12.3 -100) rotate(-90)"
    )
    assert drawing._rounded("1.5e-07") == "1.5e-07"


def test_names_are_numbered_and_markers_share_the_class_of_their_group() -> None:
    drawn = (
        '<svg viewBox="0 0 9 9"><defs><path id="mabc" d="M 0 0"/><clipPath id="pdef"/></defs>'
        '<g clip-path="url(#pdef)"><use href="#mabc" x="1" style="a: b"/>'
        '<use href="#mabc" x="2" style="a: b"/></g></svg>'
    )
    themed = drawing.themed(drawn, prefix="x", title="t", description="d")
    assert '<path id="x-n0" d="M0 0" /><clipPath id="x-n1" />' in themed
    assert (
        '<g clip-path="url(#x-n1)" class="x-0"><use href="#x-n0" x="1" /><use href="#x-n0" x="2" />'
        "</g>"
    ) in themed


def test_only_groups_that_say_nothing_are_left_out() -> None:
    bare, named, path = Element("g"), Element("g", id="x"), Element("p")
    for group in (bare, named):
        group.extend([Element("a"), Element("b")])
    assert [each.tag for each in drawing._without_bare_groups(bare)] == ["a", "b"]
    assert drawing._without_bare_groups(named) == [named]
    assert drawing._without_bare_groups(path) == [path]
