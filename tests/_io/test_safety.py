"""Files that are no files, models that are killed on their way, folders that somebody has touched.

Nothing here writes to a path below /dev: a mistake would replace a device of the machine. Pseudo
terminals, pipes and links to open descriptors of the process stand for them.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import resource
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import zstandard

from tests.helpers.command import run
from unmask import (
    _io,
    audit,
    data,
    linear,
    missing,
    parallel,
    predictions,
    propensity,
    thresholds,
    tree,
    weights,
)

XC = b"3 5 4\n0,3 0:0.5 4:1\n 1:-2e-3\n2\n"
SMALL = data.synthetic.planted(150, n_features=40, n_labels=24, seed=3)


@pytest.fixture(autouse=True)
def patience() -> Iterator[None]:
    """What hangs fails its test rather than all of them."""

    def too_long(number: int, frame: FrameType | None) -> None:
        raise TimeoutError("this takes too long")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(900)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def command(*arguments: object, **how: Any) -> subprocess.CompletedProcess[bytes]:
    """The command in a process of its own, with 8 GB of addresses and some patience."""
    how = {"stdout": subprocess.PIPE} | how
    return subprocess.run(
        [sys.executable, "-m", "unmask", *map(str, arguments)],
        stderr=subprocess.PIPE,
        timeout=600,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30)),
        **how,
    )


def said(result: subprocess.CompletedProcess[bytes]) -> str:
    """What a refused command says: one line, no traceback."""
    text = result.stderr.decode()
    assert result.returncode == 2, text
    assert "Traceback" not in text
    return " ".join(text.split())


# --- killed at every step ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "train.txt"
    data.write(path, SMALL)
    return path


PLAIN = ("--block", 12)
TFIDF = ("--block", 12, "--tfidf")


def train(source: Path, folder: Path, *options: object) -> None:
    result = run("train", source, "-o", folder, *options)
    assert result.returncode == 0, result.stderr


def predicted(source: Path, folder: Path) -> bytes | None:
    """What a model predicts; None if the command refuses the folder."""
    target = folder.parent / "predictions.txt"
    target.unlink(missing_ok=True)
    result = run("predict", folder, source, "-o", target)
    assert result.returncode in (0, 2), result.stderr
    return target.read_bytes() if result.returncode == 0 else None


def killed(step: int, work: Callable[[], object]) -> bool:
    """Run `work` in a forked process that dies just before its n-th rename or removal of a file."""
    child = os.fork()
    if child == 0:
        try:
            _die_before(step)
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 9)
    return code == 9


def _die_before(step: int) -> None:
    left = [step]

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            left[0] -= os.path.lexists(arguments[0])
            if left[0] <= 0:
                os._exit(9)
            return call(*arguments, **options)

        return wrapped

    os.replace, os.unlink = counted(os.replace), counted(os.unlink)


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


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


@pytest.mark.parametrize("kinds", [(PLAIN, TFIDF), (TFIDF, PLAIN), (TFIDF, (*TFIDF, "--C", 9))])
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


def test_an_interrupted_new_start_goes_on_without_the_option(source: Path, tmp_path: Path) -> None:
    x, y = SMALL.features, SMALL.labels
    linear.train_to(tmp_path, x, y, shard_labels=8)
    before = linear.load(tmp_path).bias.copy()
    recipe = linear.Recipe(C=7.0)

    class Stopped(Exception):
        pass

    def stop(done: int, total: int) -> None:
        if done == 16:
            raise Stopped

    with pytest.raises(Stopped):
        linear.train_to(
            tmp_path, x, y, recipe, shard_labels=8, resume=False, progress=stop, backend=None
        )
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


def test_a_killed_save_leaves_the_old_model_or_the_new_one(tmp_path: Path) -> None:
    old, new = (_model(scale, idf) for scale, idf in ((1, None), (2, np.ones(3))))
    outcomes = []
    for step in range(1, 100):
        folder = tmp_path / f"m-{step}"
        linear.save(folder, old, shard_labels=2)
        if not killed(step, lambda folder=folder: linear.save(folder, new, shard_labels=2)):
            break
        found = linear.load(folder)
        scale = int(found.weights[0, 1])
        assert np.array_equal(found.weights, scale * old.weights)
        assert (found.idf is None) == (scale == 1)
        outcomes.append(scale)
    assert outcomes == sorted(outcomes)
    assert set(outcomes) == {1, 2}


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


# --- word weights belong to the model ------------------------------------------------------------


def _model(scale: float = 1, idf: Any = None) -> linear.LinearModel:
    w = np.arange(12, dtype=np.float32).reshape(4, 3) * np.float32(scale)
    shard = linear.Shard(w, np.zeros(4, np.float32))
    return linear.LinearModel((shard,), "logistic", {}, idf)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model with word weights, in two shards."""
    linear.save(tmp_path / "m", _model(1, [0.1, 1 / 3, 2e-7]), shard_labels=2)
    return tmp_path / "m"


