# %% [markdown]
# A tagger in Lightning on tags of which many are missing.
#
# A bag of word embeddings with random weights; put your own encoder in its place. The mixin
# brings the training and validation steps: the corrected loss, and corrected metrics that are
# logged once per epoch, over all ranks. Needs `pip install lightning`.

# %%
import numpy as np
import torch
from lightning.pytorch import LightningModule, Trainer
from torch import nn
from torch.utils.data import DataLoader

from unmask import data, evaluate
from unmask.torch import MissingLabelLoss, RankingMetrics, trainers


# %%
class Tagger(trainers.LightningLosses, LightningModule):
    def __init__(self, p: np.ndarray, n_words: int) -> None:
        super().__init__()
        self.encoder = nn.EmbeddingBag(n_words, 32)
        self.output = nn.Linear(32, len(p))
        self.loss = MissingLabelLoss(p, loss="softmax", correction="unbiased")
        self.validation = RankingMetrics(p, metrics=["R@5"], estimators=["vanilla", "unbiased"])

    def forward(self, texts: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        return self.output(self.encoder(*texts))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.02)


# %%
def batches(texts, labels, size: int = 50) -> DataLoader:
    def collate(numbers: list[int]):
        features = texts[numbers]
        words = torch.tensor(features.indices.astype(np.int64))
        starts = torch.tensor(features.indptr[:-1].astype(np.int64))
        return (words, starts), [labels[[number]].indices.tolist() for number in numbers]

    return DataLoader(range(labels.shape[0]), batch_size=size, collate_fn=collate)


# %%
def main(epochs: int = 4) -> dict[str, float]:
    planted = data.synthetic.planted(800, n_features=200, n_labels=30, seed=0)
    p = np.linspace(0.9, 0.3, 30)
    observed = data.hide(planted.labels, p, seed=1)
    torch.manual_seed(0)
    model = Tagger(p, 200)
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = Trainer(max_epochs=epochs, accelerator="cpu", enable_model_summary=False, **quiet)
    test = batches(planted.features[600:], observed[600:])
    trainer.fit(model, batches(planted.features[:600], observed[:600]), test)
    with torch.no_grad():
        scores = torch.cat([model(texts) for texts, _ in test])
    true = evaluate(scores.numpy(), planted.labels[600:], metrics=["R@5"], complete=True)
    logged = {name: value.item() for name, value in trainer.callback_metrics.items()}
    return {**logged, "true R@5": true["R@5", "vanilla"].value}


# %%
if __name__ == "__main__":
    print(main())
