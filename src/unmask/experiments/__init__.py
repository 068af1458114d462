"""Studies: each runs, writes rows, and only then is drawn (`runs`); `STUDIES` names them all."""

from unmask.experiments import (
    recall_histograms,
    recall_simulation,
    recall_table,
    recall_toy,
    recall_truth,
    variance,
)
from unmask.experiments.runs import SIZES, Study, run

STUDIES: dict[str, Study] = {
    module.STUDY.name: module.STUDY
    for module in (
        recall_toy,
        recall_simulation,
        recall_table,
        recall_histograms,
        recall_truth,
        variance,
    )
}

__all__ = ["SIZES", "STUDIES", "Study", "run"]
