"""Folders of models of every kind: what was saved comes back, nothing else is taken for a model."""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from tests.helpers.command import run
from tests.helpers.killing import killed
from tests.helpers.memory import little_memory
from tests.helpers.model_folders import edit, files_of, manifest, small_model
from unmask import data, linear, models, parallel, tree
from unmask.data import synthetic
from unmask.data.texts import Vocabulary
from unmask.linear import LinearModel, Recipe
from unmask.models import store
from unmask.models.linear import Shard
from unmask.tree import TreeRecipe

pytestmark = pytest.mark.usefixtures("patience")

ROWS = synthetic.planted(150, n_features=30, n_labels=30, seed=2)
X, Y = ROWS.features, ROWS.labels
IDF = np.linspace(0.1, 3, 30)
FLAT = replace(linear.train(X, Y)[0], idf=IDF)
TREES = replace(tree.train(X, Y, TreeRecipe(n_trees=2, arity=4, leaf=4)), idf=IDF)
MODELS: dict[str, Any] = {"linear": FLAT, "tree": TREES}


def saved(kind: str, folder: Path) -> Path:
    if kind == "linear":
        linear.save(folder, FLAT, shard_labels=10)
    else:
        tree.save(folder, TREES)
    return folder


def top(model: Any) -> Any:
    (predict,) = (k.predict_top for k in models.KINDS.values() if isinstance(model, k.model))
    return predict(model, X, 4)


def is_mapped(array: object) -> bool:
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, mmap.mmap)


@pytest.mark.parametrize("kind", MODELS)
def test_saved_models_come_back_mapped(kind: str, tmp_path: Path) -> None:
    folder = saved(kind, tmp_path / "models" / "first")  # folders above are made
    for _ in range(2):
        back, model = models.load(folder), MODELS[kind]
        assert (back.loss, back.parameters) == (model.loss, model.parameters)
        assert np.array_equal(top(back).labels, top(model).labels)
        assert np.array_equal(top(back).scores, top(model).scores)
        assert back.idf.tolist() == IDF.tolist()  # to the bit
        assert is_mapped(
            back.shards[0].weights if kind == "linear" else back.trees[0].parts[0][0].values
        )
        (linear.save if kind == "linear" else tree.save)(folder, back)  # onto itself


@pytest.mark.parametrize("prune_below", [0.0, 0.02])
def test_shards_are_as_large_as_asked_and_sparse_where_pruned(
    prune_below: float, tmp_path: Path
) -> None:
    model, _ = linear.train(X, Y, Recipe(prune_below=prune_below))
    linear.save(tmp_path / "m", model, shard_labels=12)
    back = linear.load(tmp_path / "m")
    assert [len(part.bias) for part in back.shards] == [12, 12, 6]
    assert back.sparse == model.sparse == (prune_below > 0)
    assert np.array_equal(linear.scores(back, X), linear.scores(model, X))
    assert back.idf is None
    shard = Shard(sp.csr_array((3, 4), dtype=np.float32), np.zeros(3, np.float32))
    linear.save(tmp_path / "m", LinearModel((shard,), "logistic"))  # no weights, still sparse
    assert linear.load(tmp_path / "m").weights.shape == (3, 4)


