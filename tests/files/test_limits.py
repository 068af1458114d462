"""Files that ask for too much are refused before they get it, and the limit can be raised."""

from __future__ import annotations

import gzip
import hashlib
import tracemalloc
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.command import run
from tests.helpers.memory import little_memory
from tests.helpers.model_folders import edit, manifest, save_small
from tests.helpers.xc_files import put_xc
from unmask import data, linear, predictions, propensity
from unmask.files import streams

zstandard = pytest.importorskip("zstandard")
pytestmark = pytest.mark.usefixtures("patience")

SIZE = 16_000_000
POOLS: list[Any] = []
"""Memory of pyarrow that was measured: kept, as its arrays may be collected late."""


@pytest.fixture(autouse=True)
def little_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bombs small enough to be made in a test."""
    monkeypatch.setattr(streams, "FREE", 1 << 20)


def gzip_bomb(path: Path) -> None:
    with gzip.open(path, "wb", compresslevel=9) as file:
        for _ in range(SIZE // 2_000_000):
            file.write(b"1\n" * 1_000_000)


def zstd_bomb(path: Path) -> None:
    with path.open("wb") as file, zstandard.ZstdCompressor().stream_writer(file) as packed:
        for _ in range(SIZE // 2_000_000):
            packed.write(b"1\n" * 1_000_000)


def zip_bomb(path: Path) -> None:
    arrays = {
        "labels_data": np.zeros(SIZE // 8, np.float32),
        "labels_indices": np.zeros(SIZE // 8, np.int32),
        "labels_indptr": np.zeros(2, np.int32),
        "labels_shape": np.array([1, 1]),
    }
    np.savez_compressed(path, **arrays)


SUFFIXES = {gzip_bomb: ".gz", zstd_bomb: ".zst", zip_bomb: ".npz"}


@pytest.mark.parametrize("bomb", SUFFIXES)
def test_a_bomb_is_refused_with_little_memory(tmp_path: Path, bomb: Callable[[Path], None]) -> None:
    path = tmp_path / f"a{SUFFIXES[bomb]}"
    bomb(path)
    with pytest.raises(ValueError, match=rf"{path}.*over 200 times as many.*data\.limits"):
        data.read(path)
    assert peak_of(path, expansion=200) < peak_of(path, expansion=1e9) / 2


def peak_of(path: Path, expansion: float) -> int:
    """The most memory held while the file is read or refused."""
    tracemalloc.start()
    with data.limits(expansion=expansion), suppress(ValueError):
        data.read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_the_limit_of_expansion_can_be_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "FREE", 1000)
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"1000 2\n" + b"0:1\n" * 1000, 9))
    assert data.read(path, format="labels").labels.shape == (1000, 2)
    with data.limits(expansion=2), pytest.raises(ValueError, match="over 2 times as many"):
        data.read(path, format="labels")
    with data.limits(expansion=2), data.limits(expansion=1000):
        assert data.read(path, format="labels").labels.shape == (1000, 2)


def test_limits_hold_for_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which are read by another thread."""
    monkeypatch.setattr(streams, "FREE", 1000)
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"id,tags\n" + b"".join(b"%d,a\n" % i for i in range(1000)), 9))
    with data.limits(expansion=2), pytest.raises(ValueError, match="over 2 times as many"):
        data.read(path)
    assert data.read(path).n == 1000
    path.write_bytes(gzip.compress(b"tags\n" + b"a\n" * 100_000, 9))
    with pytest.raises(ValueError, match="over 200 times as many"):
        data.read(path)
    with data.limits(expansion=10_000):
        assert data.read(path).n == 100_000


@pytest.mark.parametrize("header", ["1000000000000 3 4", "1 1000000000000 4", "1 3 1000000000000"])
def test_an_absurd_header_takes_no_memory(tmp_path: Path, header: str) -> None:
    path = tmp_path / "a.txt"
    path.write_text(f"{header}\n0 0:1\n")
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"1,?000,?000,?000,?000"):
        data.read(path)
    assert tracemalloc.get_traced_memory()[1] < 50_000_000
    tracemalloc.stop()


