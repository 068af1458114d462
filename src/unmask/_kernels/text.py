"""Text to sparse rows, one byte at a time.

A *layout* says what a line may hold (blanks are spaces and tabs; a line ends with \\n or \\r\\n):

    XC      `l,l,l f:v f:v`   labels, then features; a row without labels starts with a blank
    LIBSVM  the same without header; `:v` may be left out (1); `#` starts a comment; no empty line
    PAIRS   `i:v i:v`         one matrix
    LABELS  `l:1 l:1`, `l l` or `l,l`   one binary matrix

Numbers. An index is ASCII digits. A value is `[+-]digits[.digits][e[+-]digits]` and means
float32(float(token)): up to 2^53 and ten to the ±22 one float64 operation is exact (Clinger 1990).
Otherwise x carries a relative error below 4·2^-53, and if x(1 ± 1e-15) round to one float32, that
is the answer; the rare rest is left to Python, in `slow`.

Bounds. The text must end with a line end (`parse` and `whole_numbers` look). Every loop over bytes
stops at one and every look ahead happens at another byte, so nothing is read beyond it.
"""

from __future__ import annotations

import numpy as np

from unmask._kernels.compiling import njit

XC, LIBSVM, PAIRS, LABELS = 0, 1, 2, 3

FINE, BAD_INDEX, BAD_LABEL, HIGH_INDEX, HIGH_LABEL, NO_VALUE, BAD_VALUE = 0, 1, 2, 3, 4, 5, 6
TWICE_INDEX, TWICE_LABEL, NOT_ONE, BLANK_LINE, NO_LINE_END = 7, 8, 9, 10, 11

_EXACT, _SLOW, _BAD = 0, 1, 2

_NEWLINE, _RETURN, _SPACE, _TAB = 10, 13, 32, 9
_COMMA, _COLON, _HASH, _PLUS, _MINUS, _POINT = 44, 58, 35, 43, 45, 46
_ZERO, _NINE, _E, _e = 48, 57, 69, 101

_HUGE, _LARGE = 1 << 61, 1 << 57
_POWERS = np.array([float(f"1e{power}") for power in range(91)])


@njit(cache=True, nogil=True)
def parse(
    text, start, stop, layout, base, limit, label_base, label_limit,
    label_counts, labels, counts, columns, values, slow,
):  # fmt: skip
    """Read the lines in text[start:stop] into the given arrays, which must be large enough.

    Returns (code, where, lines, rows, number of labels, number of entries, number of slow values).
    On an error `where` is the byte at which the offending token starts. Columns and labels are
    counted from `base` and `label_base` and must lie below their limits. `slow` receives
    (row, column, byte) of values that are still to be read by Python.
    """
    lines = rows = n_labels = n_entries = n_slow = 0
    position = start
    if stop > start and text[stop - 1] != _NEWLINE:
        return NO_LINE_END, stop, lines, rows, n_labels, n_entries, n_slow
    while position < stop:
        lines += 1
        if layout == LIBSVM and text[position] == _HASH:
            position = _next_line(text, position)
            continue
        if layout == LIBSVM and _line_ends(text, position):
            return BLANK_LINE, position, lines, rows, n_labels, n_entries, n_slow
        first_label, first_entry = n_labels, n_entries

        if layout <= LIBSVM and not _blank(text[position]) and not _line_ends(text, position):
            code, position, n_labels = _label_list(
                text, position, layout, label_base, label_limit, labels, n_labels
            )
            if code != FINE:
                return code, position, lines, rows, n_labels, n_entries, n_slow
        code, position, n_entries, n_slow = _entries(
            text, position, layout, base, limit, columns, values, n_entries, rows, slow, n_slow
        )
        if code != FINE:
            return code, position, lines, rows, n_labels, n_entries, n_slow

        label_counts[rows] = n_labels - first_label
        counts[rows] = n_entries - first_entry
        rows += 1
        position = _next_line(text, position)
    return FINE, stop, lines, rows, n_labels, n_entries, n_slow


