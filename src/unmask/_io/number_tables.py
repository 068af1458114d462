"""Tables in text: whole numbers (split files, lists of pairs), and columns of numbers."""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from unmask._io.errors import quoted, token_at
from unmask._io.rows import open_text
from unmask._io.streams import contents
from unmask._typing import PathLike


def integers(path: PathLike) -> NDArray[np.int64]:
    r"""A table of whole numbers without header, as many in every line; empty lines may follow.

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
    return _table(np.concatenate(numbers), np.concatenate(widths), path)


def numbers(path: PathLike, content: bytes | None = None) -> NDArray[np.float64]:
    """One number per line of a file; `content` is what the file holds, if that is known.

    >>> numbers("p.txt", b"0.5\\n1e-3\\n")
    array([0.5  , 0.001])
    """
    lines = (contents(path) if content is None else content).splitlines()
    if not lines:
        raise ValueError(f"{os.fspath(path)}: the file is empty; it needs one number per line.")
    try:
        return np.array([float(line) for line in lines])
    except ValueError:
        bad = next(i for i, line in enumerate(lines) if not _is_number(line))
        raise ValueError(
            f"{os.fspath(path)}, line {bad + 1}: expected a number, got {quoted(lines[bad])}."
        ) from None


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _table(
    numbers: NDArray[np.int64], widths: NDArray[np.int32], path: PathLike
) -> NDArray[np.int64]:
    filled = np.flatnonzero(widths)
    if not filled.size:
        raise ValueError(f"{path}: the file holds no numbers.")
    width = int(widths[0])
    odd = np.flatnonzero(widths[: filled[-1] + 1] != width)
    if odd.size:
        raise ValueError(
            f"{path}, line {int(odd[0]) + 1}: {int(widths[odd[0]])} numbers where the lines before "
            f"have {width}."
        )
    return numbers.reshape(-1, width)
