"""Delimited text to fields, cells to names, names to numbers: loops over bytes.

`split` finds the fields of records, `cell_lengths` and `copy_cells` take a column out of them,
`pieces` cuts cells into names, `intern` gives every distinct name a number, `arrange` sorts the
numbers of each row, `decimals` reads a column of numbers. Offsets are bytes; a text that is final
ends with a line end, so that every loop stops.
"""

from __future__ import annotations

import numpy as np

from unmask._kernels.compiling import njit
from unmask._kernels.text import _number

FINE, FIELDS, AFTER_QUOTE, STRAY_QUOTE, EMPTY_NAME, BAD_NUMBER = 0, 1, 2, 3, 4, 5
PLAIN, QUOTED, DOUBLED = 0, 1, 2
NO_QUOTE, NO_DELIMITER = -1, 256

_NEWLINE, _RETURN, _SPACE, _TAB = 10, 13, 32, 9
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_ONE, _EIGHT = np.uint64(1), np.uint64(8)


@njit(cache=True, nogil=True)
def split(text, start, stop, separator, quote, strict, wanted, spans, kinds):
    """The records of text[start:stop] that are complete: (code, where, records, next byte, fields).

    `wanted[field]` is the place in `spans` (records × places × 2: first byte, byte after the last)
    and `kinds` for a field, −1 for one that nobody asked for. Empty lines are no records unless
    a record has one field. A quote opens a field only at its start; elsewhere it is an error if
    `strict`, else a character like others. The last byte must be a line end.
    """
    n_fields = len(wanted)
    ends = np.zeros(256, dtype=np.bool_)  # bytes at which an unquoted field may end
    ends[separator] = ends[_NEWLINE] = True
    if strict and quote >= 0:
        ends[quote] = True
    rows = 0
    position = start
    while position < stop:
        record = position
        if n_fields > 1 and _ends_line(text, position, stop):
            position += 1 + (text[position] == _RETURN)
            continue
        field = 0
        ended = False
        while not ended:
            if position >= stop:
                return FINE, record, rows, record, field
            kind = PLAIN
            begin = position
            if text[position] == quote:
                kind = QUOTED
                begin = position = position + 1
                while True:
                    while position < stop and text[position] != quote:
                        position += 1
                    if position + 2 >= stop and not (
                        position + 1 < stop and text[position + 1] == _NEWLINE
                    ):
                        return FINE, record, rows, record, field
                    if text[position + 1] != quote:
                        break
                    kind = DOUBLED
                    position += 2
                end = position
                position += 1
                if text[position] == _RETURN and text[position + 1] == _NEWLINE:
                    position += 1
                if text[position] != separator and text[position] != _NEWLINE:
                    return AFTER_QUOTE, position, rows, record, field
            else:
                position = _field_end(text, position, ends)
                if text[position] == quote:
                    return STRAY_QUOTE, position, rows, record, field
                end = position
                if text[position] == _NEWLINE and end > begin and text[end - 1] == _RETURN:
                    end -= 1
            if field < n_fields and wanted[field] >= 0:
                spans[rows, wanted[field], 0] = begin
                spans[rows, wanted[field], 1] = end
                kinds[rows, wanted[field]] = kind
            field += 1
            ended = text[position] == _NEWLINE
            position += 1
        if field != n_fields:
            return FIELDS, record, rows, record, field
        rows += 1
    return FINE, stop, rows, position, 0


@njit(cache=True, nogil=True)
def _field_end(text, position, ends):
    """The next byte of `ends`; unsigned, which spares a test for negative indices at every byte."""
    here = np.uint64(position)
    while not ends[text[here]]:
        here += _ONE
    return np.int64(here)


@njit(cache=True, nogil=True)
def _ends_line(text, position, stop):
    return text[position] == _NEWLINE or (
        text[position] == _RETURN and position + 1 < stop and text[position + 1] == _NEWLINE
    )