def test_one_huge_index_is_refused_unless_allowed(tmp_path: Path) -> None:
    path = tmp_path / "a.svm"
    path.write_text("3 1:1 2147483646:1\n")
    with pytest.raises(ValueError, match=r"2,147,483,646 features, more than 100,000,000"):
        data.read(path)
    with data.limits(columns=2**31):
        assert data.read(path).features.shape == (1, 2147483646)


@pytest.mark.parametrize("form", ["coo", "csc"])
@pytest.mark.parametrize("shape", [(10**10, 2), (2, 10**10)])
def test_matrices_by_columns_do_not_announce_endless_rows(
    form: str, shape: tuple[int, int], tmp_path: Path
) -> None:
    """Rows without entries are not in such a file, but would take memory."""
    path = tmp_path / "a.npz"
    arrays = {"data": np.ones(1), "row": np.zeros(1, int), "col": np.zeros(1, int)}
    if form == "csc":
        arrays = {"data": np.ones(1), "indices": np.zeros(1, int), "indptr": np.array([0, 1, 1])}
    np.savez(path, format=form.encode(), shape=np.array(shape), **arrays)
    with pytest.raises(ValueError, match="10,000,000,000 rows or columns, more than 100,000,000"):
        data.read(path)


def test_the_command_line_raises_limits(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("1 100000001 2\n0 0:1\n")
    refused = run("info", path)
    assert refused.returncode == 2
    assert "allow it with `unmask --max-columns`" in refused.stderr
    assert run("--max-columns", 10**9, "info", path, "--json").returncode == 0


def test_predictions_are_bounded_too(tmp_path: Path) -> None:
    path = tmp_path / "p.txt.gz"
    with gzip.open(path, "wb", compresslevel=9) as file:
        file.write(b"100000000 1\n")
        for _ in range(4):
            file.write(b"0:1\n" * 250_000)
    with pytest.raises(ValueError, match="over 200 times"):
        predictions.read(path)


def test_an_archive_that_lies_about_its_size_is_refused(tmp_path: Path) -> None:
    """An .npy header inside may announce more than the archive holds."""
    path = tmp_path / "a.npz"
    head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }"
    head += b" " * (64 - (len(head) + 11) % 64) + b"\n"
    array = b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head
    with zipfile.ZipFile(path, "w") as archive:
        for part in ("data", "indices", "indptr", "shape"):
            archive.writestr(f"labels_{part}.npy", array)
    with pytest.raises(ValueError, match=r"a\.npz"):
        data.read(path)


def test_a_parquet_file_takes_no_more_than_it_may(tmp_path: Path) -> None:
    """Strings named again and again, beginnings shared, lists of one value: few bytes, much data.

    The same columns with less in them are read whole, whatever their batches are.
    """
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")

    def dictionary(n: int) -> Any:
        return {"labels": pa.array(["x" * 5000]).take(pa.array(np.zeros(n, np.int32)))}

    def equal_values(n: int) -> Any:
        values = pa.array(["a"]).take(pa.array(np.zeros(100 * n, np.int32)))
        return {"labels": pa.ListArray.from_arrays(pa.array([0, 100 * n], pa.int32()), values)}

    def numbers(n: int) -> Any:
        return {"labels": pa.array([[1] * n] * 100)}

    def shared(n: int) -> Any:
        return {"labels": [f"{'x' * 5000}{number}" for number in range(n)]}

    def dotted(n: int) -> Any:
        return {"lab.els": dictionary(n)["labels"]}

    def inside(n: int) -> Any:
        return {"labels": pa.StructArray.from_arrays([dictionary(n)["labels"]], ["name"])}

    path, usual = tmp_path / "a.parquet", pa.default_memory_pool()
    POOLS.append(pool := pa.proxy_memory_pool(usual))
    for made in (dictionary, equal_values, numbers, shared, dotted, inside):
        for version in ("1.0", "2.0"):
            prefixes = {"labels": "DELTA_BYTE_ARRAY"} if made is shared else None
            parquet.write_table(
                pa.table(made(4000)), path, compression="zstd", data_page_version=version,
                use_dictionary=prefixes is None, column_encoding=prefixes,
            )  # fmt: skip
            assert path.stat().st_size < 100_000
            (column,) = made(1)
            pa.set_memory_pool(pool)
            try:
                with pytest.raises(ValueError, match=rf"{path}.*times as many.*data\.limits"):
                    data.read(path, format="parquet", labels=column)
            finally:
                pa.set_memory_pool(usual)
            assert 0 < pool.max_memory() < 16_000_000, made.__name__
    for made in (dictionary, shared):
        parquet.write_table(pa.table(made(150)), path, row_group_size=40)
        column = data.read(path, format="parquet", labels="labels", delimiter="none")
        assert column.labels.shape == (150, len(set(made(150)["labels"])))


