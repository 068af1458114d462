"""Tests. Numbers are rounded alike on all processors that have AVX2, as those that are stored were.

numpy, OpenBLAS, torch and its MKL take other instructions where a processor has more, and sum in
another order; fits that stop at a tolerance then differ in the sixth digit. What is set here must
be set before any is imported, and is seen by processes that tests start.
"""

from __future__ import annotations

import os
import re
from importlib.metadata import version
from pathlib import Path

NUMPY_FEATURES = {"avx512bw": "X86_V4", "avx512_vbmi2": "AVX512_ICL", "avx512_fp16": "AVX512_SPR"}
"""What numpy (2.4) calls the instructions beyond AVX2, by what Linux calls one of each group."""


def without_avx512(flags: set[str], numpy_version: str) -> dict[str, str]:
    """Environment variables that keep libraries to AVX2, on a processor with these flags."""
    if "avx2" not in flags:
        return {}
    variables = {
        "OPENBLAS_CORETYPE": "Haswell", "ATEN_CPU_CAPABILITY": "avx2", "MKL_CBWR": "COMPATIBLE",
    }  # fmt: skip
    features = [name for flag, name in NUMPY_FEATURES.items() if flag in flags]
    if features and tuple(map(int, numpy_version.split(".")[:2])) >= (2, 4):
        variables["NPY_DISABLE_CPU_FEATURES"] = " ".join(features)
    return variables


def _flags() -> set[str]:
    """What the processor can do, where Linux says so."""
    about = Path("/proc/cpuinfo")
    text = about.read_text(encoding="utf-8") if about.exists() else ""
    line = re.search(r"^flags\s*:(.*)$", text, re.MULTILINE)
    return set(line[1].split()) if line else set()


STUDIES = Path(__file__).resolve().parents[1] / "studies"
"""What processes that tests start must have on their path, too; pytest has it by its settings."""
_paths = [str(STUDIES), *filter(None, [os.environ.get("PYTHONPATH")])]
os.environ["PYTHONPATH"] = os.pathsep.join(_paths)

for _name, _value in without_avx512(_flags(), version("numpy")).items():
    os.environ.setdefault(_name, _value)
