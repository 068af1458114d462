"""Word weights belong to the model: they are listed, verified and resumed with it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.model_folders import edit, manifest, small_model
from tests.helpers.trained import PLAIN, SMALL, TFIDF, predicted, train
from unmask import data, linear, predictions

pytestmark = pytest.mark.usefixtures("patience")


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
    linear.save(folder, small_model())
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
        linear.save(tmp_path / "m", small_model(1, idf))
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
