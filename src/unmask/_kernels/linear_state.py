"""State of the loops of the squared-hinge solver: codes, settings, and room to work in.

Named tuples of arrays, because that is what numba takes; a loop unpacks them first, since reading
a field inside a loop would count references each time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unmask._kernels.lanes import WIDTH

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Singles = NDArray[np.float32]
Doubles = NDArray[np.float64]

BLOCK = 4 * WIDTH
REACH = 1.2
FLOOR = -1.00001  # a margin this low is inactive whatever float32 did to it
NOTHING = 1e-3  # an objective below this fraction of one row's loss counts as zero
AHEAD = 8  # rows fetched before they are needed
FORGOTTEN = -9.0  # margin of the rows of a lane without a label

IDLE, RUNNING, LAST, CONVERGED, CONCAVE, EXHAUSTED = 0, 1, 2, 3, 4, 5

SUMS = {"reassoc", "contract", "nsz"}  # lets sums of independent terms use SIMD


class Rows(NamedTuple):
    """The features, CSR, float32."""

    indptr: Ints | Longs
    indices: Ints | NDArray[np.uint32]
    data: Singles


class Entries(NamedTuple):
    """The observed labels, label by label: rows `start[j]:start[j+1]` with weights pos and cut."""

    start: Longs
    rows: Ints
    pos: Doubles
    cut: Doubles


class Settings(NamedTuple):
    """C, the penalty of the bias (0 or 1), whether there is one, and when to stop."""

    cost: float
    penalty: float
    bias: bool
    tol: float
    forcing: float
    iterations: int


class Block(NamedTuple):
    """The state of `BLOCK` problems: margins are (n, BLOCK), weights (BLOCK, d+1)."""

    label: Longs
    status: Longs
    iterations: Longs
    objective: Doubles
    weights: Doubles
    direction: Doubles
    spread: Singles
    keep: Singles
    step: Singles
    shift: Singles
    z: Singles
    u: Singles
    candidates: Ints
    candidate_z: Singles
    candidate_u: Singles
    counts: Longs


class Scratch(NamedTuple):
    """Work space of one lane at a time: its rows, its active rows on the features they touch.

    `weight` is what a row counts where the label is not observed; `neg` is that of the lane's rows,
    less `cut` where it is observed.
    """

    z: Doubles
    u: Doubles
    place: Ints
    names: Ints
    start: Longs
    column: NDArray[np.uint32]
    value: Singles
    slope: Doubles
    curve: Doubles
    vectors: Doubles
    weight: Doubles
    neg: Doubles


def block(n: int, d: int) -> Block:
    """An empty block for n rows and d features."""
    lanes = (1, BLOCK)
    return Block(
        label=np.full(BLOCK, -1),
        status=np.zeros(BLOCK, dtype=np.int64),
        iterations=np.zeros(BLOCK, dtype=np.int64),
        objective=np.zeros(BLOCK),
        weights=np.zeros((BLOCK, d + 1)),
        direction=np.zeros((BLOCK, d + 1)),
        spread=np.zeros((d + 1, BLOCK), dtype=np.float32),
        keep=np.zeros(lanes, dtype=np.float32),
        step=np.zeros(lanes, dtype=np.float32),
        shift=np.full(lanes, FORGOTTEN, dtype=np.float32),
        z=np.zeros((n, BLOCK), dtype=np.float32),
        u=np.zeros((n, BLOCK), dtype=np.float32),
        candidates=np.empty((BLOCK, n), dtype=np.int32),
        candidate_z=np.empty((BLOCK, n), dtype=np.float32),
        candidate_u=np.empty((BLOCK, n), dtype=np.float32),
        counts=np.zeros(BLOCK, dtype=np.int64),
    )


def scratch(n: int, d: int, nnz: int, weight: Doubles | None = None) -> Scratch:
    """Work space for problems of this size; memory that is never touched costs nothing.

    Rows count 1 unless there are weights.
    """
    return Scratch(
        z=np.empty(n),
        u=np.empty(n),
        place=np.full(d, -1, dtype=np.int32),
        names=np.empty(d + 1, dtype=np.int32),
        start=np.empty(n + 1, dtype=np.int64),
        column=np.empty(nnz, dtype=np.uint32),
        value=np.empty(nnz, dtype=np.float32),
        slope=np.empty(n),
        curve=np.empty(n),
        vectors=np.empty((5, d + 1)),
        weight=np.ones(n) if weight is None else weight,
        neg=np.empty(n),
    )
