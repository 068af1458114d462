# %% [markdown]
# # Extreme classification: from files to a report
#
# **For** people with very many labels and files in the format of the extreme
# classification repository. **At the end** you have a label tree trained and
# evaluated by three commands, a page with the results, and you know what
# ranking by probability/propensity changes, in Python.
#
# The question behind it: at this scale nobody has read the labels of a row.
# Most rare labels are missing, and P@k rewards models that never predict
# them.

# %% [markdown]
# ## The data
#
# `train.txt` and `test.txt` have a line per row, `label,label word:count
# word:count …`, under a head with the numbers of rows, words and labels.
# `labels.txt` beside them, with a line per label, gives names. We plant 3,000
# products with 400 categories, and hide labels so that Jain's model is right:
# frequent categories are recorded in 7 of 10 cases, rare ones in 1 of 10.

# %% tags=["data"]
from pathlib import Path

from unmask import data, propensity

PLACES = "garden kitchen office travel bath garage school camping music pet".split()
THINGS = """lamp shelf bag cup brush towel box chair table mat clock hook tray rack fan basket
frame hose knife bowl board blanket pillow mirror vase stool cable case stand cover bottle
spoon glove scale timer whistle rope ladder net tent""".split()
names = [f"{place} {thing}" for place in PLACES for thing in THINGS]
rows = data.synthetic.planted(
    3_000,
    n_features=2_000,
    n_labels=400,
    words_per_label=5,
    noise_words=4,
    skew=0.7,
    seed=4,
)
counts, true_p = (
    rows.labels[:2_400].sum(axis=0),
    propensity.constant(400, 0.5),
)
for _ in range(
    50
):  # until the model of the recorded counts is the model that hid the labels
    true_p = propensity.jain_curve(counts * true_p, 2_400)
recorded = data.hide(rows.labels, true_p, seed=1)
for file, part in (
    ("train.txt", slice(0, 2_400)),
    ("test.txt", slice(2_400, 3_000)),
):
    data.write(file, data.Dataset(rows.features[part], recorded[part]))
Path("labels.txt").write_text("\n".join(names) + "\n")

# %% [markdown]
# ## Three commands
#
# `--tfidf` makes weights of the counts and keeps them in the model. From
# 20,000 labels on a tree is the default; here we ask for it. A killed
# training goes on with the same command.

# %% language="bash"
# unmask train train.txt --model tree --tfidf -o model --quiet
# unmask predict model test.txt --k 5 -o predictions.txt --quiet
# unmask evaluate --labels test.txt --predictions predictions.txt \
#     --train train.txt --metrics P@1,P@5 --estimators vanilla,unbiased \
#     --html report.html --quiet

# %% [markdown]
# PSP@k, the score of the literature, is there, too (`--metrics PSP@5`), but
# estimates no true metric ([why](../psp.md)). `report.html` is one file with
# tables, charts and verdicts; it needs no server and loads nothing.
#
# ## The same in Python
#
# The propensities are computed from the training labels, as the command did:
# Jain's model, whose constants are a guess on data that they were not fitted
# to.

# %%
from unmask import LabelTree, compare, evaluate, metrics, sensitivity

train, test = data.read("train.txt"), data.read("test.txt")
p = propensity.jain(train.labels)
idf = data.idf(train.features)
x_train, x_test = (
    data.tfidf(train.features, idf),
    data.tfidf(test.features, idf),
)

model = LabelTree("logistic", n_trees=1, C=10, propensity=p).fit(
    x_train, train
)
by_score = model.predict_top(x_test, k=5)
by_ratio = model.predict_top(x_test, k=5, rank_by="probability/propensity")
for name, score in by_score.of_row(0)[:3]:
    print(f"{name:20} {score:.1f}")

# %% [markdown]
# Scores are ln P(label | row). There are two ways to take the missing labels
# into account: rank by P/p afterwards, which costs nothing, or train with
# counts that are corrected (`correction="unbiased"`).

# %%
corrected = LabelTree(
    "logistic", n_trees=1, C=10, propensity=p, correction="unbiased"
)
corrected.fit(x_train, train)
ranked = {
    "as recorded": by_score,
    "ranked by P/p": by_ratio,
    "trained corrected": corrected.predict_top(x_test, k=5),
}
print(f"{'P@5':18} recorded  corrected          true")
for name, top in ranked.items():
    table = evaluate(top, test.labels, p, metrics=["P@5"])
    cell = table["P@5", "unbiased"]
    true = evaluate(top, rows.labels[2_400:], metrics=["P@5"], complete=True)[
        "P@5", "vanilla"
    ].value
    low, high = cell.interval
    print(
        f"{name:18} {table['P@5', 'vanilla'].value:.2f}      "
        f"{cell.value:.2f} [{low:.2f}, {high:.2f}]  {true:.2f}"
    )
    assert low < true < high

# %% [markdown]
# By recorded labels the three look the same. The corrected numbers, more than
# twice as high, hold the truth. Whether the differences are more than chance
# is a question of its own: intervals of differences on the same rows are
# narrower.

# %%
differences = compare(
    ranked,
    test.labels,
    p,
    metrics=["P@5"],
    estimators=["vanilla", "unbiased"],
)
for name in differences:
    for each in differences[name]:
        low, high = each.interval
        print(
            f"{name:18} {each.estimator:8} {each.value:+.3f} [{low:+.3f}, {high:+.3f}]"
        )

# %% [markdown]
# ## How much hangs on the guess?
#
# Jain's constants came from two other data sets. `sensitivity` evaluates
# under propensities p^γ: γ = 0 takes the labels as complete, γ = 1 is the
# model itself.

# %%
models = metrics.powers(p)
by_gamma = sensitivity(
    by_ratio, test.labels, models, metrics=["P@5"], estimators=["unbiased"]
)
by_gamma.chart()

# %% [markdown]
# ## With your own data
#
# Leave out the folded cell and name your files; features and labels in two
# files (`trn_X_Xf.txt`, `trn_X_Y.txt`), folders and `.gz` or `.zst` are read
# as they are, and the `filter_labels` files are used ([what can be
# read](../guides/tables.md)). `--propensity jain:DATASET` takes the constants
# of a public data set. With a million labels, train into a folder ([very many
# labels](../guides/tree.md)) or on several machines ([many
# machines](../guides/cluster.md)).
