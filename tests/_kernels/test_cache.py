"""Where compiled kernels are kept: also for users who can write nowhere, never where others can."""

from __future__ import annotations

import ast
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numba
import pytest

from tests.helpers.paths import ROOT
from unmask._kernels import compiling

SOURCE = ROOT / "src"
NOBODY = 65534

PROGRAM = """
from unmask._kernels import compiling
from unmask._kernels.block import _power_of_two as kernel
print(kernel(3.0), compiling.cache_folder())
"""
"""One small kernel, and where it is kept."""
COUNTING = PROGRAM + "print(sum(kernel.stats.cache_hits.values()))"


@pytest.fixture
def package(tmp_path: Path) -> Iterator[Path]:
    """A copy of the package without cached kernels, in a folder that anybody may read."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o755)
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(SOURCE / "unmask", folder / "unmask", ignore=ignored)
        yield folder


def as_stranger(
    package: Path, temporary: Path, program: str = PROGRAM, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a program as a user without a home who can write to `temporary` only."""
    prefix = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    return subprocess.run(
        [*prefix, sys.executable, "-B", "-c", program],
        cwd="/", capture_output=True, text=True,
        env={
            "PATH": os.environ["PATH"], "HOME": "/nonexistent", "PYTHONPATH": str(package),
            "TMPDIR": str(temporary), "UNMASK_THREADS": "1", **environment,
        },
    )  # fmt: skip


@pytest.fixture
def shared(package: Path) -> Path:
    """A temporary folder as /tmp is: everybody writes, nobody renames what belongs to others."""
    folder = package / "tmp"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


def able() -> bool:
    """Whether we may become somebody else, who then finds this interpreter."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        return False
    return as_stranger(Path("/"), Path("/"), "import numba").returncode == 0


stranger = pytest.mark.skipif(not able(), reason="only root can become somebody else")


@stranger
def test_a_user_who_can_write_nowhere_has_a_private_cache(package: Path, shared: Path) -> None:
    first, second = (as_stranger(package, shared) for _ in range(2))
    assert (first.returncode, second.returncode) == (0, 0), first.stderr
    folder = shared / f"unmask-kernels-{NOBODY}"
    assert first.stdout == second.stdout
    assert first.stdout.startswith(f"4.0 {folder}/")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert list(folder.rglob("*.nbi"))
    assert first.stderr.count("RuntimeWarning") == 1, "said once"
    assert f"kept in {folder}. Set NUMBA_CACHE_DIR" in first.stderr
    assert second.stderr == ""


@stranger
@pytest.mark.parametrize("trap", ["foreign", "open", "link", "file", "unsafe"])
def test_code_is_never_loaded_from_where_others_can_write(
    trap: str, package: Path, shared: Path
) -> None:
    """Somebody has prepared the place; the kernel runs, nothing is kept, and a warning says why."""
    folder = shared / f"unmask-kernels-{NOBODY}"
    reason = "belongs to somebody else"
    if trap == "foreign":
        folder.mkdir(mode=0o777)
    elif trap == "open":
        folder.mkdir()
        os.chown(folder, NOBODY, NOBODY)
        folder.chmod(0o770)
        reason = "is open to others"
    elif trap == "link":
        target = package / "elsewhere"
        target.mkdir(mode=0o700)
        os.chown(target, NOBODY, NOBODY)
        folder.symlink_to(target)
    elif trap == "file":
        folder.touch()
        reason = "File exists"
    else:
        shared.chmod(0o777)
        reason = "others can replace what is in"
    ran = as_stranger(package, shared)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "4.0 None\n"
    assert reason in ran.stderr
    assert ran.stderr.count("RuntimeWarning") == 1
    assert "Set NUMBA_CACHE_DIR" in ran.stderr
    assert not [*package.rglob("*.nbi"), *package.rglob("*.nbc")]


@stranger
@pytest.mark.parametrize("provided", [False, True])
def test_what_root_has_warmed_serves_everybody(provided: bool, package: Path, shared: Path) -> None:
    """An image: compiled by root, in the package or in NUMBA_CACHE_DIR, read by a stranger."""
    environment = {"NUMBA_CACHE_DIR": str(package / "kernels")} if provided else {}
    base = {"PATH": os.environ["PATH"], "PYTHONPATH": str(package), **environment}
    command = [sys.executable, "-B", "-c", PROGRAM]
    subprocess.run(command, cwd="/", check=True, capture_output=True, env=base)
    warmed = list(package.rglob("*.nbc"))
    assert warmed
    ran = as_stranger(package, shared, COUNTING, **environment)
    assert ran.returncode == 0, ran.stderr
    kept, hits = ran.stdout.splitlines()
    assert kept.startswith(f"4.0 {shared}/")
    assert hits == "1", "loaded, not compiled"
    for path in warmed:
        path.chmod(0o666)
    shutil.rmtree(shared / f"unmask-kernels-{NOBODY}")
    again = as_stranger(package, shared, COUNTING, **environment)
    assert again.stdout.splitlines()[1] == "0", "compiled, as others can write to these files"


def test_a_cache_that_was_chosen_gets_nothing_from_elsewhere(package: Path, tmp_path: Path) -> None:
    """Whoever names a new folder wants fresh code, for instance with NUMBA_BOUNDSCHECK."""
    base = {"PATH": os.environ["PATH"], "PYTHONPATH": str(package), "HOME": str(tmp_path)}
    command = [sys.executable, "-B", "-c", COUNTING]
    for environment in ({}, {"NUMBA_CACHE_DIR": str(tmp_path / "chosen")}):
        ran = subprocess.run(
            command, cwd="/", capture_output=True, text=True, env={**base, **environment}
        )
        assert ran.stdout.splitlines()[1] == "0", ran.stderr


def test_without_any_temporary_folder_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    assert compiling._private_folder() == (None, "No usable temporary directory found")


TRAINING = """
from hashlib import sha256
from unmask import data, linear
from unmask.models import one_vs_all
rows = data.synthetic.planted(300, n_features=40, n_labels=150, seed=3)
for loss in one_vs_all.SOLVERS:
    model, course = linear.train(rows.features, rows.labels, linear.Recipe(loss))
    print(sha256(model.weights.tobytes() + course.objective.tobytes()).hexdigest())
