"""Loading of the vendor's software: its variables, the effects of its import, and the card of a rank."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import pytest
from tests.backends.simulation.processes import Run

import northbridge
from northbridge import SettingsError
from northbridge_hpu.bridge import HPUBridge
from northbridge_hpu.settings import KNOWN_SUBSETS, HPUSettings

LOAD = "import northbridge\nbackend = northbridge.load('hpu')\nimport os, torch\n"
NEVER_SET = ("MASTER_ADDR", "MASTER_PORT", "HLS_MODULE_ID", "ID")
SCRIPTS = {"MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
TELL = f"""
import json, os
print(json.dumps({{name: os.environ.get(name) for name in {NEVER_SET}}}))
print(torch.hpu.is_initialized(), torch.hpu.device_count())
"""
RANK = "backend.bridge.prepare_rank(index={index}, local_rank=0, world_size={world_size})\n"
ASK = "print(os.environ['HLS_MODULE_ID'], os.environ['HABANA_VISIBLE_MODULES'])"
REFUSED = """
try:
    backend.bridge.prepare_rank(index={index}, local_rank=0, world_size={world_size})
except northbridge.NorthbridgeError as error:
    print(type(error).__name__, error)
"""
SETS = "0,1; 2,3; 4,5; 6,7; 0,1,2,3; 4,5,6,7; 0,1,2,3,4,5,6,7"
OTHER = "SettingsError HLS_MODULE_ID={} is set, but this rank's card is module {}. Fix: unset it"


def last(said: str) -> str:
    return said.strip().splitlines()[-1]


TAKEN_OR_REFUSED = """
from northbridge.lightning.strategies.compilation import reject_compiler
for asked in ("hpu_backend", "inductor"):
    try:
        reject_compiler(backend, {"backend": asked})
        print(asked, "is taken")
    except northbridge.UnsupportedError as error:
        print(error)
