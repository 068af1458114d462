"""Reading what a command needs from files, and refusing a file that does not hold it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from unmask.cli.output import progress_console, warn

if TYPE_CHECKING:
    import scipy.sparse as sp

    from unmask._names import Strings
    from unmask.data import Dataset
    from unmask.predictions import TopK


def read(
    source: Path,
    part: str | None = None,
    format: str | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    like: Dataset | None = None,
) -> Dataset:
    """A data set, with a note of progress while it is read; `columns` as `table_columns` gives."""
    from unmask import data

    settings: dict[str, Any] = dict(columns or {})
    with progress_console.status(f"reading {source}"):
        return data.read(source, part=part, format=format, like=like, **settings)


def table_columns(
    table: Sequence[str] | None,
    *,
    text: str | None = None,
    labels: str | None = None,
    id: str | None = None,
) -> dict[str, str]:
    """What --table, --text, --labels and --id say of tables, as `data.read` takes it."""
    from unmask._validation import one_of

    names = ("labels", "id", "text", "layout", "delimiter", "separator", "encoding", "nulls",
             "repeated")  # fmt: skip
    settings: dict[str, str] = {}
    for setting in table or ():
        name, equals, value = setting.partition("=")
        if not equals or not value:
            raise ValueError(f"--table takes NAME=VALUE, such as delimiter=';'; got {setting!r}.")
        settings[one_of(name, names, "name for --table")] = value
    more = {"text": text, "labels": labels, "id": id}
    return settings | {name: value for name, value in more.items() if value is not None}


def labels_of(dataset: Dataset, source: Path) -> sp.csr_array:
    """Its labels; ValueError if there are none."""
    return _present(dataset.labels, source, "labels")


def features_of(dataset: Dataset, source: Path) -> sp.csr_array:
    """Its features; ValueError if there are none."""
    if dataset.features is None and dataset.texts is not None:
        raise ValueError(f"{source} holds texts, no features; train a model of texts with --text.")
    return _present(dataset.features, source, "features")


def _present(matrix: sp.csr_array | None, source: Path, what: str) -> sp.csr_array:
    if matrix is None:
        raise ValueError(f"{source} holds no {what}; name a file that does.")
    return matrix


class Matched(NamedTuple):
    """Labels and predictions of the same rows, with the same numbers for labels.

    Attributes
    ----------
    observed : (n, L) labels of the test rows
    trained : (m, L) labels of the training rows, or None
    systems : predictions by the name of their file
    names : names of the L labels, or None
    ids : names of the n rows, or None
    """

    observed: sp.csr_array
    trained: sp.csr_array | None
    systems: dict[str, TopK]
    names: tuple[str, ...] | None
    ids: Strings | None


def matched(
    labels: Path, train: Path | None, predictions: Sequence[Path], columns: Mapping[str, str]
) -> Matched:
    """What an evaluation compares, brought together by ids and names where there are any."""
    test = read(labels, columns=columns)
    trained = None if train is None else read(train, columns=columns)
    labels_of(test, labels)
    if trained is not None and train is not None:
        labels_of(trained, train)
        test, trained = _same_names(test, trained, labels, train)
    systems = _read_predictions(predictions)
    numbered = trained is None and "layout" in test.source.details
    systems = {
        path: _aligned(top, test, path, labels, numbered=numbered) for path, top in systems.items()
    }
    return Matched(
        labels_of(test, labels),
        None if trained is None else trained.labels,
        systems,
        test.label_names,
        test.ids,
    )


def _same_names(
    test: Dataset, train: Dataset, labels: Path, trained: Path
) -> tuple[Dataset, Dataset]:
    """Both with the label columns of the training file, then those that it lacks."""
    from unmask import data
    from unmask._names import some

    if test.label_names is None and train.label_names is None:
        return test, train
    if test.label_names is None or train.label_names is None:
        without = labels if test.label_names is None else trained
        if "layout" not in test.source.details and "layout" not in train.source.details:
            return test, train  # numbers, of which one file has names beside it
        raise ValueError(
            f"{without} has numbers for labels, the other file names; give both with names."
        )
    new = data.unseen(test, train)
    if new.names:
        warn(
            f"{labels}: {len(new.names):,} labels ({new.pairs:,} times) have no row in {trained}: "
            f"{some(new.names, len(new.names))}; they count as labels that nothing predicts."
        )
    first, second = data.same_labels(train, test)
    return second, first


def _read_predictions(paths: Sequence[Path]) -> dict[str, TopK]:
    """Predictions by the name of their file, the first system first."""
    from unmask import predictions

    with progress_console.status(f"reading {', '.join(map(str, paths))}"):
        return {str(path): predictions.read(path) for path in paths}


def _aligned(top: TopK, test: Dataset, path: str, labels: Path, *, numbered: bool) -> TopK:
    """Predictions in the order of the labels' rows, with the labels' numbers."""
    from unmask.predictions import TopK

    try:
        if test.label_names is None and top.names is not None:
            top = TopK.sorted(_numbers(top), top.scores).named(ids=top.ids)
        elif test.label_names is not None and top.names is None and numbered:
            raise ValueError(
                "labels are predicted by number, and nothing says whose numbers: give --train, or "
                "write predictions with names (.csv)."
            )
        return top.aligned(ids=test.ids, names=test.label_names)
    except ValueError as error:
        raise ValueError(f"{path} against {labels}: {error}") from None


def _numbers(top: TopK) -> Any:
    """Label numbers from names that are numbers."""
    import numpy as np

    names = top.names or ()
    wrong = next((name for name in names if not name.isdigit() or len(name) > 9), None)
    if wrong is not None:
        raise ValueError(f"labels have numbers here, but {wrong!r:.60} is predicted.")
    numbers = np.array([int(name) for name in names] or [0], dtype=np.int32)
    return np.where(top.labels < 0, np.int32(-1), numbers[top.labels])
