"""A small data set as a file in the XC format."""

from __future__ import annotations

from pathlib import Path

XC = b"3 5 4\n0,3 0:0.5 4:1\n 1:-2e-3\n2\n"


def put_xc(folder: Path) -> Path:
    (folder / "x.txt").write_bytes(XC)
    return folder / "x.txt"
