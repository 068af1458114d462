"""Sparse rows to text, one byte at a time.

A value is written with the fewest decimal places that read back as the same float32: w / 10^places
is one exact operation here and in `text`, so both see the same number. Nine significant digits
always suffice, hence 14 places from `LOWEST` on; sizes beyond the two bounds are left to Python.
"""

from __future__ import annotations

import numpy as np

from unmask._kernels.compiling import njit

LOWEST, HIGHEST = 1e-5, 1e9

_NEWLINE, _SPACE, _COMMA, _COLON, _MINUS, _POINT, _ZERO = 10, 32, 44, 58, 45, 46, 48
_POWERS = np.array([float(10**power) for power in range(16)])


@njit(cache=True, nogil=True)
def render(label_indptr, labels, indptr, columns, values, start, stop, by_python, out):
    """Rows start…stop as lines `l,l i:v i:v`; returns how many bytes of `out` were written.

    An empty `label_indptr` leaves the label list out. Values beyond `LOWEST` and `HIGHEST` stand
    in `by_python`, in their order, as zero-padded ASCII.
    """
    at = n_python = 0
    for row in range(start, stop):
        line = at
        if len(label_indptr) > 0:
            for k in range(label_indptr[row], label_indptr[row + 1]):
                at = _put_digits(out, at, labels[k], 1)
                out[at] = _COMMA
                at += 1
            at -= at > line  # the blank takes the place of the last comma
            out[at] = _SPACE
            at += 1
        for k in range(indptr[row], indptr[row + 1]):
            at = _put_digits(out, at, columns[k], 1)
            out[at] = _COLON
            at += 1
            size = abs(np.float64(values[k]))
            if size != 0 and not LOWEST <= size < HIGHEST:
                at = _put_bytes(out, at, by_python[n_python])
                n_python += 1
            else:
                at = _put_value(out, at, values[k])
            out[at] = _SPACE
            at += 1
        at -= at > line + 1  # no blank before the line's end, but for an empty row without labels
        out[at] = _NEWLINE
        at += 1
    return at


@njit(cache=True, nogil=True)
def _put_value(out, at, value):
    """The decimal with the fewest places that reads back as `value`."""
    if np.signbit(value):
        out[at] = _MINUS
        at += 1
    size = abs(np.float64(value))
    places = 0
    scaled = np.round(size)
    while np.float32(scaled / _POWERS[places]) != abs(value):
        places += 1
        scaled = np.round(size * _POWERS[places])
    number = np.int64(scaled)
    power = np.int64(_POWERS[places])
    at = _put_digits(out, at, number // power, 1)
    if places > 0:
        out[at] = _POINT
        at = _put_digits(out, at + 1, number % power, places)
    return at


@njit(cache=True, nogil=True)
def _put_digits(out, at, number, width):
    """`number` in decimal, with leading zeros up to `width`."""
    digits, rest = width, number // 10**width
    while rest > 0:
        digits += 1
        rest //= 10
    for place in range(at + digits - 1, at - 1, -1):
        out[place] = _ZERO + number % 10
        number //= 10
    return at + digits


@njit(cache=True, nogil=True)
def _put_bytes(out, at, written):
    for byte in written:
        if byte != 0:
            out[at] = byte
            at += 1
    return at
