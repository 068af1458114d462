"""No input crashes the reader, and whatever it accepts is what a slow reader makes of it.

`reference` is that reader: the documented grammar in regular expressions, line by line. Files that
look real are mutated byte by byte and cut into absurdly small blocks; the two must agree on every
one, either on the matrices or on refusing.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from decimal import Decimal
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.helpers.paths import ROOT
from unmask import data
from unmask.files import streams, text

INDEX = re.compile(rb"[0-9]+")
VALUE = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
LIMIT = 2**31 - 1


class Refused(Exception):
    pass


def index(token: bytes, limit: int) -> int:
    if not INDEX.fullmatch(token) or int(token) >= limit:
        raise Refused(token)
    return int(token)


def value(token: bytes) -> np.float32:
    if not VALUE.fullmatch(token):
        raise Refused(token)
    with np.errstate(over="ignore"):
        number = np.float32(float(token))
    if not np.isfinite(number):
        raise Refused(token)
    return number


def add(row: dict[int, np.float32], key: int, number: np.float32) -> None:
    if key in row:
        raise Refused(key)
    row[key] = number


ONE = np.float32(1)


def reference(raw: bytes, format: str) -> tuple[list[dict], list[dict], int, int]:
    """(labels by row, features by row, L, d); `Refused` where the documentation says so."""
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    lines = raw.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    lines = [line.removesuffix(b"\r") for line in lines]
    if not lines:
        raise Refused("empty")
    n = d = n_labels = None
    if format != "libsvm":
        header = lines.pop(0).replace(b"\t", b" ").split(b" ")
        numbers = [index(token, 2**60) for token in header if token]
        if len(numbers) != (3 if format == "xc" else 2):
            raise Refused("header")
        n = numbers[0]
        n_labels, d = {
            "xc": (numbers[-1], numbers[1]),
            "labels": (numbers[-1], 0),
            "features": (0, numbers[-1]),
        }[format]
    found = [row for line in lines if (row := one_line(line, format, n_labels, d)) is not None]
    if n is not None:
        if len(found) < n or any(labels or features for labels, features in found[n:]):
            raise Refused("rows")
        found = found[:n]
    labels, features = [row[0] for row in found], [row[1] for row in found]
    if format == "libsvm":
        used = [j for row in features for j in row]
        base = 1 if used and min(used) > 0 else 0
        features = [{j - base: v for j, v in row.items()} for row in features]
        d = max(used) + 1 - base if used else 0
        n_labels = max((j for row in labels for j in row), default=-1) + 1
    return labels, features, n_labels, d


def one_line(line: bytes, format: str, n_labels: int | None, d: int | None):
    """(labels, features) of one row, or None for a comment."""
    labels: dict[int, np.float32] = {}
    features: dict[int, np.float32] = {}
    if format == "libsvm":
        if line == b"":
            raise Refused("blank")
        if line.startswith(b"#"):
            return None
        line = line.partition(b"#")[0]
    tokens = re.split(rb"[ \t]", line)
    if format in ("xc", "libsvm") and tokens[0] and b":" not in tokens[0]:
        for label in tokens.pop(0).split(b","):
            add(labels, index(label, LIMIT if n_labels is None else n_labels), ONE)
    for token in tokens:
        if token == b"":
            continue
        if format == "labels":
            for entry in token.split(b","):
                label, colon, given = entry.partition(b":")
                key = index(label, n_labels)
                if colon and value(given) != 1:
                    raise Refused(entry)
                add(labels, key, ONE)
        else:
            key, colon, given = token.partition(b":")
            if not colon and format != "libsvm":
                raise Refused(token)
            add(features, index(key, LIMIT if d is None else d), value(given) if colon else ONE)
    return labels, features


def assert_same(matrix, rows_: list[dict], columns: int) -> None:
    assert matrix.shape == (len(rows_), columns)
    assert matrix.has_canonical_format
    assert matrix.indices.dtype == (np.int32 if columns <= LIMIT else np.int64)
    assert np.diff(matrix.indptr).tolist() == [len(row) for row in rows_]
    expected = [(j, row[j]) for row in rows_ for j in sorted(row)]
    assert matrix.indices.tolist() == [j for j, _ in expected]
    values = np.array([v for _, v in expected], dtype=np.float32)
    assert matrix.data.tobytes() == values.tobytes()  # signed zeros too


def check(raw: bytes, format: str, path: Path) -> None:
    path.write_bytes(raw)
    try:
        labels, features, n_labels, d = reference(raw, format)
    except Refused:
        with pytest.raises(ValueError, match=re.escape(str(path))):
            data.read(path, format=format)
        return
    with data.limits(columns=1 << 62):
        found = data.read(path, format=format)
    if found.labels is not None:
        assert_same(found.labels, labels, n_labels)
    if found.features is not None:
        assert_same(found.features, features, d)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "file"


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut the text nearly everywhere."""
    monkeypatch.setattr(text, "blocks", partial(streams.blocks, size=23))
    monkeypatch.setattr(text, "_CHUNK", 5)


