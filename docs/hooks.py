"""For mkdocs: the menu lists guides, results and decisions by what is in their folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
FOLDERS = {"Guides": "guides", "Results": "results", "Decisions": "decisions"}
LIST = "<!-- pages -->"


def on_config(config: Any) -> Any:
    """Add to the menu entries of `FOLDERS` the pages that they do not name yet."""
    for entry in config["nav"]:
        for name, folder in FOLDERS.items():
            if name in entry:
                named = {path for each in entry[name] for path in each.values()}
                found = [f"{folder}/{page}" for page in pages(folder)]
                entry[name] += [page for page in found if page not in named]
    return config


def on_page_markdown(text: str, page: Any, **_: Any) -> str:
    """Put the list of a folder's pages where its index asks for it."""
    folder = Path(page.file.src_uri).parent.name
    listed = (f"- [{title(folder, name)}]({name})" for name in pages(folder) if name != "index.md")
    return text.replace(LIST, "\n".join(listed)) if LIST in text else text


def pages(folder: str) -> list[str]:
    """Names of the pages in a folder, its index first."""
    names = sorted(path.name for path in (DOCS / folder).glob("*.md"))
    return sorted(names, key=lambda name: name != "index.md")


def title(folder: str, name: str) -> str:
    """The first heading of a page."""
    first = (DOCS / folder / name).read_text(encoding="utf-8").splitlines()[0]
    return first.removeprefix("# ")
