"""Loading of the vendor's software: its registration, and the checks before."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest
from tests.backends.simulation.processes import Run
from tests.core.command import command

LOAD = """
import json, torch
import northbridge
try:
    northbridge.load("sdaa")
    told = [torch.sdaa.device_count(), torch._C._get_privateuse1_backend_name()]
    on = torch.ones(2, device="sdaa:1", requires_grad=True)
    told.append((on * 3).sum().item())
except northbridge.NorthbridgeError as error:
    told = [type(error).__name__, str(error)]
print(json.dumps(told))
"""


def load(run: Run, first: str = "", **environ: str) -> list[object]:
    told: list[object] = json.loads(run(LOAD, first=first, **environ).splitlines()[-1])
    return told


@pytest.mark.parametrize(
    ("registration", "name"), [("renamed", "sdaa"), ("patched", "privateuseone")], ids=["renamed", "patched"]
)
@pytest.mark.parametrize("autoload", ["0", "1"], ids=["imported by the bridge", "imported with torch"])
@pytest.mark.shows("sdaa is a device type of torch", "import torch brings torch_sdaa in")
def test_it_loads_however_the_vendor_has_done_it(run: Run, registration: str, name: str, autoload: str) -> None:
    environ = {"NORTHBRIDGE_SDAA_SIM_REGISTRATION": registration, "NORTHBRIDGE_SDAA_SIM_AUTOLOAD": autoload}

    assert load(run, **environ) == [32, name, 6.0]


def test_a_script_may_import_the_vendors_package_itself(run: Run) -> None:
    assert load(run, first="import torch\nimport torch_sdaa\n") == [32, "sdaa", 6.0]


@pytest.mark.parametrize("text", ["0", "off", "none", "A100"])
@pytest.mark.shows("TORCH_SDAA_ALIGN_NV_DEVICE")
def test_aborting_alignment_is_caught_before(run: Run, text: str) -> None:
    kind, sentence = load(run, TORCH_SDAA_ALIGN_NV_DEVICE=text)

    assert kind == "SettingsError"
    assert str(sentence).startswith(f"TORCH_SDAA_ALIGN_NV_DEVICE={text!r} is not a100 or v100 ")


@pytest.mark.parametrize("text", ["a100", "v100"])
def test_a_device_to_align_with_is_left_to_the_vendor(run: Run, text: str) -> None:
    assert load(run, TORCH_SDAA_ALIGN_NV_DEVICE=text) == [32, "sdaa", 6.0]


def test_devices_are_renumbered_by_the_variable(run: Run) -> None:
    told = run(
        """
        import northbridge
        northbridge.load("sdaa")
        print(torch.sdaa.device_count(), [torch.sdaa.get_device_name(index) for index in range(2)])
        """,
        first="import torch\n",
        SDAA_VISIBLE_DEVICES="13,0",
    )

    assert told.splitlines()[-1] == "2 ['/dev/tcaicard3', '/dev/tcaicard0']"


def test_chip_unknown_to_autograd_is_told_with_the_fix(run: Run) -> None:
    program = """
    from lightning.pytorch import Trainer
    from northbridge import SoftwareLoadError
    trainer = Trainer(accelerator="sdaa", devices=1, logger=False, enable_checkpointing=False)
    from lightning.pytorch.demos.boring_classes import BoringModel
    try:
        trainer.fit(BoringModel())
    except SoftwareLoadError as error:
        print(error)
    """

    told = run(program, first="import torch\ntorch.ones(1, requires_grad=True).sum().backward()\n")

    assert "'sdaa' was loaded too late: a backward() ran before, and autograd serves only devices it knew then" in told
    assert "Fix: `import northbridge; northbridge.load('sdaa')` at the top of the script" in told


def test_list_calls_nothing_else_broken_where_torch_loads_it(start: Callable[..., subprocess.Popen[str]]) -> None:
    process = start(command("list", "--json"), first="", NORTHBRIDGE_SDAA_SIM_AUTOLOAD="1")
    said = process.communicate(timeout=200)[0]

    assert process.returncode == 0, said
    listed = json.loads(said[said.index("{") : said.rindex("}") + 1])["backends"]
    states = {each["name"]: each["status"] for each in listed}
    assert (states["sdaa"], states["cpu_sim"]) == ("ready", "other chip")
    (reason,) = (each["reason"] for each in listed if each["name"] == "cpu_sim")
    assert reason.endswith("if torch loads it by itself, set TORCH_DEVICE_BACKEND_AUTOLOAD=0")


def test_devices_that_are_all_absent_are_told_by_the_variable(run: Run) -> None:
    program = """
    import northbridge
    from northbridge.discovery.present import detect
    try:
        detect(northbridge.get("sdaa"))
    except northbridge.SettingsError as error:
        print(error)
    """

    told = run(program, first="import torch\n", SDAA_VISIBLE_DEVICES="40")

    assert "SDAA_VISIBLE_DEVICES=40 names 1 core groups; torch.sdaa counts 0. " in told


def test_the_vendors_migration_that_a_script_imports_is_refused(run: Run) -> None:
    first = "import torch\ntorch.cuda.is_available = lambda: True  # as the vendor's module for migration makes it\n"

    kind, sentence = load(run, first=first)

    assert kind == "SoftwareLoadError"
    assert "a migration shim is active" in str(sentence)
