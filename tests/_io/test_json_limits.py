"""JSON that is too long is refused before it is read, and the limit can be changed."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.helpers.command import run
from tests.helpers.memory import little_memory
from tests.helpers.model_folders import edit, manifest, save_small
from tests.helpers.xc_files import put_xc
from unmask import data, linear, propensity

pytestmark = pytest.mark.usefixtures("patience")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model with word weights, in two shards."""
    return save_small(tmp_path / "m")


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
