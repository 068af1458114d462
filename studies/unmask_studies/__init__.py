"""Studies: the paper's experiments and ours; each runs, writes rows, and only then is drawn.

They use the library and are no part of it; `unmask reproduce` runs them.
"""

from unmask_studies.pages import KINDS, STUDIES, claims, study_page
from unmask_studies.study import SIZES, Study, rows_file, run
from unmask_studies.training import LOSSES, only

__all__ = [
    "KINDS",
    "LOSSES",
    "SIZES",
    "STUDIES",
    "Study",
    "claims",
    "only",
    "rows_file",
    "run",
    "study_page",
]
