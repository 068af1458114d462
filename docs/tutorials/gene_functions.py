# %% [markdown]
# # Gene functions: snapshots, closure and Fmax
#
# **For** people who predict terms of an ontology for genes or proteins, and
# evaluate with Fmax against annotations that grow every year. **At the end**
# you have Fmax and Smin as in CAFA, a bound on how incomplete the annotations
# are from two releases of them, and Fmax that takes it into account, with
# what it may claim.
#
# The question behind it: an annotation that is not there yet counts against a
# prediction that is ahead of the curators.

# %% [markdown]
# ## The data
#
# An ontology in OBO, annotations of two releases as `target, term`
# (tab-separated, as CAFA's truth files), and scores. We plant 16 terms and
# 1,200 proteins; of the true annotations the later release has 80 %, and of
# those the earlier release 60 %.

# %% tags=["data"]
from pathlib import Path

import numpy as np

TERMS = {
    "GO:0008150": ("biological process", []),
    "GO:0008152": ("metabolic process", ["GO:0008150"]),
    "GO:0009987": ("cellular process", ["GO:0008150"]),
    "GO:0065007": ("biological regulation", ["GO:0008150"]),
    "GO:0050896": ("response to stimulus", ["GO:0008150"]),
    "GO:0006629": ("lipid metabolic process", ["GO:0008152"]),
    "GO:0005975": ("carbohydrate metabolic process", ["GO:0008152"]),
    "GO:0019538": ("protein metabolic process", ["GO:0008152"]),
    "GO:0006508": ("proteolysis", ["GO:0019538"]),
    "GO:0007154": ("cell communication", ["GO:0009987"]),
    "GO:0007165": ("signal transduction", ["GO:0007154", "GO:0065007"]),
    "GO:0007049": ("cell cycle", ["GO:0009987"]),
    "GO:0051301": ("cell division", ["GO:0009987"]),
    "GO:0006950": ("response to stress", ["GO:0050896"]),
    "GO:0006952": ("defense response", ["GO:0006950"]),
    "GO:0006974": ("DNA damage response", ["GO:0006950"]),
}
obo = ["format-version: 1.2"]
for term, (name, parents) in TERMS.items():
    obo += [
        "",
        "[Term]",
        f"id: {term}",
        f"name: {name}",
        *(f"is_a: {each}" for each in parents),
    ]
Path("terms.obo").write_text("\n".join(obo) + "\n")

rng = np.random.default_rng(3)
terms, proteins = list(TERMS), [f"P{number:05}" for number in range(1200)]
above = {term for _, parents in TERMS.values() for term in parents}
leaf = np.array([term not in above for term in terms])
true_terms = (
    rng.random((1200, 16)) < 0.22
) & leaf  # annotated: the most special terms
true_terms[np.arange(1200), rng.choice(np.flatnonzero(leaf), 1200)] = True
later = true_terms & (rng.random(true_terms.shape) < 0.8)
earlier = later & (rng.random(true_terms.shape) < 0.6)
scores = 1 / (
    1
    + np.exp(1.5 - 3.2 * true_terms - 1.1 * rng.normal(size=true_terms.shape))
)
scores *= leaf
for release, annotated in (("2023", earlier), ("2024", later)):
    lines = [
        f"{proteins[i]}\t{terms[j]}\n"
        for i, j in zip(*np.nonzero(annotated), strict=True)
    ]
    Path(f"annotations-{release}.tsv").write_text("".join(lines))

# %% [markdown]
# ## Reading, and closing under the ontology
#
# A protein that has *proteolysis* has *protein metabolic process*, too.
# `read_hierarchy` knows OBO (`is_a`, `part_of`), SKOS and plain pairs;
# `evaluate` closes labels and scores.

# %%
import textwrap

from unmask import data, evaluate, metrics, propensity

ontology = data.read_hierarchy("terms.obo")
old = data.read("annotations-2023.tsv", format="cafa")
new = data.read("annotations-2024.tsv", format="cafa")
print(f"{len(ontology.names)} terms on {ontology.levels.max() + 1} levels")
print(f"2023: {old.labels.nnz:,} annotations of {old.n:,} proteins")
print(f"2024: {new.labels.nnz:,} annotations of {new.n:,} proteins")

# %% [markdown]
# Both releases as matrices with the same proteins and terms. A protein that
# one release lacks has an empty row: nobody has annotated it yet.


