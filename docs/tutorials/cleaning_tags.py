# %% [markdown]
# # Cleaning a tag collection
#
# **For** people who keep a collection with tags that many hands gave: photos,
# packages, recipes, questions. **At the end** you have a list of the tags
# that are probably missing, answers of a person to some of them, a repaired
# table in which every tag says where it comes from, and a model trained again
# on it.
#
# The question behind it: you know that tags are missing, and cannot look at
# everything. Where do you look first, and how many of the findings are right?

# %% [markdown]
# ## The data
#
# `recipes.csv` has `id, text, tags`, with `;` between tags. We plant 1,500
# recipes with 12 tags. The words of a text follow from its tags, some of each
# kind are noise, and of the tags that apply 55 % are there.

# %% tags=["data"]
import csv

import numpy as np

WORDS = {
    "baking": "oven flour dough tin crust yeast",
    "vegan": "tofu lentil oat cashew tahini chickpea",
    "soup": "broth ladle simmer stock bowl puree",
    "grill": "coal skewer smoke char rack tongs",
    "dessert": "sugar cream vanilla cocoa glaze custard",
    "fish": "cod salmon fillet scale lemon dill",
    "spicy": "chili cayenne pepper harissa heat curry",
    "salad": "lettuce vinegar toss radish cress leaf",
    "pasta": "spaghetti penne semolina ricotta pesto gnocchi",
    "quick": "minute microwave instant easy pan fast",
    "drink": "ice juice shake straw mint syrup",
    "breakfast": "egg toast porridge jam muesli pancake",
}
rng = np.random.default_rng(2)
tags, n = list(WORDS), 1500
applies = rng.random((n, 12)) < np.linspace(0.32, 0.12, 12)
applies[np.arange(n), rng.integers(12, size=n)] = True
tagged = applies & (rng.random((n, 12)) < 0.55)
common = [
    "take",
    "mix",
    "add",
    "serve",
    "cook",
    "cut",
    "stir",
    "until",
    "warm",
    "salt",
]
texts = [
    " ".join(
        [
            str(rng.choice(WORDS[tags[j]].split()))
            for j in np.flatnonzero(row)
            for _ in range(2)
        ]
        + [
            str(rng.choice(WORDS[str(rng.choice(tags))].split()))
            for _ in range(3)
        ]
        + [str(word) for word in rng.choice(common, 4)]
    )
    for row in applies
]
with open("recipes.csv", "w", newline="") as file:
    table = csv.writer(file)
    table.writerow(["id", "text", "tags"])
    for i in range(n):
        own = [tags[j] for j in np.flatnonzero(tagged[i])]
        table.writerow([f"recipe-{i:04}", texts[i], ";".join(own)])

# %% [markdown]
# ## Read, and make features of the texts
#
# The last 400 recipes are set aside, to see at the end whether the repaired
# tags help.

# %%
from pathlib import Path

from unmask import (
    LabelSets,
    LinearClassifier,
    audit,
    data,
    evaluate,
    linear,
    missing,
    propensity,
)

recipes = data.read("recipes.csv", text="text", labels="tags", id="id")
words = data.vocabulary(recipes.texts, pairs=False)
counts = words.counts(recipes.texts)
features = data.tfidf(counts, data.idf(counts))
collection, x = recipes.take(slice(0, 1100)), features[:1100]
print(
    f"{collection.n:,} recipes, {collection.labels.nnz:,} tags, {features.shape[1]} words"
)
print(f"{collection.ids[0]}: {collection.texts[0]}")
print(f"tags: {', '.join(collection.labels_of(0))}")

# %% [markdown]
# ## Find
#
# `linear.completion` estimates how likely each tag truly applies: from the
# text, with a model that knows that tags are missing, and from the other
# tags. It never judges a recipe by a model that has learnt its tags by heart.
# `missing.find` ranks the pairs that are not tagged. It must know how many of
# the tags that apply are usually there; here we state 55 % (an audit would
# measure it).

# %%
p = propensity.constant(12, 0.55)
made = linear.completion(
    x, collection, p, linear.Recipe("logistic", C=10.0), rounds=2
)
found = missing.find(made.probabilities, collection, p, top=500)
print(f"expected to be missing: about {round(found.expected, -2):.0f} tags")
print(f"the propensities alone say: about {round(found.implied, -2):.0f}")
for row, label, chance in list(
    zip(found.rows, found.labels, found.probability, strict=True)
)[:5]:
    print(f"{found.row_name(row)}  {found.label_name(label):9} {chance:.2f}")

