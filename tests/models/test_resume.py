"""Training into folders: the same bytes however it was interrupted, whoever did the work."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from tests.helpers.command import run
from tests.helpers.killing import killed
from tests.helpers.model_folders import edit, files_of, manifest
from tests.helpers.trained import PLAIN, SMALL, TFIDF, predicted, train
from unmask import _kernels, data, linear, models, parallel, predictions, tree
from unmask.data import synthetic
from unmask.linear import Recipe
from unmask.models import linear as linear_models
from unmask.models import store
from unmask.models import tree as tree_models
from unmask.models.tree_model import Shape
from unmask.tree import TreeRecipe

pytestmark = pytest.mark.usefixtures("patience")

ROWS = synthetic.planted(220, n_features=40, n_labels=45, labels_per_row=3, seed=4)
X, Y = ROWS.features, ROWS.labels
NAMES = [f"label {j}" for j in range(45)]
TREES = TreeRecipe(n_trees=2, arity=4, leaf=3)
CASES: dict[str, tuple[str, dict[str, Any], int]] = {
    "hinge": ("linear", {"recipe": Recipe(prune_below=0.01), "shard_labels": 8}, 45),
    "logistic": ("linear", {"recipe": Recipe("logistic"), "shard_labels": 8}, 45),
    "tree": ("tree", {"recipe": TREES}, 90),
}
"""The kind of a training, its options, and the labels that it counts."""
ONE = ("hinge", "tree")


def train_to(case: str, folder: Path, **changes: Any) -> Any:
    kind, options, _ = CASES[case]
    data = {"features": X, "labels": Y, "label_names": NAMES}
    return models.KINDS[kind].train_to(folder, **{**data, **options, **changes})


def pieces(case: str) -> str:
    return "parts" if case == "tree" else "shards"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    made: dict[str, Path] = {}

    def folder(case: str) -> Path:
        if case not in made:
            made[case] = tmp_path_factory.mktemp(case) / "model"
            train_to(case, made[case])
        return made[case]

    return folder


class Interrupted(Exception):
    pass


@pytest.mark.parametrize("case", CASES)
def test_resumed_training_gives_the_same_bytes(
    case: str, whole: Callable[[str], Path], tmp_path: Path
) -> None:
    total = CASES[case][2]

    def stop(done: int, of: int) -> None:
        assert of == total
        if done > total / 2:
            raise Interrupted

    with pytest.raises(Interrupted):
        train_to(case, tmp_path, progress=stop)
    kept = json.loads((tmp_path / "unfinished.json").read_text())[pieces(case)]
    assert 0 < len(kept) < len(manifest(whole(case))[pieces(case)])
    with pytest.raises(ValueError, match="training has not finished"):
        models.load(tmp_path)
    steps: list[tuple[int, int]] = []
    train_to(case, tmp_path, progress=lambda *step: steps.append(step))
    done, totals = zip(*steps, strict=True)
    assert (done[0] > total / 2, done[-1], set(totals)) == (True, total, {total})
    assert list(done) == sorted(set(done))
    assert files_of(tmp_path) == files_of(whole(case))


@pytest.mark.parametrize("case", ONE)
def test_memory_disk_and_threads_give_the_same_model(
    case: str, whole: Callable[[str], Path], tmp_path: Path
) -> None:
    kind, options, total = CASES[case]
    model = models.load(whole(case))
    assert model.label_names == tuple(NAMES)
    for threads in (1, 3):
        with _kernels.using_threads(threads):
            steps: list[int] = []
            trainer: Any = linear.train if kind == "linear" else tree.train
            note = lambda done, _, steps=steps: steps.append(done)  # noqa: E731
            made = trainer(X, Y, options["recipe"], progress=note)
            train_to(case, tmp_path / str(threads))
        assert steps == sorted(set(steps))
        assert steps[-1] == total
        if kind == "tree":
            flat, stored = (
                [a for t in m.trees for part in t.parts for n in part for a in n]
                for m in (made, model)
            )
            assert all(map(np.array_equal, flat, stored))
        else:
            assert (made[0].weights != model.weights).nnz == 0
        assert files_of(tmp_path / str(threads)) == files_of(whole(case))


KILLED = """
import os, signal, sys
sys.path[:0] = {path!r}
from pathlib import Path
from tests.models import test_resume
calls = []
def progress(done, total):
    calls.append(done)
    if len(calls) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
