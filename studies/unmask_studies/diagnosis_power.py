"""Does the diagnosis stay silent on valid data, and does it find what it claims to find?

False alarms: labels are hidden as the corrections assume, in six shapes (among them the hardest
case that is still valid, the same number of labels in every row), and the true propensities are
stated. At most 5 % of such data sets may be called a violation. Every test of an audit is also
looked at by itself, on 100 audited rows with labels that imply others, scores and covariates that
mean nothing: independent masks, rows of differing effort, and rows that nobody annotated, as far as
they leave its hypothesis true. At most 5 % may be below 0.05 before the correction for several
tests, which findings then have. Power: one assumption is broken by
a growing amount; the share of data sets in which any violation is reported, and in which the test
made for it reports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, logit

from unmask import data, propensity, report
from unmask._typing import Floats, PropensityLike
from unmask.diagnosis import Test, TestKind, diagnose
from unmask.diagnosis.diagnose import holm
from unmask.diagnosis.evidence import agreement, dependence, recording
from unmask.propensity import MaskModel
from unmask_studies.runs import Groups, Row, Study, Unit, group_rows, statement

Case = tuple[sp.csr_array, Floats]
"""True labels and their propensities; or observed labels and the propensities that are stated."""

SIZES = {"tiny": (1, 1, 150), "small": (50, 10, 600), "paper": (200, 20, 1000)}
"""Repetitions of valid and of broken data sets, and rows; a third as many rows are audited."""
NULLS = {"tiny": 2, "small": 50, "paper": 1200}
"""Data sets by which every test of an audit is looked at."""
AUDITED = 100
"""Audited rows of each."""
L = 100
AT_MOST = 0.05


def units(size: str, seed: int, data: object) -> list[Unit]:
    """One unit per shape of valid data, and per violation and strength."""
    valid, broken, rows = SIZES[size]
    shared = {"rows": rows, "first_seed": 100_000 * seed}
    few = 2 if size == "tiny" else None
    null: list[Unit] = [
        {"case": name, "strength": 0.0, "repetitions": NULLS[size], **shared, "rows": AUDITED}
        for name in [*HARMLESS][:few]
    ]
    quiet: list[Unit] = [
        {"case": name, "strength": 0.0, "repetitions": valid, **shared} for name in [*VALID][:few]
    ]
    return [*quiet, *null] + [
        {"case": name, "strength": strength, "repetitions": broken, **shared}
        for name, (_, strengths, _, _) in VIOLATIONS.items()
        for strength in strengths[:few]
    ]


def measure(
    case: str, strength: float, repetitions: int, rows: int, first_seed: int
) -> Iterable[Row]:
    """How often a violation was reported, by any test and by the one that is meant for it."""
    if case in HARMLESS:
        yield from _each_test(case, [first_seed + i for i in range(repetitions)], rows)
        return
    if case in VALID:
        both = [_alarms(case, rows, first_seed + i) for i in range(repetitions)]
        for audited, kinds in zip((False, True), zip(*both, strict=True), strict=True):
            yield {"kind": "valid", "audited": audited, "any": _share(kinds), "meant": None}
        return
    _, _, meant_for_it, audited = VIOLATIONS[case]
    rejected = [_violations(case, strength, rows, first_seed + i) for i in range(repetitions)]
    meant = [[kind for kind in each if kind in meant_for_it] for each in rejected]
    yield {"kind": "broken", "audited": audited, "any": _share(rejected), "meant": _share(meant)}


def _each_test(case: str, seeds: list[int], rows: int) -> Iterable[Row]:
    """How often each test whose hypothesis is true has a p-value of at most 0.05."""
    mask, untrue = HARMLESS[case]
    below: dict[TestKind, list[float]] = {}
    for seed in seeds:
        rng = np.random.default_rng([seed, 2026])  # labels are drawn by the seed itself
        true_labels, p = _with_implied(_planted(rows, seed)), rng.uniform(0.2, 0.8, L)
        observed = data.hide(true_labels, mask(p), seed=int(rng.integers(1 << 30)))
        covariates = {"number": rng.standard_normal(rows), "group": rng.choice(list("abc"), rows)}
        tests = [
            *agreement(observed, true_labels, p),
            *dependence(observed, true_labels, rng, scores=rng.standard_normal((rows, L)),
                        covariates=covariates),
            *recording(observed, true_labels),
        ]  # fmt: skip
        for test in tests:
            below.setdefault(test.kind, []).append(float(test.p_value <= AT_MOST))
    for kind, rejected in below.items():
        if kind not in untrue:
            yield {
                "kind": "null", "audited": True, "test": kind.value, "tests": len(rejected),
                "any": float(np.mean(rejected)), "meant": None,
            }  # fmt: skip


def _with_implied(true_labels: sp.csr_array) -> sp.csr_array:
    """The labels 0, 2, … 18 imply 1, 3, … 19."""
    dense = true_labels.toarray()
    dense[:, 1:20:2] = np.maximum(dense[:, 1:20:2], dense[:, 0:20:2])
    return sp.csr_array(dense)


def _alarms(case: str, rows: int, seed: int) -> tuple[list[TestKind], list[TestKind]]:
    """What is reported without an audit, and with one; the tests without it are the same."""
    true_labels, p = VALID[case](rows + rows // 3, seed)
    observed = data.hide(true_labels, p, seed=seed + 7)
    tests = diagnose(observed[:rows], p, (observed[rows:], true_labels[rows:]), seed=seed).tests
    alone = [test for test in tests if not test.kind.needs_audit]
    return _rejected(holm(alone)), _rejected(tests)


def _violations(case: str, strength: float, rows: int, seed: int) -> list[TestKind]:
    breaks, _, _, audited = VIOLATIONS[case]
    true_labels, rng = _planted(rows + rows // 3, seed), np.random.default_rng(seed)
    observed, p = breaks(true_labels, propensity.jain(true_labels), strength, rng)
    audit = (observed[rows:], true_labels[rows:]) if audited else None
    return _rejected(diagnose(observed[:rows], p, audit, seed=seed).tests)


def _rejected(tests: Iterable[Test]) -> list[TestKind]:
    return [test.kind for test in tests if test.adjusted <= AT_MOST]


def _share(rejected: Iterable[list[TestKind]]) -> float:
    return float(np.mean([bool(kinds) for kinds in rejected]))


def _planted(n: int, seed: int) -> sp.csr_array:
    return data.synthetic.planted(n, n_labels=L, seed=seed).labels


def _same_number(n: int, seed: int) -> sp.csr_array:
    """Every row has exactly six labels."""
    chosen = np.random.default_rng(seed).random((n, L)).argpartition(6, axis=1)[:, :6]
    entries = (np.ones(6 * n, np.float32), (np.repeat(np.arange(n), 6), chosen.ravel()))
    return sp.csr_array(entries, shape=(n, L))


def _jain(n: int, seed: int) -> Case:
    true_labels = _planted(n, seed)
    return true_labels, propensity.jain(true_labels)


def _steep(n: int, seed: int) -> Case:
    true_labels = _planted(n, seed)
    return true_labels, propensity.inverse_linear(true_labels)


VALID: dict[str, Callable[[int, int], Case]] = {
    "planted, Jain": _jain,
    "planted, p = 0.3": lambda n, seed: (_planted(n, seed), np.full(L, 0.3)),
    "planted, 1/p from 2 to 20": _steep,
    "planted, p = 0.95 and 0.1 in turn": lambda n, seed: (
        _planted(n, seed), np.where(np.arange(L) % 2, 0.95, 0.1)),
    "independent labels, p = 0.5": lambda n, seed: (
        data.synthetic.independent(n, L, seed=seed), np.full(L, 0.5)),
    "six labels in every row, p = 0.5": lambda n, seed: (
        _same_number(n, seed), np.full(L, 0.5)),
}  # fmt: skip


def _keep_one(true_labels: sp.csr_array, p: Floats, share: float, rng: np.random.Generator) -> Case:
    """Rows that lost everything get one of their labels back, in this share of cases.

    Not in all of them: a file in which no row is empty cannot tell, and is not judged.
    """
    observed = _hidden(true_labels, p, rng)
    lost = (np.diff(observed.indptr) == 0) & (np.diff(true_labels.indptr) > 0)
    saved = np.flatnonzero(lost & (rng.random(lost.size) < share))
    entries = true_labels.indptr[saved] + rng.integers(np.diff(true_labels.indptr)[saved])
    put_back = (np.ones(saved.size, np.float32), (saved, true_labels.indices[entries]))
    return sp.csr_array(observed + sp.csr_array(put_back, shape=true_labels.shape)), p


def _too_low(true_labels: sp.csr_array, p: Floats, share: float, rng: np.random.Generator) -> Case:
    """The stated propensities are too low by this share."""
    return _hidden(true_labels, p, rng), p * (1 - share)


def _by_number(true_labels: sp.csr_array, p: Floats, s: float, rng: np.random.Generator) -> Case:
    """The odds of being kept fall with the number of labels: by e^(−s) per doubling."""
    size = np.log2(np.repeat(np.diff(true_labels.indptr), np.diff(true_labels.indptr)))
    return _by_entry(true_labels, p, -s * (size - size.mean()), rng), p


def _by_row(true_labels: sp.csr_array, p: Floats, s: float, rng: np.random.Generator) -> Case:
    """Some rows are annotated better than others: logits differ between rows by sd s."""
    per_row = s * rng.standard_normal(true_labels.shape[0])
    return _by_entry(true_labels, p, np.repeat(per_row, np.diff(true_labels.indptr)), rng), p


def _by_label(true_labels: sp.csr_array, p: Floats, s: float, rng: np.random.Generator) -> Case:
    """Where the most frequent label is present, the others are kept less: logit − s."""
    first = int(np.argmax(np.bincount(true_labels.indices, minlength=L)))
    present = true_labels[:, [first]].toarray().ravel() > 0
    shift = np.where(
        true_labels.indices == first, 0.0, -s * np.repeat(present, np.diff(true_labels.indptr))
    )
    return _by_entry(true_labels, p, shift, rng), p


def _hidden(true_labels: sp.csr_array, p: PropensityLike, rng: np.random.Generator) -> sp.csr_array:
    return data.hide(true_labels, p, seed=int(rng.integers(1 << 30)))


def _by_entry(
    true_labels: sp.csr_array, p: Floats, shift: Floats, rng: np.random.Generator
) -> sp.csr_array:
    chances = expit(logit(p)[true_labels.indices] + shift)
    return _hidden(
        true_labels,
        sp.csr_array((chances, true_labels.indices, true_labels.indptr), true_labels.shape),
        rng,
    )


VIOLATIONS: dict[str, tuple[Callable[..., Case], tuple[float, ...], set[TestKind], bool]] = {
    "rows keep at least one label (share of rows saved)": (
        _keep_one, (0.25, 0.5, 0.75, 0.95),
        {TestKind.EMPTY_ROWS, TestKind.COUNT_THINNING}, False),
    "stated propensities too low (by this share), no audit": (
        _too_low, (0.2, 0.4, 0.6, 0.8), set(TestKind), False),
    "stated propensities too low (by this share), audit": (
        _too_low, (0.05, 0.1, 0.2, 0.4),
        {TestKind.AUDIT_LEVEL, TestKind.AUDIT_SHAPE, TestKind.AUDIT_LABELS}, True),
    "keeping depends on the number of labels (logit per doubling)": (
        _by_number, (0.15, 0.3, 0.6, 1.0), {TestKind.NUMBER_OF_LABELS}, True),
    "keeping depends on the row (sd of logits)": (
        _by_row, (0.3, 0.6, 1.0, 1.5), {TestKind.ROW}, True),
    "keeping depends on another label (logit)": (
        _by_label, (0.5, 1.0, 2.0, 3.0), {TestKind.OTHER_LABELS}, True),
}  # fmt: skip
"""How the data are broken, by how much, the tests meant for it, and whether an audit is needed."""


OF_INDEPENDENCE = frozenset(
    {TestKind.AUDIT_LEVEL, TestKind.AUDIT_SHAPE, TestKind.AUDIT_LABELS, TestKind.ROW,
     TestKind.OTHER_LABELS}
)  # fmt: skip
"""Tests whose hypothesis says that labels of a row are kept independently of each other."""
HARMLESS: dict[str, tuple[Callable[[Floats], PropensityLike], frozenset[TestKind]]] = {
    "independent masks": (lambda p: p, frozenset()),
    "row effort 0.8": (lambda p: MaskModel(p, row_effort=0.8), OF_INDEPENDENCE),
    "20 % unannotated": (
        lambda p: MaskModel(p, unannotated=0.2), OF_INDEPENDENCE | {TestKind.UNANNOTATED}),
}  # fmt: skip
"""Masks, and the tests whose hypothesis they make untrue."""


def draw(rows: list[Row]) -> list[report.Section]:
    """False alarms, then one power curve per violation."""
    quiet = [row for row in rows if row["kind"] == "valid"]
    broken = group_rows([row for row in rows if row["kind"] == "broken"], "case")
    null = [row for row in rows if row["kind"] == "null"]
    return [
        _alarm_section(quiet),
        *([_null_section(null)] if null else []),
        _power_section(broken),
    ]


def _alarm_section(rows: list[Row]) -> report.Section:
    body = [
        [case, part[0]["repetitions"], part[0]["rows"], *(row["any"] for row in part)]
        for (case,), part in group_rows(rows, "case").items()
    ]
    heads: list[report.Column | str] = ["valid data", "data sets", "rows"]
    heads += [report.Column(f"alarms {name} audit", ".3f") for name in ("without", "with")]
    repetitions = sum(row["repetitions"] for row in rows)
    rate = sum(row["any"] * row["repetitions"] for row in rows) / repetitions
    worst = max(rows, key=lambda row: row["any"])
    chance = _chance(worst["repetitions"])
    return report.Section(
        "False alarms",
        [
            report.Text(str(__doc__).partition("\n\n")[2]),
            report.Table(heads, body, title="Share of valid data sets with any violation"),
            report.Verdicts(
                [
                    statement(
                        "At most 5 % of valid data sets are called a violation",
                        rate <= AT_MOST and worst["any"] <= AT_MOST + chance,
                        f"{rate:.3f} of {repetitions} diagnoses; at most {worst['any']:.3f} in one "
                        f"kind of data ({worst['case']}), where chance allows "
                        f"{AT_MOST + chance:.3f}",
                    )
                ]
            ),
        ],
    )


def _null_section(rows: list[Row]) -> report.Section:
    """Every test by itself, where its hypothesis is true."""
    by_test = group_rows(rows, "test")
    cases = list(group_rows(rows, "case"))
    body: list[list[report.Cell]] = []
    for (test,), part in by_test.items():
        shares = {row["case"]: row["any"] for row in part}
        body.append([test, part[0]["tests"], *(shares.get(case) for (case,) in cases)])
    far = [row for row in rows if row["any"] > AT_MOST + _chance(row["tests"])]
    worst = max(rows, key=lambda row: row["any"])
    mean = float(np.mean([row["any"] for row in rows]))
    heads: list[report.Column | str] = ["test", "tests made"]
    heads += [report.Column(case, ".3f") for (case,) in cases]
    return report.Section(
        "Every test by itself",
        [
            report.Table(
                heads, body, title="Share of p-values of at most 0.05 where nothing is to be found",
                caption="Covariates are tested twice in each data set, a number and a group. No "
                "number: the masks make the hypothesis of the test untrue.",
            ),
            report.Verdicts(
                [
                    statement(
                        "No test of an audit is below 0.05 in more than 5 %, as far as chance "
                        "allows (two standard errors)",
                        not far,
                        f"{len(far)} of {len(rows)} are above; mean {mean:.3f}, at most "
                        f"{worst['any']:.3f} ({worst['test']}, {worst['case']}), where chance "
                        f"allows {AT_MOST + _chance(worst['tests']):.3f}",
                    )
                ]
            ),
        ],
    )  # fmt: skip


def _chance(repetitions: int) -> float:
    """Two standard errors of a share of 5 %."""
    return float(2 * np.sqrt(AT_MOST * (1 - AT_MOST) / repetitions))


def _power_section(broken: Groups) -> report.Section:
    charts = [
        report.Chart(
            "lines",
            [
                report.Series(name, [row["strength"] for row in part], [row[key] for row in part])
                for name, key in (("any test", "any"), ("the test meant for it", "meant"))
            ],
            title=case.partition(" (")[0],
            x=report.Axis(case.partition(" (")[2].replace("), ", ", ").rstrip(")"), low=0),
            y=report.Axis("share found", low=0, high=1),
            rules=[report.Rule("5 %", AT_MOST)],
        )
        for (case,), part in broken.items()
    ]
    heads: list[report.Column | str] = ["violation", "strength", "audit"]
    heads += [report.Column(name, ".2f") for name in ("any test", "the test meant for it")]
    body = [
        [case, row["strength"], row["audited"], row["any"], row["meant"]]
        for (case,), part in broken.items()
        for row in part
    ]
    claims = [
        statement(f"Found: {case}", part[-1]["meant"] >= 0.9,
                  f"{part[-1]['meant']:.0%} at {part[-1]['strength']:g}, by the test meant for it")
        for (case,), part in broken.items()
    ]  # fmt: skip
    curves = report.Panels(charts, columns=2, title="Power over the size of the violation")
    table = report.Table(heads, body, title="Power")
    return report.Section("Power", [curves, table, report.Verdicts(claims)])


STUDY = Study("diagnosis-power", "false alarms and power of the diagnosis", units, measure, draw)
