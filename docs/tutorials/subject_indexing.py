# %% [markdown]
# # Subject indexing: how good are the suggestions?
#
# **For** people who run a subject indexing tool in a library or an archive,
# and have two tables: the subjects that indexers gave, and the subjects that
# the tool suggests. **At the end** you have the F1 of your documents measured
# with an interval, after somebody looked at 100 of them, and a threshold that
# was not chosen against subjects that nobody wrote down.
#
# The question behind it: a suggestion that the indexer did not give counts as
# wrong. But indexers stop after a few subjects. How many of the "wrong"
# suggestions are right?

# %% [markdown]
# ## The two tables
#
# Both are long: a line per document and subject. `subjects.csv` has the
# columns `doc_id, subject` (a document without subjects has one line with an
# empty subject), `suggestions.csv` has `doc_id, subject, score`. To try it
# out, we make 1,500 documents whose true subjects we know. Half of them went
# to indexers with time, who gave 9 of 10 subjects that apply; the others to
# indexers in a hurry, who gave 4 of 10.

# %% tags=["data"]
import csv
from pathlib import Path

import numpy as np

SUBJECTS = """forestry; climate change; libraries; school meals; urban planning; water supply;
immigration; museums; music education; dialects; public health; housing; trade unions; peat;
reindeer husbandry; shipbuilding; folk tales; tax law; copyright; data protection; elections;
nursing; rye; beekeeping""".replace("\n", " ").split("; ")
rng = np.random.default_rng(7)
ids = [f"doc-{number:04}" for number in range(1500)]
applies = rng.random((1500, 24)) < np.linspace(0.3, 0.06, 24)
hurried = rng.random(1500) < 0.5
given = applies & (
    rng.random(applies.shape) < np.where(hurried, 0.4, 0.9)[:, None]
)
logits = 2.8 * applies - 2.6 + rng.normal(scale=1.2, size=applies.shape)
scores = 1 / (1 + np.exp(-logits))


def subjects_of(row):
    return [SUBJECTS[j] for j in np.flatnonzero(row)]


with open("subjects.csv", "w", newline="") as file:
    table = csv.writer(file)
    table.writerow(["doc_id", "subject"])
    for number, row in enumerate(given):
        table.writerows(
            [ids[number], name] for name in subjects_of(row) or [""]
        )
with open("suggestions.csv", "w", newline="") as file:
    table = csv.writer(file)
    table.writerow(["doc_id", "subject", "score"])
    for number in rng.permutation(
        1500
    ):  # in another order: rows are matched by id
        best = np.argsort(-scores[number])[:10]
        table.writerows(
            [ids[number], SUBJECTS[j], f"{scores[number, j]:.4f}"]
            for j in best
        )
titles = {
    id: "On " + ", ".join(subjects_of(row))
    for id, row in zip(ids, applies, strict=True)
}

# %% [markdown]
# From here on, everything is what you do with your own tables.

# %%
from unmask import (
    LabelSets,
    audit,
    data,
    evaluate,
    predictions,
    propensity,
    thresholds,
)

documents = data.read("subjects.csv")
suggested = predictions.read("suggestions.csv")
suggested = suggested.aligned(ids=documents.ids, names=documents.label_names)

print(f"{documents.n:,} documents, {len(documents.label_names)} subjects")
print(f"{documents.ids[1]} has: {', '.join(documents.labels_of(1))}")
for name, score in suggested.of_row(1)[:4]:
    print(f"  suggested: {name} ({score:.2f})")

# %% [markdown]
# ## What the given subjects say
#
# A suggestion is taken over if its score is at least 0.5. F1 per document,
# averaged over documents, is called `sample-F1`; `sample-P` and `sample-R`
# are its precision and recall.

# %%
METRICS = ["sample-P", "sample-R", "sample-F1"]
scores = np.zeros(
    documents.labels.shape
)  # what is not suggested has the score 0
np.put_along_axis(scores, suggested.labels, suggested.scores, axis=1)
taken = LabelSets.from_scores(scores, 0.5)

face_value = evaluate(taken, documents.labels, metrics=METRICS)
for each in face_value:
    print(f"{each.metric:9} {each.value:.2f}")

