"""Files in, files out: every format, every way a file can be wrong, and the real data sets."""

from __future__ import annotations

import gzip
import json
import os
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from unmask import data, set_threads
from unmask.data import Dataset, reading
from unmask.data.dataset import Source
from unmask.files import atomic_write, contents, streams, text

XC = b"3 5 4\n0,3 0:0.5 4:1\n 1:-2e-3\n2\n"
LABELS = [[1, 0, 0, 1], [0, 0, 0, 0], [0, 0, 1, 0]]
FEATURES = [[0.5, 0, 0, 0, 1], [0, -2e-3, 0, 0, 0], [0, 0, 0, 0, 0]]


def put(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def assert_is_the_example(found: Dataset) -> None:
    assert found.labels.toarray().tolist() == LABELS
    assert np.array_equal(found.features.toarray(), np.array(FEATURES, dtype=np.float32))
    assert found.features.dtype == found.labels.dtype == np.float32
    assert found.features.indices.dtype == found.labels.indices.dtype == np.int32


def assert_equal(left: sp.csr_array | None, right: sp.csr_array | None) -> None:
    """The same arrays, bit for bit."""
    if left is None or right is None:
        assert left is right
        return
    assert left.shape == right.shape
    for name in ("data", "indices", "indptr"):
        ours, theirs = getattr(left, name), getattr(right, name)
        assert ours.dtype == theirs.dtype
        assert ours.tobytes() == theirs.tobytes()


# --- formats -------------------------------------------------------------------------------------


def test_xc(tmp_path: Path) -> None:
    found = data.read(put(tmp_path / "any.name", XC))
    assert_is_the_example(found)
    assert found.source == Source((str(tmp_path / "any.name"),), "xc", ("none",), (0, 0))


@pytest.mark.parametrize(
    "content",
    [
        XC.replace(b"\n", b"\r\n"),
        XC.rstrip(b"\n"),
        b"\xef\xbb\xbf" + XC,
        XC.replace(b" ", b"\t"),
        XC.replace(b" ", b"  \t"),
        XC.replace(b"0,3 0:0.5 4:1", b"3,0 4:+1 0:5E-1 "),
        XC.replace(b"0:0.5", b"00:.50"),
        XC + b"\n \n\t\r\n",
        XC.replace(b"\n2\n", b"\n2"),
    ],
    ids=["crlf", "no-end", "bom", "tabs", "blanks", "unsorted", "zeros", "empty-tail", "cut"],
)
def test_harmless_variations_mean_the_same(tmp_path: Path, content: bytes) -> None:
    assert_is_the_example(data.read(put(tmp_path / "f", content)))


def zstd_in_frames(content: bytes) -> bytes:
    half = len(content) // 2
    return zstandard.compress(content[:half]) + zstandard.compress(content[half:])


@pytest.mark.parametrize(
    ("pack", "name"),
    [
        (gzip.compress, "gzip"),
        (lambda c: gzip.compress(c[:9]) + gzip.compress(c[9:]) + b"\0" * 300, "gzip"),
        (zstandard.compress, "zstd"),
        (zstd_in_frames, "zstd"),
    ],
    ids=["gzip", "gzip-members-padded", "zstd", "zstd-frames"],
)
def test_compression_is_recognised_by_content(tmp_path: Path, pack, name: str) -> None:
    found = data.read(put(tmp_path / "f.txt", pack(XC)))
    assert_is_the_example(found)
    assert found.source.compression == (name,)


def test_very_compressible_files_arrive_whole(tmp_path: Path) -> None:
    """More text than a block in one piece of input, down to the last byte."""
    line = b"0 0:1\n"
    for extra in range(3):
        n = (3 * streams.BLOCK) // len(line) + extra
        content = b"%d 1 1\n" % n + line * n
        for pack in (gzip.compress, zstandard.compress):
            assert data.read(put(tmp_path / "f", pack(content))).labels.nnz == n


def test_pair(tmp_path: Path) -> None:
    features = put(tmp_path / "trn_X_Xf.txt", b"3 5\n0:0.5 4:1\n1:-2e-3\n\n")
    labels = put(tmp_path / "trn_X_Y.txt", gzip.compress(b"3 4\n0:1 3:1.0\n\n2:1\n"))
    for found in (data.read(features, labels), data.read(tmp_path / "trn")):
        assert_is_the_example(found)
        assert found.source.format == "xc-pair"
        assert found.source.compression == ("none", "gzip")
    labels.rename(tmp_path / "trn_X_Y.txt.gz")
    assert_is_the_example(data.read(tmp_path, part="train"))
    alone = data.read(tmp_path, part="train", format="labels")
    assert (alone.features, alone.source.format) == (None, "labels")
    alone = data.read(features)
    assert (alone.labels, alone.source.format) == (None, "features")
    with pytest.raises(ValueError, match="cannot be read as xc; leave out `format`"):
        data.read(tmp_path, part="train", format="xc")


def test_pair_must_have_the_same_rows(tmp_path: Path) -> None:
    features = put(tmp_path / "Xf.txt", b"1 5\n0:0.5\n")
    labels = put(tmp_path / "Y.txt", b"2 4\n0:1\n\n")
    with pytest.raises(ValueError, match=r"Xf.txt and .*Y.txt must have the same rows; got 1 and"):
        data.read(features, labels)


@pytest.mark.parametrize("row", [b"0:1 3:1", b"0 3", b"3,0", b"0:1,3:1", b"\t3 0:1.0e0 "])
def test_labels_only(tmp_path: Path, row: bytes) -> None:
    found = data.read(put(tmp_path / "trn_X_Y.txt", b"3 4\n" + row + b"\n\n2\n"))
    assert found.features is None
    assert found.labels.toarray().tolist() == LABELS
    assert found.source.format == "labels"


def test_libsvm(tmp_path: Path) -> None:
    content = b"# made by hand\n0,3 0:0.5 4 # a comment\n 1:-2e-3\n2\n"
    found = data.read(put(tmp_path / "f.svm", content))
    assert_is_the_example(found)
    assert (found.source.format, found.source.base) == ("libsvm", (0, 0))


def test_libsvm_features_counted_from_one(tmp_path: Path) -> None:
    file = put(tmp_path / "f.svm", b"0,3 1:0.5 5\n 2:-2e-3\n2\n")
    found = data.read(file)
    assert_is_the_example(found)
    assert found.source.base == (0, 1)
    assert data.read(file, base=0).features.shape == (3, 6)
    assert_is_the_example(data.read(put(file, b"1,4 1:0.5 5\n 2:-2e-3\n3\n"), base=1))


def test_libsvm_like_another_file(tmp_path: Path) -> None:
    train = data.read(put(tmp_path / "train.svm", b"5 0:1 7:1\n"))
    test = put(tmp_path / "test.svm", b"1 3:2\n")
    found = data.read(test, like=train)
    assert (found.features.shape, found.labels.shape) == ((1, 8), (1, 6))
    assert found.features.indices.tolist() == [3]
    assert data.read(test).features.indices.tolist() == [2]  # alone it looks counted from one
    unknown = Dataset(train.features, train.labels)  # a shape but no file, hence no base
    put(test, b"1 3:2\n\t9:1\n")
    with pytest.raises(ValueError, match=r"test.svm, line 2: feature must lie in 1 … 8, got '9:1'"):
        data.read(test, like=unknown)
    with pytest.raises(ValueError, match=r"line 2: feature must lie in 0 … 7, got '9:1'"):
        data.read(test, like=train)
    other = put(tmp_path / "test.txt", XC)
    with pytest.raises(ValueError, match="has 5 features; the data set it should be like has 8"):
        data.read(other, like=train)


def test_format_can_be_overridden(tmp_path: Path) -> None:
    """Three numbers may be a header, or a label and two features."""
    file = put(tmp_path / "f", b"1 2 0\n")
    with pytest.raises(ValueError, match="announces 1 rows, the file has 0"):
        data.read(file)
    found = data.read(file, format="libsvm")
    assert found.labels.indices.tolist() == [1]
    assert found.features.indices.tolist() == [0, 2]
    with pytest.raises(ValueError, match="unknown format 'arff'; use one of: "):
        data.read(file, format="arff")
    with pytest.raises(ValueError, match="is text, not 'npz'"):
        data.read(file, format="npz")


def test_base_one_for_files_with_a_header(tmp_path: Path) -> None:
    file = put(tmp_path / "f", b"3 5 4\n1,4 1:0.5 5:1\n 2:-2e-3\n3\n")
    assert_is_the_example(data.read(file, base=1))
    with pytest.raises(ValueError, match=r"line 2: label must lie in 0 … 3, got '4'; .* base=1"):
        data.read(file)
    with pytest.raises(ValueError, match="base must be 0, 1 or a pair"):
        data.read(file, base=2)


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_scipy_npz(tmp_path: Path, form: str) -> None:
    sp.save_npz(tmp_path / "X.trn.npz", sp.csr_array(FEATURES).asformat(form))
    sp.save_npz(tmp_path / "Y.trn.npz", sp.csr_matrix(LABELS).asformat(form))
    found = data.read(tmp_path, part="trn")
    assert_is_the_example(found)
    assert found.source.format == "npz"
    assert data.read(tmp_path / "X.trn.npz").labels is None
    assert data.read(tmp_path / "Y.trn.npz").features is None
    packed = gzip.compress((tmp_path / "Y.trn.npz").read_bytes())
    alone = data.read(put(tmp_path / "packed", packed))
    assert alone.labels.toarray().tolist() == LABELS


def test_npz_is_not_trusted(tmp_path: Path) -> None:
    path = tmp_path / "Y.npz"
    arrays = {"data": np.ones(1), "indices": np.array([9]), "indptr": np.array([0, 1])}
    for form in ("csr", "csc"):
        np.savez(path, **arrays, shape=np.array([1, 1]), format=form.encode())
        with pytest.raises(ValueError, match=re.escape(str(path))):
            data.read(path)
    np.savez(path, evil=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match=re.escape(str(path))):
        data.read(path)
    sp.save_npz(path, sp.csr_array([[2.0]]))
    with pytest.raises(ValueError, match=r"Y.npz: labels must be 0 or 1; got 2.0 in row 0"):
        data.read(path)
    put(path, path.read_bytes()[:-30])
    with pytest.raises(ValueError, match=re.escape(str(path))):
        data.read(path)


# --- what is refused ------------------------------------------------------------------------------

REFUSED = {
    "xc": [
        (b"3 5 4\n0 1:1\n", r": the header announces 3 rows, the file has 1\."),
        (b"1 5 4\n0 1:1\n\n2 2:1\n", r", line 4: the header announces 1 rows, but here is one"),
        (b"1000000000000 5 4\n0 1:1\n", r": the header announces 1000000000000 rows, the file"),
        (b"1 9999999999999999999999 4\n\n", r", line 1: expected the header 'n d L', got '1 99"),
        (b"3 5\n0 1:1\n", r", line 1: expected the header 'n d L', got '3 5'\."),
        (b"1 5 4\n0 5:1\n", r", line 2: feature must lie in 0 … 4, got '5:1'"),
        (b"1 5 4\n0 99999999999999999999:1\n", r", line 2: feature must lie in 0 … 4, got '9999"),
        (b"2 5 4\n0\n1,4 1:1\n", r", line 3: label must lie in 0 … 3, got '4'"),
        (b"1 5 4\n0 -1:1\n", r", line 2: expected index:value, got '-1:1'"),
        (b"1 5 4\n0 1:1 2:1 1:3\n", r", line 2: a feature stands twice in one row: '1:3'"),
        (b"1 5 4\n3,1,3 1:1\n", r", line 2: a label stands twice in one row: '3'"),
        (b"1 5 4\n1,,2 1:1\n", r", line 2: expected labels as whole numbers between commas, got"),
        (b"1 5 4\n1.5 1:1\n", r", line 2: expected labels as whole .*, got '1.5'"),
        (b"1 5 4\n1,2:1\n", r", line 2: expected labels as whole .*, got '2:1'"),
        (b"1 5 4\n1 one:1\n", r", line 2: expected index:value, got 'one:1'"),
        (b"1 5 4\n1 1\n", r", line 2: feature without a value: expected index:value, got '1'"),
        (b"1 5 4\n1 1:\n", r", line 2: expected a number that is finite .*, got '1:'"),
        (b"1 5 4\n1 1:x\n", r", line 2: expected a number that is finite .*, got '1:x'"),
        (b"1 5 4\n1 1:nan\n", r", line 2: .* finite as float32, got '1:nan'"),
        (b"1 5 4\n1 1:-inf\n", r", line 2: .* finite as float32, got '1:-inf'"),
        (b"1 5 4\n1 1:1e39\n", r", line 2: .* finite as float32, got '1:1e39'"),
        (b"1 5 4\n1 1:1_0\n", r", line 2: .* finite as float32, got '1:1_0'"),
        (b"1 5 4\n1 1:1 # no\n", r", line 2: expected index:value, got '#'"),
        (b"1 5 4\n1 1:1\r 2:1\n", r", line 2: .*, got '1:1\\r'"),
        (b"1 5 4\n1 1:1\0\n", r", line 2: .*, got '1:1\\x00'"),
        (b"1 5 4\n1 1:" + b"7" * 99 + b"\n", r", line 2: .*, got '1:7{38}…'"),
        (b"", r": the file is empty\."),
        (b"\xef\xbb\xbf", r", line 1: expected the header 'n d L', got ''"),
    ],
    "libsvm": [
        (b"1 2:1\n\n1 3:1\n", r", line 2: empty line; a row without labels starts with a space"),
        (b"1 2:1\n1 2147483647:1\n", r", line 2: feature must lie in 0 … 2147483646, got"),
        (b"1 qid:3 2:1\n", r", line 1: expected index:value, got 'qid:3'"),
    ],
    "labels": [
        (b"1 4 5\n1\n", r", line 1: expected the header 'n L', got '1 4 5'\."),
        (b"1 4\n2:0\n", r", line 2: a label's value must be 1, got '2:0'; .*format='features'"),
        (b"1 4\n1,,2\n", r", line 2: expected label, or label:1, got ',,2'"),
        (b"1 4\n1,\n", r", line 2: expected label, or label:1, got ','"),
        (b"1 4\n1 2 1\n", r", line 2: a label stands twice in one row: '1'"),
    ],
    "features": [
        (b"1 4 5\n1:1\n", r", line 1: expected the header 'n d', got '1 4 5'\."),
        (b"1 4\n1 2:1\n", r", line 2: column without a value: expected index:value, got '1'"),
        (b"1 4\n4:1\n", r", line 2: column must lie in 0 … 3, got '4:1'"),
    ],
}


@pytest.mark.parametrize(
    ("format", "content", "message"),
    [(format, *case) for format, cases in REFUSED.items() for case in cases],
)
def test_refusals_name_file_line_and_token(
    tmp_path: Path, format: str, content: bytes, message: str
) -> None:
    path = put(tmp_path / "f.txt", content)
    with pytest.raises(ValueError, match="^" + re.escape(str(path)) + message):
        data.read(path, format=format)


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_damaged_compression_is_refused(tmp_path: Path, pack) -> None:
    whole = pack(XC * 50)
    path = tmp_path / "f"
    for length in range(4, len(whole)):
        put(path, whole[:length])
        with pytest.raises(ValueError, match=re.escape(str(path)) + ".*(truncated|damaged)"):
            data.read(path)
    put(path, whole + b"garbage")
    with pytest.raises(ValueError, match=re.escape(str(path)) + ".*damaged"):
        data.read(path)


def test_line_numbers_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "_CHUNK", 64)
    lines = [b"1 %d:1 # note" % (j % 7) for j in range(500)]
    for at in (0, 13, 255, 499):
        broken = [*lines[:at], b"1 x:1", *lines[at + 1 :]]
        path = put(tmp_path / "f", b"\n".join(broken))
        with pytest.raises(ValueError, match=f"line {at + 1}: "):
            data.read(path)


