"""Tables are read as Python's csv and json read them, or refused with file, line and token."""

from __future__ import annotations

import csv
import io
import json
import random
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask import data
from unmask.data import Dataset
from unmask.files import streams
from unmask.files.streams import blocks
from unmask.files.tables import recognised

NAME = (
    st.text(
        st.characters(blacklist_categories=("Cs",), blacklist_characters=";"),
        min_size=1,
        max_size=8,
    )
    .map(str.strip)
    .filter(lambda name: name and name.lower() not in ("nan", "na", "null", "none"))
)
CELL = st.text(st.characters(blacklist_categories=("Cs",)), max_size=12)


@st.composite
def tables(draw: st.DrawFn) -> list[tuple[str, str, list[str]]]:
    """Rows of id, text and labels, in which anything may stand."""
    ids = draw(st.lists(CELL.filter(bool), min_size=1, max_size=6, unique=True))
    labels = [draw(st.lists(NAME, max_size=4, unique=True)) for _ in ids]
    return [(key, draw(CELL), own) for key, own in zip(ids, labels, strict=True)]


def written(rows: list[tuple[str, str, list[str]]], separator: str, end: str) -> bytes:
    """As Python's csv writes them, names between semicolons, every field in quotes."""
    file = io.StringIO(newline="")
    writer = csv.writer(
        file, delimiter=separator, lineterminator=end, quoting=csv.QUOTE_ALL
    )  # fmt: skip
    writer.writerow(["id", "text", "tags"])
    writer.writerows([key, text, "; ".join(labels)] for key, text, labels in rows)
    return file.getvalue().encode()


def contents(dataset: Dataset) -> list[tuple[str, str, set[str]]]:
    assert dataset.ids is not None
    assert dataset.texts is not None
    return [
        (key, text, set(dataset.labels_of(row)))
        for row, (key, text) in enumerate(zip(dataset.ids, dataset.texts, strict=True))
    ]


@settings(max_examples=60, deadline=None)
@given(tables(), st.sampled_from(",;\t|"), st.sampled_from(["\n", "\r\n"]), st.integers(1, 40))
def test_what_csv_wrote_is_read(tmp_path_factory, rows, separator, end, block) -> None:
    """Any text in any field, in blocks as small as a byte: the names, ids and texts come back."""
    path = tmp_path_factory.mktemp("csv") / "tags.csv"
    path.write_bytes(written(rows, separator, end))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "BLOCK", block)
        patch.setattr(streams.blocks, "__defaults__", (block,))
        found = data.read(
            path, text="text", labels="tags", id="id", separator=separator, delimiter=";"
        )
    assert contents(found) == [(key, text, set(labels)) for key, text, labels in rows]
    assert found.label_names == tuple(sorted({name for _, _, own in rows for name in own}))


@settings(max_examples=40, deadline=None)
@given(tables(), st.sampled_from(["csv", "tsv", "jsonl", "npz", "csv.gz", "jsonl.zst"]))
def test_what_is_written_is_read_again(tmp_path_factory, rows, ending) -> None:
    path = tmp_path_factory.mktemp("round") / f"tags.{ending}"
    labels, names = data.label_matrix([own for _, _, own in rows])
    whole = Dataset(
        None, labels, label_names=names, ids=[r[0] for r in rows], texts=[r[1] for r in rows]
    )
    data.write(path, whole)
    found = data.read(path) if ending == "npz" else data.read(path, text="text")
    assert contents(found) == contents(whole)


def test_columns_of_a_label_matrix_can_be_taken() -> None:
    """scipy wants one type for indices and starts of rows, and old versions insist."""
    labels, names = data.label_matrix([["b"], [], ["a", "b"]])
    assert names == ("a", "b")
    assert labels.indices.dtype == labels.indptr.dtype == np.int32
    assert labels[:, [1]].toarray().ravel().tolist() == [1, 0, 1]


