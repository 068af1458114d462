"""A little of `make fuzz`, and the files that once got through: each is refused by name now."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import unmask
from tests.helpers.paths import ROOT

sys.path.insert(0, str(ROOT / "tools"))  # no part of the package
import fuzz
from fuzz_readers import Reader

TIMES = {"report": 2, "report.rows": 10}
Files = dict[str, bytes]


@pytest.fixture(autouse=True)
def patience() -> Iterator[None]:
    """A reader that hangs fails its test rather than all of them."""

    def too_long(number: int, frame: FrameType | None) -> None:
        raise TimeoutError("a reader takes too long")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("name", fuzz.READERS)
def test_changed_files_are_read_or_refused(name: str, tmp_path: Path) -> None:
    fuzz.prepare([name])
    for seed in range(TIMES.get(name, 40)):
        verdict = fuzz.execute(name, seed, tmp_path)
        assert verdict in ("read", "refused"), f"seed {seed}: {verdict}"


def test_every_reader_is_fuzzed() -> None:
    """Every public function whose name says that it reads, and the pages of stored results."""
    public = {
        f"{room}.{name}"
        for room in ("data", "predictions", "propensity", "linear")
        for name in dir(getattr(unmask, room))
        if name in ("read", "load") or name.startswith("read_")
    }
    covered = {
        "data.read": "data", "predictions.read": "predictions", "propensity.read": "propensity",
        "linear.load": "model", "data.read_judgements": "data.judgements",
        "data.read_hierarchy": "data.hierarchy",
    }  # fmt: skip
    assert public == covered.keys()
    assert set(covered.values()) < fuzz.READERS.keys()


def test_a_defect_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(folder: Path) -> None:
        contents = next(folder.iterdir()).read_bytes()
        json.loads(contents)["a"]

    seeds: list[Files] = [{"a.json": b'{"a": 1}'}]
    monkeypatch.setitem(fuzz.READERS, "careless", Reader(lambda: seeds, careless))
    fuzz.prepare(["careless"])
    found = {fuzz.execute("careless", seed, tmp_path) for seed in range(60)}
    assert any("KeyError" in verdict for verdict in found)
    assert any(verdict.startswith("no path in") for verdict in found)


@pytest.mark.parametrize("how", ["hang", "die", "memory"])
def test_worse_than_an_exception_is_noticed(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def awful(folder: Path) -> None:
        if how == "hang":
            signal.pause()
        elif how == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        np.ones(3 << 28)

    reader = Reader(lambda: [{"a.txt": b"1"}], awful)
    monkeypatch.setitem(fuzz.READERS, "awful", reader)
    monkeypatch.setitem(fuzz.SEEDS, "awful", reader.seeds())
    monkeypatch.setattr(fuzz, "PATIENCE", 1.0 if how == "hang" else 20.0)
    tally = fuzz.Tally()
    fuzz._turn("awful", 0, tally, tmp_path)
    assert tally.defects == 1
    told = next(tmp_path.glob("awful-*/complaint.txt")).read_text()
    assert {"hang": "no answer", "die": "died", "memory": "MemoryError"}[how] in told
    assert (next(tmp_path.glob("awful-*")) / "a.txt").exists()


# What was found, and is refused since.


def array(*values: Any, dtype: Any = None) -> bytes:
    file = io.BytesIO()
    np.save(file, np.array(values[0] if len(values) == 1 else values, dtype=dtype))
    return file.getvalue()


def put(name: str, contents: bytes) -> Callable[[Files], Files]:
    return lambda files: {**files, name: contents}


def swap(name: str, old: bytes, new: bytes) -> Callable[[Files], Files]:
    def change(files: Files) -> Files:
        assert old in files[name], files[name][:200]
        return {**files, name: files[name].replace(old, new, 1)}

    return change


def tree(name: str, *keys: Any, value: Any) -> Callable[[Files], Files]:
    def change(files: Files) -> Files:
        whole = json.loads(files[name])
        inside = whole
        for key in keys[:-1]:
            inside = inside[key]
        inside[keys[-1]] = value
        return {**files, name: json.dumps(whole).encode()}

    return change


def broken_deflate(files: Files) -> Files:
    """An archive whose compressed bytes are nonsense."""
    whole = bytearray(files["a.npz"])
    with zipfile.ZipFile(io.BytesIO(files["a.npz"])) as archive:
        first = archive.infolist()[0]
    start = first.header_offset + 30 + len(first.filename) + 20
    whole[start : start + 8] = b"\xff" * 8
    return {"a.npz": bytes(whole)}


UNCLOSED = b"\x93NUMPY\x01\x00\x46\x00" + b"{'descr': '<f4', 'fortran_order': False, 'shape': (3,"
DEEP = b'{"a":' + b"[" * 100_000

CORPUS: dict[str, tuple[str, int, Callable[[Files], Files]]] = {
    "deflate": ("data.npz", 0, broken_deflate),
    "header without end": ("data.npz.members", 0, put("labels_data.npy", UNCLOSED.ljust(90))),
    "rows backwards": ("data.npz.members", 1, put("indptr.npy", array(0, 3, 1, 3))),
    "float columns": ("data.npz.members", 1, put("indices.npy", array(0.0, 0.0, 1.0))),
    "columns of bytes": ("data.npz.members", 1, put("indices.npy", array(0, 0, 200, dtype="u1"))),
    "rows without end": ("data.npz.members", 3, put("shape.npy", array(10**10, 2))),
    "infinite scores": ("predictions.npz", 0, put("data.npy", array([np.inf] * 5))),
    "deep": ("propensity", 0, put("p.txt", DEEP)),
    "short intervals": ("propensity.json", 0, tree("p.json", "low", value=[0.1])),
    "no share": ("propensity.json", 2, tree("p.json", "uncertainty", "share", value=[0.0] * 4)),
    "no draws": ("propensity.json", 0, tree("p.json", "uncertainty", "curve", "draws", value=[])),
    "number too large": ("propensity.json", 0, tree("p.json", "low", value=[10**400] * 4)),
    "unknown kind": ("propensity.json", 0, tree("p.json", "uncertainty", value={"kind": "x"})),
    "no text": ("model", 0, tree("manifest.json", "shards", 0, "file", value="\ud800")),
    "features": ("model.signed", 1, tree("manifest.json", "features", value=10**30)),
    "loss": ("model", 0, tree("manifest.json", "loss", value="hinge of a door")),
    "labels below": ("model", 0, tree("manifest.json", "labels", value=-3)),
    "report, none": ("report", 0, tree("r.json", "estimates", value=None)),
    "report, words": ("report", 0, tree("r.json", "estimates", 0, "value", value="x")),
    "report, kind": ("report", 0, tree("r.json", "kind", value=["evaluation"])),
    "report, deep": ("report", 0, put("r.json", DEEP)),
    "row": ("report.rows", 0, tree("recall-toy-tiny.jsonl", "rows", 0, "seed", value=[])),
    "rows": ("study", 0, lambda files: dict.fromkeys(files, b"{}")),
    "rows of numbers": ("study", 0, lambda files: dict.fromkeys(files, b"[1]")),
}  # fmt: skip


@pytest.mark.parametrize("what", CORPUS)
def test_what_once_got_through_is_refused(what: str, tmp_path: Path) -> None:
    name, seed, change = CORPUS[what]
    if name not in fuzz.SEEDS:
        fuzz.prepare([name])
    files = change(fuzz.SEEDS[name][seed])
    assert fuzz.attempt(name, fuzz.READERS[name].pack(files), tmp_path) == "refused"


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("report", tree("r.json", "labels", "count", 0, value=1e308)),
    ],
)
def test_what_is_large_but_sound_is_read(
    name: str, change: Callable[[Files], Files], tmp_path: Path
) -> None:
    if name not in fuzz.SEEDS:
        fuzz.prepare([name])
    files = change(fuzz.SEEDS[name][0])
    assert fuzz.attempt(name, fuzz.READERS[name].pack(files), tmp_path) == "read"
