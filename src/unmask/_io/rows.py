r"""Text formats of sparse matrices, read: an optional header of whole numbers, then a line per row.

`open_text` reads the first line, `parse` the rest in a given layout (see `_kernels.text`), block
by block on all cores. What every layout takes without complaint: \n or \r\n, a missing last line
end, a byte-order mark, tabs for spaces, several blanks, indices in any order (they are sorted),
leading zeros, stored zeros (they stay), a plus sign, empty lines after the last row. What it
refuses, as `ValueError` with file, line and token: anything else; in particular an index twice in
a row, an index out of range, a value that is no decimal number or is not finite as float32, more
or fewer rows than the header says.

No memory is set aside on the word of a header.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from unmask._io.errors import Fault, Rules, message, token_at
from unmask._io.streams import blocks, compression
from unmask._kernels import in_chunks
from unmask._typing import Array, Integers, Ints, PathLike, Singles
from unmask.arrays import checks

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
        """The same with the first line taken for a row, whatever it looks like."""
        return Text(self.path, self.compression, (), self.first_line, self.rest)

    def lines(self) -> Iterable[bytes]:
        """The rows, as blocks of whole lines."""
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
    """Blocks recut so that each ends with a line end; the file's last line is given one."""
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
    """What a file's lines hold: rows of labels and rows of (column, value)."""

    label_counts: NDArray[np.int32]
    labels: Integers
    counts: NDArray[np.int32]
    columns: Integers
    values: NDArray[np.float32]

    @property
    def rows(self) -> int:
        """How many rows."""
        return len(self.counts)

    def matrix(self, n_columns: int) -> sp.csr_array:
        """The (column, value) entries as a sparse matrix."""
        return _csr(self.values, self.columns, self.counts, n_columns)

    def label_matrix(self, n_labels: int) -> sp.csr_array:
        """The labels as a binary sparse matrix."""
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
    """All rows of `text`; indices less their base must lie below `n_columns` and `n_labels`."""
    rules = Rules(layout, base, n_columns, label_base, n_labels)
    parts: list[Block] = []
    line = 1 + bool(text.header)
    for block in text.lines():
        for part, lines in in_chunks(_line_bounds(block), partial(_parse_chunk, block, rules)):
            if isinstance(part, Fault):
                raise ValueError(message(text.path, line + lines, part, block, rules))
            parts.append(part)
            line += lines
    return _of_length(_joined(parts), n_rows, text)


def _line_bounds(block: bytes) -> NDArray[np.int64]:
    """Offsets that cut a block into chunks of roughly `_CHUNK` bytes at line ends."""
    cuts = [0]
    while cuts[-1] < len(block):
        end = block.find(b"\n", cuts[-1] + _CHUNK) + 1
        cuts.append(end or len(block))
    return np.array(cuts, dtype=np.int64)


def _parse_chunk(block: bytes, rules: Rules, start: int, stop: int) -> tuple[Block | Fault, int]:
    """The rows in block[start:stop], and how many lines those are (before the fault, if any)."""
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
    """One block of all; each kind of array is released as soon as its whole is made."""
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


def _of_length(block: Block, n_rows: int | None, text: Text) -> Block:
    """`block`, if it has `n_rows` rows; empty lines after the last row are no rows."""
    if n_rows is None or block.rows == n_rows:
        return block
    if block.rows < n_rows:
        raise ValueError(
            f"{text.path}: the header announces {n_rows} rows, the file has {block.rows}."
        )
    extra = np.flatnonzero(block.label_counts[n_rows:] + block.counts[n_rows:])
    if extra.size:
        raise ValueError(
            f"{text.path}, line {n_rows + 2 + int(extra[0])}: the header announces {n_rows} rows, "
            "but here is one more."
        )
    return block._replace(label_counts=block.label_counts[:n_rows], counts=block.counts[:n_rows])
