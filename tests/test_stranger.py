"""The README's tables example as a stranger runs it: a fresh environment, nothing optional."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import tagged
from tests.helpers.paths import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def environment(folder: Path) -> Path:
    """A virtual environment with the package and what it needs, nothing else; its programs."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    install = ["-m", "pip", "install", "-q", "-c", str(ROOT / "constraints.txt"), str(ROOT)]
    done = subprocess.run(
        [str(folder / "bin" / "python"), *install], check=False, capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"packages cannot be installed here: {done.stderr.strip()[-300:]}")
    return folder / "bin"


@pytest.mark.slow
def test_the_tables_example_runs_with_core_dependencies(tmp_path: Path) -> None:
    programs = environment(tmp_path / "environment")
    new = tagged.rows(80, first=1000, seed=2)
    tagged.write_csv(tmp_path / "tags.csv", tagged.rows(200, seed=1))
    tagged.write_csv(tmp_path / "new.csv", new, "id", "text")
    tagged.write_csv(tmp_path / "test.csv", tagged.shuffled(new))
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}

    def run(*command: str) -> str:
        done = subprocess.run(
            command, cwd=tmp_path, env=clean, check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    for absent in ("pyarrow", "pandas", "polars", "torch", "dask"):
        found = f"import importlib.util as u; print(u.find_spec({absent!r}) is None)"
        assert run(str(programs / "python"), "-c", found) == "True\n", absent
    python = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    example = next(block for block in python if "tags.csv" in block)
    printed = run(str(programs / "python"), "-c", python[0] + example)
    assert "doc-1" in printed  # an id
    assert any(name in printed for name in tagged.WORDS)
    bash = re.findall(r"```bash\n(.*?)```", README, re.DOTALL)
    for line in next(block for block in bash if "tags.csv" in block).splitlines():
        name, *arguments = shlex.split(line)
        run(str(programs / name), *arguments)
    assert "physics" in (tmp_path / "per-label.csv").read_text(encoding="utf-8")