def test_result_does_not_depend_on_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "_CHUNK", 256)
    path = put(tmp_path / "f", b"".join(b"%d %d:0.%d\n" % (j % 9, j % 11, j) for j in range(999)))
    found = []
    for count in (1, 3):
        set_threads(count)
        found.append(data.read(path))
    set_threads(None)
    assert_equal(found[0].features, found[1].features)
    assert_equal(found[0].labels, found[1].labels)


# --- splits, filters, names, folders --------------------------------------------------------------


def test_split(tmp_path: Path) -> None:
    path = put(tmp_path / "A_data.txt", XC)
    train = put(tmp_path / "A_trSplit.txt", b"3 1\n1 2\n")
    put(tmp_path / "A_tstSplit.txt", b"2 3\n")
    whole = data.read(path)
    for found in (
        data.read(path, split=train),
        data.read(path, split=train, column=0),
        data.read(tmp_path, part="train"),
    ):
        assert_equal(found.labels, whole.labels[[2, 0]])
        assert_equal(found.features, whole.features[[2, 0]])
        assert found.source.paths == (str(path), str(train))
    second = data.read(tmp_path, part="test", column=1)
    assert second.labels.toarray().tolist() == LABELS[2:]
    assert data.parts(tmp_path) == ("train", "test")


@pytest.mark.parametrize(
    ("content", "column", "message"),
    [
        (b"1\n4\n", 0, r"line 2: row number must lie in 1 … 3, got 4"),
        (b"0\n", 0, r"line 1: row number must lie in 1 … 3, got 0"),
        (b"1 1\n2 1\n", 1, r"line 2: row 1 is named a second time"),
        (b"1 2\n3\n", 0, r"line 2: 1 numbers where the lines before have 2"),
        (b"1\n\n3\n", 0, r"line 2: 0 numbers where"),
        (b"1\n2.5\n", 0, r"line 2: expected a whole number, got '2.5'"),
        (b"\n", 0, r"holds no numbers"),
        (b"1\n", 1, r"has 1 columns; got column 1"),
    ],
)
def test_bad_splits_are_refused(tmp_path: Path, content: bytes, column: int, message: str) -> None:
    split = put(tmp_path / "split", content)
    with pytest.raises(ValueError, match=re.escape(str(split)) + ".*" + message):
        data.read(put(tmp_path / "f", XC), split=split, column=column)


