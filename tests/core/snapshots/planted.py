"""Pairs of runs: one on the CPU, and one on the simulated chip with a planted difference.

``python planted.py NAME …`` prints the answer to each pair as JSON. Variables decide how the chip rounds.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

import northbridge
from northbridge.snapshots.records import read_run
from northbridge.snapshots.report import Answer, compare_runs

Plant = Callable[[nn.Module, Any], None]
STEPS = 3


class Recurrent(nn.Module):
    """An LSTM, and a cell that is called for each word."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.lstm = nn.LSTM(16, 24, 2, batch_first=True)
        self.cell = nn.GRUCell(24, 24)
        self.norm = nn.LayerNorm(24)
        self.head = nn.Linear(24, 50)

    def forward(self, words: Tensor) -> Tensor:
        hidden, _ = self.lstm(self.embed(words))
        state = torch.zeros_like(hidden[:, 0])
        states = []
        for each in hidden.unbind(1):
            state = self.cell(each, state)
            states.append(self.norm(state))
        scores: Tensor = self.head(torch.stack(states, 1))
        return scores.transpose(1, 2)


class Encoder(nn.Module):
    """A small language model."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(32, 50)

    def forward(self, words: Tensor) -> Tensor:
        scores: Tensor = self.head(self.encoder(self.embed(words)))
        return scores.transpose(1, 2)


class Pooled(nn.Module):
    """Attention whose output projection is not called, before a batch norm, which hides that projection's bias."""

    def __init__(self) -> None:
        super().__init__()
        self.attend = nn.MultiheadAttention(16, 2, batch_first=True)
        self.norm = nn.BatchNorm1d(16)
        self.head = nn.Linear(16, 10)

    def forward(self, pictures: Tensor) -> Tensor:
        rows = pictures.flatten(1).reshape(len(pictures), -1, 14)
        rows = torch.cat([rows, rows[..., :2]], -1)
        attended, _ = self.attend(rows, rows, rows, need_weights=False)
        scores: Tensor = self.head(self.norm(attended.mean(1)))
        return scores


