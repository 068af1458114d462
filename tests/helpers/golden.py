"""Stored expectations: small readable texts beside the tests, in which every number counts.

`check(file, text)` compares a text with the stored one: words to the letter, numbers to one part in
a million. A file may have sections, one for each call. Nothing is written unless
`UNMASK_GOLDEN=write` asks for it (`make golden`); look at the difference before it is committed.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from numbers import Real
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from tests.helpers.paths import ROOT

TESTS = ROOT / "tests"
NUMBER = re.compile(r"(?<![\w.])[-−+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?(?![\w])")


def check(file: str, text: str, section: str = "", *, rel: float = 1e-6, abs: float = 1e-9) -> None:
    """Compare a text with the one stored under this name below `tests`, or a section of it."""
    path = TESTS / file
    if os.environ.get("UNMASK_GOLDEN") == "write":
        _write(path, text, section)
        return
    place = f"{file} {section}".rstrip()
    stored = _sections(path)[section].splitlines()
    lines = text.splitlines()
    for number, (new, old) in enumerate(zip(lines, stored, strict=False), start=1):
        if new != old:
            words, old_words = (NUMBER.sub("#", line) for line in (new, old))
            assert words == old_words, f"{place}:{number}"
            values, old_values = ([_value(m) for m in NUMBER.findall(s)] for s in (new, old))
            assert values == pytest.approx(old_values, rel=rel, abs=abs), f"{place}:{number}: {new}"
    assert len(lines) == len(stored), place


def _sections(path: Path) -> dict[str, str]:
    """The parts of a file by the headings before them; without any, the whole."""
    parts = re.split(r"^== (.*) ==\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {"": parts[0]} | dict(zip(parts[1::2], parts[2::2], strict=True))


def _write(path: Path, text: str, section: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = text.rstrip("\n") + "\n"
    if section:
        sections = _sections(path) if path.exists() else {}
        sections[section] = text
        sections.pop("", None)
        text = "".join(f"== {name} ==\n{part}" for name, part in sections.items())
    path.write_text(text, encoding="utf-8")


def _value(text: str) -> float:
    return float(text.replace("−", "-"))


def table(rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows as CSV, one line each: numbers with nine digits, lists and long texts by a checksum."""
    rows = list(rows)
    columns = list(dict.fromkeys(key for row in rows for key in row))
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(columns)
    lines.writerows([cell(row.get(column, "")) for column in columns] for row in rows)
    return text.getvalue()


def cell(value: Any) -> str:
    """One value: a number, a short text, or how many values with which sums."""
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, Real):
        return f"{float(value):.9g}"
    leaves = list(_leaves(value))
    numbers = [float(leaf) for leaf in leaves if isinstance(leaf, Real)]
    words = " ".join(str(leaf) for leaf in leaves if not isinstance(leaf, Real))
    total, moment = sum(numbers), sum(i * x for i, x in enumerate(numbers, start=1))
    text = f"{len(numbers)}: {total:.9g} {moment:.9g}"
    return f"{text} words {crc32(words.encode())}" if words else text


def _leaves(value: Any) -> Iterator[Any]:
    """The values inside lists, mappings and arrays, in order, keys included."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield key
            yield from _leaves(each)
    elif isinstance(value, str) or not hasattr(value, "__iter__"):
        yield value
    else:
        for each in value:
            yield from _leaves(each)


def file_name(name: str, folder: str) -> str:
    """`folder/golden/name.txt`."""
    return str(Path(folder, "golden", f"{name}.txt"))
