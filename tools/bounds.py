"""All tests, with every array access of every kernel checked.

    python tools/bounds.py                 `make test-bounds`
    python tools/bounds.py tests/weights/test_weights.py -k normalized

Kernels are compiled without bounds checks, and follow an index wherever it points. Here they are
compiled anew with `NUMBA_BOUNDSCHECK=1`, into a cache of their own, so that an index out of range
is an IndexError with a traceback, in processes that tests start, too. What is given on the command
line goes to pytest.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile


def main() -> int:
    """Run pytest; its exit status."""
    with tempfile.TemporaryDirectory(prefix="bounds-") as cache:
        environment = os.environ | {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": cache}
        command = [sys.executable, "-m", "pytest", "-q", *(sys.argv[1:] or ["-n", "auto"])]
        return subprocess.run(command, env=environment, check=False).returncode  # noqa: S603


if __name__ == "__main__":
    sys.exit(main())