class Blocks(nn.Module):
    """Blocks that return what their last module returned, and a table of the whole that is used first."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.ones(196))
        first = nn.Sequential(nn.Linear(196, 32), nn.LayerNorm(32))
        self.blocks = nn.Sequential(nn.Flatten(), first, nn.Sequential(nn.Linear(32, 32), nn.LayerNorm(32)))
        self.head = nn.Linear(32, 10)

    def forward(self, pictures: Tensor) -> Tensor:
        scores: Tensor = self.head(self.blocks(pictures * self.table.view(14, 14)))
        return scores


def convnet() -> nn.Module:
    first = nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2)
    second = nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 49, 10)
    return nn.Sequential(*first, *second)


@dataclass(frozen=True)
class Task:
    """A model, its loss, and how a batch is drawn."""

    build: Callable[[], nn.Module]
    draw: Callable[[torch.Generator], tuple[Any, ...]]
    loss: Callable[[nn.Module, Any], Tensor] = lambda model, batch: nn.functional.cross_entropy(
        model(batch[0]), batch[1]
    )


def _words(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    words, targets = torch.randint(1, 50, (2, 4, 12), generator=generator)
    return words, targets


def _pictures(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    return torch.randn(16, 1, 14, 14, generator=generator), torch.randint(10, (16,), generator=generator)


def _of_zoo(name: str) -> Task:
    """Return a model of transformers or diffusers, from its configuration."""
    from tests.zoo.models import ZOO
    from torch.utils.data import default_collate

    entry = ZOO[name]
    loss = entry.make().loss
    return Task(
        lambda: entry.make().net,
        lambda generator: (default_collate([entry.row(generator) for _ in range(2)]),),
        lambda model, batch: loss(model, batch[0]),
    )


def task(name: str) -> Task:
    known = {"rnn": Task(Recurrent, _words), "encoder": Task(Encoder, _words)}
    known |= {"conv": Task(convnet, _pictures), "pooled": Task(Pooled, _pictures), "blocks": Task(Blocks, _pictures)}
    return known[name] if name in known else _of_zoo(name)


def train(
    folder: Path,
    name: str,
    device: str,
    plant: Plant | None = None,
    *,
    adam: bool = True,
    precision: torch.dtype | None = None,
    seed: int = 0,
    other_batch: int | None = None,
    stuck_rate: bool = False,
    rate: float = 1e-3,
    factor: float = 1.0,
    forgets_to_wait: bool = False,
) -> None:
    """Train ``STEPS`` steps with snapshots."""
    doing = task(name)
    torch.manual_seed(seed)
    model = doing.build().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), rate) if adam else torch.optim.SGD(model.parameters(), 0.05, 0.9)
    if plant is not None:
        plant(model, optimizer)
    generator = torch.Generator().manual_seed(1)
    torch.manual_seed(7)
    if stuck_rate:
        keep_rate(optimizer)
    snapshots = northbridge.Snapshots(folder, model, optimizer)
    scaler = torch.amp.GradScaler(device, 1024.0, enabled=precision == torch.float16)
    for step in range(STEPS):
        drawn = doing.draw(generator)
        if step == other_batch:
            drawn = doing.draw(generator)
        optimizer.param_groups[0]["lr"] *= 1.5
        batch = tree_map(lambda each: each.to(device), drawn)
        if forgets_to_wait:
            with torch.Stream(device=device):
                batch = drawn[0].to(device, non_blocking=True), batch[1]
        with snapshots:
            snapshots.batch(batch)
            with torch.autocast(device, precision) if precision else nullcontext():
                loss = factor * doing.loss(model, batch)
            optimizer.zero_grad()
            torch.autograd.backward(scaler.scale(loss))
            scaler.step(optimizer)
            scaler.update()


def keep_rate(optimizer: torch.optim.Optimizer) -> None:
    """Let the third step have the second's rate, as a captured graph does whose settings say another."""
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    steps, before = iter(range(STEPS)), list[Tensor]()

    def take_back(*_: object) -> None:
        for parameter, old in zip(parameters, before if next(steps) > 1 else (), strict=False):
            parameter.data.lerp_(old, 1 - 1 / 1.5)

    optimizer.register_step_pre_hook(lambda *_: before.__setitem__(slice(None), [*map(torch.clone, parameters)]))
    optimizer.register_step_post_hook(take_back)


def _signs(tensor: Tensor) -> Tensor:
    places = torch.arange(tensor.numel(), dtype=torch.float32).reshape(tensor.shape)
    return torch.sign(torch.sin(places * 78.233)).to(tensor.device)


class WrongBackward(torch.autograd.Function):
    """The identity, whose gradient is wrong by one percent."""

    @staticmethod
    def forward(ctx: Any, given: Tensor) -> Tensor:  # noqa: ARG004
        return given.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:  # noqa: ARG004
        return gradients[0] * (1 + 1e-2 * _signs(gradients[0]))


