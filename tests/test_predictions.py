"""Predictions: one order from any input, and files that come back as they were."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from unmask import predictions, set_threads
from unmask.predictions import TopK

INF = float("inf")

ties = st.sampled_from([-INF, -1.5, -0.0, 0.0, 0.25, 0.25 + 1e-12, 1.0, 3e38])
score_arrays = hnp.arrays(
    st.sampled_from([np.float32, np.float64]),
    hnp.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=9),
    elements=st.one_of(ties, st.floats(-1e3, 1e3, width=32)).map(lambda x: float(np.float32(x))),
)


def best(row: list[tuple[int, float]], k: int) -> tuple[list[int], list[float]]:
    """The k best (label, score) of a row, by sorting everything."""
    chosen = sorted(row, key=lambda pair: (-pair[1], pair[0]))[:k]
    padding = k - len(chosen)
    return [j for j, _ in chosen] + [-1] * padding, [s for _, s in chosen] + [-INF] * padding


def assert_same(top: TopK, rows: list[list[tuple[int, float]]], k: int) -> None:
    expected = [best(row, k) for row in rows]
    assert top.labels.dtype == np.int32
    assert top.scores.dtype == np.float32
    assert top.labels.shape == top.scores.shape == (len(rows), k)
    assert top.labels.tolist() == [labels for labels, _ in expected]
    assert top.scores.tolist() == [scores for _, scores in expected]


@given(score_arrays, st.integers(1, 12))
def test_dense_scores(scores: np.ndarray, k: int) -> None:
    rounded = scores.astype(np.float32)
    rows = [[(j, float(s)) for j, s in enumerate(row) if s != -INF] for row in rounded]
    assert_same(TopK.from_scores(scores, k), rows, min(k, max(1, scores.shape[1])))


@given(score_arrays, st.integers(1, 12), st.randoms(use_true_random=False))
def test_sparse_scores(scores: np.ndarray, k: int, random) -> None:
    """Stored entries are the candidates, zeros too, in whatever order they are stored."""
    rows = [[(j, float(np.float32(s))) for j, s in enumerate(row) if s != -INF] for row in scores]
    for row in rows:
        random.shuffle(row)
    entries = [entry for row in rows for entry in row]
    matrix = sp.csr_array(
        (
            np.array([s for _, s in entries], dtype=scores.dtype),
            np.array([j for j, _ in entries], dtype=np.int32),
            np.cumsum([0, *map(len, rows)]),
        ),
        shape=scores.shape,
    )
    before = matrix.indices.copy()
    places = min(k, max(1, scores.shape[1]))
    assert_same(TopK.from_scores(matrix, k), rows, places)
    assert_same(TopK.from_scores(sp.csc_array(matrix), k), rows, places)
    assert np.array_equal(matrix.indices, before)


def test_many_rows_do_not_depend_on_threads() -> None:
    scores = np.random.default_rng(0).integers(0, 50, (4000, 300))
    expected = np.lexsort((np.broadcast_to(np.arange(300), scores.shape), -scores), axis=1)[:, :7]
    for count in (1, 3):
        set_threads(count)
        for given_scores in (scores, scores.astype(np.float16), sp.csr_array(scores + 1)):
            assert np.array_equal(TopK.from_scores(given_scores, 7).labels, expected)
    set_threads(None)


@given(score_arrays.filter(lambda a: a.shape[1] > 0), st.randoms(use_true_random=False))
def test_sorted(scores: np.ndarray, random) -> None:
    rows = [[(j, float(np.float32(s))) for j, s in enumerate(row) if s != -INF] for row in scores]
    width = scores.shape[1]
    shuffled = [row + [(-1, 0.0)] * (width - len(row)) for row in rows]
    for row in shuffled:
        random.shuffle(row)
    shape = (len(rows), width)
    labels = np.array([[j for j, _ in row] for row in shuffled], dtype=np.int64).reshape(shape)
    given_scores = np.array([[s for _, s in row] for row in shuffled]).reshape(shape)
    assert_same(TopK.sorted(labels, given_scores), rows, width)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([[0.0, np.nan]], r"got nan in row 0, label 1"),
        ([[0.0], [INF]], r"got inf in row 1, label 0"),
        ([[1e300, 0.0]], r"got 1e\+300 in row 0, label 0"),
        ([[-1e300, 0.0]], r"got -1e\+300 in row 0, label 0"),
        ([0.5], r"scores must be a matrix of numbers, rows × labels; got float64 .* \(1,\)"),
        ([["a"]], r"scores must be a matrix of numbers"),
        (sp.csr_array([[np.nan]]), r"scores must be finite as float32; got nan in row 0, column 0"),
        (sp.csr_array(([1.0, 2.0], [3, 3], [0, 2]), shape=(1, 4)), r"scores names column 3 twice"),
    ],
)
def test_what_is_not_a_score_is_refused(scores, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TopK.from_scores(scores, 2)


@pytest.mark.parametrize("k", [0, -1, 1.0, True, "2"])
def test_k_is_a_count(k) -> None:
    with pytest.raises(ValueError, match="k must be a whole number of at least 1; got "):
        TopK.from_scores([[0.5]], k)


@pytest.mark.parametrize(
    ("labels", "scores", "message"),
    [
        ([[0, 1]], [[0.1, 0.2]], r"must stand best first.*row 0 has label 1 with 0.2 at place 1"),
        ([[0, 1], [5, 2]], [[2, 1], [1, 1]], r"must stand best first.*row 1 has label 2 with 1 at"),
        ([[4, 5, 4]], [[3, 2, 1]], r"name label 4 twice in row 0"),
        ([[-1, 5]], [[-INF, 1]], r"must stand best first.*row 0 has label 5 with 1 at place 1"),
        ([[5, -1]], [[1, 0]], r"an empty place has label −1 and score −inf.*at place 1"),
        ([[5, 6]], [[1, -INF]], r"an empty place has .*row 0 has label 6 with -inf at place 1"),
        ([[5, 6]], [[np.nan, 1]], r"scores must be finite; row 0 has label 5 with nan at place 0"),
        ([[5]], [[INF]], r"scores must be finite"),
        ([[-2]], [[1]], r"must be −1 \(empty\) or more; got -2"),
        ([[2**31]], [[1]], r"must be below 2\^31; got 2147483648"),
        ([[0.5]], [[1]], r"labels must be whole numbers; got float64"),
        ([[1]], [["x"]], r"scores must be real numbers; got <U1 values"),
        ([[1, 2]], [[1]], r"one shape \(rows, k\) with k ≥ 1; got \(1, 2\) and \(1, 1\)"),
        ([[]], [[]], r"one shape \(rows, k\) with k ≥ 1; got \(1, 0\)"),
        ([1], [1], r"one shape \(rows, k\)"),
    ],
)
def test_a_top_k_that_breaks_the_rules_is_refused(labels, scores, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TopK(labels, scores)


def test_no_rows() -> None:
    assert TopK.from_scores(np.empty((0, 4)), 3).labels.shape == (0, 3)


# --- files ----------------------------------------------------------------------------------------


def put(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress])
@pytest.mark.parametrize(
    "content",
    [
        b"2 2\n7:0.9 2:0.5\n4:0.5 3:0.5\n",
        b"2 2\r\n2:0.5\t7:.9 \r\n3:+0.5 4:5e-1",
        b"\xef\xbb\xbf2 8\n2:0.5 7:0.9\n3:0.5 4:0.5\n\n",
    ],
    ids=["best-first", "any-order", "score-matrix"],
)
def test_reading(tmp_path: Path, content: bytes, pack) -> None:
    top = predictions.read(put(tmp_path / "f", pack(content)))
    assert top.labels.tolist() == [[7, 2], [3, 4]]
    assert top.scores.tolist() == [[np.float32(0.9), 0.5], [0.5, 0.5]]


def test_k(tmp_path: Path) -> None:
    """The header's k where it can only be k; else the longest row; or as asked."""
    one = put(tmp_path / "f", b"2 3\n7:0.9\n4:0.5 3:0.6\n")
    assert predictions.read(one).labels.tolist() == [[7, -1, -1], [3, 4, -1]]
    assert predictions.read(one, k=1).labels.tolist() == [[7], [3]]
    matrix = put(tmp_path / "g", b"2 30\n7:0.9\n4:0.5 3:0\n")
    assert predictions.read(matrix).labels.tolist() == [[7, -1], [4, 3]]
    nothing = put(tmp_path / "h", b"1 5\n\n")
    assert predictions.read(nothing).labels.tolist() == [[-1]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r": the file is empty"),
        (b"7:0.9\n", r", line 1: expected the header 'n k' or 'n L', got '7:0.9'"),
        (b"1 2 3\n7:0.9\n", r", line 1: expected the header 'n k' or 'n L', got '1 2 3'"),
        (b"2 3\n7:0.9\n", r": the header announces 2 rows, the file has 1"),
        (b"1 3\n7:0.9\n1:1\n", r", line 3: the header announces 1 rows, but here is one more"),
        (b"2 2\n9:1\n1:1 2:2 3:3\n", r", line 3: the header announces 2 labels, but .* has 3 and"),
        (b"1 3\n7:0.9 1:1 7:0.8\n", r", line 2: a column stands twice in one row: '7:0.8'"),
        (b"1 3\n7:nan\n", r", line 2: .* finite as float32, got '7:nan'"),
        (b"1 3\n7:inf\n", r", line 2: .* finite as float32, got '7:inf'"),
        (b"1 3\n7\n", r", line 2: column without a value"),
        (b"1 3\n-1:1\n", r", line 2: expected index:value, got '-1:1'"),
        (b"1 2000000000\n2000000001:1\n", r", line 1: .* k = 2000000000, but no row has more than"),
        (gzip.compress(b"1 1\n7:1\n", mtime=0)[:-9], r": the gzip data end too early"),
    ],
)
def test_refusals_name_file_line_and_token(tmp_path: Path, content: bytes, message: str) -> None:
    path = put(tmp_path / "f", content)
    with pytest.raises(ValueError, match="^" + re.escape(str(path)) + message):
        predictions.read(path)


