"""docs/errors.md: every error has a section, and the messages there are what Northbridge says."""

from __future__ import annotations

import inspect
import json
import re

import pytest
from tests.core.conftest import Install, Site, install as install
from tests.docs.page import PAGES, shows

from northbridge import errors

ALL = [name for name, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, errors.NorthbridgeError)]

# What a user's own Trainer or Fabric raises is a sample of the page, which test_samples.py runs.
PRODUCED = {
    "BackendDisabledError": "with environ(NORTHBRIDGE_DISABLE='cpu_sim'): northbridge.get('cpu_sim')",
    "BackendConflictError": "northbridge.get('double')",
    "BackendNameError": "northbridge.get('cuda')",
    "PluginImportError": "northbridge.get('import_raises')",
    "PluginHookError": "northbridge.get('hook_misspelt')",
    "PluginAPIError": "northbridge.get('newer_api')",
    "PluginNameError": "northbridge.get('other_name')",
    "PluginContractError": "contract_of(northbridge.get('contract_misspelt'), who=describe('contract_misspelt'))",
    "PluginClaimError": "reject_unknown_operators('acme', ['lstmm'])",
    "SoftwareMissingError": "northbridge.load('load_needs_software')",
    "SoftwareLoadError": "northbridge.load('load_raises')",
    "BuildError": "find_compiler({'PATH': ''})",
    "FaultError": "Fault('kil')",
    "DeviceFileError": "read_device_file('[device]')",
    "SimulationError": "with environ(NORTHBRIDGE_SIMULATE='acme'): northbridge.get('acme')",
    "HardwareMissingError": "load_with_hardware('no_hardware')",
    "DetectionError": "present.detect(northbridge.get('probe_crashes'))",
    "InstallationError": "list_beside_damaged_metadata()",
    "ReportError": "Report.read(Path('acme.json'))",
    "AmbiguousAcceleratorError": "auto(acme=2, load_raises=1)",
    "ClusterError": "check_environment(Run(nodes=2, devices=4, launcher='lightning', stage='launch'), {})",
    "SettingsError": "with environ(NORTHBRIDGE_CPU_SIM_DEVICES='many'): present.detect(northbridge.get('cpu_sim'))",
    "DeviceTypeTakenError": "northbridge.load('cpu_sim'); northbridge.load('acme')",
    # The last: from here on torch has something that is called as a backend's device.
    "ContractError": "torch.contracted = ModuleType('contracted'); reject_software_of('contracted')",
}
ALONE = {
    "DeviceBusyError": "take_what_another_process_holds()",
    "NotSimulatedError": "import habana_frameworks.torch.gpu_migration",
}
"""Errors that are produced on a simulated chip, each in its own process."""
_VENDORS = (
    *("acme", "contract_misspelt", "contracted", "hook_misspelt", "import_raises", "load_needs_software"),
    *(
        "load_raises",
        "newer_api",
        "no_hardware",
        "other_name",
        "probe_crashes",
        "takes_cuda",
        "double_one",
        "double_two",
    ),
)
_PRELUDE = '''
import json, os, socket, sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from sys import executable
from tempfile import TemporaryDirectory
from types import ModuleType
import torch
import northbridge
from northbridge.discovery import present
from northbridge.discovery.installed import describe
from northbridge.launch.cluster import Run, check_environment
from northbridge_conformance.report.report import Report
from northbridge_conformance.tests.device.claimed_operators import reject_unknown_operators
from northbridge.contract import contract_of, reject_broken
from northbridge.lightning.accelerators.accelerator import load_with_hardware
from northbridge.lightning.connector.choices import choose_auto
from northbridge_cpu_sim import Fault, SimulatedDevice
from northbridge_cpu_sim.build.recipe import find_compiler

socket.gethostname = lambda: "node-b"

@contextmanager
def environ(**variables):
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]

@contextmanager
def folder_of_its_own():
    with TemporaryDirectory() as folder, ExitStack() as back:
        back.callback(os.chdir, os.getcwd())
        os.chdir(folder)
        yield

def read_device_file(text):
    with folder_of_its_own():
        Path("device.toml").write_text(text)
        SimulatedDevice.read(Path("device.toml"))

def list_beside_damaged_metadata():
    with folder_of_its_own(), ExitStack() as back:
        metadata = Path("site-packages/other-1.0.dist-info")
        metadata.mkdir(parents=True)
        (metadata / "entry_points.txt").write_bytes(bytes([255]))
        sys.path.append("site-packages")
        back.callback(sys.path.remove, "site-packages")
        northbridge.installed()

def reject_software_of(name):
    reject_broken(contract_of(northbridge.get(name), who=describe(name)))

TAKE = """
import northbridge
chip = northbridge.load("hpu")
chip.bridge.prepare_rank(index=0, local_rank=0, world_size=1)
chip.device.select(0)
"""

def take_what_another_process_holds():
    with Popen([executable, "-c", TAKE + "print(); input()"], stdin=PIPE, stdout=PIPE, stderr=DEVNULL) as holder:
        holder.stdout.readline()
        exec(TAKE)

def auto(**present):
    for name, devices in present.items():
        northbridge.get(name).bridge.detect = lambda devices=devices: devices
    choose_auto(lambda: "cpu")

said = {}

def produce(name, code):
    try:
        exec(code, globals())
    except northbridge.NorthbridgeError as error:
        said[name] = f"{type(error).__module__}.{type(error).__name__}: {error}"
'''


def produce(site: Site, produced: dict[str, str], **environ: str) -> dict[str, str]:
    """Return the message that each of these pieces of code ends with, by the name of the error."""
    child = site.python(
        f"{_PRELUDE}\nfor name, code in {list(produced.items())}:\n    produce(name, code)\nprint(json.dumps(said))",
        **environ,
    )
    assert child.returncode == 0, child.stderr
    found: dict[str, str] = json.loads(child.stdout.splitlines()[-1])
    return found


def sections() -> dict[str, str]:
    """Return the text of each section by its heading."""
    parts = re.split(r"^#+ (.+)$", PAGES["docs/errors.md"].read_text(), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.fixture(scope="module")
def said(install: Install, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    site = install(*_VENDORS)
    simulated = {"NORTHBRIDGE_SIMULATE": "hpu", "NORTHBRIDGE_HPU_SIM_SERVER": str(tmp_path_factory.mktemp("server"))}
    return produce(site, PRODUCED) | produce(site, ALONE, **simulated)


@pytest.mark.parametrize("name", ALL)
def test_every_error_has_a_section_with_a_message(name: str) -> None:
    groups = ("NorthbridgeError", "BackendError", "PluginError", "VariableError")  # nobody raises these themselves

    section = sections()[name]

    assert (name in groups) or f"{name}: " in section


@pytest.mark.parametrize("name", [*PRODUCED, *ALONE])
def test_the_message_shown_is_the_one_produced(name: str, said: dict[str, str]) -> None:
    shown = re.findall(rf"```text\n([\w.]+\.{name}: .*?)\n```", sections()[name], flags=re.S)

    assert [text for text in shown if shows(said[name], text)], said[name]


def test_no_message_is_shown_that_nothing_produces() -> None:
    for name, section in sections().items():
        for before, _ in re.findall(r"(```\n\n)?```text\n(northbridge\.errors\.\w+)", section):
            assert before or name in (*PRODUCED, *ALONE), (
                f"{name}: its message follows no sample, and no code here produces it"
            )
