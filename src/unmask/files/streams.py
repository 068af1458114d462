"""Bytes in and out: compression recognised by content, written by suffix; atomic replacement.

A file is read as a sequence of decompressed blocks, so that no more than a few megabytes of text
are held at once; the next block is decompressed while the caller works on the last one. Only
regular files are read: a pipe could wait for ever, a device need not end.

`limits` bound what an untrusted file may take, and can be raised. Text compresses to a tenth, at
best to a fiftieth; a file that grows more than `expansion` times was made to fill memories. A data
set costs at least a few numbers per column, so that one line with a huge index, or a huge header,
costs gigabytes; `columns` bounds that. JSON takes up to thirty times its size in memory, so that
`json` bounds its bytes.

A file is written beside its destination and renamed when complete: a reader never sees half a file,
and an interrupted write leaves the old one alone; what a killed process left of it goes with the
next write. Where that cannot be (a pipe, a terminal, the standard output), bytes are sent as they
come. A folder of several files is held by one writer at a time.
"""

from __future__ import annotations

import errno
import fcntl
import gzip
import os
import re
import stat
import zlib
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from io import BufferedReader, RawIOBase
from pathlib import Path
from threading import get_ident
from typing import IO, TYPE_CHECKING, Any, BinaryIO, TypeVar, cast

from unmask._messages import named_options, setting
from unmask._typing import PathLike

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


T = TypeVar("T")
FREE = 64 << 20
"""Bytes that any file may grow to."""


@dataclass(frozen=True)
class Limits:
    """The largest growth in decompression, number of features or labels, and bytes of JSON."""

    expansion: float = 200
    columns: int = 100_000_000
    json: int = 200_000_000


_current: ContextVar[Limits] = ContextVar("limits", default=Limits())  # noqa: B039 (frozen)


def current_limits() -> Limits:
    """Return the limits that hold here."""
    return _current.get()


@named_options
@contextmanager
def limits(
    *, expansion: float | None = None, columns: int | None = None, json: int | None = None
) -> Iterator[Limits]:
    """Set other limits for files that are read inside the block.

    Parameters
    ----------
    expansion : float, optional
        How many times larger a file may become when it is decompressed; at first 200.
    columns : int, optional
        How many features or labels it may have; at first 100 million.
    json : int, optional
        How many bytes of JSON are read; at first 200 million.

    Yields
    ------
    Limits
        All limits that hold inside the block; what is None stays as it was.

    Examples
    --------
    >>> with limits(columns=2**40) as raised:
    ...     raised.columns, raised.expansion
    (1099511627776, 200)
    """
    before = current_limits()
    chosen = Limits(
        expansion=before.expansion if expansion is None else expansion,
        columns=before.columns if columns is None else columns,
        json=before.json if json is None else json,
    )
    token = _current.set(chosen)
    try:
        yield chosen
    finally:
        _current.reset(token)


class Unpacked:
    """A count of the bytes that a file unpacks to; ValueError as soon as they are too many."""

    def __init__(self, path: object, packed: int) -> None:
        """Start at 0, for a file of `packed` bytes and the limits that hold now."""
        self.path, self.packed, self.total = path, packed, 0
        self.expansion = current_limits().expansion

    def add(self, size: int) -> None:
        """Count more bytes."""
        self.total += size
        if self.total > max(FREE, self.expansion * self.packed):
            raise ValueError(
                f"{self.path}: {self.packed:,} bytes unpack to more than {self.total:,}, over "
                f"{self.expansion:g} times as many; if you trust the file, allow it with "
                f"{setting('expansion', of='data.limits')}."
            )


def refuse_columns(path: object, columns: int, noun: str) -> None:
    """Raise if a file has more columns than it may."""
    if columns > current_limits().columns:
        raise ValueError(
            f"{path} has {columns:,} {noun}, more than {current_limits().columns:,}; if that is "
            f"right, allow it with {setting('columns', of='data.limits')}."
        )


def refuse_json(path: object, size: int) -> None:
    """Raise if a file has more bytes of JSON than it may."""
    if size > current_limits().json:
        raise ValueError(
            f"{path} has {size:,} bytes of JSON, more than {current_limits().json:,}; if you trust "
            f"the file, allow it with {setting('json', of='data.limits')}."
        )


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
    """Return `none`, `gzip` or `zstd`, by the first bytes of the file."""
    with open_readable(path) as file:
        head = file.read(4)
    return next((name for magic, name in _MAGIC if magic.match(head)), "none")


