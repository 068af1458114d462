"""What a metric's kernel is given: one block of rows, prepared, by name.

A pass over the rows (`_kernels.metrics`) goes block by block. It finds the hits of a block once,
reads the propensities as each *view* does (1/p as min(1 + τ(1/p − 1), clip), so τ = 0 is vanilla
and τ = 1 unbiased), and then calls `function(block, out, *columns)` of every `Kernel` that was
asked for. Such a function fills `out[column + c, i]` for every row i < `block.n_rows` of the block
and every cut-off `block.ks[c]`; a form that was not asked for has a negative column.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from unmask._kernels.compiling import njit
from unmask._typing import Array, Bools, Floats, Ints

Indices = NDArray[np.integer]

Need = Literal[
    "rest",
    "every rest",
    "ideal",
    "largest",
    "quadrature",
    "set quadrature",
    "long quadrature",
    "scores",
]
"""What a kernel reads beside the hits: see `Kernel`."""

# Without reference counts, which two threads would wait for several times per row; such functions
# must not allocate or slice.
bare = njit(cache=True, nogil=True, error_model="numpy", forceinline=True, _nrt=False)


@dataclass(frozen=True)
class Kernel:
    """A compiled function and the forms that it fills, in the order of its column arguments.

    Parameters
    ----------
    forms
        Names of the forms; forms that share most of their work are filled in one go.
    function
        `function(block, out, *columns)`, compiled, with one column per form.
    vanilla
        A shorter way to the same numbers for a view in which every 1/p reads as 1, if there is one.
    needs
        What `function` reads beside the hits. "rest": the observed labels that were not predicted
        (`block.rest`), in rows with a hit; "every rest": in all rows; "ideal": 1/IDCG
        (`block.ideal`); "quadrature": rules for rows of every length (`block.tables`), "set
        quadrature" and "long quadrature" also for those of m labels and s predictions: m + s, and
        m + 4s and 4m + s; "scores": those of every label (`block.scores`). With
        "largest", `block.hits` holds the largest 1/p of every row in place of those of its hits:
        what the best ranking would score.
    """

    forms: tuple[str, ...]
    function: Callable[..., None]
    vanilla: Callable[..., None] | None = None
    needs: tuple[Need, ...] = ()


class Rows(NamedTuple):
    """All rows of a pass: labels as CSR, predictions (n, width), inverse propensities."""

    indptr: Ints
    indices: Indices
    top: Indices
    inverse: Floats  # per label, or per stored label
    per_entry: bool  # which of the two
    first_row: int  # number of the first row
    scores: Array  # (n, L), or (0, 0) if no kernel reads them


class Tables(NamedTuple):
    """Numbers that depend on k and on the lengths of rows alone."""

    discount: Floats  # 1 / log2(1 + rank)
    inverse_ideal: Floats  # 1 / IDCG(0 … k); 0 for 0
    nodes: Floats  # Gauss–Legendre on [0, 1]: the rule of n nodes begins at starts[n]
    weights: Floats
    starts: Ints
    n_labels: int  # L


class Draws(NamedTuple):
    """How the subsampled baseline draws."""

    limit: int  # rows with more labels are thinned
    repeats: int
    seed: int


class Scratch(NamedTuple):
    """Space to work in: a few numbers per row of the block, and what a single row needs."""

    total: Floats
    none: Floats
    predicted: Floats  # [r, i]: 1/p of the prediction at place r, where rows are counted
    row_hits: Floats
    hit_units: Ints  # per place, 1/p of a hit as a whole number (`deconvolution.fixed`), or 0
    after: Floats
    is_free: Bools
    shared: Floats
    without_one: Floats
    score: Floats  # of the observed labels of a row …
    rank: Floats  # … their ranks …
    weight: Floats  # … and 1/p …
    below: Floats  # … with one place more


class Block(NamedTuple):
    """Rows of a block as one view reads them; place r and row i count from 0."""

    ks: Ints  # the cut-offs, ascending
    first: int  # first row of the block among the rows of the pass
    number: int  # the same among all rows ever passed
    n_rows: int  # rows in the block
    tau: float
    clip: float
    hits: Floats  # [r, i]: 1/p of the prediction at place r if it was observed, else 0
    spots: Ints  # [r, i]: its position among the labels of the row, −1 if it is none of them
    hit_counts: Ints  # [i]: observed labels among the predictions
    listed: Ints  # [i]: predictions in the list
    sizes: Ints  # [i]: observed labels
    begins: Ints  # [i]: where the labels of row i begin in `own` and `rest`
    own: Floats  # 1/p of the observed labels, not yet read as the view does
    labels: Ints  # their numbers, where scores are read
    scores: Floats  # [i, label], where they are read
    rest: Floats  # 1/p of the observed labels that were not predicted, …
    rest_counts: Ints  # … how many per row …
    rest_sums: Floats  # … and their sums
    ideal: Floats  # [c, i]: 1/IDCG(min(k, sizes[i])); 0 without labels
    tables: Tables
    draws: Draws
    scratch: Scratch


def machine_code(function: Callable[..., Any], *arguments: object) -> Callable[..., Any]:
    """The function compiled for arguments of exactly these types.

    numba would find it anew in every call, which takes ten times as long as the call itself; to
    name the types of a block takes numba a millisecond, so layouts stand for them here.
    """
    compile_for = getattr(function, "compile", None)  # not with NUMBA_DISABLE_JIT
    if compile_for is None:
        return function
    key = (function, *map(_layout, arguments))
    code = _COMPILED.get(key)
    if code is None:
        code = _COMPILED[key] = compile_for(tuple(numba.typeof(each) for each in arguments))
    return code


_COMPILED: dict[tuple[object, ...], Callable[..., Any]] = {}


def _layout(argument: object) -> object:
    """What decides the type that numba gives an argument."""
    if isinstance(argument, np.ndarray):
        return argument.dtype, argument.ndim, argument.flags.num & _FLAGS
    if isinstance(argument, Block):  # the rest is as `empty_block` makes it
        return Block, _layout(argument.ks), _layout(argument.tables)
    if isinstance(argument, tuple):
        return type(argument), *map(_layout, argument)
    return type(argument)


_FLAGS = 0x0001 | 0x0100 | 0x0400  # C-contiguous, aligned, writeable


def empty_block(
    ks: Ints, rows: int, entries: int, longest: int, tables: Tables, draws: Draws, scored: int = 0
) -> Block:
    """Space for blocks of up to so many rows with up to so many labels, `longest` in one row.

    `scored` is the number of labels that have scores, 0 if nobody reads them.
    """
    places, stride = int(ks[-1]) if ks.size else 0, rows + 8  # powers of two share cache lines
    lower = max(places - 1, 1)
    scratch = Scratch(
        total=np.empty(stride),
        none=np.empty(stride),
        predicted=np.empty((places, stride)),
        row_hits=np.empty(places),
        hit_units=np.empty(places, np.int64),
        after=np.empty(places + 1),
        is_free=np.empty(longest, np.bool_),
        shared=np.empty(lower),
        without_one=np.empty(lower),
        score=np.empty(longest),
        rank=np.empty(longest),
        weight=np.empty(longest),
        below=np.empty(longest + 1),
    )
    return Block(
        ks=ks,
        first=0,
        number=0,
        n_rows=0,
        tau=0.0,
        clip=np.inf,
        hits=np.empty((places, stride)),
        spots=np.empty((places, stride), np.int64),
        hit_counts=np.empty(stride, np.int64),
        listed=np.empty(stride, np.int64),
        sizes=np.empty(stride, np.int64),
        begins=np.empty(stride, np.int64),
        own=np.empty(entries),
        labels=np.empty(entries if scored else 0, np.int64),
        scores=np.empty((rows if scored else 0, scored)),
        rest=np.empty(entries),
        rest_counts=np.empty(stride, np.int64),
        rest_sums=np.empty(stride),
        ideal=np.empty((ks.size, stride)),
        tables=tables,
        draws=draws,
        scratch=scratch,
    )
