"""unmask: learning and evaluating multilabel models when labels are missing.

Observed labels are true labels behind a mask, Y = M ⊙ Y*. The walk through the package is
read → propensities → weights → loss → train → predict → evaluate; the modules below stand in
that order. Everything is imported when first used, so `import unmask` itself costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unmask import data, propensity
    from unmask._kernels import set_threads

__version__ = "0.1.0"

_MODULES = ("data", "propensity")
_NAMES = {"set_threads": "_kernels"}

__all__ = ["__version__", "data", "propensity", "set_threads"]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"unmask.{name}")
    if name in _NAMES:
        return getattr(import_module(f"unmask.{_NAMES[name]}"), name)
    raise AttributeError(f"module 'unmask' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
