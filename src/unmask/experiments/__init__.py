"""Studies: each runs, writes rows, and only then is drawn (`runs`); `STUDIES` names them all."""

from unmask.experiments import recall_simulation, recall_toy, variance
from unmask.experiments.runs import SIZES, Study, run

STUDIES: dict[str, Study] = {
    module.STUDY.name: module.STUDY for module in (recall_toy, recall_simulation, variance)
}

__all__ = ["SIZES", "STUDIES", "Study", "run"]
