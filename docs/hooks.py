"""For mkdocs: menus by what is in the folders, the API a page per module, and pages for everybody.

- The menu lists guides, results and decisions by what is in their folders: what it does not name
  comes last.
- `api.md` names every module of the reference; the site has a page for each, and `api.html` leads
  to them, also from addresses of an older edition (`api.html#unmask.data.read`).
- The first use of a word of the glossary on a page leads to its line there.
- What the theme leaves to its users: a name for the search dialog, the description and the picture
  that messengers show (tables: `extra.js`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
FOLDERS = {"Guides": "guides", "Results": "results", "Decisions": "decisions"}
CARD = "pictures/card.png"
"""What messengers show of a link."""
MODULE = re.compile(r"^::: (\S+)\n?", re.MULTILINE)


def on_config(config: Any) -> Any:
    """Add to the menu entries of `FOLDERS` the pages that they do not name yet, and the modules."""
    _complete(config["nav"])
    return config


def _complete(menu: list[Any]) -> None:
    for name, own in ((n, o) for e in menu if isinstance(e, dict) for n, o in e.items()):
        if name in FOLDERS:
            named = set(_named(own))
            found = [f"{FOLDERS[name]}/{page}" for page in pages(FOLDERS[name])]
            own += [page for page in found if page not in named]
        elif name == "API":
            own += [{module: f"api/{module}.md"} for module in modules()]
        elif isinstance(own, list):
            _complete(own)


def _named(menu: Any) -> Iterator[str]:
    """The pages that a menu names, also in menus within it.

    >>> list(_named([{"All": "a.md"}, {"More": ["b.md", {"C": "c.md"}]}]))
    ['a.md', 'b.md', 'c.md']
    """
    if isinstance(menu, str):
        yield menu
    else:
        for each in menu.values() if isinstance(menu, dict) else menu:
            yield from _named(each)


def on_files(files: Any, config: Any) -> Any:
    """A page per module."""
    from mkdocs.structure.files import File

    for name, members in modules().items():
        blocks = "\n\n".join(f"::: {each}" for each in members)
        text = f"---\ntitle: {name}\n---\n\n{blocks}\n"
        files.append(File.generated(config, f"api/{name}.md", content=text))
    return files


def on_page_markdown(text: str, page: Any, **_: Any) -> str:
    """The start of the reference leads to its modules."""
    if page.file.src_uri == "api.md":
        listed = "\n".join(f"- [`{name}`](api/{name}.md)" for name in modules())
        return text.partition("\n::: ")[0] + "\n" + listed + "\n" + FORWARD
    return text


FORWARD = """
<script>
const name = decodeURIComponent(location.hash.slice(1));
const pages = [...document.querySelectorAll('a[href^="api/"]')].map((a) => a.getAttribute("href"));
const module = name.startsWith("unmask.") ? name.split(".")[1] : "";
const own = pages.find((page) => page === `api/${module}.html`);
if (own) location.replace(own + location.hash);
</script>
"""
"""Addresses of an older edition lead to the page of their module."""


def modules() -> dict[str, list[str]]:
    """What `api.md` lists, by module of the package.

    >>> modules()["data"]
    ['unmask.data', 'unmask.data.synthetic']
    """
    grouped: dict[str, list[str]] = {}
    for name in MODULE.findall((DOCS / "api.md").read_text(encoding="utf-8")):
        parts = name.split(".")
        own = "threads" if parts[1:2] == ["_kernels"] else parts[min(1, len(parts) - 1)]
        grouped.setdefault(own, []).append(name)
    return grouped


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Words lead to the glossary; answers stand out."""
    place = page.file.src_uri
    first, *rest = html.split("<img ")
    html = '<img loading="lazy" '.join(["<img ".join([first, *rest[:1]]), *rest[1:]])
    if place.startswith("results/"):
        html = re.sub(r"(</h1>\s*<p>.*?</p>\s*)<p>", r'\1<p class="answer">', html, count=1)
    html = re.sub(
        r'<div class="language-(?:ba)?sh .*?</div>', _whole_options, html, flags=re.DOTALL
    )
    html = re.sub(r"<p>(?=<img [^>]*[.]svg[^>]*>\s*</p>)", '<p class="picture">', html)
    if place == "glossary.md":
        html = re.sub(r"<tr>\s*<td>(.*?)</td>", _line_of_word, html)
    elif not place.startswith(("api", "decisions", "commands")):
        html = explained(html, "../" * place.count("/") + "glossary.html")
    return html


