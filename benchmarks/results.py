"""The table of results: numbers that the scripts measured, each with its date and its machine.

Every script takes `--json FILE` and writes its numbers there by name. `run.py` collects them in
`results.csv`, from which the documents take what they say of speed (`make tables`).
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).with_name("results.csv")


class Row(NamedTuple):
    """One measured number; script and name identify it."""

    script: str
    name: str
    value: float
    date: str
    machine: str


def add_json_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers to FILE")


def write_json(file: Path | None, numbers: Mapping[str, float]) -> None:
    """What a script measured, if `--json` asks for it."""
    if file is not None:
        file.write_text(json.dumps({name: float(v) for name, v in numbers.items()}, indent=1))


def read(file: Path = FILE) -> list[Row]:
    with file.open(encoding="utf-8", newline="") as lines:
        return [Row(**{**row, "value": float(row["value"])}) for row in csv.DictReader(lines)]


def update(script: str, numbers: Mapping[str, float], file: Path = FILE) -> None:
    """Put the numbers of a script into the table, as measured here and today.

    Rows of the script that it did not measure this time keep their value and their date.
    """
    today, here = date.today().isoformat(), machine()
    rows = {row[:2]: row for row in (read(file) if file.exists() else [])}
    rows |= {
        (script, name): Row(script, name, float(f"{value:.4g}"), today, here)
        for name, value in numbers.items()
    }
    with file.open("w", encoding="utf-8", newline="") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(Row._fields)
        writer.writerows(row._replace(value=f"{row.value:g}") for _, row in sorted(rows.items()))


def machine() -> str:
    """The processor, its cores that this process may use, and the Python."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
    model = models[0] if models else platform.processor() or platform.machine()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{cores} cores of {model}, Python {platform.python_version()}"
