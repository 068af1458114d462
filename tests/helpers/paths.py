"""Where things are, and what a folder holds."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

Files = dict[str, bytes]


def files_in(folder: Path) -> Files:
    """Everything below a folder that bears its final name; pages name the folder they are in."""
    paths = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    prefix = str(folder).encode()
    return {str(path.relative_to(folder)): path.read_bytes().replace(prefix, b"") for path in paths}
