# %% [markdown]
# Evaluate a file of any size in constant memory, a block of rows at a time.
#
# `Evaluator` keeps sums, not rows, and adds them exactly: blocks, or workers that each take some of
# the rows and are merged, give to the last bit what one call on everything gives.

# %%
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from unmask import Evaluator, TopK, data, evaluate, predictions, propensity

K, BLOCK = 5, 500
METRICS, ESTIMATORS = ["P@1", "R@5", "nDCG@5"], ["vanilla", "unbiased", "deconvolved"]


# %%
def main() -> bool:
    rows = data.synthetic.planted(3_000, n_labels=40, seed=0)
    p = propensity.inverse_linear(rows.labels, head=1.5, tail=4)
    observed = data.hide(rows.labels, p, seed=1)
    noise = np.random.default_rng(0).normal(size=observed.shape)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "predictions.txt"
        predictions.write(path, TopK.from_scores(rows.labels.toarray() + noise, K))

        evaluator, first = Evaluator(p, metrics=METRICS, estimators=ESTIMATORS), 0
        for top in blocks(path):
            here = slice(first, first + len(top.labels))
            evaluator.update(top, observed[here])
            first = here.stop
        at_once = predictions.read(path)
    table = evaluator.compute()
    print(table)
    whole = evaluate(at_once, observed, p, metrics=METRICS, estimators=ESTIMATORS)
    same = [each.value for each in table] == [each.value for each in whole]
    print(f"\n{first:,} rows in blocks of {BLOCK}; same bits as in one call: {same}")
    return same


# %%
def blocks(path: Path) -> Iterator[TopK]:
    """Lines of `label:score`, a block at a time; shorter rows end in empty places."""
    with path.open() as lines:
        next(lines)  # rows and places
        while block := [line.split() for line in islice(lines, BLOCK)]:
            filled = [row + ["-1:-inf"] * (K - len(row)) for row in block]
            pairs = np.array([[cell.split(":") for cell in row] for row in filled])
            yield TopK.sorted(pairs[..., 0].astype(np.int32), pairs[..., 1].astype(np.float32))


# %%
if __name__ == "__main__":
    main()
