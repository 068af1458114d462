"""Stored numbers are compared with numbers that were rounded as they were."""

from __future__ import annotations

import os

import numpy as np

from tests import NUMPY_FEATURES, without_avx512

COMMON = {"OPENBLAS_CORETYPE", "ATEN_CPU_CAPABILITY", "MKL_CBWR"}


def test_processors_beyond_avx2_are_kept_to_it() -> None:
    flags = {"avx2", "avx512bw", "avx512_vbmi2"}
    variables = without_avx512(flags, "2.4.6")
    assert variables["NPY_DISABLE_CPU_FEATURES"] == "X86_V4 AVX512_ICL"
    assert set(variables) == {*COMMON, "NPY_DISABLE_CPU_FEATURES"}
    assert set(without_avx512({"avx2"}, "2.4.6")) == COMMON


def test_nothing_is_asked_of_what_a_processor_or_numpy_does_not_have() -> None:
    assert without_avx512({"sse2"}, "2.4.6") == {}
    assert without_avx512(set(), "2.4.6") == {}
    assert set(without_avx512({"avx2", "avx512bw"}, "2.3.9")) == COMMON
    assert set(without_avx512({"avx2", "avx512bw"}, "10.0")) > COMMON


def test_numpy_was_asked_before_it_was_imported() -> None:
    enabled = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    if "NPY_DISABLE_CPU_FEATURES" in os.environ:
        assert not set(enabled) & set(NUMPY_FEATURES.values())
