from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Callable
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest
from bench.plugin import announce
from tests.core.conftest import Site
from tests.core.lightning.conftest import Build, refusal

from northbridge import Backend, Bridge, Capabilities, Collective, Device, process_record
from northbridge.discovery import declared, installed
from northbridge.discovery.installed import names
from northbridge.errors import AmbiguousAcceleratorError, BackendNotFoundError, DetectionError, SettingsError
from northbridge.lightning.connector import choices
from northbridge.lightning.connector.choices import choose_auto
from northbridge.process_record import Entry, record
from northbridge.processes.question import DetectedDevices

Add = Callable[..., None]


class AcmeDevice(Device):
    type = "acme"


class ACCL(Collective):
    name = "accl"


class AcmeBridge(Bridge):
    def __init__(self, cards: int) -> None:
        self.cards = cards

    def load(self) -> None:
        raise AssertionError("auto loads what it has chosen, and nothing else")

    def detect(self) -> int:
        if self.cards < 0:
            raise OSError("the driver is gone")
        return self.cards


@pytest.fixture(autouse=True)
def a_fresh_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_record, "_entries", [])


def said_by_auto() -> tuple[Entry, ...]:
    return tuple(entry for entry in record() if entry.subject == "auto")


@pytest.fixture
def brought_up(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The backends that auto would have loaded: a process can load only one."""
    names: list[str] = []
    monkeypatch.setattr(choices, "load_with_hardware", names.append)
    return names


@pytest.fixture
def add(monkeypatch: pytest.MonkeyPatch, brought_up: list[str]) -> Add:
    """Install a backend beside the simulated chip, with so many cards in this machine."""
    entries = [EntryPoint("cpu_sim", "northbridge_cpu_sim", installed.GROUP)]
    monkeypatch.setattr(installed, "read_entry_points", lambda: EntryPoints(entries))

    def posing(name: str, *, cards: int, **capabilities: bool) -> None:
        entries.append(EntryPoint(name, f"northbridge_{name}", installed.GROUP))
        backend = Backend(name, AcmeDevice(), ACCL(), AcmeBridge(cards), Capabilities(**capabilities))  # type: ignore[arg-type]
        monkeypatch.setitem(declared._declared, name, backend)

    return posing


def test_machine_without_an_accelerator_uses_the_cpu(build: Build) -> None:
    built = build()

    assert type(built.strategy.accelerator).__name__ == "CPUAccelerator"
    assert said_by_auto() == (
        Entry("auto", "passed over cpu_sim", "it is simulated; NORTHBRIDGE_SIMULATE=cpu_sim would choose it"),
        *(Entry("auto", f"passed over {name}", "no hardware is present") for name in names() if name != "cpu_sim"),
        Entry("auto", "chose cpu", "no accelerator's hardware is present"),
    )


def test_the_simulated_chip_that_is_named_comes_first(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NORTHBRIDGE_SIMULATE", "cpu_sim")

    assert choose_auto(lambda: "cuda") == "cpu_sim"
    strategy = build(devices=1).strategy

    assert strategy.accelerator.name() == "cpu_sim"
    assert str(strategy.root_device) == "cpu_sim:0"
    assert Entry("auto", "chose cpu_sim", "NORTHBRIDGE_SIMULATE names it") in record()


@pytest.mark.parametrize(
    ("value", "kind", "said"),
    [
        ("gpu_sim", BackendNotFoundError, "no backend 'gpu_sim' is installed"),
        ("1", SettingsError, "NORTHBRIDGE_SIMULATE='1' is not the name"),
    ],
)
def test_a_simulated_chip_that_nobody_brings_is_refused(
    build: Build, monkeypatch: pytest.MonkeyPatch, value: str, kind: type[Exception], said: str
) -> None:
    monkeypatch.setenv("NORTHBRIDGE_SIMULATE", value)

    with pytest.raises(kind, match=said):
        build()


def test_an_accelerator_named_by_the_user_does_not_involve_auto(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NORTHBRIDGE_SIMULATE", "cpu_sim")

    assert type(build(accelerator="cpu", devices=1).strategy.accelerator).__name__ == "CPUAccelerator"
    assert said_by_auto() == ()


@pytest.mark.parametrize("name", ["acme", "cuda"])
def test_what_lightning_finds_by_itself_wins(add: Add, brought_up: list[str], name: str) -> None:
    """Though a plugin calls itself cuda."""
    add(name, cards=8)

    assert choose_auto(lambda: "cuda") == "cuda"
    assert brought_up == []
    assert said_by_auto() == (Entry("auto", "chose cuda", "Lightning found its hardware"),)


def test_lightnings_find_with_our_name_becomes_ours(
    add: Add, brought_up: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    add("acme", cards=8)

    assert choose_auto(lambda: "acme") == "acme"
    assert brought_up == ["acme"]
    assert said_by_auto() == (Entry("auto", "chose acme", "Lightning found its hardware"),)

    monkeypatch.setenv("NORTHBRIDGE_DISABLE", "acme")
    assert choose_auto(lambda: "acme") == "acme"
    assert brought_up == ["acme"]  # and not again


def test_the_one_backend_whose_hardware_is_present_is_chosen(add: Add, brought_up: list[str]) -> None:
    add("acme", cards=8)
    add("apex", cards=0)
    add("argo", cards=-1)
    add("axon", cards=8, auto=False)

    assert choose_auto(lambda: "cpu") == "acme"
    assert brought_up == ["acme"]
    apex, broken, shy, simulated, chosen = said_by_auto()
    assert apex == Entry("auto", "passed over apex", "no hardware is present")
    assert broken.outcome == "passed over argo"
    assert "detect() raised OSError: the driver is gone" in broken.reason
    assert shy == Entry("auto", "passed over axon", "it asks not to be chosen by auto")
    assert simulated.reason == "it is simulated; NORTHBRIDGE_SIMULATE=cpu_sim would choose it"
    assert chosen == Entry("auto", "chose acme", "its hardware is present, and no other accelerator's")


def test_two_present_backends_are_an_error(add: Add, brought_up: list[str]) -> None:
    add("apex", cards=1)
    add("acme", cards=8)

    said = refusal(AmbiguousAcceleratorError, choose_auto, lambda: "cpu")

    assert said == "accelerator='auto' found acme and apex. Fix: accelerator='acme'"
    assert brought_up == []


def test_a_backend_that_is_switched_off_is_passed_over(add: Add, monkeypatch: pytest.MonkeyPatch) -> None:
    add("acme", cards=8)
    monkeypatch.setenv("NORTHBRIDGE_DISABLE", "acme")

    assert choose_auto(lambda: "cpu") == "cpu"
    reasons = {entry.outcome: entry.reason for entry in record()}
    assert "is disabled. Fix: remove" in reasons["passed over acme"]


def test_disabling_a_name_that_no_backend_has_is_refused(add: Add, monkeypatch: pytest.MonkeyPatch) -> None:
    add("acme", cards=8)
    monkeypatch.setenv("NORTHBRIDGE_DISABLE", "ACME")

    with pytest.raises(SettingsError, match=r"^NORTHBRIDGE_DISABLE='ACME': .* Did you mean 'acme'\?$"):
        choose_auto(lambda: "cpu")


def test_backend_that_takes_too_long_is_an_error(add: Add, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have hardware, so the run does not go to the CPU."""
    add("acme", cards=8)
    hangs = threading.Event()
    monkeypatch.setattr(AcmeBridge, "detect", lambda bridge: hangs.wait() and bridge.cards)
    monkeypatch.setenv("NORTHBRIDGE_DETECT_TIMEOUT", "1")

    with pytest.raises(DetectionError, match=r"'acme' .*took longer than 1 s\. Fix: .*NORTHBRIDGE_DISABLE=acme$"):
        choose_auto(lambda: "cpu")
    hangs.set()


def test_slow_backend_does_not_affect_a_present_one(add: Add, monkeypatch: pytest.MonkeyPatch) -> None:
    add("acme", cards=8)
    add("apex", cards=8)

    def look(name: str) -> DetectedDevices:
        if name == "acme":
            raise DetectionError("backend 'acme': took longer than 20 s", backend="acme", timed_out=True)
        return {"devices": int(name == "apex")}

    monkeypatch.setattr(choices, "candidate", look)

    assert choose_auto(lambda: "cpu") == "apex"
    assert Entry("auto", "passed over acme", "backend 'acme': took longer than 20 s") in record()


RUDE = {
    "import os; os._exit(0)": "ended with exit code 0",
    "import ctypes; ctypes.string_at(0)": "was killed by SIGSEGV",
    "raise SystemExit('no licence')": "could not be imported: SystemExit: no licence",
}
UNHURT = """
import json
from lightning.pytorch import Trainer
import northbridge
trainer = Trainer(logger=False, enable_checkpointing=False, enable_progress_bar=False, devices=1)
reasons = {entry.outcome: entry.reason for entry in northbridge.record() if "over rude" in entry.outcome}
print(json.dumps([trainer.accelerator.name() if hasattr(trainer.accelerator, "name") else "cpu", reasons]))
"""


def test_no_plugin_can_hurt_the_process(install: Callable[..., Site], tmp_path: Path) -> None:
    for number, body in enumerate(RUDE):
        announce(tmp_path, f"rude{number}", f"northbridge_rude{number}")
        (tmp_path / f"northbridge_rude{number}.py").write_text(f"print('noise')\n{body}\n")
    site = install("import_raises")

    child = dataclasses.replace(site, folders=(*site.folders, tmp_path)).python(UNHURT, NORTHBRIDGE_DETECT_TIMEOUT="1")

    assert child.returncode == 0, child.stderr
    assert "noise" not in child.stdout
    name, reasons = json.loads(child.stdout.splitlines()[-1])
    assert name == "cpu"
    for number, reason in enumerate(RUDE.values()):
        assert reason in reasons[f"passed over rude{number}"]