def manifest(folder: Path) -> Any:
    return json.loads((folder / "manifest.json").read_bytes())


def edit(folder: Path, change: Callable[[Any], object]) -> None:
    head = manifest(folder)
    change(head)
    (folder / "manifest.json").write_text(json.dumps(head))


def signed(folder: Path, contents: bytes) -> None:
    """Other word weights, and a manifest that agrees."""
    entry = manifest(folder)["idf"]
    (folder / entry["file"]).write_bytes(contents)
    entry |= {"bytes": len(contents), "sha256": hashlib.sha256(contents).hexdigest()}
    edit(folder, lambda head: head.update(idf=entry))


def test_word_weights_come_back_to_the_bit(folder: Path) -> None:
    idf = linear.load(folder).idf
    assert idf is not None
    assert idf.dtype == np.float64
    assert idf.tolist() == [0.1, 1 / 3, 2e-7]


def test_the_manifest_lists_the_word_weights(folder: Path) -> None:
    entry = manifest(folder)["idf"]
    contents = (folder / entry["file"]).read_bytes()
    assert entry["bytes"] == len(contents)
    assert entry["sha256"] == hashlib.sha256(contents).hexdigest()
    linear.save(folder, _model())
    assert manifest(folder)["idf"] is None


def test_the_command_uses_the_word_weights_of_the_model(source: Path, tmp_path: Path) -> None:
    train(source, tmp_path / "m", *TFIDF)
    model = linear.load(tmp_path / "m")
    expected = data.idf(SMALL.features)
    assert np.array_equal(model.idf, expected)
    by_hand = linear.predict_top(model, data.tfidf(SMALL.features, expected), 5)
    assert predicted(source, tmp_path / "m") is not None
    found = predictions.read(tmp_path / "predictions.txt")
    assert np.array_equal(found.labels, by_hand.labels)


DAMAGE = {
    "another byte": (lambda path: path.write_bytes(b"9" + path.read_bytes()[1:]), "checksum"),
    "longer": (lambda path: path.write_bytes(path.read_bytes() + b"1\n"), r"has \d+ bytes instead"),
    "gone": (lambda path: path.unlink(), "is missing"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_word_weights_are_verified(folder: Path, what: str) -> None:
    damage, message = DAMAGE[what]
    damage(folder / manifest(folder)["idf"]["file"])
    with pytest.raises(ValueError, match=message):
        linear.load(folder)


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"1.0\n2.0\n", "3 word weights.*2"),
        (b"1.0\nnan\n2.0\n", "finite"),
        (b"1.0\nx\n2.0\n", "line 2: expected a number"),
        (b"", "empty"),
    ],
)
def test_word_weights_that_agree_with_the_manifest_are_still_looked_at(
    folder: Path, contents: bytes, message: str
) -> None:
    signed(folder, contents)
    with pytest.raises(ValueError, match=message):
        linear.load(folder)


