"""Loading a vendor's software: what can go wrong, and what torch knows afterwards."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from bench.plugin import announce
from tests.core.conftest import Install, PlainBridge, PlainCollective, make_backend

import northbridge
from northbridge.discovery import current, loaded
from northbridge.discovery.installed import names
from northbridge.processes.endings import describe_error

FAILED = "its software failed to load:"
MATCH = "Fix: match it to this torch and driver"
BROKEN: dict[str, tuple[str, str]] = {
    "load_needs_software": (
        "SoftwareMissingError",
        "its software 'torch_load_needs_software' is not installed. Fix: install the vendor's package",
    ),
    "load_raises": (
        "SoftwareLoadError",
        f"{FAILED} OSError: libacme.so.3: undefined symbol: _ZN2at4meltE. {MATCH}",
    ),
    "load_exits": ("SoftwareLoadError", f"{FAILED} SystemExit: no licence for this machine. {MATCH}"),
    "load_registers_nothing": (
        "SoftwareLoadError",
        "torch has no device 'load_registers_nothing' after Bridge.load(): ",
    ),
}

# One process tries each of the broken ones, then loads acme, and then asks for another.
PROCESS = f"""
import json, pickle, sys
import northbridge

told = {{}}
for name in {list(BROKEN)}:
    try:
        northbridge.load(name)
    except northbridge.NorthbridgeError as error:
        told[name] = type(error).__name__, str(error), error.backend

early = "torch_acme" in sys.modules
import torch
torch.manual_seed(5)
backend = northbridge.load("acme")
device = backend.device
device.select(1)
try:
    torch.ones(1, device="acme")
except NotImplementedError as error:
    kernels = str(error)
try:
    northbridge.load("cpu_sim")
except northbridge.DeviceTypeTakenError as error:
    taken = str(error)

print(json.dumps({{
    "told": told,
    "early": early,
    "seeds": torch.acme.seeds,
    "again": northbridge.load("acme") is backend,
    "pickled": pickle.loads(pickle.dumps(backend)) is backend,
    "device": str(torch.device("acme", 1)),
    "module": device.module is torch.acme,
    "count": device.count(),
    "root": str(device.root(1)),
    "selected": torch.acme.current_device(),
    "label": device.label(0),
    "autocast": [str(each) for each in device.autocast_dtypes()],
    "collective": torch.distributed.Backend.default_device_backend_map["acme"],
    "kernels": kernels,
    "keeps": torch._C._dispatch_has_kernel_for_dispatch_key("aten::_has_compatible_shallow_copy_type", "PrivateUse1"),
    "taken": taken,
    "record": [each.as_dict() for each in northbridge.record()],
}}))
"""


@pytest.fixture(scope="module")
def process(install: Install) -> Any:
    """Return the findings of the process above."""
    return install(*BROKEN, "acme").answer(PROCESS, "-W", "error")


@pytest.mark.parametrize("name", BROKEN)
def test_broken_software_is_refused_with_its_origin_and_the_cure(name: str, process: Any) -> None:
    kind, message, backend = process["told"][name]

    assert (kind, backend) == (BROKEN[name][0], name)
    assert message.startswith(f"backend {name!r} (northbridge-{name.replace('_', '-')} 1.2.3): {BROKEN[name][1]}")
    if name == "load_registers_nothing":  # with torch's reason
        assert "device type" in message
        assert message.endswith(". Fix: import the torch plugin there")


KNOWN = {
    "early": False,  # a broken one before it has imported nothing of its vendor's
    "device": "acme:1",
    "module": True,
    "count": 2,
    "root": "acme:1",
    "selected": 1,
    "label": "Acme Anvil 0 (a stand-in)",
    "autocast": ["torch.bfloat16"],
    "collective": "accl",
    "keeps": False,  # without kernels for views, a parameter cannot keep a tensor's memory
    "again": True,
    "seeds": [5],  # torch's, once
    "pickled": True,
    "record": [{"subject": "acme", "outcome": "loaded", "reason": "torch.device('acme') is real in this process"}],
    "taken": "cannot load 'cpu_sim': torch already runs on 'acme' in this process. Fix: use another process",
}


def test_torch_knows_a_loaded_chip(process: Any) -> None:
    """A stand-in without kernels does not compute in secret."""
    assert {name: process[name] for name in KNOWN} == KNOWN
    assert "acme" in process["kernels"]


def make(call: Callable[[str], None] = lambda step: None, *, simulated: bool = False) -> northbridge.Backend:
    """Return a backend each of whose steps calls ``call`` with its name."""
    collective, bridge = PlainCollective(), PlainBridge()
    for part, steps in ((collective, ("register",)), (bridge, ("check_environment", "prepare", "load"))):
        for step in steps:
            setattr(part, step, partial(call, step))
    claims = northbridge.Capabilities(simulated=simulated)
    return make_backend(collective=collective, bridge=bridge, capabilities=claims)


@pytest.fixture
def fresh_torch(nothing_known: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let torch's spare device type bear no name, and no vendor's software be loaded."""
    monkeypatch.setattr(current, "_up", [])
    for name in names():
        monkeypatch.delitem(sys.modules, f"torch.{name}", raising=False)
    monkeypatch.setattr(torch._C, "_get_privateuse1_backend_name", lambda: "privateuseone")
    monkeypatch.setattr(loaded, "_first_failures", {})


