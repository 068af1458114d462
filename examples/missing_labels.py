# %% [markdown]
# Which labels are missing, how good is the list, and a data set that is repaired.
#
# The truth, which made the data, plays the person who judges the findings.

# %%
import tempfile
from pathlib import Path

from unmask import data, linear, missing, propensity


# %%
def main() -> dict[str, float]:
    rows = data.synthetic.planted(800, n_features=80, n_labels=10, seed=0)
    p = propensity.constant(10, 0.5)
    observed = data.hide(rows.labels, p, seed=1)

    # probabilities by models that have not seen the row, given features and other labels
    recipe = linear.Recipe("logistic", C=1.0)
    made = linear.completion(rows.features, observed, p, recipe, rounds=2)
    found = missing.find(made.probabilities, observed, p, top=200)
    print(f"expected {found.expected:.0f}, truly missing {rows.labels.nnz - observed.nnz}")

    # what people are asked stands in random order, so their answers measure the list
    asked = missing.review(found)
    answers = rows.labels.toarray()[asked.rows, asked.labels]
    reviewed = missing.Reviewed(
        asked.rows, asked.labels, answers, asked.probability, asked.shape, random=True, asked=200
    )
    share, low, high = reviewed.precision()
    print(f"{share:.0%} of the findings are right ({low:.0%} to {high:.0%})")

    # confirmed labels are added; a table beside the file says where every label is from
    repaired = missing.complete(data.Dataset(rows.features, observed), reviewed)
    target, beside = repaired.write(Path(tempfile.mkdtemp()) / "repaired.txt")
    print(repaired.counts(), target.name, beside.name)
    return {"precision": share, "confirmed": repaired.counts()["confirmed"]}


# %%
if __name__ == "__main__":
    main()
