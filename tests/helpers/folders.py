"""What a folder holds."""

from __future__ import annotations

from pathlib import Path

Files = dict[str, bytes]


def files_in(folder: Path) -> Files:
    """Everything below a folder that bears its final name; pages name the folder they are in."""
    found = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    here = str(folder).encode()
    return {str(path.relative_to(folder)): path.read_bytes().replace(here, b"") for path in found}
