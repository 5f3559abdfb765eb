from __future__ import annotations

import importlib
import json
import pickle
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from lightning.pytorch import Trainer
from tests.core.conftest import Install
from tests.core.lightning.conftest import Build, Claims, of_fabrics, refusal

import northbridge
from northbridge.capabilities import no
from northbridge.discovery.declared import get, load
from northbridge.discovery.installed import describe
from northbridge.errors import (
    DevicesError,
    HardwareMissingError,
    SoftwareMissingError,
    UnsupportedError,
    WrongDeviceError,
)
from northbridge.lightning.accelerators import accelerator as room
from northbridge.lightning.accelerators.accelerator import assert_autograd_serves
from northbridge.lightning.accelerators.device_indices import parse_devices
from northbridge.lightning.namespaces import Namespace


@pytest.fixture
def accelerator_class(namespace: Namespace) -> Any:
    return importlib.import_module(namespace.home).Accelerator


def test_an_instance_is_of_the_class_of_its_backend(namespace: Namespace, accelerator_class: Any) -> None:
    made = accelerator_class("cpu_sim")

    assert type(made) is accelerator_class.of("cpu_sim")
    assert (made.name(), accelerator_class.of("acme").name()) == ("cpu_sim", "acme")
    assert isinstance(made, accelerator_class)
    assert isinstance(made, namespace.module("accelerators").Accelerator)
    assert namespace.accelerator_registry["cpu_sim"]["accelerator"] is type(made)


def test_it_is_pickled_as_its_namespace_and_its_name(namespace: Namespace, accelerator_class: Any) -> None:
    wire = pickle.dumps(accelerator_class("cpu_sim"))
    arrived = pickle.loads(wire)

    assert type(arrived) is accelerator_class.of("cpu_sim")
    assert namespace.home.encode() in wire
    assert b"cpu_sim" in wire
    assert len(wire) < 120


def test_asking_whether_a_backend_is_available_never_raises(
    accelerator_class: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lightning asks every registered accelerator on its way to an error about another one."""

    def broken(bridge: object) -> int:
        raise OSError("the driver is gone")

    assert accelerator_class.of("cpu_sim").is_available() is True
    assert accelerator_class.of("nobody_brings_this").is_available() is False
    monkeypatch.setattr(type(load("cpu_sim").bridge), "detect", broken)
    assert accelerator_class.of("cpu_sim").is_available() is False


def test_statistics_that_are_denied_are_refused(accelerator_class: Any, claims: Claims) -> None:
    claims(memory_stats=no("it counts no memory"))

    said = refusal(UnsupportedError, accelerator_class("cpu_sim").get_device_stats, 0, capability="memory_stats")

    assert said == "'cpu_sim' has no statistics of memory: it counts no memory. Fix: leave DeviceStatsMonitor out"


def test_hardware_that_is_absent_is_our_error_before_lightnings(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(load("cpu_sim").bridge), "detect", lambda bridge: 0)

    said = refusal(HardwareMissingError, build, accelerator="cpu_sim")

    assert said == "accelerator='cpu_sim': no hardware. Fix: see `northbridge list`"


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


def test_its_statistics_are_a_fresh_dictionary_of_numbers(accelerator_class: Any) -> None:
    """DeviceStatsMonitor adds the host's numbers to what it gets."""
    accelerator = accelerator_class("cpu_sim")
    first = accelerator.get_device_stats(torch.device("cpu_sim", 0))
    first["cpu_percent"] = 99.0

    assert "cpu_percent" not in accelerator.get_device_stats("cpu_sim:0")
    assert accelerator.get_device_stats("cpu_sim:0") == accelerator.get_device_stats(0)
    assert all(isinstance(value, (int, float)) for value in first.values())


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
    {"devices": 1, "precision": "16-mixed"},
    {"devices": 2, "strategy": "ddp"},
    {"devices": 2, "strategy": "ddp_spawn"},
)


@pytest.mark.parametrize("arguments", BUILT, ids=str)
def test_a_built_host_takes_no_device(build: Build, arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    device = type(load("cpu_sim").device)
    for touch in ("select", "seed"):
        monkeypatch.setattr(device, touch, lambda *_, touch=touch: pytest.fail(f"{touch}() was called"))
    monkeypatch.setenv("PL_GLOBAL_SEED", "7")

    host = build(accelerator="cpu_sim", **arguments)

    assert host.strategy.accelerator._acquired is None


def init_module(fabric: Any) -> None:
    with fabric.init_module():
        """Leave it again: else torch makes the tensors of later tests on the chip."""


USES: dict[str, Callable[[Any], Any]] = {
    "device": lambda fabric: fabric.device,
    "launch": lambda fabric: fabric.launch(),
    "setup": lambda fabric: fabric.setup(torch.nn.Linear(1, 1)),
    "setup where it stands": lambda fabric: fabric.setup(torch.nn.Linear(1, 1), move_to_device=False),
    "setup_dataloaders": lambda fabric: fabric.setup_dataloaders(
        torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(2)))
    ),
    "to_device": lambda fabric: fabric.to_device(torch.ones(1)),
    "init_module": init_module,
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


def test_a_missing_package_is_told_from_a_missing_chip(monkeypatch: pytest.MonkeyPatch) -> None:
    bridge = get("cpu_sim").bridge
    monkeypatch.setattr(type(bridge), "detect", lambda self: 0)
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

    assert refusal(SoftwareMissingError, room.load_with_hardware, "stood_in") == (
        f"{describe('stood_in')}: its software 'torch_stood_in' is not installed. Fix: install the vendor's package,"
        " or set NORTHBRIDGE_SIMULATE=stood_in"
    )


