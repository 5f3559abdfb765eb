"""The programs of ranks in test_sharded.py: `python sharded_rank_programs.py <function>`, under RANK.

A rank that finds something wrong ends with an error. Each program trains what one process would train, on the CPU, and
compares with it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor, rand
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module

import northbridge

CHIP = northbridge.load("cpu_sim")
RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
HERE = CHIP.device.root(RANK)
AND_HOST = f"cpu:gloo,{CHIP.name}:{CHIP.require_collective().name}"
STEPS = 4
ROWS = 8  # of the whole batch

# Untyped in torch.
distributed: Callable[..., DTensor] = distribute_tensor
sharded_random: Callable[..., DTensor] = rand
checkpoint: Any = dcp
optimizer_state: Callable[..., dict[str, Any]] = get_optimizer_state_dict
set_optimizer_state: Callable[..., None] = set_optimizer_state_dict


def mesh_of_all(backend: str = CHIP.require_collective().name) -> DeviceMesh:
    """All ranks in one row. The group under it is made once, for all programs: torch makes no second one in safety."""
    if not dist.is_initialized():
        dist.init_process_group(backend, timeout=timedelta(seconds=60))
    return init_device_mesh(CHIP.name, (SIZE,))


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 3 * width)
        self.down = nn.Linear(3 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = x + self.down(nn.functional.gelu(self.up(self.norm(x))))
        return result


class Net(nn.Module):
    """Two blocks of an odd width, so that no shard is as large as the others, and a head tied to nothing."""

    def __init__(self, width: int = 10) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.ModuleList([Block(width), Block(width)])
        self.head = nn.Linear(width, 3)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        result: Tensor = self.head(x)
        return result


def batches(width: int = 10) -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(1)
    return [
        (torch.randn(ROWS, width, generator=generator), torch.randint(0, 3, (ROWS,), generator=generator))
        for _ in range(STEPS)
    ]


def mine(whole: Tensor) -> Tensor:
    """The rows of a batch that are this rank's."""
    return whole.chunk(SIZE)[RANK].to(HERE)


def train(net: nn.Module, prepare: Callable[[Tensor], Tensor]) -> torch.optim.Optimizer:
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    for batch in batches():
        step(net, optimizer, batch, prepare)
    return optimizer


def step(
    net: nn.Module, optimizer: torch.optim.Optimizer, batch: tuple[Tensor, Tensor], prepare: Callable[[Tensor], Tensor]
) -> None:
    x, y = batch
    optimizer.zero_grad()
    torch.autograd.backward(nn.functional.cross_entropy(net(prepare(x)).float(), prepare(y)))
    optimizer.step()


def alone(*more: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
    """Return the weights of one process on the CPU that continues with `more` batches."""
    net = Net()
    optimizer = train(net, lambda whole: whole)
    for batch in more:
        step(net, optimizer, batch, lambda whole: whole)
    return dict(net.state_dict())


def whole(net: nn.Module) -> dict[str, Tensor]:
    state: Any = get_model_state_dict(net, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    return state if RANK == 0 else {}


def expect_close(got: dict[str, Tensor], expected: dict[str, Tensor], tolerance: float = 2e-6) -> None:
    if RANK != 0:
        return
    assert got.keys() == expected.keys()
    for name, value in got.items():
        torch.testing.assert_close(value.float(), expected[name].float(), rtol=0, atol=tolerance, msg=name)


def sharded(net: nn.Module, **options: Any) -> nn.Module:
    for part in (*net.blocks, net):  # type: ignore[misc]  # a list of modules
        fully_shard(part, **options)
    return net


def fsdp() -> None:
    mesh = mesh_of_all()
    net = sharded(Net().to(HERE), mesh=mesh)
    head: Any = net.head
    weight = head.weight
    assert isinstance(weight, DTensor)
    assert weight.to_local().device == HERE
    train(net, mine)
    expect_close(whole(net), alone())
    # Every element is on one rank, and none is there twice.
    held = torch.tensor(sum(p.to_local().numel() for p in net.parameters()), device=HERE)  # type: ignore[attr-defined]
    dist.all_reduce(held)
    assert held.item() == sum(p.numel() for p in Net().parameters())


def fsdp_mixed() -> None:
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    mesh = mesh_of_all()
    net = sharded(Net().to(HERE), mesh=mesh, mp_policy=policy)
    seen: list[torch.dtype] = []
    net.head.register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))  # type: ignore[union-attr]
    train(net, mine)
    assert seen == [torch.bfloat16] * STEPS
    assert {p.dtype for p in net.parameters()} == {torch.float32}
    expect_close(whole(net), alone(), tolerance=5e-2)


