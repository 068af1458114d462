"""The tests that reach kernels, with every array access of every kernel checked.

    python tools/bounds.py                 all of them; `make test-bounds`
    python tools/bounds.py tests/weights/test_weights.py -k normalized

Kernels are compiled without bounds checks, and follow an index wherever it points. Here they are
compiled anew with `NUMBA_BOUNDSCHECK=1`, into a cache of their own, so that an index out of range
is an IndexError with a traceback. What is given on the command line goes to pytest.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1] / "tests"

WITHOUT = {
    "test_architecture", "test_cli_propensity", "test_docs", "test_examples", "test_experiments",
    "test_fuzz_api", "test_fuzz_readers", "test_interruption", "test_metrics_charts", "test_report",
    "test_report_browser", "test_report_markdown", "test_supply", "test_training_study",
}  # fmt: skip
"""Tests of pages, documents and processes: the kernels that they reach, others reach, too."""


def chosen() -> list[str]:
    """The test files, those that a new kernel brings among them."""
    return sorted(str(path) for path in TESTS.glob("test_*.py") if path.stem not in WITHOUT)


def main() -> int:
    """Run pytest; its exit status."""
    with tempfile.TemporaryDirectory(prefix="bounds-") as cache:
        environment = os.environ | {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": cache}
        command = [sys.executable, "-m", "pytest", "-q", *(sys.argv[1:] or ["-n", "1", *chosen()])]
        return subprocess.run(command, env=environment, check=False).returncode  # noqa: S603


if __name__ == "__main__":
    sys.exit(main())
