"""Missing backends of ``torch.compile``, and a Fabric's default backend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from lightning.fabric import Fabric

import northbridge
from northbridge import Backend, UnsupportedError
from northbridge.lightning.strategies import compilation
from northbridge.lightning.strategies.compilation import choose_compiler, reject_compiler


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Backend:
    """A chip held by this process, whose bridge names no backend that it lacks."""
    chip = northbridge.load("cpu_sim")
    bridge = type("OtherBridge", (type(chip.bridge),), {"missing_compile_backends": {}})()
    other = replace(chip, bridge=bridge)
    monkeypatch.setattr(compilation, "held", lambda: {other.name: other})
    return other


def test_torchs_own_is_refused_without_an_interface(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch._dynamo.device_interface.get_registered_device_interfaces", lambda: [("cpu", object)])

    with pytest.raises(UnsupportedError) as refused:
        reject_compiler(backend, {})

    assert refused.value.capability == "compile"
    assert str(refused.value) == (
        "'cpu_sim' cannot compile with 'inductor', torch's default: torch._dynamo"
        " has no device interface for 'cpu_sim'. Fix: write"
        " torch.compile(model, backend='aot_eager')"
    )


def test_torchs_own_is_left_to_torch_where_it_knows_one(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    known = [("cpu", object), (f"{backend.device.type}:0", object)]
    monkeypatch.setattr("torch._dynamo.device_interface.get_registered_device_interfaces", lambda: known)

    reject_compiler(backend, {})


@pytest.mark.parametrize("arguments", [{}, {"dynamic": True}], ids=["nothing", "arguments for any backend"])
def test_the_chips_own_is_taken_where_none_is_named(backend: Backend, arguments: dict[str, Any]) -> None:
    module = torch.nn.Linear(1, 1, device=backend.device.type)

    assert choose_compiler(module, arguments) == {**arguments, "backend": "aot_eager"}


def test_unregistered_chip_compiler_is_told_not_replaced(backend: Backend) -> None:
    backend.bridge.compile_backend = "acme_graphs"

    with pytest.raises(UnsupportedError) as refused:
        choose_compiler(torch.nn.Linear(1, 1, device=backend.device.type), {})

    assert str(refused.value).startswith(
        "'cpu_sim' compiles with 'acme_graphs', which torch does not have; found cudagraphs, "
    )
    assert str(refused.value).endswith(". Fix: leave torch.compile out")


def test_what_another_device_holds_is_compiled_as_it_was(backend: Backend) -> None:
    assert choose_compiler(torch.nn.Linear(1, 1), {}) == {}


class Options(northbridge.Acceleration):
    def compile_options(self) -> dict[str, Any]:
        return {"fuse": True}


def test_options_of_another_backend_are_not_the_chips(backend: Backend) -> None:
    reject_compiler(replace(backend, acceleration=Options()), {"backend": "eager", "options": {"anything": 1}})


def test_options_are_left_alone_where_the_chip_lists_none(backend: Backend) -> None:
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
