"""Training into a folder: the same bytes however it was interrupted, whoever did the work."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from unmask import _kernels, tree
from unmask.data import Dataset, synthetic
from unmask.linear import UnconvergedWarning
from unmask.models import tree as training
from unmask.models.tree_model import Shape
from unmask.tree import TreeModel, TreeRecipe

DATA = synthetic.planted(220, n_features=40, n_labels=45, labels_per_row=3, seed=4)
X, Y = DATA.features, DATA.labels
RECIPE = TreeRecipe(n_trees=2, arity=4, leaf=3)
NAMES = [f"label {j}" for j in range(45)]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def same(one: TreeModel, other: TreeModel) -> bool:
    pairs = [
        (a, b)
        for t, u in zip(one.trees, other.trees, strict=True)
        for part, own in zip(t.parts, u.parts, strict=True)
        for level, mine in zip(part, own, strict=True)
        for a, b in zip(level, mine, strict=True)
    ]
    shapes = zip(one.trees, other.trees, strict=True)
    return all(np.array_equal(t.shape.order, u.shape.order) for t, u in shapes) and all(
        np.array_equal(a, b) for a, b in pairs
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tree") / "model"
    tree.train_to(path, X, Y, RECIPE, label_names=NAMES)
    return path


def test_memory_disk_and_threads_give_the_same_model(folder: Path, tmp_path: Path) -> None:
    model = tree.load(folder)
    assert model.label_names == tuple(NAMES)
    assert model.parameters["arity"] == 4
    for threads in (1, 3):
        with _kernels.using_threads(threads):
            assert same(tree.train(X, Y, RECIPE), model)
            tree.train_to(tmp_path / str(threads), X, Y, RECIPE, label_names=NAMES)
        assert contents(tmp_path / str(threads)) == contents(folder)


KILLED = """
import os, signal, sys
sys.path[:0] = {path!r}
from unmask import tree
from unmask.data import synthetic
data = synthetic.planted(220, n_features=40, n_labels=45, labels_per_row=3, seed=4)
recipe = tree.TreeRecipe(n_trees=2, arity=4, leaf=3)
names = [f"label {{j}}" for j in range(45)]
calls = []
def progress(done, total):
    calls.append(done)
    if len(calls) == 5:
        os.kill(os.getpid(), signal.SIGKILL)
tree.train_to(
    {folder!r}, data.features, data.labels, recipe, label_names=names, progress=progress
)
"""


def test_killed_training_goes_on_to_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "model"
    code = KILLED.format(path=sys.path, folder=str(target))
    ended = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    kept = json.loads((target / "unfinished.json").read_text())["parts"]
    assert 0 < len(kept) < len(json.loads((folder / "manifest.json").read_text())["parts"])
    with pytest.raises(ValueError, match="training has not finished"):
        tree.load(target)
    trained = []
    tree.train_to(
        target, X, Y, RECIPE, label_names=NAMES, progress=lambda done, total: trained.append(done)
    )
    assert contents(target) == contents(folder)
    assert trained[-1] == 90


def test_progress_counts_the_labels_of_all_trees(tmp_path: Path) -> None:
    """Parts of a tree have so many of its labels each; in memory and on disk alike."""
    in_memory, on_disk = [], []
    tree.train(X, Y, RECIPE, progress=lambda *step: in_memory.append(step))
    tree.train_to(tmp_path, X, Y, RECIPE, progress=lambda *step: on_disk.append(step))
    for steps in (in_memory, on_disk):
        done, totals = zip(*steps, strict=True)
        assert set(totals) == {90}
        assert list(done) == sorted(set(done))
        assert (len(done) > 2, done[-1]) == (True, 90)


def test_a_finished_model_is_not_trained_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(folder)
    monkeypatch.setattr(training, "train_part", None)
    tree.train_to(folder, X, Y, RECIPE, label_names=NAMES)
    assert contents(folder) == before


def test_without_anything_to_train_nobody_is_asked_for_help(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All parts are there, but the manifest is not finished: the scheduler may be gone by now."""
    asked, connect = [], training.parallel.connect
    monkeypatch.setattr(
        training.parallel, "connect", lambda backend: asked.append(backend) or connect(None)
    )
    model = Path(shutil.copytree(folder, tmp_path / "model"))
    for lost in (0, 1):
        (model / "manifest.json").rename(model / "unfinished.json")
        for part in json.loads((model / "unfinished.json").read_text())["parts"][:lost]:
            (model / part["file"]).unlink()
        tree.train_to(model, X, Y, RECIPE, label_names=NAMES, backend="tcp://nowhere:1")
        assert contents(model) == contents(folder)
    assert asked == [None, "tcp://nowhere:1"]