def test_models_of_all_kinds_take_each_others_place(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    for kind, other, files in (("tree", "linear", "shard-*"), ("linear", "tree", "part-*")) * 2:
        saved(kind, folder)
        assert models.KINDS[kind].form.is_in(folder)
        assert not models.KINDS[other].form.is_in(folder)
        assert not list(folder.glob(files))
        with pytest.raises(ValueError, match="is not the manifest of"):
            models.KINDS[other].load(folder)
    assert not models.KINDS["tree"].form.is_in(tmp_path / "nothing")
    linear.save(folder, small_model())
    assert linear.load(folder).n_labels == 4


def first(folder: Path, kind: str) -> Any:
    return manifest(folder)[kind][0]


# How a manifest is changed, and what is said; the pieces of a kind are in `PIECES`.
PIECES = {"linear": "shards", "tree": "parts"}
HEADS: dict[str, tuple[Callable[[Any, str], object], str]] = {
    "foreign": (lambda h, _: h.update(format="other"), "is not the manifest of"),
    "another version": (lambda h, _: h.update(version=9), "has version 9 of the model format"),
    "no package": (lambda h, _: h.pop("package"), "no proper 'package'"),
    "no labels": (lambda h, _: h.pop("labels"), "no proper 'labels'"),
    "labels below 0": (lambda h, _: h.update(labels=-1), "no proper 'labels'"),
    "loss": (lambda h, _: h.update(loss="hinge"), "unknown loss 'hinge'"),
    "unfinished": (lambda h, pieces: h[pieces].pop(), "training has not finished"),
    "a gap": (lambda h, pieces: h[pieces].pop(0), "training has not finished"),
    "none": (lambda h, pieces: h.update({pieces: []}), "training has not finished"),
    "twice": (lambda h, pieces: h[pieces].append(h[pieces][0]), "names a file twice"),
    "elsewhere": (lambda h, pieces: h[pieces][0].update(file="../x"), "describes a (shard|part)"),
    "no number": (
        lambda h, pieces: h[pieces][0].update(start="x", part="x"), "describes a (shard|part)"
    ),
    "endless labels": (
        lambda h, _: h.update(labels=10**10), "10,000,000,000 labels, more than 100,000,000"
    ),
    "endless features": (
        lambda h, _: h.update(features=10**10), "10,000,000,000 features, more than 100,000,000"
    ),
    **{
        f"word weights {entry}": (
            lambda h, _, entry=entry: h.update(idf=entry),
            r"manifest\.json describes the word weights as",
        )
        for entry in (1, "idf.txt", {"file": "idf.txt"},
                      {"file": "../x", "bytes": 1, "sha256": "0"})
    },
}  # fmt: skip
OF_KIND: dict[str, list[tuple[Callable[[Any], object], str]]] = {
    "linear": [
        (lambda h: h.update(labels=0, shards=[]), "training has not finished"),
        (lambda h: h.update(labels=20), "training has not finished"),
        (lambda h: h.update(features=99), "does not hold 10 × 99"),
    ],
    "tree": [
        (lambda h: h.update(labels=31), "order is none of 31 labels"),
        (lambda h: h.update(features=3), "a feature lies outside 0 … 2"),
        (lambda h: h["shapes"][0].update(bits=[9]), "leaf nodes are no ranges"),
        (lambda h: h["shapes"][0].update(bits=["a"]), "its levels"),
        (lambda h: h["shapes"][0].pop("bits"), "describes a shape"),
    ],
}


@pytest.mark.parametrize("kind", MODELS)
def test_wrong_manifests_are_refused(kind: str, tmp_path: Path) -> None:
    folder = saved(kind, tmp_path)
    whole = (folder / "manifest.json").read_bytes()
    changes: list[Any] = [
        (lambda head, change=change: change(head, PIECES[kind]), message)
        for change, message in HEADS.values()
    ]
    for change, message in changes + OF_KIND[kind]:
        edit(folder, change)
        with pytest.raises(ValueError, match=message):
            models.KINDS[kind].load(folder)
        (folder / "manifest.json").write_bytes(whole)
    for contents in (whole[:40], b"", b"[]"):
        (folder / "manifest.json").write_bytes(contents)
        with pytest.raises(ValueError, match=r"is no model folder|is not the manifest of"):
            models.KINDS[kind].load(folder)
    (folder / "manifest.json").unlink()
    with pytest.raises(ValueError, match="is no model folder"):
        models.load(folder)
    (folder / "manifest.json").mkdir()
    with pytest.raises(ValueError, match=r"is no model folder.*is a folder"):
        models.load(folder)


FILES: dict[str, tuple[str, Callable[[Path], str]]] = {
    "manifest": ("linear", lambda folder: "manifest.json"),
    "shard": ("linear", lambda folder: first(folder, "shards")["file"]),
    "idf": ("linear", lambda folder: manifest(folder)["idf"]["file"]),
    "shape": ("tree", lambda folder: first(folder, "shapes")["file"]),
    "part": ("tree", lambda folder: manifest(folder)["parts"][-1]["file"]),
}


@pytest.mark.parametrize("file", [name for name in FILES if name != "manifest"])
def test_every_file_is_verified(file: str, tmp_path: Path) -> None:
    kind, name = FILES[file]
    path = saved(kind, tmp_path) / name(tmp_path)
    whole = path.read_bytes()
    for contents, message in (
        (whole[:-3] + bytes([whole[-3] ^ 4]) + whole[-2:], "does not match its checksum"),
        (whole[:-1], rf"has {len(whole) - 1} bytes instead of {len(whole)}"),
        (whole + b"1\n", rf"has {len(whole) + 2} bytes instead"),
        (None, "is missing: the model is incomplete"),
    ):
        path.unlink() if contents is None else path.write_bytes(contents)
        with pytest.raises(ValueError, match=message):
            models.load(tmp_path)


@pytest.mark.parametrize("file", FILES)
def test_links_are_not_followed_and_pipes_not_waited_for(file: str, tmp_path: Path) -> None:
    kind, name = FILES[file]
    folder = saved(kind, tmp_path / "m")
    path = folder / name(folder)
    contents = path.read_bytes()
    for elsewhere in (folder / "elsewhere", tmp_path / "elsewhere"):
        path.unlink()
        elsewhere.write_bytes(contents)
        path.symlink_to(elsewhere)
        with pytest.raises(ValueError, match="is a link; files of a model are not links"):
            models.KINDS[kind].load(folder)
    path.unlink()
    os.mkfifo(path)
    signal.alarm(100)
    with pytest.raises(ValueError, match="is a pipe"):
        models.KINDS[kind].load(folder)
    assert run("predict", folder, folder, "-o", tmp_path / "p.txt").returncode == 2
    path.unlink()
    path.symlink_to("/dev/zero")
    with little_memory(), pytest.raises(ValueError, match="is a link"):
        models.KINDS[kind].load(folder)


def test_nothing_is_written_through_a_link_in_a_model_folder(folder: Path) -> None:
    expected = files_of(folder)
    outside = folder.parent / "precious"
    outside.write_text("precious")
    for name in expected:
        (folder / name).unlink()
        (folder / name).symlink_to(outside)
    linear.save(folder, small_model(1, [0.1, 1 / 3, 2e-7]), shard_labels=2)
    assert outside.read_text() == "precious"
    assert files_of(folder) == expected
    assert not any(path.is_symlink() for path in folder.iterdir())


def test_what_is_not_ours_stays_in_the_folder(folder: Path) -> None:
    for name in ("README.md", "shard-notes.txt", "idf.csv", "shard-1.safetensors"):
        (folder / name).write_text(name)
    (folder / "shard-00000000.safetensors.d").mkdir()
    linear.save(folder, small_model(3))
    kept = {path.name for path in folder.iterdir()} - {"manifest.json"}
    shards = {entry["file"] for entry in manifest(folder)["shards"]}
    assert kept - shards == {
        "README.md", "shard-notes.txt", "idf.csv", "shard-1.safetensors",
        "shard-00000000.safetensors.d",
    }  # fmt: skip


def test_killed_saves_leave_the_old_model_or_the_new_one(tmp_path: Path) -> None:
    recipe = TreeRecipe(n_trees=2, arity=2, leaf=2)
    labels = np.eye(6, dtype=int)
    trees = [tree.train(np.eye(6), labels[::way], recipe) for way in (1, -1)]
    flat = [small_model(scale, idf) for scale, idf in ((1, None), (2, np.ones(3)))]
    for (old, new), save in ((trees, tree.save), (flat, linear.save)):
        rows = np.eye(old.n_features)
        outcomes = []
        for step in range(1, 100):
            folder = tmp_path / f"{save.__module__}-{step}"
            save(folder, old)
            if not killed(step, lambda folder=folder, new=new, save=save: save(folder, new)):
                break
            found = models.load(folder)
            (whole,) = [
                i for i, each in enumerate((old, new))
                if (found.idf is None) == (each.idf is None)
                and np.array_equal(_scores(found, rows), _scores(each, rows))
            ]  # fmt: skip
            outcomes.append(whole)
        assert outcomes == sorted(outcomes)
        assert set(outcomes) == {0, 1}


def _scores(model: Any, rows: np.ndarray) -> Any:
    predict = linear.predict_top if isinstance(model, LinearModel) else tree.predict_top
    best = predict(model, rows, model.n_labels)
    return np.r_[best.labels, best.scores]


@pytest.mark.parametrize("header", [b"\xff" * 8, (10).to_bytes(8, "little") + b'{"bias":1}'])
def test_a_shard_that_is_no_safetensors_file(header: bytes, tmp_path: Path) -> None:
    shard = saved("linear", tmp_path) / first(tmp_path, "shards")["file"]
    shard.write_bytes(header + shard.read_bytes()[len(header) :])
    with pytest.raises(ValueError, match="is no safetensors file"):
        linear.load(tmp_path, verify=False)


def test_a_header_of_tensors_lies_inside_its_file(tmp_path: Path) -> None:
    path = tmp_path / "piece.safetensors"
    for length, header in ((2, b"{}"), (1, b"{}"), (3, b"{}"), (2, b"{")):
        content = length.to_bytes(8, "little") + header
        path.write_bytes(content)
        with path.open("rb") as file:
            if (length, header) == (2, b"{}"):
                assert store.mapped(path, file, len(content)) == {}
                continue
            with pytest.raises(ValueError, match="header does not fit"):
                store.mapped(path, file, len(content))


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
def test_arrays_of_nodes_that_kernels_could_not_trust_are_refused(
    tmp_path: Path, name: str, change: Callable[[Any], Any], message: str
) -> None:
    """In a file that agrees with its manifest."""
    saved("tree", tmp_path)
    arrays = {
        f"{level}.{field}": np.array(getattr(nodes, field))
        for level, nodes in enumerate(TREES.trees[0].parts[0])
        for field in nodes._fields
    }
    arrays[name] = change(arrays[name])
    entry = store.write_tensors(tmp_path, "part-0000-000000-{}.safetensors", arrays)
    edit(tmp_path, lambda head: head["parts"][0].update(entry))
    with pytest.raises(ValueError, match=message):
        tree.load(tmp_path)


def test_files_are_mapped_from_the_very_file_that_was_verified(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is exchanged between the two would be used unseen."""
    usual, name = store._digest, first(folder, "shards")["file"]

    def exchanged(file: Any) -> str:
        digest = usual(file)
        if str(getattr(file, "name", file)).endswith(name):
            other = folder / "other"
            other.write_bytes((folder / name).read_bytes()[:-16] + b"\0" * 16)
            os.replace(other, folder / name)
        return digest

    monkeypatch.setattr(store, "_digest", exchanged)
    assert np.array_equal(linear.load(folder).weights, small_model().weights)


# Workers and folders


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
        linear.predict_top(folder, rows, 2, backend=Replacing(folder, small_model(-1)), by="rows")
    same = Replacing(folder, linear.load(folder))
    found = linear.predict_top(folder, rows, 2, backend=same, by="rows")
    assert np.array_equal(found.labels, linear.predict_top(linear.load(folder), rows, 2).labels)


def test_word_weights_of_one_model_and_weights_of_another_are_not_mixed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data.write(tmp_path / "x.txt", data.Dataset(np.ones((2, 3)), np.eye(2)))
    usual = linear.predict_top

    def replaced(path: Path, *arguments: Any, backend: Any, **options: Any) -> Any:
        linear.save(path, small_model(1, backend and [3.0, 2.0, 1.0]))
        return usual(path, *arguments, **options)

    target = tmp_path / "p.txt"
    arguments = ("predict", folder, tmp_path / "x.txt", "-o", target, "--scheduler", "s")
    monkeypatch.setattr(linear, "predict_top", replaced)
    refused = run(*arguments)
    assert refused.returncode == 2
    assert "was replaced in the meantime; predict again" in refused.stderr.replace("\n", " ")
    assert not target.exists()
    assert run(*arguments).returncode == 0  # replaced by its like


@pytest.mark.parametrize("whole_at", [100.0, 109.9, 111.0])
def test_a_file_of_a_worker_may_take_a_while_to_be_seen(
    whole_at: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network disk shows what another machine wrote a little later; then it is given up."""
    now, looks = [100.0], list[float]()
    monkeypatch.setattr(store.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(store.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    entry = {"file": "piece", "bytes": 3, "sha256": "0" * 64}
    monkeypatch.setattr(store, "intact", lambda *_: looks.append(now[0]) or now[0] >= whole_at)
    if whole_at < 110:
        store.wait_for(tmp_path, entry)
    else:
        with pytest.raises(ValueError, match="piece is not what a worker wrote"):
            store.wait_for(tmp_path, entry)
        assert looks[-1] == pytest.approx(110.0, abs=0.21)
    assert len(looks) == 1 if whole_at == 100.0 else len(looks) > 40


# Beside the weights


def test_the_manifest_lists_the_word_weights(folder: Path) -> None:
    assert linear.load(folder).idf.tolist() == [0.1, 1 / 3, 2e-7]
    entry = manifest(folder)["idf"]
    contents = (folder / entry["file"]).read_bytes()
    assert entry["bytes"] == len(contents)
    assert entry["sha256"] == hashlib.sha256(contents).hexdigest()
    linear.save(folder, small_model())
    assert manifest(folder)["idf"] is None


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
    entry = manifest(folder)["idf"]
    (folder / entry["file"]).write_bytes(contents)
    entry |= {"bytes": len(contents), "sha256": hashlib.sha256(contents).hexdigest()}
    edit(folder, lambda head: head.update(idf=entry))
    with pytest.raises(ValueError, match=message):
        linear.load(folder)


@pytest.mark.parametrize("idf", [[1.0, 2.0], [1.0, np.nan, 1.0], [[1.0, 2.0, 3.0]]])
def test_word_weights_that_do_not_fit_are_not_saved(tmp_path: Path, idf: Any) -> None:
    with pytest.raises(ValueError, match="word weights"):
        linear.save(tmp_path / "m", small_model(1, idf))
    with pytest.raises(ValueError, match="word weights"):
        linear.train_to(tmp_path / "n", np.eye(3), np.eye(3, dtype=int), idf=idf)
    assert not (tmp_path / "m").exists()
    assert not (tmp_path / "n").exists()


@pytest.mark.parametrize("part", ["names", "vocabulary"])
def test_names_and_words_of_the_same_length_but_other_content_are_refused(
    part: str, tmp_path: Path
) -> None:
    """Their checksum stands in the manifest; whoever does not verify reads what is there."""
    vocabulary = Vocabulary(("ant", "bee", "cat"))
    model = replace(small_model(), label_names=("a", "b", "c", "d"), vocabulary=vocabulary)
    linear.save(tmp_path, model)
    path = tmp_path / manifest(tmp_path)[part]["file"]
    path.write_bytes(path.read_bytes().replace(b'"b"', b'"x"').replace(b"bee", b"fly"))
    with pytest.raises(ValueError, match="checksum"):
        linear.load(tmp_path)
    loaded = linear.load(tmp_path, verify=False)
    assert (loaded.label_names[1], loaded.vocabulary.words[1]) == (
        ("x", "bee") if part == "names" else ("b", "fly")
    )


def test_a_vocabulary_has_a_word_for_every_feature(tmp_path: Path) -> None:
    model = replace(small_model(), vocabulary=Vocabulary(("ant", "bee")))
    for use in (
        lambda: linear.predict_top(model, np.ones((2, 3)), 2),
        lambda: linear.save(tmp_path / "model", model),
    ):
        with pytest.raises(ValueError, match="a vocabulary of 2 words for a model of 3 features"):
            use()
    assert not (tmp_path / "model").exists()


def test_models_of_another_version_of_the_package_load(folder: Path) -> None:
    import unmask

    assert manifest(folder)["package"] == unmask.__version__
    edit(folder, lambda head: head.update(package="99.1"))
    assert linear.load(folder).n_labels == 4
    assert json.loads((folder / "manifest.json").read_text())["version"] == 2
