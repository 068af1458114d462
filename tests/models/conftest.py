"""Shared fixtures: a small data set as a file, and a small model in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.model_folders import save_small
from tests.helpers.trained import SMALL
from unmask import data


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "train.txt"
    data.write(path, SMALL)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model with word weights, in two shards."""
    return save_small(tmp_path / "m")