test_resume.train_to({case!r}, Path({folder!r}), progress=progress)
"""


@pytest.mark.parametrize("case", ONE)
def test_a_killed_training_goes_on_where_it_was(
    case: str, whole: Callable[[str], Path], tmp_path: Path
) -> None:
    """kill −9 leaves whole pieces and a manifest that knows them; these are not made again."""
    code = KILLED.format(path=sys.path, case=case, folder=str(tmp_path))
    ended = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    kept = json.loads((tmp_path / "unfinished.json").read_text())[pieces(case)]
    times = {each["file"]: (tmp_path / each["file"]).stat().st_mtime_ns for each in kept}
    assert len(times) >= 2
    train_to(case, tmp_path)
    assert files_of(tmp_path) == files_of(whole(case))
    for name, before in times.items():
        assert (tmp_path / name).stat().st_mtime_ns == before


@pytest.mark.parametrize("case", ONE)
def test_a_finished_model_is_not_trained_again_and_damage_is(
    case: str, whole: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(whole(case), tmp_path / "m"))
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    with monkeypatch.context() as patch:
        patch.setattr(linear_models, "solve_block", None)
        patch.setattr(tree_models, "train_part", None)
        train_to(case, folder)
    assert before == {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    for lost in manifest(folder)[pieces(case)][:2]:
        (folder / lost["file"]).write_bytes(b"other")
    train_to(case, folder)
    assert files_of(folder) == files_of(whole(case))


@pytest.mark.parametrize("case", ONE)
def test_without_anything_to_train_nobody_is_asked_for_help(
    case: str, whole: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All pieces are there, but the manifest is not finished: the scheduler may be gone by now."""
    asked, connect = list[Any](), parallel.connect
    monkeypatch.setattr(parallel, "connect", lambda backend: asked.append(backend) or connect(None))
    monkeypatch.setattr(linear_models, "refuse_small", lambda *_: None)
    model = Path(shutil.copytree(whole(case), tmp_path / "model"))
    for lost in (0, 1):
        (model / "manifest.json").rename(model / "unfinished.json")
        head = json.loads((model / "unfinished.json").read_text())
        for piece in head[pieces(case)][:lost]:
            (model / piece["file"]).unlink()
        train_to(case, model, backend="tcp://nowhere:1")
        assert files_of(model) == files_of(whole(case))
    assert asked == [None, "tcp://nowhere:1"]


@pytest.mark.parametrize("case", ONE)
def test_other_data_are_refused_unless_training_starts_again(
    case: str, whole: Callable[[str], Path], tmp_path: Path
) -> None:
    recipe = CASES[case][1]["recipe"]
    train_to(case, tmp_path, idf=np.ones(40))
    others: list[dict[str, Any]] = [
        {"features": 2 * X}, {"labels": Y[:, :44], "label_names": None}, {"label_names": None},
        {"recipe": type(recipe)(C=2.0)}, {"idf": None}, {"idf": 2 * np.ones(40)},
    ]  # fmt: skip
    if case == "hinge":
        others.append({"shard_labels": 16})  # the blocks of a softmax depend on it
    for other in others:
        with pytest.raises(ValueError, match="holds a model of other data or another recipe"):
            train_to(case, tmp_path, **{"idf": np.ones(40), **other})
    assert train_to(case, tmp_path, idf=np.ones(40)).idf.tolist() == [1] * 40
    train_to(case, tmp_path, resume=False)
    assert files_of(tmp_path) == files_of(whole(case))


LEFT_OVER = (".shard-00000000.safetensors.7-7.part", ".shared-7", ".seen-7")


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    def litter() -> None:
        for name in (*LEFT_OVER, "notes.txt", ".hidden"):
            (tmp_path / name).touch()

    def remaining() -> set[str]:
        return {path.name for path in tmp_path.iterdir() if path.stat().st_size == 0}

    litter()
    linear.train_to(tmp_path, X, Y, shard_labels=24)
    assert remaining() == {"notes.txt", ".hidden"}
    litter()
    edit(tmp_path, lambda head: head["shards"].pop())
    seen: list[set[str]] = []
    linear.train_to(tmp_path, X, Y, shard_labels=24, progress=lambda *_: seen.append(remaining()))
    assert seen == [{"notes.txt", ".hidden"}] * 2  # before the first shard is trained, too


