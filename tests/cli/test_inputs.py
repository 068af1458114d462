"""What commands read: predictions by names that are numbers, and labels that are verified."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from unmask import TopK, cli
from unmask.cli import evaluate, inputs, options

SCORES = np.array([[0.9, 0.1, 0.5], [0.2, 0.7, -np.inf], [-np.inf, -np.inf, 0.3]])


def test_names_that_are_numbers_are_label_numbers() -> None:
    top = TopK.from_scores(SCORES, 3).named(names=("7", "0", "012"))
    expected = [[7, 12, 0], [0, 7, -1], [12, -1, -1]]
    assert inputs._numbers(top).tolist() == expected
    assert inputs._numbers(top).dtype == np.int32
    large = TopK.from_scores(SCORES, 3).named(names=("9" * 9, "0", "1"))
    assert inputs._numbers(large).max() == 999_999_999


@pytest.mark.parametrize("name", ["x", "-1", "²", "1" * 10, ""])
def test_other_names_are_refused(name: str) -> None:
    top = TopK.from_scores(SCORES, 3).named(names=("7", name, "9" * 9))
    with pytest.raises(ValueError, match=f"labels have numbers here, but '{name}' is predicted"):
        inputs._numbers(top)


@pytest.mark.parametrize("certain", [[False, False], [True, False]])
def test_only_verified_labels_have_propensities_of_their_own(certain: list[bool]) -> None:
    stated = SimpleNamespace(value=np.array([0.5, 0.6]))
    asked: list[Any] = []
    pairs: Any = SimpleNamespace(certain=np.array(certain), propensity=asked.append)
    for p in (stated, stated.value):
        made = evaluate.with_judged(SimpleNamespace(pairs=pairs), p)  # type: ignore[arg-type]
        assert made is (None if any(certain) else p)
    assert all(each is stated.value for each in asked)
    assert len(asked) == 2 * any(certain)


def test_labels_by_numbers_and_by_names_do_not_mix() -> None:
    """The file without names is the one to blame; where both are matrices, numbers are all."""

    def rows(names: tuple[str, ...] | None, *, table: bool) -> Any:
        details = {"layout": "wide"} if table else {}
        return SimpleNamespace(label_names=names, source=SimpleNamespace(details=details))

    files = Path("test.csv"), Path("train.csv")
    for test, train, guilty in (
        (rows(None, table=False), rows(("a",), table=True), "test.csv"),
        (rows(("a",), table=True), rows(None, table=False), "train.csv"),
        (rows(None, table=True), rows(("a",), table=False), "test.csv"),
    ):
        with pytest.raises(ValueError, match=f"^{guilty} has numbers for labels"):
            inputs._same_names(test, train, *files)
    for test, train in (
        (rows(None, table=True), rows(None, table=True)),
        (rows(("a",), table=False), rows(None, table=False)),
        (rows(None, table=False), rows(("a",), table=False)),
    ):
        assert inputs._same_names(test, train, *files) == (test, train)


@pytest.mark.parametrize(
    ("stated", "held"),
    [
        ({"max_expansion": 7.0}, (7.0, 100_000_000, 200_000_000)),
        ({"max_columns": 7}, (200, 7, 200_000_000)),
        ({"max_json": 7}, (200, 100_000_000, 7)),
        ({"max_expansion": 7.0, "max_json": 9}, (7.0, 100_000_000, 9)),
    ],
)
def test_each_limit_can_be_stated_alone(
    stated: dict[str, Any], held: tuple[float, int, int]
) -> None:
    taken: list[Any] = []
    context: Any = SimpleNamespace(with_resource=taken.append)
    cli._options(context, **stated)
    with taken.pop() as limits:
        assert (limits.expansion, limits.columns, limits.json) == held
    cli._options(context)
    assert not taken


def test_rows_of_an_audit_are_matched_by_their_ids_where_both_files_have_them(
    tmp_path: Path,
) -> None:
    observed, complete, plain = (
        tmp_path / name for name in ("observed.csv", "complete.csv", "plain.csv")
    )
    observed.write_text("id,labels\na,x\nb,y\nc,\n")
    complete.write_text("id,labels\nc,z\na,x;y\nb,y\n")
    plain.write_text("labels\nz\nx;y\ny\n")
    files = options.Files(table=["labels=labels"])
    for second, expected in (
        (complete, [[1, 1, 0], [0, 1, 0], [0, 0, 1]]),
        (plain, [[0, 0, 1], [1, 1, 0], [0, 1, 0]]),
    ):
        read = inputs.read_labels(complete, files, audit=(observed, second))
        assert read.audited is not None
        assert read.names == ("x", "y", "z")
        assert read.audited[0].toarray().tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 0]]
        assert read.audited[1].toarray().tolist() == expected
