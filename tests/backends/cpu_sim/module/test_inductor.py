"""torch.compile on the chip: which of its backends run there, and how the one that cannot is refused."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import northbridge

pytestmark = pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")  # of what torch.compile imports


@pytest.fixture(autouse=True)
def forgotten(chip: ModuleType) -> Iterator[None]:
    """Nothing that another test compiled is used."""
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 1))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_compiled_model_trains_as_the_plain_one(backend: str) -> None:
    trained = []
    for compiled in (False, True):
        module = net().to("cpu_sim:1")
        step = torch.compile(module, backend=backend) if compiled else module
        optimizer = torch.optim.SGD(module.parameters(), 0.1)
        for rows in (3, 5, 8):  # the second makes the number of rows a symbol
            optimizer.zero_grad()
            torch.autograd.backward(step(torch.ones(rows, 4, device="cpu_sim:1")).square().mean())
            optimizer.step()
        trained.append([parameter.detach() for parameter in module.parameters()])

    assert all(torch.equal(plain, other) for plain, other in zip(*trained, strict=True))


def test_a_graph_break_keeps_the_device_and_the_numbers() -> None:
    seen: list[float] = []

    def broken(x: Tensor) -> Tensor:
        doubled = x * 2
        seen.append(doubled.sum().item())
        return doubled.sin()

    x = torch.arange(4.0, device="cpu_sim:2")
    result = torch.compile(broken, backend="aot_eager")(x)

    assert seen == [12.0]
    assert result.device == x.device
    assert torch.equal(result, (x * 2).sin())


def test_a_compiled_function_is_traced_anew_for_another_device() -> None:
    def by_device(x: Tensor) -> Tensor:
        return x + (x.device.index if x.device.type == "cpu_sim" else 100)

    compiled = torch.compile(by_device, backend="aot_eager")

    assert [compiled(torch.zeros(1, device=device)).item() for device in ("cpu_sim:3", "cpu_sim:1", "cpu")] == [
        3,
        1,
        100,
    ]


def test_streams_and_autocast_can_be_traced(chip: ModuleType) -> None:
    def on_a_stream(x: Tensor) -> Tensor:
        stream = torch.Stream(device=x.device)
        with stream, torch.autocast("cpu_sim", dtype=torch.bfloat16):
            product = x @ x
        torch.accelerator.current_stream().wait_stream(stream)
        return product

    result = torch.compile(on_a_stream, backend="aot_eager")(torch.ones(4, 4, device="cpu_sim"))

    assert result.dtype == torch.bfloat16
    assert set(result.flatten().tolist()) == {4.0}


@pytest.mark.parametrize("options", [{}, {"backend": "inductor"}, {"mode": "reduce-overhead"}], ids=str)
def test_inductor_is_refused_with_what_to_write_instead(options: dict[str, Any]) -> None:
    compiled: Callable[[Tensor], Tensor] = torch.compile(lambda x: x.sin() + 1, **options)

    with pytest.raises(northbridge.UnsupportedError) as caught:
        compiled(torch.ones(3, device="cpu_sim"))

    assert str(caught.value).startswith(
        "inductor generates no code for cpu_sim. Fix: torch.compile(…, backend='aot_eager')"
    )
    assert caught.value.capability == "inductor"
    assert not any("convert_frame" in str(entry.path) for entry in caught.traceback)
    clone = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(clone, northbridge.UnsupportedError)
    assert str(clone) == str(caught.value)


def test_a_model_that_inductor_refused_still_runs_without_it() -> None:
    module = net().to("cpu_sim")
    x = torch.ones(2, 4, device="cpu_sim")

    with pytest.raises(northbridge.UnsupportedError):
        torch.compile(module)(x)

    assert torch.equal(torch.compile(module, backend="aot_eager")(x), module(x))


def test_loading_the_chip_imports_no_compiler(in_fresh_process: Callable[..., str]) -> None:
    said = in_fresh_process(
        "import northbridge; northbridge.load('cpu_sim'); import sys, torch; print('torch._dynamo' in sys.modules)"
    )

    assert said == "False\n"
