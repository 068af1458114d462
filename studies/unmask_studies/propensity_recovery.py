"""Propensities estimated from an audit, against planted truth and against the usual constants.

Labels of planted rows are hidden by a Jain curve whose constants are not the usual ones, with or
without labels scattering around it, or by the usual curve itself. 100, 300 or 1000 other rows are
audited. How close are a, b and every p_j, do their intervals hold the truth, and what error is left
in P@5, R@5 and PSP@5 on further rows, compared with the default constants a = 0.55, b = 1.5 and
with the true propensities? The truth of P@5 and R@5 is their value on complete labels; that of
PSP@5, a score relative to the observed labels, its value with the true propensities.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import scipy.sparse as sp

from unmask import data, propensity, report
from unmask._typing import Array, Floats, Ints
from unmask.metrics import Estimate, evaluate
from unmask.predictions import TopK
from unmask_studies.runs import STYLES, Groups, Row, Study, Unit, group_rows, statement

TRUTHS = {
    "fewer labels kept": (0.25, 1.0, 0.0),
    "other constants, labels scatter": (0.9, 6.0, 0.5),
    "usual constants": (0.55, 1.5, 0.0),
}
"""a, b, and how much the logits of labels scatter around the curve."""
AUDITS = (100, 300, 1000)
SIZES = {"tiny": (1, 1, (1500, 50, 300)), "small": (2, 4, (8000, 200, 3000)),
         "paper": (2, 10, (8000, 200, 3000))}  # fmt: skip
"""Blocks, repetitions in a block, and (training rows, labels, test rows)."""
DRAWS = 20
SHOWN = (("P@5", "unbiased"), ("R@5", "deconvolved"), ("PSP@5", "normalized"))
METRICS = [metric for metric, _ in SHOWN]
ESTIMATORS = [estimator for _, estimator in SHOWN]


def units(size: str, seed: int, data: object) -> list[Unit]:
    """One unit per truth, size of the audit and block of repetitions."""
    blocks, repetitions, shape = SIZES[size]
    return [
        {"truth": truth, "audited": rows, "first_seed": 1000 * seed + block * repetitions,
         "repetitions": repetitions, "shape": list(shape)}
        for block in range(blocks)
        for truth in TRUTHS
        for rows in (AUDITS if size != "tiny" else AUDITS[:1])
    ]  # fmt: skip


def measure(
    truth: str, audited: int, first_seed: int, repetitions: int, shape: list[int]
) -> Iterable[Row]:
    """One row per repetition: propensities; one per repetition, metric and propensities used."""
    for seed in range(first_seed, first_seed + repetitions):
        yield from _once(TRUTHS[truth], audited, seed, *shape)


def _once(
    truth: tuple[float, float, float], audited: int, seed: int, n: int, n_labels: int, n_test: int
) -> Iterable[Row]:
    a, b, scatter = truth
    dataset = data.synthetic.planted(n + audited + n_test, n_labels=n_labels, seed=seed)
    rows: sp.csr_array = dataset.labels
    train, complete, test = rows[:n], rows[n:-n_test], rows[-n_test:]
    p = scattered(on_curve(counts_of(train), n, a, b), scatter, seed)
    counts = counts_of(data.hide(train, p, seed=seed))
    estimate = propensity.audit(
        data.hide(complete, p, seed=seed + 1), complete, counts=counts, n=n, seed=seed
    )
    default = propensity.jain_curve(counts, n)
    yield {"repetition": seed, "about": "propensities", **_recovered(estimate, default, p, a, b)}
    top, observed = good_predictions(test, 5, seed), data.hide(test, p, seed=seed + 2)
    used = {
        "true": p,
        "audit": estimate,
        "audit, as if certain": estimate.value,
        "default": default,
    }
    tables = {
        name: evaluate(
            top, observed, q, metrics=METRICS, estimators=ESTIMATORS,
            draws=DRAWS if q is estimate else 100,
        )
        for name, q in used.items()
    }  # fmt: skip
    complete_labels = evaluate(top, test, metrics=["P@5", "R@5"])
    exact = {each.metric: each.value for each in complete_labels}
    exact["PSP@5"] = tables["true"]["PSP@5", "normalized"].value
    for name, table in tables.items():
        for cell in SHOWN:
            yield {"repetition": seed, "about": "metrics", "propensities": name} | _error(
                table[cell], exact[cell[0]]
            )


def counts_of(labels: sp.csr_array) -> Ints:
    """How often each label occurs."""
    return np.bincount(labels.indices, minlength=labels.shape[1])


def on_curve(true_counts: Array, n: int, a: float, b: float) -> Floats:
    """Propensities that lie on the Jain curve of the counts that are left after hiding."""
    p = propensity.jain_curve(true_counts, n, a=a, b=b)
    for _ in range(100):
        p = propensity.jain_curve(true_counts * p, n, a=a, b=b)
    return p


def scattered(p: Floats, sd: float, seed: int) -> Floats:
    """Propensities whose logits scatter around the given ones."""
    odds = p / (1 - p) * np.exp(sd * np.random.default_rng(seed).standard_normal(p.size))
    return np.asarray(odds / (1 + odds))


def good_predictions(true_labels: sp.csr_array, k: int, seed: int) -> TopK:
    """A model that ranks true labels well but not perfectly, and knows nothing of the masks."""
    noise = np.random.default_rng(seed).standard_normal(true_labels.shape)
    return TopK.from_scores((noise + 2.2 * true_labels.toarray()).astype(np.float32), k)


def _recovered(
    estimate: propensity.PropensityEstimate, default: Floats, p: Floats, a: float, b: float
) -> Row:
    curve = estimate.curve
    if curve is None:
        raise ValueError("the audit found no curve: too few labels occur in it.")
    ends = curve.intervals
    return {
        "a": curve.a,
        "b": curve.b,
        "covers_a": ends["a"][0] <= a <= ends["a"][1],
        "covers_b": ends["b"][0] <= b <= ends["b"][1],
        "covers_p": float(((estimate.low <= p) & (p <= estimate.high)).mean()),
        "width_p": float((estimate.high - estimate.low).mean()),
        "rmse_audit": float(np.sqrt(np.mean((estimate.value - p) ** 2))),
        "rmse_default": float(np.sqrt(np.mean((default - p) ** 2))),
    }


def _error(estimate: Estimate, exact: float) -> Row:
    low, high = estimate.interval
    return {
        "metric": estimate.metric,
        "value": estimate.value,
        "exact": exact,
        "error": estimate.value - exact,
        "inside": low <= exact <= high,
    }


def draw(rows: list[Row]) -> list[report.Section]:
    """Errors and coverage of propensities, then of metrics, over the size of the audit."""
    recovered = [row for row in rows if row["about"] == "propensities"]
    scored = [row for row in rows if row["about"] == "metrics"]
    return [_propensities(recovered), _metrics(scored)]


def _propensities(rows: list[Row]) -> report.Section:
    cells = group_rows(rows, "truth", "audited")
    panels = [
        report.Chart(
            "lines",
            [
                report.Series(name, list(sizes), [_rms(part, f"rmse_{name}") for part in parts])
                for name in ("audit", "default")
            ],
            title=_short(truth),
            x=report.Axis("audited rows", log=True),
            y=report.Axis("error of p (RMS)", low=0),
        )
        for truth, sizes, parts in _over_audits(cells)
    ]
    figures = ("p: error, audit", "p: error, default", "p: width", "p: coverage", "a: coverage",
               "b: coverage", "a: median", "b: median")  # fmt: skip
    heads: list[report.Column | str] = ["truth", "audited rows", "repetitions"]
    heads += [report.Column(name, ".3f") for name in figures]
    body = [
        [*key, len(part), _rms(part, "rmse_audit"), _rms(part, "rmse_default"),
         *(_mean(part, name) for name in ("width_p", "covers_p", "covers_a", "covers_b")),
         *(float(np.median([row[name] for row in part])) for name in ("a", "b"))]
        for key, part in cells.items()
    ]  # fmt: skip
    return report.Section(
        "Propensities from an audit",
        [
            report.Text(str(__doc__).partition("\n\n")[2]),
            report.Panels(panels, columns=3, title="Error of propensities"),
            report.Table(heads, body, title="Propensities; 95 % intervals"),
            report.Verdicts(_propensity_claims(cells)),
        ],
    )


def _propensity_claims(cells: Groups) -> list[report.Verdict]:
    coverage = {key: _mean(part, "covers_p") for key, part in cells.items()}
    wrong = {k: part for k, part in cells.items() if k[0] != "usual constants"}
    return [
        statement(
            "95 % intervals of single propensities hold at least 90 % of them",
            min(coverage.values()) >= 0.9,
            f"coverage {min(coverage.values()):.3f} to {max(coverage.values()):.3f}",
        ),
        statement(
            "Where the usual constants are wrong, the smallest audit is closer to the truth",
            all(_rms(part, "rmse_audit") < _rms(part, "rmse_default") for part in wrong.values()),
            "; ".join(
                f"{truth}, {audited} rows: {_rms(part, 'rmse_audit'):.3f} against "
                f"{_rms(part, 'rmse_default'):.3f}"
                for (truth, audited), part in wrong.items()
            ),
        ),
    ]


def _metrics(rows: list[Row]) -> report.Section:
    cells = group_rows(rows, "truth", "audited", "metric", "propensities")
    names = list(dict.fromkeys(row["propensities"] for row in rows))
    panels = [
        report.Chart(
            "lines",
            [
                report.Series(name, sizes, [_rms(cells[truth, n, metric, name], "error")
                                            for n in sizes], style=STYLES.get(name))
                for name in names if name != "audit, as if certain"
            ],
            title=f"{metric}: {_short(truth)}",
            x=report.Axis("audited rows", log=True),
            y=report.Axis("error (RMS)", low=0),
        )
        for metric, _ in SHOWN
        for truth, sizes, _ in _over_audits(group_rows(rows, "truth", "audited"))
    ]  # fmt: skip
    heads: list[report.Column | str] = ["metric", "truth", "audited rows", "propensities"]
    heads += [report.Column(*column) for column in
              (("bias", "+.4f"), ("error (RMS)", ".4f"), ("coverage", ".3f"))]  # fmt: skip
    body = [
        [metric, truth, audited, name, _mean(part, "error"), _rms(part, "error"),
         _mean(part, "inside")]
        for (truth, audited, metric, name), part in cells.items()
    ]  # fmt: skip
    return report.Section(
        "What is left in the metrics",
        [
            report.Panels(panels, columns=3, title="Error of metrics"),
            report.Table(heads, body, title="Errors and coverage of 95 % intervals"),
            report.Verdicts(_metric_claims(cells)),
        ],
    )


def _metric_claims(cells: Groups) -> list[report.Verdict]:
    def of(metric: str, name: str) -> Groups:
        chosen = {key[:2]: rows for key, rows in cells.items() if key[2:] == (metric, name)}
        return {key: rows for key, rows in chosen.items() if key[0] != "usual constants"}

    claims = []
    for metric in ("P@5", "R@5"):
        audit, plain, default = (
            of(metric, name) for name in ("audit", "audit, as if certain", "default")
        )
        covered, before, usual = (
            float(np.mean([row["inside"] for part in each.values() for row in part]))
            for each in (audit, plain, default)
        )
        claims += [
            statement(
                f"Where the usual constants are wrong, {metric} is closer to its value on complete "
                "labels with an audit",
                all(_rms(audit[key], "error") < _rms(default[key], "error") for key in audit),
                "; ".join(
                    f"{truth}, {n} rows: {_rms(audit[truth, n], 'error'):.4f} against "
                    f"{_rms(default[truth, n], 'error'):.4f}"
                    for truth, n in audit
                ),
            ),
            statement(
                f"Intervals of {metric} that carry the doubt about propensities hold it in at "
                "least 90 % of the cases",
                covered >= 0.9,
                f"{covered:.2f}; {before:.2f} if the estimate is taken for certain, {usual:.2f} "
                "with the usual constants",
            ),
        ]
    return claims


def _over_audits(
    cells: Groups,
) -> list[tuple[str, list[int], list[list[Row]]]]:
    truths = dict.fromkeys(truth for truth, _ in cells)
    sizes = {truth: [n for name, n in cells if name == truth] for truth in truths}
    return [(t, sizes[t], [cells[t, n] for n in sizes[t]]) for t in truths]


def _short(truth: str) -> str:
    return truth.rpartition(", ")[2]


def _mean(rows: list[Row], name: str) -> float:
    return float(np.mean([row[name] for row in rows]))


def _rms(rows: list[Row], name: str) -> float:
    return float(np.sqrt(np.mean([row[name] ** 2 for row in rows])))


STUDY = Study(
    "propensity-recovery", "propensities from an audit against planted truth", units, measure, draw
)
