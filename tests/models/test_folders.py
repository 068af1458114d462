"""Folders of models that somebody has touched: links, pipes, exchanged and foreign files."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from tests.helpers.command import run
from tests.helpers.model_folders import files_of, manifest, small_model
from unmask import data, linear, parallel
from unmask.data.texts import Vocabulary
from unmask.models import store as folders

pytestmark = pytest.mark.usefixtures("patience")

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


def test_a_model_whose_manifest_is_a_folder_is_none(tmp_path: Path) -> None:
    (tmp_path / "m" / "manifest.json").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"is no model folder.*is a folder"):
        linear.load(tmp_path / "m")


def test_shards_are_mapped_from_the_file_that_was_verified(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is exchanged between the two would be used unseen."""
    from unmask.models import store as folders

    usual, name = folders._digest, manifest(folder)["shards"][0]["file"]

    def exchanged(file: Any) -> str:
        digest = usual(file)
        if str(getattr(file, "name", file)).endswith(name):
            other = folder / "other"
            other.write_bytes((folder / name).read_bytes()[:-16] + b"\0" * 16)
            os.replace(other, folder / name)
        return digest

    monkeypatch.setattr(folders, "_digest", exchanged)
    assert np.array_equal(linear.load(folder).weights, small_model().weights)


def test_sparse_models_load_as_before(tmp_path: Path) -> None:
    w = sp.csr_array(np.float32([[1, 0, 2], [0, 0, 0]]))
    model = linear.LinearModel((linear.Shard(w, np.zeros(2, np.float32)),), "logistic")
    linear.save(tmp_path / "m", model)
    back = linear.load(tmp_path / "m")
    assert (back.weights != w).nnz == 0
    assert back.idf is None


def test_a_file_of_a_worker_may_take_a_while_to_be_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network disk shows what another machine wrote a little later; then it is given up."""
    now, looks = [100.0], []
    monkeypatch.setattr(folders.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(folders.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    entry: folders.FileEntry = {"file": "piece", "bytes": 3, "sha256": "0" * 64}
    for whole_at, is_waited_for in ((100.0, True), (109.9, True), (111.0, False)):
        now[0] = 100.0
        looks.clear()

        def intact(folder: Path, entry: Any, at: float = whole_at) -> bool:
            looks.append(now[0])
            return now[0] >= at

        monkeypatch.setattr(folders, "intact", intact)
        if is_waited_for:
            folders.wait_for(tmp_path, entry)
        else:
            with pytest.raises(ValueError, match="piece is not what a worker wrote"):
                folders.wait_for(tmp_path, entry)
        assert len(looks) == 1 if whole_at == 100.0 else len(looks) > 40
    assert looks[-1] == pytest.approx(110.0, abs=0.21)


@pytest.mark.parametrize(
    ("content", "whole"),
    [
        (b"\x02" + bytes(7) + b"{}", True),
        (b"\x01" + bytes(7) + b"{}", False),
        (b"\x03" + bytes(7) + b"{}", False),  # the header would end beyond the file
        (b"\x02" + bytes(7) + b"{", False),
    ],
)
def test_a_header_of_tensors_lies_inside_its_file(
    content: bytes, whole: bool, tmp_path: Path
) -> None:
    path = tmp_path / "piece.safetensors"
    path.write_bytes(content)
    with path.open("rb") as file:
        if whole:
            assert folders.mapped(path, file, len(content)) == {}
        else:
            with pytest.raises(ValueError, match="header does not fit"):
                folders.mapped(path, file, len(content))


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
