# %% [markdown]
# From a table of texts and tags to an honest evaluation, as a notebook in a script (jupytext opens
# it). Texts whose words say their tags are made; of every three tags the table shows two.

# %%
import csv
import random
import tempfile
from pathlib import Path

from unmask import audit, data, evaluate, linear, propensity

WORDS = {"physics": "atom field", "optics": "lens light", "law": "court act", "tax": "duty levy"}
draw = random.Random(0)  # noqa: S311 (no secrets here)
folder, complete = Path(tempfile.mkdtemp()), {}
for name, rows in (("train", 900), ("test", 600)):
    with (folder / f"{name}.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", "text", "tags"])
        for number in range(rows):
            tags = draw.sample(sorted(WORDS), draw.randint(1, 3))
            complete[f"{name}-{number}"] = tags
            text = " ".join(draw.choice(WORDS[tag].split()) for tag in tags)
            shown = [tag for tag in tags if draw.random() < 2 / 3]
            table.writerow([f"{name}-{number}", text, ";".join(shown)])

# %%
train = data.read(folder / "train.csv", text="text")
test = data.read(folder / "test.csv", text="text", like=train)
train  # noqa: B018 (a notebook shows it)

# %%
words = data.vocabulary(train.texts)
idf = data.idf(words.counts(train.texts))
features = {rows: data.tfidf(words.counts(rows.texts), idf) for rows in (train, test)}
p = propensity.constant(len(train.label_names), 2 / 3)
recipe = linear.Recipe(loss="logistic", correction="unbiased")
model, _ = linear.train(features[train], train.labels, recipe, propensity=p)
top = linear.predict_top(model, features[test], 2)
top = top.named(ids=test.ids, names=test.label_names)
top  # noqa: B018

# %% [markdown]
# Predictions are matched with labels by id and name, in whatever order they stand.

# %%
estimated = evaluate(top, test, p, metrics=["R@2"], estimators=["vanilla", "deconvolved"])
print(estimated.headline)

# %% [markdown]
# What 60 judged rows measure, whatever hid the tags; here the judge knows the truth.

# %%
plan = audit.plan(top, test.labels, budget=60, metrics=["R@2"], seed=0)
answers = [complete[test.ids[int(row)]] for row in plan.rows]
judged = audit.from_rows(plan, data.label_matrix(answers, test.label_names)[0])
measured = evaluate(top, test, p, metrics=["R@2"], audit=judged)["R@2", "measured"]
low, high = measured.interval
print(f"measured R@2: {measured.value:.2f}, {low:.2f} to {high:.2f}")
