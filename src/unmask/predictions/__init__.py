"""Predictions: the best k labels of every row or a set of them, in memory or in a file.

One order holds everywhere: **the higher score first; equal scores by label, smaller first**. Scores
are float32, and "equal" means equal as float32. A row names a label at most once.
"""

from unmask.arrays.top import LabelSets, TopK, fingerprint, listed_keys
from unmask.predictions.files import read, write

__all__ = ["LabelSets", "TopK", "fingerprint", "listed_keys", "read", "write"]
