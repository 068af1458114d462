"""Arrays that come in and go round: checked matrices, and predictions with their operations.

`checks` validates whatever a user hands in; `TopK` and `LabelSets` are predictions in memory.
"""

from unmask.arrays.checks import chosen_entries, entry_rows, pair_keys, stored_in, values_at
from unmask.arrays.top import LabelSets, Pairs, TopK, as_top, fingerprint, listed_keys

__all__ = [
    "LabelSets",
    "Pairs",
    "TopK",
    "as_top",
    "chosen_entries",
    "entry_rows",
    "fingerprint",
    "listed_keys",
    "pair_keys",
    "stored_in",
    "values_at",
]