def test_column_without_split_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="column=0 chooses from a split file"):
        data.read(put(tmp_path / "f", XC), column=0)


def test_filter_labels(tmp_path: Path) -> None:
    put(tmp_path / "tst_X_Y.txt", b"3 4\n0:1 3:1\n\n2:1\n")
    put(tmp_path / "filter_labels_test.txt", b"0 3\r\n2 0\n0 3\n")
    found = data.read(tmp_path, part="test")
    assert found.judgements.toarray().tolist() == [[0, 0, 0, 2], [0, 0, 0, 0], [2, 0, 0, 0]]
    assert found.labels.toarray().tolist() == LABELS
    with pytest.raises(ValueError, match=r"f.txt, line 2: label must lie in 0 … 3, got 4"):
        data.read(tmp_path, part="test", filter_labels=put(tmp_path / "f.txt", b"0 1\n1 4\n"))
    with pytest.raises(ValueError, match=r"line 1: expected 'row label', got 1 numbers"):
        data.read(tmp_path, part="test", filter_labels=put(tmp_path / "f.txt", b"0\n"))


def test_names_beside(tmp_path: Path) -> None:
    path = put(tmp_path / "f.txt", XC)
    put(tmp_path / "labels.txt.gz", gzip.compress("a\r\nb c\nμ\n\n".encode()))
    put(tmp_path / "Xf.txt", b"only\nthree\nnames\n")
    found = data.read(path)
    assert found.label_names == ("a", "b c", "μ", "")
    assert found.feature_names is None
    assert found.source.paths == (str(path), str(tmp_path / "labels.txt.gz"))
    assert data.read(path, names=False).label_names is None
    put(tmp_path / "labels.txt", b"1 2\n0:1\n")  # two lines, two labels, but not its own names
    assert data.read(tmp_path / "labels.txt").label_names is None