"""


@pytest.mark.slow
def test_kernels_compute_the_same_whether_compiled_or_loaded(tmp_path: Path) -> None:
    """numba 0.60 does not: its compiled code is not the code that it stores."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", TRAINING]
    compiled, loaded = (
        subprocess.run(command, env=environment, capture_output=True, text=True) for _ in range(2)
    )
    assert compiled.returncode == 0, compiled.stderr
    assert compiled.stdout.count("\n") == 3
    assert compiled.stdout == loaded.stdout


def test_kernels_are_compiled_by_one_decorator() -> None:
    """Others would fail where nothing can be written."""
    for path in (SOURCE / "unmask" / "_kernels").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "numba":
                names = {alias.name for alias in node.names}
                assert not names & {"njit", "jit", "vectorize", "guvectorize"}, path.name


def test_functions_stay_functions_where_numba_is_switched_off() -> None:
    program = PROGRAM + "print(compiling.KERNELS)"
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment
    )
    assert ran.stdout == "4.0 None\n[]\n", ran.stderr


def test_the_setting_of_numba_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The private folder is for our kernels, not for those of other packages."""
    tmp_path.chmod(0o755)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = numba.config.CACHE_DIR

    class Homeless:
        """A function for which numba finds no folder but a chosen one."""

        kept: list[str] = []  # noqa: RUF012

        def enable_caching(self) -> None:
            self.kept.append(numba.config.CACHE_DIR)

    with pytest.warns(RuntimeWarning, match="kept in"):
        compiling._keep_privately(Homeless())
    assert Homeless.kept == [str(tmp_path / f"unmask-kernels-{os.geteuid()}")]
    assert before == numba.config.CACHE_DIR


def test_what_is_warmed_is_copied_once_to_every_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[Path] = []
    monkeypatch.setattr(compiling, "_copied", set())
    monkeypatch.setattr(compiling, "_copy_warmed", copied.append)

    class Kept:
        def __init__(self, folder: str | None) -> None:
            self.stats = SimpleNamespace(cache_path=folder)

        def enable_caching(self) -> None:
            pass

    for folder in ("/one", None, "/other", "/one"):
        compiling._keep(Kept(folder))
    assert copied == [Path("/one"), Path("/other")]


@pytest.fixture(name="said")
def messages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The warnings, with an empty folder for temporary files that only we can write to."""
    tmp_path.chmod(0o700)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    warnings: list[str] = []
    monkeypatch.setattr(compiling, "_warn", warnings.append)
    return warnings


def test_a_folder_of_our_own_is_made_once_and_said_once(said: list[str], tmp_path: Path) -> None:
    wanted = tmp_path / f"unmask-kernels-{os.geteuid()}"
    assert compiling._private_folder() == (wanted, "")
    assert stat.S_IMODE(wanted.stat().st_mode) == 0o700
    assert len(said) == 1
    assert str(wanted) in said[0]
    assert compiling._private_folder() == (wanted, "")
    assert len(said) == 1


@pytest.mark.parametrize("mode", [0o710, 0o701, 0o704, 0o720])
def test_a_folder_that_others_can_open_is_not_used(
    said: list[str], tmp_path: Path, mode: int
) -> None:
    wanted = tmp_path / f"unmask-kernels-{os.geteuid()}"
    wanted.mkdir()
    wanted.chmod(mode)
    assert compiling._private_folder() == (None, f"{wanted} is open to others")
    assert said == []


def test_a_file_in_its_place_is_not_used(said: list[str], tmp_path: Path) -> None:
    (tmp_path / f"unmask-kernels-{os.geteuid()}").touch()
    folder, reason = compiling._private_folder()
    assert folder is None
    assert reason
    assert said == []


@pytest.mark.parametrize(
    ("mode", "is_safe"),
    [(0o755, True), (0o700, True), (0o775, False), (0o757, False), (0o1777, True), (0o1770, True)],
)
def test_a_parent_is_safe_where_others_cannot_rename(
    tmp_path: Path, mode: int, is_safe: bool
) -> None:
    tmp_path.chmod(mode)
    try:
        assert compiling._safe_parent(tmp_path.stat()) == is_safe
        others = os.stat_result((mode, 0, 0, 1, os.geteuid() + 1, 0, 0, 0, 0, 0))
        assert not compiling._safe_parent(others) or os.geteuid() + 1 == 0
    finally:
        tmp_path.chmod(0o700)
