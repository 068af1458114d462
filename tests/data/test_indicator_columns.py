"""Columns of 0 and 1 in a table: the name of the column is the label."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from unmask import data

ROWS = [("a", 1, 0, 0), ("b", 0, 1, 0), ("c", 1, 1, 0)]
TRUE = [[1, 0, 0], [0, 1, 0], [1, 1, 0]]


def write(path: Path, zero: str, one: str, separator: str = ",") -> Path:
    lines = [["id", "game", "art", "law", "text"]]
    lines += [[key, *((zero, one)[v] for v in values), "some words"] for key, *values in ROWS]
    path.write_text("\n".join(separator.join(line) for line in lines) + "\n")
    return path


def test_columns_of_0_and_1_are_labels_by_the_name_of_the_column(tmp_path: Path) -> None:
    order = [1, 0, 2]  # art, game, law
    for zero, one in (("0", "1"), ("false", "true"), ("False", "True"), ("0.0", "1.0")):
        path = write(tmp_path / "t.csv", zero, one)
        made = data.read(path, text="text", labels="game,art,law", id="id")
        assert made.label_names == ("art", "game", "law")
        np.testing.assert_array_equal(made.labels.toarray(), np.array(TRUE)[:, order])
        assert made.source.details["labels"] == "game,art,law"
        for column, name in enumerate(("game", "art", "law")):
            one_label = data.read(path, text="text", labels=name, id="id")
            assert one_label.label_names == (name,)
            np.testing.assert_array_equal(
                one_label.labels.toarray()[:, 0], np.array(TRUE)[:, column]
            )
        like = data.read(path, labels="law,art", id="id", like=made)
        assert like.label_names == made.label_names
        np.testing.assert_array_equal(like.labels.toarray(), np.array(TRUE)[:, order] * [1, 0, 1])


def test_0_and_1_are_names_where_that_is_said_or_known(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "0", "1")
    assert data.read(path, labels="game", delimiter="none").label_names == ("0", "1")
    (tmp_path / "names.csv").write_text("id,game\nx,0\ny,7\nz,1\n")
    like = data.read(tmp_path / "names.csv", labels="game", layout="wide")
    assert like.label_names == ("0", "1", "7")
    assert data.read(path, labels="game", like=like).label_names == ("0", "1", "7")
    (tmp_path / "lists.csv").write_text("id,game\nx,0;1\ny,1\nz,\n")
    assert data.read(tmp_path / "lists.csv", labels="game", layout="wide").label_names == ("0", "1")


def test_columns_that_are_none_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "0", "1")
    empty = write(tmp_path / "empty.csv", "", "1")
    for source, labels, message in (
        (path, "game,chess", "has no column 'chess'"),
        (path, "game,text", "'text' holds something else; leave it out"),
        (path, "game,game", "named twice"),
        (path, "game,id", "named twice"),
        (empty, "game", "line 3: column 'game' holds 0 or 1 elsewhere, and nothing here"),
        (empty, "art,game", "line 2: column 'art' holds 0 or 1 elsewhere"),
    ):
        with pytest.raises(ValueError, match=message):
            data.read(source, labels=labels, id="id", layout="wide")
    with pytest.raises(ValueError, match="long table has one column of labels"):
        data.read(path, labels="game,art", id="id", layout="long")
