"""Bytes in and out: compression recognised by content, written by suffix; atomic replacement.

A file is read as a sequence of decompressed blocks, so that no more than a few megabytes of text
are held at once; the next block is decompressed while the caller works on the last one. Only
regular files are read: a pipe could wait for ever, a device need not end.

A file is written beside its destination and renamed when complete: a reader never sees half a file,
and an interrupted write leaves the old one alone; what a killed process left of it goes with the
next write. Where that cannot be (a pipe, a terminal, the
standard output), bytes are sent as they come. A folder of several files is held by one writer at a
time.
"""

from __future__ import annotations

import errno
import fcntl
import gzip
import os
import re
import stat
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from io import BufferedReader, RawIOBase
from pathlib import Path
from threading import get_ident
from typing import IO, TYPE_CHECKING, Any, BinaryIO, cast

from unmask._io.file_limits import Limits, current_limits, refuse_expansion
from unmask._typing import PathLike

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

BLOCK = 4 << 20

_MAGIC = (  # zstd data may begin with frames that decompressors skip
    (re.compile(rb"\x1f\x8b"), "gzip"),
    (re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"), "zstd"),
)
_SKIPPABLE = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18")
_SUFFIXES = {".gz": "gzip", ".zst": "zstd"}
_PIECE = {
    "gzip": 1 << 18,
    "zstd": 1 << 10,
}  # zstd cannot bound its output (32,768-fold): feed little


def compression(path: PathLike) -> str:
    """`none`, `gzip` or `zstd`, by the first bytes of the file."""
    with open_readable(path) as file:
        head = file.read(4)
    return next((name for magic, name in _MAGIC if magic.match(head)), "none")


def open_readable(path: PathLike, *, follow: bool = True) -> BufferedReader:
    """Open a regular file; everything else is refused, a link too unless `follow`.

    Refused before it is opened, which may wait or have effects; and looked at again when it is
    open, as names can come to mean something else.

    >>> open_readable("/dev/null")
    Traceback (most recent call last):
    ValueError: /dev/null is a device, not a file; write what it gives to a file and name that.
    """
    _refuse_reading(path, os.stat(path, follow_symlinks=follow))
    flags = os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    file = open(path, "rb", opener=lambda name, usual: os.open(name, usual | flags))  # noqa: SIM115
    try:
        _refuse_reading(path, os.fstat(file.fileno()))
    except ValueError:
        file.close()
        raise
    return file


def _refuse_reading(path: PathLike, status: os.stat_result) -> None:
    says = {
        stat.S_IFDIR: "is a folder; name a file in it",
        stat.S_IFLNK: "is a link; files of a model are not links: put the file itself there",
        stat.S_IFIFO: "is a pipe, which can be read only once; write it to a file and name that",
    }
    other = "is a device, not a file; write what it gives to a file and name that"
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{os.fspath(path)} {says.get(stat.S_IFMT(status.st_mode), other)}.")


def contents(path: PathLike) -> bytes:
    """The whole file, decompressed."""
    return b"".join(blocks(path))


def blocks(path: PathLike, size: int = BLOCK) -> Iterator[bytes]:
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


def _plain(path: PathLike, size: int) -> Iterator[bytes]:
    with open_readable(path) as file:
        while block := file.read(size):
            yield block


def _decompressed(path: PathLike, kind: str, size: int, allowed: Limits) -> Iterator[bytes]:
    """Blocks gathered from the pieces that the decompressor hands out."""
    gathered: list[bytes] = []
    gathered_bytes = total = 0
    with open_readable(path) as file:
        packed = _size(file)
        for piece in _pieces(file, path, kind, size):
            gathered.append(piece)
            gathered_bytes += len(piece)
            total += len(piece)
            refuse_expansion(path, packed, total, allowed)
            if gathered_bytes >= size:
                yield b"".join(gathered)
                gathered, gathered_bytes = [], 0
    if gathered:
        yield b"".join(gathered)


def _pieces(file: BinaryIO, path: PathLike, kind: str, size: int) -> Iterator[bytes]:
    """Member after member (gzip) or frame after frame (zstd); zeros after the last are padding."""
    waiting = file.read(_PIECE[kind])
    while waiting:
        waiting = waiting.lstrip(b"\0")
        if kind == "zstd" and len(waiting) < 8:
            waiting += file.read(_PIECE[kind])
        if kind == "zstd" and _SKIPPABLE.match(waiting):
            waiting = _after_skippable(waiting, file, path)
        elif waiting:
            member = _decompressor(kind)
            yield from _member(member, waiting, file, path, kind, size)
            waiting = member.unused_data
        waiting = waiting or file.read(_PIECE[kind])


def _after_skippable(waiting: bytes, file: BinaryIO, path: PathLike) -> bytes:
    """What follows the skippable frames of zstd with which `waiting` begins."""
    start = 0
    while len(waiting) >= start + 8 and _SKIPPABLE.match(waiting, start):
        start += 8 + int.from_bytes(waiting[start + 4 : start + 8], "little")
    if start == 0 or file.seek(max(0, start - len(waiting)), os.SEEK_CUR) > _size(file):
        raise ValueError(_truncated(path, "zstd"))
    return waiting[start:]


def _size(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


def _truncated(path: PathLike, kind: str) -> str:
    return f"{path}: the {kind} data end too early; the file is truncated."


def _member(
    member: Any, waiting: bytes, file: BinaryIO, path: PathLike, kind: str, size: int
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
            raise ValueError(_truncated(path, kind))


def _decompressor(kind: str) -> Any:
    if kind == "gzip":
        return zlib.decompressobj(wbits=31)
    import zstandard

    return zstandard.ZstdDecompressor().decompressobj()


@contextmanager
def atomic_write(path: PathLike, *, follow: bool = True) -> Iterator[IO[bytes]]:
    """A binary file that becomes `path` when the block ends well, compressed if the suffix says so.

    Where `path` is a link, the file that it leads to is replaced (the link itself unless `follow`);
    the mode of a replaced file is kept. Pipes, terminals and open descriptors (`/dev/stdout`) are
    written to as they are; folders, disks and sockets are refused.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "note.txt.gz"
    >>> with atomic_write(path) as file:
    ...     n = file.write(b"hello")
    >>> compression(path), contents(path)
    ('gzip', b'hello')
    """
    named = Path(path)
    kind = _SUFFIXES.get(named.suffix, "none")
    with _naming(named), _written(named, follow) as file, _compressor(file, kind) as packed:
        yield packed


@contextmanager
def _naming(named: Path) -> Iterator[None]:
    """Let the error of a full disk, or of a removed current folder, name the file."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in _NAMELESS:
            raise OSError(error.errno, error.strerror, os.fspath(named)) from None
        raise


_NAMELESS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOENT)


@contextmanager
def _written(named: Path, follow: bool) -> Iterator[BinaryIO]:
    """Where the bytes of a file go."""
    target = _link_end(named) if follow else named
    old = _mode(target, follow)
    if follow and (_descriptor(target) is not None or (old and not stat.S_ISREG(old))):
        with _streaming(named, target, old) as file:
            yield file
        return
    if target.is_relative_to("/proc"):
        raise ValueError(f"{named} is no place for a file; name another.")
    if follow:
        _remove_abandoned(target)
    with _replacing(named, target, old) as file:
        yield file


def _link_end(path: Path) -> Path:
    """Where links lead; an open descriptor is an end, whatever it was opened from."""
    for _ in range(40):
        location = Path(os.path.realpath(path.parent), path.name)
        if _descriptor(location) is not None or not location.is_symlink():
            return location
        path = location.parent / os.readlink(location)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))


def _descriptor(path: Path) -> int | None:
    """The number of an open descriptor of this process that a path stands for."""
    own = {
        os.path.realpath(f"{folder}/fd") for folder in ("/dev", "/proc/self", "/proc/thread-self")
    }
    return int(path.name) if path.name.isdigit() and os.fspath(path.parent) in own else None


def is_standard_output(path: PathLike) -> bool:
    """Whether a path means the standard output of this process, as `/dev/stdout` does."""
    return _descriptor(_link_end(Path(path))) == 1


def _mode(target: Path, follow: bool) -> int:
    """The mode of what is there; 0 for nothing."""
    try:
        return os.stat(target, follow_symlinks=follow).st_mode
    except FileNotFoundError:
        return 0


@contextmanager
def _streaming(named: Path, target: Path, old: int) -> Iterator[BinaryIO]:
    """Send bytes to what cannot be replaced."""
    shared = _descriptor(target)
    for is_kind, kind in _UNWRITABLE:
        if shared is None and is_kind(old):
            raise ValueError(f"{named} is a {kind}; name a file.")
    try:  # what is open already is shared, so that what is printed later comes after
        number = _opened(target) if shared is None else os.dup(shared)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise ValueError(
                f"{named}: nobody reads from this pipe; start the reader first."
            ) from None
        raise OSError(error.errno, error.strerror, os.fspath(named)) from None
    try:
        yield cast(BinaryIO, _Sender(number))
    finally:
        os.close(number)


class _Sender(RawIOBase):
    """Sends at once; nothing more after a failure, so that closing never waits for a reader."""

    def __init__(self, number: int) -> None:
        self.number, self.failed = number, False

    def writable(self) -> bool:
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        left = memoryview(data).cast("B")
        size = len(left)
        try:
            while left and not self.failed:
                left = left[os.write(self.number, left) :]
        except BaseException:
            self.failed = True
            raise
        return size


_UNWRITABLE = ((stat.S_ISDIR, "folder"), (stat.S_ISBLK, "disk"), (stat.S_ISSOCK, "socket"))


def _opened(target: Path) -> int:
    """Without waiting for a reader; writing may wait for it."""
    number = os.open(target, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    os.set_blocking(number, True)
    return number


@contextmanager
def _replacing(named: Path, target: Path, old: int) -> Iterator[BinaryIO]:
    """A file beside `target` that takes its place in the end, with its mode."""
    unfinished = target.with_name(f".{target.name}.{os.getpid()}-{get_ident()}.part")
    mode = stat.S_IMODE(old) & 0o777 if stat.S_ISREG(old) else 0o666
    unfinished.unlink(missing_ok=True)  # and made new: not followed, should it be a link
    try:
        try:
            file = open(  # noqa: SIM115
                unfinished, "xb", opener=lambda name, flags: os.open(name, flags, mode)
            )
        except OSError as error:
            raise OSError(error.errno, error.strerror, os.fspath(named)) from None
        with file:
            with suppress(OSError):  # a disk without locks
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield file
            file.flush()
            if stat.S_ISREG(old):
                os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)


def _remove_abandoned(target: Path) -> None:
    """Remove what killed processes left of a file: nobody has their number, nobody holds a lock.

    On a disk that several machines share, the number of a process says little, but its lock does.
    """
    unfinished = re.compile(rf"\.{re.escape(target.name)}\.(\d+)-\d+\.part")
    with suppress(OSError):
        for name in os.listdir(target.parent):
            match = unfinished.fullmatch(name)
            if match and not Path("/proc", match[1]).exists():
                _remove_unlocked(target.parent / name)


def _remove_unlocked(path: Path) -> None:
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    finally:
        os.close(file)


@contextmanager
def _compressor(file: BinaryIO, kind: str) -> Iterator[IO[bytes]]:
    if kind == "none":
        yield file
    elif kind == "gzip":  # no name and no time inside: equal contents give equal files
        with gzip.GzipFile(
            filename="", mode="wb", fileobj=file, compresslevel=6, mtime=0
        ) as packed:
            yield cast(IO[bytes], packed)
    else:
        import zstandard

        with zstandard.ZstdCompressor().stream_writer(file, closefd=False) as packed:
            yield packed


@contextmanager
def exclusive(folder: PathLike) -> Iterator[None]:
    """Write to a folder while no other process (or thread) does; a second one is refused.

    The lock goes with the process, however it ends. On a disk without locks, none is taken. A
    folder that was removed while it was being locked counts as another one's.

    >>> import tempfile
    >>> with exclusive(folder := tempfile.mkdtemp()), exclusive(folder):  # doctest: +ELLIPSIS
    ...     pass
    Traceback (most recent call last):
    ValueError: another process is writing to /...; wait for it, or choose another folder.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _lock(descriptor, folder)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, folder: PathLike) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_mine = os.path.samestat(os.fstat(descriptor), os.stat(folder))
    except (BlockingIOError, FileNotFoundError):
        is_mine = False
    except OSError:
        return
    if not is_mine:
        raise ValueError(
            f"another process is writing to {os.fspath(folder)}; wait for it, or choose another "
            "folder."
        )
