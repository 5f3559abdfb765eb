from __future__ import annotations

import importlib
import json
import logging
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.core.conftest import Install
from tests.core.lightning.conftest import Build, Claims, of_fabrics, refusal

import northbridge
from northbridge.capabilities import no
from northbridge.discovery.declared import get, load
from northbridge.discovery.installed import describe
from northbridge.errors import HardwareMissingError, SoftwareMissingError, UnsupportedError, WrongDeviceError
from northbridge.lightning.accelerators import accelerator as room
from northbridge.lightning.accelerators.accelerator import assert_autograd_serves
from northbridge.lightning.namespaces import Namespace


@pytest.fixture
def accelerator_class(namespace: Namespace) -> Any:
    return importlib.import_module(namespace.home).Accelerator


def test_an_instance_is_of_the_class_of_its_backend(namespace: Namespace, accelerator_class: Any) -> None:
    made = accelerator_class("cpu_sim")

    assert type(made) is accelerator_class.of("cpu_sim")
    assert isinstance(made, accelerator_class)
    assert isinstance(made, namespace.module("accelerators").Accelerator)
    assert namespace.accelerator_registry["cpu_sim"]["accelerator"] is type(made)


def test_the_name_is_the_backends_own(accelerator_class: Any) -> None:
    assert accelerator_class("cpu_sim").name() == "cpu_sim"
    assert accelerator_class.of("acme").name() == "acme"


def test_it_is_pickled_as_its_namespace_and_its_name(namespace: Namespace, accelerator_class: Any) -> None:
    wire = pickle.dumps(accelerator_class("cpu_sim"))
    arrived = pickle.loads(wire)

    assert type(arrived) is accelerator_class.of("cpu_sim")
    assert namespace.home.encode() in wire
    assert b"cpu_sim" in wire
    assert len(wire) < 120


def test_asking_whether_a_backend_is_available_never_raises(accelerator_class: Any) -> None:
    # Lightning asks every registered accelerator on its way to an error about another one.
    assert accelerator_class.of("cpu_sim").is_available() is True
    assert accelerator_class.of("nobody_brings_this").is_available() is False


