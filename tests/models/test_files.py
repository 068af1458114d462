"""Models on disk: what comes back is what went in, and nothing else is taken for a model."""

from __future__ import annotations

import json
import mmap
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from unmask.linear import (
    LinearModel,
    Recipe,
    Shard,
    load,
    save,
    scores,
    train,
    train_to,
)

RNG = np.random.default_rng(11)
X = sp.csr_array((RNG.random((80, 15)) * (RNG.random((80, 15)) < 0.4)).astype(np.float32))
Y = sp.csr_array((RNG.random((80, 70)) < 0.1).astype(int))


@pytest.fixture(params=[0.0, 0.02], ids=["dense", "culled"])
def model(request: pytest.FixtureRequest) -> LinearModel:
    return train(X, Y, Recipe(prune_below=request.param))[0]


def test_round_trip(model: LinearModel, tmp_path: Path) -> None:
    save(tmp_path / "m", model, shard_labels=32)
    back = load(tmp_path / "m")
    assert len(back.shards) == 3
    assert back.sparse == model.sparse
    assert (back.loss, back.parameters) == (model.loss, model.parameters)
    assert np.array_equal(scores(back, X), scores(model, X))
    values = back.shards[0].weights.data if model.sparse else back.shards[0].weights
    assert _is_mapped(values)


def _is_mapped(array: object) -> bool:
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, mmap.mmap)


def test_saving_twice_replaces(tmp_path: Path) -> None:
    big, small = train(X, Y)[0], train(X, Y[:, :3])[0]
    save(tmp_path, big)
    save(tmp_path, small)
    assert load(tmp_path).n_labels == 3


def _edit(folder: Path, change) -> None:  # type: ignore[no-untyped-def]
    path = folder / "manifest.json"
    head = json.loads(path.read_text())
    change(head)
    path.write_text(json.dumps(head))


DAMAGE = {
    "no manifest": (lambda f: (f / "manifest.json").unlink(), "is no model folder"),
    "half a manifest": (
        lambda f: (f / "manifest.json").write_bytes((f / "manifest.json").read_bytes()[:40]),
        "is no model folder",
    ),
    "foreign": (lambda f: _edit(f, lambda h: h.update(format="other")), "is not the manifest of"),
    "later version": (lambda f: _edit(f, lambda h: h.update(version=3)), "has version 3"),
    "no package": (lambda f: _edit(f, lambda h: h.pop("package")), "no proper 'package'"),
    "no labels": (lambda f: _edit(f, lambda h: h.pop("labels")), "no proper 'labels'"),
    "missing shard": (lambda f: next(f.glob("shard-*")).unlink(), "is missing"),
    "cut shard": (
        lambda f: os.truncate(sorted(f.glob("shard-*"))[1], 100),
        "has 100 bytes instead of",
    ),
    "flipped bit": (
        lambda f: _flip(sorted(f.glob("shard-*"))[0], -3),
        "does not match its checksum",
    ),
    "unfinished": (lambda f: _edit(f, lambda h: h["shards"].pop()), "training has not finished"),
    "a gap": (lambda f: _edit(f, lambda h: h["shards"].pop(0)), "training has not finished"),
    "no shard of no labels": (
        lambda f: _edit(f, lambda h: h.update(labels=0, shards=[])),
        "training has not finished",
    ),
    "a shard twice": (
        lambda f: _edit(f, lambda h: h["shards"].append(h["shards"][0])),
        "names a file twice",
    ),
    "shards too many": (
        lambda f: _edit(f, lambda h: h.update(labels=32)),
        "training has not finished",
    ),
    "elsewhere": (
        lambda f: _edit(f, lambda h: h["shards"][0].update(file="../x")),
        "describes a shard as",
    ),
    "more features": (lambda f: _edit(f, lambda h: h.update(features=99)), "does not hold 32 × 99"),
}


def _flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(data)


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_named(what: str, tmp_path: Path) -> None:
    save(tmp_path, train(X, Y)[0], shard_labels=32)
    damage, message = DAMAGE[what]
    damage(tmp_path)
    with pytest.raises(ValueError, match=message):
        load(tmp_path)


@pytest.mark.parametrize("header", [b"\xff" * 8, (10).to_bytes(8, "little") + b'{"bias":1}'])
def test_a_shard_that_is_no_safetensors_file(header: bytes, tmp_path: Path) -> None:
    save(tmp_path, train(X, Y)[0])
    shard = next(tmp_path.glob("shard-*"))
    shard.write_bytes(header + shard.read_bytes()[len(header) :])
    with pytest.raises(ValueError, match="is no safetensors file"):
        load(tmp_path, verify=False)


