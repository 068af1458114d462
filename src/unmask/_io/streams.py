"""Bytes in and out: compression recognised by content, written by suffix; atomic replacement.

A file is read as a sequence of decompressed blocks, so that no more than a few megabytes of text
are held at once; the next block is decompressed while the caller works on the last one. A file is
written beside its destination and renamed when complete: a reader never sees half a file, and an
interrupted write leaves the old one alone. A folder of several files is held by one writer at a
time.
"""

from __future__ import annotations

import fcntl
import gzip
import os
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import get_ident
from typing import IO, Any, BinaryIO

from unmask._io.limits import Limits, current_limits, refuse_expansion

BLOCK = 4 << 20

_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_SUFFIXES = {".gz": "gzip", ".zst": "zstd"}
_PIECE = {
    "gzip": 1 << 18,
    "zstd": 1 << 10,
}  # zstd cannot bound its output (32,768-fold): feed little


def compression(path: str | os.PathLike[str]) -> str:
    """`none`, `gzip` or `zstd`, by the first bytes of the file."""
    with open(path, "rb") as file:
        head = file.read(4)
    return next((name for magic, name in _MAGIC.items() if head.startswith(magic)), "none")


def contents(path: str | os.PathLike[str]) -> bytes:
    """The whole file, decompressed."""
    return b"".join(blocks(path))


def blocks(path: str | os.PathLike[str], size: int = BLOCK) -> Iterator[bytes]:
    """The decompressed file in blocks of roughly `size` bytes, read one block ahead."""
    kind = compression(path)
    if kind == "none":
        plain = _plain(path, size)
    else:
        plain = _decompressed(path, kind, size, current_limits())
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(next, plain, None)
        while (block := coming.result()) is not None:
            coming = reader.submit(next, plain, None)
            yield block


def _plain(path: str | os.PathLike[str], size: int) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while block := file.read(size):
            yield block


def _decompressed(
    path: str | os.PathLike[str], kind: str, size: int, allowed: Limits
) -> Iterator[bytes]:
    """Blocks gathered from the pieces that the decompressor hands out."""
    gathered: list[bytes] = []
    held = total = 0
    packed = os.path.getsize(path)
    with open(path, "rb") as file:
        for piece in _pieces(file, path, kind, size):
            gathered.append(piece)
            held += len(piece)
            total += len(piece)
            refuse_expansion(path, packed, total, allowed)
            if held >= size:
                yield b"".join(gathered)
                gathered, held = [], 0
    if gathered:
        yield b"".join(gathered)


def _pieces(file: BinaryIO, path: Any, kind: str, size: int) -> Iterator[bytes]:
    """Member after member (gzip) or frame after frame (zstd); zeros after the last are padding."""
    waiting = file.read(_PIECE[kind])
    while waiting:
        waiting = waiting.lstrip(b"\0")
        if waiting:
            member = _decompressor(kind)
            yield from _member(member, waiting, file, path, kind, size)
            waiting = member.unused_data
        waiting = waiting or file.read(_PIECE[kind])


def _member(
    member: Any, waiting: bytes, file: BinaryIO, path: Any, kind: str, size: int
) -> Iterator[bytes]:
    while True:
        try:
            piece = member.decompress(waiting, *([size] if kind == "gzip" else []))
        except Exception as error:
            raise ValueError(f"{path}: damaged {kind} data ({error}).") from error
        yield piece
        if member.eof:
            return
        waiting = member.unconsumed_tail or file.read(_PIECE[kind])
        if not waiting:
            raise ValueError(f"{path}: the {kind} data end too early; the file is truncated.")


def _decompressor(kind: str) -> Any:
    if kind == "gzip":
        return zlib.decompressobj(wbits=31)
    import zstandard

    return zstandard.ZstdDecompressor().decompressobj()


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A binary file that becomes `path` when the block ends well, compressed if the suffix says so.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "note.txt.gz"
    >>> with atomic_write(path) as file:
    ...     n = file.write(b"hello")
    >>> compression(path), contents(path)
    ('gzip', b'hello')
    """
    target = Path(path)
    unfinished = target.with_name(f".{target.name}.{os.getpid()}-{get_ident()}.part")
    try:
        with open(unfinished, "wb") as file:
            with _compressor(file, _SUFFIXES.get(target.suffix, "none")) as packed:
                yield packed
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)


@contextmanager
def _compressor(file: BinaryIO, kind: str) -> Iterator[Any]:
    if kind == "none":
        yield file
    elif kind == "gzip":  # no name and no time inside: equal contents give equal files
        with gzip.GzipFile(
            filename="", mode="wb", fileobj=file, compresslevel=6, mtime=0
        ) as packed:
            yield packed
    else:
        import zstandard

        with zstandard.ZstdCompressor().stream_writer(file, closefd=False) as packed:
            yield packed


@contextmanager
def exclusive(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Write to a folder while no other process (or thread) does; a second one is refused.

    The lock goes with the process, however it ends. Where a disk knows no locks, none is taken.

    >>> import tempfile
    >>> with exclusive(folder := tempfile.mkdtemp()), exclusive(folder):  # doctest: +ELLIPSIS
    ...     pass
    Traceback (most recent call last):
    ValueError: another process is writing to /...; wait for it, or choose another folder.
    """
    held = os.open(folder, os.O_RDONLY)
    try:
        _lock(held, folder)
        yield
    finally:
        os.close(held)


def _lock(held: int, folder: str | os.PathLike[str]) -> None:
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ValueError(
            f"another process is writing to {os.fspath(folder)}; wait for it, or choose another "
            "folder."
        ) from None
    except OSError:
        return
