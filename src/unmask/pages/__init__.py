"""What a page says: stored records become pages; `report` says how they look.

A record is what a command prints with `--json`. `records` reads them and puts them on one page; the
other modules say what each kind of record shows: `evaluation`, `comparison`, `diagnosis`, `demo`,
with `label_figures` for the labels themselves. Nothing is computed again.
"""

from unmask.pages.records import KINDS, PageKind, Record, heading, page, read, write

__all__ = ["KINDS", "PageKind", "Record", "heading", "page", "read", "write"]
