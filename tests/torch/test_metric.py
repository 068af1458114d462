"""Metrics in a torch loop: batches and ranks add up to the one-shot answer, to the bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import distributed, multiprocessing

import unmask
from unmask.torch import RankingMetrics

METRICS, ESTIMATORS = ["P@1", "R@3", "nDCG@3"], ["vanilla", "unbiased"]
P = np.linspace(0.3, 1, 12)


def rows(n: int = 60) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(n, 12, generator=generator)
    return logits, (torch.rand(n, 12, generator=generator) < 0.3).float()


def expected() -> dict[str, float]:
    logits, targets = rows()
    table = unmask.evaluate(
        logits.numpy(), targets.numpy(), P, metrics=METRICS, estimators=ESTIMATORS
    )
    return {f"{e.metric}/{e.estimator}": e.value for e in table}


def metric() -> RankingMetrics:
    return RankingMetrics(P, metrics=METRICS, estimators=ESTIMATORS)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.parametrize("kind", ["dense", "coo", "csr"])
def test_batches_add_up_to_one_call(kind: str) -> None:
    logits, targets = rows()
    convert = {
        "dense": lambda t: t,
        "coo": torch.Tensor.to_sparse,
        "csr": torch.Tensor.to_sparse_csr,
    }
    found = metric()
    for part in torch.arange(60).split(7):
        found.update(logits[part], convert[kind](targets[part]))
    assert found.values() == expected()


def test_label_numbers_are_targets_too() -> None:
    logits = torch.tensor([[3.0, 2.0, 1.0]])
    found = RankingMetrics(metrics=["P@1"])
    found.update(logits, torch.tensor([[0, -1]]))
    assert found.values() == {"P@1/vanilla": 1.0}


@pytest.mark.filterwarnings("ignore:The ``compute`` method of metric")  # where torchmetrics is
def test_a_call_gives_the_batch_and_reset_forgets() -> None:
    logits, targets = rows()
    found = metric()
    batch = found(logits[:10], targets[:10])
    whole = unmask.evaluate(
        logits[:10].numpy(), targets[:10].numpy(), P, metrics=METRICS, estimators=ESTIMATORS
    )
    assert batch["R@3/unbiased"].item() == whole["R@3", "unbiased"].value
    found.reset()
    with pytest.raises(ValueError, match="no rows to evaluate"):
        found.compute()


def test_half_precision_logits_rank_as_they_are() -> None:
    logits, targets = rows()
    rough = logits.bfloat16()
    found = metric()
    found.update(rough, targets)
    table = unmask.evaluate(rough.float().numpy(), targets.numpy(), P, metrics=METRICS)
    assert found.values()["P@1/vanilla"] == table["P@1", "vanilla"].value


def _work(rank: int, folder: str) -> None:
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2
    )
    logits, targets = rows()
    found = metric()
    found.update(logits[rank::2], targets[rank::2])
    (Path(folder) / f"{rank}.txt").write_text(repr(found.values()))
    distributed.destroy_process_group()


def test_two_ranks_agree_with_one_call(tmp_path: Path) -> None:
    multiprocessing.spawn(_work, args=(str(tmp_path),), nprocs=2)
    for rank in range(2):
        assert (tmp_path / f"{rank}.txt").read_text() == repr(expected())


def test_no_rows_change_nothing() -> None:
    logits, targets = rows()
    found = metric()
    found.update(logits, targets)
    found.update(logits[:0], targets[:0])
    found.update(logits[:0], torch.zeros(0, 2, dtype=torch.long))
    assert found.values() == expected()
    with pytest.raises(ValueError, match="no rows to evaluate"):
        found(logits[:0], targets[:0])


def test_infinite_logits() -> None:
    """−inf is never predicted, as in `TopK.from_scores`; NaN and +inf are no scores."""
    logits, targets = rows()
    logits[:, ::2] = -torch.inf
    logits[3] = -torch.inf
    found = metric()
    found.update(logits, targets)
    table = unmask.evaluate(
        logits.numpy(), targets.numpy(), P, metrics=METRICS, estimators=ESTIMATORS
    )
    assert found.values() == {f"{e.metric}/{e.estimator}": e.value for e in table}
    for value in (torch.nan, torch.inf):
        logits[5, 4] = value
        with pytest.raises(ValueError, match="scores must be finite; row 5 has label 4"):
            found.update(logits, targets)


def test_label_numbers_are_checked() -> None:
    for numbers, message in (([[1, 1]], "label 1 twice in row 0"), ([[3, 0]], "counted from 1")):
        with pytest.raises(ValueError, match=message):
            RankingMetrics(metrics=["P@1"]).update(torch.zeros(1, 3), torch.tensor(numbers))
    for logits in (torch.zeros(3), np.zeros((1, 3)), torch.zeros(1, 3, dtype=torch.complex64)):
        with pytest.raises(ValueError, match="logits must be a tensor of real numbers"):
            RankingMetrics(metrics=["P@1"]).update(logits, torch.zeros(1, 3))


def test_equal_logits_go_to_the_smaller_label() -> None:
    generator = torch.Generator().manual_seed(1)
    logits = torch.randint(0, 3, (60, 12), generator=generator).bfloat16()
    _, targets = rows()
    found = metric()
    found.update(logits, targets)
    table = unmask.evaluate(
        logits.float().numpy(), targets.numpy(), P, metrics=METRICS, estimators=ESTIMATORS
    )
    assert found.values() == {f"{e.metric}/{e.estimator}": e.value for e in table}


def test_a_metric_of_the_whole_list_sees_all_of_it() -> None:
    logits, targets = rows()
    found = RankingMetrics(metrics=["P@1", "MRR"])
    found.update(logits, targets)
    table = unmask.evaluate(logits.numpy(), targets.numpy(), metrics=["P@1", "MRR"])
    assert found.values()["MRR/vanilla"] == table["MRR", "vanilla"].value


def test_one_rank_alone_agrees_with_one_call(tmp_path: Path) -> None:
    where = f"file://{tmp_path}/meet"
    distributed.init_process_group("gloo", init_method=where, rank=0, world_size=1)
    try:
        logits, targets = rows()
        alone = metric()
        alone.update(logits, targets)
        assert alone.values() == expected()
    finally:
        distributed.destroy_process_group()