def test_npz(tmp_path: Path) -> None:
    scores = sp.csr_array([[0, 0.5, 0.5], [0.25, 0, 1]])
    sp.save_npz(tmp_path / "f.npz", scores)
    for k in (None, 1, 3):
        top = predictions.read(tmp_path / "f.npz", k=k)
        assert np.array_equal(top.labels, TopK.from_scores(scores, k or 2).labels)


@settings(max_examples=60)
@given(score_arrays.filter(lambda a: a.size > 0), st.integers(1, 4))
def test_round_trip_is_exact(tmp_path_factory, scores: np.ndarray, k: int) -> None:
    top = TopK.from_scores(scores, k)
    for name in ("f.txt", "f.txt.gz", "f.txt.zst", "f.npz"):
        path = tmp_path_factory.mktemp("top") / name
        predictions.write(path, top)
        found = predictions.read(path, k=k)
        assert np.array_equal(found.labels, top.labels)
        assert found.scores.tobytes() == top.scores.tobytes()


@pytest.mark.parametrize("rows", [1, 3])
def test_pairs_of_other_rows_cannot_be_left_out(rows: int) -> None:
    top = TopK([[1, 0], [0, 1]], [[0.9, 0.4]] * 2)
    for stored in (np.zeros((rows, 2)), np.ones((rows, 2))):
        with pytest.raises(ValueError, match="pairs to leave out"):
            top.without(sp.csr_array(stored))