def _replaced(path: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Plant:
    def plant(model: nn.Module, _optimizer: Any) -> None:
        module: Any = model.get_submodule(path)
        module.forward = make(module.forward)

    return plant


def wrong_output(path: str, call: int = 0) -> Plant:
    """Change the output of a module by one percent, from its ``call``-th call on."""
    calls = iter(range(10**6))

    def change(result: Any) -> Any:
        if next(calls) < call:
            return result
        first = result if isinstance(result, Tensor) else result[0]
        wrong = first * (1 + 1e-2 * _signs(first))
        return wrong if isinstance(result, Tensor) else (wrong, *result[1:])

    return _replaced(path, lambda rightly: lambda *args, **kwargs: change(rightly(*args, **kwargs)))


def wrong_backward(path: str) -> Plant:
    wrong: Any = WrongBackward.apply
    return _replaced(path, lambda rightly: lambda given, *rest, **named: rightly(wrong(given), *rest, **named))


def narrow(path: str, dtype: torch.dtype) -> Plant:
    """Compute one module in a narrow dtype."""
    return _replaced(path, lambda rightly: lambda given: rightly(given.to(dtype).float()).to(dtype).float())


def noise(path: str) -> Plant:
    return _replaced(path, lambda rightly: lambda given: rightly(given) + 0.1 * torch.randn_like(given[..., :1]))


def dropout(path: str) -> Plant:
    return lambda model, _: vars(model.get_submodule(path)).update(p=0.1)


def corrupted(path: str) -> Plant:
    """Let the chip return one wrong number."""

    def make(rightly: Callable[..., Any]) -> Callable[..., Any]:
        from northbridge_cpu_sim import Fault, planned_faults

        def forward(given: Tensor) -> Any:
            with planned_faults(Fault("corrupt", op="addmm", value=50)):
                return rightly(given)

        return forward

    return _replaced(path, make)


def stale(path: str) -> Plant:
    """Let a captured graph read its first input in each step."""
    inputs: list[Tensor] = []

    def make(rightly: Callable[..., Any]) -> Callable[..., Any]:
        graphed: Any = None

        def forward(given: Tensor) -> Any:
            nonlocal graphed
            graphed = graphed or northbridge.GraphedCallable(rightly)
            inputs.append(given)
            return graphed(inputs[0].detach().requires_grad_() if len(inputs) > 1 else given)

        return forward

    return _replaced(path, make)


def frozen(name: str) -> Plant:
    """Let the optimizer skip one parameter."""
    return lambda model, optimizer: (
        optimizer.register_step_post_hook(lambda *_: model.get_parameter(name).data.copy_(kept[0]))
        if (kept := [model.get_parameter(name).detach().clone()])
        else None
    )


def evaluating(path: str) -> Plant:
    def plant(model: nn.Module, _optimizer: Any) -> None:
        model.get_submodule(path).eval()

    return plant


def larger(name: str) -> Plant:
    """Begin with a weight that is larger by a fiftieth."""

    def plant(model: nn.Module, _optimizer: Any) -> None:
        model.get_parameter(name).data.mul_(1.02)

    return plant


OPERATOR, STREAM, LOSS = "an operator of the chip", "another random stream", "the loss or its targets"


@dataclass(frozen=True)
class Case:
    """A planted difference, and how it has to be told."""

    model: str
    path: str
    cause: str = OPERATOR
    plant: Plant | None = None
    step: int = 0
    group: str = "rounding"
    options: tuple[tuple[str, Any], ...] = ()


LAYER = "encoder.layers.2"
BERT = "bert.encoder.layer.1"
CASES = {
    "convolution": Case("conv", "4", plant=wrong_output("4")),
    "batch norm": Case("conv", "1", plant=wrong_output("1")),
    "backward of a convolution": Case("conv", "4", plant=wrong_backward("4")),
    "backward of a ReLU": Case("conv", "6", plant=wrong_backward("6")),
    "one wrong number": Case("conv", "8", plant=corrupted("8")),
    "layer norm": Case("encoder", f"{LAYER}.norm1", plant=wrong_output(f"{LAYER}.norm1")),
    "attention": Case("encoder", f"{LAYER}.self_attn", plant=wrong_output(f"{LAYER}.self_attn")),
    "backward of a linear layer": Case("encoder", f"{LAYER}.linear2", plant=wrong_backward(f"{LAYER}.linear2")),
    "dropout": Case("encoder", f"{LAYER}.dropout1", "dropout", dropout(f"{LAYER}.dropout1")),
    "update": Case(
        "encoder",
        f"{LAYER}.linear1.weight",
        "an operator of the optimizer's step",
        plant=frozen(f"{LAYER}.linear1.weight"),
    ),
    "other rate": Case(
        "conv",
        "0.weight",
        "the optimizer's settings, lr=0.0015 in A and lr=0.003 in B",
        options=(("rate", 2e-3),),
    ),
    "block's last module": Case("blocks", "blocks.2.1", plant=wrong_backward("blocks.2.1")),
    "module after a block": Case("blocks", "head", plant=wrong_backward("head")),
    "loss": Case("blocks", "(outside the model)", LOSS, options=(("factor", 1.01),)),
    "not a number": Case("conv", "4", plant=_replaced("4", lambda rightly: lambda given: rightly(given) / 0)),
    "training mode": Case("conv", "1", "training mode, on in A and off in B", evaluating("1")),
    "weights other than 1": Case("encoder", f"{LAYER}.norm1.weight", "other weights", larger(f"{LAYER}.norm1.weight")),
    "other weights": Case("rnn", "head.weight", "other weights", larger("head.weight")),
    "learning rate of a graph": Case(
        "encoder", "embed.weight", "a stale graph", step=2, options=(("stuck_rate", True),)
    ),
    "input of a graph": Case("encoder", "head", "a stale graph", stale("head"), step=1),
    "LSTM": Case("rnn", "lstm", plant=wrong_output("lstm")),
    "third call": Case("rnn", "cell", plant=wrong_output("cell", 2)),
    "weights": Case("rnn", "embed.weight", STREAM, options=(("seed", 2),)),
    "batch": Case("rnn", "batch[0]", "another batch", step=1, options=(("other_batch", 1),)),
    "noise": Case("rnn", "norm", STREAM, noise("norm")),
    "float16": Case(
        "bert", f"{BERT}.intermediate.dense", "another dtype", narrow(f"{BERT}.intermediate.dense", torch.float16)
    ),
    "BERT": Case("bert", f"{BERT}.attention.self", plant=wrong_output(f"{BERT}.attention.self")),
    "diffusion": Case("unet", "mid_block.resnets.1.conv2", plant=wrong_output("mid_block.resnets.1.conv2")),
    "backward of a group norm": Case(
        "unet", "up_blocks.0.resnets.0.norm1", plant=wrong_backward("up_blocks.0.resnets.0.norm1")
    ),
    "TF32": Case("encoder", "encoder.layers.0.self_attn", "TF32", group="tf32"),
    "all-reduce": Case("conv", "8.weight", "a missing synchronisation", group="ranks"),
    "copy": Case(
        "conv", "batch[0]", "a missing synchronisation", group="deferred", options=(("forgets_to_wait", True),)
    ),
}

RIGHT: dict[str, tuple[str, dict[str, Any]]] = {
    **{
        f"{name}, {way}": (name, {"adam": way == "Adam"})
        for name in ("conv", "encoder", "rnn")
        for way in ("Adam", "SGD")
    },
    "attention before a batch norm": ("pooled", {}),
    "conv, bfloat16": ("conv", {"precision": torch.bfloat16}),
    "encoder, bfloat16": ("encoder", {"precision": torch.bfloat16}),
    "encoder, float16": ("encoder", {"precision": torch.float16}),
    "bert": ("bert", {}),
    "unet": ("unet", {}),
}
"""Pairs of right runs."""


def train_ranks(folder: Path, forgets_to_reduce: bool) -> None:
    """Train on two forked ranks with DDP."""
    ranks = []
    for rank in range(2):
        process = os.fork()
        if not process:
            torch.distributed.init_process_group("gloo", init_method=f"file://{folder}-store", rank=rank, world_size=2)
            torch.manual_seed(0)
            model = nn.parallel.DistributedDataParallel(convnet())
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            generator = torch.Generator().manual_seed(rank)
            snapshots = northbridge.Snapshots(folder, model, optimizer)
            for _ in range(2):
                pictures, labels = _pictures(generator)
                with snapshots, model.no_sync() if forgets_to_reduce else nullcontext():
                    torch.autograd.backward(nn.functional.cross_entropy(model(pictures), labels))
                    optimizer.step()
                optimizer.zero_grad()
            os._exit(0)
        ranks.append(process)
    assert all(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0 for process in ranks)


def compare(name: str) -> Answer:
    with tempfile.TemporaryDirectory() as folder:
        first, second = Path(folder, "a"), Path(folder, "b")
        if name in RIGHT:
            model, options = RIGHT[name]
            train(first, model, "cpu", **options)
            train(second, model, "cpu_sim", **options)
        elif name == "all-reduce":
            train_ranks(first, False)
            train_ranks(second, True)
        else:
            case = CASES[name]
            train(first, case.model, "cpu")
            train(second, case.model, "cpu_sim", case.plant, **dict(case.options))
        return compare_runs(read_run(first), read_run(second))


if __name__ == "__main__":
    from tests.engines import FOLDER

    sys.path.append(str(FOLDER))
    if sys.argv[1:] != ["all-reduce"]:  # ranks are forked
        northbridge.load("cpu_sim")
    torch.set_num_threads(1)
    for name in sys.argv[1:]:
        print(json.dumps([name, asdict(compare(name))]), flush=True)