SPECIAL = """1 0 -0.0 0.5 1e-3 .5 7. +2 3.4028235e38 1e-46 9223372036854775808 9999999999999999999
0.99999999999999999999999 1e30 1000000000000000000000000000000 0.00000000000000000000000000000000001
123456789012345678e-30 0e99999999999999999999 1e-99999999999999999999"""


def halfway(below: float, digits: int) -> str:
    """The number in the middle of two neighbouring float32, cut after so many digits."""
    above = np.nextafter(np.float32(below), np.float32(np.inf))
    middle = (Decimal(below) + Decimal(float(above))) / 2
    return f"{middle:.{digits}e}"


finite = st.floats(width=32, allow_nan=False, allow_infinity=False)
numbers = st.one_of(
    st.sampled_from(SPECIAL.split()),
    st.builds(
        halfway, st.floats(2.0**-30, 2.0**30, width=32), st.sampled_from([15, 17, 18, 20, 24, 40])
    ),
    finite.map(lambda x: repr(float(x))),
    st.floats(-1e30, 1e30).map(repr),
    st.integers(0, 10**25).map(str),
    st.integers(0, 10**25).map(lambda i: f"0.{i}"),
)


@st.composite
def files(draw: st.DrawFn) -> tuple[str, bytes]:
    """A well-formed file of up to five rows over 12 labels and 12 features."""
    format = draw(st.sampled_from(["xc", "labels", "features", "libsvm"]))
    columns = st.lists(st.integers(0, 11), unique=True, max_size=4)
    lines = []
    for _ in range(draw(st.integers(0, 5))):
        labels = [str(j) for j in draw(columns)] if format != "features" else []
        pairs = [f"{j}:{draw(numbers)}" for j in draw(columns)] if format != "labels" else []
        if format == "labels":
            lines.append(draw(st.sampled_from([",", " "])).join(labels))
        else:
            lines.append(",".join(labels) + " " + " ".join(pairs))
    header = {"xc": "{} 12 12", "labels": "{} 12", "features": "{} 12", "libsvm": "# {} rows"}
    end = draw(st.sampled_from(["\n", "\r\n"]))
    text = end.join([header[format].format(len(lines)), *lines]) + draw(st.sampled_from(["", end]))
    return format, text.encode()


SNIPPETS = rb"""\t \n \r \r\n , : # - + . e E- 0 1 9 12 11 nan inf \xef\xbb\xbf \0 \xff _ 0x1
\x203:1 3, 99999999999999999999 2147483647 1e400 1e-400 :1 \x20"""
snippets = st.one_of(
    st.sampled_from([s.decode("unicode_escape").encode("latin-1") for s in SNIPPETS.split()]),
    st.binary(max_size=3),
)
edits = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 3), snippets), max_size=3)


def mutated(raw: bytes, changes: list[tuple[int, int, bytes]]) -> bytes:
    for where, dropped, snippet in changes:
        at = where % (len(raw) + 1)
        raw = raw[:at] + snippet + raw[at + dropped :]
    return raw