def fsdp_offload() -> None:
    mesh = mesh_of_all(AND_HOST)
    net = sharded(Net(), mesh=mesh, offload_policy=CPUOffloadPolicy(pin_memory=True))
    train(net, mine)
    assert {p.device.type for p in net.parameters()} == {"cpu"}
    expect_close(whole(net), alone())


def fsdp_meta() -> None:
    """Made on the meta device, and given its memory and its numbers once it is sharded."""
    mesh = mesh_of_all()
    with torch.device("meta"):
        net = Net()
    sharded(net, mesh=mesh)
    net.to_empty(device=HERE)
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(net, Net().state_dict() if RANK == 0 else {}, options=options)
    train(net, mine)
    expect_close(whole(net), alone())


def dtensors() -> None:
    mesh = mesh_of_all()
    x = torch.arange(SIZE * 6.0).view(SIZE * 2, 3)
    rows: Any = distributed(x.to(HERE), mesh, [Shard(0)])
    assert torch.equal(rows.to_local().cpu(), x.chunk(SIZE)[RANK])
    columns = rows.redistribute(mesh, [Shard(1)])
    held = columns.to_local().shape
    assert held[0] == SIZE * 2
    assert held[1] == (x.chunk(SIZE, 1)[RANK].shape[1] if len(x.chunk(SIZE, 1)) > RANK else 0)
    assert torch.equal(columns.full_tensor().cpu(), x)
    assert torch.equal((rows @ rows.t()).full_tensor().cpu(), x @ x.t())
    assert rows.sum().full_tensor().item() == x.sum().item()
    partial = DTensor.from_local(torch.ones(2, device=HERE), mesh, [Partial()])
    assert partial.redistribute(mesh, [Replicate()]).to_local().tolist() == [SIZE, SIZE]


def random_dtensors() -> None:
    """Each shard has numbers of its own, replicas have the same, and the generator goes on in step."""
    mesh = mesh_of_all()
    torch.manual_seed(3)
    shards = sharded_random(SIZE * 4, 5, device_mesh=mesh, placements=[Shard(0)]).full_tensor().cpu()
    assert len(set(shards.flatten().tolist())) == SIZE * 20
    copies = sharded_random(6, device_mesh=mesh, placements=[Replicate()]).to_local()
    drawn = torch.rand(6, device=HERE)
    for same in (copies, drawn):
        gathered = [torch.empty(6, device=HERE) for _ in range(SIZE)]
        dist.all_gather(gathered, same)
        assert all(torch.equal(other, same) for other in gathered)
    assert not torch.equal(copies, drawn)
    net = nn.Linear(8, 8, device="meta")
    fully_shard(net, mesh=mesh)
    net.to_empty(device=HERE)
    net.reset_parameters()
    weight: Any = net.weight
    assert len(set(weight.full_tensor().flatten().tolist())) == 64


def tensor_parallel() -> None:
    mesh = mesh_of_all()
    net = Net(12).to(HERE)
    plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
    for block in net.blocks:
        parallelize_module(block, mesh, plan)
    reference = Net(12)
    for here, there in ((net, HERE), (reference, torch.device("cpu"))):
        optimizer = torch.optim.AdamW(here.parameters(), 1e-2, foreach=False)  # not all of them are DTensors
        for x, y in batches(12):
            optimizer.zero_grad()
            torch.autograd.backward(nn.functional.cross_entropy(here(x.to(there)), y.to(there)))
            optimizer.step()
    expect_close(whole(net), dict(reference.state_dict()))


