"""Pipes, devices and folders are refused at once; zstd frames without data are skipped."""

from __future__ import annotations

import os
import signal
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from tests.helpers.devices import terminal
from tests.helpers.xc_files import XC
from unmask import data, missing, predictions, propensity, thresholds
from unmask.audit.planning import read_plan
from unmask.files import contents, read_records

pytestmark = pytest.mark.usefixtures("patience")

READERS: dict[str, Callable[[Path], object]] = {
    "data": data.read,
    "predictions": predictions.read,
    "propensity": propensity.read,
    "thresholds": thresholds.read,
    "hierarchy": data.read_hierarchy,
    "vocabulary": data.subject_labels,
    "review": missing.read_review,
    "plan": read_plan,
    "records": read_records,
}


@pytest.mark.parametrize("reader", READERS)
def test_readers_do_not_wait_for_a_pipe(reader: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    signal.alarm(100)
    for name in ("pipe", "link"):
        with pytest.raises(ValueError, match=r"is a pipe.*write it to a file and name that"):
            READERS[reader](tmp_path / name)


@pytest.mark.parametrize("reader", READERS)
def test_readers_refuse_devices_and_folders(reader: str, tmp_path: Path) -> None:
    with terminal() as (path, _), pytest.raises(ValueError, match="is a device, not a file"):
        READERS[reader](path)
    (tmp_path / "a_data.txt").mkdir()
    with pytest.raises(ValueError, match="is a folder"):
        READERS[reader](tmp_path / "a_data.txt")


def skippable(size: int, kind: int = 0) -> bytes:
    return struct.pack("<II", 0x184D2A50 + kind, size) + b"\0(\xb5/\xfd"[: min(size, 5)].ljust(
        size, b"x"
    )


@pytest.mark.parametrize("kind", range(16))
def test_skippable_frames_before_zstd_data_are_skipped(tmp_path: Path, kind: int) -> None:
    path = tmp_path / "f.txt"
    path.write_bytes(skippable(4, kind) + zstandard.compress(XC))
    found = data.read(path)
    assert found.source.compression == ("zstd",)
    assert found.labels.nnz == 3


@pytest.mark.parametrize("size", [0, 1, 1015, 1016, 1017, 5000, 300_000])
def test_skippable_frames_may_stand_anywhere(tmp_path: Path, size: int) -> None:
    path = tmp_path / "f.txt"
    half, frame = len(XC) // 2, skippable(size, 7)
    path.write_bytes(
        frame
        + frame
        + zstandard.compress(XC[:half])
        + frame
        + zstandard.compress(XC[half:])
        + frame
    )
    assert contents(path) == XC
    path.write_bytes(frame)
    assert contents(path) == b""
    if size:
        path.write_bytes(frame[:-1])
        with pytest.raises(ValueError, match="the zstd data end too early"):
            contents(path)


def test_many_skippable_frames_are_stepped_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of them costs a decompressor."""
    made = []
    usual = zstandard.ZstdDecompressor
    monkeypatch.setattr(zstandard, "ZstdDecompressor", lambda: made.append("zstd") or usual())
    path = tmp_path / "f.txt"
    path.write_bytes(skippable(0) * 20_000 + zstandard.compress(XC) + skippable(3) * 20_000)
    assert contents(path) == XC
    assert made == ["zstd"]
