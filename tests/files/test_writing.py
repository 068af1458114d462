"""Writing to pipes, devices and links, and the mode of what is written.

Nothing here writes to a path below /dev: a mistake would replace a device of the machine. Pseudo
terminals, pipes and links to open descriptors of the process stand for them.
"""

from __future__ import annotations

import gzip
import os
import signal
import socket
import stat
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.devices import terminal
from unmask.files import atomic_write

pytestmark = pytest.mark.usefixtures("patience")


def put(path: Path, text: bytes = b"new") -> None:
    with atomic_write(path) as file:
        file.write(text)


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()), daemon=True)
    reader.start()
    while not got and reader.is_alive():
        try:
            put(pipe, b"x" * 300_000)
            break
        except ValueError:  # the reader is not there yet
            continue
    reader.join(20)
    assert got == [b"x" * 300_000]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert os.listdir(tmp_path) == ["pipe"]


@pytest.mark.parametrize("name", ["pipe", "pipe.gz", "pipe.zst"])
def test_writing_to_a_full_pipe_can_be_interrupted(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    reader = os.open(tmp_path / name, os.O_RDONLY | os.O_NONBLOCK)
    noise = np.random.default_rng(0).bytes(1 << 20)

    def interrupted() -> None:
        with atomic_write(tmp_path / name) as file:
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            while True:  # until the pipe is full
                file.write(noise)

    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
    finally:
        signal.signal(signal.SIGALRM, before)
        os.close(reader)


def test_a_reader_that_goes_away_is_noticed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)

    def left_alone() -> None:
        with atomic_write(tmp_path / "pipe") as file:
            os.close(reader)
            file.write(b"hello")

    with pytest.raises(BrokenPipeError):
        left_alone()


def test_a_pipe_that_nobody_reads_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    signal.alarm(100)
    with pytest.raises(ValueError, match="pipe: nobody reads from this pipe; start the reader"):
        put(tmp_path / "pipe")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_device_is_written_to(tmp_path: Path) -> None:
    with terminal() as (path, screen):
        (tmp_path / "link").symlink_to(path)
        put(path, b"hello")
        assert os.read(screen, 100) == b"hello"
        put(tmp_path / "link", b"again")
        assert os.read(screen, 100) == b"again"
        assert stat.S_ISCHR(path.stat().st_mode)
        assert (tmp_path / "link").is_symlink()


def test_a_socket_and_a_folder_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        with pytest.raises(ValueError, match="is a socket"):
            put(tmp_path / "socket")
    with pytest.raises(ValueError, match="is a folder; name a file"):
        put(tmp_path / "folder")
    assert sorted(os.listdir(tmp_path)) == ["folder", "socket"]


def test_a_disk_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.touch()
    real = os.stat

    def as_disk(path: Any, **options: Any) -> os.stat_result:
        found = real(path, **options)
        same = os.path.basename(str(path)) == "disk"
        return os.stat_result((stat.S_IFBLK | 0o660, *found[1:])) if same else found

    monkeypatch.setattr(os, "stat", as_disk)
    with pytest.raises(ValueError, match="is a disk"):
        put(disk)
    monkeypatch.undo()
    assert os.listdir(tmp_path) == ["disk"]


def test_links_stay_and_their_target_is_replaced(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    target, link, second = store / "target", tmp_path / "link", tmp_path / "second"
    link.symlink_to("store/target")
    second.symlink_to(link)
    put(second, b"first")  # dangling so far
    with open(target, "rb") as old:
        put(second, b"new")
        assert old.read() == b"first"  # replaced, not overwritten
    assert target.read_bytes() == b"new"
    assert link.is_symlink()
    assert second.is_symlink()
    assert os.listdir(store) == ["target"]
    assert sorted(os.listdir(tmp_path)) == ["link", "second", "store"]


def test_the_given_name_says_the_compression(tmp_path: Path) -> None:
    (tmp_path / "a.txt.gz").symlink_to("blob")
    put(tmp_path / "a.txt.gz")
    assert gzip.decompress((tmp_path / "blob").read_bytes()) == b"new"


def test_gzip_has_no_name_no_time_and_the_usual_level(tmp_path: Path) -> None:
    """The bytes that gzip writes at level 6 of standard input, whenever and wherever."""
    words = np.random.default_rng(3).integers(0, 900, 20_000)
    text = " ".join(map(str, words)).encode()
    put(tmp_path / "a.gz", text)
    stored = (tmp_path / "a.gz").read_bytes()
    usual = gzip.compress(text, 6, mtime=0)
    assert stored[10:] == usual[10:]
    assert stored[3:8] == bytes(5)
    assert gzip.compress(text, 7, mtime=0)[10:] != usual[10:]


def test_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        put(tmp_path / "a")


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755, 0o666])
def test_the_mode_of_a_file_is_kept(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    path.chmod(mode)
    during: list[int] = []
    with atomic_write(path) as file:
        file.write(b"new")
        during = [p.stat().st_mode & 0o777 & ~mode for p in tmp_path.iterdir()]
    assert during == [0, 0]  # nobody may read the unfinished file who may not read the old one
    assert path.stat().st_mode & 0o777 == mode
    assert path.read_bytes() == b"new"


def test_special_bits_of_a_mode_are_not_given_to_new_contents(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    path.chmod(0o4755)
    put(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o755


def test_a_new_file_has_the_usual_mode(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        put(tmp_path / "f")
    finally:
        os.umask(before)
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o640


def test_a_planted_link_in_place_of_the_unfinished_file_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    name = f".f.{os.getpid()}-{threading.get_ident()}.part"
    (tmp_path / name).symlink_to(victim)
    put(tmp_path / "f")
    assert victim.read_text() == "precious"
    assert (tmp_path / "f").read_bytes() == b"new"


def test_other_descriptors_are_written_to(tmp_path: Path) -> None:
    read, write = os.pipe()
    try:
        put(Path(f"/dev/fd/{write}"), b"hello")
        assert os.read(read, 10) == b"hello"
        os.fstat(write)  # still ours to close
    finally:
        os.close(read)
        os.close(write)


def test_files_of_the_kernel_are_refused() -> None:
    with pytest.raises(ValueError, match="no place for a file"):
        put(Path("/proc/self/comm"))