@pytest.mark.parametrize(
    "entry", [1, [], {"file": "idf.txt"}, {"file": "../x", "bytes": 1, "sha256": "0"}, "idf.txt"]
)
def test_a_damaged_entry_of_word_weights_is_refused(folder: Path, entry: Any) -> None:
    edit(folder, lambda head: head.update(idf=entry))
    with pytest.raises(ValueError, match=r"manifest\.json describes the word weights as"):
        linear.load(folder)


@pytest.mark.parametrize("idf", [[1.0, 2.0], [1.0, np.nan, 1.0], [[1.0, 2.0, 3.0]]])
def test_word_weights_that_do_not_fit_are_not_saved(tmp_path: Path, idf: Any) -> None:
    with pytest.raises(ValueError, match="word weights"):
        linear.save(tmp_path / "m", _model(1, idf))
    with pytest.raises(ValueError, match="word weights"):
        linear.train_to(tmp_path / "n", np.eye(3), np.eye(3, dtype=int), idf=idf)
    assert not (tmp_path / "m").exists()
    assert not (tmp_path / "n").exists()


def test_a_stray_file_of_word_weights_changes_nothing(source: Path, tmp_path: Path) -> None:
    train(source, tmp_path / "m", *PLAIN)
    before = predicted(source, tmp_path / "m")
    (tmp_path / "m" / "idf.txt").write_text("0.5\n" * 40)
    assert predicted(source, tmp_path / "m") == before
    linear.save(tmp_path / "m", linear.load(tmp_path / "m"))
    assert not (tmp_path / "m" / "idf.txt").exists()


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


def test_word_weights_are_part_of_what_is_resumed(tmp_path: Path) -> None:
    x, y = np.eye(3), np.eye(3, dtype=int)
    linear.train_to(tmp_path, x, y)
    for idf in (np.ones(3), None):
        if idf is None:
            linear.train_to(tmp_path, x, y, idf=np.ones(3), resume=False)
        with pytest.raises(ValueError, match="other data or another recipe"):
            linear.train_to(tmp_path, x, y, idf=idf)
    with pytest.raises(ValueError, match="other data or another recipe"):
        linear.train_to(tmp_path, x, y, idf=[1.0, 1.0, 2.0])
    assert linear.train_to(tmp_path, x, y, idf=np.ones(3)).idf.tolist() == [1, 1, 1]


def test_damaged_word_weights_are_written_again(tmp_path: Path) -> None:
    x, y = np.eye(3), np.eye(3, dtype=int)
    linear.train_to(tmp_path, x, y, idf=np.ones(3))
    (tmp_path / manifest(tmp_path)["idf"]["file"]).write_text("2.0\n2.0\n2.0\n")
    linear.train_to(tmp_path, x, y, idf=np.ones(3))
    assert linear.load(tmp_path).idf.tolist() == [1, 1, 1]


PARTS = {
    "manifest": lambda folder: "manifest.json",
    "shard": lambda folder: manifest(folder)["shards"][0]["file"],
    "idf": lambda folder: manifest(folder)["idf"]["file"],
}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("place", ["inside", "outside"])
def test_links_in_a_model_folder_are_not_followed(folder: Path, part: str, place: str) -> None:
    path = folder / PARTS[part](folder)
    moved = (folder if place == "inside" else folder.parent) / "elsewhere"
    path.rename(moved)
    path.symlink_to(moved)
    with pytest.raises(ValueError, match="is a link; files of a model are not links"):
        linear.load(folder)


@pytest.mark.parametrize("part", PARTS)
def test_pipes_in_a_model_folder_are_not_waited_for(folder: Path, part: str) -> None:
    path = folder / PARTS[part](folder)
    path.unlink()
    os.mkfifo(path)
    signal.alarm(100)
    with pytest.raises(ValueError, match="is a pipe"):
        linear.load(folder)
    result = run("predict", folder, folder, "-o", folder.parent / "p.txt")
    assert result.returncode == 2


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