def test_a_detect_that_raises_means_unavailable(accelerator_class: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(bridge: object) -> int:
        raise OSError("the driver is gone")

    monkeypatch.setattr(type(load("cpu_sim").bridge), "detect", broken)

    assert accelerator_class.of("cpu_sim").is_available() is False


def test_statistics_that_are_denied_are_refused(accelerator_class: Any, claims: Claims) -> None:
    claims(memory_stats=no("it counts no memory"))

    with pytest.raises(UnsupportedError) as refusal:
        accelerator_class("cpu_sim").get_device_stats(0)

    assert refusal.value.capability == "memory_stats"
    assert str(refusal.value) == (
        "'cpu_sim' has no statistics of memory: it counts no memory. Fix: leave DeviceStatsMonitor out"
    )


def test_hardware_that_is_absent_is_our_error_before_lightnings(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(load("cpu_sim").bridge), "detect", lambda bridge: 0)

    said = refusal(HardwareMissingError, build, accelerator="cpu_sim")

    assert said == "accelerator='cpu_sim': no hardware. Fix: see `northbridge list`"


def test_devices_that_are_absent_are_refused(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NORTHBRIDGE_CPU_SIM_DEVICES", "2")

    with pytest.raises(ValueError, match=r"devices=3 asks for 3 devices of 'cpu_sim', but this machine has 2 \(0 to 1"):
        build(accelerator="cpu_sim", devices=3)


def test_handed_on_backend_is_not_looked_up(accelerator_class: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connector has found it: Lightning's questions neither look the name up again nor count the devices again."""
    asked = accelerator_class.of("cpu_sim")
    found = room.load_with_hardware("cpu_sim")
    for each in ("get", "load", "loaded", "detect"):
        monkeypatch.setattr(room, each, lambda *_, each=each: pytest.fail(f"{each}() was called"))

    with room.hand_on((found[0], 3)):
        assert asked.is_available()
        assert asked.parse_devices("auto") == [0, 1, 2]
        assert [str(each) for each in asked.get_parallel_devices([2])] == ["cpu_sim:2"]
        with pytest.raises(pytest.fail.Exception, match=r"loaded\(\)"):
            accelerator_class.of("acme").is_available()


def test_auto_takes_every_device_in_a_notebook_one(accelerator_class: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NORTHBRIDGE_CPU_SIM_DEVICES", "3")
    everywhere = accelerator_class.of("cpu_sim").auto_device_count()
    monkeypatch.setattr("sys.ps1", ">>> ", raising=False)
    interactive = accelerator_class.of("cpu_sim").auto_device_count()

    assert (everywhere, interactive) == (3, 1)


def test_parallel_devices_have_an_index(accelerator_class: Any) -> None:
    devices = accelerator_class.of("cpu_sim").get_parallel_devices([0, 2])

    assert [str(device) for device in devices] == ["cpu_sim:0", "cpu_sim:2"]


def test_its_statistics_are_a_fresh_dictionary_of_numbers(accelerator_class: Any) -> None:
    # DeviceStatsMonitor adds the host's numbers to what it gets.
    accelerator = accelerator_class("cpu_sim")
    device = accelerator.get_parallel_devices([0])[0]
    first = accelerator.get_device_stats(device)
    first["cpu_percent"] = 99.0

    assert "cpu_percent" not in accelerator.get_device_stats(device)
    assert accelerator.get_device_stats("cpu_sim:0") == accelerator.get_device_stats(0)
    assert all(isinstance(value, (int, float)) for value in first.values())


def test_a_device_of_another_kind_is_refused(accelerator_class: Any) -> None:
    accelerator = accelerator_class("cpu_sim")

    said = refusal(WrongDeviceError, accelerator.setup_device, torch.device("cpu"))

    assert said == (
        "accelerator='cpu_sim', but the strategy's root device is 'cpu'. Fix: leave strategy="
        " out, or give it a 'cpu_sim' device"
    )


def test_taking_a_second_device_is_refused(namespace: Namespace, accelerator_class: Any) -> None:
    accelerator = accelerator_class("cpu_sim")
    first, second = accelerator.get_parallel_devices([0, 1])
    accelerator.acquire(first, local_rank=0, world_size=1)
    accelerator.acquire(first, local_rank=0, world_size=1)
    accelerator.setup_device(first)

    said = refusal(WrongDeviceError, accelerator.acquire, second, local_rank=0, world_size=1)

    assert said == f"this {namespace.host} holds device 0 of 'cpu_sim', not 1. Fix: build another {namespace.host}"


def test_the_seed_reaches_a_chip_that_is_loaded_later(accelerator_class: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PL_GLOBAL_SEED", "1234")
    draws = []
    for index in (0, 1):
        accelerator = accelerator_class("cpu_sim")
        device = accelerator.get_parallel_devices([index])[0]
        accelerator.acquire(device, local_rank=0, world_size=1)
        draws.append(torch.rand(4, device=device).cpu())

    assert torch.equal(*draws)


BUILT: tuple[dict[str, Any], ...] = (
    {"devices": 1},
    {"devices": 1, "precision": "16-mixed"},
    {"devices": 1, "strategy": "ddp"},
    {"devices": "auto"},
    {"devices": 2, "strategy": "ddp"},
    {"devices": 2, "strategy": "ddp_spawn"},
    {"devices": 2, "strategy": "ddp_fork"},
)


@pytest.mark.parametrize("arguments", BUILT, ids=str)
def test_a_built_host_takes_no_device(build: Build, arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    device = type(load("cpu_sim").device)
    for touch in ("select", "seed"):
        monkeypatch.setattr(device, touch, lambda *_, touch=touch: pytest.fail(f"{touch}() was called"))
    monkeypatch.setenv("PL_GLOBAL_SEED", "7")

    host = build(accelerator="cpu_sim", **arguments)

    assert host.strategy.accelerator._acquired is None


def make_on(fabric: Any) -> None:
    with fabric.init_module():
        torch.nn.Linear(1, 1)


USES: dict[str, Callable[[Any], Any]] = {
    "device": lambda fabric: fabric.device,
    "launch": lambda fabric: fabric.launch(),
    "setup": lambda fabric: fabric.setup(torch.nn.Linear(1, 1)),
    "setup where it stands": lambda fabric: fabric.setup(torch.nn.Linear(1, 1), move_to_device=False),
    "setup_dataloaders": lambda fabric: fabric.setup_dataloaders(
        torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(2)))
    ),
    "to_device": lambda fabric: fabric.to_device(torch.ones(1)),
    "init_module": make_on,
}


@of_fabrics
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_fabric_takes_its_device_where_it_is_used(build: Build, use: Callable[[Any], Any]) -> None:
    """On one device it need not be launched."""
    fabric = build(accelerator="cpu_sim", devices=[1])

    use(fabric)

    assert fabric.accelerator._acquired == 1


@pytest.mark.parametrize("text", ["abc", "-1", "4294967296", ""])
def test_a_wrong_seed_is_not_used(accelerator_class: Any, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """As on the CPU, where a run on one device never reads the variable."""
    monkeypatch.setenv("PL_GLOBAL_SEED", text)
    monkeypatch.setattr(type(get("cpu_sim").device), "seed", lambda self, seed: pytest.fail(f"seeded with {seed}"))

    accelerator_class("cpu_sim").seed()


def test_a_simulated_chip_is_announced_once(caplog: pytest.LogCaptureFixture) -> None:
    room.announced.clear()
    backend = load("cpu_sim")

    with caplog.at_level(logging.WARNING, "northbridge"):
        room.announce_simulation(backend)
        room.announce_simulation(backend)

    assert [each.getMessage() for each in caplog.records] == [
        (
            "cpu_sim is a simulated chip: it uses the host's memory and CPU. Numbers are the CPU's; its speed says"
            " nothing about a real chip."
        )
    ]


def test_a_missing_package_is_told_from_a_missing_chip(monkeypatch: pytest.MonkeyPatch) -> None:
    bridge = get("cpu_sim").bridge
    monkeypatch.setattr(type(bridge), "detect", lambda self: 0)

    with pytest.raises(HardwareMissingError, match="no hardware"):
        room.load_with_hardware("cpu_sim")

    monkeypatch.setattr(type(bridge), "package", "torch_hal9000.chip")
    said = refusal(SoftwareMissingError, room.load_with_hardware, "cpu_sim")

    assert said == (
        f"{describe('cpu_sim')}: its software 'torch_hal9000.chip' is not installed. Fix: install the vendor's package"
    )


def test_the_simulation_of_a_missing_chip_is_offered(install_here: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install_here("stood_in")
    bridge = type(get("stood_in").bridge)
    monkeypatch.setattr(bridge, "package", "torch_stood_in", raising=False)
    monkeypatch.setattr(bridge, "detect", lambda self: 0)

    with pytest.raises(SoftwareMissingError) as caught:
        room.load_with_hardware("stood_in")

    assert str(caught.value) == (
        f"{describe('stood_in')}: its software 'torch_stood_in' is not installed. Fix: install the vendor's package,"
        " or set NORTHBRIDGE_SIMULATE=stood_in"
    )
    assert caught.value.backend == "stood_in"


def test_missing_software_is_told_in_the_bridges_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """tests/core/diagnostics/test_doctor.py has the same sentence of `list` and the doctor."""
    bridge = type(get("cpu_sim").bridge)
    monkeypatch.setattr(bridge, "detect", lambda self: 0)
    monkeypatch.setattr(bridge, "missing", lambda self: "this torch was built without it. Fix: another", raising=False)

    said = refusal(SoftwareMissingError, room.load_with_hardware, "cpu_sim")

    assert said == f"{describe('cpu_sim')}: this torch was built without it. Fix: another"


def test_missing_software_is_told_from_no_device(install_here: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `northbridge list` tells it: a chip that torch brings has no package that could be missed."""
    install_here("load_needs_software")
    bridge = type(get("load_needs_software").bridge)
    monkeypatch.setattr(bridge, "package", None)
    monkeypatch.setattr(bridge, "detect", lambda self: 0)

    with pytest.raises(SoftwareMissingError, match="its software 'torch_load_needs_software' is not installed"):
        room.load_with_hardware("load_needs_software")


def test_software_the_child_misses_is_named_by_load(install_here: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install_here("load_needs_software")
    monkeypatch.setattr(type(get("load_needs_software").bridge), "package", None)  # as in a plugin of fifteen lines

    with pytest.raises(SoftwareMissingError) as caught:
        room.load_with_hardware("load_needs_software")

    assert "its software 'torch_load_needs_software' is not installed" in str(caught.value)


ASKED = """
import json
from types import SimpleNamespace
import torch, northbridge
from northbridge.lightning.accelerators.accelerator import assert_autograd_serves

def ask(chip, index):
    try:
        assert_autograd_serves(chip, index)
    except northbridge.SoftwareLoadError as error:
        return str(error)

def fail_on_device(*arguments):
    if not stub.failed:
        stub.failed = True
        grad(*arguments)
        raise RuntimeError("device < device_ready_queues_.size() INTERNAL ASSERT FAILED")
    return grad(*arguments)

grad = torch.autograd.grad
stub = SimpleNamespace(name="acme", device=SimpleNamespace(root=lambda index: torch.device("cpu")), failed=False)
torch.autograd.grad = fail_on_device
told = [ask(stub, 0)]
torch.autograd.grad = grad
torch.ones(1, requires_grad=True).sum().backward()
chip = northbridge.load("cpu_sim")
told.append(ask(chip, 1))
torch.autograd.set_multithreading_enabled(False)
print(json.dumps([*told, ask(chip, 1)]))
"""


def test_late_is_said_only_where_a_backward_ran_before(install: Install) -> None:
    """The first chip fails in the first backward pass of the process, the second one after another."""
    child = install("acme").python(ASKED, NORTHBRIDGE_CPU_SIM_AUTOGRAD_THREADS="1")

    unknown, late, without_threads = json.loads(child.stdout)
    assert unknown == (
        "autograd has no thread for 'cpu': 'acme' tells torch of fewer devices. Fix: report it to its vendor"
    )
    assert late == (
        "'cpu_sim' was loaded too late: a backward() ran before, and autograd serves only devices it knew then. Fix:"
        " `import northbridge; northbridge.load('cpu_sim')` at the top of the script; if it is there already, add"
        " torch.ones(1, device='cpu_sim')"
    )
    assert without_threads is None


def test_an_early_question_for_the_accelerator_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch keeps its answer: a chip with a dispatch key of its own does not count as an accelerator afterwards."""

    def fail(*_: object) -> None:
        raise RuntimeError("Cannot access accelerator device when none is available.")

    chip = northbridge.load("cpu_sim")
    monkeypatch.setattr(torch.autograd, "grad", fail)

    said = refusal(northbridge.SoftwareLoadError, assert_autograd_serves, chip, 0)

    assert said == (
        "torch was asked for its accelerator before 'cpu_sim' was loaded, and keeps its answer. Fix: `import"
        " northbridge; northbridge.load('cpu_sim')` at the top of the script"
    )


def test_a_chip_that_autograd_knows_passes() -> None:
    assert_autograd_serves(northbridge.load("cpu_sim"), 1)


def test_probe_does_not_count_as_a_users_backward(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts count and replace Tensor.backward; where they switch gradients off, the chip is asked all the same."""

    def fail(*_: object) -> None:
        raise AssertionError("Tensor.backward was called")

    chip = northbridge.load("cpu_sim")
    monkeypatch.setattr(torch.Tensor, "backward", fail)

    with torch.no_grad():
        assert_autograd_serves(chip, 1)


def test_nothing_is_asked_under_inference_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that is taken for an evaluation may have no thread of autograd's."""
    chip = northbridge.load("cpu_sim")
    monkeypatch.setattr(torch.autograd, "grad", lambda *_: pytest.fail("a gradient was asked for"))

    with torch.inference_mode():
        assert_autograd_serves(chip, 1)


def test_an_error_of_the_chips_own_is_told_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("the chip is on fire")

    chip = northbridge.load("cpu_sim")
    monkeypatch.setattr(torch.autograd, "grad", fail)

    with pytest.raises(RuntimeError, match=r"^the chip is on fire$"):
        assert_autograd_serves(chip, 0)
