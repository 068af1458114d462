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
    "benchmarks", "cli", "pages", "report", "studies", "tools",
    "test_architecture.py", "test_docs.py", "test_examples.py", "test_fuzz_api.py",
    "test_supply.py", "test_workflows.py",
}  # fmt: skip
"""Tests of pages, documents and processes: the kernels that they reach, others reach, too."""


def chosen() -> list[str]:
    """Folders and files of tests, those that a new kernel brings among them."""
    paths = [path for path in TESTS.iterdir() if path.is_dir() or path.name.startswith("test_")]
    helpers = {"helpers", "__pycache__"}
    return sorted(str(path) for path in paths if path.name not in WITHOUT | helpers)


def main() -> int:
    """Run pytest; its exit status."""
    with tempfile.TemporaryDirectory(prefix="bounds-") as cache:
        environment = os.environ | {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": cache}
        command = [sys.executable, "-m", "pytest", "-q", *(sys.argv[1:] or ["-n", "1", *chosen()])]
        return subprocess.run(command, env=environment, check=False).returncode  # noqa: S603


if __name__ == "__main__":
    sys.exit(main())