def test_nothing_is_written_through_a_link_in_a_model_folder(folder: Path) -> None:
    expected = files_of(folder)
    outside = folder.parent / "precious"
    outside.write_text("precious")
    for name in expected:
        (folder / name).unlink()
        (folder / name).symlink_to(outside)
    linear.save(folder, _model(1, [0.1, 1 / 3, 2e-7]), shard_labels=2)
    assert outside.read_text() == "precious"
    assert files_of(folder) == expected
    assert not any(path.is_symlink() for path in folder.iterdir())


def test_what_is_not_ours_stays_in_the_folder(folder: Path) -> None:
    for name in ("README.md", "shard-notes.txt", "idf.csv", "shard-1.safetensors"):
        (folder / name).write_text(name)
    (folder / "shard-00000000.safetensors.d").mkdir()
    linear.save(folder, _model(3))
    kept = {path.name for path in folder.iterdir()} - {"manifest.json"}
    shards = {entry["file"] for entry in manifest(folder)["shards"]}
    assert kept - shards == {
        "README.md", "shard-notes.txt", "idf.csv", "shard-1.safetensors",
        "shard-00000000.safetensors.d",
    }  # fmt: skip


class Replacing(parallel.LocalRunner):
    """Workers that see the folder, where another model has appeared in the meantime."""

    def __init__(self, folder: Path, model: linear.LinearModel) -> None:
        self.folder, self.model = folder, model

    def shares_folder(self, folder: Path) -> bool:
        return True

    def run(self, *arguments: Any, **options: Any) -> Any:
        linear.save(self.folder, self.model)
        return super().run(*arguments, **options)


def test_workers_never_predict_with_two_models(folder: Path) -> None:
    rows = np.eye(3, dtype=np.float32)
    with pytest.raises(ValueError, match="is missing: the model is incomplete"):
        linear.predict_top(folder, rows, 2, backend=Replacing(folder, _model(-1)), by="rows")
    same = Replacing(folder, linear.load(folder))
    found = linear.predict_top(folder, rows, 2, backend=same, by="rows")
    assert np.array_equal(found.labels, linear.predict_top(linear.load(folder), rows, 2).labels)


def test_word_weights_of_one_model_and_weights_of_another_are_not_mixed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data.write(tmp_path / "x.txt", data.Dataset(np.ones((2, 3)), np.eye(2)))
    usual = linear.predict_top

    def replaced(path: Path, *arguments: Any, backend: Any, **options: Any) -> Any:
        linear.save(path, _model(1, backend and [3.0, 2.0, 1.0]))
        return usual(path, *arguments, **options)

    arguments = (
        "predict",
        folder,
        tmp_path / "x.txt",
        "-o",
        tmp_path / "p.txt",
        "--scheduler",
        "s",
    )
    monkeypatch.setattr(linear, "predict_top", replaced)
    refused = run(*arguments)
    assert refused.returncode == 2
    assert "was replaced in the meantime; predict again" in refused.stderr.replace("\n", " ")
    assert not (tmp_path / "p.txt").exists()
    assert run(*arguments).returncode == 0  # replaced by its like


# --- versions ------------------------------------------------------------------------------------


def test_the_manifest_names_the_package_version(folder: Path) -> None:
    import unmask

    assert manifest(folder)["package"] == unmask.__version__


def upgrade(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    from unmask.linear import folders, training

    monkeypatch.setattr(folders, "__version__", version)
    monkeypatch.setattr(training, "__version__", version)


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


def test_the_fingerprint_knows_the_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = np.eye(3), np.eye(3, dtype=int)
    marks = []
    for version in ("1.0", "1.1"):
        upgrade(monkeypatch, version)
        linear.train_to(tmp_path / version, x, y)
        marks.append(manifest(tmp_path / version)["fingerprint"])
    assert marks[0] != marks[1]


def test_models_of_another_version_of_the_package_load(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upgrade(monkeypatch, "99.1")
    assert linear.load(folder).n_labels == 4


# --- writing -------------------------------------------------------------------------------------


def put(path: Path, text: bytes = b"new") -> None:
    with _io.atomic_write(path) as file:
        file.write(text)


@contextmanager
def terminal() -> Iterator[tuple[Path, int]]:
    """A character device of our own: its path, and the descriptor that shows what it got."""
    ours, theirs = os.openpty()
    try:
        yield Path(os.ttyname(theirs)), ours
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()), daemon=True)
    reader.start()
    while not got and reader.is_alive():
        try:
            put(pipe, b"x" * 300_000)
            break
        except ValueError:  # the reader is not there yet
            continue
    reader.join(20)
    assert got == [b"x" * 300_000]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert os.listdir(tmp_path) == ["pipe"]