def test_a_shard_that_the_disk_shows_late_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    intact, asked = store.intact, list[float]()

    def late(*shard: Any) -> bool:
        asked.append(time.monotonic())
        return asked[-1] > asked[0] + 1.0 and intact(*shard)

    monkeypatch.setattr(store, "intact", late)
    linear.train_to(tmp_path, X, Y)
    assert len(asked) > 1
    assert linear.load(tmp_path).n_labels == 45


def test_errors_of_the_disk_say_how_much_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for case in ONE:
        usual, written = store.write_tensors, list[str]()

        def full(
            folder: Path,
            pattern: str,
            arrays: Any,
            usual: Any = usual,
            written: list[str] = written,
            case: str = case,
        ) -> Any:
            written.append(pattern)
            if len([each for each in written if "shape" not in each]) > 4:
                raise OSError(28, "No space left on device", pattern)
            return usual(folder, pattern, arrays)

        monkeypatch.setattr(store, "write_tensors", full)
        with _kernels.using_threads(1), pytest.raises(OSError, match="labels are kept") as caught:
            train_to(case, tmp_path / case)
        kept = 32 if case == "hinge" else 0
        assert f"of {CASES[case][2]} labels are kept in {tmp_path / case}" in str(caught.value)
        assert case == "tree" or f"; {kept} of" in str(caught.value)
        monkeypatch.setattr(store, "write_tensors", usual)
        train_to(case, tmp_path / case)


# By the command


def test_a_killed_training_never_leaves_a_model_that_predicts_otherwise(
    source: Path, tmp_path: Path
) -> None:
    train(source, tmp_path / "whole" / "m", *TFIDF)
    right = predicted(source, tmp_path / "whole" / "m")
    train(source, tmp_path / "plain" / "m", *PLAIN)
    assert right != predicted(source, tmp_path / "plain" / "m")
    outcomes = []
    for step in range(1, 100):
        folder = tmp_path / f"killed-{step}" / "m"
        if not killed(step, lambda folder=folder: train(source, folder, *TFIDF)):
            break
        outcomes.append(predicted(source, folder))
        assert outcomes[-1] in (None, right), f"killed before step {step}"
        train(source, folder, *TFIDF)
        assert files_of(folder) == files_of(tmp_path / "whole" / "m")
    assert outcomes[0] is None
    assert len(outcomes) >= 6


@pytest.mark.parametrize(
    "kinds",
    [
        (TFIDF, (*TFIDF, "--C", 9)),
        *(
            pytest.param(kinds, marks=pytest.mark.slow)
            for kinds in ((PLAIN, TFIDF), (TFIDF, PLAIN))
        ),
    ],
)
def test_starting_anew_keeps_the_old_model_until_the_new_one_is_whole(
    source: Path, tmp_path: Path, kinds: tuple[Any, Any]
) -> None:
    for name, options in zip(("old", "new"), kinds, strict=True):
        train(source, tmp_path / name / "m", *options)
    old, new = (predicted(source, tmp_path / name / "m") for name in ("old", "new"))
    assert old != new
    outcomes = []
    for step in range(1, 100):
        folder = tmp_path / f"killed-{step}" / "m"
        shutil.copytree(tmp_path / "old" / "m", folder)
        if not killed(step, lambda folder=folder: train(source, folder, *kinds[1], "--no-resume")):
            break
        outcomes.append(predicted(source, folder))
        assert outcomes[-1] in (old, new), f"killed before step {step}"
        resumed = run("train", source, "-o", folder, *kinds[1])
        if resumed.returncode == 2:  # it had not even begun
            assert not (folder / "unfinished.json").exists()
            train(source, folder, *kinds[1], "--no-resume")
        assert predicted(source, folder) == new
        assert files_of(folder) == files_of(tmp_path / "new" / "m")
    assert outcomes[0] == old
    assert outcomes[-1] == new
    assert predicted(source, folder) == new
    assert files_of(folder) == files_of(tmp_path / "new" / "m")


