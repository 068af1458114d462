"""Missing labels: which they probably are, how many, and a data set that is repaired.

    findings = missing.find(probabilities, labels, p)   # pairs, likeliest first, and how many
    asked = missing.review(findings, texts=texts)       # a sheet for people, in random order
    repaired = missing.complete(dataset, asked.reviewed(answers))

Read on in `bayes` (the formula), `findings` (pairs and numbers), `other_labels` (what the other
labels of a row say), `rehearsal` (how good findings are), `reviewing` (people) and `repair`.
"""

from unmask.missing.findings import Findings, find, posterior, suspicious
from unmask.missing.other_labels import JoinedProbabilities, join
from unmask.missing.rehearsal import Bin, Quality, measure, rehearse
from unmask.missing.repair import Origin, Repaired, Review, Reviewed, complete, read_review, review

__all__ = [
    "Bin",
    "Findings",
    "JoinedProbabilities",
    "Origin",
    "Quality",
    "Repaired",
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
