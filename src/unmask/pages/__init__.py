"""What a page says: stored records become pages; `report` says how they look.

A record is what a command prints with `--json` (`stored`). `records` reads records and puts them on
one page; `evaluation`, `comparison`, `diagnosis` and `demo` say what each of them shows, with
`label_figures` for the labels and `verdicts` for what an estimate may claim. Nothing is computed
again.
"""

from unmask._typing import Record
from unmask.pages.records import KINDS, PageKind, heading, page, read, write

__all__ = ["KINDS", "PageKind", "Record", "heading", "page", "read", "write"]
