r"""Sparse matrices as text: an optional header of whole numbers, then a line per row.

`open_text` reads the first line, `parse` the rest in a given layout (see `_kernels.text`), block
by block on all cores. Every layout takes without complaint: \n or \r\n, a missing last line end, a
byte-order mark, tabs for spaces, several blanks, indices in any order (they are sorted), leading
zeros, stored zeros (they stay), a plus sign, empty lines after the last row. It refuses, as
`ValueError` with file, line and token, anything else; in particular an index twice in a row, an
index out of range, a value that is no decimal number or is not finite as float32, more or fewer
rows than the header says. No memory is set aside on the word of a header.

`integers` and `numbers` read tables of plain numbers, `write_rows` writes sparse rows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from unmask._kernels import in_chunks, row_bounds
from unmask._messages import setting
from unmask._typing import Array, Integers, Ints, PathLike, Singles
from unmask.arrays import checks
from unmask.files.streams import atomic_write, blocks, compression, contents, quoted

INT32 = int(np.iinfo(np.int32).max)
_CHUNK = 1 << 20
_HEADER = re.compile(rb"[ \t]*(\d+)[ \t]+(\d+)(?:[ \t]+(\d+))?[ \t]*\r?\n?")


@dataclass(frozen=True)
class Text:
    """An opened text file: its header (empty if the first line is a row) and its lines."""

    path: str
    compression: str
    header: tuple[int, ...]
    first_line: bytes
    rest: Iterator[bytes]

    def headerless(self) -> Text:
        """Return the file with its first line taken for a row, whatever it looks like."""
        return Text(self.path, self.compression, (), self.first_line, self.rest)

    def lines(self) -> Iterable[bytes]:
        """Return the rows, as blocks of whole lines."""
        return self.rest if self.header else chain([self.first_line], self.rest)


def open_text(path: PathLike) -> Text:
    r"""Open a (compressed) text file and look at its first line.

    >>> import tempfile
    >>> name = tempfile.mkdtemp() + "/labels.txt"
    >>> with open(name, "wb") as file:
    ...     n = file.write(b"2 5\n0:1 3:1\n4:1\n")
    >>> open_text(name).header
    (2, 5)
    """
    stream = _whole_lines(blocks(path))
    first = next(stream, b"").removeprefix(b"\xef\xbb\xbf")
    if not first:
        raise ValueError(f"{path}: the file is empty.")
    line, end, others = first.partition(b"\n")
    match = _HEADER.fullmatch(line) if len(line) <= 200 else None
    header = tuple(int(number) for number in match.groups() if number) if match else ()
    return Text(str(path), compression(path), header, line + end, chain([others], stream))


def _whole_lines(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Recut blocks so that each ends with a line end; the file's last line is given one."""
    unfinished: list[bytes] = []
    for block in blocks:
        cut = block.rfind(b"\n") + 1
        if cut:
            yield b"".join([*unfinished, block[:cut]])
            unfinished = []
        unfinished.append(block[cut:])
    if last := b"".join(unfinished):
        yield last + b"\n"


class Block(NamedTuple):
    """The content of a file's lines: rows of labels and rows of (column, value)."""

    label_counts: NDArray[np.int32]
    labels: Integers
    counts: NDArray[np.int32]
    columns: Integers
    values: NDArray[np.float32]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.counts)

    def matrix(self, n_columns: int) -> sp.csr_array:
        """Return the (column, value) entries as a sparse matrix."""
        return _csr(self.values, self.columns, self.counts, n_columns)

    def label_matrix(self, n_labels: int) -> sp.csr_array:
        """Return the labels as a binary sparse matrix."""
        ones = np.ones(len(self.labels), dtype=np.float32)
        return _csr(ones, self.labels, self.label_counts, n_labels)


def _csr(
    values: Singles, indices: Integers, counts: NDArray[np.int32], n_columns: int
) -> sp.csr_array:
    indptr = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=indptr[1:])
    index = checks.index_type(n_columns, int(indptr[-1]))
    arrays = (values, indices.astype(index, copy=False), indptr.astype(index, copy=False))
    return sp.csr_array(arrays, shape=(len(counts), n_columns))


def parse(
    text: Text,
    layout: int,
    *,
    n_rows: int | None = None,
    n_columns: int = INT32,
    n_labels: int = INT32,
    base: int = 0,
    label_base: int = 0,
) -> Block:
    """Read all rows; indices less their base must lie below `n_columns` and `n_labels`."""
    rules = Rules(layout, base, n_columns, label_base, n_labels)
    parts: list[Block] = []
    line = 1 + bool(text.header)
    for block in text.lines():
        cuts = [0]  # at line ends, after roughly `_CHUNK` bytes each
        while cuts[-1] < len(block):
            cuts.append(block.find(b"\n", cuts[-1] + _CHUNK) + 1 or len(block))
        bounds = np.array(cuts, dtype=np.int64)
        for part, lines in in_chunks(bounds, partial(_parse_chunk, block, rules)):
            if isinstance(part, Fault):
                raise ValueError(_message(text.path, line + lines, part, block, rules))
            parts.append(part)
            line += lines
    whole = _joined(parts)
    if n_rows is None or whole.rows == n_rows:
        return whole
    if whole.rows < n_rows:
        raise ValueError(
            f"{text.path}: the header announces {n_rows} rows, the file has {whole.rows}."
        )
    extra = np.flatnonzero(whole.label_counts[n_rows:] + whole.counts[n_rows:])
    if extra.size:  # empty lines after the last row are no rows
        raise ValueError(
            f"{text.path}, line {n_rows + 2 + int(extra[0])}: the header announces {n_rows} rows, "
            "but here is one more."
        )
    return whole._replace(label_counts=whole.label_counts[:n_rows], counts=whole.counts[:n_rows])


