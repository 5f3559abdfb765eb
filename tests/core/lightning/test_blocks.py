"""The blocks of a model, which are sharded one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

import northbridge
from northbridge import ArgumentsError, Backend, UnsupportedError, compile_blocks
from northbridge.discovery import named
from northbridge.lightning.blocks import named_blocks, repeated_blocks


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)


class Encoder(Decoder):
    pass


class Transformer(nn.Module):
    """Lists the classes of its blocks, as models of transformers do; the list of an inner model counts too."""

    def __init__(self, names: object) -> None:
        super().__init__()
        self._no_split_modules = names
        self.embedding = nn.Embedding(2, 2)
        self.body = nn.ModuleList([Decoder(), nn.Sequential(Encoder()), Decoder()])


@pytest.mark.parametrize(
    ("names", "found"),
    [(["Decoder"], "Decoder Decoder"), ({"Decoder", "Encoder"}, "Decoder Encoder Decoder"), (None, ""), ([], "")],
)
def test_a_models_own_list_names_its_blocks(names: object, found: str) -> None:
    model = nn.Sequential(Transformer(names))

    assert " ".join(type(each).__name__ for each in named_blocks(model)) == found
    assert len(repeated_blocks(model)) == 2  # without the list, those of one class


def test_a_block_inside_of_a_block_is_left_to_it() -> None:
    outer = Decoder()
    outer.inner = Decoder()

    assert named_blocks(nn.Sequential(Transformer(["Decoder"]), outer))[-1] is outer


def test_a_model_without_blocks_is_refused() -> None:
    with pytest.raises(northbridge.ArgumentsError) as refusal:
        northbridge.shard_blocks(nn.Linear(2, 2))

    assert str(refusal.value) == "no block is named or repeated. Fix: fully_shard(layer)"


of_compiled_blocks = [
    pytest.mark.usefixtures("chip"),
    pytest.mark.filterwarnings("ignore:.*:DeprecationWarning"),  # of what torch.compile imports
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),  # torch's, while it traces
]


@pytest.fixture
def forgotten() -> Iterator[None]:
    """Nothing that another test compiled is used or counted."""
    torch.compiler.reset()
    counters.clear()
    yield
    torch.compiler.reset()
    counters.clear()


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4)
        self.layer = nn.Linear(4, 4)

    def forward(self, given: Tensor) -> Tensor:
        return given + self.layer(self.norm(given)).relu()  # type: ignore[no-any-return]


class Model(nn.Module):
    def __init__(self, container: Callable[[list[nn.Module]], nn.Module] = nn.ModuleList, depth: int = 5) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(4, 4)
        self.blocks = container([Block() for _ in range(depth)])
        self.last = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))  # repeated, and no blocks

    def forward(self, given: Tensor) -> Tensor:
        given = self.first(given)
        for each in self.blocks.children():
            given = each(given)
        return self.last(given)  # type: ignore[no-any-return]


def gradients(model: nn.Module) -> list[Tensor | None]:
    model.zero_grad()
    torch.autograd.backward(model(torch.ones(3, 4, device="cpu_sim")).sum())
    return [each.grad for each in model.parameters()]


@pytest.mark.usefixtures("forgotten")
@of_compiled_blocks[0]
@of_compiled_blocks[1]
@of_compiled_blocks[2]
@pytest.mark.parametrize("container", [nn.ModuleList, lambda blocks: nn.Sequential(*blocks)], ids=["list", "sequence"])
def test_equal_blocks_are_one_graph(container: Any) -> None:
    model = Model(container).to("cpu_sim")
    names, plain = list(model.state_dict()), gradients(model)

    number = compile_blocks(model)
    compiled = gradients(model)

    assert number == 5
    assert counters["stats"]["unique_graphs"] == 1
    assert all(torch.equal(a, b) for a, b in zip(plain, compiled, strict=True) if a is not None and b is not None)
    assert list(model.state_dict()) == names


@pytest.mark.usefixtures("forgotten")
@of_compiled_blocks[0]
@of_compiled_blocks[1]
@of_compiled_blocks[2]
def test_a_deeper_model_compiles_no_more() -> None:
    for depth in (2, 12):
        model = Model(depth=depth).to("cpu_sim")
        compile_blocks(model)
        gradients(model)

    assert counters["stats"]["unique_graphs"] == 1  # the second model's blocks are the first's too


@pytest.mark.usefixtures("forgotten")
@of_compiled_blocks[0]
@of_compiled_blocks[1]
@of_compiled_blocks[2]
def test_a_model_without_repeated_blocks_is_told() -> None:
    with pytest.raises(ArgumentsError) as refused:
        compile_blocks(nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1)))

    assert str(refused.value) == (
        "Sequential has no block twice in one ModuleList or Sequential. Fix: torch.compile(model)"
    )


@pytest.mark.usefixtures("forgotten")
@of_compiled_blocks[0]
@of_compiled_blocks[1]
@of_compiled_blocks[2]
def test_blocks_within_blocks_are_compiled_with_the_outer_one() -> None:
    inner = [nn.Sequential(Block(), Block()) for _ in range(3)]

    assert compile_blocks(nn.Sequential(*inner)) == 3


@pytest.mark.usefixtures("forgotten")
@of_compiled_blocks[0]
@of_compiled_blocks[1]
@of_compiled_blocks[2]
@pytest.mark.parametrize("arguments", [{"backend": "inductor"}, {"mode": "reduce-overhead"}], ids=str)
def test_a_backend_that_the_chip_lacks_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedError, match="'cpu_sim' cannot compile with 'inductor'"):
        compile_blocks(Model(), **arguments)


@pytest.mark.usefixtures("forgotten")
@of_compiled_blocks[0]
@of_compiled_blocks[1]
@of_compiled_blocks[2]
def test_an_unknown_option_is_refused(run_on: Callable[[Backend], None]) -> None:
    class Options(northbridge.Acceleration):
        def compile_options(self) -> dict[str, Any]:
            return {"fuse": True, "split": False}

    run_on(replace(named.load("cpu_sim"), acceleration=Options()))

    with pytest.raises(UnsupportedError) as refused:
        compile_blocks(Model(), backend="aot_eager", options={"fuze": False})

    assert str(refused.value) == (
        "'aot_eager' of 'cpu_sim' has no option 'fuze'; did you mean 'fuse'? Fix: correct options="
    )
