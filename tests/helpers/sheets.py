"""Small sheets of both units, as judging pages show them."""

from __future__ import annotations

from unmask.audit import Question, Sheet

TEXTS = [f"Text of document {i}.\nSecond line." for i in range(4)]


def pairs_sheet() -> Sheet:
    """Two labels of each of four rows."""
    questions = [Question(i, j, f"doc-{i}", TEXTS[i]) for i in range(4) for j in range(2)]
    return Sheet("key-one", "pairs", tuple(questions), ("cat", "dog"))


def rows_sheet(n_labels: int = 2000) -> Sheet:
    """All labels of each of four rows."""
    names = ("Café", "cat", "wild cat", *(f"thing {i}" for i in range(3, n_labels)))
    questions = [Question(i, None, f"doc-{i}", TEXTS[i]) for i in range(4)]
    return Sheet("key-all", "rows", tuple(questions), names)
