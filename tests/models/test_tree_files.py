"""Trees on disk: what was saved comes back, what was damaged is refused."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.killing import killed
from tests.helpers.memory import little_memory
from tests.helpers.model_folders import manifest
from unmask import linear, tree
from unmask.data import synthetic
from unmask.models import store as folders
from unmask.models import tree_model as files
from unmask.tree import TreeRecipe

pytestmark = pytest.mark.usefixtures("patience")

DATA = synthetic.planted(150, n_features=30, n_labels=30, seed=2)
MODEL = tree.train(DATA.features, DATA.labels, TreeRecipe(n_trees=2, arity=4, leaf=4))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tree.save(tmp_path / "model", MODEL)
    return tmp_path / "model"


def test_saved_models_come_back(folder: Path) -> None:
    loaded = tree.load(folder)
    top, again = (tree.predict_top(m, DATA.features, 4) for m in (MODEL, loaded))
    np.testing.assert_array_equal(top.labels, again.labels)
    np.testing.assert_array_equal(top.scores, again.scores)
    assert isinstance(loaded.trees[0].parts[0][0].values.base, np.memmap)
    tree.save(folder, loaded)  # onto itself
    assert tree.load(folder).loss == "squared_hinge"


def test_damaged_files_are_refused(folder: Path) -> None:
    part = next(folder.glob("part-0001-*"))
    whole = part.read_bytes()
    part.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(ValueError, match="checksum"):
        tree.load(folder)
    part.write_bytes(whole[:-1])
    with pytest.raises(ValueError, match="incomplete"):
        tree.load(folder)
    part.unlink()
    with pytest.raises(ValueError, match="is missing"):
        tree.load(folder)


def rewritten(folder: Path, change) -> None:  # type: ignore[no-untyped-def]
    head = json.loads((folder / "manifest.json").read_text())
    change(head)
    (folder / "manifest.json").write_text(json.dumps(head))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h: h.update(format="other"), "is not the manifest"),
        (lambda h: h.update(version=9), "version 9"),
        (lambda h: h.update(labels=-1), "no proper 'labels'"),
        (lambda h: h.update(labels=31), "order is none of 31 labels"),
        (lambda h: h.update(features=3), "a feature lies outside 0 … 2"),
        (lambda h: h.update(loss="softmax"), "unknown loss"),
        (lambda h: h["shapes"][0].update(bits=[9]), "leaf nodes are no ranges"),
        (lambda h: h["shapes"][0].update(bits=["a"]), "its levels"),
        (lambda h: h["parts"].pop(), "training has not finished"),
        (lambda h: h["parts"][0].update(file="../x"), "describes a part"),
        (lambda h: h["parts"][0].update(part="x"), "describes a part"),
        (lambda h: h["shapes"][0].pop("bits"), "describes a shape"),
    ],
)
def test_wrong_manifests_are_refused(folder: Path, change, message: str) -> None:  # type: ignore[no-untyped-def]
    rewritten(folder, change)
    with pytest.raises(ValueError, match=message):
        tree.load(folder)


def replaced(folder: Path, name: str, change) -> None:  # type: ignore[no-untyped-def]
    """Change an array of the first part, with a manifest that agrees."""
    head = json.loads((folder / "manifest.json").read_text())
    entry = head["parts"][0]
    arrays = {
        f"{level}.{field}": np.array(getattr(nodes, field))
        for level, nodes in enumerate(MODEL.trees[0].parts[0])
        for field in nodes._fields
    }
    arrays[name] = change(arrays[name])
    new = folders.write_tensors(folder, "part-0000-000000-{}.safetensors", arrays)
    entry.update(new)
    (folder / "manifest.json").write_text(json.dumps(head))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("0.children", lambda a: a + np.uint16(60000), "belongs to no child"),
        ("0.children", lambda a: a[:-1], "belongs to no child"),
        ("0.features", lambda a: a - np.int32(50), "a feature lies outside"),
        ("0.entry_starts", lambda a: a[::-1].copy(), "starts do not fit"),
        ("0.feature_starts", lambda a: a + 1, "starts do not fit"),
        ("0.child_starts", lambda a: np.r_[a[:-1], a[-1] + 1], "starts do not fit"),
        ("0.values", lambda a: a * np.float32(np.nan), "weights"),
        ("0.bias", lambda a: a.astype(np.int32), "bias are int32"),
    ],
)
def test_arrays_that_kernels_could_not_trust_are_refused(
    folder: Path,
    name: str,
    change,
    message: str,  # type: ignore[no-untyped-def]
) -> None:
    replaced(folder, name, change)
    with pytest.raises(ValueError, match=message):
        tree.load(folder)


def test_trees_and_linear_models_take_each_others_place(folder: Path) -> None:
    assert files.FORMAT.is_in(folder)
    flat, _ = linear.train(DATA.features, DATA.labels)
    with pytest.raises(ValueError, match="is not the manifest"):
        linear.load(folder)
    linear.save(folder, flat)
    assert not files.FORMAT.is_in(folder)
    assert not list(folder.glob("part-*"))
    with pytest.raises(ValueError, match="is not the manifest"):
        tree.load(folder)
    tree.save(folder, MODEL)
    assert files.FORMAT.is_in(folder)
    assert not list(folder.glob("shard-*"))
    assert not files.FORMAT.is_in(folder / "nothing")


def test_killed_saves_leave_the_old_trees_or_the_new_ones(tmp_path: Path) -> None:
    recipe = tree.TreeRecipe(n_trees=2, arity=2, leaf=2)
    old, new = (tree.train(np.eye(6), np.eye(6, dtype=int)[order], recipe)
                for order in (range(6), range(5, -1, -1)))  # fmt: skip
    best = [tree.predict_top(model, np.eye(6), 1).labels[:, 0].tolist() for model in (old, new)]
    outcomes = []
    for step in range(1, 100):
        folder = tmp_path / f"m-{step}"
        tree.save(folder, old)
        if not killed(step, lambda folder=folder: tree.save(folder, new)):
            break
        labels = tree.predict_top(tree.load(folder), np.eye(6), 1).labels[:, 0].tolist()
        outcomes.append(best.index(labels))
    assert outcomes == sorted(outcomes)
    assert set(outcomes) == {0, 1}


TREE_PARTS = {
    "manifest": lambda folder: "manifest.json",
    "shape": lambda folder: manifest(folder)["shapes"][0]["file"],
    "part": lambda folder: manifest(folder)["parts"][-1]["file"],
}


@pytest.mark.parametrize("part", TREE_PARTS)
def test_links_and_pipes_in_a_folder_of_trees_are_refused(tmp_path: Path, part: str) -> None:
    folder = tmp_path / "tree"
    tree.save(folder, tree.train(np.eye(6), np.eye(6, dtype=int), tree.TreeRecipe(n_trees=1)))
    path = folder / TREE_PARTS[part](folder)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="is a link; files of a model are not links"):
        tree.load(folder)
    path.unlink()
    os.mkfifo(path)
    signal.alarm(100)
    with pytest.raises(ValueError, match="is a pipe"):
        tree.load(folder)
    path.unlink()
    path.symlink_to("/dev/zero")
    with little_memory(), pytest.raises(ValueError, match="is a link"):
        tree.load(folder)


@pytest.mark.parametrize("count", ["labels", "features"])
def test_a_manifest_cannot_announce_endless_columns(count: str, tmp_path: Path) -> None:
    tree.save(tmp_path, MODEL)
    manifest = tmp_path / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), count: 10**10}))
    with pytest.raises(ValueError, match=f"10,000,000,000 {count}, more than 100,000,000"):
        tree.load(tmp_path)