def test_an_interrupted_new_start_goes_on_without_the_option(tmp_path: Path) -> None:
    x, y, recipe = SMALL.features, SMALL.labels, Recipe(C=7.0)
    linear.train_to(tmp_path, x, y, shard_labels=8)
    before = linear.load(tmp_path).bias.copy()

    def stop(done: int, total: int) -> None:
        if done == 16:
            raise Interrupted

    with pytest.raises(Interrupted):
        linear.train_to(tmp_path, x, y, recipe, shard_labels=8, resume=False, progress=stop)
    assert np.array_equal(linear.load(tmp_path).bias, before)
    linear.train_to(tmp_path, x, y, shard_labels=8)  # the old model is there, and whole
    done: list[int] = []
    linear.train_to(
        tmp_path, x, y, recipe, shard_labels=8, progress=lambda count, _: done.append(count)
    )
    assert done[0] >= 16
    assert linear.load(tmp_path).parameters["C"] == 7.0
    expected = linear.train_to(tmp_path.parent / "other", x, y, recipe, shard_labels=8)
    assert np.array_equal(linear.load(tmp_path).weights, expected.weights)


def upgrade(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    for module in (store, linear_models, tree_models):
        monkeypatch.setattr(module, "__version__", version)


def test_training_does_not_go_on_over_an_upgrade(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed(3, lambda: train(source, tmp_path / "m", *PLAIN))
    with pytest.raises(ValueError, match="training has not finished"):
        linear.load(tmp_path / "m")
    upgrade(monkeypatch, "99.1")
    refused = run("train", source, "-o", tmp_path / "m", *PLAIN)
    assert refused.returncode == 2
    text = " ".join(refused.stderr.split())
    assert "was begun by unmask 0.1.0; this is 99.1" in text
    assert "--no-resume" in text
    train(source, tmp_path / "m", *PLAIN, "--no-resume")
    assert manifest(tmp_path / "m")["package"] == "99.1"
    train(source, tmp_path / "m", *PLAIN)


@pytest.mark.parametrize("case", ONE)
def test_the_fingerprint_knows_the_version(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marks = []
    for version in ("1.0", "1.1"):
        upgrade(monkeypatch, version)
        train_to(case, tmp_path / version)
        marks.append(manifest(tmp_path / version)["fingerprint"])
    assert marks[0] != marks[1]


def test_folders_of_the_first_format_are_to_be_trained_again(source: Path, tmp_path: Path) -> None:
    """There, word weights lay beside a model that did not know of them."""
    train(source, tmp_path / "m", *PLAIN)
    edit(tmp_path / "m", lambda head: [head.pop("idf"), head.update(version=1)])
    (tmp_path / "m" / "idf.txt").write_text("0.5\n" * 40)
    for arguments in (
        ("predict", tmp_path / "m", source, "-o", tmp_path / "p.txt"),
        ("train", source, "-o", tmp_path / "m", *PLAIN),
    ):
        refused = run(*arguments)
        assert refused.returncode == 2
        assert "version 1 of the model format" in refused.stderr
        assert "--no-resume" in refused.stderr
    train(source, tmp_path / "m", *PLAIN, "--no-resume")
    assert linear.load(tmp_path / "m").idf is None
    assert not (tmp_path / "m" / "idf.txt").exists()


def test_the_command_uses_the_word_weights_of_the_model(source: Path, tmp_path: Path) -> None:
    train(source, tmp_path / "m", *TFIDF)
    model = linear.load(tmp_path / "m")
    expected = data.idf(SMALL.features)
    assert np.array_equal(model.idf, expected)
    by_hand = linear.predict_top(model, data.tfidf(SMALL.features, expected), 5)
    before = predicted(source, tmp_path / "m")
    assert before is not None
    found = predictions.read(tmp_path / "predictions.txt")
    assert np.array_equal(found.labels, by_hand.labels)
    (tmp_path / "m" / "idf.txt").write_text("0.5\n" * 40)  # a stray file changes nothing
    assert predicted(source, tmp_path / "m") == before
    linear.save(tmp_path / "m", model)
    assert not (tmp_path / "m" / "idf.txt").exists()


def test_damaged_word_weights_are_written_again(tmp_path: Path) -> None:
    x, y = np.eye(3), np.eye(3, dtype=int)
    linear.train_to(tmp_path, x, y, idf=np.ones(3))
    (tmp_path / manifest(tmp_path)["idf"]["file"]).write_text("2.0\n2.0\n2.0\n")
    linear.train_to(tmp_path, x, y, idf=np.ones(3))
    assert linear.load(tmp_path).idf.tolist() == [1, 1, 1]


# Labels that are added to a tree


def test_added_labels_join_the_leaf_node_that_is_most_like_them() -> None:
    """Label 3 is like labels 1 and 2, label 4 like none, label 5 a little like label 0."""
    shape = Shape(np.array([0, 1, 2], np.int32), np.array([0, 1, 3]), (1,))
    vectors = sp.csr_array(
        np.array([[1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0.6, 0.8], [0, 0, 1], [0.1, 0, 0.9]])
    )
    grown = tree_models._extended(shape, vectors)
    assert grown.bounds.tolist() == [0, 3, 6]
    assert grown.order.tolist() == [0, 4, 5, 1, 2, 3]
    assert grown.bits == (1,)


def test_added_labels_retrain_only_their_subtrees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree.train_to(tmp_path / "old", X, Y[:, :44], TREES)
    trained = []
    original = tree_models.train_part

    def counted(common, task):  # type: ignore[no-untyped-def]
        trained.append(task)
        return original(common, task)

    monkeypatch.setattr(tree_models, "train_part", counted)
    model = tree.train_to(tmp_path / "new", X, Y, TREES, first=tmp_path / "old")
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
    whole = tree.train_to(tmp_path / "again", X, Y, TREES, first=tmp_path / "old")
    assert files_of(tmp_path / "again") == files_of(tmp_path / "new")
    assert whole.n_labels == 45
    with pytest.raises(ValueError, match="features cannot"):
        tree.train_to(tmp_path / "bad", X, Y[:, :40], TREES, first=tmp_path / "old")
    with pytest.raises(ValueError, match="holds 2 trees"):
        tree.train_to(tmp_path / "bad", X, Y, TreeRecipe(n_trees=1), first=tmp_path / "old")


@pytest.mark.slow
def test_two_workers_write_the_trees_of_one(whole: Callable[[str], Path], tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    train_to("tree", tmp_path / "model", backend="local:2")
    assert files_of(tmp_path / "model") == files_of(whole("tree"))


def test_unfinished_children_are_counted_over_all_levels() -> None:
    """One iteration is enough for nobody: all children of all nodes, and all labels of leaves."""
    recipe = TreeRecipe(n_trees=1, arity=4, leaf=3, max_iter=1, tol=1e-12)
    with pytest.warns(
        linear.UnconvergedWarning, match="children of nodes did not converge in 1 "
    ) as said:
        model = tree.train(X, Y, recipe)
    shape = model.trees[0].shape
    nodes = [1 << sum(shape.bits[:level]) for level in range(1, shape.levels)]
    assert str(said[0].message).startswith(f"{sum(nodes) + model.n_labels} ")


def test_labels_and_rows_without_anything() -> None:
    y = Y.toarray()
    y[:, 7] = 0
    y[3] = 0
    model = tree.train(X, y, TREES)
    assert model.n_labels == 45
    empty = tree.train(X, 0 * y, TREES)
    assert tree.predict_top(empty, X[:2], 3).labels.shape == (2, 3)


def test_judged_pairs_are_refused() -> None:
    """What is known to be false has no place in a tree; a data set without judgements is fine."""
    judged = sp.csr_array(([-1.0], ([0], [44])), shape=Y.shape)
    with pytest.raises(ValueError, match="a label tree cannot use judged pairs"):
        tree.train(X, data.Dataset(X, Y, judgements=judged), TREES)
    one, other = (tree.train(X, labels, TREES) for labels in (data.Dataset(X, Y), Y))
    assert np.array_equal(one.trees[1].parts[0][0].values, other.trees[1].parts[0][0].values)
