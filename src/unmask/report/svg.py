"""matplotlib's SVG made fit for a page: the reader's colours and fonts, and unique names.

matplotlib writes fixed colours, its own fonts, names (`id`) that repeat from chart to chart, a
style sheet that would reach the whole page, and metadata. Here colours of the theme and the palette
become CSS variables with the colour as fallback, text inherits the page's font, every name gets the
chart's own prefix and a number, styles that repeat are stated once, coordinates are as short as
they can be, and the rest goes.
"""

from __future__ import annotations

import re
from collections import Counter
from xml.etree import ElementTree

from unmask.report.styles import PALETTE, THEME

_VARIABLES = {light: f"var(--{name}, {light})" for name, (light, _) in {**PALETTE, **THEME}.items()}
_COLOR = re.compile(r"#[0-9a-f]{6}\b")
_NUMBER = re.compile(r"-?\d+\.\d+(?![\de])")
_ZOOM = 1.65  # CSS pixels per point: text of 8.5 points reads like the page's
_UNUSED = {"metadata", "style"}
_NO_ROTATION = ("rotate(0 ", "rotate(-0 ")


def themed(drawn: str, *, prefix: str, title: str, description: str) -> str:
    """An `<svg>` element for a page, with title and description for screen readers.

    Parameters
    ----------
    drawn : str
        An SVG document of matplotlib's.
    prefix : str
        Stands before every id, so that ids differ on a page of several charts.
    title, description : str

    Returns
    -------
    str
        The element.
    """
    return ElementTree.tostring(_root(drawn, prefix, title, description), encoding="unicode")


def standalone(drawn: str, *, title: str, description: str) -> str:
    """The same as a file of its own, light or dark as the reader prefers; see `themed`."""
    root = _root(drawn, "c", title, description)
    root.set("xmlns", "http://www.w3.org/2000/svg")
    style = ElementTree.SubElement(root, "style")
    style.text = (
        f":root{{{variables(0)}background:var(--paper);font-family:system-ui,sans-serif}}"
        f"@media(prefers-color-scheme:dark){{:root{{{variables(1)}}}}}"
    )
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def variables(theme: int) -> str:
    """The CSS variables of the light (0) or the dark (1) theme."""
    return "".join(f"--{name}:{pair[theme]};" for name, pair in {**THEME, **PALETTE}.items())


def _root(drawn: str, prefix: str, title: str, description: str) -> ElementTree.Element:
    root = ElementTree.fromstring(drawn)  # noqa: S314 (our own drawing, made a moment ago)
    _tidy(root, prefix)
    _number_names(root, prefix)
    _state_styles_once(root, prefix)
    _state_classes_of_markers_once(root)
    names = {"title": f"{prefix}-title", "desc": f"{prefix}-desc"}
    for position, (tag, text) in enumerate((("title", title), ("desc", description))):
        element = ElementTree.Element(tag, {"id": names[tag]})
        element.text = text
        root.insert(position, element)
    left, top, width, height = (float(part) for part in root.get("viewBox", "").split())
    root.attrib = {
        "width": f"{_ZOOM * width:.0f}",
        "height": f"{_ZOOM * height:.0f}",
        "style": f"max-width:{_ZOOM * width:.0f}px",
        "viewBox": f"{left:g} {top:g} {width:g} {height:g}",
        "role": "img",
        "aria-labelledby": " ".join(names.values()),
        "stroke-linejoin": "round",
    }
    return root


def _tidy(element: ElementTree.Element, prefix: str) -> None:
    """Plain names of tags and attributes, own ids, colours of the theme; from here downwards."""
    element.tag = _local(element.tag)
    keeps_id = element.tag in ("path", "clipPath")  # what others refer to; ids of groups do not
    element.attrib = {
        _local(key): _attribute(_local(key), value, prefix)
        for key, value in element.items()
        if (keeps_id or key != "id") and not value.startswith(_NO_ROTATION)
    }
    if element.tag != "text":
        element.text = None
    element.tail = None
    children = [child for child in element if _local(child.tag) not in _UNUSED]
    for child in children:
        _tidy(child, prefix)
    element[:] = [part for child in children for part in _without_bare_groups(child)]


def _number_names(root: ElementTree.Element, prefix: str) -> None:
    """Names that others refer to, numbered in their order; matplotlib's are hashes."""
    ids = [name for element in root.iter() if (name := element.get("id"))]
    numbers = {name: f"{prefix}-n{number}" for number, name in enumerate(ids)}
    for element in root.iter():
        for key, before, after in (("id", "", ""), ("href", "#", ""), ("clip-path", "url(#", ")")):
            name = element.get(key, "").removeprefix(before).removesuffix(after)
            if name in numbers:
                element.set(key, before + numbers[name] + after)


def _state_classes_of_markers_once(root: ElementTree.Element) -> None:
    """A group that holds nothing but markers of one class has that class itself."""
    for group in root.iter("g"):
        kinds = {(child.tag, child.get("class", "")) for child in group}
        tag, name = kinds.pop() if len(kinds) == 1 else ("", "")
        if tag == "use" and name and "class" not in group.attrib:
            group.set("class", name)
            for child in group:
                del child.attrib["class"]


def _state_styles_once(root: ElementTree.Element, prefix: str) -> None:
    """Styles that several elements have become classes, whose names carry the chart's prefix."""
    count = Counter(element.get("style", "") for element in root.iter())
    repeated = [style for style, elements in count.items() if style and elements > 1]
    classes = {style: f"{prefix}-{number}" for number, style in enumerate(repeated)}
    for element in root.iter():
        style = element.get("style", "")
        if style in classes:
            del element.attrib["style"]
            element.set("class", classes[style])
    rules = ElementTree.Element("style")
    rules.text = "".join(f".{name}{{{_compact(style)}}}" for style, name in classes.items())
    root.insert(0, rules)


def _compact(style: str) -> str:
    return style.replace("; ", ";").replace(": ", ":")


def _without_bare_groups(element: ElementTree.Element) -> list[ElementTree.Element]:
    """The element, or what is in it if it is a group that says nothing."""
    return list(element) if element.tag == "g" and not element.attrib else [element]


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _attribute(key: str, value: str, prefix: str) -> str:
    if key == "id":
        return f"{prefix}-{value}"
    if key == "href":
        return value.replace("#", f"#{prefix}-", 1)
    if key == "style":
        entries = (entry.strip() for entry in value.split(";"))
        kept = "; ".join(entry for entry in entries if not entry.startswith("font-family"))
        value = _COLOR.sub(lambda match: _VARIABLES.get(match[0], match[0]), kept)
    elif key in ("d", "x", "y", "transform"):
        value = _path(value) if key == "d" else _rounded(value)
    return value.replace("url(#", f"url(#{prefix}-")


def _path(commands: str) -> str:
    """A path without what may be left out: spaces at letters, zeros, a letter that repeats."""
    words, last = [], ""
    for word in _rounded(commands).split():
        if not (word == "L" == last):
            words.append(word)
        last = word if word.isalpha() else last
    return re.sub(r" ?([A-Za-z]) ?", r"\1", " ".join(words))


def _rounded(numbers: str) -> str:
    """Numbers to a tenth of a point, below 10 (the outlines of markers) to a hundredth."""
    short = _NUMBER.sub(lambda match: _short(float(match[0])), numbers)
    return " ".join(short.split())


def _short(x: float) -> str:
    return f"{round(x, 2 if abs(x) < 10 else 1) + 0.0:g}"  # 0, not −0
