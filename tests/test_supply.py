"""What is handed out: the wheel and the source archive, and the pins that they are tested with."""

from __future__ import annotations

import importlib.metadata as metadata
import importlib.util
import re
import shutil
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
from tests.helpers.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
KINDS = {".py", ".css", ".js", ".jinja", ".mplstyle", ".typed"}
TOPS = {
    "src", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "pyproject.toml", "PKG-INFO",
    ".gitignore",
}  # fmt: skip

PACKAGES = ("unmask/",)

pytest.importorskip("hatchling")


def build(project: Path, target: Path) -> Path:
    """Make both archives without isolation and so without a network."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist"]
    done = subprocess.run([*command, "-d", target], cwd=project, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(next(built.glob("*.whl")))


def test_the_wheel_holds_the_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    inside = [name for name in names if not re.match(r"unmask-[\d.]+\.dist-info/", name)]
    assert all(name.startswith(PACKAGES) for name in inside)
    assert {Path(name).suffix for name in inside} == KINDS
    assert not [name for name in names if ".." in name or name.startswith("/")]
    assert not [name for name in inside if "test" in Path(name).name or "/docs/" in name]
    assert sum(info.file_size for info in wheel.infolist()) < 3_300_000


def test_the_wheel_holds_every_file_of_the_package(wheel: zipfile.ZipFile) -> None:
    source = ROOT / "src"
    expected = {
        str(path.relative_to(source))
        for path in source.rglob("*")
        if path.is_file() and path.suffix in KINDS and "__pycache__" not in path.parts
    }
    assert expected == {name for name in wheel.namelist() if name.startswith(PACKAGES)}
    assert {"unmask/py.typed", "unmask/pages/charts.mplstyle",
            "unmask/pages/templates/page.css", "unmask/pages/templates/page.html.jinja",
            "unmask/pages/templates/judging.js"} <= expected  # fmt: skip


def test_the_wheel_says_what_it_is(wheel: zipfile.ZipFile) -> None:
    about = f"unmask-{unmask.__version__}.dist-info"
    told = wheel.read(f"{about}/METADATA").decode()
    assert f"Version: {unmask.__version__}\n" in told
    assert "Requires-Python: >=3.11\n" in told
    assert "License-Expression: Apache-2.0\n" in told
    assert b"unmask = unmask.cli:main" in wheel.read(f"{about}/entry_points.txt")
    assert f"{about}/licenses/LICENSE" in wheel.namelist()


def test_the_source_archive_builds_the_same_package(built: Path, wheel: zipfile.ZipFile) -> None:
    names = source_files(built)
    assert {name.partition("/")[0] for name in names} == TOPS
    packaged = {name.removeprefix("src/") for name in names if name.startswith("src/")}
    assert packaged == {name for name in wheel.namelist() if name.startswith(PACKAGES)}


def source_files(built: Path) -> list[str]:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        return sorted(member.name.partition("/")[2] for member in archive.getmembers())


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is built, with a virtual environment inside it that nothing ignores."""
    copy = tmp_path_factory.mktemp("clone")
    for name in TOPS - {"src", "PKG-INFO"}:
        shutil.copy(ROOT / name, copy)
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__"))
    packages = "my env!/lib/site-packages"
    for name in ("my env!/bin/activate_this.py", f"{packages}/other/src/stray.py",
                 f"{packages}/README.md", f"{packages}/other/LICENSE"):  # fmt: skip
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_text("import nothing, of, ours\n")
    return copy


def test_an_environment_inside_the_clone_stays_out_of_the_archives(
    built: Path, clone: Path, tmp_path: Path
) -> None:
    other = build(clone, tmp_path)
    assert source_files(other) == source_files(built)
    first, second = (zipfile.ZipFile(next(f.glob("*.whl"))).namelist() for f in (built, other))
    assert sorted(first) == sorted(second)


def test_an_environment_inside_the_clone_is_not_linted(clone: Path) -> None:
    pytest.importorskip("ruff")
    command = [sys.executable, "-m", "ruff", "check", "--show-files", "."]
    done = subprocess.run(command, cwd=clone, capture_output=True, text=True, check=True)
    files = {Path(line).relative_to(clone) for line in done.stdout.splitlines()}
    assert Path("src/unmask/__init__.py") in files
    assert {file.parts[0] for file in files} == {"src", "pyproject.toml"}


def test_every_python_file_of_ours_is_linted() -> None:
    pytest.importorskip("ruff")
    command = [sys.executable, "-m", "ruff", "check", "--show-files", "."]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    listed = {Path(line) for line in done.stdout.splitlines()}
    folders = ("benchmarks", "docs", "examples", "src", "tests", "tools")
    assert {file for name in folders for file in (ROOT / name).rglob("*.py")} <= listed


def test_the_version_stands_once() -> None:
    assert metadata.version("unmask") == unmask.__version__
    assert PROJECT["dynamic"] == ["version"]
    assert "\nversion:" not in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_the_changelog_has_the_version() -> None:
    headings = re.findall(r"^## ([\d.]+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert headings[0] == unmask.__version__


def test_interpreters_agree() -> None:
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