@njit(cache=True, nogil=True)
def _label_list(text, position, layout, base, limit, labels, n_labels):
    """`l,l,l` up to a blank or the line's end; a token `f:v` in its place means "no labels"."""
    line, first = position, n_labels
    rising = True
    while True:
        token = position
        index, position = _index(text, position)
        if index < 0:
            return BAD_LABEL, token, n_labels
        if text[position] == _COLON and token == line:
            return FINE, line, n_labels
        continues = text[position] == _COMMA
        if not continues and not _token_ends(text, position, layout):
            return BAD_LABEL, token, n_labels
        if index < base or index - base >= limit:
            return HIGH_LABEL, token, n_labels
        labels[n_labels] = index - base
        rising = rising and (n_labels == first or labels[n_labels - 1] < labels[n_labels])
        n_labels += 1
        if not continues:
            break
        position += 1
    if not rising:
        twice = _sort(labels[first:n_labels], np.empty(0, dtype=np.float32))
        if twice >= 0:
            return TWICE_LABEL, _find(text, line, position, twice + base, 2), n_labels
    return FINE, position, n_labels


@njit(cache=True, nogil=True)
def _entries(text, position, layout, base, limit, columns, values, n_entries, row, slow, n_slow):
    """`i:v i:v …` up to the line's end (or a comment); (code, where, entries, slow values)."""
    line, first = position, n_entries
    rising = True
    while True:
        while _blank(text[position]):
            position += 1
        if _line_ends(text, position) or (layout == LIBSVM and text[position] == _HASH):
            break
        token = position
        index, position = _index(text, position)
        if index < 0:
            return BAD_INDEX, token, n_entries, n_slow
        value, status = np.float32(1.0), _EXACT
        number = position + 1
        if text[position] == _COLON:
            digit = np.int64(text[number]) - _ZERO
            if 0 <= digit <= 9 and _blank(text[number + 1]):  # counts: half as fast again
                value, position = np.float32(digit), number + 1
            else:
                value, status, position = _number(text, number)
            if status == _BAD or not _token_ends(text, position, layout):
                return BAD_VALUE, token, n_entries, n_slow
        elif not _token_ends(text, position, layout):
            return BAD_INDEX, token, n_entries, n_slow
        elif layout in (XC, PAIRS):
            return NO_VALUE, token, n_entries, n_slow
        if index < base or index - base >= limit:
            return HIGH_INDEX, token, n_entries, n_slow
        if layout == LABELS and status == _EXACT and value != 1:
            return NOT_ONE, token, n_entries, n_slow
        if status == _SLOW:
            slow[n_slow, 0] = row
            slow[n_slow, 1] = index - base
            slow[n_slow, 2] = number
            n_slow += 1
        columns[n_entries] = index - base
        values[n_entries] = value
        rising = rising and (n_entries == first or columns[n_entries - 1] < columns[n_entries])
        n_entries += 1
        if layout == LABELS and text[position] == _COMMA:
            position += 1
            if not _ZERO <= text[position] <= _NINE:
                return BAD_INDEX, position - 1, n_entries, n_slow
    if not rising:
        twice = _sort(columns[first:n_entries], values[first:n_entries])
        if twice >= 0:
            return TWICE_INDEX, _find(text, line, position, twice + base, 2), n_entries, n_slow
    return FINE, position, n_entries, n_slow


@njit(cache=True, nogil=True)
def _blank(byte):
    return byte in (_SPACE, _TAB)


@njit(cache=True, nogil=True)
def _line_ends(text, position):
    return text[position] == _NEWLINE or (
        text[position] == _RETURN and text[position + 1] == _NEWLINE
    )


@njit(cache=True, nogil=True)
def _token_ends(text, position, layout):
    if _line_ends(text, position) or _blank(text[position]):
        return True
    return (layout == LIBSVM and text[position] == _HASH) or (
        layout == LABELS and text[position] == _COMMA
    )


@njit(cache=True, nogil=True)
def _next_line(text, position):
    while text[position] != _NEWLINE:
        position += 1
    return position + 1


@njit(cache=True, nogil=True)
def _index(text, position):
    """(whole number, byte after it); −1 without a digit; beyond 2^61 it only stays large."""
    digit = np.int64(text[position]) - _ZERO
    if not 0 <= digit <= 9:
        return -1, position
    number = np.int64(0)
    while 0 <= digit <= 9:
        number = number * 10 + digit if number < _LARGE else np.int64(_HUGE)
        position += 1
        digit = np.int64(text[position]) - _ZERO
    return number, position


