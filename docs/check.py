"""The built site: every link leads somewhere, and every public name is in the API reference.

python docs/check.py site
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name
from urllib.parse import unquote, urlsplit

import unmask


class Page(HTMLParser):
    """The anchors of a page and the places it refers to."""

    def __init__(self, path: Path) -> None:
        """Read the page."""
        super().__init__()
        self.anchors: set[str] = set()
        self.targets: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Keep ids, links and sources."""
        for name, value in attributes:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            if (tag, name) in (("a", "href"), ("img", "src"), ("script", "src"), ("link", "href")):
                self.targets.append(value or "")


def broken_links(site: Path) -> Iterator[str]:
    """Links within the site to files or anchors that are not there."""
    pages = {path.resolve(): Page(path) for path in site.rglob("*.html")}
    for path, page in pages.items():
        if path.name == "404.html":  # its links are relative to wherever it is shown
            continue
        for target in page.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            file = file / "index.html" if file.is_dir() else file
            if not file.exists():
                yield f"{path.relative_to(site.resolve())}: {target} does not exist"
            elif file in pages and parts.fragment:
                anchor = unquote(parts.fragment)
                if anchor not in pages[file].anchors and not anchor.startswith("__"):
                    yield f"{path.relative_to(site.resolve())}: {target} has no such anchor"


def public_names() -> Iterator[str]:
    """Every name that `unmask` and its modules export."""
    for name in unmask.__all__:
        try:
            found = getattr(unmask, name)
        except ModuleNotFoundError:  # torch need not be there to read about it
            continue
        if getattr(found, "__name__", "") == f"unmask.{name}":
            yield from (f"unmask.{name}.{member}" for member in exported(f"unmask.{name}"))


def exported(module: str) -> list[str]:
    """`__all__`, or what a module defines itself."""
    found = import_module(module)
    own = [n for n, v in vars(found).items() if getattr(v, "__module__", None) == module]
    return list(getattr(found, "__all__", [n for n in own if not n.startswith("_")]))


def undocumented(site: Path) -> list[str]:
    """Public names without a place in the API reference."""
    anchors = set().union(*(Page(page).anchors for page in (site / "api").glob("*.html")))
    return [name for name in public_names() if not _places(name) & anchors]


def _places(name: str) -> set[str]:
    """The anchors under which a name may stand: its own, or that of where it is defined."""
    value = resolve_name(name)
    defined = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"
    module = getattr(sys.modules.get(name), "__name__", "")
    return {name, f"{name}.{name.rpartition('.')[2]}", defined, module}


def main() -> None:
    """Print what is wrong; exit code 1 if anything is."""
    site = Path(sys.argv[1])
    wrong = [*broken_links(site), *(f"{name} is not in the API" for name in undocumented(site))]
    print("\n".join(wrong) or f"{len(list(public_names()))} public names, all links: in order")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
