"""The rooms of the package: which floor each is on, and who owns which dependency.

`tests/test_architecture.py` holds the source to it, `docs/architecture.md` shows it.
"""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"

# A room may import from the floors below it and from itself, never sideways or upwards.
FLOORS = (
    {"_typing", "_messages", "_text"},
    {"_kernels"},
    {"_names"},
    {"arrays"},
    {"files", "_mixture"},
    {"parallel"},
    {"data", "predictions"},
    {"propensity"},
    {"weights"},
    {"losses", "operator", "metrics"},
    {"diagnosis", "audit", "thresholds"},
    {"missing"},
    {"torch", "models"},
    {"linear", "tree", "tuning"},
    {"pages"},
    {"demo"},
    {"warm"},
    {"cli"},
)
# Results that draw themselves import `pages` when they are asked to, inside the method.
DRAWN = {"metrics", "models"}
OWNERS = {
    "numba": {"_kernels"},
    "llvmlite": {"_kernels"},
    "zstandard": {"files"},
    "torch": {"torch"},
    "torchmetrics": {"torch"},
    "transformers": set(),  # their trainers call us; nobody imports them
    "lightning": set(),
    "dask": {"parallel"},
    "distributed": {"parallel"},
    "joblib": {"parallel"},
    "safetensors": {"models"},
    "tqdm": {"models"},
    "matplotlib": {"pages"},
    "jinja2": {"pages"},
    "typer": {"cli"},
    "rich": {"cli"},
    "sklearn": {"data", "models"},
    "pyarrow": {"files"},
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
