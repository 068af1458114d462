"""Arguments of a metric's kernel: one block of rows, prepared, by name.

A pass over the rows (`_kernels.metrics`) goes block by block. It finds the hits of a block once,
reads the propensities as each *view* does (1/p as min(1 + τ(1/p − 1), clip), so τ = 0 is vanilla
and τ = 1 unbiased), and then calls `function(block, out, *columns)` of every `Kernel` that was
asked for. Such a function fills `out[column + c, i]` for every row i < `block.n_rows` of the block
and every cut-off `block.ks[c]`; a form that was not asked for has a negative column.

Where is each prediction among the labels of its row? And what is left of those.

This is the one expensive fact of an evaluation. Labels of a row are sorted; their inverse
propensities stand in `own[begin], own[begin + 1], …` in the same order. In a block of rows,
`spots[r, i]` is the position of the prediction at place r among the labels of row i, −1 if it is
none of them.

Exact sums of floating-point columns: the answer does not depend on how the rows are cut up.

A block of rows is summed by error-free extraction (Rump, Ogita & Oishi, *Accurate floating-point
summation*, SIAM J. Sci. Comput. 2008): with σ a power of two above n · max |x|, the high parts
q = (σ + x) − σ add up without rounding, and x − q is what is left for the next round. The block's
exact parts go into a list of non-overlapping partial sums (Shewchuk 1997). Whatever the order,
the partial sums stand for the same real number, so `math.fsum` of them is the same double.
"""

from __future__ import annotations

import math
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
"""Things that a kernel reads beside the hits: see `Kernel`."""

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
    """Settings by which the subsampled baseline draws."""

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
    """Return what decides the type that numba gives an argument."""
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


NOTHING = np.int32(-2)  # no label, and not the −1 of an empty place
SHORT = 24  # labels of a row that are simply all compared


@bare
def locate(
    indices: Indices, begin: int, size: int, top: Indices, row: int, spots: Ints, i: int
) -> int:
    """Fill `spots[:, i]` for a row; the number of hits."""
    places = spots.shape[0]
    listed, hit_count = min(places, top.shape[1]), 0
    for r in range(listed, places):
        spots[r, i] = -1
    if size > SHORT:
        for r in range(listed):
            spots[r, i] = _position(indices, begin, size, top[row, r])
            hit_count += spots[r, i] >= 0
    else:
        for r in range(0, listed, 5):
            hit_count += _locate_five(indices, begin, size, top, row, r, listed, spots, i)
    return hit_count


@bare
def _locate_five(
    indices: Indices, begin: int, size: int, top: Indices, row: int, r: int, listed: int,
    spots: Ints, i: int,
) -> int:  # fmt: skip
    """Five predictions against all labels of a short row, without a branch to guess."""
    a = top[row, r]
    b = top[row, r + 1] if r + 1 < listed else NOTHING
    c = top[row, r + 2] if r + 2 < listed else NOTHING
    d = top[row, r + 3] if r + 3 < listed else NOTHING
    e = top[row, r + 4] if r + 4 < listed else NOTHING
    at_a, at_b, at_c, at_d, at_e = -1, -1, -1, -1, -1
    start = np.uint64(begin)
    for j in range(size):
        label = indices[start + np.uint64(j)]
        at_a = j if label == a else at_a
        at_b = j if label == b else at_b
        at_c = j if label == c else at_c
        at_d = j if label == d else at_d
        at_e = j if label == e else at_e
    spots[r, i] = at_a
    if r + 1 < listed:
        spots[r + 1, i] = at_b
    if r + 2 < listed:
        spots[r + 2, i] = at_c
    if r + 3 < listed:
        spots[r + 3, i] = at_d
    if r + 4 < listed:
        spots[r + 4, i] = at_e
    return (at_a >= 0) + (at_b >= 0) + (at_c >= 0) + (at_d >= 0) + (at_e >= 0)


@bare
def _position(indices: Indices, begin: int, size: int, label: int) -> int:
    low, high = begin, begin + size - 1
    while low < high:
        middle = (low + high) >> 1
        if indices[middle] < label:
            low = middle + 1
        else:
            high = middle
    return low - begin if indices[low] == label else -1


@bare
def listed(top: Indices, row: int, places: int) -> int:
    """Count the first places that hold a prediction."""
    predicted: int = min(places, top.shape[1])
    while predicted > 0 and top[row, predicted - 1] < 0:
        predicted -= 1
    return predicted


@bare
def view_of(inverse: float, tau: float, clip: float) -> float:
    """Return 1/p as a view reads it: min(1 + τ(1/p − 1), clip)."""
    if tau != 1.0:
        inverse = 1.0 + tau * (inverse - 1.0)
    return min(inverse, clip)


@bare
def read_hits(block: Block) -> None:
    """The view's inverse propensity of every prediction that is a label, 0 for the others."""
    spots, own, begins, hits = block.spots, block.own, block.begins, block.hits
    tau, clip, count = block.tau, block.clip, block.n_rows
    for r in range(spots.shape[0]):
        if tau == 0.0:
            for i in range(count):
                hits[r, i] = 1.0 if spots[r, i] >= 0 else 0.0
        else:
            for i in range(count):  # reads a number even without a hit: no branch to guess
                q = view_of(own[np.uint64(begins[i] + max(spots[r, i], 0))], tau, clip)
                hits[r, i] = q if spots[r, i] >= 0 else 0.0