def sequence_parallel() -> None:
    mesh = mesh_of_all()
    block = Block(12).to(HERE)
    for parameter in block.parameters():
        dist.broadcast(parameter.detach(), 0)
    x = torch.randn(2, SIZE * 2, 12, generator=torch.Generator().manual_seed(2)).to(HERE)
    expected = block.down(nn.functional.gelu(block.up(block.norm(x))))
    parallelize_module(
        block,
        mesh,
        {
            "norm": SequenceParallel(),
            "up": ColwiseParallel(input_layouts=Shard(1)),
            "down": RowwiseParallel(output_layouts=Replicate()),
        },
    )
    piece = distributed(x, mesh, [Shard(1)])
    got = block.down(nn.functional.gelu(block.up(block.norm(piece))))
    torch.testing.assert_close(got, expected)


def two_dimensions() -> None:
    """Tensor parallel inside of pairs, and FSDP2 across them."""
    mesh_of_all()
    mesh = init_device_mesh(CHIP.name, (SIZE // 2, 2), mesh_dim_names=("data", "tensor"))
    net = Net(12).to(HERE)
    for block in net.blocks:
        parallelize_module(block, mesh["tensor"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    sharded(net, mesh=mesh["data"])
    reference = Net(12)
    row, rows = RANK // 2, SIZE // 2
    runs: list[tuple[nn.Module, Callable[[Tensor], Tensor]]] = [
        (net, lambda whole: whole.chunk(rows)[row].to(HERE)),
        (reference, lambda whole: whole),
    ]
    for here, place in runs:
        optimizer = torch.optim.AdamW(here.parameters(), 1e-2, foreach=False)  # they are on two meshes
        for x, y in batches(12):
            optimizer.zero_grad()
            torch.autograd.backward(nn.functional.cross_entropy(here(place(x)), place(y)))
            optimizer.step()
    expect_close(whole(net), dict(reference.state_dict()))


def states(net: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    return {"net": get_model_state_dict(net), "optimizer": optimizer_state(net, optimizer)}


def save() -> None:
    mesh = mesh_of_all(AND_HOST)
    net = sharded(Net().to(HERE), mesh=mesh)
    optimizer = train(net, mine)
    folder = Path(os.environ["FOLDER"])
    checkpoint.save(states(net, optimizer), checkpoint_id=folder / "now")
    checkpoint.async_save(states(net, optimizer), checkpoint_id=folder / "later").result()
    full = whole(net)
    if RANK == 0:
        torch.save(full, folder / "whole.pt")


def read() -> None:
    """Reads what other ranks, more or fewer of them, have saved, and goes on training from it."""
    mesh = mesh_of_all(AND_HOST)
    folder = Path(os.environ["FOLDER"])
    for name in ("now", "later"):
        with torch.device(HERE):
            net = sharded(Net(), mesh=mesh)
        for parameter in net.parameters():
            nn.init.zeros_(parameter)
        optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
        state = states(net, optimizer)
        checkpoint.load(state, checkpoint_id=folder / name)
        set_model_state_dict(net, state["net"])
        set_optimizer_state(net, optimizer, state["optimizer"])
        for parameter in net.parameters():
            assert parameter.device == HERE
        expect_close(whole(net), torch.load(folder / "whole.pt"), tolerance=0)
        steps = {value["step"].item() for value in optimizer.state.values()}
        assert steps == {STEPS}, steps
        step(net, optimizer, batches()[0], mine)
        expect_close(whole(net), alone(batches()[0]))


if __name__ == "__main__":
    CHIP.bridge.prepare_rank(index=RANK, local_rank=RANK, world_size=SIZE)
    CHIP.device.select(RANK)
    globals()[sys.argv[1]]()
    dist.destroy_process_group()