def test_folders_say_what_to_do(tmp_path: Path) -> None:
    put(tmp_path / "train.txt", XC)
    put(tmp_path / "dev.svm", b"0 1:1\n")
    assert data.parts(tmp_path) == ("train", "valid")
    assert_is_the_example(data.read(tmp_path, part="train"))
    with pytest.raises(ValueError, match=r"is a folder; name a file.* \(parts found: train, v"):
        data.read(tmp_path)
    with pytest.raises(ValueError, match=r"holds no part 'test' \(parts found: train, valid\)"):
        data.read(tmp_path, part="test")
    with pytest.raises(ValueError, match="unknown part 'trian'; use one of: test, train, valid"):
        data.read(tmp_path, part="trian")
    with pytest.raises(ValueError, match="is not a folder, so it has no part"):
        data.read(tmp_path / "train.txt", part="train")
    with pytest.raises(FileNotFoundError, match="there is no file or folder"):
        data.read(tmp_path / "nothing")


# --- writing --------------------------------------------------------------------------------------

values = hnp.arrays(
    np.float32,
    hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=7),
    elements=st.one_of(
        st.just(0.0),
        st.floats(width=32, allow_nan=False, allow_infinity=False),
        st.integers(0, 10**4).map(lambda i: float(np.float32(i / 1e4))),
    ),
)


