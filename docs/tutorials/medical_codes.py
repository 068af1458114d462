# %% [markdown]
# # Medical codes: micro-F1, thresholds and wards
#
# **For** people who suggest diagnosis codes for hospital stays, and are
# judged by micro-F1 against the codes that were billed. **At the end** you
# have a corrected micro-F1 with its interval, a threshold for every group of
# codes, and a table by ward that says which wards really differ.
#
# The question behind it: secondary diagnoses that do not change the bill are
# often left out. Then a right code looks wrong, and rarely coded diagnoses
# look as if the model could not find them.

# %% [markdown]
# ## The data
#
# `stays.csv` has a row per stay: `stay_id`, `ward`, and `codes` between
# semicolons. The scores of the model are a matrix with a row per stay and a
# column per code. We plant 3,000 stays with 18 codes. A main diagnosis is
# billed nearly always, a secondary one in 3 to 6 of 10 stays, and the model
# is worse in the emergency ward.

# %% tags=["data"]
import csv

import numpy as np

CODES = {
    "I50.0": 0.95,
    "J18.9": 0.95,
    "N17.9": 0.9,
    "I21.4": 0.95,
    "A41.9": 0.9,
    "S72.0": 0.95,
    "I10": 0.5,
    "E11.9": 0.6,
    "E78.5": 0.4,
    "N18.3": 0.5,
    "I48.9": 0.6,
    "Z79.01": 0.35,
    "E87.6": 0.4,
    "D64.9": 0.45,
    "F32.9": 0.35,
    "E66.9": 0.3,
    "Z87.891": 0.3,
    "K21.9": 0.3,
}
WARDS = ["cardiology", "internal medicine", "surgery", "emergency"]
rng = np.random.default_rng(11)
n, names = 3000, list(CODES)
wards = rng.choice(WARDS, size=n, p=[0.25, 0.35, 0.3, 0.1])
true_codes = (
    rng.random((n, 18)) < np.r_[np.full(6, 0.12), np.linspace(0.4, 0.1, 12)]
)
billed = true_codes & (rng.random((n, 18)) < np.array(list(CODES.values())))
noise = np.where(wards == "emergency", 1.8, 1.2)[:, None] * rng.normal(
    size=(n, 18)
)
scores = 1 / (1 + np.exp(2.0 - 3.0 * true_codes - noise))

with open("stays.csv", "w", newline="") as file:
    table = csv.writer(file)
    table.writerow(["stay_id", "ward", "codes"])
    for i in range(n):
        codes = [names[j] for j in np.flatnonzero(billed[i])]
        table.writerow([f"stay-{i:05}", wards[i], ";".join(codes)])

# %% [markdown]
# How likely a true code is billed must come from somewhere. A clinic knows it
# from an internal review; here 300 stays were coded completely a second time,
# and `propensity.audit` compares. Not knowing it exactly is carried on into
# every interval.

# %%
from unmask import LabelSets, data, evaluate, propensity, thresholds

stays = data.read("stays.csv", id="stay_id", labels="codes")
columns = [
    names.index(code) for code in stays.label_names
]  # scores in the order of the codes
scores, complete = scores[:, columns], true_codes[:, columns]

reviewed = slice(0, 300)
p = propensity.audit(stays.labels[reviewed], complete[reviewed], curve="free")
for code in ("J18.9", "I10", "E66.9"):
    j = stays.label_names.index(code)
    print(
        f"{code:6} billed where true: {p.value[j]:.0%} ({p.low[j]:.0%} to {p.high[j]:.0%})"
    )

# %% [markdown]
# ## Micro-F1, as billed and corrected
#
# Stays 300 to 1,500 will serve to choose thresholds, the others to evaluate.

# %%
tune, test = slice(300, 1500), slice(1500, None)
METRICS = ["micro-P", "micro-R", "micro-F1"]
sets = LabelSets.from_scores(scores[test], 0.5, names=stays.label_names)
table = evaluate(sets, stays.labels[test], p, metrics=METRICS, draws=40)
for each in table:
    low, high = each.interval
    level = each.verdict.level.name.lower()
    print(
        f"{each.metric:8} {each.estimator:8} {each.value:.2f} [{low:.2f}, {high:.2f}]  {level}"
    )

# %%
table.chart()

# %% [markdown]
# `vanilla` takes the billed codes as complete. `unbiased` is *conditional*:
# right if codes go missing as the review says, independently of one another.
# How far the number moves if every propensity of the review may be off by a
# factor (an F1 above 1 says that the data refute some of these propensities):

# %%
f1 = table["micro-F1", "unbiased"]
for gamma in f1.sensitivity.gammas:
    print(
        f"propensities off by up to {gamma.gamma:g} times: {gamma.low:.2f} to {gamma.high:.2f}"
    )

# %% [markdown]
# ## Thresholds by kind of code
#
# Main and secondary diagnoses go missing differently, so they get thresholds
# of their own. Chosen on billed codes, those of secondary diagnoses are too
# high.

# %%
kinds = [
    "main" if CODES[code] >= 0.9 else "secondary"
    for code in stays.label_names
]
chosen = {
    "as billed": thresholds.fit(
        scores[tune], stays.labels[tune], bands=kinds
    ),
    "corrected": thresholds.fit(
        scores[tune], stays.labels[tune], p.value, bands=kinds
    ),
}
for name, cut in chosen.items():
    at = dict(zip(kinds, cut.values, strict=True))
    made = evaluate(
        cut.apply(scores[test]), complete[test], metrics=["micro-F1"]
    )
    true_f1 = made["micro-F1", "vanilla"].value
    print(
        f"{name}: main {at['main']:.2f}, secondary {at['secondary']:.2f}; true F1 {true_f1:.2f}"
    )
thresholds.write("thresholds.json", chosen["corrected"])

# %% [markdown]
# ## By ward
#
# `groups` gives a table for each ward. `differs` marks wards that differ from
# the rest, with p-values adjusted for looking at several.

# %%
sets = chosen["corrected"].apply(scores[test])
with open("stays.csv") as file:
    ward_of = [line["ward"] for line in csv.DictReader(file)]
tables = evaluate(
    sets,
    stays.labels[test],
    p.value,
    metrics=["micro-F1"],
    groups=ward_of[test],
)
for ward in tables:
    cell = tables[ward]["micro-F1", "unbiased"]
    low, high = cell.interval
    mark = "differs" if cell.details["differs"] else ""
    shown = f"{cell.value:.2f} [{low:.2f}, {high:.2f}] {cell.details['rows']:4} stays {mark}"
    print(f"{ward:18} {shown.rstrip()}")

# %% [markdown]
# ## Was it right?

# %%
truth = evaluate(
    LabelSets.from_scores(scores[test], 0.5),
    complete[test],
    metrics=["micro-F1"],
)["micro-F1", "vanilla"].value
low, high = f1.interval
print(
    f"true micro-F1 at 0.5: {truth:.2f}; corrected, {low:.2f} to {high:.2f}"
)
assert low < truth < high

# %% [markdown]
# ## With your own data
#
# Leave out the folded cell. `data.read` takes your table (CSV, Parquet, a
# data frame); scores are any matrix in the order of `stays.label_names`.
# Without a review, `propensity.constant` or a file of numbers states what you
# believe, and the sensitivity above says how much depends on it ([your own
# propensities](../guides/propensities.md)). All metrics of sets: [sets,
# scores and thresholds](../guides/sets.md).