def _register_module(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Do what torch does where a vendor registers the module of a device with a name of its own in torch."""
    module = ModuleType(f"torch_{name}.device")
    monkeypatch.setattr(torch, name, module, raising=False)
    monkeypatch.setitem(sys.modules, f"torch.{name}", module)


def _give_cuda(monkeypatch: pytest.MonkeyPatch, cuda: str | None = None, hip: str | None = None) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.version, "hip", hip)


IN_TORCH: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str]] = {
    "a device": (
        lambda patch: patch.setattr(torch._C, "_get_privateuse1_backend_name", lambda: "hal9000"),
        (
            "cannot load 'tested': torch already runs on 'hal9000' in this process. Fix: use another process;"
            " if torch loads it by itself, set TORCH_DEVICE_BACKEND_AUTOLOAD=0"
        ),
    ),
    "another vendor's software": (
        lambda patch: _register_module("acme", patch),
        "cannot load 'tested': this process has imported the software of 'acme'. Fix: use another process",
    ),
    "a chip that passes for cuda": (
        lambda patch: _give_cuda(patch),
        (
            "backend 'tested': torch.cuda works without CUDA: a migration shim is active. Fix: remove its import or"
            " variable"
        ),
    ),
}


@pytest.mark.usefixtures("fresh_torch")
class TestBringUp:
    def test_it_checks_prepares_loads_and_registers_once(self) -> None:
        calls: list[str] = []
        backend = make(calls.append)

        loaded.load(backend)
        loaded.load(backend)

        assert calls == ["check_environment", "prepare", "load", "register"]
        assert current.loaded() is backend

    @pytest.mark.parametrize("step", ["check_environment", "prepare", "load", "register"])
    def test_failing_step_is_reported_and_nothing_is_loaded(self, step: str) -> None:
        def call(at: str) -> None:
            if at == step:
                raise OSError(f"no card\nin {at}")

        said = f"backend 'tested': its software failed to load: OSError: no card in {step}. Fix: match it to this torch"
        with pytest.raises(northbridge.SoftwareLoadError, match=rf"^{re.escape(said)} and driver$"):
            loaded.load(make(call))
        assert current.loaded() is None

    def test_a_launchers_variable_is_blamed_before_the_software(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("WORLD_SIZE", "abc")

        def call(at: str) -> None:
            int(os.environ["WORLD_SIZE"])  # as vendors' imports do

        with pytest.raises(northbridge.ClusterError, match=r"WORLD_SIZE='abc' on .*: it is not a number. Fix: unset"):
            loaded.load(make(call))

    @pytest.mark.parametrize(
        "error", [KeyboardInterrupt(), northbridge.HardwareMissingError("plug it in", backend="tested")], ids=repr
    )
    def test_ctrl_c_and_an_error_of_ours_pass_as_they_are(self, error: BaseException) -> None:
        with pytest.raises(type(error)) as caught:
            loaded.load(make(Mock(side_effect=error)))

        assert caught.value is error

    @pytest.mark.parametrize("first", [KeyboardInterrupt(), OSError("libtested.so is not there")], ids=repr)
    def test_a_second_try_names_the_first_cause(self, first: BaseException) -> None:
        failures = [first, AttributeError("half an import"), AttributeError("half an import")]

        def call(step: str) -> None:
            if step == "load":
                raise failures.pop(0)

        with pytest.raises(BaseException):  # noqa: B017, PT011 - the tests above read it
            loaded.load(make(call))
        for _ in range(2):
            with pytest.raises(northbridge.SoftwareLoadError) as caught:
                loaded.load(make(call))
            assert str(caught.value) == (
                "backend 'tested': its software failed to load again: AttributeError: half an import; the first time:"
                f" {describe_error(first)}. Fix: use another process"
            )
        loaded.load(make())
        assert "tested" not in loaded._first_failures  # one that works forgets it

    @pytest.mark.parametrize(("arrange", "told"), IN_TORCH.values(), ids=IN_TORCH)
    def test_what_is_in_torch_already_is_named(
        self, arrange: Any, told: str, install_here: Install, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        install_here("acme")
        arrange(monkeypatch)

        with pytest.raises((northbridge.DeviceTypeTakenError, northbridge.SoftwareLoadError)) as caught:
            loaded.load(make())

        assert (str(caught.value), caught.value.backend) == (told, "tested")
        assert current.loaded() is None

    @pytest.mark.parametrize("name", ["tested", "cuda"], ids=["its own", "torch's own"])
    def test_own_software_and_torchs_may_come_before(
        self, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        announce(tmp_path, name, name)
        monkeypatch.syspath_prepend(tmp_path)
        if name == "tested":
            _register_module("tested", monkeypatch)
        backend = make()

        loaded.load(backend)

        assert current.loaded() is backend

    def test_a_simulated_chip_warns_of_the_hardware_that_it_hides(self, monkeypatch: pytest.MonkeyPatch) -> None:
        _give_cuda(monkeypatch, hip="6.4")
        monkeypatch.setattr(torch.xpu, "is_available", lambda: True)
        monkeypatch.setattr(torch.mps, "is_available", lambda: False)

        loaded.load(make())  # a warning is an error here
        monkeypatch.setattr(current, "_up", [])
        _give_cuda(monkeypatch, cuda="12.8")
        with pytest.warns(UserWarning, match="is simulated") as caught:
            loaded.load(make(simulated=True))

        (warning,) = caught
        assert str(warning.message) == (
            "'tested' is simulated, and this process can no longer train on cuda or xpu: torch serves one accelerator"
            " per process"
        )
