"""Data sets: real files in and out, truth made and hidden, sizes counted.

`read` turns any file of the field into a `Dataset`, `write` turns it back; `parts` lists the parts
of a folder, `limits` raises what a file may ask for. `synthetic` makes data whose truth is known,
`hide` takes labels away from it as the masking model does. `describe` counts; `vocabulary` makes
words of texts, `idf` and `tfidf` turn word counts into features. `label_matrix` turns lists of
names into a matrix, `read_judgements` reads pairs that are verified or ignored, `same_labels` puts
data sets under the same names, `unseen` lists what one of them lacks; `subject_labels` reads the
names of a vocabulary, `read_hierarchy` its hierarchy.
"""

from unmask.data import synthetic
from unmask.data.dataset import Dataset, Judgement, describe, same_labels, unseen
from unmask.data.hierarchies import Hierarchy, hierarchy, read_hierarchy, subject_labels
from unmask.data.judgements import Judgements
from unmask.data.reading import FORMATS, parts, read, read_judgements
from unmask.data.synthetic import hide
from unmask.data.tables import label_matrix
from unmask.data.texts import Vocabulary, idf, tfidf, vocabulary
from unmask.data.writing import write
from unmask.files import limits

__all__ = [
    "FORMATS",
    "Dataset",
    "Hierarchy",
    "Judgement",
    "Judgements",
    "Vocabulary",
    "describe",
    "hide",
    "hierarchy",
    "idf",
    "label_matrix",
    "limits",
    "parts",
    "read",
    "read_hierarchy",
    "read_judgements",
    "same_labels",
    "subject_labels",
    "synthetic",
    "tfidf",
    "unseen",
    "vocabulary",
    "write",
]
