"""What every training on the command line has: its data, its kind of model, and its folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from unmask.cli.inputs import features_of
from unmask.cli.output import progress_console, warn

if TYPE_CHECKING:
    import scipy.sparse as sp

    from unmask._typing import Floats
    from unmask.data import Dataset, Vocabulary
    from unmask.models.linear import Plan
    from unmask.models.tree import TreePlan
    from unmask.parallel import Backend

KINDS = ("auto", "linear", "tree")
MANY = 20_000
"""Labels from which on a tree is trained by itself."""
ASKED = "asked for with --correction"
NO_PROPENSITIES = "no propensities were stated or audited, so what is not recorded counts as false"


class Kind(NamedTuple):
    """A kind of model, and why; whether it was left to us."""

    name: str
    reason: str
    by_itself: bool = False


def choose_kind(wished: str, n_labels: int, only_linear: Mapping[str, bool]) -> Kind:
    """The kind of model for so many labels.

    `only_linear` names options that label trees do not have, and says which are in use.
    """
    from unmask.arrays.checks import one_of

    one_of(wished, KINDS, "model")
    used = [name for name, in_use in only_linear.items() if in_use]
    if wished == "tree" and used:
        raise ValueError(
            f"label trees cannot be trained with {', '.join(used)}; leave that out, or train "
            "one-vs-all with --model linear."
        )
    if wished != "auto":
        return Kind(wished, f"{'label trees' if wished == 'tree' else 'linear'}, as asked")
    if n_labels < MANY:
        return Kind("linear", f"one-vs-all, the best there is below {MANY:,} labels", True)
    if used:
        return Kind("linear", f"one-vs-all, because label trees have no {', '.join(used)}", True)
    reason = f"label trees: one-vs-all of {n_labels:,} labels takes long; see --model linear"
    return Kind("tree", reason, True)


class Inputs(NamedTuple):
    """The features of a training, and what makes them of counts or texts."""

    features: sp.csr_array
    idf: Floats | None
    vocabulary: Vocabulary | None


def training_inputs(dataset: Dataset, source: Path, tfidf: bool) -> Inputs:
    """The features of a data set: as they are, by tf-idf, or made of its texts."""
    from unmask import data

    if dataset.texts is None:
        features = features_of(dataset, source)
        if tfidf and (features.data % 1).any():
            warn("features are no whole numbers; if they are weighted already, leave --tfidf out.")
        idf = data.idf(features) if tfidf else None
        return Inputs(features if idf is None else data.tfidf(features, idf), idf, None)
    with progress_console.status(f"counting the words of {dataset.n:,} texts"):
        words = data.vocabulary(dataset.texts)
        counts = words.counts(dataset.texts)
    idf = data.idf(counts)
    return Inputs(data.tfidf(counts, idf), idf, words)


def refuse_chosen(options: Sequence[str]) -> None:
    """ValueError if options are stated that --tune chooses."""
    if options:
        raise ValueError(f"--tune chooses {', '.join(options)} itself; leave out one or the other.")


def expectations(plan: Plan | TreePlan) -> dict[str, object]:
    """How long a training will take, and how large its model will be, as people read it."""
    from datetime import timedelta

    from unmask.models.training import gigabytes

    return {
        "milliseconds per label": 1000 * plan.seconds_per_label,
        "expected time": str(timedelta(seconds=round(plan.seconds))),
        "expected model": gigabytes(plan.model_bytes),
    }


@dataclass(frozen=True)
class Training:
    """A training as it was asked for, whatever the model."""

    source: Path
    dataset: Dataset
    labels: sp.csr_array
    inputs: Inputs
    kind: Kind
    correction: str | None
    propensity: str | None
    output: Path | None
    resume: bool
    plan_only: bool
    backend: Backend
    as_json: bool

    @property
    def folder(self) -> Path:
        """Where the model goes; without a folder, an error."""
        if self.output is None:
            raise ValueError(
                "name a folder for the model with --output, or ask for the --plan only."
            )
        return self.output

    @property
    def bytes_written(self) -> int:
        """The size of the model's files."""
        return sum(file.stat().st_size for file in self.folder.iterdir() if file.is_file())
