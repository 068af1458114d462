"""A page as Markdown, for documentation: the text in one file, its drawings in a folder beside it.

`results/recall.md` comes with `results/recall/1.svg` for its first drawing, and so on, and with
`results/recall/numbers.zip`, which holds what they show as `1.csv` …
Text from data is escaped, so that a name cannot become markup.
"""

from __future__ import annotations

import io
import os
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from unmask.report.charts import Chart, Drawing, Panels, alt_text
from unmask.report.files import save
from unmask.report.html import cell_view
from unmask.report.page import LEVELS, Cell, Commands, Facts, Page, Table, Text, Verdicts
from unmask.report.tables import as_csv, markdown_of

PICTURES = ("svg",)
"""The files that are written for one drawing."""
NUMBERS = "numbers.zip"
"""The file that holds the numbers of all drawings."""

_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|])")


def write_markdown(page: Page, path: str | os.PathLike[str]) -> Path:
    """Write the page as Markdown, and its drawings in a folder beside it.

    Parameters
    ----------
    page : Page
    path : str or path
        The Markdown file; the folder has its name without the suffix.

    Returns
    -------
    Path
        The Markdown file.

    Raises
    ------
    ValueError
        If a drawing cannot be saved.
    OSError
        If a file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> path = write_markdown(Page("Study", ["It holds."]), tempfile.mkdtemp() + "/study.md")
    >>> path.read_text()
    '# Study\\n\\nIt holds.\\n'
    """
    from unmask.files import atomic_write

    path = Path(path)
    _save_drawings(page, path.with_suffix(""))
    text = "\n\n".join(_blocks(page, path.stem)) + "\n"
    with atomic_write(path) as file:
        file.write(text.encode())
    return path


def _save_drawings(page: Page, folder: Path) -> None:
    from unmask.files import atomic_write

    if not page.drawings:
        return
    folder.mkdir(parents=True, exist_ok=True)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as numbers:
        for number, drawing in enumerate(page.drawings, start=1):
            for suffix in PICTURES:
                save(drawing, folder / f"{number}.{suffix}")
            # an entry without a date: the same numbers are the same file
            numbers.writestr(_dateless(f"{number}.csv"), as_csv(drawing))
    with atomic_write(folder / NUMBERS) as file:
        file.write(packed.getvalue())


def _dateless(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


def _blocks(page: Page, folder: str) -> Iterator[str]:
    """Headings and parts, in order, each a block of lines."""
    yield f"# {_plain(page.title)}"
    if page.summary:
        yield "\n\n".join(_prose(sentence) for sentence in page.summary)
    number = 0
    for section in page.sections:
        title = _plain(section.title)
        yield (
            f'<details markdown="1"><summary>{title}</summary>' if section.folded else f"## {title}"
        )
        for part in section.parts:
            number += isinstance(part, Chart | Panels)
            yield BLOCKS[type(part)](part, f"{folder}/{number}")
        if section.folded:
            yield "</details>"
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
    return "`".join(piece if i % 2 else _MARKUP.sub(r"\\\1", piece)
                    for i, piece in enumerate(pieces))  # fmt: skip


def _text(part: Text, _: str) -> str:
    return "\n\n".join(_prose(paragraph) for paragraph in part.paragraphs)


def _facts(part: Facts, _: str) -> str:
    return "\n".join(f"- {_plain(str(name))}: **{_cell(value)}**" for name, value in part.pairs)


def _table(part: Table, _: str) -> str:
    head = [_plain(column.name) for column in part.heads]
    rows = [
        [_cell(cell, column.format) for cell, column in zip(row, part.heads, strict=True)]
        for row in part.rows
    ]
    lines = markdown_of([head, *rows])
    return "\n\n".join(
        block for block in (_strong(part.title), lines, _plain(part.caption)) if block
    )


def _strong(title: str) -> str:
    return f"**{_plain(title)}**" if title else ""


def _cell(cell: Cell, spec: str = "") -> str:
    view = cell_view(cell, spec)
    return _plain(" ".join(text for text in (view.sign, view.text, view.spread) if text))


def _verdicts(part: Verdicts, _: str) -> str:
    if any(v.effect for v in part.verdicts):
        return _effects(part)
    rows = [
        [f"{LEVELS[v.level]} {_plain(v.badge or v.level)}", _prose(v.words),
         _prose(" ".join((v.evidence, v.advice))).strip()]
        for v in part.verdicts
    ]  # fmt: skip
    return markdown_of([["outcome", "claim", "what was measured"], *rows])


def _effects(part: Verdicts) -> str:
    """Claims with their outcome and effect; what else was measured, folded below."""
    rows = [
        [_prose(v.words), f"{LEVELS[v.level]} {_plain(v.badge or v.level)}",
         _prose(v.effect or v.evidence)]
        for v in part.verdicts
    ]  # fmt: skip
    details = [
        f"- **{_prose(v.words)}**: {_prose(' '.join((v.evidence, v.advice))).strip()}"
        for v in part.verdicts
        if v.effect and (v.evidence or v.advice)
    ]
    blocks = [markdown_of([["claim", "outcome", "effect"], *rows])]
    if details:
        summary = '<details markdown="1"><summary>All numbers behind these claims</summary>'
        blocks += [summary, "\n".join(details), "</details>"]
    return "\n\n".join(blocks)


def _commands(part: Commands, _: str) -> str:
    return "\n".join(["```bash", *part.lines, "```"])


def _drawing(part: Drawing, file: str) -> str:
    picture = f"![{_plain(alt_text(part))}]({file}.svg)"
    folder, _, number = file.rpartition("/")
    files = f"[numbers]({folder}/{NUMBERS}) ({number}.csv)"
    return "\n\n".join((picture, f"{_plain(part.caption)} {files}".strip()))  # with its title


BLOCKS: dict[type, Callable[..., str]] = {
    Text: _text,
    Facts: _facts,
    Table: _table,
    Verdicts: _verdicts,
    Commands: _commands,
    Chart: _drawing,
    Panels: _drawing,
}
"""How each type of part is written."""