@settings(max_examples=40, deadline=None)
@given(tables(), st.randoms())
def test_long_and_wide_are_the_same_in_any_order(tmp_path_factory, rows, random_) -> None:
    """A line per label, shuffled: the same columns, and the same labels for every id."""
    folder = tmp_path_factory.mktemp("long")
    lines = [(key, name) for key, _, own in rows for name in own or [""]]
    random_.shuffle(lines)
    with open(folder / "long.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([("id", "label"), *lines])
    found = data.read(folder / "long.csv", delimiter="none")
    assert found.source.details["layout"] == "long"
    assert found.ids is not None
    own = {key: set(labels) for key, _, labels in rows}
    assert {key: set(found.labels_of(i)) for i, key in enumerate(found.ids)} == own


def put(folder: Path, text: str | bytes, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


WRONG = {
    "more fields": ("id,tags\nd1,a\nd2,b,c\n", "line 3: expected 2 fields.*got 3: 'd2,b,c'"),
    "fewer fields": ("id,tags\nd1\n", "line 2: expected 2 fields, as in the first line, got 1"),
    "after a quote": ('id,tags\nd1,"a"b\n', "line 2: a field goes on after its closing quote: 'b'"),
    "stray quote": ('id,tags\nd1,a"b\n', "line 2: a quote inside a field that has none"),
    "open quote": ('id,tags\nd1,a\nd2,"b\n\n', "line 3: a quote in this record is never closed"),
    "id twice": ("id,tags\nd1,a\nd2,b\nd1,c\n", r"line 4: the id 'd1' stands a second time"),
    "no id": ("id,tags\nd1,a\n,b\n", "line 3: the row has no id"),
    "label twice": ("id,tags\nd1,a;b;a\n", "line 2: the label 'a' stands twice in one row"),
    "empty name": ("id,tags\nd1,a;;b\n", "line 2: an empty name among the labels 'a;;b'"),
    "NaN": ("id,tags\nd1,a\nd2,NaN\n", "line 3: the labels are 'NaN', which may mean 'no value'"),
    "no rows": ("id,tags\n", "has a header but no rows"),
    "empty file": ("", "the file is empty"),
    "no labels": ("id,x\nd1,a\n", "no column is called labels, tags or the like.*'id', 'x'"),
    "two label columns": ("id,tags,topics\nd,a,b\n", "labels: 'tags' or 'topics'"),
    "a line after quotes": ('id,tags\n"d\n1",a\nd2,a;a\n', "line 4: the label 'a' stands twice"),
    "not UTF-8": (b"id,tags\nd1,caf\xe9\n", "line 2: not UTF-8 text, at .*encoding='cp1252'"),
    "pair twice": ("id,label\nd1,a\nd2,a\nd1,a\n", "line 4: the label 'a' stands a second time"),
    "value": (
        "id,label,value\nd1,a,1\nd1,b,maybe\n",
        "line 3: a value must be 0 or 1, or ignore or ignored or -1 or unsure or [?] for a pair",
    ),
    "scores": ("id,label,score\nd1,a,0.5\n", "holds predictions, not labels"),
    "list": ("id,tags\nd1,['a' 'b']\n", "line 2: expected a list of names"),
}


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_wrong_tables_are_refused_with_file_line_and_token(tmp_path: Path, wrong: str) -> None:
    text, message = WRONG[wrong]
    path = put(tmp_path, text)
    with pytest.raises(ValueError, match=message) as caught:
        data.read(path)
    assert str(path) in str(caught.value)


WRONG_JSON = {
    "not JSON": ('{"id": 1}\n{"id": 2,}\n', "line 2 is not JSON"),
    "no object": ('{"id": 1, "tags": []}\n[1]\n', "expected a JSON object"),
    "key twice": ('{"id": 1, "id": 2, "tags": []}\n', "the key 'id' stands twice"),
    "NaN": ('{"id": 1, "tags": NaN}\n', "NaN is no JSON"),
    "mixed": ('{"id": 1, "tags": ["a"]}\n{"id": 2, "tags": "b"}\n', "line 2: column 'tags' holds"),
    "object": ('{"id": 1, "tags": {"a": 1}}\n', "line 1: column 'tags' must hold text"),
}


@pytest.mark.parametrize("wrong", WRONG_JSON, ids=str)
def test_wrong_json_lines_are_refused(tmp_path: Path, wrong: str) -> None:
    text, message = WRONG_JSON[wrong]
    with pytest.raises(ValueError, match=message):
        data.read(put(tmp_path, text, "t.jsonl"))


def test_columns_are_found_and_can_be_said(tmp_path: Path) -> None:
    path = put(tmp_path, "doc_id\tkind\tsubjects\n7\tx\tart|law\n8\ty\ttax\n", "t.tsv")
    found = data.read(path)
    assert (found.label_names, tuple(found.ids or ())) == (("art", "law", "tax"), ("7", "8"))
    assert dict(found.source.details) == {
        "layout": "wide", "id": "doc_id", "labels": "subjects", "delimiter": "|",
        "separator": "\t", "encoding": "utf-8",
    }  # fmt: skip
    assert data.read(path, labels="kind", id="doc_id").label_names == ("x", "y")
    with pytest.raises(ValueError, match=r"no column 'tags' \(asked for by labels\)"):
        data.read(path, labels="tags")
    with pytest.raises(ValueError, match="mean nothing for it"):
        data.read(put(tmp_path, "1 2\n0:1\n", "y.txt"), id="id")


@pytest.mark.parametrize(
    ("encoding", "mark"), [("utf-8", b"\xef\xbb\xbf"), ("utf-16-le", b"\xff\xfe"), ("cp1252", b"")]
)
def test_encodings(tmp_path: Path, encoding: str, mark: bytes) -> None:
    """By the mark at the beginning, or by name."""
    path = put(tmp_path, mark + "id,tags\nd1,café\n".encode(encoding))
    chosen = {} if mark else {"encoding": encoding}
    assert data.read(path, **chosen).label_names == ("café",)


def test_lists_in_cells(tmp_path: Path) -> None:
    """As JSON and as Python write them; an empty cell is a row without labels."""
    path = put(tmp_path, 'id;tags\n1;"[\'a\', ""b\'s""]"\n2;[]\n3;\n')
    found = data.read(path)
    assert [found.labels_of(row) for row in range(3)] == [("a", "b's"), (), ()]


def test_annif_corpora(tmp_path: Path) -> None:
    """Without a header, recognised by its subjects; and with one, as CSV."""
    uri = "http://example.org/subject/"
    lines = f'say "a"\t<{uri}1> <{uri}2>\nb\t<{uri}2>\n'
    found = data.read(put(tmp_path, lines, "corpus.tsv"), text="text")
    assert found.source.format == "annif"
    assert list(found.texts or ()) == ['say "a"', "b"]
    assert [found.labels_of(i) for i in range(2)] == [(f"{uri}1", f"{uri}2"), (f"{uri}2",)]
    table = f"document_id,text,subject_uris\n1,a,<{uri}1> <{uri}2>\n2,b,\n"
    found = data.read(put(tmp_path, table))
    assert [found.labels_of(i) for i in range(2)] == [(f"{uri}1", f"{uri}2"), ()]
    with pytest.raises(ValueError, match=r"line 2: expected <URI> <URI>"):
        data.read(put(tmp_path, f"a\t<{uri}1>\nb\tbroken\n", "x.tsv"), delimiter="uris")


def test_files_of_trec_and_cafa(tmp_path: Path) -> None:
    found = data.read(put(tmp_path, "q1 0 a 1\nq1 0 b 0\nq2 0 b 2\n", "q.txt"), format="qrels")
    assert [found.labels_of(i) for i in range(2)] == [("a",), ("b",)]
    with pytest.raises(ValueError, match="line 1: a relevance must be a whole number, got 'x'"):
        data.read(put(tmp_path, "q1 0 a x\n", "q.txt"), format="qrels")
    truth = data.read(put(tmp_path, "T1\tGO:1\nT1\tGO:2\nT2\tGO:1\n", "t.tsv"), format="cafa")
    assert [truth.labels_of(i) for i in range(2)] == [("GO:1", "GO:2"), ("GO:1",)]


def test_choices_for_cells_that_could_mean_two_things(tmp_path: Path) -> None:
    path = put(tmp_path, "id,tags\n1,NaN\n2,a;a\n")
    found = data.read(path, nulls="empty", repeated="merge")
    assert [found.labels_of(row) for row in range(2)] == [(), ("a",)]
    assert data.read(path, nulls="name", repeated="merge").label_names == ("NaN", "a")
    with pytest.raises(ValueError, match="unknown nulls 'maybe'"):
        data.read(path, nulls="maybe")


def test_names_that_training_lacks_are_kept_and_counted() -> None:
    train = data.read([["b", "a"], ["c"]])
    test = data.read([["z", "a"], ["z", "d"]], like=train)
    assert test.label_names == ("a", "b", "c", "d", "z")
    assert data.unseen(test, train) == (("d", "z"), 3)
    same = data.same_labels(train, data.read([["d"], ["a"]]))
    assert same[0].label_names == same[1].label_names == ("a", "b", "c", "d")
    assert same[1].labels_of(0) == ("d",)


def test_lists_of_sets_are_a_data_set() -> None:
    found = data.read([{"law", "art"}, {"law"}, set()])
    assert found.label_names == ("art", "law")
    assert found.labels.toarray().tolist() == [[1, 1], [0, 1], [0, 0]]
    with pytest.raises(ValueError, match="row 1: an empty name"):
        data.label_matrix([["a"], [""]])
    with pytest.raises(ValueError, match="row 0: the label 'a' stands twice"):
        data.label_matrix([["a", "a"]])


def test_mappings_are_tables() -> None:
    """With the gaps that data frames have: None and NaN are cells without a value."""
    table = {"id": [1, 2, 3], "tags": ["a;b", None, float("nan")], "text": ["x", None, "z"]}
    found = data.read(table, text="text")
    assert list(found.ids or ()) == ["1", "2", "3"]
    assert [found.labels_of(row) for row in range(3)] == [("a", "b"), (), ()]
    assert list(found.texts or ()) == ["x", "", "z"]
    with pytest.raises(ValueError, match=r"the table, row 0: column 'id' must hold text.*True"):
        data.read({"id": [True], "tags": ["a"]})


def test_rows_keep_their_names_through_every_selection() -> None:
    rows = Dataset(
        np.eye(3), np.eye(3), label_names=("a", "b", "c"), ids=["x", "y", "z"],
        texts=["1", "2", "3"], feature_names=("f", "g", "h"),
    )  # fmt: skip
    for chosen in (
        [2, 0],
        np.array([True, False, True]),
        slice(None, None, -2),
        -1 * np.ones(1, int),
    ):
        numbers = np.arange(3)[chosen]
        taken = rows.take(chosen)
        assert list(taken.ids or ()) == [("x", "y", "z")[i] for i in numbers]
        assert list(taken.texts or ()) == [("1", "2", "3")[i] for i in numbers]
        assert (taken.label_names, taken.feature_names) == (rows.label_names, rows.feature_names)
    with pytest.raises(ValueError, match="2 ids for 3 rows"):
        Dataset(None, np.eye(3), ids=["x", "y"])
    with pytest.raises(ValueError, match="ids must be different; 1 stand a second time: 'x'"):
        Dataset(None, np.eye(2), ids=["x", "x"])
    assert Dataset(None, None, texts=["a", "b"]).n == 2


def test_writing_keeps_what_cells_cannot_say_plainly(tmp_path: Path) -> None:
    """Names with every delimiter, blanks at the ends, null words, lists: they come back."""
    names = ["a;b", "c|d", "e,f", " g ", "NaN", "[h]", "=1+1", "i\nj", "‮k"]
    rows = Dataset(None, np.eye(9), label_names=tuple(sorted(names)))
    data.write(tmp_path / "t.csv", rows)
    assert data.read(tmp_path / "t.csv").label_names == tuple(sorted(names))
    with pytest.raises(ValueError, match="a table holds texts and labels, no features"):
        data.write(tmp_path / "t.csv", Dataset(np.eye(2), np.eye(2)))


def test_what_fields_and_lines_may_look_like(tmp_path: Path) -> None:
    for text, rows in (
        ('id,labels\na,"x ""1"";y"\nb,"x ""1"""\n', [{'x "1"', "y"}, {'x "1"'}]),
        ('id,labels\n\na, x ; y ;\n\r\nb," z"\r\n', [{"x", "y"}, {"z"}]),
        ("labels\nx;y\n\nz\n", [{"x", "y"}, set(), {"z"}]),
        ('id,labels\na,"x"', [{"x"}]),
    ):
        found = data.read(put(tmp_path, text))
        assert [set(found.labels_of(row)) for row in range(found.n)] == rows


def test_many_names_in_a_row(tmp_path: Path) -> None:
    """More than are sorted one by one, in any order."""
    own = [[f"label number {(7 * i + j) % 83}" for j in range(40)] for i in range(4)]
    found = data.read(put(tmp_path, "labels\n" + "".join(f"{';'.join(each)}\n" for each in own)))
    assert [list(found.labels_of(i)) for i in range(4)] == [sorted(each) for each in own]


def test_files_are_written_as_people_write_them(tmp_path: Path) -> None:
    values = np.array([[1, 0, 0.1], [0, -2.5e-7, 0], [0, 0, 3e20]], dtype=np.float32)
    labels = np.array([[1, 0, 0, 1], [0, 0, 0, 0], [0, 1, 1, 1]])
    numbers = Dataset(values, labels)
    names = Dataset(None, labels, ids=["1", "2", "3"], label_names=("a", "b,c", 'd "e"', "ä"))
    for name, rows, text in (
        ("a.txt", numbers, "3 3 4\n0,3 0:1 2:0.1\n 1:-2.5e-07\n1,2,3 2:3e+20\n"),
        ("a.svm", numbers, "0,3 1:1 3:0.1\n 2:-2.5e-07\n1,2,3 3:3e+20\n"),
        ("a.csv", names, 'id,labels\n1,a;ä\n2,\n3,"b,c;d ""e"";ä"\n'),
        ("a.tsv", names, 'id\tlabels\n1\ta;ä\n2\t\n3\t"b,c;d ""e"";ä"\n'),
    ):
        data.write(tmp_path / name, rows)
        assert (tmp_path / name).read_text(encoding="utf-8") == text
    data.write(tmp_path / "a.jsonl", names)
    records = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [each["labels"] for each in records] == [["a", "ä"], [], ["b,c", 'd "e"', "ä"]]


def test_json_lines_and_lists(tmp_path: Path) -> None:
    records = [{"id": i, "tags": list("ab"[: i % 3])} for i in range(5)]
    lines = put(tmp_path, "\n".join(map(json.dumps, records)), "t.jsonl")
    whole = put(tmp_path, json.dumps(records), "t.json")
    for path in (lines, whole):
        found = data.read(path)
        assert [list(found.labels_of(i)) for i in range(5)] == [r["tags"] for r in records]


def test_a_folder_of_tables(tmp_path: Path) -> None:
    put(tmp_path, "id,tags\n1,a\n", "train.csv")
    put(tmp_path, "id,tags\n2,b\n", "test.csv.gz")
    assert data.parts(tmp_path) == ("train", "test")
    assert data.read(tmp_path, part="train").label_names == ("a",)


def test_many_rows_in_many_blocks(tmp_path: Path) -> None:
    """Blocks that end anywhere, against Python's csv."""
    random_ = random.Random(0)  # noqa: S311
    rows = [
        (f"d{i}", 'x"\n,' * random_.randrange(4), ";".join(random_.sample("abcdefgh", 3)))
        for i in range(2000)
    ]
    path = tmp_path / "t.csv"
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([("id", "text", "tags"), *rows])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams.blocks, "__defaults__", (997,))
        found = data.read(path, text="text")
    assert contents(found) == [(key, text, set(tags.split(";"))) for key, text, tags in rows]


@pytest.mark.parametrize(
    ("content", "form"),
    [
        (b'[{"id": 1}]', "json"), (b'[ {"id": 1}]', "json"), (b'[\n{"id": 1}]', "json"),
        (b'[\r\n{"id": 1}]', "json"), (b'  [{"id": 1}]', "json"), (b'{"id": 1}', "jsonl"),
        (b'\xef\xbb\xbf {"id": 1}', "jsonl"), (b"PAR1....", "parquet"), (b"PK\x03\x04", None),
        (b"id,labels\n1,a\n", "csv"), (b"1 2 3\n0 0:1\n", None),
    ],
)  # fmt: skip
def test_the_form_of_a_table_is_in_its_first_bytes(
    tmp_path: Path, content: bytes, form: str | None
) -> None:
    path = tmp_path / "table.txt"
    path.write_bytes(content)
    assert recognised(path) == form


def test_a_wide_table_has_columns_of_judged_labels() -> None:
    """A label that is only rejected has a column; rows without judgements have none."""
    table = {
        "id": ["a", "b", "c"], "tags": ["law;art", "art", ""], "no": ["tax", "", "art;law"],
        "open": ["", "law;tax", ""],
    }  # fmt: skip
    found = data.read(table, negative="no", ignored="open")
    assert found.label_names == ("art", "law", "tax")
    assert found.labels.toarray().tolist() == [[1, 1, 0], [1, 0, 0], [0, 0, 0]]
    assert found.judgements.toarray().tolist() == [[0, 0, -1], [0, 2, 2], [-1, -1, 0]]
    assert (found.source.details["negative"], found.source.details["ignored"]) == ("no", "open")
    one = data.read(table, ignored="open")
    assert one.label_names == ("art", "law", "tax")
    assert one.judgements.toarray().tolist() == [[0, 0, 0], [0, 2, 2], [0, 0, 0]]
    assert data.read(table).judgements is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"negative": "none"}, "no column 'none' .asked for by negative."),
        ({"negative": "no", "ignored": "no"}, "one column cannot be id, text and labels at once"),
        ({"negative": "no", "ignored": "open"}, "row 1: the label 'tax' is both negative and"),
        ({"negative": "no", "layout": "long"}, "a long table has no columns of negative labels"),
    ],
)
def test_judged_columns_that_cannot_be_meant(options: dict[str, str], message: str) -> None:
    table = {"id": ["a", "b"], "tags": ["law", "art"], "no": ["", "tax"], "open": ["", "tax"]}
    with pytest.raises(ValueError, match=message):
        data.read(table, **options)


