"""What is handed out: the wheel and the source archive, and the pins that they are tested with."""

from __future__ import annotations

import importlib.metadata as metadata
import importlib.util
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import unmask

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
KINDS = {".py", ".css", ".js", ".jinja", ".typed"}

pytest.importorskip("hatchling")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both archives, made without isolation and so without a network."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist"]
    made = subprocess.run([*command, "-d", folder], cwd=ROOT, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(next(built.glob("*.whl")))


def test_the_wheel_holds_the_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    inside = [name for name in names if not re.match(r"unmask-[\d.]+\.dist-info/", name)]
    assert all(name.startswith("unmask/") for name in inside)
    assert {Path(name).suffix for name in inside} == KINDS
    assert not [name for name in names if ".." in name or name.startswith("/")]
    assert not [name for name in inside if "test" in Path(name).name or "/docs/" in name]
    assert sum(info.file_size for info in wheel.infolist()) < 3_000_000


def test_the_wheel_holds_every_file_of_the_package(wheel: zipfile.ZipFile) -> None:
    source = ROOT / "src"
    expected = {
        str(path.relative_to(source))
        for path in source.rglob("*")
        if path.is_file() and path.suffix in KINDS and "__pycache__" not in path.parts
    }
    assert expected == {name for name in wheel.namelist() if name.startswith("unmask/")}
    assert {"unmask/py.typed", "unmask/report/page.css", "unmask/report/page.js",
            "unmask/report/page.html.jinja"} <= expected  # fmt: skip


def test_the_wheel_says_what_it_is(wheel: zipfile.ZipFile) -> None:
    about = f"unmask-{unmask.__version__}.dist-info"
    told = wheel.read(f"{about}/METADATA").decode()
    assert f"Version: {unmask.__version__}\n" in told
    assert "Requires-Python: >=3.11\n" in told
    assert "License-Expression: Apache-2.0\n" in told
    assert b"unmask = unmask.cli:main" in wheel.read(f"{about}/entry_points.txt")
    assert f"{about}/licenses/LICENSE" in wheel.namelist()


def test_the_source_archive_builds_the_same_package(built: Path, wheel: zipfile.ZipFile) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = [member.name.partition("/")[2] for member in archive.getmembers()]
    tops = {name.partition("/")[0] for name in names}
    assert tops == {
        "src", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "pyproject.toml",
        "PKG-INFO", ".gitignore",
    }  # fmt: skip
    packaged = {name.removeprefix("src/") for name in names if name.startswith("src/")}
    assert packaged == {name for name in wheel.namelist() if name.startswith("unmask/")}


def test_versions_and_interpreters_agree() -> None:
    assert metadata.version("unmask") == unmask.__version__ == PROJECT["version"]
    classifiers = PROJECT["classifiers"]
    for version in ("3.11", "3.12", "3.13"):
        assert f"Programming Language :: Python :: {version}" in classifiers


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def needed(
    name: str, extras: frozenset[str], seen: set[tuple[str, frozenset[str]]]
) -> Iterator[str]:
    """The names of everything installed that a distribution needs, directly or not."""
    from packaging.requirements import Requirement

    if (name, extras) in seen:
        return
    seen.add((name, extras))
    try:
        found = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return
    yield plain(name)
    for text in found:
        requirement = Requirement(text)
        marks = [{"extra": extra} for extra in extras] or [{"extra": ""}]
        if requirement.marker is None or any(requirement.marker.evaluate(m) for m in marks):
            yield from needed(requirement.name, frozenset(requirement.extras), seen)


def test_every_dependency_is_pinned() -> None:
    pytest.importorskip("pre_commit", reason="where not everything is installed, little is seen")
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    assert all(re.fullmatch(r"[\d.]+(post\d+)?", version) for version in pins.values())
    wanted = set(needed("unmask", frozenset({"dev", "docs"}), set())) - {"unmask"}
    wanted |= set(needed("hatchling", frozenset(), set()))
    wanted -= {name for name in wanted if name.startswith(("nvidia-", "cuda-", "triton"))}  # GPUs
    assert len(wanted) > 40
    assert wanted <= {plain(name) for name in pins}


@pytest.fixture(scope="module")
def oldest() -> ModuleType:
    """The script that tries the oldest versions."""
    spec = importlib.util.spec_from_file_location("oldest", ROOT / "tools" / "oldest.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_requirement_has_a_lower_bound_that_is_tried(oldest: ModuleType) -> None:
    from packaging.requirements import Requirement
    from packaging.version import Version

    extras = PROJECT["optional-dependencies"]
    asked = [*PROJECT["dependencies"], *extras["torch"], *extras["dask"]]
    requirements = [Requirement(text) for text in asked]
    tried = dict(line.split("==") for line in oldest.oldest() if "==" in line)
    pins = {plain(name): version for name, version in oldest.pins().items()}
    for each in requirements:
        assert each.specifier.contains(tried[each.name]), each
        assert each.specifier.contains(pins[plain(each.name)]), f"{each} excludes the pin"
        (bound,) = (s for s in each.specifier if s.operator == ">=")
        kept = each.name in oldest.KEPT
        assert Version(tried[each.name]) == Version(pins["torch"] if kept else bound.version)
    assert tried.keys() == {each.name for each in requirements} | set(oldest.TOOLS)
    assert "torch==2.4" in oldest.oldest(("torch",))


def test_a_requirement_without_a_lower_bound_is_refused(oldest: ModuleType, tmp_path: Path) -> None:
    text = '[project]\ndependencies = ["numpy"]\noptional-dependencies = {torch = [], dask = []}\n'
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(ValueError, match="'numpy' has no lower bound"):
        oldest.lower_bounds(tmp_path / "pyproject.toml")
