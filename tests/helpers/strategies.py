"""Hypothesis strategies for the package's vocabulary: label sets, propensities, label matrices."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

propensities = st.one_of(st.just(1.0), st.floats(0.05, 1.0, allow_nan=False))


def propensity_vectors(n_labels: int) -> st.SearchStrategy[np.ndarray]:
    return st.lists(propensities, min_size=n_labels, max_size=n_labels).map(np.array)


@st.composite
def label_sets(draw: st.DrawFn, max_labels: int = 8) -> tuple[list[int], np.ndarray]:
    """The true labels of one instance out of L ≤ `max_labels`, and L propensities."""
    n_labels = draw(st.integers(1, max_labels))
    chosen = draw(st.sets(st.integers(0, n_labels - 1)))
    return sorted(chosen), draw(propensity_vectors(n_labels))


@st.composite
def label_matrices(draw: st.DrawFn, max_rows: int = 12, max_labels: int = 9) -> sp.csr_array:
    shape = (draw(st.integers(0, max_rows)), draw(st.integers(1, max_labels)))
    return sp.csr_array(draw(hnp.arrays(np.float32, shape, elements=st.sampled_from([0.0, 1.0]))))