@bare
def read_rest(block: Block, without_hits: bool) -> None:
    """The view's inverse propensities of the observed labels that were not predicted.

    Rows without a hit are left out unless asked for.
    """
    spots, own, is_free, rest = block.spots, block.own, block.scratch.is_free, block.rest
    tau, clip = block.tau, block.clip
    for i in range(block.n_rows):
        if block.hit_counts[i] == 0 and not without_hits:
            continue
        begin, size, left, total = block.begins[i], block.sizes[i], 0, 0.0
        for j in range(size):
            is_free[j] = True
        for r in range(spots.shape[0]):
            if spots[r, i] >= 0:
                is_free[spots[r, i]] = False
        for j in range(size):  # written even if predicted, then overwritten: no branch to guess
            q = view_of(own[begin + j], tau, clip) if tau else 1.0
            rest[begin + left] = q
            total += q if is_free[j] else 0.0
            left += is_free[j]
        block.rest_counts[i], block.rest_sums[i] = left, total


@bare
def largest_first(block: Block) -> None:
    """The view's largest inverse propensities of a row in place of its hits, zeros after the last.

    Five places at a time are held in registers, where a larger number pushes the others on; what
    falls off the fifth is left in `rest` for the next five.
    """
    hits, rest = block.hits, block.rest
    places = hits.shape[0]
    for i in range(block.n_rows):
        begin = np.uint64(block.begins[i])
        end = begin + np.uint64(block.sizes[i])
        for j in range(begin, end):
            rest[j] = view_of(block.own[j], block.tau, block.clip) if block.tau else 1.0
        for r in range(0, places, 5):
            a, b, c, d, e = 0.0, 0.0, 0.0, 0.0, 0.0
            for j in range(begin, end):
                x = rest[j]
                a, x = max(a, x), min(a, x)
                b, x = max(b, x), min(b, x)
                c, x = max(c, x), min(c, x)
                d, x = max(d, x), min(d, x)
                e, x = max(e, x), min(e, x)
                rest[j] = x
            hits[r, i] = a
            if r + 1 < places:
                hits[r + 1, i] = b
            if r + 2 < places:
                hits[r + 2, i] = c
            if r + 3 < places:
                hits[r + 3, i] = d
            if r + 4 < places:
                hits[r + 4, i] = e


BLOCK = 512  # rows summed at a time
PARTIALS = 42  # doubles that do not overlap: at most 2098 / 53 of them, plus room to work
LARGEST = 16  # how many of the largest |x| are remembered per column
LIMIT = 1e140  # contributions are held within ±LIMIT, so that sums of squares stay finite

SUM, SQUARES, ABSOLUTE = 0, 1, 2
NEXT = 2.0 * BLOCK * 2.0**-53  # from one level of high parts to the next

# Sums that are exact, or need not be, may be taken in any order: by vector instructions.
# Such loops run over unsigned rows: a row that may be negative would count from the end, and the
# question whether it does, asked for every number, keeps them from being vector instructions.
any_order = njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc"})


@any_order
def _size(values: Floats, c: int, start: int, stop: int) -> float:
    total = 0.0
    for i in range(np.uint64(start), np.uint64(stop)):
        total += abs(values[c, i])
    return total


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})
def _extremes(values: Floats, c: int, start: int, stop: int) -> tuple[float, float]:
    """The largest |x| and the smallest x or 0; all are numbers by now."""
    high, low = 0.0, 0.0
    for i in range(np.uint64(start), np.uint64(stop)):
        high = max(high, abs(values[c, i]))
        low = min(low, values[c, i])
    return high, low


@njit(cache=True, nogil=True)
def add_block(
    values: Floats, start: int, stop: int, full: int, partials: Floats, largest: Floats
) -> None:
    """Add rows start … stop, at most BLOCK.

    Every column gets its Σx, the first `full` of them also Σx², Σ|x| and the largest |x|. Values
    are held within ±LIMIT, where they stand; what is not a number (an overflow times zero) becomes
    LIMIT.
    """
    for c in range(values.shape[0]):  # column by column: one stays near while it is read again
        size = _size(values, c, start, stop)
        if not size <= LIMIT:
            for i in range(start, stop):
                x = values[c, i]
                if not abs(x) <= LIMIT:
                    values[c, i] = -LIMIT if x < 0 else LIMIT
            size = _size(values, c, start, stop)
        peak, least = _extremes(values, c, start, stop)
        if size == 0.0:
            continue
        both = c < full and least >= 0.0  # then x is |x|
        _extract(values, c, start, stop, size, SUM, ABSOLUTE if both else SUM, partials)
        if c >= full:
            continue
        if not both:
            _extract(values, c, start, stop, size, ABSOLUTE, ABSOLUTE, partials)
        _extract(values, c, start, stop, size * peak, SQUARES, SQUARES, partials)
        if peak > largest[c, LARGEST - 1]:
            for i in range(start, stop):
                insert(abs(values[c, i]), largest[c])