# %%
def matrix(release):
    """Annotations of all proteins (rows) and terms of the ontology (columns)."""
    of_protein = {
        id: release.labels_of(row) for row, id in enumerate(release.ids)
    }
    return data.label_matrix(
        [of_protein.get(id, ()) for id in proteins], ontology.names
    )[0]


observed_2023, observed_2024 = matrix(old), matrix(new)
columns = [terms.index(term) for term in ontology.names]
predicted = scores[:, columns]

# %% [markdown]
# ## Fmax and Smin, at face value
#
# With complete annotations these equal the numbers of CAFA's own program. The
# annotations of 2023 are taken as complete here, which they are not.

# %%
information = ontology.information_content(observed_2024)
face_value = evaluate(
    predicted,
    observed_2023,
    metrics=["Fmax", "Smin"],
    hierarchy=ontology,
    information=information,
)
for each in face_value:
    print(
        f"{each.metric} {each.value:.2f} at threshold {each.details['threshold']:.2f}"
    )

# %% [markdown]
# ## What two releases tell
#
# Of the annotations that 2024 has, 2023 had a share already. The propensity
# of 2023 is at most that share: what both lack is counted nowhere. So a
# correction with it is too small rather than too large, and the truth lies
# further in the same direction.

# %%
p = propensity.snapshots(observed_2023, observed_2024, curve="free")
with_labels = [
    j for j in range(len(ontology.names)) if observed_2024[:, [j]].nnz
]
print(
    f"2023 had {p.value[with_labels].mean():.0%} of what 2024 has; truly 48%"
)
print(p.notes[0])

# %% [markdown]
# ## Fmax with the bound
#
# Closed annotations of a protein are kept or lost together: one remaining
# annotation brings all its ancestors along. Corrections assume that labels go
# missing one by one, so the verdict of every corrected number under a
# hierarchy is *doubtful*, and says why. Here we know the truth, and print it
# beside:

# %%
corrected = evaluate(
    predicted,
    observed_2023,
    p.value,
    metrics=["Fmax"],
    hierarchy=ontology,
    estimators=["vanilla", "unbiased"],
)
for each in corrected:
    low, high = each.interval
    print(f"{each.estimator:8} {each.value:.2f} [{low:.2f}, {high:.2f}]")
print(textwrap.fill(str(corrected["Fmax", "unbiased"].verdict), 76))

true_labels = true_terms[:, columns]
true = evaluate(
    predicted,
    true_labels,
    metrics=["Fmax"],
    hierarchy=ontology,
    complete=True,
)["Fmax", "vanilla"]
print(f"truth    {true.value:.2f}")

# %% [markdown]
# Without closure, on the terms that curators wrote down, nothing is shared,
# and the corrected curve is conditional on the propensities alone. It also
# shows where the best threshold goes.

# %%
plain = metrics.curve(
    predicted[:, with_labels], observed_2023[:, with_labels], average="sample"
)
better = metrics.curve(
    predicted[:, with_labels],
    observed_2023[:, with_labels],
    p.value[with_labels],
    average="sample",
)
complete = metrics.curve(
    predicted[:, with_labels], true_labels[:, with_labels], average="sample"
)
for name, curve in (
    ("as annotated", plain),
    ("corrected", better),
    ("truth", complete),
):
    print(f"{name:12} Fmax {curve.best.f1:.2f} at {curve.best.threshold:.2f}")

# %%
from unmask import pages

pages.Chart(
    "lines",
    [
        pages.Series(name, curve.recall[::4], curve.precision[::4])
        for name, curve in (
            ("as annotated", plain),
            ("corrected", better),
            ("truth", complete),
        )
    ],
    title="Precision and recall of leaf terms",
    x=pages.Axis("recall", low=0, high=1),
    y=pages.Axis("precision", low=0, high=1),
)

# %% [markdown]
# The corrected curve lies between the annotated one and the truth, as a bound
# should.

# %%
assert plain.best.f1 < better.best.f1 < complete.best.f1
assert better.best.threshold < plain.best.threshold

# %% [markdown]
# ## With your own data
#
# Leave out the folded cell: `terms.obo` is `go-basic.obo`, annotations are
# CAFA's `target, term` lines, and predictions `target, term, score`
# (`predictions.read(…, format="cafa")`). Take the same proteins and the same
# evidence codes from both releases, and two releases of the *same* ontology,
# or terms that were merged will look like losses. On the command line:
# `unmask evaluate --hierarchy go.obo`. More in [sets, scores and
# thresholds](../guides/sets.md).
