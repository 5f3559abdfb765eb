"""The blocks of a model, compiled or sharded one by one, and the backend that compiles them or a whole model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from lightning.fabric import Fabric
from tests.core.lightning.conftest import refusal
from torch import Tensor, nn
from torch._dynamo.utils import counters

import northbridge
from northbridge import ArgumentsError, Backend, UnsupportedError, compile_blocks
from northbridge.discovery import declared
from northbridge.lightning.blocks import named_blocks, repeated_blocks
from northbridge.lightning.namespaces import NAMESPACES
from northbridge.lightning.strategies import compilation
from northbridge.lightning.strategies.compilation import choose_compiler, reject_compiler


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
    said = refusal(northbridge.ArgumentsError, northbridge.shard_blocks, nn.Linear(2, 2))

    assert said == "no block is named or repeated. Fix: fully_shard(layer)"


@pytest.fixture
def forgotten() -> Iterator[None]:
    """Nothing that another test compiled is used or counted."""
    torch.compiler.reset()
    counters.clear()
    yield
    torch.compiler.reset()
    counters.clear()


def of_compiled_blocks(test: Any) -> Any:
    """Let ``test`` compile on the chip, where nothing is compiled yet."""
    for message in (
        "ignore:.*:DeprecationWarning",  # of what torch.compile imports
        "ignore:The .grad attribute of a Tensor:UserWarning",  # torch's, while it traces
    ):
        test = pytest.mark.filterwarnings(message)(test)
    return pytest.mark.usefixtures("chip", "forgotten")(test)


class Options(northbridge.Acceleration):
    def compile_options(self) -> dict[str, Any]:
        return {"fuse": True, "split": False}


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


@of_compiled_blocks
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


@of_compiled_blocks
def test_a_model_without_repeated_blocks_is_told() -> None:
    said = refusal(ArgumentsError, compile_blocks, nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1)))

    assert said == "Sequential has no block twice in one ModuleList or Sequential. Fix: torch.compile(model)"
    inner = [nn.Sequential(Block(), Block()) for _ in range(3)]
    assert compile_blocks(nn.Sequential(*inner)) == 3  # those within blocks with the outer one


@of_compiled_blocks
@pytest.mark.parametrize("arguments", [{"backend": "inductor"}, {"mode": "reduce-overhead"}], ids=str)
def test_a_backend_that_the_chip_lacks_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedError, match="'cpu_sim' cannot compile with 'inductor'"):
        compile_blocks(Model(), **arguments)


@of_compiled_blocks
def test_an_unknown_option_is_refused(run_on: Callable[[Backend], None]) -> None:
    run_on(replace(declared.load("cpu_sim"), acceleration=Options()))

    said = refusal(UnsupportedError, compile_blocks, Model(), backend="aot_eager", options={"fuze": False})

    assert said == "'aot_eager' of 'cpu_sim' has no option 'fuze'; did you mean 'fuse'? Fix: correct options="


# --- The compiler of a whole model, and of a Fabric's


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Backend:
    """A chip held by this process, whose bridge names no backend that it lacks."""
    chip = northbridge.load("cpu_sim")
    bridge = type("OtherBridge", (type(chip.bridge),), {"missing_compile_backends": {}})()
    other = replace(chip, bridge=bridge)
    monkeypatch.setattr(compilation, "held", lambda: {other.name: other})
    return other


def test_torchs_own_is_refused_without_an_interface(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """And left to torch where it knows one."""
    known = [("cpu", object)]
    monkeypatch.setattr("torch._dynamo.device_interface.get_registered_device_interfaces", lambda: known)

    assert refusal(UnsupportedError, reject_compiler, backend, {}, capability="compile") == (
        "'cpu_sim' cannot compile with 'inductor', torch's default: torch._dynamo has no device interface for"
        " 'cpu_sim'. Fix: write torch.compile(model, backend='aot_eager')"
    )
    known.append((f"{backend.device.type}:0", object))
    reject_compiler(backend, {})


def chosen(module: torch.nn.Module, arguments: dict[str, Any]) -> Any:
    """Return the arguments with which a Fabric compiles ``module`` again."""
    return choose_compiler(NAMESPACES["lightning.fabric"], lambda _, given: given, module, arguments)


@pytest.mark.parametrize("arguments", [{}, {"dynamic": True}], ids=["nothing", "arguments for any backend"])
def test_the_chips_own_is_taken_where_none_is_named(backend: Backend, arguments: dict[str, Any]) -> None:
    module = torch.nn.Linear(1, 1, device=backend.device.type)

    assert chosen(module, arguments) == {**arguments, "backend": "aot_eager"}
    assert chosen(torch.nn.Linear(1, 1), arguments) == arguments  # what another device holds


def test_unregistered_chip_compiler_is_told_not_replaced(backend: Backend) -> None:
    backend.bridge.compile_backend = "acme_graphs"

    said = refusal(UnsupportedError, chosen, torch.nn.Linear(1, 1, device=backend.device.type), {})

    assert said.startswith("'cpu_sim' compiles with 'acme_graphs', which torch does not have; found cudagraphs, ")
    assert said.endswith(". Fix: leave torch.compile out")


def test_options_of_another_backend_are_not_the_chips(backend: Backend) -> None:
    """Nor are there any where the chip lists none."""
    reject_compiler(replace(backend, acceleration=Options()), {"backend": "eager", "options": {"anything": 1}})
    reject_compiler(backend, {"backend": "aot_eager", "options": {"anything": 1}})


@pytest.mark.parametrize("reapply", [True, False], ids=["around the strategy", "inside the strategy"])
def test_a_fabric_refuses_an_unknown_option(
    monkeypatch: pytest.MonkeyPatch, run_on: Callable[[Backend], None], reapply: bool
) -> None:
    chip = replace(northbridge.load("cpu_sim"), acceleration=Options())
    run_on(chip)
    fabric = Fabric(accelerator="cpu_sim", devices=1)
    fabric.launch()
    monkeypatch.setattr(compilation, "held", lambda: {chip.name: chip})
    model: Any = torch.compile(torch.nn.Linear(1, 1), backend="aot_eager", options={"fuss": 1})

    with pytest.raises(UnsupportedError, match=r"has no option 'fuss'; did you mean 'fuse'\?"):
        fabric.setup(model, _reapply_compile=reapply)