from northbridge_hpu.simulated import markers
before = markers.placed
backend.bridge.after_backward(); backend.bridge.after_step(); backend.bridge.after_evaluation()
print(markers.placed - before)
"""


EAGER = [
    "hpu_backend is taken",
    (
        "'hpu' cannot compile with 'inductor': it generates no code for Gaudi. Fix: write torch.compile(model,"
        " backend='hpu_backend')"
    ),
]
LAZY = [
    (
        "'hpu' cannot compile with 'hpu_backend': lazy mode makes graphs by itself, and PT_HPU_LAZY_MODE=0 chooses"
        " eager mode. Fix: leave torch.compile out"
    ),
    "'hpu' cannot compile with 'inductor': it generates no code for Gaudi. Fix: leave torch.compile out",
]


@pytest.mark.parametrize(("lazy", "refused", "marked"), [("0", EAGER, "0"), ("1", LAZY, "3")], ids=["eager", "lazy"])
def test_eager_mode_has_a_compiler_and_lazy_mode_markers(run: Run, lazy: str, refused: list[str], marked: str) -> None:
    said = run(TAKEN_OR_REFUSED, first=LOAD, PT_HPU_LAZY_MODE=lazy)

    assert said.strip().splitlines()[-3:] == [*refused, marked]


SCRIPT_FIRST = "import torch\nimport habana_frameworks.torch.core\n"
SETTING = "import os, torch\nassert os.environ['MASTER_PORT'] == '12345'\nos.environ.update({})\n"
USERS = {"MASTER_ADDR": "localhost", "MASTER_PORT": "12345"}
ALL = {"MASTER_ADDR": "10.0.0.7", "MASTER_PORT": "29517", "HLS_MODULE_ID": "3"}


@pytest.mark.parametrize(
    ("first", "environ", "left"),
    [
        ("", {}, {}),
        ("", ALL, ALL),
        (SETTING.format(SCRIPTS), {}, SCRIPTS),
        (SETTING.format({"MASTER_ADDR": "localhost"}), {}, {}),
        ("", {"MASTER_PORT": "29500"}, {"MASTER_PORT": "29500"}),
        (SCRIPT_FIRST, {}, {}),
        (SCRIPT_FIRST, {"WORLD_SIZE": "4", "RANK": "2", "LOCAL_RANK": "2"}, {}),
        (SCRIPT_FIRST, USERS, USERS),  # told by what a process was started with
    ],
    ids=[
        "nothing of what it writes",
        "what the user set",
        "an address and a port that the script sets after torch",
        "an address as the import's",
        "a port alone brings no address",
        "nothing where the script was first",
        "nothing in a rank where the script was first",
        "what the user set where the script was first",
    ],
)
def test_the_import_leaves_behind(run: Run, first: str, environ: dict[str, str], left: dict[str, str]) -> None:
    said = run(TELL, first=first + LOAD, **environ).strip().splitlines()

    assert json.loads(said[-2]) == {**dict.fromkeys(NEVER_SET), **left}
    assert said[-1] == "False 8"  # no card is taken


class TestTheCardOfARank:
    """Module ids are a permutation of the indices, 5,4,7,6,2,1,0,3 here; ``devices=`` counts in their own order."""

    @pytest.mark.parametrize(
        ("asked", "environ", "chosen"),
        [
            ([(5, 8)], {}, "5 0,1,2,3,4,5,6,7"),
            # No documented set has six cards, and the user chose none.
            ([(0, 2), (1, 2)], {"NORTHBRIDGE_CPU_SIM_DEVICES": "6"}, "1 0,1,2,3,4,5"),
            ([(1, 2)], {"HABANA_VISIBLE_MODULES": "3,2"}, "2 3,2"),
            ([(0, 1)], {"HLS_MODULE_ID": "6"}, "6 0,1,2,3,4,5,6,7"),
            ([(1, 1), (2, 1)], {}, "2 0,1,2,3,4,5,6,7"),
            (
                [(1, 2)],
                {"HABANA_VISIBLE_MODULES": "", "WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1"},
                "1 0,1,2,3,4,5,6,7",
            ),
        ],
        ids=[
            "by its place among the module ids",
            "what was chosen here is not the user's choice",
            "visible modules in their order",
            "the user's choice for one process",
            "not what this process chose before",
            "an empty list counts as none",
        ],
    )
    def test_it_is_chosen(self, run: Run, asked: list[tuple[int, int]], environ: dict[str, str], chosen: str) -> None:
        prepared = "".join(RANK.format(index=index, world_size=world_size) for index, world_size in asked)

        assert last(run(prepared + ASK, first=LOAD, **environ)) == chosen

    @pytest.mark.parametrize(
        ("index", "world_size", "environ", "said"),
        [
            (1, 2, {"HLS_MODULE_ID": "6"}, OTHER.format(6, "1 of 0,1,2,3,4,5,6,7")),
            (0, 1, {"HLS_MODULE_ID": "9"}, OTHER.format(9, "0 of 0,1,2,3,4,5,6,7")),
            (0, 1, {"HLS_MODULE_ID": "0", "HABANA_VISIBLE_MODULES": "2,3"}, OTHER.format(0, "2 of 2,3")),
            (3, 1, {"HLS_MODULE_ID": "0"}, OTHER.format(0, "3 of 0,1,2,3,4,5,6,7")),
            (
                2,
                4,
                {"HABANA_VISIBLE_MODULES": "0,1"},
                "DevicesError no device 2 of 'hpu': HABANA_VISIBLE_MODULES='0,1'. Fix: name more there",
            ),
            (
                0,
                2,
                {"HABANA_VISIBLE_MODULES": "1,2"},
                f"SettingsError HABANA_VISIBLE_MODULES='1,2' is not one of the vendor's sets: {SETS}",
            ),
            (
                0,
                1,
                {"HABANA_VISIBLE_MODULES": "9"},
                "SettingsError HABANA_VISIBLE_MODULES='9' names 9; found 0, 1, 2, 3, 4, 5, 6, 7",
            ),
        ],
        ids=[
            "a module id that every rank inherits",
            "a module id that is not there",
            "a module id that is not among the run's",
            "another module id than was asked for",
            "fewer visible modules than ranks",
            "modules that do not reach each other",
            "a module that is not there",
        ],
    )
    def test_it_is_refused(self, run: Run, index: int, world_size: int, environ: dict[str, str], said: str) -> None:
        program = REFUSED.format(index=index, world_size=world_size)

        assert last(run(program, first=LOAD, **environ)) == said


WHY = {
    "PT_HPU_GPU_MIGRATION": "redirects torch.cuda to the HPU, and 'nccl' to 'hccl'",
    "PT_HPU_EMULATE_DISTRIBUTED": "skips collectives",
}


@pytest.mark.parametrize(("variable", "why"), WHY.items())
@pytest.mark.parametrize(("with_torch", "imported"), [("0", False), ("1", True)], ids=["in time", "late"])
def test_deceiving_switch_is_refused(run: Run, variable: str, why: str, with_torch: str, imported: bool) -> None:
    attempt = """
import sys, northbridge
try:
    northbridge.load("hpu")