class Interrupted(Exception):
    pass


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_resumed_training_gives_the_same_model(loss: str, tmp_path: Path) -> None:
    recipe = Recipe(loss, prune_below=0.01)
    whole = train_to(tmp_path / "whole", X, Y, recipe, shard_labels=16)

    def stop(done: int, total: int) -> None:
        assert total == 70
        if done > 32:
            raise Interrupted

    with pytest.raises(Interrupted):
        train_to(tmp_path / "m", X, Y, recipe, shard_labels=16, progress=stop)
    assert len(json.loads((tmp_path / "m" / "unfinished.json").read_text())["shards"]) == 3
    seen: list[int] = []
    resumed = train_to(
        tmp_path / "m", X, Y, recipe, shard_labels=16, progress=lambda done, _: seen.append(done)
    )
    assert seen[0] == 48
    assert seen[-1] == 70
    assert (resumed.weights != whole.weights).nnz == 0
    assert np.array_equal(resumed.bias, whole.bias)
    made, expected = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
        for name in ("m", "whole")
    )
    assert made == expected


def test_other_data_are_not_resumed(tmp_path: Path) -> None:
    train_to(tmp_path, X, Y)
    with pytest.raises(ValueError, match="other data or another recipe"):
        train_to(tmp_path, X, Y, Recipe(C=2.0))
    with pytest.raises(ValueError, match="other data or another recipe"):
        train_to(tmp_path, 2 * X, Y)
    with pytest.raises(ValueError, match="other data or another recipe"):
        train_to(tmp_path, X, Y, shard_labels=16)  # the blocks of the softmax depend on it
    assert train_to(tmp_path, X, Y, Recipe(C=2.0), resume=False).parameters["C"] == 2.0


LEFT_OVER = (".shard-00000000.safetensors.7-7.part", ".shared-7", ".seen-7")


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    def litter() -> None:
        for name in (*LEFT_OVER, "notes.txt", ".hidden"):
            (tmp_path / name).touch()

    def remaining() -> set[str]:
        return {path.name for path in tmp_path.iterdir() if path.stat().st_size == 0}

    litter()
    train_to(tmp_path, X, Y, shard_labels=16)
    assert remaining() == {"notes.txt", ".hidden"}
    litter()
    _edit(tmp_path, lambda head: head["shards"].pop())
    seen: list[set[str]] = []
    train_to(tmp_path, X, Y, shard_labels=16, progress=lambda *_: seen.append(remaining()))
    assert seen == [{"notes.txt", ".hidden"}] * 2  # before the first shard is trained, too


def test_a_shard_that_the_disk_shows_late_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from unmask.models import store as folders

    intact, asked = folders.intact, list[float]()

    def late(*shard: Any) -> bool:
        asked.append(time.monotonic())
        return asked[-1] > asked[0] + 1.0 and intact(*shard)

    monkeypatch.setattr(folders, "intact", late)
    train_to(tmp_path, X, Y)
    assert len(asked) > 1
    assert load(tmp_path).n_labels == 70


KILLED = """
import sys, numpy as np, scipy.sparse as sp, time
from unmask.linear import train_to
rng = np.random.default_rng(0)
x = sp.csr_array((rng.random((200, 30)) * (rng.random((200, 30)) < 0.3)).astype(np.float32))
y = sp.csr_array((rng.random((200, 96)) < 0.1).astype(int))
slow = float(sys.argv[2])
train_to(sys.argv[1], x, y, shard_labels=8, progress=lambda done, total: time.sleep(slow))
"""


def test_a_killed_training_goes_on_where_it_was(tmp_path: Path) -> None:
    """kill −9 at any moment leaves whole shards and a manifest that knows them."""
    folder = tmp_path / "m"
    command = [sys.executable, "-c", KILLED]
    process = subprocess.Popen([*command, folder, "0.3"])
    while len(list(folder.glob("shard-*"))) < 3 and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    listed = [s["file"] for s in json.loads((folder / "unfinished.json").read_text())["shards"]]
    finished = [(folder / name).stat().st_mtime_ns for name in listed]
    assert len(finished) >= 2
    with pytest.raises(ValueError, match="training has not finished"):
        load(folder)
    subprocess.run([*command, folder, "0"], check=True)
    subprocess.run([*command, tmp_path / "whole", "0"], check=True)
    assert [(folder / name).stat().st_mtime_ns for name in listed] == finished
    assert np.array_equal(load(folder).weights, load(tmp_path / "whole").weights)


def test_sparse_models_of_one_shard_keep_their_type(tmp_path: Path) -> None:
    shard = Shard(sp.csr_array((3, 4), dtype=np.float32), np.zeros(3, np.float32))
    save(tmp_path, LinearModel((shard,), "logistic"))
    assert load(tmp_path).weights.shape == (3, 4)


def test_folders_above_a_model_are_made(tmp_path: Path) -> None:
    model = LinearModel((Shard(np.float32([[1, 2]]), np.float32([0.5])),), "logistic")
    folder = tmp_path / "models" / "first"
    for _ in range(2):
        save(folder, model)
        assert load(folder).n_labels == 1