@pytest.mark.parametrize("name", ["pipe", "pipe.gz", "pipe.zst"])
def test_writing_to_a_full_pipe_can_be_interrupted(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    reader = os.open(tmp_path / name, os.O_RDONLY | os.O_NONBLOCK)
    noise = np.random.default_rng(0).bytes(1 << 20)

    def interrupted() -> None:
        with _io.atomic_write(tmp_path / name) as file:
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            while True:  # until the pipe is full
                file.write(noise)

    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
    finally:
        signal.signal(signal.SIGALRM, before)
        os.close(reader)


def test_a_reader_that_goes_away_is_noticed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)

    def left_alone() -> None:
        with _io.atomic_write(tmp_path / "pipe") as file:
            os.close(reader)
            file.write(b"hello")

    with pytest.raises(BrokenPipeError):
        left_alone()


def test_a_pipe_that_nobody_reads_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    signal.alarm(100)
    with pytest.raises(ValueError, match="pipe: nobody reads from this pipe; start the reader"):
        put(tmp_path / "pipe")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_device_is_written_to(tmp_path: Path) -> None:
    with terminal() as (path, screen):
        (tmp_path / "link").symlink_to(path)
        put(path, b"hello")
        assert os.read(screen, 100) == b"hello"
        put(tmp_path / "link", b"again")
        assert os.read(screen, 100) == b"again"
        assert stat.S_ISCHR(path.stat().st_mode)
        assert (tmp_path / "link").is_symlink()


def test_a_socket_and_a_folder_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        with pytest.raises(ValueError, match="is a socket"):
            put(tmp_path / "socket")
    with pytest.raises(ValueError, match="is a folder; name a file"):
        put(tmp_path / "folder")
    assert sorted(os.listdir(tmp_path)) == ["folder", "socket"]


def test_a_disk_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.touch()
    real = os.stat

    def as_disk(path: Any, **options: Any) -> os.stat_result:
        found = real(path, **options)
        same = os.path.basename(str(path)) == "disk"
        return os.stat_result((stat.S_IFBLK | 0o660, *found[1:])) if same else found

    monkeypatch.setattr(os, "stat", as_disk)
    with pytest.raises(ValueError, match="is a disk"):
        put(disk)
    monkeypatch.undo()
    assert os.listdir(tmp_path) == ["disk"]


