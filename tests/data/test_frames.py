"""Tables in memory are the tables of files: pandas, polars, Arrow, Hugging Face, Parquet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.preprocessing import MultiLabelBinarizer

from tests.helpers import tagged
from unmask import TopK, data, predictions
from unmask.files.tables import _arrow_strings

ROWS = tagged.rows(30, seed=5)
COLUMNS: dict[str, list[Any]] = {
    "id": [row.id for row in ROWS],
    "text": [row.text for row in ROWS],
    "tags": [list(row.tags) for row in ROWS],
}


def pandas_frame() -> Any:
    return pytest.importorskip("pandas", reason="needs pandas").DataFrame(COLUMNS)


def polars_frame() -> Any:
    return pytest.importorskip("polars", reason="needs polars").DataFrame(COLUMNS)


def arrow_table() -> Any:
    return pytest.importorskip("pyarrow", reason="needs pyarrow").table(COLUMNS)


class Labels:
    """As `datasets.Sequence(ClassLabel)` shows itself."""

    class feature:
        names = tuple(tagged.WORDS)


class HuggingFace:
    """As much of a `datasets.Dataset` as is used."""

    column_names = ("id", "text", "tags")
    features = {"id": None, "text": None, "tags": Labels()}  # noqa: RUF012

    def __getitem__(self, name: str) -> list[Any]:
        if name != "tags":
            return COLUMNS[name]
        return [[Labels.feature.names.index(tag) for tag in row] for row in COLUMNS["tags"]]


FRAMES: dict[str, Callable[[], Any]] = {
    "mapping": lambda: COLUMNS,
    "arrays": lambda: {**COLUMNS, "id": np.array(COLUMNS["id"], dtype=object)},
    "pandas": pandas_frame,
    "polars": polars_frame,
    "arrow": arrow_table,
    "hugging face": HuggingFace,
}


@pytest.mark.parametrize("kind", FRAMES)
def test_every_frame_is_the_same_data_set(kind: str) -> None:
    found = data.read(FRAMES[kind](), text="text", labels="tags", id="id")
    assert list(found.ids or ()) == COLUMNS["id"]
    assert list(found.texts or ()) == COLUMNS["text"]
    assert [set(found.labels_of(i)) for i in range(30)] == [set(row.tags) for row in ROWS]
    assert found.label_names == tuple(sorted(tagged.WORDS))
    assert found.source.format == "memory"


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_delimited_cells_and_gaps_of_frames(kind: str) -> None:
    module = pytest.importorskip(kind, reason=f"needs {kind}")
    frame = module.DataFrame({"id": [1, 2, 3], "tags": ["a; b", None, "b"]})
    found = data.read(frame)
    assert [found.labels_of(i) for i in range(3)] == [("a", "b"), (), ("b",)]
    assert list(found.ids or ()) == ["1", "2", "3"]


@pytest.mark.parametrize("kind", ["pandas", "polars", "mapping"])
def test_long_frames(kind: str) -> None:
    columns = {"id": ["x", "x", "y"], "label": ["a", "b", "a"], "score": [0.5, 0.25, 1.0]}
    frame = columns if kind == "mapping" else pytest.importorskip(kind).DataFrame(columns)
    top = predictions.read(frame)
    assert (top.names, list(top.ids or ())) == (("a", "b"), ["x", "y"])
    assert top.scores[0].tolist() == [0.5, 0.25]
    with pytest.raises(ValueError, match="holds predictions, not labels"):
        data.read(frame)


def test_parquet_holds_everything(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    whole = data.read(COLUMNS, text="text")
    data.write(tmp_path / "t.parquet", whole)
    found = data.read(tmp_path / "t.parquet", text="text")
    assert found.source.format == "parquet"
    assert (found.ids, found.texts, found.label_names) == (
        whole.ids,
        whole.texts,
        whole.label_names,
    )
    assert (found.labels != whole.labels).nnz == 0
    top = TopK.from_pairs([[("law", 0.5)], []], ids=["a", "b"])
    predictions.write(tmp_path / "p.parquet", top)
    again = predictions.read(tmp_path / "p.parquet")
    assert (again.ids, again.names) == (top.ids, top.names)
    assert np.array_equal(again.scores, top.scores)
    (tmp_path / "bad.parquet").write_bytes(b"PAR1nonsense")
    with pytest.raises(ValueError, match="not a sound Parquet file"):
        data.read(tmp_path / "bad.parquet")


def test_without_pyarrow_the_message_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=r"install pyarrow: pip install 'unmask\[tables\]'"):
        data.read(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="install pyarrow"):
        data.write(tmp_path / "t.parquet", data.read(COLUMNS))


def test_what_a_binarizer_made_goes_on_with_its_names() -> None:
    tags = [{"law", "tax"}, set(), {"art"}]
    binarizer = MultiLabelBinarizer(sparse_output=True)
    rows = data.Dataset(None, binarizer.fit_transform(tags), label_names=tuple(binarizer.classes_))
    assert [set(rows.labels_of(row)) for row in range(3)] == tags
    assert (rows.labels != data.read(tags).labels).nnz == 0
    again = MultiLabelBinarizer(classes=rows.label_names).fit_transform(
        [rows.labels_of(row) for row in range(3)]
    )
    np.testing.assert_array_equal(again, rows.labels.toarray())


def test_columns_without_rows_have_no_text() -> None:
    """Arrow's buffers may be missing where there is nothing in them."""
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
    for empty in (pa.array([], pa.string()), pa.array([], pa.large_string())):
        made = _arrow_strings(empty)
        assert (made.data.size, made.offsets.tolist(), list(made)) == (0, [0], [])
    some = pa.array(["a", None, "", "üb", "c"])
    for part, texts in ((some, ["a", "", "", "üb", "c"]), (some[1:4], ["", "", "üb"])):
        made = _arrow_strings(part)
        assert list(made) == texts
        assert made.offsets[0] == 0
        assert made.data.size == made.offsets[-1] == sum(len(text.encode()) for text in texts)
    gaps = _arrow_strings(pa.array([None, None], pa.string()))
    assert (list(gaps), gaps.data.size) == (["", ""], 0)