@njit(cache=True, nogil=True)
def _number(text, position):
    """(float32, exact / slow / bad, byte after it) for a decimal number."""
    negative = text[position] == _MINUS
    position += negative or text[position] == _PLUS
    mantissa, dropped, first, position = _digits(text, position, 0)
    digits, exponent, cut = position - first, dropped, dropped > 0
    if text[position] == _POINT:
        mantissa, dropped, first, position = _digits(text, position + 1, mantissa)
        digits += position - first
        exponent -= position - first - dropped
        cut = cut or dropped > 0
    if digits == 0:
        return np.float32(0), _BAD, position
    if text[position] == _E or text[position] == _e:
        position += 1
        below = text[position] == _MINUS
        position += below or text[position] == _PLUS
        shift, position = _index(text, position)
        if shift < 0:
            return np.float32(0), _BAD, position
        exponent += -shift if below else shift
    value, status = _scaled(mantissa, exponent, cut)
    return (-value if negative else value), status, position


@njit(cache=True, nogil=True)
def _digits(text, position, mantissa):
    """Append digits to an 18-digit mantissa; (mantissa, digits too many, first byte, last + 1)."""
    first, dropped = position, 0
    digit = np.int64(text[position]) - _ZERO
    while 0 <= digit <= 9:
        if mantissa < 10**17:
            mantissa = mantissa * 10 + digit
        else:
            dropped += 1
        position += 1
        digit = np.int64(text[position]) - _ZERO
    return mantissa, dropped, first, position


@njit(cache=True, nogil=True)
def _scaled(mantissa, exponent, cut):
    """mantissa · 10^exponent as float32, and whether that is certain (see the module's head)."""
    if mantissa == 0 or exponent < -90:  # mantissa < 10^18, so the value is below 10^-72
        return np.float32(0), _EXACT
    if exponent > 60:
        return np.float32(0), _BAD
    if exponent < 0:
        value = mantissa / _POWERS[-exponent]
    else:
        value = mantissa * _POWERS[exponent]
    rounded = np.float32(value)
    if cut or mantissa > 1 << 53 or not -22 <= exponent <= 22:
        low, rounded = np.float32(value * (1 - 1e-15)), np.float32(value * (1 + 1e-15))
        if low != rounded:
            return rounded, _SLOW
    if np.isinf(rounded):
        return rounded, _BAD
    return rounded, _EXACT


@njit(cache=True, nogil=True)
def _sort(keys, values):
    """Heap sort `keys` in place, `values` (if any) with them; return a repeated key or −1."""
    for root in range(len(keys) // 2 - 1, -1, -1):
        _sift(keys, values, root, len(keys))
    for end in range(len(keys) - 1, 0, -1):
        _exchange(keys, values, 0, end)
        _sift(keys, values, 0, end)
    for k in range(1, len(keys)):
        if keys[k] == keys[k - 1]:
            return keys[k]
    return -1


@njit(cache=True, nogil=True)
def _sift(keys, values, root, end):
    while 2 * root + 1 < end:
        child = 2 * root + 1
        if child + 1 < end and keys[child] < keys[child + 1]:
            child += 1
        if keys[child] <= keys[root]:
            return
        _exchange(keys, values, root, child)
        root = child


@njit(cache=True, nogil=True)
def _exchange(keys, values, a, b):
    keys[a], keys[b] = keys[b], keys[a]
    if len(values) > 0:
        values[a], values[b] = values[b], values[a]


@njit(cache=True, nogil=True)
def _find(text, position, stop, index, times):
    """The byte where a token of the line starts with `index` for the `times`-th time."""
    while position < stop:
        token = position
        number, position = _index(text, position)
        if number == index:
            times -= 1
        if times == 0:
            return token
        while position < stop and not _blank(text[position]) and text[position] != _COMMA:
            position += 1
        position += 1
    return stop


@njit(cache=True, nogil=True)
def whole_numbers(text, start, stop, numbers, counts):
    """Lines of whole numbers: (code, where, lines, numbers); `counts` says how many each has."""
    lines = count = 0
    position = start
    if stop > start and text[stop - 1] != _NEWLINE:
        return NO_LINE_END, stop, lines, count
    while position < stop:
        first = count
        while not _line_ends(text, position):
            if _blank(text[position]):
                position += 1
                continue
            token = position
            number, position = _index(text, position)
            if number < 0 or not _token_ends(text, position, XC):
                return BAD_INDEX, token, lines, count
            numbers[count] = number
            count += 1
        counts[lines] = count - first
        lines += 1
        position = _next_line(text, position)
    return FINE, stop, lines, count
