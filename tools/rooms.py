"""The rooms of the package: which floor each is on, and who owns which dependency.

`tests/test_architecture.py` holds the source to it, `docs/architecture.md` shows it.
"""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"

# A room may import from the floors below it and from itself, never sideways or upwards.
FLOORS = (
    {"_typing", "_settings"},
    {"_kernels", "_sparse", "_text"},
    {"_validation"},
    {"_names"},
    {"_io", "_mixture"},
    {"_tables", "report", "parallel"},
    {"data", "predictions"},
    {"propensity"},
    {"weights"},
    {"losses", "operator", "metrics"},
    {"diagnosis", "audit", "thresholds"},
    {"missing"},
    {"linear", "torch"},
    {"tree"},
    {"tuning"},
    {"pages"},
    {"demo"},
    {"warm"},
    {"cli"},
)
OWNERS = {
    "numba": {"_kernels"},
    "llvmlite": {"_kernels"},
    "zstandard": {"_io"},
    "torch": {"torch"},
    "torchmetrics": {"torch"},
    "transformers": set(),  # their trainers call us; nobody imports them
    "lightning": set(),
    "dask": {"parallel"},
    "distributed": {"parallel"},
    "joblib": {"parallel"},
    "safetensors": {"linear"},
    "tqdm": {"linear"},
    "matplotlib": {"report"},
    "jinja2": {"report"},
    "typer": {"cli"},
    "rich": {"cli"},
    "sklearn": {"data", "linear", "tree"},
    "pyarrow": {"_tables"},
}


def files(room: str) -> list[Path]:
    """The source files of a room."""
    single = SOURCE / "unmask" / f"{room}.py"
    return [single] if single.exists() else sorted((SOURCE / "unmask" / room).rglob("*.py"))


def sentence(room: str) -> str:
    """What a room says of itself: the first sentence of its docstring."""
    home = files(room)[0] if len(files(room)) == 1 else files(room)[0].parent / "__init__.py"
    text = ast.get_docstring(ast.parse(home.read_text(encoding="utf-8"))) or ""
    paragraph = " ".join(text.split("\n\n")[0].split())
    return paragraph if paragraph.endswith((".", "?")) else f"{paragraph}."
