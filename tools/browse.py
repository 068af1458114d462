"""Every page in a browser: what it loads, how it fits, and what axe-core says of it.

    python tools/browse.py FOLDER … --axe node_modules/axe-core/axe.min.js    look at pages
    python tools/browse.py --samples FOLDER            one page of every kind, made by the commands

Folders are served from this machine; every `.html` in them is opened wide and bright (1280 px) and
narrow and dark (390 px). A page fails if axe-core finds a serious or critical violation, if it asks
another machine for anything, if it is wider than the window, or if it loads more than `--limit`
kilobytes (what searching needs is counted apart). axe-core is a package of npm
(`npm install axe-core`); Chromium and playwright are those of the tests.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

VIEWS = {"1280 px, light": (1280, "light"), "390 px, dark": (390, "dark")}
GRAVE = ("serious", "critical")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
SEARCH = ("search_index", "workers/search")
"""Parts of the addresses that only searching needs."""
SETTLE = 300
"""Milliseconds."""
RULES = {"resultTypes": ["violations"]}


@dataclass
class Seen:
    """What one view of a page came to."""

    page: str
    view: str
    requests: int = 0
    size: int = 0
    search: int = 0
    outside: list[str] = field(default_factory=list)
    overflow: int = 0
    violations: list[tuple[str, str, list[str]]] = field(default_factory=list)

    def faults(self, limit: float) -> list[str]:
        """What must not be.

        >>> Seen("a.html", "390 px, dark", size=600_000, overflow=12).faults(500)
        ['600 kB, more than 500', '12 px wider than the window']
        """
        grave = [each for each in self.violations if each[1] in GRAVE]
        return [
            *([f"{self.size / 1000:.0f} kB, more than {limit:.0f}"] * (self.size > 1000 * limit)),
            *(f"asks {address}" for address in self.outside),
            *([f"{self.overflow} px wider than the window"] * (self.overflow > 0)),
            *(f"{rule} ({impact}): {', '.join(places[:3])}" for rule, impact, places in grave),
        ]


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder, served on this machine while it is needed."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def look(
    browser: Any, address: str, page: str, view: str, axe: str | None, shot: Path | None = None
) -> Seen:
    """Open a page, count what it loads, and ask axe-core."""
    width, scheme = VIEWS[view]
    context = browser.new_context(
        viewport={"width": width, "height": 850}, color_scheme=scheme, bypass_csp=True
    )
    tab, seen, responses = context.new_page(), Seen(page, view), []
    tab.on("response", lambda response: responses.append(response))
    tab.on("requestfailed", lambda request: seen.outside.append(request.url))
    tab.goto(address + page, wait_until="networkidle")
    tab.wait_for_timeout(SETTLE)  # events that are under way
    loaded = [each for each in responses if each.url.startswith("http")]
    seen.outside += [each.url for each in loaded if not each.url.startswith(address)]
    own = [each for each in loaded if each.url.startswith(address)]
    sizes = {each.url: len(each.body()) if each.ok else 0 for each in own}
    search = {url for url in sizes if any(part in url for part in SEARCH)}
    seen.requests = len(sizes.keys() - search)
    seen.size = sum(size for url, size in sizes.items() if url not in search)
    seen.search = sum(sizes[url] for url in search)
    seen.overflow = tab.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    if shot is not None:
        shot.mkdir(parents=True, exist_ok=True)
        tab.screenshot(path=shot / f"{page.replace('/', '-')[:-5]}-{width}.png")
    if axe is not None:
        tab.evaluate(axe)
        found = tab.evaluate(f"axe.run(document, {json.dumps(RULES)})")
        seen.violations = [
            (each["id"], each["impact"], [" ".join(map(str, n["target"])) for n in each["nodes"]])
            for each in found["violations"]
        ]
    context.close()
    return seen


def visit(
    folders: list[Path], axe: Path | None, limit: float, shots: Path | None, match: str
) -> bool:
    """Look at all pages of all folders; print a line each; whether all are in order."""
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    script = axe.read_text(encoding="utf-8") if axe else None
    every: list[Seen] = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=FLAGS)
        for folder in folders:
            pages = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.html"))
            with served(folder) as address:
                for page in (each for each in pages if match in each):
                    for view in VIEWS:
                        seen = look(browser, address, page, view, script, shots)
                        every.append(seen)
                        report(seen, limit)
        browser.close()
    summarise(every, limit)
    return not any(seen.faults(limit) for seen in every)


def report(seen: Seen, limit: float) -> None:
    """One line for a view of a page, and one more per fault."""
    search = f" + {seen.search / 1000:.0f} kB for search" if seen.search else ""
    light = sum(len(places) for _, impact, places in seen.violations if impact not in GRAVE)
    print(
        f"{seen.page} ({seen.view}): {seen.requests} requests, {seen.size / 1000:.0f} kB{search}, "
        f"{light} light violations",
        *(f"    {fault}" for fault in seen.faults(limit)),
        sep="\n",
        flush=True,
    )


def summarise(every: list[Seen], limit: float) -> None:
    """What all views come to."""
    sizes = sorted(seen.size / 1000 for seen in every)
    grave = sum(impact in GRAVE for seen in every for _, impact, _ in seen.violations)
    kinds = sorted({f"{rule} ({impact})" for seen in every for rule, impact, _ in seen.violations})
    print(
        f"{len({seen.page for seen in every})} pages in {len(VIEWS)} views: "
        f"{sizes[len(sizes) // 2]:.0f} kB in the median, {sizes[-1]:.0f} kB at most, "
        f"{max(seen.requests for seen in every)} requests at most, "
        f"{sum(len(seen.outside) for seen in every)} to other machines, "
        f"{grave} serious or critical violations; "
        f"{sum(bool(seen.faults(limit)) for seen in every)} views with a fault",
        f"rules that were violated: {', '.join(kinds) or 'none'}",
        sep="\n",
    )


SAMPLES = """
unmask train train.txt.gz -o model --loss logistic --correction unbiased
unmask train train.txt.gz -o plain --loss logistic
unmask predict model test.txt.gz -o ours.npz --k 5
unmask predict plain test.txt.gz -o theirs.npz --k 5
unmask evaluate --labels test.txt.gz --predictions ours.npz --train train.txt.gz \\
    --sensitivity powers --html evaluate.html