# %% [markdown]
# Half of what the tool suggests seems to be wrong. Is it?
#
# ## An audit: 100 documents, looked at completely
#
# `audit.plan` draws documents at random, and says how narrow an interval to
# expect. The sheet is a CSV for a spreadsheet; `unmask audit page` makes a
# web page of the same questions. The person who judges writes all subjects
# that apply into the column `labels`, with `|` between them, and `yes` into
# `complete`. The sheet shows neither what was given nor what was suggested.

# %%
plan = audit.plan(
    suggested, documents.labels, budget=100, metrics=["sample-F1@10"], seed=0
)
texts = [titles[id] for id in documents.ids]
sheet = audit.sheet(
    plan, ids=documents.ids, label_names=documents.label_names, texts=texts
)
audit.write_sheet(sheet, "sheet.csv")
print("\n".join(Path("sheet.csv").read_text().splitlines()[:2]))

# %% [markdown]
# Here a program fills in the sheet from the truth, and saves it as
# `judged.csv`; in life a person does.

# %% tags=["data"]
truth = dict(zip(ids, applies, strict=True))
with (
    open("sheet.csv") as blank,
    open("judged.csv", "w", newline="") as filled,
):
    lines = csv.DictReader(blank)
    table = csv.DictWriter(filled, lines.fieldnames)
    table.writeheader()
    for line in lines:
        names = "|".join(subjects_of(truth[line["row"]]))
        table.writerow(line | {"labels": names, "complete": "yes"})

# %%
judged = audit.read(sheet, "judged.csv").judgements(plan)
table = evaluate(taken, documents.labels, metrics=METRICS, audit=judged)
for each in table:
    low, high = each.interval
    print(
        f"{each.metric:9} {each.estimator:8} {each.value:.2f}  [{low:.2f}, {high:.2f}]"
    )

# %%
table.chart()

# %% [markdown]
# The measured numbers need no assumption about why subjects are missing. The
# given subjects made the tool look much worse than it is: most of the "wrong"
# suggestions apply.
#
# ## A threshold
#
# 0.5 was a guess. `thresholds.fit` chooses by micro-F1; against the given
# subjects it still avoids suggestions that are right but were not given. The
# same audit says how likely a subject that applies is given at all, and with
# that the subjects that are missing count, too.

# %%
p = propensity.audit(documents.labels, judged, curve="free")
print(f"subjects that apply and were given: {p.value.mean():.0%}")

cuts = {
    "a guess": 0.5,
    "as given": thresholds.fit(scores, documents.labels).values[0],
    "corrected": thresholds.fit(scores, documents.labels, p.value).values[0],
}
for name, cut in cuts.items():
    sets = LabelSets.from_scores(scores, cut)
    measured = evaluate(sets, documents.labels, metrics=METRICS, audit=judged)
    values = [
        f"{metric} {measured[metric, 'measured'].value:.2f}"
        for metric in METRICS
    ]
    print(f"{name:9} {cut:.2f}: {', '.join(values)}")

# %% [markdown]
# A threshold that the data choose is worth ten points of F1 here. That
# subjects are missing moves it a little further down, so that more of what
# applies is taken over.
#
# ## Was it right?
#
# The data are planted, so we can look. You cannot, and need not: the interval
# held.

# %%
order = [SUBJECTS.index(name) for name in documents.label_names]
complete = np.array([truth[id][order] for id in documents.ids])
true = evaluate(taken, complete, metrics=["sample-F1"], complete=True)[
    "sample-F1", "vanilla"
].value
low, high = table["sample-F1", "measured"].interval
print(f"true F1 {true:.2f}, measured between {low:.2f} and {high:.2f}")
assert low < true < high

# %% [markdown]
# ## With your own data
#
# Leave out the folded cells, and name your files: `data.read("yours.csv",
# id="…", labels="…")` and `predictions.read("theirs.csv", id="…", label="…",
# score="…")` if the columns have other names. Annif's corpora and TSV are
# read as they are ([what can be read](../guides/tables.md)). More on sheets,
# several judges and stopping early: [what is the recall,
# really?](../guides/audit.md)
