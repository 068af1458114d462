"""Numbers of public calls, stored and compared: what a rebuild must not change.

    python tools/calls.py write FILE      # run the calls with the package that Python imports
    python tools/calls.py compare FILE    # and print every call whose numbers moved by over 1e-12

A call is named by what a user asks ("evaluate/R@5/deconvolved"). Of long arrays three weighted sums
are kept. A call that no longer exists or now fails is printed as well.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

TOLERANCE = 1e-12
LONG = 24
STORED = Path(__file__).with_name("calls.json")
CHANGED = {
    "audit/simple": "intervals of few judged rows hold near 0 and 1",
    "audit/stratified": "intervals of few judged rows hold near 0 and 1",
    "audit/pairs": "strata whose answers are all alike keep a variance",
    "audit/two-phase": "intervals of few judged rows hold near 0 and 1",
}
"""Calls whose numbers moved since the set was first stored, and why."""

Call = tuple[str, Callable[[], Any]]


def numbers(value: Any) -> list[float]:
    """Flatten a result into floats; long arrays into their size and three weighted sums."""
    if value is None:
        return [float("nan")]
    if hasattr(value, "detach"):
        value = value.detach().double().numpy()
    if sp.issparse(value):
        return numbers(value.toarray())
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [number for each in value for number in numbers(each)]
    array = np.asarray(value, dtype=np.float64).ravel()
    if array.size <= LONG:
        return array.tolist()
    places = np.arange(array.size)
    finite = np.nan_to_num(array, nan=7.0, posinf=11.0, neginf=13.0)
    return [array.size, *(float(finite @ np.cos(places * step)) for step in (0.0, 0.37, 1.93))]


def table_numbers(table: Any) -> list[float]:
    """Values, errors and intervals of a table, or of several."""
    if hasattr(table, "tables"):
        return [number for name in table for number in table_numbers(table[name])]
    return [n for e in table for n in numbers([e.value, e.standard_error, *e.interval])]


def calls() -> Iterator[Call]:
    """All calls, room by room."""
    import unmask
    from unmask import data, losses, metrics, missing, propensity, thresholds, weights
    from unmask.predictions import LabelSets, TopK

    rows = data.synthetic.planted(600, n_features=80, n_labels=30, seed=3)
    x, true = rows.features, rows.labels
    p = np.tile([0.9, 0.5, 0.3, 0.7, 0.4], 6)
    observed = data.hide(true, p, seed=1)
    noise = np.random.default_rng(0).normal(size=true.shape)
    scores = 1 / (1 + np.exp(-(2.0 * (true.toarray() - 0.4) + noise)))
    top = TopK.from_scores(scores, 6)
    other = TopK.from_scores(scores + 0.3 * np.random.default_rng(1).normal(size=true.shape), 6)
    sets = LabelSets(sp.csr_array((scores > 0.6).astype(np.int64)))

    for name, metric in metrics.METRICS.items():
        given = top if metric.reads == "list" else scores
        if name.startswith(
            ("sample-", "micro-", "macro-", "weighted-", "subset", "Hamming", "cov")
        ):
            given = sets if metric.reads == "list" else scores
        asked = name if given is sets or metric.reads != "list" else f"{name}@5"
        if name in ("R-precision", "MRR", "Kendall-tau"):
            asked = name
        for estimator in metrics.supported(name):
            yield (
                f"evaluate/{asked}/{estimator}",
                lambda a=asked, e=estimator, g=given: table_numbers(
                    unmask.evaluate(g, observed, p, metrics=[a], estimators=[e])
                ),
            )
    names = ["P@1", "P@5", "R@5", "nDCG@5", "F1@5"]
    for interval in ("normal", "percentile", "bca"):
        drawn = {} if interval == "normal" else {"replicates": 200}
        yield (
            f"evaluate/interval {interval}",
            lambda i=interval, d=drawn: table_numbers(
                unmask.evaluate(top, observed, p, metrics=names, interval=i, seed=4, **d)
            ),
        )
    yield (
        "compare/interval percentile",
        lambda: table_numbers(
            unmask.compare({"a": top, "b": other}, observed, p, metrics=names, replicates=200)
        ),
    )
    groups = [str(i % 3) for i in range(600)]
    yield (
        "evaluate/groups",
        lambda: table_numbers(unmask.evaluate(top, observed, p, metrics=names, groups=groups)),
    )
    yield (
        "evaluate/label groups",
        lambda: table_numbers(
            unmask.evaluate(sets, observed, p, metrics=["micro-F1"], label_groups=groups[:30])
        ),
    )
    estimate = propensity.audit(observed[:300], true[:300])
    yield (
        "evaluate/estimated propensities",
        lambda: table_numbers(unmask.evaluate(top, observed, estimate, metrics=names, draws=20)),
    )
    yield (
        "evaluate/contributions",
        lambda: [
            metrics.contributions(
                top, observed, p, metrics=names, estimators=["vanilla", "unbiased"]
            )[name, e]
            for name in names
            for e in ("vanilla", "unbiased")
        ],
    )
    yield (
        "sensitivity/powers",
        lambda: table_numbers(unmask.sensitivity(top, observed, metrics.powers(p), metrics=names)),
    )
    yield "metrics/reliability", lambda: metrics.reliability(scores, observed, p).true
    yield "metrics/curve", lambda: metrics.curve(scores, observed, p).f1
    for design, unit in (("simple", "rows"), ("stratified", "rows"), ("pairs", "pairs"),
                         ("two-phase", "pairs")):  # fmt: skip
        yield (
            f"audit/{design}",
            lambda d=design, u=unit: _audited(top, observed, true, d, u, names),
        )
    yield from _more_of_audits(top, other, observed, true)
    for name, made in weights.CORRECTIONS.items():
        for normalized in (False, True):
            for reduction in ("ova", "pal"):
                yield (
                    f"weights/{name} {reduction}{'-N' * normalized}",
                    lambda m=made, r=reduction, z=normalized: _weights(
                        m, observed, p, normalized=z, reduction=r
                    ),
                )
    plain = weights.unbiased(observed, p)
    joint = weights.unbiased(observed, p, reduction="pal")
    for name in losses.LOSSES:
        given = joint if name == "softmax" or name.startswith("pairwise") else plain
        for what in (losses.total, losses.gradient):
            yield (
                f"losses/{name} {what.__name__}",
                lambda n=name, f=what, w=given: f(n, 4 * scores - 2, w),
            )
    for name, model in propensity.MODELS.items():
        if name != "constant":
            yield f"propensity/{name}", lambda m=model: m(observed)
    yield (
        "propensity/preset",
        lambda: propensity.jain_curve(
            np.arange(1, 31), 600, a=propensity.preset("Amazon-670K").a, b=2.6
        ),
    )
    yield "propensity/audit", lambda: (estimate.value, estimate.low, estimate.high)
    yield (
        "propensity/audit by effort",
        lambda: propensity.audit(observed[:300], true[:300], mask="effort").value,
    )
    again = data.hide(true, p, seed=8)
    yield "propensity/recapture", lambda: propensity.recapture(observed, again).value
    yield "propensity/snapshots", lambda: propensity.snapshots(observed, true, curve="free").value
    yield "propensity/model", lambda: propensity.from_model(scores, observed).value
    yield "propensity/chao", lambda: propensity.chao(observed, again)
    yield "propensity/temper", lambda: propensity.temper(p, 0.5)
    yield "diagnose", lambda: [test.p_value for test in unmask.diagnose(observed, p).tests]
    yield "missing/find", lambda: _found(missing.find(scores, observed, p))
    yield "missing/suspicious", lambda: _found(missing.suspicious(scores, observed, p))
    yield "missing/join", lambda: missing.join(scores, observed, p).probabilities
    yield "missing/posterior", lambda: missing.posterior(scores, p)
    for metric in thresholds.METRICS:
        yield (
            f"thresholds/{metric}",
            lambda m=metric: thresholds.fit(scores, observed, p, metric=m).values,
        )
    for method in ("isotonic", "platt"):
        yield (
            f"thresholds/{method}",
            lambda m=method: thresholds.calibrate(scores, observed, p, method=m).apply(scores),
        )
    yield from _models(x, observed, p, noise)
    yield from _networks(observed, p, scores)


def _weights(made: Any, labels: Any, p: Any, **options: Any) -> Any:
    made = made(labels, **options) if made.__name__ == "vanilla" else made(labels, p, **options)
    return made.pos, made.cut


def _found(made: Any) -> Any:
    return made.rows, made.labels, made.probability, made.by_row


def _more_of_audits(top: Any, other: Any, observed: Any, true: Any) -> Iterator[Call]:
    """Differences of systems, labels one by one, and when to stop, from rows and from pairs."""
    import unmask
    from unmask import audit

    dense = true.toarray()
    for unit, design, budget in (("rows", "simple", 80), ("pairs", "pairs", 400)):
        plan = audit.plan(top, observed, budget=budget, unit=unit, design=design, seed=2,
                          metrics=["P@3", "micro-R@3"])  # fmt: skip
        answers = dense[plan.rows] if unit == "rows" else dense[plan.rows, plan.labels]
        judged = (audit.from_rows if unit == "rows" else audit.from_pairs)(plan, answers)
        known = np.arange(observed.shape[0]) % 5 / 4.0
        yield (
            f"audit/{unit} compared",
            lambda j=judged, c=known: table_numbers(
                unmask.compare({"a": top, "b": other}, observed, metrics=["P@3", "micro-R@3"],
                               audit=j, covariates=c)
            ),
        )  # fmt: skip
        yield (
            f"audit/{unit} expected",
            lambda p=plan: [[e.half, e.budget, e.twice] for e in p.expected],
        )
        yield (
            f"audit/{unit} labels",
            lambda j=judged: [
                [each.value, each.low, each.high]
                for each in audit.label_estimates(top, observed, j, k=3).values()
            ],
        )
        yield f"audit/{unit} spurious", lambda j=judged: audit.spurious(j, observed).interval
        yield f"audit/{unit} elusion", lambda j=judged: audit.elusion(top, observed, j, k=3).at_most
        if unit == "rows":
            yield f"audit/{unit} sequence", lambda j=judged: _ends(top, observed, j)


def _ends(top: Any, observed: Any, judged: Any) -> list[Any]:
    from unmask import audit

    made = audit.sequence(top, observed, judged, "R@5", planned=100)
    return [made.low, made.high]


def _audited(top: Any, observed: Any, true: Any, design: str, unit: str, names: list[str]) -> Any:
    import unmask
    from unmask import audit

    options = {} if unit == "pairs" and design == "pairs" else {"design": design}
    asked = ["P@5", "micro-R@5"] if design == "pairs" else names
    plan = audit.plan(
        top, observed, budget=400 if unit == "pairs" else 80, unit=unit, metrics=asked, seed=2,
        expect=False, **options,
    )  # fmt: skip
    if unit == "pairs":
        answers = np.asarray(true.toarray()[plan.rows, plan.labels])
        judged = audit.from_pairs(plan, answers)
    else:
        judged = audit.from_rows(plan, true[plan.rows])
    table = unmask.evaluate(top, observed, metrics=asked, audit=judged)
    return table_numbers([each for each in table if each.estimator == "measured"])


def _models(x: Any, labels: Any, p: Any, noise: Any) -> Iterator[Call]:
    from unmask import LabelTree, LinearClassifier

    for loss in ("squared_hinge", "logistic", "squared_error", "softmax"):
        for correction in ("vanilla", "unbiased", "bound", "tempered"):
            kind = {"reduction": "pal"} if loss == "softmax" else {}
            yield (
                f"linear/{loss} {correction}",
                lambda o=loss, c=correction, k=kind: LinearClassifier(
                    o, correction=c, propensity=p, C=0.1, **k
                ).fit(x, labels).coef_,
            )  # fmt: skip
    for correction in ("likelihood", "completed"):
        yield (
            f"linear/logistic {correction}",
            lambda c=correction: LinearClassifier(
                "logistic", correction=c, propensity=p, C=0.1
            ).fit(x, labels).predict_top(x, k=5).scores,
        )  # fmt: skip
    for correction in ("vanilla", "unbiased"):
        yield (
            f"tree/{correction}",
            lambda c=correction: _tree(LabelTree, c, x, labels, p),
        )


def _tree(kind: Any, correction: str, x: Any, labels: Any, p: Any) -> Any:
    made = kind(correction=correction, propensity=p, n_trees=2, arity=4, leaf=6, seed=5)
    top = made.fit(x, labels).predict_top(x, k=5)
    return top.labels, top.scores


def _networks(labels: Any, p: Any, scores: Any) -> Iterator[Call]:
    import torch

    from unmask.torch import MissingLabelLoss

    target = torch.tensor(labels.toarray(), dtype=torch.float64)
    for correction in ("vanilla", "unbiased", "bound", "tempered"):
        for reduction in ("ova", "pal"):
            for normalized in (False, True):

                def run(c: str = correction, r: str = reduction, n: bool = normalized) -> Any:
                    logits = torch.tensor(4 * scores - 2, requires_grad=True)
                    value = MissingLabelLoss(p, reduction=r, correction=c, normalized=n)(
                        logits, target
                    )
                    value.backward()
                    return value, logits.grad

                yield f"torch/{correction} {reduction}{'-N' * normalized}", run


def run_all() -> dict[str, list[float] | str]:
    """Name → numbers, or what was raised."""
    made: dict[str, list[float] | str] = {}
    for name, call in calls():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made[name] = numbers(call())
        except Exception as error:  # a refusal is a result, too
            made[name] = f"{type(error).__name__}: {error}"
    return made


def moved(before: list[float] | str, now: list[float] | str | None) -> str:
    """How a result differs, in a few words; empty if it does not."""
    if isinstance(before, str) or isinstance(now, str) or now is None:
        same = isinstance(before, str) and isinstance(now, str)
        same = same and before.split(":")[0] == now.split(":")[0]  # refused alike
        return "" if same else f"{before!s:.90} -> {now!s:.90}"
    if len(before) != len(now):
        return f"{len(before)} numbers -> {len(now)}"
    one, other = np.array(before, dtype=float), np.array(now, dtype=float)
    gap = np.abs(one - other) / np.maximum(1.0, np.abs(one))
    gap[np.isnan(one) & np.isnan(other)] = 0.0
    gap[one == other] = 0.0
    worst = int(np.argmax(np.nan_to_num(gap, nan=np.inf)))
    return "" if gap[worst] <= TOLERANCE else f"{one[worst]!r} -> {other[worst]!r}"


def differences(stored: dict[str, Any], made: dict[str, Any]) -> dict[str, str]:
    """Return how results differ, by name of the call."""
    words = {name: moved(stored[name], made.get(name)) for name in stored}
    return {name: text for name, text in words.items() if text}


def main(what: str, file: str) -> int:
    """Write, or compare and return 1 if anything moved."""
    made = run_all()
    if what == "write":
        Path(file).write_text(json.dumps(made, indent=0) + "\n", encoding="utf-8")
        failed = [f"{name}: {result}" for name, result in made.items() if isinstance(result, str)]
        print(f"{len(made)} calls, {len(failed)} of them refused", *failed, sep="\n")
        return 0
    stored = json.loads(Path(file).read_text(encoding="utf-8"))
    changed = differences(stored, made)
    print(f"{len(stored)} calls, {len(changed)} changed, {len(made.keys() - stored.keys())} new")
    for name, words in changed.items():
        print(f"  {name}: {words}")
    return int(bool(changed))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
