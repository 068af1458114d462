"""Compiling kernels, and where their machine code is kept.

numba keeps what it compiles in the first folder that it can write to: NUMBA_CACHE_DIR,
`__pycache__` beside the source, the cache folder of the user's home. Where it can write to none of
them it refuses to compile at all; `njit` then takes a folder below the temporary one that belongs
to this user alone, or keeps nothing. Cached code is loaded without further questions, so a folder
that others can write to is never taken.

Somebody else may have compiled before, and left the code where this user can read but not write it:
an image that was warmed (`unmask warm`) by root. It is copied to the folder of this user.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numba

if TYPE_CHECKING:
    from numba.core.dispatcher import Dispatcher

KERNELS: list[Dispatcher] = []
"""Every compiled function that has been imported."""

BESIDE = Path(__file__).parent / "__pycache__"
_settings: Any = numba.config  # numba makes its attributes at run time
_lock = threading.RLock()
_copied: set[str] = set()
_warned: set[str] = set()


def njit(*, cache: bool = False, **options: Any) -> Callable[[Callable[..., object]], Any]:
    """`numba.njit`, whose `cache=True` is a wish."""

    def decorate(function: Callable[..., object]) -> Any:
        compiled = numba.njit(**options)(function)
        if hasattr(compiled, "enable_caching"):  # not with NUMBA_DISABLE_JIT
            KERNELS.append(compiled)
            if cache:
                _keep(compiled)
        return compiled

    return decorate


def cache_folder() -> Path | None:
    """Where the machine code of kernels is kept; None: nowhere."""
    kept = (kernel.stats.cache_path for kernel in KERNELS)
    return next((Path(path) for path in kept if path is not None), None)


def _keep(compiled: Dispatcher) -> None:
    """Have numba cache the function, in a private folder if it knows none."""
    with _lock:
        try:
            compiled.enable_caching()
        except RuntimeError:  # no locator available
            _keep_privately(compiled)
        folder = compiled.stats.cache_path
        if folder is not None and folder not in _copied:
            _copied.add(folder)
            _copy_warmed(Path(folder))


def _keep_privately(compiled: Dispatcher) -> None:
    folder, reason = _private_folder()
    if folder is None:
        _warn(
            f"compiled kernels cannot be kept ({reason}), so every process compiles them anew, "
            "which takes minutes. Set NUMBA_CACHE_DIR to a folder that only you can write to."
        )
        return
    chosen, _settings.CACHE_DIR = _settings.CACHE_DIR, str(folder)
    try:
        compiled.enable_caching()
    except RuntimeError:
        _warn(f"compiled kernels cannot be kept: {folder} cannot be written to.")
    finally:
        _settings.CACHE_DIR = chosen


def _private_folder() -> tuple[Path | None, str]:
    """A folder below the temporary one that nobody else can write to, or why there is none."""
    try:
        parent = Path(tempfile.gettempdir())
        folder = parent / f"unmask-kernels-{os.geteuid()}"
        if not _safe_parent(parent.stat()):
            return None, f"others can replace what is in {parent}"
        is_new = not os.path.lexists(folder)
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        return None, str(error)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        return None, f"{folder} belongs to somebody else"
    if status.st_mode & 0o077:
        return None, f"{folder} is open to others"
    if is_new:
        _warn(
            "neither the package folder nor a home can be written to; compiled kernels are kept "
            f"in {folder}. Set NUMBA_CACHE_DIR to keep them elsewhere."
        )
    return folder, ""


def _safe_parent(status: os.stat_result) -> bool:
    """True if others cannot rename what we make in this folder."""
    trusted = status.st_uid in (0, os.geteuid())
    return trusted and (not status.st_mode & 0o022 or bool(status.st_mode & stat.S_ISVTX))


def _copy_warmed(folder: Path) -> None:
    """Copy what others have compiled for everybody to the folder of this user, if it lacks it."""
    provided = _settings.CACHE_DIR
    if folder == BESIDE or (provided and Path(provided) == folder.parent):
        return  # the place for everybody, or one that was chosen for this very run
    sources = [BESIDE, *([Path(provided) / folder.name] if provided else [])]
    for source in sources:
        if not _trusted(source):
            continue
        for kind in ("*.nbc", "*.nbi"):  # machine code first, then the index that names it
            for path in source.glob(kind):
                if _trusted(path) and not (folder / path.name).exists():
                    _copy(path, folder / path.name)


def _trusted(path: Path) -> bool:
    """True if it is there, and only the owner of the package, root or we can have written it."""
    try:
        status = path.lstat()
    except OSError:
        return False
    owners = (0, os.geteuid(), Path(__file__).stat().st_uid)
    return (
        not stat.S_ISLNK(status.st_mode)
        and status.st_uid in owners
        and not status.st_mode & 0o022
        and os.access(path, os.R_OK)
    )


def _copy(source: Path, target: Path) -> None:
    partial = target.with_name(f"{target.name}.tmp.{uuid4().hex[:16]}")
    try:
        shutil.copyfile(source, partial)
        partial.replace(target)
    except OSError:  # it is compiled again
        partial.unlink(missing_ok=True)


def _warn(message: str) -> None:
    """Once per process, however many kernels there are."""
    if message not in _warned:
        _warned.add(message)
        warnings.warn(message, RuntimeWarning, stacklevel=2)