unmask evaluate --labels test.txt.gz --predictions ours.npz --compare theirs.npz \\
    --train train.txt.gz --html compare.html
unmask diagnose train.txt.gz --html diagnose.html
unmask audit plan --labels test.txt.gz --predictions ours.npz --budget 100 \\
    --metrics P@5,R@5 --texts texts.txt --label-names names.txt -o audit
unmask audit page audit -o judge.html
unmask missing model train.txt.gz -o findings.csv --top 50 --page missing.html
unmask demo -o demo --seed 0
unmask reproduce recall-simulation --size tiny -o studies
"""
"""Commands that write the pages, in a folder with planted rows and hidden labels."""


def write_samples(folder: Path) -> None:
    """One page of every kind, from planted rows."""
    import os

    from unmask import audit, data

    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    rows = data.synthetic.planted(1_500, n_features=300, n_labels=30, seed=0)
    names = tuple(f"topic {number}" for number in range(30))
    hidden = data.hide(rows.labels, [0.6] * 30, seed=1)
    for part, rows_of in {"train": slice(0, 1_000), "test": slice(1_000, 1_500)}.items():
        seen = data.Dataset(rows.features[rows_of], hidden[rows_of], label_names=names)
        data.write(f"{part}.txt.gz", seen)
    Path("names.txt").write_text("\n".join(names), encoding="utf-8")
    texts = (f"A text about {row} things, of which some are topics." for row in range(500))
    Path("texts.txt").write_text("\n".join(texts), encoding="utf-8")
    for line in SAMPLES.replace("\\\n", "").strip().splitlines():
        command(line)
    truth = rows.labels[1_000:]
    sheet = audit.read_folder("audit").sheet
    answers = [
        {"question": q.id, "labels": truth[[q.row]].indices.tolist(), "complete": True}
        for q in sheet.questions
    ]
    record = {"kind": "answers", "key": sheet.key, "annotator": "ann", "answers": answers}
    Path("answers.json").write_text(json.dumps(record), encoding="utf-8")
    command("unmask audit status audit --answers answers.json")
    command("unmask audit estimate audit --metrics P@5,R@5 --html audit.html")


def command(line: str) -> None:
    """Run a command of ours."""
    print(line, flush=True)
    arguments = [sys.executable, "-m", "unmask", *line.split()[1:], "--quiet"]
    subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL)  # noqa: S603


def main() -> None:
    """Write samples, or look at pages; exit code 1 if a page is not in order."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--axe", type=Path, help="axe.min.js; without it nothing is said of access")
    parser.add_argument("--limit", type=float, default=500, help="kilobytes a page may load")
    parser.add_argument("--shots", type=Path, help="a folder for pictures of the first screens")
    parser.add_argument("--match", default="", help="only pages with this in their path")
    parser.add_argument("--samples", type=Path, help="write one page of every kind into a folder")
    chosen = parser.parse_args()
    if chosen.samples:
        write_samples(chosen.samples)
    if chosen.folders and not visit(
        chosen.folders, chosen.axe, chosen.limit, chosen.shots, chosen.match
    ):
        sys.exit(1)


if __name__ == "__main__":
    main()
