"""The judging page: the questions of an audit's sheet, in words."""

from __future__ import annotations

from unmask import report
from unmask.audit import Sheet

NOUNS = ("row", "label", "labels")
"""What the saved file calls rows and labels; `audit.read` reads these fields."""

_NOTES = {
    "pairs": (
        "Judge whether the label is right for the row, whoever may have said so before: the page "
        "does not show what is recorded or predicted.",
        "`Unsure` is an answer: such pairs are left out, and counted. `Skip` asks again later.",
        "Questions stand in random order, so you may stop at any time; what is judged counts.",
    ),
    "rows": (
        "Enter every label that is right for the row: from the list, or in your own words if the "
        "list does not have it. A row is complete when exactly the labels you entered apply; only "
        "complete rows count.",
        "`Unsure` leaves the row out, and is counted. `Skip` asks again later.",
        "Rows stand in random order, so you may stop at any time; what is complete counts.",
    ),
}


def questionnaire(sheet: Sheet, *, title: str | None = None) -> report.Questionnaire:
    """The questions of a sheet as a page on which a person answers.

    Parameters
    ----------
    sheet : Sheet
        What is asked.
    title : str, optional
        By default it says what is judged.

    Returns
    -------
    report.Questionnaire

    Examples
    --------
    >>> from unmask.audit import Question
    >>> asked = Sheet("k", "pairs", (Question(12, 1, "doc 12"),), ("cat", "dog"))
    >>> questionnaire(asked).options
    ('dog',)
    """
    positions: dict[int, int] = {}
    passages: list[report.Passage] = []
    for question in sheet.questions:
        if question.row not in positions:
            positions[question.row] = len(passages)
            passages.append(report.Passage(question.row_name, question.text))
    labels = sorted({q.label for q in sheet.questions if q.label is not None})
    place = {label: position for position, label in enumerate(labels)}
    pairs = sheet.unit == "pairs"
    return report.Questionnaire(
        title or ("Does the label apply?" if pairs else "Which labels apply?"),
        sheet.key,
        passages,
        tuple(sheet.label_names[label] for label in labels) if pairs else sheet.label_names,
        [
            report.Question(
                question.id,
                positions[question.row],
                None if question.label is None else place[question.label],
                question.hint,
            )
            for question in sheet.questions
        ],
        "Does this label apply to the row?" if pairs else "Which labels apply to this row?",
        NOUNS,
        _NOTES[sheet.unit],
    )
