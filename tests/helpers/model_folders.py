"""Folders of linear models: a small one, what is in it, and how to change it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from unmask import linear
from unmask.models.linear import Shard


def small_model(scale: float = 1, idf: Any = None) -> linear.LinearModel:
    """Four labels and three features, in one shard."""
    w = np.arange(12, dtype=np.float32).reshape(4, 3) * np.float32(scale)
    shard = Shard(w, np.zeros(4, np.float32))
    return linear.LinearModel((shard,), "logistic", {}, idf)


def save_small(folder: Path) -> Path:
    """A model with word weights, in two shards."""
    linear.save(folder, small_model(1, [0.1, 1 / 3, 2e-7]), shard_labels=2)
    return folder


def manifest(folder: Path) -> Any:
    return json.loads((folder / "manifest.json").read_bytes())


def edit(folder: Path, change: Callable[[Any], object]) -> None:
    head = manifest(folder)
    change(head)
    (folder / "manifest.json").write_text(json.dumps(head))


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}
