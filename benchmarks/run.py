"""Run the benchmarks and put what they measure into results.csv (`make bench`).

    python benchmarks/run.py [SCRIPT ...]

All of them take an hour, need the extra `bench`, and measure what they say only on a machine that
does nothing else. A script that fails, or that leaves something out for want of a peer or of
data, leaves those rows of the table as they were. Then run `make tables`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import results

FOLDER = Path(__file__).resolve().parent
SCRIPTS = sorted({file.stem for file in FOLDER.glob("*.py")} - {"results", "run"})
ARGUMENTS = {"torch_losses": ["1"]}
"""As in the README."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("script", nargs="*", default=SCRIPTS, help=", ".join(SCRIPTS))
    chosen = parser.parse_args().script
    if unknown := set(chosen) - set(SCRIPTS):
        parser.error(f"no script {', '.join(sorted(unknown))}; use {', '.join(SCRIPTS)}")
    failed = [name for name in chosen if not measured(name)]
    if failed:
        sys.exit(f"failed, and left as they were in {results.FILE.name}: {', '.join(failed)}")


def measured(name: str) -> bool:
    """Run one script and keep its numbers."""
    print(f"== {name}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "numbers.json")
        command = [sys.executable, str(FOLDER / f"{name}.py"), *ARGUMENTS.get(name, [])]
        environment = {**os.environ, "PYTHONPATH": str(FOLDER.parent / "studies")}
        done = subprocess.run([*command, "--json", str(file)], check=False, env=environment)
        if done.returncode == 0 and file.exists():
            results.update(name, json.loads(file.read_text()))
    return done.returncode == 0


if __name__ == "__main__":
    main()