def test_a_third_value_of_a_long_table_ignores_the_pair(tmp_path: Path) -> None:
    text = "id,label,value\na,law,1\na,art,ignore\nb,art,1\nb,law,0\nb,tax,?\n"
    found = data.read(put(tmp_path, text))
    assert found.label_names == ("art", "law", "tax")
    assert found.labels.toarray().tolist() == [[0, 1, 0], [1, 0, 0]]
    assert found.judgements.toarray().tolist() == [[2, 0, 0], [0, 0, 2]]
    assert (
        data.read(put(tmp_path, text.replace("ignore", "0").replace("?", "0"))).judgements is None
    )


def test_separators_are_one_ascii_character_or_have_a_name(tmp_path: Path) -> None:
    for separator in ("", ",,", "é", '"', "\n", "\r", "commas"):
        with pytest.raises(ValueError, match="a separator is one character"):
            data.read(put(tmp_path, "id,tags\n1,a\n"), separator=separator)
    named = {"tab": "\t", "comma": ",", "semicolon": ";", "\\t": "\t", "|": "|"}
    for name, character in named.items():
        path = put(tmp_path, f"id{character}tags\n1{character}a\n")
        assert data.read(path, separator=name).label_names == ("a",)


def test_one_label_a_row_without_ids_is_a_wide_table(tmp_path: Path) -> None:
    """With ids, the same columns are a long table: a row of it is a pair."""
    for text, layout, dense in (
        ("label\na\nb\na\n", "wide", [[1, 0], [0, 1], [1, 0]]),
        ("id,label\nx,a\nx,b\ny,a\n", "long", [[1, 1], [1, 0]]),
    ):
        path = tmp_path / "tags.csv"
        path.write_text(text)
        dataset = data.read(path)
        assert dataset.source.details["layout"] == layout
        assert dataset.labels.toarray().tolist() == dense


