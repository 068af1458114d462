"""Models that the command trains on a small data set, and what they predict."""

from __future__ import annotations

from pathlib import Path

from tests.helpers.command import run
from unmask import data

SMALL = data.synthetic.planted(150, n_features=40, n_labels=24, seed=3)
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
