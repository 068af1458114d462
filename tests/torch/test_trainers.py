"""The loss and the metrics in other people's trainers, where those are installed."""

from __future__ import annotations

import runpy
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import unmask
from tests.helpers.paths import ROOT
from unmask.torch import MissingLabelLoss, RankingMetrics, ScoreMetrics, SetMetrics, trainers

HERE = {name: find_spec(name) is not None for name in ("transformers", "lightning", "torchmetrics")}
needs_transformers = pytest.mark.skipif(not HERE["transformers"], reason="needs transformers")
needs_lightning = pytest.mark.skipif(not HERE["lightning"], reason="needs lightning")
needs_torchmetrics = pytest.mark.skipif(not HERE["torchmetrics"], reason="needs torchmetrics")
P = np.linspace(0.3, 1, 12)


def rows(n: int = 60) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(n, 12, generator=generator)
    return logits, (torch.rand(n, 12, generator=generator) < 0.3).float()


def test_the_loss_function_takes_what_trainers_hand_over():
    logits, targets = rows()
    loss = MissingLabelLoss(P, correction="bound")
    expected = loss(logits, targets)
    record = SimpleNamespace(logits=logits)
    for outputs in (logits, (logits, None), {"logits": logits}, record):
        assert trainers.compute_loss(loss)(outputs, targets, num_items_in_batch=7) == expected
    halved = trainers.compute_loss(loss, accumulation_steps=2)(logits, targets)
    assert halved == expected / 2
    padded = torch.tensor([[3, -100], [0, 5]])
    assert trainers.compute_loss(loss)(logits[:2], padded) == loss(logits[:2], [[3], [0, 5]])


def test_the_metrics_are_those_of_evaluate():
    logits, targets = rows()
    table = unmask.evaluate(logits.numpy(), targets.numpy(), P, metrics=["R@3"])
    expected = {f"{each.metric}/{each.estimator}": each.value for each in table}
    assert set(expected) == {"R@3/vanilla", "R@3/unbiased"}
    function = trainers.compute_metrics(P, metrics=["R@3"])
    for scores in (logits, logits.numpy(), (logits.numpy(), "hidden states")):
        for labels in (targets.numpy(), targets, [t.nonzero()[:, 0].tolist() for t in targets]):
            prediction = SimpleNamespace(predictions=scores, label_ids=labels)
            assert function(prediction) == expected


@pytest.mark.parametrize(
    ("make", "predictions"),
    [
        (
            lambda **o: SetMetrics(P, metrics=["sample-F1", "micro-R"], threshold=0.5, **o),
            lambda s: unmask.predictions.LabelSets.from_scores(s.numpy(), 0.5),
        ),
        (
            lambda **o: ScoreMetrics(P, metrics=["mAP", "Brier"], **o),
            lambda s: s.double().sigmoid().numpy(),
        ),
        (
            lambda **o: ScoreMetrics(P, metrics=["mAP"], probabilities=False, **o),
            lambda s: s.numpy(),
        ),
    ],
)
def test_sets_and_scores_in_batches_are_those_of_one_call(make, predictions):
    logits, targets = rows()
    metric = make(estimators=["vanilla", "unbiased"])
    for part in torch.arange(60).split(17):
        metric.update(logits[part].requires_grad_(), targets[part])
    table = unmask.evaluate(
        predictions(logits), targets.numpy(), P,
        metrics=list(dict.fromkeys(each.metric for each in metric.table())),
        estimators=["vanilla", "unbiased"],
    )  # fmt: skip
    expected = {f"{e.metric}/{e.estimator}": e.value for e in table}
    assert metric.values() == pytest.approx(expected, rel=1e-12)  # σ of batches, to the last bit
    values = metric.compute()
    assert {name: value.item() for name, value in values.items()} == metric.values()


def test_one_metric_by_one_estimator_is_one_number():
    logits, targets = rows()
    metric = RankingMetrics(P, metrics=["R@3"], estimators=["unbiased"])
    batch = metric(logits, targets)
    assert batch.shape == ()
    assert metric.compute() == batch == metric.values()["R@3/unbiased"]
    assert metric.table()["R@3", "unbiased"].value == batch


@needs_torchmetrics
def test_it_is_a_metric_of_torchmetrics():
    import torchmetrics

    logits, targets = rows()
    names = ["P@1", "R@3"]
    whole = torchmetrics.MetricCollection(
        {n: RankingMetrics(P, metrics=[n], estimators=["unbiased"]) for n in names}
    )
    assert all(isinstance(each, torchmetrics.Metric) for each in whole.values())
    for part in torch.arange(60).split(17):
        whole.update(logits[part], targets[part])
    table = unmask.evaluate(
        logits.numpy(), targets.numpy(), P, metrics=names, estimators=["unbiased"]
    )
    expected = {name: table[name, "unbiased"].value for name in names}
    assert {name: value.item() for name, value in whole.compute().items()} == expected
    both = RankingMetrics(P, metrics=names, estimators=["unbiased"])
    assert both.update_count == 0
    both(logits[:10], targets[:10])
    both.update(logits[10:], targets[10:])
    assert both.update_count == 2
    assert {k.split("/")[0]: v.item() for k, v in both.compute().items()} == expected
    copy = both.clone()
    assert copy.values() == both.values()
    both.reset()
    assert both.update_count == 0
    with pytest.raises(ValueError, match="no rows to evaluate"):
        both.values()


@needs_lightning
@pytest.mark.filterwarnings("ignore")
def test_lightning_logs_a_metric_itself():
    from lightning.pytorch import LightningModule, Trainer
    from torch.utils.data import DataLoader, TensorDataset

    logits, targets = rows()

    class Module(LightningModule):
        def __init__(self):
            super().__init__()
            self.metric = RankingMetrics(P, metrics=["R@3"], estimators=["unbiased"])

        def validation_step(self, batch, batch_idx):
            self.metric(*batch)
            self.log("recall", self.metric, on_epoch=True, on_step=True)

    trainer = Trainer(
        accelerator="cpu", logger=False, enable_progress_bar=False, enable_checkpointing=False,
        enable_model_summary=False,
    )  # fmt: skip
    batches = DataLoader(TensorDataset(logits, targets), batch_size=17)
    (logged,) = trainer.validate(Module(), batches, verbose=False)
    table = unmask.evaluate(
        logits.numpy(), targets.numpy(), P, metrics=["R@3"], estimators=["unbiased"]
    )
    assert logged["recall_epoch"] == pytest.approx(table["R@3", "unbiased"].value, rel=1e-6)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "recall"),
    [
        pytest.param("huggingface_trainer", "test_R@5/unbiased", marks=needs_transformers),
        pytest.param("lightning_tagger", "R@5/unbiased", marks=needs_lightning),
    ],
)
def test_the_examples_learn_and_estimate_the_true_recall(name, recall):
    main = runpy.run_path(str(ROOT / "examples" / f"{name}.py"))["main"]
    values = main()
    untrained = 5 / 30
    assert values["true R@5"] > 1.5 * untrained
    assert values[recall] == pytest.approx(values["true R@5"], abs=0.1)
    assert values[recall.replace("unbiased", "vanilla")] != values[recall]
