# %% [markdown]
# # A torch encoder with shortlists
#
# **For** people who train a network over many labels, and score only some of
# them in every step. **At the end** you have a training loop of your own in
# which two lines changed: the loss counts labels that nobody recorded, and
# the shortlist stands for all labels without bias.
#
# The question behind it: sampled "negatives" are labels that nobody recorded.
# Some are true, rare ones most often, and the network learns to push them
# down.

# %% [markdown]
# ## The data
#
# Short texts as lists of word numbers, and label numbers per row, filled up
# with −1. We plant 4,000 questions with 120 topics, and hide labels: frequent
# ones are recorded in 9 of 10 cases, the rarest in 1 of 10.

# %% tags=["data"]
import numpy as np

from unmask import data

rows = data.synthetic.planted(
    4_000, n_features=800, n_labels=120, words_per_label=6, seed=0
)
rank = np.argsort(np.argsort(-rows.labels.sum(axis=0)))
p = 0.9 * (0.1 / 0.9) ** (rank / rank.max())
recorded = data.hide(rows.labels, p, seed=1)
N, L = 3_400, 120  # rows to train on, labels

# %%
import torch
from torch import nn

from unmask.torch import MissingLabelLoss, RankingMetrics, samplers


def padded(matrix):
    """Numbers of the columns of every row, filled up with −1."""
    lists = np.split(matrix.indices, matrix.indptr[1:-1])
    width = max(len(each) for each in lists)
    return torch.tensor(
        [[*each.tolist(), *[-1] * (width - len(each))] for each in lists]
    )


words = torch.log1p(torch.tensor(rows.features.toarray()))
targets = padded(recorded[:N])
print("targets of the first rows:", targets[:2, :4].tolist())

# %% [markdown]
# ## The encoder
#
# Texts and labels meet in one space: a row and a label have the product of
# their vectors as logit. The encoder stands for whatever you use, a
# transformer for instance; only its output matters.


# %%
class Encoder(nn.Module):
    def __init__(self, n_words, n_labels, size=48):
        super().__init__()
        self.text = nn.Sequential(
            nn.Linear(n_words, 96),
            nn.ReLU(),
            nn.Dropout(0.3),
            nn.Linear(96, size),
        )
        self.label = nn.Embedding(n_labels, size)
        self.bias = nn.Embedding(n_labels, 1)
        nn.init.normal_(self.label.weight, std=0.1)
        nn.init.zeros_(self.bias.weight)

    def forward(self, words, candidates):
        """Logits of the candidates, (n, c)."""
        return self.text(words) @ self.label(candidates).T + self.bias(
            candidates
        ).squeeze(-1)


# %% [markdown]
# ## The loop
#
# In every step 40 labels are drawn by frequency, and the labels of the batch
# are added, since every row needs its own. `sample.expected` says how often
# each was to be expected; with that the loss is that of all 120 labels (for
# softmax, in the limit of many candidates). `MissingLabelLoss` knows the
# propensities; with `correction="vanilla"` it is the ordinary loss.


# %%
def train(correction, epochs=16):
    torch.manual_seed(0)
    model = Encoder(words.shape[1], L)
    loss = MissingLabelLoss(p, loss="softmax", correction=correction)
    counts = np.maximum(recorded[:N].sum(axis=0), 1)
    sampler = samplers.ByFrequency(counts, alpha=0.75)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=4e-3, weight_decay=0.1
    )
    for _ in range(epochs):
        for batch in torch.randperm(N).split(170):
            sample = samplers.with_observed(
                sampler.draw(40), targets[batch], L
            )
            logits = model(words[batch], sample.ids)
            value = loss(
                logits,
                targets[batch],
                candidates=sample.ids,
                sampling=sample.expected,
            )
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
    return model.eval()


models = {
    correction: train(correction) for correction in ("vanilla", "unbiased")
}

# %% [markdown]
# ## Evaluated in the loop
#
# `RankingMetrics` collects batches; its `table` is that of `unmask.evaluate`,
# from recorded labels of unseen rows. Beside it stands what we could not know
# in life: R@5 on their true labels, and how many labels of the rarer half are
# among the first five.

# %%
everything, rare = torch.arange(L), torch.tensor(rank >= L // 2)
true_labels = torch.tensor(rows.labels[N:].toarray())
found, recall = {}, {}
for name, model in models.items():
    metrics = RankingMetrics(
        p, metrics=["R@5"], estimators=["vanilla", "deconvolved"]
    )
    with torch.no_grad():
        logits = model(words[N:], everything)
    metrics.update(logits, torch.tensor(recorded[N:].toarray()))
    table = metrics.table()
    best = logits.topk(5).indices
    hits = torch.zeros_like(true_labels).scatter(
        1, best, true_labels.gather(1, best)
    )
    found[name] = (hits[:, rare].sum() / true_labels[:, rare].sum()).item()
    recall[name] = {
        "recorded": table["R@5", "vanilla"].value,
        "corrected": table["R@5", "deconvolved"].value,
        "true": (hits.sum(1) / true_labels.sum(1)).mean().item(),
    }
    shown = ", ".join(
        f"{kind} {value:.2f}" for kind, value in recall[name].items()
    )
    print(
        f"trained {name:8} R@5 {shown}; rare labels found: {found[name]:.0%}"
    )
assert recall["unbiased"]["true"] > recall["vanilla"]["true"]
assert found["unbiased"] > 2 * found["vanilla"]

# %%
from unmask import pages

pages.Chart(
    "dots",
    [
        pages.Series(f"trained {name}", list(values), list(values.values()))
        for name, values in recall.items()
    ],
    title="R@5 of two trainings",
    y=pages.Axis("", low=0, high=1),
)

# %% [markdown]
# ## With your own data
#
# Leave out the folded cell. Propensities come from an audit or a model of
# frequencies (`propensity.jain(labels)`); targets may be dense, sparse or
# padded as here. Shortlists that your index returns (hard negatives) are not
# drawn at random: pass them as `candidates` alone, and the loss is that of
# the labels listed; or mix them with draws, row by row. Which losses and
# corrections go together: [which loss when](../losses.md); more on the
# module: [torch](../guides/torch.md).