except northbridge.SettingsError as error:
    print("habana_frameworks.torch" in sys.modules, error.variable, error)
"""

    said = last(run(attempt, first="#\n", PT_HPU_AUTOLOAD=with_torch, **{variable: "1"}))

    assert said == f"{imported} {variable} {variable} {why}. Fix: unset it"


def test_useless_container_variable_is_warned_about(run: Run) -> None:
    """And the vendor's patches of modules are off, unless they are asked for."""
    ask = "print(os.environ['PT_HPU_WEIGHT_SHARING'])"
    said = run(ask, first=LOAD, HABANA_VISIBLE_DEVICES="0,1")

    assert (
        "HABANA_VISIBLE_DEVICES=0,1 is read by the container runtime only: this process sees 8 cards."
        " Fix: set HABANA_VISIBLE_MODULES"
    ) in said
    assert last(said) == "0"
    assert last(run(ask, first=LOAD, PT_HPU_WEIGHT_SHARING="1")) == "1"


@pytest.mark.parametrize(
    ("version", "package", "problem"),
    [
        ("1.24.1", "habana_frameworks", "its version is unlike 1.24.1.482"),
        ("1.24.1.482", "setup", "it brings no habana_frameworks"),
        ("0.0.0.0+5a56187", "habana_frameworks", "$"),  # the vendor's
    ],
)
def test_distribution_of_a_stranger(
    version: str, package: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = tmp_path / "habana_torch_plugin.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Name: habana-torch-plugin\nVersion: {version}\n")
    (metadata / "RECORD").write_text(f"{package}/__init__.py,,\n")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(northbridge.SoftwareMissingError, match=problem) if problem != "$" else nullcontext():
        HPUBridge().describe_machine()


# The settings themselves


def test_each_is_read_from_the_vendors_variable() -> None:
    settings = HPUSettings.read(
        {
            "HABANA_VISIBLE_MODULES": "3,1",
            "HABANA_VISIBLE_DEVICES": "0,2",
            "HLS_MODULE_ID": "5",
            "PT_HPU_LAZY_MODE": "1",
            "HABANA_LOGS": "/tmp",  # the vendor's many other variables are left alone
        }
    )

    assert settings.habana_visible_modules == (3, 1)
    assert settings.habana_visible_devices == (0, 2)
    assert settings.hls_module_id == 5
    assert settings.pt_hpu_lazy_mode == "1"
    assert HPUSettings.read({"HABANA_VISIBLE_DEVICES": "all"}).habana_visible_devices == "all"  # the containers' word


MODULES = "a list of module ids, each once, with commas between, such as 0,1,2,3"


@pytest.mark.parametrize(
    ("variable", "text", "allowed"),
    [
        *(("HABANA_VISIBLE_MODULES", text, MODULES) for text in ("0,one", "0,0", "-1,0")),
        ("HABANA_VISIBLE_DEVICES", "some", "'all', or a list of indices, each once, with commas between"),
        ("HLS_MODULE_ID", "first", "one module id, a whole number from 0"),
        ("PT_HPU_LAZY_MODE", "2", "0 (eager) or 1 (lazy)"),
        ("PT_HPU_GPU_MIGRATION", "maybe", "0 or 1"),
    ],
)
def test_what_is_allowed_is_said(variable: str, text: str, allowed: str) -> None:
    with pytest.raises(SettingsError) as caught:
        HPUSettings.read({variable: text})

    assert caught.value.variable == variable
    assert str(caught.value).startswith(f"{variable}={text!r} is not {allowed}. Fix: correct or unset it")

    # The vendor's software compares the text with "0" alone, so that an empty one is lazy mode.
    with pytest.raises(SettingsError, match=r"^PT_HPU_LAZY_MODE='' means lazy mode to the vendor. Fix: unset it, or"):
        HPUSettings.read({"PT_HPU_LAZY_MODE": ""})


def test_documented_sets_of_modules_are_allowed() -> None:
    for known in (*KNOWN_SUBSETS, "6"):  # in any order, and one alone
        modules = tuple(int(module) for module in reversed(known.split(",")))
        HPUSettings(habana_visible_modules=modules).reject_unknown_subset(modules)
    HPUSettings().reject_unknown_subset((0, 2))  # what the machine has is not the user's choice
    for unknown in ((0, 2), (0, 1, 2), (2, 3, 4, 5)):
        with pytest.raises(SettingsError, match="is not one of the vendor's sets: "):
            HPUSettings(habana_visible_modules=unknown).reject_unknown_subset(unknown)