@st.composite
def datasets(draw: st.DrawFn) -> Dataset:
    """Any features, stored zeros and signed zeros among them, and any labels."""
    given_values = draw(values)
    n, d = given_values.shape
    stored = draw(hnp.arrays(bool, (n, d)))
    indptr = np.concatenate([[0], np.cumsum(stored.sum(axis=1))])
    features = sp.csr_array((given_values[stored], np.nonzero(stored)[1], indptr), shape=(n, d))
    labels = draw(hnp.arrays(np.int8, (n, draw(st.integers(1, 6))), elements=st.integers(0, 1)))
    return Dataset(features, labels)


@settings(max_examples=60)
@given(datasets(), st.sampled_from(["", ".gz", ".zst"]))
def test_round_trip_is_exact(tmp_path_factory, dataset: Dataset, packed: str) -> None:
    folder = tmp_path_factory.mktemp("round")
    one, archive = folder / f"one.txt{packed}", folder / f"all.npz{packed}"
    pair = [folder / f"{name}{packed}" for name in ("t_X_Xf.txt", "t_X_Y.txt", "X.npz", "Y.npz")]
    data.write(one, dataset)
    data.write(archive, dataset)
    data.write(pair[0], dataset, labels=pair[1])
    data.write(pair[2], dataset, labels=pair[3])
    for found in (
        data.read(one),
        data.read(archive),
        data.read(pair[0], pair[1]),
        data.read(pair[2], pair[3]),
    ):
        assert_equal(found.features, dataset.features)
        assert_equal(found.labels, dataset.labels)
        assert set(found.source.compression) == {
            {"": "none", ".gz": "gzip", ".zst": "zstd"}[packed]
        }