def _parse_chunk(block: bytes, rules: Rules, start: int, stop: int) -> tuple[Block | Fault, int]:
    """Return the rows in block[start:stop], and the number of lines (before a fault, if any)."""
    from unmask._kernels import text

    most = (stop - start) // 2 + 1  # no entry is shorter than a digit and a separator
    space = Block(
        np.empty(stop - start + 1, dtype=np.int32),
        np.empty(most, dtype=checks.index_type(rules.n_labels)),
        np.empty(stop - start + 1, dtype=np.int32),
        np.empty(most, dtype=checks.index_type(rules.n_columns)),
        np.empty(most, dtype=np.float32),
    )
    slow = np.empty((most, 3), dtype=np.int64)
    buffer = np.frombuffer(block, dtype=np.uint8)
    code, position, lines, rows, n_labels, n_entries, n_slow = text.parse(
        buffer, start, stop, *rules, *space, slow
    )
    lengths = (rows, n_labels, rows, n_entries, n_entries)
    arrays: list[Array] = [
        array[:length].copy() for array, length in zip(space, lengths, strict=True)
    ]
    rows_read = Block(*arrays)
    fault = Fault(code, position) if code else _read_slow(block, rules, rows_read, slow[:n_slow])
    return (fault, block.count(b"\n", start, fault.where)) if fault else (rows_read, lines)


def _read_slow(block: bytes, rules: Rules, rows: Block, slow: Ints) -> Fault | None:
    """Let Python read the values that need more than float64 to be rounded properly."""
    from unmask._kernels import text

    first = np.cumsum(rows.counts) - rows.counts if len(slow) else rows.counts
    for row, column, position in slow.tolist():
        with np.errstate(over="ignore"):
            value = np.float32(float(token_at(block, position, b" \t\r\n,#")))
        if not np.isfinite(value):
            return Fault(text.BAD_VALUE, position)
        if rules.layout == text.LABELS and value != 1:
            return Fault(text.NOT_ONE, position)
        own = slice(first[row], first[row] + rows.counts[row])
        rows.values[own][np.searchsorted(rows.columns[own], column)] = value
    return None


def _joined(parts: list[Block]) -> Block:
    """Join blocks into one; each kind of array is released as soon as its whole is made."""
    if not parts:
        nothing, no_indices = np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32)
        return Block(nothing, no_indices, nothing, no_indices, np.empty(0, dtype=np.float32))
    kinds = [list(kind) for kind in zip(*parts, strict=True)]
    parts.clear()
    joined = []
    for kind in kinds:
        joined.append(np.concatenate(kind))
        kind.clear()
    return Block(*joined)


class Rules(NamedTuple):
    """The rules by which `_kernels.text.parse` reads lines."""

    layout: int
    base: int
    n_columns: int
    label_base: int
    n_labels: int


class Fault(NamedTuple):
    """One of the kernel's codes, and the byte where the offending token starts."""

    code: int
    where: int


def _message(path: str, line: int, fault: Fault, block: bytes, rules: Rules) -> str:
    from unmask._kernels import text

    of_labels = rules.layout == text.LABELS
    noun = "label" if of_labels else "column" if rules.layout == text.PAIRS else "feature"
    shape = {text.LABELS: "label, or label:1"}.get(rules.layout, "index:value")
    in_list = fault.code in (text.BAD_LABEL, text.HIGH_LABEL, text.TWICE_LABEL)
    token = quoted(token_at(block, fault.where, b" \t\n," if in_list else b" \t\n"))
    says = {
        text.BAD_INDEX: f"expected {shape}, got {token}",
        text.BAD_LABEL: f"expected labels as whole numbers between commas, got {token}",
        text.HIGH_INDEX: _out_of_range(noun, token, rules.base, rules.n_columns),
        text.HIGH_LABEL: _out_of_range("label", token, rules.label_base, rules.n_labels),
        text.NO_VALUE: f"{noun} without a value: expected index:value, got {token}",
        text.BAD_VALUE: f"expected a number that is finite as float32, got {token}",
        text.TWICE_INDEX: f"a {noun} stands twice in one row: {token}",
        text.TWICE_LABEL: f"a label stands twice in one row: {token}",
        text.NOT_ONE: f"a label's value must be 1, got {token}; read a feature file with "
        f"{setting('format', 'features')}",
        text.BLANK_LINE: "empty line; a row without labels starts with a space, "
        "so remove the line or write a space",
    }
    return f"{path}, line {line}: {says[fault.code]}."


