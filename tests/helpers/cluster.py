"""Small data and settings for tests on a Dask cluster."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp

RNG = np.random.default_rng(3)
N, D, L = 300, 40, 150


X = sp.csr_array((RNG.random((N, D)) * (RNG.random((N, D)) < 0.3)).astype(np.float32))


Y = sp.csr_array((RNG.random((N, L)) < 0.06).astype(np.float32))


CONFIG = {
    "distributed.comm.timeouts.connect": "5s",
    "distributed.worker.memory.terminate": 0.9,
}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
