# %% [markdown]
# Corrected training with other people's solvers: weights go out, nothing else changes.
#
# The whole correction is two numbers per observed label. Here they are handed to liblinear (through
# scikit-learn, one label at a time, as sample weights) and written as the relevance matrix that
# PECOS multiplies its positive losses by (`XLinearModel.train(X, Y, R=R)`).

# %%
import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from unmask import data, evaluate, propensity, weights

N_TRAIN, N_LABELS = 2_400, 60


# %%
def main() -> dict[str, float]:
    rows = data.synthetic.planted(3_000, n_labels=N_LABELS, seed=0)
    x = data.tfidf(rows.features, data.idf(rows.features))
    p = propensity.inverse_linear(rows.labels)  # 1/p from 2 (frequent) to 20 (rare)
    observed = data.hide(rows.labels, p, seed=1)[:N_TRAIN]

    # sample weights cannot be negative, so the bound (2/p − 1) and not 1/p goes out
    found = {}
    for name, w in (("vanilla", weights.vanilla(observed)), ("bound", weights.bound(observed, p))):
        columns = [trained(x[:N_TRAIN], w, label)(x[N_TRAIN:]) for label in range(N_LABELS)]
        table = evaluate(
            np.column_stack(columns), rows.labels[N_TRAIN:], metrics=["R@5"], complete=True
        )
        found[name] = table["R@5", "vanilla"].value
        print(f"liblinear, {name} weights: R@5 on true labels {found[name]:.3f}")

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "relevance.npz"
        sp.save_npz(path, weights.to_relevance(w))  # for `pecos.xmc.xlinear.train -r relevance.npz`
        print(f"{path.name}: {sp.load_npz(path).nnz} relevances, float32")
    return found


# %%
def trained(x: sp.csr_array, w: weights.Weights, label: int):  # type: ignore[no-untyped-def]
    """The decision function of one label, by liblinear."""
    samples = weights.to_samples(w, label)
    solver = LogisticRegression(solver="liblinear", C=10.0)
    solver.fit(x[samples.rows], samples.targets, sample_weight=samples.weights)
    return solver.decision_function


# %%
if __name__ == "__main__":
    main()
