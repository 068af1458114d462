"""What a diagnosis consists of: findings for people, tests and figures for machines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

SEVERITIES = ("info", "warning", "error")


@dataclass(frozen=True)
class Finding:
    """One thing to know: how bad it is, what it is, what shows it, what to do about it."""

    severity: str
    title: str
    evidence: str
    advice: str

    def __str__(self) -> str:
        """Four short lines."""
        return f"[{self.severity}] {self.title}\n    {self.evidence}\n    → {self.advice}"


@dataclass(frozen=True)
class Test:
    """A test of one consequence of independent masks with the stated propensities.

    name      what is tested
    p_value   under the hypothesis that the propensities hold and the masks are independent
    adjusted  the same after Holm's correction for all tests of the diagnosis
    effect    how large the departure is, in words with a number
    advice    what to do if the test rejects
    severity  how bad it is if the test rejects; a departure too small to matter is a "warning"
    title     what the finding is called if the test rejects
    """

    __test__ = False  # pytest: not a test case

    name: str
    p_value: float
    effect: str
    advice: str
    severity: str = "error"
    adjusted: float = 1.0
    title: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """Can these propensities be true, and can unbiased estimates be used here?

    findings   worst first
    tests      every test made, rejected or not
    usability  expected standard errors, effective sample size, largest weights
    n, L       size of the label matrix
    """

    findings: tuple[Finding, ...]
    tests: tuple[Test, ...]
    usability: dict[str, Any]
    n: int
    L: int

    @property
    def severity(self) -> str:
        """The worst severity among the findings."""
        return max((f.severity for f in self.findings), key=SEVERITIES.index, default="info")

    @property
    def verdict(self) -> str:
        """One sentence."""
        return VERDICTS[self.severity]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, lists and strings, for JSON."""
        return {"severity": self.severity, "verdict": self.verdict, **asdict(self)}

    def __str__(self) -> str:
        """The verdict and the findings, for reading."""
        head = f"{self.n:,} rows, {self.L:,} labels: {self.verdict}"
        return "\n".join([head, *map(str, self.findings)])


def replicates(
    draw: Callable[[], float], seen: float, most: int, *, two_sided: bool = False
) -> NDArray[np.float64]:
    """Up to `most` draws; no more once so many lie beyond `seen` that it is nothing unusual.

    A p-value of (1 + draws beyond) / (1 + draws) keeps its level (Besag & Clifford, *Sequential
    Monte Carlo p-values*, 1991), and where nothing is wrong most of the work is saved.

    >>> replicates(lambda: 1.0, 0.5, 99).size, replicates(lambda: 1.0, 2.0, 99).size
    (10, 99)
    """
    drawn: list[float] = []
    above = below = 0
    while len(drawn) < most and (below if two_sided and below < above else above) < UNUSUAL:
        drawn.append(draw())
        above += drawn[-1] >= seen
        below += drawn[-1] <= seen
    return np.array(drawn)


UNUSUAL = 10

VERDICTS = {
    "info": "nothing contradicts these propensities, and unbiased estimates can be used.",
    "warning": "usable with care; read the warnings.",
    "error": "these labels and these propensities do not fit together as corrections assume; "
    "read the errors before using corrected numbers.",
}
