# %% [markdown]
# Fine-tune an encoder with Hugging Face's `Trainer` on tags of which many are missing.
#
# A tiny transformer with random weights, so that nothing is downloaded; put your own model and
# tokenizer in its place. Two arguments of the trainer are ours: the loss and the metrics. Needs
# `pip install transformers accelerate`.

# %%
import tempfile

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from unmask import data, evaluate
from unmask.torch import MissingLabelLoss, trainers

N_TRAIN, WORDS = 600, 24


# %%
def as_rows(features, labels) -> list[dict[str, torch.Tensor]]:
    """Word numbers, and label numbers that are filled up with −100, as collators do."""
    rows = []
    for row in range(features.shape[0]):
        words, tags = np.zeros(WORDS, dtype=int), np.full(8, -100)
        own = features[[row]].indices[:WORDS] + 1
        words[: len(own)] = own
        named = labels[[row]].indices[:8]
        tags[: len(named)] = named
        ids = torch.tensor(words)
        rows.append({"input_ids": ids, "attention_mask": ids.gt(0), "labels": torch.tensor(tags)})
    return rows


# %%
def main(steps: int = 40) -> dict[str, float]:
    planted = data.synthetic.planted(800, n_features=200, n_labels=30, seed=0)
    p = np.linspace(0.9, 0.3, 30)
    observed = data.hide(planted.labels, p, seed=1)
    rows = as_rows(planted.features, observed)
    torch.manual_seed(0)
    config = BertConfig(vocab_size=201, hidden_size=32, num_hidden_layers=1, num_labels=30,
                        num_attention_heads=2, intermediate_size=64)  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, max_steps=steps, per_device_train_batch_size=32, learning_rate=5e-3,
            use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True,
        )  # fmt: skip
        trainer = Trainer(
            BertForSequenceClassification(config),
            arguments,
            train_dataset=rows[:N_TRAIN],
            compute_loss_func=trainers.compute_loss(MissingLabelLoss(p, loss="softmax")),
            compute_metrics=trainers.compute_metrics(p, metrics=["R@5"]),
        )
        trainer.train()
        scores = trainer.predict(rows[N_TRAIN:])
    true = evaluate(scores.predictions, planted.labels[N_TRAIN:], metrics=["R@5"], complete=True)
    return {**scores.metrics, "true R@5": true["R@5", "vanilla"].value}


# %%
if __name__ == "__main__":
    print(main())
