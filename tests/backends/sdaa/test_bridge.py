"""Loading of the vendor's software: its registration, and the checks of its variables before."""

from __future__ import annotations

import json

import pytest
from tests.backends.simulation.processes import Run
from tests.core.command import command

import northbridge
from northbridge_sdaa.settings import SDAASettings

LOAD = """
import json, torch
import northbridge
from northbridge.device import describe_device_type
try:
    northbridge.load("sdaa")
    told = [torch.sdaa.device_count(), describe_device_type("sdaa")]
    on = torch.ones(2, device="sdaa:1", requires_grad=True)
    told.append((on * 3).sum().item())
except northbridge.NorthbridgeError as error:
    told = [type(error).__name__, str(error)]
print(json.dumps(told))
"""


def load(run: Run, first: str, **environ: str) -> list[object]:
    told: list[object] = json.loads(run(LOAD, first=first, **environ).splitlines()[-1])
    return told


TORCH_FIRST = "import torch\n"
RENAMED = "torch's spare device type, PrivateUse1, renamed to 'sdaa'"


@pytest.mark.parametrize(
    ("registration", "kind"),
    [("renamed", RENAMED), ("patched", "a device type of its own, 'sdaa', in this torch")],
    ids=["renamed", "patched"],
)
@pytest.mark.parametrize(("autoload", "first"), [("0", TORCH_FIRST), ("1", "")], ids=["by the bridge", "with torch"])
@pytest.mark.shows("sdaa is a device type of torch", "import torch brings torch_sdaa in")
def test_it_loads_however_the_vendor_has_done_it(
    run: Run, registration: str, kind: str, autoload: str, first: str
) -> None:
    environ = {"NORTHBRIDGE_SDAA_SIM_REGISTRATION": registration, "NORTHBRIDGE_SDAA_SIM_AUTOLOAD": autoload}

    assert load(run, first, **environ) == [32, kind, 6.0]


@pytest.mark.parametrize("aligned", ["a100", "v100"])
def test_a_script_may_import_the_vendors_package_itself(run: Run, aligned: str) -> None:
    environ = {"TORCH_SDAA_ALIGN_NV_DEVICE": aligned}  # which is the vendor's affair

    assert load(run, first=TORCH_FIRST + "import torch_sdaa\n", **environ) == [32, RENAMED, 6.0]


@pytest.mark.shows("TORCH_SDAA_ALIGN_NV_DEVICE")
def test_aborting_alignment_is_caught_before(run: Run) -> None:
    kind, sentence = load(run, TORCH_FIRST, TORCH_SDAA_ALIGN_NV_DEVICE="off")

    assert kind == "SettingsError"
    assert str(sentence).startswith("TORCH_SDAA_ALIGN_NV_DEVICE='off' is not a100 or v100 ")


def test_devices_are_renumbered_by_the_variable(run: Run) -> None:
    told = run(
        """
        import northbridge
        northbridge.load("sdaa")
        print(torch.sdaa.device_count(), [torch.sdaa.get_device_name(index) for index in range(2)])
        """,
        first=TORCH_FIRST,
        SDAA_VISIBLE_DEVICES="13,0",
    )

    assert told.splitlines()[-1] == "2 ['/dev/tcaicard3', '/dev/tcaicard0']"


def test_list_calls_nothing_else_broken_where_torch_loads_it(run: Run) -> None:
    said = run(command("list", "--json"), first="", NORTHBRIDGE_SDAA_SIM_AUTOLOAD="1")

    listed = json.loads(said[said.index("{") : said.rindex("}") + 1])["backends"]
    states = {each["name"]: each["status"] for each in listed}
    assert (states["sdaa"], states["cpu_sim"]) == ("ready", "other chip")
    (reason,) = (each["reason"] for each in listed if each["name"] == "cpu_sim")
    assert reason.endswith("if torch loads it by itself, set TORCH_DEVICE_BACKEND_AUTOLOAD=0")


DEVICES = "a list of devices (core groups), each once, with commas between, such as 0,1,2,3"
ALIGNED = "a100 or v100 (anything else, 0 and off too, aborts the vendor's software)"


@pytest.mark.parametrize(
    ("variable", "text", "allowed"),
    [
        ("SDAA_VISIBLE_DEVICES", "0,x", DEVICES),
        ("SDAA_VISIBLE_DEVICES", "1,1", DEVICES),
        *(("TORCH_SDAA_ALIGN_NV_DEVICE", text, ALIGNED) for text in ("0", "off", "none", "A100")),
        ("TORCH_SDAA_CONV_USE_FP32", "yes", "0 or 1"),
        ("TORCH_SDAA_CONV2D_BACKWARD_USE_FP32", "2", "0 or 1"),
        ("TORCH_SDAA_BF16_CLIP", "on", "0 or 1"),
    ],
)
def test_a_wrong_value_is_refused_with_what_is_allowed(variable: str, text: str, allowed: str) -> None:
    with pytest.raises(northbridge.SettingsError) as caught:
        SDAASettings.read({variable: text})

    assert caught.value.variable == variable
    assert str(caught.value) == f"{variable}={text!r} is not {allowed}. Fix: correct or unset it"


def test_to_pass_for_cuda_is_refused() -> None:
    with pytest.raises(northbridge.SettingsError) as caught:
        SDAASettings.read({"TORCH_SDAA_AUTOLOAD": "cuda_migrate"}).reject_migration()

    assert str(caught.value) == "TORCH_SDAA_AUTOLOAD=cuda_migrate fakes CUDA. Fix: unset it"
    assert set(SDAASettings.read({}).model_dump().values()) == {None}  # what is not set is nobody's choice
    SDAASettings.read({"TORCH_SDAA_AUTOLOAD": "something_new"}).reject_migration()  # the vendor's affair
