"""`make test-bounds` would notice a kernel that reads beyond its array."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.paths import ROOT

CALL = """
import numpy as np
from unmask._kernels import block


def test_sum_of_four():
    block._size(np.ones((1, 4)), 0, 0, {stop})
"""


@pytest.mark.parametrize(("stop", "status"), [(4, 0), (5, 1)])
def test_an_index_out_of_range_is_an_error(stop: int, status: int, tmp_path: Path) -> None:
    (tmp_path / "test_kernel.py").write_text(CALL.format(stop=stop))
    command = [sys.executable, ROOT / "tools" / "bounds.py", tmp_path, "-p", "no:cacheprovider"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert run.returncode == status, run.stdout + run.stderr
    assert ("IndexError: index is out of bounds" in run.stdout) == bool(status)
