"""Data sets: real files in and out, truth made and hidden, sizes counted.

`read` turns any file of the field into a `Dataset`, `write` turns it back; `parts` says what a
folder holds. `synthetic` makes data whose truth is known, `hide` takes labels away from it as the
masking model does; `limits` says what a file may ask for. `describe` counts, `idf` and `tfidf` turn
word counts into features.
"""

from unmask._io import limits
from unmask.data import synthetic
from unmask.data.dataset import Dataset, Source
from unmask.data.features import idf, tfidf
from unmask.data.folder import parts
from unmask.data.formats import FORMATS
from unmask.data.judgements import Judgements
from unmask.data.masking import hide
from unmask.data.reading import read
from unmask.data.summary import TAIL, Description, describe
from unmask.data.writing import write

__all__ = [
    "FORMATS",
    "TAIL",
    "Dataset",
    "Description",
    "Judgements",
    "Source",
    "describe",
    "hide",
    "idf",
    "limits",
    "parts",
    "read",
    "synthetic",
    "tfidf",
    "write",
]
