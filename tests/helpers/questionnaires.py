"""Small questionnaires of both kinds."""

from __future__ import annotations

from unmask.report import Passage, Question, Questionnaire

PASSAGES = [Passage(f"doc-{i}", f"Text of document {i}.\nSecond line.") for i in range(4)]
NOUNS = ("row", "label", "labels")


def asked_about_one() -> Questionnaire:
    """Two labels of each of four rows."""
    questions = [Question(f"r{i}_l{j}", i, j) for i in range(4) for j in range(2)]
    return Questionnaire(
        "Judge", "key-one", PASSAGES, ["cat", "dog"], questions, "Does it apply?", NOUNS,
        notes=["Judge the text alone."],
    )  # fmt: skip


def asked_about_all(n_options: int = 2000) -> Questionnaire:
    """All labels of each of four rows."""
    options = ["Café", "cat", "wild cat", *(f"thing {i}" for i in range(3, n_options))]
    questions = [Question(f"r{i}", i) for i in range(4)]
    return Questionnaire("Judge", "key-all", PASSAGES, options, questions, "Which apply?", NOUNS)
