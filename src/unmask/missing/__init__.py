"""Missing labels: which they probably are, how many, and a data set that is repaired.

    findings = missing.find(probabilities, labels, p)   # pairs, likeliest first, and how many
    asked = missing.review(findings, texts=texts)       # a sheet for people, in random order
    repaired = missing.complete(dataset, asked.reviewed(answers))

Read on in `findings` (the formula, pairs and numbers, and how good they are), `other_labels` (what
the other labels of a row say) and `repair` (people, and repaired data).
"""

from unmask.missing.findings import Bin, Findings, find, measure, posterior, rehearse, suspicious
from unmask.missing.other_labels import join
from unmask.missing.repair import Review, Reviewed, complete, read_review, review

__all__ = [
    "Bin",
    "Findings",
    "Review",
    "Reviewed",
    "complete",
    "find",
    "join",
    "measure",
    "posterior",
    "read_review",
    "rehearse",
    "review",
    "suspicious",
]
