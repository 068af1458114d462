"""The test suite with the oldest versions that pyproject.toml allows.

    python3.11 tools/oldest.py              # makes an environment, installs, runs all tests
    python3.11 tools/oldest.py -- -n 1 tests/cli/test_cli.py
    python3.11 tools/oldest.py --list       # only prints the versions

Every requirement `name>=version` of the package and of the extras `torch` and `dask` is installed
as `name==version`. Test tools have the versions of constraints.txt. What all these need in turn is
left to pip, which takes the newest that they allow, as it would for a user who has an old version
(but see `NEIGHBOURS`).

torch alone stays at the version of constraints.txt, the only one whose build without CUDA is to be
had wherever the suite runs; `--free torch` tries its lower bound, too.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = ("torch", "dask")
TOOLS = ("pytest", "pytest-xdist", "hypothesis", "mpmath", "hatchling")
KEPT = ("torch",)
NEIGHBOURS = ("click<8.5", "pyparsing<3.3")
"""What old packages need in turn is as new as they allow, but for these: newer ones warn whenever
old typer or matplotlib use them, and warnings are errors in the suite."""


def lower_bounds(pyproject: Path = ROOT / "pyproject.toml") -> dict[str, str]:
    """The oldest version of every requirement, by the name that pyproject.toml gives it."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    requirements = list(project["dependencies"])
    for extra in EXTRAS:
        requirements += project["optional-dependencies"][extra]
    bounds = {}
    for requirement in requirements:
        match = re.fullmatch(r"([\w.-]+)(?:\[[\w,-]+\])?>=([\d.]+)(?:,.*)?", requirement)
        if match is None:
            raise ValueError(f"{pyproject.name}: {requirement!r} has no lower bound.")
        bounds[match[1]] = match[2]
    return bounds


def pins(constraints: Path = ROOT / "constraints.txt") -> dict[str, str]:
    """The versions of constraints.txt."""
    lines = constraints.read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def oldest(free: tuple[str, ...] = ()) -> list[str]:
    """Constraints for pip: lower bounds, except of what is kept at its pin, and the test tools."""
    pinned, bounds = pins(), lower_bounds()
    for name in set(KEPT) - set(free):
        bounds[name] = pinned[name]
    tools = {name: pinned[name] for name in TOOLS}
    return [*(f"{name}=={version}" for name, version in (bounds | tools).items()), *NEIGHBOURS]


def install(folder: Path, constraints: list[str]) -> Path:
    """An environment in `folder` with these versions and the package; where its programs are."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    listed = folder / "constraints.txt"
    listed.write_text("\n".join([*constraints, ""]), encoding="utf-8")
    package = f"{ROOT}[{','.join(EXTRAS)}]"
    for arguments in (
        ["install", "--quiet", "-c", listed, "-e", package, *TOOLS],
        ["check"],
        ["freeze", "--exclude-editable"],
    ):
        subprocess.run([python, "-m", "pip", *arguments], check=True)  # noqa: S603
    return python.parent


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "oldest")
    parser.add_argument("--free", action="append", default=[], choices=KEPT)
    parser.add_argument("--list", action="store_true", help="print the versions, install nothing")
    parser.add_argument("pytest", nargs="*", help="arguments of pytest, after --")
    chosen = parser.parse_args()
    constraints = oldest(tuple(chosen.free))
    if chosen.list:
        print("\n".join(constraints))
        return 0
    programs = install(chosen.folder.resolve(), constraints)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["NUMBA_CACHE_DIR"] = str(chosen.folder.resolve() / "kernels")
    command = [programs / "pytest", *(chosen.pytest or ["-n", "auto"])]
    return subprocess.run(command, cwd=ROOT, env=environment).returncode  # noqa: S603


if __name__ == "__main__":
    sys.exit(main())
