"""Models of another version of the package, or of the format of their folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.helpers.command import run
from tests.helpers.killing import killed
from tests.helpers.model_folders import edit, manifest
from tests.helpers.trained import PLAIN, train
from unmask import linear

pytestmark = pytest.mark.usefixtures("patience")


def test_the_manifest_names_the_package_version(folder: Path) -> None:
    import unmask

    assert manifest(folder)["package"] == unmask.__version__


def upgrade(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    from unmask.models import linear as training
    from unmask.models import store as folders

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
