"""Where kernels are kept when nothing else can be written to: a folder that is ours alone."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest

from unmask._kernels import compiling


@pytest.fixture(name="said")
def messages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The warnings, with an empty folder for temporary files that only we can write to."""
    tmp_path.chmod(0o700)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    warnings: list[str] = []
    monkeypatch.setattr(compiling, "_warn", warnings.append)
    return warnings


def test_a_folder_of_our_own_is_made_once_and_said_once(said: list[str], tmp_path: Path) -> None:
    wanted = tmp_path / f"unmask-kernels-{os.geteuid()}"
    assert compiling._private_folder() == (wanted, "")
    assert stat.S_IMODE(wanted.stat().st_mode) == 0o700
    assert len(said) == 1
    assert str(wanted) in said[0]
    assert compiling._private_folder() == (wanted, "")
    assert len(said) == 1


@pytest.mark.parametrize("mode", [0o710, 0o701, 0o704, 0o720])
def test_a_folder_that_others_can_open_is_not_used(
    said: list[str], tmp_path: Path, mode: int
) -> None:
    wanted = tmp_path / f"unmask-kernels-{os.geteuid()}"
    wanted.mkdir()
    wanted.chmod(mode)
    assert compiling._private_folder() == (None, f"{wanted} is open to others")
    assert said == []


def test_a_file_in_its_place_is_not_used(said: list[str], tmp_path: Path) -> None:
    (tmp_path / f"unmask-kernels-{os.geteuid()}").touch()
    folder, reason = compiling._private_folder()
    assert folder is None
    assert reason
    assert said == []


@pytest.mark.parametrize(
    ("mode", "is_safe"),
    [(0o755, True), (0o700, True), (0o775, False), (0o757, False), (0o1777, True), (0o1770, True)],
)
def test_a_parent_is_safe_where_others_cannot_rename(
    tmp_path: Path, mode: int, is_safe: bool
) -> None:
    tmp_path.chmod(mode)
    try:
        assert compiling._safe_parent(tmp_path.stat()) == is_safe
        others = os.stat_result((mode, 0, 0, 1, os.geteuid() + 1, 0, 0, 0, 0, 0))
        assert not compiling._safe_parent(others) or os.geteuid() + 1 == 0
    finally:
        tmp_path.chmod(0o700)