def open_readable(path: PathLike, *, follow: bool = True) -> BufferedReader:
    """Open a regular file; refuse everything else, a link too unless `follow`.

    It is refused before it is opened, which may wait or have effects; and looked at again when it
    is open, as names can come to mean something else.

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
    """Return the whole file, decompressed."""
    return b"".join(blocks(path))


def first_bytes(path: PathLike, size: int = 1 << 20) -> bytes:
    """Return the beginning of a (decompressed) file."""
    return next(blocks(path, size=size), b"")[:size]


def text_of(path: PathLike) -> str:
    """Return the content of a file as UTF-8 text, plain or compressed."""
    content = contents(path)
    try:
        return content.removeprefix(b"\xef\xbb\xbf").decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        token = quoted(content[error.start : error.start + 8])
        raise ValueError(f"{path}, line {line}: not UTF-8 text, at {token}.") from None


def quoted(token: bytes) -> str:
    """Return a token as messages quote it: readable, and not too long."""
    readable = token[:60].decode("utf-8", "backslashreplace")
    return repr(readable if len(readable) <= 40 else readable[:40] + "…")


def plain_name(path: PathLike) -> str:
    """Return the name of a file without the ending of its compression.

    >>> plain_name("folder/tags.csv.gz")
    'tags.csv'
    """
    return Path(path).name.removesuffix(".gz").removesuffix(".zst")


def blocks(path: PathLike, size: int = BLOCK) -> Iterator[bytes]:
    """Yield the decompressed file in blocks of roughly `size` bytes, read one block ahead."""
    kind = compression(path)
    return ahead(_decompressed(path, kind, size))


def ahead(items: Iterator[T]) -> Iterator[T]:
    """Yield the items; the next one is made while the caller works on the last."""
    context = copy_context()  # the limits of the caller hold in the other thread

    def following() -> T | None:
        return context.run(lambda: next(items, None))

    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(following)
        while (item := coming.result()) is not None:
            coming = reader.submit(following)
            yield item


def _decompressed(path: PathLike, kind: str, size: int) -> Iterator[bytes]:
    """Yield blocks gathered from the pieces that the decompressor hands out."""
    gathered: list[bytes] = []
    gathered_bytes = 0
    with open_readable(path) as file:
        budget = Unpacked(path, os.fstat(file.fileno()).st_size)
        while kind == "none" and (block := file.read(size)):
            yield block
        for piece in () if kind == "none" else _pieces(file, path, kind, size):
            gathered.append(piece)
            gathered_bytes += len(piece)
            budget.add(len(piece))
            if gathered_bytes >= size:
                yield b"".join(gathered)
                gathered, gathered_bytes = [], 0
    if gathered:
        yield b"".join(gathered)


def _pieces(file: BinaryIO, path: PathLike, kind: str, size: int) -> Iterator[bytes]:
    """Yield member after member (gzip), frame after frame (zstd); zeros at the end are padding."""
    waiting = file.read(_PIECE[kind])
    while waiting:
        waiting = waiting.lstrip(b"\0")
        if kind == "zstd" and len(waiting) < 8:
            waiting += file.read(_PIECE[kind])
        if kind == "zstd" and _SKIPPABLE.match(waiting):
            waiting = _after_skippable(waiting, file, path)
        elif waiting:
            waiting = yield from _member(waiting, file, path, kind, size)
        waiting = waiting or file.read(_PIECE[kind])


def _after_skippable(waiting: bytes, file: BinaryIO, path: PathLike) -> bytes:
    """Return what follows the skippable frames of zstd with which `waiting` begins."""
    start = 0
    while len(waiting) >= start + 8 and _SKIPPABLE.match(waiting, start):
        start += 8 + int.from_bytes(waiting[start + 4 : start + 8], "little")
    if start == 0 or file.seek(max(0, start - len(waiting)), os.SEEK_CUR) > (
        os.fstat(file.fileno()).st_size
    ):
        raise _truncated(path, "zstd")
    return waiting[start:]


def _truncated(path: PathLike, kind: str) -> ValueError:
    return ValueError(f"{path}: the {kind} data end too early; the file is truncated.")


def _member(
    waiting: bytes, file: BinaryIO, path: PathLike, kind: str, size: int
) -> Generator[bytes, None, bytes]:
    """Yield the pieces of one member or frame; return what was read beyond it."""
    member: Any
    if kind == "gzip":
        member = zlib.decompressobj(wbits=31)
    else:
        import zstandard

        member = zstandard.ZstdDecompressor().decompressobj()
    while True:
        try:
            piece = member.decompress(waiting, *([size] if kind == "gzip" else []))
        except Exception as error:
            raise ValueError(f"{path}: damaged {kind} data ({error}).") from error
        yield piece
        if member.eof:
            return cast(bytes, member.unused_data)
        waiting = member.unconsumed_tail or file.read(_PIECE[kind])
        if not waiting:
            raise _truncated(path, kind)


@contextmanager
def atomic_write(path: PathLike, *, follow: bool = True) -> Iterator[IO[bytes]]:
    """Open a binary file that becomes `path` when the block ends well, compressed by its suffix.

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
    try:
        with _written(named, follow) as file, _compressor(file, kind) as packed:
            yield packed
    except OSError as error:  # of a full disk, or a removed current folder: let it name the file
        if error.filename is None and error.errno in _NAMELESS:
            raise OSError(error.errno, error.strerror, os.fspath(named)) from None
        raise