def test_every_kind_of_float32_is_written_back_and_short(tmp_path: Path) -> None:
    """All exponents and the ends of every binade; no decimal is longer than numpy's shortest."""
    bits = np.arange(0x100, dtype=np.uint32) << 23
    near = (bits[:, None] + np.array([-2, -1, 0, 1, 2], dtype=np.int64)) % (1 << 31)
    random = np.random.default_rng(0).integers(0, 1 << 31, size=20000)
    numbers = np.concatenate([near.ravel(), random]).astype(np.uint32).view(np.float32)
    numbers = np.concatenate([numbers, np.random.default_rng(1).random(20000, dtype=np.float32)])
    numbers = numbers[np.isfinite(numbers)]
    matrix = sp.csr_array(
        (numbers, np.arange(numbers.size), [0, numbers.size]), shape=(1, numbers.size)
    )
    matrix = Dataset(matrix, None).features
    data.write(tmp_path / "X.txt", Dataset(matrix, None))
    assert_equal(data.read(tmp_path / "X.txt", format="features").features, matrix)
    written = (tmp_path / "X.txt").read_text().split("\n")[1].split(" ")
    for token, number in zip(written, numbers.tolist(), strict=True):
        if 1e-5 <= number < 1e7:
            shortest = np.format_float_positional(np.float32(number), trim="-")
            assert len(token.split(":")[1]) <= len(shortest)


def test_archive_keeps_everything(tmp_path: Path) -> None:
    given_filter = sp.csr_array(np.eye(3, 4, dtype=np.float32))
    whole = Dataset(FEATURES, LABELS, tuple("abcde"), ("x", "", "é", "z y"), given_filter)
    data.write(tmp_path / "all.npz", whole)
    found = data.read(tmp_path / "all.npz")
    assert_is_the_example(found)
    assert (found.feature_names, found.label_names) == (whole.feature_names, whole.label_names)
    assert_equal(found.judgements, given_filter)
    strange = replace(
        whole,
        label_names=("a\nb", "", "=1+1", "\u202e"),
        ids=["1", "a\nb", ""],
        texts=["", "x", "é"],
    )
    data.write(tmp_path / "all.npz", strange)
    again = data.read(tmp_path / "all.npz")
    for part in ("label_names", "ids", "texts"):
        assert getattr(again, part) == getattr(strange, part)


def test_rows_without_labels_start_with_a_blank(tmp_path: Path) -> None:
    whole = Dataset([*FEATURES, [0] * 5], [*LABELS, [0] * 4])
    data.write(tmp_path / "f.txt", whole)
    assert (tmp_path / "f.txt").read_text() == "4 5 4\n0,3 0:0.5 4:1\n 1:-0.002\n2\n \n"