WORDS = (
    "audit", "deconvolved", "effective sample size", "empirical Bayes", "inverse propensity",
    "Jain model", "judgement", "mask", "one-vs-all", "propensity", "row effort", "spurious label",
    "unbiased", "vanilla", "verdict",
)  # fmt: skip
"""What a reader may meet for the first time, by its line of the glossary."""
LINES = {"one-vs-all": "ova"}
PLURALS = {"propensity": "propensities"}


def explained(html: str, glossary: str) -> str:
    """The first use of each of `WORDS` in a paragraph or a list, as a link.

    >>> explained("<h1>Mask</h1><p>A <code>mask</code> or mask. A mask</p>", "g.html")
    '<h1>Mask</h1><p>A <code>mask</code> or <a class="term" href="g.html#mask">mask</a>. A mask</p>'
    """
    pieces, left, inside = re.split(r"(<[^>]*>)", html), list(WORDS), []
    for number, piece in enumerate(pieces):
        if piece.startswith("<"):
            _step(inside, piece)
        elif {"p", "li"} & set(inside) and not {"a", "code", "pre", "summary"} & set(inside):
            for word in list(left):
                forms = "|".join(filter(None, [f"{word}s?", PLURALS.get(word)]))
                name = f"{glossary}#{LINES.get(word, word).lower().replace(' ', '-')}"
                linked, count = re.subn(
                    rf"(?<![\w-])({forms})(?![\w-])",
                    rf'<a class="term" href="{name}">\1</a>', pieces[number], count=1,
                )  # fmt: skip
                if count and "<a " not in pieces[number]:
                    pieces[number] = linked
                    left.remove(word)
    return "".join(pieces)


def _step(inside: list[str], tag: str) -> None:
    """Keep the names of the elements that are open."""
    name = re.sub(r"^</?([\w-]*).*", r"\1", tag, flags=re.DOTALL)
    if tag.startswith("</"):
        while inside and inside.pop() != name:
            pass
    elif not tag.endswith("/>") and name not in ("img", "br", "hr", "input", "meta", ""):
        inside.append(name)


def _whole_options(block: re.Match[str]) -> str:
    """Options of commands that are not broken at their hyphens.

    >>> _whole_options(re.match(".*", "<code>unmask<span> </span>--max-json 1</code>"))
    '<code>unmask<span> </span><span class="option">--max-json</span> 1</code>'
    """
    return re.sub(r"(?<=[>\s])(--?[A-Za-z][\w-]*)", r'<span class="option">\1</span>', block[0])


def _line_of_word(row: re.Match[str]) -> str:
    """A line of the glossary that can be linked to."""
    name = re.sub(r"<.*?>", "", row[1]).lower().replace(" ", "-")
    return f'<tr id="{name}"><td>{row[1]}</td>'


def on_post_template(html: str, **_: Any) -> str:
    """Name the search dialog, also of the page that is shown for addresses without one."""
    named = 'data-md-component="search" role="dialog" aria-label="Search"'
    return html.replace('data-md-component="search" role="dialog"', named)


def on_post_page(html: str, page: Any, config: Any) -> str:
    """Say in the head what messengers show."""
    html = on_post_template(html)
    words = page.meta.get("description") or config["site_description"]
    place = config["site_url"] or ""
    tags = {
        "og:type": "website",
        "og:title": page.title or config["site_name"],
        "og:description": words,
        "og:image": f"{place}{CARD}" if place else "../" * page.url.count("/") + CARD,
        "og:image:alt": "Recorded labels against an audit and the truth, on four data sets.",
    }
    lines = "".join(
        f'<meta property="{name}" content="{_quoted(value)}">' for name, value in tags.items()
    )
    lines += '<meta name="twitter:card" content="summary_large_image">'
    return html.replace("</head>", lines + "</head>", 1)


def _quoted(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")


def pages(folder: str) -> list[str]:
    """Names of the pages in a folder, its index first."""
    names = sorted(path.name for path in (DOCS / folder).glob("*.md"))
    return sorted(names, key=lambda name: name != "index.md")