# %% [markdown]
# The two totals answer the same question in two ways. The model accounts for
# most of what the propensities say: it is cautious, as models of short texts
# are. If the totals are far apart, the model is not calibrated, or the
# propensities are wrong.
#
# ## Review
#
# The first 500 findings go to a person, in random order and without
# probabilities. The sheet is a CSV; `unmask missing … --page` makes a page to
# judge on, `--label-studio` and `--argilla` write tasks for these tools.

# %%
review = missing.review(found, texts=list(collection.texts))
audit.write_sheet(review.sheet, "sheet.csv")
print("\n".join(Path("sheet.csv").read_text().splitlines()[:2]))

# %% [markdown]
# The person answers `yes`, `no` or `unsure`; here a program answers the first
# 120 questions from the truth. Answers may stop at any time.

# %% tags=["data"]
with (
    open("sheet.csv") as blank,
    open("answered.csv", "w", newline="") as filled,
):
    lines = csv.DictReader(blank)
    table = csv.DictWriter(filled, lines.fieldnames)
    table.writeheader()
    for number, line in enumerate(lines):
        right = applies[
            int(line["row"].split("-")[1]), tags.index(line["label"])
        ]
        answer = ("yes" if right else "no") if number < 120 else ""
        table.writerow(line | {"answer": answer})

# %%
reviewed = review.reviewed(audit.read(review.sheet, "answered.csv"))
share, low, high = reviewed.precision()
print(
    f"{reviewed.confirmed} of {len(reviewed.rows)} findings are right: "
    f"{share:.0%} ({low:.0%} to {high:.0%})"
)

# %% [markdown]
# Since the sheet stands in random order, the share holds for all 500
# findings, with its interval. It says nothing of recall: pairs in which the
# model does not believe were never asked about.
#
# ## Complete
#
# Confirmed tags are added, refuted ones are remembered. With `threshold`,
# findings that nobody judged are filled in where they are nearly certain.
# Every tag keeps its origin.

# %%
repaired = missing.complete(
    collection, reviewed, threshold=0.97, findings=found
)
print(repaired.counts())
table_file, origins = repaired.write("repaired.csv")
print("\n".join(origins.read_text().splitlines()[:3]))

# %% [markdown]
# ## Train again
#
# Three models, judged on the true tags of recipes that none of them has seen:
# trained on the tags as they were, on the repaired tags, and *completed*,
# which takes what is probably missing as soft targets instead of asking for a
# decision.

# %%
order = [tags.index(name) for name in recipes.label_names]
true_tags = applies[:, order]
models = {
    "as tagged": LinearClassifier("logistic", C=10.0).fit(
        x, collection.labels
    ),
    "repaired": LinearClassifier("logistic", C=10.0).fit(x, repaired.dataset),
    "completed": LinearClassifier(
        "logistic", correction="completed", propensity=p, C=10.0
    ).fit(x, collection.labels),
}
f1 = {}
for name, model in models.items():
    sets = LabelSets.from_scores(
        model.decision_function(features[1100:]), 0.0
    )
    f1[name] = evaluate(
        sets, true_tags[1100:], metrics=["micro-F1"], complete=True
    )["micro-F1", "vanilla"].value
    print(f"{name:9} true F1 {f1[name]:.2f}")
assert f1["as tagged"] < f1["repaired"] < f1["completed"]

# %%
from unmask import pages

pages.Chart(
    "dots",
    [pages.Series(name, [name], [value]) for name, value in f1.items()],
    title="F1 on true tags of new recipes",
    y=pages.Axis("", low=0, high=1),
)

# %% [markdown]
# ## With your own data
#
# Leave out the folded cells and read your table: `data.read("yours.csv",
# text="title,body", labels="tags", id="id")`. State how many of the true tags
# are there, or measure it: judge 100 rows completely ([what is the recall,
# really?](../guides/audit.md)) and take `propensity.audit(labels, judged)`.
# Without Python, `unmask missing` and `unmask complete` do the same ([which
# labels are missing?](../guides/missing.md)).
