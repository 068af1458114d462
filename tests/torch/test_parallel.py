"""Two processes train as one: gradients of the corrected loss under DDP and FSDP, by gloo."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, distributed, multiprocessing, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, fully_shard
from torch.nn.parallel import DistributedDataParallel

from unmask.torch import CorrectedOutput, MissingLabelLoss

P = np.linspace(0.3, 1, 12)
RATE = 0.5


class Tagger(nn.Module):
    """An encoder, its output layer and the loss in one module, buffers and all."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.encoder = nn.Linear(5, 4)
        loss = MissingLabelLoss(P, loss="softmax", correction="bound", normalized=True)
        self.output = CorrectedOutput(4, loss, chunk=5)

    def forward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        return self.output(self.encoder(inputs), targets)


def batch() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    targets = torch.stack([torch.randperm(12, generator=generator)[:3] for _ in range(8)])
    return torch.randn(8, 5, generator=generator), targets


def _ddp(model: nn.Module) -> nn.Module:
    return DistributedDataParallel(model)


def _sharded(model: nn.Module) -> nn.Module:
    mesh = init_device_mesh("cpu", (2,))
    fully_shard(model.encoder, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def _flat(model: nn.Module) -> nn.Module:
    """The older one, which casts buffers where it is told to, before the first batch."""
    return FullyShardedDataParallel(
        model, device_id=torch.device("cpu"), use_orig_params=True,
        mixed_precision=MixedPrecision(buffer_dtype=torch.bfloat16),
    )  # fmt: skip


WRAPPERS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "DDP": _ddp,
    "fully_shard": _sharded,
    "FSDP, buffers cast": _flat,
}


def _step(model: nn.Module, inputs: Tensor, targets: Tensor) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    model(inputs, targets).backward()
    optimizer.step()


def _state(model: nn.Module) -> dict[str, Tensor]:
    """All parameters and buffers, put together from the ranks where they are sharded."""
    if isinstance(model, FullyShardedDataParallel):
        return {name: each.clone() for name, each in model.state_dict().items()}
    whole = {
        name: each.full_tensor() if hasattr(each, "full_tensor") else each
        for name, each in model.state_dict().items()
    }
    return {name.removeprefix("module."): each.clone() for name, each in whole.items()}


def _work(rank: int, folder: str) -> None:
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2
    )
    inputs, targets = batch()
    for name, wrap in WRAPPERS.items():
        model = wrap(Tagger())
        _step(model, inputs[rank::2], targets[rank::2])
        torch.save(_state(model), Path(folder) / f"{name} {rank}.pt")
    distributed.destroy_process_group()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The states that two processes have after one step under every wrapper."""
    folder = tmp_path_factory.mktemp("ranks")
    multiprocessing.spawn(_work, args=(str(folder),), nprocs=2)
    return folder


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*FSDP.*:FutureWarning")
@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("rank", [0, 1])
def test_two_processes_step_as_one(trained: Path, wrapper: str, rank: int) -> None:
    """Parameters move by the gradients of one process; propensities stay, to the bit."""
    model = Tagger()
    start = {name: each.clone() for name, each in model.state_dict().items()}
    _step(model, *batch())
    state = torch.load(trained / f"{wrapper} {rank}.pt", weights_only=True)
    assert state.keys() == start.keys()
    for name, expected in model.state_dict().items():
        if name in dict(model.named_buffers()):
            assert state[name].dtype is torch.float64
            assert torch.equal(state[name], start[name])
        else:
            moved = expected - start[name]
            assert moved.abs().max() > 0.01
            torch.testing.assert_close(state[name] - start[name], moved, rtol=1e-5, atol=1e-6)


def test_buffers_that_somebody_casts_are_restored() -> None:
    """As FSDP casts them: another storage in the same buffer."""
    logits, targets = torch.zeros(2, 12), [[3], [0, 5]]
    loss = MissingLabelLoss(P, correction="bound")
    expected, before = loss(logits, targets), loss.inverse_propensity.clone()
    buffer = loss.inverse_propensity
    buffer.data = buffer.to(torch.bfloat16)
    assert loss.inverse_propensity.dtype is torch.bfloat16
    assert torch.equal(loss(logits, targets), expected)
    assert loss.inverse_propensity is buffer
    assert torch.equal(buffer, before)
    other = MissingLabelLoss(P / 2, correction="bound")
    loss.load_state_dict(other.state_dict())
    loss.half()
    assert torch.equal(loss(logits, targets), other(logits, targets))