def test_links_stay_and_their_target_is_replaced(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    target, link, second = store / "target", tmp_path / "link", tmp_path / "second"
    link.symlink_to("store/target")
    second.symlink_to(link)
    put(second, b"first")  # dangling so far
    with open(target, "rb") as old:
        put(second, b"new")
        assert old.read() == b"first"  # replaced, not overwritten
    assert target.read_bytes() == b"new"
    assert link.is_symlink()
    assert second.is_symlink()
    assert os.listdir(store) == ["target"]
    assert sorted(os.listdir(tmp_path)) == ["link", "second", "store"]


def test_the_given_name_says_the_compression(tmp_path: Path) -> None:
    (tmp_path / "a.txt.gz").symlink_to("blob")
    put(tmp_path / "a.txt.gz")
    assert gzip.decompress((tmp_path / "blob").read_bytes()) == b"new"


def test_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        put(tmp_path / "a")


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755, 0o666])
def test_the_mode_of_a_file_is_kept(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    path.chmod(mode)
    during: list[int] = []
    with _io.atomic_write(path) as file:
        file.write(b"new")
        during = [p.stat().st_mode & 0o777 & ~mode for p in tmp_path.iterdir()]
    assert during == [0, 0]  # nobody may read the unfinished file who may not read the old one
    assert path.stat().st_mode & 0o777 == mode
    assert path.read_bytes() == b"new"


def test_special_bits_of_a_mode_are_not_given_to_new_contents(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    path.chmod(0o4755)
    put(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o755


def test_a_new_file_has_the_usual_mode(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        put(tmp_path / "f")
    finally:
        os.umask(before)
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o640


def test_a_planted_link_in_place_of_the_unfinished_file_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    name = f".f.{os.getpid()}-{threading.get_ident()}.part"
    (tmp_path / name).symlink_to(victim)
    put(tmp_path / "f")
    assert victim.read_text() == "precious"
    assert (tmp_path / "f").read_bytes() == b"new"


def test_a_missing_folder_is_named_as_it_was_given(tmp_path: Path) -> None:
    result = run("convert", put_xc(tmp_path), tmp_path / "nowhere" / "f.txt")
    assert result.returncode == 2
    assert f"{tmp_path}/nowhere/f.txt: No such file" in result.stderr.replace("\n", "")


def put_xc(folder: Path) -> Path:
    (folder / "x.txt").write_bytes(XC)
    return folder / "x.txt"


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory, source: Path) -> Path:
    """A model, and its predictions in a file."""
    folder = tmp_path_factory.mktemp("stored")
    train(source, folder / "m", *PLAIN)
    assert predicted(source, folder / "m")
    return folder


def test_predictions_go_to_standard_output(stored: Path, source: Path, tmp_path: Path) -> None:
    expected = (stored / "predictions.txt").read_bytes()
    (tmp_path / "out").symlink_to("/proc/self/fd/1")
    result = command("predict", stored / "m", source, "-o", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    assert result.stdout == expected
    assert (tmp_path / "out").is_symlink()


@contextmanager
def standard_output(path: Path) -> Iterator[None]:
    """Let descriptor 1 of this process append to a file."""
    usual = os.dup(1)
    with open(path, "ab") as file:
        os.dup2(file.fileno(), 1)
    try:
        yield
    finally:
        os.dup2(usual, 1)
        os.close(usual)


STREAMED = {
    "predict": ("predict", "m", "source", "-o"),
    "convert": ("convert", "source"),
    "hide": ("hide", "source", "--propensity", "constant:1", "-o"),
    "propensity": ("propensity", "source", "--propensity", "constant:0.5", "-o"),
}


@pytest.mark.parametrize("name", STREAMED)
def test_standard_output_that_is_a_file_is_appended_to(
    stored: Path, source: Path, tmp_path: Path, name: str
) -> None:
    known = {"m": stored / "m", "source": source}
    arguments = [known.get(word, word) for word in STREAMED[name]]
    assert run(*arguments, tmp_path / "expected").returncode == 0
    (tmp_path / "log").write_bytes(b"before\n")
    with standard_output(tmp_path / "log"):
        result = run(*arguments, "/proc/self/fd/1")
    assert result == (0, "", result.stderr)  # no table between the lines of the file
    assert (tmp_path / "log").read_bytes() == b"before\n" + (tmp_path / "expected").read_bytes()


def test_other_descriptors_are_written_to(tmp_path: Path) -> None:
    read, write = os.pipe()
    try:
        put(Path(f"/dev/fd/{write}"), b"hello")
        assert os.read(read, 10) == b"hello"
        os.fstat(write)  # still ours to close
    finally:
        os.close(read)
        os.close(write)


def test_files_of_the_kernel_are_refused() -> None:
    with pytest.raises(ValueError, match="no place for a file"):
        put(Path("/proc/self/comm"))


# --- reading -------------------------------------------------------------------------------------


READERS: dict[str, Callable[[Path], object]] = {
    "data": data.read,
    "predictions": predictions.read,
    "propensity": propensity.read,
    "weights": weights.read,
    "dismec": linear.read_dismec,
    "dismecpp": lambda path: linear.read_dismecpp(path, bias=True),
    "thresholds": thresholds.read,
    "hierarchy": data.read_hierarchy,
    "vocabulary": data.subject_labels,
    "review": missing.read_review,
    "plan": audit.read_plan,
    "records": _io.read_records,
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


def test_weight_files_of_dismecpp_are_files(tmp_path: Path) -> None:
    for kind in ("DenseTXT", "SparseTXT", "DenseNPY"):
        part = {"first": 0, "count": 1, "file": f"w-{kind}", "weight-format": kind}
        meta = {"num-features": 1, "num-labels": 1, "files": [part]}
        (tmp_path / "m.json").write_text(json.dumps(meta))
        os.mkfifo(tmp_path / f"w-{kind}")
        signal.alarm(100)
        with pytest.raises(ValueError, match="is a pipe"):
            linear.read_dismecpp(tmp_path / "m.json", bias=False)


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/stdin"])
def test_info_refuses_what_never_ends(path: str) -> None:
    read, write = os.pipe()  # without an end, as long as we hold it
    try:
        text = said(command("info", path, stdin=read))
    finally:
        os.close(read)
        os.close(write)
    assert f"{path} is a {'device' if path == '/dev/zero' else 'pipe'}" in text


@pytest.mark.parametrize(
    "arguments",
    [
        ("evaluate", "--labels", "/dev/zero", "--predictions", "/dev/zero"),
        ("report", "/dev/zero"),
        ("propensity", "x.txt", "--propensity", "/dev/zero"),
        ("predict", "/dev/zero", "x.txt", "-o", "p.txt"),
        ("predict", "model", "x.txt", "-o", "p.txt"),
    ],
    ids=lambda arguments: " ".join(arguments[:3]),
)
def test_commands_refuse_what_never_ends(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data.write(put_xc(tmp_path), data.Dataset(np.ones((2, 3)), np.eye(2)))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "manifest.json").symlink_to("/dev/zero")
    monkeypatch.chdir(tmp_path)
    with little_memory():
        refused = run(*arguments)
    assert refused.returncode == 2
    assert any(words in refused.stderr for words in ("is a device", "is a link", "Not a directory"))


@contextmanager
def little_memory() -> Iterator[None]:
    """No more than 2 GB beyond what is used."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (2 << 30), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def test_standard_input_that_is_a_file_is_read(tmp_path: Path) -> None:
    with open(put_xc(tmp_path), "rb") as file:
        result = command("info", "/dev/stdin", "--json", stdin=file)
    assert json.loads(result.stdout)["n"] == 3


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
    assert _io.contents(path) == XC
    path.write_bytes(frame)
    assert _io.contents(path) == b""
    if size:
        path.write_bytes(frame[:-1])
        with pytest.raises(ValueError, match="the zstd data end too early"):
            _io.contents(path)


def test_a_model_whose_manifest_is_a_folder_is_none(tmp_path: Path) -> None:
    (tmp_path / "m" / "manifest.json").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"is no model folder.*is a folder"):
        linear.load(tmp_path / "m")


def test_shards_are_mapped_from_the_file_that_was_verified(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is exchanged between the two would be used unseen."""
    from unmask.linear import folders

    usual, name = folders._digest, manifest(folder)["shards"][0]["file"]

    def exchanged(file: Any) -> str:
        digest = usual(file)
        if str(getattr(file, "name", file)).endswith(name):
            other = folder / "other"
            other.write_bytes((folder / name).read_bytes()[:-16] + b"\0" * 16)
            os.replace(other, folder / name)
        return digest

    monkeypatch.setattr(folders, "_digest", exchanged)
    assert np.array_equal(linear.load(folder).weights, _model().weights)


def test_sparse_models_load_as_before(tmp_path: Path) -> None:
    w = sp.csr_array(np.float32([[1, 0, 2], [0, 0, 0]]))
    model = linear.LinearModel((linear.Shard(w, np.zeros(2, np.float32)),), "logistic")
    linear.save(tmp_path / "m", model)
    back = linear.load(tmp_path / "m")
    assert (back.weights != w).nnz == 0
    assert back.idf is None
