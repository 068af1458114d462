"""Reading what a command needs from files, and refusing a file that does not hold it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from unmask.cli.output import progress_console, warn

if TYPE_CHECKING:
    import scipy.sparse as sp

    from unmask._names import Strings
    from unmask._typing import Ints
    from unmask.arrays import TopK
    from unmask.data import Dataset, Hierarchy
    from unmask.metrics.judged_pairs import JudgedPairs


TABLE_SETTINGS = (
    "labels", "id", "text", "layout", "delimiter", "separator", "encoding", "nulls", "repeated",
    "negative", "ignored",
)  # fmt: skip
"""What --table may say of tables."""


def read(
    source: Path,
    part: str | None = None,
    format: str | None = None,
    *,
    base: int | None = None,
    columns: Mapping[str, str] | None = None,
    like: Dataset | None = None,
) -> Dataset:
    """A data set, with a note of progress while it is read; `columns` as `table_columns` gives."""
    from unmask import data

    settings: dict[str, Any] = dict(columns or {})
    with progress_console.status(f"reading {source}"):
        return data.read(source, part=part, format=format, base=base, like=like, **settings)


def table_columns(
    table: Sequence[str] | None,
    *,
    text: str | None = None,
    labels: str | None = None,
    id: str | None = None,
) -> dict[str, str]:
    """What --table, --text, --labels and --id say of tables, as `data.read` takes it."""
    from unmask.arrays.checks import one_of

    settings: dict[str, str] = {}
    for setting in table or ():
        name, equals, value = setting.partition("=")
        if not equals or not value:
            raise ValueError(
                f"--table takes NAME=VALUE, such as --table 'delimiter=;'; got {setting!r}."
            )
        settings[one_of(name, TABLE_SETTINGS, "name for --table")] = value
    more = {"text": text, "labels": labels, "id": id}
    return settings | {name: value for name, value in more.items() if value is not None}


def labels_of(dataset: Dataset, source: Path) -> sp.csr_array:
    """Its labels; ValueError if there are none."""
    return _present(dataset.labels, source, "labels")


def features_of(dataset: Dataset, source: Path) -> sp.csr_array:
    """Its features; ValueError if there are none."""
    if dataset.features is None and dataset.texts is not None:
        raise ValueError(f"{source} holds texts, no features; train a model of texts with --text.")
    if dataset.features is None and "layout" in dataset.source.details:
        raise ValueError(
            f"{source} is read as a table of labels, without features; say which column holds the "
            "texts with --text COLUMN."
        )
    return _present(dataset.features, source, "features")


def _present(matrix: sp.csr_array | None, source: Path, what: str) -> sp.csr_array:
    if matrix is None:
        raise ValueError(f"{source} holds no {what}; name a file that does.")
    return matrix


class Labelled(NamedTuple):
    """Labels of several files under the same names.

    Attributes
    ----------
    labels : (n, L) labels of the file itself
    trained : (m, L) labels of the training file, or of the file itself
    audited : observed and complete labels of the audited rows, or None
    names : names of the L labels, or None
    """

    labels: sp.csr_array
    trained: sp.csr_array
    audited: tuple[sp.csr_array, sp.csr_array] | None
    names: tuple[str, ...] | None


def read_labels(
    source: Path,
    train: Path | None,
    audit: tuple[Path, Path] | None,
    *,
    part: str | None = None,
    format: str | None = None,
    table: Sequence[str] | None = None,
) -> Labelled:
    """Labels of a file, of its training file and of two files of an audit, by the same names."""
    from unmask import data

    columns = table_columns(table)
    paths = [source, *([train] if train else []), *(audit or ())]
    sets = [read(source, part, format, columns=columns)]
    sets += [read(path, columns=columns) for path in paths[1:]]
    for path, dataset in zip(paths, sets, strict=True):
        labels_of(dataset, path)
    if all(each.label_names is not None for each in sets) and len(sets) > 1:
        sets = list(data.same_labels(*sets))
    if audit is not None and sets[-1].ids is not None and sets[-2].ids is not None:
        sets[-1] = sets[-1].take(_rows_of(sets[-2].ids, sets[-1].ids, "observed", "complete"))
    matrices = [labels_of(dataset, path) for path, dataset in zip(paths, sets, strict=True)]
    audited = (matrices[-2], matrices[-1]) if audit is not None else None
    trained = matrices[1] if train is not None else matrices[0]
    return Labelled(matrices[0], trained, audited, sets[0].label_names)


def _rows_of(ids: Strings, others: Strings, what: str, other: str) -> Ints:
    from unmask._names import matched_rows

    return matched_rows(ids, others, f"{what} labels", f"{other} labels")


@dataclass(frozen=True)
class EvaluatedRows:
    """The labels that predictions are compared with, and those of training, by the same names.

    Parameters
    ----------
    test : Dataset
        Labels of the test rows.
    train : Dataset or None
        Labels of the training rows.
    path : path
        The file of the test rows.
    """

    test: Dataset
    train: Dataset | None
    path: Path

    @property
    def observed(self) -> sp.csr_array:
        """(n, L): labels of the test rows."""
        return labels_of(self.test, self.path)

    @property
    def trained(self) -> sp.csr_array | None:
        """(m, L): labels of the training rows."""
        return None if self.train is None else self.train.labels

    @property
    def names(self) -> tuple[str, ...] | None:
        """Of the L labels."""
        return self.test.label_names


def read_test(
    labels: Path, train: Path | None, columns: Mapping[str, str], judgements: Path | None = None
) -> EvaluatedRows:
    """Labels of test and training rows; what only one of the files names has a column in both."""
    test = with_judgements(read(labels, columns=columns), judgements)
    labels_of(test, labels)
    if train is None:
        return EvaluatedRows(test, None, labels)
    trained = read(train, columns=columns)
    labels_of(trained, train)
    return EvaluatedRows(*_same_names(test, trained, labels, train), labels)


def read_systems(
    rows: EvaluatedRows, paths: Sequence[Path]
) -> tuple[EvaluatedRows, dict[str, TopK]]:
    """Predictions by the name of their file, in the order of the rows and labels.

    A predicted name that no row has gets a column without labels: the prediction counts as wrong.
    """
    from unmask import predictions

    with progress_console.status(f"reading {', '.join(map(str, paths))}"):
        systems = {str(path): predictions.read(path) for path in paths}
    rows = _with_predicted(rows, systems)
    return rows, {path: _aligned(top, rows, path) for path, top in systems.items()}


def with_ancestors(
    rows: EvaluatedRows, path: Path | None
) -> tuple[EvaluatedRows, Hierarchy | None]:
    """The rows with a column for every ancestor of their labels, and the hierarchy of a file."""
    from unmask import data

    if path is None:
        return rows, None
    if rows.names is None:
        raise ValueError(f"--hierarchy {path} names labels, and these have numbers only.")
    tree = data.read_hierarchy(path).aligned(rows.names)
    train = None if rows.train is None else rows.train.with_label_names(tree.names)
    return EvaluatedRows(rows.test.with_label_names(tree.names), train, rows.path), tree


def with_judgements(dataset: Dataset, path: Path | None) -> Dataset:
    """The data set with the judged pairs of a file, where one is named."""
    from unmask import data

    if path is None:
        return dataset
    if dataset.labels is None:
        raise ValueError(f"--judgements {path} needs a file with labels.")
    judged = data.read_judgements(
        path, dataset.labels.shape, ids=dataset.ids, label_names=dataset.label_names
    )
    return replace(dataset, judgements=judged)


def apply_judgements(
    rows: EvaluatedRows, systems: dict[str, TopK]
) -> tuple[EvaluatedRows, dict[str, TopK], JudgedPairs | None]:
    """Rows and predictions after the judgements of the test rows, where there are any."""
    from unmask.metrics.judged_pairs import judged_pairs

    if rows.test.judgements is None or (pairs := judged_pairs(rows.test)) is None:
        return rows, systems, None
    test = replace(rows.test, labels=pairs.labels, judgements=None)
    tops = {name: top.without(pairs.pairs.ignored) for name, top in systems.items()}
    return replace(rows, test=test), tops, pairs


def _with_predicted(rows: EvaluatedRows, systems: Mapping[str, TopK]) -> EvaluatedRows:
    from unmask._names import some

    if rows.names is None:
        return rows
    predicted = {name for top in systems.values() for name in top.names or ()}
    new = sorted(predicted - set(rows.names))
    if not new:
        return rows
    warn(
        f"{len(new):,} predicted labels occur in no row: {some(new, len(new))}; predictions of "
        "them count as wrong."
    )
    names = (*rows.names, *new)
    train = None if rows.train is None else rows.train.with_label_names(names)
    return EvaluatedRows(rows.test.with_label_names(names), train, rows.path)


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


def _aligned(top: TopK, rows: EvaluatedRows, path: str) -> TopK:
    """Predictions in the order of the labels' rows, with the labels' numbers."""
    from unmask._names import ids_of_rows
    from unmask.arrays import TopK

    test = rows.test
    unknown_numbers = rows.train is None and "layout" in test.source.details
    try:
        if test.label_names is None and top.names is not None:
            top = TopK.sorted(_numbers(top), top.scores).named(ids=top.ids)
        elif test.label_names is not None and top.names is None and unknown_numbers:
            raise ValueError(
                "labels are predicted by number, and nothing says whose numbers: give --train, or "
                "write predictions with names (.csv)."
            )
        ids = ids_of_rows(test.ids, rows.observed.shape[0], top.ids)
        return top.aligned(ids=ids, names=test.label_names)
    except ValueError as error:
        raise ValueError(f"{path} against {rows.path}: {error}") from None


def _numbers(top: TopK) -> Any:
    """Label numbers from names that are numbers."""
    import numpy as np

    names = top.names or ()
    wrong = next(
        (name for name in names if not (name.isascii() and name.isdigit()) or len(name) > 9), None
    )
    if wrong is not None:
        raise ValueError(f"labels have numbers here, but {wrong!r:.60} is predicted.")
    numbers = np.array([int(name) for name in names] or [0], dtype=np.int32)
    return np.where(top.labels < 0, np.int32(-1), numbers[top.labels])
