"""Tables: delimited text, JSON lines, Parquet and data frames, as columns of strings.

`recognised` says whether a file is a table, `open_table` opens a file or an object in memory;
`roles` says which column is which, `tags` what the cells of a label column mean, `writing` makes
files of columns.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from unmask._tables import long_form
from unmask._tables.columns import Column, Lists, Source, column_of
from unmask._tables.delimited import first_bytes, first_line, open_delimited, sniffed_separator
from unmask._tables.frames import is_frame, open_frame
from unmask._tables.json_lines import open_json
from unmask._tables.parquet import open_parquet
from unmask._tables.roles import Roles, roles
from unmask._typing import PathLike

FORMS = ("csv", "tsv", "jsonl", "json", "parquet", "annif", "qrels", "cafa")
"""The forms of tables in files; the last three have no header.

`annif`: lines of text, tab, `<URI> <URI>`; `qrels`: `query 0 document relevance`, of TREC; `cafa`:
`target term`, separated by a tab, the truth of CAFA's evaluators.
"""

_ENDINGS = {".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl",
            ".json": "json", ".parquet": "parquet", ".pq": "parquet"}  # fmt: skip
_WITHOUT_HEADER = {"annif": ("text", "subjects"), "cafa": ("id", "label")}
_NAMED = re.compile(r'\s*"?[^\W\d]')
"""The beginning of a field that names a column: a letter or an underscore."""


_ANNIF = re.compile(r"[^\t]*\t(?:<[^<>\s]+>\s*)+")


def ending(path: PathLike) -> str | None:
    """The form that the ending of a name stands for.

    >>> ending("tags.csv.gz"), ending("train.txt")
    ('csv', None)
    """
    plain = Path(path).name.removesuffix(".gz").removesuffix(".zst")
    return _ENDINGS.get(Path(plain).suffix.lower())


def recognised(path: PathLike) -> str | None:
    """The form of a table in a file, by its content, and its ending where that leaves a choice.

    A file whose first line has several fields, of which one starts with a letter, is a table with a
    header: the other text formats have numbers only.
    """
    head = first_bytes(path, 1 << 12).removeprefix(b"\xef\xbb\xbf")
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.lstrip()[:1] == b"{":
        return "jsonl"
    if head.lstrip()[:2] in (b"[{", b"[\n", b"[\r", b"[ ") or ending(path) == "json":
        return "json"
    if head.startswith(b"PK\x03\x04"):
        return None
    line = first_line(path)
    if _ANNIF.fullmatch(line):
        return "annif"
    separator = sniffed_separator(line)
    fields = line.split(separator)
    named = len(fields) > 1 and any(_NAMED.match(field) for field in fields)
    if ending(path) in ("csv", "tsv") or (named and not line.startswith("#")):
        return "tsv" if separator == "\t" else "csv"
    return None


def open_table(table: Any, form: str | None = None, **options: Any) -> Source:
    """A file by its form (found if None), or a table in memory; `options` as `open_delimited`."""
    if is_frame(table):
        return open_frame(table)
    form = form or recognised(table)
    if form == "parquet":
        return open_parquet(table)
    if form in ("json", "jsonl"):
        return open_json(table)
    if form == "qrels":
        return long_form.open_qrels(table)
    if form in _WITHOUT_HEADER:
        source = open_delimited(
            table, separator="\t", quote=None, names=_WITHOUT_HEADER[form],
            encoding=options.get("encoding"),
        )  # fmt: skip
        return replace(source, form=form)
    if form == "tsv" and options.get("separator") is None:
        options["separator"] = "\t"
    return open_delimited(table, **options)


__all__ = [
    "FORMS",
    "Column",
    "Lists",
    "Roles",
    "Source",
    "column_of",
    "ending",
    "is_frame",
    "open_table",
    "recognised",
    "roles",
]