@pytest.mark.parametrize("label", [-1, 1.5, None, True])
def test_labels_of_pairs_are_names_or_numbers_from_0(label: object) -> None:
    """A number below 0 is none, nor is a fraction; what is wrong is named."""
    said = "False|True" if label is True else str(label)
    with pytest.raises(ValueError, match=f"a name or a number from 0; got .*({said})"):
        TopK.from_pairs([[(label, 0.5)]])


def test_names_of_pairs_are_sorted_unless_there_is_an_order_already() -> None:
    rows: list[list[tuple[object, float]]] = [[("b", 1.0)], [("a", 2.0), ("b", 0.5)]]
    for names, wanted in ((None, ("a", "b")), (("z", "b"), ("z", "b", "a"))):
        made = TopK.from_pairs(rows, names=names)
        assert made.names == wanted
        assert [[name for name, _ in made.of_row(row)] for row in range(2)] == [["b"], ["a", "b"]]


def test_a_label_is_predicted_once_for_an_id(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text("id,label,score\nx,a,0.9\ny,a,0.8\nx,b,0.7\ny,b,0.6\nx,a,0.5\ny,b,0.4\n")
    message = "line 6: the label 'a' is predicted a second time for this id"
    with pytest.raises(ValueError, match=message):
        predictions.read(path)


def test_every_predicted_label_has_a_name() -> None:
    made = TopK([[0, 1]], [[2.0, 1.0]], names=["a", "b"])
    assert made.names == ("a", "b")  # a list is the caller's, and may change
    with pytest.raises(ValueError, match="predictions name label 1, but there are 1 label names"):
        TopK([[0, 1]], [[2.0, 1.0]], names=("a",))
