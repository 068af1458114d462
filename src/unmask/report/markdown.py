"""A page as Markdown, for documentation: the text in one file, its drawings in a folder beside it.

`results/recall.md` comes with `results/recall/1.svg` and `1.csv` for its first drawing, and so on.
Text from data is escaped, so that a name cannot become markup.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from unmask.report.alt_text import described
from unmask.report.charts import Chart, Panels
from unmask.report.files import save
from unmask.report.html import cell_view
from unmask.report.page import LEVELS, Commands, Facts, Page, Table, Text, Verdicts

DRAWN_AS = ("svg", "csv")
"""The files that stand for one drawing."""

_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|])")


def write_markdown(page: Page, path: str | os.PathLike[str]) -> Path:
    """Write the page as Markdown with its drawings beside it; the path of the text comes back.

    >>> import tempfile
    >>> path = write_markdown(Page("Study", ["It holds."]), tempfile.mkdtemp() + "/study.md")
    >>> path.read_text()
    '# Study\\n\\n- It holds.\\n'
    """
    from unmask._io import writing

    path = Path(path)
    _save_drawings(page, path.with_suffix(""))
    text = "\n\n".join(_blocks(page, path.stem)) + "\n"
    with writing(path) as file:
        file.write(text.encode())
    return path


def _drawings(page: Page) -> list[Chart | Panels]:
    parts = [part for section in page.sections for part in section.parts]
    return [part for part in parts if isinstance(part, Chart | Panels)]


def _save_drawings(page: Page, folder: Path) -> None:
    for number, drawing in enumerate(_drawings(page), start=1):
        folder.mkdir(parents=True, exist_ok=True)
        for suffix in DRAWN_AS:
            save(drawing, folder / f"{number}.{suffix}")


def _blocks(page: Page, folder: str) -> Iterator[str]:
    """Headings and parts, in order, each a block of lines."""
    yield f"# {_plain(page.title)}"
    if page.summary:
        yield "\n".join(f"- {_prose(sentence)}" for sentence in page.summary)
    number = 0
    for section in page.sections:
        yield f"## {_plain(section.title)}"
        for part in section.parts:
            number += isinstance(part, Chart | Panels)
            yield BLOCKS[type(part)](part, f"{folder}/{number}")
    if page.footer:
        yield f"*{_plain(page.footer)}*"


def _plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))


def _prose(text: str) -> str:
    """Text in which `backticks` set code; the rest is shown as it is."""
    pieces = " ".join(text.split()).split("`")
    if len(pieces) % 2 == 0:
        return _plain(text)
    return "`".join(piece if at % 2 else _MARKUP.sub(r"\\\1", piece)
                    for at, piece in enumerate(pieces))  # fmt: skip


def _text(part: Text, _: str) -> str:
    return "\n\n".join(_prose(paragraph) for paragraph in part.paragraphs)


def _facts(part: Facts, _: str) -> str:
    return "\n".join(f"- {_plain(str(name))}: **{_cell(value, '')}**" for name, value in part.items)


def _table(part: Table, _: str) -> str:
    head = "| " + " | ".join(_plain(column.name) for column in part.heads) + " |"
    rule = "|" + "---|" * len(part.heads)
    rows = (
        "| " + " | ".join(_cell(cell, column.format) for cell, column in
                          zip(row, part.heads, strict=True)) + " |"
        for row in part.rows
    )  # fmt: skip
    lines = "\n".join([head, rule, *rows])
    return "\n\n".join(
        block for block in (_strong(part.title), lines, _plain(part.caption)) if block
    )


def _strong(title: str) -> str:
    return f"**{_plain(title)}**" if title else ""


def _cell(cell: Any, spec: str) -> str:
    view = cell_view(cell, spec)
    return _plain(" ".join(view[key] for key in ("sign", "text", "spread") if view[key]))


def _verdicts(part: Verdicts, _: str) -> str:
    return "\n".join(
        f"- {LEVELS[v.level]} **{_prose(v.words)}.** {_prose(' '.join((v.evidence, v.advice)))}"
        .rstrip()
        for v in part.verdicts
    )  # fmt: skip


def _commands(part: Commands, _: str) -> str:
    return "\n".join(["```bash", *part.lines, "```"])


def _drawing(part: Chart | Panels, file: str) -> str:
    picture = f"![{_plain(described(part))}]({file}.svg)"
    files = f"[numbers]({file}.csv)"
    return "\n\n".join(
        block for block in (_strong(part.title), picture, f"{_plain(part.caption)} {files}".strip())
        if block
    )  # fmt: skip


BLOCKS: dict[type, Callable[[Any, str], str]] = {
    Text: _text,
    Facts: _facts,
    Table: _table,
    Verdicts: _verdicts,
    Commands: _commands,
    Chart: _drawing,
    Panels: _drawing,
}
"""How each type of part is written."""