def test_the_pages_of_a_parquet_file_are_believed_not_its_summary(tmp_path: Path) -> None:
    """Damaged anywhere, a file is read or refused in a sentence."""
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"labels": [["a", "b"], None, ["c"]]}), path)
    whole = path.read_bytes()
    assert data.read(path).labels.toarray().tolist() == [[1, 1, 0], [0, 0, 0], [0, 0, 1]]
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(200):
        damaged = bytearray(whole)
        damaged[rng.integers(len(whole))] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        try:
            data.read(path)
        except ValueError:
            refused += 1
    assert refused > 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model with word weights, in two shards."""
    return save_small(tmp_path / "m")


def test_a_long_json_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "long.json"
    with open(path, "wb") as file:
        file.truncate(4 << 30)
    with little_memory():
        refused = run("report", path, "-o", tmp_path / "page.html")
    assert refused.returncode == 2
    assert "4,294,967,296 bytes of JSON, more than" in refused.stderr.replace("\n", " ")
    assert "--max-json" in refused.stderr
    (tmp_path / "m").mkdir()
    path.rename(tmp_path / "m" / "manifest.json")
    with pytest.raises(ValueError, match=r"bytes of JSON, more than.*limits\(json=…\)"):
        linear.load(tmp_path / "m")


def test_the_limit_of_json_can_be_changed(folder: Path, tmp_path: Path) -> None:
    size = (folder / "manifest.json").stat().st_size
    with data.limits(json=size):
        assert linear.load(folder).n_labels == 4
    with data.limits(json=size - 1), pytest.raises(ValueError, match=f"{size:,} bytes of JSON"):
        linear.load(folder)
    record = propensity.from_marginals([[1, 0]] * 30 + [[0, 1]] * 10, [0.9, 0.5])
    propensity.write(tmp_path / "p.json.gz", record)
    with data.limits(json=50), pytest.raises(ValueError, match="bytes of JSON, more than 50"):
        propensity.read(tmp_path / "p.json.gz")
    path = put_xc(tmp_path)
    arguments = ("propensity", path, "--propensity", tmp_path / "p.json.gz")
    assert "more than 50" in run("--max-json", 50, *arguments).stderr


def test_a_header_of_a_shard_counts_as_json(folder: Path) -> None:
    size = (folder / "manifest.json").stat().st_size
    name = manifest(folder)["shards"][0]["file"]
    path = folder / name
    contents = (2 * size).to_bytes(8, "little") + b" " * 4 * size
    path.write_bytes(contents)
    about = {"bytes": len(contents), "sha256": hashlib.sha256(contents).hexdigest()}
    edit(folder, lambda head: head["shards"][0].update(about))
    limit = (folder / "manifest.json").stat().st_size
    with data.limits(json=limit), pytest.raises(ValueError, match=f"{name}.*bytes of JSON"):
        linear.load(folder)
