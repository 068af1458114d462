# %% [markdown]
# What is the recall of my model, really? Judge some rows and measure it.
#
# Rows are planted, so the truth is known; a simulated judge answers from it. Annotators of
# different care recorded the labels: those of a row are kept or lost together, which no estimate
# from propensities survives. 150 judged rows measure the recall all the same.
#
#     python examples/audit.py

# %%
from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from unmask import TopK, audit, data, evaluate

N, LABELS, BUDGET = 3000, 40, 150


# %%
def recorded(true_labels: sp.csr_array, rng: np.random.Generator) -> sp.csr_array:
    """Half of the rows have careful annotators (90 % of labels), half hasty ones (15 %)."""
    care = np.where(rng.random(true_labels.shape[0]) < 0.5, 0.9, 0.15)
    kept = rng.random(true_labels.nnz) < np.repeat(care, np.diff(true_labels.indptr))
    observed = true_labels.copy()
    observed.data = kept.astype(observed.dtype)
    observed.eliminate_zeros()
    return observed


# %%
def main(seed: int = 0) -> dict[str, float]:
    """R@5: the truth, measured with its interval, and what the observed labels say."""
    rng = np.random.default_rng(seed)
    true_labels = data.synthetic.planted(N, n_features=60, n_labels=LABELS, seed=seed).labels
    observed = recorded(true_labels, rng)
    scores = true_labels.toarray() + rng.normal(scale=0.6, size=(N, LABELS))
    top = TopK.from_scores(scores, 5)

    plan = audit.plan(top, observed, budget=BUDGET, unit="rows", metrics=["R@5"], seed=seed)
    judged = audit.from_rows(plan, true_labels[plan.rows])  # the judge's answers
    table = evaluate(
        top, observed, [0.525] * LABELS, metrics=["R@5"], audit=judged,
        estimators=["vanilla", "deconvolved"],
    )  # fmt: skip
    truth = evaluate(top, true_labels, metrics=["R@5"], complete=True)["R@5", "vanilla"].value
    low, high = table["R@5", "measured"].interval
    print(f"truth {truth:.3f}")
    for estimate in table:
        ends = " to ".join(f"{end:.3f}" for end in estimate.interval)
        print(f"{estimate.estimator:12} {estimate.value:.3f} ({ends})")
    return {"truth": truth, "low": low, "high": high, **{e.estimator: e.value for e in table}}


# %%
if __name__ == "__main__":
    main()
