# %% [markdown]
# A small network on data with hidden labels: the same loop, with and without the correction.
#
# Rare labels are reported less often than frequent ones (propensities from 0.9 down to 0.05).
# Trained as if nothing were missing, the network learns to leave rare labels out; with the
# corrected loss it recovers much of what complete labels would have taught it. Recall is on true
# labels of unseen rows.

# %%
import numpy as np
import torch
from torch import nn

from unmask import data
from unmask.torch import MissingLabelLoss

N_TRAIN, EPOCHS, BATCH = 4000, 10, 200


# %%
def main() -> dict[str, float]:
    everything = data.synthetic.planted(5000, n_features=600, n_labels=80, seed=0)
    true_labels = everything.labels
    rank = np.argsort(np.argsort(-true_labels.sum(axis=0)))
    propensity = 0.9 * (0.05 / 0.9) ** (rank / rank.max())
    observed = data.hide(true_labels, propensity, seed=1)

    features = torch.log1p(torch.tensor(everything.features.toarray()))
    seen, truth = (torch.tensor(labels.toarray()) for labels in (observed, true_labels))
    recalls = {}
    for name, targets, correction in (
        ("complete labels", truth, "vanilla"),
        ("hidden labels, vanilla", seen, "vanilla"),
        ("hidden labels, unbiased", seen, "unbiased"),
    ):
        loss = MissingLabelLoss(propensity, loss="softmax", correction=correction)
        model = train(features[:N_TRAIN], targets[:N_TRAIN], loss)
        recalls[name] = recall_at_5(model(features[N_TRAIN:]), truth[N_TRAIN:])
        print(f"{name:25s} recall@5 on true labels: {recalls[name]:.3f}")
    return recalls


# %%
def train(features: torch.Tensor, targets: torch.Tensor, loss: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    wide = nn.Linear(features.shape[1], 64)
    model = nn.Sequential(wide, nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, targets.shape[1]))
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.1)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(features)).split(BATCH):
            optimizer.zero_grad()
            loss(model(features[rows]), targets[rows]).backward()
            optimizer.step()
    return model.eval()


# %%
def recall_at_5(scores: torch.Tensor, truth: torch.Tensor) -> float:
    hits = truth.gather(1, scores.topk(5).indices).sum(1)
    return float((hits / truth.sum(1)).mean())


# %%
if __name__ == "__main__":
    main()