@njit(cache=True, nogil=True)
def cell_lengths(text, spans, kinds, quote, lengths):
    """The bytes of each cell, a doubled quote counted once."""
    for row in range(len(spans)):
        begin, end = spans[row, 0], spans[row, 1]
        lengths[row] = end - begin
        if kinds[row] == DOUBLED:
            position = begin
            while position < end:
                if text[position] == quote:
                    lengths[row] -= 1
                    position += 1
                position += 1


@njit(cache=True, nogil=True)
def copy_cells(text, spans, kinds, quote, out):
    """The cells one after the other."""
    filled = 0
    for row in range(len(spans)):
        position, end = spans[row, 0], spans[row, 1]
        if kinds[row] != DOUBLED:
            _copy(text, position, end, out, filled)
            filled += end - position
            continue
        while position < end:
            byte = text[position]
            out[filled] = byte
            filled += 1
            position += 1 + (byte == quote)


@njit(cache=True, nogil=True)
def _copy(source, begin, end, out, start):
    """source[begin:end] to out[start:]; a loop is faster than a slice for a few bytes."""
    i, stop, target = np.uint64(begin), np.uint64(end), np.uint64(start)
    while i < stop:
        out[target] = source[i]
        i += _ONE
        target += _ONE


@njit(cache=True, nogil=True)
def take_strings(data, offsets, rows, starts, out):
    """The strings with the numbers `rows`, from `starts` on in `out`."""
    for i in range(len(rows)):
        _copy(data, offsets[rows[i]], offsets[rows[i] + 1], out, starts[i])


@njit(cache=True, nogil=True)
def pieces(data, offsets, first, last, delimiter, spans, counts):
    """Cut the cells first … last − 1 at a byte: (code, cell, pieces).

    Blanks around a piece do not belong to it, and one delimiter may stand at the end; an empty
    piece elsewhere is an error, unless the delimiter is itself a blank. A cell of blanks has no
    pieces.
    """
    total = 0
    by_blanks = _blank(delimiter)
    for cell in range(first, last):
        begin, end = _trimmed(data, offsets[cell], offsets[cell + 1])
        if end > begin and data[end - 1] == delimiter:
            begin, end = _trimmed(data, begin, end - 1)
            if begin == end:
                return EMPTY_NAME, cell, total
        before = total
        while begin < end:
            stop = _piece_end(data, begin, end, delimiter)
            low, high = _trimmed(data, begin, stop)
            if low < high:
                spans[total, 0] = low
                spans[total, 1] = high
                total += 1
            if not by_blanks and (low == high or stop == end - 1):
                return EMPTY_NAME, cell, total
            begin = stop + 1
        counts[cell - first] = total - before
    return FINE, last, total


@njit(cache=True, nogil=True)
def _piece_end(data, begin, end, delimiter):
    here, last = np.uint64(begin), np.uint64(end)
    while here < last and data[here] != delimiter:
        here += _ONE
    return np.int64(here)


@njit(cache=True, nogil=True)
def _trimmed(data, begin, end):
    while begin < end and _blank(data[begin]):
        begin += 1
    while end > begin and _blank(data[end - 1]):
        end -= 1
    return begin, end


@njit(cache=True, nogil=True)
def _blank(byte):
    return byte == _SPACE or (_TAB <= byte <= _RETURN)


