# %% [markdown]
# # Users and items: what the exposure hides
#
# **For** people who build recommenders and compare them offline, on likes
# that were logged while another system decided what people saw. **At the
# end** you have two systems compared with the exposure taken out, with an
# interval for the difference, and you know what happens if you only have item
# averages.
#
# The question behind it: nobody likes what was never shown. Logged likes
# favour whatever resembles the system that was running, usually the one that
# recommends what is popular.

# %% [markdown]
# ## The data
#
# A like is recorded if the user likes the film *and* was shown it. The
# running system kept the probability with which it showed each film to each
# user: the exposure, a propensity per entry. We plant 2,000 users and 40
# films of five genres. Ten films are pushed and shown to nearly everybody,
# and some users come rarely.

# %% tags=["data"]
import csv

import numpy as np

FILMS = [
    f"{first} {second}"
    for first in ("The Silent", "The Golden", "The Last", "The Northern")
    for second in (
        "Harbour",
        "Winter",
        "Garden",
        "Express",
        "Letter",
        "Island",
        "Orchestra",
        "Detective",
        "Mountain",
        "River",
    )
]
rng = np.random.default_rng(5)
n, films = 2000, len(FILMS)
users, genre = [f"u{number:04}" for number in range(n)], np.arange(films) % 5
favourite = np.array([rng.permutation(5)[:2] for _ in range(n)])
taste = (genre == favourite[:, :1]) | (genre == favourite[:, 1:])
likes = rng.random((n, films)) < np.where(taste, 0.5, 0.05)
shown = (
    np.where(np.arange(films) < 10, 0.85, 0.12)
    * np.where(rng.random(n) < 0.3, 0.4, 1.0)[:, None]
)
recorded = likes & (rng.random((n, films)) < shown)

with open("likes.csv", "w", newline="") as file:
    table = csv.writer(file)
    table.writerow(["user_id", "film", "exposure"])
    for i in range(n):
        seen = np.flatnonzero(recorded[i])
        table.writerows(
            [users[i], FILMS[j], f"{shown[i, j]:.3f}"] for j in seen
        )
        if not len(seen):
            table.writerow([users[i], "", ""])

# %% [markdown]
# ## Likes, with the exposure of each

# %%
from unmask import TopK, compare, data, evaluate, pages, propensity

log = data.read("likes.csv", id="user_id", labels="film", layout="long")
print(
    f"{log.n:,} users, {len(log.label_names)} films, {log.labels.nnz:,} likes"
)

with open("likes.csv") as file:
    lines = [line for line in csv.DictReader(file) if line["film"]]
row = {user: i for i, user in enumerate(log.ids)}
column = {film: j for j, film in enumerate(log.label_names)}
exposure = log.labels.copy()
for line in lines:
    exposure[row[line["user_id"]], column[line["film"]]] = float(
        line["exposure"]
    )
print(
    f"exposure of the recorded likes: {exposure.data.min():.2f} to {exposure.data.max():.2f}"
)

# %% [markdown]
# ## Two systems
#
# *popular* recommends everybody the films with most recorded likes.
# *personal* knows the genres that a user prefers, roughly. Each gives a score
# to all films, in the order of `log.label_names`.

# %%
columns = [FILMS.index(film) for film in log.label_names]
popular = np.tile(np.asarray(log.labels.sum(axis=0)).ravel(), (log.n, 1))
personal = taste[:, columns] + rng.normal(scale=0.4, size=(n, films))
systems = {
    name: TopK.from_scores(scores, 5)
    for name, scores in (("popular", popular), ("personal", personal))
}

METRICS = ["P@5", "nDCG@5"]
for name, top in systems.items():
    at_face_value = evaluate(top, log.labels, metrics=METRICS)
    print(
        f"{name:8}",
        {each.metric: round(each.value, 2) for each in at_face_value},
    )

# %% [markdown]
# At face value, *popular* wins clearly. Every like of a film that was hardly
# shown should count more: by 1/exposure. Propensities that differ from user
# to user go to `compare` and `evaluate` as a sparse matrix with the pattern
# of the likes.

# %%
tables = compare(systems, log.labels, exposure, metrics=["P@5"])
for each in tables["personal"]:
    low, high = each.interval
    ours, theirs = each.details["values"]
    print(
        f"{each.estimator:8} personal {ours:.2f}, popular {theirs:.2f}; "
        f"difference {each.value:+.2f} [{low:+.2f}, {high:+.2f}]"
    )

# %%
truth = {
    name: evaluate(top, likes[:, columns], metrics=["P@5"], complete=True)[
        "P@5", "vanilla"
    ].value
    for name, top in systems.items()
}
estimates = {
    name: evaluate(top, log.labels, exposure, metrics=["P@5"])
    for name, top in systems.items()
}
series = [
    pages.Series(
        words,
        list(systems),
        [estimates[name]["P@5", kind].value for name in systems],
        [estimates[name]["P@5", kind].interval[0] for name in systems],
        [estimates[name]["P@5", kind].interval[1] for name in systems],
    )
    for words, kind in (
        ("as logged", "vanilla"),
        ("exposure taken out", "unbiased"),
    )
]
series.append(
    pages.Series("truth", list(systems), [truth[name] for name in systems])
)
pages.Chart(
    "dots",
    series,
    title="P@5 of two systems",
    y=pages.Axis("", low=0, high=0.7),
)

# %% [markdown]
# The sign changes, and the corrected numbers agree with the truth, which we
# know because we planted it.

# %%
difference = tables["personal"]["P@5", "unbiased"]
low, high = difference.interval
print(f"true difference {truth['personal'] - truth['popular']:+.2f}")
assert tables["personal"]["P@5", "vanilla"].value < 0 < low
assert low < truth["personal"] - truth["popular"] < high

# %% [markdown]
# ## If only averages per film were kept
#
# Often the log says how often a film was shown, but not to whom. Then a
# propensity per film is all there is. That users differ in how much they see
# (labels of a row are lost together) is stated as the row effort of a
# `MaskModel`. P@k is a sum over entries, for which averages per film are
# still right as long as those who see little like the same things; recall and
# nDCG divide by what each user likes, and are not.

# %%
per_film = propensity.MaskModel(
    shown[:, columns].mean(axis=0), row_effort=0.2
)
averages = evaluate(
    systems["personal"], log.labels, per_film, metrics=["P@5"]
)
cell = averages["P@5", "unbiased"]
exact = estimates["personal"]["P@5", "unbiased"]
print(
    f"P@5 with averages {cell.value:.2f}, with exposures {exact.value:.2f}, "
    f"true {truth['personal']:.2f}"
)

# %% [markdown]
# And if the averages are wrong? Half an answer is how far the number moves
# when they are off by a factor; the other half is an
# [audit](../guides/audit.md): ask some users about films at random.

# %%
for gamma in exact.sensitivity.gammas:
    print(
        f"exposures off by up to {gamma.gamma:g} times: {gamma.low:.2f} to {gamma.high:.2f}"
    )

# %% [markdown]
# ## With your own data
#
# Leave out the folded cell. You need a line per recorded like with the
# probability that the item was shown, and a line with an empty item for users
# without any. Exposures must be above 0: an item that could never be shown
# says nothing. Clip very small ones (`propensity.clip`), or two likes carry
# the whole estimate; the verdict says so when they do. Predictions may come
# as files, with ids ([predictions of other
# systems](../guides/other-systems.md)).