@settings(max_examples=int(os.environ.get("UNMASK_FUZZ", "400")))
@given(files(), edits)
@example(("xc", b"1 1 1"), [])
@example(("xc", b"2 3 4\n0 1:1\n\n\n \n"), [])
@example(("xc", b"1 3 4\n0,0 1:1\n"), [])
@example(("xc", b"1 3 4\n 2:1 02:1\n"), [])
@example(("xc", b"1 3 4\n1, 2:1\n"), [])
@example(("xc", b"1 3 4\n2:1 1:16777217.00000000000000000000001\n"), [])
@example(("xc", b"1000000000000 3 4\n2:1\n"), [])
@example(("xc", b"1 1000000000000000000 4\n2:1\n"), [])
@example(("labels", b"1 4\n1:1.00000005960464477539062500000000001\n"), [])
@example(("labels", b"1 4\n1:1.000000059604644775390624999999999\n"), [])
@example(("libsvm", b"1 2147483646:1\n1 2147483647:1"), [])
@example(("libsvm", b"1,2 3 4:2 # note\n # empty\n"), [])
def test_reader_agrees_with_reference(
    path: Path, file: tuple[str, bytes], changes: list[tuple[int, int, bytes]]
) -> None:
    format, raw = file
    check(mutated(raw, changes), format, path)


@settings(max_examples=200)
@given(st.binary(max_size=60), st.sampled_from(["xc", "labels", "features", "libsvm"]))
def test_reader_survives_any_bytes(path: Path, raw: bytes, format: str) -> None:
    if raw[:2] == b"\x1f\x8b" or raw[:4] in (b"\x28\xb5\x2f\xfd", b"PK\x03\x04"):
        return
    check(raw, format, path)


@settings(max_examples=300)
@given(st.lists(numbers, min_size=1, max_size=30))
def test_numbers_are_rounded_as_python_and_numpy_round(path: Path, tokens: list[str]) -> None:
    line = " ".join(f"{j}:{token}" for j, token in enumerate(tokens))
    check(f"1 {len(tokens)}\n{line}\n".encode(), "features", path)


@pytest.mark.parametrize("digits", [15, 17, 18, 20, 24, 40])
def test_numbers_halfway_between_two_floats(path: Path, digits: int) -> None:
    """Where one float64 operation on a long decimal would often round to the wrong side."""
    rng = np.random.default_rng(0)
    below = (rng.random(300) * 2.0 ** rng.integers(-30, 30, 300)).astype(np.float32)
    tokens = [halfway(number, digits) for number in below.tolist()]
    line = " ".join(f"{j}:{token}" for j, token in enumerate(tokens))
    check(f"1 {len(tokens)}\n{line}\n".encode(), "features", path)


def test_long_rows_in_any_order(path: Path) -> None:
    """Of more entries than are sorted one by one; and with one of them twice."""
    rng = np.random.default_rng(0)
    for size in (17, 40, 90, 300):
        columns = rng.permutation(2 * size)[:size].tolist()
        entries = " ".join(f"{j}:{i + 1}" for i, j in enumerate(columns))
        labels = ",".join(map(str, rng.permutation(size)))
        for line in (f"{labels} {entries}", f"{labels} {entries} {columns[3]}:1",
                     f"{labels},{size // 2} {entries}"):  # fmt: skip
            check(f"1 {2 * size} {size}\n{line}\n".encode(), "xc", path)
            check(f"{line}\n".encode(), "libsvm", path)


def test_kernels_stay_in_bounds() -> None:
    """The same tests with the kernels as plain Python, where an index beyond an array is an error.

    Negative indices would pass, but positions only ever grow from 0.
    """
    if os.environ.get("NUMBA_DISABLE_JIT") == "1":
        return
    chosen = [f"{__file__}::{name}" for name in CHECKED_IN_PYTHON]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen]
    command += [
        "-W",
        "ignore::RuntimeWarning",
    ]  # float32 overflow, which compiled code is silent on
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "UNMASK_FUZZ": "150"}
    done = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert f"{len(CHECKED_IN_PYTHON)} passed" in done.stdout


CHECKED_IN_PYTHON = ["test_reader_agrees_with_reference", "test_reader_survives_any_bytes"]
