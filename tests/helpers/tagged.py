"""Small tables of texts with tags: hostile names, shuffled ids, missing tags."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

WORDS = {
    "physics": "light wave quantum energy particle",
    "optics": "lens light mirror focus laser",
    "law": "court judge contract statute appeal",
    "tax & revenue": "income revenue tax audit duty",
    "art, modern": "paint canvas museum colour",
    "生物学": "cell gene protein 细胞 基因",
    "=SUM(A1)": "formula sheet grid excel",
    "‮evil\x1b[31m": "snake apple curse poison",
}
"""Labels, among them a formula, a comma, another script, and what a terminal would act on."""


class Row(NamedTuple):
    """A document: id, text, recorded labels."""

    id: str
    text: str
    tags: tuple[str, ...]


def rows(n: int, *, first: int = 0, seed: int = 0, missing: float = 0.3) -> list[Row]:
    """Documents whose words come from their labels, of which some are not recorded."""
    rng = np.random.default_rng(seed)
    names, made = list(WORDS), []
    for i in range(n):
        true = rng.choice(len(names), size=rng.integers(1, 4), replace=False)
        words = [w for j in true for w in rng.choice(WORDS[names[j]].split(), 3)]
        words += rng.choice(["the", "of", "and", "in", "to"], 3).tolist()
        kept = [names[j] for j in true if rng.random() >= missing]
        made.append(Row(f"doc-{first + i}", " ".join(rng.permutation(words)), tuple(kept)))
    return made


def write_csv(path: Path, table: Sequence[Row], *columns: str) -> Path:
    """Some of the columns id, text and tags, with `;` between tags."""
    cells = [{"id": row.id, "text": row.text, "tags": ";".join(row.tags)} for row in table]
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns or ("id", "text", "tags"), extrasaction="ignore")
        writer.writeheader()
        writer.writerows(cells)
    return path


def shuffled(table: Sequence[Row], seed: int = 1) -> list[Row]:
    """The same rows in another order."""
    return [table[i] for i in np.random.default_rng(seed).permutation(len(table))]
