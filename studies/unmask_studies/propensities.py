"""Propensities from a few judged rows, and what a diagnosis of them finds, on planted data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, logit

from unmask import data, pages, propensity
from unmask._typing import Array, Floats, PropensityLike
from unmask.diagnosis import Test, diagnose
from unmask.diagnosis.diagnose import holm
from unmask.diagnosis.evidence import agreement, dependence, recording
from unmask.diagnosis.findings import TestKind
from unmask.metrics import evaluate
from unmask.predictions import TopK
from unmask.propensity import MaskModel
from unmask_studies.data import counts_of
from unmask_studies.drawing import chart, mean, rms, share, table
from unmask_studies.study import Drawn, Row, Study, Unit, group_rows, statement

# Propensities from an audit

TRUTHS = {
    "fewer labels kept": (0.25, 1.0, 0.0),
    "other constants, labels scatter": (0.9, 6.0, 0.5),
    "usual constants": (0.55, 1.5, 0.0),
}
# a, b, and how much the logits of labels scatter around the curve.
AUDITS = (100, 300, 1000)
SIZES = {"tiny": (1, 1, (1500, 50, 300)), "small": (2, 4, (8000, 200, 3000)),
         "paper": (2, 10, (8000, 200, 3000))}  # fmt: skip
# Blocks, repetitions in a block, and (training rows, labels, test rows).
SHOWN = {"P@5": "unbiased", "R@5": "deconvolved", "PSP@5": "normalized"}
CERTAIN = "audit, as if certain"


def recovery_units(size: str, seed: int, data: object) -> list[Unit]:
    """Return one unit per truth, size of the audit and block of repetitions."""
    blocks, repetitions, shape = SIZES[size]
    return [
        {"truth": truth, "audited": rows, "first_seed": 1000 * seed + block * repetitions,
         "repetitions": repetitions, "shape": list(shape)}
        for block in range(blocks) for truth in TRUTHS
        for rows in (AUDITS if size != "tiny" else AUDITS[:1])
    ]  # fmt: skip


def measure_recovery(
    truth: str, audited: int, first_seed: int, repetitions: int, shape: list[int]
) -> Iterable[Row]:
    """Return a row of propensities per repetition, and one per metric and propensities used.

    Labels of planted rows are hidden by a Jain curve whose constants are not the usual ones, with
    or without labels scattering around it, or by the usual curve itself. 100, 300 or 1000 other
    rows are audited. How close are a, b and every p_j, do their intervals hold the truth, and what
    error is left in P@5, R@5 and PSP@5 on further rows, compared with the default constants a =
    0.55, b = 1.5 and with the true propensities? The truth of P@5 and R@5 is their value on
    complete labels; that of PSP@5, a score relative to the observed labels, its value with the true
    propensities.
    """
    a, b, scatter = TRUTHS[truth]
    n, n_labels, n_test = shape
    for seed in range(first_seed, first_seed + repetitions):
        rows: sp.csr_array = data.synthetic.planted(
            n + audited + n_test, n_labels=n_labels, seed=seed
        ).labels
        train, complete, test = rows[:n], rows[n:-n_test], rows[-n_test:]
        p = scattered(on_curve(counts_of(train), n, a, b), scatter, seed)
        counts = counts_of(data.hide(train, p, seed=seed))
        estimate = propensity.audit(
            data.hide(complete, p, seed=seed + 1), complete, counts=counts, n=n, seed=seed
        )
        if (curve := estimate.curve) is None:
            raise ValueError("the audit found no curve: too few labels occur in it.")
        default, ends = propensity.jain_curve(counts, n), curve.intervals
        yield {
            "repetition": seed, "about": "propensities", "a": curve.a, "b": curve.b,
            "covers_a": ends["a"][0] <= a <= ends["a"][1],
            "covers_b": ends["b"][0] <= b <= ends["b"][1],
            "covers_p": float(((estimate.low <= p) & (p <= estimate.high)).mean()),
            "width_p": float((estimate.high - estimate.low).mean()),
            "rmse_audit": float(np.sqrt(np.mean((estimate.value - p) ** 2))),
            "rmse_default": float(np.sqrt(np.mean((default - p) ** 2))),
        }  # fmt: skip
        noise = np.random.default_rng(seed).standard_normal(test.shape)
        top = TopK.from_scores((noise + 2.2 * test.toarray()).astype(np.float32), 5)
        observed = data.hide(test, p, seed=seed + 2)
        used: dict[str, Any] = {
            "true": p,
            "audit": estimate,
            CERTAIN: estimate.value,
            "default": default,
        }
        exact = {each.metric: each.value for each in evaluate(top, test, metrics=["P@5", "R@5"])}
        for name, q in used.items():
            draws: dict[str, Any] = {"draws": 20} if name == "audit" else {}
            found = evaluate(
                top, observed, q, metrics=list(SHOWN), estimators=list(SHOWN.values()), **draws
            )
            exact.setdefault("PSP@5", found["PSP@5", "normalized"].value)  # with the true ones
            for each in (found[cell] for cell in SHOWN.items()):
                value, (low, high) = exact[each.metric], each.interval
                yield {
                    "repetition": seed, "about": "metrics", "propensities": name,
                    "metric": each.metric, "value": each.value, "exact": value,
                    "error": each.value - value, "inside": low <= value <= high,
                }  # fmt: skip


def on_curve(true_counts: Array, n: int, a: float, b: float) -> Floats:
    """Return propensities on the Jain curve of the counts that are left after hiding."""
    p = propensity.jain_curve(true_counts, n, a=a, b=b)
    for _ in range(100):
        p = propensity.jain_curve(true_counts * p, n, a=a, b=b)
    return p


def scattered(p: Floats, sd: float, seed: int) -> Floats:
    """Return propensities whose logits scatter around the given ones."""
    odds = p / (1 - p) * np.exp(sd * np.random.default_rng(seed).standard_normal(p.size))
    return np.asarray(odds / (1 + odds))


def draw_recovery(rows: list[Row]) -> Drawn:
    """Return errors and coverage of propensities and of metrics, over the size of the audit."""
    recovered, scored = ([r for r in rows if r["about"] == about]
                         for about in ("propensities", "metrics"))  # fmt: skip
    cells = group_rows(recovered, "truth", "audited")
    by = group_rows(scored, "metric", "truth", "audited", "propensities")
    truths = dict.fromkeys(key[0] for key in cells)
    x = pages.Axis("audited rows", log=True)
    of_p, of_metrics = [], []
    for truth in truths:
        points = {name: {key[1]: rms(part, f"rmse_{name}") for key, part in cells.items()
                         if key[0] == truth} for name in ("audit", "default")}  # fmt: skip
        y = pages.Axis("error of p (RMS)", low=0)
        of_p.append(chart("lines", points, title=truth.rpartition(", ")[2], x=x, y=y))
    for metric, truth in ((metric, truth) for metric in SHOWN for truth in truths):
        points = {name: {key[2]: rms(part, "error") for key, part in by.items()
                         if (*key[:2], key[3]) == (metric, truth, name)}
                  for name in ("true", "audit", "default")}  # fmt: skip
        of_metrics.append(chart("lines", points, title=f"{metric}: {truth.rpartition(', ')[2]}",
                                x=x, y=pages.Axis("error (RMS)", low=0)))  # fmt: skip
    figures = [pages.Panels(of_p, columns=3, title="Error of propensities"),
               pages.Panels(of_metrics, columns=3, title="Error of metrics")]  # fmt: skip
    means = ("width_p", "covers_p", "covers_a", "covers_b")
    heads = ("p: error, audit", "p: error, default", "p: width", "p: coverage", "a: coverage",
             "b: coverage", "a: median", "b: median")  # fmt: skip
    lines = [
        [*key, len(part), rms(part, "rmse_audit"), rms(part, "rmse_default"),
         *(mean(part, name) for name in means),
         *(float(np.median([row[name] for row in part])) for name in ("a", "b"))]
        for key, part in cells.items()
    ]  # fmt: skip
    tables = [
        table("Propensities; 95 % intervals",
              {"truth": "", "audited rows": "", "repetitions": "", **dict.fromkeys(heads, ".3f")},
              lines),
        table("Errors of metrics, and coverage of 95 % intervals",
              {"metric": "", "truth": "", "audited rows": "", "propensities": "", "bias": "+.4f",
               "error (RMS)": ".4f", "coverage": ".3f"},
              [[*key, mean(part, "error"), rms(part, "error"), mean(part, "inside")]
               for key, part in by.items()]),
    ]  # fmt: skip
    return Drawn(figures, _recovery_claims(cells, by), tables)


def _recovery_claims(
    cells: dict[tuple[Any, ...], list[Row]], by: dict[tuple[Any, ...], list[Row]]
) -> list[pages.Verdict]:
    coverage = [mean(part, "covers_p") or 0 for part in cells.values()]
    wrong = [key for key in cells if key[0] != "usual constants"]

    def against(pairs: dict[tuple[Any, ...], tuple[float, float]], digits: int) -> tuple[bool, str]:
        said = "; ".join(f"{truth}, {n} rows: {a:.{digits}f} against {b:.{digits}f}"
                         for (truth, n), (a, b) in pairs.items())  # fmt: skip
        return all(a < b for a, b in pairs.values()), said

    errors = {key: (rms(cells[key], "rmse_audit") or 0, rms(cells[key], "rmse_default") or 0)
              for key in wrong}  # fmt: skip
    claims = [
        statement(
            "95 % intervals of single propensities hold at least 90 % of them",
            min(coverage) >= 0.9, f"coverage {min(coverage):.3f} to {max(coverage):.3f}",
        ),
        statement(
            "Where the usual constants are wrong, the smallest audit is closer to the truth",
            *against(errors, 3),
        ),
    ]  # fmt: skip
    for metric in ("P@5", "R@5"):
        parts = {name: {key: by[metric, *key, name] for key in wrong}
                 for name in ("audit", CERTAIN, "default")}  # fmt: skip
        errors = {key: (rms(parts["audit"][key], "error") or 0,
                        rms(parts["default"][key], "error") or 0) for key in wrong}  # fmt: skip
        covered, before, usual = (
            share(row["inside"] for part in each.values() for row in part) or 0
            for each in parts.values()
        )
        claims += [
            statement(
                f"Where the usual constants are wrong, {metric} is closer to its value on complete "
                "labels with an audit", *against(errors, 4),
            ),
            statement(
                f"Intervals of {metric} that carry the doubt about propensities hold it in at "
                "least 90 % of the cases", covered >= 0.9,
                f"{covered:.2f}; {before:.2f} if the estimate is taken for certain, {usual:.2f} "
                "with the usual constants",
            ),
        ]  # fmt: skip
    return claims


def answer_recovery(rows: list[Row]) -> str:
    """Return what 100 judged rows do to the error of propensities."""
    own = [r for r in rows if r["about"] == "propensities" and r["audited"] == 100]
    return (
        f"100 judged rows bring the error of propensities from {mean(own, 'rmse_default'):.3f} "
        f"(the usual constants) to {mean(own, 'rmse_audit'):.3f}."
    )


RECOVERY = Study(
    "propensity-recovery", "Propensities from a few judged rows",
    "How many rows must be judged to know the propensities?",
    recovery_units, measure_recovery, draw_recovery, answer_recovery,
)  # fmt: skip

# The diagnosis

Case = tuple[sp.csr_array, Floats]
# True labels and their propensities; or observed labels and the propensities that are stated.
POWER = {"tiny": (1, 1, 150), "small": (50, 10, 600), "paper": (200, 20, 1000)}
# Repetitions of valid and of broken data sets, and rows; a third as many rows are audited.
NULLS = {"tiny": 2, "small": 50, "paper": 1200}  # data sets by which every test is looked at
L, AUDITED, AT_MOST = 100, 100, 0.05


def _planted(n: int, seed: int) -> sp.csr_array:
    return data.synthetic.planted(n, n_labels=L, seed=seed).labels


def _same_number(n: int, seed: int) -> sp.csr_array:
    """Exactly six labels in every row."""
    chosen = np.random.default_rng(seed).random((n, L)).argpartition(6, axis=1)[:, :6]
    entries = (np.ones(6 * n, np.float32), (np.repeat(np.arange(n), 6), chosen.ravel()))
    return sp.csr_array(entries, shape=(n, L))


VALID: dict[str, tuple[Callable[[int, int], sp.csr_array], Callable[[sp.csr_array], Any]]] = {
    "planted, Jain": (_planted, propensity.jain),
    "planted, p = 0.3": (_planted, lambda _: np.full(L, 0.3)),
    "planted, 1/p from 2 to 20": (_planted, propensity.inverse_linear),
    "planted, p = 0.95 and 0.1 in turn": (
        _planted, lambda _: np.where(np.arange(L) % 2, 0.95, 0.1)),
    "independent labels, p = 0.5": (
        lambda n, seed: data.synthetic.independent(n, L, seed=seed), lambda _: np.full(L, 0.5)),
    "six labels in every row, p = 0.5": (_same_number, lambda _: np.full(L, 0.5)),
}  # fmt: skip


def _hidden(true_labels: sp.csr_array, p: PropensityLike, rng: np.random.Generator) -> sp.csr_array:
    return data.hide(true_labels, p, seed=int(rng.integers(1 << 30)))


def _shifted(true: sp.csr_array, p: Floats, shift: Floats, rng: np.random.Generator) -> Case:
    """Logits of being kept, shifted entry by entry."""
    chances = expit(logit(p)[true.indices] + shift)
    entries = sp.csr_array((chances, true.indices, true.indptr), true.shape)
    return _hidden(true, entries, rng), p


def _keep_one(true: sp.csr_array, p: Floats, s: float, rng: np.random.Generator) -> Case:
    """Rows that lost everything get one of their labels back, in this share of cases.

    Not in all of them: a file in which no row is empty cannot tell, and is not judged.
    """
    observed = _hidden(true, p, rng)
    lost = (np.diff(observed.indptr) == 0) & (np.diff(true.indptr) > 0)
    saved = np.flatnonzero(lost & (rng.random(lost.size) < s))
    entries = true.indptr[saved] + rng.integers(np.diff(true.indptr)[saved])
    put_back = (np.ones(saved.size, np.float32), (saved, true.indices[entries]))
    return sp.csr_array(observed + sp.csr_array(put_back, shape=true.shape)), p


def _too_low(true: sp.csr_array, p: Floats, s: float, rng: np.random.Generator) -> Case:
    """The stated propensities are too low by this share."""
    return _hidden(true, p, rng), p * (1 - s)


def _by_number(true: sp.csr_array, p: Floats, s: float, rng: np.random.Generator) -> Case:
    """The odds of being kept fall with the number of labels: by e^(−s) per doubling."""
    size = np.log2(np.repeat(np.diff(true.indptr), np.diff(true.indptr)))
    return _shifted(true, p, -s * (size - size.mean()), rng)


def _by_row(true: sp.csr_array, p: Floats, s: float, rng: np.random.Generator) -> Case:
    """Some rows are annotated better than others: logits differ between rows by sd s."""
    per_row = s * rng.standard_normal(true.shape[0])
    return _shifted(true, p, np.repeat(per_row, np.diff(true.indptr)), rng)


def _by_label(true: sp.csr_array, p: Floats, s: float, rng: np.random.Generator) -> Case:
    """Where the most frequent label is present, the others are kept less: logit − s."""
    first = int(np.argmax(np.bincount(true.indices, minlength=L)))
    present = np.repeat(true[:, [first]].toarray().ravel() > 0, np.diff(true.indptr))
    return _shifted(true, p, np.where(true.indices == first, 0.0, -s * present), rng)


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
# How the data are broken, by how much, the tests meant for it, and whether an audit is needed.
OF_INDEPENDENCE = frozenset(
    {TestKind.AUDIT_LEVEL, TestKind.AUDIT_SHAPE, TestKind.AUDIT_LABELS, TestKind.ROW,
     TestKind.OTHER_LABELS}
)  # fmt: skip
# Tests whose hypothesis says that labels of a row are kept independently of each other.
HARMLESS: dict[str, tuple[Callable[[Floats], PropensityLike], frozenset[TestKind]]] = {
    "independent masks": (lambda p: p, frozenset()),
    "row effort 0.8": (lambda p: MaskModel(p, row_effort=0.8), OF_INDEPENDENCE),
    "20 % unannotated": (
        lambda p: MaskModel(p, unannotated=0.2), OF_INDEPENDENCE | {TestKind.UNANNOTATED}),
}  # fmt: skip
# Masks, and the tests whose hypothesis they make untrue.


def power_units(size: str, seed: int, data: object) -> list[Unit]:
    """Return one unit per shape of valid data, and per violation and strength."""
    valid, broken, rows = POWER[size]
    few = 2 if size == "tiny" else None
    planned = [(name, 0.0, valid, rows) for name in [*VALID][:few]]
    planned += [(name, 0.0, NULLS[size], AUDITED) for name in [*HARMLESS][:few]]
    planned += [(name, strength, broken, rows) for name, (_, strengths, _, _) in VIOLATIONS.items()
                for strength in strengths[:few]]  # fmt: skip
    return [
        {"case": case, "strength": strength, "repetitions": repetitions, "rows": n,
         "first_seed": 100_000 * seed}
        for case, strength, repetitions, n in planned
    ]  # fmt: skip


def measure_power(
    case: str, strength: float, repetitions: int, rows: int, first_seed: int
) -> Iterable[Row]:
    """Return how often a violation was reported, by any test and by the one meant for it.

    False alarms: labels are hidden as the corrections assume, in six shapes (among them the hardest
    case that is still valid, the same number of labels in every row), and the true propensities are
    stated. At most 5 % of such data sets may be called a violation. Every test of an audit is also
    looked at by itself, on 100 audited rows with labels that imply others, scores and covariates
    that mean nothing: independent masks, rows of differing effort, and rows that nobody annotated,
    as far as they leave its hypothesis true. At most 5 % may be below 0.05 before the correction
    for several tests, which findings then have. Power: one assumption is broken by a growing
    amount; the share of data sets in which any violation is reported, and in which the test made
    for it reports it.
    """
    seeds = range(first_seed, first_seed + repetitions)
    if case in HARMLESS:
        mask, untrue = HARMLESS[case]
        below: dict[TestKind, list[bool]] = {}
        for seed in seeds:
            for test in _harmless_tests(mask, rows, seed):
                below.setdefault(test.kind, []).append(test.p_value <= AT_MOST)
        for kind, rejected in below.items():
            if kind not in untrue:
                yield {"kind": "null", "audited": True, "test": kind.value,
                       "tests": len(rejected), "any": share(rejected), "meant": None}  # fmt: skip
    elif case in VALID:
        both = [_alarms(case, rows, seed) for seed in seeds]
        for audited, kinds in zip((False, True), zip(*both, strict=True), strict=True):
            yield {"kind": "valid", "audited": audited, "any": share(map(bool, kinds)),
                   "meant": None}  # fmt: skip
    else:
        breaks, _, meant, audited = VIOLATIONS[case]
        found = []
        for seed in seeds:
            true, rng = _planted(rows + rows // 3, seed), np.random.default_rng(seed)
            observed, p = breaks(true, propensity.jain(true), strength, rng)
            audit = (observed[rows:], true[rows:]) if audited else None
            found.append(_rejected(diagnose(observed[:rows], p, audit, seed=seed).tests))
        yield {"kind": "broken", "audited": audited, "any": share(map(bool, found)),
               "meant": share(bool(kinds & meant) for kinds in found)}  # fmt: skip


def _harmless_tests(
    mask: Callable[[Floats], PropensityLike], rows: int, seed: int
) -> Iterable[Test]:
    """All tests of an audit of labels, some of which imply others."""
    rng = np.random.default_rng([seed, 2026])  # labels are drawn by the seed itself
    dense = _planted(rows, seed).toarray()
    dense[:, 1:20:2] = np.maximum(dense[:, 1:20:2], dense[:, 0:20:2])
    true, p = sp.csr_array(dense), rng.uniform(0.2, 0.8, L)
    observed = _hidden(true, mask(p), rng)
    covariates = {"number": rng.standard_normal(rows), "group": rng.choice(list("abc"), rows)}
    scores = rng.standard_normal((rows, L))
    return [
        *agreement(observed, true, p),
        *dependence(observed, true, rng, scores=scores, covariates=covariates),
        *recording(observed, true),
    ]


def _alarms(case: str, rows: int, seed: int) -> tuple[set[TestKind], set[TestKind]]:
    """Reports without an audit, and with one; the tests without it are the same."""
    make, stated = VALID[case]
    true = make(rows + rows // 3, seed)
    p = stated(true)
    observed = data.hide(true, p, seed=seed + 7)
    tests = diagnose(observed[:rows], p, (observed[rows:], true[rows:]), seed=seed).tests
    alone = holm([test for test in tests if not test.kind.needs_audit])
    return _rejected(alone), _rejected(tests)


def _rejected(tests: Iterable[Test]) -> set[TestKind]:
    return {test.kind for test in tests if test.adjusted <= AT_MOST}


def draw_power(rows: list[Row]) -> Drawn:
    """Return one power curve per violation, false alarms, and every test by itself."""
    quiet, null, broken = ([r for r in rows if r["kind"] == kind]
                           for kind in ("valid", "null", "broken"))  # fmt: skip
    by_case = {case: part for (case,), part in group_rows(broken, "case").items()}
    charts, claims = [], []
    for case, part in by_case.items():
        what, _, strength = case.partition(" (")
        named = {"any test": "any", "the test meant for it": "meant"}
        points = {name: {row["strength"]: row[key] for row in part} for name, key in named.items()}
        x = pages.Axis(strength.replace("), ", ", ").rstrip(")"), low=0)
        y = pages.Axis("share found", low=0, high=1)
        charts.append(chart("lines", points, title=what, x=x, y=y, rules={"5 %": AT_MOST}))
        last = part[-1]
        said = f"{last['meant']:.0%} at {last['strength']:g}, by the test meant for it"
        claims.append(statement(f"Found: {case}", last["meant"] >= 0.9, said))
    repetitions = sum(row["repetitions"] for row in quiet)
    rate = sum(row["any"] * row["repetitions"] for row in quiet) / repetitions
    worst = max(quiet, key=lambda row: row["any"])
    allowed = AT_MOST + _chance(worst["repetitions"])
    claims.insert(0, statement(
        "At most 5 % of valid data sets are called a violation",
        rate <= AT_MOST and worst["any"] <= allowed,
        f"{rate:.3f} of {repetitions} diagnoses; at most {worst['any']:.3f} in one kind of data "
        f"({worst['case']}), where chance allows {allowed:.3f}",
    ))  # fmt: skip
    tables = [
        table("Share of valid data sets with any violation",
              {"valid data": "", "data sets": "", "rows": "", "alarms without audit": ".3f",
               "alarms with audit": ".3f"},
              [[case, part[0]["repetitions"], part[0]["rows"], *(row["any"] for row in part)]
               for (case,), part in group_rows(quiet, "case").items()]),
    ]  # fmt: skip
    if null:
        worst = max(null, key=lambda row: row["any"])
        far = [row for row in null if row["any"] > AT_MOST + _chance(row["tests"])]
        claims.insert(1, statement(
            "No test of an audit is below 0.05 in more than 5 %, as far as chance allows (two "
            "standard errors)", not far,
            f"{len(far)} of {len(null)} are above; mean {mean(null, 'any'):.3f}, at most "
            f"{worst['any']:.3f} ({worst['test']}, {worst['case']}), where chance allows "
            f"{AT_MOST + _chance(worst['tests']):.3f}",
        ))  # fmt: skip
        by = {(row["test"], row["case"]): row["any"] for row in null}
        cases = dict.fromkeys(case for _, case in by)
        tables.append(table(
            "Share of p-values of at most 0.05 where nothing is to be found",
            {"test": "", "tests made": "", **dict.fromkeys(cases, ".3f")},
            [[test, part[0]["tests"], *(by.get((test, case)) for case in cases)]
             for (test,), part in group_rows(null, "test").items()],
            "Covariates are tested twice in each data set, a number and a group. No number: the "
            "masks make the hypothesis of the test untrue.",
        ))  # fmt: skip
    title = "Power over the size of the violation"
    return Drawn([pages.Panels(charts, columns=2, title=title)], claims, tables)


def _chance(repetitions: int) -> float:
    """Two standard errors of a share of 5 %."""
    return float(2 * np.sqrt(AT_MOST * (1 - AT_MOST) / repetitions))


DIAGNOSIS = Study(
    "diagnosis-power", "What a diagnosis finds, and when it is wrong",
    "Does the diagnosis object to wrong assumptions, and only to them?",
    power_units, measure_power, draw_power,
    lambda rows: f"It objects to at most {max(r['any'] for r in rows if r['kind'] == 'valid'):.1%} "
    "of the data sets that are as stated.",
)  # fmt: skip
STUDIES = (RECOVERY, DIAGNOSIS)
