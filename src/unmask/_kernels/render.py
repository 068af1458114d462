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
    position = n_python = 0
    for row in range(start, stop):
        line = position
        if len(label_indptr) > 0:
            for k in range(label_indptr[row], label_indptr[row + 1]):
                position = _put_digits(out, position, labels[k], 1)
                out[position] = _COMMA
                position += 1
            position -= position > line  # the blank takes the place of the last comma
            out[position] = _SPACE
            position += 1
        for k in range(indptr[row], indptr[row + 1]):
            position = _put_digits(out, position, columns[k], 1)
            out[position] = _COLON
            position += 1
            size = abs(np.float64(values[k]))
            if size != 0 and not LOWEST <= size < HIGHEST:
                position = _put_bytes(out, position, by_python[n_python])
                n_python += 1
            else:
                position = _put_value(out, position, values[k])
            out[position] = _SPACE
            position += 1
        position -= (
            position > line + 1
        )  # no blank before the line's end, but for an empty row without labels
        out[position] = _NEWLINE
        position += 1
    return position


@njit(cache=True, nogil=True)
def _put_value(out, position, value):
    """The decimal with the fewest places that reads back as `value`."""
    if np.signbit(value):
        out[position] = _MINUS
        position += 1
    size = abs(np.float64(value))
    places = 0
    scaled = np.round(size)
    while np.float32(scaled / _POWERS[places]) != abs(value):
        places += 1
        scaled = np.round(size * _POWERS[places])
    number = np.int64(scaled)
    power = np.int64(_POWERS[places])
    position = _put_digits(out, position, number // power, 1)
    if places > 0:
        out[position] = _POINT
        position = _put_digits(out, position + 1, number % power, places)
    return position


@njit(cache=True, nogil=True)
def _put_digits(out, position, number, width):
    """`number` in decimal, with leading zeros up to `width`."""
    digits, rest = width, number // 10**width
    while rest > 0:
        digits += 1
        rest //= 10
    for place in range(position + digits - 1, position - 1, -1):
        out[place] = _ZERO + number % 10
        number //= 10
    return position + digits


@njit(cache=True, nogil=True)
def _put_bytes(out, position, written):
    for byte in written:
        if byte != 0:
            out[position] = byte
            position += 1
    return position