_NAMELESS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOENT)


@contextmanager
def _written(named: Path, follow: bool) -> Iterator[BinaryIO]:
    """Open what the bytes of a file go to."""
    target = _link_end(named) if follow else named
    try:
        old = os.stat(target, follow_symlinks=follow).st_mode
    except FileNotFoundError:
        old = 0
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
    """Return where links lead; an open descriptor is an end, whatever it was opened from."""
    for _ in range(40):
        location = Path(os.path.realpath(path.parent), path.name)
        if _descriptor(location) is not None or not location.is_symlink():
            return location
        path = location.parent / os.readlink(location)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))


def _descriptor(path: Path) -> int | None:
    """Return the number of the open descriptor of this process that a path stands for."""
    own = {
        os.path.realpath(f"{folder}/fd") for folder in ("/dev", "/proc/self", "/proc/thread-self")
    }
    return int(path.name) if path.name.isdigit() and os.fspath(path.parent) in own else None


def is_standard_output(path: PathLike) -> bool:
    """Return whether a path means the standard output of this process, as `/dev/stdout` does."""
    return _descriptor(_link_end(Path(path))) == 1


@contextmanager
def _streaming(named: Path, target: Path, old: int) -> Iterator[BinaryIO]:
    """Send bytes to what cannot be replaced."""
    shared = _descriptor(target)
    for is_kind, kind in _UNWRITABLE:
        if shared is None and is_kind(old):
            raise ValueError(f"{named} is a {kind}; name a file.")
    try:  # what is open already is shared, so that what is printed later comes after
        if shared is not None:
            number = os.dup(shared)
        else:  # without waiting for a reader; writing may wait for it
            flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            number = os.open(target, flags)
            os.set_blocking(number, True)
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


@contextmanager
def _replacing(named: Path, target: Path, old: int) -> Iterator[BinaryIO]:
    """Open a file beside `target` that takes its place in the end, with its mode."""
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
    """Remove what killed processes left of a file: no process has their number or holds a lock.

    On a disk that several machines share, the number of a process says little, but its lock does.
    """
    unfinished = re.compile(rf"\.{re.escape(target.name)}\.(\d+)-\d+\.part")
    with suppress(OSError):
        for name in os.listdir(target.parent):
            match = unfinished.fullmatch(name)
            if not match or Path("/proc", match[1]).exists():
                continue
            path = target.parent / name
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
    """Hold a folder while no other process (or thread) writes to it; refuse a second one.

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
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_mine = os.path.samestat(os.fstat(descriptor), os.stat(folder))
        except OSError as error:
            is_mine = not isinstance(error, BlockingIOError | FileNotFoundError)
        if not is_mine:
            raise ValueError(
                f"another process is writing to {os.fspath(folder)}; wait for it, or choose "
                "another folder."
            )
        yield
    finally:
        os.close(descriptor)