class Counted(bytes):
    """Bytes that count how many are copied when they are appended one by one."""

    copied = 0

    def __radd__(self, other: bytes) -> Counted:
        Counted.copied += len(other) + len(self)
        return Counted(bytes(other) + bytes(self))

    def __add__(self, other: bytes) -> Counted:  # type: ignore[override]
        Counted.copied += len(self) + len(other)
        return Counted(bytes(self) + bytes(other))

    def partition(self, separator: bytes) -> Any:
        return bytes(self).partition(separator)


@pytest.mark.parametrize(
    ("form", "module"),
    [("csv", "unmask.files.delimited"), ("jsonl", "unmask.files.json_lines")],
)
def test_one_long_line_is_not_copied_with_every_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, module: str
) -> None:
    long = "long " * 40_000
    texts = {"csv": f"id,text,labels\na,{long},x\n",
             "jsonl": json.dumps({"id": "a", "text": long, "labels": ["x"]}) + "\n"}  # fmt: skip
    path = tmp_path / f"a.{form}"
    path.write_text(texts[form])
    monkeypatch.setattr(
        import_module(module), "blocks", lambda path: map(Counted, blocks(path, 1 << 10))
    )
    monkeypatch.setattr(Counted, "copied", 0)
    assert data.read(path, format=form, text="text").texts[0] == long
    assert Counted.copied < 4 * len(long)