@njit(cache=True, nogil=True)
def intern(data, spans, first, seed, grow, slots, names, name_offsets, count, codes):
    """Number the strings spans[first:]; (the string that found no room, distinct strings).

    `slots` is a hash table of code + 1 (0: free), a power of two long and at most half full;
    distinct strings stand in `names` from name_offsets[code] to name_offsets[code + 1]. Without
    `grow`, a string that is not there gets −1.
    """
    mask = np.uint64(len(slots) - 1)
    for i in range(first, len(spans)):
        begin, end = spans[i, 0], spans[i, 1]
        place = _hash(data, begin, end, seed) & mask
        while True:
            code = slots[place] - 1
            if code < 0:
                if not grow:
                    codes[i] = -1
                    break
                filled = name_offsets[count]
                if 2 * (count + 1) > len(slots) or filled + end - begin > len(names):
                    return i, count
                _copy(data, begin, end, names, filled)
                name_offsets[count + 1] = filled + end - begin
                slots[place] = count + 1
                codes[i] = count
                count += 1
                break
            if _same(data, begin, end, names, name_offsets[code], name_offsets[code + 1]):
                codes[i] = code
                break
            place = (place + np.uint64(1)) & mask
    return len(spans), count


@njit(cache=True, nogil=True)
def fill_slots(names, name_offsets, count, seed, slots):
    """The hash table of strings that are all different."""
    mask = np.uint64(len(slots) - 1)
    for code in range(count):
        place = _hash(names, name_offsets[code], name_offsets[code + 1], seed) & mask
        while slots[place] != 0:
            place = (place + np.uint64(1)) & mask
        slots[place] = code + 1


@njit(cache=True, nogil=True)
def _hash(data, begin, end, seed):
    """Eight bytes at a time; `seed` keeps files from being made to collide."""
    value = seed ^ (np.uint64(end - begin) * _MULTIPLIER)
    position, stop = np.uint64(begin), np.uint64(end)
    while position + _EIGHT <= stop:
        word = np.uint64(0)
        for i in range(8):
            word = (word << _EIGHT) | np.uint64(data[position + np.uint64(i)])
        value = (value ^ word) * _MULTIPLIER
        value ^= value >> np.uint64(32)
        position += _EIGHT
    word = np.uint64(0)
    while position < stop:
        word = (word << _EIGHT) | np.uint64(data[position])
        position += _ONE
    value = (value ^ word) * _MULTIPLIER
    value ^= value >> np.uint64(32)
    value *= _MULTIPLIER
    return value ^ (value >> np.uint64(29))


@njit(cache=True, nogil=True)
def hashes(data, offsets, seed, out):
    """The hash of every string."""
    for i in range(len(out)):
        out[i] = _hash(data, offsets[i], offsets[i + 1], seed)


@njit(cache=True, nogil=True)
def _same(one, begin, end, other, first, last):
    if end - begin != last - first:
        return False
    i, j, stop = np.uint64(begin), np.uint64(first), np.uint64(end)
    while i < stop and one[i] == other[j]:
        i += _ONE
        j += _ONE
    return i == stop


@njit(cache=True, nogil=True)
def arrange(indices, indptr, start, stop):
    """Sort the indices of the rows start … stop − 1; the first row that has one twice, or −1."""
    repeated = -1
    for row in range(start, stop):
        begin, end = indptr[row], indptr[row + 1]
        if end - begin > 32:
            indices[begin:end].sort()
        else:
            for i in range(begin + 1, end):
                moved = indices[i]
                j = i
                while j > begin and indices[j - 1] > moved:
                    indices[j] = indices[j - 1]
                    j -= 1
                indices[j] = moved
        for i in range(begin + 1, end):
            if repeated < 0 and indices[i] == indices[i - 1]:
                repeated = row
    return repeated


@njit(cache=True, nogil=True)
def decimals(data, spans, values, slow):
    """A number in every cell: (code, cell, number of slow ones); blanks around it are allowed.

    `slow` receives the cells that Python must read; after every cell stands a line end.
    """
    n_slow = 0
    for cell in range(len(values)):
        begin, end = _trimmed(data, spans[cell, 0], spans[cell, 1])
        value, status, position = _number(data, begin)
        if status == 2 or position != end or begin == end:
            return BAD_NUMBER, cell, n_slow
        if status == 1:
            slow[n_slow] = cell
            n_slow += 1
        values[cell] = value
    return FINE, len(values), n_slow