def test_parts_of_a_data_set_are_written_alone(tmp_path: Path) -> None:
    whole = Dataset(FEATURES, LABELS)
    data.write(tmp_path / "Y.txt", replace(whole, features=None))
    assert (tmp_path / "Y.txt").read_text() == "3 4\n0:1 3:1\n\n2:1\n"
    data.write(tmp_path / "Xf.txt", whole, format="features")
    assert (tmp_path / "Xf.txt").read_text() == "3 5\n0:0.5 4:1\n1:-0.002\n\n"
    with pytest.raises(ValueError, match="has no features to write"):
        data.write(tmp_path / "f.txt", replace(whole, features=None), format="xc")
    with pytest.raises(ValueError, match="unknown format 'arff'; use one of: annif, cafa"):
        data.write(tmp_path / "f.txt", whole, format="arff")
    with pytest.raises(ValueError, match="two paths say the format already"):
        data.write(tmp_path / "a", whole, labels=tmp_path / "b", format="xc")


def test_writing_is_atomic(tmp_path: Path) -> None:
    path = put(tmp_path / "f.txt.gz", b"old")

    def interrupted() -> None:
        with atomic_write(path) as file:
            file.write(b"half of the ne")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["f.txt.gz"]
    with atomic_write(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert gzip.decompress(path.read_bytes()) == b"new"
    mask = os.umask(0)
    os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask


@pytest.mark.parametrize("name", ["f.txt", "f.txt.gz", "f.txt.zst"])
def test_a_file_is_on_the_disk_before_it_takes_the_place_of_another(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it, also what compressors and buffers hold back: a power cut leaves one of the two."""
    path, synced = put(tmp_path / name, b"old"), list[int]()
    fsync = os.fsync

    def recorded(file: int) -> None:
        if not os.path.isdir(f"/proc/self/fd/{file}"):
            assert path.read_bytes() == b"old"
            synced.append(os.fstat(file).st_size)
        fsync(file)

    monkeypatch.setattr(os, "fsync", recorded)
    with atomic_write(path) as file:
        file.write(bytes(range(256)) * 1000)
    assert synced == [path.stat().st_size]
    assert contents(path) == bytes(range(256)) * 1000


def test_equal_contents_give_equal_compressed_files(tmp_path: Path) -> None:
    for name in ("a.txt.gz", "b.txt.gz"):
        data.write(tmp_path / name, Dataset(FEATURES, LABELS))
    assert (tmp_path / "a.txt.gz").read_bytes() == (tmp_path / "b.txt.gz").read_bytes()


def test_no_thread_is_left_behind(tmp_path: Path) -> None:
    before = threading.active_count()
    data.read(put(tmp_path / "f", gzip.compress(XC)))
    with pytest.raises(ValueError, match="line 2"):
        data.read(put(tmp_path / "f", b"1 5 4\nx\n" + b"1\n" * streams.BLOCK))
    assert threading.active_count() == before


# --- data sets ------------------------------------------------------------------------------------


def test_dataset_checks_its_parts() -> None:
    with pytest.raises(ValueError, match="needs features, labels or texts"):
        Dataset(None, None)
    with pytest.raises(ValueError, match="features and labels must have the same rows; got 1 and"):
        Dataset([[1.0]], [[1], [0]])
    with pytest.raises(ValueError, match=r"features must be finite as float32; got nan in row 0"):
        Dataset([[np.nan]], None)
    with pytest.raises(ValueError, match=r"got 1e\+300 in row 0, column 0"):
        Dataset([[1e300]], None)
    with pytest.raises(ValueError, match="labels must be 0 or 1; got 2"):
        Dataset(None, [[2]])
    with pytest.raises(ValueError, match="1 label names for 2 labels"):
        Dataset(None, [[1, 0]], label_names=("one",))


def test_dataset_leaves_what_it_was_given_alone() -> None:
    given_labels = sp.csr_array((np.ones(2), [1, 0], [0, 2]), shape=(1, 2))
    assert Dataset(None, given_labels).labels.indices.tolist() == [0, 1]
    assert given_labels.indices.tolist() == [1, 0]


# --- the real ones --------------------------------------------------------------------------------

REAL = [
    "bibtex-xc",
    "cooking-stackexchange",
    "debtags-bookworm",
    "delicious",
    "finna-yso-en",
    "jester5k",
]


@pytest.mark.parametrize("name", REAL)
def test_real_data_agree_with_their_published_counts(real_data: Path, name: str) -> None:
    folder = real_data / name
    stats = json.loads((folder / "stats.json").read_text())
    assert data.parts(folder) == ("train", "test")
    for part in ("train", "test"):
        rows = data.read(folder, part=part)
        counts = data.describe(rows)
        assert (counts.n, counts.L, counts.d) == (stats[f"n_{part}"], stats["L"], stats["d"])
        assert counts.empty_rows == stats[f"{part}_no_label"]
        for average, key in (("labels_per_row", "lab"), ("features_per_row", "nnz")):
            if (published := stats.get(f"{key}_per_pt_{part}")) is not None:
                assert getattr(counts, average) == pytest.approx(published, abs=6e-3)
        assert (len(rows.label_names), len(rows.feature_names)) == (stats["L"], stats["d"])
        if part == "train":
            assert counts.labels_per_row == pytest.approx(stats["lab_per_pt_train"], abs=5e-4)
            assert counts.rows_per_label == pytest.approx(stats["pts_per_lab_train"], abs=5e-3)
            assert counts.L - counts.unused_labels == stats["labels_seen_in_train"]
            assert counts.tail_labels == stats["labels_le5_train"]  # with 1 … 5 training rows


def test_real_labels_only(real_data: Path) -> None:
    folder = real_data / "eurlex4k-labels-only"
    stats = json.loads((folder / "stats.json").read_text())
    for part, name in (("train", "trn_X_Y"), ("test", "tst_X_Y")):
        rows, published = data.read(folder, part=part), stats[name]
        counts = data.describe(rows)
        assert (counts.n, counts.L, counts.d) == (published["n"], published["L"], None)
        assert counts.labels_per_row == pytest.approx(published["card"], abs=5e-4)
        assert rows.labels.indices.max() == published["maxlab"]


def test_real_splits(real_data: Path) -> None:
    """The first column of the official splits is the train and test file."""
    folder = real_data / "bibtex-xc"
    for part in ("train", "test"):
        by_split, by_file = data.read(folder, part=part, column=0), data.read(folder, part=part)
        assert_equal(by_split.features, by_file.features)
        assert_equal(by_split.labels, by_file.labels)


def test_real_observation_mask(real_data: Path) -> None:
    """Who likes a joke has rated it."""
    rated = data.read(real_data / "jester5k" / "train_rated.txt.gz").labels
    liked = data.read(real_data / "jester5k", part="train").labels
    assert rated.shape == liked.shape
    assert (liked - liked.multiply(rated)).count_nonzero() == 0


@pytest.mark.parametrize("name", ["bibtex-xc", "cooking-stackexchange", "jester5k"])
def test_real_files_are_written_as_they_were(real_data: Path, tmp_path: Path, name: str) -> None:
    original = real_data / name / "train.txt.gz"
    data.write(tmp_path / "f.txt", data.read(original))
    ours, theirs = (tmp_path / "f.txt").read_bytes(), gzip.decompress(original.read_bytes())
    # one of them ends rows without features with a blank
    assert [line.rstrip() for line in ours.split(b"\n")] == [
        line.rstrip() for line in theirs.split(b"\n")
    ]


def test_writing_names_the_argument_that_is_no_data_set(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    with pytest.raises(ValueError, match="must be a Dataset, after the path; got str"):
        data.write(data.Dataset(None, [[1]]), str(path))
    with pytest.raises(ValueError, match=r"Dataset\(None, labels\)"):
        data.write(path, [[1]])
    assert not path.exists()


@pytest.mark.parametrize(("length", "header"), [(5, True), (200, True), (201, False)])
def test_a_header_is_a_short_line(length: int, header: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"1 2 3".ljust(length) + b"\n0 1:1\n")
    assert text.open_text(path).header == ((1, 2, 3) if header else ())


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"a\nb\nc\n", ("a", "b", "c")),
        (b"\xef\xbb\xbfa\r\nb\r\nc", ("a", "b", "c")),
        (b"a\nb\n", None),
        (b"a\nb\nc\nd\n", None),
        (b"a\n" * 100_000, None),
    ],
)
def test_names_beside_a_file_are_as_many_as_its_labels(
    content: bytes, lines: tuple[str, ...] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file with more lines is not read to its end."""
    path, blocks, read = tmp_path / "names.txt", reading.blocks, []
    path.write_bytes(content)

    def counted(path: Path) -> Iterator[bytes]:
        for block in blocks(path, size=1 << 10):
            read.append(len(block))
            yield block

    monkeypatch.setattr(reading, "blocks", counted)
    assert reading._lines(path, 3) == lines
    assert sum(read) <= 2 << 10
