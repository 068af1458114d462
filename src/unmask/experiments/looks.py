"""One look per estimator and correction, on every figure of the package."""

from __future__ import annotations

from unmask.report import STYLES, Style

STYLES.update(
    {
        "vanilla": Style("blue", "circle"),
        "unbiased": Style("orange", "square"),
        "bound": Style("green", "triangle"),
        "deconvolved": Style("vermilion", "diamond"),
        "empirical_bayes": Style("vermilion", "diamond"),
        "tempered": Style("purple", "plus"),
        "clipped": Style("sky", "cross"),
        "self_normalized": Style("olive", "down"),
        "filtered": Style("gray", "star"),
        "subsampled": Style("gray", "circle", "dashed"),
    }
)