def test_missing_software_is_told_from_no_device(install_here: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `northbridge list` tells it: a chip that torch brings has no package that could be missed."""
    install_here("load_needs_software")
    bridge = type(get("load_needs_software").bridge)
    monkeypatch.setattr(bridge, "package", None)
    monkeypatch.setattr(bridge, "detect", lambda self: 0)

    with pytest.raises(SoftwareMissingError, match="its software 'torch_load_needs_software' is not installed"):
        room.load_with_hardware("load_needs_software")


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


@pytest.mark.parametrize(
    ("raised", "kind", "said"),
    [
        (
            "Cannot access accelerator device when none is available.",
            northbridge.SoftwareLoadError,
            (
                "torch was asked for its accelerator before 'cpu_sim' was loaded, and keeps its answer. Fix: `import"
                " northbridge; northbridge.load('cpu_sim')` at the top of the script"
            ),
        ),
        ("the chip is on fire", RuntimeError, "the chip is on fire"),
    ],
    ids=["an early question", "the chip's own"],
)
def test_error_of_the_probe_is_named(
    raised: str, kind: type[Exception], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch keeps its answer: a chip with a dispatch key of its own does not count as an accelerator afterwards."""
    chip = northbridge.load("cpu_sim")
    monkeypatch.setattr(torch.autograd, "grad", Mock(side_effect=RuntimeError(raised)))

    assert refusal(kind, assert_autograd_serves, chip, 0) == said


def test_probe_asks_where_scripts_switch_gradients_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """And where they replace Tensor.backward, to count its calls."""
    monkeypatch.setattr(torch.Tensor, "backward", lambda _: pytest.fail("Tensor.backward was called"))

    with torch.no_grad():
        assert_autograd_serves(northbridge.load("cpu_sim"), 1)


def test_nothing_is_asked_under_inference_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that is taken for an evaluation may have no thread of autograd's."""
    chip = northbridge.load("cpu_sim")
    monkeypatch.setattr(torch.autograd, "grad", lambda *_: pytest.fail("a gradient was asked for"))

    with torch.inference_mode():
        assert_autograd_serves(chip, 1)


# --- devices=


@pytest.mark.parametrize(
    ("devices", "indices"),
    [
        (2, [0, 1]),
        (" 2 ", [0, 1]),
        (-1, [0, 1, 2]),
        ("-1", [0, 1, 2]),
        ("auto", [0, 1, 2]),
        ([2, 0], [2, 0]),
        ((0, 1), [0, 1]),
        ("1,", [1]),
        (" 0 , 2 ", [0, 2]),
    ],
)
def test_devices_are_read_as_by_lightning(devices: object, indices: list[int]) -> None:
    assert parse_devices(devices, count=3, name="acme") == indices


@pytest.mark.parametrize(
    ("devices", "count", "message"),
    [
        (4, 3, "devices=4 asks for 4 devices of 'acme', but this machine has 3 (0 to 2). Fix: ask for fewer"),
        ("2", 1, "devices='2' asks for 2 devices of 'acme', but this machine has 1 (index 0). Fix: ask for fewer"),
        ([0, 1, 0, 1, 2], 3, "devices=[0, 1, 0, 1, 2] repeats device 0, 1 of 'acme'"),
        ([0, 3], 3, "devices=[0, 3] names device 3 of 'acme', but this machine has 3 (0 to 2)"),
        ([-1], 3, "devices=[-1] names device -1 of 'acme', but this machine has 3 (0 to 2)"),
    ],
)
def test_devices_that_are_not_there_are_refused(devices: object, count: int, message: str) -> None:
    assert refusal(DevicesError, parse_devices, devices, count=count, name="acme") == message


def test_devices_are_told_in_a_short_message() -> None:
    said = refusal(DevicesError, parse_devices, [*range(100_000), *range(50_000)], count=8, name="acme")

    assert said.startswith("devices=[0, 1, 2, ")
    assert len(said) < 500


@pytest.mark.parametrize("devices", [10**5000, [10**5000], [10**5000] * 2], ids=["number", "index", "twice"])
def test_devices_that_python_does_not_write(devices: int | list[int]) -> None:
    with pytest.raises(DevicesError, match=r"^devices=… (asks for|names device|repeats device) …"):
        parse_devices(devices, count=8, name="acme")


@pytest.mark.parametrize("devices", [10**9, "1000000000", "1" * 5000])
def test_devices_beyond_any_number_of_processes(devices: int | str) -> None:
    """Lightning's CPU accelerator would make a device for each of them."""
    said = refusal(DevicesError, Trainer, accelerator="cpu", devices=devices)

    assert said.endswith(": each CPU device is a process, and a machine has at most 4194304. Fix: ask for fewer")
    assert said.startswith("devices=")
    assert len(said) < 400


@pytest.mark.parametrize(
    ("kind", "devices"),
    [
        *[(ValueError, each) for each in (0, "-3", list[int](), "", ",", "two")],
        *[(TypeError, each) for each in (True, None, 1.0, {0, 1}, [0, "1"], [True])],
    ],
)
def test_devices_that_are_nonsense_are_refused(kind: type[Exception], devices: object) -> None:
    said = refusal(kind, parse_devices, devices, count=3, name="acme")

    assert said == (
        f"devices={devices!r} is not a choice of devices of 'acme'. Fix: a number of devices (2), their indices"
        " ([0, 1] or '0,1'), or 'auto' or -1 for all"
    )
