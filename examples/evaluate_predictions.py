# %% [markdown]
# Evaluate predictions that another system made, against test labels that are incomplete.
#
#     python examples/evaluate_predictions.py train.txt test.txt theirs.txt [ours.txt]
#
# Predictions are `label:score` lines (napkinXC, DiSMEC, Parabel …) or a scipy `.npz` score matrix
# (PECOS). Without arguments, files are made from data whose truth is known, so that the estimates
# can be checked.

# %%
import sys
import tempfile
from pathlib import Path

import numpy as np

from unmask import TopK, compare, data, evaluate, predictions, propensity

METRICS = ["P@1", "P@5", "R@5", "nDCG@5"]


# %%
def main(train: str, test: str, *systems: str) -> dict[str, float]:
    observed = data.read(test).labels
    p = propensity.jain(data.read(train).labels)
    tops = {Path(name).name: predictions.read(name) for name in systems}
    first = next(iter(tops))
    estimators = ["vanilla", "unbiased", "deconvolved"]
    table = evaluate(tops[first], observed, p, metrics=METRICS, estimators=estimators)
    print(table)
    if len(tops) > 1:
        print(f"\ndifference to {first}, paired over rows")
        print(compare(tops, observed, p, metrics=["P@1", "R@5"], estimators=["unbiased"]))
    return {each.estimator: each.value for each in table if each.metric == "R@5"}


# %%
def made_up(folder: Path) -> list[str]:
    """Two systems' predictions for rows whose labels were hidden by Jain propensities."""
    rows = data.synthetic.planted(4_000, n_labels=60, seed=0)
    observed = data.hide(rows.labels, propensity.jain(rows.labels), seed=1)
    train, test = (data.Dataset(None, observed[a:b]) for a, b in ((0, 2_000), (2_000, 4_000)))
    truth, rng = rows.labels[2_000:].toarray(), np.random.default_rng(0)
    names = [str(folder / name) for name in ("train.txt", "test.txt", "theirs.txt", "ours.npz")]
    data.write(names[0], train)
    data.write(names[1], test)
    for name, skill in zip(names[2:], (1.0, 1.5), strict=True):
        scores = skill * truth + rng.normal(size=truth.shape)
        predictions.write(name, TopK.from_scores(scores, 5))
    return names


# %%
if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(*(sys.argv[1:] or made_up(Path(folder))))