@bare
def insert(x: float, largest: Floats) -> None:
    """Keep `largest` the descending list of the largest numbers."""
    place = largest.size - 1
    if x <= largest[place]:
        return
    while place > 0 and largest[place - 1] < x:
        largest[place] = largest[place - 1]
        place -= 1
    largest[place] = x


@njit(cache=True, nogil=True)
def _extract(
    values: Floats,
    c: int,
    start: int,
    stop: int,
    size: float,
    kind: int,
    also: int,
    partials: Floats,
) -> None:
    """Add the exact sum of a column's x, x² or |x| (of about this size) to one or two kinds.

    Two levels of high parts reach 96 bits below σ; a column that needs more goes deeper.
    """
    sigma = 2.0 * _power_of_two(size)
    first, second, left = _levels(values, c, start, stop, sigma, kind)
    for each in range(3):
        if each in (kind, also):
            add(partials, c, each, first)
            add(partials, c, each, second)
            if left > 0.0:
                _deeper(values, c, start, stop, kind, sigma, each, partials)


@any_order
def _levels(
    values: Floats, c: int, start: int, stop: int, sigma: float, kind: int
) -> tuple[float, float, float]:
    """Σ of the first and of the second high parts, both exact, and about what they leave."""
    first, second, left = 0.0, 0.0, 0.0
    if kind == SUM:
        for i in range(np.uint64(start), np.uint64(stop)):
            high, x = _split(sigma, values[c, i])
            first += high
            high, x = _split(sigma * NEXT, x)
            second += high
            left += abs(x)
    elif kind == SQUARES:
        for i in range(np.uint64(start), np.uint64(stop)):
            high, x = _split(sigma, values[c, i] * values[c, i])
            first += high
            high, x = _split(sigma * NEXT, x)
            second += high
            left += abs(x)
    else:
        for i in range(np.uint64(start), np.uint64(stop)):
            high, x = _split(sigma, abs(values[c, i]))
            first += high
            high, x = _split(sigma * NEXT, x)
            second += high
            left += abs(x)
    return first, second, left


@bare
def _split(sigma: float, x: float) -> tuple[float, float]:
    """The part of x that is a multiple of σ's last digit, and the rest."""
    high = (sigma + x) - sigma
    return high, x - high


@njit(cache=True, nogil=True)
def _deeper(
    values: Floats, c: int, start: int, stop: int, kind: int, sigma: float, each: int,
    partials: Floats,
) -> None:  # fmt: skip
    """Add what two levels leave of one column to its partial sums."""
    count = stop - start
    rest = np.empty(count)
    for i in range(count):
        x = values[c, start + i]
        x = x * x if kind == SQUARES else (abs(x) if kind == ABSOLUTE else x)
        _, x = _split(sigma, x)
        _, rest[i] = _split(sigma * NEXT, x)
    left = 1.0
    sigma *= NEXT * NEXT
    while left > 0.0:
        left, total = 0.0, 0.0
        for i in range(count):
            high, rest[i] = _split(sigma, rest[i])
            total += high
            left += abs(rest[i])
        add(partials, c, each, total)
        sigma *= NEXT


@bare
def _power_of_two(x: float) -> float:
    """A power of two above x, at most twice x; 0 for 0."""
    _, exponent = math.frexp(x)
    return math.ldexp(1.0, exponent) if x > 0.0 else 0.0


@bare
def add(partials: Floats, column: int, kind: int, x: float) -> None:
    """Add x to a column's list of non-overlapping doubles (smallest first, zeros after)."""
    if x == 0.0:
        return
    kept = 0
    for i in range(PARTIALS):
        y = partials[column, kind, i]
        if y == 0.0:
            break
        partials[column, kind, i] = 0.0
        if abs(x) < abs(y):
            x, y = y, x
        high = x + y
        low = y - (high - x)
        if low != 0.0:
            partials[column, kind, kept] = low
            kept += 1
        x = high
    partials[column, kind, kept] = x


@njit(cache=True, nogil=True)
def merge(partials: Floats, largest: Floats, others: Floats, others_largest: Floats) -> None:
    """Add one state to another."""
    for c in range(partials.shape[0]):
        for kind in range(partials.shape[1]):
            for i in range(partials.shape[2]):
                if others[c, kind, i] != 0.0:
                    add(partials, c, kind, others[c, kind, i])
        for i in range(LARGEST):
            insert(others_largest[c, i], largest[c])


@bare
def add_groups(values: Floats, start: int, stop: int, first_row: int, groups: Floats) -> None:
    """Add row i to group (first_row + i) mod M, in doubled precision: groups (2, M, columns)."""
    modulus = groups.shape[1]
    for i in range(start, stop):
        g = (first_row + i) % modulus
        for c in range(values.shape[0]):
            x = values[c, i]
            old = groups[0, g, c]
            new = old + x
            part = new - old
            groups[0, g, c] = new
            groups[1, g, c] += (old - (new - part)) + (x - part)
