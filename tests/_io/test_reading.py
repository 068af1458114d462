"""Reading from pipes, devices and folders: refused at once, by every reader."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.devices import terminal
from unmask import _io, audit, data, missing, predictions, propensity, thresholds, weights

pytestmark = pytest.mark.usefixtures("patience")

READERS: dict[str, Callable[[Path], object]] = {
    "data": data.read,
    "predictions": predictions.read,
    "propensity": propensity.read,
    "weights": weights.read,
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