def test_other_data_are_refused_unless_training_starts_again(folder: Path, tmp_path: Path) -> None:
    tree.train_to(tmp_path, X, Y, RECIPE)
    for other in ({"labels": Y[:, :44]}, {"recipe": TreeRecipe(n_trees=2, arity=4, leaf=3, C=2.0)}):
        arguments = {"features": X, "labels": Y, "recipe": RECIPE} | other
        with pytest.raises(ValueError, match="holds a model of other data or another recipe"):
            tree.train_to(tmp_path, **arguments)
    tree.train_to(tmp_path, X, Y, RECIPE, label_names=NAMES, resume=False)
    assert contents(tmp_path) == contents(folder)


def test_added_labels_join_the_leaf_node_that_is_most_like_them() -> None:
    """Label 3 is like labels 1 and 2, label 4 like none, label 5 a little like label 0."""
    shape = Shape(np.array([0, 1, 2], np.int32), np.array([0, 1, 3]), (1,))
    vectors = sp.csr_array(
        np.array([[1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0.6, 0.8], [0, 0, 1], [0.1, 0, 0.9]])
    )
    grown = training._extended(shape, vectors)
    assert grown.bounds.tolist() == [0, 3, 6]
    assert grown.order.tolist() == [0, 4, 5, 1, 2, 3]
    assert grown.bits == (1,)


def test_added_labels_retrain_only_their_subtrees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree.train_to(tmp_path / "old", X, Y[:, :44], RECIPE)
    trained = []
    original = training.train_part

    def counted(common, task):  # type: ignore[no-untyped-def]
        trained.append(task)
        return original(common, task)

    monkeypatch.setattr(training, "train_part", counted)
    model = tree.train_to(tmp_path / "new", X, Y, RECIPE, first=tmp_path / "old")
    per_tree = [sum(task.tree == number for task in trained) for number in (0, 1)]
    assert per_tree == [2, 2]  # the nodes above, and the subtree that the label joined
    old = tree.load(tmp_path / "old")
    for before, after in zip(old.trees, model.trees, strict=True):
        assert sorted(after.shape.order.tolist()) == list(range(45))
        without = after.shape.order[after.shape.order != 44]
        np.testing.assert_array_equal(without, before.shape.order)
        assert np.diff(after.shape.bounds).sum() == 45
    rows = np.flatnonzero(Y[:, [44]].toarray().ravel())
    top = tree.predict_top(model, X[rows], 5, beam=None)
    assert (top.labels == 44).any(axis=1).mean() > 0.5
    whole = tree.train_to(tmp_path / "again", X, Y, RECIPE, first=tmp_path / "old")
    assert same(whole, model)
    with pytest.raises(ValueError, match="features cannot"):
        tree.train_to(tmp_path / "bad", X, Y[:, :40], RECIPE, first=tmp_path / "old")
    with pytest.raises(ValueError, match="holds 2 trees"):
        tree.train_to(tmp_path / "bad", X, Y, TreeRecipe(n_trees=1), first=tmp_path / "old")


@pytest.mark.slow
def test_two_workers_write_the_model_of_one(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    tree.train_to(tmp_path / "model", X, Y, RECIPE, label_names=NAMES, backend="local:2")
    assert contents(tmp_path / "model") == contents(folder)


def test_unfinished_children_are_counted_over_all_levels() -> None:
    """One iteration is enough for nobody: all children of all nodes, and all labels of leaves."""
    recipe = TreeRecipe(n_trees=1, arity=4, leaf=3, max_iter=1, tol=1e-12)
    with pytest.warns(UnconvergedWarning, match="children of nodes did not converge in 1 ") as said:
        model = tree.train(X, Y, recipe)
    shape = model.trees[0].shape
    nodes = [1 << sum(shape.bits[:level]) for level in range(1, shape.levels)]
    assert str(said[0].message).startswith(f"{sum(nodes) + model.n_labels} ")


def test_labels_and_rows_without_anything() -> None:
    y = Y.toarray()
    y[:, 7] = 0
    y[3] = 0
    model = tree.train(X, y, RECIPE)
    assert model.n_labels == 45
    empty = tree.train(X, 0 * y, RECIPE)
    assert tree.predict_top(empty, X[:2], 3).labels.shape == (2, 3)


def test_judged_pairs_are_refused() -> None:
    """What is known to be false has no place in a tree; a data set without judgements is fine."""
    judged = sp.csr_array(([-1.0], ([0], [44])), shape=Y.shape)
    with pytest.raises(ValueError, match="a label tree cannot obey judged pairs"):
        tree.train(X, Dataset(X, Y, judgements=judged), RECIPE)
    assert same(tree.train(X, Dataset(X, Y), RECIPE), tree.train(X, Y, RECIPE))
