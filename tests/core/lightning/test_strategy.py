from __future__ import annotations

import copy
import io
import pickle
import pickletools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from northbridge import discovery
from northbridge.errors import WrongDeviceError
from northbridge.lightning.classes import classes
from northbridge.lightning.faces import FACES, Face
from northbridge.lightning.strategy import LoadFirst, assert_on_device

Build = Callable[..., Any]
FABRICS = [face for face in FACES.values() if not face.is_trainer]


class Pinned(torch.nn.Linear):
    """A module that stays where it is."""

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        return self


@pytest.fixture(autouse=True, scope="module")
def chip() -> None:
    discovery.load("cpu_sim")


@pytest.mark.parametrize(("strategy", "devices"), [("auto", 1), ("ddp_spawn", 2)])
def test_a_spawned_rank_loads_the_chip_before_it_unpickles_anything_that_names_it(
    build: Build, strategy: str, devices: int
) -> None:
    wire = pickle.dumps(build(accelerator="cpu_sim", devices=devices, strategy=strategy).strategy)
    words = [argument for _, argument, _ in pickletools.genops(io.BytesIO(wire)) if isinstance(argument, str)]

    assert words.index("_load_first") < words.index("device")


def test_a_pickled_strategy_arrives_with_its_devices(face: Face, build: Build) -> None:
    strategy = build(accelerator="cpu_sim", devices=2, strategy="ddp_spawn").strategy

    arrived = pickle.loads(pickle.dumps(strategy))

    assert type(arrived) is type(strategy)
    assert arrived.parallel_devices == strategy.parallel_devices
    assert arrived.accelerator.name() == "cpu_sim"
    assert arrived._launcher._strategy is arrived


def test_a_strategy_that_has_no_accelerator_yet_can_be_copied(face: Face) -> None:
    strategy = classes(face).ddp(find_unused_parameters=True)

    assert copy.deepcopy(strategy)._ddp_kwargs == {"find_unused_parameters": True}


def test_what_loads_first_names_its_backend() -> None:
    arrived = pickle.loads(pickle.dumps(LoadFirst("cpu_sim")))

    assert arrived.name == "cpu_sim"


def test_the_root_device_of_a_chip_that_lets_a_process_hold_one_card_is_card_0(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    several = build(accelerator="cpu_sim", devices=[3]).strategy.root_device
    kind = type(discovery.get("cpu_sim").device)
    monkeypatch.setattr(kind, "root", lambda device, index: torch.device("cpu_sim", 0))

    one = build(accelerator="cpu_sim", devices=[3]).strategy.root_device

    assert (str(several), str(one)) == ("cpu_sim:3", "cpu_sim:0")


@pytest.mark.parametrize("face", FABRICS, indirect=True, ids=str)
def test_a_lazy_runtime_hears_of_the_end_of_every_backward_pass_and_of_every_step(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[str] = []
    backend = discovery.get("cpu_sim")

    class LazyBridge(type(backend.bridge)):  # type: ignore[misc]  # the simulated chip's, which the core cannot import
        def load(self) -> None:
            raise AssertionError("the chip is loaded already")

        def after_backward(self) -> None:
            heard.append("backward")

        def after_step(self) -> None:
            heard.append("step")

    monkeypatch.setitem(discovery._declared, "cpu_sim", replace(backend, bridge=LazyBridge()))
    fabric = build(accelerator="cpu_sim", devices=1)
    model = torch.nn.Linear(2, 1)
    model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
    for _ in range(2):
        fabric.backward(model(torch.ones(1, 2, device=fabric.device)).sum())
        optimizer.step()

    assert heard == ["backward", "step", "backward", "step"]


@pytest.mark.parametrize("face", FABRICS, indirect=True, ids=str)
def test_a_model_that_stays_on_the_cpu_is_an_error(build: Build) -> None:
    fabric = build(accelerator="cpu_sim", devices=[1])

    with pytest.raises(WrongDeviceError) as refusal:
        fabric.setup_module(torch.nn.Sequential(torch.nn.Linear(2, 2), Pinned(2, 2)))

    assert str(refusal.value) == (
        "parameter '1.weight' of Sequential is on 'cpu' after the model was moved to 'cpu_sim:1': let .to(device) move"
        " it, and do not pin it elsewhere"
    )


def test_a_buffer_on_another_device_of_the_chip_is_an_error() -> None:
    module = torch.nn.BatchNorm1d(2, device="cpu_sim:0")
    module.register_buffer("steps", torch.zeros(1, device="cpu_sim:1"))

    with pytest.raises(WrongDeviceError, match="buffer 'steps' of BatchNorm1d is on 'cpu_sim:1' after"):
        assert_on_device(module, torch.device("cpu_sim", 0))


def test_a_module_on_the_meta_device_has_no_memory_to_be_in_the_wrong_place() -> None:
    assert_on_device(torch.nn.Linear(2, 2, device="meta"), torch.device("cpu_sim", 0))
