"""docs/errors.md: every error has a section, and the messages there are what Northbridge says."""

from __future__ import annotations

import inspect
import json
import re

import pytest
from tests.core.conftest import Install
from tests.docs.page import PAGES, shows

from northbridge import errors

ALL = [name for name, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, errors.NorthbridgeError)]

# What a user's own Trainer or Fabric raises is a sample of the page, which test_samples.py runs.
PRODUCED = {
    "BackendDisabledError": "with environ(NORTHBRIDGE_DISABLE='cpu_sim'): northbridge.get('cpu_sim')",
    "BackendConflictError": "northbridge.get('twin')",
    "BackendNameError": "northbridge.get('cuda')",
    "PluginImportError": "northbridge.get('import_raises')",
    "PluginHookError": "northbridge.get('hook_misspelt')",
    "PluginAPIError": "northbridge.get('newer_api')",
    "PluginNameError": "northbridge.get('other_name')",
    "SoftwareMissingError": "northbridge.load('load_needs_software')",
    "SoftwareLoadError": "northbridge.load('load_raises')",
    "BuildError": "find_compiler({'PATH': ''})",
    "HardwareMissingError": "load_with_hardware('no_hardware')",
    "DetectionError": "discovery.detect('probe_crashes')",
    "AmbiguousAcceleratorError": "auto(acme=2, load_raises=1)",
    "ClusterError": "check_environment(Run(nodes=2, devices=4, launcher='lightning', stage='launch'), {})",
    "SettingsError": "with environ(NORTHBRIDGE_CPU_SIM_DEVICES='many'): discovery.detect('cpu_sim')",
    "DeviceTypeTakenError": "northbridge.load('cpu_sim'); northbridge.load('acme')",
}
_VENDORS = (
    "acme",
    "hook_misspelt",
    "import_raises",
    "load_needs_software",
    "load_raises",
    "newer_api",
    "no_hardware",
    "other_name",
    "probe_crashes",
    "takes_cuda",
    "twin_one",
    "twin_two",
)
_CHILD = f"""
import json, os, socket
from contextlib import contextmanager
import northbridge
from northbridge import discovery
from northbridge.cluster import Run, check_environment
from northbridge.lightning.accelerator import load_with_hardware
from northbridge.lightning.auto import choose_auto
from northbridge_cpu_sim.compiler import find_compiler

socket.gethostname = lambda: "node-b"

@contextmanager
def environ(**variables):
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]

def auto(**present):
    for name, devices in present.items():
        northbridge.get(name).bridge.detect = lambda devices=devices: devices
    choose_auto(lambda: "cpu")

said = {{}}
for name, code in {list(PRODUCED.items())}:
    try:
        exec(code)
    except northbridge.NorthbridgeError as error:
        said[name] = f"{{type(error).__module__}}.{{type(error).__name__}}: {{error}}"
print(json.dumps(said))
"""


def sections() -> dict[str, str]:
    """Return the text of each section by its heading."""
    parts = re.split(r"^#+ (.+)$", PAGES["docs/errors.md"].read_text(), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.fixture(scope="module")
def said(install: Install) -> dict[str, str]:
    child = install(*_VENDORS).python(_CHILD)
    assert child.returncode == 0, child.stderr
    found: dict[str, str] = json.loads(child.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("name", ALL)
def test_every_error_has_a_section_with_a_message(name: str) -> None:
    groups = ("NorthbridgeError", "BackendError", "PluginError", "VariableError")  # nobody raises these themselves

    section = sections()[name]

    assert (name in groups) or f"{name}: " in section


@pytest.mark.parametrize("name", PRODUCED)
def test_the_message_shown_is_the_one_produced(name: str, said: dict[str, str]) -> None:
    shown = re.findall(rf"```text\n([\w.]+\.{name}: .*?)\n```", sections()[name], flags=re.S)

    assert [text for text in shown if shows(said[name], text)], said[name]


def test_no_message_is_shown_that_nothing_produces() -> None:
    for name, section in sections().items():
        for before, _ in re.findall(r"(```\n\n)?```text\n(northbridge\.errors\.\w+)", section):
            assert before or name in PRODUCED, f"{name}: its message follows no sample, and no code here produces it"