def token_at(block: bytes, start: int, ends: bytes = b" \t\n") -> bytes:
    r"""Return the bytes from `start` to the next of `ends`, without the \r of a line end."""
    match = re.compile(b"[^" + ends + b"]*").match(block, start)
    token, end = (match.group(), match.end()) if match else (b"", start)
    return token.removesuffix(b"\r") if block[end : end + 1] in (b"\n", b"") else token


def _out_of_range(noun: str, token: str, base: int, count: int) -> str:
    hint = "" if base else f"; if the file counts from 1, read it with {setting('base', 1)}"
    return f"{noun} must lie in {base} … {base + count - 1}, got {token}{hint}"


def integers(path: PathLike) -> NDArray[np.int64]:
    r"""Read a table of whole numbers without header; empty lines may follow.

    >>> import tempfile
    >>> name = tempfile.mkdtemp() + "/split.txt"
    >>> with open(name, "wb") as file:
    ...     n = file.write(b"3 1\n2 4\n")
    >>> integers(name)
    array([[3, 1], [2, 4]])
    """
    from unmask._kernels import text

    opened = open_text(path).headerless()
    numbers, widths, line = [], [], 1
    for block in opened.lines():
        row_numbers = np.empty(len(block) // 2 + 1, dtype=np.int64)
        counts = np.empty(len(block) + 1, dtype=np.int32)
        buffer = np.frombuffer(block, dtype=np.uint8)
        code, position, lines, count = text.whole_numbers(
            buffer, 0, len(block), row_numbers, counts
        )
        if code:
            token = quoted(token_at(block, position))
            raise ValueError(f"{path}, line {line + lines}: expected a whole number, got {token}.")
        numbers.append(row_numbers[:count].copy())
        widths.append(counts[:lines].copy())
        line += lines
    counts = np.concatenate(widths)
    filled = np.flatnonzero(counts)
    if not filled.size:
        raise ValueError(f"{path}: the file holds no numbers.")
    width = int(counts[0])
    odd = np.flatnonzero(counts[: filled[-1] + 1] != width)
    if odd.size:
        raise ValueError(
            f"{path}, line {int(odd[0]) + 1}: {int(counts[odd[0]])} numbers where the lines before "
            f"have {width}."
        )
    return np.concatenate(numbers).reshape(-1, width)


def numbers(path: PathLike, content: bytes | None = None) -> NDArray[np.float64]:
    """Read one number per line of a file; `content` is what the file holds, if that is known.

    >>> numbers("p.txt", b"0.5\\n1e-3\\n")
    array([0.5  , 0.001])
    """
    lines = (contents(path) if content is None else content).splitlines()
    if not lines:
        raise ValueError(f"{os.fspath(path)}: the file is empty; it needs one number per line.")
    values = np.empty(len(lines))
    for i, line in enumerate(lines):
        try:
            values[i] = float(line)
        except ValueError:
            raise ValueError(
                f"{os.fspath(path)}, line {i + 1}: expected a number, got {quoted(line)}."
            ) from None
    return values


_CHUNKS_HELD = 16


def write_rows(
    path: PathLike,
    header: tuple[int, ...],
    entries: sp.csr_array,
    labels: sp.csr_array | None = None,
) -> None:
    """Write `header`, if any, and the rows `l,l i:v i:v` (without `labels`: `i:v i:v`) at once.

    A value is written with the fewest decimal places that read back as the same float32.
    """
    with atomic_write(path) as file:
        if header:
            file.write(" ".join(str(number) for number in header).encode() + b"\n")
        bounds = row_bounds(entries.indptr if labels is None else entries.indptr + labels.indptr)
        for start in range(0, len(bounds) - 1, _CHUNKS_HELD):
            chunk_bounds = bounds[start : start + _CHUNKS_HELD + 1]
            for rendered in in_chunks(chunk_bounds, partial(_rendered, entries, labels)):
                file.write(rendered)


def _rendered(
    entries: sp.csr_array, labels: sp.csr_array | None, start: int, stop: int
) -> memoryview:
    from unmask._kernels import render

    indptr, values = entries.indptr, entries.data
    names = (indptr[:0], entries.indices[:0]) if labels is None else (labels.indptr, labels.indices)
    n_names = 0 if labels is None else int(names[0][stop] - names[0][start])
    own = values[indptr[start] : indptr[stop]]
    out = np.empty(48 * len(own) + 20 * n_names + 2 * (stop - start), dtype=np.uint8)
    length = render.render(
        *names, indptr, entries.indices, values, start, stop, _by_python(own), out
    )
    return out[:length].data


def _by_python(values: Singles) -> NDArray[np.uint8]:
    """Return the values that the kernel leaves to Python, one per row, as zero-padded ASCII."""
    from unmask._kernels.render import HIGHEST, LOWEST

    size = np.abs(values.astype(np.float64))  # in float32 the bounds would be others
    left = values[(size != 0) & ~((size >= LOWEST) & (size < HIGHEST))]
    return (
        np.array([str(value) for value in left] or [""], dtype="S24").view(np.uint8).reshape(-1, 24)
    )
